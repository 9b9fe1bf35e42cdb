//! Random loops and builders.

use weld_core::ir::{Expr, ExprKind, Func, Iter, build};
use weld_core::op::{MergeOp, ReduceOp};
use weld_core::ty::{BuilderType, ScalarKind, Type};

use super::{Generator, types};

impl Generator {
    /// The result of a builder, filled by loops, that gives this type.
    pub(super) fn built(&mut self, ty: &Type, depth: usize) -> Expr {
        let Some(builder) = types::builder_of(&mut self.rng, ty) else { return build::zero(ty) };
        let lanes = match (ty, &builder) {
            (ty, BuilderType::Merger { .. }) => ty.as_scalar(),
            (Type::Vec(element), BuilderType::Appender(_)) => element.as_scalar(),
            _ => None,
        };
        if let Some(kind) = lanes
            && self.rng.one_in(8)
        {
            return build::result(self.simd_loops(kind, builder, depth));
        }
        let new = self.new_builder(&builder, depth);
        let filled = self.filled(new, depth);
        build::result(filled)
    }

    /// Several builders filled by one loop.
    pub(super) fn built_together(&mut self, fields: &[Type], depth: usize) -> Option<Expr> {
        let builders: Option<Vec<BuilderType>> =
            fields.iter().map(|field| types::builder_of(&mut self.rng, field)).collect();
        let builders: Vec<Expr> = builders?.iter().map(|builder| self.new_builder(builder, depth)).collect();
        let filled = self.filled(build::strct(builders), depth);
        let sym = self.names.fresh("bs");
        let variable = build::var(sym, filled.ty.clone());
        let results: Vec<Expr> = (0..fields.len()).map(|i| build::result(build::field(variable.clone(), i))).collect();
        Some(build::let_in(vec![weld_core::ir::Binding { sym, value: filled }], build::strct(results)))
    }

    pub(super) fn new_builder(&mut self, builder: &BuilderType, depth: usize) -> Expr {
        match builder {
            BuilderType::Appender(_) if self.rng.one_in(4) => {
                build::builder_with(builder.clone(), build::i64(self.rng.clone().below(5) as i64))
            }
            BuilderType::Merger { value, .. } if self.rng.one_in(3) => {
                let initial = self.expr(value, depth.min(1));
                build::builder_with(builder.clone(), initial)
            }
            BuilderType::VecMerger { value, .. } => {
                // Four elements, so that an index `& 3` lies inside, or more, so that the index of a small loop does.
                let count = if self.rng.one_in(2) { 40 } else { 4 };
                let items: Vec<Expr> = (0..4).map(|_| self.expr(value, 0)).collect();
                let items = items.iter().cycle().take(count).cloned();
                build::builder_with(builder.clone(), build::vector((**value).clone(), items))
            }
            _ => build::builder(builder.clone()),
        }
    }

    fn filled(&mut self, builder: Expr, depth: usize) -> Expr {
        if self.rng.one_in(10) {
            return self.update(builder, depth);
        }
        let once = self.for_loop(builder, depth);
        if self.rng.one_in(6) { self.for_loop(once, depth) } else { once }
    }

    fn for_loop(&mut self, builder: Expr, depth: usize) -> Expr {
        let mut bindings = Vec::new();
        let iter = self.iter(depth, &mut bindings);
        build::let_in(bindings, self.loop_over(iter, builder, depth))
    }

    pub(super) fn loop_over(&mut self, iter: Iter, builder: Expr, depth: usize) -> Expr {
        let ty = builder.ty.clone();
        let bound = self.scope.len();
        let element = iter.element_type();
        let (b, builder_var) = self.parameter("b", &ty);
        let (i, index) = self.parameter("i", &Type::I64);
        let (x, value) = self.parameter("x", &element);
        self.scope.push(index);
        self.scope.push(value.clone());
        if let Type::Struct(fields) = &element {
            self.scope.extend((0..fields.len()).map(|k| build::field(value.clone(), k)));
        }
        let body = self.update(builder_var, depth.min(4));
        self.scope.truncate(bound);
        let func = Func { params: vec![(b, ty.clone()), (i, Type::I64), (x, element)], body: Box::new(body) };
        let made = build::for_func(iter, builder, func);
        if is_ordered(&ty) { made.annotate("strict", "true") } else { made }
    }

