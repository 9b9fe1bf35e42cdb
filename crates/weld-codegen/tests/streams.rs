//! Programs with a stream: chunks of every layout, states that live across chunks, partitions that are combined.

use std::sync::Arc;

use weld_codegen::{Chunk, Column, CompileError, Compiled, Layout, OptLevel, Options, Tiers, Value, compile};
use weld_core::interp::json::to_json;
use weld_core::interp::{self, Limits, Value as V};
use weld_core::ir::Literal;
use weld_core::ty::ScalarKind;
use weld_core::{opt, parse_program};
use weld_runtime::{ColumnAbi, Context, Threads};

fn compiled(text: &str, (level, tiers): (OptLevel, Tiers)) -> Arc<Compiled> {
    let mut program = parse_program(text).unwrap_or_else(|errors| panic!("{text}\n{errors:?}"));
    opt::optimize(&mut program, &opt::Config::default());
    compile(&program, &Options { level, tiers, ..Options::default() })
        .unwrap_or_else(|error| panic!("{error}\n{program}"))
}

fn context() -> Arc<Context> {
    Arc::new(Context::unlimited())
}

const LEVELS: [(OptLevel, Tiers); 5] = [
    (OptLevel::O0, Tiers::Single),
    (OptLevel::O1, Tiers::Single),
    (OptLevel::O2, Tiers::Single),
    (OptLevel::O2, Tiers::CheapFirst),
    (OptLevel::O2, Tiers::Alternate),
];

#[test]
fn a_filter_gives_its_rows_chunk_by_chunk() {
    let text = "|s: stream[{i64,i32}], k: i64|
        result(for(s, appender[{i32,i64}], |b,i,r| if(r.$0 > k, merge(b, {r.$1, r.$0 + i}), b)))";
    for level in LEVELS {
        let program = compiled(text, level);
        let mut stream = program.stream(context(), vec![Value::i64(10)]).expect("starts");
        let mut seen = Vec::new();
        for chunk in [0..5, 5..5, 5..30] {
            let a: Vec<i64> = chunk.clone().collect();
            let b: Vec<i32> = chunk.map(|x| x as i32 * 2).collect();
            stream.process(&Chunk::new(a.len(), vec![Column::values(&a), Column::values(&b)])).expect("runs");
            let rows = stream.rows().expect("rows");
            let columns = rows.columns();
            seen.extend(
                columns[0]
                    .as_slice::<i32>()
                    .unwrap()
                    .iter()
                    .copied()
                    .zip(columns[1].as_slice::<i64>().unwrap().to_vec()),
            );
        }
        let expected: Vec<(i32, i64)> = (11..30).map(|x| (x as i32 * 2, x + x)).collect();
        assert_eq!(seen, expected, "{level:?}");
        assert!(stream.rows().expect("rows").is_empty());
    }
}

#[test]
fn rows_get_the_room_that_those_before_them_took() {
    let text = "|s: stream[i64]| result(for(s, appender[i64], |b,i,x| if(x > 0L, merge(b, x), b)))";
    for level in LEVELS {
        let mut stream = compiled(text, level).stream(context(), vec![]).expect("starts");
        let mut process = |rows: usize| {
            let values: Vec<i64> = (1..=rows as i64).collect();
            stream.process(&Chunk::new(rows, vec![Column::values(&values)])).expect("runs");
            let held = stream.memory();
            assert_eq!(stream.rows().expect("rows").len(), rows);
            held
        };
        let (few, many, few_again) = (process(1), process(10_000), process(1));
        assert!(few < 1_000 && many >= 80_000 && few_again >= 80_000, "{level:?}: {few}, {many}, {few_again}");
        assert!(process(1) < 1_000, "{level:?}");
    }
}

