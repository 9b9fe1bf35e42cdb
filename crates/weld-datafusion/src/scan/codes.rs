//! Which columns are read as codes: all pages of all their chunks are codes, and there are few combinations of them.
//!
//! ```text
//! l_returnflag   RLE_DICTIONARY, dictionary page of 26 bytes      codes
//! l_comment      RLE_DICTIONARY and PLAIN                         values
//! ```
//!
//! It is asked of one file, for a whole query: the code that reads codes is another than the code that reads values, and
//! compiled once. A chunk that has no codes after all comes as values.

use datafusion::parquet::basic::{Encoding, PageType};
use datafusion::parquet::file::metadata::{ColumnChunkMetaData, PageEncodingStats, ParquetMetaData};

/// Of several columns, dictionaries that take more bytes in the file have too many combinations for groups to be found by code.
const DICTIONARY_BYTES_MAX: i64 = 16 << 10;

/// The same for a single column, whose codes are its groups.
const ONE_DICTIONARY_BYTES_MAX: i64 = 8 << 20;

/// Whether all rows of these columns are codes of dictionaries so small that groups are found by code.
pub(super) fn are_small(metadata: &ParquetMetaData, columns: &[&str]) -> bool {
    let bytes_max = if columns.len() == 1 { ONE_DICTIONARY_BYTES_MAX } else { DICTIONARY_BYTES_MAX };
    let descriptor = metadata.file_metadata().schema_descr();
    let leaf = |name: &&str| {
        (0..descriptor.num_columns()).find(|leaf| descriptor.column(*leaf).path().parts() == [name.to_string()])
    };
    let Some(leaves) = columns.iter().map(leaf).collect::<Option<Vec<usize>>>() else { return false };
    metadata.row_groups().iter().all(|group| leaves.iter().all(|leaf| is_small(group.column(*leaf), bytes_max)))
}

fn is_small(chunk: &ColumnChunkMetaData, bytes_max: i64) -> bool {
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
    let bytes = chunk.dictionary_page_offset().map(|start| chunk.data_page_offset().saturating_sub(start));
    only_codes && bytes.is_some_and(|bytes| (0..=bytes_max).contains(&bytes))
}
