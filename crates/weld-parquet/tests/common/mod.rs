//! Generated tables, and the comparison with arrow-rs that every test is about.

#![allow(dead_code, reason = "each test program uses a part")]

use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::{cast, concat_batches, filter_record_batch};
use arrow::datatypes::*;
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::{BrotliLevel, Compression, Encoding, GzipLevel, ZstdLevel};
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;
use weld_parquet::{FileRanges, Form, ReadOptions, RowGroupScan, ScanColumn, Selection};

/// A small generator: the same seed gives the same table.
#[derive(Clone)]
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }
}

/// How a file is written.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) seed: u64,
    pub(crate) rows: usize,
    /// 0: no nulls, 1: few, 2: half, 3: most, 4: all, 5: declared not null, 6: runs of every length, 7: around the
    /// borders of pages, 8: whole pages.
    pub(crate) nulls: u8,
    /// 0: few distinct, 1: runs, 2: small numbers, 3: anything.
    pub(crate) values: u8,
    pub(crate) codec: u8,
    pub(crate) v2: bool,
    pub(crate) page_rows: usize,
    pub(crate) dictionary_bytes: usize,
}

pub(crate) fn codec(index: u8) -> Compression {
    match index {
        0 => Compression::UNCOMPRESSED,
        1 => Compression::SNAPPY,
        2 => Compression::GZIP(GzipLevel::default()),
        3 => Compression::BROTLI(BrotliLevel::try_new(1).unwrap()),
        4 => Compression::LZ4,
        5 => Compression::ZSTD(ZstdLevel::default()),
        _ => Compression::LZ4_RAW,
    }
}

impl Shape {
    fn numbers(&self, column: u64) -> Vec<u64> {
        let mut rng = Rng(self.seed ^ column << 40);
        let mut last = 0;
        (0..self.rows)
            .map(|_| {
                last = match self.values {
                    0 => rng.below(5).wrapping_mul(0x1234_5678_9abc_def1),
                    1 if rng.below(40) > 0 => last,
                    1 | 2 => rng.below(1000).wrapping_sub(300),
                    _ => rng.next() >> rng.below(64),
                };
                last
            })
            .collect()
    }

    fn validity(&self, column: u64) -> Option<NullBuffer> {
        let mut rng = Rng(self.seed ^ column << 48 ^ 77);
        let (mut run, mut run_left, mut run_len) = (true, 0, 0);
        let page = self.page_rows.next_multiple_of(64);
        let mut bit = |row: usize| match self.nulls {
            6 => {
                if run_left == 0 {
                    run = !run;
                    run_len += 1;
                    run_left = run_len;
                }
                run_left -= 1;
                run
            }
            // Pages are cut after whole batches of the writer.
            7 => (row + 2) % page > 3 || rng.below(3) == 0,
            8 => row / page % 3 != 1,
            1 => rng.below(50) > 0,
            2 => rng.below(2) > 0,
            3 => {
                // Long runs, so that both kinds of level runs occur.
                if rng.below(60) == 0 {
                    run = !run;
                }
                run && rng.below(30) == 0
            }
            4 => false,
            _ => true,
        };
        let bits: BooleanBuffer = (0..self.rows).map(&mut bit).collect();
        (self.nulls != 0 && self.nulls != 5).then(|| NullBuffer::new(bits))
    }

    fn string(value: u64) -> String {
        let len = value % 17 + if value.is_multiple_of(23) { value % 300 } else { 0 };
        let mut text = format!("{value:x}");
        while (text.len() as u64) < len {
            text.push(['a', 'é', '語', '🦀', 'z'][((value % 5) as usize + text.len()) % 5]);
        }
        text
    }

