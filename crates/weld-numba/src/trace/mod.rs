//! From the tree to Weld: the program is run on values that stand for those of the run.
//!
//! Each operation of the run becomes a binding. Calls are inlined, generators run where they are consumed, functions
//! are values of the compiler. Both sides of a branch are compiled and what they changed is merged ([`branch`]); a
//! loop's body is compiled until the types of what it changes settle ([`loops`]). A jump (`return`, `break`, a caught
//! exception) sets the cell [`EXIT`] to its label; what follows runs if it is zero.

mod aggregate;
mod assign;
mod branch;
mod builtin;
mod call;
mod convert;
mod drive;
mod entry;
mod expr;
mod index;
mod join_values;
mod list;
mod loops;
mod math;
mod number;
mod object;
mod pattern;
mod pull;
mod raise;
mod rules;
mod sequence;
mod stmt;
mod text;

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use weld_core::diag::{Diagnostic, Span};
use weld_core::ir::{Expr, Names, build};
use weld_frontend::{Flow, Library, Limits, Sources};
use weld_pysyntax::Stmt;

use crate::module::{Def, Module};
use crate::names::{Known, Uses};
use crate::store::{CellId, FrameId, Store};
use crate::types::Ty;
use crate::value::{Raised, Value};

pub(crate) use aggregate::Maker;
pub(crate) use entry::{Entry, function};
pub(crate) use pattern::is_builtin_trait;
pub(crate) use raise::is_exception;

/// The cell of the jump that is under way.
const EXIT: CellId = 0;

/// Where a jump goes: a loop, a call, a handler. Zero is none.
type Label = i64;

/// Calls nest up to this depth; more are taken for a recursion.
const CALLS_MAX: usize = 200;

/// Runs the program on symbolic values.
pub(crate) struct Tracer<'a> {
    module: &'a Module<'a>,
    library: &'a Library,
    limits: Limits,
    known: Known<'a>,
    flow: Flow,
    store: Store<'a>,
    frames: Vec<Frame<'a>>,
    sources: Sources,
    place: Place<'a>,
    spent: Spent,
    rows: Rows,
    /// The lists whose elements were looked at, for loops that may only append.
    reads: BTreeSet<CellId>,
    /// The lists that something was appended to.
    appends: BTreeSet<CellId>,
    /// What each handler may catch, by the cell of its exception's number.
    raised: HashMap<CellId, Vec<Raised>>,
    /// The functions that Weld texts stand for, by the address of the `def`.
    generated: HashMap<*const weld_pysyntax::Function, Arc<weld_frontend::Function>>,
    /// What a rule of the program said when it last refused a conversion.
    refusal: Option<String>,
}

/// What is known of the lists that are elements of lists.
#[derive(Default)]
struct Rows {
    /// One may be an element twice, or of two lists: it cannot be changed where it lies.
    are_shared: bool,
    /// Where one was changed in a loop that is being compiled.
    changed_in_loop: Option<Span>,
    /// Elements change places, which shares none.
    are_swapped: bool,
}

/// Where the tracer is.
#[derive(Default)]
struct Place<'a> {
    frame: FrameId,
    /// Innermost last.
    handlers: Vec<Vec<Handler>>,
    /// The jumps that may be under way since the statement began.
    pending: Vec<Label>,
    /// For each loop around, the cells that are its body's own: from this one on.
    loops: Vec<CellId>,
    /// The exceptions that are being handled, innermost last.
    caught: Vec<Value<'a>>,
    /// What is being iterated over, or waits to be assigned.
    driven: Vec<Value<'a>>,
    /// The conversions of the program that are being made.
    converting: Vec<*const weld_pysyntax::Function>,
    /// A typing rule is run: what it raises is an error of types.
    is_rule: bool,
}

/// An `except` clause.
#[derive(Clone)]
struct Handler {
    /// None: every exception.
    class: Option<Arc<str>>,
    label: Label,
    /// Where what it catches is kept, if it says it again: the cell of the exception's number.
    cause: Option<CellId>,
}

/// What the program has cost so far.
#[derive(Default)]
struct Spent {
    labels: Label,
    /// Expressions that were compiled, also in vain.
    work: usize,
    calls: usize,
}

/// A function that is being run.
struct Frame<'a> {
    /// The frame that the function stands in.
    parent: Option<FrameId>,
    /// The frame that calls it.
    caller: Option<FrameId>,
    def: Option<Rc<Def<'a>>>,
    /// The types of the arguments.
    key: String,
    /// The cell of what it returns.
    result: CellId,
    label: Label,
    /// Of a generator: what takes the values.
    sink: Option<Sink<'a>>,
    /// The lists that are arguments: they may not be changed.
    arguments: Vec<CellId>,
    cursors: Vec<Cursor<'a>>,
    /// The types of arguments that each function which is an argument was called with: it has one type.
    calls: HashMap<Arc<str>, Vec<Ty>>,
    /// Whether a function inside may outlive it.
    is_captured: bool,
}

