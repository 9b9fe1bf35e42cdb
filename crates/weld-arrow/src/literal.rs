//! A value of an array as a constant of a program.

use arrow::array::{Array, AsArray};
use arrow::datatypes::DataType;
use weld_core::ir::Literal;
use weld_core::opt::Constant;
use weld_core::ty::ScalarKind;

use crate::input::{scalars, with_bytes};
use crate::types::fixed_kind;

/// The value of a row that is not null; `None` if its type has no Weld value, as lists have none.
///
/// Panics if the array has no such row.
pub fn literal(array: &dyn Array, row: usize) -> Option<Constant> {
    if let Some(kind) = fixed_kind(array.data_type()) {
        let bytes = scalars(array)?.as_slice();
        let value = &bytes[row * kind.bytes()..(row + 1) * kind.bytes()];
        return scalar(kind, value).map(Constant::Scalar);
    }
    match array.data_type() {
        DataType::Boolean => Some(Constant::Scalar(Literal::Bool(array.as_boolean().value(row)))),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            literal(dictionary.values().as_ref(), dictionary.normalized_keys()[row])
        }
        _ => {
            let bytes: &[u8] = with_bytes!(array, values => AsRef::<[u8]>::as_ref(values.value(row)), _ => return None);
            Some(Constant::Bytes(bytes.into()))
        }
    }
}

/// The scalar with these bytes, of which there are as many as it takes.
fn scalar(kind: ScalarKind, bytes: &[u8]) -> Option<Literal> {
    macro_rules! of {
        ($type:ty, $kind:ident) => {
            Literal::$kind(<$type>::from_ne_bytes(bytes.try_into().ok()?))
        };
    }
    Some(match kind {
        ScalarKind::Bool => return None,
        ScalarKind::I8 => of!(i8, I8),
        ScalarKind::I16 => of!(i16, I16),
        ScalarKind::I32 => of!(i32, I32),
        ScalarKind::I64 => of!(i64, I64),
        ScalarKind::I128 => of!(i128, I128),
        ScalarKind::U8 => of!(u8, U8),
        ScalarKind::U16 => of!(u16, U16),
        ScalarKind::U32 => of!(u32, U32),
        ScalarKind::U64 => of!(u64, U64),
        ScalarKind::F32 => of!(f32, F32),
        ScalarKind::F64 => of!(f64, F64),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::*;
    use arrow::datatypes::Int8Type;

    use super::*;

    #[test]
    fn values_of_every_kind_of_type() {
        let decimals = Decimal128Array::from(vec![7, -7]).with_precision_and_scale(5, 2).expect("a valid decimal");
        let codes: DictionaryArray<Int8Type> = ["x", "y", "x"].into_iter().collect();
        let scalar = Constant::Scalar;
        let arrays: [(ArrayRef, Constant); 7] = [
            (Arc::new(Int16Array::from(vec![1, -2])), scalar(Literal::I16(-2))),
            (Arc::new(TimestampSecondArray::from(vec![1, 2])), scalar(Literal::I64(2))),
            (Arc::new(decimals), scalar(Literal::I128(-7))),
            (Arc::new(Float64Array::from(vec![1.0, 0.5])), scalar(Literal::F64(0.5))),
            (Arc::new(BooleanArray::from(vec![false, true])), scalar(Literal::Bool(true))),
            (Arc::new(StringViewArray::from(vec!["a", "longer than twelve bytes"])), bytes("longer than twelve bytes")),
            (Arc::new(codes), bytes("y")),
        ];
        for (array, wanted) in arrays {
            assert_eq!(literal(array.as_ref(), 1), Some(wanted.clone()), "{}", array.data_type());
            assert_eq!(literal(array.slice(1, 1).as_ref(), 0), Some(wanted), "{} sliced", array.data_type());
        }
        assert_eq!(literal(&NullArray::new(2), 1), None);
    }

    fn bytes(text: &str) -> Constant {
        Constant::Bytes(text.as_bytes().into())
    }
}
