//! Aggregates: a loop with a `dictmerger` (groups) or a `merger` (none), then one that makes rows of the states.
//!
//! `SELECT k, sum(v), count(*) .. GROUP BY k` becomes
//! ```weld
//! let groups = result(for(input, dictmerger[i64,{i64,i64},{+,+}], |b, i, r| merge(b, {r.$0, {r.$1, 1L}})));
//! let states = result(for(tovec(groups), appender[..], |b, i, e| merge(b, {e.$0, e.$1.$0, e.$1.$1})));
//! ```
//! Calls share states: `sum(x)`, `sum(x + 1)`, `avg(x)` and `count(*)` need one sum and one count between them. A
//! partial aggregate gives the states that DataFusion's own final aggregate expects. Calls without a lowering are left
//! to DataFusion's accumulators, see [`super::accumulated`].

use std::ops::Range;
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

use crate::function::aggregate::WeldAggregate;
use crate::scan::is_dictionary_of_text;

use super::accumulated::{Accumulated, AccumulatedCall, Arguments};
use super::expr::{Scope, lower};
use super::first_last::FirstLast;
use super::grouping_sets::GroupingSets;
use super::operator::{append, append_to, read_by};
use super::pipeline::{Sink, source};
use super::states::{Output, States, needs_memory};
use super::statistics::Statistic;
use super::types::{has_few_codes, value_type};
use super::{Block, Lowering, Result, Rows, Sql, Unsupported, for_each, row_struct, sums};

/// An aggregate that has a lowering, as far as its shape tells.
#[derive(Clone, Debug)]
pub(crate) struct Aggregate {
    pub(crate) group: Vec<Arc<dyn PhysicalExpr>>,
    calls: Vec<Call>,
    /// Those that are left to DataFusion's accumulators.
    accumulated: Vec<AccumulatedCall>,
    /// Its input are states, not values.
    merges: bool,
    sets: Option<GroupingSets>,
    /// The keys, by number, whose texts are interned: columns of which there are few texts.
    interned: Vec<usize>,
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
    /// Its columns in the output.
    pub(super) output: Range<usize>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
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
    FirstLast(Box<FirstLast>),
    /// A user's, which builders can have.
    Written(Box<WeldAggregate>),
}

impl Aggregate {
    pub(crate) fn of(exec: &AggregateExec) -> Result<Aggregate> {
        Aggregate::with(exec, |_, _| true)
    }

    /// The aggregate with every call left to DataFusion's accumulators that does not lower, if it lowers then.
    pub(crate) fn checked(exec: &AggregateExec) -> Result<Aggregate> {
        let check = |aggregate: &Aggregate| match exec.input().schema() {
            schema if schema.fields().is_empty() => Ok(()),
            schema => Sink::Aggregate(aggregate.clone()).check(&schema),
        };
        let aggregate = Aggregate::of(exec)?;
        let Err(unsupported) = check(&aggregate) else { return Ok(aggregate) };
        let accumulating = Aggregate::with(exec, Aggregate::lowers)?;
        if accumulating.calls.len() == aggregate.calls.len() {
            return Err(unsupported);
        }
        check(&accumulating).map(|()| accumulating)
    }

    /// The aggregate, of which the calls are compiled that have a lowering by their shape and for which `compiles`
    /// holds.
    fn with(exec: &AggregateExec, compiles: impl Fn(&Aggregate, &Call) -> bool) -> Result<Aggregate> {
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
        let sets = GroupingSets::of(exec.group_expr())?;
        let (calls, accumulated) = (Vec::new(), Vec::new());
        let (input, output) = (exec.input().schema(), exec.schema());
        let mut aggregate =
            Aggregate { group, calls, accumulated, merges, sets, interned: Vec::new(), partial, input, output };
        aggregate.add_calls(exec, compiles)?;
        Ok(aggregate)
    }

