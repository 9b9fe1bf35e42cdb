//! Inlines what is used once or costs nothing, drops what is not used, and flattens blocks.
//!
//! ```weld
//! |x: i64| let a = (let b = x * 2L; b + 1L); let unused = x * x; a - 3L
//! =>
//! |x: i64| x * 2L + 1L - 3L
//! ```
//!
//! Laws:
//! - `let x = v; E` is `E[x := v]` when `x` occurs once and is evaluated exactly once whenever `E` is, or when it
//!   occurs in a branch and `v` cannot fail (it is evaluated less often then). Never into the body of a function, which
//!   would evaluate it more often, except for variables, constants and fields of variables: these go everywhere; Where
//!   `v` reads an element of a vector and an `update` stands between, it stays: in its place, the vector may be changed
//!   where it lies;
//! - `let x = v; E` is `E` when `x` does not occur and `v` cannot fail;
//! - `f(a, let x = v; b)` is `let x = v; f(a, b)` where `b` is evaluated whenever `f` is. Symbols are bound once, so
//!   nothing is captured. So blocks remain at the top of programs, functions and branches only.
//!
//! A long chain of lets, each used once by the next, would become a deep tree: inlining stops at [`DEPTH_MAX`], but for
//! `let x = v; x`, which is `v`.

use super::Config;
use super::facts::{can_drop, has_function, is_trivial, strict_children};
use crate::ir::{Binding, Expr, ExprKind, Program, Sym, build, deep};

/// The highest tree that inlining builds.
const DEPTH_MAX: u32 = 100;

/// The use of an element is looked for in so many bindings.
const BINDINGS_TO_USE_MAX: usize = 64;

pub(super) fn run(program: &mut Program, _: &Config) {
    let mut uses = Uses { facts: vec![Facts::default(); program.names.len()], functions: 0, branches: 0 };
    uses.count(&program.body);
    let mut values = Vec::new();
    values.resize_with(program.names.len(), || None);
    let updates = contains(&program.body, &|e| matches!(e.kind, ExprKind::Update { .. }));
    let mut inliner = Inliner { facts: uses.facts, values, depths: vec![1; program.names.len()], updates };
    inliner.visit(&mut program.body);
}

/// What is known of a let-bound variable.
#[derive(Clone, Default)]
struct Facts {
    uses: u32,
    /// Some use is in the body of a function that does not hold the binding.
    in_function: bool,
    /// Some use is in a branch that may not be taken when the binding is evaluated.
    in_branch: bool,
    /// Functions and branches around the binding.
    functions: u32,
    branches: u32,
    dead: bool,
}

/// Counts uses in live code: later bindings first, so that what only dead bindings use is dead too.
struct Uses {
    facts: Vec<Facts>,
    functions: u32,
    branches: u32,
}

impl Uses {
    fn count(&mut self, e: &Expr) {
        deep(|| match &e.kind {
            ExprKind::Var(sym) => {
                let (functions, branches) = (self.functions, self.branches);
                let facts = &mut self.facts[sym.0 as usize];
                facts.uses += 1;
                facts.in_function |= functions > facts.functions;
                facts.in_branch |= branches > facts.branches;
            }
            ExprKind::Let { bindings, body } => {
                for binding in bindings {
                    let facts = &mut self.facts[binding.sym.0 as usize];
                    (facts.functions, facts.branches) = (self.functions, self.branches);
                }
                self.count(body);
                for binding in bindings.iter().rev() {
                    if self.facts[binding.sym.0 as usize].uses == 0 && can_drop(&binding.value) {
                        self.facts[binding.sym.0 as usize].dead = true;
                    } else {
                        self.count(&binding.value);
                    }
                }
            }
            _ => {
                let strict = strict_children(e);
                let function = has_function(e) as u32;
                let mut index = 0;
                e.each_child(&mut |child| {
                    let conditional = (index >= strict) as u32;
                    index += 1;
                    self.functions += conditional * function;
                    self.branches += conditional;
                    self.count(child);
                    self.functions -= conditional * function;
                    self.branches -= conditional;
                });
            }
        })
    }
}

struct Inliner {
    facts: Vec<Facts>,
    /// Values to put in the place of variables, and how high they are.
    values: Vec<Option<Expr>>,
    depths: Vec<u32>,
    /// Whether there are updates in the program.
    updates: bool,
}

