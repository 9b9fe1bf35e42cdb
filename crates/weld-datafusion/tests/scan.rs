//! The project's Parquet scan against DataFusion's: the same rows, the same pruning, and EXPLAIN says who reads.

mod common;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::util::pretty::pretty_format_batches;
use common::{Engines, config};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::DefaultParquetFileReaderFactory;
use datafusion::datasource::physical_plan::{FileScanConfigBuilder, ParquetFileReaderFactory, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, TableType, col};
use datafusion::object_store::memory::InMemory;
use datafusion::object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use futures::StreamExt;
use parquet::arrow::ArrowWriter;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::data_type::{Int64Type, Int96, Int96Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

const ROWS: &str = "
    SELECT arrow_cast(v, 'Int32') AS k, v * 2 AS even,
           CASE WHEN v % 3 = 0 THEN NULL ELSE v % 100 END AS i,
           CASE WHEN v % 4 = 0 THEN NULL ELSE CAST(v AS DECIMAL(15, 2)) / 4 END AS wide,
           arrow_cast(v % 50, 'Decimal128(15, 2)') AS d,
           CASE WHEN v % 5 = 0 THEN NULL ELSE v % 2 = 0 END AS b,
           CASE WHEN v % 4 = 1 THEN NULL ELSE concat('a string of some length ', CAST(v % 7 AS VARCHAR)) END AS s,
           CASE WHEN v % 6 = 0 THEN NULL ELSE CAST(v AS DOUBLE) / 3 END AS f,
           arrow_cast(v / 40, 'Date32') AS t,
           CASE WHEN v % 8 = 0 THEN v END AS rare
    FROM generate_series(1, 20000) AS g(v)";

/// `t` in a file of five row groups, with pages of 500 rows, a page index and Bloom filters.
async fn engines(partitions: usize, folder: &Path) -> Engines {
    let mut config = config(partitions);
    config.options_mut().optimizer.repartition_file_min_size = 1;
    let engines = Engines::new(config);
    let rows = format!("{ROWS} ORDER BY v");
    let batches = engines.stock.sql(&rows).await.expect("valid SQL").collect().await.expect("it runs");
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

/// A table of nine files of 400 rows each: `k` counts through them, `p` is in the names of their folders.
async fn files(engines: &Engines, folder: &Path, ordered: bool) {
    for file in 0..9 {
        let rows = format!(
            "SELECT v AS k, v % 7 AS m, concat('text ', CAST(v % 3 AS VARCHAR)) AS s
             FROM generate_series({}, {}) AS g(v)",
            file * 400,
            file * 400 + 399
        );
        let folder = folder.join(format!("p={}", file % 3));
        std::fs::create_dir_all(&folder).expect("a temporary folder is writable");
        write(engines, &rows, &folder.join(format!("{file}.parquet"))).await;
    }
    let mut options = ParquetReadOptions::default().table_partition_cols(vec![("p".to_owned(), DataType::Int32)]);
    if ordered {
        options.file_sort_order = vec![vec![col("k").sort(true, false)]];
    }
    register(engines, if ordered { "ordered" } else { "files" }, folder, options).await;
}

async fn write(engines: &Engines, rows: &str, path: &Path) {
    write_as(WriterProperties::default(), engines, rows, path).await;
}

async fn write_as(properties: WriterProperties, engines: &Engines, rows: &str, path: &Path) {
    let batches = engines.stock.sql(rows).await.expect("valid SQL").collect().await.expect("it runs");
    let file = File::create(path).expect("a temporary folder is writable");
    let mut writer = ArrowWriter::try_new(file, batches[0].schema(), Some(properties)).expect("plain columns");
    batches.iter().for_each(|batch| writer.write(batch).expect("a temporary folder is writable"));
    writer.close().expect("a temporary folder is writable");
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
            assert_eq!(metric_of(&weld, metric), metric_of(&stock, metric), "{filter}");
        }
    }
}

/// The last of the name: that of the probe side's scan.
/// What EXPLAIN ANALYZE says of the scan of a file.
async fn scan_metric(engines: &Engines, sql: &str, metric: &str) -> String {
    let analyzed = text(&engines.weld, &format!("EXPLAIN ANALYZE {sql}")).await;
    let scan = analyzed.lines().find(|line| line.contains("DataSourceExec: file_groups")).unwrap_or_default();
    metric_of(scan, metric).trim_start_matches(&format!("{metric}=")).to_owned()
}

