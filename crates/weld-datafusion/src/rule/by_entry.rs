//! Expressions of one column of texts are computed by the scan, which evaluates them once for each entry of a
//! dictionary.
//!
//! ```text
//! AggregateExec: count(*) FILTER (s LIKE '%x_y%')      AggregateExec: count(*) FILTER (s LIKE '%x_y%'@1)
//!   FilterExec: k > 1                                    FilterExec: k > 1, projection=[s LIKE '%x_y%'@1]
//!     DataSourceExec: projection=[k, s]                    DataSourceExec: projection=[k, s LIKE '%x_y%']
//! ```
//! The largest expressions that read nothing else, are the same for the same text and cannot fail. What a filter asks
//! of one column alone the scan knows from its predicate, and drops rows by it: it is left to the filter, if it lowers.
//! A column without dictionaries, as far as footers tell, is left to the operators: they see fewer rows.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::expressions::{CastExpr, Column, IsNotNullExpr, IsNullExpr, Literal, NotExpr};
use datafusion::physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{
    DynamicFilterTracking, PhysicalExpr, ScalarFunctionExpr, conjunction, split_conjunction,
};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode, PhysicalGroupBy};
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::projection::ProjectionExec;
use weld_plans::{footers, has_few_texts, text_column, with_projection};

use super::foreign::{in_place_of, with_arguments};
use crate::config::WeldOptions;
use crate::lower::foreign::{has_subquery, lowers, may_fail};
use crate::lower::size;
use crate::scan::{ParquetScan, ROWS_PER_ENTRY};

/// Footers of more files are not looked at.
const FILES_MAX: usize = 4;

/// The plan with expressions of texts in the sources that evaluate them by entry.
pub(super) fn pushed(plan: Arc<dyn ExecutionPlan>, options: &WeldOptions) -> Result<Arc<dyn ExecutionPlan>> {
    if !options.by_entry || !options.scan {
        return Ok(plan);
    }
    let node = |node: Arc<dyn ExecutionPlan>| {
        let made = if let Some(filter) = node.downcast_ref::<FilterExec>().filter(|_| options.filter) {
            over_filter(filter)
        } else if let Some(projection) = node.downcast_ref::<ProjectionExec>().filter(|_| options.projection) {
            over_projection(projection)
        } else if let Some(aggregate) = node.downcast_ref::<AggregateExec>().filter(|_| options.aggregate) {
            over_aggregate(aggregate)
        } else {
            Ok(None)
        };
        Ok(in_place_of(node, made))
    };
    plan.transform_down(node).data()
}

type Made = Result<Option<Arc<dyn ExecutionPlan>>>;

fn over_aggregate(aggregate: &AggregateExec) -> Made {
    if aggregate.mode().input_mode() != AggregateInputMode::Raw {
        return Ok(None);
    }
    let mut below = Below::new(aggregate.input());
    let by = aggregate.group_expr();
    let groups = by.expr().iter().map(|(expr, _)| below.take(expr)).collect::<Result<Vec<_>>>()?;
    let mut calls = Vec::new();
    for call in aggregate.aggr_expr() {
        let ordering = call.order_bys().iter().map(|order| Arc::clone(&order.expr));
        let args = call.expressions().into_iter().chain(ordering);
        calls.push(args.map(|arg| below.take(&arg)).collect::<Result<Vec<_>>>()?);
    }
    let filters = aggregate.filter_expr().iter().map(|filter| filter.as_ref().map(|expr| below.take(expr)).transpose());
    let filters = filters.collect::<Result<Vec<_>>>()?;
    let Some(input) = below.given()? else { return Ok(None) };
    let named = |expr: Arc<dyn PhysicalExpr>| named(expr, &input.schema());
    let names = by.expr().iter().map(|(_, name)| name.clone());
    let groups = groups.into_iter().zip(names).map(|(expr, name)| Ok((named(expr)?, name)));
    let groups = groups.collect::<Result<Vec<_>>>()?;
    let filters = filters.into_iter().map(|filter| filter.map(named).transpose()).collect::<Result<Vec<_>>>()?;
    let mut exprs = Vec::new();
    for (call, args) in aggregate.aggr_expr().iter().zip(calls) {
        let args = args.into_iter().map(named).collect::<Result<Vec<_>>>()?;
        exprs.push(with_arguments(call, args, input.as_ref())?);
    }
    let groups = PhysicalGroupBy::new(groups, by.null_expr().to_vec(), by.groups().to_vec(), by.has_grouping_set());
    let schema = input.schema();
    let made = AggregateExec::try_new(*aggregate.mode(), groups, exprs, filters, input, schema)?;
    Ok(Some(Arc::new(made.with_limit_options(aggregate.limit_options()))))
}

