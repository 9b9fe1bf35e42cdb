//! Arrays made point by point, and sums over axes.
//!
//! `contract` of a matrix's rows with a vector, 32 by 128, is
//! ```weld
//! result(for(rangeiter(0L, 32L, 1L), appender[f32](32L), |b, i, o|
//!   merge(b, result(for(zip(slice(w, o * 128L, 128L), x), merger[f32,+](0.0f), |s, k, e| merge(s, e.$0 * e.$1))))))
//! ```

use weld_core::ir::{Expr, ExprKind, Func, Iter, Names, build};
use weld_core::op::{MergeOp, ReduceOp};
use weld_core::ty::{BuilderType, ScalarKind, Type};

use crate::{Size, View};

/// Makes a value of the elements that the views have at a point.
pub type Term<'a> = &'a mut dyn FnMut(&mut Names, &[Expr]) -> Expr;

/// Makes a result's element of what was reduced and the elements of the views that the reduced axes leave alone (of the
/// others a zero).
pub type Finish<'a> = &'a mut dyn FnMut(&mut Names, Expr, &[Expr]) -> Expr;

/// How the terms of the inner axes are put together.
pub enum Fold<'a> {
    /// By a commutative operation from a start, in any order.
    Merge { op: ReduceOp, start: Expr },
    /// In order: `step(so far, term)`, from what `start` makes of the elements of views that the inner axes leave
    /// alone.
    Steps { start: Term<'a>, step: &'a mut dyn FnMut(&mut Names, Expr, Expr) -> Expr },
}

impl Fold<'_> {
    /// By an operation, from a number.
    pub fn merge(op: ReduceOp, kind: ScalarKind, start: f64) -> Fold<'static> {
        Fold::Merge { op, start: number(kind, start) }
    }
}

impl std::fmt::Debug for Fold<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fold::Merge { op, .. } => write!(f, "Merge({op:?})"),
            Fold::Steps { .. } => f.write_str("Steps"),
        }
    }
}

fn number(kind: ScalarKind, value: f64) -> Expr {
    match kind {
        ScalarKind::F32 => build::lit(weld_core::ir::Literal::F32(value as f32)),
        ScalarKind::F64 => build::f64(value),
        kind => build::number(kind, value as i128),
    }
}

/// The row-major `vec[element]` of the term at every point of the space. Views have a stride for each axis of it.
pub fn map(names: &mut Names, element: ScalarKind, sizes: &[Size], views: Vec<View>, term: Term<'_>) -> Expr {
    let mut nest = Nest::new(element, sizes, &[], views);
    let mut value = |names: &mut Names, _: &[View], elements: &[Option<Expr>]| {
        let elements: Vec<Expr> = elements.iter().flatten().cloned().collect();
        term(names, &elements)
    };
    nest.outer(names, &mut value)
}

/// The row-major `vec[element]` over the outer axes of what the inner axes' terms come to. Views have a stride for each
/// outer axis, then for each inner one.
#[expect(
    clippy::too_many_arguments,
    reason = "a kernel has these parts; a struct of them would be built at once and taken apart"
)]
pub fn contract(
    names: &mut Names,
    element: ScalarKind,
    outer: &[Size],
    inner: &[Size],
    views: Vec<View>,
    fold: Fold<'_>,
    term: Term<'_>,
    finish: Finish<'_>,
) -> Expr {
    let mut nest = Nest::new(element, outer, inner, views);
    let mut value = reduced(element, nest.inner.clone(), nest.outer.len(), fold, term, finish);
    nest.outer(names, &mut value)
}

/// [`contract`] without outer axes: the one number.
pub fn reduce(
    names: &mut Names,
    element: ScalarKind,
    inner: &[Size],
    views: Vec<View>,
    fold: Fold<'_>,
    term: Term<'_>,
    finish: Finish<'_>,
) -> Expr {
    let nest = Nest::new(element, &[], inner, views);
    let mut value = reduced(element, nest.inner.clone(), nest.outer.len(), fold, term, finish);
    nest.cell(names, &mut value)
}

