//! Values that cross between host and compiled code, in flat form, with whatever keeps their memory alive.
//!
//! Vectors and dictionaries are shared, so a clone is cheap; a value is immutable and may be used from any thread.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use weld_core::ir::Literal;
use weld_core::ty::{ScalarKind, Type};
use weld_runtime::{Dict, StringView};

use crate::layout;

type Owner = Arc<dyn Any + Send + Sync>;

/// A value of a Weld type.
#[derive(Clone)]
pub struct Value {
    ty: Type,
    words: Arc<[u64]>,
    owners: Arc<[Owner]>,
}

/// Rust types that are scalars of the language, with the same bytes.
pub trait Native: Copy + Send + Sync + 'static + sealed::Sealed {
    const KIND: ScalarKind;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! native {
    ($($ty:ty: $kind:ident),*) => { $(
        impl sealed::Sealed for $ty {}
        impl Native for $ty {
            const KIND: ScalarKind = ScalarKind::$kind;
        }
    )* };
}

native!(bool: Bool, i8: I8, i16: I16, i32: I32, i64: I64, i128: I128, u8: U8, u16: U16, u32: U32, u64: U64, f32: F32, f64: F64);

/// One column of a vector value.
#[derive(Clone, Copy, Debug)]
pub struct ColumnView<'a> {
    /// A scalar type, a byte vector (views), or a type in row form.
    pub ty: &'a Type,
    pub data: *const u8,
    pub rows: usize,
}

impl<'a> ColumnView<'a> {
    /// The values, if they are of that scalar type.
    pub fn as_slice<T: Native>(&self) -> Option<&'a [T]> {
        // SAFETY: the column holds `rows` values of its type, which the vector's owner keeps alive and constant.
        (*self.ty == Type::Scalar(T::KIND)).then(|| unsafe { raw_slice(self.data.cast(), self.rows) })
    }

    /// The views of a column of byte vectors.
    pub fn as_views(&self) -> Option<&'a [StringView]> {
        // SAFETY: as above.
        self.ty.is_bytes().then(|| unsafe { raw_slice(self.data.cast(), self.rows) })
    }
}

/// A slice that may be empty at any address.
///
/// # Safety
/// If `len` is not zero, `data` is valid for it.
unsafe fn raw_slice<'a, T>(data: *const T, len: usize) -> &'a [T] {
    if len == 0 {
        return &[];
    }
    // SAFETY: by the caller's promise.
    unsafe { std::slice::from_raw_parts(data, len) }
}

impl Value {
    pub fn scalar(literal: Literal) -> Value {
        let bits = literal.bits();
        let words: Arc<[u64]> = match literal {
            Literal::I128(_) => [bits as u64, (bits >> 64) as u64].into(),
            _ => [bits as u64].into(),
        };
        Value { ty: Type::Scalar(literal.kind()), words, owners: Arc::new([]) }
    }

    pub fn bool(value: bool) -> Value {
        Value::scalar(Literal::Bool(value))
    }

    pub fn i32(value: i32) -> Value {
        Value::scalar(Literal::I32(value))
    }

    pub fn i64(value: i64) -> Value {
        Value::scalar(Literal::I64(value))
    }

    pub fn i128(value: i128) -> Value {
        Value::scalar(Literal::I128(value))
    }

    pub fn f64(value: f64) -> Value {
        Value::scalar(Literal::F64(value))
    }

    /// A vector of scalars that shares its memory.
    pub fn vector<T: Native>(data: impl AsRef<[T]> + Send + Sync + 'static) -> Value {
        // The address is taken after the move into the owner: a `[T; N]` lies inside.
        let owner = Arc::new(data);
        let slice: &[T] = (*owner).as_ref();
        let words = [slice.len() as u64, slice.as_ptr() as u64].into();
        Value { ty: Type::vec(Type::Scalar(T::KIND)), words, owners: Arc::new([owner]) }
    }

    /// A byte vector, `vec[u8]`, that shares its memory.
    pub fn bytes(data: impl AsRef<[u8]> + Send + Sync + 'static) -> Value {
        Value::vector::<u8>(data)
    }

    /// A vector of structs whose fields are the elements of these vectors, which must be as long as each other; `None` if
    /// they are not, or if there is none.
    pub fn rows(fields: impl IntoIterator<Item = Value>) -> Option<Value> {
        let fields: Vec<Value> = fields.into_iter().collect();
        let rows = fields.first()?.len()?;
        let types: Option<Vec<Type>> =
            fields.iter().map(|field| field.ty.element().filter(|_| field.len() == Some(rows)).cloned()).collect();
        let columns = fields.iter().flat_map(|field| field.words[1..].iter().copied());
        Some(Value {
            ty: Type::vec(Type::structure(types?)),
            words: std::iter::once(rows as u64).chain(columns).collect(),
            owners: fields.iter().flat_map(|field| field.owners.iter().cloned()).collect(),
        })
    }

