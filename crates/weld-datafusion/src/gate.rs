//! Whether compiling a pipeline pays: over few rows DataFusion's operators are done before the code would be there.
//!
//! ```text
//! how many rows is known before the run     too few: the replaced operators; else compile
//! it is not known, and nothing is joined    hold the input back until enough rows are there (compile) or it ends (operators)
//! it may pay, and nothing is joined         the operators, until what they take for a row says that compiling pays
//! ```
//! Enough are [`WeldOptions::compile_min_rows`](crate::WeldOptions) for every 10 ms that compiling is expected to take.
//! It may pay for a [`TRIAL_SLACK`]th of that and more; of rows that operators would have to decode, enough are compiled
//! for at once.
//! A row counts for more where the program is large, which has more to do with it. Rows that a scan drops, by a filter
//! or by the keys of a join, cost the operators no more than compiled code. A join is compiled with its build sides or
//! not at all, so it is judged by the rows and the programs of all of them. Code that is known costs nothing, and
//! pipelines whose code is known always run, unless it was slower than the operators ([`crate::pace`]); what comes again
//! is compiled beside its run once the operators have spent as long on it, in all runs, as optimised code takes to make.

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::stats::Precision;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::functions_table::generate_series::{GenericSeriesState, TimestampValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::memory::LazyMemoryExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use weld_codegen::OPTIMISED_COST;
use weld_core::ir::Program;
use weld_core::opt::is_text_call;
use weld_plans::{CommonSubplanScanExec, ExpectedRows, JoinKeysExec, KeyFilterExec, Memo};

use crate::config::WeldOptions;
use crate::deferred_gate;
use crate::distinct::Distinct;
use crate::exec::{Compilation, Inner, Pipeline, Replaced, WeldExec};
use crate::explain::{Declined, is_operator};
use crate::lower::accumulated::Means;
use crate::lower::pipeline::Output;
use crate::ordered::Ordered;
use crate::scan::{EncodedSource, ParquetScan, ScanExec};

/// What is to become of a pipeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Gate {
    Compile,
    /// DataFusion's operators, for so few rows.
    Replaced {
        rows: usize,
        /// Whether code is made beside the run, for the next ones.
        compile: bool,
    },
    /// DataFusion's operators, which were faster than the code.
    Slower,
    /// To be decided by what arrives: so many rows of a partition are enough.
    Wait {
        rows_min: usize,
    },
    /// DataFusion's operators begin. What a row takes them decides whether code is made beside them, to go on with.
    Try(Trial),
}

/// What is known before the operators begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Trial {
    /// The rows of all partitions, if they are known or estimated.
    rows: Option<usize>,
    /// Whether there are no more than that.
    is_exact: bool,
    /// Processor time to make the code.
    work: Duration,
    /// Whether the program has come before, and is expected to come again.
    comes_again: bool,
}

impl Trial {
    /// Whether code for the rows to come takes so much less time than the operators that it repays its making.
    /// They took `spent` for `rows`, of which code takes `row` for one. Where nobody knows how many follow, it is taken
    /// to be as many again.
    pub(crate) fn repays(&self, row: Duration, spent: Duration, rows: usize) -> bool {
        let known = self.rows.map_or(0, |all| all.saturating_sub(rows));
        let left = if self.is_exact { known } else { known.max(rows) } as f64;
        let saved = spent.as_secs_f64() / rows.max(1) as f64 - row.as_secs_f64();
        let is_measured = spent >= self.work.mul_f64(TRIAL_SHARE);
        let margin = if self.comes_again { 1.0 } else { TRIAL_MARGIN };
        is_measured && saved * left > self.work.as_secs_f64() * margin
    }
}

/// How many rows a plan gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rows {
    pub(crate) count: usize,
    /// Otherwise it may be fewer: an operator drops rows.
    pub(crate) is_exact: bool,
    /// Whether a source may drop rows too, by filters that it was given.
    pub(crate) is_filtered: bool,
}

/// The rows that arrive at a pipeline.
struct Arriving {
    /// Those that are worth compiling for.
    rows: Rows,
    /// How many of them are expected to pass all of its filters and joins.
    passed: f64,
}

/// Cheap code for a pipeline takes so long, and so much more for every node of its program before optimisation:
/// measured over the pipelines of TPC-H.
const PIPELINE_COST: Duration = Duration::from_micros(3000);
const NODE_COST: Duration = Duration::from_micros(30);

/// A program of so many nodes does as much with a row as the rows are worth that [`WeldOptions::compile_min_rows`]
/// counts: one that only filters and counts leaves little to gain, for DataFusion's kernels do that at the speed of
/// memory.
const ROW_NODES: f64 = 60.0;

/// A program is taken for so many times that at least, and at most.
const ROW_WORTH: std::ops::RangeInclusive<f64> = 0.25..=2.0;

/// Code from disk takes so long: our optimizer, whose result it is found by, and linking.
const STORED_COST: Duration = Duration::from_micros(1000);

/// A row that passes filters and joins goes through all operators: it is worth so many of those that it is counted
/// among.
const PASSED_WORTH: f64 = 3.0;

/// So many times more rows than are expected may come of other operators. By the rows of their sources alone both sides
/// of TPC-DS Q39's join were worth compiling for, 45 ms of a first run of 95, though 45,000 groups come of 12 million
/// rows.
const EXPECTED_SLACK: f64 = 4.0;

