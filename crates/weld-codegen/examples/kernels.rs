//! Cycles a row of the loops that queries are made of: `cargo run --release -p weld-codegen --example kernels [NAME]`.
//! With `--asm`, `--llvm` or `--raw` (LLVM IR before its passes), prints what was generated as well; with `--compile`,
//! times compilation alone.

use std::sync::Arc;
use std::time::Instant;

use weld_codegen::{Chunk, Column, OptLevel, Options, Value, compile};
use weld_core::{opt, parse_program};
use weld_runtime::{Context, StringView};

const ROWS: usize = 8192;
/// Samples are short, so that the best of them was not interrupted.
const ROUNDS: usize = 5;
const SAMPLES: usize = 300;

struct Kernel {
    name: &'static str,
    text: &'static str,
    optimise: bool,
}

const KERNELS: [Kernel; 9] = [
    Kernel {
        name: "tpch6",
        text: r#"|input: stream[{i128,i128,i128,i32}]|
  let state = result(for(
    chunkiter(input, 1024L),
    merger[{i128,bool},{+,|}],
    |b, k, c|
      let m = result(for(
        c,
        merger[{i128,i128,i128},|],
        |b_2, i, x| merge(b_2, {magnitude(x.$2), magnitude(x.$0), magnitude(x.$1)})
      ));
      let bound = f64(m.$0) + 1.0;
      if(
        bound < 4.611686018427388e18 & f64(m.$1) + 1.0 < 4.611686018427388e18 &
        (f64(m.$2) + 1.0) * bound * f64(len(c)) < 4.611686018427388e18,
        let local = result(for(
          c,
          merger[{i64,bool},{+,|}],
          |b_3, i_2, r|
            let c_2 = r.$3 >= 8766 & r.$3 < 9131 & i64(r.$2) >= 5L & i64(r.$2) <= 7L &
            i64(r.$0) < 2400L;
            merge(b_3, {select(c_2, i64(r.$1) * i64(r.$2), 0L), c_2})
        ));
        merge(b, {i128(local.$0), local.$1}),
        for(
          c,
          b,
          |b_4, i_3, r_2|
            if(
              r_2.$3 >= 8766 & r_2.$3 < 9131 & r_2.$2 >= 5LL & r_2.$2 <= 7LL & r_2.$0 < 2400LL,
              merge(b_4, {checked_mul(r_2.$1, r_2.$2), true}),
              b_4
            )
        )
      )
  ));
  [{{select(state.$1, state.$0, 0LL), state.$1}}]"#,
        optimise: false,
    },
    Kernel {
        name: "tpch1",
        text: r#"|input: stream[{i128,i128,i128,i128,vec[u8],vec[u8],i32}]|
  result(for(
    tovec(result(for(
      chunkiter(input, 1024L),
      dictmerger[{vec[u8],vec[u8]},{i128,i128,i128,i128,i64,i128},{+,+,+,+,+,+}],
      |b_2, k, c|
        let rows = result(for(
          c,
          appender[i32](len(c)),
          |b_3, i_2, x| if(x.$6 <= 10471, merge(b_3, i32(i_2)), b_3)
        ));
        let m = result(for(
          rows,
          merger[{i128,i128,i128},|],
          |b_4, i_3, x_2|
            let r = @(unchecked:true) lookup(c, i64(x_2));
            merge(b_4, {magnitude(r.$1), magnitude(r.$2), magnitude(r.$3)})
        ));
        let bound = (f64(m.$0) + 1.0) * (100.0 + (f64(m.$1) + 1.0));
        if(
          bound < 4.611686018427388e18 & bound * (100.0 + (f64(m.$2) + 1.0)) < 4.611686018427388e18,
          for(
            rows,
            b_2,
            |b_5, i_4, j|
              let r_2 = @(unchecked:true) lookup(c, i64(j));
              let r_3 = i64(r_2.$1) * (100L - i64(r_2.$2));
              merge(
                b_5,
                {
                  {r_2.$4, r_2.$5},
                  {r_2.$0, r_2.$1, i128(r_3), i128(r_3 * (100L + i64(r_2.$3))), 1L, r_2.$2}
                }
              )
          ),
          for(
            rows,
            b_2,
            |b_6, i_5, j_2|
              let r_4 = @(unchecked:true) lookup(c, i64(j_2));
              let r_5 = checked_mul(r_4.$1, checked_sub(100LL, r_4.$2));
              merge(
                b_6,
                {
                  {r_4.$4, r_4.$5},
                  {r_4.$0, r_4.$1, r_5, checked_mul(r_5, checked_add(100LL, r_4.$3)), 1L, r_4.$2}
                }
              )
          )
        )
    ))),
    appender[{vec[u8],vec[u8],i128,i128,i128,i128,u64,{i128,bool},u64,{i128,bool},u64,{i128,bool},i64}],
    |b, i, e|
      merge(
        b,
        {
          e.$0.$0,
          e.$0.$1,
          e.$1.$0,
          e.$1.$1,
          e.$1.$2,
          e.$1.$3,
          u64(e.$1.$4),
          {select(e.$1.$4 > 0L, e.$1.$0, 0LL), e.$1.$4 > 0L},
          u64(e.$1.$4),
          {select(e.$1.$4 > 0L, e.$1.$1, 0LL), e.$1.$4 > 0L},
          u64(e.$1.$4),
          {select(e.$1.$4 > 0L, e.$1.$5, 0LL), e.$1.$4 > 0L},
          e.$1.$4
        }
      )
  ))"#,
        optimise: false,
    },
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
    let decimals = Chunk::new(
        ROWS,
        vec![
            Column::values(&quantity128),
            Column::values(&price128),
            Column::values(&discount128),
            Column::values(&date),
        ],
    );
    let view = |text: &[u8]| StringView::new(text).expect("short");
    let flags: Vec<StringView> = (0..ROWS).map(|_| view(&b"ANR"[random(3) as usize..][..1])).collect();
    let status: Vec<StringView> = (0..ROWS).map(|_| view(&b"FO"[random(2) as usize..][..1])).collect();
    // SAFETY: short views point to nothing.
    let strings = unsafe {
        Chunk::new(
            ROWS,
            vec![
                Column::values(&quantity128),
                Column::values(&price128),
                Column::values(&discount128),
                Column::values(&discount128),
                Column::views(&flags),
                Column::views(&status),
                Column::values(&date),
            ],
        )
    };
    for kernel in &KERNELS {
        if only.is_some_and(|only| only != kernel.name) {
            continue;
        }
        let chunk = match kernel.name {
            "tpch6" => &decimals,
            "tpch1" => &strings,
            _ => &narrow,
        };
        let mut program = parse_program(kernel.text).unwrap_or_else(|errors| panic!("{errors:?}"));
        if kernel.optimise {
            opt::optimize(&mut program, &opt::Config::default());
        }
        for level in [OptLevel::O0, OptLevel::O1, OptLevel::O2] {
            let options = Options { level, ..Options::default() };
            // The first compilation of a process warms LLVM up.
            drop(compile(&program, &options).and_then(|c| c.prepare(&chunk.layouts())));
            let compiled = compile(&program, &options).unwrap_or_else(|error| panic!("{error}"));
            compiled.prepare(&chunk.layouts()).unwrap_or_else(|error| panic!("{error}"));
            if level == OptLevel::O0 && show == Some("--raw") {
                println!("{}", compiled.llvm_ir());
            }
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
                    compiled.prepare(&chunk.layouts()).unwrap_or_else(|error| panic!("{error}"));
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
            for _ in 0..SAMPLES {
                let started = Instant::now();
                for _ in 0..ROUNDS {
                    stream.process(chunk).expect("runs");
                    drop(stream.rows());
                }
                best = best.min(started.elapsed().as_secs_f64() * 1e9 / (ROUNDS * ROWS) as f64);
            }
            let millis = compiled.compile_time().as_secs_f64() * 1e3;
            println!("{:8} {level:?}  {best:6.3} ns/row   compile {millis:5.1} ms", kernel.name);
        }
    }
}
