//! Cuts the loop over a stream into stages with selection vectors between them: the inverse of fusion, where it pays.
//!
//! ```weld
//! for(s, B, |b, i, r| if(r.$0 < 9, let m = optlookup(t, r.$1); if(m.$0, E, b), b))
//! =>
//! for(chunkiter(s, 1024L), B, |b, k, c|
//!   let sel = result(for(c, appender[i32](len(c)), |sb, i, r| if(r.$0 < 9, merge(sb, i32(i)), sb)));
//!   let hit = result(for(sel, appender[i32](len(sel)), |sb, i, j|
//!     let r = lookup(c, i64(j)); if(may_contain(t, r.$1), merge(sb, j), sb)));
//!   for(hit, b, |b, i, j| let r = lookup(c, i64(j)); let m = optlookup(t, r.$1); if(m.$0, E, b)))
//! ```
//!
//! Law: rows that a stage drops are rows that merge nothing, and rows stay in order. A stage evaluates what its
//! predicate needs and what may fail before it; later stages evaluate again what they need, which cannot fail then.
//! `may_contain` is false only for rows whose `optlookup` misses.
//!
//! A boundary stands
//! - after a filter: cheap conditions that cannot fail make branch-free stages, those over narrow columns first, then
//!   one for each wide column; the others (strings, anything that may fail) the next one, in their order. Not when the
//!   branch says `branch_selectivity` above [`UNSELECTIVE`], nor when all that follows is a cheap merge of narrow
//!   columns into a merger: `predicate` makes that one loop;
//! - before a probe whose key comes from the row: the table's prefilter first, then the walk.
//!
//! Only loops over streams are cut, and only those that do not use the index of the loop.
//!
//! Loops over what a loop over a stream appends, which were not fused with it, run chunk by chunk with it: appending
//! rows of chunks one after the other is appending the rows of the stream. So the rows between two loops are those of a
//! chunk, which stay in the cache, and not all.
//!
//! ```weld
//! for(result(for(s, appender, P)), B, C)
//! =>
//! for(chunkiter(s, 1024L), B, |b, k, c| let rows = result(for(c, appender(len(c)), P)); for(rows, b, C))
//! ```
//!
//! After S. Menon et al., Relaxed Operator Fusion for In-Memory Databases, VLDB 2017.

use std::collections::{BTreeSet, HashSet};

use super::Config;
use super::facts::{can_fail, cost, is_path};
use super::fuse_loops::producer;
use crate::ir::{Binding, Expr, ExprKind, Func, Iter, Names, Program, Sym, build, deep};
use crate::op::{BinaryOp, Intrinsic};
use crate::ty::{BuilderType, ScalarKind, Type};

/// Above this share of rows that pass, a filter stays a branch.
const UNSELECTIVE: f64 = 0.85;
/// A condition of at most this cost is evaluated for every row, branch-free.
const CHEAP: u32 = 12;
/// Up to this cost a merge into a merger is left to `predicate`.
const MERGE_CHEAP: u32 = 16;
/// Wider columns are read only at the rows that narrower ones leave. TPC-H Q6 over tables in memory (three `i128`
/// columns and a date) is bound by memory traffic: 12 ms instead of 19 at SF1 on two threads.
const NARROW_BYTES: usize = 8;

pub(super) fn run(program: &mut Program, config: &Config) {
    let streams: Vec<Sym> = program.params.iter().filter(|p| p.stream).map(|p| p.sym).collect();
    let mut splitter = Splitter { names: &mut program.names, chunk_rows: config.chunk_rows };
    program.body.rewrite_down(&mut |e| {
        if over_stream(e, &streams) {
            splitter.split(e);
        } else if over_appended(e, &streams) {
            splitter.chain(e);
        }
    });
}

/// Whether the expression is a loop over the whole of a stream whose index is not used.
pub(super) fn over_stream(e: &Expr, streams: &[Sym]) -> bool {
    let ExprKind::For { iter, func, .. } = &e.kind else { return false };
    match &**iter {
        Iter::Vector(data) => {
            matches!(data.kind, ExprKind::Var(sym) if streams.contains(&sym)) && !func.body.uses(func.params[1].0)
        }
        _ => false,
    }
}

