//! Loops on several threads give what they give on one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use weld_codegen::{Compiled, OptLevel, Options, Value, compile};
use weld_core::interp::json::to_json;
use weld_core::interp::{self, Limits, Value as V};
use weld_core::{RuntimeError, RuntimeErrorKind, opt, parse_program};
use weld_runtime::memory::Limit;
use weld_runtime::{Context, MemoryPool, Threads};

const THREADS: usize = 4;

/// The program for several threads, with loops cut into ranges of ten iterations and more.
fn parallel(text: &str, optimised: bool) -> Arc<Compiled> {
    let mut program = parse_program(text).unwrap_or_else(|errors| panic!("{text}\n{errors:?}"));
    if optimised {
        opt::optimize(&mut program, &opt::Config::default());
    }
    let level = if optimised { OptLevel::O2 } else { OptLevel::O0 };
    let options = Options { threads: THREADS, grain: Some(10), level, ..Options::default() };
    let compiled = compile(&program, &options).unwrap_or_else(|error| panic!("{error}\n{program}"));
    let parallel = ["weld_parallel_for", "weld_sort"].iter().any(|call| compiled.llvm_ir().contains(call));
    assert!(parallel, "nothing is parallel: {program}");
    compiled
}

fn run_in(compiled: &Compiled, context: Context, args: &[V]) -> Result<V, RuntimeError> {
    let params = &compiled.program().params;
    let args: Vec<Value> =
        params.iter().zip(args).map(|(param, arg)| Value::from_interp(&param.ty, arg).expect("converts")).collect();
    compiled.run(&Arc::new(context), &args).map(|value| value.to_interp().expect("results convert"))
}

fn run(compiled: &Compiled, args: &[V]) -> Result<V, RuntimeError> {
    run_in(compiled, Context::unlimited(), args)
}

/// The interpreter's result, or its error with message and place.
fn check(text: &str, args: &[V]) {
    let program = parse_program(text).unwrap_or_else(|errors| panic!("{text}\n{errors:?}"));
    let expected = interp::run(&program, args, &Limits::default());
    for optimised in [false, true] {
        let found = run(&parallel(text, optimised), args);
        match (&expected, &found) {
            (Ok(a), Ok(b)) => assert!(show(a) == show(b), "{text}\n{}\n{}", show(a), show(b)),
            (Err(a), Err(b)) => {
                assert_eq!((a.kind, &a.message, a.span), (b.kind, &b.message, b.span), "{text}");
            }
            _ => panic!("{text}\n{expected:?}\n{found:?}"),
        }
    }
}

fn show(value: &V) -> String {
    to_json(value).to_string()
}

/// `0, 7, 14, ..` modulo 1000.
fn numbers(count: i64) -> V {
    V::vec((0..count).map(|i| V::i64(i * 7 % 1000)))
}

#[test]
fn appenders_keep_the_order() {
    for count in [0, 1, 19, 20, 21, 1000, 4099] {
        check("|v: vec[i64]| result(for(v, appender[i64], |b,i,x| merge(b, x * 2L + i)))", &[numbers(count)]);
        check(
            "|v: vec[i64]| result(for(v, appender[i64], |b,i,x| if(x % 3L == 0L, merge(b, x), b)))",
            &[numbers(count)],
        );
        check(
            "|v: vec[i64]| result(for(v, appender[{i64,bool,i8}], |b,i,x| merge(merge(b, {i, x > 5L, i8(x)}), {x, false, 1c})))",
            &[numbers(count)],
        );
    }
}

#[test]
fn builders_in_structs() {
    check(
        "|v: vec[i64]| let r = for(v, {appender[i64], merger[i64,+](100L), appender[f64], merger[i64,max]}, |b,i,x|
             {merge(b.$0, x), merge(b.$1, x * i), if(x > 500L, merge(b.$2, f64(x)), b.$2), merge(b.$3, x)});
         {result(r.$0), result(r.$1), result(r.$2), result(r.$3)}",
        &[numbers(1234)],
    );
    // One is filled equally often, the other is not; a conditional merge into either of them.
    check(
        "|v: vec[i64]| let r = for(v, {appender[i64], appender[i64]}, |b,i,x|
             if(x > 500L, {merge(merge(b.$0, x), i), b.$1}, {merge(merge(b.$0, i), i), merge(b.$1, i)}));
         {result(r.$0), result(r.$1)}",
        &[numbers(1234)],
    );
}

