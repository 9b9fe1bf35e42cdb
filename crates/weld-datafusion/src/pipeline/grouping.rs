//! Whether a partial aggregate groups its rows or passes them on.
//!
//! A table that outgrows its first bound is handed out, which tells the number of groups. How many rows made them is
//! not counted (filters and joins stand before the aggregate): the next batch is passed on ungrouped, and the rows that
//! come out of it give the ratio. So early, most keys are new even where a hundred rows share each: what counts is the
//! ratio at the partition's end, or when a table is full, which follows from how many keys have come twice. It holds
//! for keys in random order and that are equally frequent. Where rows of a key are neighbours, or few keys have most
//! rows, it promises too much, so each full table is asked again: whether its groups are few, and whether a larger one
//! would have fewer. Where all keys come before the first comes again, as in rows that are ordered by time, it would
//! promise nothing: there, what statistics say of the number of keys counts.

use std::sync::Arc;

use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::physical_plan::metrics::MetricBuilder;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use weld_arrow::RowsReader;
use weld_plans::ExpectedRows;

use super::compile::ungrouped;
use super::failure::Failure;
use super::run::Run;
use crate::code_cache::Code;
use crate::exec::Inner;
use crate::gate;
use crate::lower::pipeline::{LoweredPipeline, Output};

/// A partial aggregate hands its groups out when they take so much memory, which bounds its table and says how many
/// rows a group has. Measured against 32 MiB: ClickBench's questions on many groups at scale factor 1 by a sixth
/// faster, H2O.ai's at 0.3 by a quarter, TPC-H Q18 204 -> 159 ms; 2 MiB: no faster.
const PARTIAL_BYTES: usize = 4 << 20;

/// The same where larger tables have fewer groups to rows. TPC-DS Q22, 90,000 groups in 60 million rows: 108 ms, 248
/// with 4 MiB.
const PARTIAL_BYTES_MAX: usize = 32 << 20;

/// Each text among what comes out allows as much again, up to so many times in all: a row that is passed on has its texts
/// copied, hashed and compared behind the exchange, each a miss of the cache. 400,000 groups of five million rows by a
/// number and two texts of a build side: 1.97 s with 32 MiB, 0.8 to 1.2 with 64, 128 and 256.
const TIMES_BY_TEXTS_MAX: usize = 4;

/// When the table of a partial aggregate has become so large, it is time to ask whether grouping pays: more than a
/// core's cache holds is slow to update, and at some ten thousand groups the ratio of groups to rows means something.
const PROBED_BYTES_MIN: usize = 1 << 20;

/// Groups to rows at a partition's end, above which grouping does not pay: it then saves less in the exchange and in
/// the final aggregate than a large table costs.
const RATIO_AT_END_MAX: f64 = 0.25;

/// Groups to rows of full tables, above which the rest is not grouped. Of ten million rows, seven in ten came out of
/// tables of 32 MiB at 57 ns of processor time for each that went in, where the exchange and the ranges of the final
/// aggregate took 38 for each (ClickBench's question 16).
const RATIO_OF_FULL_MAX: f64 = 0.5;

/// When a full table makes the keys so many times as many as were expected after the one before, few of them have most
/// rows, and a larger table is full of the others too.
const KEYS_GROWTH_MAX: f64 = 1.5;

/// A table may be twice as large if it had at most so many times the groups to rows of the one before.
const GAIN_OF_LARGER: f64 = 0.9;

/// So many times the keys that are expected are held by a table.
const SLACK_OF_KEYS: f64 = 1.25;

/// Where nothing is known of an input, so many times the rows that have come.
const UNKNOWN_FACTOR: usize = 16;

/// How large the table of a partial aggregate is when it is handed out.
pub(super) struct TableBounds {
    pub(super) bytes_max: usize,
    /// As much it may be made to become.
    pub(super) bytes_limit: usize,
    /// Of groups to rows: above it, grouping does not pay.
    pub(super) ratio_max: f64,
}

/// What a run of a partial aggregate knows about whether grouping pays.
pub(super) enum Grouping {
    /// Not asked yet: how many rows have been read.
    Unknown { input_rows: usize },
    /// So many groups came of so many rows of the input, and a table holds `groups_max` of them. A row of the next
    /// batch is a group each.
    Probing { groups: usize, groups_max: f64, input_rows: usize, code: Arc<Code> },
    /// Every row is passed on as a group of its own.
    Off { code: Arc<Code> },
    /// It pays. The code that leaves it out is there, but beside accumulators.
    On { tables: Tables, code: Option<Arc<Code>> },
    /// It no longer pays, and the code that leaves it out is to be made.
    Leaving,
    /// It cannot be left out.
    Always,
}

