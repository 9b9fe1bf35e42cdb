//! How many rows an operator gives and how its columns' values are spread, as far as statistics tell.
//!
//! Statistics of the sources come from DataFusion (Parquet: rows, least and greatest values); tables in memory have
//! none but their number of rows, so a sample of their integers and texts is read once and remembered ([`Ranges`]).
//! What nothing is known of is [`None`], and whoever asks leaves the plan as it was written.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{ColumnStatistics, JoinType, ScalarValue};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::union::UnionExec;
use weld_table::TableSource;

use crate::common_subplans::CommonSubplanScanExec;
use crate::expr_estimate::{Steps, of_expr};
use crate::memo::Memo;
use crate::ranges::{Ranges, Reading, hull};
use crate::selectivity::{narrowed, selectivity};

/// A string's bytes, where nothing is known of them.
const STRING_BYTES: f64 = 24.0;

/// An operator's output.
#[derive(Clone, Debug)]
pub(crate) struct Estimate {
    pub(crate) rows: f64,
    pub(crate) columns: Vec<ColumnEstimate>,
}

/// One column of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnEstimate {
    /// Rows of the table that the column is of, before anything was filtered.
    pub(crate) table_rows: f64,
    /// Least and greatest value there, of integers, dates and the like.
    pub(crate) table_range: Option<(f64, f64)>,
    /// The same of the rows that are left.
    pub(crate) range: Option<(f64, f64)>,
    /// Distinct values in the table, where that is known.
    pub(crate) distinct: Option<f64>,
    /// Of how many rows of the table a row has the value, on average over rows, where that was sampled.
    pub(crate) repetition: Option<f64>,
    pub(crate) null_share: f64,
    pub(crate) bytes: f64,
    pub(crate) steps: Steps,
}

impl ColumnEstimate {
    pub(crate) fn unknown(rows: f64, data_type: &DataType) -> ColumnEstimate {
        ColumnEstimate {
            table_rows: rows,
            table_range: None,
            range: None,
            distinct: None,
            repetition: None,
            null_share: 0.0,
            bytes: data_type.primitive_width().map_or(STRING_BYTES, |width| width as f64),
            steps: Steps::of(data_type),
        }
    }

    /// Whether anything tells how many distinct values there are.
    fn is_known(&self) -> bool {
        self.distinct.is_some() || self.range.is_some()
    }

    /// Distinct values in the whole table: at most its rows and what its range holds.
    pub(crate) fn table_distinct(&self) -> f64 {
        let by_range = self.table_range.map_or(f64::INFINITY, |(min, max)| max - min + 1.0);
        self.distinct.unwrap_or(f64::INFINITY).min(by_range).min(self.table_rows).max(1.0)
    }

    /// Whether each row is taken to have a value of its own: as many were counted, or there is one for each. A range that
    /// is wider than the table is long may be a foreign key's.
    pub(crate) fn is_key(&self) -> bool {
        let values = self.distinct.or(self.table_range.map(|(min, max)| max - min + 1.0));
        values.is_some_and(|values| values == self.table_rows)
    }

    /// With as many values, each as often as any other, rows of the table would meet as often as they do: some values may
    /// come more often than others. `None` where nothing says whether values come again.
    fn met_distinct(&self) -> Option<f64> {
        let sampled = self.repetition.map(|repetition| self.table_rows * (1.0 - self.null_share) / repetition);
        sampled.or(self.is_key().then(|| self.table_distinct()))
    }

    /// Distinct values among `rows` that are left.
    pub(crate) fn distinct_among(&self, rows: f64) -> f64 {
        let by_range = self.range.map_or(f64::INFINITY, |(min, max)| max - min + 1.0);
        self.table_distinct().min(by_range).min(rows).max(1.0)
    }
}

impl Estimate {
    pub(crate) fn row_bytes(&self) -> f64 {
        self.columns.iter().map(|column| column.bytes).sum()
    }

    fn with_rows(mut self, rows: f64) -> Estimate {
        self.rows = rows;
        self
    }

    fn projected(&self, columns: impl IntoIterator<Item = usize>) -> Estimate {
        Estimate { rows: self.rows, columns: columns.into_iter().map(|index| self.columns[index]).collect() }
    }
}

/// How many rows parts of plans are expected to give, each estimated once, by what is known of tables without reading them.
#[derive(Debug)]
pub struct ExpectedRows(Estimates);

