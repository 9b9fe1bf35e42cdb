//! Expressions: names resolved, constants folded, functions inlined.

use std::collections::HashMap;
use std::rc::Rc;

use weld_core::diag::{Diagnostic, Span};
use weld_core::ir::deep;
use weld_pysyntax::{self as py, CompareOp, ExprKind, StmtKind, UnaryOp};

use crate::dtype::Dtype;
use crate::fold;
use crate::module::recursive;
use crate::resolve::{Resolver, Symbol};
use crate::tree::{Builtin, Const, Node, NodeKind, Offset, Op, Ref};

/// Offsets are smaller, so that sums of them fit.
const OFFSET_MAX: i32 = 1 << 30;

/// What was told already.
pub(crate) struct Told;

/// What a name of a function that is being inlined stands for.
#[derive(Clone)]
pub(crate) enum Local<'a> {
    Value(Ref),
    /// Imported from the externals.
    Const(Const),
    Function(&'a py::Function),
}

type Locals<'a> = HashMap<String, Local<'a>>;

impl<'a> Resolver<'a> {
    pub(crate) fn node(&mut self, span: Span, kind: NodeKind) -> Result<Ref, Told> {
        self.nodes += 1;
        if self.nodes > self.limits.nodes {
            if self.nodes == self.limits.nodes + 1 {
                let message = format!("the stencil is too large: more than {} nodes once inlined", self.limits.nodes);
                self.error(span, message);
            }
            return Err(Told);
        }
        Ok(Rc::new(Node { span, kind }))
    }

    fn constant(&mut self, span: Span, value: Const) -> Result<Ref, Told> {
        self.node(span, NodeKind::Const(value))
    }

    fn refuse<T>(&mut self, span: Span, message: impl Into<String>) -> Result<T, Told> {
        self.error(span, message);
        Err(Told)
    }

    /// An expression of a stencil.
    pub(crate) fn expr(&mut self, expr: &py::Expr) -> Result<Ref, Told> {
        self.expr_in(expr, None)
    }

    /// The value of an expression that has to be constant.
    pub(crate) fn const_expr(&mut self, expr: &py::Expr, what: &str) -> Result<Const, Told> {
        let node = self.expr_in(expr, Some(&Locals::new()))?;
        match node.kind {
            NodeKind::Const(value) => Ok(value),
            _ => self.refuse(expr.span, format!("{what} must be a constant")),
        }
    }

    fn expr_in(&mut self, expr: &py::Expr, locals: Option<&Locals<'a>>) -> Result<Ref, Told> {
        deep(|| self.expr_here(expr, locals))
    }

    fn expr_here(&mut self, expr: &py::Expr, locals: Option<&Locals<'a>>) -> Result<Ref, Told> {
        let span = expr.span;
        match &expr.kind {
            ExprKind::Int(value) => self.constant(span, Const::Int(i128::from(*value))),
            ExprKind::BigInt(text) => {
                let text: String = text.chars().take(40).collect();
                self.refuse(span, format!("the integer {text} is too large"))
            }
            ExprKind::Float(value) => self.constant(span, Const::Float(*value)),
            ExprKind::Bool(value) => self.constant(span, Const::Bool(*value)),
            ExprKind::Name(name) => self.name(span, name, None, locals),
            ExprKind::Index(of, index) => match of.as_name() {
                Some(name) => {
                    let offsets = self.offsets(index, locals)?;
                    self.name(span, name, Some(&offsets), locals)
                }
                None => self.refuse(span, format!("only fields have offsets, found {}", of.described())),
            },
            ExprKind::Unary(op, value) => {
                let value = self.expr_in(value, locals)?;
                self.unary(span, *op, value)
            }
            ExprKind::Binary(op, a, b) => {
                let Some(op) = arithmetic(*op) else {
                    let hint = match op {
                        py::BinaryOp::BitAnd => "; use `and`",
                        py::BinaryOp::BitOr => "; use `or`",
                        _ => "",
                    };
                    return self.refuse(span, format!("the operator `{}` is not supported{hint}", op.text()));
                };
                let a = self.expr_in(a, locals);
                let b = self.expr_in(b, locals);
                self.binary(span, op, a?, b?)
            }
            ExprKind::And(parts) | ExprKind::Or(parts) => {
                let parts: Vec<_> = parts.iter().map(|part| self.expr_in(part, locals)).collect();
                let parts = parts.into_iter().collect::<Result<Vec<_>, Told>>()?;
                self.logical(span, matches!(expr.kind, ExprKind::And(_)), parts)
            }
            ExprKind::Compare { first, rest } => self.comparison(span, first, rest, locals),
            ExprKind::If { test, on_true, on_false } => {
                let test = self.expr_in(test, locals);
                let (a, b) = (self.expr_in(on_true, locals), self.expr_in(on_false, locals));
                self.select(span, test?, a?, b?)
            }
            ExprKind::Call { callee, args, keywords } => self.call(span, callee, args, keywords, locals),
            ExprKind::Attribute(..) => match expr.as_path() {
                Some(path) => self.refuse(span, format!("unknown name `{}`", path.join("."))),
                None => self.refuse(span, "attributes are not supported"),
            },
            other => {
                let what = py::Expr { span, kind: other.clone() }.described();
                self.refuse(span, format!("{what} is not supported in an expression of a stencil"))
            }
        }
    }

