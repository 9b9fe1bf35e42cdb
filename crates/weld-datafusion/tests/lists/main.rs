//! Columns of lists and structs in compiled pipelines: read by functions, moved, and made, with Weld on and off.

#[path = "../common/mod.rs"]
mod common;
mod shapes;

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, FixedSizeListArray, Float32Array, Int64Array, LargeListArray, ListArray, RecordBatch, StringArray,
    StructArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Float32Type, Float64Type, Int64Type};
use common::{config, session, sorted_rows};
use datafusion::datasource::MemTable;
use datafusion::physical_plan::{collect, displayable};
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use parquet::arrow::ArrowWriter;
use weld_datafusion::{pipelines, summary};

const FUNCTIONS: [&str; 7] = [
    "CREATE FUNCTION three(x FLOAT) RETURNS FLOAT[3] LANGUAGE weld AS '|x: f32| [x, x, 2.0f]'",
    "CREATE FUNCTION dot(a FLOAT[3], b FLOAT[3]) RETURNS FLOAT LANGUAGE ttl AS $$
function float dot(matrix<float>[3] a, matrix<float>[3] b) {
  var matrix<float>[3] p = a * b;
  return p{0} + p{1} + p{2};
} $$",
    "CREATE FUNCTION total(v DOUBLE[]) RETURNS DOUBLE LANGUAGE weld AS
        '|v: vec[f64]| result(for(v, merger[f64,+], |b, i, x| merge(b, x)))'",
    "CREATE FUNCTION twice(v DOUBLE[]) RETURNS DOUBLE[] LANGUAGE weld AS '|v: vec[f64]| map(v, |x| x * 2.0)'",
    "CREATE FUNCTION scaled(v FLOAT[3], k FLOAT) RETURNS FLOAT[3] LANGUAGE weld AS
        '|v: vec[f32], k: f32| map(v, |x| x * k)'",
    "CREATE FUNCTION upto(n BIGINT) RETURNS BIGINT[] LANGUAGE weld AS
        '|n: i64| result(for(rangeiter(0L, n, 1L), appender[i64], |b, i, x| merge(b, x)))'",
    "CREATE FUNCTION many(v BIGINT[]) RETURNS BIGINT LANGUAGE weld AS '|v: vec[i64]| len(v)'",
];

/// `k` from 0; lists of three floats, of any number of doubles, large ones of integers, of texts; structs; a text.
fn batch(first: i64, rows: i64, nulls: bool) -> RecordBatch {
    let all = first..first + rows;
    let is_null = |k: i64, every: i64| nulls && k % every == 1;
    let k: ArrayRef = Arc::new(Int64Array::from_iter_values(all.clone()));
    let fixed = all.clone().map(|k| (!is_null(k, 5)).then(|| vec![Some(k as f32), Some(2.0), Some(-1.0)]));
    let fixed: ArrayRef = Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(fixed, 3));
    let list =
        all.clone().map(|k| (!is_null(k, 4)).then(|| (0..k % 4).map(|x| Some((k + x) as f64)).collect::<Vec<_>>()));
    let list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(list));
    let large = all.clone().map(|k| Some((0..k % 3).map(Some).collect::<Vec<_>>()));
    let large: ArrayRef = Arc::new(LargeListArray::from_iter_primitive::<Int64Type, _, _>(large));
    let texts = all.clone().map(|k| (!is_null(k, 3)).then(|| format!("text {k}")));
    let texts: ArrayRef = Arc::new(StringArray::from_iter(texts));
    let weights = Float32Array::from_iter_values(all.clone().map(|k| k as f32 / 2.0));
    let fields = vec![Field::new("w", DataType::Float32, true), Field::new("t", DataType::Utf8, true)];
    let valid = NullBuffer::from(all.map(|k| !is_null(k, 6)).collect::<Vec<bool>>());
    let structs = StructArray::new(fields.into(), vec![Arc::new(weights), Arc::clone(&texts)], Some(valid));
    let columns =
        [("k", k), ("a", fixed), ("v", list), ("n", large), ("s", Arc::new(structs) as ArrayRef), ("t", texts)];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).expect("one length")
}

