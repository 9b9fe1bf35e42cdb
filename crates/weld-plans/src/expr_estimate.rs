//! How the values of an expression are spread, by what is known of the columns that it reads.
//!
//! ```text
//! CASE WHEN agent LIKE '%bot%' THEN 'bot' ELSE 'other' END    2 distinct values
//! position / 1000000                                          as many as the range of positions has millions
//! date_trunc('month', sold_at)                                as many as the range of times has months
//! ```
//! An expression has at most as many values as there are combinations of those of its columns. It is taken to be
//! deterministic: what is not has a value a row, which nobody groups by.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::functions::datetime::date_part::DatePartFunc;
use datafusion::functions::datetime::date_trunc::DateTruncFunc;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_expr_common::physical_expr::is_volatile;

use crate::estimate::{ColumnEstimate, Estimate, position};
use crate::ranges::hull;

const SECONDS_OF_DAY: f64 = 86_400.0;
const DAYS_OF_YEAR: f64 = 365.2425;

/// The values of `expr` over the rows of `input`.
pub(crate) fn of_expr(expr: &Arc<dyn PhysicalExpr>, input: &Estimate) -> ColumnEstimate {
    if let Some(column) = expr.downcast_ref::<Column>() {
        return input.columns[column.index()];
    }
    let any = of_columns(expr, input);
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        let at = position(literal.value()).map(|at| (at, at));
        return any.of_type(&literal.value().data_type()).within(at).at_most(1.0);
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        return cast_to(any, &of_expr(cast.expr(), input), cast.cast_type());
    }
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        let (left, right) = (of_expr(binary.left(), input), of_expr(binary.right(), input));
        return calculated(any, *binary.op(), &left, &right);
    }
    if let Some(case) = expr.downcast_ref::<CaseExpr>() {
        return one_of(any, case, input);
    }
    if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
        return called(any.of_type(call.return_type()), call, input);
    }
    let is_condition = expr.is::<NotExpr>()
        || expr.is::<IsNullExpr>()
        || expr.is::<IsNotNullExpr>()
        || expr.is::<InListExpr>()
        || expr.is::<LikeExpr>();
    if is_condition { any.of_type(&DataType::Boolean).at_most(2.0) } else { any }
}

/// What holds of any expression of the same columns.
fn of_columns(expr: &Arc<dyn PhysicalExpr>, input: &Estimate) -> ColumnEstimate {
    let mut estimate = ColumnEstimate::unknown(input.rows, &DataType::Null);
    if is_volatile(expr) {
        return estimate;
    }
    let columns: Vec<ColumnEstimate> =
        collect_columns(expr).iter().map(|column| input.columns[column.index()]).collect();
    estimate.distinct = Some(columns.iter().map(|column| column.distinct_among(input.rows)).product());
    let largest = |of: fn(&ColumnEstimate) -> f64| columns.iter().map(of).reduce(f64::max);
    estimate.table_rows = largest(|column| column.table_rows).unwrap_or(input.rows);
    estimate.null_share = largest(|column| column.null_share).unwrap_or_default();
    estimate.bytes = largest(|column| column.bytes).unwrap_or(estimate.bytes);
    estimate
}

/// The same values as numbers, dates or times of another type.
fn cast_to(any: ColumnEstimate, of: &ColumnEstimate, to: &DataType) -> ColumnEstimate {
    let cast = ColumnEstimate { distinct: of.distinct, ..any.of_type(to) };
    let scale = match (of.steps, cast.steps) {
        (Steps::Ones, Steps::Ones) => 1.0,
        (Steps::PerDay(from), Steps::PerDay(to)) => to / from,
        _ => return cast,
    };
    cast.within(of.range.map(|(min, max)| ((min * scale).floor(), (max * scale).floor())))
}

fn calculated(any: ColumnEstimate, op: Operator, left: &ColumnEstimate, right: &ColumnEstimate) -> ColumnEstimate {
    if !matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide | Operator::Modulo) {
        return if is_condition(op) { any.of_type(&DataType::Boolean).at_most(2.0) } else { any };
    }
    let (Steps::Ones, Steps::Ones, Some(a), Some(b)) = (left.steps, right.steps, left.range, right.range) else {
        return any;
    };
    // The least and greatest result are among those of the ends, unless the divisor may be 0.
    let of_ends = |result: fn(f64, f64) -> f64| {
        let ends = [result(a.0, b.0), result(a.0, b.1), result(a.1, b.0), result(a.1, b.1)];
        Some((ends.into_iter().fold(f64::INFINITY, f64::min), ends.into_iter().fold(f64::NEG_INFINITY, f64::max)))
    };
    let range = match op {
        Operator::Plus => of_ends(|a, b| a + b),
        Operator::Minus => of_ends(|a, b| a - b),
        Operator::Multiply => of_ends(|a, b| a * b),
        Operator::Divide if b.0 > 0.0 => of_ends(|a, b| (a / b).trunc()),
        // The remainder has the sign of what is divided.
        Operator::Modulo if b.0 > 0.0 => Some((a.0.clamp(1.0 - b.1, 0.0), a.1.clamp(0.0, b.1 - 1.0))),
        _ => None,
    };
    ColumnEstimate { steps: Steps::Ones, ..any }.within(range)
}

