//! Types under inference: terms with unknowns, made equal by unification.
//!
//! `vec[?1]` unified with `vec[i64]` makes `?1` be `i64`. An `Error` term stands for a type that was complained about
//! already and is equal to everything, so that one mistake is reported once.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use crate::op::MergeOp;
use crate::ty::{BuilderType, ScalarKind, Type};

/// A type under inference: an index into [`Types`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Ty(u32);

/// What a type is made of, apart from its parts.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Con {
    Scalar(ScalarKind),
    Simd,
    Vec,
    Dict,
    Struct,
    Appender,
    Merger(MergeOp),
    DictMerger(MergeOp),
    Numberer(MergeOp),
    GroupBuilder,
    VecMerger(MergeOp),
}

#[derive(Clone, Debug)]
enum Term {
    Unknown,
    Error,
    Link(Ty),
    Con(Con, Arc<[Ty]>),
}

/// A type as far as it is known.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    Unknown,
    Error,
    Con(Con, Arc<[Ty]>),
}

pub(super) struct Types {
    terms: Vec<Term>,
    /// How many parts a term has, and how deep they nest, as far as known when it was made.
    sizes: Vec<(u32, u32)>,
    /// How long the ways of links to a term may be.
    ranks: Vec<u8>,
    exported: HashMap<Ty, Type>,
}

/// Types larger or deeper than these are errors: programs can double a type in a line.
const SIZE_MAX: u32 = 10_000;
const DEPTH_MAX: u32 = 150;
/// Steps of one unification: more only where types grew through unknowns.
const STEPS_MAX: usize = 200_000;

impl Types {
    pub(super) const BOOL: Ty = Ty(0);
    pub(super) const I8: Ty = Ty(1);
    pub(super) const I32: Ty = Ty(3);
    pub(super) const I64: Ty = Ty(4);
    pub(super) const ERROR: Ty = Ty(12);

    pub(super) fn new() -> Types {
        let mut types = Types { terms: Vec::new(), sizes: Vec::new(), ranks: Vec::new(), exported: HashMap::new() };
        for kind in ScalarKind::ALL {
            types.push(Term::Con(Con::Scalar(kind), Arc::new([])), (1, 1));
        }
        types.push(Term::Error, (1, 1));
        types
    }

    fn push(&mut self, term: Term, size: (u32, u32)) -> Ty {
        self.terms.push(term);
        self.sizes.push(size);
        self.ranks.push(0);
        Ty(self.terms.len() as u32 - 1)
    }

    pub(super) fn unknown(&mut self) -> Ty {
        self.push(Term::Unknown, (1, 1))
    }

    pub(super) fn scalar(kind: ScalarKind) -> Ty {
        Ty(kind as u32)
    }

    /// A type of these parts, or `None` if it is too large.
    pub(super) fn make(&mut self, con: Con, parts: &[Ty]) -> Option<Ty> {
        let (mut size, mut depth) = (1u32, 0);
        for part in parts {
            let (s, d) = self.sizes[self.find(*part).0 as usize];
            size = size.saturating_add(s);
            depth = depth.max(d);
        }
        let fits = size <= SIZE_MAX && depth < DEPTH_MAX;
        fits.then(|| self.push(Term::Con(con, parts.into()), (size, depth + 1)))
    }

    /// The type at the end of the links.
    fn find(&self, ty: Ty) -> Ty {
        let mut ty = ty;
        while let Term::Link(next) = self.terms[ty.0 as usize] {
            ty = next;
        }
        ty
    }

    pub(super) fn shape(&self, ty: Ty) -> Shape {
        match &self.terms[self.find(ty).0 as usize] {
            Term::Unknown | Term::Link(_) => Shape::Unknown,
            Term::Error => Shape::Error,
            Term::Con(con, parts) => Shape::Con(con.clone(), parts.clone()),
        }
    }

    /// The parts of a type of this make.
    pub(super) fn parts(&self, ty: Ty, wanted: &Con) -> Option<Arc<[Ty]>> {
        match &self.terms[self.find(ty).0 as usize] {
            Term::Con(con, parts) if con == wanted => Some(parts.clone()),
            _ => None,
        }
    }

    pub(super) fn is_unknown(&self, ty: Ty) -> bool {
        matches!(self.terms[self.find(ty).0 as usize], Term::Unknown)
    }

