//! Grouping by integers close together: the directory is a bitmap with ranks, see `dict.rs`.
//!
//! ```text
//! keys 7 5 8 5   ->   bits 5, 7, 8   ->   groups 1 0 2 0
//! ```
//!
//! Several threads set bits in bitmaps of their own, which are put together then: next to each other's bits they would
//! wait for each other's cache lines.

use crate::dict::{Dict, DictError, DictKind, KeyKind};
use crate::dict_buffer::Buffer;
use crate::dict_group::GroupBuilder;
use crate::dict_place::{Share, Shared, groups_to_places, part, running_sums};
use crate::memory::OutOfMemory;
use crate::threads::Workers;

/// A dense table has at most 64 possible keys for each actual one: 16 bytes a key, half of what slots take.
const SPREAD_MAX: u64 = 64;

/// The smallest and the largest key of some rows, if keys are integers.
pub(crate) fn key_bounds(key: KeyKind, workers: &Workers<'_>, shares: &[Share<'_>]) -> Option<(i64, i64)> {
    /// # Safety
    /// The keys are of type `T`.
    unsafe fn bounds<T: Copy + Ord>(share: &Share<'_>) -> Option<(T, T)> {
        let parts = share.pieces.iter().filter_map(|piece| {
            // SAFETY: by the caller's promise; the segment has these rows.
            let keys = unsafe { piece.keys::<T>() };
            // One pass that LLVM turns into vector instructions.
            keys.first().map(|first| keys.iter().fold((*first, *first), |(a, b), k| (a.min(*k), b.max(*k))))
        });
        parts.reduce(|(a, b), (c, d)| (a.min(c), b.max(d)))
    }
    macro_rules! all {
        ($ty:ty) => {{
            // SAFETY: the layout says that keys are integers of this size.
            let of_shares = workers.map(shares.len(), &|index| unsafe { bounds::<$ty>(&shares[index]) });
            let all = of_shares.into_iter().flatten().reduce(|(a, b), (c, d)| (a.min(c), b.max(d)));
            all.map(|(a, b)| (a as i64, b as i64))
        }};
    }
    let KeyKind::Integer { bytes, signed } = key else { return None };
    match (bytes, signed) {
        (1, true) => all!(i8),
        (2, true) => all!(i16),
        (4, true) => all!(i32),
        (_, true) => all!(i64),
        (1, false) => all!(u8),
        (2, false) => all!(u16),
        (4, false) => all!(u32),
        (_, false) => all!(u64),
    }
}

/// How far apart keys of these bounds are, if that is little enough.
pub(crate) fn spread((min, max): (i64, i64), rows: u64) -> Option<u64> {
    Some(max.wrapping_sub(min) as u64).filter(|spread| spread / SPREAD_MAX <= rows)
}

/// Calls `f(distance)` for the distance of each row's key from the smallest, in the order of rows.
fn for_each_distance(key: KeyKind, min: i64, share: &Share<'_>, mut f: impl FnMut(u64)) {
    macro_rules! go {
        ($ty:ty) => {{
            for piece in &share.pieces {
                // SAFETY: the layout says that keys are integers of this size.
                let keys = unsafe { piece.keys::<$ty>() };
                // Only the difference counts, and it is below 2^64 in both signednesses.
                keys.iter().for_each(|key| f((*key as i64).wrapping_sub(min) as u64));
            }
        }};
    }
    match key {
        KeyKind::Integer { bytes: 1, signed: true } => go!(i8),
        KeyKind::Integer { bytes: 2, signed: true } => go!(i16),
        KeyKind::Integer { bytes: 4, signed: true } => go!(i32),
        KeyKind::Integer { bytes: 1, signed: false } => go!(u8),
        KeyKind::Integer { bytes: 2, signed: false } => go!(u16),
        KeyKind::Integer { bytes: 4, signed: false } => go!(u32),
        _ => go!(i64),
    }
}

/// What a thread has seen of its rows.
struct Seen {
    /// Its bits. None if they are in the directory itself.
    bits: Option<Buffer>,
    least: u64,
    last: u64,
    sorted: bool,
}

