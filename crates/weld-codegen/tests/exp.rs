//! `exp` of 32-bit floats is to the bit what the C library gives.

use std::sync::Arc;

use weld_codegen::{OptLevel, Options, Value, compile};
use weld_core::parse_program;
use weld_runtime::Context;

/// Every so many of all floats is tried.
const STRIDE: usize = 4093;

#[test]
fn exp_is_that_of_the_c_library() {
    let program = parse_program("|v: vec[f32]| map(v, |x| exp(x))").expect("a program");
    let edges = [0.0, -0.0, 1.0, 88.722_83, 88.722_84, 88.73, -87.34, -103.972_08, -103.98, -104.0];
    let special = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MIN_POSITIVE, f32::MAX, f32::MIN, 1e-45];
    let some = (0..=u32::MAX).step_by(STRIDE).map(f32::from_bits);
    let floats: Vec<f32> = edges.into_iter().chain(special).chain(some).collect();
    for level in [OptLevel::O0, OptLevel::O2] {
        let compiled = compile(&program, &Options { level, ..Options::default() }).expect("compiles");
        let args = [Value::vector::<f32>(floats.clone())];
        let found = compiled.run(&Arc::new(Context::unlimited()), &args).expect("runs");
        let found = found.as_slice::<f32>().expect("floats");
        assert_eq!(found.len(), floats.len());
        for (x, found) in floats.iter().zip(found) {
            let same = found.to_bits() == x.exp().to_bits() || (found.is_nan() && x.is_nan());
            assert!(same, "exp({x:e}) is {found:e}, not {:e}", x.exp());
        }
    }
}
