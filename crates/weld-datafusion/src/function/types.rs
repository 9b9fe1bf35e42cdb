//! Arrow's types as the languages see them, and which arguments a declared type takes.

use std::sync::Arc;

use arrow::datatypes::{DataType as Arrow, FieldRef};
use weld_arrow::types::{fixed_kind, is_string};
use weld_core::ty::ScalarKind;
use weld_frontend::DataType;

/// The type as languages see it. Dates, times and decimals are the integers behind them, which only Weld's own language
/// is shown (`temporal`).
pub(crate) fn shown(ty: &Arrow, temporal: bool) -> Result<DataType, String> {
    let is_temporal = matches!(ty, Arrow::Date32 | Arrow::Date64 | Arrow::Timestamp(..) | Arrow::Decimal128(..));
    let is_shown = ty.is_integer() || ty.is_floating() || (temporal && is_temporal);
    if let Some(kind) = fixed_kind(ty).filter(|_| is_shown) {
        return Ok(DataType::Scalar(kind));
    }
    match ty {
        Arrow::Boolean => Ok(DataType::Scalar(ScalarKind::Bool)),
        text if is_string(text) => Ok(DataType::Text),
        Arrow::List(item) | Arrow::LargeList(item) => Ok(DataType::list(shown(item.data_type(), temporal)?)),
        Arrow::FixedSizeList(item, size) => {
            let size = u64::try_from(*size).map_err(|_| format!("a list of {size} elements"))?;
            Ok(DataType::fixed(shown(item.data_type(), temporal)?, size))
        }
        Arrow::Struct(fields) => {
            let field = |field: &FieldRef| Ok((field.name().clone(), shown(field.data_type(), temporal)?));
            Ok(DataType::Struct(fields.iter().map(field).collect::<Result<_, String>>()?))
        }
        other => Err(format!("the type {other} cannot be passed to a function of this language")),
    }
}

/// Whether an argument of a type is converted to the declared one without being asked: numbers to numbers, strings to
/// strings, lists to lists, structs to those whose fields have the same names in the same order or none, NULL to
/// anything.
pub(crate) fn coerces(found: &Arrow, declared: &Arrow) -> bool {
    let is_time = |ty: &Arrow| matches!(ty, Arrow::Date32 | Arrow::Date64 | Arrow::Timestamp(..));
    match (found, declared) {
        _ if found == declared => true,
        (Arrow::Null, _) => true,
        (Arrow::Dictionary(_, values), _) => coerces(values, declared),
        (Arrow::Struct(found), Arrow::Struct(declared)) => {
            let fits = |(index, (a, b)): (usize, (&FieldRef, &FieldRef))| {
                let is_named = a.name().eq_ignore_ascii_case(b.name()) || *a.name() == format!("c{index}");
                is_named && coerces(a.data_type(), b.data_type())
            };
            found.len() == declared.len() && found.iter().zip(declared.iter()).enumerate().all(fits)
        }
        (Arrow::FixedSizeList(_, a), Arrow::FixedSizeList(_, b)) if a != b => false,
        _ => match (item(found), item(declared)) {
            (Some(found), Some(declared)) => coerces(found, declared),
            (None, None) => {
                (found.is_numeric() && declared.is_numeric())
                    || (is_string(found) && is_string(declared))
                    || (is_time(found) && is_time(declared))
            }
            _ => false,
        },
    }
}

/// The type that an argument is converted to. Structs are passed as they are, and their fields converted with the call,
/// by their places: Arrow's cast goes by their names. Lists of any length are passed to a parameter of a fixed size as
/// they are, and checked row by row: Arrow's cast takes the values of a sliced array of lists from its child's
/// beginning.
pub(crate) fn passed(found: &Arrow, declared: &Arrow) -> Arrow {
    match (found, declared) {
        (Arrow::List(_), Arrow::FixedSizeList(item, _)) => Arrow::List(Arc::clone(item)),
        (Arrow::LargeList(_), Arrow::FixedSizeList(item, _)) => Arrow::LargeList(Arc::clone(item)),
        (Arrow::Struct(_), Arrow::Struct(_)) => found.clone(),
        _ => declared.clone(),
    }
}

fn item(ty: &Arrow) -> Option<&Arrow> {
    match ty {
        Arrow::List(item) | Arrow::LargeList(item) | Arrow::FixedSizeList(item, _) => Some(item.data_type()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Field;

    use super::*;

    #[test]
    fn numbers_and_lists_are_converted_and_nothing_else() {
        let list = |ty: Arrow| Arrow::List(Field::new_list_field(ty, true).into());
        let fixed = |ty: Arrow, n| Arrow::FixedSizeList(Field::new_list_field(ty, true).into(), n);
        assert!(coerces(&Arrow::Int64, &Arrow::Float32));
        assert!(coerces(&Arrow::Null, &list(Arrow::Utf8)));
        assert!(coerces(&list(Arrow::Int64), &fixed(Arrow::Float32, 3)));
        assert!(!coerces(&fixed(Arrow::Float32, 2), &fixed(Arrow::Float32, 3)));
        assert!(!coerces(&Arrow::Utf8, &Arrow::Int64));
        assert!(!coerces(&Arrow::Int64, &list(Arrow::Int64)));
        assert!(!coerces(&Arrow::Int64, &Arrow::Boolean));
        assert_eq!(passed(&list(Arrow::Int64), &fixed(Arrow::Float32, 3)), list(Arrow::Float32));
        assert_eq!(passed(&fixed(Arrow::Int64, 3), &fixed(Arrow::Float32, 3)), fixed(Arrow::Float32, 3));
    }

    #[test]
    fn only_weld_sees_dates() {
        assert_eq!(shown(&Arrow::Date32, true), Ok(DataType::Scalar(ScalarKind::I32)));
        assert!(shown(&Arrow::Date32, false).is_err());
    }
}
