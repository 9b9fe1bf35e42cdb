//! What gives values one after the other: generators and the like. They are not run where they stand but where they are
//! consumed.

use std::rc::Rc;

use weld_core::diag::Span;
use weld_core::ir::Expr;
use weld_pysyntax as py;

use crate::module::Def;
use crate::store::{CellId, FrameId};
use crate::value::Value;

#[derive(Debug)]
pub(crate) struct Stream<'a> {
    pub(crate) source: Source<'a>,
    /// Its cell: of an iterator the position; else whether it has been consumed, or the list that it became with the
    /// position there.
    pub(crate) state: CellId,
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) enum Source<'a> {
    /// `range(start, stop, step)`, as often as one likes: the first number, the step, how many there are.
    Range {
        start: Expr,
        step: Expr,
        count: Expr,
    },
    /// `iter(..)` of a list or range.
    Iter(Value<'a>),
    Map(Value<'a>, Vec<Value<'a>>),
    Filter(Value<'a>, Value<'a>),
    Zip(Vec<Value<'a>>),
    Enumerate(Value<'a>, Value<'a>),
    /// A call of a generator: its frame holds the arguments.
    Call(Rc<Def<'a>>, FrameId),
    /// `(element for ..)`, in its frame; the first iterable is evaluated where the generator stands.
    Comprehension {
        element: &'a py::Expr,
        clauses: &'a [py::Clause],
        first: Value<'a>,
        frame: FrameId,
    },
}

impl<'a> Stream<'a> {
    /// The values that it takes its own from.
    pub(crate) fn parts(&self) -> &[Value<'a>] {
        match &self.source {
            Source::Iter(of) | Source::Filter(_, of) | Source::Enumerate(of, _) => std::slice::from_ref(of),
            Source::Map(_, of) | Source::Zip(of) => of,
            Source::Comprehension { first, .. } => std::slice::from_ref(first),
            Source::Range { .. } | Source::Call(..) => &[],
        }
    }
}
