//! Programs of `queries/weld` beside straightforward Rust over the same data; the best of several runs. All on one
//! thread, but for one column.
//!
//! `cargo bench -p weld-codegen --bench programs [-- FILTER]`
//!
//! Results are compared before a line is printed. The first table: milliseconds of the Rust and of the compiled
//! program, how many times as fast the latter is, milliseconds of the program on two threads, how many times as fast
//! that is as on one, and milliseconds that the compiler takes at each level. The second: milliseconds without some of
//! the optimizer's passes, without LLVM's vectoriser, and at O1.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weld_codegen::{Compiled, OptLevel, Options, Value, compile};
use weld_core::interp::Value as V;
use weld_core::ir::Program;
use weld_core::opt::{self, Config};
use weld_core::parse_program;
use weld_core::ty::Type;
use weld_runtime::Context;

/// As in the `weld` command: what a run frees stays with the process, where the C library's allocator gives large
/// blocks back and gets them anew, page by page, in each run.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// At least so many runs, and for so long.
const RUNS: usize = 7;
const TIME: Duration = Duration::from_millis(300);

/// A program, its arguments and the same in Rust, which gives the numbers of the result one after the other.
struct Case {
    name: &'static str,
    text: &'static str,
    args: Vec<Value>,
    rust: Box<dyn Fn() -> Vec<f64>>,
}

macro_rules! case {
    ($name:literal, [$($arg:expr),*], $rust:expr) => {
        Case {
            name: $name,
            text: include_str!(concat!("../../../queries/weld/", $name, ".weld")),
            args: vec![$($arg),*],
            rust: Box::new($rust),
        }
    };
}

const CASES: [(&str, fn() -> Case); 17] = [
    ("haversine", haversine),
    ("black_scholes", black_scholes),
    ("tpch_q6", tpch_q6),
    ("tpch_q1", tpch_q1),
    ("tpch_q3", tpch_q3),
    ("tpch_q12", tpch_q12),
    ("hash_join", hash_join),
    ("word_count", word_count),
    ("data_cleaning", data_cleaning),
    ("log_search", log_search),
    ("matmul", matmul),
    ("matmul_blocked", matmul_blocked),
    ("logistic_regression", logistic_regression),
    ("moving_average", moving_average),
    ("kmeans_step", kmeans),
    ("pagerank", pagerank),
    ("nbody_step", nbody),
];

fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with("--")).unwrap_or_default();
    println!("| program | Rust | Weld | ratio | 2 threads | speedup | compile O0 | O1 | O2 |");
    println!("| --- | --: | --: | --: | --: | --: | --: | --: | --: |");
    let mut without = Vec::new();
    for (name, make) in CASES {
        if name.contains(&filter) {
            without.push(measure(&make()));
        }
    }
    println!("\n| program | all | no fusion | no vectorisation | no predication | no dictionary hoisting | at O1 |");
    println!("| --- | --: | --: | --: | --: | --: | --: |");
    without.iter().for_each(|line| println!("{line}"));
}

/// Prints a line of the first table and gives one of the second.
fn measure(case: &Case) -> String {
    let at = |level| Options { level, ..Options::default() };
    let (full, o2) = compiled(case, &[], &at(OptLevel::O2));
    let (shared, _) = compiled(case, &[], &Options { threads: 2, ..Options::default() });
    let (plain, o1) = compiled(case, &[], &at(OptLevel::O1));
    let (_, o0) = compiled(case, &[], &at(OptLevel::O0));
    let without = |passes: &[&str]| compiled(case, passes, &Options::default()).0;
    let (scalar, _) = compiled(case, &[], &Options { vectorize: false, ..Options::default() });
    let (rust_ms, expected) = best(&case.rust);
    let run = |compiled: &Compiled| {
        let (ms, value) = best(|| compiled.run(&Arc::new(Context::unlimited()), &case.args).expect("runs"));
        check(case.name, &value, &expected);
        ms
    };
    let (two_ms, weld_ms) = (run(&shared), run(&full));
    let (ratio, speedup) = (rust_ms / weld_ms, weld_ms / two_ms);
    let name = case.name;
    print!("| {name} | {rust_ms:.2} | {weld_ms:.2} | {ratio:.2}x | {two_ms:.2} | {speedup:.2}x ");
    println!("| {o0:.1} | {o1:.1} | {o2:.1} |");
    let others = [
        without(&["fuse-loops", "fuse-horizontally"]),
        scalar,
        without(&["predicate"]),
        without(&["hoist-dictionaries"]),
        plain,
    ];
    let others: Vec<String> = others.iter().map(|compiled| format!("{:.2}", run(compiled))).collect();
    format!("| {name} | {weld_ms:.2} | {} |", others.join(" | "))
}

