//! The share of rows that satisfy a predicate.
//!
//! Comparisons with constants are judged by the column's range and its number of distinct values, as if values were
//! spread evenly and columns independent; what cannot be judged gets the shares below, which are DuckDB's and
//! DataFusion's habit (20 %) or finer where the form of the predicate says more.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};

use crate::distinct::UNIQUE_SHARE;
use crate::estimate::{ColumnEstimate, Estimate, position};
use crate::expr_estimate::of_expr;
use crate::ranges::hull;

/// Of a predicate that nothing is known of.
const UNKNOWN: f64 = 0.2;
/// Of an equality with one value of a column whose values are not counted.
const EQUAL: f64 = 0.1;
/// Of an equality with one text at least, unless each row has a text of its own: those that are asked for are frequent
/// ones.
const EQUAL_TEXT_MIN: f64 = 0.01;
/// Of an inequality between two columns, or with a value that has no known place in the column's range.
const LESS: f64 = 1.0 / 3.0;
/// Of LIKE.
const LIKE: f64 = 0.1;

/// The share of the rows of `input` that satisfy `predicate`.
pub(crate) fn selectivity(predicate: &Arc<dyn PhysicalExpr>, input: &Estimate) -> f64 {
    let share = if let Some(binary) = predicate.downcast_ref::<BinaryExpr>() {
        match binary.op() {
            // Each conjunct is asked of the values that those before have left.
            Operator::And => {
                let mut left = input.clone();
                let share_of = |conjunct| {
                    let share = selectivity(conjunct, &left);
                    narrow(&mut left.columns, conjunct);
                    share
                };
                split_conjunction(predicate).into_iter().map(share_of).product()
            }
            Operator::Or => {
                let (left, right) = (selectivity(binary.left(), input), selectivity(binary.right(), input));
                left + right - left * right
            }
            op => match column_and_value(binary) {
                Some((column, op, value)) => compared(&input.columns[column], op, value),
                None => match calculated_and_value(binary, input) {
                    Some((column, op, value)) => compared(&column, op, value),
                    None => between_columns(op, binary, input),
                },
            },
        }
    } else if let Some(not) = predicate.downcast_ref::<NotExpr>() {
        1.0 - selectivity(not.arg(), input)
    } else if let Some(list) = predicate.downcast_ref::<InListExpr>() {
        let one = match column_of(list.expr()) {
            Some(column) => equal(&input.columns[column]),
            None => EQUAL,
        };
        let share = (one * list.list().len() as f64).min(0.9);
        if list.negated() { 1.0 - share } else { share }
    } else if let Some(is_null) = predicate.downcast_ref::<IsNullExpr>() {
        column_of(is_null.arg()).map_or(UNKNOWN, |column| input.columns[column].null_share)
    } else if let Some(is_not_null) = predicate.downcast_ref::<IsNotNullExpr>() {
        column_of(is_not_null.arg()).map_or(1.0 - UNKNOWN, |column| 1.0 - input.columns[column].null_share)
    } else if let Some(like) = predicate.downcast_ref::<LikeExpr>() {
        if like.negated() { 1.0 - LIKE } else { LIKE }
    } else if let Some(literal) = predicate.downcast_ref::<Literal>() {
        match literal.value() {
            ScalarValue::Boolean(Some(true)) => 1.0,
            ScalarValue::Boolean(_) | ScalarValue::Null => 0.0,
            _ => UNKNOWN,
        }
    } else {
        UNKNOWN
    };
    share.clamp(0.0, 1.0)
}

/// The columns of `input` once only rows that satisfy `predicate` are left: ranges narrowed by comparisons.
pub(crate) fn narrowed(predicate: &Arc<dyn PhysicalExpr>, input: &Estimate) -> Vec<ColumnEstimate> {
    let mut columns = input.columns.clone();
    split_conjunction(predicate).into_iter().for_each(|conjunct| narrow(&mut columns, conjunct));
    columns
}

