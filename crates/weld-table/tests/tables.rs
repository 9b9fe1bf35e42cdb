//! Encoded tables beside `MemTable`: the same rows of every type, whatever was asked of them.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray,
    FixedSizeBinaryArray, Float64Array, Int8Array, Int32Array, Int64Array, ListArray, NullArray, RecordBatch, RunArray,
    StringArray, StructArray, UInt32Array, UInt64Array, make_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{cast, concat_batches, take};
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type, Schema, TimeUnit, i256};
use arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::MemTable;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use weld_table::{TableSource, WeldTable, create_table, register_table};

/// Values of a type, the extremes among them.
fn values(data_type: &DataType) -> ArrayRef {
    use DataType::*;
    let of = |array: ArrayRef| cast(&array, data_type).expect("values of the type");
    let bits = |bits: u32| (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits));
    let integers =
        |(min, max): (i64, i64)| Arc::new(Int64Array::from(vec![3, -1, 0, max, min, 7, max - 1])) as ArrayRef;
    match data_type {
        Int8 => of(integers(bits(8))),
        Int16 => of(integers(bits(16))),
        Int32 | Date32 | Interval(_) => of(cast(&integers(bits(32)), &Int32).expect("they fit")),
        Int64 | Date64 | Timestamp(..) | Duration(_) => of(integers(bits(64))),
        Time32(_) => of(Arc::new(Int32Array::from(vec![0, 86_399, 1]))),
        Time64(_) => of(Arc::new(Int64Array::from(vec![0, 86_399_999, 1]))),
        UInt8 | UInt16 | UInt32 | UInt64 => {
            let max = u64::MAX >> (64 - 8 * data_type.primitive_width().expect("integers have one"));
            of(Arc::new(UInt64Array::from(vec![3, 0, max, max / 2, max / 2 + 1])))
        }
        Float16 | Float32 | Float64 => {
            let nan = f64::NAN;
            of(Arc::new(Float64Array::from(vec![1.5, -0.0, 0.0, nan, -nan, f64::INFINITY, -2.0, f64::NEG_INFINITY])))
        }
        Decimal32(precision, _) | Decimal64(precision, _) | Decimal128(precision, _) => {
            let max = 10i128.pow((*precision).into()) - 1;
            let wide = Decimal128Array::from(vec![5, max, -max, 0, 12]);
            let (precision, scale) = (38, data_type.clone());
            let scale = if let Decimal32(_, s) | Decimal64(_, s) | Decimal128(_, s) = scale { s } else { 0 };
            of(Arc::new(wide.with_precision_and_scale(precision, scale).expect("a precision that there is")))
        }
        Decimal256(precision, scale) => {
            let values = [1, -1, i128::MAX].map(i256::from_i128);
            let values = arrow::array::Decimal256Array::from(values.to_vec());
            Arc::new(values.with_precision_and_scale(*precision, *scale).expect("a precision that there is"))
        }
        Boolean => Arc::new(BooleanArray::from(vec![true, false, false])),
        Binary | LargeBinary | BinaryView => {
            let bytes: [&[u8]; 4] = [b"", b"\xff\x00", b"thirteen byte", b"a"];
            of(Arc::new(BinaryArray::from_iter_values(bytes)))
        }
        FixedSizeBinary(_) => {
            Arc::new(FixedSizeBinaryArray::try_from_iter([[0u8, 1], [255, 0]].into_iter()).expect("of one width"))
        }
        Null => Arc::new(NullArray::new(3)),
        List(_) => {
            let lists = [Some(vec![Some(1), None]), Some(vec![]), Some(vec![Some(7)])];
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists))
        }
        Struct(fields) => {
            let columns = [values(fields[0].data_type()), values(fields[1].data_type())];
            let rows = columns.iter().map(|column| column.len()).min().unwrap_or(0);
            let columns = columns.iter().map(|column| column.slice(0, rows)).collect();
            Arc::new(StructArray::new(fields.clone(), columns, None))
        }
        Dictionary(..) => {
            let entries = StringArray::from(vec![Some("x"), None, Some("nobody's"), Some("x"), Some("ü")]);
            let codes = Int32Array::from(vec![Some(0), Some(1), None, Some(4), Some(3)]);
            of(Arc::new(DictionaryArray::<Int32Type>::try_new(codes, Arc::new(entries)).expect("codes of entries")))
        }
        _ => of(Arc::new(StringArray::from(vec!["", "a", "twelve bytes", "a text that is longer than twelve", "ü"]))),
    }
}

