//! Dates and times: their parts and the beginning of a period.
//!
//! A date is a number of days, a timestamp a number of units since 1970. `date_part('HOUR', t)` of seconds becomes
//! `i32((t - day(t) * 86400L) / 3600L)`. Times of other zones than UTC stay with DataFusion.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::functions::datetime::from_unixtime::FromUnixtimeFunc;
use datafusion::functions::datetime::to_timestamp::{
    ToTimestampFunc, ToTimestampMicrosFunc, ToTimestampMillisFunc, ToTimestampNanosFunc, ToTimestampSecondsFunc,
};
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use weld_core::ir::{Expr, build as ir};
use weld_core::op::Intrinsic;
use weld_core::ty::ScalarKind;

use super::cast::lower_cast;
use super::expr::{Scope, data_type, lower};
use super::text::literal_text;
use super::{Block, Result, Sql, Unsupported};

/// The days of which DataFusion knows the date, -262143-01-01 to 262142-12-31: parts of others are null.
pub(super) const DAYS: std::ops::RangeInclusive<i64> = -96_465_292..=95_026_236;

pub(super) const SECONDS_A_DAY: i64 = 86_400;

pub(crate) fn units_a_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Whether times of this zone are as if they had none.
pub(crate) fn is_utc(zone: Option<&str>) -> bool {
    matches!(zone, None | Some("UTC" | "+00:00"))
}

/// Whether days are among those of which DataFusion knows the date.
pub(crate) fn knows_date(days: &Expr) -> Expr {
    ir::and(ir::ge(days.clone(), ir::i64(*DAYS.start())), ir::le(days.clone(), ir::i64(*DAYS.end())))
}

/// The quotient of 64-bit integers rounded down, for a divisor above zero.
pub(super) fn floor_div(block: &mut Block<'_>, value: Expr, by: i64) -> Expr {
    if by == 1 {
        return value;
    }
    let value = block.share("n", value);
    let below = ir::lt(ir::rem(value.clone(), ir::i64(by)), ir::i64(0));
    let quotient = ir::sub(ir::div(value, ir::i64(by)), ir::cast(below, ScalarKind::I64));
    block.share("floor", quotient)
}

/// The day of a timestamp.
pub(crate) fn days_of(block: &mut Block<'_>, value: Expr, unit: TimeUnit) -> Expr {
    floor_div(block, value, SECONDS_A_DAY * units_a_second(unit))
}

/// The distance from the last multiple.
fn floor_rem(block: &mut Block<'_>, value: Expr, by: i64) -> Expr {
    let value = block.share("n", value);
    let floor = floor_div(block, value.clone(), by);
    ir::sub(value, ir::mul(floor, ir::i64(by)))
}

/// A date or timestamp as a day and the units since it began.
struct Moment {
    days: Expr,
    rest: Option<(Expr, i64)>,
}

fn moment(block: &mut Block<'_>, value: Expr, of: &DataType, what: &str) -> Result<Moment> {
    let per_second = match of {
        DataType::Date32 => return Ok(Moment { days: ir::cast(value, ScalarKind::I64), rest: None }),
        DataType::Date64 => 1_000,
        DataType::Timestamp(unit, zone) if is_utc(zone.as_deref()) => units_a_second(*unit),
        DataType::Timestamp(..) => return Err(Unsupported::new(what, "of another time zone than UTC")),
        _ => return Err(Unsupported::new(what, "only of dates and timestamps")),
    };
    let days = floor_div(block, value.clone(), SECONDS_A_DAY * per_second);
    let rest = ir::sub(value, ir::mul(days.clone(), ir::i64(SECONDS_A_DAY * per_second)));
    Ok(Moment { days, rest: Some((block.share("rest", rest), per_second)) })
}