/// What is known of the tables that are handed out when they are full.
pub(super) struct Tables {
    /// Of the input's rows, those that reach the aggregate.
    share: f64,
    /// What the input gave since the table was empty.
    input_rows: usize,
    /// Groups to rows of the table before, and how many keys it made expect.
    ratio: f64,
    keys: f64,
    /// How many groups the largest table holds.
    groups_max: f64,
    /// How many keys there are by statistics.
    keys_max: f64,
    /// When the table is full, and when the largest is.
    bytes_max: usize,
    bytes_limit: usize,
}

impl Tables {
    /// The table is full with so many groups in so many bytes: sets when the next is. Whether grouping still pays;
    /// above `ratio_max` groups to rows it never does.
    fn still_pay(&mut self, groups: f64, bytes: usize, ratio_max: f64) -> bool {
        let rows = self.share * std::mem::take(&mut self.input_rows) as f64;
        if groups <= self.keys_max && self.keys_max <= self.groups_max {
            // Full again, it shows that there are more.
            let bytes_of_all = bytes as f64 * SLACK_OF_KEYS * self.keys_max / groups;
            self.bytes_max = self.bytes_limit.min(bytes_of_all as usize);
            return true;
        }
        let (ratio, keys) = (groups / rows, keys_expected(groups, rows));
        let of_largest = ratio_of_tables(groups, rows, f64::INFINITY, self.groups_max, f64::INFINITY);
        let is_larger_full = ratio > RATIO_OF_FULL_MAX && keys > KEYS_GROWTH_MAX * self.keys;
        if ratio > ratio_max || of_largest > RATIO_OF_FULL_MAX || is_larger_full {
            return false;
        }
        if ratio <= GAIN_OF_LARGER * self.ratio {
            self.bytes_max = (2 * self.bytes_max).min(self.bytes_limit);
        }
        (self.ratio, self.keys) = (ratio, keys);
        true
    }
}

impl TableBounds {
    /// At first small tables, which tell early whether grouping pays. Where it cannot be left out, nothing is to be
    /// learnt of a small one, and the groups of all grouping sets come out of each. Of a limited pool it is a part that
    /// leaves room for the others.
    pub(super) fn new(inner: &Inner, context: &TaskContext) -> TableBounds {
        let schema = inner.replaced.plan.schema();
        let texts = schema.fields().iter().filter(|field| field.data_type().is_string()).count();
        let bytes_max = PARTIAL_BYTES_MAX * (1 + texts).min(TIMES_BY_TEXTS_MAX);
        let bytes_limit = match context.memory_pool().memory_limit() {
            MemoryLimit::Finite(bytes) => {
                let partitions = inner.source().output_partitioning().partition_count();
                bytes_max.min(bytes / (16 * partitions.max(1)))
            }
            _ => bytes_max,
        };
        let may_be_ungrouped = inner.pipeline.lowered.may_be_ungrouped();
        TableBounds {
            bytes_max: if may_be_ungrouped { bytes_limit.min(PARTIAL_BYTES) } else { bytes_limit },
            bytes_limit,
            ratio_max: context.session_config().options().execution.skip_partial_aggregation_probe_ratio_threshold,
        }
    }
}

impl Grouping {
    pub(super) fn new(lowered: &LoweredPipeline) -> Grouping {
        match lowered.may_be_ungrouped() {
            true => Grouping::Unknown { input_rows: 0 },
            false => Grouping::Always,
        }
    }
}

impl Run {
    /// Whether [`Run::adapt`] asks after this slice whether grouping pays.
    pub(super) fn is_asked_next(&self) -> bool {
        matches!(self.groups.grouping, Grouping::Unknown { .. }) && self.execution.memory.used() >= PROBED_BYTES_MIN
    }

    /// The code that the stream is a run of.
    pub(super) fn current_code(&self) -> Arc<Code> {
        match &self.groups.grouping {
            Grouping::Probing { code, .. } | Grouping::Off { code } => Arc::clone(code),
            Grouping::Unknown { .. } | Grouping::On { .. } | Grouping::Leaving | Grouping::Always => {
                Arc::clone(&self.execution.code)
            }
        }
    }

