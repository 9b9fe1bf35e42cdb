//! Functions of text: searching, lengths, parts. Parts are views of the text that they are part of.
//!
//! `substr(s, 2, 3)` becomes `slice(s, char_offset(s, 1L), char_offset(s, 4L) - char_offset(s, 1L))`.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::functions::{string, unicode};
use datafusion::logical_expr::{Operator, ScalarUDF};
use datafusion::physical_expr::expressions::{BinaryExpr, Column, LikeExpr, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use weld_core::ir::{Expr, build as ir};
use weld_core::op::Intrinsic;
use weld_core::ty::Type;

use super::expr::{Scope, both_valid, data_type, guarded, lower, predicate};
use super::logic::invert;
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
    if let Some(search) = Search::of_call(call) {
        return search.lower(block, scope).map(Some);
    }
    if is(string::octet_length) {
        return lower_length(block, scope, call, ir::len).map(Some);
    }
    if is(unicode::character_length) {
        let length = |text: Expr| ir::intrinsic(Intrinsic::CharLength, [text]);
        return lower_length(block, scope, call, length).map(Some);
    }
    if is(unicode::strpos) {
        return lower_position(block, scope, call).map(Some);
    }
    if is(string::split_part) {
        return lower_field(block, scope, call).map(Some);
    }
    for (trim, ends) in
        [(string::btrim as fn() -> _, (true, true)), (string::ltrim, (true, false)), (string::rtrim, (false, true))]
    {
        if is(trim) {
            return lower_trim(block, scope, call, ends).map(Some);
        }
    }
    let part = match call.args() {
        [_, start] if is(unicode::substr) => literal_integer(start).and_then(|start| substr(start, i64::MAX)),
        [_, start, count] if is(unicode::substr) => {
            literal_integer(start).zip(literal_integer(count)).and_then(|(start, count)| substr(start, count))
        }
        [_, count] if is(unicode::left) => literal_integer(count).map(left),
        [_, count] if is(unicode::right) => literal_integer(count).map(right),
        _ => return Ok(None),
    };
    match part {
        Some(part) => lower_part(block, scope, call, part).map(Some),
        None => Err(Unsupported::new(call.name(), "places that are not constants, or a negative length")),
    }
}

/// A test of whether a text has a part, or has it at an end: `contains`, `starts_with`, `ends_with`, or a comparison of
/// `strpos` with a constant that asks no more and needs no place in characters.
pub(crate) struct Search<'a> {
    /// Of the text and the part.
    args: [&'a Arc<dyn PhysicalExpr>; 2],
    kind: Intrinsic,
    pub(crate) is_negated: bool,
}