impl Inliner {
    /// Rewrites the expression and returns its height.
    fn visit(&mut self, e: &mut Expr) -> u32 {
        deep(|| match &mut e.kind {
            ExprKind::Var(sym) => {
                let sym = *sym;
                self.replace(e, sym)
            }
            ExprKind::Let { bindings, body } => {
                let (bindings, mut body) = (std::mem::take(bindings), body.take());
                let mut kept = Vec::new();
                let mut depth = 0;
                let mut bindings = bindings.into_iter();
                while let Some(binding) = bindings.next() {
                    if !self.facts[binding.sym.0 as usize].dead {
                        depth = depth.max(self.bind(binding, bindings.as_slice(), &mut kept));
                    }
                }
                depth = depth.max(self.visit(&mut body));
                // `let x = v; x` is no higher than `v`.
                if let ExprKind::Var(sym) = body.kind
                    && kept.last().is_some_and(|last| last.sym == sym)
                    && let Some(last) = kept.pop()
                {
                    let annotations = std::mem::replace(&mut body, last.value).annotations;
                    if body.annotations.is_empty() {
                        body.annotations = annotations;
                    }
                }
                if body.annotations.is_empty() {
                    body.annotations = std::mem::take(&mut e.annotations);
                }
                *e = build::let_in(kept, body);
                depth + 1
            }
            _ => {
                let mut depth = 0;
                e.each_child_mut(&mut |child| depth = depth.max(self.visit(child)));
                float_lets(e);
                depth + 1
            }
        })
    }

    /// Keeps the binding, which `later` ones follow, flattened, or remembers its value for its uses. Returns the height
    /// of what is kept.
    fn bind(&mut self, mut binding: Binding, later: &[Binding], kept: &mut Vec<Binding>) -> u32 {
        let mut depth = self.visit(&mut binding.value);
        if let ExprKind::Let { bindings, body } = &mut binding.value.kind {
            kept.append(bindings);
            binding.value = body.take();
        }
        let facts = &self.facts[binding.sym.0 as usize];
        let inline = is_trivial(&binding.value)
            || facts.uses == 1
                && !facts.in_function
                && depth < DEPTH_MAX
                && (!facts.in_branch || can_drop(&binding.value))
                && !(self.updates && reads_elements(&binding.value) && is_used_after_update(binding.sym, later));
        if inline {
            self.depths[binding.sym.0 as usize] = depth;
            self.values[binding.sym.0 as usize] = Some(binding.value);
            depth = 0;
        } else {
            kept.push(binding);
        }
        depth
    }

    fn replace(&mut self, e: &mut Expr, sym: Sym) -> u32 {
        let index = sym.0 as usize;
        let facts = &mut self.facts[index];
        facts.uses = facts.uses.saturating_sub(1);
        let value = if facts.uses == 0 { self.values[index].take() } else { self.values[index].clone() };
        if let Some(mut value) = value {
            if value.annotations.is_empty() {
                value.annotations = std::mem::take(&mut e.annotations);
            }
            *e = value;
        }
        self.depths[index]
    }
}

fn contains(e: &Expr, wanted: &impl Fn(&Expr) -> bool) -> bool {
    deep(|| {
        let mut found = wanted(e);
        e.each_child(&mut |child| found = found || contains(child, wanted));
        found
    })
}

fn reads_elements(e: &Expr) -> bool {
    contains(e, &|e| matches!(e.kind, ExprKind::Lookup { .. }))
}

/// Whether an update comes before the use of a variable that these bindings, or the body of their block, use once.
fn is_used_after_update(sym: Sym, later: &[Binding]) -> bool {
    for binding in later.iter().take(BINDINGS_TO_USE_MAX) {
        if contains(&binding.value, &|e| matches!(e.kind, ExprKind::Var(used) if used == sym)) {
            return false;
        }
        if contains(&binding.value, &|e| matches!(e.kind, ExprKind::Update { .. })) {
            return true;
        }
    }
    later.len() > BINDINGS_TO_USE_MAX
}

/// Moves the bindings of blocks among the strict parts of `e` to a block around it.
pub(super) fn float_lets(e: &mut Expr) {
    let strict = strict_children(e);
    let mut floated = Vec::new();
    let mut index = 0;
    e.each_child_mut(&mut |child| {
        if index < strict
            && let ExprKind::Let { bindings, body } = &mut child.kind
        {
            floated.append(bindings);
            *child = body.take();
        }
        index += 1;
    });
    if !floated.is_empty() {
        let inner = e.take();
        *e = build::let_in(floated, inner);
    }
}

#[cfg(test)]
mod tests {
    use super::ExprKind;
    use expect_test::{Expect, expect};

