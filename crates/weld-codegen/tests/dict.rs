//! Dictionaries, sorting and string search: what the compiled program gives against the interpreter.

use std::collections::HashSet;
use std::sync::Arc;

use weld_codegen::{Chunk, Column, Options, Value, compile};
use weld_core::interp;
use weld_core::ir::{ExprKind, Literal, Program, build};
use weld_core::op::Intrinsic;
use weld_core::opt::{self, Config};
use weld_core::ty::Type;
use weld_core::{RuntimeErrorKind, parse_program};
use weld_runtime::{Context, StringView};

fn parse(source: &str) -> Program {
    parse_program(source).unwrap_or_else(|errors| panic!("{errors:?}\n{source}"))
}

/// Scalars of a scalar or of a (nested) struct of them.
fn scalars(value: &Value) -> Vec<Literal> {
    match value.ty() {
        Type::Struct(fields) => (0..fields.len()).flat_map(|i| scalars(&value.field(i).unwrap())).collect(),
        _ => value.as_scalar().into_iter().collect(),
    }
}

fn expected_scalars(value: &interp::Value) -> Vec<Literal> {
    match value {
        interp::Value::Struct(fields) => fields.iter().flat_map(expected_scalars).collect(),
        interp::Value::Scalar(literal) => vec![*literal],
        _ => Vec::new(),
    }
}

fn program(source: &str) -> Arc<weld_codegen::Compiled> {
    compile(&parse(source), &Options::default()).unwrap_or_else(|error| panic!("{error}\n{source}"))
}

/// A program of no arguments whose result is made of scalars: the same from interpreter and compiler.
fn check(source: &str) {
    let program = parse(source);
    let expected = interp::run(&program, &[], &interp::Limits::default());
    let mut optimized = program.clone();
    opt::optimize(&mut optimized, &Config::default());
    for program in [&program, &optimized] {
        let compiled = compile(program, &Options::default()).unwrap_or_else(|error| panic!("{error}\n{source}"));
        let result = compiled.run(&Arc::new(Context::unlimited()), &[]);
        match (&expected, result) {
            (Ok(expected), Ok(result)) => assert_eq!(scalars(&result), expected_scalars(expected), "{source}"),
            (Err(expected), Err(error)) => assert_eq!(expected.kind, error.kind, "{source}"),
            (expected, result) => panic!("{expected:?} is expected, not {result:?}\n{source}"),
        }
    }
}

/// Sums up a dictionary of integer values in a way that does not depend on its order.
const SUM: &str = "let entries = tovec(d);
    let n = len(entries);
    result(for(entries, merger[{i64,i64},+], |b,i,e| merge(b, {i64(e.$1), n})))";

#[test]
fn dictmergers_of_all_key_types() {
    for (ty, key) in [
        ("i64", "x % 37L"),
        ("i64", "x * 1000003L"),
        ("i32", "i32(x % 37L)"),
        ("u8", "u8(x)"),
        ("i8", "i8(x)"),
        ("u64", "u64(x) * u64(9223372036854775807L)"),
        ("i128", "i128(x % 5L) * i128(9223372036854775807L)"),
        ("bool", "x % 3L == 0L"),
        ("f64", "f64(x % 7L) / 2.0"),
        ("f64", "if(x % 3L == 0L, 0.0 / 0.0, if(x % 3L == 1L, 0.0, -0.0))"),
        ("f32", "f32(x % 7L)"),
        ("{i32,i64}", "{i32(x % 5L), x % 7L}"),
        ("{i8,{f64,bool}}", "{i8(x % 5L), {f64(x % 3L), x % 2L == 0L}}"),
        ("vec[i64]", "result(for(rangeiter(0L, x % 5L, 1L), appender[i64], |b,i,y| merge(b, y)))"),
        ("vec[f64]", "if(x % 2L == 0L, [0.0, 1.0], [-0.0, 1.0])"),
        ("vec[i8]", "if(x % 2L == 0L, \"short\", \"a string that is longer than twelve\")"),
        (
            "{vec[i8],vec[i8]}",
            "{if(x % 2L == 0L, \"A\", \"B\"), if(x % 3L == 0L, \"exactly twlve\", \"thirteen char\")}",
        ),
        ("vec[vec[i8]]", "if(x % 2L == 0L, [\"a\", \"a longer string than that\"], [\"a\"])"),
    ] {
        for n in [0, 1, 100, 1500] {
            check(&format!(
                "let d = result(for(rangeiter(0L, {n}L, 1L), dictmerger[{ty},i64,+], |b,i,x| merge(b, {{{key}, x}}))); {SUM}"
            ));
        }
    }
}