/// What makes an element: the reduction of the inner axes, finished.
fn reduced<'f, 't, 'g>(
    element: ScalarKind,
    inner: Vec<Size>,
    first: usize,
    mut fold: Fold<'f>,
    term: Term<'t>,
    finish: Finish<'g>,
) -> impl FnMut(&mut Names, &[View], &[Option<Expr>]) -> Expr + use<'f, 't, 'g> {
    move |names, views, elements| {
        let zero = || build::number(element, 0);
        let outside: Vec<Expr> = elements.iter().map(|e| e.clone().unwrap_or_else(zero)).collect();
        let reduced = match &mut fold {
            Fold::Merge { start, .. } if inner.iter().any(Size::is_zero) => start.clone(),
            Fold::Merge { op, start } => {
                let ty = BuilderType::Merger { value: Type::Scalar(element).into(), op: MergeOp::All(*op) };
                let merger = build::builder_with(ty, start.clone());
                build::result(inner_loops(names, &inner, first, views.to_vec(), elements, merger, term))
            }
            Fold::Steps { start, step } => {
                let start = start(names, &outside);
                steps(names, &inner, first, views, start, &mut |names, so_far, elements| {
                    let term = term(names, elements);
                    step(names, so_far, term)
                })
            }
        };
        finish(names, reduced, &outside)
    }
}

/// Loops over the outer axes; made with the axes joined that can be.
struct Nest {
    element: ScalarKind,
    outer: Vec<Size>,
    inner: Vec<Size>,
    views: Vec<View>,
}

/// The value of an element, of the views at this point and the elements of those that have no stride left.
type Value<'a> = &'a mut dyn FnMut(&mut Names, &[View], &[Option<Expr>]) -> Expr;

impl Nest {
    fn new(element: ScalarKind, outer: &[Size], inner: &[Size], mut views: Vec<View>) -> Nest {
        let mut outer = outer.to_vec();
        let mut inner = inner.to_vec();
        join(&mut inner, outer.len(), &mut views);
        join(&mut outer, 0, &mut views);
        Nest { element, outer, inner, views }
    }

    fn outer(&mut self, names: &mut Names, value: Value<'_>) -> Expr {
        let ty = Type::Scalar(self.element);
        if self.outer.iter().any(Size::is_zero) {
            return build::vector(ty, []);
        }
        let views = self.views.clone();
        let Some(last) = self.outer.len().checked_sub(1) else {
            let cell = self.cell(names, value);
            return build::vector(ty, [cell]);
        };
        let appender = build::appender_sized(ty, Size::product(&self.outer).expr());
        build::result(self.level(names, 0, last, views, appender, value))
    }

    /// The value at the only point of the outer axes.
    fn cell(&self, names: &mut Names, value: Value<'_>) -> Expr {
        with_elements(names, &self.views, 0, |names, elements| value(names, &self.views, elements))
    }

    /// The loop over outer axis `axis` and those after it, into `builder`.
    fn level(
        &self,
        names: &mut Names,
        axis: usize,
        last: usize,
        views: Vec<View>,
        builder: Expr,
        value: Value<'_>,
    ) -> Expr {
        let size = &self.outer[axis];
        if axis < last {
            return range(names, size, builder, |names, builder, at| {
                let views = views.iter().map(|view| view.moved(axis, at)).collect();
                self.level(names, axis + 1, last, views, builder, value)
            });
        }
        let leaf = |view: &View| view.strides[axis + 1..].iter().all(Size::is_zero);
        row(names, axis, size, &views, &leaf, builder, &mut |names, builder, at, elements| {
            let views: Vec<View> = views.iter().map(|view| view.moved(axis, at)).collect();
            build::merge(builder, value(names, &views, elements))
        })
    }
}

