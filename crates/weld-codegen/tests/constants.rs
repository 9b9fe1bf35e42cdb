//! Constants that are parameters: compiled programs give what the interpreter gives for the program with the constants
//! in it, one program for all constants of a shape.

use std::sync::Arc;

use weld_codegen::{Chunk, Column, Compiled, Layout, OptLevel, Options, Tiers, Value, compile};
use weld_core::interp::{self, Limits};
use weld_core::ir::{Expr, ExprKind, Literal, Program, build};
use weld_core::opt::{self, Constant};
use weld_core::parse_program;
use weld_core::ty::Type;
use weld_runtime::{ColumnAbi, Context, StringView};

const EFFORTS: [(OptLevel, Tiers); 3] =
    [(OptLevel::O2, Tiers::Single), (OptLevel::O2, Tiers::CheapFirst), (OptLevel::O2, Tiers::Alternate)];

/// Puts constants in the place of the parameter `c`, and marks them.
fn with(text: &str, constant: &Expr) -> Program {
    let mut program = parse_program(text).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
    let param = program.params.pop().expect("the constant");
    program.body.rewrite(&mut |e| {
        if matches!(e.kind, ExprKind::Var(sym) if sym == param.sym) {
            *e = opt::of_query(constant.clone());
        }
    });
    program
}

fn value(constant: Constant) -> Value {
    match constant {
        Constant::Scalar(literal) => Value::scalar(literal),
        Constant::Bytes(bytes) => Value::bytes(bytes),
    }
}

/// The lifted and optimised program and its constants.
fn lifted(program: &Program) -> (Program, Vec<Value>) {
    let mut program = program.clone();
    let constants = opt::lift_constants(&mut program).into_iter().map(value).collect();
    opt::optimize(&mut program, &opt::Config::default());
    (program, constants)
}

/// Whole programs without a stream, at every level.
fn check(text: &str, constants: &[Expr], args: &[interp::Value]) {
    for constant in constants {
        let program = with(text, constant);
        let (lifted, values) = lifted(&program);
        assert!(!values.is_empty(), "{constant:?} is lifted");
        for arg in args {
            let expected = interp::run(&program, std::slice::from_ref(arg), &Limits::default()).expect("it runs");
            for level in [OptLevel::O0, OptLevel::O2] {
                let compiled = compile(&lifted, &Options { level, ..Options::default() }).expect("it compiles");
                let arg = Value::from_interp(&program.params[0].ty, arg).expect("a value");
                let args: Vec<Value> = std::iter::once(arg).chain(values.iter().cloned()).collect();
                let found = compiled.run(&Arc::new(Context::unlimited()), &args).expect("it runs");
                assert_eq!(found.to_interp().expect("a value"), expected, "{text}\n{constant:?}");
            }
        }
    }
}

#[test]
fn numbers_of_every_type() {
    let all = "result(for(v, appender[{bool,bool,bool}], |b, i, x| merge(b, {x < c, x == c, x >= c})))";
    macro_rules! integers {
        ($($kind:ident $name:ident)*) => {$({
            let values = [$name::MIN, $name::MAX, 0, 1, 100, $name::MIN + 1, $name::MAX - 1];
            let column = interp::Value::vec(values.map(|value| interp::Value::Scalar(Literal::$kind(value))));
            let constants = values.map(|value| build::lit(Literal::$kind(value)));
            check(&format!("|v: vec[{}], c: {}| {all}", stringify!($name), stringify!($name)), &constants, &[column]);
        })*};
    }
    integers!(I8 i8 I16 i16 I32 i32 I64 i64 U8 u8 U16 u16 U32 u32 U64 u64);
    let values = [0, -1, i128::from(i64::MIN), i128::from(i64::MAX), i128::from(i64::MAX) + 1, i128::MIN, i128::MAX];
    let column = interp::Value::vec(values.map(|value| interp::Value::Scalar(Literal::I128(value))));
    check(&format!("|v: vec[i128], c: i128| {all}"), &values.map(build::i128), &[column]);
}

#[test]
fn floats_with_nan_and_both_zeros() {
    let values = [0.0, -0.0, 1.5, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE];
    let column = interp::Value::vec(values.map(interp::Value::f64));
    let as_numbers = "result(for(v, appender[{bool,bool,bool}], |b, i, x| merge(b, {x < c, x == c, x >= c})))";
    let in_order = "result(for(v, appender[{bool,bool}], |b, i, x|
        merge(b, {order_key(x) < order_key(c), order_key(x) == order_key(c)})))";
    for body in [as_numbers, in_order] {
        check(&format!("|v: vec[f64], c: f64| {body}"), &values.map(build::f64), std::slice::from_ref(&column));
        let values = values.map(|value| value as f32);
        let column = interp::Value::vec(values.map(|value| interp::Value::Scalar(Literal::F32(value))));
        let constants = values.map(|value| build::lit(Literal::F32(value)));
        check(&format!("|v: vec[f32], c: f32| {body}"), &constants, &[column]);
    }
}

