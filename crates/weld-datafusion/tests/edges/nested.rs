//! Nested columns through the project's scan: lists, structs and maps come from arrow-rs for the rows that filters
//! leave, and fields of structs are columns of their own.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, StructArray};
use arrow::datatypes::{DataType, Field, Fields, Schema};
use arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::{WriterProperties, WriterVersion};

use crate::common::{Engines, config};
use crate::{PANIC, caught, outcome};

/// Null, empty and filled lists, null structs with filled fields below, and each in another.
const ROWS: &str = "
    SELECT v AS k, v * 7919 % 9000 AS far, v % 100 AS m, concat('a text of row ', v) AS wide,
           CASE v % 5 WHEN 0 THEN NULL WHEN 1 THEN arrow_cast(make_array(), 'List(Int64)')
                WHEN 2 THEN make_array(v, NULL, v + 1) ELSE make_array(v % 3) END AS l,
           CASE v % 7 WHEN 0 THEN NULL WHEN 1 THEN make_array(make_array(concat('x', v % 50)), NULL)
                ELSE make_array(make_array(), make_array(NULL, concat('a longer text of a list ', v))) END AS ll,
           CASE WHEN v % 6 = 0 THEN NULL ELSE named_struct(
                'a', CASE WHEN v % 4 = 0 THEN NULL ELSE v % 1000 END, 'b', concat('b', v % 11),
                'in', CASE WHEN v % 9 = 1 THEN NULL ELSE named_struct('x', v / 3.0, 'y', make_array(v, v % 2)) END) END AS s,
           CASE WHEN v % 8 = 0 THEN NULL ELSE make_array(named_struct('p', v, 'q', make_array('q')), NULL) END AS ls,
           map(make_array('one', concat('k', v % 3)), make_array(v, NULL)) AS mp,
           CASE WHEN v % 3 = 0 THEN NULL ELSE arrow_cast(make_array(v, v % 10), 'FixedSizeList(2, Int64)') END AS fl,
           arrow_cast(make_array(concat('large ', v % 5)), 'LargeList(LargeUtf8)') AS lg
    FROM generate_series(1, 9000) AS g(v)";

const QUERIES: [&str; 27] = [
    "SELECT * FROM t",
    "SELECT k, l, s FROM t WHERE m = 5",
    "SELECT ll, mp, fl, lg, ls FROM t WHERE far < 300",
    "SELECT k, l FROM t WHERE k BETWEEN 2490 AND 2510",
    "SELECT l FROM t WHERE k % 2 = 0 AND m > 90",
    "SELECT count(*), count(l), count(s), count(fl) FROM t WHERE m < 50",
    "SELECT ls, k FROM t WHERE far IN (1, 500, 8999)",
    "SELECT k, s FROM t WHERE k > 20000",
    // Fields of structs.
    "SELECT s['a'], s['in']['x'] FROM t",
    "SELECT k, s['in'] FROM t WHERE s['a'] > 990",
    "SELECT s['b'], count(*), sum(s['a']), avg(s['in']['x']) FROM t GROUP BY s['b']",
    "SELECT s['in'], s['in']['x'], m FROM t WHERE s['in']['x'] < 900 AND m < 30",
    "SELECT k, s['in']['y'] FROM t WHERE s['b'] = 'b7' AND s['in']['x'] < 500",
    "SELECT s, s['a'] FROM t WHERE s['b'] LIKE '%1%' AND m < 7",
    "SELECT upper(s['b']), length(s['b']) + s['a'] FROM t WHERE m < 9",
    "SELECT count(*) FROM t WHERE s['a'] IS NULL",
    "SELECT count(*) FROM t WHERE s['in']['x'] IS NOT NULL AND s['a'] < 5",
    "SELECT mp['one'], mp['k1'] FROM t WHERE far < 100",
    // Computed of nested columns, by the source or above it.
    "SELECT array_length(l), cardinality(mp), l[1] FROM t WHERE m = 3",
    "SELECT k FROM t WHERE array_has(l, 2) AND m < 10",
    // Filters that are known or tighten while rows are read.
    "SELECT k, l, s, ls FROM t ORDER BY far LIMIT 7",
    "SELECT k, ll FROM t ORDER BY s['in']['x'] DESC NULLS LAST, k LIMIT 20",
    "SELECT a.k, b.ls, b.s FROM t a JOIN t b ON a.k = b.far WHERE a.far < 40",
    "SELECT a.k, b.l FROM t a JOIN t b ON a.k = b.s['a'] WHERE a.k < 4",
    "SELECT a.m, x, count(*) FROM t a JOIN (SELECT far, unnest(l) AS x FROM t) b ON a.k = b.far WHERE a.far < 90 GROUP BY a.m, x",
    "SELECT k, unnest(ls) FROM t WHERE m = 11",
    "SELECT l, count(*) FROM t WHERE m < 40 GROUP BY l",
];

