//! `weld fmt FILE..`: lays programs of Weld's own language out anew, in place; from standard input to standard output
//! when no file is named.

use std::path::PathBuf;

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
    if args.files.is_empty() {
        let source = program::read_input()?;
        let text = formatted(&source, "standard input")?;
        return match args.check {
            true if text != source => Err(Failure::new("standard input is not formatted")),
            true => Ok(()),
            false => output::print(&text),
        };
    }
    let mut unformatted = Vec::new();
    for file in &args.files {
        let name = file.display().to_string();
        let source = program::read(file)?;
        let text = formatted(&source, &name)?;
        if text == source {
            continue;
        }
        if args.check {
            unformatted.push(name);
        } else {
            std::fs::write(file, text).map_err(|error| Failure::new(format!("cannot write {name}: {error}")))?;
        }
    }
    if unformatted.is_empty() {
        Ok(())
    } else {
        Err(Failure::new(format!("not formatted: {}", unformatted.join(", "))))
    }
}

fn formatted(source: &str, name: &str) -> Result<String> {
    syntax::format(source).map_err(|diagnostics| program::report(&diagnostics, source, name))
}
