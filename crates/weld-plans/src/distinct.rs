//! How many distinct values a column of texts has, by the sizes of its dictionaries in Parquet files.
//!
//! ```text
//! ca_county   50,000 values in 84 KB of codes and about 21 KB of dictionary (18 KB in the file)
//!             13.4 bits a code: 11,000 values; the dictionary has room for 4,195           1,846 in truth
//! ```
//! Files say how many bytes a column takes, not how many values it has. But a code takes as many bits as the number of
//! entries needs, and each entry takes its length of four bytes and its text. Of 174 columns of texts of TPC-DS and
//! TPC-H (scale factor 1) this gives 114 within a factor of two and 141 within three; most of the others are in tables
//! of 5 and 12 rows, where headers of pages count. Where the dictionary became too large, hardly anything is known:
//! seven such columns have 1.3 to 62 times as many texts as is taken, nearly as many as rows; others have a few texts
//! in most rows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig};
use datafusion::parquet::basic::{Encoding, Type};
use datafusion::parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column};

use crate::footers::footers;
use crate::ranges::Reading;

/// Footers of more files are not looked at.
const FILES_MAX: usize = 4;

/// When so many files are remembered, all are forgotten.
const REMEMBERED_MAX: usize = 1024;

/// An entry has its length in four bytes, and a text: of a byte at least, of this many as a rule.
const ENTRY_BYTES_MIN: f64 = 5.0;
const ENTRY_BYTES: f64 = 24.0;

/// Dictionaries are compressed: their size is known as it is in the file, and for the whole column what compression
/// saves.
const COMPRESSION_MAX: f64 = 4.0;

/// Where so large a part of the values are distinct, each row has one of its own. Of a row group, that is taken for the
/// table.
pub(crate) const UNIQUE_SHARE: f64 = 0.9;

/// The share of rows that are most of them.
const MOST: f64 = 0.75;

/// Codes of more bits are values, at least in part: their dictionary became too large.
const BITS_OF_CODE_MAX: f64 = 24.0;

/// What was found of files, by where they are, their size and their time.
#[derive(Debug, Default)]
pub(crate) struct DistinctTexts(Mutex<HashMap<(String, u64, i64), Arc<HashMap<String, f64>>>>);

impl DistinctTexts {
    /// Of a column of the source's output; infinitely many where every row has a value of its own.
    pub(crate) fn of(&self, config: &FileScanConfig, column: usize, reading: Reading) -> Option<f64> {
        let column = match config.file_source().projection() {
            Some(projection) => text_column(&projection.iter().nth(column)?.expr)?.index(),
            None => column,
        };
        let schema = config.file_source().table_schema().file_schema();
        self.of_files(config, reading)?.get(schema.fields().get(column)?.name()).copied()
    }

    fn of_files(&self, config: &FileScanConfig, reading: Reading) -> Option<Arc<HashMap<String, f64>>> {
        let first = &config.file_groups.iter().flat_map(FileGroup::iter).next()?.object_meta;
        let key = (first.location.to_string(), first.size, first.last_modified.timestamp_millis());
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known().get(&key) {
            return Some(Arc::clone(found));
        }
        if reading == Reading::Nothing {
            return None;
        }
        let found = Arc::new(in_files(&footers(config, FILES_MAX)?));
        let mut known = known();
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.insert(key, Arc::clone(&found));
        Some(found)
    }
}

/// The column that an expression is, maybe as text of another type.
pub fn text_column(expr: &Arc<dyn PhysicalExpr>) -> Option<&Column> {
    match expr.downcast_ref::<CastExpr>() {
        Some(cast) if cast.cast_type().is_string() => cast.expr().downcast_ref::<Column>(),
        _ => expr.downcast_ref::<Column>(),
    }
}

