//! What constants and static sizes prove: indices, ranges and dimensions outside a matrix.

use weld_core::diag::Span;

use super::Checker;
use crate::typed::{Expr, constant};
use crate::types::Dim;

impl Checker<'_> {
    pub(super) fn rank_fits(&mut self, name: &str, rank: usize, found: usize, span: Span) -> bool {
        if rank == found {
            return true;
        }
        let plural = |n: usize| if n == 1 { "index".to_owned() } else { "indices".to_owned() };
        let message = format!("`{name}` has rank {rank}: expected {rank} {}, found {found}", plural(rank));
        self.error(span, message);
        false
    }

    /// An index that is a constant lies inside.
    pub(super) fn index_fits(&mut self, name: &str, at: usize, index: &Expr, dim: Dim) {
        let Some(value) = constant(index).map(i64::from) else { return };
        if value < 0 || dim.known().is_some_and(|size| value >= size) {
            let message = format!("index {value} is out of bounds: the size of `{name}` in dimension {at} is {dim}");
            self.error(index.span, message);
        }
    }

    /// `start...end` of constants is a part of the dimension.
    pub(super) fn range_fits(&mut self, name: &str, at: usize, (start, end): (&Expr, &Expr), dim: Dim, span: Span) {
        let (from, to) = (constant(start).map(i64::from), constant(end).map(i64::from));
        let outside = |value: Option<i64>| value.is_some_and(|v| v < 0 || dim.known().is_some_and(|size| v > size));
        let reversed = from.zip(to).is_some_and(|(from, to)| from > to);
        if !(reversed || outside(from) || outside(to)) {
            return;
        }
        let shown = |value: Option<i64>| value.map_or("..".to_owned(), |value| value.to_string());
        let range = format!("{}...{}", shown(from), shown(to));
        let message = match reversed {
            true => format!("the slice {range} of `{name}` in dimension {at} begins after its end"),
            false => format!("the slice {range} is out of bounds: the size of `{name}` in dimension {at} is {dim}"),
        };
        self.error(span, message);
    }

    /// The dimension of `m $ d`, if it is a constant, is one of the matrix.
    pub(super) fn dim_fits(&mut self, name: &str, dim: &Expr, rank: usize) {
        if let Some(value) = constant(dim)
            && usize::try_from(value).map_or(true, |value| value >= rank)
        {
            let message = format!("`$`: dimension {value} is out of bounds: the rank of `{name}` is {rank}");
            self.error(dim.span, message);
        }
    }
}
