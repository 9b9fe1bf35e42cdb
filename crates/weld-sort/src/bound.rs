//! The last of the k best rows so far, which every better row comes before: shared by partitions of a sort, and told to
//! the scan below.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use arrow::array::RecordBatch;
use arrow::compute::SortOptions;
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, DynamicFilterPhysicalExpr, is_not_null, is_null, lit};
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use weld_plans::{FirstKeyFilter, is_found_again};

use crate::column::Range;

/// A row that is equal to the last of k rows, or comes after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    /// Its key, as of [`Prefix`](crate::prefix::Prefix).
    pub(crate) key: u128,
    /// Whether rows with this key are equal to it.
    pub(crate) is_exact: bool,
    /// The code of the first of its sort keys, if that is not null.
    pub(crate) first: Option<u128>,
}

impl Bound {
    /// Where the first of a row's sort keys must lie so that the row may come before this one, or be equal to it unless
    /// `strict`. Its codes have so many bits.
    pub(crate) fn range(self, options: SortOptions, strict: bool, bits: u32) -> Range {
        let (max, step) = (u128::MAX >> (u128::BITS - bits), u128::from(strict));
        let codes = match self.first {
            None if options.nulls_first => None,
            None => Some((0, max)),
            Some(code) if options.descending => code.checked_add(step).filter(|low| *low <= max).map(|low| (low, max)),
            Some(code) => code.checked_sub(step).map(|high| (0, high)),
        };
        Range { codes, nulls: if self.first.is_none() { !strict } else { options.nulls_first } }
    }
}

/// A filter of a scan below.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    filter: Arc<DynamicFilterPhysicalExpr>,
    /// The sort keys that it speaks of, as it has them: all, or some from the first on.
    keys: Vec<PhysicalSortExpr>,
}

impl Filter {
    /// The sort's own.
    pub(crate) fn of_all(filter: Arc<DynamicFilterPhysicalExpr>, order: &LexOrdering) -> Filter {
        Filter { filter, keys: order.to_vec() }
    }

    pub(crate) fn of_first(first: &FirstKeyFilter, order: &LexOrdering) -> Filter {
        let key = PhysicalSortExpr { expr: Arc::clone(&first.key), options: order.first().options };
        Filter { filter: Arc::clone(&first.filter), keys: vec![key] }
    }
}

/// What partitions of one execution of a sort share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Unless they belong to another execution.
    filters: Vec<Filter>,
    best: Mutex<Option<(Bound, Vec<ScalarValue>)>>,
    /// Whether each partition was begun.
    begun: Mutex<Vec<bool>>,
    unfinished: AtomicUsize,
}

impl Shared {
    pub(crate) fn new(filters: Vec<Filter>, partitions: usize) -> Arc<Shared> {
        let begun = Mutex::new(vec![false; partitions]);
        Arc::new(Shared { filters, best: Mutex::new(None), begun, unfinished: AtomicUsize::new(partitions) })
    }

    /// For a partition that begins: `shared`, or new state if this partition has run with it. Rows that the filters
    /// dropped for an execution that has ended are needed again; one that goes on keeps the filters for itself.
    pub(crate) fn begin(shared: &Mutex<Arc<Shared>>, partition: usize) -> Result<Arc<Shared>> {
        let mut shared = lock(shared);
        if std::mem::replace(&mut lock(&shared.begun)[partition], true) {
            let partitions = lock(&shared.begun).len();
            let filters = if Arc::strong_count(&shared) == 1 { shared.filters.clone() } else { Vec::new() };
            for told in &filters {
                told.filter.update(lit(true))?;
            }
            *shared = Shared::new(filters, partitions);
            lock(&shared.begun)[partition] = true;
        }
        Ok(Arc::clone(&shared))
    }

    pub(crate) fn bound(&self) -> Option<Bound> {
        lock(&self.best).as_ref().map(|(bound, _)| *bound)
    }

