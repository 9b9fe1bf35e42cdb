//! Types of the language: scalars, SIMD values, vectors, dictionaries, structs, and builders.
//!
//! `Display` prints a type as one writes it, without blanks: `vec[{i64,f64}]`.

use std::fmt;
use std::sync::Arc;

use crate::op::MergeOp;

/// The scalar types. `I128` is an extension for exact decimals.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[expect(missing_docs, reason = "`name` says how each is written")]
pub enum ScalarKind {
    Bool,
    I8,
    I16,
    I32,
    I64,
    I128,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
}

impl ScalarKind {
    /// Each of them, in the order of the variants.
    pub const ALL: [ScalarKind; 12] = [
        ScalarKind::Bool,
        ScalarKind::I8,
        ScalarKind::I16,
        ScalarKind::I32,
        ScalarKind::I64,
        ScalarKind::I128,
        ScalarKind::U8,
        ScalarKind::U16,
        ScalarKind::U32,
        ScalarKind::U64,
        ScalarKind::F32,
        ScalarKind::F64,
    ];

    /// The keyword, as written.
    pub fn name(self) -> &'static str {
        match self {
            ScalarKind::Bool => "bool",
            ScalarKind::I8 => "i8",
            ScalarKind::I16 => "i16",
            ScalarKind::I32 => "i32",
            ScalarKind::I64 => "i64",
            ScalarKind::I128 => "i128",
            ScalarKind::U8 => "u8",
            ScalarKind::U16 => "u16",
            ScalarKind::U32 => "u32",
            ScalarKind::U64 => "u64",
            ScalarKind::F32 => "f32",
            ScalarKind::F64 => "f64",
        }
    }

    /// Whether it is `f32` or `f64`.
    pub fn is_float(self) -> bool {
        matches!(self, ScalarKind::F32 | ScalarKind::F64)
    }

    /// Integers of either signedness; not `bool`.
    pub fn is_integer(self) -> bool {
        !self.is_float() && self != ScalarKind::Bool
    }

    /// Whether it is an integer that may be negative.
    pub fn is_signed(self) -> bool {
        matches!(self, ScalarKind::I8 | ScalarKind::I16 | ScalarKind::I32 | ScalarKind::I64 | ScalarKind::I128)
    }

    /// Width in bytes; a `bool` takes one.
    pub fn bytes(self) -> usize {
        match self {
            ScalarKind::Bool | ScalarKind::I8 | ScalarKind::U8 => 1,
            ScalarKind::I16 | ScalarKind::U16 => 2,
            ScalarKind::I32 | ScalarKind::U32 | ScalarKind::F32 => 4,
            ScalarKind::I64 | ScalarKind::U64 | ScalarKind::F64 => 8,
            ScalarKind::I128 => 16,
        }
    }

    /// Width in bits; a `bool` takes eight.
    pub fn bits(self) -> u32 {
        8 * self.bytes() as u32
    }
}

/// A type. Cheap to clone: the parts are shared.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Type {
    /// A number or a `bool`.
    Scalar(ScalarKind),
    /// As many lanes as the target's registers hold.
    Simd(ScalarKind),
    /// `vec[T]`
    Vec(Arc<Type>),
    /// `dict[K,V]`
    Dict(Arc<Type>, Arc<Type>),
    /// `{A,B,..}`, fields without names.
    Struct(Arc<[Type]>),
    /// What a loop merges into.
    Builder(BuilderType),
}

/// What a builder builds. Two builders have one type when kinds, parts and binops agree; annotations do not count.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[expect(missing_docs, reason = "what a variant says of itself names its fields")]
pub enum BuilderType {
    /// Makes a `vec[T]`.
    Appender(Arc<Type>),
    /// Makes a `T`.
    Merger { value: Arc<Type>, op: MergeOp },
    /// Makes a `dict[K,V]`.
    DictMerger { key: Arc<Type>, value: Arc<Type>, op: MergeOp },
    /// Makes a `{dict[K,V], vec[{i64,R}]}`: each merge's `R` with the place of its key's entry in `tovec` of the
    /// dictionary.
    Numberer { key: Arc<Type>, value: Arc<Type>, op: MergeOp, row: Arc<Type> },
    /// Makes a `dict[K,vec[V]]`.
    GroupBuilder { key: Arc<Type>, value: Arc<Type> },
    /// Makes a `vec[T]` from an initial one.
    VecMerger { value: Arc<Type>, op: MergeOp },
}

