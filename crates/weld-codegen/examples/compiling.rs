//! What compiling programs takes, phase by phase:
//! `cargo run --release -p weld-codegen --example compiling -- [OPTIONS] FILE..`
//!
//! A file holds programs as `weld explain DATA -f query.sql --show weld` prints them, or one program. `--level N` sets
//! LLVM's effort, `--cheap` stops at the code that a query starts on, `--narrow` takes decimals as 64-bit columns,
//! `--rounds N` takes the best of so many rounds, `--disable-pass NAME` leaves one of the optimizer's passes or ways of
//! running loops out, `--passes` adds the time of each pass, `--parts` a line a part, `--llvm DIR` writes LLVM IR to
//! files. Times are milliseconds of processor time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use weld_codegen::{ColumnLayout, FastPath, Layout, OptLevel, Options, Tiers, Timing, compile};
use weld_core::ir::Program;
use weld_core::opt::{self, Config};
use weld_core::parse_program;
use weld_core::ty::{ScalarKind, Type};

struct Args {
    options: Options,
    disabled: BTreeSet<String>,
    narrow: bool,
    rounds: usize,
    passes: bool,
    parts: bool,
    llvm: Option<String>,
    files: Vec<String>,
}

/// One program's times in a round.
struct Measured {
    optimize: Duration,
    passes: Vec<(&'static str, Duration)>,
    parts: Vec<Timing>,
    llvm: String,
}

fn main() {
    let args = args();
    println!(
        "| program | nodes | optimize | emit | LLVM passes | select | link | total | instructions | after | blocks |"
    );
    println!("| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |");
    let mut sums = [0.0; 6];
    let mut by_pass: BTreeMap<&str, f64> = BTreeMap::new();
    for file in &args.files {
        let mut of_file = [0.0; 6];
        for (index, text) in programs(file).iter().enumerate() {
            let program = parse_program(text).unwrap_or_else(|errors| panic!("{file}: {errors:?}"));
            let rounds = (0..args.rounds).map(|_| measure(&program, &args));
            let best = rounds.min_by_key(total).expect("a round");
            if let Some(folder) = &args.llvm {
                write_modules(&format!("{folder}/{}-{}", stem(file), index + 1), &best.llvm);
            }
            let columns = columns(&best);
            if args.parts {
                line(&format!("{} {}", stem(file), index + 1), program.body.size(), &columns, &best.parts);
                for part in &best.parts {
                    let one = Measured {
                        optimize: Duration::ZERO,
                        passes: Vec::new(),
                        parts: vec![part.clone()],
                        llvm: String::new(),
                    };
                    line(
                        &format!("- {} {:?}/{:?}", part.part, part.passes_level, part.select_level),
                        0,
                        &self::columns(&one),
                        &one.parts,
                    );
                }
            }
            (0..6).for_each(|i| of_file[i] += columns[i]);
            for (name, time) in &best.passes {
                *by_pass.entry(name).or_default() += ms(*time);
            }
        }
        line(stem(file), 0, &of_file, &[]);
        (0..6).for_each(|i| sums[i] += of_file[i]);
    }
    line("all", 0, &sums, &[]);
    if args.passes {
        let mut sorted: Vec<_> = by_pass.into_iter().collect();
        sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
        sorted.iter().for_each(|(name, ms)| println!("{name:<20} {ms:>8.3}"));
    }
}

fn args() -> Args {
    let mut args = Args {
        options: Options::default(),
        disabled: BTreeSet::new(),
        narrow: false,
        rounds: 3,
        passes: false,
        parts: false,
        llvm: None,
        files: Vec::new(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let number = |words: &mut dyn Iterator<Item = String>| {
            words.next().and_then(|word| word.parse::<usize>().ok()).expect("a number")
        };
        match word.as_str() {
            "--level" => args.options.level = [OptLevel::O0, OptLevel::O1, OptLevel::O2][number(&mut words)],
            "--rounds" => args.rounds = number(&mut words).max(1),
            "--cheap" => args.options.tiers = Tiers::CheapFirst,
            "--narrow" => args.narrow = true,
            "--passes" => args.passes = true,
            "--disable-pass" => {
                let names: Vec<String> = words.next().into_iter().collect();
                args.options.disabled.extend(FastPath::among(&names));
                args.disabled.extend(names);
            }
            "--llvm" => args.llvm = words.next(),
            "--parts" => args.parts = true,
            _ => args.files.push(word),
        }
    }
    args
}

/// The programs of a file, which are headed by lines that begin with `==`.
fn programs(file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"));
    let mut programs = vec![String::new()];
    for line in text.lines() {
        match line.starts_with("==") {
            true => programs.push(String::new()),
            false => {
                let program = programs.last_mut().expect("one at least");
                program.push_str(line);
                program.push('\n');
            }
        }
    }
    programs.retain(|program| !program.trim().is_empty());
    programs
}

fn stem(file: &str) -> &str {
    file.rsplit('/').next().and_then(|name| name.split('.').next()).unwrap_or(file)
}

fn measure(program: &Program, args: &Args) -> Measured {
    let mut optimized = program.clone();
    let started = thread_time();
    let config = Config { verify: false, disabled: args.disabled.clone(), ..Config::default() };
    let report = opt::optimize(&mut optimized, &config);
    let optimize = thread_time() - started;
    let compiled = compile(&optimized, &args.options).unwrap_or_else(|error| panic!("{error}\n{optimized}"));
    if let Some(stream) = program.params.iter().find(|param| param.stream) {
        let element = stream.ty.element().expect("a stream is a vector");
        let layouts = match element {
            Type::Struct(fields) => fields.iter().map(|field| layout(field, args.narrow)).collect(),
            one => vec![layout(one, args.narrow)],
        };
        compiled.prepare(&layouts).unwrap_or_else(|error| panic!("{error}\n{optimized}"));
    }
    let llvm = args.llvm.as_ref().map_or_else(String::new, |_| compiled.llvm_ir());
    Measured { optimize, passes: report.passes, parts: compiled.timings(), llvm }
}

/// How a column of this type mostly comes.
fn layout(ty: &Type, narrow: bool) -> ColumnLayout {
    let inner = match ty.fields() {
        Some([value, Type::Scalar(ScalarKind::Bool)]) => value,
        _ => ty,
    };
    let layout = match inner {
        Type::Scalar(ScalarKind::Bool) => Layout::Bits,
        Type::Scalar(ScalarKind::I128) if narrow => Layout::Fixed(ScalarKind::I64),
        Type::Scalar(kind) => Layout::Fixed(*kind),
        list if !list.is_bytes()
            && let Some(Type::Scalar(items)) = list.element() =>
        {
            Layout::List { offsets: ScalarKind::I32, unit: 1, items: *items }
        }
        _ => Layout::Utf8View,
    };
    ColumnLayout { layout, validity: false }
}

/// A file a module.
fn write_modules(name: &str, text: &str) {
    for (index, module) in text.split("; ModuleID").skip(1).enumerate() {
        std::fs::write(format!("{name}-{index}.ll"), format!("; ModuleID{module}"))
            .expect("the folder can be written to");
    }
}

fn total(measured: &Measured) -> Duration {
    measured.optimize + measured.parts.iter().map(Timing::total).sum::<Duration>()
}

/// Optimizer, emission, LLVM's passes, selection, linking, all.
fn columns(measured: &Measured) -> [f64; 6] {
    let sum = |phase: fn(&Timing) -> Duration| ms(measured.parts.iter().map(phase).sum());
    [
        ms(measured.optimize),
        sum(|part| part.emit),
        sum(|part| part.passes),
        sum(|part| part.select),
        sum(|part| part.link),
        ms(total(measured)),
    ]
}

fn line(name: &str, nodes: usize, columns: &[f64; 6], parts: &[Timing]) {
    let times: Vec<String> = columns.iter().map(|ms| format!("{ms:.2}")).collect();
    let sum = |size: fn(&Timing) -> usize| parts.iter().map(size).sum::<usize>();
    let (emitted, left) = (sum(|part| part.emitted.instructions), sum(|part| part.optimized.instructions));
    let blocks = sum(|part| part.emitted.blocks);
    println!("| {name} | {nodes} | {} | {emitted} | {left} | {blocks} |", times.join(" | "));
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to the struct only.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
