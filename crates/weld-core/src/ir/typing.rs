//! The typing rules: the type of a node from the types of its parts, or why the parts do not fit.
//!
//! One function knows them all. The constructors in [`super::build`] ask it for types, the verifier compares, type
//! inference reports its complaints.

use super::{ExprKind, Func, Iter};
use crate::op::{BinaryOp, MergeOp, ReduceOp, StructOp, UnaryOp};
use crate::ty::{BuilderType, ScalarKind, Type};

/// The type of a node of this kind. `declared` is the node's own type, which literals of bytes, variables, casts,
/// empty vectors, new builders, `deserialize` and `cudf` carry as information; for all others it is not looked at.
pub fn type_of(kind: &ExprKind, declared: &Type) -> Result<Type, String> {
    match kind {
        ExprKind::Literal(literal) => Ok(Type::Scalar(literal.kind())),
        ExprKind::Bytes(_) if declared.is_bytes() => Ok(declared.clone()),
        ExprKind::Bytes(_) => Err(format!("a string literal is a vec[i8] or vec[u8], not {declared}")),
        ExprKind::Var(_) => Ok(declared.clone()),
        ExprKind::Let { body, .. } => Ok(body.ty.clone()),
        ExprKind::Unary(op, value) => unary(*op, &value.ty),
        ExprKind::Binary(op, left, right) => binary(*op, &left.ty, &right.ty),
        ExprKind::Cast(value) => cast(&value.ty, declared),
        ExprKind::If { cond, on_true, on_false } => {
            expect("the condition of `if`", &cond.ty, &Type::BOOL)?;
            same("the branches of `if`", &on_true.ty, &on_false.ty)
        }
        ExprKind::Select { cond, on_true, on_false } => select(&cond.ty, &on_true.ty, &on_false.ty),
        ExprKind::Struct(fields) => Ok(Type::structure(fields.iter().map(|f| f.ty.clone()))),
        ExprKind::Field(value, index) => match value.ty.fields() {
            Some(fields) => match fields.get(*index as usize) {
                Some(field) => Ok(field.clone()),
                None => Err(format!("no field ${index} in {}", value.ty)),
            },
            None => Err(format!("`.${index}` of {}, which is no struct", value.ty)),
        },
        ExprKind::Vector(elements) => match declared.element() {
            Some(element) => {
                storable("the element of a vector", element)?;
                for e in elements {
                    expect("an element of the vector", &e.ty, element)?;
                }
                Ok(declared.clone())
            }
            None => Err(format!("a vector literal cannot have the type {declared}")),
        },
        ExprKind::Len(data) => vector("`len`", &data.ty).map(|_| Type::I64),
        ExprKind::Lookup { data, key, .. } => lookup("`lookup`", &data.ty, &key.ty),
        ExprKind::OptLookup { data, key } => {
            let (_, value) = dictionary("`optlookup`", &data.ty, &key.ty)?;
            Ok(Type::structure([Type::BOOL, value.clone()]))
        }
        ExprKind::KeyExists { data, key } => dictionary("`keyexists`", &data.ty, &key.ty).map(|_| Type::BOOL),
        ExprKind::Slice { data, start, size } => {
            vector("`slice`", &data.ty)?;
            expect("the start of `slice`", &start.ty, &Type::I64)?;
            expect("the size of `slice`", &size.ty, &Type::I64)?;
            Ok(data.ty.clone())
        }
        ExprKind::Sort { data, compare } => {
            let element = vector("`sort`", &data.ty)?;
            if !is_comparable(element) {
                return Err(format!("elements of type {element} cannot be sorted"));
            }
            function("the comparator of `sort`", compare, &[element, element], &Type::I32)?;
            Ok(data.ty.clone())
        }
        ExprKind::ToVec(data) => match &data.ty {
            Type::Dict(key, value) => Ok(Type::vec(Type::structure([(**key).clone(), (**value).clone()]))),
            other => Err(format!("`tovec` needs a dictionary, not {other}")),
        },
        ExprKind::Update { data, index, value } => {
            let element = vector("`update`", &data.ty)?;
            expect("the index of `update`", &index.ty, &Type::I64)?;
            expect("the new element of `update`", &value.ty, element)?;
            Ok(data.ty.clone())
        }
        ExprKind::Iterate { init, step } => {
            let state = &init.ty;
            function("the step of `iterate`", step, &[state], &Type::structure([state.clone(), Type::BOOL]))?;
            Ok(state.clone())
        }
        ExprKind::NewBuilder { arg } => match declared {
            Type::Builder(builder) => {
                builder_type(builder)?;
                new_builder(builder, arg.as_ref().map(|a| &a.ty))?;
                Ok(declared.clone())
            }
            other => Err(format!("{other} is no builder")),
        },
        ExprKind::Merge { builder, value } => {
            merge(&builder.ty, &value.ty)?;
            Ok(builder.ty.clone())
        }
        ExprKind::For { iter, builder, func } => {
            let element = element_type(iter)?;
            if !builder.ty.is_builder() {
                return Err(format!("`for` needs a builder, not {}", builder.ty));
            }
            function("the update of `for`", func, &[&builder.ty, &Type::I64, &element], &builder.ty)?;
            Ok(builder.ty.clone())
        }
        ExprKind::Result(builder) => match &builder.ty {
            Type::Builder(b) => Ok(b.result_type()),
            other => Err(format!("`result` needs a builder, not {other}")),
        },
        ExprKind::Serialize(value) => {
            storable("what `serialize` takes", &value.ty)?;
            Ok(Type::vec(Type::I8))
        }
        ExprKind::Deserialize(data) => {
            expect("the argument of `deserialize`", &data.ty, &Type::vec(Type::I8))?;
            storable("the result of `deserialize`", declared)?;
            Ok(declared.clone())
        }
        ExprKind::CUdf { args, .. } => {
            storable("the result of `cudf`", declared)?;
            for arg in args {
                storable("an argument of `cudf`", &arg.ty)?;
            }
            Ok(declared.clone())
        }
        ExprKind::Intrinsic(intrinsic, args) => {
            let types: Vec<Type> = args.iter().map(|a| a.ty.clone()).collect();
            intrinsic.result_type(&types).ok_or_else(|| {
                let types: Vec<String> = types.iter().map(Type::to_string).collect();
                format!("`{}` does not take ({})", intrinsic.name(), types.join(", "))
            })
        }
        ExprKind::Assert { cond, values, .. } => {
            expect("the condition of `assert`", &cond.ty, &Type::BOOL)?;
            if values.len() > 2 {
                return Err(format!("a message shows at most 2 values, not {}", values.len()));
            }
            // Two words of detail: two scalars, or one of 128 bits.
            let words = if values.len() == 1 { 2 } else { 1 };
            match values.iter().find(|value| value.ty.as_scalar().is_none_or(|kind| kind.bytes() > 8 * words)) {
                Some(value) => Err(format!("a message cannot show {}", value.ty)),
                None => Ok(Type::BOOL),
            }
        }
        ExprKind::Broadcast(value) => match value.ty {
            Type::Scalar(kind) => Ok(Type::Simd(kind)),
            ref other => Err(format!("`broadcast` needs a scalar, not {other}")),
        },
    }
}

