//! CAST and TRY_CAST: a conversion, and the condition under which it gives the value that was meant.
//!
//! `CAST(x AS SMALLINT)` becomes `if(require(i64(i16(x)) == x, "..", x), i16(x), 0si)`, `TRY_CAST` the nullable
//! `{i16(x), i64(x) == x}`.

use arrow::datatypes::{DataType, TimeUnit};
use weld_core::ir::{Expr, build as ir};
use weld_core::op::{Intrinsic, UnaryOp};
use weld_core::ty::ScalarKind;

use super::date::{days_of, is_utc, knows_date, units_a_second};
use super::expr::{guarded, predicate};
use super::types::{decimal_of, entry_type, is_binary, is_string, power_of_ten, value_type};
use super::{Block, Result, Sql, Unsupported, raise};

/// A converted value.
struct Converted {
    value: Expr,
    /// When the value is not what was meant: this condition fails, and CAST raises this error with the value to blame.
    fits: Option<(Expr, String, Expr)>,
    /// TRY_CAST raises the error, too.
    raises: bool,
}

impl Converted {
    fn always(value: Expr) -> Converted {
        Converted { value, fits: None, raises: false }
    }

    fn if_fits(value: Expr, condition: Expr, message: String, culprit: Expr) -> Converted {
        Converted { value, fits: Some((condition, message, culprit)), raises: false }
    }
}

/// The conversion of `arg`; where it has no result, an error or, if `safe`, a null.
pub(crate) fn lower_cast(block: &mut Block<'_>, arg: Sql, from: &DataType, to: &DataType, safe: bool) -> Result<Sql> {
    let (from, to) = (entry_type(from).unwrap_or(from), entry_type(to).unwrap_or(to));
    let from_binary = is_binary(from) || matches!(from, DataType::FixedSizeBinary(_));
    if from == to || (is_string(from) && is_string(to)) || (from_binary && is_binary(to)) {
        return Ok(arg);
    }
    if safe && *from == DataType::Date64 && matches!(to, DataType::Timestamp(..)) {
        // Arrow multiplies without a check here.
        return Err(Unsupported::new(format!("TRY_CAST({from} AS {to})"), "overflows as it is compiled"));
    }
    let Sql { value, valid } = arg;
    let value = block.share("from", value);
    let converted = convert(block, value, from, to)?;
    match converted.fits {
        None if *to == DataType::Boolean => Ok(predicate(valid, converted.value)),
        None => Ok(Sql { value: converted.value, valid }),
        Some((fits, ..)) if safe && !converted.raises => {
            let valid = valid.map_or(fits.clone(), |valid| ir::and(valid, fits));
            Ok(block.share_sql("tried", Sql { value: converted.value, valid: Some(valid) }))
        }
        Some((fits, message, culprit)) => {
            let zero = ir::zero(&converted.value.ty);
            let value = ir::if_(ir::require(fits, &message, [culprit]), converted.value, zero);
            Ok(block.share_sql("checked", guarded(valid, value)))
        }
    }
}

