//! Iterators of `for`: each is a length and an element for every index below it.
//!
//! - `iter(v, start, end, stride)`: both ends lie in `0..=len(v)` and the stride is positive; no iteration if the range
//!   is empty.
//! - `simditer(v)` gives the elements in groups of the lane count, `fringeiter(v)` what is left over.
//! - `nditer(v, start, end, stride, shape, strides)`: coordinate `d` runs from `start[d]` to below `end[d]` by
//!   `stride[d]`, within `0..=shape[d]`, the last one fastest; the element is `v[sum of coordinate[d] * strides[d]]`.
//!   There is at least one dimension. All positions that it visits must lie in the data.
//! - `chunkiter(v, size)`: slices of `size` elements, the last may be shorter.
//!
//! The index that the update function sees counts iterations from 0, whatever the iterator.

use std::sync::Arc;

use super::LANES;
use super::value::{Value, Vector};
use crate::builder::Failure;
use crate::ir::Literal;
use crate::runtime_error::RuntimeErrorKind;

const BAD: Failure = (RuntimeErrorKind::BadIterator, [0, 0]);

/// An evaluated iterator.
pub(super) enum Source {
    Vector(Vector),
    Strided { data: Vector, start: usize, stride: usize, len: usize },
    Range { start: i64, stride: i64, len: usize },
    Simd(Vector),
    Fringe(Vector),
    Nd { data: Vector, dims: Vec<Dim>, len: usize },
    Chunks { data: Vector, size: usize },
    Zip(Vec<Source>),
}

/// One dimension of an `nditer`.
pub(super) struct Dim {
    start: i64,
    step: i64,
    count: usize,
    stride: i64,
}

/// How many steps lead from `start` to below `end`. `None` if the stride is not positive.
fn steps(start: i64, end: i64, stride: i64) -> Option<usize> {
    if stride <= 0 {
        return None;
    }
    let distance = (i128::from(end) - i128::from(start)).max(0);
    usize::try_from((distance + i128::from(stride) - 1) / i128::from(stride)).ok()
}

/// The dimensions of an `nditer` over data of that length, and how many elements it gives.
pub(super) fn dimensions(data_len: i64, lists: [&[i64]; 5]) -> Result<(Vec<Dim>, i64), Failure> {
    let [start, end, stride, shape, strides] = lists;
    let rank = start.len();
    if rank == 0 || lists.iter().any(|list| list.len() != rank) {
        return Err(BAD);
    }
    let mut dims = Vec::with_capacity(rank);
    let mut len: i64 = 1;
    // The smallest and the largest position that is visited.
    let (mut low, mut high) = (0i128, 0i128);
    for d in 0..rank {
        let inside = 0..=shape[d];
        if !inside.contains(&start[d]) || !inside.contains(&end[d]) {
            return Err(BAD);
        }
        let count = steps(start[d], end[d], stride[d]).ok_or(BAD)?;
        len = len.checked_mul(i64::try_from(count).map_err(|_| BAD)?).ok_or(BAD)?;
        let last = i128::from(start[d]) + (count.max(1) as i128 - 1) * i128::from(stride[d]);
        let ends = [i128::from(start[d]), last].map(|at| at.saturating_mul(i128::from(strides[d])));
        low = low.saturating_add(ends[0].min(ends[1]));
        high = high.saturating_add(ends[0].max(ends[1]));
        dims.push(Dim { start: start[d], step: stride[d], count, stride: strides[d] });
    }
    if len > 0 && (low < 0 || high >= i128::from(data_len)) {
        return Err(BAD);
    }
    Ok((dims, len))
}

impl Source {
    pub(super) fn strided(data: Vector, start: i64, end: i64, stride: i64) -> Result<Source, Failure> {
        let len = data.len() as i64;
        if !(0..=len).contains(&start) || !(0..=len).contains(&end) {
            return Err(BAD);
        }
        let count = steps(start, end, stride).ok_or(BAD)?;
        Ok(Source::Strided { data, start: start as usize, stride: stride as usize, len: count })
    }

    pub(super) fn range(start: i64, end: i64, stride: i64) -> Result<Source, Failure> {
        let len = steps(start, end, stride).ok_or(BAD)?;
        Ok(Source::Range { start, stride, len })
    }

    pub(super) fn chunks(data: Vector, size: i64) -> Result<Source, Failure> {
        if size <= 0 {
            return Err(BAD);
        }
        Ok(Source::Chunks { data, size: usize::try_from(size).map_err(|_| BAD)? })
    }

