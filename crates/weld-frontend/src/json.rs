//! Values as JSON, by shape: what `weld eval` and `weld run` read and write.
//!
//! Numbers, booleans, strings, null for no value, row-major lists, objects for records. Floats may be `"NaN"`,
//! `"Infinity"`, `"-Infinity"` (and `nan`, `inf`, `-inf` on the way in). Data of rank 2 on that is empty is
//! `{"shape": [0, 3], "data": []}`. A field is `{"data", "origin"?}`, a tensor
//! `{"batch", "output", "input", "data", "labels"?}`; on the way in each of them may be a plain list, too.

use serde_json::{Map, Value as Json, json};
use weld_core::interp::{Value, json as plain};
use weld_core::ir::Literal;

use crate::{Array, Axes, Known, Shape, Sizes};

/// What a value says about itself before the text is looked at, or what is wrong with it: ragged lists, sizes that are
/// not those of the data.
pub fn known(json: &Json) -> Result<Known, String> {
    match json {
        Json::Number(_) => Ok(Known::Sizes(Sizes::default())),
        Json::Array(_) => {
            let (sizes, _) = flat(json)?;
            Ok(Known::Sizes(Sizes { output: sizes, ..Sizes::default() }))
        }
        Json::Object(object) if object.contains_key("data") => Ok(Known::Sizes(described(object)?.0)),
        _ => Ok(Known::Nothing),
    }
}

/// The value of a shape that the JSON stands for, or what is wrong with it.
pub fn read(json: &Json, shape: &Shape) -> Result<Value, String> {
    match (shape, json) {
        (Shape::Void, Json::Null) => Ok(Value::bool(false)),
        (Shape::Plain(ty), _) => plain::from_json(json, ty),
        (Shape::Text, Json::String(text)) => Ok(bytes(text)),
        (Shape::List(element), Json::Array(items)) => {
            items.iter().map(|item| read(item, element)).collect::<Result<Vec<_>, _>>().map(Value::vec)
        }
        (Shape::Array(array), _) => read_array(json, array),
        (Shape::Tuple(parts), Json::Array(items)) if parts.len() == items.len() => {
            let values = items.iter().zip(parts).map(|(item, part)| read(item, part));
            values.collect::<Result<Vec<_>, _>>().map(Value::structure)
        }
        (Shape::Record(fields), Json::Object(object)) if fields.len() == object.len() => {
            let value = |(name, shape): &(String, Shape)| {
                let value = object.get(name).ok_or_else(|| format!("the field `{name}` is missing"))?;
                read(value, shape).map_err(|message| format!("`{name}`: {message}"))
            };
            fields.iter().map(value).collect::<Result<Vec<_>, _>>().map(Value::structure)
        }
        _ => Err(no_value(json, &shape.described())),
    }
}

fn no_value(json: &Json, wanted: &str) -> String {
    let text = json.to_string();
    let shown = text.char_indices().nth(60).map_or(text.clone(), |(at, _)| format!("{}...", &text[..at]));
    format!("`{shown}` is no value of {wanted}")
}

fn bytes(text: &str) -> Value {
    Value::vec(text.bytes().map(|byte| Value::Scalar(Literal::U8(byte))))
}

fn read_array(json: &Json, array: &Array) -> Result<Value, String> {
    let (sizes, leaves) = match json {
        Json::Object(object) if object.contains_key("data") => {
            let (sizes, leaves) = described(object)?;
            check_axes(&sizes, array)?;
            (sizes.all(), leaves)
        }
        // A number is a tensor of output dimension 1.
        Json::Number(_) | Json::String(_) | Json::Bool(_) if array.elements() == Some(1) => {
            (vec![1; array.rank()], vec![json])
        }
        Json::Array(_) => flat(json)?,
        _ => return Err(no_value(json, &Shape::Array(array.clone()).described())),
    };
    let given: Vec<Option<u64>> = sizes.iter().copied().map(Some).collect();
    // An empty list does not say how many axes follow.
    let is_empty = leaves.is_empty() && sizes.len() < array.rank();
    if !is_empty && !array.agrees(&given) {
        let wanted = Shape::Array(array.clone()).described();
        return Err(format!("the sizes are {sizes:?}, the parameter has {wanted}"));
    }
    let carried = array.carried();
    let size = |axis: usize| sizes.get(axis).copied().unwrap_or(array.sizes[axis].unwrap_or(0));
    if is_empty && array.elements().is_some_and(|elements| elements > 0) {
        return Err(format!("there are no elements, the parameter has {}", Shape::Array(array.clone()).described()));
    }
    let data = leaves.into_iter().map(|leaf| read(leaf, &Shape::scalar(array.element)));
    let data = Value::vec(data.collect::<Result<Vec<_>, _>>()?);
    if carried.is_empty() {
        return Ok(data);
    }
    let sizes = carried.into_iter().map(|axis| Value::i64(size(axis) as i64));
    Ok(Value::structure(std::iter::once(data).chain(sizes)))
}

