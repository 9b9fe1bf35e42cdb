//! What dynamic filters may say of keys that contain each other, and what may be read of filters that say more.
//!
//! ```text
//! ORDER BY CASE WHEN y > 3 THEN y ELSE x END, x     keys over the output y@1, x@2
//! the scan's columns                                x@1, y@2
//! the filter there                                  CASE WHEN y@1 > 3 THEN y@1 ELSE x@1 END > 9 OR ..
//! ```
//! On its way to a scan a filter remembers what its keys become there, and `DynamicFilterPhysicalExpr::current` puts
//! that in the place of the keys, from the leaves upwards. A key inside of another is replaced first, after which the
//! other is no longer found: those of its columns that are not keys keep the places that they had above.
//!
//! DataFusion's joins take the two zeros of floats for equal, a comparison takes -0.0 for the less. What they say of their
//! keys, `a >= 0 AND a <= 0 AND a IN (0)`, drops rows that have a match where a scan judges each row by it: DataFusion's
//! own do so with `pushdown_filters` only.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, DynamicFilterPhysicalExpr, InListExpr, Literal, lit};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_expr_common::physical_expr::snapshot_physical_expr;

/// Whether a filter over `keys` may speak of this one of them.
pub fn is_found_again(key: &Arc<dyn PhysicalExpr>, keys: &[&Arc<dyn PhysicalExpr>]) -> bool {
    let without_keys = Arc::clone(key).transform_up(|part| {
        Ok(match keys.iter().any(|key| key.as_ref() == part.as_ref()) {
            true => Transformed::yes(lit(true)),
            false => Transformed::no(part),
        })
    });
    without_keys.data().is_ok_and(|rest| collect_columns(&rest).is_empty())
}

/// What a filter says by now of columns of this schema: without the conditions that read a column where the schema has
/// another.
pub fn current_filter(filter: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    let now = snapshot_physical_expr(with_both_zeros(filter, schema)?)?;
    let is_there =
        |column: &Column| schema.fields().get(column.index()).is_some_and(|field| field.name() == column.name());
    let conjuncts = split_conjunction(&now);
    let sound = |conjunct: &&&Arc<dyn PhysicalExpr>| collect_columns(conjunct).iter().all(is_there);
    let kept: Vec<_> = conjuncts.iter().filter(sound).map(|conjunct| Arc::clone(conjunct)).collect();
    Ok(if kept.len() == conjuncts.len() { now } else { conjunction(kept) })
}

/// The filter with what dynamic ones say by now, of floats for both zeros.
fn with_both_zeros(filter: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    let current = |part: Arc<dyn PhysicalExpr>| {
        let Some(dynamic) = part.downcast_ref::<DynamicFilterPhysicalExpr>() else { return Ok(Transformed::no(part)) };
        Ok(Transformed::yes(dynamic.current()?.transform_down(|part| widened(part, schema)).data()?))
    };
    Arc::clone(filter).transform_down(current).data()
}

