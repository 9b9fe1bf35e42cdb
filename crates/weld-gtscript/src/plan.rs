//! Which statements one loop over the columns does.
//!
//! A group is a loop over I and J whose body does all levels of a column: as long as no statement reads at a horizontal
//! offset what another one of the group writes, a column needs no other, and temporaries that nobody else reads never
//! are fields in memory. In a column, a unit is a loop over levels:
//!
//! - `Points`: each level by itself, so that the loop is over slices and becomes vector instructions. Statements of
//!   `PARALLEL`, and those of `FORWARD` and `BACKWARD` that read no other level of what their block writes.
//! - `Levels`: one level after the other, with the last values in registers.
//!
//! What reads at horizontal *and* vertical offsets what its block writes runs level by level over whole fields
//! (`Stepwise`).

use std::collections::HashSet;

use weld_core::diag::Diagnostic;

use crate::tree::{Block, Extent, FieldId, Interval, Policy, Stencil, Stmt};

pub(crate) enum Plan<'s> {
    Group(Vec<Unit<'s>>),
    Stepwise(&'s Block),
}

pub(crate) struct Unit<'s> {
    pub(crate) kind: UnitKind,
    pub(crate) interval: Interval,
    pub(crate) stmts: Vec<&'s Stmt>,
    pub(crate) extent: Extent,
    /// The horizontal axes of all that it writes.
    pub(crate) axes: [bool; 2],
    targets: Vec<FieldId>,
    written: HashSet<FieldId>,
    read: HashSet<FieldId>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum UnitKind {
    Points,
    Levels { backward: bool },
}

impl<'s> Unit<'s> {
    pub(crate) fn new(
        kind: UnitKind,
        interval: Interval,
        extent: Extent,
        axes: [bool; 2],
        stmts: impl IntoIterator<Item = &'s Stmt>,
    ) -> Unit<'s> {
        let (written, read) = (HashSet::new(), HashSet::new());
        let mut unit = Unit { kind, interval, stmts: Vec::new(), extent, axes, targets: Vec::new(), written, read };
        stmts.into_iter().for_each(|stmt| unit.push(stmt));
        unit
    }

    fn push(&mut self, stmt: &'s Stmt) {
        self.targets.extend(stmt.targets().into_iter().filter(|target| self.written.insert(*target)));
        stmt.each(&mut |stmt| self.read.extend(stmt.reads().iter().map(|read| read.field)));
        self.stmts.push(stmt);
    }

    /// The fields that it writes, each once, in order.
    pub(crate) fn targets(&self) -> &[FieldId] {
        &self.targets
    }

    pub(crate) fn writes(&self, field: FieldId) -> bool {
        self.written.contains(&field)
    }

    pub(crate) fn reads(&self, field: FieldId) -> bool {
        self.read.contains(&field)
    }

    pub(crate) fn read_fields(&self) -> impl Iterator<Item = FieldId> {
        self.read.iter().copied()
    }
}

/// The plan of a stencil, in order of execution.
pub(crate) fn plan(stencil: &Stencil) -> Result<Vec<Plan<'_>>, Diagnostic> {
    let mut plans: Vec<Plan<'_>> = Vec::new();
    for block in &stencil.blocks {
        match units(stencil, block)? {
            Some(units) => units.into_iter().for_each(|unit| join(&mut plans, unit)),
            None => plans.push(Plan::Stepwise(block)),
        }
    }
    Ok(plans)
}

/// The units of a block, or `None` if it has to be done level by level over whole fields.
fn units<'s>(stencil: &'s Stencil, block: &'s Block) -> Result<Option<Vec<Unit<'s>>>, Diagnostic> {
    let written: HashSet<FieldId> = block.body.iter().flat_map(Stmt::targets).collect();
    let (mut across_levels, mut horizontal) = (false, false);
    block.body.iter().for_each(|stmt| {
        stmt.each(&mut |stmt| {
            for read in stmt.reads().iter().filter(|read| written.contains(&read.field)) {
                across_levels |= read.offset[2] != 0;
                horizontal |= read.is_horizontal();
            }
        });
    });
    across_levels |= written.iter().any(|field| !stencil.fields[*field].axes[2]);
    if block.policy == Policy::Parallel || !across_levels {
        return points(stencil, block).map(Some);
    }
    let mut extent = Extent::ZERO;
    block.body.iter().for_each(|stmt| extent = extent.hull(stmt.extent));
    let axes: HashSet<[bool; 2]> = written.iter().map(|field| horizontal_axes(stencil, *field)).collect();
    let mut axes = axes.into_iter();
    let (Some(axes), None, false) = (axes.next(), axes.next(), horizontal) else { return Ok(None) };
    let kind = UnitKind::Levels { backward: block.policy == Policy::Backward };
    Ok(Some(vec![Unit::new(kind, block.interval, extent, axes, &block.body)]))
}