impl ExpectedRows {
    /// `ranges` are those of the session.
    pub fn new(ranges: &Arc<Ranges>) -> ExpectedRows {
        ExpectedRows(Estimates { reading: Reading::Nothing, ..Estimates::new(ranges) })
    }

    /// How many rows `plan` is expected to give; `None` where statistics do not tell.
    pub fn of(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<f64> {
        Some(self.0.of(plan)?.rows)
    }

    /// How many pairs of rows have equal keys in a hash join, whatever its filter makes of them; all pairs of a
    /// nested-loop join. `None` for other operators, and where statistics do not tell.
    pub fn pairs(&self, join: &Arc<dyn ExecutionPlan>) -> Option<f64> {
        if let Some(join) = join.downcast_ref::<HashJoinExec>() {
            return Some(pairs(join, self.0.of(join.left())?.as_ref(), self.0.of(join.right())?.as_ref()));
        }
        let join = join.downcast_ref::<NestedLoopJoinExec>()?;
        Some(self.of(join.left())? * self.of(join.right())?)
    }

    /// How many groups an aggregate is expected to make by those of its keys of which something is known; the others may
    /// make more of them.
    pub fn groups(&self, aggregate: &AggregateExec) -> Option<f64> {
        let input = self.0.of(aggregate.input())?;
        let keys = aggregate.group_expr().expr().iter().map(|(key, _)| of_expr(key, &input));
        let combinations: f64 =
            keys.filter(ColumnEstimate::is_known).map(|key| key.distinct_among(input.rows)).product();
        Some(combinations.min(input.rows))
    }

    /// How many distinct values a column of `plan` has, as far as that is known; fewer where some come more often.
    pub fn distinct(&self, plan: &Arc<dyn ExecutionPlan>, column: usize) -> Option<f64> {
        let input = self.0.of(plan)?;
        let of_column = input.columns.get(column)?;
        let distinct = of_column.met_distinct().or_else(|| of_column.is_known().then(|| of_column.table_distinct()))?;
        Some(distinct.min(input.rows))
    }

    /// Whether something is known of all keys of an aggregate.
    pub fn are_keys_known(&self, aggregate: &AggregateExec) -> bool {
        self.0.of(aggregate.input()).is_some_and(|input| {
            aggregate.group_expr().expr().iter().all(|(key, _)| ColumnEstimate::is_known(&of_expr(key, &input)))
        })
    }
}

/// What is expected of the parts of plans, estimated once each: a rule asks at many places of one plan.
#[derive(Debug)]
pub(crate) struct Estimates {
    ranges: Arc<Ranges>,
    reading: Reading,
    known: Memo<Option<Arc<Estimate>>>,
}

impl Estimates {
    pub(crate) fn new(ranges: &Arc<Ranges>) -> Estimates {
        Estimates { ranges: Arc::clone(ranges), reading: Reading::Sample, known: Memo::default() }
    }

