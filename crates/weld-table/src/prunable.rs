//! What minima and maxima may be asked about: conditions whose casts keep the order of values, so that bounds that are cast
//! are bounds of what is cast.
//!
//! DataFusion's pruning asks whether a cast is from texts to others, or back, and takes every other cast for one that
//! keeps the order. `CAST(ts AS TIME)` does not, nor does `CAST(i AS BOOLEAN)`: of -1 and 0 the second is false.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::TreeNode;
use datafusion::physical_expr::expressions::{CastExpr, TryCastExpr};
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};

/// The conditions that statistics may be asked about, of those that a filter over columns of this schema has.
pub fn prunable(filter: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Arc<dyn PhysicalExpr> {
    let conjuncts = split_conjunction(filter);
    conjunction(conjuncts.into_iter().filter(|conjunct| keeps_order(conjunct, schema)).map(Arc::clone))
}

/// Whether each cast in the expression keeps the order of values. A dynamic filter speaks of its keys.
pub fn keeps_order(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let loses_order = |node: &Arc<dyn PhysicalExpr>| {
        let cast = node.downcast_ref::<CastExpr>().map(|cast| (cast.expr(), cast.cast_type()));
        let cast = cast.or_else(|| node.downcast_ref::<TryCastExpr>().map(|cast| (cast.expr(), cast.cast_type())));
        Ok(match cast {
            Some((value, to)) => !is_monotonic(&value.data_type(schema)?, to),
            None => false,
        })
    };
    expr.exists(loses_order).is_ok_and(|loses| !loses)
}

/// Whether of two values the greater one never becomes the lesser one.
fn is_monotonic(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    match (from, to) {
        (Dictionary(_, from), to) => is_monotonic(from, to),
        (from, Dictionary(_, to)) => is_monotonic(from, to),
        (from, to) if from == to => true,
        (from, to) if from.is_string() || from.is_binary() => {
            from.is_string() == to.is_string() && to.is_binary() == from.is_binary()
        }
        (Boolean, to) => to.is_numeric(),
        (from, to) if from.is_numeric() => to.is_numeric() || is_count(to),
        // Those of days to smaller units are not checked.
        (Date64, Timestamp(..)) => false,
        // A local date or time may begin again when clocks are set back.
        (Timestamp(_, Some(zone)), Date32 | Date64) => matches!(zone.as_ref(), "UTC" | "+00:00"),
        (Date32 | Date64 | Timestamp(..), Date32 | Date64 | Timestamp(..)) => true,
        (Time32(_) | Time64(_), Time32(_) | Time64(_)) | (Duration(_), Duration(_)) => true,
        (from, to) => is_count(from) && to.is_numeric(),
    }
}

/// Whether values are counts of a unit.
fn is_count(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_))
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{Field, TimeUnit};
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{BinaryExpr, Column, DynamicFilterPhysicalExpr, cast, lit};

    use super::*;

    #[test]
    fn casts_that_lose_the_order_are_left_out() -> datafusion::common::Result<()> {
        let time = DataType::Timestamp(TimeUnit::Microsecond, None);
        let schema = Schema::new(vec![Field::new("t", time, true), Field::new("n", DataType::Int32, true)]);
        let column = |name: &str| Column::new_with_schema(name, &schema);
        let cast_to = |name: &str, to: &DataType| cast(Arc::new(column(name)?), &schema, to.clone());
        let is_null_free = |key: Arc<dyn PhysicalExpr>| {
            Arc::new(BinaryExpr::new(Arc::clone(&key), Operator::Eq, key)) as Arc<dyn PhysicalExpr>
        };
        let day = is_null_free(cast_to("t", &DataType::Date32)?);
        let hour = is_null_free(cast_to("t", &DataType::Time64(TimeUnit::Nanosecond))?);
        let truth = is_null_free(cast_to("n", &DataType::Boolean)?);
        let of_key = |key: &Arc<dyn PhysicalExpr>| {
            Arc::new(DynamicFilterPhysicalExpr::new(vec![Arc::clone(key)], lit(true))) as Arc<dyn PhysicalExpr>
        };
        let parts = [&day, &hour, &truth, &of_key(&day), &of_key(&hour)].map(Arc::clone);
        let kept = prunable(&conjunction(parts), &schema);
        let kept: Vec<String> = split_conjunction(&kept).into_iter().map(ToString::to_string).collect();
        let day = "CAST(t@0 AS Date32) = CAST(t@0 AS Date32)";
        assert_eq!(kept, [day, "DynamicFilter [ empty ]"]);
        Ok(())
    }
}
