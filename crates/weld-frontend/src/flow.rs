//! Statements as expressions: blocks of bindings, branches and counted loops that carry the values they assign.
//!
//! ```
//! use weld_core::ir::{Names, build};
//! use weld_frontend::Flow;
//! // var s = 0; for i in 0...n { s = s + i; } return s;
//! let mut flow = Flow::new(Names::default());
//! let n = build::param(flow.names(), "n", weld_core::ty::Type::I64);
//! let [i, s] = &flow.begin_count(build::i64(0), n, build::i64(1), vec![build::i64(0)])[..] else { unreachable!() };
//! let next = build::add(s.clone(), i.clone());
//! let sum = flow.end_count(vec![next]);
//! let body = flow.finish(sum[0].clone());
//! assert_eq!(body.ty, weld_core::ty::Type::I64);
//! ```
//!
//! A front end keeps what each variable holds: an expression that [`Flow::bind`] gave, which may be used any number of
//! times. An assignment makes the variable hold another one. A branch gives the values of the variables that are
//! assigned in it, a loop carries those that are assigned in its body and were there before.

use weld_core::diag::Span;
use weld_core::ir::{Binding, Expr, ExprKind, Func, Literal, Names, Sym, build};
use weld_core::ty::Type;

/// A body that is being made.
#[derive(Debug)]
pub struct Flow {
    names: Names,
    /// The bindings of each open block, innermost last.
    blocks: Vec<Vec<Binding>>,
    loops: Vec<Loop>,
}

/// What was bound in a block that is not ended yet.
#[derive(Debug, Default)]
pub struct Block(Vec<Binding>);

impl Block {
    /// Whether nothing was bound.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A loop whose body is being made.
#[derive(Debug)]
struct Loop {
    state: Sym,
    start: Expr,
    /// What the counter stays below.
    end: Expr,
    /// What the loop carries, before it.
    init: Vec<Expr>,
}

impl Flow {
    /// An empty body, whose variables get names beside these: those that the program has already.
    pub fn new(names: Names) -> Flow {
        Flow { names, blocks: vec![Vec::new()], loops: Vec::new() }
    }

    /// Where new variables come from.
    pub fn names(&mut self) -> &mut Names {
        &mut self.names
    }

    /// The names of all variables, once the body is finished.
    pub fn into_names(self) -> Names {
        self.names
    }

    // Blocks.

    /// Evaluates the value here and now. The result stands for it and may be repeated.
    pub fn bind(&mut self, name: &str, value: Expr) -> Expr {
        if is_trivial(&value) {
            return value;
        }
        self.keep(name, value)
    }

    /// [`bind`](Flow::bind) of what is evaluated for its errors, such as an assertion.
    pub fn keep(&mut self, name: &str, value: Expr) -> Expr {
        let sym = self.names.fresh(name);
        let (ty, span) = (value.ty.clone(), value.span);
        if let Some(block) = self.blocks.last_mut() {
            block.push(Binding { sym, value });
        }
        build::var(sym, ty).at(span)
    }

    /// Begins a block: a branch, or the body of a function literal.
    pub fn open(&mut self) {
        self.blocks.push(Vec::new());
    }

    /// Ends the block; its value.
    pub fn close(&mut self, value: Expr) -> Expr {
        build::let_in(self.blocks.pop().unwrap_or_default(), value)
    }

    /// Ends the outermost block. What was not closed is closed.
    pub fn finish(&mut self, value: Expr) -> Expr {
        let mut value = value;
        while !self.blocks.is_empty() {
            value = self.close(value);
        }
        value
    }

    /// Takes what was bound in the block that was opened last, and ends the block: [`resume`](Flow::resume) goes on
    /// with it. What a branch gives may depend on the other branch.
    pub fn suspend(&mut self) -> Block {
        Block(self.blocks.pop().unwrap_or_default())
    }

    /// Opens a block with what was bound in it before.
    pub fn resume(&mut self, block: Block) {
        self.blocks.push(block.0);
    }

    /// Adds what was bound in a block that was suspended to the one that is open.
    pub fn append(&mut self, block: Block) {
        match self.blocks.last_mut() {
            Some(open) => open.extend(block.0),
            None => self.blocks.push(block.0),
        }
    }

    /// How many blocks are open.
    pub fn depth(&self) -> usize {
        self.blocks.len()
    }

    /// Drops all blocks but the `depth` outermost ones.
    pub fn discard(&mut self, depth: usize) {
        self.blocks.truncate(depth);
    }

    // Branches.

    /// Ends the block of a branch, which gives these values.
    pub fn close_branch(&mut self, values: Vec<Expr>) -> Expr {
        self.close(pack(values))
    }

    /// The values of one of two branches that [`close_branch`](Flow::close_branch) made, of `count` values each.
    pub fn branch(&mut self, cond: Expr, on_true: Expr, on_false: Expr, count: usize, span: Span) -> Vec<Expr> {
        let chosen = self.keep("chosen", build::if_(cond, on_true, on_false).at(span));
        unpack(&chosen, count)
    }

    // Loops.

