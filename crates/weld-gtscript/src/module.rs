//! The definitions of a text: stencils and functions, by their decorators.

use std::collections::HashMap;

use weld_core::diag::{Diagnostic, Span};
use weld_pysyntax::{self as py, ExprKind, StmtKind};

/// The definitions in their order.
pub(crate) struct Module<'a> {
    pub(crate) defs: Vec<Def<'a>>,
}

pub(crate) struct Def<'a> {
    pub(crate) def: &'a py::Function,
    /// Of a stencil: its options. `None`: a function.
    pub(crate) stencil: Option<&'a [py::Keyword]>,
}

/// Reads the top level. All that is no definition is refused.
pub(crate) fn read(module: &py::Module) -> Result<Module<'_>, Vec<Diagnostic>> {
    let (mut defs, mut errors): (Vec<Def<'_>>, Vec<Diagnostic>) = (Vec::new(), Vec::new());
    for stmt in &module.body {
        match &stmt.kind {
            StmtKind::Function(def) => match kind(def) {
                Ok(stencil) => {
                    if let Some(first) = defs.iter().find(|other| other.def.name.name == def.name.name) {
                        let message = format!("`{}` is defined twice", def.name.name);
                        errors.push(
                            Diagnostic::ty(def.name.span, message).with_label(first.def.name.span, "defined here"),
                        );
                    }
                    defs.push(Def { def, stencil });
                }
                Err(error) => errors.push(error),
            },
            // A text of documentation.
            StmtKind::Expr(expr) if matches!(expr.kind, ExprKind::Str(_)) => {}
            StmtKind::Import(_) | StmtKind::ImportFrom { .. } if foreign_import(&stmt.kind).is_none() => {}
            other => {
                let text = foreign_import(other).unwrap_or_else(|| other.described().to_owned());
                let message = format!("unsupported: {text}; a module holds definitions of stencils and functions");
                errors.push(Diagnostic::ty(stmt.span, message));
            }
        }
    }
    errors.extend(recursion(&defs));
    if errors.is_empty() { Ok(Module { defs }) } else { Err(errors) }
}

/// The text of an import of what is not known here. Those of the language itself and of NumPy, for its dtypes, are read
/// over.
pub(crate) fn foreign_import(stmt: &StmtKind) -> Option<String> {
    let is_known = |module: &str| {
        matches!(module.split('.').next(), Some("gt4py" | "gtscript" | "__gtscript__" | "__future__" | "numpy"))
    };
    match stmt {
        StmtKind::Import(names) => {
            let foreign = names.iter().find(|name| !is_known(&name.name.name))?;
            Some(format!("import {}", foreign.name.name))
        }
        StmtKind::ImportFrom { module: Some(module), .. } if is_known(&module.name) => None,
        StmtKind::ImportFrom { module: Some(module), .. } => Some(format!("from {} import", module.name)),
        StmtKind::ImportFrom { module: None, .. } => Some("from . import".to_owned()),
        _ => None,
    }
}

/// What the decorator says: the options of a stencil, or `None` for a function.
fn kind(def: &py::Function) -> Result<Option<&[py::Keyword]>, Diagnostic> {
    let name = &def.name;
    let wanted = "it needs the decorator `@gtscript.stencil` or `@gtscript.function`";
    let decorator = match &def.decorators[..] {
        [one] => one,
        [] => return Err(Diagnostic::ty(name.span, format!("`{}` has no decorator; {wanted}", name.name))),
        [_, second, ..] => {
            return Err(Diagnostic::ty(second.span, format!("`{}` has several decorators; {wanted}", name.name)));
        }
    };
    let (path, options) = match &decorator.kind {
        ExprKind::Call { callee, args, keywords } => match args.first() {
            Some(arg) => {
                return Err(Diagnostic::ty(arg.span, "the decorator takes options by name only: `externals={..}`"));
            }
            None => (callee.as_path(), &keywords[..]),
        },
        _ => (decorator.as_path(), &[][..]),
    };
    match path.as_deref() {
        Some(["gtscript", "stencil"] | ["stencil"]) => {}
        Some(["gtscript", "function"] | ["function"]) if options.is_empty() => return Ok(None),
        Some(["gtscript", "function"] | ["function"]) => {
            return Err(Diagnostic::ty(decorator.span, "`@gtscript.function` takes no options"));
        }
        Some(path) => {
            let message = format!("unknown decorator `@{}` of `{}`; {wanted}", path.join("."), name.name);
            return Err(Diagnostic::ty(decorator.span, message));
        }
        None => return Err(Diagnostic::ty(decorator.span, format!("unknown decorator of `{}`; {wanted}", name.name))),
    }
    for option in options {
        match &option.name {
            Some(name) if &*name.name == "externals" => {}
            Some(name) => {
                let message = format!("unknown option `{}` of the stencil; expected `externals`", name.name);
                return Err(Diagnostic::ty(name.span, message));
            }
            None => return Err(Diagnostic::ty(option.value.span, "`**` is not supported in a decorator")),
        }
    }
    Ok(Some(options))
}

