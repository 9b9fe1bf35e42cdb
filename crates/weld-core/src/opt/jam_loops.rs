//! Takes four iterations of a loop at once where each adds up products with the same vector.
//!
//! ```weld
//! |w: vec[f32], x: vec[f32]| result(for(rangeiter(0L, 8L, 1L), appender[f32], |b, i, e|
//!   merge(b, result(for(zip(slice(w, i * 64L, 64L), x), merger[f32,+], |m, j, y| merge(m, y.$0 * y.$1))))))
//! =>
//! |w: vec[f32], x: vec[f32]| result(for(rangeiter(0L, 8L, 4L), appender[f32], |b, i, e|
//!   let ms = for(zip(x, slice(w, e * 64L, 64L), slice(w, (e + 1L) * 64L, 64L), .. four in all), {merger[f32,+], ..},
//!     |m, j, y| {merge(m.$0, y.$1 * y.$0), merge(m.$1, y.$2 * y.$0), ..});
//!   merge(merge(merge(merge(b, result(ms.$0)), result(ms.$1)), result(ms.$2)), result(ms.$3))))
//! ```
//!
//! Law: an iteration's reduction reads no builder of the loop, so those of four iterations can be done together, before
//! these iterations merge in their order. Each still merges its own elements in their order. `x` is read once for four,
//! and what a reduction costs beside its elements (its checks, and adding up the lanes of a vector register) overlaps.
//!
//! Where the number of iterations is a literal, the elements beside the `rangeiter` are those of vectors, and the
//! reduction is a scalar merger over a zip of slices of at least [`LENGTH_MIN`] elements with at least one vector from
//! outside of the loop.

use std::collections::HashSet;

use super::Config;
use super::facts::{can_fail, has_function, join_blocks, strict_children};
use super::fuse_loops::fresh_func;
use crate::ir::{Binding, Expr, ExprKind, Func, Iter, Literal, Names, Program, Sym, build};
use crate::ty::{BuilderType, Type};

/// Iterations that are taken at once.
const WIDTH: i64 = 4;
const LENGTH_MIN: i64 = 16;
/// Nodes of an iteration, which is there five times afterwards.
const SIZE_MAX: usize = 120;

pub(super) fn run(program: &mut Program, _: &Config) {
    let names = &mut program.names;
    program.body.rewrite(&mut |e| {
        if let Some(jammed) = jam(e, names) {
            *e = jammed;
        }
    });
    join_blocks(&mut program.body);
}

fn jam(e: &Expr, names: &mut Names) -> Option<Expr> {
    let ExprKind::For { iter, builder, func } = &e.kind else { return None };
    let (count, parts) = counted(iter)?;
    if count < 2 * WIDTH || func.body.size() > SIZE_MAX {
        return None;
    }
    Split::of(func.clone(), names)?;
    let mut bindings = Vec::new();
    let vectors: Vec<Option<Expr>> =
        parts.into_iter().map(|part| part.map(|vector| named(vector.clone(), "v", &mut bindings, names))).collect();
    // Vectors of other lengths were an error of `zip`.
    for vector in vectors.iter().flatten() {
        let message = "zip needs equal lengths, found {0} and {1}";
        let same = build::eq(build::len(vector.clone()), build::i64(count));
        let value = build::require(same, message, [build::i64(count), build::len(vector.clone())]);
        bindings.push(Binding { sym: names.fresh("checked"), value });
    }
    let whole = count - count % WIDTH;
    let at_once = build::for_func(
        build::range(build::i64(0), build::i64(whole), build::i64(WIDTH)),
        (**builder).clone(),
        several(func, &vectors, WIDTH, names)?,
    );
    let mut all = at_once;
    if whole < count {
        let rest = build::range(build::i64(whole), build::i64(count), build::i64(1));
        all = build::for_func(rest, all, several(func, &vectors, 1, names)?);
    }
    all.annotations = e.annotations.clone();
    Some(build::let_in(bindings, all))
}

/// How many iterations `rangeiter(0, n, 1)` makes, alone or beside vectors; the part that it is has none.
fn counted(iter: &Iter) -> Option<(i64, Vec<Option<&Expr>>)> {
    let parts = match iter {
        Iter::Zip(parts) => &parts[..],
        one => std::slice::from_ref(one),
    };
    let mut count = None;
    let mut vectors = Vec::new();
    for part in parts {
        match part {
            Iter::Vector(data) => vectors.push(Some(data)),
            Iter::Range { start, end, stride } => {
                if (literal(start)?, literal(stride)?) != (0, 1) {
                    return None;
                }
                count = Some(literal(end)?);
                vectors.push(None);
            }
            _ => return None,
        }
    }
    Some((count?, vectors))
}