    /// Every type in every encoding that the writer can produce for it.
    pub(crate) fn table(&self) -> (RecordBatch, Vec<(String, Encoding)>) {
        use Encoding::*;
        let mut columns: Vec<(String, ArrayRef)> = vec![];
        let mut encodings = vec![];
        let fixed = [RLE_DICTIONARY, PLAIN, BYTE_STREAM_SPLIT];
        let integer = [RLE_DICTIONARY, PLAIN, BYTE_STREAM_SPLIT, DELTA_BINARY_PACKED];
        let text = [RLE_DICTIONARY, PLAIN, DELTA_LENGTH_BYTE_ARRAY, DELTA_BYTE_ARRAY];
        let narrow = [RLE_DICTIONARY, PLAIN, DELTA_BINARY_PACKED];
        let types: Vec<(DataType, &[Encoding])> = vec![
            (DataType::Boolean, &[PLAIN, RLE]),
            (DataType::Int8, &narrow),
            (DataType::UInt16, &narrow),
            (DataType::Int32, &integer),
            (DataType::UInt32, &integer),
            (DataType::Int64, &integer),
            (DataType::UInt64, &integer),
            (DataType::Date32, &integer),
            (DataType::Time32(TimeUnit::Millisecond), &narrow),
            (DataType::Time64(TimeUnit::Nanosecond), &narrow),
            (DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), &integer),
            (DataType::Timestamp(TimeUnit::Second, None), &narrow),
            (DataType::Duration(TimeUnit::Millisecond), &narrow),
            (DataType::Float16, &fixed),
            (DataType::Float32, &fixed),
            (DataType::Float64, &fixed),
            (DataType::Decimal128(7, 2), &integer),
            (DataType::Decimal128(15, 2), &integer),
            (DataType::Decimal128(30, 4), &fixed),
            (DataType::FixedSizeBinary(5), &fixed),
            (DataType::FixedSizeBinary(16), &fixed),
            (DataType::Utf8, &text),
            (DataType::Binary, &text),
        ];
        for (data_type, choices) in types {
            for encoding in choices {
                let index = columns.len() as u64;
                let name = format!("c{index}");
                let values = self.numbers(index);
                columns.push((name.clone(), array(&data_type, &values, self.validity(index))));
                encodings.push((name, *encoding));
            }
        }
        // Nested: arrow-rs reads it.
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(
            self.numbers(99).iter().map(|v| Some((0..v % 4).map(|i| Some(i as i32)))),
        );
        columns.push(("list".into(), Arc::new(lists)));
        let fields: Vec<Field> =
            columns.iter().map(|(name, array)| Field::new(name, array.data_type().clone(), self.nulls != 5)).collect();
        let arrays = columns.into_iter().map(|(_, array)| array).collect();
        (RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap(), encodings)
    }

    pub(crate) fn write(&self) -> Bytes {
        let (batch, encodings) = self.table();
        let version = if self.v2 { WriterVersion::PARQUET_2_0 } else { WriterVersion::PARQUET_1_0 };
        let mut props = WriterProperties::builder()
            .set_compression(codec(self.codec))
            .set_writer_version(version)
            .set_write_batch_size(64)
            .set_data_page_row_count_limit(self.page_rows)
            .set_dictionary_page_size_limit(self.dictionary_bytes);
        for (name, encoding) in encodings {
            let path = ColumnPath::from(name);
            if encoding != Encoding::RLE_DICTIONARY {
                props = props.set_column_dictionary_enabled(path.clone(), false).set_column_encoding(path, encoding);
            }
        }
        let mut file = vec![];
        let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(props.build())).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        Bytes::from(file)
    }
}

