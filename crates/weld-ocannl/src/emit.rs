//! Tensors and steps as Weld: every operation becomes loops ([`weld_tensor`]), every tensor a binding.
//!
//! A tensor's value is a flat vector, or a number where it has one cell. A number also stands for a tensor whose cells
//! are all that number, such as the gradient of a sum.

use std::collections::HashMap;

use weld_core::diag::{Diagnostic, Span};
use weld_core::interp::serialize;
use weld_core::ir::{Binding, Expr, ExprKind, Literal, Names, build};
use weld_core::op::{ReduceOp, UnaryOp};
use weld_core::ty::{ScalarKind, Type};
use weld_frontend::{Function, Shape, Sources};
use weld_tensor::{Fold, Index, Place, Size, View, contract, map, reduce, scatter};

use crate::dims::{Dim, Extent};
use crate::graph::{Apply, Fun, Graph, NodeId, Op};
use crate::infer::Inferred;
use crate::shape::Projection;
use crate::tree::{Accum, Binary, Unary};

/// Literals of more elements are bytes that are read when the program runs.
const ELEMENTS_MAX: usize = 64;

/// More cells than any tensor can have.
const CELLS_MAX: u64 = 1 << 40;

pub(crate) struct Emitter<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) inferred: &'a Inferred,
    pub(crate) element: ScalarKind,
    pub(crate) names: Names,
    pub(crate) bindings: Vec<Binding>,
    /// The sizes that come with the arguments, `i64`.
    pub(crate) open: Vec<Expr>,
    /// What tensors hold now.
    pub(crate) values: HashMap<NodeId, Expr>,
    pub(crate) grads: HashMap<NodeId, Expr>,
    pub(crate) sources: Sources,
}

/// Loops over a space that put terms into the cells of a tensor.
pub(crate) struct Kernel<'k> {
    pub(crate) space: Vec<Size>,
    pub(crate) out: &'k [Index],
    pub(crate) out_sizes: Vec<Size>,
    pub(crate) views: Vec<View>,
    pub(crate) accum: Accum,
    /// What the cells hold before; else the neutral element.
    pub(crate) old: Option<Expr>,
    pub(crate) span: Span,
}

type Term<'t> = &'t mut dyn FnMut(&[Expr]) -> Expr;

