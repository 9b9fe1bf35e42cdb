//! A Parquet scan that keeps columns encoded and decodes late.
//!
//! ```text
//! bytes that the caller fetched ── FileRanges ─┐
//! RowGroupScan: filter(column, predicate)* ────┤ dictionary entries judged once, pages without
//!                                              │ surviving rows never decompressed
//!               batches() ─────────────────────┴─► RecordBatch of the rows that are left:
//!                                                  dictionary arrays, Decimal64, Utf8View, ...
//! ```
//!
//! [`RowGroupScan`] has a worked example; [`ColumnReader`] is one column of it. Flat columns of every type that Parquet
//! stores directly are decoded here, and fields of structs of such types; repeated columns, whole structs, wide
//! decimals and legacy level encodings go to arrow-rs, column by column, and [`RowGroupBatches::declined`] says why.
//!
//! Relies on the `parquet` crate for metadata and for codecs other than Snappy. Never trusts a file: a lying count,
//! length, offset or code is an [`Error`], and memory is bounded by what pages really hold and by
//! [`ReadOptions::page_bytes_max`]. Unsafe code is confined to `pool` (typed views of blocks), `bitpack/x86`, `spread`,
//! `levels` (a call), `snappy`, `dictionary` (the gather), `sieve` (the same of verdicts) and `batch` (arrays built
//! without a second check).

mod batch;
mod bitmap;
mod bitpack;
mod column;
mod decompress;
mod delta;
mod dictionary;
mod error;
mod fallback;
mod hybrid_rle;
mod levels;
mod pages;
mod pick;
mod pool;
mod scan;
mod selection;
mod sieve;
mod snappy;
mod spread;
mod strings;
mod target;
mod thrift;
mod values;

pub use column::{ColumnReader, Form, Predicate, ReadOptions};
pub use error::{Error, Result};
pub use pages::{FileRanges, chunk_range};
pub use pool::{Block, BufferPool, Plain};
pub use scan::{RowGroupBatches, RowGroupScan, ScanColumn};
pub use selection::Selection;
pub use target::Target;
