//! Code that is kept on disk: another process links it, and what is damaged there is as if it had never been.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weld_codegen::{
    Chunk, CodeFolder, Column, ColumnLayout, Compiled, Keep, Options, Stream, Tiers, Value, compile_keeping,
};
use weld_core::interp::json::to_json;
use weld_core::ty::ScalarKind;
use weld_core::{RuntimeError, opt, parse_program};
use weld_runtime::Context;

/// Groups with strings for keys, rows in the order of the chunks, and an error with a message of its own.
const TEXT: &str = r#"|s: stream[{i64,i64}], k: i64|
    let bs = for(s, {dictmerger[{vec[u8],i64},{i64,i64},{+,max}], appender[i64]}, |b,i,r|
        {merge(b.$0, {{if(r.$0 % 2L == 0L, "an even number", "an odd one"), r.$1 % 5L}, {r.$1 * k, 100L / (r.$0 - 500L)}}),
         if(r.$1 > 40L, merge(b.$1, r.$1), b.$1)});
    {sort(tovec(result(bs.$0)), |a, b| if(a.$1.$1 < b.$1.$1, -1, if(a.$1.$1 > b.$1.$1, 1, 0))), result(bs.$1)}"#;

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let path = std::env::temp_dir().join(format!("weld-code-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Place(path)
    }

    /// As a process that begins sees it.
    fn folder(&self) -> Arc<CodeFolder> {
        Arc::new(CodeFolder::new(&self.0, 1 << 26))
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        files.sort();
        files
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn compiled_of(text: &str, tiers: Tiers, folder: Option<&Arc<CodeFolder>>) -> Arc<Compiled> {
    let mut program = parse_program(text).unwrap_or_else(|errors| panic!("{errors:?}"));
    opt::optimize(&mut program, &opt::Config::default());
    let options = Options { tiers, ..Options::default() };
    let keep = folder.map(|folder| Keep::new(Arc::clone(folder), 1));
    let compiled = compile_keeping(&program, &options, keep).unwrap_or_else(|error| panic!("{error}"));
    compiled.prepare(&[ColumnLayout::fixed(ScalarKind::I64), ColumnLayout::fixed(ScalarKind::I64)]).expect("compiles");
    compiled
}

fn compiled(tiers: Tiers, folder: &Arc<CodeFolder>) -> Arc<Compiled> {
    compiled_of(TEXT, tiers, Some(folder))
}

fn start(compiled: &Arc<Compiled>) -> Stream {
    compiled.stream(Arc::new(Context::unlimited()), vec![Value::i64(3)]).expect("starts")
}

fn feed(stream: &mut Stream, rows: std::ops::Range<i64>) -> Result<(), RuntimeError> {
    let a: Vec<i64> = rows.clone().collect();
    let b: Vec<i64> = rows.map(|row| row * 7 % 61).collect();
    stream.process(&Chunk::new(a.len(), vec![Column::values(&a), Column::values(&b)]))
}

/// The result over four chunks in two partitions, and the error of a chunk that has one.
fn run(compiled: &Arc<Compiled>) -> (String, RuntimeError) {
    let mut parts = [start(compiled), start(compiled)];
    for chunk in 0..4 {
        feed(&mut parts[chunk % 2], chunk as i64 * 100..chunk as i64 * 100 + 100).expect("runs");
    }
    let [mut one, other] = parts;
    one.combine(other).expect("combines");
    let result = to_json(&one.finish().expect("finishes").to_interp().expect("converts")).to_string();
    (result, feed(&mut start(compiled), 450..550).expect_err("a division by zero"))
}

fn is_stored(compiled: &Compiled) -> bool {
    compiled.timings().iter().all(|timing| timing.is_stored)
}

fn expected() -> (String, RuntimeError) {
    run(&compiled_of(TEXT, Tiers::Single, None))
}

#[test]
fn code_outlives_its_process() {
    let place = Place::new("outlives");
    let expected = expected();
    for tiers in [Tiers::Single, Tiers::CheapFirst, Tiers::Alternate] {
        place.folder().clear().ok();
        let folder = place.folder();
        let first = compiled(tiers, &folder);
        assert_eq!(run(&first), expected);
        assert!(!is_stored(&first) && !first.was_stored());
        let folder = place.folder();
        let second = compiled(tiers, &folder);
        // Beside code of another session that is the same.
        assert_eq!(run(&second), expected);
        assert_eq!(run(&first), expected);
        assert!(is_stored(&second) && second.was_stored(), "{tiers:?}: {:?}", second.timings());
        drop(first);
        assert_eq!(run(&second), expected);
    }
}

#[test]
fn optimised_code_on_disk_makes_cheap_code_unnecessary() {
    let place = Place::new("tiers");
    let folder = place.folder();
    let first = compiled(Tiers::CheapFirst, &folder);
    run(&first);
    assert!(compiled(Tiers::CheapFirst, &folder).claim_improvement(), "cheap code from disk can be improved");
    first.improve().expect("compiles");
    let second = compiled(Tiers::CheapFirst, &place.folder());
    let parts: Vec<&str> = second.timings().iter().map(|timing| timing.part).collect();
    assert_eq!(parts, ["init, finish, combine", "process"]);
    assert!(is_stored(&second) && !second.claim_improvement());
    assert_eq!(run(&second), expected());
}

/// What one program has on disk is not another's, however alike they are and though they claim the same number.
#[test]
fn programs_and_options_are_told_apart() {
    let place = Place::new("apart");
    let folder = place.folder();
    compiled(Tiers::Single, &folder);
    for (from, to) in [("100L /", "101L /"), ("> 40L", "> 41L"), ("odd one", "odd ONE"), ("max}", "min}")] {
        let other = compiled_of(&TEXT.replacen(from, to, 1), Tiers::Single, Some(&folder));
        assert!(!other.was_stored(), "{to}");
    }
    let mut program = parse_program(TEXT).unwrap_or_else(|errors| panic!("{errors:?}"));
    opt::optimize(&mut program, &opt::Config::default());
    let keep = || Some(Keep::new(Arc::clone(&folder), 1));
    for options in [
        Options { vectorize: false, ..Options::default() },
        Options { uncut_nodes: 0, ..Options::default() },
        Options { cpu: weld_codegen::Cpu::Portable, ..Options::default() },
        Options { level: weld_codegen::OptLevel::O1, ..Options::default() },
    ] {
        assert!(!compile_keeping(&program, &options, keep()).expect("compiles").was_stored(), "{options:?}");
    }
    assert!(compile_keeping(&program, &Options::default(), keep()).expect("compiles").was_stored());
}

/// Checks that nothing comes from the folder, that results are right, and that what was damaged is replaced.
fn check_damaged(place: &Place, what: &str, expected: &(String, RuntimeError)) {
    let folder = place.folder();
    let damaged = compiled(Tiers::CheapFirst, &folder);
    assert!(!damaged.was_stored(), "{what}");
    assert_eq!(&run(&damaged), expected, "{what}");
    assert!(is_stored(&compiled(Tiers::CheapFirst, &place.folder())), "{what}: it was not replaced");
}

#[test]
fn damaged_entries_count_as_absent() {
    let place = Place::new("damaged");
    let expected = expected();
    compiled(Tiers::CheapFirst, &place.folder());
    let [file] = &place.files()[..] else { panic!("one module of cheap code: {:?}", place.files()) };
    let whole = fs::read(file).expect("a file");
    let len = whole.len();
    for cut in [0, 1, 7, 8, 39, 40, 41, 100, len / 2, len - 1] {
        fs::write(file, &whole[..cut]).expect("it is ours");
        check_damaged(&place, &format!("{cut} of {len} bytes"), &expected);
    }
    for at in (0..48).step_by(8).chain((48..len).step_by(len / 8)) {
        let mut flipped = fs::read(file).expect("a file");
        flipped[at] ^= 1 << (at % 8);
        fs::write(file, &flipped).expect("it is ours");
        check_damaged(&place, &format!("a bit of byte {at} of {len}"), &expected);
    }
}

/// An entry of another program or another machine, put where this one's is looked for.
#[test]
fn foreign_entries_count_as_absent() {
    let place = Place::new("foreign");
    let expected = expected();
    compiled(Tiers::CheapFirst, &place.folder());
    let own = place.files();
    let other = TEXT.replacen("> 40L", "> 41L", 1);
    compiled_of(&other, Tiers::CheapFirst, Some(&place.folder()));
    let foreign = place.files().into_iter().find(|file| !own.contains(file)).expect("an entry of its own");
    fs::rename(foreign, &own[0]).expect("they are ours");
    check_damaged(&place, "another program", &expected);
    let link = |target: &Path| std::os::unix::fs::symlink(target, &own[0]).expect("a link");
    let elsewhere = Place::new("elsewhere");
    fs::create_dir(&elsewhere.0).expect("a folder");
    fs::rename(&own[0], elsewhere.0.join("entry")).expect("they are ours");
    link(&elsewhere.0.join("entry"));
    check_damaged(&place, "a link to what is right", &expected);
}

#[test]
fn folders_that_cannot_be_used_change_nothing() {
    use std::os::unix::fs::PermissionsExt;
    let expected = expected();
    let place = Place::new("useless");
    compiled(Tiers::CheapFirst, &place.folder());
    let set_mode = |mode| fs::set_permissions(&place.0, PermissionsExt::from_mode(mode)).expect("it is ours");
    set_mode(0o777);
    let refused = compiled(Tiers::CheapFirst, &place.folder());
    assert!(!refused.was_stored() && run(&refused) == expected);
    // What cannot be written can be read; the superuser writes all the same.
    set_mode(0o500);
    let folder = place.folder();
    let read_only = compiled(Tiers::CheapFirst, &folder);
    assert!(read_only.was_stored() && run(&read_only) == expected);
    read_only.improve().expect("compiles");
    assert_eq!(run(&read_only), expected);
    set_mode(0o700);
    // A file where the folder should be, and no way to make one.
    let file = Place::new("file");
    fs::write(&file.0, "").expect("a file");
    for path in [file.0.clone(), file.0.join("below"), PathBuf::from("/proc/none"), PathBuf::from("\0")] {
        let folder = Arc::new(CodeFolder::new(path, 1 << 26));
        assert_eq!(run(&compiled(Tiers::CheapFirst, &folder)), expected);
    }
    let _ = fs::remove_file(&file.0);
}

/// Files that go while code is looked for and put there by several.
#[test]
fn folders_are_shared_and_may_be_emptied_meanwhile() {
    let place = Place::new("shared");
    let expected = expected();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let compiled = compiled(Tiers::CheapFirst, &place.folder());
                    assert_eq!(run(&compiled), expected);
                    compiled.improve().expect("compiles");
                    assert_eq!(run(&compiled), expected);
                }
            });
        }
        scope.spawn(|| {
            for round in 0..40 {
                match round % 4 {
                    0 => drop(fs::remove_dir_all(&place.0)),
                    _ => place.files().iter().take(1).for_each(|file| drop(fs::remove_file(file))),
                }
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        });
    });
    assert_eq!(run(&compiled(Tiers::CheapFirst, &place.folder())), expected);
}
