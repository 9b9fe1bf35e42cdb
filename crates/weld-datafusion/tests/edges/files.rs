//! Parquet files whose columns have other types than the table declares: the rows, or the error, of DataFusion's scan.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray, new_null_array};
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use bytes::Bytes;
use datafusion::prelude::ParquetReadOptions;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader, ParquetMetaDataWriter};
use parquet::file::properties::WriterProperties;
use parquet::file::statistics::Statistics;

use crate::common::{Engines, config};
use crate::{caught, outcome};

fn timestamps() -> Vec<DataType> {
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    let units = [Second, Millisecond, Microsecond, Nanosecond];
    let naive = units.map(|unit| DataType::Timestamp(unit, None));
    let utc = units.map(|unit| DataType::Timestamp(unit, Some("UTC".into())));
    let zoned = [Millisecond, Nanosecond].map(|unit| DataType::Timestamp(unit, Some("Europe/Berlin".into())));
    let fixed = [DataType::Timestamp(Microsecond, Some("+02:00".into()))];
    [naive.to_vec(), utc.to_vec(), zoned.to_vec(), fixed.to_vec()].concat()
}

fn types() -> Vec<DataType> {
    use DataType::*;
    let mut types = vec![
        Boolean,
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
        Decimal128(5, 1),
        Decimal128(18, 2),
        Decimal128(18, 0),
        Decimal128(20, 4),
        Decimal128(38, 10),
        Date32,
        Date64,
        Time32(TimeUnit::Second),
        Time32(TimeUnit::Millisecond),
        Time64(TimeUnit::Microsecond),
        Time64(TimeUnit::Nanosecond),
        Utf8,
        LargeUtf8,
        Utf8View,
        Binary,
        BinaryView,
    ];
    types.extend(timestamps());
    types
}

fn integers(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

/// Numbers as values of the type, as far as it has them.
fn of_numbers(numbers: &ArrayRef, data_type: &DataType) -> ArrayRef {
    use DataType::*;
    let steps: Vec<DataType> = match data_type {
        Date32 | Time32(_) => vec![Int32, data_type.clone()],
        // A microsecond keeps such numbers apart from days.
        Binary | BinaryView => vec![Utf8, data_type.clone()],
        other => vec![other.clone()],
    };
    let mut array = Arc::clone(numbers);
    for step in steps {
        array = cast(&array, &step).unwrap_or_else(|_| new_null_array(&step, numbers.len()));
    }
    array
}

fn of_texts(texts: &[&str], data_type: &DataType) -> ArrayRef {
    let texts: ArrayRef = Arc::new(StringArray::from(texts.to_vec()));
    cast(&texts, data_type).unwrap_or_else(|_| new_null_array(data_type, texts.len()))
}

fn tame(data_type: &DataType) -> ArrayRef {
    let numbers = of_numbers(&integers(&[0, 1, 7, 119, 59]), data_type);
    let texts = ["0.5", "1.25", "2020-02-29", "2021-03-28T01:30:00", "12:34:56.789", "true", "2.449"];
    let texts = of_texts(&texts, data_type);
    concat(&[numbers.as_ref(), texts.as_ref(), new_null_array(data_type, 1).as_ref()]).expect("one type")
}

fn extreme(data_type: &DataType) -> ArrayRef {
    let numbers = [
        i64::MIN,
        i64::MAX,
        i64::from(i32::MIN),
        i64::from(i32::MAX),
        -1,
        -128,
        255,
        65_536,
        -86_400_001,
        86_400_000_000_001,
        9_223_372_036_854_776,
        -95_617_584_000_000_000,
    ];
    let numbers = of_numbers(&integers(&numbers), data_type);
    let texts = [
        "NaN",
        "-Infinity",
        "1e300",
        "-0.0",
        "-0.05",
        "99999999999999999999999999999999999999",
        "1677-09-21T00:12:43.145224192",
        "2262-04-12",
        "0001-01-01T00:00:00",
        "9999-12-31T23:59:59.999999999",
        "-127.5",
        "23:59:59.999999999",
        "",
        "a text of more than twelve bytes",
    ];
    let texts = of_texts(&texts, data_type);
    concat(&[numbers.as_ref(), texts.as_ref()]).expect("one type")
}

/// `k` counts the rows; each is a row group of its own if `apart`.
fn write(path: &Path, values: ArrayRef, apart: bool, embedded: bool) {
    let keys = integers(&(0..values.len() as i64).collect::<Vec<_>>());
    let fields = [Field::new("k", DataType::Int64, false), Field::new("x", values.data_type().clone(), true)];
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields.to_vec())), vec![keys, values]).expect("two columns");
    let properties = WriterProperties::builder().set_max_row_group_row_count(apart.then_some(1)).build();
    let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(!embedded);
    let file = File::create(path).expect("a temporary folder is writable");
    let mut writer = ArrowWriter::try_new_with_options(file, batch.schema(), options).expect("a type that is written");
    writer.write(&batch).expect("a temporary folder is writable");
    writer.close().expect("a temporary folder is writable");
}

