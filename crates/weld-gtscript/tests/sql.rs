//! Stencils as SQL calls them: sizes come with each row, outputs are left out, the domain is what fits.

use std::sync::Arc;

use weld_core::interp::{self, Value};
use weld_core::ty::ScalarKind;
use weld_frontend::{Arg, Args, DataType, Function, Known, Language, Library, Options, Request, json};
use weld_gtscript::GtScript;

const SMOOTH: &str = "
@stencil
def smooth(t: Field[K, float64], s: Field[K, float64]):
    with computation(FORWARD):
        with interval(0, 1):
            s = t
        with interval(1, None):
            s = 0.5 * t + 0.5 * s[-1]
";

fn double() -> DataType {
    DataType::Scalar(ScalarKind::F64)
}

fn lists(depth: usize) -> DataType {
    (0..depth).fold(double(), |element, _| DataType::list(element))
}

fn compile(text: &str, args: &[DataType], returns: &DataType, library: &Library) -> Result<Function, String> {
    let options = Options { sql: true, ..Options::default() };
    let args: Vec<Arg> = args.iter().map(|ty| Arg { known: Known::Type(ty.clone()), ..Arg::default() }).collect();
    let mut request = Request::new(text, library, &options);
    (request.entry, request.args, request.returns) = (Some("f"), Args::Given(&args), Some(returns));
    GtScript.compile(&request).map_err(|errors| errors[0].message.clone())
}

fn run(function: &Function, args: &[&str]) -> Result<String, String> {
    let values: Vec<Value> = args
        .iter()
        .zip(&function.params)
        .map(|(text, param)| json::read(&serde_json::from_str(text).unwrap(), &param.shape).unwrap())
        .collect();
    let value = interp::run(&function.program, &values, &Default::default()).map_err(|error| error.message)?;
    Ok(json::write(&value, &function.output()).to_string())
}

#[test]
fn an_output_that_is_left_out() {
    let smooth = compile(SMOOTH, &[lists(1)], &lists(1), &Library::default()).unwrap();
    assert_eq!(run(&smooth, &["[4, 8, 0]"]).unwrap(), "[4.0,6.0,3.0]");
    assert_eq!(run(&smooth, &["[]"]).unwrap(), "[]");
    assert!(run(&smooth, &["[1]"]).unwrap_err().contains("interval(1, None) is empty or reversed"));
    let fixed = DataType::fixed(double(), 3);
    let smooth = compile(SMOOTH, std::slice::from_ref(&fixed), &fixed, &Library::default()).unwrap();
    assert_eq!(run(&smooth, &["[4, 8, 0]"]).unwrap(), "[4.0,6.0,3.0]");
    let returns = DataType::Struct(vec![("s".into(), lists(1))]);
    let smooth = compile(SMOOTH, &[lists(1)], &returns, &Library::default()).unwrap();
    assert_eq!(run(&smooth, &["[4, 8]"]).unwrap(), "{\"s\":[4.0,6.0]}");
}

#[test]
fn declared_types_are_checked() {
    let wrong = |args: &[DataType]| compile(SMOOTH, args, &lists(1), &Library::default()).unwrap_err();
    assert!(wrong(&[lists(2)]).contains("`t` is Field[K, float64]"));
    assert!(wrong(&[DataType::list(DataType::Scalar(ScalarKind::F32))]).contains("REAL[] is declared"));
    assert!(wrong(&[]).contains("`t` is missing"));
}

#[test]
fn margins_of_open_sizes() {
    let text = "
@stencil
def laplacian(a: Field[IJ, float64], b: Field[IJK, float64]):
    with computation(PARALLEL), interval(...):
        b = a[1, 0] + a[-1, 0] + a[0, 1] + a[0, -1]
";
    let laplacian = compile(text, &[lists(2), lists(3)], &lists(3), &Library::default()).unwrap();
    let found = run(&laplacian, &["[[1,2,4],[8,16,32],[64,128,256]]", "[[[9],[9],[9]],[[9],[9],[9]],[[9],[9],[9]]]"]);
    assert_eq!(found.unwrap(), "[[[9.0],[9.0],[9.0]],[[9.0],[170.0],[9.0]],[[9.0],[9.0],[9.0]]]");
    // Too small for a point: nothing is done.
    let found = run(&laplacian, &["[[1,2]]", "[[[9],[9]]]"]);
    assert_eq!(found.unwrap(), "[[[9.0],[9.0]]]");
}

#[test]
fn blocks_over_levels_of_open_sizes() {
    let text = "
@stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(BACKWARD):
        with interval(-1, None):
            t = a
            b = t
        with interval(0, -1):
            t = a + t[0, 0, 1]
            b = t + a
    with computation(FORWARD):
        with interval(0, 1):
            u = a
        with interval(1, None):
            u = a
            b = b + u[1, 0, -1]
";
    let f = compile(text, &[lists(3)], &lists(3), &Library::default()).unwrap();
    // The last point along I has no neighbour.
    let found = run(&f, &["[[[1,2,3]],[[10,20,30]],[[100,200,300]]]"]).unwrap();
    assert_eq!(found, "[[[7.0,17.0,23.0]],[[70.0,170.0,230.0]]]");
}

#[test]
fn functions_of_the_session_are_called_at_points() {
    let mut library = Library::default();
    let square = weld_core::parse_program("|x: f64| x * x").unwrap();
    let source = Arc::new(weld_frontend::Source::new("square", "|x: f64| x * x"));
    let params = vec![("x", weld_frontend::Shape::F64)];
    let square = Function::of_program(params, weld_frontend::Shape::F64, square, source).unwrap();
    library.insert("square", Arc::new(square));
    let text = "
@stencil
def f(a: Field[K, float64], b: Field[K, float64]):
    with computation(PARALLEL), interval(...):
        if a > 1:
            b = square(a) + square(2)
";
    let f = compile(text, &[lists(1)], &lists(1), &library).unwrap();
    assert_eq!(run(&f, &["[1, 2, 3]"]).unwrap(), "[0.0,8.0,13.0]");
}