/// The type of the elements that a loop over `iter` sees.
pub fn element_type(iter: &Iter) -> Result<Type, String> {
    let i64s = |what: &str, parts: [&Type; 3]| {
        parts.iter().try_for_each(|part| expect(&format!("an argument of `{what}`"), part, &Type::I64))
    };
    match iter {
        Iter::Vector(data) => vector("`for`", &data.ty).cloned(),
        Iter::Strided { data, start, end, stride } => {
            i64s("iter", [&start.ty, &end.ty, &stride.ty])?;
            vector("`iter`", &data.ty).cloned()
        }
        Iter::Range { start, end, stride } => {
            i64s("rangeiter", [&start.ty, &end.ty, &stride.ty])?;
            Ok(Type::I64)
        }
        Iter::Simd(data) => match vector("`simditer`", &data.ty)? {
            Type::Scalar(kind) => Ok(Type::Simd(*kind)),
            other => Err(format!("`simditer` needs a vector of scalars, not of {other}")),
        },
        Iter::Fringe(data) => match vector("`fringeiter`", &data.ty)? {
            Type::Scalar(kind) => Ok(Type::Scalar(*kind)),
            other => Err(format!("`fringeiter` needs a vector of scalars, not of {other}")),
        },
        Iter::Nd { data, start, end, stride, shape, strides } => {
            for part in [start, end, stride, shape, strides] {
                expect("an argument of `nditer`", &part.ty, &Type::vec(Type::I64))?;
            }
            vector("`nditer`", &data.ty).cloned()
        }
        Iter::Chunks { data, size } => {
            expect("the size of `chunkiter`", &size.ty, &Type::I64)?;
            vector("`chunkiter`", &data.ty)?;
            Ok(data.ty.clone())
        }
        Iter::Zip(iters) => {
            let fields: Result<Vec<Type>, String> = iters.iter().map(element_type).collect();
            Ok(Type::structure(fields?))
        }
    }
}

