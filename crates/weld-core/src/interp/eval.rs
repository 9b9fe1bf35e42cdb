//! Evaluation of expressions, one function for each group of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::compare::compare;
use super::iter::Source;
use super::memory::{Charge, Meter};
use super::value::{Value, Vector};
use super::{Host, LANES, Limits, intrinsic, scalar, serialize, sort};
use crate::builder::{Failure, Handle, State};
use crate::diag::Span;
use crate::ir::{Expr, ExprKind, Func, Iter, Literal, Program};
use crate::op::{BinaryOp, UnaryOp};
use crate::runtime_error::{RuntimeError, RuntimeErrorKind, filled};
use crate::ty::{ScalarKind, Type};

type Outcome = Result<Value, RuntimeError>;

/// Stack that one level of evaluation may need, and how much is added when it runs short.
const RED_ZONE: usize = 256 << 10;
const STACK_SEGMENT: usize = 4 << 20;

/// One run: the variables and what has been used of the limits.
pub(super) struct Run<'a> {
    /// The value of every symbol in scope. Symbols are unique, so scopes need no stack.
    variables: Vec<Option<Value>>,
    meter: Arc<Meter>,
    limits: &'a Limits,
    steps: u64,
    host: &'a dyn Host,
}

impl<'a> Run<'a> {
    pub(super) fn new(program: &Program, args: &[Value], limits: &'a Limits, host: &'a dyn Host) -> Run<'a> {
        let mut variables = vec![None; program.names.len()];
        for (param, arg) in program.params.iter().zip(args) {
            let slot = param.sym.0 as usize;
            if slot >= variables.len() {
                variables.resize(slot + 1, None);
            }
            variables[slot] = Some(arg.clone());
        }
        Run { variables, meter: Meter::new(limits.memory), limits, steps: 0, host }
    }

    pub(super) fn run(mut self, body: &Expr) -> Outcome {
        self.eval(body)
    }

    fn eval(&mut self, expr: &Expr) -> Outcome {
        stacker::maybe_grow(RED_ZONE, STACK_SEGMENT, || self.eval_kind(expr))
    }

    fn eval_kind(&mut self, expr: &Expr) -> Outcome {
        let span = expr.span;
        match &expr.kind {
            ExprKind::Literal(literal) => Ok(Value::Scalar(*literal)),
            ExprKind::Bytes(bytes) => self.bytes(bytes, &expr.ty, span),
            ExprKind::Var(sym) => {
                let value = self.variables.get(sym.0 as usize).cloned().flatten();
                value.ok_or_else(|| broken(span, "a variable has no value"))
            }
            ExprKind::Let { bindings, body } => {
                for binding in bindings {
                    let value = self.eval(&binding.value)?;
                    self.set(binding.sym.0, value);
                }
                let result = self.eval(body);
                for binding in bindings {
                    self.variables[binding.sym.0 as usize] = None;
                }
                result
            }
            ExprKind::Unary(op, operand) => {
                let operand = self.eval(operand)?;
                unary(*op, &operand).ok_or_else(|| broken(span, "an operator does not take its operand"))
            }
            ExprKind::Binary(op, a, b) => self.binary(*op, a, b, span),
            ExprKind::Cast(operand) => self.cast(operand, &expr.ty, span),
            ExprKind::If { cond, on_true, on_false } => {
                let cond = self.eval_bool(cond)?;
                self.eval(if cond { on_true } else { on_false })
            }
            ExprKind::Select { cond, on_true, on_false } => {
                let (cond, on_true, on_false) = (self.eval(cond)?, self.eval(on_true)?, self.eval(on_false)?);
                select(&cond, on_true, on_false).ok_or_else(|| broken(span, "select does not take its operands"))
            }
            ExprKind::Struct(fields) => {
                let fields: Result<_, RuntimeError> = fields.iter().map(|field| self.eval(field)).collect();
                Ok(Value::Struct(fields?))
            }
            ExprKind::Field(data, index) => match self.eval(data)? {
                Value::Struct(fields) if (*index as usize) < fields.len() => Ok(fields[*index as usize].clone()),
                _ => Err(broken(span, "a field of what has no such field")),
            },
            ExprKind::Vector(items) => {
                let items: Result<Vec<Value>, RuntimeError> = items.iter().map(|item| self.eval(item)).collect();
                self.vector(items?, span)
            }
            ExprKind::Broadcast(operand) => match self.eval(operand)? {
                Value::Scalar(literal) => Ok(Value::Simd([literal; LANES].into())),
                _ => Err(broken(span, "broadcast of what is no scalar")),
            },
            ExprKind::Len(_)
            | ExprKind::Lookup { .. }
            | ExprKind::OptLookup { .. }
            | ExprKind::KeyExists { .. }
            | ExprKind::Slice { .. }
            | ExprKind::Sort { .. }
            | ExprKind::ToVec(_)
            | ExprKind::Update { .. } => self.collection(expr),
            ExprKind::NewBuilder { .. }
            | ExprKind::Merge { .. }
            | ExprKind::For { .. }
            | ExprKind::Result(_)
            | ExprKind::Iterate { .. } => self.loops_and_builders(expr),
            ExprKind::Serialize(_)
            | ExprKind::Deserialize(_)
            | ExprKind::CUdf { .. }
            | ExprKind::Intrinsic(..)
            | ExprKind::Assert { .. } => self.call(expr),
        }
    }

    // ---- scalars

    fn binary(&mut self, op: BinaryOp, a: &Expr, b: &Expr, span: Span) -> Outcome {
        let left = self.eval(a)?;
        match (op, &left) {
            (BinaryOp::And, Value::Scalar(Literal::Bool(false)))
            | (BinaryOp::Or, Value::Scalar(Literal::Bool(true))) => {
                return Ok(left);
            }
            _ => {}
        }
        let right = self.eval(b)?;
        match (&left, &right) {
            (Value::Scalar(a), Value::Scalar(b)) => {
                scalar::binary(op, *a, *b).map(Value::Scalar).map_err(|kind| fail(span, (kind, [0, 0])))
            }
            (Value::Simd(a), Value::Simd(b)) => {
                let lanes: Result<_, _> = a.iter().zip(b.iter()).map(|(a, b)| scalar::binary(op, *a, *b)).collect();
                lanes.map(Value::Simd).map_err(|kind| fail(span, (kind, [0, 0])))
            }
            _ if op.is_comparison() => Ok(Value::bool(scalar::holds(op, compare(&left, &right)))),
            _ => Err(broken(span, "an operator does not take its operands")),
        }
    }

    fn cast(&mut self, operand: &Expr, ty: &Type, span: Span) -> Outcome {
        match (self.eval(operand)?, ty) {
            (Value::Scalar(literal), Type::Scalar(kind)) => Ok(Value::Scalar(scalar::cast(literal, *kind))),
            (Value::Simd(lanes), Type::Simd(kind)) => {
                Ok(Value::Simd(lanes.iter().map(|lane| scalar::cast(*lane, *kind)).collect()))
            }
            _ => Err(broken(span, "cast of what is no scalar")),
        }
    }

    // ---- collections

    fn collection(&mut self, expr: &Expr) -> Outcome {
        let span = expr.span;
        match &expr.kind {
            ExprKind::Len(data) => Ok(Value::i64(self.eval_vec(data)?.len() as i64)),
            ExprKind::Lookup { data, key, .. } => match (self.eval(data)?, self.eval(key)?) {
                (Value::Vec(items), Value::Scalar(Literal::I64(index))) => {
                    let at = in_range(index, items.len()).map_err(|failure| fail(span, failure))?;
                    Ok(items[at].clone())
                }
                (Value::Dict(dict), key) => {
                    let missing = || fail(span, (RuntimeErrorKind::KeyNotFound, [0, 0]));
                    dict.get(&key).cloned().ok_or_else(missing)
                }
                _ => Err(broken(span, "lookup in what is no collection")),
            },
            ExprKind::OptLookup { data, key } => {
                let (data, key) = (self.eval(data)?, self.eval(key)?);
                let Value::Dict(dict) = data else { return Err(broken(span, "optlookup in what is no dictionary")) };
                let zero = || expr.ty.fields().and_then(|fields| Value::zero(fields.get(1)?));
                let value = dict.get(&key).cloned();
                let found = Value::bool(value.is_some());
                let value = value.or_else(zero).ok_or_else(|| broken(span, "optlookup of a builder"))?;
                Ok(Value::structure([found, value]))
            }
            ExprKind::KeyExists { data, key } => match (self.eval(data)?, self.eval(key)?) {
                (Value::Dict(dict), key) => Ok(Value::bool(dict.get(&key).is_some())),
                _ => Err(broken(span, "keyexists in what is no dictionary")),
            },
            ExprKind::Slice { data, start, size } => {
                let (data, start, size) = (self.eval_vec(data)?, self.eval_i64(start)?, self.eval_i64(size)?);
                let len = data.len();
                if start < 0 || start > len as i64 {
                    return Err(fail(span, (RuntimeErrorKind::BadSlice, [start, len as i64])));
                }
                if size < 0 {
                    return Err(fail(span, (RuntimeErrorKind::BadSlice, [size, -1])));
                }
                let start = start as usize;
                let end = len.min(start.saturating_add(size as usize));
                self.vector(data[start..end].to_vec(), span)
            }
            ExprKind::Sort { data, compare } => {
                let mut items = self.eval_vec(data)?.to_vec();
                let [(left, _), (right, _)] = &compare.params[..] else {
                    return Err(broken(span, "a comparator takes two"));
                };
                sort::merge_sort(&mut items, &mut |a, b| {
                    self.step(span)?;
                    self.set(left.0, a.clone());
                    self.set(right.0, b.clone());
                    match self.eval(&compare.body)? {
                        Value::Scalar(Literal::I32(order)) => Ok(order > 0),
                        _ => Err(broken(span, "a comparator gives i32")),
                    }
                })?;
                self.vector(items, span)
            }
            ExprKind::ToVec(data) => match self.eval(data)? {
                Value::Dict(dict) => {
                    let pairs = dict.iter().map(|(key, value)| Value::structure([key.clone(), value.clone()]));
                    self.vector(pairs.collect(), span)
                }
                _ => Err(broken(span, "tovec of what is no dictionary")),
            },
            ExprKind::Update { data, index, value } => {
                let (data, index, value) = (self.eval_vec(data)?, self.eval_i64(index)?, self.eval(value)?);
                let at = in_range(index, data.len()).map_err(|failure| fail(span, failure))?;
                let mut items = data.to_vec();
                items[at] = value;
                self.vector(items, span)
            }
            _ => Err(broken(span, "no collection operation")),
        }
    }

    // ---- loops and builders

    fn loops_and_builders(&mut self, expr: &Expr) -> Outcome {
        let span = expr.span;
        match &expr.kind {
            ExprKind::NewBuilder { arg } => {
                let arg = arg.as_ref().map(|arg| self.eval(arg)).transpose()?;
                let Type::Builder(ty) = &expr.ty else { return Err(broken(span, "a new builder of no builder type")) };
                let state = State::new(ty, arg, Charge::new(&self.meter)).map_err(|failure| fail(span, failure))?;
                Ok(Value::Builder(Handle::new(state)))
            }
            ExprKind::Merge { builder, value } => {
                let Type::Builder(ty) = &builder.ty else { return Err(broken(span, "merge into no builder")) };
                let (target, merged) = (self.eval(builder)?, self.eval(value)?);
                let Value::Builder(handle) = &target else { return Err(broken(span, "merge into no builder")) };
                let mut state = handle.lock();
                for part in lanes_to_merge(merged, &ty.merge_type()) {
                    state.merge(part).map_err(|failure| fail(span, failure))?;
                }
                drop(state);
                Ok(target)
            }
            ExprKind::For { iter, builder, func } => self.for_loop(iter, builder, func, span),
            ExprKind::Result(builder) => match self.eval(builder)? {
                Value::Builder(handle) => handle.lock().finish().map_err(|failure| fail(span, failure)),
                _ => Err(broken(span, "result of no builder")),
            },
            ExprKind::Iterate { init, step } => {
                let mut state = self.eval(init)?;
                let [(param, _)] = &step.params[..] else { return Err(broken(span, "a step takes one")) };
                loop {
                    self.step(span)?;
                    self.set(param.0, state);
                    match self.eval(&step.body)? {
                        Value::Struct(parts) => match &parts[..] {
                            [next, Value::Scalar(Literal::Bool(true))] => state = next.clone(),
                            [last, Value::Scalar(Literal::Bool(false))] => return Ok(last.clone()),
                            _ => return Err(broken(span, "a step gives {T, bool}")),
                        },
                        _ => return Err(broken(span, "a step gives {T, bool}")),
                    }
                }
            }
            _ => Err(broken(span, "no loop and no builder")),
        }
    }

    fn for_loop(&mut self, iter: &Iter, builder: &Expr, func: &Func, span: Span) -> Outcome {
        let source = self.source(iter, span)?;
        let mut builder = self.eval(builder)?;
        let [(b, _), (index, _), (element, _)] = &func.params[..] else {
            return Err(broken(span, "an update function takes three"));
        };
        for i in 0..source.len() {
            self.step(span)?;
            self.set(b.0, builder);
            self.set(index.0, Value::i64(i as i64));
            let value = source.get(i).ok_or_else(|| broken(span, "simditer over what is no scalar"))?;
            self.set(element.0, value);
            builder = self.eval(&func.body)?;
        }
        Ok(builder)
    }

    /// Evaluates an iterator; its errors carry the span of the loop.
    fn source(&mut self, iter: &Iter, span: Span) -> Result<Source, RuntimeError> {
        let source = match iter {
            Iter::Vector(data) => Ok(Source::Vector(self.eval_vec(data)?)),
            Iter::Simd(data) => Ok(Source::Simd(self.eval_vec(data)?)),
            Iter::Fringe(data) => Ok(Source::Fringe(self.eval_vec(data)?)),
            Iter::Strided { data, start, end, stride } => {
                let data = self.eval_vec(data)?;
                Source::strided(data, self.eval_i64(start)?, self.eval_i64(end)?, self.eval_i64(stride)?)
            }
            Iter::Range { start, end, stride } => {
                Source::range(self.eval_i64(start)?, self.eval_i64(end)?, self.eval_i64(stride)?)
            }
            Iter::Nd { data, start, end, stride, shape, strides } => {
                let data = self.eval_vec(data)?;
                let mut lists: [Vec<i64>; 5] = Default::default();
                for (list, expr) in lists.iter_mut().zip([start, end, stride, shape, strides]) {
                    *list = self.eval_i64s(expr)?;
                }
                Source::nd(data, lists.each_ref().map(Vec::as_slice))
            }
            Iter::Chunks { data, size } => {
                let data = self.eval_vec(data)?;
                Source::chunks(data, self.eval_i64(size)?)
            }
            Iter::Zip(parts) => {
                let parts: Result<Vec<Source>, RuntimeError> =
                    parts.iter().map(|part| self.source(part, span)).collect();
                Source::zip(parts?)
            }
        };
        source.map_err(|failure| fail(span, failure))
    }

    // ---- calls

    fn call(&mut self, expr: &Expr) -> Outcome {
        let span = expr.span;
        match &expr.kind {
            ExprKind::Serialize(data) => {
                let value = self.eval(data)?;
                let bytes =
                    serialize::serialize(&value, &data.ty).ok_or_else(|| broken(span, "serialize of a builder"))?;
                self.bytes(&bytes, &expr.ty, span)
            }
            ExprKind::Deserialize(data) => {
                let bytes = self.eval(data)?.to_bytes().ok_or_else(|| broken(span, "deserialize of no bytes"))?;
                serialize::deserialize(&bytes, &expr.ty, &self.meter).map_err(|failure| fail(span, failure))
            }
            ExprKind::CUdf { name, args } => {
                let args: Result<Vec<Value>, RuntimeError> = args.iter().map(|arg| self.eval(arg)).collect();
                let udf = |message: String| RuntimeError::new(RuntimeErrorKind::Udf, span, message);
                let value = self.host.call(name, &args?, &expr.ty).map_err(udf)?;
                if !value.has_type(&expr.ty) {
                    return Err(udf(format!("`{name}` did not return a value of type {}", expr.ty)));
                }
                Ok(value)
            }
            ExprKind::Intrinsic(intrinsic, args) => {
                let args: Result<Vec<Value>, RuntimeError> = args.iter().map(|arg| self.eval(arg)).collect();
                intrinsic::call(*intrinsic, &args?).map_err(|kind| fail(span, (kind, [0, 0])))
            }
            ExprKind::Assert { cond, message, values, raised } => {
                let holds = self.eval_bool(cond)?;
                let values: Result<Vec<Value>, RuntimeError> = values.iter().map(|value| self.eval(value)).collect();
                let values = values?;
                if holds {
                    return Ok(Value::bool(true));
                }
                let kind = if *raised { RuntimeErrorKind::Raised } else { RuntimeErrorKind::AssertionFailed };
                let scalar = |value: &Value| match value {
                    Value::Scalar(literal) => Some(*literal),
                    _ => None,
                };
                let values: Vec<Literal> = values.iter().filter_map(scalar).collect();
                let message = message.as_deref().map_or_else(|| kind.message([0, 0]), |text| filled(text, &values));
                Err(RuntimeError::new(kind, span, message))
            }
            _ => Err(broken(span, "no call")),
        }
    }

    // ---- helpers

    fn set(&mut self, slot: u32, value: Value) {
        let slot = slot as usize;
        if slot >= self.variables.len() {
            self.variables.resize(slot + 1, None);
        }
        self.variables[slot] = Some(value);
    }

    /// Counts an iteration and honours the cancellation flag.
    fn step(&mut self, span: Span) -> Result<(), RuntimeError> {
        self.steps += 1;
        if self.steps > self.limits.steps || self.limits.cancel.load(Ordering::Relaxed) {
            return Err(fail(span, (RuntimeErrorKind::Cancelled, [0, 0])));
        }
        Ok(())
    }

    /// A vector charged to the run.
    fn vector(&mut self, items: Vec<Value>, span: Span) -> Outcome {
        let mut charge = Charge::new(&self.meter);
        let bytes = items.iter().map(Value::footprint).sum();
        charge.grow(bytes).map_err(|oom| fail(span, oom.into()))?;
        Ok(Value::Vec(Vector::charged(items, charge)))
    }

    fn bytes(&mut self, bytes: &[u8], ty: &Type, span: Span) -> Outcome {
        let unsigned = ty.element() == Some(&Type::Scalar(ScalarKind::U8));
        let item = |byte: &u8| if unsigned { Literal::U8(*byte) } else { Literal::I8(*byte as i8) };
        self.vector(bytes.iter().map(item).map(Value::Scalar).collect(), span)
    }

    fn eval_vec(&mut self, expr: &Expr) -> Result<Vector, RuntimeError> {
        match self.eval(expr)? {
            Value::Vec(items) => Ok(items),
            _ => Err(broken(expr.span, "a vector is needed")),
        }
    }

    fn eval_i64(&mut self, expr: &Expr) -> Result<i64, RuntimeError> {
        match self.eval(expr)? {
            Value::Scalar(Literal::I64(value)) => Ok(value),
            _ => Err(broken(expr.span, "an i64 is needed")),
        }
    }

    fn eval_bool(&mut self, expr: &Expr) -> Result<bool, RuntimeError> {
        match self.eval(expr)? {
            Value::Scalar(Literal::Bool(value)) => Ok(value),
            _ => Err(broken(expr.span, "a bool is needed")),
        }
    }

    fn eval_i64s(&mut self, expr: &Expr) -> Result<Vec<i64>, RuntimeError> {
        let item = |item: &Value| match item {
            Value::Scalar(Literal::I64(value)) => Ok(*value),
            _ => Err(broken(expr.span, "a vec[i64] is needed")),
        };
        self.eval_vec(expr)?.iter().map(item).collect()
    }
}

