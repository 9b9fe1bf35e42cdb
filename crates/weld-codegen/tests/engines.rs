//! Programs through the interpreter and through compiled code, with and without the optimizer and LLVM's passes.

use std::sync::Arc;

use weld_codegen::{CVec, Cudf, ForeignHost, OptLevel, Options, Value, compile};
use weld_core::interp::{self, Limits, Value as V};
use weld_core::ir::{Literal, Program};
use weld_core::ty::Type;
use weld_core::{Frontend, Signature, opt, parse_program};
use weld_runtime::Context;

fn parse(text: &str) -> Program {
    parse_program(text).unwrap_or_else(|errors| panic!("{text}\n{errors:?}"))
}

/// All engines give the interpreter's result, or all fail as it does.
fn check(text: &str, args: &[V]) {
    let program = parse(text);
    let expected = interp::run(&program, args, &Limits::default());
    let mut optimised = program.clone();
    opt::optimize(&mut optimised, &opt::Config::default());
    for (program, name) in [(&program, "as written"), (&optimised, "optimised")] {
        for level in [OptLevel::O0, OptLevel::O1, OptLevel::O2] {
            let options = Options { level, ..Options::default() };
            let compiled = compile(program, &options).unwrap_or_else(|error| panic!("{error}\n{program}"));
            let values: Vec<Value> = program
                .params
                .iter()
                .zip(args)
                .map(|(param, arg)| Value::from_interp(&param.ty, arg).expect("arguments convert"))
                .collect();
            let result = compiled.run(&Arc::new(Context::unlimited()), &values);
            match (&expected, result) {
                (Ok(expected), Ok(result)) => {
                    let result = result.to_interp().expect("results convert");
                    assert!(close(expected, &result), "{text}\n{name} {level:?}\n{expected:?}\n{result:?}");
                }
                (Err(expected), Err(error)) => {
                    assert_eq!(expected.kind, error.kind, "{text}\n{name} {level:?}");
                    assert_eq!(expected.message, error.message, "{text}\n{name} {level:?}");
                }
                (expected, result) => panic!("{text}\n{name} {level:?}\n{expected:?}\n{result:?}\n{program}"),
            }
        }
    }
}

/// Floats may differ in their last bits: sums are regrouped.
fn close(a: &V, b: &V) -> bool {
    match (a, b) {
        (V::Scalar(Literal::F64(a)), V::Scalar(Literal::F64(b))) => {
            a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
        }
        (V::Scalar(Literal::F32(a)), V::Scalar(Literal::F32(b))) => {
            a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-4 * a.abs().max(b.abs())
        }
        (V::Vec(a), V::Vec(b)) => a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| close(a, b)),
        (V::Struct(a), V::Struct(b)) => a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| close(a, b)),
        (V::Dict(a), V::Dict(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| close(a.0, b.0) && close(a.1, b.1))
        }
        _ => a == b,
    }
}

fn ints(values: impl IntoIterator<Item = i64>) -> V {
    V::vec(values.into_iter().map(V::i64))
}

