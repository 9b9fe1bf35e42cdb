//! The language as the rest of the project sees it: a text in, a function out.

use weld_core::diag::{Diagnostic, Span};
use weld_core::ir::{Names, build};
use weld_frontend::{Arg, Function, Known, Language, Request, Shape, Source, Sources, missing};

use crate::lower::{Lower, scalar_kind, too_large};
use crate::parser::{DEPTH_MAX, parse};
use crate::typed;
use crate::types::{Dim, Type, joined};

/// The Toy Tensor Language.
#[derive(Clone, Copy, Debug)]
pub struct Ttl;

impl Language for Ttl {
    fn names(&self) -> &'static [&'static str] {
        &["ttl"]
    }

    fn extension(&self) -> &'static str {
        "ttl"
    }

    fn compile(&self, request: &Request<'_>) -> Result<Function, Vec<Diagnostic>> {
        request.options.without_gradients("ttl")?;
        request.options.without_domain("ttl")?;
        let (text, limits) = (request.text, request.options.limits);
        if text.len() > limits.text {
            let message = format!("the text has {} bytes, at most {} are read", text.len(), limits.text);
            return Err(vec![Diagnostic::parse(Span::new(0, 0), message)]);
        }
        let tree = parse(text, (limits.nesting as u32).min(DEPTH_MAX))?;
        let module = crate::check::check(&tree, request.library)?;
        let entry = entry(&module, request)?;
        if let Some(error) = too_large(&module, entry, limits.nodes) {
            return Err(vec![error]);
        }
        function(&module, entry, request)
    }
}

/// The definition that is called.
fn entry(module: &typed::Module, request: &Request<'_>) -> Result<usize, Vec<Diagnostic>> {
    let last = module.functions.len() - 1;
    let Some(name) = request.entry else { return Ok(last) };
    let find = |same: &dyn Fn(&str) -> bool| module.functions.iter().rposition(|function| same(&function.name));
    let found = find(&|known| known == name);
    match found {
        Some(found) => Ok(found),
        None if request.options.sql => Ok(find(&|known| known.eq_ignore_ascii_case(name)).unwrap_or(last)),
        None => {
            let names: Vec<&str> = module.functions.iter().map(|function| function.name.as_str()).collect();
            let error = Diagnostic::ty(Span::new(0, 0), format!("the function `{name}` is not defined"));
            let hint = match name {
                "main" => "a program is entered at `function int main()` or `function void main()`".to_owned(),
                _ => format!("the functions are `{}`", names.join("`, `")),
            };
            Err(vec![error.with_hint(hint)])
        }
    }
}

fn function(module: &typed::Module, entry: usize, request: &Request<'_>) -> Result<Function, Vec<Diagnostic>> {
    let callee = &module.functions[entry];
    let place = callee.name_span;
    let names: Vec<&str> = callee.vars[..callee.params].iter().map(|var| var.name.as_str()).collect();
    let bound = request.args.bind(&names, place, request.options.sql)?;
    if let Some(error) = missing(&names, &bound, place) {
        return Err(vec![error]);
    }
    let types = param_types(callee, request, &bound)?;
    let result = shape(&callee.result);
    if let Some(declared) = request.returns {
        let wrong = |message| vec![Diagnostic::ty(place, format!("the result of `{}`: {message}", callee.name))];
        result.fits(declared).map_err(wrong)?;
    }
    let definitions = module.functions.iter().map(|function| (function.span, function.name.clone())).collect();
    let source = Source::new(request.entry.unwrap_or(&callee.name), request.text).with_definitions(definitions);
    let mut lower = Lower::new(module, callee, Names::default(), Sources::new(source));
    let mut params = Vec::new();
    let mut args = Vec::new();
    for (ty, name) in types.iter().zip(&names) {
        let shape = shape(ty);
        let variable = build::param(lower.names(), name, shape.ty());
        params.push(((*name).to_owned(), shape, variable.clone()));
        args.push(lower.value_of(variable, ty));
    }
    let (body, names, sources) = lower.body(args);
    let params = bound.iter().map(|index| params[*index].clone()).collect();
    let function = Function::new(params, result, body, names, sources.finish())?.typed(callee.result.to_string());
    Ok(function.taking(bound.iter().map(|index| types[*index].to_string())).at(place))
}

