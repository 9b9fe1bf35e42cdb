//! Expressions.

use std::rc::Rc;
use std::sync::Arc;

use weld_core::diag::Span;
use weld_core::ir::build;
use weld_core::op::Intrinsic;
use weld_pysyntax::{self as py, CompareOp, ExprKind, UnaryOp};

use super::{Completion, Frame, Res, Stop, Tracer, deep, error};
use crate::class::written_type;
use crate::store::FrameId;
use crate::types::Ty;
use crate::value::{Callable, Const, Value};

/// What is asked of `and` and `or`.
#[derive(Clone, Copy, PartialEq)]
enum Wanted {
    /// The operand that decides.
    Value,
    /// Whether that operand is true.
    Truth,
}

impl<'a> Tracer<'a> {
    pub(super) fn expr(&mut self, e: &'a py::Expr) -> Res<Value<'a>> {
        self.spend(e.span)?;
        deep(|| self.expr_here(e))
    }

    fn expr_here(&mut self, e: &'a py::Expr) -> Res<Value<'a>> {
        let span = e.span;
        match &e.kind {
            ExprKind::Int(value) => match i64::try_from(*value) {
                Ok(value) => Ok(Value::int(value)),
                Err(_) => error(span, format!("{value} does not fit Int64")),
            },
            ExprKind::BigInt(text) => error(span, format!("{text} does not fit Int64")),
            ExprKind::Float(value) => Ok(Value::Const(Const::Float(*value))),
            ExprKind::Str(text) => Ok(Value::Const(Const::Str(text.clone()))),
            ExprKind::Bool(value) => Ok(Value::bool(*value)),
            ExprKind::None => Ok(Value::None),
            ExprKind::Name(name) => self.name(name, span),
            ExprKind::Attribute(of, name) => {
                let of = self.expr(of)?;
                self.attribute(&of, &name.name, span)
            }
            ExprKind::Call { callee, args, keywords } => self.call_expr(callee, args, keywords, span),
            ExprKind::Index(of, index) => self.index_expr(of, index, span),
            ExprKind::Tuple(parts) => {
                let parts = parts.iter().map(|part| self.expr(part)).collect::<Res<Vec<_>>>()?;
                Ok(Value::tuple(parts))
            }
            ExprKind::List(parts) => {
                let parts = parts.iter().map(|part| self.expr(part)).collect::<Res<Vec<_>>>()?;
                self.list_of(parts, span)
            }
            ExprKind::FString(parts) => self.f_string(parts, span),
            ExprKind::Unary(op, operand) => self.unary(*op, operand, span),
            ExprKind::Binary(op, a, b) => {
                let (a, b) = (self.expr(a)?, self.expr(b)?);
                self.binary(*op, &a, &b, span)
            }
            ExprKind::And(parts) => self.logic(parts, true, Wanted::Value, span),
            ExprKind::Or(parts) => self.logic(parts, false, Wanted::Value, span),
            ExprKind::Compare { first, rest } => {
                let first = self.expr(first)?;
                self.comparison(first, rest, span)
            }
            ExprKind::If { test, on_true, on_false } => {
                let cond = self.condition(test)?;
                match cond.const_bool() {
                    Some(true) => self.expr(on_true),
                    Some(false) => self.expr(on_false),
                    None => {
                        let cond = cond.data().unwrap_or_else(|| build::bool(true));
                        self.choose(cond, span, |tracer| tracer.expr(on_true), |tracer| tracer.expr(on_false))
                    }
                }
            }
            ExprKind::Lambda { params, body } => {
                self.frame_mut().is_captured = true;
                let frame = self.defaults(params)?;
                Ok(Value::Callable(Callable::Lambda(params, body, frame)))
            }
            ExprKind::ListComp { element, clauses } => self.list_comprehension(element, clauses, span),
            ExprKind::Generator { element, clauses } => self.generator_expression(element, clauses, span),
            ExprKind::Yield(_) | ExprKind::YieldFrom(_) => error(span, "unsupported: a yield inside of an expression"),
            ExprKind::Slice { .. } => error(span, "a slice stands in an index"),
            other => error(span, format!("unsupported: {}", py::Expr { span, kind: other.clone() }.described())),
        }
    }

    /// The frame that a function inside stands in: the current one, or one with its defaults, which are evaluated here.
    pub(super) fn defaults(&mut self, params: &'a py::Params) -> Res<FrameId> {
        let has_default = |param: &py::Param| param.default.is_some();
        if !params.params.iter().any(has_default) {
            return Ok(self.place.frame);
        }
        let frame = self.inner_frame();
        for param in &params.params {
            if let Some(default) = &param.default {
                let value = self.expr(default)?;
                self.declare(frame, &default_name(&param.name.name), value);
            }
        }
        Ok(frame)
    }

    /// The value of a parameter that a call does not give, of a function that stands in the frame.
    pub(super) fn default(&mut self, frame: FrameId, param: &'a py::Param) -> Res<Option<Value<'a>>> {
        let Some(default) = &param.default else { return Ok(None) };
        match self.store.variable(frame, &default_name(&param.name.name)) {
            Some(cell) => Ok(Some(self.store.get(cell).clone())),
            None => self.within(frame, |tracer| tracer.expr(default)).map(Some),
        }
    }

    /// `f"a{b}"`.
    fn f_string(&mut self, parts: &'a [py::Expr], span: Span) -> Res<Value<'a>> {
        let mut text = Value::Const(Const::Str("".into()));
        for part in parts {
            let value = self.expr(part)?;
            let part = self.text_of(&value, part.span)?;
            text = match (&text, &part) {
                (Value::Const(Const::Str(a)), Value::Const(Const::Str(b))) => {
                    Value::Const(Const::Str(format!("{a}{b}").into()))
                }
                (Value::Const(Const::Str(a)), _) if a.is_empty() => part,
                _ => self.concatenated(&text, &part, span)?,
            };
        }
        Ok(text)
    }

    // Names.

    pub(super) fn name(&mut self, name: &Arc<str>, span: Span) -> Res<Value<'a>> {
        let mut frame = Some(self.place.frame);
        while let Some(at) = frame {
            if let Some(cell) = self.store.variable(at, name) {
                let value = self.store.get(cell).clone();
                return self.bound(name, value, span);
            }
            let Frame { parent, def, .. } = &self.frames[at];
            if def.as_ref().is_some_and(|def| def.locals.contains(&**name)) {
                return error(span, format!("UnboundLocalError: `{name}` is read before it is assigned"));
            }
            frame = *parent;
        }
        match self.global(name) {
            Some(value) => Ok(value),
            None => self.unknown_name(name, span),
        }
    }

    /// The value of a variable, which may have none.
    fn bound(&mut self, name: &str, value: Value<'a>, span: Span) -> Res<Value<'a>> {
        match value {
            Value::Unbound | Value::Nothing => {
                error(span, format!("UnboundLocalError: `{name}` is read before it is assigned"))
            }
            Value::Maybe(flag, value) => {
                let message = format!("`{name}` is read before it is assigned");
                self.require(flag, "UnboundLocalError", &message, Vec::new(), span);
                Ok((*value).clone())
            }
            value => Ok(value),
        }
    }

    fn unknown_name(&self, name: &str, span: Span) -> Res<Value<'a>> {
        const REFUSED: [&str; 14] = [
            "print", "eval", "exec", "input", "open", "compile", "globals", "locals", "getattr", "setattr", "dict",
            "set", "prange", "channel",
        ];
        match REFUSED.contains(&name) {
            true => error(span, format!("unsupported: {name}")),
            false => error(span, format!("the name `{name}` is not defined")),
        }
    }

    /// What a name stands for outside of functions.
    pub(super) fn global(&mut self, name: &str) -> Option<Value<'a>> {
        let module = self.module;
        if let Some(overloads) = module.functions.get(name) {
            return Some(Value::Callable(Callable::Function(overloads.clone(), 0)));
        }
        if let Some(class) = module.class(name) {
            return Some(Value::Callable(Callable::Class(class, Rc::new([]))));
        }
        if let Some(known) = module.trait_(name) {
            return Some(Value::Trait(known.clone()));
        }
        if let Some(alias) = module.aliases.get(name) {
            return self.resolve(alias, &mut Default::default(), Span::NONE).ok().map(Value::Type);
        }
        if let Some(builtin) = super::builtin::known(name) {
            return Some(Value::builtin(builtin));
        }
        if let Some(ty) = Ty::named(name) {
            return Some(Value::Type(ty));
        }
        if let Some(function) = self.library.get(name) {
            return Some(Value::Callable(Callable::Session(function.clone())));
        }
        None
    }

    /// The type that an annotation or an argument such as that of `isinstance` writes.
    pub(super) fn annotation(&mut self, e: &'a py::Expr) -> Res<Ty> {
        match written_type(e) {
            Ok(ty) => self.resolve(&ty, &mut Default::default(), e.span),
            Err(message) => error(e.span, message),
        }
    }

    // Conditions.

    /// Whether an expression is true: a `Bool` that may be known. Operands of `and` and `or` may differ in their types
    /// here, as in `xs and xs[0] > 0`: the value that decides is nobody's.
    pub(super) fn condition(&mut self, e: &'a py::Expr) -> Res<Value<'a>> {
        let (parts, is_and) = match &e.kind {
            ExprKind::And(parts) => (parts, true),
            ExprKind::Or(parts) => (parts, false),
            _ => {
                let value = self.expr(e)?;
                return self.truth(&value, e.span);
            }
        };
        self.spend(e.span)?;
        deep(|| self.logic(parts, is_and, Wanted::Truth, e.span))
    }

    pub(super) fn truth(&mut self, value: &Value<'a>, span: Span) -> Res<Value<'a>> {
        Ok(match value {
            Value::Const(Const::Bool(_)) => value.clone(),
            Value::Const(Const::Int(value)) => Value::bool(*value != 0),
            Value::Const(Const::Float(value)) => Value::bool(*value != 0.0),
            Value::Const(Const::Str(text)) => Value::bool(!text.is_empty()),
            Value::Data(_, Ty::Scalar(weld_core::ty::ScalarKind::Bool)) => value.clone(),
            Value::Data(e, Ty::Scalar(kind)) => self.scalar(build::ne(e.clone(), build::number(*kind, 0)).at(span)),
            Value::Data(e, _) => self.scalar(build::gt(build::len(e.clone()), build::i64(0))),
            Value::None => Value::bool(false),
            Value::Tuple(parts) => Value::bool(!parts.is_empty()),
            Value::List(cell) => {
                let (elements, _) = self.elements(*cell, span)?;
                self.scalar(build::gt(build::len(elements), build::i64(0)))
            }
            Value::Object(..) if self.has_method(value, "__bool__") => {
                let value = self.call_method(value, "__bool__", Vec::new(), span)?;
                return self.truth_of_result(&value, span);
            }
            Value::Object(..) if self.has_method(value, "__len__") => {
                let value = self.call_method(value, "__len__", Vec::new(), span)?;
                return self.truth_of_result(&value, span);
            }
            Value::Object(..) | Value::Callable(_) | Value::Type(_) => Value::bool(true),
            other => return error(span, format!("{} is neither true nor false", self.described(other))),
        })
    }

    /// Whether what `__bool__` or `__len__` gives is true: it is no object again.
    fn truth_of_result(&mut self, value: &Value<'a>, span: Span) -> Res<Value<'a>> {
        match value {
            Value::Object(..) => error(span, "TypeError: an object is neither true nor false"),
            value => self.truth(value, span),
        }
    }

    /// `a and b`, `a or b`: the value that decides, or whether it is true.
    fn logic(&mut self, parts: &'a [py::Expr], is_and: bool, wanted: Wanted, span: Span) -> Res<Value<'a>> {
        let [first, rest @ ..] = parts else { return Ok(Value::bool(is_and)) };
        let value = match wanted {
            Wanted::Value => self.expr(first)?,
            Wanted::Truth => self.condition(first)?,
        };
        if rest.is_empty() {
            return Ok(value);
        }
        let cond = self.truth(&value, first.span)?;
        if let Some(known) = cond.const_bool() {
            return if known == is_and { self.logic(rest, is_and, wanted, span) } else { Ok(value) };
        }
        let cond = cond.data().unwrap_or_else(|| build::bool(true));
        let other = self.side(|tracer| Ok((Completion::normal(), Some(tracer.logic(rest, is_and, wanted, span)?))))?;
        let is_plain = other.block.is_empty() && other.changes.is_empty() && other.done == Completion::normal();
        if let (true, Some(b)) = (is_plain, &other.value)
            && self.try_type(&value) == Some(Ty::BOOL)
            && self.try_type(b) == Some(Ty::BOOL)
            && let Some(b) = b.data()
        {
            let both = if is_and { build::and(cond, b) } else { build::or(cond, b) };
            return Ok(self.scalar(both.at(span)));
        }
        let same = self.side(|_| Ok((Completion::normal(), Some(value))))?;
        let sides = if is_and { [other, same] } else { [same, other] };
        let (done, value) = self.merge(cond, sides, span)?;
        self.place.pending.extend(&done.exits);
        value.ok_or(Stop::Exit(done))
    }

    /// `a < b < c`: `c` is evaluated if `a < b`.
    fn comparison(&mut self, first: Value<'a>, rest: &'a [(CompareOp, py::Expr)], span: Span) -> Res<Value<'a>> {
        let [(op, second), rest @ ..] = rest else { return Ok(Value::bool(true)) };
        let second_value = self.expr(second)?;
        let holds = self.compare(*op, &first, &second_value, span)?;
        if rest.is_empty() {
            return Ok(holds);
        }
        match holds.const_bool() {
            Some(false) => Ok(Value::bool(false)),
            Some(true) => self.comparison(second_value, rest, span),
            None => {
                let cond = holds.data().unwrap_or_else(|| build::bool(true));
                let more = |tracer: &mut Self| Ok(tracer.comparison(second_value, rest, span)?.variable());
                self.choose(cond, span, more, |_| Ok(Value::bool(false).variable()))
            }
        }
    }

    pub(super) fn compare(&mut self, op: CompareOp, a: &Value<'a>, b: &Value<'a>, span: Span) -> Res<Value<'a>> {
        match op {
            CompareOp::Is | CompareOp::IsNot => self.identity(op, a, b, span),
            CompareOp::In => self.contains(b, a, span),
            CompareOp::NotIn => {
                let found = self.contains(b, a, span)?;
                self.negated(found)
            }
            _ => self.compare_values(op, a, b, span),
        }
    }

    fn identity(&mut self, op: CompareOp, a: &Value<'a>, b: &Value<'a>, span: Span) -> Res<Value<'a>> {
        let is_same = match (a, b) {
            (Value::None, other) | (other, Value::None) => matches!(other, Value::None),
            (Value::Type(a), Value::Type(b)) => a == b,
            (Value::Callable(a), Value::Callable(b)) => a.is_same(b),
            (Value::Object(a, _), Value::Object(b, _)) | (Value::List(a), Value::List(b)) if a == b => true,
            _ => return error(span, format!("unsupported: `{}` of these values", op.text())),
        };
        Ok(Value::bool(is_same == (op == CompareOp::Is)))
    }

    pub(super) fn negated(&mut self, value: Value<'a>) -> Res<Value<'a>> {
        Ok(match value.const_bool() {
            Some(known) => Value::bool(!known),
            None => {
                let cond = value.data().unwrap_or_else(|| build::bool(true));
                self.scalar(build::not(cond))
            }
        })
    }

    /// `x in data`.
    fn contains(&mut self, data: &Value<'a>, x: &Value<'a>, span: Span) -> Res<Value<'a>> {
        if let (Some(Ty::Str), Some(Ty::Str)) = (self.try_type(data), self.try_type(x))
            && let (Some(data), Some(x)) = (data.data(), x.data())
        {
            return Ok(self.scalar(build::intrinsic(Intrinsic::Contains, [data, x]).at(span)));
        }
        if self.has_method(data, "__contains__") {
            let found = self.call_method(data, "__contains__", vec![x.clone()], span)?;
            return self.truth(&found, span);
        }
        let x = x.clone();
        let found =
            move |tracer: &mut Tracer<'a>, value: Value<'a>| tracer.compare_values(CompareOp::Eq, &x, &value, span);
        self.any(data, true, Rc::new(found), span)
    }

    // Operators of one operand.

    fn unary(&mut self, op: UnaryOp, operand: &'a py::Expr, span: Span) -> Res<Value<'a>> {
        // The least integer.
        if let (UnaryOp::Neg, ExprKind::Int(value)) = (op, &operand.kind)
            && *value == 1 << 63
        {
            return Ok(Value::int(i64::MIN));
        }
        if op == UnaryOp::Not {
            let cond = self.condition(operand)?;
            return self.negated(cond);
        }
        let value = self.expr(operand)?;
        self.unary_value(op, &value, span)
    }

    // Generators and comprehensions.

    /// A frame for what stands in the current one.
    pub(super) fn inner_frame(&mut self) -> FrameId {
        let parent = self.place.frame;
        let result = self.store.cell("result", None, Value::Nothing);
        let label = self.label();
        self.frames[parent].is_captured = true;
        let id = self.store.frame();
        self.frames.push(Frame {
            parent: Some(parent),
            caller: Some(parent),
            def: None,
            key: String::new(),
            result,
            label,
            sink: None,
            arguments: Vec::new(),
            cursors: Vec::new(),
            calls: Default::default(),
            is_captured: true,
        });
        id
    }
}

/// The variable that holds the default of a parameter; no name of a program.
fn default_name(param: &str) -> String {
    format!("<default of {param}>")
}
