//! Values as the interpreter sees them. Cheap to clone: vectors, structs and dictionaries are shared.
//!
//! `Value::vec([Value::i64(1), Value::i64(2)])` is `[1L, 2L]`.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use super::LANES;
use super::compare::Key;
use super::memory::Charge;
use crate::builder::Handle;
use crate::ir::Literal;
use crate::ty::{ScalarKind, Type};

/// A value. Equality is that of bits for floats (NaN equals itself), so it compares results, not numbers.
#[derive(Clone, Debug)]
pub enum Value {
    /// A number or a `bool`.
    Scalar(Literal),
    /// The lanes of a SIMD value, [`LANES`] of them.
    Simd(Arc<[Literal]>),
    /// A vector, strings among them.
    Vec(Vector),
    /// The fields in order.
    Struct(Arc<[Value]>),
    /// A dictionary.
    Dict(Dictionary),
    /// Inside a run only: a program cannot return one.
    Builder(Handle),
}

/// A shared, immutable vector.
#[derive(Clone, Debug)]
pub struct Vector(Arc<VectorData>);

#[derive(Debug)]
struct VectorData {
    items: Vec<Value>,
    _charge: Charge,
}

/// A shared, immutable dictionary, in the order of its keys.
#[derive(Clone, Debug)]
pub struct Dictionary(Arc<DictionaryData>);

#[derive(Debug)]
struct DictionaryData {
    entries: BTreeMap<Key, Value>,
    _charge: Charge,
}

impl Vector {
    pub(crate) fn charged(items: Vec<Value>, charge: Charge) -> Vector {
        Vector(Arc::new(VectorData { items, _charge: charge }))
    }

    /// Whether both share their elements.
    pub(crate) fn is_same(&self, other: &Vector) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Deref for Vector {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        &self.0.items
    }
}

impl Dictionary {
    pub(crate) fn charged(entries: BTreeMap<Key, Value>, charge: Charge) -> Dictionary {
        Dictionary(Arc::new(DictionaryData { entries, _charge: charge }))
    }

    /// The value of a key; `None` if there is no such key.
    pub fn get(&self, key: &Value) -> Option<&Value> {
        self.0.entries.get(&Key::new(key))
    }

    /// The place of a key, counted from one; zero if there is no such key.
    pub(crate) fn row(&self, key: &Value) -> u32 {
        let key = Key::new(key);
        match self.0.entries.contains_key(&key) {
            true => self.0.entries.range(..=key).count() as u32,
            false => 0,
        }
    }

    /// The value in the row that [`Dictionary::row`] has given.
    pub(crate) fn value_in_row(&self, row: u32) -> Option<&Value> {
        self.0.entries.values().nth((row as usize).checked_sub(1)?)
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.0.entries.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.0.entries.is_empty()
    }

    /// Keys and values, smallest key first.
    pub fn iter(&self) -> impl Iterator<Item = (&Value, &Value)> {
        self.0.entries.iter().map(|(key, value)| (key.value(), value))
    }
}

impl Value {
    /// A `bool`.
    pub fn bool(value: bool) -> Value {
        Value::Scalar(Literal::Bool(value))
    }

    /// An `i32`.
    pub fn i32(value: i32) -> Value {
        Value::Scalar(Literal::I32(value))
    }

    /// A `u32`.
    pub fn u32(value: u32) -> Value {
        Value::Scalar(Literal::U32(value))
    }

    /// An `i64`.
    pub fn i64(value: i64) -> Value {
        Value::Scalar(Literal::I64(value))
    }

    /// An `f64`.
    pub fn f64(value: f64) -> Value {
        Value::Scalar(Literal::F64(value))
    }

    /// A vector of values that are of one type. No memory is counted for it.
    pub fn vec(items: impl IntoIterator<Item = Value>) -> Value {
        Value::Vec(Vector::charged(items.into_iter().collect(), Charge::FREE))
    }

    /// A `vec[i8]`.
    pub fn string(text: &str) -> Value {
        Value::vec(text.bytes().map(|byte| Value::Scalar(Literal::I8(byte as i8))))
    }

