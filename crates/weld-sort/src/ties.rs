//! Orders rows whose keys are the same because what tells them apart did not fit: by new keys, made of the rest of
//! their values, in which what these rows have in common takes no room. A few are compared instead.

use std::cmp::Ordering;

use crate::column::Column;
use crate::normalised_key::{Key, Layout, Rows};
use crate::place::Place;
use crate::radix;

/// So few rows are compared. Measured: keys for fewer take longer than comparing.
const FEW: usize = 24;

/// Orders the rows of each run of the same key among these sorted keys.
pub(crate) fn resolve<K: Key>(keys: &mut [K], layout: &Layout, columns: &[Column]) {
    if layout.resume.is_none() {
        return;
    }
    let mut rest = keys;
    while let Some(length) = run(rest, layout) {
        let (run, after) = rest.split_at_mut(length);
        if run.len() > 1 {
            order(run, layout, columns);
        }
        rest = after;
    }
}

/// How many of the first keys are the same but for their places.
pub(crate) fn run<K: Key>(keys: &[K], layout: &Layout) -> Option<usize> {
    let bits = layout.places().bits();
    let first = keys.first()?.with_low(bits, 0);
    Some(1 + keys[1..].iter().take_while(|key| key.with_low(bits, 0) == first).count())
}

fn order<K: Key>(run: &mut [K], layout: &Layout, columns: &[Column]) {
    let Some(start) = layout.resume else { return };
    let places = layout.places();
    if run.len() <= FEW {
        let columns = &columns[start.column..];
        return run.sort_unstable_by(|a, b| {
            let order = compare(columns, places.of(a.word(0)), places.of(b.word(0)));
            order.then_with(|| a.cmp(b))
        });
    }
    let rows: Vec<Place> = run.iter().map(|key| places.of(key.word(0))).collect();
    let finer = Layout::of(columns, Rows::Places(&rows), places, start, u128::BITS);
    let mut keys: Vec<u128> = finer.keys_at(columns, &rows);
    drop(rows);
    radix::sort(&mut keys, &mut Vec::new());
    resolve(&mut keys, &finer, columns);
    run.iter_mut().zip(&keys).for_each(|(key, finer)| *key = key.with_low(places.bits(), finer.word(0)));
}

fn compare(columns: &[Column], a: Place, b: Place) -> Ordering {
    columns.iter().map(|column| column.compare(a, b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}
