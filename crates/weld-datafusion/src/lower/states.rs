//! The states of aggregates: their fields, what a row merges into them, and what calls' results are made of.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::physical_expr::PhysicalExpr;
use weld_core::ir::{Expr, Literal, build as ir};
use weld_core::op::{BinaryOp, Intrinsic, MergeOp, ReduceOp, StructOp};
use weld_core::ty::{ScalarKind, Type};

use super::aggregate::{Call, Function};
use super::expr::{Scope, can_fail, lower};
use super::first_last::{Chosen, FirstLast, Place};
use super::types::power_of_ten;
use super::{Block, Result, Sql, Unsupported};
use crate::function::aggregate::WeldAggregate;

/// DataFusion sums decimals of more digits in 256 bits to average them.
const AVG_DIGITS_MAX: u8 = 25;

/// What a state field accumulates; calls that need the same share it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Count,
    Sum(ScalarKind),
    Min,
    Max,
    And,
    Or,
    Xor,
    /// Of one column or two.
    Moments,
    /// Whether there was any value.
    Any,
    /// A field of a user's state; the address of its program.
    Written(usize, usize),
    /// The row that comes first; its number among such states.
    Chosen(usize),
}

/// The fields of a group's state, and what each row merges into them.
#[derive(Default)]
pub(super) struct States {
    /// Whether a group may have no rows, though there are groups.
    have_total: bool,
    keys: Vec<(State, Vec<Arc<dyn PhysicalExpr>>, Option<Arc<dyn PhysicalExpr>>)>,
    ops: Vec<MergeOp>,
    pub(super) values: Vec<Expr>,
    chosen: Vec<Chosen>,
}

/// Which state fields a call's output is made of.
pub(super) struct Output {
    function: Function,
    value: usize,
    /// The field that tells whether there was a value; absent if there is one in every group.
    any: Option<usize>,
    /// The count of an average, or of a sum with an offset.
    count: usize,
    /// What is added to each value of a sum.
    offset: i64,
    sum_scale: i8,
    /// How an extreme lies in its field.
    extreme: Extreme,
    /// There are no groups.
    whole: bool,
    /// Where the columns of a row that was chosen are, the value first.
    places: Vec<Place>,
}

/// How the least or greatest value lies in its state's field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Extreme {
    Plain,
    /// The key of a float in IEEE 754's total order.
    TotalKey,
    /// `{whether there is one, the value}`.
    Pair,
}

impl States {
    pub(super) fn new(have_total: bool) -> States {
        States { have_total, ..States::default() }
    }

    pub(super) fn op(&self) -> MergeOp {
        MergeOp::Fields(self.ops.iter().cloned().collect())
    }

    /// The states of no rows, of the dictionary `groups`.
    pub(super) fn identity(&self, groups: &Expr) -> Expr {
        let types = match &groups.ty {
            Type::Dict(_, states) => states.fields().unwrap_or_default(),
            _ => &[],
        };
        let field = |(op, ty): (&MergeOp, &Type)| match (op, ty.as_scalar()) {
            (MergeOp::All(ReduceOp::Min), Some(kind)) => identity(kind, true),
            (MergeOp::All(ReduceOp::Max), Some(kind)) => identity(kind, false),
            (MergeOp::All(ReduceOp::BitAnd), Some(kind)) => all_ones(kind),
            (MergeOp::All(ReduceOp::Mul), Some(kind)) => ir::number(kind, 1),
            (MergeOp::Struct(op @ (StructOp::Least | StructOp::Greatest)), _) => absent(ty, *op == StructOp::Least),
            _ => ir::zero(ty),
        };
        ir::strct(self.ops.iter().zip(types).map(field))
    }

    /// A state of groups of which nothing else is asked: a dictionary's values need one field.
    pub(super) fn add_any(&mut self) {
        self.slot(State::Any, vec![], None, MergeOp::All(ReduceOp::BitOr), ir::bool(true));
    }

    fn slot(
        &mut self,
        state: State,
        args: Vec<Arc<dyn PhysicalExpr>>,
        filter: Option<Arc<dyn PhysicalExpr>>,
        op: MergeOp,
        value: Expr,
    ) -> usize {
        let key = (state, args, filter);
        if let Some(index) = self.keys.iter().position(|known| *known == key) {
            return index;
        }
        self.keys.push(key);
        self.ops.push(op);
        self.values.push(value);
        self.keys.len() - 1
    }

