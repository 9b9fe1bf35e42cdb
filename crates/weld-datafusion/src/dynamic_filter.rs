//! The filter that a finished build side hands to the scan of the probe side: `key >= least AND key <= greatest`.
//!
//! DataFusion's join makes it and pushes it into the scan; whoever takes the join over feeds it.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, DynamicFilterPhysicalExpr, lit};
use weld_codegen::Value;

use crate::exec::DynamicFilter;

/// Narrows the filter to the keys between `bounds` (least and greatest of each key in turn) and completes it.
pub(crate) fn feed(feeds: &DynamicFilter, bounds: Option<&Value>) -> Result<()> {
    let Some(filter) = feeds.filter.downcast_ref::<DynamicFilterPhysicalExpr>() else { return Ok(()) };
    if let Some(narrowed) = bounds.and_then(|bounds| within(feeds, bounds)) {
        filter.update(narrowed)?;
    }
    filter.mark_complete();
    Ok(())
}

fn within(feeds: &DynamicFilter, bounds: &Value) -> Option<Arc<dyn PhysicalExpr>> {
    let mut narrowed: Option<Arc<dyn PhysicalExpr>> = None;
    for (index, key) in feeds.probe_keys.iter().enumerate() {
        let least = bounds.field(2 * index)?.as_scalar()?.bits();
        let greatest = bounds.field(2 * index + 1)?.as_scalar()?.bits();
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
