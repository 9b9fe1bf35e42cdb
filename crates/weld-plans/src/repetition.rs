//! How often the values of a column of a table in memory come again, by a sample.
//!
//! ```text
//! impressions.user_id    3.7 million rows of 495,000 users, few of them often     25, as of 151,000 equally often
//! orders.o_orderkey      1.5 million rows                                          1: a key
//! lineitem.l_orderkey    6 million rows, of one to seven neighbours alike          5
//! ```
//! Least and greatest values of sparse numbers say nothing of it, and of texts there are none. What a join gives follows
//! from the second moment of the frequencies (the self-join size of N. Alon et al., Tracking Join and Self-Join Sizes in
//! Limited Storage, PODS 1999): the chance that two rows have the same value, which pairs of rows of a sample show. Rows
//! beside each other are often alike, so runs are sampled, and pairs within a run count apart from those of two runs.

use arrow::array::{Array, ArrayRef};
use datafusion::common::hash_utils::{RandomState, create_hashes};

/// Runs that are sampled, and rows of each.
const RUNS: usize = 512;
const RUN: usize = 8;

/// Fewer values say nothing.
const VALUES_MIN: usize = 1000;

/// Of how many rows, itself among them, a row of the column has the value, on average over rows; `arrays` make up the
/// column.
pub(crate) fn repetition(arrays: &[&ArrayRef]) -> Option<f64> {
    let Sample { mut hashes, pairs, equal } = sample(arrays)?;
    if hashes.len() < VALUES_MIN {
        return None;
    }
    let rows: usize = arrays.iter().map(|values| values.len() - values.null_count()).sum();
    hashes.sort_unstable();
    let pairs_of = |count: usize| (count * count.saturating_sub(1) / 2) as f64;
    let equal_all: f64 = hashes.chunk_by(|a, b| a == b).map(|equal| pairs_of(equal.len())).sum();
    let of_runs = |counts: [u32; RUN]| f64::from(counts.iter().sum::<u32>());
    let far = (equal_all - of_runs(equal)) / (pairs_of(hashes.len()) - of_runs(pairs)).max(1.0);
    // As many rows are before a row as behind it.
    let near: f64 =
        equal.iter().zip(&pairs).map(|(equal, pairs)| 2.0 * f64::from(*equal) / f64::from(*pairs).max(1.0)).sum();
    Some(1.0 + far * rows as f64 + near)
}

struct Sample {
    hashes: Vec<u64>,
    /// Pairs of one run, by their distance, and those of them that are equal.
    pairs: [u32; RUN],
    equal: [u32; RUN],
}

fn sample(arrays: &[&ArrayRef]) -> Option<Sample> {
    let rows: usize = arrays.iter().map(|values| values.len()).sum();
    let part = rows / RUNS;
    if part < RUN {
        return None;
    }
    let random = RandomState::default();
    let mut sample = Sample { hashes: Vec::with_capacity(RUNS * RUN), pairs: [0; RUN], equal: [0; RUN] };
    let (mut remaining, mut passed) = (arrays.iter(), 0);
    let mut array = remaining.next()?;
    for run in 0..RUNS {
        // A place in the run's part of the table that follows no period.
        let place = (run as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let first = run * part + place as usize % (part - RUN + 1);
        while passed + array.len() <= first {
            passed += array.len();
            array = remaining.next()?;
        }
        // A run ends with its array.
        let there = array.slice(first - passed, RUN.min(passed + array.len() - first));
        let mut hashes = [0; RUN];
        create_hashes([&there], &random, &mut hashes[..there.len()]).ok()?;
        let valid: Vec<usize> = (0..there.len()).filter(|row| !there.is_null(*row)).collect();
        for (number, row) in valid.iter().enumerate() {
            sample.hashes.push(hashes[*row]);
            for before in &valid[..number] {
                sample.pairs[row - before] += 1;
                sample.equal[row - before] += u32::from(hashes[*row] == hashes[*before]);
            }
        }
    }
    Some(sample)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StringViewArray};

    use super::*;

    const ROWS: u64 = 1_000_000;

    fn shuffled(row: u64) -> u64 {
        row.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20
    }

    /// Of numbers and of texts of them, in arrays of several lengths; both are about the same.
    fn found(value: impl Fn(u64) -> Option<u64>) -> f64 {
        let numbers = Int64Array::from_iter((0..ROWS).map(|row| value(row).map(|value| value as i64)));
        let texts: StringViewArray = (0..ROWS).map(|row| value(row).map(|value| format!("number {value}"))).collect();
        let arrays: [ArrayRef; 2] = [Arc::new(numbers), Arc::new(texts)];
        let found = arrays.map(|values| {
            [1000, 8192, ROWS as usize].map(|length| {
                let starts = (0..values.len()).step_by(length);
                let parts: Vec<_> = starts.map(|start| values.slice(start, length.min(values.len() - start))).collect();
                repetition(&parts.iter().collect::<Vec<_>>()).expect("enough rows")
            })
        });
        let found = found.as_flattened();
        let (min, max) =
            (found.iter().copied().fold(f64::INFINITY, f64::min), found.iter().copied().fold(0.0, f64::max));
        assert!(max / min < 1.6, "{found:?}");
        found[0]
    }

    fn is_about(found: f64, expected: f64) -> bool {
        found > expected / 1.5 && found < expected * 1.5
    }

    #[test]
    fn a_key_comes_once() {
        for found in [found(Some), found(|row| Some(shuffled(row))), found(|row| (row % 3 > 0).then_some(row))] {
            assert!(found < 1.3, "{found}");
        }
    }

    #[test]
    fn values_come_again_anywhere_or_side_by_side() {
        let (anywhere, sorted) = (found(|row| Some(shuffled(row) % 10_000)), found(|row| Some(row / 4)));
        assert!(is_about(anywhere, 100.0) && is_about(sorted, 4.0), "{anywhere} {sorted}");
        // Every other one is NULL.
        let with_nulls = found(|row| row.is_multiple_of(2).then_some(shuffled(row) % 10_000));
        assert!(is_about(with_nulls, 50.0), "{with_nulls}");
    }

    #[test]
    fn a_frequent_value_counts_by_its_rows() {
        // A tenth of the rows have one value, the others their own.
        let found = found(|row| Some(if shuffled(row).is_multiple_of(10) { 0 } else { row }));
        assert!(is_about(found, 0.1 * 0.1 * ROWS as f64), "{found}");
    }

    #[test]
    fn few_values_say_nothing() {
        let of = |values: Int64Array| repetition(&[&(Arc::new(values) as ArrayRef)]);
        assert!(of((0..4000).collect()).is_none() && of((0..5000).collect()).is_some());
        assert!(of((0..5000).map(|row| (row % 10 == 0).then_some(row)).collect()).is_none());
        assert!(repetition(&[]).is_none());
    }
}