/// DataFusion looks at one key after the other where it groups by several, which compiled code does not. What that
/// takes longer for a key of a row, as a number of rows, which [`WeldOptions::compile_min_rows`] takes for a nanosecond
/// each. Measured were 14 ns for integers and 50 for texts of a build side, which are interned; the rows are estimates,
/// so it is less.
const KEY_WORTH: f64 = 10.0;

/// Code must save so many times what it takes to make, if this may be its only run: cheap code comes first, and what is
/// saved is an estimate.
const TRIAL_MARGIN: f64 = 3.0;

/// Operators begin with a measurement where so many times more rows would be worth compiling for: percentiles of 400,000
/// issues by month took DataFusion 0.4 us a row, in a first run 86 ms with 8 here and 54 with this.
const TRIAL_SLACK: usize = 32;

/// The operators are measured for such a share of that time at least: what they do first is not what they do for each
/// row.
const TRIAL_SHARE: f64 = 0.25;

/// What cheap code takes for a row, in nanoseconds: by itself, for a node of the program, where there are [`MANY_GROUPS`],
/// for a text among the keys of its groups, for such a text of many, for one that comes as a code, and for one that is put
/// into a set. Measured in 18 pipelines over tables in memory: 2.5 to 18 without texts, 17 to 35 with one or two, 119 with
/// 200,000 groups by a text, 145 with three sets of texts, one of them concatenated. 200,000 groups by a number take code
/// as long as the operators (ClickBench Q36), for a code the least was chosen.
const CHEAP_ROW: f64 = 3.0;
const CHEAP_NODE: f64 = 0.08;
const CHEAP_OF_MANY: f64 = 40.0;
const CHEAP_TEXT: f64 = 15.0;
const CHEAP_TEXT_OF_MANY: f64 = 80.0;
const CHEAP_CODE: f64 = 2.0;
const CHEAP_TEXT_IN_SET: f64 = 40.0;

/// The same where there are more groups than the first-level cache holds, for a search in a text, and for an aggregate
/// that DataFusion accumulates: measured over 12 million trips and a million comments.
const SOME_GROUPS: f64 = 2_000.0;
const CHEAP_OF_SOME: f64 = 8.0;
const CHEAP_TEXT_CALL: f64 = 30.0;
const CHEAP_ACCUMULATED: f64 = 15.0;

/// After so many rows for each group nearly all groups are there, of groups of one size all but one in fifty; after so
/// many rows where nobody knows how many groups there will be. Operators are measured after that, or after such a part
/// of all rows. First runs of sums by 20,000 drivers and vehicles, without and with that: 83 to 90 ms and 53 to 57 (stock
/// 50), 84 to 101 and 65 to 71 (stock 65), since what code would gain is nothing.
const ROWS_OF_GROUP: f64 = 4.0;
const FIRST_ROWS: usize = 1 << 17;
const FIRST_SHARE: usize = 16;

/// The same for a number and for a text of a row that comes out.
const CHEAP_OUT: f64 = 3.0;
const CHEAP_TEXT_OUT: f64 = 10.0;

/// The same of a row of so many groups that DataFusion's table of them, 40 bytes each, is larger than a core's own cache;
/// compiled code hashes rows ahead and groups them in ranges of keys. Measured were 25 ns with 20,000 groups, 90 with
/// 300,000 and 200 with 2 million, for each of the partial and the final aggregate. By texts alone nothing is gained.
const MANY_GROUPS: f64 = 30_000.0;
const MANY_GROUPS_WORTH: f64 = 20.0;

const MANY_TEXTS: usize = 2;
const MOST_TEXTS: usize = 4;

/// The same of a number that is put into a set of distinct ones: 15 ns less than in DataFusion's, which has a hash set
/// for each group or one for all. Texts take as long as there.
const DISTINCT_WORTH: f64 = 10.0;

/// The same of a row whose value is put in order: DataFusion makes `ScalarValue`s of it and of its keys, in some 10 us. Of
/// distinct values it makes them for each group, and looks for the others in a hash table.
const ORDERED_WORTH: f64 = 1000.0;
const ORDERED_IN_SET_WORTH: f64 = 50.0;

/// The same of a pair of rows with equal keys, beyond one for each row that comes to a join, of one that a filter is asked
/// of, and of one whose keys are texts. Pairs of rows by a number took DataFusion 4.2 ns and code 1.2, with a filter 5.2 and
/// 1.6, by currency 97 (12,000 conversions, each with 428 rates); pairs of a nested-loop join, of which none is gathered that
/// does not pass, 0.9 and 0.1.
const PAIR_WORTH: f64 = 3.0;
const FILTERED_PAIR_WORTH: f64 = 4.0;
const TEXT_PAIR_WORTH: f64 = 25.0;
const NESTED_PAIR_WORTH: f64 = 0.8;

/// What DataFusion takes for a row of a window, as a number of those that [`WeldOptions::plan_min_rows`] counts: 0.04 us, and
/// 0.7 for each partition, which may have one row. Windows of the project are not compiled.
const WINDOW_WORTH: usize = 10;

/// The metric of the rows for which compiling did not pay.
pub(crate) const FEW_ROWS: &str = "few_rows";

/// What EXPLAIN says of them.
pub(crate) const FEW_ROWS_REASON: &str = "compiling does not pay for so few rows";

