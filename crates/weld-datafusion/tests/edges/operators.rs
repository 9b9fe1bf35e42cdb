//! Every operator, cast and aggregate that is compiled, over the extremes of every type, beside stock.
//!
//! A query over all rows that stock refuses is asked row by row: each row is a table of its own, so that the program,
//! which does not name its table, is compiled once.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, FixedSizeBinaryArray, Float32Array, Float64Array,
    Int64Array, RecordBatch, StringArray, UInt64Array, make_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};

use crate::common::{Engines, config};
use crate::{caught, outcome};

fn integers(bits: u32) -> Vec<i64> {
    let (min, max) = (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits));
    vec![min, min + 1, -1, 0, 1, 2, 7, max - 1, max]
}

fn floats() -> Vec<f64> {
    let nan = f64::NAN;
    vec![nan, -nan, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1.5, -2.5, 1e-310, f64::MAX, f64::MIN, 127.6]
}

fn decimals(precision: u8, scale: i8) -> ArrayRef {
    let bound = 10i128.pow(precision.into()) - 1;
    let values = [-bound, bound, 0, 1, -1, 5, -5, 50, 149, -150, bound / 2, bound - 1];
    let array = Decimal128Array::from_iter_values(values);
    Arc::new(array.with_precision_and_scale(precision, scale).expect("a precision that there is"))
}

pub(crate) fn extremes(data_type: &DataType) -> ArrayRef {
    use DataType::*;
    let of = |array: ArrayRef| cast(&array, data_type).expect("values of the type");
    match data_type {
        Boolean => Arc::new(BooleanArray::from(vec![true, false])),
        Int8 => of(Arc::new(Int64Array::from(integers(8)))),
        Int16 => of(Arc::new(Int64Array::from(integers(16)))),
        Int32 => of(Arc::new(Int64Array::from(integers(32)))),
        Int64 => of(Arc::new(Int64Array::from(integers(64)))),
        Date64 | Timestamp(..) | Duration(_) => {
            // The last and the first of the years that there are, and of nanoseconds of 64 bits.
            let some = [-8_334_601_228_800, 8_210_266_876_799, 8_210_266_876_800, 951_782_400, -86_401, 1_000_000_007];
            of(Arc::new(Int64Array::from([integers(64), some.to_vec(), vec![9_223_372_037, -9_223_372_037]].concat())))
        }
        Time32(_) => of(cast(&Int64Array::from(vec![0, 1, 86_399]), &Int32).expect("seconds")),
        Time64(_) => of(Arc::new(Int64Array::from(vec![0, 1, 86_399_999_999]))),
        Binary | LargeBinary | BinaryView => {
            let bytes: [&[u8]; 6] = [b"", b"a", b"\xff\x00", b"twelve bytes", b"thirteen byte", b"thirteen bytf"];
            of(Arc::new(BinaryArray::from_iter_values(bytes)))
        }
        FixedSizeBinary(width) => {
            let width = *width as usize;
            let of = |first: u8, last: u8| [vec![first; width - 1], vec![last]].concat();
            let values = [of(0, 0), of(0, 1), of(255, 255), of(255, 0), of(b'a', b'b')];
            Arc::new(FixedSizeBinaryArray::try_from_iter(values.into_iter()).expect("values of one width"))
        }
        Decimal32(precision, scale) | Decimal64(precision, scale) => of(decimals(*precision, *scale)),
        UInt8 => of(Arc::new(UInt64Array::from(vec![0, 1, 2, 7, 127, 128, 254, 255]))),
        UInt16 => of(Arc::new(UInt64Array::from(vec![0, 1, 2, 32_767, 32_768, 65_535]))),
        UInt32 => of(Arc::new(UInt64Array::from(vec![0, 1, 2, 1 << 31, u32::MAX.into()]))),
        UInt64 => Arc::new(UInt64Array::from(vec![0, 1, 2, i64::MAX as u64, 1 << 63, u64::MAX])),
        Float32 => Arc::new(Float32Array::from_iter_values(floats().into_iter().map(|value| value as f32))),
        Float64 => Arc::new(Float64Array::from(floats())),
        Decimal128(precision, scale) => decimals(*precision, *scale),
        Date32 => {
            let days =
                [integers(32), vec![-96_465_293, -96_465_292, 95_026_236, 95_026_237, -719_529, 11_016]].concat();
            of(cast(&Int64Array::from(days), &Int32).expect("days"))
        }
        _ => {
            let texts = ["", "a", "twelve bytes", "thirteen byte", "thirteen bytf", "ü", "a_b", "A", "twelve byte\0"];
            of(Arc::new(StringArray::from_iter_values(texts)))
        }
    }
}

