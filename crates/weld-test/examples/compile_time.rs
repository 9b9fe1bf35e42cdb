//! What compiling long programs takes, phase by phase:
//! `cargo run --release -p weld-test --example compile_time [NAME]`. With `--passes`, the time of each optimizer pass
//! as well.
//!
//! Each shape of program is compiled at several lengths; where a phase grows faster than the program, its ratio does.

use std::time::{Duration, Instant};

use weld_codegen::{Options as CodegenOptions, compile};
use weld_core::ty::ScalarKind;
use weld_core::{ir, opt};
use weld_frontend::{Arg, Args, DataType, Known, Language, Library, Options, Request};
use weld_gtscript::GtScript;

const LENGTHS: [usize; 5] = [25, 50, 100, 200, 400];

/// A name, and the text of a computation by its number and the temporary that the one before it wrote.
type Shape = (&'static str, fn(usize, &str) -> String);

const SHAPES: [Shape; 5] = [
    ("points", |i, _| {
        format!(
            "PARALLEL), interval(...):\n        u = b\n        if a > {i}.0:\n            u = 0.5 * b + a\n        b = u"
        )
    }),
    ("offsets", |i, from| {
        format!("PARALLEL), interval(1, None):\n        t{i} = {from}[0, 0, -1] + {from}\n        b = t{i}")
    }),
    ("laplacians", |i, from| {
        format!(
            "PARALLEL), interval(...):\n        t{i} = {from}[1, 0, 0] + {from}[-1, 0, 0] - 2.0 * {from}\n        b = t{i}"
        )
    }),
    ("recurrences", |_, _| "FORWARD), interval(1, None):\n        b = 0.5 * b[0, 0, -1] + a".to_owned()),
    ("intervals", |_, _| {
        "FORWARD):\n        with interval(0, 1):\n            b = a\n        with interval(1, None):\n            \
         b = 0.5 * a + 0.5 * b[0, 0, -1]"
            .to_owned()
    }),
];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let filter = args.iter().find(|arg| !arg.starts_with("--")).cloned().unwrap_or_default();
    let passes = args.iter().any(|arg| arg == "--passes");
    println!("| computations | nodes | front end ms | optimizer | nodes after | emit | LLVM passes | select | link |");
    for (name, computation) in SHAPES.iter().filter(|(name, _)| name.contains(&filter)) {
        for length in LENGTHS {
            measure(name, &text(length, *computation), length, passes);
        }
    }
}

fn text(length: usize, computation: fn(usize, &str) -> String) -> String {
    let mut text = "@stencil\ndef f(a: Field[float64], b: Field[float64]):\n".to_owned();
    for i in 0..length {
        let from = if i == 0 { "a".to_owned() } else { format!("t{}", i - 1) };
        text += &format!("    with computation({}\n", computation(i, &from));
    }
    text
}

fn measure(name: &str, text: &str, length: usize, passes: bool) {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let start = Instant::now();
    let program = stencil(text);
    let front = ms(start.elapsed());
    let mut optimized = program.clone();
    let report = opt::optimize(&mut optimized, &opt::Config { verify: false, ..opt::Config::default() });
    print!("| {name} {length} | {} | {front:.0} | {:.0} |", program.body.size(), ms(report.total()));
    let compiled = compile(&optimized, &CodegenOptions::default()).expect("compiles");
    let timings = compiled.timings();
    let sum = |phase: fn(&weld_codegen::Timing) -> Duration| ms(timings.iter().map(phase).sum());
    println!(
        " {} | {:.0} | {:.0} | {:.0} | {:.0} |",
        optimized.body.size(),
        sum(|t| t.emit),
        sum(|t| t.passes),
        sum(|t| t.select),
        sum(|t| t.link)
    );
    if passes {
        println!("{report}");
    }
}

fn stencil(text: &str) -> ir::Program {
    let item = DataType::Scalar(ScalarKind::F64);
    let ty = (0..3).fold(item, |item, _| DataType::List(Box::new(item)));
    let (library, options) = (Library::default(), Options::default());
    let args = [ty.clone(), ty.clone()].map(|ty| Arg { known: Known::Type(ty), ..Arg::default() });
    let mut request = Request::new(text, &library, &options);
    (request.args, request.returns) = (Args::Given(&args), Some(&ty));
    GtScript.compile(&request).unwrap_or_else(|errors| panic!("{errors:?}\n{text}")).program
}