/// The same where the operators were faster than code.
pub(crate) const SLOWER_REASON: &str = "compiled code was slower";

/// What `compile_min_rows` is for.
const COST_UNIT: Duration = Duration::from_millis(10);

/// How compiling on this machine compares with what is expected of it, as a percentage; learnt from what was compiled.
#[derive(Debug)]
pub(crate) struct CompileRate(AtomicU64);

impl Default for CompileRate {
    fn default() -> CompileRate {
        CompileRate(AtomicU64::new(100))
    }
}

impl CompileRate {
    /// Notes the time that a program took.
    pub(crate) fn learn(&self, program: &Program, took: Duration) {
        let percent = 100.0 * took.as_secs_f64() / plain_cost(program).as_secs_f64();
        let known = self.0.load(Ordering::Relaxed);
        // A sample counts for a quarter, whatever it says: a thread that was interrupted must not close the gate.
        let learnt = (3 * known + (percent as u64).clamp(10, 400)) / 4;
        self.0.store(learnt, Ordering::Relaxed);
    }

    /// Processor time to make cheap code of these programs, and time on the clock with as many processors as there are.
    fn cost<'a>(&self, programs: impl Iterator<Item = &'a Program>) -> (Duration, Duration) {
        let (mut sum, mut count) = (Duration::ZERO, 0);
        for program in programs {
            sum += plain_cost(program);
            count += 1;
        }
        let work = sum.mul_f64(self.0.load(Ordering::Relaxed) as f64 / 100.0);
        (work, work / processors().min(count).max(1) as u32)
    }
}

/// How many threads the process can run at once. Asked once: to learn it the system's files about control groups are
/// read.
pub(crate) fn processors() -> usize {
    static PROCESSORS: LazyLock<usize> = LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));
    *PROCESSORS
}

/// Whether optimised code repays its making, for which cheap code is `work`: the operators have spent as long as that
/// in all runs so far. Who compiles then, and not before, takes at most twice as long as who had known how many runs
/// would come.
fn repays(compile_min_rows: usize, spent: Duration, work: Duration) -> bool {
    spent.as_secs_f64() >= work.as_secs_f64() * OPTIMISED_COST * dearness(compile_min_rows)
}

/// How dear compiling is: what `compile_min_rows` differs from its default by.
fn dearness(compile_min_rows: usize) -> f64 {
    compile_min_rows as f64 / WeldOptions::default().compile_min_rows as f64
}

/// What a row that a program processes is worth, as a number of rows.
fn row_worth(program: &Program) -> f64 {
    (program.body.size() as f64 / ROW_NODES).clamp(*ROW_WORTH.start(), *ROW_WORTH.end())
}

/// What a row that is grouped is worth beyond that. Of several aggregates, one after the other, it is that which is worth
/// most: the rows of those above are groups.
fn grouping_worth(replaced: &Replaced, has_builds: bool, expected: &ExpectedRows) -> f64 {
    let (mut plan, mut worth) = (&replaced.plan, 0.0_f64);
    loop {
        if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
            worth = worth.max(aggregate_worth(aggregate, has_builds, expected));
        }
        match plan.children()[..] {
            [input] if !replaced.inputs.iter().any(|below| Arc::ptr_eq(below, input)) => plan = input,
            _ => return worth,
        }
    }
}

/// The same of an aggregate, for each grouping set that a row is put into, or whose numbers are put into sets. Texts count
/// where they may be those of a build side, which are interned; others are hashed and compared by both.
fn aggregate_worth(aggregate: &AggregateExec, has_builds: bool, expected: &ExpectedRows) -> f64 {
    let group_by = aggregate.group_expr();
    let texts = if has_builds { 0 } else { text_keys(aggregate) };
    let keys = match group_by.expr().len() {
        0 | 1 => 0,
        all => (all - texts) * group_by.groups().len(),
    };
    let (calls, input) = (aggregate.aggr_expr(), aggregate.input_schema());
    let distinct = calls.iter().filter_map(|call| Distinct::of(call, &input)).filter(Distinct::is_of_words).count();
    let is_text = text_keys(aggregate) == group_by.expr().len();
    let many = if !is_text && has_many_groups(aggregate, expected) { MANY_GROUPS_WORTH } else { 0.0 };
    KEY_WORTH * keys as f64 + DISTINCT_WORTH * distinct as f64 + ordered_worth(aggregate, expected) + many
}

/// The same of an aggregate's values that are put in order.
fn ordered_worth(aggregate: &AggregateExec, expected: &ExpectedRows) -> f64 {
    let ordered = aggregate.aggr_expr().iter().filter_map(|call| Ordered::of(call));
    let finding = finding_groups(aggregate);
    let are_few = || expected.are_keys_known(finding) && expected.groups(finding).is_some_and(|of| of <= SOME_GROUPS);
    let worth = |call: Ordered| match call.is_distinct() && are_few() {
        true => ORDERED_IN_SET_WORTH,
        false => ORDERED_WORTH,
    };
    ordered.map(worth).sum()
}

