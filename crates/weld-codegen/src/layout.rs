//! How values look in memory: row form, column form and flat form of `docs/abi.md`.
//!
//! `vec[{i64,{f64,bool}}]` has the columns `i64`, `f64` and `bool`, so it is four words in flat form (its length and
//! three pointers) and 32 bytes in row form.

use weld_core::ty::{BuilderType, ScalarKind, Type};

/// Size and alignment of a value in row form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowLayout {
    pub size: u64,
    pub align: u64,
}

/// Row form of a type. Elements of arrays of rows lie `size` bytes apart.
pub fn row(ty: &Type) -> RowLayout {
    match ty {
        Type::Scalar(kind) => {
            let size = kind.bytes() as u64;
            RowLayout { size, align: size.min(8) }
        }
        Type::Struct(fields) => {
            let mut end = 0u64;
            let mut align = 1;
            for field in fields.iter() {
                let field = row(field);
                end = end.next_multiple_of(field.align) + field.size;
                align = align.max(field.align);
            }
            RowLayout { size: end.next_multiple_of(align), align }
        }
        Type::Vec(_) if ty.is_bytes() => RowLayout { size: 16, align: 8 },
        Type::Vec(element) => RowLayout { size: 8 * (1 + columns(element).len() as u64), align: 8 },
        Type::Dict(..) => RowLayout { size: 8, align: 8 },
        // A simd value is stored lane by lane; its number of lanes is the target's.
        Type::Simd(kind) => RowLayout { size: 64, align: kind.bytes().min(8) as u64 },
        Type::Builder(builder) => builder_state(builder),
    }
}

/// The offset of each field of a struct in row form.
pub fn field_offsets(fields: &[Type]) -> Vec<u64> {
    let mut end = 0u64;
    fields
        .iter()
        .map(|field| {
            let field = row(field);
            let offset = end.next_multiple_of(field.align);
            end = offset + field.size;
            offset
        })
        .collect()
}

/// The element types of the columns that hold the elements of a `vec[ty]`.
pub fn columns(ty: &Type) -> Vec<Type> {
    fn visit(ty: &Type, out: &mut Vec<Type>) {
        match ty {
            Type::Struct(fields) => fields.iter().for_each(|field| visit(field, out)),
            _ => out.push(ty.clone()),
        }
    }
    let mut out = Vec::new();
    visit(ty, &mut out);
    out
}

/// How many words a value takes in flat form.
pub fn flat_words(ty: &Type) -> usize {
    match ty {
        Type::Scalar(ScalarKind::I128) => 2,
        Type::Scalar(_) | Type::Dict(..) => 1,
        Type::Struct(fields) => fields.iter().map(flat_words).sum(),
        Type::Vec(element) => 1 + columns(element).len(),
        Type::Simd(_) | Type::Builder(_) => 0,
    }
}

/// Whether values of the type refer to memory elsewhere.
pub fn has_pointers(ty: &Type) -> bool {
    match ty {
        Type::Scalar(_) | Type::Simd(_) => false,
        Type::Struct(fields) => fields.iter().any(has_pointers),
        Type::Vec(_) | Type::Dict(..) => true,
        Type::Builder(builder) => has_pointers(&builder.merge_type()),
    }
}

/// Whether values of the type refer to bytes of strings.
pub fn has_bytes(ty: &Type) -> bool {
    match ty {
        Type::Scalar(_) | Type::Simd(_) | Type::Builder(_) => false,
        Type::Struct(fields) => fields.iter().any(has_bytes),
        Type::Vec(element) => ty.is_bytes() || has_bytes(element),
        Type::Dict(key, value) => has_bytes(key) || has_bytes(value),
    }
}

/// Whether values of the type hold dictionaries with bytes of strings.
pub fn has_dicts_of_bytes(ty: &Type) -> bool {
    match ty {
        Type::Scalar(_) | Type::Simd(_) | Type::Builder(_) => false,
        Type::Struct(fields) => fields.iter().any(has_dicts_of_bytes),
        Type::Vec(element) => has_dicts_of_bytes(element),
        Type::Dict(..) => has_bytes(ty),
    }
}

/// Where the rows of a numberer are in its state, behind the address of its table.
pub(crate) const NUMBERED_ROWS: u64 = 8;

/// What a builder keeps in memory: the value so far, or length, capacity and columns, or the table's address, or this
/// and those.
fn builder_state(builder: &BuilderType) -> RowLayout {
    match builder {
        BuilderType::Merger { value, .. } => row(value),
        BuilderType::Appender(element) => RowLayout { size: 8 * (2 + columns(element).len() as u64), align: 8 },
        BuilderType::VecMerger { value, .. } => RowLayout { size: 8 * (1 + columns(value).len() as u64), align: 8 },
        BuilderType::Numberer { row, .. } => RowLayout { size: 8 * (4 + columns(row).len() as u64), align: 8 },
        BuilderType::DictMerger { .. } | BuilderType::GroupBuilder { .. } => RowLayout { size: 8, align: 8 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_as_in_c_with_wide_integers_at_eight() {
        let ty = Type::structure([Type::BOOL, Type::I128, Type::I32, Type::vec(Type::U8)]);
        assert_eq!(row(&ty), RowLayout { size: 48, align: 8 });
        assert_eq!(field_offsets(ty.fields().unwrap()), [0, 8, 24, 32]);
    }

    #[test]
    fn a_vector_of_structs_has_a_column_for_each_leaf() {
        let element = Type::structure([Type::I64, Type::structure([Type::F64, Type::BOOL])]);
        assert_eq!(columns(&element), [Type::I64, Type::F64, Type::BOOL]);
        assert_eq!(flat_words(&Type::vec(element.clone())), 4);
        assert_eq!(row(&Type::vec(element)).size, 32);
        assert_eq!(row(&Type::vec(Type::U8)).size, 16);
        assert_eq!(flat_words(&Type::I128), 2);
    }
}