fn over_projection(projection: &ProjectionExec) -> Made {
    let mut below = Below::new(projection.input());
    let exprs = projection.expr().iter().map(|projected| below.take(&projected.expr)).collect::<Result<Vec<_>>>()?;
    let Some(input) = below.given()? else { return Ok(None) };
    let aliases = projection.expr().iter().map(|projected| projected.alias.clone());
    let exprs = exprs.into_iter().zip(aliases);
    let exprs = exprs.map(|(expr, alias)| Ok(ProjectionExpr { expr: named(expr, &input.schema())?, alias }));
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    let made = ProjectionExec::try_new_with_schema_metadata(exprs, input, projection.schema().as_ref())?;
    Ok(Some(Arc::new(made)))
}

fn over_filter(filter: &FilterExec) -> Made {
    let schema = filter.schema();
    let columns = schema
        .fields()
        .iter()
        .enumerate()
        .map(|(index, field)| Arc::new(Column::new(field.name(), index)) as Arc<dyn PhysicalExpr>);
    filtered(filter, &columns.collect::<Vec<_>>(), false)
}

/// A filter that gives these expressions over its output; `always`, or if it gains itself.
fn filtered(filter: &FilterExec, wanted: &[Arc<dyn PhysicalExpr>], always: bool) -> Made {
    if filter.fetch().is_some() {
        return Ok(None);
    }
    let mut below = Below::new(filter.input());
    let mut conjuncts = Vec::new();
    for conjunct in split_conjunction(filter.predicate()) {
        let is_left = collect_columns(conjunct).len() < 2 && lowers(&below.schema, conjunct).is_ok();
        conjuncts.push(if is_left { below.moved(conjunct)? } else { below.take(conjunct)? });
    }
    if !always && !below.gains() {
        return Ok(None);
    }
    let input = filter.input().schema();
    let kept = filter.projection();
    let is_input = |index: usize| kept.as_ref().map_or(index, |kept| kept[index]);
    let mut outputs = Vec::new();
    for expr in wanted {
        let expr = Arc::clone(expr).transform(|part| {
            Ok(match part.downcast_ref::<Column>().map(|column| is_input(column.index())) {
                Some(index) => Transformed::yes(Arc::new(Column::new(input.field(index).name(), index)) as _),
                None => Transformed::no(part),
            })
        });
        outputs.push(below.place(&expr.data()?));
    }
    let Some(input) = given(filter.input(), &below.wanted)? else { return Ok(None) };
    let predicate = named(conjunction(conjuncts), &input.schema())?;
    let made = FilterExecBuilder::new(predicate, input)
        .apply_projection(Some(outputs))?
        .with_default_selectivity(filter.default_selectivity())
        .with_batch_size(filter.batch_size())
        .build()?;
    Ok(Some(Arc::new(made)))
}

