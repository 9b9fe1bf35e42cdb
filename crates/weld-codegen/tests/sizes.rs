//! Functions of more than 80 lines and structs of more than 12 fields have the reason in a comment above them:
//!
//! ```text
//! // More than 80 lines: ..
//! // More than 12 fields: ..
//! ```

use std::fs;
use std::path::{Path, PathBuf};

const LINES_MAX: usize = 80;
const FIELDS_MAX: usize = 12;

/// What is too large in a text and gives no reason.
fn too_large(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let indent = &line[..line.len() - line.trim_start().len()];
        let end = lines[at..].iter().position(|line| line.strip_prefix(indent) == Some("}"));
        let (Some(name), Some(end)) = (declared(line), end) else { continue };
        // What ends on its own line has no body below it.
        if line.ends_with(';') || line.ends_with('}') {
            continue;
        }
        let (size, most, what) = match line.contains("fn ") {
            true => (end + 1, LINES_MAX, "lines"),
            false => (lines[at..at + end].iter().filter(|line| is_field(line, indent)).count(), FIELDS_MAX, "fields"),
        };
        let above = lines[..at].iter().rev().take_while(|line| is_above(line));
        let reason = format!("// More than {most} {what}: ");
        let has_reason = above.into_iter().any(|line| line.trim_start().starts_with(&reason));
        if size > most && !has_reason {
            found.push(format!("{name} has {size} {what}"));
        }
    }
    found
}

/// The name of the function or struct that a line begins to declare.
fn declared(line: &str) -> Option<&str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "fn" || *word == "struct")?;
    let is_modifier =
        |word: &&str| word.starts_with("pub") || ["const", "unsafe", "extern", "\"C\"", "async"].contains(word);
    let name = words.get(at + 1)?;
    words[..at].iter().all(is_modifier).then(|| name.split(['(', '<']).next().unwrap_or(name))
}

/// Whether a line of a struct's body declares a field, not a comment or an attribute.
fn is_field(line: &str, indent: &str) -> bool {
    let Some(rest) = line.strip_prefix(indent).and_then(|line| line.strip_prefix("    ")) else { return false };
    let name = rest.strip_prefix("pub ").or_else(|| rest.split_once(") ").map(|(_, rest)| rest)).unwrap_or(rest);
    let word = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(0);
    word > 0 && name[word..].starts_with(": ")
}

/// Comments and attributes above a declaration.
fn is_above(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("//") || line.starts_with("#[")
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry of the folder").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn functions_and_structs_are_small() {
    let mut paths = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut paths);
    assert!(!paths.is_empty());
    let large = paths.iter().flat_map(|path| {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        too_large(&text).into_iter().map(move |what| format!("{}: {what}", path.display()))
    });
    let large: Vec<String> = large.collect();
    assert!(large.is_empty(), "without a reason beside it:\n{}", large.join("\n"));
}

#[test]
fn what_is_large_is_found() {
    let body = "    step();\n".repeat(LINES_MAX);
    let function = format!("pub(crate) fn long(\n    a: i32,\n) {{\n{body}}}\n");
    assert_eq!(too_large(&function), ["long has 84 lines"]);
    assert!(too_large(&format!("/// Does it.\n// More than 80 lines: one sequence.\n#[test]\n{function}")).is_empty());
    assert!(too_large(&format!("// More than 80 lines: of another.\n\n{function}")).len() == 1);
    let fields: String =
        (0..=FIELDS_MAX).map(|at| format!("    /// Doc: of it.\n    pub(crate) f{at}: i32,\n")).collect();
    assert_eq!(too_large(&format!("struct Wide<'c> {{\n{fields}}}\n")), ["Wide has 13 fields"]);
    assert!(too_large(&format!("struct Wide {{\n{}}}\n", fields.replace("f0: i32,", "f0_of(i32),"))).is_empty());
}