    /// A struct of these fields.
    pub fn structure(fields: impl IntoIterator<Item = Value>) -> Value {
        Value::Struct(fields.into_iter().collect())
    }

    /// A dictionary; of entries with equal keys the last stays.
    pub fn dict(entries: impl IntoIterator<Item = (Value, Value)>) -> Value {
        let entries = entries.into_iter().map(|(key, value)| (Key::new(&key), value)).collect();
        Value::Dict(Dictionary::charged(entries, Charge::FREE))
    }

    /// Zero, false, empty: what a missed `optlookup` gives. `None` for builders.
    pub fn zero(ty: &Type) -> Option<Value> {
        Some(match ty {
            Type::Scalar(kind) => Value::Scalar(Literal::zero(*kind)),
            Type::Simd(kind) => Value::Simd([Literal::zero(*kind); LANES].into()),
            Type::Vec(_) => Value::vec([]),
            Type::Dict(..) => Value::dict([]),
            Type::Struct(fields) => Value::Struct(fields.iter().map(Value::zero).collect::<Option<_>>()?),
            Type::Builder(_) => return None,
        })
    }

    /// Whether this is a value of the type, all the way down.
    pub fn has_type(&self, ty: &Type) -> bool {
        match (self, ty) {
            (Value::Scalar(literal), Type::Scalar(kind)) => literal.kind() == *kind,
            (Value::Simd(lanes), Type::Simd(kind)) => lanes.iter().all(|lane| lane.kind() == *kind),
            (Value::Vec(items), Type::Vec(element)) => items.iter().all(|item| item.has_type(element)),
            (Value::Struct(fields), Type::Struct(types)) => {
                fields.len() == types.len() && fields.iter().zip(types.iter()).all(|(field, ty)| field.has_type(ty))
            }
            (Value::Dict(dict), Type::Dict(key, value)) => {
                dict.iter().all(|(k, v)| k.has_type(key) && v.has_type(value))
            }
            _ => false,
        }
    }

    /// The bytes of a `vec[i8]` or `vec[u8]`.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        let Value::Vec(items) = self else { return None };
        items
            .iter()
            .map(|item| match item {
                Value::Scalar(Literal::I8(byte)) => Some(*byte as u8),
                Value::Scalar(Literal::U8(byte)) => Some(*byte),
                _ => None,
            })
            .collect()
    }

    /// What the value takes where it is stored, without what it shares.
    pub(crate) fn footprint(&self) -> usize {
        let own = size_of::<Value>();
        match self {
            Value::Struct(fields) => own + 16 + fields.iter().map(Value::footprint).sum::<usize>(),
            Value::Simd(lanes) => own + 16 + size_of_val(&**lanes),
            _ => own,
        }
    }
}

impl Literal {
    /// The zero of a kind; `false` for `bool`.
    pub fn zero(kind: ScalarKind) -> Literal {
        match kind {
            ScalarKind::Bool => Literal::Bool(false),
            ScalarKind::I8 => Literal::I8(0),
            ScalarKind::I16 => Literal::I16(0),
            ScalarKind::I32 => Literal::I32(0),
            ScalarKind::I64 => Literal::I64(0),
            ScalarKind::I128 => Literal::I128(0),
            ScalarKind::U8 => Literal::U8(0),
            ScalarKind::U16 => Literal::U16(0),
            ScalarKind::U32 => Literal::U32(0),
            ScalarKind::U64 => Literal::U64(0),
            ScalarKind::F32 => Literal::F32(0.0),
            ScalarKind::F64 => Literal::F64(0.0),
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Scalar(a), Value::Scalar(b)) => a == b,
            (Value::Simd(a), Value::Simd(b)) => a == b,
            (Value::Vec(a), Value::Vec(b)) => **a == **b,
            (Value::Struct(a), Value::Struct(b)) => a == b,
            (Value::Dict(a), Value::Dict(b)) => a.len() == b.len() && a.iter().eq(b.iter()),
            _ => false,
        }
    }
}
