//! The types of SQL's columns, as far as functions see them: Arrow's types without Arrow.

use std::fmt;

use weld_core::ty::ScalarKind;

/// A type of a column.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum DataType {
    /// BOOLEAN, integers, REAL, DOUBLE.
    Scalar(ScalarKind),
    /// VARCHAR.
    Text,
    /// `T[]`.
    List(Box<DataType>),
    /// `T[n]`.
    FixedList(Box<DataType>, u64),
    /// STRUCT, its fields in order.
    Struct(Vec<(String, DataType)>),
}

impl DataType {
    /// Lists of any length.
    pub fn list(element: DataType) -> DataType {
        DataType::List(Box::new(element))
    }

    /// Lists of `size` elements.
    pub fn fixed(element: DataType, size: u64) -> DataType {
        DataType::FixedList(Box::new(element), size)
    }

    /// The scalar at the bottom of nested lists with the size of each level, outermost first (none where it is open):
    /// of `FLOAT[2][]` `(f32, [None, Some(2)])`. A scalar has no levels. `None` for strings and structs.
    pub fn as_array(&self) -> Option<(ScalarKind, Vec<Option<u64>>)> {
        let mut sizes = Vec::new();
        let mut ty = self;
        loop {
            ty = match ty {
                DataType::Scalar(kind) => return Some((*kind, sizes)),
                DataType::List(element) => {
                    sizes.push(None);
                    element
                }
                DataType::FixedList(element, size) => {
                    sizes.push(Some(*size));
                    element
                }
                DataType::Text | DataType::Struct(_) => return None,
            }
        }
    }
}

/// As SQL writes it.
impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataType::Scalar(kind) => f.write_str(sql_name(*kind)),
            DataType::Text => f.write_str("VARCHAR"),
            DataType::List(element) => write!(f, "{element}[]"),
            DataType::FixedList(element, size) => write!(f, "{element}[{size}]"),
            DataType::Struct(fields) => {
                let fields: Vec<String> = fields.iter().map(|(name, ty)| format!("{name} {ty}")).collect();
                write!(f, "STRUCT<{}>", fields.join(", "))
            }
        }
    }
}

fn sql_name(kind: ScalarKind) -> &'static str {
    match kind {
        ScalarKind::Bool => "BOOLEAN",
        ScalarKind::I8 => "TINYINT",
        ScalarKind::I16 => "SMALLINT",
        ScalarKind::I32 => "INT",
        ScalarKind::I64 => "BIGINT",
        ScalarKind::I128 => "DECIMAL",
        ScalarKind::U8 => "TINYINT UNSIGNED",
        ScalarKind::U16 => "SMALLINT UNSIGNED",
        ScalarKind::U32 => "INT UNSIGNED",
        ScalarKind::U64 => "BIGINT UNSIGNED",
        ScalarKind::F32 => "REAL",
        ScalarKind::F64 => "DOUBLE",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_lists_are_arrays() {
        let row = DataType::fixed(DataType::Scalar(ScalarKind::F32), 2);
        let ty = DataType::list(row);
        assert_eq!(ty.to_string(), "REAL[2][]");
        assert_eq!(ty.as_array(), Some((ScalarKind::F32, vec![None, Some(2)])));
        assert_eq!(DataType::list(DataType::Text).as_array(), None);
    }
}
