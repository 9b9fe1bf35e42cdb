//! The IR: typed, names bound once, sugar and macros gone. What the optimizer rewrites and the compiler lowers.
//!
//! A [`Program`] has parameters and a body. Expressions are trees; every node carries its type and the span that it
//! came from. `let` is a block of bindings before a body, so that a long program is wide and not deep.
//!
//! Invariants (the verifier checks them after every pass):
//! - a [`Sym`] is bound once in a program and used only where it is in scope;
//! - every node's type agrees with its parts;
//! - a `Let` has at least one binding and its body is no `Let`;
//! - builders are linear: each is used exactly once on every path.

pub mod build;
pub mod counted;
mod equal;
mod hash;
pub mod linear;
mod print;
pub mod typing;
mod verify;
mod visit;

use std::collections::HashSet;
use std::sync::Arc;

pub use hash::WideHasher;
pub(crate) use print::annotation;
pub use verify::verify;
pub use visit::deep;

use crate::diag::Span;
use crate::op::{BinaryOp, Intrinsic, UnaryOp};
use crate::ty::{ScalarKind, Type};

/// A variable, unique within its program. [`Names`] knows what it was called.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Sym(pub u32);

/// Hands out symbols and remembers the names that they had in the source (for printing only).
#[derive(Clone, Debug, Default)]
pub struct Names {
    names: Vec<Arc<str>>,
}

impl Names {
    /// A new symbol with a name, which others may have as well.
    pub fn fresh(&mut self, name: &str) -> Sym {
        let sym = Sym(self.names.len() as u32);
        self.names.push(name.into());
        sym
    }

    /// A new symbol called as `like` is.
    pub fn fresh_like(&mut self, like: Sym) -> Sym {
        let name = self.names[like.0 as usize].clone();
        let sym = Sym(self.names.len() as u32);
        self.names.push(name);
        sym
    }

    /// What a symbol of these names was called.
    pub fn name(&self, sym: Sym) -> &str {
        &self.names[sym.0 as usize]
    }

    /// How many symbols there are: they are numbered from 0.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is no symbol.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// A whole program: a function of its parameters.
#[derive(Clone, Debug)]
pub struct Program {
    /// The parameters, in the order of the arguments.
    pub params: Vec<Param>,
    /// The result.
    pub body: Expr,
    /// The names of all symbols in it.
    pub names: Names,
}

/// A parameter of a program. A stream is a vector that arrives in chunks (`stream[T]` in the text, `vec[T]` in `ty`).
#[derive(Clone, Debug)]
pub struct Param {
    /// What the body calls it.
    pub sym: Sym,
    /// The type of the argument; of a stream that of all its chunks in a row.
    pub ty: Type,
    /// Whether it arrives in chunks.
    pub stream: bool,
    /// What every argument has beside its type.
    pub known: Option<Known>,
}

/// What is known of an argument beyond its type. Code is made for it, and other arguments are refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Known {
    /// An `i128` of which [`fits_64_bits`](crate::op::fits_64_bits) holds.
    Short,
    /// A byte vector of so many bytes, which a string view holds.
    Bytes(u32),
    /// A byte vector of more bytes than a string view holds, and of no more than it can count.
    LongBytes,
}

/// A typed expression.
#[derive(Clone, Debug)]
pub struct Expr {
    /// The type of its value; a program is right only if it agrees with the parts.
    pub ty: Type,
    /// The text that it was made from.
    pub span: Span,
    /// What it computes.
    pub kind: ExprKind,
    /// Hints that the text gives.
    pub annotations: Annotations,
}

/// `@(name:value, ..)` before an expression; hints that never change a result. Empty is free.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Annotations(pub Option<Box<Vec<(Arc<str>, Arc<str>)>>>);

impl Annotations {
    /// No annotations.
    pub const NONE: Annotations = Annotations(None);

    /// The value of an annotation, if there is one of that name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.as_ref()?.iter().find(|(key, _)| &**key == name).map(|(_, value)| &**value)
    }

    /// Adds an annotation, in the place of one with the same name.
    pub fn set(&mut self, name: &str, value: &str) {
        let entries = self.0.get_or_insert_default();
        entries.retain(|(key, _)| &**key != name);
        entries.push((name.into(), value.into()));
    }

    /// Removes the annotation of that name, if there is one.
    pub fn remove(&mut self, name: &str) {
        if let Some(entries) = &mut self.0 {
            entries.retain(|(key, _)| &**key != name);
            if entries.is_empty() {
                self.0 = None;
            }
        }
    }

    /// [`Annotations::set`] for each.
    pub fn extend(&mut self, more: &[(Arc<str>, Arc<str>)]) {
        let mut all = self.0.take().map_or_else(Vec::new, |entries| *entries);
        all.extend_from_slice(more);
        // Of several of one name the last counts.
        let mut names = HashSet::new();
        all.reverse();
        all.retain(|(name, _)| names.insert(name.clone()));
        all.reverse();
        self.0 = (!all.is_empty()).then(|| Box::new(all));
    }

    /// Names and values in the order in which they were written.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().flat_map(|entries| entries.iter()).map(|(name, value)| (&**name, &**value))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|entries| entries.is_empty())
    }
}