/// Kinds of axes that are given have to be those of the parameter.
fn check_axes(sizes: &Sizes, array: &Array) -> Result<(), String> {
    let Axes::Tensor { batch, output, .. } = &array.axes else { return Ok(()) };
    if sizes.tensor && (sizes.batch.len() != *batch || sizes.output.len() != *output) {
        let found = format!("{} batch and {} output axes", sizes.batch.len(), sizes.output.len());
        return Err(format!("the value has {found}, the parameter {batch} and {output}"));
    }
    Ok(())
}

/// The sizes and elements of nested lists. A level that is empty ends the sizes.
fn flat(json: &Json) -> Result<(Vec<u64>, Vec<&Json>), String> {
    let mut sizes: Vec<u64> = Vec::new();
    let mut level = vec![json];
    while let Some(Json::Array(first)) = level.first() {
        if sizes.len() == DEPTH_MAX {
            return Err(format!("lists are nested more than {DEPTH_MAX} deep"));
        }
        let mut next = Vec::new();
        for item in &level {
            let items = item.as_array().filter(|items| items.len() == first.len());
            next.extend(items.ok_or_else(|| ragged(item, first.len()))?);
        }
        sizes.push(first.len() as u64);
        level = next;
    }
    match level.iter().find(|item| item.is_array()) {
        Some(item) => Err(format!("the list is ragged: `{}` stands beside an element", no_value_text(item))),
        None => Ok((sizes, level)),
    }
}

const DEPTH_MAX: usize = 32;

fn no_value_text(json: &Json) -> String {
    json.to_string().chars().take(40).collect()
}

fn ragged(item: &Json, wanted: usize) -> String {
    match item.as_array() {
        Some(items) => format!("the list is ragged: one part has {wanted} elements, another {}", items.len()),
        None => format!("the list is ragged: `{}` stands beside a list", no_value_text(item)),
    }
}

/// `{"shape", "data"}`, a field, or a tensor: its sizes and elements.
fn described(object: &Map<String, Json>) -> Result<(Sizes, Vec<&Json>), String> {
    const KEYS: [&str; 7] = ["data", "shape", "origin", "batch", "output", "input", "labels"];
    if let Some(other) = object.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(format!("`{other}` says nothing about a value; it may have `{}`", KEYS.join("`, `")));
    }
    let (found, leaves) = match &object["data"] {
        Json::Object(inner) if inner.contains_key("data") => {
            let (sizes, leaves) = described(inner)?;
            (sizes.all(), leaves)
        }
        data => flat(data)?,
    };
    let counts = |key: &str| object.get(key).map(|list| whole_numbers(key, list)).transpose();
    let mut sizes = Sizes { origin: counts("origin")?, ..Sizes::default() };
    sizes.tensor = ["batch", "output", "input"].iter().any(|key| object.contains_key(*key));
    match counts("shape")? {
        _ if sizes.tensor => {
            sizes.batch = counts("batch")?.unwrap_or_default();
            sizes.output = counts("output")?.unwrap_or_default();
            sizes.input = counts("input")?.unwrap_or_default();
        }
        Some(shape) => sizes.output = shape,
        None => sizes.output = found.clone(),
    }
    if let Some(labels) = object.get("labels") {
        sizes.labels = read_labels(labels, &sizes)?;
    }
    let all = sizes.all();
    // Sizes are `i64` in Weld.
    if let Some(size) = all.iter().find(|size| i64::try_from(**size).is_err()) {
        return Err(format!("the size {size} is too large"));
    }
    let elements = all.iter().try_fold(1u64, |product, size| product.checked_mul(*size));
    // Flat data and that of an empty axis are fine; nested data must be nested as the sizes say.
    let is_nested = found.len() > 1 && !leaves.is_empty();
    if elements != Some(leaves.len() as u64) || (is_nested && found != all) {
        return Err(format!("the sizes are {all:?}, the data's {found:?}"));
    }
    Ok((sizes, leaves))
}

fn whole_numbers(key: &str, list: &Json) -> Result<Vec<u64>, String> {
    let numbers = list.as_array().map(|list| list.iter().map(Json::as_u64).collect::<Option<Vec<_>>>());
    numbers.flatten().ok_or_else(|| format!("`{key}` must be a list of whole numbers"))
}

