//! Dictionaries under load: nanoseconds a row on one thread, the best of several runs.
//!
//! `cargo bench -p weld-codegen --bench dict [-- FILTER]`

use std::sync::Arc;

use weld_codegen::{Chunk, Column, Compiled, Options, Value, compile};
use weld_core::opt::{self, Config};
use weld_core::parse_program;
use weld_runtime::{Context, StringView};

const CHUNK: usize = 8192;
const RUNS: usize = 7;

/// Compiles a program, with one of the optimizer's passes left out or none.
fn program(source: &str, without: Option<&str>) -> Arc<Compiled> {
    let mut program = parse_program(source).unwrap_or_else(|errors| panic!("{errors:?}"));
    let disabled = without.map(str::to_owned).into_iter().collect();
    opt::optimize(&mut program, &Config { disabled, ..Config::default() });
    if std::env::var_os("WELD_BENCH_PRINT").is_some() {
        println!("{program}");
    }
    compile(&program, &Options::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// Streams the chunks that `columns` makes through a program; what it gives, and the time for the loop and for the end.
fn stream<'a>(
    compiled: &Arc<Compiled>,
    args: &[Value],
    rows: usize,
    columns: impl Fn(usize, usize) -> Vec<Column<'a>>,
) -> (Value, f64, f64) {
    let mut stream = compiled.stream(Arc::new(Context::unlimited()), args.to_vec()).unwrap();
    stream.process(&Chunk::new(0, columns(0, 0))).unwrap();
    let started = cpu_seconds();
    for start in (0..rows).step_by(CHUNK) {
        let end = rows.min(start + CHUNK);
        stream.process(&Chunk::new(end - start, columns(start, end))).unwrap();
    }
    let looped = cpu_seconds();
    let value = stream.finish().unwrap();
    (value, looped - started, cpu_seconds() - looped)
}

/// Time that this thread has run, whatever else the machine does.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists, and `time` is where it writes.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn report<'a>(
    name: &str,
    source: &str,
    args: &[Value],
    rows: usize,
    columns: impl Fn(usize, usize) -> Vec<Column<'a>>,
) -> Option<Value> {
    compare(name, source, &[None], args, rows, columns)
}

/// Runs a program with each of these passes left out, in turn; gives its value.
fn compare<'a>(
    name: &str,
    source: &str,
    without: &[Option<&str>],
    args: &[Value],
    rows: usize,
    columns: impl Fn(usize, usize) -> Vec<Column<'a>>,
) -> Option<Value> {
    let filter: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    if !filter.is_empty() && !filter.iter().any(|part| name.contains(part.as_str())) {
        return None;
    }
    let programs: Vec<_> = without.iter().map(|pass| program(source, *pass)).collect();
    if std::env::var_os("WELD_BENCH_PRINT").is_some() {
        stream(&programs[0], args, 1, &columns);
        println!("{}", programs[0].assembly());
    }
    let mut times = vec![Vec::new(); programs.len()];
    let mut last = None;
    for _ in 0..RUNS {
        for (compiled, times) in programs.iter().zip(&mut times) {
            let (value, looped, ended) = stream(compiled, args, rows, &columns);
            times.push((looped, ended));
            last = Some(value);
        }
    }
    for (pass, times) in without.iter().zip(&times) {
        // The best ones: whatever else runs on the machine only adds.
        let best = |of: fn(&(f64, f64)) -> f64| times.iter().map(of).fold(f64::INFINITY, f64::min);
        let (looped, ended) = (best(|time| time.0), best(|time| time.1));
        let name = pass.map_or(name.to_owned(), |pass| format!("{name}, without {pass}"));
        println!(
            "{name:72} {:7.2} ns/row {:8.2} ms + finish {:7.2} ms",
            looped * 1e9 / rows as f64,
            looped * 1e3,
            ended * 1e3
        );
    }
    last
}