fn types() -> Vec<DataType> {
    use DataType::*;
    let mut types = vec![Boolean, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Float16, Float32, Float64];
    types.extend([Decimal32(7, 2), Decimal64(16, 3), Decimal128(20, 4), Decimal128(38, 0), Decimal256(45, 3)]);
    types.extend([Date32, Date64, Time32(TimeUnit::Second), Time64(TimeUnit::Microsecond)]);
    types.extend([Timestamp(TimeUnit::Nanosecond, Some("+01:00".into())), Timestamp(TimeUnit::Second, None)]);
    types.extend([Duration(TimeUnit::Millisecond), Interval(arrow::datatypes::IntervalUnit::YearMonth), Null]);
    types.extend([Utf8, LargeUtf8, Utf8View, Binary, LargeBinary, BinaryView, FixedSizeBinary(2)]);
    types.extend([Dictionary(Box::new(Int8), Box::new(Utf8)), Dictionary(Box::new(UInt32), Box::new(Utf8View))]);
    types.push(DataType::new_list(Int64, true));
    types.push(Struct(vec![Field::new("a", Int64, true), Field::new("b", Utf8, true)].into()));
    types
}

/// `rows` rows: `i` counts them, `few` and `all` have values of the type, with nulls in some batches; slices of arrays
/// whose bitmaps begin within a byte. Values of `few` fit the narrowest width.
fn batches(data_type: &DataType, rows: usize, batch_rows: usize) -> Vec<RecordBatch> {
    let values = values(data_type);
    let at = |pick: &dyn Fn(usize) -> usize| UInt32Array::from_iter_values((0..rows).map(|row| pick(row) as u32));
    let with_nulls = |array: ArrayRef, every: usize| {
        if array.is_empty() || array.data_type().is_null() {
            return array;
        }
        let there = NullBuffer::from_iter((0..rows).map(|row| row % every != 1 || row % 50 < 20));
        let nulls = NullBuffer::union(array.nulls(), Some(&there));
        make_array(array.to_data().into_builder().nulls(nulls).build().expect("as long as before"))
    };
    let few = take(&values, &at(&|row| row / 30 % values.len().min(2)), None).expect("rows that there are");
    let all = take(&values, &at(&|row| row * 7 % values.len()), None).expect("rows that there are");
    let field = |name: &str| Field::new(name, data_type.clone(), true);
    let schema = Arc::new(Schema::new(vec![Field::new("i", DataType::Int64, false), field("few"), field("every")]));
    let i: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
    let whole = RecordBatch::try_new(schema, vec![i, with_nulls(few, 3), with_nulls(all, 4)]).expect("of one length");
    let starts = (0..rows.max(1)).step_by(batch_rows);
    starts.map(|start| whole.slice(start, batch_rows.min(rows - start))).collect()
}

fn context(partitions: usize) -> SessionContext {
    SessionContext::new_with_config(SessionConfig::new().with_target_partitions(partitions).with_batch_size(16))
}

/// `t` encoded, and `m`, the same rows as they are.
fn tables(context: &SessionContext, batches: &[RecordBatch], zone_rows: usize) {
    let schema = batches[0].schema();
    let encoded =
        WeldTable::with_zone_rows(schema.clone(), batches.to_vec(), zone_rows).expect("batches of one schema");
    context.register_table("t", Arc::new(encoded)).expect("a new name");
    let memory = MemTable::try_new(schema, vec![batches.to_vec()]).expect("batches of one schema");
    context.register_table("m", Arc::new(memory)).expect("a new name");
}