impl Type {
    /// `bool`
    pub const BOOL: Type = Type::Scalar(ScalarKind::Bool);
    /// `i8`
    pub const I8: Type = Type::Scalar(ScalarKind::I8);
    /// `u8`
    pub const U8: Type = Type::Scalar(ScalarKind::U8);
    /// `i32`
    pub const I32: Type = Type::Scalar(ScalarKind::I32);
    /// `u32`
    pub const U32: Type = Type::Scalar(ScalarKind::U32);
    /// `i64`
    pub const I64: Type = Type::Scalar(ScalarKind::I64);
    /// `u64`
    pub const U64: Type = Type::Scalar(ScalarKind::U64);
    /// `i128`
    pub const I128: Type = Type::Scalar(ScalarKind::I128);
    /// `f32`
    pub const F32: Type = Type::Scalar(ScalarKind::F32);
    /// `f64`
    pub const F64: Type = Type::Scalar(ScalarKind::F64);

    /// `vec[element]`
    pub fn vec(element: Type) -> Type {
        Type::Vec(Arc::new(element))
    }

    /// `dict[key,value]`.
    pub fn dict(key: Type, value: Type) -> Type {
        Type::Dict(Arc::new(key), Arc::new(value))
    }

    /// `{A,B,..}`
    pub fn structure(fields: impl IntoIterator<Item = Type>) -> Type {
        Type::Struct(fields.into_iter().collect())
    }

    /// `{u64}`: what [`Intrinsic::Intern`](crate::op::Intrinsic::Intern) gives.
    pub fn interned() -> Type {
        Type::structure([Type::Scalar(ScalarKind::U64)])
    }

    /// `appender[element]`
    pub fn appender(element: Type) -> Type {
        Type::Builder(BuilderType::Appender(Arc::new(element)))
    }

    /// `merger[value,op]`
    pub fn merger(value: Type, op: MergeOp) -> Type {
        Type::Builder(BuilderType::Merger { value: Arc::new(value), op })
    }

    /// `dictmerger[key,value,op]`
    pub fn dict_merger(key: Type, value: Type, op: MergeOp) -> Type {
        Type::Builder(BuilderType::DictMerger { key: Arc::new(key), value: Arc::new(value), op })
    }

    /// `groupbuilder[key,value]`
    pub fn group_builder(key: Type, value: Type) -> Type {
        Type::Builder(BuilderType::GroupBuilder { key: Arc::new(key), value: Arc::new(value) })
    }

    /// `vecmerger[value,op]`
    pub fn vec_merger(value: Type, op: MergeOp) -> Type {
        Type::Builder(BuilderType::VecMerger { value: Arc::new(value), op })
    }

    /// The kind of a scalar; `None` for any other type, `simd` too.
    pub fn as_scalar(&self) -> Option<ScalarKind> {
        match self {
            Type::Scalar(kind) => Some(*kind),
            _ => None,
        }
    }

    /// The element type of a vector.
    pub fn element(&self) -> Option<&Type> {
        match self {
            Type::Vec(element) => Some(element),
            _ => None,
        }
    }

    /// The types of a struct's fields; `None` for any other type.
    pub fn fields(&self) -> Option<&[Type]> {
        match self {
            Type::Struct(fields) => Some(fields),
            _ => None,
        }
    }

    /// A builder, or a struct of builders (which can be used as one).
    pub fn is_builder(&self) -> bool {
        match self {
            Type::Builder(_) => true,
            Type::Struct(fields) => !fields.is_empty() && fields.iter().all(Type::is_builder),
            _ => false,
        }
    }

