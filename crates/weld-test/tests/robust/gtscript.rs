//! GTScript.

use weld_core::diag::Diagnostic;
use weld_frontend::Function;
use weld_gtscript::GtScript;

use super::Random;

fn compile(text: &str) -> Result<Function, Vec<Diagnostic>> {
    super::compile(&GtScript, text, None)
}

fn refused(text: &str) -> String {
    compile(text).expect_err("is refused")[0].message.clone()
}

fn stencil(body: &str) -> String {
    format!(
        "@stencil\ndef f(a: Field[float64], b: Field[float64]):\n    with computation(FORWARD), interval(...):\n{body}"
    )
}

#[test]
fn deep_and_large_texts() {
    for open in ["(", "[", "not ", "-", "f(", "a[", "1 if a else "] {
        let message = refused(&stencil(&format!("        b = {}", open.repeat(100_000))));
        assert!(message.contains("too deeply") || message.contains("too long"), "{open}: {message}");
    }
    assert!(refused(&" ".repeat(10_000_001)).contains("bytes"));
    assert!(refused(&"x = 1\n".repeat(1_600_000)).contains("unsupported"));
    assert!(refused("").contains("no stencil"));
    let deep: String = (2..1_500).map(|depth| format!("{}if a:\n", "    ".repeat(depth))).collect();
    assert!(refused(&stencil(&(deep + &"    ".repeat(1_500) + "b = 1\n"))).contains("too deeply"));
    let nested: String = (2..60).map(|depth| format!("{}if a:\n", "    ".repeat(depth))).collect();
    assert!(compile(&stencil(&(nested + &"    ".repeat(60) + "b = 1\n"))).is_ok());
}

#[test]
fn a_million_fold_inlining() {
    let mut text = "@function\ndef f0(x):\n    return x + x[1, 0, 0]\n".to_owned();
    for i in 1..20 {
        text += &format!("@function\ndef f{i}(x):\n    return f{0}(x) + f{0}(x[0, 1, 0])\n", i - 1);
    }
    text += &stencil("        b = f19(a)\n");
    let message = refused(&text);
    assert!(message.contains("too large") || message.contains("too many"), "{message}");

    // Of the same value it is one node a call.
    let mut text = "@function\ndef f0(x):\n    return x + x\n".to_owned();
    for i in 1..12 {
        text += &format!("@function\ndef f{i}(x):\n    return f{0}(f{0}(x))\n", i - 1);
    }
    text += &stencil("        b = f11(a)\n");
    assert!(compile(&text).is_ok());
}

#[test]
fn sizes_that_overflow() {
    assert!(refused(&stencil("        b = a[99999999999, 0, 0]\n")).contains("offset is too large"));
    assert!(refused(&stencil("        b = 99999999999999999999999\n")).contains("too large"));
    assert!(refused(&stencil("        b = 2 ** 9999999\n")).contains("too large"));
    let text = stencil("        b = a\n").replace("interval(...)", "interval(0, 99999999999999)");
    assert!(refused(&text).contains("too large"));
}

/// Random texts of the language's words, and stencils with words taken out, doubled or exchanged.
#[test]
fn random_texts() {
    let words = [
        "a",
        "b",
        "t",
        "[",
        "]",
        "(",
        ")",
        "1",
        "-1",
        "0.5",
        ",",
        "=",
        "+=",
        "+",
        "*",
        "//",
        "**",
        "<",
        "and",
        "not",
        "if",
        "else",
        ":",
        "\n",
        "        ",
        "            ",
        "while",
        "min",
        "sqrt",
        "float32",
        "interval",
        "with",
        "computation",
        "FORWARD",
        "PARALLEL",
        "def",
        "return",
        "Field",
        "...",
        "None",
        "pass",
        "True",
        "lambda",
        "for",
        "in",
        ".",
        "x",
    ];
    let mut random = Random(9);
    let mut next = |n: usize| random.below(n);
    let base = "        t = a + 1\n        if t > 0 and a [ 1 , 0 , 0 ] < 2 :\n            b = t * 2\n        else :\n            \
                while t < 3 :\n                t += 1\n        b = min ( a , t [ 0 , 0 , -1 ] ) if b else sqrt ( a )\n";
    let mut accepted = 0;
    for round in 0..2_000 {
        let body = match round % 2 {
            0 => (0..next(40)).map(|_| format!("{} ", words[next(words.len())])).collect::<String>(),
            _ => {
                let mut parts: Vec<&str> = base.split_inclusive(' ').collect();
                for _ in 0..1 + next(3) {
                    let (at, with) = (next(parts.len()), words[next(words.len())]);
                    match next(3) {
                        0 => parts[at] = with,
                        1 => parts.insert(at, with),
                        _ => {
                            parts.remove(at);
                        }
                    }
                }
                parts.concat()
            }
        };
        accepted += usize::from(compile(&stencil(&body)).is_ok());
    }
    assert!(accepted > 0);
}