/// Takes the values of a stream.
type Sink<'a> = Rc<dyn Fn(&mut Tracer<'a>, Value<'a>) -> Res<Completion> + 'a>;

/// A block of statements that is being run: what follows in it reads.
struct Cursor<'a> {
    /// The last statement that reads each variable before it assigns it.
    last: Rc<HashMap<&'a str, usize>>,
    at: usize,
    /// What reads variables besides: the loop that the block is the body of, the handlers around it.
    also: Option<Rc<Uses<'a>>>,
}

/// How statements may end.
#[derive(Clone, Default, PartialEq, Debug)]
struct Completion {
    /// What follows may run.
    normal: bool,
    /// The jumps that may be under way.
    exits: Vec<Label>,
}

impl Completion {
    fn normal() -> Completion {
        Completion { normal: true, exits: Vec::new() }
    }

    fn exit(label: Label) -> Completion {
        Completion { normal: false, exits: vec![label] }
    }

    /// The run ends here.
    fn diverges(&self) -> bool {
        !self.normal && self.exits.is_empty()
    }

    fn add(&mut self, labels: &[Label]) {
        for label in labels {
            if !self.exits.contains(label) {
                self.exits.push(*label);
            }
        }
    }

    fn or(mut self, other: &Completion) -> Completion {
        self.normal |= other.normal;
        self.add(&other.exits);
        self
    }
}

/// Why the tracer does not go on where it is.
enum Stop {
    Error(Box<Diagnostic>),
    /// The statement ends so: an expression in it jumps in any case.
    Exit(Completion),
    /// A typing rule says no, with this text.
    Refused(String),
    /// The stream with this state has to be made a list before the loop that pulls it.
    Materialise(CellId),
}

type Res<T> = Result<T, Stop>;

impl From<Diagnostic> for Stop {
    fn from(error: Diagnostic) -> Stop {
        Stop::Error(Box::new(error))
    }
}

/// An error of types.
fn error<T>(span: Span, message: impl Into<String>) -> Res<T> {
    Err(Diagnostic::ty(span, message).into())
}

impl<'a> Tracer<'a> {
    fn new(module: &'a Module<'a>, library: &'a Library, limits: Limits, sources: Sources) -> Tracer<'a> {
        let mut store = Store::default();
        store.cell("exit", None, Value::int(0));
        let frame = store.frame();
        let result = store.cell("result", None, Value::Nothing);
        let top = Frame {
            parent: None,
            caller: None,
            def: None,
            key: String::new(),
            result,
            label: -1,
            sink: None,
            arguments: Vec::new(),
            cursors: Vec::new(),
            calls: Default::default(),
            is_captured: true,
        };
        Tracer {
            module,
            library,
            limits,
            known: Known::default(),
            flow: Flow::new(Names::default()),
            store,
            frames: vec![top],
            sources,
            place: Place { frame, ..Place::default() },
            spent: Spent::default(),
            reads: BTreeSet::new(),
            rows: Rows::default(),
            raised: HashMap::new(),
            appends: BTreeSet::new(),
            generated: HashMap::new(),
            refusal: None,
        }
    }

    fn bind(&mut self, name: &str, value: Expr) -> Expr {
        self.flow.bind(name, value)
    }

    /// Evaluates the value here and now, as a value of the type.
    fn data(&mut self, name: &str, value: Expr, ty: Ty) -> Value<'a> {
        Value::Data(self.flow.bind(name, value), ty)
    }