    /// `vec[i8]` and `vec[u8]`: the types of strings.
    pub fn is_bytes(&self) -> bool {
        matches!(self, Type::Vec(e) if matches!(**e, Type::Scalar(ScalarKind::I8 | ScalarKind::U8)))
    }
}

/// Whether a `dict[key,value]` may have a directory that its keys index: groups by integers of at most 64 bits. All
/// others find keys by their hashes.
pub fn may_be_dense(key: &Type, value: &Type) -> bool {
    let is_short = |kind: ScalarKind| kind.is_integer() && kind != ScalarKind::I128;
    value.element().is_some() && key.as_scalar().is_some_and(is_short)
}

impl BuilderType {
    /// The type of what may be merged in.
    pub fn merge_type(&self) -> Type {
        match self {
            BuilderType::Appender(element) => (**element).clone(),
            BuilderType::Merger { value, .. } => (**value).clone(),
            BuilderType::DictMerger { key, value, .. } | BuilderType::GroupBuilder { key, value } => {
                Type::structure([(**key).clone(), (**value).clone()])
            }
            BuilderType::Numberer { key, value, row, .. } => {
                Type::structure([(**key).clone(), (**value).clone(), (**row).clone()])
            }
            BuilderType::VecMerger { value, .. } => Type::structure([Type::I64, (**value).clone()]),
        }
    }

    /// The type of `result`.
    pub fn result_type(&self) -> Type {
        match self {
            BuilderType::Appender(element) | BuilderType::VecMerger { value: element, .. } => {
                Type::Vec(element.clone())
            }
            BuilderType::Merger { value, .. } => (**value).clone(),
            BuilderType::DictMerger { key, value, .. } => Type::Dict(key.clone(), value.clone()),
            BuilderType::Numberer { key, value, row, .. } => {
                let rows = Type::vec(BuilderType::numbered(row));
                Type::structure([Type::Dict(key.clone(), value.clone()), rows])
            }
            BuilderType::GroupBuilder { key, value } => Type::Dict(key.clone(), Arc::new(Type::Vec(value.clone()))),
        }
    }

    /// The builders that a numberer is: a dictmerger, and an appender of the rows with the numbers of their keys.
    pub fn parts(&self) -> Option<(BuilderType, BuilderType)> {
        let BuilderType::Numberer { key, value, op, row } = self else { return None };
        let dict = BuilderType::DictMerger { key: key.clone(), value: value.clone(), op: op.clone() };
        Some((dict, BuilderType::Appender(Arc::new(BuilderType::numbered(row)))))
    }

    fn numbered(row: &Type) -> Type {
        Type::structure([Type::I64, row.clone()])
    }
}

impl fmt::Display for ScalarKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Scalar(kind) => write!(f, "{kind}"),
            Type::Simd(kind) => write!(f, "simd[{kind}]"),
            Type::Vec(element) => write!(f, "vec[{element}]"),
            Type::Dict(key, value) => write!(f, "dict[{key},{value}]"),
            Type::Struct(fields) => {
                f.write_str("{")?;
                for (i, field) in fields.iter().enumerate() {
                    if i > 0 {
                        f.write_str(",")?;
                    }
                    write!(f, "{field}")?;
                }
                f.write_str("}")
            }
            Type::Builder(builder) => write!(f, "{builder}"),
        }
    }
}

impl fmt::Display for BuilderType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuilderType::Appender(element) => write!(f, "appender[{element}]"),
            BuilderType::Merger { value, op } => write!(f, "merger[{value},{op}]"),
            BuilderType::DictMerger { key, value, op } => write!(f, "dictmerger[{key},{value},{op}]"),
            BuilderType::Numberer { key, value, op, row } => write!(f, "numberer[{key},{value},{op},{row}]"),
            BuilderType::GroupBuilder { key, value } => write!(f, "groupbuilder[{key},{value}]"),
            BuilderType::VecMerger { value, op } => write!(f, "vecmerger[{value},{op}]"),
        }
    }
}