/// A scalar constant. Equality is of bits, so NaN equals itself and 0.0 differs from -0.0.
#[derive(Clone, Copy, Debug)]
pub enum Literal {
    /// `true`, `false`
    Bool(bool),
    /// In the text `1c`.
    I8(i8),
    /// In the text `1si`.
    I16(i16),
    /// In the text `1`.
    I32(i32),
    /// In the text `1L`.
    I64(i64),
    /// In the text `1LL`.
    I128(i128),
    /// An unsigned byte.
    U8(u8),
    /// Unsigned, of 16 bits.
    U16(u16),
    /// Unsigned, of 32 bits.
    U32(u32),
    /// Unsigned, of 64 bits.
    U64(u64),
    /// In the text `1.0f`.
    F32(f32),
    /// In the text `1.0`.
    F64(f64),
}

impl Literal {
    /// The type.
    pub fn kind(self) -> ScalarKind {
        match self {
            Literal::Bool(_) => ScalarKind::Bool,
            Literal::I8(_) => ScalarKind::I8,
            Literal::I16(_) => ScalarKind::I16,
            Literal::I32(_) => ScalarKind::I32,
            Literal::I64(_) => ScalarKind::I64,
            Literal::I128(_) => ScalarKind::I128,
            Literal::U8(_) => ScalarKind::U8,
            Literal::U16(_) => ScalarKind::U16,
            Literal::U32(_) => ScalarKind::U32,
            Literal::U64(_) => ScalarKind::U64,
            Literal::F32(_) => ScalarKind::F32,
            Literal::F64(_) => ScalarKind::F64,
        }
    }

    /// The bits of the value, integers sign- or zero-extended.
    pub fn bits(self) -> i128 {
        match self {
            Literal::Bool(v) => v as i128,
            Literal::I8(v) => v as i128,
            Literal::I16(v) => v as i128,
            Literal::I32(v) => v as i128,
            Literal::I64(v) => v as i128,
            Literal::I128(v) => v,
            Literal::U8(v) => v as i128,
            Literal::U16(v) => v as i128,
            Literal::U32(v) => v as i128,
            Literal::U64(v) => v as i128,
            Literal::F32(v) => v.to_bits() as i128,
            Literal::F64(v) => v.to_bits() as i128,
        }
    }
}

impl PartialEq for Literal {
    fn eq(&self, other: &Literal) -> bool {
        self.kind() == other.kind() && self.bits() == other.bits()
    }
}

impl Eq for Literal {}

impl std::hash::Hash for Literal {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.kind().hash(state);
        self.bits().hash(state);
    }
}

/// `let sym = value;`
#[derive(Clone, Debug)]
pub struct Binding {
    /// The name, which is in scope in the bindings that follow and in the body.
    pub sym: Sym,
    /// What it stands for.
    pub value: Expr,
}

/// A function literal: the update of a `for`, the step of an `iterate`, the comparator of a `sort`.
#[derive(Clone, Debug)]
pub struct Func {
    /// Parameters with their types.
    pub params: Vec<(Sym, Type)>,
    /// What it gives, over the parameters and what is in scope around.
    pub body: Box<Expr>,
}

/// What a `for` iterates over. The element that the update function sees is given by [`Iter::element_type`].
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "what a variant says of itself names its fields")]
pub enum Iter {
    /// Every element of a vector.
    Vector(Expr),
    /// `iter(data, start, end, stride)`: every `stride`th element from `start` on, before `end`.
    Strided { data: Expr, start: Expr, end: Expr, stride: Expr },
    /// `rangeiter(start, end, stride)`: the integers themselves, `i64`.
    Range { start: Expr, end: Expr, stride: Expr },
    /// `simditer(data)`: elements are `simd[T]`.
    Simd(Expr),
    /// `fringeiter(data)`: what `simditer` leaves over.
    Fringe(Expr),
    /// `nditer(data, start, end, stride, shape, strides)`: a view of dense data, with a vector of an `i64` for each
    /// axis.
    Nd { data: Expr, start: Expr, end: Expr, stride: Expr, shape: Expr, strides: Expr },
    /// `chunkiter(data, size)`: consecutive slices of at most `size` elements; the element is a `vec[T]`. What the
    /// stage-splitting pass puts between a stream and its stages.
    Chunks { data: Expr, size: Expr },
    /// Several in step; the element is the struct of theirs. Lengths must be equal.
    Zip(Vec<Iter>),
}

