//! `weld repl`: Weld's own language, an expression at a time.
//!
//! ```text
//! weld> let v = [1L, 2L, 3L];
//! weld> map(v, |x| x * x)
//! [1,4,9]
//! ```
//! `let`, `macro` and `type` stay known until the end. An entry goes on over lines until its brackets are closed and its
//! last operator has an operand; an empty line ends one that lacks the latter.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use clap::Args as ClapArgs;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Config, Context, Editor, Helper};
use weld_core::diag::{Diagnostic, Span};
use weld_core::interp::json;
use weld_core::ir::Program;

use crate::failure::{Failure, Result};
use crate::output;
use crate::program::{self, Settings};
use crate::shell;

#[derive(ClapArgs)]
pub(crate) struct Args {
    #[command(flatten)]
    settings: Settings,
}

const HELP: &str = "\
let NAME = E;  macro NAME(..) = E;  type NAME = T;   keep a definition
EXPRESSION       its value
:type E          its type              :explain E   what the optimizer makes of it
:time E          how long it takes     :load FILE   the definitions of a file
:help            this                  :quit        or Ctrl-D";

pub(crate) fn run(args: Args) -> Result<()> {
    let config = Config::builder().auto_add_history(true).build();
    let mut editor: Editor<Completion, DefaultHistory> = Editor::with_config(config).map_err(Failure::new)?;
    let history = shell::history_file("repl");
    if let Some(path) = &history {
        // The first time there is none.
        let _ = editor.load_history(path);
    }
    let mut session = Session { settings: args.settings, definitions: String::new(), lets: String::new() };
    output::line("Weld. :help says what can be typed.")?;
    loop {
        editor.set_helper(Some(Completion { names: session.names() }));
        match editor.readline("weld> ") {
            Ok(entry) if matches!(entry.trim(), ":quit" | ":q") => break,
            Ok(entry) => match session.entry(entry.trim()) {
                Ok(()) => {}
                Err(Failure::OutputClosed) => break,
                Err(failure) => drop(failure.report()),
            },
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(Failure::new(error)),
        }
    }
    if let Some(path) = &history {
        // The history is a convenience: the disk may be full or read-only.
        let _ = editor.save_history(path);
    }
    Ok(())
}

/// What was defined so far, as text that stands before each expression. Programs are pure, so evaluating a `let` again
/// gives the same value.
struct Session {
    settings: Settings,
    /// `type` and `macro`, which must stand first.
    definitions: String,
    lets: String,
}

impl Session {
    fn entry(&mut self, entry: &str) -> Result<()> {
        let (command, rest) = entry.split_once(char::is_whitespace).unwrap_or((entry, ""));
        match command {
            "" => Ok(()),
            _ if is_blank(entry) => Ok(()),
            ":type" | ":explain" | ":time" if is_blank(rest) => {
                Err(Failure::new(format!("{command} needs an expression, such as {command} 1 + 1")))
            }
            ":help" => output::line(HELP),
            ":type" => output::line(&self.checked(rest)?.body.ty.to_string()),
            ":explain" => self.explain(rest),
            ":time" => self.evaluate(rest, true),
            ":load" => self.load(Path::new(rest.trim())),
            _ if command.starts_with(':') => Err(Failure::new(format!("no command {command}; :help lists them"))),
            "let" | "macro" | "type" if is_definition(entry) => self.define(entry),
            _ => self.evaluate(entry, false),
        }
    }

    /// The definitions, then the text.
    fn source(&self, text: &str) -> String {
        format!("{}{}{text}", self.definitions, self.lets)
    }

    fn checked(&self, text: &str) -> Result<Program> {
        self.settings.checked(&self.source(text)).map_err(|errors| self.report(errors, text))
    }

    /// Reports errors in the text alone by its own lines.
    fn report(&self, mut errors: Vec<Diagnostic>, text: &str) -> Failure {
        let before = (self.definitions.len() + self.lets.len()) as u32;
        let spans = |error: &Diagnostic| {
            error.labels.iter().all(|(span, _)| span.start >= before) && error.span.start >= before
        };
        if !errors.iter().all(spans) {
            return program::report(&errors, &self.source(text), "repl");
        }
        for error in &mut errors {
            for span in error.labels.iter_mut().map(|(span, _)| span).chain([&mut error.span]) {
                *span = Span { start: span.start - before, end: span.end - before };
            }
        }
        program::report(&errors, text, "repl")
    }

    fn define(&mut self, entry: &str) -> Result<()> {
        let mut extended =
            Session { definitions: self.definitions.clone(), lets: self.lets.clone(), settings: self.settings.clone() };
        let target = if entry.starts_with("let") { &mut extended.lets } else { &mut extended.definitions };
        target.push_str(entry);
        target.push('\n');
        // A definition that is wrong is not kept.
        extended.checked("0")?;
        *self = extended;
        Ok(())
    }

    fn load(&mut self, path: &Path) -> Result<()> {
        // The file's definitions only: with an expression at its end it is a program, which `weld run` runs.
        let text = program::read(path)?;
        self.define_text(&text)
    }

    fn define_text(&mut self, text: &str) -> Result<()> {
        let mut start = 0;
        for end in statement_ends(text) {
            let statement = text[start..end].trim();
            if !is_definition(statement) {
                break;
            }
            self.define(statement)?;
            start = end;
        }
        Ok(())
    }

