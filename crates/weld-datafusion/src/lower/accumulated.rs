//! Aggregates that accumulators compute, DataFusion's or those of this project, beside those that are compiled: the
//! pipeline finds the group of every row.
//!
//! `SELECT k, median(v), sum(w) .. GROUP BY k` becomes
//! ```weld
//! let numbered = result(for(input, numberer[i64,{i64},{+},{f64}], |b, i, r| merge(b, {r.$0, {r.$2}, {r.$1}})));
//! let states = result(for(tovec(numbered.$0), appender[..], |b, i, e| merge(b, {e.$0, e.$1.$0})));
//! {states, numbered.$1}
//! ```
//! An accumulator is given the rows of each chunk as they come, its arguments beside the numbers of their groups; at
//! the end its results stand beside the groups. What only passes through to it is taken from the input's arrays, so
//! that it may be of any type.

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{Result as QueryResult, ScalarValue};
use datafusion::logical_expr::GroupsAccumulator;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::{GroupsAccumulatorAdapter, PhysicalExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;

use weld_core::ir::build as ir;
use weld_core::op::BinaryOp;

use super::expr::{Scope, lower};
use super::lists::{given_value, lower_given};
use super::states::lower_where;
use super::{Block, Result, Slot, Sql, Unsupported};
use crate::distinct::{self, Distinct};
use crate::ordered::Ordered;

/// A call that is left to an accumulator.
#[derive(Clone, Debug)]
pub(super) struct AccumulatedCall {
    call: Arc<AggregateFunctionExpr>,
    /// What is not left to DataFusion.
    own: Option<Own>,
    /// What the accumulator is given: arguments, those of its ORDER BY behind the others; or states.
    args: Vec<Arc<dyn PhysicalExpr>>,
    filter: Option<Arc<dyn PhysicalExpr>>,
    /// Its columns in the output.
    output: Range<usize>,
    /// Whether it may rely on the order that the aggregate asks of its input.
    pub(super) is_ordered: bool,
    /// Whether a row may be a group of its own.
    pub(super) converts: bool,
}

impl AccumulatedCall {
    /// `merged` are its states, where the input has those.
    pub(super) fn of(
        exec: &AggregateExec,
        call: &Arc<AggregateFunctionExpr>,
        merged: Option<Vec<Arc<dyn PhysicalExpr>>>,
        filter: Option<Arc<dyn PhysicalExpr>>,
        output: Range<usize>,
    ) -> Result<AccumulatedCall> {
        let ordering = call.order_bys();
        let is_sorted = exec.required_input_ordering().iter().any(Option::is_some);
        let is_ordered = merged.is_none() && !ordering.is_empty() && is_sorted;
        let own = Own::of(call, &exec.input_schema());
        accumulator(call, own.as_ref(), false).map_err(|error| Unsupported::new(call.name(), error))?;
        // DataFusion's that are given the values of an order, too, do not expect them there.
        let takes_all = ordering.is_empty() || !call.groups_accumulator_supported();
        let converts = own.is_some() || takes_all;
        let args = merged.unwrap_or_else(|| {
            let ordering = ordering.iter().map(|order| Arc::clone(&order.expr));
            call.expressions().into_iter().chain(ordering).collect()
        });
        Ok(AccumulatedCall { call: Arc::clone(call), own, args, filter, output, is_ordered, converts })
    }

    /// Every expression that reads the input.
    pub(super) fn exprs(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        self.args.iter().chain(&self.filter)
    }

    /// Whether it is computed in sets of distinct values.
    pub(super) fn is_of_sets(&self) -> bool {
        matches!(self.own, Some(Own::Distinct(_)))
    }

    /// Whether it takes less time than in DataFusion without groups as well: texts are put into sets as fast there.
    pub(super) fn gains(&self) -> bool {
        match &self.own {
            Some(Own::Distinct(distinct)) => distinct.is_of_words(),
            Some(Own::Ordered(_)) => true,
            None => false,
        }
    }

    /// How many columns it has in the output.
    pub(super) fn columns(&self) -> usize {
        self.output.len()
    }
}

/// A call that this project has an accumulator for.
#[derive(Clone, Debug)]
enum Own {
    Distinct(Distinct),
    Ordered(Ordered),
}

impl Own {
    fn of(call: &AggregateFunctionExpr, input: &Schema) -> Option<Own> {
        let ordered = || Ordered::of(call).map(Own::Ordered);
        Distinct::of(call, input).map(Own::Distinct).or_else(ordered)
    }
}

/// The accumulator of groups for a call, DataFusion's if the call has no other.
fn accumulator(
    call: &Arc<AggregateFunctionExpr>,
    own: Option<&Own>,
    partial: bool,
) -> QueryResult<Box<dyn GroupsAccumulator>> {
    match own {
        Some(Own::Distinct(distinct)) => return Ok(distinct.accumulator(partial)),
        Some(Own::Ordered(ordered)) => return Ok(ordered.accumulator()),
        None => {}
    }
    if call.groups_accumulator_supported() {
        return call.create_groups_accumulator();
    }
    let call = Arc::clone(call);
    Ok(Box::new(GroupsAccumulatorAdapter::new(move || call.create_accumulator())))
}

/// What all accumulators together are given of a row.
pub(super) struct Arguments {
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    fields: Vec<Field>,
    /// How many of them are values; filters follow.
    values: usize,
}

impl Arguments {
    pub(super) fn of(calls: &[AccumulatedCall], input: &SchemaRef) -> Result<Arguments> {
        let mut exprs: Vec<Arc<dyn PhysicalExpr>> = Vec::new();
        let mut add = |expr: &Arc<dyn PhysicalExpr>| {
            if !expr.is::<Literal>() && !exprs.contains(expr) {
                exprs.push(Arc::clone(expr));
            }
        };
        calls.iter().flat_map(|call| &call.args).for_each(&mut add);
        let values = exprs.len();
        exprs.extend(distinct_filters(calls));
        let field = |(index, expr): (usize, &Arc<dyn PhysicalExpr>)| {
            if index >= values {
                return Ok(Field::new(expr.to_string(), DataType::Boolean, true));
            }
            let declared = expr.data_type(input).map_err(|error| Unsupported::new(expr, error))?;
            let mut calls = calls.iter().filter(|call| call.args.contains(expr));
            let given = match calls.all(AccumulatedCall::is_of_sets) {
                true => distinct::given_type(&declared),
                false => declared,
            };
            Ok(Field::new(expr.to_string(), given, true))
        };
        let fields = exprs.iter().enumerate().map(field).collect::<Result<Vec<_>>>()?;
        Ok(Arguments { exprs, fields, values })
    }

    /// The columns of a row. `whole` are the calls that read them, if all rows are one group.
    pub(super) fn lower(
        &self,
        block: &mut Block<'_>,
        scope: &Scope<'_>,
        whole: Option<&[AccumulatedCall]>,
    ) -> Result<Vec<Option<Sql>>> {
        let column = |(index, expr): (usize, &Arc<dyn PhysicalExpr>)| {
            if index < self.values {
                let passes = match whole.and_then(|calls| filters_of(expr, calls)) {
                    Some(filters) if !expr.is::<Column>() => {
                        let filters = filters.into_iter().map(|filter| Ok(lower(block, scope, filter)?.value));
                        filters.collect::<Result<Vec<_>>>()?.into_iter().reduce(|a, b| ir::binary(BinaryOp::Or, a, b))
                    }
                    _ => None,
                };
                let value = match passes {
                    Some(passes) => {
                        let passes = block.share("passes", passes);
                        lower_where(block, scope, expr, Some(&passes))?
                    }
                    None => lower_given(block, scope, expr)?,
                };
                return Ok(Some(given_value(value)?));
            }
            // Where a filter is null it does not hold.
            Ok(Some(Sql::required(lower(block, scope, expr)?.value)))
        };
        self.exprs.iter().enumerate().map(column).collect()
    }

    /// What is known of them when the pipeline runs. `moved` says of each column of the input which of the source's it
    /// is.
    pub(super) fn accumulated(
        &self,
        calls: &[AccumulatedCall],
        output: &SchemaRef,
        (merges, partial, whole): (bool, bool, bool),
        slots: Vec<Slot>,
        moved: &[Option<usize>],
    ) -> Accumulated {
        let place = |exprs: std::ops::Range<usize>, expr: &Arc<dyn PhysicalExpr>| {
            let found = self.exprs[exprs.clone()].iter().position(|known| known == expr);
            found.map(|index| exprs.start + index)
        };
        let argument = |expr: &Arc<dyn PhysicalExpr>| match expr.downcast_ref::<Literal>() {
            Some(literal) => Some(Argument::Constant(literal.value().clone())),
            None => place(0..self.values, expr).map(Argument::Column),
        };
        let calls = calls.iter().map(|call| Accumulating {
            call: Arc::clone(&call.call),
            own: call.own.clone(),
            args: call.args.iter().filter_map(argument).collect(),
            filter: call.filter.as_ref().and_then(|filter| place(self.values..self.exprs.len(), filter)),
            output: call.output.clone(),
        });
        let calls: Vec<Accumulating> = calls.collect();
        let is_compiled = |index: &usize| !calls.iter().any(|call| call.output.contains(index));
        let compiled: Vec<usize> = (0..output.fields().len()).filter(is_compiled).collect();
        let number = Field::new("number", DataType::Int64, false);
        let numbered = std::iter::once(number).chain(self.fields.iter().cloned()).collect::<Vec<_>>();
        let kept = compiled.iter().map(|index| output.field(*index).clone());
        let states = kept.clone().chain(self.fields.iter().cloned()).collect::<Vec<_>>();
        Accumulated {
            calls,
            numbered: Arc::new(Schema::new(numbered)),
            slots,
            moved: std::iter::once(None).chain(self.moved(moved)).collect(),
            groups: Arc::new(Schema::new(kept.collect::<Vec<_>>())),
            states: Arc::new(Schema::new(states)),
            compiled,
            merges,
            partial,
            whole,
        }
    }

    /// For each of them the source's column that it is, if it only passes through.
    pub(super) fn moved<'a>(&'a self, moved: &'a [Option<usize>]) -> impl Iterator<Item = Option<usize>> + 'a {
        let column = |expr: &Arc<dyn PhysicalExpr>| expr.downcast_ref::<Column>().map(Column::index);
        let source = move |expr| moved.get(column(expr)?).copied().flatten();
        // Views are of the values, also of a dictionary's.
        let is_view = |field: &Field| matches!(field.data_type(), DataType::Utf8View | DataType::BinaryView);
        self.exprs.iter().zip(&self.fields).map(move |(expr, field)| source(expr).filter(|_| !is_view(field)))
    }
}

/// The filters of all calls that read an argument; `None` where one of them has none.
fn filters_of<'a>(arg: &Arc<dyn PhysicalExpr>, calls: &'a [AccumulatedCall]) -> Option<Vec<&'a Arc<dyn PhysicalExpr>>> {
    calls.iter().filter(|call| call.args.contains(arg)).map(|call| call.filter.as_ref()).collect()
}

