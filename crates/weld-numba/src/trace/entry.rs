//! The definition that is called from outside: its arguments, its result, aggregates.

use std::rc::Rc;
use std::sync::Arc;

use weld_core::diag::{Diagnostic, Span};
use weld_core::ir::{Expr, build};
use weld_frontend::{Arg, DataType, Function, Known, Library, Limits, Request, Source, Sources, missing};

use super::pattern::Binds;
use super::{Res, Stop, Tracer, error};
use crate::module::{Class, Def, Module, Overloads};
use crate::signature::{SigTy, Signature, parse_type};
use crate::types::Ty;
use crate::value::{Callable, Value};

/// What is called.
pub(crate) enum Entry<'a> {
    Function(Overloads<'a>),
    Aggregate(usize, Rc<Class<'a>>),
}

impl<'a> Entry<'a> {
    pub(crate) fn name(&self) -> &str {
        match self {
            Entry::Function(overloads) => overloads[0].name(),
            Entry::Aggregate(_, class) => &class.name,
        }
    }

    fn definitions(&self) -> Vec<Rc<Def<'a>>> {
        match self {
            Entry::Function(overloads) => overloads.to_vec(),
            Entry::Aggregate(_, class) => class.methods.get("step").map(|step| step.to_vec()).unwrap_or_default(),
        }
    }

    fn span(&self) -> Span {
        match self {
            Entry::Function(overloads) => overloads[0].span(),
            Entry::Aggregate(_, class) => class.span,
        }
    }
}

/// A parameter of the entry.
pub(super) struct Param {
    pub(super) name: String,
    pub(super) ty: Ty,
}

/// Compiles a definition.
pub(crate) fn function<'a>(
    module: &'a Module<'a>,
    entry: &Entry<'a>,
    request: &Request<'_>,
    source: Source,
    context: (&'a Library, Limits),
) -> Result<Function, Vec<Diagnostic>> {
    let mut tracer = Tracer::new(module, context.0, context.1, Sources::new(source));
    let (params, bound) = tracer.params(entry, request)?;
    let mut variables = Vec::new();
    for param in &params {
        variables.push(build::param(tracer.flow.names(), &param.name, param.ty.weld()));
    }
    let made = tracer.entry(entry, &params, &variables, request.returns);
    let (body, ty) = made.map_err(|stop| vec![error_of(stop, entry.span())])?;
    let body = tracer.flow.finish(body);
    request.options.limits.check_nodes(&body, entry.span()).map_err(|error| vec![error])?;
    let named = bound.iter().map(|index| {
        let param = &params[*index];
        (param.name.clone(), param.ty.shape(), variables[*index].clone())
    });
    let result = ty.shape();
    if let Some(declared) = request.returns {
        let wrong = |message| vec![Diagnostic::ty(entry.span(), format!("the result: {message}"))];
        result.fits(declared).map_err(wrong)?;
    }
    let written: Vec<String> = bound.iter().map(|index| params[*index].ty.to_string()).collect();
    let named = named.collect();
    let function = Function::new(named, result, body, tracer.flow.into_names(), tracer.sources.finish())?;
    Ok(function.typed(ty.to_string()).taking(written).at(entry.span()))
}

pub(super) fn error_of(stop: Stop, entry: Span) -> Diagnostic {
    match stop {
        Stop::Error(error) => *error,
        Stop::Refused(text) => Diagnostic::ty(entry, text),
        Stop::Exit(_) | Stop::Materialise(_) => Diagnostic::ty(entry, "the function never returns a value"),
    }
}

