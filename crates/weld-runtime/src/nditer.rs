//! `nditer`: positions of an N-dimensional view over flat data.

/// One dimension: the coordinate runs from `start` by `step`, `count` times; each unit of it is `stride` elements.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dim {
    start: i64,
    step: i64,
    count: i64,
    stride: i64,
}

/// Checks an iterator and fills in its dimensions. The number of positions, all of which lie in `0..len`; -1 if the
/// iterator leaves its data or a stride is not positive.
///
/// # Safety
/// `dims` has room for `rank` dimensions, the lists have `rank` entries.
pub(crate) unsafe extern "C" fn start(
    dims: *mut Dim,
    rank: u64,
    len: u64,
    start: *const i64,
    end: *const i64,
    step: *const i64,
    shape: *const i64,
    strides: *const i64,
) -> i64 {
    let rank = rank as usize;
    // SAFETY: by the caller's promise.
    let [start, end, step, shape, strides] =
        [start, end, step, shape, strides].map(|list| unsafe { std::slice::from_raw_parts(list, rank) });
    let mut count: i64 = 1;
    // The smallest and the largest position that is visited.
    let (mut low, mut high) = (0i128, 0i128);
    for d in 0..rank {
        let inside = 0..=shape[d];
        if !inside.contains(&start[d]) || !inside.contains(&end[d]) || step[d] <= 0 {
            return -1;
        }
        // Both ends are not negative, so their distance fits.
        let distance = (end[d] - start[d]).max(0);
        let steps = distance / step[d] + i64::from(distance % step[d] != 0);
        let Some(product) = count.checked_mul(steps) else { return -1 };
        count = product;
        let last = i128::from(start[d]) + (i128::from(steps.max(1)) - 1) * i128::from(step[d]);
        let ends = [i128::from(start[d]), last].map(|at| at.saturating_mul(i128::from(strides[d])));
        low = low.saturating_add(ends[0].min(ends[1]));
        high = high.saturating_add(ends[0].max(ends[1]));
        let dim = Dim { start: start[d], step: step[d], count: steps, stride: strides[d] };
        // SAFETY: `d` is below `rank`.
        unsafe { dims.add(d).write(dim) };
    }
    if count > 0 && (low < 0 || high >= i128::from(len)) {
        return -1;
    }
    count
}

/// The position of iteration `i`, the last dimension running fastest.
///
/// # Safety
/// `dims` was filled in by [`start`] for `rank` dimensions, and `i` is below its result.
pub(crate) unsafe extern "C" fn position(dims: *const Dim, rank: u64, i: u64) -> i64 {
    // SAFETY: by the caller's promise.
    let dims = unsafe { std::slice::from_raw_parts(dims, rank as usize) };
    let mut rest = i as i64;
    let mut at = 0i64;
    for dim in dims.iter().rev() {
        // Intermediate sums may wrap; the whole one is a position in the data.
        let coordinate = dim.start.wrapping_add((rest % dim.count).wrapping_mul(dim.step));
        at = at.wrapping_add(coordinate.wrapping_mul(dim.stride));
        rest /= dim.count;
    }
    at
}