fn convert(block: &mut Block<'_>, value: Expr, from: &DataType, to: &DataType) -> Result<Converted> {
    use DataType::*;
    let unsupported = || Unsupported::new(format!("CAST({from} AS {to})"), "no lowering for this conversion");
    let source = value_type(from)?.as_scalar().ok_or_else(unsupported)?;
    let target = value_type(to)?.as_scalar().ok_or_else(unsupported)?;
    if let Some(decimal) = decimal_of(from) {
        return match to {
            Decimal128(p, s) => rescale(block, value, decimal, (*p, *s)),
            to if to.is_integer() => decimal_to_integer(block, value, decimal, (target, to)),
            Float32 | Float64 => decimal_to_float(value, decimal, target),
            _ => Err(unsupported()),
        };
    }
    match (from, to) {
        (from, Decimal128(p, s)) if from.is_integer() => integer_to_decimal(value, source, (*p, *s)),
        (Float32 | Float64, Decimal128(p, s)) => float_to_decimal(block, value, source, (*p, *s)),
        (from, to) if is_whole(from) && is_whole(to) && is_plain(from, to) => {
            let target_name = if matches!(to, Date32) { &Int32 } else { to };
            integer_to_integer(block, value, (source, target), target_name)
        }
        (from, Float32 | Float64) if is_whole(from) && is_plain(from, &Int64) => {
            Ok(Converted::always(ir::cast(value, target)))
        }
        (Float32 | Float64, Float32 | Float64) => Ok(Converted::always(ir::cast(value, target))),
        (Float32 | Float64, to) if to.is_integer() || matches!(to, Timestamp(..)) => {
            let name = if to.is_integer() { to } else { &Int64 };
            Ok(float_to_integer(block, value, (source, target), name))
        }
        (Boolean, to) if to.is_integer() || to.is_floating() => Ok(Converted::always(ir::cast(value, target))),
        (from, Boolean) if from.is_integer() || from.is_floating() => {
            Ok(Converted::always(ir::ne(value, ir::number(source, 0))))
        }
        _ => temporal(block, value, from, to)?.ok_or_else(unsupported),
    }
}

/// Dates and timestamps as dates and timestamps of another unit.
fn temporal(block: &mut Block<'_>, value: Expr, from: &DataType, to: &DataType) -> Result<Option<Converted>> {
    use DataType::*;
    const DAY: i64 = 86_400;
    let wide = ir::cast(value.clone(), ScalarKind::I64);
    let name = raise::type_name(to);
    let message =
        format!("Cannot cast {from} value {{0}} to {name}: converted value exceeds the representable i64 range");
    let multiplied = |by: i64| {
        let (least, greatest) = (i64::MIN / by, i64::MAX / by);
        let fits = ir::and(ir::ge(wide.clone(), ir::i64(least)), ir::le(wide.clone(), ir::i64(greatest)));
        Converted::if_fits(ir::mul(wide.clone(), ir::i64(by)), fits, message.clone(), value.clone())
    };
    let divided = |by: i64| Converted::always(ir::div(wide.clone(), ir::i64(by)));
    Ok(Some(match (from, to) {
        (Date32, Date64) => Converted::always(ir::mul(wide, ir::i64(DAY * 1000))),
        (Date64, Date32) => {
            let days = block.share("days", ir::div(wide.clone(), ir::i64(DAY * 1000)));
            let narrow = ir::cast(days.clone(), ScalarKind::I32);
            let fits = ir::eq(ir::cast(narrow.clone(), ScalarKind::I64), days);
            Converted::if_fits(
                narrow,
                fits,
                raise::cast("Cannot cast Date64 value {0} to Date32 without overflow"),
                wide,
            )
        }
        (Date32, Timestamp(unit, None)) => multiplied(DAY * units_a_second(*unit)),
        (Date64, Timestamp(unit, None)) => match unit {
            TimeUnit::Second => divided(1000),
            TimeUnit::Millisecond => Converted::always(wide),
            unit => multiplied(units_a_second(*unit) / 1000),
        },
        (Timestamp(unit, zone), Date32) if is_utc(zone.as_deref()) => {
            let days = days_of(block, value.clone(), *unit);
            let message = raise::cast(&format!("Cannot convert {} {{0}} to datetime", raise::arrow_type(*unit)));
            let fits = knows_date(&days);
            let converted = Converted::if_fits(ir::cast(days, ScalarKind::I32), fits, message, value);
            Converted { raises: true, ..converted }
        }
        (Timestamp(TimeUnit::Second, _), Date64) => return Ok(None),
        (Timestamp(unit, _), Date64) => match units_a_second(*unit) / 1000 {
            1 => Converted::always(wide),
            by => divided(by),
        },
        (Timestamp(a, from_zone), Timestamp(b, to_zone)) => {
            // A time without a zone is taken for the local time of the zone, if it has one.
            if from_zone.is_none() && to_zone.is_some() {
                return Ok(None);
            }
            let (a, b) = (units_a_second(*a), units_a_second(*b));
            match a.cmp(&b) {
                std::cmp::Ordering::Equal => Converted::always(wide),
                std::cmp::Ordering::Greater => divided(a / b),
                std::cmp::Ordering::Less => multiplied(b / a),
            }
        }
        _ => return Ok(None),
    }))
}

