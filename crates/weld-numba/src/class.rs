//! Classes and traits as they are written.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use weld_core::diag::{Diagnostic, Span};
use weld_pysyntax::{self as py, ExprKind, StmtKind};

use crate::decorator::{Decorators, Target};
use crate::module::{Class, Field, Module, Overloads, Place, Trait, define, is_docstring, with_overloads};
use crate::signature::{SigTy, parse_class, parse_type};
use crate::trace::is_exception;

pub(crate) enum Read<'a> {
    Class(Class<'a>),
    Trait(Trait<'a>),
    /// An exception, and the one that it extends.
    Exception(Arc<str>),
}

/// A class; one without a layout that extends a trait is a trait.
pub(crate) fn read<'a>(class: &'a py::Class, module: &mut Module<'a>) -> Result<Read<'a>, Diagnostic> {
    let decorators = Decorators::read(&class.decorators, Target::Class)?;
    if let Some(extended) = extended_exception(class, module)? {
        return Ok(Read::Exception(extended));
    }
    let (traits, is_trait) = bases(class, module)?;
    let params = params(class, &decorators)?;
    let is_param = |name: &str| params.iter().any(|(param, _)| &**param == name);
    let mut layout = None;
    let mut constants: BTreeMap<Arc<str>, &'a py::Expr> = BTreeMap::new();
    let mut methods: BTreeMap<Arc<str>, Overloads<'a>> = BTreeMap::new();
    for stmt in &class.body {
        match &stmt.kind {
            StmtKind::Function(function) => {
                let name = &function.name.name;
                if &**name == "__del__" {
                    return Err(Diagnostic::ty(function.name.span, "unsupported: __del__")
                        .with_hint("objects have no lifetime that a program sees"));
                }
                let mut decorators = Decorators::read(&function.decorators, Target::Function)?;
                let written = decorators.signatures_mut().flat_map(|signature| signature.types_mut());
                written.for_each(|written| written.name_variables(&is_param));
                let defs = define(function, &mut module.known, decorators, Place::Class)?;
                if function.params.params.is_empty() {
                    return Err(Diagnostic::ty(function.name.span, format!("the method `{name}` takes no `self`")));
                }
                let overloads = with_overloads(methods.get(name).cloned(), defs)?;
                methods.insert(name.clone(), overloads);
            }
            StmtKind::Assign { targets, value } if matches!(&targets[..], [target] if target.as_name() == Some("layout")) =>
            {
                layout = Some((value, stmt.span));
            }
            StmtKind::Assign { targets, value } if is_literal(value) => match &targets[..] {
                [py::Expr { kind: ExprKind::Name(name), .. }] => {
                    constants.insert(name.clone(), value);
                }
                _ => return Err(Diagnostic::ty(stmt.span, "unsupported: this assignment in a class")),
            },
            StmtKind::Pass => {}
            _ if is_docstring(stmt) => {}
            StmtKind::Expr(e) if e.kind == ExprKind::Ellipsis => {}
            other => {
                return Err(Diagnostic::ty(stmt.span, format!("unsupported: {} in a class", other.described())));
            }
        }
    }
    let name = class.name.name.clone();
    let Some((layout, _)) = layout else {
        if is_trait || !traits.is_empty() {
            return Ok(Read::Trait(Trait { name, bases: traits, methods }));
        }
        let message = format!("the class `{name}` has no `layout`");
        return Err(Diagnostic::ty(class.name.span, message).with_hint("layout = Struct([('field', 'Type'), ..])"));
    };
    if is_trait {
        return Err(Diagnostic::ty(class.name.span, format!("the trait `{name}` has no layout")));
    }
    let mut fields = fields(layout, decorators.is_immutable)?;
    fields.iter_mut().for_each(|field| field.ty.name_variables(&is_param));
    for base in &traits {
        inherit(base, &name, class.name.span, &mut methods)?;
    }
    let aggregate = decorators.aggregate;
    Ok(Read::Class(Class { name, span: class.name.span, params, fields, methods, constants, traits, aggregate }))
}

/// The exception that a class extends, which is then one itself: it has a name and a text, and nothing else.
fn extended_exception(class: &py::Class, module: &Module<'_>) -> Result<Option<Arc<str>>, Diagnostic> {
    let [base] = &class.bases[..] else { return Ok(None) };
    let Some(name) = base.as_name().filter(|name| is_exception(name) || module.exceptions.contains_key(*name)) else {
        return Ok(None);
    };
    let is_idle = |stmt: &py::Stmt| match &stmt.kind {
        StmtKind::Pass => true,
        StmtKind::Expr(e) => e.kind == ExprKind::Ellipsis || is_docstring(stmt),
        _ => false,
    };
    match class.body.iter().find(|stmt| !is_idle(stmt)) {
        Some(stmt) => {
            let message = format!("unsupported: {} in the exception `{}`", stmt.kind.described(), class.name.name);
            Err(Diagnostic::ty(stmt.span, message).with_hint("an exception has a name and a text"))
        }
        None => Ok(Some(name.into())),
    }
}

/// Whether an expression is a number, a string or a truth.
fn is_literal(e: &py::Expr) -> bool {
    match &e.kind {
        ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Str(_) | ExprKind::Bool(_) => true,
        ExprKind::Unary(py::UnaryOp::Neg, of) => matches!(of.kind, ExprKind::Int(_) | ExprKind::Float(_)),
        _ => false,
    }
}

/// The traits that a class extends, and whether it extends `Trait` itself.
fn bases<'a>(class: &py::Class, module: &Module<'a>) -> Result<(Vec<Rc<Trait<'a>>>, bool), Diagnostic> {
    let (mut traits, mut is_trait) = (Vec::new(), false);
    for base in &class.bases {
        let name = match &base.kind {
            ExprKind::Index(of, _) => of.as_name(),
            _ => base.as_name(),
        };
        match name {
            Some("object") => {}
            Some("Trait") => is_trait = true,
            Some(name) if module.trait_(name).is_some() => traits.extend(module.trait_(name).cloned()),
            Some(name @ ("Iterable" | "Number" | "Integral" | "Floating" | "Ordered")) => {
                traits.push(Rc::new(Trait { name: name.into(), bases: Vec::new(), methods: BTreeMap::new() }));
            }
            name => {
                let of = name.map_or(String::new(), |name| format!(" of `{name}`"));
                return Err(Diagnostic::ty(base.span, format!("unsupported: inheritance{of}"))
                    .with_hint("a class extends `object` and traits"));
            }
        }
    }
    if let Some(keyword) = class.keywords.first() {
        return Err(Diagnostic::ty(keyword.value.span, "unsupported: a keyword of a class"));
    }
    Ok((traits, is_trait))
}