/// The table in row groups of 2,500 rows and pages of 300.
async fn write(context: &SessionContext, sql: &str, path: &Path, version: WriterVersion, with_dictionaries: bool) {
    let batches = context.sql(sql).await.expect("valid SQL").collect().await.expect("it runs");
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(2500))
        .set_data_page_row_count_limit(300)
        .set_write_batch_size(100)
        .set_writer_version(version)
        .set_dictionary_enabled(with_dictionaries)
        .build();
    let file = File::create(path).expect("a temporary folder is writable");
    let mut writer = ArrowWriter::try_new(file, batches[0].schema(), Some(properties)).expect("types of Parquet");
    batches.iter().for_each(|batch| writer.write(batch).expect("a temporary folder is writable"));
    writer.close().expect("a temporary folder is writable");
}

async fn register(engines: &Engines, name: &str, path: &Path, options: ParquetReadOptions<'_>) {
    let path = path.to_str().expect("a temporary folder has a plain name");
    for context in [&engines.stock, &engines.weld] {
        context.register_parquet(name, path, options.clone()).await.expect("the file just written");
    }
}

fn engines(partitions: usize) -> Engines {
    let mut config = config(partitions).with_batch_size(700);
    config.options_mut().optimizer.repartition_file_min_size = 1;
    Engines::new(config)
}

