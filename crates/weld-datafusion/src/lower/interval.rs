//! Dates and timestamps, plus or minus an interval that is a constant. Intervals have no Weld type.
//!
//! `t + INTERVAL '1 hour'` of seconds becomes `t + 3600L`, below a check that `t` is where chrono, through which Arrow
//! goes, has every step of the sum. Months go through the year and the month of a day. Where days are not those of UTC,
//! only what is no number of days or months has a lowering.

use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Literal};
use weld_core::ir::{Expr, build as ir};
use weld_core::op::Intrinsic;
use weld_core::ty::ScalarKind;

use super::date::{DAYS, SECONDS_A_DAY, first_of, floor_div, is_utc, knows_date, units_a_second};
use super::expr::{Scope, data_type, guarded, lower};
use super::{Block, Result, Sql, Unsupported, raise};

const NANOS_A_DAY: i128 = SECONDS_A_DAY as i128 * 1_000_000_000;

/// What an interval adds, one after the other.
#[derive(Clone, Copy)]
struct Steps {
    months: i64,
    days: i64,
    nanos: i128,
}

impl Steps {
    fn of(interval: &ScalarValue) -> Option<Steps> {
        let (months, days, nanos) = match interval {
            ScalarValue::IntervalYearMonth(Some(months)) => (*months, 0, 0),
            ScalarValue::IntervalDayTime(Some(interval)) => {
                (0, interval.days, i128::from(interval.milliseconds) * 1_000_000)
            }
            ScalarValue::IntervalMonthDayNano(Some(interval)) => {
                (interval.months, interval.days, interval.nanoseconds.into())
            }
            _ => return None,
        };
        Some(Steps { months: months.into(), days: days.into(), nanos })
    }

    fn negated(self) -> Steps {
        Steps { months: -self.months, days: -self.days, nanos: -self.nanos }
    }
}

fn constant(expr: &Arc<dyn PhysicalExpr>) -> Option<(&ScalarValue, Steps)> {
    let value = expr.downcast_ref::<Literal>()?.value();
    Some((value, Steps::of(value)?))
}

/// A date or timestamp plus or minus a constant interval; `None` if the expression is something else.
pub(super) fn lower_sum(block: &mut Block<'_>, scope: &Scope<'_>, expr: &BinaryExpr) -> Result<Option<Sql>> {
    let (left, right) = (expr.left(), expr.right());
    let (time, (interval, steps), sign) = match (expr.op(), constant(left), constant(right)) {
        (Operator::Plus, _, Some(interval)) => (left, interval, '+'),
        (Operator::Plus, Some(interval), _) => (right, interval, '+'),
        (Operator::Minus, _, Some((interval, steps))) => (left, (interval, steps.negated()), '-'),
        _ => return Ok(None),
    };
    let of = data_type(scope, time.as_ref())?;
    if !matches!(of, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..)) || data_type(scope, expr)? != of {
        return Ok(None);
    }
    if sign == '-' && steps.months == -i64::from(i32::MIN) {
        return Err(Unsupported::new(expr, "months that have no negation"));
    }
    if let DataType::Timestamp(_, Some(zone)) = &of
        && !is_utc(Some(zone))
        && (steps.months != 0 || steps.days != 0 || zone.parse::<Tz>().is_err())
    {
        return Err(Unsupported::new(expr, "days or months in another time zone than UTC"));
    }
    let time = lower(block, scope, time)?;
    let time = block.share_sql("time", time);
    let value = match (&of, steps.months) {
        (DataType::Timestamp(unit, _), 0) => moved(time.value, *unit, steps),
        (DataType::Timestamp(unit, _), _) => moved_by_months(block, time.value, *unit, steps),
        _ => moved_date(block, time.value, &of, steps, &date_overflow(sign, interval)),
    };
    Ok(Some(block.share_sql("moved", guarded(time.valid, value))))
}

fn date_overflow(sign: char, interval: &ScalarValue) -> String {
    let interval = match interval {
        ScalarValue::IntervalYearMonth(Some(months)) => format!("{months} months"),
        ScalarValue::IntervalDayTime(Some(interval)) => format!("{interval:?}"),
        ScalarValue::IntervalMonthDayNano(Some(interval)) => format!("{interval:?}"),
        _ => interval.to_string(),
    };
    raise::compute(&format!("Date arithmetic overflow: {{0}} {sign} {interval}"))
}

fn out_of_range() -> String {
    raise::compute("Timestamp out of range")
}

/// `value` where all of the conditions hold, else the error.
fn checked(known: Vec<Expr>, value: Expr, message: &str, shown: Option<Expr>) -> Expr {
    match known.into_iter().reduce(ir::and) {
        None => value,
        Some(known) => {
            let zero = ir::zero(&value.ty);
            ir::if_(ir::require(known, message, shown), value, zero)
        }
    }
}

/// The least and the greatest number that is within the range with all of the steps, one after the other.
fn limits((least, greatest): (i128, i128), steps: &[i128]) -> (i128, i128) {
    let (mut from, mut to, mut sum) = (least, greatest, 0);
    for step in steps {
        sum += step;
        (from, to) = (from.max(least - sum), to.min(greatest - sum));
    }
    (from, to)
}

/// The conditions that a 64-bit integer is within; none that always holds.
fn within(value: &Expr, (least, greatest): (i128, i128)) -> Vec<Expr> {
    let number = |number: i128| i64::try_from(number).map(ir::i64);
    let never = || vec![ir::bool(false)];
    match (number(least), number(greatest)) {
        _ if least > greatest || least > i64::MAX.into() || greatest < i64::MIN.into() => never(),
        (Ok(least), Ok(greatest)) => vec![ir::ge(value.clone(), least), ir::le(value.clone(), greatest)],
        (Ok(least), Err(_)) => vec![ir::ge(value.clone(), least)],
        (Err(_), Ok(greatest)) => vec![ir::le(value.clone(), greatest)],
        (Err(_), Err(_)) => Vec::new(),
    }
}

