//! The SQL shell: line editing, history, statements over many lines.
//!
//! A statement runs when a line ends it with `;`. `\d` lists the tables, `\q` or Ctrl-D leaves. Errors are printed and
//! the shell goes on.

use std::path::PathBuf;
use std::time::Instant;

use datafusion::prelude::SessionContext;
use rustyline::error::ReadlineError;
use rustyline::{Config, DefaultEditor};

use crate::engine::Runtime;
use crate::failure::{Failure, Result};
use crate::output::{self, Format};
use crate::sql;

const HELP: &str = "Statements end with ;   \\d lists the tables, \\d NAME describes one, \\q leaves.";

pub(crate) fn run(runtime: &Runtime, session: &SessionContext, format: Format) -> Result<()> {
    let mut editor = editor()?;
    let history = history_file("sql");
    if let Some(path) = &history {
        // The first time there is none.
        let _ = editor.load_history(path);
    }
    output::line(HELP)?;
    let mut pending = String::new();
    loop {
        let prompt = if pending.is_empty() { "weld> " } else { "  ... " };
        match editor.readline(prompt) {
            Ok(line) => pending.push_str(&line),
            // Ctrl-C gives up what was typed, Ctrl-D ends.
            Err(ReadlineError::Interrupted) => {
                pending.clear();
                continue;
            }
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(Failure::new(error)),
        }
        let entry = pending.trim();
        if entry.is_empty() {
            pending.clear();
            continue;
        }
        if !is_complete(entry) {
            pending.push('\n');
            continue;
        }
        // The history is a convenience: it may be full or on a read-only disk.
        let _ = editor.add_history_entry(entry);
        if matches!(entry, "\\q" | "quit" | "exit" | "quit;" | "exit;") {
            break;
        }
        match runtime.block_on(run_entry(session, entry, format)) {
            Err(Failure::OutputClosed) => break,
            Err(failure) => drop(failure.report()),
            Ok(()) => {}
        }
        pending.clear();
    }
    if let Some(path) = &history {
        let _ = editor.save_history(path);
    }
    Ok(())
}

pub(crate) fn editor() -> Result<DefaultEditor> {
    let config = Config::builder().auto_add_history(false).max_history_size(1_000).map_err(Failure::new)?.build();
    DefaultEditor::with_config(config).map_err(Failure::new)
}

/// Where the entries of a shell are kept between sessions.
pub(crate) fn history_file(name: &str) -> Option<PathBuf> {
    let home = PathBuf::from(std::env::var_os("HOME")?);
    Some(home.join(format!(".weld_{name}_history")))
}

fn is_complete(entry: &str) -> bool {
    entry.ends_with(';') || entry.starts_with('\\') || matches!(entry, "quit" | "exit")
}

async fn run_entry(session: &SessionContext, entry: &str, format: Format) -> Result<()> {
    let text = match entry.strip_prefix('\\') {
        None => entry.to_owned(),
        Some("d") => "show tables".to_owned(),
        Some(command) => match command.strip_prefix("d ") {
            Some(table) => format!("describe {}", table.trim()),
            None => return output::line(HELP),
        },
    };
    for statement in sql::parse(&text)? {
        let start = Instant::now();
        let rows = sql::run_statement(session, statement, format).await?;
        let plural = if rows == 1 { "" } else { "s" };
        output::line(&format!("{rows} row{plural} in {:.1} ms", start.elapsed().as_secs_f64() * 1e3))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_semicolon_ends_a_statement() {
        assert!(is_complete("select 1;"));
        assert!(is_complete("\\d"));
        assert!(!is_complete("select 1"));
    }
}
