//! Values that stand next to each other, moved in place to the rows that have one.
//!
//! ```text
//! slots a b c d . .    rows 1 0 1 1 0 1    ->    a 0 b c 0 d
//! ```
//!
//! From the back, 64 rows at a time, so that nothing is overwritten before it moved: the value of a row never stands
//! behind that row. Blocks in which all rows or none have a value are copied or filled; once as many values are left as
//! rows, everything is in place. [`spread`] picks the widest instructions that the CPU has, at run time; every version
//! is tested against the portable one, which states the meaning.

use crate::bitmap::{Bits, low};
use crate::pool::Plain;

#[cfg(target_arch = "x86_64")]
mod x86;

/// Rows moved at a time: a word of bits.
const BLOCK: usize = 64;

/// Moves the first `present` of `slots` to the slots whose bits are set in `bits` from bit `from` on, as many as there
/// are values; the other slots become `absent`.
pub(crate) fn spread<T: Plain>(slots: &mut [T], bits: &Bits, from: usize, present: usize, absent: T) {
    assert!(present <= slots.len());
    if present == slots.len() {
        return;
    }
    if present == 0 {
        return slots.fill(absent);
    }
    #[cfg(target_arch = "x86_64")]
    {
        let size = size_of::<T>();
        if (size == 4 || size == 8 || size == 16) && x86::has_avx512() {
            // SAFETY: the CPU has the features.
            return unsafe { x86::spread_avx512(slots, bits, from, present, absent) };
        }
        if (size == 4 || size == 8) && x86::has_avx2() {
            // SAFETY: the CPU has the features.
            return unsafe { x86::spread_avx2(slots, bits, from, present, absent) };
        }
    }
    blocks(slots, bits, from, present, absent, portable);
}

/// Spreads the values behind `slots[next..]` to the rows of `mask`, the first of which is `slots[start]`; `len` of
/// them.
#[inline(always)]
fn portable<T: Plain>(slots: &mut [T], mask: u64, next: usize, start: usize, len: usize, absent: T) {
    let mut next = next + mask.count_ones() as usize;
    for i in (0..len).rev() {
        let valid = mask >> i & 1 == 1;
        next -= usize::from(valid);
        let value = slots[next];
        slots[start + i] = if valid { value } else { absent };
    }
}

/// Goes through the blocks from the back; `mixed` spreads those of which only some rows have a value.
#[inline(always)]
fn blocks<T: Plain>(
    slots: &mut [T],
    bits: &Bits,
    from: usize,
    present: usize,
    absent: T,
    mixed: impl Fn(&mut [T], u64, usize, usize, usize, T),
) {
    let rows = slots.len();
    let mut left = present;
    for start in (0..rows).step_by(BLOCK).rev() {
        let len = BLOCK.min(rows - start);
        if left == start + len {
            return;
        }
        let mask = bits.word(from + start) & low(len);
        let ones = mask.count_ones() as usize;
        // More bits than values: the caller counted wrong. Nothing is read past the slots even so.
        assert!(ones <= left, "as many values as rows that have one");
        left -= ones;
        if ones == 0 {
            slots[start..start + len].fill(absent);
        } else if ones == len {
            slots.copy_within(left..left + len, start);
        } else {
            mixed(slots, mask, left, start, len, absent);
        }
    }
}

/// The same for elements of any number of bytes; absent ones become zeros.
pub(crate) fn spread_bytes(slots: &mut [u8], width: usize, bits: &Bits, from: usize, present: usize) {
    let mut next = present;
    for row in (0..slots.len() / width).rev() {
        if next == row + 1 {
            return;
        }
        if bits.word(from + row) & 1 == 1 {
            next -= 1;
            slots.copy_within(next * width..(next + 1) * width, row * width);
        } else {
            slots[row * width..(row + 1) * width].fill(0);
        }
    }
}