/// A session with the functions and a table `l` of 40 rows, in slices of batches and with an empty one.
async fn in_memory(nulls: bool) -> SessionContext {
    let context = with_functions().await;
    let parts = vec![
        vec![batch(0, 20, nulls).slice(2, 9), batch(0, 0, nulls)],
        vec![batch(5, 30, nulls).slice(6, 20), batch(31, 11, nulls)],
        vec![],
    ];
    let table = MemTable::try_new(batch(0, 0, nulls).schema(), parts).expect("one schema");
    context.register_table("l", Arc::new(table)).expect("a new name");
    context
}

async fn with_functions() -> SessionContext {
    let context = session(config(3), true);
    for function in FUNCTIONS {
        run(&context, function).await.unwrap_or_else(|error| panic!("{function}\n{error}"));
    }
    context
}

async fn in_parquet(nulls: bool, folder: &std::path::Path) -> SessionContext {
    let context = with_functions().await;
    let path = folder.join("l.parquet");
    let file = std::fs::File::create(&path).expect("a temporary folder is writable");
    let mut writer = ArrowWriter::try_new(file, batch(0, 0, nulls).schema(), None).expect("a schema for Parquet");
    for (first, rows) in [(0, 9), (9, 30), (39, 1)] {
        writer.write(&batch(first, rows, nulls)).expect("it writes");
        writer.flush().expect("it writes");
    }
    writer.close().expect("it writes");
    let path = path.to_str().expect("a path in UTF-8");
    context.register_parquet("l", path, ParquetReadOptions::default()).await.expect("the file just written");
    context
}

async fn run(context: &SessionContext, sql: &str) -> Result<Vec<String>, String> {
    let frame = context.sql(sql).await.map_err(|error| error.to_string())?;
    Ok(sorted_rows(&frame.collect().await.map_err(|error| error.to_string())?))
}

async fn off<T>(context: &SessionContext, sql: &str, then: impl AsyncFnOnce(&SessionContext, &str) -> T) -> T {
    run(context, "SET weld.enabled = false").await.expect("a setting");
    let result = then(context, sql).await;
    run(context, "SET weld.enabled = true").await.expect("a setting");
    result
}

/// The rows, which are the same with Weld off; so many operators are compiled, and none falls back.
async fn compiled_rows(context: &SessionContext, sql: &str, compiled: usize) -> Vec<String> {
    let plan = context.sql(sql).await.expect("valid SQL").create_physical_plan().await.expect("a plan");
    let on = collect(Arc::clone(&plan), context.task_ctx()).await.unwrap_or_else(|error| panic!("{sql}\n{error}"));
    let on = sorted_rows(&on);
    let expected = off(context, sql, run).await.unwrap_or_else(|error| panic!("{sql}, Weld off\n{error}"));
    assert_eq!(on, expected, "{sql}");
    let summary = summary(&plan);
    let shown = displayable(plan.as_ref()).indent(false);
    assert!(summary.operators_compiled >= compiled, "{sql}\n{shown}\n{:?}", summary.declined);
    assert_eq!(common::counted(&plan, "fallbacks"), 0, "{sql}");
    on
}

/// The optimised programs of a query's pipelines.
async fn optimised(context: &SessionContext, sql: &str) -> Vec<String> {
    let plan = context.sql(sql).await.expect("valid SQL").create_physical_plan().await.expect("a plan");
    pipelines(&plan).iter().map(|exec| exec.optimized_program().to_string()).collect()
}

