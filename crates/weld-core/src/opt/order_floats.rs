//! `min` and `max` of floats become a comparison where neither NaN nor the sign of zero can make a difference.
//!
//! ```weld
//! |v: vec[f64], n: i64| iterate({0L, 1e300}, |s|
//!   let x = lookup(v, s.$0);
//!   {{s.$0 + 1L, min(x * x, s.$1)}, s.$0 < n})
//! =>
//! |v: vec[f64], n: i64| iterate({0L, 1e300}, |s|
//!   let x = lookup(v, s.$0);
//!   {{s.$0 + 1L, select(x * x < s.$1, x * x, s.$1)}, s.$0 < n})
//! ```
//!
//! Laws: `min(a, b)` is the other operand when one is NaN, and -0.0 is less than 0.0. `select(a < b, a, b)` differs
//! only if `b` is NaN, or `a` is -0.0 and `b` is 0.0; `select(a > b, a, b)` from `max(a, b)` only if `b` is NaN or
//! -0.0. A state of an `iterate` is what its start is and all that its step makes of it.
//!
//! Processors have the comparison as one instruction, and the whole of `min` as six.

use std::collections::HashMap;

use super::Config;
use super::facts::{is_path, is_trivial};
use crate::ir::{Expr, ExprKind, Literal, Names, Program, Sym, build, deep};
use crate::op::{BinaryOp, UnaryOp};
use crate::ty::ScalarKind;

pub(super) fn run(program: &mut Program, _: &Config) {
    let mut has_any = false;
    program.body.walk(&mut |e| has_any |= is_min_max(e));
    if has_any {
        Pass { names: &mut program.names, known: HashMap::new() }.visit(&mut program.body);
    }
}

fn is_min_max(e: &Expr) -> bool {
    matches!(e.kind, ExprKind::Binary(BinaryOp::Min | BinaryOp::Max, ..))
        && e.ty.as_scalar().is_some_and(ScalarKind::is_float)
}

/// What a float never is.
#[derive(Clone, Debug, PartialEq)]
enum Never {
    Scalar { nan: bool, minus_zero: bool },
    Struct(Vec<Never>),
}

const ANYTHING: Never = Never::Scalar { nan: false, minus_zero: false };

impl Never {
    fn nan(&self) -> bool {
        matches!(self, Never::Scalar { nan: true, .. })
    }

    fn minus_zero(&self) -> bool {
        matches!(self, Never::Scalar { minus_zero: true, .. })
    }

    /// What neither of two values ever is.
    fn both(self, other: Never) -> Never {
        match (self, other) {
            (Never::Scalar { nan, minus_zero }, Never::Scalar { nan: n, minus_zero: z }) => {
                Never::Scalar { nan: nan && n, minus_zero: minus_zero && z }
            }
            (Never::Struct(a), Never::Struct(b)) if a.len() == b.len() => {
                Never::Struct(a.into_iter().zip(b).map(|(a, b)| a.both(b)).collect())
            }
            _ => ANYTHING,
        }
    }
}

struct Pass<'a> {
    names: &'a mut Names,
    /// What is known of variables; symbols are bound once, so nothing has to be forgotten.
    known: HashMap<Sym, Never>,
}