/// A plan that gives these expressions of `plan`, where those that are no columns are computed by its source.
fn given(plan: &Arc<dyn ExecutionPlan>, wanted: &[Arc<dyn PhysicalExpr>]) -> Made {
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        return filtered(filter, wanted, true);
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return projected(projection, wanted);
    }
    let Some(known) = source(plan).and_then(|config| config.file_source().projection()) else { return Ok(None) };
    let known: Vec<&ProjectionExpr> = known.iter().collect();
    let mut exprs = Vec::new();
    for expr in wanted {
        let alias = match expr.downcast_ref::<Column>() {
            Some(column) => known[column.index()].alias.clone(),
            None => expr.to_string(),
        };
        exprs.push(ProjectionExpr { expr: over(expr, &known)?, alias });
    }
    let made = with_projection(plan, &ProjectionExprs::new(exprs));
    Ok(made.filter(|made| ParquetScan::of(made.as_ref()).is_ok()))
}

fn projected(projection: &ProjectionExec, wanted: &[Arc<dyn PhysicalExpr>]) -> Made {
    let known: Vec<&ProjectionExpr> = projection.expr().iter().collect();
    let mut below = Below::new(projection.input());
    let mut exprs = Vec::new();
    for expr in wanted {
        let (expr, alias) = match expr.downcast_ref::<Column>() {
            Some(column) => (below.take(&known[column.index()].expr)?, known[column.index()].alias.clone()),
            None => (below.column(&over(expr, &known)?), expr.to_string()),
        };
        exprs.push(ProjectionExpr { expr, alias });
    }
    let Some(input) = given(projection.input(), &below.wanted)? else { return Ok(None) };
    for projected in &mut exprs {
        projected.expr = named(Arc::clone(&projected.expr), &input.schema())?;
    }
    Ok(Some(Arc::new(ProjectionExec::try_new(exprs, input)?)))
}

/// The expression with the names that columns have in the schema.
fn named(expr: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    let name = |part: Arc<dyn PhysicalExpr>| {
        Ok(match part.downcast_ref::<Column>().map(Column::index) {
            Some(index) => Transformed::yes(Arc::new(Column::new(schema.field(index).name(), index)) as _),
            None => Transformed::no(part),
        })
    };
    expr.transform(name).data()
}

/// An expression over a projection as one over what that projects.
fn over(expr: &Arc<dyn PhysicalExpr>, known: &[&ProjectionExpr]) -> Result<Arc<dyn PhysicalExpr>> {
    let below = |part: Arc<dyn PhysicalExpr>| {
        Ok(match part.downcast_ref::<Column>() {
            Some(column) => Transformed::new(Arc::clone(&known[column.index()].expr), true, TreeNodeRecursion::Jump),
            None => Transformed::no(part),
        })
    };
    Arc::clone(expr).transform_down(below).data()
}

/// The source that the scan reads, if `plan` is one.
fn source(plan: &Arc<dyn ExecutionPlan>) -> Option<&FileScanConfig> {
    ParquetScan::of(plan.as_ref()).ok()?;
    plan.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<FileScanConfig>()
}

/// Whether a column of a plan comes from a source that has dictionaries of few texts for it.
fn has_dictionaries(plan: &Arc<dyn ExecutionPlan>, column: usize) -> bool {
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let below = filter.projection().as_ref().map_or(column, |kept| kept[column]);
        return filter.fetch().is_none() && has_dictionaries(filter.input(), below);
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let below = projection.expr()[column].expr.downcast_ref::<Column>();
        return below.is_some_and(|below| has_dictionaries(projection.input(), below.index()));
    }
    has_few_texts_in(plan, column)
}

/// Whether a plan is a source that has dictionaries of few texts for a column.
pub(super) fn has_few_texts_in(plan: &Arc<dyn ExecutionPlan>, column: usize) -> bool {
    let Some(config) = source(plan) else { return false };
    let files = config.file_source();
    let projected = files.projection().and_then(|projection| projection.iter().nth(column));
    let Some(column) = projected.and_then(|projected| text_column(&projected.expr)) else { return false };
    let name = |index: usize| Some(files.table_schema().file_schema().fields().get(index)?.name());
    let Some((name, footers)) = name(column.index()).zip(footers(config, FILES_MAX)) else { return false };
    has_few_texts(&footers, name, ROWS_PER_ENTRY)
}

