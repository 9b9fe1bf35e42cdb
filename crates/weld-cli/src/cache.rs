//! `weld cache`: machine code that earlier commands have left on disk.
//!
//! `weld sql` keeps it in `weld` under `$XDG_CACHE_HOME`, or under `~/.cache`. It may be deleted at any time.

use std::io::ErrorKind;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use weld_codegen::CodeFolder;
use weld_datafusion::WeldOptions;

use crate::failure::{Failure, Result};
use crate::output;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Where the code is, and how much there is of it
    Info(Folder),
    /// Delete it
    Clear(Folder),
}

#[derive(Args)]
pub(crate) struct Folder {
    /// Folder of machine code that commands share [default: weld in the user's cache folder]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
}

/// Whether a command keeps code, and where.
#[derive(Args)]
pub(crate) struct Use {
    #[command(flatten)]
    folder: Folder,
    /// Keep no code on disk, and take none from there
    #[arg(long, conflicts_with = "cache_dir")]
    no_cache: bool,
}

impl Folder {
    fn path(&self) -> Option<PathBuf> {
        let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let user = || absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
        self.cache_dir.clone().or_else(|| user().map(|user| user.join("weld")))
    }

    fn open(&self) -> Result<CodeFolder> {
        let path = self.path().ok_or_else(|| Failure::new("neither XDG_CACHE_HOME nor HOME is an absolute path"))?;
        Ok(CodeFolder::new(path, *WeldOptions::default().cache_dir_size.value()))
    }
}

impl Use {
    pub(crate) fn settings(&self) -> Vec<(String, String)> {
        let path = if self.no_cache { None } else { self.folder.path() };
        // A path that is no text cannot be a setting.
        let path = path.and_then(|path| path.into_os_string().into_string().ok());
        path.map(|path| ("weld.cache_dir".to_owned(), path)).into_iter().collect()
    }
}

pub(crate) fn run(command: Command) -> Result<()> {
    let (folder, clears) = match &command {
        Command::Info(folder) => (folder, false),
        Command::Clear(folder) => (folder, true),
    };
    let folder = folder.open()?;
    let path = folder.path().display();
    let usage = match if clears { folder.clear() } else { folder.usage() } {
        Ok(usage) => usage,
        // Nothing was ever kept.
        Err(error) if error.kind() == ErrorKind::NotFound => weld_codegen::Usage::default(),
        Err(error) => return Err(Failure::new(format!("{path} is not used: {error}"))),
    };
    let (files, mib) = (usage.files, usage.bytes as f64 / f64::from(1 << 20));
    match clears {
        true => output::line(&format!("{path}: {files} entries deleted, {mib:.1} MiB")),
        false => {
            let mib_max = folder.bytes_max() >> 20;
            output::line(&format!("{path}: {files} entries, {mib:.1} MiB of at most {mib_max} MiB"))
        }
    }
}
