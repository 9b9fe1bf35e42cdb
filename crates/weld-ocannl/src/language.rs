//! A definition of a text as a typed Weld function.

mod incoming;
mod result;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use weld_core::diag::{Diagnostic, Span};
use weld_core::ir::{Expr, Names, build};
use weld_core::ty::{ScalarKind, Type};
use weld_frontend::{Arg, Array, Axes, DataType, Function, Known, Language, Request, Shape, Source, Sources, missing};
use weld_tensor::Size;

use incoming::{Incoming, agree, known_array, narrowed, tensor};
use result::Output;

use crate::annotation;
use crate::dims::Extent;
use crate::elaborate::{Elaborated, elaborate};
use crate::emit::Emitter;
use crate::graph::{NodeId, Op};
use crate::infer::{Given, infer};
use crate::parser::parse;
use crate::shape::written;
use crate::tree::{Annotation, Definition, Module};

/// OCANNL's `%cd` and `%op`.
#[derive(Clone, Copy, Debug)]
pub struct Ocannl;

type Wrong<T> = Result<T, Vec<Diagnostic>>;

impl Language for Ocannl {
    fn names(&self) -> &'static [&'static str] {
        &["ocannl"]
    }

    fn extension(&self) -> &'static str {
        "ml"
    }

    fn compile(&self, request: &Request<'_>) -> Wrong<Function> {
        request.options.without_domain("ocannl")?;
        request.options.limits.check_text(request.text).map_err(|error| vec![error])?;
        let module = parse(request.text, &request.options.limits).map_err(|error| vec![error])?;
        let index = entry(&module, request)?;
        let given = request.args.given().unwrap_or_default();
        let gradients = given.iter().filter_map(|arg| arg.name.as_deref()?.strip_suffix(".grad")).collect();
        let elaborated = elaborate(&module, index, &gradients, request.library, request.options.limits.instances)?;
        compile(&module.definitions[index], elaborated, request)
    }
}

fn one<T>(message: String, span: Span) -> Wrong<T> {
    Err(vec![Diagnostic::ty(span, message)])
}

/// The definition that is called.
fn entry(module: &Module, request: &Request<'_>) -> Wrong<usize> {
    let definitions = &module.definitions;
    let named = |name: &str| definitions.iter().rposition(|definition| &*definition.name.text == name);
    let last =
        definitions.iter().rposition(|definition| &*definition.name.text != "_").unwrap_or(definitions.len() - 1);
    let Some(name) = request.entry else { return Ok(last) };
    let in_any_case = || {
        let same = |definition: &Definition| definition.name.text.eq_ignore_ascii_case(name);
        request.options.sql.then(|| definitions.iter().rposition(same).unwrap_or(last))
    };
    named(name).or_else(in_any_case).ok_or_else(|| {
        let names: Vec<&str> = definitions.iter().map(|definition| &*definition.name.text).collect();
        let error = Diagnostic::ty(Span::new(0, 0), format!("no definition is called `{name}`"));
        vec![error.with_hint(format!("the definitions are `{}`", names.join("`, `")))]
    })
}

/// What an argument of the request is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Value(NodeId),
    Gradient(NodeId),
    Config,
}

/// A parameter of the function.
struct Bound {
    name: String,
    role: Role,
    shape: Shape,
    written: String,
    variable: Expr,
}

struct Compiler<'a, 'r> {
    definition: &'a Definition,
    elaborated: &'a Elaborated,
    request: &'a Request<'r>,
    element: ScalarKind,
    names: Names,
    bound: Vec<Bound>,
    given: HashMap<NodeId, Given>,
    open: Vec<Expr>,
}

fn compile(definition: &Definition, elaborated: Elaborated, request: &Request<'_>) -> Wrong<Function> {
    let element = element(request);
    let mut compiler = Compiler {
        definition,
        elaborated: &elaborated,
        request,
        element,
        names: Names::default(),
        bound: Vec::new(),
        given: HashMap::new(),
        open: Vec::new(),
    };
    compiler.bind()?;
    compiler.body()
}

/// The type of all tensors' cells: DOUBLE where a declared type has it.
fn element(request: &Request<'_>) -> ScalarKind {
    let declared = request.args.given().unwrap_or_default().iter().filter_map(|arg| match &arg.known {
        Known::Type(ty) => Some(ty),
        _ => None,
    });
    let types: Vec<&DataType> = declared.chain(request.returns).collect();
    fn holds(ty: &DataType, kind: ScalarKind) -> bool {
        match ty {
            DataType::Scalar(own) => *own == kind,
            DataType::Text => false,
            DataType::List(element) | DataType::FixedList(element, _) => holds(element, kind),
            DataType::Struct(fields) => fields.iter().any(|(_, ty)| holds(ty, kind)),
        }
    }
    let written =
        request.args.given().unwrap_or_default().iter().filter_map(|arg| element_named(arg.written.as_deref()?));
    let written: Vec<ScalarKind> = written.collect();
    let any = |kind: ScalarKind| written.contains(&kind) || types.iter().any(|ty| holds(ty, kind));
    match (any(ScalarKind::F64), any(ScalarKind::F32)) {
        (true, _) => ScalarKind::F64,
        (false, true) => ScalarKind::F32,
        (false, false) if request.options.element.is_float() => request.options.element,
        _ => ScalarKind::F32,
    }
}