#[test]
fn scalars() {
    for (text, args) in [
        ("|x: i64, y: i64| x * y - x % y + x / y", [V::i64(17), V::i64(-5)]),
        ("|x: i64, y: i64| x / y", [V::i64(1), V::i64(0)]),
        ("|x: i64, y: i64| x / y", [V::i64(i64::MIN), V::i64(-1)]),
        ("|x: i64, y: i64| x % y", [V::i64(i64::MIN), V::i64(-1)]),
        (
            "|x: i64, y: i64| {min(x, y), max(x, y), x < y, x >= y, x == y, x & y, x | y, x ^ y}",
            [V::i64(3), V::i64(-4)],
        ),
        (
            "|x: i64, y: i64| {i8(x), u8(x), i16(x), u16(y), i32(y), u32(y), u64(y), f32(x), f64(y), bool(x), i128(y)}",
            [V::i64(300), V::i64(-7)],
        ),
        ("|x: i64, y: i64| {checked_add(x, y), checked_sub(x, y)}", [V::i64(i64::MAX), V::i64(-1)]),
        ("|x: i64, y: i64| checked_mul(x, y)", [V::i64(i64::MAX), V::i64(2)]),
        ("|x: i64, y: i64| {round_div(x, y), magnitude(x), magnitude(y)}", [V::i64(15), V::i64(-10)]),
        ("|x: i64, y: i64| i128(x) * i128(y) * 1000000007LL / 13LL", [V::i64(i64::MAX), V::i64(-977)]),
        (
            "|x: i64, y: i64| {year(i32(x)), month(i32(x)), day(i32(x)), year(i32(y)), month(i32(y)), day(i32(y))}",
            [V::i64(19_000), V::i64(-800_000)],
        ),
        ("|x: i64, y: i64| if(x > y && y / x > 0L, x, y)", [V::i64(0), V::i64(5)]),
        ("|x: i64, y: i64| assert(x < y, \"ordered\")", [V::i64(9), V::i64(5)]),
        ("|x: i64, y: i64| iterate({x, 0L}, |s| {{s.$0 / y, s.$1 + 1L}, s.$0 > 0L})", [V::i64(1000), V::i64(3)]),
    ] {
        check(text, &args);
    }
}

#[test]
fn floats() {
    let text = "|x: f64, y: f64| {x + y, x - y, x * y, x / y, x % y, min(x, y), max(x, y), pow(x, y), x < y, x <= y,
        x == y, x != y, -x, i32(x), u8(x), i64(y), bool(x), f32(x), order_key(x), order_key(f32(y))}";
    let values = [0.0, -0.0, 1.5, -2.25, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e300, 300.7];
    let program = parse(text);
    let compiled = compile(&program, &Options::default()).expect("compiles");
    for x in values {
        for y in values {
            let expected = interp::run(&program, &[V::f64(x), V::f64(y)], &Limits::default()).expect("total");
            let context = Arc::new(Context::unlimited());
            let result = compiled.run(&context, &[Value::f64(x), Value::f64(y)]).expect("total");
            let result = result.to_interp().expect("converts");
            assert!(close(&expected, &result), "{x} {y}\n{expected:?}\n{result:?}");
        }
    }
    check(
        "|x: f64| {exp(x), log(x), sqrt(x), sin(x), cos(x), tan(x), asin(x), acos(x), atan(x), sinh(x), cosh(x), tanh(x),
            erf(x), erf(f32(x)), exp(f32(x))}",
        &[V::f64(0.3)],
    );
}