/// For each column of texts the most that a row group has; none where a row group has texts without a dictionary.
fn in_files(footers: &[Arc<ParquetMetaData>]) -> HashMap<String, f64> {
    let mut found: HashMap<String, Option<f64>> = HashMap::new();
    let chunks = footers.iter().flat_map(|footer| footer.row_groups()).flat_map(|group| group.columns());
    for chunk in chunks.filter(|chunk| chunk.column_type() == Type::BYTE_ARRAY) {
        let here = in_chunk(chunk);
        let most = found.entry(chunk.column_path().string()).or_insert(Some(0.0));
        *most = most.zip(here).map(|(most, here)| most.max(here));
    }
    found.into_iter().filter_map(|(name, most)| Some((name, most.filter(|most| *most >= 1.0)?))).collect()
}

/// Whether most rows of a column of texts are in row groups whose dictionaries have them all, and an entry for so many
/// rows at most.
pub fn has_few_texts(footers: &[Arc<ParquetMetaData>], column: &str, rows_per_entry: usize) -> bool {
    let groups = footers.iter().flat_map(|footer| footer.row_groups());
    let (mut all, mut few) = (0.0, 0.0);
    for group in groups {
        let is_it = |chunk: &&ColumnChunkMetaData| {
            chunk.column_type() == Type::BYTE_ARRAY && chunk.column_path().parts() == [column]
        };
        let chunk = group.columns().iter().find(is_it);
        let rows = group.num_rows().max(0) as f64;
        all += rows;
        if let Some(Texts { entries, is_whole: true }) = chunk.and_then(texts_of)
            && entries * rows_per_entry as f64 <= rows
        {
            few += rows;
        }
    }
    few > all * MOST
}

/// What a chunk is taken to have.
struct Texts {
    entries: f64,
    /// Whether the dictionary has all of them.
    is_whole: bool,
}

fn in_chunk(chunk: &ColumnChunkMetaData) -> Option<f64> {
    let values = chunk.num_values().max(0) as f64;
    let Texts { entries, is_whole } = texts_of(chunk)?;
    Some(if is_whole && entries >= UNIQUE_SHARE * values { f64::INFINITY } else { entries })
}

fn texts_of(chunk: &ColumnChunkMetaData) -> Option<Texts> {
    let values = chunk.num_values().max(0) as f64;
    let (compressed, size) = (chunk.compressed_size() as f64, chunk.uncompressed_size() as f64);
    let stored = chunk.data_page_offset().checked_sub(chunk.dictionary_page_offset()?)? as f64;
    let is_sane = stored > 0.0 && compressed >= stored && size > 0.0;
    if values < 1.0 || !is_sane {
        return None;
    }
    let dictionary = (stored * (size / compressed).clamp(1.0, COMPRESSION_MAX)).min(size);
    let bits_of_code = 8.0 * (size - dictionary) / values;
    if bits_of_code > BITS_OF_CODE_MAX || has_plain_pages(chunk) {
        // All that did not fit may be repetitions, or one of a kind.
        let entries = (8.0 * dictionary / bits_of_code).clamp(1.0, values);
        return Some(Texts { entries: (entries * values).sqrt(), is_whole: false });
    }
    let by_codes = bits_of_code.exp2();
    let entries = by_codes.max(dictionary / ENTRY_BYTES).min(dictionary / ENTRY_BYTES_MIN).max(1.0);
    Some(Texts { entries, is_whole: true })
}