#[test]
fn dictmergers_of_struct_values_and_ops() {
    check(
        "let d = result(for(rangeiter(0L, 1000L, 1L),
            dictmerger[i64,{i64,f64,i32,i128,u8,bool},{+,min,max,+,&,|}],
            |b,i,x| merge(b, {x % 10L, {x, f64(x), i32(x), i128(x), u8(x), x == 55L}})));
        let v = lookup(d, 5L);
        {v.$0, v.$1, v.$2, v.$3, v.$4, v.$5, keyexists(d, 10L), optlookup(d, 11L).$0, optlookup(d, 11L).$1}",
    );
    check(
        "let d = result(merge(merge(dictmerger[i64,{i64,i64},*], {1L, {2L, 3L}}), {1L, {5L, 7L}}));
        {lookup(d, 1L), optlookup(d, 2L)}",
    );
}

#[test]
fn lookups() {
    check("let d = result(merge(dictmerger[i64,i64,+], {1L, 2L})); lookup(d, 3L)");
    check(
        "let d = result(for(rangeiter(0L, 100000L, 1L), dictmerger[i64,i64,+], |b,i,x| merge(b, {x * 77L, x})));
        let hits = result(for(rangeiter(0L, 300000L, 1L), merger[{i64,i64},+], |b,i,x|
            let m = optlookup(d, x * 7L);
            merge(b, {if(m.$0, 1L, 0L), m.$1})));
        let may = result(for(rangeiter(0L, 7700000L, 77L), merger[i64,+], |b,i,x|
            merge(b, if(may_contain(d, x), 1L, 0L))));
        {hits, may}",
    );
    check(
        "let d = result(merge(merge(dictmerger[vec[i8],i64,+], {\"\", 2L}), {\"twelve chars\", 3L}));
        {lookup(d, \"\"), lookup(d, \"twelve chars\"), keyexists(d, \"twelve charz\"), optlookup(d, \"thirteen char\")}",
    );
}

#[test]
fn groupbuilders() {
    for (ty, key, probe) in [
        ("i64", "x", "y"),
        ("i64", "x % 13L", "y"),
        ("i64", "x * 1000003L", "y * 1000003L"),
        ("i64", "x % 13L * 1000003L", "y * 1000003L"),
        ("i32", "i32(x * 5L) - 1000", "i32(y) - 1000"),
        ("u16", "u16(x % 100L)", "u16(y)"),
        ("i8", "i8(x)", "i8(y)"),
        ("u64", "u64(x) + u64(-1L)", "u64(y) + u64(-1L)"),
        ("i128", "i128(x)", "i128(y)"),
        ("{i64,i32}", "{x % 10L, i32(x % 3L)}", "{y, 1}"),
        ("f64", "f64(x)", "f64(y)"),
        (
            "vec[i8]",
            "if(x % 2L == 0L, \"even\", \"odd numbers are longer\")",
            "if(y % 2L == 0L, \"even\", \"odd numbers are longer\")",
        ),
    ] {
        for n in [0, 1, 300, 3000] {
            check(&format!(
                "let d = result(for(rangeiter(0L, {n}L, 1L), groupbuilder[{ty},{{i64,i8,vec[i8]}}],
                    |b,i,x| merge(b, {{{key}, {{x, i8(x), if(x % 3L == 0L, \"abc\", \"a longer string\")}}}})));
                let probed = result(for(rangeiter(-5L, 400L, 1L), merger[{{i64,i64,i64,i64}},+], |b,i,y|
                    let m = optlookup(d, {probe});
                    let b2 = merge(b, {{if(m.$0, 1L, 0L), if(keyexists(d, {probe}), 1L, 0L), len(m.$1),
                        if(m.$0 && !may_contain(d, {probe}), 1L, 0L)}});
                    for(m.$1, b2, |b,j,r| merge(b, {{r.$0 * (j + 1L), i64(r.$1), len(r.$2), 0L}}))));
                let all = result(for(tovec(d), merger[{{i64,i64}},+], |b,i,e|
                    for(e.$1, merge(b, {{1L, 0L}}), |b,j,r| merge(b, {{r.$0, j + 1L}}))));
                {{probed, all}}"
            ));
        }
    }
}

/// The values of all groups have numbers from zero on, each its own: hashed and dense, unique and not, none at all.
#[test]
fn rows_of_groups_are_numbered() {
    for (ty, key) in [
        ("i64", "x"),
        ("i64", "x / 3L"),
        ("i64", "x / 3L * 1000003L"),
        ("i32", "i32(x)"),
        ("{i64,i32}", "{x % 10L, 1}"),
    ] {
        for n in [0, 1, 300, 3000] {
            check(&format!(
                "let d = result(for(rangeiter(0L, {n}L, 1L), groupbuilder[{ty},{{i8,i64}}],
                    |b,i,x| merge(b, {{{key}, {{i8(x), x}}}})));
                let missed = for(rangeiter(-5L, -1L, 1L), merger[{{i64,i64,i64}},+], |b,i,x|
                    let m = optlookup(d, {key});
                    if(m.$0, b, merge(b, {{0L, first_row(d, m.$1), 0L}})));
                result(for(tovec(d), missed, |b,i,e|
                    let g = lookup(d, e.$0);
                    for(g, b, |b,j,r| let n = first_row(d, g) + j; merge(b, {{1L, n, n * n}}))))"
            ));
        }
    }
}

/// Tables so large that loops fetch ahead, by dense keys that are unique or not, and by sparse ones.
#[test]
fn lookups_in_large_tables() {
    for (key, probe) in
        [("x", "y"), ("x / 2L", "y"), ("x * 1000003L", "y * 1000003L"), ("x", "if(y % 2L == 0L, y / 3L, -y)")]
    {
        check(&format!(
            "let d = result(for(rangeiter(0L, 80000L, 1L), groupbuilder[i64,{{i64,i32}}],
                |b,i,x| merge(b, {{{key}, {{x, i32(x)}}}})));
            result(for(rangeiter(-100L, 100000L, 31L), merger[{{i64,i64}},+], |b,i,y|
                let k = {probe};
                let m = optlookup(d, k);
                if(m.$0, for(m.$1, b, |b,j,r| merge(b, {{r.$0, i64(r.$1)}})), b)))"
        ));
    }
}

/// Keys of large tables are hashed ahead of the merges: of several parts, bound before, one of two builders, by one of
/// two branches, and with the number of iterations no multiple of those hashed at a time.
#[test]
fn merges_into_large_tables() {
    for (key_ty, key) in [
        ("i64", "(x * 1000003L) % 16001L"),
        ("{i32,i64}", "{i32(x % 7L), x % 16007L}"),
        ("vec[i8]", "lookup(names, x % 16021L)"),
        ("i64", "x * 1000003L"),
        ("i64", "if(x % 3L == 0L, x % 16001L, -(x / 2L))"),
        ("{i64,bool}", "{select(x % 5L == 0L, 0L, x * 3L), x % 5L != 0L}"),
        ("vec[i8]", "if(x % 2L == 0L, lookup(names, x % 16021L), lookup(names, x % 11L))"),
    ] {
        for count in [0, 1, 127, 128, 129, 20_013] {
            check(&format!(
                "let names = result(for(rangeiter(0L, 16021L, 1L), appender[vec[i8]],
                     |b,i,x| merge(b, if(x % 2L == 0L, serialize(x), serialize({{x, x + 1L}})))));
                 let v = result(for(rangeiter(0L, {count}L, 1L), appender[i64], |b,i,x| merge(b, x)));
                 let both = for(v, {{merger[i64,+], dictmerger[{key_ty},{{i64,i64}},{{+,max}}]}}, |b,i,x|
                     let k = {key};
                     {{merge(b.$0, x), merge(b.$1, {{k, {{x, x}}}})}});
                 let entries = tovec(result(both.$1));
                 let n = len(entries);
                 {{result(both.$0), result(for(entries, merger[{{i64,i64,i64}},+],
                     |b,i,e| merge(b, {{e.$1.$0, e.$1.$1, n}})))}}"
            ));
        }
    }
}

#[test]
fn tables_made_in_a_loop() {
    check(
        "result(for(rangeiter(0L, 20L, 1L), merger[i64,+], |b,i,x|
            let d = result(for(rangeiter(0L, x, 1L), dictmerger[i64,i64,+], |b,i,y| merge(b, {y % 5L, y})));
            let m = optlookup(d, x % 7L);
            merge(b, m.$1 + len(tovec(d)))))",
    );
}

