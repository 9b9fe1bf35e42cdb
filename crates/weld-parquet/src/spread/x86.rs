//! Spreading with AVX-512's expand instructions, and with AVX2 by permutations from a table.

use std::arch::x86_64::*;

use super::{BLOCK, blocks, portable};
use crate::bitmap::Bits;
use crate::pool::Plain;

pub(super) fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("popcnt")
}

pub(super) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt")
}

pub(super) fn has_bmi2() -> bool {
    is_x86_feature_detected!("bmi2")
}

#[target_feature(enable = "bmi2")]
pub(super) fn deposit(dense: u64, mask: u64) -> u64 {
    _pdep_u64(dense, mask)
}

/// For elements of 4, 8 or 16 bytes.
#[target_feature(enable = "avx512f,popcnt")]
pub(super) fn spread_avx512<T: Plain>(slots: &mut [T], bits: &Bits, from: usize, present: usize, absent: T) {
    let mixed = |slots: &mut [T], mask: u64, next: usize, start: usize, len: usize, absent: T| {
        if len < BLOCK {
            return portable(slots, mask, next, start, len, absent);
        }
        // In both places there are whole blocks: the values' first is not behind the rows'.
        assert!(next <= start && start + BLOCK <= slots.len());
        // SAFETY: the CPU has the features, this function needs them. `next <= start` and `start + 64` slots are there.
        unsafe { block_avx512(slots.as_mut_ptr(), mask, next, start, absent) }
    };
    blocks(slots, bits, from, present, absent, mixed);
}

/// Spreads one block.
///
/// # Safety
/// `next <= start`, and there are `start + 64` slots.
#[target_feature(enable = "avx512f,popcnt")]
unsafe fn block_avx512<T: Plain>(slots: *mut T, mask: u64, next: usize, start: usize, absent: T) {
    let lanes = 64 / size_of::<T>();
    let mut next = next + mask.count_ones() as usize;
    for step in (0..BLOCK / lanes).rev() {
        let part = mask >> (step * lanes) & ((1 << lanes) - 1);
        next -= part.count_ones() as usize;
        // SAFETY: values stand at `next` and at the rows' places, which are not before it: `next` is at most `start`
        // plus the rows before this step. A load of `lanes` values from there ends at or before this step's rows do,
        // which is where the store is. Both are unaligned ones.
        unsafe {
            let values = _mm512_loadu_si512(slots.add(next).cast());
            let to = slots.add(start + step * lanes).cast();
            let spread = match size_of::<T>() {
                4 => {
                    let absent = _mm512_set1_epi32(std::mem::transmute_copy(&absent));
                    _mm512_mask_expand_epi32(absent, part as u16, values)
                }
                8 => {
                    let absent = _mm512_set1_epi64(std::mem::transmute_copy(&absent));
                    _mm512_mask_expand_epi64(absent, part as u8, values)
                }
                _ => {
                    let absent = _mm512_broadcast_i32x4(_mm_loadu_si128((&raw const absent).cast()));
                    _mm512_mask_expand_epi64(absent, TWICE[(part & 15) as usize], values)
                }
            };
            _mm512_storeu_si512(to, spread);
        }
    }
}

/// Each of four bits twice.
static TWICE: [u8; 16] = {
    let mut twice = [0; 16];
    let mut bits = 0;
    while bits < 16 {
        let mut i = 0;
        while i < 4 {
            twice[bits] |= (((bits >> i & 1) * 3) << (2 * i)) as u8;
            i += 1;
        }
        bits += 1;
    }
    twice
};

/// For elements of 4 or 8 bytes.
#[target_feature(enable = "avx2,popcnt")]
pub(super) fn spread_avx2<T: Plain>(slots: &mut [T], bits: &Bits, from: usize, present: usize, absent: T) {
    let mixed = |slots: &mut [T], mask: u64, next: usize, start: usize, len: usize, absent: T| {
        if len < BLOCK {
            return portable(slots, mask, next, start, len, absent);
        }
        assert!(next <= start && start + BLOCK <= slots.len());
        // SAFETY: the CPU has the features, this function needs them. `next <= start` and `start + 64` slots are there.
        unsafe { block_avx2(slots.as_mut_ptr(), mask, next, start, absent) }
    };
    blocks(slots, bits, from, present, absent, mixed);
}

/// Spreads one block.
///
/// # Safety
/// `next <= start`, and there are `start + 64` slots.
#[target_feature(enable = "avx2,popcnt")]
unsafe fn block_avx2<T: Plain>(slots: *mut T, mask: u64, next: usize, start: usize, absent: T) {
    let lanes = 32 / size_of::<T>();
    let mut next = next + mask.count_ones() as usize;
    for step in (0..BLOCK / lanes).rev() {
        let part = (mask >> (step * lanes) & ((1 << lanes) - 1)) as usize;
        next -= part.count_ones() as usize;
        // Lanes of 32 bits: an eight-byte value has two.
        let part = if lanes == 8 { part } else { TWICE[part] as usize };
        // SAFETY: as in `block_avx512`; `part` is below 256.
        unsafe {
            let values = _mm256_loadu_si256(slots.add(next).cast());
            let absent = match size_of::<T>() {
                4 => _mm256_set1_epi32(std::mem::transmute_copy(&absent)),
                _ => _mm256_set1_epi64x(std::mem::transmute_copy(&absent)),
            };
            let from = _mm_loadl_epi64(PLACES[part].as_ptr().cast());
            let moved = _mm256_permutevar8x32_epi32(values, _mm256_cvtepu8_epi32(from));
            let bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
            let valid = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(part as i32), bit), bit);
            _mm256_storeu_si256(slots.add(start + step * lanes).cast(), _mm256_blendv_epi8(absent, moved, valid));
        }
    }
}

/// For each mask of eight lanes, how many of the lanes before each are in it.
static PLACES: [[u8; 8]; 256] = {
    let mut places = [[0; 8]; 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut lane, mut next) = (0, 0);
        while lane < 8 {
            places[mask][lane] = next;
            next += (mask >> lane & 1) as u8;
            lane += 1;
        }
        mask += 1;
    }
    places
};
