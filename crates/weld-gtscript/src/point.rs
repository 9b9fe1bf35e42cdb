//! Statements and expressions at one point.
//!
//! A masked statement chooses between the new value and the old one. What can fail is evaluated only where the mask is
//! set; all else is evaluated everywhere, which vector instructions can do.

use std::collections::HashMap;
use std::rc::Rc;

use weld_core::diag::Span;
use weld_core::ir::{Expr, ExprKind, Func, build, deep};
use weld_core::op::UnaryOp;
use weld_core::ty::Type;
use weld_frontend::floor_division;
use weld_pysyntax::CompareOp;

use crate::args::literal;
use crate::column::Values;
use crate::dtype::{Dtype, Ty};
use crate::infer::compared;
use crate::lower::{Column, Lower};
use crate::sizes::Int;
use crate::tree::{Builtin, Const, Extent, FieldId, Node, NodeKind, Offset, Op, ParamKind, Ref, Stmt, StmtKind};

/// A `while` that makes more passes is an error.
const PASSES_MAX: i64 = 10_000_000;

/// What is known at a point.
pub(crate) struct Point {
    /// What statements of the unit have written.
    pub(crate) values: HashMap<FieldId, Expr>,
    /// What was there before the unit.
    pub(crate) reads: HashMap<(FieldId, Offset), Expr>,
    pub(crate) level: Int,
    extent: Extent,
    /// Inside of something that may not be evaluated.
    lazy: usize,
    /// Shared parts of the expression that are bound already, by the blocks that are open.
    shared: Vec<HashMap<(*const Node, Dtype), Expr>>,
}

impl Point {
    pub(crate) fn new(extent: Extent) -> Point {
        let (values, reads) = (HashMap::new(), HashMap::new());
        Point { values, reads, level: Int::Known(0), extent, lazy: 0, shared: Vec::new() }
    }
}

impl<'s> Lower<'s> {
    pub(crate) fn stmt(&mut self, stmt: &Stmt, column: &mut Column, point: &mut Point) {
        deep(|| match &stmt.kind {
            StmtKind::Assign { target, value, .. } => self.assign(stmt, *target, value, column, point),
            StmtKind::While { cond, body } => self.while_loop(stmt, cond, body, column, point),
        })
    }

    fn assign(&mut self, stmt: &Stmt, target: FieldId, value: &Ref, column: &mut Column, point: &mut Point) {
        let dtype = self.stencil.dtype(target);
        if stmt.extent != point.extent {
            // Elsewhere the field may not be there.
            let inside = self.inside(stmt.extent, &column.at);
            let zero = build::zero(&dtype.ty());
            let value = self.in_branch(point, |lower, point| lower.masked(stmt, target, value, column, point));
            let otherwise = point.values.get(&target).cloned().unwrap_or(zero);
            let chosen = self.flow.bind(&self.stencil.fields[target].name, build::if_(inside, value, otherwise));
            point.values.insert(target, chosen);
            return;
        }
        let value = self.masked(stmt, target, value, column, point).at(stmt.span);
        let value = self.flow.bind(&self.stencil.fields[target].name, value);
        point.values.insert(target, value);
    }

    /// The new value where the masks are set, else the old one.
    fn masked(&mut self, stmt: &Stmt, target: FieldId, value: &Ref, column: &mut Column, point: &mut Point) -> Expr {
        let dtype = self.stencil.dtype(target);
        let Some(mask) = self.mask(stmt, column, point) else { return self.whole(value, dtype, column, point) };
        let old = self.old_value(column, point, target);
        match self.types.can_fail(value) {
            true => {
                let value = self.in_branch(point, |lower, point| lower.whole(value, dtype, column, point));
                build::if_(mask, value, old)
            }
            false => {
                let value = self.whole(value, dtype, column, point);
                build::select(mask, value, old)
            }
        }
    }

    /// What a field holds here that is about to be written.
    fn old_value(&mut self, column: &mut Column, point: &mut Point, field: FieldId) -> Expr {
        let known = point.values.get(&field).or_else(|| point.reads.get(&(field, [0; 3])));
        match known.cloned() {
            Some(value) => value,
            None => {
                let level = point.level.clone();
                self.old(column, field, [0; 3], &level)
            }
        }
    }