    /// The output of `plan`.
    pub(crate) fn of(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<Estimate>> {
        self.known.of(plan, || self.estimate(plan))
    }

    fn estimate(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<Estimate>> {
        let node = plan.as_ref();
        if let Some(scan) = node.downcast_ref::<CommonSubplanScanExec>() {
            return self.of(scan.subplan());
        }
        let estimated = if let Some(filter) = node.downcast_ref::<FilterExec>() {
            filtered(filter, self.of(filter.input())?.as_ref())
        } else if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
            projected(projection, self.of(projection.input())?.as_ref())
        } else if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
            groups(aggregate, self.of(aggregate.input())?.as_ref())
        } else if let Some(join) = node.downcast_ref::<HashJoinExec>() {
            joined(join, self.of(join.left())?.as_ref(), self.of(join.right())?.as_ref())
        } else if node.is::<UnionExec>() {
            let inputs: Option<Vec<_>> = plan.children().into_iter().map(|input| self.of(input)).collect();
            unknown_columns(plan, inputs?.iter().map(|input| input.rows).sum())
        } else {
            match plan.children()[..] {
                [] => source(plan, &self.ranges, self.reading)?,
                [input] => {
                    let known = self.of(input)?;
                    // What sorts, limits, repartitions or computes windows: the input's columns come first.
                    let is_same = plan.schema().fields().iter().zip(input.schema().fields()).all(|(a, b)| a == b);
                    if is_same && known.columns.len() == plan.schema().fields().len() && plan.fetch().is_none() {
                        return Some(known);
                    }
                    let mut output = unknown_columns(plan, known.rows);
                    if is_same {
                        output.columns.iter_mut().zip(&known.columns).for_each(|(column, known)| *column = *known);
                    }
                    limited(output, plan.fetch())
                }
                _ => unknown_columns(plan, datafusion_statistics(plan)?.num_rows.get_value().copied()? as f64),
            }
        };
        Some(Arc::new(estimated))
    }
}

fn filtered(filter: &FilterExec, input: &Estimate) -> Estimate {
    let share = selectivity(filter.predicate(), input);
    let columns = narrowed(filter.predicate(), input);
    let output = Estimate { rows: (input.rows * share).max(1.0), columns };
    let output = match filter.projection() {
        Some(projection) => output.projected(projection.iter().copied()),
        None => output,
    };
    limited(output, filter.fetch())
}

fn projected(projection: &ProjectionExec, input: &Estimate) -> Estimate {
    let columns = projection.expr().iter().map(|projected| of_expr(&projected.expr, input)).collect();
    Estimate { rows: input.rows, columns }
}

fn limited(output: Estimate, fetch: Option<usize>) -> Estimate {
    match fetch {
        Some(fetch) => {
            let rows = output.rows.min(fetch as f64);
            output.with_rows(rows)
        }
        None => output,
    }
}

fn unknown_columns(plan: &Arc<dyn ExecutionPlan>, rows: f64) -> Estimate {
    let schema = plan.schema();
    let columns = schema.fields().iter().map(|field| ColumnEstimate::unknown(rows, field.data_type())).collect();
    Estimate { rows, columns }
}

fn datafusion_statistics(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<datafusion::common::Statistics>> {
    StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new()).ok()
}

/// A table.
fn source(plan: &Arc<dyn ExecutionPlan>, ranges: &Ranges, reading: Reading) -> Option<Estimate> {
    let statistics = datafusion_statistics(plan)?;
    let rows = statistics.num_rows.get_value().copied()? as f64;
    let schema = plan.schema();
    let data = plan.downcast_ref::<DataSourceExec>().map(DataSourceExec::data_source);
    let memory = data.and_then(|data| data.downcast_ref::<MemorySourceConfig>());
    let files = data.and_then(|data| data.downcast_ref::<FileScanConfig>());
    let encoded = data.and_then(|data| data.downcast_ref::<TableSource>());
    let column = |(index, field): (usize, &arrow::datatypes::FieldRef)| {
        let mut column = ColumnEstimate::unknown(rows, field.data_type());
        if let Some(known) = statistics.column_statistics.get(index) {
            column.table_range = value_range(known);
            column.distinct = known.distinct_count.get_value().map(|distinct| *distinct as f64);
            let nulls = known.null_count.get_value().map_or(0.0, |nulls| *nulls as f64);
            column.null_share = if rows > 0.0 { nulls / rows } else { 0.0 };
        }
        if column.table_range.is_none() {
            let bounds = encoded.and_then(|table| table.bounds(index));
            let of_table = bounds.and_then(|(min, max)| Some((position(&min)?, position(&max)?)));
            let sampled = memory.map(|memory| ranges.of(memory, index, reading)).unwrap_or_default();
            column.table_range = of_table.or(sampled.range);
            column.repetition = sampled.repetition;
        }
        if column.distinct.is_none() && column.table_range.is_none() {
            column.distinct = files.and_then(|files| ranges.distinct_texts(files, index, reading));
        }
        column.range = column.table_range;
        column
    };
    Some(Estimate { rows, columns: schema.fields().iter().enumerate().map(column).collect() })
}

fn value_range(column: &ColumnStatistics) -> Option<(f64, f64)> {
    Some((position(column.min_value.get_value()?)?, position(column.max_value.get_value()?)?))
}

/// Where a value lies among those of its type, if they can be counted: integers, dates, timestamps, decimals by their
/// digits.
pub(crate) fn position(value: &ScalarValue) -> Option<f64> {
    Some(match value {
        ScalarValue::Int8(value) => f64::from((*value)?),
        ScalarValue::Int16(value) => f64::from((*value)?),
        ScalarValue::Int32(value) | ScalarValue::Date32(value) => f64::from((*value)?),
        ScalarValue::Int64(value)
        | ScalarValue::Date64(value)
        | ScalarValue::TimestampSecond(value, _)
        | ScalarValue::TimestampMillisecond(value, _)
        | ScalarValue::TimestampMicrosecond(value, _)
        | ScalarValue::TimestampNanosecond(value, _) => (*value)? as f64,
        ScalarValue::UInt8(value) => f64::from((*value)?),
        ScalarValue::UInt16(value) => f64::from((*value)?),
        ScalarValue::UInt32(value) => f64::from((*value)?),
        ScalarValue::UInt64(value) => (*value)? as f64,
        ScalarValue::Decimal32(value, ..) => f64::from((*value)?),
        ScalarValue::Decimal64(value, ..) => (*value)? as f64,
        ScalarValue::Decimal128(value, ..) => (*value)? as f64,
        _ => return None,
    })
}

fn groups(exec: &AggregateExec, input: &Estimate) -> Estimate {
    let schema = exec.schema();
    let mut columns = Vec::new();
    let mut combinations = 1.0;
    for (expr, _) in exec.group_expr().expr() {
        let column = of_expr(expr, input);
        combinations *= column.distinct_among(input.rows);
        // Groups have other frequencies than the table's rows.
        columns.push(ColumnEstimate { repetition: None, ..column });
    }
    let rows = if columns.is_empty() { 1.0 } else { combinations.min(input.rows) };
    for field in schema.fields().iter().skip(columns.len()) {
        columns.push(ColumnEstimate::unknown(rows, field.data_type()));
    }
    limited(Estimate { rows, columns }, exec.limit_options().map(|options| options.limit()))
}

/// How many pairs of rows have equal keys.
fn pairs(join: &HashJoinExec, left: &Estimate, right: &Estimate) -> f64 {
    let (mut share, mut least): (f64, f64) = (1.0, 0.0);
    for (l, r) in join.on() {
        let (l, r) = (of_expr(l, left), of_expr(r, right));
        share *= 1.0 / domain([(&l, left.rows), (&r, right.rows)]);
        least = least.max(1.0 / l.table_rows.min(r.table_rows).max(1.0));
    }
    // Keys of several columns hold at most as many combinations as the smaller table has rows.
    let share = if join.on().len() > 1 { share.max(least) } else { share };
    left.rows * right.rows * share
}

/// A join that is not part of a graph that is ordered (an outer join, say), or one below it.
fn joined(join: &HashJoinExec, left: &Estimate, right: &Estimate) -> Estimate {
    let pairs = pairs(join, left, right);
    let matched = |side: &Estimate| side.rows.min(pairs);
    let unmatched = |side: &Estimate| (side.rows - matched(side)).max(side.rows * 0.2);
    let rows = match join.join_type() {
        JoinType::Inner => pairs,
        JoinType::Left => pairs.max(left.rows),
        JoinType::Right => pairs.max(right.rows),
        JoinType::Full => pairs.max(left.rows).max(right.rows),
        JoinType::LeftSemi => matched(left),
        JoinType::RightSemi => matched(right),
        JoinType::LeftAnti => unmatched(left),
        JoinType::RightAnti => unmatched(right),
        JoinType::LeftMark => left.rows,
        JoinType::RightMark => right.rows,
    };
    // What has no match gets NULL for the other side's columns.
    let fill = |columns: &mut [ColumnEstimate], unmatched: f64| {
        let share = unmatched / rows.max(1.0);
        columns.iter_mut().for_each(|column| column.null_share = column.null_share.max(share.min(1.0)));
    };
    let mut columns = match join.join_type() {
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => left.columns.clone(),
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => right.columns.clone(),
        _ => [&left.columns[..], &right.columns].concat(),
    };
    match join.join_type() {
        JoinType::Left => fill(&mut columns[left.columns.len()..], unmatched(left)),
        JoinType::Right => fill(&mut columns[..left.columns.len()], unmatched(right)),
        _ => {}
    }
    if matches!(join.join_type(), JoinType::LeftMark | JoinType::RightMark) {
        columns.push(ColumnEstimate::unknown(rows, &DataType::Boolean));
    }
    let output = Estimate { rows: rows.max(1.0), columns };
    let output = match join.projection.as_deref() {
        Some(projection) => output.projected(projection.iter().copied()),
        None => output,
    };
    limited(output, join.fetch())
}

/// A column, and how many rows of its table are left.
pub(crate) type Member<'a> = (&'a ColumnEstimate, f64);

