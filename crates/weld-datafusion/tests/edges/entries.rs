//! Columns of dictionaries, with entries that nobody uses, that are there twice or are null, and values of one width.

use std::fs::File;
use std::sync::Arc;

use arrow::array::{ArrayRef, DictionaryArray, FixedSizeBinaryArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type};
use datafusion::prelude::ParquetReadOptions;
use parquet::arrow::ArrowWriter;

use crate::common::{Engines, config};

/// Batch `at` has a dictionary of its own, in which the fourth entry is the first again, the fifth is null, and the
/// last is not used; some codes are null.
fn coded(at: usize, rows: usize) -> ArrayRef {
    let text = |entry: usize| format!("entry {}", "x".repeat((at + entry) % 4 * 4));
    let entries = StringArray::from(vec![
        Some(text(0)),
        Some(text(1)),
        Some(String::new()),
        Some(text(0)),
        None,
        Some("ü and more than twelve bytes".to_owned()),
        Some("nobody's".to_owned()),
    ]);
    let codes = (0..rows).map(|row| (row % 8 != 5).then_some(((row * 5 + at) % 6) as i32));
    let codes = Int32Array::from_iter(codes);
    Arc::new(DictionaryArray::<Int32Type>::try_new(codes, Arc::new(entries)).expect("codes of entries"))
}

/// Values of two widths, which repeat from batch to batch.
fn of_one_width(at: usize, rows: usize, width: usize) -> ArrayRef {
    let value = |row: usize| {
        let mut value = vec![(row % 3) as u8; width];
        value[width - 1] = ((row + at) % 5) as u8;
        (row % 7 != 3).then_some(value)
    };
    let values = (0..rows).map(value);
    Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, width as i32).expect("of one width"))
}

/// Slices of batches, with the dictionaries in these types.
fn batches(codes: DataType, entries: DataType, first: i64) -> Vec<RecordBatch> {
    let data_type = DataType::Dictionary(Box::new(codes), Box::new(entries));
    let batch = |at: usize| {
        let rows = 30;
        let k: ArrayRef =
            Arc::new(Int64Array::from_iter_values((0..rows as i64).map(|row| first + 30 * at as i64 + row)));
        let coded = |at: usize| cast(&coded(at, rows), &data_type).expect("codes of another width");
        let columns = [
            ("k", k, true),
            ("d", coded(at), true),
            ("e", coded(at / 2 + 1), true),
            ("u", of_one_width(at, rows, 16), true),
            ("w", of_one_width(at, rows, 3), true),
        ];
        let batch = RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length");
        [batch.slice(0, 13), batch.slice(13, 0), batch.slice(13, 17)]
    };
    (0..4).flat_map(batch).collect()
}

const QUERIES: [&str; 31] = [
    // DataFusion evaluates the pattern over what comes out of a pipeline.
    "SELECT k, x LIKE concat(x, '%') AS y FROM (SELECT k * 2 AS k, CASE WHEN k < 0 THEN d END AS x FROM t WHERE k > 3)",
    "SELECT k, d, e FROM t WHERE k > 3",
    "SELECT k, d FROM t WHERE d = e AND k > 3",
    "SELECT k FROM t WHERE d > e OR d IS NULL",
    "SELECT k, d FROM t WHERE d = 'entry xxxx' OR e < 'entry '",
    "SELECT k, d IS DISTINCT FROM e, d IS NULL FROM t WHERE k > 3",
    "SELECT k FROM t WHERE d IN ('entry xxxx', '') AND k > 3",
    "SELECT d, count(*), sum(k), count(e) FROM t GROUP BY d",
    "SELECT d, e, min(k) FROM t GROUP BY d, e",
    "SELECT k % 4, min(d), max(e), count(d) FROM t GROUP BY k % 4",
    "SELECT min(d), max(e), count(DISTINCT d) FROM t WHERE k > 3",
    "SELECT k % 4, count(DISTINCT d), count(DISTINCT e) FILTER (WHERE k > 9), count(DISTINCT CASE WHEN k % 3 = 0 THEN d END), sum(k) FROM t GROUP BY k % 4",
    "SELECT k, count(DISTINCT d), count(DISTINCT e) FROM t GROUP BY k",
    "SELECT k % 4, count(DISTINCT d), array_agg(d ORDER BY k), count(DISTINCT e) FROM t GROUP BY k % 4",
    "SELECT o.w, count(DISTINCT o.d), count(DISTINCT t.e), count(*) FROM t JOIN o ON t.d = o.d GROUP BY o.w",
    "SELECT DISTINCT d FROM t WHERE k % 2 = 0",
    "SELECT t.k, o.k, t.d, o.e FROM t JOIN o ON t.d = o.d WHERE o.k < 1010",
    "SELECT t.k, o.k, o.d FROM t LEFT JOIN o ON t.d = o.e AND t.k % 30 = o.k % 30",
    "SELECT t.k, o.k FROM t JOIN o ON (t.d IS NOT DISTINCT FROM o.d) AND t.w = o.w WHERE t.k + 1000 >= o.k",
    "SELECT d, count(*) FROM t WHERE EXISTS (SELECT 1 FROM o WHERE o.d = t.e) GROUP BY d",
    "SELECT k, CASE WHEN k % 2 = 0 THEN d ELSE e END AS x FROM t WHERE k > 3",
    "SELECT k, coalesce(d, e, 'none') AS x FROM t WHERE k > 3",
    "SELECT x.d, t.k FROM t JOIN (SELECT d, count(*) AS n FROM o GROUP BY d) x ON x.d = t.d",
    "SELECT k, u, w FROM t WHERE k > 3",
    "SELECT k, u FROM t WHERE w = X'000001' OR w > X'010101'",
    "SELECT u, w, count(*), min(k) FROM t GROUP BY u, w",
    "SELECT k % 4, min(u), max(w), count(u) FROM t GROUP BY k % 4",
    "SELECT min(u), max(w), count(DISTINCT w) FROM t WHERE k > 3",
    "SELECT t.k, o.k, t.u, o.w FROM t JOIN o ON t.u = o.u WHERE o.k < 1010",
    "SELECT t.k, o.u, o.w FROM t LEFT JOIN o ON t.u = o.u AND t.k % 30 = o.k % 30",
    "SELECT w, count(*) FROM t WHERE u NOT IN (SELECT u FROM o WHERE u IS NOT NULL AND k < 1005) GROUP BY w",
];

