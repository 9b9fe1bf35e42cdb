//! What a stencil may not do: rule 4 of the language, and the rules of loops and of `PARALLEL`.
//!
//! Rule 4: a field of the caller that is written anywhere must not be read with a horizontal offset, neither directly
//! nor through temporaries whose values flow into the write. So for each field it is followed which fields of the
//! caller its values come from, and whether an offset was taken on the way. Conditions count as reads.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use weld_core::diag::{Diagnostic, Span};

use crate::tree::{Access, Block, FieldId, Policy, Stencil, Stmt, StmtKind};

/// Where the values of a field come from: fields of the caller, and where an offset was taken.
type Flow = BTreeMap<FieldId, Option<Access>>;

/// All breaches, in the order of the text.
pub(crate) fn check(stencil: &Stencil) -> Result<(), Vec<Diagnostic>> {
    let mut errors = direct(stencil);
    errors.extend(through_temporaries(stencil));
    for block in &stencil.blocks {
        for stmt in &block.body {
            stmt.each(&mut |stmt| loop_rule(stencil, block, stmt, &mut errors));
            parallel_rule(stencil, block, stmt, &mut errors);
        }
    }
    errors.sort_by_key(|error| error.span.start);
    errors.dedup_by_key(|error| error.span.start);
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Where each field of the caller is written first.
fn written(stencil: &Stencil) -> HashMap<FieldId, Span> {
    let mut written = HashMap::new();
    stencil.each_stmt(&mut |_, stmt| {
        if let StmtKind::Assign { target, place, .. } = stmt.kind
            && stencil.fields[target].external
        {
            written.entry(target).or_insert(place);
        }
    });
    written
}

fn direct(stencil: &Stencil) -> Vec<Diagnostic> {
    let written = written(stencil);
    let mut errors = Vec::new();
    stencil.each_stmt(&mut |_, stmt| {
        for read in stmt.reads() {
            if read.is_horizontal()
                && let Some(place) = written.get(&read.field)
            {
                let name = &stencil.fields[read.field].name;
                let message = format!(
                    "rule 4: `{name}` is written, so it cannot be read with a horizontal offset, found `{}`",
                    stencil.written_access(read.field, read.offset)
                );
                errors.push(Diagnostic::ty(read.span, message).with_label(*place, format!("`{name}` is written here")));
            }
        }
    });
    errors
}

struct Follow<'s> {
    stencil: &'s Stencil,
    flows: Vec<Flow>,
    errors: BTreeMap<u32, Diagnostic>,
}

fn through_temporaries(stencil: &Stencil) -> Vec<Diagnostic> {
    let mut follow = Follow { stencil, flows: vec![Flow::new(); stencil.fields.len()], errors: BTreeMap::new() };
    for block in &stencil.blocks {
        let is_whole = block.interval.is_whole();
        let targets: BTreeSet<FieldId> = block.body.iter().flat_map(Stmt::targets).collect();
        let before: Vec<(FieldId, Flow)> = targets.iter().map(|id| (*id, follow.flows[*id].clone())).collect();
        let mut head = before.clone();
        loop {
            block.body.iter().for_each(|stmt| follow.stmt(stmt, &Flow::new(), is_whole));
            // What one level writes the next one reads.
            let mut next = before.clone();
            next.iter_mut().for_each(|(field, into)| merge(into, &follow.flows[*field]));
            if block.policy == Policy::Parallel || next == head {
                break;
            }
            next.iter().for_each(|(field, flow)| follow.flows[*field].clone_from(flow));
            head = next;
        }
    }
    follow.errors.into_values().collect()
}

fn merge(into: &mut Flow, from: &Flow) {
    for (field, offset) in from {
        let known = into.entry(*field).or_insert(*offset);
        *known = known.or(*offset);
    }
}

impl Follow<'_> {
    fn stmt(&mut self, stmt: &Stmt, control: &Flow, is_whole: bool) {
        let mut flow = control.clone();
        for read in stmt.reads() {
            self.read(read, &mut flow);
        }
        match &stmt.kind {
            StmtKind::While { body, .. } => loop {
                let before: Vec<(FieldId, Flow)> =
                    stmt.targets().into_iter().map(|field| (field, self.flows[field].clone())).collect();
                body.iter().for_each(|inner| self.stmt(inner, &flow, false));
                let mut is_same = true;
                for (field, before) in &before {
                    merge(&mut self.flows[*field], before);
                    is_same &= self.flows[*field] == *before;
                }
                if is_same {
                    break;
                }
            },
            StmtKind::Assign { target, place, .. } => {
                let field = &self.stencil.fields[*target];
                if field.external
                    && let Some(Some(read)) = flow.get(target)
                {
                    let through = &self.stencil.fields[read.field].name;
                    let message = format!(
                        "rule 4: `{0}` is written from values of `{0}` that `{through}` is read with a horizontal offset for, \
                         found `{1}`",
                        field.name,
                        self.stencil.written_access(read.field, read.offset)
                    );
                    let error = Diagnostic::ty(read.span, message);
                    let error = error.with_label(*place, format!("`{}` is written here", field.name));
                    self.errors.entry(read.span.start).or_insert(error);
                }
                if is_whole && stmt.guards.is_empty() {
                    self.flows[*target] = flow;
                } else {
                    merge(&mut self.flows[*target], &flow);
                }
            }
        }
    }

    /// Adds where the values of a read come from.
    fn read(&self, read: Access, flow: &mut Flow) {
        let taken = read.is_horizontal().then_some(read);
        let mut add = |field: FieldId, offset: Option<Access>| {
            let known = flow.entry(field).or_insert(offset);
            *known = known.or(offset);
        };
        if self.stencil.fields[read.field].external {
            // Directly taken offsets are told of by `direct`.
            add(read.field, None);
        }
        for (field, offset) in &self.flows[read.field] {
            add(*field, offset.or(taken));
        }
    }
}

/// What a `while` writes is not read at an offset inside of it.
fn loop_rule(stencil: &Stencil, block: &Block, stmt: &Stmt, errors: &mut Vec<Diagnostic>) {
    let StmtKind::While { .. } = stmt.kind else { return };
    let targets = stmt.targets();
    stmt.each(&mut |inner| {
        for read in inner.reads().into_iter().filter(|read| targets.contains(&read.field)) {
            let across_levels = block.policy == Policy::Parallel && read.offset[2] != 0;
            if !read.is_horizontal() && !across_levels {
                continue;
            }
            let name = &stencil.fields[read.field].name;
            let kind = if read.is_horizontal() { "a horizontal" } else { "a vertical" };
            let message = format!(
                "`{name}` is written in the body of this `while`, so it cannot be read there with {kind} offset, found `{}`",
                stencil.written_access(read.field, read.offset)
            );
            errors.push(Diagnostic::ty(read.span, message).with_label(stmt.span, "the loop"));
        }
    });
}

/// In `PARALLEL` no field is assigned from itself at another level.
fn parallel_rule(stencil: &Stencil, block: &Block, stmt: &Stmt, errors: &mut Vec<Diagnostic>) {
    let StmtKind::Assign { target, .. } = stmt.kind else { return };
    if block.policy != Policy::Parallel {
        return;
    }
    for read in stmt.reads() {
        if read.field == target && read.offset[2] != 0 {
            let name = &stencil.fields[target].name;
            let message = format!(
                "`{name}` is assigned from itself at a vertical offset in PARALLEL, found `{}`; \
                 this needs FORWARD or BACKWARD",
                stencil.written_access(target, read.offset)
            );
            errors.push(Diagnostic::ty(read.span, message));
        }
    }
}
