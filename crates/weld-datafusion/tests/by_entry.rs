//! Expressions of one column of texts, evaluated once for each entry of a dictionary by the scan: the same rows as
//! DataFusion's, and where that is done.

mod common;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::util::pretty::pretty_format_batches;
use common::{Engines, config};
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

/// `few` and `long` have few texts, `nulls` has nulls, `many` a text for each row.
const ROWS: &str = "
    SELECT v AS k, concat('host=', chr(65 + v % 7)) AS few,
           concat('https://www.example', CAST(v % 20 AS VARCHAR), '.org/a/page?of=', CAST(v % 3 AS VARCHAR)) AS long,
           CASE WHEN v % 3 = 0 THEN NULL ELSE concat('text ', CAST(v % 11 AS VARCHAR)) END AS nulls,
           concat('number ', CAST(v AS VARCHAR)) AS many,
           arrow_cast(concat('größe ', CAST(v % 5 AS VARCHAR)), 'Utf8') AS plain
    FROM generate_series(1, 6000) AS g(v)";

/// Tables of one file each: `coded`, `overflowed` (dictionaries of a page of 64 bytes), `mixed` (both), `uncoded`,
/// `empty`.
async fn engines(partitions: usize, folder: &Path) -> Engines {
    let mut config = config(partitions);
    config.options_mut().optimizer.repartition_file_min_size = 1;
    let engines = Engines::new(config);
    let properties = || WriterProperties::builder().set_max_row_group_row_count(Some(2000));
    let small =
        || properties().set_dictionary_page_size_limit(64).set_write_batch_size(50).set_data_page_row_count_limit(50);
    for (name, properties, rows) in [
        ("coded", properties(), ""),
        ("overflowed", small(), ""),
        ("uncoded", properties().set_dictionary_enabled(false), ""),
        ("empty", properties(), "WHERE v < 0"),
    ] {
        let sql = format!("{ROWS} {rows}");
        let frame = engines.stock.sql(&sql).await.expect("valid SQL");
        let schema = Arc::new(frame.schema().as_arrow().clone());
        let batches = frame.collect().await.expect("it runs");
        let folder = folder.join(name);
        std::fs::create_dir_all(&folder).expect("a temporary folder is writable");
        let path = folder.join("1.parquet");
        let file = File::create(&path).expect("a temporary folder is writable");
        let mut writer = ArrowWriter::try_new(file, schema, Some(properties.build())).expect("plain columns");
        batches.iter().for_each(|batch| writer.write(batch).expect("a temporary folder is writable"));
        writer.close().expect("a temporary folder is writable");
        register(&engines, name, &folder).await;
    }
    let mixed = folder.join("mixed");
    std::fs::create_dir_all(&mixed).expect("a temporary folder is writable");
    for (number, name) in ["coded", "coded", "coded", "coded", "overflowed"].into_iter().enumerate() {
        let from = folder.join(name).join("1.parquet");
        std::fs::copy(from, mixed.join(format!("{number}.parquet"))).expect("a temporary folder is writable");
    }
    register(&engines, "mixed", &mixed).await;
    engines
}

async fn register(engines: &Engines, name: &str, folder: &Path) {
    let path = folder.to_str().expect("a temporary folder has a plain name");
    for context in [&engines.stock, &engines.weld] {
        context.register_parquet(name, path, ParquetReadOptions::default()).await.expect("the file just written");
    }
}

async fn text(context: &SessionContext, sql: &str) -> String {
    let batches = context.sql(sql).await.expect("valid SQL").collect().await.expect("it runs");
    pretty_format_batches(&batches).expect("printable").to_string()
}