fn kinds() -> Vec<(DataType, DataType)> {
    use DataType::*;
    vec![(Int32, Utf8), (Int64, LargeUtf8), (UInt32, Utf8View), (UInt16, Utf8), (Int16, Utf8View)]
}

async fn check(engines: &Engines, compiled: usize, what: &str) {
    for sql in QUERIES {
        let run = engines.check(sql, compiled).await;
        assert_eq!(run.fallbacks, 0, "{what} {sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_memory() {
    for partitions in [1, 3] {
        for (codes, entries) in kinds() {
            let engines = Engines::new(config(partitions).with_batch_size(16));
            engines.table("t", batches(codes.clone(), entries.clone(), 0));
            engines.table("o", batches(codes.clone(), entries.clone(), 1000));
            check(&engines, 1, &format!("{codes} {entries}")).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_files() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    use DataType::*;
    for (pushdown, codes, entries) in [(false, Int32, Utf8), (true, Int32, Utf8), (false, Int16, LargeUtf8)] {
        let config = config(2).set_bool("datafusion.execution.parquet.pushdown_filters", pushdown);
        let engines = Engines::new(config);
        for (name, first) in [("t", 0), ("o", 1000)] {
            let batches = batches(codes.clone(), entries.clone(), first);
            let path = folder.path().join(format!("{name}{pushdown}{codes}.parquet"));
            let file = File::create(&path).expect("a temporary folder is writable");
            let mut writer = ArrowWriter::try_new(file, batches[0].schema(), None).expect("a plain schema");
            batches.iter().for_each(|batch| writer.write(batch).expect("a temporary folder is writable"));
            writer.close().expect("a temporary folder is writable");
            let path = path.to_str().expect("a temporary folder has a plain name");
            for context in [&engines.stock, &engines.weld] {
                context
                    .register_parquet(name, path, ParquetReadOptions::default())
                    .await
                    .expect("the file just written");
            }
        }
        // What DataFusion's scan filters by itself leaves nothing to compile.
        check(&engines, usize::from(!pushdown), "Parquet").await;
    }
}

/// Codes of 8 bits are too few where a dictionary would be made for every batch of rows: these are left to DataFusion.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_few_codes() {
    for (codes, entries) in [(DataType::Int8, DataType::Utf8), (DataType::UInt8, DataType::Utf8View)] {
        for partitions in [1, 3] {
            let engines = Engines::new(config(partitions).with_batch_size(16));
            engines.table("t", batches(codes.clone(), entries.clone(), 0));
            engines.table("o", batches(codes.clone(), entries.clone(), 1000));
            for sql in QUERIES {
                let run = engines.check(sql, 0).await;
                assert_eq!(run.fallbacks, 0, "{codes} {sql}");
            }
            for sql in [
                "SELECT k, d, e FROM t WHERE k > 3",
                "SELECT d, count(*), sum(k), count(e) FROM t GROUP BY d",
                "SELECT k % 4, min(d), max(e), count(d) FROM t GROUP BY k % 4",
                "SELECT t.k, o.k, t.d FROM t JOIN o ON t.d = o.d WHERE o.k < 1010",
            ] {
                engines.check(sql, 1).await;
            }
            let run = engines.check("SELECT k, CASE WHEN k % 2 = 0 THEN d ELSE e END AS x FROM t WHERE k > 3", 0).await;
            assert!(run.summary.declined.iter().any(|declined| declined.reason.contains("8 bits")), "{codes}");
        }
    }
}

/// Many batches of groups by nearly as many values as there are codes: sorting puts them together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_of_groups_share_a_dictionary() {
    let engines = Engines::new(config(2).with_batch_size(64));
    let values: ArrayRef = Arc::new(StringArray::from_iter_values((0..6000).map(|k| format!("value {}", k % 100))));
    let d = cast(&values, &DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)));
    let k: ArrayRef = Arc::new(Int64Array::from_iter_values(0..6000));
    let batch = RecordBatch::try_from_iter([("k", k), ("d", d.expect("fewer values than codes"))]);
    engines.table("t", vec![batch.expect("columns of one length")]);
    engines.check("SELECT d, k % 50 AS m, count(*) AS n FROM t GROUP BY d, k % 50 ORDER BY n DESC, m, d", 1).await;
}

/// Entries that are numbers are left to DataFusion.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_compile() {
    let engines = Engines::new(config(1));
    let sql = "SELECT v AS k, arrow_cast(v % 5, 'Dictionary(Int32, Int64)') AS d FROM generate_series(1, 100) AS t(v)";
    engines.table_from("t", sql, 20).await;
    let run = engines.check("SELECT d, count(*), sum(k) FROM t WHERE k > 3 GROUP BY d", 0).await;
    assert!(!run.summary.declined.is_empty());
}
