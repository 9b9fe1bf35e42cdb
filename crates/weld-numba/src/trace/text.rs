//! Text: numbers as text and back, parts of strings, their methods.

use weld_core::diag::Span;
use weld_core::ir::{Expr, build};
use weld_core::op::Intrinsic;
use weld_core::ty::{ScalarKind, Type};

use super::convert::copied;
use super::{Res, Tracer, error};
use crate::types::Ty;
use crate::value::{Const, Value};

/// What `strip` takes off.
const SPACE: &[u8] = b" \t\n\r\x0b\x0c";

impl<'a> Tracer<'a> {
    /// `str(x)`.
    pub(super) fn text_of(&mut self, value: &Value<'a>, span: Span) -> Res<Value<'a>> {
        match value {
            Value::Const(known @ (Const::Bool(_) | Const::Int(_))) => {
                return Ok(Value::Const(Const::Str(known.to_string().into())));
            }
            Value::Const(Const::Str(_)) => return Ok(value.clone()),
            Value::None => return Ok(Value::Const(Const::Str("None".into()))),
            Value::Caught(cause, sites) => return self.text_of_caught(*cause, sites, span),
            Value::Object(..) if self.has_method(value, "__str__") => {
                return self.call_method(value, "__str__", Vec::new(), span);
            }
            _ => {}
        }
        match (self.try_type(value), value.data()) {
            (Some(Ty::Str), _) => Ok(value.clone()),
            (Some(Ty::Scalar(ScalarKind::Bool)), Some(x)) => {
                let text = build::if_(x, build::bytes(*b"True"), build::bytes(*b"False"));
                Ok(self.data("text", text, Ty::Str))
            }
            (Some(Ty::Scalar(kind)), Some(x)) if kind.is_integer() => {
                let digits = self.digits(x);
                Ok(self.data("text", digits, Ty::Str))
            }
            _ => {
                let message = format!("unsupported: `str` of {}", self.described(value));
                Err(weld_core::diag::Diagnostic::ty(span, message)
                    .with_hint("integers, Bool and String have a text")
                    .into())
            }
        }
    }

    /// The decimal digits of an integer, with its sign.
    fn digits(&mut self, x: Expr) -> Expr {
        let kind = x.ty.as_scalar().unwrap_or(ScalarKind::I64);
        let x = self.bind("x", x);
        let is_negative = match kind.is_signed() {
            true => build::lt(x.clone(), build::number(kind, 0)),
            false => build::bool(false),
        };
        let is_negative = self.bind("is_negative", is_negative);
        // The magnitude of the least integer fits, too.
        let wide = build::cast(x, ScalarKind::U64);
        let negated = build::sub(build::number(ScalarKind::U64, 0), wide.clone());
        let magnitude = self.bind("magnitude", build::select(is_negative.clone(), negated, wide));
        let start = build::strct([magnitude, build::appender(Type::U8)]);
        let ten = build::number(ScalarKind::U64, 10);
        let reversed = build::iterate(self.flow.names(), start, |names, state| {
            let (left, digits) = (build::field(state.clone(), 0), build::field(state, 1));
            build::let_(names, "rest", build::div(left.clone(), ten.clone()), |_, rest| {
                let digit = build::cast(build::sub(left, build::mul(rest.clone(), ten)), ScalarKind::U8);
                let digit = build::add(digit, build::number(ScalarKind::U8, b'0'.into()));
                let more = build::gt(rest.clone(), build::number(ScalarKind::U64, 0));
                build::strct([build::strct([rest, build::merge(digits, digit)]), more])
            })
        });
        let reversed = self.flow.keep("digits", reversed);
        let reversed = self.bind("reversed", build::result(build::field(reversed, 1)));
        let count = self.bind("count", build::len(reversed.clone()));
        let signs = self.bind("signs", build::cast(is_negative, ScalarKind::I64));
        let range = build::range(build::i64(0), build::add(count.clone(), signs.clone()), build::i64(1));
        let looped = build::for_(self.flow.names(), range, build::appender(Type::U8), |_, b, index, _| {
            let at = build::sub(build::add(count, signs.clone()), build::add(index.clone(), build::i64(1)));
            let digit = build::lookup(reversed, at);
            let sign = build::number(ScalarKind::U8, b'-'.into());
            build::merge(b, build::if_(build::lt(index, signs), sign, digit))
        });
        build::result(looped)
    }

    /// `int(text)`.
    pub(super) fn parsed_int(&mut self, text: Expr, span: Span) -> Res<Value<'a>> {
        let text = self.stripped(text, SPACE, [true, true]);
        let length = self.bind("length", build::len(text.clone()));
        let byte = |at: Expr| build::lookup(text.clone(), at);
        let is = |e: Expr, of: u8| build::eq(e, build::number(ScalarKind::U8, of.into()));
        let first =
            build::if_(build::gt(length.clone(), build::i64(0)), byte(build::i64(0)), build::number(ScalarKind::U8, 0));
        let first = self.bind("first", first);
        let is_negative = self.bind("is_negative", is(first.clone(), b'-'));
        let is_signed = build::or(is_negative.clone(), is(first, b'+'));
        let begin = self.bind("begin", build::cast(is_signed, ScalarKind::I64));
        // The position, the negated number, whether all were digits and fitted.
        let start = build::strct([begin.clone(), build::i64(0), build::bool(true), build::bool(true)]);
        let run = build::iterate(self.flow.names(), start.clone(), |names, state| {
            let [at, number, is_fine, fits] = [0, 1, 2, 3].map(|index| build::field(state.clone(), index));
            build::let_(names, "byte", byte(at.clone()), |names, byte| {
                let is_digit = build::and(
                    build::ge(byte.clone(), build::number(ScalarKind::U8, b'0'.into())),
                    build::le(byte.clone(), build::number(ScalarKind::U8, b'9'.into())),
                );
                let digit = build::sub(build::cast(byte, ScalarKind::I64), build::i64(b'0'.into()));
                let wide = |e: Expr| build::cast(e, ScalarKind::I128);
                let next = build::sub(build::mul(wide(number), build::i128(10)), wide(digit));
                build::let_(names, "next", next, |_, next| {
                    let narrow = build::cast(next.clone(), ScalarKind::I64);
                    let fits = build::and(fits, build::ge(next, build::i128(i64::MIN.into())));
                    let after = build::add(at, build::i64(1));
                    let more = build::and(
                        build::lt(after.clone(), length.clone()),
                        build::and(is_digit.clone(), fits.clone()),
                    );
                    build::strct([build::strct([after, narrow, build::and(is_fine, is_digit), fits]), more])
                })
            })
        });
        let has_digits = build::lt(begin, length.clone());
        let none = build::strct([build::i64(0), build::i64(0), build::bool(false), build::bool(true)]);
        let last = self.flow.keep("parsed", build::if_(has_digits, run, none));
        let [number, is_fine, fits] = [1, 2, 3].map(|index| build::field(last.clone(), index));
        self.require(is_fine, "ValueError", "invalid literal for int()", Vec::new(), span);
        let least = build::eq(number.clone(), build::i64(i64::MIN));
        let fits = build::and(fits, build::or(is_negative.clone(), build::not(least)));
        self.require(fits, "OverflowError", "the number does not fit Int64", Vec::new(), span);
        let positive = build::sub(build::i64(0), number.clone());
        Ok(self.scalar(build::select(is_negative, number, positive)))
    }

