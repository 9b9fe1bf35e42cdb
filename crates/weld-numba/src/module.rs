//! The definitions of a text: functions with their overloads, classes, traits, aliases of types, typing rules.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use weld_core::diag::{Diagnostic, Span};
use weld_pysyntax::{self as py, ExprKind, Stmt, StmtKind};

use crate::class;
use crate::decorator::{Decorators, Target};
use crate::names::{Known, NameSet, yields};
use crate::signature::{SigTy, Signature};
use crate::trace::is_builtin_trait;
use crate::types::Ty;

/// One definition of a function or method.
#[derive(Clone, Debug)]
pub(crate) struct Def<'a> {
    pub(crate) function: &'a py::Function,
    pub(crate) signature: Option<Signature>,
    /// The parameters whose arguments keep what is known of them.
    pub(crate) specialize: Vec<usize>,
    /// The Weld text that stands for it, with its place.
    pub(crate) weld: Option<(Arc<str>, Span)>,
    /// Whether its implementation is missing: the body is `...`.
    pub(crate) is_empty: bool,
    pub(crate) is_generator: bool,
    /// Of a method: it is called where it is read.
    pub(crate) is_property: bool,
    /// Whether the first parameter is an object, which signatures leave out.
    pub(crate) is_method: bool,
    /// The variables of its own, and those that functions inside read.
    pub(crate) locals: NameSet<'a>,
    pub(crate) captured: NameSet<'a>,
}

impl Def<'_> {
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.function.name.name
    }

    pub(crate) fn span(&self) -> Span {
        self.function.name.span
    }
}

pub(crate) type Overloads<'a> = Rc<[Rc<Def<'a>>]>;

/// A class with a layout.
#[derive(Debug)]
pub(crate) struct Class<'a> {
    pub(crate) name: Arc<str>,
    pub(crate) span: Span,
    /// Its parameters, with whether each is a number.
    pub(crate) params: Vec<(Arc<str>, bool)>,
    pub(crate) fields: Vec<Field>,
    pub(crate) methods: BTreeMap<Arc<str>, Overloads<'a>>,
    /// Its variables, each a literal.
    pub(crate) constants: BTreeMap<Arc<str>, &'a py::Expr>,
    pub(crate) traits: Vec<Rc<Trait<'a>>>,
    /// The signature of its `step`, if it is an aggregate.
    pub(crate) aggregate: Option<Option<Signature>>,
}

/// A field of a layout.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: Arc<str>,
    pub(crate) ty: SigTy,
    pub(crate) is_immutable: bool,
    pub(crate) span: Span,
}

/// What objects of a class can do, whatever the class.
#[derive(Debug)]
pub(crate) struct Trait<'a> {
    pub(crate) name: Arc<str>,
    pub(crate) bases: Vec<Rc<Trait<'a>>>,
    /// The methods; one that a class must have is empty.
    pub(crate) methods: BTreeMap<Arc<str>, Overloads<'a>>,
}

impl<'a> Trait<'a> {
    /// Whether it is the trait or one that it extends.
    pub(crate) fn extends(&self, name: &str) -> bool {
        &*self.name == name || self.bases.iter().any(|base| base.extends(name))
    }
}

/// A rule of `unify` or `coercion_distance`: for these two types.
#[derive(Debug)]
pub(crate) struct Rule<'a> {
    pub(crate) types: [SigTy; 2],
    pub(crate) def: Rc<Def<'a>>,
}

#[derive(Debug, Default)]
pub(crate) struct Module<'a> {
    pub(crate) functions: HashMap<Arc<str>, Overloads<'a>>,
    pub(crate) classes: Vec<Rc<Class<'a>>>,
    pub(crate) traits: Vec<Rc<Trait<'a>>>,
    pub(crate) aliases: HashMap<Arc<str>, SigTy>,
    /// The exceptions of the program, with the one that each extends.
    pub(crate) exceptions: HashMap<Arc<str>, Arc<str>>,
    pub(crate) unify: Vec<Rule<'a>>,
    pub(crate) distance: Vec<Rule<'a>>,
    /// Names of functions and classes in the order of their last definitions.
    pub(crate) entries: Vec<Arc<str>>,
    pub(crate) known: Known<'a>,
}

