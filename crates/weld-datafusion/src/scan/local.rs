//! Files of this machine, read into buffers that come back.
//!
//! ```text
//! get_byte_ranges ─► local file?  yes ─► pread into a block of the pool     no ─► the store
//! ```
//!
//! A store allocates and clears memory for each read and the system maps it, which takes as long as the read itself
//! where the file is in the page cache. Whether a file is local is for the store to say ([`GetResultPayload::File`]).
//! What cannot be read here is left to the store, errors included.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::Result;
use datafusion::common::runtime::SpawnedTask;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{ParquetFileMetrics, ParquetFileReaderFactory};
use datafusion::parquet::arrow::arrow_reader::ArrowReaderOptions;
use datafusion::parquet::arrow::async_reader::AsyncFileReader;
use datafusion::parquet::errors::Result as ParquetResult;
use datafusion::parquet::file::metadata::ParquetMetaData;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::{GetOptions, GetResultPayload, ObjectStore};
use weld_parquet::BufferPool;

use super::pools::LeasedPool;

/// Readers that read local files by themselves and leave the rest to others.
#[derive(Debug)]
pub(super) struct LocalReaders {
    store: Arc<dyn ObjectStore>,
    others: Arc<dyn ParquetFileReaderFactory>,
    pool: LeasedPool,
}

impl LocalReaders {
    /// `others` read from `store` what is not local.
    pub(super) fn new(store: Arc<dyn ObjectStore>, others: Arc<dyn ParquetFileReaderFactory>) -> LocalReaders {
        LocalReaders { store, others, pool: LeasedPool::lease() }
    }
}

impl ParquetFileReaderFactory for LocalReaders {
    fn create_reader(
        &self,
        partition: usize,
        file: PartitionedFile,
        hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        Ok(Box::new(LocalReader {
            store: Arc::clone(&self.store),
            other: self.others.create_reader(partition, file.clone(), hint, metrics)?,
            pool: Arc::clone(&self.pool),
            metrics: ParquetFileMetrics::new(partition, file.object_meta.location.as_ref(), metrics),
            file,
            opened: Opened::NotYet,
        }))
    }
}

struct LocalReader {
    store: Arc<dyn ObjectStore>,
    other: Box<dyn AsyncFileReader + Send>,
    pool: Arc<BufferPool>,
    file: PartitionedFile,
    opened: Opened,
    metrics: ParquetFileMetrics,
}

enum Opened {
    NotYet,
    Local(Arc<File>),
    /// It is elsewhere, or could not be opened or read.
    Elsewhere,
}

impl LocalReader {
    /// The bytes of `ranges`; `None` if they are not to be had here.
    async fn read(&mut self, ranges: &[Range<u64>]) -> Option<Vec<Bytes>> {
        if let Opened::NotYet = self.opened {
            self.opened = match self.store.get_opts(&self.file.object_meta.location, GetOptions::default()).await {
                Ok(result) => match result.payload {
                    GetResultPayload::File(file, _) => Opened::Local(Arc::new(file)),
                    GetResultPayload::Stream(_) => Opened::Elsewhere,
                },
                Err(_) => Opened::Elsewhere,
            };
        }
        let Opened::Local(file) = &self.opened else { return None };
        let (file, pool, wanted) = (Arc::clone(file), Arc::clone(&self.pool), ranges.to_vec());
        let read = move || wanted.into_iter().map(|range| read_range(&file, range, &pool)).collect::<Option<Vec<_>>>();
        let bytes = SpawnedTask::spawn_blocking(read).await.ok().flatten();
        if bytes.is_none() {
            self.opened = Opened::Elsewhere;
        }
        bytes
    }
}

#[cfg(unix)]
fn read_range(file: &File, range: Range<u64>, pool: &Arc<BufferPool>) -> Option<Bytes> {
    use std::os::unix::fs::FileExt;
    let mut block = pool.take(usize::try_from(range.end.checked_sub(range.start)?).ok()?);
    file.read_exact_at(block.as_mut(), range.start).ok()?;
    Some(block.into_bytes())
}

#[cfg(not(unix))]
fn read_range(_: &File, _: Range<u64>, _: &Arc<BufferPool>) -> Option<Bytes> {
    None
}

impl AsyncFileReader for LocalReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        self.other.get_bytes(range)
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, ParquetResult<Vec<Bytes>>> {
        async move {
            match self.read(&ranges).await {
                Some(bytes) => {
                    self.metrics.bytes_scanned.add(bytes.iter().map(Bytes::len).sum());
                    Ok(bytes)
                }
                None => self.other.get_byte_ranges(ranges).await,
            }
        }
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        self.other.get_metadata(options)
    }
}

impl Drop for LocalReader {
    fn drop(&mut self) {
        self.metrics.scan_efficiency_ratio.add_part(self.metrics.bytes_scanned.value());
        self.metrics.scan_efficiency_ratio.set_total(self.file.object_meta.size as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::datasource::physical_plan::parquet::DefaultParquetFileReaderFactory;
    use object_store::local::LocalFileSystem;
    use object_store::memory::InMemory;
    use object_store::path::Path;
    use object_store::{ObjectStoreExt, PutPayload};

    const TEXT: &[u8] = b"0123456789";

    /// What a reader of a file of ten bytes gives, and how many bytes it counts.
    async fn read(store: Arc<dyn ObjectStore>, ranges: Vec<Range<u64>>) -> (ParquetResult<Vec<Bytes>>, usize) {
        store.put(&Path::from("file"), PutPayload::from_static(TEXT)).await.unwrap();
        let others = Arc::new(DefaultParquetFileReaderFactory::new(Arc::clone(&store)));
        let metrics = ExecutionPlanMetricsSet::new();
        let file = PartitionedFile::new("file", TEXT.len() as u64);
        let mut reader = LocalReaders::new(store, others).create_reader(0, file, None, &metrics).unwrap();
        let bytes = reader.get_byte_ranges(ranges).await;
        (bytes, metrics.clone_inner().sum_by_name("bytes_scanned").unwrap().as_usize())
    }

    #[tokio::test]
    async fn files_of_this_machine_and_others_give_the_same_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let local = Arc::new(LocalFileSystem::new_with_prefix(folder.path()).unwrap());
        for store in [local as Arc<dyn ObjectStore>, Arc::new(InMemory::new())] {
            let (bytes, counted) = read(store, vec![0..3, 4..10]).await;
            assert_eq!(bytes.unwrap(), [&TEXT[0..3], &TEXT[4..10]]);
            assert_eq!(counted, 9);
        }
    }

    #[tokio::test]
    async fn a_file_that_is_too_short_is_the_stores_error() {
        let folder = tempfile::tempdir().unwrap();
        let local = Arc::new(LocalFileSystem::new_with_prefix(folder.path()).unwrap());
        let error = read(local, vec![0..1, 8..12]).await.0.unwrap_err().to_string();
        assert!(error.contains("Out of range of file"), "{error}");
    }
}
