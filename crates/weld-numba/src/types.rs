//! Types of the language, how their values lie in Weld, and the rules that are built in: which type two unify to, and
//! how far one is from another.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use weld_core::ty::{ScalarKind, Type};
use weld_frontend::{DataType, Shape};

/// The type of a value that exists when the program runs.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Ty {
    Scalar(ScalarKind),
    Str,
    None,
    List(Rc<Ty>),
    Tuple(Rc<[Ty]>),
    Object(Rc<ObjectTy>),
    /// Of the elements of a list that has none yet.
    Unknown,
}

/// A class with its parameters.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ObjectTy {
    /// Its number in the module.
    pub(crate) class: usize,
    pub(crate) name: Arc<str>,
    pub(crate) args: Vec<TyArg>,
    pub(crate) fields: Vec<(Arc<str>, Ty)>,
}

/// What a parameter of a class stands for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum TyArg {
    Ty(Ty),
    Int(i64),
}

impl Ty {
    pub(crate) const INT: Ty = Ty::Scalar(ScalarKind::I64);
    pub(crate) const FLOAT: Ty = Ty::Scalar(ScalarKind::F64);
    pub(crate) const BOOL: Ty = Ty::Scalar(ScalarKind::Bool);

    pub(crate) fn list(element: Ty) -> Ty {
        Ty::List(Rc::new(element))
    }

    /// The type that is called so.
    pub(crate) fn named(name: &str) -> Option<Ty> {
        Some(Ty::Scalar(match name {
            "Int" | "Int64" => ScalarKind::I64,
            "Int8" => ScalarKind::I8,
            "Int16" => ScalarKind::I16,
            "Int32" => ScalarKind::I32,
            "UInt8" => ScalarKind::U8,
            "UInt16" => ScalarKind::U16,
            "UInt32" => ScalarKind::U32,
            "UInt64" => ScalarKind::U64,
            "Float" | "Double" | "Float64" => ScalarKind::F64,
            "Float32" => ScalarKind::F32,
            "Bool" => ScalarKind::Bool,
            "String" => return Some(Ty::Str),
            "Void" | "None" => return Some(Ty::None),
            _ => return None,
        }))
    }

    /// The scalar kind of a number, which a `Bool` is not.
    pub(crate) fn number(&self) -> Option<ScalarKind> {
        match self {
            Ty::Scalar(kind) if *kind != ScalarKind::Bool => Some(*kind),
            _ => None,
        }
    }

    pub(crate) fn weld(&self) -> Type {
        match self {
            Ty::Scalar(kind) => Type::Scalar(*kind),
            Ty::Str => Type::vec(Type::U8),
            Ty::None | Ty::Unknown => Type::BOOL,
            Ty::List(element) => Type::vec(element.weld()),
            Ty::Tuple(parts) => Type::structure(parts.iter().map(Ty::weld)),
            Ty::Object(object) => Type::structure(object.fields.iter().map(|(_, ty)| ty.weld())),
        }
    }

    pub(crate) fn shape(&self) -> Shape {
        match self {
            Ty::Scalar(kind) => Shape::scalar(*kind),
            Ty::Str => Shape::Text,
            Ty::None | Ty::Unknown => Shape::Void,
            Ty::List(element) => Shape::List(Box::new(element.shape())),
            Ty::Tuple(parts) => Shape::Tuple(parts.iter().map(Ty::shape).collect()),
            Ty::Object(object) => {
                Shape::Record(object.fields.iter().map(|(name, ty)| (name.to_string(), ty.shape())).collect())
            }
        }
    }

    /// The type of a column's values.
    pub(crate) fn of_column(ty: &DataType) -> Option<Ty> {
        Some(match ty {
            DataType::Scalar(ScalarKind::I128) => return None,
            DataType::Scalar(kind) => Ty::Scalar(*kind),
            DataType::Text => Ty::Str,
            DataType::List(element) | DataType::FixedList(element, _) => Ty::list(Ty::of_column(element)?),
            DataType::Struct(fields) => {
                Ty::Tuple(fields.iter().map(|(_, ty)| Ty::of_column(ty)).collect::<Option<_>>()?)
            }
        })
    }

    /// Whether a value of it may be changed in place, or holds one that may.
    pub(crate) fn is_list(&self) -> bool {
        matches!(self, Ty::List(_))
    }

    /// Whether values of it are lists, or have lists in them.
    pub(crate) fn holds_list(&self) -> bool {
        match self {
            Ty::List(_) => true,
            Ty::Tuple(parts) => parts.iter().any(Ty::holds_list),
            Ty::Object(object) => object.fields.iter().any(|(_, ty)| ty.holds_list()),
            _ => false,
        }
    }

    /// The type of what is one or the other, by the rules that are built in.
    pub(crate) fn unify(&self, other: &Ty) -> Option<Ty> {
        match (self, other) {
            _ if self == other => Some(self.clone()),
            (Ty::Unknown, ty) | (ty, Ty::Unknown) => Some(ty.clone()),
            (Ty::Tuple(a), Ty::Tuple(b)) if a.len() == b.len() => {
                a.iter().zip(b.iter()).map(|(a, b)| a.unify(b)).collect::<Option<_>>().map(Ty::Tuple)
            }
            // Type parameters are invariant; a list without elements is of every type.
            (Ty::List(a), Ty::List(b)) => match (a.distance(b), b.distance(a)) {
                (Some(0), _) if a.holds_unknown() => Some(other.clone()),
                (_, Some(0)) if b.holds_unknown() => Some(self.clone()),
                _ => None,
            },
            _ => wider(self.number()?, other.number()?).map(Ty::Scalar),
        }
    }

