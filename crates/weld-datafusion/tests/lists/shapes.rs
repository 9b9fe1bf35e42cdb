//! Functions of every language over lists of every shape and layout: ragged ones, empty ones, NULL rows, NULL inside,
//! slices, several partitions; inlined, outside of pipelines, and with Weld off. What they should give is computed
//! here.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, FixedSizeListArray, Float32Array, GenericListArray, Int64Array, OffsetSizeTrait, RecordBatch,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field};
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;

use super::{off, run};
use crate::common::{config, session};

/// `twice` and `total` in each language: of lists of any length, and of three elements.
const FUNCTIONS: [(&str, &str); 12] = [
    ("w_twice(v FLOAT[]) RETURNS FLOAT[]", "weld AS '|v: vec[f32]| map(v, |x| x * 2.0f)'"),
    (
        "w_total(v FLOAT[]) RETURNS FLOAT",
        "weld AS '|v: vec[f32]| result(for(v, merger[f32,+], |b, i, x| merge(b, x)))'",
    ),
    ("w_twice3(v FLOAT[3]) RETURNS FLOAT[3]", "weld AS '|v: vec[f32]| map(v, |x| x * 2.0f)'"),
    (
        "w_total3(v FLOAT[3]) RETURNS FLOAT",
        "weld AS '|v: vec[f32]| result(for(v, merger[f32,+], |b, i, x| merge(b, x)))'",
    ),
    (
        "t_twice(v FLOAT[]) RETURNS FLOAT[]",
        "ttl AS 'function matrix<float>[?] t_twice(matrix<float>[?] v) { return v * 2.0; }'",
    ),
    (
        "t_total(v FLOAT[]) RETURNS FLOAT",
        "ttl AS 'function float t_total(matrix<float>[?] v) { var float s; var int i; for (i in 0...v $ 0 by 1) s = s + v{i}; return s; }'",
    ),
    (
        "t_twice3(v FLOAT[3]) RETURNS FLOAT[3]",
        "ttl AS 'function matrix<float>[3] t_twice3(matrix<float>[3] v) { return v * 2.0; }'",
    ),
    (
        "t_total3(v FLOAT[3]) RETURNS FLOAT",
        "ttl AS 'function float t_total3(matrix<float>[3] v) { return v{0} + v{1} + v{2}; }'",
    ),
    (
        "g_twice(v FLOAT[]) RETURNS FLOAT[]",
        "gtscript AS '@stencil
def g_twice(v: Field[K, float32], o: Field[K, float32]):
    with computation(PARALLEL), interval(...):
        o = 2 * v
'",
    ),
    (
        "g_twice3(v FLOAT[3]) RETURNS FLOAT[3]",
        "gtscript AS '@stencil
def g_twice3(v: Field[K, float32], o: Field[K, float32]):
    with computation(FORWARD), interval(...):
        o = 2 * v
'",
    ),
    ("o_twice3(v FLOAT[3]) RETURNS FLOAT[3]", "ocannl AS 'let%op o_twice3 v = v *. 2'"),
    ("o_total3(v FLOAT[3]) RETURNS FLOAT[1]", "ocannl AS 'let%op o_total3 v = v ++ \"i=>\"'"),
];

type Row = Option<Vec<Option<f32>>>;

/// Rows of lists by name.
fn shapes() -> Vec<(&'static str, Vec<Row>)> {
    let some = |length: usize, k: usize| Some((0..length).map(|x| Some((10 * k + x) as f32)).collect::<Vec<_>>());
    let with_null = |k: usize| Some(vec![Some(k as f32), None, Some(1.0)]);
    vec![
        ("three", (0..17).map(|k| some(3, k)).collect()),
        ("three or NULL", (0..17).map(|k| some(3, k).filter(|_| k % 3 != 1)).collect()),
        ("ragged", (0..17).map(|k| some(k % 5, k).filter(|_| k % 7 != 6)).collect()),
        ("empty", (0..17).map(|k| some(0, k).filter(|_| k % 4 != 2)).collect()),
        ("NULL", vec![None; 17]),
        ("NULL inside", (0..17).map(|k| if k == 11 { with_null(k) } else { some(3, k) }).collect()),
        ("NULL inside of NULL and a list", (0..17).map(|k| if k % 5 == 2 { None } else { with_null(k) }).collect()),
        ("long", (0..17).map(|k| some(1000 * (k % 2), k)).collect()),
        ("no rows", Vec::new()),
    ]
}