    /// Whether the masks of a statement are set; `None` if it has none.
    fn mask(&mut self, stmt: &Stmt, column: &mut Column, point: &mut Point) -> Option<Expr> {
        let mut all: Option<Expr> = None;
        for (mask, set) in &stmt.guards {
            let mask = self.read(column, point, *mask, [0; 3]);
            let part = if *set { mask } else { build::not(mask) };
            all = Some(match all {
                Some(all) => build::bit_and(all, part),
                None => part,
            });
        }
        all
    }

    /// Something in a branch: what it binds stays there.
    fn in_branch(&mut self, point: &mut Point, f: impl FnOnce(&mut Self, &mut Point) -> Expr) -> Expr {
        self.flow.open();
        point.lazy += 1;
        point.shared.push(HashMap::new());
        let value = f(self, point);
        point.shared.pop();
        point.lazy -= 1;
        self.flow.close(value)
    }

    /// The value of a field at an offset, here.
    pub(crate) fn read(&mut self, column: &mut Column, point: &mut Point, field: FieldId, offset: Offset) -> Expr {
        if offset == [0; 3]
            && let Some(value) = point.values.get(&field)
        {
            return value.clone();
        }
        if let Some(value) = point.reads.get(&(field, offset)) {
            return value.clone();
        }
        let value = match self.values(column, field, offset) {
            Values::None => build::zero(&self.stencil.dtype(field).ty()),
            Values::One(value) => value,
            Values::Levels(data, first) => {
                let value = build::lookup(data, first.add(&point.level).expr());
                self.flow.bind(&self.stencil.fields[field].name, value)
            }
        };
        if point.lazy == 0 {
            point.reads.insert((field, offset), value.clone());
        }
        value
    }

    fn while_loop(&mut self, stmt: &Stmt, cond: &Ref, body: &[Stmt], column: &mut Column, point: &mut Point) {
        let carried: Vec<FieldId> =
            stmt.targets().into_iter().filter(|field| !self.stencil.fields[*field].mask).collect();
        let done = match stmt.extent == point.extent {
            true => self.passes(stmt, cond, body, &carried, column, point),
            // Elsewhere the fields may not be there, and the condition need not end.
            false => {
                let inside = self.inside(stmt.extent, &column.at);
                let done =
                    self.in_branch(point, |lower, point| lower.passes(stmt, cond, body, &carried, column, point));
                let otherwise = carried.iter().map(|field| match point.values.get(field) {
                    Some(value) => value.clone(),
                    None => build::zero(&self.stencil.dtype(*field).ty()),
                });
                let otherwise = build::strct(std::iter::once(build::i64(0)).chain(otherwise));
                self.flow.keep("looped", build::if_(inside, done, otherwise).at(stmt.span))
            }
        };
        for (position, field) in carried.into_iter().enumerate() {
            let value = self.flow.bind("after", build::field(done.clone(), 1 + position));
            point.values.insert(field, value);
        }
    }

    /// Passes at this point until the condition fails: their number, and the fields that are carried.
    fn passes(
        &mut self,
        stmt: &Stmt,
        cond: &Ref,
        body: &[Stmt],
        carried: &[FieldId],
        column: &mut Column,
        point: &mut Point,
    ) -> Expr {
        let mut before: Vec<Expr> = Vec::new();
        for field in carried {
            before.push(self.old_value(column, point, *field));
        }
        let mask = self.mask(stmt, column, point);
        let first = match mask {
            Some(mask) => {
                let cond = self.in_branch(point, |lower, point| lower.truth(cond, column, point));
                build::and(mask, cond)
            }
            None => self.in_branch(point, |lower, point| lower.truth(cond, column, point)),
        };
        let init = build::strct(std::iter::once(build::i64(0)).chain(before.iter().cloned()));
        let ty = init.ty.clone();
        let sym = self.flow.names().fresh("state");
        let state = |field: usize| build::field(build::var(sym, ty.clone()), field);
        let outer = (point.values.clone(), point.reads.clone());

        self.flow.open();
        point.lazy += 1;
        point.shared.push(HashMap::new());
        for (position, field) in carried.iter().enumerate() {
            let value = self.flow.bind("now", state(1 + position));
            point.values.insert(*field, value);
        }
        body.iter().for_each(|inner| self.stmt(inner, column, point));
        let passes = self.flow.bind("passes", build::add(state(0), build::i64(1)));
        let next: Vec<Expr> = carried.iter().map(|field| point.values[field].clone()).collect();
        let again = self.in_branch(point, |lower, point| lower.truth(cond, column, point));
        let message = format!("{}: a `while` makes more than {PASSES_MAX} passes", self.stencil.name);
        let few = build::require(build::lt(passes.clone(), build::i64(PASSES_MAX)), &message, []).at(stmt.span);
        let next = build::strct(std::iter::once(passes).chain(next));
        let body = self.flow.close(build::strct([next, build::and(again, few)]));
        point.shared.pop();
        point.lazy -= 1;
        (point.values, point.reads) = outer;

        let step = Func { params: vec![(sym, ty.clone())], body: Box::new(body) };
        let iterate = ExprKind::Iterate { init: Box::new(init.clone()), step };
        let looped = build::node(iterate, Type::structure([])).at(stmt.span);
        self.flow.keep("looped", build::if_(first, looped, init).at(stmt.span))
    }

