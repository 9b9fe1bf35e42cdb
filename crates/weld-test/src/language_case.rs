//! Test cases of languages: a program text with the calls that are made of it.
//!
//! A file holds cases separated by lines of `---`. Comment lines with a known word are headers; `call` begins a call,
//! the headers after it belong to it. Without a `call`, the last definition is called without arguments. Comments are
//! those of the language, `//`, `#` or `(* *)`; a line that begins `//+`, `#+` or `(*+` continues the header before it.
//!
//! ```text
//! // call: area [2.5, [1, 2]]         definition (or none: the last) and arguments; or by name: {"w": 2.5, "h": [1, 2]}
//! // types: ["int", null]             types as the language writes them, or by name, where the text has none
//! // domain: [4, 4, 1]                the compute domain
//! // wrt: ["w"]                       gradients that are asked for
//! // expect: 7.5                      the result
//! // grads: {"w": 3}                  the gradients
//! // type: float                      the result's type as the language writes it
//! // error: runtime: index 5          its kind (parse, type, runtime) and a part of its message
//! // line: 4                          of the error; line 1 is the first line that is no header
//! // at: m{5}                         the text that the error points at
//! // tolerance: 1e-6                  relative, for floats
//! // memory: 1000000                  the run's memory limit in bytes
//! // only: interp                     runs on this engine alone (with a reason)
//! // steps: 1000                      the interpreter's limit of iterations
//! ```

use crate::case::{BadHeader, SEPARATOR};

/// A text with its calls.
#[derive(Clone, Debug)]
pub struct LanguageCase {
    /// Line of the file on which the case starts, from 1.
    pub line: usize,
    /// Without the headers that it begins with.
    pub text: String,
    pub calls: Vec<Call>,
}

/// One call with what is expected of it. Values are JSON.
#[derive(Clone, Default, Debug)]
pub struct Call {
    /// Line of the file.
    pub line: usize,
    pub entry: Option<String>,
    pub args: Option<String>,
    pub types: Option<String>,
    pub domain: Option<String>,
    pub wrt: Option<String>,
    pub expect: Option<String>,
    pub grads: Option<String>,
    pub ty: Option<String>,
    pub error: Option<String>,
    pub error_line: Option<usize>,
    pub at: Option<String>,
    pub tolerance: Option<f64>,
    pub memory: Option<usize>,
    pub steps: Option<u64>,
    pub only: Option<String>,
}

const WORDS: [&str; 15] = [
    "call",
    "types",
    "domain",
    "wrt",
    "expect",
    "grads",
    "type",
    "error",
    "line",
    "at",
    "tolerance",
    "memory",
    "steps",
    "only",
    "note",
];

/// The cases of a file.
pub fn parse(text: &str) -> Result<Vec<LanguageCase>, BadHeader> {
    let mut cases = Vec::new();
    let mut lines: Vec<&str> = Vec::new();
    let mut start = 1;
    for (i, line) in text.lines().chain([SEPARATOR]).enumerate() {
        if line.trim_end() != SEPARATOR {
            lines.push(line);
            continue;
        }
        if lines.iter().any(|line| !line.trim().is_empty()) {
            cases.push(parse_case(&lines, start)?);
        }
        lines.clear();
        start = i + 2;
    }
    Ok(cases)
}

fn parse_case(lines: &[&str], start: usize) -> Result<LanguageCase, BadHeader> {
    let mut calls: Vec<Call> = Vec::new();
    // Headers at the beginning, which are no part of the text.
    let mut leading = 0;
    let mut is_leading = true;
    let mut i = 0;
    while i < lines.len() {
        let first = i;
        i += 1;
        let comment = comment(lines[first]);
        is_leading &= comment.is_some() || lines[first].trim().is_empty();
        let header = comment.and_then(|comment| comment.trim().split_once(':'));
        let Some((word, value)) = header.filter(|(word, _)| WORDS.contains(word)) else { continue };
        let mut value = value.trim().to_owned();
        while let Some(more) = lines.get(i).and_then(|line| comment_of_more(line)) {
            value.push_str(more);
            i += 1;
        }
        if is_leading {
            leading = i;
        }
        let line = start + first;
        if word == "call" || calls.is_empty() {
            calls.push(Call { line, ..Call::default() });
        }
        let call = calls.last_mut().expect("one was pushed");
        set(call, word, value).map_err(|message| BadHeader { line, message })?;
    }
    let says_nothing = |call: &&Call| call.expect.is_none() && call.error.is_none();
    if let Some(call) = calls.iter().find(says_nothing) {
        return Err(BadHeader { line: call.line, message: "a call expects a value or an error".into() });
    }
    if calls.is_empty() {
        return Err(BadHeader { line: start, message: "a case has a call".into() });
    }
    Ok(LanguageCase { line: start, text: lines[leading..].join("\n"), calls })
}

/// What a line says that is a comment of any language.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim();
    let ocaml = || line.strip_prefix("(*").and_then(|rest| rest.strip_suffix("*)"));
    line.strip_prefix("//").or_else(|| line.strip_prefix('#')).or_else(ocaml)
}

fn comment_of_more(line: &str) -> Option<&str> {
    comment(line)?.strip_prefix('+').map(str::trim_end)
}

fn set(call: &mut Call, word: &str, value: String) -> Result<(), String> {
    let number = |value: &str| value.parse::<usize>().map_err(|error| format!("{word}: {error}"));
    match word {
        "call" => {
            let args = value.find(['[', '{']).unwrap_or(value.len());
            let (entry, args) = value.split_at(args);
            call.entry = Some(entry.trim().to_owned()).filter(|entry| !entry.is_empty());
            call.args = Some(args.to_owned()).filter(|args| !args.is_empty());
        }
        "types" => call.types = Some(value),
        "domain" => call.domain = Some(value),
        "wrt" => call.wrt = Some(value),
        "expect" => call.expect = Some(value),
        "grads" => call.grads = Some(value),
        "type" => call.ty = Some(value),
        "error" => call.error = Some(value),
        "line" => call.error_line = Some(number(&value)?),
        "at" => call.at = Some(value),
        "tolerance" => call.tolerance = Some(value.parse().map_err(|error| format!("tolerance: {error}"))?),
        "memory" => call.memory = Some(number(&value)?),
        "steps" => call.steps = Some(number(&value)? as u64),
        "only" => call.only = Some(value),
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_their_headers() {
        let text = "// Areas.\n// call: area [1,\n//+ 2]\n// expect: 2\nfunction\n// call: area {\"w\": 1}\n// error: type: h\n// line: 1\n---\n(* expect: 3 *)\nlet%op f = 3";
        let cases = parse(text).unwrap();
        assert_eq!((cases.len(), cases[0].calls.len()), (2, 2));
        let [first, second] = &cases[0].calls[..] else { panic!("two calls") };
        assert_eq!((first.entry.as_deref(), first.args.as_deref()), (Some("area"), Some("[1, 2]")));
        assert_eq!((second.error_line, second.line), (Some(1), 6));
        assert!(cases[0].text.starts_with("function\n"));
        assert_eq!((cases[1].text.as_str(), cases[1].calls[0].expect.as_deref()), ("let%op f = 3", Some("3")));
    }

    #[test]
    fn a_case_expects_something() {
        assert!(parse("function").is_err());
        assert!(parse("// call: f\nfunction").is_err());
    }
}
