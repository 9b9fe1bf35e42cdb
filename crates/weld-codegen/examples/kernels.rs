//! Cycles a row of the loops that queries are made of: `cargo run --release -p weld-codegen --example kernels [NAME]`.
//! With `--asm` or `--llvm`, prints what was generated as well; with `--compile`, times compilation alone.

use std::sync::Arc;
use std::time::Instant;

use weld_codegen::{Chunk, Column, OptLevel, Options, Value, compile};
use weld_core::{opt, parse_program};
use weld_runtime::Context;

const ROWS: usize = 8192;
const ROUNDS: usize = 2000;

struct Kernel {
    name: &'static str,
    text: &'static str,
    optimise: bool,
}

const KERNELS: [Kernel; 7] = [
    Kernel {
        name: "q6",
        text: "|s: stream[{i32,i64,i64,i64}]| result(for(s, merger[i64,+], |b,i,r|
            if(r.$0 >= 8766 && r.$0 < 9131 && r.$1 >= 5L && r.$1 <= 7L && r.$2 < 2400L, merge(b, r.$3 * r.$1), b)))",
        optimise: false,
    },
    Kernel {
        name: "sum",
        text: "|s: stream[{i32,i64,i64,i64}]| result(for(s, merger[i64,+], |b,i,r| merge(b, r.$3 * r.$1)))",
        optimise: false,
    },
    Kernel {
        name: "select",
        text: "|s: stream[{i32,i64,i64,i64}]| result(for(s, appender[i32], |b,i,r|
            if(r.$0 >= 8766 && r.$0 < 9131, merge(b, i32(i)), b)))",
        optimise: false,
    },
    Kernel {
        name: "stages",
        text: "|s: stream[{i32,i64,i64,i64}]| result(for(chunkiter(s, 1024L), merger[i64,+], |b,i,c|
            let sel = result(for(c, appender[i32](len(c)), |sb,i,r| if(r.$0 >= 8766 && r.$0 < 9131 && r.$1 >= 5L, merge(sb, i32(i)), sb)));
            for(sel, b, |b,i,j| let r = lookup(c, i64(j)); merge(b, r.$3 * r.$1))))",
        optimise: false,
    },
    Kernel {
        name: "filter",
        text: "|s: stream[{i32,i64,i64,i64}]| result(for(s, appender[{i64,i64}], |b,i,r|
            if(r.$0 >= 8766 && r.$0 < 9131, merge(b, {r.$1, r.$3}), b)))",
        optimise: false,
    },
    Kernel {
        name: "map",
        text: "|s: stream[{i32,i64,i64,i64}]| result(for(s, appender[{i64,i64}], |b,i,r| merge(b, {r.$1 * r.$3, r.$2 + 1L})))",
        optimise: false,
    },
    Kernel {
        name: "q1",
        text: "|s: stream[{i32,i64,i64,i64}]| let b = for(s, {merger[{i64,i64,i64,i64,i64},+],merger[{i64,i64,i64,i64,i64},+]}, |b,i,r|
            let p = r.$3 * (100L - r.$1); let t = {r.$2, r.$3, p, p * (100L + r.$1), 1L};
            if(r.$0 <= 9000, {merge(b.$0, t), b.$1}, {b.$0, merge(b.$1, t)})); {result(b.$0), result(b.$1)}",
        optimise: false,
    },
];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let show = args.iter().find(|arg| arg.starts_with("--")).map(String::as_str);
    let only = args.iter().find(|arg| !arg.starts_with("--"));
    let mut seed = 1u64;
    let mut random = |n: u64| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) % n
    };
    let date: Vec<i32> = (0..ROWS).map(|_| 8035 + random(2526) as i32).collect();
    let discount: Vec<i64> = (0..ROWS).map(|_| random(11) as i64).collect();
    let quantity: Vec<i64> = (0..ROWS).map(|_| 100 + 100 * random(50) as i64).collect();
    let price: Vec<i64> = (0..ROWS).map(|_| 90_000 + random(10_000_000) as i64).collect();
    let wide = |column: &[i64]| column.iter().map(|&x| x as i128).collect::<Vec<i128>>();
    let (discount128, quantity128, price128) = (wide(&discount), wide(&quantity), wide(&price));
    let narrow = Chunk::new(
        ROWS,
        vec![Column::values(&date), Column::values(&discount), Column::values(&quantity), Column::values(&price)],
    );
    let _ = (&discount128, &quantity128, &price128);
    for kernel in &KERNELS {
        if only.is_some_and(|only| only != kernel.name) {
            continue;
        }
        let mut program = parse_program(kernel.text).unwrap_or_else(|errors| panic!("{errors:?}"));
        if kernel.optimise {
            opt::optimize(&mut program, &opt::Config::default());
        }
        for level in [OptLevel::O0, OptLevel::O1, OptLevel::O2] {
            let options = Options { level, ..Options::default() };
            // The first compilation of a process warms LLVM up.
            drop(compile(&program, &options).and_then(|c| c.prepare(&narrow.layouts())));
            let compiled = compile(&program, &options).unwrap_or_else(|error| panic!("{error}"));
            compiled.prepare(&narrow.layouts()).unwrap_or_else(|error| panic!("{error}"));
            if level == OptLevel::O2 {
                match show {
                    Some("--asm") => println!("{}", compiled.assembly()),
                    Some("--llvm") => println!("{}", compiled.llvm_ir()),
                    _ => {}
                }
            }
            if show == Some("--compile") {
                let started = Instant::now();
                for _ in 0..30 {
                    let compiled = compile(&program, &options).unwrap_or_else(|error| panic!("{error}"));
                    compiled.prepare(&narrow.layouts()).unwrap_or_else(|error| panic!("{error}"));
                }
                println!(
                    "{:8} {level:?}  {:6.2} ms to compile",
                    kernel.name,
                    started.elapsed().as_secs_f64() * 1e3 / 30.0
                );
                continue;
            }
            let mut stream = compiled.stream(Arc::new(Context::unlimited()), Vec::<Value>::new()).expect("starts");
            let mut best = f64::INFINITY;
            for _ in 0..5 {
                let started = Instant::now();
                for _ in 0..ROUNDS / 5 {
                    stream.process(&narrow).expect("runs");
                    drop(stream.rows());
                }
                best = best.min(started.elapsed().as_secs_f64() * 1e9 / (ROUNDS / 5 * ROWS) as f64);
            }
            let millis = compiled.compile_time().as_secs_f64() * 1e3;
            println!("{:8} {level:?}  {best:6.3} ns/row   compile {millis:5.1} ms", kernel.name);
        }
    }
}
