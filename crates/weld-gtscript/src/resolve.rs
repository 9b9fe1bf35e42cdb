//! A stencil's definition to the tree: parameters, externals, computations, statements.

use std::collections::{HashMap, HashSet};

use weld_core::diag::{Diagnostic, Span};
use weld_frontend::{Library, Limits, Request};
use weld_pysyntax::{self as py, ExprKind, StmtKind as PyStmt};

use crate::dtype::Dtype;
use crate::expr::{Told, arithmetic};
use crate::interval;
use crate::module::{self, Def, Module};
use crate::tree::{
    Block, Bound, Const, Extent, Field, FieldId, Interval, Node, NodeKind, Param, ParamKind, Policy, Ref, Stencil,
    Stmt, StmtKind,
};

/// What a name stands for.
pub(crate) enum Symbol<'a> {
    Field(FieldId),
    Scalar(usize),
    Const(Const),
    /// `None`: the end, as the bound of an interval.
    End,
    Function(&'a py::Function),
}

/// A value of `externals={..}`.
pub(crate) enum External {
    Const(Const),
    /// `None`: the end, as the bound of an interval.
    End,
    /// A function of the module, by name.
    Function(String),
}

pub(crate) struct Resolver<'a> {
    pub(crate) names: HashMap<String, Symbol<'a>>,
    /// Names that are assigned somewhere in the stencil.
    pub(crate) later: HashSet<String>,
    pub(crate) externals: HashMap<String, External>,
    pub(crate) fields: Vec<Field>,
    pub(crate) errors: Vec<Diagnostic>,
    pub(crate) limits: Limits,
    pub(crate) library: &'a Library,
    pub(crate) nodes: usize,
    pub(crate) instances: usize,
    /// The functions that are being inlined, by the places of their names.
    pub(crate) inlining: Vec<Span>,
    params: Vec<Param>,
    functions: HashMap<&'a str, &'a py::Function>,
    blocks: Vec<Block>,
    /// The number of levels, where the caller says it.
    levels: Option<i64>,
    masks: usize,
}

/// The tree of the entry. All type errors of names, forms and constants.
pub(crate) fn resolve<'a>(request: &Request<'a>, module: &Module<'a>) -> Result<Stencil, Vec<Diagnostic>> {
    let def = entry(request, module).map_err(|error| vec![error])?;
    let options = request.options;
    let functions = module.defs.iter().filter(|def| def.stencil.is_none()).map(|def| (&*def.def.name.name, def.def));
    let mut resolver = Resolver {
        names: HashMap::new(),
        later: HashSet::new(),
        externals: HashMap::new(),
        fields: Vec::new(),
        errors: Vec::new(),
        limits: options.limits,
        library: request.library,
        nodes: 0,
        instances: 0,
        inlining: Vec::new(),
        params: Vec::new(),
        functions: functions.collect(),
        blocks: Vec::new(),
        levels: options.domain.map(|domain| i64::try_from(domain[2]).unwrap_or(i64::MAX)),
        masks: 0,
    };
    resolver.stencil(def);
    if !resolver.errors.is_empty() {
        resolver.errors.sort_by_key(|error| error.span.start);
        return Err(resolver.errors);
    }
    Ok(Stencil {
        name: def.def.name.name.to_string(),
        entry: def.def.name.span,
        params: resolver.params,
        fields: resolver.fields,
        blocks: resolver.blocks,
    })
}

/// The definition that is meant.
fn entry<'m, 'a>(request: &Request<'a>, module: &'m Module<'a>) -> Result<&'m Def<'a>, Diagnostic> {
    let start = Span::new(0, 0);
    let named = request.entry.and_then(|entry| {
        let same = |def: &&Def<'a>| request.options.sql && def.def.name.name.eq_ignore_ascii_case(entry);
        let exact = module.defs.iter().find(|def| *def.def.name.name == *entry);
        exact.or_else(|| module.defs.iter().find(same))
    });
    let def = match (named, request.entry) {
        (Some(def), _) => def,
        (None, Some(entry)) if !request.options.sql => {
            return Err(Diagnostic::ty(start, format!("no stencil is called `{entry}`")));
        }
        _ => {
            let last = module.defs.iter().rev().find(|def| def.stencil.is_some()).or(module.defs.last());
            last.ok_or_else(|| Diagnostic::ty(start, "the text has no stencil"))?
        }
    };
    match def.stencil {
        Some(_) => Ok(def),
        None => {
            let name = &def.def.name;
            Err(Diagnostic::ty(name.span, format!("`{}` is a function; only a stencil can be called", name.name)))
        }
    }
}

