//! The functions that are built in.

use std::rc::Rc;

use weld_core::diag::Span;
use weld_core::ir::{Expr, build};
use weld_core::op::Intrinsic;
use weld_core::ty::ScalarKind;
use weld_pysyntax::{BinaryOp, CompareOp};

use super::call::Keywords;
use super::raise::{EXCEPTIONS, is_exception};
use super::{Completion, Res, Sink, Tracer, error};
use crate::module::Trait;
use crate::stream::Source;
use crate::types::Ty;
use crate::value::{Callable, Value};

const NAMES: [&str; 51] = [
    "range",
    "len",
    "sum",
    "min",
    "max",
    "abs",
    "int",
    "float",
    "bool",
    "round",
    "floor",
    "ceil",
    "sqrt",
    "exp",
    "log",
    "sin",
    "cos",
    "tan",
    "tanh",
    "erf",
    "list",
    "map",
    "filter",
    "zip",
    "enumerate",
    "reduce",
    "scan",
    "iter",
    "next",
    "isinstance",
    "unroll",
    "any",
    "all",
    "typeof",
    "pow",
    "str",
    "tuple",
    "divmod",
    "sorted",
    "reversed",
    "trunc",
    "log10",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "isnan",
    "isinf",
    "isfinite",
    "fabs",
];

/// The name, if something that is built in is called so.
pub(super) fn known(name: &str) -> Option<&'static str> {
    let exceptions = EXCEPTIONS.iter().chain(&["ValueError", "UnboundLocalError", "AttributeError", "NameError"]);
    let traits =
        ["Vector", "Stream", "Tuple", "List", "Number", "Integral", "Floating", "Ordered", "Iterable", "Callable"];
    NAMES
        .iter()
        .chain(exceptions)
        .find(|known| **known == name)
        .copied()
        .or_else(|| traits.into_iter().find(|known| *known == name))
}

