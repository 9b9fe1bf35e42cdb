//! One row group, predicate columns first, as record batches of the rows that survive.
//!
//! The caller fetches bytes; the scan says which. With everything in memory already:
//!
//! ```
//! use std::sync::Arc;
//! use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
//! use arrow::compute::kernels::cmp::gt;
//! use parquet::arrow::ArrowWriter;
//! use parquet::file::metadata::ParquetMetaDataReader;
//! use weld_parquet::{FileRanges, Form, ReadOptions, RowGroupScan, ScanColumn};
//!
//! let id: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
//! let name: ArrayRef = Arc::new(StringArray::from_iter_values((0..1000).map(|i| format!("n{}", i % 10))));
//! let batch = RecordBatch::try_from_iter([("id", id), ("name", name)])?;
//! let mut file = vec![];
//! let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), None)?;
//! writer.write(&batch)?;
//! writer.close()?;
//!
//! let file = bytes::Bytes::from(file);
//! let metadata = Arc::new(ParquetMetaDataReader::new().parse_and_finish(&file)?);
//! let columns = vec![ScanColumn::new("name", Form::Encoded), ScanColumn::new("id", Form::Flat)];
//! let mut scan = RowGroupScan::new(metadata, 0, columns, &ReadOptions::default())?;
//!
//! // 1. Predicates, in the order given; each is told the values of one column.
//! let ranges = FileRanges::whole(file);        // or fetch scan.predicate_ranges(&["id"])?
//! scan.filter("id", &ranges, &mut |ids| gt(ids, &Int64Array::new_scalar(989)))?;
//! assert_eq!(scan.selection().len(), 10);
//!
//! // 2. The columns at the rows that are left.
//! let batches = scan.batches(&ranges, 8192)?;  // or fetch scan.column_ranges()? first
//! let batches = batches.collect::<Result<Vec<_>, _>>()?;
//! assert_eq!(batches[0].num_rows(), 10);
//! assert!(batches[0].column(0).data_type().to_string().starts_with("Dictionary"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::parquet_to_arrow_schema;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};

use crate::column::{ColumnReader, Form, Predicate, ReadOptions};
use crate::error::{Error, Result};
use crate::fallback::ArrowColumn;
use crate::pages::{FileRanges, chunk_range};
use crate::selection::Selection;
use crate::target::Target;

/// A top-level column to read.
#[derive(Debug, Clone)]
pub struct ScanColumn {
    pub(crate) name: String,
    pub(crate) data_type: Option<DataType>,
    form: Form,
}

impl ScanColumn {
    /// The column `name` in its narrowest type.
    pub fn new(name: impl Into<String>, form: Form) -> Self {
        Self { name: name.into(), data_type: None, form }
    }

    /// The column as `data_type`; where this crate cannot make it, arrow-rs tries.
    pub fn with_type(mut self, data_type: DataType) -> Self {
        self.data_type = Some(data_type);
        self
    }
}

/// A scan of one row group, while rows are being ruled out.
#[derive(Debug)]
pub struct RowGroupScan {
    metadata: Arc<ParquetMetaData>,
    row_group: usize,
    rows: usize,
    /// As arrow-rs reads the file.
    schema: SchemaRef,
    columns: Arc<[ScanColumn]>,
    selection: Selection,
    options: ReadOptions,
    /// Columns that predicates opened and that are read again.
    open: HashMap<String, ColumnReader>,
}

impl RowGroupScan {
    /// A scan of all rows of row group `row_group`.
    pub fn new(
        metadata: Arc<ParquetMetaData>,
        row_group: usize,
        columns: Vec<ScanColumn>,
        options: &ReadOptions,
    ) -> Result<Self> {
        let file = metadata.file_metadata();
        let schema = parquet_to_arrow_schema(file.schema_descr(), file.key_value_metadata())?;
        Self::with_schema(metadata, Arc::new(schema), row_group, columns.into(), options)
    }

