//! Whole texts, wrong ones, and ones that are too much.

use weld_core::diag::line_column;

use super::*;

fn parsed(text: &str) -> Module {
    parse(text, &Limits::default()).unwrap_or_else(|errors| panic!("{text}: {errors:?}"))
}

fn refused(text: &str) -> (String, (usize, usize)) {
    let errors = parse(text, &Limits::default()).expect_err("is refused");
    (errors[0].message.clone(), line_column(text, errors[0].span.start))
}

#[test]
fn statements() {
    let text = "\
'''doc'''
import a.b as c
from . import d
@jit('Int -> Int')
class C(Base, meta=1):
    layout = Struct([('x', 'Int')])
    def m(self, /, a: int = 1, *, b=2): return a
def f(x, *rest, **more) -> int:
    for i, j in zip(x, range(3)):
        if i: break
        elif j: continue
        else: pass
    else:
        x[i] += 1
    while not x: x = y = -x
    try:
        raise ValueError('text') from None
    except (A, B) as e: yield
    finally: yield from g()
    with a(), b() as c: assert x, 'm'
    z: int
    del x
    return lambda q=1: [a for a in b if c] + list(d for d in e)
";
    let module = parsed(text);
    let kinds: Vec<&str> = module.body.iter().map(|stmt| stmt.kind.described()).collect();
    assert_eq!(kinds, ["an expression", "import", "import", "class", "def"]);
    let StmtKind::Class(class) = &module.body[3].kind else { panic!("a class") };
    assert_eq!((&*class.name.name, class.bases.len(), class.keywords.len(), class.decorators.len()), ("C", 1, 1, 1));
    let StmtKind::Function(method) = &class.body[1].kind else { panic!("a method") };
    let params: Vec<_> = method.params.params.iter().map(|param| (&*param.name.name, param.kind)).collect();
    assert_eq!(params, [("self", ParamKind::PositionOnly), ("a", ParamKind::Normal), ("b", ParamKind::KeywordOnly)]);
    let StmtKind::Function(f) = &module.body[4].kind else { panic!("a function") };
    let kinds: Vec<&str> = f.body.iter().map(|stmt| stmt.kind.described()).collect();
    assert_eq!(kinds, ["for", "while", "try", "with", "an annotation", "del", "return"]);
    assert_eq!(line_column(text, f.name.span.start), (8, 5));
}

#[test]
fn expressions() {
    let expr = |text: &str| match parsed(text).body.remove(0).kind {
        StmtKind::Expr(expr) => expr,
        other => panic!("{other:?}"),
    };
    assert!(matches!(expr("0x10").kind, ExprKind::Int(16)));
    assert!(matches!(expr("99999999999999999999").kind, ExprKind::BigInt(_)));
    assert!(matches!(expr("1_000.5e1").kind, ExprKind::Float(10005.0)));
    assert!(matches!(&expr("'a' \"b\"").kind, ExprKind::Str(text) if &**text == "ab"));
    assert!(matches!(&expr("a < b <= c").kind, ExprKind::Compare { rest, .. } if rest.len() == 2));
    assert!(matches!(&expr("a and b and c").kind, ExprKind::And(all) if all.len() == 3));
    assert_eq!(expr("a.b.c").as_path(), Some(vec!["a", "b", "c"]));
    assert!(matches!(&expr("f(*a, b=1, **c)").kind, ExprKind::Call { args, keywords, .. }
        if matches!(args[0].kind, ExprKind::Starred(_)) && keywords[1].name.is_none()));
    for (text, what) in [("f'{x}'", "an f-string"), ("(x := 1)", "`:=`"), ("{a for a in b}", "a set comprehension")] {
        assert_eq!(expr(text).described(), what);
    }
}

#[test]
fn errors_have_places() {
    assert_eq!(refused("x = 1\ny = = 2\n"), ("expected an expression, found `=`".into(), (2, 5)));
    let (message, place) = refused("def f(:\n  pass\n");
    assert!(message.starts_with("expected"), "{message}");
    assert_eq!(place.0, 1);
    let (message, place) = refused("if x:\n    y = 1\n  z = 2\n");
    assert!(message.contains("indent"), "{message}");
    assert_eq!(place.0, 3);
    assert!(refused("with a:\nb = 1").0.contains("indented block"));
    assert!(refused("x = (1,").1.0 <= 2);
    assert!(refused("x = 'abc").0.contains("string"));
}

#[test]
fn too_much_is_refused() {
    for open in ["(", "[", "{", "f(", "-(", "not ", "- ", "lambda: ", "x if y else ", "x ** ", "x[", "f'{"] {
        let (message, _) = refused(&format!("y = {}", open.repeat(100_000)));
        assert!(message.contains("too deeply") || message.contains("too long"), "{open}: {message}");
    }
    let nested: String = (0..2_000).map(|depth| format!("{}if x:\n", " ".repeat(depth))).collect();
    assert!(refused(&(nested + &" ".repeat(2_000) + "pass\n")).0.contains("too deeply"));
    assert!(refused(&format!("x = 1{}", "+1".repeat(1_000_000))).0.contains("too long"));
    assert!(refused(&format!("x = 1{}", "+1".repeat(20_000))).0.contains("too deeply"));
    assert!(refused(&format!("x = a{}", ".a".repeat(20_000))).0.contains("too deeply"));
    assert!(refused(&" ".repeat(10_000_001)).0.contains("bytes"));
    parsed(&"a = b + c\n".repeat(100_000));
    let elifs: String = (0..5_000).map(|_| "elif x: pass\n".to_owned()).collect();
    parsed(&format!("if x: pass\n{elifs}"));
    parsed(&format!("x = {}1{}", "(".repeat(900), ")".repeat(900)));
}

/// Random texts of Python's tokens are parsed or refused.
#[test]
fn random_texts() {
    let words = [
        "def ", "f", "(", ")", ":", "\n", "    ", "  ", "with ", "if ", "else", "elif ", "while ", "x", "=", "+=", "[",
        "]", ",", "-", "**", "1", "2.5", "1e", "'", "\"\"\"", "#", "\\", "\t", "lambda ", "yield ", "é", "\u{0}",
        "\u{feff}", "@", "class ", "return ", "not ", "in ", "for ", "{", "}", "f'", "...", ".", ";", "match ",
        "case ", "type ", "0x", "async ",
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..20_000 {
        let text: String = (0..next() % 30).map(|_| words[(next() % words.len() as u64) as usize]).collect();
        if let Err(errors) = parse(&text, &Limits::default()) {
            assert!(
                !errors.is_empty() && errors.iter().all(|error| error.span.start as usize <= text.len()),
                "{text:?}"
            );
        }
    }
}
