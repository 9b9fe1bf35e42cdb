//! Looks for the rows of tables a chunk at a time, with one hash a key.
//!
//! ```weld
//! let hit = result(for(c, appender[i32](len(c)), |b, i, r| if(may_contain(t, r.$0), merge(b, i32(i)), b)));
//! for(hit, b, |b, i, j| let r = lookup(c, i64(j)); let m = optlookup(t, r.$0); if(m.$0, merge(b, m.$1), b))
//! =>
//! let hit = result(for(c, appender[{i32,u32}](len(c)), |b, i, r|
//!   let h = hash_key(t, r.$0); if(may_contain_hashed(t, h), merge(b, {i32(i), h}), b)));
//! let rows = result(for(hit, appender[{i32,u32}](len(hit)), |b, i, x|
//!   let r = lookup(c, i64(x.$0)); let n = find_row(t, x.$1, r.$0); if(n != 0, merge(b, {x.$0, n}), b)));
//! for(rows, b, |b, i, x| let r = lookup(c, i64(x.$0)); merge(b, row_value(t, x.$1)))
//! ```
//!
//! Law: `optlookup(t, k)` is `{n != 0, row_value(t, n)}` of `n = find_row(t, hash_key(t, k), k)`, and `keyexists(t, k)`
//! is `n != 0`. What a stage drops merges nothing, and what comes before its probe cannot fail.
//!
//! The loops of [`super::split_stages`] over a chunk have their probes in one loop with all that is done with what they
//! find: a key is hashed for the prefilter, to fetch ahead, and in the probe, and what a row leads to is not known
//! before. In loops of their own, hashes and rows are columns beside the selection, and what each loop will touch is
//! known some iterations before.
//!
//! Only for tables that are the same for all rows, of which [`may_be_dense`] is false, and keys that are made of the
//! row. A dense table is asked by key: there is no hash to keep, a second loop costs 1 ns of the 7 that a probe takes,
//! and which kind a table will be nobody knows here. Keys of several columns, of texts, and tables without groups are
//! never dense. docs/execution.md has figures.

use std::collections::HashSet;

use super::Config;
use super::facts::{can_fail, is_path, is_trivial};
use super::split_stages::{block, bound_in, fetch_row, is_expensive, is_var};
use crate::ir::{Binding, Expr, ExprKind, Func, Iter, Names, Program, Sym, build, deep};
use crate::op::Intrinsic;
use crate::ty::{ScalarKind, Type, may_be_dense};

pub(super) fn run(program: &mut Program, _: &Config) {
    visit(&mut program.body, None, &mut program.names);
}

/// Stages the probes of the loops over rows of `chunk`.
fn visit(e: &mut Expr, chunk: Option<&(Sym, Type)>, names: &mut Names) {
    deep(|| {
        if let ExprKind::For { iter, func, .. } = &mut e.kind
            && matches!(**iter, Iter::Chunks { .. })
        {
            let chunk = func.params[2].clone();
            return visit(&mut func.body, Some(&chunk), names);
        }
        let Some(chunk) = chunk else { return e.each_child_mut(&mut |child| visit(child, None, names)) };
        if let ExprKind::Let { bindings, body } = &mut e.kind {
            for binding in bindings.iter_mut() {
                visit(&mut binding.value, Some(chunk), names);
            }
            return stage(bindings, body, chunk, names);
        }
        let mut before = Vec::new();
        stage(&mut before, e, chunk, names);
        if before.is_empty() {
            return e.each_child_mut(&mut |child| visit(child, Some(chunk), names));
        }
        *e = build::let_in(before, e.take());
    })
}

/// A probe that becomes a stage.
struct Probe {
    table: Expr,
    /// Of the row of the loop, by the loop's name for it.
    key: Expr,
    /// The variable that is bound to what an `optlookup` gives.
    lookup: Option<Sym>,
    /// The loop needs to know the row that was found.
    is_read: bool,
}

