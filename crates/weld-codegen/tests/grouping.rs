//! Grouped sums over the columns of chunks, against the interpreter over the same rows: few and many groups, sums that
//! do and do not fit 64 bits, keys that are codes, selections of chunks, nulls.

use std::sync::Arc;

use weld_codegen::{Chunk, Column, Compiled, FastPath, Layout, OptLevel, Options, Value, compile};
use weld_core::interp::{self, Limits, Value as V};
use weld_core::ir::Literal;
use weld_core::ty::ScalarKind;
use weld_core::{opt, parse_program};
use weld_runtime::{ColumnAbi, Context, StringView};

/// Levels, and what is left out.
const WAYS: [(OptLevel, Option<FastPath>); 6] = [
    (OptLevel::O0, None),
    (OptLevel::O2, None),
    (OptLevel::O0, Some(FastPath::GroupedLoops)),
    (OptLevel::O0, Some(FastPath::FewGroups)),
    (OptLevel::O0, Some(FastPath::KeyCodes)),
    (OptLevel::O0, Some(FastPath::NarrowRows)),
];

fn compiled(text: &str, level: OptLevel, left_out: Option<FastPath>) -> Arc<Compiled> {
    let mut program = parse_program(text).unwrap_or_else(|errors| panic!("{text}\n{errors:?}"));
    opt::optimize(&mut program, &opt::Config::default());
    let disabled = left_out.into_iter().collect();
    compile(&program, &Options { level, disabled, ..Options::default() })
        .unwrap_or_else(|error| panic!("{error}\n{program}"))
}

/// How a chunk stores its keys.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Keys {
    Views,
    Codes,
    /// Codes whose number of entries is not said.
    UnknownCodes,
}

/// One chunk: keys by number with entries of its own, amounts and rates.
#[derive(Clone, Debug)]
struct Rows {
    entries: Vec<String>,
    keys: Vec<Option<u32>>,
    amounts: Vec<i64>,
    /// What the amounts are to be multiplied by.
    scale: i128,
    rates: Vec<i64>,
    days: Vec<i32>,
    /// The number of the dictionary that the entries are.
    dictionary: u64,
}

impl Rows {
    /// The rows in chunks of so many, over one dictionary of this number.
    fn split(&self, rows: usize, dictionary: u64) -> Vec<Rows> {
        let part = |start: usize| {
            let range = start..(start + rows).min(self.keys.len());
            Rows {
                entries: self.entries.clone(),
                keys: self.keys[range.clone()].to_vec(),
                amounts: self.amounts[range.clone()].to_vec(),
                rates: self.rates[range.clone()].to_vec(),
                days: self.days[range].to_vec(),
                scale: self.scale,
                dictionary,
            }
        };
        (0..self.keys.len()).step_by(rows).map(part).collect()
    }

    fn key(&self, row: usize) -> Option<&str> {
        self.keys[row].map(|key| self.entries[key as usize].as_str())
    }

    fn amount(&self, row: usize) -> i128 {
        i128::from(self.amounts[row]) * self.scale
    }

    /// Pseudo-random rows.
    fn new(rows: usize, groups: usize, amount_max: i64, seed: u64) -> Rows {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = move |below: i64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 1) as i64 % below
        };
        // The same strings under other codes in every chunk.
        let mut entries: Vec<String> = (0..groups).map(|i| format!("k{i}")).collect();
        entries.rotate_left(seed as usize % groups.max(1));
        Rows {
            keys: (0..rows).map(|_| Some(next(groups as i64) as u32)).collect(),
            amounts: (0..rows).map(|_| next(amount_max) - amount_max / 3).collect(),
            rates: (0..rows).map(|_| next(11)).collect(),
            days: (0..rows).map(|_| next(100) as i32).collect(),
            scale: 1,
            dictionary: 0,
            entries,
        }
    }

    fn value(&self, nullable: bool) -> Vec<V> {
        let string = |text: &str| V::vec(text.bytes().map(|b| V::Scalar(Literal::U8(b))));
        let row = |i: usize| {
            let key = string(self.key(i).unwrap_or(""));
            let key = if nullable { V::structure([key, V::bool(self.keys[i].is_some())]) } else { key };
            V::structure([
                key,
                V::Scalar(Literal::I128(self.amount(i))),
                V::Scalar(Literal::I128(self.rates[i].into())),
                V::Scalar(Literal::I32(self.days[i])),
            ])
        };
        (0..self.keys.len()).map(row).collect()
    }
}