/// How many values a class of equal columns is over: rows meet with a chance of one in so many.
///
/// Where it is known of each column how often its values come again, the one with the most values decides. Else, if the
/// values of all others lie within those of the smallest table, that is taken to hold each once (a foreign key and its
/// primary key); otherwise the column with the most possible values decides.
pub(crate) fn domain<'a>(members: impl IntoIterator<Item = Member<'a>> + Clone) -> f64 {
    if members.clone().into_iter().any(|(member, _)| member.repetition.is_some()) {
        let met: Option<Vec<f64>> = members.clone().into_iter().map(|(member, _)| member.met_distinct()).collect();
        if let Some(met) = met {
            return met.into_iter().fold(1.0, f64::max);
        }
    }
    let by_rows = |a: &Member, b: &Member| a.0.table_rows.total_cmp(&b.0.table_rows);
    let Some((smallest, rows)) = members.clone().into_iter().min_by(by_rows) else { return 1.0 };
    let is_within = |range: Option<(f64, f64)>, other: Option<(f64, f64)>| match (range, other) {
        (Some((min, max)), Some((least, greatest))) => {
            // Of large tables in memory a range is that of a sample.
            let missed = (greatest - least) / 1000.0;
            least - missed <= min && max <= greatest + missed
        }
        _ => true,
    };
    if !members.clone().into_iter().all(|(member, _)| is_within(member.table_range, smallest.table_range)) {
        return members.into_iter().map(|(member, _)| member.table_distinct()).fold(1.0, f64::max);
    }
    let values = smallest.table_distinct();
    let others = members.into_iter().filter(|(member, _)| !std::ptr::eq(*member, smallest));
    let Some(met) = others.map(|(other, _)| other.table_range).reduce(|a, b| Some(hull(a?, b?))).flatten() else {
        return values;
    };
    met_values(smallest, rows, met, values)
}