    /// A struct of values.
    pub fn structure(fields: impl IntoIterator<Item = Value>) -> Value {
        let fields: Vec<Value> = fields.into_iter().collect();
        Value {
            ty: Type::structure(fields.iter().map(|field| field.ty.clone())),
            words: fields.iter().flat_map(|field| field.words.iter().copied()).collect(),
            owners: fields.iter().flat_map(|field| field.owners.iter().cloned()).collect(),
        }
    }

    /// A value of any type from its flat form.
    ///
    /// # Safety
    /// The words are a value of the type in flat form; `owner` keeps all memory that it refers to alive and constant.
    pub unsafe fn from_flat(ty: Type, words: Vec<u64>, owners: impl IntoIterator<Item = Owner>) -> Value {
        debug_assert_eq!(words.len(), layout::flat_words(&ty));
        Value { ty, words: words.into(), owners: owners.into_iter().collect() }
    }

    pub fn ty(&self) -> &Type {
        &self.ty
    }

    /// The flat form.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// What keeps the value's memory alive.
    pub fn owners(&self) -> &Arc<[Owner]> {
        &self.owners
    }

    /// The value, if it is an `i64`.
    pub fn as_i64(&self) -> Option<i64> {
        (self.ty == Type::I64).then(|| self.words[0] as i64)
    }

    /// The value of a scalar.
    pub fn as_scalar(&self) -> Option<Literal> {
        Some(literal(self.ty.as_scalar()?, &self.words))
    }

    /// The table of a dictionary: its number of keys, the bounds of integer keys, its memory.
    pub fn as_dict(&self) -> Option<&Dict> {
        // SAFETY: a dictionary's word is the address of its table, which the owners keep alive and which does not change.
        matches!(self.ty, Type::Dict(..)).then(|| unsafe { &*(self.words[0] as *const Dict) })
    }

    /// A field of a struct.
    pub fn field(&self, index: usize) -> Option<Value> {
        let fields = self.ty.fields()?;
        let ty = fields.get(index)?.clone();
        let start: usize = fields[..index].iter().map(layout::flat_words).sum();
        let words = self.words[start..start + layout::flat_words(&ty)].into();
        Some(Value { ty, words, owners: self.owners.clone() })
    }

    /// Rows of a vector.
    pub fn len(&self) -> Option<usize> {
        self.ty.element().map(|_| self.words[0] as usize)
    }

    /// The elements of a vector of scalars.
    pub fn as_slice<T: Native>(&self) -> Option<&[T]> {
        match self.columns()[..] {
            [column] => column.as_slice(),
            _ => None,
        }
    }

    /// Whether it is a vector without rows.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// The columns of a vector; none for other values. A byte vector has one column of bytes.
    pub fn columns(&self) -> Vec<ColumnView<'_>> {
        fn visit<'a>(ty: &'a Type, out: &mut Vec<&'a Type>) {
            match ty {
                Type::Struct(fields) => fields.iter().for_each(|field| visit(field, out)),
                _ => out.push(ty),
            }
        }
        let Some(element) = self.ty.element() else { return Vec::new() };
        let mut types = Vec::new();
        visit(element, &mut types);
        let rows = self.words[0] as usize;
        types
            .into_iter()
            .zip(&self.words[1..])
            .map(|(ty, &word)| ColumnView { ty, data: word as *const u8, rows })
            .collect()
    }
}

/// The scalar in flat form.
pub(crate) fn literal(kind: ScalarKind, words: &[u64]) -> Literal {
    let word = words[0];
    match kind {
        ScalarKind::Bool => Literal::Bool(word & 1 != 0),
        ScalarKind::I8 => Literal::I8(word as i8),
        ScalarKind::I16 => Literal::I16(word as i16),
        ScalarKind::I32 => Literal::I32(word as i32),
        ScalarKind::I64 => Literal::I64(word as i64),
        ScalarKind::I128 => Literal::I128((words[1] as i128) << 64 | word as i128),
        ScalarKind::U8 => Literal::U8(word as u8),
        ScalarKind::U16 => Literal::U16(word as u16),
        ScalarKind::U32 => Literal::U32(word as u32),
        ScalarKind::U64 => Literal::U64(word),
        ScalarKind::F32 => Literal::F32(f32::from_bits(word as u32)),
        ScalarKind::F64 => Literal::F64(f64::from_bits(word)),
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Value").field("ty", &self.ty).field("words", &self.words).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flat_forms_give_the_values_back() {
        let pair = Value::structure([Value::i128(-5), Value::vector(vec![1i64, 2, 3])]);
        assert_eq!(pair.words().len(), 4);
        assert_eq!(pair.field(0).unwrap().as_scalar(), Some(Literal::I128(-5)));
        let vector = pair.field(1).unwrap();
        drop(pair);
        assert_eq!(vector.columns()[0].as_slice::<i64>(), Some(&[1, 2, 3][..]));
        assert_eq!(Value::f64(-0.5).as_scalar(), Some(Literal::F64(-0.5)));
    }
}
