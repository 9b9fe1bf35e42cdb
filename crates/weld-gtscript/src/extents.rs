//! Extents: how far beyond the compute domain a statement is done, so that later reads with offsets find their values.
//!
//! Statements are followed backwards. Fields of the caller are written on the compute domain alone; rule 4 sees to it
//! that nothing else is asked of them. A temporary that is assigned anew is needed no further before:
//!
//! ```text
//! t = a           # on the domain
//! b = t
//! t = b           # and on what lies one point beyond it
//! c = t[1, 0, 0]
//! ```

use std::collections::HashSet;

use weld_core::diag::Diagnostic;

use crate::tree::{Block, Extent, FieldId, Interval, Policy, Stencil, Stmt, StmtKind};

/// Rounds after which what one level needs of the next is taken to grow for ever.
const ROUNDS_MAX: usize = 64;

/// Sets the extents of all statements; gives how far each field is read or written.
pub(crate) fn set(stencil: &mut Stencil) -> Result<Vec<Extent>, Vec<Diagnostic>> {
    let mut needs = Needs {
        need: vec![Extent::ZERO; stencil.fields.len()],
        reach: vec![Extent::ZERO; stencil.fields.len()],
        renewed: HashSet::new(),
    };
    let externals: Vec<bool> = stencil.fields.iter().map(|field| field.external).collect();
    let mut blocks = std::mem::take(&mut stencil.blocks);
    let mut errors = Vec::new();
    for block in blocks.iter_mut().rev() {
        let after = needs.need.clone();
        let renewed = renewed(block, &externals);
        // Levels outside of the interval keep what was assigned before.
        let kept: Vec<FieldId> = if block.interval.is_whole() { Vec::new() } else { renewed.iter().copied().collect() };
        needs.renewed = renewed;
        let Some(behind) = behind(block) else {
            needs.body(&mut block.body, &externals, &mut None);
            needs.keep(&kept, &after);
            continue;
        };
        let mut carried: Vec<Extent> = vec![Extent::ZERO; externals.len()];
        for round in 0.. {
            needs.need = after.iter().zip(&carried).map(|(a, b)| a.hull(*b)).collect();
            let mut next = Some(Carried { behind, need: carried.clone() });
            needs.body(&mut block.body, &externals, &mut next);
            let next = next.map(|next| next.need).unwrap_or_default();
            if next == carried {
                break;
            }
            if round == ROUNDS_MAX {
                let grown = (0..next.len()).find(|field| next[*field] != carried[*field]).unwrap_or_default();
                errors.push(endless(stencil, &block.body, grown));
                break;
            }
            carried = next;
        }
        needs.keep(&kept, &after);
    }
    stencil.blocks = blocks;
    errors.extend(written_before(stencil));
    if errors.is_empty() { Ok(needs.reach) } else { Err(errors) }
}

fn endless(stencil: &Stencil, body: &[Stmt], field: FieldId) -> Diagnostic {
    let mut place = stencil.fields[field].span;
    body.iter().for_each(|stmt| {
        stmt.each(&mut |stmt| {
            if let Some(read) = stmt.reads().into_iter().find(|read| read.field == field && read.offset[2] != 0) {
                place = read.span;
            }
        });
    });
    let name = &stencil.fields[field].name;
    Diagnostic::ty(place, format!("each level needs `{name}` of the level before on a larger domain, without end"))
}

/// The sign of the offsets at which a level reads what the levels before it wrote; none where there are none before it.
fn behind(block: &Block) -> Option<i32> {
    let Interval { start, end, .. } = block.interval;
    let is_single = start.from_end == end.from_end && start.offset.checked_add(1) == Some(end.offset);
    match block.policy {
        _ if is_single => None,
        Policy::Parallel => None,
        Policy::Forward => Some(-1),
        Policy::Backward => Some(1),
    }
}

/// The temporaries of which a block reads no other level than it is at: what it assigns without a mask is all that is
/// left there of them.
fn renewed(block: &Block, externals: &[bool]) -> HashSet<FieldId> {
    let targets = block.body.iter().flat_map(Stmt::targets);
    let mut fields: HashSet<FieldId> = targets.filter(|target| !externals[*target]).collect();
    for stmt in &block.body {
        stmt.each(&mut |stmt| {
            for read in stmt.reads().iter().filter(|read| read.offset[2] != 0) {
                fields.remove(&read.field);
            }
        });
    }
    fields
}

