//! What an einsum specification makes of shapes: the axes of the loops, and the result's shape.

use std::collections::HashMap;
use std::sync::Arc;

use weld_core::diag::Span;
use weld_tensor::Index;

use crate::dims::{Clash, Dim, Dims, Extent};
use crate::shape::{Projection, Shape, aligned};
use crate::spec::{Axis, Row, Rows, Spec};

/// The shape of the result and the loops, or what is wrong. With a `target` the result is that. `called` are the
/// operands in messages, the target behind them.
pub(crate) fn project(
    spec: &Spec,
    args: &[Shape],
    target: Option<&Shape>,
    called: &[String],
    dims: &mut Dims,
    span: Span,
) -> Result<(Shape, Projection), String> {
    let mut einsum =
        Einsum { dims, span, space: Vec::new(), labels: HashMap::new(), rows: HashMap::new(), first: HashMap::new() };
    for ((rows, shape), called) in spec.args.iter().zip(args).zip(called) {
        einsum.counts(rows, shape, called)?;
        einsum.labels_of(rows, shape)?;
    }
    if let (Some(target), Some(called)) = (target, called.last()) {
        einsum.counts(&spec.result, target, called)?;
    }
    einsum.affine(spec, args, target)?;
    let shape = einsum.result(&spec.result, target)?;
    einsum.row_axes();
    let mut operands = Vec::new();
    for (rows, shape) in spec.args.iter().zip(args) {
        operands.push(einsum.indices(rows, shape)?);
    }
    let out = einsum.indices(&spec.result, &shape)?;
    Ok((shape, Projection { space: einsum.space, out, args: operands }))
}

struct Einsum<'a> {
    dims: &'a mut Dims,
    span: Span,
    space: Vec<Dim>,
    /// The axis of the space that a label is.
    labels: HashMap<Arc<str>, usize>,
    /// The axes of a row variable, and the first of them in the space.
    rows: HashMap<Arc<str>, Vec<Dim>>,
    first: HashMap<Arc<str>, usize>,
}

