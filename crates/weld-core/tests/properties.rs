//! The parser reads anything without a panic; printing and parsing a program gives the same program.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use weld_core::ty::Type;
use weld_core::{Frontend, Signature, diag, ir, parse_type, syntax};

/// Parses with the C functions that the filetests call.
fn parse_program(source: &str) -> Result<ir::Program, Vec<diag::Diagnostic>> {
    let signature = |params: &[Type], result: Type| Signature { params: params.to_vec(), result };
    let cudfs = [
        ("add_five".to_owned(), signature(&[Type::I64], Type::I64)),
        ("sum_of".to_owned(), signature(&[Type::vec(Type::F64)], Type::F64)),
    ];
    Frontend { cudfs: cudfs.into() }.parse_program(source)
}

/// Parses, renders the errors, and if there are none prints and parses again.
fn exercise(source: &str) {
    match parse_program(source) {
        Ok(program) => {
            round_trip(&program, source);
            formatting(&program, source);
        }
        Err(errors) => {
            assert!(!errors.is_empty());
            for error in &errors {
                assert!(error.span.start <= error.span.end && error.span.end as usize <= source.len(), "{error:?}");
                diag::line_column(source, error.span.start);
            }
            diag::render(&errors, source, "any");
        }
    }
}

fn round_trip(program: &ir::Program, source: &str) {
    ir::verify(program).unwrap_or_else(|errors| panic!("{source}\n{errors:?}"));
    let text = program.to_string();
    match parse_program(&text) {
        Ok(again) => {
            assert!(program.same_as(&again), "{source}\nprints as\n{text}\nwhich prints as\n{again}");
            assert_eq!(text, again.to_string());
        }
        Err(errors) => panic!("{source}\nprints as\n{text}\n{}", diag::render(&errors, &text, "printed")),
    }
}

/// Formatting keeps the program and its comments, and doing it again changes nothing.
fn formatting(program: &ir::Program, source: &str) {
    let text = syntax::format(source).expect("what parses can be formatted");
    match parse_program(&text) {
        Ok(again) => assert!(program.same_as(&again), "{source}\nis formatted as\n{text}"),
        Err(errors) => panic!("{source}\nis formatted as\n{text}\n{}", diag::render(&errors, &text, "formatted")),
    }
    assert_eq!(syntax::format(&text).as_ref(), Ok(&text), "{source}");
    let comments = |text: &str| text.matches('#').count();
    assert_eq!(comments(&text), comments(source), "{source}\nis formatted as\n{text}");
}

const WORDS: &[&str] = &[
    "let",
    "macro",
    "type",
    "if",
    "for",
    "merge",
    "result",
    "appender",
    "merger",
    "dictmerger",
    "numberer",
    "groupbuilder",
    "vecmerger",
    "vec",
    "dict",
    "simd",
    "stream",
    "i64",
    "f64",
    "bool",
    "u8",
    "x",
    "y",
    "b",
    "v",
    "map",
    "filter",
    "zip",
    "iter",
    "rangeiter",
    "sort",
    "iterate",
    "select",
    "lookup",
    "cudf",
    "deserialize",
    "compare",
    "sum",
    "true",
    "1",
    "2L",
    "1.5",
    "3c",
    "0xff",
    "1e9",
    "\"s\"",
    "b\"t\"",
    "$0",
    "$1",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "|",
    "||",
    "&&",
    "&",
    "^",
    "==",
    "<",
    "+",
    "-",
    "*",
    "/",
    "%",
    "!",
    ",",
    ";",
    ":",
    ".",
    "=",
    "?",
    "@",
    "min",
    "#c\n",
    "é",
];

/// `PROPTEST_CASES`, for as many as one has time for.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(2000)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        exercise(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_text(text in "\\PC{0,100}") {
        exercise(&text);
        let _ = parse_type(&text);
    }

    #[test]
    fn any_words(words in proptest::collection::vec(proptest::sample::select(WORDS), 0..60)) {
        exercise(&words.join(" "));
        let _ = parse_type(&words.join(""));
    }

    /// Programs with a piece cut out, doubled or replaced.
    #[test]
    fn damaged_programs(
        which in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        length in 0..12usize,
        word in proptest::sample::select(WORDS),
        how in 0..3,
    ) {
        let programs = corpus();
        let (_, source) = &programs[which.index(programs.len())];
        let chars: Vec<char> = source.chars().collect();
        let start = at.index(chars.len() + 1);
        let end = (start + length).min(chars.len());
        let (before, piece, after) = (&chars[..start], &chars[start..end], &chars[end..]);
        let text = |chars: &[char]| chars.iter().collect::<String>();
        exercise(&match how {
            0 => text(before) + &text(after),
            1 => text(before) + &text(piece) + &text(piece) + &text(after),
            _ => text(before) + word + &text(after),
        });
    }
}

/// All programs of the filetests, and the examples.
fn corpus() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for folder in ["tests/weld", "queries/weld"] {
        collect(&root.join(folder), &mut files);
    }
    files.sort();
    let mut programs = vec![(PathBuf::new(), "|v: vec[i64]| sum(map(v, |x| x * x))".to_owned())];
    for file in files {
        let text = fs::read_to_string(&file).expect("a test file can be read");
        programs.extend(text.split("\n---\n").map(|part| (file.clone(), part.to_owned())));
    }
    programs
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "weld") {
            files.push(path);
        }
    }
}

#[test]
fn the_corpus_prints_and_parses() {
    let programs = corpus();
    assert!(programs.len() > 300);
    for (_, source) in programs {
        exercise(&source);
    }
}

/// The source with a comment `#0`, `#1`, .. at each of some places between its tokens.
fn with_comments(source: &str, mut at: impl FnMut(usize) -> bool) -> String {
    let (mut text, mut in_string, mut in_comment, mut escaped, mut last) = (String::new(), false, false, false, ' ');
    let (mut places, mut comments) = (0, 0);
    for char in source.chars() {
        let is_code = !in_string && !in_comment;
        if is_code && (char.is_whitespace() || "()[]{},;|".contains(char)) && (char, last) != ('|', '|') {
            if at(places) {
                text.push_str(&format!(" #{comments}\n"));
                comments += 1;
            }
            places += 1;
        }
        match char {
            '\n' => in_comment = false,
            '#' if is_code => in_comment = true,
            '"' if !in_comment => in_string = !in_string || escaped,
            _ => {}
        }
        escaped = in_string && char == '\\' && !escaped;
        if !in_comment {
            last = char;
            text.push(char);
        }
    }
    text
}

#[test]
fn comments_stay_wherever_they_are() {
    for (_, source) in corpus() {
        if parse_program(&source).is_err() {
            continue;
        }
        for step in [1, 7, 11, 13] {
            let source = with_comments(&source, |place| place % step == 0);
            let program = parse_program(&source).unwrap_or_else(|errors| panic!("{source}\n{errors:?}"));
            formatting(&program, &source);
            let text = syntax::format(&source).expect("it parses");
            let found = text.lines().filter_map(|line| line.rsplit_once('#')?.1.parse::<usize>().ok());
            let found: Vec<usize> = found.collect();
            assert!(found.is_sorted(), "{source}\nis formatted as\n{text}");
        }
    }
}
