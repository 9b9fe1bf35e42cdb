//! The TPC-H tables as Parquet files, laid out as tpchgen-cli does by default.
//!
//! One file a table, Snappy, all columns dictionary-encoded where it pays (the writer's default), row groups of about
//! 7 MiB: the generator makes a table in parts, and each part becomes a row group. Files are written in a folder
//! beside the target, which takes the target's name when it is complete: an interrupted run leaves no half table. What it
//! leaves of that folder the next run removes.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::arrow::record_batch::RecordBatchReader;
use indicatif::{ProgressBar, ProgressStyle};
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::arrow::{ArrowSchemaConverter, PARQUET_FIELD_ID_META_KEY, add_encoded_arrow_schema_to_metadata};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use tpchgen::generators as rows;

use crate::failure::{Doing, Failure, Result};

pub(super) const TABLES: [&str; 8] =
    ["region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem"];

/// Row groups hold about this many bytes, encoded.
const ROW_GROUP_BYTES: i64 = 7 << 20;

/// Makes the files unless they are there.
pub(super) fn ensure(folder: &Path, scale_factor: f64) -> Result<()> {
    let shown = folder.display();
    let Some(missing) = missing(folder) else { return Ok(()) };
    let is_empty = match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => return Err(Failure::new(format!("cannot read {shown}: {error}"))),
    };
    if !is_empty {
        // Somebody's files: neither to be overwritten nor to be completed by guessing their scale factor.
        return Err(Failure::new(format!("{shown} holds files, but no {missing}.parquet")));
    }
    generate(folder, scale_factor).doing(format_args!("cannot write {shown}"))
}

fn missing(folder: &Path) -> Option<&'static str> {
    TABLES.into_iter().find(|table| !file(folder, table).exists())
}

pub(super) fn file(folder: &Path, table: &str) -> std::path::PathBuf {
    folder.join(format!("{table}.parquet"))
}