    fn name(
        &mut self,
        span: Span,
        name: &str,
        offsets: Option<&[i32]>,
        locals: Option<&Locals<'a>>,
    ) -> Result<Ref, Told> {
        if let Some(locals) = locals {
            match locals.get(name).cloned() {
                Some(Local::Value(value)) => return self.local(span, name, value, offsets),
                Some(Local::Const(value)) => return self.external(span, name, value, offsets),
                Some(Local::Function(_)) => return self.uncalled(span, name),
                None if matches!(self.names.get(name), Some(Symbol::Field(_) | Symbol::Scalar(_))) => {
                    let message = match self.inlining.is_empty() {
                        true => format!("`{name}` is no constant; expected numbers and externals"),
                        false => format!("unknown name `{name}`; a function sees its parameters and externals only"),
                    };
                    return self.refuse(span, message);
                }
                None => {}
            }
        }
        match self.names.get(name) {
            Some(Symbol::Field(id)) => {
                let id = *id;
                let offset = self.field_offset(span, id, offsets)?;
                self.node(span, NodeKind::Access { field: id, offset })
            }
            Some(Symbol::Scalar(index)) => {
                let index = *index;
                match offsets {
                    None => self.node(span, NodeKind::Scalar(index)),
                    Some(_) => self.refuse(span, format!("`{name}` is a scalar, which has no offsets")),
                }
            }
            Some(Symbol::Const(value)) => {
                let value = *value;
                self.external(span, name, value, offsets)
            }
            Some(Symbol::End) => {
                self.refuse(span, format!("`{name}` is None, which only the bound of an interval can be"))
            }
            Some(Symbol::Function(_)) => self.uncalled(span, name),
            None => self.unknown(span, name),
        }
    }

    fn external(&mut self, span: Span, name: &str, value: Const, offsets: Option<&[i32]>) -> Result<Ref, Told> {
        match offsets {
            None => self.constant(span, value),
            Some(_) => self.refuse(span, format!("`{name}` is an external, which has no offsets")),
        }
    }

    fn uncalled<T>(&mut self, span: Span, name: &str) -> Result<T, Told> {
        self.refuse(span, format!("`{name}` is a function; it has to be called"))
    }

    fn unknown<T>(&mut self, span: Span, name: &str) -> Result<T, Told> {
        if self.later.contains(name) {
            return self.refuse(span, format!("`{name}` is read before it is assigned"));
        }
        if self.externals.contains_key(name) {
            let error = Diagnostic::ty(span, format!("unknown name `{name}`"));
            self.errors.push(error.with_hint(format!("`from __externals__ import {name}` makes it known")));
            return Err(Told);
        }
        self.refuse(span, format!("unknown name `{name}`"))
    }