/// What levels need of those before them.
struct Carried {
    behind: i32,
    need: Vec<Extent>,
}

struct Needs {
    /// Where later statements read a field.
    need: Vec<Extent>,
    /// Where any statement reads or writes it.
    reach: Vec<Extent>,
    /// What the block that is followed may assign anew.
    renewed: HashSet<FieldId>,
}

impl Needs {
    /// Follows a body backwards. Reads of levels before are added to `carried`, if there are some.
    fn body(&mut self, body: &mut [Stmt], externals: &[bool], carried: &mut Option<Carried>) {
        for stmt in body.iter_mut().rev() {
            self.stmt(stmt, externals, carried);
        }
    }

    /// Adds what is needed of some fields after a block to what is needed before it.
    fn keep(&mut self, fields: &[FieldId], after: &[Extent]) {
        fields.iter().for_each(|field| self.need[*field] = self.need[*field].hull(after[*field]));
    }

    fn stmt(&mut self, stmt: &mut Stmt, externals: &[bool], carried: &mut Option<Carried>) {
        if let StmtKind::Assign { target, .. } = stmt.kind {
            stmt.extent = if externals[target] { Extent::ZERO } else { self.need[target] };
            self.reach[target] = self.reach[target].hull(stmt.extent);
            if stmt.guards.is_empty() && self.renewed.contains(&target) {
                self.need[target] = Extent::ZERO;
            }
            return self.reads(stmt, carried);
        }
        let targets = stmt.targets();
        // The body may make no pass.
        let renewed = std::mem::take(&mut self.renewed);
        // What one pass writes the next one reads, at the same point.
        for _ in 0..ROUNDS_MAX {
            let extent = targets.iter().fold(Extent::ZERO, |all, target| match externals[*target] {
                true => all,
                false => all.hull(self.need[*target]),
            });
            stmt.extent = extent;
            self.reads(stmt, carried);
            let before = self.need.clone();
            if let StmtKind::While { body, .. } = &mut stmt.kind {
                for inner in body.iter_mut().rev() {
                    self.stmt(inner, externals, carried);
                }
            }
            let all = targets.iter().filter(|target| !externals[**target]);
            let grown = all.fold(extent, |all, target| all.hull(self.need[*target]));
            if before == self.need && grown == extent {
                break;
            }
        }
        self.renewed = renewed;
    }

    fn reads(&mut self, stmt: &Stmt, carried: &mut Option<Carried>) {
        for read in stmt.reads() {
            let extent = stmt.extent.shifted(read.offset);
            self.need[read.field] = self.need[read.field].hull(extent);
            self.reach[read.field] = self.reach[read.field].hull(extent);
            if let Some(carried) = carried
                && read.offset[2].signum() == carried.behind
            {
                carried.need[read.field] = carried.need[read.field].hull(extent);
            }
        }
    }
}

/// Fields of the caller that are written on the compute domain and read beyond it afterwards, through a temporary.
fn written_before(stencil: &Stencil) -> Vec<Diagnostic> {
    let mut written = vec![false; stencil.fields.len()];
    let mut errors: Vec<Diagnostic> = Vec::new();
    for block in &stencil.blocks {
        let own: Vec<FieldId> = block.body.iter().flat_map(Stmt::targets).collect();
        for stmt in &block.body {
            let in_loop = if let StmtKind::While { .. } = stmt.kind { stmt.targets() } else { Vec::new() };
            stmt.each(&mut |inner| {
                for read in inner.reads() {
                    let from_other_level = block.policy != Policy::Parallel && read.offset[2] != 0;
                    let is_written = written[read.field]
                        || in_loop.contains(&read.field)
                        || (from_other_level && own.contains(&read.field));
                    if stencil.fields[read.field].external && is_written && inner.extent != Extent::ZERO {
                        let name = &stencil.fields[read.field].name;
                        let message = format!(
                            "rule 4: `{name}` is written, so it cannot be read with a horizontal offset, found a temporary \
                             that is read with one and holds values of `{name}` after the write"
                        );
                        errors.push(Diagnostic::ty(read.span, message));
                    }
                }
            });
            stmt.targets().into_iter().for_each(|target| written[target] = true);
        }
    }
    errors.dedup_by_key(|error| error.span.start);
    errors
}