/// `date_part` and `extract`.
pub(crate) fn lower_part(block: &mut Block<'_>, scope: &Scope<'_>, call: &ScalarFunctionExpr) -> Result<Sql> {
    let [part, date] = call.args() else { return Err(Unsupported::new(call.name(), "not two arguments")) };
    let Some(part) = literal_text(part.as_ref()) else {
        return Err(Unsupported::new(call.name(), "a part that is not a constant"));
    };
    let of = data_type(scope, date.as_ref())?;
    let date = lower(block, scope, date)?;
    let date = block.share_sql("date", date);
    if part.eq_ignore_ascii_case("epoch") {
        return epoch(date, &of, call.name());
    }
    let at = moment(block, date.value, &of, call.name())?;
    let days = block.share("days", at.days);
    let day32 = ir::cast(days.clone(), ScalarKind::I32);
    let civil = |part| ir::intrinsic(part, [day32.clone()]);
    let weekday = |block: &mut Block<'_>, monday: i64| floor_rem(block, ir::add(days.clone(), ir::i64(monday)), 7);
    // Units are those of the day until here.
    let time = |unit: i64, of: i64| match &at.rest {
        None => ir::i64(0),
        Some((rest, per_second)) => ir::rem(ir::div(rest.clone(), ir::i64(unit * per_second)), ir::i64(of)),
    };
    let value = match part.to_ascii_lowercase().as_str() {
        "year" => civil(Intrinsic::Year),
        "month" => civil(Intrinsic::Month),
        "day" => civil(Intrinsic::Day),
        "quarter" | "qtr" => {
            let month = civil(Intrinsic::Month);
            ir::add(ir::div(ir::sub(month, ir::i32(1)), ir::i32(3)), ir::i32(1))
        }
        "dow" => ir::cast(weekday(block, 4), ScalarKind::I32),
        "isodow" => ir::add(ir::cast(weekday(block, 3), ScalarKind::I32), ir::i32(1)),
        "doy" => {
            let first = first_of(ir::cast(civil(Intrinsic::Year), ScalarKind::I64), ir::i64(1));
            ir::cast(ir::add(ir::sub(days.clone(), first), ir::i64(1)), ScalarKind::I32)
        }
        week @ ("week" | "isoyear") => {
            // A week is of the year in which its Thursday is.
            let weekday = weekday(block, 3);
            let thursday = block.share("thursday", ir::add(ir::sub(days.clone(), weekday), ir::i64(3)));
            let year = ir::intrinsic(Intrinsic::Year, [ir::cast(thursday.clone(), ScalarKind::I32)]);
            if week == "week" {
                let first = first_of(ir::cast(year, ScalarKind::I64), ir::i64(1));
                ir::cast(ir::add(ir::div(ir::sub(thursday, first), ir::i64(7)), ir::i64(1)), ScalarKind::I32)
            } else {
                year
            }
        }
        "hour" => ir::cast(time(3600, 24), ScalarKind::I32),
        "minute" => ir::cast(time(60, 60), ScalarKind::I32),
        "second" => ir::cast(time(1, 60), ScalarKind::I32),
        _ => return Err(Unsupported::new(call.name(), format!("the part {part}"))),
    };
    if at.rest.is_none() && matches!(part.to_ascii_lowercase().as_str(), "hour" | "minute" | "second") {
        // Days of which the date is not known begin at midnight, too.
        return Ok(Sql { value, valid: date.valid });
    }
    let known = knows_date(&days);
    let valid = date.valid.map_or(known.clone(), |valid| ir::and(valid, known));
    let valid = Some(block.share("valid", valid));
    Ok(Sql { value, valid })
}