impl<'a> Resolver<'a> {
    pub(crate) fn error(&mut self, span: Span, message: impl Into<String>) {
        self.errors.push(Diagnostic::ty(span, message));
    }

    fn stencil(&mut self, def: &Def<'a>) {
        let functions: Vec<_> = self.functions.iter().map(|(name, def)| ((*name).to_owned(), *def)).collect();
        for (name, function) in functions {
            self.check_function(function);
            self.names.insert(name, Symbol::Function(function));
        }
        for option in def.stencil.into_iter().flatten() {
            self.read_externals(&option.value);
        }
        self.read_params(&def.def.params);
        if let Some(returns) = &def.def.returns
            && !matches!(returns.kind, ExprKind::None)
        {
            self.error(returns.span, "a stencil returns nothing; its results are the fields that it writes");
        }
        collect_targets(&def.def.body, &mut self.later);
        self.body(def.def);
    }

    /// What holds of every function, called or not.
    fn check_function(&mut self, def: &py::Function) {
        let name = &def.name.name;
        self.no_rest(&def.params, &format!("`{name}`"));
        for (i, param) in def.params.params.iter().enumerate() {
            if def.params.params[..i].iter().any(|other| other.name.name == param.name.name) {
                self.error(param.name.span, format!("the parameter `{}` is declared twice", param.name.name));
            }
        }
        match def.body.last().map(|last| (&last.kind, last.span)) {
            Some((PyStmt::Return(Some(_)), _)) => {}
            Some((_, span)) => self.error(span, format!("`{name}` must end in `return` with a value")),
            None => {}
        }
    }

    /// Refuses `*rest` and `**rest`.
    fn no_rest(&mut self, params: &py::Params, what: &str) {
        for (stars, rest) in [("*", &params.rest), ("**", &params.keywords)] {
            if let Some(rest) = rest {
                let message =
                    format!("`{stars}{}` is not supported: {what} has a fixed number of parameters", rest.name);
                self.error(rest.span, message);
            }
        }
    }

    // Parameters and externals.

    fn read_externals(&mut self, value: &py::Expr) {
        let ExprKind::Dict(items) = &value.kind else {
            return self.error(value.span, format!("`externals` must be a dictionary, found {}", value.described()));
        };
        for (key, value) in items {
            let name = match key.as_ref().map(|key| &key.kind) {
                Some(ExprKind::Str(name)) => name.to_string(),
                _ => {
                    self.error(key.as_ref().unwrap_or(value).span, "the names of externals must be strings");
                    continue;
                }
            };
            let external = match value.as_name() {
                Some(function) if self.functions.contains_key(function) => External::Function(function.to_owned()),
                _ if matches!(value.kind, ExprKind::None) => External::End,
                _ => match self.const_expr(value, &format!("the external `{name}`")) {
                    Ok(value) => External::Const(value),
                    Err(Told) => continue,
                },
            };
            if self.externals.insert(name.clone(), external).is_some() {
                self.error(value.span, format!("the external `{name}` is given twice"));
            }
        }
    }

    fn read_params(&mut self, params: &py::Params) {
        self.no_rest(params, "a stencil");
        for param in &params.params {
            let (name, span) = (param.name.name.to_string(), param.name.span);
            if self.params.iter().any(|other| other.name == name) {
                self.error(span, format!("the parameter `{name}` is declared twice"));
                continue;
            }
            let Some(annotation) = &param.annotation else {
                self.error(
                    span,
                    format!("the parameter `{name}` has no annotation; expected `Field[dtype]` or a dtype"),
                );
                continue;
            };
            if let Ok(kind) = self.param_kind(param, annotation) {
                let symbol = match &kind {
                    ParamKind::Field(id) => Symbol::Field(*id),
                    ParamKind::Scalar { .. } => Symbol::Scalar(self.params.len()),
                };
                self.names.insert(name.clone(), symbol);
                self.params.push(Param { name, span, kind });
            }
        }
    }