/// Numbers below `n` that look random.
fn scramble(i: usize, n: usize) -> i64 {
    ((i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11) as i64 % n as i64
}

/// A permutation of `0 .. n`, for an `n` that the prime does not divide.
fn permute(i: usize, n: usize) -> i64 {
    (i as u64 * 15_485_863 % n as u64) as i64
}

fn main() {
    let n = 6_000_000;

    // TPC-H Q1: two strings of one byte, eight aggregates.
    let flag: Vec<StringView> = (0..n).map(|i| StringView::new(&[b"ANR"[scramble(i, 3) as usize]]).unwrap()).collect();
    let status: Vec<StringView> =
        (0..n).map(|i| StringView::new(&[b"FO"[scramble(i, 7) as usize % 2]]).unwrap()).collect();
    let amounts: Vec<i64> = (0..n).map(|i| i as i64 % 10_000).collect();
    let strings = |start: usize, end: usize| {
        // SAFETY: all views are short.
        unsafe {
            vec![
                Column::views(&flag[start..end]),
                Column::views(&status[start..end]),
                Column::values(&amounts[start..end]),
            ]
        }
    };
    report(
        "group by 2 strings, 6 groups, count",
        "|s: stream[{vec[u8],vec[u8],i64}]|
            tovec(result(for(s, dictmerger[{vec[u8],vec[u8]},i64,+], |b,i,r| merge(b, {{r.$0, r.$1}, 1L}))))",
        &[],
        n,
        strings,
    );
    report(
        "group by 2 strings, 6 groups, 8 sums of i128",
        "|s: stream[{vec[u8],vec[u8],i64}]|
            tovec(result(for(s, dictmerger[{vec[u8],vec[u8]},{i128,i128,i128,i128,i128,i128,i128,i64},+],
                |b,i,r| let x = i128(r.$2); merge(b, {{r.$0, r.$1}, {x, x + x, x * x, x, x, x, x, 1L}}))))",
        &[],
        n,
        strings,
    );

    // Many groups.
    let keys: Vec<i64> = (0..n).map(|i| scramble(i, 1_000_000)).collect();
    let few: Vec<i64> = keys.iter().map(|key| key % 1000).collect();
    let sparse: Vec<i64> = keys.iter().map(|key| key * 1_000_003).collect();
    let group = "|s: stream[i64]| tovec(result(for(s, dictmerger[i64,{i64,i64},+], |b,i,k| merge(b, {k, {k, 1L}}))))";
    report("group by i64, 1 k groups", group, &[], n, |a, b| vec![Column::values(&few[a..b])]);
    report("group by i64, 1 M groups", group, &[], n, |a, b| vec![Column::values(&keys[a..b])]);
    report("group by i64, 1 M sparse groups", group, &[], n, |a, b| vec![Column::values(&sparse[a..b])]);

    probes(n);
    composite_probes(n);
    two_joins(n);
}

/// The same by two integers, which no table has an index of.
fn composite_probes(n: usize) {
    let build = "|s: stream[{i64,i32,i32,i32}]|
        result(for(s, groupbuilder[{i64,i32},{i32,i32}], |b,i,r| merge(b, {{r.$0, r.$1}, {r.$2, r.$3}})))";
    let probe = "|t: dict[{i64,i32},vec[{i32,i32}]], s: stream[{i64,i32}]| result(for(s, merger[i64,+], |b,i,r|
        let m = optlookup(t, r); if(m.$0, for(m.$1, b, |b,j,v| merge(b, i64(v.$0))), b)))";
    for (name, m) in [("3 k pairs", 3_000), ("100 k pairs", 100_000), ("8 M pairs", 8_000_000)] {
        let (firsts, seconds): (Vec<i64>, Vec<i32>) = (0..m).map(|i| (permute(i, m), i as i32 % 5)).unzip();
        let columns = |a: usize, b: usize| {
            let payload = Column::values(&seconds[a..b]);
            vec![Column::values(&firsts[a..b]), Column::values(&seconds[a..b]), payload.clone(), payload]
        };
        let Some(table) = report(&format!("build {name}"), build, &[], m, columns) else { continue };
        for (kind, some) in [("hits", 1), ("1/4 hits", 4)] {
            let rows: Vec<usize> = (0..n).map(|i| scramble(i, m) as usize).collect();
            let other = |i: usize| if i.is_multiple_of(some) { 0 } else { m as i64 };
            let (firsts, seconds): (Vec<i64>, Vec<i32>) =
                rows.iter().enumerate().map(|(i, row)| (firsts[*row] + other(i), seconds[*row])).unzip();
            let columns = |a: usize, b: usize| vec![Column::values(&firsts[a..b]), Column::values(&seconds[a..b])];
            let args = std::slice::from_ref(&table);
            compare(&format!("build {name}: probe, {kind}"), probe, &[None, Some("find-rows")], args, n, columns);
        }
    }
}