/// The kinds of expressions. `ty` in comments is the type of the node itself.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "what a variant says of itself names its fields")]
pub enum ExprKind {
    /// A scalar.
    Literal(Literal),
    /// A string literal; `ty` is `vec[i8]` or `vec[u8]`.
    Bytes(Arc<[u8]>),
    /// The value that is bound to the symbol.
    Var(Sym),
    /// `let sym = value; ..; body`
    Let { bindings: Vec<Binding>, body: Box<Expr> },
    /// An operator before its operand, or a call of a math function.
    Unary(UnaryOp, Box<Expr>),
    /// An operator between its operands, or a call of `min`, `max` or `pow`.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// Scalar conversion to `ty`.
    Cast(Box<Expr>),
    /// `on_true` or `on_false`, by the `bool` `cond`. Evaluates one of them.
    If { cond: Box<Expr>, on_true: Box<Expr>, on_false: Box<Expr> },
    /// The same. Evaluates both.
    Select { cond: Box<Expr>, on_true: Box<Expr>, on_false: Box<Expr> },
    /// `{a, b, ..}`
    Struct(Vec<Expr>),
    /// `e.$n`, counted from 0.
    Field(Box<Expr>, u32),
    /// `[a, b, ..]`; `ty` gives the element type, also when there are none.
    Vector(Vec<Expr>),
    /// The `i64` number of elements of a vector or of keys of a dictionary.
    Len(Box<Expr>),
    /// Element of the vector `data`, or value of the dictionary, by `key`. `checked: false` when a pass has proved the
    /// index in range.
    Lookup { data: Box<Expr>, key: Box<Expr>, checked: bool },
    /// `{bool, V}` of a dictionary; a miss gives `{false, zero}`.
    OptLookup { data: Box<Expr>, key: Box<Expr> },
    /// Whether the dictionary has the key, a `bool`.
    KeyExists { data: Box<Expr>, key: Box<Expr> },
    /// At most `size` elements of a vector from `start` on; both are `i64`.
    Slice { data: Box<Expr>, start: Box<Expr>, size: Box<Expr> },
    /// The vector in the order that `compare: (T, T) -> i32` gives, less than 0 where the first comes first.
    Sort { data: Box<Expr>, compare: Func },
    /// The entries of a dictionary, `vec[{K,V}]`.
    ToVec(Box<Expr>),
    /// A vector that differs from `data` in one place, `index`, where it has `value`.
    Update { data: Box<Expr>, index: Box<Expr>, value: Box<Expr> },
    /// `step: T -> {T, bool}` from `init` on until the flag is false.
    Iterate { init: Box<Expr>, step: Func },
    /// A new builder of type `ty`; `arg` is an appender's size hint, a merger's initial value, a vecmerger's initial
    /// vector.
    NewBuilder { arg: Option<Box<Expr>> },
    /// The builder with one more value.
    Merge { builder: Box<Expr>, value: Box<Expr> },
    /// `func: (B, i64, T) -> B` for each element of `iter`, from `builder` on.
    For { iter: Box<Iter>, builder: Box<Expr>, func: Func },
    /// What a builder, or each of a struct of builders, has built.
    Result(Box<Expr>),
    /// As a `vec[i8]`.
    Serialize(Box<Expr>),
    /// From `vec[i8]` to `ty`.
    Deserialize(Box<Expr>),
    /// A C function that the host registered by this name; returns `ty`.
    CUdf { name: Arc<str>, args: Vec<Expr> },
    /// A call of an intrinsic.
    Intrinsic(Intrinsic, Vec<Expr>),
    /// `true`, or a runtime error with the message where `cond` is false. `{0}` and `{1}` in the message stand for the
    /// values, scalars of 64 bits at most, which are evaluated in any case.
    /// `raised`: the error is the message alone ([`RuntimeErrorKind::Raised`](crate::RuntimeErrorKind::Raised)).
    Assert { cond: Box<Expr>, message: Option<Arc<str>>, values: Vec<Expr>, raised: bool },
    /// A scalar to all lanes.
    Broadcast(Box<Expr>),
}