fn is_condition(op: Operator) -> bool {
    use Operator::{
        Eq, Gt, GtEq, ILikeMatch, IsDistinctFrom, IsNotDistinctFrom, LikeMatch, Lt, LtEq, NotEq, NotILikeMatch,
        NotLikeMatch, RegexIMatch, RegexMatch, RegexNotIMatch, RegexNotMatch,
    };
    let compares = matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom);
    let matches_pattern = matches!(op, RegexMatch | RegexIMatch | RegexNotMatch | RegexNotIMatch)
        || matches!(op, LikeMatch | ILikeMatch | NotLikeMatch | NotILikeMatch);
    op.is_logic_operator() || compares || matches_pattern
}

/// One of the values of the branches.
fn one_of(any: ColumnEstimate, case: &CaseExpr, input: &Estimate) -> ColumnEstimate {
    let branches = case.when_then_expr().iter().map(|(_, then)| then).chain(case.else_expr());
    let branches: Vec<ColumnEstimate> = branches.map(|branch| of_expr(branch, input)).collect();
    let Some(first) = branches.first() else { return any };
    let values = branches.iter().map(|branch| branch.distinct_among(input.rows)).sum();
    let ranges = branches.iter().map(|branch| branch.range.filter(|_| branch.steps == first.steps));
    let bytes = branches.iter().map(|branch| branch.bytes).fold(0.0, f64::max);
    ColumnEstimate { steps: first.steps, bytes, ..any }
        .within(ranges.reduce(|a, b| Some(hull(a?, b?))).flatten())
        .at_most(values)
}

fn called(any: ColumnEstimate, call: &ScalarFunctionExpr, input: &Estimate) -> ColumnEstimate {
    let function = call.fun().inner();
    let [unit, time] = call.args() else { return any };
    let unit = unit.downcast_ref::<Literal>().and_then(|unit| unit.value().try_as_str().flatten());
    let Some(unit) = unit.map(str::to_ascii_lowercase) else { return any };
    let days = |time: &ColumnEstimate| match time.steps {
        Steps::PerDay(steps) => time.range.map(|(min, max)| (min / steps, max / steps)),
        _ => None,
    };
    let time = of_expr(time, input);
    if function.is::<DatePartFunc>() {
        let range = match unit.as_str() {
            "year" => days(&time).map(|(min, max)| (year(min), year(max))),
            unit => part(unit),
        };
        return any.within(range);
    }
    if function.is::<DateTruncFunc>() {
        let periods = days(&time).zip(length(&unit)).map(|((min, max), length)| ((max - min) / length).floor() + 1.0);
        return any.within(time.range).at_most(periods.unwrap_or(f64::INFINITY));
    }
    any
}

fn year(days: f64) -> f64 {
    1970.0 + ((days + 0.5) / DAYS_OF_YEAR).floor()
}

/// What a part of a date or time may be.
fn part(unit: &str) -> Option<(f64, f64)> {
    Some(match unit {
        "quarter" => (1.0, 4.0),
        "month" => (1.0, 12.0),
        "week" => (1.0, 53.0),
        "day" => (1.0, 31.0),
        "doy" => (1.0, 366.0),
        "dow" | "isodow" => (0.0, 7.0),
        "hour" => (0.0, 23.0),
        "minute" | "second" => (0.0, 59.0),
        _ => return None,
    })
}

/// How many days a unit has.
fn length(unit: &str) -> Option<f64> {
    Some(match unit {
        "second" => 1.0 / SECONDS_OF_DAY,
        "minute" => 60.0 / SECONDS_OF_DAY,
        "hour" => 1.0 / 24.0,
        "day" => 1.0,
        "week" => 7.0,
        "month" => DAYS_OF_YEAR / 12.0,
        "quarter" => DAYS_OF_YEAR / 4.0,
        "year" => DAYS_OF_YEAR,
        _ => return None,
    })
}

/// What the numbers of a range count.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Steps {
    /// Integers.
    Ones,
    /// Dates and times: so many a day.
    PerDay(f64),
    /// Digits of decimals, or nothing.
    Other,
}

