//! Programs that are too deep or too large give one clear error, at once, on a small stack.

use std::thread;

use weld_core::{Frontend, parse_program};

/// Parses on a thread with little stack; the first error's message, or `ok`.
fn outcome(source: String) -> String {
    let parse = move || match parse_program(&source) {
        Ok(_) => "ok".to_owned(),
        Err(errors) => errors[0].message.clone(),
    };
    thread::Builder::new().stack_size(1 << 20).spawn(parse).expect("a thread starts").join().expect("no panic")
}

const TOO_DEEP: &str = "the program is nested too deeply: more than 1000 levels";

#[test]
fn deep_nesting() {
    let n = 100_000;
    for (open, inside, close) in [
        ("(", "1", ")"),
        ("[", "1", "]"),
        ("{", "1", "}"),
        ("-", "x", ""),
        ("!", "true", ""),
        ("if(true, 1, ", "1", ")"),
        ("let x = ", "1", ""),
        ("f(", "1", ")"),
        ("1 + (", "1", ")"),
        ("|x| ", "x", ""),
        ("@(a:1) ", "x", ""),
        ("1 + ", "1", ""),
        ("", "x", ".$0"),
        ("", "x", "(1)"),
        ("x < (", "1", ")"),
    ] {
        let source = format!("{}{inside}{}", open.repeat(n), close.repeat(n));
        assert_eq!(outcome(source), TOO_DEEP, "{open}..{close}");
    }
    let types = "the type is nested too deeply: more than 100 levels";
    assert_eq!(outcome(format!("|x: {}i64{}| x", "vec[".repeat(n), "]".repeat(n))), types);
    assert_eq!(outcome(format!("|x: {}i64{}| x", "{".repeat(n), "}".repeat(n))), types);
    assert_eq!(outcome(format!("merger[i64,{}+{}]", "{".repeat(n), "}".repeat(n))), TOO_DEEP);
}

#[test]
fn nesting_within_the_limit() {
    assert_eq!(outcome(format!("{}1{}", "(".repeat(900), ")".repeat(900))), "ok");
    assert_eq!(outcome(vec!["1"; 900].join(" + ")), "ok");
    assert_eq!(outcome(format!("|x: {}i64{}| x", "vec[".repeat(90), "]".repeat(90))), "ok");
}

/// A program of many bindings is wide, not deep.
#[test]
fn long_blocks() {
    let mut source = String::from("let a0 = 1; ");
    for i in 1..50_000 {
        source += &format!("let a{i} = a{} + 1; ", i - 1);
    }
    assert_eq!(outcome(source + "a49999"), "ok");
    let mut source = String::from("let b = appender[i64]; ");
    for _ in 0..5_000 {
        source += "let b = if(true, merge(b, 1L), b); ";
    }
    assert_eq!(outcome(source + "result(b)"), "ok");
}

#[test]
fn large_programs() {
    assert_eq!(outcome(format!("# {}\n1", "x".repeat(10_000_000))), "ok");
    assert_eq!(outcome(format!("len(\"{}\")", "x".repeat(10_000_000))), "ok");
    assert_eq!(
        outcome(format!("[{}1]", "1, ".repeat(3_000_000))),
        "the program is too large: more than 1000000 expressions"
    );
    assert!(outcome("let ".repeat(2_500_000)).starts_with("`let` is a word of the language"));
    assert!(outcome("\"".repeat(1_000_000)).starts_with("expected the end of the program"));
}

#[test]
fn macros_that_explode() {
    assert_eq!(
        outcome(format!("macro f(x) = x + x; {}1{}", "f(".repeat(60), ")".repeat(60))),
        "the program is too large when macros are expanded: more than 2000000 expressions"
    );
    assert_eq!(
        outcome("macro f(x) = f(x) + f(x); f(1)".into()),
        "the macro `f` expands too deeply: more than 100 levels"
    );
    let mut chain = String::from("macro m0(x) = x + x; ");
    for i in 1..90 {
        chain += &format!("macro m{i}(x) = m{}(m{}(x)); ", i - 1, i - 1);
    }
    assert!(outcome(chain + "m89(1)").contains("macros are expanded"));
}