    /// The same where the file's schema is known already, as arrow-rs reads it: making it takes longer than a small row
    /// group.
    pub fn with_schema(
        metadata: Arc<ParquetMetaData>,
        schema: SchemaRef,
        row_group: usize,
        columns: Arc<[ScanColumn]>,
        options: &ReadOptions,
    ) -> Result<Self> {
        if row_group >= metadata.num_row_groups() {
            return Err(Error::Usage(format!("row group {row_group} of {}", metadata.num_row_groups())));
        }
        let rows = metadata.row_group(row_group).num_rows();
        let Ok(rows) = usize::try_from(rows) else {
            return Err(Error::Corrupt(format!("a row group of {rows} rows")));
        };
        for column in columns.iter() {
            schema.index_of(&column.name)?;
        }
        Ok(Self {
            metadata,
            row_group,
            rows,
            schema,
            columns,
            selection: Selection::All(rows),
            options: options.clone(),
            open: HashMap::new(),
        })
    }

    /// The rows that are left.
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// Restricts the scan, for example to the rows that a page index leaves.
    pub fn select(&mut self, selection: Selection) -> Result<()> {
        selection.check(self.rows)?;
        self.selection = match (&self.selection, selection) {
            (Selection::All(_), new) => new,
            (_, Selection::All(_)) => return Ok(()),
            (Selection::Rows(old), Selection::Rows(new)) => {
                let mut old = old.iter().peekable();
                let both = new.into_iter().filter(|row| {
                    while old.next_if(|o| *o < row).is_some() {}
                    old.peek() == Some(&row)
                });
                Selection::Rows(both.collect())
            }
        };
        Ok(())
    }

    /// What to fetch before filtering by `columns`.
    pub fn predicate_ranges(&self, columns: &[&str]) -> Result<Vec<Range<u64>>> {
        let mut ranges = vec![];
        for name in columns {
            ranges.extend(self.ranges_of(name)?);
        }
        Ok(ranges)
    }

    /// What to fetch before reading: nothing if no row is left, and with an offset index only the
    /// pages that hold rows that are.
    pub fn column_ranges(&self) -> Result<Vec<Range<u64>>> {
        let mut ranges = vec![];
        for column in self.columns.iter() {
            if !self.open.contains_key(&column.name) {
                ranges.extend(self.ranges_of(&column.name)?);
            }
        }
        Ok(ranges)
    }

    /// What [`Self::column_ranges`] gives where every page has rows that are left: to fetch ahead, while nothing is known
    /// about the rows.
    pub fn unfiltered_ranges(&self) -> Result<Vec<Range<u64>>> {
        let mut ranges = vec![];
        for column in self.columns.iter().filter(|column| !self.open.contains_key(&column.name)) {
            for leaf in self.leaves_of(&column.name)? {
                ranges.push(chunk_range(self.row_group().column(leaf))?);
            }
        }
        Ok(ranges)
    }

    /// The leaves of a top-level column.
    fn leaves_of(&self, name: &str) -> Result<Vec<usize>> {
        let field = self.schema.index_of(name)?;
        let descriptor = self.metadata.file_metadata().schema_descr();
        Ok((0..descriptor.num_columns()).filter(|&leaf| descriptor.get_column_root_idx(leaf) == field).collect())
    }

    fn ranges_of(&self, name: &str) -> Result<Vec<Range<u64>>> {
        if self.selection.is_empty() {
            return Ok(vec![]);
        }
        let mut ranges = vec![];
        for leaf in self.leaves_of(name)? {
            let whole = chunk_range(self.row_group().column(leaf))?;
            let Some(locations) = self.locations(leaf).filter(|_| self.is_decodable(name, leaf)) else {
                ranges.push(whole);
                continue;
            };
            if let Some(first) = locations.first() {
                ranges.push(whole.start..first.offset.max(0) as u64);
            }
            for (i, location) in locations.iter().enumerate() {
                let stop = locations.get(i + 1).map_or(self.rows, |l| l.first_row_index.max(0) as usize);
                let start = (location.first_row_index.max(0) as usize).min(stop);
                if self.selection.within(start..stop).len() > 0 {
                    let at = location.offset.max(0) as u64;
                    let page = at..at.saturating_add(location.compressed_page_size.max(0) as u64);
                    // Pages side by side are one read; all of them are the whole chunk.
                    match ranges.last_mut() {
                        Some(last) if last.end == page.start => last.end = page.end,
                        _ => ranges.push(page),
                    }
                }
            }
            ranges.retain(|range| range.start < range.end);
        }
        Ok(ranges)
    }