    pub(super) fn is_error(&self, ty: Ty) -> bool {
        matches!(self.terms[self.find(ty).0 as usize], Term::Error)
    }

    /// Makes two types equal; false if they cannot be.
    pub(super) fn unify(&mut self, a: Ty, b: Ty) -> bool {
        let mut steps = 0;
        self.unify_within(a, b, &mut steps)
    }

    fn unify_within(&mut self, a: Ty, b: Ty, steps: &mut usize) -> bool {
        *steps += 1;
        if *steps > STEPS_MAX {
            return false;
        }
        let (a, b) = (self.find(a), self.find(b));
        if a == b {
            return true;
        }
        match (&self.terms[a.0 as usize], &self.terms[b.0 as usize]) {
            (Term::Error, _) | (_, Term::Error) => true,
            (Term::Unknown, Term::Unknown) => {
                self.link_either(a, b);
                true
            }
            (Term::Unknown, _) => self.bind(a, b, steps),
            (_, Term::Unknown) => self.bind(b, a, steps),
            (Term::Con(x, xs), Term::Con(y, ys)) if x == y && xs.len() == ys.len() => {
                let (xs, ys) = (xs.clone(), ys.clone());
                let equal = xs.iter().zip(ys.iter()).all(|(x, y)| self.unify_within(*x, *y, steps));
                if equal && !xs.is_empty() {
                    // The next comparison of the two need not look inside.
                    self.link_either(a, b);
                }
                equal
            }
            _ => false,
        }
    }

    fn bind(&mut self, unknown: Ty, to: Ty, steps: &mut usize) -> bool {
        if self.occurs(unknown, to, steps) {
            return false;
        }
        self.link(unknown, to);
        true
    }

    fn link(&mut self, from: Ty, to: Ty) {
        self.terms[from.0 as usize] = Term::Link(to);
        let least = self.ranks[from.0 as usize] + 1;
        let rank = &mut self.ranks[to.0 as usize];
        *rank = least.max(*rank);
    }

    /// Links the one with the shorter ways to it, so that no way gets long (union by rank).
    fn link_either(&mut self, a: Ty, b: Ty) {
        match self.ranks[a.0 as usize] > self.ranks[b.0 as usize] {
            true => self.link(b, a),
            false => self.link(a, b),
        }
    }

    /// Whether a type holds the unknown, so that making them equal would give an endless type.
    fn occurs(&self, unknown: Ty, ty: Ty, steps: &mut usize) -> bool {
        *steps += 1;
        let ty = self.find(ty);
        if ty == unknown || *steps > STEPS_MAX {
            return true;
        }
        match &self.terms[ty.0 as usize] {
            Term::Con(_, parts) => parts.iter().any(|part| self.occurs(unknown, *part, steps)),
            _ => false,
        }
    }

    pub(super) fn import(&mut self, ty: &Type) -> Ty {
        let (con, parts) = match ty {
            Type::Scalar(kind) => return Types::scalar(*kind),
            Type::Simd(kind) => (Con::Simd, vec![Types::scalar(*kind)]),
            Type::Vec(element) => (Con::Vec, vec![self.import(element)]),
            Type::Dict(key, value) => (Con::Dict, vec![self.import(key), self.import(value)]),
            Type::Struct(fields) => (Con::Struct, fields.iter().map(|field| self.import(field)).collect()),
            Type::Builder(builder) => match builder {
                BuilderType::Appender(element) => (Con::Appender, vec![self.import(element)]),
                BuilderType::Merger { value, op } => (Con::Merger(op.clone()), vec![self.import(value)]),
                BuilderType::DictMerger { key, value, op } => {
                    (Con::DictMerger(op.clone()), vec![self.import(key), self.import(value)])
                }
                BuilderType::Numberer { key, value, op, row } => {
                    (Con::Numberer(op.clone()), vec![self.import(key), self.import(value), self.import(row)])
                }
                BuilderType::GroupBuilder { key, value } => {
                    (Con::GroupBuilder, vec![self.import(key), self.import(value)])
                }
                BuilderType::VecMerger { value, op } => (Con::VecMerger(op.clone()), vec![self.import(value)]),
            },
        };
        self.make(con, &parts).unwrap_or(Types::ERROR)
    }