    /// Whether it holds the type of a list's elements that is not known yet.
    pub(crate) fn holds_unknown(&self) -> bool {
        match self {
            Ty::Unknown => true,
            Ty::List(element) => element.holds_unknown(),
            Ty::Tuple(parts) => parts.iter().any(Ty::holds_unknown),
            _ => false,
        }
    }

    /// How far it is to another type, by the rules that are built in; `None` where nothing converts.
    pub(crate) fn distance(&self, to: &Ty) -> Option<u32> {
        match (self, to) {
            _ if self == to => Some(0),
            (Ty::Unknown, _) => Some(0),
            (Ty::List(a), Ty::List(b)) if a.holds_unknown() => a.distance(b).filter(|distance| *distance == 0),
            (Ty::Tuple(a), Ty::Tuple(b)) if a.len() == b.len() => {
                a.iter().zip(b.iter()).try_fold(0, |sum, (a, b)| Some(sum + a.distance(b)?))
            }
            _ => scalar_distance(self.number()?, to.number()?),
        }
    }
}

/// Of two kinds of numbers the one that holds both.
fn wider(a: ScalarKind, b: ScalarKind) -> Option<ScalarKind> {
    use ScalarKind::*;
    Some(match (a, b) {
        (F32, F32) => F32,
        (F32, other) | (other, F32) => match other {
            I8 | I16 | U8 | U16 => F32,
            _ => F64,
        },
        (F64, _) | (_, F64) => F64,
        _ if a.is_signed() == b.is_signed() => {
            if a.bytes() >= b.bytes() {
                a
            } else {
                b
            }
        }
        _ => {
            let (signed, unsigned) = if a.is_signed() { (a, b) } else { (b, a) };
            match (signed.bytes() > unsigned.bytes(), unsigned) {
                (true, _) => signed,
                (false, U8) => I16,
                (false, U16) => I32,
                (false, U32) => I64,
                _ => return None,
            }
        }
    })
}

fn scalar_distance(from: ScalarKind, to: ScalarKind) -> Option<u32> {
    let steps = |from: ScalarKind, to: ScalarKind| to.bytes().ilog2().checked_sub(from.bytes().ilog2());
    match (from.is_float(), to.is_float()) {
        (true, true) => steps(from, to),
        (false, false) if from.is_signed() == to.is_signed() => steps(from, to),
        (false, true) if from.is_signed() => {
            Some(steps(from, ScalarKind::I64)? + if to == ScalarKind::F64 { 1 } else { 2 })
        }
        _ => None,
    }
}

/// As a signature writes it; of a class with its fields.
impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, parts: &[Ty]| {
            parts.iter().enumerate().try_for_each(|(i, ty)| write!(f, "{}{ty}", if i > 0 { ", " } else { "" }))
        };
        match self {
            Ty::Scalar(kind) => f.write_str(scalar_name(*kind)),
            Ty::Str => f.write_str("String"),
            Ty::None => f.write_str("None"),
            Ty::Unknown => f.write_str("?"),
            Ty::List(element) => write!(f, "[{element}]"),
            Ty::Tuple(parts) => {
                f.write_str("(")?;
                list(f, parts)?;
                f.write_str(if parts.len() == 1 { ",)" } else { ")" })
            }
            Ty::Object(object) => {
                write!(f, "{}{{", object.name)?;
                for (i, (name, ty)) in object.fields.iter().enumerate() {
                    write!(f, "{}{name}: {ty}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str("}")
            }
        }
    }
}

pub(crate) fn scalar_name(kind: ScalarKind) -> &'static str {
    match kind {
        ScalarKind::Bool => "Bool",
        ScalarKind::I8 => "Int8",
        ScalarKind::I16 => "Int16",
        ScalarKind::I32 => "Int32",
        ScalarKind::I64 | ScalarKind::I128 => "Int64",
        ScalarKind::U8 => "UInt8",
        ScalarKind::U16 => "UInt16",
        ScalarKind::U32 => "UInt32",
        ScalarKind::U64 => "UInt64",
        ScalarKind::F32 => "Float32",
        ScalarKind::F64 => "Float64",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_to_the_wider() {
        let unify = |a: &str, b: &str| {
            let (a, b) = (Ty::named(a).unwrap(), Ty::named(b).unwrap());
            assert_eq!(a.unify(&b), b.unify(&a));
            a.unify(&b).map(|ty| ty.to_string())
        };
        assert_eq!(unify("Int", "Float"), Some("Float64".into()));
        assert_eq!(unify("Int", "Float32"), Some("Float64".into()));
        assert_eq!(unify("Int8", "UInt8"), Some("Int16".into()));
        assert_eq!(unify("Int64", "UInt64"), None);
        assert_eq!(unify("Bool", "Int"), None);
        assert_eq!(unify("String", "Int"), None);
    }

    #[test]
    fn distances() {
        let distance = |a: &str, b: &str| Ty::named(a).unwrap().distance(&Ty::named(b).unwrap());
        assert_eq!(distance("Int", "Int"), Some(0));
        assert_eq!(distance("Int", "Float"), Some(1));
        assert_eq!(distance("Int", "Float32"), Some(2));
        assert_eq!(distance("Int8", "Int64"), Some(3));
        assert_eq!(distance("Float32", "Float"), Some(1));
        assert_eq!(distance("Float", "Float32"), None);
        assert_eq!(distance("Float", "Int"), None);
        assert_eq!(Ty::list(Ty::INT).unify(&Ty::list(Ty::FLOAT)), None);
        assert_eq!(Ty::list(Ty::Unknown).unify(&Ty::list(Ty::FLOAT)), Some(Ty::list(Ty::FLOAT)));
    }
}
