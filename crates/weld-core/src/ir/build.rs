//! Constructors of typed expressions, for lowering and for passes: each computes its node's type from its parts.
//!
//! ```
//! use weld_core::ir::{build, Names};
//! use weld_core::ty::Type;
//! let mut names = Names::default();
//! let v = build::param(&mut names, "v", Type::vec(Type::I64));
//! let doubled = build::for_(&mut names, build::over(v), build::appender(Type::I64), |_, b, _, x| {
//!     build::merge(b, build::mul(x, build::i64(2)))
//! });
//! assert_eq!(build::result(doubled).ty, Type::vec(Type::I64));
//! ```
//!
//! Closures receive the [`Names`] that new variables come from, then their variables as expressions, which may be
//! cloned (builders must be used once). Nothing here panics: parts that do not fit give a node of the type `{}`,
//! which the verifier reports. A node's span covers its parts' spans; [`Expr::at`] sets another.

use std::sync::Arc;

use super::typing::holds_bytes;
use super::{Annotations, Binding, Expr, ExprKind, Func, Iter, Literal, Names, Sym, typing};
use crate::diag::Span;
use crate::op::{BinaryOp, Intrinsic, MergeOp, ReduceOp, StructOp, UnaryOp};
use crate::ty::{BuilderType, ScalarKind, Type};

/// A node of this kind with the type that the rules give it. `declared` matters only where [`typing::type_of`] says so.
pub fn node(kind: ExprKind, declared: Type) -> Expr {
    let ty = typing::type_of(&kind, &declared).unwrap_or_else(|_| Type::structure([]));
    let mut expr = Expr { ty, span: Span::NONE, kind, annotations: Annotations::NONE };
    let mut span = Span::NONE;
    expr.each_child(&mut |child| {
        span = match (span, child.span) {
            (Span::NONE, other) | (other, Span::NONE) => other,
            (a, b) => a.to(b),
        }
    });
    expr.span = span;
    expr
}

fn derived(kind: ExprKind) -> Expr {
    node(kind, Type::structure([]))
}

impl Expr {
    /// The same node with another span.
    pub fn at(mut self, span: Span) -> Expr {
        self.span = span;
        self
    }

    /// The same node with one more annotation.
    pub fn annotate(mut self, name: &str, value: &str) -> Expr {
        self.annotations.set(name, value);
        self
    }
}

// Values.

/// The scalar.
pub fn lit(value: Literal) -> Expr {
    derived(ExprKind::Literal(value))
}

/// `true` or `false`.
pub fn bool(value: bool) -> Expr {
    lit(Literal::Bool(value))
}

/// An `i32`.
pub fn i32(value: i32) -> Expr {
    lit(Literal::I32(value))
}

/// An `i64`, in the text `1L`.
pub fn i64(value: i64) -> Expr {
    lit(Literal::I64(value))
}

/// An `i128`, in the text `1LL`.
pub fn i128(value: i128) -> Expr {
    lit(Literal::I128(value))
}

/// An `f64`.
pub fn f64(value: f64) -> Expr {
    lit(Literal::F64(value))
}

/// An integer (or `bool`: 0 or 1) of the given kind, wrapped to its width; for a float the number itself.
pub fn number(kind: ScalarKind, value: i128) -> Expr {
    lit(literal(kind, value))
}

/// The literal of [`number`].
pub fn literal(kind: ScalarKind, value: i128) -> Literal {
    match kind {
        ScalarKind::Bool => Literal::Bool(value != 0),
        ScalarKind::I8 => Literal::I8(value as i8),
        ScalarKind::I16 => Literal::I16(value as i16),
        ScalarKind::I32 => Literal::I32(value as i32),
        ScalarKind::I64 => Literal::I64(value as i64),
        ScalarKind::I128 => Literal::I128(value),
        ScalarKind::U8 => Literal::U8(value as u8),
        ScalarKind::U16 => Literal::U16(value as u16),
        ScalarKind::U32 => Literal::U32(value as u32),
        ScalarKind::U64 => Literal::U64(value as u64),
        ScalarKind::F32 => Literal::F32(value as f32),
        ScalarKind::F64 => Literal::F64(value as f64),
    }
}

/// A string of type `vec[u8]`, as SQL values are.
pub fn bytes(value: impl Into<Arc<[u8]>>) -> Expr {
    node(ExprKind::Bytes(value.into()), Type::vec(Type::U8))
}