    /// The constant offsets between brackets.
    fn offsets(&mut self, index: &py::Expr, locals: Option<&Locals<'a>>) -> Result<Vec<i32>, Told> {
        let parts = match &index.kind {
            ExprKind::Tuple(parts) => &parts[..],
            _ => std::slice::from_ref(index),
        };
        let mut offsets = Vec::with_capacity(parts.len());
        for part in parts {
            if let ExprKind::Slice { .. } = part.kind {
                return self.refuse(part.span, "an offset must be a constant integer, found a slice");
            }
            let offset = match self.const_offset(part, locals) {
                Some(Const::Int(offset)) => i32::try_from(offset).ok().filter(|offset| offset.abs() < OFFSET_MAX),
                Some(other) => {
                    return self.refuse(part.span, format!("an offset must be a constant integer, found {other}"));
                }
                None => return self.refuse(part.span, "an offset must be a constant integer"),
            };
            match offset {
                Some(offset) => offsets.push(offset),
                None => return self.refuse(part.span, "the offset is too large"),
            }
        }
        Ok(offsets)
    }

    /// Numbers and externals, and arithmetic of them.
    fn const_offset(&self, expr: &py::Expr, locals: Option<&Locals<'a>>) -> Option<Const> {
        match &expr.kind {
            ExprKind::Int(value) => Some(Const::Int(i128::from(*value))),
            ExprKind::Float(value) => Some(Const::Float(*value)),
            ExprKind::Bool(value) => Some(Const::Bool(*value)),
            ExprKind::Name(name) => match (locals.and_then(|locals| locals.get(&**name)), self.names.get(&**name)) {
                (Some(Local::Const(value)), _) | (None, Some(Symbol::Const(value))) => Some(*value),
                _ => None,
            },
            ExprKind::Unary(UnaryOp::Neg, value) => self.const_offset(value, locals).map(fold::negate),
            ExprKind::Unary(UnaryOp::Pos, value) => self.const_offset(value, locals),
            ExprKind::Binary(op, a, b) => {
                let (a, b) = (self.const_offset(a, locals)?, self.const_offset(b, locals)?);
                fold::binary(arithmetic(*op)?, a, b).ok()
            }
            _ => None,
        }
    }

    /// The offset on each of I, J, K: as many are written as the field has axes.
    fn field_offset(&mut self, span: Span, id: usize, offsets: Option<&[i32]>) -> Result<Offset, Told> {
        let field = &self.fields[id];
        let Some(offsets) = offsets else { return Ok([0; 3]) };
        let axes: Vec<usize> = (0..3).filter(|axis| !field.external || field.axes[*axis]).collect();
        if axes.len() != offsets.len() {
            let shown: String = axes.iter().map(|axis| ["I", "J", "K"][*axis]).collect();
            let plural = if offsets.len() == 1 { "" } else { "s" };
            let message = format!(
                "`{}` has the axes {shown}: expected {}, found {} offset{plural}",
                field.name,
                axes.len(),
                offsets.len()
            );
            return self.refuse(span, message);
        }
        let mut all = [0; 3];
        axes.into_iter().zip(offsets).for_each(|(axis, offset)| all[axis] = *offset);
        Ok(all)
    }

    /// A parameter or variable of a function, with an offset that adds to those inside.
    fn local(&mut self, span: Span, name: &str, value: Ref, offsets: Option<&[i32]>) -> Result<Ref, Told> {
        let Some(offsets) = offsets else { return Ok(value) };
        let offset = match (offsets, &value.kind) {
            (_, NodeKind::Access { field, .. }) => self.field_offset(span, *field, Some(offsets))?,
            ([i, j, k], _) => [*i, *j, *k],
            _ => {
                let plural = if offsets.len() == 1 { "" } else { "s" };
                return self.refuse(span, format!("`{name}`: expected 3, found {} offset{plural}", offsets.len()));
            }
        };
        self.shift(&value, offset, &mut HashMap::new())
    }

    /// The expression with every field read at a further offset.
    fn shift(&mut self, node: &Ref, by: Offset, done: &mut HashMap<*const Node, Ref>) -> Result<Ref, Told> {
        if by == [0; 3] {
            return Ok(node.clone());
        }
        if let Some(known) = done.get(&Rc::as_ptr(node)) {
            return Ok(known.clone());
        }
        let shifted = deep(|| self.shift_here(node, by, done))?;
        done.insert(Rc::as_ptr(node), shifted.clone());
        Ok(shifted)
    }

