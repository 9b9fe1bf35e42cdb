//! Programs that start on cheap code: what they give does not depend on when optimised code takes over.

use std::sync::Arc;

use weld_codegen::{Chunk, Column, ColumnLayout, Compiled, Options, Stream, Tiers, Value, compile};
use weld_core::interp::json::to_json;
use weld_core::ty::ScalarKind;
use weld_core::{opt, parse_program};
use weld_runtime::Context;

/// Groups, whose keys are strings, and rows in the order of the chunks.
const TEXT: &str = r#"|s: stream[{i64,i64}], k: i64|
    let bs = for(s, {dictmerger[{vec[u8],i64},{i64,i64},{+,max}], appender[i64]}, |b,i,r|
        {merge(b.$0, {{if(r.$0 % 2L == 0L, "an even number", "an odd one"), r.$1 % 5L}, {r.$1 * k, i}}),
         if(r.$1 > 40L, merge(b.$1, r.$1), b.$1)});
    {sort(tovec(result(bs.$0)), |a, b| if(a.$1.$1 < b.$1.$1, -1, if(a.$1.$1 > b.$1.$1, 1, 0))), result(bs.$1)}"#;

fn compiled(tiers: Tiers) -> Arc<Compiled> {
    let mut program = parse_program(TEXT).unwrap_or_else(|errors| panic!("{errors:?}"));
    opt::optimize(&mut program, &opt::Config::default());
    let options = Options { tiers, ..Options::default() };
    let compiled = compile(&program, &options).unwrap_or_else(|error| panic!("{error}"));
    compiled.prepare(&[ColumnLayout::fixed(ScalarKind::I64), ColumnLayout::fixed(ScalarKind::I64)]).expect("compiles");
    compiled
}

fn start(compiled: &Arc<Compiled>) -> Stream {
    compiled.stream(Arc::new(Context::unlimited()), vec![Value::i64(3)]).expect("starts")
}

fn feed(stream: &mut Stream, rows: std::ops::Range<i64>) {
    let a: Vec<i64> = rows.clone().collect();
    let b: Vec<i64> = rows.map(|row| row * 7 % 61).collect();
    stream.process(&Chunk::new(a.len(), vec![Column::values(&a), Column::values(&b)])).expect("runs");
}

/// Runs eight chunks in two partitions and combines them; `between` is called before every chunk.
fn run(compiled: &Arc<Compiled>, between: impl Fn(usize)) -> String {
    let mut parts = [start(compiled), start(compiled)];
    for chunk in 0..8 {
        between(chunk);
        let first = chunk as i64 * 100;
        feed(&mut parts[chunk % 2], first..first + 100);
    }
    let [mut one, other] = parts;
    one.combine(other).expect("combines");
    to_json(&one.finish().expect("finishes").to_interp().expect("converts")).to_string()
}

#[test]
fn the_moment_of_the_change_does_not_show() {
    let expected = run(&compiled(Tiers::Single), |_| {});
    assert_eq!(run(&compiled(Tiers::Alternate), |_| {}), expected);
    for at in 0..9 {
        let tiered = compiled(Tiers::CheapFirst);
        let found = run(&tiered, |chunk| {
            if chunk == at {
                assert!(tiered.claim_improvement());
                assert!(!tiered.claim_improvement(), "one at a time");
                tiered.improve().expect("compiles");
                assert!(!tiered.claim_improvement(), "nothing is left to improve");
            }
        });
        assert_eq!(found, expected, "changed before chunk {at}");
        // Code that is known runs from the start.
        assert_eq!(run(&tiered, |_| {}), expected);
    }
}

#[test]
fn runs_go_over_while_better_code_is_made() {
    let expected = run(&compiled(Tiers::Single), |_| {});
    let tiered = compiled(Tiers::CheapFirst);
    std::thread::scope(|scope| {
        scope.spawn(|| tiered.improve().expect("compiles"));
        for _ in 0..200 {
            assert_eq!(run(&tiered, |_| {}), expected);
        }
    });
}

#[test]
fn every_part_says_what_it_took() {
    let single = compiled(Tiers::Single);
    let parts: Vec<&str> = single.timings().iter().map(|timing| timing.part).collect();
    assert_eq!(parts, ["init, finish, combine", "process"]);
    let tiered = compiled(Tiers::CheapFirst);
    let cheap = tiered.timings();
    let [all] = &cheap[..] else { panic!("one module of cheap code: {cheap:?}") };
    assert_eq!(all.part, "init, finish, combine, process");
    assert!(all.emitted.instructions > all.emitted.blocks && all.emitted.blocks > 3, "{all:?}");
    assert!(!tiered.improvement_pays(Some(1_000_000_000)), "nothing has run");
    tiered.improve().expect("compiles");
    assert_eq!(tiered.timings().len(), 3);
}

const NULLABLE: &str = "|s: stream[{{i64,bool},{i64,bool}}]| result(for(s, merger[i64,+], |b,i,r|
    merge(b, select(r.$0.$1, r.$0.$0, 1000L) + select(r.$1.$1, r.$1.$0, 2000L))))";

/// Code that is prepared for nulls serves chunks with fewer of them; code that no chunk needs is not improved.
#[test]
fn nulls_that_are_expected_take_one_variant() {
    let mut program = parse_program(NULLABLE).unwrap_or_else(|errors| panic!("{errors:?}"));
    opt::optimize(&mut program, &opt::Config::default());
    let options = Options { tiers: Tiers::CheapFirst, ..Options::default() };
    let (a, bitmap) = ([1i64, 2, 3, 4], [0b1011u8]);
    let column = |has_nulls: bool| if has_nulls { Column::nullable(&a, &bitmap) } else { Column::values(&a) };
    let sum = |has_nulls: [bool; 2]| {
        let sum = |has_nulls: bool, default: i64| if has_nulls { 7 + default } else { 10 };
        sum(has_nulls[0], 1000) + sum(has_nulls[1], 2000)
    };
    let expected = |validity: bool| ColumnLayout { validity, ..ColumnLayout::fixed(ScalarKind::I64) };
    let full = |compiled: &Compiled| compiled.timings().iter().filter(|timing| timing.part == "process").count();
    for (prepared, chunks, variants, optimised) in [
        // One variant for all, and none for what never came.
        ([true, true], &[[true, true], [true, false], [false, true], [true, true]][..], 1, 1),
        ([false, false], &[[true, true], [true, true]][..], 2, 2),
        // Most chunks have no nulls: optimised code has a variant for those.
        ([true, true], &[[false, false], [false, false], [true, false]][..], 1, 2),
    ] {
        let compiled = compile(&program, &options).unwrap_or_else(|error| panic!("{error}"));
        compiled.prepare(&prepared.map(expected)).expect("compiles");
        let mut stream = compiled.stream(Arc::new(Context::unlimited()), Vec::new()).expect("starts");
        let mut total = 0;
        for round in 0..2 {
            for chunk in chunks {
                stream.process(&Chunk::new(4, chunk.map(column).to_vec())).expect("runs");
                total += sum(*chunk);
            }
            if round == 0 {
                assert_eq!(compiled.variants(), variants, "{prepared:?} {chunks:?}");
                assert!(compiled.claim_improvement());
                compiled.improve().expect("compiles");
                assert_eq!(full(&compiled), optimised, "{prepared:?} {chunks:?}");
            }
        }
        assert_eq!(stream.finish().expect("finishes").as_i64(), Some(total));
    }
}
