//! The work of [`super::narrow_integers`] on one loop: the 64-bit copy, the bounds of what it computes, the guard.

use std::collections::HashSet;
use std::rc::Rc;

use super::facts::is_path;
use super::fuse_loops::fresh_func;
use super::narrow_columns::{Columns, bound_of, in_floats};
use crate::ir::{Binding, Expr, ExprKind, Func, Iter, Literal, Names, Sym, build, deep};
use crate::op::{BinaryOp, Bound, Intrinsic, MergeOp, ReduceOp, UnaryOp};
use crate::ty::{BuilderType, ScalarKind, Type};

/// Values below this in magnitude leave a bit to spare in 64.
const LIMIT: f64 = (1u64 << 62) as f64;

/// Puts a guarded 64-bit copy beside a loop over rows of the chunk that sums `i128` values, if it has the shape.
pub(super) fn narrow_loop(e: &mut Expr, chunk: &(Sym, Type), names: &mut Names) {
    let ExprKind::For { iter, builder, func } = &mut e.kind else { return };
    let strict = e.annotations.get("strict") == Some("true");
    let mut before = Vec::new();
    if !matches!(builder.kind, ExprKind::Var(_) | ExprKind::NewBuilder { arg: None }) {
        let sym = names.fresh_like(func.params[0].0);
        let variable = build::var(sym, builder.ty.clone());
        before.push(Binding { sym, value: std::mem::replace(&mut **builder, variable) });
    }
    if let Iter::Vector(data) = &mut **iter
        && !matches!(data.kind, ExprKind::Var(_))
    {
        let sym = names.fresh("rows");
        let variable = build::var(sym, data.ty.clone());
        before.push(Binding { sym, value: std::mem::replace(data, variable) });
    }
    let narrowed = with_own_merger(iter, builder, func, strict, chunk, names);
    let wide = e.take();
    *e = match narrowed {
        Some(Narrowed { mut bindings, guard, body }) => {
            before.append(&mut bindings);
            build::let_in(before, build::if_(guard, body, wide))
        }
        None => build::let_in(before, wide),
    };
}

/// A 64-bit variant of a loop, right when the guard holds.
struct Narrowed {
    bindings: Vec<Binding>,
    guard: Expr,
    body: Expr,
}

/// A loop over a merger of its own that sums in 64 bits; its result is merged into the outer builder once.
fn with_own_merger(
    iter: &Iter,
    builder: &Expr,
    func: &Func,
    strict: bool,
    chunk: &(Sym, Type),
    names: &mut Names,
) -> Option<Narrowed> {
    let Type::Builder(BuilderType::Merger { value, op }) = &builder.ty else { return None };
    let fields: Vec<(Type, MergeOp)> = match value.fields() {
        Some(fields) => fields.iter().enumerate().map(|(k, ty)| (ty.clone(), op.field(k))).collect(),
        None => vec![((**value).clone(), op.clone())],
    };
    let is_sum = |(ty, op): &(Type, MergeOp)| *ty == Type::I128 && *op == MergeOp::All(ReduceOp::Add);
    // Merging the local identity must change nothing, to the bit; see `predicate` about floats.
    let is_exact = |(ty, op): &(Type, MergeOp)| {
        !ty.as_scalar().is_none_or(ScalarKind::is_float) || !strict && *op == MergeOp::All(ReduceOp::Add)
    };
    if !fields.iter().all(is_exact) {
        return None;
    }
    let mut narrow: Vec<bool> = fields.iter().map(is_sum).collect();
    while narrow.contains(&true) {
        let types = fields.iter().zip(&narrow).map(|((ty, _), n)| if *n { Type::I64 } else { ty.clone() });
        let local = match value.fields() {
            Some(_) => Type::structure(types),
            None => Type::I64,
        };
        let ty = Type::merger(local, op.clone());
        let mut copy = fresh_func(func, names);
        copy.params[0].1 = ty.clone();
        let mut narrower = Narrower::new(iter, &copy, chunk, names)?;
        match narrower.merges(&mut copy.body, copy.params[0].0, &ty, &narrow) {
            Ok(()) => {}
            Err(Failure::Field(k)) => {
                narrow[k] = false;
                continue;
            }
            Err(Failure::Shape) => return None,
        }
        let rows = build::cast(build::len(narrower.columns.data.clone()), ScalarKind::F64);
        let rows = Rc::new(Bound::Leaf(rows));
        let mut guards = std::mem::take(&mut narrower.roots);
        let sums = std::mem::take(&mut narrower.sums);
        guards.extend(sums.into_iter().map(|bound| Bound::Product(Rc::new(bound), Rc::clone(&rows))));
        let (mut bindings, guard) = narrower.finish(guards)?;
        let own = build::node(ExprKind::NewBuilder { arg: None }, ty);
        let loop_ = build::result(build::for_func(iter.clone(), own, copy));
        let body = build::let_(names, "local", loop_, |_, local| {
            let widened = |k: usize, part: Expr| if narrow[k] { build::cast(part, ScalarKind::I128) } else { part };
            let merged = match local.ty.fields().map(<[Type]>::len) {
                Some(count) => build::strct((0..count).map(|k| widened(k, build::field(local.clone(), k)))),
                None => widened(0, local),
            };
            build::merge(builder.clone(), merged)
        });
        return Some(Narrowed { bindings: std::mem::take(&mut bindings), guard, body });
    }
    None
}

