//! Types of expressions and temporaries, and the axes along which temporaries vary.
//!
//! A temporary has the type that holds all that is assigned to it. It has an I or J axis only if something that is
//! assigned to it varies along that axis, so a stencil of fields over K works on columns alone.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use weld_core::diag::Diagnostic;
use weld_core::ir::deep;
use weld_core::ty::Type;

use crate::dtype::{Dtype, Ty};
use crate::tree::{
    Builtin, Const, FieldId, Node, NodeKind, Op, ParamKind, Policy, Ref, Stencil, Stmt, StmtKind, axes_name,
};

/// The types of expressions, given those of the fields.
#[derive(Debug)]
pub(crate) struct Types<'s> {
    stencil: &'s Stencil,
    fields: Vec<Option<Ty>>,
    known: RefCell<HashMap<*const Node, Ty>>,
    fallible: RefCell<HashMap<*const Node, bool>>,
}

impl<'s> Types<'s> {
    pub(crate) fn new(stencil: &'s Stencil) -> Types<'s> {
        let fields = stencil.fields.iter().map(|field| field.dtype.map(Ty::Is)).collect();
        Types { stencil, fields, known: RefCell::default(), fallible: RefCell::default() }
    }

    pub(crate) fn of(&self, node: &Ref) -> Ty {
        let key = Rc::as_ptr(node);
        if let Some(ty) = self.known.borrow().get(&key) {
            return *ty;
        }
        let ty = deep(|| self.of_here(node));
        self.known.borrow_mut().insert(key, ty);
        ty
    }

    fn of_here(&self, node: &Ref) -> Ty {
        let bool = Ty::Is(Dtype::Bool);
        match &node.kind {
            NodeKind::Const(value) => value.ty(),
            NodeKind::Scalar(index) => match &self.stencil.params[*index].kind {
                ParamKind::Scalar { dtype, .. } => Ty::Is(*dtype),
                ParamKind::Field(_) => bool,
            },
            // Not known yet: the least of all types.
            NodeKind::Access { field, .. } => self.fields[*field].unwrap_or(bool),
            NodeKind::Neg(a) => self.of(a).arithmetic(),
            NodeKind::Binary(Op::Div, a, b) => self.of(a).join(self.of(b)).floating(),
            NodeKind::Binary(_, a, b) => self.of(a).join(self.of(b)).arithmetic(),
            NodeKind::Select(_, a, b) => self.of(a).join(self.of(b)),
            NodeKind::Not(_) | NodeKind::Compare(..) | NodeKind::And(_) | NodeKind::Or(_) => bool,
            NodeKind::Cast(dtype, _) => Ty::Is(*dtype),
            NodeKind::Call(builtin, args) => {
                let first = self.of(&args[0]);
                match builtin {
                    Builtin::Min | Builtin::Max => args[1..].iter().fold(first, |ty, arg| ty.join(self.of(arg))),
                    Builtin::Abs | Builtin::Floor | Builtin::Ceil | Builtin::Trunc => first.arithmetic(),
                    Builtin::IsNan | Builtin::IsInf | Builtin::IsFinite => bool,
                    _ => first.floating(),
                }
            }
            NodeKind::Session(function, _) => match function.output().ty() {
                Type::Scalar(kind) => Dtype::of_kind(kind).map_or(bool, Ty::Is),
                _ => bool,
            },
        }
    }

    /// Whether evaluating the expression can raise an error, so that it is evaluated only where it has to be.
    pub(crate) fn can_fail(&self, node: &Ref) -> bool {
        let key = Rc::as_ptr(node);
        if let Some(known) = self.fallible.borrow().get(&key) {
            return *known;
        }
        let own = match &node.kind {
            NodeKind::Binary(Op::FloorDiv | Op::Mod | Op::Pow, ..) => !self.of(node).is_float(),
            NodeKind::Session(..) => true,
            _ => false,
        };
        let mut fails = own;
        deep(|| node.each_child(&mut |child| fails = fails || self.can_fail(child)));
        self.fallible.borrow_mut().insert(key, fails);
        fails
    }

    fn each_assigned(&self) -> Vec<(FieldId, &'s Ref)> {
        let mut all = Vec::new();
        self.stencil.each_stmt(&mut |_, stmt| {
            if let StmtKind::Assign { target, value, .. } = &stmt.kind {
                all.push((*target, value));
            }
        });
        all
    }
}

/// Gives every temporary its type, then its axes.
pub(crate) fn infer(stencil: &mut Stencil) -> Result<(), Vec<Diagnostic>> {
    let types = types(stencil);
    for (field, ty) in stencil.fields.iter_mut().zip(types) {
        field.dtype = field.dtype.or(ty.map(Ty::default)).or(Some(Dtype::Float64));
    }
    let mut errors = check_constants(stencil);
    errors.extend(give_axes(stencil));
    errors.sort_by_key(|error| error.span.start);
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn types(stencil: &Stencil) -> Vec<Option<Ty>> {
    let mut types = Types::new(stencil);
    let assigned = types.each_assigned();
    // The types of a temporary only grow, and there are few.
    loop {
        let mut changed = false;
        for (target, value) in &assigned {
            if stencil.fields[*target].dtype.is_some() {
                continue;
            }
            let ty = types.of(value);
            let joined = types.fields[*target].map_or(ty, |known| known.join(ty));
            if types.fields[*target] != Some(joined) {
                types.fields[*target] = Some(joined);
                types.known.borrow_mut().clear();
                changed = true;
            }
        }
        if !changed {
            return types.fields;
        }
    }
}

/// Gives every temporary its axes; the fields that lack an axis of what is assigned to them. Temporaries of sequential
/// blocks get more than they need where no field of the caller is then assigned what it has no axis for.
fn give_axes(stencil: &mut Stencil) -> Vec<Diagnostic> {
    let mut errors = Vec::new();
    for alike in [true, false] {
        let axes = axes(stencil, alike);
        for (field, axes) in stencil.fields.iter_mut().zip(axes).filter(|(field, _)| !field.external) {
            field.axes = axes;
        }
        errors = check_axes(stencil);
        if errors.is_empty() {
            break;
        }
    }
    errors
}

/// The axes of all fields: those of a temporary are what its values, their masks and loops vary along. If `alike`, what
/// is written in one sequential block has the same, so that one loop can write it.
fn axes(stencil: &Stencil, alike: bool) -> Vec<[bool; 3]> {
    const NONE: [bool; 3] = [false, false, true];
    let start = |field: &crate::tree::Field| if field.external { field.axes } else { NONE };
    let mut axes: Vec<[bool; 3]> = stencil.fields.iter().map(start).collect();
    loop {
        let before = axes.clone();
        for block in &stencil.blocks {
            let mut all = NONE;
            for stmt in &block.body {
                let own = widen(stencil, stmt, NONE, &mut axes);
                all = either(all, own);
            }
            if alike && block.policy != Policy::Parallel {
                block.body.iter().for_each(|stmt| give(stencil, stmt, all, &mut axes));
            }
        }
        if axes == before {
            return axes;
        }
    }
}

fn either(a: [bool; 3], b: [bool; 3]) -> [bool; 3] {
    [a[0] || b[0], a[1] || b[1], a[2] || b[2]]
}

/// What a statement varies along; its temporaries get it.
fn widen(stencil: &Stencil, stmt: &Stmt, outer: [bool; 3], axes: &mut [[bool; 3]]) -> [bool; 3] {
    let own = stmt.reads().iter().fold(outer, |own, read| either(own, axes[read.field]));
    let all = match &stmt.kind {
        StmtKind::Assign { target, .. } => either(own, axes[*target]),
        StmtKind::While { body, .. } => {
            body.iter().fold(own, |all, inner| either(all, widen(stencil, inner, own, axes)))
        }
    };
    give(stencil, stmt, if matches!(stmt.kind, StmtKind::While { .. }) { all } else { own }, axes);
    all
}

fn give(stencil: &Stencil, stmt: &Stmt, all: [bool; 3], axes: &mut [[bool; 3]]) {
    for target in stmt.targets() {
        if !stencil.fields[target].external {
            axes[target] = either(axes[target], all);
        }
    }
}

/// Fields that lack an axis of what is assigned to them.
fn check_axes(stencil: &Stencil) -> Vec<Diagnostic> {
    let mut errors = Vec::new();
    for block in &stencil.blocks {
        for stmt in &block.body {
            check_stmt_axes(stencil, stmt, [false; 3], block.policy, &mut errors);
        }
    }
    errors
}

fn check_stmt_axes(stencil: &Stencil, stmt: &Stmt, outer: [bool; 3], policy: Policy, errors: &mut Vec<Diagnostic>) {
    let own = stmt.reads().iter().fold(outer, |own, read| {
        let mut axes = stencil.fields[read.field].axes;
        // A field reads itself along the axes that it has.
        axes[2] = false;
        either(own, axes)
    });
    match &stmt.kind {
        StmtKind::While { body, .. } => {
            body.iter().for_each(|inner| check_stmt_axes(stencil, inner, own, policy, errors));
        }
        StmtKind::Assign { target, place, .. } => {
            let field = &stencil.fields[*target];
            let name = &field.name;
            if !field.axes[2] && policy == Policy::Parallel {
                let message = format!(
                    "`{name}` has no K axis ({}): it can be written in FORWARD and BACKWARD only, found PARALLEL",
                    axes_name(field.axes)
                );
                errors.push(Diagnostic::ty(*place, message));
            } else if let Some(axis) = (0..2).find(|axis| own[*axis] && !field.axes[*axis]) {
                let message = format!(
                    "`{name}` has no {} axis ({}), but what is assigned to it varies along {}",
                    ["I", "J"][axis],
                    axes_name(field.axes),
                    ["I", "J"][axis]
                );
                errors.push(Diagnostic::ty(*place, message));
            }
        }
    }
}

/// Integers that do not fit where they are used.
fn check_constants(stencil: &Stencil) -> Vec<Diagnostic> {
    let types = Types::new(stencil);
    let mut errors = Vec::new();
    let mut seen = std::collections::HashSet::new();
    let assigned = types.each_assigned().into_iter().map(|(target, value)| (stencil.dtype(target), value));
    let mut values: Vec<(Dtype, &Ref)> = assigned.collect();
    stencil.each_stmt(&mut |_, stmt| {
        if let StmtKind::While { cond, .. } = &stmt.kind {
            values.push((Dtype::Bool, cond));
        }
    });
    for (dtype, value) in values {
        check_int(&types, value, dtype, &mut errors);
        let mut open = vec![value];
        while let Some(node) = open.pop() {
            if !seen.insert(Rc::as_ptr(node)) {
                continue;
            }
            let wanted = match &node.kind {
                NodeKind::Cast(dtype, _) => *dtype,
                NodeKind::Compare(_, a, b) => compared(&types, a, b),
                _ => types.of(node).default(),
            };
            node.each_child(&mut |child| {
                check_int(&types, child, wanted, &mut errors);
                open.push(child);
            });
        }
    }
    errors
}

/// The type in which two values are compared: of integers one that holds a constant.
pub(crate) fn compared(types: &Types<'_>, a: &Ref, b: &Ref) -> Dtype {
    let dtype = types.of(a).join(types.of(b)).default();
    let beyond = |node: &Ref| matches!(node.kind, NodeKind::Const(Const::Int(value)) if i32::try_from(value).is_err());
    if dtype == Dtype::Int32 && (beyond(a) || beyond(b)) { Dtype::Int64 } else { dtype }
}

fn check_int(types: &Types<'_>, node: &Ref, wanted: Dtype, errors: &mut Vec<Diagnostic>) {
    let NodeKind::Const(Const::Int(value)) = node.kind else { return };
    let fits = match wanted {
        Dtype::Int32 if types.of(node) == Ty::WeakInt => i32::try_from(value).is_ok(),
        Dtype::Int64 => i64::try_from(value).is_ok(),
        _ => true,
    };
    if !fits {
        errors.push(Diagnostic::ty(node.span, format!("the constant {value} does not fit into {}", wanted.name())));
    }
}