impl Pass<'_> {
    fn visit(&mut self, e: &mut Expr) {
        deep(|| {
            match &mut e.kind {
                ExprKind::Let { bindings, body } => {
                    for binding in bindings {
                        self.visit(&mut binding.value);
                        let never = never(&binding.value, &self.known);
                        self.known.insert(binding.sym, never);
                    }
                    self.visit(body);
                    return;
                }
                ExprKind::Iterate { init, step } => {
                    let state = step.params[0].0;
                    let mut assumed = never(init, &self.known);
                    // Each round gives up at least one assumption; three are enough for what people write.
                    for round in 0.. {
                        self.known.insert(state, assumed.clone());
                        let Never::Struct(parts) = learn(&step.body, &mut self.known) else { break };
                        let next = parts.into_iter().next().unwrap_or(ANYTHING).both(assumed.clone());
                        if next == assumed {
                            break;
                        }
                        assumed = if round < 3 { next } else { ANYTHING };
                    }
                    self.known.insert(state, assumed);
                }
                _ => {}
            }
            e.each_child_mut(&mut |child| self.visit(child));
            if is_min_max(e) {
                self.rewrite(e);
            }
        })
    }

    fn rewrite(&mut self, e: &mut Expr) {
        let ExprKind::Binary(op, a, b) = &mut e.kind else { return };
        let (of_a, of_b) = (never(a, &self.known), never(b, &self.known));
        // Whether the second operand is right whenever the comparison of the first with it is false.
        let right = |first: &Never, second: &Never| match op {
            BinaryOp::Min => second.nan() && first.minus_zero(),
            _ => second.nan() && second.minus_zero(),
        };
        let (first, second) = match (right(&of_a, &of_b), right(&of_b, &of_a)) {
            (true, _) => (a, b),
            (_, true) => (b, a),
            _ => return,
        };
        let compare = if *op == BinaryOp::Min { BinaryOp::Lt } else { BinaryOp::Gt };
        let mut bindings = Vec::new();
        let mut parts = [first, second].map(|part| {
            let value = part.take();
            if is_trivial(&value) {
                return value;
            }
            let sym = self.names.fresh("m");
            let variable = build::var(sym, value.ty.clone());
            bindings.push(crate::ir::Binding { sym, value });
            variable
        });
        let test = build::binary(compare, parts[0].clone(), parts[1].clone());
        let [first, second] = &mut parts;
        let chosen = build::select(test, first.take(), second.take()).at(e.span);
        *e = build::let_in(bindings, chosen);
    }
}

/// What the value of an expression never is, after the variables that it binds have been learned.
fn learn(e: &Expr, known: &mut HashMap<Sym, Never>) -> Never {
    if let ExprKind::Let { bindings, body } = &e.kind {
        for binding in bindings {
            let value = learn(&binding.value, known);
            known.insert(binding.sym, value);
        }
        return learn(body, known);
    }
    never(e, known)
}