#[test]
fn loops() {
    for n in [0, 1, 2, 7, 100, 40_000] {
        let v = ints((0..n).map(|i| i * 7 % 1000 - 300));
        for text in [
            "|v: vec[i64]| result(for(v, merger[i64,+], |b,i,x| merge(b, x * i)))",
            "|v: vec[i64]| result(for(v, merger[{i64,i64,i64},{+,min,max}]({1L,5L,6L}), |b,i,x| merge(b, {x,x,i})))",
            "|v: vec[i64]| result(for(v, appender[i64], |b,i,x| if(x > 0L, merge(b, x), b)))",
            "|v: vec[i64]| result(for(v, appender[i64](len(v)), |b,i,x| if(x > 0L, merge(b, x + i), b)))",
            "|v: vec[i64]| result(for(v, appender[{i64,f64,bool}], |b,i,x| merge(merge(b, {x,f64(i),x>i}), {i,1.0,true})))",
            "|v: vec[i64]| result(for(v, appender, |b,i,x| if(x % 3L == 0L, merge(b, x), if(x < 0L, merge(merge(b, 1L), 2L), b))))",
            "|v: vec[i64]| let bs = for(v, {appender[i64], merger[i64,+]}, |b,i,x| {merge(b.$0, x), if(x > 5L, merge(b.$1, x), b.$1)}); {result(bs.$0), result(bs.$1)}",
            "|v: vec[i64]| result(for(v, vecmerger[i64,+]([1L,2L,3L]), |b,i,x| merge(b, {i % 3L, x})))",
            "|v: vec[i64]| result(for(v, vecmerger[i64,+]([1L,2L,3L]), |b,i,x| merge(b, {i % 4L, x})))",
            "|v: vec[i64]| result(for(zip(v, rangeiter(0L, len(v), 1L)), merger[i64,+], |b,i,x| merge(b, x.$0 * x.$1)))",
            "|v: vec[i64]| result(for(zip(v, [1L,2L]), merger[i64,+], |b,i,x| merge(b, x.$0 * x.$1)))",
            "|v: vec[i64]| result(for(iter(v, 1L, len(v), 3L), appender[i64], |b,i,x| merge(b, x + i)))",
            "|v: vec[i64]| result(for(rangeiter(5L, len(v), 3L), appender[i64], |b,i,x| merge(b, x * 10L + i)))",
            "|v: vec[i64]| result(for(chunkiter(v, 16L), appender[i64], |b,i,c| let s = result(for(c, appender[i32](len(c)), |sb,j,x| if(x > 10L, merge(sb, i32(j)), sb))); for(s, b, |b,k,j| merge(b, lookup(c, i64(j)))))) ",
            "|v: vec[i64]| result(for(v, appender[vec[i64]], |b,i,x| merge(b, result(for(rangeiter(0L, x % 4L, 1L), appender[i64], |c,j,y| merge(c, y + x))))))",
            "|v: vec[i64]| let s = slice(v, 1L, 5L); {len(s), len(v)}",
            "|v: vec[i64]| lookup(v, 3L)",
            "|v: vec[i64]| update(v, 1L, 99L)",
            "|v: vec[i64]| result(for(v, merger[f64,+], |b,i,x| merge(b, sqrt(f64(x * x)))))",
            "|v: vec[i64]| result(for(v, merger[i64,+], |b,i,x| for(v, b, |b,j,y| if(j < 3L, merge(b, x * y), b))))",
            "|v: vec[i64]| map(v, |x| x + 1L)",
            "|v: vec[i64]| filter(map(v, |x| x + 1L), |x| x % 2L == 0L)",
            "|v: vec[i64]| iterate({v, 0L}, |s| {{map(s.$0, |x| x * 2L), s.$1 + 1L}, s.$1 < 5L})",
            "|v: vec[i64]| {[len(v), 2L], if(len(v) > 3L, v, [1L])}",
        ] {
            if n > 1000 && text.contains("for(v, b") {
                continue;
            }
            check(text, std::slice::from_ref(&v));
        }
    }
}

#[test]
fn bytes() {
    let texts =
        ["", "a", "ab", "abc", "abcd", "abcde", "12345678", "123456789", "twelve bytes", "thirteen byte", "x y"];
    let strings = V::vec(texts.map(|text| V::vec(text.bytes().map(|b| V::Scalar(Literal::U8(b))))));
    for text in [
        "|v: vec[vec[u8]]| result(for(v, appender[i64], |b,i,s| merge(b, len(s))))",
        "|v: vec[vec[u8]]| result(for(v, appender[vec[u8]], |b,i,s| merge(b, s)))",
        "|v: vec[vec[u8]]| result(for(v, appender[{i64,vec[u8]}], |b,i,s| if(len(s) > 3L, merge(b, {i, slice(s, 1L, 20L)}), b)))",
        "|v: vec[vec[u8]]| result(for(v, appender[u8], |b,i,s| for(s, b, |b,j,c| merge(b, c))))",
        "|v: vec[vec[u8]]| lookup(v, 4L)",
        "|v: vec[vec[u8]]| if(len(v) > 3L, lookup(v, 9L), lookup(v, 0L))",
        "|v: vec[vec[u8]]| lookup(lookup(v, 4L), 2L)",
    ] {
        check(text, std::slice::from_ref(&strings));
    }
}