fn metric_of(text: &str, metric: &str) -> String {
    let at = text.rfind(&format!("{metric}=")).unwrap_or_else(|| panic!("no {metric}\n{text}"));
    text[at..].split([',', ']']).next().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_pruned_as_by_datafusions_scan() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engines = Engines::new(config(1));
    files(&engines, folder.path(), false).await;
    // The same side is to be the probe side on both engines.
    engines.weld.sql("SET weld.join_order = false").await.expect("a setting");
    engines.table_from("few", "SELECT v AS k, 1 AS p FROM generate_series(1700, 2300, 5) AS g(v)", 100).await;
    for sql in [
        "SELECT count(*), sum(files.m) FROM few JOIN files ON few.k = files.k",
        "SELECT count(*), sum(files.m) FROM few JOIN files ON few.p = files.p AND few.k = files.k",
        "SELECT count(*), sum(m * 2) FROM files WHERE k + p > 3000",
        "SELECT count(*), sum(m * 2) FROM files WHERE k = 405 OR (p = 2 AND k > 3500)",
    ] {
        engines.check(sql, 1).await;
        let sql = format!("EXPLAIN ANALYZE {sql}");
        let (stock, weld) = (text(&engines.stock, &sql).await, text(&engines.weld, &sql).await);
        assert!(weld.contains("scan=weld"), "{weld}");
        for metric in ["files_ranges_pruned_statistics", "files_opened", "files_processed"] {
            assert_eq!(metric_of(&weld, metric), metric_of(&stock, metric), "{sql}\n{stock}\n{weld}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folders_give_columns() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for partitions in [1, 2] {
        let engines = Engines::new(config(partitions));
        files(&engines, folder.path(), false).await;
        for sql in [
            "SELECT p + 1, count(*), sum(k), min(m) FROM files GROUP BY p + 1",
            "SELECT p, m, count(*) FROM files WHERE p = 1 AND k < 2000 GROUP BY p, m",
            "SELECT sum(p) FROM files WHERE k % 5 = p",
            "SELECT sum(k) FROM files WHERE p + k > 1600 AND p < 2",
            "SELECT a.p, b.k FROM files a JOIN files b ON a.k = b.m WHERE a.p = 0 AND b.p = 2 AND b.k < 1000",
        ] {
            engines.check(sql, 1).await;
        }
        let plan = text(&engines.weld, "EXPLAIN SELECT sum(p + k) FROM files").await;
        assert!(plan.contains("scan=weld"), "{plan}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_stops_the_scan() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engines = Engines::new(config(1));
    files(&engines, folder.path(), false).await;
    // Which rows is open, but not how many.
    for (limit, files) in [(500, 2), (9999, 9)] {
        let sql = format!("SELECT count(k + 1), count(m) FROM (SELECT k, m FROM files LIMIT {limit})");
        engines.check(&sql, 1).await;
        let analyzed = text(&engines.weld, &format!("EXPLAIN ANALYZE {sql}")).await;
        assert!(analyzed.contains("scan=weld"), "{analyzed}");
        assert_eq!(metric_of(&analyzed, "files_opened"), format!("files_opened={files}"), "{analyzed}");
    }
}

/// Columns are computed for the rows that a limit takes, and for no others: these might fail.
#[tokio::test]
async fn a_limit_computes_columns_of_its_rows_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engines = Engines::new(config(1));
    let path = folder.path().join("zero.parquet");
    write(&engines, "SELECT v FROM (VALUES (1), (2), (0), (3)) AS x(v)", &path).await;
    register(&engines, "zero", &path, ParquetReadOptions::default()).await;
    for column in ["arrow_typeof(10 / v)", "10 / v", "CAST(10 / v AS VARCHAR) || 'x'"] {
        let run = engines.check(&format!("SELECT {column} FROM zero LIMIT 2"), 0).await;
        assert_eq!(run.rows.len(), 2, "{column}");
        engines.check_error(&format!("SELECT {column} FROM zero LIMIT 3"), "Divide by zero").await;
    }
}

/// Rows of each partition, when the last is run to its end before the others begin.
async fn last_partition_first(context: &SessionContext, sql: &str) -> Vec<usize> {
    let plan = context.sql(sql).await.expect("valid SQL").create_physical_plan().await.expect("it plans");
    let partitions = plan.output_partitioning().partition_count();
    let mut rows = vec![0; partitions];
    for partition in (0..partitions).rev() {
        let mut stream = plan.execute(partition, context.task_ctx()).expect("it starts");
        while let Some(batch) = stream.next().await {
            rows[partition] += batch.expect("it runs").num_rows();
        }
    }
    rows
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_partitions_take_files_as_in_datafusions_scan() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sql = "SELECT k * 2 + 1 FROM files WHERE m < 6";
    for (steal, ordered) in [(true, false), (false, false), (true, true)] {
        let mut config = config(3);
        config.options_mut().execution.enable_file_stream_work_stealing = steal;
        let engines = Engines::new(config);
        files(&engines, folder.path(), ordered).await;
        let sql = if ordered { sql.replace("files", "ordered") } else { sql.to_owned() };
        let (stock, weld) =
            (last_partition_first(&engines.stock, &sql).await, last_partition_first(&engines.weld, &sql).await);
        assert_eq!(weld, stock, "stealing: {steal}, ordered: {ordered}");
        assert_eq!(weld[0] == 0, steal && !ordered, "{weld:?}");
        engines.check(&sql, 1).await;
    }
}

/// A filter leaves row groups in the first half of the file alone: the partition of the second half takes some of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_partitions_take_row_groups() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engines = engines(2, folder.path()).await;
    let sql = "SELECT k * 2 + 1 FROM t WHERE k <= 8000";
    engines.check(sql, 1).await;
    // A partition gives its rows before it asks for another row group.
    text(&engines.weld, "SET datafusion.execution.batch_size = 1000").await;
    let plan = engines.weld.sql(sql).await.expect("valid SQL").create_physical_plan().await.expect("it plans");
    let start = |partition| plan.execute(partition, engines.weld.task_ctx()).expect("it starts");
    let mut streams = [start(0), start(1)];
    let mut rows = [0, 0];
    loop {
        let mut ended = 0;
        for (stream, rows) in streams.iter_mut().zip(&mut rows) {
            match stream.next().await {
                Some(batch) => *rows += batch.expect("it runs").num_rows(),
                None => ended += 1,
            }
        }
        if ended == streams.len() {
            break;
        }
    }
    assert_eq!(rows, [4000, 4000]);
}

/// One row group is cut where several partitions may read it, and every row is read once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_partitions_take_parts_of_row_groups() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (partitions, parts) in [(2, vec![75_001, 75_000]), (5, vec![75_001, 75_000, 0, 0, 0])] {
        let mut config = config(partitions);
        config.options_mut().optimizer.repartition_file_min_size = 1;
        let engines = Engines::new(config);
        // In no order, which the file would tell of.
        let rows = "SELECT v * 7 % 150001 AS k, v % 1000 AS m, CASE WHEN v % 7 > 0 THEN make_array(v, v % 10) END AS l, concat('text ', v % 90) AS s
                    FROM generate_series(1, 150001) AS g(v)";
        engines.parquet_from("large", rows, folder.path()).await;
        for sql in [
            "SELECT count(*), sum(k), sum(m), count(l) FROM large",
            "SELECT s, count(*), min(k), max(l[1]) FROM large WHERE m < 700 GROUP BY s",
            "SELECT k, l FROM large WHERE k BETWEEN 74990 AND 75010",
            "SELECT k, l, s FROM large ORDER BY m DESC, k LIMIT 10",
            "SELECT a.k, b.l FROM large a JOIN large b ON a.m = b.k WHERE a.k < 50",
        ] {
            engines.check(sql, 0).await;
        }
        let plan = engines.weld.sql("SELECT k * 2 + m, s FROM large").await.expect("valid SQL");
        let plan = plan.create_physical_plan().await.expect("it plans");
        let start = |partition| plan.execute(partition, engines.weld.task_ctx()).expect("it starts");
        let mut streams: Vec<_> = (0..partitions).map(start).collect();
        let mut rows = vec![0; partitions];
        loop {
            let mut ended = 0;
            for (stream, rows) in streams.iter_mut().zip(&mut rows) {
                match stream.next().await {
                    Some(batch) => *rows += batch.expect("it runs").num_rows(),
                    None => ended += 1,
                }
            }
            if ended == streams.len() {
                break;
            }
        }
        assert_eq!(rows, parts);
    }
}

