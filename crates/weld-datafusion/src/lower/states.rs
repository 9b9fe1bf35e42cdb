//! The states of aggregates: their fields, what a row merges into them, and what calls' results are made of.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::physical_expr::PhysicalExpr;
use weld_core::ir::{Expr, Literal, build as ir};
use weld_core::op::{BinaryOp, Intrinsic, MergeOp, ReduceOp, StructOp};
use weld_core::ty::{ScalarKind, Type};

use super::aggregate::{Call, Function};
use super::expr::{Scope, can_fail, lower};
use super::types::power_of_ten;
use super::{Block, Result, Sql, Unsupported};

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
}

/// The fields of a group's state, and what each row merges into them.
#[derive(Default)]
pub(super) struct States {
    /// Whether a group may have no rows, though there are groups.
    have_total: bool,
    keys: Vec<(State, Vec<Arc<dyn PhysicalExpr>>, Option<Arc<dyn PhysicalExpr>>)>,
    ops: Vec<MergeOp>,
    pub(super) values: Vec<Expr>,
}

/// Which state fields a call's output is made of.
pub(super) struct Output {
    function: Function,
    value: usize,
    /// The field that tells whether there was a value; absent if there is one in every group.
    any: Option<usize>,
    /// The count of an average.
    count: usize,
    sum_scale: i8,
    /// How an extreme lies in its field.
    extreme: Extreme,
    /// There are no groups.
    whole: bool,
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
            let part = |function, arg: usize| Call { function, args: vec![Arc::clone(&call.args[arg])], filter: None };
            let count = self.add(block, scope, &part(Function::Count, 0), true, false)?;
            let sum = self.add(block, scope, &part(Function::Sum, 1), true, false)?;
            return Ok(Output { function: Function::Avg, count: count.value, any: None, ..sum });
        }
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
        // A row counts if its arguments are there and the call's filter holds.
        let mut counts: Option<Expr> = None;
        let mut nullable_args = Vec::new();
        for (arg, expr) in args.iter().zip(&call.args) {
            if let Some(valid) = &arg.valid {
                nullable_args.push(expr.clone());
                counts = Some(counts.map_or(valid.clone(), |so_far| ir::and(so_far, valid.clone())));
            }
        }
        if let Some(passes) = passes {
            counts = Some(counts.map_or(passes.clone(), |so_far| ir::and(so_far, passes)));
        }
        let counts = counts.map(|counts| block.share("counts", counts));
        let (filter, exprs) = (call.filter.clone(), call.args.clone());
        let or_else = |value: Expr, otherwise: Expr| match &counts {
            Some(counts) => ir::select(counts.clone(), value, otherwise),
            None => value,
        };
        let mut output = Output {
            function: call.function,
            value: 0,
            any: None,
            count: 0,
            sum_scale: 0,
            extreme: Extreme::Plain,
            whole,
        };
        if call.function == Function::Count && merges {
            let [count] = &args[..] else { return Err(Unsupported::new("count", "not one state")) };
            let count = or_else(ir::cast(count.value.clone(), ScalarKind::I64), ir::i64(0));
            output.value = self.slot(State::Sum(ScalarKind::I64), exprs, filter, ADD, count);
            return Ok(output);
        }
        if call.function == Function::Count {
            let one = or_else(ir::i64(1), ir::i64(0));
            output.value = self.slot(State::Count, nullable_args, filter, ADD, one);
            return Ok(output);
        }
        if let Function::Statistic(statistic) = call.function {
            let moments = statistic.merged(&args, counts.as_ref(), merges)?;
            output.value = self.slot(State::Moments, exprs, filter, MergeOp::Struct(StructOp::Moments), moments);
            return Ok(output);
        }
        let [arg] = &args[..] else {
            return Err(Unsupported::new("aggregate", "not one argument"));
        };
        let arg_type = super::expr::data_type(scope, call.args[0].as_ref())?;
        let needs_any = whole || self.have_total || counts.is_some();
        let is_float = arg.value.ty.as_scalar().is_some_and(ScalarKind::is_float);
        if matches!(call.function, Function::Min | Function::Max) && (arg.value.ty.is_bytes() || is_float && !whole) {
            let is_min = call.function == Function::Min;
            let (state, op) = if is_min { (State::Min, StructOp::Least) } else { (State::Max, StructOp::Greatest) };
            let pair = ir::strct([counts.clone().unwrap_or_else(|| ir::bool(true)), arg.value.clone()]);
            output.value = self.slot(state, exprs, filter, MergeOp::Struct(op), pair);
            output.extreme = Extreme::Pair;
            output.any = needs_any.then_some(output.value);
            return Ok(output);
        }
        let Some(kind) = arg.value.ty.as_scalar() else {
            return Err(Unsupported::new("aggregate", format!("of the type {arg_type}")));
        };
        output.function = match (call.function, kind) {
            (Function::Min, ScalarKind::Bool) => Function::And,
            (Function::Max, ScalarKind::Bool) => Function::Or,
            (function, _) => function,
        };
        match output.function {
            Function::And => {
                let value = or_else(arg.value.clone(), all_ones(kind));
                output.value =
                    self.slot(State::And, exprs.clone(), filter.clone(), MergeOp::All(ReduceOp::BitAnd), value);
            }
            Function::Or => {
                let value = or_else(arg.value.clone(), ir::zero(&arg.value.ty));
                output.value =
                    self.slot(State::Or, exprs.clone(), filter.clone(), MergeOp::All(ReduceOp::BitOr), value);
            }
            Function::Xor => {
                let value = or_else(arg.value.clone(), ir::zero(&arg.value.ty));
                let op = MergeOp::All(ReduceOp::BitXor);
                output.value = self.slot(State::Xor, exprs.clone(), filter.clone(), op, value);
            }
            Function::Sum | Function::Avg if kind == ScalarKind::Bool => {
                return Err(Unsupported::new("aggregate", format!("of the type {arg_type}")));
            }
            Function::Sum | Function::Avg => {
                let sum_kind = match (call.function, kind) {
                    (Function::Sum, _) if matches!(arg_type, DataType::Decimal32(..)) => ScalarKind::I32,
                    (_, ScalarKind::I128) => ScalarKind::I128,
                    (_, kind) if merges => kind,
                    (_, kind) if kind.is_float() => ScalarKind::F64,
                    (Function::Avg, _) => return Err(Unsupported::new("avg", format!("of the type {arg_type}"))),
                    (_, kind) if kind.is_signed() => ScalarKind::I64,
                    _ => ScalarKind::U64,
                };
                let value = or_else(ir::cast(arg.value.clone(), sum_kind), ir::number(sum_kind, 0));
                output.value = self.slot(State::Sum(sum_kind), exprs.clone(), filter.clone(), ADD, value);
                if let DataType::Decimal128(precision, scale) = arg_type {
                    if call.function == Function::Avg && !merges && precision > AVG_DIGITS_MAX {
                        return Err(Unsupported::new("avg", "of decimals whose sum takes 256 bits"));
                    }
                    output.sum_scale = scale;
                }
            }
            _ => {
                let mut value = arg.value.clone();
                if kind.is_float() {
                    value = total_key(block, value);
                    output.extreme = Extreme::TotalKey;
                }
                let kind = value.ty.as_scalar().unwrap_or(kind);
                let is_min = call.function == Function::Min;
                let (state, op) = if is_min { (State::Min, ReduceOp::Min) } else { (State::Max, ReduceOp::Max) };
                let value = or_else(value, identity(kind, is_min));
                output.value = self.slot(state, exprs.clone(), filter.clone(), MergeOp::All(op), value);
            }
        }
        if call.function == Function::Avg {
            let one = or_else(ir::i64(1), ir::i64(0));
            output.count = self.slot(State::Count, nullable_args, filter, ADD, one);
        } else if needs_any {
            let here = counts.clone().unwrap_or_else(|| ir::bool(true));
            output.any = Some(self.slot(State::Any, nullable_args, filter, MergeOp::All(ReduceOp::BitOr), here));
        }
        Ok(output)
    }
}