/// Why a loop cannot have a merger of its own.
enum Failure {
    /// Its body is no tree of conditions around single merges.
    Shape,
    /// This field cannot be narrowed.
    Field(usize),
}

/// Rewrites the copy of a loop's body and collects what must be bounded.
struct Narrower<'a> {
    names: &'a mut Names,
    columns: Columns,
    /// The variables of the loop: all others are the same for all rows.
    bound: HashSet<Sym>,
    /// Variables that were `i128`: the old one, the new one, its bound.
    narrowed: Vec<(Sym, Sym, Bound<Expr>)>,
    /// Bindings of bounds of narrowed variables.
    bounds: Vec<Binding>,
    /// The bounds that must stay below the limit.
    roots: Vec<Bound<Expr>>,
    /// The bounds of what is summed, one a merge and field.
    sums: Vec<Bound<Expr>>,
}

impl<'a> Narrower<'a> {
    fn new(iter: &Iter, copy: &Func, chunk: &(Sym, Type), names: &'a mut Names) -> Option<Narrower<'a>> {
        let columns = Columns::of_loop(iter, copy, chunk)?;
        let mut bound: HashSet<Sym> = copy.params.iter().map(|(sym, _)| *sym).collect();
        copy.body.walk(&mut |e| {
            e.each_bound(&mut |sym| {
                bound.insert(sym);
            });
        });
        let (narrowed, bounds, roots, sums) = Default::default();
        Some(Narrower { names, columns, bound, narrowed, bounds, roots, sums })
    }

    /// The bindings of all bounds and the condition that these are below the limit.
    fn finish(self, guards: Vec<Bound<Expr>>) -> Option<(Vec<Binding>, Expr)> {
        let mut unique: Vec<Expr> = Vec::new();
        for guard in guards.iter().map(in_floats) {
            if !unique.iter().any(|known| known.same_as(&guard)) {
                unique.push(guard);
            }
        }
        let guard = unique.into_iter().map(|bound| build::lt(bound, build::f64(LIMIT))).reduce(build::and)?;
        let mut bindings = self.columns.bind_bounds(self.names);
        bindings.extend(self.bounds);
        Some((bindings, guard))
    }

    /// Rewrites an expression whose own type stays.
    fn rewrite(&mut self, e: &mut Expr) {
        deep(|| {
            let is_computed = e.ty == Type::I128 && computes(e);
            match &mut e.kind {
                ExprKind::Let { bindings, body } => {
                    bindings.iter_mut().for_each(|binding| self.bind(binding));
                    self.rewrite(body);
                    return;
                }
                ExprKind::Var(sym) => {
                    if let Some(narrow) = self.variable(*sym) {
                        *e = build::cast(narrow.0, ScalarKind::I128);
                    }
                    return;
                }
                ExprKind::Binary(op, a, b) if op.is_comparison() && a.ty == Type::I128 => {
                    let start = self.mark();
                    if let (Some((x, x_bound)), Some((y, y_bound))) = (self.narrow(a), self.narrow(b)) {
                        self.roots.extend([x_bound, y_bound]);
                        *e = build::binary(*op, x, y);
                        return;
                    }
                    self.reset(start);
                }
                ExprKind::Cast(of) if of.ty == Type::I128 && (computes(of) || e.ty == Type::F64) => {
                    if let (Some((n, bound)), Some(to)) = (self.attempt(of), e.ty.as_scalar()) {
                        self.roots.push(bound);
                        *e = build::cast(n, to);
                        return;
                    }
                }
                _ if is_computed => {
                    if let Some((n, bound)) = self.attempt(e) {
                        self.roots.push(bound);
                        *e = build::cast(n, ScalarKind::I128);
                        return;
                    }
                }
                _ => {}
            }
            e.each_child_mut(&mut |child| self.rewrite(child));
        })
    }

    /// Narrows a binding of an `i128` that is computed.
    fn bind(&mut self, binding: &mut Binding) {
        if binding.value.ty == Type::I128
            && computes(&binding.value)
            && let Some((n, bound)) = self.attempt(&binding.value)
        {
            let sym = self.names.fresh_like(binding.sym);
            let bound_sym = self.names.fresh("bound");
            self.bounds.push(Binding { sym: bound_sym, value: in_floats(&bound) });
            let bound = Bound::Leaf(build::var(bound_sym, Type::F64));
            self.roots.push(bound.clone());
            self.narrowed.push((binding.sym, sym, bound));
            *binding = Binding { sym, value: n };
            return;
        }
        self.rewrite(&mut binding.value);
    }

    /// The new variable and its bound, if the variable was narrowed.
    fn variable(&self, sym: Sym) -> Option<(Expr, Bound<Expr>)> {
        let (_, new, bound) = self.narrowed.iter().rev().find(|(old, ..)| *old == sym)?;
        Some((build::var(*new, Type::I64), bound.clone()))
    }

    fn mark(&self) -> [usize; 4] {
        [self.columns.used.len(), self.narrowed.len(), self.bounds.len(), self.roots.len()]
    }

    /// Forgets what a failed attempt has noted.
    fn reset(&mut self, [used, narrowed, bounds, roots]: [usize; 4]) {
        self.columns.used.truncate(used);
        self.narrowed.truncate(narrowed);
        self.bounds.truncate(bounds);
        self.roots.truncate(roots);
    }

    fn attempt(&mut self, e: &Expr) -> Option<(Expr, Bound<Expr>)> {
        let start = self.mark();
        let narrow = self.narrow(e);
        if narrow.is_none() {
            self.reset(start);
        }
        narrow
    }

    /// The `i128` expression in 64 bits, and a bound of it that is at least 1 and bounds its parts as well.
    fn narrow(&mut self, e: &Expr) -> Option<(Expr, Bound<Expr>)> {
        deep(|| {
            if let Some(path) = self.columns.path(e) {
                let bound = self.columns.bound(path, &e.ty, self.names);
                return Some((build::cast(e.clone(), ScalarKind::I64), bound));
            }
            if is_path(e) && e.free_vars().is_disjoint(&self.bound) {
                let magnitude = build::intrinsic(Intrinsic::Magnitude, [e.clone()]);
                return Some((build::cast(e.clone(), ScalarKind::I64), Bound::Leaf(bound_of(magnitude))));
            }
            match &e.kind {
                ExprKind::Literal(Literal::I128(value)) => {
                    Some((build::i64(i64::try_from(*value).ok()?), Bound::of_literal(*value)?))
                }
                ExprKind::Var(sym) => self.variable(*sym),
                ExprKind::Let { bindings, body } => {
                    let mut bindings = bindings.clone();
                    bindings.iter_mut().for_each(|binding| self.bind(binding));
                    let (body, bound) = self.narrow(body)?;
                    Some((build::let_in(bindings, body), bound))
                }
                ExprKind::Binary(op, a, b) => self.arithmetic(*op, a, b),
                ExprKind::Intrinsic(Intrinsic::CheckedAdd, args) => self.arithmetic(BinaryOp::Add, &args[0], &args[1]),
                ExprKind::Intrinsic(Intrinsic::CheckedSub, args) => self.arithmetic(BinaryOp::Sub, &args[0], &args[1]),
                ExprKind::Intrinsic(Intrinsic::CheckedMul, args) => self.arithmetic(BinaryOp::Mul, &args[0], &args[1]),
                ExprKind::Intrinsic(Intrinsic::RoundDiv, args) => {
                    let ((a, bound), (b, other)) = (self.narrow(&args[0])?, self.narrow(&args[1])?);
                    Some((
                        build::intrinsic(Intrinsic::RoundDiv, [a, b]),
                        Bound::of_operator(BinaryOp::Div, bound, other)?,
                    ))
                }
                ExprKind::Unary(UnaryOp::Neg, a) => self.narrow(a).map(|(a, bound)| (build::neg(a), bound)),
                ExprKind::If { cond, on_true, on_false } | ExprKind::Select { cond, on_true, on_false } => {
                    let mut cond = (**cond).clone();
                    self.rewrite(&mut cond);
                    let ((t, a), (f, b)) = (self.narrow(on_true)?, self.narrow(on_false)?);
                    let narrow = match &e.kind {
                        ExprKind::If { .. } => build::if_(cond, t, f),
                        _ => build::select(cond, t, f),
                    };
                    Some((narrow, Bound::of_choice(a, b)))
                }
                ExprKind::Cast(of) => self.cast(of),
                _ => None,
            }
        })
    }

    fn arithmetic(&mut self, op: BinaryOp, a: &Expr, b: &Expr) -> Option<(Expr, Bound<Expr>)> {
        let ((x, a), (y, b)) = (self.narrow(a)?, self.narrow(b)?);
        Some((build::binary(op, x, y), Bound::of_operator(op, a, b)?))
    }

    /// A conversion to `i128` of an integer that is short, or an `i64` column.
    fn cast(&mut self, of: &Expr) -> Option<(Expr, Bound<Expr>)> {
        let kind = of.ty.as_scalar().filter(|kind| !kind.is_float())?;
        let mut value = of.clone();
        let bound = match kind {
            ScalarKind::I64 => {
                let path = self.columns.path(of)?;
                self.columns.bound(path, &of.ty, self.names)
            }
            kind => {
                let bound = Bound::of_kind(kind)?;
                self.rewrite(&mut value);
                bound
            }
        };
        Some((build::cast(value, ScalarKind::I64), bound))
    }

    /// Rewrites a body that merges at most once on each path to a merger of type `ty` whose marked fields are narrow.
    fn merges(&mut self, e: &mut Expr, b: Sym, ty: &Type, narrow: &[bool]) -> Result<(), Failure> {
        match &mut e.kind {
            ExprKind::Var(sym) if *sym == b => {}
            ExprKind::If { cond, on_true, on_false } => {
                self.rewrite(cond);
                self.merges(on_true, b, ty, narrow)?;
                self.merges(on_false, b, ty, narrow)?;
            }
            ExprKind::Let { bindings, body } => {
                if bindings.iter().any(|binding| binding.value.ty.is_builder()) {
                    return Err(Failure::Shape);
                }
                bindings.iter_mut().for_each(|binding| self.bind(binding));
                self.merges(body, b, ty, narrow)?;
            }
            ExprKind::Merge { builder, value } if matches!(builder.kind, ExprKind::Var(sym) if sym == b) => {
                builder.ty = ty.clone();
                if value.ty == Type::I128 {
                    **value = self.sum(value, 0)?;
                } else {
                    let ExprKind::Struct(fields) = &mut value.kind else { return Err(Failure::Shape) };
                    for (k, field) in fields.iter_mut().enumerate() {
                        if narrow[k] {
                            *field = self.sum(field, k)?;
                        } else {
                            self.rewrite(field);
                        }
                    }
                    **value = build::strct(std::mem::take(fields));
                }
            }
            _ => return Err(Failure::Shape),
        }
        e.ty = ty.clone();
        Ok(())
    }

    fn sum(&mut self, field: &Expr, k: usize) -> Result<Expr, Failure> {
        let (n, bound) = self.narrow(field).ok_or(Failure::Field(k))?;
        self.sums.push(bound);
        Ok(n)
    }
}

/// Whether an `i128` expression computes, rather than copies.
fn computes(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Binary(..) | ExprKind::Unary(..) | ExprKind::Intrinsic(..) => true,
        ExprKind::If { on_true, on_false, .. } | ExprKind::Select { on_true, on_false, .. } => {
            computes(on_true) || computes(on_false)
        }
        ExprKind::Let { body, .. } => computes(body),
        _ => false,
    }
}