/// Runs the program over chunks of these rows, stored in each of these ways, and over all rows in the interpreter.
fn check(text: &str, chunks: &[Rows], ways: &[&[Keys]], nullable: bool) {
    let whole = text.replace("stream[", "vec[");
    let rows: Vec<V> = chunks.iter().flat_map(|chunk| chunk.value(nullable)).collect();
    let expected = interp::run(&parse_program(&whole).expect("parses"), &[V::vec(rows)], &Limits::default());
    for (level, left_out) in WAYS {
        let program = compiled(text, level, left_out);
        for stored in ways {
            let mut stream = program.stream(Arc::new(Context::unlimited()), vec![]).expect("starts");
            let mut parts = chunks.iter().zip(stored.iter().cycle());
            let failed = parts.find_map(|(rows, stored)| process(&mut stream, rows, *stored, nullable).err());
            let result = match failed {
                Some(error) => Err(error),
                None => stream.finish().map_err(|error| error.to_string()),
            };
            match (&result.map(|value| value.to_interp().expect("converts")), &expected) {
                (Ok(result), Ok(expected)) => assert_eq!(result, expected, "{level:?} without {left_out:?} {stored:?}"),
                (Err(_), Err(_)) => {}
                (result, expected) => panic!("{level:?} without {left_out:?} {stored:?}: {result:?} but {expected:?}"),
            }
        }
    }
}

fn process(stream: &mut weld_codegen::Stream, rows: &Rows, stored: Keys, nullable: bool) -> Result<(), String> {
    let view = |text: &str| StringView::new(text.as_bytes()).expect("keys are short");
    let entries: Vec<StringView> = rows.entries.iter().map(|entry| view(entry)).collect();
    let views: Vec<StringView> = (0..rows.keys.len()).map(|row| view(rows.key(row).unwrap_or(""))).collect();
    // The code of a null may be anything.
    let codes: Vec<i32> = rows.keys.iter().map(|key| key.map_or(i32::MAX, |key| key as i32)).collect();
    let mut validity = vec![0u8; rows.keys.len() / 8 + 1];
    for (row, _) in rows.keys.iter().enumerate().filter(|(_, key)| key.is_some()) {
        validity[row / 8] |= 1 << (row % 8);
    }
    let has_nulls = nullable && rows.keys.iter().any(Option::is_none);
    let empty =
        ColumnAbi { validity: if has_nulls { validity.as_ptr() } else { std::ptr::null() }, ..ColumnAbi::EMPTY };
    // SAFETY: all arrays are alive during the call and have a value for each row; codes of valid rows are in range.
    let keys = unsafe {
        match stored {
            Keys::Views => Column::from_raw(Layout::Utf8View, ColumnAbi { values: views.as_ptr().cast(), ..empty }),
            _ => {
                let known = if stored == Keys::Codes { entries.len() as u64 } else { 0 };
                let dictionary_number = rows.dictionary;
                let abi = ColumnAbi { values: codes.as_ptr().cast(), entries: known, dictionary_number, ..empty };
                Column::dictionary(ScalarKind::I32, abi, Column::views(&entries))
            }
        }
    };
    // As the decimals of tables in memory are stored, and as those of files.
    let wide: Vec<i128> = (0..rows.amounts.len()).map(|row| rows.amount(row)).collect();
    let amounts = if stored == Keys::Views { Column::values(&wide) } else { Column::values(&rows.amounts) };
    let columns = vec![keys, amounts, Column::values(&rows.rates), Column::values(&rows.days)];
    stream.process(&Chunk::new(rows.keys.len(), columns)).map_err(|error| error.to_string())
}