/// What a join has to do with pairs of rows, as a number of rows.
fn pairs_worth(plan: &Arc<dyn ExecutionPlan>, expected: &ExpectedRows) -> f64 {
    let Some(pairs) = expected.pairs(plan) else { return 0.0 };
    let Some(join) = plan.downcast_ref::<HashJoinExec>() else { return NESTED_PAIR_WORTH * pairs };
    let worth = match join.filter() {
        _ if looks_by_texts(join) => TEXT_PAIR_WORTH,
        Some(_) => FILTERED_PAIR_WORTH,
        None => PAIR_WORTH,
    };
    worth * (pairs - expected.of(join.right()).unwrap_or(0.0)).max(0.0)
}

/// Whether a join looks rows up by texts.
fn looks_by_texts(join: &HashJoinExec) -> bool {
    join.on().iter().any(|(_, key)| is_text(key, join.right()))
}

/// What cheap code is expected to take for a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheapRow {
    every: Duration,
    /// For one that comes out, beyond that.
    out: Duration,
    /// So many rows come before those by which operators are compared: they make most of the groups, which takes longer
    /// than to find them.
    pub(crate) first_rows: usize,
}

impl CheapRow {
    /// For each of these rows, of which so many come out.
    pub(crate) fn of(self, rows: usize, out: usize) -> Duration {
        self.every + self.out.mul_f64(out as f64 / rows.max(1) as f64)
    }
}

/// The same for a pipeline without tables, after it was chosen what is read as codes.
pub(crate) fn cheap_row(inner: &Inner) -> CheapRow {
    let Inner { pipeline, replaced, .. } = inner;
    let expected = ExpectedRows::new(&pipeline.compilation.ranges);
    let aggregate = replaced.plan.downcast_ref::<AggregateExec>();
    let groups = aggregate.and_then(|aggregate| groups_of(aggregate, &expected)).unwrap_or(0.0);
    let are_known = aggregate.is_none_or(|aggregate| expected.are_keys_known(aggregate));
    let of_groups = |aggregate: &AggregateExec| {
        let (keys, is_many) = (&pipeline.lowered.by_code.groups, groups > MANY_GROUPS);
        let key = match () {
            () if !keys.is_empty() && keys.iter().all(|key| inner.coded().contains(key)) => CHEAP_CODE,
            // A file has no codes for them.
            () if decodes(inner) || is_many => CHEAP_TEXT_OF_MANY,
            () => CHEAP_TEXT,
        };
        let input = aggregate.input_schema();
        let distinct = aggregate.aggr_expr().iter().filter_map(|call| Distinct::of(call, &input));
        let sets = distinct.filter(|call| !call.is_of_words()).count();
        let many = match () {
            () if is_many => CHEAP_OF_MANY,
            // Where nobody knows, there may be as many.
            () if groups > SOME_GROUPS || !are_known => CHEAP_OF_SOME,
            () => 0.0,
        };
        key * text_keys(aggregate) as f64 + CHEAP_TEXT_IN_SET * sets as f64 + many
    };
    let grouping = aggregate.map_or(0.0, of_groups);
    let body = &pipeline.lowered.program.body;
    let mut searches = 0;
    body.walk(&mut |e| searches += usize::from(is_text_call(e)));
    let (accumulated, columns) = match &pipeline.lowered.output {
        Output::Groups { accumulated: Some(of), .. } => {
            (of.calls.iter().filter(|call| call.means() == Means::DataFusion).count(), None)
        }
        Output::Rows(_) => (0, Some(inner.properties.eq_properties.schema().fields())),
        _ => (0, None),
    };
    let every = CHEAP_ROW + CHEAP_NODE * body.size() as f64 + CHEAP_TEXT_CALL * searches as f64;
    let every = every + CHEAP_ACCUMULATED * accumulated as f64 + grouping;
    let is_text = |ty: &DataType| ty.is_string() || ty.is_binary();
    let of_column = |field: &FieldRef| if is_text(field.data_type()) { CHEAP_TEXT_OUT } else { CHEAP_OUT };
    let out: f64 = columns.into_iter().flatten().map(of_column).sum();
    let is_grouped = aggregate.is_some_and(|aggregate| !aggregate.group_expr().is_empty());
    let first_rows = match are_known {
        _ if !is_grouped => 0,
        true => (groups * ROWS_OF_GROUP) as usize,
        false => FIRST_ROWS,
    };
    let rows_max = rows_of(inner.source()).map_or(0, |rows| rows.count) / FIRST_SHARE;
    CheapRow {
        every: Duration::from_nanos(every as u64),
        out: Duration::from_nanos(out as u64),
        first_rows: first_rows.min(rows_max),
    }
}

fn has_many_groups(aggregate: &AggregateExec, expected: &ExpectedRows) -> bool {
    groups_of(aggregate, expected).is_some_and(|groups| groups > MANY_GROUPS)
}

/// How many of the keys are texts.
fn text_keys(aggregate: &AggregateExec) -> usize {
    let input = aggregate.input();
    aggregate.group_expr().expr().iter().filter(|(key, _)| is_text(key, input)).count()
}

/// Whether an expression over the rows of `input` gives texts.
fn is_text(expr: &Arc<dyn PhysicalExpr>, input: &Arc<dyn ExecutionPlan>) -> bool {
    expr.data_type(&input.schema()).is_ok_and(|of| of.is_string())
}

