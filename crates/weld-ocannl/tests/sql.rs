//! Functions as CREATE FUNCTION makes them: declared types instead of values.

mod common;

use std::sync::Arc;

use weld_core::interp::{self, Value};
use weld_core::ir::Literal;
use weld_core::ty::ScalarKind;
use weld_frontend::{Arg, Args, DataType, Function, Known, Language, Library, Options, Request, Shape, Source};

fn real() -> DataType {
    DataType::Scalar(ScalarKind::F32)
}

fn fixed(size: u64) -> DataType {
    DataType::fixed(real(), size)
}

fn create(text: &str, args: &[(&str, DataType)], returns: DataType) -> Result<Function, String> {
    let (library, options) = (Library::default(), Options { sql: true, ..Options::default() });
    let args: Vec<Arg> = args
        .iter()
        .map(|(name, ty)| Arg { name: Some(name.to_string()), known: Known::Type(ty.clone()), ..Arg::default() })
        .collect();
    let request =
        Request { args: Args::Given(&args), returns: Some(&returns), ..Request::new(text, &library, &options) };
    let function = weld_ocannl::Ocannl.compile(&request).map_err(|errors| errors[0].message.clone())?;
    assert_eq!(function.output().fits(&returns), Ok(()), "{text}");
    Ok(function)
}

fn f32s(values: &[f32]) -> Value {
    Value::vec(values.iter().map(|value| Value::Scalar(Literal::F32(*value))))
}

fn f32(value: f32) -> Value {
    Value::Scalar(Literal::F32(value))
}

fn run(function: &Function, args: &[Value]) -> Value {
    interp::run(&function.program, args, &Default::default()).expect("it runs")
}

#[test]
fn gradients_are_fields() {
    let text = "let%op miss x y = (\"w\" * x - y) **. 2.0";
    let args = [("x", fixed(2)), ("y", real()), ("w", fixed(2))];
    let returns = DataType::Struct(vec![("value".into(), real()), ("w".into(), fixed(2))]);
    let function = create(text, &args, returns).unwrap();
    let found = run(&function, &[f32s(&[3.0, 1.0]), f32(4.0), f32s(&[1.0, 2.0])]);
    assert_eq!(found, Value::structure([f32(1.0), f32s(&[6.0, 2.0])]));
    assert_eq!(function.params[1].shape, Shape::F32);
    // Without them the value alone; names in another order and case.
    let args = [("Y", real()), ("W", fixed(2)), ("X", fixed(2))];
    let function = create(text, &args, real()).unwrap();
    assert_eq!(run(&function, &[f32(4.0), f32s(&[1.0, 2.0]), f32s(&[3.0, 1.0])]), f32(1.0));
}

#[test]
fn open_sizes_are_compared() {
    let text = "let%op distance x y = ((x - y) **. 2) ++ \"i=>\"";
    let list = DataType::list(real());
    let function = create(text, &[("x", list.clone()), ("y", list)], real()).unwrap();
    assert_eq!(run(&function, &[f32s(&[1.0, 2.0]), f32s(&[4.0, 6.0])]), f32(25.0));
    assert_eq!(run(&function, &[f32s(&[]), f32s(&[])]), f32(0.0));
    let wrong = interp::run(&function.program, &[f32s(&[1.0, 2.0]), f32s(&[4.0])], &Default::default());
    assert!(wrong.unwrap_err().message.contains("distance: sizes differ: found 2, expected 1"));
    let function =
        create("let%op scaled x = 2 *. x", &[("x", DataType::list(real()))], DataType::list(real())).unwrap();
    assert_eq!(run(&function, &[f32s(&[1.0, 2.0])]), f32s(&[2.0, 4.0]));
}

#[test]
fn open_matrices_bring_their_sizes() {
    let matrix = DataType::list(DataType::list(real()));
    let text = "let%op apply (w : ? -> ?) x = w * x";
    let args = [("w", matrix.clone()), ("x", DataType::list(real()))];
    let function = create(text, &args, DataType::list(real())).unwrap();
    let w = Value::structure([f32s(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), Value::i64(2), Value::i64(3)]);
    assert_eq!(run(&function, &[w, f32s(&[1.0, 1.0, 1.0])]), f32s(&[6.0, 15.0]));
    let function =
        create("let%op turned (w : ? -> ?) = w ++ \"i->j=>j->i\"", &[("w", matrix.clone())], matrix).unwrap();
    let w = Value::structure([f32s(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), Value::i64(2), Value::i64(3)]);
    let turned = Value::structure([f32s(&[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]), Value::i64(3), Value::i64(2)]);
    assert_eq!(run(&function, &[w]), turned);
}

#[test]
fn doubles_and_integers() {
    let double = DataType::Scalar(ScalarKind::F64);
    let int = DataType::Scalar(ScalarKind::I32);
    let args = [("x", DataType::fixed(double.clone(), 2)), ("y", fixed(2)), ("n", DataType::list(int.clone()))];
    let text = "let%op f x y n = (x *. y *. n) ++ \"i=>\"";
    let function = create(text, &args, double).unwrap();
    let numbers =
        [Value::vec([Value::f64(0.1), Value::f64(2.0)]), f32s(&[1.0, 2.0]), Value::vec([3, 4].map(Value::i32))];
    assert_eq!(run(&function, &numbers), Value::f64(0.1 * 3.0 + 16.0));
    let wrong = create(text, &args, int).unwrap_err();
    assert!(wrong.contains("`value` is ``, which is no INT"), "{wrong}");
}

