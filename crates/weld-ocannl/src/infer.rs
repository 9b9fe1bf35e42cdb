//! Shape inference: every tensor's axes, and the loops of every operation.
//!
//! Tensors are visited in order, operands first; axes that must be equal become one ([`Dims`]), which spreads labels.
//! Two things are not known from the operands: how the sizes of an argument that came as a plain list divide into kinds
//! of axes (decided by the product that it stands in, else they are output axes), and what a tensor declared on a left
//! side must hold beside its first value (it grows, and the inference starts again).

mod logic;

use std::collections::HashMap;
use std::sync::Arc;

use weld_core::diag::{Diagnostic, Span};
use weld_core::ir::deep;
use weld_core::ty::{ScalarKind, Type};
use weld_frontend::{self as values, Axes, Function};

use logic::AtAssignment;

use crate::dims::{Clash, Dim, Dims, Extent};
use crate::einsum::{self, differ};
use crate::graph::{Apply, Assignment, Graph, NodeId, Op, Step};
use crate::shape::{BATCH, INPUT, KINDS, OUTPUT, Projection, Shape, aligned, row_text};
use crate::tree::{Accum, Annotation, AxisKind, Logic};

/// A size with its label.
pub(crate) type Axis = (Extent, Option<Arc<str>>);

/// What the caller says of an argument.
#[derive(Clone, Debug)]
pub(crate) enum Given {
    Shape([Vec<Axis>; 3]),
    /// Sizes in the order of the data, kinds unknown.
    Flat(Vec<Extent>),
}

#[derive(Debug)]
pub(crate) struct Inferred {
    pub(crate) dims: Dims,
    shapes: Vec<Option<Shape>>,
    projections: Vec<Option<Projection>>,
    /// Of assignments.
    pub(crate) steps: Vec<Option<Projection>>,
}

impl Inferred {
    pub(crate) fn shape(&self, id: NodeId) -> Option<&Shape> {
        self.shapes[id.0 as usize].as_ref()
    }

    pub(crate) fn projection(&self, id: NodeId) -> Option<&Projection> {
        self.projections[id.0 as usize].as_ref()
    }
}

/// How often declared tensors may grow.
const ROUNDS_MAX: usize = 20;

pub(crate) fn infer(graph: &Graph, given: &HashMap<NodeId, Given>) -> Result<Inferred, Diagnostic> {
    let mut guesses: HashMap<NodeId, [Vec<Axis>; 3]> = HashMap::new();
    for round in 0.. {
        let inferred = Inferred {
            dims: Dims::default(),
            shapes: vec![None; graph.nodes.len()],
            projections: vec![None; graph.nodes.len()],
            steps: vec![None; graph.steps.len()],
        };
        let mut inference = Inference { graph, given, inferred, guesses: &guesses, grown: HashMap::new() };
        inference.run(round == ROUNDS_MAX)?;
        if inference.grown.is_empty() {
            return Ok(inference.inferred);
        }
        let grown = inference.grown;
        guesses.extend(grown);
    }
    Err(Diagnostic::ty(Span::new(0, 0), "the shapes do not settle"))
}

struct Inference<'a> {
    graph: &'a Graph,
    given: &'a HashMap<NodeId, Given>,
    inferred: Inferred,
    guesses: &'a HashMap<NodeId, [Vec<Axis>; 3]>,
    grown: HashMap<NodeId, [Vec<Axis>; 3]>,
}

/// What is asked of a tensor whose kinds of axes are not known.
#[derive(Clone, Copy)]
enum Want {
    Any,
    Inputs(usize),
    Counts([usize; 3]),
}

type Wrong<T> = Result<T, Diagnostic>;

