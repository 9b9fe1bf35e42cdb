//! The files that a partition has still to read: its own, or those of all partitions.
//!
//! ```text
//! partition 0:  a b c ─┐
//! partition 1:  d     ─┴─►  a b c d   whoever is done with a file takes the next
//! ```
//!
//! DataFusion decides whether they may be shared: not where their order matters, or which partition has which rows.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use datafusion::config::ConfigOptions;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig};
use datafusion::datasource::source::DataSource;

type Queue = Arc<Mutex<VecDeque<PartitionedFile>>>;

/// What the partitions of one run of a source share.
#[derive(Debug, Default)]
pub(crate) struct Sharing(OnceLock<Option<Queue>>);

/// Files to read, in their order.
pub(super) enum Files {
    Own(VecDeque<PartitionedFile>),
    Shared(Queue),
}

impl Files {
    /// The files of `partition`.
    pub(super) fn of(config: &FileScanConfig, partition: usize, options: &ConfigOptions, sharing: &Sharing) -> Files {
        let shared = sharing.0.get_or_init(|| {
            // Its state is of a private type: only whether there is one can be asked.
            config.create_sibling_state(options)?;
            let files = config.file_groups.iter().flat_map(FileGroup::iter).cloned().collect();
            Some(Arc::new(Mutex::new(config.file_source.reorder_files(files).into())))
        });
        match (shared, config.file_groups.get(partition)) {
            (Some(queue), _) => Files::Shared(Arc::clone(queue)),
            (None, Some(group)) => Files::Own(group.files().to_vec().into()),
            (None, None) => Files::Own(VecDeque::new()),
        }
    }

    pub(super) fn next(&mut self) -> Option<PartitionedFile> {
        match self {
            Files::Own(files) => files.pop_front(),
            Files::Shared(queue) => queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front(),
        }
    }
}
