//! The rule that puts `WeldExec` into a physical plan. It is appended to DataFusion's own, so it sees the final plan.
//!
//! From the top down it takes the longest chain of operators that lower, over the probe sides of joins; build sides
//! become pipelines of their own. A chain is compiled if it filters, joins, aggregates or computes; one that only
//! moves columns gains nothing. What stays with DataFusion is noted with the reason.

mod by_entry;
pub(crate) mod foreign;
mod join;
pub(crate) mod source_projections;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::{Distribution, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::sanity_checker::SanityCheckPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::work_table::WorkTableExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};
use weld_codegen::CodeFolder;
use weld_plans::{
    CommonSubplansExec, ExpectedRows, FirstKeyFilter, JoinKeysExec, KeyFilter, KeyFilterExec, Ranges, UnorderedExec,
    with_compact_views, with_first_key_filters, with_order_of_distinct, without_common_subplans,
    without_misdirected_filters,
};
use weld_sort::{KeySortExec, WindowGroupLimitExec, limit_window_groups};
use weld_window::WindowExec;

use crate::code_cache::{CodeCache, Settings};
use crate::config::WeldOptions;
use crate::dynamic_filter::TableKeys;
use crate::exec::{
    Compilation, DynamicFilter, Filters, Fused, Partitions, Pipeline, Replaced, WeldExec, with_inputs, without_notes,
};
use crate::explain::{Declined, DeclinedExec, is_operator};
use crate::gate::{self, KnownRows};
use crate::lower::aggregate::Aggregate;
use crate::lower::foreign::may_fail;
use crate::lower::pipeline::{Sink, Step, source_column};
use crate::lower::{self, Unsupported, size};
use crate::nulls::Nulls;
use crate::scan;
use crate::stoppable::{calls_long, stoppable};
use crate::verify;

/// Replaces what compiles. One rule serves one session.
#[derive(Debug, Default)]
pub struct WeldRule {
    cache: Arc<CodeCache>,
    folder: Option<Arc<CodeFolder>>,
    /// What the session has read of tables.
    ranges: Arc<Ranges>,
}

impl WeldRule {
    /// A rule that keeps code in this cache, and in this folder if there is one, and knows of tables what the rules of
    /// plans have read.
    pub fn sharing(cache: Arc<CodeCache>, folder: Option<Arc<CodeFolder>>, ranges: Arc<Ranges>) -> WeldRule {
        WeldRule { cache, folder, ranges }
    }

    /// A rule whose compiler refuses the programs that `refuses` is true of, to test what happens then.
    #[doc(hidden)]
    pub fn refusing(refuses: impl Fn(&str) -> bool + Send + Sync + 'static) -> WeldRule {
        WeldRule { cache: Arc::new(CodeCache::refusing(refuses)), ..WeldRule::default() }
    }

    fn rewrite(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        options: WeldOptions,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = without_misdirected_filters(Arc::clone(plan))?;
        let plan = &with_order_of_distinct(plan)?;
        let (rows, expected) = (KnownRows::default(), ExpectedRows::new(&self.ranges));
        if !options.verify && gate::is_small(plan, &rows, &expected, &options) {
            let mut declined = Vec::new();
            gate::declined(plan, &mut declined);
            let plan = if options.scan { scan::with_scans(Arc::clone(plan))? } else { Arc::clone(plan) };
            return Ok(Arc::new(DeclinedExec::new(plan, declined)));
        }
        let plan_number = self.cache.new_plan();
        let mut rewriter = Rewriter {
            options,
            config,
            cache: Arc::clone(&self.cache),
            folder: self.folder.clone(),
            plan: plan_number,
            declined: Vec::new(),
            nulls: Nulls::default(),
            rows,
            ranges: Arc::clone(&self.ranges),
            expected,
        };
        let stock = without_notes(plan);
        let limited = match rewriter.options.plans && rewriter.options.window_group_limits {
            true => limit_window_groups(Arc::clone(&stock), &rewriter.expected)?,
            false => Arc::clone(&stock),
        };
        let prepared = source_projections::take_out(limited, &rewriter.options)?;
        let prepared = by_entry::pushed(prepared, &rewriter.options)?;
        let prepared = foreign::set_apart(prepared, &rewriter.options)?;
        let mut plan = rewriter.rewrite(prepared, false)?;
        if rewriter.options.scan {
            plan = scan::with_scans(plan)?;
        }
        if rewriter.options.verify {
            plan = verify::beside(plan, &without_common_subplans(stock)?)?;
        }
        Ok(if rewriter.declined.is_empty() { plan } else { Arc::new(DeclinedExec::new(plan, rewriter.declined)) })
    }
}