pub(crate) fn recursive(name: &str) -> String {
    format!("`{name}` is recursive; functions cannot call themselves")
}

/// The errors of functions that call themselves, directly or through others.
fn recursion(defs: &[Def<'_>]) -> Vec<Diagnostic> {
    let functions: HashMap<&str, usize> = defs
        .iter()
        .enumerate()
        .filter(|(_, def)| def.stencil.is_none())
        .map(|(i, def)| (&*def.def.name.name, i))
        .collect();
    let calls: Vec<Vec<(usize, Span)>> = defs
        .iter()
        .map(|def| {
            let mut found = Vec::new();
            def.def.body.iter().for_each(|stmt| calls_of(stmt, &functions, &mut found));
            found
        })
        .collect();
    // 0: not seen, 1: on the path, 2: done.
    let mut state = vec![0u8; defs.len()];
    let mut errors = Vec::new();
    for start in 0..defs.len() {
        let mut path = vec![(start, 0)];
        if state[start] != 0 {
            continue;
        }
        state[start] = 1;
        while let Some((def, next)) = path.pop() {
            let Some((callee, span)) = calls[def].get(next).copied() else {
                state[def] = 2;
                continue;
            };
            path.push((def, next + 1));
            match state[callee] {
                0 => {
                    state[callee] = 1;
                    path.push((callee, 0));
                }
                1 => {
                    let name = &defs[callee].def.name.name;
                    errors.push(Diagnostic::ty(span, recursive(name)));
                }
                _ => {}
            }
        }
    }
    errors
}

fn calls_of(stmt: &py::Stmt, functions: &HashMap<&str, usize>, found: &mut Vec<(usize, Span)>) {
    let mut expr = |expr: &py::Expr| calls_in(expr, functions, found);
    match &stmt.kind {
        StmtKind::Return(Some(value)) => expr(value),
        StmtKind::Assign { value, .. }
        | StmtKind::Augment { value, .. }
        | StmtKind::Annotate { value: Some(value), .. } => {
            expr(value);
        }
        StmtKind::While { test, body, .. } => {
            expr(test);
            body.iter().for_each(|stmt| calls_of(stmt, functions, found));
        }
        StmtKind::If { branches, orelse } => {
            branches.iter().for_each(|branch| expr(&branch.test));
            let bodies = branches.iter().flat_map(|branch| &branch.body).chain(orelse);
            bodies.for_each(|stmt| calls_of(stmt, functions, found));
        }
        _ => {}
    }
}

fn calls_in(expr: &py::Expr, functions: &HashMap<&str, usize>, found: &mut Vec<(usize, Span)>) {
    let mut all = |parts: &[&py::Expr]| parts.iter().for_each(|part| calls_in(part, functions, found));
    match &expr.kind {
        ExprKind::Call { callee, args, keywords } => {
            args.iter().for_each(|arg| all(&[arg]));
            keywords.iter().for_each(|keyword| all(&[&keyword.value]));
            if let Some(index) = callee.as_name().and_then(|name| functions.get(name)) {
                found.push((*index, expr.span));
            }
        }
        ExprKind::Index(a, b) | ExprKind::Binary(_, a, b) => all(&[a, b]),
        ExprKind::Unary(_, a) => all(&[a]),
        ExprKind::And(parts) | ExprKind::Or(parts) | ExprKind::Tuple(parts) => {
            parts.iter().for_each(|part| all(&[part]));
        }
        ExprKind::Compare { first, rest } => {
            all(&[first]);
            rest.iter().for_each(|(_, part)| all(&[part]));
        }
        ExprKind::If { test, on_true, on_false } => all(&[test, on_true, on_false]),
        _ => {}
    }
}
