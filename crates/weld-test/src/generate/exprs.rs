//! Random expressions of a given type.

use weld_core::ir::{Binding, Expr, Func, Literal, build};
use weld_core::op::{BinaryOp, Intrinsic, UnaryOp};
use weld_core::ty::{ScalarKind, Type};

use super::{Generator, types, values};

impl Generator {
    /// An expression of a type without builders.
    pub(super) fn expr(&mut self, ty: &Type, depth: usize) -> Expr {
        self.fuel -= 1;
        if depth == 0 || self.fuel <= 0 {
            return self.leaf(ty);
        }
        if self.rng.one_in(4) {
            return self.any(ty, depth - 1);
        }
        if self.rng.one_in(5)
            && let Some(found) = self.variable(ty)
        {
            return found;
        }
        match ty {
            Type::Scalar(kind) => self.scalar(*kind, depth - 1),
            Type::Vec(element) => self.vector(ty, element, depth - 1),
            Type::Struct(fields) => self.structure(fields, depth - 1),
            Type::Dict(..) => self.built(ty, depth - 1),
            Type::Simd(_) | Type::Builder(_) => build::zero(ty),
        }
    }

    fn variable(&mut self, ty: &Type) -> Option<Expr> {
        let found: Vec<&Expr> = self.scope.iter().filter(|variable| variable.ty == *ty).collect();
        match found.len() {
            0 => None,
            // The newest are the most interesting.
            n => Some(found[n - 1 - self.rng.below(n.min(4))].clone()),
        }
    }

    fn leaf(&mut self, ty: &Type) -> Expr {
        if !self.rng.one_in(4)
            && let Some(found) = self.variable(ty)
        {
            return found;
        }
        match ty {
            Type::Scalar(kind) => build::lit(values::literal(&mut self.rng, *kind)),
            Type::Vec(element) if ty.is_bytes() && self.rng.one_in(2) => {
                let text = self.rng.pick(&["", "a", "ab", "abc%", "héllo wörld, long enough to leave its view"]);
                let bytes = build::bytes(text.as_bytes());
                if **element == Type::U8 { bytes } else { Expr { ty: ty.clone(), ..bytes } }
            }
            Type::Vec(element) => {
                let items: Vec<Expr> = (0..self.rng.below(4)).map(|_| self.leaf(element)).collect();
                build::vector((**element).clone(), items)
            }
            Type::Struct(fields) => {
                let fields: Vec<Expr> = fields.iter().map(|field| self.leaf(field)).collect();
                build::strct(fields)
            }
            _ => build::zero(ty),
        }
    }

    /// What works for every type.
    fn any(&mut self, ty: &Type, depth: usize) -> Expr {
        match self.rng.below(9) {
            0 | 1 => {
                let cond = self.expr(&Type::BOOL, depth);
                let (on_true, on_false) = (self.expr(ty, depth), self.expr(ty, depth));
                build::if_(cond, on_true, on_false)
            }
            2 => {
                let cond = self.expr(&Type::BOOL, depth);
                let (on_true, on_false) = (self.expr(ty, depth), self.expr(ty, depth));
                build::select(cond, on_true, on_false)
            }
            3 | 4 => {
                let value_ty = types::value(&mut self.rng, 1);
                let value = self.expr(&value_ty, depth);
                self.bind("t", value, |g, _| g.expr(ty, depth))
            }
            5 => {
                let data = self.expr(&Type::vec(ty.clone()), depth);
                self.lookup(data, ty, depth)
            }
            6 => {
                let other = types::value(&mut self.rng, 1);
                let (mine, other) = (self.expr(ty, depth), self.expr(&other, depth));
                if self.rng.one_in(2) {
                    build::field(build::strct([mine, other]), 0)
                } else {
                    build::field(build::strct([other, mine]), 1)
                }
            }
            7 if !types::has_float(ty) => build::deserialize(ty.clone(), build::serialize(self.expr(ty, depth))),
            _ => self.iterate(ty, depth),
        }
    }

