//! Tables as Parquet files: one or two, as different writers would write them; of older or newer schemas than the
//! table's, in folders whose names have the values of a column.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, TimeUnit};
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter};
use parquet::basic::{Compression, Encoding, Type as PhysicalType};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use weld_test::generate::rng::Rng;

use super::settings::Settings;
use super::tables::{Kind, Table, kind};

/// What decides how files are written; the same again gives the same files.
#[derive(Clone, Debug)]
pub(crate) struct Writing {
    rng: Rng,
    /// The type of a column that the folders' names tell.
    folders: Option<DataType>,
    /// Tables are registered with their schemas; else these come of the files.
    declared: bool,
    /// Files have other schemas than the table; then it is declared.
    evolved: bool,
    /// Files do not tell the Arrow types that they were made of.
    foreign: bool,
    reading: Settings,
}

const WRITTEN_AT_ONCE: usize = 500;

impl Writing {
    pub(crate) fn new(rng: &mut Rng) -> Writing {
        let folders = rng.one_in(5).then(|| rng.pick(&[DataType::Int32, DataType::Utf8, DataType::Date32]));
        let evolved = rng.one_in(4);
        let (declared, foreign) = (evolved || rng.one_in(5), rng.one_in(8));
        let reading = Settings::of_reading(rng);
        Writing { rng: Rng::new(rng.number()), folders, declared, evolved, foreign, reading }
    }

    /// The column that is in no file.
    pub(crate) fn folder_column(&self, table: &str) -> Option<(String, Kind)> {
        self.folders.as_ref().map(|data_type| (format!("{table}p"), kind(data_type)))
    }

    pub(crate) fn write(&self, table: &Table, folder: &Path) {
        let rng = &mut self.rng.clone();
        std::fs::create_dir(folder).expect("a temporary folder is writable");
        let files = if table.batches.len() > 1 { 1 + rng.below(3).min(1) } else { 1 };
        for number in 0..files {
            let folder = match &self.folders {
                Some(data_type) => folder.join(format!("{}p={}", table.name, folder_value(rng, data_type))),
                None => folder.to_owned(),
            };
            std::fs::create_dir_all(&folder).expect("a temporary folder is writable");
            let change = if self.evolved { Change::new(rng, &table.batches[0].schema()) } else { Change::default() };
            let batches: Vec<RecordBatch> =
                table.batches.iter().skip(number).step_by(files).map(|batch| change.apply(batch)).collect();
            // All of them have the types of the first: a cast that fails for one leaves none.
            let unchanged = || table.batches.iter().skip(number).step_by(files).cloned().collect();
            let is_one = batches.windows(2).all(|pair| pair[0].schema() == pair[1].schema());
            let batches = if is_one { batches } else { unchanged() };
            self.write_file(rng, (&batches, table.is_large()), &folder.join(format!("{number}.parquet")));
        }
    }

    fn write_file(&self, rng: &mut Rng, (batches, large): (&[RecordBatch], bool), path: &Path) {
        let schema = batches[0].schema();
        let options = ArrowWriterOptions::new().with_properties(properties(rng, &schema, large));
        let options = options.with_skip_arrow_metadata(self.foreign);
        let file = std::fs::File::create(path).expect("a temporary folder is writable");
        let mut writer = ArrowWriter::try_new_with_options(file, schema, options).expect("types that Parquet knows");
        for batch in batches {
            // The writer calls itself for each row group that a batch fills.
            for start in (0..batch.num_rows()).step_by(WRITTEN_AT_ONCE) {
                let rows = batch.slice(start, WRITTEN_AT_ONCE.min(batch.num_rows() - start));
                writer.write(&rows).expect("a temporary folder is writable");
            }
        }
        writer.close().expect("a temporary folder is writable");
    }