    fn add_calls(&mut self, exec: &AggregateExec, compiles: impl Fn(&Aggregate, &Call) -> bool) -> Result<()> {
        let states = |call: &Arc<AggregateFunctionExpr>| {
            let fields = call.state_fields().map_err(|error| Unsupported::new(call.name(), error))?;
            Ok(fields.len())
        };
        let states = exec.aggr_expr().iter().map(states).collect::<Result<Vec<_>>>()?;
        let columns = |states: &usize| if self.partial { *states } else { 1 };
        let mut output = self.output.fields().len() - states.iter().map(columns).sum::<usize>();
        let mut state = self.group.len();
        for ((expr, filter), states) in exec.aggr_expr().iter().zip(exec.filter_expr()).zip(states) {
            let columns = output..output + if self.partial { states } else { 1 };
            output = columns.end;
            // The states follow the groups; whoever made them has applied the filter.
            let column = |index| Arc::new(Column::new(self.input.field(index).name(), index)) as Arc<dyn PhysicalExpr>;
            let merged = self.merges.then(|| (state..state + states).map(column).collect::<Vec<_>>());
            state += states;
            let own_filter = filter.clone();
            let filter = filter.clone().filter(|_| !self.merges);
            let call = Call::of(expr, !self.group.is_empty()).and_then(|call| {
                let args = merged.clone().unwrap_or(call.args);
                let mut call = Call { args, filter: filter.clone(), output: columns.clone(), ..call };
                self.note_order(&mut call, own_filter.as_ref())?;
                if compiles(self, &call) { Ok(call) } else { Err(Unsupported::new(expr.name(), "of this type")) }
            });
            match call {
                Ok(call) => self.calls.push(call),
                Err(unsupported) if self.sets.is_some() => return Err(unsupported),
                Err(unsupported) => {
                    let left = AccumulatedCall::of(exec, expr, merged, filter, columns)?;
                    // Without groups DataFusion's accumulators are as fast in its own operator.
                    if self.group.is_empty() && !left.is_of_sets() {
                        return Err(unsupported);
                    }
                    self.accumulated.push(left);
                }
            }
        }
        if !self.merges {
            sums::share(&mut self.calls, &self.input);
        }
        Ok(())
    }

    /// Tells a call what rows are chosen by.
    fn note_order(&self, call: &mut Call, filter: Option<&Arc<dyn PhysicalExpr>>) -> Result<()> {
        let Call { function: Function::FirstLast(first_last), args, .. } = call else { return Ok(()) };
        if self.sets.is_some() && !first_last.is_ordered() {
            // A set is made of groups, which do not come in the order of rows.
            return Err(Unsupported::new(
                "AggregateExec",
                "a first or last value in the order of rows, in grouping sets",
            ));
        }
        let fields = self.output.fields();
        let group_key = |arg: &Arc<dyn PhysicalExpr>| {
            let index = self.group.iter().position(|key| key == arg && !self.merges && self.sets.is_none())?;
            // Of floats a group has both zeros.
            fields.get(index).filter(|field| !field.data_type().is_floating()).map(|_| index)
        };
        first_last.note(filter, args, group_key);
        Ok(())
    }

    /// Whether a call lowers, beside others in groups.
    fn lowers(&self, call: &Call) -> bool {
        let mut lowering = Lowering::default();
        let read = call.args.iter().chain(&call.filter).chain(&self.group);
        let needed = read_by(self.input.fields().len(), read);
        let Ok((rows, _)) = source(&mut lowering, &self.input, &needed, &[]) else { return false };
        let alone = Aggregate { calls: vec![call.clone()], accumulated: Vec::new(), ..self.clone() };
        let lowered = append(&mut lowering, rows.data.clone(), "states", |block, r| {
            let (mut states, mut outputs) = (States::default(), Vec::new());
            let group = alone.lower_row(block, &rows.columns_of(r), &mut states, &mut outputs)?;
            let state = ir::strct(states.values);
            Ok((None, alone.outputs(block, group, &state, &outputs)?))
        });
        lowered.is_ok()
    }

    /// For each column that accumulators are given the source's column that it is, if it only passes through. `moved`
    /// says so of the input's columns.
    pub(crate) fn moved(&self, moved: &[Option<usize>]) -> Result<Vec<Option<usize>>> {
        Ok(Arguments::of(&self.accumulated, &self.input)?.moved(moved).collect())
    }

    /// The same for each column of [`Aggregate::lower_ungrouped`].
    pub(crate) fn moved_of_states(&self, moved: &[Option<usize>]) -> Result<Vec<Option<usize>>> {
        let others = self.accumulated.iter().map(AccumulatedCall::columns).sum::<usize>();
        let states = std::iter::repeat_n(None, self.output.fields().len() - others);
        Ok(states.chain(self.moved(moved)?).collect())
    }

    /// Whether it leaves as many calls to accumulators as another one of the same operator.
    pub(crate) fn compiles_as_many(&self, other: &Aggregate) -> bool {
        self.calls.len() == other.calls.len()
    }

    /// Whether accumulators may rely on the order that it asks of its input.
    pub(crate) fn is_ordered(&self) -> bool {
        self.accumulated.iter().any(|call| call.is_ordered)
    }

