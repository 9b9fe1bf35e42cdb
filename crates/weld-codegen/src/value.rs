//! Values that cross between host and compiled code, in flat form, with whatever keeps their memory alive.
//!
//! Vectors and dictionaries are shared, so a clone is cheap; a value is immutable and may be used from any thread.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use weld_core::ir::Literal;
use weld_core::ty::{ScalarKind, Type};
use weld_runtime::{Dict, DictKind, Run, StringView};

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

    /// The value, if the literal is of this type.
    fn from_literal(literal: Literal) -> Option<Self>;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! native {
    ($($ty:ty: $kind:ident),*) => { $(
        impl sealed::Sealed for $ty {}
        impl Native for $ty {
            const KIND: ScalarKind = ScalarKind::$kind;

            fn from_literal(literal: Literal) -> Option<$ty> {
                match literal {
                    Literal::$kind(value) => Some(value),
                    _ => None,
                }
            }
        }
        impl From<$ty> for Value {
            fn from(value: $ty) -> Value {
                Value::scalar(Literal::$kind(value))
            }
        }
    )* };
}

native!(bool: Bool, i8: I8, i16: I16, i32: I32, i64: I64, i128: I128, u8: U8, u16: U16, u32: U32, u64: U64, f32: F32, f64: F64);

/// One column of a vector value.
#[derive(Clone, Copy, Debug)]
pub struct ColumnView<'a> {
    ty: &'a Type,
    data: *const u8,
    rows: usize,
}

impl<'a> ColumnView<'a> {
    /// A scalar type, a byte vector (views), or a type in row form.
    pub fn ty(&self) -> &'a Type {
        self.ty
    }

    /// The first row.
    pub fn data(&self) -> *const u8 {
        self.data
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

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

    /// For each row the columns of its elements, if the rows are vectors other than byte vectors.
    pub fn as_vectors(&self) -> Option<impl Iterator<Item = Vec<ColumnView<'a>>> + use<'a>> {
        let element = self.ty.element().filter(|_| !self.ty.is_bytes())?;
        let types = leaves(element);
        // SAFETY: such a row is its length and the addresses of its columns, which the vector's owner keeps alive too.
        let words: &[u64] = unsafe { raw_slice(self.data.cast(), self.rows * (1 + types.len())) };
        Some(words.chunks_exact(1 + types.len()).map(move |row| {
            let columns = types.iter().zip(&row[1..]);
            columns.map(|(ty, &word)| ColumnView { ty, data: word as *const u8, rows: row[0] as usize }).collect()
        }))
    }
}