/// The zero value of a type that holds no builder: 0, false, empty, field by field.
pub fn zero(ty: &Type) -> Expr {
    match ty {
        Type::Scalar(kind) => number(*kind, 0),
        Type::Simd(kind) => broadcast(number(*kind, 0)),
        Type::Struct(fields) => strct(fields.iter().map(zero)),
        Type::Dict(key, value) => result(match &**value {
            Type::Vec(element) => group_builder((**key).clone(), (**element).clone()),
            value => dict_merger((**key).clone(), value.clone(), any_op(value)),
        }),
        Type::Vec(element) => vector((**element).clone(), []),
        Type::Builder(_) => derived(ExprKind::Struct(Vec::new())),
    }
}

/// A binop that works on values of the type.
fn any_op(value: &Type) -> MergeOp {
    match value {
        Type::Struct(fields) => match &fields[..] {
            [present, others @ ..] if *present == Type::BOOL && others.iter().any(holds_bytes) => {
                MergeOp::Struct(StructOp::First)
            }
            fields => MergeOp::Fields(fields.iter().map(any_op).collect()),
        },
        Type::Scalar(ScalarKind::Bool) => MergeOp::All(ReduceOp::BitOr),
        _ => MergeOp::All(ReduceOp::Add),
    }
}

/// The variable, which has that type where it is bound.
pub fn var(sym: Sym, ty: Type) -> Expr {
    node(ExprKind::Var(sym), ty)
}

/// A new variable, to be bound by the caller.
pub fn param(names: &mut Names, name: &str, ty: Type) -> Expr {
    var(names.fresh(name), ty)
}

/// `{a, b, ..}`
pub fn strct(fields: impl IntoIterator<Item = Expr>) -> Expr {
    derived(ExprKind::Struct(fields.into_iter().collect()))
}

/// `value.$index`; of a struct literal whose other fields may be dropped use the field itself.
pub fn field(value: Expr, index: usize) -> Expr {
    derived(ExprKind::Field(Box::new(value), index as u32))
}

/// `[a, b, ..]` of a type that the elements have.
pub fn vector(element: Type, elements: impl IntoIterator<Item = Expr>) -> Expr {
    node(ExprKind::Vector(elements.into_iter().collect()), Type::vec(element))
}

// Bindings and control.

/// `let name = value; body`.
pub fn let_(names: &mut Names, name: &str, value: Expr, body: impl FnOnce(&mut Names, Expr) -> Expr) -> Expr {
    let sym = names.fresh(name);
    let variable = var(sym, value.ty.clone());
    let body = body(names, variable);
    let_in(vec![Binding { sym, value }], body)
}

/// A `let` block in normal form: no bindings give the body itself, and a body that is a block is joined.
pub fn let_in(mut bindings: Vec<Binding>, mut body: Expr) -> Expr {
    if bindings.is_empty() {
        return body;
    }
    if let ExprKind::Let { bindings: inner, body: inner_body } = &mut body.kind {
        bindings.append(inner);
        body = inner_body.take();
    }
    derived(ExprKind::Let { bindings, body: Box::new(body) })
}

/// `if(cond, on_true, on_false)`: evaluates one of them. Both have one type.
pub fn if_(cond: Expr, on_true: Expr, on_false: Expr) -> Expr {
    let (cond, on_true, on_false) = (Box::new(cond), Box::new(on_true), Box::new(on_false));
    derived(ExprKind::If { cond, on_true, on_false })
}

/// `select(cond, on_true, on_false)`: evaluates both. Both have one type.
pub fn select(cond: Expr, on_true: Expr, on_false: Expr) -> Expr {
    let (cond, on_true, on_false) = (Box::new(cond), Box::new(on_true), Box::new(on_false));
    derived(ExprKind::Select { cond, on_true, on_false })
}

/// `iterate(init, |state| body)`; the body gives `{state, continue}`.
pub fn iterate(names: &mut Names, init: Expr, step: impl FnOnce(&mut Names, Expr) -> Expr) -> Expr {
    let sym = names.fresh("state");
    let body = step(names, var(sym, init.ty.clone()));
    let step = Func { params: vec![(sym, init.ty.clone())], body: Box::new(body) };
    derived(ExprKind::Iterate { init: Box::new(init), step })
}

// Operators.

/// The operator over its operand; the result has the operand's type.
pub fn unary(op: UnaryOp, value: Expr) -> Expr {
    derived(ExprKind::Unary(op, Box::new(value)))
}

/// The operator over its operands, which have one type; of comparisons, `&&` and `||` the result is a `bool`.
pub fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    derived(ExprKind::Binary(op, Box::new(left), Box::new(right)))
}

macro_rules! binary_ops {
    ($($name:ident $op:ident)*) => {
        $(#[doc = concat!("[`BinaryOp::", stringify!($op), "`] over operands of one type.")]
        pub fn $name(left: Expr, right: Expr) -> Expr {
            binary(BinaryOp::$op, left, right)
        })*
    };
}