impl Inference<'_> {
    fn run(&mut self, last: bool) -> Wrong<()> {
        for index in 0..self.graph.nodes.len() {
            self.visit(NodeId(index as u32), last)?;
        }
        for index in 0..self.graph.nodes.len() {
            self.force(NodeId(index as u32), Want::Any)?;
        }
        for (id, annotation, name) in &self.graph.annotated {
            self.check_annotation(*id, annotation, name)?;
        }
        for step in 0..self.graph.steps.len() {
            self.assign(step, last)?;
        }
        Ok(())
    }

    fn dims(&mut self) -> &mut Dims {
        &mut self.inferred.dims
    }

    fn fresh(&mut self, rows: &[Vec<Axis>; 3]) -> Shape {
        let dims = &mut self.inferred.dims;
        let row = |row: &Vec<Axis>| row.iter().map(|(extent, label)| dims.fresh(*extent, label.clone())).collect();
        let [batch, output, input] = rows;
        let mut rows: Vec<Vec<Dim>> = [batch, output, input].into_iter().map(row).collect();
        Shape { rows: std::array::from_fn(|kind| std::mem::take(&mut rows[kind])) }
    }

    /// A tensor's shape, where its operands' are known.
    fn visit(&mut self, id: NodeId, last: bool) -> Wrong<()> {
        if self.inferred.shape(id).is_some() {
            return Ok(());
        }
        let one =
            |label: &Option<char>| [vec![], vec![(Extent::Known(1), label.map(|l| l.to_string().into()))], vec![]];
        let rows = match &self.graph.node(id).op {
            Op::Argument(argument) => match (self.given.get(&id), &argument.init) {
                (Some(Given::Shape(rows)), _) => rows.clone(),
                (Some(Given::Flat(sizes)), _) if sizes.is_empty() => one(&None),
                (None, Some((_, label))) => match &argument.shape {
                    Some(shape) => known_rows(shape).unwrap_or_else(|| one(label)),
                    None => one(label),
                },
                _ => return Ok(()),
            },
            Op::Number { label, .. } => one(label),
            Op::Literal(nested) => [AxisKind::Batch, AxisKind::Output, AxisKind::Input].map(|kind| {
                let sizes = nested.levels.iter().filter(|level| level.0 == kind);
                sizes.map(|level| (Extent::Known(level.1 as u64), None)).collect()
            }),
            Op::Grad(of) => {
                self.force(*of, Want::Any)?;
                self.inferred.shapes[id.0 as usize] = self.inferred.shape(*of).cloned();
                return Ok(());
            }
            Op::Declared { step, .. } => return self.assign(*step, last),
            Op::Apply(apply) => return self.visit_apply(id, apply),
            Op::Foreign { function, args } => {
                for arg in args {
                    self.force(*arg, Want::Any)?;
                }
                if args.iter().any(|arg| self.inferred.shape(*arg).is_none()) {
                    return Ok(());
                }
                self.foreign(id, function, args)?
            }
        };
        let shape = self.fresh(&rows);
        self.inferred.shapes[id.0 as usize] = Some(shape);
        Ok(())
    }

    /// The shape of what a function of the session gives; its arguments must be what it takes.
    fn foreign(&self, id: NodeId, function: &Function, args: &[NodeId]) -> Wrong<[Vec<Axis>; 3]> {
        let span = self.graph.node(id).span;
        let name = &function.source.name;
        for (arg, param) in args.iter().zip(&function.params) {
            let Some(shape) = self.inferred.shape(*arg) else { continue };
            let sizes: Vec<Option<u64>> =
                shape.axes().iter().map(|dim| known(self.inferred.dims.extent(*dim))).collect();
            if !passes(&param.shape, &sizes) {
                let (found, wanted) = (shape.text(&self.inferred.dims), param.shape.described());
                let message =
                    format!("`{name}`: the parameter `{}` is {wanted}, the argument is `{found}`", param.name);
                return Err(Diagnostic::ty(span, message));
            }
        }
        let axes = |sizes: &[Option<u64>]| -> Option<Vec<Axis>> {
            sizes.iter().map(|size| size.map(|size| (Extent::Known(size), None))).collect()
        };
        let rows = match &function.result {
            values::Shape::Plain(ty) if is_number(ty) => Some([vec![], vec![(Extent::Known(1), None)], vec![]]),
            values::Shape::Array(array) if array.element.is_float() => {
                let [batch, output] = match array.axes {
                    Axes::Tensor { batch, output, .. } => [batch, output],
                    _ => [0, array.rank()],
                };
                let (first, rest) = array.sizes.split_at(batch);
                let (second, third) = rest.split_at(output);
                axes(first).zip(axes(second)).zip(axes(third)).map(|((first, second), third)| [first, second, third])
            }
            _ => None,
        };
        rows.ok_or_else(|| {
            let message = format!("`{name}` gives {}, which is no tensor of known sizes", function.result.described());
            Diagnostic::ty(span, message)
        })
    }

    fn visit_apply(&mut self, id: NodeId, apply: &Apply) -> Wrong<()> {
        self.want_args(apply)?;
        let Some(args) = self.shapes_of(apply) else { return Ok(()) };
        let span = self.graph.node(id).span;
        let (shape, projection) = self.project(apply, &args, None, span)?;
        self.inferred.shapes[id.0 as usize] = Some(shape);
        self.inferred.projections[id.0 as usize] = Some(projection);
        Ok(())
    }

    fn shapes_of(&self, apply: &Apply) -> Option<Vec<Shape>> {
        apply.args.iter().map(|arg| self.inferred.shape(*arg).cloned()).collect()
    }

    /// Decides kinds of axes of operands where the operation says them.
    fn want_args(&mut self, apply: &Apply) -> Wrong<()> {
        match (&apply.logic, &apply.args[..]) {
            (Logic::Compose, [a, b]) => {
                self.force(*b, Want::Any)?;
                let inputs = self.inferred.shape(*b).map(|shape| shape.rows[OUTPUT].len());
                if let Some(inputs) = inputs {
                    self.force(*a, Want::Inputs(inputs))?;
                }
            }
            (Logic::Transpose, [a]) => self.force(*a, Want::Any)?,
            (Logic::Einsum(spec), args) => {
                for (arg, rows) in args.iter().zip(&spec.args) {
                    let rows = rows.rows();
                    let open = rows.iter().any(|(_, row)| row.variable.is_some());
                    let want = if open { Want::Any } else { Want::Counts(rows.map(|(_, row)| row.len())) };
                    self.force(*arg, want)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Decides the kinds of axes of a tensor that has none yet, through what is computed from it point by point.
    fn force(&mut self, id: NodeId, want: Want) -> Wrong<()> {
        deep(|| {
            if self.inferred.shape(id).is_some() {
                return Ok(());
            }
            match &self.graph.node(id).op {
                Op::Argument(_) => {
                    if let Some(Given::Flat(sizes)) = self.given.get(&id) {
                        let rows = divided(sizes, want);
                        let shape = self.fresh(&rows);
                        self.inferred.shapes[id.0 as usize] = Some(shape);
                    }
                    Ok(())
                }
                Op::Apply(apply) => {
                    let pointwise = matches!(apply.logic, Logic::Pointwise);
                    // One operand's kinds are those of the other, if it has as many axes; a number says nothing of
                    // them.
                    let dims = &self.inferred.dims;
                    let says = |shape: &&Shape| shape.rows.iter().flatten().any(|dim| !dims.is_one(*dim));
                    let like = apply.args.iter().filter_map(|arg| self.inferred.shape(*arg)).find(says);
                    let like = like
                        .filter(|_| pointwise)
                        .map(|shape| Want::Counts([0, 1, 2].map(|kind| shape.rows[kind].len())));
                    for arg in &apply.args {
                        self.force(*arg, like.unwrap_or(if pointwise { want } else { Want::Any }))?;
                    }
                    self.visit_apply(id, apply)
                }
                _ => self.visit(id, true),
            }
        })
    }

    fn check_annotation(&mut self, id: NodeId, annotation: &Annotation, name: &crate::tree::Name) -> Wrong<()> {
        let Some(shape) = self.inferred.shape(id).cloned() else { return Ok(()) };
        for (row, wanted) in shape.rows.iter().zip([&annotation.batch, &annotation.output, &annotation.input]) {
            let fits = |(dim, size): (&Dim, &Option<u64>)| match (self.inferred.dims.extent(*dim), size) {
                (Extent::Known(found), Some(size)) => found == *size,
                _ => true,
            };
            if row.len() != wanted.len() || !row.iter().zip(wanted).all(fits) {
                let message = format!(
                    "the parameter `{}` is annotated `{}`, the argument is `{}`",
                    name.text,
                    annotation.text(),
                    shape.text(&self.inferred.dims)
                );
                return Err(Diagnostic::ty(name.span, message));
            }
        }
        Ok(())
    }

    // Assignments.

    fn assign(&mut self, index: usize, last: bool) -> Wrong<()> {
        if self.inferred.steps[index].is_some() {
            return Ok(());
        }
        let Step::Assign(assignment) = &self.graph.steps[index] else { return Ok(()) };
        self.want_args(&assignment.apply)?;
        for arg in &assignment.apply.args {
            self.force(*arg, Want::Any)?;
        }
        let args = self.shapes_of(&assignment.apply).ok_or_else(|| {
            let unknown = assignment.apply.args.iter().find(|arg| self.inferred.shape(**arg).is_none());
            let name = unknown.map_or("an operand".into(), |arg| self.graph.called(*arg, "right"));
            Diagnostic::ty(assignment.target_span, format!("the shape of {name} is not known"))
        })?;
        let declared = match &self.graph.node(assignment.target).op {
            Op::Declared { axes, step } => Some((axes, *step == index)),
            _ => None,
        };
        if let Some((axes, true)) = declared {
            let rows = axes.as_ref().and_then(known_rows).or_else(|| self.guesses.get(&assignment.target).cloned());
            if let Some(rows) = rows {
                let shape = self.fresh(&rows);
                self.inferred.shapes[assignment.target.0 as usize] = Some(shape);
            }
        }
        if !matches!(declared, Some((_, true))) {
            self.force(assignment.target, Want::Any)?;
        }
        let target = self.inferred.shape(assignment.target).cloned();
        let may_grow = matches!(declared, Some((None, _))) && !last;
        if let (true, Some(target)) = (may_grow, &target)
            && self.grows(assignment, &args, target)?
        {
            return Ok(());
        }
        let (shape, projection) = self
            .project(&assignment.apply, &args, target.as_ref(), assignment.op_span)
            .map_err(|e| e.at(assignment))?;
        self.check_set(assignment, &projection)?;
        self.inferred.shapes[assignment.target.0 as usize] = Some(shape);
        self.inferred.steps[index] = Some(projection);
        Ok(())
    }

    /// Whether the tensor has to be larger than it is for this assignment.
    fn grows(&mut self, assignment: &Assignment, args: &[Shape], target: &Shape) -> Wrong<bool> {
        if matches!(assignment.apply.logic, Logic::Einsum(_)) {
            return Ok(false);
        }
        let before = self.inferred.dims.clone();
        let (natural, _) = self.project(&assignment.apply, args, None, assignment.op_span)?;
        let mut larger = Vec::new();
        let mut grows = false;
        for (own, assigned) in target.rows.iter().zip(&natural.rows) {
            grows |= self.dims().fit_rows(assigned, own, assignment.span).is_err();
            match self.dims().join_rows(own, assigned, assignment.span) {
                Ok(row) => larger.push(row),
                // The projection has the message.
                Err(_) => grows = false,
            }
        }
        if grows && larger.len() == 3 {
            let rows = larger.iter().map(|row| {
                row.iter()
                    .map(|dim| (self.inferred.dims.extent(*dim), self.inferred.dims.label(*dim)))
                    .collect::<Vec<_>>()
            });
            let mut rows: Vec<Vec<Axis>> = rows.collect();
            let rows = std::array::from_fn(|kind| std::mem::take(&mut rows[kind]));
            self.grown.insert(assignment.target, rows);
            return Ok(true);
        }
        self.inferred.dims = before;
        Ok(false)
    }

    /// `=:` alone has one value for a cell.
    fn check_set(&self, assignment: &Assignment, projection: &Projection) -> Wrong<()> {
        let reduced = projection.reduced().find(|dim| !self.inferred.dims.is_one(*dim));
        match reduced {
            Some(dim) if assignment.accum == Accum::Set => {
                let size = self.inferred.dims.text(dim);
                let message = format!("`=:` only sets, but an axis of size {size} is reduced here");
                Err(Diagnostic::ty(assignment.span, message).with_hint("say how: `=:+` adds, `=:@^` takes the largest"))
            }
            _ => Ok(()),
        }
    }
}

fn known(extent: Extent) -> Option<u64> {
    match extent {
        Extent::Known(size) => Some(size),
        Extent::Open(_) => None,
    }
}

fn is_number(ty: &Type) -> bool {
    ty.as_scalar().is_some_and(ScalarKind::is_float)
}

/// Whether a tensor of these sizes can be passed.
fn passes(param: &values::Shape, sizes: &[Option<u64>]) -> bool {
    match param {
        values::Shape::Plain(ty) => is_number(ty) && sizes.iter().all(|size| *size == Some(1)),
        values::Shape::Array(array) => {
            let fits = |(own, found): (&Option<u64>, &Option<u64>)| own.is_none() || own == found;
            array.element.is_float() && array.rank() == sizes.len() && array.sizes.iter().zip(sizes).all(fits)
        }
        _ => false,
    }
}

/// The axes of an annotation without open sizes.
fn known_rows(annotation: &Annotation) -> Option<[Vec<Axis>; 3]> {
    let row = |row: &Vec<Option<u64>>| {
        row.iter().map(|size| Some((Extent::Known((*size)?), None))).collect::<Option<Vec<_>>>()
    };
    Some([row(&annotation.batch)?, row(&annotation.output)?, row(&annotation.input)?])
}

/// Sizes in the order of the data by kinds of axes.
fn divided(sizes: &[Extent], want: Want) -> [Vec<Axis>; 3] {
    let axes = |sizes: &[Extent]| sizes.iter().map(|extent| (*extent, None)).collect();
    match want {
        Want::Counts([batch, output, input]) if batch + output + input == sizes.len() => {
            [axes(&sizes[..batch]), axes(&sizes[batch..batch + output]), axes(&sizes[batch + output..])]
        }
        Want::Inputs(count) => {
            let at = sizes.len() - count.min(sizes.len());
            [Vec::new(), axes(&sizes[..at]), axes(&sizes[at..])]
        }
        _ => [Vec::new(), axes(sizes), Vec::new()],
    }
}