#[test]
fn mergers_live_across_chunks_and_combine() {
    let text = "|s: stream[{i64,f64}], k: i64|
        let k2 = k * 2L;
        let bs = for(s, {merger[{i64,i64},{+,max}]({100L,-7L}), appender[f64], vecmerger[i64,+]([k,k,k])},
            |b,i,r| {merge(b.$0, {r.$0 * k2, r.$0}), merge(b.$1, r.$1), merge(b.$2, {r.$0 % 3L, 1L})});
        {result(bs.$0), result(bs.$1), result(bs.$2), k2}";
    for level in LEVELS {
        let program = compiled(text, level);
        let a: Vec<i64> = (0..1000).collect();
        let b: Vec<f64> = a.iter().map(|&x| x as f64).collect();
        let mut parts: Vec<_> = [0..300, 300..1000]
            .into_iter()
            .map(|range| {
                let mut stream = program.stream(context(), vec![Value::i64(5)]).expect("starts");
                for (a, b) in a[range.clone()].chunks(64).zip(b[range].chunks(64)) {
                    stream.process(&Chunk::new(a.len(), vec![Column::values(a), Column::values(b)])).expect("runs");
                }
                stream
            })
            .collect();
        let second = parts.pop().unwrap();
        let mut first = parts.pop().unwrap();
        first.combine(second).expect("combines");
        let result = first.finish().expect("finishes").to_interp().expect("converts");
        let expected = V::structure([
            V::structure([V::i64(100 + 10 * a.iter().sum::<i64>()), V::i64(999)]),
            V::vec(b.iter().map(|&x| V::f64(x))),
            V::vec([339, 338, 338].map(V::i64)),
            V::i64(10),
        ]);
        assert_eq!(result, expected, "{level:?}");
        // The same program over the whole vector at once.
        let vector = V::vec(a.iter().zip(&b).map(|(&a, &b)| V::structure([V::i64(a), V::f64(b)])));
        let params = &program.program().params;
        let args = [Value::from_interp(&params[0].ty, &vector).expect("converts"), Value::i64(5)];
        let whole = program.run(&context(), &args).expect("runs").to_interp().expect("converts");
        assert_eq!(whole, expected, "{level:?}");
    }
}