    /// Vectors that an iterator needs twice are bound before the loop.
    fn iter(&mut self, depth: usize, bindings: &mut Vec<weld_core::ir::Binding>) -> Iter {
        let depth = depth.min(3);
        let element = types::value(&mut self.rng, 1);
        match self.rng.below(14) {
            0..=5 => Iter::Vector(self.expr(&Type::vec(element), depth)),
            6 | 7 => {
                let (start, len) = (self.rng.below(7) as i64 - 3, self.rng.below(10) as i64);
                build::range(build::i64(start), build::i64(start + len), build::i64(1 + self.rng.below(3) as i64))
            }
            8 => {
                let data = self.shared(element, depth, bindings);
                let stride = build::i64(1 + self.rng.below(3) as i64);
                let start = build::min(build::i64(self.rng.below(2) as i64), build::len(data.clone()));
                Iter::Strided { start, end: build::len(data.clone()), stride, data }
            }
            9..=11 => {
                let data = self.shared(element, depth, bindings);
                let indexes = build::range(build::i64(0), build::len(data.clone()), build::i64(1));
                let mapped_ty = types::value(&mut self.rng, 1);
                let bound = self.scope.len();
                let mapped = build::for_(
                    &mut self.names,
                    Iter::Vector(data.clone()),
                    build::appender(mapped_ty.clone()),
                    |_, b, _, _| b,
                );
                let mapped = self.mapped(mapped, &mapped_ty, depth);
                self.scope.truncate(bound);
                match self.rng.below(3) {
                    0 => Iter::Zip(vec![Iter::Vector(data.clone()), Iter::Vector(data)]),
                    1 => Iter::Zip(vec![indexes, Iter::Vector(data)]),
                    _ => Iter::Zip(vec![Iter::Vector(data), Iter::Vector(mapped)]),
                }
            }
            12 => {
                let data = self.expr(&Type::vec(element), depth);
                build::chunks(data, build::i64(1 + self.rng.below(5) as i64))
            }
            _ => {
                let items: Vec<Expr> = (0..6).map(|_| self.expr(&element, 1)).collect();
                let list = |values: [i64; 2]| build::vector(Type::I64, values.map(build::i64));
                let (shape, strides) = if self.rng.one_in(2) { ([2, 3], [3, 1]) } else { ([3, 2], [1, 3]) };
                Iter::Nd {
                    data: build::vector(element, items),
                    start: list([0, self.rng.below(2) as i64]),
                    end: list(shape),
                    stride: list([1, 1 + self.rng.below(2) as i64]),
                    shape: list(shape),
                    strides: list(strides),
                }
            }
        }
    }

    /// A vector, bound to a variable.
    fn shared(&mut self, element: Type, depth: usize, bindings: &mut Vec<weld_core::ir::Binding>) -> Expr {
        let value = self.expr(&Type::vec(element), depth);
        let sym = self.names.fresh("data");
        let variable = build::var(sym, value.ty.clone());
        bindings.push(weld_core::ir::Binding { sym, value });
        variable
    }

    /// Makes of a loop whose update does nothing one that maps every element.
    fn mapped(&mut self, mut made: Expr, ty: &Type, depth: usize) -> Expr {
        if let ExprKind::For { func, .. } = &mut made.kind {
            let (index, element) = (func.params[1].clone(), func.params[2].clone());
            self.scope.push(build::var(index.0, index.1));
            self.scope.push(build::var(element.0, element.1));
            let value = self.expr(ty, depth.min(2));
            *func.body = build::merge(func.body.take(), value);
        }
        build::result(made)
    }

    /// What a loop does with its builder, which it uses once.
    fn update(&mut self, builder: Expr, depth: usize) -> Expr {
        self.fuel -= 1;
        if !is_path(&builder) {
            // What is used on two branches must be a variable: symbols are bound once.
            let sym = self.names.fresh("bs");
            let variable = build::var(sym, builder.ty.clone());
            let body = self.update(variable, depth);
            return build::let_in(vec![weld_core::ir::Binding { sym, value: builder }], body);
        }
        let stop = depth == 0 || self.fuel <= 0;
        match self.rng.below(if stop { 6 } else { 12 }) {
            0..=5 => self.merged(builder, depth),
            6 | 7 => {
                let cond = self.expr(&Type::BOOL, depth - 1);
                let annotate = self.rng.one_in(6);
                let (on_true, on_false) = match self.rng.below(3) {
                    0 => (self.update(builder.clone(), depth - 1), self.update(builder, depth - 1)),
                    1 => (builder.clone(), self.update(builder, depth - 1)),
                    _ => (self.update(builder.clone(), depth - 1), builder),
                };
                let made = build::if_(cond, on_true, on_false);
                if annotate { made.annotate("predicate", "true") } else { made }
            }
            8 => {
                let once = self.update(builder, depth - 1);
                self.update(once, depth - 1)
            }
            9 => self.for_loop(builder, depth.min(2) - 1),
            10 => {
                let ty = types::value(&mut self.rng, 1);
                let value = self.expr(&ty, depth - 1);
                self.bind("t", value, |g, _| g.update(builder, depth - 1))
            }
            _ => builder,
        }
    }