/// Queries with how many of their operators are compiled over a table in memory and over Parquet, where DataFusion's
/// scan takes projections with the functions in them.
const QUERIES: [(&str, usize, usize); 22] = [
    ("SELECT k, dot(a, a) FROM l", 1, 0),
    ("SELECT k FROM l WHERE dot(a, a) > 30", 1, 1),
    ("SELECT sum(total(v)), count(total(v)), max(dot(a, a)) FROM l", 1, 0),
    ("SELECT k % 3, sum(total(v)) FROM l GROUP BY k % 3", 1, 0),
    ("SELECT CASE WHEN k > 10 THEN total(v) ELSE dot(a, a) END FROM l", 1, 0),
    ("SELECT x.k, y.k FROM l x JOIN l y ON total(x.v) = total(y.v)", 1, 0),
    ("SELECT k, dot(a, three(1)) FROM l WHERE many(n) > 0", 1, 1),
    ("SELECT dot(three(CAST(k AS REAL)), three(4)) FROM l WHERE dot(scaled(a, 2), three(3)) > 3", 1, 1),
    ("SELECT count(*) FROM l WHERE v IS NULL", 1, 0),
    ("SELECT count(*) FROM l WHERE v IS NOT NULL AND total(v) >= 0", 1, 0),
    ("SELECT k, dot(scaled(a, 2), scaled(a, CAST(k AS REAL))) FROM l", 1, 0),
    // Moved.
    ("SELECT k, v FROM l WHERE k % 7 < 3", 1, 1),
    ("SELECT a, v, n, s, t FROM l WHERE k > 12", 1, 1),
    ("SELECT s, total(v), n FROM l WHERE many(n) = 2", 1, 1),
    ("SELECT x.v, x.s, y.k FROM l x JOIN l y ON x.k = y.k + 1 WHERE y.k > 4", 0, 0),
    ("SELECT n, s FROM l WHERE k < 0", 1, 1),
    ("SELECT v FROM l WHERE k > 3 LIMIT 5", 0, 1),
    // Made.
    ("SELECT k, twice(v) FROM l", 1, 0),
    ("SELECT twice(twice(v)), scaled(a, 3), v, s FROM l WHERE k % 2 = 0", 1, 1),
    ("SELECT upto(k), upto(k + 1) FROM l WHERE k < 9", 1, 1),
    ("SELECT upto(count(*)) FROM l GROUP BY k % 4", 0, 0),
    ("SELECT scaled(a, CAST(NULL AS REAL)), twice(v) FROM l WHERE k < 0", 0, 0),
];

#[tokio::test]
async fn queries_give_the_same_from_memory() {
    for nulls in [false, true] {
        let context = in_memory(nulls).await;
        for (sql, compiled, _) in QUERIES {
            if sql.contains("LIMIT") {
                assert_eq!(run(&context, sql).await.expect("it runs").len(), 5);
                continue;
            }
            compiled_rows(&context, sql, compiled).await;
        }
    }
}

#[tokio::test]
async fn queries_give_the_same_from_parquet() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for nulls in [false, true] {
        let context = in_parquet(nulls, folder.path()).await;
        for (sql, _, compiled) in QUERIES.into_iter().filter(|(sql, ..)| !sql.contains("LIMIT")) {
            compiled_rows(&context, sql, compiled).await;
        }
    }
}

/// Lists of floats that hold NULL in row 2 only; row 3 is NULL itself.
async fn with_null_inside() -> SessionContext {
    let context = with_functions().await;
    let lists = [Some(vec![Some(1.0)]), Some(vec![]), Some(vec![Some(1.0), None]), None, Some(vec![Some(4.0); 2])];
    let v: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(lists));
    let k: ArrayRef = Arc::new(Int64Array::from_iter_values(0..5));
    let batch = RecordBatch::try_from_iter_with_nullable([("k", k, false), ("v", v, true)]).expect("one length");
    let parts = vec![vec![batch.slice(0, 2), batch.slice(2, 3)], vec![batch]];
    let table = MemTable::try_new(parts[1][0].schema(), parts).expect("one schema");
    context.register_table("l", Arc::new(table)).expect("a new name");
    context
}

