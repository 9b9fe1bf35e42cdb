//! From syntax to IR: names resolved, macros expanded, types inferred, builders checked for linearity.
//!
//! ```text
//! |v: vec[i64]| map(v, |x| x * x)
//!     =>  |v: vec[i64]| result(for(v, appender[i64], |b, i, x| merge(b, x * x)))
//! ```
//!
//! One walk over the syntax makes a tree of [`node::Node`]s whose types may be unknown; what cannot be decided yet
//! (the field of a value of unknown type) waits in a list ([`pending`]). At the end every type must be known, and each
//! node is checked against the typing rules once more as it becomes IR ([`finish`]).
//!
//! Macros are expanded by name: an argument is walked where the macro's body uses it, in the scope of the call, so no
//! name is ever captured. Expansion is bounded in depth and in the size of the result.

mod call;
mod expr;
mod finish;
mod function;
mod iter;
mod node;
mod pending;
mod scope;
mod size;
mod type_expr;
mod types;

use std::collections::HashMap;

use crate::Frontend;
use crate::diag::{Diagnostic, ErrorKind, Span};
use crate::ir::{self, Annotations, Literal, Names, Program};
use crate::syntax::tree::{Macro, Module, TypeExpr, TypeKind};
use crate::ty::Type;

use node::{Head, Node};
use pending::Pending;
use scope::{Def, Frame};
use types::{Con, Ty, Types};

/// How deep macros may expand within macros.
pub const EXPANSION_DEPTH_MAX: usize = 100;

/// How deep expressions may nest when macros are expanded.
const DEPTH_MAX: usize = 2 * crate::syntax::DEPTH_MAX;

/// How many expressions a program may have when macros are expanded.
const NODES_MAX: usize = 2 * crate::syntax::NODES_MAX;

const ERRORS_MAX: usize = 50;

/// Makes a checked program of a syntax tree that parsed without errors.
pub fn infer(module: &Module, host: &Frontend) -> Result<Program, Vec<Diagnostic>> {
    let mut infer = Infer::new(module, host);
    let program = infer.program(module);
    if !infer.errors.is_empty() {
        infer.errors.sort_by_key(|error| error.span.start);
        return Err(infer.errors);
    }
    let Some(program) = program else {
        let message = "the types of this program cannot be inferred";
        return Err(vec![Diagnostic::ty(module.body.span, message)]);
    };
    let mut errors = ir::linear::check(&program);
    errors.truncate(ERRORS_MAX);
    if !errors.is_empty() {
        return Err(errors);
    }
    debug_assert_eq!(ir::verify(&program), Ok(()));
    Ok(program)
}

/// The type that a type expression without aliases and unknowns stands for.
pub fn closed_type(ty: &TypeExpr) -> Result<Type, Vec<Diagnostic>> {
    let module = Module {
        aliases: Vec::new(),
        macros: Vec::new(),
        params: Vec::new(),
        body: crate::syntax::tree::Expr::error(ty.span),
    };
    let host = Frontend::default();
    let mut infer = Infer::new(&module, &host);
    let lowered = infer.ty(ty);
    match infer.types.export(lowered) {
        Some(ty) if infer.errors.is_empty() => Ok(ty),
        _ if infer.errors.is_empty() => Err(vec![Diagnostic::ty(ty.span, "`?` is not allowed here")]),
        _ => Err(infer.errors),
    }
}

struct Infer<'a> {
    host: &'a Frontend,
    types: Types,
    names: Names,
    aliases: HashMap<&'a str, &'a TypeExpr>,
    /// What aliases stand for; nothing while that is being found out.
    alias_types: HashMap<&'a str, Option<Ty>>,
    macros: HashMap<&'a str, &'a Macro>,
    /// Scopes: the program's, and one for each macro being expanded.
    frames: Vec<Frame<'a>>,
    frame: usize,
    pending: Vec<Pending>,
    /// The elements of string literals.
    texts: Vec<Ty>,
    depth: usize,
    nodes: usize,
    /// Nothing further makes sense.
    stopped: bool,
    errors: Vec<Diagnostic>,
    /// How many there were when nodes began to be finished.
    errors_before: usize,
}

