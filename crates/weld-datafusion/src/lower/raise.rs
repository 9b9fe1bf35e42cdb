//! Errors that compiled code raises, in the words and the class of Arrow's kernels.
//!
//! ```text
//! require(fits, "Cast error: Can't cast value {0} to type Int8", n)   the program's text, with the value that failed
//! ArrowError::CastError("Can't cast value 300 to type Int8")          the query's error
//! ```
//!
//! Each message is made here, and read here when it comes back.

use std::any::type_name as type_name_of;

use arrow::array::ArrowNativeTypeOp;
use arrow::datatypes::{
    DataType, Decimal128Type, DecimalType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow::error::ArrowError;
use datafusion::common::DataFusionError;
use weld_core::ty::ScalarKind;
use weld_core::{RuntimeError, RuntimeErrorKind};

const CAST: &str = "Cast error: ";
const RESCALE: &str = "Cast error: the decimal ";
const INTEGER: &str = "Cast error: the integer ";
const COMPUTE: &str = "Compute error: ";
const FLOAT: &str = "Cast error: the float ";

/// An integer that another integer type does not hold.
pub(crate) fn cannot_cast(to: &DataType) -> String {
    format!("{CAST}Can't cast value {{0}} to type {to}")
}

/// Any other failed cast.
pub(crate) fn cast(message: &str) -> String {
    format!("{CAST}{message}")
}

/// What a function cannot compute.
pub(crate) fn compute(message: &str) -> String {
    format!("{COMPUTE}{message}")
}

/// A float that has too many digits as a decimal.
pub(crate) fn cannot_store(float: ScalarKind, precision: u8, scale: i8) -> String {
    format!("{FLOAT}{}: {{0}} exceeds ({precision}, {scale})", float.name())
}

/// A timestamp type as DataFusion's messages call it.
pub(crate) fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Timestamp(TimeUnit::Second, _) => "Timestamp(s)".to_owned(),
        DataType::Timestamp(TimeUnit::Millisecond, _) => "Timestamp(ms)".to_owned(),
        DataType::Timestamp(TimeUnit::Microsecond, _) => "Timestamp(us)".to_owned(),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => "Timestamp(ns)".to_owned(),
        other => other.to_string(),
    }
}

/// A timestamp type as Arrow's messages call it.
pub(crate) fn arrow_type(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => type_name_of::<TimestampSecondType>(),
        TimeUnit::Millisecond => type_name_of::<TimestampMillisecondType>(),
        TimeUnit::Microsecond => type_name_of::<TimestampMicrosecondType>(),
        TimeUnit::Nanosecond => type_name_of::<TimestampNanosecondType>(),
    }
}

/// A decimal that has too many digits once it is multiplied by a power of ten.
pub(crate) fn cannot_rescale(gain: u32, precision: u8, scale: i8) -> String {
    format!("{RESCALE}{{0}} * 10^{gain} exceeds ({precision}, {scale})")
}

/// An integer that has too many digits as a decimal.
pub(crate) fn cannot_widen(precision: u8, scale: i8) -> String {
    format!("{INTEGER}{{0}} * 10^{scale} exceeds ({precision}, {scale})")
}

/// The query's error for a runtime error of its code: the one that DataFusion's own operators raise.
pub(crate) fn query_error(error: RuntimeError) -> DataFusionError {
    match error.kind {
        RuntimeErrorKind::DivisionByZero => ArrowError::DivideByZero.into(),
        RuntimeErrorKind::Overflow => ArrowError::ArithmeticOverflow(error.message).into(),
        RuntimeErrorKind::OutOfMemory => DataFusionError::ResourcesExhausted(error.message),
        RuntimeErrorKind::Internal => DataFusionError::Internal(error.message),
        RuntimeErrorKind::AssertionFailed | RuntimeErrorKind::Raised => match of_arrow(&error.message) {
            Some(error) => error.into(),
            None => DataFusionError::Execution(error.message),
        },
        _ => DataFusionError::Execution(error.message),
    }
}