/// The rows in layouts, each as the middle of a longer array. Rows that are NULL have values beneath.
fn layouts(rows: &[Row]) -> Vec<ArrayRef> {
    let around = || [Some(vec![Some(99.0), None, Some(98.0)]), None].into_iter();
    let all: Vec<Row> = around().chain(rows.iter().cloned()).chain(around()).collect();
    let item = Arc::new(Field::new_list_field(DataType::Float32, true));
    let beneath = |row: &Row, size: usize| row.clone().unwrap_or_else(|| vec![Some(-1.0); size]);
    let nulls = NullBuffer::from_iter(all.iter().map(Option::is_some));
    let values = |size| Arc::new(Float32Array::from_iter(all.iter().flat_map(|row| beneath(row, size)))) as ArrayRef;
    fn of<O: OffsetSizeTrait>(item: Arc<Field>, lengths: Vec<usize>, values: ArrayRef, nulls: NullBuffer) -> ArrayRef {
        Arc::new(GenericListArray::<O>::new(item, OffsetBuffer::from_lengths(lengths), values, Some(nulls)))
    }
    let lengths = || all.iter().map(|row| beneath(row, 2).len()).collect::<Vec<_>>();
    let mut made = vec![
        of::<i32>(Arc::clone(&item), lengths(), values(2), nulls.clone()),
        of::<i64>(Arc::clone(&item), lengths(), values(2), nulls.clone()),
    ];
    if rows.iter().flatten().all(|row| row.len() == 3) {
        made.push(Arc::new(FixedSizeListArray::new(item, 3, values(3), Some(nulls))));
    }
    made.into_iter().map(|array| array.slice(2, rows.len())).collect()
}

/// A table of the column, `k` from 0 beside it: in slices of one batch, an empty one among them, over the partitions.
fn register(context: &SessionContext, column: &ArrayRef, partitions: usize) {
    let k: ArrayRef = Arc::new(Int64Array::from_iter_values(0..column.len() as i64));
    let batch = RecordBatch::try_from_iter_with_nullable([("k", k, false), ("v", Arc::clone(column), true)]);
    let batch = batch.expect("columns of one length");
    let mut parts = vec![vec![batch.slice(0, 0)]; partitions];
    for (index, start) in (0..batch.num_rows()).step_by(4).enumerate() {
        parts[index % partitions].push(batch.slice(start, 4.min(batch.num_rows() - start)));
    }
    let table = MemTable::try_new(batch.schema(), parts).expect("one schema");
    context.deregister_table("t").expect("a table or none");
    context.register_table("t", Arc::new(table)).expect("a new name");
}

/// What the function gives for a row, or what its error says.
fn value(name: &str, row: &Row) -> Result<String, &'static str> {
    let Some(row) = row else { return Ok("null".into()) };
    let values: Option<Vec<f32>> = row.iter().copied().collect();
    let Some(values) = values else { return Err("a list with NULL in it is passed to") };
    if name.ends_with('3') && values.len() != 3 {
        return Err("elements, not 3");
    }
    let list = |values: Vec<f32>| format!("{values:?}");
    // The sum of none is the positive zero.
    let total = values.iter().fold(0.0, |sum, x| sum + x);
    Ok(match &name[2..] {
        "twice" | "twice3" => list(values.iter().map(|x| x * 2.0).collect()),
        "total3" if name.starts_with('o') => list(vec![total]),
        _ => number(total),
    })
}

/// As rows have it.
fn number(value: f32) -> String {
    format!("{:.9e}", f64::from(value) * (1.0 + 1e-12))
}