fn literal(e: &Expr) -> Option<i64> {
    match e.kind {
        ExprKind::Literal(Literal::I64(value)) => Some(value),
        _ => None,
    }
}

/// The value by a name.
fn named(value: Expr, name: &str, bindings: &mut Vec<Binding>, names: &mut Names) -> Expr {
    if let ExprKind::Var(_) = value.kind {
        return value;
    }
    let sym = names.fresh(name);
    let variable = build::var(sym, value.ty.clone());
    bindings.push(Binding { sym, value });
    variable
}

/// So many iterations of the function as one, over a range of the first one's numbers.
fn several(func: &Func, vectors: &[Option<Expr>], width: i64, names: &mut Names) -> Option<Func> {
    let builder_type = func.params[0].1.clone();
    let [all, number, first] = ["b", "i", "e"].map(|name| names.fresh(name));
    let mut bindings = Vec::new();
    let mut splits = Vec::new();
    for k in 0..width {
        let copy = fresh_func(func, names);
        let mut split = Split::of(copy, names)?;
        let at = build::add(build::var(first, Type::I64), build::i64(k));
        let at = named(if k == 0 { build::var(first, Type::I64) } else { at }, "e", &mut bindings, names);
        let [_, index, element] = split.params;
        bindings.push(Binding { sym: index, value: at.clone() });
        bindings.push(Binding { sym: element, value: element_at(vectors, &at) });
        bindings.append(&mut split.before);
        splits.push(split);
    }
    let reductions: Vec<&Expr> = splits.iter().map(|split| &split.reduction).collect();
    let joined = joined(&reductions, &splits[0].outer, names)?;
    let sums = named(joined, "ms", &mut bindings, names);
    let mut current = build::var(all, builder_type.clone());
    for (k, split) in splits.into_iter().enumerate() {
        bindings.push(Binding { sym: split.sum, value: build::result(build::field(sums.clone(), k)) });
        bindings.push(Binding { sym: split.params[0], value: current });
        current = split.rest;
        if let ExprKind::Let { bindings: inner, body } = &mut current.kind {
            bindings.append(inner);
            current = body.take();
        }
    }
    let params = vec![(all, builder_type), (number, Type::I64), (first, Type::I64)];
    Some(Func { params, body: Box::new(build::let_in(bindings, current)) })
}

/// What the loop's function is given as its element: there are as many in each vector as iterations.
fn element_at(vectors: &[Option<Expr>], at: &Expr) -> Expr {
    let part = |vector: &Option<Expr>| match vector {
        None => at.clone(),
        Some(vector) => {
            let mut element = build::lookup(vector.clone(), at.clone());
            if let ExprKind::Lookup { checked, .. } = &mut element.kind {
                *checked = false;
            }
            element
        }
    };
    match vectors {
        [one] => part(one),
        _ => build::strct(vectors.iter().map(part)),
    }
}

/// An iteration in three parts: what its reduction needs, the reduction, and what is left, which takes its value.
struct Split {
    params: [Sym; 3],
    before: Vec<Binding>,
    reduction: Expr,
    sum: Sym,
    rest: Expr,
    /// Of the zip of the reduction's loop, the parts that are the same in all iterations.
    outer: Vec<bool>,
}

impl Split {
    fn of(func: Func, names: &mut Names) -> Option<Split> {
        let params: [Sym; 3] = [0, 1, 2].map(|k| func.params[k].0);
        let mut own: HashSet<Sym> = params.into_iter().collect();
        func.body.walk(&mut |e| {
            e.each_bound(&mut |sym| {
                own.insert(sym);
            });
        });
        let (mut bindings, mut body) = match *func.body {
            Expr { kind: ExprKind::Let { bindings, body }, .. } => (bindings, *body),
            other => (Vec::new(), other),
        };
        let mut found = None;
        for at in 0..=bindings.len() {
            let value = bindings.get_mut(at).map_or(&mut body, |binding| &mut binding.value);
            if let Some(reduction) = take_reduction(value, &own, names) {
                found = Some((at, reduction));
                break;
            }
        }
        let (at, (reduction, sum, outer)) = found?;
        let after = bindings.split_off(at);
        if bindings.iter().any(|binding| binding.value.uses(params[0])) {
            return None;
        }
        Some(Split { params, before: bindings, reduction, sum, rest: build::let_in(after, body), outer })
    }
}