    fn merged(&mut self, builder: Expr, depth: usize) -> Expr {
        let depth = depth.saturating_sub(1);
        match builder.ty.clone() {
            Type::Builder(ty) => {
                let value = match &ty {
                    BuilderType::VecMerger { value, .. } => {
                        let own = if self.rng.one_in(2) { self.loop_index() } else { None };
                        let index = own.unwrap_or_else(|| {
                            let index = self.expr(&Type::I64, depth);
                            let inside = !self.rng.one_in(20);
                            if inside { build::bit_and(index, build::i64(3)) } else { index }
                        });
                        build::strct([index, self.expr(value, depth)])
                    }
                    ty => self.expr(&ty.merge_type(), depth),
                };
                build::merge(builder, value)
            }
            Type::Struct(fields) => {
                let part = |g: &mut Generator, i| {
                    let part = build::field(builder.clone(), i);
                    if g.rng.one_in(4) { part } else { g.update(part, depth) }
                };
                let parts: Vec<Expr> = (0..fields.len()).map(|i| part(self, i)).collect();
                build::strct(parts)
            }
            _ => builder,
        }
    }

    /// The index of the innermost loop.
    fn loop_index(&self) -> Option<Expr> {
        let is_index = |e: &&Expr| matches!(e.kind, ExprKind::Var(sym) if self.names.name(sym) == "i");
        self.scope.iter().rev().find(is_index).cloned()
    }

    /// A builder filled lane by lane and then by what is left over.
    fn simd_loops(&mut self, kind: ScalarKind, builder: BuilderType, depth: usize) -> Expr {
        let data = self.expr(&Type::vec(Type::Scalar(kind)), depth);
        let sym = self.names.fresh("data");
        let variable = build::var(sym, data.ty.clone());
        let strict = is_ordered(&Type::Builder(builder.clone()));
        let mark = |made: Expr| if strict { made.annotate("strict", "true") } else { made };
        let three = build::number(kind, 3);
        let operation = if kind == ScalarKind::Bool { 0 } else { self.rng.below(4) };
        let value = |x: Expr, three: Expr| match operation {
            0 => x,
            1 => build::add(x.clone(), build::mul(x, three)),
            2 => build::select(build::lt(x.clone(), three.clone()), x, three),
            _ => build::max(build::neg(x), three),
        };
        let by_lanes =
            build::for_(&mut self.names, Iter::Simd(variable.clone()), build::builder(builder), |_, b, _, x| {
                build::merge(b, value(x, build::broadcast(three.clone())))
            });
        let rest = build::for_(&mut self.names, Iter::Fringe(variable), mark(by_lanes), |_, b, _, x| {
            build::merge(b, value(x, three.clone()))
        });
        build::let_in(vec![weld_core::ir::Binding { sym, value: data }], mark(rest))
    }
}

/// Whether the order of merges shows in the result: sums and products of floats.
fn is_ordered(ty: &Type) -> bool {
    match ty {
        Type::Struct(fields) => fields.iter().any(is_ordered),
        Type::Builder(
            BuilderType::Merger { value, op }
            | BuilderType::DictMerger { value, op, .. }
            | BuilderType::VecMerger { value, op },
        ) => sums_floats(value, op),
        _ => false,
    }
}

fn sums_floats(ty: &Type, op: &MergeOp) -> bool {
    match ty {
        Type::Struct(fields) => fields.iter().enumerate().any(|(i, field)| sums_floats(field, &op.field(i))),
        Type::Scalar(kind) => kind.is_float() && matches!(op, MergeOp::All(ReduceOp::Add | ReduceOp::Mul)),
        _ => false,
    }
}

/// A variable or a field of one.
fn is_path(builder: &Expr) -> bool {
    match &builder.kind {
        ExprKind::Var(_) => true,
        ExprKind::Field(of, _) => is_path(of),
        _ => false,
    }
}