/// Stages the probes of a loop over a chunk, or over rows of it that the bindings before select.
fn stage(before: &mut Vec<Binding>, e: &mut Expr, chunk: &(Sym, Type), names: &mut Names) {
    let ExprKind::For { iter, func, .. } = &mut e.kind else { return };
    let Iter::Vector(data) = &mut **iter else { return };
    let (index, element) = (func.params[1].0, func.params[2].clone());
    let ExprKind::Var(over) = data.kind else { return };
    let is_whole = over == chunk.0;
    let row = match is_whole {
        true => Some(element.0),
        false => fetched(&func.body, element.0, chunk.0).filter(|_| element.1 == Type::I32),
    };
    // What keeps positions is a stage itself.
    let is_last = is_whole || func.body.count_uses(element.0) == 1;
    let Some(row) = row.filter(|_| is_last && !func.body.uses(index)) else { return };
    let mut bound = HashSet::from([row]);
    bound_in(&func.body, &mut bound);
    let mut search = Search { row, bound, scope: Vec::new(), probes: Vec::new(), names };
    search.visit(&mut func.body, func.params[0].0);
    let mut probes = search.probes;
    if probes.is_empty() {
        return;
    }
    read_rows(&func.body, &mut probes);
    // The prefilters are made anew, those of the probes with hashes.
    let mut asked = Vec::new();
    let mut base = over;
    while let Some(last) = before.last().filter(|last| last.sym == base)
        && let Some((from, table, key)) = prefilter(&last.value, chunk, row, names)
    {
        asked.push((table, key));
        base = from;
        before.pop();
    }
    let mut stages = Stages { chunk, row, names, made: Vec::new(), from: base, columns: vec![Column::Position] };
    for (table, key) in asked.iter().rev() {
        match probes.iter().position(|probe| probe.table.same_as(table) && probe.key.same_as(key)) {
            Some(number) if !stages.columns.contains(&Column::Hash(number)) => {
                stages.prefilter(number, &probes[number])
            }
            Some(_) => {}
            None => stages.ask(table, key),
        }
    }
    for (number, probe) in probes.iter().enumerate() {
        stages.find(number, probe);
    }
    stages.last(data, func, &probes, is_whole);
    before.append(&mut stages.made);
}

/// What a body calls the row at the loop's position: `let r = lookup(chunk, i64(position))` is its first binding.
fn fetched(body: &Expr, position: Sym, chunk: Sym) -> Option<Sym> {
    let binding = block(body).0.first()?;
    let ExprKind::Lookup { data, key, checked: false } = &binding.value.kind else { return None };
    let ExprKind::Cast(of) = &key.kind else { return None };
    (is_var(data, chunk) && is_var(of, position)).then_some(binding.sym)
}

/// Of a loop that keeps the positions at which a table may contain a key: what it is over, the table, and the key of
/// `row`.
fn prefilter(value: &Expr, chunk: &(Sym, Type), row: Sym, names: &mut Names) -> Option<(Sym, Expr, Expr)> {
    let ExprKind::Result(loop_) = &value.kind else { return None };
    let ExprKind::For { iter, func, .. } = &loop_.kind else { return None };
    let Iter::Vector(data) = &**iter else { return None };
    let ExprKind::Var(from) = data.kind else { return None };
    let (bindings, tail) = block(&func.body);
    let ExprKind::If { cond, .. } = &tail.kind else { return None };
    let ExprKind::Intrinsic(Intrinsic::MayContain, args) = &cond.kind else { return None };
    let [table, key] = &args[..] else { return None };
    let position = func.params[2].0;
    let own = if from == chunk.0 { position } else { fetched(&func.body, position, chunk.0)? };
    let mut key = inlined(key, bindings.iter().filter(|binding| binding.sym != own), names);
    key.substitute(own, build::var(row, chunk.1.element()?.clone()), names);
    Some((from, table.clone(), key))
}

/// An expression with these bindings in the places of their names.
fn inlined<'a>(e: &Expr, bindings: impl DoubleEndedIterator<Item = &'a Binding>, names: &mut Names) -> Expr {
    let mut e = e.clone();
    for binding in bindings.rev() {
        if e.uses(binding.sym) {
            e.substitute(binding.sym, binding.value.clone(), names);
        }
    }
    e
}

/// Finds the probes of a loop and takes the conditions that they are out of its body.
struct Search<'a> {
    row: Sym,
    /// The variables of the loop: what is not among them is the same for all rows.
    bound: HashSet<Sym>,
    /// The bindings on the way.
    scope: Vec<Binding>,
    probes: Vec<Probe>,
    names: &'a mut Names,
}