    /// Leaves grouping out, or takes it up again, by what the last rows have shown.
    pub(super) async fn adapt(&mut self, batch_rows: usize) -> Result<(), Failure> {
        match &mut self.groups.grouping {
            Grouping::Always | Grouping::Off { .. } | Grouping::On { .. } => Ok(()),
            Grouping::Leaving => match ungrouped_code(Arc::clone(&self.inner)).await {
                Some((code, output)) => {
                    self.leave_out(Arc::clone(&code));
                    self.open(&code, output)
                }
                None => {
                    self.groups.grouping = Grouping::Always;
                    Ok(())
                }
            },
            Grouping::Unknown { input_rows } => {
                *input_rows += batch_rows;
                let input_rows = *input_rows;
                if self.execution.memory.used() < PROBED_BYTES_MIN {
                    return Ok(());
                }
                if self.groups.accumulation.is_some() {
                    return self.adapt_accumulating(input_rows).await;
                }
                let Some((code, output)) = ungrouped_code(Arc::clone(&self.inner)).await else {
                    self.groups.grouping = Grouping::Always;
                    return Ok(());
                };
                let fills = self.groups.bounds.bytes_limit as f64 / self.execution.memory.used() as f64;
                self.finish()?;
                let groups = self.out.reader.as_ref().map_or(0, RowsReader::rows_left);
                let groups_max = fills * groups as f64;
                self.groups.grouping = Grouping::Probing { groups, groups_max, input_rows, code: Arc::clone(&code) };
                self.open(&code, output)
            }
            Grouping::Probing { groups, groups_max, input_rows, code } => {
                let (groups, groups_max, input_rows, code) = (*groups, *groups_max, *input_rows, Arc::clone(code));
                if batch_rows == 0 {
                    return Ok(());
                }
                if self.out.reader.is_none() {
                    self.take_rows()?;
                }
                let rows = self.out.reader.as_ref().map_or(0, RowsReader::rows_left);
                if rows == 0 {
                    return Ok(());
                }
                let share = rows as f64 / batch_rows as f64;
                let (groups, grouped_rows) = (groups as f64, share * input_rows as f64);
                if !self.pays(groups, grouped_rows, groups_max, input_rows) {
                    self.leave_out(code);
                    return Ok(());
                }
                let tables = self.tables(groups, grouped_rows, groups_max, share);
                self.groups.grouping = Grouping::On { tables, code: Some(code) };
                let (code, output) = (Arc::clone(&self.execution.code), self.inner.pipeline.lowered.output.clone());
                self.open(&code, output)
            }
        }
    }

    /// Leaves grouping out or not. What accumulators were given tells how many rows the groups have, so that these need
    /// not be handed out for it: their states may be large.
    async fn adapt_accumulating(&mut self, input_rows: usize) -> Result<(), Failure> {
        self.accumulate()?;
        let given = self.groups.accumulation.as_ref().filter(|accumulation| accumulation.rows > 0);
        let Some(accumulation) = given else { return Ok(()) };
        let (groups, rows) = (accumulation.groups as f64, accumulation.rows as f64);
        let groups_max = groups * self.groups.bounds.bytes_limit as f64 / self.execution.memory.used() as f64;
        if self.pays(groups, rows, groups_max, input_rows) {
            let tables = self.tables(groups, rows, groups_max, rows / input_rows as f64);
            self.groups.grouping = Grouping::On { tables: Tables { input_rows, ..tables }, code: None };
            return Ok(());
        }
        let Some((code, output)) = ungrouped_code(Arc::clone(&self.inner)).await else {
            self.groups.grouping = Grouping::Always;
            return Ok(());
        };
        self.finish()?;
        self.leave_out(Arc::clone(&code));
        self.open(&code, output)
    }

    /// What is known of the next tables when the first one had so many groups of so many rows, which were this share of
    /// the input's. Sets when the next is full.
    fn tables(&mut self, groups: f64, rows: f64, groups_max: f64, share: f64) -> Tables {
        let (ratio, keys) = (groups / rows, keys_expected(groups, rows));
        if keys <= groups_max {
            // A smaller one would be handed out with most keys in it once or twice.
            let bytes_of_all = self.groups.bounds.bytes_limit as f64 * SLACK_OF_KEYS * keys / groups_max;
            let bytes_of_all = self.groups.bounds.bytes_limit.min(bytes_of_all as usize);
            self.groups.bounds.bytes_max = self.groups.bounds.bytes_max.max(bytes_of_all);
        }
        let (bytes_max, bytes_limit) = (self.groups.bounds.bytes_max, self.groups.bounds.bytes_limit);
        let keys_max = self.keys_max(groups);
        Tables { share, input_rows: 0, ratio, keys, groups_max, keys_max, bytes_max, bytes_limit }
    }

    /// Whether so many groups of so many rows, which come of these rows of the input, are few enough.
    fn pays(&self, groups: f64, rows: f64, groups_max: f64, input_rows: usize) -> bool {
        let rows_at_end = rows / input_rows as f64 * self.rows_expected(input_rows);
        groups <= self.groups.bounds.ratio_max * rows
            || ratio_of_tables(groups, rows, rows_at_end, groups_max, self.keys_max(groups)) <= RATIO_AT_END_MAX
    }

