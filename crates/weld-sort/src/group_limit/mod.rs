//! The first rows of each window partition: what `row_number() <= k` and `rank() <= k` keep, found before rows are
//! sorted.
//!
//! ```text
//! FilterExec: rn <= 3                                              FilterExec: rn <= 3
//!   WindowExec: rn = row_number() PARTITION BY g ORDER BY x          WindowExec: ..
//!     SortExec: g, x                                     ───►          SortExec: g, x
//!       RepartitionExec: Hash(g)                                         RepartitionExec: Hash(g)
//!                                                                          WindowGroupLimitExec: 3 rows of each g by x
//! ```
//! A row that is behind k others of its group is none of the first, whatever else comes, and rows behind it do not
//! count for those before it: [`WindowGroupLimitExec`] drops it, and nobody sorts, exchanges or numbers it. Rows that
//! tie in what their keys hold ([`Prefix`](crate::prefix::Prefix)) are kept, so that the window gives the numbers that
//! it would have given. Spark has the same operator.

mod exec;
mod rows;
mod rule;

pub use exec::WindowGroupLimitExec;
pub use rule::limit_window_groups;

use arrow::datatypes::DataType;

/// So many rows of a group are kept at most.
const LIMIT_MAX: usize = 256;

/// Which rows of a group are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Limit {
    /// As many as this, or with as many different sort keys.
    first: usize,
    /// Whether rows with equal sort keys count for one, as they do for `dense_rank`.
    counts_ties_once: bool,
}

/// Whether two values are the same for a window exactly if they are for groups: of floats, zeros and NaNs are not.
fn can_be_grouped(data_type: &DataType) -> bool {
    !data_type.is_nested() && !data_type.is_floating() && !matches!(data_type, DataType::Dictionary(..))
}
