//! GTScript: stencils over fields, in Python's syntax.
//!
//! ```
//! use weld_frontend::{Language, Library, Options, Request};
//! let text = "@stencil\ndef double(a: Field[K, float64], b: Field[K, float64]):\n    \
//!     with computation(PARALLEL), interval(...):\n        b = 2 * a\n";
//! let (library, options) = (Library::default(), Options::default());
//! let function = weld_gtscript::GtScript.compile(&Request::new(text, &library, &options)).unwrap();
//! assert_eq!(function.result_type, "{b: Field[K, float64]}");
//! ```
//!
//! From text to program: `module` finds the definitions; `resolve` and `expr` make the tree of the entry, in which
//! functions are inlined and `if` is masks; `infer` finds types and axes; `rules` refuses what the language forbids;
//! `extents` says how far each statement reaches; `args` and `domain` what the arguments are and what is checked before
//! anything runs; `plan` which statements share a loop; `lower`, `column` and `point` make the loops.
#![forbid(unsafe_code)]

mod args;
mod column;
mod domain;
mod dtype;
mod expr;
mod extents;
mod fold;
mod infer;
mod interval;
mod lower;
mod module;
mod needed;
mod plan;
mod point;
mod resolve;
mod rules;
mod sizes;
pub mod tree;

use weld_core::diag::Diagnostic;
use weld_core::ir::{Expr, Names, build};
use weld_frontend::{Array as ArrayShape, Axes, DataType, Flow, Function, Language, Request, Shape, Source, Sources};

use crate::args::{Arguments, Array, Frame};
use crate::lower::{Lower, bind};
use crate::sizes::Int;
use crate::tree::{FieldId, Stencil};
pub use dtype::Dtype;

/// The language.
#[derive(Clone, Copy, Debug)]
pub struct GtScript;

impl Language for GtScript {
    fn names(&self) -> &'static [&'static str] {
        &["gtscript"]
    }

    fn extension(&self) -> &'static str {
        "gt.py"
    }

    fn compile(&self, request: &Request<'_>) -> Result<Function, Vec<Diagnostic>> {
        request.options.without_gradients("gtscript")?;
        let (stencil, extents) = check(request)?;
        let plans = plan::plan(&stencil).map_err(|error| vec![error])?;
        let mut flow = Flow::new(Names::default());
        let arguments = args::bind(&stencil, request, &mut flow)?;
        function(request, &stencil, &extents, &plans, flow, arguments)
    }
}

/// The checked tree of a request's entry, with how far each field reaches beyond the domain.
pub fn check(request: &Request<'_>) -> Result<(Stencil, Vec<tree::Extent>), Vec<Diagnostic>> {
    let module = weld_pysyntax::parse(request.text, &request.options.limits)?;
    let module = module::read(&module)?;
    let mut stencil = resolve::resolve(request, &module)?;
    infer::infer(&mut stencil)?;
    rules::check(&stencil)?;
    let extents = extents::set(&mut stencil)?;
    Ok((stencil, extents))
}

fn function<'s>(
    request: &Request<'_>,
    stencil: &'s Stencil,
    extents: &[tree::Extent],
    plans: &[plan::Plan<'s>],
    mut flow: Flow,
    arguments: Arguments,
) -> Result<Function, Vec<Diagnostic>> {
    let Arguments { params, written, mut arrays, mut shapes, scalars, has_origin } = arguments;
    let domain = match request.options.domain {
        Some(domain) => domain.map(|size| Int::Known(i64::try_from(size).unwrap_or(i64::MAX))),
        None => {
            let domain = domain::largest(stencil, &mut arrays, has_origin);
            domain.map(|size| bind(&mut flow, "size", size))
        }
    };
    let frames = frames(stencil, extents, &arrays, &domain);
    let mut run = domain::checked(stencil, &domain, &frames);
    if let sizes::Cond::Expr(cond) = run.cond {
        run.cond = sizes::Cond::Expr(flow.keep("run", cond));
    }
    let sources = Sources::new(Source::new(&*stencil.name, request.text));
    let mut lower = Lower {
        stencil,
        types: infer::Types::new(stencil),
        flow,
        sources,
        arrays,
        frames,
        domain,
        scalars,
        run,
        is_row: false,
        nodes_left: request.options.limits.nodes,
        error: None,
    };
    let outputs: Vec<FieldId> =
        (0..stencil.fields.len()).filter(|id| stencil.fields[*id].external && stencil.is_written(*id)).collect();
    lower.run(plans);
    // Fields that SQL leaves out are zeros where nothing writes them.
    outputs.iter().for_each(|id| lower.materialize(*id));
    if let Some(error) = lower.error {
        return Err(vec![error]);
    }
    let mut fields = Vec::new();
    for id in outputs {
        let shape = shapes[id].take().unwrap_or_else(|| output_shape(stencil, id));
        let Some(array) = &lower.arrays[id] else { continue };
        fields.push((stencil.fields[id].name.clone(), returned(stencil, id, &shape, array), shape));
    }
    let (value, result) = result(request, fields);
    let body = lower.flow.finish(value);
    let outputs = written_fields(stencil);
    let names = lower.flow.into_names();
    let function = Function::new(params, result, body, names, lower.sources.finish())?;
    Ok(function.typed(outputs).taking(written).at(stencil.entry))
}

