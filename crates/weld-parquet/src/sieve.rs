//! Which rows a predicate keeps, told by the codes of a dictionary whose entries were judged once.
//!
//! ```text
//! verdicts [1, 0, 0, 1]     codes 0 2 3 3 1 of rows 10..15   ->   kept 10, 12, 13
//! ```
//!
//! Nothing branches on what a code says: every row is written to the end of the kept ones, and the end moves by the
//! verdict.

use crate::dictionary::check_codes;
use crate::error::Result;
use crate::levels::Validity;

/// What a predicate says about each entry of a dictionary.
#[derive(Debug)]
pub(crate) struct Verdicts {
    /// One for every entry: 1 where the predicate is true, otherwise 0.
    entries: Vec<u8>,
    /// Absent where the column cannot be null.
    null: Option<u8>,
}

impl Verdicts {
    pub(crate) fn new(entries: Vec<u8>, null: Option<u8>) -> Self {
        debug_assert!(entries.iter().chain(&null).all(|verdict| *verdict <= 1));
        Self { entries, null }
    }

    pub(crate) fn all(&self, verdict: bool) -> bool {
        self.entries.iter().chain(&self.null).all(|&v| (v != 0) == verdict)
    }

    /// Appends to `kept` those of `rows` whose codes pass.
    pub(crate) fn sift(&self, rows: impl Iterator<Item = u32>, codes: &[u32], kept: &mut Vec<u32>) -> Result<()> {
        check_codes(codes, self.entries.len())?;
        kept.reserve(codes.len());
        let mut count = kept.len();
        let slots = kept.as_mut_ptr();
        for (row, &code) in rows.zip(codes) {
            // SAFETY: every code was checked to be below the number of entries. At most one row is kept for each code, so
            // `count` stays below the reserved length while codes are left.
            unsafe {
                *slots.add(count) = row;
                count += usize::from(*self.entries.get_unchecked(code as usize) & 1);
            }
        }
        // SAFETY: `count` is within the capacity reserved above, and every slot before it has been written.
        unsafe { kept.set_len(count) };
        Ok(())
    }

    /// All of `rows`, which have the same code.
    pub(crate) fn sift_run(&self, rows: impl Iterator<Item = u32>, code: u32, kept: &mut Vec<u32>) -> Result<()> {
        check_codes(&[code], self.entries.len())?;
        if self.entries[code as usize] != 0 {
            kept.extend(rows);
        }
        Ok(())
    }

    /// The same where some rows are absent: `codes` are those of the valid ones.
    pub(crate) fn sift_nullable(
        &self,
        rows: &[u32],
        validity: Validity,
        codes: &[u32],
        kept: &mut Vec<u32>,
    ) -> Result<()> {
        let Some(nulls) = validity.finish() else { return self.sift(rows.iter().copied(), codes, kept) };
        check_codes(codes, self.entries.len())?;
        let mut codes = codes.iter();
        for (&row, valid) in rows.iter().zip(&nulls) {
            let verdict = match valid {
                false => self.null.unwrap_or(0),
                true => codes.next().map_or(0, |&code| self.entries[code as usize]),
            };
            if verdict != 0 {
                kept.push(row);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut validity = Validity::default();
        [true, false, true, false].into_iter().for_each(|valid| validity.append_n(1, valid));
        let mut kept = vec![];
        Verdicts::new(vec![0, 1], Some(1)).sift_nullable(&[4, 5, 6, 9], validity, &[0, 1], &mut kept).unwrap();
        assert_eq!(kept, [5, 6, 9]);
    }
}
