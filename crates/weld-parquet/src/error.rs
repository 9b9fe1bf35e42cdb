//! What can go wrong: the file is corrupt, it uses something this crate does not decode, or the
//! caller's own closure failed.
//!
//! `Unsupported` is not a failure of the query: whoever gets it reads the column through arrow-rs.

use std::fmt;

/// The result of everything in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a column could not be decoded.
#[derive(Debug)]
pub enum Error {
    /// The bytes contradict themselves or the format.
    Corrupt(String),
    /// Valid perhaps, but not decoded here: use arrow-rs for this column.
    Unsupported(String),
    /// The caller asked for something that makes no sense, such as rows out of order.
    Usage(String),
    /// From the `parquet` crate: metadata and the codecs.
    Parquet(parquet::errors::ParquetError),
    /// From Arrow: kernels and the caller's predicates.
    Arrow(arrow::error::ArrowError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Corrupt(what) => write!(f, "corrupt Parquet data: {what}"),
            Error::Unsupported(what) => write!(f, "not supported by this decoder: {what}"),
            Error::Usage(what) => write!(f, "wrong use of the decoder: {what}"),
            Error::Parquet(error) => error.fmt(f),
            Error::Arrow(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Parquet(error) => Some(error),
            Error::Arrow(error) => Some(error),
            _ => None,
        }
    }
}

impl From<parquet::errors::ParquetError> for Error {
    fn from(error: parquet::errors::ParquetError) -> Self {
        Error::Parquet(error)
    }
}

impl From<arrow::error::ArrowError> for Error {
    fn from(error: arrow::error::ArrowError) -> Self {
        Error::Arrow(error)
    }
}

/// Shorthand for the most common error.
pub(crate) fn corrupt<T>(what: impl Into<String>) -> Result<T> {
    Err(Error::Corrupt(what.into()))
}

pub(crate) fn unsupported<T>(what: impl Into<String>) -> Result<T> {
    Err(Error::Unsupported(what.into()))
}