    fn param_kind(&mut self, param: &py::Param, annotation: &py::Expr) -> Result<ParamKind, Told> {
        let name = &param.name.name;
        let ExprKind::Index(of, index) = &annotation.kind else {
            if matches!(annotation.as_path().as_deref(), Some(["Field"] | ["gtscript", "Field"])) {
                self.error(annotation.span, format!("`{name}`: a field needs a dtype: `Field[float64]`"));
                return Err(Told);
            }
            let dtype = self.dtype(annotation)?;
            let default = match &param.default {
                Some(default) => Some(self.default_value(name, dtype, default)?),
                None => None,
            };
            return Ok(ParamKind::Scalar { dtype, default });
        };
        if !matches!(of.as_path().as_deref(), Some(["Field"] | ["gtscript", "Field"])) {
            self.error(annotation.span, format!("`{name}`: expected `Field[..]` or a dtype, found {}", of.described()));
            return Err(Told);
        }
        let (axes, dtype) = self.field_type(index)?;
        if let Some(default) = &param.default {
            self.error(default.span, format!("the field `{name}` cannot have a default value"));
            return Err(Told);
        }
        self.fields.push(Field {
            name: name.to_string(),
            span: param.name.span,
            external: true,
            dtype: Some(dtype),
            axes,
            mask: false,
        });
        Ok(ParamKind::Field(self.fields.len() - 1))
    }

    fn default_value(&mut self, name: &str, dtype: Dtype, default: &py::Expr) -> Result<Const, Told> {
        let what = format!("the default value of `{name}`");
        let value = self.const_expr(default, &what)?;
        if !value.fits(dtype) {
            self.error(default.span, format!("{what} is {}, found {value}", dtype.name()));
            return Err(Told);
        }
        Ok(value)
    }

    /// What stands between the brackets of `Field[..]`.
    fn field_type(&mut self, index: &py::Expr) -> Result<([bool; 3], Dtype), Told> {
        let (axes, dtype) = match &index.kind {
            ExprKind::Tuple(parts) => match &parts[..] {
                [axes, dtype] => (Some(axes), dtype),
                _ => {
                    self.error(index.span, format!("expected `Field[axes, dtype]`, found {} parts", parts.len()));
                    return Err(Told);
                }
            },
            _ => (None, index),
        };
        let Some(axes) = axes else { return Ok(([true; 3], self.dtype(dtype)?)) };
        let name = match axes.as_path().as_deref() {
            Some([name] | ["gtscript", name]) => *name,
            _ => "",
        };
        let has = match name {
            "I" => [true, false, false],
            "J" => [false, true, false],
            "K" => [false, false, true],
            "IJ" => [true, true, false],
            "IK" => [true, false, true],
            "JK" => [false, true, true],
            "IJK" => [true; 3],
            _ => {
                let found = if name.is_empty() { axes.described().to_owned() } else { format!("`{name}`") };
                self.error(axes.span, format!("expected the axes I, J, K, IJ, IK, JK or IJK, found {found}"));
                return Err(Told);
            }
        };
        Ok((has, self.dtype(dtype)?))
    }

    pub(crate) fn dtype(&mut self, expr: &py::Expr) -> Result<Dtype, Told> {
        let path = expr.as_path();
        let name = match path.as_deref() {
            Some([name] | ["np" | "numpy" | "gtscript", name]) => *name,
            _ => "",
        };
        Dtype::parse(name).ok_or_else(|| {
            let found = match path {
                Some(path) => format!("`{}`", path.join(".")),
                None => expr.described().to_owned(),
            };
            self.error(expr.span, format!("expected a dtype (float64, float32, int64, int32, bool), found {found}"));
            Told
        })
    }

    // The body.