/// `date_bin` of a timestamp by a constant number of nanoseconds, from 1970 on. In any zone bins are those of UTC.
pub(crate) fn lower_bin(block: &mut Block<'_>, scope: &Scope<'_>, call: &ScalarFunctionExpr) -> Result<Sql> {
    let unsupported = |why: &str| Unsupported::new(call.name(), why);
    let [stride, time] = call.args() else { return Err(unsupported("from another time than 1970")) };
    let DataType::Timestamp(unit, _) = data_type(scope, time.as_ref())? else {
        return Err(unsupported("only of timestamps"));
    };
    let interval = match stride.downcast_ref::<Literal>().map(Literal::value) {
        Some(ScalarValue::IntervalMonthDayNano(Some(interval))) if interval.months == 0 => *interval,
        _ => return Err(unsupported("a period that is not a constant, or of months")),
    };
    let nanos = i64::from(interval.days).checked_mul(SECONDS_A_DAY * 1_000_000_000);
    let nanos = nanos.and_then(|days| days.checked_add(interval.nanoseconds)).filter(|nanos| *nanos > 0);
    let a_unit = 1_000_000_000 / units_a_second(unit);
    let size = match nanos {
        Some(nanos) if nanos % a_unit == 0 => nanos / a_unit,
        _ => return Err(unsupported("a period that is no number of units")),
    };
    let time = lower(block, scope, time)?;
    let time = block.share_sql("time", time);
    let rest = floor_rem(block, time.value.clone(), size);
    let rest = block.share("rest", rest);
    // DataFusion goes through nanoseconds; where these do not hold the time or its bin, the result is null.
    let (least, greatest) = (ir::i64(i64::MIN / a_unit), ir::i64(i64::MAX / a_unit));
    let begins = ir::le(rest.clone(), ir::sub(time.value.clone(), least.clone()));
    let begins = ir::or(ir::ge(time.value.clone(), ir::i64(0)), begins);
    let within = ir::and(ir::ge(time.value.clone(), least), ir::le(time.value.clone(), greatest));
    let known = ir::and(within, begins);
    let valid = block.share("valid", time.valid.map_or(known.clone(), |valid| ir::and(valid, known)));
    Ok(Sql { value: ir::sub(time.value, rest), valid: Some(valid) })
}

/// `to_timestamp_seconds` and the like, and `from_unixtime`, of one number or time: casts by other names.
pub(crate) fn lower_to_timestamp(
    block: &mut Block<'_>,
    scope: &Scope<'_>,
    call: &ScalarFunctionExpr,
) -> Result<Option<Sql>> {
    use DataType::{Int64, Timestamp};
    let function = call.fun().inner();
    let of_seconds = function.is::<ToTimestampFunc>();
    let is_one = of_seconds
        || function.is::<FromUnixtimeFunc>()
        || function.is::<ToTimestampSecondsFunc>()
        || function.is::<ToTimestampMillisFunc>()
        || function.is::<ToTimestampMicrosFunc>()
        || function.is::<ToTimestampNanosFunc>();
    if !is_one {
        return Ok(None);
    }
    let [arg] = call.args() else { return Err(Unsupported::new(call.name(), "of texts in a format")) };
    let (from, to) = (data_type(scope, arg.as_ref())?, data_type(scope, call)?);
    let seconds = Timestamp(TimeUnit::Second, None);
    let steps = match &from {
        from if from.is_integer() && of_seconds => vec![seconds, to],
        from if from.is_integer() || matches!(from, Timestamp(..)) => vec![to],
        from if from.is_floating() && !of_seconds => vec![Int64, to],
        _ => return Err(Unsupported::new(call.name(), format!("of the type {from}"))),
    };
    let mut value = lower(block, scope, arg)?;
    let mut from = from;
    for to in steps {
        value = lower_cast(block, value, &from, &to, false)?;
        from = to;
    }
    Ok(Some(value))
}

/// The seconds since 1970, as a float.
fn epoch(date: Sql, of: &DataType, what: &str) -> Result<Sql> {
    let units = ir::cast(date.value, ScalarKind::F64);
    let value = match of {
        DataType::Date32 => ir::mul(units, ir::f64(SECONDS_A_DAY as f64)),
        DataType::Date64 => ir::div(units, ir::f64(1_000.0)),
        DataType::Timestamp(TimeUnit::Second, _) => units,
        DataType::Timestamp(unit, _) => ir::div(units, ir::f64(units_a_second(*unit) as f64)),
        _ => return Err(Unsupported::new(what, "only of dates and timestamps")),
    };
    Ok(Sql { value, valid: date.valid })
}

/// The day on which a month begins, both as 64-bit integers (Hinnant's `days_from_civil`, for years above -400 *
/// 15000).
pub(super) fn first_of(year: Expr, month: Expr) -> Expr {
    const CYCLES: i64 = 15_000;
    let n = |value: i64| ir::i64(value);
    let early = ir::cast(ir::le(month.clone(), n(2)), ScalarKind::I64);
    let year = ir::add(ir::sub(year, early.clone()), n(CYCLES * 400));
    let from_march = ir::add(ir::sub(month, n(3)), ir::mul(early, n(12)));
    let before = ir::div(ir::add(ir::mul(from_march, n(153)), n(2)), n(5));
    let leap = ir::sub(ir::div(year.clone(), n(4)), ir::div(year.clone(), n(100)));
    let leap = ir::add(leap, ir::div(year.clone(), n(400)));
    let days = ir::add(ir::add(ir::mul(year, n(365)), leap), before);
    ir::sub(days, n(719_468 + CYCLES * 146_097))
}

