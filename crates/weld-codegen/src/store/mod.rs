//! Code that outlives its process: what LLVM made of a kernel is kept in a folder and linked again where it is wanted.
//!
//! An entry is found by the number of a program, which its host knows before it is optimised, and by the number of the
//! [description](describe) of all that the code depends on: this build, LLVM, the processor, the options, the optimised
//! program, the layout of its state, the layouts of its columns. `folder` says who may have written it, `entry` whether
//! it is whole and of that description.

mod entry;
mod folder;

use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use weld_core::ir::{Program, WideHasher};

use crate::options::Options;
use crate::program::StreamProgram;
use crate::target;
use folder::Folder;

pub(crate) use entry::Stored;
pub use folder::Usage;

/// Of the sources that the code depends on, of the compiler that they were built with, and how: see `build.rs`.
const BUILD: &str = env!("WELD_BUILD_ID");

/// A folder of code on disk, which processes may share.
///
/// Code from there is executed: the folder must belong to the user, and nobody else may write into it. What is not so,
/// or cannot be read, or is damaged, counts as not there. Nothing fails for it.
#[derive(Debug)]
pub struct CodeFolder {
    folder: Folder,
    /// Numbers of programs that have entries, read once.
    programs: Mutex<Option<HashSet<u128>>>,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// Where the code of a program is kept.
#[derive(Clone, Debug)]
pub struct Keep {
    folder: Arc<CodeFolder>,
    program: u128,
}

/// What a description is written to.
#[derive(Clone, Default)]
pub(crate) struct Description(Vec<u8>);

impl Hasher for Description {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}

impl CodeFolder {
    /// The folder of that path, which may not be there yet; it keeps so many bytes.
    pub fn new(path: impl Into<PathBuf>, bytes_max: u64) -> CodeFolder {
        CodeFolder {
            folder: Folder::new(path.into(), bytes_max),
            programs: Mutex::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// Where the folder is, whether or not it can be used.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// How much it keeps.
    pub fn bytes_max(&self) -> u64 {
        self.folder.bytes_max()
    }

    /// How much is in it; an error says why it is not used.
    pub fn usage(&self) -> io::Result<Usage> {
        self.folder.usage()
    }

    /// Removes all code from it.
    pub fn clear(&self) -> io::Result<Usage> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.folder.clear()
    }

    /// How often code was found here, and how often it was not.
    pub fn lookups(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }

    /// Whether there is probably code of a program of that number.
    pub fn has(&self, program: u128) -> bool {
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        let programs = programs.get_or_insert_with(|| {
            let number = |name: String| u128::from_str_radix(name.split('-').next()?, 16).ok();
            self.folder.names().into_iter().filter_map(number).collect()
        });
        programs.contains(&of_this_build(program))
    }
}

impl Keep {
    /// A program is known by a number that others of this build do not have, as a rule.
    pub fn new(folder: Arc<CodeFolder>, program: u128) -> Keep {
        Keep { folder, program: of_this_build(program) }
    }

    pub(crate) fn find(&self, description: &Description) -> Option<Stored> {
        let name = self.name(description);
        let folder = &self.folder.folder;
        let stored = folder.read(&name).and_then(|bytes| {
            let stored = entry::decode(&name, folder::user(), &description.0, &bytes);
            if stored.is_none() {
                folder.remove(&name);
            }
            stored
        });
        let counter = if stored.is_some() { &self.folder.hits } else { &self.folder.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        stored
    }

    pub(crate) fn put(&self, description: &Description, stored: &Stored) {
        let name = self.name(description);
        self.folder.folder.write(&name, &entry::encode(&name, folder::user(), &description.0, stored));
        if let Some(programs) = &mut *self.folder.programs.lock().unwrap_or_else(PoisonError::into_inner) {
            programs.insert(self.program);
        }
    }

    /// An entry that cannot be used after all.
    pub(crate) fn remove(&self, description: &Description) {
        self.folder.folder.remove(&self.name(description));
    }

    fn name(&self, description: &Description) -> String {
        format!("{:032x}-{:032x}", self.program, WideHasher::hash_one(&description.0))
    }
}

fn of_this_build(program: u128) -> u128 {
    WideHasher::hash_one((program, BUILD))
}

/// All that the code of a program depends on but its parts' own; `None` if it is not to be kept, for it knows addresses
/// of this process.
pub(crate) fn describe(program: &Program, stream: &StreamProgram, options: &Options) -> Option<Description> {
    if options.sanitize || !options.cudfs.is_empty() {
        return None;
    }
    let mut out = Description::default();
    BUILD.hash(&mut out);
    target::describe(options.cpu, &mut out);
    (options.level, options.threads, options.grain, options.vectorize, options.uncut_nodes).hash(&mut out);
    options.disabled.hash(&mut out);
    program.describe(&mut out);
    stream.describe(&mut out);
    Some(out)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A folder for a test, removed with it.
    pub(super) struct TestFolder {
        pub(super) path: PathBuf,
    }

    impl TestFolder {
        pub(super) fn new() -> TestFolder {
            static COUNT: AtomicU64 = AtomicU64::new(0);
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("weld-store-{}-{number}", std::process::id()));
            std::fs::create_dir(&path).expect("a folder of its own");
            let folder = TestFolder { path };
            folder.set_mode(0o700);
            folder
        }

        pub(super) fn set_mode(&self, mode: u32) {
            std::fs::set_permissions(&self.path, PermissionsExt::from_mode(mode)).expect("it is ours");
        }
    }

    impl Drop for TestFolder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }

    #[test]
    fn programs_on_disk_are_known() {
        let place = TestFolder::new();
        let description = Description(b"description".to_vec());
        let stored = Stored {
            prefix: "weld_".to_owned(),
            cost: Default::default(),
            sizes: Default::default(),
            sites: Vec::new(),
            object: vec![1, 2, 3],
        };
        let folder = || Arc::new(CodeFolder::new(&place.path, 1 << 20));
        let first = folder();
        assert!(!first.has(5));
        Keep::new(Arc::clone(&first), 5).put(&description, &stored);
        assert!(first.has(5) && !first.has(6));
        let second = folder();
        assert!(second.has(5) && !second.has(6));
        assert_eq!(Keep::new(Arc::clone(&second), 5).find(&description), Some(stored));
        assert_eq!(Keep::new(Arc::clone(&second), 6).find(&description), None);
        assert_eq!(second.lookups(), (1, 1));
        assert_eq!(second.clear().expect("it is ours").files, 1);
        assert!(!second.has(5));
    }
}
