//! `weld repl`: Weld's own language, an expression at a time.
//!
//! ```text
//! weld> let v = [1L, 2L, 3L];
//! weld> map(v, |x| x * x)
//! [1,4,9]
//! ```
//! `let`, `macro` and `type` stay known until the end. An entry goes on over lines until its brackets are closed and
//! its last operator has an operand; an empty line ends one that lacks the latter. Ctrl-C stops an evaluation.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args as ClapArgs;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Config, Context, Editor, Helper};
use signal_hook::consts::SIGINT;

use crate::failure::{Failure, Result};
use crate::output;
use crate::program::Settings;
use crate::session::{Session, goes_on, is_word};
use crate::shell;

#[derive(ClapArgs)]
pub(crate) struct Args {
    #[command(flatten)]
    settings: Settings,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let config = Config::builder().auto_add_history(true).build();
    let mut editor: Editor<Completion, DefaultHistory> = Editor::with_config(config).map_err(Failure::new)?;
    let history = shell::history_file("repl").filter(|_| io::stdin().is_terminal());
    if let Some(path) = &history {
        // The first time there is none.
        let _ = editor.load_history(path);
    }
    let mut session = Session::new(args.settings.interrupted_by(interrupts()?));
    output::line("Weld. :help says what can be typed.")?;
    loop {
        editor.set_helper(Some(Completion { names: session.names() }));
        match editor.readline("weld> ") {
            Ok(entry) => {
                if let Some(path) = &history {
                    // The history is a convenience: the disk may be full or read-only.
                    let _ = editor.append_history(path);
                }
                if matches!(entry.trim(), ":quit" | ":q") {
                    break;
                }
                match session.entry(entry.trim()) {
                    Ok(()) => {}
                    Err(Failure::OutputClosed) => break,
                    Err(failure) => drop(failure.report()),
                }
            }
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(Failure::new(error)),
        }
    }
    Ok(())
}

/// A flag that Ctrl-C sets. A second one, before the flag is noticed, ends the process with the usual code.
fn interrupts() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register_conditional_shutdown(SIGINT, 130, flag.clone())?;
    signal_hook::flag::register(SIGINT, flag.clone())?;
    Ok(flag)
}

/// Completes names and asks for more lines while an entry is not complete.
struct Completion {
    names: BTreeSet<String>,
}

impl Helper for Completion {}
impl Highlighter for Completion {}
impl Hinter for Completion {
    type Hint = String;
}

impl Completer for Completion {
    type Candidate = String;

    fn complete(&self, line: &str, end: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let start = line[..end].trim_end_matches(is_word).len();
        // The colon of a command.
        let start = if line[..start].trim() == ":" { start - 1 } else { start };
        let prefix = &line[start..end];
        let found = self.names.range(prefix.to_owned()..).take_while(|name| name.starts_with(prefix));
        Ok((start, found.cloned().collect()))
    }
}

impl Validator for Completion {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if goes_on(context.input()) { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}