    /// Mostly guarded, now and then not.
    fn lookup(&mut self, data: Expr, ty: &Type, depth: usize) -> Expr {
        let index = self.expr(&Type::I64, depth);
        let otherwise = self.leaf(ty);
        let unguarded = self.rng.one_in(12);
        self.bind("data", data, |g, data| {
            g.bind("at", index, |_, at| {
                let found = build::lookup(data.clone(), at.clone());
                if unguarded {
                    return found;
                }
                let inside = build::and(build::ge(at.clone(), build::i64(0)), build::lt(at, build::len(data)));
                build::if_(inside, found, otherwise)
            })
        })
    }

    /// A few steps, counted.
    fn iterate(&mut self, ty: &Type, depth: usize) -> Expr {
        let state_ty = Type::structure([Type::I64, ty.clone()]);
        let init = build::strct([build::i64(0), self.expr(ty, depth)]);
        let (sym, state) = self.parameter("state", &state_ty);
        self.scope.push(build::field(state.clone(), 1));
        let next = self.expr(ty, depth.min(2));
        self.scope.pop();
        let counted = build::add(build::field(state.clone(), 0), build::i64(1));
        let steps = self.rng.below(5) as i64;
        let again = build::lt(build::field(state, 0), build::i64(steps));
        let body = build::strct([build::strct([counted, next]), again]);
        let step = Func { params: vec![(sym, state_ty)], body: Box::new(body) };
        let kind = weld_core::ir::ExprKind::Iterate { init: Box::new(init), step };
        build::field(build::node(kind, Type::BOOL), 1)
    }

    fn scalar(&mut self, kind: ScalarKind, depth: usize) -> Expr {
        let ty = Type::Scalar(kind);
        if self.rng.one_in(5) {
            return self.built(&ty, depth);
        }
        if self.rng.one_in(6) {
            let from = types::scalar(&mut self.rng);
            return build::cast(self.expr(&Type::Scalar(from), depth), kind);
        }
        match kind {
            ScalarKind::Bool => self.truth(depth),
            _ if kind.is_float() => self.float(&ty, depth),
            _ => self.integer(kind, depth),
        }
    }

    fn truth(&mut self, depth: usize) -> Expr {
        match self.rng.below(12) {
            0..=4 => {
                let ty = self.comparable();
                let (a, b) = (self.expr(&ty, depth), self.expr(&ty, depth));
                let ops = [BinaryOp::Eq, BinaryOp::Ne, BinaryOp::Lt, BinaryOp::Le, BinaryOp::Gt, BinaryOp::Ge];
                build::binary(self.rng.pick(&ops), a, b)
            }
            5..=8 => {
                let (a, b) = (self.expr(&Type::BOOL, depth), self.expr(&Type::BOOL, depth));
                let ops = [BinaryOp::And, BinaryOp::Or, BinaryOp::BitAnd, BinaryOp::BitOr, BinaryOp::BitXor];
                build::binary(self.rng.pick(&ops), a, b)
            }
            9 => build::not(self.expr(&Type::BOOL, depth)),
            10 => {
                let (key, value) = (types::key(&mut self.rng), types::mergeable(&mut self.rng));
                let dict = self.expr(&Type::dict(key.clone(), value), depth);
                let key = self.expr(&key, depth);
                build::key_exists(dict, key)
            }
            _ => {
                let ty = self.rng.pick(&[Type::vec(Type::I8), Type::vec(Type::U8)]);
                let (text, part) = (self.expr(&ty, depth), self.expr(&ty, depth));
                let names = [Intrinsic::StartsWith, Intrinsic::EndsWith, Intrinsic::Contains, Intrinsic::Like];
                build::intrinsic(self.rng.pick(&names), [text, part])
            }
        }
    }

    fn comparable(&mut self) -> Type {
        loop {
            let ty = types::value(&mut self.rng, 1);
            if !types::has_dict(&ty) {
                return ty;
            }
        }
    }

