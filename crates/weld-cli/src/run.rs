//! `weld run FILE.weld --arg JSON --arg @FILE.json`: runs one program and prints its result as JSON.

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use weld_core::diag::{Diagnostic, shortened};
use weld_core::interp::{Value, json};
use weld_core::ir::Program;

use crate::failure::{Failure, Result};
use crate::output;
use crate::program::{self, Settings};

#[derive(ClapArgs)]
pub(crate) struct Args {
    /// The program; `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// An argument of the program, as JSON, or @FILE that holds it; in the order of its parameters
    #[arg(long = "arg", value_name = "JSON", allow_hyphen_values = true)]
    args: Vec<String>,
    #[command(flatten)]
    settings: Settings,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let source = program::read(&args.file)?;
    let name = args.file.display().to_string();
    let failed = |diagnostics: &[Diagnostic]| program::report(diagnostics, &source, &name);
    let program = args.settings.program(&source).map_err(|diagnostics| failed(&diagnostics))?;
    let values = arguments(program.program(), &args.args)?;
    let value = args.settings.run(&program, &values).map_err(|diagnostic| failed(&[diagnostic]))?;
    output::line(&json::to_json(&value).to_string())
}

/// Reads the arguments by the types of the parameters.
fn arguments(program: &Program, texts: &[String]) -> Result<Vec<Value>> {
    if texts.len() != program.params.len() {
        let types: Vec<String> = program.params.iter().map(|param| param.ty.to_string()).collect();
        let takes = format!("{}, --arg gives {}", program::takes(types.len()), texts.len());
        return Err(Failure::Usage(shortened(match types.is_empty() {
            true => takes,
            false => format!("{takes}; their types are {}", types.join(", ")),
        })));
    }
    let parse = |(index, text): (usize, &String)| {
        let failed = |message: String| Failure::Usage(format!("--arg number {}: {message}", index + 1));
        // Command lines are short: large arguments come from files.
        let content = text.strip_prefix('@').map(|file| program::read(Path::new(file))).transpose()?;
        let text = content.as_deref().unwrap_or(text);
        let value = serde_json::from_str(text).map_err(|error| failed(error.to_string()))?;
        json::from_json(&value, &program.params[index].ty).map_err(failed)
    };
    texts.iter().enumerate().map(parse).collect()
}
