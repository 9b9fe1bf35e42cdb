//! DataFusion physical plans compiled through Weld.
//!
//! ```
//! use datafusion::execution::session_state::SessionStateBuilder;
//! use datafusion::prelude::SessionContext;
//! use weld_datafusion::WeldSessionExt;
//!
//! let state = SessionStateBuilder::new().with_default_features().with_weld().build();
//! let context = SessionContext::new_with_state(state);
//! # let _ = context;
//! ```
//!
//! [`rule`](WeldRule) cuts the plan into pipelines, `lower` turns each into one Weld program, [`WeldExec`] runs the
//! compiled program over Arrow batches. What has no lowering stays with DataFusion, and [`summary`] says why.

mod code_cache;
pub mod compare;
mod config;
mod deferred_gate;
mod distinct;
mod dynamic_filter;
mod exec;
mod explain;
mod function;
mod gate;
mod give_way;
mod lower;
mod memory;
mod nulls;
mod ordered;
mod pace;
mod pipeline;
mod planner;
mod rule;
mod scan;
mod session;
mod stoppable;
mod validate_arrays;
mod verify;

pub use code_cache::{CacheStatistics, CodeCache};
pub use config::{AtStart, Effort, PassNames, TierChoice, WeldOptions};
pub use exec::{Fused, WeldExec, uncompiled};
pub use explain::{Declined, DeclinedExec, Summary, pipelines, summary};
pub use lower::Unsupported;
pub use rule::WeldRule;
pub use session::{WeldSessionExt, execute_statement};
pub use verify::{Verdict, verdict};
pub use weld_table::{WeldTable, create_table, register_table};

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
