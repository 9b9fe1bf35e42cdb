//! Numberers over streams: rows chunk by chunk with the numbers of their groups, which hold across chunks, code and
//! partitions.

use std::sync::Arc;

use weld_codegen::{Chunk, Column, Compiled, Layout, OptLevel, Options, Stream, Tiers, compile};
use weld_core::interp::Value as V;
use weld_core::interp::json::to_json;
use weld_core::{opt, parse_program};
use weld_runtime::{ColumnAbi, Context};

const LEVELS: [(OptLevel, Tiers); 4] = [
    (OptLevel::O0, Tiers::Single),
    (OptLevel::O2, Tiers::Single),
    (OptLevel::O2, Tiers::CheapFirst),
    (OptLevel::O2, Tiers::Alternate),
];

fn compiled(text: &str, (level, tiers): (OptLevel, Tiers)) -> Arc<Compiled> {
    let mut program = parse_program(text).unwrap_or_else(|errors| panic!("{text}\n{errors:?}"));
    opt::optimize(&mut program, &opt::Config::default());
    compile(&program, &Options { level, tiers, ..Options::default() })
        .unwrap_or_else(|error| panic!("{error}\n{program}"))
}

fn start(program: &Arc<Compiled>) -> Stream {
    program.stream(Arc::new(Context::unlimited()), Vec::new()).expect("starts")
}

/// The fields of a struct, or the elements of a vector.
fn parts(value: &V) -> Vec<V> {
    match value {
        V::Struct(fields) => fields.to_vec(),
        V::Vec(items) => items.to_vec(),
        other => panic!("{other:?}"),
    }
}

fn number(value: &V) -> i64 {
    to_json(value).as_i64().expect("a number")
}

/// Keys and values of 20,000 rows, in chunks of many sizes; the rows, each with the key that its number stands for in
/// the end.
fn by_chunks(text: &str, level: (OptLevel, Tiers)) -> (Vec<(i64, i64)>, Vec<V>) {
    let program = compiled(text, level);
    assert!(program.streams_rows(), "{}", program.program());
    let mut stream = start(&program);
    let mut numbered = Vec::new();
    let keys: Vec<i64> = (0..20_000).map(|x| x * 7919 % 3001).collect();
    let mut from = 0;
    for size in [0, 1, 5, 1024, 3, 4096].iter().cycle() {
        let to = (from + size).min(keys.len());
        let values: Vec<i64> = (from as i64..to as i64).collect();
        let columns = vec![Column::values(&keys[from..to]), Column::values(&values)];
        stream.process(&Chunk::new(to - from, columns)).expect("runs");
        assert!(stream.pending_rows() <= to - from);
        let rows = stream.rows().expect("rows").value().to_interp().expect("converts");
        numbered.extend(parts(&rows));
        from = to;
        if from == keys.len() {
            break;
        }
    }
    let result = parts(&stream.finish().expect("finishes").to_interp().expect("converts"));
    assert!(parts(&result[1]).is_empty(), "the rows were taken");
    let entries = parts(&result[0]);
    let row = |row: &V| {
        let row = parts(row);
        let key = &parts(&entries[number(&row[0]) as usize])[0];
        (number(key), number(&parts(&row[1])[0]))
    };
    (numbered.iter().map(row).collect(), entries)
}

