//! Weld's own language: a text is one program, `|x: f64| 1.0 / (1.0 + exp(-x))`.

use std::collections::BTreeMap;
use std::sync::Arc;

use weld_core::diag::{Diagnostic, Span};
use weld_core::ir::Program;
use weld_core::ty::Type;
use weld_core::{Frontend, parse_type};
use weld_frontend::{Arg, Array, DataType, Function, Known, Language, Request, Shape, Source, missing};

/// The language of the IR's texts, with what the host adds to it.
#[derive(Clone, Debug)]
pub struct Weld {
    pub frontend: Frontend,
}

impl Weld {
    pub const NEW: Weld = Weld { frontend: Frontend { cudfs: BTreeMap::new() } };
}

impl Language for Weld {
    fn names(&self) -> &'static [&'static str] {
        &["weld"]
    }

    fn extension(&self) -> &'static str {
        "weld"
    }

    fn lists_are_arrays(&self) -> bool {
        false
    }

    fn compile(&self, request: &Request<'_>) -> Result<Function, Vec<Diagnostic>> {
        request.options.without_gradients("weld")?;
        request.options.without_domain("weld")?;
        let (text, entry) = (request.text, Span::new(0, 0));
        request.options.limits.check_text(text).map_err(|error| vec![error])?;
        let program = self.frontend.parse_program(text)?;
        let names: Vec<String> = program.params.iter().map(|param| program.names.name(param.sym).to_owned()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let bound = request.args.bind(&names, entry, request.options.sql)?;
        if let Some(error) = missing(&names, &bound, entry) {
            return Err(vec![error]);
        }
        function(request, program, &bound, entry)
    }
}

fn function(
    request: &Request<'_>,
    mut program: Program,
    bound: &[usize],
    entry: Span,
) -> Result<Function, Vec<Diagnostic>> {
    let mut shapes = Vec::new();
    for (position, index) in bound.iter().enumerate() {
        let param = &program.params[*index];
        let arg = request.args.given().map(|args| &args[position]);
        let name = program.names.name(param.sym).to_owned();
        let shape =
            shape_of(&param.ty, arg).map_err(|message| vec![Diagnostic::ty(entry, format!("`{name}`: {message}"))])?;
        shapes.push((name, shape));
    }
    program.params = bound.iter().map(|index| program.params[*index].clone()).collect();
    let ty = program.body.ty.clone();
    let result = match request.returns {
        Some(declared) => declared_shape(&ty, declared)
            .map_err(|message| vec![Diagnostic::ty(program.body.span, format!("the result: {message}"))])?,
        None => Shape::Plain(ty.clone()),
    };
    let source = Arc::new(Source::new(request.entry.unwrap_or("program"), request.text));
    Ok(Function::of_program(shapes, result, program, source)?.typed(ty.to_string()).at(entry))
}

/// How an argument for a parameter of the type is passed.
fn shape_of(ty: &Type, arg: Option<&Arg>) -> Result<Shape, String> {
    let Some(arg) = arg else { return Ok(Shape::Plain(ty.clone())) };
    if let Some(written) = &arg.written {
        let given = parse_type(written).map_err(|errors| errors[0].message.clone())?;
        if given != *ty {
            return Err(format!("the parameter's type is {ty}, the argument's {given}"));
        }
    }
    match &arg.known {
        Known::Type(declared) => declared_shape(ty, declared),
        _ => Ok(Shape::Plain(ty.clone())),
    }
}

/// A column's type beside the program's: nested lists of fixed sizes are flat vectors.
fn declared_shape(ty: &Type, declared: &DataType) -> Result<Shape, String> {
    if let (Some((element, sizes)), Type::Vec(item)) = (declared.as_array(), ty)
        && **item == Type::Scalar(element)
        && (sizes.len() == 1 || sizes.iter().all(Option::is_some))
    {
        return Ok(Shape::Array(Array::plain(element, sizes)));
    }
    let shape = match (ty, declared) {
        (Type::Vec(_), DataType::Text) if ty.is_bytes() && *ty == Type::vec(Type::U8) => Shape::Text,
        (Type::Vec(item), DataType::List(element) | DataType::FixedList(element, _)) => {
            Shape::List(Box::new(declared_shape(item, element)?))
        }
        (Type::Struct(items), DataType::Struct(fields)) if items.len() == fields.len() => {
            let part =
                |(item, (name, field)): (&Type, &(String, DataType))| Ok((name.clone(), declared_shape(item, field)?));
            Shape::Record(items.iter().zip(fields).map(part).collect::<Result<_, String>>()?)
        }
        _ => Shape::Plain(ty.clone()),
    };
    match shape.fits(declared) {
        Ok(()) => Ok(shape),
        Err(_) => Err(format!("{declared} is declared, the program has {ty}")),
    }
}

#[cfg(test)]
mod tests {
    use weld_core::ty::ScalarKind;
    use weld_frontend::{Args, Library, Options};

    use super::*;

    fn compile(text: &str, args: &[DataType], returns: &DataType) -> Result<Function, String> {
        let (library, options) = (Library::default(), Options { sql: true, ..Options::default() });
        let args: Vec<Arg> = args.iter().map(|ty| Arg { known: Known::Type(ty.clone()), ..Arg::default() }).collect();
        let mut request = Request::new(text, &library, &options);
        (request.args, request.returns) = (Args::Given(&args), Some(returns));
        Weld::NEW.compile(&request).map_err(|errors| errors[0].message.clone())
    }

    #[test]
    fn declared_types_are_checked() {
        let double = DataType::Scalar(ScalarKind::F64);
        let sigmoid = "|x: f64| 1.0 / (1.0 + exp(-x))";
        assert_eq!(compile(sigmoid, std::slice::from_ref(&double), &double).unwrap().params[0].name, "x");
        let int = DataType::Scalar(ScalarKind::I32);
        assert_eq!(compile(sigmoid, &[int], &double).unwrap_err(), "`x`: INT is declared, the program has f64");
        assert_eq!(compile(sigmoid, &[], &double).unwrap_err(), "expected 1 argument, found 0");
        let fixed = DataType::fixed(DataType::fixed(double.clone(), 2), 3);
        let sum = compile("|v: vec[f64]| sum(v)", &[fixed], &double).unwrap();
        assert_eq!(sum.params[0].shape, Shape::array(ScalarKind::F64, [Some(3), Some(2)]));
    }
}