impl<'a> Tracer<'a> {
    pub(super) fn call_builtin(
        &mut self,
        name: &'static str,
        args: Vec<Value<'a>>,
        keywords: Keywords<'a>,
        span: Span,
    ) -> Res<Value<'a>> {
        let mut args = args;
        match (name, &args[..]) {
            ("sorted", [data]) => return self.sorted(data, keywords, span),
            ("min" | "max", _) if !keywords.is_empty() => return self.extreme_with(name, &args, keywords, span),
            ("round", [_]) if keywords.first().is_some_and(|(keyword, _)| &**keyword == "ndigits") => {
                args.extend(keywords.into_iter().map(|(_, value)| value));
                return self.call_builtin(name, args, Vec::new(), span);
            }
            _ => {}
        }
        for (keyword, value) in keywords {
            match (name, &*keyword, args.len()) {
                ("enumerate" | "sum", "start", 1) => args.push(value),
                _ => return error(span, format!("unsupported: the argument `{keyword}` of `{name}`")),
            }
        }
        match (name, &args[..]) {
            (name, args) if is_exception(name) || EXCEPTIONS.contains(&name) => self.exception(name, args, span),
            ("range", _) => self.range(&args, span),
            ("len", [of]) => self.length(of, span),
            ("sum", [data]) => self.sum(data, &Value::int(0), span),
            ("sum", [data, start]) => self.sum(data, start, span),
            ("min" | "max", [data]) => self.extreme_of(name, data, span),
            ("min" | "max", [first, rest @ ..]) if !rest.is_empty() => {
                let mut best = first.clone();
                for other in rest {
                    best = self.better(name, best, other.clone(), span)?;
                }
                Ok(best)
            }
            ("abs", [x]) if self.has_method(x, "__abs__") => self.call_method(x, "__abs__", Vec::new(), span),
            ("abs", [x]) => self.absolute(x, span),
            ("fabs", [x]) => {
                let x = self.float_of(x, name, span)?;
                self.absolute(&Value::scalar(x), span)
            }
            ("int", [text]) if self.try_type(text) == Some(Ty::Str) => {
                let text = text.data().unwrap_or_else(|| build::bytes(*b""));
                self.parsed_int(text, span)
            }
            ("round", [x, Value::None]) => self.rounded(name, x, span),
            ("round", [x, digits]) => self.rounded_to(x, digits, span),
            ("str", []) => Ok(Value::Const(crate::value::Const::Str("".into()))),
            ("str", [x]) => self.text_of(x, span),
            ("divmod", [x, y]) => {
                let quotient = self.binary(BinaryOp::FloorDiv, x, y, span)?;
                let rest = self.binary(BinaryOp::Mod, x, y, span)?;
                Ok(Value::tuple([quotient, rest]))
            }
            ("reversed", [data]) => self.reversed(data, span),
            ("tuple", []) => Ok(Value::tuple([])),
            ("tuple", [data]) => self.known_values(data, "`tuple`", span).map(Value::tuple),
            ("isnan" | "isinf" | "isfinite", [x]) => self.float_kind(name, x, span),
            ("int" | "round" | "floor" | "ceil" | "trunc", [x]) => self.rounded(name, x, span),
            ("float", [x]) => {
                let x = self.float_of(x, name, span)?;
                Ok(self.scalar(build::cast(x, ScalarKind::F64)))
            }
            ("bool", [x]) => self.truth(x, span),
            (
                "sqrt" | "exp" | "log" | "sin" | "cos" | "tan" | "tanh" | "erf" | "log10" | "asin" | "acos" | "atan"
                | "sinh" | "cosh",
                [x],
            ) => self.float_function(name, x, span),
            ("pow", [x, y]) => self.binary(BinaryOp::Pow, x, y, span),
            ("list", []) => self.list_of(Vec::new(), span),
            ("list", [data]) => self.list_from(data, span),
            ("map", [f, data @ ..]) if !data.is_empty() => {
                let data = data.to_vec();
                Ok(self.stream(Source::Map(f.clone(), data), span))
            }
            ("filter", [f, data]) => Ok(self.stream(Source::Filter(f.clone(), data.clone()), span)),
            ("zip", _) => Ok(self.stream(Source::Zip(args), span)),
            ("enumerate", [data]) => Ok(self.stream(Source::Enumerate(data.clone(), Value::int(0)), span)),
            ("enumerate", [data, start]) => Ok(self.stream(Source::Enumerate(data.clone(), start.clone()), span)),
            ("reduce", [f, data]) => self.reduce(f, data, None, span),
            ("reduce", [f, data, start]) => self.reduce(f, data, Some(start.clone()), span),
            ("scan", [f, data]) => self.scan(f, data, None, span),
            ("scan", [f, data, start]) => self.scan(f, data, Some(start.clone()), span),
            ("iter", [of]) => self.iterator(of, span),
            ("next", [of]) => self.next(of, span),
            ("next", [of, default]) => self.next_or(of, default, span),
            ("isinstance", [value, ty]) => Ok(Value::bool(self.is_instance(value, ty, span)?)),
            ("any" | "all", [data]) => {
                let same = |_: &mut Tracer<'a>, value: Value<'a>| Ok(value);
                self.any(data, name == "any", Rc::new(same), span)
            }
            ("typeof", [value]) => self.type_of(value, span).map(Value::Type),
            ("unroll", _) => error(span, "`unroll` stands after `in` of a `for`"),
            _ => error(span, format!("TypeError: `{name}` does not take {} arguments", args.len())),
        }
    }

    fn range(&mut self, args: &[Value<'a>], span: Span) -> Res<Value<'a>> {
        let mut parts = Vec::new();
        for arg in args {
            parts.push(self.index_of(arg, span)?);
        }
        let (start, stop, step) = match &parts[..] {
            [stop] => (build::i64(0), stop.clone(), build::i64(1)),
            [start, stop] => (start.clone(), stop.clone(), build::i64(1)),
            [start, stop, step] => (start.clone(), stop.clone(), step.clone()),
            _ => return error(span, format!("TypeError: `range` takes 1 to 3 arguments, found {}", args.len())),
        };
        match crate::value::literal_int(&step) {
            Some(0) => return error(span, "ValueError: the step of `range` is zero"),
            Some(_) => {}
            None => {
                let holds = build::ne(step.clone(), build::i64(0));
                self.require(holds, "ValueError", "the step of `range` is zero", Vec::new(), span);
            }
        }
        let count = steps(start.clone(), stop, step.clone());
        let count = self.bind("count", count);
        Ok(self.stream(Source::Range { start, step, count }, span))
    }

    fn length(&mut self, of: &Value<'a>, span: Span) -> Res<Value<'a>> {
        match of {
            Value::Tuple(parts) => Ok(Value::int(parts.len() as i64)),
            Value::Object(..) if self.has_method(of, "__len__") => self.call_method(of, "__len__", Vec::new(), span),
            Value::Stream(stream) if !matches!(stream.source, Source::Range { .. }) => {
                error(span, "TypeError: a generator has no length")
            }
            _ => {
                let length = self.length_of(of, span)?;
                Ok(Value::scalar(length))
            }
        }
    }

    /// Whether a value is of a type, which is known when the program is compiled.
    fn is_instance(&mut self, value: &Value<'a>, ty: &Value<'a>, span: Span) -> Res<bool> {
        let found = self.try_type(value);
        let number = found.as_ref().and_then(Ty::number);
        Ok(match ty {
            Value::Tuple(types) => {
                for ty in types.iter() {
                    if self.is_instance(value, ty, span)? {
                        return Ok(true);
                    }
                }
                false
            }
            Value::Type(ty) => found.as_ref() == Some(ty),
            Value::Trait(of) => {
                let of: Rc<Trait<'a>> = of.clone();
                self.has_trait(value, &of.name)
            }
            Value::Callable(Callable::Class(class, args)) => match &found {
                Some(Ty::Object(object)) => object.class == *class && (args.is_empty() || object.args[..] == args[..]),
                _ => false,
            },
            Value::Callable(Callable::Builtin(name)) => match *name {
                "int" => number.is_some_and(ScalarKind::is_integer),
                "float" => number.is_some_and(ScalarKind::is_float),
                "bool" => found == Some(Ty::BOOL),
                "list" => matches!(value, Value::List(_)),
                "str" => found == Some(Ty::Str),
                "tuple" => matches!(value, Value::Tuple(_)),
                name => self.has_trait(value, name),
            },
            other => {
                let message = format!("`isinstance` needs a type, found {}", self.described(other));
                return error(span, message);
            }
        })
    }

    // Sums and extremes.

    /// The type of what an iterable gives, found by a run that is thrown away.
    fn element_type(&mut self, data: &Value<'a>, span: Span) -> Res<Option<Ty>> {
        if let Value::List(_) = data {
            return Ok(match self.try_type(data) {
                Some(Ty::List(element)) => Some((*element).clone()),
                _ => None,
            });
        }
        let found = Rc::new(std::cell::RefCell::new(None));
        let seen = found.clone();
        let sink: Sink<'a> = Rc::new(move |tracer, value| {
            let ty = tracer.type_of(&value, span)?;
            let known = seen.borrow().clone();
            let ty = match known {
                None => ty,
                Some(known) => match tracer.unify(&known, &ty, span)? {
                    Some(ty) => ty,
                    None => return error(span, format!("the values are {known} and {ty}")),
                },
            };
            *seen.borrow_mut() = Some(ty);
            Ok(Completion::normal())
        });
        let handlers = std::mem::take(&mut self.place.handlers);
        let trial = self.side(|tracer| Ok((tracer.drive(data, span, &sink)?, None)));
        self.place.handlers = handlers;
        trial?;
        let found = found.borrow().clone();
        Ok(found)
    }

    fn sum(&mut self, data: &Value<'a>, start: &Value<'a>, span: Span) -> Res<Value<'a>> {
        if let Value::Tuple(parts) = data {
            let mut sum = start.clone();
            for part in parts.iter() {
                sum = self.binary(BinaryOp::Add, &sum, part, span)?;
            }
            return Ok(sum);
        }
        let element = self.element_type(data, span)?;
        let of = match &element {
            None | Some(Ty::Unknown) => return Ok(start.clone().variable()),
            Some(Ty::Scalar(ScalarKind::Bool)) => Ty::INT,
            Some(ty) => ty.clone(),
        };
        let start_type = self.type_of(start, span)?;
        let total = match (start.const_int(), of.number()) {
            (Some(_), Some(kind)) if kind.is_integer() => Ty::INT,
            (Some(_), Some(_)) => of.clone(),
            _ => match self.unify(&start_type, &of, span)? {
                Some(ty) => ty,
                None => return error(span, format!("TypeError: `sum` does not add {start_type} and {of}")),
            },
        };
        let Some(kind) = total.number() else {
            let add = Value::builtin("+");
            return self.reduce(&add, data, Some(start.clone()), span);
        };
        // A sum of integers is checked once it is made: only the total has to fit.
        let wide = if kind.is_integer() { ScalarKind::I128 } else { kind };
        let start = self.coerced(start, &total, span)?;
        let builder = Tracer::adder(build::cast(start, wide));
        let builder = self.flow.keep("sum", builder);
        let cell = self.store.cell("the sum", None, Value::Builder(builder, total));
        let sink: Sink<'a> = Rc::new(move |tracer, value| {
            let e = tracer.pack(&value, span)?;
            let e = tracer.bind("x", build::cast(e, wide));
            if let Value::Builder(builder, ty) = tracer.store.get(cell).clone() {
                let builder = tracer.flow.keep("sum", build::merge(builder, e));
                tracer.store.set(cell, Value::Builder(builder, ty));
            }
            Ok(Completion::normal())
        });
        let done = self.drive(data, span, &sink)?;
        self.place.pending.extend(&done.exits);
        let Value::Builder(builder, _) = self.store.get(cell).clone() else {
            return error(span, "internal error: no sum");
        };
        let sum = self.bind("sum", build::result(builder));
        if !kind.is_integer() {
            return Ok(Value::scalar(sum));
        }
        let narrow = self.bind("sum", build::cast(sum.clone(), kind));
        let fits = build::eq(build::cast(narrow.clone(), ScalarKind::I128), sum);
        self.require(fits, "OverflowError", "integer overflow", Vec::new(), span);
        Ok(Value::scalar(narrow))
    }

    /// The first of two that is not beaten.
    fn better(&mut self, name: &str, best: Value<'a>, other: Value<'a>, span: Span) -> Res<Value<'a>> {
        let op = if name == "min" { CompareOp::Lt } else { CompareOp::Gt };
        let (best, other) = (best.variable(), other.variable());
        let is_better = self.compare_values(op, &other, &best, span)?;
        self.chosen(&is_better, other, best, span)
    }

    /// One of two values, by a condition that may be known.
    fn chosen(&mut self, cond: &Value<'a>, a: Value<'a>, b: Value<'a>, span: Span) -> Res<Value<'a>> {
        match cond.const_bool() {
            Some(true) => Ok(a),
            Some(false) => Ok(b),
            None => {
                let cond = self.truth(cond, span)?.data().unwrap_or_else(|| build::bool(true));
                self.choose(cond, span, |_| Ok(a), |_| Ok(b))
            }
        }
    }

    fn extreme_of(&mut self, name: &'static str, data: &Value<'a>, span: Span) -> Res<Value<'a>> {
        if let Value::Tuple(parts) = data {
            return self.call_builtin(name, parts.to_vec(), Vec::new(), span);
        }
        let better =
            move |tracer: &mut Tracer<'a>, best: Value<'a>, other: Value<'a>| tracer.better(name, best, other, span);
        let message = format!("`{name}` of nothing");
        self.fold(data, None, Rc::new(better), ("ValueError", &message), span)
    }

    /// `min` and `max` with `key` or `default`.
    fn extreme_with(
        &mut self,
        name: &'static str,
        args: &[Value<'a>],
        keywords: Keywords<'a>,
        span: Span,
    ) -> Res<Value<'a>> {
        let (mut key, mut default) = (None, None);
        for (keyword, value) in keywords {
            match &*keyword {
                "key" => key = Some(value).filter(|key| !matches!(key, Value::None)),
                "default" if args.len() == 1 => default = Some(value),
                _ => return error(span, format!("TypeError: `{name}` takes no argument `{keyword}`")),
            }
        }
        let data = if let [data] = args { data.clone() } else { Value::tuple(args.iter().cloned()) };
        // A value stands behind its key.
        let is_keyed = key.is_some();
        let with_key = move |tracer: &mut Tracer<'a>, value: Value<'a>| match &key {
            Some(key) => {
                let key = tracer.call(key, vec![value.clone()], Vec::new(), span)?;
                Ok(Value::tuple([key.variable(), value]))
            }
            None => Ok(value),
        };
        let better = move |tracer: &mut Tracer<'a>, best: Value<'a>, other: Value<'a>| match (&best, &other) {
            (Value::Tuple(a), Value::Tuple(b)) if is_keyed => {
                let op = if name == "min" { CompareOp::Lt } else { CompareOp::Gt };
                let is_better = tracer.compare_values(op, &b[0], &a[0], span)?;
                tracer.chosen(&is_better, other, best, span)
            }
            _ => tracer.better(name, best, other, span),
        };
        let value_of = |pair: &Value<'a>| match pair {
            Value::Tuple(parts) if is_keyed => parts[1].clone(),
            value => value.clone(),
        };
        match (self.folded(&data, None, Rc::new(with_key), Rc::new(better), span)?, default) {
            (Value::Unbound, Some(default)) => Ok(default.variable()),
            (Value::Unbound, None) => error(span, format!("ValueError: `{name}` of nothing")),
            (Value::Maybe(flag, best), Some(default)) => {
                let best = value_of(&best);
                self.choose(flag, span, |_| Ok(best), |_| Ok(default.variable()))
            }
            (Value::Maybe(flag, best), None) => {
                self.require(flag, "ValueError", &format!("`{name}` of nothing"), Vec::new(), span);
                Ok(value_of(&best))
            }
            (best, _) => Ok(value_of(&best)),
        }
    }

    // Reductions.

    fn reduce(&mut self, f: &Value<'a>, data: &Value<'a>, start: Option<Value<'a>>, span: Span) -> Res<Value<'a>> {
        let f = f.clone();
        let step = move |tracer: &mut Tracer<'a>, sum: Value<'a>, value: Value<'a>| match &f {
            Value::Callable(Callable::Builtin("+")) => tracer.binary(BinaryOp::Add, &sum, &value, span),
            f => tracer.call(f, vec![sum, value], Vec::new(), span),
        };
        self.fold(data, start, Rc::new(step), ("TypeError", "`reduce` of nothing without a start"), span)
    }

    /// Folds the values of an iterable, from the first one on where there is no start.
    fn fold(
        &mut self,
        data: &Value<'a>,
        start: Option<Value<'a>>,
        step: Step<'a>,
        empty: (&str, &str),
        span: Span,
    ) -> Res<Value<'a>> {
        match self.folded(data, start, Rc::new(|_, value| Ok(value)), step, span)? {
            Value::Unbound => error(span, format!("{}: {}", empty.0, empty.1)),
            Value::Maybe(flag, value) => {
                self.require(flag, empty.0, empty.1, Vec::new(), span);
                Ok((*value).clone())
            }
            value => Ok(value),
        }
    }

    /// The same; where there is nothing, it may have no value. Values are prepared one by one.
    fn folded(
        &mut self,
        data: &Value<'a>,
        start: Option<Value<'a>>,
        prepare: Prepare<'a>,
        step: Step<'a>,
        span: Span,
    ) -> Res<Value<'a>> {
        let start = start.map_or(Value::Unbound, Value::variable);
        let cell = self.store.cell("the reduction", None, start);
        let sink: Sink<'a> = Rc::new(move |tracer, value| {
            let value = prepare(tracer, value.variable())?;
            let next = match tracer.store.get(cell).clone() {
                Value::Unbound => value,
                Value::Maybe(flag, sum) => {
                    let (step, other) = (step.clone(), value.clone());
                    let folded = move |tracer: &mut Tracer<'a>| step(tracer, (*sum).clone(), other);
                    tracer.choose(flag, span, folded, |_| Ok(value))?
                }
                sum => step(tracer, sum, value)?,
            };
            tracer.guarded(span, |tracer| {
                tracer.store.set(cell, next.variable());
                Ok(Completion::normal())
            })
        });
        let done = self.drive(data, span, &sink)?;
        self.place.pending.extend(&done.exits);
        Ok(self.store.get(cell).clone())
    }

    /// All results on the way: of a start, it first.
    fn scan(&mut self, f: &Value<'a>, data: &Value<'a>, start: Option<Value<'a>>, span: Span) -> Res<Value<'a>> {
        let list = self.list_of(start.iter().cloned().collect(), span)?;
        let Value::List(results) = list else { return Ok(list) };
        let f = f.clone();
        let begin = start.map_or(Value::Unbound, Value::variable);
        let cell = self.store.cell("the scan", None, begin);
        let sink: Sink<'a> = Rc::new(move |tracer, value| {
            let value = value.variable();
            let next = match tracer.store.get(cell).clone() {
                Value::Unbound => value,
                Value::Maybe(flag, sum) => {
                    let (f, other) = (f.clone(), value.clone());
                    let folded =
                        move |tracer: &mut Tracer<'a>| tracer.call(&f, vec![(*sum).clone(), other], Vec::new(), span);
                    tracer.choose(flag, span, folded, |_| Ok(value))?
                }
                sum => tracer.call(&f, vec![sum, value], Vec::new(), span)?,
            };
            tracer.guarded(span, |tracer| {
                let next = next.variable();
                tracer.append(results, &next, span)?;
                tracer.store.set(cell, next);
                Ok(Completion::normal())
            })
        });
        let done = self.drive(data, span, &sink)?;
        self.place.pending.extend(&done.exits);
        Ok(Value::List(results))
    }
}

