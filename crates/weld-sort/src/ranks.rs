//! Ranks of the values of a part of a key, where these are few: `SHIP 0001` and `SHIP 9999` differ by 64 bits, their
//! ranks by one.

/// So many different values, and half of the slots, at most.
const VALUES_MAX: usize = 2048;
const SLOT_BITS: u32 = 12;

/// A hash table of values and their ranks.
#[derive(Clone, Debug)]
pub(crate) struct Ranks {
    /// Values and their ranks from one on; zero where there is none.
    slots: Vec<(u64, u32)>,
    count: usize,
}

impl Ranks {
    pub(crate) fn new() -> Ranks {
        Ranks { slots: vec![(0, 0); 1 << SLOT_BITS], count: 0 }
    }

    /// Takes a value; `None` if there are too many.
    pub(crate) fn add(&mut self, value: u64) -> Option<()> {
        let slot = self.slot(value);
        if self.slots[slot].1 == 0 {
            self.slots[slot] = (value, 1);
            self.count += 1;
        }
        (self.count <= VALUES_MAX).then_some(())
    }

    /// The values of both, unless these are too many.
    pub(crate) fn and(mut self, other: Ranks) -> Option<Ranks> {
        other.slots.into_iter().filter(|slot| slot.1 > 0).try_for_each(|slot| self.add(slot.0))?;
        Some(self)
    }

    /// Gives all values their ranks.
    pub(crate) fn ranked(mut self) -> Ranks {
        let mut values: Vec<u64> = self.slots.iter().filter(|slot| slot.1 > 0).map(|slot| slot.0).collect();
        values.sort_unstable();
        for (rank, value) in (1..).zip(values) {
            let slot = self.slot(value);
            self.slots[slot].1 = rank;
        }
        self
    }

    pub(crate) fn last(&self) -> u64 {
        self.count.saturating_sub(1) as u64
    }

    /// The rank of a value that was taken.
    pub(crate) fn of(&self, value: u64) -> u64 {
        u64::from(self.slots[self.slot(value)].1).saturating_sub(1)
    }

    /// Where a value is, or would be.
    fn slot(&self, value: u64) -> usize {
        let mut slot = (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SLOT_BITS)) as usize;
        while self.slots[slot].1 > 0 && self.slots[slot].0 != value {
            slot = (slot + 1) % self.slots.len();
        }
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_ranks() {
        let some = |values: &[u64]| {
            let mut ranks = Ranks::new();
            values.iter().try_for_each(|value| ranks.add(*value)).map(|()| ranks)
        };
        let ranks = some(&[7, 0, 7, u64::MAX]).and_then(|ranks| ranks.and(some(&[8, 0])?)).map(Ranks::ranked);
        let ranks = ranks.expect("few values");
        assert_eq!([0, 7, 8, u64::MAX].map(|value| ranks.of(value)), [0, 1, 2, 3]);
        assert_eq!(ranks.last(), 3);
        assert!(some(&(0..=VALUES_MAX as u64).collect::<Vec<_>>()).is_none());
    }
}
