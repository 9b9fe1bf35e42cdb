//! The arguments: what each parameter is passed as, where fields lie, what the compute domain is.

use weld_core::diag::Diagnostic;
use weld_core::ir::{Expr, build};
use weld_frontend::{Arg, Array as ArrayShape, Axes, DataType, Flow, Known, Request, Shape, Sizes};

use crate::dtype::Dtype;
use crate::sizes::Int;
use crate::tree::{Const, FieldId, ParamKind, Stencil, axes_name};

/// A field in memory: row-major data of the axes that it has.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub(crate) data: Expr,
    pub(crate) frame: Frame,
}

/// Sizes along I, J, K and the index of the domain's first point; 1 and 0 along axes that the field does not have.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) size: [Int; 3],
    pub(crate) origin: [Int; 3],
}

impl Frame {
    /// The number of elements.
    pub(crate) fn total(&self) -> Int {
        self.size[0].mul(&self.size[1]).mul(&self.size[2])
    }
}

/// The arguments of the function that is made.
#[derive(Debug)]
pub(crate) struct Arguments {
    /// In the order of the request.
    pub(crate) params: Vec<(String, Shape, Expr)>,
    /// As the language writes their types.
    pub(crate) written: Vec<String>,
    /// By field; none for temporaries and for fields that SQL leaves out.
    pub(crate) arrays: Vec<Option<Array>>,
    /// How fields are given back.
    pub(crate) shapes: Vec<Option<Shape>>,
    /// Scalars, by parameter.
    pub(crate) scalars: Vec<Option<Expr>>,
    /// Some argument says where its origin is.
    pub(crate) has_origin: bool,
}

struct Binder<'r> {
    stencil: &'r Stencil,
    request: &'r Request<'r>,
    flow: &'r mut Flow,
    errors: Vec<Diagnostic>,
    all: Arguments,
}

/// Binds the request's arguments to the stencil's parameters.
pub(crate) fn bind(stencil: &Stencil, request: &Request<'_>, flow: &mut Flow) -> Result<Arguments, Vec<Diagnostic>> {
    let names: Vec<&str> = stencil.params.iter().map(|param| param.name.as_str()).collect();
    let bound = request.args.bind(&names, stencil.entry, request.options.sql)?;
    let fields = stencil.fields.len();
    let all = Arguments {
        params: Vec::new(),
        written: Vec::new(),
        arrays: vec![None; fields],
        shapes: vec![None; fields],
        scalars: vec![None; names.len()],
        has_origin: false,
    };
    let mut binder = Binder { stencil, request, flow, errors: Vec::new(), all };
    for (position, param) in bound.iter().enumerate() {
        binder.param(*param, request.args.given().map(|args| &args[position]));
    }
    binder.absent(&bound);
    if binder.errors.is_empty() { Ok(binder.all) } else { Err(binder.errors) }
}

impl Binder<'_> {
    fn error(&mut self, message: String) {
        self.errors.push(Diagnostic::ty(self.stencil.entry, message));
    }

    fn param(&mut self, index: usize, arg: Option<&Arg>) {
        let param = &self.stencil.params[index];
        let written = match &param.kind {
            ParamKind::Field(id) => field_type(self.stencil, *id),
            ParamKind::Scalar { dtype, .. } => dtype.name().to_owned(),
        };
        if let Some(given) = arg.and_then(|arg| arg.written.as_ref())
            && !same_type(given, &written)
        {
            return self.error(format!("`{}` is {written}, the argument is given as {given}", param.name));
        }
        let shape = match &param.kind {
            ParamKind::Scalar { dtype, .. } => self.scalar_shape(&param.name, *dtype, arg),
            ParamKind::Field(id) => self.field_shape(&param.name, *id, arg),
        };
        let shape = match shape {
            Ok(shape) => shape,
            Err(message) => return self.error(message),
        };
        let value = build::param(self.flow.names(), &param.name, shape.ty());
        match &param.kind {
            ParamKind::Scalar { .. } => self.all.scalars[index] = Some(value.clone()),
            ParamKind::Field(id) => {
                let origin = arg.and_then(|arg| match &arg.known {
                    Known::Sizes(sizes) => sizes.origin.clone(),
                    _ => None,
                });
                self.all.has_origin |= origin.is_some();
                self.all.arrays[*id] = Some(self.array(*id, &shape, &value, origin));
                self.all.shapes[*id] = Some(shape.clone());
            }
        }
        self.all.params.push((param.name.clone(), shape, value));
        self.all.written.push(written);
    }

    fn scalar_shape(&self, name: &str, dtype: Dtype, arg: Option<&Arg>) -> Result<Shape, String> {
        match arg.map(|arg| &arg.known) {
            Some(Known::Type(ty)) if *ty != DataType::Scalar(dtype.kind()) => {
                Err(format!("`{name}` is {}, {ty} is declared", dtype.name()))
            }
            Some(Known::Sizes(sizes)) if !sizes.all().is_empty() || sizes.tensor || sizes.origin.is_some() => {
                Err(format!("`{name}` is the scalar {}, found data with {} axes", dtype.name(), sizes.all().len()))
            }
            _ => Ok(Shape::scalar(dtype.kind())),
        }
    }

    fn field_shape(&self, name: &str, id: FieldId, arg: Option<&Arg>) -> Result<Shape, String> {
        let field = self.stencil.field(id);
        let rank = field.axes.iter().filter(|has| **has).count();
        let (dtype, ty) = (self.stencil.dtype(id), field_type(self.stencil, id));
        let axes = if self.request.options.sql { Axes::Plain } else { Axes::Field };
        let sizes = match arg.map(|arg| &arg.known) {
            // NULL, or no lists, which is said when they are read.
            None | Some(Known::Nothing) => vec![None; rank],
            Some(Known::Type(declared)) => match declared.as_array() {
                Some((element, sizes)) if element == dtype.kind() && sizes.len() == rank => sizes,
                _ => return Err(format!("`{name}` is {ty}, {declared} is declared")),
            },
            Some(Known::Sizes(sizes)) => {
                check_sizes(name, &ty, rank, sizes)?;
                // An empty list does not say how many axes follow.
                let mut all = sizes.all();
                all.resize(rank, 0);
                all.into_iter().map(Some).collect()
            }
        };
        Ok(Shape::Array(ArrayShape { element: dtype.kind(), sizes, axes }))
    }

    fn array(&mut self, id: FieldId, shape: &Shape, value: &Expr, origin: Option<Vec<u64>>) -> Array {
        let (Shape::Array(array), axes) = (shape, self.stencil.field(id).axes) else {
            return Array { data: value.clone(), frame: unit_frame() };
        };
        let data = match array.carries_sizes() {
            true => self.flow.bind(&self.stencil.field(id).name, build::field(value.clone(), 0)),
            false => value.clone(),
        };
        let carried = array.carried();
        let mut frame = unit_frame();
        for (position, axis) in (0..3).filter(|axis| axes[*axis]).enumerate() {
            frame.size[axis] = match array.sizes[position] {
                Some(size) => Int::Known(i64::try_from(size).unwrap_or(i64::MAX)),
                None => {
                    let size = match carried.iter().position(|axis| *axis == position) {
                        Some(field) => build::field(value.clone(), field + 1),
                        None => build::len(data.clone()),
                    };
                    Int::Expr(self.flow.bind("size", size))
                }
            };
            if let Some(origin) = &origin {
                frame.origin[axis] = Int::Known(i64::try_from(origin[position]).unwrap_or(i64::MAX));
            }
        }
        Array { data, frame }
    }

    /// Parameters without an argument: scalars have defaults, fields that are written are outputs in SQL.
    fn absent(&mut self, bound: &[usize]) {
        let mut missing = Vec::new();
        for (index, param) in self.stencil.params.iter().enumerate() {
            if bound.contains(&index) {
                continue;
            }
            match &param.kind {
                ParamKind::Scalar { dtype, default: Some(default) } => {
                    let value = build::lit(literal(*dtype, *default));
                    self.all.scalars[index] = Some(value);
                }
                ParamKind::Field(id) if self.request.options.sql && self.stencil.is_written(*id) => {}
                _ => missing.push(param.name.as_str()),
            }
        }
        if !missing.is_empty() {
            let (expected, found) = (self.stencil.params.len(), bound.len());
            let plural = if expected == 1 { "" } else { "s" };
            let (names, are) = (missing.join("`, `"), if missing.len() == 1 { "is" } else { "are" });
            self.error(format!("`{names}` {are} missing: expected {expected} argument{plural}, found {found}"));
        }
    }
}