impl<'a> Infer<'a> {
    fn new(module: &'a Module, host: &'a Frontend) -> Infer<'a> {
        let mut infer = Infer {
            host,
            types: Types::new(),
            names: Names::default(),
            aliases: HashMap::new(),
            alias_types: HashMap::new(),
            macros: HashMap::new(),
            frames: vec![Frame::default()],
            frame: 0,
            pending: Vec::new(),
            texts: Vec::new(),
            depth: 0,
            nodes: 0,
            stopped: false,
            errors: Vec::new(),
            errors_before: 0,
        };
        infer.define(module);
        infer
    }

    fn program(&mut self, module: &'a Module) -> Option<Program> {
        let mut params = Vec::new();
        for param in &module.params {
            let (ty, stream) = match &param.ty {
                Some(TypeExpr { kind: TypeKind::Stream(element), .. }) => {
                    let element = self.ty(element);
                    (self.con(param.name.span, Con::Vec, &[element]), true)
                }
                Some(ty) => (self.ty(ty), false),
                None => {
                    let message = format!("the parameter `{}` needs a type", param.name.text);
                    let hint = format!("write `|{}: i64|`, or whatever its type is", param.name.text);
                    self.report(Diagnostic::ty(param.name.span, message).with_hint(hint));
                    (Types::ERROR, false)
                }
            };
            let sym = self.names.fresh(&param.name.text);
            self.bind(&param.name, Def::Var { sym, ty });
            params.push((sym, ty, stream, param.name.span));
        }
        if let Some(span) = size::too_large(&module.body, &self.macros, NODES_MAX as u64) {
            self.stop_too_large(span);
            return None;
        }
        let body = self.expr(&module.body);
        self.unused_aliases(&module.aliases);
        self.settle();
        let params = params
            .into_iter()
            .map(|(sym, ty, stream, span)| self.finish_param(sym, ty, stream, span))
            .collect::<Option<Vec<_>>>();
        let body = self.finish_program(body)?;
        Some(Program { params: params?, body, names: std::mem::take(&mut self.names) })
    }

    // Errors.

    fn report(&mut self, problem: Diagnostic) {
        if !self.stopped {
            self.errors.push(problem);
            self.stopped = self.errors.len() >= ERRORS_MAX;
        }
    }

    fn complain(&mut self, span: Span, message: impl Into<String>) {
        self.report(Diagnostic::new(ErrorKind::Type, span, message));
    }

    /// Reports an error and gives a node that fits everywhere.
    fn error(&mut self, span: Span, message: impl Into<String>) -> Node {
        self.complain(span, message);
        self.error_node(span)
    }

    fn error_node(&mut self, span: Span) -> Node {
        Node { head: Head::Error, ty: Types::ERROR, span, annotations: Annotations::NONE, children: Vec::new() }
    }

    /// Reports an error after which nothing makes sense.
    fn stop(&mut self, span: Span, message: String) {
        self.complain(span, message);
        self.stopped = true;
    }

    fn stop_too_large(&mut self, span: Span) {
        let message = format!("the program is too large when macros are expanded: more than {NODES_MAX} expressions");
        self.stop(span, message);
    }

    // Nodes.

    fn node(&mut self, head: Head, ty: Ty, span: Span, children: Vec<Node>) -> Node {
        self.nodes += 1;
        if self.nodes > NODES_MAX && !self.stopped {
            self.stop_too_large(span);
        }
        Node { head, ty, span, annotations: Annotations::NONE, children }
    }

    /// A type made of parts; reports one that is too large.
    fn con(&mut self, span: Span, con: Con, parts: &[Ty]) -> Ty {
        match self.types.make(con, parts) {
            Some(ty) => ty,
            None => {
                self.complain(span, "this type is too large");
                Types::ERROR
            }
        }
    }

    /// Demands a type of a node.
    fn expect(&mut self, node: &Node, wanted: Ty, what: &str) {
        if self.types.unify(wanted, node.ty) {
            return;
        }
        let hint = self.conversion_hint(node, wanted);
        self.mismatch(node, wanted, what, hint);
    }

    /// Demands a type of a node; where it has another, the hint says more than how to convert it.
    fn expect_with_hint(&mut self, node: &Node, wanted: Ty, what: &str, hint: &str) {
        if !self.types.unify(wanted, node.ty) {
            self.mismatch(node, wanted, what, Some(hint.to_owned()));
        }
    }

    fn mismatch(&mut self, node: &Node, wanted: Ty, what: &str, hint: Option<String>) {
        let (found, wanted) = (self.types.show(node.ty), self.types.show(wanted));
        let mut problem = Diagnostic::ty(node.span, format!("{what} must be {wanted}, not {found}"));
        problem.hint = hint;
        self.report(problem);
    }

    /// How to make a scalar what is wanted.
    fn conversion_hint(&mut self, node: &Node, wanted: Ty) -> Option<String> {
        self.conversion(node.literal(), node.ty, wanted)
    }

    fn conversion(&mut self, literal: Option<Literal>, found: Ty, wanted: Ty) -> Option<String> {
        let (found, wanted) = (self.types.export(found)?, self.types.export(wanted)?);
        if let (Type::Scalar(found), Type::Simd(lane)) = (&found, &wanted)
            && found == lane
        {
            return Some("make it a SIMD value: `broadcast(..)`".to_owned());
        }
        let (found, wanted) = (found.as_scalar()?, wanted.as_scalar()?);
        match literal {
            Some(literal) if found.is_integer() => {
                Some(format!("write `{}`", ir::build::literal(wanted, literal.bits())))
            }
            _ => Some(format!("convert it: `{wanted}(..)`")),
        }
    }
}
