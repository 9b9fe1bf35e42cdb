//! Loops over `nditer`s become nested loops over ranges, one a dimension.
//!
//! ```weld
//! |v: vec[f64], k: i64| result(for(nditer(v, [0L, 0L], [9L, k], [1L, 1L], [9L, k], [k, 1L]),
//!   vecmerger[f64,+](v), |b, i, x| merge(b, {i / k, x})))
//! =>
//! |v: vec[f64], k: i64|
//!   let n = nd_count(len(v), [0L, 0L], [9L, k], [1L, 1L], [9L, k], [k, 1L]);
//!   result(for(rangeiter(0L, select(n > 0L, 9L, 0L), 1L), vecmerger[f64,+](v), |b, row, c|
//!     for(rangeiter(0L, k, 1L), b, |b2, column, c2| merge(b2, {row, lookup(v, c * k + c2)}))))
//! ```
//!
//! Law: `nd_count` raises what the iterator would, and all positions that the loops visit lie in the data. The index is
//! `(row * columns + column)`, so a division of it by the number of columns gives the row and the rest the column.
//!
//! An `nditer` finds each position by divisions; nested loops add. It fires on lists whose length the program says, and
//! on zips of `nditer`s whose starts, ends and strides are written alike.

use std::collections::HashMap;

use super::Config;
use super::facts::{is_path, is_trivial, join_blocks};
use super::fuse_loops::merges_once;
use crate::ir::{Binding, Expr, ExprKind, Func, Iter, Literal, Names, Program, Sym, build};
use crate::op::{BinaryOp, Intrinsic};
use crate::ty::{BuilderType, Type};

/// The most dimensions: each is a loop.
const RANK_MAX: usize = 6;

pub(super) fn run(program: &mut Program, _: &Config) {
    let mut lists = HashMap::new();
    program.body.walk(&mut |e| {
        if let ExprKind::Let { bindings, .. } = &e.kind {
            for Binding { sym, value } in bindings {
                if let ExprKind::Vector(parts) = &value.kind
                    && parts.iter().all(is_trivial)
                {
                    lists.insert(*sym, parts.clone());
                }
            }
        }
    });
    let streams: Vec<Sym> = program.params.iter().filter(|p| p.stream).map(|p| p.sym).collect();
    let names = &mut program.names;
    program.body.rewrite(&mut |e| {
        let ExprKind::For { iter, .. } = &e.kind else { return };
        if let Some(views) = views(iter, &lists)
            && views.iter().all(|view| !matches!(view.data.kind, ExprKind::Var(sym) if streams.contains(&sym)))
        {
            nest(e, views, names);
        }
    });
    join_blocks(&mut program.body);
}

/// One `nditer` and the entries of its lists, by dimension.
struct View {
    data: Expr,
    start: Vec<Expr>,
    end: Vec<Expr>,
    step: Vec<Expr>,
    shape: Vec<Expr>,
    strides: Vec<Expr>,
}

/// The parts of an iterator that is one `nditer` or a zip of such as step alike.
fn views(iter: &Iter, lists: &HashMap<Sym, Vec<Expr>>) -> Option<Vec<View>> {
    let parts = match iter {
        Iter::Zip(parts) => &parts[..],
        other => std::slice::from_ref(other),
    };
    let views: Vec<View> = parts.iter().map(|part| view(part, lists)).collect::<Option<_>>()?;
    let (first, rest) = views.split_first()?;
    let alike = |a: &[Expr], b: &[Expr]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same_as(b));
    let steps_alike = |view: &View| {
        alike(&view.start, &first.start) && alike(&view.end, &first.end) && alike(&view.step, &first.step)
    };
    rest.iter().all(steps_alike).then_some(views)
}

fn view(iter: &Iter, lists: &HashMap<Sym, Vec<Expr>>) -> Option<View> {
    let Iter::Nd { data, start, end, stride, shape, strides } = iter else { return None };
    let entries = |list: &Expr| match &list.kind {
        ExprKind::Vector(parts) => Some(parts.clone()),
        ExprKind::Var(sym) => lists.get(sym).cloned(),
        _ => None,
    };
    let view = View {
        data: data.clone(),
        start: entries(start)?,
        end: entries(end)?,
        step: entries(stride)?,
        shape: entries(shape)?,
        strides: entries(strides)?,
    };
    let rank = view.start.len();
    let lists = [&view.end, &view.step, &view.shape, &view.strides];
    ((1..=RANK_MAX).contains(&rank) && lists.iter().all(|list| list.len() == rank)).then_some(view)
}

/// What a dimension's loop binds, and how many iterations it makes.
struct Level {
    builder: Sym,
    /// The iterations of this loop and those around it, counted together.
    index: Sym,
    /// Those of this loop alone.
    own: Sym,
    coordinate: Sym,
    count: Expr,
}