    /// Adds a call's states. `whole` if there is one group that may have no rows.
    pub(super) fn add(
        &mut self,
        block: &mut Block<'_>,
        scope: &Scope<'_>,
        call: &Call,
        merges: bool,
        whole: bool,
    ) -> Result<Output> {
        if merges && call.function == Function::Avg {
            let part =
                |function, arg: usize| Call { function, args: vec![Arc::clone(&call.args[arg])], ..call.clone() };
            let count = self.add(block, scope, &part(Function::Count, 0), true, false)?;
            let sum = self.add(block, scope, &part(Function::Sum, 1), true, false)?;
            return Ok(Output { function: Function::Avg, count: count.value, any: None, ..sum });
        }
        let row = Row::of(block, scope, call, merges, whole)?;
        match &call.function {
            Function::Count => self.add_count(&row),
            Function::Statistic(statistic) => {
                let moments = statistic.merged(&row.args, row.counts.as_ref(), merges)?;
                let value = self.slot_of(State::Moments, &row, MergeOp::Struct(StructOp::Moments), moments);
                Ok(row.output(value))
            }
            Function::Sum | Function::Avg => self.add_sum(&row),
            Function::Min | Function::Max => self.add_extreme(block, &row),
            Function::And | Function::Or | Function::Xor => self.add_bits(call.function.clone(), &row),
            Function::Written(written) => self.add_written(block, &row, written),
            Function::FirstLast(first_last) => self.add_first_last(block, &row, first_last),
        }
    }

    fn add_first_last(&mut self, block: &mut Block<'_>, row: &Row<'_>, of: &FirstLast) -> Result<Output> {
        let ([value, ..], args) = (&row.args[..], &row.call.args[..]) else {
            return Err(Unsupported::new("aggregate", "of nothing"));
        };
        if Chosen::find(&mut self.chosen, of, &args[0]).is_none() {
            let there = row.counts.clone().unwrap_or_else(|| ir::bool(true));
            let start = of.start(block, &row.args, there, row.whole)?;
            let slot = self.slot(State::Chosen(self.chosen.len()), vec![], None, start.op, start.value);
            self.chosen.push(Chosen::new(of, &args[0], slot, start.order));
        }
        let chosen = Chosen::find(&mut self.chosen, of, &args[0]);
        let chosen = chosen.ok_or_else(|| Unsupported::new("aggregate", "of a state that is not there"))?;
        let slot = chosen.slot();
        let places = chosen.places(of, (args, value), &mut self.values[slot])?;
        let any = self.needs_any(row).then_some(slot);
        Ok(Output { any, places, ..row.output(slot) })
    }

    /// What a row, or a state, gives for each field of a user's state, if it counts; else what its operator leaves out.
    fn add_written(&mut self, block: &mut Block<'_>, row: &Row<'_>, written: &WeldAggregate) -> Result<Output> {
        let none = || Unsupported::new(written.name(), "no builder has it");
        let merged = written.merged().ok_or_else(none)?;
        let initial = merged.initial().ok_or_else(none)?;
        let args: Vec<Expr> = row.args.iter().map(|arg| arg.value.clone()).collect();
        let given = match row.merges {
            true => ir::strct(args),
            false => {
                let env = &mut *block.env;
                env.sources.call(&merged.row, args, &mut env.names)
            }
        };
        if given.ty != initial.ty {
            return Err(Unsupported::new(written.name(), format!("{} in place of {}", given.ty, initial.ty)));
        }
        let given = match &row.counts {
            Some(counts) => ir::if_(counts.clone(), given, initial),
            None => given,
        };
        let given = block.share("given", given);
        let address = std::ptr::from_ref(merged).addr();
        // One after the other, also where another call has them already.
        let mut first = None;
        for (index, (_, op)) in merged.fields.iter().enumerate() {
            let field = ir::field(given.clone(), index);
            let slot = self.slot_of(State::Written(address, index), row, MergeOp::All(*op), field);
            first.get_or_insert(slot);
        }
        let first = first.ok_or_else(none)?;
        Ok(Output { any: self.any_of(row), ..row.output(first) })
    }