/// Whether the type's values are integers of ours without a scale.
fn is_whole(data_type: &DataType) -> bool {
    data_type.is_integer() || matches!(data_type, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..))
}

/// Whether a value of one becomes the same number of the other.
fn is_plain(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    match (from, to) {
        (from, to) if from.is_integer() && to.is_integer() => true,
        (Timestamp(..), to) => to.is_integer(),
        (from, Timestamp(..)) => from.is_integer(),
        (Int32 | Int64, Date32) | (Date32 | Date64, Int32 | Int64) | (Int64, Date64) => true,
        _ => false,
    }
}

fn integer_to_integer(
    block: &mut Block<'_>,
    value: Expr,
    (source, target): (ScalarKind, ScalarKind),
    name: &DataType,
) -> Result<Converted> {
    if holds_all_of(target, source) {
        return Ok(Converted::always(ir::cast(value, target)));
    }
    let name = if matches!(name, DataType::Timestamp(..)) { &DataType::Int64 } else { name };
    let narrow = block.share("narrow", ir::cast(value.clone(), target));
    let wide = |value: Expr| ir::cast(value, ScalarKind::I128);
    let same = ir::eq(wide(narrow.clone()), wide(value.clone()));
    Ok(Converted::if_fits(narrow, same, raise::cannot_cast(name), value))
}

/// Towards zero. The bounds are powers of two, which floats have.
fn float_to_integer(
    block: &mut Block<'_>,
    value: Expr,
    (source, target): (ScalarKind, ScalarKind),
    name: &DataType,
) -> Converted {
    let whole = block.share("whole", ir::unary(UnaryOp::Trunc, value.clone()));
    let power = |bits: u32| float(source, 2f64.powi(bits as i32));
    let (least, limit) = match target.is_signed() {
        true => (ir::neg(power(target.bits() - 1)), power(target.bits() - 1)),
        false => (float(source, 0.0), power(target.bits())),
    };
    let fits = ir::and(ir::ge(whole.clone(), least), ir::lt(whole.clone(), limit));
    Converted::if_fits(ir::cast(whole, target), fits, raise::cannot_cast(name), value)
}

fn float(kind: ScalarKind, value: f64) -> Expr {
    if kind == ScalarKind::F32 { ir::lit(weld_core::ir::Literal::F32(value as f32)) } else { ir::f64(value) }
}

fn float_to_decimal(
    block: &mut Block<'_>,
    value: Expr,
    source: ScalarKind,
    (precision, scale): (u8, i8),
) -> Result<Converted> {
    // The factor is the one that Arrow multiplies with.
    let factor = ir::f64(10f64.powi(i32::from(scale)));
    let scaled = ir::unary(UnaryOp::Round, ir::mul(factor, ir::cast(value.clone(), ScalarKind::F64)));
    let scaled = block.share("scaled", scaled);
    // Saturates beyond 128 bits, which no precision allows.
    let decimal = block.share("decimal", ir::cast(scaled.clone(), ScalarKind::I128));
    let limit = power_of_ten(u32::from(precision))?;
    let within = ir::and(ir::lt(decimal.clone(), ir::i128(limit)), ir::gt(decimal.clone(), ir::i128(-limit)));
    let fits = ir::and(ir::eq(scaled.clone(), scaled), within);
    Ok(Converted::if_fits(decimal, fits, raise::cannot_store(source, precision, scale), value))
}

fn integer_to_decimal(value: Expr, source: ScalarKind, (precision, scale): (u8, i8)) -> Result<Converted> {
    let gain = u32::try_from(scale).map_err(|_| Unsupported::new("decimal scale", "a negative power of ten"))?;
    let value = ir::cast(value, ScalarKind::I128);
    scaled(value, gain, precision, greatest(source), raise::cannot_widen(precision, scale))
}

