//! Gradients, in reverse order of the graph.
//!
//! The gradient of a tensor is that of the sum of the root's cells. An operation `out[p] = sum of f(a[q], b[r])` over
//! the points of its loops gives `a`'s gradient at `q` the sum of `out.grad[p] * df/da` over the same points, so that
//! what was broadcast is summed and what was reduced is broadcast.

use std::collections::{HashMap, HashSet};

use weld_core::diag::Diagnostic;
use weld_core::ir::{Expr, build};
use weld_core::op::UnaryOp;
use weld_core::ty::ScalarKind;
use weld_tensor::{Size, View};

use crate::emit::{Emitter, Kernel, constant_of, gate, number, power};
use crate::graph::{Apply, Fun, NodeId, Op};
use crate::tree::{Accum, Binary, Unary};

impl Emitter<'_> {
    /// Adds to the gradients of the `wanted` tensors that `root` depends on; `root`'s own is 1.
    pub(crate) fn backprop(&mut self, root: NodeId, wanted: &HashSet<NodeId>) -> Result<(), Diagnostic> {
        self.value(root)?;
        let needed = self.needed(root, wanted);
        let mut found: HashMap<NodeId, Expr> = HashMap::new();
        found.insert(root, self.number(1.0));
        for id in self.graph.reachable([root]).into_iter().rev() {
            let Some(gradient) = found.get(&id).cloned() else { continue };
            match &self.graph.node(id).op {
                Op::Apply(apply) => self.operands(id, apply, gradient, &needed, &mut found)?,
                Op::Foreign { function, args } if args.iter().any(|arg| needed.contains(arg)) => {
                    let message = format!("no gradient through `{}`, a function of another text", function.source.name);
                    return Err(Diagnostic::ty(self.graph.node(id).span, message));
                }
                _ => {}
            }
        }
        let mut found: Vec<(NodeId, Expr)> = found.into_iter().collect();
        found.sort_by_key(|(id, _)| *id);
        for (id, gradient) in found {
            let is_argument = matches!(self.graph.node(id).op, Op::Argument(_));
            let before = self.grads.get(&id).cloned().filter(|_| is_argument);
            let sum = match before {
                Some(before) => self.sum(id, before, gradient)?,
                None => gradient,
            };
            self.grads.insert(id, sum);
        }
        Ok(())
    }

    /// The tensors on the way from the root to a wanted one, with these.
    fn needed(&self, root: NodeId, wanted: &HashSet<NodeId>) -> HashSet<NodeId> {
        let mut needed = HashSet::new();
        for id in self.graph.reachable([root]) {
            if wanted.contains(&id) || self.graph.node(id).op.args().iter().any(|arg| needed.contains(arg)) {
                needed.insert(id);
            }
        }
        needed
    }

    /// The sum of two gradients of a tensor.
    fn sum(&mut self, id: NodeId, a: Expr, b: Expr) -> Result<Expr, Diagnostic> {
        let sizes = self.sizes(id)?;
        let out: Vec<_> = (0..sizes.len()).map(weld_tensor::Index::axis).collect();
        let views = vec![View::of(b, &sizes, &out, sizes.len())];
        let span = self.graph.node(id).span;
        let kernel =
            Kernel { space: sizes.clone(), out: &out, out_sizes: sizes, views, accum: Accum::Add, old: Some(a), span };
        let sum = self.kernel(kernel, &mut |elements| elements[0].clone());
        Ok(self.bind("grad", sum))
    }

    /// Adds what an operation's gradient gives to those of its operands.
    fn operands(
        &mut self,
        id: NodeId,
        apply: &Apply,
        gradient: Expr,
        needed: &HashSet<NodeId>,
        found: &mut HashMap<NodeId, Expr>,
    ) -> Result<(), Diagnostic> {
        let Some(projection) = self.inferred.projection(id).cloned() else { return Ok(()) };
        let span = self.graph.node(id).span;
        let rank = projection.space.len();
        let own_sizes = self.sizes(id)?;
        let own = self.value(id)?;
        for (which, arg) in apply.args.iter().enumerate() {
            if !self.graph.node(*arg).differentiable || !needed.contains(arg) || !depends(apply.fun, which) {
                continue;
            }
            let space: Vec<Size> = projection.space.iter().map(|dim| self.size(*dim)).collect();
            let mut views = self.operand_views(apply, &projection)?;
            views.push(View::of(gradient.clone(), &own_sizes, &projection.out, rank));
            views.push(View::of(own.clone(), &own_sizes, &projection.out, rank));
            let out_sizes = self.sizes(*arg)?;
            let old = found.get(arg).cloned();
            let out = &projection.args[which];
            let kernel = Kernel { space, out, out_sizes, views, accum: Accum::Add, old, span };
            let (element, count) = (self.element, apply.args.len());
            let sum = self.kernel(kernel, &mut |elements| {
                let (args, rest) = elements.split_at(count);
                partial(element, apply, which, args, &rest[0], &rest[1])
            });
            let sum = self.bind("grad", sum);
            found.insert(*arg, sum);
        }
        Ok(())
    }
}