    /// Whether DataFusion's accumulators are given rows of it.
    pub(crate) fn accumulates(&self) -> bool {
        !self.accumulated.is_empty()
    }

    /// Whether it does little but feed accumulators with values that are not grouped.
    pub(crate) fn only_accumulates(&self) -> bool {
        let gaining = self.accumulated.iter().filter(|call| call.gains()).count();
        let others = self.accumulated.len() - gaining;
        self.group.is_empty() && !self.merges && others > gaining && others >= self.calls.len()
    }

    /// Every expression that reads the input.
    pub(crate) fn exprs(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        let calls = self.calls.iter().flat_map(|call| call.args.iter().chain(&call.filter));
        self.group.iter().chain(calls).chain(self.accumulated.iter().flat_map(AccumulatedCall::exprs))
    }

    /// The input columns that are read.
    pub(crate) fn needed(&self) -> Vec<bool> {
        read_by(self.input.fields().len(), self.exprs())
    }

    /// Whether it gives each of its groups once, and no group that is made of others.
    pub(crate) fn is_whole(&self) -> bool {
        !self.partial && !self.group.is_empty() && self.sets.is_none() && !self.accumulates()
    }

    /// The input's columns that are keys as they are.
    pub(crate) fn key_columns(&self) -> Vec<usize> {
        let columns = self.group.iter().filter_map(|key| Some(key.downcast_ref::<Column>()?.index()));
        columns.filter(|column| !self.input.field(*column).data_type().is_floating()).collect()
    }

