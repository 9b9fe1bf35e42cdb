//! Aggregates: a loop with a `dictmerger` (groups) or a `merger` (none), then one that makes rows of the states.
//!
//! `SELECT k, sum(v), count(*) .. GROUP BY k` becomes
//! ```weld
//! let groups = result(for(input, dictmerger[i64,{i64,i64},{+,+}], |b, i, r| merge(b, {r.$0, {r.$1, 1L}})));
//! let states = result(for(tovec(groups), appender[..], |b, i, e| merge(b, {e.$0, e.$1.$0, e.$1.$1})));
//! ```
//! Calls share states: `sum(x)`, `sum(x + 1)`, `avg(x)` and `count(*)` need one sum and one count between them. A partial aggregate
//! gives the states that DataFusion's own final aggregate expects.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::functions_aggregate;
use datafusion::logical_expr::AggregateUDF;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use weld_core::ir::{Expr, build as ir};
use weld_core::op::{Intrinsic, MergeOp};
use weld_core::ty::{ScalarKind, Type};

use super::expr::{Scope, lower};
use super::grouping_sets::GroupingSets;
use super::operator::{append, append_to, read_by};
use super::states::{Output, States, needs_memory};
use super::statistics::Statistic;
use super::types::value_type;
use super::{Block, Lowering, Result, Rows, Sql, Unsupported, for_each, row_struct, sums};

/// An aggregate that has a lowering, as far as its shape tells.
#[derive(Clone, Debug)]
pub(crate) struct Aggregate {
    pub(crate) group: Vec<Arc<dyn PhysicalExpr>>,
    calls: Vec<Call>,
    /// Its input are states, not values.
    merges: bool,
    sets: Option<GroupingSets>,
    /// Gives states, not results.
    pub(crate) partial: bool,
    input: SchemaRef,
    output: SchemaRef,
}

#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) function: Function,
    pub(super) args: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) filter: Option<Arc<dyn PhysicalExpr>>,
    /// What a sum adds to each of its values.
    pub(super) offset: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Function {
    Count,
    Sum,
    Avg,
    Min,
    Max,
    /// `bool_and` and `bit_and`.
    And,
    /// `bool_or` and `bit_or`.
    Or,
    Xor,
    Statistic(Statistic),
}

impl Function {
    /// How many columns DataFusion's intermediate state has.
    fn state_columns(self) -> usize {
        match self {
            Function::Avg => 2,
            Function::Statistic(statistic) => statistic.state_fields().len(),
            _ => 1,
        }
    }
}

impl Aggregate {
    pub(crate) fn of(exec: &AggregateExec) -> Result<Aggregate> {
        let no = |why: &str| Err(Unsupported::new("AggregateExec", why));
        let (merges, partial) = match exec.mode() {
            AggregateMode::Partial => (false, true),
            AggregateMode::Single | AggregateMode::SinglePartitioned => (false, false),
            AggregateMode::Final | AggregateMode::FinalPartitioned => (true, false),
            AggregateMode::PartialReduce => (true, true),
        };
        if exec.limit_options().is_some() {
            return no("stops at a limit");
        }
        if !exec.dynamic_expressions_produced().is_empty() {
            return no("its dynamic filter prunes the scan");
        }
        let group: Vec<_> = exec.group_expr().expr().iter().map(|(expr, _)| expr.clone()).collect();
        if !group.is_empty() && exec.properties().output_ordering().is_some() {
            return no("its output is declared to be ordered");
        }
        let input = exec.input().schema();
        let mut calls = Vec::new();
        let mut next_state = group.len();
        for (call, filter) in exec.aggr_expr().iter().zip(exec.filter_expr()) {
            let mut call = Call::of(call, filter.clone())?;
            if !group.is_empty() && call.function == Function::Statistic(Statistic::Correlation) {
                return no("DataFusion's state of a group's correlation is made of sums that cancel");
            }
            if merges {
                // The states follow the groups; whoever made them has applied the filter.
                let states = call.function.state_columns();
                let state = |index| Arc::new(Column::new(input.field(index).name(), index)) as Arc<dyn PhysicalExpr>;
                call.args = (next_state..next_state + states).map(state).collect();
                call.filter = None;
                next_state += states;
            }
            calls.push(call);
        }
        if !merges {
            sums::share(&mut calls, &input);
        }
        let sets = GroupingSets::of(exec.group_expr())?;
        Ok(Aggregate { group, calls, merges, sets, partial, input, output: exec.schema() })
    }

