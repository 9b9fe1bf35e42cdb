//! The rows that are still to be read: those of a partition, or of all of them.
//!
//! ```text
//! zones      0 1 2 3 │ 4 5 6 7      two blocks; the filter leaves out 1, 2 and 6
//! spans      0, 3    │ 4 5, 7       whoever is done takes the next
//! ```

use std::collections::{HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, BooleanArray, UInt64Array};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::{snapshot_generation, snapshot_physical_expr};
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;
use datafusion::physical_plan::metrics::Count;

use crate::prunable::prunable;
use crate::snapshot::Snapshot;

/// Spans of zones, in their order.
#[derive(Debug)]
pub(crate) struct Queue {
    snapshot: Arc<Snapshot>,
    predicate: Option<Arc<dyn PhysicalExpr>>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    left: VecDeque<Span>,
    /// Which state of the predicate was asked last.
    asked: Option<u64>,
}

/// Zones of a block that follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Span {
    first: usize,
    count: usize,
}

/// Rows of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rows {
    pub(crate) block: usize,
    pub(crate) start: usize,
    pub(crate) count: usize,
}

impl Queue {
    /// Of these zones, at most so many at a time. `predicate` is over the table's columns.
    pub(crate) fn new(
        snapshot: &Arc<Snapshot>,
        zones: std::ops::Range<usize>,
        zones_max: usize,
        predicate: Option<&Arc<dyn PhysicalExpr>>,
    ) -> Queue {
        let left = spans(snapshot, zones, zones_max.max(1), None);
        let state = Mutex::new(State { left: left.into(), asked: None });
        Queue { snapshot: Arc::clone(snapshot), predicate: predicate.cloned(), state }
    }

    /// The next rows. What the predicate has come to leave out is counted in `pruned`.
    pub(crate) fn next(&self, pruned: &Count) -> Option<Rows> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(predicate) = &self.predicate {
            let generation = snapshot_generation(predicate);
            if state.asked.replace(generation) != Some(generation) {
                self.prune(&mut state.left, predicate, pruned);
            }
        }
        let Span { first, count } = state.left.pop_front()?;
        let zones = &self.snapshot.zones[first..first + count];
        let rows = zones.iter().map(|zone| zone.rows).sum();
        Some(Rows { block: zones[0].block, start: zones[0].start, count: rows })
    }

    /// Leaves out the zones that the predicate rules out as it is now.
    fn prune(&self, left: &mut VecDeque<Span>, predicate: &Arc<dyn PhysicalExpr>, pruned: &Count) {
        // DataFusion's pruning panics over some predicates, such as casts of decimals with a negative scale.
        let passes = match catch_unwind(AssertUnwindSafe(|| passing(&self.snapshot, predicate))) {
            Ok(Ok(Some(passes))) => passes,
            Ok(Ok(None)) => return,
            Ok(Err(error)) => return log::debug!("no zone is left out: {error}"),
            Err(_) => return log::debug!("no zone is left out: DataFusion panics over {predicate}"),
        };
        let zones = |left: &VecDeque<Span>| left.iter().map(|span| span.count).sum::<usize>();
        let before = zones(left);
        let rest = |span: &Span| spans(&self.snapshot, span.first..span.first + span.count, span.count, Some(&passes));
        *left = left.iter().flat_map(rest).collect();
        pruned.add(before - zones(left));
    }
}

/// Spans of zones, of those that pass.
fn spans(snapshot: &Snapshot, zones: std::ops::Range<usize>, zones_max: usize, passes: Option<&[bool]>) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for zone in zones.filter(|zone| passes.is_none_or(|passes| passes[*zone])) {
        let follows = |span: &&mut Span| {
            let is_next = span.first + span.count == zone && span.count < zones_max;
            is_next && snapshot.zones[span.first].block == snapshot.zones[zone].block
        };
        match spans.last_mut().filter(follows) {
            Some(span) => span.count += 1,
            None => spans.push(Span { first: zone, count: 1 }),
        }
    }
    spans
}

/// For each zone whether some row may pass the predicate, as it is now; `None` if all may.
fn passing(snapshot: &Snapshot, predicate: &Arc<dyn PhysicalExpr>) -> Result<Option<Vec<bool>>> {
    let now = snapshot_physical_expr(Arc::clone(predicate))?;
    let passes_nothing = |conjunct: &&Arc<dyn PhysicalExpr>| {
        let value = conjunct.downcast_ref::<Literal>().map(Literal::value);
        value.is_some_and(|value| value.is_null() || *value == ScalarValue::from(false))
    };
    if split_conjunction(&now).iter().any(passes_nothing) {
        return Ok(Some(vec![false; snapshot.zones.len()]));
    }
    let builder = PruningPredicateBuilder::new().with_file_schema(Arc::clone(&snapshot.schema));
    let pruning = builder.build(prunable(&now, &snapshot.schema));
    pruning.map(|pruning| pruning.prune(&ZoneStatistics(snapshot))).transpose()
}

/// Zones as DataFusion's pruning asks about them.
struct ZoneStatistics<'a>(&'a Snapshot);

impl ZoneStatistics<'_> {
    fn column(&self, column: &Column) -> Option<&crate::column::Column> {
        let is_named = |field: &&Arc<arrow::datatypes::Field>| *field.name() == column.name;
        // Of two columns of one name none is meant.
        let fields = self.0.schema.fields();
        let is_one = fields.iter().filter(is_named).count() == 1;
        let index = fields.iter().position(|field| is_named(&field)).filter(|_| is_one)?;
        self.0.columns.get(index)
    }
}

impl PruningStatistics for ZoneStatistics<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        Some(Arc::clone(&self.column(column)?.zones.bounds.as_ref()?.0))
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        Some(Arc::clone(&self.column(column)?.zones.bounds.as_ref()?.1))
    }

    fn num_containers(&self) -> usize {
        self.0.zones.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        Some(Arc::new(self.column(column)?.zones.nulls.clone()))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(UInt64Array::from_iter_values(self.0.zones.iter().map(|zone| zone.rows as u64))))
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