/// The query's rows, or what its error says, from those for which it calls the function.
fn expected(name: &str, rows: &[Row], called: impl Fn(usize) -> bool) -> Result<Vec<String>, &'static str> {
    let mut all = Vec::new();
    for (k, row) in rows.iter().enumerate() {
        let value = if called(k) { value(name, row)? } else { "null".into() };
        all.push(format!("{k}|{value}"));
    }
    all.sort();
    Ok(all)
}

async fn agrees(context: &SessionContext, sql: &str, what: &str, expected: &Result<Vec<String>, &'static str>) {
    for (weld, found) in [("on", run(context, sql).await), ("off", off(context, sql, run).await)] {
        match (expected, found) {
            (Ok(expected), found) => assert_eq!(found.as_ref(), Ok(expected), "{sql}, {what}, Weld {weld}"),
            (Err(part), Err(error)) => assert!(error.contains(part), "{sql}, {what}, Weld {weld}: {error}"),
            (Err(part), Ok(rows)) => panic!("{sql}, {what}, Weld {weld}: {rows:?} instead of the error `{part}`"),
        }
    }
}

#[tokio::test]
async fn functions_over_lists_of_every_shape() {
    for (partitions, part) in [(1, 0), (3, 1)] {
        let context = session(config(partitions), true);
        run(&context, "SET weld.opt_level = 0").await.expect("a setting");
        for (signature, text) in FUNCTIONS {
            let sql = format!("CREATE FUNCTION {signature} LANGUAGE {text}");
            run(&context, &sql).await.unwrap_or_else(|error| panic!("{sql}\n{error}"));
        }
        // Each shape with one of the numbers of partitions, each layout in turn with one of the queries beside the
        // plain one.
        for (number, (shape, rows)) in shapes().into_iter().enumerate().filter(|(number, _)| number % 2 == part) {
            for (layout, column) in layouts(&rows).into_iter().enumerate() {
                register(&context, &column, partitions);
                let what = format!("{shape}, {}, {partitions} partitions", column.data_type());
                for (index, (signature, _)) in FUNCTIONS.into_iter().enumerate() {
                    let name = signature.split('(').next().expect("a name");
                    let all = expected(name, &rows, |_| true);
                    agrees(&context, &format!("SELECT k, {name}(v) FROM t"), &what, &all).await;
                    let (sql, expected) = elsewhere(name, &rows, all, number + layout + index);
                    agrees(&context, &sql, &what, &expected).await;
                }
            }
        }
    }
}

/// A query with the function in a sort, a CASE or a filter, and what it gives.
fn elsewhere(
    name: &str,
    rows: &[Row],
    all: Result<Vec<String>, &'static str>,
    which: usize,
) -> (String, Result<Vec<String>, &'static str>) {
    match which % 3 {
        0 => (format!("SELECT k, {name}(v) FROM t ORDER BY {name}(v)"), all),
        1 => {
            let sql = format!("SELECT k, CASE WHEN k % 2 = 0 THEN {name}(v) END FROM t");
            (sql, expected(name, rows, |k| k % 2 == 0))
        }
        _ => {
            let some = |row: &String| !row.ends_with("|null");
            let kept = all.map(|all| all.into_iter().filter(some).collect());
            (format!("SELECT k, {name}(v) FROM t WHERE {name}(v) IS NOT NULL"), kept)
        }
    }
}