impl PhysicalOptimizerRule for WeldRule {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let options = WeldOptions::of(config);
        if !options.enabled {
            return stoppable(plan);
        }
        let careful = WeldOptions { drop_exchanges: false, ..options.clone() };
        // A filter whose condition is evaluated below it does not know what the condition says to be equal.
        let whole = WeldOptions { evaluate: false, ..options.clone() };
        let may_fail = options.evaluate;
        for (options, may_fail) in [(options, may_fail), (whole, false), (careful, false)] {
            match rewritten(|| self.rewrite(&plan, options, config), config) {
                Ok(rewritten) => return stoppable(with_compact_views(rewritten)?),
                Err(error) if may_fail => log::debug!("nothing is evaluated below operators: {error}"),
                // Plans that never kept what they promise are not ours to repair.
                Err(_) if SanityCheckPlan::new().optimize(Arc::clone(&plan), config).is_err() => break,
                Err(error) if cfg!(debug_assertions) => return Err(error),
                Err(error) => log::error!("a plan is left as it was: {error}"),
            }
        }
        stoppable(plan)
    }

    fn name(&self) -> &str {
        "weld"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The plan that `rewrite` makes, if it gives every operator what it requires of its inputs. A panic is an error.
fn rewritten(
    rewrite: impl FnOnce() -> Result<Arc<dyn ExecutionPlan>>,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = catch_unwind(AssertUnwindSafe(rewrite));
    let plan = plan.unwrap_or_else(|_| internal_err!("the rule panicked"))?;
    SanityCheckPlan::new().optimize(plan, config)
}

struct Rewriter<'a> {
    options: WeldOptions,
    config: &'a ConfigOptions,
    cache: Arc<CodeCache>,
    folder: Option<Arc<CodeFolder>>,
    /// The number of the plan.
    plan: u64,
    declined: Vec<Declined>,
    nulls: Nulls,
    rows: KnownRows,
    ranges: Arc<Ranges>,
    expected: ExpectedRows,
}

/// A pipeline under construction, from the sink towards the source.
struct Chain {
    /// The last step first.
    steps: Vec<Step>,
    /// All operators, the last first.
    fused: Vec<Fused>,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    /// The build pipelines of the probes and the plans in whose place they are, the last step's first.
    builds: Vec<(Arc<dyn ExecutionPlan>, Arc<dyn ExecutionPlan>)>,
    source: Arc<dyn ExecutionPlan>,
    /// Filters between the operators and the source, which the source has, too.
    awaited: Vec<KeyFilter>,
    /// How many columns the sink is given.
    columns: usize,
    /// Which of the source's columns are needed.
    needed: Vec<bool>,
    /// Those that rows are grouped by as they are.
    keys: Vec<usize>,
    /// Whether somebody above, or one of the operators, relies on how the rows are partitioned.
    keep_partitioning: bool,
    /// Whether the operators have to find their rows as the source partitions them. Joins do not, but those of
    /// DataFusion that they replace do, unless the exchange that they need is one of the replaced operators.
    relies: bool,
    dropped_exchange: bool,
    /// Whether rows come out in other partitions than they would.
    moves_rows: bool,
    /// Whether the operators so far give a row for each of theirs, to the end: a limit below them is one of theirs.
    passes_limits: bool,
    fetch: Option<usize>,
}

/// What becomes of the table of a build pipeline.
#[derive(Default)]
struct Built {
    feeds: Option<DynamicFilter>,
    keys: Option<TableKeys>,
    per_partition: bool,
}

/// What operators a chain takes beside filters and projections.
#[derive(Clone, Copy)]
struct Takes {
    /// Aggregates: not below joins, whose tables are combined before anything is grouped, nor where the rows of groups
    /// are to be given to accumulators as they come.
    groups: bool,
    /// Joins: not where the order of rows counts.
    joins: bool,
}

impl Takes {
    const ALL: Takes = Takes { groups: true, joins: true };
}

