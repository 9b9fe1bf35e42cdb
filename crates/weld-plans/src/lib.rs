//! Plan rewrites and runtime filters for DataFusion's physical plans.
//!
//! Nothing here knows how operators are run: the rules serve DataFusion's own operators as well as compiled ones.
#![forbid(unsafe_code)]

mod key_set;

pub use key_set::{KeySet, KeySetBuilder, KeySetExpr};