fn distinct_filters(calls: &[AccumulatedCall]) -> Vec<Arc<dyn PhysicalExpr>> {
    let mut filters: Vec<Arc<dyn PhysicalExpr>> = Vec::new();
    for filter in calls.iter().filter_map(|call| call.filter.as_ref()) {
        if !filters.contains(filter) {
            filters.push(Arc::clone(filter));
        }
    }
    filters
}

/// What DataFusion's accumulators are given of a pipeline's rows, and where their results are among its columns.
#[derive(Clone, Debug)]
pub(crate) struct Accumulated {
    pub(crate) calls: Vec<Accumulating>,
    /// The rows that they are given: the number of the group, then arguments and filters.
    pub(crate) numbered: SchemaRef,
    /// Where these are, but for the number.
    pub(crate) slots: Vec<Slot>,
    /// For each column of these rows the source's column that it is, where rows are numbers in place of its values.
    pub(crate) moved: Vec<Option<usize>>,
    /// The rows that compiled code makes of groups.
    pub(crate) groups: SchemaRef,
    /// The rows that it makes where every row is a group of its own: as of groups, then arguments and filters.
    pub(crate) states: SchemaRef,
    /// Which of the output's columns those of groups are.
    pub(crate) compiled: Vec<usize>,
    /// Accumulators are given states.
    pub(crate) merges: bool,
    /// They give states.
    pub(crate) partial: bool,
    /// All rows are one group, which is there without any rows too.
    pub(crate) whole: bool,
}