/// An operator that lowers: its step and what comes before it.
struct Taken {
    step: Step,
    input: Arc<dyn ExecutionPlan>,
}

impl Chain {
    fn new(source: &Arc<dyn ExecutionPlan>, sink: &Sink, keep_partitioning: bool) -> Chain {
        let columns = source.schema().fields().len();
        Chain {
            steps: Vec::new(),
            fused: Vec::new(),
            exprs: Vec::new(),
            builds: Vec::new(),
            source: Arc::clone(source),
            awaited: Vec::new(),
            columns,
            needed: sink.needed(columns),
            keys: sink.keys(),
            keep_partitioning,
            relies: false,
            dropped_exchange: false,
            moves_rows: false,
            passes_limits: matches!(sink, Sink::Rows),
            fetch: None,
        }
    }

    /// How the source has to be partitioned: as it is, for those who rely on that.
    fn distribution(&self) -> Distribution {
        match self.source.output_partitioning() {
            _ if !self.relies => Distribution::UnspecifiedDistribution,
            partitioning if partitioning.partition_count() == 1 => Distribution::SinglePartition,
            Partitioning::Hash(keys, _) => Distribution::KeyPartitioned(keys.clone()),
            Partitioning::Range(range) => {
                Distribution::KeyPartitioned(range.ordering().iter().map(|key| Arc::clone(&key.expr)).collect())
            }
            _ => Distribution::UnspecifiedDistribution,
        }
    }

    /// Whether compiling pays: something must be computed, not only moved.
    fn gains(&self) -> bool {
        self.steps.iter().any(|step| match step {
            Step::Filter { .. } | Step::Probe { .. } | Step::Aggregate(_) => true,
            Step::Project { exprs, .. } => exprs.iter().any(|expr| !expr.is::<Column>() && !expr.is::<Literal>()),
        })
    }
}