    /// The finished type, or `None` while anything in it is unknown or wrong.
    pub(super) fn export(&mut self, ty: Ty) -> Option<Type> {
        let ty = self.find(ty);
        if let Some(done) = self.exported.get(&ty) {
            return Some(done.clone());
        }
        let Shape::Con(con, parts) = self.shape(ty) else { return None };
        let mut parts = parts.iter().map(|part| self.export(*part)).collect::<Option<Vec<Type>>>()?.into_iter();
        let mut next = || parts.next().map(Arc::new);
        let done = match con {
            Con::Scalar(kind) => Type::Scalar(kind),
            Con::Simd => Type::Simd(next()?.as_scalar()?),
            Con::Vec => Type::Vec(next()?),
            Con::Dict => Type::Dict(next()?, next()?),
            Con::Struct => Type::structure(parts),
            Con::Appender => Type::Builder(BuilderType::Appender(next()?)),
            Con::Merger(op) => Type::Builder(BuilderType::Merger { value: next()?, op }),
            Con::DictMerger(op) => Type::Builder(BuilderType::DictMerger { key: next()?, value: next()?, op }),
            Con::Numberer(op) => {
                Type::Builder(BuilderType::Numberer { key: next()?, value: next()?, op, row: next()? })
            }
            Con::GroupBuilder => Type::Builder(BuilderType::GroupBuilder { key: next()?, value: next()? }),
            Con::VecMerger(op) => Type::Builder(BuilderType::VecMerger { value: next()?, op }),
        };
        self.exported.insert(ty, done.clone());
        Some(done)
    }

    /// The type as one writes it, with `?` for what is unknown; a very long one is cut.
    pub(super) fn show(&self, ty: Ty) -> String {
        let mut out = String::new();
        self.show_into(ty, &mut out);
        out
    }

    fn show_into(&self, ty: Ty, out: &mut String) {
        if out.len() > 200 {
            if !out.ends_with("..") {
                out.push_str("..");
            }
            return;
        }
        let (con, parts) = match self.shape(ty) {
            Shape::Con(con, parts) => (con, parts),
            Shape::Unknown | Shape::Error => return out.push('?'),
        };
        let (name, mut op) = match &con {
            Con::Scalar(kind) => return out.push_str(kind.name()),
            Con::Simd => ("simd", None),
            Con::Vec => ("vec", None),
            Con::Dict => ("dict", None),
            Con::Struct => ("", None),
            Con::Appender => ("appender", None),
            Con::Merger(op) => ("merger", Some(op)),
            Con::DictMerger(op) => ("dictmerger", Some(op)),
            Con::Numberer(op) => ("numberer", Some(op)),
            Con::GroupBuilder => ("groupbuilder", None),
            Con::VecMerger(op) => ("vecmerger", Some(op)),
        };
        out.push_str(name);
        out.push(if con == Con::Struct { '{' } else { '[' });
        // The row of a numberer stands behind the op.
        let before_op = if matches!(con, Con::Numberer(_)) { 2 } else { parts.len() };
        for (i, part) in parts.iter().enumerate() {
            if let Some(op) = op.take_if(|_| i == before_op) {
                let _ = write!(out, ",{op}");
            }
            if i > 0 {
                out.push(',');
            }
            self.show_into(*part, out);
        }
        if let Some(op) = op {
            let _ = write!(out, ",{op}");
        }
        out.push(if con == Con::Struct { '}' } else { ']' });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknowns_become_known() {
        let mut types = Types::new();
        let element = types.unknown();
        let open = types.make(Con::Vec, &[element]).unwrap();
        assert_eq!(types.show(open), "vec[?]");
        assert!(types.export(open).is_none());
        let closed = types.import(&Type::vec(Type::F64));
        assert!(types.unify(open, closed));
        assert_eq!(types.export(open), Some(Type::vec(Type::F64)));
        assert!(!types.unify(element, Types::I64));
    }

    #[test]
    fn endless_types_are_refused() {
        let mut types = Types::new();
        let a = types.unknown();
        let vec = types.make(Con::Vec, &[a]).unwrap();
        assert!(!types.unify(a, vec));
    }

    #[test]
    fn types_that_double_are_refused() {
        let mut types = Types::new();
        let mut ty = Types::I64;
        let made = (0..200).all(|_| match types.make(Con::Struct, &[ty, ty]) {
            Some(next) => {
                ty = next;
                true
            }
            None => false,
        });
        assert!(!made);
    }
}