fn nest(e: &mut Expr, mut views: Vec<View>, names: &mut Names) {
    let span = e.span;
    let ExprKind::For { iter, builder, func } = &mut e.kind else { return };
    let is_zip = matches!(**iter, Iter::Zip(_));
    let mut outside = Vec::new();
    for view in &mut views {
        bind_parts(view, names, &mut outside);
    }
    let rank = views[0].start.len();
    let mut total = None;
    for view in &views {
        let lists = [&view.start, &view.end, &view.step, &view.shape, &view.strides];
        let lists = lists.map(|list| build::vector(Type::I64, list.iter().cloned()));
        let args = std::iter::once(build::len(view.data.clone())).chain(lists);
        let sym = names.fresh("n");
        outside.push(Binding { sym, value: build::intrinsic(Intrinsic::NdCount, args).at(span) });
        total.get_or_insert(build::var(sym, Type::I64));
    }
    let Some(total) = total else { return };
    if let ExprKind::NewBuilder { arg: arg @ None } = &mut builder.kind
        && matches!(builder.ty, Type::Builder(BuilderType::Appender(_)))
        && merges_once(&func.body, func.params[0].0)
    {
        *arg = Some(Box::new(total.clone()));
    }
    let levels: Vec<Level> = (0..rank)
        .map(|d| Level {
            // The innermost loop has the builder and the index that the body knows.
            builder: if d + 1 == rank { func.params[0].0 } else { names.fresh_like(func.params[0].0) },
            index: if d + 1 == rank { func.params[1].0 } else { names.fresh_like(func.params[1].0) },
            own: names.fresh("k"),
            coordinate: names.fresh("c"),
            count: count(&views[0], d),
        })
        .collect();

    let mut body = func.body.take();
    simplify_indices(&mut body, &levels);
    let elements: Vec<Expr> = views.iter().map(|view| element(view, &levels)).collect();
    let element =
        if is_zip { build::strct(elements) } else { elements.into_iter().next().unwrap_or_else(|| build::i64(0)) };
    body = build::let_in(vec![Binding { sym: func.params[2].0, value: element }], body);
    let builder_ty = builder.ty.clone();
    for d in (0..rank).rev() {
        let level = &levels[d];
        let mut index = build::var(level.own, Type::I64);
        if d > 0 {
            let around = build::var(levels[d - 1].index, Type::I64);
            index = build::add(build::mul(around, level.count.clone()), index);
        }
        body = build::let_in(vec![Binding { sym: level.index, value: index }], body);
        let (start, mut end) = (views[0].start[d].clone(), views[0].end[d].clone());
        if d == 0 {
            // A view of nothing is not walked row by row.
            end = build::select(build::gt(total.clone(), build::i64(0)), end, start.clone());
        }
        let range = build::range(start, end, views[0].step[d].clone());
        let around = match d {
            0 => builder.take(),
            d => build::var(levels[d - 1].builder, builder_ty.clone()),
        };
        let params = vec![(level.builder, builder_ty.clone()), (level.own, Type::I64), (level.coordinate, Type::I64)];
        body = build::for_func(range, around, Func { params, body: Box::new(body) }).at(span);
        body.annotations = e.annotations.clone();
    }
    *e = build::let_in(outside, body);
}

/// Makes variables of what is no variable or constant: the loops read it more than once.
fn bind_parts(view: &mut View, names: &mut Names, out: &mut Vec<Binding>) {
    let mut bind = |e: &mut Expr, name: &str| {
        let sym = names.fresh(name);
        let variable = build::var(sym, e.ty.clone());
        out.push(Binding { sym, value: std::mem::replace(e, variable) });
    };
    if !is_path(&view.data) {
        bind(&mut view.data, "data");
    }
    for list in [&mut view.start, &mut view.end, &mut view.step, &mut view.shape, &mut view.strides] {
        list.iter_mut().filter(|part| !is_trivial(part)).for_each(|part| bind(part, "d"));
    }
}

fn is_literal(e: &Expr, value: i64) -> bool {
    matches!(e.kind, ExprKind::Literal(Literal::I64(n)) if n == value)
}

/// How many steps a dimension takes if it takes any: those that take none make the loops inside run never.
fn count(view: &View, d: usize) -> Expr {
    let (start, end, step) = (&view.start[d], &view.end[d], &view.step[d]);
    let distance = if is_literal(start, 0) { end.clone() } else { build::sub(end.clone(), start.clone()) };
    if is_literal(step, 1) {
        return distance;
    }
    build::add(build::div(build::sub(distance, build::i64(1)), step.clone()), build::i64(1))
}

/// The element at the position of all coordinates, which `nd_count` has checked.
fn element(view: &View, levels: &[Level]) -> Expr {
    let terms = levels.iter().zip(&view.strides).map(|(level, stride)| {
        let coordinate = build::var(level.coordinate, Type::I64);
        if is_literal(stride, 1) { coordinate } else { build::mul(coordinate, stride.clone()) }
    });
    let position = terms.reduce(build::add).unwrap_or_else(|| build::i64(0));
    let mut element = build::lookup(view.data.clone(), position);
    if let ExprKind::Lookup { checked, .. } = &mut element.kind {
        *checked = false;
    }
    element
}