    fn shift_here(&mut self, node: &Ref, by: Offset, done: &mut HashMap<*const Node, Ref>) -> Result<Ref, Told> {
        let mut shift = |part: &Ref| self.shift(part, by, done);
        let mut all = |parts: &[Ref]| parts.iter().map(&mut shift).collect::<Result<Vec<_>, Told>>();
        let kind = match &node.kind {
            NodeKind::Const(_) | NodeKind::Scalar(_) => return Ok(node.clone()),
            NodeKind::Access { field, offset } => {
                let has = if self.fields[*field].external { self.fields[*field].axes } else { [true; 3] };
                let mut sum = *offset;
                (0..3).filter(|axis| has[*axis]).for_each(|axis| sum[axis] = sum[axis].saturating_add(by[axis]));
                if sum.iter().any(|offset| offset.abs() >= OFFSET_MAX) {
                    return self.refuse(node.span, "the sum of the offsets is too large");
                }
                NodeKind::Access { field: *field, offset: sum }
            }
            NodeKind::Neg(a) => NodeKind::Neg(shift(a)?),
            NodeKind::Not(a) => NodeKind::Not(shift(a)?),
            NodeKind::Cast(dtype, a) => NodeKind::Cast(*dtype, shift(a)?),
            NodeKind::Binary(op, a, b) => NodeKind::Binary(*op, shift(a)?, shift(b)?),
            NodeKind::Compare(op, a, b) => NodeKind::Compare(*op, shift(a)?, shift(b)?),
            NodeKind::Select(a, b, c) => NodeKind::Select(shift(a)?, shift(b)?, shift(c)?),
            NodeKind::And(parts) => NodeKind::And(all(parts)?),
            NodeKind::Or(parts) => NodeKind::Or(all(parts)?),
            NodeKind::Call(builtin, parts) => NodeKind::Call(*builtin, all(parts)?),
            NodeKind::Session(function, parts) => NodeKind::Session(function.clone(), all(parts)?),
        };
        self.node(node.span, kind)
    }

    // Operations.

    fn unary(&mut self, span: Span, op: UnaryOp, value: Ref) -> Result<Ref, Told> {
        match (op, &value.kind) {
            (UnaryOp::Neg, NodeKind::Const(value)) => self.constant(span, fold::negate(*value)),
            (UnaryOp::Not, NodeKind::Const(value)) => self.constant(span, Const::Bool(!value.is_true())),
            (UnaryOp::Neg, _) => self.node(span, NodeKind::Neg(value)),
            (UnaryOp::Not, _) => self.node(span, NodeKind::Not(value)),
            (UnaryOp::Pos, _) => Ok(value),
            (UnaryOp::Invert, _) => self.refuse(span, "the operator `~` is not supported; use `not`"),
        }
    }

    pub(crate) fn binary(&mut self, span: Span, op: Op, a: Ref, b: Ref) -> Result<Ref, Told> {
        if let (NodeKind::Const(x), NodeKind::Const(y)) = (&a.kind, &b.kind) {
            return match fold::binary(op, *x, *y) {
                Ok(value) => self.constant(span, value),
                Err(message) => self.refuse(span, message),
            };
        }
        self.node(span, NodeKind::Binary(op, a, b))
    }

    pub(crate) fn logical(&mut self, span: Span, and: bool, parts: Vec<Ref>) -> Result<Ref, Told> {
        let constant = |part: &Ref| match part.kind {
            NodeKind::Const(value) => Some(value.is_true()),
            _ => None,
        };
        if parts.iter().all(|part| constant(part).is_some()) {
            let mut values = parts.iter().filter_map(constant);
            let value = if and { values.all(|value| value) } else { values.any(|value| value) };
            return self.constant(span, Const::Bool(value));
        }
        self.node(span, if and { NodeKind::And(parts) } else { NodeKind::Or(parts) })
    }

    fn comparison(
        &mut self,
        span: Span,
        first: &py::Expr,
        rest: &[(CompareOp, py::Expr)],
        locals: Option<&Locals<'a>>,
    ) -> Result<Ref, Told> {
        let mut left = self.expr_in(first, locals)?;
        let mut parts = Vec::with_capacity(rest.len());
        for (op, right) in rest {
            if matches!(op, CompareOp::Is | CompareOp::IsNot | CompareOp::In | CompareOp::NotIn) {
                return self.refuse(span, format!("the operator `{}` is not supported", op.text()));
            }
            let right = self.expr_in(right, locals)?;
            parts.push(match (&left.kind, &right.kind) {
                (NodeKind::Const(a), NodeKind::Const(b)) => {
                    self.constant(span, Const::Bool(fold::compare(*op, *a, *b)))?
                }
                _ => self.node(span, NodeKind::Compare(*op, left, right.clone()))?,
            });
            left = right;
        }
        match parts.len() {
            1 => Ok(parts.remove(0)),
            _ => self.logical(span, true, parts),
        }
    }

