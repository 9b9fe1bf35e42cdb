//! Constants of a query become parameters, so that one program serves all queries of its shape.
//!
//! ```weld
//! |s: stream[{i64,f64}]| result(for(s, merger[f64,+], |b, i, r| if(r.$0 > 5L && r.$0 % 7L == 3L, merge(b, r.$1 * 2.0), b)))
//! =>
//! |s: stream[{i64,f64}], k: i64, k_2: i64|                                                        with k = 5L and k_2 = 3L
//!   result(for(s, merger[f64,+], |b, i, r| if(r.$0 > k && r.$0 % 7L == k_2, merge(b, r.$1 * 2.0), b)))
//! ```
//!
//! This is the one place for the rule. A constant becomes a parameter if
//! - whoever made the program has said that it is the query's own ([`of_query`]): what a lowering puts in on its own
//!   account (bounds of types, powers of ten, patterns) is the same for all queries, or decides about the code; and
//! - it is a number or a string that is compared with something that is no constant: `==`, `!=`, `<`, `<=`, `>`, `>=`,
//!   of floats through `order_key`.
//!
//! All others stay, since the code is better for knowing them: factors, addends and divisors (narrow arithmetic bounds
//! what they make, division by a constant is a multiplication), patterns of LIKE, scales, booleans, nulls, what a CASE
//! gives, the names of parts of dates. So do the members of lists of more than [`INTEGERS_MAX`] integers, which LLVM
//! makes ranges and tests of bits of.
//!
//! What the code knew of a constant and would miss stays known of the parameter, see [`Known`]: that a decimal fits 64
//! bits, for then it is compared in 64 bits with columns that do, and the length of a string that fits a string view,
//! for then it is compared word by word; of a longer one, that its length and first bytes are compared before the rest.
//! Programs that differ in this differ. A constant that is compared with the same
//! thing twice is one parameter, so that equal conditions stay equal.

use std::fmt;
use std::sync::Arc;

use crate::ir::{Expr, ExprKind, Known, Literal, Names, Param, Program, Sym, build, deep};
use crate::op::{BinaryOp, Intrinsic, fits_64_bits};
use crate::ty::Type;

/// The annotation of a query's own constants, until they are lifted.
const MARK: &str = "query";

/// Longer lists of integers that a value is compared with stay constants.
const INTEGERS_MAX: usize = 3;

/// So many bytes fit a string view.
const VIEW_BYTES: usize = 12;

/// What a parameter stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Constant {
    /// A number.
    Scalar(Literal),
    /// A string or binary.
    Bytes(Arc<[u8]>),
}

impl fmt::Display for Constant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Constant::Scalar(literal) => write!(f, "{literal}"),
            Constant::Bytes(bytes) => write!(f, "{:?}", String::from_utf8_lossy(bytes)),
        }
    }
}

/// Marks a constant as the query's own.
pub fn of_query(constant: Expr) -> Expr {
    match constant.kind {
        ExprKind::Literal(_) | ExprKind::Bytes(_) => constant.annotate(MARK, "true"),
        _ => constant,
    }
}

/// Makes parameters of constants, after those that the program has; what to pass for them, in order. The marks go.
pub fn lift_constants(program: &mut Program) -> Vec<Constant> {
    let mut lifter = Lifter { names: &mut program.names, lifted: Vec::new() };
    lifter.visit(&mut program.body, false);
    let lifted = lifter.lifted;
    program.params.extend(lifted.iter().map(|lifted| lifted.param.clone()));
    lifted.into_iter().map(|lifted| lifted.constant).collect()
}

struct Lifted {
    param: Param,
    constant: Constant,
    /// What it is compared with.
    other: Expr,
}

struct Lifter<'a> {
    names: &'a mut Names,
    lifted: Vec<Lifted>,
}