impl<'a> Tracer<'a> {
    /// The parameters in the order of the text, and which of them each argument is for.
    pub(super) fn params(
        &mut self,
        entry: &Entry<'a>,
        request: &Request<'_>,
    ) -> Result<(Vec<Param>, Vec<usize>), Vec<Diagnostic>> {
        let place = entry.span();
        let skip = usize::from(matches!(entry, Entry::Aggregate(..)));
        let definitions = entry.definitions();
        let Some(first) = definitions.first() else {
            return Err(vec![Diagnostic::ty(place, "an aggregate has a method `step`")]);
        };
        let names_of = |def: &Rc<Def<'a>>| -> Vec<Arc<str>> {
            def.function.params.params.iter().skip(skip).map(|param| param.name.name.clone()).collect()
        };
        let given = request.args.given();
        // Of overloads those with so many parameters.
        let fits = |def: &&Rc<Def<'a>>| given.is_none_or(|args| names_of(def).len() == args.len());
        let def = definitions.iter().find(fits).unwrap_or(first).clone();
        let names = names_of(&def);
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        let bound = request.args.bind(&names, place, request.options.sql)?;
        let has_default = |index: usize| def.function.params.params[index + skip].default.is_some();
        let absent: Vec<usize> = (0..names.len()).filter(|index| !bound.contains(index)).collect();
        if !absent.iter().all(|index| has_default(*index))
            && let Some(error) = missing(&names, &bound, place)
        {
            return Err(vec![error]);
        }
        let signature = self.entry_signature(entry, &definitions);
        let mut params = Vec::new();
        let mut errors = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let position = bound.iter().position(|other| *other == index);
            let arg = position.and_then(|position| given.map(|args| &args[position]));
            if position.is_none() {
                continue;
            }
            let written = signature.as_ref().and_then(|signature| signature.params.get(index));
            let annotation = def.function.params.params[index + skip].annotation.as_ref();
            let ty = self.param_type(written, annotation, arg, place);
            let ty = match (ty, skip) {
                (Ok(Some(ty)), 0) => Ok(Some(ty)),
                (Ok(Some(ty)), _) if is_from_signature(written, arg) => Ok(Some(Ty::list(ty))),
                (other, _) => other,
            };
            match ty {
                Ok(Some(ty)) => params.push(Param { name: (*name).to_owned(), ty }),
                Ok(None) => errors.push(
                    Diagnostic::ty(place, format!("the type of the argument `{name}` is not known"))
                        .with_hint("give it with the argument, or write a signature"),
                ),
                Err(stop) => errors.push(error_of(stop, place)),
            }
        }
        // Parameters with defaults that nobody passes are none of the function's.
        let kept: Vec<usize> = (0..names.len()).filter(|index| bound.contains(index)).collect();
        let bound = bound.iter().filter_map(|index| kept.iter().position(|kept| kept == index)).collect();
        if errors.is_empty() { Ok((params, bound)) } else { Err(errors) }
    }

    fn entry_signature(&self, entry: &Entry<'a>, definitions: &[Rc<Def<'a>>]) -> Option<Signature> {
        match (entry, definitions) {
            (Entry::Aggregate(_, class), _) if matches!(class.aggregate, Some(Some(_))) => {
                class.aggregate.clone().flatten()
            }
            (_, [def]) => {
                let mut signature = def.signature.clone()?;
                if matches!(entry, Entry::Aggregate(..)) && signature.params.len() == def.function.params.params.len() {
                    signature.params.remove(0);
                }
                Some(signature)
            }
            _ => None,
        }
    }

    /// The type of a parameter: as the signature has it, else as the argument is.
    fn param_type(
        &mut self,
        written: Option<&SigTy>,
        annotation: Option<&'a weld_pysyntax::Expr>,
        arg: Option<&Arg>,
        place: Span,
    ) -> Res<Option<Ty>> {
        let given = match arg {
            Some(Arg { written: Some(text), .. }) => {
                let ty = match parse_type(text) {
                    Ok(ty) => ty,
                    Err(message) => return error(place, format!("the type `{text}`: {message}")),
                };
                Some(self.resolve(&ty, &mut Binds::default(), place)?)
            }
            Some(Arg { known: Known::Type(ty), .. }) => match Ty::of_column(ty) {
                Some(ty) => Some(ty),
                None => return error(place, format!("{ty} is no type of Python's")),
            },
            _ => None,
        };
        let declared = match (written, annotation) {
            (Some(written), _) => match (self.try_resolve(written, &Binds::default(), place)?, written) {
                (None, SigTy::Named(name, args)) if matches!(&**name, "Stream" | "Iterable") => {
                    match args.first().map(|element| self.try_resolve(element, &Binds::default(), place)).transpose()? {
                        Some(Some(element)) => Some(Ty::list(element)),
                        _ => None,
                    }
                }
                (ty, _) => ty,
            },
            (None, Some(annotation)) => Some(self.annotation(annotation)?),
            (None, None) => None,
        };
        // Structs of columns are objects where the signature says so.
        Ok(match (declared, given) {
            (Some(declared), Some(given)) if given.weld() == declared.weld() => Some(declared),
            (_, Some(given)) => Some(given),
            (declared, None) => declared,
        })
    }

    /// The entry's value, and its type.
    fn entry(
        &mut self,
        entry: &Entry<'a>,
        params: &[Param],
        variables: &[Expr],
        returns: Option<&DataType>,
    ) -> Res<(Expr, Ty)> {
        let place = entry.span();
        let mut args = Vec::new();
        for (param, variable) in params.iter().zip(variables) {
            args.push((Arc::from(&*param.name), self.argument(param, variable)));
        }
        let value = match entry {
            Entry::Function(overloads) => {
                let function = Value::Callable(Callable::Function(overloads.clone(), 0));
                self.call(&function, Vec::new(), args, place)
            }
            Entry::Aggregate(index, class) => self.aggregate(*index, class, args, place),
        };
        self.given(value, returns, place)
    }

    /// An argument, which may not be changed.
    pub(super) fn argument(&mut self, param: &Param, variable: &Expr) -> Value<'a> {
        let value = self.value_of(variable.clone(), &param.ty);
        self.freeze_argument(&value);
        value
    }

    /// What is given to the caller, and its type.
    pub(super) fn given(&mut self, value: Res<Value<'a>>, returns: Option<&DataType>, place: Span) -> Res<(Expr, Ty)> {
        let value = match value {
            // A function that always raises gives nothing.
            Err(Stop::Exit(done)) if done.diverges() => Value::None,
            value => value?,
        };
        let value = match &value {
            Value::Stream(_) => self.list_from(&value, place)?,
            _ => value,
        };
        let Some(mut ty) = self.try_type(&value) else {
            let what = self.described(&value);
            return error(place, format!("the result escapes: {what} cannot be returned to the caller"));
        };
        let mut value = value;
        if let Some(declared) = returns.and_then(Ty::of_column)
            && declared.number().is_some()
            && ty.number().is_some()
            && declared != ty
        {
            value = self.coerce(&value, &declared, place)?;
            ty = declared;
        }
        Ok((self.pack(&value, place)?, ty))
    }

    pub(super) fn freeze_argument(&mut self, value: &Value<'a>) {
        match value {
            Value::List(cell) => self.store.freeze(*cell, crate::store::ARGUMENT),
            Value::Object(cell, _) => {
                self.store.freeze(*cell, crate::store::ARGUMENT);
                if let Value::Fields(fields) = self.store.get(*cell).clone() {
                    fields.iter().for_each(|field| self.freeze_argument(field));
                }
            }
            Value::Tuple(parts) => parts.iter().for_each(|part| self.freeze_argument(part)),
            _ => {}
        }
    }

    /// An aggregate over a list for each parameter of `step`.
    fn aggregate(
        &mut self,
        index: usize,
        class: &Rc<Class<'a>>,
        args: Vec<(Arc<str>, Value<'a>)>,
        span: Span,
    ) -> Res<Value<'a>> {
        for method in ["step", "merge", "result"] {
            self.check_method(class, method, span)?;
        }
        let lists: Vec<Value<'a>> = args.into_iter().map(|(_, value)| value).collect();
        for list in &lists {
            if !matches!(list, Value::List(_)) {
                let message = format!(
                    "the aggregate `{}` takes a list for each parameter of `step`, found {}",
                    class.name,
                    self.described(list)
                );
                return error(span, message);
            }
        }
        self.check_lengths(&lists, span)?;
        let object = self.construct(index, &[], Vec::new(), Vec::new(), span)?;
        self.step_over(&object, lists, span)?;
        self.call_method(&object, "result", Vec::new(), span)
    }

    /// The lists of an aggregate are columns: of one length.
    fn check_lengths(&mut self, lists: &[Value<'a>], span: Span) -> Res<()> {
        let [first, others @ ..] = lists else { return error(span, "an aggregate takes at least one argument") };
        let length = self.length_of(first, span)?;
        for other in others {
            let found = self.length_of(other, span)?;
            let same = build::eq(length.clone(), found.clone());
            let message = "the lists of an aggregate have {0} and {1} elements";
            self.require(same, "ValueError", message, vec![length.clone(), found], span);
        }
        Ok(())
    }
}

/// Whether the type of an aggregate's argument is what the signature says of one row.
fn is_from_signature(written: Option<&SigTy>, arg: Option<&Arg>) -> bool {
    written.is_some() && arg.is_none_or(|arg| arg.written.is_none() && !matches!(arg.known, Known::Type(_)))
}
