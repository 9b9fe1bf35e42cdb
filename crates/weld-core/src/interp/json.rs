//! Values as JSON, by type: `{i64,f32}` is `[1, 2.5]`.
//!
//! Integers are JSON integers, exact to 64 bits, `i128` a string of digits; floats are numbers or `"NaN"`,
//! `"Infinity"`, `"-Infinity"`; structs and vectors are arrays, dictionaries `{"dict": [[key, value], ..]}`, SIMD
//! values arrays of their lanes. On the way in a byte vector may also be a string, and `i128` an integer.

use serde_json::{Number, Value as Json, json};

use super::LANES;
use super::value::Value;
use crate::ir::Literal;
use crate::ty::{ScalarKind, Type};

/// The JSON of a value. A builder, which no run returns, is null.
pub fn to_json(value: &Value) -> Json {
    match value {
        Value::Scalar(literal) => scalar_to_json(*literal),
        Value::Simd(lanes) => Json::Array(lanes.iter().map(|lane| scalar_to_json(*lane)).collect()),
        Value::Vec(items) => Json::Array(items.iter().map(to_json).collect()),
        Value::Struct(fields) => Json::Array(fields.iter().map(to_json).collect()),
        Value::Dict(dict) => {
            let entries: Vec<Json> = dict.iter().map(|(key, value)| json!([to_json(key), to_json(value)])).collect();
            json!({ "dict": entries })
        }
        Value::Builder(_) => Json::Null,
    }
}

fn scalar_to_json(literal: Literal) -> Json {
    match literal {
        Literal::Bool(v) => v.into(),
        Literal::I8(v) => v.into(),
        Literal::I16(v) => v.into(),
        Literal::I32(v) => v.into(),
        Literal::I64(v) => v.into(),
        Literal::I128(v) => v.to_string().into(),
        Literal::U8(v) => v.into(),
        Literal::U16(v) => v.into(),
        Literal::U32(v) => v.into(),
        Literal::U64(v) => v.into(),
        // The shortest digits that give the same f32: 0.1, not 0.10000000149011612.
        Literal::F32(v) => float_to_json(v.to_string().parse().unwrap_or(f64::from(v))),
        Literal::F64(v) => float_to_json(v),
    }
}

fn float_to_json(v: f64) -> Json {
    match Number::from_f64(v) {
        Some(number) => Json::Number(number),
        None if v.is_nan() => "NaN".into(),
        None if v > 0.0 => "Infinity".into(),
        None => "-Infinity".into(),
    }
}

/// The value of a type that the JSON stands for, or what is wrong with it.
pub fn from_json(json: &Json, ty: &Type) -> Result<Value, String> {
    let value = match (ty, json) {
        (Type::Scalar(kind), json) => scalar_from_json(json, *kind).map(Value::Scalar),
        (Type::Simd(kind), Json::Array(lanes)) if lanes.len() == LANES => {
            let lanes: Option<_> = lanes.iter().map(|lane| scalar_from_json(lane, *kind)).collect();
            lanes.map(Value::Simd)
        }
        (Type::Vec(element), Json::String(text)) if ty.is_bytes() => {
            let unsigned = **element == Type::U8;
            let literal = |byte| if unsigned { Literal::U8(byte) } else { Literal::I8(byte as i8) };
            Some(Value::vec(text.bytes().map(literal).map(Value::Scalar)))
        }
        (Type::Vec(element), Json::Array(items)) => {
            let items: Result<Vec<Value>, String> = items.iter().map(|item| from_json(item, element)).collect();
            return items.map(Value::vec);
        }
        (Type::Struct(types), Json::Array(fields)) if fields.len() == types.len() => {
            let fields: Result<Vec<Value>, String> =
                fields.iter().zip(types.iter()).map(|(field, ty)| from_json(field, ty)).collect();
            return fields.map(Value::structure);
        }
        (Type::Dict(key, value), Json::Object(object)) => match object.get("dict") {
            Some(Json::Array(entries)) if object.len() == 1 => return dict_from_json(entries, key, value),
            _ => None,
        },
        _ => None,
    };
    value.ok_or_else(|| format!("`{}` is no value of type {ty}", shortened(json)))
}

