//! The share of rows that satisfy a predicate.
//!
//! Comparisons with constants are judged by the column's range and its number of distinct values, as if values were spread
//! evenly and columns independent; what cannot be judged gets the shares below, which are DuckDB's and DataFusion's habit
//! (20 %) or finer where the form of the predicate says more.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};

use crate::estimate::{ColumnEstimate, Estimate, position};

/// Of a predicate that nothing is known of.
const UNKNOWN: f64 = 0.2;
/// Of an equality with one value of a column whose values are not counted.
const EQUAL: f64 = 0.1;
/// Of an inequality between two columns, or with a value that has no known place in the column's range.
const LESS: f64 = 1.0 / 3.0;
/// Of LIKE.
const LIKE: f64 = 0.1;

/// The share of the rows of `input` that satisfy `predicate`.
pub(crate) fn selectivity(predicate: &Arc<dyn PhysicalExpr>, input: &Estimate) -> f64 {
    let share = if let Some(binary) = predicate.downcast_ref::<BinaryExpr>() {
        match binary.op() {
            Operator::And => selectivity(binary.left(), input) * selectivity(binary.right(), input),
            Operator::Or => {
                let (left, right) = (selectivity(binary.left(), input), selectivity(binary.right(), input));
                left + right - left * right
            }
            op => match column_and_value(binary) {
                Some((column, op, value)) => compared(&input.columns[column], op, value),
                None => between_columns(op, binary, input),
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
    for conjunct in split_conjunction(predicate) {
        let Some(binary) = conjunct.downcast_ref::<BinaryExpr>() else { continue };
        let Some((index, op, value)) = column_and_value(binary) else { continue };
        let (Some((min, max)), Some(value)) = (columns[index].range, position(value)) else { continue };
        let range = match op {
            Operator::Eq => (value.max(min), value.min(max)),
            Operator::Lt | Operator::LtEq => (min, max.min(value)),
            Operator::Gt | Operator::GtEq => (min.max(value), max),
            _ => continue,
        };
        if range.0 <= range.1 {
            columns[index].range = Some(range);
        }
    }
    columns
}

/// `column op value`, whichever way round it was written.
fn column_and_value(binary: &BinaryExpr) -> Option<(usize, Operator, &ScalarValue)> {
    if let (Some(column), Some(value)) = (column_of(binary.left()), value_of(binary.right())) {
        return Some((column, *binary.op(), value));
    }
    Some((column_of(binary.right())?, binary.op().swap()?, value_of(binary.left())?))
}

fn column_of(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
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
    1.0 / column.distinct_among(column.table_rows)
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