    pub(super) fn nd(data: Vector, lists: [&[i64]; 5]) -> Result<Source, Failure> {
        let (dims, len) = dimensions(data.len() as i64, lists)?;
        Ok(Source::Nd { data, dims, len: len as usize })
    }

    pub(super) fn zip(parts: Vec<Source>) -> Result<Source, Failure> {
        let lens: Vec<usize> = parts.iter().map(Source::len).collect();
        match lens.iter().find(|len| **len != lens[0]) {
            Some(other) => Err((RuntimeErrorKind::LengthMismatch, [lens[0] as i64, *other as i64])),
            None => Ok(Source::Zip(parts)),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Source::Vector(data) => data.len(),
            Source::Strided { len, .. } | Source::Range { len, .. } | Source::Nd { len, .. } => *len,
            Source::Simd(data) => data.len() / LANES,
            Source::Fringe(data) => data.len() % LANES,
            Source::Chunks { data, size } => data.len().div_ceil(*size),
            Source::Zip(parts) => parts.first().map_or(0, Source::len),
        }
    }

    /// The element of iteration `i`; `None` only for SIMD elements that are no scalars.
    pub(super) fn get(&self, i: usize) -> Option<Value> {
        Some(match self {
            Source::Vector(data) => data[i].clone(),
            Source::Strided { data, start, stride, .. } => data[start + i * stride].clone(),
            // In range: steps() counted only values below `end`.
            Source::Range { start, stride, .. } => Value::i64(start.wrapping_add((i as i64).wrapping_mul(*stride))),
            Source::Simd(data) => {
                let lanes: Option<Arc<[Literal]>> = data[i * LANES..(i + 1) * LANES].iter().map(as_scalar).collect();
                Value::Simd(lanes?)
            }
            Source::Fringe(data) => data[data.len() / LANES * LANES + i].clone(),
            Source::Nd { data, dims, .. } => data[position(dims, i)].clone(),
            Source::Chunks { data, size } => {
                let start = i * size;
                Value::vec(data[start..data.len().min(start.saturating_add(*size))].iter().cloned())
            }
            Source::Zip(parts) => Value::Struct(parts.iter().map(|part| part.get(i)).collect::<Option<_>>()?),
        })
    }
}

fn as_scalar(value: &Value) -> Option<Literal> {
    match value {
        Value::Scalar(literal) => Some(*literal),
        _ => None,
    }
}

fn position(dims: &[Dim], mut i: usize) -> usize {
    let mut at: i128 = 0;
    for dim in dims.iter().rev() {
        let coordinate = i128::from(dim.start) + (i % dim.count) as i128 * i128::from(dim.step);
        at += coordinate * i128::from(dim.stride);
        i /= dim.count;
    }
    // nd() proved every position to lie in the data.
    at as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(n: i64) -> Vector {
        match Value::vec((0..n).map(Value::i64)) {
            Value::Vec(data) => data,
            _ => unreachable!("vec() makes vectors"),
        }
    }

    fn all(source: &Source) -> Vec<Value> {
        (0..source.len()).map(|i| source.get(i).expect("no SIMD here")).collect()
    }

    #[test]
    fn strided() {
        let source = Source::strided(data(7), 1, 7, 4).expect("inside");
        assert_eq!(all(&source), [1, 5].map(Value::i64));
        assert_eq!(Source::strided(data(7), 5, 2, 1).expect("empty").len(), 0);
        assert!(Source::strided(data(7), 0, 8, 1).is_err());
        assert!(Source::strided(data(7), 0, 7, 0).is_err());
        assert!(Source::strided(data(7), -1, 7, 1).is_err());
    }

    #[test]
    fn transposed_matrix() {
        let source = Source::nd(data(6), [&[0, 0], &[3, 2], &[1, 1], &[3, 2], &[1, 3]]).expect("inside");
        assert_eq!(all(&source), [0, 3, 1, 4, 2, 5].map(Value::i64));
        assert!(Source::nd(data(5), [&[0, 0], &[3, 2], &[1, 1], &[3, 2], &[1, 3]]).is_err());
        assert!(Source::nd(data(5), [&[], &[], &[], &[], &[]]).is_err());
    }

    #[test]
    fn extreme_ranges() {
        let source = Source::range(i64::MIN, i64::MAX, i64::MAX).expect("positive stride");
        assert_eq!(all(&source), [i64::MIN, -1, i64::MAX - 1].map(Value::i64));
    }
}