/// The days of which the date is known, in a unit of which each has so many.
fn known_days(a_day: i128) -> (i128, i128) {
    (i128::from(*DAYS.start()) * a_day, (i128::from(*DAYS.end()) + 1) * a_day - 1)
}

/// A timestamp with days and nanoseconds added. What is less than a unit rounds down.
fn moved(time: Expr, unit: TimeUnit, steps: Steps) -> Expr {
    let a_unit = 1_000_000_000 / i128::from(units_a_second(unit));
    let a_day = NANOS_A_DAY / a_unit;
    let (days, rest) = (i128::from(steps.days) * a_day, steps.nanos.div_euclid(a_unit));
    let dates = limits(known_days(a_day), &[days, rest]);
    let sum = days + rest;
    let (least, greatest) = (i128::from(i64::MIN) - sum, i128::from(i64::MAX) - sum);
    let known = within(&time, (dates.0.max(least), dates.1.min(greatest)));
    // Additions wrap around, so the number that is added may do the same.
    checked(known, ir::add(time, ir::i64(sum as i64)), &out_of_range(), None)
}

/// A timestamp with months, days and nanoseconds added.
fn moved_by_months(block: &mut Block<'_>, time: Expr, unit: TimeUnit, steps: Steps) -> Expr {
    let per_second = units_a_second(unit);
    let (a_unit, a_day) = (1_000_000_000 / i128::from(per_second), SECONDS_A_DAY * per_second);
    let day = floor_div(block, time.clone(), a_day);
    let rest = ir::sub(time, ir::mul(day.clone(), ir::i64(a_day)));
    let after = days_after(block, day.clone(), steps.months);
    let added = steps.nanos.div_euclid(a_unit);
    let (more_days, more) = (added.div_euclid(a_day.into()), added.rem_euclid(a_day.into()) as i64);
    let all_days = steps.days + more_days as i64;
    let last = block.share("last", ir::add(after.clone(), ir::i64(all_days)));
    // Less than two days.
    let rest = ir::add(rest, ir::i64(more));
    let value = block.share("sum", ir::add(ir::mul(last.clone(), ir::i64(a_day)), rest));
    let mut known = vec![knows_date(&day)];
    known.extend(within(&after, limits(known_days(1), &[steps.days.into()])));
    if unit == TimeUnit::Nanosecond {
        // 64 bits hold fewer days than have a date. The sum wrapped around if it is on the other side of 1970 by more
        // than the rest accounts for.
        let (least, greatest) = (i64::MIN.div_euclid(a_day) - 1, i64::MAX.div_euclid(a_day));
        known.extend(within(&last, (least.into(), greatest.into())));
        let fits = (ir::ge(value.clone(), ir::i64(0)), ir::lt(value.clone(), ir::i64(2 * a_day)));
        known.push(ir::if_(ir::ge(last, ir::i64(0)), fits.0, fits.1));
    } else {
        known.extend(within(&value, known_days(a_day.into())));
    }
    checked(known, value, &out_of_range(), None)
}

/// A date with months, days and nanoseconds added, of which only whole days count. Of milliseconds, it is midnight
/// then.
fn moved_date(block: &mut Block<'_>, date: Expr, of: &DataType, steps: Steps, message: &str) -> Expr {
    let a_day = ir::i64(SECONDS_A_DAY * 1_000);
    let millis = *of == DataType::Date64;
    let wide = ir::cast(date.clone(), ScalarKind::I64);
    // Towards 1970, as chrono has it.
    let day = if millis { ir::div(wide, a_day.clone()) } else { wide };
    let day = block.share("day", day);
    let mut known = Vec::new();
    let mut after = day.clone();
    if steps.months != 0 {
        known.push(knows_date(&day));
        after = days_after(block, day, steps.months);
    }
    let (days, more) = (i128::from(steps.days), steps.nanos / NANOS_A_DAY);
    known.extend(within(&after, limits(known_days(1), &[days, more])));
    let value = ir::add(after, ir::i64((days + more) as i64));
    let value = if millis { ir::mul(value, a_day) } else { ir::cast(value, ScalarKind::I32) };
    checked(known, value, message, Some(date))
}

/// The day that is so many months after one of which the date is known: the month's last if the month is too short.
fn days_after(block: &mut Block<'_>, day: Expr, months: i64) -> Expr {
    // No two dates that are known are further apart.
    let months = months.clamp(-12_000_000, 12_000_000);
    let day32 = block.share("day32", ir::cast(day, ScalarKind::I32));
    let wide = |part| ir::cast(ir::intrinsic(part, [day32.clone()]), ScalarKind::I64);
    let month = ir::add(ir::mul(wide(Intrinsic::Year), ir::i64(12)), wide(Intrinsic::Month));
    // Counted from zero.
    let month = block.share("month", ir::add(month, ir::i64(months - 1)));
    let year = floor_div(block, month.clone(), 12);
    let month = ir::sub(month, ir::mul(year.clone(), ir::i64(12)));
    let month = block.share("month", ir::add(month, ir::i64(1)));
    let last = ir::sub(first_of(year.clone(), ir::add(month.clone(), ir::i64(1))), ir::i64(1));
    let last = block.share("last", last);
    let same = ir::add(first_of(year, month), ir::sub(wide(Intrinsic::Day), ir::i64(1)));
    let same = block.share("same", same);
    block.share("after", ir::if_(ir::lt(same.clone(), last.clone()), same, last))
}