    pub(crate) async fn register(&self, context: &SessionContext, table: &Table, folder: &Path) {
        self.reading.apply(context, false);
        let path = format!("{}/", folder.to_str().expect("a temporary folder has a plain name"));
        let schema = table.batches[0].schema();
        let folders = self.folders.iter().map(|data_type| (format!("{}p", table.name), data_type.clone()));
        let options =
            ParquetReadOptions::default().table_partition_cols(folders.collect()).file_sort_order(table.sort_order());
        // The schemas of several files may not make one.
        let inferred = !self.declared && context.register_parquet(&table.name, &path, options.clone()).await.is_ok();
        if !inferred {
            let options = options.schema(&schema);
            context.register_parquet(&table.name, &path, options).await.expect("the files just written");
        }
    }
}

fn folder_value(rng: &mut Rng, data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Int32 => rng.pick(&["0", "1", "2", "-2"]),
        DataType::Date32 => rng.pick(&["1970-01-01", "1970-01-03", "2020-02-29"]),
        _ => rng.pick(&["a", "weld", "twelve bytes", "thirteen byte"]),
    }
}

/// How a file's schema differs from the table's.
#[derive(Default)]
struct Change {
    /// For each column the type in the file, or that it has none.
    columns: Vec<Option<DataType>>,
    reversed: bool,
    more: bool,
}

impl Change {
    fn new(rng: &mut Rng, schema: &Schema) -> Change {
        let mut of = |(index, field): (usize, &FieldRef)| match rng.below(6) {
            // A file has some column.
            0 if field.is_nullable() && index > 0 => None,
            1 | 2 => Some(rng.pick(&stored_as(field.data_type()))),
            _ => Some(field.data_type().clone()),
        };
        let columns = schema.fields().iter().enumerate().map(&mut of).collect();
        Change { columns, reversed: rng.one_in(4), more: rng.one_in(4) }
    }

    fn apply(&self, batch: &RecordBatch) -> RecordBatch {
        if self.columns.is_empty() {
            return batch.clone();
        }
        let cast = CastOptions { safe: false, ..CastOptions::default() };
        let mut columns: Vec<(Field, ArrayRef)> = Vec::new();
        let schema = batch.schema();
        for ((field, column), change) in schema.fields().iter().zip(batch.columns()).zip(&self.columns) {
            let Some(data_type) = change else { continue };
            let field = field.as_ref().clone();
            match cast_with_options(column, data_type, &cast) {
                Ok(column) => columns.push((field.with_data_type(data_type.clone()), column)),
                Err(_) => columns.push((field, column.clone())),
            }
        }
        if self.more {
            let none = Arc::new(Int32Array::from(vec![7; batch.num_rows()]));
            columns.push((Field::new("of_no_table", DataType::Int32, true), none));
        }
        if self.reversed {
            columns.reverse();
        }
        let (fields, columns): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let schema = Arc::new(Schema::new(fields));
        RecordBatch::try_new_with_options(schema, columns, &options).expect("as many rows")
    }
}

/// In which types a file may have what the table has in this one.
fn stored_as(data_type: &DataType) -> Vec<DataType> {
    let texts = || {
        let coded = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        vec![DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View, DataType::Binary, coded]
    };
    match data_type {
        DataType::Timestamp(_, zone) => {
            [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond]
                .into_iter()
                .flat_map(|unit| [DataType::Timestamp(unit, zone.clone()), DataType::Timestamp(unit, None)])
                .collect()
        }
        data_type if data_type.is_integer() => vec![
            DataType::Int8,
            DataType::Int16,
            DataType::UInt16,
            DataType::Int32,
            DataType::Int64,
            DataType::UInt64,
            DataType::Float64,
            DataType::Utf8,
            DataType::Decimal128(20, 0),
        ],
        data_type if data_type.is_floating() => {
            vec![DataType::Float32, DataType::Float64, DataType::Float16, DataType::Int64, DataType::Decimal128(20, 2)]
        }
        data_type if data_type.is_decimal() => vec![
            DataType::Decimal128(20, 4),
            DataType::Decimal128(9, 2),
            DataType::Decimal128(38, 10),
            DataType::Decimal64(18, 3),
            DataType::Float64,
            DataType::Int32,
        ],
        DataType::Date32 | DataType::Date64 => {
            vec![DataType::Date32, DataType::Date64, DataType::Timestamp(TimeUnit::Millisecond, None), DataType::Utf8]
        }
        DataType::Boolean => vec![DataType::Int8, DataType::Utf8],
        data_type if kind(data_type) == Kind::Text => texts(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            vec![DataType::Binary, DataType::LargeBinary, DataType::Utf8]
        }
        other => vec![other.clone()],
    }
}

