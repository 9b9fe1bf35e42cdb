//! The programs that take rows into the states of groups, many groups at a time. Each is compiled when it is needed
//! first.
//!
//! ```weld
//! # rows into states: of each group of a batch its state, its first row, how many there are; and the rows' arguments
//! result(for(rangeiter(0L, len(start), 1L), appender, |b, i, g|
//!   let state = {lookup(s0, g), deserialize[vec[f64]](lookup(s1, g))};
//!   let next = <fold of state and slice(x, lookup(start, g), lookup(count, g))>;
//!   merge(b, {next.$0, serialize(next.$1)})))
//! ```

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_datafusion_err, exec_err, internal_err};
use datafusion::execution::memory_pool::MemoryPool;
use weld_arrow::{Results, from_columns, plain_type, to_arrow};
use weld_codegen::Value;
use weld_core::ir::{Expr, Func, Program, build as ir};
use weld_core::op::{MergeOp, ReduceOp};
use weld_core::ty::{ScalarKind, Type};
use weld_frontend::{Aggregate, Source};
use weld_runtime::Context;

use super::super::nested;
use crate::code_cache::{Code, CodeCache, Settings};
use crate::lower::{Block, Env, Unsupported};
use crate::memory::{Pressure, QueryMemory, located};
use crate::stoppable;

/// What a program does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Work {
    /// Makes the state without rows.
    Init,
    /// Takes rows into states.
    Fold,
    /// Puts states together.
    Merge,
    /// Makes results of states.
    Finish,
}

#[derive(Debug)]
struct Kernel {
    program: Program,
    source: Arc<Source>,
    /// The columns of a result.
    leaves: Vec<DataType>,
}

/// The rows of a batch by their groups: of each group the first one and how many there are.
#[derive(Debug)]
pub(super) struct Ranges {
    pub(super) starts: Vec<i64>,
    pub(super) counts: Vec<i64>,
}

/// The code of an aggregate function outside of pipelines. Dropped with the function, it has the session's cache let go
/// of code of pipelines that call it.
#[derive(Debug)]
pub(crate) struct Kernels {
    name: String,
    aggregate: Arc<Aggregate>,
    /// The state in Weld, and its parts.
    state: Type,
    parts: Vec<Type>,
    result: DataType,
    cache: Weak<CodeCache>,
    pool: Arc<dyn MemoryPool>,
    settings: Settings,
    compiled: Mutex<HashMap<Work, Arc<(Kernel, Code)>>>,
}

impl Drop for Kernels {
    fn drop(&mut self) {
        let Some(cache) = self.cache.upgrade() else { return };
        let merged = self.aggregate.merged.iter().flat_map(|merged| [&merged.row, &merged.finish]);
        merged.for_each(|function| cache.forget(&function.source));
    }
}

impl Kernels {
    pub(crate) fn new(
        name: String,
        aggregate: Arc<Aggregate>,
        result: DataType,
        (cache, settings): (Weak<CodeCache>, Settings),
        pool: Arc<dyn MemoryPool>,
    ) -> Kernels {
        let state = match &aggregate.merged {
            Some(merged) => Type::structure(merged.fields.iter().map(|(kind, _)| Type::Scalar(*kind))),
            None => aggregate.state().ty(),
        };
        let mut parts = Vec::new();
        parts_of(&state, &mut parts);
        Kernels { name, aggregate, state, parts, result, cache, pool, settings, compiled: Mutex::default() }
    }

    /// Whether the function can be called at all.
    pub(crate) fn check(&self) -> Result<(), Unsupported> {
        if self.parts.is_empty() {
            return Err(Unsupported::new("the state", "it has no field"));
        }
        [Work::Init, Work::Fold, Work::Merge, Work::Finish].into_iter().try_for_each(|work| self.kernel(work).map(drop))
    }

