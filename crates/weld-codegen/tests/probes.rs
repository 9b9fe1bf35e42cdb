//! Rows that are joined with tables a chunk at a time, against the interpreter: tables of every kind and size, keys of
//! every type.

use std::sync::Arc;

use weld_codegen::{Chunk, Column, Layout, OptLevel, Options, Tiers, compile};
use weld_core::interp::json::to_json;
use weld_core::interp::{self, Limits, Value as V};
use weld_core::ir::Literal;
use weld_core::ty::ScalarKind;
use weld_core::{opt, parse_program};
use weld_runtime::{ColumnAbi, Context, StringView};

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

/// The same from the interpreter, of the program as it is written, and from compiled code over chunks of several sizes.
/// Rows are looked for by number, unless groups by such keys may be dense.
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

/// A chunk of the stream in [`texts`]: for each row its text by number, none for null; and the dictionary's number.
struct Texts {
    rows: Vec<Option<usize>>,
    dictionary: u64,
    /// The first of them moves to the end: another dictionary has other codes.
    turned: usize,
    coded: bool,
}

const TEXTS: usize = 90;

fn text(number: usize) -> String {
    match number % 3 {
        0 => format!("t{number}"),
        1 => format!("a text of more bytes: {number}"),
        _ => format!("text {number:07}"),
    }
}

/// Texts of a chunk's dictionary are looked for once each: the same rows as by their bytes, whatever dictionary a chunk
/// has.
#[test]
fn texts_by_code() {
    let chunk = |start: usize, rows: usize, dictionary: u64, nulls: bool, coded: bool| Texts {
        rows: (start..start + rows).map(|row| (!nulls || row % 7 != 0).then_some(row * 31 % TEXTS)).collect(),
        dictionary,
        turned: dictionary as usize % TEXTS,
        coded,
    };
    let numbered = [chunk(0, 1100, 4, false, true), chunk(9, 700, 4, false, true), chunk(2, 1500, 5, false, true)];
    let mixed = [
        chunk(0, 800, 7, true, true),
        chunk(3, 800, 7, false, true),
        chunk(5, 300, 7, true, true),
        chunk(1, 300, 0, true, true),
        chunk(4, 900, 0, true, false),
        chunk(8, 1100, 8, true, true),
    ];
    // Every second text has groups, in one table of a key and two values at most.
    let names: Vec<String> =
        (0..TEXTS).filter(|number| number % 2 == 0).map(|number| format!("{:?}", text(number))).collect();
    let names = names.iter().chain(&names[..20]).cloned().collect::<Vec<_>>().join(", ");
    for (nullable, key, guard) in [(false, "r.$0", "true"), (true, "r.$0.$0", "r.$0.$1")] {
        let ty = if nullable { "{vec[i8],bool}" } else { "vec[i8]" };
        let inner = format!(
            "let m = optlookup(d, {key});
             if(m.$0, for(m.$1, merge(b, {{1L, 0L, r.$1}}), |b2,j,v| merge(b2, {{0L, v, v * r.$1}})), b)"
        );
        let probes = [
            format!("if({guard}, {inner}, b)"),
            // What has no match merges too, so rows are looked for one by one.
            format!("if({guard}, if(keyexists(d, {key}), merge(b, {{1L, 2L, 3L}}), merge(b, {{0L, 1L, r.$1}})), b)"),
            format!("let o = optlookup(e, {key}); merge(b, {{o.$1.$1, o.$1.$0, if(o.$0, 1L, 0L)}})"),
        ];
        for probe in probes {
            let written = format!(
                "|s: stream[{{{ty},i64}}]|
                let names = [{names}];
                let d = result(for(names, groupbuilder[vec[i8],i64], |b,i,x| merge(b, {{x, i}})));
                let e = result(for(names, dictmerger[vec[i8],{{i64,i64}},+], |b,i,x| merge(b, {{x, {{i, 1L}}}})));
                result(for(s, merger[{{i64,i64,i64}},+], |b,i,r| {probe}))"
            );
            for chunks in [&numbered[..], &mixed[..]].into_iter().take(if nullable { 2 } else { 1 }) {
                for (level, tiers) in [O2, (OptLevel::O0, Tiers::Single), (OptLevel::O2, Tiers::Alternate)] {
                    check_texts(&written, chunks, nullable, Options { level, tiers, ..Options::default() });
                }
            }
        }
    }
}