fn unary(op: UnaryOp, operand: &Value) -> Option<Value> {
    match operand {
        Value::Scalar(literal) => scalar::unary(op, *literal).map(Value::Scalar),
        Value::Simd(lanes) => lanes.iter().map(|lane| scalar::unary(op, *lane)).collect::<Option<_>>().map(Value::Simd),
        _ => None,
    }
}

fn select(cond: &Value, on_true: Value, on_false: Value) -> Option<Value> {
    match (cond, &on_true, &on_false) {
        (Value::Scalar(Literal::Bool(cond)), ..) => Some(if *cond { on_true } else { on_false }),
        (Value::Simd(cond), Value::Simd(a), Value::Simd(b)) => {
            let lane = |(i, cond): (usize, &Literal)| if *cond == Literal::Bool(true) { a[i] } else { b[i] };
            Some(Value::Simd(cond.iter().enumerate().map(lane).collect()))
        }
        _ => None,
    }
}

/// What merging a value merges: itself, or lane after lane a SIMD value in place of a scalar.
fn lanes_to_merge(value: Value, ty: &Type) -> Vec<Value> {
    match (&value, ty) {
        (Value::Simd(lanes), Type::Scalar(_)) => lanes.iter().copied().map(Value::Scalar).collect(),
        _ => vec![value],
    }
}

fn in_range(index: i64, len: usize) -> Result<usize, Failure> {
    let at = usize::try_from(index).ok().filter(|at| *at < len);
    at.ok_or((RuntimeErrorKind::IndexOutOfBounds, [index, len as i64]))
}

fn fail(span: Span, (kind, details): Failure) -> RuntimeError {
    RuntimeError::of(kind, span, details)
}

fn broken(span: Span, what: &str) -> RuntimeError {
    RuntimeError::new(RuntimeErrorKind::Internal, span, format!("internal error: {what}"))
}
