//! One column: the units of a group, one after the other, over its levels.
//!
//! A unit writes a column of each of its fields: what the field held below the interval, the new values, what it held
//! above. The last unit that writes a field appends to the field itself; others make a vector of the column, which
//! later units read.

use std::collections::HashMap;

use weld_core::ir::{Expr, ExprKind, Func, Iter, build};
use weld_core::ty::Type;

use crate::lower::{Column, Lower, bind, is_empty, pack, slice_iter};
use crate::needed::{Later, Written, unit_reads};
use crate::plan::{Unit, UnitKind};
use crate::point::Point;
use crate::sizes::Int;
use crate::tree::{FieldId, Offset};

/// A field that a unit gives, with the builder that it appends to, or none for a vector of the column that later units
/// read. Of the levels outside of the interval, whether those below and those above are kept.
type Out = (FieldId, Option<Expr>, [bool; 2]);

/// Where the values of a field at an offset are, for a column.
pub(crate) enum Values {
    /// Never written: zeros.
    None,
    /// The same for all levels.
    One(Expr),
    /// A vector, and its index of the first level.
    Levels(Expr, Int),
}

/// The last unit that reads, and that writes, each field.
fn last_uses(units: &[Unit<'_>]) -> (HashMap<FieldId, usize>, HashMap<FieldId, usize>) {
    let (mut reads, mut writes) = (HashMap::new(), HashMap::new());
    for (u, unit) in units.iter().enumerate() {
        reads.extend(unit.read_fields().map(|field| (field, u)));
        writes.extend(unit.targets().iter().map(|field| (*field, u)));
    }
    (reads, writes)
}

impl<'s> Lower<'s> {
    /// All units over a column; `builders` are those of the targets' data.
    pub(crate) fn column(
        &mut self,
        units: &[Unit<'s>],
        bounds: &[[Int; 2]],
        targets: &[FieldId],
        builders: Vec<Expr>,
        at: [Option<Expr>; 2],
        narrow: HashMap<FieldId, Expr>,
    ) -> Vec<Expr> {
        let mut column = Column { at, written: HashMap::new(), bases: HashMap::new(), narrow };
        self.bases(units, &mut column);
        let mut open: HashMap<FieldId, Expr> = targets.iter().copied().zip(builders).collect();
        let mut done: HashMap<FieldId, Expr> = HashMap::new();
        let (last_reads, last_writes) = last_uses(units);
        for (u, unit) in units.iter().enumerate() {
            let later = &units[u + 1..];
            let mut outs: Vec<Out> = Vec::new();
            for &field in unit.targets() {
                let read_later = last_reads.get(&field).is_some_and(|last| *last > u);
                let written_later = last_writes.get(&field).is_some_and(|last| *last > u);
                let has_levels = self.has_levels(field);
                if !has_levels {
                    continue;
                }
                if !read_later && !written_later && !column.narrow.contains_key(&field) {
                    if let Some(builder) = open.remove(&field) {
                        outs.push((field, Some(builder), [true; 2]));
                    }
                } else if read_later || open.contains_key(&field) {
                    let later = Later { units: later, bounds: &bounds[u + 1..] };
                    let keeps = self.outside(&column, field, &bounds[u], later, open.contains_key(&field));
                    outs.push((field, None, keeps));
                }
            }
            let results = match unit.kind {
                UnitKind::Points => self.points(unit, &bounds[u], &mut column, outs),
                UnitKind::Levels { backward } => self.levels(unit, &bounds[u], &mut column, outs, backward),
            };
            done.extend(results);
        }
        // What is not appended yet: columns that were read after they were written, values without levels.
        for (field, builder) in open {
            let Some(Written { data: value, .. }) = column.written.get(&field).cloned() else {
                done.insert(field, builder);
                continue;
            };
            let before = builder.clone();
            self.flow.open();
            let appended = match self.has_levels(field) {
                false => build::merge(builder, value),
                true => self.loop_over(build::over(value), builder, |_, builder, x| build::merge(builder, x)),
            };
            let appended = self.flow.close(appended);
            let builder = match column.narrow.get(&field) {
                Some(inside) => build::if_(inside.clone(), appended, before),
                None => appended,
            };
            done.insert(field, builder);
        }
        targets.iter().filter_map(|field| done.remove(field)).collect()
    }

    /// Whether the levels of a column below and above an interval are needed later.
    fn outside(
        &self,
        column: &Column,
        field: FieldId,
        [start, end]: &[Int; 2],
        later: Later<'_, 's>,
        is_result: bool,
    ) -> [bool; 2] {
        let frame = self.frame(field);
        let (start, end) = (frame.origin[2].add(start), frame.origin[2].add(end));
        [[&Int::Known(0), &start], [&end, &frame.size[2]]]
            .map(|levels| self.is_needed(column, field, levels, later, is_result))
    }

    /// Computes where columns begin, before there are blocks that the names would be local to.
    fn bases(&mut self, units: &[Unit<'s>], column: &mut Column) {
        for stmt in units.iter().flat_map(|unit| &unit.stmts) {
            stmt.each(&mut |stmt| {
                for read in stmt.reads() {
                    let offset = self.horizontal(read.field, read.offset);
                    self.base(column, read.field, offset);
                }
            });
            for target in stmt.targets() {
                self.base(column, target, [0; 2]);
            }
        }
    }

    /// Where a column begins in a field's data, moved by horizontal offsets.
    fn base(&mut self, column: &mut Column, field: FieldId, offset: [i32; 2]) -> Int {
        if let Some(known) = column.bases.get(&(field, offset)) {
            return known.clone();
        }
        let frame = self.frame(field);
        let axes = self.stencil.fields[field].axes;
        let along = |axis: usize| match (&column.at[axis], axes[axis]) {
            (Some(at), true) => frame.origin[axis].plus(i64::from(offset[axis])).add(&Int::Expr(at.clone())),
            // A field with an axis that the group does not have lies at the domain's first point.
            (None, true) => frame.origin[axis].plus(i64::from(offset[axis])),
            _ => Int::Known(0),
        };
        let base = along(0).mul(&frame.size[1]).add(&along(1)).mul(&frame.size[2]);
        let base = bind(&mut self.flow, "base", base);
        column.bases.insert((field, offset), base.clone());
        base
    }

    /// Where the values of a field at an offset are.
    pub(crate) fn values(&mut self, column: &mut Column, field: FieldId, offset: Offset) -> Values {
        let has_levels = self.has_levels(field);
        let horizontal = self.horizontal(field, offset);
        let above = self.frame(field).origin[2].plus(i64::from(offset[2]));
        if horizontal == [0; 2]
            && let Some(Written { data, first }) = column.written.get(&field).cloned()
        {
            return if has_levels { Values::Levels(data, above.sub(&first)) } else { Values::One(data) };
        }
        let Some(data) = self.arrays[field].as_ref().map(|array| array.data.clone()) else { return Values::None };
        let base = self.base(column, field, horizontal);
        match has_levels {
            true => Values::Levels(data, bind(&mut self.flow, "first", base.add(&above))),
            false => Values::One(self.flow.bind("value", build::lookup(data, base.expr()))),
        }
    }

    /// The horizontal offset along the axes that the field has.
    fn horizontal(&self, field: FieldId, offset: Offset) -> [i32; 2] {
        let axes = self.stencil.fields[field].axes;
        [if axes[0] { offset[0] } else { 0 }, if axes[1] { offset[1] } else { 0 }]
    }

    /// Appends what a column of a field holds between two levels of its own coordinates.
    fn keep(&mut self, column: &mut Column, field: FieldId, builder: Expr, from: &Int, to: &Int) -> Expr {
        if is_empty(from, to) {
            return builder;
        }
        let own = self.frame(field).origin[2].clone();
        match self.values(column, field, [0; 3]) {
            Values::Levels(data, first) => {
                // Where it is not written the column may not be there, and what a unit before made of it is too short;
                // what is made of it is not kept.
                let inside = column.narrow.get(&field);
                let index = |level: &Int| {
                    let index = first.sub(&own).add(level).expr();
                    inside.map_or(index.clone(), |inside| build::select(inside.clone(), index, build::i64(0)))
                };
                let iter = slice_iter(data, index(from), index(to));
                self.loop_over(iter, builder, |_, builder, x| build::merge(builder, x))
            }
            _ => {
                let zero = build::zero(&self.stencil.dtype(field).ty());
                let iter = build::range(from.expr(), to.expr(), build::i64(1));
                self.loop_over(iter, builder, |_, builder, _| build::merge(builder, zero))
            }
        }
    }

    /// The builders of a unit's columns, with what the fields hold below the interval.
    fn begin(&mut self, column: &mut Column, outs: &[Out], start: &Int) -> Vec<Expr> {
        outs.iter()
            .map(|(field, builder, [below, _])| {
                let frame = self.frame(*field);
                let builder = builder
                    .clone()
                    .unwrap_or_else(|| build::appender_sized(self.stencil.dtype(*field).ty(), frame.size[2].expr()));
                match below {
                    true => self.keep(column, *field, builder, &Int::Known(0), &frame.origin[2].add(start)),
                    false => builder,
                }
            })
            .collect()
    }

    /// Appends what the fields hold above the interval. Columns that later units read get their names.
    fn end(
        &mut self,
        column: &mut Column,
        outs: Vec<Out>,
        builders: Vec<Expr>,
        [start, end]: &[Int; 2],
    ) -> Vec<(FieldId, Expr)> {
        let (mut results, mut columns) = (Vec::new(), Vec::new());
        for ((field, out, [below, above]), builder) in outs.into_iter().zip(builders) {
            let frame = self.frame(field);
            let builder = match above {
                true => self.keep(column, field, builder, &frame.origin[2].add(end), &frame.size[2]),
                false => builder,
            };
            match out {
                Some(_) => results.push((field, builder)),
                None => {
                    let name = format!("{} column", self.stencil.fields[field].name);
                    let first = if below { Int::Known(0) } else { frame.origin[2].add(start) };
                    let data = self.flow.keep(&name, build::result(builder));
                    columns.push((field, Written { data, first }));
                }
            }
        }
        column.written.extend(columns);
        results
    }

    /// All levels of an interval, each by itself: a loop over slices.
    fn points(
        &mut self,
        unit: &Unit<'s>,
        [start, end]: &[Int; 2],
        column: &mut Column,
        outs: Vec<Out>,
    ) -> Vec<(FieldId, Expr)> {
        if outs.is_empty() {
            return Vec::new();
        }
        let builders = self.begin(column, &outs, start);
        let mut point = Point::new(unit.extent);
        let mut slices: Vec<(FieldId, Offset, Iter)> = Vec::new();
        for (field, offset) in unit_reads(unit, &column.narrow) {
            match self.values(column, field, offset) {
                Values::None => {
                    point.reads.insert((field, offset), build::zero(&self.stencil.dtype(field).ty()));
                }
                Values::One(value) => {
                    point.reads.insert((field, offset), value);
                }
                Values::Levels(data, first) => {
                    let iter = self.slice(column, field, data, [first.add(start), first.add(end)]);
                    slices.push((field, offset, iter));
                }
            }
        }
        let keys: Vec<(FieldId, Offset)> = slices.iter().map(|(field, offset, _)| (*field, *offset)).collect();
        let mut iters: Vec<Iter> = slices.into_iter().map(|(_, _, iter)| iter).collect();
        let iter = match iters.len() {
            0 => build::range(start.expr(), end.expr(), build::i64(1)),
            1 => iters.remove(0),
            _ => Iter::Zip(iters),
        };
        let fields: Vec<FieldId> = outs.iter().map(|(field, ..)| *field).collect();
        let count = fields.len();
        let done = self.loop_with(iter, pack(builders), |lower, builder, i, element| {
            for (position, key) in keys.iter().enumerate() {
                let value = match keys.len() {
                    1 => element.clone(),
                    _ => build::field(element.clone(), position),
                };
                point.reads.insert(*key, value);
            }
            point.level = Int::Expr(i).add(start);
            unit.stmts.iter().for_each(|stmt| lower.stmt(stmt, column, &mut point));
            let mut builders = lower.unpack(builder, count);
            for (builder, field) in builders.iter_mut().zip(&fields) {
                let value = lower.read(column, &mut point, *field, [0; 3]);
                *builder = build::merge(builder.take(), value);
            }
            pack(builders)
        });
        let builders = self.unpack(done, count);
        self.end(column, outs, builders, &[start.clone(), end.clone()])
    }

    /// A part of a field's data, or all of it.
    fn slice(&self, column: &Column, field: FieldId, data: Expr, [from, to]: [Int; 2]) -> Iter {
        let is_all = from.known() == Some(0) && to.same(&self.frame(field).total());
        match is_all && !column.written.contains_key(&field) {
            true => build::over(data),
            false => slice_iter(data, from.expr(), to.expr()),
        }
    }

    /// The levels of an interval one after the other.
    fn levels(
        &mut self,
        unit: &Unit<'s>,
        [start, end]: &[Int; 2],
        column: &mut Column,
        outs: Vec<Out>,
        backward: bool,
    ) -> Vec<(FieldId, Expr)> {
        let first = if backward { end.plus(-1) } else { start.clone() };
        let step: i32 = if backward { -1 } else { 1 };
        let registers = self.registers(unit, column, &first, step);
        // What is appended backwards is turned round afterwards.
        let builders = match backward {
            false => self.begin(column, &outs, start),
            true => {
                let count = end.sub(start).expr();
                let new = |(field, ..): &Out| build::appender_sized(self.stencil.dtype(*field).ty(), count.clone());
                outs.iter().map(new).collect()
            }
        };
        let built = builders.len();
        let init: Vec<Expr> = std::iter::once(build::i64(0))
            .chain(builders)
            .chain(registers.iter().map(|(_, _, value)| value.clone()))
            .collect();
        let init = build::strct(init);
        let ty = init.ty.clone();
        let sym = self.flow.names().fresh("state");
        let state = |field: usize| build::field(build::var(sym, ty.clone()), field);

        self.flow.open();
        let count = state(0);
        let level = match backward {
            false => start.add(&Int::Expr(count.clone())),
            true => end.plus(-1).sub(&Int::Expr(count.clone())),
        };
        let mut point = Point::new(unit.extent);
        point.level = bind(&mut self.flow, "k", level);
        for (position, (field, back, _)) in registers.iter().enumerate() {
            let value = self.flow.bind("last", state(1 + built + position));
            match back {
                0 => point.values.insert(*field, value),
                _ => point.reads.insert((*field, [0, 0, -step * back]), value),
            };
        }
        unit.stmts.iter().for_each(|stmt| self.stmt(stmt, column, &mut point));
        let next = self.flow.bind("next", build::add(count, build::i64(1)));
        let mut fields = vec![next.clone()];
        for (position, (field, ..)) in outs.iter().enumerate() {
            let value = self.read(column, &mut point, *field, [0; 3]);
            fields.push(build::merge(state(1 + position), value));
        }
        for (field, back, _) in &registers {
            fields.push(match back {
                0 | 1 => self.read(column, &mut point, *field, [0; 3]),
                _ => point.reads[&(*field, [0, 0, -step * (back - 1)])].clone(),
            });
        }
        let go_on = build::lt(next, end.sub(start).expr());
        let body = self.flow.close(build::strct([build::strct(fields), go_on]));
        let step_func = Func { params: vec![(sym, ty.clone())], body: Box::new(body) };
        let looped = build::node(ExprKind::Iterate { init: Box::new(init), step: step_func }, Type::structure([]));
        let looped = self.flow.keep("levels", looped.at(unit.interval.span));
        let mut builders: Vec<Expr> = (0..built).map(|i| build::field(looped.clone(), 1 + i)).collect();
        if backward {
            builders = self.turned(column, &outs, builders, start, end);
        }
        let results = self.end(column, outs, builders, &[start.clone(), end.clone()]);
        for (position, (field, back, _)) in registers.iter().enumerate() {
            if *back == 0 {
                let data = build::field(looped.clone(), 1 + built + position);
                column.written.insert(*field, Written { data, first: Int::Known(0) });
            }
        }
        results
    }

    /// What a field that is written here held; nothing where the column is not written, and may not be there.
    pub(crate) fn old(&mut self, column: &mut Column, field: FieldId, offset: Offset, level: &Int) -> Expr {
        let zero = build::zero(&self.stencil.dtype(field).ty());
        let inside = column.narrow.get(&field).cloned();
        if inside.is_some() {
            self.flow.open();
        }
        let value = match self.values(column, field, offset) {
            Values::None => zero.clone(),
            Values::One(value) => value,
            Values::Levels(data, first) => {
                let value = build::lookup(data, first.add(level).expr());
                self.flow.bind(&self.stencil.fields[field].name, value)
            }
        };
        match inside {
            Some(inside) => {
                let value = self.flow.close(value);
                self.flow.bind("old", build::if_(inside, value, zero))
            }
            None => value,
        }
    }

    /// Appends what was made from the last level to the first.
    fn turned(&mut self, column: &mut Column, outs: &[Out], builders: Vec<Expr>, start: &Int, end: &Int) -> Vec<Expr> {
        let backwards: Vec<Expr> =
            builders.into_iter().map(|builder| self.flow.keep("backwards", build::result(builder))).collect();
        let started = self.begin(column, outs, start);
        let last = bind(&mut self.flow, "last", end.sub(start).plus(-1));
        let turn = |lower: &mut Self, (builder, values): (Expr, Expr)| {
            let iter = build::range(build::i64(0), last.plus(1).expr(), build::i64(1));
            lower.loop_over(iter, builder, |_, builder, i| {
                build::merge(builder, build::lookup(values, last.sub(&Int::Expr(i)).expr()))
            })
        };
        started.into_iter().zip(backwards).map(|pair| turn(self, pair)).collect()
    }

    /// What a loop over levels carries: values of the levels before (so many back), and fields without levels (0).
    fn registers(&mut self, unit: &Unit<'s>, column: &mut Column, first: &Int, step: i32) -> Vec<(FieldId, i32, Expr)> {
        let mut registers = Vec::new();
        for &field in unit.targets() {
            if !self.has_levels(field) {
                let value = self.old(column, field, [0; 3], &Int::Known(0));
                registers.push((field, 0, value));
                continue;
            }
            let mut depth = 0;
            unit.stmts.iter().for_each(|stmt| {
                stmt.each(&mut |stmt| {
                    for read in stmt.reads().iter().filter(|read| read.field == field && !read.is_horizontal()) {
                        depth = depth.max(-step * read.offset[2]);
                    }
                });
            });
            for back in 1..=depth {
                let value = self.old(column, field, [0, 0, -step * back], first);
                registers.push((field, back, value));
            }
        }
        registers
    }
}
