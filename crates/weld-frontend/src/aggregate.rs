//! Aggregate functions: programs that take rows into a state, put states together, and make the result of one.

use std::collections::HashMap;

use weld_core::diag::Span;
use weld_core::ir::{self, Binding, Expr, ExprKind, Names, Program, Sym, build};
use weld_core::op::{BinaryOp, Intrinsic, ReduceOp};
use weld_core::ty::{ScalarKind, Type};

use crate::{Function, Param, Shape};

/// An aggregate function of a language. All rows of a group may be taken into one state, or some of them into each of
/// several states, which are put together in any order.
#[derive(Clone, Debug)]
pub struct Aggregate {
    /// What a row has, one for each argument of the request.
    pub params: Vec<Param>,
    /// The state without rows: no parameters.
    pub init: Function,
    /// The state with one more row: of a state and the arguments.
    pub step: Function,
    /// The state with more rows, in their order: of a state and a vector for each argument, all of one length.
    pub fold: Function,
    /// The state of all rows of two.
    pub merge: Function,
    /// The result, of a state.
    pub finish: Function,
    /// The aggregate as builders have it, where it is one that they can have.
    pub merged: Option<Merged>,
}

impl Aggregate {
    /// An aggregate of these functions, which have the types that the fields' comments say.
    pub fn new(init: Function, step: Function, fold: Function, merge: Function, finish: Function) -> Aggregate {
        let params = step.params[1..].to_vec();
        let merged = Merged::of(&init, &step, &merge, &finish);
        Aggregate { params, init, step, fold, merge, finish, merged }
    }

    /// How a state lies in Weld.
    pub fn state(&self) -> &Shape {
        &self.init.result
    }
}

/// An aggregate whose state is a struct of scalars, each of which a builder merges with what a row gives.
///
/// Sums of integers are of 128 bits, so that only the total has to fit; counts are of 64.
#[derive(Clone, Debug)]
pub struct Merged {
    /// For each field of the state its type and the operator.
    pub fields: Vec<(ScalarKind, ReduceOp)>,
    /// What a row gives for each field: of the arguments.
    pub row: Function,
    /// The result, of such a state.
    pub finish: Function,
}

/// What no builder would gain by is not looked at.
const NODES_MAX: usize = 10_000;

/// Numbers up to this one may be added in 64 bits, as often as there are rows.
const COUNTED_MAX: i128 = 1 << 16;

impl Merged {
    /// `None` where a field is changed otherwise than by `field = field op e`, by `step` and `merge` alike, from the
    /// value on that the operator leaves out.
    fn of(init: &Function, step: &Function, merge: &Function, finish: &Function) -> Option<Merged> {
        let kinds: Vec<ScalarKind> =
            init.program.body.ty.fields()?.iter().map(Type::as_scalar).collect::<Option<_>>()?;
        let size = step.program.body.size() + merge.program.body.size();
        if kinds.is_empty() || size > NODES_MAX {
            return None;
        }
        let (row, kept, names) = fields(&step.program, &kinds)?;
        let (other, rest, _) = fields(&merge.program, &kinds)?;
        let state = merge.program.params.get(1)?.sym;
        let merges_alike = row
            .iter()
            .zip(&other)
            .enumerate()
            .all(|(index, (row, other))| row.op == other.op && is_field(&other.by, state, index));
        let starts_empty =
            initial(&init.program.body)?.iter().zip(&row).zip(&kinds).all(|((value, field), kind)| {
                identity(field.op, *kind).is_some_and(|identity| equal(value, &identity))
            });
        if !merges_alike || !rest.is_empty() || !starts_empty {
            return None;
        }
        let fields: Vec<(ScalarKind, ReduceOp)> =
            row.iter().map(|field| Some((field.by.ty.as_scalar()?, field.op))).collect::<Option<_>>()?;
        let shapes = || Shape::Tuple(fields.iter().map(|(kind, _)| Shape::scalar(*kind)).collect());
        let finish = finish_of(finish, &kinds, &row, shapes())?;
        let body = build::let_in(kept, build::strct(row.into_iter().map(|field| field.by)));
        let params = step.program.params[1..].to_vec();
        let program = Program { params, body, names };
        let named = step.params[1..].iter().map(|param| (param.name.clone(), param.shape.clone())).collect();
        let row = Function::of_program(named, shapes(), program, step.source.clone()).ok()?;
        Some(Merged { fields, row, finish })
    }

