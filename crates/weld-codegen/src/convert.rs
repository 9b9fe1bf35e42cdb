//! The interpreter's values to native ones and back, for tests and tools: every element is visited.
//!
//! A native vector of `{i64,bool}` is two columns; the interpreter's is a list of structs.

use std::sync::Arc;

use weld_core::interp;
use weld_core::ir::Literal;
use weld_core::ty::{ScalarKind, Type};
use weld_runtime::{Dict, StringView};

use crate::layout;
use crate::value::{Value, literal};

impl Value {
    /// The native form of a value of the type. `None` if it is not of the type, holds a string too long for a view, or
    /// holds a dictionary: only compiled code makes those.
    pub fn from_interp(value: &interp::Value, ty: &Type) -> Option<Value> {
        let mut memory = Memory::default();
        let mut words = Vec::new();
        memory.flat(value, ty, &mut words)?;
        // SAFETY: `flat` wrote the value's flat form; its memory, which stays where it is, goes with it.
        Some(unsafe { Value::from_flat(ty.clone(), words, [Arc::new(memory.blocks) as Arc<_>]) })
    }

    /// The interpreter's form of this value. `None` when memory for listing a dictionary is refused.
    pub fn to_interp(&self) -> Option<interp::Value> {
        // SAFETY: the words are the flat form of a value of the type, kept alive by `self`.
        unsafe { read_flat(self.ty(), &mut self.words()) }
    }
}

/// Memory of a value under construction, in words so that it is aligned for every row form.
#[derive(Default)]
struct Memory {
    blocks: Vec<Box<[u64]>>,
}

impl Memory {
    fn flat(&mut self, value: &interp::Value, ty: &Type, words: &mut Vec<u64>) -> Option<()> {
        match (ty, value) {
            (Type::Scalar(kind), interp::Value::Scalar(scalar)) if scalar.kind() == *kind => {
                let bits = scalar.bits();
                words.push(bits as u64);
                if *kind == ScalarKind::I128 {
                    words.push((bits >> 64) as u64);
                }
                Some(())
            }
            (Type::Struct(types), interp::Value::Struct(fields)) if types.len() == fields.len() => {
                fields.iter().zip(types.iter()).try_for_each(|(field, ty)| self.flat(field, ty, words))
            }
            (Type::Vec(element), interp::Value::Vec(items)) => {
                words.push(items.len() as u64);
                let columns = self.columns(items, element)?;
                words.extend(columns);
                Some(())
            }
            _ => None,
        }
    }

    /// The addresses of the columns that hold the items.
    fn columns(&mut self, items: &[interp::Value], element: &Type) -> Option<Vec<u64>> {
        let Type::Struct(types) = element else {
            let size = layout::row(element).size as usize;
            let mut bytes = vec![0; size * items.len()];
            for (index, item) in items.iter().enumerate() {
                self.row(item, element, &mut bytes[index * size..][..size])?;
            }
            return Some(vec![self.keep(&bytes)]);
        };
        let mut columns = Vec::new();
        for (index, ty) in types.iter().enumerate() {
            let field = |item: &interp::Value| match item {
                interp::Value::Struct(fields) if fields.len() == types.len() => Some(fields[index].clone()),
                _ => None,
            };
            let fields: Vec<_> = items.iter().map(field).collect::<Option<_>>()?;
            columns.extend(self.columns(&fields, ty)?);
        }
        Some(columns)
    }