/// A table that was given up while it was built is built from all files, also from those that had been read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_is_built_from_the_start_again() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engines = Engines::new(config(2));
    files(&engines, folder.path(), false).await;
    engines.table_from("whole", "SELECT v AS k FROM generate_series(0, 3599) AS g(v)", 500).await;
    for scan in [true, false] {
        text(&engines.weld, &format!("SET weld.scan = {scan}")).await;
        let sql = "SELECT whole.k + files.m FROM files JOIN whole ON files.k = whole.k";
        let frame = engines.weld.sql(sql).await.expect("valid SQL");
        let plan = frame.create_physical_plan().await.expect("it plans");
        let context = engines.weld.task_ctx();
        let partitions = plan.output_partitioning().partition_count();
        for _ in 0..20 {
            let mut stream = plan.execute(0, Arc::clone(&context)).expect("it starts");
            // Given up at whatever point it has reached.
            let _ = tokio::time::timeout(std::time::Duration::from_micros(300), stream.next()).await;
        }
        let mut rows = 0;
        for partition in 0..partitions {
            let mut stream = plan.execute(partition, Arc::clone(&context)).expect("it starts");
            while let Some(batch) = stream.next().await {
                rows += batch.expect("it runs").num_rows();
            }
        }
        assert_eq!(rows, 3600, "scan: {scan}");
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
    for (filter, setting) in [
        ("k BETWEEN 5000 AND 5200", "pruning = true"),
        ("k BETWEEN 5000 AND 5200", "pruning = false"),
        ("k BETWEEN 5000 AND 5200", "enable_page_index = false"),
        ("k > 3 AND absent IS NULL", "pruning = true"),
        ("k > 11000 AND d < 20", "pruning = true"),
        ("k IN (1, 7000, 7001)", "max_in_list_size = 2"),
    ] {
        let set = format!("SET datafusion.execution.parquet.{setting}");
        let sql = format!("EXPLAIN ANALYZE SELECT sum(k * 2) FROM other WHERE {filter}");
        let mut analyzed = Vec::new();
        for context in [&engines.stock, &engines.weld] {
            text(context, &set).await;
            let options = ParquetReadOptions::default().schema(&schema);
            context.deregister_table("other").expect("it is registered");
            let path = folder.path().join("t.parquet");
            let path = path.to_str().expect("a temporary folder has a plain name");
            context.register_parquet("other", path, options).await.expect("the file just written");
            analyzed.push(text(context, &sql).await);
        }
        assert!(analyzed[1].contains("scan=weld"), "{}", analyzed[1]);
        let metrics = ["row_groups_pruned_statistics", "row_groups_pruned_bloom_filter", "page_index_pages_pruned"];
        for metric in metrics {
            let (stock, weld) = (metric_of(&analyzed[0], metric), metric_of(&analyzed[1], metric));
            assert_eq!(weld, stock, "{filter}, {setting}");
        }
    }
}

/// Keys of groups: their dictionaries change from row group to row group, and a file may have no codes.
const KEYED: &str = "
    SELECT CASE WHEN v % 11 = 0 THEN NULL ELSE concat('key ', CAST((v / 1000 + v % 3) % 6 AS VARCHAR)) END AS s,
           concat('a longer name of ', CAST(v % 2 AS VARCHAR)) AS n, v % 5 AS i,
           arrow_cast(v % 4, 'Decimal128(15, 2)') AS d, arrow_cast(v % 3, 'Date32') AS t, v % 2 = 0 AS b,
           concat('of many ', CAST(v AS VARCHAR)) AS many,
           CASE WHEN v % 7 = 0 THEN NULL ELSE CAST(v AS DECIMAL(15, 2)) / 4 END AS maybe,
           arrow_cast(v * 100, 'Decimal128(15, 2)') AS x, arrow_cast(v, 'Decimal128(38, 0)') AS wide
    FROM generate_series(1, 9000) AS g(v)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_groups_come_as_codes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engines = Engines::new(config(1));
    let batches = engines.stock.sql(KEYED).await.expect("valid SQL").collect().await.expect("it runs");
    for (name, coded) in [("1.parquet", true), ("2.parquet", false), ("3.parquet", true)] {
        let properties =
            WriterProperties::builder().set_dictionary_enabled(coded).set_max_row_group_row_count(Some(2000));
        let file = File::create(folder.path().join(name)).expect("a temporary folder is writable");
        let mut writer =
            ArrowWriter::try_new(file, batches[0].schema(), Some(properties.build())).expect("plain columns");
        batches.iter().for_each(|batch| writer.write(batch).expect("a temporary folder is writable"));
        writer.close().expect("a temporary folder is writable");
    }
    register(&engines, "all", folder.path(), ParquetReadOptions::default()).await;
    register(&engines, "coded", &folder.path().join("1.parquet"), ParquetReadOptions::default()).await;
    let sums = "sum(x), sum(x * (1 - maybe)), sum(x * x), avg(maybe), count(*), count(maybe), sum(wide)";
    for table in ["all", "coded"] {
        for keys in ["s", "s, n", "n, i, d, t", "b, s", "s, n, i, d, t, b", "i + 1", "many", "many, s"] {
            for filter in ["", "WHERE x < 890000", "WHERE i < 2", "WHERE s = 'key 3'", "WHERE x < 0"] {
                engines.check(&format!("SELECT {keys}, {sums} FROM {table} {filter} GROUP BY {keys}"), 1).await;
            }
        }
        engines.check(&format!("SELECT DISTINCT s, n FROM {table}"), 1).await;
        // The product of a row in the middle is too large.
        let seventh = format!("SELECT s, sum(x), sum(x * x * x * x * x * x * x), count(*) FROM {table} GROUP BY s");
        engines.check_error(&seventh, "verflow").await;
    }
    let sql = |keys: &str| format!("EXPLAIN ANALYZE SELECT {keys}, {sums} FROM coded GROUP BY {keys}");
    let few = text(&engines.weld, &sql("s, n")).await;
    assert!(few.contains("keys_by_code=2"), "{few}");
    let many = text(&engines.weld, &sql("many, s")).await;
    assert!(!many.contains("keys_by_code"), "{many}");
}