    /// A scalar that is evaluated here and now.
    fn scalar(&mut self, value: Expr) -> Value<'a> {
        Value::scalar(self.flow.bind("x", value))
    }

    fn label(&mut self) -> Label {
        self.spent.labels += 1;
        self.spent.labels
    }

    /// Counts an expression, and is the error of a program that is too large.
    fn spend(&mut self, span: Span) -> Res<()> {
        self.spent.work += 1;
        match self.spent.work > self.limits.nodes {
            true => Err(Diagnostic::ty(
                span,
                format!("the program is too large: more than {} operations", self.limits.nodes),
            )
            .with_hint("calls are inlined: each call of a function is a copy of it")
            .into()),
            false => Ok(()),
        }
    }

    fn frame(&self) -> &Frame<'a> {
        &self.frames[self.place.frame]
    }

    fn frame_mut(&mut self) -> &mut Frame<'a> {
        &mut self.frames[self.place.frame]
    }

    /// Runs `f` in a frame.
    fn within<T>(&mut self, frame: FrameId, f: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.place.frame, frame);
        let result = f(self);
        self.place.frame = outer;
        result
    }

    /// The type of a value of the run; what is no such value is an error.
    fn type_of(&mut self, value: &Value<'a>, span: Span) -> Res<Ty> {
        match self.try_type(value) {
            Some(ty) => Ok(ty),
            None => error(span, format!("{} is no value of the run", self.described(value))),
        }
    }

    fn try_type(&self, value: &Value<'a>) -> Option<Ty> {
        Some(match value {
            Value::Const(value) => value.ty(),
            Value::Data(_, ty) => ty.clone(),
            Value::None => Ty::None,
            Value::Tuple(parts) => Ty::Tuple(parts.iter().map(|part| self.try_type(part)).collect::<Option<_>>()?),
            Value::List(cell) => match self.store.get(*cell) {
                Value::Elements(_, element) | Value::Buffer(.., element) | Value::Builder(_, element) => {
                    Ty::list(element.clone())
                }
                _ => return None,
            },
            Value::Object(_, ty) => Ty::Object(ty.clone()),
            Value::Maybe(_, inner) => return self.try_type(inner),
            _ => return None,
        })
    }

    /// What a value is, for messages.
    fn described(&self, value: &Value<'a>) -> String {
        if let Some(ty) = self.try_type(value) {
            return ty.to_string();
        }
        match value {
            Value::Stream(_) => "a stream".into(),
            Value::Callable(_) => "a function".into(),
            Value::Type(ty) => format!("the type {ty}"),
            Value::Trait(of) => format!("the trait {}", of.name),
            Value::Exception(class, _) => format!("the exception {class}"),
            Value::Caught(..) => "an exception".into(),
            Value::Tuple(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| self.described(part)).collect();
                format!("({})", parts.join(", "))
            }
            Value::Maybe(_, inner) => self.described(inner),
            _ => "no value".into(),
        }
    }

    // What is live.

    /// Whether a variable of the current frame is read after the statement that is being run.
    fn is_live(&self, name: &str) -> bool {
        let frame = self.frame();
        let is_captured = frame.def.as_ref().is_some_and(|def| def.captured.contains(name));
        let reads = |cursor: &Cursor<'a>| {
            cursor.last.get(name).is_some_and(|last| *last > cursor.at)
                || cursor.also.as_ref().is_some_and(|also| also.exposed.contains(name))
        };
        is_captured || frame.cursors.iter().any(reads)
    }

    /// Whether a variable may be read from the statement on that is being run in its frame.
    fn may_be_read(&self, frame: FrameId, name: &str) -> bool {
        let frame = &self.frames[frame];
        // What is no function's is read by expressions, a generator reads when it is consumed.
        let Some(def) = frame.def.as_ref().filter(|def| !def.is_generator) else { return true };
        let reads = |cursor: &Cursor<'a>| {
            cursor.last.get(name).is_some_and(|last| *last >= cursor.at)
                || cursor.also.as_ref().is_some_and(|also| also.exposed.contains(name))
        };
        def.captured.contains(name) || frame.cursors.iter().any(reads)
    }

    /// Whether a variable may be read after the assignment that is being run, whose values are known.
    fn is_read_later(&self, frame: FrameId, name: &str) -> bool {
        match frame == self.place.frame && self.frames[frame].def.is_some() {
            true => self.is_live(name),
            false => self.may_be_read(frame, name),
        }
    }

    /// Before statements whose variables are merged afterwards: those that live on have cells from here, others are new
    /// inside.
    fn prepare(&mut self, uses: &Uses<'a>) {
        let frame = self.place.frame;
        for name in &uses.assigned {
            let is_bound = self.store.variable(frame, name).is_some();
            if self.is_live(name) {
                if !is_bound {
                    self.declare(frame, name, Value::Unbound);
                }
            } else if is_bound && !uses.exposed.contains(name) {
                self.store.bind(frame, &(*name).into(), None);
            }
        }
    }

    /// Makes a variable of a frame.
    fn declare(&mut self, frame: FrameId, name: &str, value: Value<'a>) -> CellId {
        let cell = self.store.cell(name, Some(frame), value);
        self.store.bind(frame, &name.into(), Some(cell));
        cell
    }

    /// Begins a block of statements of the current frame.
    fn begin_block(&mut self, stmts: &'a [Stmt], also: Option<Rc<Uses<'a>>>) {
        let mut last = HashMap::new();
        for (at, stmt) in stmts.iter().enumerate() {
            for name in &self.known.stmt(stmt).exposed {
                last.insert(*name, at);
            }
        }
        self.frame_mut().cursors.push(Cursor { last: Rc::new(last), at: 0, also });
    }

    /// The jump that is under way, as an expression.
    fn exit_code(&self) -> Expr {
        self.store.get(EXIT).data().unwrap_or_else(|| build::i64(0))
    }
}

/// Runs a step of the recursion over a program with enough stack for it.
fn deep<T>(f: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(1 << 20, 8 << 20, f)
}
