//! A file's bytes, fetched when they are wanted or ahead of that.
//!
//! ```text
//! fetcher.start(ranges of the next row groups).await;   // returns at once; a task reads
//! ...                                                    // decoding
//! let ranges = fetcher.fetch(wanted).await?;             // what was fetched ahead is there
//! ```
//!
//! A range that was not fetched ahead, or was only in part, is read then: fetching ahead is a guess.

use std::ops::Range;

use bytes::Bytes;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::parquet::arrow::async_reader::AsyncFileReader;
use datafusion::parquet::errors::Result as ParquetResult;
use weld_parquet::FileRanges;

use crate::give_way::give_way;

type Reader = Box<dyn AsyncFileReader + Send>;

/// Reads one file.
pub(super) struct Fetcher {
    /// Absent while a task reads.
    reader: Option<Reader>,
    reading: Option<SpawnedTask<(Reader, ParquetResult<FileRanges>)>>,
    /// Fetched ahead, for the next row groups.
    ahead: FileRanges,
}

impl Fetcher {
    pub(super) fn new(reader: Reader) -> Fetcher {
        Fetcher { reader: Some(reader), reading: None, ahead: FileRanges::default() }
    }

    /// Starts to read `ranges`, which replace what was fetched ahead before.
    pub(super) async fn start(&mut self, ranges: Vec<Range<u64>>) {
        self.ahead = FileRanges::default();
        if ranges.is_empty() {
            return;
        }
        let Some(mut reader) = self.reader.take() else { return };
        self.reading = Some(SpawnedTask::spawn(async move {
            let fetched = read(&mut reader, ranges).await.map(FileRanges::new);
            (reader, fetched)
        }));
        // On a runtime of one worker the task begins only when this one lets it.
        give_way().await;
    }

    /// The bytes of `ranges`.
    pub(super) async fn fetch(&mut self, ranges: Vec<Range<u64>>) -> Result<FileRanges> {
        if ranges.is_empty() {
            return Ok(FileRanges::default());
        }
        self.settle().await?;
        let mut found: Vec<(u64, Bytes)> = Vec::with_capacity(ranges.len());
        let mut missing = Vec::new();
        for range in ranges {
            match self.ahead.get(range.clone()) {
                Some(bytes) => found.push((range.start, bytes)),
                None => missing.push(range),
            }
        }
        if !missing.is_empty() {
            let Some(reader) = &mut self.reader else { return Err(lost()) };
            found.extend(read(reader, missing).await?);
        }
        Ok(FileRanges::new(found))
    }

    /// Waits for what is being fetched ahead. If that failed it is tried again, and fails, when it is wanted.
    async fn settle(&mut self) -> Result<()> {
        let Some(task) = self.reading.take() else { return Ok(()) };
        let (reader, fetched) = task.join_unwind().await.map_err(|_| lost())?;
        self.reader = Some(reader);
        self.ahead = fetched.unwrap_or_default();
        Ok(())
    }
}

/// Reads the ranges, those that touch as one: few large buffers take less memory than many small ones.
async fn read(reader: &mut Reader, ranges: Vec<Range<u64>>) -> ParquetResult<Vec<(u64, Bytes)>> {
    let ranges = joined(ranges);
    let starts: Vec<u64> = ranges.iter().map(|range| range.start).collect();
    Ok(starts.into_iter().zip(reader.get_byte_ranges(ranges).await?).collect())
}

/// The same bytes in as few ranges as they have.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

fn lost() -> datafusion::common::DataFusionError {
    internal_datafusion_err!("the task that read a file failed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_are_one() {
        assert_eq!(joined(vec![7..9, 0..3, 3..5, 4..6]), [0..6, 7..9]);
        assert_eq!(joined(Vec::new()), []);
    }
}
