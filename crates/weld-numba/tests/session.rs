//! Functions as a session has them: types of columns, functions of other texts, what is declared.

use std::sync::Arc;

use weld_core::ty::ScalarKind;
use weld_frontend::{Arg, Args, DataType, Function, Known, Language, Library, Options, Request};
use weld_numba::Python;

fn compile(text: &str, types: &[&DataType], returns: &DataType, library: &Library) -> Result<Function, String> {
    let options = Options { sql: true, ..Options::default() };
    let column = |ty: &&DataType| Arg { known: Known::Type((*ty).clone()), ..Arg::default() };
    let args: Vec<Arg> = types.iter().map(column).collect();
    let mut request = Request::new(text, library, &options);
    (request.args, request.returns) = (Args::Given(&args), Some(returns));
    Python.compile(&request).map_err(|errors| errors[0].message.clone())
}

#[test]
fn columns_have_types() {
    let [int, double, real] = [ScalarKind::I64, ScalarKind::F64, ScalarKind::F32].map(DataType::Scalar);
    let library = Library::default();
    let text = "def f(x, n):\n    return x * n\n";
    let function = compile(text, &[&double, &int], &double, &library).unwrap();
    assert_eq!((function.result_type.as_str(), function.params[1].written.as_str()), ("Float64", "Int64"));
    let function = compile(text, &[&int, &int], &double, &library).unwrap();
    assert_eq!(function.result_type, "Float64");
    assert!(compile(text, &[&double, &int], &int, &library).is_err());
    let lists = DataType::list(real.clone());
    let function = compile("def f(xs):\n    return [x * 2 for x in xs]\n", &[&lists], &lists, &library).unwrap();
    assert_eq!(function.result_type, "[Float32]");
    let row = DataType::Struct(vec![("a".into(), double.clone()), ("b".into(), int.clone())]);
    let text = "class P(object):\n    layout = Struct([('a', 'Float'), ('b', 'Int')])\ndef f(x):\n    return P(x, 1)\n";
    assert!(compile(text, &[&double], &row, &library).is_ok());
    let decimal = DataType::Scalar(ScalarKind::I128);
    let error = compile("def f(x):\n    return x\n", &[&decimal], &decimal, &library).unwrap_err();
    assert_eq!(error, "DECIMAL is no type of Python's");
}

#[test]
fn functions_of_the_session() {
    let double = DataType::Scalar(ScalarKind::F64);
    let mut library = Library::default();
    let tax = compile("def tax(x):\n    return x * 0.5\n", &[&double], &double, &library).unwrap();
    library.insert("tax", Arc::new(tax));
    let text = "def gross(x):\n    return x + tax(x)\n";
    let gross = compile(text, &[&double], &double, &library).unwrap();
    let args = [weld_core::interp::Value::Scalar(weld_core::ir::Literal::F64(2.0))];
    let value = weld_core::interp::run(&gross.program, &args, &Default::default()).unwrap();
    assert_eq!(value, weld_core::interp::Value::Scalar(weld_core::ir::Literal::F64(3.0)));
    let error = compile("def f(x):\n    return tax(x, x)\n", &[&double], &double, &library).unwrap_err();
    assert_eq!(error, "TypeError: `tax` takes 1 arguments, found 2");
}
