//! The host functions that test programs may call by `cudf`.

use weld_core::interp::Value;
use weld_core::ir::Literal;
use weld_core::ty::Type;
use weld_core::{Frontend, Signature};

/// A front end that knows them.
pub fn frontend() -> Frontend {
    let functions = [
        ("add_five", vec![Type::I64], Type::I64),
        ("sum_of", vec![Type::vec(Type::F64)], Type::F64),
        ("always_fails", vec![], Type::I64),
    ];
    let cudfs = functions.into_iter().map(|(name, params, result)| (name.to_string(), Signature { params, result }));
    Frontend { cudfs: cudfs.collect() }
}

/// The interpreter's view of them.
pub fn call(name: &str, args: &[Value], _result: &Type) -> Result<Value, String> {
    match (name, args) {
        ("add_five", [Value::Scalar(Literal::I64(v))]) => Ok(Value::i64(v.wrapping_add(5))),
        ("sum_of", [Value::Vec(items)]) => {
            let float = |item: &Value| match item {
                Value::Scalar(Literal::F64(v)) => *v,
                _ => f64::NAN,
            };
            Ok(Value::f64(items.iter().map(float).sum()))
        }
        ("always_fails", []) => Err("it failed as it should".into()),
        _ => Err(format!("no function `{name}` takes these arguments")),
    }
}
