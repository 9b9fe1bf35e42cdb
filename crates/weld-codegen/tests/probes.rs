//! Rows that are joined with tables a chunk at a time, against the interpreter: tables of every kind and size, keys of every type.

use std::sync::Arc;

use weld_codegen::{Chunk, Column, OptLevel, Options, Tiers, compile};
use weld_core::interp::json::to_json;
use weld_core::interp::{self, Limits, Value as V};
use weld_core::{opt, parse_program};
use weld_runtime::Context;

/// Keys of a table's rows `x`, and of the stream's rows `r`: types, and expressions that meet for some of them.
const KEYS: [(&str, &str, &str); 14] = [
    ("i64", "x", "r.$0"),
    ("i64", "x / 3L", "r.$0 - 5L"),
    ("i64", "x * 1000003L", "r.$0 * 1000003L"),
    ("i64", "x % 13L * 1000003L", "r.$0 * 1000003L"),
    ("i32", "i32(x * 5L) - 1000", "i32(r.$0) - 1000"),
    ("u16", "u16(x % 100L)", "u16(r.$0)"),
    ("i8", "i8(x)", "i8(r.$0)"),
    ("u64", "u64(x) + u64(-1L)", "u64(r.$0) + u64(-1L)"),
    ("i128", "i128(x)", "i128(r.$0)"),
    ("{i64,i32}", "{x % 300L, i32(x % 3L)}", "{r.$0, r.$1}"),
    ("f64", "if(x == 7L, -0.0, f64(x) / 2.0)", "if(r.$0 == 3L, 0.0 / 0.0, f64(r.$0))"),
    ("{f32,{bool,i64}}", "{f32(x % 7L), {x % 2L == 0L, x}}", "{f32(r.$0 % 7L), {r.$1 == 1, r.$0}}"),
    (
        "vec[i8]",
        "if(x % 2L == 0L, \"even\", \"odd numbers are longer\")",
        "if(r.$0 % 3L == 0L, \"even\", if(r.$0 % 3L == 1L, \"odd numbers are longer\", \"neither is among them\"))",
    ),
    (
        "{vec[i8],i64}",
        "{if(x % 2L == 0L, \"even\", \"odd numbers are longer\"), x}",
        "{if(r.$0 % 3L == 0L, \"even\", \"odd numbers are longer\"), r.$0}",
    ),
];