#[test]
fn builders_that_hold_something_before() {
    check(
        "|v: vec[i64]| let a = merge(merge(appender[i64], 1L), 2L);
         let b = for(v, a, |b,i,x| merge(b, x)); let c = for(v, b, |b,i,x| if(x > 900L, merge(b, x), b));
         let m = merge(merger[i64,+](5L), 6L); {result(merge(c, 77L)), result(for(v, m, |b,i,x| merge(b, x)))}",
        &[numbers(500)],
    );
    check(
        "|v: vec[i64]| let d = for(v, merge(dictmerger[i64,i64,+], {3L, 1000L}), |b,i,x| merge(b, {x % 10L, x}));
         sort(tovec(result(d)), |a, b| compare(a.$0, b.$0))",
        &[numbers(500)],
    );
}

#[test]
fn every_kind_of_iterator() {
    let v = numbers(1000);
    check(
        "|v: vec[i64]| result(for(iter(v, 3L, 903L, 9L), appender[i64], |b,i,x| merge(b, x + i)))",
        std::slice::from_ref(&v),
    );
    check(
        "|v: vec[i64]| result(for(rangeiter(-50L, 900L, 7L), appender[i64], |b,i,x| merge(b, x + i)))",
        std::slice::from_ref(&v),
    );
    check(
        "|v: vec[i64]| result(for(zip(v, iter(v, 0L, 1000L, 1L), rangeiter(0L, 1000L, 1L)), merger[i64,+], |b,i,x|
             merge(b, x.$0 * x.$1 + x.$2)))",
        std::slice::from_ref(&v),
    );
    check("|v: vec[i64]| result(for(simditer(v), appender[i64], |b,i,x| merge(b, x + x)))", std::slice::from_ref(&v));
    check(
        "|v: vec[i64]| result(for(fringeiter(v), for(simditer(v), merger[i64,+], |b,i,x| merge(b, x)), |b,i,x|
             merge(b, x)))",
        &[numbers(1003)],
    );
    check(
        "|v: vec[i64]| result(for(nditer(v, [0L, 0L], [20L, 30L], [1L, 1L], [20L, 30L], [30L, 1L]), appender[i64],
             |b,i,x| merge(b, x * 3L + i)))",
        &[v],
    );
}

#[test]
fn tables_and_vectors_of_results() {
    let v = numbers(3000);
    check(
        "|v: vec[i64]| let d = result(for(v, dictmerger[i64,{i64,i64,f64},{+,max,min}], |b,i,x|
             merge(b, {x % 37L, {x, i, f64(x)}}))); sort(tovec(d), |a, b| compare(a.$0, b.$0))",
        std::slice::from_ref(&v),
    );
    check(
        "|v: vec[i64]| let g = result(for(v, groupbuilder[i64,i64], |b,i,x| merge(b, {x % 11L, i})));
         sort(tovec(g), |a, b| compare(a.$0, b.$0))",
        std::slice::from_ref(&v),
    );
    check(
        "|v: vec[i64], w: vec[i64]| result(for(v, vecmerger[i64,+](w), |b,i,x| merge(b, {x % 50L, i})))",
        &[v.clone(), numbers(50)],
    );
    check(
        "|v: vec[i64]| let d = result(for(v, dictmerger[vec[i64],i64,+], |b,i,x| merge(b, {[x % 5L, 0L], 1L})));
         sort(tovec(d), |a, b| compare(a.$0, b.$0))",
        &[v],
    );
}

