//! Where rows are: the number of a batch above the number of a row in it, in as few bits as both need.

/// A row of the batches that are held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) batch: usize,
    pub(crate) row: usize,
}

/// How many bits places take.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Places {
    row_bits: u32,
    bits: u32,
}

impl Places {
    pub(crate) fn new(batches: usize, rows_max: usize) -> Places {
        let row_bits = bits_of(rows_max.saturating_sub(1) as u64);
        Places { row_bits, bits: row_bits + bits_of(batches.saturating_sub(1) as u64) }
    }

    pub(crate) fn bits(self) -> u32 {
        self.bits
    }

    /// The packed place of the first row of a batch; those after it follow.
    pub(crate) fn first(self, batch: usize) -> u64 {
        (batch as u64).checked_shl(self.row_bits).unwrap_or(0)
    }

    /// The place in the low bits of `key`.
    pub(crate) fn of(self, key: u64) -> Place {
        let packed = key & low_bits(self.bits);
        Place {
            batch: packed.checked_shr(self.row_bits).unwrap_or(0) as usize,
            row: (packed & low_bits(self.row_bits)) as usize,
        }
    }
}

/// How many bits a number takes.
pub(crate) fn bits_of(value: u64) -> u32 {
    u64::BITS - value.leading_zeros()
}

/// So many ones.
pub(crate) fn low_bits(bits: u32) -> u64 {
    if bits >= u64::BITS { u64::MAX } else { (1 << bits) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_packed_and_unpacked() {
        for (batches, rows) in [(1, 1), (1, 8192), (3, 1), (1221, 8192), (5, 8193)] {
            let places = Places::new(batches, rows);
            for place in [Place { batch: 0, row: 0 }, Place { batch: batches - 1, row: rows - 1 }] {
                let packed = places.first(place.batch) + place.row as u64;
                assert!(bits_of(packed) <= places.bits());
                assert_eq!(places.of(packed | (u64::MAX << places.bits().min(63) << 1)), place);
            }
        }
    }
}