/// The lowest bits of `dense`, at the places of the bits of `mask`.
pub(crate) fn spread_word(dense: u64, mask: u64) -> u64 {
    if mask == u64::MAX {
        return dense;
    }
    #[cfg(target_arch = "x86_64")]
    if x86::has_bmi2() {
        // SAFETY: the CPU has the feature.
        return unsafe { x86::deposit(dense, mask) };
    }
    let (mut out, mut dense, mut left) = (0, dense, mask);
    while left != 0 {
        let lowest = left & left.wrapping_neg();
        out |= if dense & 1 == 1 { lowest } else { 0 };
        dense >>= 1;
        left ^= lowest;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masks() -> Vec<u64> {
        let noise = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let random = (1..40).flat_map(|i| [noise(i), noise(i) | noise(i + 99) | noise(i + 7), noise(i) & noise(i + 5)]);
        random.chain([0, u64::MAX, 1, 1 << 63, u64::MAX - 1, u64::MAX >> 1]).collect()
    }

    /// Rows of `masks` behind `from` other bits, and what each row is to hold.
    fn check<T: Plain>(from: usize, rows: usize, value: impl Fn(usize) -> T, masks: &[u64], absent: T) {
        let mut bits = Bits::default();
        bits.push_n(from, true);
        let row = |i: usize| masks[i / 64 % masks.len()] >> (i % 64) & 1 == 1;
        (0..rows).for_each(|i| bits.push_n(1, row(i)));
        let present = (0..rows).filter(|&i| row(i)).count();
        let dense: Vec<T> = (0..rows).map(&value).collect();
        let mut next = 0;
        let expected: Vec<T> = (0..rows)
            .map(|i| {
                next += usize::from(row(i));
                if row(i) { value(next - 1) } else { absent }
            })
            .collect();
        let mut slots = dense.clone();
        spread(&mut slots, &bits, from, present, absent);
        assert_eq!(slots, expected, "from {from}, {rows} rows");
        let mut slots = dense.clone();
        blocks(&mut slots, &bits, from, present, absent, portable);
        assert_eq!(slots, expected, "portable, from {from}, {rows} rows");
        #[cfg(target_arch = "x86_64")]
        if x86::has_avx2() && matches!(size_of::<T>(), 4 | 8) {
            let mut slots = dense.clone();
            // SAFETY: the CPU has the features.
            unsafe { x86::spread_avx2(&mut slots, &bits, from, present, absent) };
            assert_eq!(slots, expected, "avx2, from {from}, {rows} rows");
        }
        if absent == T::default() {
            let width = size_of::<T>();
            // SAFETY: a `Plain` has no padding; the bytes are copied before the vector goes.
            let bytes = |values: &[T]| unsafe {
                std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values)).to_vec()
            };
            let mut slots = bytes(&dense);
            spread_bytes(&mut slots, width, &bits, from, present);
            assert_eq!(slots, bytes(&expected));
        }
    }

    #[test]
    fn every_width_and_instruction_set_agrees() {
        let masks = masks();
        for from in [0, 1, 37, 63, 64, 100] {
            for rows in [0, 1, 5, 63, 64, 65, 127, 128, 200, 1000] {
                for at in (0..masks.len()).step_by(7) {
                    let masks = &masks[at..];
                    check::<u8>(from, rows, |i| i as u8 | 1, masks, 0);
                    check::<u16>(from, rows, |i| i as u16 + 1, masks, 0);
                    check::<u32>(from, rows, |i| i as u32 + 1, masks, 777);
                    check::<u64>(from, rows, |i| i as u64 + (1 << 40), masks, 0);
                    check::<u128>(from, rows, |i| (i as u128) << 70 | i as u128, masks, 0);
                }
            }
        }
    }

    #[test]
    fn bits_go_to_their_places() {
        for mask in masks() {
            let dense = mask.rotate_left(11) ^ 0x5555_aaaa_0f0f_3333;
            let mut next = 0;
            let expected = (0..64).filter(|i| mask >> i & 1 == 1).fold(0, |out, i| {
                next += 1;
                out | (dense >> (next - 1) & 1) << i
            });
            assert_eq!(spread_word(dense, mask), expected);
        }
    }
}