fn numbers() -> Vec<DataType> {
    use DataType::*;
    vec![
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float32,
        Float64,
        Decimal128(5, 2),
        Decimal128(18, 4),
        Decimal128(38, 0),
        Decimal128(38, 10),
    ]
}

fn others() -> Vec<DataType> {
    use DataType::*;
    let mut types = vec![Boolean, Date32, Timestamp(TimeUnit::Nanosecond, None), Utf8, LargeUtf8, Utf8View];
    types.extend([Time32(TimeUnit::Second), Time64(TimeUnit::Microsecond), Duration(TimeUnit::Millisecond)]);
    types.extend([Decimal32(9, 2), Decimal64(18, 3), Binary, LargeBinary, BinaryView]);
    types.extend([FixedSizeBinary(4), FixedSizeBinary(16)]);
    types
}

fn times() -> Vec<DataType> {
    use TimeUnit::*;
    let mut types = vec![DataType::Date32, DataType::Date64];
    types.extend([Second, Millisecond, Microsecond, Nanosecond].map(|unit| DataType::Timestamp(unit, None)));
    types.push(DataType::Timestamp(Microsecond, Some("+00:00".into())));
    types
}

/// The array with nulls over values that stay where they are.
fn with_nulls(array: &ArrayRef, every: usize) -> ArrayRef {
    let nulls = NullBuffer::from_iter((0..array.len()).map(|row| row % every != every - 1));
    make_array(array.to_data().into_builder().nulls(Some(nulls)).build().expect("as long as before"))
}

/// `all` has every pair of values in `a` and `b`, and rows where one of them is null; `r0`, `r1`, .. have one of its
/// rows each. Gives how many rows there are.
pub(crate) fn tables(engines: &Engines, data_type: &DataType) -> usize {
    let values = extremes(data_type);
    let n = values.len() as u64;
    let at = |pick: fn(u64, u64) -> u64| UInt64Array::from_iter_values((0..n * n).map(|row| pick(row, n)));
    let a = take(&values, &at(|row, n| row / n), None).expect("rows that there are");
    let b = take(&values, &at(|row, n| row % n), None).expect("rows that there are");
    let k: ArrayRef = Arc::new(Int64Array::from_iter_values(0..(n * n) as i64));
    let field = |name: &str| Field::new(name, data_type.clone(), true);
    let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false), field("a"), field("b")]));
    let columns = vec![k, with_nulls(&a, 7), with_nulls(&b, 5)];
    let batch = RecordBatch::try_new(schema, columns).expect("columns of one length");
    let rows = batch.num_rows();
    // Slices, some without nulls, some of nulls alone.
    let cuts: Vec<usize> = [0, 1, 4, 5, 6, 7].into_iter().filter(|cut| *cut < rows).chain([rows]).collect();
    engines.table("t", cuts.windows(2).map(|cut| batch.slice(cut[0], cut[1] - cut[0])).collect());
    for row in 0..rows {
        engines.table(&format!("r{row}"), vec![batch.slice(row, 1)]);
    }
    rows
}

/// What differs for `sql`, where `{t}` stands for the table. Row by row, one of `step` rows, if stock refuses it as a
/// whole.
pub(crate) async fn differences(engines: &Engines, sql: &str, rows: usize, step: usize) -> Vec<String> {
    let whole = sql.replace("{t}", "t");
    let mut queries = vec![whole.clone()];
    if caught(engines.stock_rows(&whole)).await.is_err() {
        queries = (0..rows).step_by(step).map(|row| sql.replace("{t}", &format!("r{row}"))).collect();
    }
    let mut wrong = Vec::new();
    for sql in queries {
        wrong.extend(outcome(engines, &sql).await.err());
    }
    wrong.truncate(3);
    wrong
}

