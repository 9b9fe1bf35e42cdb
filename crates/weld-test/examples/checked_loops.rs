//! Loops with checks, as written and with the checks deferred (`opt/defer_checks.rs`), on one thread:
//! `cargo run --release -p weld-test --example checked_loops [ELEMENTS]`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use weld_codegen::{OptLevel, Options, Value, compile};
use weld_core::ir::Program;
use weld_core::opt;
use weld_core::ty::Type;
use weld_runtime::Context;

/// That of the `weld` command.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 41;

const CASES: [(&str, &str); 6] = [
    (
        "sums of 64 bits",
        "|a: vec[i64], c: vec[i64]| result(for(zip(a, c), appender[i64], |b, i, x| merge(b, checked_add(x.$0, x.$1))))",
    ),
    (
        "products and sums of 64 bits",
        "|a: vec[i64], c: vec[i64]| result(for(zip(a, c), appender[i64], |b, i, x| \
         merge(b, checked_add(checked_mul(x.$0, x.$1), 3L))))",
    ),
    (
        "products and sums of 32 bits",
        "|a: vec[i32], c: vec[i32]| result(for(zip(a, c), appender[i32], |b, i, x| \
         merge(b, checked_add(checked_mul(x.$0, x.$1), x.$0))))",
    ),
    ("the largest square", "|a: vec[i64]| result(for(a, merger[i64,max], |b, i, x| merge(b, checked_mul(x, x))))"),
    (
        "quotients of floats, not by zero",
        "|a: vec[f64], c: vec[f64]| result(for(zip(a, c), appender[f64], |b, i, x| \
         let q = require(x.$1 != 0.0, \"zero\"); merge(b, x.$0 / x.$1)))",
    ),
    (
        "an error under a condition",
        "|a: vec[f64]| result(for(a, appender[f64], |b, i, x| \
         merge(b, if(x < 0.0, let c = require(false, \"negative\"); {0L, 0.0}, {5L, x + 1.0}).$1)))",
    ),
];

fn main() {
    let elements = std::env::args().nth(1).map_or(100_000, |text| text.parse().expect("a number of elements"));
    println!("| {elements} elements, us | as written | deferred | compiled cheaply | deferred |");
    println!("| --- | --: | --: | --: | --: |");
    for (name, text) in CASES {
        print!("| {name} |");
        for level in [OptLevel::O2, OptLevel::O0] {
            for disabled in [&["defer-checks"][..], &[]] {
                print!(" {:.0} |", measure(text, disabled, level, elements));
            }
        }
        println!();
    }
}

/// Microseconds of a run, the median.
fn measure(text: &str, disabled: &[&str], level: OptLevel, elements: usize) -> f64 {
    let mut program = weld_core::parse_program(text).expect("parses");
    let disabled = disabled.iter().map(|name| (*name).to_owned()).collect();
    opt::optimize(&mut program, &opt::Config { disabled, ..opt::Config::default() });
    let compiled = compile(&program, &Options { level, ..Options::default() }).expect("compiles");
    let values = arguments(&program, elements);
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            black_box(compiled.run(&Arc::new(Context::unlimited()), black_box(&values)).expect("runs"));
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[ROUNDS / 2]
}

fn arguments(program: &Program, elements: usize) -> Vec<Value> {
    let numbers = (0..elements as i32).map(|i| i.wrapping_mul(7919).rem_euclid(10_007) + 1);
    let value = |ty: &Type| match ty.element() {
        Some(&Type::I64) => Value::vector::<i64>(numbers.clone().map(i64::from).collect::<Vec<_>>()),
        Some(&Type::I32) => Value::vector::<i32>(numbers.clone().collect::<Vec<_>>()),
        _ => Value::vector::<f64>(numbers.clone().map(f64::from).collect::<Vec<_>>()),
    };
    program.params.iter().map(|param| value(&param.ty)).collect()
}