/// A call of an accumulator.
#[derive(Clone, Debug)]
pub(crate) struct Accumulating {
    call: Arc<AggregateFunctionExpr>,
    own: Option<Own>,
    pub(crate) args: Vec<Argument>,
    /// Its filter among the arguments of all calls.
    pub(crate) filter: Option<usize>,
    /// Its columns in the output.
    pub(crate) output: Range<usize>,
}

#[derive(Clone, Debug)]
pub(crate) enum Argument {
    /// Among the arguments of all calls.
    Column(usize),
    Constant(ScalarValue),
}

impl Accumulating {
    pub(crate) fn name(&self) -> &str {
        self.call.human_display().unwrap_or_else(|| self.call.name())
    }

    /// A `partial` aggregate's gives states.
    pub(crate) fn accumulator(&self, partial: bool) -> QueryResult<Box<dyn GroupsAccumulator>> {
        accumulator(&self.call, self.own.as_ref(), partial)
    }

    /// How it is accumulated, as EXPLAIN has it.
    pub(crate) fn means(&self) -> Means {
        match self.own {
            Some(Own::Distinct(_)) => Means::Sets,
            Some(Own::Ordered(_)) => Means::Order,
            None => Means::DataFusion,
        }
    }
}

/// How calls are accumulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Means {
    /// In sets of distinct values.
    Sets,
    /// In rows that are put in order.
    Order,
    /// By DataFusion's accumulators.
    DataFusion,
}