#[tokio::test]
async fn null_inside_of_a_list_is_an_error_where_a_function_reads_it() {
    let context = with_null_inside().await;
    for sql in ["SELECT total(v) FROM l", "SELECT k FROM l WHERE total(twice(v)) > 0", "SELECT twice(v) FROM l"] {
        for error in [run(&context, sql).await, off(&context, sql, run).await] {
            let error = error.expect_err(sql);
            assert!(error.contains("a list with NULL in it is passed to t"), "{sql}\n{error}");
        }
    }
    // Not in rows for which it is not called, and not where nobody reads it.
    for (sql, compiled) in [
        ("SELECT CASE WHEN k <> 2 THEN total(v) END FROM l", 1),
        ("SELECT v FROM l WHERE k > 1", 1),
        ("SELECT count(*) FROM l WHERE v IS NULL", 1),
        ("SELECT k + 1, v FROM l WHERE k <> 1", 1),
    ] {
        compiled_rows(&context, sql, compiled).await;
    }
}

#[tokio::test]
async fn nested_lists_of_fixed_sizes_are_read_in_place() {
    let context = with_functions().await;
    for sql in [
        "CREATE FUNCTION trace(m FLOAT[2][2]) RETURNS FLOAT LANGUAGE ttl AS
            'function float trace(matrix<float>[2, 2] m) { return m{0, 0} + m{1, 1}; }'",
        "CREATE FUNCTION rows_of(m FLOAT[2][]) RETURNS FLOAT LANGUAGE ttl AS
            'function float rows_of(matrix<float>[?, 2] m) { return m{0, 1}; }'",
    ] {
        run(&context, sql).await.unwrap_or_else(|error| panic!("{sql}\n{error}"));
    }
    let pairs = (0..20).map(|k| Some(vec![Some(k as f32), Some(10.0)]));
    let pairs = FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(pairs, 2);
    let item = Arc::new(Field::new_list_field(pairs.data_type().clone(), true));
    let nulls = Some(NullBuffer::from((0..10).map(|row| row != 4).collect::<Vec<bool>>()));
    let square = FixedSizeListArray::new(Arc::clone(&item), 2, Arc::new(pairs.clone()), nulls.clone());
    let offsets = arrow::buffer::OffsetBuffer::from_lengths([2; 10]);
    let list = ListArray::new(item, offsets, Arc::new(pairs), nulls);
    let columns = [("m", Arc::new(square) as ArrayRef, true), ("w", Arc::new(list) as ArrayRef, true)];
    let batch = RecordBatch::try_from_iter_with_nullable(columns).expect("one length").slice(3, 5);
    let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).expect("one schema");
    context.register_table("m", Arc::new(table)).expect("a new name");
    let rows =
        compiled_rows(&context, "SELECT trace(m), rows_of(w), m FROM m WHERE trace(m) > 0 OR m IS NULL", 1).await;
    assert_eq!(rows.len(), 5);
}

#[tokio::test]
async fn a_chain_of_functions_is_one_loop_without_lists_between() {
    let context = in_memory(true).await;
    for sql in [
        "CREATE FUNCTION sum32(v FLOAT[]) RETURNS FLOAT LANGUAGE weld AS
            '|v: vec[f32]| result(for(v, merger[f32,+], |b, i, x| merge(b, x)))'",
        "CREATE FUNCTION squared(v FLOAT[]) RETURNS FLOAT[] LANGUAGE weld AS '|v: vec[f32]| map(v, |x| x * x)'",
        "CREATE FUNCTION halved(v FLOAT[]) RETURNS FLOAT[] LANGUAGE weld AS '|v: vec[f32]| map(v, |x| x / 2.0f)'",
    ] {
        run(&context, sql).await.unwrap_or_else(|error| panic!("{sql}\n{error}"));
    }
    run(&context, "CREATE TABLE f AS SELECT k, arrow_cast(v, 'List(Float32)') AS v FROM l").await.expect("a table");
    let sql = "SELECT k, sum32(squared(halved(v))) FROM f WHERE k > 3";
    compiled_rows(&context, sql, 1).await;
    let program = optimised(&context, sql).await.join("\n");
    assert_eq!(program.matches("appender[f32]").count(), 0, "{program}");
    // One loop reads the column.
    assert_eq!(program.matches("r.$1.$0").count(), 1, "{program}");
    let sql = "SELECT squared(halved(v)) FROM f WHERE k > 3";
    compiled_rows(&context, sql, 1).await;
    let program = optimised(&context, sql).await.join("\n");
    // The values of all rows, to which one loop appends.
    assert_eq!(program.matches("appender[f32]").count(), 1, "{program}");
}