    /// The state without rows.
    pub fn initial(&self) -> Option<Expr> {
        let fields = self.fields.iter().map(|(kind, op)| identity(*op, *kind)).collect::<Option<Vec<_>>>()?;
        Some(build::strct(fields))
    }
}

/// What is merged into a field.
#[derive(Clone, Debug)]
struct Field {
    op: ReduceOp,
    by: Expr,
    /// The operation in the text.
    span: Span,
}

/// What each field of the state, which is the first parameter, is merged with, the bindings that this is made with, and
/// the names with theirs.
fn fields(program: &Program, kinds: &[ScalarKind]) -> Option<(Vec<Field>, Vec<Binding>, Names)> {
    let state = program.params.first()?.sym;
    let mut reader =
        Reader { state, kinds, names: program.names.clone(), known: HashMap::new(), kept: vec![Vec::new()] };
    let Value::Struct(values) = reader.value(&program.body)? else { return None };
    let field = |(at, value): (usize, Value)| match value {
        Value::Field(index, merged) if index == at => merged,
        _ => None,
    };
    let fields = values.into_iter().enumerate().map(field).collect::<Option<Vec<Field>>>()?;
    (fields.len() == kinds.len()).then(|| (fields, reader.kept.pop().unwrap_or_default(), reader.names))
}

/// Reads a program that changes a state.
struct Reader<'a> {
    state: Sym,
    kinds: &'a [ScalarKind],
    names: Names,
    /// The variables that depend on the state, and those that are others.
    known: HashMap<Sym, Value>,
    /// The bindings that do not depend on it, of each block.
    kept: Vec<Vec<Binding>>,
}

#[derive(Clone, Debug)]
enum Value {
    /// It does not depend on the state.
    Free(Expr),
    /// A field of the state, and what was merged into it.
    Field(usize, Option<Field>),
    Struct(Vec<Value>),
    /// A comparison with a field.
    Compared(BinaryOp, Box<[Value; 2]>, Span),
}