/// `$t` is a table.
const QUERIES: [&str; 22] = [
    "SELECT count(*) FILTER (WHERE few LIKE 'host=_'), count(*) FILTER (WHERE long LIKE '%ple1_._rg%'),
            count(*) FILTER (WHERE nulls LIKE '%_1%') FROM $t",
    "SELECT few, sum(CASE WHEN long LIKE '%7%' THEN k ELSE 0 END), sum(k) FROM $t GROUP BY few",
    "SELECT few, nulls, count(*) FROM $t WHERE few ILIKE '%=a' OR nulls ILIKE '% 1%' GROUP BY few, nulls",
    "SELECT count(*), sum(k) FROM $t WHERE few ILIKE '%=a' OR nulls IS NULL AND long ILIKE '%of=1'",
    "SELECT regexp_replace(long, '^https?://(?:www\\.)?([^/]+)/.*$', '\\1') AS d, count(*), sum(k) FROM $t GROUP BY d",
    "SELECT regexp_replace(long, '^https?://(?:www\\.)?([^/]+)/.*$', '\\1') AS d, sum(k) FROM $t WHERE k % 10 < 3 GROUP BY d",
    "SELECT count(*) FILTER (WHERE regexp_like(nulls, '(1|2)$', 'i')), count(*) FILTER (WHERE long ~ 'org/') FROM $t",
    "SELECT CASE WHEN nulls IS NULL THEN 'none' WHEN nulls LIKE '%1' THEN 'one' ELSE nulls END AS c, sum(k), avg(k)
            FROM $t GROUP BY c",
    "SELECT coalesce(nulls, 'none') AS c, count(*) FROM $t GROUP BY c",
    "SELECT nulls IS NULL OR nulls = 'text 1' AS c, count(*) FROM $t GROUP BY c",
    "SELECT substr(few, 6, 1) AS c, length(nulls) AS l, count(*) FROM $t GROUP BY c, l",
    "SELECT upper(nulls) AS u, nulls, few, max(k) FROM $t GROUP BY u, nulls, few",
    "SELECT split_part(long, '/', 3) AS p, count(DISTINCT few), count(*) FROM $t GROUP BY p",
    "SELECT sum(character_length(nulls) * k), sum(octet_length(plain)), max(upper(plain)) FROM $t",
    "SELECT k, upper(few), long FROM $t WHERE k % 500 = 1 ORDER BY k",
    "SELECT u, count(*) FROM (SELECT upper(few) AS u, k, nulls FROM $t WHERE k > 100) WHERE k < 5000 OR nulls LIKE '%2' GROUP BY u",
    "SELECT nulls IN ('text 1', 'text 2', 'text 3', 'text 4') AS i, starts_with(few, 'host'), count(*) FROM $t GROUP BY 1, 2",
    "SELECT many LIKE '%99%' AS m, few LIKE '%B' AS f, count(*) FROM $t GROUP BY m, f",
    "SELECT array_agg(upper(few) ORDER BY k) FROM $t WHERE k % 100 = 7",
    "SELECT few, rank() OVER (PARTITION BY upper(few) ORDER BY k) FROM $t WHERE k < 60",
    "SELECT a.few, count(*) FILTER (WHERE a.long LIKE '%_=2') FROM $t a JOIN $t b ON a.k = b.k * 2 GROUP BY a.few",
    "SELECT DISTINCT reverse(nulls), concat(few, '/') FROM $t",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_the_same() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for partitions in [1, 3] {
        let engines = engines(partitions, folder.path()).await;
        for table in ["coded", "overflowed", "mixed", "uncoded", "empty"] {
            for sql in QUERIES {
                engines.check(&sql.replace("$t", table), 0).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_the_scan_evaluates() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engines = engines(1, folder.path()).await;
    let analyzed = async |sql: &str| text(&engines.weld, &format!("EXPLAIN ANALYZE {sql}")).await;
    let all = analyzed("SELECT count(*) FILTER (WHERE few LIKE '%=_') FROM coded").await;
    assert!(all.contains("rows_by_entry=6.00 K") && all.contains("projection=[few@1 LIKE %=_"), "{all}");
    // Each expression of its column, above filters that the scan does not know; the texts themselves are not read.
    let two = "SELECT few LIKE '%=A', sum(length(nulls)) FROM coded WHERE k % 2 = 0 OR nulls LIKE '%1_' GROUP BY 1";
    let two = analyzed(two).await;
    assert!(two.contains("rows_by_entry=18.00 K") && !two.contains("projection=[k, few,"), "{two}");
    // What has no lowering is not left to an operator of its own.
    let regexp = "SELECT regexp_replace(long, 'of=.*', '') AS r, count(*) FROM coded GROUP BY r";
    let regexp = analyzed(regexp).await;
    assert!(regexp.contains("rows_by_entry=6.00 K") && !regexp.contains("EvaluateExec"), "{regexp}");
    // In a filter, too, of which DataFusion would evaluate it for each row that the scan leaves.
    let filtered = analyzed("SELECT sum(k) FROM coded WHERE regexp_like(long, 'of=[12]$')").await;
    assert!(filtered.contains("rows_by_entry=") && !filtered.contains("EvaluateExec"), "{filtered}");
    // Too many texts; two columns; what may fail; a filter of one column, by which rows are dropped.
    for sql in [
        "SELECT count(*) FILTER (WHERE many LIKE '%=_') FROM coded",
        "SELECT count(*) FILTER (WHERE few LIKE '%=_') FROM uncoded",
        "SELECT count(*) FILTER (WHERE few = nulls) FROM coded",
        "SELECT sum(CAST(substr(nulls, 6) AS BIGINT)) FROM coded",
        "SELECT count(*) FROM coded WHERE few LIKE '%A'",
        "SELECT k, CAST(substr(nulls, 6) AS DATE) FROM coded WHERE k < 0",
        "SELECT upper(few) FROM coded LIMIT 20",
    ] {
        let plan = analyzed(sql).await;
        assert!(!plan.contains("rows_by_entry") || plan.contains("rows_by_entry=0"), "{plan}");
    }
    text(&engines.weld, "SET weld.by_entry = false").await;
    let off = analyzed("SELECT count(*) FILTER (WHERE few LIKE '%=_') FROM coded").await;
    assert!(off.contains("projection=[few]"), "{off}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_constants_fail_as_they_did() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engines = engines(1, folder.path()).await;
    engines.check_error("SELECT count(*) FILTER (WHERE regexp_like(few, '(')) FROM coded", "regex").await;
    engines.check_error("SELECT max(split_part(few, '=', 0)) FROM coded", "position").await;
    engines.check("SELECT max(split_part(few, '=', 0)) FROM empty", 0).await;
}