fn narrow(columns: &mut [ColumnEstimate], conjunct: &Arc<dyn PhysicalExpr>) {
    if let Some((index, range)) = range_of(conjunct, columns) {
        columns[index].range = Some(range);
    }
}

/// The column that a predicate is of, and where its values lie among which the predicate holds.
fn range_of(predicate: &Arc<dyn PhysicalExpr>, columns: &[ColumnEstimate]) -> Option<(usize, (f64, f64))> {
    let (index, (least, greatest)) = if let Some(list) = predicate.downcast_ref::<InListExpr>() {
        let values = list.list().iter().map(|value| position(value_of(value)?));
        let values = values.collect::<Option<Vec<f64>>>().filter(|_| !list.negated())?;
        (column_of(list.expr())?, values.into_iter().map(|value| (value, value)).reduce(hull)?)
    } else {
        let binary = predicate.downcast_ref::<BinaryExpr>()?;
        if *binary.op() == Operator::Or {
            let (left, right) = (range_of(binary.left(), columns)?, range_of(binary.right(), columns)?);
            return (left.0 == right.0).then(|| (left.0, hull(left.1, right.1)));
        }
        let (index, op, value) = column_and_value(binary)?;
        let value = position(value)?;
        let range = match op {
            Operator::Eq => (value, value),
            Operator::Lt | Operator::LtEq => (f64::NEG_INFINITY, value),
            Operator::Gt | Operator::GtEq => (value, f64::INFINITY),
            _ => return None,
        };
        (index, range)
    };
    let (min, max) = columns[index].range?;
    let range = (least.max(min), greatest.min(max));
    (range.0 <= range.1).then_some((index, range))
}

/// `column op value`, whichever way round it was written.
fn column_and_value(binary: &BinaryExpr) -> Option<(usize, Operator, &ScalarValue)> {
    if let (Some(column), Some(value)) = (column_of(binary.left()), value_of(binary.right())) {
        return Some((column, *binary.op(), value));
    }
    Some((column_of(binary.right())?, binary.op().swap()?, value_of(binary.left())?))
}

/// The same of an expression whose values have a known range: that of a text, say, may have far fewer values than its
/// column.
fn calculated_and_value<'b>(
    binary: &'b BinaryExpr,
    input: &Estimate,
) -> Option<(ColumnEstimate, Operator, &'b ScalarValue)> {
    let (expr, op, value) = match (value_of(binary.left()), value_of(binary.right())) {
        (None, Some(value)) => (binary.left(), *binary.op(), value),
        (Some(value), None) => (binary.right(), binary.op().swap()?, value),
        _ => return None,
    };
    let calculated = of_expr(expr, input);
    calculated.range.is_some().then_some((calculated, op, value))
}

/// The column that an expression is, but for its type.
pub(crate) fn column_of(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    match expr.downcast_ref::<CastExpr>() {
        Some(cast) => column_of(cast.expr()),
        None => expr.downcast_ref::<Column>().map(Column::index),
    }
}

fn value_of(expr: &Arc<dyn PhysicalExpr>) -> Option<&ScalarValue> {
    expr.downcast_ref::<Literal>().map(Literal::value)
}

fn compared(column: &ColumnEstimate, op: Operator, value: &ScalarValue) -> f64 {
    let there = 1.0 - column.null_share;
    match op {
        Operator::Eq => there * equal(column),
        Operator::NotEq => there * (1.0 - equal(column)),
        Operator::Lt | Operator::LtEq => there * below(column, value).unwrap_or(LESS),
        Operator::Gt | Operator::GtEq => there * below(column, value).map_or(LESS, |share| 1.0 - share),
        Operator::IsNotDistinctFrom => equal(column),
        Operator::IsDistinctFrom => 1.0 - equal(column),
        Operator::LikeMatch | Operator::ILikeMatch => LIKE,
        _ => UNKNOWN,
    }
}

