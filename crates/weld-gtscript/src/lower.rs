//! Groups of statements to loops of Weld.
//!
//! ```weld
//! # b = a[1, 0, 0] + a[-1, 0, 0] over a part of b:
//! result(for(rangeiter(i0, i1, 1L), for(<b before the domain>, appender[f64](size), ..), |b, _, i|
//!   <margin of the row>(for(rangeiter(j0, j1, 1L), b, |b, _, j|
//!     <margin of the column>(for(zip(iter(a, ..), iter(a, ..)), <margin of the column>(b), |b, _, x| merge(b, x.$0 + x.$1)))))))
//! ```
//!
//! Every field that is written is a new vector: what is written takes its place between what stays.

use std::collections::{HashMap, HashSet};

use weld_core::diag::{Diagnostic, Span};
use weld_core::ir::{Expr, Func, Iter, build};
use weld_core::ty::Type;
use weld_frontend::{Flow, Sources};

use crate::args::{Array, Frame};
use crate::domain::{Run, level};
use crate::infer::Types;
use crate::needed::Written;
use crate::plan::{Plan, Unit, UnitKind, as_points};
use crate::sizes::{Cond, Int};
use crate::tree::{Block, Extent, FieldId, Policy, Stencil, Stmt, StmtKind};

pub(crate) struct Lower<'s> {
    pub(crate) stencil: &'s Stencil,
    pub(crate) types: Types<'s>,
    pub(crate) flow: Flow,
    pub(crate) sources: Sources,
    pub(crate) arrays: Vec<Option<Array>>,
    /// Where the data of each field is or would be.
    pub(crate) frames: Vec<Option<Frame>>,
    pub(crate) domain: [Int; 3],
    pub(crate) scalars: Vec<Option<Expr>>,
    /// Whether there is anything to do; all checks have passed then.
    pub(crate) run: Run,
    /// The points of all fields are levels of one column.
    pub(crate) is_row: bool,
    pub(crate) nodes_left: usize,
    pub(crate) error: Option<Diagnostic>,
}

/// What a loop over columns does at one of them.
pub(crate) struct Column {
    /// In the domain's coordinates; not there along axes that the group does not have.
    pub(crate) at: [Option<Expr>; 2],
    /// Columns that were written here.
    pub(crate) written: HashMap<FieldId, Written>,
    /// Where columns begin in their fields.
    pub(crate) bases: HashMap<(FieldId, [i32; 2]), Int>,
    /// Fields that the group writes on a part of its columns: whether this one is there.
    pub(crate) narrow: HashMap<FieldId, Expr>,
}

/// The columns of a group.
struct Columns {
    /// Of all statements, and of those that write a field.
    extent: Extent,
    own: HashMap<FieldId, Extent>,
    axes: [bool; 2],
    /// Whether they are looped over.
    run: Cond,
}

/// Columns along I and J, from and to, in the domain's coordinates; none along axes that the group does not have.
type Ranges = [Option<[Int; 2]>; 2];

