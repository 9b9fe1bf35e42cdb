//! Runs texts through the interpreter, with arguments by name as JSON.
#![allow(dead_code, reason = "each test file uses a part")]

use serde_json::{Value as Json, json};
use weld_core::diag::{Diagnostic, line_column};
use weld_core::interp;
use weld_core::ty::ScalarKind;
use weld_frontend::{Arg, Args, Function, Language, Library, Options, Request, json as values};
use weld_ocannl::Ocannl;

pub(crate) fn options(wrt: &[&str]) -> Options {
    let wrt = wrt.iter().map(|name| name.to_string()).collect();
    Options { wrt, element: ScalarKind::F64, ..Options::default() }
}

/// Compiles the last definition for these arguments.
pub(crate) fn compile(text: &str, args: &Json, wrt: &[&str]) -> Result<Function, Diagnostic> {
    let (library, options) = (Library::default(), options(wrt));
    let args: Vec<Arg> = args
        .as_object()
        .expect("arguments by name")
        .iter()
        .map(|(name, value)| Arg {
            name: Some(name.clone()),
            known: values::known(value).expect("data"),
            ..Arg::default()
        })
        .collect();
    let request = Request { args: Args::Given(&args), ..Request::new(text, &library, &options) };
    Ocannl.compile(&request).map_err(|errors| errors.into_iter().next().expect("an error"))
}

/// The value, and the gradients as an object.
pub(crate) fn run(text: &str, args: &Json, wrt: &[&str]) -> Result<(Json, Json), Diagnostic> {
    let function = compile(text, args, wrt)?;
    Ok(call(&function, args))
}

pub(crate) fn call(function: &Function, args: &Json) -> (Json, Json) {
    let given = function.params.iter().map(|param| values::read(&args[&param.name], &param.shape).expect("a value"));
    let given: Vec<_> = given.collect();
    let value = interp::run(&function.program, &given, &Default::default()).expect("it runs");
    let json = values::write(&value, &function.output());
    if function.gradients.is_empty() {
        return (json, json!({}));
    }
    let mut fields = json.as_object().expect("a record").clone();
    let value = fields.remove("value").expect("the value");
    (value, Json::Object(fields))
}

/// Kind, message, line and column of what is refused.
pub(crate) fn error(text: &str, args: &Json) -> String {
    match compile(text, args, &[]) {
        Ok(_) => "accepted".into(),
        Err(error) => {
            let (line, column) = line_column(text, error.span.start);
            format!("{line}:{column}: {error}")
        }
    }
}

/// A tensor of these sizes with these cells.
pub(crate) fn tensor(batch: &[usize], output: &[usize], input: &[usize], cells: &[f64]) -> Json {
    json!({"batch": batch, "output": output, "input": input, "data": cells})
}

/// All numbers of a value in order.
pub(crate) fn numbers(json: &Json) -> Vec<f64> {
    match json {
        Json::Array(items) => items.iter().flat_map(numbers).collect(),
        Json::Object(object) => numbers(&object["data"]),
        Json::String(text) => vec![text.replace("Infinity", "inf").parse().expect("a number")],
        other => vec![other.as_f64().expect("a number")],
    }
}

pub(crate) fn close(a: &[f64], b: &[f64], tolerance: f64) -> bool {
    let near = |(a, b): (&f64, &f64)| a == b || (a - b).abs() <= tolerance * (1.0 + a.abs().max(b.abs()));
    a.len() == b.len() && a.iter().zip(b).all(near)
}
