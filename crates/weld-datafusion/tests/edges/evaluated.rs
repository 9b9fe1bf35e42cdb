//! Expressions that have no lowering are evaluated by DataFusion, for the rows for which it would have evaluated them,
//! and the operators that read them are compiled.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use crate::common::{Engines, config};
use crate::outcome;

async fn table(partitions: usize) -> Engines {
    let engines = Engines::new(config(partitions));
    let rows = "
        SELECT v AS k, v % 4 AS z, CASE WHEN v % 5 = 0 THEN NULL ELSE v % 7 END AS n, v * 0.5 AS f,
               CASE WHEN v % 6 = 1 THEN NULL ELSE 'Text ' || CAST(v % 9 AS VARCHAR) END AS s
        FROM generate_series(0, 300) AS g(v)";
    engines.table_from("t", rows, 40).await;
    engines
}

/// Each query with what DataFusion evaluates for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_compile_around_them() {
    let engines = table(2).await;
    for (sql, operators, evaluated) in [
        ("SELECT reverse(s), count(*), sum(k * 2) FROM t GROUP BY reverse(s)", 2, 1),
        ("SELECT k + 1, upper(s) FROM t", 1, 1),
        ("SELECT k FROM t WHERE reverse(s) = '3 txeT' AND k > 5", 1, 1),
        ("SELECT sum(k) FROM t WHERE k > 5 AND n < 4 AND s ~ '[1-3]$'", 3, 1),
        ("SELECT sum(k) FROM t WHERE n < 4 AND (upper(s) = 'TEXT 2' OR z = 1)", 3, 1),
        ("SELECT z, avg(length(replace(s, 'e', ''))), max(k) FROM t GROUP BY z", 2, 1),
        ("SELECT count(*) FILTER (WHERE initcap(s) LIKE 'T%'), sum(k) FROM t", 2, 1),
        ("SELECT z, sum(CASE WHEN upper(s) = 'TEXT 1' THEN k ELSE 0 END) FROM t GROUP BY z", 2, 1),
        ("SELECT z, sum(CASE WHEN k > 9 THEN ascii(s) ELSE 0 END) FROM t GROUP BY z", 2, 1),
        (
            "SELECT a.k FROM (SELECT k, reverse(s) AS m, k % 10 AS j FROM t) a JOIN t b ON a.j = b.k WHERE a.m > '5'",
            2,
            1,
        ),
    ] {
        let run = engines.check(sql, operators).await;
        assert!(run.summary.evaluated.len() >= evaluated, "{sql}\n{:?}", run.summary);
    }
    let run = engines.check("SELECT k + 1, n FROM t WHERE k > 5", 1).await;
    assert!(run.summary.evaluated.is_empty(), "{:?}", run.summary);
}

/// Conditions of joins of every type, with foreign expressions of either side, of both, and below columns that follow
/// them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_of_joins() {
    for partitions in [1, 2] {
        let engines = table(partitions).await;
        let rows =
            "SELECT v AS k, v % 4 AS z, CASE WHEN v % 5 = 0 THEN NULL ELSE 'tEXT ' || CAST(v % 9 AS VARCHAR) END AS s
                    FROM generate_series(250, 340) AS g(v)";
        engines.table_from("u", rows, 20).await;
        for kind in ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"] {
            for condition in [
                "t.s <> initcap(u.s)",
                "upper(t.s) = upper(u.s)",
                "t.z < u.z AND upper(t.s) <> u.s AND u.k > t.n",
                "upper(t.s) = 'TEXT 3' OR u.z = 1",
            ] {
                for keys in ["t.k = u.k AND", "t.z = u.z AND t.k > 280 AND", "t.k > 295 AND u.k < 260 AND"] {
                    engines.check(&format!("SELECT * FROM t {kind} u ON {keys} ({condition})"), 0).await;
                    engines.check(&format!("SELECT u.z, t.n, t.k FROM t {kind} u ON {keys} ({condition})"), 0).await;
                }
            }
        }
        for sql in [
            "SELECT k, s FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND upper(u.s) <> t.s)",
            "SELECT k, s FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.s <> initcap(t.s))",
            "SELECT k, s FROM t WHERE z = 1 OR EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND upper(u.s) = upper(t.s))",
            "SELECT t.k, u.s FROM t JOIN u ON t.k = u.k AND split_part(t.s, 't', CAST(t.z AS INT)) <> u.s",
        ] {
            outcome(&engines, sql).await.unwrap_or_else(|difference| panic!("{difference}"));
        }
        let run = engines.check("SELECT t.k, u.s FROM t JOIN u ON t.k = u.k AND t.s <> upper(u.s)", 1).await;
        assert!(run.summary.evaluated.iter().any(|expr| expr.contains("upper")), "{:?}", run.summary);
        assert!(run.summary.declined.iter().all(|declined| !declined.operator.contains("Join")), "{:?}", run.summary);
    }
}

