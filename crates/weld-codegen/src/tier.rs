//! Two efforts for one program: cheap code runs first, optimised code takes its place between two chunks.
//!
//! Both come of the same emission, so they share the layout of the state; only what LLVM does after it differs.
//! Compiling optimised code takes about [`OPTIMISED_COST`] times as long, which the rows still to come must repay.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::compiled::Kernel;
use crate::error::CompileError;

/// Which code a program with a stream runs on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Tiers {
    /// Code of the level that the options name, from the start.
    #[default]
    Single,
    /// Cheap code first; that of the level once [`Compiled::improve`](crate::Compiled::improve) has made it.
    CheapFirst,
    /// Cheap code for every other chunk, that of the level for the rest: for tests.
    Alternate,
}

/// The effort behind a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Tier {
    Cheap,
    Full,
}

pub(crate) type Slot = OnceLock<Result<Arc<Kernel>, CompileError>>;

/// One part of a program, compiled with either effort.
#[derive(Default)]
pub(crate) struct Tiered {
    pub(crate) cheap: Slot,
    pub(crate) full: Slot,
    /// Whether a run has used it. What was made ahead for layouts that did not come is not improved.
    pub(crate) used: AtomicBool,
    /// The rows that it has seen, and those of them in chunks without any nulls, which it looks for in vain.
    rows: AtomicU64,
    plain_rows: AtomicU64,
}

impl Tiered {
    /// Optimised code, if it is there.
    pub(crate) fn improved(&self) -> Option<&Arc<Kernel>> {
        self.full.get()?.as_ref().ok()
    }

    pub(crate) fn note(&self, rows: usize, is_plain: bool) {
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
        if is_plain {
            self.plain_rows.fetch_add(rows as u64, Ordering::Relaxed);
        }
    }

    /// Whether most of its rows are in chunks without any nulls.
    pub(crate) fn is_mostly_plain(&self) -> bool {
        2 * self.plain_rows.load(Ordering::Relaxed) > self.rows.load(Ordering::Relaxed)
    }

    /// Whether there is cheap code and nobody has tried to make better.
    pub(crate) fn lacks_full(&self) -> bool {
        matches!(self.cheap.get(), Some(Ok(_))) && self.full.get().is_none()
    }

    /// Everything that was compiled.
    pub(crate) fn kernels(&self) -> impl Iterator<Item = &Arc<Kernel>> {
        [&self.cheap, &self.full].into_iter().filter_map(|slot| slot.get()?.as_ref().ok())
    }
}

/// How much longer optimised code takes to make than cheap code. Measured over the queries of TPC-H: 4.0 (Q13) to 7.7
/// (Q2), 5.9 for all of them.
pub const OPTIMISED_COST: f64 = 6.0;

/// The share of its time that cheap code loses to optimised code: it runs for about twice as long.
const FULL_GAIN: f64 = 0.5;

/// What cheap code has done since there was last something to improve.
#[derive(Default, Debug)]
pub(crate) struct Progress {
    rows: AtomicU64,
    nanos: AtomicU64,
    /// Somebody makes better code, or has failed to.
    claimed: AtomicBool,
}

impl Progress {
    pub(crate) fn note(&self, rows: usize, time: Duration) {
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
        self.nanos.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Whether optimised code, for which `cheap` is what the cheap code took to make, repays its making. So many rows
    /// are still to come; where nobody knows, as many as there were.
    pub(crate) fn repays(&self, cheap: Duration, rows_left: Option<u64>) -> bool {
        let (rows, nanos) = (self.rows.load(Ordering::Relaxed), self.nanos.load(Ordering::Relaxed) as f64);
        if rows == 0 {
            return false;
        }
        let left = rows_left.unwrap_or(rows);
        nanos / rows as f64 * left as f64 * FULL_GAIN > cheap.as_nanos() as f64 * OPTIMISED_COST
    }

    /// Whether code that comes again has run for as long as optimising it takes: then as many runs again repay half of
    /// that, and most come more often. `cheap` as in [`Progress::repays`].
    pub(crate) fn repays_when_it_returns(&self, cheap: Duration) -> bool {
        let nanos = self.nanos.load(Ordering::Relaxed) as f64;
        nanos > cheap.as_nanos() as f64 * OPTIMISED_COST
    }

    /// Whether the caller is the one to make better code.
    pub(crate) fn claim(&self) -> bool {
        !self.claimed.swap(true, Ordering::Relaxed)
    }

    /// Begins anew: better code is there.
    pub(crate) fn reset(&self) {
        self.rows.store(0, Ordering::Relaxed);
        self.nanos.store(0, Ordering::Relaxed);
        self.claimed.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_returns_has_to_have_run() {
        let (progress, cheap) = (Progress::default(), Duration::from_millis(4));
        progress.note(10, Duration::from_millis(23));
        assert!(!progress.repays_when_it_returns(cheap));
        progress.note(10, Duration::from_millis(2));
        assert!(progress.repays_when_it_returns(cheap));
    }

    #[test]
    fn rows_to_come_decide() {
        let (progress, cheap) = (Progress::default(), Duration::from_millis(4));
        assert!(!progress.repays(cheap, Some(1_000_000)));
        progress.note(10_000, Duration::from_millis(1));
        assert!(!progress.repays(cheap, None));
        assert!(!progress.repays(cheap, Some(90_000)));
        assert!(progress.repays(cheap, Some(990_000)));
        progress.note(490_000, Duration::from_millis(49));
        assert!(progress.repays(cheap, None));
        assert!(!progress.repays(cheap, Some(0)));
        assert!(progress.claim() && !progress.claim());
        progress.reset();
        assert!(!progress.repays(cheap, None) && progress.claim());
    }
}
