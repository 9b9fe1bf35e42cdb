//! A column that this crate does not decode, read by arrow-rs from the same bytes and rows.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, make_array, new_empty_array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowGroups, RowSelection};
use parquet::arrow::{FieldLevels, ProjectionMask, parquet_to_arrow_field_levels};
use parquet::column::page::{PageIterator, PageReader};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;

use crate::error::{Error, Result};
use crate::pages::{FileRanges, chunk_range};
use crate::scan::{ScanColumn, field_at, hinted, leaves_at};
use crate::selection::Selection;

/// One column's arrays, from arrow-rs.
pub(crate) struct ArrowColumn {
    reader: ParquetRecordBatchReader,
    data_type: DataType,
    /// The way from the top-level column to this one.
    fields: Vec<String>,
    levels: FieldLevels,
    group: OneGroup,
    batch_rows: usize,
}

impl std::fmt::Debug for ArrowColumn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArrowColumn").field("data_type", &self.data_type).finish_non_exhaustive()
    }
}

impl ArrowColumn {
    /// Reads the leaves of `column` alone; `schema` is the file's.
    pub(crate) fn open(
        group: OneGroup,
        schema: &Schema,
        column: &ScanColumn,
        selection: &Selection,
        batch_rows: usize,
    ) -> Result<Self> {
        let (parts, wanted) = (column.path.parts(), column.data_type.as_ref());
        let hint = |field: &FieldRef| match parts.split_first() {
            Some((name, rest)) if name == field.name() => hinted_at(field, rest, wanted),
            _ => Arc::clone(field),
        };
        let hints: Fields = schema.fields().iter().map(hint).collect();
        let descriptor = group.metadata.file_metadata().schema_descr();
        let mask = ProjectionMask::leaves(descriptor, leaves_at(&group.metadata, &column.path));
        let levels = parquet_to_arrow_field_levels(descriptor, mask, Some(&hints))?;
        let reader = group.reader(&levels, batch_rows, selection)?;
        let read = arrow::array::RecordBatchReader::schema(&reader);
        let data_type = field_at(&read, &column.path)?.data_type().clone();
        let fields = parts.iter().skip(1).cloned().collect();
        Ok(Self { reader, data_type, fields, levels, group, batch_rows })
    }

    pub(crate) fn data_type(&self) -> DataType {
        self.data_type.clone()
    }

    /// The next `rows` selected rows: as many as the batches are long.
    pub(crate) fn read(&mut self, rows: usize) -> Result<ArrayRef> {
        if rows == 0 {
            return Ok(new_empty_array(&self.data_type));
        }
        let batch = match guarded(|| self.reader.next().transpose())?? {
            Some(batch) if batch.num_rows() == rows => batch,
            _ => return Err(Error::Corrupt("a column has fewer rows than its row group".into())),
        };
        self.fields.iter().try_fold(Arc::clone(batch.column(0)), |column, name| field_of(column, name))
    }

    /// Reads these rows next, in the place of those that are left. arrow-rs begins anew, and passes over what is before
    /// them.
    pub(crate) fn select(&mut self, selection: &Selection) -> Result<()> {
        self.reader = self.group.reader(&self.levels, self.batch_rows, selection)?;
        Ok(())
    }
}

/// The field of a struct, null where the struct is.
fn field_of(column: ArrayRef, name: &str) -> Result<ArrayRef> {
    let group = column.as_struct_opt();
    let Some((group, (at, field))) = group.and_then(|group| Some((group, group.fields().find(name)?))) else {
        return Err(Error::Corrupt("a struct without its field".into()));
    };
    let values = group.column(at);
    match group.nulls() {
        // arrow-rs leaves anything in a required field of a null struct.
        Some(nulls) if !field.is_nullable() => {
            let nulls = NullBuffer::union(Some(nulls), values.nulls());
            Ok(make_array(values.to_data().into_builder().nulls(nulls).build()?))
        }
        _ => Ok(Arc::clone(values)),
    }
}

/// The field with a hint of the type of what is below it at `path`.
fn hinted_at(field: &FieldRef, path: &[String], data_type: Option<&DataType>) -> FieldRef {
    let Some((name, rest)) = path.split_first() else { return Arc::new(hinted(field, data_type)) };
    let DataType::Struct(fields) = field.data_type() else { return Arc::clone(field) };
    let below = |field: &FieldRef| match field.name() == name {
        true => hinted_at(field, rest, data_type),
        false => Arc::clone(field),
    };
    let fields = DataType::Struct(fields.iter().map(below).collect());
    Arc::new(Field::clone(field).with_data_type(fields))
}

/// arrow-rs panics on some damage to nested columns: here that is an error like any other. The reader
/// is not used again, since its batch is the iterator's last.
fn guarded<T>(read: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(read)).map_err(|_| Error::Corrupt("arrow-rs panicked on a column".into()))
}

/// A row group in fetched ranges.
pub(crate) struct OneGroup {
    metadata: Arc<ParquetMetaData>,
    row_group: usize,
    ranges: FileRanges,
}

impl OneGroup {
    pub(crate) fn new(metadata: &Arc<ParquetMetaData>, row_group: usize, ranges: &FileRanges) -> Result<Self> {
        // An out-of-range chunk would be a panic inside.
        for chunk in metadata.row_group(row_group).columns() {
            chunk_range(chunk)?;
        }
        Ok(Self { metadata: Arc::clone(metadata), row_group, ranges: ranges.clone() })
    }

    fn reader(
        &self,
        levels: &FieldLevels,
        batch_rows: usize,
        selection: &Selection,
    ) -> Result<ParquetRecordBatchReader> {
        let rows = match selection {
            Selection::All(_) => None,
            Selection::Rows(rows) => {
                let runs = rows.chunk_by(|a, b| a + 1 == *b).map(|run| run[0] as usize..run[0] as usize + run.len());
                Some(RowSelection::from_consecutive_ranges(runs, self.num_rows()))
            }
        };
        let open = || ParquetRecordBatchReader::try_new_with_row_groups(levels, self, batch_rows, rows);
        Ok(guarded(open)??)
    }
}

impl RowGroups for OneGroup {
    fn num_rows(&self) -> usize {
        self.metadata.row_group(self.row_group).num_rows().max(0) as usize
    }

    fn column_chunks(&self, leaf: usize) -> ParquetResult<Box<dyn PageIterator>> {
        let chunk = self.metadata.row_group(self.row_group).column(leaf);
        let reader = Arc::new(RangesReader(self.ranges.clone()));
        let pages = SerializedPageReader::new(reader, chunk, self.num_rows(), None)?;
        Ok(Box::new(OneChunk(Some(Box::new(pages)))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.metadata.row_group(self.row_group)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

struct OneChunk(Option<Box<dyn PageReader>>);

impl Iterator for OneChunk {
    type Item = ParquetResult<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(Ok)
    }
}

impl PageIterator for OneChunk {}

/// The fetched ranges as a file with holes.
struct RangesReader(FileRanges);

impl Length for RangesReader {
    fn len(&self) -> u64 {
        self.0.end()
    }
}

impl ChunkReader for RangesReader {
    type T = Cursor<Bytes>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        match self.0.from(start) {
            Some(bytes) => Ok(Cursor::new(bytes)),
            None => Err(ParquetError::EOF(format!("nothing was fetched at {start}"))),
        }
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        match start.checked_add(length as u64).and_then(|end| self.0.get(start..end)) {
            Some(bytes) => Ok(bytes),
            None => Err(ParquetError::EOF(format!("{length} bytes at {start} were not fetched"))),
        }
    }
}
