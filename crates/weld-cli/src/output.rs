//! Results on standard output: a table for people, CSV or JSON for scripts.
//!
//! Writing never panics: a reader that goes away (`weld sql ... | head`) ends the command quietly.

use std::io::{self, Write};
use std::sync::Arc;

use clap::ValueEnum;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches_with_schema;
use datafusion::arrow::{csv, json};
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;

use crate::failure::Result;

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Format {
    /// Lines and columns for reading
    Table,
    /// A header, then one line a row
    Csv,
    /// One object a row, one row a line
    Json,
}

/// Prints text as it is.
pub(crate) fn print(text: &str) -> Result<()> {
    write(text.as_bytes())
}

fn write(bytes: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    Ok(out.flush()?)
}

/// Prints one line.
pub(crate) fn line(text: &str) -> Result<()> {
    print(&format!("{text}\n"))
}

/// Prints a query's result; CSV and JSON as it arrives. Gives the number of rows.
pub(crate) async fn rows(mut stream: SendableRecordBatchStream, format: Format) -> Result<usize> {
    let schema = stream.schema();
    let mut rows = 0;
    // Column widths depend on every row.
    let mut table = Vec::new();
    // The header waits for the first rows, so that a query that fails before them prints nothing.
    let mut header = !schema.fields().is_empty();
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        rows += batch.num_rows();
        match format {
            Format::Table => table.push(batch),
            Format::Csv => write(&csv(&batch, std::mem::take(&mut header))?)?,
            Format::Json => write(&json(&batch)?)?,
        }
    }
    if format == Format::Csv && header {
        write(&csv(&RecordBatch::new_empty(Arc::clone(&schema)), true)?)?;
    }
    // A statement such as SET has no columns: nothing to show.
    if format == Format::Table && !schema.fields().is_empty() {
        line(&pretty_format_batches_with_schema(schema, &table)?.to_string())?;
    }
    Ok(rows)
}

// Batches are encoded in memory: arrow's writers would make a text of what goes wrong with the output.

fn csv(batch: &RecordBatch, header: bool) -> Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().with_header(header).build(Vec::new());
    writer.write(batch)?;
    Ok(writer.into_inner())
}

fn json(batch: &RecordBatch) -> Result<Vec<u8>> {
    let mut writer = json::LineDelimitedWriter::new(Vec::new());
    writer.write(batch)?;
    writer.finish()?;
    Ok(writer.into_inner())
}
