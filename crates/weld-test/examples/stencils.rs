//! Stencils beside straightforward Rust over the same buffers, one thread:
//! `cargo run --release -p weld-test --example stencils [NAME]`. With `--weld`, prints the optimized programs as well.
//!
//! Results are compared; times are medians of user time as the clock has it, so nothing else should run.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use weld_codegen::{Options as CodegenOptions, Value, compile};
use weld_core::opt;
use weld_frontend::{Arg, Args, Known, Language, Library, Options, Request, Sizes};
use weld_gtscript::GtScript;
use weld_runtime::Context;

/// That of the `weld` command.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const I: usize = 256;
const J: usize = 256;
const K: usize = 64;
const ROUNDS: usize = 15;

const LAPLACIAN: &str = "
@gtscript.stencil
def laplacian(a: Field[float64], out: Field[float64]):
    with computation(PARALLEL), interval(...):
        out = -4.0 * a + a[1, 0, 0] + a[-1, 0, 0] + a[0, 1, 0] + a[0, -1, 0]
";

const DIFFUSION: &str = "
@gtscript.stencil
def diffusion(a: Field[float64], out: Field[float64]):
    with computation(PARALLEL), interval(...):
        lap = -4.0 * a + a[1, 0, 0] + a[-1, 0, 0] + a[0, 1, 0] + a[0, -1, 0]
        out = a - 0.1 * (-4.0 * lap + lap[1, 0, 0] + lap[-1, 0, 0] + lap[0, 1, 0] + lap[0, -1, 0])
";

const TRIDIAGONAL: &str = "
@gtscript.stencil
def tridiagonal(a: Field[float64], b: Field[float64], c: Field[float64], d: Field[float64], x: Field[float64]):
    with computation(FORWARD):
        with interval(0, 1):
            cp = c / b
            dp = d / b
        with interval(1, None):
            m = 1.0 / (b - a * cp[0, 0, -1])
            cp = c * m
            dp = (d - a * dp[0, 0, -1]) * m
    with computation(BACKWARD):
        with interval(-1, None):
            x = dp
        with interval(0, -1):
            x = dp - cp * x[0, 0, 1]
";

struct Case {
    name: &'static str,
    text: &'static str,
    fields: Vec<(&'static str, Vec<f64>)>,
    /// Points at each side that are not in the domain.
    margin: usize,
    rust: fn(&[&[f64]]) -> Vec<f64>,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let filter = args.iter().find(|arg| !arg.starts_with("--")).cloned().unwrap_or_default();
    let show = args.iter().any(|arg| arg == "--weld");
    println!("| stencil of {I}x{J}x{K} | Rust ms | Weld ms | Weld / Rust | compile ms |");
    println!("| --- | --: | --: | --: | --: |");
    for case in cases().into_iter().filter(|case| case.name.contains(&filter)) {
        measure(&case, show);
    }
}

fn cases() -> Vec<Case> {
    let random = |seed: u64| -> Vec<f64> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as f64 / (1u64 << 31) as f64
        };
        (0..I * J * K).map(|_| next()).collect()
    };
    let diagonal: Vec<f64> = random(5).into_iter().map(|x| 4.0 + x).collect();
    let zeros = vec![0.0; I * J * K];
    vec![
        Case {
            name: "laplacian",
            text: LAPLACIAN,
            fields: vec![("a", random(1)), ("out", zeros.clone())],
            margin: 1,
            rust: laplacian,
        },
        Case {
            name: "diffusion",
            text: DIFFUSION,
            fields: vec![("a", random(1)), ("out", zeros.clone())],
            margin: 2,
            rust: diffusion,
        },
        Case {
            name: "tridiagonal",
            text: TRIDIAGONAL,
            fields: vec![("a", random(2)), ("b", diagonal), ("c", random(3)), ("d", random(4)), ("x", zeros)],
            margin: 0,
            rust: tridiagonal,
        },
    ]
}