    fn add_count(&mut self, row: &Row<'_>) -> Result<Output> {
        if !row.merges {
            let value = self.count_of(row);
            return Ok(row.output(value));
        }
        let [count] = &row.args[..] else { return Err(Unsupported::new("count", "not one state")) };
        let count = row.or_else(ir::cast(count.value.clone(), ScalarKind::I64), ir::i64(0));
        let value = self.slot_of(State::Sum(ScalarKind::I64), row, ADD, count);
        Ok(row.output(value))
    }

    fn add_sum(&mut self, row: &Row<'_>) -> Result<Output> {
        let (arg, arg_type, kind) = row.scalar()?;
        let sum_kind = match (&row.call.function, kind) {
            (_, ScalarKind::Bool) => return Err(Unsupported::new("aggregate", "of the type Boolean")),
            (Function::Sum, _) if matches!(arg_type, DataType::Decimal32(..)) => ScalarKind::I32,
            (_, ScalarKind::I128) => ScalarKind::I128,
            (_, kind) if row.merges => kind,
            (_, kind) if kind.is_float() => ScalarKind::F64,
            (Function::Avg, _) => return Err(Unsupported::new("avg", format!("of the type {arg_type}"))),
            (_, kind) if kind.is_signed() => ScalarKind::I64,
            _ => ScalarKind::U64,
        };
        let value = row.or_else(ir::cast(arg, sum_kind), ir::number(sum_kind, 0));
        let value = self.slot_of(State::Sum(sum_kind), row, ADD, value);
        let mut output = Output { offset: row.call.offset, ..row.output(value) };
        if let DataType::Decimal128(precision, scale) = arg_type {
            if row.call.function == Function::Avg && !row.merges && *precision > AVG_DIGITS_MAX {
                return Err(Unsupported::new("avg", "of decimals whose sum takes 256 bits"));
            }
            output.sum_scale = *scale;
        }
        if row.call.function == Function::Avg || output.offset != 0 {
            output.count = self.count_of(row);
        }
        if row.call.function == Function::Sum {
            output.any = self.any_of(row);
        }
        Ok(output)
    }

    fn add_extreme(&mut self, block: &mut Block<'_>, row: &Row<'_>) -> Result<Output> {
        let is_min = row.call.function == Function::Min;
        let state = if is_min { State::Min } else { State::Max };
        let [arg] = &row.args[..] else { return Err(Unsupported::new("aggregate", "not one argument")) };
        let kind = arg.value.ty.as_scalar();
        let is_float = kind.is_some_and(ScalarKind::is_float);
        if arg.value.ty.is_bytes() || is_float && !row.whole {
            let op = if is_min { StructOp::Least } else { StructOp::Greatest };
            let there = row.counts.clone().unwrap_or_else(|| ir::bool(true));
            let value = self.slot_of(state, row, MergeOp::Struct(op), ir::strct([there, arg.value.clone()]));
            let any = self.needs_any(row).then_some(value);
            return Ok(Output { extreme: Extreme::Pair, any, ..row.output(value) });
        }
        let (mut arg, _, kind) = row.scalar()?;
        if kind == ScalarKind::Bool {
            return self.add_bits(if is_min { Function::And } else { Function::Or }, row);
        }
        let mut extreme = Extreme::Plain;
        if is_float {
            (arg, extreme) = (total_key(block, arg), Extreme::TotalKey);
        }
        let identity = identity(arg.ty.as_scalar().unwrap_or(kind), is_min);
        let op = if is_min { ReduceOp::Min } else { ReduceOp::Max };
        let value = self.slot_of(state, row, MergeOp::All(op), row.or_else(arg, identity));
        Ok(Output { extreme, any: self.any_of(row), ..row.output(value) })
    }

    fn add_bits(&mut self, function: Function, row: &Row<'_>) -> Result<Output> {
        let (arg, _, kind) = row.scalar()?;
        let zero = ir::zero(&arg.ty);
        let (state, op, identity) = match function {
            Function::And => (State::And, ReduceOp::BitAnd, all_ones(kind)),
            Function::Or => (State::Or, ReduceOp::BitOr, zero),
            _ => (State::Xor, ReduceOp::BitXor, zero),
        };
        let value = self.slot_of(state, row, MergeOp::All(op), row.or_else(arg, identity));
        Ok(Output { function, any: self.any_of(row), ..row.output(value) })
    }

    /// The slot of a state of a call's arguments.
    fn slot_of(&mut self, state: State, row: &Row<'_>, op: MergeOp, value: Expr) -> usize {
        self.slot(state, row.call.args.clone(), row.call.filter.clone(), op, value)
    }