impl Reader<'_> {
    fn value(&mut self, e: &Expr) -> Option<Value> {
        let free = e.free_vars();
        let depends = |sym: &Sym| *sym == self.state || !matches!(self.known.get(sym), None | Some(Value::Free(_)));
        if !free.iter().any(depends) {
            let others = free.iter().filter_map(|sym| match self.known.get(sym) {
                Some(Value::Free(other)) => Some((*sym, other.clone())),
                _ => None,
            });
            let mut others: HashMap<Sym, Expr> = others.collect();
            let mut e = e.clone();
            e.substitute_all(&mut others, &mut self.names);
            return Some(Value::Free(e));
        }
        match &e.kind {
            ExprKind::Var(sym) if *sym == self.state => {
                Some(Value::Struct((0..self.kinds.len()).map(|index| Value::Field(index, None)).collect()))
            }
            ExprKind::Var(sym) => self.known.get(sym).cloned(),
            ExprKind::Field(of, index) => match self.value(of)? {
                Value::Struct(parts) => parts.get(*index as usize).cloned(),
                _ => None,
            },
            ExprKind::Struct(parts) => {
                parts.iter().map(|part| self.value(part)).collect::<Option<_>>().map(Value::Struct)
            }
            ExprKind::Let { bindings, body } => {
                bindings.iter().try_for_each(|binding| self.bind(binding))?;
                self.value(body)
            }
            ExprKind::Binary(op @ (BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge), a, b) => {
                Some(Value::Compared(*op, Box::new([self.value(a)?, self.value(b)?]), e.span))
            }
            ExprKind::Binary(op, a, b) => self.merged(merge_of(*op, &e.ty)?, *op == BinaryOp::Sub, [a, b], e),
            ExprKind::Intrinsic(op @ (Intrinsic::CheckedAdd | Intrinsic::CheckedSub), args) => match &args[..] {
                [a, b] => self.merged(ReduceOp::Add, *op == Intrinsic::CheckedSub, [a, b], e),
                _ => None,
            },
            ExprKind::If { cond, on_true, on_false } | ExprKind::Select { cond, on_true, on_false } => {
                self.branch(cond, on_true, on_false)
            }
            _ => None,
        }
    }

    fn bind(&mut self, binding: &Binding) -> Option<()> {
        let value = match self.value(&binding.value)? {
            Value::Free(value) if !is_plain(&value) => {
                self.kept.last_mut()?.push(Binding { sym: binding.sym, value });
                return Some(());
            }
            value => value,
        };
        self.known.insert(binding.sym, value);
        Some(())
    }

    /// `field op e`, or `e op field`.
    fn merged(&mut self, op: ReduceOp, subtracts: bool, [a, b]: [&Expr; 2], e: &Expr) -> Option<Value> {
        let (index, before, by) = match (self.value(a)?, self.value(b)?) {
            (Value::Field(index, before), Value::Free(by)) => (index, before, by),
            (Value::Free(by), Value::Field(index, before)) if !subtracts => (index, before, by),
            _ => return None,
        };
        let by = contribution(op, subtracts, by)?;
        let by = match before {
            None => by,
            Some(before) if before.op == op => {
                let (a, b) = widened(before.by, by);
                build::binary(op.binary(), a, b)
            }
            Some(_) => return None,
        };
        Some(Value::Field(index, Some(Field { op, by, span: e.span })))
    }

    /// Has a branch that fails keep its error, and give what leaves the other branch's value as it is.
    fn only_fails(&mut self, value: &mut Value, kept: &mut Vec<Binding>, other: &Value) -> Option<()> {
        if let Value::Free(error) = std::mem::replace(value, unmerged(other)?) {
            kept.push(Binding { sym: self.names.fresh("fails"), value: error });
        }
        Some(())
    }

    /// Where both branches merge into the same fields, one of them decides with what.
    fn branch(&mut self, cond: &Expr, on_true: &Expr, on_false: &Expr) -> Option<Value> {
        let cond = self.value(cond)?;
        let ends = [on_true, on_false].map(always_fails);
        let mut block = |e| {
            self.kept.push(Vec::new());
            let value = self.value(e);
            (value, self.kept.pop().unwrap_or_default())
        };
        let ((on_true, mut true_kept), (on_false, mut false_kept)) = (block(on_true), block(on_false));
        let (mut on_true, mut on_false) = (on_true?, on_false?);
        // A branch that is only an error gives nothing: the other one says which fields are merged.
        match ends {
            [true, false] => self.only_fails(&mut on_true, &mut true_kept, &on_false)?,
            [false, true] => self.only_fails(&mut on_false, &mut false_kept, &on_true)?,
            _ => {}
        }
        let cond = match cond {
            Value::Free(cond) => cond,
            // What a branch evaluates beside what it gives stays in it.
            Value::Compared(op, sides, span) if true_kept.is_empty() && false_kept.is_empty() => {
                return extreme(op, &sides, &on_true, &on_false, span);
            }
            _ => return None,
        };
        let mut pairs = Vec::new();
        let value = joined(on_true, on_false, &mut pairs)?;
        if pairs.is_empty() && ends != [false, false] {
            return None;
        }
        let (trues, falses): (Vec<Expr>, Vec<Expr>) = pairs.into_iter().unzip();
        let made = build::if_(
            cond,
            build::let_in(true_kept, build::strct(trues)),
            build::let_in(false_kept, build::strct(falses)),
        );
        let sym = self.names.fresh("chosen");
        let variable = build::var(sym, made.ty.clone());
        self.kept.last_mut()?.push(Binding { sym, value: made });
        Some(placed(value, &variable))
    }
}

/// Whether an expression ends in an error whenever it is evaluated.
fn always_fails(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Assert { cond, .. } => matches!(cond.kind, ExprKind::Literal(ir::Literal::Bool(false))),
        ExprKind::Let { bindings, body } => {
            bindings.iter().any(|binding| always_fails(&binding.value)) || always_fails(body)
        }
        _ => false,
    }
}

/// A value of the same form into which nothing is merged.
fn unmerged(value: &Value) -> Option<Value> {
    Some(match value {
        Value::Free(other) => Value::Free(build::zero(&other.ty)),
        Value::Field(index, _) => Value::Field(*index, None),
        Value::Struct(parts) => Value::Struct(parts.iter().map(unmerged).collect::<Option<_>>()?),
        Value::Compared(..) => return None,
    })
}

/// `x < field ? x : field` and its like: the lesser or the greater one.
fn extreme(op: BinaryOp, sides: &[Value; 2], chosen: &Value, other: &Value, span: Span) -> Option<Value> {
    if let (Value::Struct(chosen), Value::Struct(others)) = (chosen, other) {
        let parts = chosen.iter().zip(others).map(|(chosen, other)| extreme(op, sides, chosen, other, span));
        return parts.collect::<Option<_>>().map(Value::Struct);
    }
    if let (Value::Field(_, None), true) = (chosen, same(chosen, other)) {
        return Some(chosen.clone());
    }
    let [a, b] = sides;
    // Which of the compared ones is taken where the comparison holds.
    let takes_left = same(chosen, a) && same(other, b);
    let takes_right = same(chosen, b) && same(other, a);
    if !(takes_left || takes_right) {
        return None;
    }
    let op = match (op, takes_left) {
        (BinaryOp::Lt | BinaryOp::Le, true) | (BinaryOp::Gt | BinaryOp::Ge, false) => ReduceOp::Min,
        _ => ReduceOp::Max,
    };
    match (a, b) {
        (Value::Field(index, None), Value::Free(by)) | (Value::Free(by), Value::Field(index, None)) => {
            let by = contribution(op, false, by.clone())?;
            Some(Value::Field(*index, Some(Field { op, by, span })))
        }
        _ => None,
    }
}

