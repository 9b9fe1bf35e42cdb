//! Calls of functions that are not of the text: those of the session.

use std::sync::Arc;

use weld_core::diag::Diagnostic;
use weld_core::interp::{self, Value};
use weld_core::ir::Literal;
use weld_frontend::{Function, Language, Library, Options, Request};
use weld_ttl::Ttl;

fn compile(text: &str, library: &Library) -> Result<Function, Vec<Diagnostic>> {
    Ttl.compile(&Request::new(text, library, &Options::default()))
}

fn library() -> Library {
    let mut library = Library::default();
    let texts = [
        ("scale", "function matrix<float>[?,2] scale(matrix<float>[?,2] m, float x) { return m * x; }"),
        ("pick", "function float pick(matrix<float>[3] v, int i) { return v{i}; }"),
    ];
    for (name, text) in texts {
        library.insert(name, Arc::new(compile(text, &Library::default()).unwrap()));
    }
    library
}

fn floats(values: &[f32]) -> Value {
    Value::vec(values.iter().map(|x| Value::Scalar(Literal::F32(*x))))
}

#[test]
fn arguments_and_results_keep_their_sizes() {
    let text = "function float f(matrix<float>[?] v) {
        var matrix<float>[2,2] m = v;
        var matrix<float>[?,?] twice = SCALE(scale(m, 2.0), 1.0);
        return pick([twice{1, 1}, 0.0, 0.0], 0) + pick(v{0...3}, 2);
    }";
    let function = compile(text, &library()).unwrap();
    let result = interp::run(&function.program, &[floats(&[1.0, 2.0, 3.0, 4.0])], &Default::default());
    assert_eq!(result.unwrap(), Value::Scalar(Literal::F32(11.0)));
}

#[test]
fn errors_are_where_they_are() {
    let text = "function float f(matrix<float>[?] v, int i) { return pick(v, i); }";
    let function = compile(text, &library()).unwrap();
    let error = |v: &[f32], i| {
        let error = interp::run(&function.program, &[floats(v), Value::i32(i)], &Default::default()).unwrap_err();
        let (source, diagnostic) = function.source.diagnostic(error);
        (source.name.clone(), diagnostic.message)
    };
    let (name, message) = error(&[1.0, 2.0, 3.0], 5);
    assert_eq!(name, "pick");
    assert!(message.starts_with("pick, line 1: ") && message.contains("index 5"), "{message}");
    let (name, message) = error(&[1.0], 0);
    assert_eq!(name, "f");
    assert!(message.contains("argument 1 of `pick`, `v`: expected size 3 in dimension 0, found 1"), "{message}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |text: &str| compile(text, &library()).unwrap_err()[0].message.clone();
    let wrong = refused("function float f() { return pick([1, 2, 3], 0); }");
    assert_eq!(wrong, "argument 1 of `pick`, `v`: expected matrix<float>[3], found matrix<int>[3]");
    assert_eq!(refused("function float f() { return pick(1); }"), "`pick` takes 2 arguments, found 1");
    // The text's own function comes first.
    let own = "function float f() { return pick(1); } function float pick(int x) { return 1.0; }";
    assert_eq!(refused(own), "the function `pick` is called before its definition");
}