    fn select(&mut self, span: Span, test: Ref, a: Ref, b: Ref) -> Result<Ref, Told> {
        match test.kind {
            NodeKind::Const(value) => Ok(if value.is_true() { a } else { b }),
            _ => self.node(span, NodeKind::Select(test, a, b)),
        }
    }

    // Calls.

    fn call(
        &mut self,
        span: Span,
        callee: &py::Expr,
        args: &[py::Expr],
        keywords: &[py::Keyword],
        locals: Option<&Locals<'a>>,
    ) -> Result<Ref, Told> {
        let name = match callee.as_path().as_deref() {
            Some(["gtscript", name] | [name]) => (*name).to_owned(),
            Some(path) => return self.refuse(callee.span, format!("unknown function `{}`", path.join("."))),
            None => return self.refuse(callee.span, format!("{} cannot be called", callee.described())),
        };
        let given: Vec<_> = args
            .iter()
            .map(|arg| match arg.kind {
                ExprKind::Starred(_) => self.refuse(arg.span, "`*` is not supported in a call"),
                _ => self.expr_in(arg, locals),
            })
            .collect();
        let given = given.into_iter().collect::<Result<Vec<_>, Told>>()?;
        match (locals.and_then(|locals| locals.get(&name)), self.names.get(&name)) {
            (Some(Local::Function(def)), _) | (None, Some(Symbol::Function(def))) => {
                let def = *def;
                return self.inline(span, def, given, keywords, locals);
            }
            (None, None) => {}
            _ => return self.refuse(callee.span, format!("`{name}` is no function")),
        }
        if let Some(keyword) = keywords.first() {
            return self.refuse(keyword.value.span, format!("`{name}` takes no arguments by name"));
        }
        if let Some(dtype) = Dtype::parse(&name) {
            self.expect_args(span, &name, 1, given.len())?;
            let [value] = <[Ref; 1]>::try_from(given).unwrap_or_else(|_| unreachable!("one was counted"));
            return self.cast(span, dtype, value);
        }
        if name == "mod" {
            self.expect_args(span, &name, 2, given.len())?;
            return self.binary(span, Op::Mod, given[0].clone(), given[1].clone());
        }
        if let Some(builtin) = Builtin::parse(&name) {
            return self.builtin(span, &name, builtin, given);
        }
        match self.library.get(&name).cloned() {
            Some(function) => self.session(span, &name, function, given),
            None if self.later.contains(&name) || self.externals.contains_key(&name) => {
                self.unknown(callee.span, &name)
            }
            None => self.refuse(callee.span, format!("unknown function `{name}`")),
        }
    }

    fn expect_args(&mut self, span: Span, name: &str, expected: usize, found: usize) -> Result<(), Told> {
        let plural = if expected == 1 { "" } else { "s" };
        match expected == found {
            true => Ok(()),
            false => self.refuse(span, format!("`{name}` takes {expected} argument{plural}, found {found}")),
        }
    }

    fn cast(&mut self, span: Span, dtype: Dtype, value: Ref) -> Result<Ref, Told> {
        self.node(span, NodeKind::Cast(dtype, value))
    }

    fn builtin(&mut self, span: Span, name: &str, builtin: Builtin, args: Vec<Ref>) -> Result<Ref, Told> {
        match builtin {
            Builtin::Min | Builtin::Max if args.len() < 2 => {
                return self.refuse(span, format!("`{name}` takes at least 2 arguments, found {}", args.len()));
            }
            Builtin::Min | Builtin::Max => {}
            _ => self.expect_args(span, name, 1, args.len())?,
        }
        let constants = args.iter().map(|arg| match arg.kind {
            NodeKind::Const(value) => Some(value),
            _ => None,
        });
        if let Some(value) = constants.collect::<Option<Vec<_>>>().and_then(|args| fold::call(builtin, &args)) {
            return self.constant(span, value);
        }
        self.node(span, NodeKind::Call(builtin, args))
    }