/// Whether the expression is a loop over what another one appends, which is over what a third appends, and so on down
/// to a loop over a stream, and none of them uses its index.
fn over_appended(e: &Expr, streams: &[Sym]) -> bool {
    let ExprKind::For { iter, func, .. } = &e.kind else { return false };
    let Iter::Vector(data) = &**iter else { return false };
    let ExprKind::Result(inner) = &data.kind else { return false };
    producer(data).is_some()
        && !func.body.uses(func.params[1].0)
        && deep(|| over_stream(inner, streams) || over_appended(inner, streams))
}

/// What a stage checks of a row, after these bindings.
struct Stage {
    bindings: Vec<Binding>,
    predicate: Expr,
}

struct Splitter<'a> {
    names: &'a mut Names,
    chunk_rows: u32,
}

impl Splitter<'_> {
    /// Makes the loop over a stream one over its chunks, if it has stages.
    fn split(&mut self, e: &mut Expr) {
        let ExprKind::For { iter, builder, func } = &mut e.kind else { return };
        let Iter::Vector(stream) = &mut **iter else { return };
        let chunk = (self.names.fresh("c"), stream.ty.clone());
        let inner = self.names.fresh_like(func.params[0].0);
        let own = Func { params: func.params.clone(), body: Box::new(func.body.take()) };
        match self.stages(own, build::var(inner, builder.ty.clone()), (chunk.0, &chunk.1)) {
            Ok(staged) => {
                let stream = stream.take();
                iterate_chunks(e, stream, (inner, chunk.0), staged, self.chunk_rows, self.names);
            }
            Err(own) => *func = own,
        }
    }

    /// The loop of this function over a chunk in stages; the function, if it has none.
    fn stages(&mut self, func: Func, builder: Expr, (chunk, chunk_ty): (Sym, &Type)) -> Result<Expr, Func> {
        let Func { params, mut body } = func;
        let (builder_sym, (row, row_ty)) = (params[0].0, params[2].clone());
        let mut bound = HashSet::from([row]);
        bound_in(&body, &mut bound);
        let mut plan = Plan { row, builder: builder_sym, bound, stages: Vec::new(), seen: Vec::new() };
        plan.filters(&mut body);
        plan.probes(&body, builder_sym);
        let mut bindings = Vec::new();
        let mut selection: Option<Sym> = None;
        for stage in plan.stages {
            let value = self.selection_loop(&stage, (chunk, chunk_ty), (row, &row_ty), selection);
            let sym = self.names.fresh("sel");
            bindings.push(Binding { sym, value });
            selection = Some(sym);
        }
        let Some(selection) = selection else { return Err(Func { params, body }) };
        let (index, position) = (self.names.fresh("i"), self.names.fresh("j"));
        let fetch = Binding { sym: row, value: fetch_row(chunk, chunk_ty, build::var(position, Type::I32)) };
        let builder_ty = builder.ty.clone();
        let last = build::for_func(
            build::over(build::var(selection, Type::vec(Type::I32))),
            builder,
            Func {
                params: vec![(builder_sym, builder_ty), (index, Type::I64), (position, Type::I32)],
                body: Box::new(build::let_in(vec![fetch], *body)),
            },
        );
        Ok(build::let_in(bindings, last))
    }

    /// Moves a loop and those that append what it is over into a loop over the chunks of the stream.
    fn chain(&mut self, e: &mut Expr) {
        let ExprKind::For { iter, builder, func } = &mut e.kind else { return };
        let Iter::Vector(rows) = &mut **iter else { return };
        let chunk = self.names.fresh("c");
        let mut bindings = Vec::new();
        let Some((stream, rows)) = self.over_chunk(rows.take(), chunk, &mut bindings) else { return };
        let inner = self.names.fresh_like(func.params[0].0);
        let own = Func { params: std::mem::take(&mut func.params), body: Box::new(func.body.take()) };
        let last = build::for_func(build::over(rows), build::var(inner, builder.ty.clone()), own);
        iterate_chunks(e, stream, (inner, chunk), build::let_in(bindings, last), self.chunk_rows, self.names);
    }

    /// Binds what each of the loops appends that [`over_appended`] has found, over a chunk of the stream; the first one
    /// gets its stages. Gives the stream and what the last one appends.
    fn over_chunk(&mut self, rows: Expr, chunk: Sym, bindings: &mut Vec<Binding>) -> Option<(Expr, Expr)> {
        let (rows_ty, ExprKind::Result(loop_)) = (rows.ty, rows.kind) else { return None };
        let ExprKind::For { iter, func, .. } = loop_.kind else { return None };
        let Iter::Vector(data) = *iter else { return None };
        let is_first = matches!(data.kind, ExprKind::Var(_));
        let (stream, data) = match is_first {
            true => (data.clone(), build::var(chunk, data.ty)),
            false => deep(|| self.over_chunk(data, chunk, bindings))?,
        };
        let appender = build::appender_sized(rows_ty.element()?.clone(), build::len(data.clone()));
        let staged = match is_first {
            true => self.stages(func, appender.clone(), (chunk, &data.ty)),
            false => Err(func),
        };
        let filled = staged.unwrap_or_else(|func| build::for_func(build::over(data), appender, func));
        let sym = self.names.fresh("rows");
        bindings.push(Binding { sym, value: build::result(filled) });
        Some((stream, build::var(sym, rows_ty)))
    }

    /// The loop that makes the next selection vector, over the chunk or over the rows selected before.
    fn selection_loop(
        &mut self,
        stage: &Stage,
        (chunk, chunk_ty): (Sym, &Type),
        (row, row_ty): (Sym, &Type),
        selection: Option<Sym>,
    ) -> Expr {
        let data = match selection {
            Some(sym) => build::var(sym, Type::vec(Type::I32)),
            None => build::var(chunk, chunk_ty.clone()),
        };
        let appender = build::appender_sized(Type::I32, build::len(data.clone()));
        let body = build::let_in(stage.bindings.clone(), stage.predicate.clone()).fresh_copy(self.names);
        let names = &mut *self.names;
        let loop_ = build::for_(names, build::over(data), appender, |names, b, i, x| {
            let (own_row, position, fetch) = match (&selection, &x.kind) {
                (Some(_), ExprKind::Var(position)) => {
                    let own = names.fresh_like(row);
                    let fetch =
                        Binding { sym: own, value: fetch_row(chunk, chunk_ty, build::var(*position, Type::I32)) };
                    (build::var(own, row_ty.clone()), x, vec![fetch])
                }
                _ => (x, build::cast(i, ScalarKind::I32), Vec::new()),
            };
            let mut body = body;
            body.substitute(row, own_row, names);
            let (mut bindings, predicate) = match body.kind {
                ExprKind::Let { bindings, body } => (bindings, *body),
                _ => (Vec::new(), body),
            };
            bindings.splice(0..0, fetch);
            build::let_in(bindings, build::if_(predicate, build::merge(b.clone(), position), b))
        });
        build::result(loop_)
    }
}

