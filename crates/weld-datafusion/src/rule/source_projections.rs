//! What a source of files would compute itself, as a projection above it, so that a pipeline compiles it.
//!
//! ```text
//!                                                                 ProjectionExec: expr=[k@0 as k, f(v@1) as y, s@2 as s, 1]
//! DataSourceExec: projection=[k, f(v) as y, reverse(s) as s, 1]     DataSourceExec: projection=[k, v, reverse(s) as s]
//! ```
//! DataFusion merges every projection right above files into their source, which evaluates it by itself. What has no
//! lowering stays there. A source that does no more than cast is left as it is, unless an operator reads it that may be
//! compiled with the casts: alone they gain nothing. What may fail still sees all rows that it saw
//! ([`may_fail_in_a_row`]).

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column, TryCastExpr};
use datafusion::physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use weld_plans::{KeyFilterExec, with_projection};

use super::foreign::is_same;
use crate::config::WeldOptions;
use crate::lower::foreign::{lowers, may_fail};

/// The plan with projections above sources for what these compute, where that has a lowering.
pub(super) fn take_out(plan: Arc<dyn ExecutionPlan>, options: &WeldOptions) -> Result<Arc<dyn ExecutionPlan>> {
    match options.projection {
        true => projected(&plan, false),
        false => Ok(plan),
    }
}

/// `with_casts`: casts are taken out, too.
fn projected(plan: &Arc<dyn ExecutionPlan>, with_casts: bool) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(projection) = above_source(plan, with_casts) {
        return Ok(projection);
    }
    let children = plan.children();
    // Key filters know the source's columns by their numbers.
    if children.is_empty() || plan.is::<KeyFilterExec>() {
        return Ok(Arc::clone(plan));
    }
    let with_casts = plan.is::<AggregateExec>() || plan.is::<FilterExec>() || plan.is::<ProjectionExec>();
    let children = children.into_iter().map(|child| projected(child, with_casts)).collect::<Result<Vec<_>>>()?;
    replace_children_if_necessary(Arc::clone(plan), children)
}

/// A projection of what the source computes, over the source with the columns for it and what has no lowering.
fn above_source(source: &Arc<dyn ExecutionPlan>, with_casts: bool) -> Option<Arc<dyn ExecutionPlan>> {
    let config = source.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<FileScanConfig>()?;
    let table = config.file_source().table_schema();
    let projection = config.file_source().projection()?;
    let is_computed = |expr: &Arc<dyn PhysicalExpr>| !expr.is::<Column>() && !collect_columns(expr).is_empty();
    let compiles = |expr: &Arc<dyn PhysicalExpr>| lowers(table.table_schema(), expr).is_ok();
    let gains = |projected: &ProjectionExpr| {
        let computed = if with_casts { &projected.expr } else { below_casts(&projected.expr) };
        is_computed(computed) && compiles(&projected.expr)
    };
    if !table.virtual_columns().is_empty() || !projection.iter().any(gains) {
        return None;
    }
    let (mut kept, mut exprs) = (Kept::default(), Vec::new());
    for ProjectionExpr { expr, alias } in projection.iter() {
        let expr = match expr.is::<Column>() || compiles(expr) {
            true => {
                let column = |part: Arc<dyn PhysicalExpr>| match part.downcast_ref::<Column>() {
                    Some(column) => Ok(Transformed::yes(kept.column(&part, column.name()))),
                    None => Ok(Transformed::no(part)),
                };
                Arc::clone(expr).transform(column).data().ok()?
            }
            false => kept.column(expr, alias),
        };
        exprs.push(ProjectionExpr { expr, alias: alias.clone() });
    }
    let below = with_projection(source, &ProjectionExprs::new(kept.0))?;
    let made = ProjectionExec::try_new_with_schema_metadata(exprs, below, source.schema().as_ref()).ok()?;
    is_same(&made, source.as_ref()).then(|| Arc::new(made) as _)
}

/// What is left to the source.
#[derive(Default)]
struct Kept(Vec<ProjectionExpr>);

impl Kept {
    /// The column that the source gives for an expression over its table.
    fn column(&mut self, expr: &Arc<dyn PhysicalExpr>, alias: &str) -> Arc<dyn PhysicalExpr> {
        let is_same = |kept: &ProjectionExpr| kept.expr.is::<Column>() && kept.expr.as_ref() == expr.as_ref();
        let place = self.0.iter().position(is_same).unwrap_or(self.0.len());
        if place == self.0.len() {
            self.0.push(ProjectionExpr { expr: Arc::clone(expr), alias: alias.to_owned() });
        }
        Arc::new(Column::new(&self.0[place].alias, place))
    }
}

fn below_casts(expr: &Arc<dyn PhysicalExpr>) -> &Arc<dyn PhysicalExpr> {
    let is_cast = expr.is::<CastExpr>() || expr.is::<TryCastExpr>();
    match expr.children().first() {
        Some(inner) if is_cast => below_casts(inner),
        _ => expr,
    }
}

/// Whether a projection right above a source may fail in a row. Then the source must not drop rows by keys of joins
/// that the projection would have seen: DataFusion's source gives them all.
pub(crate) fn may_fail_in_a_row(projection: &ProjectionExec) -> bool {
    let schema = projection.input().schema();
    projection.expr().iter().any(|projected| may_fail(&schema, &projected.expr))
}