fn never(e: &Expr, known: &HashMap<Sym, Never>) -> Never {
    deep(|| match &e.kind {
        ExprKind::Literal(literal) => {
            let value = match *literal {
                Literal::F64(value) => value,
                Literal::F32(value) => f64::from(value),
                _ => return ANYTHING,
            };
            Never::Scalar { nan: !value.is_nan(), minus_zero: value != 0.0 || value.is_sign_positive() }
        }
        ExprKind::Var(sym) => known.get(sym).cloned().unwrap_or(ANYTHING),
        ExprKind::Struct(parts) => Never::Struct(parts.iter().map(|part| never(part, known)).collect()),
        ExprKind::Field(of, index) => match never(of, known) {
            Never::Struct(mut parts) if (*index as usize) < parts.len() => parts.swap_remove(*index as usize),
            _ => ANYTHING,
        },
        ExprKind::Let { body, .. } => never(body, known),
        ExprKind::If { on_true: a, on_false: b, .. } | ExprKind::Select { on_true: a, on_false: b, .. } => {
            never(a, known).both(never(b, known))
        }
        ExprKind::Cast(of) if of.ty.as_scalar().is_some_and(|kind| !kind.is_float()) => {
            Never::Scalar { nan: true, minus_zero: true }
        }
        ExprKind::Cast(of) => Never::Scalar { nan: never(of, known).nan(), minus_zero: false },
        ExprKind::Unary(UnaryOp::Exp, _) => Never::Scalar { nan: false, minus_zero: true },
        ExprKind::Unary(UnaryOp::Sqrt, of) => Never::Scalar { nan: false, minus_zero: never(of, known).minus_zero() },
        ExprKind::Binary(op, a, b) => match op {
            // Zeros of unlike signs, and numbers that cancel, add up to 0.0.
            BinaryOp::Add => {
                let minus_zero = never(a, known).minus_zero() || never(b, known).minus_zero();
                Never::Scalar { nan: false, minus_zero }
            }
            BinaryOp::Sub => Never::Scalar { nan: false, minus_zero: never(a, known).minus_zero() },
            BinaryOp::Mul => Never::Scalar { nan: false, minus_zero: is_path(a) && a.same_as(b) },
            // The other operand is taken when one is NaN.
            BinaryOp::Min | BinaryOp::Max => {
                let (a, b) = (never(a, known), never(b, known));
                Never::Scalar { nan: a.nan() || b.nan(), minus_zero: a.minus_zero() && b.minus_zero() }
            }
            _ => ANYTHING,
        },
        _ => ANYTHING,
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    fn check(before: &str, after: Expect) {
        super::super::testing::check(super::run, before, &after);
    }

    #[test]
    fn the_state_of_an_iterate() {
        check(
            "|v: vec[f64], n: i64| iterate({0L, 1e300}, |s|
               let x = if(s.$0 < len(v), lookup(v, s.$0), 1.0);
               {{s.$0 + 1L, min(x * x, s.$1)}, s.$0 < n})",
            expect![[r#"
                |v: vec[f64], n: i64|
                  iterate(
                    {0L, 1e300},
                    |s|
                      let x = if(s.$0 < len(v), lookup(v, s.$0), 1.0);
                      {{s.$0 + 1L, let m = x * x; select(m < s.$1, m, s.$1)}, s.$0 < n}
                  )
            "#]],
        );
    }

    #[test]
    fn what_may_be_nan_or_minus_zero_stays() {
        check(
            "|x: f64, y: f64, i: i64| {min(x, y), min(x, 1.0), min(x, f64(i)), max(x, 1.0), max(x * x, f64(i)), max(x, -0.0)}",
            expect![[r#"
                |x: f64, y: f64, i: i64|
                  {
                    min(x, y),
                    min(x, 1.0),
                    min(x, f64(i)),
                    select(x > 1.0, x, 1.0),
                    let m = x * x; let m_2 = f64(i); select(m > m_2, m, m_2),
                    max(x, -0.0)
                  }
            "#]],
        );
        check(
            "|x: f64, n: i64| iterate({0L, 1e300}, |s| {{s.$0 + 1L, min(x * x, s.$1) - x}, s.$0 < n && s.$0 < 10L})",
            expect![[r#"
                |x: f64, n: i64|
                  iterate({0L, 1e300}, |s| {{s.$0 + 1L, min(x * x, s.$1) - x}, s.$0 < n && s.$0 < 10L})
            "#]],
        );
    }

    #[test]
    fn which_operators_never_give_minus_zero() {
        let never = |e: &str| {
            let text = format!("|x: f64, y: f64, i: i64, c: bool| min({e}, 1.5)");
            let mut program = crate::parse_program(&text).expect("parses");
            super::run(&mut program, &super::Config::default());
            !program.to_string().contains("min(")
        };
        for e in [
            "x * x",
            "exp(x)",
            "f64(i)",
            "sqrt(x * x)",
            "x + 1.0",
            "1.0 + x",
            "1.0 - x",
            "if(c, 1.0, 2.0)",
            "{x, 3.0}.$1",
        ] {
            assert!(never(e), "{e} is never -0.0");
        }
        for e in [
            "x",
            "x * y",
            "x / y",
            "x + y",
            "x - 1.0",
            "if(c, 1.0, x)",
            "select(c, x, 1.0)",
            "{x, 3.0}.$0",
            "sqrt(x)",
            "-x",
        ] {
            assert!(!never(e), "{e} may be -0.0");
        }
    }
}