fn check_texts(written: &str, chunks: &[Texts], nullable: bool, options: Options) {
    let mut program = parse_program(written).unwrap_or_else(|errors| panic!("{written}\n{errors:?}"));
    let value = |(row, text_of): (usize, &Option<usize>)| {
        let bytes = text_of.map(text).unwrap_or_default();
        let key = V::vec(bytes.bytes().map(|byte| V::Scalar(Literal::I8(byte as i8))));
        let key = if nullable { V::structure([key, V::bool(text_of.is_some())]) } else { key };
        V::structure([key, V::i64(row as i64)])
    };
    let rows = V::vec(chunks.iter().flat_map(|chunk| chunk.rows.iter().enumerate().map(value).collect::<Vec<_>>()));
    let expected = interp::run(&program, &[rows], &Limits::default()).expect("it runs");
    opt::optimize(&mut program, &opt::Config::default());
    let compiled = compile(&program, &options).unwrap_or_else(|error| panic!("{error}\n{program}"));
    let mut stream = compiled.stream(Arc::new(Context::unlimited()), Vec::new()).expect("starts");
    for chunk in chunks {
        process_texts(&mut stream, chunk);
    }
    let found = stream.finish().expect("ends").to_interp().expect("a value");
    assert_eq!(to_json(&found), to_json(&expected), "{program}");
}

fn process_texts(stream: &mut weld_codegen::Stream, chunk: &Texts) {
    let kept: Vec<String> = (0..TEXTS).map(|place| text((place + chunk.turned) % TEXTS)).collect();
    let view = |text: &String| StringView::new(text.as_bytes()).expect("few bytes");
    let entries: Vec<StringView> = kept.iter().map(view).collect();
    let code = |text_of: usize| (text_of + TEXTS - chunk.turned) % TEXTS;
    // The code of a null may be anything.
    let codes: Vec<i32> = chunk.rows.iter().map(|row| row.map_or(i32::MIN, |row| code(row) as i32)).collect();
    let empty = String::new();
    let views: Vec<StringView> =
        chunk.rows.iter().map(|row| view(row.map_or(&empty, |row| &kept[code(row)]))).collect();
    let mut validity = vec![0u8; chunk.rows.len() / 8 + 1];
    for (row, _) in chunk.rows.iter().enumerate().filter(|(_, text_of)| text_of.is_some()) {
        validity[row / 8] |= 1 << (row % 8);
    }
    let has_nulls = chunk.rows.contains(&None);
    let abi = ColumnAbi { validity: if has_nulls { validity.as_ptr() } else { std::ptr::null() }, ..ColumnAbi::EMPTY };
    // SAFETY: all arrays are alive during the call and have a value for each row; codes of valid rows are in range.
    let keys = unsafe {
        match chunk.coded {
            false => Column::from_raw(Layout::Utf8View, ColumnAbi { values: views.as_ptr().cast(), ..abi }),
            true => {
                let (entries_known, dictionary_number) = (TEXTS as u64, chunk.dictionary);
                let abi = ColumnAbi { values: codes.as_ptr().cast(), entries: entries_known, dictionary_number, ..abi };
                Column::dictionary(ScalarKind::I32, abi, Column::views(&entries))
            }
        }
    };
    let numbers: Vec<i64> = (0..chunk.rows.len() as i64).collect();
    stream.process(&Chunk::new(numbers.len(), vec![keys, Column::values(&numbers)])).expect("runs");
}