    /// Every expression that reads the input.
    pub(crate) fn exprs(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        self.group.iter().chain(self.calls.iter().flat_map(|call| call.args.iter().chain(&call.filter)))
    }

    /// The input columns that are read.
    pub(crate) fn needed(&self) -> Vec<bool> {
        read_by(self.input.fields().len(), self.exprs())
    }

    /// Whether it gives each of its groups once, and no group that is made of others.
    pub(crate) fn is_whole(&self) -> bool {
        !self.partial && !self.group.is_empty() && self.sets.is_none()
    }

    /// The input's columns that are keys as they are.
    pub(crate) fn key_columns(&self) -> Vec<usize> {
        let columns = self.group.iter().filter_map(|key| Some(key.downcast_ref::<Column>()?.index()));
        columns.filter(|column| !self.input.field(*column).data_type().is_floating()).collect()
    }

    pub(crate) fn lower(&self, lowering: &mut Lowering, input: &Rows) -> Result<Rows> {
        let have_total = self.sets.as_ref().is_some_and(GroupingSets::have_total);
        let mut states = States::new(have_total);
        let mut outputs = Vec::new();
        let (mut key, mut in_table) = (None, false);
        let filled = for_each(&mut lowering.env, input.data.clone(), "r", |block, r| {
            let group = self.lower_row(block, &input.columns_of(&r), &mut states, &mut outputs)?;
            let value = ir::strct(std::mem::take(&mut states.values));
            let op = states.op();
            in_table = group.is_empty() && needs_memory(&value.ty);
            let (builder, merged) = if group.is_empty() && !in_table {
                (ir::merger(value.ty.clone(), op), value)
            } else if group.is_empty() {
                (ir::dict_merger(Type::BOOL, value.ty.clone(), op), ir::strct([ir::bool(true), value]))
            } else {
                let nullable: Vec<bool> = group.iter().map(|sql| sql.valid.is_some()).collect();
                let stored: Vec<Expr> = group.into_iter().map(Sql::stored).collect();
                let single = stored.len() == 1;
                let stored = if single { stored.into_iter().next().expect("one") } else { ir::strct(stored) };
                key = Some((nullable, single));
                (ir::dict_merger(stored.ty.clone(), value.ty.clone(), op), ir::strct([stored, value]))
            };
            Ok((builder, move |b: Expr| ir::merge(b, merged)))
        })?;
        match key {
            None => {
                let mut state = lowering.bind("state", ir::result(filled));
                if in_table {
                    let identity = states.identity(&state);
                    let found = lowering.bind("found", ir::opt_lookup(state, ir::bool(true)));
                    let (found, value) = (ir::field(found.clone(), 0), ir::field(found, 1));
                    state = lowering.bind("whole", ir::if_(found, value, identity));
                }
                let mut block = Block::new(&mut lowering.env);
                let row = self.outputs(&mut block, Vec::new(), &state, &outputs)?;
                let (row, columns) = row_struct(row);
                let row = block.close(row);
                let data = lowering.bind("states", ir::vector(row.ty.clone(), [row]));
                Ok(Rows { data, columns })
            }
            Some((nullable, single)) => {
                let groups = lowering.bind("groups", ir::result(filled));
                let keys = |e: &Expr| keys_of(e, &nullable, single);
                let row = |block: &mut Block<'_>, keys: Vec<Sql>, e: &Expr| {
                    Ok((None, self.outputs(block, keys, &ir::field(e.clone(), 1), &outputs)?))
                };
                let Some(sets) = &self.sets else {
                    return append(lowering, ir::to_vec(groups), "states", |block, e| row(block, keys(e), e));
                };
                let merging = (states.op(), states.identity(&groups));
                self.lower_sets(lowering, sets, groups, &nullable, merging, &row)
            }
        }
    }

    /// The groups of all sets, one after the other.
    fn lower_sets(
        &self,
        lowering: &mut Lowering,
        sets: &GroupingSets,
        groups: Expr,
        nullable: &[bool],
        merging: (MergeOp, Expr),
        row: &impl Fn(&mut Block<'_>, Vec<Sql>, &Expr) -> Result<(Option<Expr>, Vec<Option<Sql>>)>,
    ) -> Result<Rows> {
        let id_kind = self.id_kind()?;
        let types = self.output.fields().iter().take(nullable.len());
        let types = types.map(|field| key_type(field.data_type())).collect::<Result<Vec<_>>>()?;
        let (mut filled, mut columns) = (None, Vec::new());
        for (id, groups) in sets.lower(lowering, groups, nullable, merging)? {
            let entries = ir::to_vec(groups.data.clone());
            let of_set = |block: &mut Block<'_>, e: &Expr| row(block, sets.key(id, &groups, e, &types, id_kind), e);
            let (appended, slots) = append_to(lowering, filled, entries, of_set)?;
            (filled, columns) = (Some(appended), slots);
        }
        let filled = filled.ok_or_else(|| Unsupported::new("AggregateExec", "no grouping sets"))?;
        Ok(Rows { data: lowering.bind("states", ir::result(filled)), columns })
    }

    /// Whether a row may be passed on as a group of its own. In grouping sets, some have few groups.
    pub(crate) fn may_be_ungrouped(&self) -> bool {
        self.partial && !self.group.is_empty() && self.sets.is_none()
    }

    /// The kind of `__grouping_id`, which follows the keys.
    fn id_kind(&self) -> Result<ScalarKind> {
        let id = value_type(self.output.field(self.group.len()).data_type())?;
        id.as_scalar().ok_or_else(|| Unsupported::new("__grouping_id", "not a number"))
    }

    /// The states of single rows, as if each were a group of its own: what a partial aggregate gives when grouping does
    /// not pay. The final aggregate merges them like any others.
    pub(crate) fn lower_ungrouped(&self, lowering: &mut Lowering, input: &Rows) -> Result<Rows> {
        append(lowering, input.data.clone(), "states", |block, r| {
            let (mut states, mut outputs) = (States::default(), Vec::new());
            let group = self.lower_row(block, &input.columns_of(r), &mut states, &mut outputs)?;
            let values = states.values.into_iter().map(|value| block.share("state", value)).collect::<Vec<_>>();
            Ok((None, self.outputs(block, group, &ir::strct(values), &outputs)?))
        })
    }

    /// The group of a row; what it merges into the states, and which of them each call's output is made of.
    fn lower_row(
        &self,
        block: &mut Block<'_>,
        columns: &[Option<Sql>],
        states: &mut States,
        outputs: &mut Vec<Output>,
    ) -> Result<Vec<Sql>> {
        let scope = Scope { schema: &self.input, columns };
        let group = self.lower_group(block, &scope)?;
        for call in &self.calls {
            outputs.push(states.add(block, &scope, call, self.merges, group.is_empty())?);
        }
        if states.values.is_empty() {
            // DISTINCT: groups without a state.
            states.add_any();
        }
        Ok(group)
    }

    fn lower_group(&self, block: &mut Block<'_>, scope: &Scope<'_>) -> Result<Vec<Sql>> {
        let lower_key = |expr: &Arc<dyn PhysicalExpr>| {
            let key = lower(block, scope, expr)?;
            // Floats of one group have the same bits, but for the two zeros.
            let is_float = key.value.ty.as_scalar().is_some_and(ScalarKind::is_float);
            let value = if is_float { ir::intrinsic(Intrinsic::OrderKey, [key.value]) } else { key.value };
            Ok(Sql { value, ..key })
        };
        self.group.iter().map(lower_key).collect()
    }

    /// A group's keys as they are in the output.
    fn output_keys(&self, keys: Vec<Sql>) -> Vec<Sql> {
        let floats = self.output.fields().iter().map(|field| field.data_type().is_floating());
        let column = |(key, is_float): (Sql, bool)| {
            let value = if is_float { ir::intrinsic(Intrinsic::FromOrderKey, [key.value]) } else { key.value };
            Sql { value, ..key }
        };
        keys.into_iter().zip(floats).map(column).collect()
    }

    /// The columns of a group's output row.
    fn outputs(
        &self,
        block: &mut Block<'_>,
        keys: Vec<Sql>,
        state: &Expr,
        calls: &[Output],
    ) -> Result<Vec<Option<Sql>>> {
        let mut columns = self.output_keys(keys);
        for (call, output) in self.calls.iter().zip(calls) {
            let at = columns.len();
            let result_type = self.output.field(at).data_type();
            if self.partial {
                columns.extend(output.state(state));
            } else {
                columns.push(output.result(block, call.function, state, result_type)?);
            }
        }
        for (column, field) in columns.iter().zip(self.output.fields()) {
            let (ty, state) = (value_type(field.data_type())?, &column.value.ty);
            if *state != ty {
                return Err(Unsupported::new(field.name(), format!("its type is {ty}, that of the state {state}")));
            }
        }
        Ok(columns.into_iter().map(Some).collect())
    }
}