    /// A call of a function of the session, which takes and gives scalars.
    fn session(
        &mut self,
        span: Span,
        name: &str,
        function: std::sync::Arc<weld_frontend::Function>,
        args: Vec<Ref>,
    ) -> Result<Ref, Told> {
        self.expect_args(span, name, function.params.len(), args.len())?;
        let scalar = |shape: &weld_frontend::Shape| match shape {
            weld_frontend::Shape::Plain(weld_core::ty::Type::Scalar(kind)) => Dtype::of_kind(*kind),
            _ => None,
        };
        let params = function.params.iter().all(|param| scalar(&param.shape).is_some());
        if !params || scalar(&function.output()).is_none() {
            let message = format!("`{name}` cannot be called at a point: it takes or gives more than numbers");
            return self.refuse(span, message);
        }
        self.nodes += function.program.body.size();
        self.node(span, NodeKind::Session(function, args))
    }

    /// The value of a function with these arguments.
    fn inline(
        &mut self,
        span: Span,
        def: &'a py::Function,
        args: Vec<Ref>,
        keywords: &[py::Keyword],
        outer: Option<&Locals<'a>>,
    ) -> Result<Ref, Told> {
        self.instances += 1;
        if self.instances > self.limits.instances.max(100_000) {
            return self.refuse(span, format!("too many calls: more than {} once inlined", self.limits.instances));
        }
        let name = &def.name.name;
        let params = &def.params.params;
        let mut locals = Locals::new();
        if args.len() > params.len() {
            return self.refuse(span, format!("`{name}` takes {} arguments, found {}", params.len(), args.len()));
        }
        for (param, arg) in params.iter().zip(args) {
            locals.insert(param.name.name.to_string(), Local::Value(arg));
        }
        for keyword in keywords {
            let Some(key) = &keyword.name else {
                return self.refuse(keyword.value.span, "`**` is not supported in a call");
            };
            if !params.iter().any(|param| param.name.name == key.name) {
                return self.refuse(key.span, format!("`{name}` has no parameter `{}`", key.name));
            }
            let value = self.expr_in(&keyword.value, outer)?;
            if locals.insert(key.name.to_string(), Local::Value(value)).is_some() {
                return self.refuse(key.span, format!("`{}` is given twice", key.name));
            }
        }
        for param in params {
            if locals.contains_key(&*param.name.name) {
                continue;
            }
            match &param.default {
                Some(default) => {
                    let value = self.const_expr(default, "a default value")?;
                    let value = self.constant(default.span, value)?;
                    locals.insert(param.name.name.to_string(), Local::Value(value));
                }
                None => {
                    let message = format!("`{name}` needs an argument for `{}`", param.name.name);
                    return self.refuse(span, message);
                }
            }
        }
        // Through an external it may be itself that it calls.
        if self.inlining.contains(&def.name.span) {
            return self.refuse(span, recursive(name));
        }
        self.inlining.push(def.name.span);
        let value = deep(|| self.function_body(def, &mut locals));
        self.inlining.pop();
        value
    }

    fn function_body(&mut self, def: &'a py::Function, locals: &mut Locals<'a>) -> Result<Ref, Told> {
        let Some((last, rest)) = def.body.split_last() else {
            return self.refuse(def.name.span, "a function has no body");
        };
        for stmt in rest {
            self.function_stmt(stmt, locals)?;
        }
        match &last.kind {
            StmtKind::Return(Some(value)) => self.expr_in(value, Some(locals)),
            _ => self.refuse(last.span, format!("`{}` must end in `return` with a value", def.name.name)),
        }
    }

