//! Work on slices of an array by several threads, which end before it returns.

use std::ops::Range;

/// Cuts `rows` into this many runs of about the same number of rows; gives the ends of each.
pub(crate) fn runs(counts: &[usize], threads: usize) -> Vec<Range<usize>> {
    let all: usize = counts.iter().sum();
    let (mut runs, mut start, mut rows) = (Vec::new(), 0, 0);
    for (number, count) in counts.iter().enumerate() {
        rows += count;
        if rows * threads >= all * (runs.len() + 1) || number + 1 == counts.len() {
            runs.push(start..number + 1);
            start = number + 1;
        }
    }
    runs
}

/// The results of `work` on each of these, in their order.
pub(crate) fn each<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    if items.len() <= 1 {
        return items.into_iter().map(work).collect();
    }
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = items.into_iter().map(|item| scope.spawn(move || work(item))).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended.map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// Cuts a slice at these ends, one after the other.
pub(crate) fn cut<T>(mut slice: &mut [T], lengths: impl IntoIterator<Item = usize>) -> Vec<&mut [T]> {
    let mut cuts = Vec::new();
    for length in lengths {
        let (first, rest) = slice.split_at_mut(length);
        cuts.push(first);
        slice = rest;
    }
    cuts
}

/// Gives each thread slices of about the same length together.
pub(crate) fn shares<T>(slices: Vec<&mut [T]>, threads: usize) -> Vec<Vec<&mut [T]>> {
    let lengths: Vec<usize> = slices.iter().map(|slice| slice.len()).collect();
    let mut slices = slices.into_iter();
    runs(&lengths, threads).into_iter().map(|run| slices.by_ref().take(run.len()).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_have_about_the_same_number_of_rows() {
        assert_eq!(runs(&[10, 10, 10, 10], 2), [0..2, 2..4]);
        assert_eq!(runs(&[100, 1, 1], 2), [0..1, 1..3]);
        assert_eq!(runs(&[1], 4), vec![Range { start: 0, end: 1 }]);
        assert_eq!(runs(&[5, 5, 5], 1), vec![Range { start: 0, end: 3 }]);
        assert!(runs(&[], 2).is_empty());
        assert_eq!(each(vec![1, 2, 3], |number| number * 2), [2, 4, 6]);
    }
}