impl Rewriter<'_> {
    /// The plan with what compiles replaced. `keep_partitioning` if somebody above relies on the partitioning.
    fn rewrite(&mut self, plan: Arc<dyn ExecutionPlan>, keep_partitioning: bool) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(window) = WindowExec::of(&plan) {
            let reason = window.err().or_else(|| off(self.options.window, "weld.window"));
            return self.native(plan, reason, keep_partitioning, |plan| Some(Arc::new(WindowExec::of(plan)?.ok()?)));
        }
        if let Some(sort) = KeySortExec::of(&plan) {
            let reason = sort.err().or_else(|| off(self.options.sort, "weld.sort"));
            // Its tasks would keep the runtime's threads.
            let reason = reason.or_else(|| calls_long(&plan).then(|| "a function in its keys may run long".to_owned()));
            let (plan, first) = if reason.is_none() { self.with_first_key_filters(plan)? } else { (plan, Vec::new()) };
            let made = |plan: &_| Some(Arc::new(KeySortExec::narrowing(plan, &first)?.ok()?) as _);
            return self.native(plan, reason, keep_partitioning, made);
        }
        match self.compile(&plan, keep_partitioning)? {
            Ok(compiled) => return Ok(compiled),
            Err(unsupported) => self.decline(&plan, unsupported),
        }
        self.rewrite_children(plan, keep_partitioning)
    }

    /// A sort whose input's sources have filters by its first key, where they take any.
    fn with_first_key_filters(
        &self,
        plan: Arc<dyn ExecutionPlan>,
    ) -> Result<(Arc<dyn ExecutionPlan>, Vec<FirstKeyFilter>)> {
        let is_on = self.options.plans && self.options.first_key_filters;
        let Some(sort) = plan.downcast_ref::<SortExec>().filter(|_| is_on) else { return Ok((plan, Vec::new())) };
        Ok(match with_first_key_filters(sort, self.config)? {
            Some((input, filters)) => (with_inputs(plan, vec![input])?, filters),
            None => (plan, Vec::new()),
        })
    }

    /// An operator that is not compiled, but `made` one of the project's own unless there is a `reason`.
    fn native(
        &mut self,
        plan: Arc<dyn ExecutionPlan>,
        reason: Option<String>,
        keep_partitioning: bool,
        made: impl Fn(&Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(reason) = reason {
            let name = plan.name().to_owned();
            self.decline(&plan, Unsupported::new(&name, reason));
            return self.rewrite_children(plan, keep_partitioning);
        }
        let plan = self.rewrite_children(plan, keep_partitioning)?;
        Ok(made(&plan).unwrap_or(plan))
    }

    fn rewrite_children(
        &mut self,
        plan: Arc<dyn ExecutionPlan>,
        keep_partitioning: bool,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let exchange = plan.is::<RepartitionExec>() || plan.output_partitioning().partition_count() == 1;
        let required: Vec<Distribution> = plan.input_distribution_requirements().into_per_child();
        let mut children = Vec::new();
        for (child, required) in plan.children().into_iter().cloned().zip(required) {
            let keyed = !matches!(required, Distribution::UnspecifiedDistribution | Distribution::SinglePartition);
            // Who reads a common subplan relies on its partitions.
            let keyed = keyed || (plan.is::<CommonSubplansExec>() && !children.is_empty());
            let keep = keyed || (keep_partitioning && !exchange) || !says_what_it_requires(plan.as_ref());
            children.push(self.rewrite(child, keep)?);
        }
        with_inputs(plan, children)
    }

    fn decline(&mut self, plan: &Arc<dyn ExecutionPlan>, unsupported: Unsupported) {
        if is_operator(plan.as_ref()) && !plan.is::<WeldExec>() {
            let reason = if unsupported.what == plan.name() { unsupported.why } else { unsupported.to_string() };
            self.declined.push(Declined { operator: plan.name().to_owned(), reason });
        }
    }

    /// A pipeline whose last operator is `plan`, or why there is none.
    fn compile(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        keep_partitioning: bool,
    ) -> Result<lower::Result<Arc<dyn ExecutionPlan>>> {
        let started = if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
            return self.compile_aggregate(plan, aggregate, keep_partitioning);
        } else if let Some(Ok(join)) = self.recognised(plan)
            && join.join.preserves_build()
        {
            self.preserving_join(join, keep_partitioning)?
        } else {
            Ok((Sink::Rows, Chain::new(plan, &Sink::Rows, keep_partitioning)))
        };
        match started {
            Ok((sink, chain)) => self.compile_chain(plan, sink, chain),
            Err(unsupported) => Ok(Err(unsupported)),
        }
    }

    /// Whether an aggregate lowers shows when its pipeline does. One that does not is looked at alone: more of its
    /// calls may have to be left to accumulators.
    fn compile_aggregate(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        exec: &AggregateExec,
        keep_partitioning: bool,
    ) -> Result<lower::Result<Arc<dyn ExecutionPlan>>> {
        if let Err(unsupported) = enabled(self.options.aggregate, "AggregateExec", "weld.aggregate") {
            return Ok(Err(unsupported));
        }
        let aggregate = match Aggregate::of(exec) {
            Ok(aggregate) => aggregate,
            Err(unsupported) => return Ok(Err(unsupported)),
        };
        let declined = self.declined.len();
        let compiled = match size::check(aggregate.exprs()) {
            Ok(()) => {
                let (sink, chain) = aggregating(plan, exec, aggregate.clone(), keep_partitioning);
                self.compile_chain(plan, sink, chain)?
            }
            Err(unsupported) => Err(unsupported),
        };
        let Err(unsupported) = compiled else { return Ok(compiled) };
        match Aggregate::checked(exec) {
            Ok(checked) if checked.compiles_as_many(&aggregate) => Ok(Err(unsupported)),
            Ok(checked) => {
                self.declined.truncate(declined);
                let (sink, chain) = aggregating(plan, exec, checked, keep_partitioning);
                self.compile_chain(plan, sink, chain)
            }
            Err(unsupported) => {
                self.declined.truncate(declined);
                Ok(Err(unsupported))
            }
        }
    }

    /// A pipeline that goes on below its last operator.
    fn compile_chain(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        sink: Sink,
        mut chain: Chain,
    ) -> Result<lower::Result<Arc<dyn ExecutionPlan>>> {
        let taken = match &sink {
            Sink::Join { .. } => Takes { groups: false, ..Takes::ALL },
            Sink::Aggregate(aggregate) => Takes { groups: !aggregate.accumulates(), joins: !aggregate.is_ordered() },
            _ => Takes::ALL,
        };
        let stopped = self.extend(&mut chain, taken)?;
        if chain.fused.is_empty() {
            return Ok(Err(stopped));
        }
        if matches!(sink, Sink::Rows) && !chain.gains() {
            return Ok(Err(Unsupported::new(plan.name(), "only moves columns: nothing to compile")));
        }
        if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
            // Texts of build sides are interned.
            if let Err(unsupported) = self.gains_by_grouping(aggregate, !chain.builds.is_empty()) {
                return Ok(Err(unsupported));
            }
        }
        let only_accumulates = |sink: &Sink| matches!(sink, Sink::Aggregate(aggregate) if aggregate.only_accumulates());
        if self.options.compile_min_rows > 0 && only_accumulates(&sink) {
            return Ok(Err(Unsupported::new(
                plan.name(),
                "accumulators that are given rows without groups gain nothing",
            )));
        }
        if self.options.compile_min_rows > 0 && reads_step(&chain.source) {
            return Ok(Err(Unsupported::new(plan.name(), "a step of a recursive query has few rows")));
        }
        self.finish(chain, sink, plan, Built::default())
    }

    /// Takes operators into the chain as long as they lower; gives the reason for which the next does not.
    fn extend(&mut self, chain: &mut Chain, takes: Takes) -> Result<Unsupported> {
        loop {
            if let Some(unordered) = chain.source.downcast_ref::<UnorderedExec>() {
                chain.source = Arc::clone(unordered.input());
            }
            let node = Arc::clone(&chain.source);
            let taken = if let Some(filter) = node.downcast_ref::<FilterExec>() {
                self.filter(filter, chain)
            } else if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
                self.projection(projection, chain)
            } else if let Some(join) = self.recognised(&node).filter(|_| takes.joins) {
                self.join(join, chain)?
            } else if let Some(aggregate) = node.downcast_ref::<AggregateExec>().filter(|_| takes.groups) {
                self.groups(aggregate, chain)
            } else {
                Err(Unsupported::new(node.name(), "no lowering for this operator"))
            };
            match taken {
                Err(unsupported) => {
                    self.leave_to_scan(chain);
                    return Ok(unsupported);
                }
                Ok(Taken { step, input }) => {
                    chain.passes_limits &= matches!(step, Step::Project { .. });
                    chain.needed = step.needed(&chain.needed);
                    chain.keys = step.keys_below(&chain.keys);
                    chain.steps.push(step);
                    chain.fused.push(Fused::new(&node));
                    chain.source = input;
                }
            }
        }
    }

    /// The project's scan drops rows by the filters of its source: above it they need not do so again.
    fn leave_to_scan(&self, chain: &mut Chain) {
        let Some(exec) = chain.source.downcast_ref::<KeyFilterExec>() else { return };
        let are_there = exec.filters().iter().all(KeyFilter::is_in_source);
        if self.options.scan && are_there && scan::ParquetScan::of(exec.input().as_ref()).is_ok() {
            chain.awaited = exec.filters().to_vec();
            chain.source = Arc::clone(exec.input());
        }
    }

    fn filter(&self, exec: &FilterExec, chain: &mut Chain) -> lower::Result<Taken> {
        enabled(self.options.filter, "FilterExec", "weld.filter")?;
        if exec.fetch().is_some() && !chain.passes_limits {
            return Err(Unsupported::new("FilterExec", "stops at a limit below other operators"));
        }
        let step = Step::Filter {
            predicate: Arc::clone(exec.predicate()),
            projection: exec.projection().as_ref().map(|projection| projection.to_vec()),
            input: exec.input().schema(),
        };
        step.check(&exec.input().schema(), &chain.needed)?;
        chain.exprs.push(Arc::clone(exec.predicate()));
        chain.fetch = chain.fetch.or(exec.fetch());
        Ok(Taken { step, input: Arc::clone(exec.input()) })
    }

    fn projection(&self, exec: &ProjectionExec, chain: &mut Chain) -> lower::Result<Taken> {
        enabled(self.options.projection, "ProjectionExec", "weld.projection")?;
        let exprs: Vec<_> = exec.expr().iter().map(|projected| Arc::clone(&projected.expr)).collect();
        let step = Step::Project { exprs: exprs.clone(), input: exec.input().schema() };
        step.check(&exec.input().schema(), &chain.needed)?;
        chain.exprs.extend(exprs);
        Ok(Taken { step, input: Arc::clone(exec.input()) })
    }

    /// Whether an aggregate above joins with other tables, or without, is worth compiling.
    fn gains_by_grouping(&self, exec: &AggregateExec, has_builds: bool) -> lower::Result<()> {
        match self.options.compile_min_rows > 0 && !has_builds && gate::groups_by_many_texts(exec, &self.expected) {
            true => Err(Unsupported::new(exec.name(), "DataFusion's groups by several texts are as fast")),
            false => Ok(()),
        }
    }

    /// An aggregate below other operators, which then read its groups in place. Joins must not be among them: what they
    /// make of the groups would be held all at once.
    fn groups(&self, exec: &AggregateExec, chain: &mut Chain) -> lower::Result<Taken> {
        let joins = chain.steps.iter().any(|step| matches!(step, Step::Probe { .. }));
        enabled(self.options.aggregate, "AggregateExec", "weld.aggregate")?;
        let aggregate = Aggregate::of(exec)?;
        if joins || aggregate.partial || aggregate.group.is_empty() || aggregate.accumulates() {
            return Err(Unsupported::new("AggregateExec", "ends a pipeline of its own"));
        }
        self.gains_by_grouping(exec, false)?;
        chain.exprs.extend(aggregate.exprs().cloned());
        let step = Step::Aggregate(aggregate);
        step.check(&exec.input().schema(), &chain.needed)?;
        chain.keep_partitioning |= keyed(exec.mode());
        chain.relies |= relies(exec.mode());
        Ok(Taken { step, input: Arc::clone(exec.input()) })
    }

    /// Lowers the chain and makes its plan node, which stands in the place of `plan`.
    fn finish(
        &mut self,
        mut chain: Chain,
        mut sink: Sink,
        plan: &Arc<dyn ExecutionPlan>,
        built: Built,
    ) -> Result<lower::Result<Arc<dyn ExecutionPlan>>> {
        if chain.source.is::<PlaceholderRowExec>() {
            // Nor are its columns of the types that its schema has.
            return Ok(Err(Unsupported::new("PlaceholderRowExec", "makes one row: nothing to compile")));
        }
        chain.steps.reverse();
        chain.fused.reverse();
        chain.builds.reverse();
        let input = self.nulls.narrowed_schema(&chain.source);
        let distribution = chain.distribution();
        // Where DataFusion has no exchange, which rows meet in a partition does not depend on who is faster, nor do
        // sums of floats.
        let steals = chain.dropped_exchange && !chain.keep_partitioning && !chain.relies && chain.fetch.is_none();
        let keeps_rows = keeps_rows(&chain.steps);
        if let Sink::Aggregate(aggregate) = &mut sink
            && self.options.intern
            && self.options.scan
            // There merges of keys without pointers are collected.
            && chain.steps.iter().any(|step| matches!(step, Step::Probe { .. }))
        {
            aggregate.intern(|column| {
                let column = source_column(&chain.steps, column);
                column.is_some_and(|column| by_entry::has_few_texts_in(&chain.source, column))
            });
        }
        let lowered = match lower::pipeline::lower(&input, chain.steps, &sink, chain.columns) {
            Ok(lowered) => lowered,
            Err(unsupported) => return Ok(Err(unsupported)),
        };
        if let Err(unsupported) = lowered.check_codes(&plan.schema()) {
            return Ok(Err(unsupported));
        }
        let keep = chain.keep_partitioning || matches!(distribution, Distribution::KeyPartitioned(_));
        let mut children = vec![self.rewrite(Arc::clone(&chain.source), keep)?];
        let mut inputs = vec![chain.source];
        for (build, replaced) in chain.builds {
            children.push(build);
            inputs.push(replaced);
        }
        let pipeline = Pipeline {
            lowered,
            fused: chain.fused,
            exprs: chain.exprs,
            fetch: chain.fetch,
            partitions: Partitions {
                distribution,
                dropped_exchange: chain.dropped_exchange,
                moves_rows: chain.moves_rows,
                steals,
                per_partition: built.per_partition,
            },
            filters: Filters { feeds: built.feeds, keys: built.keys, awaited: chain.awaited },
            keeps_rows,
            scan: self.options.scan,
            compilation: Compilation {
                settings: Settings::of(&self.options),
                cache: Arc::clone(&self.cache),
                folder: self.folder.clone(),
                rows_min: self.options.compile_min_rows,
                plan: self.plan,
                ranges: Arc::clone(&self.ranges),
            },
        };
        Ok(Ok(Arc::new(WeldExec::new(pipeline, children, Replaced { plan: Arc::clone(plan), inputs })?)))
    }
}