impl Search<'_> {
    /// A body without which a row merges nothing into `builder`.
    fn visit(&mut self, body: &mut Expr, builder: Sym) {
        let (bindings, tail) = block_mut(body);
        if bindings.iter().any(|binding| can_fail(&binding.value)) {
            return;
        }
        self.scope.extend(bindings.iter().cloned());
        if let ExprKind::If { cond, on_true, on_false } = &mut tail.kind
            && is_var(on_false, builder)
            && let Some((lookup, table, key)) = self.lookup_of(cond)
            && !can_fail(&key)
        {
            match self.key_of_row(&table, &key) {
                Some(key) => {
                    self.probes.push(Probe { table, key, lookup, is_read: false });
                    *tail = on_true.take();
                    self.visit_matches(tail, builder);
                }
                // It stays where it is, but a probe further inside need not.
                None => self.visit_matches(on_true, builder),
            }
        }
    }

    /// The same, or a loop over matches with such a body.
    fn visit_matches(&mut self, body: &mut Expr, builder: Sym) {
        let (bindings, tail) = block_mut(body);
        if let ExprKind::For { iter, builder: filled, func } = &mut tail.kind
            && let Iter::Vector(data) = &**iter
            && is_var(filled, builder)
        {
            if !can_fail(data) && !bindings.iter().any(|binding| can_fail(&binding.value)) {
                self.scope.extend(bindings.iter().cloned());
                deep(|| self.visit(&mut func.body, func.params[0].0));
            }
            return;
        }
        deep(|| self.visit(body, builder));
    }

    /// The table and the key when the condition is whether there is a match, and the variable that is bound to what was
    /// found.
    fn lookup_of(&self, cond: &Expr) -> Option<(Option<Sym>, Expr, Expr)> {
        let cond = self.named(cond);
        match cond.kind {
            ExprKind::KeyExists { data, key } => Some((None, *data, *key)),
            ExprKind::Field(of, 0) => {
                let lookup = if let ExprKind::Var(sym) = of.kind { Some(sym) } else { None };
                match self.named(&of).kind {
                    ExprKind::OptLookup { data, key } => Some((lookup, *data, *key)),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// What a variable on the way is bound to; any other expression itself.
    fn named(&self, e: &Expr) -> Expr {
        let ExprKind::Var(sym) = e.kind else { return e.clone() };
        self.scope.iter().find(|binding| binding.sym == sym).map_or(e, |binding| &binding.value).clone()
    }

    /// The key over the row alone, if it is made of that and the table is the same for all rows.
    fn key_of_row(&mut self, table: &Expr, key: &Expr) -> Option<Expr> {
        let Type::Dict(key_ty, value_ty) = &table.ty else { return None };
        let is_fixed = is_path(table) && table.free_vars().iter().all(|sym| !self.bound.contains(sym));
        if !is_fixed || may_be_dense(key_ty, value_ty) {
            return None;
        }
        let own = self.scope.iter().filter(|binding| binding.sym != self.row);
        let key = inlined(key, own, self.names);
        let is_of_row = key.free_vars().iter().all(|sym| *sym == self.row || !self.bound.contains(sym));
        (is_of_row && !can_fail(&key) && !is_expensive(&key)).then_some(key)
    }
}

/// [`block`] of what is to be changed.
fn block_mut(e: &mut Expr) -> (&mut [Binding], &mut Expr) {
    if !matches!(e.kind, ExprKind::Let { .. }) {
        return (&mut [], e);
    }
    match &mut e.kind {
        ExprKind::Let { bindings, body } => (bindings, body),
        _ => unreachable!("a block"),
    }
}

/// A column beside the selected positions, of a probe by its number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Position,
    Hash(usize),
    Row(usize),
}

impl Column {
    fn ty(self) -> Type {
        match self {
            Column::Position => Type::I32,
            Column::Hash(_) | Column::Row(_) => Type::U32,
        }
    }
}

/// What an element of these columns is: the position alone, or a struct.
fn element_type(columns: &[Column]) -> Type {
    match columns {
        [only] => only.ty(),
        columns => Type::structure(columns.iter().map(|column| column.ty())),
    }
}

/// The stages of a loop while they are made.
struct Stages<'a> {
    chunk: &'a (Sym, Type),
    /// What keys call the row.
    row: Sym,
    names: &'a mut Names,
    made: Vec<Binding>,
    /// What the next stage is over: the chunk, or what has these columns.
    from: Sym,
    columns: Vec<Column>,
}

/// An element of a loop while its body is made.
struct Element<'e> {
    columns: &'e [Column],
    value: Expr,
    /// Where the row is in the chunk.
    position: Expr,
}