    /// The count of a call's rows.
    fn count_of(&mut self, row: &Row<'_>) -> usize {
        let one = row.or_else(ir::i64(1), ir::i64(0));
        self.slot(State::Count, row.nullable_args.clone(), row.call.filter.clone(), ADD, one)
    }

    /// Whether a group may have no value.
    fn needs_any(&self, row: &Row<'_>) -> bool {
        row.whole || self.have_total || row.counts.is_some()
    }

    /// Whether there is one of a call's rows, where there may be none.
    fn any_of(&mut self, row: &Row<'_>) -> Option<usize> {
        let here = row.counts.clone().unwrap_or_else(|| ir::bool(true));
        let op = MergeOp::All(ReduceOp::BitOr);
        let args = row.nullable_args.clone();
        self.needs_any(row).then(|| self.slot(State::Any, args, row.call.filter.clone(), op, here))
    }
}

/// What a call makes of a row.
struct Row<'a> {
    call: &'a Call,
    args: Vec<Sql>,
    arg_type: Option<DataType>,
    nullable_args: Vec<Arc<dyn PhysicalExpr>>,
    /// Whether the row counts: its arguments are there and the call's filter holds. Absent if every row does.
    counts: Option<Expr>,
    merges: bool,
    whole: bool,
}

impl<'a> Row<'a> {
    fn of(block: &mut Block<'_>, scope: &Scope<'_>, call: &'a Call, merges: bool, whole: bool) -> Result<Row<'a>> {
        let passes = match &call.filter {
            Some(filter) => {
                let passes = lower(block, scope, filter)?.value;
                Some(block.share("passes", passes))
            }
            None => None,
        };
        // DataFusion filters the rows before it evaluates arguments only where there are no groups.
        let evaluated = passes.as_ref().filter(|_| whole);
        let lower_arg = |arg| lower_where(block, scope, arg, evaluated);
        let args = call.args.iter().map(lower_arg).collect::<Result<Vec<_>>>()?;
        if call.function == Function::Count {
            args.iter().for_each(|arg| drop(block.validity(arg.clone())));
        }
        let with_args = || args.iter().zip(&call.args);
        let nullable_args = with_args().filter(|(arg, _)| arg.valid.is_some()).map(|(_, expr)| expr.clone()).collect();
        let conditions = match &call.function {
            Function::FirstLast(first_last) => first_last.conditions(&args, merges),
            _ => args.iter().filter_map(|arg| arg.valid.clone()).collect(),
        };
        let counts = conditions.into_iter().chain(passes).reduce(ir::and).map(|counts| block.share("counts", counts));
        let arg_type = call.args.first().map(|arg| super::expr::data_type(scope, arg.as_ref())).transpose()?;
        Ok(Row { call, args, arg_type, nullable_args, counts, merges, whole })
    }

    /// The one argument, which is a number or a truth value, and its types.
    fn scalar(&self) -> Result<(Expr, &DataType, ScalarKind)> {
        let ([arg], Some(arg_type)) = (&self.args[..], &self.arg_type) else {
            return Err(Unsupported::new("aggregate", "not one argument"));
        };
        match arg.value.ty.as_scalar() {
            Some(kind) => Ok((arg.value.clone(), arg_type, kind)),
            None => Err(Unsupported::new("aggregate", format!("of the type {arg_type}"))),
        }
    }

    /// The value of a row that counts.
    fn or_else(&self, value: Expr, otherwise: Expr) -> Expr {
        match &self.counts {
            Some(counts) => ir::select(counts.clone(), value, otherwise),
            None => value,
        }
    }

    /// An output of one field.
    fn output(&self, value: usize) -> Output {
        Output {
            function: self.call.function.clone(),
            value,
            any: None,
            count: 0,
            offset: 0,
            sum_scale: 0,
            extreme: Extreme::Plain,
            whole: self.whole,
            places: Vec::new(),
        }
    }
}

/// The value of an aggregate's argument. Where filters leave a row out, nothing of it is evaluated that can fail.
pub(super) fn lower_where(
    block: &mut Block<'_>,
    scope: &Scope<'_>,
    arg: &Arc<dyn PhysicalExpr>,
    passes: Option<&Expr>,
) -> Result<Sql> {
    let Some(passes) = passes else { return lower(block, scope, arg) };
    let mut nullable = false;
    let whole = block.nested(|inner| {
        let sql = lower(inner, scope, arg)?;
        nullable = sql.valid.is_some();
        Ok(sql.stored())
    })?;
    if !can_fail(&whole) {
        return lower(block, scope, arg);
    }
    let zero = ir::zero(&whole.ty);
    let value = block.share("arg", ir::if_(passes.clone(), whole, zero));
    Ok(Sql::load(value, nullable))
}

const ADD: MergeOp = MergeOp::All(ReduceOp::Add);

/// A key that orders floats as IEEE 754's total order does: the order key, of which -0.0 has the one below that of 0.0,
/// which is free.
pub(super) fn total_key(block: &mut Block<'_>, value: Expr) -> Expr {
    let value = block.share("x", value);
    let zero = || ir::zero(&value.ty);
    let one = ir::cast(ir::f64(1.0), value.ty.as_scalar().unwrap_or(ScalarKind::F64));
    let is_zero = ir::binary(BinaryOp::Eq, value.clone(), zero());
    let negative = ir::binary(BinaryOp::Lt, ir::div(one, value.clone()), zero());
    let key = ir::intrinsic(Intrinsic::OrderKey, [value.clone()]);
    let below = ir::number(key.ty.as_scalar().unwrap_or(ScalarKind::I64), -1);
    ir::select(ir::and(is_zero, negative), below, key)
}

/// Whether there are byte vectors among states of these types, which only a table can hold.
pub(super) fn needs_memory(states: &Type) -> bool {
    states.is_bytes() || states.fields().is_some_and(|fields| fields.iter().any(needs_memory))
}

/// What a `least` or `greatest` state of no rows is.
fn absent(ty: &Type, least: bool) -> Expr {
    let value = match ty.fields() {
        Some([_, of]) => match of.as_scalar() {
            Some(ScalarKind::F32) => ir::lit(Literal::F32(if least { f32::MAX } else { f32::MIN })),
            Some(_) => ir::f64(if least { f64::MAX } else { f64::MIN }),
            None => ir::zero(of),
        },
        _ => return ir::zero(ty),
    };
    ir::strct([ir::bool(false), value])
}

/// The value that a conjunction leaves out.
pub(super) fn all_ones(kind: ScalarKind) -> Expr {
    match kind {
        ScalarKind::Bool => ir::bool(true),
        kind if kind.is_signed() => ir::number(kind, -1),
        kind => identity(kind, true),
    }
}

/// The value that `min` or `max` leaves out.
fn identity(kind: ScalarKind, is_min: bool) -> Expr {
    let bits = kind.bits();
    let value = match (kind.is_signed(), is_min) {
        (true, true) => i128::MAX >> (128 - bits),
        (true, false) => i128::MIN >> (128 - bits),
        (false, true) => (1i128 << bits) - 1,
        (false, false) => 0,
    };
    ir::number(kind, value)
}

impl Output {
    /// The value so far, null where there was none.
    fn value(&self, state: &Expr) -> Sql {
        let mut value = ir::field(state.clone(), self.value);
        if self.offset != 0 {
            value = ir::add(value, ir::mul(ir::field(state.clone(), self.count), ir::i64(self.offset)));
        }
        if self.extreme == Extreme::Pair {
            let (there, value) = (ir::field(value.clone(), 0), ir::field(value, 1));
            let valid = self.any.map(|_| there.clone());
            // A float starts from one that is no null's.
            let is_float = value.ty.as_scalar().is_some() && valid.is_some();
            let value = if is_float { ir::select(there, value.clone(), ir::zero(&value.ty)) } else { value };
            return Sql { value, valid };
        }
        let Some(any) = self.any else { return Sql::required(value) };
        let any = ir::field(state.clone(), any);
        // The least, the greatest or the conjunction of nothing is the identity in the state, which is not what a null
        // is stored as.
        let value = match self.function {
            Function::Min | Function::Max | Function::And => {
                ir::select(any.clone(), value.clone(), ir::zero(&value.ty))
            }
            _ => value,
        };
        let is_key = self.extreme == Extreme::TotalKey;
        let value = if is_key { ir::intrinsic(Intrinsic::FromOrderKey, [value]) } else { value };
        Sql { value, valid: Some(any) }
    }