/// Lists of lists: rows of a fixed size in lists of any, and in lists of a fixed size, with NULL at each level.
#[tokio::test]
async fn functions_over_nested_lists() {
    let context = session(config(2), true);
    for sql in [
        "CREATE FUNCTION last(m FLOAT[2][]) RETURNS FLOAT LANGUAGE ttl AS
            'function float last(matrix<float>[?, 2] m) { return m{m $ 0 - 1, 1}; }'",
        "CREATE FUNCTION turned(m FLOAT[2][3]) RETURNS FLOAT[3][2] LANGUAGE ocannl AS 'let%op turned m = m ++ \"ij=>ji\"'",
        "CREATE FUNCTION all_of(m FLOAT[2][]) RETURNS FLOAT LANGUAGE ttl AS
            'function float all_of(matrix<float>[?, 2] m) { var float s; var int i;
                for (i in 0...m $ 0 by 1) s = s + m{i, 0} + m{i, 1}; return s; }'",
    ] {
        run(&context, sql).await.unwrap_or_else(|error| panic!("{sql}\n{error}"));
    }
    // Pairs (0, 10), (1, 11), ..; the one of index 4 is NULL, the second number of 9 is.
    let numbers = Float32Array::from_iter((0..30).map(|x| (x != 19).then_some((x / 2 + 10 * (x % 2)) as f32)));
    let item = |ty: DataType| Arc::new(Field::new_list_field(ty, true));
    let pair_is_there = NullBuffer::from_iter((0..15).map(|pair| pair != 4));
    let pairs = FixedSizeListArray::new(item(DataType::Float32), 2, Arc::new(numbers), Some(pair_is_there));
    let pairs: ArrayRef = Arc::new(pairs);
    let of_pairs = item(pairs.data_type().clone());
    let rows = Some(NullBuffer::from(vec![true, true, true, false, true]));
    let lengths = OffsetBuffer::from_lengths([2, 0, 3, 3, 7]);
    let ragged: ArrayRef =
        Arc::new(GenericListArray::<i32>::new(Arc::clone(&of_pairs), lengths, Arc::clone(&pairs), rows.clone()));
    let square: ArrayRef = Arc::new(FixedSizeListArray::new(of_pairs, 3, pairs, rows));

    register(&context, &ragged.slice(0, 2), 2);
    agrees(
        &context,
        "SELECT k, all_of(v) FROM t",
        "ragged",
        &Ok(vec![format!("0|{}", number(22.0)), format!("1|{}", number(0.0))]),
    )
    .await;
    agrees(&context, "SELECT k, last(v) FROM t WHERE k = 0", "ragged", &Ok(vec![format!("0|{}", number(11.0))])).await;
    agrees(&context, "SELECT k, last(v) FROM t", "no pair", &Err("index -1 is out of bounds")).await;
    for (first, reason) in [(2, "a pair that is NULL"), (4, "a number that is NULL")] {
        register(&context, &ragged.slice(first, 1), 2);
        let error = Err("a list with NULL in it is passed to");
        agrees(&context, "SELECT k, all_of(v) FROM t", reason, &error).await;
        agrees(&context, "SELECT k, last(v) FROM t", reason, &error).await;
    }
    register(&context, &ragged.slice(3, 1), 1);
    agrees(&context, "SELECT k, last(v), all_of(v) FROM t", "NULL", &Ok(vec!["0|null|null".into()])).await;

    register(&context, &square.slice(0, 1), 1);
    let turned = "0|[[0.0, 1.0, 2.0], [10.0, 11.0, 12.0]]";
    agrees(&context, "SELECT k, turned(v) FROM t", "whole", &Ok(vec![turned.into()])).await;
    register(&context, &square.slice(1, 1), 1);
    agrees(&context, "SELECT k, turned(v) FROM t", "NULL", &Err("a list with NULL in it is passed to")).await;
    register(&context, &square.slice(3, 1), 1);
    agrees(&context, "SELECT k, turned(v) FROM t", "NULL", &Ok(vec!["0|null".into()])).await;
}

/// Columns whose lists are those of no language.
#[tokio::test]
async fn lists_of_other_types_are_refused() {
    let context = session(config(1), true);
    let sql = "CREATE FUNCTION total(v FLOAT[]) RETURNS FLOAT LANGUAGE weld AS
        '|v: vec[f32]| result(for(v, merger[f32,+], |b, i, x| merge(b, x)))'";
    run(&context, sql).await.expect("valid");
    for (argument, reason) in [
        ("['a', 'b']", "total"),
        ("[[1.0], [2.0]]", "total"),
        ("1.0", "total"),
        ("{a: 1}", "total"),
        ("[true]", "total"),
    ] {
        let error = run(&context, &format!("SELECT total({argument})")).await.expect_err(argument);
        assert!(error.contains(reason), "{argument}: {error}");
    }
}
