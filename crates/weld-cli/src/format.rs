//! `weld fmt FILE..`: lays programs of Weld's own language out anew, in place; from standard input to standard output
//! when no file is named.

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use weld_core::syntax;

use crate::failure::{Failure, Result};
use crate::output;
use crate::program;

#[derive(ClapArgs)]
pub(crate) struct Args {
    /// The programs; standard input if there are none
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Change nothing; fail if a file is not laid out so
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: Args) -> Result<()> {
    if args.files.is_empty() || args.files == [Path::new("-")] {
        let source = program::read_input()?;
        let text = formatted(&source, "standard input")?;
        return match args.check {
            true if text != source => Err(Failure::new("standard input is not formatted")),
            true => Ok(()),
            false => output::print(&text),
        };
    }
    // One bad file does not keep the others from being formatted.
    let failures = args.files.iter().filter_map(|path| file(path, args.check).err());
    match failures.map(Failure::report).count() {
        0 => Ok(()),
        _ => Err(Failure::Reported),
    }
}

fn file(path: &Path, check: bool) -> Result<()> {
    let name = path.display().to_string();
    let source = program::read(path)?;
    let text = formatted(&source, &name)?;
    match check {
        _ if text == source => Ok(()),
        true => Err(Failure::new(format!("{name} is not formatted"))),
        false => std::fs::write(path, text).map_err(|error| Failure::new(format!("cannot write {name}: {error}"))),
    }
}

fn formatted(source: &str, name: &str) -> Result<String> {
    syntax::format(source).map_err(|diagnostics| program::report(&diagnostics, source, name))
}
