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
//! let ranges = FileRanges::whole(file);        // or fetch scan.predicate_ranges(&[&"id".into()])?
//! scan.filter(&"id".into(), &ranges, &mut |ids| gt(ids, &Int64Array::new_scalar(989)))?;
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
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use parquet::arrow::parquet_to_arrow_schema;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::schema::types::{ColumnDescPtr, ColumnPath};

use crate::column::{ColumnReader, Form, Predicate, ReadOptions};
use crate::error::{Error, Result, unsupported};
use crate::fallback::{ArrowColumn, OneGroup};
use crate::pages::{FileRanges, chunk_range};
use crate::selection::Selection;
use crate::target::Target;

/// A column to read: a top-level one, or a field of a struct.
#[derive(Debug, Clone)]
pub struct ScanColumn {
    pub(crate) path: ColumnPath,
    pub(crate) data_type: Option<DataType>,
    form: Form,
}

impl ScanColumn {
    /// The top-level column `name` in its narrowest type.
    pub fn new(name: impl Into<String>, form: Form) -> Self {
        Self::at(ColumnPath::new(vec![name.into()]), form)
    }

    /// The column at `path`, through structs alone. A row whose struct is null has null.
    pub fn at(path: ColumnPath, form: Form) -> Self {
        Self { path, data_type: None, form }
    }

    /// Where the column is.
    pub fn path(&self) -> &ColumnPath {
        &self.path
    }

    /// The column as `data_type`; where this crate cannot make it, arrow-rs tries.
    pub fn with_type(mut self, data_type: DataType) -> Self {
        self.data_type = Some(data_type);
        self
    }
}