/// Whether `==`, `<` and `sort` work on it: scalars, and structs and vectors of what does.
pub fn is_comparable(ty: &Type) -> bool {
    match ty {
        Type::Scalar(_) => true,
        Type::Vec(element) => is_comparable(element),
        Type::Struct(fields) => fields.iter().all(is_comparable),
        Type::Simd(_) | Type::Dict(..) | Type::Builder(_) => false,
    }
}

/// Whether a value of the type may be put into vectors and dictionaries, passed to and returned from a program:
/// it holds no builder (which is linear) and no SIMD value (whose width is the target's).
pub fn is_storable(ty: &Type) -> bool {
    match ty {
        Type::Scalar(_) => true,
        Type::Vec(element) => is_storable(element),
        Type::Dict(key, value) => is_comparable(key) && is_storable(value),
        Type::Struct(fields) => fields.iter().all(is_storable),
        Type::Simd(_) | Type::Builder(_) => false,
    }
}

/// Whether a builder or a struct somewhere inside holds one.
pub fn holds_builder(ty: &Type) -> bool {
    match ty {
        Type::Builder(_) => true,
        Type::Struct(fields) => fields.iter().any(holds_builder),
        _ => false,
    }
}

/// Whether the parts of a builder's type fit each other.
pub fn builder_type(builder: &BuilderType) -> Result<(), String> {
    match builder {
        BuilderType::Appender(element) => storable("the element of an appender", element),
        BuilderType::Merger { value, op } | BuilderType::VecMerger { value, op } => {
            merge_op(op, value)?;
            without_bytes(op, value)
        }
        BuilderType::DictMerger { key, value, op } => {
            dict_key(key)?;
            merge_op(op, value)
        }
        BuilderType::Numberer { key, value, op, row } => {
            dict_key(key)?;
            merge_op(op, value)?;
            storable("the row of a numberer", row)
        }
        BuilderType::GroupBuilder { key, value } => {
            dict_key(key)?;
            storable("the value of a groupbuilder", value)
        }
    }
}

/// Whether every type inside can exist: builders well formed, vectors and dictionaries of storable values.
pub fn well_formed(ty: &Type) -> Result<(), String> {
    match ty {
        Type::Scalar(_) | Type::Simd(_) => Ok(()),
        Type::Vec(element) => {
            storable("the element of a vector", element)?;
            well_formed(element)
        }
        Type::Dict(key, value) => {
            dict_key(key)?;
            storable("the value of a dictionary", value)?;
            well_formed(key)?;
            well_formed(value)
        }
        Type::Struct(fields) => fields.iter().try_for_each(well_formed),
        Type::Builder(builder) => builder_type(builder),
    }
}

fn dict_key(key: &Type) -> Result<(), String> {
    if is_comparable(key) { Ok(()) } else { Err(format!("{key} cannot be the key of a dictionary")) }
}

fn storable(what: &str, ty: &Type) -> Result<(), String> {
    if is_storable(ty) {
        Ok(())
    } else if holds_builder(ty) {
        Err(format!("{what} cannot be {ty}: a builder cannot be stored"))
    } else {
        Err(format!("{what} cannot be {ty}"))
    }
}

/// Whether a builder with this binop can hold values of this type.
pub fn merge_op(op: &MergeOp, value: &Type) -> Result<(), String> {
    match (op, value) {
        (MergeOp::All(reduce), Type::Scalar(kind)) => {
            let fits = match reduce {
                ReduceOp::Add | ReduceOp::Mul | ReduceOp::Min | ReduceOp::Max => *kind != ScalarKind::Bool,
                ReduceOp::BitAnd | ReduceOp::BitOr | ReduceOp::BitXor => !kind.is_float(),
            };
            if fits { Ok(()) } else { Err(format!("the binop `{op}` does not work on {kind}")) }
        }
        (MergeOp::All(_), Type::Struct(fields)) if !fields.is_empty() => {
            fields.iter().try_for_each(|field| merge_op(op, field))
        }
        (MergeOp::Fields(ops), Type::Struct(fields)) if ops.len() == fields.len() => {
            ops.iter().zip(fields.iter()).try_for_each(|(op, field)| merge_op(op, field))
        }
        (MergeOp::Fields(_), _) => Err(format!("the binops {op} do not match the fields of {value}")),
        (MergeOp::Struct(op), value) => struct_op(*op, value),
        (MergeOp::All(_), _) => {
            Err(format!("a builder with the binop `{op}` holds scalars or structs of scalars, not {value}"))
        }
    }
}