#[test]
fn vecmergers_that_are_filled_in_place() {
    let v = numbers(500);
    let args = [v.clone(), numbers(500)];
    check(
        "|v: vec[i64], w: vec[i64]| result(for(v, vecmerger[i64,+](w), |b,i,x| merge(merge(b, {i, x}), {i, x * i})))",
        &args,
    );
    check(
        "|v: vec[i64], w: vec[i64]| result(for(rangeiter(7L, 490L, 3L), vecmerger[i64,max](w), |b,i,x|
             if(x % 2L == 0L, merge(b, {x, lookup(v, x)}), merge(b, {x, 500L}))))",
        &args,
    );
    check(
        "|v: vec[i64], w: vec[i64]| let r = for(v, {vecmerger[i64,+](w), vecmerger[i64,+](v), appender[i64]}, |b,i,x|
             {merge(b.$0, {i, x}), merge(b.$1, {i, x}), merge(b.$2, x)}); {result(r.$0), result(r.$1), result(r.$2)}",
        &args,
    );
    check(
        "|v: vec[i64], w: vec[i64]| let r = for(v, {vecmerger[i64,+](w), vecmerger[i64,+](v)}, |b,i,x|
             {merge(b.$0, {i, x}), merge(b.$1, {x % 500L, x})}); {result(r.$0), result(r.$1)}",
        &args,
    );
    // Beyond the end, and an error of the value before.
    check(
        "|v: vec[i64], w: vec[i64]| result(for(v, vecmerger[i64,+](w), |b,i,x| merge(b, {i, x})))",
        &[v.clone(), numbers(300)],
    );
    check(
        "|v: vec[i64], w: vec[i64]| result(for(v, vecmerger[i64,+](w), |b,i,x| merge(b, {i, 1L / (i - 200L)})))",
        &[v, numbers(300)],
    );
}

#[test]
fn vectors_and_strings_that_ranges_make() {
    check("|v: vec[i64]| result(for(v, appender[vec[i64]], |b,i,x| merge(b, [x, i, x + i])))", &[numbers(700)]);
    check(
        "|v: vec[i64]| result(for(v, appender[vec[vec[i8]]], |b,i,x|
             merge(b, [if(x > 500L, \"more than five hundred\", \"few\"), serialize(x)])))",
        &[numbers(700)],
    );
    check(
        "|v: vec[i64]| let d = result(for(v, dictmerger[vec[i8],i64,+], |b,i,x|
             merge(b, {result(for(rangeiter(0L, x % 40L, 1L), appender[i8], |b,i,x| merge(b, i8(65L + x)))), 1L})));
         sort(tovec(d), |a, b| compare(a.$0, b.$0))",
        &[numbers(2000)],
    );
    check(
        "|v: vec[i64]| let g = result(for(v, groupbuilder[vec[i8],vec[i64]], |b,i,x|
             merge(b, {result(for(rangeiter(0L, x % 20L, 1L), appender[i8], |b,i,x| merge(b, i8(65L + x)))), [i]})));
         sort(tovec(g), |a, b| compare(a.$0, b.$0))",
        &[numbers(500)],
    );
}

#[test]
fn loops_in_iterations_use_what_is_around() {
    check(
        "|v: vec[i64], n: i64| iterate({v, 0L}, |s|
             let total = result(for(s.$0, merger[i64,+], |b,i,x| merge(b, x)));
             let part = slice(s.$0, 0L, len(s.$0) - 1L);
             {{result(for(part, appender[i64], |b,i,x| merge(b, (x * 31L + total + n) % 1009L))), s.$1 + total},
              len(part) > 100L})",
        &[numbers(150), V::i64(5)],
    );
    // Vectors of vectors that outlive the step in which they were made.
    check(
        "|n: i64| iterate({[0L], 0L}, |s|
             let made = result(for(rangeiter(0L, 40L, 1L), appender[vec[i64]], |b,i,x| merge(b, [x, s.$1, len(s.$0)])));
             {{lookup(made, s.$1 % 40L), s.$1 + 1L}, s.$1 < n})",
        &[V::i64(100)],
    );
}