    /// The types of the columns of intermediate states.
    pub(super) fn state_types(&self) -> impl Iterator<Item = DataType> + '_ {
        self.parts.iter().map(|part| part.as_scalar().map_or(DataType::LargeBinary, plain_type))
    }

    /// The state without rows.
    pub(super) fn init(&self) -> Result<Vec<ArrayRef>> {
        self.states(Work::Init, Vec::new())
    }

    /// The states of groups with these rows, which follow each other by their groups.
    pub(super) fn fold(&self, states: Vec<ArrayRef>, ranges: Ranges, args: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        let mut values = vectors(&states)?;
        values.extend([Value::vector(ranges.starts), Value::vector(ranges.counts)]);
        for (arg, param) in args.iter().zip(&self.aggregate.params) {
            let Ok(value) = from_columns(arg.as_ref()) else {
                return exec_err!("a list or struct with NULL in it is passed to {}", self.name);
            };
            if value.ty().element() != Some(&param.shape.ty()) {
                return internal_err!("{}: {} for `{}`", self.name, value.ty(), param.name);
            }
            values.push(value);
        }
        self.states(Work::Fold, values)
    }

    /// The states of groups with those of `others`, which follow each other by their groups. A group that is `fresh`
    /// has no state of its own.
    pub(super) fn merge(
        &self,
        states: Vec<ArrayRef>,
        ranges: Ranges,
        fresh: Vec<bool>,
        others: &[ArrayRef],
    ) -> Result<Vec<ArrayRef>> {
        let mut values = vectors(&states)?;
        values.extend([Value::vector(ranges.starts), Value::vector(ranges.counts), Value::vector(fresh)]);
        values.extend(vectors(others)?);
        self.states(Work::Merge, values)
    }

    /// The results of states.
    pub(super) fn finish(&self, states: Vec<ArrayRef>) -> Result<ArrayRef> {
        let rows = states.first().map_or(0, |states| states.len());
        let compiled = self.compiled(Work::Finish)?;
        let made = self.run(&compiled, vectors(&states)?)?;
        let leaves = &compiled.0.leaves;
        Ok(Results { value: &made, leaves, nullable: false, strings: Vec::new() }.array(&self.result, rows)?)
    }

    fn states(&self, work: Work, values: Vec<Value>) -> Result<Vec<ArrayRef>> {
        let compiled = self.compiled(work)?;
        let made = self.run(&compiled, values)?;
        let rows = to_arrow(&made).map_err(|error| exec_datafusion_err!("{}: {error}", self.name))?;
        Ok(rows.as_struct().columns().to_vec())
    }

    fn run(&self, compiled: &(Kernel, Code), values: Vec<Value>) -> Result<Value> {
        let (kernel, code) = compiled;
        let memory = QueryMemory::of(&self.pool, &self.name, Pressure::Fails);
        let context = Arc::new(Context::new(memory as _, stoppable::flag()));
        code.compiled.run(&context, &values).map_err(|error| located(error, &kernel.source))
    }

    fn compiled(&self, work: Work) -> Result<Arc<(Kernel, Code)>> {
        let known = || self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(compiled) = known().get(&work) {
            return Ok(Arc::clone(compiled));
        }
        let name = &self.name;
        let kernel = self.kernel(work).map_err(|unsupported| exec_datafusion_err!("{name}: {unsupported}"))?;
        let code = self.settings.compile(&kernel.program, 0, None);
        let code = code.map_err(|error| exec_datafusion_err!("{name}: {error}"))?;
        let compiled = Arc::new((kernel, code));
        known().insert(work, Arc::clone(&compiled));
        Ok(compiled)
    }

    fn kernel(&self, work: Work) -> Result<Kernel, Unsupported> {
        let mut env = Env::default();
        let mut leaves = Vec::new();
        let body = match work {
            Work::Init => {
                let state = self.first(&mut env);
                let row = self.stored(&mut env, state);
                ir::vector(row.ty.clone(), [row])
            }
            Work::Fold => self.fold_of(&mut env),
            Work::Merge => self.merge_of(&mut env),
            Work::Finish => self.finish_of(&mut env, &mut leaves)?,
        };
        let (program, source) = env.program(body);
        Ok(Kernel { program, source, leaves })
    }

    fn first(&self, env: &mut Env) -> Expr {
        let merged = self.aggregate.merged.as_ref().and_then(|merged| merged.initial());
        merged.unwrap_or_else(|| env.sources.call(&self.aggregate.init, Vec::new(), &mut env.names))
    }

    fn fold_of(&self, env: &mut Env) -> Expr {
        let states = self.columns(env, "state");
        let ranges = ["start", "count"].map(|name| env.whole(name, Type::vec(Type::I64)));
        let params = self.aggregate.params.iter();
        let args: Vec<Expr> = params.map(|param| env.whole(&param.name, Type::vec(param.shape.ty()))).collect();
        let count = ir::len(ranges[0].clone());
        self.each(env, count, |kernels, env, group| {
            let state = kernels.state_at(&states, &group);
            let [start, count] = ranges.map(|range| ir::lookup(range, group.clone()));
            let next = match &kernels.aggregate.merged {
                Some(merged) => {
                    let row = |env: &mut Env, at: Expr| {
                        let args = args.iter().map(|arg| ir::lookup(arg.clone(), at.clone())).collect();
                        env.sources.call(&merged.row, args, &mut env.names)
                    };
                    kernels.merged_over(env, start, count, row, state)
                }
                None => {
                    let rows = args.iter().map(|arg| ir::slice(arg.clone(), start.clone(), count.clone()));
                    let args = std::iter::once(state).chain(rows).collect();
                    env.sources.call(&kernels.aggregate.fold, args, &mut env.names)
                }
            };
            kernels.stored(env, next)
        })
    }

    fn merge_of(&self, env: &mut Env) -> Expr {
        let states = self.columns(env, "state");
        let ranges = ["start", "count"].map(|name| env.whole(name, Type::vec(Type::I64)));
        let fresh = env.whole("fresh", Type::vec(Type::BOOL));
        let others = self.columns(env, "other");
        let count = ir::len(ranges[0].clone());
        self.each(env, count, |kernels, env, group| {
            let [start, count] = ranges.map(|range| ir::lookup(range, group.clone()));
            let is_fresh = ir::lookup(fresh, group.clone());
            let own = kernels.state_at(&states, &group);
            let next = match &kernels.aggregate.merged {
                Some(_) => {
                    let other = |_: &mut Env, at: Expr| kernels.state_at(&others, &at);
                    kernels.merged_over(env, start, count, other, own)
                }
                None => {
                    let first = ir::if_(is_fresh.clone(), kernels.state_at(&others, &start), own);
                    let from = ir::add(start.clone(), ir::if_(is_fresh, ir::i64(1), ir::i64(0)));
                    kernels.merged_one_by_one(env, (from, ir::add(start, count)), first, &others)
                }
            };
            kernels.stored(env, next)
        })
    }

    /// Each state of a range after the other put together with the first one.
    fn merged_one_by_one(&self, env: &mut Env, (from, end): (Expr, Expr), first: Expr, others: &[Expr]) -> Expr {
        let Env { names, sources, .. } = env;
        let merge = &self.aggregate.merge;
        ir::let_(names, "from", from, |names, from| {
            ir::let_(names, "first", first, |names, first| {
                let init = ir::strct([from.clone(), first.clone()]);
                let all = ir::iterate(names, init, |names, state| {
                    let at = ir::field(state.clone(), 0);
                    let args = vec![ir::field(state, 1), self.state_at(others, &at)];
                    let merged = sources.call(merge, args, names);
                    let next = ir::add(at, ir::i64(1));
                    let goes_on = ir::lt(next.clone(), end.clone());
                    ir::strct([ir::strct([next, merged]), goes_on])
                });
                ir::if_(ir::lt(from, end.clone()), ir::field(all, 1), first)
            })
        })
    }

    /// What a range of rows merges, and the state before.
    fn merged_over(
        &self,
        env: &mut Env,
        start: Expr,
        count: Expr,
        row: impl FnOnce(&mut Env, Expr) -> Expr,
        state: Expr,
    ) -> Expr {
        let ops: Vec<_> = self.aggregate.merged.iter().flat_map(|merged| &merged.fields).map(|(_, op)| *op).collect();
        let op = MergeOp::Fields(ops.iter().map(|op| MergeOp::All(*op)).collect());
        let iter = ir::range(start.clone(), ir::add(start, count), ir::i64(1));
        let builder = ir::merger(self.state.clone(), op);
        let (b, i, x) = (env.names.fresh("b"), env.names.fresh("i"), env.names.fresh("x"));
        let merged = row(env, ir::var(x, Type::I64));
        let body = Box::new(ir::merge(ir::var(b, builder.ty.clone()), merged));
        let params = vec![(b, builder.ty.clone()), (i, Type::I64), (x, Type::I64)];
        let all = ir::result(ir::for_func(iter, builder, Func { params, body }));
        ir::let_(&mut env.names, "all", all, |names, all| {
            ir::let_(names, "state", state, |_, state| {
                let field = |(index, op): (usize, &ReduceOp)| {
                    ir::binary(op.binary(), ir::field(state.clone(), index), ir::field(all.clone(), index))
                };
                ir::strct(ops.iter().enumerate().map(field))
            })
        })
    }

    fn finish_of(&self, env: &mut Env, leaves: &mut Vec<DataType>) -> Result<Expr, Unsupported> {
        let states = self.columns(env, "state");
        let finish = self.aggregate.merged.as_ref().map_or(&self.aggregate.finish, |merged| &merged.finish);
        let (b, i, g) = (env.names.fresh("b"), env.names.fresh("i"), env.names.fresh("g"));
        let state = self.state_at(&states, &ir::var(g, Type::I64));
        let mut block = Block::new(env);
        let env = &mut *block.env;
        let value = env.sources.call(finish, vec![state], &mut env.names);
        let value = block.share("result", value);
        let row = nested::returned(&mut block, value, &finish.result, &self.result, &self.name, leaves)?;
        let row = ir::strct(row);
        let builder = ir::appender(row.ty.clone());
        let body = Box::new(block.close(ir::merge(ir::var(b, builder.ty.clone()), row)));
        let iter = ir::range(ir::i64(0), ir::len(states[0].clone()), ir::i64(1));
        let params = vec![(b, builder.ty.clone()), (i, Type::I64), (g, Type::I64)];
        Ok(ir::result(ir::for_func(iter, builder, Func { params, body })))
    }

    /// A row of stored states for each of so many groups.
    fn each(&self, env: &mut Env, count: Expr, make: impl FnOnce(&Kernels, &mut Env, Expr) -> Expr) -> Expr {
        let builder = ir::appender(Type::structure(self.parts.iter().map(stored_type)));
        let (b, i, g) = (env.names.fresh("b"), env.names.fresh("i"), env.names.fresh("g"));
        let row = make(self, env, ir::var(g, Type::I64));
        let body = Box::new(ir::merge(ir::var(b, builder.ty.clone()), row));
        let params = vec![(b, builder.ty.clone()), (i, Type::I64), (g, Type::I64)];
        let iter = ir::range(ir::i64(0), count, ir::i64(1));
        ir::result(ir::for_func(iter, builder, Func { params, body }))
    }

    /// Parameters for the columns of states.
    fn columns(&self, env: &mut Env, name: &str) -> Vec<Expr> {
        self.parts.iter().map(|part| env.whole(name, Type::vec(stored_type(part)))).collect()
    }

    /// The state at an index of its columns.
    fn state_at(&self, columns: &[Expr], at: &Expr) -> Expr {
        let mut parts = self.parts.iter().zip(columns).map(|(part, column)| {
            let value = ir::lookup(column.clone(), at.clone());
            if part.as_scalar().is_some() { value } else { ir::deserialize(part.clone(), value) }
        });
        assembled(&self.state, &mut parts)
    }

    /// A state as a row of its columns.
    fn stored(&self, env: &mut Env, state: Expr) -> Expr {
        ir::let_(&mut env.names, "next", state, |_, state| {
            let mut fields = Vec::new();
            taken_apart(state, &mut fields);
            ir::strct(fields)
        })
    }
}