/// Joins neighbouring axes, from `first` on, that are one behind the other in all views, and drops axes of one point.
fn join(sizes: &mut Vec<Size>, first: usize, views: &mut [View]) {
    let mut axis = 0;
    while axis < sizes.len() {
        let at = first + axis;
        let joins = |view: &View| view.strides[at].same(&view.strides[at + 1].times(&sizes[axis + 1]));
        if sizes[axis].is_one() {
            sizes.remove(axis);
            views.iter_mut().for_each(|view| drop(view.strides.remove(at)));
            axis = axis.saturating_sub(1);
        } else if axis + 1 < sizes.len() && !sizes[axis + 1].is_one() && views.iter().all(joins) {
            sizes[axis + 1] = sizes[axis].times(&sizes[axis + 1]);
            sizes.remove(axis);
            views.iter_mut().for_each(|view| drop(view.strides.remove(at)));
            axis = axis.saturating_sub(1);
        } else {
            axis += 1;
        }
    }
}

/// `for(rangeiter(0L, size, 1L), builder, ..)` with the coordinate.
pub(crate) fn range(
    names: &mut Names,
    size: &Size,
    builder: Expr,
    body: impl FnOnce(&mut Names, Expr, &Expr) -> Expr,
) -> Expr {
    let iter = build::range(build::i64(0), size.expr(), build::i64(1));
    build::for_(names, iter, builder, |names, builder, _, at| body(names, builder, &at))
}

/// The elements of the views that have no stride from `axis` on are read once.
fn with_elements(
    names: &mut Names,
    views: &[View],
    axis: usize,
    body: impl FnOnce(&mut Names, &[Option<Expr>]) -> Expr,
) -> Expr {
    let mut bindings = Vec::new();
    let mut elements = Vec::new();
    for view in views {
        let fixed = view.strides[axis..].iter().all(Size::is_zero);
        elements.push(fixed.then(|| {
            let value = view.element();
            let sym = names.fresh("e");
            let variable = build::var(sym, value.ty.clone());
            bindings.push(weld_core::ir::Binding { sym, value });
            variable
        }));
    }
    let body = body(names, &elements);
    build::let_in(bindings, body)
}

/// The body of a row: builder, coordinate, elements.
type Row<'a> = &'a mut dyn FnMut(&mut Names, Expr, &Expr, &[Option<Expr>]) -> Expr;

/// The loop over an axis, in step with the views that have a stride along it and none behind it.
fn row(
    names: &mut Names,
    axis: usize,
    size: &Size,
    views: &[View],
    leaf: &dyn Fn(&View) -> bool,
    builder: Expr,
    body: Row<'_>,
) -> Expr {
    with_elements(names, views, axis, |names, fixed| {
        let runs = |view: &&View| leaf(view) && !view.strides[axis].is_zero();
        let mut parts: Vec<Iter> = views.iter().filter(runs).map(|view| view.along(axis, size)).collect();
        let count = parts.len();
        let iter = match count {
            0 => build::range(build::i64(0), size.expr(), build::i64(1)),
            1 => parts.remove(0),
            _ => Iter::Zip(parts),
        };
        let (builder_ty, element) = (builder.ty.clone(), iter.element_type());
        let (b, i, x) = (names.fresh("b"), names.fresh("i"), names.fresh("x"));
        let whole = build::var(x, element.clone());
        let mut place = 0;
        let elements: Vec<Option<Expr>> = views
            .iter()
            .zip(fixed)
            .map(|(view, fixed)| {
                if !runs(&view) {
                    return fixed.clone();
                }
                place += 1;
                Some(if count == 1 { whole.clone() } else { build::field(whole.clone(), place - 1) })
            })
            .collect();
        let body = body(names, build::var(b, builder_ty.clone()), &build::var(i, Type::I64), &elements);
        let func = Func { params: vec![(b, builder_ty), (i, Type::I64), (x, element)], body: Box::new(body) };
        build::for_func(iter, builder, func)
    })
}