#[test]
fn nothing_to_merge_leaves_signs_and_nan_alone() {
    let odd = V::vec([f64::NAN, -0.0, 0.0, f64::INFINITY].map(V::f64));
    for op in ["+", "*", "min", "max"] {
        let text = format!(
            "|v: vec[i64], w: vec[f64]| {{result(for(v, vecmerger[f64,{op}](w), |b,i,x| if(x < 0L, merge(b, {{0L, 1.0}}), b))),
             result(for(v, merger[f64,{op}](lookup(w, 0L)), |b,i,x| if(x < 0L, merge(b, 1.0), b))),
             result(for(v, merger[f64,{op}](-0.0), |b,i,x| if(x < 0L, merge(b, 1.0), b)))}}"
        );
        check(&text, &[numbers(100), odd.clone()]);
    }
}

#[test]
fn sums_of_floats_are_the_same_each_time() {
    let compiled = parallel("|v: vec[f64]| result(for(v, merger[f64,+], |b,i,x| merge(b, sin(x))))", true);
    let v = V::vec((0..5000).map(|i| V::f64(f64::from(i) * 0.37)));
    let sum = || show(&run(&compiled, std::slice::from_ref(&v)).expect("runs"));
    let first = sum();
    for _ in 0..50 {
        assert_eq!(sum(), first);
    }
}

#[test]
fn strict_loops_and_small_ones_stay_on_one_thread() {
    let options = Options { threads: THREADS, ..Options::default() };
    for text in [
        "|v: vec[f64]| result(@(strict:true) for(v, merger[f64,+], |b,i,x| merge(b, x)))",
        "|v: vec[f64]| result(for(rangeiter(0L, 100L, 1L), merger[i64,+], |b,i,x| merge(b, x)))",
        "|v: vec[f64]| result(@(grain_size:51) for(rangeiter(0L, 100L, 1L), merger[i64,+], |b,i,x| merge(b, x)))",
        "|v: vec[f64]| result(@(grain_size:18446744073709551615) for(rangeiter(0L, 100L, 1L), merger[i64,+], |b,i,x|
             merge(b, x)))",
    ] {
        let compiled = compile(&parse_program(text).expect("parses"), &options).expect("compiles");
        assert!(!compiled.llvm_ir().contains("weld_parallel_for"), "{text}");
    }
}

#[test]
fn a_grain_may_be_asked_for() {
    let options = Options { threads: THREADS, ..Options::default() };
    for grain in ["0", "1", "50"] {
        let text =
            format!("result(@(grain_size:{grain}) for(rangeiter(0L, 100L, 1L), merger[i64,+], |b,i,x| merge(b, x)))");
        let compiled = compile(&parse_program(&text).expect("parses"), &options).expect("compiles");
        assert!(compiled.llvm_ir().contains("weld_parallel_for"), "{text}");
        assert_eq!(run(&compiled, &[]).map(|sum| show(&sum)), Ok("4950".to_owned()));
    }
}

#[test]
fn the_first_error_counts() {
    // Iterations 432 and 901 divide by zero, 650 and more look up what is not there.
    let text = "|v: vec[i64]| result(for(v, appender[i64], |b,i,x|
        merge(b, 10L / ((i - 432L) * (i - 901L)) + lookup(v, if(i > 649L, i + 1000L, i)))))";
    check(text, &[numbers(1000)]);
    let text = "|v: vec[i64]| result(for(v, appender[i64], |b,i,x| merge(b, lookup(v, if(i > 649L, i + 1000L, i)))))";
    for _ in 0..20 {
        check(text, &[numbers(1000)]);
    }
}

#[test]
fn an_error_stops_what_comes_after_it() {
    // The last iterations would never end.
    let text = "|v: vec[i64]| result(for(v, merger[i64,+], |b,i,x|
        merge(b, if(i > 500L, iterate(0L, |s| {s + 1L, true}), 1L / (i - 30L)))))";
    check(text, &[numbers(1000)]);
}

