//! A table like ClickBench's `hits` as a Parquet file, and the benchmark's 43 questions.
//!
//! Ten million rows at scale factor 1, a tenth of the public table, and the columns that the questions name, in the
//! types of the public file: no nulls, texts as strings, the date as a date and the time as a timestamp, as views over
//! that file make them. Each row group is sorted by counter, day and user, as parts of the original table are.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, Date32Array, Int16Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use datafusion::arrow::error::ArrowError;
use indicatif::ProgressBar;
use parquet::errors::Result;

use super::generated::{Generated, texts};
use super::hits::{Hit, Hits};
use super::{files, row_groups};

pub(crate) const SUITE: Generated =
    Generated { title: "ClickBench", name: "clickbench", tables: &["hits"], queries: &QUERIES, steps, write };

#[rustfmt::skip]
const QUERIES: [&str; 43] = texts!("clickbench"
    1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43);

/// So many rows are held as texts at a time.
const BATCH_ROWS: usize = 1 << 15;

fn rows(scale_factor: f64) -> u64 {
    (1e7 * scale_factor).round().max(1.0) as u64
}

fn steps(scale_factor: f64) -> u64 {
    row_groups::count(rows(scale_factor))
}

fn write(folder: &Path, scale_factor: f64, progress: &ProgressBar) -> Result<()> {
    let rows = rows(scale_factor);
    let hits = Hits::new(rows);
    let schema = batch(&hits, &[])?.schema();
    progress.set_message("hits");
    let make = |number: usize| {
        let start = number as u64 * row_groups::ROWS;
        batches(&hits, start..rows.min(start + row_groups::ROWS))
    };
    row_groups::write(&files::file(folder, "hits"), &schema, steps(scale_factor) as usize, make, progress)
}

/// A row group's rows.
fn batches(hits: &Hits, range: Range<u64>) -> impl Iterator<Item = std::result::Result<RecordBatch, ArrowError>> {
    let mut rows: Vec<Hit> = range.map(|row| hits.hit(row)).collect();
    rows.sort_unstable_by_key(|hit| (hit.counter.id, hit.date, hit.user.id, hit.time, hit.row));
    let starts = (0..rows.len()).step_by(BATCH_ROWS);
    starts.map(move |start| batch(hits, &rows[start..rows.len().min(start + BATCH_ROWS)]))
}

fn batch(hits: &Hits, rows: &[Hit]) -> std::result::Result<RecordBatch, ArrowError> {
    let urls: Vec<String> = rows.iter().map(Hit::url).collect();
    let (referers, referer_hashes): (Vec<_>, Vec<_>) = rows.iter().map(Hit::referer).unzip();
    let phrases: Vec<_> = rows.iter().map(|hit| hits.search_phrase(hit)).collect();
    let (phones, models): (Vec<_>, Vec<_>) = rows.iter().map(|hit| hit.user.phone()).unzip();
    let (widths, heights): (Vec<_>, Vec<_>) = rows.iter().map(Hit::window).unzip();
    let url_hashes = rows.iter().zip(&urls).map(|(hit, url)| hit.url_hash(url)).collect();
    let engines = rows.iter().zip(&phrases).map(|(hit, phrase)| hit.search_engine(phrase.is_some())).collect();

    let small = |values: Vec<i16>| -> ArrayRef { Arc::new(Int16Array::from(values)) };
    let int =
        |value: &dyn Fn(&Hit) -> i32| -> ArrayRef { Arc::new(Int32Array::from_iter_values(rows.iter().map(value))) };
    let flag = |value: fn(&Hit) -> i16| small(rows.iter().map(value).collect());
    let long = |values: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
    let text = |values: &[String]| -> ArrayRef { Arc::new(StringArray::from_iter_values(values)) };
    let microseconds = rows.iter().map(|hit| hit.time * 1_000_000);
    let columns: [(&str, ArrayRef); 25] = [
        ("WatchID", long(rows.iter().map(Hit::watch_id).collect())),
        ("Title", text(&rows.iter().map(Hit::title).collect::<Vec<_>>())),
        ("EventTime", Arc::new(TimestampMicrosecondArray::from_iter_values(microseconds))),
        ("EventDate", Arc::new(Date32Array::from_iter_values(rows.iter().map(|hit| hit.date)))),
        ("CounterID", int(&|hit| hit.counter.id)),
        ("ClientIP", int(&|hit| hits.client_ip(hit.user))),
        ("RegionID", int(&|hit| hit.user.region())),
        ("UserID", long(rows.iter().map(|hit| hit.user.id).collect())),
        ("URL", text(&urls)),
        ("Referer", text(&referers)),
        ("IsRefresh", flag(Hit::is_refresh)),
        ("ResolutionWidth", flag(|hit| hit.user.resolution().0)),
        ("MobilePhone", small(phones)),
        ("MobilePhoneModel", text(&models)),
        ("TraficSourceID", flag(Hit::traffic_source)),
        ("SearchEngineID", small(engines)),
        ("SearchPhrase", text(&phrases.into_iter().map(Option::unwrap_or_default).collect::<Vec<_>>())),
        ("AdvEngineID", flag(Hit::advertisement)),
        ("WindowClientWidth", small(widths)),
        ("WindowClientHeight", small(heights)),
        ("IsLink", flag(Hit::is_link)),
        ("IsDownload", flag(Hit::is_download)),
        ("DontCountHits", flag(Hit::does_not_count)),
        ("RefererHash", long(referer_hashes)),
        ("URLHash", long(url_hashes)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, false)))
}