    /// How many keys there are by statistics, unless so many groups show that these are wrong.
    fn keys_max(&self, groups: f64) -> f64 {
        let expected = ExpectedRows::new(&self.inner.pipeline.compilation.ranges).of(&self.inner.replaced.plan);
        let expected = expected.filter(|expected| groups <= *expected);
        expected.unwrap_or(f64::INFINITY)
    }

    /// Takes note of rows of the input that the table has.
    pub(super) fn note_grouped(&mut self, rows: usize) {
        if let Grouping::On { tables, .. } = &mut self.groups.grouping {
            tables.input_rows += rows;
        }
    }

    /// Hands a full table out and goes on: with an empty one, a larger one if that has fewer groups to rows, or without
    /// grouping.
    pub(super) fn empty_table(&mut self) -> Result<(), Failure> {
        let bytes = self.execution.memory.used();
        self.finish()?;
        let groups = self.out.reader.as_ref().map_or(0, RowsReader::rows_left) as f64;
        let Grouping::On { tables, code } = &mut self.groups.grouping else { return self.open_again() };
        let pays = tables.still_pay(groups, bytes, self.groups.bounds.ratio_max);
        self.groups.bounds.bytes_max = tables.bytes_max;
        if !pays {
            match (code.clone(), self.inner.pipeline.lowered.ungrouped()) {
                (Some(code), Some(lowered)) => {
                    let output = lowered.output.clone();
                    self.leave_out(Arc::clone(&code));
                    return self.open(&code, output);
                }
                _ => self.groups.grouping = Grouping::Leaving,
            }
        }
        self.open_again()
    }

    fn leave_out(&mut self, code: Arc<Code>) {
        self.groups.grouping = Grouping::Off { code };
        MetricBuilder::new(&self.inner.metrics).counter("ungrouped_partitions", 0).add(1);
    }

    /// How many rows of the input there are in a partition: an estimate, or some times as many as have come.
    fn rows_expected(&self, input_rows: usize) -> f64 {
        let expected = rows_expected(self.inner.source());
        expected.unwrap_or((UNKNOWN_FACTOR * input_rows) as f64).max(input_rows as f64)
    }

    /// Passes every row on from now on; whether that is possible.
    pub(super) async fn stop_grouping(&mut self) -> Result<bool, Failure> {
        let Some((code, output)) = ungrouped_code(Arc::clone(&self.inner)).await else { return Ok(false) };
        self.groups.grouping = Grouping::Off { code: Arc::clone(&code) };
        if matches!(output, Output::Rows(_)) {
            self.open(&code, output)?;
            return Ok(true);
        }
        Ok(false)
    }
}

/// The code that gives every row a group of its own, and what it gives; `None` if there is none.
async fn ungrouped_code(inner: Arc<Inner>) -> Option<(Arc<Code>, Output)> {
    let output = inner.pipeline.lowered.ungrouped()?.output.clone();
    Some((ungrouped(inner).await.ok()?, output))
}

/// How many rows a plan is expected to give in a partition.
fn rows_expected(plan: &Arc<dyn ExecutionPlan>) -> Option<f64> {
    let partitions = plan.output_partitioning().partition_count().max(1);
    Some(gate::rows_of(plan)?.count as f64 / partitions as f64)
}

/// Groups to rows of the tables that are handed out when they have `groups_max` groups, or after `rows_at_end` rows, if
/// the first `rows` have `groups`, keys come in random order and there are no more than `keys_max`.
fn ratio_of_tables(groups: f64, rows: f64, rows_at_end: f64, groups_max: f64, keys_max: f64) -> f64 {
    let keys = keys_expected(groups, rows).min(keys_max);
    let at_end = rows_at_end.max(rows) / keys;
    // Rows a key when a table is full: never, if it holds all keys.
    let when_full = if groups_max < keys { -(-groups_max / keys).ln_1p() } else { f64::INFINITY };
    ratio(at_end.min(when_full))
}

/// How many keys there are if `rows` have `groups` of them and keys are equally frequent.
fn keys_expected(groups: f64, rows: f64) -> f64 {
    // The ratio falls from 1 to 0 as rows per key grow.
    let (mut low, mut high) = (1e-9, 1e9);
    for _ in 0..64 {
        let middle = f64::sqrt(low * high);
        if ratio(middle) > groups / rows { low = middle } else { high = middle }
    }
    rows / low
}

