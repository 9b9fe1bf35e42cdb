//! Dates and timestamps plus and minus constant intervals of every unit, beside stock.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};

use crate::common::{Engines, config};
use crate::operators::{assert_none, extremes};
use crate::outcome;

/// Intervals as `arrow_cast` and SQL have them: less than a unit, months that are too short, and what leads out of the
/// range of dates or of 64 bits and back.
const INTERVALS: [&str; 27] = [
    "INTERVAL '0 days'",
    "INTERVAL '1 nanosecond'",
    "INTERVAL '-1 nanosecond'",
    "INTERVAL '1500 milliseconds'",
    "INTERVAL '-1500 microseconds'",
    "INTERVAL '36 hours'",
    "INTERVAL '-36 hours'",
    "INTERVAL '9223372036 seconds'",
    "INTERVAL '1 day'",
    "INTERVAL '-10 days'",
    "INTERVAL '150000 days -24 hours'",
    "INTERVAL '-150000 days'",
    "INTERVAL '2147483647 days'",
    "INTERVAL '-2147483647 days'",
    "INTERVAL '95026236 days'",
    "INTERVAL '1 month'",
    "INTERVAL '-1 month'",
    "INTERVAL '13 months 1 day'",
    "INTERVAL '-25 months 3 days -5 hours'",
    "INTERVAL '584 years -106751 days'",
    "INTERVAL '-584 years 213504 days'",
    "INTERVAL '262142 years'",
    "INTERVAL '178000000 years'",
    "arrow_cast('7 months', 'Interval(YearMonth)')",
    "arrow_cast('-2147483647 months', 'Interval(YearMonth)')",
    "arrow_cast('3 days -1500 milliseconds', 'Interval(DayTime)')",
    "arrow_cast('-2147483647 days', 'Interval(DayTime)')",
];

fn times() -> Vec<DataType> {
    let mut types = vec![DataType::Date32, DataType::Date64];
    for unit in [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond] {
        types.push(DataType::Timestamp(unit, None));
    }
    types.push(DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())));
    types.push(DataType::Timestamp(TimeUnit::Second, Some("+02:00".into())));
    types
}

/// A table `t{row}` for each of these values and one for null, since one that overflows is the error of all. Of
/// milliseconds for dates, and of nanoseconds, the extremes are in another unit than in others.
fn values(data_type: &DataType) -> ArrayRef {
    let of_seconds =
        [1_709_164_800_i64, 1_706_659_200, -1, -86_400, -86_401, 951_696_000, 253_402_300_799, -62_135_596_801];
    let a_second = match data_type {
        DataType::Date32 => return extremes(data_type),
        DataType::Timestamp(TimeUnit::Second, _) => 1,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000_000,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => 1_000_000_000,
        _ => 1_000,
    };
    let first_and_last = [-8_334_601_228_800, 8_210_266_876_799];
    let numbers = of_seconds.iter().chain(&first_and_last).filter_map(|seconds: &i64| seconds.checked_mul(a_second));
    let more = [i64::MIN, i64::MIN + 1, i64::MIN + 3_600_000_000_000, -1, 0, 1, 86_399_999, i64::MAX - 1, i64::MAX];
    let numbers = Int64Array::from_iter_values(numbers.chain(more));
    cast(&numbers, data_type).expect("numbers are times")
}

