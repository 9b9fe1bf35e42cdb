//! Which variables statements read and assign.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use weld_core::ir::deep;
use weld_pysyntax::{self as py, ExprKind, Stmt, StmtKind};

pub(crate) type NameSet<'a> = BTreeSet<&'a str>;

/// What statements do with variables of their function.
#[derive(Debug, Default)]
pub(crate) struct Uses<'a> {
    /// Read before they are assigned, on some path.
    pub(crate) exposed: NameSet<'a>,
    /// Assigned on some path.
    pub(crate) assigned: NameSet<'a>,
    /// Assigned on every path.
    surely: NameSet<'a>,
    /// Read by functions inside, whenever these are called.
    pub(crate) captured: NameSet<'a>,
}

/// The uses of statements, which are asked for again and again.
#[derive(Debug, Default)]
pub(crate) struct Known<'a> {
    stmts: HashMap<*const Stmt, Rc<Uses<'a>>>,
}

impl<'a> Known<'a> {
    pub(crate) fn stmt(&mut self, stmt: &'a Stmt) -> Rc<Uses<'a>> {
        if let Some(known) = self.stmts.get(&std::ptr::from_ref(stmt)) {
            return known.clone();
        }
        let uses = Rc::new(deep(|| self.compute(stmt)));
        self.stmts.insert(stmt, uses.clone());
        uses
    }

    pub(crate) fn block(&mut self, stmts: &'a [Stmt]) -> Uses<'a> {
        let mut uses = Uses::default();
        for stmt in stmts {
            let next = self.stmt(stmt);
            uses.then(&next);
        }
        uses
    }

    fn compute(&mut self, stmt: &'a Stmt) -> Uses<'a> {
        let mut uses = Uses::default();
        match &stmt.kind {
            StmtKind::Function(function) => {
                for decorator in &function.decorators {
                    uses.read(decorator);
                }
                self.function(function, &mut uses);
                uses.assign_name(&function.name.name);
            }
            StmtKind::Class(class) => uses.assign_name(&class.name.name),
            StmtKind::Return(value) => value.iter().for_each(|value| uses.read(value)),
            StmtKind::Assign { targets, value } => {
                uses.read(value);
                targets.iter().for_each(|target| uses.assign(target));
            }
            StmtKind::Augment { target, value, .. } => {
                uses.read(target);
                uses.read(value);
                uses.assign(target);
            }
            StmtKind::Annotate { target, value, .. } => {
                value.iter().for_each(|value| uses.read(value));
                if value.is_some() {
                    uses.assign(target);
                }
            }
            StmtKind::For { target, iter, body, orelse } => {
                uses.read(iter);
                let mut round = Uses::default();
                round.assign(target);
                round.then(&self.block(body));
                uses.perhaps(round);
                uses.perhaps(self.block(orelse));
            }
            StmtKind::While { test, body, orelse } => {
                uses.read(test);
                uses.perhaps(self.block(body));
                uses.perhaps(self.block(orelse));
            }
            StmtKind::If { branches, orelse } => {
                let mut parts: Vec<Uses<'a>> = Vec::new();
                for branch in branches {
                    uses.read(&branch.test);
                    parts.push(self.block(&branch.body));
                }
                parts.push(self.block(orelse));
                uses.choose(parts);
            }
            StmtKind::Try { body, handlers, orelse, finally } => {
                uses.perhaps(self.block(body));
                for handler in handlers {
                    let mut clause = Uses::default();
                    handler.name.iter().for_each(|name| clause.assign_name(&name.name));
                    clause.then(&self.block(&handler.body));
                    uses.perhaps(clause);
                }
                uses.perhaps(self.block(orelse));
                uses.perhaps(self.block(finally));
            }
            StmtKind::Raise { exception, cause } => exception.iter().chain(cause).for_each(|e| uses.read(e)),
            StmtKind::Assert { test, message } => {
                uses.read(test);
                message.iter().for_each(|message| uses.read(message));
            }
            StmtKind::Expr(e) => uses.read(e),
            _ => {}
        }
        uses
    }

    /// What a function inside reads of the variables around it.
    fn function(&mut self, function: &'a py::Function, uses: &mut Uses<'a>) {
        let inner = self.block(&function.body);
        let params: NameSet<'a> = function.params.params.iter().map(|param| &*param.name.name).collect();
        for param in &function.params.params {
            param.default.iter().for_each(|default| uses.read(default));
        }
        for name in inner.exposed.iter().chain(&inner.captured) {
            if !params.contains(name) {
                uses.captured.insert(name);
                uses.see(name);
            }
        }
    }
}

impl<'a> Uses<'a> {
    /// These statements, and then others.
    fn then(&mut self, next: &Uses<'a>) {
        for name in &next.exposed {
            if !self.surely.contains(name) {
                self.exposed.insert(name);
            }
        }
        self.assigned.extend(&next.assigned);
        self.surely.extend(&next.surely);
        self.captured.extend(&next.captured);
    }

    /// These statements, and then perhaps others.
    fn perhaps(&mut self, mut next: Uses<'a>) {
        next.surely.clear();
        self.then(&next);
    }

    /// These statements, and then some of others.
    fn choose(&mut self, parts: Vec<Uses<'a>>) {
        let mut surely = parts.first().map(|part| part.surely.clone()).unwrap_or_default();
        for part in parts {
            surely.retain(|name| part.surely.contains(name));
            self.perhaps(part);
        }
        self.surely.extend(surely);
    }

    fn see(&mut self, name: &'a str) {
        if !self.surely.contains(name) {
            self.exposed.insert(name);
        }
    }

    fn assign_name(&mut self, name: &'a str) {
        self.assigned.insert(name);
        self.surely.insert(name);
    }

    fn assign(&mut self, target: &'a py::Expr) {
        match &target.kind {
            ExprKind::Name(name) => self.assign_name(name),
            ExprKind::Tuple(parts) | ExprKind::List(parts) => {
                parts.iter().for_each(|part| deep(|| self.assign(part)));
            }
            ExprKind::Starred(inner) => self.assign(inner),
            _ => self.read(target),
        }
    }

    fn read(&mut self, e: &'a py::Expr) {
        deep(|| self.read_here(e));
    }

    fn read_here(&mut self, e: &'a py::Expr) {
        match &e.kind {
            ExprKind::Name(name) => self.see(name),
            ExprKind::Lambda { body, params } => {
                for default in params.params.iter().filter_map(|param| param.default.as_ref()) {
                    self.read(default);
                }
                self.inside(body);
            }
            ExprKind::Generator { element, clauses } => {
                self.inside(element);
                clauses.iter().for_each(|clause| {
                    self.inside(&clause.iter);
                    clause.conditions.iter().for_each(|condition| self.inside(condition));
                });
            }
            _ => each_part(e, &mut |part| self.read(part)),
        }
    }

    /// A part that runs at any time.
    fn inside(&mut self, e: &'a py::Expr) {
        let mut inner = Uses::default();
        inner.read(e);
        for name in inner.exposed.iter().chain(&inner.captured) {
            self.captured.insert(name);
            self.see(name);
        }
    }
}

/// The expressions that an expression consists of.
pub(crate) fn each_part<'a>(e: &'a py::Expr, f: &mut dyn FnMut(&'a py::Expr)) {
    match &e.kind {
        ExprKind::Attribute(of, _) | ExprKind::Unary(_, of) | ExprKind::Starred(of) | ExprKind::YieldFrom(of) => f(of),
        ExprKind::Yield(value) => value.iter().for_each(|value| f(value)),
        ExprKind::Call { callee, args, keywords } => {
            f(callee);
            args.iter().for_each(&mut *f);
            keywords.iter().for_each(|keyword| f(&keyword.value));
        }
        ExprKind::Index(of, index) => {
            f(of);
            f(index);
        }
        ExprKind::Slice { lower, upper, step } => {
            [lower, upper, step].into_iter().flatten().for_each(|part| f(part));
        }
        ExprKind::Tuple(parts)
        | ExprKind::List(parts)
        | ExprKind::Set(parts)
        | ExprKind::FString(parts)
        | ExprKind::And(parts)
        | ExprKind::Or(parts) => parts.iter().for_each(f),
        ExprKind::Binary(_, a, b) => {
            f(a);
            f(b);
        }
        ExprKind::Compare { first, rest } => {
            f(first);
            rest.iter().for_each(|(_, part)| f(part));
        }
        ExprKind::If { test, on_true, on_false } => {
            f(test);
            f(on_true);
            f(on_false);
        }
        ExprKind::ListComp { element, clauses } | ExprKind::Generator { element, clauses } => {
            f(element);
            for clause in clauses {
                f(&clause.iter);
                clause.conditions.iter().for_each(&mut *f);
            }
        }
        ExprKind::Lambda { body, .. } => f(body),
        _ => {}
    }
}

/// Whether a function's statements have a `yield` of its own.
pub(crate) fn yields(stmts: &[Stmt]) -> bool {
    stmts.iter().any(|stmt| deep(|| stmt_yields(stmt)))
}

fn stmt_yields(stmt: &Stmt) -> bool {
    let expr = |e: &py::Expr| expr_yields(e);
    match &stmt.kind {
        StmtKind::Expr(e) | StmtKind::Return(Some(e)) => expr(e),
        StmtKind::Assign { value, .. } | StmtKind::Augment { value, .. } => expr(value),
        StmtKind::For { body, orelse, .. } | StmtKind::While { body, orelse, .. } => yields(body) || yields(orelse),
        StmtKind::If { branches, orelse } => branches.iter().any(|branch| yields(&branch.body)) || yields(orelse),
        StmtKind::Try { body, handlers, orelse, finally } => {
            yields(body) || handlers.iter().any(|handler| yields(&handler.body)) || yields(orelse) || yields(finally)
        }
        _ => false,
    }
}

fn expr_yields(e: &py::Expr) -> bool {
    match &e.kind {
        ExprKind::Yield(_) | ExprKind::YieldFrom(_) => true,
        ExprKind::Lambda { .. } => false,
        _ => {
            let mut found = false;
            each_part(e, &mut |part| found = found || deep(|| expr_yields(part)));
            found
        }
    }
}
