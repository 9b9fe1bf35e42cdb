//! A stable merge sort by a comparator that may fail and may be no order at all.
//!
//! The standard library's sorts may panic on inconsistent comparators; this one gives some permutation.

/// Sorts; `greater(a, b)` tells whether `a` must come after `b`.
pub(super) fn merge_sort<T: Clone, E>(
    items: &mut [T],
    greater: &mut impl FnMut(&T, &T) -> Result<bool, E>,
) -> Result<(), E> {
    let len = items.len();
    let mut merged = Vec::with_capacity(len);
    let mut width = 1;
    while width < len {
        merged.clear();
        for start in (0..len).step_by(2 * width) {
            let middle = len.min(start + width);
            let end = len.min(start + 2 * width);
            let (mut left, mut right) = (start, middle);
            while left < middle && right < end {
                let from = if greater(&items[left], &items[right])? { &mut right } else { &mut left };
                merged.push(items[*from].clone());
                *from += 1;
            }
            merged.extend_from_slice(&items[left..middle]);
            merged.extend_from_slice(&items[right..end]);
        }
        items.clone_from_slice(&merged);
        width *= 2;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_and_total() {
        for n in 0..40u32 {
            let mut items: Vec<(u32, u32)> = (0..n).map(|i| (i * 7 % 5, i)).collect();
            let mut expected = items.clone();
            expected.sort();
            merge_sort(&mut items, &mut |a, b| Ok::<_, ()>(a.0 > b.0)).expect("never fails");
            assert_eq!(items, expected);
        }
    }

    #[test]
    fn no_order_gives_a_permutation() {
        let mut items: Vec<u32> = (0..33).collect();
        merge_sort(&mut items, &mut |_, _| Ok::<_, ()>(true)).expect("never fails");
        items.sort_unstable();
        assert_eq!(items, (0..33).collect::<Vec<_>>());
        assert_eq!(merge_sort(&mut [2, 1], &mut |_, _| Err("x")), Err("x"));
    }
}