#[test]
fn types_that_explode() {
    let mut source = String::from("let a0 = {1, 2}; ");
    for i in 1..60 {
        source += &format!("let a{i} = {{a{}, a{}}}; ", i - 1, i - 1);
    }
    assert_eq!(outcome(source + "a59"), "this type is too large");
    let mut source = String::from("let a0 = [1]; ");
    for i in 1..5_000 {
        source += &format!("let a{i} = [a{}]; ", i - 1);
    }
    assert_eq!(outcome(source + "a4999"), "this type is too large");
    let mut source = String::from("type t0 = i64; ");
    for i in 1..60 {
        source += &format!("type t{i} = {{t{}, t{}}}; ", i - 1, i - 1);
    }
    assert_eq!(outcome(source + "|x: t59| 1"), "this type is too large");
}

#[test]
fn unknown_types_that_explode() {
    // Types grow through unknowns that are bound late.
    let mut body = String::from("let r0 = []; ");
    for i in 1..60 {
        body += &format!("let r{i} = [{{lookup(r{}, 0L), lookup(r{}, 0L)}}]; ", i - 1, i - 1);
    }
    assert!(Frontend::default().parse_program(&(body + "r59 == ([]: vec[?])")).is_err());
}

#[test]
fn arguments_count_as_often_as_they_are_used() {
    let large = "the program is too large when macros are expanded: more than 2000000 expressions";
    let mut chain = String::new();
    for i in 0..60 {
        chain += &format!("macro m{i}(x) = m{}(x) + m{}(x); ", i + 1, i + 1);
    }
    assert_eq!(outcome(chain.clone() + "macro m60(x) = x; m0(1)"), large);
    // A parameter that nobody reads, one that a variable hides, a function that is called.
    let twice = "macro f(x) = x + x; ";
    let calls = format!("{}1{}", "f(".repeat(60), ")".repeat(60));
    assert_eq!(outcome(format!("{twice} macro none(x) = 1; none({calls})")), "ok");
    assert_eq!(outcome(format!("{twice} macro own(x) = let x = 1; x; own({calls})")), "ok");
    assert_eq!(outcome(format!("{twice} macro call(g, y) = g(y); call(|z| {calls}, 1)")), large);
}

/// Each string is of `vec[?]` until the end: all of them are one unknown.
#[test]
fn many_unknowns() {
    assert_eq!(outcome(format!("[{}]", vec!["\"abc\""; 400_000].join(","))), "ok");
    let lets: String = (0..40_000).map(|i| format!("let v{} = if(true, v{i}, []); ", i + 1)).collect();
    assert_eq!(outcome(format!("let v0 = []; {lets} v40000 == [1L]")), "ok");
}

/// What compares each name with each other, or shows a whole line for each error, takes minutes here.
#[test]
fn many_names_in_one_place() {
    let names = |n: usize| (0..n).map(|i| format!("a{i}")).collect::<Vec<_>>();
    let params = names(300_000);
    assert_eq!(outcome(format!("macro m({}) = a1; 1", params.join(", "))), "ok");
    assert_eq!(outcome(format!("|{}: i64| a1", params.join(": i64, "))), "ok");
    assert_eq!(outcome(format!("@({}:1) 1", params.join(":1, "))), "ok");
    assert_eq!(outcome(format!("(|{}, a1| 1)(1)", params.join(", "))), "two parameters are called `a1`");
    assert_eq!(outcome("macro m(a, b, a) = 1; 1".to_owned()), "the macro `m` has two parameters `a`");
}

#[test]
fn no_more_errors_than_anybody_reads() {
    let unused: String = (0..20_000).map(|i| format!("let b{i} = appender[i64];\n")).collect();
    let unknown: String = (0..20_000).map(|i| format!("let b{i} = x{i};\n")).collect();
    for source in [unused + "1", unknown + "1", "let = ;".repeat(20_000)] {
        assert!(parse_program(&source).is_err_and(|errors| errors.len() <= 50));
    }
}
