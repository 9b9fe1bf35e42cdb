//! The files that a partition has still to read: its own, or those of all partitions.
//!
//! ```text
//! partition 0:  a[..50 %] ─┐
//! partition 1:  a[50 %..] ─┴─►  a   whoever is done with a row group takes the next
//! ```
//!
//! DataFusion decides whether they may be shared: not where their order matters, or which partition has which rows. It
//! shares whole ranges of files; a filter may leave row groups in one of them alone. The last file may have fewer row
//! groups than there are partitions: those are cut.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use datafusion::common::{DataFusionError, Result};
use datafusion::config::ConfigOptions;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig};
use datafusion::datasource::source::DataSource;
use futures::future::{BoxFuture, FutureExt, Shared};

use super::Sharing;
use super::prune::{Group, Groups};

#[derive(Debug)]
pub(super) struct Queue {
    partitions: usize,
    /// Whether reading bytes twice costs little.
    is_local: bool,
    waiting: Mutex<VecDeque<PartitionedFile>>,
    /// Files that a partition has begun. Those that were read to their end are gone.
    begun: Mutex<Vec<Weak<SharedFile>>>,
}

/// Files to read, in their order.
pub(super) enum Files {
    Own(VecDeque<PartitionedFile>),
    Shared(Arc<Queue>),
}

impl Files {
    /// The files of `partition`.
    pub(super) fn of(config: &FileScanConfig, partition: usize, options: &ConfigOptions, sharing: &Sharing) -> Files {
        let shared = sharing.get(|| {
            // Its state is of a private type: only whether there is one can be asked.
            config.create_sibling_state(options)?;
            let files = whole(config.file_groups.iter().flat_map(FileGroup::iter).cloned());
            Some(Arc::new(Queue {
                partitions: config.file_groups.len(),
                is_local: config.object_store_url.as_str().starts_with("file:"),
                waiting: Mutex::new(config.file_source.reorder_files(files).into()),
                begun: Mutex::default(),
            }))
        });
        let shared = shared.and_then(|shared| Arc::clone(shared).downcast::<Queue>().ok());
        match (shared, config.file_groups.get(partition)) {
            (Some(queue), _) => Files::Shared(queue),
            (None, Some(group)) => Files::Own(group.files().to_vec().into()),
            (None, None) => Files::Own(VecDeque::new()),
        }
    }

    /// A file that nobody has begun, or else one that others have not read to its end.
    pub(super) fn next(&mut self) -> Option<Arc<SharedFile>> {
        match self {
            Files::Own(files) => files.pop_front().map(|file| Arc::new(SharedFile::new(file, 1, 1))),
            Files::Shared(queue) => {
                let mut begun = lock(&queue.begun);
                let mut waiting = lock(&queue.waiting);
                if let Some(file) = waiting.pop_front() {
                    let parts = if queue.is_local && waiting.is_empty() { queue.partitions } else { 1 };
                    let file = Arc::new(SharedFile::new(file, queue.partitions, parts));
                    begun.push(Arc::downgrade(&file));
                    return Some(file);
                }
                begun.retain(|file| file.upgrade().is_some_and(|file| !file.has_ended()));
                begun.iter().find_map(Weak::upgrade)
            }
        }
    }
}

/// Ranges of a file that follow each other as one.
fn whole(files: impl Iterator<Item = PartitionedFile>) -> Vec<PartitionedFile> {
    let mut whole: Vec<PartitionedFile> = Vec::new();
    for file in files {
        if let (Some(last), Some(next)) = (whole.last_mut(), &file.range)
            && (&last.object_meta, &last.partition_values) == (&file.object_meta, &file.partition_values)
            && let Some(range) = last.range.as_mut().filter(|range| range.end == next.start)
        {
            range.end = next.end;
            continue;
        }
        whole.push(file);
    }
    whole
}

type SharedGroups = Result<Arc<Mutex<Groups>>, Arc<DataFusionError>>;

/// A file whose row groups several partitions may read.
pub(super) struct SharedFile {
    pub(super) file: PartitionedFile,
    partitions: usize,
    /// Into how many parts its row groups are cut at least, if they are large.
    pub(super) parts: usize,
    /// What statistics leave of it, found once. Whoever waits for that does the work, so nobody waits for one who
    /// stopped.
    groups: OnceLock<Shared<BoxFuture<'static, SharedGroups>>>,
    opened: AtomicBool,
    ruled_out: AtomicBool,
}

impl SharedFile {
    fn new(file: PartitionedFile, partitions: usize, parts: usize) -> SharedFile {
        SharedFile {
            file,
            partitions: partitions.max(1),
            parts,
            groups: OnceLock::new(),
            opened: AtomicBool::default(),
            ruled_out: AtomicBool::default(),
        }
    }

    /// Whether the caller is the first to open it.
    pub(super) fn is_first(&self) -> bool {
        !self.opened.swap(true, Ordering::Relaxed)
    }

    /// Notes that no row of it is wanted.
    pub(super) fn rule_out(&self) {
        self.ruled_out.store(true, Ordering::Relaxed);
    }

    /// Whether no row group of it is left for those who have none.
    fn has_ended(&self) -> bool {
        let groups = self.groups.get().and_then(Shared::peek);
        let none_left =
            groups.is_some_and(|groups| groups.as_ref().map_or(true, |groups| lock(groups).left.is_empty()));
        self.ruled_out.load(Ordering::Relaxed) || none_left
    }

    /// Its row groups, which `find` finds.
    pub(super) async fn groups(
        &self,
        find: impl Future<Output = Result<Groups>> + Send + 'static,
    ) -> Result<Arc<Mutex<Groups>>> {
        let found = || find.map(|groups| Ok(Arc::new(Mutex::new(groups?)))).boxed().shared();
        self.groups.get_or_init(found).clone().await.map_err(DataFusionError::Shared)
    }

    /// The next row groups: two, of which the dictionaries are decompressed together, or one where that leaves others
    /// without any.
    pub(super) fn take(&self, groups: &mut Groups) -> Vec<Group> {
        let count = if self.partitions == 1 || groups.left.len() > 2 * self.partitions { 2 } else { 1 };
        groups.left.drain(..count.min(groups.left.len())).collect()
    }

    /// Row groups for later, if there are enough for everyone.
    pub(super) fn take_ahead(&self, groups: &mut Groups) -> Vec<Group> {
        if groups.left.len() < self.partitions { Vec::new() } else { self.take(groups) }
    }
}

impl fmt::Debug for SharedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedFile").field("file", &self.file.object_meta.location).finish_non_exhaustive()
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
