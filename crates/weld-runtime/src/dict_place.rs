//! Where grouped values go: each group's one after the other, in the order of their rows.
//!
//! ```text
//! row    0  1  2  3  4     groups begin at  0  2  3
//! group  0  1  0  2  2     place            0  2  1  3  4
//! ```
//!
//! A counting sort of the rows by their groups. Threads take a share of consecutive rows each and count the groups of
//! theirs; then each knows where in a group its values begin, behind those of the shares before. So values come to lie
//! as one thread would have put them.

use std::ops::Range;

use crate::dict::Dict;
use crate::dict_buffer::Buffer;
use crate::dict_group::{GroupBuilder, Segment};
use crate::memory::OutOfMemory;
use crate::threads::Workers;

/// Fewer numbers are summed up faster by one thread.
const SUMS_MIN: usize = if cfg!(test) { 64 } else { 16 * 1024 };

/// Consecutive rows of a builder, for one thread.
pub(crate) struct Share<'a> {
    pub(crate) rows: Range<usize>,
    /// Where they are.
    pub(crate) pieces: Vec<Piece<'a>>,
}

/// Rows of one segment.
#[derive(Clone)]
pub(crate) struct Piece<'a> {
    pub(crate) segment: &'a Segment,
    pub(crate) rows: Range<usize>,
}

impl<'a> Share<'a> {
    /// All rows in so many shares.
    pub(crate) fn all(builder: &'a GroupBuilder, rows: usize, count: usize) -> Vec<Share<'a>> {
        let share = |index| Share { rows: part(rows, index, count), pieces: Vec::new() };
        let mut shares: Vec<Share> = (0..count).map(share).collect();
        let mut first = 0;
        for segment in &builder.segments {
            let end = first + segment.rows as usize;
            for share in &mut shares {
                let (from, to) = (first.max(share.rows.start), end.min(share.rows.end));
                if from < to {
                    share.pieces.push(Piece { segment, rows: from - first..to - first });
                }
            }
            first = end;
        }
        shares
    }
}

impl Piece<'_> {
    /// # Safety
    /// Keys are of type `T`.
    pub(crate) unsafe fn keys<T>(&self) -> &[T] {
        // SAFETY: the segment has these rows.
        unsafe { std::slice::from_raw_parts(self.segment.keys().cast::<T>().add(self.rows.start), self.rows.len()) }
    }
}

/// Memory of which threads write different elements.
pub(crate) struct Shared<T>(*mut T);

// SAFETY: it only gives addresses; who uses them sees to it that threads use different ones.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    pub(crate) fn new(buffer: &Buffer) -> Shared<T> {
        Shared(buffer.as_ptr().cast())
    }

    pub(crate) fn at(&self, index: usize) -> *mut T {
        self.0.wrapping_add(index)
    }
}