    /// Begins a loop over `start`, `start + step`, .. below `end` (`i64`). `step` is positive, and `end - start + step`
    /// does not overflow. Gives the counter followed by what the loop carries, as it is at the beginning of a step.
    pub fn begin_count(&mut self, start: Expr, end: Expr, step: Expr, carried: Vec<Expr>) -> Vec<Expr> {
        let (start, end, step) = (self.bind("start", start), self.bind("end", end), self.bind("step", step));
        // A counter that grows by one is what the optimizer and LLVM know best.
        let by_one = literal(&step) == Some(1);
        let (first, below) = match by_one {
            true => (start.clone(), end),
            false => {
                let distance = build::add(build::sub(end, start.clone()), build::sub(step.clone(), build::i64(1)));
                (build::i64(0), self.bind("steps", build::div(distance, step.clone())))
            }
        };
        let fields = std::iter::once(first.clone()).chain(carried.iter().cloned());
        let state = build::param(&mut self.names, "state", Type::structure(fields.map(|field| field.ty)));
        let ExprKind::Var(sym) = state.kind else { return Vec::new() };
        self.loops.push(Loop { state: sym, start: first, end: below, init: carried });
        self.open();
        let mut values = unpack_struct(&state);
        if !by_one {
            let counter = build::add(start, build::mul(values[0].clone(), step));
            values[0] = self.bind("counter", counter);
        }
        values
    }

    /// Ends the loop with what it carries into the next step. Gives what it carried out of the last one.
    pub fn end_count(&mut self, next: Vec<Expr>) -> Vec<Expr> {
        let Some(Loop { state, start, end, init }) = self.loops.pop() else { return Vec::new() };
        let count = init.len();
        let first = build::strct(std::iter::once(start.clone()).chain(init));
        let ty = first.ty.clone();
        let counter = build::add(build::field(build::var(state, ty.clone()), 0), build::i64(1));
        let counter = self.bind("next", counter);
        let go_on = build::lt(counter.clone(), end.clone());
        let next = build::strct(std::iter::once(counter).chain(next));
        let body = self.close(build::strct([next, go_on]));
        let step = Func { params: vec![(state, ty.clone())], body: Box::new(body) };
        let runs = literal(&start).zip(literal(&end)).map(|(start, end)| start < end);
        let kind = ExprKind::Iterate { init: Box::new(first.clone()), step };
        let run = || build::node(kind, ty);
        let last = match runs {
            Some(true) => run(),
            Some(false) => first,
            None => build::if_(build::lt(start, end), run(), first),
        };
        let last = self.keep("last", last);
        unpack_struct(&last).into_iter().skip(1).take(count).collect()
    }
}

/// Several values as one.
fn pack(mut values: Vec<Expr>) -> Expr {
    match values.len() {
        0 => build::bool(true),
        1 => values.remove(0),
        _ => build::strct(values),
    }
}

fn unpack(packed: &Expr, count: usize) -> Vec<Expr> {
    match count {
        0 => Vec::new(),
        1 => vec![packed.clone()],
        _ => unpack_struct(packed),
    }
}

fn unpack_struct(packed: &Expr) -> Vec<Expr> {
    let count = packed.ty.fields().map_or(0, <[Type]>::len);
    (0..count).map(|index| build::field(packed.clone(), index)).collect()
}

/// The value of an integer literal.
fn literal(e: &Expr) -> Option<i64> {
    match e.kind {
        ExprKind::Literal(Literal::I64(value)) => Some(value),
        _ => None,
    }
}

/// A literal, a variable or a field (of a field ..) of one: free to repeat.
fn is_trivial(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Literal(_) | ExprKind::Var(_) => true,
        ExprKind::Field(of, _) => is_trivial(of),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use weld_core::interp::{self, Value};
    use weld_core::ir::{Param, Program, verify};

    use super::*;

    /// Runs `body(flow, x)` for `x`.
    fn run(x: i64, body: impl FnOnce(&mut Flow, Expr) -> Expr) -> Value {
        let mut flow = Flow::new(Names::default());
        let param = build::param(flow.names(), "x", Type::I64);
        let ExprKind::Var(sym) = param.kind else { unreachable!() };
        let result = body(&mut flow, param);
        let body = flow.finish(result);
        let params = vec![Param { sym, ty: Type::I64, stream: false, known: None }];
        let program = Program { params, body, names: flow.into_names() };
        assert!(verify(&program).is_ok(), "{program}");
        interp::run(&program, &[Value::i64(x)], &Default::default()).unwrap()
    }

    #[test]
    fn loops_count_and_carry() {
        let sums = |end, step| {
            run(end, move |flow, x| {
                let carried = vec![build::i64(0), build::i64(0)];
                let values = flow.begin_count(build::i64(2), x, build::i64(step), carried);
                let (i, sum, count) = (values[0].clone(), values[1].clone(), values[2].clone());
                let next = vec![build::add(sum, i), build::add(count, build::i64(1))];
                build::strct(flow.end_count(next))
            })
        };
        let pair = |a, b| Value::structure([Value::i64(a), Value::i64(b)]);
        assert_eq!(sums(5, 1), pair(9, 3));
        assert_eq!(sums(8, 3), pair(7, 2));
        assert_eq!(sums(9, 3), pair(15, 3));
        assert_eq!(sums(2, 3), pair(0, 0));
        assert_eq!(sums(-7, 1), pair(0, 0));
    }

    #[test]
    fn branches_give_what_they_assign() {
        let sign = |x| {
            run(x, |flow, x| {
                flow.open();
                let negated = flow.bind("negated", build::neg(x.clone()));
                let on_true = flow.close_branch(vec![negated, build::i64(-1)]);
                flow.open();
                let on_false = flow.close_branch(vec![x.clone(), build::i64(1)]);
                let cond = build::lt(x, build::i64(0));
                let values = flow.branch(cond, on_true, on_false, 2, Span::NONE);
                build::mul(values[0].clone(), values[1].clone())
            })
        };
        assert_eq!((sign(-3), sign(4)), (Value::i64(-3), Value::i64(4)));
    }
}
