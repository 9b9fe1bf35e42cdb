//! What the tests of the passes share: text in, text out.

use expect_test::Expect;

use super::Config;
use crate::ir::{Program, verify};
use crate::parse_program;

/// Parses, runs one pass, verifies, and compares the printed program.
pub(super) fn check(pass: fn(&mut Program, &Config), before: &str, after: &Expect) {
    let mut program = parse_program(before).unwrap_or_else(|errors| panic!("{errors:?}"));
    pass(&mut program, &Config::default());
    if let Err(errors) = verify(&program) {
        panic!("the pass broke the program: {errors:?}\n{program}");
    }
    after.assert_eq(&format!("{program}\n"));
}

/// As [`check`], after `prepare`, which is mostly [`super::inline_lets::run`].
pub(super) fn check_after(passes: &[fn(&mut Program, &Config)], before: &str, after: &Expect) {
    let mut program = parse_program(before).unwrap_or_else(|errors| panic!("{errors:?}"));
    for pass in passes {
        pass(&mut program, &Config::default());
        if let Err(errors) = verify(&program) {
            panic!("the pass broke the program: {errors:?}\n{program}");
        }
    }
    after.assert_eq(&format!("{program}\n"));
}