/// `lookup(chunk, i64(position))`, which a selection vector keeps in range.
pub(super) fn fetch_row(chunk: Sym, chunk_ty: &Type, position: Expr) -> Expr {
    let position = build::cast(position, ScalarKind::I64);
    let mut row = build::lookup(build::var(chunk, chunk_ty.clone()), position);
    if let ExprKind::Lookup { checked, .. } = &mut row.kind {
        *checked = false;
    }
    row
}

/// Makes a loop one over the chunks of a stream, with each of which it does `body`.
pub(super) fn iterate_chunks(
    e: &mut Expr,
    stream: Expr,
    (builder, chunk): (Sym, Sym),
    body: Expr,
    rows: u32,
    names: &mut Names,
) {
    let ExprKind::For { iter, builder: filled, func } = &mut e.kind else { return };
    let number = names.fresh("k");
    let params = vec![(builder, filled.ty.clone()), (number, Type::I64), (chunk, stream.ty.clone())];
    *func = Func { params, body: Box::new(body) };
    **iter = build::chunks(stream, build::i64(i64::from(rows.max(1))));
}

/// The variables bound anywhere inside.
pub(super) fn bound_in(e: &Expr, bound: &mut HashSet<Sym>) {
    e.walk(&mut |e| {
        e.each_bound(&mut |sym| {
            bound.insert(sym);
        });
    });
}

/// What the stages of a loop will be.
struct Plan {
    row: Sym,
    builder: Sym,
    /// The variables of the loop: what is not among them is the same for all rows.
    bound: HashSet<Sym>,
    stages: Vec<Stage>,
    /// The bindings on the way to where the plan stands, of which copies go into the stages that need them.
    seen: Vec<Binding>,
}