/// A pipeline that ends with an aggregate.
fn aggregating(
    plan: &Arc<dyn ExecutionPlan>,
    exec: &AggregateExec,
    aggregate: Aggregate,
    keep_partitioning: bool,
) -> (Sink, Chain) {
    let exprs = aggregate.exprs().cloned().collect();
    let sink = Sink::Aggregate(aggregate);
    let mut chain = Chain::new(exec.input(), &sink, keep_partitioning || keyed(exec.mode()));
    chain.relies = relies(exec.mode());
    chain.fused.push(Fused::new(plan));
    chain.exprs = exprs;
    (sink, chain)
}

/// Whether operators compute something right above their source that may fail in a row.
fn keeps_rows(steps: &[Step]) -> bool {
    let projects = |step: &&Step| matches!(step, Step::Project { .. });
    steps.iter().take_while(projects).any(|step| match step {
        Step::Project { exprs, input } => exprs.iter().any(|expr| may_fail(input, expr)),
        _ => false,
    })
}

/// Whether all rows are those of a recursive query's last step. Each step resets and starts its pipelines anew, which
/// takes longer than few rows do: 3 times as long as the query took for a thousand steps of one row beside a join of
/// two million.
fn reads_step(source: &Arc<dyn ExecutionPlan>) -> bool {
    match source.children()[..] {
        [input] => reads_step(input),
        _ => source.is::<WorkTableExec>(),
    }
}