fn params(class: &py::Class, decorators: &Decorators<'_>) -> Result<Vec<(Arc<str>, bool)>, Diagnostic> {
    let Some((text, span)) = &decorators.class else { return Ok(Vec::new()) };
    let (name, params) =
        parse_class(text).map_err(|message| Diagnostic::parse(*span, format!("{text:?}: {message}")))?;
    match name == class.name.name {
        true => Ok(params),
        false => {
            let message = format!("the class is called `{}`, its declaration says `{name}`", class.name.name);
            Err(Diagnostic::ty(*span, message))
        }
    }
}

/// `Struct([('f', 'T'), ..], immutable=['f'])`.
fn fields(layout: &py::Expr, is_immutable: bool) -> Result<Vec<Field>, Diagnostic> {
    let wrong = |span: Span| Diagnostic::ty(span, "expected a layout: Struct([('field', 'Type'), ..])");
    let ExprKind::Call { callee, args, keywords } = &layout.kind else { return Err(wrong(layout.span)) };
    let ([py::Expr { kind: ExprKind::List(items), .. }], Some("Struct")) = (&args[..], callee.as_name()) else {
        return Err(wrong(layout.span));
    };
    let mut immutable = Vec::new();
    for keyword in keywords {
        match (keyword.name.as_ref().map(|name| &*name.name), &keyword.value.kind) {
            (Some("immutable"), ExprKind::List(names) | ExprKind::Tuple(names)) => immutable.extend(names),
            _ => return Err(wrong(keyword.value.span)),
        }
    }
    for e in &immutable {
        let is_field = |item: &py::Expr| match (&item.kind, &e.kind) {
            (ExprKind::Tuple(pair), ExprKind::Str(marked)) => {
                matches!(pair.first().map(|name| &name.kind), Some(ExprKind::Str(name)) if name == marked)
            }
            _ => false,
        };
        if !items.iter().any(is_field) {
            let name = if let ExprKind::Str(name) = &e.kind { format!("`{name}`") } else { e.described().to_owned() };
            return Err(Diagnostic::ty(e.span, format!("`immutable` names {name}, which is no field of the layout")));
        }
    }
    let is_marked = |name: &Arc<str>| immutable.iter().any(|e| matches!(&e.kind, ExprKind::Str(text) if text == name));
    let mut fields: Vec<Field> = Vec::new();
    for item in items {
        let ExprKind::Tuple(pair) = &item.kind else { return Err(wrong(item.span)) };
        let [py::Expr { kind: ExprKind::Str(name), .. }, ty] = &pair[..] else { return Err(wrong(item.span)) };
        if fields.iter().any(|field| field.name == *name) {
            return Err(Diagnostic::ty(item.span, format!("the field `{name}` is there twice")));
        }
        let ty = written_type(ty)
            .map_err(|message| Diagnostic::ty(item.span, format!("the type of the field `{name}`: {message}")))?;
        let is_immutable = is_immutable || is_marked(name);
        fields.push(Field { name: name.clone(), ty, is_immutable, span: item.span });
    }
    Ok(fields)
}

