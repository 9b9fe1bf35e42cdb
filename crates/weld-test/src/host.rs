//! The host functions that test programs may call by `cudf`.

use weld_codegen::{CVec, Cudf, ForeignHost};
use weld_core::Frontend;
use weld_core::interp::{Host, Value};
use weld_core::ty::Type;

extern "C" fn add_five(x: &i64, result: &mut i64) {
    *result = x.wrapping_add(5);
}

extern "C" fn sum_of(values: &CVec<'_, f64>, result: &mut f64) {
    *result = values.as_slice().iter().fold(0.0, |sum, value| sum + value);
}

/// The functions, for compiled code.
pub fn functions() -> Vec<Cudf> {
    vec![Cudf::unary("add_five", add_five), Cudf::unary("sum_of", sum_of)]
}

/// A front end that knows them.
pub fn frontend() -> Frontend {
    Frontend { cudfs: functions().iter().map(Cudf::declaration).collect() }
}

/// The interpreter's way to them.
pub fn call(name: &str, args: &[Value], result: &Type) -> Result<Value, String> {
    ForeignHost::new(&functions()).map_err(|error| error.to_string())?.call(name, args, result)
}