fn dict_from_json(entries: &[Json], key: &Type, value: &Type) -> Result<Value, String> {
    let entry = |entry: &Json| match entry.as_array().map(Vec::as_slice) {
        Some([k, v]) => Ok((from_json(k, key)?, from_json(v, value)?)),
        _ => Err(format!("`{}` is no [key, value]", shortened(entry))),
    };
    let entries_read: Result<Vec<(Value, Value)>, String> = entries.iter().map(entry).collect();
    let dict = Value::dict(entries_read?);
    match &dict {
        Value::Dict(read) if read.len() < entries.len() => Err("a key occurs twice in a dictionary".into()),
        _ => Ok(dict),
    }
}

fn scalar_from_json(json: &Json, kind: ScalarKind) -> Option<Literal> {
    match kind {
        ScalarKind::Bool => json.as_bool().map(Literal::Bool),
        ScalarKind::F32 => float_from_json(json).map(|v| Literal::F32(v as f32)),
        ScalarKind::F64 => float_from_json(json).map(Literal::F64),
        _ => {
            let wide = integer_from_json(json, kind)?;
            let narrow = super::scalar::cast(Literal::I128(wide), kind);
            (narrow.bits() == wide).then_some(narrow)
        }
    }
}

fn integer_from_json(json: &Json, kind: ScalarKind) -> Option<i128> {
    match json {
        Json::Number(number) => number.as_i64().map(i128::from).or(number.as_u64().map(i128::from)),
        Json::String(digits) if kind == ScalarKind::I128 => digits.parse().ok(),
        _ => None,
    }
}

fn float_from_json(json: &Json) -> Option<f64> {
    match json {
        Json::Number(number) => number.as_f64(),
        Json::String(name) => match name.as_str() {
            "NaN" | "nan" => Some(f64::NAN),
            "Infinity" | "inf" => Some(f64::INFINITY),
            "-Infinity" | "-inf" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn shortened(json: &Json) -> String {
    let text = json.to_string();
    match text.char_indices().nth(60) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(text: &str, ty: Type) {
        let json: Json = serde_json::from_str(text).expect("JSON");
        let value = from_json(&json, &ty).expect("a value of the type");
        assert!(value.has_type(&ty));
        assert_eq!(to_json(&value).to_string(), text);
    }

    #[test]
    fn round_trips() {
        round_trip("true", Type::BOOL);
        round_trip("-9223372036854775808", Type::I64);
        round_trip("18446744073709551615", Type::U64);
        round_trip("\"-170141183460469231731687303715884105728\"", Type::I128);
        round_trip("[0.1,\"NaN\",\"-Infinity\",-0.0,5.0]", Type::vec(Type::F32));
        round_trip("[0.1,\"Infinity\",1e+300]", Type::vec(Type::F64));
        let ty = Type::dict(Type::I64, Type::structure([Type::vec(Type::I8), Type::BOOL]));
        round_trip("{\"dict\":[[-1,[[],false]],[3,[[104,105],true]]]}", ty);
    }

    #[test]
    fn floats_have_short_names_on_the_way_in() {
        let short = serde_json::from_str("[\"nan\",\"inf\",\"-inf\"]").expect("JSON");
        let value = from_json(&short, &Type::vec(Type::F64)).expect("floats");
        assert_eq!(to_json(&value).to_string(), "[\"NaN\",\"Infinity\",\"-Infinity\"]");
    }

    #[test]
    fn wrong_values_are_named() {
        let wrong = |text: &str, ty: Type| from_json(&serde_json::from_str(text).expect("JSON"), &ty).unwrap_err();
        assert_eq!(wrong("256", Type::U8), "`256` is no value of type u8");
        assert_eq!(wrong("1.5", Type::I64), "`1.5` is no value of type i64");
        assert_eq!(wrong("[1,true]", Type::vec(Type::I64)), "`true` is no value of type i64");
        assert_eq!(wrong("[1]", Type::structure([Type::I64, Type::I64])), "`[1]` is no value of type {i64,i64}");
        let dict = Type::dict(Type::I64, Type::I64);
        assert_eq!(wrong("{\"dict\":[[1,2],[1,3]]}", dict), "a key occurs twice in a dictionary");
    }
}