/// Gives a class the methods of a trait that it has not itself.
fn inherit<'a>(
    base: &Rc<Trait<'a>>,
    class: &str,
    span: Span,
    methods: &mut BTreeMap<Arc<str>, Overloads<'a>>,
) -> Result<(), Diagnostic> {
    for (name, overloads) in &base.methods {
        if methods.contains_key(name) {
            continue;
        }
        if overloads.iter().any(|def| def.is_empty) {
            // A trait in between may have it.
            let message =
                format!("the class `{class}` has no method `{name}`, which the trait `{}` requires", base.name);
            return Err(Diagnostic::ty(span, message));
        }
        methods.insert(name.clone(), overloads.clone());
    }
    base.bases.iter().try_for_each(|base| inherit(base, class, span, methods))
}

/// A type that stands where an expression does: `Float64`, `Array[Double, 2]`, `'[Int]'`.
pub(crate) fn written_type(e: &py::Expr) -> Result<SigTy, String> {
    match &e.kind {
        ExprKind::Name(name) => Ok(match name.starts_with(|c: char| c.is_lowercase()) {
            true => SigTy::Var(name.clone()),
            false => SigTy::Named(name.clone(), Vec::new()),
        }),
        ExprKind::Int(value) => i64::try_from(*value).map(SigTy::Int).map_err(|_| "the number is too large".into()),
        ExprKind::None => Ok(SigTy::Named("None".into(), Vec::new())),
        ExprKind::Str(text) => parse_type(text),
        ExprKind::Index(of, index) => {
            if let (Some("list" | "List"), false) = (of.as_name(), matches!(index.kind, ExprKind::Tuple(_))) {
                return Ok(SigTy::List(Box::new(written_type(index)?)));
            }
            let of = match of.as_name() {
                Some("tuple") => SigTy::Named("Tuple".into(), Vec::new()),
                _ => written_type(of)?,
            };
            let SigTy::Named(name, _) = of else { return Err("expected the name of a type".into()) };
            let args = match &index.kind {
                ExprKind::Tuple(parts) => parts.iter().map(written_type).collect::<Result<_, _>>()?,
                _ => vec![written_type(index)?],
            };
            Ok(SigTy::Named(name, args))
        }
        ExprKind::List(parts) if parts.len() == 1 => Ok(SigTy::List(Box::new(written_type(&parts[0])?))),
        ExprKind::Tuple(parts) => parts.iter().map(written_type).collect::<Result<_, _>>().map(SigTy::Tuple),
        _ => Err(format!("expected a type, found {}", e.described())),
    }
}