pub(crate) fn assert_none(wrong: &[String]) {
    let some: Vec<&String> = wrong.iter().take(30).collect();
    assert!(wrong.is_empty(), "{} differ\n{some:#?}", wrong.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators() {
    let mut wrong = Vec::new();
    for data_type in [numbers(), others()].concat() {
        let engines = Engines::new(config(1));
        let rows = tables(&engines, &data_type);
        let mut queries = vec![
            "SELECT k, a = b, a <> b, a < b, a <= b, a > b, a >= b, a IS DISTINCT FROM b, a IS NOT DISTINCT FROM b
             FROM {t} WHERE k >= 0",
            "SELECT k, a IN (b, a), CASE a WHEN b THEN 1 ELSE 0 END, coalesce(a, b), CASE WHEN a < b THEN a ELSE b END
             FROM {t} WHERE a IS NOT NULL OR b IS NULL",
            "SELECT a, count(*), count(b), min(b), max(b) FROM {t} GROUP BY a",
            "SELECT a, count(*), sum(k) FROM {t} GROUP BY a HAVING count(*) > 1",
            "SELECT a, b, count(*) FROM {t} WHERE k > 2 GROUP BY CUBE (a, b)",
            "SELECT count(DISTINCT a) FROM {t} WHERE k > 2",
            "SELECT count(*), min(a), max(b), count(b) FILTER (WHERE a < b) FROM {t} WHERE k > 2",
            "SELECT count(*), sum(x.k) FROM {t} x JOIN {t} y ON x.a = y.b WHERE x.k + y.k > 3",
            "SELECT count(*), sum(x.k) FROM {t} x JOIN {t} y ON x.a IS NOT DISTINCT FROM y.b WHERE x.k + y.k > 3",
        ];
        if data_type.is_numeric() {
            queries.extend([
                "SELECT k, a + b, -a FROM {t} WHERE k >= 0",
                "SELECT k, a - b FROM {t} WHERE k >= 0",
                "SELECT k, a * b FROM {t} WHERE k >= 0",
                "SELECT k, a / b FROM {t} WHERE k >= 0",
                "SELECT k, a % b FROM {t} WHERE k >= 0",
                "SELECT sum(a), avg(b), sum(a) FILTER (WHERE a > b) FROM {t} WHERE k < 20",
                "SELECT k % 3, sum(a), avg(b) FROM {t} GROUP BY k % 3",
            ]);
        }
        if data_type.is_integer() {
            queries.push("SELECT k, a & b, a | b FROM {t} WHERE k >= 0");
            queries.push("SELECT k, a << 0, a << 3, a >> 1, a >> 5, a << 62, a >> 62 FROM {t} WHERE k >= 0");
        }
        if matches!(data_type, DataType::Duration(_)) {
            queries.extend(["SELECT k % 3, sum(a) FROM {t} GROUP BY k % 3", "SELECT sum(a) FROM {t} WHERE k < 20"]);
        }
        if data_type == DataType::Date32 {
            queries.push("SELECT k, a - b, date_part('year', a), date_part('month', b), date_part('day', a) FROM {t} WHERE k >= 0");
        }
        if data_type.is_string() {
            queries.push(
                "SELECT k, a LIKE '%e%', a LIKE 'th%', a LIKE '%s', a LIKE '_', a LIKE 'a\\_b', a NOT LIKE 't%b_t_'
                 FROM {t} WHERE k >= 0",
            );
        }
        for sql in queries {
            for difference in differences(&engines, sql, rows, 3).await {
                wrong.push(format!("{data_type}: {difference}"));
            }
        }
    }
    assert_none(&wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn casts() {
    let more = vec![DataType::Boolean, DataType::Decimal128(3, 1), DataType::Decimal128(20, 0)];
    let targets = [numbers(), more, times()].concat();
    let sources = [numbers(), vec![DataType::Boolean, DataType::Decimal64(16, 3)], times()].concat();
    let all = std::env::var_os("WELD_ALL_VALUES").is_some();
    let mut wrong = Vec::new();
    for (s, source) in sources.iter().enumerate() {
        let engines = Engines::new(config(1));
        let rows = tables(&engines, source);
        for (t, target) in targets.iter().enumerate().filter(|(t, _)| all || (s + t) % 4 == 0) {
            let cast = if (s + t) % 8 == 0 { "arrow_try_cast" } else { "arrow_cast" };
            let sql = format!("SELECT k, {cast}(a, '{target}') FROM {{t}} WHERE k >= 0");
            let step = if all { 1 } else { 5 + t % 2 };
            for difference in differences(&engines, &sql, rows, step).await {
                wrong.push(format!("{source} as {target}: {difference}"));
            }
        }
    }
    assert_none(&wrong);
}
