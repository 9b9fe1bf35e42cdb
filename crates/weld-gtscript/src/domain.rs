//! The compute domain, and what is checked once before anything runs: intervals, and every access of every point.

use std::collections::HashSet;

use weld_core::diag::Span;
use weld_core::ir::build;

use crate::args::{Array, Frame};
use crate::interval;
use crate::sizes::{Cond, Int};
use crate::tree::{Access, Bound, Extent, FieldId, Interval, Policy, Stencil, StmtKind};

/// Where a field is read or written: at an offset, over a statement's domain.
struct Reach<'s> {
    field: FieldId,
    offset: [i32; 3],
    extent: Extent,
    interval: &'s Interval,
    span: Span,
    is_write: bool,
}

/// A check before the loops.
struct Check {
    cond: Cond,
    message: String,
    span: Span,
}

fn reaches(stencil: &Stencil) -> Vec<Reach<'_>> {
    let (mut all, mut seen) = (Vec::new(), HashSet::new());
    stencil.each_stmt(&mut |block, stmt| {
        let mut add = |read: Access, is_write: bool| {
            let interval = &block.interval;
            if !stencil.fields[read.field].mask
                && seen.insert((read.field, read.offset, stmt.extent, interval.start, interval.end))
            {
                let Access { field, offset, span } = read;
                all.push(Reach { field, offset, extent: stmt.extent, interval, span, is_write });
            }
        };
        stmt.reads().into_iter().for_each(|read| add(read, false));
        if let StmtKind::Assign { target, place, .. } = stmt.kind {
            add(Access { field: target, offset: [0; 3], span: place }, true);
        }
    });
    all
}

/// A bound as a level of a domain of so many levels.
pub(crate) fn level(bound: Bound, levels: &Int) -> Int {
    match bound.from_end {
        true => levels.plus(bound.offset),
        false => Int::Known(bound.offset),
    }
}

/// The largest domain that fits all accesses: the fields' origins move to its first point. No domain is larger than all
/// fields are: levels that no interval reaches are levels of the fields, too.
pub(crate) fn largest(stencil: &Stencil, arrays: &mut [Option<Array>], has_origin: bool) -> [Int; 3] {
    let reaches = reaches(stencil);
    [0, 1, 2].map(|axis| {
        let fields = reaches.iter().filter(|reach| stencil.fields[reach.field].external);
        let fields: Vec<&Reach<'_>> = fields.filter(|reach| stencil.fields[reach.field].axes[axis]).collect();
        let shift = match has_origin {
            true => 0,
            false => fields.iter().map(|reach| -lowest(reach, axis)).max().unwrap_or(0).max(0),
        };
        for (field, array) in arrays.iter_mut().enumerate() {
            if let Some(array) = array
                && stencil.fields[field].axes[axis]
            {
                array.frame.origin[axis] = array.frame.origin[axis].plus(shift);
            }
        }
        let fits = fields.iter().filter_map(|reach| {
            let frame = &arrays[reach.field].as_ref()?.frame;
            Some(frame.size[axis].sub(&frame.origin[axis]).plus(-beyond(reach, axis)))
        });
        let least = fits.reduce(|least, size| least.min(&size));
        let sizes = fields.iter().filter_map(|reach| {
            let frame = &arrays[reach.field].as_ref()?.frame;
            Some(frame.size[axis].sub(&frame.origin[axis]))
        });
        let greatest = sizes.reduce(|greatest, size| greatest.max(&size));
        let least = least.zip(greatest).map(|(least, greatest)| least.min(&greatest));
        // The size of a field is no less than 0.
        let is_size = |least: &Int| arrays.iter().flatten().any(|array| array.frame.size[axis].same(least));
        match least {
            Some(least) if is_size(&least) => least,
            Some(least) => least.max(&Int::Known(0)),
            None => Int::Known(1),
        }
    })
}

/// The lowest index that is read when the domain's first point is at 0, as far as the domain does not matter.
fn lowest(reach: &Reach<'_>, axis: usize) -> i64 {
    match axis {
        2 if reach.interval.start.from_end => 0,
        2 => reach.interval.start.offset + i64::from(reach.offset[2]),
        _ => i64::from(reach.extent.0[2 * axis]) + i64::from(reach.offset[axis]),
    }
}

/// How far it is read beyond the domain's last point.
fn beyond(reach: &Reach<'_>, axis: usize) -> i64 {
    match axis {
        2 if !reach.interval.end.from_end => 0,
        2 => reach.interval.end.offset + i64::from(reach.offset[2]),
        _ => i64::from(reach.extent.0[2 * axis + 1]) + i64::from(reach.offset[axis]),
    }
}

/// What must be so that there is anything to do.
pub(crate) struct Run {
    /// Whether there is anything to do; raises the error of the first check that fails.
    pub(crate) cond: Cond,
    /// Whether that is whether the domain has points, and no more.
    pub(crate) has_points: bool,
}