fn numbers(rows: usize) -> (Vec<i64>, Vec<i32>) {
    let number = |row: usize| (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    ((0..rows).map(|row| number(row) as i64 % 3500 - 100).collect(), (0..rows).map(|row| row as i32 % 3).collect())
}

/// The same from the interpreter, of the program as it is written, and from compiled code over chunks of several sizes. Rows are
/// looked for by number, unless groups by such keys may be dense.
fn check(text: &str, (level, tiers): (OptLevel, Tiers), may_be_dense: bool) {
    let written = parse_program(text).unwrap_or_else(|errors| panic!("{text}\n{errors:?}"));
    let (a, b) = numbers(2300);
    let rows = V::vec(a.iter().zip(&b).map(|(a, b)| V::structure([V::i64(*a), V::i32(*b)])));
    let expected = interp::run(&written, &[rows], &Limits::default()).expect("it runs");
    let mut program = written.clone();
    opt::optimize(&mut program, &opt::Config::default());
    assert_ne!(program.to_string().contains("find_row"), may_be_dense, "{program}");
    let compiled = compile(&program, &Options { level, tiers, ..Options::default() })
        .unwrap_or_else(|error| panic!("{error}\n{program}"));
    let mut stream = compiled.stream(Arc::new(Context::unlimited()), Vec::new()).expect("starts");
    for range in [0..0, 0..1, 1..700, 700..2300] {
        let columns = vec![Column::values(&a[range.clone()]), Column::values(&b[range.clone()])];
        stream.process(&Chunk::new(range.len(), columns)).expect("runs");
    }
    let found = stream.finish().expect("ends").to_interp().expect("a value");
    assert_eq!(to_json(&found), to_json(&expected), "{program}");
}

const O2: (OptLevel, Tiers) = (OptLevel::O2, Tiers::Single);

#[test]
fn groups_by_keys_of_all_types() {
    for (number, (ty, key, probe)) in KEYS.into_iter().enumerate() {
        for n in [[0, 1, 300][number % 3], 2500] {
            let text = format!(
                "|s: stream[{{i64,i32}}]|
                let d = result(for(rangeiter(0L, {n}L, 1L), groupbuilder[{ty},{{i64,i8,vec[i8]}}],
                    |b,i,x| merge(b, {{{key}, {{x, i8(x), if(x % 3L == 0L, \"abc\", \"a longer string\")}}}})));
                result(for(s, merger[{{i64,i64,i64,i64}},+], |b,i,r| if(r.$0 % 5L != 0L,
                    let m = optlookup(d, {probe});
                    if(m.$0, for(m.$1, merge(b, {{1L, 0L, 0L, 0L}}), |b2,j,v|
                        merge(b2, {{0L, v.$0 * (j + 1L), i64(v.$1) * r.$0, len(v.$2)}})), b), b)))"
            );
            check(&text, O2, matches!(ty, "i64" | "i32" | "u16" | "i8" | "u64"));
        }
    }
}

/// Two tables, one of groups and one of sums, whose keys are both of the row.
#[test]
fn two_tables() {
    let pairs = KEYS.iter().zip(KEYS.iter().cycle().skip(4));
    for (number, ((ty, key, probe), (other_ty, other_key, other_probe))) in pairs.enumerate() {
        let n = [40, 2500][number % 2];
        let text = format!(
            "|s: stream[{{i64,i32}}]|
                let d = result(for(rangeiter(0L, {n}L, 1L), groupbuilder[{ty},i64], |b,i,x| merge(b, {{{key}, x}})));
                let e = result(for(rangeiter(0L, {n}L, 1L), dictmerger[{other_ty},{{i64,i64}},+],
                    |b,i,x| merge(b, {{{other_key}, {{x, 1L}}}})));
                result(for(s, merger[{{i64,i64,i64}},+], |b,i,r|
                    let m = optlookup(d, {probe});
                    if(m.$0, for(m.$1, b, |b2,j,v|
                        let o = optlookup(e, {other_probe});
                        if(o.$0, merge(b2, {{v + j, o.$1.$0 - v, o.$1.$1}}), b2)), b)))"
        );
        let levels = [O2, (OptLevel::O0, Tiers::Single), (OptLevel::O2, Tiers::Alternate)];
        check(&text, levels[number % 3], false);
    }
}

/// What is found is a key of groups, and merged into them.
#[test]
fn groups_of_what_is_found() {
    let text = "|s: stream[{i64,i32}]|
        let d = result(for(rangeiter(0L, 2000L, 1L), dictmerger[i64,{i64,i32},{+,max}],
            |b,i,x| merge(b, {x % 1500L * 1000003L, {x, i32(x % 5L)}})));
        sort(tovec(result(for(s, dictmerger[{i32,i32},{i64,i64,i64,i64},{+,max,min,+}], |b,i,r|
            let m = optlookup(d, r.$0 * 1000003L);
            if(m.$0, merge(b, {{m.$1.$1, r.$1}, {m.$1.$0, r.$0, r.$0, 1L}}), b)))),
            |a, b| compare(a.$0, b.$0))";
    check(text, O2, false);
}

/// A group that was found by its row is where a lookup finds it.
#[test]
fn groups_lie_where_they_are() {
    let text = "|s: stream[{i64,i32}]|
        let d = result(for(rangeiter(0L, 3000L, 1L), groupbuilder[{i64,i32},{i8,i64}],
            |b,i,x| merge(b, {{x % 1700L, i32(x % 2L)}, {i8(x), x}})));
        result(for(s, merger[{i64,i64},+], |b,i,r|
            let m = optlookup(d, {r.$0, r.$1});
            if(m.$0, for(m.$1, b, |b2,j,v|
                let again = lookup(d, {r.$0, r.$1});
                merge(b2, {1L, first_row(d, m.$1) - first_row(d, again)})), b)))";
    check(text, O2, false);
}

/// Tables so large that their memory is asked for ahead: of groups with one value and with several, and of others.
#[test]
fn large_tables() {
    for (key, probe) in [("{x * 3L, i32(x % 2L)}", "{r.$0 * 60L, r.$1}"), ("{x / 2L, 1}", "{r.$0 * 10L, r.$1}")] {
        let text = format!(
            "|s: stream[{{i64,i32}}]|
            let d = result(for(rangeiter(0L, 70000L, 1L), groupbuilder[{{i64,i32}},{{i64,{{i32,bool}}}}],
                |b,i,x| merge(b, {{{key}, {{x, {{i32(x), true}}}}}})));
            let e = result(for(rangeiter(0L, 40000L, 1L), dictmerger[i64,i64,+], |b,i,x| merge(b, {{x * 3L, x}})));
            result(for(s, merger[{{i64,i64}},+], |b,i,r|
                let m = optlookup(d, {probe});
                if(m.$0, let o = optlookup(e, r.$0 * 4L); if(o.$0,
                    for(m.$1, b, |b2,j,v| merge(b2, {{v.$0 + o.$1, i64(v.$1.$0) * (j + 1L)}})), b), b)))"
        );
        check(&text, O2, false);
    }
}