    /// The fields of a user's state, null where there was no row.
    fn written(&self, written: &WeldAggregate, state: &Expr) -> Vec<Sql> {
        let fields = written.merged().map_or(0, |merged| merged.fields.len());
        let field = |index| Sql {
            value: ir::field(state.clone(), self.value + index),
            valid: self.any.map(|any| ir::field(state.clone(), any)),
        };
        (0..fields).map(field).collect()
    }

    /// The columns of a row that was chosen: its value and those of its order.
    fn chosen<'a>(&'a self, state: &Expr, keys: &'a [Sql]) -> impl Iterator<Item = Result<Sql>> + 'a {
        let chosen = ir::field(state.clone(), self.value);
        self.places.iter().map(move |place| place.value(&chosen, keys, self.any.is_some()))
    }

    /// The columns of DataFusion's intermediate state, of a group with these `keys`.
    pub(super) fn state(&self, state: &Expr, keys: &[Sql]) -> Result<Vec<Sql>> {
        match &self.function {
            Function::Statistic(statistic) => return Ok(statistic.state(&ir::field(state.clone(), self.value))),
            Function::Written(written) => return Ok(self.written(written, state)),
            Function::FirstLast(_) => {
                let is_set = Sql::required(ir::field(ir::field(state.clone(), self.value), 0));
                return self.chosen(state, keys).chain([Ok(is_set)]).collect();
            }
            _ => {}
        }
        if self.function != Function::Avg {
            return Ok(vec![self.value(state)]);
        }
        let count = ir::field(state.clone(), self.count);
        let any = ir::gt(count.clone(), ir::i64(0));
        // Of no values both are null, as DataFusion's are: its final aggregate takes a count of 0 for a group with
        // values.
        let sum = Sql { value: ir::field(state.clone(), self.value), valid: Some(any.clone()) };
        Ok(vec![Sql { value: ir::cast(count, ScalarKind::U64), valid: Some(any) }, sum])
    }