/// Turns the group of each row into the place of its value. There are `count` groups; `begins` is told where each
/// begins.
///
/// # Safety
/// There is a group below `count` for every row.
pub(crate) unsafe fn groups_to_places(
    workers: &Workers<'_>,
    shares: &[Share<'_>],
    groups: &Buffer,
    count: usize,
    begins: impl Fn(usize, u32) + Sync,
) -> Result<(), OutOfMemory> {
    let groups = Shared::<u32>::new(groups);
    // SAFETY: rows are of one share only, for each of which this is called once at a time.
    let of_share =
        |share: &Share<'_>| unsafe { std::slice::from_raw_parts_mut(groups.at(share.rows.start), share.rows.len()) };
    let counted = workers.map(shares.len(), &|index| {
        let counts = Buffer::zeroed(count * 4, workers.pool.clone())?;
        let numbers: *mut u32 = counts.as_ptr().cast();
        // SAFETY: there is a number for each group.
        of_share(&shares[index]).iter().for_each(|group| unsafe { *numbers.add(*group as usize) += 1 });
        Ok(counts)
    });
    let counted = counted.into_iter().collect::<Result<Vec<Buffer>, OutOfMemory>>()?;
    let counts: Vec<Shared<u32>> = counted.iter().map(Shared::new).collect();
    // SAFETY: groups are below `count`; one thread has a group, or one a share's counts.
    let total = |groups: Range<usize>| unsafe {
        counts.iter().flat_map(|counts| groups.clone().map(|group| u64::from(*counts.at(group)))).sum()
    };
    let begin = |groups: Range<usize>, mut next: u64| {
        for group in groups {
            begins(group, next as u32);
            for counts in &counts {
                // SAFETY: as above. The count becomes the place of the share's first value in the group.
                let before = unsafe { counts.at(group).replace(next as u32) };
                next += u64::from(before);
            }
        }
        next
    };
    running_sums(workers, count, &total, &begin);
    workers.each(shares.len(), &|index| {
        for number in of_share(&shares[index]) {
            // SAFETY: as above.
            unsafe {
                let place = counts[index].at(*number as usize);
                *number = *place;
                *place += 1;
            }
        }
    });
    Ok(())
}

/// Calls `write` for parts of `0 .. len` with the `total` of those before; `write` gives it with its own. Gives that of
/// all.
pub(crate) fn running_sums(
    workers: &Workers<'_>,
    len: usize,
    total: &(dyn Fn(Range<usize>) -> u64 + Sync),
    write: &(dyn Fn(Range<usize>, u64) -> u64 + Sync),
) -> u64 {
    let count = if len < SUMS_MIN { 1 } else { workers.count as usize };
    if count == 1 {
        return write(0..len, 0);
    }
    let mut sum = 0;
    let totals = workers.map(count, &|index| total(part(len, index, count)));
    let before: Vec<u64> = totals.into_iter().map(|total| (sum, sum += total).0).collect();
    workers.each(count, &|index| {
        write(part(len, index, count), before[index]);
    });
    sum
}

/// One of `count` parts of `0 .. len`, whose lengths differ by one at most.
pub(crate) fn part(len: usize, index: usize, count: usize) -> Range<usize> {
    let first = |index: usize| index * (len / count) + index.min(len % count);
    first(index)..first(index + 1)
}

/// Copies the values into columns, to their places or in the order of their rows.
///
/// # Safety
/// The shares are those of all rows of the builder; the places are as many, a permutation.
pub(crate) unsafe fn place_values(
    dict: &mut Dict,
    builder: &GroupBuilder,
    workers: &Workers<'_>,
    shares: &[Share<'_>],
    places: Option<Buffer>,
) -> Result<(), OutOfMemory> {
    let rows = shares.last().map_or(0, |share| share.rows.end);
    let sizes = &builder.layout.column_bytes;
    let columns = sizes.iter().map(|bytes| Buffer::unset(rows * *bytes as usize, workers.pool.clone()));
    let columns = columns.collect::<Result<Vec<Buffer>, OutOfMemory>>()?;
    let targets: Vec<Shared<u8>> = columns.iter().map(Shared::new).collect();
    let places: Option<Shared<u32>> = places.as_ref().map(Shared::new);
    workers.each(shares.len() * columns.len(), &|index| {
        let (share, column) = (&shares[index / targets.len()], index % targets.len());
        let (target, bytes) = (&targets[column], sizes[column] as usize);
        let mut first = share.rows.start;
        for Piece { segment, rows } in &share.pieces {
            let source = segment.columns[column].wrapping_add(rows.start * bytes);
            // SAFETY: the segment has these values, the column room for all; by the caller's promise each has a place
            // of its own.
            unsafe {
                match &places {
                    None => copy(source, target.at(first * bytes), rows.len() * bytes),
                    Some(places) => {
                        let places = std::slice::from_raw_parts(places.at(first), rows.len());
                        scatter(source, target.at(0), places, bytes);
                    }
                }
            }
            first += rows.len();
        }
    });
    dict.owned.column_pointers = columns.iter().map(|column| column.as_ptr().cast_const()).collect();
    dict.owned.columns = columns;
    dict.columns = dict.owned.column_pointers.as_ptr();
    Ok(())
}

/// # Safety
/// As for `copy_nonoverlapping`.
unsafe fn copy(source: *const u8, target: *mut u8, bytes: usize) {
    // SAFETY: by the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(source, target, bytes) };
}

/// Writes value n to place `places[n]`.
///
/// # Safety
/// There are as many values as places, `bytes` each, and every place is one of `target`.
unsafe fn scatter(source: *const u8, target: *mut u8, places: &[u32], bytes: usize) {
    /// # Safety
    /// As for `scatter`; values are of the size of `T`.
    unsafe fn typed<T>(source: *const u8, target: *mut u8, places: &[u32]) {
        let (source, target) = (source.cast::<T>(), target.cast::<T>());
        for (index, place) in places.iter().enumerate() {
            // SAFETY: by the caller's promise.
            unsafe { target.add(*place as usize).write_unaligned(source.add(index).read_unaligned()) };
        }
    }
    // SAFETY: by the caller's promise.
    unsafe {
        match bytes {
            1 => typed::<u8>(source, target, places),
            2 => typed::<u16>(source, target, places),
            4 => typed::<u32>(source, target, places),
            8 => typed::<u64>(source, target, places),
            16 => typed::<u128>(source, target, places),
            _ => places.iter().enumerate().for_each(|(index, place)| {
                copy(source.add(index * bytes), target.add(*place as usize * bytes), bytes);
            }),
        }
    }
}