/// An endless program ends soon after its flag is set.
fn check_cancelled(text: &str, arg: &V) {
    for optimised in [false, true] {
        let compiled = parallel(text, optimised);
        let cancel = Arc::new(AtomicBool::new(false));
        let context = Context::new(Arc::new(Limit::none()), cancel.clone());
        let result = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                cancel.store(true, Ordering::Relaxed);
            });
            run_in(&compiled, context, std::slice::from_ref(arg))
        });
        assert_eq!(result.map_err(|error| error.kind), Err(RuntimeErrorKind::Cancelled));
    }
}

#[test]
fn all_threads_stop_when_the_run_is_cancelled() {
    let text = "|v: vec[i64]| result(for(v, merger[i64,+], |b,i,x| merge(b, iterate(x, |s| {s + 1L, true}))))";
    check_cancelled(text, &numbers(1000));
}

#[test]
fn memory_limits_hold_and_threads_do_not_lower_them() {
    let text = "|v: vec[i64]| result(for(v, appender[i64], |b,i,x| if(x >= 0L, merge(b, x), b)))";
    let v = numbers(100_000);
    let limit = |bytes| Context::new(Arc::new(Limit::new(bytes)), Arc::default());
    for optimised in [false, true] {
        let compiled = parallel(text, optimised);
        let refused = run_in(&compiled, limit(300_000), std::slice::from_ref(&v));
        assert_eq!(refused.map_err(|error| error.kind), Err(RuntimeErrorKind::OutOfMemory));
        // The result takes 800 kB; growing by doubling takes up to 1.6 MB. Parts of it need as much again.
        let granted = run_in(&compiled, limit(1_700_000), std::slice::from_ref(&v)).expect("there is enough for one");
        assert_eq!(show(&granted), show(&v));
    }
}

/// A pool that refuses the request of one number.
struct RefusesOnce {
    requests: AtomicU64,
    refused: u64,
}

impl MemoryPool for RefusesOnce {
    fn try_grow(&self, _bytes: usize) -> bool {
        self.requests.fetch_add(1, Ordering::Relaxed) != self.refused
    }

    fn shrink(&self, _bytes: usize) {}
}

#[test]
fn a_range_without_memory_is_not_repeated_by_halves() {
    let texts = [
        "|v: vec[i64]| let bs = for(v, {vecmerger[i64,+](v), appender[i64]},
            |b,i,x| {merge(b.$0, {i, x}), if(x > 5L, merge(b.$1, x), b.$1)}); {result(bs.$0), result(bs.$1)}",
        "|v: vec[i64]| let bs = for(v, {vecmerger[i64,+](v), appender[i64], dictmerger[i64,i64,+]},
            |b,i,x| {merge(b.$0, {i, x}), merge(b.$1, x), merge(b.$2, {x, 1L})});
            {result(bs.$0), result(bs.$1), len(tovec(result(bs.$2)))}",
        "|v: vec[i64]| result(for(v, vecmerger[i64,+](v), |b,i,x|
            merge(b, {i, len(result(for(v, appender[i64], |c,j,y| if(y < x, merge(c, y), c))))})))",
    ];
    let v = numbers(200);
    for (text, optimised) in texts.iter().flat_map(|text| [(text, false), (text, true)]) {
        let compiled = parallel(text, optimised);
        let expected = show(&run(&compiled, std::slice::from_ref(&v)).expect("there is memory"));
        for refused in 0..60 {
            let pool = Arc::new(RefusesOnce { requests: AtomicU64::new(0), refused });
            match run_in(&compiled, Context::new(pool, Arc::default()), std::slice::from_ref(&v)) {
                Ok(value) => assert!(show(&value) == expected, "{text}\n{refused}: {}", show(&value)),
                Err(error) => assert_eq!(error.kind, RuntimeErrorKind::OutOfMemory, "{text}"),
            }
        }
    }
}