    pub(super) fn result(
        &self,
        block: &mut Block<'_>,
        function: &Function,
        (state, keys): (&Expr, &[Sql]),
        result_type: &DataType,
    ) -> Result<Sql> {
        match function {
            Function::Statistic(statistic) => {
                return statistic.result(block, &ir::field(state.clone(), self.value), self.whole);
            }
            Function::Written(written) => {
                let fields = self.written(written, state);
                let valid = fields.first().and_then(|field| field.valid.clone());
                return written.result_of(block, fields.into_iter().map(|field| field.value), valid);
            }
            Function::FirstLast(_) => {
                let value = self.chosen(state, keys).next();
                return value.unwrap_or_else(|| Err(Unsupported::new("aggregate", "of nothing")));
            }
            _ => {}
        }
        if *function != Function::Avg {
            return Ok(self.value(state));
        }
        let count = ir::field(state.clone(), self.count);
        let sum = ir::field(state.clone(), self.value);
        let any = block.share("any", ir::gt(count.clone(), ir::i64(0)));
        let mean = match result_type {
            DataType::Decimal128(precision, scale) => {
                let power = power_of_ten(
                    u32::try_from(scale - self.sum_scale)
                        .map_err(|_| Unsupported::new("avg", "its scale is less than the sum's"))?,
                )?;
                let limit = power_of_ten(u32::from(*precision))?;
                let within = |value: &Expr, least: i128, greatest: i128| {
                    let fits =
                        ir::and(ir::le(value.clone(), ir::i128(greatest)), ir::ge(value.clone(), ir::i128(least)));
                    ir::assert(fits, "Arithmetic Overflow in AvgAccumulator")
                };
                block.nested(|inner| {
                    let fits = within(&sum, i128::MIN / power, i128::MAX / power);
                    let scaled = ir::if_(fits, ir::mul(sum, ir::i128(power)), ir::i128(0));
                    let mean = inner.share("mean", ir::div(scaled, ir::cast(count, ScalarKind::I128)));
                    Ok(ir::if_(within(&mean, 1 - limit, limit - 1), mean, ir::i128(0)))
                })?
            }
            DataType::Float64 => ir::div(sum, ir::cast(count, ScalarKind::F64)),
            other => return Err(Unsupported::new("avg", format!("of the type {other}"))),
        };
        let zero = ir::zero(&mean.ty);
        let value = block.share("average", ir::if_(any.clone(), mean, zero));
        Ok(Sql { value, valid: Some(any) })
    }
}
