//! Filters among the predicates of a source that reads files or an encoded table: it prunes by the least and the
//! greatest key, and readers that drop rows before they decode other columns find the set.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, DynamicFilterPhysicalExpr, lit};
use datafusion::physical_expr::{PhysicalExpr, conjunction};
use datafusion::physical_plan::ExecutionPlan;
use weld_table::TableSource;

use crate::key_set::{KeySet, KeySetExpr};

/// A filter that a source has been given.
#[derive(Debug)]
pub(super) struct SourceFilter {
    pub(super) filter: Arc<DynamicFilterPhysicalExpr>,
    pub(super) column: Arc<dyn PhysicalExpr>,
    pub(super) schema: SchemaRef,
    /// Which of the keys.
    pub(super) part: usize,
    /// With more keys it would not pay.
    pub(super) keys_max: f64,
}

/// The source with a filter over its column that passes everything so far; `None` if it takes none.
pub(crate) fn with_filter(
    plan: &Arc<dyn ExecutionPlan>,
    column: &Arc<dyn PhysicalExpr>,
    config: &ConfigOptions,
) -> Option<(Arc<dyn ExecutionPlan>, Arc<DynamicFilterPhysicalExpr>)> {
    // A limit counts rows that the filter would drop.
    let exec = plan.downcast_ref::<DataSourceExec>().filter(|exec| exec.fetch().is_none())?;
    if !exec.data_source().is::<FileScanConfig>() && !exec.data_source().is::<TableSource>() {
        return None;
    }
    let filter = Arc::new(DynamicFilterPhysicalExpr::new(vec![Arc::clone(column)], lit(true)));
    let pushed: Arc<dyn PhysicalExpr> = Arc::<DynamicFilterPhysicalExpr>::clone(&filter);
    let source = exec.data_source().try_pushdown_filters(vec![pushed], config).ok()?.updated_node?;
    Some((Arc::new(exec.clone().with_data_source(source)), filter))
}

impl SourceFilter {
    /// Once the keys are known.
    pub(super) fn narrow(&self, set: Option<&Arc<KeySet>>) {
        let set = set.filter(|set| set.keys() as f64 <= self.keys_max);
        update(&self.filter, set.map(|set| within(&self.column, &self.schema, set)));
    }
}

/// The join's dynamic filter, which the scan of its probe side has.
#[derive(Debug)]
pub(super) struct ProbeFilter {
    pub(super) filter: Arc<dyn PhysicalExpr>,
    /// What each of the keys is compared with.
    pub(super) columns: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) schema: SchemaRef,
}

impl ProbeFilter {
    /// Once the keys are known.
    pub(super) fn narrow(&self, sets: &[Option<Arc<KeySet>>]) {
        let known = self.columns.iter().zip(sets).filter_map(|(column, set)| Some((column, set.as_ref()?)));
        let within: Vec<_> = known.map(|(column, set)| within(column, &self.schema, set)).collect();
        if let Some(filter) = self.filter.downcast_ref::<DynamicFilterPhysicalExpr>() {
            update(filter, (!within.is_empty()).then(|| conjunction(within)));
        }
    }
}

/// Narrows a filter for good. It stays as wide as it was if that fails.
fn update(filter: &DynamicFilterPhysicalExpr, narrowed: Option<Arc<dyn PhysicalExpr>>) {
    if let Some(narrowed) = narrowed {
        let updated = filter.update(narrowed);
        updated.unwrap_or_else(|error| log::debug!("a filter of a source stays as it is: {error}"));
    }
    filter.mark_complete();
}

/// `column IN set`, with what sources prune by.
pub fn within(column: &Arc<dyn PhysicalExpr>, schema: &SchemaRef, set: &Arc<KeySet>) -> Arc<dyn PhysicalExpr> {
    let Some((min, max)) = set.bounds() else { return lit(false) };
    let bounds = match column.data_type(schema) {
        // Keys are hashes of texts.
        Ok(ty) if ty.is_string() => set.text_bounds().and_then(|(least, greatest)| {
            let text = |text: &str| ScalarValue::from(text).cast_to(&ty).ok();
            Some(between_values(column, text(least)?, text(greatest)?))
        }),
        // Keys of unsigned values are not in the order of these.
        Ok(ty) if ty != DataType::UInt64 => between(column, schema, min.into(), max.into()),
        _ => None,
    };
    let among: Arc<dyn PhysicalExpr> = Arc::new(KeySetExpr::new(Arc::clone(column), Arc::clone(set)));
    conjunction(bounds.into_iter().chain([among]))
}

/// `column >= min AND column <= max`; `None` if the type has no such values.
pub fn between(
    column: &Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
    min: i128,
    max: i128,
) -> Option<Arc<dyn PhysicalExpr>> {
    let data_type = column.data_type(schema).ok()?;
    Some(between_values(column, scalar(min, &data_type)?, scalar(max, &data_type)?))
}

fn between_values(column: &Arc<dyn PhysicalExpr>, min: ScalarValue, max: ScalarValue) -> Arc<dyn PhysicalExpr> {
    let compare =
        |op, value| -> Arc<dyn PhysicalExpr> { Arc::new(BinaryExpr::new(Arc::clone(column), op, lit(value))) };
    conjunction([compare(Operator::GtEq, min), compare(Operator::LtEq, max)])
}

/// An integer as SQL's value.
fn scalar(key: i128, data_type: &DataType) -> Option<ScalarValue> {
    let wide = || i64::try_from(key).ok();
    match data_type {
        DataType::UInt64 => Some(ScalarValue::UInt64(Some(key.try_into().ok()?))),
        DataType::Decimal32(precision, scale) => {
            Some(ScalarValue::Decimal32(Some(key.try_into().ok()?), *precision, *scale))
        }
        DataType::Decimal64(precision, scale) => Some(ScalarValue::Decimal64(Some(wide()?), *precision, *scale)),
        DataType::Decimal128(precision, scale) => Some(ScalarValue::Decimal128(Some(key), *precision, *scale)),
        DataType::Date32 => Some(ScalarValue::Date32(Some(key.try_into().ok()?))),
        DataType::Date64 => Some(ScalarValue::Date64(Some(wide()?))),
        DataType::Timestamp(..) => ScalarValue::Int64(Some(wide()?)).cast_to(data_type).ok(),
        other if other.is_integer() => ScalarValue::Int64(Some(wide()?)).cast_to(other).ok(),
        _ => None,
    }
}