    /// The groups, with what is given to accumulators of each row in a vector of its own.
    pub(crate) fn lower_accumulating(
        &self,
        lowering: &mut Lowering,
        input: &Rows,
        moved: &[Option<usize>],
    ) -> Result<(Rows, Expr, Accumulated)> {
        let (mut states, mut outputs) = (States::default(), Vec::new());
        let arguments = Arguments::of(&self.accumulated, &self.input)?;
        let (mut nullable, mut slots) = (Vec::new(), Vec::new());
        let filled = for_each(&mut lowering.env, input.data.clone(), "r", |block, r| {
            let columns = input.columns_of(&r);
            let group = self.lower_row(block, &columns, &mut states, &mut outputs)?;
            let scope = Scope { schema: &self.input, columns: &columns };
            // DataFusion filters the rows before it evaluates arguments only where there are no groups.
            let whole = group.is_empty().then_some(&self.accumulated[..]);
            let (row, columns) = row_struct(arguments.lower(block, &scope, whole)?);
            slots = columns.into_iter().flatten().collect();
            nullable = group.iter().map(|sql| sql.valid.is_some()).collect();
            let key = if group.is_empty() { ir::bool(true) } else { stored_key(group) };
            let value = ir::strct(std::mem::take(&mut states.values));
            let builder = ir::numberer(key.ty.clone(), value.ty.clone(), states.op(), row.ty.clone());
            Ok((builder, move |b: Expr| ir::merge(b, ir::strct([key, value, row]))))
        })?;
        let numbered = lowering.bind("numbered", ir::result(filled));
        let groups = ir::field(numbered.clone(), 0);
        let rows = if self.group.is_empty() {
            let state = whole_state(lowering, &states, groups);
            self.single_row(lowering, &state, &outputs)?
        } else {
            append(lowering, ir::to_vec(groups), "states", |block, e| {
                let keys = keys_of(e, &nullable, nullable.len() == 1);
                Ok((None, self.outputs(block, keys, &ir::field(e.clone(), 1), &outputs)?))
            })?
        };
        let kind = (self.merges, self.partial, self.group.is_empty());
        let accumulated = arguments.accumulated(&self.accumulated, &self.output, kind, slots, moved);
        Ok((rows, ir::field(numbered, 1), accumulated))
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
                key = Some((nullable, group.len() == 1));
                let stored = stored_key(group);
                (ir::dict_merger(stored.ty.clone(), value.ty.clone(), op), ir::strct([stored, value]))
            };
            Ok((builder, move |b: Expr| ir::merge(b, merged)))
        })?;
        match key {
            None => {
                let mut state = lowering.bind("state", ir::result(filled));
                if in_table {
                    state = whole_state(lowering, &states, state);
                }
                self.single_row(lowering, &state, &outputs)
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

    /// The one row of an aggregate without groups.
    fn single_row(&self, lowering: &mut Lowering, state: &Expr, outputs: &[Output]) -> Result<Rows> {
        let mut block = Block::new(&mut lowering.env);
        let row = self.outputs(&mut block, Vec::new(), state, outputs)?;
        let (row, columns) = row_struct(row);
        let row = block.close(row);
        let data = lowering.bind("states", ir::vector(row.ty.clone(), [row]));
        Ok(Rows { data, columns })
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
            // The keys that a set leaves out have no stand-ins.
            let (appended, slots) = append_to(lowering, filled, entries, row_struct, of_set)?;
            (filled, columns) = (Some(appended), slots);
        }
        let filled = filled.ok_or_else(|| Unsupported::new("AggregateExec", "no grouping sets"))?;
        Ok(Rows { data: lowering.bind("states", ir::result(filled)), columns })
    }

    /// Has the texts of those keys interned that are a column for which `has_few_texts` holds.
    pub(crate) fn intern(&mut self, has_few_texts: impl Fn(usize) -> bool) {
        let keys = self.group.iter().enumerate();
        let columns = keys.filter_map(|(number, key)| Some((number, key.downcast_ref::<Column>()?.index())));
        let is_text = |column: usize| {
            let field = self.input.fields().get(column);
            field.is_some_and(|field| field.data_type().is_string() || is_dictionary_of_text(field.data_type()))
        };
        let few = columns.filter(|(_, column)| is_text(*column) && has_few_texts(*column));
        self.interned = few.map(|(number, _)| number).collect();
    }

    /// The aggregate without keys that are interned.
    pub(crate) fn of_texts(&self) -> Aggregate {
        Aggregate { interned: Vec::new(), ..self.clone() }
    }

    /// The columns whose texts are interned as keys.
    pub(crate) fn interned_columns(&self) -> Vec<usize> {
        let keys = self.interned.iter().filter_map(|key| self.group.get(*key));
        keys.filter_map(|key| Some(key.downcast_ref::<Column>()?.index())).collect()
    }

    /// Whether a row may be passed on as a group of its own. In grouping sets, some have few groups; dictionaries with
    /// few codes would be made anew for every batch of rows.
    pub(crate) fn may_be_ungrouped(&self) -> bool {
        let has_few_codes = || self.output.fields().iter().any(|field| has_few_codes(field.data_type()));
        let convert = self.accumulated.iter().all(|call| call.converts);
        self.partial && !self.group.is_empty() && self.sets.is_none() && convert && !has_few_codes()
    }

    /// The kind of `__grouping_id`, which follows the keys.
    fn id_kind(&self) -> Result<ScalarKind> {
        let id = value_type(self.output.field(self.group.len()).data_type())?;
        id.as_scalar().ok_or_else(|| Unsupported::new("__grouping_id", "not a number"))
    }

    /// The states of single rows, as if each were a group of its own: what a partial aggregate gives when grouping does
    /// not pay. The final aggregate merges them like any others.
    pub(crate) fn lower_ungrouped(&self, lowering: &mut Lowering, input: &Rows) -> Result<Rows> {
        let arguments = Arguments::of(&self.accumulated, &self.input)?;
        append(lowering, input.data.clone(), "states", |block, r| {
            let (mut states, mut outputs) = (States::default(), Vec::new());
            let columns = input.columns_of(r);
            let group = self.lower_row(block, &columns, &mut states, &mut outputs)?;
            let values = states.values.into_iter().map(|value| block.share("state", value)).collect::<Vec<_>>();
            let mut row = self.outputs(block, group, &ir::strct(values), &outputs)?;
            row.extend(arguments.lower(block, &Scope { schema: &self.input, columns: &columns }, None)?);
            Ok((None, row))
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
        let group = self.lower_group(block, &Scope { schema: &self.input, columns })?;
        self.lower_calls(block, columns, states, outputs)?;
        if states.values.is_empty() {
            // DISTINCT: groups without a state.
            states.add_any();
        }
        Ok(group)
    }

    fn lower_calls(
        &self,
        block: &mut Block<'_>,
        columns: &[Option<Sql>],
        states: &mut States,
        outputs: &mut Vec<Output>,
    ) -> Result<()> {
        let scope = Scope { schema: &self.input, columns };
        for call in &self.calls {
            outputs.push(states.add(block, &scope, call, self.merges, self.group.is_empty())?);
        }
        Ok(())
    }

    fn lower_group(&self, block: &mut Block<'_>, scope: &Scope<'_>) -> Result<Vec<Sql>> {
        let lower_key = |(number, expr): (usize, &Arc<dyn PhysicalExpr>)| {
            let key = lower(block, scope, expr)?;
            if self.interned.contains(&number) {
                return Ok(key.intern());
            }
            // Floats of one group have the same bits, but for the two zeros.
            let is_float = key.value.ty.as_scalar().is_some_and(ScalarKind::is_float);
            let value = if is_float { ir::intrinsic(Intrinsic::OrderKey, [key.value]) } else { key.value };
            Ok(Sql { value, ..key })
        };
        self.group.iter().enumerate().map(lower_key).collect()
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

    /// The columns of a group's output row, but for those of accumulators.
    fn outputs(
        &self,
        block: &mut Block<'_>,
        keys: Vec<Sql>,
        state: &Expr,
        calls: &[Output],
    ) -> Result<Vec<Option<Sql>>> {
        let keys = self.output_keys(keys);
        let mut columns: Vec<(usize, Sql)> = keys.iter().cloned().enumerate().collect();
        for (call, output) in self.calls.iter().zip(calls) {
            let made = match self.partial {
                true => output.state(state, &keys)?,
                false => {
                    let result_type = self.output.field(call.output.start).data_type();
                    vec![output.result(block, &call.function, (state, &keys), result_type)?]
                }
            };
            columns.extend(call.output.clone().zip(made));
        }
        for (at, column) in &columns {
            let field = self.output.field(*at);
            let (ty, state) = (value_type(field.data_type())?, &column.value.ty);
            if *state != ty {
                return Err(Unsupported::new(field.name(), format!("its type is {ty}, that of the state {state}")));
            }
        }
        Ok(columns.into_iter().map(|(_, column)| Some(column)).collect())
    }
}

/// The state of all rows, which are one group of a dictionary, or none if there are no rows.
fn whole_state(lowering: &mut Lowering, states: &States, groups: Expr) -> Expr {
    let identity = states.identity(&groups);
    let found = lowering.bind("found", ir::opt_lookup(groups, ir::bool(true)));
    let (found, value) = (ir::field(found.clone(), 0), ir::field(found, 1));
    lowering.bind("whole", ir::if_(found, value, identity))
}

/// The type of a group's key of this type.
fn key_type(data_type: &DataType) -> Result<Type> {
    Ok(match data_type {
        DataType::Float32 => Type::I32,
        DataType::Float64 => Type::I64,
        other => value_type(other)?,
    })
}

/// A group's keys as they are in a dictionary: one alone is not in a struct. Text that is interned is compared by what
/// stands for it.
fn stored_key(group: Vec<Sql>) -> Expr {
    let mut keys: Vec<Expr> = group.into_iter().map(|key| key.interned().stored()).collect();
    match keys.len() {
        1 => keys.remove(0),
        _ => ir::strct(keys),
    }
}

/// The keys of a dictionary's entry `e`; a `single` one is not in a struct.
fn keys_of(e: &Expr, nullable: &[bool], single: bool) -> Vec<Sql> {
    let key = ir::field(e.clone(), 0);
    let part = |index| if single { key.clone() } else { ir::field(key.clone(), index) };
    nullable.iter().enumerate().map(|(index, nullable)| Sql::load(part(index), *nullable)).collect()
}

/// The function that this is, by what it is: a user's may have any name.
fn known(function: &AggregateUDF) -> Option<Function> {
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
    if let Some(written) = function.downcast_ref::<WeldAggregate>().filter(|written| written.merged().is_some()) {
        return Some(Function::Written(Box::new(written.clone())));
    }
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
    !call.is_distinct()
        && known(call.fun()).is_some_and(|function| !matches!(function, Function::Statistic(_) | Function::Written(_)))
}

impl Call {
    fn of(call: &AggregateFunctionExpr, grouped: bool) -> Result<Call> {
        let no = |why: &str| Err(Unsupported::new(call.name(), why));
        if let Some((first_last, args)) = FirstLast::of(call) {
            let function = Function::FirstLast(Box::new(first_last));
            return Ok(Call { function, args, filter: None, offset: 0, output: 0..0 });
        }
        let Some(function) = known(call.fun()) else { return no("no lowering for this aggregate function") };
        if call.is_distinct() {
            return no("DISTINCT inside an aggregate");
        }
        if !call.order_bys().is_empty() && !matches!(function, Function::Written(_)) {
            return no("an ordered aggregate");
        }
        if grouped && function == Function::Statistic(Statistic::Correlation) {
            return no("DataFusion's state of a group's correlation is made of sums that cancel");
        }
        Ok(Call { function, args: call.expressions(), filter: None, offset: 0, output: 0..0 })
    }
}