/// The share of one of the column's values.
fn equal(column: &ColumnEstimate) -> f64 {
    if column.distinct.is_none() && column.table_range.is_none() {
        return EQUAL;
    }
    let distinct = column.distinct_among(column.table_rows);
    // Other values than texts have ranges.
    let is_spread = column.table_range.is_some() || distinct >= UNIQUE_SHARE * column.table_rows;
    if is_spread { 1.0 / distinct } else { (1.0 / distinct).max(EQUAL_TEXT_MIN) }
}

/// The share of the column's values below a value.
fn below(column: &ColumnEstimate, value: &ScalarValue) -> Option<f64> {
    let ((min, max), value) = (column.range?, position(value)?);
    if max <= min {
        return Some(if value > max {
            1.0
        } else if value < min {
            0.0
        } else {
            0.5
        });
    }
    Some(((value - min) / (max - min)).clamp(0.0, 1.0))
}

fn between_columns(op: &Operator, binary: &BinaryExpr, input: &Estimate) -> f64 {
    match op {
        Operator::Eq | Operator::IsNotDistinctFrom => match (column_of(binary.left()), column_of(binary.right())) {
            (Some(left), Some(right)) => equal(&input.columns[left]).min(equal(&input.columns[right])),
            _ => EQUAL,
        },
        Operator::NotEq | Operator::IsDistinctFrom => 1.0 - EQUAL,
        Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => LESS,
        Operator::LikeMatch | Operator::ILikeMatch => LIKE,
        Operator::NotLikeMatch | Operator::NotILikeMatch => 1.0 - LIKE,
        _ => UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;
    use datafusion::physical_expr::expressions::{in_list, lit};

    use super::*;

    /// Of a column with the values 0 to 999 in a thousand rows.
    fn share(predicate: &Arc<dyn PhysicalExpr>) -> f64 {
        let column = ColumnEstimate {
            table_range: Some((0.0, 999.0)),
            range: Some((0.0, 999.0)),
            ..ColumnEstimate::unknown(1000.0, &DataType::Int64)
        };
        selectivity(predicate, &Estimate { rows: 1000.0, columns: vec![column] })
    }

    fn of(op: Operator, value: i64) -> Arc<dyn PhysicalExpr> {
        Arc::new(BinaryExpr::new(Arc::new(Column::new("a", 0)), op, lit(value)))
    }

    fn both(left: Arc<dyn PhysicalExpr>, op: Operator, right: Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
        Arc::new(BinaryExpr::new(left, op, right))
    }

    #[test]
    fn predicates_of_one_column_are_not_independent() {
        use Operator::{And, Eq, GtEq, LtEq, Or};
        let schema = arrow::datatypes::Schema::new(vec![arrow::datatypes::Field::new(
            "a",
            arrow::datatypes::DataType::Int64,
            false,
        )]);
        let list = |values: &[i64]| {
            let values = values.iter().map(|value| lit(*value)).collect();
            in_list(Arc::new(Column::new("a", 0)), values, &false, &schema).expect("a list")
        };
        let (one, other) = (of(Eq, 500), of(Eq, 501));
        for (predicate, least, greatest) in [
            (both(of(GtEq, 500), And, of(LtEq, 509)), 0.005, 0.02),
            (both(both(Arc::clone(&one), Or, other), And, Arc::clone(&one)), 0.0005, 0.002),
            (both(list(&[500, 501, 502]), And, Arc::clone(&one)), 0.0005, 0.002),
            (both(Arc::clone(&one), And, one), 0.0005, 0.002),
            // What cannot hold at all leaves the range as it is.
            (both(of(GtEq, 2000), And, of(LtEq, 500)), 0.0, 0.0),
        ] {
            let share = share(&predicate);
            assert!((least..=greatest).contains(&share), "{predicate}: {share}");
        }
    }
}