/// A row group of nulls alone has no dictionary; arrow's LIKE panics over one without entries.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patterns_over_row_groups_of_nulls() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engines = Engines::new(config(2));
    let rows = "
        SELECT v AS k, arrow_cast(CASE WHEN v > 1000 THEN concat('a', CAST(v % 5 AS VARCHAR)) END, 'Dictionary(Int32, Utf8)') AS e
        FROM generate_series(1, 3000) AS g(v)";
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(1000)).build();
    write_as(properties, &engines, rows, &folder.path().join("t.parquet")).await;
    register(&engines, "t", &folder.path().join("t.parquet"), ParquetReadOptions::default()).await;
    for filter in
        ["e LIKE e", "e LIKE e AND k % 10 = 0", "e LIKE e OR e ILIKE '%2'", "NOT e LIKE e", "e LIKE e OR k = 5"]
    {
        engines.check(&format!("SELECT k FROM t WHERE {filter}"), 0).await;
        engines.check(&format!("SELECT e, count(*) FROM t WHERE {filter} GROUP BY e"), 0).await;
    }
}

/// Texts that are keys of joins' tables, and keys of groups beside others: of 300 in 8,000 rows, in an order that
/// depends on the file, and in one of the files as values.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_are_looked_for_by_code() {
    let texts = |shift: i64| {
        format!(
            "SELECT CASE WHEN v % 11 = 0 THEN NULL ELSE concat('text of a row: ', CAST((v * 7 + {shift}) % 300 AS VARCHAR)) END AS s,
                concat('t', CAST((v + {shift}) % 90 AS VARCHAR)) AS n, v % 5 AS i, v AS x,
                concat('of many ', CAST(v AS VARCHAR)) AS many,
                arrow_cast(CASE WHEN v % 13 > 0 THEN concat('t', CAST(v * 3 % 80 AS VARCHAR)) END, 'Dictionary(Int16, Utf8)') AS d
            FROM generate_series(1, 8000) AS g(v)"
        )
    };
    for partitions in [1, 3] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let engines = Engines::new(config(partitions));
        for (name, coded, shift) in [("1.parquet", true, 0), ("2.parquet", false, 5), ("3.parquet", true, 100)] {
            let rows = engines.stock.sql(&texts(shift)).await.expect("valid SQL").collect().await.expect("it runs");
            let properties =
                WriterProperties::builder().set_dictionary_enabled(coded).set_max_row_group_row_count(Some(4000));
            let file = File::create(folder.path().join(name)).expect("a temporary folder is writable");
            let mut writer =
                ArrowWriter::try_new(file, rows[0].schema(), Some(properties.build())).expect("plain columns");
            rows.iter().for_each(|batch| writer.write(batch).expect("a temporary folder is writable"));
            writer.close().expect("a temporary folder is writable");
        }
        register(&engines, "all", folder.path(), ParquetReadOptions::default()).await;
        register(&engines, "coded", &folder.path().join("3.parquet"), ParquetReadOptions::default()).await;
        let names =
            "SELECT concat('text of a row: ', CAST(v AS VARCHAR)) AS s, concat('t', CAST(v / 2 AS VARCHAR)) AS n,
                concat('group ', CAST(v % 7 AS VARCHAR)) AS g, v AS y
            FROM generate_series(-20, 200) AS g(v)";
        engines.table_from("names", names, 50).await;
        for table in ["all", "coded"] {
            for sql in [
                "SELECT names.g, count(*), sum(x) FROM {t} t JOIN names ON t.s = names.s GROUP BY names.g",
                "SELECT t.s, names.g, sum(x) FROM {t} t JOIN names ON t.s = names.s WHERE i < 4 GROUP BY t.s, names.g",
                "SELECT t.n, a.g, b.g, sum(x) FROM {t} t JOIN names a ON t.s = a.s JOIN names b ON t.n = b.n
                    GROUP BY t.n, a.g, b.g",
                "SELECT t.n, names.g, count(*), count(names.y) FROM {t} t LEFT JOIN names ON t.s = names.s AND y > i
                    GROUP BY t.n, names.g",
                "SELECT count(*), sum(x), max(t.s) FROM {t} t WHERE t.s NOT IN (SELECT s FROM names)",
                "SELECT i, count(*) FROM {t} t WHERE EXISTS (SELECT 1 FROM names WHERE t.n = names.n AND y > x % 7) GROUP BY i",
                "SELECT names.s, names.g FROM names WHERE NOT EXISTS (SELECT 1 FROM {t} t WHERE t.s = names.s)",
                "SELECT count(*), count(t.x), count(names.y) FROM {t} t FULL JOIN names ON t.n = names.n",
                "SELECT t.s, x, names.y FROM {t} t JOIN names ON t.s = names.s WHERE x % 50 = 0",
                "SELECT a.s, count(*) FROM {t} a JOIN {t} b ON a.s = b.s WHERE a.i = 1 AND b.x < 400 GROUP BY a.s",
                "SELECT t.d, names.g, sum(x) FROM {t} t JOIN names ON t.d = names.n GROUP BY t.d, names.g",
                "SELECT d, count(*), max(y) FROM {t} t LEFT JOIN names ON t.d = names.n AND names.y < i GROUP BY d",
                "SELECT count(*), max(d) FROM {t} t WHERE t.d IN (SELECT n FROM names WHERE y > 90)",
                "SELECT a.d, count(*) FROM {t} a JOIN {t} b ON a.d = b.n WHERE a.x < 200 GROUP BY a.d",
                "SELECT s, i, sum(x), min(n), count(*) FROM {t} GROUP BY s, i",
                "SELECT s, x % 3, n, avg(x) FROM {t} WHERE n > 't3' GROUP BY s, x % 3, n",
                "SELECT s, i, array_agg(x ORDER BY x) FROM {t} WHERE x < 300 GROUP BY s, i",
                "SELECT s, i, count(DISTINCT n), median(x) FROM {t} GROUP BY s, i",
                "SELECT s, i, grouping(s), count(*) FROM {t} GROUP BY ROLLUP (s, i)",
                "SELECT DISTINCT s, i FROM {t}",
                "SELECT upper(s), i, s, count(*) FROM {t} GROUP BY upper(s), i, s",
                "SELECT many, i, sum(x) FROM {t} GROUP BY many, i",
                "SELECT s, sum(x) FROM {t} GROUP BY s HAVING count(*) > 27",
            ] {
                engines.check(&sql.replace("{t}", table), 1).await;
            }
        }
        if partitions > 1 {
            // The file is one partition, whose rows are spread before they are grouped.
            continue;
        }
        let sql = "EXPLAIN ANALYZE SELECT t.n, names.g, x % 3, sum(x) FROM coded t JOIN names ON t.s = names.s
            GROUP BY t.n, names.g, x % 3";
        let plan = text(&engines.weld, sql).await;
        assert!(plan.contains("texts_by_code=2") && plan.contains("interns=[n]"), "{plan}");
        let plan = text(&engines.weld, "EXPLAIN ANALYZE SELECT many, i, sum(x) FROM coded GROUP BY many, i").await;
        assert!(!plan.contains("texts_by_code") && !plan.contains("interns"), "{plan}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_says_who_reads() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engines = engines(1, folder.path()).await;
    let sql = "EXPLAIN SELECT sum(k) FROM t WHERE k > 3";
    let on = text(&engines.weld, sql).await;
    assert!(on.contains("scan=weld"), "{on}");
    // A table in milliseconds over a file in microseconds: read as it is, and divided then.
    let rows =
        "SELECT v, arrow_cast(v * 1000000, 'Timestamp(Microsecond, None)') AS at FROM generate_series(1, 9) AS g(v)";
    let path = folder.path().join("times.parquet");
    write(&engines, rows, &path).await;
    let at = Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, None), true);
    let schema = Schema::new(vec![Field::new("v", DataType::Int64, true), at]);
    register(&engines, "times", &path, ParquetReadOptions::default().schema(&schema)).await;
    let times = "SELECT max(at), sum(v) FROM times WHERE v > 2";
    engines.check(times, 1).await;
    let analyzed = text(&engines.weld, &format!("EXPLAIN ANALYZE {times}")).await;
    assert!(analyzed.contains("scan=weld") && !analyzed.contains("by arrow-rs"), "{analyzed}");
    text(&engines.weld, "SET weld.scan = false").await;
    let off = text(&engines.weld, sql).await;
    assert!(off.contains("scan=datafusion (weld.scan is off)"), "{off}");
}