    /// Whether this crate decodes the column, as far as the metadata tells: arrow-rs needs all pages.
    fn is_decodable(&self, name: &str, leaf: usize) -> bool {
        let Ok((_, target)) = self.target(name) else { return false };
        self.row_group().column(leaf).encodings().all(|encoding| target.is_decodable(encoding))
    }

    fn row_group(&self) -> &RowGroupMetaData {
        self.metadata.row_group(self.row_group)
    }

    fn locations(&self, leaf: usize) -> Option<&[parquet::file::page_index::offset_index::PageLocation]> {
        let index = self.metadata.offset_index()?.get(self.row_group)?.get(leaf)?;
        Some(index.page_locations().as_slice()).filter(|locations| !locations.is_empty())
    }

    /// The leaf of a flat column and the type that it is read as.
    fn target(&self, name: &str) -> Result<(usize, Target)> {
        let field = self.schema.index_of(name)?;
        let descriptor = self.metadata.file_metadata().schema_descr();
        let leaf = (0..descriptor.num_columns()).find(|&leaf| descriptor.get_column_root_idx(leaf) == field);
        let Some(leaf) = leaf else {
            return Err(Error::Unsupported(format!("the empty group {name}")));
        };
        let column = descriptor.column(leaf);
        let wanted = self.columns.iter().find(|c| c.name == name).and_then(|c| c.data_type.as_ref());
        let target = match wanted {
            Some(data_type) => Target::new(&column, data_type),
            None => Target::narrowest(&column, self.schema.field(field).data_type()),
        }?;
        Ok((leaf, target))
    }

    fn reader(&self, name: &str, ranges: &FileRanges) -> Result<ColumnReader> {
        let (leaf, target) = self.target(name)?;
        let form = self.columns.iter().find(|c| c.name == name).map_or(Form::Encoded, |c| c.form);
        let chunk = self.row_group().column(leaf);
        ColumnReader::open(chunk, self.rows, target, form, ranges, self.locations(leaf), &self.options)
    }

    /// Keeps the rows whose values in column `name` satisfy `predicate`. A dictionary's entries are
    /// judged once. `Error::Unsupported` leaves the rows as they are: filter them later.
    pub fn filter(&mut self, name: &str, ranges: &FileRanges, predicate: &mut Predicate<'_>) -> Result<()> {
        if self.selection.is_empty() {
            return Ok(());
        }
        let mut reader = match self.open.remove(name) {
            Some(reader) => reader,
            None => self.reader(name, ranges)?,
        };
        let read_again = self.columns.iter().any(|c| c.name == name);
        if read_again {
            reader.keep_pages();
        }
        reader.filter_checked(predicate, &mut self.selection)?;
        if read_again {
            reader.rewind();
            self.open.insert(name.to_string(), reader);
        }
        Ok(())
    }

    /// Reads the selected rows of all columns, `batch_rows` at a time.
    pub fn batches(self, ranges: &FileRanges, batch_rows: usize) -> Result<RowGroupBatches> {
        let mut batches = self.prepare(ranges, batch_rows)?;
        RowGroupBatches::load_dictionaries([&mut batches])?;
        Ok(batches)
    }

    /// Like [`Self::batches`], with dictionaries left for [`RowGroupBatches::load_dictionaries`].
    pub fn prepare(mut self, ranges: &FileRanges, batch_rows: usize) -> Result<RowGroupBatches> {
        let mut columns = vec![];
        let mut fields = vec![];
        let batch_rows = batch_rows.clamp(1, self.rows.max(1));
        for column in self.columns.iter() {
            if self.selection.is_empty() {
                break;
            }
            let reader = match self.open.remove(&column.name) {
                Some(reader) => Ok(reader),
                None => self.reader(&column.name, ranges),
            };
            let field = self.schema.field_with_name(&column.name)?;
            let source = match reader {
                Ok(reader) => Source::Own(Box::new(reader)),
                Err(Error::Unsupported(why)) => Source::Arrow(
                    ArrowColumn::open(
                        &self.metadata,
                        self.row_group,
                        &self.schema,
                        column,
                        ranges,
                        &self.selection,
                        batch_rows,
                    )?,
                    why,
                ),
                Err(error) => return Err(error),
            };
            fields.push(field.clone().with_data_type(source.data_type()));
            columns.push(source);
        }
        Ok(RowGroupBatches {
            schema: Arc::new(Schema::new(fields)),
            columns,
            selection: self.selection,
            at: 0,
            batch_rows,
        })
    }
}