fn array(data_type: &DataType, values: &[u64], nulls: Option<NullBuffer>) -> ArrayRef {
    let shortened = |max: u64| values.iter().map(move |v| v % max);
    match data_type {
        DataType::Boolean => Arc::new(BooleanArray::new(values.iter().map(|v| v & 1 == 1).collect(), nulls)),
        DataType::Utf8 => {
            let strings = values.iter().enumerate();
            let valid = |i| nulls.as_ref().is_none_or(|n| n.is_valid(i));
            Arc::new(strings.map(|(i, v)| valid(i).then(|| Shape::string(*v))).collect::<StringArray>())
        }
        DataType::Binary => {
            let text = array(&DataType::Utf8, values, nulls);
            let bytes =
                text.as_string::<i32>().iter().map(|s| s.map(|s| s.bytes().map(|b| b ^ 0x85).collect::<Vec<_>>()));
            Arc::new(bytes.collect::<BinaryArray>())
        }
        DataType::FixedSizeBinary(n) => {
            let bytes: Vec<u8> =
                values.iter().flat_map(|v| v.to_le_bytes().into_iter().chain([9; 8]).take(*n as usize)).collect();
            Arc::new(FixedSizeBinaryArray::new(*n, bytes.into(), nulls))
        }
        DataType::Decimal128(p, s) => {
            let max = 10u64.pow((*p as u32).min(18));
            let wide = if *p > 18 { 1_000_003 } else { 1 };
            let sign = |v: u64| if v.is_multiple_of(3) { -1 } else { 1 };
            let decimals = shortened(max).map(|v| v as i128 * wide * sign(v)).collect();
            Arc::new(Decimal128Array::new(decimals, nulls).with_precision_and_scale(*p, *s).unwrap())
        }
        DataType::Time32(_) | DataType::Time64(_) => {
            let ints: Int64Array = Int64Array::new(shortened(86_400_000).map(|v| v as i64).collect(), nulls);
            match data_type {
                DataType::Time32(_) => cast(&cast(&ints, &DataType::Int32).unwrap(), data_type).unwrap(),
                _ => cast(&ints, data_type).unwrap(),
            }
        }
        fixed => {
            let width = fixed.primitive_width().unwrap();
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes().into_iter().take(width)).collect();
            let buffer = arrow::buffer::Buffer::from(bytes);
            let data = ArrayData::builder(fixed.clone()).len(values.len()).add_buffer(buffer).nulls(nulls);
            make_array(data.align_buffers(true).build().unwrap())
        }
    }
}

pub(crate) fn metadata(file: &Bytes) -> parquet::errors::Result<Arc<ParquetMetaData>> {
    let reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Optional);
    Ok(Arc::new(reader.parse_and_finish(file)?))
}

/// The narrowest types of the flat columns, as a hint for arrow-rs.
pub(crate) fn narrow_schema(file: &Bytes) -> parquet::errors::Result<SchemaRef> {
    let loaded = ArrowReaderMetadata::load(file, ArrowReaderOptions::new())?;
    let descriptor = loaded.metadata().file_metadata().schema_descr();
    let fields: Vec<_> = loaded
        .schema()
        .fields()
        .iter()
        .enumerate()
        .map(|(root, field)| {
            let leaf = (0..descriptor.num_columns()).find(|&l| descriptor.get_column_root_idx(l) == root);
            let narrow =
                leaf.and_then(|l| weld_parquet::Target::narrowest(&descriptor.column(l), field.data_type()).ok());
            let narrow = narrow.map_or_else(|| field.data_type().clone(), |t| t.data_type().clone());
            field.as_ref().clone().with_data_type(narrow)
        })
        .collect();
    Ok(Arc::new(Schema::new(fields)))
}

/// A row group as arrow-rs reads it, in the narrowest types.
pub(crate) fn arrow_rs(file: &Bytes, row_group: usize) -> parquet::errors::Result<RecordBatch> {
    arrow_rs_columns(file, row_group, None)
}

/// One of its columns, or all.
pub(crate) fn arrow_rs_columns(
    file: &Bytes,
    row_group: usize,
    only: Option<&str>,
) -> parquet::errors::Result<RecordBatch> {
    let schema = narrow_schema(file)?;
    let options = ArrowReaderOptions::new().with_schema(Arc::clone(&schema));
    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(file.clone(), options)?;
    let mask = match only {
        Some(name) => ProjectionMask::columns(builder.parquet_schema(), [name]),
        None => ProjectionMask::all(),
    };
    let reader = builder.with_projection(mask).with_row_groups(vec![row_group]).with_batch_size(1 << 20).build()?;
    let schema = RecordBatchReader::schema(&reader);
    let batches = reader.collect::<Result<Vec<_>, _>>()?;
    Ok(concat_batches(&schema, &batches)?)
}

