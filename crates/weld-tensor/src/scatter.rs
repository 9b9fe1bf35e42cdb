//! Terms that are merged into places of an array.

use weld_core::ir::{Expr, Names, build};
use weld_core::op::{MergeOp, ReduceOp};

use crate::contract::{Term, is_variable, range};
use crate::{Size, View};

/// How a term changes its place.
pub enum Place<'a> {
    /// By a commutative operation, in any order.
    Merge(ReduceOp),
    /// In the order of the points: the place's value and the term.
    Step(&'a mut dyn FnMut(&mut Names, Expr, Expr) -> Expr),
}

impl std::fmt::Debug for Place<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Merge(op) => write!(f, "Merge({op:?})"),
            Place::Step(_) => f.write_str("Step"),
        }
    }
}

/// `target.data`, a row-major array, after the term of every point of the space was put into the point's place in it.
/// The views have a stride for each axis of the space.
pub fn scatter(
    names: &mut Names,
    space: &[Size],
    target: &View,
    views: &[View],
    place: Place<'_>,
    term: Term<'_>,
) -> Expr {
    debug_assert!(is_variable(&target.data), "the data of a view is a variable");
    match place {
        Place::Merge(op) => {
            let builder = build::vec_merger(MergeOp::All(op), target.data.clone());
            build::result(level(names, space, 0, target.clone(), views.to_vec(), builder, term))
        }
        Place::Step(step) => in_order(names, space, target, views, step, term),
    }
}

fn level(
    names: &mut Names,
    space: &[Size],
    axis: usize,
    target: View,
    views: Vec<View>,
    builder: Expr,
    term: Term<'_>,
) -> Expr {
    let Some(size) = space.get(axis) else {
        let elements: Vec<Expr> = views.iter().map(View::element).collect();
        let value = term(names, &elements);
        let place = target.offset.unwrap_or_else(|| build::i64(0));
        return build::merge(builder, build::strct([place, value]));
    };
    range(names, size, builder, |names, builder, at| {
        let views = views.iter().map(|view| view.moved(axis, at)).collect();
        level(names, space, axis + 1, target.moved(axis, at), views, builder, term)
    })
}

fn in_order(
    names: &mut Names,
    space: &[Size],
    target: &View,
    views: &[View],
    step: &mut dyn FnMut(&mut Names, Expr, Expr) -> Expr,
    term: Term<'_>,
) -> Expr {
    let total = Size::product(space);
    if total.is_zero() {
        return target.data.clone();
    }
    let state = build::strct([build::i64(0), target.data.clone()]);
    let run = build::iterate(names, state, |names, state| {
        let at = build::field(state.clone(), 0);
        let mut views: Vec<View> = views.iter().cloned().chain([target.clone()]).collect();
        let mut behind = Size::known(1);
        for (axis, size) in space.iter().enumerate().rev() {
            let coordinate = build::rem(build::div(at.clone(), behind.expr()), size.expr());
            views = views.iter().map(|view| view.moved(axis, &coordinate)).collect();
            behind = size.times(&behind);
        }
        let place = views.pop().and_then(|target| target.offset).unwrap_or_else(|| build::i64(0));
        let elements: Vec<Expr> = views.iter().map(View::element).collect();
        let term = term(names, &elements);
        let data = build::field(state, 1);
        let value = step(names, build::lookup(data.clone(), place.clone()), term);
        let next = build::add(at, build::i64(1));
        let more = build::lt(next.clone(), total.expr());
        build::strct([build::strct([next, build::update(data, place, value)]), more])
    });
    let data = build::field(run, 1);
    match total.as_known() {
        Some(_) => data,
        None => build::if_(build::gt(total.expr(), build::i64(0)), data, target.data.clone()),
    }
}
