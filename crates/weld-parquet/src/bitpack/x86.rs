//! Unpacking with AVX2 and AVX-512 VBMI: shuffle each value's bytes into its lane, then shift and
//! mask every lane by its own amount.
//!
//! Widths above 25 may start at bit 7 and so span five bytes, more than a lane holds: those go the
//! portable way (a dictionary of 33 million entries is rare).
//!
//! The shuffles depend on the width alone and are computed at compile time.

use std::arch::x86_64::*;

const WIDEST: usize = 25;

pub(super) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
}

pub(super) fn has_avx512_vbmi() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vbmi")
}

/// For each width, where lane `i / 4` finds its byte `i % 4`, and by how much it shifts.
struct Tables<const BYTES: usize, const LANES: usize> {
    shuffle: [[u8; BYTES]; WIDEST + 1],
    shift: [[u32; LANES]; WIDEST + 1],
}

/// Sixteen values from one load of 64 bytes.
static WIDE: Tables<64, 16> = {
    let mut tables = Tables { shuffle: [[0; 64]; WIDEST + 1], shift: [[0; 16]; WIDEST + 1] };
    let mut width = 0;
    while width <= WIDEST {
        let mut lane = 0;
        while lane < 16 {
            let bit = lane * width;
            tables.shift[width][lane] = (bit % 8) as u32;
            let mut byte = 0;
            while byte < 4 {
                tables.shuffle[width][lane * 4 + byte] = (bit / 8 + byte) as u8;
                byte += 1;
            }
            lane += 1;
        }
        width += 1;
    }
    tables
};

/// Eight values: four from 16 bytes at the group's start, four from 16 bytes at half of it.
static NARROW: Tables<32, 8> = {
    let mut tables = Tables { shuffle: [[0; 32]; WIDEST + 1], shift: [[0; 8]; WIDEST + 1] };
    let mut width = 0;
    while width <= WIDEST {
        let mut lane = 0;
        while lane < 8 {
            let base = if lane < 4 { 0 } else { width * 4 / 8 };
            let bit = lane * width - base * 8;
            tables.shift[width][lane] = (bit % 8) as u32;
            let mut byte = 0;
            while byte < 4 {
                tables.shuffle[width][lane * 4 + byte] = (bit / 8 + byte) as u8;
                byte += 1;
            }
            lane += 1;
        }
        width += 1;
    }
    tables
};

/// Unpacks sixteen values at a time, the last ones with masks; returns how many were written: all, unless `width` is
/// too large.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) fn unpack_avx512(input: &[u8], width: u8, out: &mut [u32]) -> usize {
    let width = width as usize;
    if width > WIDEST {
        return 0;
    }
    // SAFETY: the tables' rows are 64 bytes each.
    let (shuffle, shift) = unsafe {
        (_mm512_loadu_si512(WIDE.shuffle[width].as_ptr().cast()), _mm512_loadu_si512(WIDE.shift[width].as_ptr().cast()))
    };
    let mask = _mm512_set1_epi32(((1u32 << width) - 1) as i32);
    let mut at = 0;
    for out in out.chunks_mut(16) {
        let rest = input.get(at..).unwrap_or_default();
        let valid = if rest.len() >= 64 { u64::MAX } else { (1 << rest.len()) - 1 };
        let wanted = (1u32 << out.len()) as u16;
        // SAFETY: the masked load touches only the bytes of `rest`, the masked store the values of `out`, which are at
        // most sixteen.
        unsafe {
            let bytes = _mm512_maskz_loadu_epi8(valid, rest.as_ptr().cast());
            let lanes = _mm512_permutexvar_epi8(shuffle, bytes);
            let values = _mm512_and_si512(_mm512_srlv_epi32(lanes, shift), mask);
            _mm512_mask_storeu_epi32(out.as_mut_ptr().cast(), wanted.wrapping_sub(1), values);
        }
        at += 2 * width;
    }
    out.len()
}