async fn register(engines: &Engines, name: &str, path: &Path, schema: &Schema) {
    let path = path.to_str().expect("a temporary folder has a plain name");
    for context in [&engines.stock, &engines.weld] {
        let options = ParquetReadOptions::default().schema(schema);
        context.register_parquet(name, path, options).await.expect("a file that is there");
    }
}

/// Every pair of a file's type and a declared type. Values that stock refuses are asked for one by one: statistics of
/// the row groups leave the others out in both. Every pair of every value takes minutes: `WELD_ALL_VALUES=1` asks for
/// them, else it is one pair of a few and few of the values.
async fn pairs(own: &[DataType], declared: &[DataType], embedded: bool) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let all_values = std::env::var_os("WELD_ALL_VALUES").is_some();
    let mut wrong = Vec::new();
    let mut compared = 0;
    for (f, file) in own.iter().enumerate() {
        let engines = Engines::new(config(1));
        for (kind, values) in [("tame", tame(file)), ("extreme", extreme(file))] {
            let rows = values.len();
            let path = folder.path().join(format!("{kind}{f}.parquet"));
            write(&path, values, kind == "extreme", embedded);
            let asked = |(t, _): &(usize, &DataType)| all_values || (3 * f + t) % 5 == 0;
            for (t, table) in declared.iter().enumerate().filter(asked) {
                let name = format!("{kind}{t}");
                let fields = [Field::new("k", DataType::Int64, false), Field::new("x", table.clone(), true)];
                register(&engines, &name, &path, &Schema::new(fields.to_vec())).await;
                let all = format!("SELECT k, x FROM {name} WHERE k >= 0");
                let mut queries = vec![all.clone()];
                if kind == "extreme" && caught(engines.stock_rows(&all)).await.is_err() {
                    let step = if all_values { 1 } else { 9 };
                    let values = (0..rows).filter(|k| (k + f + t) % step == 0);
                    queries.extend(values.map(|k| format!("SELECT k, x FROM {name} WHERE k = {k}")));
                }
                for sql in queries {
                    compared += 1;
                    if let Err(difference) = outcome(&engines, &sql).await {
                        wrong.push(format!("{file} read as {table}: {difference}"));
                        break;
                    }
                }
            }
        }
    }
    assert!(compared > 10, "{compared}");
    let some: Vec<&String> = wrong.iter().take(40).collect();
    assert!(wrong.is_empty(), "{} of {compared} differ\n{some:#?}", wrong.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timestamps_of_every_unit_and_zone() {
    let types = [timestamps(), vec![DataType::Date32, DataType::Date64, DataType::Int64]].concat();
    pairs(&types, &types, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_type_of_file_as_every_declared_type() {
    let types: Vec<DataType> = types().into_iter().filter(|ty| !matches!(ty, DataType::Timestamp(..))).collect();
    pairs(&types, &types, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_without_arrows_schema() {
    use DataType::*;
    let nanos = Timestamp(TimeUnit::Nanosecond, None);
    let micros = Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let own = [UInt32, Decimal128(5, 1), Binary, nanos.clone(), Timestamp(TimeUnit::Second, None)];
    let declared = [Int64, Decimal128(18, 2), Date64, Utf8View, nanos, micros];
    pairs(&own, &declared, false).await;
}

/// A cast that fails in a row fails, whatever other filters say of the row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn casts_of_rows_that_a_filter_drops() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("t.parquet");
    write(&path, Arc::new(StringArray::from(vec!["1", "2", "x", "4", "5"])), false, true);
    for partitions in [1, 2] {
        let engines = Engines::new(config(partitions));
        let fields = [Field::new("k", DataType::Int64, false), Field::new("x", DataType::Int32, true)];
        register(&engines, "t", &path, &Schema::new(fields.to_vec())).await;
        for sql in [
            "SELECT x FROM t WHERE k = 1",
            "SELECT sum(x) FROM t WHERE k <> 2",
            "SELECT k, count(x) FROM t WHERE k < 2 GROUP BY k",
            "SELECT k + 1 FROM t WHERE k < 2",
            "SELECT k + 1 FROM t WHERE x = 2",
            "SELECT k + 1 FROM t WHERE k > 100",
        ] {
            outcome(&engines, sql).await.unwrap_or_else(|difference| panic!("{difference}"));
        }
    }
}

/// A column that the table declares NOT NULL has nulls in the file, or is not there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_declared_not_null() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (some, none) = (folder.path().join("some.parquet"), folder.path().join("none.parquet"));
    write(&some, Arc::new(Int64Array::from(vec![Some(1), None, Some(3), Some(3), None])), false, true);
    write(&none, integers(&[1, 2, 3, 4, 5]), false, true);
    let engines = Engines::new(config(1));
    for (at, ty) in [DataType::Int64, DataType::Int32, DataType::Utf8, DataType::Decimal128(10, 2)].iter().enumerate() {
        for (file, path) in [("some", &some), ("none", &none)] {
            let key = Field::new("k", DataType::Int64, false);
            let required = Schema::new(vec![key.clone(), Field::new("x", ty.clone(), false)]);
            let absent = Schema::new(vec![key, Field::new("y", ty.clone(), false)]);
            register(&engines, &format!("{file}{at}"), path, &required).await;
            register(&engines, &format!("{file}{at}_absent"), path, &absent).await;
            for sql in [
                format!("SELECT x, k FROM {file}{at} WHERE k >= 0"),
                format!("SELECT x, k FROM {file}{at} WHERE k = 2"),
                format!("SELECT x, count(*) FROM {file}{at} GROUP BY x"),
                format!("SELECT count(*) FROM {file}{at} WHERE x IS NULL"),
                format!("SELECT a.k FROM {file}{at} a JOIN {file}{at} b ON a.x = b.x"),
                format!("SELECT y, k FROM {file}{at}_absent WHERE k >= 0"),
                format!("SELECT k + 1 FROM {file}{at}_absent WHERE k >= 0"),
                format!("SELECT y, count(*) FROM {file}{at}_absent GROUP BY y"),
            ] {
                outcome(&engines, &sql).await.unwrap_or_else(|difference| panic!("{ty}: {difference}"));
            }
        }
    }
}

/// Footers that count no nulls, though there are some: DataFusion's statistics have a count of zero then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nulls_that_are_not_counted() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("t.parquet");
    let values: ArrayRef =
        Arc::new(Int64Array::from((0..500).map(|v| (v % 7 != 0).then_some(v % 10)).collect::<Vec<_>>()));
    write(&path, values, false, true);
    forget_null_counts(&path);
    let engines = Engines::new(config(2));
    let path = path.to_str().expect("a temporary folder has a plain name");
    for context in [&engines.stock, &engines.weld] {
        context.register_parquet("t", path, ParquetReadOptions::default()).await.expect("a file that is there");
    }
    for (sql, compiled) in [
        ("SELECT x, k FROM t WHERE k % 2 = 0", 1),
        ("SELECT x, count(*), count(x) FROM t GROUP BY x", 2),
        ("SELECT a.k, b.k FROM t a LEFT JOIN t b ON a.x = b.k", 1),
        ("SELECT count(*) FROM t WHERE x IS NULL AND k % 2 = 0", 2),
    ] {
        engines.check(sql, compiled).await;
    }
}

/// Writes the footer anew, with the bounds of each column but without the count of its nulls.
fn forget_null_counts(path: &Path) {
    let bytes = std::fs::read(path).expect("it was written");
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&Bytes::from(bytes.clone())).expect("a footer");
    let uncounted = |column: &ColumnChunkMetaData| {
        let Some(Statistics::Int64(known)) = column.statistics() else { panic!("statistics of integers") };
        let known = Statistics::int64(known.min_opt().copied(), known.max_opt().copied(), None, None, false);
        column.clone().into_builder().set_statistics(known).build().expect("the same column")
    };
    let groups = metadata.row_groups().iter().map(|group| {
        let columns = group.columns().iter().map(uncounted).collect();
        group.clone().into_builder().set_column_metadata(columns).build().expect("the same row group")
    });
    let metadata = ParquetMetaData::new(metadata.file_metadata().clone(), groups.collect());
    let (body, end) = bytes.split_at(bytes.len() - 8);
    let footer_len = u32::from_le_bytes(*end.first_chunk().expect("eight bytes")) as usize;
    let mut written = body[..body.len() - footer_len].to_vec();
    ParquetMetaDataWriter::new(&mut written, &metadata).finish().expect("a footer");
    std::fs::write(path, written).expect("a file that may be written");
}

/// Bytes that are not UTF-8, read as text: nobody looks at them. (Where DataFusion does not make views of them, its
/// reader panics in a debug build.)
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_are_no_text() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("t.parquet");
    let bytes: Vec<&[u8]> = vec![b"a", b"\xff\xfe", b"b", b"a longer one than twelve \xc3", b"c"];
    write(&path, Arc::new(arrow::array::BinaryArray::from(bytes)), false, true);
    let path = path.to_str().expect("a temporary folder has a plain name");
    let mut config = config(1);
    config.options_mut().execution.parquet.binary_as_string = true;
    let engines = Engines::new(config);
    for context in [&engines.stock, &engines.weld] {
        context.register_parquet("t", path, ParquetReadOptions::default()).await.expect("a file that is there");
    }
    for sql in [
        "SELECT x, k FROM t WHERE k >= 0",
        "SELECT x, k FROM t WHERE k = 0",
        "SELECT x, count(*) FROM t GROUP BY x",
        "SELECT k FROM t WHERE x = 'a'",
        "SELECT k, x LIKE '%_b', x LIKE 'a%' FROM t WHERE k < 4",
    ] {
        engines.check(sql, 1).await;
    }
}
