//! Calls: which definition is meant, its arguments, its body in the place of the call.

use std::rc::Rc;
use std::sync::Arc;

use weld_core::diag::{Diagnostic, Span};
use weld_core::ir::build;
use weld_core::ty::Type;
use weld_frontend::{Function, Shape, Source};
use weld_pysyntax as py;

use super::pattern::{Binds, shown};
use super::{CALLS_MAX, Completion, Frame, Res, Stop, Tracer, error};
use crate::module::{Def, Overloads};
use crate::signature::{SigTy, Signature};
use crate::store::FrameId;
use crate::types::Ty;
use crate::value::{Callable, Value};

/// Arguments by name.
pub(super) type Keywords<'a> = Vec<(Arc<str>, Value<'a>)>;

/// A definition whose parameters have their arguments.
struct Bound<'a> {
    def: Rc<Def<'a>>,
    args: Vec<Value<'a>>,
    binds: Binds,
    distance: u32,
}

impl<'a> Tracer<'a> {
    pub(super) fn call_expr(
        &mut self,
        callee: &'a py::Expr,
        args: &'a [py::Expr],
        keywords: &'a [py::Keyword],
        span: Span,
    ) -> Res<Value<'a>> {
        let function = self.expr(callee)?;
        if let (Value::Callable(Callable::Builtin("bool")), [test], []) = (&function, args, keywords) {
            return self.condition(test);
        }
        let args = args.iter().map(|arg| self.expr(arg)).collect::<Res<Vec<_>>>()?;
        let mut named = Vec::new();
        for keyword in keywords {
            let Some(name) = &keyword.name else {
                return error(keyword.value.span, "unsupported: `**` in a call");
            };
            named.push((name.name.clone(), self.expr(&keyword.value)?));
        }
        let args = match (&function, callee.as_name()) {
            (Value::Callable(Callable::Lambda(..) | Callable::Function(..)), Some(name)) if named.is_empty() => {
                self.of_one_type(name, args, span)?
            }
            _ => args,
        };
        self.call(&function, args, named, span)
    }

    /// The arguments of a call of a function that is an argument itself: of the types that it was called with before.
    fn of_one_type(&mut self, name: &str, args: Vec<Value<'a>>, span: Span) -> Res<Vec<Value<'a>>> {
        let is_param = |def: &Rc<Def<'a>>| def.function.params.params.iter().any(|param| &*param.name.name == name);
        let types: Option<Vec<Ty>> = args.iter().map(|arg| self.try_type(arg)).collect();
        let (true, Some(types)) = (self.frame().def.as_ref().is_some_and(is_param), types) else { return Ok(args) };
        let Some(known) = self.frame().calls.get(name).filter(|known| known.len() == args.len()).cloned() else {
            self.frame_mut().calls.insert(name.into(), types);
            return Ok(args);
        };
        let mut converted = Vec::new();
        for ((arg, ty), known) in args.iter().zip(&types).zip(&known) {
            match self.unify(known, ty, span)? {
                Some(both) => converted.push(self.coerce(arg, &both, span)?),
                None => {
                    let message = format!("`{name}` is called with {known} and with {ty}: an argument has one type");
                    return error(span, message);
                }
            }
        }
        Ok(converted)
    }

    /// A call of a value.
    pub(super) fn call(
        &mut self,
        function: &Value<'a>,
        args: Vec<Value<'a>>,
        keywords: Keywords<'a>,
        span: Span,
    ) -> Res<Value<'a>> {
        match function {
            Value::Callable(Callable::Function(overloads, frame)) => {
                self.invoke(overloads, *frame, args, keywords, span)
            }
            Value::Callable(Callable::Lambda(params, body, frame)) => {
                let args = self.arrange_lambda(params, *frame, args, &keywords, span)?;
                self.guarded_value(span, |tracer| tracer.call_lambda(params, body, *frame, args, span))
            }
            Value::Callable(Callable::Builtin(name)) => {
                self.guarded_value(span, |tracer| tracer.call_builtin(name, args, keywords, span))
            }
            Value::Callable(Callable::Session(function)) => self.call_session(&function.clone(), args, span),
            Value::Callable(Callable::Class(class, params)) => {
                let (class, params) = (*class, params.clone());
                self.guarded_value(span, |tracer| tracer.construct(class, &params, args, keywords, span))
            }
            Value::Callable(Callable::Method(of, name)) => {
                let (of, name) = (of.clone(), name.clone());
                self.guarded_value(span, |tracer| tracer.call_method_with(&of, &name, args, keywords, span))
            }
            Value::Object(..) if self.has_method(function, "__call__") => {
                self.call_method_with(function, "__call__", args, keywords, span)
            }
            Value::Type(ty) => match (ty.clone(), &args[..]) {
                (ty @ (Ty::Scalar(_) | Ty::Str), [value]) => self.cast(value, &ty, span),
                _ => error(span, format!("the type {ty} is no function")),
            },
            other => {
                let message = format!("TypeError: {} is no function", self.described(other));
                error(span, message)
            }
        }
    }

    /// The arguments of a lambda in the order of its parameters, with defaults.
    fn arrange_lambda(
        &mut self,
        params: &'a py::Params,
        frame: FrameId,
        args: Vec<Value<'a>>,
        keywords: &Keywords<'a>,
        span: Span,
    ) -> Res<Vec<Value<'a>>> {
        let mut arranged = args;
        let given = arranged.len();
        let mut used = 0;
        for param in params.params.iter().skip(given) {
            match keywords.iter().find(|(keyword, _)| *keyword == param.name.name) {
                Some((_, value)) => {
                    used += 1;
                    arranged.push(value.clone());
                }
                None => arranged.extend(self.default(frame, param)?),
            }
        }
        if used < keywords.len() || arranged.len() != params.params.len() {
            let found = given + keywords.len();
            let message = format!("a lambda of {} parameters is called with {found} arguments", params.params.len());
            return error(span, message);
        }
        Ok(arranged)
    }

    fn call_lambda(
        &mut self,
        params: &'a py::Params,
        body: &'a py::Expr,
        frame: FrameId,
        args: Vec<Value<'a>>,
        span: Span,
    ) -> Res<Value<'a>> {
        let depth = self.depth_of_calls(span)?;
        let inner = self.within(frame, |tracer| tracer.inner_frame());
        self.frames[inner].caller = Some(self.place.frame);
        self.frames[inner].key = depth;
        for (param, arg) in params.params.iter().zip(args) {
            self.declare(inner, &param.name.name, arg.variable());
        }
        self.within(inner, |tracer| tracer.expr(body))
    }

    /// Counts a call. Calls that nest too deeply are an error.
    fn depth_of_calls(&mut self, span: Span) -> Res<String> {
        self.spent.calls += 1;
        if self.spent.calls > self.limits.instances.saturating_mul(10) {
            let message = format!("the program is too large: more than {} calls", self.limits.instances * 10);
            return Err(Diagnostic::ty(span, message).with_hint("each call of a function is a copy of it").into());
        }
        let (mut depth, mut frame) = (0, Some(self.place.frame));
        while let Some(at) = frame {
            depth += 1;
            frame = self.frames[at].caller;
        }
        match depth > CALLS_MAX {
            true => error(span, format!("recursive: calls nest more than {CALLS_MAX} deep")),
            false => Ok(String::new()),
        }
    }

    /// A call of one of several definitions.
    pub(super) fn invoke(
        &mut self,
        overloads: &Overloads<'a>,
        frame: FrameId,
        args: Vec<Value<'a>>,
        keywords: Keywords<'a>,
        span: Span,
    ) -> Res<Value<'a>> {
        self.invoke_with(overloads, frame, (args, keywords), &Binds::default(), span)
    }

    /// The same, where the signatures' variables stand for something already.
    pub(super) fn invoke_with(
        &mut self,
        overloads: &Overloads<'a>,
        frame: FrameId,
        args: (Vec<Value<'a>>, Keywords<'a>),
        binds: &Binds,
        span: Span,
    ) -> Res<Value<'a>> {
        let bound = self.pick(overloads, frame, args, binds, span)?;
        self.guarded_value(span, |tracer| tracer.run(bound, frame, span))
    }

    /// The definition that the arguments are nearest to.
    fn pick(
        &mut self,
        overloads: &Overloads<'a>,
        frame: FrameId,
        (args, keywords): (Vec<Value<'a>>, Keywords<'a>),
        known: &Binds,
        span: Span,
    ) -> Res<Bound<'a>> {
        let is_one = overloads.len() == 1;
        let mut best: Vec<Bound<'a>> = Vec::new();
        self.refusal = None;
        for def in overloads.iter() {
            let args = match self.arrange(def, frame, &args, &keywords, span) {
                Ok(args) => args,
                Err(stop) if is_one => return Err(stop),
                Err(_) => continue,
            };
            let mut binds = known.clone();
            let distance = match full_signature(def, args.len()) {
                Some(signature) => self.match_signature(&signature, &args, &mut binds, span)?,
                None => Some(0),
            };
            let Some(distance) = distance else { continue };
            let least = best.first().map_or(u32::MAX, |bound| bound.distance);
            if distance < least {
                best.clear();
            }
            if distance <= least {
                best.push(Bound { def: def.clone(), args, binds, distance });
            }
        }
        match best.len() {
            1 => Ok(best.remove(0)),
            0 => {
                let all: Vec<_> = args.into_iter().chain(keywords.into_iter().map(|(_, value)| value)).collect();
                self.no_overload(overloads, &all, span)
            }
            _ => {
                let name = overloads[0].name();
                let of: Vec<String> = args.iter().map(|arg| self.described(arg)).collect();
                let message = format!("the call of `{name}` with ({}) is ambiguous", of.join(", "));
                let places = best.iter().map(|bound| bound.def.span());
                let error =
                    places.fold(Diagnostic::ty(span, message), |error, at| error.with_label(at, "this one fits"));
                Err(error.into())
            }
        }
    }

    fn no_overload<T>(&mut self, overloads: &Overloads<'a>, args: &[Value<'a>], span: Span) -> Res<T> {
        let name = overloads[0].name();
        let found: Vec<String> = args.iter().map(|arg| self.described(arg)).collect();
        let found = found.join(", ");
        let message = match &overloads[..] {
            [def] => {
                let wanted = def.signature.as_ref().map_or(String::new(), |signature| {
                    let params: Vec<String> = signature.params.iter().map(shown).collect();
                    let constraint = |(var, bound): &(Arc<str>, SigTy)| format!("{var}: {}", shown(bound));
                    let constraints: Vec<String> = signature.constraints.iter().map(constraint).collect();
                    match constraints.is_empty() {
                        true => format!("({})", params.join(", ")),
                        false => format!("({}) where {}", params.join(", "), constraints.join(", ")),
                    }
                });
                format!("TypeError: `{name}` expects {wanted}, found ({found})")
            }
            _ => format!("TypeError: no overload of `{name}` takes ({found})"),
        };
        match self.refusal.take() {
            Some(text) if !text.is_empty() => error(span, format!("{message}: {text}")),
            _ => error(span, message),
        }
    }

    /// The arguments in the order of the parameters, with defaults.
    fn arrange(
        &mut self,
        def: &Rc<Def<'a>>,
        frame: FrameId,
        args: &[Value<'a>],
        keywords: &Keywords<'a>,
        span: Span,
    ) -> Res<Vec<Value<'a>>> {
        let params = &def.function.params.params;
        let name = def.name();
        if let Some((other, _)) = keywords.iter().find(|(keyword, _)| params.iter().all(|p| p.name.name != *keyword)) {
            return error(span, format!("TypeError: `{name}` has no argument `{other}`"));
        }
        if args.len() > params.len() {
            return error(span, format!("TypeError: `{name}` takes {} arguments, found {}", params.len(), args.len()));
        }
        let mut arranged = args.to_vec();
        let mut used = 0;
        for param in &params[args.len()..] {
            let named = keywords.iter().find(|(keyword, _)| *keyword == param.name.name);
            used += usize::from(named.is_some());
            match (named, &param.default) {
                (Some((_, value)), _) => arranged.push(value.clone()),
                (None, Some(_)) => arranged.extend(self.default(frame, param)?),
                (None, None) => {
                    return error(
                        span,
                        format!("TypeError: the argument `{}` of `{name}` is missing", param.name.name),
                    );
                }
            }
        }
        if used < keywords.len() {
            let known = |keyword: &Arc<str>| params[args.len()..].iter().any(|param| param.name.name == *keyword);
            let other = keywords.iter().find(|(keyword, _)| !known(keyword)).map_or("", |(keyword, _)| keyword);
            return error(span, format!("TypeError: `{name}` takes no argument `{other}` beside the others"));
        }
        Ok(arranged)
    }

    /// Runs a definition with its arguments.
    fn run(&mut self, bound: Bound<'a>, parent: FrameId, span: Span) -> Res<Value<'a>> {
        let Bound { def, args, mut binds, .. } = bound;
        let signature = full_signature(&def, args.len());
        let args = match &signature {
            Some(signature) => self.convert_args(signature, args, &mut binds, span)?,
            None => args,
        };
        let value = match (&def.weld, def.is_empty && !def.is_generator) {
            (Some(_), _) => self.call_generated(&def, args, &binds, span)?,
            (None, true) if def.signature.is_some() => {
                return error(span, format!("`{}` has no implementation: `@codegen` gives it one", def.name()));
            }
            _ => self.run_body(&def, args, &binds, parent, span)?,
        };
        match &signature {
            Some(signature) => self.convert_result(&def, signature, value, &mut binds, span),
            None => self.convert_annotated(&def, value, span),
        }
    }

    fn convert_args(
        &mut self,
        signature: &Signature,
        args: Vec<Value<'a>>,
        binds: &mut Binds,
        span: Span,
    ) -> Res<Vec<Value<'a>>> {
        let mut converted = Vec::new();
        for (written, arg) in signature.params.iter().zip(args) {
            converted.push(match (written, &arg) {
                (SigTy::List(_), Value::Stream(_)) => self.list_from(&arg, span)?,
                (SigTy::Named(name, _), Value::List(_) | Value::Tuple(_)) if &**name == "Stream" => {
                    self.iterator(&arg, span)?
                }
                _ => match self.try_resolve(written, binds, span)? {
                    Some(ty) if self.try_type(&arg).is_some() => self.coerce(&arg, &ty, span)?,
                    _ => arg,
                },
            });
        }
        Ok(converted)
    }

    /// The result as the annotation says, where this is a type of the language.
    fn convert_annotated(&mut self, def: &Rc<Def<'a>>, value: Value<'a>, span: Span) -> Res<Value<'a>> {
        let written = def.function.returns.as_ref().filter(|_| !def.is_generator).map(crate::class::written_type);
        let Some(Ok(written)) = written else { return Ok(value) };
        let ty = self.try_resolve(&written, &Binds::default(), span)?;
        let (Some(ty), Some(found)) = (ty, self.try_type(&value)) else { return Ok(value) };
        match self.coerce(&value, &ty, def.span()) {
            Ok(value) => Ok(value),
            Err(Stop::Error(_)) => {
                error(def.span(), format!("the result of `{}` is {found}, its annotation says {ty}", def.name()))
            }
            Err(stop) => Err(stop),
        }
    }

    fn convert_result(
        &mut self,
        def: &Rc<Def<'a>>,
        signature: &Signature,
        value: Value<'a>,
        binds: &mut Binds,
        span: Span,
    ) -> Res<Value<'a>> {
        let value = match (&signature.result, &value) {
            (SigTy::List(_), Value::Stream(_)) => self.list_from(&value, span)?,
            _ => value,
        };
        let Some(found) = self.try_type(&value) else { return Ok(value) };
        if let Some(ty) = self.try_resolve(&signature.result, binds, span)? {
            return match self.coerce(&value, &ty, def.span()) {
                Ok(value) => Ok(value),
                Err(Stop::Error(_)) => {
                    error(def.span(), format!("the result of `{}` is {found}, its signature says {ty}", def.name()))
                }
                Err(stop) => Err(stop),
            };
        }
        match self.match_type(&signature.result, &found, binds, span)? {
            Some(_) => Ok(value),
            None => {
                let wanted = shown(&signature.result);
                error(def.span(), format!("the result of `{}` is {found}, its signature says {wanted}", def.name()))
            }
        }
    }

    /// The key of a call among those that are being run: one like it would never end.
    fn key(&self, args: &[Value<'a>]) -> String {
        let one = |arg: &Value<'a>| match arg {
            Value::Callable(Callable::Lambda(_, body, frame)) => format!("lambda {body:p} {frame}"),
            Value::Callable(Callable::Function(overloads, frame)) => format!("def {:p} {frame}", overloads[0]),
            Value::Stream(stream) => format!("stream {:p}", Rc::as_ptr(stream)),
            Value::Const(known) => known.ty().to_string(),
            other => self.described(other),
        };
        args.iter().map(one).collect::<Vec<_>>().join(",")
    }

    fn check_recursion(&self, def: &Rc<Def<'a>>, key: &str, span: Span) -> Res<()> {
        let mut frame = Some(self.place.frame);
        while let Some(at) = frame {
            let running = &self.frames[at];
            let is_same = |other: &Rc<Def<'a>>| std::ptr::eq(other.function, def.function);
            if running.def.as_ref().is_some_and(is_same) && running.key == key {
                return Err(Diagnostic::ty(span, format!("recursive: `{}` calls itself", def.name()))
                    .with_hint("Weld has no recursion: write a loop")
                    .into());
            }
            frame = running.caller;
        }
        Ok(())
    }

    /// The frame of a call, its parameters bound.
    pub(super) fn call_frame(
        &mut self,
        def: &Rc<Def<'a>>,
        args: Vec<Value<'a>>,
        binds: &Binds,
        parent: FrameId,
        span: Span,
    ) -> Res<FrameId> {
        let key = self.key(&args);
        self.check_recursion(def, &key, span)?;
        self.depth_of_calls(span)?;
        let name = format!("the result of `{}`", def.name());
        let result = self.store.cell(&name, None, Value::Nothing);
        let label = self.label();
        let id = self.store.frame();
        let is_list = |arg: &Value<'a>| match arg {
            Value::List(cell) => Some(*cell),
            _ => None,
        };
        let is_captured = !def.captured.is_empty();
        self.frames.push(Frame {
            parent: Some(parent),
            caller: Some(self.place.frame),
            def: Some(def.clone()),
            key,
            result,
            label,
            sink: None,
            arguments: args.iter().filter_map(is_list).collect(),
            cursors: Vec::new(),
            calls: Default::default(),
            is_captured,
        });
        for (var, bound) in binds.iter() {
            if !self.is_variable(parent, var) {
                self.declare_parameter(id, var, bound);
            }
        }
        let has_self = def.signature.as_ref().is_some_and(|signature| signature.params.len() < args.len());
        for (index, (param, arg)) in def.function.params.params.iter().zip(args).enumerate() {
            let number = index.wrapping_sub(usize::from(has_self));
            let arg = if def.specialize.contains(&number) { arg } else { arg.variable() };
            self.declare(id, &param.name.name, arg);
        }
        Ok(id)
    }

    /// Whether a frame or one around it has a variable of that name.
    pub(super) fn is_variable(&self, frame: FrameId, name: &str) -> bool {
        let mut frame = Some(frame);
        while let Some(at) = frame {
            if self.store.variable(at, name).is_some() {
                return true;
            }
            frame = self.frames[at].parent;
        }
        false
    }

    fn run_body(
        &mut self,
        def: &Rc<Def<'a>>,
        args: Vec<Value<'a>>,
        binds: &Binds,
        parent: FrameId,
        span: Span,
    ) -> Res<Value<'a>> {
        let frame = self.call_frame(def, args, binds, parent, span)?;
        if def.is_generator {
            return Ok(self.stream(crate::stream::Source::Call(def.clone(), frame), span));
        }
        let done = self.within(frame, |tracer| {
            let done = tracer.block(&def.function.body)?;
            tracer.fall_off(done, span)
        })?;
        let done = self.land(self.frames[frame].label, done);
        let value = self.store.get(self.frames[frame].result).clone();
        // No function from inside is in a value of the run.
        if !done.normal || self.try_type(&value).is_some() {
            self.frames[frame].is_captured = false;
        }
        self.forget(frame);
        if !done.normal {
            return Err(Stop::Exit(done));
        }
        self.place.pending.extend(&done.exits);
        Ok(value)
    }

    /// The end of a function that was not left: it gives None.
    fn fall_off(&mut self, done: Completion, span: Span) -> Res<Completion> {
        if !done.normal {
            return Ok(done);
        }
        let (result, label) = (self.frame().result, self.frame().label);
        self.after(done, span, |tracer| {
            tracer.store.set(result, Value::None);
            tracer.store.set(super::EXIT, Value::int(label));
            Ok(Completion::exit(label))
        })
    }

    /// Lets the variables of a frame go that is no longer of use.
    pub(super) fn forget(&mut self, frame: FrameId) {
        if !self.frames[frame].is_captured {
            for cell in self.store.variables(frame) {
                self.store.set(cell, Value::Unbound);
            }
        }
    }

    // Functions that are no Python.

    /// A call of the Weld text that stands for a function.
    fn call_generated(&mut self, def: &Rc<Def<'a>>, args: Vec<Value<'a>>, binds: &Binds, span: Span) -> Res<Value<'a>> {
        let mut packed = Vec::new();
        for arg in &args {
            let value = self.pack(arg, span)?;
            packed.push(self.bind("arg", value));
        }
        let function = match self.generated.get(&std::ptr::from_ref(def.function)) {
            Some(known) => known.clone(),
            None => {
                let function = Arc::new(generated(def)?);
                self.generated.insert(def.function, function.clone());
                function
            }
        };
        let wanted = function.program.params.iter().map(|param| &param.ty);
        if !wanted.clone().eq(packed.iter().map(|arg| &arg.ty)) {
            let list = |types: Vec<&Type>| types.iter().map(|ty| ty.to_string()).collect::<Vec<_>>().join(", ");
            let found = list(packed.iter().map(|arg| &arg.ty).collect());
            let message =
                format!("the Weld text of `{}` takes ({}), found ({found})", def.name(), list(wanted.collect()));
            return error(span, message);
        }
        let result = self.sources.call(&function, packed, self.flow.names());
        let result = self.flow.keep(def.name(), result);
        // What lies as the type that the signature says is a value of it.
        let said = def.signature.as_ref().map(|signature| signature.result.clone());
        let said = said.map(|said| self.try_resolve(&said, binds, span)).transpose()?.flatten();
        match said.filter(|ty| ty.weld() == result.ty).or_else(|| of_weld(&result.ty)) {
            Some(ty) => Ok(self.value_of(result, &ty)),
            None => error(span, format!("the Weld text of `{}` gives {}", def.name(), result.ty)),
        }
    }

    fn call_session(&mut self, function: &Arc<Function>, args: Vec<Value<'a>>, span: Span) -> Res<Value<'a>> {
        let name = function.source.name.clone();
        if args.len() != function.params.len() {
            let message =
                format!("TypeError: `{name}` takes {} arguments, found {}", function.params.len(), args.len());
            return error(span, message);
        }
        let mut packed = Vec::new();
        for (param, arg) in function.params.iter().zip(&args) {
            let Some(ty) = of_shape(&param.shape) else {
                return error(span, format!("the parameter `{}` of `{name}` is no type of Python's", param.name));
            };
            let arg = self.coerced(arg, &ty, span)?;
            packed.push(self.bind(&param.name, arg));
        }
        let Some(ty) = of_shape(&function.output()) else {
            return error(span, format!("the result of `{name}` is no type of Python's"));
        };
        let result = self.sources.call(function, packed, self.flow.names());
        let result = self.flow.keep(&name, result);
        Ok(self.value_of(result, &ty))
    }

    /// `Int32(x)`.
    pub(super) fn cast(&mut self, value: &Value<'a>, ty: &Ty, span: Span) -> Res<Value<'a>> {
        use weld_core::ty::ScalarKind;
        let (Ty::Scalar(kind), Some(Ty::Scalar(from))) = (ty, self.try_type(value)) else {
            return self.coerce(value, ty, span);
        };
        let value =
            if from.is_float() && kind.is_integer() { self.rounded("int", value, span)? } else { value.clone() };
        let Some(e) = value.data() else { return Ok(value) };
        let e = self.bind("x", e);
        let cast = self.bind("x", build::cast(e.clone(), *kind));
        if kind.is_integer() && e.ty.as_scalar().is_some_and(|from| from.is_integer()) {
            let wide = |e: weld_core::ir::Expr| build::cast(e, ScalarKind::I128);
            let fits = build::eq(wide(cast.clone()), wide(e));
            self.require(fits, "OverflowError", &format!("the number does not fit {ty}"), Vec::new(), span);
        }
        Ok(Value::scalar(cast))
    }
}

/// A definition's signature with all parameters: that of a method may leave `self` out.
fn full_signature(def: &Def<'_>, params: usize) -> Option<Signature> {
    let mut signature = def.signature.clone()?;
    if signature.params.len() + 1 == params {
        // What a signature leaves out: the object of a method, else a last parameter that has a default.
        let at = if def.is_method { 0 } else { params - 1 };
        signature.params.insert(at, SigTy::Var("self".into()));
    }
    Some(signature)
}

/// The function of a Weld text.
fn generated(def: &Def<'_>) -> Res<Function> {
    let Some((text, place)) = &def.weld else { return error(def.span(), "internal error: no Weld text") };
    let wrong = |errors: Vec<Diagnostic>| -> Stop {
        let first = errors.first().map_or(String::new(), |error| error.message.clone());
        Diagnostic::ty(*place, format!("the Weld text of `{}`: {first}", def.name())).into()
    };
    let program = weld_core::parse_program(text).map_err(wrong)?;
    let param =
        |param: &weld_core::ir::Param| (program.names.name(param.sym).to_owned(), Shape::Plain(param.ty.clone()));
    let params: Vec<(String, Shape)> = program.params.iter().map(param).collect();
    let result = Shape::Plain(program.body.ty.clone());
    let source = Arc::new(Source::new(def.name().to_string(), text));
    Function::of_program(params, result, program, source).map_err(wrong)
}

/// The type of the language that lies so in Weld.
fn of_weld(ty: &Type) -> Option<Ty> {
    Some(match ty {
        Type::Scalar(weld_core::ty::ScalarKind::I128) => return None,
        Type::Scalar(kind) => Ty::Scalar(*kind),
        Type::Vec(element) if **element == Type::U8 => Ty::Str,
        Type::Vec(element) => Ty::list(of_weld(element)?),
        Type::Struct(parts) => Ty::Tuple(parts.iter().map(of_weld).collect::<Option<_>>()?),
        _ => return None,
    })
}

fn of_shape(shape: &Shape) -> Option<Ty> {
    Some(match shape {
        Shape::Void => Ty::None,
        Shape::Plain(ty) => return of_weld(ty),
        Shape::Text => Ty::Str,
        Shape::List(element) => Ty::list(of_shape(element)?),
        Shape::Array(array) if array.rank() == 1 => Ty::list(Ty::Scalar(array.element)),
        Shape::Array(_) => return None,
        Shape::Tuple(parts) => Ty::Tuple(parts.iter().map(of_shape).collect::<Option<_>>()?),
        Shape::Record(parts) => Ty::Tuple(parts.iter().map(|(_, part)| of_shape(part)).collect::<Option<_>>()?),
    })
}
