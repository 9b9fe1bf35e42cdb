//! The folder of the code on disk: a cache of files that several processes of one user read, write and delete at once.
//!
//! Only its owner may write there. Nothing here fails: what cannot be read is not there, and what cannot be written is
//! not kept. Every operation opens the folder anew and checks whose it is; files are then opened relative to what was
//! checked, and links are not followed.

use std::ffi::CString;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// The ending of files in the folder, and of those that are being written.
const ENDING: &str = ".weld";
const UNFINISHED: &str = ".part";

/// Group and others may not write into the folder, and have nothing to do with its files: what other programs of the
/// user are made to write, with the usual permissions, is not taken for code.
const FOLDER_FORBIDS: u32 = 0o022;
const FILE_FORBIDS: u32 = 0o077;

/// A file's time of use is noted once in so long: a hit writes nothing then.
const USE_NOTED: Duration = Duration::from_secs(60);

/// Who writes for longer has ended.
const WRITING_MAX: Duration = Duration::from_secs(600);

/// What a file takes of the disk beside its length, at most.
const FILE_BYTES: u64 = 4096;

/// Where what is written goes; tests have disks that are full.
type Sink = fn(File) -> Box<dyn Write>;

/// See above.
pub(super) struct Folder {
    path: PathBuf,
    bytes_max: u64,
    /// Written here since the files were last counted.
    uncounted: AtomicU64,
    was_counted: AtomicBool,
    warned: AtomicBool,
    sink: Sink,
}

/// What is in a folder.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Usage {
    pub files: usize,
    pub bytes: u64,
}

/// A file in the folder.
struct Entry {
    name: String,
    bytes: u64,
    used: SystemTime,
}

impl Folder {
    pub(super) fn new(path: PathBuf, bytes_max: u64) -> Folder {
        let (uncounted, was_counted, warned) = (AtomicU64::new(0), AtomicBool::new(false), AtomicBool::new(false));
        Folder { path, bytes_max, uncounted, was_counted, warned, sink: |file| Box::new(file) }
    }

    #[cfg(test)]
    pub(super) fn with_sink(path: PathBuf, bytes_max: u64, sink: Sink) -> Folder {
        Folder { sink, ..Folder::new(path, bytes_max) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// The bytes of a file.
    pub(super) fn read(&self, name: &str) -> Option<Vec<u8>> {
        let folder = self.open().ok()?;
        let file = open_in(&folder, &file_name(name), libc::O_RDONLY | libc::O_NONBLOCK);
        match file.and_then(|file| self.contents(file)) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(_) => {
                remove_in(&folder, &file_name(name));
                None
            }
        }
    }

    fn contents(&self, file: File) -> io::Result<Vec<u8>> {
        let metadata = file.metadata()?;
        let is_ours = metadata.is_file() && is_private(&metadata, FILE_FORBIDS);
        if !is_ours || metadata.len() > self.file_max() {
            return Err(io::Error::other("not a file of ours"));
        }
        let mut bytes = Vec::with_capacity(metadata.len() as usize);
        (&file).take(self.file_max()).read_to_end(&mut bytes)?;
        if metadata.modified()?.elapsed().is_ok_and(|age| age > USE_NOTED) {
            let _ = file.set_modified(SystemTime::now());
        }
        Ok(bytes)
    }

    /// Puts a file into the folder, in the place of one of the same name: all of it or nothing.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) {
        let len = bytes.len() as u64;
        if len > self.file_max() {
            return;
        }
        match self.try_write(name, bytes) {
            Ok(()) => self.count(len + FILE_BYTES),
            Err(error) => log::debug!("code is not kept in {}: {error}", self.path.display()),
        }
    }

