//! Where in a flat array the element for a point of an iteration space is.

use weld_core::ir::{Expr, Iter, build};

use crate::Size;

/// The index along one axis of an array: `offset + scale * coordinate + ..`, of coordinates of the space.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Index {
    pub offset: u64,
    /// Scales with the axes of the space that they are for.
    pub terms: Vec<(u64, usize)>,
}

impl Index {
    /// The coordinate itself.
    pub fn axis(axis: usize) -> Index {
        Index { offset: 0, terms: vec![(1, axis)] }
    }

    /// Always the same place; 0 for an axis of one element that is broadcast.
    pub fn fixed(offset: u64) -> Index {
        Index { offset, terms: Vec::new() }
    }
}

/// A flat array seen from an iteration space.
#[derive(Clone, Debug)]
pub struct View {
    /// A variable of type `vec[T]`; or a `T`, which is the element at every point.
    pub data: Expr,
    /// The place of the space's first point.
    pub offset: Option<Expr>,
    /// How far apart the elements of neighbours are, for each axis of the space.
    pub strides: Vec<Size>,
    /// The number of elements of the array.
    pub total: Size,
}

impl View {
    /// Of a row-major array with these sizes: the element at `indices`, one for each of its axes, in a space of `rank`
    /// axes.
    pub fn of(data: Expr, sizes: &[Size], indices: &[Index], rank: usize) -> View {
        if data.ty.element().is_none() {
            return View::value(data, rank);
        }
        let mut strides: Vec<Vec<Size>> = vec![Vec::new(); rank];
        let mut offset: Option<Expr> = None;
        let mut stride = Size::known(1);
        for (size, index) in sizes.iter().zip(indices).rev() {
            for (scale, axis) in &index.terms {
                strides[*axis].push(stride.times(&Size::known(*scale)));
            }
            if index.offset > 0 {
                offset = Some(plus(offset, stride.times(&Size::known(index.offset)).expr()));
            }
            stride = size.times(&stride);
        }
        View { data, offset, strides: strides.into_iter().map(sum).collect(), total: Size::product(sizes) }
    }

    /// Of a number, which is the element at every point of a space of `rank` axes.
    pub fn value(value: Expr, rank: usize) -> View {
        View { data: value, offset: None, strides: vec![Size::known(0); rank], total: Size::known(1) }
    }

    /// Of a row-major array in a space of its own axes.
    pub fn whole(data: Expr, sizes: &[Size]) -> View {
        let indices: Vec<Index> = (0..sizes.len()).map(Index::axis).collect();
        View::of(data, sizes, &indices, sizes.len())
    }

    /// The same view where the coordinate of an axis is `at`; the axis is gone from what [`View::element`] sees.
    pub(crate) fn moved(&self, axis: usize, at: &Expr) -> View {
        let stride = &self.strides[axis];
        let mut view = self.clone();
        if !stride.is_zero() {
            let step = if stride.is_one() { at.clone() } else { build::mul(at.clone(), stride.expr()) };
            view.offset = Some(plus(view.offset, step));
        }
        view.strides[axis] = Size::known(0);
        view
    }

    /// The element at the first point.
    pub fn element(&self) -> Expr {
        if self.data.ty.element().is_none() {
            return self.data.clone();
        }
        build::lookup(self.data.clone(), self.offset.clone().unwrap_or_else(|| build::i64(0)))
    }

    /// The elements along an axis of `size` points.
    pub(crate) fn along(&self, axis: usize, size: &Size) -> Iter {
        let stride = &self.strides[axis];
        let start = self.offset.clone().unwrap_or_else(|| build::i64(0));
        match stride.is_one() {
            true if self.offset.is_none() && size.same(&self.total) => Iter::Vector(self.data.clone()),
            true => Iter::Vector(build::slice(self.data.clone(), start, size.expr())),
            false => {
                let last = build::mul(build::sub(size.expr(), build::i64(1)), stride.expr());
                let mut start = start;
                let mut end = build::add(build::add(start.clone(), last), build::i64(1));
                if size.as_known().is_none() {
                    // Of no elements there is no first one, wherever its place would be.
                    let is_any = build::gt(size.expr(), build::i64(0));
                    end = build::select(is_any.clone(), end, build::i64(0));
                    start = build::select(is_any, start, build::i64(0));
                }
                Iter::Strided { data: self.data.clone(), start, end, stride: stride.expr() }
            }
        }
    }
}

/// Strides of several terms of one axis: the diagonal. Those of known sizes are added up, others become one expression.
fn sum(strides: Vec<Size>) -> Size {
    let mut known = 0u64;
    let mut open: Option<Expr> = None;
    let count = strides.len();
    for stride in strides {
        match stride.as_known() {
            Some(stride) => known = known.saturating_add(stride),
            None if count == 1 => return stride,
            None => open = Some(plus(open, stride.expr())),
        }
    }
    match open {
        None => Size::known(known),
        Some(open) => Size::open(plus(Some(open), build::i64(known as i64))),
    }
}

fn plus(sum: Option<Expr>, more: Expr) -> Expr {
    match sum {
        Some(sum) => build::add(sum, more),
        None => more,
    }
}