/// Groups to rows with so many rows a key: of `d` keys that are equally frequent, `n` rows have `d (1 - exp(-n / d))`.
fn ratio(rows_per_key: f64) -> f64 {
    -(-rows_per_key).exp_m1() / rows_per_key
}

#[cfg(test)]
mod tests {
    use super::{Tables, keys_expected, ratio_of_tables};

    /// With a first table of 10,000 groups of so many rows; a group takes 100 bytes.
    fn tables(rows: f64, keys_max: f64) -> Tables {
        Tables {
            share: 0.5,
            input_rows: 0,
            ratio: 1e4 / rows,
            keys: keys_expected(1e4, rows),
            groups_max: 320_000.0,
            keys_max,
            bytes_max: 4_000_000,
            bytes_limit: 32_000_000,
        }
    }

    /// When the next table is full, if there is one after a table of 40,000 groups of so many rows.
    fn next(tables: &mut Tables, rows: f64) -> Option<usize> {
        tables.input_rows = (rows / 0.5) as usize;
        tables.still_pay(4e4, 4_000_000, 0.8).then_some(tables.bytes_max)
    }

    fn rows_of(groups: f64, keys: f64) -> f64 {
        -keys * (-groups / keys).ln_1p()
    }

    #[test]
    fn larger_tables_where_these_have_fewer_groups() {
        // Keys that a larger table holds: it has fewer groups to rows.
        let mut of_some = tables(rows_of(1e4, 9e4), f64::INFINITY);
        assert_eq!(next(&mut of_some, rows_of(4e4, 9e4)), Some(8_000_000));
        // Neighbours: four rows a group, however large the table is.
        let mut of_neighbours = tables(4e4, f64::INFINITY);
        assert_eq!(next(&mut of_neighbours, 16e4), Some(4_000_000));
        // Up to a limit.
        let mut again = tables(rows_of(1e4, 9e4), f64::INFINITY);
        again.bytes_limit = 6_000_000;
        assert_eq!(next(&mut again, rows_of(4e4, 9e4)), Some(6_000_000));
    }

    #[test]
    fn no_grouping_where_no_table_helps() {
        // Nearly each row a group.
        assert_eq!(next(&mut tables(1.2e4, f64::INFINITY), 4.1e4), None);
        // Equally frequent keys, too many for the largest table.
        let mut of_many = tables(rows_of(1e4, 1e5), f64::INFINITY);
        of_many.groups_max = 45_000.0;
        assert_eq!(next(&mut of_many, rows_of(4e4, 1e5)), None);
        // Few keys have most rows: half of the first table's rows were groups, and so are those of the next, which is
        // four times as large.
        assert_eq!(next(&mut tables(1.5e4, f64::INFINITY), 6e4), None);
        assert!(next(&mut tables(3e4, f64::INFINITY), 12e4).is_some());
    }

    #[test]
    fn statistics_are_believed_until_there_are_more_keys() {
        // All keys come before the first comes again.
        let mut in_rounds = tables(1e4, 1e5);
        assert_eq!(next(&mut in_rounds, 4e4), Some(12_500_000));
        let mut wrong = tables(1e4, 3e4);
        assert_eq!(next(&mut wrong, 4e4), None);
    }

    #[test]
    fn the_ratio_follows_from_keys_that_came_twice() {
        let groups = |keys: f64, rows: f64| keys * (1.0 - (-rows / keys).exp());
        for keys in [1e4, 5e4, 1e6] {
            for (rows, rows_at_end) in [(2e4, 2e6), (1e5, 1e5), (1e5, 1e7)] {
                let expected = groups(keys, rows_at_end) / rows_at_end;
                let found = ratio_of_tables(groups(keys, rows), rows, rows_at_end, f64::INFINITY, f64::INFINITY);
                assert!((found / expected - 1.0).abs() < 0.01, "{keys} {rows} {rows_at_end}: {found} {expected}");
            }
        }
        // No key has come twice.
        assert!(ratio_of_tables(1e4, 1e4, 1e6, 1e9, f64::INFINITY) > 0.99);
        assert!(ratio_of_tables(1e4, 1e4, 1e3, 1e9, f64::INFINITY) > 0.99);
        // But it is known that there are no others.
        assert!((ratio_of_tables(1e4, 1e4, 1e6, 1e9, 2e4) - 0.02).abs() < 1e-3);
        // Tables of half of the keys are full after 0.69 rows a key, however many rows follow.
        let found = ratio_of_tables(groups(1e6, 1e5), 1e5, 1e8, 5e5, f64::INFINITY);
        assert!((found - 0.5 / 2f64.ln()).abs() < 0.01, "{found}");
    }
}
