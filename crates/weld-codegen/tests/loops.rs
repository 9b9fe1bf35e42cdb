//! How the loops of real programs run: the programs of `queries/weld`, and pipelines of SQL queries over chunks. A fast
//! path that is lost shows here as a line that differs. `WELD_BLESS=1` accepts the lines as they are.

use std::fs;
use std::path::{Path, PathBuf};

use weld_codegen::{ColumnLayout, Cpu, Layout, Options, loop_plans};
use weld_core::ty::ScalarKind;
use weld_core::{opt, parse_program};

/// TPC-H Q1 without its last steps: a filter, arithmetic over decimals, groups by two strings.
const GROUPED: &str = "|s: stream[{vec[u8],vec[u8],i128,i128,i128,i32}]|
    let kept = result(for(s, appender, |b, i, r| if(r.$5 <= 10471, merge(b, r), b)));
    tovec(result(for(kept, dictmerger[{vec[u8],vec[u8]},{i128,i128,i128,i64},+], |b, i, r|
      let price = checked_mul(r.$3, checked_sub(100LL, r.$4));
      merge(b, {{r.$0, r.$1}, {r.$2, r.$3, price, 1L}}))))";

/// TPC-H Q6: a filter and a sum of products of decimals.
const SUMMED: &str = "|s: stream[{i128,i128,i128,i32}]|
    result(for(s, merger[{i128,bool},{+,|}], |b, i, r|
      if(r.$3 >= 8766 && r.$3 < 9131 && r.$2 >= 5LL && r.$0 < 2400LL, merge(b, {checked_mul(r.$1, r.$2), true}), b)))";

/// The probe side of a join with a filter, whose rows come out.
const JOINED: &str = "|s: stream[{i64,i64,i32}], t: dict[i64,i64]|
    result(for(s, appender, |b, i, r|
      if(r.$2 < 9000, let m = optlookup(t, r.$0); if(m.$0, merge(b, {r.$1, m.$1}), b), b)))";

/// The probe side of two joins, of which one has integers for keys.
const JOINED_TWICE: &str = "|s: stream[{i64,i64,i32}], t: dict[i64,vec[i64]], u: dict[{i64,i32},vec[{i64}]]|
    result(for(s, merger[i64,+], |b, i, r| let m = optlookup(t, r.$0); if(m.$0, for(m.$1, b, |b2, j, v|
      let n = optlookup(u, {r.$1, r.$2}); if(n.$0, for(n.$1, b2, |b3, k, w| merge(b3, v * w.$0)), b2)), b)))";

fn fixed(kind: ScalarKind) -> Layout {
    Layout::Fixed(kind)
}

fn coded(values: Layout) -> Layout {
    Layout::Dictionary { codes: ScalarKind::I32, values: Box::new(values) }
}

fn lines(text: &str, layouts: Option<Vec<Layout>>) -> String {
    let mut program = parse_program(text).unwrap_or_else(|errors| panic!("{text}\n{errors:?}"));
    opt::optimize(&mut program, &opt::Config::default());
    // The same on every processor.
    let options = Options { cpu: Cpu::Portable, ..Options::default() };
    let layouts: Option<Vec<ColumnLayout>> =
        layouts.map(|all| all.into_iter().map(|layout| ColumnLayout { layout, validity: false }).collect());
    loop_plans(&program, &options, layouts.as_deref()).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

fn found() -> String {
    use ScalarKind::{I32, I64, I128};
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../queries/weld");
    let mut paths: Vec<PathBuf> =
        fs::read_dir(&root).expect("the programs").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let mut text = String::new();
    let mut add = |name: &str, lines: String| text.push_str(&format!("# {name}\n{lines}\n"));
    for path in paths.iter().filter(|path| path.extension().is_some_and(|end| end == "weld")) {
        let source = fs::read_to_string(path).expect("a program");
        add(&path.file_name().expect("a name").to_string_lossy(), lines(&source, None));
    }
    let decimals = |kind| [fixed(kind), fixed(kind), fixed(kind), fixed(I32)];
    let keyed = |key: Layout, kind| [key.clone(), key].into_iter().chain(decimals(kind)).collect();
    add("groups by strings, decimals in 128 bits", lines(GROUPED, Some(keyed(Layout::Utf8View, I128))));
    add("groups by codes, decimals in 64 bits", lines(GROUPED, Some(keyed(coded(Layout::Utf8View), I64))));
    add("a sum of decimals in 128 bits", lines(SUMMED, Some(decimals(I128).into())));
    add("a sum of decimals in 64 bits", lines(SUMMED, Some(decimals(I64).into())));
    add("the probe side of a join", lines(JOINED, None));
    add("the probe side of two joins", lines(JOINED_TWICE, None));
    text
}

#[test]
fn loops_run_as_they_did() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/loops.txt");
    let found = found();
    if std::env::var_os("WELD_BLESS").is_some() {
        fs::write(&golden, &found).expect("the golden text is written");
    }
    let expected = fs::read_to_string(&golden).expect("the golden text");
    let differs = found.lines().zip(expected.lines()).find(|(found, expected)| found != expected);
    assert!(found == expected, "WELD_BLESS=1 accepts it; the first line that differs: {differs:?}\n{found}");
}