/// The types of the parameters in the order of the text. A column's sizes take the place of `?`.
fn param_types(callee: &typed::Function, request: &Request<'_>, bound: &[usize]) -> Result<Vec<Type>, Vec<Diagnostic>> {
    let mut types: Vec<Type> = callee.vars[..callee.params].iter().map(|var| var.ty.clone()).collect();
    let mut errors = Vec::new();
    for (position, index) in bound.iter().enumerate() {
        let Some(arg) = request.args.given().map(|args| &args[position]) else { continue };
        match param_type(&types[*index], arg) {
            Ok(ty) => types[*index] = ty,
            Err(message) => {
                let name = &callee.vars[*index].name;
                errors.push(Diagnostic::ty(callee.name_span, format!("the argument `{name}`: {message}")));
            }
        }
    }
    if errors.is_empty() { Ok(types) } else { Err(errors) }
}

fn param_type(ty: &Type, arg: &Arg) -> Result<Type, String> {
    if let Some(written) = &arg.written {
        let given = crate::parser::parse_type(written).map_err(|error| error.message)?;
        if !given.agrees(ty) {
            return Err(format!("expected {ty}, found {given}"));
        }
        if let Known::Sizes(sizes) = &arg.known {
            check_sizes(&given, &sizes.all())?;
        }
    }
    match &arg.known {
        Known::Nothing => Ok(ty.clone()),
        Known::Type(declared) => {
            shape(ty).fits(declared)?;
            let sizes = declared.as_array().map(|(_, sizes)| sizes).unwrap_or_default();
            Ok(with_sizes(ty, &sizes))
        }
        Known::Sizes(sizes) => check_sizes(ty, &sizes.all()).map(|()| ty.clone()),
    }
}

/// Whether a value of these sizes is one of the type.
fn check_sizes(ty: &Type, found: &[u64]) -> Result<(), String> {
    let dims = ty.as_matrix().map_or(&[][..], |(_, dims)| &dims[..]);
    // `$` gives sizes as ints. Only a matrix without elements can be larger.
    if let Some((at, size)) = found.iter().enumerate().find(|(_, size)| i32::try_from(**size).is_err()) {
        return Err(format!("size {size} in dimension {at} does not fit int"));
    }
    // An empty list does not say how many dimensions follow.
    let is_empty = found.last() == Some(&0) && found.len() < dims.len();
    let agrees = |(dim, size): (&Dim, &u64)| joined(*dim, Dim::Known(*size as i64)).is_some();
    if (found.len() == dims.len() || is_empty) && dims.iter().zip(found).all(agrees) {
        return Ok(());
    }
    let found: Vec<String> = found.iter().map(u64::to_string).collect();
    Err(match found.is_empty() {
        true => format!("expected {ty}, found a single value"),
        false => format!("expected {ty}, found sizes [{}]", found.join(",")),
    })
}

/// The type with these sizes in the place of those that it leaves open.
fn with_sizes(ty: &Type, sizes: &[Option<u64>]) -> Type {
    let Some((elem, dims)) = ty.as_matrix() else { return ty.clone() };
    let size = |(dim, size): (&Dim, &Option<u64>)| match size {
        Some(size) => joined(*dim, Dim::Known(*size as i64)).unwrap_or(*dim),
        None => *dim,
    };
    Type::Matrix(elem, dims.iter().zip(sizes).map(size).collect())
}

/// How values of a type lie in Weld.
fn shape(ty: &Type) -> Shape {
    match ty {
        Type::Int => Shape::I32,
        Type::Float => Shape::F32,
        Type::Void | Type::Range | Type::Wrong => Shape::Void,
        Type::Matrix(elem, dims) => {
            Shape::array(scalar_kind(*elem), dims.iter().map(|dim| dim.known().map(|size| size as u64)))
        }
    }
}