#[test]
fn other_iterators() {
    let v = ints(0..24);
    for text in [
        "|v: vec[i64]| result(for(nditer(v, [0L,0L,0L], [2L,3L,4L], [1L,2L,1L], [2L,3L,4L], [12L,1L,3L]), appender[i64], |b,i,x| merge(b, x + 100L * i)))",
        "|v: vec[i64]| result(for(nditer(v, [0L], [25L], [1L], [25L], [1L]), appender[i64], |b,i,x| merge(b, x)))",
        "|v: vec[i64]| result(for(fringeiter(v), for(simditer(v), merger[i64,+], |b,i,x| merge(b, x * broadcast(2L))), |b,i,x| merge(b, x)))",
        "|v: vec[i64]| result(for(simditer(v), appender[i64], |b,i,x| merge(b, select(x > broadcast(3L), x, -x))))",
    ] {
        check(text, std::slice::from_ref(&v));
    }
}

#[test]
fn c_functions_are_called_through_pointers() {
    extern "C" fn add_five(x: &i64, result: &mut i64) {
        *result = x + 5;
    }
    extern "C" fn sum_of(values: &CVec<'_, f64>, result: &mut f64) {
        *result = values.as_slice().iter().sum();
    }
    #[repr(C)]
    struct Mixed {
        small: i8,
        wide: i128,
        values: CVec<'static, i32>,
        flag: bool,
    }
    extern "C" fn turn(mixed: &Mixed, by: &i128, result: &mut Mixed) {
        let values = std::mem::replace(&mut result.values, CVec::EMPTY);
        assert!(values.as_slice().is_empty(), "the result's place is zero");
        *result = Mixed { small: -mixed.small, wide: mixed.wide * by, values: CVec::EMPTY, flag: !mixed.flag };
        assert_eq!(mixed.values.as_slice(), [3, 4]);
    }
    let mixed = weld_core::parse_type("{i8,i128,vec[i32],bool}").expect("a type");
    let signature = Signature { params: vec![mixed.clone(), Type::I128], result: mixed };
    // SAFETY: the function is as its signature says.
    let turn = unsafe { Cudf::new("turn", signature, turn as *const () as usize) };
    let cudfs = vec![Cudf::unary("add_five", add_five), Cudf::unary("sum_of", sum_of), turn];
    let front = Frontend { cudfs: cudfs.iter().map(Cudf::declaration).collect() };
    let text = "|x: i64| {cudf[add_five,i64](x), cudf[sum_of,f64]([1.0, 2.5, f64(x)]),
        cudf[turn,{i8,i128,vec[i32],bool}]({1c, 5LL, [3, 4], true}, 100000000000000000000LL)}";
    let program = front.parse_program(text).unwrap_or_else(|errors| panic!("{errors:?}"));
    let turned = [Literal::I8(-1), Literal::I128(500_000_000_000_000_000_000)].map(V::Scalar);
    let turned = V::structure(turned.into_iter().chain([V::vec([]), V::Scalar(Literal::Bool(false))]));
    let expected = V::structure([V::i64(12), V::f64(10.5), turned]);
    for level in [OptLevel::O0, OptLevel::O2] {
        let options = Options { level, cudfs: cudfs.clone(), ..Options::default() };
        let compiled = compile(&program, &options).unwrap_or_else(|error| panic!("{error}"));
        let result = compiled.run(&Arc::new(Context::unlimited()), &[Value::i64(7)]).expect("runs");
        assert_eq!(result.to_interp().as_ref(), Ok(&expected));
    }
    let host = ForeignHost::new(&cudfs).expect("compiles");
    assert_eq!(interp::run_with_host(&program, &[V::i64(7)], &Limits::default(), &host), Ok(expected));
    assert!(compile(&program, &Options::default()).is_err(), "nothing is looked up in the process");
}