fn generate(folder: &Path, scale_factor: f64) -> parquet::errors::Result<()> {
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(parent)?;
    remove_abandoned(parent);
    let prefix = format!("{UNFINISHED}{}-", std::process::id());
    let unfinished = tempfile::Builder::new().prefix(&prefix).tempdir_in(parent)?;
    let parts: i32 = TABLES.iter().map(|table| part_count(table, scale_factor)).sum();
    let progress = progress_bar(parts as u64);
    eprintln!("Making TPC-H data of scale factor {scale_factor} in {}", folder.display());
    for table in TABLES {
        progress.set_message(table);
        write_table(&file(unfinished.path(), table), table, scale_factor, &progress)?;
    }
    progress.finish_and_clear();
    match fs::rename(unfinished.path(), folder) {
        // Nothing is left to clean up.
        Ok(()) => drop(unfinished.keep()),
        // Another process was faster.
        Err(_) if missing(folder).is_none() => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// How the names of folders that are being filled begin; the number of the process that does follows.
const UNFINISHED: &str = ".tpch-";

/// Removes what processes that were interrupted have left. What cannot be removed is in nobody's way.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process =
            name.to_str().and_then(|name| name.strip_prefix(UNFINISHED)?.split_once('-')?.0.parse::<u32>().ok());
        let is_abandoned =
            |process: u32| Path::new("/proc/self").exists() && !Path::new(&format!("/proc/{process}")).exists();
        if process.is_some_and(is_abandoned) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn progress_bar(parts: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:10} {wide_bar} {pos}/{len} row groups, {eta} left");
    ProgressBar::new(parts).with_style(style.expect("the template is a constant that parses"))
}

/// Encodes row groups on all cores, a few at a time, and appends them in order.
fn write_table(path: &Path, table: &str, scale_factor: f64, progress: &ProgressBar) -> parquet::errors::Result<()> {
    let parts = part_count(table, scale_factor);
    let schema = with_field_ids(&part(table, scale_factor, 1, parts).schema());
    let mut properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    add_encoded_arrow_schema_to_metadata(&schema, &mut properties);
    let columns = ArrowSchemaConverter::new().convert(&schema)?;
    let out = BufWriter::with_capacity(1 << 20, File::create_new(path)?);
    let mut writer = SerializedFileWriter::new(out, columns.root_schema_ptr(), Arc::new(properties))?;
    let row_groups = ArrowRowGroupWriterFactory::new(&writer, Arc::clone(&schema));

    let threads = thread::available_parallelism().map_or(1, usize::from);
    let numbers: Vec<i32> = (1..=parts).collect();
    for wave in numbers.chunks(threads) {
        let encoded = thread::scope(|scope| {
            let encode =
                |number: i32| encode_part(part(table, scale_factor, number, parts), number, &row_groups, &schema);
            let running: Vec<_> = wave.iter().map(|&number| scope.spawn(move || encode(number))).collect();
            running.into_iter().map(|thread| thread.join()).collect::<Vec<_>>()
        });
        for chunks in encoded {
            let chunks = chunks.map_err(|_| ParquetError::General(format!("the generator of {table} failed")))??;
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

fn encode_part(
    batches: Part,
    number: i32,
    row_groups: &ArrowRowGroupWriterFactory,
    schema: &Schema,
) -> parquet::errors::Result<Vec<ArrowColumnChunk>> {
    let mut writers = row_groups.create_column_writers(number as usize - 1)?;
    for batch in batches {
        let batch = batch?;
        // All columns are flat: one writer each.
        for ((writer, field), column) in writers.iter_mut().zip(schema.fields()).zip(batch.columns()) {
            for leaf in compute_leaves(field, column)? {
                writer.write(&leaf)?;
            }
        }
    }
    writers.into_iter().map(|writer| writer.close()).collect()
}

/// Columns are numbered from 1.
fn with_field_ids(schema: &Schema) -> SchemaRef {
    let with_id = |(index, field): (usize, &Arc<Field>)| {
        let id = (PARQUET_FIELD_ID_META_KEY.to_owned(), (index + 1).to_string());
        field.as_ref().clone().with_metadata([id].into())
    };
    Arc::new(Schema::new(schema.fields().iter().enumerate().map(with_id).collect::<Vec<_>>()))
}

type Part = Box<dyn RecordBatchReader + Send>;

/// Part `number` of `count` of a table, whose name is in [`TABLES`].
fn part(table: &str, scale: f64, number: i32, count: i32) -> Part {
    use tpchgen_arrow as arrow;
    match table {
        "region" => Box::new(arrow::RegionArrow::new(rows::RegionGenerator::new(scale, number, count))),
        "nation" => Box::new(arrow::NationArrow::new(rows::NationGenerator::new(scale, number, count))),
        "supplier" => Box::new(arrow::SupplierArrow::new(rows::SupplierGenerator::new(scale, number, count))),
        "customer" => Box::new(arrow::CustomerArrow::new(rows::CustomerGenerator::new(scale, number, count))),
        "part" => Box::new(arrow::PartArrow::new(rows::PartGenerator::new(scale, number, count))),
        "partsupp" => Box::new(arrow::PartSuppArrow::new(rows::PartSuppGenerator::new(scale, number, count))),
        "orders" => Box::new(arrow::OrderArrow::new(rows::OrderGenerator::new(scale, number, count))),
        _ => Box::new(arrow::LineItemArrow::new(rows::LineItemGenerator::new(scale, number, count))),
    }
}

/// How many row groups a table gets: its rows times the encoded size of a row, in units of [`ROW_GROUP_BYTES`]. The
/// sizes are tpchgen-cli's, so that the files are the ones that others measure with.
fn part_count(table: &str, scale: f64) -> i32 {
    let (rows, row_bytes) = match table {
        // These two have one part whatever the scale.
        "region" | "nation" => return 1,
        "supplier" => (rows::SupplierGenerator::calculate_row_count(scale, 1, 1), 164),
        "customer" => (rows::CustomerGenerator::calculate_row_count(scale, 1, 1), 168),
        "part" => (rows::PartGenerator::calculate_row_count(scale, 1, 1), 70),
        "partsupp" => (rows::PartSuppGenerator::calculate_row_count(scale, 1, 1), 564),
        "orders" => (rows::OrderGenerator::calculate_row_count(scale, 1, 1), 75),
        _ => (4 * rows::OrderGenerator::calculate_row_count(scale, 1, 1), 64),
    };
    // Parquet readers number row groups with 16 bits.
    (rows * row_bytes / ROW_GROUP_BYTES + 1).min(32_767) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_dead_processes_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let folder = |process: u32| parent.path().join(format!("{UNFINISHED}{process}-abc"));
        let alive = folder(std::process::id());
        // Larger than any process number.
        let abandoned = folder(u32::MAX);
        let other = parent.path().join(".tpch-mine");
        for path in [&alive, &abandoned, &other] {
            fs::create_dir(path).unwrap();
        }
        remove_abandoned(parent.path());
        assert_eq!([alive, abandoned, other].map(|path| path.exists()), [true, false, true]);
    }

    #[test]
    fn row_groups_are_those_of_tpchgen_cli() {
        let counts = TABLES.map(|table| part_count(table, 1.0));
        assert_eq!(counts, [1, 1, 1, 4, 2, 16, 16, 53]);
    }
}