#[test]
fn large_tables_are_combined_on_several_threads() {
    let text = "|s: stream[i64]| tovec(result(for(s, dictmerger[{i64,vec[i8]},{i64,i64},{+,max}], |b,i,x|
        merge(b, {{x, if(x % 3L == 0L, \"more than twelve bytes\", serialize(x))}, {1L, i}}))))";
    let program = compiled(text, (OptLevel::O2, Tiers::Single));
    let combined = |threads: usize| {
        let parts = [0..60_000, 40_000..100_000i64].map(|range| {
            let mut stream = program.stream(context(), Vec::new()).expect("starts");
            stream.set_threads(Threads::shared(threads));
            let keys: Vec<i64> = range.collect();
            for keys in keys.chunks(1000) {
                stream.process(&Chunk::new(keys.len(), vec![Column::values(keys)])).expect("runs");
            }
            stream
        });
        let [mut first, second] = parts;
        first.combine(second).expect("combines");
        let entries = first.finish().expect("finishes").to_interp().expect("converts");
        let V::Vec(entries) = entries else { panic!("not a vector") };
        let mut entries: Vec<String> = entries.iter().map(|entry| to_json(entry).to_string()).collect();
        entries.sort_unstable();
        entries
    };
    let alone = combined(1);
    assert_eq!(alone.len(), 100_000);
    assert!(combined(4) == alone);
}

#[test]
fn every_layout_reads_as_its_values() {
    let text = "|s: stream[{{i64,bool},{bool,bool},{vec[u8],bool},vec[u8],vec[u8],i128,{vec[u8],bool}}]|
        result(for(s, appender[{{i64,bool},{bool,bool},{vec[u8],bool},vec[u8],vec[u8],i128,{vec[u8],bool}}], |b,i,r| merge(b, r)))";
    let validity = [0b1010_1101u8, 0b0000_0011];
    let small: [i32; 6] = [5, -6, 7, -8, 9, -10];
    let bits = [0b0110_0110u8];
    let texts = ["", "short", "exactly 12 b", "a longer text than that", "x", "another longer text"];
    let data: Vec<u8> = texts.concat().into_bytes();
    let mut offsets = vec![0i32];
    offsets.extend(texts.iter().scan(0, |end, text| {
        *end += text.len() as i32;
        Some(*end)
    }));
    let large: Vec<i64> = offsets.iter().map(|&x| x.into()).collect();
    // Arrow views: two buffers, so that indices count.
    let buffers = [[].as_ptr(), data.as_ptr()];
    let views: Vec<[u32; 4]> = texts
        .iter()
        .enumerate()
        .map(|(i, text)| {
            let mut view = [text.len() as u32, 0, 0, 0];
            let mut inside = [0u8; 12];
            if text.len() <= 12 {
                inside[..text.len()].copy_from_slice(text.as_bytes());
            } else {
                inside[..4].copy_from_slice(&text.as_bytes()[..4]);
                inside[4..8].copy_from_slice(&1u32.to_le_bytes());
                inside[8..].copy_from_slice(&(offsets[i] as u32).to_le_bytes());
            }
            for (word, bytes) in view[1..].iter_mut().zip(inside.chunks(4)) {
                *word = u32::from_le_bytes(bytes.try_into().unwrap());
            }
            view
        })
        .collect();
    let wide: [i64; 6] = [1, -1, i64::MAX, i64::MIN, 0, 7];
    // Codes of null rows may be anything.
    let codes: [u8; 6] = [3, 255, 1, 0, 200, 5];
    let valid_codes = [0b0010_1101u8];
    let empty = ColumnAbi::EMPTY;
    // SAFETY: all arrays are alive and have six rows from the given offsets on.
    let chunk = unsafe {
        Chunk::new(
            6,
            vec![
                Column::from_raw(
                    Layout::Fixed(ScalarKind::I32),
                    ColumnAbi {
                        values: small.as_ptr().cast(),
                        validity: validity.as_ptr(),
                        validity_offset: 2,
                        ..empty
                    },
                ),
                Column::from_raw(
                    Layout::Bits,
                    ColumnAbi {
                        values: bits.as_ptr(),
                        bit_offset: 1,
                        validity: validity.as_ptr(),
                        validity_offset: 0,
                        ..empty
                    },
                ),
                Column::from_raw(
                    Layout::Utf8,
                    ColumnAbi {
                        values: offsets.as_ptr().cast(),
                        data: data.as_ptr(),
                        validity: validity.as_ptr(),
                        validity_offset: 1,
                        ..empty
                    },
                ),
                Column::from_raw(
                    Layout::LargeUtf8,
                    ColumnAbi { values: large.as_ptr().cast(), data: data.as_ptr(), ..empty },
                ),
                Column::from_raw(
                    Layout::Utf8View,
                    ColumnAbi { values: views.as_ptr().cast(), buffers: buffers.as_ptr().cast(), ..empty },
                ),
                Column::values(&wide),
                Column::dictionary(
                    ScalarKind::U8,
                    ColumnAbi { values: codes.as_ptr(), validity: valid_codes.as_ptr(), ..empty },
                    Column::from_raw(
                        Layout::Utf8View,
                        ColumnAbi { values: views.as_ptr().cast(), buffers: buffers.as_ptr().cast(), ..empty },
                    ),
                ),
            ],
        )
    };
    let bit = |bytes: &[u8], i: usize| bytes[i / 8] >> (i % 8) & 1 == 1;
    let string = |text: &str| V::vec(text.bytes().map(|b| V::Scalar(Literal::U8(b))));
    let nullable = |value: V, zero: V, valid: bool| V::structure([if valid { value } else { zero }, V::bool(valid)]);
    let expected = V::vec((0..6).map(|i| {
        let coded = bit(&valid_codes, i);
        V::structure([
            nullable(V::i64(small[i].into()), V::i64(0), bit(&validity, 2 + i)),
            nullable(V::bool(bit(&bits, 1 + i)), V::bool(false), bit(&validity, i)),
            nullable(string(texts[i]), string(""), bit(&validity, 1 + i)),
            string(texts[i]),
            string(texts[i]),
            V::Scalar(Literal::I128(wide[i].into())),
            nullable(string(if coded { texts[codes[i] as usize] } else { "" }), string(""), coded),
        ])
    }));
    for level in LEVELS {
        let program = compiled(text, level);
        let mut stream = program.stream(context(), vec![]).expect("starts");
        stream.process(&chunk).expect("runs");
        let rows = stream.rows().expect("rows");
        assert_eq!(rows.value().to_interp().expect("converts"), expected, "{level:?}");
    }
}

#[test]
fn strings_that_a_state_keeps_outlive_their_chunk() {
    let text = "|s: stream[vec[u8]]| let v = result(for(s, appender[vec[u8]], |b,i,r| merge(b, r))); {v, len(v)}";
    for level in LEVELS {
        let program = compiled(text, level);
        let mut stream = program.stream(context(), vec![]).expect("starts");
        for word in ["first of the long strings", "second of the long strings"] {
            let data = word.as_bytes().to_vec();
            let offsets = [0i32, data.len() as i32];
            let abi = ColumnAbi { values: offsets.as_ptr().cast(), data: data.as_ptr(), ..ColumnAbi::EMPTY };
            // SAFETY: offsets and data are alive during the call.
            let chunk = Chunk::new(1, vec![unsafe { Column::from_raw(Layout::Utf8, abi) }]);
            stream.process(&chunk).expect("runs");
        }
        let result = stream.finish().expect("finishes").to_interp().expect("converts");
        let whole = interp::run(
            &parse_program("|v: vec[vec[u8]]| {v, len(v)}").unwrap(),
            &[V::vec(
                ["first of the long strings", "second of the long strings"]
                    .map(|text| V::vec(text.bytes().map(|b| V::Scalar(Literal::U8(b))))),
            )],
            &Limits::default(),
        );
        assert_eq!(Ok(result), whole, "{level:?}");
    }
}

#[test]
fn strings_inside_of_what_a_state_keeps_outlive_their_chunk() {
    let merged = |builder: &str, value: &str| {
        format!("|s: stream[vec[u8]]| let v = result(for(s, {builder}, |b,i,r| merge(b, {value}))); ")
    };
    let words = ["first of the long strings", "second of the long strings"];
    let text = |word: &str| V::vec(word.bytes().map(|b| V::Scalar(Literal::U8(b))));
    let pair = |word: &str| V::vec([text(word), text(word)]);
    let lists = V::vec(words.map(pair));
    let programs = [
        (merged("appender[vec[vec[u8]]]", "[r, r]") + "v", lists.clone()),
        (merged("groupbuilder[i64,vec[vec[u8]]]", "{0L, [r, r]}") + "lookup(v, 0L)", lists),
        (
            merged("dictmerger[vec[vec[u8]],i64,+]", "{[r, r], i}")
                + "sort(tovec(v), |a, b| if(a.$1 > b.$1, 1, if(a.$1 < b.$1, -1, 0)))",
            V::vec([0, 1].map(|i| V::structure([pair(words[i]), V::i64(i as i64)]))),
        ),
    ];
    for (program, expected) in programs {
        for level in LEVELS {
            let mut stream = compiled(&program, level).stream(context(), vec![]).expect("starts");
            for word in words {
                let data = word.as_bytes().to_vec();
                let offsets = [0i32, data.len() as i32];
                let abi = ColumnAbi { values: offsets.as_ptr().cast(), data: data.as_ptr(), ..ColumnAbi::EMPTY };
                // SAFETY: offsets and data are alive during the call.
                let chunk = Chunk::new(1, vec![unsafe { Column::from_raw(Layout::Utf8, abi) }]);
                stream.process(&chunk).expect("runs");
                assert!(stream.rows().is_none());
            }
            let result = stream.finish().expect("finishes").to_interp().expect("converts");
            assert_eq!(result, expected, "{program} {level:?}");
        }
    }
}

#[test]
fn bytes_go_through_stages_as_other_numbers_do() {
    let text = "|s: stream[i8]| len(tovec(result(for(s, dictmerger[i8,i64,+], |b,i,x|
        if(iterate({0L, i64(x)}, |t| {{t.$0 + 1L, t.$1 * 3L % 7L}, t.$0 < 4L}).$1 == 0L, merge(b, {x, 1L}), b)))))";
    for level in LEVELS {
        let program = compiled(text, level);
        assert!(program.program().to_string().contains("chunkiter"));
        let mut stream = program.stream(context(), Vec::new()).expect("starts");
        let numbers: Vec<i8> = (-100..100).collect();
        stream.process(&Chunk::new(numbers.len(), vec![Column::values(&numbers)])).expect("runs");
        let multiples = numbers.iter().filter(|x| *x % 7 == 0).count();
        assert_eq!(stream.finish().expect("finishes").to_interp(), Ok(V::i64(multiples as i64)), "{level:?}");
    }
}