fn widened(part: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Transformed<Arc<dyn PhysicalExpr>>> {
    if let Some(list) = part.downcast_ref::<InListExpr>() {
        // One by one if there are several keys: they are fields of a struct then.
        let is_of_floats = list.expr().data_type(schema).is_ok_and(|keys| keys.is_floating() || keys.is_nested());
        return Ok(if is_of_floats && !list.negated() { Transformed::yes(lit(true)) } else { Transformed::no(part) });
    }
    let Some(binary) = part.downcast_ref::<BinaryExpr>() else { return Ok(Transformed::no(part)) };
    let Some(bound) = binary.right().downcast_ref::<Literal>() else { return Ok(Transformed::no(part)) };
    let zero = match (binary.op(), zero_of_floats(bound.value())) {
        (Operator::GtEq, Some(zero)) => zero.arithmetic_negate()?,
        (Operator::LtEq, Some(zero)) => zero,
        _ => return Ok(Transformed::no(part)),
    };
    let (left, op) = (Arc::clone(binary.left()), *binary.op());
    Ok(Transformed::yes(Arc::new(BinaryExpr::new(left, op, lit(zero)))))
}

/// 0.0 of the same type, if the value is it or -0.0.
fn zero_of_floats(value: &ScalarValue) -> Option<ScalarValue> {
    let is_zero = match value {
        ScalarValue::Float16(Some(value)) => value.to_f32() == 0.0,
        ScalarValue::Float32(Some(value)) => *value == 0.0,
        ScalarValue::Float64(Some(value)) => *value == 0.0,
        _ => false,
    };
    if is_zero { ScalarValue::new_zero(&value.data_type()).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field};
    use datafusion::physical_expr::expressions::in_list;

    use super::*;

    fn column(name: &str, index: usize) -> Arc<dyn PhysicalExpr> {
        Arc::new(Column::new(name, index))
    }

    fn binary(
        left: &Arc<dyn PhysicalExpr>,
        operator: Operator,
        right: &Arc<dyn PhysicalExpr>,
    ) -> Arc<dyn PhysicalExpr> {
        Arc::new(BinaryExpr::new(Arc::clone(left), operator, Arc::clone(right)))
    }

    #[test]
    fn keys_inside_of_others() {
        let (x, y) = (column("x", 2), column("y", 1));
        let sum = binary(&x, Operator::Plus, &y);
        for (keys, found) in [
            (vec![&sum], vec![true]),
            (vec![&sum, &x], vec![false, true]),
            // Each of its columns is found.
            (vec![&sum, &x, &y], vec![true, true, true]),
        ] {
            assert_eq!(keys.iter().map(|key| is_found_again(key, &keys)).collect::<Vec<_>>(), found);
        }
    }

    /// If this fails, DataFusion finds such keys again, and this module is no longer needed.
    #[test]
    fn filters_lose_keys_that_contain_others() -> Result<()> {
        let (x, y) = (column("x", 2), column("y", 1));
        let sum = binary(&x, Operator::Plus, &y);
        let filter = Arc::new(DynamicFilterPhysicalExpr::new(vec![Arc::clone(&sum), Arc::clone(&x)], lit(true)));
        let below = (column("x", 0), column("y", 2));
        let keys_below = vec![binary(&below.0, Operator::Plus, &below.1), Arc::clone(&below.0)];
        let pushed = Arc::<DynamicFilterPhysicalExpr>::clone(&filter).with_new_children(keys_below)?;
        filter.update(binary(
            &binary(&sum, Operator::Gt, &lit(9)),
            Operator::And,
            &binary(&x, Operator::Lt, &lit(3)),
        ))?;
        assert_eq!(snapshot_physical_expr(Arc::clone(&pushed))?.to_string(), "x@0 + y@1 > 9 AND x@0 < 3");
        let field = |name: &str| Field::new(name, DataType::Int32, true);
        let schema = Schema::new(vec![field("x"), field("z"), field("y")]);
        assert_eq!(current_filter(&pushed, &schema)?.to_string(), "x@0 < 3");
        Ok(())
    }

    /// As a join says that its build side has the key 0.0 alone. What a query says itself stays as it is.
    #[test]
    fn floats_have_two_zeros() -> Result<()> {
        let schema =
            Schema::new(vec![Field::new("x", DataType::Float64, true), Field::new("n", DataType::Int64, true)]);
        let (x, n) = (column("x", 0), column("n", 1));
        let and = |left, right| binary(&left, Operator::And, &right);
        let compared = |key, operator, value: ScalarValue| binary(key, operator, &lit(value));
        let of_key = |key, least: ScalarValue, greatest: ScalarValue| {
            let bounds = and(compared(key, Operator::GtEq, least.clone()), compared(key, Operator::LtEq, greatest));
            Ok::<_, datafusion::error::DataFusionError>(and(
                bounds,
                in_list(Arc::clone(key), vec![lit(least)], &false, &schema)?,
            ))
        };
        let filter = Arc::new(DynamicFilterPhysicalExpr::new(vec![Arc::clone(&x), Arc::clone(&n)], lit(true)));
        filter.update(and(of_key(&x, 0.0.into(), (-0.0).into())?, of_key(&n, 0_i64.into(), 0_i64.into())?))?;
        let own = compared(&x, Operator::GtEq, 0.0.into());
        let now = current_filter(&and(own, filter), &schema)?;
        let said = "x@0 >= 0 AND x@0 >= -0 AND x@0 <= 0 AND true AND n@1 >= 0 AND n@1 <= 0 AND n@1 IN (SET) ([0])";
        assert_eq!(now.to_string(), said);
        Ok(())
    }
}
