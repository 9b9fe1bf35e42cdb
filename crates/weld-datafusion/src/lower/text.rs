//! Functions of text: searching, lengths, parts. Parts are views of the text that they are part of.
//!
//! `substr(s, 2, 3)` becomes `slice(s, char_offset(s, 1L), char_offset(s, 4L) - char_offset(s, 1L))`.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::functions::{string, unicode};
use datafusion::logical_expr::ScalarUDF;
use datafusion::physical_expr::expressions::{LikeExpr, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use weld_core::ir::{Expr, build as ir};
use weld_core::op::Intrinsic;
use weld_core::ty::Type;

use super::expr::{Scope, both_valid, data_type, guarded, lower, predicate};
use super::types::{is_string, value_type};
use super::{Block, Result, Sql, Unsupported};

/// A call of one of DataFusion's functions of text, or `None` if it is another.
pub(crate) fn lower_text(block: &mut Block<'_>, scope: &Scope<'_>, call: &ScalarFunctionExpr) -> Result<Option<Sql>> {
    let function = call.fun();
    let Some(first) = call.args().first() else { return Ok(None) };
    if !is_string(&data_type(scope, first.as_ref())?) {
        return Ok(None);
    }
    let is = |known: fn() -> Arc<ScalarUDF>| *function == *known();
    let search = if is(string::starts_with) {
        Some(Intrinsic::StartsWith)
    } else if is(string::ends_with) {
        Some(Intrinsic::EndsWith)
    } else if is(string::contains) {
        Some(Intrinsic::Contains)
    } else {
        None
    };
    if let Some(search) = search {
        return lower_search(block, scope, call, search).map(Some);
    }
    if is(string::octet_length) {
        return lower_length(block, scope, call, ir::len).map(Some);
    }
    if is(unicode::character_length) {
        let length = |text: Expr| ir::intrinsic(Intrinsic::CharLength, [text]);
        return lower_length(block, scope, call, length).map(Some);
    }
    let part = match call.args() {
        [_, start] if is(unicode::substr) => literal_integer(start).map(|start| (start, i64::MAX)),
        [_, start, count] if is(unicode::substr) => literal_integer(start).zip(literal_integer(count)),
        [_, count] if is(unicode::left) => literal_integer(count).map(|count| (1, count)),
        _ => return Ok(None),
    };
    match part {
        Some((start, count)) if count >= 0 && start > i64::MIN => {
            lower_part(block, scope, call, start, count).map(Some)
        }
        _ => Err(Unsupported::new(call.name(), "places that are not constants, or counted from the end")),
    }
}

fn text_of(block: &mut Block<'_>, scope: &Scope<'_>, expr: &Arc<dyn PhysicalExpr>) -> Result<Sql> {
    let text = lower(block, scope, expr)?;
    if text.value.ty != Type::vec(Type::U8) {
        return Err(Unsupported::new(expr, "is no text"));
    }
    Ok(block.share_sql("text", text))
}

fn lower_search(block: &mut Block<'_>, scope: &Scope<'_>, call: &ScalarFunctionExpr, search: Intrinsic) -> Result<Sql> {
    let [text, part] = call.args() else { return Err(Unsupported::new(call.name(), "not two arguments")) };
    let (text, part) = (text_of(block, scope, text)?, text_of(block, scope, part)?);
    let valid = both_valid(&text, &part).map(|valid| block.share("valid", valid));
    Ok(predicate(valid, ir::intrinsic(search, [text.value, part.value])))
}

fn lower_length(
    block: &mut Block<'_>,
    scope: &Scope<'_>,
    call: &ScalarFunctionExpr,
    length: impl Fn(Expr) -> Expr,
) -> Result<Sql> {
    let [text] = call.args() else { return Err(Unsupported::new(call.name(), "not one argument")) };
    let kind = value_type(&data_type(scope, call)?)?.as_scalar();
    let kind = kind.ok_or_else(|| Unsupported::new(call.name(), "gives no number"))?;
    let text = text_of(block, scope, text)?;
    let length = ir::cast(length(text.value), kind);
    Ok(block.share_sql("length", guarded(text.valid, length)))
}

/// The characters from number `start`, counted from 1, on: `count` of them, those before the first included.
fn lower_part(
    block: &mut Block<'_>,
    scope: &Scope<'_>,
    call: &ScalarFunctionExpr,
    start: i64,
    count: i64,
) -> Result<Sql> {
    let text = text_of(block, scope, &call.args()[0])?;
    let first = start.max(1) - 1;
    let last = (start - 1).saturating_add(count).max(first);
    let part = block.nested(|inner| {
        let offset = |n: i64| match n {
            0 => ir::i64(0),
            i64::MAX => ir::len(text.value.clone()),
            n => ir::intrinsic(Intrinsic::CharOffset, [text.value.clone(), ir::i64(n)]),
        };
        let from = inner.share("from", offset(first));
        Ok(ir::slice(text.value.clone(), from.clone(), ir::sub(offset(last), from)))
    })?;
    Ok(block.share_sql("part", guarded(text.valid, part)))
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

pub(crate) fn literal_text(expr: &dyn PhysicalExpr) -> Option<String> {
    match expr.downcast_ref::<Literal>()?.value() {
        ScalarValue::Utf8(Some(text)) | ScalarValue::LargeUtf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => {
            Some(text.clone())
        }
        _ => None,
    }
}

fn literal_integer(expr: &Arc<dyn PhysicalExpr>) -> Option<i64> {
    match expr.downcast_ref::<Literal>()?.value() {
        ScalarValue::Int64(number) => *number,
        _ => None,
    }
}
