//! Ways of running loops that make them faster and change nothing of what they give. Each can be left out, so that
//! results with and without it can be compared.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

/// A way of running loops that can be left out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FastPath {
    /// Loops that keep indices compute their conditions for a strip of rows, and store without a branch.
    Selections,
    /// Magnitudes of columns are taken at the width that these are stored at.
    Magnitudes,
    /// Loops that merge rows into a dictionary look for a strip of keys first and merge the values then.
    GroupedLoops,
    /// Grouped loops merge strips of few groups in registers, with decimals in 64 bits.
    FewGroups,
    /// Grouped loops find groups by dictionary codes.
    KeyCodes,
    /// Loops that merge into a large dictionary hash a strip of keys first.
    HashAhead,
    /// What nested loops merge into a dictionary is collected and merged by the strip.
    BufferedMerges,
    /// Loops that look up keys in a large dictionary ask for its memory some iterations ahead.
    Prefetches,
    /// Loops that keep the rows whose keys a table may contain keep all rows while nearly all pass.
    Prefilters,
    /// The indices of merges into a vecmerger are checked before the loop.
    CheckedIndices,
    /// Checked 128-bit arithmetic is tried in 64 bits row by row.
    NarrowRows,
}

impl FastPath {
    pub const ALL: [FastPath; 11] = [
        FastPath::Selections,
        FastPath::Magnitudes,
        FastPath::GroupedLoops,
        FastPath::FewGroups,
        FastPath::KeyCodes,
        FastPath::HashAhead,
        FastPath::BufferedMerges,
        FastPath::Prefetches,
        FastPath::Prefilters,
        FastPath::CheckedIndices,
        FastPath::NarrowRows,
    ];

    /// The name that settings have for it.
    pub fn name(self) -> &'static str {
        match self {
            FastPath::Selections => "selections",
            FastPath::Magnitudes => "magnitudes",
            FastPath::GroupedLoops => "grouped-loops",
            FastPath::FewGroups => "few-groups",
            FastPath::KeyCodes => "key-codes",
            FastPath::HashAhead => "hash-ahead",
            FastPath::BufferedMerges => "buffered-merges",
            FastPath::Prefetches => "prefetches",
            FastPath::Prefilters => "prefilters",
            FastPath::CheckedIndices => "checked-indices",
            FastPath::NarrowRows => "narrow-rows",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<FastPath> {
        FastPath::ALL.into_iter().find(|path| path.name() == name)
    }

    /// Those among names, some of which may be of the optimizer's passes.
    pub fn among(names: &[String]) -> BTreeSet<FastPath> {
        names.iter().filter_map(|name| FastPath::named(name)).collect()
    }
}

impl Display for FastPath {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