async fn plan(context: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    let frame = context.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    frame.create_physical_plan().await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

async fn rows(context: &SessionContext, sql: &str) -> RecordBatch {
    let plan = plan(context, sql).await;
    let batches = collect(Arc::clone(&plan), context.task_ctx()).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    concat_batches(&plan.schema(), &batches).expect("batches of one schema")
}

/// The query gives the same of both tables; its rows are in order.
async fn check(context: &SessionContext, sql: &str) {
    let [encoded, memory] = ["t", "m"].map(|table| sql.replace('$', table));
    let (encoded, memory) = (rows(context, &encoded).await, rows(context, &memory).await);
    let data = |batch: &RecordBatch| batch.columns().iter().map(|column| column.to_data()).collect::<Vec<_>>();
    let shown =
        |batch: &RecordBatch| pretty_format_batches(std::slice::from_ref(batch)).expect("printable").to_string();
    // Dictionaries may differ where their values are the same.
    let has_dictionary = memory.columns().iter().any(|column| matches!(column.data_type(), DataType::Dictionary(..)));
    let is_same = if has_dictionary { shown(&encoded) == shown(&memory) } else { data(&encoded) == data(&memory) };
    assert!(is_same, "{sql}\nencoded\n{}\nin memory\n{}", shown(&encoded), shown(&memory));
}

#[tokio::test]
async fn every_type_comes_back() {
    for data_type in types() {
        for (rows, batch_rows, zone_rows) in [(0, 1, 4), (1, 1, 4), (200, 13, 4), (200, 50, 1000)] {
            {
                let context = context(if zone_rows == 4 { 3 } else { 1 });
                tables(&context, &batches(&data_type, rows, batch_rows), zone_rows);
                for sql in [
                    "SELECT * FROM $ ORDER BY i",
                    "SELECT every, i, every AS again FROM $ ORDER BY i",
                    "SELECT i, few FROM $ WHERE i BETWEEN 37 AND 91 ORDER BY i",
                    "SELECT count(*), count(few), count(every), min(i), max(i) FROM $",
                    "SELECT count(*) FROM $ WHERE few IS NULL AND i > 60",
                ] {
                    check(&context, sql).await;
                }
            }
        }
    }
}

/// What is left out by zones has no rows that pass.
#[tokio::test]
async fn filters_leave_out_no_row_that_passes() {
    for data_type in types() {
        let is_compared = !data_type.is_nested()
            && !data_type.is_null()
            && !matches!(data_type, DataType::Interval(_) | DataType::Duration(_) | DataType::Dictionary(..));
        if !is_compared {
            continue;
        }
        let context = context(2);
        let batches = batches(&data_type, 200, 200);
        tables(&context, &batches, 4);
        let state = context.state();
        for value in (0..8).map(|row| batches[0].column(2).slice(row, 1)).filter(|value| value.null_count() == 0) {
            let value = datafusion::common::ScalarValue::try_from_array(&value, 0).expect("a value");
            let literal = datafusion::prelude::lit(value);
            for op in ["=", "<>", "<", "<=", ">", ">="] {
                for column in ["few", "every"] {
                    let answer = async |table: &str| {
                        let column = datafusion::prelude::col(column);
                        let filter = match op {
                            "=" => column.eq(literal.clone()),
                            "<>" => column.not_eq(literal.clone()),
                            "<" => column.lt(literal.clone()),
                            "<=" => column.lt_eq(literal.clone()),
                            ">" => column.gt(literal.clone()),
                            _ => column.gt_eq(literal.clone()),
                        };
                        let provider = context.table_provider(table).await.expect("it is there");
                        let frame =
                            context.read_table(provider).and_then(|frame| frame.filter(filter)).expect("a filter");
                        let frame = frame.select_columns(&["i"]).expect("a column");
                        let batches = frame.collect().await.expect("it runs");
                        let mut found: Vec<i64> = Vec::new();
                        for batch in batches {
                            found.extend(batch.column(0).as_primitive::<Int64Type>().values());
                        }
                        found.sort();
                        found
                    };
                    assert_eq!(answer("t").await, answer("m").await, "{data_type}: {column} {op} {literal}");
                }
            }
        }
        drop(state);
    }
}

fn source(plan: &Arc<dyn ExecutionPlan>) -> &TableSource {
    let exec = plan.downcast_ref::<datafusion::datasource::source::DataSourceExec>();
    match (exec, &plan.children()[..]) {
        (Some(exec), _) => exec.data_source().downcast_ref::<TableSource>().expect("an encoded table"),
        (None, [input]) => source(input),
        (None, _) => panic!("{} has no source", displayable(plan.as_ref()).indent(false)),
    }
}

async fn stored(context: &SessionContext, table: &str) -> Vec<String> {
    let plan = plan(context, &format!("SELECT * FROM {table}")).await;
    let source = source(&plan);
    (0..source.columns().len()).map(|column| source.stored_type(column).expect("a column").to_string()).collect()
}

#[tokio::test]
async fn columns_have_the_narrowest_type_and_widen() {
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    context.sql("CREATE TABLE m (n BIGINT, d DATE, p DECIMAL(15, 2), s VARCHAR, f DOUBLE)").await.expect("valid SQL");
    let provider = context.table_provider("m").await.expect("it is there");
    register_table(&context, "t", provider).await.expect("a new name");
    let insert = async |rows: &str| {
        for table in ["t", "m"] {
            let sql = format!("INSERT INTO {table} {rows}");
            context.sql(&sql).await.expect("valid SQL").collect().await.expect("it inserts");
        }
        check(&context, "SELECT * FROM $ ORDER BY n, s, f").await;
        check(&context, "SELECT count(*), min(n), max(n), min(s), max(p), min(d) FROM $").await;
        stored(&context, "t").await
    };
    let many = "SELECT v % 100, DATE '2020-01-01', v % 7, concat('a text of the number ', v % 5), v * 1.5
                FROM generate_series(1, 30000) AS g(v)";
    let codes = "Dictionary(UInt8, Utf8View)";
    let cases = [
        ("VALUES (1, DATE '2020-01-01', 1.25, 'a', 1.5)", ["Int8", "Int16", "Int8", "Utf8View", "Float64"]),
        (
            "VALUES (NULL, NULL, NULL, NULL, NULL), (300, DATE '1970-01-01', 5.0, 'b', 0.0)",
            ["Int16", "Int16", "Int16", "Utf8View", "Float64"],
        ),
        (many, ["Int16", "Int16", "Int16", codes, "Float64"]),
        (
            "SELECT 70000, DATE '2200-01-01', 1000000, concat('another ', v), v FROM generate_series(1, 500) AS g(v)",
            ["Int32", "Date32", "Int32", "Dictionary(UInt16, Utf8View)", "Float64"],
        ),
        (
            "SELECT 5000000000, DATE '2020-01-01', 1000000000000, concat('one more ', v), v FROM generate_series(1, 70000) AS g(v)",
            ["Int64", "Date32", "Int64", "Utf8View", "Float64"],
        ),
    ];
    for (rows, expected) in cases {
        assert_eq!(insert(rows).await, expected, "{rows}");
    }
}

#[tokio::test]
async fn zones_are_left_out_and_partitions_share_the_rest() {
    let context = context(3);
    let sql = "SELECT v AS k, v % 10 AS d, concat('text ', v / 1000) AS s FROM generate_series(1, 100000) AS g(v)";
    let rows = context.sql(sql).await.expect("valid SQL");
    context.register_table("m", rows.into_view()).expect("a new name");
    let provider = context.table_provider("m").await.expect("it is there");
    register_table(&context, "t", provider).await.expect("a new name");
    let pruned = async |sql: &str| {
        let plan = plan(&context, sql).await;
        collect(Arc::clone(&plan), context.task_ctx()).await.expect("it runs");
        let pruned =
            |plan: &Arc<dyn ExecutionPlan>| plan.metrics().and_then(|metrics| metrics.sum_by_name("zones_pruned"));
        let mut found = None;
        let mut below = vec![Arc::clone(&plan)];
        while let Some(plan) = below.pop() {
            found = found.or_else(|| pruned(&plan).map(|pruned| pruned.as_usize()));
            below.extend(plan.children().into_iter().cloned());
        }
        found.unwrap_or_else(|| panic!("{sql}: a table counts its zones\n{}", displayable(plan.as_ref()).indent(false)))
    };
    for (condition, expected) in [
        ("k = 5000", 24),
        ("k > 90000", 21),
        ("k < 0", 25),
        ("s = 'text 7'", 21),
        ("d = 3", 0),
        ("d = 11", 25),
        ("k BETWEEN 8000 AND 9000 OR k > 99000", 22),
    ] {
        let sql = format!("SELECT count(*), sum(k), min(s) FROM $ WHERE {condition}");
        check(&context, &sql).await;
        assert_eq!(pruned(&sql.replace('$', "t")).await, expected, "{condition}");
    }
    // Filters that operators make while they run leave out zones as well.
    let join = "SELECT count(*), sum(t.k) FROM $ t JOIN (VALUES (5000), (5001)) AS v(x) ON t.k = v.x";
    check(&context, join).await;
    assert_eq!(pruned(&join.replace('$', "t")).await, 24);
    check(&context, "SELECT k, s FROM $ ORDER BY k DESC LIMIT 5").await;
    check(&context, "SELECT count(*) FROM (SELECT * FROM $ LIMIT 5000)").await;
    check(&context, "SELECT count(*), max(n) FROM (SELECT count(*) AS n FROM $ GROUP BY d)").await;
}

#[tokio::test]
async fn statistics_are_exact() {
    let context = context(2);
    let sql = "SELECT v AS k, CASE WHEN v % 10 = 0 THEN NULL ELSE v % 7 END AS n, concat('text ', v % 3) AS s,
               v * 0.5 AS f FROM generate_series(1, 10000) AS g(v)";
    let provider = context.sql(sql).await.expect("valid SQL").into_view();
    register_table(&context, "t", provider).await.expect("a new name");
    let plan = plan(&context, "SELECT s, n, k, f FROM t").await;
    let known = datafusion::physical_plan::statistics::StatisticsContext::new()
        .compute(plan.as_ref(), &datafusion::physical_plan::statistics::StatisticsArgs::new())
        .expect("statistics");
    let shown = |column: usize| {
        let column = &known.column_statistics[column];
        format!("{} {} {} {}", column.min_value, column.max_value, column.null_count, column.distinct_count)
    };
    assert_eq!(known.num_rows.to_string(), "Exact(10000)");
    assert_eq!(shown(0), "Exact(Utf8(\"text 0\")) Exact(Utf8(\"text 2\")) Exact(0) Exact(3)");
    assert_eq!(shown(1), "Exact(Int64(0)) Exact(Int64(6)) Exact(1000) Inexact(7)");
    assert!(shown(2).starts_with("Exact(Int64(1)) Exact(Int64(10000)) Exact(0) Inexact("), "{}", shown(2));
    assert!(shown(3).starts_with("Inexact(Float64(0.5)) Inexact(Float64(5000)) Exact(0) Inexact("), "{}", shown(3));
    // With a filter they are no more than estimates.
    let filtered = self::plan(&context, "SELECT count(*) FROM t WHERE k > 3").await;
    assert!(!displayable(filtered.as_ref()).indent(false).to_string().contains("PlaceholderRowExec"));
}

#[tokio::test]
async fn least_integers_can_be_negated() {
    let context = context(1);
    let values = Int8Array::from(vec![i8::MIN, 3, -5]);
    let batch = RecordBatch::try_from_iter([("v", Arc::new(values) as ArrayRef)]).expect("one column");
    tables(&context, &[batch], 2);
    check(&context, "SELECT v FROM $ WHERE v >= -v").await;
    check(&context, "SELECT -v AS n FROM $ WHERE -v < 6").await;
}

/// DataFusion takes the difference of dates whose bounds it knows for a duration.
#[tokio::test]
async fn dates_can_be_subtracted() {
    let context = context(1);
    let days = Date32Array::from(vec![Some(3), Some(-5), None]);
    let others = Date32Array::from(vec![1, 0, -1]);
    let columns = [("d", Arc::new(days) as ArrayRef), ("e", Arc::new(others) as ArrayRef)];
    tables(&context, &[RecordBatch::try_from_iter(columns).expect("columns of one length")], 2);
    check(&context, "SELECT d FROM $ WHERE d - e > 1").await;
    check(&context, "SELECT e FROM $ WHERE e - DATE '1970-01-01' >= 0 AND d >= DATE '1969-01-01'").await;
    check(&context, "SELECT min(d), max(d), min(e), max(e) FROM $").await;
}

/// DataFusion's pruning divides by a power of ten that is none where a scale is negative.
#[tokio::test]
async fn filters_that_nobody_can_prune_by_leave_out_nothing() {
    let context = context(1);
    let values = Decimal128Array::from(vec![100, 2, -300]).with_precision_and_scale(12, -2).expect("digits");
    let batch = RecordBatch::try_from_iter([("d", Arc::new(values) as ArrayRef)]).expect("one column");
    tables(&context, &[batch], 1);
    let other = "(VALUES (CAST(200 AS DECIMAL(9, 2))), (CAST(0.5 AS DECIMAL(9, 2)))) AS v(x)";
    check(&context, &format!("SELECT d, x FROM $ t JOIN {other} ON t.d = v.x")).await;
}

/// Joins whose filter somebody takes ask for the least and the largest key, which DataFusion does not find of every
/// type, and for a table by the key's value, which it does not make of dictionaries.
#[tokio::test]
async fn keys_of_types_without_bounds_are_joined() {
    let context = context(1);
    let values: ArrayRef = Arc::new(Int64Array::from(vec![4, 4, 7, 7, 9]));
    let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Int64));
    let ends = Int32Array::from(vec![2, 4, 5]);
    let runs = RunArray::<Int32Type>::try_new(&ends, &StringArray::from(vec!["a", "b", "c"])).expect("runs");
    let columns = [
        ("k", Arc::clone(&values)),
        ("d", cast(&values, &dictionary).expect("a dictionary")),
        ("r", Arc::new(runs) as ArrayRef),
    ];
    tables(&context, &[RecordBatch::try_from_iter(columns).expect("columns of one length")], 2);
    for sql in [
        "SELECT v.x FROM (VALUES (4), (5)) AS v(x) LEFT ANTI JOIN $ t ON v.x = t.d",
        "SELECT v.x FROM (VALUES (4), (5)) AS v(x) LEFT SEMI JOIN $ t ON v.x = t.d AND t.k < 9",
        "SELECT a.k FROM $ a LEFT SEMI JOIN (SELECT r FROM $ WHERE k > 4) b ON a.r = b.r ORDER BY 1",
        "SELECT k FROM $ WHERE d > 4 ORDER BY 1",
    ] {
        check(&context, sql).await;
    }
}

