//! A Parquet scan that keeps columns encoded and decodes late.

mod batch;
mod bitpack;
mod column;
mod decompress;
mod delta;
mod dictionary;
mod error;
mod fallback;
mod hybrid;
mod levels;
mod pages;
mod pool;
mod scan;
mod selection;
mod snappy;
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