binary_ops! {
    add Add sub Sub mul Mul div Div rem Rem
    bit_and BitAnd bit_or BitOr bit_xor BitXor and And or Or
    eq Eq ne Ne lt Lt le Le gt Gt ge Ge min Min max Max pow Pow
}

/// `-value`
pub fn neg(value: Expr) -> Expr {
    unary(UnaryOp::Neg, value)
}

/// `!value` of a `bool`
pub fn not(value: Expr) -> Expr {
    unary(UnaryOp::Not, value)
}

/// Scalar conversion; nothing when the value has the type already.
pub fn cast(value: Expr, to: ScalarKind) -> Expr {
    if value.ty == Type::Scalar(to) { value } else { node(ExprKind::Cast(Box::new(value)), Type::Scalar(to)) }
}

/// A `simd` value with the scalar in all lanes.
pub fn broadcast(value: Expr) -> Expr {
    derived(ExprKind::Broadcast(Box::new(value)))
}

/// The intrinsic's value; of arguments that it does not take a node of type `{}`, which the verifier refuses.
pub fn intrinsic(intrinsic: Intrinsic, args: impl IntoIterator<Item = Expr>) -> Expr {
    derived(ExprKind::Intrinsic(intrinsic, args.into_iter().collect()))
}

/// `cudf[name,ty](args)`.
pub fn cudf(name: &str, ty: Type, args: impl IntoIterator<Item = Expr>) -> Expr {
    node(ExprKind::CUdf { name: name.into(), args: args.into_iter().collect() }, ty)
}

/// `assert(cond)`: `true`, or the runtime error AssertionFailed with the message.
pub fn assert(cond: Expr, message: &str) -> Expr {
    derived(ExprKind::Assert { cond: Box::new(cond), message: Some(message.into()), values: Vec::new(), raised: false })
}

/// `require(cond, message, values..)`: an assertion whose error is the message alone, with up to two values in it.
pub fn require(cond: Expr, message: &str, values: impl IntoIterator<Item = Expr>) -> Expr {
    let (cond, values) = (Box::new(cond), values.into_iter().collect());
    derived(ExprKind::Assert { cond, message: Some(message.into()), values, raised: true })
}

// Collections.

/// `len(data)` of a vector or a dictionary, an `i64`.
pub fn len(data: Expr) -> Expr {
    derived(ExprKind::Len(Box::new(data)))
}

/// `lookup(data, key)`: an element of a vector by its `i64` index, or the value of a dictionary's key. Where there is
/// none, the runtime errors IndexOutOfBounds or KeyNotFound.
pub fn lookup(data: Expr, key: Expr) -> Expr {
    derived(ExprKind::Lookup { data: Box::new(data), key: Box::new(key), checked: true })
}

/// `optlookup(data, key)` of a dictionary: `{true, value}`, or `{false, zero}`.
pub fn opt_lookup(data: Expr, key: Expr) -> Expr {
    derived(ExprKind::OptLookup { data: Box::new(data), key: Box::new(key) })
}

/// `keyexists(data, key)`: whether the dictionary has the key.
pub fn key_exists(data: Expr, key: Expr) -> Expr {
    derived(ExprKind::KeyExists { data: Box::new(data), key: Box::new(key) })
}

/// `slice(data, start, size)`: fewer elements than `size` where the vector ends before. A start or a size that is out
/// of range is the runtime error BadSlice.
pub fn slice(data: Expr, start: Expr, size: Expr) -> Expr {
    derived(ExprKind::Slice { data: Box::new(data), start: Box::new(start), size: Box::new(size) })
}

/// `tovec(data)`: a dictionary's entries as a vector of `{K,V}`, in no particular order.
pub fn to_vec(data: Expr) -> Expr {
    derived(ExprKind::ToVec(Box::new(data)))
}

/// `update(data, index, value)`: the vector with another element in one place, which it must have.
pub fn update(data: Expr, index: Expr, value: Expr) -> Expr {
    derived(ExprKind::Update { data: Box::new(data), index: Box::new(index), value: Box::new(value) })
}

/// `sort(data, |a, b| compare)`; the comparator gives an `i32`.
pub fn sort(names: &mut Names, data: Expr, compare: impl FnOnce(&mut Names, Expr, Expr) -> Expr) -> Expr {
    let element = data.ty.element().cloned().unwrap_or_else(|| Type::structure([]));
    let (a, b) = (names.fresh("a"), names.fresh("b"));
    let body = compare(names, var(a, element.clone()), var(b, element.clone()));
    let compare = Func { params: vec![(a, element.clone()), (b, element)], body: Box::new(body) };
    derived(ExprKind::Sort { data: Box::new(data), compare })
}