/// What is merged: integers that are added are made as wide as their sum.
fn contribution(op: ReduceOp, subtracts: bool, by: Expr) -> Option<Expr> {
    let kind = by.ty.as_scalar()?;
    let by = match op {
        ReduceOp::Add if kind.is_integer() => {
            let is_count = matches!(by.kind, ExprKind::Literal(value) if value.bits().abs() <= COUNTED_MAX);
            build::cast(by, if is_count { ScalarKind::I64 } else { ScalarKind::I128 })
        }
        // A comparison of floats leaves NaN out, builders do not; and products of integers fit no type.
        ReduceOp::Min | ReduceOp::Max if kind.is_float() => return None,
        ReduceOp::Mul if !kind.is_float() => return None,
        _ => by,
    };
    Some(match subtracts {
        true => build::sub(build::zero(&by.ty), by),
        false => by,
    })
}

/// Of two values the one that is chosen: what the branches have is added to `pairs`, and its place there stands in the
/// value.
fn joined(a: Value, b: Value, pairs: &mut Vec<(Expr, Expr)>) -> Option<Value> {
    let mut place = |a: Expr, b: Expr| {
        pairs.push((a, b));
        build::i64(pairs.len() as i64 - 1)
    };
    match (a, b) {
        (Value::Free(a), Value::Free(b)) => (a.ty == b.ty).then(|| Value::Free(place(a, b))),
        (Value::Struct(a), Value::Struct(b)) if a.len() == b.len() => {
            let parts = a.into_iter().zip(b).map(|(a, b)| joined(a, b, pairs));
            parts.collect::<Option<_>>().map(Value::Struct)
        }
        (Value::Field(i, a), Value::Field(j, b)) if i == j => {
            let (op, span) = match (&a, &b) {
                (None, None) => return Some(Value::Field(i, None)),
                (Some(field), None) | (None, Some(field)) => (field.op, field.span),
                (Some(a), Some(b)) => (a.op == b.op).then_some((a.op, a.span))?,
            };
            let ty = a.as_ref().or(b.as_ref()).map(|field| field.by.ty.clone())?;
            let none = identity(op, ty.as_scalar()?)?;
            let by = |field: Option<Field>| field.map_or_else(|| none.clone(), |field| field.by);
            let (a, b) = widened(by(a), by(b));
            Some(Value::Field(i, Some(Field { op, by: place(a, b), span })))
        }
        _ => None,
    }
}

/// The value with the fields of `chosen` in the places that [`joined`] gave.
fn placed(value: Value, chosen: &Expr) -> Value {
    let at = |place: &Expr| match place.kind {
        ExprKind::Literal(place) => build::field(chosen.clone(), place.bits() as usize),
        _ => place.clone(),
    };
    match value {
        Value::Free(place) => Value::Free(at(&place)),
        Value::Field(index, field) => Value::Field(index, field.map(|field| Field { by: at(&field.by), ..field })),
        Value::Struct(parts) => Value::Struct(parts.into_iter().map(|part| placed(part, chosen)).collect()),
        compared @ Value::Compared(..) => compared,
    }
}

/// The operator of builders.
fn merge_of(op: BinaryOp, ty: &Type) -> Option<ReduceOp> {
    let kind = ty.as_scalar()?;
    Some(match op {
        BinaryOp::Add | BinaryOp::Sub if kind.is_float() => ReduceOp::Add,
        BinaryOp::Mul => ReduceOp::Mul,
        BinaryOp::Min => ReduceOp::Min,
        BinaryOp::Max => ReduceOp::Max,
        BinaryOp::BitAnd | BinaryOp::And => ReduceOp::BitAnd,
        BinaryOp::BitOr | BinaryOp::Or => ReduceOp::BitOr,
        BinaryOp::BitXor => ReduceOp::BitXor,
        _ => return None,
    })
}