#[test]
fn groups_of_bytes_and_of_nothing() {
    check(
        "let d = result(for(rangeiter(0L, 100L, 1L), groupbuilder[i64,i8], |b,i,x| merge(b, {x % 3L, i8(x)})));
        {len(lookup(d, 0L)), lookup(lookup(d, 1L), 5L), lookup(d, 2L) < lookup(d, 1L), len(optlookup(d, 9L).$1)}",
    );
    check("let d = result(merge(groupbuilder[i64,i64], {1L, 2L})); lookup(lookup(d, 1L), 1L)");
    check("let d = result(merge(groupbuilder[i64,i64], {1L, 2L})); len(lookup(d, 2L))");
}

#[test]
fn comparisons() {
    for op in ["==", "!=", "<", "<=", ">", ">="] {
        for (a, b) in [
            ("{1, 2.0}", "{1, 3.0}"),
            ("{1, 2.0}", "{1, 2.0}"),
            ("{0.0 / 0.0, 1}", "{2.0, 0}"),
            ("{2, 0.0 / 0.0}", "{1, 0.0}"),
            ("[1, 2]", "[1, 2, 3]"),
            ("[1, 5]", "[1, 2, 3]"),
            ("[1.0, 0.0 / 0.0]", "[2.0]"),
            ("[0.0 / 0.0]", "[0.0 / 0.0]"),
            ("\"abc\"", "\"abd\""),
            ("\"\"", "\"a\""),
            ("\"\\x80\"", "\"\\x7f\""),
            ("\"exactly twlve\"", "\"exactly twlvf\""),
            ("\"exactly twlve\"", "\"exactly twlve\""),
            ("\"a string that is long, a\"", "\"a string that is long, b\""),
            ("[\"a\", \"b\"]", "[\"a\", \"c\"]"),
            ("[{1, \"x\"}]", "[{1, \"x\"}]"),
        ] {
            check(&format!("{{{a} {op} {b}, {b} {op} {a}}}"));
        }
    }
}