/// Whether DataFusion's table of an aggregate's groups takes no longer than compiled code. With one text among the keys
/// compiled code takes three quarters of the time (ClickBench Q17, Q34), with several texts and many groups it takes longer:
/// H2O Q10 (three texts, ten million groups) 1.13 times as long, first runs of distinct rows of five texts 2.0. Where nothing is
/// known of some key there may be few groups; of so many texts there are hardly. Behind joins texts are those of build
/// sides, which are interned (TPC-DS Q98 and Q11 took 1.3 times as long without code). Where values are put in order, the
/// table is what takes least.
pub(crate) fn groups_by_many_texts(aggregate: &AggregateExec, expected: &ExpectedRows) -> bool {
    let texts = text_keys(aggregate);
    let has_builds = |exec: &WeldExec| exec.inner.builds().next().is_some();
    let is_joined = || below(aggregate.input(), |_| false).downcast_ref::<WeldExec>().is_some_and(has_builds);
    let may_be_many = || texts >= MOST_TEXTS && !expected.are_keys_known(finding_groups(aggregate));
    texts >= MANY_TEXTS && !orders(aggregate) && !is_joined() && (has_many_groups(aggregate, expected) || may_be_many())
}

/// How many groups are expected at least.
fn groups_of(aggregate: &AggregateExec, expected: &ExpectedRows) -> Option<f64> {
    expected.groups(finding_groups(aggregate))
}

/// The aggregate that finds the groups: the partial one below a final one.
fn finding_groups(aggregate: &AggregateExec) -> &AggregateExec {
    let input = below(aggregate.input(), |_| false);
    let pipeline = input.downcast_ref::<WeldExec>().map(|exec| &exec.inner.replaced.plan);
    match pipeline.unwrap_or(input).downcast_ref::<AggregateExec>() {
        Some(partial) if *partial.mode() == AggregateMode::Partial => finding_groups(partial),
        _ => aggregate,
    }
}

fn plain_cost(program: &Program) -> Duration {
    PIPELINE_COST + NODE_COST * program.body.size() as u32
}

/// Decides before a run. A build pipeline is decided on with the pipeline that reads its table.
pub(crate) fn decide(inner: &Inner) -> Gate {
    let Pipeline { lowered, compilation, .. } = &*inner.pipeline;
    let Compilation { cache, settings, plan, rows_min, ranges, .. } = compilation;
    if *rows_min == 0 {
        return Gate::Compile;
    }
    let group = group(inner);
    let is_there = |member: &&Inner| cache.has(&member.pipeline.lowered, &member.pipeline.compilation.settings);
    if group.iter().all(is_there) {
        // What operators would decode is not among what they took for a row.
        let is_slower = can_try(inner) && !decodes(inner) && cache.is_slower(lowered, settings);
        return if is_slower { Gate::Slower } else { Gate::Compile };
    }
    // Several may be of one program.
    let (mut programs, mut stored) = (HashMap::new(), 0);
    for Pipeline { lowered, compilation, .. } in group.iter().map(|member| &*member.pipeline) {
        if cache.has(lowered, &compilation.settings) {
            continue;
        }
        match cache.is_on_disk(lowered, &compilation.settings, compilation.folder.as_ref()) {
            true => stored += 1,
            false => drop(programs.insert(lowered.fingerprint(), &lowered.program)),
        }
    }
    let (work, time) = cache.rate.cost(programs.into_values());
    let cost = time + STORED_COST * stored;
    let units = cost.as_secs_f64() / COST_UNIT.as_secs_f64();
    let rows_of_cost = ((*rows_min as f64 * units) as usize).max(1);
    // Code from disk is there sooner than it is known what the operators take.
    let can_try = stored == 0 && can_try(inner);
    let row = |member: &Inner| row_worth(&member.pipeline.lowered.program);
    let expected = ExpectedRows::new(ranges);
    let grouping = |member: &Inner| grouping_worth(&member.replaced, member.builds().next().is_some(), &expected);
    let wait_for_rows = || wait(inner, (rows_of_cost as f64 / (row(inner) + grouping(inner))) as usize);
    let arriving: Option<Vec<Arriving>> =
        group.iter().map(|member| arriving(member, group.len() == 1, &expected)).collect();
    match arriving {
        Some(arriving) => {
            let count = arriving.iter().fold(0_usize, |sum, arriving| sum.saturating_add(arriving.rows.count));
            let pairs_of = |member: &Inner| {
                member.pipeline.fused.iter().map(|fused| pairs_worth(&fused.plan, &expected)).sum::<f64>()
            };
            // How dear it is to find groups shows in a trial.
            let grouping = |member: &Inner| if can_try { 0.0 } else { grouping(member) };
            let worth = |(member, arriving): (&&Inner, &Arriving)| {
                let of_rows = match !can_try && looks_for_texts(member, &expected) {
                    true => 0.0,
                    false => arriving.rows.count as f64 * row(member) + arriving.passed * grouping(member),
                };
                of_rows + pairs_of(member)
            };
            let worth_all = group.iter().zip(&arriving).map(worth).sum::<f64>() as usize;
            let (is_worth, decodes) = (worth_all >= rows_of_cost, decodes(inner));
            if is_worth && (decodes || !can_try) {
                return match group.len() > 1 || arriving[0].rows.is_exact {
                    true => Gate::Compile,
                    false => wait_for_rows(),
                };
            }
            // The operators begin, whatever is expected.
            let spent = cache.comes_again(lowered, settings, *plan);
            let compile = spent.is_some_and(|spent| repays(*rows_min, spent, work));
            let may_be_worth = can_try && worth_all.saturating_mul(TRIAL_SLACK) >= rows_of_cost;
            match may_be_worth && !compile {
                true => Gate::Try(Trial {
                    rows: match decodes {
                        true => Some(arriving[0].passed as usize),
                        false => arriving[0].rows.is_exact.then_some(count),
                    },
                    is_exact: arriving[0].rows.is_exact && !decodes,
                    work: work.mul_f64(dearness(*rows_min)),
                    comes_again: spent.is_some(),
                }),
                false => Gate::Replaced { rows: count, compile },
            }
        }
        None if group.len() > 1 => Gate::Compile,
        None => wait_for_rows(),
    }
}