    fn body(&mut self, def: &'a py::Function) {
        let mut computations = 0;
        for stmt in &def.body {
            match &stmt.kind {
                PyStmt::Expr(expr) if matches!(expr.kind, ExprKind::Str(_)) => {}
                PyStmt::ImportFrom { module: Some(module), names, .. } if &*module.name == "__externals__" => {
                    names.iter().for_each(|name| {
                        let _ = self.import_external(name);
                    });
                }
                PyStmt::Import(_) | PyStmt::ImportFrom { .. } => {
                    let _ = self.import(stmt);
                }
                PyStmt::With { items, body } => {
                    computations += 1;
                    let _ = self.computation(stmt.span, computations, items, body);
                }
                PyStmt::Function(_) | PyStmt::Class(_) | PyStmt::Return(_) => {
                    self.error(stmt.span, format!("{} is not supported in a stencil", stmt.kind.described()));
                }
                other => {
                    let message =
                        format!("expected `with computation(..), interval(..):`, found {}", other.described());
                    self.error(stmt.span, message);
                }
            }
        }
        if computations == 0 && self.errors.is_empty() {
            self.error(def.name.span, format!("the stencil `{}` has no computation", def.name.name));
        }
    }

    /// Imports of the language itself say nothing; others are refused.
    pub(crate) fn import(&mut self, stmt: &py::Stmt) -> Result<(), Told> {
        match module::foreign_import(&stmt.kind) {
            Some(text) => {
                self.error(stmt.span, format!("unsupported: {text}"));
                Err(Told)
            }
            None => Ok(()),
        }
    }

    fn import_external(&mut self, alias: &py::Alias) -> Result<(), Told> {
        let symbol = self.imported(alias)?;
        let known = alias.alias.as_ref().unwrap_or(&alias.name);
        if let Some(Symbol::Field(_) | Symbol::Scalar(_)) = self.names.get(&*known.name) {
            self.error(known.span, format!("`{}` is a parameter already", known.name));
            return Err(Told);
        }
        self.names.insert(known.name.to_string(), symbol);
        Ok(())
    }

