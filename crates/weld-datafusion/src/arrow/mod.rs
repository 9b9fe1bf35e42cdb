//! Arrow at the edge: record batches become chunks that compiled code reads in place, and vectors that compiled code
//! made become record batches that share their memory.

pub(crate) mod check;
pub(crate) mod gather;
pub(crate) mod input;
pub(crate) mod lists;
pub(crate) mod moved;
pub(crate) mod output;