/// Takes the first reduction that is always evaluated, and leaves a variable in its place.
fn take_reduction(e: &mut Expr, own: &HashSet<Sym>, names: &mut Names) -> Option<(Expr, Sym, Vec<bool>)> {
    if let Some(outer) = reduction(e, own) {
        let sum = names.fresh("sum");
        let variable = build::var(sum, e.ty.clone());
        return Some((std::mem::replace(e, variable), sum, outer));
    }
    if matches!(e.kind, ExprKind::Let { .. }) || has_function(e) {
        return None;
    }
    let strict = strict_children(e);
    e.children_mut().into_iter().take(strict).find_map(|child| take_reduction(child, own, names))
}

/// Which parts of the zip are from outside, if it is a loop that reduces a zip of slices and of such vectors.
fn reduction(e: &Expr, own: &HashSet<Sym>) -> Option<Vec<bool>> {
    let ExprKind::Result(of) = &e.kind else { return None };
    let ExprKind::For { iter, builder, func } = &of.kind else { return None };
    let ExprKind::NewBuilder { arg } = &builder.kind else { return None };
    let Type::Builder(BuilderType::Merger { value, .. }) = &builder.ty else { return None };
    let Iter::Zip(parts) = &**iter else { return None };
    let is_simple =
        value.as_scalar().is_some() && arg.as_ref().is_none_or(|arg| matches!(arg.kind, ExprKind::Literal(_)));
    let mut has_loop = false;
    func.body.walk(&mut |e| has_loop |= has_function(e));
    if !is_simple || has_loop || can_fail(&func.body) {
        return None;
    }
    let is_outer = |part: &Iter| match part {
        Iter::Vector(data) => match &data.kind {
            ExprKind::Var(sym) => (!own.contains(sym)).then_some(true),
            ExprKind::Slice { size, .. } => literal(size).filter(|size| *size >= LENGTH_MIN).map(|_| false),
            _ => None,
        },
        _ => None,
    };
    let outer = parts.iter().map(is_outer).collect::<Option<Vec<bool>>>()?;
    (outer.contains(&true) && outer.contains(&false)).then_some(outer)
}