#[test]
fn tables_of_strings_are_not_kept() {
    let text = "|s: stream[vec[u8]]| len(result(for(s, appender[dict[vec[u8],i64]],
        |b,i,r| merge(b, result(merge(dictmerger[vec[u8],i64,+], {r, 1L}))))))";
    let refused = compile(&parse_program(text).expect("parses"), &Options::default());
    assert!(matches!(refused, Err(CompileError::Unsupported { .. })));
}

#[test]
fn the_view_of_a_null_may_be_anything() {
    let text = "|s: stream[{{vec[u8],bool}}]| result(for(s, appender[{vec[u8],bool}], |b,i,r| merge(b, r.$0)))";
    let buffer = b"bytes of a long string".to_vec();
    let buffers = [buffer.as_ptr()];
    // Length and prefix, then the number of the buffer and the offset in it: the second names a buffer far away.
    let long = |index: u64| [buffer.len() as u64 | (0x6574_7962 << 32), index];
    let views = [long(0), long(0x7fff_ffff), long(0)];
    let validity = [0b101u8];
    for level in LEVELS {
        let mut stream = compiled(text, level).stream(context(), vec![]).expect("starts");
        let abi = ColumnAbi {
            values: views.as_ptr().cast(),
            buffers: buffers.as_ptr(),
            validity: validity.as_ptr(),
            ..ColumnAbi::EMPTY
        };
        // SAFETY: views, buffers and validity are alive during the call.
        stream.process(&Chunk::new(3, vec![unsafe { Column::from_raw(Layout::Utf8View, abi) }])).expect("runs");
        let rows = stream.rows().expect("rows").value().to_interp().expect("converts");
        let string = |bytes: &[u8]| V::vec(bytes.iter().map(|byte| V::Scalar(Literal::U8(*byte))));
        let row = |bytes: &[u8], valid| V::structure([string(bytes), V::Scalar(Literal::Bool(valid))]);
        assert_eq!(rows, V::vec([row(&buffer, true), row(b"", false), row(&buffer, true)]), "{level:?}");
    }
}

