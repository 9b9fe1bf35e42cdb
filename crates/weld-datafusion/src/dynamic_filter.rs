//! The filter that a finished build side hands to the scan of the probe side:
//! `key >= least AND key <= greatest AND key IN keys`.
//!
//! DataFusion's join makes it and pushes it into the scan; whoever takes the join over feeds it. Statistics are pruned
//! by the bounds, rows are dropped by the set of keys. A key of several columns gives a set for each of them.

use std::cell::RefCell;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, lit};
use datafusion::physical_expr::{PhysicalExpr, conjunction};
use weld_codegen::Value;
use weld_plans::{JoinKeys, KeySet, between, has_sets, is_found_again, key_set, text_key, within};

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
        self.pipeline.filters.keys.as_ref().filter(|_| !self.reset)
    }

    /// Waits for the keys that the source drops rows by, where they are sure to come: whoever reads no rows of the source must
    /// not wait, for then a table with such keys need not be built.
    pub(crate) async fn keys_settled(&self) {
        for filter in self.pipeline.filters.awaited.iter().filter(|_| !self.reset) {
            filter.settled().await;
        }
    }
}

/// Narrows the filter to these keys, and completes it.
pub(crate) fn feed(feeds: &DynamicFilter, keys: &[Keys<'_>], context: &TaskContext) -> Result<()> {
    let Some(filter) = feeds.filter.downcast_ref::<DynamicFilterPhysicalExpr>() else { return Ok(()) };
    let parts = if feeds.passes_nulls { 0 } else { feeds.probe_keys.len() };
    let all: Vec<_> = feeds.probe_keys.iter().collect();
    let said = (0..parts).filter(|part| is_found_again(all[*part], &all));
    let narrowed: Vec<_> = said.filter_map(|part| narrowed(feeds, keys, part, context)).collect();
    if !narrowed.is_empty() {
        filter.update(conjunction(narrowed))?;
    }
    filter.mark_complete();
    Ok(())
}

/// What one part of the keys has to be: in their set or, where that would not pay, between the least and the greatest.
fn narrowed(
    feeds: &DynamicFilter,
    keys: &[Keys<'_>],
    part: usize,
    context: &TaskContext,
) -> Option<Arc<dyn PhysicalExpr>> {
    let (column, schema) = (&feeds.probe_keys[part], &feeds.probe_schema);
    let tables: Vec<&Value> = keys.iter().map(|keys| keys.table).collect();
    let data_type = column.data_type(schema).ok()?;
    if !has_sets(&data_type) && !data_type.is_string() {
        // Floats among others, of which the table has the order keys. Without a row nothing can match.
        let is_empty = |table: &&Value| table.as_dict().is_some_and(|dict| dict.is_empty());
        return tables.iter().all(is_empty).then(|| lit(false));
    }
    if let Some(set) = set_of(&tables, part, context) {
        return Some(within(column, schema, &set));
    }
    let (mut least, mut greatest) = (i128::MAX, i128::MIN);
    for keys in keys {
        let bounds = keys.bounds?;
        least = least.min(bounds.field(2 * part)?.as_scalar()?.bits());
        greatest = greatest.max(bounds.field(2 * part + 1)?.as_scalar()?.bits());
    }
    // No row was built: nothing can match.
    if least > greatest { Some(lit(false)) } else { between(column, schema, least, greatest) }
}

/// The set of one part of the tables' keys. Of texts it knows the least and the greatest too: files whose texts come with
/// time are pruned by them. They are compared where they are hashed, while their bytes are in the cache.
fn set_of(tables: &[&Value], part: usize, context: &TaskContext) -> Option<Arc<KeySet>> {
    let bounds = RefCell::new(None);
    let each = |insert: &mut dyn FnMut(i64)| {
        tables.iter().all(|table| {
            table.for_each_key(part, &mut *insert)
                || table.for_each_text_key(part, |text| {
                    widen(&mut bounds.borrow_mut(), text);
                    insert(text_key(text));
                })
        })
    };
    let set = key_set(each, context)?;
    Some(Arc::new(match bounds.take() {
        Some((least, greatest)) => set.with_text_bounds(least, greatest),
        None => set,
    }))
}

fn widen(bounds: &mut Option<(Vec<u8>, Vec<u8>)>, text: &[u8]) {
    match bounds {
        None => *bounds = Some((text.to_vec(), text.to_vec())),
        Some((least, _)) if text < least.as_slice() => *least = text.to_vec(),
        Some((_, greatest)) if text > greatest.as_slice() => *greatest = text.to_vec(),
        Some(_) => {}
    }
}