/// Whether all tables of a plan together have so few rows, and its operators so little to do with each, that nothing of it
/// will be compiled nor run by an operator of the project: not even lowering pays.
pub(crate) fn is_small(
    plan: &Arc<dyn ExecutionPlan>,
    rows: &KnownRows,
    expected: &ExpectedRows,
    options: &WeldOptions,
) -> bool {
    let are_few = || rows.of_tables(plan).is_some_and(|rows| rows < options.plan_min_rows);
    let has_few_in_windows = || rows.of_windows(plan).saturating_mul(WINDOW_WORTH) < options.plan_min_rows;
    options.compile_min_rows > 0
        && are_few()
        && has_few_in_windows()
        && worth_beyond_rows(plan, rows, expected) < options.compile_min_rows as f64
}

/// What is worth compiling for though it comes of few rows: pairs of them, and values that are put in order.
fn worth_beyond_rows(plan: &Arc<dyn ExecutionPlan>, rows: &KnownRows, expected: &ExpectedRows) -> f64 {
    if let Some(scan) = plan.downcast_ref::<CommonSubplanScanExec>() {
        return worth_beyond_rows(scan.subplan(), rows, expected);
    }
    let ordered = |aggregate: &AggregateExec| {
        let rows = rows.of(aggregate.input()).map_or(0, |rows| rows.count);
        ordered_worth(aggregate, expected) * rows as f64
    };
    let own = plan.downcast_ref().map_or_else(|| pairs_worth(plan, expected), ordered);
    let below = plan.children().into_iter().map(|child| worth_beyond_rows(child, rows, expected));
    own + below.sum::<f64>()
}

/// Spent so far in the operators of a plan that runs instead of a pipeline, over all partitions; pipelines below are
/// others.
pub(crate) fn spent(plan: &Arc<dyn ExecutionPlan>) -> Duration {
    if plan.is::<WeldExec>() {
        return Duration::ZERO;
    }
    let own = plan.metrics().filter(|_| is_operator(plan.as_ref())).map_or(0, |metrics| {
        let time = |name| metrics.sum_by_name(name).map_or(0, |time| time.as_usize());
        // Joins have their own.
        metrics.elapsed_compute().unwrap_or(0).max(time("build_time") + time("join_time"))
    });
    plan.children().into_iter().map(spent).sum::<Duration>() + Duration::from_nanos(own as u64)
}

/// What stands at such a plan for its operators.
pub(crate) fn declined(plan: &Arc<dyn ExecutionPlan>, found: &mut Vec<Declined>) {
    if is_operator(plan.as_ref()) {
        found.push(Declined { operator: plan.name().to_owned(), reason: FEW_ROWS_REASON.to_owned() });
    }
    plan.children().into_iter().for_each(|child| declined(child, found));
}

/// Whether the operators may begin and code go on. Of values that are put in order it is known how dear they are.
fn can_try(inner: &Inner) -> bool {
    let is_limited = matches!(inner.pipeline.lowered.output, Output::Rows(_)) && inner.pipeline.fetch.is_some();
    let may_not = is_limited || inner.replaced.plan.downcast_ref().is_some_and(orders);
    deferred_gate::changes_over(inner) && inner.builds().next().is_none() && !may_not
}

/// Whether an aggregate puts values in order.
fn orders(aggregate: &AggregateExec) -> bool {
    aggregate.aggr_expr().iter().any(|call| Ordered::of(call).is_some())
}

/// Whether the operators would decode what code reads as it lies in files or encoded tables.
fn decodes(inner: &Inner) -> bool {
    drops_rows(inner) || EncodedSource::of(inner.source().as_ref()).is_some()
}

fn wait(inner: &Inner, rows_min: usize) -> Gate {
    let pipeline = &inner.pipeline;
    if let (Output::Rows(_), Some(fetch)) = (&pipeline.lowered.output, pipeline.fetch) {
        // It may stop long before enough rows have come, and its first rows are waited for.
        return Gate::Replaced { rows: fetch, compile: false };
    }
    if inner.source().boundedness().is_unbounded() {
        return Gate::Compile;
    }
    let partitions = inner.source().output_partitioning().partition_count().max(1);
    Gate::Wait { rows_min: rows_min.div_ceil(partitions) }
}

/// A pipeline and those whose tables it reads.
pub(crate) fn group(inner: &Inner) -> Vec<&Inner> {
    let mut group = Vec::new();
    collect(inner, &mut group);
    group
}

fn collect<'a>(inner: &'a Inner, group: &mut Vec<&'a Inner>) {
    group.push(inner);
    inner.builds().for_each(|build| collect(&build.inner, group));
}