fn vectors(arrays: &[ArrayRef]) -> Result<Vec<Value>> {
    let vector = |array: &ArrayRef| {
        weld_arrow::from_arrow(array.as_ref()).map_err(|error| exec_datafusion_err!("a state: {error}"))
    };
    arrays.iter().map(vector).collect()
}

/// The parts of a state that columns have.
fn parts_of(ty: &Type, parts: &mut Vec<Type>) {
    match ty {
        Type::Struct(fields) => fields.iter().for_each(|field| parts_of(field, parts)),
        other => parts.push(other.clone()),
    }
}

/// The type of a part in its column.
fn stored_type(part: &Type) -> Type {
    match part {
        Type::Scalar(kind) => Type::Scalar(*kind),
        _ => Type::vec(Type::Scalar(ScalarKind::I8)),
    }
}

fn assembled(ty: &Type, parts: &mut dyn Iterator<Item = Expr>) -> Expr {
    match ty {
        Type::Struct(fields) => ir::strct(fields.iter().map(|field| assembled(field, parts)).collect::<Vec<_>>()),
        _ => parts.next().unwrap_or_else(|| ir::zero(ty)),
    }
}

fn taken_apart(value: Expr, parts: &mut Vec<Expr>) {
    match &value.ty {
        Type::Struct(fields) => {
            (0..fields.len()).for_each(|index| taken_apart(ir::field(value.clone(), index), parts));
        }
        Type::Scalar(_) => parts.push(value),
        _ => parts.push(ir::serialize(value)),
    }
}
