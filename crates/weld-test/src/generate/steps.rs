//! Random `iterate`s: a few steps, counted.

use weld_core::ir::{Expr, ExprKind, Func, build};
use weld_core::ty::Type;

use super::Generator;

impl Generator {
    /// Steps that make another value each.
    pub(super) fn iterate(&mut self, ty: &Type, depth: usize) -> Expr {
        let init = self.expr(ty, depth);
        self.steps(init, |g, _, state| {
            g.scope.push(state);
            let next = g.expr(ty, depth.min(2));
            g.scope.pop();
            next
        })
    }

    /// Steps that change elements of a vector, which the compiler does in place.
    pub(super) fn changed(&mut self, ty: &Type, element: &Type, depth: usize) -> Expr {
        let init = self.expr(ty, depth);
        let twice = self.rng.one_in(4);
        self.steps(init, |g, counter, state| {
            g.scope.extend([counter.clone(), state.clone()]);
            let (value, other) = (g.expr(element, depth.min(2)), g.expr(element, 1));
            g.scope.truncate(g.scope.len() - 2);
            let last = build::sub(build::len(state.clone()), build::i64(1));
            let mut next = build::update(state.clone(), build::min(counter, last), value);
            if twice {
                next = build::update(next, build::i64(0), other);
            }
            build::if_(build::gt(build::len(state.clone()), build::i64(0)), next, state)
        })
    }

    /// `next` gets the number of the step and the value.
    fn steps(&mut self, init: Expr, next: impl FnOnce(&mut Generator, Expr, Expr) -> Expr) -> Expr {
        let state_ty = Type::structure([Type::I64, init.ty.clone()]);
        let (sym, state) = self.parameter("state", &state_ty);
        let counter = build::field(state.clone(), 0);
        let next = next(self, counter.clone(), build::field(state, 1));
        let steps = self.rng.below(5) as i64;
        let again = build::lt(counter.clone(), build::i64(steps));
        let body = build::strct([build::strct([build::add(counter, build::i64(1)), next]), again]);
        let step = Func { params: vec![(sym, state_ty)], body: Box::new(body) };
        let init = Box::new(build::strct([build::i64(0), init]));
        build::field(build::node(ExprKind::Iterate { init, step }, Type::BOOL), 1)
    }
}
