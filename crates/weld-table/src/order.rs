//! Casts that keep the order of values: bounds that are cast are bounds of what is cast.
//!
//! DataFusion's pruning asks whether a cast is from texts to others, or back, and takes every other cast for one that
//! keeps the order. `CAST(ts AS TIME)` does not, nor does `CAST(i AS BOOLEAN)`: of -1 and 0 the second is false.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, TryCastExpr};

/// Whether each cast in the expression keeps the order of values.
pub(crate) fn keeps_order(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<bool> {
    let mut keeps = true;
    expr.apply(|node| {
        let cast = node.downcast_ref::<CastExpr>().map(|cast| (cast.expr(), cast.cast_type()));
        let cast = cast.or_else(|| node.downcast_ref::<TryCastExpr>().map(|cast| (cast.expr(), cast.cast_type())));
        if let Some((value, to)) = cast {
            keeps &= is_monotonic(&value.data_type(schema)?, to);
        }
        Ok(if keeps { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(keeps)
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