    fn float(&mut self, ty: &Type, depth: usize) -> Expr {
        match self.rng.below(10) {
            0..=6 => {
                let ops = [
                    BinaryOp::Add,
                    BinaryOp::Sub,
                    BinaryOp::Mul,
                    BinaryOp::Div,
                    BinaryOp::Rem,
                    BinaryOp::Min,
                    BinaryOp::Max,
                ];
                let (a, b) = (self.expr(ty, depth), self.expr(ty, depth));
                build::binary(self.rng.pick(&ops), a, b)
            }
            7 => build::unary(UnaryOp::Sqrt, self.expr(ty, depth)),
            8 => build::neg(self.expr(ty, depth)),
            _ => self.leaf(ty),
        }
    }

    fn integer(&mut self, kind: ScalarKind, depth: usize) -> Expr {
        let ty = Type::Scalar(kind);
        let one = || build::number(kind, 1);
        match self.rng.below(14) {
            0..=6 => {
                let ops = [
                    BinaryOp::Add,
                    BinaryOp::Sub,
                    BinaryOp::Mul,
                    BinaryOp::Min,
                    BinaryOp::Max,
                    BinaryOp::BitAnd,
                    BinaryOp::BitOr,
                    BinaryOp::BitXor,
                ];
                let (a, b) = (self.expr(&ty, depth), self.expr(&ty, depth));
                build::binary(self.rng.pick(&ops), a, b)
            }
            7 => {
                // Odd divisors are not zero; now and then any divisor.
                let (a, b) = (self.expr(&ty, depth), self.expr(&ty, depth));
                let b = if self.rng.one_in(10) { b } else { build::bit_or(b, one()) };
                build::binary(self.rng.pick(&[BinaryOp::Div, BinaryOp::Rem]), a, b)
            }
            8 => build::neg(self.expr(&ty, depth)),
            9 => {
                let names = [Intrinsic::CheckedAdd, Intrinsic::CheckedSub, Intrinsic::CheckedMul];
                let (a, b) = (self.expr(&ty, depth), self.expr(&ty, depth));
                // Halves of the range rarely overflow.
                let half = |x: Expr| build::div(x, build::number(kind, 16));
                build::intrinsic(self.rng.pick(&names), [half(a), half(b)])
            }
            10 if kind.is_signed() => {
                let (a, b) = (self.expr(&ty, depth), self.expr(&ty, depth));
                if self.rng.one_in(2) {
                    build::intrinsic(Intrinsic::RoundDiv, [a, build::bit_or(b, one())])
                } else {
                    build::intrinsic(Intrinsic::Magnitude, [a])
                }
            }
            11 if kind == ScalarKind::I32 => {
                let days = self.expr(&ty, depth);
                build::intrinsic(self.rng.pick(&[Intrinsic::Year, Intrinsic::Month, Intrinsic::Day]), [days])
            }
            11 if kind == ScalarKind::I64 => {
                let float = self.expr(&Type::F64, depth);
                order_key(float)
            }
            12 => {
                let element = types::value(&mut self.rng, 1);
                build::cast(build::len(self.expr(&Type::vec(element), depth)), kind)
            }
            _ => {
                let key = types::key(&mut self.rng);
                let dict = self.expr(&Type::dict(key.clone(), ty), depth);
                let key = self.expr(&key, depth);
                build::field(build::opt_lookup(dict, key), 1)
            }
        }
    }