/// Sums by key of what passes `filter`, in the order of the keys.
fn sums(filter: &str, key: &str, values: &str, types: &str, ops: &str) -> String {
    let body = format!("merge(b, {{{key}, {{{values}}}}})");
    let body = if filter.is_empty() { body } else { format!("if({filter}, {body}, b)") };
    let key_type = if key == "r.$0" { "vec[u8]" } else { "{vec[u8],bool}" };
    format!(
        "|s: stream[{{{key_type},i128,i128,i32}}]| sort(tovec(result(for(s, dictmerger[{key_type},{{{types}}},{{{ops}}}],
            |b,i,r| {body}))), |x, y| compare(x.$0, y.$0))"
    )
}

const VALUES: &str = "r.$1, checked_mul(r.$1, checked_sub(100LL, r.$2)), r.$2, 1L";
const TYPES: &str = "i128,i128,i128,i64";
const OPS: &str = "+,+,+,+";
const STORED: [&[Keys]; 4] = [
    &[Keys::Views],
    &[Keys::Codes],
    &[Keys::UnknownCodes],
    &[Keys::Codes, Keys::Views, Keys::UnknownCodes, Keys::Codes],
];

#[test]
fn few_groups_with_and_without_a_filter() {
    let chunks: Vec<Rows> = [2500, 0, 1, 1023, 1024, 1025, 4000]
        .into_iter()
        .enumerate()
        .map(|(seed, rows)| Rows::new(rows, 4, 1_000_000, seed as u64 + 1))
        .collect();
    for filter in ["", "r.$3 < 97", "r.$3 < 20", "r.$3 < 0"] {
        check(&sums(filter, "r.$0", VALUES, TYPES, OPS), &chunks, &STORED, false);
    }
}

#[test]
fn more_groups_than_are_merged_at_once_and_than_codes_are_kept() {
    for groups in [8, 9, 40, 1500] {
        let chunks: Vec<Rows> = (1..4).map(|seed| Rows::new(3000, groups, 1_000_000, seed)).collect();
        check(&sums("r.$3 < 90", "r.$0", VALUES, TYPES, OPS), &chunks, &STORED, false);
    }
}

/// Chunks share their dictionaries: what is known of codes is kept, but not beyond a dictionary or a change of nulls.
#[test]
fn dictionaries_of_several_chunks() {
    for groups in [5, 700, 3000] {
        let mut first = Rows::new(9000, groups, 1_000_000, 1);
        first.keys[..5000].iter_mut().step_by(7).for_each(|key| *key = None);
        let second = Rows::new(6000, groups, 1_000_000, 2);
        let chunks = [first.split(1000, 1), second.split(700, 2), first.split(2500, 3)].concat();
        for filter in ["", "r.$3 < 90"] {
            let key = "{r.$0.$0, r.$0.$1}";
            check(&sums(filter, key, VALUES, TYPES, OPS), &chunks, &STORED[1..], true);
            check(&sums(filter, key, "1L", "i64", "+"), &chunks, &STORED[1..], true);
            check(&sums(filter, "r.$0", "r.$2, 1L", "i128,i64", "+,+"), &second.split(500, 1), &STORED[1..], false);
        }
    }
}

#[test]
fn groups_that_come_late() {
    // Few groups at first, then many, then few again.
    let groups = [3, 3, 30, 3];
    let chunks: Vec<Rows> =
        groups.iter().enumerate().map(|(i, groups)| Rows::new(2000, *groups, 1000, i as u64 + 1)).collect();
    check(&sums("", "r.$0", VALUES, TYPES, OPS), &chunks, &STORED, false);
}

#[test]
fn values_that_need_more_than_64_bits() {
    for amount in [i64::MAX, 1 << 53, 1 << 52, 1 << 46, 1 << 45] {
        let mut chunks: Vec<Rows> = (1..4).map(|seed| Rows::new(2100, 5, amount, seed)).collect();
        // A strip of small values between strips of large ones.
        chunks[1] = Rows::new(2100, 5, 1000, 7);
        chunks[0].amounts[5] = i64::MIN;
        for filter in ["", "r.$3 < 97"] {
            check(&sums(filter, "r.$0", VALUES, TYPES, OPS), &chunks, &STORED, false);
        }
    }
}