impl<'a> Search<'a> {
    pub(crate) fn of(expr: &'a Arc<dyn PhysicalExpr>) -> Option<Search<'a>> {
        match expr.downcast_ref::<BinaryExpr>() {
            Some(comparison) => Search::of_comparison(comparison),
            None => Search::of_call(expr.downcast_ref::<ScalarFunctionExpr>()?),
        }
    }

    fn of_call(call: &'a ScalarFunctionExpr) -> Option<Search<'a>> {
        let kinds = [
            (string::starts_with as fn() -> _, Intrinsic::StartsWith),
            (string::ends_with, Intrinsic::EndsWith),
            (string::contains, Intrinsic::Contains),
        ];
        let [text, part] = call.args() else { return None };
        let (_, kind) = kinds.into_iter().find(|(known, _)| *call.fun() == *known())?;
        Some(Search { args: [text, part], kind, is_negated: false })
    }

    fn of_comparison(comparison: &'a BinaryExpr) -> Option<Search<'a>> {
        let call = comparison.left().downcast_ref::<ScalarFunctionExpr>()?;
        let ([text, part], true) = (call.args(), *call.fun() == *unicode::strpos()) else { return None };
        let (kind, is_negated) = match (comparison.op(), literal_integer(comparison.right())?) {
            (Operator::Gt | Operator::NotEq, 0) | (Operator::GtEq, 1) => (Intrinsic::Contains, false),
            (Operator::Eq | Operator::LtEq, 0) | (Operator::Lt, 1) => (Intrinsic::Contains, true),
            (Operator::Eq, 1) => (Intrinsic::StartsWith, false),
            (Operator::NotEq, 1) => (Intrinsic::StartsWith, true),
            _ => return None,
        };
        Some(Search { args: [text, part], kind, is_negated })
    }

    /// The constant that is looked for anywhere in a column's texts, if it is that.
    pub(crate) fn needle_in_column(&self) -> Option<String> {
        let [text, part] = self.args;
        (self.kind == Intrinsic::Contains && text.is::<Column>()).then(|| literal_text(part.as_ref())).flatten()
    }

    pub(crate) fn lower(&self, block: &mut Block<'_>, scope: &Scope<'_>) -> Result<Sql> {
        let [text, part] = self.args;
        let (text, part) = (text_of(block, scope, text)?, text_of(block, scope, part)?);
        let valid = both_valid(&text, &part).map(|valid| block.share("valid", valid));
        let found = predicate(valid, ir::intrinsic(self.kind, [text.value, part.value]));
        Ok(if self.is_negated { invert(block, found) } else { found })
    }
}

/// A place in text, in characters.
#[derive(Clone, Copy)]
enum Place {
    /// After so many.
    After(i64),
    /// Before the last so many.
    Before(i64),
}

const START: Place = Place::After(0);
const END: Place = Place::Before(0);

/// From the character of this number on, counted from 1: `count` of them, those before the first included.
fn substr(start: i64, count: i64) -> Option<(Place, Place)> {
    let first = start.max(1) - 1;
    let last = start.checked_sub(1)?.saturating_add(count).max(first);
    (count >= 0).then_some((Place::After(first), if last == i64::MAX { END } else { Place::After(last) }))
}

/// The first characters, or all but the last.
fn left(count: i64) -> (Place, Place) {
    (START, if count < 0 { Place::Before(count.saturating_neg()) } else { Place::After(count) })
}

/// The last characters, or all but the first. DataFusion gives none where a number has no opposite.
fn right(count: i64) -> (Place, Place) {
    match count {
        0 | i64::MIN => (START, START),
        1.. => (Place::Before(count), END),
        _ => (Place::After(-count), END),
    }
}

fn text_of(block: &mut Block<'_>, scope: &Scope<'_>, expr: &Arc<dyn PhysicalExpr>) -> Result<Sql> {
    let text = lower(block, scope, expr)?;
    if text.value.ty != Type::vec(Type::U8) {
        return Err(Unsupported::new(expr, "is no text"));
    }
    Ok(block.share_sql("text", text))
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

/// The text from one place to another.
fn lower_part(
    block: &mut Block<'_>,
    scope: &Scope<'_>,
    call: &ScalarFunctionExpr,
    (from, to): (Place, Place),
) -> Result<Sql> {
    let text = text_of(block, scope, &call.args()[0])?;
    let part = block.nested(|inner| {
        let length = |text: &Expr| ir::intrinsic(Intrinsic::CharLength, [text.clone()]);
        let offset = |place: Place| {
            let number = match place {
                Place::After(0) => return ir::i64(0),
                Place::Before(0) => return ir::len(text.value.clone()),
                Place::After(n) => ir::i64(n),
                Place::Before(n) => ir::sub(length(&text.value), ir::i64(n)),
            };
            ir::intrinsic(Intrinsic::CharOffset, [text.value.clone(), number])
        };
        let from = inner.share("from", offset(from));
        Ok(ir::slice(text.value.clone(), from.clone(), ir::sub(offset(to), from)))
    })?;
    Ok(block.share_sql("part", guarded(text.valid, part)))
}

/// The number of the character with which a part begins, from 1 on; 0 if it is not there.
fn lower_position(block: &mut Block<'_>, scope: &Scope<'_>, call: &ScalarFunctionExpr) -> Result<Sql> {
    let [text, part] = call.args() else { return Err(Unsupported::new(call.name(), "not two arguments")) };
    let kind = value_type(&data_type(scope, call)?)?.as_scalar();
    let kind = kind.ok_or_else(|| Unsupported::new(call.name(), "gives no number"))?;
    let (text, part) = (text_of(block, scope, text)?, text_of(block, scope, part)?);
    let valid = both_valid(&text, &part).map(|valid| block.share("valid", valid));
    let number = block.nested(|inner| {
        let found = ir::intrinsic(Intrinsic::Find, [text.value.clone(), part.value, ir::i64(0)]);
        let found = inner.share("found", found);
        let before = ir::slice(text.value.clone(), ir::i64(0), found.clone());
        let number = ir::add(ir::intrinsic(Intrinsic::CharLength, [before]), ir::i64(1));
        Ok(ir::cast(ir::if_(ir::lt(found, ir::i64(0)), ir::i64(0), number), kind))
    })?;
    Ok(block.share_sql("position", guarded(valid, number)))
}

/// `split_part` with a constant separator and number, counted from the beginning.
fn lower_field(block: &mut Block<'_>, scope: &Scope<'_>, call: &ScalarFunctionExpr) -> Result<Sql> {
    let [text, separator, number] = call.args() else {
        return Err(Unsupported::new(call.name(), "not three arguments"));
    };
    let separator = literal_text(separator.as_ref()).filter(|separator| !separator.is_empty());
    let number = literal_integer(number).filter(|number| *number > 0);
    let (Some(separator), Some(number)) = (separator, number) else {
        return Err(Unsupported::new(
            call.name(),
            "a separator or number that is no constant, or counted from the end",
        ));
    };
    let text = text_of(block, scope, text)?;
    let field = block.nested(|inner| {
        let separator = || ir::bytes(separator.as_bytes());
        let at = ir::intrinsic(Intrinsic::FieldStart, [text.value.clone(), separator(), ir::i64(number)]);
        let at = inner.share("at", at);
        let is_missing = ir::lt(at.clone(), ir::i64(0));
        let start = inner.share("start", ir::select(is_missing.clone(), ir::i64(0), at));
        let next = ir::intrinsic(Intrinsic::Find, [text.value.clone(), separator(), start.clone()]);
        let next = inner.share("next", next);
        let is_last = ir::lt(next.clone(), ir::i64(0));
        let end = ir::select(is_last, ir::len(text.value.clone()), next);
        let length = ir::select(is_missing, ir::i64(0), ir::sub(end, start.clone()));
        Ok(ir::slice(text.value.clone(), start, length))
    })?;
    Ok(block.share_sql("field", guarded(text.valid, field)))
}

/// Text without these characters, or spaces, at its start and its end.
fn lower_trim(
    block: &mut Block<'_>,
    scope: &Scope<'_>,
    call: &ScalarFunctionExpr,
    (start, end): (bool, bool),
) -> Result<Sql> {
    let text = text_of(block, scope, &call.args()[0])?;
    let characters = match call.args() {
        [_] => Sql::required(ir::bytes(b" ".as_slice())),
        [_, characters] => text_of(block, scope, characters)?,
        _ => return Err(Unsupported::new(call.name(), "not one or two arguments")),
    };
    let valid = both_valid(&text, &characters).map(|valid| block.share("valid", valid));
    let trimmed = block.nested(|inner| {
        let place = |intrinsic| ir::intrinsic(intrinsic, [text.value.clone(), characters.value.clone()]);
        let from = if start { inner.share("from", place(Intrinsic::TrimStart)) } else { ir::i64(0) };
        let to = if end { place(Intrinsic::TrimEnd) } else { ir::len(text.value.clone()) };
        // Of text that is all dropped nothing begins at its end.
        let to = inner.share("to", to);
        let length = ir::select(ir::lt(to.clone(), from.clone()), ir::i64(0), ir::sub(to, from.clone()));
        Ok(ir::slice(text.value.clone(), from, length))
    })?;
    Ok(block.share_sql("trimmed", guarded(valid, trimmed)))
}

/// LIKE with a constant pattern; what has no wildcard but a leading or trailing `%` needs no pattern matcher.
pub(crate) fn lower_like(block: &mut Block<'_>, scope: &Scope<'_>, like: &LikeExpr) -> Result<Sql> {
    let Some(pattern) = literal_text(like.pattern().as_ref()) else {
        return Err(Unsupported::new("LIKE", "a pattern that is not a constant"));
    };
    if like.case_insensitive() && !pattern.is_ascii() {
        return Err(Unsupported::new("ILIKE", "a pattern of other characters than ASCII's"));
    }
    let text = lower(block, scope, like.expr())?;
    if text.value.ty != Type::vec(Type::U8) {
        return Err(Unsupported::new("LIKE", "only of strings"));
    }
    let matches = if like.case_insensitive() {
        ir::intrinsic(Intrinsic::Ilike, [text.value, ir::bytes(pattern.as_bytes())])
    } else {
        match_pattern(text.value, &pattern)
    };
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
        ScalarValue::Int32(number) => number.map(i64::from),
        ScalarValue::Int64(number) => *number,
        _ => None,
    }
}
