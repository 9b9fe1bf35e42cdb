//! Functions of every language through the crate's interface.

use std::sync::Arc;

use weld::{DataType, Definition, Library, Options, Program, RuntimeErrorKind, ScalarKind, Shape, Value};

fn run(definition: &Definition<'_>, args: &[Value]) -> Value {
    let function = definition.check().unwrap();
    Program::of_function(&function).compile(&Options::default()).unwrap().run(args).unwrap()
}

fn floats(data: &[f32]) -> Value {
    Value::vector(data.to_vec())
}

#[test]
fn the_definition_is_the_named_one_or_the_last() {
    let text = "function int one() { return 1; } function int two() { return 2; }";
    let definition = Definition::new("ttl", text);
    assert_eq!(run(&definition, &[]).get::<i32>(), Some(2));
    assert_eq!(run(&definition.clone().entry("one"), &[]).get::<i32>(), Some(1));
    let errors = definition.entry("three").check().unwrap_err();
    assert!(errors.to_string().contains("three"), "{errors}");
}

#[test]
fn arguments_are_in_the_order_that_the_caller_says() {
    let text = "let%op f a b = a - b";
    let definition = Definition::new("ocannl", text).list("b", [2]).list("a", [2]);
    let names: Vec<String> = definition.check().unwrap().params.into_iter().map(|param| param.name).collect();
    assert_eq!(names, ["b", "a"]);
    let result = run(&definition, &[floats(&[1.0, 2.0]), floats(&[10.0, 20.0])]);
    assert_eq!(result.as_slice::<f32>(), Some(&[9.0, 18.0][..]));
}

#[test]
fn open_sizes_come_with_the_values() {
    let text = "function matrix<int>[?,?] f(matrix<int>[?,?] m) { return m{0...1, 0...m $ 1}; }";
    let argument = Value::structure([Value::vector(vec![1, 2, 3, 4, 5, 6]), Value::i64(2), Value::i64(3)]);
    let result = run(&Definition::new("ttl", text), &[argument]);
    assert_eq!(result.field(0).unwrap().as_slice::<i32>(), Some(&[1, 2, 3][..]));
    assert_eq!([1, 2].map(|size| result.field(size).unwrap().as_i64().unwrap()), [1, 3]);
}

#[test]
fn fields_have_their_origin() {
    let text = "@stencil\ndef f(a: Field[I, float64], b: Field[I, float64]):\n    with computation(FORWARD), interval(...):\n        b = a[1] - a[-1]\n";
    let definition = Definition::new("gtscript", text).field("a", [4], [1]).list("b", [2]).domain([2, 1, 1]);
    let result = run(&definition, &[Value::vector(vec![1.0, 2.0, 4.0, 8.0]), Value::vector(vec![0.0; 2])]);
    assert_eq!(result.field(0).unwrap().as_slice::<f64>(), Some(&[3.0, 6.0][..]));
}

#[test]
fn columns_and_elements() {
    let double = DataType::Scalar(ScalarKind::F64);
    let text = "let%op f x = x ++ \"i=>\"";
    let definition = Definition::new("ocannl", text).column("x", DataType::list(double));
    let function = definition.check().unwrap();
    assert!(matches!(&function.params[0].shape, Shape::Array(array) if array.element == ScalarKind::F64));
    let wide = Definition::new("ocannl", "let%op f () = 0.1").element(ScalarKind::F64);
    assert_eq!(run(&wide, &[]).as_slice::<f64>(), Some(&[0.1][..]));
    let text = "function int f(int x) { return x + 1; }";
    assert_eq!(run(&Definition::new("ttl", text).argument("x"), &[Value::i32(41)]).get::<i32>(), Some(42));
}

#[test]
fn errors_have_their_text() {
    let errors = Definition::new("cobol", "").check().unwrap_err();
    assert_eq!(
        errors.diagnostics[0].message,
        "unknown language `cobol`: the languages are weld, ttl, gtscript, ocannl, python"
    );
    let errors = Definition::new("ocannl", "let%op f x =\n  x + yy").list("x", [1]).check().unwrap_err();
    assert!(errors.to_string().contains("program:2:7") && errors.to_string().contains("x + yy"), "{errors}");
    // An error of a function that was called is shown in that function's text.
    let mut library = Library::default();
    let inner = Definition::new("ttl", "function int third(int x) {\n  return 3 / x;\n}").check().unwrap();
    library.insert("third", Arc::new(inner));
    let text = "function int g(int x) { return third(x - 1); }";
    let outer = Definition::new("ttl", text).library(&library).check().unwrap();
    let compiled = Program::of_function(&outer).compile(&Options::default()).unwrap();
    let error = compiled.run(&[Value::i32(1)]).unwrap_err();
    assert_eq!(error.kind, RuntimeErrorKind::DivisionByZero);
    let shown = compiled.show(&error);
    assert!(shown.contains("third, line 2") && shown.contains("return 3 / x;"), "{shown}");
}