impl Lifter<'_> {
    /// `in_list`: this is a part of a long list of integers.
    fn visit(&mut self, e: &mut Expr, in_list: bool) {
        deep(|| {
            if let ExprKind::Binary(op, a, b) = &mut e.kind
                && op.is_comparison()
                && !(in_list && is_integer(&a.ty))
            {
                self.lift(a, b);
                self.lift(b, a);
            }
            let in_list = match &e.kind {
                ExprKind::Binary(BinaryOp::Or, ..) => in_list || integers(e) > INTEGERS_MAX,
                _ => false,
            };
            e.each_child_mut(&mut |child| self.visit(child, in_list));
            if matches!(e.kind, ExprKind::Literal(_) | ExprKind::Bytes(_)) {
                e.annotations.remove(MARK);
            }
        })
    }

    /// Puts a parameter in the place of `operand`, if it is a constant that `other` is compared with.
    fn lift(&mut self, operand: &mut Expr, other: &Expr) {
        let operand = match &mut operand.kind {
            ExprKind::Intrinsic(Intrinsic::OrderKey, args) => &mut args[0],
            _ => operand,
        };
        if constant(other).is_some() {
            return;
        }
        let Some((constant, known)) = constant(operand).filter(|_| operand.annotations.get(MARK).is_some()) else {
            return;
        };
        let same = |lifted: &&Lifted| {
            lifted.constant == constant && lifted.param.ty == operand.ty && lifted.other.same_as(other)
        };
        let sym = match self.lifted.iter().find(same) {
            Some(lifted) => lifted.param.sym,
            None => self.add(constant, known, operand.ty.clone(), other),
        };
        *operand = build::var(sym, operand.ty.clone()).at(operand.span);
    }

    fn add(&mut self, constant: Constant, known: Option<Known>, ty: Type, other: &Expr) -> Sym {
        let sym = self.names.fresh("k");
        let param = Param { sym, ty, stream: false, known };
        self.lifted.push(Lifted { param, constant, other: other.clone() });
        sym
    }
}

/// A constant that can be a parameter, and what the code would know of it.
fn constant(e: &Expr) -> Option<(Constant, Option<Known>)> {
    match &e.kind {
        ExprKind::Literal(Literal::Bool(_)) => None,
        ExprKind::Literal(literal) => {
            let is_short = matches!(literal, Literal::I128(value) if fits_64_bits(*value));
            Some((Constant::Scalar(*literal), is_short.then_some(Known::Short)))
        }
        ExprKind::Bytes(bytes) => {
            let known = u32::try_from(bytes.len()).ok().map(|len| match bytes.len() <= VIEW_BYTES {
                true => Known::Bytes(len),
                false => Known::LongBytes,
            });
            Some((Constant::Bytes(Arc::clone(bytes)), known))
        }
        ExprKind::Intrinsic(Intrinsic::OrderKey, args) => constant(&args[0]),
        _ => None,
    }
}

fn is_integer(ty: &Type) -> bool {
    ty.as_scalar().is_some_and(|kind| kind.is_integer())
}

