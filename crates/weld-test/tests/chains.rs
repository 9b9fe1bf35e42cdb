//! Functions of several languages, one over the other: their loops are one, and no list is made between them.

use std::sync::Arc;

use weld_core::interp::{Limits, Value};
use weld_core::ir::{ExprKind, Literal, Program};
use weld_core::opt;
use weld_core::ty::{BuilderType, ScalarKind, Type};
use weld_frontend::{Arg, Args, DataType, Function, Known, Library, Options, Request};
use weld_test::compare::Rule;
use weld_test::engine::Engine;

#[global_allocator]
static ALLOCATOR: weld_runtime::Poison = weld_runtime::Poison;

const WELD: &str = "|v: vec[f32]| map(v, |x| x * 2.0f + 1.0f)";
const TTL: &str = "function matrix<float>T f(matrix<float>T v) { return v * v - v; }";
const GTSCRIPT: &str = "@stencil
def f(a: Field[AXES, float32], b: Field[AXES, float32]):
    with computation(PARALLEL), interval(...):
        half = 0.5 * a
        if a > 1.0:
            half = half - 1.0
        b = half + a
";
const OCANNL: &str = "let%op f v = relu (v - 1.0)";

/// FLOAT[].., with these sizes.
fn floats(sizes: &[Option<u64>]) -> DataType {
    sizes.iter().rev().fold(DataType::Scalar(ScalarKind::F32), |item, size| match size {
        Some(size) => DataType::fixed(item, *size),
        None => DataType::List(Box::new(item)),
    })
}

fn compile(language: &str, text: &str, ty: &DataType, returns: &DataType, library: &Library) -> Function {
    let language = weld_languages::by_name(language).expect("a language");
    let options = Options { sql: true, ..Options::default() };
    let args = [Arg { known: Known::Type(ty.clone()), ..Arg::default() }];
    let mut request = Request::new(text, library, &options);
    (request.args, request.returns) = (Args::Given(&args), Some(returns));
    language.compile(&request).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"))
}

/// The functions `w`, `t`, `g` and, where all sizes are fixed, `o`; and how TTL writes the type.
fn library(sizes: &[Option<u64>]) -> (Library, String) {
    let ty = floats(sizes);
    let dims: Vec<String> = sizes.iter().map(|size| size.map_or("?".into(), |size| size.to_string())).collect();
    let dims = format!("[{}]", dims.join(","));
    let axes = &"IJK"[3 - sizes.len()..];
    let mut library = Library::default();
    let texts = [
        ("w", "weld", WELD.to_owned()),
        ("t", "ttl", TTL.replace('T', &dims)),
        ("g", "gtscript", GTSCRIPT.replace("AXES", axes)),
        ("o", "ocannl", OCANNL.to_owned()),
    ];
    for (name, language, text) in texts {
        if language != "ocannl" || sizes.iter().all(Option::is_some) {
            library.insert(name, Arc::new(compile(language, &text, &ty, &ty, &Library::default())));
        }
    }
    (library, dims)
}

/// The loops of a program and its lists.
fn counts(program: &Program) -> (usize, usize) {
    let (mut loops, mut lists) = (0, 0);
    program.body.walk(&mut |e| match &e.kind {
        ExprKind::For { .. } | ExprKind::Iterate { .. } => loops += 1,
        ExprKind::NewBuilder { .. } if matches!(e.ty, Type::Builder(BuilderType::Appender(_))) => lists += 1,
        _ => {}
    });
    (loops, lists)
}

fn check(function: &Function, lists: usize, what: &str) {
    let mut program = function.program.clone();
    opt::optimize(&mut program, &opt::Config::default());
    assert_eq!(counts(&program), (1, lists), "{what}:\n{program}");
}

fn engines_agree(function: &Function, count: usize, what: &str) {
    let values = (0..count).map(|i| Value::Scalar(Literal::F32(i as f32 * 0.75 - 2.0)));
    let args = [Value::vec(values.collect::<Vec<_>>())];
    let limits = Limits::default();
    let expected = Engine::INTERP.run(&function.program, &args, &limits).expect("a value");
    for engine in Engine::ALL {
        let found = engine.run(&function.program, &args, &limits);
        let same = found.as_ref().is_ok_and(|found| Rule::USUAL.equal(&expected, found));
        assert!(same, "{what}, {engine}, {count} elements: {found:?}, expected {expected:?}");
    }
}