/// Small row groups and pages, or large ones; encodings, compression, statistics and indexes of all kinds. Of each row
/// group that is left DataFusion asks a filter that has changed about all of them, so that files of large tables must
/// not have thousands.
fn properties(rng: &mut Rng, schema: &Schema, large: bool) -> WriterProperties {
    let compression = |rng: &mut Rng| {
        // Its encoder clears megabytes for every column chunk: as often as the others it took a third of all time.
        if rng.one_in(40) {
            return Compression::BROTLI(Default::default());
        }
        rng.pick(&[
            Compression::UNCOMPRESSED,
            Compression::SNAPPY,
            Compression::SNAPPY,
            Compression::ZSTD(Default::default()),
            Compression::LZ4_RAW,
            Compression::GZIP(Default::default()),
        ])
    };
    let statistics = [
        EnabledStatistics::Page,
        EnabledStatistics::Page,
        EnabledStatistics::Page,
        EnabledStatistics::Chunk,
        EnabledStatistics::None,
    ];
    let mut builder = WriterProperties::builder()
        .set_writer_version(rng.pick(&[WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0]))
        .set_dictionary_enabled(rng.one_in(2))
        .set_dictionary_page_size_limit(rng.pick(&[1 << 20, 1 << 20, 40]))
        .set_bloom_filter_enabled(rng.one_in(4))
        .set_max_row_group_row_count(Some(rng.pick(&[3, 50, 1_000_000]).max(if large { 300 } else { 1 })))
        .set_data_page_row_count_limit(rng.pick(&[2, 20, 20_000]))
        .set_data_page_size_limit(rng.pick(&[1 << 20, 1 << 20, 64]))
        .set_write_batch_size(rng.pick(&[1, 1024]))
        .set_compression(compression(rng))
        .set_statistics_enabled(rng.pick(&statistics))
        .set_statistics_truncate_length(rng.pick(&[Some(64), Some(64), Some(1), None]))
        .set_column_index_truncate_length(rng.pick(&[Some(64), Some(64), Some(1), None]))
        .set_offset_index_disabled(rng.one_in(6))
        .set_coerce_types(rng.one_in(6));
    let descriptor = ArrowSchemaConverter::new().convert(schema).expect("types that Parquet knows");
    for leaf in descriptor.columns() {
        if rng.one_in(2) {
            let encoding = rng.pick(encodings(leaf.physical_type()));
            builder = builder.set_column_encoding(leaf.path().clone(), encoding);
            builder = builder.set_column_dictionary_enabled(leaf.path().clone(), rng.one_in(3));
        }
        if rng.one_in(4) {
            builder = builder.set_column_compression(leaf.path().clone(), compression(rng));
        }
    }
    builder.build()
}

fn encodings(physical: PhysicalType) -> &'static [Encoding] {
    match physical {
        PhysicalType::BOOLEAN => &[Encoding::PLAIN, Encoding::RLE],
        PhysicalType::INT32 | PhysicalType::INT64 => {
            &[Encoding::PLAIN, Encoding::DELTA_BINARY_PACKED, Encoding::BYTE_STREAM_SPLIT]
        }
        PhysicalType::FLOAT | PhysicalType::DOUBLE => &[Encoding::PLAIN, Encoding::BYTE_STREAM_SPLIT],
        PhysicalType::BYTE_ARRAY => &[Encoding::PLAIN, Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY],
        PhysicalType::FIXED_LEN_BYTE_ARRAY => {
            &[Encoding::PLAIN, Encoding::DELTA_BYTE_ARRAY, Encoding::BYTE_STREAM_SPLIT]
        }
        PhysicalType::INT96 => &[Encoding::PLAIN],
    }
}