/// DataFusion prunes by what the bounds are cast to, also where a cast does not keep their order: the time of a later
/// day may be earlier, and 0 alone is false. In Beirut clocks went from midnight to the evening before.
#[tokio::test]
async fn casts_that_keep_no_order_leave_out_nothing() {
    let context = context(1);
    let seconds: ArrayRef = Arc::new(Int64Array::from(vec![-2, 0, 1, 90_000, 100_000, 172_800]));
    let autumn = 1_698_526_800 - 3_600;
    let nights: ArrayRef = Arc::new(Int64Array::from(vec![0, 3_599, 3_600, 7_200, 10_800, 14_400]));
    let nights = arrow::compute::kernels::numeric::add(&nights, &Int64Array::new_scalar(autumn)).expect("numbers");
    let of = |values: &ArrayRef, zone: Option<&str>| {
        cast(values, &DataType::Timestamp(TimeUnit::Second, zone.map(Into::into))).expect("times")
    };
    let columns = [
        ("i", Arc::new(Int64Array::from(vec![-1, 0, 1, 0, 5, 7])) as ArrayRef),
        ("ts", of(&seconds, None)),
        ("tz", of(&nights, Some("Asia/Beirut"))),
        ("d", cast(&seconds, &DataType::Float64).expect("numbers")),
    ];
    tables(&context, &[RecordBatch::try_from_iter(columns).expect("columns of one length")], 3);
    for filter in [
        "CAST(i AS BOOLEAN) = false",
        "CAST(i AS BOOLEAN)",
        "NOT CAST(i AS BOOLEAN)",
        "CAST(CAST(i AS BOOLEAN) AS INT) < 1",
        "CAST(ts AS TIME) <= TIME '00:00:00'",
        "CAST(ts AS TIME) > TIME '23:00:00'",
        "i > 6 OR CAST(CAST(ts AS TIMESTAMP WITH TIME ZONE) AS TIME) IN (TIME '00:00:00', TIME '23:59:58')",
        "TRY_CAST(ts AS TIME) = TIME '03:46:40' AND i > 4",
        "CAST(tz AS DATE) = DATE '2023-10-29'",
        "CAST(tz AS DATE) < DATE '2023-10-29'",
        "CAST(d AS BOOLEAN) = true",
        "CAST(tz AS TIMESTAMP) < TIMESTAMP '2023-10-28T22:00:00'",
        "CAST(tz AS TIME) < TIME '00:30:00'",
        "CAST(ts AS DATE) < DATE '1970-01-02'",
        "CAST(ts AS TIMESTAMP(9)) > TIMESTAMP '1970-01-01T00:00:00.5'",
        "CAST(d AS INT) < 3 AND CAST(i AS REAL) > -0.5",
        "TRY_CAST(d AS TINYINT) >= 0 OR CAST(i AS DECIMAL(12, 2)) > 4.99",
    ] {
        check(&context, &format!("SELECT i FROM $ WHERE {filter} ORDER BY i, ts")).await;
    }
}