/// What is above a filter may rely on what its condition says to be equal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_condition_says_to_be_equal_stays_known() {
    let engines = table(2).await;
    for sql in [
        "SELECT s, rank() OVER (PARTITION BY z ORDER BY s) FROM t WHERE initcap(s) = s",
        "SELECT s, sum(k) OVER (PARTITION BY z ORDER BY s, k) FROM t WHERE s = concat('Text ', z)",
        "SELECT z, k FROM t WHERE concat(k % 4, '') = CAST(z AS VARCHAR) ORDER BY CAST(z AS VARCHAR), k",
    ] {
        engines.check(sql, 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_are_shown() {
    let engines = table(2).await;
    let explain = "EXPLAIN SELECT reverse(s), sum(k * 2) FROM t WHERE k > 3 GROUP BY reverse(s)";
    let lines = Engines::run_on(&engines.weld, explain).await.expect("a plan").rows.join("\n");
    assert!(lines.contains("EvaluateExec: evaluated by DataFusion: reverse("), "{lines}");
}

/// An error is raised where DataFusion raises it, and not of rows that it leaves out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_are_those_of_the_same_rows() {
    let engines = table(1).await;
    for sql in [
        "SELECT CASE WHEN z > 0 THEN to_hex(10 / z) ELSE s END, k + 1 FROM t",
        "SELECT sum(CASE WHEN z > 0 THEN length(to_hex(10 / z)) END) FROM t",
        "SELECT sum(length(to_hex(10 / z))) FILTER (WHERE z > 0) FROM t",
        "SELECT n, sum(length(to_hex(10 / z))) FILTER (WHERE z > 0) FROM t GROUP BY n",
        "SELECT k + 1 FROM t WHERE z > 0 OR to_hex(10 / z) = '5'",
        "SELECT to_hex(10 / z), k * 2 FROM t",
        "SELECT to_hex(10 / z), 10 / (z - 1) FROM t",
        "SELECT 10 / (z - 1), to_hex(10 / z), k * 2 FROM t",
        "SELECT k * 9223372036854775807.5, split_part(s, 't', CAST(z AS INT)) FROM t",
        "SELECT z, sum(10 / (z - 1)), max(length(to_hex(10 / z))) FROM t GROUP BY z",
        "SELECT k FROM t WHERE n < 99 AND to_hex(10 / z) = '3'",
        // Null for every row, though its type says that it never is.
        "SELECT k FROM t WHERE k > (SELECT k FROM t WHERE k > 1000) AND to_hex(10 / z) = '3'",
    ] {
        outcome(&engines, sql).await.unwrap_or_else(|difference| panic!("{difference}"));
    }
}

/// Counts the rows that it is evaluated for.
#[derive(Debug)]
struct Counting {
    name: &'static str,
    signature: Signature,
    rows: Arc<AtomicUsize>,
}

impl PartialEq for Counting {
    fn eq(&self, other: &Counting) -> bool {
        self.name == other.name
    }
}

impl Eq for Counting {}

impl std::hash::Hash for Counting {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Counting {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let array = args.args[0].to_array(args.number_rows)?;
        self.rows.fetch_add(array.len(), Ordering::Relaxed);
        let values = array.as_primitive::<Int64Type>();
        let ten: ArrayRef = Arc::new(values.iter().map(|value| value.map(|v| v * 10)).collect::<Int64Array>());
        Ok(ColumnarValue::Array(ten))
    }
}

fn counting(engines: &Engines, name: &'static str, volatility: Volatility) -> (Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let rows = || Arc::new(AtomicUsize::new(0));
    let (stock, weld) = (rows(), rows());
    for (context, rows) in [(&engines.stock, &stock), (&engines.weld, &weld)] {
        let signature = Signature::exact(vec![DataType::Int64], volatility);
        let function = Counting { name, signature, rows: Arc::clone(rows) };
        context.register_udf(ScalarUDF::from(function));
    }
    (stock, weld)
}

/// A function above a filter is not evaluated for the rows that the filter drops, a volatile one as often as it stands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_often_as_datafusion() {
    let engines = table(1).await;
    let (stock, weld) = counting(&engines, "tenfold", Volatility::Immutable);
    for sql in [
        "SELECT sum(tenfold(k)) FROM t WHERE k > 290",
        "SELECT tenfold(k) + 1, k FROM t WHERE k > 290",
        "SELECT k FROM t WHERE k > 290 AND tenfold(k) > 3 AND z < 3",
    ] {
        let rows = engines.check(sql, 1).await.rows.len();
        let (stock, weld) = (stock.swap(0, Ordering::Relaxed), weld.swap(0, Ordering::Relaxed));
        assert!(weld <= stock.max(10) && rows <= 10, "{sql}\nof {weld} rows, stock of {stock}");
    }
    let (stock, weld) = counting(&engines, "drawn", Volatility::Volatile);
    engines.check("SELECT drawn(k) + 1, drawn(k) + 2, k * 2 FROM t", 1).await;
    assert_eq!((stock.load(Ordering::Relaxed), weld.load(Ordering::Relaxed)), (602, 602));
}

/// A function of a user's that has the name of a built-in one is the user's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_say_nothing() {
    let engines = table(1).await;
    for name in ["round", "abs", "sqrt", "date_part", "character_length", "starts_with"] {
        counting(&engines, name, Volatility::Immutable);
        let run = engines.check(&format!("SELECT {name}(k) + 1, k * 2 FROM t"), 1).await;
        assert!(run.summary.evaluated.iter().any(|expr| expr.contains(name)), "{name}: {:?}", run.summary);
    }
}

/// Types that no column of compiled code has pass by what reads other columns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_of_other_types() {
    let engines = table(2).await;
    let rows = "SELECT k, arrow_cast(k, 'Decimal256(45, 3)') AS d, named_struct('a', k, 'b', s) AS r FROM t";
    engines.table_from("l", rows, 50).await;
    for (sql, evaluated) in [
        ("SELECT sum(CAST(d + d AS BIGINT)) FROM l", 1),
        ("SELECT k * 2, d * 2 > 100 FROM l", 1),
        // DataFusion takes fields of structs in projections of their own, which compute nothing else.
        ("SELECT get_field(r, 'b'), count(*), sum(k) FROM l GROUP BY get_field(r, 'b')", 0),
        ("SELECT k * 2, get_field(r, 'a') + 3 FROM l", 0),
    ] {
        let run = engines.check(sql, 1).await;
        assert!(run.summary.evaluated.len() >= evaluated, "{sql}\n{:?}", run.summary);
    }
}