/// arrow-rs is given the rows that are left if they are at most one in so many: it passes over each stretch of rows
/// apart, and a fifth of the rows, in the one query that was tried, took longer than all. Chosen, not measured.
const SCATTERED: usize = 8;

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
    open: HashMap<ColumnPath, ColumnReader>,
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
            field_at(&schema, &column.path)?;
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

    /// How many rows the row group has.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The rows that are left.
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// Restricts the scan to the first of the selected rows.
    pub fn limit(&mut self, rows: usize) {
        match &mut self.selection {
            Selection::All(total) if *total <= rows => {}
            Selection::All(_) => self.selection = Selection::Rows((0..rows as u32).collect()),
            Selection::Rows(selected) => selected.truncate(rows),
        }
    }

    /// Takes back what [`Self::filter`] left out, down to an earlier selection of this scan. A column that was filtered
    /// is read anew where rows taken back are on pages that the filter did not want.
    pub fn select_again(&mut self, selection: Selection) -> Result<()> {
        selection.check(self.rows)?;
        self.open.retain(|_, reader| reader.has_pages_of(&selection));
        self.selection = selection;
        Ok(())
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
    pub fn predicate_ranges(&self, columns: &[&ColumnPath]) -> Result<Vec<Range<u64>>> {
        let mut ranges = vec![];
        for path in columns {
            ranges.extend(self.ranges_of(path)?);
        }
        Ok(apart(ranges))
    }

    /// What to fetch before reading: nothing if no row is left, and with an offset index only the
    /// pages that hold rows that are.
    pub fn column_ranges(&self) -> Result<Vec<Range<u64>>> {
        let mut ranges = vec![];
        for column in self.columns.iter() {
            if !self.open.contains_key(&column.path) {
                ranges.extend(self.ranges_of(&column.path)?);
            }
        }
        Ok(apart(ranges))
    }

    /// What [`Self::column_ranges`] gives where every page has rows that are left: to fetch ahead, while nothing is
    /// known about the rows.
    pub fn unfiltered_ranges(&self) -> Result<Vec<Range<u64>>> {
        let mut ranges = vec![];
        for column in self.columns.iter().filter(|column| !self.open.contains_key(&column.path)) {
            for leaf in self.leaves_of(&column.path) {
                ranges.push(chunk_range(self.row_group().column(leaf))?);
            }
        }
        Ok(apart(ranges))
    }

    /// The leaves of a column.
    fn leaves_of(&self, path: &ColumnPath) -> Vec<usize> {
        leaves_at(&self.metadata, path)
    }

    fn ranges_of(&self, path: &ColumnPath) -> Result<Vec<Range<u64>>> {
        if self.selection.is_empty() {
            return Ok(vec![]);
        }
        let mut ranges = vec![];
        for leaf in self.leaves_of(path) {
            let whole = chunk_range(self.row_group().column(leaf))?;
            let Some(locations) = self.locations(leaf).filter(|_| self.is_decodable(path, leaf)) else {
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
    fn is_decodable(&self, path: &ColumnPath, leaf: usize) -> bool {
        let Ok((_, target)) = self.target(path) else { return false };
        self.row_group().column(leaf).encodings().all(|encoding| target.is_decodable(encoding))
    }

    fn row_group(&self) -> &RowGroupMetaData {
        self.metadata.row_group(self.row_group)
    }

    fn locations(&self, leaf: usize) -> Option<&[parquet::file::page_index::offset_index::PageLocation]> {
        let index = self.metadata.offset_index()?.get(self.row_group)?.get(leaf)?;
        Some(index.page_locations().as_slice()).filter(|locations| !locations.is_empty())
    }

    /// The leaf that a column is and the type that it is read as.
    fn target(&self, path: &ColumnPath) -> Result<(usize, Target)> {
        let leaves = self.leaves_of(path);
        let [leaf] = leaves[..] else {
            return unsupported(format!("the nested column {}", path.string()));
        };
        let column = self.metadata.file_metadata().schema_descr().column(leaf);
        if column.path() != path {
            return unsupported(format!("the nested column {}", path.string()));
        }
        let target = match self.wanted(path) {
            Some(data_type) => Target::new(&column, data_type),
            None => Target::narrowest(&column, field_at(&self.schema, path)?.data_type()),
        }?;
        Ok((leaf, target))
    }

    fn wanted(&self, path: &ColumnPath) -> Option<&DataType> {
        self.columns.iter().find(|c| c.path == *path).and_then(|c| c.data_type.as_ref())
    }

    fn reader(&self, path: &ColumnPath, ranges: &FileRanges) -> Result<ColumnReader> {
        if let Some((data_type, entries)) = self.entry_reader(path, ranges)? {
            return entries.with_dictionary_type(&data_type);
        }
        let (leaf, target) = self.target(path)?;
        let form = self.columns.iter().find(|c| c.path == *path).map_or(Form::Encoded, |c| c.form);
        self.reader_of(leaf, target, form, ranges)
    }

    /// The type of an Arrow dictionary of text or binary, and a reader of what it is made of.
    fn entry_reader(&self, path: &ColumnPath, ranges: &FileRanges) -> Result<Option<(DataType, ColumnReader)>> {
        use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
        let data_type = self.wanted(path).unwrap_or(field_at(&self.schema, path)?.data_type());
        let (DataType::Dictionary(_, entries), [leaf]) = (data_type, &self.leaves_of(path)[..]) else {
            return Ok(None);
        };
        let column = self.metadata.file_metadata().schema_descr().column(*leaf);
        let is_bytes = matches!(**entries, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView);
        if column.path() != path || !is_bytes {
            return Ok(None);
        }
        let reader = self.reader_of(*leaf, Target::narrowest(&column, entries)?, Form::Encoded, ranges)?;
        Ok(Some((data_type.clone(), reader)))
    }

    fn reader_of(&self, leaf: usize, target: Target, form: Form, ranges: &FileRanges) -> Result<ColumnReader> {
        let chunk = self.row_group().column(leaf);
        ColumnReader::open(chunk, self.rows, target, form, ranges, self.locations(leaf), &self.options)
    }

    /// Keeps the rows whose values in the column at `path` satisfy `predicate`. A dictionary's entries are judged once.
    /// `Error::Unsupported` leaves the rows as they are: filter them later. So does a filter of an Arrow dictionary
    /// that drops few, where arrow-rs reads it because not all of the chunk is codes.
    pub fn filter(&mut self, path: &ColumnPath, ranges: &FileRanges, predicate: &mut Predicate<'_>) -> Result<()> {
        if self.selection.is_empty() {
            return Ok(());
        }
        let mut reader = match self.open.remove(path) {
            Some(reader) => reader,
            None => match self.reader(path, ranges) {
                Err(Error::Unsupported(why)) => return self.filter_entries(path, ranges, predicate, why),
                reader => reader?,
            },
        };
        let read_again = self.columns.iter().any(|c| c.path == *path);
        if read_again {
            reader.keep_pages();
        }
        reader.filter_checked(predicate, &mut self.selection)?;
        if read_again {
            reader.rewind();
            self.open.insert(path.clone(), reader);
        }
        Ok(())
    }

    fn filter_entries(
        &mut self,
        path: &ColumnPath,
        ranges: &FileRanges,
        predicate: &mut Predicate<'_>,
        why: String,
    ) -> Result<()> {
        let Some((_, mut entries)) = self.entry_reader(path, ranges)? else { return Err(Error::Unsupported(why)) };
        let mut left = self.selection.clone();
        entries.filter_checked(predicate, &mut left)?;
        if left.len() <= self.selection.len() / SCATTERED {
            self.selection = left;
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
            let reader = match self.open.remove(&column.path) {
                Some(reader) => Ok(reader),
                None => self.reader(&column.path, ranges),
            };
            let source = match reader {
                Ok(reader) => Source::Own(Box::new(reader)),
                Err(Error::Unsupported(why)) => {
                    let group = OneGroup::new(&self.metadata, self.row_group, ranges)?;
                    let column = ArrowColumn::open(group, &self.schema, column, &self.selection, batch_rows)?;
                    Source::Arrow(Box::new(column), why)
                }
                Err(error) => return Err(error),
            };
            fields.push(Field::new(column.path.string(), source.data_type(), true));
            columns.push(source);
        }
        Ok(RowGroupBatches {
            schema: Arc::new(Schema::new(fields)),
            paths: self.columns,
            columns,
            selection: self.selection,
            at: 0,
            batch_rows,
        })
    }
}

/// The same bytes in ranges that do not overlap: a struct may be read beside a field of it.
fn apart(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut apart: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match apart.last_mut() {
            Some(last) if last.end > range.start => last.end = last.end.max(range.end),
            _ => apart.push(range),
        }
    }
    apart
}

/// The leaves at or below a path.
pub(crate) fn leaves_at(metadata: &ParquetMetaData, path: &ColumnPath) -> Vec<usize> {
    let columns = metadata.file_metadata().schema_descr().columns().iter();
    let is_at =
        |(leaf, column): (usize, &ColumnDescPtr)| column.path().parts().starts_with(path.parts()).then_some(leaf);
    columns.enumerate().filter_map(is_at).collect()
}

/// The field of a schema at a path through structs.
pub(crate) fn field_at<'a>(schema: &'a Schema, path: &ColumnPath) -> Result<&'a Field> {
    let below = |field: &'a FieldRef, name: &String| match field.data_type() {
        DataType::Struct(fields) => fields.find(name).map(|(_, field)| field),
        _ => None,
    };
    let field = path.parts().split_first().and_then(|(root, names)| {
        let (_, root) = schema.fields().find(root)?;
        names.iter().try_fold(root, below)
    });
    field.map(|field| &**field).ok_or_else(|| Error::Usage(format!("no column {}", path.string())))
}