impl Steps {
    pub(crate) fn of(data_type: &DataType) -> Steps {
        match data_type {
            DataType::Date32 => Steps::PerDay(1.0),
            DataType::Date64 => Steps::PerDay(SECONDS_OF_DAY * 1e3),
            DataType::Timestamp(unit, _) => Steps::PerDay(
                SECONDS_OF_DAY
                    * match unit {
                        TimeUnit::Second => 1.0,
                        TimeUnit::Millisecond => 1e3,
                        TimeUnit::Microsecond => 1e6,
                        TimeUnit::Nanosecond => 1e9,
                    },
            ),
            integer if integer.is_integer() => Steps::Ones,
            _ => Steps::Other,
        }
    }
}

impl ColumnEstimate {
    /// The same of values of this type, whose range is not known.
    fn of_type(self, data_type: &DataType) -> ColumnEstimate {
        let ColumnEstimate { bytes, steps, .. } = ColumnEstimate::unknown(self.table_rows, data_type);
        ColumnEstimate { bytes, steps, range: None, table_range: None, ..self }
    }

    /// The same within a range.
    fn within(self, range: Option<(f64, f64)>) -> ColumnEstimate {
        ColumnEstimate { range, table_range: range, ..self }
    }

    /// The same of no more than so many values.
    fn at_most(self, values: f64) -> ColumnEstimate {
        ColumnEstimate { distinct: Some(self.distinct.map_or(values, |distinct| distinct.min(values))), ..self }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::config::ConfigOptions;
    use datafusion::functions::datetime::{date_part, date_trunc};
    use datafusion::logical_expr::ScalarUDF;
    use datafusion::physical_expr::expressions::{binary, case, cast, col, lit};

    use super::*;
    use arrow::datatypes::{Field, Schema};

    type Expr = Arc<dyn PhysicalExpr>;

    fn schema() -> Schema {
        Schema::new(vec![
            Field::new("i", DataType::Int64, false),
            Field::new("day", DataType::Date32, false),
            Field::new("text", DataType::Utf8View, false),
        ])
    }

    /// A million rows of integers below 10,000, of the days of 2020 and 2021, and of a thousand texts.
    fn input() -> Estimate {
        let column = |data_type: &DataType, range, distinct| ColumnEstimate {
            range,
            table_range: range,
            distinct,
            ..ColumnEstimate::unknown(1e6, data_type)
        };
        let columns = vec![
            column(&DataType::Int64, Some((0.0, 9999.0)), None),
            column(&DataType::Date32, Some((18_262.0, 18_992.0)), None),
            column(&DataType::Utf8View, None, Some(1000.0)),
        ];
        Estimate { rows: 1e6, columns }
    }

    fn distinct(expr: &Expr) -> f64 {
        of_expr(expr, &input()).distinct_among(1e6)
    }

    fn i() -> Expr {
        col("i", &schema()).expect("a column")
    }

    fn with(op: Operator, value: i64) -> Expr {
        binary(i(), op, lit(value), &schema()).expect("an expression")
    }

    fn call(function: Arc<ScalarUDF>, unit: &str) -> Expr {
        let args = vec![lit(unit), col("day", &schema()).expect("a column")];
        let call = ScalarFunctionExpr::try_new(function, args, &schema(), Arc::new(ConfigOptions::new()));
        Arc::new(call.expect("a call"))
    }

    #[test]
    fn arithmetic_of_integers_has_a_range() {
        assert_eq!(distinct(&with(Operator::Divide, 100)), 100.0);
        assert_eq!(distinct(&with(Operator::Modulo, 7)), 7.0);
        assert_eq!(of_expr(&with(Operator::Minus, 9), &input()).range, Some((-9.0, 9990.0)));
        // As many values as before, further apart.
        assert_eq!(distinct(&with(Operator::Multiply, 1000)), 10_000.0);
        let wide = cast(with(Operator::Modulo, 7), &schema(), DataType::Int32).expect("a cast");
        assert_eq!(distinct(&wide), 7.0);
    }

    #[test]
    fn parts_of_dates_are_few() {
        assert_eq!(distinct(&call(date_part(), "month")), 12.0);
        assert_eq!(distinct(&call(date_part(), "YEAR")), 2.0);
        assert_eq!(distinct(&call(date_trunc(), "month")), 24.0);
        assert_eq!(distinct(&call(date_trunc(), "week")), 105.0);
    }

    #[test]
    fn cases_have_the_values_of_their_branches() {
        let when = with(Operator::Gt, 5);
        assert_eq!(distinct(&when), 2.0);
        let constants = case(None, vec![(when.clone(), lit("a"))], Some(lit("b"))).expect("a case");
        assert_eq!(distinct(&constants), 2.0);
        let text = col("text", &schema()).expect("a column");
        let mixed = case(None, vec![(when, text)], Some(lit("b"))).expect("a case");
        assert_eq!(distinct(&mixed), 1001.0);
    }
}