/// Whether the operation's derivative by an operand is anything but zero.
fn depends(fun: Fun, which: usize) -> bool {
    match fun {
        Fun::Power(exponent) => exponent != 0.0,
        Fun::Binary(Binary::Gate | Binary::Arg2) => which == 1,
        Fun::Binary(Binary::Arg1) => which == 0,
        _ => true,
    }
}

/// `gradient * df/d(operand)`; `own` is the operation's value.
fn partial(element: ScalarKind, apply: &Apply, which: usize, args: &[Expr], gradient: &Expr, own: &Expr) -> Expr {
    let number = |value: f64| number(element, value);
    let times = |factor: Expr| match constant_of(gradient) {
        Some(1.0) => factor,
        _ => build::mul(gradient.clone(), factor),
    };
    let a = || args[0].clone();
    if apply.max {
        // Of a largest sum: to the operands that make it.
        let sum = args[1..].iter().fold(a(), |sum, arg| build::add(sum, arg.clone()));
        return build::select(build::eq(sum, own.clone()), gradient.clone(), number(0.0));
    }
    match apply.fun {
        Fun::Power(exponent) => times(build::mul(number(exponent), power(element, a(), exponent - 1.0))),
        Fun::Unary(unary) => match unary {
            Unary::Identity => gradient.clone(),
            Unary::Relu => gate(element, a(), gradient.clone()),
            Unary::Exp => times(own.clone()),
            Unary::Log => build::div(gradient.clone(), a()),
            Unary::Sqrt => build::div(gradient.clone(), build::mul(number(2.0), own.clone())),
            Unary::Tanh => times(build::sub(number(1.0), build::mul(own.clone(), own.clone()))),
            Unary::Sin => times(build::unary(UnaryOp::Cos, a())),
            Unary::Cos => build::neg(times(build::unary(UnaryOp::Sin, a()))),
            Unary::Neg => build::neg(gradient.clone()),
            Unary::Recip => build::neg(times(build::mul(own.clone(), own.clone()))),
        },
        Fun::Binary(binary) => {
            let b = || args[1].clone();
            match (binary, which) {
                (Binary::Sub, 1) => build::neg(gradient.clone()),
                (Binary::Mul, 0) => times(b()),
                (Binary::Mul, _) => times(a()),
                (Binary::Div, 0) => build::div(gradient.clone(), b()),
                (Binary::Div, _) => build::neg(build::div(times(a()), build::mul(b(), b()))),
                (Binary::Pow, 0) => {
                    let less = build::sub(b(), number(1.0));
                    times(build::mul(b(), build::pow(a(), less)))
                }
                (Binary::Pow, _) => times(build::mul(build::pow(a(), b()), build::unary(UnaryOp::Log, a()))),
                (Binary::Gate, _) => gate(element, a(), gradient.clone()),
                (Binary::Add | Binary::Sub | Binary::Arg1 | Binary::Arg2, _) => gradient.clone(),
            }
        }
    }
}