/// The value of an aggregate's argument. Where the call's filter leaves a row out, nothing of it is evaluated that can
/// fail.
fn lower_where(
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
fn total_key(block: &mut Block<'_>, value: Expr) -> Expr {
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
fn all_ones(kind: ScalarKind) -> Expr {
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
        let value = ir::field(state.clone(), self.value);
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
        // The least, the greatest or the conjunction of nothing is the identity in the state, which is not what a null is stored as.
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

    /// The columns of DataFusion's intermediate state.
    pub(super) fn state(&self, state: &Expr) -> Vec<Sql> {
        if let Function::Statistic(statistic) = self.function {
            return statistic.state(&ir::field(state.clone(), self.value));
        }
        if self.function != Function::Avg {
            return vec![self.value(state)];
        }
        let count = ir::field(state.clone(), self.count);
        let any = ir::gt(count.clone(), ir::i64(0));
        // Of no values both are null, as DataFusion's are: its final aggregate takes a count of 0 for a group with values.
        let sum = Sql { value: ir::field(state.clone(), self.value), valid: Some(any.clone()) };
        vec![Sql { value: ir::cast(count, ScalarKind::U64), valid: Some(any) }, sum]
    }

    pub(super) fn result(
        &self,
        block: &mut Block<'_>,
        function: Function,
        state: &Expr,
        result_type: &DataType,
    ) -> Result<Sql> {
        if let Function::Statistic(statistic) = function {
            return statistic.result(block, &ir::field(state.clone(), self.value), self.whole);
        }
        if function != Function::Avg {
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