    // Expressions.

    /// A whole expression in a type.
    fn whole(&mut self, node: &Ref, dtype: Dtype, column: &mut Column, point: &mut Point) -> Expr {
        point.shared.push(HashMap::new());
        let value = self.value(node, dtype, column, point);
        point.shared.pop();
        value
    }

    fn truth(&mut self, node: &Ref, column: &mut Column, point: &mut Point) -> Expr {
        self.whole(node, Dtype::Bool, column, point)
    }

    fn value(&mut self, node: &Ref, dtype: Dtype, column: &mut Column, point: &mut Point) -> Expr {
        let key = (Rc::as_ptr(node), dtype);
        if let Some(known) = point.shared.iter().rev().find_map(|shared| shared.get(&key)) {
            return known.clone();
        }
        if self.nodes_left == 0 {
            self.fail(node.span, "the stencil is too large once its functions are inlined");
            return build::zero(&dtype.ty());
        }
        self.nodes_left -= 1;
        let value = deep(|| self.value_here(node, dtype, column, point)).at(node.span);
        // Functions make one expression stand in several places.
        if Rc::strong_count(node) > 1 && !matches!(node.kind, NodeKind::Const(_) | NodeKind::Scalar(_)) {
            let value = self.flow.bind("shared", value);
            if let Some(shared) = point.shared.last_mut() {
                shared.insert(key, value.clone());
            }
            return value;
        }
        value
    }

    fn value_here(&mut self, node: &Ref, dtype: Dtype, column: &mut Column, point: &mut Point) -> Expr {
        let own = self.types.of(node).default();
        match &node.kind {
            NodeKind::Const(value) => build::lit(literal(dtype, *value)),
            NodeKind::Select(cond, a, b) => {
                let lazy = self.types.can_fail(a) || self.types.can_fail(b);
                // Weak parts take the type that is asked for.
                let as_ = if matches!(self.types.of(node), Ty::Is(_)) { own } else { dtype };
                let cond = self.value(cond, Dtype::Bool, column, point);
                let chosen = match lazy {
                    true => {
                        let a = self.in_branch(point, |lower, point| lower.value(a, as_, column, point));
                        let b = self.in_branch(point, |lower, point| lower.value(b, as_, column, point));
                        build::if_(cond, a, b)
                    }
                    false => {
                        let a = self.value(a, as_, column, point);
                        let b = self.value(b, as_, column, point);
                        build::select(cond, a, b)
                    }
                };
                cast(chosen, dtype)
            }
            _ => {
                let value = self.natural(node, own, column, point);
                cast(value, dtype)
            }
        }
    }