fn struct_op(op: StructOp, value: &Type) -> Result<(), String> {
    let name = op.name();
    match op {
        StructOp::Least | StructOp::Greatest => match value.fields() {
            Some([present, of]) if *present == Type::BOOL && is_extreme(of) => Ok(()),
            _ => Err(format!("the binop `{name}` works on {{bool,T}} with a float or byte vector `T`, not on {value}")),
        },
        StructOp::Moments => match value.fields() {
            Some(fields) if matches!(fields.len(), 3 | 6) && fields.iter().all(|field| *field == Type::F64) => Ok(()),
            _ => Err(format!("the binop `{name}` works on structs of 3 or 6 f64, not on {value}")),
        },
        StructOp::First | StructOp::Last | StructOp::LeastBy | StructOp::GreatestBy | StructOp::LastBy => {
            match value.fields() {
                Some([present, others @ ..]) if *present == Type::BOOL && !others.is_empty() => {
                    match others.iter().find(|field| !is_chosen(field)) {
                        None => Ok(()),
                        Some(field) => {
                            Err(format!("the binop `{name}` takes scalars, byte vectors and structs, not {field}"))
                        }
                    }
                }
                _ => Err(format!("the binop `{name}` works on {{bool,T,..}}, not on {value}")),
            }
        }
    }
}

/// What `first` and its kin can hold.
fn is_chosen(ty: &Type) -> bool {
    match ty {
        Type::Scalar(_) => true,
        Type::Struct(fields) => !fields.is_empty() && fields.iter().all(is_chosen),
        other => other.is_bytes(),
    }
}

/// Whether there is a byte vector in a value that a builder holds.
pub(super) fn holds_bytes(value: &Type) -> bool {
    value.is_bytes() || value.fields().is_some_and(|fields| fields.iter().any(holds_bytes))
}

fn is_extreme(ty: &Type) -> bool {
    ty.is_bytes() || ty.as_scalar().is_some_and(ScalarKind::is_float)
}

/// A builder that is not a dictmerger has no memory for byte vectors.
fn without_bytes(op: &MergeOp, value: &Type) -> Result<(), String> {
    match (op, value) {
        (MergeOp::Fields(ops), Type::Struct(fields)) => {
            ops.iter().zip(fields.iter()).try_for_each(|(op, field)| without_bytes(op, field))
        }
        (MergeOp::Struct(op), value) if holds_bytes(value) => {
            Err(format!("the binop `{}` works on byte vectors in a dictmerger only", op.name()))
        }
        _ => Ok(()),
    }
}

fn new_builder(builder: &BuilderType, arg: Option<&Type>) -> Result<(), String> {
    match (builder, arg) {
        (BuilderType::VecMerger { .. }, None) => {
            Err("`vecmerger` needs an initial vector: `vecmerger[T,op](vector)`".to_owned())
        }
        (_, None) => Ok(()),
        (BuilderType::Appender(_), Some(arg)) => expect("the size hint of `appender`", arg, &Type::I64),
        (BuilderType::Merger { value, .. }, Some(arg)) => expect("the initial value of `merger`", arg, value),
        (BuilderType::VecMerger { value, .. }, Some(arg)) => {
            expect("the initial vector of `vecmerger`", arg, &Type::Vec(value.clone()))
        }
        (other, Some(_)) => Err(format!("{other} takes no argument")),
    }
}

/// Whether `value` may be merged into `builder`; a SIMD value goes into a scalar merger or appender lane by lane.
fn merge(builder: &Type, value: &Type) -> Result<(), String> {
    let Type::Builder(builder) = builder else {
        return Err(format!("`merge` needs a builder, not {builder}"));
    };
    let wanted = builder.merge_type();
    let by_lanes = match (builder, value) {
        (BuilderType::Appender(_) | BuilderType::Merger { .. }, Type::Simd(kind)) => wanted == Type::Scalar(*kind),
        _ => false,
    };
    if by_lanes { Ok(()) } else { expect(&format!("what is merged into {builder}"), value, &wanted) }
}

fn unary(op: UnaryOp, value: &Type) -> Result<Type, String> {
    let fits = match lanes(value) {
        Some(kind) => match op {
            UnaryOp::Neg => kind != ScalarKind::Bool,
            UnaryOp::Not => kind == ScalarKind::Bool,
            UnaryOp::Abs => kind.is_float() || kind.is_signed(),
            _ => kind.is_float(),
        },
        None => false,
    };
    if fits { Ok(value.clone()) } else { Err(format!("`{}` does not work on {value}", op.name())) }
}