/// Of `values` of a primary key, of which `rows` are left, those that foreign keys in a narrower range spread over: a
/// calendar of two centuries has days before and after all sales.
///
/// Where the days lie that a filter by the year has left is not known. If anywhere, most of them have no sales; if
/// among those with sales, a few of these are left with many sales each. The estimate is in the middle, by ratio.
fn met_values(key: &ColumnEstimate, rows: f64, met: (f64, f64), values: f64) -> f64 {
    let met_values = (met.1 - met.0 + 1.0).min(values);
    let is_known = key.range != key.table_range && key.range.is_some_and(|(min, max)| met.0 <= min && max <= met.1);
    let met_values = if is_known { met_values } else { (values * met_values).sqrt() };
    met_values.max(key.distinct_among(rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(rows: f64, range: (f64, f64)) -> ColumnEstimate {
        ColumnEstimate {
            table_range: Some(range),
            range: Some(range),
            ..ColumnEstimate::unknown(rows, &DataType::Int64)
        }
    }

    #[test]
    fn values_that_come_again_meet_more_often() {
        let sparse = |rows, repetition| ColumnEstimate { repetition: Some(repetition), ..column(rows, (1e9, 2e9)) };
        // Users, few of them often, among themselves, and with their names.
        let (users, names) = (sparse(4e6, 27.0), sparse(5e5, 1.0));
        assert_eq!(domain([(&users, 4e6), (&users, 4e6)]), 4e6 / 27.0);
        assert_eq!(domain([(&names, 5e5), (&users, 4e6)]), 5e5);
        // Clicks of impressions: either comes once, most impressions have none.
        let (clicks, impressions) = (sparse(1.5e5, 1.02), sparse(4e6, 1.0));
        assert_eq!(domain([(&clicks, 1.5e5), (&impressions, 4e6)]), 4e6);
        // A key without gaps needs no sample; what is not known of one column leaves it to the ranges.
        let key = column(5e5, (1.0, 5e5));
        assert_eq!(domain([(&key, 5e5), (&ColumnEstimate { table_range: key.range, ..clicks }, 1.5e5)]), 5e5);
        assert_eq!(domain([(&column(5e5, (1e9, 2e9)), 5e5), (&users, 4e6)]), 5e5);
        // Half of the rows have none.
        let half = ColumnEstimate { null_share: 0.5, ..users };
        assert_eq!(domain([(&half, 4e6), (&half, 4e6)]), 2e6 / 27.0);
    }

    /// The least and the greatest key of a table in memory may be missing in the sample of it, but not in that of the table
    /// with the foreign keys.
    #[test]
    fn foreign_keys_may_lie_beside_the_sample_of_their_key() {
        let key = column(1e6, (1200.0, 1_999_100.0));
        for (foreign, expected) in [((1000.0, 2_000_000.0), 1e6), ((-90_000.0, 2_000_000.0), 2_090_001.0)] {
            let foreign = column(6e6, foreign);
            assert_eq!(domain([(&key, 1e6), (&foreign, 6e6)]), expected);
        }
    }
}
