//! The filter that a finished build side hands to the scan of the probe side:
//! `key >= least AND key <= greatest AND key IN keys`.
//!
//! DataFusion's join makes it and pushes it into the scan; whoever takes the join over feeds it. Statistics are pruned by
//! the bounds, rows are dropped by the set of keys. A key of several columns gives a set for each of them.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, DynamicFilterPhysicalExpr, lit};
use datafusion::physical_expr::{PhysicalExpr, conjunction};
use weld_codegen::Value;
use weld_plans::{JoinKeys, KeySet, KeySetExpr, key_set};

use crate::exec::{DynamicFilter, Inner};

/// The keys of a build side, or of one of its partitions.
pub(crate) struct Keys<'a> {
    pub(crate) table: &'a Value,
    /// Least and greatest of each part in turn.
    pub(crate) bounds: Option<&'a Value>,
}

/// Keys of a table that are told to other operators.
#[derive(Clone, Debug)]
pub(crate) struct TableKeys {
    pub(crate) keys: Arc<JoinKeys>,
    /// For each of them, which of the table's it is.
    pub(crate) parts: Vec<usize>,
}

/// Who waits for the keys of a table: if it is not finished, they hear that, too.
pub(crate) struct Told(Option<TableKeys>);

impl Told {
    pub(crate) fn begin(keys: &TableKeys, partitions: usize) -> Option<Told> {
        keys.keys.begin_all(partitions).then(|| Told(Some(keys.clone())))
    }

    pub(crate) fn tell(mut self, tables: &[&Value], context: &TaskContext) {
        let Some(TableKeys { keys, parts }) = self.0.take() else { return };
        keys.publish(parts.iter().map(|part| set_of(tables, *part, context)).collect());
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        if let Some(TableKeys { keys, .. }) = &self.0 {
            keys.close();
        }
    }
}

impl Inner {
    /// Those who drop rows by the keys of the table in this run.
    pub(crate) fn keys(&self) -> Option<&TableKeys> {
        self.pipeline.keys.as_ref().filter(|_| !self.reset)
    }

    /// Waits for the keys that the source drops rows by, where they are sure to come.
    pub(crate) async fn keys_settled(&self) {
        for filter in self.pipeline.awaited.iter().filter(|_| !self.reset) {
            filter.settled().await;
        }
    }
}

/// Narrows the filter to these keys, and completes it.
pub(crate) fn feed(feeds: &DynamicFilter, keys: &[Keys<'_>], context: &TaskContext) -> Result<()> {
    let Some(filter) = feeds.filter.downcast_ref::<DynamicFilterPhysicalExpr>() else { return Ok(()) };
    if let Some(narrowed) = within(feeds, keys).filter(|_| !feeds.passes_nulls) {
        let sets = (0..feeds.probe_keys.len()).filter_map(|part| among(feeds, keys, part, context));
        filter.update(conjunction(std::iter::once(narrowed).chain(sets)))?;
    }
    filter.mark_complete();
    Ok(())
}

/// `key IN keys` for one part of the keys.
fn among(
    feeds: &DynamicFilter,
    keys: &[Keys<'_>],
    part: usize,
    context: &TaskContext,
) -> Option<Arc<dyn PhysicalExpr>> {
    let tables: Vec<&Value> = keys.iter().map(|keys| keys.table).collect();
    let set = set_of(&tables, part, context)?;
    Some(Arc::new(KeySetExpr::new(Arc::clone(&feeds.probe_keys[part]), set)))
}

/// The set of one part of the tables' keys.
fn set_of(tables: &[&Value], part: usize, context: &TaskContext) -> Option<Arc<KeySet>> {
    let each = |insert: &mut dyn FnMut(i64)| tables.iter().all(|table| table.for_each_key(part, &mut *insert));
    key_set(each, context)
}

fn within(feeds: &DynamicFilter, keys: &[Keys<'_>]) -> Option<Arc<dyn PhysicalExpr>> {
    let bounds: Vec<&Value> = keys.iter().map(|keys| keys.bounds).collect::<Option<_>>()?;
    let mut narrowed: Option<Arc<dyn PhysicalExpr>> = None;
    for (index, key) in feeds.probe_keys.iter().enumerate() {
        let (mut least, mut greatest) = (i128::MAX, i128::MIN);
        for bounds in &bounds {
            least = least.min(bounds.field(2 * index)?.as_scalar()?.bits());
            greatest = greatest.max(bounds.field(2 * index + 1)?.as_scalar()?.bits());
        }
        if least > greatest {
            // No row was built: nothing can match.
            return Some(lit(false));
        }
        let data_type = key.data_type(&feeds.probe_schema).ok()?;
        let compare = |op, bound| -> Option<Arc<dyn PhysicalExpr>> {
            Some(Arc::new(BinaryExpr::new(Arc::clone(key), op, lit(scalar(bound, &data_type)?))))
        };
        for part in [compare(Operator::GtEq, least)?, compare(Operator::LtEq, greatest)?] {
            narrowed = Some(match narrowed {
                None => part,
                Some(so_far) => Arc::new(BinaryExpr::new(so_far, Operator::And, part)),
            });
        }
    }
    narrowed
}

/// An integer of Weld as SQL's value.
fn scalar(value: i128, data_type: &DataType) -> Option<ScalarValue> {
    if let DataType::Decimal128(precision, scale) = data_type {
        return Some(ScalarValue::Decimal128(Some(value), *precision, *scale));
    }
    let wide = match u64::try_from(value) {
        Ok(value) if *data_type == DataType::UInt64 => return Some(ScalarValue::UInt64(Some(value))),
        _ => i64::try_from(value).ok()?,
    };
    match data_type {
        DataType::Date32 => Some(ScalarValue::Date32(Some(i32::try_from(wide).ok()?))),
        DataType::Date64 => Some(ScalarValue::Date64(Some(wide))),
        DataType::Timestamp(..) => ScalarValue::Int64(Some(wide)).cast_to(data_type).ok(),
        other if other.is_integer() => ScalarValue::Int64(Some(wide)).cast_to(other).ok(),
        _ => None,
    }
}