    fn check(before: &str, after: Expect) {
        super::super::testing::check(super::run, before, &after);
    }

    #[test]
    fn used_once_and_trivial() {
        check(
            "|x: i64| let a = x * 2L; let b = a + 1L; let c = x; b - c * c",
            expect![[r#"
            |x: i64|
              x * 2L + 1L - x * x
        "#]],
        );
    }

    #[test]
    fn fields_of_variables_go_everywhere() {
        check(
            "|s: {i64,i64}| let a = s.$0; a * a + s.$1",
            expect![[r#"
            |s: {i64,i64}|
              s.$0 * s.$0 + s.$1
        "#]],
        );
    }

    #[test]
    fn nested_blocks_are_flattened() {
        check(
            "|x: i64| let a = (let b = x * x; b + b); a * a",
            expect![[r#"
            |x: i64|
              let b = x * x;
              let a = b + b;
              a * a
        "#]],
        );
        check(
            "|x: i64| (let b = x * x; b + b) * (let c = x + 1L; c * c)",
            expect![[r#"
            |x: i64|
              let b = x * x;
              let c = x + 1L;
              (b + b) * (c * c)
        "#]],
        );
    }

    #[test]
    fn dead_code_goes() {
        check(
            "|x: i64| let a = x * x; let b = a + a; x",
            expect![[r#"
            |x: i64|
              x
        "#]],
        );
        check(
            "|v: vec[i64]| let a = result(for(v, appender[i64], |b,i,x| merge(b, x * x))); len(v)",
            expect![[r#"
            |v: vec[i64]|
              len(v)
        "#]],
        );
    }

    #[test]
    fn an_error_is_not_dropped() {
        check(
            "|x: i64, y: i64| let a = x / y; x",
            expect![[r#"
            |x: i64, y: i64|
              let a = x / y;
              x
        "#]],
        );
    }

    #[test]
    fn into_a_branch_only_what_cannot_fail() {
        check(
            "|x: i64, y: i64| let a = x * y; if(x > 0L, a, 0L)",
            expect![[r#"
            |x: i64, y: i64|
              if(x > 0L, x * y, 0L)
        "#]],
        );
        check(
            "|x: i64, y: i64| let a = x / y; if(x > 0L, a, 0L)",
            expect![[r#"
            |x: i64, y: i64|
              let a = x / y;
              if(x > 0L, a, 0L)
        "#]],
        );
        check(
            "|x: i64, y: i64| let a = x / 7L; if(x > 0L, a, 0L)",
            expect![[r#"
            |x: i64, y: i64|
              if(x > 0L, x / 7L, 0L)
        "#]],
        );
    }

    #[test]
    fn elements_are_read_before_they_are_updated() {
        check(
            "|v: vec[i64], i: i64, j: i64|
               let a = lookup(v, i); let b = lookup(v, j); let w = update(v, i, b); update(w, j, a)",
            expect![[r#"
                |v: vec[i64], i: i64, j: i64|
                  let a = lookup(v, i);
                  update(update(v, i, lookup(v, j)), j, a)
            "#]],
        );
    }

    #[test]
    fn not_into_loops() {
        check(
            "|v: vec[i64], y: i64| let a = y * y; result(for(v, merger[i64,+], |b,i,x| merge(b, x * a)))",
            expect![[r#"
                |v: vec[i64], y: i64|
                  let a = y * y;
                  result(for(v, merger[i64,+], |b, i, x| merge(b, x * a)))
            "#]],
        );
    }

    #[test]
    fn blocks_stay_in_branches() {
        check(
            "|x: i64| 1L + if(x > 0L, let a = x * x; a + a, 0L)",
            expect![[r#"
            |x: i64|
              1L + if(x > 0L, let a = x * x; a + a, 0L)
        "#]],
        );
    }

    #[test]
    fn a_long_chain_is_quick_and_stays_wide() {
        let mut text = String::from("|x0: i64| ");
        for i in 0..10_000 {
            text += &format!("let x{} = x{i} + {i}L; ", i + 1);
        }
        let mut program = crate::parse_program(&(text + "x10000")).expect("the chain is a program");
        super::run(&mut program, &super::Config::default());
        assert!(program.body.depth() < 2 * super::DEPTH_MAX as usize);
        let ExprKind::Let { body, .. } = &program.body.kind else { panic!("the chain stays a block") };
        assert!(!matches!(body.kind, ExprKind::Var(_)), "the last value needs no name");
    }
}