    fn try_write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let folder = self.open().or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
                self.open()
            }
            _ => Err(error),
        })?;
        static WRITTEN: AtomicU64 = AtomicU64::new(0);
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let unfinished = format!("{name}.{}-{number}{UNFINISHED}", std::process::id());
        let file = open_in(&folder, &unfinished, libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL)?;
        let written = (self.sink)(file).write_all(bytes);
        let placed = written.and_then(|()| rename_in(&folder, &unfinished, &file_name(name)));
        if placed.is_err() {
            remove_in(&folder, &unfinished);
        }
        placed
    }

    pub(super) fn remove(&self, name: &str) {
        if let Ok(folder) = self.open() {
            remove_in(&folder, &file_name(name));
        }
    }

    /// The names of all files.
    pub(super) fn names(&self) -> Vec<String> {
        let Ok(_) = self.open() else { return Vec::new() };
        let Ok(entries) = std::fs::read_dir(&self.path) else { return Vec::new() };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        names.filter_map(|name| name.strip_suffix(ENDING).map(str::to_owned)).collect()
    }

    pub(super) fn usage(&self) -> io::Result<Usage> {
        let folder = self.open()?;
        let entries = self.entries(&folder)?;
        Ok(Usage { files: entries.len(), bytes: entries.iter().map(|entry| entry.bytes).sum() })
    }

    /// Removes all files of ours; how much that was.
    pub(super) fn clear(&self) -> io::Result<Usage> {
        let folder = self.open()?;
        let mut removed = Usage::default();
        for entry in self.entries(&folder)? {
            if remove_in(&folder, &entry.name) {
                removed.files += 1;
                removed.bytes += entry.bytes;
            }
        }
        Ok(removed)
    }

    /// Removes what was not used for longest until the rest fits, and what was never finished.
    pub(super) fn trim(&self) -> io::Result<()> {
        let folder = self.open()?;
        let mut entries = self.entries(&folder)?;
        entries.retain(|entry| {
            let is_left = entry.name.ends_with(UNFINISHED) && entry.used.elapsed().is_ok_and(|age| age > WRITING_MAX);
            !(is_left && remove_in(&folder, &entry.name))
        });
        let mut bytes: u64 = entries.iter().map(|entry| entry.bytes).sum();
        entries.sort_unstable_by_key(|entry| entry.used);
        for entry in entries {
            if bytes <= self.bytes_max {
                break;
            }
            if remove_in(&folder, &entry.name) {
                bytes -= entry.bytes;
            }
        }
        Ok(())
    }

    /// Notes that so much was written: files are counted, beside the query, after the first and then now and again.
    fn count(&self, bytes: u64) {
        let uncounted = self.uncounted.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if self.was_counted.swap(true, Ordering::Relaxed) && uncounted < self.bytes_max / 16 {
            return;
        }
        self.uncounted.store(0, Ordering::Relaxed);
        let other = Folder::new(self.path.clone(), self.bytes_max);
        let _ = std::thread::Builder::new().name("weld-cache".to_owned()).spawn(move || drop(other.trim()));
    }

    /// A file is not to be most of the folder.
    fn file_max(&self) -> u64 {
        self.bytes_max / 4
    }

    fn entries(&self, folder: &File) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(&self.path)?.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            if !(name.ends_with(ENDING) || name.ends_with(UNFINISHED)) {
                continue;
            }
            // Links are not followed here either.
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.dev() == folder.metadata()?.dev() && !metadata.is_dir() {
                let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                entries.push(Entry { name, bytes: metadata.len() + FILE_BYTES, used });
            }
        }
        Ok(entries)
    }

    /// The folder, if it is the user's own and nobody else may write into it.
    fn open(&self) -> io::Result<File> {
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(&self.path).and_then(|folder| {
            match is_private(&folder.metadata()?, FOLDER_FORBIDS) {
                true => Ok(folder),
                false => Err(io::Error::new(io::ErrorKind::PermissionDenied, "others may write into it")),
            }
        });
        if let Err(error) = &opened
            && error.kind() != io::ErrorKind::NotFound
            && !self.warned.swap(true, Ordering::Relaxed)
        {
            log::warn!("code is neither kept in {} nor taken from there: {error}", self.path.display());
        }
        opened
    }
}

impl std::fmt::Debug for Folder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Folder").field("path", &self.path).field("bytes_max", &self.bytes_max).finish_non_exhaustive()
    }
}

fn file_name(name: &str) -> String {
    format!("{name}{ENDING}")
}

/// Who runs this process.
pub(super) fn user() -> u32 {
    // SAFETY: the call has no conditions.
    unsafe { libc::geteuid() }
}

/// Whether it belongs to the user, and grants nothing that is forbidden.
fn is_private(metadata: &Metadata, forbidden: u32) -> bool {
    metadata.uid() == user() && metadata.mode() & forbidden == 0
}

/// Opens a file of the folder; no link.
fn open_in(folder: &File, name: &str, flags: libc::c_int) -> io::Result<File> {
    let name = CString::new(name)?;
    let flags = flags | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: the name is a C string, and the folder is open. A descriptor that the call gives is nobody else's.
    unsafe {
        match libc::openat(folder.as_raw_fd(), name.as_ptr(), flags, 0o600 as libc::c_uint) {
            -1 => Err(io::Error::last_os_error()),
            descriptor => Ok(File::from_raw_fd(descriptor)),
        }
    }
}