/// Strings of all lengths around those that a view holds, that differ at the start, at the end or in length.
fn texts() -> Vec<String> {
    let mut texts = vec![String::new()];
    for len in 1..16 {
        let text: String = "abcdefghijklmnop".chars().take(len).collect();
        texts.extend([format!("{}X", &text[1..]), format!("X{}", &text[1..]), format!("{text}\0"), text]);
    }
    texts
}

const TEXT: &str = "|s: stream[{vec[u8],i64}], c: vec[u8]| result(for(s, appender[{i64,bool,bool}], |b, i, r|
    if(r.$0 == c || r.$0 > c, merge(b, {r.$1, r.$0 == c, c <= r.$0}), b)))";

/// The rows that come out of a stream of texts, stored as views or as offsets.
fn rows(compiled: &Arc<Compiled>, constants: &[Value], texts: &[String], as_views: bool) -> interp::Value {
    let mut stream = compiled.stream(Arc::new(Context::unlimited()), constants.to_vec()).expect("it starts");
    let numbers: Vec<i64> = (0..texts.len() as i64).collect();
    let views: Vec<StringView> = texts.iter().map(|text| StringView::new(text.as_bytes()).expect("short")).collect();
    let data: String = texts.concat();
    let mut offsets = vec![0i32];
    texts.iter().for_each(|text| offsets.push(offsets[offsets.len() - 1] + text.len() as i32));
    for (chunk, range) in [0..texts.len() / 2, texts.len() / 2..texts.len()].into_iter().enumerate() {
        let column = match as_views != (chunk == 1) {
            // SAFETY: the texts outlive the stream.
            true => unsafe { Column::views(&views[range.clone()]) },
            // SAFETY: the texts and their offsets outlive the stream, one more than there are rows.
            false => unsafe {
                let abi = ColumnAbi {
                    values: offsets[range.start..].as_ptr().cast(),
                    data: data.as_ptr(),
                    ..ColumnAbi::EMPTY
                };
                Column::from_raw(Layout::Utf8, abi)
            },
        };
        let columns = vec![column, Column::values(&numbers[range.clone()])];
        stream.process(&Chunk::new(range.len(), columns)).expect("it runs");
    }
    stream.finish().expect("it ends").to_interp().expect("a value")
}

#[test]
fn strings_of_every_length() {
    let texts = texts();
    let columns = interp::Value::vec(texts.iter().enumerate().map(|(number, text)| {
        let bytes = text.bytes().map(|byte| interp::Value::Scalar(Literal::U8(byte)));
        interp::Value::structure([interp::Value::vec(bytes), interp::Value::i64(number as i64)])
    }));
    for constant in texts.iter().filter(|text| text.len() != 6) {
        let program = with(TEXT, &build::bytes(constant.as_bytes()));
        let expected = interp::run(&program, std::slice::from_ref(&columns), &Limits::default()).expect("it runs");
        let (lifted, constants) = lifted(&program);
        assert_eq!(constants.len(), 1);
        for (level, tiers) in EFFORTS.into_iter().take(if constant.len() % 5 == 1 { 3 } else { 1 }) {
            let options = Options { level, tiers, ..Options::default() };
            let compiled = compile(&lifted, &options).expect("it compiles");
            for as_views in [true, false] {
                assert_eq!(rows(&compiled, &constants, &texts, as_views), expected, "{constant:?}");
            }
        }
    }
}

