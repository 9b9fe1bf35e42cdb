//! Which columns are read as codes: all pages of all their chunks are codes, and there are few combinations of them.
//!
//! ```text
//! l_returnflag   RLE_DICTIONARY, dictionary page of 26 bytes      codes
//! l_comment      RLE_DICTIONARY and PLAIN                         values
//! ```
//!
//! It is asked of one file, for a whole query: the code that reads codes is another than the code that reads values,
//! and compiled once. A chunk that has no codes after all comes as values.

use datafusion::parquet::basic::{Encoding, PageType};
use datafusion::parquet::file::metadata::{ColumnChunkMetaData, PageEncodingStats, ParquetMetaData};
use datafusion::parquet::schema::types::ColumnPath;

/// More combinations of codes are not kept by compiled code.
const COMBINATIONS_MAX: i64 = 1 << 20;

/// A group is looked for once for each combination: that gains where each has some rows.
const ROWS_PER_COMBINATION: i64 = 4;

/// What an entry of a dictionary takes in the file, about: how many there are is not in the metadata.
const ENTRY_BYTES: i64 = 8;

/// Whether all rows of these columns are codes of dictionaries so small that groups are found by code.
pub(super) fn are_small(metadata: &ParquetMetaData, columns: &[&ColumnPath]) -> bool {
    let descriptor = metadata.file_metadata().schema_descr();
    let leaf = |path: &&ColumnPath| (0..descriptor.num_columns()).find(|leaf| descriptor.column(*leaf).path() == *path);
    let Some(leaves) = columns.iter().map(leaf).collect::<Option<Vec<usize>>>() else { return false };
    metadata.row_groups().iter().all(|group| {
        let entries = leaves.iter().map(|leaf| Some((dictionary_bytes(group.column(*leaf))? / ENTRY_BYTES).max(1)));
        let combinations = entries.reduce(|a, b| a?.checked_mul(b?));
        let most = COMBINATIONS_MAX.min(group.num_rows() / ROWS_PER_COMBINATION);
        combinations.flatten().is_some_and(|combinations| combinations <= most.max(1))
    })
}

/// The size of a chunk's dictionary in the file, if all of its pages are codes.
fn dictionary_bytes(chunk: &ColumnChunkMetaData) -> Option<i64> {
    let is_code = |encoding| matches!(encoding, Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY);
    let only_codes = match (chunk.page_encoding_stats_mask(), chunk.page_encoding_stats()) {
        (Some(mask), _) => mask.encodings().all(is_code),
        (None, Some(pages)) => {
            let data = |page: &&PageEncodingStats| page.page_type != PageType::DICTIONARY_PAGE;
            pages.iter().filter(data).all(|page| is_code(page.encoding))
        }
        // Not said: a chunk that fell back to values has a large dictionary.
        (None, None) => true,
    };
    let bytes = chunk.data_page_offset().saturating_sub(chunk.dictionary_page_offset()?);
    (only_codes && bytes >= 0).then_some(bytes)
}