/// Whether some pages are known to have values instead of codes: writers go on so when a dictionary has become too
/// large.
fn has_plain_pages(chunk: &ColumnChunkMetaData) -> bool {
    let is_code = |encoding| matches!(encoding, Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY);
    chunk.page_encoding_stats_mask().is_some_and(|pages| pages.encodings().any(|encoding| !is_code(encoding)))
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, RecordBatch, StringArray};
    use datafusion::parquet::arrow::ArrowWriter;
    use datafusion::parquet::basic::Compression;
    use datafusion::parquet::file::properties::WriterProperties;

    use super::*;

    const ROWS: u64 = 50_000;

    /// The headers of pages are as large as so small a dictionary.
    const FEW: f64 = 10.0;

    /// What is found of a column of `ROWS` values.
    fn found(value: impl Fn(u64) -> Option<String>, properties: WriterProperties) -> Option<f64> {
        let values: ArrayRef = Arc::new((0..ROWS).map(value).collect::<StringArray>());
        let batch = RecordBatch::try_from_iter([("a", values)]).expect("one column");
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).expect("texts");
        writer.write(&batch).expect("memory takes it");
        in_files(&[Arc::new(writer.close().expect("memory takes it"))]).get("a").copied()
    }

    #[test]
    fn few_texts_have_a_dictionary_of_their_own() {
        let few = |distinct: u64, properties: WriterProperties, rows_per_entry| {
            let values: ArrayRef =
                Arc::new((0..ROWS).map(|row| Some(format!("text {}", row % distinct))).collect::<StringArray>());
            let batch = RecordBatch::try_from_iter([("a", values)]).expect("one column");
            let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).expect("texts");
            writer.write(&batch).expect("memory takes it");
            let footers = [Arc::new(writer.close().expect("memory takes it"))];
            assert!(!has_few_texts(&footers, "b", rows_per_entry));
            has_few_texts(&footers, "a", rows_per_entry)
        };
        let properties = WriterProperties::builder;
        assert!(few(100, properties().build(), 4));
        assert!(!few(100, properties().build(), 10_000));
        assert!(!few(ROWS, properties().build(), 4));
        assert!(!few(100, properties().set_dictionary_enabled(false).build(), 4));
        let small = properties().set_dictionary_page_size_limit(64).set_write_batch_size(50);
        assert!(!few(100, small.build(), 4));
    }

    #[test]
    fn texts_are_counted_within_a_factor_of_three() {
        for compression in [Compression::SNAPPY, Compression::UNCOMPRESSED] {
            let properties = || WriterProperties::builder().set_compression(compression).build();
            for distinct in [2, 7, 100, 1846, 5000] {
                let shuffled = |row: u64| row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
                let texts = |row| format!("a county named {}", shuffled(row) % distinct);
                for texts in [&(|row| Some(texts(row))) as &dyn Fn(u64) -> _, &|row| (row % 9 > 0).then(|| texts(row))]
                {
                    let found = found(texts, properties()).expect("a dictionary");
                    let factor = (found / distinct as f64).max(distinct as f64 / found);
                    assert!(factor < 3.0 || found < FEW, "{found} for {distinct}, {compression}");
                }
                // Runs take no bits for each value, but entries their place.
                let sorted = found(|row| Some(format!("a county named {:05}", row * distinct / ROWS)), properties());
                let sorted = sorted.expect("a dictionary");
                let is_near = sorted >= 0.1 * distinct as f64 && sorted <= 5.0 * distinct as f64;
                assert!(is_near || sorted < FEW, "{sorted} for {distinct}");
            }
            let found = found(|row| Some(format!("{row}")), properties()).expect("a dictionary");
            assert!(found > 0.3 * ROWS as f64, "{found}");
        }
    }

    #[test]
    fn without_texts_or_dictionary_nothing_is_known() {
        assert!(found(|_| None, WriterProperties::default()).is_none_or(|found| found < FEW));
        let plain = WriterProperties::builder().set_dictionary_enabled(false).build();
        assert_eq!(found(|row| Some(format!("{}", row % 5)), plain), None);
    }

    #[test]
    fn of_a_dictionary_that_became_too_large_little_is_known() {
        // Half of the rows have one of two texts, the others one of their own.
        let texts = |row| Some(if row % 2 == 0 { format!("often {}", row % 4) } else { format!("once, in row {row}") });
        for compression in [Compression::SNAPPY, Compression::UNCOMPRESSED] {
            let properties = WriterProperties::builder().set_dictionary_page_size_limit(10_000);
            let found = found(texts, properties.set_compression(compression).build()).expect("a dictionary");
            assert!(found > 1000.0 && found < 0.5 * ROWS as f64, "{found}");
        }
    }
}