/// Gives DataFusion's readers, and counts them.
#[derive(Debug)]
struct CountedReaders(DefaultParquetFileReaderFactory, AtomicUsize);

impl ParquetFileReaderFactory for CountedReaders {
    fn create_reader(
        &self,
        partition: usize,
        file: PartitionedFile,
        hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.create_reader(partition, file, hint, metrics)
    }
}

/// A file in an object store that is no file system, read by a factory of its own.
#[derive(Debug)]
struct Stored {
    file: ObjectMeta,
    schema: SchemaRef,
    readers: Arc<CountedReaders>,
}

#[async_trait::async_trait]
impl TableProvider for Stored {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        assert!(filters.is_empty());
        let readers = Arc::clone(&self.readers) as Arc<dyn ParquetFileReaderFactory>;
        let source = ParquetSource::new(Arc::clone(&self.schema)).with_parquet_file_reader_factory(readers);
        let url = ObjectStoreUrl::parse("mem://files")?;
        let config = FileScanConfigBuilder::new(url, Arc::new(source))
            .with_file(PartitionedFile::new_from_meta(self.file.clone()))
            .with_projection_indices(projection.cloned())?
            .build();
        Ok(DataSourceExec::from_data_source(config))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_keeps_its_store_and_its_readers() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engines = engines(1, folder.path()).await;
    let bytes = std::fs::read(folder.path().join("t.parquet")).expect("the file just written");
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    store.put(&"t".into(), bytes.into()).await.expect("memory takes it");
    let file = store.head(&"t".into()).await.expect("it is there");
    let schema = engines.stock.table("t").await.expect("it is registered").schema().as_arrow().clone();
    let readers = Arc::new(CountedReaders(DefaultParquetFileReaderFactory::new(Arc::clone(&store)), 0.into()));
    for context in [&engines.stock, &engines.weld] {
        context
            .register_object_store(ObjectStoreUrl::parse("mem://files").expect("a URL").as_ref(), Arc::clone(&store));
        let table = Stored { file: file.clone(), schema: Arc::new(schema.clone()), readers: Arc::clone(&readers) };
        context.register_table("stored", Arc::new(table)).expect("a new name");
    }
    let sql = "SELECT s, count(*), sum(even), sum(d * d) FROM stored WHERE k % 3 = 1 GROUP BY s";
    engines.check(sql, 1).await;
    let before = readers.1.load(Ordering::Relaxed);
    let analyzed = text(&engines.weld, &format!("EXPLAIN ANALYZE {sql}")).await;
    assert!(analyzed.contains("scan=weld"), "{analyzed}");
    assert!(readers.1.load(Ordering::Relaxed) > before);
}