/// The loops over the inner axes, into a merger. `outside` are the elements that are known already.
fn inner_loops(
    names: &mut Names,
    inner: &[Size],
    first: usize,
    views: Vec<View>,
    outside: &[Option<Expr>],
    builder: Expr,
    term: Term<'_>,
) -> Expr {
    let all = |inside: &[Option<Expr>]| -> Vec<Expr> {
        let one = |(inside, outside): (&Option<Expr>, &Option<Expr>)| outside.clone().or_else(|| inside.clone());
        inside.iter().zip(outside).filter_map(one).collect()
    };
    match inner {
        [] => build::merge(builder, term(names, &all(&vec![None; views.len()]))),
        [size] => {
            // What was read outside is not read again.
            let inside: Vec<View> = views
                .iter()
                .zip(outside)
                .map(|(view, known)| match known {
                    Some(_) => View { strides: vec![Size::known(0); view.strides.len()], ..view.clone() },
                    None => view.clone(),
                })
                .collect();
            let leaf = |view: &View| view.strides[first..].iter().any(|stride| !stride.is_zero());
            inner_row(names, first, size, &inside, outside, &leaf, builder, term)
        }
        [size, rest @ ..] => range(names, size, builder, |names, builder, at| {
            let mut views: Vec<View> = views.iter().map(|view| view.moved(first, at)).collect();
            views.iter_mut().for_each(|view| drop(view.strides.remove(first)));
            inner_loops(names, rest, first, views, outside, builder, term)
        }),
    }
}

#[expect(clippy::too_many_arguments, reason = "one caller, which has all of them")]
fn inner_row(
    names: &mut Names,
    axis: usize,
    size: &Size,
    views: &[View],
    outside: &[Option<Expr>],
    leaf: &dyn Fn(&View) -> bool,
    builder: Expr,
    term: Term<'_>,
) -> Expr {
    // Only the views that are not read yet take part.
    let open: Vec<usize> = (0..views.len()).filter(|i| outside[*i].is_none()).collect();
    let part: Vec<View> = open.iter().map(|i| views[*i].clone()).collect();
    row(names, axis, size, &part, leaf, builder, &mut |names, builder, _, elements| {
        let mut all: Vec<Option<Expr>> = outside.to_vec();
        for (i, element) in open.iter().zip(elements) {
            all[*i] = element.clone();
        }
        let all: Vec<Expr> = all.into_iter().flatten().collect();
        build::merge(builder, term(names, &all))
    })
}

/// An `iterate` over the inner points in order.
fn steps(
    names: &mut Names,
    inner: &[Size],
    first: usize,
    views: &[View],
    start: Expr,
    step: &mut dyn FnMut(&mut Names, Expr, &[Expr]) -> Expr,
) -> Expr {
    let total = Size::product(inner);
    if total.is_zero() {
        return start;
    }
    build::let_(names, "start", start, |names, start| {
        let state = build::strct([build::i64(0), start.clone()]);
        let run = build::iterate(names, state, |names, state| {
            let at = build::field(state.clone(), 0);
            let mut views = views.to_vec();
            let mut behind = Size::known(1);
            for (k, size) in inner.iter().enumerate().rev() {
                let mut coordinate = at.clone();
                if !behind.is_one() {
                    coordinate = build::div(coordinate, behind.expr());
                }
                if k > 0 {
                    coordinate = build::rem(coordinate, size.expr());
                }
                views = views.iter().map(|view| view.moved(first + k, &coordinate)).collect();
                behind = size.times(&behind);
            }
            let elements: Vec<Expr> = views.iter().map(View::element).collect();
            let value = step(names, build::field(state, 1), &elements);
            let next = build::add(at, build::i64(1));
            let more = build::lt(next.clone(), total.expr());
            build::strct([build::strct([next, value]), more])
        });
        let value = build::field(run, 1);
        match total.as_known() {
            Some(_) => value,
            None => build::if_(build::gt(total.expr(), build::i64(0)), value, start),
        }
    })
}

/// Whether the expression is a variable, which may be used several times.
pub(crate) fn is_variable(e: &Expr) -> bool {
    matches!(e.kind, ExprKind::Var(_))
}