#[test]
fn rows_come_chunk_by_chunk() {
    // Plain, in strips and hashed ahead, of selected rows, with few groups.
    for (text, keeps, key) in [
        (
            "|s: stream[{i64,i64}]|
             let n = result(for(s, numberer[i64,i64,+,{i64}], |b, i, r| merge(b, {r.$0, 1L, {r.$1}})));
             {tovec(n.$0), n.$1}",
            1,
            None,
        ),
        (
            "|s: stream[{i64,i64}]|
             let n = result(for(s, numberer[{i64,bool},{i64,i64,f64},{+,max,+},{i64,f64}], |b, i, r|
               merge(b, {{r.$0, r.$0 > 9L}, {1L, r.$1, f64(r.$1)}, {r.$1, 0.5}})));
             {map(tovec(n.$0), |e| {e.$0.$0, e.$1.$0}), n.$1}",
            1,
            None,
        ),
        (
            "|s: stream[{i64,i64}]|
             let n = result(for(s, numberer[i64,{i64,i64},{+,max},{i64,i64}], |b, i, r|
               if(r.$1 % 3L == 0L, merge(b, {r.$0, {1L, r.$1}, {r.$1, r.$0}}), b)));
             {map(tovec(n.$0), |e| {e.$0, e.$1.$0}), n.$1}",
            3,
            None,
        ),
        (
            "|s: stream[{i64,i64}]|
             let n = result(for(s, numberer[i64,{i64,i64,i64},{+,max,+},{i64}], |b, i, r|
               merge(b, {r.$0 % 5L, {1L, r.$1, r.$0}, {r.$1}})));
             {map(tovec(n.$0), |e| {e.$0, e.$1.$0}), n.$1}",
            1,
            Some(5),
        ),
    ] {
        for level in LEVELS {
            let (rows, entries) = by_chunks(text, level);
            let kept = (0..20_000).filter(|x| x % keeps == 0);
            let expected: Vec<(i64, i64)> =
                kept.map(|x| (x * 7919 % 3001, x)).map(|(k, x)| (key.map_or(k, |m| k % m), x)).collect();
            assert!(rows == expected, "{text} {level:?}");
            let counts: i64 = entries.iter().map(|entry| number(&parts(entry)[1])).sum();
            assert_eq!((counts as usize, entries.len()), (expected.len(), key.unwrap_or(3001) as usize), "{level:?}");
        }
    }
}

/// A chunk of one string and a number.
fn process(stream: &mut Stream, text: &str, value: i64) {
    let data = text.as_bytes().to_vec();
    let offsets = [0i32, data.len() as i32];
    let abi = ColumnAbi { values: offsets.as_ptr().cast(), data: data.as_ptr(), ..ColumnAbi::EMPTY };
    let values = [value];
    // SAFETY: offsets and data are alive during the call.
    let text = unsafe { Column::from_raw(Layout::Utf8, abi) };
    stream.process(&Chunk::new(1, vec![text, Column::values(&values)])).expect("runs");
}

#[test]
fn partitions_are_combined() {
    let text = "|s: stream[{vec[u8],i64}]|
        let n = result(for(s, numberer[vec[u8],i64,+,{vec[u8],i64}], |b, i, r| merge(b, {r.$0, 1L, {r.$0, r.$1}})));
        let entries = tovec(n.$0);
        {map(n.$1, |r| {lookup(entries, r.$0).$0, r.$1.$0, r.$1.$1}), sum(map(entries, |e| e.$1))}";
    let keys = ["short", "a key that is rather long", "another key that is rather long", "fig"];
    for level in LEVELS {
        let program = compiled(text, level);
        let mut first = start(&program);
        (0..10).for_each(|value| process(&mut first, keys[value % 2], value as i64));
        let mut second = start(&program);
        (10..20).for_each(|value| process(&mut second, keys[3 - value % 3], value as i64));
        assert!(first.rows().is_none(), "rows that are read are kept");
        first.combine(second).expect("combines");
        // One more, and a run without rows.
        process(&mut first, keys[3], 20);
        first.combine(start(&program)).expect("combines");
        let result = parts(&first.finish().expect("finishes").to_interp().expect("converts"));
        let rows = parts(&result[0]);
        assert_eq!((rows.len(), number(&result[1])), (21, 21));
        for (value, row) in rows.iter().enumerate() {
            let row = parts(row);
            let key = if value < 10 { keys[value % 2] } else { keys[if value < 20 { 3 - value % 3 } else { 3 }] };
            assert_eq!((&row[0], &row[1], number(&row[2])), (&V::vec(bytes(key)), &V::vec(bytes(key)), value as i64));
        }
    }
}

fn bytes(text: &str) -> impl Iterator<Item = V> {
    text.bytes().map(|byte| V::Scalar(weld_core::ir::Literal::U8(byte)))
}
