//! Structs as arguments: columns of them, in memory and in files, and constants.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int32Array, RecordBatch, StringArray, StructArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field};
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;

use super::{error, rows, run, session_with};

const SCALED: &str = "CREATE FUNCTION scaled(p STRUCT<x DOUBLE, n BIGINT>, by DOUBLE) RETURNS DOUBLE LANGUAGE weld AS
    '|p: {f64, i64}, by: f64| p.$0 * f64(p.$1) * by'";

const TUPLE: &str = "CREATE FUNCTION of_tuple(p STRUCT<x DOUBLE, n BIGINT>) RETURNS DOUBLE LANGUAGE python AS $$
def of_tuple(p):
    x, n = p
    return x * n
$$";

const OBJECT: &str = "CREATE FUNCTION of_object(p STRUCT<x DOUBLE, n BIGINT>) RETURNS DOUBLE LANGUAGE python AS $$
class Point(object):
    layout = Struct([('x', 'Float'), ('n', 'Int')])

    def product(self):
        return self.x * self.n

@signature('Point -> Float')
def of_object(p):
    return p.product()
$$";

const DEEP: &str =
    "CREATE FUNCTION deep(p STRUCT<name VARCHAR, q STRUCT<xs DOUBLE[], n BIGINT>>) RETURNS DOUBLE LANGUAGE python AS $$
def deep(p):
    name, (xs, n) = p
    return len(name) + sum(xs) * n
$$";

/// With a table `s` of structs `p` in two slices, of which some are NULL with values in their fields.
async fn with_structs(functions: &[&str]) -> SessionContext {
    let context = session_with(functions).await;
    let x: ArrayRef = Arc::new(Float64Array::from_iter_values((0..8).map(|v| f64::from(v) + 0.5)));
    let n: ArrayRef = Arc::new(Int32Array::from_iter_values(0..8));
    let fields = vec![Field::new("x", DataType::Float64, true), Field::new("n", DataType::Int32, true)];
    let nulls = NullBuffer::from_iter((0..8).map(|v| v % 3 != 2));
    let p: ArrayRef = Arc::new(StructArray::new(fields.into(), vec![x, n], Some(nulls)));
    let k: ArrayRef = Arc::new(Int32Array::from_iter_values(0..8));
    let s: ArrayRef = Arc::new(StringArray::from_iter_values((0..8).map(|v| "ab".repeat(v))));
    let batch = RecordBatch::try_from_iter_with_nullable([("k", k, true), ("p", p, true), ("s", s, true)]);
    let batch = batch.expect("one length");
    let parts = vec![vec![batch.slice(1, 4)], vec![batch.slice(5, 3)]];
    let table = MemTable::try_new(batch.schema(), parts).expect("one schema");
    context.register_table("s", Arc::new(table)).expect("a new name");
    context
}

#[tokio::test]
async fn columns_and_constants() {
    let context = with_structs(&[SCALED, TUPLE, OBJECT]).await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("s.parquet");
    let path = path.to_str().expect("a plain name");
    run(&context, &format!("COPY s TO '{path}' STORED AS PARQUET")).await.expect("it writes");
    run(&context, &format!("CREATE EXTERNAL TABLE f STORED AS PARQUET LOCATION '{path}'")).await.expect("it reads");
    let wanted = ["1|1.5", "2|NULL", "3|10.5", "4|18", "5|NULL", "6|39", "7|52.5"];
    for table in ["s", "f"] {
        for call in ["scaled(p, 1)", "of_tuple(p)", "of_object(p)"] {
            assert_eq!(rows(&context, &format!("SELECT k, {call} FROM {table}")).await, wanted, "{call} of {table}");
            let filtered = format!("SELECT k FROM {table} WHERE {call} > 18 AND k < 7");
            assert_eq!(rows(&context, &filtered).await, ["6"], "{call} of {table}");
            let sum = format!("SELECT k % 2, sum({call}) FROM {table} GROUP BY k % 2");
            assert_eq!(rows(&context, &sum).await, ["0|57", "1|64.5"], "{call} of {table}");
        }
        let ordered = format!("SELECT k FROM {table} ORDER BY of_tuple(p) DESC NULLS LAST LIMIT 1");
        assert_eq!(rows(&context, &ordered).await, ["7"]);
    }
    assert_eq!(rows(&context, "SELECT scaled(named_struct('x', 1.5, 'n', k), 2) FROM s WHERE k = 3").await, ["9"]);
    assert_eq!(rows(&context, "SELECT of_tuple(struct(2, 3)), of_object(NULL)").await, ["6|NULL"]);
    assert_eq!(rows(&context, "SELECT scaled(p, NULL) FROM s WHERE k = 3").await, ["NULL"]);
    assert!(rows(&context, "SELECT of_tuple(p) FROM s WHERE k > 9").await.is_empty());
}