    /// The value in the expression's own type.
    fn natural(&mut self, node: &Ref, own: Dtype, column: &mut Column, point: &mut Point) -> Expr {
        match &node.kind {
            NodeKind::Const(_) | NodeKind::Select(..) => self.value_here(node, own, column, point),
            NodeKind::Scalar(index) => match (&self.scalars[*index], &self.stencil.params[*index].kind) {
                (Some(value), _) => value.clone(),
                (None, ParamKind::Scalar { .. }) | (None, ParamKind::Field(_)) => build::zero(&own.ty()),
            },
            NodeKind::Access { field, offset } => self.read(column, point, *field, *offset),
            NodeKind::Neg(a) => build::neg(self.value(a, own, column, point)),
            NodeKind::Not(a) => build::not(self.value(a, Dtype::Bool, column, point)),
            NodeKind::Cast(dtype, a) => self.value(a, *dtype, column, point),
            NodeKind::Binary(op, a, b) => self.binary(node, *op, a, b, own, column, point),
            NodeKind::Compare(op, a, b) => {
                let dtype = compared(&self.types, a, b);
                let (a, b) = (self.value(a, dtype, column, point), self.value(b, dtype, column, point));
                match op {
                    CompareOp::Eq => build::eq(a, b),
                    CompareOp::Lt => build::lt(a, b),
                    CompareOp::Le => build::le(a, b),
                    CompareOp::Gt => build::gt(a, b),
                    CompareOp::Ge => build::ge(a, b),
                    _ => build::ne(a, b),
                }
            }
            NodeKind::And(parts) => self.logical(parts, true, column, point),
            NodeKind::Or(parts) => self.logical(parts, false, column, point),
            NodeKind::Call(builtin, args) => self.call(*builtin, args, own, column, point),
            NodeKind::Session(function, args) => {
                let kinds: Vec<Dtype> = function
                    .params
                    .iter()
                    .map(|param| match param.shape.ty() {
                        Type::Scalar(kind) => Dtype::of_kind(kind).unwrap_or(Dtype::Float64),
                        _ => Dtype::Float64,
                    })
                    .collect();
                let args = args.iter().zip(kinds).map(|(arg, dtype)| self.value(arg, dtype, column, point)).collect();
                self.sources.call(function, args, self.flow.names())
            }
        }
    }

