//! Which rows a predicate keeps, told by the codes of a dictionary whose entries were judged once.
//!
//! ```text
//! verdicts [1, 0, 0, 1]     codes 0 2 3 3 1 of rows 10..15   ->   kept 10, 12, 13
//! ```
//!
//! Nothing branches on what a code says: every row is written to the end of the kept ones, and the end moves by the
//! verdict. An absent row has a code of its own, behind those of the entries.

use crate::dictionary::check_codes;
use crate::error::Result;
use crate::levels::Validity;

/// What a predicate says about each entry of a dictionary.
#[derive(Debug)]
pub(crate) struct Verdicts {
    /// One for every entry, then that of null: 1 where the predicate is true, otherwise 0.
    table: Vec<u8>,
    /// Whether the column can be null.
    nullable: bool,
}

impl Verdicts {
    pub(crate) fn new(mut entries: Vec<u8>, null: Option<u8>) -> Self {
        entries.push(null.unwrap_or(0));
        debug_assert!(entries.iter().all(|verdict| *verdict <= 1));
        Self { table: entries, nullable: null.is_some() }
    }

    /// How many entries the dictionary has: the code of absent rows.
    fn absent(&self) -> usize {
        self.table.len() - 1
    }

    pub(crate) fn all(&self, verdict: bool) -> bool {
        let last = if self.nullable { self.table.len() } else { self.absent() };
        self.table[..last].iter().all(|&v| (v != 0) == verdict)
    }

    /// Appends to `kept` those of `rows` whose codes pass.
    pub(crate) fn sift(&self, rows: impl Iterator<Item = u32>, codes: &[u32], kept: &mut Vec<u32>) -> Result<()> {
        check_codes(codes, self.absent())?;
        // SAFETY: every code was checked to be below the number of entries, which the table is longer than.
        unsafe { self.keep(rows, codes, kept) };
        Ok(())
    }

    /// # Safety
    /// Every code is below the length of the table.
    #[inline]
    unsafe fn keep(&self, rows: impl Iterator<Item = u32>, codes: &[u32], kept: &mut Vec<u32>) {
        kept.reserve(codes.len());
        let mut count = kept.len();
        let slots = kept.as_mut_ptr();
        for (row, &code) in rows.zip(codes) {
            // SAFETY: the caller's promise. At most one row is kept for each code, so `count` stays below the reserved
            // length while codes are left.
            unsafe {
                *slots.add(count) = row;
                count += usize::from(*self.table.get_unchecked(code as usize) & 1);
            }
        }
        // SAFETY: `count` is within the capacity reserved above, and every slot before it has been written.
        unsafe { kept.set_len(count) };
    }

    /// All of `rows`, which have the same code.
    pub(crate) fn sift_run(&self, rows: impl Iterator<Item = u32>, code: u32, kept: &mut Vec<u32>) -> Result<()> {
        check_codes(&[code], self.absent())?;
        if self.table[code as usize] != 0 {
            kept.extend(rows);
        }
        Ok(())
    }

    /// The same where some rows are absent: the first `present` of `codes` are those of the valid ones, and there is a
    /// slot for each row.
    pub(crate) fn sift_nullable(
        &self,
        rows: impl Iterator<Item = u32>,
        validity: &Validity,
        codes: &mut [u32],
        present: usize,
        kept: &mut Vec<u32>,
    ) -> Result<()> {
        assert_eq!(validity.len(), codes.len());
        check_codes(&codes[..present], self.absent())?;
        validity.spread(codes, 0, present, self.absent() as u32);
        // SAFETY: the codes of valid rows were checked, absent rows have the last one of the table; where no row is
        // absent, all codes were checked.
        unsafe { self.keep(rows, codes, kept) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::levels::Levels;

    #[test]
    fn keeps_the_rows_that_pass() {
        let verdicts = Verdicts::new(vec![1, 0, 0, 1], Some(1));
        let mut kept = vec![3];
        verdicts.sift(10..15, &[0, 2, 3, 3, 1], &mut kept).unwrap();
        assert_eq!(kept, [3, 10, 12, 13]);
        verdicts.sift_run(20..22, 1, &mut kept).unwrap();
        verdicts.sift_run(22..24, 3, &mut kept).unwrap();
        assert_eq!(kept, [3, 10, 12, 13, 22, 23]);
        assert!(verdicts.sift(0..1, &[4], &mut kept).is_err());
        assert!(verdicts.sift_run(0..1, u32::MAX, &mut kept).is_err());
    }

    #[test]
    fn absent_rows_have_a_verdict_of_their_own() {
        let mut levels = Levels::new(Bytes::from_static(&[1 << 1 | 1, 0b0101]), 1);
        let mut validity = Validity::default();
        let present = levels.read(4, &mut validity).unwrap();
        let mut kept = vec![];
        let verdicts = Verdicts::new(vec![0, 1], Some(1));
        let rows = || [4, 5, 6, 9].into_iter();
        verdicts.sift_nullable(rows(), &validity, &mut [0, 1, 7, 7], present, &mut kept).unwrap();
        assert_eq!(kept, [5, 6, 9]);
        // The code of absent rows is none that a file may use.
        assert!(verdicts.sift_nullable(rows(), &validity, &mut [0, 2, 7, 7], present, &mut kept).is_err());
        assert!(!verdicts.all(true) && Verdicts::new(vec![1, 1], None).all(true));
        assert!(!Verdicts::new(vec![1, 1], Some(0)).all(true));
    }
}