#[test]
fn chains_of_three_languages_are_one_loop() {
    let shapes: [(&[Option<u64>], &[usize]); 4] = [
        (&[None], &[0, 1, 7]),
        (&[Some(8)], &[8]),
        (&[Some(3), Some(4)], &[12]),
        (&[Some(2), Some(1), Some(5)], &[10]),
    ];
    for (sizes, counts) in shapes {
        let (library, dims) = library(sizes);
        let names: Vec<&str> = library.names().collect();
        for chain in chains(&names) {
            // Weld's own functions do not know a matrix's sizes.
            if sizes.len() > 1 && chain.contains(&"w") {
                continue;
            }
            let call = chain.iter().rfold("v".to_owned(), |inner, name| format!("{name}({inner})"));
            let text = format!("function matrix<float>{dims} chain(matrix<float>{dims} v) {{ return {call}; }}");
            let ty = floats(sizes);
            let function = compile("ttl", &text, &ty, &ty, &library);
            let what = format!("{call} of {dims}");
            check(&function, 1, &what);
            counts.iter().for_each(|count| engines_agree(&function, *count, &what));
        }
    }
}

#[test]
fn stencils_of_fields_without_levels_are_one_loop() {
    let ty = floats(&[Some(3), Some(4)]);
    let mut library = Library::default();
    let text = GTSCRIPT.replace("AXES", "IJ").replace("PARALLEL", "FORWARD");
    library.insert("g", Arc::new(compile("gtscript", &text, &ty, &ty, &Library::default())));
    let text = "function matrix<float>[3,4] chain(matrix<float>[3,4] v) { return g(g(g(v))); }";
    let function = compile("ttl", text, &ty, &ty, &library);
    check(&function, 1, "fields without levels");
    engines_agree(&function, 12, "fields without levels");
}

/// A stencil from `a` to `b` with this body.
fn stencil(body: &str) -> Function {
    let ty = floats(&[None]);
    let text = format!("@stencil\ndef f(a: Field[K, float32], b: Field[K, float32]):\n{body}");
    compile("gtscript", &text, &ty, &ty, &Library::default())
}

#[test]
fn computations_over_one_interval_are_one_loop() {
    let mut body = String::new();
    for i in 0..200 {
        let from = if i == 0 { "a".to_owned() } else { format!("t{}", i - 1) };
        let to = if i == 199 { "b".to_owned() } else { format!("t{i}") };
        body += "    with computation(PARALLEL), interval(...):\n";
        body += &format!("        {to} = {from}\n        if a > {i}.0:\n            {to} = 0.5 * {from} + a\n");
    }
    let function = stencil(&body);
    assert_eq!(counts(&function.program), (1, 1), "{}", function.program);
}

#[test]
fn programs_of_nested_conditions_grow_with_their_text() {
    let nested = |depth: usize| {
        let mut body = "    with computation(PARALLEL), interval(...):\n        b = a\n".to_owned();
        for i in 0..depth {
            body += &format!("{}if a > {i}.0:\n", " ".repeat(8 + i));
        }
        body += &format!("{}b = 1.0\n", " ".repeat(8 + depth));
        stencil(&body).program.body.size()
    };
    let (small, large) = (nested(20), nested(80));
    assert!(large < 5 * small, "{small} nodes, with four times the text {large}");
}

#[test]
fn a_sum_over_a_chain_makes_no_list() {
    let (library, dims) = library(&[Some(8)]);
    let text = format!(
        "function float chain(matrix<float>{dims} v) {{
           var matrix<float>{dims} m = t(g(w(v)));
           var float sum; var int i;
           for (i in 0...8 by 1) sum = sum + m{{i}};
           return sum;
         }}"
    );
    let function = compile("ttl", &text, &floats(&[Some(8)]), &DataType::Scalar(ScalarKind::F32), &library);
    check(&function, 0, "the sum");
    engines_agree(&function, 8, "the sum");
}

/// All chains of three of the functions.
fn chains<'a>(names: &[&'a str]) -> Vec<[&'a str; 3]> {
    let mut all = Vec::new();
    for a in names {
        for b in names {
            all.extend(names.iter().map(|c| [*a, *b, *c]));
        }
    }
    all
}