    /// Takes a partition's bound, which is the only row of a batch, if it is before all others'.
    pub(crate) fn offer(&self, bound: Bound, order: &[PhysicalSortExpr], row: &RecordBatch) -> Result<()> {
        let is_beaten = |best: &(Bound, _)| best.0.key < bound.key || (best.0.key == bound.key && bound.is_exact);
        if lock(&self.best).as_ref().is_some_and(is_beaten) {
            return Ok(());
        }
        let value = |key: &Arc<dyn PhysicalExpr>| ScalarValue::try_from_array(&key.evaluate(row)?.into_array(1)?, 0);
        let values: Vec<ScalarValue> = order.iter().map(|key| value(&key.expr)).collect::<Result<_>>()?;
        let says = |told: &Filter| predicate(&told.keys, &values, told.keys.len() == order.len());
        let predicates: Vec<_> = self.filters.iter().map(says).collect::<Result<_>>()?;
        let mut best = lock(&self.best);
        if let Some((other, other_values)) = &*best
            && (other.key, true) <= (bound.key, bound.is_exact || !is_before(order, &values, other_values)?)
        {
            return Ok(());
        }
        *best = Some((bound, values));
        self.filters.iter().zip(predicates).try_for_each(|(told, predicate)| told.filter.update(predicate))
    }

    /// One partition gives no bounds any more.
    pub(crate) fn finish(&self) {
        if self.unfinished.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.filters.iter().for_each(|told| told.filter.mark_complete());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a row comes before another.
fn is_before(order: &[PhysicalSortExpr], row: &[ScalarValue], other: &[ScalarValue]) -> Result<bool> {
    let pair = |(a, b): (&ScalarValue, &ScalarValue)| ScalarValue::iter_to_array([a.clone(), b.clone()]);
    let columns = row.iter().zip(other).map(pair).collect::<Result<Vec<_>>>()?;
    let field = |(value, key): (&ScalarValue, _)| {
        let key: &datafusion::physical_expr::PhysicalSortExpr = key;
        SortField::new_with_options(value.data_type(), key.options)
    };
    let rows = RowConverter::new(row.iter().zip(order).map(field).collect())?.convert_columns(&columns)?;
    Ok(rows.row(0) < rows.row(1))
}

/// What holds of rows that come before the one with these values: for `a, b DESC` that `a < 1 OR a = 1 AND b > 2`. The
/// two zeros of floats have an order, but a comparison takes them for equal: it holds of either. Of keys from the first
/// on that the filter would not find again nothing is said, nor of further ones than `order` unless these are `all`: rows
/// that are equal up to there may come before.
fn predicate(order: &[PhysicalSortExpr], values: &[ScalarValue], all: bool) -> Result<Arc<dyn PhysicalExpr>> {
    let keys: Vec<&Arc<dyn PhysicalExpr>> = order.iter().map(|key| &key.expr).collect();
    let said = keys.iter().take_while(|key| is_found_again(key, &keys)).count();
    let all = all && said == order.len();
    let binary = |left, operator, right| Arc::new(BinaryExpr::new(left, operator, right)) as Arc<dyn PhysicalExpr>;
    let mut before: Option<Arc<dyn PhysicalExpr>> = None;
    let mut equal: Option<Arc<dyn PhysicalExpr>> = None;
    for (key, value) in order[..said].iter().zip(values) {
        let is_key_null = is_null(Arc::clone(&key.expr))?;
        let operator = match (key.options.descending, is_zero_of_floats(value)) {
            (true, false) => Operator::Gt,
            (true, true) => Operator::GtEq,
            (false, false) => Operator::Lt,
            (false, true) => Operator::LtEq,
        };
        let compared = |operator| binary(Arc::clone(&key.expr), operator, lit(value.clone()));
        let is_before = match (key.options.nulls_first, value.is_null()) {
            (true, true) => lit(false),
            (true, false) => binary(Arc::clone(&is_key_null), Operator::Or, compared(operator)),
            (false, true) => is_not_null(Arc::clone(&key.expr))?,
            (false, false) => compared(operator),
        };
        let is_equal = compared(Operator::Eq);
        let is_equal = if value.is_null() { binary(is_key_null, Operator::Or, is_equal) } else { is_equal };
        let and = |equal: &Option<_>, next| match equal {
            Some(equal) => binary(Arc::clone(equal), Operator::And, next),
            None => next,
        };
        let here = and(&equal, is_before);
        before =
            Some(before.map_or_else(|| Arc::clone(&here), |before| binary(before, Operator::Or, Arc::clone(&here))));
        equal = Some(and(&equal, is_equal));
    }
    Ok(match (before, equal) {
        (Some(before), Some(equal)) if !all => binary(before, Operator::Or, equal),
        (Some(before), _) => before,
        (None, _) => lit(true),
    })
}

fn is_zero_of_floats(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Float16(Some(value)) => value.to_f32() == 0.0,
        ScalarValue::Float32(Some(value)) => *value == 0.0,
        ScalarValue::Float64(Some(value)) => *value == 0.0,
        ScalarValue::Dictionary(_, value) => is_zero_of_floats(value),
        _ => false,
    }
}