/// The type of a group's key of this type.
fn key_type(data_type: &DataType) -> Result<Type> {
    Ok(match data_type {
        DataType::Float32 => Type::I32,
        DataType::Float64 => Type::I64,
        other => value_type(other)?,
    })
}

/// The keys of a dictionary's entry `e`; a `single` one is not in a struct.
fn keys_of(e: &Expr, nullable: &[bool], single: bool) -> Vec<Sql> {
    let key = ir::field(e.clone(), 0);
    let part = |index| if single { key.clone() } else { ir::field(key.clone(), index) };
    nullable.iter().enumerate().map(|(index, nullable)| Sql::load(part(index), *nullable)).collect()
}

/// The built-in function that this is; a user's may have any name.
fn builtin(function: &AggregateUDF) -> Option<Function> {
    // One type stands for the three bitwise functions.
    if *function == *functions_aggregate::bit_and_or_xor::bit_and_udaf() {
        return Some(Function::And);
    }
    if *function == *functions_aggregate::bit_and_or_xor::bit_or_udaf() {
        return Some(Function::Or);
    }
    if *function == *functions_aggregate::bit_and_or_xor::bit_xor_udaf() {
        return Some(Function::Xor);
    }
    if let Some(statistic) = Statistic::of(function) {
        return Some(Function::Statistic(statistic));
    }
    let function = function.inner();
    Some(match () {
        () if function.is::<functions_aggregate::count::Count>() => Function::Count,
        () if function.is::<functions_aggregate::sum::Sum>() => Function::Sum,
        () if function.is::<functions_aggregate::average::Avg>() => Function::Avg,
        () if function.is::<functions_aggregate::min_max::Min>() => Function::Min,
        () if function.is::<functions_aggregate::min_max::Max>() => Function::Max,
        () if function.is::<functions_aggregate::bool_and_or::BoolAnd>() => Function::And,
        () if function.is::<functions_aggregate::bool_and_or::BoolOr>() => Function::Or,
        () => return None,
    })
}

/// Whether the states and the result of values that are there are there too.
pub(crate) fn gives_values(call: &AggregateFunctionExpr) -> bool {
    !call.is_distinct() && builtin(call.fun()).is_some_and(|function| !matches!(function, Function::Statistic(_)))
}

impl Call {
    fn of(call: &AggregateFunctionExpr, filter: Option<Arc<dyn PhysicalExpr>>) -> Result<Call> {
        let no = |why: &str| Err(Unsupported::new(call.name(), why));
        let Some(function) = builtin(call.fun()) else { return no("no lowering for this aggregate function") };
        if call.is_distinct() {
            return no("DISTINCT inside an aggregate");
        }
        if !call.order_bys().is_empty() {
            return no("an ordered aggregate");
        }
        Ok(Call { function, args: call.expressions(), filter, offset: 0 })
    }
}
