//! The Toy Tensor Language.

use weld_core::diag::Diagnostic;
use weld_frontend::Function;
use weld_ttl::Ttl;

use super::Random;

fn compile(text: &str) -> Result<Function, Vec<Diagnostic>> {
    super::compile(&Ttl, text, None)
}

fn refused(text: &str) -> String {
    compile(text).expect_err("it is wrong")[0].message.clone()
}

#[test]
fn brackets() {
    const MANY: usize = 100_000;
    for open in ["(", "[", "{", "-", "!", "f(", "m{", "if(1)", "for(i in 0...1 by 1)", "/*", "x[", "1+(", "1*-"] {
        let text = format!("function int f() {{ return {}", open.repeat(MANY));
        compile(&text).expect_err("it has no end");
        let text = format!("function int f() {{ {}", open.repeat(MANY));
        compile(&text).expect_err("it has no end");
    }
    let nested = format!("function int f() {{ return {}1{}; }}", "(".repeat(MANY), ")".repeat(MANY));
    assert!(refused(&nested).contains("nested too deeply"));
    let blocks = format!("function int f() {{ {}var int x;{} return 1; }}", "{".repeat(MANY), "}".repeat(MANY));
    assert!(refused(&blocks).contains("nested too deeply"));
    let sum = format!("function int f() {{ return 1{}; }}", " + 1".repeat(MANY));
    assert!(refused(&sum).contains("nested too deeply"));
    let fine = format!("function int f() {{ return {}1{}; }}", "(".repeat(900), ")".repeat(900));
    assert!(compile(&fine).is_ok());
}

#[test]
fn long_texts() {
    let blank = format!("function int f() {{ return 1; }}{}", " ".repeat(9_000_000));
    assert!(compile(&blank).is_ok());
    let comment = format!("/*{}*/ function int f() {{ return 1; }}", "x".repeat(9_900_000));
    assert!(compile(&comment).is_ok());
    assert!(refused(&" ".repeat(10_000_001)).contains("at most 10000000"));
    let statements = format!("function int f() {{ var int x; {} return x; }}", "x = x + 1;".repeat(200_000));
    assert!(refused(&statements).contains("too large"));
    let list = format!("function int f() {{ var matrix<int>[?] m = [{}1]; return 1; }}", "1,".repeat(500_000));
    assert!(refused(&list).contains("too large"));
    let name = "a".repeat(5_000_000);
    let errors = compile(&format!("function int f() {{ return {name}; }}")).expect_err("it is not declared");
    let shown = |error: &Diagnostic| error.message.len() + error.hint.as_ref().map_or(0, String::len);
    assert!(errors.iter().map(shown).sum::<usize>() < 4_000);
    let number = "9".repeat(5_000_000);
    assert!(refused(&format!("function int f() {{ return {number}; }}")).len() < 2_000);
    assert!(refused(&format!("function float f() {{ return {number}.0; }}")).len() < 2_000);
    let wrong = format!("function int f() {{ {} return 1; }}", "x = 1;".repeat(200_000));
    assert!(refused(&wrong).contains("`x` is not declared"));
    let functions: String = (0..20_000).map(|i| format!("function int f{i}() {{ return {i}; }}\n")).collect();
    assert!(compile(&functions).is_ok());
}

#[test]
fn inlining() {
    // 10 to the power of 9.
    let mut text = "function int f0(int x) { return x + 1; }\n".to_owned();
    for i in 1..10 {
        let calls = vec![format!("f{}(x)", i - 1); 10].join(" + ");
        text += &format!("function int f{i}(int x) {{ return {calls}; }}\n");
    }
    assert!(refused(&text).contains("`f9` is too large"));
    // 2 to the power of 10,000.
    let mut text = "function int f0(int x) { return x; }\n".to_owned();
    for i in 1..10_000 {
        text += &format!("function int f{i}(int x) {{ return f{0}(f{0}(x)); }}\n", i - 1);
    }
    assert!(refused(&text).contains("is too large"));
    // A long chain is no more than its functions.
    let mut text = "function int f0(int x) { return x + 1; }\n".to_owned();
    for i in 1..5_000 {
        text += &format!("function int f{i}(int x) {{ return f{}(x); }}\n", i - 1);
    }
    assert!(compile(&text).is_ok());
}

#[test]
fn sizes() {
    let huge = "2147483647";
    let of = |dims: &str| format!("function int f() {{ var matrix<int>[{dims}] m; return m $ 0; }}");
    assert!(refused(&of(&[huge; 3].join(","))).contains("more elements than fit in memory"));
    assert!(refused(&of(&[huge; 50].join(","))).contains("more elements than fit in memory"));
    assert!(compile(&of(&format!("0,{}", [huge; 50].join(",")))).is_ok());
    assert!(compile(&of(&vec!["1"; 1_000].join(","))).is_ok());
}

/// Pieces of programs in any order, and programs with pieces taken out.
#[test]
fn random_texts() {
    const PIECES: [&str; 52] = [
        "function ",
        "int ",
        "float ",
        "void ",
        "matrix<int>[2] ",
        "matrix<float>[?,3] ",
        "f",
        "g",
        "x",
        "m",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        "var ",
        "return ",
        "for ",
        "if ",
        "else ",
        "in ",
        "by ",
        "=",
        "==",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "+",
        "-",
        "*",
        "/",
        "#",
        "$",
        "!",
        "&",
        "|",
        "...",
        ",",
        ";",
        "1",
        "2.5",
        "0",
        "?",
        "/*",
        "*/",
        "//\n",
        "ü",
        "\0",
        "function int f(int x) { var matrix<int>[2] m = [x, 1]; return m{0}; } ",
    ];
    const PROGRAM: &str = "function matrix<float>[?,2] f(matrix<float>[?,2] m, int n) { var matrix<float>[2,2] r; var int i; \
        for (i in 0...n by 1) { if (i < 2 & n > 0) r[i, 0] = m{i, 1} * 2.0; else r = r # r; } return r - 1.0; }";
    let mut random = Random(7);
    for _ in 0..5_000 {
        let text: String = (0..random.below(30)).map(|_| PIECES[random.below(PIECES.len())]).collect();
        let _ = compile(&text);
    }
    for _ in 0..5_000 {
        let mut text: Vec<char> = PROGRAM.chars().collect();
        for _ in 0..1 + random.below(3) {
            let at = random.below(text.len().max(1)).min(text.len().saturating_sub(1));
            if text.is_empty() {
                break;
            }
            match random.below(3) {
                0 => drop(text.remove(at)),
                1 => text.splice(at..at, PIECES[random.below(PIECES.len())].chars()).for_each(drop),
                _ => text.truncate(at.max(1)),
            }
        }
        let _ = compile(&text.into_iter().collect::<String>());
    }
}