fn check(name: &str, value: &Value, expected: &[f64]) {
    let mut numbers = Vec::with_capacity(expected.len());
    flatten(&value.to_interp().expect("converts"), &mut numbers);
    assert_eq!(numbers.len(), expected.len(), "{name}");
    for (found, expected) in numbers.iter().zip(expected) {
        assert!((found - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{name}: {found} {expected}");
    }
}

/// The code, and the milliseconds that it took, our optimizer included: the best of three.
fn compiled(case: &Case, disabled: &[&str], options: &Options) -> (Arc<Compiled>, f64) {
    let program: Program = parse_program(case.text).unwrap_or_else(|errors| panic!("{errors:?}"));
    let disabled = disabled.iter().map(|name| name.to_string()).collect();
    let config = Config { disabled, ..Config::default() };
    let mut best = f64::INFINITY;
    let mut code = None;
    for _ in 0..3 {
        let mut program = program.clone();
        let started = Instant::now();
        opt::optimize(&mut program, &config);
        code = Some(compile(&program, options).unwrap_or_else(|error| panic!("{error}")));
        best = best.min(started.elapsed().as_secs_f64() * 1e3);
    }
    (code.expect("compiled three times"), best)
}

fn best<T>(run: impl Fn() -> T) -> (f64, T) {
    let mut best = f64::INFINITY;
    let mut last = None;
    let (mut runs, begun) = (0, Instant::now());
    while runs < RUNS || begun.elapsed() < TIME {
        runs += 1;
        // Freeing the previous result is not part of the run.
        drop(last.take());
        let started = Instant::now();
        last = Some(std::hint::black_box(run()));
        best = best.min(started.elapsed().as_secs_f64() * 1e3);
    }
    (best, last.expect("runs at least once"))
}

fn flatten(value: &V, numbers: &mut Vec<f64>) {
    match value {
        V::Scalar(literal) => {
            numbers.push(literal.to_string().trim_end_matches(char::is_alphabetic).parse().expect("a number"))
        }
        V::Vec(items) => items.iter().for_each(|item| flatten(item, numbers)),
        V::Struct(fields) => fields.iter().for_each(|field| flatten(field, numbers)),
        _ => unreachable!("no program gives anything else"),
    }
}

/// Numbers in a range, always the same.
fn floats(seed: u64, count: usize, low: f64, high: f64) -> Vec<f64> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        low + (high - low) * ((state >> 11) as f64 / (1u64 << 53) as f64)
    };
    std::iter::repeat_with(next).take(count).collect()
}

fn ints(seed: u64, count: usize, low: i64, high: i64) -> Vec<i64> {
    floats(seed, count, low as f64, high as f64).into_iter().map(|x| x as i64).collect()
}

fn rows(fields: &[Type], rows: impl Iterator<Item = V>) -> Value {
    let ty = Type::vec(Type::structure(fields.iter().cloned()));
    Value::from_interp(&ty, &V::vec(rows)).expect("of this type")
}