impl<'a> Module<'a> {
    pub(crate) fn class(&self, name: &str) -> Option<usize> {
        self.classes.iter().position(|class| &*class.name == name)
    }

    /// Whether an exception is another, or one of the program that extends it.
    pub(crate) fn extends(&self, exception: &str, other: &str) -> bool {
        exception == other || self.exceptions.get(exception).is_some_and(|extended| self.extends(extended, other))
    }

    pub(crate) fn trait_(&self, name: &str) -> Option<&Rc<Trait<'a>>> {
        self.traits.iter().find(|known| &*known.name == name)
    }
}

impl<'a> Module<'a> {
    /// The names in signatures and layouts that no type or trait has.
    fn unknown_types(&self) -> Vec<Diagnostic> {
        let of_classes = self.classes.iter().flat_map(|class| class.methods.values());
        let of_traits = self.traits.iter().flat_map(|of| of.methods.values());
        let defs = self.functions.values().chain(of_classes).chain(of_traits).flat_map(|overloads| overloads.iter());
        let signatures = defs.filter_map(|def| def.signature.as_ref());
        let aggregates = self.classes.iter().filter_map(|class| class.aggregate.as_ref()?.as_ref());
        let mut errors = Vec::new();
        for signature in signatures.chain(aggregates) {
            for written in signature.params.iter().chain([&signature.result]) {
                errors.extend(self.unknown_type(written, signature.span));
            }
            for (_, bound) in &signature.constraints {
                errors.extend(self.unknown_bound(bound, signature.span));
            }
        }
        for field in self.classes.iter().flat_map(|class| &class.fields) {
            errors.extend(self.unknown_type(&field.ty, field.span));
        }
        errors
    }

    fn unknown_type(&self, written: &SigTy, span: Span) -> Option<Diagnostic> {
        let mut names = Vec::new();
        written.names(&mut names);
        let is_known = |name: &Arc<str>| {
            Ty::named(name).is_some()
                || self.class(name).is_some()
                || self.is_trait(name)
                || self.aliases.contains_key(name)
        };
        let unknown = names.into_iter().find(|name| !is_known(name))?;
        Some(Diagnostic::ty(span, format!("the type `{unknown}` is not defined")))
    }

    fn unknown_bound(&self, bound: &SigTy, span: Span) -> Option<Diagnostic> {
        match bound {
            SigTy::Named(name, args) if self.is_trait(name) => args.iter().find_map(|arg| self.unknown_type(arg, span)),
            SigTy::Named(name, _) => Some(Diagnostic::ty(span, format!("the trait `{name}` is not defined"))),
            _ => Some(Diagnostic::ty(span, "a type is constrained by a trait")),
        }
    }

    fn is_trait(&self, name: &str) -> bool {
        is_builtin_trait(name) || self.trait_(name).is_some()
    }
}

/// Where a definition stands.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Place {
    Class,
    Function,
}

/// The definitions that a function comes to, wherever it stands: one for each of its signatures.
pub(crate) fn define<'a>(
    function: &'a py::Function,
    known: &mut Known<'a>,
    decorators: Decorators,
    place: Place,
) -> Result<Vec<Rc<Def<'a>>>, Diagnostic> {
    check_params(&function.params, function.name.span)?;
    let body = match &function.body[..] {
        [first, rest @ ..] if is_docstring(first) => rest,
        body => body,
    };
    let uses = known.block(&function.body);
    let mut locals = uses.assigned;
    locals.extend(function.params.params.iter().map(|param| &*param.name.name));
    let is_method = place == Place::Class;
    for signature in decorators.signature.iter().chain(&decorators.more) {
        check_arity(function, signature, is_method)?;
    }
    check_specialized(function, &decorators, is_method)?;
    let first = Def {
        function,
        signature: decorators.signature,
        specialize: decorators.specialize.iter().map(|(index, _)| *index).collect(),
        weld: None,
        is_empty: body.iter().all(|stmt| matches!(&stmt.kind, StmtKind::Expr(e) if e.kind == ExprKind::Ellipsis)),
        is_generator: yields(&function.body),
        is_property: decorators.is_property,
        is_method,
        locals,
        captured: uses.captured,
    };
    let more = decorators.more.into_iter().map(|signature| Def { signature: Some(signature), ..first.clone() });
    let more: Vec<_> = more.map(Rc::new).collect();
    Ok([Rc::new(first)].into_iter().chain(more).collect())
}