/// How many of the alternatives are equalities with an integer.
fn integers(e: &Expr) -> usize {
    deep(|| match &e.kind {
        ExprKind::Binary(BinaryOp::Or, a, b) => integers(a) + integers(b),
        ExprKind::Binary(BinaryOp::Eq, a, b) if is_integer(&a.ty) => {
            usize::from(constant(a).is_some() != constant(b).is_some())
        }
        _ => 0,
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::interp::{Limits, Value, run};
    use crate::ir::verify;
    use crate::parse_program;

    /// The program with all its constants marked as the query's own.
    fn marked(text: &str) -> Program {
        let mut program = parse_program(text).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
        program.body.rewrite(&mut |e| *e = of_query(e.take()));
        program
    }

    fn lifted(text: &str) -> (Program, Vec<Constant>) {
        let mut program = marked(text);
        let constants = lift_constants(&mut program);
        verify(&program).unwrap_or_else(|errors| panic!("{errors:?}\n{program}"));
        (program, constants)
    }

    fn check(text: &str, after: Expect) {
        let (program, constants) = lifted(text);
        let mut shown = format!("{program}\n");
        for (param, constant) in program.params[program.params.len() - constants.len()..].iter().zip(constants) {
            let name = program.names.name(param.sym);
            match constant {
                Constant::Scalar(literal) => shown += &format!("{name}: {literal:?} {:?}\n", param.known),
                Constant::Bytes(bytes) => shown += &format!("{name}: {bytes:?} {:?}\n", param.known),
            }
        }
        after.assert_eq(&shown);
    }

    #[test]
    fn what_is_compared_is_lifted_and_nothing_else() {
        check(
            "|x: i64, d: i128, f: f64, t: vec[i8], b: bool|
               if(x > 5L && x % 7L == 3L && 2L < 3L, d * 100LL < 250LL && d > 170141183460469231731687303715884105727LL,
                  order_key(f) < order_key(1.5) && b == true && t == \"ab\")",
            expect![[r#"
                |x: i64, d: i128, f: f64, t: vec[i8], b: bool, k: i64, k_2: i64, k_3: i128, k_4: i128, k_5: f64, k_6: vec[i8]|
                  if(
                    x > k && x % 7L == k_2 && 2L < 3L,
                    d * 100LL < k_3 && d > k_4,
                    order_key(f) < order_key(k_5) && b == true && t == k_6
                  )
                k: I64(5) None
                k: I64(3) None
                k: I128(250) Some(Short)
                k: I128(170141183460469231731687303715884105727) None
                k: F64(1.5) None
                k: [97, 98] Some(Bytes(2))
            "#]],
        );
    }

    #[test]
    fn strings_are_known_by_their_length_as_far_as_a_view_holds_them() {
        let ty = Type::vec(Type::U8);
        let text = "|t: vec[u8]| t == t";
        let known = |len| if len <= 12 { Known::Bytes(len) } else { Known::LongBytes };
        for len in [0_u32, 3, 12, 13] {
            let mut program = parse_program(text).expect("a program");
            let variable = build::var(program.params[0].sym, ty.clone());
            let text = vec![b'x'; len as usize];
            program.body = build::eq(variable, of_query(build::bytes(text.clone())));
            let constants = lift_constants(&mut program);
            assert_eq!(constants, [Constant::Bytes(text.into())]);
            assert_eq!(program.params[1].known, Some(known(len)));
        }
    }

    #[test]
    fn equal_conditions_stay_equal_and_others_apart() {
        check(
            "|x: i64, y: i64| (x == 1L || x < 1L) && (y == 1L || x == 1L)",
            expect![[r#"
                |x: i64, y: i64, k: i64, k_2: i64|
                  (x == k || x < k) && (y == k_2 || x == k)
                k: I64(1) None
                k: I64(1) None
            "#]],
        );
    }

    #[test]
    fn long_lists_of_integers_stay() {
        check(
            "|x: i64| x == 1L || x == 2L || x == 3L",
            expect![[r#"
            |x: i64, k: i64, k_2: i64, k_3: i64|
              x == k || x == k_2 || x == k_3
            k: I64(1) None
            k: I64(2) None
            k: I64(3) None
        "#]],
        );
        check(
            "|x: i64| (x == 1L || x == 2L || x == 3L || x == 4L) && x < 9L",
            expect![[r#"
            |x: i64, k: i64|
              (x == 1L || x == 2L || x == 3L || x == 4L) && x < k
            k: I64(9) None
        "#]],
        );
        check(
            "|x: i64, y: i64| x == 1L && y == 1L || x == 2L && y == 2L || x == 3L || x == 5L",
            expect![[r#"
            |x: i64, y: i64, k: i64, k_2: i64, k_3: i64, k_4: i64, k_5: i64, k_6: i64|
              x == k && y == k_2 || x == k_3 && y == k_4 || x == k_5 || x == k_6
            k: I64(1) None
            k: I64(1) None
            k: I64(2) None
            k: I64(2) None
            k: I64(3) None
            k: I64(5) None
        "#]],
        );
    }

    #[test]
    fn what_nobody_has_marked_stays() {
        let text = "|x: i64| x > 5L && x == 3L";
        let mut program = parse_program(text).expect("a program");
        assert_eq!(lift_constants(&mut program), []);
        assert_eq!(program.params.len(), 1);
    }

    /// Programs of one shape are the same; those in which something else is known of a constant are not.
    #[test]
    fn shapes() {
        let same = |a: &str, b: &str| lifted(a).0.same_as(&lifted(b).0);
        assert!(same("|x: i64| x > 5L", "|x: i64| x > -9223372036854775808L"));
        assert!(same("|x: i128| x > 5LL", "|x: i128| x > -5LL"));
        assert!(!same("|x: i128| x > 5LL", "|x: i128| x > 9223372036854775808LL"));
        assert!(same("|x: f64| x > 5.0", "|x: f64| x > -0.0"));
        assert!(!same("|x: i64| x * 5L > 5L", "|x: i64| x * 6L > 5L"));
        assert!(!same("|x: i64| x > 5L && x < 5L", "|x: i64| x > 5L && x < 6L"));
    }

    #[test]
    fn the_result_is_the_same() {
        let text = "|x: i64, d: i128, f: f64| {x > 5L, x == -5L, d <= 250LL, f < -0.0, order_key(f) >= order_key(0.0)}";
        let original = parse_program(text).expect("a program");
        let (program, constants) = lifted(text);
        assert!(constants.len() == 5);
        let constants = constants.into_iter().map(|constant| match constant {
            Constant::Scalar(literal) => Value::Scalar(literal),
            Constant::Bytes(bytes) => Value::vec(bytes.iter().map(|byte| Value::Scalar(Literal::U8(*byte)))),
        });
        let constants: Vec<Value> = constants.collect();
        for (x, d, f) in [(5, 250, 0.0), (6, 251, -0.0), (-5, -250, f64::NAN), (i64::MIN, i128::MAX, -f64::NAN)] {
            let args = [Value::i64(x), Value::Scalar(Literal::I128(d)), Value::f64(f)];
            let all: Vec<Value> = args.iter().chain(&constants).cloned().collect();
            let limits = Limits::default();
            assert_eq!(run(&program, &all, &limits), run(&original, &args, &limits), "{x} {d} {f}");
        }
    }
}