#[test]
fn bounds_are_exact_at_every_stored_width() {
    let text = "|s: stream[{i128,i128,i128}]| result(for(chunkiter(s, 100L), merger[{i128,i128,i128},|],
        |b,k,c| let m = result(for(c, merger[{i128,i128,i128},|], |d,i,x| merge(d, {magnitude(x.$0), magnitude(x.$1), magnitude(x.$2)})));
            merge(b, m)))";
    for n in [0i64, 1, 3, 4, 5, 203] {
        let wide: Vec<i128> = (0..n).map(|x| (x as i128 - 50) << (x % 90)).collect();
        let long: Vec<i64> = (0..n).map(|x| (50 - x) << (x % 50)).collect();
        let small: Vec<u32> = (0..n).map(|x| (x as u32) << (x % 9)).collect();
        let expected = V::structure([
            V::Scalar(Literal::I128(wide.iter().fold(0, |all, &x| all | (x ^ (x >> 127))))),
            V::Scalar(Literal::I128(long.iter().fold(0, |all, &x| all | (x ^ (x >> 63)) as i128))),
            V::Scalar(Literal::I128(small.iter().fold(0, |all, &x| all | i128::from(x)))),
        ]);
        for level in LEVELS {
            let program = compiled(text, level);
            let mut stream = program.stream(context(), vec![]).expect("starts");
            let columns = vec![Column::values(&wide), Column::values(&long), Column::values(&small)];
            stream.process(&Chunk::new(n as usize, columns)).expect("runs");
            let result = stream.finish().expect("finishes").to_interp().expect("converts");
            assert_eq!(result, expected, "{n} {level:?}");
        }
    }
}

#[test]
fn an_error_stops_a_stream_for_good() {
    let program = compiled(
        "|s: stream[i64]| result(for(s, merger[i64,+], |b,i,x| merge(b, 10L / x)))",
        (OptLevel::O2, Tiers::Single),
    );
    let mut stream = program.stream(context(), vec![]).expect("starts");
    let error = stream.process(&Chunk::new(2, vec![Column::values(&[1i64, 0])])).expect_err("divides by zero");
    assert_eq!(error.kind, weld_core::RuntimeErrorKind::DivisionByZero);
    assert_eq!(stream.process(&Chunk::new(1, vec![Column::values(&[1i64])])), Err(error.clone()));
    assert_eq!(stream.finish().map(|_| ()), Err(error));
}

#[test]
fn layouts_that_do_not_fit_are_refused() {
    let program =
        compiled("|s: stream[i64]| result(for(s, merger[i64,+], |b,i,x| merge(b, x)))", (OptLevel::O0, Tiers::Single));
    let mut stream = program.stream(context(), vec![]).expect("starts");
    assert!(stream.process(&Chunk::new(1, vec![Column::values(&[1.5f64])])).is_err());
    assert!(stream.process(&Chunk::new(1, vec![])).is_err());
    assert!(stream.process(&Chunk::new(1, vec![Column::nullable(&[1i64], &[1])])).is_err());
    assert!(stream.process(&Chunk::new(1, vec![Column::values(&[1i32])])).is_ok());
}