/// `@specialize` names parameters that there are.
fn check_specialized(function: &py::Function, decorators: &Decorators, is_method: bool) -> Result<(), Diagnostic> {
    let params = &function.params.params;
    // Numbers leave out the object of a method with a signature.
    let has_self = is_method && decorators.signature.is_some();
    let count = params.len().saturating_sub(usize::from(has_self));
    let no_param = |what: String, span: Span| {
        let message = format!("`{}` has no parameter {what}", function.name.name);
        Err(Diagnostic::ty(span, message))
    };
    if let Some((index, span)) = decorators.specialize.iter().find(|(index, _)| *index >= count) {
        return no_param(format!("number {index}: they count from 0"), *span);
    }
    match decorators.specialize_types.iter().find(|(name, _)| params.iter().all(|param| param.name.name != *name)) {
        Some((name, span)) => no_param(format!("`{name}`"), *span),
        None => Ok(()),
    }
}

/// A signature has all parameters but `self` and a last one with a default.
fn check_arity(function: &py::Function, signature: &Signature, is_method: bool) -> Result<(), Diagnostic> {
    let params = &function.params.params;
    let found = signature.params.len();
    let may_lack_one = is_method || params.last().is_some_and(|param| param.default.is_some());
    if found == params.len() || (may_lack_one && found + 1 == params.len()) {
        return Ok(());
    }
    let name = &function.name.name;
    let message = format!("the signature of `{name}` has {found} parameters, the function {}", params.len());
    Err(Diagnostic::ty(signature.span, message))
}

fn check_params(params: &py::Params, span: Span) -> Result<(), Diagnostic> {
    let refuse = |what: &str| Err(Diagnostic::ty(span, format!("unsupported: {what}")));
    match (&params.rest, &params.keywords) {
        (Some(name), _) => refuse(&format!("the parameter `*{}`", name.name)),
        (_, Some(name)) => refuse(&format!("the parameter `**{}`", name.name)),
        _ => {
            let mut seen = HashSet::new();
            match params.params.iter().find(|param| !seen.insert(&param.name.name)) {
                Some(twice) => {
                    let message = format!("the parameter `{}` is there twice", twice.name.name);
                    Err(Diagnostic::parse(twice.name.span, message))
                }
                None => Ok(()),
            }
        }
    }
}

pub(crate) fn is_docstring(stmt: &Stmt) -> bool {
    matches!(&stmt.kind, StmtKind::Expr(e) if matches!(e.kind, ExprKind::Str(_)))
}

/// All definitions, or everything that is wrong with them.
pub(crate) fn collect<'a>(tree: &'a py::Module) -> Result<Module<'a>, Vec<Diagnostic>> {
    let mut errors = crate::refuse::unsupported(&tree.body);
    let mut collect = Collect { module: Module::default(), generators: Vec::new() };
    for stmt in &tree.body {
        if let Err(error) = collect.stmt(stmt) {
            errors.push(error);
        }
    }
    for (target, text, place) in std::mem::take(&mut collect.generators) {
        if let Err(error) = collect.generate(target, text, place) {
            errors.push(error);
        }
    }
    errors.extend(collect.circular_alias());
    errors.extend(collect.module.unknown_types());
    errors.sort_by_key(|error| error.span.start);
    errors.dedup_by_key(|error| error.span);
    if errors.is_empty() { Ok(collect.module) } else { Err(errors) }
}

struct Collect<'a> {
    module: Module<'a>,
    /// What `@codegen` says: the function, the text, its place.
    generators: Vec<(&'a py::Expr, Arc<str>, Span)>,
}

