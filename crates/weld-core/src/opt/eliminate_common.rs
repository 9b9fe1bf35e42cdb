//! Evaluates equal expressions once.
//!
//! ```weld
//! |x: i64, y: i64| {(x * y + 1L) * 2L, if(x > 0L, x * y + 1L, 0L)}
//! =>
//! |x: i64, y: i64| let c = x * y + 1L; {c * 2L, if(x > 0L, c, 0L)}
//! ```
//!
//! Law: two expressions without bindings and builders that are the same operators over the same variables have the same
//! value. The first that is evaluated whenever its block is gets a name there; those after it, branches and functions
//! included, become that name. Nothing moves out of a branch or a function, so nothing is evaluated more often.
//!
//! Values are numbered bottom-up (value numbering): linear in the size of the program. What is as cheap as the copy,
//! a field or a constant or one simple operation, is left alone. Names that turn out to be used once are inlined again.

use std::collections::HashMap;
use std::sync::Arc;

use super::Config;
use super::facts::{node_cost, strict_children};
use crate::ir::{Binding, Expr, ExprKind, Literal, Names, Program, Sym, build, deep};
use crate::op::{BinaryOp, Intrinsic, UnaryOp};
use crate::ty::Type;

/// What costs less than this is evaluated again.
const COST_MIN: u32 = 2;

pub(super) fn run(program: &mut Program, _: &Config) {
    let mut numbers = Numbers::default();
    numbers.count(&program.body);
    let mut eliminator = Eliminator {
        numbers,
        names: &mut program.names,
        available: HashMap::new(),
        log: Vec::new(),
        pending: Vec::new(),
    };
    eliminator.region(&mut program.body);
}

#[derive(PartialEq, Eq, Hash)]
struct Key {
    head: Head,
    ty: Type,
    parts: Vec<u32>,
}

#[derive(PartialEq, Eq, Hash)]
enum Head {
    Literal(Literal),
    Bytes(Arc<[u8]>),
    Var(Sym),
    Unary(UnaryOp),
    Binary(BinaryOp),
    Intrinsic(Intrinsic),
    Field(u32),
    Lookup(bool),
    Cast,
    If,
    Select,
    Struct,
    Len,
    OptLookup,
    KeyExists,
    Slice,
}

fn head(e: &Expr) -> Option<Head> {
    if e.ty.is_builder() {
        return None;
    }
    Some(match &e.kind {
        ExprKind::Literal(value) => Head::Literal(*value),
        ExprKind::Bytes(bytes) => Head::Bytes(bytes.clone()),
        ExprKind::Var(sym) => Head::Var(*sym),
        ExprKind::Unary(op, _) => Head::Unary(*op),
        ExprKind::Binary(op, ..) => Head::Binary(*op),
        ExprKind::Intrinsic(intrinsic, _) => Head::Intrinsic(*intrinsic),
        ExprKind::Field(_, index) => Head::Field(*index),
        ExprKind::Lookup { checked, .. } => Head::Lookup(*checked),
        ExprKind::Cast(_) => Head::Cast,
        ExprKind::If { .. } => Head::If,
        ExprKind::Select { .. } => Head::Select,
        ExprKind::Struct(_) => Head::Struct,
        ExprKind::Len(_) => Head::Len,
        ExprKind::OptLookup { .. } => Head::OptLookup,
        ExprKind::KeyExists { .. } => Head::KeyExists,
        ExprKind::Slice { .. } => Head::Slice,
        _ => return None,
    })
}

/// Numbers of values: equal numbers, equal values.
#[derive(Default)]
struct Numbers {
    table: HashMap<Key, u32>,
    /// By number: how often it occurs, and what it costs.
    counts: Vec<u32>,
    costs: Vec<u32>,
}

impl Numbers {
    /// Numbers all expressions and counts them.
    fn count(&mut self, e: &Expr) -> Option<u32> {
        deep(|| {
            let mut parts = Vec::new();
            let mut known = true;
            e.each_child(&mut |child| match self.count(child) {
                Some(number) => parts.push(number),
                None => known = false,
            });
            let number = self.number(e, if known { Some(parts) } else { None })?;
            self.counts[number as usize] += 1;
            Some(number)
        })
    }