#[test]
fn sorts() {
    for n in [0, 1, 2, 3, 17, 1000] {
        check(&format!(
            "let v = result(for(rangeiter(0L, {n}L, 1L), appender[{{i64,i64}}], |b,i,x| merge(b, {{x * 7919L % 100L, x}})));
            let s = sort(v, |a, b| compare(a.$0, b.$0));
            result(for(s, merger[i64,+], |b,i,e| merge(b, (i + 1L) * (e.$0 * 1000L + e.$1))))"
        ));
    }
    // No order at all, a comparator that traps, strings.
    check("let s = sort([3, 1, 2], |a, b| 1); result(for(s, merger[i32,+], |b,i,x| merge(b, x)))");
    check("let v = [1L, 2L]; let s = sort(v, |a, b| i32(lookup(v, a * 10L))); lookup(s, 0L)");
    check(
        "let s = sort([\"pear\", \"apple\", \"a long kind of fruit\"], |a, b| compare(a, b));
        {lookup(s, 0L) == \"a long kind of fruit\", lookup(s, 1L) == \"apple\", lookup(s, 2L) == \"pear\"}",
    );
    check("let s = sort(\"hello\", |a, b| compare(a, b)); {s == \"ehllo\", len(s)}");
}

#[test]
fn string_search() {
    let texts = [
        "",
        "a",
        "PROMO",
        "PROMOTED STEEL",
        "SMALL BRASS",
        "a special kind of requests here",
        "50% off",
        "h\\xc3\\xa9llo",
    ];
    let patterns =
        ["", "%", "PROMO%", "%BRASS", "%special%requests%", "a", "%l%", "_", "h_llo", "50\\\\%%", "%a%a%", "PRO%D%L"];
    for text in texts {
        for pattern in patterns {
            // As constants, and as values that the compiler does not know.
            check(&format!(
                "let ts = [\"{text}\", \"other\"]; let ps = [\"{pattern}\", \"x\"];
                let t = lookup(ts, 0L); let p = lookup(ps, 0L);
                {{like(t, \"{pattern}\"), starts_with(t, \"{pattern}\"), ends_with(t, \"{pattern}\"), contains(t, \"{pattern}\"),
                like(t, p), starts_with(t, p), ends_with(t, p), contains(t, p), t == \"{pattern}\", t == p}}"
            ));
        }
    }
}

/// Programs cannot call these by name: here others stand for them until the program is parsed.
#[test]
fn groups_of_interned_texts_are_those_of_the_texts() {
    let source = "|v: vec[vec[u8]]|
        let d = result(for(v, dictmerger[{u64},i64,+], |b,i,t| merge(b, {deserialize[{u64}](serialize(t)), 1L})));
        sort(map(tovec(d), |e| {deserialize[vec[u8]](serialize(e.$0)), e.$1}), |a, b| compare(a.$0, b.$0))";
    let mut program = parse(source);
    program.body.rewrite(&mut |e| {
        let ExprKind::Deserialize(of) = &mut e.kind else { return };
        let ExprKind::Serialize(of) = &mut of.kind else { return };
        let intrinsic = if e.ty == Type::interned() { Intrinsic::Intern } else { Intrinsic::Interned };
        *e = build::intrinsic(intrinsic, [of.take()]);
    });
    let text = |text: &str| interp::Value::vec(text.bytes().map(|byte| interp::Value::Scalar(Literal::U8(byte))));
    let texts = ["", "a", "a text that lies outside of its view", "b", "twelve bytes", "thirteen byte"];
    let texts = interp::Value::vec((0..500).map(|i| text(texts[i * 7 % 11 % texts.len()])));
    let expected = interp::run(&program, std::slice::from_ref(&texts), &interp::Limits::default()).expect("it runs");
    let mut optimized = program.clone();
    opt::optimize(&mut optimized, &Config::default());
    for program in [&program, &optimized] {
        let compiled = compile(program, &Options::default()).unwrap_or_else(|error| panic!("{error}\n{program}"));
        let args = [Value::from_interp(&program.params[0].ty, &texts).expect("texts")];
        let found = compiled.run(&Arc::new(Context::unlimited()), &args).and_then(|found| found.to_interp());
        assert_eq!(found, Ok(expected.clone()), "{program}");
    }
}

#[test]
fn limits_are_errors() {
    let program = parse(
        "let d = result(for(rangeiter(0L, 100000000L, 1L), dictmerger[i64,i64,+], |b,i,x| merge(b, {x, x})));
        len(tovec(d))",
    );
    let group = parse(
        "let d = result(for(rangeiter(0L, 100000000L, 1L), groupbuilder[i64,i64], |b,i,x| merge(b, {x, x})));
        len(tovec(d))",
    );
    for program in [program, group] {
        let pool = Arc::new(weld_runtime::memory::Limit::new(10_000_000));
        let context = Context::new(pool.clone(), Default::default());
        let compiled = compile(&program, &Options::default()).unwrap();
        let error = compiled.run(&Arc::new(context), &[]).unwrap_err();
        assert_eq!(error.kind, RuntimeErrorKind::OutOfMemory);
        assert_eq!(pool.used(), 0);
    }
}

#[test]
fn serialized_values_come_back() {
    for (ty, value) in [
        ("i32", "-5"),
        ("i128", "12345678901234567890123LL"),
        ("bool", "true"),
        ("{f64,bool}", "{0.5, false}"),
        ("vec[i8]", "\"hello, a string of some length\""),
        ("vec[vec[i8]]", "[\"\", \"short\", \"a string of some length\"]"),
        ("vec[{i64,bool,{i8,vec[i32]}}]", "[{1L, true, {2c, [3, 4]}}, {5L, false, {6c, [7]}}]"),
        ("vec[bool]", "[true, false]"),
        ("{}", "{}"),
    ] {
        check(&format!("let v: {ty} = {value}; let s = serialize(v); {{deserialize[{ty}](s) == v, len(s)}}"));
    }
    for d in [
        "result(for(rangeiter(0L, 100L, 1L), dictmerger[i64,i64,+], |b,i,x| merge(b, {x % 7L, x})))",
        "result(for(rangeiter(0L, 100L, 1L), dictmerger[{vec[i8],f64},i64,+],
            |b,i,x| merge(b, {{if(x % 2L == 0L, \"a\", \"longer than twelve\"), f64(x % 3L)}, x})))",
    ] {
        let ty = if d.contains("vec[i8]") { "dict[{vec[i8],f64},i64]" } else { "dict[i64,i64]" };
        check(&format!("let d0 = {d}; let d = deserialize[{ty}](serialize(d0)); {SUM}"));
    }
    for key in ["x % 7L", "x * 1000003L", "x"] {
        check(&format!(
            "let d0 = result(for(rangeiter(0L, 100L, 1L), groupbuilder[i64,{{i64,vec[i8]}}],
                |b,i,x| merge(b, {{{key}, {{x, \"a string of some length\"}}}})));
            let d = deserialize[dict[i64,vec[{{i64,vec[i8]}}]]](serialize(d0));
            let m = optlookup(d, 3L);
            let n = optlookup(d, -3L);
            {{m.$0, len(m.$1), len(n.$1), len(tovec(d)), result(for(tovec(d), merger[i64,+], |b,i,e|
                for(e.$1, b, |b,j,r| merge(b, r.$0 * (j + 1L) * e.$0 + len(r.$1)))))}}"
        ));
    }
}

#[test]
fn bad_bytes_are_errors() {
    // Every cut, other types, wild lengths, a bool that is none, a key twice.
    for cut in 0..30 {
        check(&format!("let s = serialize([1L, 2L]); len(deserialize[vec[i64]](slice(s, 0L, {cut}L)))"));
        check(&format!(
            "let s = serialize({{[\"a\"], true}}); deserialize[{{vec[vec[i8]],bool}}](slice(s, 0L, {cut}L)).$1"
        ));
    }
    check("deserialize[i64](serialize(1))");
    check("deserialize[bool](\"W\\x01\\x00\\x02\")");
    check("deserialize[i32](\"W\\x01\\x03\\x05\\0\\0\\0\\0\")");
    check("len(deserialize[vec[i64]](\"W\\x01\\x20\\x04\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x7f\"))");
    check("keyexists(deserialize[dict[i8,i8]](\"W\\x01\\x21\\x01\\x01\\x02\\0\\0\\0\\0\\0\\0\\0aaaa\"), 5c)");
    check("keyexists(deserialize[dict[i8,i8]](\"W\\x01\\x21\\x01\\x01\\x02\\0\\0\\0\\0\\0\\0\\0aabb\"), 98c)");
}

/// Two partitions' builders combined, one of them empty or both full; and what the host sees of the table.
#[test]
fn partitions_combine() {
    let strings = ["", "short", "twelve bytes", "a string that is longer than that"];
    let keys: Vec<i64> = (0..3000).map(|i| i * 7 % 1000 - 5).collect();
    let views: Vec<StringView> =
        (0..3000).map(|i| StringView::new(strings[i % strings.len()].as_bytes()).unwrap()).collect();
    let groups = program(
        "|s: stream[{i64,vec[u8]}]| result(for(s, groupbuilder[i64,{vec[u8],i64}],
        |b,i,r| merge(b, {r.$0, {r.$1, r.$0}})))",
    );
    let sums = program(
        "|s: stream[{i64,vec[u8]}]| tovec(result(for(s, dictmerger[{vec[u8],i64},{i64,i64},{+,max}],
        |b,i,r| merge(b, {{r.$1, r.$0 % 3L}, {1L, r.$0}}))))",
    );
    for split in [0, 1, 1500, 3000] {
        let run = |compiled: &Arc<weld_codegen::Compiled>| {
            let mut parts = [0..split, split..3000].map(|range| {
                let mut stream = compiled.stream(Arc::new(Context::unlimited()), Vec::new()).unwrap();
                for at in range {
                    // SAFETY: the strings are alive.
                    let strings = unsafe { Column::views(&views[at..at + 1]) };
                    let columns = vec![Column::values(&keys[at..at + 1]), strings];
                    stream.process(&Chunk::new(1, columns)).unwrap();
                }
                stream
            });
            let [first, _] = &mut parts;
            let mut first = std::mem::replace(first, compiled.stream(Arc::new(Context::unlimited()), vec![]).unwrap());
            let [_, second] = parts;
            first.combine(second).unwrap();
            first.finish().unwrap()
        };
        let table = run(&groups);
        let dict = table.as_dict().unwrap();
        assert_eq!((dict.len(), dict.values(), dict.key_bounds()), (1000, 3000, Some((-5, 994))));
        assert!(dict.bytes() > 3000 * 24);
        let interp::Value::Vec(rows) = run(&sums).to_interp().unwrap() else { panic!("a vector") };
        let distinct: HashSet<(usize, i64)> = keys.iter().enumerate().map(|(i, key)| (i % 4, key % 3)).collect();
        assert_eq!(rows.len(), distinct.len());
        let count = |row: &interp::Value| match expected_scalars(row)[..] {
            [.., Literal::I64(count), Literal::I64(_)] => count,
            _ => panic!("{row:?}"),
        };
        assert_eq!(rows.iter().map(count).sum::<i64>(), 3000);
    }
}