/// What an operator reads of its input: columns, and what the source is to compute.
struct Below<'a> {
    input: &'a Arc<dyn ExecutionPlan>,
    schema: Arc<Schema>,
    /// Each once.
    wanted: Vec<Arc<dyn PhysicalExpr>>,
}

impl<'a> Below<'a> {
    fn new(input: &'a Arc<dyn ExecutionPlan>) -> Below<'a> {
        Below { input, schema: input.schema(), wanted: Vec::new() }
    }

    fn gains(&self) -> bool {
        self.wanted.iter().any(|expr| !expr.is::<Column>())
    }

    /// The input that gives what is wanted, if something is computed by its source.
    fn given(&self) -> Made {
        if self.gains() { given(self.input, &self.wanted) } else { Ok(None) }
    }

    /// Where an expression is among those that are wanted.
    fn place(&mut self, expr: &Arc<dyn PhysicalExpr>) -> usize {
        self.wanted.iter().position(|known| known == expr).unwrap_or_else(|| {
            self.wanted.push(Arc::clone(expr));
            self.wanted.len() - 1
        })
    }

    /// The column for it, which has its name once the input is made: [`named`].
    fn column(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
        Arc::new(Column::new("", self.place(expr)))
    }

    /// The expression over what is wanted, its largest parts of one column of texts computed by the source.
    fn take(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        if size::check([expr]).is_err() || DynamicFilterTracking::classify(expr).contains_dynamic_filter() {
            return self.moved(expr);
        }
        self.take_part(expr)
    }

    fn take_part(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        if expr.is::<Column>() || self.is_of_text(expr) {
            return Ok(self.column(expr));
        }
        let children = expr.children();
        if children.is_empty() {
            return Ok(Arc::clone(expr));
        }
        let children = children.into_iter().map(|child| self.take_part(child)).collect::<Result<Vec<_>>>()?;
        Arc::clone(expr).with_new_children(children)
    }

    /// The expression over what is wanted as it is.
    fn moved(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let moved = |part: Arc<dyn PhysicalExpr>| {
            Ok(if part.is::<Column>() { Transformed::yes(self.column(&part)) } else { Transformed::no(part) })
        };
        Arc::clone(expr).transform(moved).data()
    }

    /// Whether the source is to compute it.
    fn is_of_text(&self, expr: &Arc<dyn PhysicalExpr>) -> bool {
        let columns = collect_columns(expr);
        let mut columns = columns.iter();
        let (Some(column), None) = (columns.next(), columns.next()) else { return false };
        self.schema.field(column.index()).data_type().is_string()
            && computes(expr)
            && expr.data_type(&self.schema).is_ok_and(|of| is_given(&of))
            && is_determined(expr)
            && !may_fail(&self.schema, expr)
            && has_dictionaries(self.input, column.index())
    }
}

/// Whether it does more than to look for nulls, of which batches know, and to change the type.
fn computes(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let is_simple = expr.is::<Column>()
        || expr.is::<Literal>()
        || expr.is::<CastExpr>()
        || expr.is::<IsNullExpr>()
        || expr.is::<IsNotNullExpr>()
        || expr.is::<NotExpr>();
    !is_simple || expr.children().into_iter().any(computes)
}

/// Whether the scan reads values of the type by code.
fn is_given(of: &DataType) -> bool {
    matches!(of, DataType::Boolean) || of.is_primitive() || of.is_string()
}

/// Whether it is the same for the same text, wherever and whenever it is evaluated.
fn is_determined(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let of_nothing = |expr: &Arc<dyn PhysicalExpr>| {
        Ok(expr.downcast_ref::<ScalarFunctionExpr>().is_some_and(|of| of.args().is_empty()))
    };
    !is_volatile(expr) && !has_subquery(expr) && !expr.exists(of_nothing).unwrap_or(true)
}