impl Plan {
    /// Takes filters off the front of the loop's body as long as it pays.
    fn filters(&mut self, rest: &mut Expr) {
        loop {
            let (bindings, tail) = block(rest);
            if bindings.iter().any(|b| is_expensive(&b.value)) {
                return;
            }
            let ExprKind::If { cond, on_true, on_false } = &tail.kind else { return };
            let builder = self.builder;
            let unselective = tail.annotations.get("branch_selectivity").and_then(|s| s.parse().ok());
            if !is_var(on_false, builder)
                || unselective.is_some_and(|share: f64| share > UNSELECTIVE)
                || is_cheap_merge(on_true) && self.wide_columns(rest).is_empty()
            {
                return;
            }
            self.seen.extend(bindings.iter().cloned());
            let mut conditions = Vec::new();
            conjuncts(cond, &mut conditions);
            let first_failing = conditions.iter().position(|c| can_fail(c)).unwrap_or(conditions.len());
            let is_early = |k: usize, c: &Expr| k < first_failing && cost(c) <= CHEAP && !reads_bytes(c);
            let mut late = Vec::new();
            // The columns that the conditions of each early stage read: none for the narrow ones.
            let mut early: Vec<(BTreeSet<u32>, Vec<Expr>)> = vec![(BTreeSet::new(), Vec::new())];
            for (k, condition) in conditions.into_iter().enumerate() {
                let group = if is_early(k, condition) {
                    let columns = self.wide_columns(&build::let_in(self.needed(condition, &[]), condition.clone()));
                    let known = early.iter().position(|(of, _)| *of == columns);
                    let group = known.unwrap_or_else(|| {
                        early.push((columns, Vec::new()));
                        early.len() - 1
                    });
                    &mut early[group].1
                } else {
                    &mut late
                };
                group.push(condition.clone());
            }
            // What may fail before the filter must still be evaluated for every row: in the first stage.
            let mut must: Vec<Sym> = bindings.iter().filter(|b| can_fail(&b.value)).map(|b| b.sym).collect();
            for conditions in early.into_iter().map(|(_, conditions)| conditions).chain([late]) {
                if let Some(predicate) = conditions.into_iter().reduce(build::and) {
                    let bindings = self.needed(&predicate, &must);
                    self.stages.push(Stage { bindings, predicate });
                    must.clear();
                }
            }
            let next = on_true.clone();
            *rest = *next;
            let bindings = self.needed(rest, &[]);
            *rest = build::let_in(bindings, rest.take());
            self.seen.clear();
        }
    }

    /// The columns of the row that an expression reads and that are wider than [`NARROW_BYTES`].
    fn wide_columns(&self, e: &Expr) -> BTreeSet<u32> {
        let mut wide = BTreeSet::new();
        e.walk(&mut |e| {
            if let ExprKind::Field(of, index) = &e.kind
                && is_var(of, self.row)
                && stored_bytes(&e.ty) > NARROW_BYTES
            {
                wide.insert(*index);
            }
        });
        wide
    }

    /// The bindings on the way that an expression needs, directly or not, or that are listed.
    fn needed(&self, e: &Expr, listed: &[Sym]) -> Vec<Binding> {
        let mut wanted = e.free_vars();
        wanted.extend(listed);
        let mut bindings: Vec<Binding> = Vec::new();
        for binding in self.seen.iter().rev() {
            if wanted.contains(&binding.sym) {
                wanted.extend(binding.value.free_vars());
                bindings.push(binding.clone());
            }
        }
        bindings.reverse();
        bindings
    }

    /// Adds a prefilter stage for every probe that each row which merges something into `builder` has to pass, and
    /// whose key comes from the row.
    fn probes(&mut self, rest: &Expr, builder: Sym) {
        let (bindings, tail) = block(rest);
        let scope: Vec<Binding> = self.seen.iter().chain(bindings).cloned().collect();
        let ExprKind::If { cond, on_true, on_false } = &tail.kind else { return };
        // A builder of another name may have got something before.
        let Some((table, key)) = probe_of(cond, &scope).filter(|_| is_var(on_false, builder)) else { return };
        // Rows that are dropped here skip what comes before the probe: that must not fail. A probe further inside is
        // looked for only when all before it cannot fail.
        self.seen.extend(bindings.iter().cloned());
        if can_fail(key) || bindings.iter().any(|b| can_fail(&b.value)) {
            return;
        }
        let stage = self.prefilter(table, key);
        self.stages.extend(stage);
        // A loop over the matches, whose body may hold the next probe; what was taken out of the loop stands before it.
        let (bindings, tail) = block(on_true);
        match &tail.kind {
            ExprKind::For { func, iter, builder: filled } => {
                let Iter::Vector(data) = &**iter else { return };
                if !is_var(filled, builder) || can_fail(data) || bindings.iter().any(|b| can_fail(&b.value)) {
                    return;
                }
                self.seen.extend(bindings.iter().cloned());
                self.probes(&func.body, func.params[0].0);
            }
            _ => self.probes(on_true, builder),
        }
    }