fn haversine() -> Case {
    let (lats, lons) = (floats(1, 1_000_000, -80.0, 80.0), floats(2, 1_000_000, -180.0, 180.0));
    let args = (lats.clone(), lons.clone());
    case!(
        "haversine",
        [Value::vector::<f64>(args.0), Value::vector::<f64>(args.1), Value::f64(48.8566), Value::f64(2.3522)],
        move || {
            let radians = |degrees: f64| degrees * 0.017453292519943295;
            let (lat, lon) = (48.8566, 2.3522);
            let distance = |(a, o): (&f64, &f64)| {
                let (s, t) = ((radians(a - lat) / 2.0).sin(), (radians(o - lon) / 2.0).sin());
                let h = s * s + radians(lat).cos() * radians(*a).cos() * (t * t);
                2.0 * 6371.0 * h.sqrt().asin()
            };
            lats.iter().zip(&lons).map(distance).collect()
        }
    )
}

fn black_scholes() -> Case {
    unsafe extern "C" {
        fn erf(x: f64) -> f64;
    }
    const ROWS: usize = 1_000_000;
    let (price, strike) = (floats(1, ROWS, 20.0, 120.0), floats(2, ROWS, 20.0, 120.0));
    let (years, vol) = (floats(3, ROWS, 0.1, 3.0), floats(4, ROWS, 0.1, 0.5));
    let columns = [&price, &strike, &years, &vol].map(|column| Value::vector::<f64>(column.clone()));
    let [a, b, c, d] = columns;
    case!("black_scholes", [a, b, c, d, Value::f64(0.1)], move || {
        // SAFETY: a pure function of the C library.
        let cdf = |x: f64| 0.5 * (1.0 + unsafe { erf(x / 2f64.sqrt()) });
        let rate = 0.1;
        let (mut calls, mut puts) = (Vec::with_capacity(2 * ROWS), Vec::with_capacity(ROWS));
        for i in 0..ROWS {
            let (p, s, t, v) = (price[i], strike[i], years[i], vol[i]);
            let spread = v * t.sqrt();
            let d1 = ((p / s).ln() + (rate + v * v / 2.0) * t) / spread;
            let d2 = d1 - spread;
            let discounted = s * (-rate * t).exp();
            calls.push(p * cdf(d1) - discounted * cdf(d2));
            puts.push(discounted * cdf(-d2) - p * cdf(-d1));
        }
        calls.append(&mut puts);
        calls
    })
}

fn tpch_q6() -> Case {
    const ROWS: usize = 10_000_000;
    let ship: Vec<i32> = ints(1, ROWS, 8000, 10_600).into_iter().map(|x| x as i32).collect();
    let (disc, qty, price) = (ints(2, ROWS, 0, 11), ints(3, ROWS, 100, 5100), ints(4, ROWS, 90_000, 10_000_000));
    let [d, q, p] = [&disc, &qty, &price].map(|column| Value::vector::<i64>(column.clone()));
    case!("tpch_q6", [Value::vector::<i32>(ship.clone()), d, q, p], move || {
        let mut sum = 0;
        for i in 0..ROWS {
            if ship[i] >= 8766 && ship[i] < 9131 && (5..=7).contains(&disc[i]) && qty[i] < 2400 {
                sum += price[i] * disc[i];
            }
        }
        vec![sum as f64]
    })
}