impl Element<'_> {
    fn all(&self) -> Vec<Expr> {
        self.columns.iter().filter_map(|column| self.column(*column)).collect()
    }

    fn column(&self, column: Column) -> Option<Expr> {
        let index = self.columns.iter().position(|known| *known == column)?;
        Some(match (column, self.columns.len()) {
            (Column::Position, _) => self.position.clone(),
            (_, 1) => self.value.clone(),
            _ => build::field(self.value.clone(), index),
        })
    }
}

impl Stages<'_> {
    /// Keeps the rows whose keys a table may contain.
    fn ask(&mut self, table: &Expr, key: &Expr) {
        let columns = self.columns.clone();
        self.stage("hit", key, columns, |_, key, element| {
            (Vec::new(), build::intrinsic(Intrinsic::MayContain, [table.clone(), key]), element.all())
        });
    }

    /// The same for a probe, with the hashes of the keys.
    fn prefilter(&mut self, number: usize, probe: &Probe) {
        let mut columns = self.columns.clone();
        columns.push(Column::Hash(number));
        self.stage("hit", &probe.key, columns, |names, key, element| {
            let hash = names.fresh("h");
            let value = build::intrinsic(Intrinsic::HashKey, [probe.table.clone(), key]);
            let hash_of = build::var(hash, Type::U32);
            let keeps = build::intrinsic(Intrinsic::MayContainHashed, [probe.table.clone(), hash_of.clone()]);
            let mut columns = element.all();
            columns.push(hash_of);
            (vec![Binding { sym: hash, value }], keeps, columns)
        });
    }

    /// Keeps the rows whose keys a table has, with the rows of these where they are read.
    fn find(&mut self, number: usize, probe: &Probe) {
        let mut columns: Vec<Column> =
            self.columns.iter().copied().filter(|column| *column != Column::Hash(number)).collect();
        columns.extend(probe.is_read.then_some(Column::Row(number)));
        let out = columns.clone();
        self.stage("found", &probe.key, columns, |names, key, element| {
            let table = || probe.table.clone();
            let hash = element.column(Column::Hash(number));
            let hash = hash.unwrap_or_else(|| build::intrinsic(Intrinsic::HashKey, [table(), key.clone()]));
            let found = names.fresh("n");
            let value = build::intrinsic(Intrinsic::FindRow, [table(), hash, key]);
            let row = build::var(found, Type::U32);
            let keeps = build::ne(row.clone(), build::number(ScalarKind::U32, 0));
            let column = |column: &Column| match column {
                Column::Row(own) if *own == number => Some(row.clone()),
                column => element.column(*column),
            };
            let columns = out.iter().filter_map(column).collect();
            (vec![Binding { sym: found, value }], keeps, columns)
        });
    }

    /// A loop that makes such columns of the last one's, given the key of each row.
    fn stage(
        &mut self,
        name: &str,
        key: &Expr,
        columns: Vec<Column>,
        body: impl FnOnce(&mut Names, Expr, &Element<'_>) -> (Vec<Binding>, Expr, Vec<Expr>),
    ) {
        let is_whole = self.from == self.chunk.0;
        let from = match is_whole {
            true => build::var(self.from, self.chunk.1.clone()),
            false => build::var(self.from, Type::vec(element_type(&self.columns))),
        };
        let appender = build::appender_sized(element_type(&columns), build::len(from.clone()));
        let (chunk, row, before) = (self.chunk, self.row, &self.columns);
        let loop_ = build::for_(self.names, build::over(from), appender, |names, b, i, x| {
            let mut bindings = Vec::new();
            let (position, own) = match is_whole {
                true => (build::cast(i, ScalarKind::I32), x.clone()),
                false => {
                    let position = position_of(before, &x);
                    let own = names.fresh_like(row);
                    let value = fetch_row(chunk.0, &chunk.1, position.clone());
                    let ty = value.ty.clone();
                    bindings.push(Binding { sym: own, value });
                    (position, build::var(own, ty))
                }
            };
            let mut key = key.fresh_copy(names);
            key.substitute(row, own, names);
            if !is_trivial(&key) {
                let (sym, ty) = (names.fresh("key"), key.ty.clone());
                bindings.push(Binding { sym, value: key });
                key = build::var(sym, ty);
            }
            let element = Element { columns: before, value: x, position };
            let (asked, keeps, mut values) = body(names, key, &element);
            bindings.extend(asked);
            let value = if values.len() == 1 { values.remove(0) } else { build::strct(values) };
            build::let_in(bindings, build::if_(keeps, build::merge(b.clone(), value), b))
        });
        let sym = self.names.fresh(name);
        self.made.push(Binding { sym, value: build::result(loop_) });
        (self.from, self.columns) = (sym, columns);
    }

    /// Makes the loop itself one over what the last stage gives.
    fn last(&mut self, data: &mut Expr, func: &mut Func, probes: &[Probe], is_whole: bool) {
        let ty = element_type(&self.columns);
        *data = build::var(self.from, Type::vec(ty.clone()));
        let x = self.names.fresh("x");
        func.params[2] = (x, ty.clone());
        let x = build::var(x, ty);
        let position = position_of(&self.columns, &x);
        let fetch = Binding { sym: self.row, value: fetch_row(self.chunk.0, &self.chunk.1, position.clone()) };
        let body = func.body.take();
        let (mut bindings, body) = match body.kind {
            ExprKind::Let { bindings, body } => (bindings, *body),
            _ => (Vec::new(), body),
        };
        match is_whole {
            true => bindings.insert(0, fetch),
            false => bindings[0] = fetch,
        }
        *func.body = build::let_in(bindings, body);
        let element = Element { columns: &self.columns, value: x, position };
        for (number, probe) in probes.iter().enumerate() {
            let Some(lookup) = probe.lookup else { continue };
            let row = element.column(Column::Row(number));
            func.body.rewrite(&mut |e| {
                let ExprKind::Let { bindings, body } = &mut e.kind else { return };
                let Some(at) = bindings.iter().position(|binding| binding.sym == lookup) else { return };
                match &row {
                    Some(row) => {
                        let value = build::intrinsic(Intrinsic::RowValue, [probe.table.clone(), row.clone()]);
                        bindings[at].value = build::strct([build::bool(true), value]);
                    }
                    None => {
                        bindings.remove(at);
                        *e = build::let_in(std::mem::take(bindings), body.take());
                    }
                }
            });
        }
    }
}