fn decimal_to_integer(
    block: &mut Block<'_>,
    value: Expr,
    (_, scale): (u8, i8),
    (target, name): (ScalarKind, &DataType),
) -> Result<Converted> {
    let power = u32::try_from(scale).map_err(|_| Unsupported::new("decimal scale", "a negative power of ten"))?;
    let value = ir::cast(value, ScalarKind::I128);
    let whole = if power == 0 { value } else { ir::div(value, ir::i128(power_of_ten(power)?)) };
    let whole = block.share("whole", whole);
    let narrow = block.share("narrow", ir::cast(whole.clone(), target));
    let same = ir::eq(ir::cast(narrow.clone(), ScalarKind::I128), whole.clone());
    let message = raise::cast(&format!("value of {{0}} is out of range {name}"));
    Ok(Converted::if_fits(narrow, same, message, whole))
}

fn decimal_to_float(value: Expr, (_, scale): (u8, i8), target: ScalarKind) -> Result<Converted> {
    // The divisor is the one that Arrow divides by.
    let quotient = ir::div(ir::cast(value, ScalarKind::F64), ir::f64(10f64.powi(i32::from(scale))));
    Ok(Converted::always(if target == ScalarKind::F64 { quotient } else { ir::cast(quotient, target) }))
}

/// `value * 10^gain`, which has `precision` digits at most, for an i128 of a magnitude up to `greatest`.
fn scaled(value: Expr, gain: u32, precision: u8, greatest: i128, message: String) -> Result<Converted> {
    let power = power_of_ten(gain)?;
    // `|x| * 10^gain < 10^precision` without the product, which may not fit 128 bits.
    let limit = power_of_ten(u32::from(precision).saturating_sub(gain))?;
    let product = if gain == 0 { value.clone() } else { ir::mul(value.clone(), ir::i128(power)) };
    if greatest < limit {
        return Ok(Converted::always(product));
    }
    let fits = ir::and(ir::lt(value.clone(), ir::i128(limit)), ir::gt(value.clone(), ir::i128(-limit)));
    Ok(Converted::if_fits(product, fits, message, value))
}

fn rescale(block: &mut Block<'_>, value: Expr, (p1, s1): (u8, i8), (p2, s2): (u8, i8)) -> Result<Converted> {
    let value = block.share("unscaled", ir::cast(value, ScalarKind::I128));
    if s2 >= s1 {
        let gain = (i16::from(s2) - i16::from(s1)) as u32;
        if i64::from(p1) + i64::from(gain) <= i64::from(p2) {
            // Arrow multiplies without a check here.
            let value = if gain == 0 { value } else { ir::mul(value, ir::i128(power_of_ten(gain)?)) };
            return Ok(Converted::always(value));
        }
        return scaled(value, gain, p2, i128::MAX, raise::cannot_rescale(gain, p2, s2));
    }
    let loss = i16::from(s1) - i16::from(s2);
    let power = ir::i128(power_of_ten(loss as u32)?);
    let rounded = block.share("rounded", ir::intrinsic(Intrinsic::RoundDiv, [value, power]));
    // Rounding can carry into one more digit.
    if i16::from(p1) - loss < i16::from(p2) {
        return Ok(Converted::always(rounded));
    }
    scaled(rounded, 0, p2, i128::MAX, raise::cannot_rescale(0, p2, s2))
}

/// Whether every value of `source` is one of `target`.
fn holds_all_of(target: ScalarKind, source: ScalarKind) -> bool {
    match (target.is_signed(), source.is_signed()) {
        (true, true) | (false, false) => target.bits() >= source.bits(),
        (true, false) => target.bits() > source.bits(),
        (false, true) => false,
    }
}

/// The greatest magnitude of an integer type.
fn greatest(kind: ScalarKind) -> i128 {
    match (kind.bits(), kind.is_signed()) {
        (128.., _) => i128::MAX,
        (bits, true) => 1i128 << (bits - 1),
        (bits, false) => (1i128 << bits) - 1,
    }
}