/// Arrow's views, whose bytes lie in buffers or in themselves: what is only compared for equality is looked for in the
/// buffers where length and first bytes are the same. What lies under a null names no buffer.
#[test]
fn views_that_are_compared_for_equality() {
    let text = "|s: stream[{vec[u8],{vec[u8],bool},i64}], c: vec[u8]| result(for(s, appender[{i64,bool,bool,bool}],
        |b, i, r| if(r.$0 == c || r.$1.$0 != c, merge(b, {r.$2, r.$0 == c, r.$1.$0 == c, r.$0 == r.$1.$0}), b)))";
    let long = "of these the first bytes and the length are the same";
    let texts = ["", "short", "twelve bytes", long, &long.replace('m', "n"), &long[..40], "another long text", "short"];
    let (data, mut start) = (texts.concat().into_bytes(), 0);
    let buffers = [data.as_ptr()];
    let mut view = |text: &str| -> [u64; 2] {
        let at = u64::try_from(start).expect("few bytes");
        start += text.len();
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&(text.len() as u32).to_le_bytes());
        let inside = &text.as_bytes()[..if text.len() > StringView::INLINE_MAX { 4 } else { text.len() }];
        bytes[4..4 + inside.len()].copy_from_slice(inside);
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        let high = if inside.len() < text.len() { at << 32 } else { word(&bytes[8..]) };
        [word(&bytes[..8]), high]
    };
    let views: Vec<[u64; 2]> = texts.iter().map(|text| view(text)).collect();
    let is_valid = [true, true, false, true, false, true, true, false];
    let validity = [is_valid.iter().rev().fold(0u8, |bits, valid| bits << 1 | u8::from(*valid))];
    let mut nullable = views.clone();
    for (view, valid) in nullable.iter_mut().zip(is_valid) {
        if !valid {
            *view = [long.len() as u64 | view[0] >> 32 << 32, u64::MAX];
        }
    }
    let numbers: Vec<i64> = (0..texts.len() as i64).collect();
    let bytes = |text: &str| interp::Value::vec(text.bytes().map(|byte| interp::Value::Scalar(Literal::U8(byte))));
    let rows = interp::Value::vec((0..texts.len()).map(|row| {
        let text = if is_valid[row] { texts[row] } else { "" };
        let nullable = interp::Value::structure([bytes(text), interp::Value::bool(is_valid[row])]);
        interp::Value::structure([bytes(texts[row]), nullable, interp::Value::i64(numbers[row])])
    }));
    for constant in texts {
        let program = with(text, &build::bytes(constant.as_bytes()));
        let expected = interp::run(&program, std::slice::from_ref(&rows), &Limits::default()).expect("it runs");
        let (lifted, constants) = lifted(&program);
        for (level, tiers) in EFFORTS {
            let compiled = compile(&lifted, &Options { level, tiers, ..Options::default() }).expect("it compiles");
            let mut stream = compiled.stream(Arc::new(Context::unlimited()), constants.clone()).expect("it starts");
            let abi = ColumnAbi { buffers: buffers.as_ptr(), ..ColumnAbi::EMPTY };
            let of = |values: &[[u64; 2]]| ColumnAbi { values: values.as_ptr().cast(), ..abi };
            // SAFETY: views, buffers and validity are alive during the call.
            let columns = unsafe {
                vec![
                    Column::from_raw(Layout::Utf8View, of(&views)),
                    Column::from_raw(Layout::Utf8View, ColumnAbi { validity: validity.as_ptr(), ..of(&nullable) }),
                    Column::values(&numbers),
                ]
            };
            stream.process(&Chunk::new(texts.len(), columns)).expect("it runs");
            let found = stream.finish().expect("it ends").to_interp().expect("a value");
            assert_eq!(found, expected, "{constant:?} {level:?} {tiers:?}");
        }
    }
}

/// One program serves all constants of which the same is known, and refuses the others.
#[test]
fn what_is_known_is_checked() {
    let [two, other, three] = ["ab", "cd", "abc"].map(|text| with(TEXT, &build::bytes(text.as_bytes())));
    let [two, other, three] = [two, other, three].map(|program| lifted(&program));
    assert_eq!(two.0.fingerprint(), other.0.fingerprint());
    assert_ne!(two.0.fingerprint(), three.0.fingerprint());
    let compiled = compile(&two.0, &Options::default()).expect("it compiles");
    for constants in [&two.1, &other.1] {
        assert!(compiled.stream(Arc::new(Context::unlimited()), constants.clone()).is_ok());
    }
    assert!(compiled.stream(Arc::new(Context::unlimited()), three.1).is_err());

    let [long, longer] = ["abcdefghijklm", "another that a view does not hold"].map(|text| {
        let (program, constants) = lifted(&with(TEXT, &build::bytes(text.as_bytes())));
        (program.fingerprint(), compile(&program, &Options::default()).expect("it compiles"), constants)
    });
    assert_eq!(long.0, longer.0);
    assert!(long.1.stream(Arc::new(Context::unlimited()), longer.2).is_ok());
    assert!(long.1.stream(Arc::new(Context::unlimited()), two.1).is_err());

    let wide = "|x: i128, c: i128| x < c";
    let (short, _) = lifted(&with(wide, &build::i128(5)));
    let compiled = compile(&short, &Options::default()).expect("it compiles");
    for (constant, fits) in
        [(-5, true), (i128::from(i64::MIN), true), (i128::from(i64::MAX) + 1, false), (1 << 64, false)]
    {
        let found = compiled.run(&Arc::new(Context::unlimited()), &[Value::i128(-6), Value::i128(constant)]);
        assert_eq!(found.is_ok(), fits, "{constant}");
    }
}

/// Sums of decimals are taken in 64 bits beside conditions on constants, as they are beside constants.
#[test]
fn sums_are_narrow_beside_lifted_constants() {
    let text = "|s: stream[{i128,i128}], c: i128| result(for(s, merger[i128,+], |b, i, r|
        if(r.$0 < c, merge(b, checked_mul(r.$0, r.$1)), b)))";
    let (program, _) = lifted(&with(text, &build::i128(300)));
    assert!(program.to_string().contains("merger[i64,+]"), "{program}");
    assert_eq!(program.params[1].ty, Type::I128);
}
