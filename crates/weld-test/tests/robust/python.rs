//! Python.

use weld_core::diag::Diagnostic;
use weld_frontend::{Arg, Function};
use weld_numba::Python;

use super::Random;

fn compile(text: &str) -> Result<Function, Vec<Diagnostic>> {
    super::compile(&Python, text, None)
}

fn refused(text: &str) -> String {
    compile(text).expect_err("it is wrong")[0].message.clone()
}

#[test]
fn brackets_and_chains() {
    const MANY: usize = 100_000;
    for open in ["(", "[", "{", "-", "not ", "f(", "lambda: ", "x[", "1+(", "1 if ", "(yield "] {
        compile(&format!("def f():\n    return {}", open.repeat(MANY))).expect_err("it has no end");
    }
    let nested = format!("def f():\n    return {}1{}\n", "(".repeat(MANY), ")".repeat(MANY));
    compile(&nested).expect_err("it is nested too deeply");
    let sum = format!("def f():\n    return 1{}\n", " + 1".repeat(MANY));
    compile(&sum).expect_err("the statement is too long");
    let fine = format!("def f():\n    return {}1{}\n", "(".repeat(400), ")".repeat(400));
    assert!(compile(&fine).is_ok());
    let guards: String = (0..1_000).map(|i| format!("    if x == {i}: return {i}\n")).collect();
    assert!(compile(&format!("def f():\n    x = 5\n{guards}    return -1\n")).is_ok());
}

#[test]
fn long_texts() {
    assert!(refused(&" ".repeat(10_000_001)).contains("at most"));
    let lines = "    x = x + 1\n".repeat(300_000);
    compile(&format!("def f():\n    x = 1\n{lines}    return x\n")).ok();
    let functions: String = (0..20_000).map(|i| format!("def f{i}(x):\n    return x\n")).collect();
    assert!(compile(&format!("{functions}def g():\n    return f7(1)\n")).is_ok());
}

#[test]
fn explosions() {
    let mut text = "def f0(x):\n    return x + 1\n".to_owned();
    (1..40).for_each(|i| text += &format!("def f{i}(x):\n    return f{0}(x) + f{0}(x)\n", i - 1));
    text += "def g():\n    y = 1\n    return f39(y)\n";
    assert!(refused(&text).contains("too large"), "{}", refused(&text));
    let mut text = "def f(x):\n    for y in x:\n        yield y\n        yield y\ndef g():\n    n = 0\n".to_owned();
    text += &format!("    for i in {}[1]{}:\n        n += 1\n    return n\n", "f(".repeat(30), ")".repeat(30));
    assert!(refused(&text).contains("too large"), "{}", refused(&text));
    let unrolled = "def g():\n    s = 0\n    for i in unroll(range(100000000)):\n        s += i\n    return s\n";
    assert!(refused(unrolled).contains("copies"));
    let loops: String = (0..60).map(|i| format!("{}for i{i} in range(2):\n", "    ".repeat(i + 1))).collect();
    let nested = format!("def g():\n    s = 0\n{loops}{}s = s + 0.5\n    return s\n", "    ".repeat(61));
    compile(&nested).ok();
}

#[test]
fn endless_and_recursive() {
    assert!(compile("def f():\n    while True:\n        pass\n").is_ok());
    assert!(compile("def f():\n    x = 0\n    while 1:\n        x += 1\n    return x\n").is_ok());
    assert!(refused("def f():\n    g = lambda h: h(h)\n    return g(g)\n").contains("recursive"));
    let grows = refused("def f(x):\n    return f([x])\ndef g():\n    return f(1)\n");
    assert!(grows.contains("recursive"), "{grows}");
    assert!(
        refused("class C:\n    layout = Struct([('c', 'C')])\ndef f(x):\n    return 1\ndef g():\n    return C(1)\n")
            .contains("itself")
    );
    let object = "class C(object):\n    layout = Struct([('x', 'Int')])\n    def __iter__(self):\n        return self\n    def __len__(self):\n        return self\n";
    assert!(refused(&format!("{object}def f():\n    return [x for x in C(1)]\n")).contains("no iterator"));
    assert!(refused(&format!("{object}def f():\n    return 1 if C(1) else 2\n")).contains("neither true nor false"));
    assert!(refused("A = B\nB = A\n@jit('A -> Int')\ndef f(x):\n    return 1\n").contains("itself"));
}

/// The cases of the filetests with the types of their arguments.
fn cases() -> Vec<(String, Vec<Arg>)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/python");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let texts = files.iter().map(|file| std::fs::read_to_string(file).unwrap());
    let types = |case: &str| -> Vec<Arg> {
        let line = case.lines().find(|line| line.starts_with("# types: [")).unwrap_or_default();
        let written = line.split('"').skip(1).step_by(2);
        written.map(|ty| Arg { written: Some(ty.into()), ..Arg::default() }).collect()
    };
    texts.flat_map(|text| text.split("---\n").map(|case| (case.to_owned(), types(case))).collect::<Vec<_>>()).collect()
}

/// Damaged programs are refused or accepted, but never the fault of the compiler.
#[test]
fn damaged_programs() {
    let rounds = std::env::var("WELD_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(4u64);
    let mut random = Random(7);
    let mut below = |limit: usize| random.below(limit);
    const WORDS: [&str; 14] = [
        "0",
        "x",
        "xs",
        "f(1)",
        "[]",
        "None",
        "'a'",
        "1.5",
        "return",
        "break",
        "not",
        "(1, 2)",
        "lambda: 1",
        "range(2)",
    ];
    for (text, args) in cases() {
        for _ in 0..rounds {
            let mut tokens: Vec<&str> = text.split_inclusive([' ', '\n', '(', ')', ',']).collect();
            let at = below(tokens.len());
            match below(3) {
                0 => drop(tokens.remove(at)),
                1 => tokens[at] = WORDS[below(WORDS.len())],
                _ => {
                    let other = below(tokens.len());
                    tokens.swap(at, other);
                }
            }
            super::compile(&Python, &tokens.concat(), Some(&args)).ok();
        }
    }
}