    /// Writes the row form of a value; `out` is zeroed and as long as it.
    fn row(&mut self, value: &interp::Value, ty: &Type, out: &mut [u8]) -> Option<()> {
        match (ty, value) {
            (Type::Scalar(kind), interp::Value::Scalar(scalar)) if scalar.kind() == *kind => {
                let size = out.len();
                out.copy_from_slice(&scalar.bits().to_le_bytes()[..size]);
            }
            (Type::Struct(types), interp::Value::Struct(fields)) if types.len() == fields.len() => {
                for ((field, ty), offset) in fields.iter().zip(types.iter()).zip(layout::field_offsets(types)) {
                    let size = layout::row(ty).size as usize;
                    self.row(field, ty, &mut out[offset as usize..][..size])?;
                }
            }
            (Type::Vec(_), value) if ty.is_bytes() => {
                let bytes = value.to_bytes()?;
                // Only a long view points to the copy.
                let address = if bytes.len() > StringView::INLINE_MAX { self.keep(&bytes) } else { 0 };
                let view = StringView::new(&bytes)?;
                out[..4].copy_from_slice(&view.len.to_le_bytes());
                out[4..].copy_from_slice(&view.bytes);
                if address != 0 {
                    out[8..].copy_from_slice(&address.to_le_bytes());
                }
            }
            (Type::Vec(element), interp::Value::Vec(items)) => {
                let words = [items.len() as u64].into_iter().chain(self.columns(items, element)?);
                for (index, word) in words.enumerate() {
                    out[8 * index..][..8].copy_from_slice(&word.to_le_bytes());
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// The address of a copy that lives as long as the value.
    fn keep(&mut self, bytes: &[u8]) -> u64 {
        let word = |chunk: &[u8]| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        };
        let block: Box<[u64]> = bytes.chunks(8).map(word).collect();
        let address = block.as_ptr() as u64;
        self.blocks.push(block);
        address
    }
}

/// # Safety
/// `words` begins with the flat form of a value of the type, whose memory is alive.
unsafe fn read_flat(ty: &Type, words: &mut &[u64]) -> Option<interp::Value> {
    let (own, rest) = words.split_at(layout::flat_words(ty));
    let value = match ty {
        Type::Scalar(kind) => interp::Value::Scalar(literal(*kind, own)),
        Type::Struct(types) => {
            let mut own = own;
            // SAFETY: a struct's words are those of its fields.
            let fields = types.iter().map(|ty| unsafe { read_flat(ty, &mut own) }).collect::<Option<Vec<_>>>()?;
            interp::Value::structure(fields)
        }
        // SAFETY: a vector's words are its length and its columns' addresses.
        Type::Vec(element) => unsafe { read_vector(element, own[0] as usize, &own[1..])? },
        // SAFETY: a dictionary's word is the address of its table.
        Type::Dict(key, value) => unsafe { read_dict(key, value, own[0] as *const Dict)? },
        Type::Simd(_) | Type::Builder(_) => return None,
    };
    *words = rest;
    Some(value)
}

/// # Safety
/// The columns are those of a vector of so many elements of the type, and alive.
unsafe fn read_vector(element: &Type, len: usize, columns: &[u64]) -> Option<interp::Value> {
    // SAFETY: by the caller's promise.
    let items = (0..len).map(|index| unsafe { read_element(element, index, &mut &columns[..]) });
    Some(interp::Value::vec(items.collect::<Option<Vec<_>>>()?))
}

/// # Safety
/// `columns` begins with those of a vector of the type, which has an element `index`.
unsafe fn read_element(ty: &Type, index: usize, columns: &mut &[u64]) -> Option<interp::Value> {
    if let Type::Struct(types) = ty {
        // SAFETY: a struct's columns are those of its fields.
        let fields = types.iter().map(|ty| unsafe { read_element(ty, index, columns) });
        return Some(interp::Value::structure(fields.collect::<Option<Vec<_>>>()?));
    }
    let (first, rest) = columns.split_first()?;
    *columns = rest;
    let offset = index * layout::row(ty).size as usize;
    // SAFETY: elements lie at the row form's size from the column's start.
    unsafe { read_row(ty, (*first as *const u8).add(offset)) }
}

/// # Safety
/// `at` points to the row form of a value of the type, whose memory is alive.
unsafe fn read_row(ty: &Type, at: *const u8) -> Option<interp::Value> {
    // SAFETY: each read below is of a part of the row form, at its offset; parts are aligned to at most 8.
    unsafe {
        let word = |index: usize| at.cast::<u64>().add(index).read_unaligned();
        Some(match ty {
            Type::Scalar(kind) => {
                let mut bits = [0; 16];
                std::ptr::copy_nonoverlapping(at, bits.as_mut_ptr(), kind.bytes());
                let bits = u128::from_le_bytes(bits);
                interp::Value::Scalar(sign_free(*kind, bits))
            }
            Type::Struct(types) => {
                let offsets = layout::field_offsets(types);
                let fields = types.iter().zip(offsets).map(|(ty, offset)| read_row(ty, at.add(offset as usize)));
                interp::Value::structure(fields.collect::<Option<Vec<_>>>()?)
            }
            Type::Vec(element) if ty.is_bytes() => {
                let view = at.cast::<StringView>().read_unaligned();
                let byte = |&byte: &u8| match element.as_scalar() {
                    Some(ScalarKind::I8) => interp::Value::Scalar(Literal::I8(byte as i8)),
                    _ => interp::Value::Scalar(Literal::U8(byte)),
                };
                interp::Value::vec(view.as_slice().iter().map(byte))
            }
            Type::Vec(element) => {
                let columns: Vec<u64> = (1..=layout::columns(element).len()).map(word).collect();
                read_vector(element, word(0) as usize, &columns)?
            }
            Type::Dict(key, value) => read_dict(key, value, word(0) as *const Dict)?,
            Type::Simd(_) | Type::Builder(_) => return None,
        })
    }
}

/// The literal with these low bits; the rest is ignored.
fn sign_free(kind: ScalarKind, bits: u128) -> Literal {
    literal(kind, &[bits as u64, (bits >> 64) as u64])
}

/// # Safety
/// The dictionary is alive and has these types.
unsafe fn read_dict(key: &Type, value: &Type, dict: *const Dict) -> Option<interp::Value> {
    // SAFETY: by the caller's promise.
    let dict = unsafe { &*dict };
    let layout = dict.layout();
    let rows = dict.rows().ok()?;
    let mut entries = Vec::with_capacity(dict.len());
    for number in 1..=dict.len() {
        // SAFETY: row 0 and `len` rows more are there, and one more if they are groups.
        let entry = unsafe {
            let row = rows.add(number * layout.row_bytes as usize);
            let at = row.add(layout.value_offset as usize);
            let value = match value {
                // Values that are vectors are groups: the row has the number of the first, the next row its end.
                Type::Vec(element) => {
                    let end = at.add(layout.row_bytes as usize).cast::<u32>().read_unaligned();
                    read_group(dict, element, at.cast::<u32>().read_unaligned() as usize..end as usize)?
                }
                _ => read_row(value, at)?,
            };
            (read_row(key, row)?, value)
        };
        entries.push(entry);
    }
    Some(interp::Value::dict(entries))
}

/// # Safety
/// The numbers are those of values of the grouped dictionary, whose values are of the type.
unsafe fn read_group(dict: &Dict, element: &Type, values: std::ops::Range<usize>) -> Option<interp::Value> {
    let columns: Vec<u64> = dict.columns().iter().map(|column| *column as u64).collect();
    // SAFETY: by the caller's promise.
    let items = values.map(|index| unsafe { read_element(element, index, &mut &columns[..]) });
    Some(interp::Value::vec(items.collect::<Option<Vec<_>>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weld_core::interp::json::{from_json, to_json};

    /// There and back again.
    fn check(ty: &Type, json: &str) {
        let json = serde_json::from_str(json).unwrap();
        let value = from_json(&json, ty).unwrap();
        let native = Value::from_interp(&value, ty).unwrap();
        let clone = native.clone();
        drop(native);
        assert_eq!(to_json(&clone.to_interp().unwrap()), json, "{ty}");
    }

    #[test]
    fn values_survive_the_round_trip() {
        check(&Type::I64, "-5");
        check(&Type::I128, "\"-170141183460469231731687303715884105728\"");
        check(&Type::vec(Type::BOOL), "[true, false, true]");
        check(&Type::vec(Type::I64), "[]");
        let pair = Type::structure([Type::I32, Type::structure([Type::F64, Type::BOOL])]);
        check(&pair, "[1, [0.5, true]]");
        check(&Type::vec(pair.clone()), "[[1, [0.5, true]], [-2, [1.5, false]]]");
        check(&Type::vec(Type::vec(pair)), "[[[1, [0.5, true]]], [], [[2, [2.5, false]], [3, [3.5, true]]]]");
        check(&Type::vec(Type::vec(Type::U8)), "[[1, 2], [], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]]");
        check(&Type::structure([Type::vec(Type::I8), Type::I8]), "[[104, -1], 7]");
    }

    #[test]
    fn values_of_other_types_are_refused() {
        let value = interp::Value::i64(1);
        assert!(Value::from_interp(&value, &Type::I32).is_none());
        assert!(Value::from_interp(&value, &Type::vec(Type::I64)).is_none());
    }
}
