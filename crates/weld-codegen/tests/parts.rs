//! Large programs are cut into functions: their size is bounded, and results, errors and memory are those of one
//! function.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use weld_codegen::{Compiled, OptLevel, Options, Value, compile};
use weld_core::interp::{self, Limits, Value as V};
use weld_core::ir::Literal;
use weld_core::{RuntimeErrorKind, opt, parse_program};
use weld_runtime::Context;
use weld_runtime::memory::Limit;

fn compiled(text: &str, options: &Options) -> Arc<Compiled> {
    let program = parse_program(text).unwrap_or_else(|errors| panic!("{text}\n{errors:?}"));
    compile(&program, options).unwrap_or_else(|error| panic!("{error}\n{program}"))
}

fn cut(level: OptLevel) -> Options {
    Options { level, uncut_nodes: 0, ..Options::default() }
}

/// The interpreter's result, or its error.
fn check(text: &str, args: &[V]) {
    let mut program = parse_program(text).unwrap_or_else(|errors| panic!("{text}\n{errors:?}"));
    let expected = interp::run(&program, args, &Limits::default());
    for optimized in [false, true] {
        if optimized {
            opt::optimize(&mut program, &opt::Config::default());
        }
        for level in [OptLevel::O0, OptLevel::O2] {
            let compiled = compile(&program, &cut(level)).unwrap_or_else(|error| panic!("{error}\n{program}"));
            let values = args.iter().zip(&program.params);
            let values: Vec<Value> =
                values.map(|(arg, param)| Value::from_interp(&param.ty, arg).expect("arguments convert")).collect();
            let found = compiled.run(&Arc::new(Context::unlimited()), &values);
            let found = found.and_then(|value| value.to_interp());
            assert_eq!(found, expected, "{text}\n{level:?}, optimized: {optimized}");
        }
    }
}

fn numbers(count: i64) -> V {
    V::vec((0..count).map(V::i64))
}

/// `count` loops, each over what the one before it made.
fn chain(count: usize) -> String {
    let mut text = "|v: vec[f64]| let t0 = map(v, |x| x);\n".to_owned();
    for i in 1..count {
        text += &format!("let t{i} = map(t{}, |x| 0.5 * x + {i}.0);\n", i - 1);
    }
    text + &format!("sum(t{})", count - 1)
}

/// The lines of LLVM IR of each function.
fn functions(compiled: &Compiled) -> Vec<usize> {
    let ir = compiled.llvm_ir();
    ir.split("\ndefine ").skip(1).map(|text| text.lines().take_while(|line| *line != "}").count()).collect()
}

#[test]
fn functions_of_large_programs_are_small() {
    let [small, large] = [50, 400].map(|count| {
        let compiled = compiled(&chain(count), &Options { level: OptLevel::O0, ..Options::default() });
        let mut sizes = functions(&compiled);
        sizes.sort_unstable();
        sizes
    });
    // A small program is one function, beside those that call the runtime.
    let whole = *small.last().expect("there are functions");
    assert!(small.len() < 4 && large.len() > 10, "{small:?} {large:?}");
    assert!(large.iter().all(|lines| *lines < whole), "{small:?} {large:?}");
    check(&chain(400), &[V::vec([1.0, 2.0].map(V::f64))]);
}

#[test]
fn values_of_every_type_pass() {
    check(
        "|v: vec[i64], s: vec[vec[i8]], k: i64|
           let n = sum(v);
           let d = result(for(s, dictmerger[vec[i8],{i64,f64},{+,max}], |b, i, x| merge(b, {x, {i, f64(n)}})));
           let words = result(for(s, appender[{vec[i8],bool,i128}], |b, i, x| merge(b, {x, i > k, i128(i)})));
           let pair = {sum(map(words, |w| w.$2)), if(k > 1L, lookup(words, 1L).$0, \"none\")};
           let groups = result(for(v, groupbuilder[i64,{vec[i64],f32}], |b, i, x| merge(b, {x % 2L, {[x, n], 1.5f}})));
           let none: vec[i32] = result(appender[i32]);
           let big = result(for(v, merger[{i64,f64},{max,min}], |b, i, x| merge(b, {x, f64(x)})));
           {pair, len(tovec(d)), lookup(d, \"b\"), lookup(groups, 1L), len(none), big, n}",
        &[
            numbers(7),
            V::vec(["a", "b", "", "b"].map(|s| V::vec(s.bytes().map(|c| V::Scalar(Literal::I8(c as i8)))))),
            V::i64(2),
        ],
    );
}

#[test]
fn vectors_are_changed_in_place_across_parts() {
    let text = "|v: vec[i64], n: i64|
       let a = map(v, |x| x + 1L);
       let kept = map(a, |x| x);
       let b = iterate({a, 0L}, |s| {{update(s.$0, s.$1, lookup(s.$0, s.$1) * 2L), s.$1 + 1L}, s.$1 + 1L < n}).$0;
       let once = sum(b);
       let c = update(b, 0L, once);
       let d = iterate({c, 0L}, |s| {{update(s.$0, s.$1, lookup(s.$0, s.$1) + once), s.$1 + 1L}, s.$1 + 1L < n}).$0;
       let w = update(v, 1L, -1L);
       {kept, sum(d), d, b, sum(w), v}";
    check(text, &[numbers(9), V::i64(9)]);
}

#[test]
fn errors_keep_their_places() {
    let text = "|v: vec[i64]|
       let a = map(v, |x| x - 3L);
       let b = map(a, |x| 12L / x);
       let c = map(b, |x| lookup(v, x));
       {sum(a), sum(c)}";
    check(text, &[numbers(3)]);
    check(text, &[numbers(5)]);
}

#[test]
fn temporaries_of_parts_are_freed() {
    // Each iteration makes lists of 1000 elements, of which only a sum is left.
    let text = "|v: vec[i64], n: i64|
       map(v, |x|
         let a = result(for(rangeiter(0L, n, 1L), appender[i64], |b, i, y| merge(b, y + x)));
         let s = sum(a);
         let c = result(for(a, appender[i64], |b, i, y| if(y > s, b, merge(b, y))));
         len(c))";
    for level in [OptLevel::O0, OptLevel::O2] {
        let compiled = compiled(text, &cut(level));
        let limit = Arc::new(Limit::new(200_000));
        let context = Arc::new(Context::new(limit, Arc::new(AtomicBool::new(false))));
        let v = Value::vector::<i64>((0..1000).collect::<Vec<_>>());
        let lengths = compiled.run(&context, &[v, Value::i64(1000)]).expect("its memory is enough");
        assert_eq!(lengths.as_slice::<i64>(), Some(&[1000; 1000][..]));
    }
}

#[test]
fn limits_hold_in_parts() {
    let text = "|v: vec[i64], n: i64|
       let a = result(for(rangeiter(0L, n, 1L), appender[i64], |b, i, y| merge(b, y)));
       let endless = iterate(0L, |x| {x + 1L - lookup(v, 0L), true});
       sum(a) + endless";
    let compiled = compiled(text, &cut(OptLevel::O2));
    let run = |limit: usize, cancel: bool| {
        let context = Arc::new(Context::new(Arc::new(Limit::new(limit)), Arc::new(AtomicBool::new(cancel))));
        compiled.run(&context, &[Value::vector::<i64>(vec![1]), Value::i64(100_000)]).map(drop)
    };
    assert_eq!(run(1000, false).map_err(|error| error.kind), Err(RuntimeErrorKind::OutOfMemory));
    assert_eq!(run(usize::MAX, true).map_err(|error| error.kind), Err(RuntimeErrorKind::Cancelled));
}