    /// What a name stands for that is imported from the externals.
    pub(crate) fn imported(&mut self, alias: &py::Alias) -> Result<Symbol<'a>, Told> {
        let name = &*alias.name.name;
        match self.externals.get(name) {
            Some(External::Const(value)) => Ok(Symbol::Const(*value)),
            Some(External::End) => Ok(Symbol::End),
            Some(External::Function(function)) => Ok(Symbol::Function(self.functions[function.as_str()])),
            None => {
                self.error(alias.name.span, format!("`{name}` is no external of the stencil"));
                Err(Told)
            }
        }
    }

    fn computation(
        &mut self,
        span: Span,
        number: usize,
        items: &'a [py::WithItem],
        body: &'a [py::Stmt],
    ) -> Result<(), Told> {
        let policy = self.policy(&items[0])?;
        let from = self.blocks.len();
        match items {
            [_] => {
                for stmt in body {
                    match &stmt.kind {
                        PyStmt::With { items, body } => {
                            if items.len() > 1 {
                                self.error(items[1].value.span, "expected `with interval(..):`, found a second item");
                            }
                            self.interval_block(policy, number, &items[0], body);
                        }
                        PyStmt::Pass => {}
                        PyStmt::Expr(expr) if matches!(expr.kind, ExprKind::Str(_)) => {}
                        other => {
                            let message = format!("expected `with interval(..):`, found {}", other.described());
                            self.error(stmt.span, message);
                        }
                    }
                }
                if self.blocks.len() == from && self.errors.is_empty() {
                    self.error(span, "the computation has no interval");
                }
            }
            [_, item] => self.interval_block(policy, number, item, body),
            [_, _, third, ..] => self.error(third.value.span, "expected one computation and one interval"),
            [] => {}
        }
        let mut blocks = self.blocks.split_off(from);
        if let Err(error) = interval::order(&mut blocks, policy, self.levels) {
            self.errors.push(error);
        }
        self.blocks.append(&mut blocks);
        Ok(())
    }

    fn with_call<'e>(&mut self, item: &'e py::WithItem, wanted: &str) -> Result<&'e [py::Expr], Told> {
        if let Some(target) = &item.target {
            self.error(target.span, "`as` is not supported here");
            return Err(Told);
        }
        if let ExprKind::Call { callee, args, keywords } = &item.value.kind
            && let Some([name] | ["gtscript", name]) = callee.as_path().as_deref()
            && *name == wanted
        {
            if let Some(keyword) = keywords.first() {
                self.error(keyword.value.span, format!("`{wanted}` takes no arguments by name"));
                return Err(Told);
            }
            return Ok(args);
        }
        let found = match &item.value.kind {
            ExprKind::Call { callee, .. } => match callee.as_path() {
                Some(path) => format!("`{}`", path.join(".")),
                None => "another call".to_owned(),
            },
            _ => item.value.described().to_owned(),
        };
        let hint = if found == "`computation`" { "; computations cannot be nested" } else { "" };
        self.error(item.value.span, format!("expected `{wanted}(..)`, found {found}{hint}"));
        Err(Told)
    }

    fn policy(&mut self, item: &py::WithItem) -> Result<Policy, Told> {
        let args = self.with_call(item, "computation")?;
        let wanted = "expected computation(FORWARD), computation(BACKWARD) or computation(PARALLEL)";
        let [arg] = args else {
            self.error(item.value.span, format!("{wanted}, found {} arguments", args.len()));
            return Err(Told);
        };
        match arg.as_path().as_deref() {
            Some(["FORWARD"] | ["gtscript", "FORWARD"]) => Ok(Policy::Forward),
            Some(["BACKWARD"] | ["gtscript", "BACKWARD"]) => Ok(Policy::Backward),
            Some(["PARALLEL"] | ["gtscript", "PARALLEL"]) => Ok(Policy::Parallel),
            Some(path) => {
                self.error(arg.span, format!("{wanted}, found `{}`", path.join(".")));
                Err(Told)
            }
            None => {
                self.error(arg.span, format!("{wanted}, found {}", arg.described()));
                Err(Told)
            }
        }
    }

    fn interval_block(&mut self, policy: Policy, computation: usize, item: &py::WithItem, body: &'a [py::Stmt]) {
        let interval = self.interval(item);
        let mut stmts = Vec::new();
        self.stmts(body, &[], &mut stmts);
        if let Ok(interval) = interval {
            self.blocks.push(Block { policy, computation, interval, body: stmts });
        }
    }

    fn interval(&mut self, item: &py::WithItem) -> Result<Interval, Told> {
        let args = self.with_call(item, "interval")?;
        let span = item.value.span;
        let whole =
            Interval { start: Bound { from_end: false, offset: 0 }, end: Bound { from_end: true, offset: 0 }, span };
        match args {
            [all] if matches!(all.kind, ExprKind::Ellipsis) => Ok(whole),
            [start, end] => {
                let start = self.bound(start, false);
                let end = self.bound(end, true);
                let interval = Interval { start: start?, end: end?, span };
                interval::check(&interval).map_err(|error| {
                    self.errors.push(error);
                    Told
                })?;
                Ok(interval)
            }
            _ => {
                let found = match args {
                    [one] => one.described().to_owned(),
                    _ => format!("{} arguments", args.len()),
                };
                self.error(span, format!("expected interval(...) or interval(start, end), found {found}"));
                Err(Told)
            }
        }
    }

    fn bound(&mut self, expr: &py::Expr, is_end: bool) -> Result<Bound, Told> {
        let is_external_end = expr.as_name().is_some_and(|name| matches!(self.names.get(name), Some(Symbol::End)));
        if is_external_end || matches!(expr.kind, ExprKind::None) {
            if !is_end {
                self.error(expr.span, "an interval cannot start at None, which is the end; expected an integer");
                return Err(Told);
            }
            return Ok(Bound { from_end: true, offset: 0 });
        }
        let wanted = "the bound of an interval";
        match self.const_expr(expr, wanted)? {
            Const::Int(value) if value.abs() < 1 << 40 => Ok(Bound { from_end: value < 0, offset: value as i64 }),
            Const::Int(value) => {
                self.error(expr.span, format!("the bound {value} is too large"));
                Err(Told)
            }
            other => {
                self.error(expr.span, format!("{wanted} must be an integer or None, found {other}"));
                Err(Told)
            }
        }
    }

    // Statements.

    fn stmts(&mut self, body: &'a [py::Stmt], guards: &[(FieldId, bool)], out: &mut Vec<Stmt>) {
        for stmt in body {
            let _ = self.stmt(stmt, guards, out);
        }
    }

    fn stmt(&mut self, stmt: &'a py::Stmt, guards: &[(FieldId, bool)], out: &mut Vec<Stmt>) -> Result<(), Told> {
        let span = stmt.span;
        match &stmt.kind {
            PyStmt::Pass => Ok(()),
            PyStmt::Expr(expr) if matches!(expr.kind, ExprKind::Str(_)) => Ok(()),
            PyStmt::Assign { targets, value } => {
                let value = self.expr(value);
                let [target] = &targets[..] else {
                    self.error(targets[1].span, "chained assignment is not supported");
                    return Err(Told);
                };
                let target_id = self.target(target, None);
                out.push(assign(span, guards, target_id?, target.span, value?));
                Ok(())
            }
            PyStmt::Annotate { target, annotation, value } => {
                let Some(value) = value else {
                    self.error(span, "a declaration needs a value");
                    return Err(Told);
                };
                let value = self.expr(value);
                let dtype = self.temporary_type(annotation)?;
                let target_id = self.target(target, Some(dtype));
                out.push(assign(span, guards, target_id?, target.span, value?));
                Ok(())
            }
            PyStmt::Augment { target, op, value } => {
                let name = target.as_name().map(str::to_owned);
                let value = self.expr(value);
                let Some(op) = arithmetic(*op) else {
                    self.error(span, format!("the operator `{}=` is not supported", op.text()));
                    return Err(Told);
                };
                let old = match name {
                    Some(_) => self.expr(target)?,
                    None => {
                        self.target(target, None)?;
                        return Err(Told);
                    }
                };
                let target_id = self.target(target, None)?;
                let value = self.binary(span, op, old, value?)?;
                out.push(assign(span, guards, target_id, target.span, value));
                Ok(())
            }
            PyStmt::If { branches, orelse } => self.if_stmt(branches, orelse, guards, out),
            PyStmt::While { test, body, orelse } => {
                if let Some(first) = orelse.first() {
                    self.error(first.span, "a `while` has no `else` here");
                }
                let cond = self.expr(test);
                let mut inner = Vec::new();
                self.stmts(body, &[], &mut inner);
                let kind = StmtKind::While { cond: cond?, body: inner };
                out.push(Stmt { span, guards: guards.to_vec(), extent: Extent::ZERO, kind });
                Ok(())
            }
            PyStmt::With { .. } => {
                self.error(span, "computations and intervals cannot be nested");
                Err(Told)
            }
            other => {
                let what = match other {
                    PyStmt::Expr(expr) => format!("{} is no statement of a stencil", expr.described()),
                    other => format!("{} is not supported in a stencil", other.described()),
                };
                self.error(span, what);
                Err(Told)
            }
        }
    }

    /// `tmp: float64 = ..` or `tmp: Field[float64] = ..`.
    fn temporary_type(&mut self, annotation: &py::Expr) -> Result<Dtype, Told> {
        if let ExprKind::Index(of, index) = &annotation.kind
            && matches!(of.as_path().as_deref(), Some(["Field"] | ["gtscript", "Field"]))
        {
            let (axes, dtype) = self.field_type(index)?;
            if axes != [true; 3] {
                self.error(annotation.span, "a temporary has the axes IJK");
                return Err(Told);
            }
            return Ok(dtype);
        }
        self.dtype(annotation)
    }

    /// The field that an assignment writes; a name that is none yet becomes a temporary.
    fn target(&mut self, target: &py::Expr, dtype: Option<Dtype>) -> Result<FieldId, Told> {
        let span = target.span;
        let name = match &target.kind {
            ExprKind::Name(name) => name.to_string(),
            ExprKind::Index(of, _) if of.as_name().is_some() => {
                let name = of.as_name().unwrap_or_default();
                self.error(span, format!("`{name}` is assigned at an offset; expected the name alone"));
                return Err(Told);
            }
            ExprKind::Tuple(_) | ExprKind::List(_) => {
                self.error(span, "assigning to a tuple is not supported");
                return Err(Told);
            }
            _ => {
                self.error(span, format!("expected a name to assign to, found {}", target.described()));
                return Err(Told);
            }
        };
        let what = match self.names.get(&name) {
            Some(Symbol::Field(id)) => {
                let id = *id;
                let known = self.fields[id].dtype;
                if let Some(dtype) = dtype
                    && known != Some(dtype)
                {
                    let known = known.map_or("declared without a type".into(), |known| known.name().to_owned());
                    self.error(span, format!("`{name}` is {known} already, found {}", dtype.name()));
                    return Err(Told);
                }
                return Ok(id);
            }
            Some(Symbol::Scalar(_)) => "a scalar parameter",
            Some(Symbol::Const(_) | Symbol::End) => "an external",
            Some(Symbol::Function(_)) => "a function",
            None => {
                let id = self.add_temporary(name.clone(), span, dtype, false);
                self.names.insert(name, Symbol::Field(id));
                return Ok(id);
            }
        };
        self.error(span, format!("`{name}` is {what}, which cannot be assigned"));
        Err(Told)
    }

    fn add_temporary(&mut self, name: String, span: Span, dtype: Option<Dtype>, mask: bool) -> FieldId {
        self.fields.push(Field { name, span, external: false, dtype, axes: [false, false, true], mask });
        self.fields.len() - 1
    }

    /// Masks of the branches, each evaluated once, then the masked statements.
    fn if_stmt(
        &mut self,
        branches: &'a [py::Branch],
        orelse: &'a [py::Stmt],
        guards: &[(FieldId, bool)],
        out: &mut Vec<Stmt>,
    ) -> Result<(), Told> {
        let mut guards = guards.to_vec();
        for branch in branches {
            let span = branch.test.span;
            let cond = self.expr(&branch.test);
            self.masks += 1;
            let mask = self.add_temporary(format!("mask {}", self.masks), span, Some(Dtype::Bool), true);
            if let Ok(cond) = cond {
                let value = self.mask_value(span, &guards, cond)?;
                out.push(assign(span, &[], mask, span, value));
            }
            // The mask is set only where those around it are.
            self.stmts(&branch.body, &[(mask, true)], out);
            guards.push((mask, false));
        }
        self.stmts(orelse, &guards, out);
        Ok(())
    }

    /// Whether the condition holds, where the statement is done at all.
    fn mask_value(&mut self, span: Span, guards: &[(FieldId, bool)], cond: Ref) -> Result<Ref, Told> {
        let mut parts = Vec::with_capacity(guards.len() + 1);
        for (mask, set) in guards {
            let read = self.node(span, NodeKind::Access { field: *mask, offset: [0; 3] })?;
            parts.push(if *set { read } else { self.node(span, NodeKind::Not(read))? });
        }
        parts.push(cond);
        match (parts.len(), &parts[0].kind) {
            (1, NodeKind::Const(value)) => {
                let value = Const::Bool(value.is_true());
                Ok(std::rc::Rc::new(Node { span, kind: NodeKind::Const(value) }))
            }
            _ => self.logical(span, true, parts),
        }
    }
}

fn assign(span: Span, guards: &[(FieldId, bool)], target: FieldId, place: Span, value: Ref) -> Stmt {
    let kind = StmtKind::Assign { target, place, value };
    Stmt { span, guards: guards.to_vec(), extent: Extent::ZERO, kind }
}

/// Names that are assigned anywhere, to tell names that are read too early from unknown ones.
fn collect_targets(body: &[py::Stmt], names: &mut HashSet<String>) {
    for stmt in body {
        match &stmt.kind {
            PyStmt::Assign { targets, .. } => {
                names.extend(targets.iter().filter_map(py::Expr::as_name).map(str::to_owned));
            }
            PyStmt::Annotate { target, .. } | PyStmt::Augment { target, .. } => {
                names.extend(target.as_name().map(str::to_owned));
            }
            PyStmt::If { branches, orelse } => {
                branches.iter().for_each(|branch| collect_targets(&branch.body, names));
                collect_targets(orelse, names);
            }
            PyStmt::While { body, .. } | PyStmt::With { body, .. } => collect_targets(body, names),
            _ => {}
        }
    }
}
