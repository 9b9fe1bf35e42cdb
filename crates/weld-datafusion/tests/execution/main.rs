//! What a plan promises beside its values: limits, exchanges, errors, memory, when rows come, and plans that are used
//! in unusual ways. One binary, a module for each.

mod accumulated;
#[path = "../common/mod.rs"]
mod common;
mod common_subplans;
mod distinct;
mod exchanges;
mod fallback;
mod faults;
mod first_key_filters;
mod first_last;
mod float_keys;
mod grouping_sets;
mod interned;
mod join_types;
mod joins;
mod key_filters;
mod limits;
mod memory;
mod misdirected_filters;
mod passes;
mod plans;
mod radix;
mod recursion;
mod sources;
mod stopping;
mod streaming;
mod subqueries;
mod window_group_limits;