/// Wider values of 64 bits may span nine bytes, more than a lane holds.
pub(super) const WIDEST_64: usize = 57;

/// For each width, where lane `i / 8` finds its byte `i % 8`, and by how much it shifts.
static LONG: ([[u8; 64]; WIDEST_64 + 1], [[u64; 8]; WIDEST_64 + 1]) = {
    let mut shuffle = [[0; 64]; WIDEST_64 + 1];
    let mut shift = [[0; 8]; WIDEST_64 + 1];
    let mut width = 0;
    while width <= WIDEST_64 {
        let mut lane = 0;
        while lane < 8 {
            let bit = lane * width;
            shift[width][lane] = (bit % 8) as u64;
            let mut byte = 0;
            while byte < 8 {
                shuffle[width][lane * 8 + byte] = (bit / 8 + byte) as u8;
                byte += 1;
            }
            lane += 1;
        }
        width += 1;
    }
    (shuffle, shift)
};

/// Unpacks eight values at a time, all of `out`. `width` is at most [`WIDEST_64`], or this panics.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) fn unpack64_avx512(input: &[u8], width: u8, out: &mut [u64]) {
    let width = width as usize;
    // SAFETY: the tables' rows are 64 bytes each.
    let (shuffle, shift) = unsafe {
        (_mm512_loadu_si512(LONG.0[width].as_ptr().cast()), _mm512_loadu_si512(LONG.1[width].as_ptr().cast()))
    };
    let mask = _mm512_set1_epi64(((1u64 << width) - 1) as i64);
    let mut at = 0;
    for out in out.chunks_mut(8) {
        let rest = input.get(at..).unwrap_or_default();
        let valid = if rest.len() >= 64 { u64::MAX } else { (1 << rest.len()) - 1 };
        let wanted = ((1u32 << out.len()) - 1) as u8;
        // SAFETY: the masked load touches only the bytes of `rest`, the masked store the values of `out`, which are at
        // most eight.
        unsafe {
            let bytes = _mm512_maskz_loadu_epi8(valid, rest.as_ptr().cast());
            let lanes = _mm512_permutexvar_epi8(shuffle, bytes);
            let values = _mm512_and_si512(_mm512_srlv_epi64(lanes, shift), mask);
            _mm512_mask_storeu_epi64(out.as_mut_ptr().cast(), wanted, values);
        }
        at += width;
    }
}

/// Unpacks groups of eight while both 16-byte loads stay inside; returns how many values.
#[target_feature(enable = "avx2")]
pub(super) fn unpack_avx2(input: &[u8], width: u8, out: &mut [u32]) -> usize {
    let width = width as usize;
    if width > WIDEST {
        return 0;
    }
    let half = width * 4 / 8;
    // SAFETY: the tables' rows are 32 bytes each.
    let (shuffle, shift) = unsafe {
        (
            _mm256_loadu_si256(NARROW.shuffle[width].as_ptr().cast()),
            _mm256_loadu_si256(NARROW.shift[width].as_ptr().cast()),
        )
    };
    let mask = _mm256_set1_epi32(((1u32 << width) - 1) as i32);
    let (mut at, mut done) = (0, 0);
    while done + 8 <= out.len() && at + half + 16 <= input.len() {
        // SAFETY: the loop's condition keeps both loads inside `input` and the store inside `out`.
        unsafe {
            let low = _mm_loadu_si128(input.as_ptr().add(at).cast());
            let high = _mm_loadu_si128(input.as_ptr().add(at + half).cast());
            let bytes = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high);
            let lanes = _mm256_shuffle_epi8(bytes, shuffle);
            let values = _mm256_and_si256(_mm256_srlv_epi32(lanes, shift), mask);
            _mm256_storeu_si256(out.as_mut_ptr().add(done).cast(), values);
        }
        at += width;
        done += 8;
    }
    done
}