#[test]
fn values_of_more_than_64_bits() {
    let mut chunks: Vec<Rows> = (1..5).map(|seed| Rows::new(2100, 5, 1 << 30, seed)).collect();
    chunks[1].scale = 1 << 34;
    chunks[2].scale = 1 << 60;
    for filter in ["", "r.$3 < 97"] {
        check(&sums(filter, "r.$0", VALUES, TYPES, OPS), &chunks, &STORED[..1], false);
    }
}

#[test]
fn an_overflow_of_128_bits_is_an_error_where_the_row_is_selected() {
    // a^3 overflows, which is only an error in the rows that pass.
    let values = "checked_mul(checked_mul(r.$1, r.$1), checked_mul(r.$1, r.$1)), r.$2, 1L";
    for (filter, amount) in [("r.$3 < 97", 1 << 40), ("r.$2 < 5LL", 1 << 40), ("r.$2 < 5LL", 1000)] {
        let mut rows = Rows::new(2000, 3, 1000, 3);
        rows.amounts[1500] = amount;
        rows.rates[1500] = 7;
        rows.days[1500] = 3;
        check(&sums(filter, "r.$0", values, "i128,i128,i64", "+,+,+"), &[rows], &STORED[1..2], false);
    }
}

#[test]
fn other_operators_and_kinds() {
    let values = "select(r.$2 > 5LL, r.$1, 0LL), i64(r.$3), r.$3, r.$2 > 9LL, u64(r.$3), -r.$3";
    let chunks: Vec<Rows> = (1..4).map(|seed| Rows::new(3000, 6, 1_000_000, seed)).collect();
    for filter in ["", "r.$3 < 80"] {
        let text = sums(filter, "r.$0", values, "i128,i64,i32,bool,u64,i32", "+,+,max,|,+,min");
        check(&text, &chunks, &STORED[3..], false);
    }
    // Sums of floats keep the order of the rows.
    let text = sums("", "r.$0", "f64(r.$3), r.$1, r.$2", "f64,i128,i128", "+,+,+");
    check(&text, &chunks, &STORED[1..2], false);
}

#[test]
fn keys_that_are_null() {
    let mut chunks: Vec<Rows> = (1..4).map(|seed| Rows::new(3000, 4, 1_000_000, seed)).collect();
    for chunk in &mut chunks {
        chunk.keys.iter_mut().step_by(7).for_each(|key| *key = None);
    }
    chunks.push(Rows { keys: vec![None; 1500], ..Rows::new(1500, 2, 100, 9) });
    for filter in ["", "r.$3 < 97"] {
        check(&sums(filter, "{r.$0.$0, r.$0.$1}", VALUES, TYPES, OPS), &chunks, &STORED, true);
    }
}

#[test]
fn a_row_that_is_selected_twice_counts_twice() {
    let text = "|s: vec[i32], v: vec[{i64,i128}]| sort(tovec(result(for(s, dictmerger[i64,{i128,i128,i64},{+,+,+}],
        |b,i,x| let r = @(unchecked:true) lookup(v, i64(x)); merge(b, {r.$0, {r.$1, checked_mul(r.$1, 2LL), 1L}})))), |x, y| compare(x.$0, y.$0))";
    let rows = (0..100).map(|i| V::structure([V::i64(i % 3), V::Scalar(Literal::I128(i.into()))]));
    let picks = (0..100).map(|i| V::Scalar(Literal::I32(i / 2 * 2)));
    let args = [V::vec(picks), V::vec(rows)];
    let program = parse_program(text).expect("parses");
    let expected = interp::run(&program, &args, &Limits::default()).expect("runs");
    let args: Vec<Value> =
        program.params.iter().zip(&args).map(|(p, arg)| Value::from_interp(&p.ty, arg).expect("converts")).collect();
    for (level, left_out) in WAYS {
        let result = compiled(text, level, left_out).run(&Arc::new(Context::unlimited()), &args).expect("runs");
        assert_eq!(result.to_interp().expect("converts"), expected, "{level:?}");
    }
}