fn read_labels(labels: &Json, sizes: &Sizes) -> Result<Vec<Option<String>>, String> {
    let wrong = || "`labels` must be an object of lists of strings or null, one for each axis of a kind".to_owned();
    let labels = labels.as_object().ok_or_else(wrong)?;
    if labels.keys().any(|key| !["batch", "output", "input"].contains(&key.as_str())) {
        return Err(wrong());
    }
    let mut all = Vec::new();
    for (key, axes) in [("batch", &sizes.batch), ("output", &sizes.output), ("input", &sizes.input)] {
        let Some(list) = labels.get(key) else {
            all.extend(std::iter::repeat_n(None, axes.len()));
            continue;
        };
        let list = list.as_array().filter(|list| list.len() == axes.len()).ok_or_else(wrong)?;
        for label in list {
            match label {
                Json::Null => all.push(None),
                Json::String(label) => all.push((!label.is_empty()).then(|| label.clone())),
                _ => return Err(wrong()),
            }
        }
    }
    Ok(all)
}

/// The JSON of a value of a shape. A value that is not of the shape is null.
pub fn write(value: &Value, shape: &Shape) -> Json {
    match (shape, value) {
        (Shape::Void, _) => Json::Null,
        (Shape::Plain(_), _) => plain::to_json(value),
        (Shape::Text, _) => match value.to_bytes() {
            Some(bytes) => String::from_utf8_lossy(&bytes).into_owned().into(),
            None => Json::Null,
        },
        (Shape::List(element), Value::Vec(items)) => items.iter().map(|item| write(item, element)).collect(),
        (Shape::Array(array), _) => write_array(value, array),
        (Shape::Tuple(parts), Value::Struct(values)) => {
            values.iter().zip(parts).map(|(value, part)| write(value, part)).collect()
        }
        (Shape::Record(fields), Value::Struct(values)) => {
            let field = |(value, (name, shape)): (&Value, &(String, Shape))| (name.clone(), write(value, shape));
            Json::Object(values.iter().zip(fields).map(field).collect())
        }
        _ => Json::Null,
    }
}

fn write_array(value: &Value, array: &Array) -> Json {
    let (data, carried): (&Value, &[Value]) = match value {
        Value::Struct(parts) if array.carries_sizes() => (&parts[0], &parts[1..]),
        _ => (value, &[]),
    };
    let Value::Vec(items) = data else { return Json::Null };
    let mut carried = carried.iter().map(|size| match size {
        Value::Scalar(literal) => literal.bits() as u64,
        _ => 0,
    });
    let mut open = || if array.rank() == 1 { items.len() as u64 } else { carried.next().unwrap_or(0) };
    let sizes: Vec<u64> = array.sizes.iter().map(|size| size.unwrap_or_else(&mut open)).collect();
    let data = nested(items, &sizes);
    match &array.axes {
        Axes::Plain => data,
        Axes::Field => json!({ "data": data }),
        Axes::Tensor { batch, output, labels } => {
            let (first, rest) = sizes.split_at((*batch).min(sizes.len()));
            let (second, third) = rest.split_at((*output).min(rest.len()));
            let mut tensor = json!({"batch": first, "output": second, "input": third, "data": data});
            if labels.iter().any(Option::is_some) {
                tensor["labels"] = write_labels(labels, *batch, *output);
            }
            tensor
        }
    }
}

fn write_labels(labels: &[Option<String>], batch: usize, output: usize) -> Json {
    let kinds = [("batch", 0..batch), ("output", batch..batch + output), ("input", batch + output..labels.len())];
    let given = kinds.into_iter().filter_map(|(kind, axes)| {
        let axes = labels.get(axes)?;
        axes.iter().any(Option::is_some).then(|| (kind.to_owned(), json!(axes)))
    });
    Json::Object(given.collect())
}

/// Nested lists of these sizes, a number of none. Without elements the sizes are written beside the data, unless there
/// is one axis.
fn nested(items: &[Value], sizes: &[u64]) -> Json {
    if items.is_empty() && sizes.len() > 1 {
        return json!({"shape": sizes, "data": []});
    }
    if let ([], [number]) = (sizes, items) {
        return plain::to_json(number);
    }
    let mut level: Vec<Json> = items.iter().map(plain::to_json).collect();
    for size in sizes.iter().skip(1).rev() {
        let size = usize::try_from(*size).unwrap_or(usize::MAX).max(1);
        let mut rest = level.into_iter().peekable();
        level = Vec::new();
        while rest.peek().is_some() {
            level.push(Json::Array(rest.by_ref().take(size).collect()));
        }
    }
    Json::Array(level)
}

#[cfg(test)]
mod tests {
    use weld_core::ty::ScalarKind;

    use super::*;

    fn json(text: &str) -> Json {
        serde_json::from_str(text).unwrap()
    }

    fn round_trip(text: &str, shape: &Shape) {
        let value = read(&json(text), shape).unwrap();
        assert!(value.has_type(&shape.ty()), "{text}");
        assert_eq!(write(&value, shape), json(text));
    }

    fn wrong(text: &str, shape: &Shape) -> String {
        read(&json(text), shape).unwrap_err()
    }