    /// The number of an expression whose parts have these numbers.
    fn number(&mut self, e: &Expr, parts: Option<Vec<u32>>) -> Option<u32> {
        let parts = parts?;
        let head = head(e)?;
        let cost = parts.iter().fold(node_cost(e), |sum, part| sum.saturating_add(self.costs[*part as usize]));
        let next = self.counts.len() as u32;
        // The types of these follow from the rest; those of large structs take long to compare.
        let ty = match head {
            Head::Var(_) | Head::Field(_) | Head::Struct => Type::BOOL,
            _ => e.ty.clone(),
        };
        let number = *self.table.entry(Key { head, ty, parts }).or_insert(next);
        if number == next {
            self.counts.push(0);
            self.costs.push(cost);
        }
        Some(number)
    }
}

struct Eliminator<'a> {
    numbers: Numbers,
    names: &'a mut Names,
    /// The variables that hold values where the walk stands.
    available: HashMap<u32, Sym>,
    /// Numbers in the order in which they became available, to forget them with their block.
    log: Vec<u32>,
    /// New bindings that go before the statement being walked.
    pending: Vec<Binding>,
}

impl Eliminator<'_> {
    /// A block, a branch or the body of a function: what is named inside is known inside only.
    /// Returns the number that the expression had.
    fn region(&mut self, e: &mut Expr) -> Option<u32> {
        let outer = std::mem::take(&mut self.pending);
        let start = self.log.len();
        let mut whole = None;
        if let ExprKind::Let { bindings, body } = &mut e.kind {
            let mut kept = Vec::new();
            for mut binding in std::mem::take(bindings) {
                let number = self.parts(&mut binding.value);
                kept.append(&mut self.pending);
                if let Some(number) = number {
                    self.name_or_replace(number, &mut binding);
                }
                kept.push(binding);
            }
            self.visit(body);
            kept.append(&mut self.pending);
            let body = body.take();
            *e = build::let_in(kept, body);
        } else {
            whole = self.visit(e);
            let inner = e.take();
            *e = build::let_in(std::mem::take(&mut self.pending), inner);
        }
        for number in self.log.drain(start..) {
            self.available.remove(&number);
        }
        self.pending = outer;
        whole
    }

    /// The value of a binding is known by its variable from now on, or was known before.
    fn name_or_replace(&mut self, number: u32, binding: &mut Binding) {
        if self.numbers.costs[number as usize] < COST_MIN {
            return;
        }
        match self.available.get(&number) {
            Some(known) => binding.value = build::var(*known, binding.value.ty.clone()),
            None => {
                self.available.insert(number, binding.sym);
                self.log.push(number);
            }
        }
    }

    fn visit(&mut self, e: &mut Expr) -> Option<u32> {
        deep(|| {
            let number = self.parts(e)?;
            let costs = self.numbers.costs[number as usize];
            if costs < COST_MIN || self.numbers.counts[number as usize] < 2 {
                return Some(number);
            }
            let ty = e.ty.clone();
            let sym = match self.available.get(&number) {
                Some(sym) => *sym,
                None => {
                    let sym = self.names.fresh("c");
                    self.pending.push(Binding { sym, value: e.take() });
                    self.available.insert(number, sym);
                    self.log.push(number);
                    sym
                }
            };
            *e = build::var(sym, ty);
            Some(number)
        })
    }

    /// Walks the parts of an expression and returns its number from before they were replaced.
    fn parts(&mut self, e: &mut Expr) -> Option<u32> {
        if matches!(e.kind, ExprKind::Let { .. }) {
            return self.region(e);
        }
        let strict = strict_children(e);
        let mut parts = Vec::new();
        let mut known = true;
        for (index, child) in e.children_mut().into_iter().enumerate() {
            match if index < strict { self.visit(child) } else { self.region(child) } {
                Some(number) => parts.push(number),
                None => known = false,
            }
        }
        self.numbers.number(e, known.then_some(parts))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::super::inline_lets;

    fn check(before: &str, after: Expect) {
        super::super::testing::check_after(&[super::run, inline_lets::run], before, &after);
    }

    #[test]
    fn twice_in_one_block() {
        check(
            "|x: i64, y: i64| {(x * y + 1L) * 2L, if(x > 0L, x * y + 1L, 0L)}",
            expect![[r#"
            |x: i64, y: i64|
              let c = x * y + 1L;
              {c * 2L, if(x > 0L, c, 0L)}
        "#]],
        );
    }

    #[test]
    fn named_before() {
        check(
            "|x: i64, y: i64| let a = x * y + 1L; {a * a, (x * y + 1L) / a}",
            expect![[r#"
            |x: i64, y: i64|
              let a = x * y + 1L;
              {a * a, a / a}
        "#]],
        );
    }

    #[test]
    fn nothing_leaves_a_branch() {
        check(
            "|x: i64, y: i64| {if(x > 0L, y / x + 1L, 0L), if(x > 1L, y / x + 1L, 0L)}",
            expect![[r#"
            |x: i64, y: i64|
              {if(x > 0L, y / x + 1L, 0L), if(x > 1L, y / x + 1L, 0L)}
        "#]],
        );
    }

    #[test]
    fn loops_see_what_is_known_outside() {
        check(
            "|v: vec[i64], x: i64| let a = x * x + 1L;
             result(for(v, merger[i64,+], |b, i, y| merge(b, (x * x + 1L) * (y * y + 2L) + (y * y + 2L)))) + a",
            expect![[r#"
                |v: vec[i64], x: i64|
                  let a = x * x + 1L;
                  result(for(v, merger[i64,+], |b, i, y| let c = y * y + 2L; merge(b, a * c + c))) + a
            "#]],
        );
    }

    #[test]
    fn every_kind_of_expression() {
        check(
            "|v: vec[i64], d: dict[i64,i64], s: vec[u8], x: i64, f: f64| {
               {month(i32(x * 2L)), 1, month(i32(x * 2L))}, {exp(f), exp(f), 0}, {optlookup(d, x), optlookup(d, x), 1},
               {keyexists(d, x), keyexists(d, x), 2}, {select(x > 0L, -x, x), select(x > 0L, -x, x), 3},
               {len(slice(v, 1L, x)), len(slice(v, 1L, x)), 4}, {if(x > 3L, f, 2.0), if(x > 3L, f, 2.0), 5},
               {starts_with(s, \"a\"), starts_with(s, \"a\"), 6}, {lookup(v, x + 1L), lookup(v, x + 1L), 7}}",
            expect![[r#"
                |v: vec[i64], d: dict[i64,i64], s: vec[u8], x: i64, f: f64|
                  let c = month(i32(x * 2L));
                  let c_2 = exp(f);
                  let c_3 = optlookup(d, x);
                  let c_4 = keyexists(d, x);
                  let c_5 = select(x > 0L, -x, x);
                  let c_6 = len(slice(v, 1L, x));
                  let c_7 = if(x > 3L, f, 2.0);
                  let c_8 = starts_with(s, b"a");
                  let c_9 = lookup(v, x + 1L);
                  {
                    {c, 1, c},
                    {c_2, c_2, 0},
                    {c_3, c_3, 1},
                    {c_4, c_4, 2},
                    {c_5, c_5, 3},
                    {c_6, c_6, 4},
                    {c_7, c_7, 5},
                    {c_8, c_8, 6},
                    {c_9, c_9, 7}
                  }
            "#]],
        );
    }

    #[test]
    fn what_differs_in_one_part_stays() {
        check(
            "|x: i64, y: i64, r: {i64,i64}| {
               (x * y + 1L) * (x * y + 2L), (x - y) * 3L, (y - x) * 3L, {i32(x * 3L + y), i16(x * 3L + y)},
               {abs(x * 5L), -(x * 5L)}, {r.$0 * 7L * x, r.$1 * 7L * x}}",
            expect![[r#"
                |x: i64, y: i64, r: {i64,i64}|
                  let c = x * 3L + y;
                  {
                    (x * y + 1L) * (x * y + 2L),
                    (x - y) * 3L,
                    (y - x) * 3L,
                    {i32(c), i16(c)},
                    {abs(x * 5L), -(x * 5L)},
                    {r.$0 * 7L * x, r.$1 * 7L * x}
                  }
            "#]],
        );
    }

    #[test]
    fn what_is_cheap_is_evaluated_again() {
        check(
            "|x: i64, y: i64| let a = x + y; {a * a, a - 1L, x + y, -x, -x}",
            expect![[r#"
            |x: i64, y: i64|
              let a = x + y;
              {a * a, a - 1L, x + y, -x, -x}
        "#]],
        );
    }

    #[test]
    fn a_block_forgets_its_names() {
        check(
            "|v: vec[i64], x: i64|
             {result(for(v, merger[i64,+], |b, i, y| let a = x * x + 3L; merge(b, a * (y + a)))),
              if(x > 0L, let a = x * x + 3L; a * a, 0L), x * x + 3L, x * x + 3L}",
            expect![[r#"
                |v: vec[i64], x: i64|
                  let c = x * x + 3L;
                  {
                    result(for(v, merger[i64,+], |b, i, y| let a = x * x + 3L; merge(b, a * (y + a)))),
                    if(x > 0L, let a_2 = x * x + 3L; a_2 * a_2, 0L),
                    c,
                    c
                  }
            "#]],
        );
    }
}