    /// `text * n`.
    pub(super) fn repeated_text(&mut self, text: Expr, times: &Value<'a>, span: Span) -> Res<Value<'a>> {
        let text = self.bind("text", text);
        let times = self.index_of(times, span)?;
        let times = self.bind("times", build::max(times, build::i64(0)));
        let range = build::range(build::i64(0), times, build::i64(1));
        let looped =
            build::for_(self.flow.names(), range, build::appender(Type::U8), |names, b, _, _| copied(names, text, b));
        Ok(self.data("text", build::result(looped.at(span)), Ty::Str))
    }

    /// `text[lower:upper:step]`: by characters.
    pub(super) fn slice_text(&mut self, text: Expr, parts: &[Option<Value<'a>>; 3], span: Span) -> Res<Value<'a>> {
        let text = self.bind("text", text);
        let length = self.bind("length", build::intrinsic(Intrinsic::CharLength, [text.clone()]));
        let bounds = self.bounds(length, parts, span)?;
        let offset = |at: Expr| build::intrinsic(Intrinsic::CharOffset, [text.clone(), at]);
        if bounds.is_plain {
            let upper = build::max(bounds.lower.clone(), bounds.upper);
            let start = self.bind("start", offset(bounds.lower));
            let end = offset(upper);
            let part = build::slice(text.clone(), start.clone(), build::sub(end, start)).at(span);
            return Ok(self.data("text", part, Ty::Str));
        }
        let count = super::builtin::steps(bounds.lower.clone(), bounds.upper, bounds.step.clone());
        let range = build::range(build::i64(0), count, build::i64(1));
        let looped = build::for_(self.flow.names(), range, build::appender(Type::U8), |names, b, index, _| {
            let at = build::add(bounds.lower, build::mul(index, bounds.step));
            build::let_(names, "at", at, |names, at| {
                let end = offset(build::add(at.clone(), build::i64(1)));
                build::let_(names, "start", offset(at), |names, start| {
                    let character = build::slice(text.clone(), start.clone(), build::sub(end, start));
                    copied(names, character, b)
                })
            })
        });
        Ok(self.data("text", build::result(looped.at(span)), Ty::Str))
    }

    /// The methods of strings.
    pub(super) fn text_method(&mut self, of: &Value<'a>, name: &str, args: &[Value<'a>], span: Span) -> Res<Value<'a>> {
        let Some(text) = of.data() else { return error(span, "internal error: no text") };
        let text = self.bind("text", text);
        if let ("join", [data]) = (name, args) {
            return self.joined(text, data, span);
        }
        let texts: Option<Vec<Expr>> = args
            .iter()
            .map(|arg| match self.try_type(arg) {
                Some(Ty::Str) => arg.data(),
                _ => None,
            })
            .collect();
        let Some(texts) = texts else {
            let found: Vec<String> = args.iter().map(|arg| self.described(arg)).collect();
            return error(span, format!("TypeError: `{name}` of a string does not take ({})", found.join(", ")));
        };
        let texts: Vec<Expr> = texts.into_iter().map(|text| self.bind("text", text)).collect();
        match (name, &texts[..]) {
            ("startswith", [part]) => Ok(self.scalar(build::intrinsic(Intrinsic::StartsWith, [text, part.clone()]))),
            ("endswith", [part]) => Ok(self.scalar(build::intrinsic(Intrinsic::EndsWith, [text, part.clone()]))),
            ("find", [part]) => {
                let at = self.found(&text, part, build::i64(0));
                let before = build::slice(text, build::i64(0), build::max(at.clone(), build::i64(0)));
                let count = build::intrinsic(Intrinsic::CharLength, [before]);
                Ok(self.scalar(build::if_(build::lt(at, build::i64(0)), build::i64(-1), count)))
            }
            ("replace", [part, by]) => {
                let pieces = self.pieces(&text, part, span);
                self.glued(pieces, by.clone(), span)
            }
            ("split", [part]) => {
                let pieces = self.pieces(&text, part, span);
                Ok(self.new_list(pieces, Ty::Str))
            }
            ("count", [part]) => {
                let pieces = self.pieces(&text, part, span);
                Ok(self.scalar(build::sub(build::len(pieces), build::i64(1))))
            }
            ("strip" | "lstrip" | "rstrip", []) => {
                let sides = [name != "rstrip", name != "lstrip"];
                let text = self.stripped(text, SPACE, sides);
                Ok(Value::Data(text, Ty::Str))
            }
            ("strip" | "lstrip" | "rstrip", [_]) => match args {
                // Ends are looked at byte by byte.
                [Value::Const(Const::Str(of))] if of.is_ascii() => {
                    let sides = [name != "rstrip", name != "lstrip"];
                    let text = self.stripped(text, of.as_bytes(), sides);
                    Ok(Value::Data(text, Ty::Str))
                }
                _ => error(span, format!("unsupported: `{name}` of other characters than those of an ASCII literal")),
            },
            ("split", []) => {
                let pieces = self.words(&text, span);
                Ok(self.new_list(pieces, Ty::Str))
            }
            (
                "startswith" | "endswith" | "find" | "replace" | "split" | "count" | "strip" | "lstrip" | "rstrip"
                | "join",
                _,
            ) => error(span, format!("TypeError: `{name}` of a string does not take {} arguments", args.len())),
            _ => error(span, format!("unsupported: the method `{name}` of strings")),
        }
    }

    fn found(&mut self, text: &Expr, part: &Expr, from: Expr) -> Expr {
        self.bind("found", build::intrinsic(Intrinsic::Find, [text.clone(), part.clone(), from]))
    }

    fn stripped(&mut self, text: Expr, of: &[u8], sides: [bool; 2]) -> Expr {
        let text = self.bind("text", text);
        let of = build::bytes(of);
        let start = match sides[0] {
            true => build::intrinsic(Intrinsic::TrimStart, [text.clone(), of.clone()]),
            false => build::i64(0),
        };
        let end = match sides[1] {
            true => build::intrinsic(Intrinsic::TrimEnd, [text.clone(), of]),
            false => build::len(text.clone()),
        };
        let start = self.bind("start", start);
        let size = build::max(build::sub(end, start.clone()), build::i64(0));
        self.bind("stripped", build::slice(text, start, size))
    }

    /// The parts of text between those that are the separator, which is not empty.
    fn pieces(&mut self, text: &Expr, separator: &Expr, span: Span) -> Expr {
        let size = self.bind("size", build::len(separator.clone()));
        let is_fine = build::gt(size.clone(), build::i64(0));
        self.require(is_fine, "ValueError", "empty separator", Vec::new(), span);
        // An empty one is found everywhere: the text is left whole where the error is caught.
        let start = build::strct([build::i64(0), build::appender(Type::vec(Type::U8))]);
        let split = build::iterate(self.flow.names(), start, |names, state| {
            let (at, parts) = (build::field(state.clone(), 0), build::field(state, 1));
            let next = build::intrinsic(Intrinsic::Find, [text.clone(), separator.clone(), at.clone()]);
            build::let_(names, "next", next, |names, next| {
                let more = build::and(build::ge(next.clone(), build::i64(0)), build::gt(size.clone(), build::i64(0)));
                build::let_(names, "more", more, |_, more| {
                    let end = build::select(more.clone(), next.clone(), build::len(text.clone()));
                    let part = build::slice(text.clone(), at.clone(), build::sub(end, at));
                    let after = build::add(next, size);
                    build::strct([build::strct([after, build::merge(parts, part)]), more])
                })
            })
        });
        let split = self.flow.keep("split", split.at(span));
        self.bind("pieces", build::result(build::field(split, 1)))
    }

    /// The parts of text between white space: none of them is empty.
    fn words(&mut self, text: &Expr, span: Span) -> Expr {
        let length = self.bind("length", build::len(text.clone()));
        // The byte that is looked at, where the word began that it may end, the words before it.
        let start = build::strct([build::i64(0), build::i64(-1), build::appender(Type::vec(Type::U8))]);
        let split = build::iterate(self.flow.names(), start, |names, state| {
            let [at, begun, parts] = [0, 1, 2].map(|index| build::field(state.clone(), index));
            let more = build::lt(at.clone(), length.clone());
            let byte = build::if_(
                more.clone(),
                build::lookup(text.clone(), build::min(at.clone(), build::sub(length.clone(), build::i64(1)))),
                build::number(ScalarKind::U8, b' '.into()),
            );
            build::let_(names, "byte", byte, |names, byte| {
                let is = |c: &u8| build::eq(byte.clone(), build::number(ScalarKind::U8, i128::from(*c)));
                let space = SPACE.iter().map(is).reduce(build::or).unwrap_or_else(|| build::bool(false));
                build::let_(names, "space", space, |_, space| {
                    let is_word = build::ge(begun.clone(), build::i64(0));
                    let word = build::slice(text.clone(), begun.clone(), build::sub(at.clone(), begun.clone()));
                    let ends = build::and(space.clone(), is_word.clone());
                    let parts = build::if_(ends, build::merge(parts.clone(), word), parts);
                    let begins = build::select(is_word, begun, at.clone());
                    let begun = build::select(space, build::i64(-1), begins);
                    build::strct([build::strct([build::add(at, build::i64(1)), begun, parts]), more])
                })
            })
        });
        let split = self.flow.keep("split", split.at(span));
        self.bind("words", build::result(build::field(split, 2)))
    }

    /// `text.join(data)`.
    fn joined(&mut self, between: Expr, data: &Value<'a>, span: Span) -> Res<Value<'a>> {
        let list = self.list_from(data, span)?;
        let Value::List(cell) = list else { return Ok(list) };
        match self.elements(cell, span)? {
            (_, Ty::Unknown) => Ok(Value::Const(Const::Str("".into()))),
            (elements, Ty::Str) => self.glued(elements, between, span),
            (_, ty) => error(span, format!("TypeError: `join` takes strings, found {ty}")),
        }
    }

    fn glued(&mut self, pieces: Expr, between: Expr, span: Span) -> Res<Value<'a>> {
        let appender = build::appender(Type::U8);
        let looped = build::for_(self.flow.names(), build::over(pieces), appender, |names, b, index, piece| {
            let is_first = build::eq(index, build::i64(0));
            let begun = build::if_(is_first, b.clone(), copied(names, between, b));
            copied(names, piece, begun)
        });
        Ok(self.data("text", build::result(looped.at(span)), Ty::Str))
    }
}