/// Functions of three languages, one over the other: one loop over the rows, in it one over the list, and no list
/// between them.
#[tokio::test]
async fn explain_shows_functions_of_three_languages_as_one_loop() {
    let context = in_memory(true).await;
    for sql in [
        "CREATE FUNCTION w(v FLOAT[3]) RETURNS FLOAT[3] LANGUAGE weld AS '|v: vec[f32]| map(v, |x| x * 2.0f + 1.0f)'",
        "CREATE FUNCTION t(v FLOAT[3]) RETURNS FLOAT[3] LANGUAGE ttl AS
            'function matrix<float>[3] t(matrix<float>[3] v) { return v * v - v; }'",
        "CREATE FUNCTION g(v FLOAT[3]) RETURNS FLOAT[3] LANGUAGE gtscript AS '@stencil
def g(a: Field[K, float32], b: Field[K, float32]):
    with computation(PARALLEL), interval(...):
        b = 0.5 * a + a
'",
        "CREATE FUNCTION o(v FLOAT[3]) RETURNS FLOAT[3] LANGUAGE ocannl AS 'let%op o v = relu (v - 1.0)'",
    ] {
        run(&context, sql).await.unwrap_or_else(|error| panic!("{sql}\n{error}"));
    }
    for call in ["w(t(g(a)))", "o(g(w(a)))", "t(o(w(a)))", "g(t(o(a)))"] {
        let sql = format!("SELECT {call} FROM l");
        compiled_rows(&context, &sql, 1).await;
        let explained = context.sql(&format!("EXPLAIN VERBOSE {sql}")).await.expect("valid SQL");
        let explained = explained.collect().await.expect("it runs");
        let shown = arrow::util::pretty::pretty_format_batches(&explained).expect("printable").to_string();
        let program = optimised(&context, &sql).await.join("\n");
        let lines = |text: &str| text.lines().map(|line| line.trim_matches(['|', ' ']).to_owned()).collect::<Vec<_>>();
        let shown = lines(&shown).join("\n");
        assert!(shown.contains(&lines(&program).join("\n")), "{shown}\n{program}");
        assert_eq!(program.matches("for(").count(), 2, "{program}");
        assert_eq!(program.matches("appender[f32]").count(), 1, "{program}");
        assert!(!program.contains("appender[vec"), "{program}");
    }
}

#[tokio::test]
async fn lists_come_in_batches_of_the_sessions_size() {
    let context = in_memory(true).await;
    run(&context, "SET datafusion.execution.batch_size = 7").await.expect("a setting");
    for sql in ["SELECT twice(v), k, s FROM l", "SELECT v, s FROM l WHERE k > 2", "SELECT scaled(a, 2) FROM l"] {
        compiled_rows(&context, sql, 1).await;
    }
}

#[tokio::test]
async fn broken_lists_are_errors() {
    let context = with_functions().await;
    let values: ArrayRef = Arc::new(arrow::array::Float64Array::from(vec![1.0, 2.0, 3.0]));
    for offsets in [vec![0, 1, 1_000_000], vec![0, 3, 1], vec![-5, 1, 2]] {
        // SAFETY: it is the point of the test that what reads the lists checks them first.
        let list = unsafe {
            let data = arrow::array::ArrayDataBuilder::new(DataType::new_list(DataType::Float64, true)).len(2);
            let offsets = arrow::buffer::Buffer::from_vec::<i32>(offsets);
            data.add_buffer(offsets).add_child_data(values.to_data()).build_unchecked()
        };
        let list: ArrayRef = Arc::new(ListArray::from(list));
        let batch = RecordBatch::try_from_iter_with_nullable([("v", list, true)]).expect("one column");
        let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).expect("one schema");
        context.deregister_table("b").expect("a table or none");
        context.register_table("b", Arc::new(table)).expect("a new name");
        let error = run(&context, "SELECT total(v) FROM b").await.expect_err("a broken list");
        assert!(error.contains("column 'v' is broken"), "{error}");
    }
}