#[test]
fn results_keep_no_threads() {
    let text = "|v: vec[i64]| result(for(v, appender[i64], |b,i,x| merge(b, x)))";
    let options = Options { threads: 3, grain: Some(10), ..Options::default() };
    let compiled = compile(&parse_program(text).expect("parses"), &options).expect("compiles");
    let threads = Threads::shared(3);
    let args = [Value::vector::<i64>((0..1000).collect::<Vec<_>>())];
    let result = compiled.run(&Arc::new(Context::unlimited()), &args).expect("runs");
    drop(compiled);
    assert_eq!((Arc::strong_count(&threads), result.len()), (1, Some(1000)));
}

#[test]
fn parts_are_freed() {
    // Each step's parts take 24 kB and more; all of them together do not fit.
    let text = "|v: vec[i64], n: i64| iterate({0L, 0L}, |s|
        let t = result(for(v, appender[i64], |b,i,x| if(x >= s.$0 % 3L, merge(b, x), b)));
        {{s.$0 + 1L, s.$1 + len(t)}, s.$0 < n})";
    let compiled = parallel(text, true);
    let pool = Arc::new(Limit::new(400_000));
    let result = run_in(&compiled, Context::new(pool.clone(), Arc::default()), &[numbers(3000), V::i64(200)]);
    assert!(result.is_ok(), "{result:?}");
    assert_eq!(pool.used(), 0);
}

/// Numbers in no order, many of them twice and more.
fn scrambled(count: i64) -> V {
    V::vec((0..count).map(|i| V::i64(i * 7919 % 1009 - 500)))
}

#[test]
fn sorts_are_stable_and_the_same_without_an_order() {
    for count in [0, 1, 2, 19, 20, 21, 33, 1000, 4099] {
        check("|v: vec[i64]| sort(v, |a, b| compare(a, b))", &[scrambled(count)]);
        // Equal keys keep their order.
        check(
            "|v: vec[i64], m: i64| let pairs = result(for(v, appender[{i64,i64}], |b,i,x| merge(b, {x % m, i})));
             sort(pairs, |a, b| compare(b.$0, a.$0))",
            &[scrambled(count), V::i64(10)],
        );
        check("|v: vec[i64]| sort(v, |a, b| i32(a * b % 5L) - 2)", &[scrambled(count)]);
    }
    let odd = [f64::NAN, 3.0, -0.0, f64::INFINITY, 1.5, 0.0];
    let floats = V::vec((0..500).map(|i| V::f64(odd[i * 7 % 6] * if i % 5 == 0 { -1.0 } else { 1.0 })));
    check("|v: vec[f64]| sort(v, |a, b| compare(a, b))", &[floats]);
}

#[test]
fn sorts_by_what_comparators_make() {
    // Strings, captured vectors and tables, vectors made on the way.
    check(
        "|v: vec[i64]| let names = result(for(v, appender[vec[i8]], |b,i,x| merge(b, if(x % 3L == 0L, \"a long string of bytes\",
             serialize(x))))); sort(names, |a, b| compare(a, b))",
        &[scrambled(700)],
    );
    check(
        "|v: vec[i64], w: vec[i64]| let d = result(for(w, dictmerger[i64,i64,+], |b,i,x| merge(b, {i, x})));
         sort(v, |a, b| i32(lookup(w, (a + 500L) % 50L) + lookup(d, (a + 500L) % 40L) - lookup(w, (b + 500L) % 50L)))",
        &[scrambled(700), numbers(50)],
    );
    check(
        "|v: vec[i64]| sort(v, |a, b| compare(
             result(for(rangeiter(0L, 3L, 1L), appender[i64], |c,i,y| merge(c, a * y % 7L))),
             result(for(rangeiter(0L, 3L, 1L), appender[i64], |c,i,y| merge(c, b * y % 7L)))))",
        &[scrambled(300)],
    );
}

