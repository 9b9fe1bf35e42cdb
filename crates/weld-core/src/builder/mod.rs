//! What builders mean: identities, how values combine, and the state that the interpreter merges into.
//!
//! `merger[i64,min]` starts from the identity `i64::MAX`; merging 5 and 3 combines them to 3, which is its result.

mod reduce;
mod state;
mod struct_op;

pub use reduce::{combine, identity, identity_value, reduce};
pub use state::Handle;
pub(crate) use state::{Failure, State};
