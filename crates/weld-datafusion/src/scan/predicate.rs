//! A source's predicate, as far as it can rule out rows by one column at a time.
//!
//! The predicate is a hint: the plan above filters again. So whatever cannot be judged here passes, an error
//! included, which then shows where it always did.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::compute::cast_with_options;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, InListExpr, IsNotNullExpr, LikeExpr};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_expr_common::physical_expr::snapshot_physical_expr;

use super::CAST;

/// A column that drops fewer rows than this is not worth judging first.
const PASSED_MAX: f64 = 0.5;

/// Whether a predicate is of a kind that few values fail, as a rule: it is left to the plan above. A row group is judged whole
/// before anybody knows how many rows pass, and with a pattern that takes longer than all else.
fn passes_most(expr: &Arc<dyn PhysicalExpr>) -> bool {
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        use Operator::{IsDistinctFrom, NotEq, NotLikeMatch};
        return matches!(binary.op(), NotEq | IsDistinctFrom | NotLikeMatch);
    }
    let is_negated_list = expr.downcast_ref::<InListExpr>().is_some_and(InListExpr::negated);
    let is_negated_like = expr.downcast_ref::<LikeExpr>().is_some_and(LikeExpr::negated);
    is_negated_list || is_negated_like || expr.is::<IsNotNullExpr>()
}

/// Conjuncts over one column.
pub(super) struct ColumnPredicate {
    pub(super) name: String,
    expr: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
    seen: usize,
    passed: usize,
}

impl ColumnPredicate {
    /// Those conjuncts of `predicate`, as it is now, that read one column; one predicate for each column.
    pub(super) fn of(predicate: &Arc<dyn PhysicalExpr>, table: &Schema) -> Result<Vec<ColumnPredicate>> {
        let now = snapshot_physical_expr(Arc::clone(predicate))?;
        let mut columns: Vec<(usize, Vec<Arc<dyn PhysicalExpr>>)> = Vec::new();
        for conjunct in split_conjunction(&now) {
            let used = collect_columns(conjunct);
            let mut used = used.iter();
            let (Some(column), None) = (used.next(), used.next()) else { continue };
            if passes_most(conjunct) {
                continue;
            }
            match columns.iter_mut().find(|(index, _)| *index == column.index()) {
                Some((_, conjuncts)) => conjuncts.push(Arc::clone(conjunct)),
                None => columns.push((column.index(), vec![Arc::clone(conjunct)])),
            }
        }
        let make = |(index, conjuncts): (usize, Vec<Arc<dyn PhysicalExpr>>)| {
            let field = table.field(index).clone();
            let name = field.name().clone();
            let expr = conjunction(conjuncts)
                .transform(|expr| match expr.downcast_ref::<Column>() {
                    Some(column) => Ok(Transformed::yes(Arc::new(Column::new(column.name(), 0)) as _)),
                    None => Ok(Transformed::no(expr)),
                })
                .data()?;
            Ok(ColumnPredicate { name, expr, schema: Arc::new(Schema::new(vec![field])), seen: 0, passed: 0 })
        };
        columns.into_iter().map(make).collect()
    }

    /// The verdict on each value of the column, in whatever type it was decoded to.
    pub(super) fn judge(&self, values: &ArrayRef) -> Result<BooleanArray, ArrowError> {
        let everything = || BooleanArray::from(vec![true; values.len()]);
        let Ok(column) = cast_with_options(values, self.schema.field(0).data_type(), &CAST) else {
            return Ok(everything());
        };
        // Null stands for absent values, also where the table says that there are none.
        let field = self.schema.field(0).clone().with_nullable(true);
        let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![column])?;
        let verdict = self.expr.evaluate(&batch).and_then(|verdict| verdict.into_array(values.len()));
        Ok(verdict.ok().and_then(|v| v.as_boolean_opt().cloned()).unwrap_or_else(everything))
    }

    /// Notes how many rows a row group had before and after.
    pub(super) fn note(&mut self, before: usize, after: usize) {
        self.seen += before;
        self.passed += after;
    }

    /// Whether it drops enough rows to be asked first.
    pub(super) fn pays(&self) -> bool {
        self.seen == 0 || self.passed as f64 <= self.seen as f64 * PASSED_MAX
    }
}
