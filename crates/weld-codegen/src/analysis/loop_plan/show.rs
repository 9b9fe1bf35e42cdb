//! Plans in one line of text.

use std::fmt::{self, Display, Formatter};

use super::early_keys::{HashAhead, Prefetch};
use super::few_groups::FewGroups;
use super::{Buffered, Grouped, KeySearch, Known, LoopPlan, Magnitudes, Plain, Prefilter, Room, Rows, Selection};

impl Display for LoopPlan<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            LoopPlan::Plain(plan) => plan.fmt(f),
            LoopPlan::Selection(plan) => plan.fmt(f),
            LoopPlan::Magnitudes(plan) => plan.fmt(f),
            LoopPlan::Grouped(plan) => plan.fmt(f),
            LoopPlan::Prefilter(prefilter, plan) => write!(f, "{prefilter}, else {plan}"),
        }
    }
}

impl Display for Plain<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "plain: strips of {}", self.strip)?;
        match self.room {
            Some(Room { most, always: true }) => write!(f, ", room for {most} an iteration made before the loop")?,
            Some(Room { most, always: false }) => write!(f, ", room for up to {most} an iteration made by strip")?,
            None => {}
        }
        match self.appends.len() {
            0 => {}
            1 => f.write_str(", 1 append without a branch")?,
            several => write!(f, ", {several} appends without a branch")?,
        }
        if self.checked_index.is_some() {
            write!(f, ", indices checked before the loop")?;
        }
        self.hashed.iter().try_for_each(|hashed| write!(f, ", {hashed}"))?;
        if let Some(Buffered { strip, .. }) = self.buffered {
            write!(f, ", merged by {strip} of the rows of loops inside")?;
        }
        if self.is_scalar {
            f.write_str(", not vectorised")?;
        }
        match &self.prefetches[..] {
            [] => Ok(()),
            [one] => write!(f, ", lookup {one}"),
            several => write!(f, ", {} lookups {}", several.len(), several[0]),
        }
    }
}

impl Display for Prefetch<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Prefetch { distance, entries_min, dense_entries_min, .. } = self;
        match self.known {
            Known::Key(_) => {
                write!(
                    f,
                    "fetched {distance} ahead from {entries_min} entries on, {dense_entries_min} of a dense table"
                )
            }
            Known::Hash(_) => write!(f, "by hash fetched {distance} ahead from {entries_min} entries on"),
            Known::Row(..) => write!(f, "by row fetched {distance} ahead from {entries_min} entries on"),
        }
    }
}

impl Display for HashAhead<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "keys hashed {} ahead in tables of {} KB and more", self.strip, self.table_bytes_min >> 10)
    }
}

impl Display for Selection<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let conds = self.conds.len();
        let plural = if conds == 1 { "" } else { "s" };
        write!(f, "selection: {conds} condition{plural} by strips of {}, indices ", self.strip)?;
        match self.compress {
            true => write!(f, "compressed {} at a time", self.lanes),
            false => f.write_str("stored without a branch"),
        }
    }
}

impl Display for Prefilter<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "prefilter: all rows of {} vectors after one of which {} in 16 pass", self.vectors, self.passed_min)
    }
}

impl Display for Magnitudes {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("magnitudes:")?;
        let each = |(i, (column, stored)): (usize, &(usize, _))| {
            write!(f, "{} ${column} as {stored}", if i > 0 { "," } else { "" })
        };
        self.columns.iter().enumerate().try_for_each(each)
    }
}

impl Display for Grouped<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let rows = match self.rows {
            Rows::Elements => "rows",
            Rows::Selected { .. } => "selected rows",
        };
        write!(f, "grouped: strips of {} {rows}, ", self.strip)?;
        match &self.search {
            KeySearch::Codes(columns) => {
                f.write_str("keys by codes of")?;
                columns.iter().try_for_each(|column| write!(f, " ${column}"))?;
            }
            KeySearch::HashedAhead(hashed) => hashed.fmt(f)?,
            KeySearch::Hashed => f.write_str("keys hashed")?,
        }
        match &self.few {
            Some(few) => write!(f, ", {few}"),
            None => f.write_str(", values row by row"),
        }
    }
}

impl Display for FewGroups<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let fields = self.fields.len();
        write!(f, "values of up to {} groups in registers", self.groups_max)?;
        match self.fields.iter().filter(|field| field.is_narrowed()).count() {
            0 => {}
            narrowed => write!(f, ", {narrowed} of {fields} tried in 64 bits")?,
        }
        match self.fields.iter().filter(|field| field.is_kept).count() {
            0 => Ok(()),
            kept => write!(f, ", {kept} of {fields} kept between"),
        }
    }
}
