//! Aggregates as functions of SQL: `__init__`, `step`, `merge` and `result` as programs over the fields of the state.

use std::rc::Rc;
use std::sync::Arc;

use weld_core::diag::{Diagnostic, Span};
use weld_core::ir::{Expr, build};
use weld_frontend::{Aggregate, Function, Library, Limits, Request, Shape, Source, Sources};

use super::entry::{Entry, Param, error_of};
use super::{Completion, Res, Sink, Stop, Tracer, error};
use crate::module::{Class, Module};
use crate::stream::Source as StreamSource;
use crate::types::{ObjectTy, Ty};
use crate::value::Value;

/// What all the programs of an aggregate are made from.
pub(crate) struct Maker<'a, 'r> {
    pub(crate) module: &'a Module<'a>,
    pub(crate) class: (usize, Rc<Class<'a>>),
    pub(crate) request: &'r Request<'r>,
    pub(crate) source: Source,
    pub(crate) context: (&'a Library, Limits),
}

/// A program's parameters by their names and types, and what it gives of them.
type Made<'a, 'm> = &'m dyn Fn(&mut Tracer<'a>, &[Expr]) -> Res<(Expr, Ty)>;

impl<'a> Maker<'a, '_> {
    pub(crate) fn aggregate(&self) -> Result<Aggregate, Vec<Diagnostic>> {
        let (index, class) = (self.class.0, &self.class.1);
        let place = class.span;
        let mut tracer = self.tracer();
        for method in ["step", "merge", "result"] {
            tracer.check_method(class, method, place).map_err(|stop| vec![error_of(stop, place)])?;
        }
        let (params, bound) = tracer.params(&Entry::Aggregate(index, class.clone()), self.request)?;
        if params.is_empty() {
            return Err(vec![Diagnostic::ty(place, "an aggregate takes at least one argument")]);
        }
        let state = tracer.object_type(index, Vec::new(), place).map_err(|stop| vec![error_of(stop, place)])?;
        let state = || Param { name: "state".into(), ty: Ty::Object(state.clone()) };
        let init = self.program(&[], &[], &|tracer, _| {
            let object = tracer.construct(index, &[], Vec::new(), Vec::new(), place)?;
            tracer.packed(&object, place)
        })?;
        // The arguments come in the order of the request, behind the state.
        let order: Vec<usize> = std::iter::once(0).chain(bound.iter().map(|index| index + 1)).collect();
        let with_state = |params: &[Param], wrap: &dyn Fn(Ty) -> Ty| {
            let rows = params.iter().map(|param| Param { name: param.name.clone(), ty: wrap(param.ty.clone()) });
            std::iter::once(state()).chain(rows).collect::<Vec<Param>>()
        };
        let rows = with_state(&params, &|ty| ty);
        let step = self.program(&rows, &order, &|tracer, variables| {
            let object = tracer.state_of(&variables[0], &rows[0].ty);
            let args: Vec<Value<'a>> = rows.iter().zip(variables).skip(1).map(|(p, v)| tracer.argument(p, v)).collect();
            tracer.changed(&object, "step", args, place)
        })?;
        let lists = with_state(&params, &Ty::list);
        let fold = self.program(&lists, &order, &|tracer, variables| {
            let object = tracer.state_of(&variables[0], &lists[0].ty);
            let args: Vec<Value<'a>> =
                lists.iter().zip(variables).skip(1).map(|(p, v)| tracer.argument(p, v)).collect();
            tracer.step_over(&object, args, place)?;
            tracer.packed(&object, place)
        })?;
        let both = [state(), Param { name: "other".into(), ..state() }];
        let merge = self.program(&both, &[0, 1], &|tracer, variables| {
            let object = tracer.state_of(&variables[0], &both[0].ty);
            let other = tracer.argument(&both[1], &variables[1]);
            tracer.changed(&object, "merge", vec![other], place)
        })?;
        let finish = self.program(&[state()], &[0], &|tracer, variables| {
            let object = tracer.state_of(&variables[0], &state().ty);
            let value = tracer.call_method(&object, "result", Vec::new(), place);
            tracer.given(value, self.request.returns, place)
        })?;
        if let Some(declared) = self.request.returns {
            let wrong = |message| vec![Diagnostic::ty(place, format!("the result: {message}"))];
            finish.result.fits(declared).map_err(wrong)?;
        }
        Ok(Aggregate::new(init, step, fold, merge, finish))
    }