/// The kernel's error for a message of this file.
fn of_arrow(message: &str) -> Option<ArrowError> {
    if let Some(numbers) = message.strip_prefix(RESCALE) {
        let [value, _, gain, precision, scale] = numbers_of(numbers)?;
        let overflow = || {
            ArrowError::CastError(format!("Cannot cast to Decimal128({precision}, {scale}). Overflowing on {value}"))
        };
        let power = 10i128.checked_pow(u32::try_from(gain).ok()?)?;
        return Some(value.checked_mul(power).map_or_else(overflow, |scaled| too_long(scaled, precision, scale)));
    }
    if let Some(numbers) = message.strip_prefix(INTEGER) {
        let [value, _, power, precision, scale] = numbers_of(numbers)?;
        let power = 10i128.checked_pow(u32::try_from(power).ok()?)?;
        return Some(value.mul_checked(power).map_or_else(|error| error, |scaled| too_long(scaled, precision, scale)));
    }
    if let Some(message) = message.strip_prefix(COMPUTE) {
        return Some(ArrowError::ComputeError(message.to_owned()));
    }
    if let Some(numbers) = message.strip_prefix(FLOAT) {
        return of_float(numbers);
    }
    message.strip_prefix(CAST).map(|text| ArrowError::CastError(text.to_owned()))
}

/// The error for `<type>: <value> exceeds (<precision>, <scale>)`.
fn of_float(text: &str) -> Option<ArrowError> {
    let (kind, text) = text.split_once(": ")?;
    let (shown, rest) = text.split_once(" exceeds (")?;
    let (precision, scale) = rest.strip_suffix(')')?.split_once(", ")?;
    let (precision, scale): (u8, i8) = (precision.parse().ok()?, scale.parse().ok()?);
    let value = if kind == "f32" { f64::from(shown.parse::<f32>().ok()?) } else { shown.parse().ok()? };
    let scaled = (10f64.powi(scale.into()) * value).round();
    // Beyond 128 bits there is no decimal to complain of.
    if scaled.is_nan() || scaled.abs() >= 2f64.powi(127) {
        let message = format!("Cannot cast to Decimal128({precision}, {scale}). Overflowing on {shown}");
        return Some(ArrowError::CastError(message));
    }
    Some(too_long(scaled as i128, precision.into(), scale.into()))
}

fn too_long(value: i128, precision: i128, scale: i128) -> ArrowError {
    let checked = Decimal128Type::validate_decimal_precision(value, precision as u8, scale as i8);
    let fits = || ArrowError::CastError(format!("{value} exceeds Decimal128({precision}, {scale})"));
    checked.err().unwrap_or_else(fits)
}

/// The five numbers of `<value> * 10^<power> exceeds (<precision>, <scale>)`, the base of the power among them.
fn numbers_of(text: &str) -> Option<[i128; 5]> {
    let parts = text.split(|c: char| !c.is_ascii_digit() && c != '-').filter(|part| !part.is_empty());
    parts.map(|part| part.parse().ok()).collect::<Option<Vec<i128>>>()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weld_core::diag::Span;

    fn raised(message: String, value: i128) -> String {
        let message = message.replacen("{0}", &value.to_string(), 1);
        query_error(RuntimeError::new(RuntimeErrorKind::Raised, Span::NONE, message)).to_string()
    }

    #[test]
    fn messages_are_arrows() {
        for (message, value, expected) in [
            (cannot_cast(&DataType::Int8), 300, "Arrow error: Cast error: Can't cast value 300 to type Int8"),
            (
                cannot_rescale(1, 4, 2),
                -1234,
                "Arrow error: Invalid argument error: -123.40 is too small to store in a Decimal128 of precision 4. Min is -99.99",
            ),
            (
                cannot_rescale(5, 38, 5),
                i128::MAX,
                "Arrow error: Cast error: Cannot cast to Decimal128(38, 5). Overflowing on 170141183460469231731687303715884105727",
            ),
            (
                cannot_widen(3, 2),
                12,
                "Arrow error: Invalid argument error: 12.00 is too large to store in a Decimal128 of precision 3. Max is 9.99",
            ),
        ] {
            assert_eq!(raised(message, value), expected);
        }
    }
}
