//! Bit-packed integers to `u32`, the inner loop of dictionary codes, levels and deltas.
//!
//! ```text
//! width 3, bytes 0b10_001_000 ...  ->  0, 1, 2 (low bits first; values may span bytes)
//! ```
//!
//! [`unpack`] picks the widest instructions that the CPU has, at run time; every version is
//! tested against the portable one, which states the meaning.

mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) use portable::get;

/// Values `start .. start + out.len()` of the packed sequence `input`, at most 32 bits wide.
///
/// Bits past the end of `input` read as zero; callers check lengths first.
pub(crate) fn unpack(input: &[u8], width: u8, start: usize, out: &mut [u32]) {
    debug_assert!(width <= 32);
    // The fast versions start on a byte: a group of eight values is `width` bytes.
    let head = ((8 - start % 8) % 8).min(out.len());
    let (first, rest) = out.split_at_mut(head);
    portable::unpack(input, width, start, first);
    let group = (start + head) / 8 * width as usize;
    let input = input.get(group..).unwrap_or_default();
    let done = unpack_groups(input, width, rest);
    portable::unpack(input, width, done, &mut rest[done..]);
}

/// Unpacks a prefix of whole groups as far as the CPU's instructions allow; returns how many values.
fn unpack_groups(input: &[u8], width: u8, out: &mut [u32]) -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        if x86::has_avx512_vbmi() {
            // SAFETY: the CPU has the features.
            return unsafe { x86::unpack_avx512(input, width, out) };
        }
        if x86::has_avx2() {
            // SAFETY: the CPU has the feature.
            return unsafe { x86::unpack_avx2(input, width, out) };
        }
    }
    let _ = (input, width, out);
    0
}

/// The first values of the packed sequence `input`, at most 64 bits wide; as [`unpack`] otherwise.
pub(crate) fn unpack64(input: &[u8], width: u8, out: &mut [u64]) {
    debug_assert!(width <= 64);
    #[cfg(target_arch = "x86_64")]
    if usize::from(width) <= x86::WIDEST_64 && x86::has_avx512_vbmi() {
        // SAFETY: the CPU has the features.
        return unsafe { x86::unpack64_avx512(input, width, out) };
    }
    portable::unpack64(input, width, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(n: usize) -> Vec<u8> {
        let mut x = 0x9e37_79b9_7f4a_7c15_u64;
        (0..n)
            .map(|_| {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                x as u8
            })
            .collect()
    }

    /// One bit at a time: the definition.
    fn reference(input: &[u8], width: u8, index: usize) -> u64 {
        (0..width as usize).fold(0, |value, bit| {
            let at = index * width as usize + bit;
            let set = input.get(at / 8).map_or(0, |b| b >> (at % 8) & 1);
            value | (set as u64) << bit
        })
    }

    #[test]
    fn every_width_start_and_length_agrees() {
        let input = noise(700);
        for width in 0..=32 {
            for start in [0, 1, 7, 8, 9, 31] {
                for len in [0, 1, 5, 8, 15, 16, 17, 32, 33, 64, 100, 130] {
                    let expected: Vec<u32> = (start..start + len).map(|i| reference(&input, width, i) as u32).collect();
                    let mut out = vec![0; len];
                    unpack(&input, width, start, &mut out);
                    assert_eq!(out, expected, "{width} {start} {len}");
                    // The input ends exactly with the last value: no version may read past it.
                    let exact = ((start + len) * width as usize).div_ceil(8).min(input.len());
                    let tight = input[..exact].to_vec().into_boxed_slice();
                    unpack(&tight, width, start, &mut out);
                    assert_eq!(out, expected, "tight {width} {start} {len}");
                }
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn every_instruction_set_agrees() {
        let input = noise(4 * 300);
        for width in 0..=32 {
            let mut expected = vec![0; 300];
            portable::unpack(&input, width, 0, &mut expected);
            let mut out = vec![0; 300];
            if x86::has_avx2() {
                // SAFETY: the CPU has the feature.
                let n = unsafe { x86::unpack_avx2(&input, width, &mut out) };
                assert_eq!(out[..n], expected[..n], "avx2 {width}");
            }
            if x86::has_avx512_vbmi() {
                // SAFETY: the CPU has the features.
                let n = unsafe { x86::unpack_avx512(&input, width, &mut out) };
                assert_eq!(out[..n], expected[..n], "avx512 {width}");
            }
        }
    }

    #[test]
    fn wide_values_agree() {
        let input = noise(1000);
        for width in 0..=64 {
            for len in [0, 1, 7, 8, 9, 64, 67] {
                let expected: Vec<u64> = (0..len).map(|i| reference(&input, width, i)).collect();
                let tight = &input[..(len * width as usize).div_ceil(8)].to_vec().into_boxed_slice();
                for input in [&input[..], tight] {
                    let mut out = vec![0; len];
                    unpack64(input, width, &mut out);
                    assert_eq!(out, expected, "{width}");
                    portable::unpack64(input, width, &mut out);
                    assert_eq!(out, expected, "portable {width}");
                }
            }
        }
    }
}