/// The axes of a row with their sizes, and the sizes of its row variable.
fn matched<'s>(row: &'s Row, dims: &[Dim]) -> (Vec<(&'s Axis, Dim)>, Vec<Dim>) {
    let (before, rest) = dims.split_at(row.before.len());
    let (middle, after) = rest.split_at(rest.len() - row.after.len());
    let axes = row.before.iter().zip(before).chain(row.after.iter().zip(after));
    (axes.map(|(axis, dim)| (axis, *dim)).collect(), middle.to_vec())
}

impl Einsum<'_> {
    /// A row without a variable has as many axes as the tensor, one with a variable at most as many.
    fn counts(&self, rows: &Rows, shape: &Shape, called: &str) -> Result<(), String> {
        for ((kind, row), dims) in rows.rows().into_iter().zip(&shape.rows) {
            let fits = if row.variable.is_some() { row.len() <= dims.len() } else { row.len() == dims.len() };
            if !fits {
                let at_least = if row.variable.is_some() { "at least " } else { "" };
                return Err(format!(
                    "the specification has {at_least}{} {kind} ax{} for {called}, which has {}: it is `{}`",
                    row.len(),
                    if row.len() == 1 { "is" } else { "es" },
                    dims.len(),
                    shape.text(self.dims)
                ));
            }
        }
        Ok(())
    }

    fn labels_of(&mut self, rows: &Rows, shape: &Shape) -> Result<(), String> {
        for ((kind, row), dims) in rows.rows().into_iter().zip(&shape.rows) {
            let (axes, middle) = matched(row, dims);
            for (axis, dim) in axes {
                match axis {
                    Axis::Label(label) => self.label(label, dim)?,
                    Axis::Fixed(index) => self.fixed(*index, dim)?,
                    Axis::Any | Axis::Affine { .. } => {}
                }
            }
            if let Some(variable) = &row.variable {
                let joined = match self.rows.get(variable) {
                    None => middle,
                    Some(known) => {
                        let known = known.clone();
                        self.dims.join_rows(&known, &middle, self.span).map_err(|clash| {
                            format!("the {kind} axes of the row variable `{}` {}", shown(variable), differ(&clash))
                        })?
                    }
                };
                self.rows.insert(variable.clone(), joined);
            }
        }
        Ok(())
    }

    fn label(&mut self, label: &Arc<str>, dim: Dim) -> Result<(), String> {
        match self.labels.get(label) {
            None => {
                self.labels.insert(label.clone(), self.space.len());
                self.space.push(dim);
                Ok(())
            }
            Some(axis) => {
                let known = self.space[*axis];
                self.dims.unify(known, dim, self.span).map_err(|clash| match clash {
                    Clash::Sizes(a, b) => format!("the label `{label}` has two sizes: {a} and {b}"),
                    clash => format!("the axes of the label `{label}` {}", differ(&clash)),
                })
            }
        }
    }

    fn fixed(&self, index: u64, dim: Dim) -> Result<(), String> {
        match self.dims.extent(dim) {
            Extent::Known(size) if index >= size => {
                Err(format!("the index {index} is outside of an axis of size {size}"))
            }
            _ => Ok(()),
        }
    }

    /// The sizes of labels that stand in affine axes only, and whether those stay within their axes.
    fn affine(&mut self, spec: &Spec, args: &[Shape], target: Option<&Shape>) -> Result<(), String> {
        let mut open: Vec<([u64; 2], [Arc<str>; 2], Dim)> = Vec::new();
        for (rows, shape) in spec.args.iter().zip(args) {
            for ((_, row), dims) in rows.rows().into_iter().zip(&shape.rows) {
                for (axis, dim) in matched(row, dims).0 {
                    if let Axis::Affine { scales, labels } = axis {
                        open.push((*scales, labels.clone(), dim));
                    }
                }
            }
        }
        let is_affine = |label: &Arc<str>| open.iter().any(|(_, labels, _)| labels.contains(label));
        if let Some(target) = target {
            for ((_, row), dims) in spec.result.rows().into_iter().zip(&target.rows) {
                for (axis, dim) in matched(row, dims).0 {
                    if let Axis::Label(label) = axis
                        && !self.labels.contains_key(label)
                        && is_affine(label)
                    {
                        self.label(label, dim)?;
                    }
                }
            }
        }
        while !open.is_empty() {
            let before = open.len();
            let mut rest = Vec::new();
            for part in open {
                if !self.solve(&part)? {
                    rest.push(part);
                }
            }
            if rest.len() == before {
                let labels = &rest[0].1;
                return Err(format!("the sizes of the labels `{}` and `{}` are not known", labels[0], labels[1]));
            }
            open = rest;
        }
        Ok(())
    }

    fn known(&self, dim: Dim) -> Result<u64, String> {
        match self.dims.extent(dim) {
            Extent::Known(size) => Ok(size),
            Extent::Open(_) => Err("an affine axis needs a size that is known when it is compiled".into()),
        }
    }

    /// `scales[0] * labels[0] + scales[1] * labels[1]` runs over an axis. False: neither label is known yet.
    fn solve(&mut self, (scales, labels, dim): &([u64; 2], [Arc<str>; 2], Dim)) -> Result<bool, String> {
        let size = self.known(*dim)?;
        let mut sizes = [None, None];
        for (known, label) in sizes.iter_mut().zip(labels) {
            if let Some(axis) = self.labels.get(label) {
                *known = Some(self.known(self.space[*axis])?);
            }
        }
        let reach = |k: usize, count: u64| scales[k].saturating_mul(count.saturating_sub(1));
        let text = || affine_text(scales, labels);
        match sizes {
            [None, None] if labels[0] == labels[1] => {
                let count = size.saturating_sub(1) / scales[0].saturating_add(scales[1]) + 1;
                self.new_label(&labels[0], count);
            }
            [None, None] => return Ok(false),
            [Some(a), Some(b)] => {
                if a > 0 && b > 0 && reach(0, a).saturating_add(reach(1, b)) >= size {
                    return Err(format!(
                        "`{}` reaches {} for sizes {a} and {b}, outside of an axis of size {size}",
                        text(),
                        reach(0, a).saturating_add(reach(1, b))
                    ));
                }
            }
            [known, other] => {
                let (unknown, count) = if known.is_none() { (0, other) } else { (1, known) };
                let count = count.unwrap_or(1);
                let room = size.checked_sub(1).and_then(|last| last.checked_sub(reach(1 - unknown, count)));
                let Some(room) = room else {
                    return Err(format!("`{}`: {count} points do not fit into an axis of size {size}", text()));
                };
                self.new_label(&labels[unknown].clone(), room / scales[unknown] + 1);
            }
        }
        Ok(true)
    }

    fn new_label(&mut self, label: &Arc<str>, size: u64) {
        let dim = self.dims.fresh(Extent::Known(size), None);
        self.labels.insert(label.clone(), self.space.len());
        self.space.push(dim);
    }

    /// The result's shape: the target, or what the labels say.
    fn result(&mut self, rows: &Rows, target: Option<&Shape>) -> Result<Shape, String> {
        let mut shape = Shape::default();
        for (kind, (name, row)) in rows.rows().into_iter().enumerate() {
            self.on_a_left_side(row)?;
            let given = target.map(|target| matched(row, &target.rows[kind]));
            let mut dims: Vec<Dim> = Vec::new();
            for (place, axis) in row.axes().enumerate() {
                if place == row.before.len() {
                    dims.extend(self.middle(row, name, given.as_ref().map(|given| &given.1))?);
                }
                dims.push(self.result_axis(axis, given.as_ref().map(|given| given.0[place].1))?);
            }
            if row.after.is_empty() {
                dims.extend(self.middle(row, name, given.as_ref().map(|given| &given.1))?);
            }
            shape.rows[kind] = dims;
        }
        Ok(shape)
    }

    fn on_a_left_side(&self, row: &Row) -> Result<(), String> {
        let missing =
            |what: &str, name: &str| Err(format!("the {what} `{name}` on the right of `=>` is on no left side"));
        for axis in row.axes() {
            let labels = match axis {
                Axis::Label(label) => std::slice::from_ref(label),
                Axis::Affine { labels, .. } => labels,
                Axis::Any | Axis::Fixed(_) => continue,
            };
            if let Some(label) = labels.iter().find(|label| !self.labels.contains_key(*label)) {
                return missing("label", label);
            }
        }
        match &row.variable {
            Some(variable) if !self.rows.contains_key(variable) => missing("row variable", shown(variable)),
            _ => Ok(()),
        }
    }

    /// The axes of the row variable in the result.
    fn middle(&mut self, row: &Row, kind: &str, given: Option<&Vec<Dim>>) -> Result<Vec<Dim>, String> {
        let Some(variable) = &row.variable else { return Ok(Vec::new()) };
        let known = self.rows[variable].clone();
        let Some(given) = given else { return Ok(known) };
        self.dims.fit_rows(&known, given, self.span).map_err(|clash| {
            format!(
                "the {kind} axes of the row variable `{}` {} from those assigned to",
                shown(variable),
                differ(&clash)
            )
        })?;
        self.rows.insert(variable.clone(), given.clone());
        Ok(given.clone())
    }

    fn result_axis(&mut self, axis: &Axis, given: Option<Dim>) -> Result<Dim, String> {
        match (axis, given) {
            (Axis::Label(label), None) => Ok(self.space[self.labels[label]]),
            (Axis::Label(label), Some(dim)) => self.label(&label.clone(), dim).map(|()| dim),
            (Axis::Any, Some(dim)) => Ok(dim),
            (Axis::Any, None) => Ok(self.dims.fresh(Extent::Known(1), None)),
            (Axis::Fixed(index), Some(dim)) => self.fixed(*index, dim).map(|()| dim),
            (Axis::Fixed(index), None) => Ok(self.dims.fresh(Extent::Known(index + 1), None)),
            (Axis::Affine { scales, labels }, given) => {
                let mut last: u64 = 0;
                for (scale, label) in scales.iter().zip(labels) {
                    let size = self.known(self.space[self.labels[label]])?;
                    last = last.saturating_add(scale.saturating_mul(size.saturating_sub(1)));
                }
                let Some(dim) = given else { return Ok(self.dims.fresh(Extent::Known(last.saturating_add(1)), None)) };
                match self.known(dim)? {
                    size if last < size => Ok(dim),
                    size => Err(format!(
                        "`{}` reaches {last}, outside of an axis of size {size}",
                        affine_text(scales, labels)
                    )),
                }
            }
        }
    }

    /// Gives the axes of row variables their places in the space.
    fn row_axes(&mut self) {
        let mut variables: Vec<&Arc<str>> = self.rows.keys().collect();
        variables.sort();
        for variable in variables {
            self.first.insert(variable.clone(), self.space.len());
            self.space.extend(&self.rows[variable]);
        }
    }

    fn indices(&mut self, rows: &Rows, shape: &Shape) -> Result<Vec<Index>, String> {
        let mut indices = Vec::new();
        for ((_, row), dims) in rows.rows().into_iter().zip(&shape.rows) {
            let (axes, middle) = matched(row, dims);
            let axes: Vec<Index> = axes.into_iter().map(|(axis, dim)| self.index(axis, dim)).collect();
            let (before, after) = axes.split_at(row.before.len());
            indices.extend_from_slice(before);
            if let Some(variable) = &row.variable {
                indices.extend(aligned(&middle, &self.rows[variable], self.first[variable], self.dims));
            }
            indices.extend_from_slice(after);
        }
        Ok(indices)
    }

    fn index(&mut self, axis: &Axis, dim: Dim) -> Index {
        match axis {
            Axis::Label(label) => Index::axis(self.labels[label]),
            Axis::Fixed(index) => Index::fixed(*index),
            Axis::Any => {
                self.space.push(dim);
                Index::axis(self.space.len() - 1)
            }
            Axis::Affine { scales, labels } => {
                let term = |(scale, label): (&u64, &Arc<str>)| (*scale, self.labels[label]);
                Index { offset: 0, terms: scales.iter().zip(labels).map(term).collect() }
            }
        }
    }
}

fn affine_text(scales: &[u64; 2], labels: &[Arc<str>; 2]) -> String {
    let part = |k: usize| if scales[k] == 1 { labels[k].to_string() } else { format!("{}*{}", scales[k], labels[k]) };
    format!("{}+{}", part(0), part(1))
}

/// A row variable as it was written.
fn shown(variable: &str) -> &str {
    if variable.starts_with("...") { "..." } else { variable }
}

/// How two rows or axes differ.
pub(crate) fn differ(clash: &Clash) -> String {
    match clash {
        Clash::Sizes(a, b) => format!("differ: {a} and {b}"),
        Clash::Labels(a, b) => format!("differ in their labels: `{a}` and `{b}`"),
        Clash::Counts(a, b) => format!("differ in number: {a} and {b}"),
    }
}