impl Emitter<'_> {
    pub(crate) fn number(&self, value: f64) -> Expr {
        number(self.element, value)
    }

    pub(crate) fn bind(&mut self, name: &str, value: Expr) -> Expr {
        if matches!(value.kind, ExprKind::Var(_) | ExprKind::Literal(_)) {
            return value;
        }
        let sym = self.names.fresh(name);
        let variable = build::var(sym, value.ty.clone());
        self.bindings.push(Binding { sym, value });
        variable
    }

    pub(crate) fn size(&self, dim: Dim) -> Size {
        self.extent(self.inferred.dims.extent(dim))
    }

    pub(crate) fn extent(&self, extent: Extent) -> Size {
        match extent {
            Extent::Known(size) => Size::known(size),
            Extent::Open(index) => Size::open(self.open[index].clone()),
        }
    }

    /// The sizes of a tensor's axes in the order of its data.
    pub(crate) fn sizes(&self, id: NodeId) -> Result<Vec<Size>, Diagnostic> {
        let node = self.graph.node(id);
        let Some(shape) = self.inferred.shape(id) else {
            let name = self.graph.called(id, "left");
            return Err(Diagnostic::ty(node.span, format!("the shape of {name} is not known")));
        };
        let sizes: Vec<Size> = shape.axes().into_iter().map(|dim| self.size(dim)).collect();
        if Size::product(&sizes).as_known().is_some_and(|cells| cells > CELLS_MAX) {
            let message = format!("a tensor `{}` is too large", shape.text(&self.inferred.dims));
            return Err(Diagnostic::ty(node.span, message));
        }
        Ok(sizes)
    }

    /// All cells as a vector.
    pub(crate) fn cells(&mut self, value: Expr, sizes: &[Size]) -> Expr {
        if value.ty.element().is_some() {
            return value;
        }
        if Size::product(sizes).is_one() {
            return build::vector(value.ty.clone(), [value]);
        }
        map(&mut self.names, self.element, sizes, Vec::new(), &mut |_, _| value.clone())
    }

    /// What a tensor holds: computed now where it was not before.
    pub(crate) fn value(&mut self, id: NodeId) -> Result<Expr, Diagnostic> {
        if let Some(value) = self.values.get(&id) {
            return Ok(value.clone());
        }
        for node in self.missing(id) {
            let value = self.compute(node)?;
            let name = self.graph.node(node).name.clone();
            let value = self.bind(name.as_deref().unwrap_or("t"), value);
            self.values.insert(node, value);
        }
        Ok(self.values[&id].clone())
    }

    /// The tensors that have to be computed for this one, in order.
    fn missing(&self, id: NodeId) -> Vec<NodeId> {
        let mut open = vec![id];
        let mut missing = std::collections::BTreeSet::new();
        while let Some(id) = open.pop() {
            if !self.values.contains_key(&id) && missing.insert(id) {
                open.extend(self.graph.node(id).op.args());
            }
        }
        missing.into_iter().collect()
    }

    fn compute(&mut self, id: NodeId) -> Result<Expr, Diagnostic> {
        let node = self.graph.node(id);
        match &node.op {
            Op::Argument(argument) => match argument.init {
                Some((value, _)) => self.constant(value, node.span),
                None => {
                    let name = node.name.as_deref().unwrap_or("?");
                    Err(Diagnostic::ty(node.span, format!("no value is given for `{name}`")))
                }
            },
            Op::Declared { .. } => Ok(self.number(0.0)),
            Op::Number { value, .. } => self.constant(*value, node.span),
            Op::Literal(nested) => {
                let (_, numbers) = nested.in_order();
                let fits = numbers.iter().all(|number| fits(self.element, *number));
                if !fits {
                    return Err(Diagnostic::ty(
                        node.span,
                        format!("a number of the literal is too large for {}", self.element),
                    ));
                }
                Ok(literal(self.element, &numbers))
            }
            Op::Grad(of) => Ok(self.grads.get(of).cloned().unwrap_or_else(|| self.number(0.0))),
            Op::Foreign { function, args } => self.foreign(function, args),
            Op::Apply(apply) => {
                let sizes = self.sizes(id)?;
                let projection = self.inferred.projection(id).cloned();
                let Some(projection) = projection else {
                    return Err(Diagnostic::ty(node.span, "the shapes of the operands are not known"));
                };
                let accum = if apply.max { Accum::Max } else { Accum::Add };
                self.apply(apply, &projection, sizes, accum, None, node.span)
            }
        }
    }

    /// A call of a function of the session.
    fn foreign(&mut self, function: &Function, args: &[NodeId]) -> Result<Expr, Diagnostic> {
        let mut given = Vec::new();
        for (arg, param) in args.iter().zip(&function.params) {
            let (value, sizes) = (self.value(*arg)?, self.sizes(*arg)?);
            given.push(match &param.shape {
                Shape::Array(array) => {
                    let cells = self.cells(value, &sizes);
                    let cells = self.convert(cells, &sizes, array.element);
                    let open = array.carried().into_iter().map(|axis| sizes[axis].expr()).collect::<Vec<_>>();
                    if open.is_empty() { cells } else { build::strct(std::iter::once(cells).chain(open)) }
                }
                shape => {
                    let number = if value.ty.element().is_some() { build::lookup(value, build::i64(0)) } else { value };
                    shape.ty().as_scalar().map_or(number.clone(), |kind| build::cast(number, kind))
                }
            });
        }
        let mut result = self.sources.call(function, given, &mut self.names);
        if !function.gradients.is_empty() {
            result = build::field(result, 0);
        }
        let result = self.bind("t", result);
        match &function.result {
            Shape::Array(array) if array.elements() == Some(1) => {
                Ok(build::cast(build::lookup(result, build::i64(0)), self.element))
            }
            Shape::Array(array) => {
                let sizes: Vec<Size> = array.sizes.iter().map(|size| Size::known(size.unwrap_or(0))).collect();
                Ok(self.convert(result, &sizes, self.element))
            }
            _ => Ok(build::cast(result, self.element)),
        }
    }

    /// Cells as another type of number.
    pub(crate) fn convert(&mut self, cells: Expr, sizes: &[Size], to: ScalarKind) -> Expr {
        if cells.ty == Type::vec(Type::Scalar(to)) {
            return cells;
        }
        let total = Size::product(sizes);
        let view = View::whole(self.bind("cells", cells), std::slice::from_ref(&total));
        map(&mut self.names, to, &[total], vec![view], &mut |_, e| build::cast(e[0].clone(), to))
    }

    fn constant(&self, value: f64, span: Span) -> Result<Expr, Diagnostic> {
        match fits(self.element, value) {
            true => Ok(self.number(value)),
            false => Err(Diagnostic::ty(span, format!("the number `{value}` is too large for {}", self.element))),
        }
    }

    /// The operation over its operands.
    pub(crate) fn apply(
        &mut self,
        apply: &Apply,
        projection: &Projection,
        out_sizes: Vec<Size>,
        accum: Accum,
        old: Option<Expr>,
        span: Span,
    ) -> Result<Expr, Diagnostic> {
        let space: Vec<Size> = projection.space.iter().map(|dim| self.size(*dim)).collect();
        let views = self.operand_views(apply, projection)?;
        let (element, fun) = (self.element, apply.fun);
        let kernel = Kernel { space, out: &projection.out, out_sizes, views, accum, old, span };
        Ok(self.kernel(kernel, &mut |args| term(element, fun, args)))
    }

    pub(crate) fn operand_views(&mut self, apply: &Apply, projection: &Projection) -> Result<Vec<View>, Diagnostic> {
        let rank = projection.space.len();
        let mut views = Vec::new();
        for (arg, indices) in apply.args.iter().zip(&projection.args) {
            let data = self.value(*arg)?;
            let sizes = self.sizes(*arg)?;
            views.push(View::of(data, &sizes, indices, rank));
        }
        Ok(views)
    }

    /// A number that stands for an operand.
    fn dummy(&mut self) -> Expr {
        build::param(&mut self.names, "e", Type::Scalar(self.element))
    }

    // Loops.

    pub(crate) fn kernel(&mut self, mut kernel: Kernel<'_>, term: Term<'_>) -> Expr {
        let span = kernel.span;
        // Operands that the term does not look at are not read.
        let dummies: Vec<Expr> = kernel.views.iter().map(|_| self.dummy()).collect();
        let free = term(&dummies).free_vars();
        let is_used = |e: &Expr| matches!(e.kind, ExprKind::Var(sym) if free.contains(&sym));
        let mut flags = dummies.iter().map(is_used);
        kernel.views.retain(|_| flags.next().unwrap_or(true));
        let term: Term<'_> = &mut |elements: &[Expr]| {
            let mut read = elements.iter();
            let all: Vec<Expr> = dummies
                .iter()
                .map(|dummy| match is_used(dummy) {
                    true => read.next().cloned().unwrap_or_else(|| dummy.clone()),
                    false => dummy.clone(),
                })
                .collect();
            term(&all)
        };
        let value = match outer_axes(&kernel) {
            Some(outer) => self.gather(kernel, &outer, term),
            None => self.scatter(kernel, term),
        };
        located(value, span)
    }

    /// Cell by cell: every cell is one point of the outer axes.
    fn gather(&mut self, kernel: Kernel<'_>, outer: &[usize], term: Term<'_>) -> Expr {
        let Kernel { space, out, out_sizes, mut views, accum, old, .. } = kernel;
        let rank = space.len();
        let inner: Vec<usize> = (0..rank).filter(|axis| !outer.contains(axis) && !space[*axis].is_one()).collect();
        let count = views.len();
        let has_old = old.is_some();
        views.extend(old.map(|old| View::of(old, &out_sizes, out, rank)));
        for view in &mut views {
            view.strides = outer.iter().chain(&inner).map(|axis| view.strides[*axis].clone()).collect();
        }
        let sizes = |axes: &[usize]| axes.iter().map(|axis| space[*axis].clone()).collect::<Vec<_>>();
        let (outer, inner) = (sizes(outer), sizes(&inner));
        let is_cell = outer.iter().all(Size::is_one);
        let element = self.element;
        let names = &mut self.names;
        if inner.is_empty() {
            let mut cell = |elements: &[Expr]| {
                let value = term(&elements[..count]);
                put(element, accum, has_old.then(|| elements[count].clone()), value)
            };
            return match is_cell {
                true => cell(&views.iter().map(View::element).collect::<Vec<_>>()),
                false => map(names, element, &outer, views, &mut |_, elements| cell(elements)),
            };
        }
        let mut inside = |_: &mut Names, elements: &[Expr]| term(&elements[..count]);
        let mut finish = |_: &mut Names, reduced: Expr, elements: &[Expr]| match (accum, has_old) {
            (Accum::Sub, false) => build::neg(reduced),
            (Accum::Div | Accum::Pow | Accum::Gate, _) | (_, false) => reduced,
            (accum, true) => put(element, accum, Some(elements[count].clone()), reduced),
        };
        let mut start = |_: &mut Names, elements: &[Expr]| match has_old {
            true => elements[count].clone(),
            false => number(element, neutral(accum)),
        };
        let mut step = |_: &mut Names, so_far: Expr, value: Expr| put(element, accum, Some(so_far), value);
        let fold = match merge_op(accum) {
            Some(op) => Fold::Merge { op, start: number(element, neutral(accum)) },
            None => Fold::Steps { start: &mut start, step: &mut step },
        };
        match is_cell {
            true => {
                views.iter_mut().for_each(|view| drop(view.strides.drain(..outer.len())));
                reduce(names, element, &inner, views, fold, &mut inside, &mut finish)
            }
            false => contract(names, element, &outer, &inner, views, fold, &mut inside, &mut finish),
        }
    }

    /// Point by point, into the cells that the points have.
    fn scatter(&mut self, kernel: Kernel<'_>, term: Term<'_>) -> Expr {
        let Kernel { space, out, out_sizes, views, accum, old, .. } = kernel;
        let old = old.unwrap_or_else(|| self.number(neutral(accum)));
        let old = self.cells(old, &out_sizes);
        let old = self.bind("cells", old);
        let target = View::of(old, &out_sizes, out, space.len());
        let element = self.element;
        let mut step = |_: &mut Names, so_far: Expr, value: Expr| put(element, accum, Some(so_far), value);
        let place = merge_op(accum).map_or(Place::Step(&mut step), Place::Merge);
        scatter(&mut self.names, &space, &target, &views, place, &mut |_, elements| match accum {
            Accum::Sub => build::neg(term(elements)),
            _ => term(elements),
        })
    }
}