#[test]
fn the_first_error_of_a_sort_counts() {
    for _ in 0..10 {
        check("|v: vec[i64]| sort(v, |a, b| compare(10L / (a - 7L), 10L / (b + 123L)))", &[scrambled(1000)]);
        check("|v: vec[i64]| sort(v, |a, b| i32(lookup(v, a) - lookup(v, b)))", &[scrambled(1000)]);
    }
}

#[test]
fn sorts_stop_when_the_run_is_cancelled() {
    let text = "|v: vec[i64]| sort(v, |a, b| i32(iterate(a, |s| {s + 1L, true})))";
    check_cancelled(text, &scrambled(1000));
}

#[test]
fn memory_limits_of_sorts_hold() {
    let text = "|v: vec[i64]| sort(v, |a, b| let t = [a, b, a]; compare(lookup(t, 0L), lookup(t, 1L)))";
    let v = scrambled(20_000);
    for optimised in [false, true] {
        let compiled = parallel(text, optimised);
        // The numbers take 160 kB, the result 160 kB.
        for (bytes, fits) in [(100_000, false), (250_000, false), (330_000, true)] {
            let pool = Arc::new(Limit::new(bytes));
            let found = run_in(&compiled, Context::new(pool.clone(), Arc::default()), std::slice::from_ref(&v));
            assert_eq!(found.is_ok(), fits, "{bytes}");
            drop(found);
            assert_eq!(pool.used(), 0);
        }
    }
}

#[test]
fn entries_of_tables() {
    for count in [0, 1, 50, 2000] {
        check(
            "|v: vec[i64]| let d = result(for(v, dictmerger[{i64,bool},{i64,i64},+], |b,i,x| merge(b, {{x, x > 3L}, {i, 1L}})));
             sort(tovec(d), |a, b| compare(a.$0, b.$0))",
            &[scrambled(count)],
        );
    }
}

/// Groups of many rows, as entries in the order of the table.
const GROUPS: &str = "|v: vec[i64], factor: i64, few: i64| tovec(result(for(v, groupbuilder[i64,{i64,i8}], |b,i,x|
    merge(b, {(x + i * 7919L) % few * factor, {i, i8(i)}}))))";

#[test]
fn groups_are_the_same_on_any_number_of_threads() {
    let program = parse_program(GROUPS).expect("parses");
    let alone = compile(&program, &Options::default()).expect("compiles");
    // Dense keys and others, with and without repetitions, and some of which there are many.
    for (factor, few) in [(1, 100_003), (1, 5_000), (1_000_003, 100_003), (1_000_003, 5_000), (1, 3)] {
        let args = [V::vec((0..100_000).map(|_| V::i64(0))), V::i64(factor), V::i64(few)];
        let expected = run(&alone, &args).expect("runs");
        for optimised in [false, true] {
            assert!(
                show(&run(&parallel(GROUPS, optimised), &args).expect("runs")) == show(&expected),
                "{factor} {few}"
            );
        }
    }
}

#[test]
fn memory_limits_of_groups_hold_and_the_first_error_counts() {
    let v = V::vec((0..100_000).map(|_| V::i64(0)));
    let limit = |bytes| Context::new(Arc::new(Limit::new(bytes)), Arc::default());
    for (compiled, few) in [(parallel(GROUPS, false), 100_003), (parallel(GROUPS, true), 5_000)] {
        let args = [v.clone(), V::i64(1), V::i64(few)];
        // The rows take 1.7 MB.
        let refused = run_in(&compiled, limit(2_000_000), &args);
        assert_eq!(refused.map_err(|error| error.kind), Err(RuntimeErrorKind::OutOfMemory));
        assert!(run_in(&compiled, limit(50_000_000), &args).is_ok());
    }
    let text = "|v: vec[i64]| result(for(v, groupbuilder[i64,i64], |b,i,x| merge(b, {10L / (i - 70000L), 10L / (i - 80000L)})))";
    check(text, &[v]);
    let text =
        "|v: vec[i64]| result(for(v, groupbuilder[i64,i64], |b,i,x| merge(b, {x, iterate(x, |s| {s + 1L, true})})))";
    check_cancelled(text, &numbers(1000));
}
