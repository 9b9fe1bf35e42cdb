//! `weld run FILE --arg JSON --arg NAME=@FILE.json`: runs one definition and prints its result as JSON.
//!
//! The language follows from the end of the file's name (`.weld`, `.ttl`, `.gt.py`, `.ml`).

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use weld_core::diag::Diagnostic;
use weld_frontend::{Given, Options, json};

use crate::failure::{Failure, Result};
use crate::output;
use crate::program::{self, Call, Settings};

#[derive(ClapArgs)]
pub(crate) struct Args {
    /// The program; `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// An argument of the program, as JSON, or @FILE that holds it; in the order of its parameters, or with their names
    #[arg(long = "arg", value_name = "[NAME=]JSON", allow_hyphen_values = true)]
    args: Vec<String>,
    /// The definition to run [default: the last]
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// The language [default: by the end of the file's name]
    #[arg(long, value_name = "LANGUAGE")]
    language: Option<String>,
    /// The compute domain of a stencil
    #[arg(long, value_name = "NI,NJ,NK", value_delimiter = ',')]
    domain: Vec<u64>,
    /// A name whose gradient is printed, too; may be given many times
    #[arg(long, value_name = "NAME")]
    wrt: Vec<String>,
    #[command(flatten)]
    settings: Settings,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let language = program::language_of(&args.file, args.language.as_deref())?;
    let source = program::read(&args.file)?;
    let name = args.file.display().to_string();
    let failed = |diagnostics: &[Diagnostic]| program::report(diagnostics, &source, &name);
    let options = Options { domain: domain(&args.domain)?, wrt: args.wrt.clone(), ..Options::default() };
    let (entry, given) = (args.entry.as_deref(), given(&args.args)?);
    let call = Call { language, text: &source, entry, given, options };
    let function = args.settings.function(&call).map_err(|diagnostics| failed(&diagnostics))?;
    let Some(values) = call.given.read(&function).map_err(|error| Failure::Usage(error.message))? else {
        return output::line("null");
    };
    let program = args.settings.optimizer.optimized(function.program.clone());
    let value = args.settings.run(&program, &values).map_err(|diagnostic| {
        let (source, diagnostic) = function.source.located(diagnostic);
        program::report(&[diagnostic], &source.text, &name)
    })?;
    output::line(&json::write(&value, &function.output()).to_string())
}

fn domain(sizes: &[u64]) -> Result<Option<[u64; 3]>> {
    match sizes {
        [] => Ok(None),
        [ni, nj, nk] => Ok(Some([*ni, *nj, *nk])),
        _ => Err(Failure::Usage("--domain needs three sizes: NI,NJ,NK".to_owned())),
    }
}

/// Reads the arguments.
fn given(texts: &[String]) -> Result<Given> {
    let mut given = Given::default();
    for (index, text) in texts.iter().enumerate() {
        let failed = |message: String| Failure::Usage(format!("--arg number {}: {message}", index + 1));
        let (name, text) = named(text);
        // Command lines are short: large arguments come from files.
        let content = text.strip_prefix('@').map(|file| program::read(Path::new(file))).transpose()?;
        let text = content.as_deref().unwrap_or(text);
        let value = serde_json::from_str(text).map_err(|error| failed(error.to_string()))?;
        given.push(name.map(str::to_owned), None, value);
    }
    Ok(given)
}

/// `NAME=` and what follows it. No JSON begins with a word and `=`.
fn named(text: &str) -> (Option<&str>, &str) {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_alphanumeric() || c == '_')
    };
    match text.split_once('=') {
        Some((name, value)) if is_name(name) => (Some(name), value),
        _ => (None, text),
    }
}