    fn function_stmt(&mut self, stmt: &'a py::Stmt, locals: &mut Locals<'a>) -> Result<(), Told> {
        match &stmt.kind {
            StmtKind::Pass => Ok(()),
            StmtKind::ImportFrom { module: Some(module), names, .. } if &*module.name == "__externals__" => {
                names.iter().try_for_each(|name| self.import_local(name, locals))
            }
            StmtKind::Import(_) | StmtKind::ImportFrom { .. } => self.import(stmt),
            StmtKind::Expr(expr) if matches!(expr.kind, ExprKind::Str(_)) => Ok(()),
            StmtKind::Assign { targets, value } => {
                let value = self.expr_in(value, Some(locals))?;
                self.assign_local(targets, value, locals)
            }
            StmtKind::Annotate { target, value: Some(value), annotation } => {
                let dtype = self.dtype(annotation)?;
                let value = self.expr_in(value, Some(locals))?;
                let value = self.cast(stmt.span, dtype, value)?;
                self.assign_local(std::slice::from_ref(target), value, locals)
            }
            StmtKind::Augment { target, op, value } => {
                let old = self.expr_in(target, Some(locals))?;
                let value = self.expr_in(value, Some(locals))?;
                let Some(op) = arithmetic(*op) else {
                    return self.refuse(stmt.span, format!("the operator `{}=` is not supported", op.text()));
                };
                let value = self.binary(stmt.span, op, old, value)?;
                self.assign_local(std::slice::from_ref(target), value, locals)
            }
            StmtKind::If { branches, orelse } => self.function_if(stmt.span, branches, orelse, locals),
            StmtKind::Return(_) => self.refuse(stmt.span, "a function has a single `return`, at its end"),
            other => self.refuse(stmt.span, format!("{} is not supported in a function", other.described())),
        }
    }

    fn import_local(&mut self, alias: &py::Alias, locals: &mut Locals<'a>) -> Result<(), Told> {
        let local = match self.imported(alias)? {
            Symbol::Function(def) => Local::Function(def),
            Symbol::Const(value) => Local::Const(value),
            Symbol::End => {
                let message = format!("`{}` is None, which only the bound of an interval can be", alias.name.name);
                return self.refuse(alias.name.span, message);
            }
            Symbol::Field(_) | Symbol::Scalar(_) => return Ok(()),
        };
        let known = alias.alias.as_ref().unwrap_or(&alias.name);
        locals.insert(known.name.to_string(), local);
        Ok(())
    }

    fn assign_local(&mut self, targets: &[py::Expr], value: Ref, locals: &mut Locals<'a>) -> Result<(), Told> {
        match targets {
            [target] => match target.as_name() {
                Some(name) => {
                    locals.insert(name.to_owned(), Local::Value(value));
                    Ok(())
                }
                None => {
                    let message = format!("expected a name to assign to, found {}", target.described());
                    self.refuse(target.span, message)
                }
            },
            _ => self.refuse(targets[1].span, "chained assignment is not supported"),
        }
    }

    /// Both branches are followed; what they assign is chosen by the condition.
    fn function_if(
        &mut self,
        span: Span,
        branches: &'a [py::Branch],
        orelse: &'a [py::Stmt],
        locals: &mut Locals<'a>,
    ) -> Result<(), Told> {
        let Some((first, rest)) = branches.split_first() else {
            return orelse.iter().try_for_each(|stmt| self.function_stmt(stmt, locals));
        };
        let test = self.expr_in(&first.test, Some(locals))?;
        let mut on_true = locals.clone();
        first.body.iter().try_for_each(|stmt| self.function_stmt(stmt, &mut on_true))?;
        let mut on_false = locals.clone();
        deep(|| self.function_if(span, rest, orelse, &mut on_false))?;
        let mut names: Vec<&String> = on_true.keys().chain(on_false.keys()).collect();
        names.sort();
        names.dedup();
        for name in names {
            match (on_true.get(name), on_false.get(name)) {
                (Some(Local::Value(a)), Some(Local::Value(b))) if !Rc::ptr_eq(a, b) => {
                    let value = self.select(span, test.clone(), a.clone(), b.clone())?;
                    locals.insert(name.clone(), Local::Value(value));
                }
                (Some(a), Some(_)) => {
                    locals.insert(name.clone(), a.clone());
                }
                // Assigned in one branch only: not to be read after.
                _ => {
                    locals.remove(name);
                }
            }
        }
        Ok(())
    }
}

/// The operators that numbers have.
pub(crate) fn arithmetic(op: py::BinaryOp) -> Option<Op> {
    Some(match op {
        py::BinaryOp::Add => Op::Add,
        py::BinaryOp::Sub => Op::Sub,
        py::BinaryOp::Mul => Op::Mul,
        py::BinaryOp::Div => Op::Div,
        py::BinaryOp::FloorDiv => Op::FloorDiv,
        py::BinaryOp::Mod => Op::Mod,
        py::BinaryOp::Pow => Op::Pow,
        _ => return None,
    })
}