/// Where the row of an element of these columns is in the chunk.
fn position_of(columns: &[Column], x: &Expr) -> Expr {
    if columns.len() == 1 { x.clone() } else { build::field(x.clone(), 0) }
}

/// Marks the probes of which the body reads more than whether there is a match.
fn read_rows(body: &Expr, probes: &mut [Probe]) {
    for probe in probes {
        probe.is_read = probe.lookup.is_some_and(|lookup| body.uses(lookup));
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::super::{Config, inline_lets, split_stages};
    use super::run;

    fn check(before: &str, after: Expect) {
        super::super::testing::check_after(&[split_stages::run, super::run, inline_lets::run], before, &after);
    }

    #[test]
    fn two_probes() {
        check(
            "|s: stream[{i64,i64,i64}], t: dict[i64,i64], u: dict[{i64,i64},vec[i64]]|
             result(for(s, appender[i64], |b, i, r| if(r.$2 > 3L,
               let m = optlookup(t, r.$0); if(m.$0,
                 let n = optlookup(u, {r.$1, 2L}); if(n.$0, for(n.$1, b, |b2, j, v| merge(b2, v + m.$1)), b), b), b)))",
            expect![[r#"
                |s: stream[{i64,i64,i64}], t: dict[i64,i64], u: dict[{i64,i64},vec[i64]]|
                  result(for(
                    chunkiter(s, 1024L),
                    appender[i64],
                    |b, k, c|
                      let sel = result(for(
                        c,
                        appender[i32](len(c)),
                        |b_2, i, x| if(x.$2 > 3L, merge(b_2, i32(i)), b_2)
                      ));
                      let hit = result(for(
                        sel,
                        appender[{i32,u32}](len(sel)),
                        |b_3, i_2, x_2|
                          let h = hash_key(t, (@(unchecked:true) lookup(c, i64(x_2))).$0);
                          if(may_contain_hashed(t, h), merge(b_3, {x_2, h}), b_3)
                      ));
                      let hit_2 = result(for(
                        hit,
                        appender[{i32,u32,u32}](len(hit)),
                        |b_4, i_3, x_3|
                          let h_2 = hash_key(u, {(@(unchecked:true) lookup(c, i64(x_3.$0))).$1, 2L});
                          if(may_contain_hashed(u, h_2), merge(b_4, {x_3.$0, x_3.$1, h_2}), b_4)
                      ));
                      let found = result(for(
                        hit_2,
                        appender[{i32,u32,u32}](len(hit_2)),
                        |b_5, i_4, x_4|
                          let n = find_row(t, x_4.$1, (@(unchecked:true) lookup(c, i64(x_4.$0))).$0);
                          if(n != 0u32, merge(b_5, {x_4.$0, x_4.$2, n}), b_5)
                      ));
                      for(
                        result(for(
                          found,
                          appender[{i32,u32,u32}](len(found)),
                          |b_7, i_6, x_6|
                            let n_2 = find_row(u, x_6.$1, {(@(unchecked:true) lookup(c, i64(x_6.$0))).$1, 2L});
                            if(n_2 != 0u32, merge(b_7, {x_6.$0, x_6.$2, n_2}), b_7)
                        )),
                        b,
                        |b_6, i_5, x_5|
                          let m = {true, row_value(t, x_5.$1)};
                          for({true, row_value(u, x_5.$2)}.$1, b_6, |b2, j, v| merge(b2, v + m.$1))
                      )
                  ))
            "#]],
        );
    }

    /// The prefilter of a table that may be dense stays what it is, and so does its probe.
    #[test]
    fn one_of_two_tables() {
        check(
            "|s: stream[{i64,i64}], t: dict[i64,vec[i64]], u: dict[i64,i64]|
             result(for(s, appender[i64], |b, i, r| if(r.$0 > 3L,
               let n = optlookup(u, r.$1); if(n.$0,
                 let m = optlookup(t, r.$0); if(m.$0, for(m.$1, b, |b2, j, v| merge(b2, v + n.$1)), b), b), b)))",
            expect![[r#"
                |s: stream[{i64,i64}], t: dict[i64,vec[i64]], u: dict[i64,i64]|
                  result(for(
                    chunkiter(s, 1024L),
                    appender[i64],
                    |b, k, c|
                      let sel = result(for(
                        c,
                        appender[i32](len(c)),
                        |b_2, i, x| if(x.$0 > 3L, merge(b_2, i32(i)), b_2)
                      ));
                      let hit = result(for(
                        sel,
                        appender[{i32,u32}](len(sel)),
                        |b_3, i_2, x_2|
                          let h = hash_key(u, (@(unchecked:true) lookup(c, i64(x_2))).$1);
                          if(may_contain_hashed(u, h), merge(b_3, {x_2, h}), b_3)
                      ));
                      let hit_2 = result(for(
                        hit,
                        appender[{i32,u32}](len(hit)),
                        |b_4, i_3, x_3|
                          if(
                            may_contain(t, (@(unchecked:true) lookup(c, i64(x_3.$0))).$0),
                            merge(b_4, {x_3.$0, x_3.$1}),
                            b_4
                          )
                      ));
                      for(
                        result(for(
                          hit_2,
                          appender[{i32,u32}](len(hit_2)),
                          |b_6, i_5, x_5|
                            let n = find_row(u, x_5.$1, (@(unchecked:true) lookup(c, i64(x_5.$0))).$1);
                            if(n != 0u32, merge(b_6, {x_5.$0, n}), b_6)
                        )),
                        b,
                        |b_5, i_4, x_4|
                          let n_2 = {true, row_value(u, x_4.$1)};
                          let m = optlookup(t, (@(unchecked:true) lookup(c, i64(x_4.$0))).$0);
                          if(m.$0, for(m.$1, b_5, |b2, j, v| merge(b2, v + n_2.$1)), b_5)
                      )
                  ))
            "#]],
        );
    }

    /// Whether the pass leaves the program as the stages have made it.
    fn keeps(text: &str) -> bool {
        let mut program = crate::parse_program(text).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
        split_stages::run(&mut program, &Config::default());
        let before = program.to_string();
        run(&mut program, &Config::default());
        before == program.to_string()
    }

    fn probing(tables: &str, body: &str) -> String {
        format!("|s: stream[{{i64,i64}}], {tables}| result(for(s, appender[i64], |b, i, r| {body}))")
    }

    #[test]
    fn not_of_tables_that_may_be_dense() {
        let body = "let m = optlookup(t, r.$0); if(m.$0, for(m.$1, b, |b2, j, v| merge(b2, v)), b)";
        assert!(keeps(&probing("t: dict[i64,vec[i64]]", body)));
        let body = "let m = optlookup(t, r); if(m.$0, for(m.$1, b, |b2, j, v| merge(b2, v)), b)";
        assert!(!keeps(&probing("t: dict[{i64,i64},vec[i64]]", body)));
    }

    #[test]
    fn whether_a_table_has_a_key() {
        let body = "let n = optlookup(u, r.$1); if(n.$0, if(keyexists(t, r), merge(b, n.$1), b), b)";
        let tables = "t: dict[{i64,i64},vec[i64]], u: dict[i64,i64]";
        let mut program = crate::parse_program(&probing(tables, body)).expect("a program");
        split_stages::run(&mut program, &Config::default());
        run(&mut program, &Config::default());
        let text = program.to_string();
        assert!(!text.contains("keyexists") && text.matches("find_row(").count() == 2, "{text}");
    }

    #[test]
    fn not_of_keys_of_matches() {
        let tables = "t: dict[i64,vec[i64]], u: dict[i64,i64]";
        let body = "let m = optlookup(t, r.$0); if(m.$0, for(m.$1, b, |b2, j, v|
            let n = optlookup(u, v); if(n.$0, merge(b2, n.$1), b2)), b)";
        assert!(keeps(&probing(tables, body)));
    }

    #[test]
    fn not_where_rows_without_a_match_merge_something() {
        let tables = "t: dict[i64,vec[i64]], u: dict[i64,i64]";
        let outer = "let n = optlookup(u, r.$1); if(n.$0, merge(b, n.$1), merge(b, 0L))";
        assert!(keeps(&probing(tables, outer)));
        let before = "let m = optlookup(t, r.$0); if(m.$0, for(m.$1, merge(b, 1L), |b2, j, v|
            let n = optlookup(u, r.$1); if(n.$0, merge(b2, n.$1), b2)), b)";
        assert!(keeps(&probing(tables, before)));
    }

    #[test]
    fn not_where_what_comes_before_may_fail() {
        let body = "let q = r.$0 / r.$1; let n = optlookup(u, r.$1); if(n.$0, merge(b, n.$1 + q), b)";
        assert!(keeps(&probing("u: dict[i64,i64]", body)));
    }

    #[test]
    fn every_pass_keeps_results() {
        let body = "let m = optlookup(t, {r.$0, 1L}); if(m.$0, for(m.$1, b, |b2, j, v|
            let n = optlookup(u, r.$1); if(n.$0 , merge(b2, v + n.$1 * r.$0), b2)), b)";
        super::super::testing::check_each_pass(&probing("t: dict[{i64,i64},vec[i64]], u: dict[i64,i64]", body));
        let exists =
            "if(keyexists(t, {r.$0, r.$1}), let n = optlookup(u, r.$1 + r.$0); if(n.$0, merge(b, n.$1), b), b)";
        super::super::testing::check_each_pass(&probing("t: dict[{i64,i64},vec[i64]], u: dict[i64,i64]", exists));
    }
}
