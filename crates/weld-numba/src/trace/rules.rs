//! The typing rules: `unify`, `coercion_distance` and `convert`, a program's own before those that are built in.

use std::rc::Rc;

use weld_core::diag::Span;

use super::pattern::Binds;
use super::{Res, Stop, Tracer, error};
use crate::module::{Def, Rule};
use crate::signature::SigTy;
use crate::types::Ty;
use crate::value::{Callable, Value};

impl<'a> Tracer<'a> {
    /// The type that two types go to where paths meet; none if they do not.
    pub(super) fn unify(&mut self, a: &Ty, b: &Ty, span: Span) -> Res<Option<Ty>> {
        if a == b {
            return Ok(Some(a.clone()));
        }
        let Some((def, swapped)) = self.rule(&self.module.unify, a, b, true, span)? else { return Ok(a.unify(b)) };
        let types = if swapped { [b, a] } else { [a, b] };
        match self.run_rule(&def, types, span)? {
            Ok(Value::Type(ty)) => Ok(Some(ty)),
            Ok(Value::Callable(Callable::Class(class, params))) => {
                self.object_type(class, params.to_vec(), span).map(|ty| Some(Ty::Object(ty)))
            }
            Ok(other) => error(def.span(), format!("`unify` gives a type, found {}", self.described(&other))),
            Err(text) => error(span, format!("TypeError: {text}")),
        }
    }

    /// How far one type is from another; none where nothing converts.
    pub(super) fn distance(&mut self, from: &Ty, to: &Ty, span: Span) -> Res<Option<u32>> {
        if from == to {
            return Ok(Some(0));
        }
        let Some((def, _)) = self.rule(&self.module.distance, from, to, false, span)? else {
            if from.distance(to).is_none() && self.conversion(from, to)?.is_some() {
                return Ok(Some(1));
            }
            return Ok(from.distance(to));
        };
        match self.run_rule(&def, [from, to], span)? {
            Ok(value) => match value.const_int().and_then(|distance| u32::try_from(distance).ok()) {
                Some(distance) => Ok(Some(distance)),
                None => {
                    error(def.span(), format!("`coercion_distance` gives a number, found {}", self.described(&value)))
                }
            },
            Err(text) => {
                self.refusal = Some(text);
                Ok(None)
            }
        }
    }

    /// The rule of two types, and whether they stand the other way round in it.
    fn rule(
        &mut self,
        rules: &'a [Rule<'a>],
        a: &Ty,
        b: &Ty,
        is_symmetric: bool,
        span: Span,
    ) -> Res<Option<(Rc<Def<'a>>, bool)>> {
        for rule in rules {
            let [x, y] = &rule.types;
            if self.is_written(x, a, span)? && self.is_written(y, b, span)? {
                return Ok(Some((rule.def.clone(), false)));
            }
            if is_symmetric && self.is_written(x, b, span)? && self.is_written(y, a, span)? {
                return Ok(Some((rule.def.clone(), true)));
            }
        }
        Ok(None)
    }

    fn is_written(&mut self, written: &SigTy, ty: &Ty, span: Span) -> Res<bool> {
        // Without a look at distances, which rules give.
        let mut binds = Binds::default();
        match self.try_resolve(written, &binds, span)? {
            Some(wanted) => Ok(wanted == *ty),
            None => Ok(self.match_type(written, ty, &mut binds, span)?.is_some()),
        }
    }

    /// Runs a rule when the program is compiled; the text of what it raises is the inner error.
    fn run_rule(&mut self, def: &Rc<Def<'a>>, types: [&Ty; 2], span: Span) -> Res<Result<Value<'a>, String>> {
        let args = types.map(|ty| Value::Type(ty.clone())).to_vec();
        let depths = (self.flow.depth(), self.store.depth(), self.place.frame);
        let handlers = std::mem::take(&mut self.place.handlers);
        let outer = std::mem::replace(&mut self.place.is_rule, true);
        let overloads = [def.clone()].into();
        let specialized = Callable::Function(overloads, 0);
        let result = self.call(&Value::Callable(specialized), args, Vec::new(), span);
        self.place.is_rule = outer;
        self.place.handlers = handlers;
        match result {
            Ok(value) => Ok(Ok(value)),
            Err(Stop::Refused(text)) => {
                self.flow.discard(depths.0);
                self.store.discard(depths.1);
                self.place.frame = depths.2;
                Ok(Err(text))
            }
            Err(stop) => Err(stop),
        }
    }

    /// The program's conversion from one type to another.
    fn conversion(&mut self, from: &Ty, to: &Ty) -> Res<Option<Rc<Def<'a>>>> {
        let Some(overloads) = self.module.functions.get("convert") else { return Ok(None) };
        for def in overloads.iter() {
            let Some(signature) = &def.signature else { continue };
            let [param] = &signature.params[..] else { continue };
            if self.is_written(param, from, def.span())? && self.is_written(&signature.result, to, def.span())? {
                return Ok(Some(def.clone()));
            }
        }
        Ok(None)
    }

    pub(super) fn convert_by_rule(
        &mut self,
        value: &Value<'a>,
        from: &Ty,
        to: &Ty,
        span: Span,
    ) -> Res<Option<Value<'a>>> {
        let Some(def) = self.conversion(from, to)? else { return Ok(None) };
        // In a conversion itself the rules that are built in hold.
        let place = std::ptr::from_ref(def.function);
        if self.is_running(&def) || self.place.converting.contains(&place) {
            return Ok(None);
        }
        self.place.converting.push(place);
        let function = Callable::Function([def].into(), 0);
        let value = self.call(&Value::Callable(function), vec![value.clone()], Vec::new(), span);
        self.place.converting.pop();
        value.map(Some)
    }

    /// Whether the function is being run.
    pub(super) fn is_running(&self, def: &Rc<Def<'a>>) -> bool {
        let mut frame = Some(self.place.frame);
        while let Some(at) = frame {
            if self.frames[at].def.as_ref().is_some_and(|running| Rc::ptr_eq(running, def)) {
                return true;
            }
            frame = self.frames[at].caller;
        }
        false
    }
}