/// `index / count` is the index of the loops around, `index % count` that of the loop itself.
fn simplify_indices(body: &mut Expr, levels: &[Level]) {
    body.rewrite(&mut |e| {
        let ExprKind::Binary(op @ (BinaryOp::Div | BinaryOp::Rem), index, divisor) = &e.kind else { return };
        let ExprKind::Var(sym) = index.kind else { return };
        let Some(d) = levels.iter().position(|level| level.index == sym) else { return };
        if !levels[d].count.same_as(divisor) {
            return;
        }
        *e = match (op, d) {
            (BinaryOp::Rem, d) => build::var(levels[d].own, Type::I64),
            (_, 0) => build::i64(0),
            (_, d) => build::var(levels[d - 1].index, Type::I64),
        };
    });
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::super::inline_lets;

    fn check(before: &str, after: Expect) {
        let passes = [super::run, inline_lets::run];
        super::super::testing::check_after(&passes, before, &after);
    }

    #[test]
    fn rows_and_columns() {
        check(
            "|v: vec[i64], k: i64| result(for(nditer(v, [0L, 0L], [9L, k], [1L, 1L], [9L, k], [k, 1L]),
               vecmerger[i64,+](v), |b, i, x| merge(b, {i / k, x + i % k})))",
            expect![[r#"
                |v: vec[i64], k: i64|
                  result(for(
                    rangeiter(
                      0L,
                      select(nd_count(len(v), [0L, 0L], [9L, k], [1L, 1L], [9L, k], [k, 1L]) > 0L, 9L, 0L),
                      1L
                    ),
                    vecmerger[i64,+](v),
                    |b, k_2, c|
                      for(
                        rangeiter(0L, k, 1L),
                        b,
                        |b_2, k_3, c_2| merge(b_2, {k_2, @(unchecked:true) lookup(v, c * k + c_2) + k_3})
                      )
                  ))
            "#]],
        );
    }

    #[test]
    fn three_dimensions_with_steps() {
        check(
            "|v: vec[i64], k: i64| result(for(nditer(v, [1L, 0L, 0L], [2L, k, 4L], [1L, 2L, 1L], [2L, k, 4L], [1L, 1L, 0L]),
               appender[i64], |b, i, x| merge(b, x * (i / 4L))))",
            expect![[r#"
                |v: vec[i64], k: i64|
                  let n = nd_count(len(v), [1L, 0L, 0L], [2L, k, 4L], [1L, 2L, 1L], [2L, k, 4L], [1L, 1L, 0L]);
                  result(for(
                    rangeiter(1L, select(n > 0L, 2L, 1L), 1L),
                    appender[i64](n),
                    |b, k_2, c|
                      for(
                        rangeiter(0L, k, 2L),
                        b,
                        |b_2, k_3, c_2|
                          let i = k_2 * ((k - 1L) / 2L + 1L) + k_3;
                          for(
                            rangeiter(0L, 4L, 1L),
                            b_2,
                            |b_3, k_4, c_3| merge(b_3, @(unchecked:true) lookup(v, c + c_2 + c_3 * 0L) * i)
                          )
                      )
                  ))
            "#]],
        );
    }

    #[test]
    fn a_zip_of_views() {
        check(
            "|v: vec[i64], w: vec[i64]| let n = [2L, 2L]; let from = [0L, 0L]; let by = [1L, 1L];
             result(for(zip(nditer(v, from, n, by, n, [2L, 1L]), nditer(w, from, n, by, n, [1L, 2L])),
               merger[i64,+], |b, i, x| merge(b, x.$0 * x.$1)))",
            expect![[r#"
                |v: vec[i64], w: vec[i64]|
                  let n = nd_count(len(w), [0L, 0L], [2L, 2L], [1L, 1L], [2L, 2L], [1L, 2L]);
                  result(for(
                    rangeiter(
                      0L,
                      select(nd_count(len(v), [0L, 0L], [2L, 2L], [1L, 1L], [2L, 2L], [2L, 1L]) > 0L, 2L, 0L),
                      1L
                    ),
                    merger[i64,+],
                    |b, k, c|
                      for(
                        rangeiter(0L, 2L, 1L),
                        b,
                        |b_2, k_2, c_2|
                          let x = {
                            @(unchecked:true) lookup(v, c * 2L + c_2),
                            @(unchecked:true) lookup(w, c + c_2 * 2L)
                          };
                          merge(b_2, x.$0 * x.$1)
                      )
                  ))
            "#]],
        );
    }

    #[test]
    fn lists_of_unknown_length_stay() {
        check(
            "|v: vec[i64], n: vec[i64]| result(for(nditer(v, n, n, n, n, n), merger[i64,+], |b, i, x| merge(b, x)))",
            expect![[r#"
                |v: vec[i64], n: vec[i64]|
                  result(for(nditer(v, n, n, n, n, n), merger[i64,+], |b, i, x| merge(b, x)))
            "#]],
        );
    }
}
