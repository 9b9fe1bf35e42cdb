//! What `weld repl` knows: definitions, and the programs that they make of an expression.
//!
//! After `let v = [1L, 2L];` and `let n = len(v);` the expression `n + 1L` is the program
//! `let v = [1L, 2L]; let n = len(v); n + 1L`. Programs are pure, so evaluating a `let` again gives the same value; one
//! that the expression does not need is left out, so that it costs nothing and cannot fail.

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use weld_core::diag::{Diagnostic, Span};
use weld_core::interp::json;
use weld_core::ir::Program;
use weld_core::op::Intrinsic;
use weld_core::syntax::{self, tree::ExprKind};

use crate::failure::{Failure, Result};
use crate::output;
use crate::program::{self, Settings};

const HELP: &str = "\
let NAME = E;  macro NAME(..) = E;  type NAME = T;   keep a definition; a new one replaces an old one
EXPRESSION       its value
:type E          its type              :explain E   what the optimizer makes of it
:time E          how long it takes     :load FILE   the definitions of a file
:help            this                  :quit        or Ctrl-D
Ctrl-C stops what runs.";

pub(crate) struct Session {
    settings: Settings,
    /// `type` and `macro`, which must stand first.
    definitions: Vec<Definition>,
    /// In their order: a later one may use earlier ones, also of its own name.
    lets: Vec<Definition>,
}

struct Definition {
    name: String,
    text: String,
    /// What follows the name.
    rest: String,
}

/// A part of a text that was typed or loaded.
struct Part<'a> {
    name: &'a str,
    text: &'a str,
    range: Range<usize>,
}

impl<'a> Part<'a> {
    fn typed(text: &'a str) -> Part<'a> {
        Part { name: "repl", text, range: 0..text.len() }
    }

    fn code(&self) -> &'a str {
        &self.text[self.range.clone()]
    }
}

impl Session {
    pub(crate) fn new(settings: Settings) -> Session {
        Session { settings, definitions: Vec::new(), lets: Vec::new() }
    }

    /// Does what was typed.
    pub(crate) fn entry(&mut self, entry: &str) -> Result<()> {
        let (command, rest) = entry.split_once(char::is_whitespace).unwrap_or((entry, ""));
        match command {
            _ if is_blank(entry) => Ok(()),
            ":type" | ":explain" | ":time" if is_blank(rest) => {
                Err(Failure::new(format!("{command} needs an expression, such as {command} 1 + 1")))
            }
            ":load" if is_blank(rest) => Err(Failure::new(":load needs a file, such as :load macros.weld")),
            ":help" => output::line(HELP),
            ":type" => output::line(&self.checked(rest)?.body.ty.to_string()),
            ":explain" => self.explain(rest),
            ":time" => self.evaluate(rest, true),
            ":load" => self.load(Path::new(rest.trim())),
            _ if command.starts_with(':') => Err(Failure::new(format!("no command {command}; :help lists them"))),
            _ if is_definition(entry) => self.define_all("repl", entry),
            _ => self.evaluate(entry, false),
        }
    }

    /// The program that an expression stands for.
    fn checked(&self, text: &str) -> Result<Program> {
        self.checked_after(&self.before(text), &Part::typed(text), "")
    }

    fn checked_after(&self, before: &str, part: &Part<'_>, after: &str) -> Result<Program> {
        let source = format!("{before}{}{after}", part.code());
        self.settings.checked(&source).map_err(|errors| report(errors, &source, before.len(), part))
    }

    /// The definitions that a text needs, each with the end of its line.
    fn before(&self, text: &str) -> String {
        let mut wanted: HashSet<&str> = words(text).collect();
        let mut lets = Vec::new();
        for binding in self.lets.iter().rev() {
            if wanted.remove(&*binding.name) {
                wanted.extend(words(&binding.rest));
                lets.push(binding);
            }
        }
        self.definitions.iter().chain(lets.into_iter().rev()).flat_map(|known| [&*known.text, "\n"]).collect()
    }

    fn define_all(&mut self, name: &str, text: &str) -> Result<()> {
        let mut start = 0;
        for end in statement_ends(text) {
            if !is_definition(text[start..end].trim()) {
                break;
            }
            self.define(&Part { name, text, range: start..end })?;
            start = end;
        }
        Ok(())
    }