/// A table `many` of the rows of `sql`, in row groups of 2,000.
async fn many(engines: &Engines, folder: &Path, sql: &str) {
    let batches = engines.stock.sql(sql).await.expect("valid SQL").collect().await.expect("it runs");
    let path = folder.join("many.parquet");
    let file = File::create(&path).expect("a temporary folder is writable");
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(2000)).build();
    let mut writer = ArrowWriter::try_new(file, batches[0].schema(), Some(properties)).expect("plain columns");
    batches.iter().for_each(|batch| writer.write(batch).expect("a temporary folder is writable"));
    writer.close().expect("a temporary folder is writable");
    register(engines, "many", &path, ParquetReadOptions::default()).await;
}

/// Texts that come with time, as document numbers do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn least_and_greatest_text_of_the_build_side_prune_row_groups() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for data_type in ["Utf8", "LargeUtf8", "Utf8View"] {
        let engines = Engines::new(config(1));
        let rows = format!(
            "SELECT arrow_cast(concat('number ', lpad(CAST(v AS VARCHAR), 8, '0')), '{data_type}') AS k, v AS n
             FROM generate_series(0, 199999) AS g(v)"
        );
        many(&engines, folder.path(), &rows).await;
        let few = format!("SELECT * FROM ({rows}) WHERE n BETWEEN 150100 AND 153100 AND n % 50 = 0");
        engines.table_from("few", &few, 1000).await;
        let sql = "SELECT count(*), sum(many.n), min(few.k) FROM many JOIN few ON many.k = few.k";
        engines.check(sql, 1).await;
        let analyzed = text(&engines.weld, &format!("EXPLAIN ANALYZE {sql}")).await;
        assert!(analyzed.contains("scan=weld") && analyzed.contains("100 total → 2 matched"), "{analyzed}");
        // Without a row nothing is read, and a NULL equals no text.
        engines.table_from("none", "SELECT NULL AS k, 1 AS n", 10).await;
        engines.check("SELECT count(*), sum(many.n) FROM many JOIN none ON many.k = none.k", 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_that_tighten_drop_row_groups() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engines = Engines::new(config(1));
    many(&engines, folder.path(), "SELECT v AS k, v % 7 AS m FROM generate_series(0, 199999) AS g(v)").await;
    let sql = "SELECT k * 2 AS d, k, m FROM many WHERE m < 6 ORDER BY k LIMIT 5";
    engines.check(sql, 1).await;
    let analyzed = text(&engines.weld, &format!("EXPLAIN ANALYZE {sql}")).await;
    assert!(analyzed.contains("scan=weld"), "{analyzed}");
    let dropped = metric_of(&analyzed, "row_groups_pruned_dynamic_filter");
    let dropped: usize = dropped.rsplit('=').next().unwrap_or_default().parse().expect("a number");
    assert!(dropped > 50, "{analyzed}");
}

/// A table `near` of five keys of `t`, at both its ends too, so that their bounds drop nothing.
async fn near(engines: &Engines) {
    let rows = "SELECT arrow_cast(v * 4999 + 1, 'Int32') AS k, v AS n FROM generate_series(0, 4) AS g(v)";
    engines.table_from("near", rows, 10).await;
}

/// What a build side knows reaches the scan of the probe side: not the bounds alone, the keys themselves.
#[tokio::test]
async fn keys_of_the_build_side_drop_rows_of_the_probe_side() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engines = engines(1, folder.path()).await;
    // Keys at both ends of `t` as well, and too far apart for a bitmap.
    near(&engines).await;
    engines.table_from("far", "SELECT v * 1000000000000 + v AS k FROM generate_series(-9, 9) AS g(v)", 10).await;
    for (sql, rows_max) in [
        ("SELECT t.i, near.n FROM near JOIN t ON near.k = t.k", 5),
        ("SELECT t.i FROM near JOIN t ON near.k = t.k AND near.n * 9998 + 2 = t.even", 5),
        ("SELECT sum(i) FROM t WHERE even IN (SELECT k FROM far)", 1000),
        ("SELECT t.i FROM near JOIN t ON near.n = t.i", 1000),
    ] {
        engines.check(sql, 1).await;
        let analyzed = text(&engines.weld, &format!("EXPLAIN ANALYZE {sql}")).await;
        let probe = analyzed.lines().find(|line| line.contains("HashJoinExec")).unwrap_or_default();
        let rows = metric_of(probe, "input_rows");
        let rows = rows.rsplit('=').next().and_then(|rows| rows.parse::<usize>().ok());
        assert!(rows.is_some_and(|rows| rows <= rows_max), "{rows:?} rows are probed\n{analyzed}");
        assert!(analyzed.contains(" keys"), "{analyzed}");
    }
}

/// A scan that computes columns drops rows as well, unless one of these columns may fail in a row that is dropped.
#[tokio::test]
async fn computed_columns_that_cannot_fail_keep_no_rows() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engines = engines(1, folder.path()).await;
    near(&engines).await;
    for (column, rows) in [
        ("CAST(0 AS DECIMAL(7, 2))", "5"),
        ("CAST(d AS DECIMAL(20, 4))", "5"),
        ("CAST(i AS DOUBLE) / 3", "5"),
        ("CASE WHEN b THEN even * 2 ELSE -i END", "5"),
        ("d * d", "20.00 K"),
        ("100 / (k + 7)", "20.00 K"),
        ("100 / (k - 7)", ""),
        ("CAST(s AS BIGINT)", ""),
    ] {
        let sql = format!(
            "SELECT n, x FROM near JOIN (SELECT k, {column} AS x FROM t UNION ALL SELECT arrow_cast(n, 'Int32'), NULL FROM near)
             AS u ON near.k = u.k"
        );
        if rows.is_empty() {
            for context in [&engines.stock, &engines.weld] {
                assert!(context.sql(&sql).await.expect("valid SQL").collect().await.is_err(), "{sql}");
            }
            continue;
        }
        engines.check(&sql, 1).await;
        assert_eq!(scan_metric(&engines, &sql, "output_rows").await, rows, "{column}");
    }
}