    fn floats(sizes: &[Option<u64>]) -> Shape {
        Shape::array(ScalarKind::F32, sizes.iter().copied())
    }

    #[test]
    fn values_round_trip() {
        round_trip("null", &Shape::Void);
        round_trip("\"Infinity\"", &Shape::F64);
        round_trip("\"häh\"", &Shape::Text);
        round_trip("[[1.5,2.0],[3.0,4.0]]", &floats(&[None, Some(2)]));
        round_trip("{\"shape\":[0,3],\"data\":[]}", &floats(&[None, None]));
        round_trip("{\"shape\":[2,0],\"data\":[]}", &floats(&[Some(2), None]));
        round_trip("[]", &floats(&[None]));
        let record = Shape::Record(vec![("a".into(), Shape::I64), ("b".into(), Shape::List(Box::new(Shape::Text)))]);
        round_trip("{\"a\":1,\"b\":[\"x\",\"\"]}", &record);
        round_trip("[1,[true]]", &Shape::Tuple(vec![Shape::I64, Shape::Tuple(vec![Shape::BOOL])]));
    }

    #[test]
    fn other_spellings_are_read() {
        let nan = read(&json("[\"nan\",\"-inf\"]"), &floats(&[None])).unwrap();
        assert_eq!(write(&nan, &floats(&[None])), json("[\"NaN\",\"-Infinity\"]"));
        let flat = read(&json("{\"shape\":[2,2],\"data\":[1,2,3,4]}"), &floats(&[None, None])).unwrap();
        assert_eq!(write(&flat, &floats(&[None, None])), json("[[1.0,2.0],[3.0,4.0]]"));
        assert_eq!(
            write(&read(&json("[]"), &floats(&[None, Some(3)])).unwrap(), &floats(&[None, Some(3)])),
            json("{\"shape\":[0,3],\"data\":[]}")
        );
    }

    #[test]
    fn tensors_have_kinds_of_axes() {
        let tensor = |sizes: &[u64], batch, output, labels: &[Option<&str>]| {
            let labels = labels.iter().map(|label| label.map(str::to_owned)).collect();
            let sizes = sizes.iter().copied().map(Some).collect();
            Shape::Array(Array { element: ScalarKind::F32, sizes, axes: Axes::Tensor { batch, output, labels } })
        };
        let text = r#"{"batch":[],"output":[2],"input":[1],"data":[[1.0],[2.0]],"labels":{"input":["q"]}}"#;
        round_trip(text, &tensor(&[2, 1], 0, 1, &[None, Some("q")]));
        let Ok(Known::Sizes(sizes)) = known(&json(text)) else { panic!("sizes are known") };
        assert_eq!((sizes.output, sizes.input, sizes.labels), (vec![2], vec![1], vec![None, Some("q".into())]));
        assert!(wrong(text, &tensor(&[2, 1], 0, 2, &[])).contains("0 batch and 1 output"));
        round_trip(r#"{"batch":[],"output":[],"input":[],"data":2.5}"#, &tensor(&[], 0, 0, &[]));
        assert_eq!(read(&json("5"), &tensor(&[1], 0, 1, &[])).unwrap(), Value::vec([Value::Scalar(Literal::F32(5.0))]));
    }

    #[test]
    fn fields_have_an_origin() {
        let text = r#"{"data":[[1,2],[3,4]],"origin":[1,0]}"#;
        let Ok(Known::Sizes(sizes)) = known(&json(text)) else { panic!("sizes are known") };
        assert_eq!((sizes.output, sizes.origin), (vec![2, 2], Some(vec![1, 0])));
        let shape = Shape::Array(Array { axes: Axes::Field, ..Array::plain(ScalarKind::F64, [None, None]) });
        let value = read(&json(text), &shape).unwrap();
        assert_eq!(write(&value, &shape), json(r#"{"data":[[1.0,2.0],[3.0,4.0]]}"#));
    }

    #[test]
    fn wrong_values_are_named() {
        assert_eq!(
            wrong("[[1,2],[3]]", &floats(&[None, None])),
            "the list is ragged: one part has 2 elements, another 1"
        );
        assert!(wrong("[1,[2]]", &floats(&[None])).contains("ragged"));
        assert_eq!(wrong("[1,2]", &floats(&[Some(3)])), "the sizes are [2], the parameter has f32[3]");
        assert!(wrong("[1,null]", &floats(&[None])).contains("`null` is no value"));
        assert!(wrong("{\"data\":[1],\"size\":[1]}", &floats(&[None])).contains("`size`"));
        assert!(wrong("{\"shape\":[4294967296,4294967296],\"data\":[]}", &floats(&[None, None])).contains("sizes"));
        let deep = "[".repeat(100) + &"]".repeat(100);
        assert!(wrong(&deep, &floats(&[None])).contains("nested"));
    }
}