fn binary(op: BinaryOp, left: &Type, right: &Type) -> Result<Type, String> {
    if left != right {
        return Err(format!("`{}` needs two operands of one type, not {left} and {right}", op.name()));
    }
    let kind = lanes(left);
    let fits = match op {
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem => {
            kind.is_some_and(|k| k != ScalarKind::Bool)
        }
        BinaryOp::Min | BinaryOp::Max => kind.is_some_and(|k| k != ScalarKind::Bool),
        BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor => kind.is_some_and(|k| !k.is_float()),
        BinaryOp::And | BinaryOp::Or => *left == Type::BOOL,
        BinaryOp::Pow => kind.is_some_and(ScalarKind::is_float),
        BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => {
            kind.is_some() || is_comparable(left)
        }
    };
    match left {
        _ if !fits => Err(format!("`{}` does not work on {left}", op.name())),
        Type::Simd(_) if op.is_comparison() => Ok(Type::Simd(ScalarKind::Bool)),
        _ if op.is_predicate() => Ok(Type::BOOL),
        _ => Ok(left.clone()),
    }
}

fn select(cond: &Type, on_true: &Type, on_false: &Type) -> Result<Type, String> {
    let ty = same("the branches of `select`", on_true, on_false)?;
    match (cond, &ty) {
        _ if holds_builder(&ty) => Err("`select` evaluates both branches, so it cannot choose between builders".into()),
        (Type::Simd(ScalarKind::Bool), Type::Simd(_)) => Ok(ty),
        (Type::Simd(ScalarKind::Bool), other) => {
            Err(format!("a `select` by a SIMD condition chooses between SIMD values, not {other}"))
        }
        _ => expect("the condition of `select`", cond, &Type::BOOL).map(|()| ty),
    }
}

/// Scalar to scalar; SIMD to SIMD when the lanes are equally wide, so that there are as many.
fn cast(from: &Type, to: &Type) -> Result<Type, String> {
    let fits = match (from, to) {
        (Type::Scalar(_), Type::Scalar(_)) => true,
        (Type::Simd(a), Type::Simd(b)) => a.bytes() == b.bytes(),
        _ => false,
    };
    if fits { Ok(to.clone()) } else { Err(format!("cannot cast {from} to {to}")) }
}

fn lookup(what: &str, data: &Type, key: &Type) -> Result<Type, String> {
    match data {
        Type::Vec(element) => {
            expect(&format!("the index of {what} in a vector"), key, &Type::I64)?;
            Ok((**element).clone())
        }
        Type::Dict(..) => dictionary(what, data, key).map(|(_, value)| value.clone()),
        other => Err(format!("{what} needs a vector or a dictionary, not {other}")),
    }
}

fn dictionary<'a>(what: &str, data: &'a Type, key: &Type) -> Result<(&'a Type, &'a Type), String> {
    match data {
        Type::Dict(k, v) => {
            expect(&format!("the key of {what}"), key, k)?;
            Ok((k, v))
        }
        other => Err(format!("{what} needs a dictionary, not {other}")),
    }
}

fn vector<'a>(what: &str, ty: &'a Type) -> Result<&'a Type, String> {
    ty.element().ok_or_else(|| format!("{what} needs a vector, not {ty}"))
}

fn function(what: &str, func: &Func, params: &[&Type], body: &Type) -> Result<(), String> {
    if func.params.len() != params.len() {
        return Err(format!("{what} takes {} parameters, not {}", params.len(), func.params.len()));
    }
    for ((_, found), wanted) in func.params.iter().zip(params) {
        expect(&format!("a parameter of {what}"), found, wanted)?;
    }
    expect(&format!("the result of {what}"), &func.body.ty, body)
}

/// The scalar kind of a scalar or of a SIMD value's lanes.
fn lanes(ty: &Type) -> Option<ScalarKind> {
    match ty {
        Type::Scalar(kind) | Type::Simd(kind) => Some(*kind),
        _ => None,
    }
}

fn same(what: &str, a: &Type, b: &Type) -> Result<Type, String> {
    if a == b { Ok(a.clone()) } else { Err(format!("{what} have different types: {a} and {b}")) }
}

fn expect(what: &str, found: &Type, wanted: &Type) -> Result<(), String> {
    if found == wanted { Ok(()) } else { Err(format!("{what} must be {wanted}, not {found}")) }
}