/// Where most rows pass a filter all of a row group are decoded, unless they lie together; keys drop them in any case.
#[tokio::test]
async fn filters_that_most_scattered_rows_pass_are_left_to_the_plan() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engines = engines(1, folder.path()).await;
    let keys = "SELECT v AS n FROM generate_series(0, 19999, 3) AS g(v) UNION ALL SELECT v FROM generate_series(1, 19999, 3) AS g(v)";
    engines.table_from("most", keys, 8192).await;
    write(
        &engines,
        "SELECT v, v % 10 AS m, v * 3 AS x FROM generate_series(0, 19999) AS g(v)",
        &folder.path().join("one.parquet"),
    )
    .await;
    register(&engines, "one", &folder.path().join("one.parquet"), ParquetReadOptions::default()).await;
    for (sql, rows) in [
        ("SELECT sum(x), count(*) FROM one WHERE m < 7", "20.00 K"),
        ("SELECT sum(x), count(*) FROM one WHERE m < 7 AND m <> 5", "20.00 K"),
        ("SELECT sum(x), count(*) FROM one WHERE m < 4", "8.00 K"),
        ("SELECT sum(x), count(*) FROM one WHERE v >= 6000", "14.00 K"),
        ("SELECT sum(x), count(*) FROM one WHERE m < 7 AND v % 7 = 3", "2.00 K"),
        ("SELECT sum(x), count(*) FROM one JOIN most ON one.v = most.n", "13.33 K"),
    ] {
        engines.check(sql, 1).await;
        assert_eq!(scan_metric(&engines, sql, "output_rows").await, rows, "{sql}");
    }
}

/// Rows that are taken back may lie on pages that a second filter did not want: the first left none of their rows.
#[tokio::test]
async fn rows_are_taken_back_on_pages_that_were_not_fetched() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engines = engines(1, folder.path()).await;
    // A page of texts has ten rows, a page of numbers more.
    let properties = WriterProperties::builder().set_dictionary_enabled(false).set_write_batch_size(10);
    write_as(
        properties.set_data_page_size_limit(1000).build(),
        &engines,
        "SELECT CASE WHEN v <= 10 OR v % 5 = 0 THEN 0 ELSE v END AS a, concat(chr(121 - CAST(v % 7 = 0 AS BIGINT)),
         repeat('x', 100), v) AS b FROM generate_series(1, 100) AS g(v)",
        &folder.path().join("pages.parquet"),
    )
    .await;
    register(&engines, "pages", &folder.path().join("pages.parquet"), ParquetReadOptions::default()).await;
    let sql = "SELECT count(*), count(b), min(b) FROM pages WHERE a > 0 AND b LIKE 'y%'";
    engines.check(sql, 1).await;
    assert_eq!(scan_metric(&engines, sql, "output_rows").await, "100");
}

/// Row groups are read in the order that a sort above wants few rows of; then its filter leaves the others out.
#[tokio::test]
async fn the_first_rows_of_an_order_are_read_first() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engines = engines(1, folder.path()).await;
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(1000)).build();
    write_as(
        properties,
        &engines,
        "SELECT v, v / 3000 AS y, concat('text ', v) AS s FROM generate_series(0, 19999) AS g(v)",
        &folder.path().join("grown.parquet"),
    )
    .await;
    register(&engines, "grown", &folder.path().join("grown.parquet"), ParquetReadOptions::default()).await;
    for (order, rows) in [
        ("v DESC", "1.00 K"),
        ("v", "1.00 K"),
        ("y DESC, v", "1.00 K"),
        ("y DESC, v DESC", "1.00 K"),
        ("-v", "20.00 K"),
    ] {
        let sql = format!("SELECT v, s FROM grown ORDER BY {order} LIMIT 5");
        assert_eq!(text(&engines.weld, &sql).await, text(&engines.stock, &sql).await, "{sql}");
        assert_eq!(scan_metric(&engines, &sql, "output_rows").await, rows, "{sql}");
    }
}

/// The first rows of a file are read of the pages that have them, and no row group is begun for nothing.
#[tokio::test]
async fn limits_are_read_of_the_first_pages() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engines = engines(1, folder.path()).await;
    let mut scanned = Vec::new();
    for limit in ["LIMIT 10", "LIMIT 4000", "LIMIT 10 OFFSET 3995", "LIMIT 7000 OFFSET 9", "LIMIT 30000"] {
        let sql = format!("SELECT * FROM t {limit}");
        assert_eq!(text(&engines.weld, &sql).await, text(&engines.stock, &sql).await, "{sql}");
        let bytes = scan_metric(&engines, &sql, "bytes_scanned").await;
        let bytes = bytes.trim_end_matches(" K");
        scanned.push(bytes.parse::<f64>().expect("a number of kB"));
    }
    assert!(scanned.is_sorted() && scanned[0] < 100.0 && scanned[2] < 250.0 && scanned[4] > 600.0, "{scanned:?}");
}

/// Where nulls match, the keys of the build side drop none.
#[tokio::test]
async fn nulls_that_match_are_not_dropped() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engines = engines(1, folder.path()).await;
    engines.table_from("few", "SELECT NULLIF(v, 2) AS n, NULLIF(concat('a string of some length ', v), 'a string of some length 2') AS s FROM generate_series(2, 3) AS g(v)", 10).await;
    for sql in [
        "SELECT t.k FROM few JOIN t ON few.n IS NOT DISTINCT FROM t.i",
        "SELECT t.k FROM few JOIN t ON few.s IS NOT DISTINCT FROM t.s",
        "SELECT t.k FROM few JOIN t ON (few.s IS NOT DISTINCT FROM t.s) AND (few.n IS NOT DISTINCT FROM t.i)",
        "SELECT n FROM few INTERSECT SELECT i FROM t",
    ] {
        engines.check(sql, 1).await;
    }
}

