//! A bounded number of random programs, each run in every way. `weld-fuzz` does the same without bound.

use weld_test::differential::{Verdict, check};
use weld_test::generate::program;

#[global_allocator]
static ALLOCATOR: weld_runtime::Poison = weld_runtime::Poison;

#[test]
fn random_programs_agree() {
    for seed in 0..250 {
        let size = 6 + (seed % 40) as usize;
        let made = program(seed, size);
        if let Verdict::Differ(what) = check(&made, seed % 16 == 0) {
            panic!("seed {seed}, size {size}: {what}\n{}", made.program);
        }
    }
}