fn check_sizes(name: &str, ty: &str, rank: usize, sizes: &Sizes) -> Result<(), String> {
    let found = sizes.all();
    let is_empty = found.contains(&0) && found.len() < rank;
    if sizes.tensor || (found.len() != rank && !is_empty) {
        let plural = |count: usize| if count == 1 { "axis" } else { "axes" };
        return Err(format!(
            "`{name}` is {ty} with {rank} {}, found data with {} {}",
            plural(rank),
            found.len(),
            plural(found.len())
        ));
    }
    match &sizes.origin {
        Some(origin) if origin.len() != rank => {
            Err(format!("the origin of `{name}` must have {rank} numbers, found {}", origin.len()))
        }
        _ => Ok(()),
    }
}

fn unit_frame() -> Frame {
    Frame { size: [1; 3].map(Int::Known), origin: [0; 3].map(Int::Known) }
}

/// `Field[IJK, float64]`.
pub(crate) fn field_type(stencil: &Stencil, id: FieldId) -> String {
    format!("Field[{}, {}]", axes_name(stencil.field(id).axes), stencil.dtype(id).name())
}

/// Types as they may be written: aliases, a prefix, blanks, the default axes.
fn same_type(given: &str, wanted: &str) -> bool {
    let normal = |text: &str| -> String {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let text = text.replace("gtscript.", "");
        let text = text.as_str();
        match text.strip_prefix("Field[").and_then(|inner| inner.strip_suffix(']')) {
            Some(inner) => {
                let (axes, dtype) = inner.split_once(',').unwrap_or(("IJK", inner));
                format!(
                    "Field[{axes},{}]",
                    Dtype::parse(dtype).map_or(dtype.to_owned(), |dtype| dtype.name().to_owned())
                )
            }
            None => Dtype::parse(text).map_or_else(|| text.to_owned(), |dtype| dtype.name().to_owned()),
        }
    };
    normal(given) == normal(wanted)
}

/// A constant in a type.
pub(crate) fn literal(dtype: Dtype, value: Const) -> weld_core::ir::Literal {
    use weld_core::ir::Literal;
    match dtype {
        Dtype::Bool => Literal::Bool(value.is_true()),
        // Integers were checked; floats are converted as those of fields, to the nearest that fits.
        Dtype::Int32 => Literal::I32(value.as_int().map_or(value.as_float() as i32, |int| int as i32)),
        Dtype::Int64 => Literal::I64(value.as_int().map_or(value.as_float() as i64, |int| int as i64)),
        Dtype::Float32 => Literal::F32(value.as_float() as f32),
        Dtype::Float64 => Literal::F64(value.as_float()),
    }
}

impl Stencil {
    /// Whether some statement writes the field.
    pub(crate) fn is_written(&self, id: FieldId) -> bool {
        self.blocks.iter().any(|block| block.body.iter().any(|stmt| stmt.targets().contains(&id)))
    }
}
