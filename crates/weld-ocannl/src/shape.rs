//! Shapes: rows of axes of three kinds, and the loops that an operation makes over them.

use std::fmt::Write;

use weld_tensor::Index;

use crate::dims::{Dim, Dims};

/// The kinds of axes in the order of the data.
pub(crate) const KINDS: [&str; 3] = ["batch", "output", "input"];
pub(crate) const BATCH: usize = 0;
pub(crate) const OUTPUT: usize = 1;
pub(crate) const INPUT: usize = 2;

/// The axes of a tensor by kind.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Shape {
    pub(crate) rows: [Vec<Dim>; 3],
}

impl Shape {
    /// All axes in the order of the data.
    pub(crate) fn axes(&self) -> Vec<Dim> {
        self.rows.concat()
    }

    /// `batch | input -> output`
    pub(crate) fn text(&self, dims: &Dims) -> String {
        let row = |kind: usize| row_text(&self.rows[kind], dims);
        written(&[BATCH, OUTPUT, INPUT].map(row))
    }
}

pub(crate) fn row_text(row: &[Dim], dims: &Dims) -> String {
    row.iter().map(|dim| dims.text(*dim)).collect::<Vec<_>>().join(" ")
}

/// `batch | input -> output` of the texts of the rows batch, output, input.
pub(crate) fn written(rows: &[String; 3]) -> String {
    let mut text = String::new();
    if !rows[BATCH].is_empty() {
        let _ = write!(text, "{} | ", rows[BATCH]);
    }
    if !rows[INPUT].is_empty() {
        let _ = write!(text, "{} -> ", rows[INPUT]);
    }
    text.push_str(&rows[OUTPUT]);
    text.trim_end().to_owned()
}

/// The loops of an operation, and where each tensor's element for a point of them is.
#[derive(Clone, Debug)]
pub(crate) struct Projection {
    pub(crate) space: Vec<Dim>,
    /// An index for each axis of the result, and of each operand.
    pub(crate) out: Vec<Index>,
    pub(crate) args: Vec<Vec<Index>>,
}

impl Projection {
    /// The axes of the space that the result has no place for.
    pub(crate) fn reduced(&self) -> impl Iterator<Item = Dim> + '_ {
        let kept = |axis: usize| self.out.iter().any(|index| index.terms.iter().any(|(_, at)| *at == axis));
        (0..self.space.len()).filter(move |axis| !kept(*axis)).map(|axis| self.space[axis])
    }
}

/// The indices of a row in the axes of the space from `first` on, which are those of `large`: trailing axes go
/// together, and an axis of 1 that is stretched stays at 0.
pub(crate) fn aligned(row: &[Dim], large: &[Dim], first: usize, dims: &Dims) -> Vec<Index> {
    // Axes of 1 that `large` does not have.
    let more = row.len().saturating_sub(large.len());
    let extra = large.len().saturating_sub(row.len());
    let index = |(i, dim): (usize, &Dim)| match dims.is_one(*dim) && !dims.is_one(large[extra + i]) {
        true => Index::fixed(0),
        false => Index::axis(first + extra + i),
    };
    std::iter::repeat_n(Index::fixed(0), more).chain(row[more..].iter().enumerate().map(index)).collect()
}