#[tokio::test]
async fn structs_of_structs_lists_and_text() {
    let pair = "CREATE FUNCTION pair(x DOUBLE) RETURNS DOUBLE[] LANGUAGE weld AS '|x: f64| [x, 1.0]'";
    let context = with_structs(&[DEEP, pair]).await;
    let p = "named_struct('name', s, 'q', named_struct('xs', pair(p['x']), 'n', k))";
    let sql = format!("SELECT k, deep(CASE WHEN k <> 4 THEN {p} END) FROM s WHERE k IN (1, 3, 4)");
    assert_eq!(rows(&context, &sql).await, ["1|4.5", "3|19.5", "4|NULL"]);
    let absent = p.replace("'name', s", "'name', NULLIF(s, 'abab')");
    let message = error(&context, &format!("SELECT deep({absent}) FROM s WHERE k = 2")).await;
    assert!(message.contains("NULL in it is passed to deep"), "{message}");
}

#[tokio::test]
async fn what_does_not_fit_is_an_error() {
    let context = with_structs(&[SCALED, TUPLE]).await;
    for (argument, message) in [
        ("named_struct('n', 1, 'x', 2.0)", "of_tuple: argument 1 is"),
        ("named_struct('x', 1.5)", "of_tuple: argument 1 is"),
        ("named_struct('x', 'a', 'n', 1)", "of_tuple: argument 1 is"),
        ("1.5", "of_tuple: argument 1 is"),
        ("named_struct('x', 1.5, 'n', NULLIF(k, 3))", "a struct with NULL in it is passed to of_tuple"),
    ] {
        let found = error(&context, &format!("SELECT of_tuple({argument}) FROM s")).await;
        assert!(found.contains(message), "{argument}: {found}");
    }
    let small = SCALED.replace("BIGINT", "TINYINT").replace("i64", "i8");
    run(&context, &small.replace("FUNCTION scaled", "FUNCTION small")).await.expect("valid");
    let found = error(&context, "SELECT small(named_struct('x', 1.5, 'n', k + 300), 1) FROM s").await;
    assert!(found.contains("cast") || found.contains("Cast"), "{found}");
    let wrong = SCALED.replace("n BIGINT", "n BIGINT, m INT");
    assert!(run(&context, &wrong.replace("FUNCTION", "OR REPLACE FUNCTION")).await.is_err());
}

/// An aggregate's rows may be structs.
#[tokio::test]
async fn of_aggregates() {
    let total = "CREATE FUNCTION total(p STRUCT<x DOUBLE, n BIGINT>) RETURNS DOUBLE LANGUAGE python AS $$
@aggregate
class total(object):
    layout = Struct([('s', 'Float')])
    def __init__(self):
        self.s = 0.0
    def step(self, p):
        self.s += p[0] * p[1]
    def merge(self, other):
        self.s += other.s
    def result(self):
        return self.s
$$";
    let context = with_structs(&[total]).await;
    assert_eq!(rows(&context, "SELECT total(p) FROM s").await, ["121.5"]);
    assert_eq!(rows(&context, "SELECT k % 2, total(p) FROM s GROUP BY k % 2").await, ["0|57", "1|64.5"]);
    assert_eq!(rows(&context, "SELECT total(p) FROM s WHERE k = 2").await, ["NULL"]);
}
