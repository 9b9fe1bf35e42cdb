//! The tables of a benchmark as Parquet files, made when they are absent.
//!
//! Files are written in a folder beside the target, which takes the target's name when it is complete: an interrupted
//! run leaves no half table. What it leaves of that folder the next run removes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};
use parquet::errors::Result as ParquetResult;

use super::generated::Generated;
use crate::failure::{Doing, Failure, Result};

/// Makes the files unless they are there.
pub(super) fn ensure(benchmark: &Generated, folder: &Path, scale_factor: f64) -> Result<()> {
    let shown = folder.display();
    let Some(missing) = missing(benchmark, folder) else { return Ok(()) };
    let is_empty = match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => return Err(Failure::new(format!("cannot read {shown}: {error}"))),
    };
    if !is_empty {
        // Somebody's files: neither to be overwritten nor to be completed by guessing their scale factor.
        return Err(Failure::new(format!("{shown} holds files, but no {missing}.parquet")));
    }
    generate(benchmark, folder, scale_factor).doing(format_args!("cannot write {shown}"))
}

fn missing(benchmark: &Generated, folder: &Path) -> Option<&'static str> {
    benchmark.tables.iter().copied().find(|table| !file(folder, table).exists())
}

pub(super) fn file(folder: &Path, table: &str) -> PathBuf {
    folder.join(format!("{table}.parquet"))
}

fn generate(benchmark: &Generated, folder: &Path, scale_factor: f64) -> ParquetResult<()> {
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(parent)?;
    remove_abandoned(parent);
    let prefix = format!("{UNFINISHED}{}-", std::process::id());
    let unfinished = tempfile::Builder::new().prefix(&prefix).tempdir_in(parent)?;
    let progress = progress_bar((benchmark.steps)(scale_factor));
    eprintln!("Making {} data of scale factor {scale_factor} in {}", benchmark.title, folder.display());
    (benchmark.write)(unfinished.path(), scale_factor, &progress)?;
    progress.finish_and_clear();
    match fs::rename(unfinished.path(), folder) {
        // Nothing is left to clean up.
        Ok(()) => drop(unfinished.keep()),
        // Another process was faster.
        Err(_) if missing(benchmark, folder).is_none() => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// How the names of folders that are being filled begin; the number of the process that does follows.
const UNFINISHED: &str = ".weld-data-";

/// Removes what processes that were interrupted have left. What cannot be removed is in nobody's way.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process =
            name.to_str().and_then(|name| name.strip_prefix(UNFINISHED)?.split_once('-')?.0.parse::<u32>().ok());
        let is_abandoned =
            |process: u32| Path::new("/proc/self").exists() && !Path::new(&format!("/proc/{process}")).exists();
        if process.is_some_and(is_abandoned) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn progress_bar(parts: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:10} {wide_bar} {pos}/{len}, {eta} left");
    ProgressBar::new(parts).with_style(style.expect("the template is a constant that parses"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_dead_processes_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let folder = |process: u32| parent.path().join(format!("{UNFINISHED}{process}-abc"));
        let alive = folder(std::process::id());
        // Larger than any process number.
        let abandoned = folder(u32::MAX);
        let other = parent.path().join(".weld-data-mine");
        for path in [&alive, &abandoned, &other] {
            fs::create_dir(path).unwrap();
        }
        remove_abandoned(parent.path());
        assert_eq!([alive, abandoned, other].map(|path| path.exists()), [true, false, true]);
    }
}
