//! Unpacking in plain Rust: a value is a shifted and masked window of eight bytes.

/// The eight bytes from `at`, zeros past the end.
#[inline]
fn window(input: &[u8], at: usize) -> u64 {
    match input.get(at..at + 8) {
        Some(bytes) => u64::from_le_bytes(bytes.try_into().unwrap_or_default()),
        None => {
            let mut bytes = [0; 8];
            let rest = input.get(at..).unwrap_or_default();
            bytes[..rest.len()].copy_from_slice(rest);
            u64::from_le_bytes(bytes)
        }
    }
}

fn mask(width: u8) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}

/// The value at `index` of a packed sequence; `width` is at most 32.
#[inline]
pub(crate) fn get(input: &[u8], width: u8, index: usize) -> u32 {
    let bit = index * width as usize;
    (window(input, bit / 8) >> (bit % 8) & mask(width)) as u32
}

/// Values `start ..` of a packed sequence; `width` is at most 32.
pub(super) fn unpack(input: &[u8], width: u8, start: usize, out: &mut [u32]) {
    let mask = mask(width);
    let mut bit = start * width as usize;
    for value in out {
        *value = (window(input, bit / 8) >> (bit % 8) & mask) as u32;
        bit += width as usize;
    }
}

/// The first values of a packed sequence of up to 64 bits each.
pub(super) fn unpack64(input: &[u8], width: u8, out: &mut [u64]) {
    let mask = mask(width);
    let mut bit = 0;
    for value in out {
        let (at, shift) = (bit / 8, bit % 8);
        let low = window(input, at) >> shift;
        // Only a value that reaches into a ninth byte needs it.
        let high = if shift + width as usize > 64 {
            (input.get(at + 8).copied().unwrap_or(0) as u64) << (64 - shift)
        } else {
            0
        };
        *value = (low | high) & mask;
        bit += width as usize;
    }
}