/// Whether an aggregate relies on its input being partitioned by its groups.
fn keyed(mode: &AggregateMode) -> bool {
    matches!(mode, AggregateMode::SinglePartitioned | AggregateMode::FinalPartitioned)
}

/// Whether an aggregate relies on how its input is partitioned: into groups, or not at all.
fn relies(mode: &AggregateMode) -> bool {
    !matches!(mode, AggregateMode::Partial | AggregateMode::PartialReduce)
}

/// Whether an exchange merges inputs by their order.
fn merges(exchange: &RepartitionExec) -> bool {
    exchange.preserve_order() && exchange.input().output_partitioning().partition_count() > 1
}

/// Whether an operator's declared requirements are all that it requires of the partitioning of its inputs. That is so
/// of DataFusion's, except for `InterleaveExec`; nothing is known of others.
fn says_what_it_requires(plan: &dyn ExecutionPlan) -> bool {
    plan.is::<AggregateExec>()
        || plan.is::<AnalyzeExec>()
        || plan.is::<BoundedWindowAggExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<CommonSubplansExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<CrossJoinExec>()
        || plan.is::<FilterExec>()
        || plan.is::<GlobalLimitExec>()
        || plan.is::<HashJoinExec>()
        || plan.is::<JoinKeysExec>()
        || plan.is::<KeyFilterExec>()
        || plan.is::<KeySortExec>()
        || plan.is::<LocalLimitExec>()
        || plan.is::<NestedLoopJoinExec>()
        || plan.is::<ProjectionExec>()
        || plan.is::<RecursiveQueryExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<ScalarSubqueryExec>()
        || plan.is::<SortExec>()
        || plan.is::<SortMergeJoinExec>()
        || plan.is::<SortPreservingMergeExec>()
        || plan.is::<UnionExec>()
        || plan.is::<UnnestExec>()
        || plan.is::<UnorderedExec>()
        || plan.is::<WeldExec>()
        || plan.is::<WindowAggExec>()
        || plan.is::<WindowExec>()
        || plan.is::<WindowGroupLimitExec>()
}

/// Why an operator is not replaced whose switch is off.
fn off(switch: bool, setting: &str) -> Option<String> {
    (!switch).then(|| format!("{setting} is off"))
}

fn enabled(switch: bool, operator: &str, setting: &str) -> lower::Result<()> {
    if switch { Ok(()) } else { Err(Unsupported::new(operator, format!("{setting} is off"))) }
}