#[derive(Debug)]
enum Source {
    Own(Box<ColumnReader>),
    /// Read by arrow-rs, and why.
    Arrow(ArrowColumn, String),
}

impl Source {
    fn data_type(&self) -> DataType {
        match self {
            Source::Own(reader) => reader.data_type(),
            Source::Arrow(column, _) => column.data_type(),
        }
    }

    fn read(&mut self, selection: &Selection, positions: Range<usize>) -> Result<ArrayRef> {
        match self {
            Source::Own(reader) => reader.read(selection, positions),
            Source::Arrow(column, _) => column.read(positions.len()),
        }
    }
}

/// The batches of one row group; an iterator.
#[derive(Debug)]
pub struct RowGroupBatches {
    schema: SchemaRef,
    columns: Vec<Source>,
    selection: Selection,
    at: usize,
    batch_rows: usize,
}

impl RowGroupBatches {
    /// The schema of the batches of this row group: dictionary arrays where chunks are coded.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// How many rows of the row group are selected.
    pub fn rows(&self) -> usize {
        self.selection.len()
    }

    /// The columns that arrow-rs reads, and why.
    pub fn declined(&self) -> impl Iterator<Item = (&str, &str)> {
        self.schema.fields().iter().zip(&self.columns).filter_map(|(field, column)| match column {
            Source::Arrow(_, why) => Some((field.name().as_str(), why.as_str())),
            Source::Own(_) => None,
        })
    }

    /// Loads the dictionaries of several row groups together. Two that are decompressed in turn
    /// take much less than twice the time of one: hold the next row group ready.
    pub fn load_dictionaries<'a>(groups: impl IntoIterator<Item = &'a mut RowGroupBatches>) -> Result<()> {
        let columns = groups.into_iter().flat_map(|group| &mut group.columns);
        ColumnReader::load_dictionaries(columns.filter_map(|column| match column {
            Source::Own(reader) => Some(&mut **reader),
            Source::Arrow(..) => None,
        }))
    }

    fn next_batch(&mut self) -> Result<RecordBatch> {
        let stop = self.selection.len().min(self.at + self.batch_rows);
        let positions = self.at..stop;
        self.at = stop;
        let mut arrays = Vec::with_capacity(self.columns.len());
        for column in &mut self.columns {
            arrays.push(column.read(&self.selection, positions.clone())?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(positions.len()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?)
    }
}

impl Iterator for RowGroupBatches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.selection.len() {
            return None;
        }
        let batch = self.next_batch();
        if batch.is_err() {
            self.at = usize::MAX;
        }
        Some(batch)
    }
}

/// The field of a batch, as this crate types it.
pub(crate) fn hinted(field: &Field, data_type: Option<&DataType>) -> Field {
    let hint = match (data_type, field.data_type()) {
        // arrow-rs takes a hint of another scale and keeps the digits.
        (Some(wanted), own) if scale(wanted) != scale(own) => own.clone(),
        (Some(data_type), _) => data_type.clone(),
        (None, DataType::Utf8 | DataType::LargeUtf8) => DataType::Utf8View,
        (None, DataType::Binary | DataType::LargeBinary) => DataType::BinaryView,
        (None, other) => other.clone(),
    };
    field.clone().with_data_type(hint)
}

fn scale(data_type: &DataType) -> Option<i8> {
    match data_type {
        DataType::Decimal32(_, s) | DataType::Decimal64(_, s) | DataType::Decimal128(_, s) => Some(*s),
        DataType::Decimal256(_, s) => Some(*s),
        _ => None,
    }
}
