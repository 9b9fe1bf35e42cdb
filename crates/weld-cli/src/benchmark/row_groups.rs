//! Writes a table as Parquet, its row groups made and encoded on all cores, a few at a time, and appended in order.
//!
//! The files are those of parquet's `ArrowWriter` with its defaults and Snappy; which rows a row group has, the caller
//! says.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use indicatif::ProgressBar;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::arrow::{ArrowSchemaConverter, add_encoded_arrow_schema_to_metadata};
use parquet::basic::Compression;
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;

/// As many rows as `ArrowWriter` puts into a row group.
pub(super) const ROWS: u64 = 1 << 20;

/// How many row groups of [`ROWS`] rows there are.
pub(super) fn count(rows: u64) -> u64 {
    rows.div_ceil(ROWS)
}

/// Writes `count` row groups; `make` gives the batches of one, by its number from 0. All columns are flat.
pub(super) fn write<Batches>(
    path: &Path,
    schema: &SchemaRef,
    count: usize,
    make: impl Fn(usize) -> Batches + Sync,
    progress: &ProgressBar,
) -> Result<()>
where
    Batches: Iterator<Item = std::result::Result<RecordBatch, ArrowError>>,
{
    let mut properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    add_encoded_arrow_schema_to_metadata(schema, &mut properties);
    let columns = ArrowSchemaConverter::new().convert(schema)?;
    let out = BufWriter::with_capacity(1 << 20, File::create_new(path)?);
    let mut writer = SerializedFileWriter::new(out, columns.root_schema_ptr(), Arc::new(properties))?;
    let row_groups = ArrowRowGroupWriterFactory::new(&writer, Arc::clone(schema));

    let threads = thread::available_parallelism().map_or(1, usize::from);
    let numbers: Vec<usize> = (0..count).collect();
    for wave in numbers.chunks(threads) {
        let encoded = thread::scope(|scope| {
            let encode = |number: usize| encode(make(number), number, &row_groups, schema);
            let running: Vec<_> = wave.iter().map(|&number| scope.spawn(move || encode(number))).collect();
            running.into_iter().map(|thread| thread.join()).collect::<Vec<_>>()
        });
        for chunks in encoded {
            let failed = |_| ParquetError::General(format!("the generator of {} failed", path.display()));
            let chunks = chunks.map_err(failed)??;
            let mut row_group = writer.next_row_group()?;
            for chunk in chunks {
                chunk.append_to_row_group(&mut row_group)?;
            }
            row_group.close()?;
            progress.inc(1);
        }
    }
    writer.into_inner()?.into_inner().map_err(|error| error.into_error())?.sync_all()?;
    Ok(())
}

fn encode(
    batches: impl Iterator<Item = std::result::Result<RecordBatch, ArrowError>>,
    number: usize,
    row_groups: &ArrowRowGroupWriterFactory,
    schema: &SchemaRef,
) -> Result<Vec<ArrowColumnChunk>> {
    let mut writers = row_groups.create_column_writers(number)?;
    for batch in batches {
        let batch = batch?;
        for ((writer, field), column) in writers.iter_mut().zip(schema.fields()).zip(batch.columns()) {
            for leaf in compute_leaves(field, column)? {
                writer.write(&leaf)?;
            }
        }
    }
    writers.into_iter().map(|writer| writer.close()).collect()
}
