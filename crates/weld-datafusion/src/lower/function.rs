//! Scalar functions and LIKE.
//!
//! `date_part('YEAR', d)` becomes `year(d)`; `s LIKE 'PROMO%'` becomes `starts_with(s, "PROMO")`.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::functions::datetime::date_part::DatePartFunc;
use datafusion::physical_expr::expressions::{LikeExpr, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use weld_core::ir::{Expr, build as ir};
use weld_core::op::Intrinsic;
use weld_core::ty::Type;

use super::expr::{Scope, data_type, lower, predicate};
use super::{Block, Result, Sql, Unsupported};
use crate::function::WeldFunction;
use crate::function::call::lower_function;

/// The days of which DataFusion knows the date, -262143-01-01 to 262142-12-31: parts of others are null.
const DAYS: std::ops::RangeInclusive<i32> = -96_465_292..=95_026_236;

/// A call of one of DataFusion's functions.
pub(crate) fn lower_call(block: &mut Block<'_>, scope: &Scope<'_>, call: &ScalarFunctionExpr) -> Result<Sql> {
    // By what a function is, never by its name: a user's function may have any.
    let function = call.fun().inner();
    if let Some(function) = function.downcast_ref::<WeldFunction>() {
        return lower_function(block, scope, call, function);
    }
    match call.args() {
        [part, date] if function.is::<DatePartFunc>() => {
            let part = literal_text(part.as_ref()).map(|text| text.to_ascii_uppercase());
            if data_type(scope, date.as_ref())? != DataType::Date32 {
                return Err(Unsupported::new(call.name(), "only of dates"));
            }
            let intrinsic = match part.as_deref() {
                Some("YEAR") => Intrinsic::Year,
                Some("MONTH") => Intrinsic::Month,
                Some("DAY") => Intrinsic::Day,
                _ => return Err(Unsupported::new(call.name(), "only year, month and day")),
            };
            let date = lower(block, scope, date)?;
            let date = block.share_sql("date", date);
            let (first, last) = (ir::i32(*DAYS.start()), ir::i32(*DAYS.end()));
            let known = ir::and(ir::ge(date.value.clone(), first), ir::le(date.value.clone(), last));
            let valid = date.valid.map_or(known.clone(), |valid| ir::and(valid, known));
            let valid = Some(block.share("valid", valid));
            Ok(Sql { value: ir::intrinsic(intrinsic, [date.value]), valid })
        }
        _ => Err(Unsupported::new(call.name(), "no lowering for this function")),
    }
}

/// LIKE with a constant pattern; what has no wildcard but a leading or trailing `%` needs no pattern matcher.
pub(crate) fn lower_like(block: &mut Block<'_>, scope: &Scope<'_>, like: &LikeExpr) -> Result<Sql> {
    if like.case_insensitive() {
        return Err(Unsupported::new("ILIKE", "needs case folding"));
    }
    let Some(pattern) = literal_text(like.pattern().as_ref()) else {
        return Err(Unsupported::new("LIKE", "a pattern that is not a constant"));
    };
    let text = lower(block, scope, like.expr())?;
    if text.value.ty != Type::vec(Type::U8) {
        return Err(Unsupported::new("LIKE", "only of strings"));
    }
    let matches = match_pattern(text.value, &pattern);
    let matches = if like.negated() { ir::not(matches) } else { matches };
    Ok(predicate(text.valid, matches))
}

fn match_pattern(text: Expr, pattern: &str) -> Expr {
    let plain = |part: &str| !part.contains(['%', '_', '\\']);
    let call = |intrinsic, part: &str| ir::intrinsic(intrinsic, [text.clone(), ir::bytes(part.as_bytes())]);
    if plain(pattern) {
        return ir::eq(text, ir::bytes(pattern.as_bytes()));
    }
    let open = pattern.strip_prefix('%');
    match (open, open.unwrap_or(pattern).strip_suffix('%')) {
        (Some(_), Some(middle)) if plain(middle) => call(Intrinsic::Contains, middle),
        (Some(end), None) if plain(end) => call(Intrinsic::EndsWith, end),
        (None, Some(start)) if plain(start) => call(Intrinsic::StartsWith, start),
        _ => call(Intrinsic::Like, pattern),
    }
}

fn literal_text(expr: &dyn PhysicalExpr) -> Option<String> {
    match expr.downcast_ref::<Literal>()?.value() {
        ScalarValue::Utf8(Some(text)) | ScalarValue::LargeUtf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => {
            Some(text.clone())
        }
        _ => None,
    }
}
