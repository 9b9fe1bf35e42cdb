//! Test cases: what a `.weld` file says about its programs.
//!
//! A file holds cases separated by lines of `---`. Lines of a case that start with `# word:` and a known word are its
//! headers; the whole case is the program.
//!
//! ```text
//! # test: run                       or parse, print, or: pass NAME
//! # args: [[1, 2, 3], 5]            a JSON array of the arguments; `#+ ` continues a header's line
//! # expect: 6                       the result as JSON
//! # type: i64                       the type of the result
//! # error: runtime IndexOutOfBounds: index 5     its kind and a part of its message
//! # at: lookup(v, 5L)               the text that the error points at
//! # tolerance: 1e-6                 relative, for floats (1e-9 for f64, 1e-5 for f32 if not given)
//! # unordered: true                 vectors in the result may come in any order
//! # memory: 1000000                 the run's memory limit in bytes
//! # steps: 1000                     the interpreter's limit of iterations
//! # only: interp                    runs on this engine alone (with a reason)
//! |v: vec[i64], n: i64| ...
//! ```
//! Golden text (`print`, `pass`) stands in lines that begin with `#> `; `WELD_BLESS=1` writes them.

use std::fmt;

/// What is done with a case's program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Test {
    /// Run by every engine, with one expectation.
    Run,
    /// Parsed, printed, and compared with golden text.
    Print,
    /// One optimizer pass (or `all`), printed and compared with golden text; also run as `Run` if there is an
    /// expectation.
    Pass(String),
}

/// One program with what is expected of it.
#[derive(Clone, Debug)]
pub struct Case {
    /// Line of the file on which the case starts, from 1.
    pub line: usize,
    pub source: String,
    pub test: Test,
    pub args: Option<String>,
    pub expect: Option<String>,
    pub ty: Option<String>,
    pub error: Option<String>,
    pub at: Option<String>,
    pub tolerance: Option<f64>,
    pub unordered: bool,
    pub memory: Option<usize>,
    pub steps: Option<u64>,
    pub only: Option<String>,
    /// The golden text in the file.
    pub golden: String,
}

/// A header that says nothing sensible.
#[derive(Debug)]
pub struct BadHeader {
    pub line: usize,
    pub message: String,
}

impl fmt::Display for BadHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

/// The line between two cases.
pub const SEPARATOR: &str = "---";

/// The cases of a file.
pub fn parse(text: &str) -> Result<Vec<Case>, BadHeader> {
    let mut cases = Vec::new();
    let mut start = 1;
    let mut lines: Vec<&str> = Vec::new();
    for (i, line) in text.lines().chain([SEPARATOR]).enumerate() {
        if line.trim_end() == SEPARATOR {
            if lines.iter().any(|line| !line.trim().is_empty()) {
                cases.push(parse_case(&lines, start)?);
            }
            lines.clear();
            start = i + 2;
        } else {
            lines.push(line);
        }
    }
    Ok(cases)
}

fn parse_case(lines: &[&str], start: usize) -> Result<Case, BadHeader> {
    let mut case = Case {
        line: start,
        source: lines.join("\n"),
        test: Test::Run,
        args: None,
        expect: None,
        ty: None,
        error: None,
        at: None,
        tolerance: None,
        unordered: false,
        memory: None,
        steps: None,
        only: None,
        golden: lines.iter().filter_map(|line| line.strip_prefix("#>")).map(golden_line).collect(),
    };
    let mut i = 0;
    while i < lines.len() {
        let line = start + i;
        let header = lines[i].strip_prefix("# ").and_then(|rest| rest.split_once(':'));
        i += 1;
        let Some((word, value)) = header else { continue };
        let mut value = value.trim().to_string();
        while let Some(more) = lines.get(i).and_then(|line| line.strip_prefix("#+")) {
            value.push_str(more);
            i += 1;
        }
        set_header(&mut case, word, value).map_err(|message| BadHeader { line, message })?;
    }
    if case.test == Test::Run && case.expect.is_none() && case.error.is_none() {
        return Err(BadHeader { line: start, message: "a case expects a value or an error".into() });
    }
    Ok(case)
}

fn golden_line(line: &str) -> String {
    format!("{}\n", line.strip_prefix(' ').unwrap_or(line))
}

/// Words that are no headers are prose.
fn set_header(case: &mut Case, word: &str, value: String) -> Result<(), String> {
    let number = |value: &str| value.parse::<u64>().map_err(|e| format!("{word}: {e}"));
    match word {
        "test" => {
            case.test = match value.split_whitespace().collect::<Vec<_>>()[..] {
                ["run"] => Test::Run,
                ["print"] => Test::Print,
                ["pass", name] => Test::Pass(name.to_string()),
                _ => return Err(format!("no test is called `{value}`")),
            }
        }
        "args" => case.args = Some(value),
        "expect" => case.expect = Some(value),
        "type" => case.ty = Some(value),
        "error" => case.error = Some(value),
        "at" => case.at = Some(value),
        "tolerance" => case.tolerance = Some(value.parse().map_err(|e| format!("tolerance: {e}"))?),
        "unordered" => case.unordered = value == "true",
        "memory" => case.memory = Some(number(&value)? as usize),
        "steps" => case.steps = Some(number(&value)?),
        "only" => case.only = Some(value),
        _ => {}
    }
    Ok(())
}

/// The case's text with other golden lines, which stand after its headers.
pub fn with_golden(source: &str, golden: &str) -> String {
    let lines: Vec<&str> = source.lines().filter(|line| !line.starts_with("#>")).collect();
    let headers = lines.iter().take_while(|line| line.starts_with('#') || line.trim().is_empty()).count();
    let (before, after) = lines.split_at(headers);
    let golden = golden.lines().map(|line| format!("#> {line}").trim_end().to_string());
    let all: Vec<String> = before
        .iter()
        .map(|line| line.to_string())
        .chain(golden)
        .chain(after.iter().map(|line| line.to_string()))
        .collect();
    all.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_cases() {
        let text = "# expect: [1,\n#+ 2]\n[1, 2]\n---\n# note: prose\n# error: type: no\n1 + true\n";
        let cases = parse(text).expect("good headers");
        assert_eq!(cases.len(), 2);
        assert_eq!(cases[0].expect.as_deref(), Some("[1, 2]"));
        assert_eq!((cases[1].line, cases[1].error.as_deref()), (5, Some("type: no")));
        assert!(parse("1 + 1").is_err());
    }

    #[test]
    fn blessing_replaces_golden_lines() {
        let source = "# test: print\n#> old\n1 + 1";
        assert_eq!(with_golden(source, "new\nlines\n"), "# test: print\n#> new\n#> lines\n1 + 1");
        assert_eq!(parse(source).expect("good headers")[0].golden, "old\n");
    }
}