/// `serialize(value)`: the value as a `vec[i8]`.
pub fn serialize(value: Expr) -> Expr {
    derived(ExprKind::Serialize(Box::new(value)))
}

/// `deserialize[ty](data)`: the value, or the runtime error BadSerialization.
pub fn deserialize(ty: Type, data: Expr) -> Expr {
    node(ExprKind::Deserialize(Box::new(data)), ty)
}

// Builders and loops.

/// A builder of the given type with no argument.
pub fn builder(ty: BuilderType) -> Expr {
    node(ExprKind::NewBuilder { arg: None }, Type::Builder(ty))
}

/// A builder with its argument: an appender's size hint, a merger's initial value, a vecmerger's initial vector.
pub fn builder_with(ty: BuilderType, arg: Expr) -> Expr {
    node(ExprKind::NewBuilder { arg: Some(Box::new(arg)) }, Type::Builder(ty))
}

/// An empty `appender[T]`.
pub fn appender(element: Type) -> Expr {
    builder(BuilderType::Appender(Arc::new(element)))
}

/// An appender that will probably hold `size` elements.
pub fn appender_sized(element: Type, size: Expr) -> Expr {
    builder_with(BuilderType::Appender(Arc::new(element)), size)
}

/// A `merger[T,op]` that begins with the identity of `op`.
pub fn merger(value: Type, op: MergeOp) -> Expr {
    builder(BuilderType::Merger { value: Arc::new(value), op })
}

/// An empty `dictmerger[K,V,op]`.
pub fn dict_merger(key: Type, value: Type, op: MergeOp) -> Expr {
    builder(BuilderType::DictMerger { key: Arc::new(key), value: Arc::new(value), op })
}

/// An empty `numberer[K,V,op,R]`.
pub fn numberer(key: Type, value: Type, op: MergeOp, row: Type) -> Expr {
    builder(BuilderType::Numberer { key: Arc::new(key), value: Arc::new(value), op, row: Arc::new(row) })
}

/// An empty `groupbuilder[K,V]`.
pub fn group_builder(key: Type, value: Type) -> Expr {
    builder(BuilderType::GroupBuilder { key: Arc::new(key), value: Arc::new(value) })
}

/// A `vecmerger[T,op]` over the elements of `init`, a `vec[T]`.
pub fn vec_merger(op: MergeOp, init: Expr) -> Expr {
    let element = init.ty.element().cloned().unwrap_or_else(|| Type::structure([]));
    builder_with(BuilderType::VecMerger { value: Arc::new(element), op }, init)
}

/// `merge(builder, value)`: the builder afterwards.
pub fn merge(builder: Expr, value: Expr) -> Expr {
    derived(ExprKind::Merge { builder: Box::new(builder), value: Box::new(value) })
}

/// `result(builder)`: what it has built.
pub fn result(builder: Expr) -> Expr {
    derived(ExprKind::Result(Box::new(builder)))
}

/// `for(iter, builder, |b, i, x| update)`.
pub fn for_(
    names: &mut Names,
    iter: Iter,
    builder: Expr,
    update: impl FnOnce(&mut Names, Expr, Expr, Expr) -> Expr,
) -> Expr {
    let (b, i, x) = (names.fresh("b"), names.fresh("i"), names.fresh("x"));
    let (builder_ty, element) = (builder.ty.clone(), iter.element_type());
    let body = update(names, var(b, builder_ty.clone()), var(i, Type::I64), var(x, element.clone()));
    let func = Func { params: vec![(b, builder_ty), (i, Type::I64), (x, element)], body: Box::new(body) };
    for_func(iter, builder, func)
}

/// A `for` with a function that exists already.
pub fn for_func(iter: Iter, builder: Expr, func: Func) -> Expr {
    derived(ExprKind::For { iter: Box::new(iter), builder: Box::new(builder), func })
}

/// Iterates over a whole vector.
pub fn over(data: Expr) -> Iter {
    Iter::Vector(data)
}

/// `rangeiter(start, end, stride)`.
pub fn range(start: Expr, end: Expr, stride: Expr) -> Iter {
    Iter::Range { start, end, stride }
}

/// Several vectors in step.
pub fn zip(data: impl IntoIterator<Item = Expr>) -> Iter {
    Iter::Zip(data.into_iter().map(Iter::Vector).collect())
}

/// `chunkiter(data, size)`.
pub fn chunks(data: Expr, size: Expr) -> Iter {
    Iter::Chunks { data, size }
}

impl Iter {
    /// The type of the elements that the update function sees (`{}` when the parts do not fit).
    pub fn element_type(&self) -> Type {
        typing::element_type(self).unwrap_or_else(|_| Type::structure([]))
    }
}