async fn text(context: &SessionContext, sql: &str) -> String {
    let batches: Vec<RecordBatch> = context.sql(sql).await.expect("valid SQL").collect().await.expect("it runs");
    pretty_format_batches(&batches).expect("printable").to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_those_of_datafusions_scan() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (partitions, version, with_dictionaries) in [
        (1, WriterVersion::PARQUET_1_0, true),
        (3, WriterVersion::PARQUET_2_0, false),
        (2, WriterVersion::PARQUET_1_0, false),
    ] {
        let engines = engines(partitions);
        let path = folder.path().join(format!("t{partitions}.parquet"));
        write(&engines.stock, ROWS, &path, version, with_dictionaries).await;
        register(&engines, "t", &path, ParquetReadOptions::default()).await;
        for sql in QUERIES {
            engines.check(sql, 0).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_says_who_reads_which_columns() {
    let (folder, engines) = (tempfile::tempdir().expect("a temporary folder"), engines(1));
    let path = folder.path().join("t.parquet");
    write(&engines.stock, ROWS, &path, WriterVersion::PARQUET_1_0, true).await;
    register(&engines, "t", &path, ParquetReadOptions::default()).await;
    let analyzed = text(&engines.weld, "EXPLAIN ANALYZE SELECT k, l FROM t WHERE m = 5").await;
    assert!(analyzed.contains("weld (l by arrow-rs: the nested column l)"), "{analyzed}");
    for sql in ["SELECT l, mp FROM t ORDER BY far LIMIT 3", "SELECT unnest(ls) FROM t"] {
        let plan = text(&engines.weld, &format!("EXPLAIN {sql}")).await;
        assert!(plan.contains("WeldScanExec"), "{plan}");
    }
    // The field alone is read, by this scan, and its values drop rows.
    let sql = "EXPLAIN ANALYZE SELECT sum(s['in']['x'] * 2) FROM t WHERE s['b'] = 'b7'";
    let analyzed = text(&engines.weld, sql).await;
    assert!(analyzed.contains("scan=weld;") && !analyzed.contains("arrow-rs"), "{analyzed}");
    let rows = engines.run("SELECT k FROM t WHERE s['b'] = 'b7'").await.expect("it runs").rows.len();
    assert!(analyzed.contains(&format!("output_rows={rows},")), "{rows}\n{analyzed}");
}

/// The filter of the first rows of a sort is known after a batch: rows behind it are left out of the same row group.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_tighten_within_a_row_group() {
    let (folder, engines) = (tempfile::tempdir().expect("a temporary folder"), engines(1));
    engines.parquet_from("one", ROWS, folder.path()).await;
    for sql in [
        "SELECT k, l, s, wide FROM one ORDER BY far LIMIT 5",
        "SELECT k, s FROM one ORDER BY far % 100, k LIMIT 9",
        "SELECT k, l, wide FROM one WHERE m < 60 ORDER BY far DESC, k LIMIT 100",
        "SELECT k, ll FROM one ORDER BY k DESC LIMIT 3",
        "SELECT m, wide, ls FROM one ORDER BY m, wide LIMIT 800",
    ] {
        engines.check(sql, 0).await;
    }
    let analyzed = text(&engines.weld, "EXPLAIN ANALYZE SELECT k, l, s, wide FROM one ORDER BY far LIMIT 5").await;
    let scanned = analyzed.lines().find(|line| line.contains("DataSourceExec")).expect("a source");
    let rows = scanned.split("output_rows=").nth(1).and_then(|rest| rest.split(',').next()).expect("a metric");
    // A batch, and what passes of the others.
    assert!(rows.parse::<usize>().is_ok_and(|rows| (700..1500).contains(&rows)), "{analyzed}");
}

/// Declared types of `s`, of `l` and of the list of structs that differ from the file's.
fn tables() -> Vec<Schema> {
    let field = |name: &str, data_type: DataType| Field::new(name, data_type, true);
    let group = |fields: Vec<Field>| DataType::Struct(Fields::from(fields));
    let list = |item: Field| DataType::List(Arc::new(item));
    let inner = |x: DataType| group(vec![field("x", x), field("y", list(field("item", DataType::Int64)))]);
    let (a, b) = (field("a", DataType::Int64), field("b", DataType::Utf8));
    let of_s = |s: DataType| Schema::new(vec![field("k", DataType::Int64), field("s", s), field("m", DataType::Int64)]);
    let of_l = |l: DataType| Schema::new(vec![field("k", DataType::Int64), field("l", l), field("m", DataType::Int64)]);
    let item = |data_type| field("item", data_type);
    vec![
        of_s(group(vec![a.clone()])),
        of_s(group(vec![b.clone(), a.clone(), field("absent", DataType::Int32)])),
        of_s(group(vec![
            field("a", DataType::Float64),
            field("b", DataType::Utf8View),
            field("in", inner(DataType::Utf8)),
        ])),
        of_s(group(vec![field("a", DataType::Int8), b.clone()])),
        of_s(group(vec![a.clone().with_nullable(false), b.clone()])),
        of_s(group(vec![field("none", DataType::Int32)])),
        of_s(DataType::Int64),
        of_l(list(field("element", DataType::Int64))),
        of_l(list(item(DataType::Int32))),
        of_l(list(item(DataType::Utf8))),
        of_l(list(item(DataType::Int64).with_nullable(false))),
        of_l(DataType::LargeList(Arc::new(item(DataType::Int64)))),
        of_l(DataType::FixedSizeList(Arc::new(item(DataType::Int64)), 3)),
        of_l(DataType::Utf8),
        Schema::new(vec![
            field("k", DataType::Int64),
            field("gone", list(item(DataType::Int64))),
            field("m", DataType::Int64),
        ]),
        Schema::new(vec![
            field("ls", list(item(group(vec![field("q", list(item(DataType::Utf8))), field("p", DataType::Int32)])))),
            field("m", DataType::Int64),
        ]),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table_may_have_other_types_than_the_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let stock = Engines::new(config(1)).stock;
    let path = folder.path().join("t.parquet");
    write(&stock, ROWS, &path, WriterVersion::PARQUET_1_0, true).await;
    for table in tables() {
        let engines = engines(1);
        register(&engines, "t", &path, ParquetReadOptions::default().schema(&table)).await;
        let names: Vec<&str> = table.fields().iter().map(|field| field.name().as_str()).collect();
        let nested = names.iter().find(|name| !["k", "m"].contains(name)).expect("a nested column");
        let mut queries = vec![
            "SELECT * FROM t WHERE m = 3".to_owned(),
            format!("SELECT {nested} FROM t"),
            format!("SELECT count({nested}) FROM t WHERE m > 50"),
            format!("SELECT {nested}, m FROM t ORDER BY m LIMIT 5"),
        ];
        if let Ok(DataType::Struct(fields)) = table.field_with_name("s").map(Field::data_type) {
            for field in fields {
                let name = field.name();
                queries.push(format!("SELECT s['{name}'], m FROM t WHERE m < 20"));
                queries.push(format!("SELECT count(*) FROM t WHERE s['{name}'] IS NOT NULL"));
            }
            if fields.iter().any(|field| field.name() == "a") {
                queries.push("SELECT sum(s['a']), count(*) FROM t WHERE s['a'] < 100".to_owned());
            }
        }
        for sql in queries {
            if let Err(difference) = outcome(&engines, &sql).await {
                panic!("{table}\n{difference}");
            }
        }
    }
}

/// In a struct that is NULL, a field that may not be has a value for DataFusion: what lies there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn required_fields_of_null_structs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("t.parquet");
    let texts: ArrayRef = Arc::new((0..100).map(|row| Some(format!("text {}", row % 3))).collect::<StringArray>());
    let numbers: ArrayRef = Arc::new((0..100).map(|row| (row % 4 > 0).then_some(row)).collect::<Int64Array>());
    let fields = vec![Field::new("t", DataType::Utf8, false), Field::new("n", DataType::Int64, true)];
    let nulls = (0..100).map(|row| row % 5 != 0).collect::<Vec<_>>();
    let column: ArrayRef = Arc::new(StructArray::new(fields.into(), vec![texts, numbers], Some(nulls.into())));
    let batch = RecordBatch::try_from_iter([("s", column)]).expect("one column");
    let mut writer =
        ArrowWriter::try_new(File::create(&path).expect("a file"), batch.schema(), None).expect("a writer");
    writer.write(&batch).expect("it writes");
    writer.close().expect("it ends");
    let engines = engines(1);
    register(&engines, "t", &path, ParquetReadOptions::default()).await;
    for sql in [
        "SELECT s['t'], s['n'], s FROM t",
        "SELECT s['t'], count(*), sum(s['n']) FROM t GROUP BY s['t']",
        "SELECT count(*) FROM t WHERE s['t'] LIKE '%'",
        "SELECT count(*) FROM t WHERE s['t'] IS NULL AND s['n'] IS NULL",
        "SELECT s['n'] FROM t WHERE s['t'] < 'text' OR s['n'] > 90",
    ] {
        engines.check(sql, 0).await;
    }
}

/// Whatever is damaged in a nested column, the outcome is rows or an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_is_no_panic() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engines = engines(1);
    // What is read matters, not by whom.
    engines.weld.sql("SET weld.compile_min_rows = 1000000000").await.expect("a setting");
    let path = folder.path().join("t.parquet");
    write(&engines.stock, &format!("{ROWS} WHERE v < 400"), &path, WriterVersion::PARQUET_1_0, true).await;
    let whole = std::fs::read(&path).expect("the file just written");
    let damaged = folder.path().join("damaged.parquet");
    let (mut errors, mut seed) = (0, 1u64);
    for round in 0..300 {
        let mut bytes = whole.clone();
        // Pages lie before the footer, which is about the last third.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = (seed >> 33) as usize % (bytes.len() * 2 / 3);
        bytes[at] ^= 1 << (round % 8);
        std::fs::write(&damaged, bytes).expect("a temporary folder is writable");
        let context = &engines.weld;
        let _ = context.deregister_table("damaged");
        let name = damaged.to_str().expect("a plain name");
        if context.register_parquet("damaged", name, ParquetReadOptions::default()).await.is_err() {
            continue;
        }
        for sql in
            ["SELECT * FROM damaged WHERE m < 90", "SELECT s['a'], s['b'], s['in']['x'] FROM damaged WHERE s['a'] > 5"]
        {
            let outcome = caught(async { Ok(Engines::run_on(context, sql).await?.rows) }).await;
            assert!(outcome != Err(PANIC.to_owned()), "bit {} of byte {at}: {sql}", round % 8);
            errors += usize::from(outcome.is_err());
        }
    }
    assert!(errors > 10, "{errors}");
}