fn limited(bytes: usize) -> SessionContext {
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(bytes, 1.0).build_arc().expect("a runtime");
    // DataFusion's exchanges would keep what they hold for a while when a statement has failed.
    SessionContext::new_with_config_rt(SessionConfig::new().with_target_partitions(1), runtime)
}

async fn create(context: &SessionContext, sql: &str) -> datafusion::common::Result<()> {
    match context.state().create_logical_plan(sql).await? {
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(command)) => create_table(context, command).await.map(drop),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn memory_is_the_pools_until_the_table_is_dropped() {
    let context = limited(1 << 20);
    let reserved = || context.runtime_env().memory_pool.reserved();
    let numbers = |rows: usize| format!("SELECT v AS k, v % 100 AS d FROM generate_series(1, {rows}) AS g(v)");
    create(&context, &format!("CREATE TABLE t AS {}", numbers(100_000))).await.expect("it fits");
    let one = reserved();
    // Four bytes and one for each row.
    assert!((500_000..520_000).contains(&one), "{one}");
    let error =
        create(&context, &format!("CREATE TABLE u AS {}", numbers(1_000_000))).await.expect_err("it does not fit");
    assert!(error.to_string().contains("Resources exhausted"), "{error}");
    assert_eq!(reserved(), one);
    let insert = format!("INSERT INTO t {}", numbers(1_000_000));
    let error = context.sql(&insert).await.expect("valid SQL").collect().await.expect_err("it does not fit");
    assert!(error.to_string().contains("Resources exhausted"), "{error}");
    assert_eq!(reserved(), one);
    assert_eq!(
        rows(&context, "SELECT count(*) AS n FROM t").await.column(0).as_primitive::<Int64Type>().value(0),
        100_000
    );
    context.sql("INSERT INTO t VALUES (1, 1)").await.expect("valid SQL").collect().await.expect("it fits");
    assert!((one..one + 1000).contains(&reserved()), "{} after {one}", reserved());
    create(&context, "CREATE OR REPLACE TABLE t AS SELECT 1 AS k").await.expect("it fits");
    assert!(reserved() < 1000, "{}", reserved());
    context.sql("DROP TABLE t").await.expect("it is there");
    assert_eq!(reserved(), 0);
}

#[tokio::test]
async fn statements_say_what_is_wrong() {
    let context = context(2);
    create(&context, "CREATE TABLE t AS SELECT 1 AS k").await.expect("a new name");
    create(&context, "CREATE TABLE IF NOT EXISTS t AS SELECT 2 AS k").await.expect("nothing is done");
    assert_eq!(rows(&context, "SELECT k FROM t").await.column(0).as_primitive::<Int64Type>().value(0), 1);
    for (sql, expected) in [
        ("CREATE TABLE t AS SELECT 2 AS k", "already exists"),
        ("CREATE TABLE u AS SELECT a.k, b.k FROM t a JOIN t b ON a.k = b.k", "k"),
        ("CREATE TABLE u AS SELECT 1 / (k - 1) AS x FROM t", "Divide by zero"),
    ] {
        let error = create(&context, sql).await.expect_err("it is wrong").to_string();
        assert!(error.contains(expected), "{sql}: {error}");
    }
    assert!(context.table_provider("u").await.is_err());
    for (sql, expected) in [
        ("INSERT OVERWRITE t VALUES (2)", "keeps its rows encoded"),
        ("DELETE FROM t", "DELETE"),
        ("INSERT INTO t SELECT 1 / (k - 1) FROM t", "Divide by zero"),
    ] {
        let error = match context.sql(sql).await {
            Ok(frame) => frame.collect().await.expect_err("it is wrong").to_string(),
            Err(error) => error.to_string(),
        };
        assert!(error.contains(expected), "{sql}: {error}");
    }
    let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false)]));
    let batch = RecordBatch::try_from_iter([("k", Arc::new(Int64Array::from(vec![Some(1), None])) as ArrayRef)]);
    let error = WeldTable::try_new(schema, [batch.expect("one column")]).expect_err("it has a null").to_string();
    assert!(error.contains("non-nullable"), "{error}");
}