#[derive(Debug)]
enum Source {
    Own(Box<ColumnReader>),
    /// Read by arrow-rs, and why.
    Arrow(Box<ArrowColumn>, String),
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
    paths: Arc<[ScanColumn]>,
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

    /// How many of them are still to be read.
    pub fn rows_left(&self) -> usize {
        self.selection.len().saturating_sub(self.at)
    }

    /// Keeps those of the rows still to be read whose values in the column at `path` satisfy `predicate`: what drops
    /// rows may have become known meanwhile. A column that is not read, or by arrow-rs, drops none.
    pub fn filter_rest(&mut self, path: &ColumnPath, predicate: &mut Predicate<'_>) -> Result<()> {
        let column = self.paths.iter().position(|column| column.path == *path);
        let Some(Source::Own(reader)) = column.and_then(|column| self.columns.get_mut(column)) else { return Ok(()) };
        let rest = match &self.selection {
            Selection::All(_) if self.at == 0 => self.selection.clone(),
            Selection::All(rows) => Selection::Rows((self.at as u32..*rows as u32).collect()),
            Selection::Rows(rows) => Selection::Rows(rows.get(self.at..).unwrap_or_default().to_vec()),
        };
        let (before, mut left) = (rest.len(), rest);
        reader.filter_ahead(predicate, &mut left)?;
        if left.len() == before {
            return Ok(());
        }
        for column in &mut self.columns {
            if let Source::Arrow(column, _) = column {
                column.select(&left)?;
            }
        }
        (self.selection, self.at) = (left, 0);
        Ok(())
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