/// What this crate reads, as one flat batch.
pub(crate) fn ours(
    file: &Bytes,
    row_group: usize,
    form: Form,
    selection: Option<&Selection>,
    batch_rows: usize,
    options: &ReadOptions,
) -> weld_parquet::Result<RecordBatch> {
    ours_columns(file, row_group, None, form, selection, batch_rows, options)
}

/// One of its columns, or all.
pub(crate) fn ours_columns(
    file: &Bytes,
    row_group: usize,
    only: Option<&str>,
    form: Form,
    selection: Option<&Selection>,
    batch_rows: usize,
    options: &ReadOptions,
) -> weld_parquet::Result<RecordBatch> {
    let metadata = metadata(file)?;
    let loaded = ArrowReaderMetadata::try_new(Arc::clone(&metadata), ArrowReaderOptions::new())?;
    let columns = loaded.schema().fields().iter();
    let columns = columns.filter(|f| only.is_none_or(|only| only == f.name()));
    let columns = columns.map(|f| ScanColumn::new(f.name(), form)).collect();
    let mut scan = RowGroupScan::new(metadata, row_group, columns, options)?;
    if let Some(selection) = selection {
        scan.select(selection.clone())?;
    }
    // Only what the scan says it needs.
    let needed = scan.column_ranges()?;
    let whole = FileRanges::whole(file.clone());
    let ranges = FileRanges::new(needed.into_iter().filter_map(|r| Some((r.start, whole.get(r)?))));
    let mut batches = vec![];
    let mut rows = 0;
    for batch in scan.batches(&ranges, batch_rows)? {
        let batch = batch?;
        assert!(batch.num_rows() <= batch_rows);
        rows += batch.num_rows();
        for column in batch.columns() {
            // Everything that was built without checks is checked here.
            column.to_data().validate_full()?;
        }
        batches.push(flatten(&batch)?);
    }
    match batches.first() {
        Some(first) => Ok(concat_batches(&first.schema(), &batches)?),
        None => {
            assert_eq!(rows, 0);
            let schema = narrow_schema(file)?;
            let kept = schema.fields().iter().filter(|f| only.is_none_or(|only| only == f.name())).cloned();
            Ok(RecordBatch::new_empty(Arc::new(Schema::new(kept.collect::<Vec<_>>()))))
        }
    }
}

/// Dictionary arrays as values.
pub(crate) fn flatten(batch: &RecordBatch) -> Result<RecordBatch, arrow::error::ArrowError> {
    let columns: Vec<ArrayRef> = batch
        .columns()
        .iter()
        .map(|column| match column.as_any_dictionary_opt() {
            Some(dictionary) => arrow::compute::take(dictionary.values(), dictionary.keys(), None),
            None => Ok(Arc::clone(column)),
        })
        .collect::<Result<_, _>>()?;
    let fields: Vec<Field> = batch
        .schema()
        .fields()
        .iter()
        .zip(&columns)
        .map(|(f, c)| f.as_ref().clone().with_data_type(c.data_type().clone()))
        .collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

/// Rows of `batch` by selection.
pub(crate) fn select(batch: &RecordBatch, selection: &Selection) -> RecordBatch {
    match selection {
        Selection::All(_) => batch.clone(),
        Selection::Rows(rows) => {
            let mut mask = BooleanBufferBuilder::new(batch.num_rows());
            mask.append_n(batch.num_rows(), false);
            rows.iter().for_each(|&row| mask.set_bit(row as usize, true));
            filter_record_batch(batch, &BooleanArray::new(mask.finish(), None)).unwrap()
        }
    }
}

/// Panics with the first column that differs.
pub(crate) fn assert_same(ours: &RecordBatch, theirs: &RecordBatch, what: &str) {
    assert_eq!(ours.num_rows(), theirs.num_rows(), "{what}");
    for (index, field) in theirs.schema().fields().iter().enumerate() {
        let (a, b) = (ours.column(index), theirs.column(index));
        assert_eq!(a.data_type(), b.data_type(), "{what}: {field}");
        if a != b {
            let row = (0..a.len()).find(|&i| a.slice(i, 1) != b.slice(i, 1));
            panic!("{what}: {field} differs at row {row:?}");
        }
    }
}