impl<'a> Collect<'a> {
    fn stmt(&mut self, stmt: &'a Stmt) -> Result<(), Diagnostic> {
        match &stmt.kind {
            StmtKind::Function(function) => self.function(function),
            StmtKind::Class(class) => self.class(class),
            StmtKind::Assign { targets, value } => self.alias(targets, value),
            StmtKind::Pass => Ok(()),
            _ if is_docstring(stmt) => Ok(()),
            // Refused by name already.
            StmtKind::Import(_) | StmtKind::ImportFrom { .. } | StmtKind::Unsupported(_) | StmtKind::With { .. } => {
                Ok(())
            }
            StmtKind::Expr(py::Expr { kind: ExprKind::Call { callee, .. }, .. }) if callee.as_path().is_some() => {
                let name = callee.as_path().unwrap_or_default().join(".");
                Err(Diagnostic::ty(stmt.span, format!("unsupported: a call of `{name}` outside of functions")))
            }
            other => {
                let message = format!("unsupported: {} outside of functions", other.described());
                Err(Diagnostic::ty(stmt.span, message).with_hint("a text has functions, classes and aliases of types"))
            }
        }
    }

    fn function(&mut self, function: &'a py::Function) -> Result<(), Diagnostic> {
        let decorators = Decorators::read(&function.decorators, Target::Function)?;
        if let Some((target, text, place)) = decorators.codegen {
            self.generators.push((target, text, place));
            return Ok(());
        }
        let name = &function.name.name;
        let rule = decorators.types.clone();
        let defs = define(function, &mut self.module.known, decorators, Place::Function)?;
        if let Some(types) = rule {
            let rules = match &**name {
                "unify" => &mut self.module.unify,
                "coercion_distance" => &mut self.module.distance,
                _ => {
                    let message = format!(
                        "`{name}` is no typing rule: `@overload` of types is for `unify` and `coercion_distance`"
                    );
                    return Err(Diagnostic::ty(function.name.span, message));
                }
            };
            if function.params.params.len() != 2 {
                return Err(Diagnostic::ty(function.name.span, format!("`{name}` takes 2 types")));
            }
            rules.extend(defs.into_iter().map(|def| Rule { types: types.clone(), def }));
            return Ok(());
        }
        self.taken(name, function.name.span)?;
        let known = self.module.functions.get(name).cloned();
        let overloads = with_overloads(known, defs)?;
        self.module.functions.insert(name.clone(), overloads);
        self.entry(name);
        Ok(())
    }

    fn entry(&mut self, name: &Arc<str>) {
        self.module.entries.retain(|known| known != name);
        self.module.entries.push(name.clone());
    }

    /// The error of a name that a class, trait or alias has.
    fn taken(&self, name: &str, span: Span) -> Result<(), Diagnostic> {
        let module = &self.module;
        let is_class = module.class(name).is_some() || module.trait_(name).is_some();
        match is_class || module.exceptions.contains_key(name) || module.aliases.contains_key(name) {
            true => Err(Diagnostic::ty(span, format!("`{name}` is defined twice"))),
            false => Ok(()),
        }
    }

    fn class(&mut self, class: &'a py::Class) -> Result<(), Diagnostic> {
        self.taken(&class.name.name, class.name.span)?;
        if self.module.functions.contains_key(&class.name.name) {
            return Err(Diagnostic::ty(class.name.span, format!("`{}` is defined twice", class.name.name)));
        }
        match class::read(class, &mut self.module)? {
            class::Read::Class(class) => {
                self.entry(&class.name);
                self.module.classes.push(Rc::new(class));
            }
            class::Read::Trait(read) => self.module.traits.push(Rc::new(read)),
            class::Read::Exception(extended) => {
                self.module.exceptions.insert(class.name.name.clone(), extended);
            }
        }
        Ok(())
    }

    fn alias(&mut self, targets: &'a [py::Expr], value: &'a py::Expr) -> Result<(), Diagnostic> {
        let [py::Expr { kind: ExprKind::Name(name), span }] = targets else {
            return Err(Diagnostic::ty(value.span, "unsupported: an assignment outside of functions"));
        };
        self.taken(name, *span)?;
        let variable = || {
            let message = format!("unsupported: the variable `{name}` outside of functions");
            Diagnostic::ty(*span, message).with_hint("only types get names outside of functions")
        };
        let ty = class::written_type(value).map_err(|_| variable())?;
        if matches!(ty, SigTy::Int(_)) {
            return Err(variable());
        }
        self.module.aliases.insert(name.clone(), ty);
        Ok(())
    }