/// How many rows are worth compiling for: those of the source, but where it is a scan that drops rows, those that it is
/// expected to pass, and of a table in memory those that filters are expected to leave for a join. Where rows come of
/// other operators, that their sources have so many is all that is known; a pipeline that `can_wait` sees how many come.
fn arriving(inner: &Inner, can_wait: bool, expected: &ExpectedRows) -> Option<Arriving> {
    let rows = rows_of(inner.source())?;
    let drops_rows = drops_rows(inner) || below(inner.source(), |_| false).is::<KeyFilterExec>();
    // What reaches the end of the pipeline has passed all filters and joins, whose keys the scan is told.
    let end = below(&inner.replaced.plan, |plan| plan.is::<AggregateExec>() || plan.is::<JoinKeysExec>());
    // DataFusion's filters take no longer for the rows that they drop than cheap code.
    let filtered = || first_join(inner).map(HashJoinExec::right).or_else(|| inner.builds_table().then_some(end));
    let counted = if drops_rows { Some(end) } else { rows.is_exact.then(filtered).flatten() };
    let passed = counted.and_then(|plan| expected.of(plan));
    let worth = match passed {
        Some(passed) => Some(PASSED_WORTH * passed),
        None if rows.is_exact || can_wait => None,
        None => expected.of(&inner.replaced.inputs[0]).map(|rows| EXPECTED_SLACK * rows),
    };
    let count = worth.map_or(rows.count, |worth| rows.count.min(worth as usize));
    Some(Arriving { rows: Rows { count, ..rows }, passed: passed.unwrap_or(count as f64) })
}

/// The join that rows come to first.
fn first_join(inner: &Inner) -> Option<&HashJoinExec> {
    inner.pipeline.fused.iter().find_map(|fused| fused.plan.downcast_ref())
}

/// Whether rows are looked for by texts, one after the other, in a large table: that of a join, or of many groups. That
/// takes cheap code as long as the operators.
fn looks_for_texts(inner: &Inner, expected: &ExpectedRows) -> bool {
    let has_texts = |join: &HashJoinExec| {
        let is_large = || expected.of(join.left()).is_none_or(|rows| rows > SOME_GROUPS);
        looks_by_texts(join) && is_large()
    };
    let is_of_many = |aggregate: &AggregateExec| {
        text_keys(aggregate) > 0 && has_many_groups(aggregate, expected) && !orders(aggregate)
    };
    let has_builds = inner.builds().next().is_some();
    let looks = |plan: &Arc<dyn ExecutionPlan>| {
        plan.downcast_ref().is_some_and(has_texts) || !has_builds && plan.downcast_ref().is_some_and(is_of_many)
    };
    !decodes(inner) && inner.pipeline.fused.iter().any(|fused| looks(&fused.plan))
}

/// Whether the source is a scan that drops rows by filters.
fn drops_rows(inner: &Inner) -> bool {
    let source = below(inner.source(), |plan| plan.is::<KeyFilterExec>());
    source.is::<ScanExec>() || (inner.pipeline.scan && ParquetScan::of(source.as_ref()).is_ok())
}

/// The plan below exchanges and other operators that are passed.
fn below(plan: &Arc<dyn ExecutionPlan>, is_passed: fn(&dyn ExecutionPlan) -> bool) -> &Arc<dyn ExecutionPlan> {
    let is_exchange = plan.is::<RepartitionExec>() || plan.is::<CoalescePartitionsExec>();
    match plan.children()[..] {
        [input] if is_exchange || is_passed(plan.as_ref()) => below(input, is_passed),
        _ => plan,
    }
}

/// How many rows come out of a plan at most, as far as its sources say and joins do not multiply.
pub(crate) fn rows_of(plan: &Arc<dyn ExecutionPlan>) -> Option<Rows> {
    KnownRows::default().of(plan)
}

/// The same of parts of one plan: sources are asked once.
#[derive(Debug, Default)]
pub(crate) struct KnownRows(Memo<Option<Rows>>);