#[test]
fn lists_are_read_in_place() {
    let text = "|s: stream[{i64,vec[f64],{vec[i32],bool}}]|
        result(for(s, appender[{f64,i64,i32}], |b,i,r|
            merge(b, {sum(r.$1), len(r.$2.$0), if(r.$2.$1, lookup(r.$2.$0, 0L), -1)})))";
    // Lists of pairs of floats, and of three integers each, of which the second row has none.
    let (a, offsets) = ([1i64, 2, 3], [1i32, 1, 3, 4]);
    let floats: Vec<f64> = (0..8).map(f64::from).collect();
    let ints: Vec<i32> = (10..19).collect();
    let validity = [0b101u8];
    let list = Layout::List { offsets: ScalarKind::I32, unit: 2, items: ScalarKind::F64 };
    let fixed = Layout::FixedList { size: 3, items: ScalarKind::I32 };
    let list_abi = ColumnAbi { values: offsets.as_ptr().cast(), data: floats.as_ptr().cast(), ..ColumnAbi::EMPTY };
    let fixed_abi = ColumnAbi { values: ints.as_ptr().cast(), validity: validity.as_ptr(), ..ColumnAbi::EMPTY };
    for level in LEVELS {
        let program = compiled(text, level);
        let mut stream = program.stream(context(), Vec::new()).expect("starts");
        // SAFETY: offsets are within the values, fixed lists and validity cover three rows.
        let columns = unsafe {
            vec![
                Column::values(&a),
                Column::from_raw(list.clone(), list_abi),
                Column::from_raw(fixed.clone(), fixed_abi),
            ]
        };
        stream.process(&Chunk::new(3, columns)).expect("runs");
        let rows = to_json(&stream.rows().expect("rows").value().to_interp().expect("converts"));
        assert_eq!(rows.to_string(), "[[0.0,3,10],[14.0,0,-1],[13.0,3,16]]", "{level:?}");
    }
}

/// Of columns that differ only in which of them have nulls, at most three variants are compiled.
#[test]
fn nulls_in_all_combinations_take_three_variants() {
    let text = "|s: stream[{{i64,bool},{i32,bool},{i64,bool},i64}]| result(for(s, merger[i64,+], |b,i,r|
        merge(b, select(r.$0.$1, r.$0.$0, 1000L) + select(r.$1.$1, i64(r.$1.$0), 2000L) * 3L
            + select(r.$2.$1, r.$2.$0, 3000L) * 5L + r.$3)))";
    let program = compiled(text, (OptLevel::O1, Tiers::Single));
    let mut stream = program.stream(context(), vec![]).expect("starts");
    let mut expected = 0;
    for at in 0..24usize {
        let rows = 3 + at * 5;
        let a: Vec<i64> = (0..rows as i64).collect();
        let b: Vec<i32> = (0..rows as i32).map(|x| x * 2).collect();
        let bitmap: Vec<u8> = (0..rows.div_ceil(8)).map(|byte| (byte * 37 + at) as u8).collect();
        let valid = |column: usize, row: usize| at >> column & 1 == 0 || bitmap[row / 8] >> (row % 8) & 1 == 1;
        let wide = |column: usize| match at >> column & 1 {
            0 => Column::values(&a),
            _ => Column::nullable(&a, &bitmap),
        };
        let narrow = if at >> 1 & 1 == 0 { Column::values(&b) } else { Column::nullable(&b, &bitmap) };
        stream.process(&Chunk::new(rows, vec![wide(0), narrow, wide(2), Column::values(&a)])).expect("runs");
        for row in 0..rows {
            expected += if valid(0, row) { a[row] } else { 1000 };
            expected += if valid(1, row) { i64::from(b[row]) } else { 2000 } * 3;
            expected += if valid(2, row) { a[row] } else { 3000 } * 5 + a[row];
        }
    }
    assert_eq!(program.variants(), 3);
    let result = stream.finish().expect("finishes");
    assert_eq!(result.as_i64(), Some(expected));
}

#[test]
fn nulls_that_a_type_excludes_are_an_error() {
    let program =
        compiled("|s: stream[i64]| result(for(s, merger[i64,+], |b,i,x| merge(b, x)))", (OptLevel::O0, Tiers::Single));
    let mut stream = program.stream(context(), vec![]).expect("starts");
    let column = Column::nullable(&[1i64, 2], &[1]);
    let error = stream.process(&Chunk::new(2, vec![column])).expect_err("a null").to_string();
    assert!(error.contains("column 0") && error.contains("nulls"), "{error}");
}
