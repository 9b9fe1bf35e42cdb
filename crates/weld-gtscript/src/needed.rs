//! What units read, and which levels of a column are still needed.
//!
//! A unit that writes a part of a column need not copy the rest, or fill it with zeros, where a later unit overwrites
//! it before anything reads it: in `interval(0, 1)` of a recurrence all levels above, in a backward sweep's first level
//! all below.

use std::collections::{HashMap, HashSet};

use weld_core::ir::Expr;

use crate::lower::{Column, Lower};
use crate::plan::{Unit, UnitKind};
use crate::sizes::Int;
use crate::tree::{FieldId, Offset, Stmt, StmtKind};

/// What a group writes of a field in a column.
#[derive(Clone)]
pub(crate) struct Written {
    /// A vector of levels, or the value of a field without levels.
    pub(crate) data: Expr,
    /// The level of the vector's first element, in the coordinates of the field.
    pub(crate) first: Int,
}

/// The units of a group that follow one, with their intervals.
#[derive(Clone, Copy)]
pub(crate) struct Later<'u, 's> {
    pub(crate) units: &'u [Unit<'s>],
    pub(crate) bounds: &'u [[Int; 2]],
}

/// Levels of a field from and to, in its own coordinates.
type Levels = (i64, i64);

fn meet(a: Levels, b: Levels) -> bool {
    a.0.max(b.0) < a.1.min(b.1)
}

impl<'s> Lower<'s> {
    /// Whether the levels of a column are read by a later unit before they are overwritten, or belong to what the group
    /// gives (`is_result`). Levels that only the run knows are needed.
    pub(crate) fn is_needed(
        &self,
        column: &Column,
        field: FieldId,
        [from, to]: [&Int; 2],
        later: Later<'_, 's>,
        is_result: bool,
    ) -> bool {
        let origin = self.frame(field).origin[2].known();
        let (Some(from), Some(to), Some(origin)) = (from.known(), to.known(), origin) else { return true };
        if column.narrow.contains_key(&field) {
            return true;
        }
        for (unit, [start, end]) in later.units.iter().zip(later.bounds) {
            let (Some(start), Some(end)) = (start.known(), end.known()) else { return true };
            let interval = (origin + start, origin + end);
            match use_of(unit, field, interval, (from, to)) {
                Use::Reads => return true,
                // A unit that overwrites a part of them copies the others.
                Use::Overwrites => return !(interval.0 <= from && to <= interval.1),
                Use::None => {}
            }
        }
        is_result
    }
}

enum Use {
    None,
    Reads,
    Overwrites,
}

/// What a unit over an interval does first with levels of a field.
fn use_of(unit: &Unit<'_>, field: FieldId, interval: Levels, levels: Levels) -> Use {
    let is_target = unit.writes(field);
    if !is_target && !unit.reads(field) {
        return Use::None;
    }
    let mut is_assigned = false;
    for stmt in &unit.stmts {
        let mut reads = false;
        stmt.each(&mut |stmt| {
            for read in stmt.reads().iter().filter(|read| read.field == field) {
                let old = old_levels(unit.kind, interval, read.offset[2], is_target, is_assigned);
                reads |= read.is_horizontal() || old.is_some_and(|old| meet(old, levels));
            }
        });
        if reads {
            return Use::Reads;
        }
        if stmt.targets().contains(&field) {
            // Where a mask is not set, what was there stays.
            if !is_assigned && !always_assigns(stmt, unit) {
                return Use::Reads;
            }
            is_assigned = true;
        }
    }
    if is_assigned { Use::Overwrites } else { Use::None }
}

fn always_assigns(stmt: &Stmt, unit: &Unit<'_>) -> bool {
    matches!(stmt.kind, StmtKind::Assign { .. }) && stmt.guards.is_empty() && stmt.extent == unit.extent
}

/// The levels that a read at an offset sees as they were before the unit.
fn old_levels(kind: UnitKind, (start, end): Levels, offset: i32, is_target: bool, is_assigned: bool) -> Option<Levels> {
    let offset = i64::from(offset);
    let all = (start + offset, end + offset);
    match kind {
        _ if offset == 0 && is_assigned => None,
        UnitKind::Levels { backward: false } if is_target && offset < 0 => Some((all.0, all.1.min(start))),
        UnitKind::Levels { backward: true } if is_target && offset > 0 => Some((all.0.max(end), all.1)),
        _ => Some(all),
    }
}

/// What the statements of a unit read that they do not write before, each once; but not what is read in a smaller
/// extent.
pub(crate) fn unit_reads(unit: &Unit<'_>, narrow: &HashMap<FieldId, Expr>) -> Vec<(FieldId, Offset)> {
    let mut reads = Reads { narrow, all: Vec::new(), seen: HashSet::new(), written: HashSet::new() };
    unit.stmts.iter().for_each(|stmt| reads.stmt(stmt, unit));
    reads.all
}

struct Reads<'n> {
    narrow: &'n HashMap<FieldId, Expr>,
    all: Vec<(FieldId, Offset)>,
    seen: HashSet<(FieldId, Offset)>,
    written: HashSet<FieldId>,
}

impl Reads<'_> {
    fn add(&mut self, field: FieldId, offset: Offset) {
        let is_new = offset == [0; 3] && self.written.contains(&field);
        if !is_new && self.seen.insert((field, offset)) {
            self.all.push((field, offset));
        }
    }

    /// What a field held that may not be written.
    fn old(&mut self, field: FieldId, is_read: bool) {
        if is_read && !self.narrow.contains_key(&field) {
            self.add(field, [0; 3]);
        }
    }

    fn stmt(&mut self, stmt: &Stmt, unit: &Unit<'_>) {
        if stmt.extent == unit.extent {
            stmt.reads().iter().for_each(|read| self.add(read.field, read.offset));
        }
        match &stmt.kind {
            StmtKind::Assign { target, .. } => {
                self.old(*target, !stmt.guards.is_empty());
                self.written.insert(*target);
            }
            StmtKind::While { body, .. } => {
                stmt.targets().into_iter().for_each(|target| self.old(target, true));
                body.iter().for_each(|inner| self.stmt(inner, unit));
            }
        }
    }
}
