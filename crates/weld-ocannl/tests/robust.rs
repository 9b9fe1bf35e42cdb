//! Whatever the text is: a function or an error with a place, promptly, and nothing else.

mod common;

use common::{compile, error};
use proptest::prelude::*;
use serde_json::json;

#[test]
fn brackets_without_end() {
    for (open, close) in [("(", ")"), ("[", "]"), ("[|", "|]"), ("!/(", ")"), ("- ", ""), ("let x = 1 in ", "")] {
        let text = format!("let%op f () = {}1{}", open.repeat(100_000), close.repeat(100_000));
        let message = error(&text, &json!({}));
        assert!(message.contains("nested more than"), "{open}: {message}");
        let text = format!("let%op f () = {}", open.repeat(100_000));
        assert!(error(&text, &json!({})).contains("parse error"), "{open}");
    }
}

#[test]
fn large_texts() {
    let comment = format!("(* {} *) let%op f () = 1", "x".repeat(9_000_000));
    assert_eq!(error(&comment, &json!({})), "accepted");
    let too_large = " ".repeat(10_000_001);
    assert!(error(&too_large, &json!({})).contains("10000001 bytes"));
    let literal = format!("let%op f () = [{}] ++ \"i=>\"", "1;".repeat(1_000_000));
    assert_eq!(error(&literal, &json!({})), "accepted");
    let sum = format!("let%op f () = 1{}", " + 1".repeat(1_000_000));
    assert!(error(&sum, &json!({})).contains("more than 100000 operations"));
    let sum = format!("let%op f () = 1{}", " + 1".repeat(4_000));
    assert_eq!(error(&sum, &json!({})), "accepted");
    let code = format!("let%cd f () = \"c\" =: 1{}", "; c =+ 1".repeat(9_000));
    assert_eq!(error(&code, &json!({})), "accepted");
    let code = format!("let%cd f () = \"c\" =: 1{}", "; c =+ 1".repeat(300_000));
    assert!(error(&code, &json!({})).contains("more than"));
}

#[test]
fn definitions_that_double() {
    let mut text = String::from("let%op f0 x = x + x\n");
    for i in 1..64 {
        text.push_str(&format!("let%op f{i} x = f{} (f{} x)\n", i - 1, i - 1));
    }
    assert!(error(&text, &json!({"x": 1})).contains("more than 10000"));
}

/// Calls that leave nothing behind are counted, too.
#[test]
fn calls_that_double() {
    let doubled = |first: &str, next: fn(usize) -> String| (1..64).fold(first.to_owned(), |text, i| text + &next(i));
    let text = doubled("let%op f0 x = x\n", |i| format!("let%op f{i} x = f{} (f{} x)\n", i - 1, i - 1));
    assert!(error(&text, &json!({"x": 1})).contains("more than 10000 definitions are applied"));
    let text = doubled("let%op f x = let g0 y = y in ", |i| format!("let g{i} y = g{} (g{} y) in ", i - 1, i - 1));
    assert!(error(&(text + "g63 x"), &json!({"x": 1})).contains("more than 10000 definitions are applied"));
    let first = "let%cd f x = let%op y = x *. x in let%cd a0 = y.forward in ";
    let text = doubled(first, |i| format!("let%cd a{i} = a{}; a{} in ", i - 1, i - 1));
    assert!(error(&(text + "a63"), &json!({"x": 1})).contains("more than 10000"));
    let text = doubled("let%op f x = let a0 = 2.0 in ", |i| format!("let a{i} = a{} /. a{} in ", i - 1, i - 1));
    assert_eq!(error(&(text + "x **. a63"), &json!({"x": 1})), "accepted");
}

#[test]
fn many_bindings_in_a_row() {
    let lets: String = (1..900).map(|i| format!("let x{i} = x{} + 1 in ", i - 1)).collect();
    assert_eq!(error(&format!("let%op f x0 = {lets} x899"), &json!({"x0": 1})), "accepted");
}

#[test]
fn sizes_that_overflow() {
    let x = json!({"batch": [], "output": [1000], "input": [], "data": vec![1.0; 1000]});
    let mut text = String::from("let%op f x =\n  let a = x +* \"i;j=>ij\" x in\n");
    text.push_str(
        "  let b = a +* \"ij;kl=>ijkl\" a in\n  let c = b +* \"ijkl;mnop=>ijklmnop\" b in c ++ \"ijklmnop=>i\"",
    );
    assert!(error(&text, &json!({"x": x})).contains("too large"));
    assert!(error("let%op f (x : 99999999999999999999) = x", &json!({"x": 1})).contains("too large"));
    assert!(error("let%cd f () = {c; o=[99999999999999999999]} =: 1", &json!({})).contains("too large"));
    assert!(error("let%cd f () = {c; o=[9999999999; 9999999999; 9999999999]} =: 1", &json!({})).contains("too large"));
    assert!(error("let%op f x = x ++ \"99999999999, i=>i\"", &json!({"x": 1})).contains("too large"));
    assert!(error("let%op f () = 1e999", &json!({})).contains("too large"));
    assert!(
        error("let%cd f a = \"c\" =:+ a ~logic:\"i => 4294967295*i+4294967295*i\"", &json!({"a": vec![1; 5000]}))
            .contains("too large")
    );
}