/// The types of the columns of rows of this type: scalars, byte vectors, and what lies in row form.
fn leaves(ty: &Type) -> Vec<&Type> {
    match ty {
        Type::Struct(fields) => fields.iter().flat_map(leaves).collect(),
        _ => vec![ty],
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

    /// A vector of structs whose fields are the elements of these vectors, which must be as long as each other; `None`
    /// if they are not, or if there is none.
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

    /// A vector of vectors that share the memory of `values`: its elements in each of these ranges. `None` if `values`
    /// is no vector, a range leaves it, or one of bytes is longer than 4 GiB.
    pub fn vectors(values: &Value, ranges: impl IntoIterator<Item = Range<usize>>) -> Option<Value> {
        let rows = values.len()?;
        let mut ranges =
            ranges.into_iter().map(|range| (range.start <= range.end && range.end <= rows).then_some(range));
        let ty = Type::vec(values.ty.clone());
        let (len, data, owner): (usize, u64, Owner) = if values.ty.is_bytes() {
            // SAFETY: bytes, signed or not, which the owners keep alive and constant.
            let bytes: &[u8] = unsafe { raw_slice(values.words[1] as *const u8, rows) };
            let views: Option<Vec<StringView>> = ranges.map(|range| StringView::new(&bytes[range?])).collect();
            let views = views?;
            (views.len(), views.as_ptr() as u64, Arc::new(views))
        } else {
            let columns: Vec<(u64, u64)> =
                values.columns().iter().map(|column| (column.data as u64, layout::row(column.ty).size)).collect();
            let mut words = Vec::new();
            ranges.try_for_each(|range| {
                let range = range?;
                words.push(range.len() as u64);
                words.extend(columns.iter().map(|(data, size)| data + range.start as u64 * size));
                Some(())
            })?;
            (words.len() / (1 + columns.len()), words.as_ptr() as u64, Arc::new(words))
        };
        let owners = values.owners.iter().cloned().chain([owner]).collect();
        Some(Value { ty, words: [len as u64, data].into(), owners })
    }

    /// A vector of this element type without elements.
    pub fn none(element: &Type) -> Value {
        let words = vec![0; layout::flat_words(&Type::vec(element.clone()))];
        Value { ty: Type::vec(element.clone()), words: words.into(), owners: Arc::new([]) }
    }

    /// The text's bytes, a `vec[i8]` as a string literal is one.
    pub fn text(text: &str) -> Value {
        Value::vector(text.bytes().map(|byte| byte as i8).collect::<Vec<i8>>())
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

    /// Bytes of the runs that keep the value's memory alive, and with it all else that they hold: tables, for one.
    pub fn kept_bytes(&self) -> usize {
        self.owners.iter().filter_map(|owner| owner.downcast_ref::<Box<Run>>()).map(|run| run.bytes()).sum()
    }

    /// What keeps the value's memory alive.
    pub fn owners(&self) -> &Arc<[Owner]> {
        &self.owners
    }

    /// The value, if it is an `i64`.
    pub fn as_i64(&self) -> Option<i64> {
        (self.ty == Type::I64).then(|| self.words[0] as i64)
    }

    /// The value, if it is a scalar of that type.
    pub fn get<T: Native>(&self) -> Option<T> {
        T::from_literal(self.as_scalar()?)
    }

    /// The value of a scalar.
    pub fn as_scalar(&self) -> Option<Literal> {
        Some(literal(self.ty.as_scalar()?, &self.words))
    }

    /// The table of a dictionary: its number of keys, the bounds of integer keys, its memory.
    pub fn as_dict(&self) -> Option<&Dict> {
        // SAFETY: a dictionary's word is the address of its table, which the owners keep alive and which does not
        // change.
        matches!(self.ty, Type::Dict(..)).then(|| unsafe { &*(self.words[0] as *const Dict) })
    }

    /// Calls `each` with one part of every key of a dictionary: with field `part` of keys that are structs, with the
    /// key itself where that is a scalar. `false` if there is no such part, it is no integer, or one does not fit 64
    /// bits; unsigned ones of 64 bits come as the `i64` of the same bits. In no order, and repeated as the keys' parts
    /// are.
    pub fn for_each_key(&self, part: usize, mut each: impl FnMut(i64)) -> bool {
        let Some((ty, offset)) = self.key_part(part) else { return false };
        let Some(kind) = ty.as_scalar().filter(|kind| kind.is_integer()) else { return false };
        if let Some(dict) = self.as_dict().filter(|dict| dict.kind() == DictKind::Dense) {
            dict.for_each_dense_key(each);
            return true;
        }
        let Some(mut parts) = self.key_parts(offset) else { return false };
        macro_rules! read {
            ($ty:ty, $to_i64:expr) => {
                parts.all(|part| {
                    // SAFETY: the part is of this type; row form may put wide ones at any multiple of eight.
                    let value = unsafe { part.cast::<$ty>().read_unaligned() };
                    let key: Option<i64> = $to_i64(value);
                    key.map(&mut each).is_some()
                })
            };
        }
        match kind {
            ScalarKind::I8 => read!(i8, |value| Some(i64::from(value))),
            ScalarKind::I16 => read!(i16, |value| Some(i64::from(value))),
            ScalarKind::I32 => read!(i32, |value| Some(i64::from(value))),
            ScalarKind::I64 => read!(i64, Some),
            ScalarKind::I128 => read!(i128, |value| i64::try_from(value).ok()),
            ScalarKind::U8 => read!(u8, |value| Some(i64::from(value))),
            ScalarKind::U16 => read!(u16, |value| Some(i64::from(value))),
            ScalarKind::U32 => read!(u32, |value| Some(i64::from(value))),
            ScalarKind::U64 => read!(u64, |value| Some(value as i64)),
            ScalarKind::Bool | ScalarKind::F32 | ScalarKind::F64 => false,
        }
    }

    /// The same for a part that is a byte vector; `false` if it is none.
    pub fn for_each_text_key(&self, part: usize, mut each: impl FnMut(&[u8])) -> bool {
        let Some((_, offset)) = self.key_part(part).filter(|(ty, _)| ty.is_bytes()) else { return false };
        let Some(parts) = self.key_parts(offset) else { return false };
        for part in parts {
            // SAFETY: the part is a view in row form, whose bytes the owners keep alive.
            unsafe { each((*part.cast::<StringView>()).as_slice()) };
        }
        true
    }

    /// The type of one part of a dictionary's keys, and where it lies in a row.
    fn key_part(&self, part: usize) -> Option<(&Type, u64)> {
        let Type::Dict(key, _) = &self.ty else { return None };
        match key.fields() {
            Some(fields) => Some((fields.get(part)?, layout::field_offsets(fields)[part])),
            None => (part == 0).then_some((&**key, 0)),
        }
    }

    /// Where the part at `offset` of each key of a hashed table lies.
    fn key_parts(&self, offset: u64) -> Option<impl Iterator<Item = *const u8>> {
        let dict = self.as_dict()?;
        let (rows, row_bytes) = (dict.rows().ok()?, dict.layout().row_bytes as usize);
        // SAFETY: a hashed table has rows 1 to `len`, each begins with the key in row form, and the part is in there.
        Some((1..=dict.len()).map(move |row| unsafe { rows.add(row * row_bytes + offset as usize) }))
    }

    /// The values of all groups of a `dict[K,vec[V]]`, numbered as `first_row` does.
    pub fn group_values(&self) -> Option<Value> {
        let (dict, Type::Dict(_, values)) = (self.as_dict()?, &self.ty) else { return None };
        let element = values.element()?;
        if dict.values() == 0 {
            return Some(Value::none(element));
        }
        let columns = dict.columns().iter().map(|column| *column as u64);
        let words = std::iter::once(dict.values() as u64).chain(columns).collect();
        Some(Value { ty: (**values).clone(), words, owners: self.owners.clone() })
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
        let Some(element) = self.ty.element() else { return Vec::new() };
        let rows = self.words[0] as usize;
        leaves(element)
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
        assert_eq!((Value::from(7u8).get::<u8>(), Value::from(7u8).get::<i8>()), (Some(7), None));
        assert_eq!(Value::text("ab").as_slice::<i8>(), Some(&[97, 98][..]));
    }

    #[test]
    fn vectors_are_ranges_of_others() {
        let rows = Value::rows([Value::vector(vec![1i64, 2, 3]), Value::vector(vec![true, false, true])]).unwrap();
        let lists = Value::vectors(&rows, [0..2, 2..2, 1..3]).unwrap();
        drop(rows);
        assert_eq!(lists.ty().to_string(), "vec[vec[{i64,bool}]]");
        let views = lists.columns();
        let found: Vec<_> = views[0].as_vectors().unwrap().collect();
        assert_eq!(
            found.iter().map(|row| row[0].as_slice::<i64>().unwrap()).collect::<Vec<_>>(),
            [&[1, 2][..], &[], &[2, 3]]
        );
        assert_eq!(found[2][1].as_slice::<bool>(), Some(&[false, true][..]));
        let text = Value::text("abc");
        assert_eq!(Value::vectors(&text, [0..0, 1..3]).unwrap().columns()[0].as_views().map(<[_]>::len), Some(2));
        #[expect(clippy::reversed_empty_ranges, reason = "it is refused")]
        for wrong in [0..4, 3..2, 4..4] {
            assert!(Value::vectors(&text, std::iter::once(wrong)).is_none());
        }
        assert!(Value::vectors(&Value::i64(1), []).is_none());
    }
}