/// Joins take the two zeros of floats for equal, whoever tells the scan its keys.
#[tokio::test]
async fn zeros_that_match_are_not_dropped() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engines = Engines::new(config(1));
    let zeros = |sign| {
        format!(
            "SELECT {sign}0.0e0 AS f, arrow_cast({sign}0.0e0, 'Float32') AS g, v AS n FROM generate_series(1, 3) AS t(v)"
        )
    };
    engines.parquet_from("less", &zeros("-"), folder.path()).await;
    engines.parquet_from("more", &zeros(""), folder.path()).await;
    for join in ["true", "false"] {
        engines.weld.sql(&format!("SET weld.join = {join}")).await.expect("an option");
        for sql in [
            "SELECT f FROM less INTERSECT SELECT f FROM less",
            "SELECT g FROM less INTERSECT SELECT g FROM more",
            "SELECT less.n FROM less JOIN more ON less.f = more.f",
            "SELECT more.n FROM less JOIN more ON less.f = more.f AND less.g = more.g WHERE less.n < 2",
            "SELECT less.n FROM less JOIN more ON less.f = more.f AND less.n = more.n WHERE more.n < 3",
        ] {
            engines.check(sql, 0).await;
        }
    }
}

/// DataFusion's own scan asks the minimum and the maximum what they are cast to, also where a cast does not keep their
/// order, and leaves out files and row groups that have the rows: what it gives of a table in memory is compared.
#[tokio::test]
async fn casts_that_keep_no_order_rule_out_nothing() -> Result<()> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engines = Engines::new(config(1));
    // From nine in the evening of 3 February 2001 to five in the morning.
    let rows = "SELECT v - 5 AS i, to_timestamp_seconds(981230400 + 3600 * v) AS ts FROM generate_series(1, 9) AS g(v)";
    engines.stock.sql(&format!("CREATE TABLE held AS {rows}")).await?;
    write(&engines, rows, &folder.path().join("times.parquet")).await;
    register(&engines, "times", folder.path(), ParquetReadOptions::default()).await;
    for rest in [
        "WHERE CAST(ts AS TIME) > TIME '21:30:00' ORDER BY i",
        "WHERE TRY_CAST(ts AS TIME) = TIME '23:00:00' AND i < 4",
        "WHERE NOT CAST(i AS BOOLEAN)",
        "ORDER BY CAST(ts AS TIME) DESC LIMIT 3",
    ] {
        let of = |table: &str| format!("SELECT i, ts FROM {table} {rest}");
        assert_eq!(text(&engines.weld, &of("times")).await, text(&engines.stock, &of("held")).await, "{rest}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_timestamps_are_read_as_by_arrow_rs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engines = Engines::new(config(1));
    let path = folder.path().join("old.parquet");
    let schema = parse_message_type("message m { required int96 at; required int64 v; }").expect("a schema");
    let file = File::create(&path).expect("a temporary folder is writable");
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::default()).expect("it begins");
    let mut group = writer.next_row_group().expect("it begins");
    let mut times = group.next_column().expect("no error").expect("two columns");
    let day = |day: u32| Int96::from(vec![day * 1_234_567_000, day, 2_440_588 + day * 40]);
    let written = times.typed::<Int96Type>().write_batch(
        &[day(1), day(2), day(3), Int96::from(vec![7, 0, 2_400_000])],
        None,
        None,
    );
    assert_eq!(written.expect("it writes"), 4);
    times.close().expect("it ends");
    let mut numbers = group.next_column().expect("no error").expect("two columns");
    assert_eq!(numbers.typed::<Int64Type>().write_batch(&[1, 2, 3, 4], None, None).expect("it writes"), 4);
    numbers.close().expect("it ends");
    group.close().expect("it ends");
    writer.close().expect("it ends");
    for unit in ["", "s", "ms", "us", "ns"] {
        if !unit.is_empty() {
            for context in [&engines.stock, &engines.weld] {
                text(context, &format!("SET datafusion.execution.parquet.coerce_int96 = '{unit}'")).await;
            }
        }
        let name = format!("old{unit}");
        register(&engines, &name, &path, ParquetReadOptions::default()).await;
        let sql = format!("SELECT max(at), min(at), sum(v) FROM {name} WHERE v > 1");
        engines.check(&sql, 1).await;
        engines.check(&format!("SELECT at, v FROM {name} WHERE v <> 2"), 1).await;
        let analyzed = text(&engines.weld, &format!("EXPLAIN ANALYZE {sql}")).await;
        assert!(analyzed.contains("scan=weld") && !analyzed.contains("by arrow-rs"), "{analyzed}");
    }
}

/// Predicates that few values fail are evaluated once, by the pipeline; the others drop rows in the scan, as long as
/// they drop many.
#[tokio::test]
async fn the_scan_leaves_what_most_rows_pass() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engines = engines(1, folder.path()).await;
    for (filter, read) in [
        ("s NOT LIKE '%length 3%'", "20.00 K"),
        ("i IS DISTINCT FROM 3", "20.00 K"),
        ("i NOT IN (3, 4, 5, 6)", "20.00 K"),
        ("s IS NOT NULL", "20.00 K"),
        ("rare IS NOT NULL", "2.50 K"),
        ("s IS NOT NULL AND rare IS NOT NULL", "2.50 K"),
        ("s NOT LIKE '%length 3%' AND s LIKE '%length 5'", "2.14 K"),
        ("strpos(s, 'length 3') = 0", "20.00 K"),
        ("strpos(s, 'length 3') > 0", "2.14 K"),
        ("contains(s, 'length 3')", "2.14 K"),
        ("i = 3 AND s IS NOT NULL", "133"),
        ("i <> 3", "20.00 K"),
    ] {
        let sql = format!("SELECT sum(even), count(*) FROM t WHERE {filter}");
        assert_eq!(text(&engines.weld, &sql).await, text(&engines.stock, &sql).await, "{filter}");
        let analyzed = text(&engines.weld, &format!("EXPLAIN ANALYZE {sql}")).await;
        let filtered = analyzed.lines().find(|line| line.contains("FilterExec")).unwrap_or_default();
        assert_eq!(metric_of(filtered, "input_rows"), format!("input_rows={read}"), "{filter}\n{analyzed}");
    }
}