/// The cells' type, where an argument's type says only that.
fn element_named(text: &str) -> Option<ScalarKind> {
    match text.trim() {
        "f32" | "float32" | "single" => Some(ScalarKind::F32),
        "f64" | "float64" | "double" => Some(ScalarKind::F64),
        _ => None,
    }
}

impl<'a> Compiler<'a, '_> {
    fn entry(&self) -> Span {
        self.definition.name.span
    }

    fn name_of(&self, id: NodeId) -> &'a str {
        self.elaborated.graph.node(id).name.as_deref().unwrap_or("_")
    }

    // Parameters.

    /// Finds the tensor of each argument.
    fn bind(&mut self) -> Wrong<()> {
        let arguments = &self.elaborated.arguments;
        let mut roles: Vec<(String, Role)> =
            arguments.iter().map(|id| (self.name_of(*id).to_owned(), Role::Value(*id))).collect();
        let Some(given) = self.request.args.given() else {
            for (name, role) in roles {
                self.param(name, role, &Arg::default(), true)?;
            }
            return Ok(());
        };
        if self.definition.config.is_some() {
            roles.push(("config".into(), Role::Config));
        }
        // Gradients that the caller gives.
        for arg in given {
            if let Some(of) = arg.name.as_deref().and_then(|name| name.strip_suffix(".grad"))
                && let Some(id) = arguments.iter().find(|id| self.name_of(**id) == of)
            {
                roles.push((format!("{of}.grad"), Role::Gradient(*id)));
            }
        }
        let names: Vec<&str> = roles.iter().map(|(name, _)| name.as_str()).collect();
        let places = self.request.args.bind(&names, self.entry(), self.request.options.sql)?;
        let own: Vec<&str> = self.definition.params.iter().map(|param| &*param.name.text).collect();
        let found: Vec<usize> = places.iter().copied().filter(|place| *place < own.len()).collect();
        if let Some(error) = missing(&own, &found, self.entry()) {
            return Err(vec![error]);
        }
        for (arg, place) in given.iter().zip(places) {
            let (name, role) = roles[place].clone();
            self.param(name, role, arg, false)?;
        }
        Ok(())
    }

    fn param(&mut self, name: String, role: Role, arg: &Arg, declared: bool) -> Wrong<()> {
        let wrong = |message: String, span: Span| vec![Diagnostic::ty(span, format!("argument `{name}`: {message}"))];
        let id = match role {
            Role::Config => {
                let shape = Shape::Record(vec![("label".into(), Shape::List(Box::new(Shape::Text)))]);
                let variable = build::param(&mut self.names, &name, shape.ty());
                self.bound.push(Bound { name, role, shape, written: String::new(), variable });
                return Ok(());
            }
            Role::Value(id) | Role::Gradient(id) => id,
        };
        let node = self.elaborated.graph.node(id);
        let mut shape_text = match &node.op {
            Op::Argument(argument) => argument.shape.clone(),
            _ => None,
        };
        if let Some(text) = arg.written.as_ref().filter(|text| element_named(text).is_none()) {
            let read = annotation::parse(text)
                .map_err(|bad| wrong(format!("its type `{text}`: {}", bad.message), self.entry()))?;
            if let Some(own) = &shape_text
                && !agree(own, &read)
            {
                return Err(wrong(
                    format!("its type is `{text}`, the parameter is annotated `{}`", own.text()),
                    node.span,
                ));
            }
            shape_text = Some(shape_text.map_or(read.clone(), |own| narrowed(own, &read)));
        }
        let known = match (&arg.known, declared) {
            (Known::Nothing, true) => match &shape_text {
                Some(annotation) => tensor(annotation),
                None if is_inline_with_init(&node.op) => return Ok(()),
                None => {
                    return one(
                        format!("the shape of `{name}` is not known: annotate it, as in `({name} : 3 -> 2)`"),
                        node.span,
                    );
                }
            },
            (known, _) => known_array(known).map_err(|message| wrong(message, node.span))?,
        };
        let (shape, variable) = self.variable(&name, &known);
        let rows = self.rows(&known, shape_text.as_ref(), &variable).map_err(|message| wrong(message, node.span))?;
        let written = match &rows {
            Given::Shape(rows) => written(
                &rows
                    .each_ref()
                    .map(|row| row.iter().map(|(extent, _)| extent_text(*extent)).collect::<Vec<_>>().join(" ")),
            ),
            _ => String::new(),
        };
        if let Role::Value(_) = role {
            self.given.insert(id, rows);
        }
        self.bound.push(Bound { name, role, shape, written, variable });
        Ok(())
    }

    /// How an argument is passed.
    fn variable(&mut self, name: &str, known: &Incoming) -> (Shape, Expr) {
        let kind = known.kind.unwrap_or(self.element);
        let shape = match &known.axes {
            None => Shape::scalar(kind),
            Some(axes) => {
                let is_number = known.kinds.is_none() && known.sizes.is_empty();
                let sizes = if is_number { vec![Some(1)] } else { known.sizes.clone() };
                Shape::Array(Array { element: kind, sizes, axes: axes.clone() })
            }
        };
        let variable = build::param(&mut self.names, name, shape.ty());
        (shape, variable)
    }

    /// The axes of an argument, as far as its value and its annotation say them.
    fn rows(&mut self, known: &Incoming, annotation: Option<&Annotation>, variable: &Expr) -> Result<Given, String> {
        let open_before = self.open.len();
        let mut carried = 0;
        let count = known.sizes.len();
        let extents: Vec<Extent> = known
            .sizes
            .iter()
            .map(|size| match size {
                Some(size) => Extent::Known(*size),
                None => {
                    carried += 1;
                    self.open.push(match count {
                        1 => build::len(variable.clone()),
                        _ => build::field(variable.clone(), carried),
                    });
                    Extent::Open(open_before + carried - 1)
                }
            })
            .collect();
        let label = |axis: usize| known.labels.get(axis).cloned().flatten().map(|label| Arc::from(label.as_str()));
        let labelled = |first: usize, extents: &[Extent]| {
            extents.iter().enumerate().map(|(i, extent)| (*extent, label(first + i))).collect::<Vec<_>>()
        };
        let counts = match (known.kinds, annotation) {
            (Some(kinds), Some(annotation)) => {
                let wanted = [annotation.batch.len(), annotation.output.len(), annotation.input.len()];
                if kinds != wanted {
                    return Err(format!("expected `{}`, found `{}`", annotation.text(), known.text()));
                }
                Some(kinds)
            }
            (Some(kinds), None) => Some(kinds),
            (None, Some(annotation)) => {
                let wanted = [annotation.batch.len(), annotation.output.len(), annotation.input.len()];
                let rank: usize = wanted.iter().sum();
                if count == 0 && annotation.all().iter().all(|size| size.is_none_or(|size| size == 1)) {
                    // A number for a tensor of one cell.
                    let one = |count: usize| vec![(Extent::Known(1), None); count];
                    return Ok(Given::Shape(wanted.map(one)));
                }
                if rank != count {
                    return Err(format!("expected `{}`, found the sizes {}", annotation.text(), known.sizes_text()));
                }
                Some(wanted)
            }
            (None, None) => None,
        };
        if let Some(annotation) = annotation {
            for (wanted, found) in annotation.all().into_iter().zip(&extents) {
                if let (Some(wanted), Extent::Known(found)) = (wanted, found)
                    && wanted != *found
                {
                    return Err(format!("expected `{}`, found `{}`", annotation.text(), known.with(annotation).text()));
                }
            }
        }
        let Some([batch, output, _]) = counts else { return Ok(Given::Flat(extents)) };
        let (first, rest) = extents.split_at(batch);
        let (second, third) = rest.split_at(output);
        Ok(Given::Shape([labelled(0, first), labelled(batch, second), labelled(batch + output, third)]))
    }

    // The program.

    fn body(mut self) -> Wrong<Function> {
        let elaborated = self.elaborated;
        let wrong = |error: Diagnostic| vec![error];
        let wrt = self.wanted_gradients()?;
        let inferred = infer(&elaborated.graph, &self.given).map_err(wrong)?;
        let mut emitter = Emitter {
            graph: &elaborated.graph,
            inferred: &inferred,
            element: self.element,
            names: std::mem::take(&mut self.names),
            bindings: Vec::new(),
            open: self.open.clone(),
            values: HashMap::new(),
            grads: HashMap::new(),
            sources: Sources::new(Source::new(&*self.definition.name.text, self.request.text)),
        };
        self.check_sizes(&mut emitter);
        for bound in &self.bound {
            self.take(bound, &mut emitter).map_err(wrong)?;
        }
        let output = match elaborated.root {
            _ if elaborated.wildcard => {
                Output { value: build::bool(false), result: Shape::Void, ty: "unit".into(), gradients: Vec::new() }
            }
            Some(root) => self.tensor(root, &wrt, &mut emitter)?,
            None => self.code(&mut emitter)?,
        };
        let Emitter { names, bindings, sources, .. } = emitter;
        let body = build::let_in(bindings, output.value);
        self.request.options.limits.check_nodes(&body, self.entry()).map_err(wrong)?;
        let entry = self.entry();
        let params = self.bound.iter().map(|bound| (bound.name.clone(), bound.shape.clone(), bound.variable.clone()));
        let mut function = Function::new(params.collect(), output.result, body, names, sources.finish())?;
        for (param, bound) in function.params.iter_mut().zip(self.bound) {
            param.written = bound.written;
        }
        Ok(function.typed(output.ty).with_gradients(output.gradients).at(entry))
    }

    /// Sizes that only the run knows are compared before all else.
    fn check_sizes(&self, emitter: &mut Emitter<'_>) {
        for (a, b, span) in &emitter.inferred.dims.checks {
            let (a, b) = (emitter.extent(*a).expr(), emitter.extent(*b).expr());
            let name = &self.definition.name.text;
            let message = format!("{name}: sizes differ: found {{0}}, expected {{1}}");
            let equal = build::eq(a.clone(), b.clone());
            let checked = build::require(equal, &message, [a, b]).at(*span);
            let sym = emitter.names.fresh("sizes");
            emitter.bindings.push(weld_core::ir::Binding { sym, value: checked });
        }
    }

    /// What an argument holds, as a vector of the element type, or a number where there is one cell.
    fn take(&self, bound: &Bound, emitter: &mut Emitter<'_>) -> Result<(), Diagnostic> {
        let (Role::Value(id) | Role::Gradient(id)) = bound.role else { return Ok(()) };
        let mut data = bound.variable.clone();
        if let Shape::Array(array) = &bound.shape
            && array.carries_sizes()
        {
            data = build::field(data, 0);
        }
        let name = bound.name.as_str();
        if matches!(emitter.graph.node(id).op, Op::Argument(_)) && emitter.inferred.shape(id).is_none() {
            return Ok(());
        }
        let sizes = emitter.sizes(id)?;
        let total = Size::product(&sizes);
        if matches!(bound.role, Role::Gradient(_)) {
            self.check_gradient(bound, &sizes, emitter)?;
        }
        if data.ty.element().is_some() && total.is_one() {
            data = build::lookup(data, build::i64(0));
        }
        let data = match data.ty.as_scalar() {
            Some(_) => build::cast(data, self.element),
            None if data.ty == Type::vec(Type::Scalar(self.element)) => data,
            None => emitter.convert(data, &sizes, self.element),
        };
        let data = emitter.bind(name, data);
        match bound.role {
            Role::Gradient(_) => emitter.grads.insert(id, data),
            _ => emitter.values.insert(id, data),
        };
        Ok(())
    }

    /// A gradient that is given has the axes of its tensor, but for those of size 1.
    fn check_gradient(&self, bound: &Bound, sizes: &[Size], emitter: &mut Emitter<'_>) -> Result<(), Diagnostic> {
        let Shape::Array(Array { sizes: given, .. }) = &bound.shape else {
            return match Size::product(sizes).as_known() {
                Some(1) => Ok(()),
                _ => Err(self.wrong_gradient(bound, "a number")),
            };
        };
        let known: Option<Vec<u64>> = sizes.iter().map(Size::as_known).collect();
        let found: Option<Vec<u64>> = given.iter().copied().collect();
        let long = |sizes: Vec<u64>| sizes.into_iter().filter(|size| *size != 1).collect::<Vec<_>>();
        if let (Some(known), Some(found)) = (known, found) {
            return match long(known) == long(found.clone()) {
                true => Ok(()),
                false => Err(self.wrong_gradient(bound, &format!("the sizes {found:?}"))),
            };
        }
        let mut data = bound.variable.clone();
        if data.ty.element().is_none() {
            data = build::field(data, 0);
        }
        let (found, cells) = (build::len(data), Size::product(sizes).expr());
        let message = format!("`{}` has {{0}} cells, its tensor {{1}}", bound.name);
        let checked = build::require(build::eq(found.clone(), cells.clone()), &message, [found, cells]);
        let sym = emitter.names.fresh("cells");
        emitter.bindings.push(weld_core::ir::Binding { sym, value: checked.at(self.entry()) });
        Ok(())
    }

    fn wrong_gradient(&self, bound: &Bound, found: &str) -> Diagnostic {
        let of = bound.name.trim_end_matches(".grad");
        let message = format!("argument `{}`: expected the sizes of `{of}`, found {found}", bound.name);
        Diagnostic::ty(self.entry(), message)
    }
}

fn is_inline_with_init(op: &Op) -> bool {
    matches!(op, Op::Argument(argument) if argument.inline && argument.init.is_some())
}
fn extent_text(extent: Extent) -> String {
    match extent {
        Extent::Known(size) => size.to_string(),
        Extent::Open(_) => "?".into(),
    }
}