/// Joins of tables that fit the caches and that do not with `n` rows.
fn probes(n: usize) {
    let build = "|s: stream[{i64,i32,i32}]|
        result(for(s, groupbuilder[i64,{i32,i32}], |b,i,r| merge(b, {r.$0, {r.$1, r.$2}})))";
    let probe = "|t: dict[i64,vec[{i32,i32}]], s: stream[i64]| result(for(s, merger[i64,+], |b,i,r|
        let m = optlookup(t, r); if(m.$0, for(m.$1, b, |b,j,v| merge(b, i64(v.$0))), b)))";
    for (name, m, stride, scrambled) in [
        ("1.5 M dense sorted", 1_500_000, 4, false),
        ("1.5 M dense scrambled", 1_500_000, 4, true),
        ("3 k sparse", 3_000, 1_000_003, true),
        ("100 k sparse", 100_000, 1_000_003, true),
        ("1.5 M sparse", 1_500_000, 1_000_003, true),
        ("8 M sparse", 8_000_000, 1_000_003, true),
    ] {
        let keys: Vec<i64> = (0..m).map(|i| if scrambled { permute(i, m) } else { i as i64 } * stride).collect();
        let payload: Vec<i32> = (0..m as i32).collect();
        let columns = |a: usize, b: usize| {
            vec![Column::values(&keys[a..b]), Column::values(&payload[a..b]), Column::values(&payload[a..b])]
        };
        let Some(table) = report(&format!("build {name} keys"), build, &[], m, columns) else { continue };
        // One in four probes hits, in the order of the build or in none.
        let hits: Vec<i64> = (0..n).map(|i| scramble(i, m) * stride).collect();
        let misses: Vec<i64> = (0..n).map(|i| scramble(i, 4 * m) * stride / 4).collect();
        for (kind, values) in [("hits", &hits), ("1/4 hits", &misses)] {
            let columns = |a: usize, b: usize| vec![Column::values(&values[a..b])];
            let args = std::slice::from_ref(&table);
            report(&format!("build {name} keys: probe, {kind}"), probe, args, n, columns);
        }
    }
}

/// `n` rows that are joined with two tables, one by a string and an integer.
fn two_joins(n: usize) {
    let m = 400_000;
    let texts: Vec<StringView> = (0..m).map(|i| StringView::new(format!("item {i:07}").as_bytes()).unwrap()).collect();
    let numbers: Vec<i64> = (0..m).map(|i| i as i64 * 1_000_003).collect();
    let kinds: Vec<i32> = (0..m).map(|i| i as i32 % 7).collect();
    // SAFETY: all views are short.
    let by_text = |a: usize, b: usize| unsafe {
        vec![Column::views(&texts[a..b]), Column::values(&kinds[a..b]), Column::values(&numbers[a..b])]
    };
    let build = "|s: stream[{vec[u8],i32,i64}]|
        result(for(s, groupbuilder[{vec[u8],i32},i64], |b,i,r| merge(b, {{r.$0, r.$1}, r.$2})))";
    let Some(items) = report("two joins: build by text and integer", build, &[], m, by_text) else { return };
    let build = "|s: stream[i64]| result(for(s, groupbuilder[i64,i64], |b,i,r| merge(b, {r, r / 1000003L})))";
    let by_number = |a: usize, b: usize| vec![Column::values(&numbers[a..b])];
    let Some(others) = report("two joins: build by integer", build, &[], m, by_number) else { return };
    let rows: Vec<usize> = (0..n).map(|i| scramble(i, m) as usize).collect();
    let (row_texts, row_kinds): (Vec<_>, Vec<_>) = rows.iter().map(|row| (texts[*row], kinds[*row])).unzip();
    let row_numbers: Vec<i64> = rows.iter().rev().map(|row| numbers[*row]).collect();
    // SAFETY: as above.
    let columns = |a: usize, b: usize| unsafe {
        vec![Column::views(&row_texts[a..b]), Column::values(&row_kinds[a..b]), Column::values(&row_numbers[a..b])]
    };
    let probe = "|t: dict[{vec[u8],i32},vec[i64]], u: dict[i64,vec[i64]], s: stream[{vec[u8],i32,i64}]|
        result(for(s, merger[i64,+], |b,i,r| let m = optlookup(t, {r.$0, r.$1}); if(m.$0, for(m.$1, b, |b2,j,v|
            let o = optlookup(u, r.$2); if(o.$0, for(o.$1, b2, |b3,k,w| merge(b3, v + w)), b2)), b)))";
    compare("two joins: probes", probe, &[None, Some("find-rows")], &[items, others], n, columns);
}
