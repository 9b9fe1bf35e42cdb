//! The keys of one join's build side on their way from who collects them to who drops rows by them.
//!
//! ```text
//! JoinKeysExec, partitions 0..n ── begin, end ──► JoinKeys ── publish ──► KeyFilterExec, as many as there are
//! ```
//! Sets are published once, when all partitions have ended, or never: a partition that is given up, keys that are too
//! many, memory that is refused, and a second execution of the same plan each leave no sets, and then no row is
//! dropped.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_expr::PhysicalExpr;
use tokio::sync::watch;

use super::source::{ProbeFilter, SourceFilter};
use crate::key_set::{KeySet, KeySetBuilder};

/// The sets of a join's keys, one for each of them; none where a set would not pay.
pub type KeySets = Arc<[Option<Arc<KeySet>>]>;

/// What is known of a build side's keys.
pub struct JoinKeys {
    /// Tells the joins of a plan apart, for EXPLAIN.
    number: usize,
    /// The keys, over the build side.
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    /// Whether the join has all partitions of its build side before it asks for a row of its probe side: only then may
    /// a filter wait.
    is_whole: bool,
    state: Mutex<State>,
    published: watch::Sender<Published>,
}

#[derive(Debug, Default)]
struct State {
    begun: HashSet<usize>,
    ended: Vec<Collected>,
    /// Filters that sources have among their predicates.
    in_sources: Vec<SourceFilter>,
    /// The join's own, if nobody else narrows it.
    of_join: Option<ProbeFilter>,
    is_closed: bool,
}

/// The keys of one partition.
#[derive(Debug)]
pub(super) struct Collected {
    /// The values of each key.
    pub(super) keys: Vec<Vec<i64>>,
    pub(super) memory: MemoryReservation,
}

#[derive(Clone, Debug)]
enum Published {
    NotYet,
    Sets(KeySets),
    Nothing,
}

impl JoinKeys {
    pub(super) fn new(number: usize, exprs: Vec<Arc<dyn PhysicalExpr>>, is_whole: bool) -> JoinKeys {
        let (state, published) = (Mutex::default(), watch::channel(Published::NotYet).0);
        JoinKeys { number, exprs, is_whole, state, published }
    }

    /// The same for another execution of the plan, which drops no rows: whether all of the plan is executed again, with
    /// the same rows, is not known.
    pub(super) fn unused(&self) -> JoinKeys {
        let unused = JoinKeys::new(self.number, self.exprs.clone(), self.is_whole);
        unused.close();
        unused
    }

    /// The number that plans print, one a join.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The keys over the rows of the build side, in the order of the join's conditions.
    pub fn exprs(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.exprs
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add_source(&self, filter: SourceFilter) {
        self.state().in_sources.push(filter);
    }

    pub(super) fn feed(&self, filter: ProbeFilter) {
        self.state().of_join = Some(filter);
    }

    /// Whoever executes a partition of the build side says so first; whether its keys are wanted. A partition that
    /// begins a second time may have other rows, so there are no sets any more.
    #[must_use]
    pub fn begin(&self, partition: usize) -> bool {
        let is_first = self.state().begun.insert(partition);
        if !is_first {
            self.close();
        }
        self.is_wanted()
    }

    /// [`JoinKeys::begin`] for whoever executes all partitions.
    #[must_use]
    pub fn begin_all(&self, partitions: usize) -> bool {
        (0..partitions.max(1)).fold(true, |_, partition| self.begin(partition))
    }

    pub(super) fn is_wanted(&self) -> bool {
        !self.state().is_closed
    }

    /// There are no sets, and there will be none.
    pub fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.ended.clear();
        drop(state);
        self.published.send_replace(Published::Nothing);
    }

    /// A partition has ended. The last of `partitions` makes the sets.
    pub(super) fn end(&self, collected: Collected, partitions: usize, context: &TaskContext) {
        let mut state = self.state();
        if state.is_closed {
            return;
        }
        state.ended.push(collected);
        if state.ended.len() < partitions {
            return;
        }
        let ended = std::mem::take(&mut state.ended);
        drop(state);
        let values = |part: usize| ended.iter().flat_map(move |collected| &collected.keys[part]).copied();
        let sets = (0..self.exprs.len()).map(|part| {
            key_set(
                |each| {
                    values(part).for_each(each);
                    true
                },
                context,
            )
        });
        self.publish(sets.map(|set| set.map(Arc::new)).collect());
    }

    /// The sets of all keys.
    pub fn publish(&self, sets: Vec<Option<Arc<KeySet>>>) {
        let state = self.state();
        if state.is_closed {
            return;
        }
        let is_any = sets.iter().any(Option::is_some);
        for filter in &state.in_sources {
            filter.narrow(sets.get(filter.part).and_then(Option::as_ref));
        }
        if let Some(filter) = &state.of_join {
            filter.narrow(&sets);
        }
        self.published.send_replace(if is_any { Published::Sets(sets.into()) } else { Published::Nothing });
        drop(state);
    }

    /// The sets, as far as they are known.
    pub fn sets(&self) -> Option<KeySets> {
        match &*self.published.borrow() {
            Published::Sets(sets) => Some(Arc::clone(sets)),
            Published::NotYet | Published::Nothing => None,
        }
    }

    /// Waits for the sets where that cannot take forever.
    pub(super) async fn settled(&self) {
        if !self.is_whole {
            return;
        }
        let mut published = self.published.subscribe();
        // The sender is this.
        let _ = published.wait_for(|published| !matches!(published, Published::NotYet)).await;
    }
}

/// The set of the keys that `for_each_key` calls its argument with, `false` if they are no integers; `None` if there is
/// no set that pays, or no memory for it.
pub fn key_set(for_each_key: impl Fn(&mut dyn FnMut(i64)) -> bool, context: &TaskContext) -> Option<KeySet> {
    let (mut min, mut max, mut count) = (i64::MAX, i64::MIN, 0);
    let are_integers = for_each_key(&mut |key| {
        (min, max) = (min.min(key), max.max(key));
        count += 1;
    });
    let memory = MemoryConsumer::new("JoinKeys").register(context.memory_pool());
    let mut set = KeySetBuilder::new(count, min, max).filter(|_| are_integers)?.reserved(memory)?;
    for_each_key(&mut |key| set.insert(key));
    Some(set.finish())
}

impl fmt::Debug for JoinKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinKeys").field("number", &self.number).field("exprs", &self.exprs).finish_non_exhaustive()
    }
}

/// `#2 [o_orderkey@0]`
impl fmt::Display for JoinKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exprs: Vec<String> = self.exprs.iter().map(ToString::to_string).collect();
        write!(f, "#{} [{}]", self.number, exprs.join(", "))
    }
}
