//! Filters of sources by the first key of a sort with a limit, where DataFusion's filter by all of its keys does not
//! come to.
//!
//! ```text
//! SortExec: charge DESC, name, fetch=20
//!   HashJoinExec           DataFusion's filter has to stay here: a key of either side
//!     patients
//!     visits               charge >= 980, as soon as 20 rows are there
//! ```
//! A row whose first key comes after that of the last of the rows so far is not among the first ones, whatever its other
//! keys are. Build sides, sorts and groups are read to their end before there is a row to compare with: what is below
//! them has no filter. Nor has a float: it would be asked of minima and maxima, which leave NaN out, and NaN is greater than
//! all others. Lists, structs and maps are compared otherwise than they are sorted.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::sorts::sort::SortExec;

use crate::key_filters::{Path, Saves, column_of, has_filter, with_filter};

/// A filter that a source has among its predicates, for a sort to narrow.
#[derive(Clone, Debug)]
pub struct FirstKeyFilter {
    /// Passes everything so far.
    pub filter: Arc<DynamicFilterPhysicalExpr>,
    /// The sort's first key, as the filter has it.
    pub key: Arc<dyn PhysicalExpr>,
}

/// The input of a sort with a limit, whose sources have filters by its first key; `None` if none takes one.
pub fn with_first_key_filters(
    sort: &SortExec,
    config: &ConfigOptions,
) -> Result<Option<(Arc<dyn ExecutionPlan>, Vec<FirstKeyFilter>)>> {
    let Some(column) = column_of(&sort.expr().first().expr) else { return Ok(None) };
    let is_comparable = is_comparable(&sort.expr().first().expr.data_type(&sort.input().schema())?);
    if sort.fetch().is_none() || !is_comparable || !config.optimizer.enable_topk_dynamic_filter_pushdown {
        return Ok(None);
    }
    let own = sort.dynamic_expressions_produced().pop().and_then(|filter| filter.expression_id());
    let mut filters = Vec::new();
    let input = filtered(sort.input(), column, Path::EMPTY, &mut |source, key| {
        // DataFusion's filter says more.
        if own.is_some_and(|own| has_filter(source, own)) {
            return None;
        }
        let (source, filter) = with_filter(source, &key, config)?;
        filters.push(FirstKeyFilter { filter, key });
        Some(source)
    })?;
    Ok(input.map(|input| (input, filters)))
}

/// Whether comparisons and minima and maxima have the order of the sort.
fn is_comparable(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_comparable(values),
        other => !other.is_floating() && !other.is_nested(),
    }
}

type AddFilter<'a> = dyn FnMut(&Arc<dyn ExecutionPlan>, Arc<dyn PhysicalExpr>) -> Option<Arc<dyn ExecutionPlan>> + 'a;

/// `plan` with a filter by its column in its sources, if one takes any.
fn filtered(
    plan: &Arc<dyn ExecutionPlan>,
    column: usize,
    path: Path,
    add: &mut AddFilter<'_>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if plan.is::<DataSourceExec>() {
        let schema = plan.schema();
        let field = schema.fields().get(column);
        return Ok(field.and_then(|field| add(plan, Arc::new(Column::new(field.name(), column)))));
    }
    let mut children: Vec<Arc<dyn ExecutionPlan>> = plan.children().into_iter().cloned().collect();
    let mut is_any = false;
    for (place, to) in path.places(plan, column) {
        if place.saves == Saves::Memory || place.in_groups {
            continue;
        }
        if let Some(child) = filtered(&children[place.child], place.column, to, add)? {
            (children[place.child], is_any) = (child, true);
        }
    }
    if !is_any {
        return Ok(None);
    }
    let keep = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
    Ok(Some(Arc::clone(plan).replace_children(children, keep)?))
}