/// The loops of the reductions as one into all of their mergers; their parts from outside are read once.
fn joined(reductions: &[&Expr], outer: &[bool], names: &mut Names) -> Option<Expr> {
    let [all, index, row] = ["m", "j", "y"].map(|name| names.fresh(name));
    let mut parts: Vec<Iter> = Vec::new();
    let (mut builders, mut funcs, mut fields) = (Vec::new(), Vec::new(), Vec::new());
    for (k, reduction) in reductions.iter().enumerate() {
        let ExprKind::Result(of) = &reduction.kind else { return None };
        let ExprKind::For { iter, builder, func } = &of.kind else { return None };
        let Iter::Zip(own) = &**iter else { return None };
        let mut places = Vec::new();
        for (at, part) in own.iter().enumerate() {
            match (outer[at], fields.first()) {
                (true, Some(first)) => {
                    let first: &Vec<usize> = first;
                    places.push(first[at]);
                }
                _ => {
                    places.push(parts.len());
                    parts.push(part.clone());
                }
            }
        }
        fields.push(places);
        builders.push((**builder).clone());
        funcs.push((k, func));
    }
    let iter = Iter::Zip(parts);
    let (element, ty) = (iter.element_type(), Type::structure(builders.iter().map(|builder| builder.ty.clone())));
    let bodies = funcs.into_iter().map(|(k, func)| {
        let merger = build::field(build::var(all, ty.clone()), k);
        let part = |place: &usize| build::field(build::var(row, element.clone()), *place);
        let own = build::strct(fields[k].iter().map(part));
        func.apply(vec![merger, build::var(index, Type::I64), own], names)
    });
    let body = Box::new(build::strct(bodies.collect::<Vec<_>>()));
    let params = vec![(all, ty), (index, Type::I64), (row, element)];
    let ExprKind::Result(of) = &reductions[0].kind else { return None };
    let mut joined = build::for_func(iter, build::strct(builders), Func { params, body });
    joined.annotations = of.annotations.clone();
    Some(joined)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::super::{inline_lets, simplify};

    fn check(before: &str, after: Expect) {
        let passes = [super::run, inline_lets::run, simplify::run, inline_lets::run];
        super::super::testing::check_after(&passes, before, &after);
    }

    fn stays(text: &str) {
        let program = crate::parse_program(text).expect("a program");
        let mut jammed = program.clone();
        super::run(&mut jammed, &super::Config::default());
        assert_eq!(program.to_string(), jammed.to_string());
    }

    #[test]
    fn rows_of_a_matrix() {
        check(
            "|w: vec[f32], x: vec[f32], c: vec[f32]| result(for(zip(rangeiter(0L, 9L, 1L), c), appender[f32], |b, i, e|
                let p = result(for(zip(slice(w, i * 20L, 20L), x), merger[f32,+](0.5f), |m, j, y| merge(m, y.$0 * y.$1)));
                merge(b, p + e.$1)))",
            expect![[r#"
                |w: vec[f32], x: vec[f32], c: vec[f32]|
                  let checked = require(len(c) == 9L, "zip needs equal lengths, found {0} and {1}", 9L, len(c));
                  result(for(
                    rangeiter(8L, 9L, 1L),
                    for(
                      rangeiter(0L, 8L, 4L),
                      appender[f32],
                      |b_2, i_2, e_2|
                        let e_3 = e_2 + 1L;
                        let e_4 = e_2 + 2L;
                        let e_5 = e_2 + 3L;
                        let ms = for(
                          zip(
                            slice(w, e_2 * 20L, 20L),
                            x,
                            slice(w, e_3 * 20L, 20L),
                            slice(w, e_4 * 20L, 20L),
                            slice(w, e_5 * 20L, 20L)
                          ),
                          {merger[f32,+](0.5f), merger[f32,+](0.5f), merger[f32,+](0.5f), merger[f32,+](0.5f)},
                          |m, j, y|
                            {
                              merge(m.$0, y.$0 * y.$1),
                              merge(m.$1, y.$2 * y.$1),
                              merge(m.$2, y.$3 * y.$1),
                              merge(m.$3, y.$4 * y.$1)
                            }
                        );
                        merge(
                          merge(
                            merge(
                              merge(b_2, result(ms.$0) + @(unchecked:true) lookup(c, e_2)),
                              result(ms.$1) + @(unchecked:true) lookup(c, e_3)
                            ),
                            result(ms.$2) + @(unchecked:true) lookup(c, e_4)
                          ),
                          result(ms.$3) + @(unchecked:true) lookup(c, e_5)
                        )
                    ),
                    |b, i, e|
                      merge(
                        b,
                        result(for(
                          zip(slice(w, e * 20L, 20L), x),
                          {merger[f32,+](0.5f)},
                          |m_2, j_2, y_2| {merge(m_2.$0, y_2.$0 * y_2.$1)}
                        ).$0) +
                        @(unchecked:true) lookup(c, e)
                      )
                  ))
            "#]],
        );
    }

    #[test]
    fn what_is_not_counted_or_not_shared_stays() {
        let reduction = |iter: &str| format!("result(for({iter}, merger[f32,+], |m, j, y| merge(m, y.$0 * y.$1)))");
        let over = |outer: &str, iter: &str| {
            format!(
                "|w: vec[f32], x: vec[f32], n: i64| result(for({outer}, appender[f32], |b, i, e| merge(b, {})))",
                reduction(iter)
            )
        };
        let counted = "rangeiter(0L, 32L, 1L)";
        stays(&over("rangeiter(0L, n, 1L)", "zip(slice(w, i * 20L, 20L), x)"));
        stays(&over("rangeiter(0L, 7L, 1L)", "zip(slice(w, i * 20L, 20L), x)"));
        stays(&over(counted, "zip(slice(w, i * 8L, 8L), x)"));
        stays(&over(counted, "zip(slice(w, i * 20L, 20L), slice(x, i * 20L, 20L))"));
        stays(&over(counted, "zip(w, x)"));
        stays(
            "|w: vec[f32], x: vec[f32]| result(for(rangeiter(0L, 32L, 1L), merger[f32,+], |b, i, e|
            if(i > 3L, merge(b, result(for(zip(slice(w, i, 20L), x), merger[f32,+], |m, j, y| merge(m, y.$0)))), b)))",
        );
    }
}
