//! Tables as Parquet files: one or two, as different writers would write them.

use std::path::Path;

use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::{WriterProperties, WriterVersion};
use weld_test::generate::rng::Rng;

use super::tables::Table;

/// What decides how files are written; the same again gives the same files.
#[derive(Clone, Debug)]
pub(crate) struct Writing(pub(crate) Rng);

const WRITTEN_AT_ONCE: usize = 500;

pub(crate) fn write(writing: &Writing, table: &Table, folder: &Path) {
    let mut rng = writing.0.clone();
    let rng = &mut rng;
    std::fs::create_dir(folder).expect("a temporary folder is writable");
    let files = if table.batches.len() > 1 { 1 + rng.below(2) } else { 1 };
    for number in 0..files {
        let properties = properties(rng);
        let path = folder.join(format!("{number}.parquet"));
        let file = std::fs::File::create(path).expect("a temporary folder is writable");
        let schema = table.batches[0].schema();
        let mut writer = ArrowWriter::try_new(file, schema, Some(properties)).expect("types that Parquet knows");
        for batch in table.batches.iter().skip(number).step_by(files) {
            // The writer calls itself for each row group that a batch fills.
            for start in (0..batch.num_rows()).step_by(WRITTEN_AT_ONCE) {
                let rows = batch.slice(start, WRITTEN_AT_ONCE.min(batch.num_rows() - start));
                writer.write(&rows).expect("a temporary folder is writable");
            }
        }
        writer.close().expect("a temporary folder is writable");
    }
}

/// Small row groups and pages, or large ones.
fn properties(rng: &mut Rng) -> WriterProperties {
    WriterProperties::builder()
        .set_writer_version(rng.pick(&[WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0]))
        .set_dictionary_enabled(rng.one_in(2))
        .set_bloom_filter_enabled(rng.one_in(4))
        .set_max_row_group_row_count(Some(rng.pick(&[3, 50, 1_000_000])))
        .set_data_page_row_count_limit(rng.pick(&[2, 20, 20_000]))
        .set_write_batch_size(rng.pick(&[1, 1024]))
        .set_compression(rng.pick(&[Compression::UNCOMPRESSED, Compression::SNAPPY]))
        .build()
}
