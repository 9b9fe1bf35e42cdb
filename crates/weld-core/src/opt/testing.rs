//! What the tests of the passes share: text in, text out, and the same results before and after.

use expect_test::Expect;

use super::{Config, Pass};
use crate::interp::json::to_json;
use crate::interp::{Limits, Value, run};
use crate::ir::{Literal, Program, verify};
use crate::parse_program;
use crate::ty::{ScalarKind, Type};

/// Parses, runs one pass, verifies, compares the printed program, and runs both on some arguments.
pub(super) fn check(pass: fn(&mut Program, &Config), before: &str, after: &Expect) {
    check_after(&[pass], before, after);
}

/// [`check`] of several passes in order.
pub(super) fn check_after(passes: &[fn(&mut Program, &Config)], before: &str, after: &Expect) {
    let (original, mut program) = (parse(before), parse(before));
    for pass in passes {
        pass(&mut program, &Config::default());
        if let Err(errors) = verify(&program) {
            panic!("the pass broke the program: {errors:?}\n{program}");
        }
    }
    after.assert_eq(&format!("{program}\n"));
    assert_same(&original, &program, "the pass");
}

/// Whether the pass leaves the program as it is.
pub(super) fn stays(pass: fn(&mut Program, &Config), text: &str) -> bool {
    let (before, mut after) = (parse(text), parse(text));
    pass(&mut after, &Config::default());
    before.same_as(&after)
}

/// Runs all passes and compares results after each; returns the program.
pub(super) fn optimized(before: &str) -> Program {
    let original = parse(before);
    let mut program = original.clone();
    let dump = |name: &str, after: &Program| assert_same(&original, after, name);
    let report = super::optimize(&mut program, &Config { dump: Some(&dump), ..Config::default() });
    assert!(report.broken.is_empty(), "{:?}", report.broken);
    program
}

/// Runs all passes, verified, over a program that is too large to run often.
pub(super) fn verified(text: &str) {
    let report = super::optimize(&mut parse(text), &Config { verify: true, ..Config::default() });
    assert!(report.broken.is_empty(), "{:?}", report.broken);
}

fn parse(text: &str) -> Program {
    parse_program(text).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"))
}

/// Both give the same value, or both an error, for a range of arguments.
fn assert_same(before: &Program, after: &Program, what: &str) {
    for seed in 0..10u64 {
        let mut source = Source {
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1,
            rows: [0, 1, 3, 40, 1100][seed as usize % 5],
        };
        let args: Vec<Value> = before.params.iter().map(|param| source.value(&param.ty)).collect();
        let outcome = |program: &Program| run(program, &args, &Limits::default()).map(|value| to_json(&value));
        let (expected, found) = (outcome(before), outcome(after));
        let same = match (&expected, &found) {
            (Ok(a), Ok(b)) => a == b,
            (Err(_), Err(_)) => true,
            _ => false,
        };
        assert!(same, "{what} changed the result for seed {seed}: {expected:?}\n=> {found:?}\n{before}\n=>\n{after}");
    }
}

/// Arguments: mostly small numbers, so that keys meet and conditions hold, now and then an extreme.
struct Source {
    state: u64,
    rows: usize,
}

impl Source {
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.state >> 33
    }

    fn value(&mut self, ty: &Type) -> Value {
        match ty {
            Type::Scalar(kind) => Value::Scalar(self.scalar(*kind)),
            Type::Struct(fields) => match &**fields {
                // A nullable value that is absent is zero.
                [value, Type::Scalar(ScalarKind::Bool)] if self.next().is_multiple_of(4) => {
                    let zero = Value::zero(value).expect("scalars have a zero");
                    Value::structure([zero, Value::bool(false)])
                }
                [value, Type::Scalar(ScalarKind::Bool)] => Value::structure([self.value(value), Value::bool(true)]),
                fields => Value::structure(fields.iter().map(|field| self.value(field)).collect::<Vec<_>>()),
            },
            Type::Vec(element) => {
                let rows = self.rows;
                self.rows = rows.min(3);
                let value = Value::vec((0..rows).map(|_| self.value(element)).collect::<Vec<_>>());
                self.rows = rows;
                value
            }
            Type::Dict(key, value) => {
                let rows = self.rows;
                self.rows = 2;
                let value = Value::dict((0..4).map(|_| (self.value(key), self.value(value))).collect::<Vec<_>>());
                self.rows = rows;
                value
            }
            Type::Simd(_) | Type::Builder(_) => unreachable!("no parameter has this type"),
        }
    }

    fn scalar(&mut self, kind: ScalarKind) -> Literal {
        let extreme = self.next().is_multiple_of(400);
        let small = (self.next() % 12) as i128 - 2;
        let wide = if extreme { (i128::MAX >> (self.next() % 128)) - small } else { small };
        match kind {
            ScalarKind::F64 if extreme => Literal::F64(f64::NAN),
            ScalarKind::F32 if extreme => Literal::F32(f32::NAN),
            kind => crate::interp::scalar::cast(Literal::I128(wide), kind),
        }
    }
}

/// Every pass of the list alone keeps results, and so does the list without each pass.
pub(super) fn check_each_pass(text: &str) {
    let original = parse(text);
    let names = super::pass_names();
    let mut seen = std::collections::BTreeSet::new();
    for Pass { name, run, .. } in super::PASSES.iter().filter(|pass| seen.insert(pass.name)) {
        let mut alone = original.clone();
        run(&mut alone, &Config::default());
        assert!(verify(&alone).is_ok(), "{name} alone broke the program\n{alone}");
        assert_same(&original, &alone, name);
    }
    for name in names {
        let mut program = original.clone();
        let report =
            super::optimize(&mut program, &Config { disabled: [name.to_string()].into(), ..Config::default() });
        assert!(report.broken.is_empty(), "without {name}: {:?}", report.broken);
        assert_same(&original, &program, name);
    }
}