fn tpch_q1() -> Case {
    const ROWS: usize = 5_000_000;
    let flag: Vec<i8> = ints(1, ROWS, 0, 3).into_iter().map(|x| [65, 78, 82][x as usize]).collect();
    let status: Vec<i8> = ints(2, ROWS, 0, 2).into_iter().map(|x| [70, 79][x as usize]).collect();
    let (qty, price) = (ints(3, ROWS, 100, 5100), ints(4, ROWS, 90_000, 10_000_000));
    let (disc, tax) = (ints(5, ROWS, 0, 11), ints(6, ROWS, 0, 9));
    let ship: Vec<i32> = ints(7, ROWS, 8000, 10_600).into_iter().map(|x| x as i32).collect();
    let [f, s] = [&flag, &status].map(|column| Value::vector::<i8>(column.clone()));
    let [q, p, d, t] = [&qty, &price, &disc, &tax].map(|column| Value::vector::<i64>(column.clone()));
    case!("tpch_q1", [f, s, q, p, d, t, Value::vector::<i32>(ship.clone()), Value::i32(10_471)], move || {
        type Sums = (i64, i64, i128, i128, i64, i64);
        let mut groups = std::collections::HashMap::<(i8, i8), Sums>::new();
        for i in (0..ROWS).filter(|&i| ship[i] <= 10_471) {
            let discounted = i128::from(price[i]) * i128::from(100 - disc[i]);
            let sums = groups.entry((flag[i], status[i])).or_default();
            sums.0 += qty[i];
            sums.1 += price[i];
            sums.2 += discounted;
            sums.3 += discounted * i128::from(100 + tax[i]);
            sums.4 += disc[i];
            sums.5 += 1;
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_unstable();
        let mut numbers = Vec::new();
        for ((flag, status), s) in groups {
            let n = s.5 as f64;
            numbers.extend([flag as f64, status as f64, s.0 as f64, s.1 as f64, s.2 as f64, s.3 as f64]);
            numbers.extend([s.0 as f64 / n / 100.0, s.1 as f64 / n / 100.0, s.4 as f64 / n / 100.0, n]);
        }
        numbers
    })
}

fn matmul() -> Case {
    const N: usize = 384;
    let (a, b) = (floats(1, N * N, -1.0, 1.0), floats(2, N * N, -1.0, 1.0));
    let [left, right] = [&a, &b].map(|column| Value::vector::<f64>(column.clone()));
    let n = || Value::i64(N as i64);
    case!("matmul", [left, right, n(), n(), n()], move || {
        // Known when it runs only, as it is for the program.
        let n = std::hint::black_box(N);
        let mut out = Vec::with_capacity(n * n);
        for row in 0..n {
            for column in 0..n {
                out.push((0..n).map(|inner| a[row * n + inner] * b[inner * n + column]).sum::<f64>());
            }
        }
        out
    })
}

fn moving_average() -> Case {
    const K: usize = 16;
    let values = floats(1, 4_000_000, 0.0, 100.0);
    case!("moving_average", [Value::vector::<f64>(values.clone()), Value::i64(K as i64)], move || {
        // Known when it runs only, as it is for the program.
        let k = std::hint::black_box(K);
        values.windows(k).map(|window| window.iter().sum::<f64>() / k as f64).collect()
    })
}

fn kmeans() -> Case {
    const ROWS: usize = 2_000_000;
    let (x, y) = (floats(1, ROWS, 0.0, 10.0), floats(2, ROWS, 0.0, 10.0));
    let (cx, cy) = (floats(3, 16, 0.0, 10.0), floats(4, 16, 0.0, 10.0));
    let pairs = |x: &[f64], y: &[f64]| {
        rows(&[Type::F64, Type::F64], x.iter().zip(y).map(|(x, y)| V::structure([V::f64(*x), V::f64(*y)])))
    };
    case!("kmeans_step", [pairs(&x, &y), pairs(&cx, &cy)], move || {
        let mut sums = [(0.0, 0.0, 0i64); 16];
        for (x, y) in x.iter().zip(&y) {
            let (mut nearest, mut least) = (0, 1e300);
            for (at, (cx, cy)) in cx.iter().zip(&cy).enumerate() {
                let distance = (x - cx) * (x - cx) + (y - cy) * (y - cy);
                if distance < least {
                    (nearest, least) = (at, distance);
                }
            }
            let sum = &mut sums[nearest];
            *sum = (sum.0 + x, sum.1 + y, sum.2 + 1);
        }
        sums.iter().flat_map(|(x, y, n)| [x / *n as f64, y / *n as f64, *n as f64]).collect()
    })
}

fn pagerank() -> Case {
    const PAGES: usize = 100_000;
    const EDGES: usize = 4_000_000;
    // Every page has a link.
    let from: Vec<i64> = (0..EDGES).map(|i| (i % PAGES) as i64).collect();
    let to = ints(2, EDGES, 0, PAGES as i64);
    let pairs = from.iter().zip(&to).map(|(from, to)| V::structure([V::i64(*from), V::i64(*to)]));
    let edges = rows(&[Type::I64, Type::I64], pairs);
    case!("pagerank", [Value::i64(PAGES as i64), edges, Value::i64(5)], move || {
        let mut degrees = vec![0i64; PAGES];
        from.iter().for_each(|&page| degrees[page as usize] += 1);
        let mut ranks = vec![1.0 / PAGES as f64; PAGES];
        for _ in 0..5 {
            let mut next = vec![0.15 / PAGES as f64; PAGES];
            for (&from, &to) in from.iter().zip(&to) {
                next[to as usize] += 0.85 * ranks[from as usize] / degrees[from as usize] as f64;
            }
            ranks = next;
        }
        ranks
    })
}

fn nbody() -> Case {
    const BODIES: usize = 5_000;
    let bodies: Vec<[f64; 7]> = floats(1, 7 * BODIES, 0.1, 5.0).as_chunks::<7>().0.to_vec();
    let values = bodies.iter().map(|body| V::structure(body.map(V::f64)));
    let arg = rows(&[const { Type::F64 }; 7], values);
    case!("nbody_step", [arg, Value::f64(0.01)], move || {
        let mut out = Vec::with_capacity(6 * BODIES);
        for p in &bodies {
            let mut a = [0.0; 3];
            for q in &bodies {
                let d = [q[0] - p[0], q[1] - p[1], q[2] - p[2]];
                let r2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + 1e-9;
                let f = q[6] / (r2 * r2.sqrt());
                (0..3).for_each(|i| a[i] += d[i] * f);
            }
            let v = [p[3] + a[0] * 0.01, p[4] + a[1] * 0.01, p[5] + a[2] * 0.01];
            out.extend((0..3).map(|i| p[i] + v[i] * 0.01));
            out.extend(v);
        }
        out
    })
}

fn matmul_blocked() -> Case {
    const N: usize = 640;
    const BLOCK: usize = 32;
    let (a, b) = (floats(1, N * N, -1.0, 1.0), floats(2, N * N, -1.0, 1.0));
    let [left, right] = [&a, &b].map(|column| Value::vector::<f64>(column.clone()));
    case!("matmul_blocked", [left, right, Value::i64(N as i64), Value::i64(BLOCK as i64)], move || {
        let (n, block) = std::hint::black_box((N, BLOCK));
        let mut out = vec![0.0; n * n];
        for from in (0..n).step_by(block) {
            for row in 0..n {
                for inner in from..(from + block).min(n) {
                    let x = a[row * n + inner];
                    for column in 0..n {
                        out[row * n + column] += x * b[inner * n + column];
                    }
                }
            }
        }
        out
    })
}

fn logistic_regression() -> Case {
    const ROWS: usize = 1_000_000;
    const WEIGHTS: usize = 16;
    let rate = 0.1;
    let xs: Vec<Vec<f64>> = floats(1, ROWS * WEIGHTS, -1.0, 1.0).chunks(WEIGHTS).map(<[f64]>::to_vec).collect();
    let ys: Vec<f64> = ints(2, ROWS, 0, 2).into_iter().map(|y| y as f64).collect();
    let weights = floats(3, WEIGHTS, -1.0, 1.0);
    let rows = V::vec(xs.iter().map(|row| V::vec(row.iter().map(|x| V::f64(*x)))));
    let rows = Value::from_interp(&Type::vec(Type::vec(Type::F64)), &rows).expect("of this type");
    let [y, w] = [&ys, &weights].map(|column| Value::vector::<f64>(column.clone()));
    case!("logistic_regression", [rows, y, w, Value::f64(rate)], move || {
        let mut gradient = vec![0.0; WEIGHTS];
        for (row, y) in xs.iter().zip(&ys) {
            let z: f64 = row.iter().zip(&weights).map(|(x, w)| x * w).sum();
            let miss = 1.0 / (1.0 + (-z).exp()) - y;
            gradient.iter_mut().zip(row).for_each(|(sum, x)| *sum += miss * x);
        }
        weights.iter().zip(&gradient).map(|(w, g)| w - rate * g / ROWS as f64).collect()
    })
}

/// Pseudo-random words of up to fourteen letters, the first ones more frequent.
fn words(seed: u64, count: usize, distinct: usize) -> Vec<String> {
    let vocabulary: Vec<String> = ints(seed, distinct, 1, 1 << 40)
        .into_iter()
        .map(|mut n| {
            let mut word = String::new();
            while n > 0 && word.len() < 14 {
                word.push((b'a' + (n % 26) as u8) as char);
                n /= if word.len() < 4 { 26 } else { 13 };
            }
            word
        })
        .collect();
    let pick = |x: f64| vocabulary[((x * x) * distinct as f64) as usize].clone();
    floats(seed + 1, count, 0.0, 1.0).into_iter().map(pick).collect()
}

/// The numbers of a string's bytes.
fn letters(text: &[u8]) -> impl Iterator<Item = f64> {
    text.iter().map(|byte| f64::from(*byte))
}

fn word_count() -> Case {
    let text = words(1, 1_500_000, 5_000).join(" ");
    let bytes: Vec<i8> = text.bytes().map(|byte| byte as i8).collect();
    case!("word_count", [Value::vector::<i8>(bytes)], move || {
        let mut counts = std::collections::HashMap::<&str, i64>::new();
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            *counts.entry(word).or_default() += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_unstable_by_key(|&(word, count)| (-count, word));
        counts.into_iter().flat_map(|(word, count)| letters(word.as_bytes()).chain([count as f64])).collect()
    })
}

fn data_cleaning() -> Case {
    const ROWS: usize = 1_200_000;
    let kinds = ints(1, ROWS, 0, 8);
    let numbers = floats(2, ROWS, -1000.0, 1000.0);
    let texts: Vec<String> = kinds
        .into_iter()
        .zip(numbers)
        .map(|(kind, number)| match kind {
            0 => "n/a".into(),
            1 => format!("{number:.0}x"),
            2 => String::new(),
            kind => format!("{number:.*}", kind as usize - 3),
        })
        .collect();
    let keyed = texts.iter().enumerate().map(|(key, row)| V::structure([string(row), V::i64(key as i64)]));
    let arg = rows(&[Type::vec(Type::I8), Type::I64], keyed);
    case!("data_cleaning", [arg], move || {
        let mut good = Vec::new();
        for (key, text) in texts.iter().enumerate() {
            if let Ok(number) = text.parse::<f64>() {
                good.push((key, number));
            }
        }
        let bad = texts.len() - good.len();
        let mean = good.iter().map(|(_, number)| number).sum::<f64>() / good.len() as f64;
        let numbers = good.into_iter().flat_map(|(key, number)| [key as f64, number]);
        numbers.chain([bad as f64, mean]).collect()
    })
}

fn string(text: &str) -> V {
    V::vec(text.bytes().map(|byte| V::Scalar(weld_core::ir::Literal::I8(byte as i8))))
}

fn log_search() -> Case {
    const LINES: usize = 8_000_000;
    let hours: Vec<i32> = ints(1, LINES, 0, 24).into_iter().map(|hour| hour as i32).collect();
    let codes: Vec<i32> = ints(2, LINES, 0, 2_000).into_iter().map(|code| code as i32).collect();
    let texts = words(3, 2_000, 500).into_iter().zip(words(5, 2_000, 500)).enumerate();
    let messages: Vec<String> = texts
        .map(|(i, (from, to))| match i % 7 {
            0 => format!("request to {from} failed: timeout after {i} ms, retrying at {to}"),
            1 => format!("request to {from} failed: timeout after {i} ms"),
            _ => format!("request to {from} was answered by {to} in {i} ms"),
        })
        .collect();
    let texts = V::vec(messages.iter().map(|message| string(message)));
    let texts = Value::from_interp(&Type::vec(Type::vec(Type::I8)), &texts).expect("of this type");
    let [h, c] = [&hours, &codes].map(|column| Value::vector::<i32>(column.clone()));
    case!("log_search", [h, c, texts], move || {
        let mut counts = std::collections::HashMap::<i32, i64>::new();
        for (hour, code) in hours.iter().zip(&codes) {
            let message = &messages[*code as usize];
            if message.find("timeout").is_some_and(|at| message[at + 7..].contains("retr")) {
                *counts.entry(*hour).or_default() += 1;
            }
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_unstable();
        counts.into_iter().flat_map(|(hour, count)| [f64::from(hour), count as f64]).collect()
    })
}

fn hash_join() -> Case {
    const KEYS: i64 = 100_000;
    let build: Vec<(i64, String)> = ints(1, 50_000, 0, KEYS).into_iter().zip(words(2, 50_000, 20_000)).collect();
    let probe: Vec<(i64, f64)> = ints(4, 200_000, 0, KEYS).into_iter().zip(floats(5, 200_000, 0.0, 9.0)).collect();
    let left = build.iter().map(|(key, name)| V::structure([V::i64(*key), string(name)]));
    let right = probe.iter().map(|(key, x)| V::structure([V::i64(*key), V::f64(*x)]));
    let args = [rows(&[Type::I64, Type::vec(Type::I8)], left), rows(&[Type::I64, Type::F64], right)];
    let [left, right] = args;
    case!("hash_join", [left, right], move || {
        let mut table = std::collections::HashMap::<i64, Vec<&str>>::new();
        build.iter().for_each(|(key, name)| table.entry(*key).or_default().push(name));
        let mut joined = Vec::new();
        let mut missing = 0;
        for &(key, x) in &probe {
            match table.get(&key) {
                Some(names) => joined.extend(names.iter().map(|&name| (name, key, x))),
                None => missing += 1,
            }
        }
        joined.sort_by(|a, b| a.partial_cmp(b).expect("no NaN"));
        let numbers = joined.into_iter().flat_map(|(name, key, x)| letters(name.as_bytes()).chain([key as f64, x]));
        numbers.chain([f64::from(missing)]).collect()
    })
}

const ORDERS: usize = 600_000;
const LINES: usize = 2_400_000;

fn tpch_q3() -> Case {
    let segments = ["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"];
    let customers: Vec<&str> = ints(1, 60_000, 0, 5).into_iter().map(|k| segments[k as usize]).collect();
    let (buyers, dates) = (ints(2, ORDERS, 0, 60_000), ints(3, ORDERS, 8036, 10_440));
    let (orders, prices) = (ints(4, LINES, 0, ORDERS as i64), ints(5, LINES, 90_000, 10_000_000));
    let (discounts, ships) = (ints(6, LINES, 0, 11), ints(7, LINES, 8036, 10_560));
    let customer = customers.iter().enumerate().map(|(key, name)| V::structure([V::i64(key as i64), string(name)]));
    let order = (0..ORDERS)
        .map(|key| V::structure([V::i64(key as i64), V::i64(buyers[key]), V::i32(dates[key] as i32), V::i32(0)]));
    let line = (0..LINES)
        .map(|i| V::structure([V::i64(orders[i]), V::i64(prices[i]), V::i64(discounts[i]), V::i32(ships[i] as i32)]));
    let args = [
        rows(&[Type::I64, Type::vec(Type::I8)], customer),
        rows(&[Type::I64, Type::I64, Type::I32, Type::I32], order),
        rows(&[Type::I64, Type::I64, Type::I64, Type::I32], line),
    ];
    let [c, o, l] = args;
    case!("tpch_q3", [c, o, l, Value::i32(9204)], move || {
        use std::collections::{HashMap, HashSet};
        let wanted: HashSet<i64> =
            customers.iter().enumerate().filter(|(_, name)| **name == "BUILDING").map(|(key, _)| key as i64).collect();
        let open: HashMap<i64, (i64, i64)> = (0..ORDERS)
            .filter(|&key| dates[key] < 9204 && wanted.contains(&buyers[key]))
            .map(|key| (key as i64, (dates[key], 0)))
            .collect();
        let mut revenue = HashMap::<(i64, i64, i64), i64>::new();
        for i in 0..LINES {
            if ships[i] > 9204
                && let Some(&(date, priority)) = open.get(&orders[i])
            {
                *revenue.entry((orders[i], date, priority)).or_default() += prices[i] * (100 - discounts[i]);
            }
        }
        let mut rows: Vec<_> = revenue.into_iter().collect();
        rows.sort_unstable_by_key(|&((order, date, _), sum)| (-sum, date, order));
        let best = rows.into_iter().take(10);
        best.flat_map(|((order, date, priority), sum)| [order, sum, date, priority].map(|n| n as f64)).collect()
    })
}

fn tpch_q12() -> Case {
    let priorities = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"];
    let modes = ["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"];
    let order: Vec<&str> = ints(1, ORDERS, 0, 5).into_iter().map(|k| priorities[k as usize]).collect();
    let (orders, mode) = (ints(2, LINES, 0, ORDERS as i64), ints(3, LINES, 0, 7));
    let mode: Vec<&str> = mode.into_iter().map(|k| modes[k as usize]).collect();
    let ship = ints(4, LINES, 8036, 10_560);
    let commit: Vec<i64> = ship.iter().zip(ints(5, LINES, -60, 60)).map(|(day, by)| day + by).collect();
    let receipt: Vec<i64> = ship.iter().zip(ints(6, LINES, 1, 31)).map(|(day, by)| day + by).collect();
    let row = order.iter().enumerate().map(|(key, name)| V::structure([V::i64(key as i64), string(name)]));
    let line = (0..LINES).map(|i| {
        let days = [ship[i], commit[i], receipt[i]].map(|day| V::i32(day as i32));
        V::structure([V::i64(orders[i]), string(mode[i])].into_iter().chain(days))
    });
    let args = [
        rows(&[Type::I64, Type::vec(Type::I8)], row),
        rows(&[Type::I64, Type::vec(Type::I8), Type::I32, Type::I32, Type::I32], line),
    ];
    let [o, l] = args;
    case!("tpch_q12", [o, l], move || {
        use std::collections::HashMap;
        let mut late = HashMap::<i64, Vec<&str>>::new();
        for i in 0..LINES {
            if (mode[i] == "MAIL" || mode[i] == "SHIP")
                && commit[i] < receipt[i]
                && ship[i] < commit[i]
                && (8766..9131).contains(&receipt[i])
            {
                late.entry(orders[i]).or_default().push(mode[i]);
            }
        }
        let mut counts = HashMap::<&str, (i64, i64)>::new();
        for (key, priority) in order.iter().enumerate() {
            let high = *priority == "1-URGENT" || *priority == "2-HIGH";
            for mode in late.get(&(key as i64)).into_iter().flatten() {
                let count = counts.entry(mode).or_default();
                *count = (count.0 + i64::from(high), count.1 + i64::from(!high));
            }
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_unstable();
        counts.into_iter().flat_map(|(mode, n)| letters(mode.as_bytes()).chain([n.0 as f64, n.1 as f64])).collect()
    })
}