#[test]
fn codes_return_structs() {
    let text = "let%cd f x = \"a\" =: x + x; \"b\" =:+ a ~logic:\"i=>\"";
    let args = [("x", fixed(2))];
    let returns = DataType::Struct(vec![("b".into(), real()), ("a".into(), fixed(2))]);
    let function = create(text, &args, returns).unwrap();
    assert_eq!(run(&function, &[f32s(&[1.0, 2.0])]), Value::structure([f32(6.0), f32s(&[2.0, 4.0])]));
    let function = create("let%cd f x = \"a\" =: x + x", &args, fixed(2)).unwrap();
    assert_eq!(run(&function, &[f32s(&[1.0, 2.0])]), f32s(&[2.0, 4.0]));
    let missing = create(text, &args, DataType::Struct(vec![("c".into(), real())])).unwrap_err();
    assert!(missing.contains("assigns no tensor `c`"), "{missing}");
    let several = create(text, &args, real()).unwrap_err();
    assert!(several.contains("assigns 2 tensors"), "{several}");
}

#[test]
fn declared_types_are_checked() {
    let text = "let%op f x = x + [1; 2; 3]";
    let wrong = |args: &[(&str, DataType)], returns| create(text, args, returns).unwrap_err();
    assert!(wrong(&[("x", fixed(2))], fixed(3)).contains("differ: 2 and 3"));
    assert!(wrong(&[("x", fixed(3))], fixed(4)).contains("`value` is `3`, which is no REAL[4]"));
    assert!(wrong(&[("x", DataType::Text)], fixed(3)).contains("a list of numbers, found VARCHAR"));
    assert!(wrong(&[], fixed(3)).contains("expected 1 argument, found 0"));
    let gradient = DataType::Struct(vec![("value".into(), fixed(3)), ("q".into(), fixed(3))]);
    assert!(wrong(&[("x", fixed(3))], gradient).contains("no gradient of `q`"));
}

/// A session with a function in Weld, `|v: vec[f64]| ..` over three numbers, and one in OCANNL.
fn session() -> Library {
    let mut library = Library::default();
    let array = Shape::array(ScalarKind::F64, [Some(3)]);
    for (name, text) in [("total", "|v: vec[f64]| sum(v)"), ("twice", "|v: vec[f64]| map(v, |x| x + x)")] {
        let program = weld_core::parse_program(text).unwrap();
        let result = if name == "total" { Shape::F64 } else { array.clone() };
        let source = Arc::new(Source::new(name, text));
        let function = Function::of_program(vec![("v", array.clone())], result, program, source).unwrap();
        library.insert(name, Arc::new(function));
    }
    let half = create("let%op half x = 0.5 *. x", &[("x", fixed(3))], fixed(3)).unwrap();
    library.insert("half", Arc::new(half));
    library
}

#[test]
fn functions_of_the_session() {
    let library = session();
    let options = Options { sql: true, ..Options::default() };
    let args = [Arg { name: Some("x".into()), known: Known::Type(fixed(3)), ..Arg::default() }];
    let compile = |text: &str, returns: DataType| {
        let request =
            Request { args: Args::Given(&args), returns: Some(&returns), ..Request::new(text, &library, &options) };
        weld_ocannl::Ocannl.compile(&request).map_err(|errors| errors[0].message.clone())
    };
    let function = compile("let%op f x = half (twice x) + total (x *. x)", fixed(3)).unwrap();
    assert_eq!(run(&function, &[f32s(&[1.0, 2.0, 3.0])]), f32s(&[15.0, 16.0, 17.0]));
    let wrong = compile("let%op f x = total (x ++ \"i=>\")", real()).unwrap_err();
    assert_eq!(wrong, "`total`: the parameter `v` is f64[3], the argument is ``");
    let returns = DataType::Struct(vec![("value".into(), real()), ("x".into(), fixed(3))]);
    let wrong = compile("let%op f x = total x", returns).unwrap_err();
    assert_eq!(wrong, "no gradient through `total`, a function of another text");
}

/// The loops of the optimised program.
fn loops(function: &Function) -> usize {
    let mut program = function.program.clone();
    weld_core::opt::optimize(&mut program, &Default::default());
    program.to_string().matches("for(").count()
}

#[test]
fn chains_are_one_loop() {
    let list = || DataType::list(real());
    let dot = create("let%op dot x y = (x *. y) ++ \"i=>\"", &[("x", list()), ("y", list())], real()).unwrap();
    assert_eq!(loops(&dot), 1);
    let chain = create("let%op f x = relu (tanh (x *. 2 + 1)) /. 3", &[("x", list())], list()).unwrap();
    assert_eq!(loops(&chain), 1);
    let matrix = DataType::fixed(fixed(128), 32);
    let args = [("x", fixed(128)), ("w", matrix), ("b", fixed(32))];
    let layer = create("let%op layer x w b = relu (w * x + b)", &args, fixed(32)).unwrap();
    // The rows, and the products of one: nothing is stored between.
    assert_eq!(loops(&layer), 2);
    let gradient = DataType::Struct(vec![("value".into(), real()), ("w".into(), fixed(4))]);
    let args = [("x", fixed(4)), ("y", real()), ("w", fixed(4))];
    let miss = create("let%op miss x y = (\"w\" * x - y) **. 2.0", &args, gradient).unwrap();
    assert_eq!(loops(&miss), 2);
}