#[test]
fn places() {
    let x = json!({"x": [1, 2]});
    for (text, wanted) in [
        ("", "1:1: parse error: expected a definition"),
        ("let%op f x = \n  x + [1; 2; 3]", "2:5: type error: `+`: `x` is `2`"),
        ("let%op f x = x +", "1:17: parse error: expected an operand, found the end of the text"),
        ("let%xx f x = x", "1:5: parse error: expected the extension `cd` or `op`, found `xx`"),
        ("let f x = x", "1:5: parse error: expected `%cd` or `%op` after `let`"),
        ("let%op f x = x y", "1:14: type error: `x` is a tensor, no function"),
        ("let%op f x = x = 1", "1:16: parse error"),
        ("let%op f x = if x", "1:14: parse error: expected an operand, found the keyword `if`"),
        ("let%cd f x = \"c\" =: x x", "1:21: type error: `x` is a tensor, no function"),
        ("let%cd f x = \"c\" =: x ~logic:\"i=>j\"", "1:21: type error: einsum: the label `j`"),
        ("let%cd f x = x.gradient =: 1", "1:16: parse error: expected `grad`, `forward`"),
        ("let%cd f x = \"c\" =:% x", "1:18: parse error: expected an assignment operator, found `=:%`"),
        ("let%op f x x = x", "1:12: type error: the parameter `x` is there twice"),
        ("let%op f x = z", "1:14: type error: unknown name `z`"),
        ("let%op f x = x +* \"i;i\" x", "1:23: parse error: einsum specification: expected `=>`, found the end"),
    ] {
        let found = error(text, &x);
        assert!(found.starts_with(wanted), "{text}\n  {found}\n  {wanted}");
    }
}

#[test]
fn wrong_arguments() {
    let text = "let%op f (x : 3 -> 2) y = x * y";
    assert_eq!(error(text, &json!({})), "1:8: type error: expected 2 arguments, found 0");
    assert_eq!(error(text, &json!({"x": 1, "z": 1})), "1:8: type error: no parameter is called `z`");
    let x = json!([[1, 2, 3], [4, 5, 6]]);
    assert_eq!(
        error(text, &json!({"x": x, "y": [1, 2]})),
        "1:29: type error: `*`: the input axes of `x` are `3`, the output axes of `y` are `2`: expected 3, found 2"
    );
    assert_eq!(
        error(text, &json!({"x": [1, 2], "y": [1, 2]})),
        "1:11: type error: argument `x`: expected `3 -> 2`, found the sizes [2]"
    );
}

/// Pieces that texts are made of.
fn piece() -> impl Strategy<Value = String> {
    let pieces = [
        "let%op ",
        "let%cd ",
        "f ",
        "x ",
        "\"w\" ",
        "= ",
        "=:+ ",
        "=: ",
        "=- ",
        "; ",
        "( ",
        ") ",
        "[ ",
        "] ",
        "[| ",
        "|] ",
        ", ",
        "+ ",
        "* ",
        "*. ",
        "/. ",
        "**. ",
        "** ",
        "- ",
        "-?/ ",
        "!/ ",
        "!. ",
        "1 ",
        "2.5 ",
        "'q' ",
        "++ ",
        "+* ",
        "@^+ ",
        "\"ij;jk=>ik\" ",
        "\"i=>\" ",
        "\"...|i => ii\" ",
        "~logic:",
        "\"@\" ",
        "\"T\" ",
        "\".\" ",
        ".grad ",
        ".forward ",
        ".backprop ",
        "in ",
        "let ",
        "let g y = ",
        "fun ",
        "-> ",
        "y ",
        "g ",
        "~config ",
        ": 3 -> 2 ",
        "relu ",
        "exp ",
        "{ ",
        "} ",
        "o=[ ",
        "(* ",
        "*) ",
        "_ ",
        "() ",
        "\"2*o+k; k => o\" ",
        "é",
        "\u{0}",
    ];
    proptest::sample::select(pieces.to_vec()).prop_map(str::to_owned)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Random texts give a function or an error; nothing panics.
    #[test]
    fn random_texts(pieces in proptest::collection::vec(piece(), 0..40), start in 0usize..3) {
        let text = ["", "let%op f x = ", "let%cd f x = "][start].to_owned() + &pieces.concat();
        let args = [json!({}), json!({"x": [1, 2]}), json!({"x": {"batch": [2], "output": [1], "input": [3], "data": [1, 2, 3, 4, 5, 6]}})];
        for args in &args {
            if let Err(error) = compile(&text, args, &[]) {
                prop_assert!(error.span.end as usize <= text.len().max(1), "{text:?}: {error:?}");
                prop_assert!(!error.message.contains("defect"), "{text:?}: {error:?}");
            }
        }
    }

    #[test]
    fn random_characters(text in "\\PC{0,60}") {
        let _ = compile(&text, &json!({}), &[]);
        let _ = compile(&format!("let%op f () = {text}"), &json!({}), &[]);
    }
}
