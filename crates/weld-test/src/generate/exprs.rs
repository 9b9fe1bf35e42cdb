//! Random expressions of a given type.

use weld_core::ir::{Binding, Expr, build};
use weld_core::op::{BinaryOp, Intrinsic, UnaryOp};
use weld_core::ty::{ScalarKind, Type};

use super::sorts::order_key;
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

    pub(super) fn leaf(&mut self, ty: &Type) -> Expr {
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
        match self.rng.below(11) {
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
            8 | 9 => self.out_of_table(ty, depth),
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
            10 => self.is_in_table(depth),
            _ => {
                let ty = self.rng.pick(&[Type::vec(Type::I8), Type::vec(Type::U8)]);
                let (text, part) = (self.expr(&ty, depth), self.expr(&ty, depth));
                let names = [
                    Intrinsic::StartsWith,
                    Intrinsic::EndsWith,
                    Intrinsic::Contains,
                    Intrinsic::Like,
                    Intrinsic::Ilike,
                ];
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
            _ if *ty == Type::F64 && self.rng.one_in(2) => {
                build::cudf("sum_of", Type::F64, [self.expr(&Type::vec(Type::F64), depth)])
            }
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
            12 if kind == ScalarKind::I64 && self.rng.one_in(2) => self.place(depth),
            12 => {
                let element = types::value(&mut self.rng, 1);
                build::cast(build::len(self.expr(&Type::vec(element), depth)), kind)
            }
            _ if kind == ScalarKind::I64 && self.rng.one_in(3) => {
                build::cudf("add_five", ty.clone(), [self.expr(&ty, depth)])
            }
            _ => self.out_of_table(&ty, depth),
        }
    }

    /// A place in text.
    fn place(&mut self, depth: usize) -> Expr {
        let ty = self.rng.pick(&[Type::vec(Type::I8), Type::vec(Type::U8)]);
        let (text, part) = (self.expr(&ty, depth), self.expr(&ty, depth));
        if self.rng.one_in(2) {
            let number = self.expr(&Type::I64, depth);
            build::intrinsic(self.rng.pick(&[Intrinsic::Find, Intrinsic::FieldStart]), [text, part, number])
        } else {
            build::intrinsic(self.rng.pick(&[Intrinsic::TrimStart, Intrinsic::TrimEnd]), [text, part])
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
            10 => match self.entries(element, depth) {
                Some(entries) => entries,
                None => self.changed(ty, element, depth),
            },
            _ => {
                let items: Vec<Expr> = (0..self.rng.below(4)).map(|_| self.expr(element, depth)).collect();
                build::vector(element.clone(), items)
            }
        }
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