/// The axes of the space that the result's axes are, if every cell is one point of them.
fn outer_axes(kernel: &Kernel<'_>) -> Option<Vec<usize>> {
    let mut axes: Vec<usize> = Vec::new();
    for (index, size) in kernel.out.iter().zip(&kernel.out_sizes) {
        match index.terms[..] {
            [(1, axis)] if index.offset == 0 && !axes.contains(&axis) && kernel.space[axis].same(size) => {
                axes.push(axis)
            }
            [] if index.offset == 0 && size.is_one() => {}
            _ => return None,
        }
    }
    Some(axes)
}

/// The operation of builders that accumulates so, where there is one.
fn merge_op(accum: Accum) -> Option<ReduceOp> {
    match accum {
        Accum::Add | Accum::Sub => Some(ReduceOp::Add),
        Accum::Mul => Some(ReduceOp::Mul),
        Accum::Max => Some(ReduceOp::Max),
        Accum::Min => Some(ReduceOp::Min),
        Accum::Set | Accum::Div | Accum::Pow | Accum::Gate => None,
    }
}

pub(crate) fn neutral(accum: Accum) -> f64 {
    match accum {
        Accum::Set | Accum::Add | Accum::Sub => 0.0,
        Accum::Mul | Accum::Div | Accum::Pow | Accum::Gate => 1.0,
        Accum::Max => f64::NEG_INFINITY,
        Accum::Min => f64::INFINITY,
    }
}