impl<'s> Lower<'s> {
    /// All statements, in order.
    pub(crate) fn run(&mut self, plans: &[Plan<'s>]) {
        for (i, plan) in plans.iter().enumerate() {
            match plan {
                Plan::Group(units) => {
                    let kept = |field: FieldId| self.is_kept(field, &plans[i + 1..]);
                    let targets: Vec<FieldId> = group_targets(units).into_iter().filter(|field| kept(*field)).collect();
                    let bounds = units.iter().map(|unit| self.bounds(unit)).collect::<Vec<_>>();
                    self.group(units, &bounds, targets);
                }
                Plan::Stepwise(block) => self.stepwise(block),
            }
        }
    }

    /// Whether the data of a field is read after the group: by a later one, or by the caller.
    fn is_kept(&self, field: FieldId, later: &[Plan<'s>]) -> bool {
        self.stencil.fields[field].external
            || later.iter().any(|plan| match plan {
                Plan::Group(units) => units.iter().any(|unit| unit.reads(field)),
                Plan::Stepwise(block) => block.body.iter().any(|stmt| {
                    let mut reads = false;
                    stmt.each(&mut |stmt| reads |= stmt.reads().iter().any(|read| read.field == field));
                    reads || stmt.targets().contains(&field)
                }),
            })
    }

    fn bounds(&mut self, unit: &Unit<'_>) -> [Int; 2] {
        [level(unit.interval.start, &self.domain[2]), level(unit.interval.end, &self.domain[2])]
    }

    /// The loop over the columns of a group. `targets` are the fields whose data is made.
    fn group(&mut self, units: &[Unit<'s>], bounds: &[[Int; 2]], targets: Vec<FieldId>) {
        let targets = match targets.is_empty() {
            true if units.iter().any(|unit| self.unit_can_fail(unit)) => group_targets(units),
            _ => targets,
        };
        if targets.is_empty() {
            return;
        }
        match self.as_row(units, bounds) {
            Some(row) => {
                let units = as_points(units);
                let run = self.run_of(&units);
                let bounds = vec![[Int::Known(0), row.size[2].clone()]; units.len()];
                let frames = self.frames.clone();
                self.frames.iter_mut().for_each(|frame| *frame = Some(row.clone()));
                self.is_row = true;
                let results = self.group_over(&units, &bounds, &targets, [false; 2], run);
                (self.frames, self.is_row) = (frames, false);
                self.keep_results(targets, results);
            }
            None => {
                let run = self.run_of(units);
                let results = self.group_over(units, bounds, &targets, units[0].axes, run);
                self.keep_results(targets, results);
            }
        }
    }

    /// The one row that all fields of a group are, if it does the same at every point of all of them: one loop does it
    /// then.
    fn as_row(&mut self, units: &[Unit<'_>], bounds: &[[Int; 2]]) -> Option<Frame> {
        let domain = self.domain.clone();
        let is_whole = |field: FieldId| {
            let (frame, axes) = (self.frame(field), self.stencil.fields[field].axes);
            (0..3).all(|axis| {
                let is_there = axes[axis] || domain[axis].known() == Some(1);
                is_there && frame.origin[axis].known() == Some(0) && frame.size[axis].same(&domain[axis])
            })
        };
        let is_pointwise = |unit: &Unit<'_>| {
            let is_by_points = unit.kind == UnitKind::Points || domain[2].known() == Some(1);
            let mut all = is_by_points && unit.targets().iter().copied().all(is_whole);
            unit.stmts.iter().for_each(|stmt| {
                stmt.each(&mut |stmt| {
                    all &= stmt.extent == Extent::ZERO;
                    all &= stmt.reads().iter().all(|read| read.offset == [0; 3] && is_whole(read.field));
                });
            });
            all
        };
        let all_levels = |[start, end]: &[Int; 2]| start.known() == Some(0) && end.same(&domain[2]);
        let is_row = units[0].axes != [false; 2] && bounds.iter().all(all_levels) && units.iter().all(is_pointwise);
        is_row.then(|| {
            let total = domain[0].mul(&domain[1]).mul(&domain[2]);
            let [one, zero] = [1, 0].map(Int::Known);
            let total = bind(&mut self.flow, "total", total);
            Frame { size: [one.clone(), one, total], origin: [zero.clone(), zero.clone(), zero] }
        })
    }

    /// The data of each target once the loop has run.
    fn group_over(
        &mut self,
        units: &[Unit<'s>],
        bounds: &[[Int; 2]],
        targets: &[FieldId],
        axes: [bool; 2],
        run: Cond,
    ) -> Vec<Expr> {
        let columns = Columns { extent: units[0].extent, own: target_extents(units), axes, run };
        let ranges = self.ranges(&columns, columns.extent);
        let mut builders = Vec::new();
        for field in targets {
            let total = self.frame(*field).total();
            let builder = build::appender_sized(self.stencil.dtype(*field).ty(), total.expr());
            let own = self.ranges(&columns, columns.own[field]);
            let first = self.row_start(*field, &own, &own[0].as_ref().map(|range| range[0].clone()));
            let end = columns.run.choose(&first, &total);
            builders.push(self.copy(*field, builder, &Int::Known(0), &end));
        }
        let done = match &ranges[0] {
            Some([from, to]) => {
                let iter = build::range(from.expr(), to.expr(), build::i64(1));
                self.loop_over(iter, pack(builders), |lower, builder, i| {
                    let builders = lower.row(units, bounds, targets, builder, Some(i.clone()), &columns);
                    let pairs = builders.into_iter().zip(targets);
                    pack(pairs.map(|(builder, field)| lower.end_row(*field, builder, &i, &columns)).collect())
                })
            }
            None => pack(self.row(units, bounds, targets, pack(builders), None, &columns)),
        };
        let done = self.unpack(done, targets.len());
        let mut results = Vec::new();
        for (builder, field) in done.into_iter().zip(targets) {
            let total = self.frame(*field).total();
            let own = self.ranges(&columns, columns.own[field]);
            let from = match &own[0] {
                Some([_, to]) if self.covers_rows(*field, &own) => self.row_start(*field, &own, &Some(to.clone())),
                Some([_, to]) => self.row_start(*field, &own, &Some(to.clone())).min(&total),
                None => self.row_end_of_single(*field, &own),
            };
            let from = columns.run.choose(&from, &total);
            let builder = self.copy(*field, builder, &from, &total);
            results.push(build::result(builder));
        }
        results
    }

    fn keep_results(&mut self, targets: Vec<FieldId>, results: Vec<Expr>) {
        for (field, result) in targets.into_iter().zip(results) {
            let name = self.stencil.fields[field].name.clone();
            let data = self.flow.keep(&name, result);
            let frame = self.frame(field);
            self.arrays[field] = Some(Array { data, frame });
        }
    }

    /// Whether a group has anything to do. Loops over all axes of the domain, and no more, see by themselves whether it
    /// has points.
    fn run_of(&self, units: &[Unit<'_>]) -> Cond {
        let loops = |field: &FieldId| {
            let axes = self.stencil.fields[*field].axes;
            (0..3).all(|axis| axes[axis] || self.domain[axis].known().is_some_and(|size| size > 0))
        };
        let are_loops = units.iter().all(|unit| {
            unit.kind == UnitKind::Points && unit.extent == Extent::ZERO && unit.targets().iter().all(loops)
        });
        match self.run.has_points && are_loops {
            true => Cond::Known(true),
            false => self.run.cond.clone(),
        }
    }

    /// The columns of an extent; none where there is nothing to do.
    fn ranges(&mut self, columns: &Columns, extent: Extent) -> Ranges {
        [0, 1].map(|axis| {
            let from = Int::Known(i64::from(extent.0[2 * axis]));
            let to = self.domain[axis].plus(i64::from(extent.0[2 * axis + 1]));
            let to = columns.run.choose(&to, &from);
            columns.axes[axis].then(|| [from, bind(&mut self.flow, "end", to)])
        })
    }

    /// Appends what a field holds between this row and the next one.
    fn end_row(&mut self, field: FieldId, builder: Expr, i: &Expr, columns: &Columns) -> Expr {
        let own = self.ranges(columns, columns.own[&field]);
        if self.covers_rows(field, &own) {
            return builder;
        }
        let from = self.row_end(field, &own, &Int::Expr(i.clone()));
        let next = self.row_start(field, &own, &Some(Int::Expr(i.clone()).plus(1)));
        let total = self.frame(field).total();
        if columns.own[&field] == columns.extent {
            return self.copy(field, builder, &from, &next.min(&total));
        }
        let [Some([first, last]), _] = &own else { return builder };
        let inside = build::and(build::le(first.expr(), i.clone()), build::lt(i.clone(), last.expr()));
        // The builder goes one way or the other.
        self.flow.open();
        let copied = self.copy(field, builder.clone(), &from, &next.min(&total));
        let copied = self.flow.close(copied);
        build::if_(inside, copied, builder)
    }

    /// The columns of a row.
    fn row(
        &mut self,
        units: &[Unit<'s>],
        bounds: &[[Int; 2]],
        targets: &[FieldId],
        builder: Expr,
        i: Option<Expr>,
        columns: &Columns,
    ) -> Vec<Expr> {
        let count = targets.len();
        let ranges = self.ranges(columns, columns.extent);
        let column = |lower: &mut Self, builder: Expr, at: [Option<Expr>; 2]| {
            let builders = lower.unpack(builder, count);
            let narrow = lower.narrow(columns, &at);
            lower.column(units, bounds, targets, builders, at, narrow)
        };
        match &ranges[1] {
            Some([from, to]) => {
                let iter = build::range(from.expr(), to.expr(), build::i64(1));
                let done =
                    self.loop_over(iter, builder, |lower, builder, j| pack(column(lower, builder, [i, Some(j)])));
                self.unpack(done, count)
            }
            None if i.is_some() => column(self, builder, [i, None]),
            // One column alone, if there is anything to do.
            None => match columns.run.clone() {
                Cond::Known(false) => self.unpack(builder, count),
                Cond::Known(true) => column(self, builder, [None, None]),
                run => {
                    let times = run.choose(&Int::Known(1), &Int::Known(0)).expr();
                    let iter = build::range(build::i64(0), times, build::i64(1));
                    let done =
                        self.loop_over(iter, builder, |lower, builder, _| pack(column(lower, builder, [None, None])));
                    self.unpack(done, count)
                }
            },
        }
    }

    /// Whether the column is where each field is written that is not written everywhere.
    fn narrow(&mut self, columns: &Columns, at: &[Option<Expr>; 2]) -> HashMap<FieldId, Expr> {
        let mut narrow = HashMap::new();
        let mut own: Vec<(FieldId, Extent)> = columns.own.iter().map(|(field, extent)| (*field, *extent)).collect();
        own.sort_by_key(|(field, _)| *field);
        for (field, extent) in own {
            if extent != columns.extent {
                let inside = self.inside(extent, at);
                narrow.insert(field, inside);
            }
        }
        narrow
    }

    /// Whether the column lies in an extent.
    pub(crate) fn inside(&mut self, extent: Extent, at: &[Option<Expr>; 2]) -> Expr {
        let mut all = build::bool(true);
        for (axis, at) in at.iter().enumerate() {
            if let Some(at) = at {
                let from = build::i64(i64::from(extent.0[2 * axis]));
                let to = self.domain[axis].plus(i64::from(extent.0[2 * axis + 1])).expr();
                let both = build::bit_and(build::le(from, at.clone()), build::lt(at.clone(), to));
                all = build::bit_and(all, both);
            }
        }
        self.flow.bind("inside", all)
    }

    /// A loop whose body may make bindings.
    pub(crate) fn loop_over(
        &mut self,
        iter: Iter,
        builder: Expr,
        body: impl FnOnce(&mut Self, Expr, Expr) -> Expr,
    ) -> Expr {
        self.loop_with(iter, builder, |lower, builder, _, element| body(lower, builder, element))
    }

    /// [`loop_over`](Lower::loop_over) with the loop's index.
    pub(crate) fn loop_with(
        &mut self,
        iter: Iter,
        builder: Expr,
        body: impl FnOnce(&mut Self, Expr, Expr, Expr) -> Expr,
    ) -> Expr {
        let element = iter.element_type();
        let names = self.flow.names();
        let (b, i, x) = (names.fresh("b"), names.fresh("i"), names.fresh("x"));
        let ty = builder.ty.clone();
        self.flow.open();
        let body = body(self, build::var(b, ty.clone()), build::var(i, Type::I64), build::var(x, element.clone()));
        let body = Box::new(self.flow.close(body));
        build::for_func(iter, builder, Func { params: vec![(b, ty), (i, Type::I64), (x, element)], body })
    }

    /// Appends what a field holds already at these indices of its data.
    fn copy(&mut self, field: FieldId, builder: Expr, from: &Int, to: &Int) -> Expr {
        if is_empty(from, to) {
            return builder;
        }
        let zero = build::zero(&self.stencil.dtype(field).ty());
        match self.arrays[field].as_ref().map(|array| array.data.clone()) {
            Some(data) => {
                let iter = slice_iter(data, from.expr(), to.expr());
                self.loop_over(iter, builder, |_, builder, x| build::merge(builder, x))
            }
            None => {
                let iter = build::range(from.expr(), to.expr(), build::i64(1));
                self.loop_over(iter, builder, |_, builder, _| build::merge(builder, zero))
            }
        }
    }

    /// Whether a column of a field has levels; else it is one value.
    pub(crate) fn has_levels(&self, field: FieldId) -> bool {
        self.is_row || self.stencil.fields[field].axes[2]
    }

    pub(crate) fn frame(&self, field: FieldId) -> Frame {
        match &self.frames[field] {
            Some(frame) => frame.clone(),
            None => Frame { size: [1; 3].map(Int::Known), origin: [0; 3].map(Int::Known) },
        }
    }

    /// The index at which the box's row begins in a field's data.
    fn row_start(&self, field: FieldId, ranges: &Ranges, i: &Option<Int>) -> Int {
        let from = ranges[1].as_ref().map(|range| range[0].clone());
        self.index_of(field, i, &from)
    }

    fn row_end(&self, field: FieldId, ranges: &Ranges, i: &Int) -> Int {
        match &ranges[1] {
            Some([_, to]) => self.index_of(field, &Some(i.clone()), &Some(to.clone())),
            None => self.index_of(field, &Some(i.plus(1)), &None),
        }
    }

    /// Behind the columns of a group without an I axis.
    fn row_end_of_single(&self, field: FieldId, ranges: &Ranges) -> Int {
        match &ranges[1] {
            Some([_, to]) => self.index_of(field, &None, &Some(to.clone())),
            None => self.frame(field).total(),
        }
    }

    fn index_of(&self, field: FieldId, i: &Option<Int>, j: &Option<Int>) -> Int {
        let frame = self.frame(field);
        let along = |at: &Option<Int>, axis: usize| match at {
            Some(at) => at.add(&frame.origin[axis]),
            None => Int::Known(0),
        };
        along(i, 0).mul(&frame.size[1]).add(&along(j, 1)).mul(&frame.size[2])
    }

    /// Whether there is nothing between the rows of the box, as far as that is known.
    fn covers_rows(&self, field: FieldId, ranges: &Ranges) -> bool {
        let frame = self.frame(field);
        ranges[1].as_ref().is_none_or(|[from, to]| {
            let last = to.add(&frame.origin[1]).known();
            from.add(&frame.origin[1]).known() == Some(0) && last.is_some() && last == frame.size[1].known()
        })
    }

    /// The level loop over whole fields, each statement a group of one level.
    fn stepwise(&mut self, block: &'s Block) {
        let backward = block.policy == Policy::Backward;
        let (start, end) = (level(block.interval.start, &self.domain[2]), level(block.interval.end, &self.domain[2]));
        let end = self.run.cond.choose(&end, &start);
        let count = bind(&mut self.flow, "levels", end.sub(&start));
        let mut targets: Vec<FieldId> = Vec::new();
        for target in block.body.iter().flat_map(Stmt::targets) {
            if !targets.contains(&target) {
                targets.push(target);
            }
        }
        for field in &targets {
            self.materialize(*field);
        }
        let data = |lower: &Self| -> Vec<Expr> {
            targets.iter().filter_map(|field| lower.arrays[*field].as_ref().map(|array| array.data.clone())).collect()
        };
        let carried = data(self);
        let state = self.flow.begin_count(build::i64(0), count.expr(), build::i64(1), carried);
        let Some((step, state)) = state.split_first() else { return };
        let step = Int::Expr(step.clone());
        let k = match backward {
            true => end.plus(-1).sub(&step),
            false => start.add(&step),
        };
        let k = bind(&mut self.flow, "k", k);
        self.set_data(&targets, state);
        for stmt in &block.body {
            let kind = UnitKind::Levels { backward: false };
            let axes = crate::plan::statement_axes(self.stencil, stmt).unwrap_or([true; 2]);
            let unit = Unit::new(kind, block.interval, stmt.extent, axes, [stmt]);
            self.group(&[unit], &[[k.clone(), k.plus(1)]], stmt.targets());
        }
        let next = data(self);
        let done = self.flow.end_count(next);
        self.set_data(&targets, &done);
    }

    fn set_data(&mut self, targets: &[FieldId], data: &[Expr]) {
        for (field, data) in targets.iter().zip(data) {
            if let Some(array) = &mut self.arrays[*field] {
                array.data = data.clone();
            }
        }
    }

    /// Makes the data of a field that nobody has written: zeros.
    pub(crate) fn materialize(&mut self, field: FieldId) {
        if self.arrays[field].is_some() {
            return;
        }
        let frame = self.frame(field);
        let total = frame.total().max(&Int::Known(0));
        let builder = build::appender_sized(self.stencil.dtype(field).ty(), total.expr());
        let filled = self.copy(field, builder, &Int::Known(0), &total);
        let name = self.stencil.fields[field].name.clone();
        let data = self.flow.keep(&name, build::result(filled));
        self.arrays[field] = Some(Array { data, frame });
    }

    fn unit_can_fail(&self, unit: &Unit<'_>) -> bool {
        let mut fails = false;
        unit.stmts.iter().for_each(|stmt| {
            stmt.each(&mut |stmt| match &stmt.kind {
                StmtKind::Assign { value, .. } => fails |= self.types.can_fail(value),
                StmtKind::While { .. } => fails = true,
            });
        });
        fails
    }

    /// The parts of a struct of builders.
    pub(crate) fn unpack(&mut self, builder: Expr, count: usize) -> Vec<Expr> {
        if count == 1 {
            return vec![builder];
        }
        let all = self.flow.bind("all", builder);
        (0..count).map(|field| build::field(all.clone(), field)).collect()
    }

    pub(crate) fn fail(&mut self, span: Span, message: impl Into<String>) {
        self.error.get_or_insert(Diagnostic::ty(span, message));
    }
}

/// How far each field that a group writes is written.
fn target_extents(units: &[Unit<'_>]) -> HashMap<FieldId, Extent> {
    let mut own: HashMap<FieldId, Extent> = HashMap::new();
    for stmt in units.iter().flat_map(|unit| &unit.stmts) {
        stmt.each(&mut |stmt| {
            if let StmtKind::Assign { target, .. } = stmt.kind {
                let extent = own.entry(target).or_insert(stmt.extent);
                *extent = extent.hull(stmt.extent);
            }
        });
    }
    own
}

fn group_targets(units: &[Unit<'_>]) -> Vec<FieldId> {
    let mut seen = HashSet::new();
    units.iter().flat_map(Unit::targets).copied().filter(|field| seen.insert(*field)).collect()
}

/// One builder as itself, several as a struct.
pub(crate) fn pack(mut builders: Vec<Expr>) -> Expr {
    match builders.len() {
        1 => builders.remove(0),
        _ => build::strct(builders),
    }
}

/// Whether nothing lies between two indices, as far as that is known.
pub(crate) fn is_empty(from: &Int, to: &Int) -> bool {
    from.same(to) || from.known().zip(to.known()).is_some_and(|(from, to)| from >= to)
}

/// `iter(data, from, to, 1L)`.
pub(crate) fn slice_iter(data: Expr, from: Expr, to: Expr) -> Iter {
    Iter::Strided { data, start: from, end: to, stride: build::i64(1) }
}

/// The value under a name, so that it may be repeated.
pub(crate) fn bind(flow: &mut Flow, name: &str, value: Int) -> Int {
    match value {
        Int::Known(_) => value,
        Int::Expr(expr) => Int::Expr(flow.bind(name, expr)),
    }
}