    /// Keeps a `let`, `macro` or `type`, unless it is wrong.
    fn define(&mut self, part: &Part<'_>) -> Result<()> {
        let (module, _) = syntax::parse(&format!("{}0", part.code()));
        let binding = match &module.body.kind {
            ExprKind::Block { lets, .. } => lets.first().map(|binding| &binding.name),
            _ => None,
        };
        let definition = module.macros.first().map(|found| &found.name);
        let definition = definition.or(module.aliases.first().map(|found| &found.name));
        let known = |name: &syntax::tree::Name| Definition {
            name: name.text.to_string(),
            text: part.code().to_owned(),
            rest: part.code().get(name.span.end as usize..).unwrap_or_default().to_owned(),
        };
        match (definition, binding) {
            (Some(name), _) => {
                let replaced = |old: &Definition| old.name == *name.text;
                let others = self.definitions.iter().filter(|old| !replaced(old));
                let before: String = others.flat_map(|other| [&*other.text, "\n"]).collect();
                self.checked_after(&before, part, "0")?;
                self.definitions.retain(|old| !replaced(old));
                self.definitions.push(known(name));
            }
            (None, Some(name)) => {
                let binding = known(name);
                self.checked_after(&self.before(&binding.rest), part, "0")?;
                self.lets.push(binding);
            }
            // It does not parse.
            (None, None) => drop(self.checked_after("", part, "0")?),
        }
        Ok(())
    }

    fn load(&mut self, path: &Path) -> Result<()> {
        // The file's definitions only: with an expression at its end it is a program, which `weld run` runs.
        let text = program::read(path)?;
        self.define_all(&path.display().to_string(), &text)
    }

    fn evaluate(&self, text: &str, timed: bool) -> Result<()> {
        let before = self.before(text);
        let part = Part::typed(text);
        let program = self.checked_after(&before, &part, "")?;
        if !program.params.is_empty() {
            let takes = program::takes(program.params.len());
            return Err(Failure::new(format!("{takes}, and there are none here; `weld run` runs it")));
        }
        let start = Instant::now();
        let program = self.settings.optimizer.optimized(program);
        let value = self.settings.run(&program, &[]);
        let elapsed = start.elapsed();
        let value = value.map_err(|error| report(vec![error], &format!("{before}{text}"), before.len(), &part))?;
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
    pub(crate) fn names(&self) -> BTreeSet<String> {
        let defined = self.definitions.iter().chain(&self.lets).map(|known| known.name.clone());
        let intrinsics = Intrinsic::ALL.into_iter().map(|intrinsic| intrinsic.name().to_owned());
        WORDS.split_whitespace().map(str::to_owned).chain(intrinsics).chain(defined).collect()
    }
}

/// Reports errors in `source`, which has the part's code at `start`: by the part's own lines where it alone is meant.
fn report(mut errors: Vec<Diagnostic>, source: &str, start: usize, part: &Part<'_>) -> Failure {
    let code = start as u32..=(start + part.code().len()) as u32;
    let spans = |error: &Diagnostic| error.labels.iter().map(|(span, _)| *span).chain([error.span]).collect::<Vec<_>>();
    if !errors.iter().flat_map(spans).all(|span| code.contains(&span.start) && code.contains(&span.end)) {
        return program::report(&errors, source, part.name);
    }
    for error in &mut errors {
        for span in error.labels.iter_mut().map(|(span, _)| span).chain([&mut error.span]) {
            let moved = |offset: u32| offset as usize - start + part.range.start;
            *span = Span::new(moved(span.start), moved(span.end));
        }
    }
    program::report(&errors, part.text, part.name)
}

const WORDS: &str = "let macro type true false bool i8 i16 i32 i64 i128 u8 u16 u32 u64 f32 f64 vec dict simd \
    appender merger dictmerger numberer groupbuilder groupmerger vecmerger for merge result if select iterate lookup optlookup \
    keyexists len slice sort tovec zip iter simditer fringeiter rangeiter nditer map filter flatten compare sum \
    min max pow exp log sqrt sin cos tan asin acos atan sinh cosh tanh erf serialize deserialize cudf broadcast assert \
    update :type :explain :time :load :help :quit";

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !is_word(c)).filter(|word| !word.is_empty())
}

pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Statements alone, each a `let`, `macro` or `type` that ends with its `;`.
fn is_definition(entry: &str) -> bool {
    let mut start = 0;
    for end in statement_ends(entry) {
        let code = entry[start..end].lines().map(str::trim_start).find(|line| !is_blank(line));
        if !code.is_some_and(|code| matches!(words(code).next(), Some("let" | "macro" | "type"))) {
            return false;
        }
        start = end;
    }
    start > 0 && is_blank(&entry[start..])
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
pub(crate) fn goes_on(entry: &str) -> bool {
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
    let (_, errors) = syntax::parse(text);
    errors.first().is_some_and(|error| error.message.ends_with("found the end of the program"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_end_with_their_semicolon() {
        for entry in ["let x = 5;", "macro twice(x) = (let y = x; y + y);", "# c\ntype t = i64; let x = 5; # five"] {
            assert!(is_definition(entry), "{entry}");
        }
        for entry in ["let x = 5; x + 1", "let x = 5; x + 1;", "5 + 1", "", "letter;"] {
            assert!(!is_definition(entry), "{entry}");
        }
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