fn tables(engines: &Engines, data_type: &DataType) -> usize {
    let values = values(data_type);
    let null = arrow::array::new_null_array(data_type, 1);
    let k: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let field = Field::new("a", data_type.clone(), true);
    let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false), field]));
    for row in 0..=values.len() {
        let a = if row == values.len() { Arc::clone(&null) } else { values.slice(row, 1) };
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::clone(&k), a]).expect("columns of one length");
        engines.table(&format!("t{row}"), vec![batch]);
    }
    values.len() + 1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums() {
    let all = std::env::var_os("WELD_ALL_VALUES").is_some();
    let mut wrong = Vec::new();
    for (t, data_type) in times().into_iter().enumerate() {
        let engines = Engines::new(config(1));
        let tables = tables(&engines, &data_type);
        for (i, interval) in INTERVALS.into_iter().enumerate() {
            let sums = [format!("a + {interval}"), format!("a - {interval}"), format!("{interval} + a")];
            for (_, sum) in sums.into_iter().enumerate().filter(|(s, _)| all || (t + i + s) % 5 == 0) {
                // Days in that zone are DataFusion's.
                let zone = matches!(&data_type, DataType::Timestamp(_, Some(zone)) if &**zone == "+02:00");
                let sql = format!("SELECT k, {sum} FROM t{} WHERE k > 0", tables - 1);
                match engines.run(&sql).await {
                    Ok(run) if zone || (run.summary.evaluated.is_empty() && run.summary.declined.is_empty()) => {}
                    other => {
                        wrong.push(format!("{data_type}: {sum} is not compiled: {:?}", other.map(|run| run.summary)))
                    }
                }
                for table in 0..tables {
                    let sql = format!("SELECT k, {sum} FROM t{table} WHERE k > 0");
                    wrong.extend(outcome(&engines, &sql).await.err().map(|why| format!("{data_type}: {why}")));
                }
            }
        }
    }
    assert_none(&wrong);
}

/// In filters, conditions of joins, keys of joins and groups, and what is evaluated for some rows only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn places() {
    let engines = Engines::new(config(2));
    let rows = "
        SELECT v AS k, v % 3 AS g, CASE WHEN v % 7 = 0 THEN NULL ELSE to_timestamp_seconds(v * 7919 - 90000) END AS t,
               CASE WHEN v % 5 = 0 THEN NULL ELSE arrow_cast(arrow_cast(v * 5 - 300, 'Int32'), 'Date32') END AS d
        FROM generate_series(0, 99) AS g(v)";
    engines.table_from("t", rows, 30).await;
    let mut wrong = Vec::new();
    for sql in [
        "SELECT k FROM t WHERE t + INTERVAL '1 hour' > TIMESTAMP '1970-01-02 00:30:00' AND d - INTERVAL '1 month' < DATE '1970-01-31'",
        "SELECT t + INTERVAL '1 month', count(*), sum(k) FROM t GROUP BY t + INTERVAL '1 month'",
        "SELECT d - INTERVAL '2 days', count(*), max(d + INTERVAL '1 year') FROM t GROUP BY d - INTERVAL '2 days'",
        "SELECT x.k, y.k FROM t x JOIN t y ON x.g = y.g AND x.t < y.t + INTERVAL '1 day' AND x.t > y.t - INTERVAL '5 hours'",
        "SELECT x.k, y.k FROM t x JOIN t y ON x.t BETWEEN y.t - INTERVAL '1 hour' AND y.t + INTERVAL '3 hours'",
        "SELECT x.k, y.k FROM t x LEFT JOIN t y ON x.d = y.d + INTERVAL '10 days' AND x.t <> y.t - INTERVAL '1 second'",
        "SELECT k, CASE WHEN g = 1 THEN t + INTERVAL '1 day' ELSE t - INTERVAL '1 day' END FROM t WHERE k > 1",
    ] {
        let run = engines.check(sql, 1).await;
        if !run.summary.evaluated.is_empty() || !run.summary.declined.is_empty() {
            wrong.push(format!("{sql}: {:?}", run.summary));
        }
    }
    assert_none(&wrong);
    // Rows that a condition leaves out do not overflow. One partition: which of two fails first depends on who is
    // faster.
    let engines = Engines::new(config(1));
    engines.table_from("t", rows, 30).await;
    for sql in [
        "SELECT k, CASE WHEN k < 90 THEN d + INTERVAL '95026000 days' END FROM t WHERE k < 50",
        "SELECT k FROM t WHERE k < 50 AND d + INTERVAL '95026100 days' IS NOT NULL",
        "SELECT k, d + INTERVAL '95026100 days' FROM t WHERE k > 1",
    ] {
        wrong.extend(outcome(&engines, sql).await.err());
    }
    assert_none(&wrong);
}