    fn prefilter(&self, table: &Expr, key: &Expr) -> Option<Stage> {
        let fixed = table.free_vars().iter().all(|sym| !self.bound.contains(sym));
        let bindings = self.needed(key, &[]);
        let mut free = key.free_vars();
        for binding in bindings.iter().rev() {
            free.remove(&binding.sym);
            free.extend(binding.value.free_vars());
        }
        let of_row = free.iter().all(|sym| *sym == self.row || !self.bound.contains(sym))
            && bindings.iter().all(|b| !is_expensive(&b.value));
        let call = || build::intrinsic(Intrinsic::MayContain, [table.clone(), key.clone()]);
        (fixed && is_path(table) && of_row).then(|| Stage { bindings, predicate: call() })
    }
}

/// The bindings before an expression, and the expression.
pub(super) fn block(e: &Expr) -> (&[Binding], &Expr) {
    match &e.kind {
        ExprKind::Let { bindings, body } => (bindings, body),
        _ => (&[], e),
    }
}

/// How many bytes a row of a column takes, about: of a string its view.
fn stored_bytes(ty: &Type) -> usize {
    match ty {
        Type::Scalar(kind) => kind.bytes(),
        Type::Struct(fields) => fields.first().map_or(0, stored_bytes),
        _ => 16,
    }
}

pub(super) fn is_var(e: &Expr, sym: Sym) -> bool {
    matches!(e.kind, ExprKind::Var(s) if s == sym)
}

fn conjuncts<'a>(e: &'a Expr, out: &mut Vec<&'a Expr>) {
    deep(|| match &e.kind {
        ExprKind::Binary(BinaryOp::And, a, b) => {
            conjuncts(a, out);
            conjuncts(b, out);
        }
        _ => out.push(e),
    })
}

/// The table and the key when the condition is whether an `optlookup` has hit.
fn probe_of<'a>(cond: &'a Expr, bindings: &'a [Binding]) -> Option<(&'a Expr, &'a Expr)> {
    let cond = match &cond.kind {
        ExprKind::Var(sym) => &bindings.iter().find(|b| b.sym == *sym)?.value,
        _ => cond,
    };
    if let ExprKind::KeyExists { data, key } = &cond.kind {
        return Some((data, key));
    }
    let ExprKind::Field(of, 0) = &cond.kind else { return None };
    let lookup = match &of.kind {
        ExprKind::Var(sym) => &bindings.iter().find(|b| b.sym == *sym)?.value,
        _ => of,
    };
    match &lookup.kind {
        ExprKind::OptLookup { data, key } => Some((data, key)),
        _ => None,
    }
}

/// What must not be evaluated twice: probes, loops, calls.
pub(super) fn is_expensive(e: &Expr) -> bool {
    cost(e) >= 50
}

fn reads_bytes(e: &Expr) -> bool {
    let mut reads = false;
    e.walk(&mut |e| reads |= matches!(e.ty, Type::Vec(_) | Type::Dict(..)));
    reads
}