/// What the operator leaves out.
fn identity(op: ReduceOp, kind: ScalarKind) -> Option<Expr> {
    let bits = kind.bits();
    let greatest = match (kind, kind.is_signed()) {
        (ScalarKind::Bool, _) => 1,
        (_, true) => i128::MAX >> (128 - bits),
        (_, false) => (1i128 << bits) - 1,
    };
    Some(build::number(
        kind,
        match op {
            ReduceOp::Add | ReduceOp::BitOr | ReduceOp::BitXor => 0,
            ReduceOp::Mul => 1,
            ReduceOp::Min | ReduceOp::Max if kind.is_float() => return None,
            ReduceOp::Min => greatest,
            ReduceOp::Max if kind.is_signed() => -greatest - 1,
            ReduceOp::Max => 0,
            ReduceOp::BitAnd if kind.is_signed() => -1,
            ReduceOp::BitAnd => greatest,
        },
    ))
}

/// The two in the wider one's type.
fn widened(a: Expr, b: Expr) -> (Expr, Expr) {
    match (a.ty.as_scalar(), b.ty.as_scalar()) {
        (Some(ScalarKind::I128), Some(ScalarKind::I64)) => (a, build::cast(b, ScalarKind::I128)),
        (Some(ScalarKind::I64), Some(ScalarKind::I128)) => (build::cast(a, ScalarKind::I128), b),
        _ => (a, b),
    }
}

/// Whether an expression may be repeated.
fn is_plain(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Var(_) | ExprKind::Literal(_) => true,
        ExprKind::Field(of, _) => is_plain(of),
        _ => false,
    }
}

fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Free(a), Value::Free(b)) => a.same_as(b),
        (Value::Field(i, None), Value::Field(j, None)) => i == j,
        _ => false,
    }
}

/// Whether it is the field of the other state, in whatever type.
fn is_field(e: &Expr, state: Sym, index: usize) -> bool {
    match &e.kind {
        ExprKind::Cast(of) => is_field(of, state, index),
        ExprKind::Field(of, at) => *at as usize == index && matches!(of.kind, ExprKind::Var(sym) if sym == state),
        _ => false,
    }
}

/// The literals of the first state.
fn initial(body: &Expr) -> Option<&[Expr]> {
    match &body.kind {
        ExprKind::Struct(fields) => Some(fields),
        _ => None,
    }
}

/// Whether a literal is this one; of floats either zero is.
fn equal(value: &Expr, identity: &Expr) -> bool {
    match (&value.kind, &identity.kind) {
        (ExprKind::Cast(of), ExprKind::Literal(literal)) => match of.kind {
            ExprKind::Literal(of) if of.kind().is_integer() => {
                equal(&build::number(literal.kind(), of.bits()), identity)
            }
            _ => false,
        },
        (ExprKind::Literal(ir::Literal::F64(a)), ExprKind::Literal(ir::Literal::F64(b))) => a == b,
        (ExprKind::Literal(ir::Literal::F32(a)), ExprKind::Literal(ir::Literal::F32(b))) => a == b,
        (ExprKind::Literal(a), ExprKind::Literal(b)) => a == b,
        _ => false,
    }
}

/// The result of a state whose sums are wider than its fields: an error where one does not fit.
fn finish_of(finish: &Function, kinds: &[ScalarKind], fields: &[Field], shape: Shape) -> Option<Function> {
    let mut program = finish.program.clone();
    let param = program.params.first_mut()?;
    let wide = build::param(&mut program.names, "state", shape.ty());
    let ExprKind::Var(sym) = wide.kind else { return None };
    let narrow = kinds.iter().zip(fields).enumerate().map(|(index, (kind, field))| {
        let total = build::field(wide.clone(), index);
        if total.ty == Type::Scalar(*kind) {
            return total;
        }
        let value = build::cast(total.clone(), *kind);
        let fits = build::eq(build::cast(value.clone(), total.ty.as_scalar().unwrap_or(*kind)), total);
        let fits = build::require(fits, "Overflow: integer overflow", []).at(field.span);
        build::if_(fits, value, build::number(*kind, 0))
    });
    let binding = Binding { sym: param.sym, value: build::strct(narrow) };
    *param = ir::Param { sym, ty: shape.ty(), stream: false, known: None };
    program.body = build::let_in(vec![binding], program.body);
    let function = Function::of_program(vec![("state", shape)], finish.result.clone(), program, finish.source.clone());
    Some(function.ok()?.typed(finish.result_type.clone()))
}
