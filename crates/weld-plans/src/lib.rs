//! Plan rewrites and runtime filters for DataFusion's plans.
//!
//! Nothing here knows how operators are run: the rules serve DataFusion's own operators as well as compiled ones.
//! [`rules`] puts those on physical plans into a list of rules, each at its place; [`DistinctAggregates`] and
//! [`CommonNames`] work on logical plans, and whoever builds the session adds them. `estimate`, `selectivity`,
//! `distinct`, `ranges` and `footers` say what is expected of rows; `docs/execution.md` says what each rule is for.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod common_names;
mod common_subplans;
mod compact_views;
mod distinct;
mod distinct_aggregates;
mod distinct_order;
mod distinct_sets;
mod doubtful_orders;
mod dynamic_filters;
mod estimate;
mod expr;
mod expr_estimate;
mod first_key;
mod footers;
mod guard;
mod held;
mod join_order;
mod key_filters;
mod key_set;
mod memo;
mod misdirected_filters;
mod node;
mod outer_joins;
mod ranges;
mod repetition;
mod selectivity;

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;

use distinct_sets::DistinctSets;
use doubtful_orders::DoubtfulOrders;
use guard::Guarded;
use misdirected_filters::CarefulPushdown;
use outer_joins::OuterJoins;

pub use common_names::CommonNames;
pub use common_subplans::{
    CommonSubplanScanExec, CommonSubplans, CommonSubplansExec, is_datafusions_reader, is_same_partitioning,
    kept_columns, with_projection, without_common_subplans,
};
pub use compact_views::{CompactViewsExec, with_compact_views};
pub use distinct::{has_few_texts, text_column};
pub use distinct_aggregates::DistinctAggregates;
pub use distinct_order::with_order_of_distinct;
pub use doubtful_orders::UnorderedExec;
pub use dynamic_filters::{current_filter, is_found_again};
pub use estimate::ExpectedRows;
pub use expr::cannot_fail;
pub use first_key::{FirstKeyFilter, with_first_key_filters};
pub use footers::footers;
pub use held::HeldExec;
pub use join_order::JoinOrder;
pub use key_filters::{
    JoinKeys, JoinKeysExec, KeyFilter, KeyFilterExec, KeyFilters, KeySets, between, is_filter_used, key_set,
    with_key_sets, within, without_key_filters,
};
pub use key_set::{KeySet, KeySetBuilder, KeySetExpr, has_sets, text_key};
pub use memo::Memo;
pub use misdirected_filters::without_misdirected_filters;
pub use ranges::Ranges;

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// Which rewrites are on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlanOptions {
    /// Aggregates of distinct values in two steps: grouped by them, then over the groups.
    pub distinct_aggregates: bool,
    /// Aggregates of distinct values in one step after all, where sets of them are small.
    pub distinct_sets: bool,
    /// Outer joins as inner or anti joins, where what is above drops the rows that they add, or all others.
    pub outer_joins: bool,
    /// Joins in the order that is expected to give fewest rows.
    pub join_order: bool,
    /// Where joins are ordered, inner joins as semi joins if nobody notices how often a row matches.
    pub semi_joins: bool,
    /// Equal subplans once, where operators are spared so many rows at least; `None`: not at all.
    pub common_subplans: Option<usize>,
    /// The same of subplans that differ in what their filters compare with alone.
    pub similar_subplans: bool,
    /// Filters of probe sides by the keys of build sides.
    pub key_filters: bool,
    /// No condition is pushed where it may come to another column of the same name.
    pub careful_pushdown: bool,
    /// Orders that DataFusion takes for granted though they may not be so are established.
    pub doubtful_orders: bool,
}

/// `rules`, DataFusion's list or one made of it, with the rules of this crate at their places, unless they are there
/// already; `options` finds a session's settings, `ranges` are what it has read of tables.
pub fn rules(mut rules: Vec<Rule>, options: fn(&ConfigOptions) -> PlanOptions, ranges: &Arc<Ranges>) -> Vec<Rule> {
    let place_of = |rules: &[Rule], name: &str| rules.iter().position(|rule| rule.name() == name);
    if let (Some(selection), None) = (place_of(&rules, "join_selection"), place_of(&rules, JoinOrder::NAME)) {
        rules.insert(selection + 1, Arc::new(Guarded(OuterJoins::new(options))));
        rules.insert(selection + 2, Arc::new(Guarded(JoinOrder::new(options, Arc::clone(ranges)))));
        rules.insert(selection + 3, Arc::new(Guarded(DistinctSets::new(options, Arc::clone(ranges)))));
        // Joins have their sides by now.
        rules.insert(selection + 4, Arc::new(Guarded(DoubtfulOrders(options))));
        if let Some(pushdown) = rules.iter_mut().find(|rule| rule.name() == "FilterPushdown") {
            *pushdown = Arc::new(CarefulPushdown::new(Arc::clone(pushdown), options));
        }
    }
    // Once dynamic filters are attached, no two subplans are equal.
    let attach = place_of(&rules, "FilterPushdown(Post)");
    if let (Some(attach), None) = (attach, place_of(&rules, CommonSubplans::NAME)) {
        rules.insert(attach, Arc::new(Guarded(CommonSubplans::new(options, Arc::clone(ranges)))));
    }
    if place_of(&rules, KeyFilters::NAME).is_none() {
        rules.push(Arc::new(Guarded(KeyFilters::new(options, Arc::clone(ranges)))));
    }
    rules
}