/// A merge of cheap scalars into a merger: `predicate` makes of it and its filter one loop without branches.
fn is_cheap_merge(e: &Expr) -> bool {
    let (bindings, tail) = block(e);
    let ExprKind::Merge { builder, value } = &tail.kind else { return false };
    let is_merger = matches!(builder.ty, Type::Builder(BuilderType::Merger { .. }));
    let sum = cost(value) + bindings.iter().map(|b| cost(&b.value)).sum::<u32>();
    is_merger && sum <= MERGE_CHEAP && !reads_bytes(value)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::super::inline_lets;

    fn check(before: &str, after: Expect) {
        super::super::testing::check_after(&[inline_lets::run, super::run, inline_lets::run], before, &after);
    }

    #[test]
    fn a_filter_before_an_aggregate() {
        check(
            "|s: stream[{i64,i32,i64}]| tovec(result(for(s, dictmerger[i64,i64,+], |b, i, r|
               if(r.$1 < 9 && r.$1 > 2, merge(b, {r.$0, r.$2}), b))))",
            expect![[r#"
                |s: stream[{i64,i32,i64}]|
                  tovec(result(for(
                    chunkiter(s, 1024L),
                    dictmerger[i64,i64,+],
                    |b, k, c|
                      for(
                        result(for(
                          c,
                          appender[i32](len(c)),
                          |b_3, i_2, x| if(x.$1 < 9 && x.$1 > 2, merge(b_3, i32(i_2)), b_3)
                        )),
                        b,
                        |b_2, i, j| let r = @(unchecked:true) lookup(c, i64(j)); merge(b_2, {r.$0, r.$2})
                      )
                  )))
            "#]],
        );
    }

    #[test]
    fn loops_that_were_not_fused() {
        check(
            "|s: stream[{i64,i32}], t: dict[i64,vec[i64]]|
             let a = result(for(s, appender[i64](len(s)), |b, i, r|
               if(r.$1 < 9, let m = optlookup(t, r.$0); if(m.$0, for(m.$1, b, |c, j, v| merge(c, v)), merge(b, 0L)), b)));
             let d = result(for(a, appender[i64], |b, i, x| merge(merge(b, x), x + 1L)));
             result(for(d, merger[i64,+], |b, i, x| merge(b, x)))",
            expect![[r#"
                |s: stream[{i64,i32}], t: dict[i64,vec[i64]]|
                  result(for(
                    chunkiter(s, 1024L),
                    merger[i64,+],
                    |b, k, c|
                      let rows = result(for(
                        result(for(c, appender[i32](len(c)), |b_3, i_2, x| if(x.$1 < 9, merge(b_3, i32(i_2)), b_3))),
                        appender[i64](len(c)),
                        |b_2, i, j|
                          let m = optlookup(t, (@(unchecked:true) lookup(c, i64(j))).$0);
                          if(m.$0, for(m.$1, b_2, |c_2, j_2, v| merge(c_2, v)), merge(b_2, 0L))
                      ));
                      for(
                        result(for(rows, appender[i64](len(rows)), |b_5, i_4, x_3| merge(merge(b_5, x_3), x_3 + 1L))),
                        b,
                        |b_4, i_3, x_2| merge(b_4, x_2)
                      )
                  ))
            "#]],
        );
    }

    #[test]
    fn a_loop_that_counts_its_rows_is_not_moved() {
        check(
            "|s: stream[i64]|
             let a = result(for(s, appender[i64], |b, i, x| merge(merge(b, x), x)));
             result(for(a, merger[i64,+], |b, i, x| merge(b, x * i)))",
            expect![[r#"
                |s: stream[i64]|
                  result(for(
                    result(for(s, appender[i64], |b_2, i_2, x_2| merge(merge(b_2, x_2), x_2))),
                    merger[i64,+],
                    |b, i, x| merge(b, x * i)
                  ))
            "#]],
        );
    }

    #[test]
    fn a_filter_and_two_probes() {
        check(
            "|s: stream[{i64,i32,i64}], t: dict[i64,vec[i64]], u: dict[i64,vec[i64]]|
             result(for(s, appender[{i64,i64}], |b, i, r|
               if(r.$1 < 9,
                 let m = optlookup(t, r.$0);
                 if(m.$0, for(m.$1, b, |b2, j, v|
                   let n = optlookup(u, r.$2);
                   if(n.$0, for(n.$1, b2, |b3, j3, w| merge(b3, {v, w})), b2)), b),
                 b)))",
            expect![[r#"
                |s: stream[{i64,i32,i64}], t: dict[i64,vec[i64]], u: dict[i64,vec[i64]]|
                  result(for(
                    chunkiter(s, 1024L),
                    appender[{i64,i64}],
                    |b, k, c|
                      let sel = result(for(
                        c,
                        appender[i32](len(c)),
                        |b_2, i, x| if(x.$1 < 9, merge(b_2, i32(i)), b_2)
                      ));
                      let sel_2 = result(for(
                        sel,
                        appender[i32](len(sel)),
                        |b_3, i_2, x_2|
                          if(may_contain(t, (@(unchecked:true) lookup(c, i64(x_2))).$0), merge(b_3, x_2), b_3)
                      ));
                      for(
                        result(for(
                          sel_2,
                          appender[i32](len(sel_2)),
                          |b_5, i_4, x_3|
                            if(may_contain(u, (@(unchecked:true) lookup(c, i64(x_3))).$2), merge(b_5, x_3), b_5)
                        )),
                        b,
                        |b_4, i_3, j|
                          let r = @(unchecked:true) lookup(c, i64(j));
                          let m = optlookup(t, r.$0);
                          if(
                            m.$0,
                            for(
                              m.$1,
                              b_4,
                              |b2, j_2, v|
                                let n = optlookup(u, r.$2);
                                if(n.$0, for(n.$1, b2, |b3, j3, w| merge(b3, {v, w})), b2)
                            ),
                            b_4
                          )
                      )
                  ))
            "#]],
        );
    }

    #[test]
    fn a_condition_taken_out_of_the_loop_over_matches_is_a_probe() {
        check(
            "|s: stream[{i64,i64}], t: dict[i64,vec[i64]], u: dict[i64,vec[i64]]| result(for(s, appender[i64], |b, i, r|
               let m = optlookup(t, r.$0);
               if(m.$0, (let h = keyexists(u, r.$1);
                         for(m.$1, b, |b2, j, v| if(h, merge(b2, v), b2))), b)))",
            expect![[r#"
                |s: stream[{i64,i64}], t: dict[i64,vec[i64]], u: dict[i64,vec[i64]]|
                  result(for(
                    chunkiter(s, 1024L),
                    appender[i64],
                    |b, k, c|
                      let sel = result(for(
                        c,
                        appender[i32](len(c)),
                        |b_2, i, x| if(may_contain(t, x.$0), merge(b_2, i32(i)), b_2)
                      ));
                      for(
                        result(for(
                          sel,
                          appender[i32](len(sel)),
                          |b_4, i_3, x_2|
                            if(may_contain(u, (@(unchecked:true) lookup(c, i64(x_2))).$1), merge(b_4, x_2), b_4)
                        )),
                        b,
                        |b_3, i_2, j|
                          let r = @(unchecked:true) lookup(c, i64(j));
                          let m = optlookup(t, r.$0);
                          if(
                            m.$0,
                            let h = keyexists(u, r.$1); for(m.$1, b_3, |b2, j_2, v| if(h, merge(b2, v), b2)),
                            b_3
                          )
                      )
                  ))
            "#]],
        );
    }

    #[test]
    fn strings_come_after_numbers() {
        check(
            "|s: stream[{vec[u8],i32,i64}], p: vec[u8]| result(for(s, appender[i64], |b, i, r|
               if(like(r.$0, p) && r.$1 < 9, merge(b, r.$2), b)))",
            expect![[r#"
                |s: stream[{vec[u8],i32,i64}], p: vec[u8]|
                  result(for(
                    chunkiter(s, 1024L),
                    appender[i64],
                    |b, k, c|
                      let sel = result(for(
                        c,
                        appender[i32](len(c)),
                        |b_2, i, x| if(x.$1 < 9, merge(b_2, i32(i)), b_2)
                      ));
                      for(
                        result(for(
                          sel,
                          appender[i32](len(sel)),
                          |b_4, i_3, x_2|
                            if(like((@(unchecked:true) lookup(c, i64(x_2))).$0, p), merge(b_4, x_2), b_4)
                        )),
                        b,
                        |b_3, i_2, j| merge(b_3, (@(unchecked:true) lookup(c, i64(j))).$2)
                      )
                  ))
            "#]],
        );
    }

    #[test]
    fn wide_columns_come_after_narrow_ones() {
        check(
            "|s: stream[{i128,i128,i32}]| result(for(s, merger[i64,+], |b, i, r|
               if(r.$0 > 3LL && r.$1 < 9LL && r.$0 < 5LL && r.$2 < 9, merge(b, 1L), b)))",
            expect![[r#"
                |s: stream[{i128,i128,i32}]|
                  result(for(
                    chunkiter(s, 1024L),
                    merger[i64,+],
                    |b, k, c|
                      let sel = result(for(
                        c,
                        appender[i32](len(c)),
                        |b_2, i, x| if(x.$2 < 9, merge(b_2, i32(i)), b_2)
                      ));
                      let sel_2 = result(for(
                        sel,
                        appender[i32](len(sel)),
                        |b_3, i_2, x_2|
                          let r = @(unchecked:true) lookup(c, i64(x_2));
                          if(r.$0 > 3LL && r.$0 < 5LL, merge(b_3, x_2), b_3)
                      ));
                      for(
                        result(for(
                          sel_2,
                          appender[i32](len(sel_2)),
                          |b_5, i_4, x_3| if((@(unchecked:true) lookup(c, i64(x_3))).$1 < 9LL, merge(b_5, x_3), b_5)
                        )),
                        b,
                        |b_4, i_3, j| merge(b_4, 1L)
                      )
                  ))
            "#]],
        );
    }

    #[test]
    fn what_may_fail_keeps_its_place() {
        check(
            "|s: stream[{i64,i64}]| result(for(s, appender[i64], |b, i, r|
               let q = r.$0 / r.$1; let p = r.$0 * r.$0;
               if(p > 3L && 1L / r.$0 > 0L && r.$1 > 3L, merge(b, q + p), b)))",
            expect![[r#"
                |s: stream[{i64,i64}]|
                  result(for(
                    chunkiter(s, 1024L),
                    appender[i64],
                    |b, k, c|
                      let sel = result(for(
                        c,
                        appender[i32](len(c)),
                        |b_2, i, x| let q = x.$0 / x.$1; if(x.$0 * x.$0 > 3L, merge(b_2, i32(i)), b_2)
                      ));
                      for(
                        result(for(
                          sel,
                          appender[i32](len(sel)),
                          |b_4, i_3, x_2|
                            let r = @(unchecked:true) lookup(c, i64(x_2));
                            if(1L / r.$0 > 0L && r.$1 > 3L, merge(b_4, x_2), b_4)
                        )),
                        b,
                        |b_3, i_2, j|
                          let r_2 = @(unchecked:true) lookup(c, i64(j));
                          merge(b_3, r_2.$0 / r_2.$1 + r_2.$0 * r_2.$0)
                      )
                  ))
            "#]],
        );
    }

    #[test]
    fn a_sum_is_left_to_predication() {
        check(
            "|s: stream[{i64,i64}]| result(for(s, merger[i64,+], |b, i, r| if(r.$0 > 3L, merge(b, r.$1), b)))",
            expect![[r#"
                |s: stream[{i64,i64}]|
                  result(for(s, merger[i64,+], |b, i, r| if(r.$0 > 3L, merge(b, r.$1), b)))
            "#]],
        );
    }

    #[test]
    fn an_unselective_filter_stays() {
        check(
            "|s: stream[{i64,i64}]| result(for(s, appender[i64], |b, i, r|
               @(branch_selectivity:0.98) if(r.$0 > 3L, merge(b, r.$1), b)))",
            expect![[r#"
                |s: stream[{i64,i64}]|
                  result(for(
                    s,
                    appender[i64],
                    |b, i, r| @(branch_selectivity:0.98) if(r.$0 > 3L, merge(b, r.$1), b)
                  ))
            "#]],
        );
    }

    /// A row without a match in the second table merges into the builder of the loop over its matches in the first.
    #[test]
    fn what_is_merged_before_a_probe_is_kept() {
        for matches in ["for(m.$1, merge(b, 7L), |b2, j, v|", "for(m.$1, b, |b1, j, v| let b2 = merge(b1, v);"] {
            super::super::testing::check_each_pass(&format!(
                "|s: stream[{{i64,i64}}], t: dict[i64,vec[i64]], u: dict[i64,i64]|
                 result(for(s, appender[i64], |b, i, r| let m = optlookup(t, r.$0); if(m.$0, {matches}
                   let n = optlookup(u, r.$1); if(n.$0, merge(b2, v + n.$1), b2)), b)))"
            ));
        }
    }

    #[test]
    fn an_index_forbids() {
        check(
            "|s: stream[{i64,i64}]| result(for(s, appender[i64], |b, i, r| if(r.$0 > 3L, merge(b, i), b)))",
            expect![[r#"
                |s: stream[{i64,i64}]|
                  result(for(s, appender[i64], |b, i, r| if(r.$0 > 3L, merge(b, i), b)))
            "#]],
        );
    }
}
