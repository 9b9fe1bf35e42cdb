//! The project's Parquet scan against DataFusion's: the same rows, the same pruning, and EXPLAIN says who reads.

mod common;

use std::fs::File;
use std::path::Path;

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use arrow::util::pretty::pretty_format_batches;
use common::{Engines, config};
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

const ROWS: &str = "
    SELECT arrow_cast(v, 'Int32') AS k, v * 2 AS even,
           CASE WHEN v % 3 = 0 THEN NULL ELSE v % 100 END AS i,
           CASE WHEN v % 4 = 0 THEN NULL ELSE CAST(v AS DECIMAL(15, 2)) / 4 END AS wide,
           arrow_cast(v % 50, 'Decimal128(15, 2)') AS d,
           CASE WHEN v % 5 = 0 THEN NULL ELSE v % 2 = 0 END AS b,
           CASE WHEN v % 4 = 1 THEN NULL ELSE concat('a string of some length ', CAST(v % 7 AS VARCHAR)) END AS s,
           CASE WHEN v % 6 = 0 THEN NULL ELSE CAST(v AS DOUBLE) / 3 END AS f,
           arrow_cast(v / 40, 'Date32') AS t
    FROM generate_series(1, 20000) AS g(v)";

/// `t` in a file of five row groups, with pages of 500 rows, a page index and Bloom filters.
async fn engines(partitions: usize, folder: &Path) -> Engines {
    let mut config = config(partitions);
    config.options_mut().optimizer.repartition_file_min_size = 1;
    let engines = Engines::new(config);
    let batches = engines.stock.sql(ROWS).await.expect("valid SQL").collect().await.expect("it runs");
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(4000))
        .set_data_page_row_count_limit(500)
        .set_write_batch_size(500)
        .set_bloom_filter_enabled(true)
        .build();
    let path = folder.join("t.parquet");
    let file = File::create(&path).expect("a temporary folder is writable");
    let mut writer = ArrowWriter::try_new(file, batches[0].schema(), Some(properties)).expect("plain columns");
    batches.iter().for_each(|batch| writer.write(batch).expect("a temporary folder is writable"));
    writer.close().expect("a temporary folder is writable");
    register(&engines, "t", &path, ParquetReadOptions::default()).await;
    engines
}

async fn register(engines: &Engines, name: &str, path: &Path, options: ParquetReadOptions<'_>) {
    let path = path.to_str().expect("a temporary folder has a plain name");
    for context in [&engines.stock, &engines.weld] {
        context.register_parquet(name, path, options.clone()).await.expect("the file just written");
    }
}