    /// The error of an alias that stands for itself by way of others.
    fn circular_alias(&self) -> Option<Diagnostic> {
        let aliases = &self.module.aliases;
        let mut known: Vec<&Arc<str>> = aliases.keys().collect();
        known.sort();
        let is_circular = |name: &&Arc<str>| {
            let (mut seen, mut left) = (HashSet::new(), vec![*name]);
            let mut names = Vec::new();
            while let Some(next) = left.pop() {
                names.clear();
                aliases.get(next).into_iter().for_each(|ty| ty.names(&mut names));
                if names.contains(*name) {
                    return true;
                }
                left.extend(
                    names
                        .iter()
                        .filter_map(|name| aliases.get_key_value(name))
                        .map(|(name, _)| name)
                        .filter(|name| seen.insert((*name).clone())),
                );
            }
            false
        };
        let name = known.into_iter().find(is_circular)?;
        Some(Diagnostic::ty(Span::new(0, 0), format!("the alias `{name}` stands for itself")))
    }

    /// Lets a Weld text stand for a function or method.
    fn generate(&mut self, target: &'a py::Expr, text: Arc<str>, place: Span) -> Result<(), Diagnostic> {
        let path = target.as_path().unwrap_or_default();
        let unknown = || {
            let name = if path.is_empty() { target.described().to_owned() } else { path.join(".") };
            Diagnostic::ty(target.span, format!("`@codegen` needs a function or method, `{name}` is none"))
        };
        let with_text = |overloads: &Overloads<'a>| -> Overloads<'a> {
            let with = |def: &Rc<Def<'a>>| match def.weld {
                None => Rc::new(Def { weld: Some((text.clone(), place)), ..Def::clone(def) }),
                Some(_) => def.clone(),
            };
            overloads.iter().map(with).collect()
        };
        match path[..] {
            [name] => {
                let overloads = self.module.functions.get_mut(name).ok_or_else(unknown)?;
                *overloads = with_text(overloads);
            }
            [class, method] => {
                let index = self.module.class(class).ok_or_else(unknown)?;
                let class = Rc::get_mut(&mut self.module.classes[index]).ok_or_else(unknown)?;
                let overloads = class.methods.get_mut(method).ok_or_else(unknown)?;
                *overloads = with_text(overloads);
            }
            _ => return Err(unknown()),
        }
        Ok(())
    }
}

/// The definitions of a name with more, which must differ from them in their signatures.
pub(crate) fn with_overloads<'a>(
    known: Option<Overloads<'a>>,
    defs: Vec<Rc<Def<'a>>>,
) -> Result<Overloads<'a>, Diagnostic> {
    let add = |known: Option<Overloads<'a>>, def| with_overload(known.as_ref(), def).map(Some);
    Ok(defs.into_iter().try_fold(known, add)?.unwrap_or_default())
}

fn with_overload<'a>(known: Option<&Overloads<'a>>, def: Rc<Def<'a>>) -> Result<Overloads<'a>, Diagnostic> {
    let Some(known) = known else { return Ok([def].into()) };
    let name = def.name();
    let twice = |message: String| Err(Diagnostic::ty(def.span(), message));
    match &def.signature {
        None => twice(format!("`{name}` is defined twice: overloads need signatures")),
        Some(_) if known.iter().any(|other| other.signature.is_none()) => {
            twice(format!("`{name}` is defined twice: overloads need signatures"))
        }
        Some(signature) => {
            let same = |other: &&Rc<Def<'a>>| {
                other
                    .signature
                    .as_ref()
                    .is_some_and(|other| other.params == signature.params && other.constraints == signature.constraints)
            };
            match known.iter().find(same) {
                Some(_) => twice(format!("two overloads of `{name}` take the same types")),
                None => Ok(known.iter().cloned().chain([def.clone()]).collect()),
            }
        }
    }
}