/// A step of a reduction.
type Step<'a> = Rc<dyn Fn(&mut Tracer<'a>, Value<'a>, Value<'a>) -> Res<Value<'a>> + 'a>;

/// What a reduction makes of each value before it goes on with it.
type Prepare<'a> = Rc<dyn Fn(&mut Tracer<'a>, Value<'a>) -> Res<Value<'a>> + 'a>;

/// How many numbers there are from `start` on before `stop`.
pub(super) fn steps(start: Expr, stop: Expr, step: Expr) -> Expr {
    let distance = |from: &Expr, to: &Expr| build::intrinsic(Intrinsic::CheckedSub, [to.clone(), from.clone()]);
    let (zero, one) = (build::i64(0), build::i64(1));
    let literal = crate::value::literal_int;
    if let (Some(start), Some(stop), Some(step)) = (literal(&start), literal(&stop), literal(&step))
        && step != 0
    {
        let distance =
            if step > 0 { i128::from(stop) - i128::from(start) } else { i128::from(start) - i128::from(stop) };
        let size = i128::from(step).abs();
        let count = if distance > 0 { (distance - 1) / size + 1 } else { 0 };
        return build::i64(i64::try_from(count).unwrap_or(i64::MAX));
    }
    let up = |step: Expr, from: &Expr, to: &Expr| {
        let last = build::sub(distance(from, to), one.clone());
        build::if_(build::lt(from.clone(), to.clone()), build::add(build::div(last, step), one.clone()), zero.clone())
    };
    match literal(&step) {
        Some(1) if literal(&start) == Some(0) => build::max(stop, zero),
        Some(1) => build::if_(build::lt(start.clone(), stop.clone()), distance(&start, &stop), zero),
        Some(step) if step > 0 => up(build::i64(step), &start, &stop),
        Some(step) => up(build::i64(step.checked_neg().unwrap_or(i64::MAX)), &stop, &start),
        None => {
            let back = build::intrinsic(Intrinsic::CheckedSub, [zero.clone(), step.clone()]);
            build::if_(
                build::gt(step.clone(), zero.clone()),
                up(step.clone(), &start, &stop),
                build::if_(build::lt(step, zero.clone()), up(back, &stop, &start), zero.clone()),
            )
        }
    }
}
