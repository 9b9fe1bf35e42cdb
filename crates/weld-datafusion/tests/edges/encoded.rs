//! Encoded tables in memory: compiled code reads columns of every type in every width that they are stored in.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Decimal128Array, Int64Array, RecordBatch, StringArray, UInt64Array, make_array};
use arrow::buffer::NullBuffer;
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::physical_plan::collect;

use crate::common::{Engines, config};
use crate::outcome;

/// A few values of the type, which are stored in so many bytes: texts as codes, or as views if it is 16.
fn values(data_type: &DataType, bytes: usize) -> Option<ArrayRef> {
    let factor: i128 = match bytes {
        1 => 1,
        2 => 300,
        4 => 70_000,
        8 => 5_000_000_000,
        _ => 10_000_000_000_000_000_000,
    };
    if data_type.is_string() {
        let texts = ["", "a", "twelve bytes", "thirteen byte", "thirteen bytf", "ü"].map(str::to_owned);
        let texts =
            (0..if bytes == 16 { 200 } else { 1 }).flat_map(|n| texts.clone().map(|text| text + &".".repeat(n)));
        return cast(&StringArray::from_iter_values(texts), data_type).ok();
    }
    let is_unsigned = data_type.is_unsigned_integer();
    let small = [3, 0, 100, if is_unsigned { 200 } else { -100 }, 7, 1].map(|value| value * factor);
    let wide = Decimal128Array::from(small.to_vec());
    let array: ArrayRef = match data_type {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale) => {
            if 10i128.pow((*precision).into()) <= 200 * factor {
                return None;
            }
            cast(&wide.with_precision_and_scale(38, *scale).ok()?, data_type).ok()?
        }
        _ => {
            let whole = cast(&wide.with_precision_and_scale(38, 0).ok()?, &DataType::Int64).ok()?;
            match data_type {
                DataType::Date32 | DataType::Time32(_) => {
                    cast(&cast(&whole, &DataType::Int32).ok()?, data_type).ok()?
                }
                _ => cast(&whole, data_type).ok()?,
            }
        }
    };
    (array.null_count() == 0).then_some(array)
}

fn types() -> Vec<DataType> {
    use DataType::*;
    let mut types = vec![Int32, Int64, UInt64, Date32, Decimal64(18, 3), Decimal128(15, 2), Decimal128(38, 0)];
    types.extend([
        Timestamp(TimeUnit::Nanosecond, Some("+00:00".into())),
        Duration(TimeUnit::Millisecond),
        Utf8,
        Utf8View,
    ]);
    types
}

/// `a` and `b` have the values, `k` counts the rows; in the last third of the rows some are null.
fn table(values: &ArrayRef, nulls: bool) -> Vec<RecordBatch> {
    let rows = 600;
    let at = |pick: fn(u64) -> u64| {
        let n = values.len() as u64;
        take(values, &UInt64Array::from_iter_values((0..rows).map(|row| pick(row) % n)), None).expect("rows there are")
    };
    let with_nulls = |array: ArrayRef, every: usize| {
        let valid = NullBuffer::from_iter((0..array.len()).map(|row| row < 400 || row % every != 0));
        make_array(array.to_data().into_builder().nulls(nulls.then_some(valid)).build().expect("as long"))
    };
    let k: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
    let field = |name: &str| Field::new(name, values.data_type().clone(), true);
    let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false), field("a"), field("b")]));
    let columns = vec![k, with_nulls(at(|row| row), 5), with_nulls(at(|row| row * row / 7), 3)];
    let whole = RecordBatch::try_new(schema, columns).expect("columns of one length");
    (0..6).map(|part| whole.slice(part * 100, 100)).collect()
}

fn queries(data_type: &DataType) -> Vec<&'static str> {
    let mut queries = vec![
        "SELECT * FROM t WHERE k >= 10",
        "SELECT k, a = b, a < b, a IS DISTINCT FROM b, coalesce(a, b) FROM t WHERE a IS NOT NULL OR k % 2 = 0",
        "SELECT a, count(*), count(b), min(b), max(b) FROM t GROUP BY a",
        "SELECT a, b, count(*) FROM t WHERE k > 2 GROUP BY CUBE (a, b)",
        "SELECT count(DISTINCT a), min(a), max(b), count(b) FILTER (WHERE a < b) FROM t WHERE k > 2",
        "SELECT x.k, y.a, y.b FROM t x LEFT JOIN t y ON x.a = y.b AND y.k < 20 WHERE x.k > 570",
        "SELECT count(*) FROM t x JOIN t y ON x.a IS NOT DISTINCT FROM y.b WHERE x.k + y.k > 3 AND y.k > 550",
        "SELECT a, b FROM t WHERE k > 590 ORDER BY a, b, k LIMIT 7",
    ];
    if data_type.is_numeric() {
        queries.extend([
            "SELECT k, a + b, a * b, -a FROM t WHERE a >= b",
            "SELECT sum(a), avg(b), sum(a) FILTER (WHERE a > b) FROM t WHERE k > 20",
            "SELECT k % 3, sum(a), avg(b), sum(a * b) FROM t GROUP BY k % 3",
        ]);
    }
    if *data_type == DataType::Date32 {
        queries.push("SELECT k, a - b, date_part('year', a), date_part('day', b) FROM t WHERE k >= 0");
    }
    if data_type.is_string() {
        queries.push("SELECT k, a LIKE '%e%', a LIKE 't%', upper(b), a || b FROM t WHERE k >= 0");
        queries.push("SELECT count(*) FROM t WHERE a = 'twelve bytes' OR b IN ('a', 'ü')");
    }
    queries
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_width_is_read() {
    let mut wrong = Vec::new();
    let mut widths = 0;
    for data_type in types() {
        for bytes in [1, 2, 4, 8, 16] {
            let Some(values) = values(&data_type, bytes) else { continue };
            widths += 1;
            let (partitions, nulls) = if widths % 3 == 0 { (1, false) } else { (3, true) };
            let engines = Engines::new(config(partitions).with_batch_size(64));
            engines.encoded_table("t", table(&values, nulls), 30);
            for sql in queries(&data_type) {
                if let Err(difference) = outcome(&engines, sql).await {
                    wrong.push(format!("{data_type} in {bytes} bytes: {difference}"));
                }
            }
        }
    }
    assert!(widths > 30, "only {widths} widths");
    let some: Vec<&String> = wrong.iter().take(10).collect();
    assert!(wrong.is_empty(), "{} differ\n{some:#?}", wrong.len());
}

/// What is stored narrower goes into compiled code as it is stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipelines_read_what_is_stored() {
    let engines = Engines::new(config(2));
    let wide = values(&DataType::Decimal128(15, 2), 2).expect("it fits");
    engines.encoded_table("t", table(&wide, false), 30);
    let frame = engines.weld.sql("SELECT sum(a * b) FROM t WHERE a > 3").await.expect("valid SQL");
    let plan = frame.create_physical_plan().await.expect("a plan");
    collect(Arc::clone(&plan), engines.weld.task_ctx()).await.expect("it runs");
    let pipelines = weld_datafusion::pipelines(&plan);
    let plans = pipelines.iter().map(|exec| exec.loop_plans().expect("a plan of loops")).collect::<String>();
    println!("{plans}");
    // With a filter by the keys of a join as well.
    let sql = "SELECT y.n FROM (SELECT a, count(*) AS n FROM t GROUP BY a) y JOIN t x ON x.a = y.a WHERE x.k < 2";
    engines.check(sql, 2).await;
}