impl KnownRows {
    pub(crate) fn of(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<Rows> {
        self.0.of(plan, || self.find(plan))
    }

    fn find(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<Rows> {
        let children = match plan.downcast_ref::<WeldExec>() {
            Some(exec) => vec![exec.inner.source()],
            None => plan.children(),
        };
        if let Some(scan) = plan.downcast_ref::<CommonSubplanScanExec>() {
            return self.of(scan.subplan());
        }
        if children.is_empty() {
            let statistics = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new()).ok()?;
            return match statistics.num_rows {
                Precision::Exact(count) => Some(Rows { count, is_exact: true, is_filtered: false }),
                Precision::Inexact(count) => Some(Rows { count, is_exact: true, is_filtered: true }),
                Precision::Absent => {
                    let count = text_rows_max(plan).or_else(|| series_rows_max(plan));
                    count.map(|count| Rows { count, is_exact: false, is_filtered: false })
                }
            };
        }
        let rows: Option<Vec<Rows>> = children.into_iter().map(|child| self.of(child)).collect();
        let rows = rows?;
        let counts = rows.iter().map(|rows| rows.count);
        let count = if plan.is::<UnionExec>() { counts.sum() } else { counts.max().unwrap_or(0) };
        // An operator may drop rows; an exchange does not.
        let drops_rows = is_operator(plan.as_ref()) || plan.is::<KeyFilterExec>();
        let is_exact = rows.iter().all(|rows| rows.is_exact) && !drops_rows;
        let is_filtered = rows.iter().any(|rows| rows.is_filtered);
        let count = plan.fetch().map_or(count, |fetch| count.min(fetch));
        Some(Rows { count, is_exact, is_filtered })
    }

    /// The rows of all sources, if their statistics or sizes say.
    fn of_tables(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
        if let Some(scan) = plan.downcast_ref::<CommonSubplanScanExec>() {
            return self.of_tables(scan.subplan());
        }
        let children = plan.children();
        if children.is_empty() {
            return Some(self.of(plan)?.count);
        }
        children.into_iter().try_fold(0_usize, |sum, child| Some(sum.saturating_add(self.of_tables(child)?)))
    }

    /// The rows of all windows, if the sizes of tables say.
    fn of_windows(&self, plan: &Arc<dyn ExecutionPlan>) -> usize {
        if let Some(scan) = plan.downcast_ref::<CommonSubplanScanExec>() {
            return self.of_windows(scan.subplan());
        }
        let is_window = plan.is::<BoundedWindowAggExec>() || plan.is::<WindowAggExec>();
        let own = self.of(plan).filter(|_| is_window).map_or(0, |rows| rows.count);
        plan.children().into_iter().fold(own, |sum, child| sum.saturating_add(self.of_windows(child)))
    }
}

/// How many rows text files can have, of which no more is known: a row takes two bytes.
fn text_rows_max(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    let config = plan.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<FileScanConfig>()?;
    let is_text = matches!(config.file_source().file_type(), "csv" | "json");
    let is_plain = is_text && config.file_compression_type == FileCompressionType::UNCOMPRESSED;
    let files = config.file_groups.iter().flat_map(|group| group.iter());
    is_plain.then(|| files.map(|file| (file.effective_size() as usize).div_ceil(2)).sum())
}

/// How many rows `generate_series` and `range` can have: steps of months and days are taken for the shortest.
fn series_rows_max(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    const DAY: i128 = 23 * 3_600_000_000_000;
    let rows_max = |generator: &dyn Any| {
        let (distance, step) = if let Some(series) = generator.downcast_ref::<GenericSeriesState<i64>>() {
            (series.end().abs_diff(*series.start()), i128::from(*series.step()))
        } else {
            let series = generator.downcast_ref::<GenericSeriesState<TimestampValue>>()?;
            let (distance, step) = (series.end().value().abs_diff(series.start().value()), series.step());
            let days = 28 * i128::from(step.months) + i128::from(step.days);
            (distance, days * DAY + i128::from(step.nanoseconds))
        };
        let steps = u128::from(distance).checked_div(step.unsigned_abs())?;
        usize::try_from(steps + 1).ok()
    };
    let generators = plan.downcast_ref::<LazyMemoryExec>()?.generators();
    generators.iter().try_fold(0, |sum: usize, generator| sum.checked_add(rows_max(generator.read().as_any())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deferred_gate::Tried;

    #[test]
    fn a_trial_compiles_for_what_is_left() {
        let (ms, ns) = (Duration::from_millis, Duration::from_nanos);
        let row = ns(10);
        let trial = Trial { rows: Some(1_000_000), is_exact: true, work: ms(4), comes_again: false };
        // Less than a quarter of the work says nothing.
        assert!(!trial.repays(row, ns(999_999), 1_000));
        // 90 ns less for a row of all but these.
        assert!(trial.repays(row, ms(1), 10_000));
        assert!(!trial.repays(row, ms(90), 900_000));
        assert!(Trial { comes_again: true, ..trial }.repays(row, ms(90), 900_000));
        // There may be more rows than are expected.
        assert!(Trial { is_exact: false, ..trial }.repays(row, ms(90), 900_000));
        // Code takes no less.
        assert!(!trial.repays(row, ms(1), 100_000));
        // As many again: 9 ms less, then 27.
        let unknown = Trial { rows: None, is_exact: false, ..trial };
        assert!(!unknown.repays(row, ms(10), 100_000) && unknown.repays(row, ms(30), 300_000));
    }

    #[test]
    fn the_first_rows_of_groups_are_not_compared_and_rows_that_come_out_cost_code() {
        let (ms, ns) = (Duration::from_millis, Duration::from_nanos);
        let trial = Trial { rows: Some(1_000_000), is_exact: true, work: ms(4), comes_again: false };
        let cheap = CheapRow { every: ns(10), out: ns(90), first_rows: 10_000 };
        let tried = Tried::default();
        // 100 us a row.
        assert!(!tried.repays(&trial, cheap, 10_000, ms(1_000)));
        // 50 ns a row.
        assert!(!tried.repays(&trial, cheap, 10_000, Duration::from_micros(500)));
        assert_eq!(tried.spent(), ms(1_000) + Duration::from_micros(500));
        assert!(tried.of_row().is_none());
        assert!(tried.repays(&trial, cheap, 20_000, ms(1)));
        assert_eq!(tried.of_row(), Some(50.0));
        let tried = Tried::default();
        tried.repays(&trial, cheap, 10_000, ms(1));
        tried.out.store(20_000, Ordering::Relaxed);
        assert!(!tried.repays(&trial, cheap, 30_000, Duration::from_micros(1_500)));
    }
}
