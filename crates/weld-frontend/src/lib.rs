//! What every language that compiles to Weld shares.
//!
//! A language is a crate with one public type that implements [`Language`], and a line in `weld-languages`. All else
//! follows from its [`Function`]s: `weld eval`, `weld run`, the crate `weld`, and functions in SQL.
//!
//! `compile` gets a [`Request`]: the text, the definition to call, what is known of each argument ([`Arg`]), the
//! functions of the session, limits. It gives all parse errors, or else all type errors, or a [`Function`]:
//!
//! - `params`, **one for each argument of the request, in the order of the request**, whatever the order in the text.
//!   Where the request has no arguments ([`Args::Declared`]), the parameters of the text in its order. [`Args::bind`]
//!   finds the parameter of each argument, by name or position, and has the errors. What the text leaves open (an axis,
//!   a type) is taken from [`Arg`].
//! - a [`Shape`] for each parameter and the result: how a value lies in Weld. A matrix is [`Shape::Array`]: flat and
//!   row-major. A size that is `Some` is checked before each call; one that is `None` comes with the value. Choose the
//!   shape that suits the argument: of `Known::Type(FLOAT)` take a scalar, of a tensor its array.
//! - a verified `ir::Program` with those parameters ([`Shape::ty`] gives their types); [`Function::new`] makes and
//!   checks it.
//!
//! Expressions are made with `weld_core::ir::build`; put the text's span on every node that can fail (`Expr::at`).
//! Run-time errors are those of the IR (bounds, division, [`build::assert`](weld_core::ir::build::assert) with a
//! message). Statements become expressions by [`Flow`]. Types that do not fit together give a node of type `{}` there,
//! which `Function::new` reports as a defect of the language's crate: check types before, and name what is meant.
//!
//! Calls of functions of the session: [`Library::get`], then [`Sources::call`] with the arguments as expressions.
//!
//! Tests are files in `tests/<language>/`, run by `cargo test -p weld-test --test languages`;
//! `weld_test::language_case` says how they look. This crate and the languages know no LLVM, Arrow or DataFusion and
//! have no unsafe code.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod aggregate;
mod args;
mod call;
mod data_type;
pub mod floor_division;
mod flow;
mod function;
pub mod json;
mod library;
mod shape;
mod source;

pub use aggregate::{Aggregate, Merged};
pub use args::{Arg, Args, Known, Sizes, missing};
pub use call::Given;
pub use data_type::DataType;
pub use flow::{Block, Flow};
pub use function::{Function, Param};
pub use library::Library;
pub use shape::{Array, Axes, Shape};
pub use source::{Source, Sources};

use weld_core::diag::{Diagnostic, Span};
use weld_core::ir::Expr;
use weld_core::ty::ScalarKind;

/// A language that functions can be written in.
pub trait Language: Sync {
    /// What may stand after `LANGUAGE`, lower case; the first is its name.
    fn names(&self) -> &'static [&'static str];

    /// The end of its files' names, without the first dot: `ttl`, `gt.py`.
    fn extension(&self) -> &'static str;

    /// Whether nested lists are arrays, of which a ragged one is wrong whatever the parameter is. Elsewhere lists may
    /// stand for structs, and for vectors of vectors of different lengths.
    fn lists_are_arrays(&self) -> bool {
        true
    }

    /// Compiles a definition of a text. All parse errors, or all type errors.
    fn compile(&self, request: &Request<'_>) -> Result<Function, Vec<Diagnostic>>;

    /// Compiles the definition as a function of groups of rows, if it is one: the arguments of the request are those of
    /// a row. `None`: it is a function of its arguments, which [`compile`](Language::compile) compiles.
    fn aggregate(&self, _: &Request<'_>) -> Result<Option<Aggregate>, Vec<Diagnostic>> {
        Ok(None)
    }
}

/// What is to be compiled.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The text, in which places are counted in bytes.
    pub text: &'a str,
    /// The definition to call; else the last of the text. One that the text does not have is an error, but where
    /// `entry` is SQL's name of the function (`sql`): then the last is meant, too.
    pub entry: Option<&'a str>,
    /// The arguments, as far as the caller knows them.
    pub args: Args<'a>,
    /// The result's type where it is declared (SQL's RETURNS): checked, may choose how the result is given.
    pub returns: Option<&'a DataType>,
    /// The functions that the text may call beside its own.
    pub library: &'a Library,
    /// What else the caller asks for.
    pub options: &'a Options,
}

impl<'a> Request<'a> {
    /// Of a text alone: its last definition, with the parameters that it declares.
    pub fn new(text: &'a str, library: &'a Library, options: &'a Options) -> Request<'a> {
        Request { text, entry: None, args: Args::Declared, returns: None, library, options }
    }
}

/// What a caller may ask for beside the text.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// The function is made by CREATE FUNCTION: `entry` need not be in the text, and names of arguments may differ in
    /// case.
    pub sql: bool,
    /// Names whose gradients are asked for.
    pub wrt: Vec<String>,
    /// The compute domain, where the caller gives one.
    pub domain: Option<[u64; 3]>,
    /// What tensors hold that nothing says the element type of.
    pub element: ScalarKind,
    /// What the text may cost.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Options {
        Options { sql: false, wrt: Vec::new(), domain: None, element: ScalarKind::F32, limits: Limits::default() }
    }
}

impl Options {
    /// What a language without gradients says to a caller that asks for some.
    pub fn without_gradients(&self, language: &str) -> Result<(), Vec<Diagnostic>> {
        match self.wrt.is_empty() {
            true => Ok(()),
            false => Err(self.not_in(language, "wrt", "gradients")),
        }
    }

    /// What a language without stencils says to a caller that gives a compute domain.
    pub fn without_domain(&self, language: &str) -> Result<(), Vec<Diagnostic>> {
        match self.domain {
            None => Ok(()),
            Some(_) => Err(self.not_in(language, "domain", "compute domain")),
        }
    }

    fn not_in(&self, language: &str, option: &str, what: &str) -> Vec<Diagnostic> {
        vec![Diagnostic::ty(Span::new(0, 0), format!("`{option}` is given, but {language} has no {what}"))]
    }
}

/// What one text may cost. Each is a type or parse error with a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of a text.
    pub text: usize,
    /// Nested brackets, statements, definitions.
    pub nesting: usize,
    /// Instances of functions and unrolled copies of bodies.
    pub instances: usize,
    /// Nodes of the program once everything is inlined.
    pub nodes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { text: 10_000_000, nesting: 1_000, instances: 10_000, nodes: 1_000_000 }
    }
}

impl Limits {
    /// The error of a text that is too long, before it is looked at.
    pub fn check_text(&self, text: &str) -> Result<(), Diagnostic> {
        match text.len() > self.text {
            true => {
                let message = format!("the text has {} bytes, at most {} are read", text.len(), self.text);
                Err(Diagnostic::parse(Span::new(0, 0), message))
            }
            false => Ok(()),
        }
    }

    /// The error of an expression that has become too large by inlining.
    pub fn check_nodes(&self, body: &Expr, entry: Span) -> Result<(), Diagnostic> {
        let nodes = body.size();
        match nodes > self.nodes {
            true => Err(Diagnostic::ty(
                entry,
                format!("the function has {nodes} nodes, at most {} are compiled", self.nodes),
            )
            .with_hint("calls are inlined: each call of a function is a copy of it")),
            false => Ok(()),
        }
    }
}