    fn evaluate(&self, text: &str, timed: bool) -> Result<()> {
        let program = self.checked(text)?;
        if !program.params.is_empty() {
            return output::line(&format!("a program of {} arguments; `weld run` runs it", program.params.len()));
        }
        let start = Instant::now();
        let program = self.settings.optimizer.optimized(program);
        let value = self.settings.run(&program, &[]);
        let elapsed = start.elapsed();
        let value = value.map_err(|error| self.report(vec![error], text))?;
        output::line(&json::to_json(&value).to_string())?;
        if timed {
            output::line(&format!("{:.3} ms, compiling included", elapsed.as_secs_f64() * 1e3))?;
        }
        Ok(())
    }

    fn explain(&self, text: &str) -> Result<()> {
        let mut program = self.checked(text)?;
        self.settings.optimizer.run(&mut program, None);
        output::line(&program.to_string())
    }

    /// The language's words and what was defined.
    fn names(&self) -> BTreeSet<String> {
        let mut names: BTreeSet<String> = WORDS.split_whitespace().map(str::to_owned).collect();
        let text = format!("{}{}", self.definitions, self.lets);
        let mut words = text.split(|c: char| !is_word(c)).filter(|word| !word.is_empty());
        while let Some(word) = words.next() {
            if matches!(word, "let" | "macro" | "type") {
                names.extend(words.next().map(str::to_owned));
            }
        }
        names
    }
}

const WORDS: &str = "let macro type true false bool i8 i16 i32 i64 i128 u8 u16 u32 u64 f32 f64 vec dict simd \
    appender merger dictmerger groupbuilder groupmerger vecmerger for merge result if select iterate lookup optlookup \
    keyexists len slice sort tovec zip iter simditer fringeiter rangeiter nditer map filter flatten compare sum \
    min max pow exp log sqrt sin cos tan asin acos atan sinh cosh tanh erf serialize deserialize cudf broadcast assert \
    update :type :explain :time :load :help :quit";

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == ':'
}

/// A `let`, `macro` or `type` that ends with its `;`: nothing follows that would make it an expression.
fn is_definition(entry: &str) -> bool {
    let is_keyword = matches!(entry.split_whitespace().next(), Some("let" | "macro" | "type"));
    is_keyword && entry.ends_with(';') && statement_ends(entry).last() == Some(&entry.len())
}

/// Where the statements of a text end: after each `;` outside brackets, strings and comments.
fn statement_ends(text: &str) -> Vec<usize> {
    let mut ends = Vec::new();
    scan(text, |index, byte, depth| {
        if byte == b';' && depth == 0 {
            ends.push(index + 1);
        }
    });
    ends
}

/// Calls `visit` with each byte of code and the depth of brackets around it; gives the depth at the end.
fn scan(text: &str, mut visit: impl FnMut(usize, u8, i32)) -> i32 {
    let (mut depth, mut in_string, mut in_comment, mut escaped) = (0, false, false, false);
    for (index, byte) in text.bytes().enumerate() {
        if in_comment {
            in_comment = byte != b'\n';
        } else if in_string {
            in_string = escaped || byte != b'"';
            escaped = byte == b'\\' && !escaped;
        } else {
            match byte {
                b'#' => in_comment = true,
                b'"' => in_string = true,
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => depth -= 1,
                _ => visit(index, byte, depth),
            }
        }
    }
    depth
}

/// Nothing but comments.
fn is_blank(text: &str) -> bool {
    text.lines().all(|line| line.trim().is_empty() || line.trim().starts_with('#'))
}

/// Whether more has to follow: a bracket is open, or the text ends where an operand must stand.
fn goes_on(entry: &str) -> bool {
    if scan(entry, |_, _, _| {}) > 0 {
        return true;
    }
    let text = match entry.trim_start().strip_prefix(':') {
        Some(command) if command.starts_with("load") => "",
        Some(command) => command.split_once(char::is_whitespace).map_or("", |(_, text)| text),
        None => entry,
    };
    let gives_up = entry.ends_with('\n') || entry.lines().last().is_none_or(|line| line.trim().is_empty());
    if gives_up || is_blank(text) || is_definition(text.trim()) {
        return false;
    }
    let (_, errors) = weld_core::syntax::parse(text);
    errors.first().is_some_and(|error| error.message.ends_with("found the end of the program"))
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
        let start = line[..end]
            .rfind(|c| !is_word(c))
            .map_or(0, |index| index + line[index..].chars().next().map_or(1, char::len_utf8));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_end_with_their_semicolon() {
        assert!(is_definition("let x = 5;"));
        assert!(is_definition("macro twice(x) = (let y = x; y + y);"));
        assert!(!is_definition("let x = 5; x + 1"));
        assert!(!is_definition("5 + 1"));
    }

    #[test]
    fn statements_are_found_outside_brackets_strings_and_comments() {
        assert_eq!(statement_ends("a; (b; c); \"d;\\\";\"; # e;\nf;"), [2, 10, 19, 27]);
        assert!(scan("map(v, |x| {x,", |_, _, _| {}) > 0);
    }

    #[test]
    fn entries_go_on_until_they_are_complete() {
        for entry in ["map(v, |x| {x,", "1 +", "let x = 5", ":type 1 +", "let x = 5; x +", "1 + # one"] {
            assert!(goes_on(entry), "{entry}");
        }
        for entry in ["1 + 2", "1 +\n", "let x = 5;", "# comment", "", ":help", ":load a +", "1 2", ")", "\"open"] {
            assert!(!goes_on(entry), "{entry}");
        }
    }
}