/// A cell after an assignment: its value before, or else the neutral element, with the new one.
fn put(element: ScalarKind, accum: Accum, old: Option<Expr>, value: Expr) -> Expr {
    let Some(old) = old else {
        return match accum {
            Accum::Sub => build::neg(value),
            Accum::Div => build::div(number(element, 1.0), value),
            Accum::Pow => build::pow(number(element, 1.0), value),
            _ => value,
        };
    };
    match accum {
        Accum::Set => value,
        Accum::Add => build::add(old, value),
        Accum::Sub => build::sub(old, value),
        Accum::Mul => build::mul(old, value),
        Accum::Div => build::div(old, value),
        Accum::Pow => build::pow(old, value),
        Accum::Gate => gate(element, old, value),
        Accum::Max => build::max(old, value),
        Accum::Min => build::min(old, value),
    }
}

pub(crate) fn gate(element: ScalarKind, condition: Expr, value: Expr) -> Expr {
    let zero = number(element, 0.0);
    build::select(build::gt(condition, zero.clone()), value, zero)
}

/// The operation on the elements of its operands.
pub(crate) fn term(element: ScalarKind, fun: Fun, args: &[Expr]) -> Expr {
    let a = || args[0].clone();
    let math = |op: UnaryOp| build::unary(op, args[0].clone());
    match fun {
        Fun::Power(exponent) => power(element, a(), exponent),
        Fun::Unary(unary) => match unary {
            Unary::Identity => a(),
            Unary::Relu => gate(element, a(), a()),
            Unary::Exp => math(UnaryOp::Exp),
            Unary::Log => math(UnaryOp::Log),
            Unary::Sqrt => math(UnaryOp::Sqrt),
            Unary::Tanh => math(UnaryOp::Tanh),
            Unary::Sin => math(UnaryOp::Sin),
            Unary::Cos => math(UnaryOp::Cos),
            Unary::Neg => build::neg(a()),
            Unary::Recip => build::div(number(element, 1.0), a()),
        },
        Fun::Binary(binary) => {
            let b = args[1].clone();
            match binary {
                Binary::Add => build::add(a(), b),
                Binary::Sub => build::sub(a(), b),
                Binary::Mul => build::mul(a(), b),
                Binary::Div => build::div(a(), b),
                Binary::Pow => match constant_of(&b) {
                    Some(exponent) => power(element, a(), exponent),
                    None => build::pow(a(), b),
                },
                Binary::Gate => gate(element, a(), b),
                Binary::Arg1 => a(),
                Binary::Arg2 => b,
            }
        }
    }
}