    fn logical(&mut self, parts: &[Ref], and: bool, column: &mut Column, point: &mut Point) -> Expr {
        let mut all: Option<Expr> = None;
        for part in parts {
            let Some(before) = all.take() else {
                all = Some(self.value(part, Dtype::Bool, column, point));
                continue;
            };
            all = Some(match self.types.can_fail(part) {
                true => {
                    let part = self.in_branch(point, |lower, point| lower.value(part, Dtype::Bool, column, point));
                    if and { build::and(before, part) } else { build::or(before, part) }
                }
                false => {
                    let part = self.value(part, Dtype::Bool, column, point);
                    if and { build::bit_and(before, part) } else { build::bit_or(before, part) }
                }
            });
        }
        all.unwrap_or_else(|| build::bool(and))
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of an operation, and where it is")]
    fn binary(
        &mut self,
        node: &Ref,
        op: Op,
        a: &Ref,
        b: &Ref,
        own: Dtype,
        column: &mut Column,
        point: &mut Point,
    ) -> Expr {
        if op == Op::Pow {
            return self.power(a, b, own, node.span, column, point);
        }
        let (a, b) = (self.value(a, own, column, point), self.value(b, own, column, point));
        match op {
            Op::Add => build::add(a, b),
            Op::Sub => build::sub(a, b),
            Op::Mul => build::mul(a, b),
            Op::Div => build::div(a, b),
            Op::FloorDiv | Op::Mod => {
                let (a, b) = (self.flow.bind("a", a), self.flow.bind("b", b));
                match (op, own.is_float()) {
                    (Op::FloorDiv, false) => self.int_floor_div(a, b, node.span),
                    (Op::FloorDiv, true) => self.float_floor_div(a, b, node.span),
                    (_, false) => self.int_mod(a, b, node.span),
                    _ => floor_division::rest(self.flow.names(), a, b, node.span),
                }
            }
            Op::Pow => a,
        }
    }

    fn not_zero(&mut self, b: &Expr, span: Span) -> Expr {
        let zero = build::zero(&b.ty);
        let message = format!("{}: integer division by zero", self.stencil.name);
        build::require(build::ne(b.clone(), zero), &message, []).at(span)
    }

    /// The divisor, once it is known not to be zero.
    fn divisor(&mut self, b: Expr, span: Span) -> Expr {
        if let ExprKind::Literal(literal) = b.kind
            && literal.bits() != 0
        {
            return b;
        }
        let checked = self.not_zero(&b, span);
        let zero = build::zero(&b.ty);
        self.flow.bind("divisor", build::if_(checked, b, zero))
    }

    fn int_mod(&mut self, a: Expr, b: Expr, span: Span) -> Expr {
        let b = self.divisor(b, span);
        let zero = build::zero(&a.ty);
        let rest = self.flow.bind("rest", build::rem(a, b.clone()).at(span));
        let differs = build::bit_and(
            build::ne(rest.clone(), zero.clone()),
            build::ne(build::lt(rest.clone(), zero.clone()), build::lt(b.clone(), zero)),
        );
        build::select(differs, build::add(rest.clone(), b), rest)
    }

    fn int_floor_div(&mut self, a: Expr, b: Expr, span: Span) -> Expr {
        let b = self.divisor(b, span);
        let kind = a.ty.as_scalar().unwrap_or(weld_core::ty::ScalarKind::I64);
        let (zero, one) = (build::number(kind, 0), build::number(kind, 1));
        // By -1 the quotient wraps, which a division would not.
        let by_minus_one = match &b.kind {
            ExprKind::Literal(literal) => build::bool(*literal == build::literal(kind, -1)),
            _ => self.flow.bind("by_minus_one", build::eq(b.clone(), build::number(kind, -1))),
        };
        let b = self.flow.bind("divisor", build::select(by_minus_one.clone(), one.clone(), b));
        let quotient = self.flow.bind("quotient", build::div(a.clone(), b.clone()).at(span));
        let rest = self.flow.bind("rest", build::sub(a.clone(), build::mul(quotient.clone(), b.clone())));
        let differs = build::bit_and(
            build::ne(rest.clone(), zero.clone()),
            build::ne(build::lt(rest, zero.clone()), build::lt(b, zero.clone())),
        );
        let floor = build::select(differs, build::sub(quotient.clone(), one), quotient);
        build::select(by_minus_one, build::sub(zero, a), floor)
    }

    /// NumPy's, which divides by 0.
    fn float_floor_div(&mut self, a: Expr, b: Expr, span: Span) -> Expr {
        let zero = build::zero(&b.ty);
        let quotient = floor_division::quotient(self.flow.names(), a.clone(), b.clone(), span);
        build::select(build::eq(b.clone(), zero), build::div(a, b), quotient)
    }

    fn power(&mut self, a: &Ref, b: &Ref, own: Dtype, span: Span, column: &mut Column, point: &mut Point) -> Expr {
        let exponent = match b.kind {
            NodeKind::Const(value) => Some(value),
            _ => None,
        };
        let base = self.value(a, own, column, point);
        let base = self.flow.bind("base", base);
        if own.is_float() {
            let one = build::number(own.kind(), 1);
            return match exponent.map(Const::as_float) {
                Some(2.0) => build::mul(base.clone(), base),
                Some(1.0) => base,
                Some(0.0) => one,
                Some(-1.0) => build::div(one, base),
                Some(0.5) => build::unary(UnaryOp::Sqrt, base),
                _ => {
                    let exponent = self.value(b, own, column, point);
                    build::pow(base, exponent)
                }
            };
        }
        if let Some(exponent @ 0..=64) = exponent.and_then(Const::as_int) {
            return self.int_power(base, exponent as u32, own);
        }
        let exponent = self.value(b, own, column, point);
        let exponent = self.flow.bind("exponent", exponent);
        self.int_power_loop(base, exponent, own, span)
    }

    fn int_power(&mut self, base: Expr, exponent: u32, own: Dtype) -> Expr {
        let mut result: Option<Expr> = None;
        let (mut square, mut rest) = (base, exponent);
        while rest > 0 {
            if rest & 1 == 1 {
                result = Some(match result {
                    Some(result) => build::mul(result, square.clone()),
                    None => square.clone(),
                });
            }
            rest >>= 1;
            if rest > 0 {
                square = self.flow.bind("square", build::mul(square.clone(), square));
            }
        }
        result.unwrap_or_else(|| build::number(own.kind(), 1))
    }

    /// By squares, one bit of the exponent a step.
    fn int_power_loop(&mut self, base: Expr, exponent: Expr, own: Dtype, span: Span) -> Expr {
        let number = |value| build::number(own.kind(), value);
        let message = format!("{}: an integer to a negative integer power: {{0}} ** {{1}}", self.stencil.name);
        let cond = build::ge(exponent.clone(), number(0));
        let checked = build::require(cond, &message, [base.clone(), exponent.clone()]).at(span);
        let init = build::strct([number(1), base, build::if_(checked, exponent, number(0))]);
        let done = build::iterate(self.flow.names(), init, |_, state| {
            let part = |field| build::field(state.clone(), field);
            let (result, square, rest) = (part(0), part(1), part(2));
            let is_odd = build::eq(build::rem(rest.clone(), number(2)), number(1));
            let result = build::select(is_odd, build::mul(result.clone(), square.clone()), result);
            let next = build::div(rest.clone(), number(2));
            let go_on = build::gt(rest, number(1));
            build::strct([build::strct([result, build::mul(square.clone(), square), next]), go_on])
        });
        build::field(done, 0)
    }

    fn call(&mut self, builtin: Builtin, args: &[Ref], own: Dtype, column: &mut Column, point: &mut Point) -> Expr {
        if matches!(builtin, Builtin::IsNan | Builtin::IsInf | Builtin::IsFinite) {
            let dtype = self.types.of(&args[0]).floating().default();
            let x = self.value(&args[0], dtype, column, point);
            let x = self.flow.bind("x", x);
            // What is no number differs from itself; the difference with itself of what is not finite is no number.
            let is_nan = build::ne(x.clone(), x.clone());
            let difference = build::sub(x.clone(), x.clone());
            let is_finite = build::eq(difference.clone(), difference);
            return match builtin {
                Builtin::IsNan => is_nan,
                Builtin::IsFinite => is_finite,
                _ => build::bit_and(build::not(is_nan), build::not(is_finite)),
            };
        }
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            values.push(self.value(arg, own, column, point));
        }
        let unary = |op: UnaryOp, mut values: Vec<Expr>| build::unary(op, values.remove(0));
        match builtin {
            Builtin::Min | Builtin::Max => self.extreme(builtin == Builtin::Min, values, own),
            Builtin::Floor | Builtin::Ceil | Builtin::Trunc if !own.is_float() => values.remove(0),
            Builtin::Abs => unary(UnaryOp::Abs, values),
            Builtin::Sqrt => unary(UnaryOp::Sqrt, values),
            Builtin::Exp => unary(UnaryOp::Exp, values),
            Builtin::Log => unary(UnaryOp::Log, values),
            Builtin::Log10 => unary(UnaryOp::Log10, values),
            Builtin::Sin => unary(UnaryOp::Sin, values),
            Builtin::Cos => unary(UnaryOp::Cos, values),
            Builtin::Tan => unary(UnaryOp::Tan, values),
            Builtin::Asin => unary(UnaryOp::Asin, values),
            Builtin::Acos => unary(UnaryOp::Acos, values),
            Builtin::Atan => unary(UnaryOp::Atan, values),
            Builtin::Sinh => unary(UnaryOp::Sinh, values),
            Builtin::Cosh => unary(UnaryOp::Cosh, values),
            Builtin::Tanh => unary(UnaryOp::Tanh, values),
            Builtin::Floor => unary(UnaryOp::Floor, values),
            Builtin::Ceil => unary(UnaryOp::Ceil, values),
            Builtin::Trunc => unary(UnaryOp::Trunc, values),
            Builtin::Erf => unary(UnaryOp::Erf, values),
            Builtin::IsNan | Builtin::IsInf | Builtin::IsFinite => values.remove(0),
        }
    }

    /// The smallest or largest; what is no number is passed on, as NumPy's `minimum` does.
    fn extreme(&mut self, smallest: bool, values: Vec<Expr>, own: Dtype) -> Expr {
        let mut all = values.into_iter();
        let mut result = all.next().unwrap_or_else(|| build::zero(&own.ty()));
        for value in all {
            let (a, b) = (self.flow.bind("a", result), self.flow.bind("b", value));
            let first = match smallest {
                true => build::lt(a.clone(), b.clone()),
                false => build::gt(a.clone(), b.clone()),
            };
            let first = if own.is_float() { build::bit_or(first, build::ne(a.clone(), a.clone())) } else { first };
            result = build::select(first, a, b);
        }
        result
    }
}

fn cast(value: Expr, dtype: Dtype) -> Expr {
    let span = value.span;
    build::cast(value, dtype.kind()).at(span)
}