/// Fills in a dense directory, and `starts` unless keys are unique. Gives the places of values, if they are not those
/// of their rows.
pub(crate) fn group_dense(
    dict: &mut Dict,
    builder: &GroupBuilder,
    workers: &Workers<'_>,
    shares: &[Share<'_>],
    spread: u64,
) -> Result<Option<Buffer>, DictError> {
    let key = builder.layout.key;
    let rows = shares.last().map_or(0, |share| share.rows.end);
    let min = dict.owned.bounds.map_or(0, |(min, _)| min);
    let words = (spread / 32 + 1) as usize;
    dict.owned.directory.grow(words * 8)?;
    let directory = Shared::<u64>::new(&dict.owned.directory);
    let seen = workers.map(shares.len(), &|index| {
        let bits = if index > 0 { Some(Buffer::zeroed(words * 8, workers.pool.clone())?) } else { None };
        let own = bits.as_ref().map_or(directory.at(0), |bits| bits.as_ptr().cast());
        // SAFETY: both have `words` zero words, and the directory is the first share's for the time.
        let own = unsafe { std::slice::from_raw_parts_mut(own, words) };
        let (mut least, mut last, mut sorted) = (u64::MAX, 0, true);
        for_each_distance(key, min, &shares[index], |distance| {
            own[(distance / 32) as usize] |= 1 << (distance % 32);
            sorted &= last <= distance;
            last = distance;
            least = least.min(distance);
        });
        Ok(Seen { bits, least, last, sorted })
    });
    let seen = seen.into_iter().collect::<Result<Vec<Seen>, OutOfMemory>>()?;
    let sorted = seen.iter().all(|seen| seen.sorted) && seen.windows(2).all(|pair| pair[0].last <= pair[1].least);
    let len = put_together(workers, words, &directory, &seen);
    dict.kind = DictKind::Dense;
    (dict.min, dict.mask, dict.len) = (min, spread, len);
    dict.directory = directory.at(0);
    let unique = len == rows as u64;
    if unique && sorted {
        return Ok(None);
    }

    // SAFETY: a word for each 32 distances; nobody writes to it any more.
    let directory = unsafe { std::slice::from_raw_parts(dict.directory, words) };
    let group = |distance: u64| {
        let word = directory[(distance / 32) as usize];
        let below = word as u32 & ((1u32 << (distance % 32)) - 1);
        (word >> 32) as u32 + below.count_ones()
    };
    let mut starts = Buffer::new(workers.pool.clone());
    if !unique {
        starts.extend((len as usize + 1) * 4)?;
        // SAFETY: there is room for a number for each group and one more.
        unsafe { starts.as_ptr().cast::<u32>().add(len as usize).write(rows as u32) };
    }
    let begin = Shared::<u32>::new(&starts);
    let mut places = None;
    if sorted {
        // A group begins where the key changes.
        workers.each(shares.len(), &|index| {
            let mut row = shares[index].rows.start as u32;
            let mut previous = if index == 0 { None } else { Some(seen[index - 1].last) };
            for_each_distance(key, min, &shares[index], |distance| {
                if previous != Some(distance) {
                    // SAFETY: there is a number for each group, and one thread sees where it begins.
                    unsafe { begin.at(group(distance) as usize).write(row) };
                    previous = Some(distance);
                }
                row += 1;
            });
        });
    } else {
        let groups = Buffer::unset(rows * 4, workers.pool.clone())?;
        let numbers = Shared::<u32>::new(&groups);
        workers.each(shares.len(), &|index| {
            let mut next = numbers.at(shares[index].rows.start);
            for_each_distance(key, min, &shares[index], |distance| {
                // SAFETY: this runs once for each row of the share, for which the buffer has room.
                unsafe {
                    next.write(group(distance));
                    next = next.add(1);
                }
            });
        });
        if !unique {
            // SAFETY: a group for every row; there is a number for each group.
            unsafe {
                groups_to_places(workers, shares, &groups, len as usize, |group, at| begin.at(group).write(at))?;
            }
        }
        places = Some(groups);
    }
    if !unique {
        dict.starts = starts.as_ptr().cast();
        dict.owned.starts = Some(starts);
    }
    Ok(places)
}

/// Puts all bits into the directory, with ranks, and gives their number.
fn put_together(workers: &Workers<'_>, words: usize, directory: &Shared<u64>, seen: &[Seen]) -> u64 {
    let others: Vec<Shared<u64>> = seen.iter().filter_map(|seen| seen.bits.as_ref()).map(Shared::new).collect();
    // SAFETY: there are so many words, each in one part.
    let part_of = |bits: &Shared<u64>, words: std::ops::Range<usize>| unsafe {
        std::slice::from_raw_parts_mut(bits.at(words.start), words.len())
    };
    workers.each(seen.len(), &|index| {
        for other in &others {
            let words = part(words, index, seen.len());
            let pairs = part_of(directory, words.clone()).iter_mut().zip(part_of(other, words));
            pairs.for_each(|(word, other)| *word |= *other);
        }
    });
    let total = |words| part_of(directory, words).iter().map(|word| u64::from(word.count_ones())).sum();
    let rank = |words, mut before: u64| {
        for word in part_of(directory, words) {
            let bits = u64::from(word.count_ones());
            *word |= before << 32;
            before += bits;
        }
        before
    };
    running_sums(workers, words, &total, &rank)
}