fn rename_in(folder: &File, from: &str, to: &str) -> io::Result<()> {
    let (from, to) = (CString::new(from)?, CString::new(to)?);
    let folder = folder.as_raw_fd();
    // SAFETY: the names are C strings, and the folder is open.
    match unsafe { libc::renameat(folder, from.as_ptr(), folder, to.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn remove_in(folder: &File, name: &str) -> bool {
    let Ok(name) = CString::new(name) else { return false };
    // SAFETY: the name is a C string, and the folder is open.
    unsafe { libc::unlinkat(folder.as_raw_fd(), name.as_ptr(), 0) == 0 }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::store::tests::TestFolder;

    #[test]
    fn what_was_written_is_read_until_it_is_removed() {
        let place = TestFolder::new();
        let folder = Folder::new(place.path.join("a/b"), 1 << 20);
        assert_eq!(folder.read("one"), None);
        folder.write("one", b"first");
        folder.write("one", b"second");
        assert_eq!(folder.read("one").as_deref(), Some(&b"second"[..]));
        assert_eq!(folder.names(), ["one"]);
        assert_eq!(std::fs::metadata(folder.path()).expect("it is there").mode() & 0o777, 0o700);
        folder.remove("one");
        assert_eq!(folder.read("one"), None);
        folder.write("one", b"third");
        std::fs::remove_dir_all(folder.path()).expect("it may be deleted at any time");
        assert_eq!(folder.read("one"), None);
        folder.write("one", b"fourth");
        assert_eq!(folder.clear().expect("it is there again").files, 1);
    }

    #[test]
    fn folders_that_others_may_write_are_refused() {
        let place = TestFolder::new();
        let folder = Folder::new(place.path.clone(), 1 << 20);
        folder.write("one", b"first");
        for mode in [0o720, 0o702, 0o777] {
            place.set_mode(mode);
            assert_eq!(folder.read("one"), None, "{mode:o}");
            folder.write("two", b"second");
            assert!(folder.clear().is_err() && folder.usage().is_err());
        }
        place.set_mode(0o755);
        assert_eq!(folder.names(), ["one"]);
        assert!(folder.read("one").is_some());
    }

    #[test]
    fn folders_of_others_are_refused() {
        // Who is not root cannot give a folder away; what belongs to root is another's then.
        let place = TestFolder::new();
        let path = match std::os::unix::fs::chown(&place.path, Some(12_345), None) {
            Ok(()) => place.path.clone(),
            Err(_) => PathBuf::from("/"),
        };
        let folder = Folder::new(path, 1 << 20);
        folder.write("one", b"first");
        assert!(folder.read("one").is_none() && folder.usage().is_err());
    }

    #[test]
    fn links_are_not_followed() {
        let place = TestFolder::new();
        let target = place.path.join("target");
        std::fs::create_dir(&target).expect("a folder");
        symlink(&target, place.path.join("link")).expect("a link");
        let folder = Folder::new(place.path.join("link"), 1 << 20);
        folder.write("one", b"first");
        assert!(folder.usage().is_err());
        let folder = Folder::new(target.clone(), 1 << 20);
        std::fs::write(place.path.join("secret"), "elsewhere").expect("a file");
        symlink(place.path.join("secret"), target.join("one.weld")).expect("a link");
        assert_eq!(folder.read("one"), None);
        assert!(target.join("one.weld").symlink_metadata().is_err(), "the link is removed, not what it leads to");
        assert!(place.path.join("secret").exists());
        symlink(place.path.join("secret"), target.join("one.weld")).expect("a link");
        folder.write("one", b"first");
        assert_eq!(folder.read("one").as_deref(), Some(&b"first"[..]));
        assert_eq!(std::fs::read(place.path.join("secret")).expect("a file"), b"elsewhere");
    }

    #[test]
    fn what_is_no_file_of_the_users_is_removed() {
        let place = TestFolder::new();
        let folder = Folder::new(place.path.clone(), 1 << 20);
        let file = place.path.join("one.weld");
        for mode in [0o620, 0o602, 0o644] {
            folder.write("one", b"first");
            std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).expect("it is ours");
            assert!(folder.read("one").is_none() && !file.exists(), "{mode:o}");
        }
        std::fs::create_dir(&file).expect("a folder");
        assert!(folder.read("one").is_none());
        folder.write("one", b"first");
        assert!(folder.read("one").is_none());
    }

    #[test]
    fn a_full_disk_keeps_nothing() {
        let place = TestFolder::new();
        let full = |_: File| Box::new(File::options().write(true).open("/dev/full").expect("it is there")) as _;
        let folder = Folder::with_sink(place.path.clone(), 1 << 20, full);
        folder.write("one", b"first");
        assert_eq!(folder.read("one"), None);
        assert_eq!(folder.usage().expect("it is ours"), Usage::default());
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let place = TestFolder::new();
        let folder = Folder::new(place.path.clone(), 1 << 30);
        let age = |name: &str, seconds: u64| {
            let file = File::options().write(true).open(place.path.join(name)).expect("a file");
            file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).expect("it is ours");
        };
        for (name, seconds) in [("a", 400), ("b", 300), ("c", 200), ("d", 100)] {
            folder.write(name, &[0; 3 * FILE_BYTES as usize]);
            age(&format!("{name}.weld"), seconds);
        }
        std::fs::write(place.path.join("e.1-1.part"), "").expect("a file");
        age("e.1-1.part", 1000);
        std::fs::write(place.path.join("other"), "").expect("a file");
        assert!(folder.read("a").is_some());
        let folder = Folder::new(place.path.clone(), 12 * FILE_BYTES);
        folder.trim().expect("it is ours");
        let mut names = folder.names();
        names.sort();
        assert_eq!(names, ["a", "c", "d"]);
        assert!(!place.path.join("e.1-1.part").exists() && place.path.join("other").exists());
        folder.write("f", &[0; 4 * FILE_BYTES as usize]);
        assert_eq!(folder.read("f"), None, "larger than a quarter of all");
    }
}