pub(crate) fn checked(stencil: &Stencil, domain: &[Int; 3], frames: &[Option<Frame>]) -> Run {
    let zero = Int::Known(0);
    // What holds where a check is looked at: each is made once.
    let mut known: Vec<Cond> = domain.iter().map(|size| zero.lt(size)).collect();
    let mut cond = known.iter().cloned().fold(Cond::Known(true), Cond::and);
    let mut checks = intervals(stencil, &domain[2]);
    for reach in reaches(stencil) {
        checks.extend(access(stencil, &reach, domain, frames));
    }
    let mut has_points = true;
    for check in checks {
        if matches!(check.cond, Cond::Known(true)) || known.iter().any(|known| known.same(&check.cond)) {
            continue;
        }
        has_points = false;
        let message = format!("{}: {}", stencil.name, check.message);
        cond = cond.and(Cond::Expr(build::require(check.cond.expr(), &message, []).at(check.span)));
        known.push(check.cond);
    }
    Run { cond, has_points }
}

fn intervals(stencil: &Stencil, levels: &Int) -> Vec<Check> {
    let mut checks = Vec::new();
    let known = |levels: &Int| match levels.known() {
        Some(1) => "a domain of 1 level".to_owned(),
        Some(levels) => format!("a domain of {levels} levels"),
        None => "the domain".to_owned(),
    };
    for block in &stencil.blocks {
        let interval = &block.interval;
        let (start, end) = (level(interval.start, levels), level(interval.end, levels));
        let inside = Int::Known(0).le(&start).and(end.le(levels));
        let message = format!("{interval} goes beyond {}", known(levels));
        checks.push(Check { cond: inside, message, span: interval.span });
        let message = format!("{interval} is empty or reversed over {}", known(levels));
        checks.push(Check { cond: start.lt(&end), message, span: interval.span });
    }
    for (i, block) in stencil.blocks.iter().enumerate() {
        for before in stencil.blocks[..i].iter().filter(|before| before.computation == block.computation) {
            let (first, second) = match block.policy {
                Policy::Backward => (&block.interval, &before.interval),
                _ => (&before.interval, &block.interval),
            };
            let apart = |a: &Interval, b: &Interval| level(a.end, levels).le(&level(b.start, levels));
            let cond = match block.policy {
                Policy::Parallel => apart(first, second).or(apart(second, first)),
                _ if interval::depends_on_levels(first, second) => apart(first, second),
                _ => Cond::Known(true),
            };
            let message = format!("{} overlaps {} over {}", block.interval, before.interval, known(levels));
            checks.push(Check { cond, message, span: block.interval.span });
        }
    }
    checks
}

/// The checks of one access: whether all that it touches lies in the field.
fn access(stencil: &Stencil, reach: &Reach<'_>, domain: &[Int; 3], frames: &[Option<Frame>]) -> Vec<Check> {
    let field = &stencil.fields[reach.field];
    let Some(frame) = &frames[reach.field] else { return Vec::new() };
    let mut checks = Vec::new();
    let axes = if field.external { field.axes } else { [false, false, true] };
    for axis in (0..3).filter(|axis| axes[*axis]) {
        let offset = i64::from(reach.offset[axis]);
        let (from, to) = match axis {
            2 => (level(reach.interval.start, &domain[2]), level(reach.interval.end, &domain[2])),
            _ => {
                let extent = reach.extent.0;
                (Int::Known(i64::from(extent[2 * axis])), domain[axis].plus(i64::from(extent[2 * axis + 1])))
            }
        };
        let first = frame.origin[axis].add(&from).plus(offset);
        let last = frame.origin[axis].add(&to).plus(offset);
        let what = match reach.is_write {
            true => format!("`{}` is written", field.name),
            false => format!("`{}` is read", stencil.written_access(reach.field, reach.offset)),
        };
        let axis_name = ["I", "J", "K"][axis];
        let at = |index: &Int, open: &str| match (frame.size[axis].known(), index.known()) {
            (Some(size), Some(index)) => {
                format!("index {index} of `{}` along {axis_name}, whose size is {size}", field.name)
            }
            _ => format!("an index of `{}` along {axis_name} that is {open}", field.name),
        };
        // How far later reads with offsets need the statement beyond the domain.
        let extended = |side: usize| match reach.extent.0.get(2 * axis + side) {
            None | Some(0) => String::new(),
            Some(by) => format!(" over the domain extended by {by}"),
        };
        let below = Int::Known(0).le(&first);
        let message = format!("{what}{} out of bounds: at {}", extended(0), at(&first, "below 0"));
        checks.push(Check { cond: below, message, span: reach.span });
        let message = format!("{what}{} out of bounds: at {}", extended(1), at(&last.plus(-1), "beyond its size"));
        checks.push(Check { cond: last.le(&frame.size[axis]), message, span: reach.span });
    }
    checks
}