async fn text(context: &SessionContext, sql: &str) -> String {
    let batches = context.sql(sql).await.expect("valid SQL").collect().await.expect("it runs");
    pretty_format_batches(&batches).expect("printable").to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_the_same() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for partitions in [1, 3] {
        let engines = engines(partitions, folder.path()).await;
        for sql in [
            "SELECT count(*), sum(even), sum(wide), min(t), max(t) FROM t WHERE d < 24 AND i > 5",
            "SELECT sum(d * d), sum(f) FROM t WHERE t BETWEEN DATE '1970-04-01' AND DATE '1970-06-01' AND d < 30",
            "SELECT s, b, count(*), sum(i), avg(d) FROM t WHERE k > 11 GROUP BY s, b",
            "SELECT k, s FROM t WHERE s LIKE '%length 3' AND k % 1000 = 3",
            "SELECT k FROM t WHERE i IS NULL AND k > 19900",
            "SELECT k, b FROM t WHERE k BETWEEN 5100 AND 5105",
            "SELECT sum(k), count(*) FROM t WHERE k + even > 30000",
            "SELECT sum(k), count(*) FROM t WHERE even = 5001",
            "SELECT a.k, b.s FROM t a JOIN t b ON a.k = b.even WHERE a.i = 4 AND a.k < 3000",
        ] {
            engines.check(sql, 1).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statistics_prune_as_datafusions_scan_does() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engines = engines(1, folder.path()).await;
    for (filter, metrics) in [
        ("k BETWEEN 5000 AND 5200", &["row_groups_pruned_statistics", "page_index_pages_pruned"][..]),
        ("t > DATE '1971-04-20'", &["row_groups_pruned_statistics", "page_index_pages_pruned"]),
        ("even = 5001", &["row_groups_pruned_statistics", "row_groups_pruned_bloom_filter"]),
        ("even = 5601", &["row_groups_pruned_statistics", "row_groups_pruned_bloom_filter"]),
    ] {
        let sql = format!("EXPLAIN ANALYZE SELECT sum(even * 2) FROM t WHERE {filter}");
        let (stock, weld) = (text(&engines.stock, &sql).await, text(&engines.weld, &sql).await);
        assert!(weld.contains("scan=weld"), "{weld}");
        for metric in metrics {
            let value = |text: &str| {
                let at = text.find(&format!("{metric}=")).unwrap_or_else(|| panic!("no {metric}\n{text}"));
                text[at..].split([',', ']']).next().unwrap_or_default().to_owned()
            };
            assert_eq!(value(&weld), value(&stock), "{filter}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table_may_have_other_types_than_the_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engines = engines(1, folder.path()).await;
    let field = |name: &str, data_type| Field::new(name, data_type, true);
    let schema = Schema::new(vec![
        field("d", DataType::Decimal128(17, 4)),
        field("k", DataType::Int64),
        field("absent", DataType::Int32),
        field("s", DataType::Utf8),
    ]);
    let options = ParquetReadOptions::default().schema(&schema);
    register(&engines, "other", &folder.path().join("t.parquet"), options).await;
    for sql in [
        "SELECT sum(d + 1), count(*), count(absent) FROM other WHERE d < 20 AND d > 3.5",
        "SELECT sum(k + 1), min(s) FROM other WHERE k > 19000",
        "SELECT sum(k), count(*) FROM other WHERE absent IS NULL AND d = 7",
        "SELECT k + 1 FROM other WHERE absent = 3",
    ] {
        engines.check(sql, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_says_who_reads() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engines = engines(1, folder.path()).await;
    let sql = "EXPLAIN SELECT sum(k) FROM t WHERE k > 3";
    let on = text(&engines.weld, sql).await;
    assert!(on.contains("scan=weld"), "{on}");
    // A table in milliseconds over a file in microseconds: arrow-rs divides.
    let rows =
        "SELECT v, arrow_cast(v * 1000000, 'Timestamp(Microsecond, None)') AS at FROM generate_series(1, 9) AS g(v)";
    let batches = engines.stock.sql(rows).await.expect("valid SQL").collect().await.expect("it runs");
    let path = folder.path().join("times.parquet");
    let file = File::create(&path).expect("a temporary folder is writable");
    let mut writer = ArrowWriter::try_new(file, batches[0].schema(), None).expect("plain columns");
    batches.iter().for_each(|batch| writer.write(batch).expect("a temporary folder is writable"));
    writer.close().expect("a temporary folder is writable");
    let at = Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, None), true);
    let schema = Schema::new(vec![Field::new("v", DataType::Int64, true), at]);
    register(&engines, "times", &path, ParquetReadOptions::default().schema(&schema)).await;
    let times = "SELECT max(at), sum(v) FROM times WHERE v > 2";
    engines.check(times, 1).await;
    let analyzed = text(&engines.weld, &format!("EXPLAIN ANALYZE {times}")).await;
    assert!(analyzed.contains("scan=weld (at by arrow-rs: "), "{analyzed}");
    text(&engines.weld, "SET weld.scan = false").await;
    let off = text(&engines.weld, sql).await;
    assert!(off.contains("scan=datafusion (weld.scan is off)"), "{off}");
}