/// `date_trunc` of a timestamp.
pub(crate) fn lower_trunc(block: &mut Block<'_>, scope: &Scope<'_>, call: &ScalarFunctionExpr) -> Result<Sql> {
    let unsupported = |why: &str| Unsupported::new(call.name(), why);
    let [period, time] = call.args() else { return Err(unsupported("not two arguments")) };
    let period = literal_text(period.as_ref()).ok_or_else(|| unsupported("a period that is not a constant"))?;
    let period = period.to_ascii_lowercase();
    let DataType::Timestamp(unit, zone) = data_type(scope, time.as_ref())? else {
        return Err(unsupported("only of timestamps"));
    };
    // Periods up to a minute are the same in every zone.
    let is_fine = matches!(period.as_str(), "microsecond" | "millisecond" | "second" | "minute");
    if !is_fine && !is_utc(zone.as_deref()) {
        return Err(unsupported("of another time zone than UTC"));
    }
    let per_second = units_a_second(unit);
    let time = lower(block, scope, time)?;
    let time = block.share_sql("time", time);
    let size = match period.as_str() {
        "microsecond" => Some(per_second / 1_000_000),
        "millisecond" => Some(per_second / 1_000),
        "second" => Some(per_second),
        "minute" => Some(per_second * 60),
        "hour" => Some(per_second * 3600),
        "day" => Some(per_second * SECONDS_A_DAY),
        "week" | "month" | "quarter" | "year" => None,
        _ => return Err(unsupported("of this period")),
    };
    if let Some(size) = size.filter(|_| is_fine || zone.is_none()) {
        if size <= 1 {
            return Ok(time);
        }
        let rest = floor_rem(block, time.value.clone(), size);
        return Ok(Sql { value: ir::sub(time.value, rest), valid: time.valid });
    }
    let days = days_of(block, time.value.clone(), unit);
    let day32 = ir::cast(days.clone(), ScalarKind::I32);
    let wide = |part| ir::cast(ir::intrinsic(part, [day32.clone()]), ScalarKind::I64);
    let length = if period == "hour" { 3600 } else { SECONDS_A_DAY };
    // In lengths since 1970.
    let first = match period.as_str() {
        "hour" => floor_div(block, time.value.clone(), 3600 * per_second),
        "day" => days,
        "week" => {
            let weekday = floor_rem(block, ir::add(days.clone(), ir::i64(3)), 7);
            ir::sub(days, weekday)
        }
        "month" => ir::sub(ir::add(days, ir::i64(1)), wide(Intrinsic::Day)),
        "quarter" => {
            let quarter = ir::div(ir::sub(wide(Intrinsic::Month), ir::i64(1)), ir::i64(3));
            first_of(wide(Intrinsic::Year), ir::add(ir::mul(quarter, ir::i64(3)), ir::i64(1)))
        }
        _ => first_of(wide(Intrinsic::Year), ir::i64(1)),
    };
    let first = block.share("first", first);
    // DataFusion goes through nanoseconds, whichever unit the result has.
    let scale = 1_000_000_000 / per_second;
    let within = |value: &Expr, by: i64| {
        let (least, greatest) = (ir::i64(i64::MIN / by), ir::i64(i64::MAX / by));
        ir::and(ir::ge(value.clone(), least), ir::le(value.clone(), greatest))
    };
    let began = format!("Timestamp {{0}} out of range after truncating to {period}");
    let nanos = ir::mul(time.value.clone(), ir::i64(scale));
    let begins = ir::require(within(&first, length * 1_000_000_000), &began, [nanos]);
    let known = ir::require(within(&time.value, scale), "Timestamp {0} out of range", [time.value]);
    let value = ir::mul(first, ir::i64(length * per_second));
    let value = ir::if_(known, ir::if_(begins, value, ir::i64(0)), ir::i64(0));
    Ok(block.share_sql("trunc", super::expr::guarded(time.valid, value)))
}