    fn vector(&mut self, ty: &Type, element: &Type, depth: usize) -> Expr {
        match self.rng.below(12) {
            0..=5 => self.built(ty, depth),
            6 => {
                let (start, size) = (self.expr(&Type::I64, depth), self.expr(&Type::I64, depth));
                let data = self.expr(ty, depth);
                self.bind("data", data, |g, data| {
                    let (start, size) = match g.rng.one_in(12) {
                        true => (start, size),
                        false => {
                            let end = build::len(data.clone());
                            let start = build::max(build::i64(0), build::min(start, end));
                            (start, build::max(build::i64(0), size))
                        }
                    };
                    build::slice(data, start, size)
                })
            }
            7 | 8 => {
                let data = self.expr(ty, depth);
                self.sort(data, element)
            }
            9 => {
                let (data, value) = (self.expr(ty, depth), self.expr(element, depth));
                self.bind("data", data, |_, data| {
                    let some = build::gt(build::len(data.clone()), build::i64(0));
                    build::if_(some, build::update(data.clone(), build::i64(0), value), data)
                })
            }
            10 if matches!(element, Type::Struct(fields) if fields.len() == 2 && can_be_entry(&fields[0], &fields[1])) =>
            {
                let Type::Struct(fields) = element else { return self.leaf(ty) };
                let dict = self.expr(&Type::dict(fields[0].clone(), fields[1].clone()), depth);
                self.sort_by(build::to_vec(dict), |e| build::field(e, 0))
            }
            _ => {
                let items: Vec<Expr> = (0..self.rng.below(4)).map(|_| self.expr(element, depth)).collect();
                build::vector(element.clone(), items)
            }
        }
    }

    /// Sorted by some key that is totally ordered.
    fn sort(&mut self, data: Expr, element: &Type) -> Expr {
        match element {
            _ if types::has_dict(element) => data,
            Type::Struct(fields) => {
                let keys: Vec<usize> = (0..fields.len())
                    .filter(|i| !types::has_float(&fields[*i]) && !types::has_dict(&fields[*i]))
                    .collect();
                match keys.is_empty() {
                    true => data,
                    false => {
                        let key = self.rng.pick(&keys);
                        self.sort_by(data, |e| build::field(e, key))
                    }
                }
            }
            Type::Scalar(kind) if kind.is_float() => self.sort_by(data, order_key),
            Type::Vec(inner) if types::has_float(inner) => self.sort_by(data, build::len),
            ty if types::has_float(ty) => data,
            _ => self.sort_by(data, |e| e),
        }
    }

    fn sort_by(&mut self, data: Expr, key: impl Fn(Expr) -> Expr) -> Expr {
        build::sort(&mut self.names, data, |_, a, b| {
            let (a, b) = (key(a), key(b));
            let less = build::if_(build::lt(a.clone(), b.clone()), build::i32(-1), build::i32(0));
            build::if_(build::gt(a, b), build::i32(1), less)
        })
    }

    fn structure(&mut self, fields: &[Type], depth: usize) -> Expr {
        if let [Type::Scalar(ScalarKind::Bool), value] = fields
            && self.rng.one_in(3)
            && types::is_mergeable(value)
        {
            let key = types::key(&mut self.rng);
            let dict = self.expr(&Type::dict(key.clone(), value.clone()), depth);
            let key = self.expr(&key, depth);
            return build::opt_lookup(dict, key);
        }
        if self.rng.one_in(3)
            && let Some(built) = self.built_together(fields, depth)
        {
            return built;
        }
        if self.rng.one_in(4) && fields.iter().all(types::is_mergeable) {
            return self.built(&Type::structure(fields.to_vec()), depth);
        }
        let parts: Vec<Expr> = fields.iter().map(|field| self.expr(field, depth)).collect();
        // Sometimes through variables, in normal form.
        if self.rng.one_in(3) {
            let bindings: Vec<Binding> =
                parts.into_iter().map(|value| Binding { sym: self.names.fresh("f"), value }).collect();
            let fields: Vec<Expr> = bindings.iter().map(|b| build::var(b.sym, b.value.ty.clone())).collect();
            return build::let_in(bindings, build::strct(fields));
        }
        build::strct(parts)
    }
}

/// Entries that a dictionary can have, with keys that sort totally.
/// The order of floats that are no NaN; the sign of a NaN, which orders it, is the processor's choice.
fn order_key(float: Expr) -> Expr {
    let infinity = match float.ty {
        Type::F32 => Literal::F32(f32::INFINITY),
        _ => Literal::F64(f64::INFINITY),
    };
    build::intrinsic(Intrinsic::OrderKey, [build::binary(BinaryOp::Min, float, build::lit(infinity))])
}

fn can_be_entry(key: &Type, value: &Type) -> bool {
    !types::has_float(key) && !types::has_dict(key) && types::is_mergeable(value)
}
