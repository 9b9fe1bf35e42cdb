//! A column that this crate does not decode, read by arrow-rs from the same bytes and rows.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{ArrayRef, new_empty_array};
use arrow::datatypes::{DataType, Fields, Schema};
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowGroups, RowSelection};
use parquet::arrow::parquet_to_arrow_field_levels;
use parquet::column::page::{PageIterator, PageReader};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;

use crate::error::{Error, Result};
use crate::pages::{FileRanges, chunk_range};
use crate::scan::{ScanColumn, hinted};
use crate::selection::Selection;

/// One column's arrays, from arrow-rs.
pub(crate) struct ArrowColumn {
    reader: ParquetRecordBatchReader,
    data_type: DataType,
}

impl std::fmt::Debug for ArrowColumn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArrowColumn").field("data_type", &self.data_type).finish()
    }
}

impl ArrowColumn {
    pub(crate) fn open(
        metadata: &Arc<ParquetMetaData>,
        row_group: usize,
        schema: &Schema,
        column: &ScanColumn,
        ranges: &FileRanges,
        selection: &Selection,
        batch_rows: usize,
    ) -> Result<Self> {
        let descriptor = metadata.file_metadata().schema_descr();
        // An out-of-range chunk would be a panic inside.
        for chunk in metadata.row_group(row_group).columns() {
            chunk_range(chunk)?;
        }
        let ScanColumn { name, data_type, .. } = column;
        let root = schema.index_of(name)?;
        let hint: Fields = schema
            .fields()
            .iter()
            .map(
                |field| {
                    if field.name() == name { Arc::new(hinted(field, data_type.as_ref())) } else { Arc::clone(field) }
                },
            )
            .collect();
        let mask = ProjectionMask::roots(descriptor, [root]);
        let levels = parquet_to_arrow_field_levels(descriptor, mask, Some(&hint))?;
        let group = OneGroup { metadata: Arc::clone(metadata), row_group, ranges: ranges.clone() };
        let rows = match selection {
            Selection::All(_) => None,
            Selection::Rows(rows) => {
                let runs = rows.chunk_by(|a, b| a + 1 == *b).map(|run| run[0] as usize..run[0] as usize + run.len());
                Some(RowSelection::from_consecutive_ranges(runs, group.num_rows()))
            }
        };
        let open = || ParquetRecordBatchReader::try_new_with_row_groups(&levels, &group, batch_rows, rows);
        let reader = guarded(open)??;
        let schema = arrow::array::RecordBatchReader::schema(&reader);
        Ok(Self { reader, data_type: schema.field(0).data_type().clone() })
    }

    pub(crate) fn data_type(&self) -> DataType {
        self.data_type.clone()
    }

    /// The next `rows` selected rows: as many as the batches are long.
    pub(crate) fn read(&mut self, rows: usize) -> Result<ArrayRef> {
        if rows == 0 {
            return Ok(new_empty_array(&self.data_type));
        }
        match guarded(|| self.reader.next().transpose())?? {
            Some(batch) if batch.num_rows() == rows => Ok(Arc::clone(batch.column(0))),
            _ => Err(Error::Corrupt("a column has fewer rows than its row group".into())),
        }
    }
}

/// arrow-rs panics on some damage to nested columns: here that is an error like any other. The reader
/// is not used again, since its batch is the iterator's last.
fn guarded<T>(read: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(read)).map_err(|_| Error::Corrupt("arrow-rs panicked on a column".into()))
}

/// A row group in fetched ranges.
struct OneGroup {
    metadata: Arc<ParquetMetaData>,
    row_group: usize,
    ranges: FileRanges,
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
