//! Scalar functions over the extremes of the types that they take, beside stock. What compiles is said here, too: the
//! functions of these queries are not left to DataFusion.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float32Array, Float64Array, RecordBatch};
use arrow::datatypes::{DataType, TimeUnit};

use crate::common::{Engines, config};
use crate::operators::{assert_none, differences, tables};

/// Functions of the column `a` of these types.
pub(crate) fn calls() -> Vec<(DataType, Vec<&'static str>)> {
    use DataType::*;
    let of_float = vec![
        "abs(a)",
        "sqrt(a)",
        "exp(a)",
        "ln(a)",
        "log10(a)",
        "sin(a)",
        "cos(a)",
        "tan(a)",
        "asin(a)",
        "acos(a)",
        "atan(a)",
        "floor(a)",
        "ceil(a)",
        "trunc(a)",
        "round(a)",
        "round(a, 2)",
        "round(a, -1)",
        "signum(a)",
        "isnan(a)",
        "iszero(a)",
        "radians(a)",
        "degrees(a)",
        "nullif(a, b)",
    ];
    let of_integer = vec!["abs(a)", "isnan(a)", "iszero(a)", "nullif(a, b)", "greatest(a, b)", "least(b, a)"];
    let of_seconds = vec!["to_timestamp(a)", "to_timestamp_seconds(a)", "to_timestamp_millis(a)"];
    let of_text = vec![
        "starts_with(a, 'th')",
        "ends_with(a, b)",
        "contains(a, 'e')",
        "octet_length(a)",
        "character_length(a)",
        "substr(a, 2)",
        "substr(a, 2, 3)",
        "substr(a, -1, 3)",
        "substr(a, 0, 0)",
        "substr(a, 30, 2)",
        "left(a, 2)",
        "left(a, 0)",
        "left(a, -3)",
        "right(a, 3)",
        "right(a, 0)",
        "right(a, -2)",
        "strpos(a, 'e')",
        "strpos(a, b)",
        "strpos(a, '')",
        "strpos(a, 'e') > 0",
        "strpos(a, b) = 0",
        "strpos(a, 't') = 1",
        "strpos(a, b) <> 1",
        "strpos(a, '') >= 1",
        "strpos(a, 'é') > 2",
        "split_part(a, ' ', 1)",
        "split_part(a, 'e', 2)",
        "split_part(a, 'th', 3)",
        "btrim(a)",
        "ltrim(a)",
        "rtrim(a)",
        "btrim(a, 'thé ')",
        "ltrim(a, b)",
        "a ILIKE 'TH%'",
        "a NOT ILIKE '%E_%'",
        "nullif(a, b)",
        "greatest(a, b)",
        "least(b, a)",
    ];
    let of_time = vec![
        "a + INTERVAL '1 day'",
        "INTERVAL '2 months' + a",
        "a - INTERVAL '1 year 3 days 25 hours'",
        "date_part('year', a)",
        "date_part('quarter', a)",
        "date_part('month', a)",
        "date_part('day', a)",
        "date_part('doy', a)",
        "date_part('dow', a)",
        "date_part('isodow', a)",
        "date_part('hour', a)",
        "date_part('minute', a)",
        "date_part('second', a)",
        "date_part('week', a)",
        "date_part('isoyear', a)",
        "date_part('epoch', a)",
    ];
    let mut calls = vec![
        (Float64, of_float.clone()),
        (Float32, of_float),
        (Int8, of_integer.clone()),
        (Int64, [of_integer.clone(), vec!["round(a)"], of_seconds.clone(), vec!["from_unixtime(a)"]].concat()),
        (UInt32, [of_integer, of_seconds].concat()),
        (
            Decimal128(18, 4),
            vec![
                "abs(a)",
                "isnan(a)",
                "iszero(a)",
                "round(a)",
                "round(a, 2)",
                "round(a, 4)",
                "nullif(a, b)",
                "greatest(a, b)",
                "least(b, a)",
            ],
        ),
        (Boolean, vec!["nullif(a, b)", "greatest(a, b)", "least(b, a)"]),
        (Utf8, of_text.clone()),
        (Utf8View, of_text.clone()),
        (LargeUtf8, of_text),
        (Date32, of_time.clone()),
        (Date64, of_time.clone()),
    ];
    for unit in [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond] {
        let truncs = vec![
            "date_trunc('second', a)",
            "date_trunc('minute', a)",
            "date_trunc('hour', a)",
            "date_trunc('day', a)",
            "date_trunc('week', a)",
            "date_trunc('month', a)",
            "date_trunc('quarter', a)",
            "date_trunc('year', a)",
            "date_bin(INTERVAL '15 minutes', a)",
            "date_bin(INTERVAL '9 days', a)",
            "to_timestamp_seconds(a)",
            "to_timestamp_millis(a)",
        ];
        let in_any_zone = ["date_trunc('millisecond', a)", "date_trunc('second', a)", "date_trunc('minute', a)"];
        calls.push((Timestamp(unit, Some("Europe/Berlin".into())), in_any_zone.to_vec()));
        calls.push((Timestamp(unit, Some("UTC".into())), [of_time.clone(), truncs.clone()].concat()));
        calls.push((Timestamp(unit, None), [of_time.clone(), truncs].concat()));
    }
    calls
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions() {
    let mut wrong = Vec::new();
    for (data_type, calls) in calls() {
        let engines = Engines::new(config(1));
        let rows = tables(&engines, &data_type);
        for call in calls {
            let sql = format!("SELECT k, {call} FROM {{t}} WHERE k >= 0");
            for difference in differences(&engines, &sql, rows, 7).await {
                wrong.push(format!("{data_type}: {difference}"));
            }
            match engines.run(&sql.replace("{t}", "r0")).await {
                Ok(run) if run.summary.evaluated.is_empty() && run.summary.declined.is_empty() => {}
                Ok(run) => wrong.push(format!("{data_type}: {call} is not compiled: {:?}", run.summary)),
                Err(_) => {}
            }
        }
    }
    assert_none(&wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_of_text_as_keys() {
    let engines = Engines::new(config(2));
    let rows = "SELECT v AS k, CASE WHEN v % 5 = 0 THEN NULL ELSE repeat(chr(97 + v % 3), v % 20) || 'größe' END AS s
                FROM generate_series(0, 200) AS g(v)";
    engines.table_from("t", rows, 30).await;
    for sql in [
        "SELECT substr(s, 1, 2), count(*), sum(k) FROM t GROUP BY substr(s, 1, 2)",
        "SELECT left(s, 15) AS p, count(*) FROM t WHERE k > 10 GROUP BY left(s, 15)",
        "SELECT a.k, b.k FROM t a JOIN t b ON substr(a.s, 3) = substr(b.s, 3) WHERE a.k + b.k < 60",
        "SELECT k, substr(s, 2, 14) FROM t WHERE substr(s, 1, 2) IN ('aa', 'bb', 'gr')",
    ] {
        engines.check(sql, 1).await;
    }
}

/// Of NaN with a sign the sign is NaN without one, which comes after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signs_of_nan() {
    let engines = Engines::new(config(1));
    let a: ArrayRef = Arc::new(Float64Array::from(vec![-f64::NAN, f64::NAN, -0.0, 0.0, -7.5]));
    let b: ArrayRef = Arc::new(Float32Array::from(vec![-f32::NAN, f32::NAN, -0.0, 0.0, -7.5]));
    engines.table("t", vec![RecordBatch::try_from_iter([("a", a), ("b", b)]).expect("columns of one length")]);
    engines.check("SELECT a, b FROM t WHERE signum(a) NOT BETWEEN a AND a", 1).await;
    engines.check("SELECT a, b FROM t WHERE signum(b) > b", 1).await;
}