/// A unit for as many statements as read only at the same point what those before them write.
fn points<'s>(stencil: &'s Stencil, block: &'s Block) -> Result<Vec<Unit<'s>>, Diagnostic> {
    let mut units: Vec<Unit<'s>> = Vec::new();
    for stmt in &block.body {
        let axes = statement_axes(stencil, stmt)?;
        let joins = units.last().is_some_and(|unit| {
            let mut fits = unit.extent == stmt.extent && unit.axes == axes;
            stmt.each(&mut |stmt| {
                fits &= stmt.reads().iter().all(|read| read.offset == [0; 3] || !unit.writes(read.field));
            });
            fits
        });
        match units.last_mut() {
            Some(unit) if joins => unit.push(stmt),
            _ => units.push(Unit::new(UnitKind::Points, block.interval, stmt.extent, axes, [stmt])),
        }
    }
    Ok(units)
}

fn horizontal_axes(stencil: &Stencil, field: FieldId) -> [bool; 2] {
    let axes = stencil.fields[field].axes;
    [axes[0], axes[1]]
}

pub(crate) fn statement_axes(stencil: &Stencil, stmt: &Stmt) -> Result<[bool; 2], Diagnostic> {
    let mut all = stmt.targets().into_iter().map(|field| horizontal_axes(stencil, field));
    let first = all.next().unwrap_or([true; 2]);
    match all.all(|axes| axes == first) {
        true => Ok(first),
        false => Err(Diagnostic::ty(stmt.span, "fields with different axes cannot be written in one `while`")),
    }
}

impl Unit<'_> {
    /// Whether one loop over levels can do another unit's statements after its own: they read at the same point what it
    /// writes.
    fn takes(&self, next: &Unit<'_>) -> bool {
        let is_same = |a: &Interval, b: &Interval| (a.start, a.end) == (b.start, b.end);
        let mut takes = self.kind == UnitKind::Points && next.kind == UnitKind::Points;
        takes &= is_same(&self.interval, &next.interval);
        next.stmts.iter().for_each(|stmt| {
            stmt.each(&mut |stmt| {
                takes &= stmt.reads().iter().all(|read| read.offset == [0; 3] || !self.writes(read.field));
            });
        });
        takes
    }
}

/// Units that do each level by itself, of units over one level or of such units.
pub(crate) fn as_points<'s>(units: &[Unit<'s>]) -> Vec<Unit<'s>> {
    let mut all = Vec::new();
    for unit in units {
        let stmts = unit.stmts.iter().copied();
        push(&mut all, Unit::new(UnitKind::Points, unit.interval, unit.extent, unit.axes, stmts));
    }
    all
}

fn push<'s>(units: &mut Vec<Unit<'s>>, unit: Unit<'s>) {
    match units.last_mut() {
        Some(last) if last.takes(&unit) => unit.stmts.into_iter().for_each(|stmt| last.push(stmt)),
        _ => units.push(unit),
    }
}

/// Adds a unit to the last group, if a column of it needs no other column of the group; to the group's last unit where
/// one loop can do both.
fn join<'s>(plans: &mut Vec<Plan<'s>>, unit: Unit<'s>) {
    if let Some(Plan::Group(units)) = plans.last_mut() {
        let is_written = |field: FieldId| units.iter().any(|unit| unit.writes(field));
        let mut fits = units[0].extent == unit.extent && units[0].axes == unit.axes;
        unit.stmts.iter().for_each(|stmt| {
            stmt.each(&mut |stmt| {
                fits &= stmt.reads().iter().all(|read| !read.is_horizontal() || !is_written(read.field));
            });
        });
        if fits {
            return push(units, unit);
        }
    }
    plans.push(Plan::Group(vec![unit]));
}