/// Where the data of every field is, or would be: temporaries are as large as the statements need.
fn frames(
    stencil: &Stencil,
    extents: &[tree::Extent],
    arrays: &[Option<Array>],
    domain: &[Int; 3],
) -> Vec<Option<Frame>> {
    let frame = |id: FieldId| {
        if let Some(array) = &arrays[id] {
            return Some(array.frame.clone());
        }
        let (field, extent) = (&stencil.fields[id], extents[id].0);
        let along = |axis: usize| match (field.axes[axis], axis) {
            (false, _) => (Int::Known(1), Int::Known(0)),
            (true, 2) => (domain[2].clone(), Int::Known(0)),
            // What SQL leaves out is as large as the domain.
            _ if field.external => (domain[axis].clone(), Int::Known(0)),
            _ => {
                let [from, to] = [i64::from(extent[2 * axis]), i64::from(extent[2 * axis + 1])];
                (domain[axis].plus(to - from), Int::Known(-from))
            }
        };
        let [i, j, k] = [along(0), along(1), along(2)];
        Some(Frame { size: [i.0, j.0, k.0], origin: [i.1, j.1, k.1] })
    };
    (0..stencil.fields.len()).map(frame).collect()
}

/// How a field that SQL leaves out is given back: all its sizes come with it.
fn output_shape(stencil: &Stencil, id: FieldId) -> Shape {
    let rank = stencil.fields[id].axes.iter().filter(|has| **has).count();
    let element = stencil.dtype(id).kind();
    Shape::Array(ArrayShape { element, sizes: vec![None; rank], axes: Axes::Plain })
}

/// The field as its shape has it: the data, and the sizes that are open.
fn returned(stencil: &Stencil, id: FieldId, shape: &Shape, array: &Array) -> Expr {
    let Shape::Array(of) = shape else { return array.data.clone() };
    let axes: Vec<usize> = (0..3).filter(|axis| stencil.fields[id].axes[*axis]).collect();
    match of.carries_sizes() {
        false => array.data.clone(),
        true => {
            let sizes = of.carried().into_iter().map(|position| array.frame.size[axes[position]].expr());
            build::strct(std::iter::once(array.data.clone()).chain(sizes))
        }
    }
}

/// An object of the written fields; in SQL a single one is itself, unless a struct is declared.
fn result(request: &Request<'_>, mut fields: Vec<(String, Expr, Shape)>) -> (Expr, Shape) {
    let is_struct = matches!(request.returns, None | Some(DataType::Struct(_)));
    if fields.len() == 1 && !is_struct {
        let (_, value, shape) = fields.remove(0);
        return (value, shape);
    }
    let value = build::strct(fields.iter().map(|(_, value, _)| value.clone()));
    (value, Shape::Record(fields.into_iter().map(|(name, _, shape)| (name, shape)).collect()))
}

/// `{b: Field[IJK, float64]}`.
fn written_fields(stencil: &Stencil) -> String {
    let written = (0..stencil.fields.len()).filter(|id| stencil.fields[*id].external && stencil.is_written(*id));
    let fields: Vec<String> =
        written.map(|id| format!("{}: {}", stencil.fields[id].name, args::field_type(stencil, id))).collect();
    format!("{{{}}}", fields.join(", "))
}