fn measure(case: &Case, show: bool) {
    let known = |name: &str| {
        let (size, margin) = (vec![I as u64, J as u64, K as u64], case.margin as u64);
        let sizes = Sizes { output: size, origin: Some(vec![margin, margin, 0]), ..Sizes::default() };
        Arg { name: Some(name.into()), written: None, known: Known::Sizes(sizes) }
    };
    let args: Vec<Arg> = case.fields.iter().map(|(name, _)| known(name)).collect();
    let domain = [(I - 2 * case.margin) as u64, (J - 2 * case.margin) as u64, K as u64];
    let (library, options) = (Library::default(), Options { domain: Some(domain), ..Options::default() });
    let mut request = Request::new(case.text, &library, &options);
    request.args = Args::Given(&args);
    let start = Instant::now();
    let function = GtScript.compile(&request).unwrap_or_else(|errors| panic!("{}: {errors:?}", case.name));
    let mut program = function.program;
    opt::optimize(&mut program, &opt::Config::default());
    let compiled = compile(&program, &CodegenOptions::default()).expect("compiles");
    let compile_ms = start.elapsed().as_secs_f64() * 1e3;
    if show {
        println!("{program}");
    }
    let values: Vec<Value> = case.fields.iter().map(|(_, data)| Value::vector::<f64>(data.clone())).collect();
    let slices: Vec<&[f64]> = case.fields.iter().map(|(_, data)| &data[..]).collect();
    let (rust_ms, expected) = median(|| (case.rust)(black_box(&slices)));
    let (weld_ms, found) = median(|| compiled.run(&Arc::new(Context::unlimited()), black_box(&values)).expect("runs"));
    let found = found.field(0).expect("one field");
    let found = found.as_slice::<f64>().expect("floats");
    assert_eq!(found.len(), expected.len());
    for (place, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert!(
            (found - expected).abs() <= 1e-12 * expected.abs().max(1.0),
            "{} at {place}: {found} {expected}",
            case.name
        );
    }
    println!("| {} | {rust_ms:.2} | {weld_ms:.2} | {:.2} | {compile_ms:.0} |", case.name, weld_ms / rust_ms);
}

fn median<T>(mut run: impl FnMut() -> T) -> (f64, T) {
    let mut last = run();
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            last = run();
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    (times[ROUNDS / 2], last)
}

// What one would write in Rust.

const ROW: usize = J * K;

fn laplacian_at(a: &[f64], at: usize) -> f64 {
    -4.0 * a[at] + a[at + ROW] + a[at - ROW] + a[at + K] + a[at - K]
}

fn laplacian(fields: &[&[f64]]) -> Vec<f64> {
    let (a, mut out) = (fields[0], fields[1].to_vec());
    for i in 1..I - 1 {
        for j in 1..J - 1 {
            for k in 0..K {
                let at = (i * J + j) * K + k;
                out[at] = laplacian_at(a, at);
            }
        }
    }
    out
}

fn diffusion(fields: &[&[f64]]) -> Vec<f64> {
    let (a, mut out) = (fields[0], fields[1].to_vec());
    let lap = laplacian(fields);
    for i in 2..I - 2 {
        for j in 2..J - 2 {
            for k in 0..K {
                let at = (i * J + j) * K + k;
                out[at] = a[at] - 0.1 * laplacian_at(&lap, at);
            }
        }
    }
    out
}

fn tridiagonal(fields: &[&[f64]]) -> Vec<f64> {
    let [a, b, c, d, x] = fields else { unreachable!("five fields") };
    let mut x = x.to_vec();
    let (mut cp, mut dp) = ([0.0; K], [0.0; K]);
    for column in 0..I * J {
        let at = column * K;
        cp[0] = c[at] / b[at];
        dp[0] = d[at] / b[at];
        for k in 1..K {
            let m = 1.0 / (b[at + k] - a[at + k] * cp[k - 1]);
            cp[k] = c[at + k] * m;
            dp[k] = (d[at + k] - a[at + k] * dp[k - 1]) * m;
        }
        x[at + K - 1] = dp[K - 1];
        for k in (0..K - 1).rev() {
            x[at + k] = dp[k] - cp[k] * x[at + k + 1];
        }
    }
    x
}