    fn tracer(&self) -> Tracer<'a> {
        Tracer::new(self.module, self.context.0, self.context.1, Sources::new(self.source.clone()))
    }

    /// The program of these parameters, which it has in that order.
    fn program(&self, params: &[Param], order: &[usize], make: Made<'a, '_>) -> Result<Function, Vec<Diagnostic>> {
        let place = self.class.1.span;
        let mut tracer = self.tracer();
        let variables: Vec<Expr> =
            params.iter().map(|param| build::param(tracer.flow.names(), &param.name, param.ty.weld())).collect();
        let (body, ty) = make(&mut tracer, &variables).map_err(|stop| vec![error_of(stop, place)])?;
        let body = tracer.flow.finish(body);
        self.request.options.limits.check_nodes(&body, place).map_err(|error| vec![error])?;
        let named = |index: &usize| {
            let param = &params[*index];
            (param.name.clone(), param.ty.shape(), variables[*index].clone())
        };
        let named: Vec<(String, Shape, Expr)> = order.iter().map(named).collect();
        let written: Vec<String> = order.iter().map(|index| params[*index].ty.to_string()).collect();
        let function = Function::new(named, ty.shape(), body, tracer.flow.into_names(), tracer.sources.finish())?;
        Ok(function.typed(ty.to_string()).taking(written).at(place))
    }
}

impl<'a> Tracer<'a> {
    pub(super) fn check_method(&self, class: &Rc<Class<'a>>, method: &str, span: Span) -> Res<()> {
        match class.methods.contains_key(method) {
            true => Ok(()),
            false => error(span, format!("the aggregate `{}` has no method `{method}`", class.name)),
        }
    }

    fn packed(&mut self, object: &Value<'a>, span: Span) -> Res<(Expr, Ty)> {
        let ty = self.type_of(object, span)?;
        Ok((self.pack(object, span)?, ty))
    }

    /// What the object is once the method was called.
    fn changed(&mut self, object: &Value<'a>, method: &str, args: Vec<Value<'a>>, span: Span) -> Res<(Expr, Ty)> {
        match self.call_method(object, method, args, span) {
            // A method that always raises changes nothing.
            Err(Stop::Exit(done)) if done.diverges() => {}
            done => drop(done?),
        }
        self.packed(object, span)
    }

    /// Calls `step` for each row of these lists.
    pub(super) fn step_over(&mut self, object: &Value<'a>, lists: Vec<Value<'a>>, span: Span) -> Res<()> {
        let state = object.clone();
        let is_one = lists.len() == 1;
        let rows = if is_one { lists[0].clone() } else { self.stream(StreamSource::Zip(lists), span) };
        let sink: Sink<'a> = Rc::new(move |tracer, row| {
            let row = match &row {
                Value::Tuple(parts) if !is_one => parts.to_vec(),
                _ => vec![row],
            };
            tracer.call_method(&state, "step", row, span)?;
            Ok(Completion::normal())
        });
        self.drive(&rows, span, &sink)?;
        Ok(())
    }

    /// A state as an object that may be changed: nobody else has it.
    fn state_of(&mut self, e: &Expr, ty: &Ty) -> Value<'a> {
        match ty {
            Ty::List(element) => {
                Value::List(self.store.cell("list", None, Value::Elements(e.clone(), (**element).clone())))
            }
            Ty::Tuple(parts) => {
                let part = |(index, ty)| self.state_of(&build::field(e.clone(), index), ty);
                Value::tuple(parts.iter().enumerate().map(part).collect::<Vec<_>>())
            }
            Ty::Object(object) => self.state_object(e, object),
            _ => self.value_of(e.clone(), ty),
        }
    }

    fn state_object(&mut self, e: &Expr, object: &Rc<ObjectTy>) -> Value<'a> {
        let field = |(index, (_, ty)): (usize, &(Arc<str>, Ty))| self.state_of(&build::field(e.clone(), index), ty);
        let fields: Vec<Value<'a>> = object.fields.iter().enumerate().map(field).collect();
        Value::Object(self.store.cell("state", None, Value::Fields(fields.into())), object.clone())
    }
}