/// A number that is known when the program is compiled.
pub(crate) fn constant_of(e: &Expr) -> Option<f64> {
    match e.kind {
        ExprKind::Literal(Literal::F32(value)) => Some(value.into()),
        ExprKind::Literal(Literal::F64(value)) => Some(value),
        _ => None,
    }
}

/// To a constant power: small whole ones are products.
pub(crate) fn power(element: ScalarKind, x: Expr, exponent: f64) -> Expr {
    let square = || build::mul(x.clone(), x.clone());
    match exponent {
        0.0 => number(element, 1.0),
        1.0 => x,
        2.0 => square(),
        3.0 => build::mul(square(), x),
        -1.0 => build::div(number(element, 1.0), x),
        _ => build::pow(x, number(element, exponent)),
    }
}

pub(crate) fn number(element: ScalarKind, value: f64) -> Expr {
    match element {
        ScalarKind::F32 => build::lit(Literal::F32(value as f32)),
        _ => build::f64(value),
    }
}

/// Whether a finite number stays finite.
fn fits(element: ScalarKind, value: f64) -> bool {
    element != ScalarKind::F32 || (value as f32).is_finite()
}

/// A constant vector.
fn literal(element: ScalarKind, numbers: &[f64]) -> Expr {
    let ty = Type::Scalar(element);
    match numbers {
        [one] => number(element, *one),
        _ if numbers.len() <= ELEMENTS_MAX => build::vector(ty, numbers.iter().map(|value| number(element, *value))),
        _ => {
            let ty = Type::vec(ty);
            let mut bytes = serialize::header(&ty).unwrap_or_default();
            bytes.extend((numbers.len() as u64).to_le_bytes());
            for number in numbers {
                match element {
                    ScalarKind::F32 => bytes.extend((*number as f32).to_le_bytes()),
                    _ => bytes.extend(number.to_le_bytes()),
                }
            }
            build::deserialize(ty, build::node(ExprKind::Bytes(bytes.into()), Type::vec(Type::I8)))
        }
    }
}

/// The same with a place on every node that has none.
pub(crate) fn located(mut value: Expr, span: Span) -> Expr {
    value.rewrite(&mut |e| {
        if e.span == Span::NONE {
            e.span = span;
        }
    });
    value
}
