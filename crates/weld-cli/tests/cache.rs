//! Code that one process leaves on disk is what the next one runs.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::weld;

const SQL: &str = "set weld.compile_min_rows = 0; explain analyze select v % 7, sum(v * v), count(*) \
    from generate_series(1, 100000) as g(v) where v % 3 = 1 group by v % 7";

fn place(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cache-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

/// The sum of a metric over all pipelines.
fn metric(text: &str, name: &str) -> usize {
    let name = format!("{name}=");
    let values = text.split(&name).skip(1);
    values.map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or("").parse().unwrap_or(0)).sum()
}

#[test]
fn a_second_process_compiles_nothing() {
    let place = place("second");
    let run = |sql: &str| weld(&format!("sql -p 2 --cache-dir {} -c", place.display()), sql).ok();
    let first = run(SQL);
    assert!(metric(&first, "llvm_instructions") > 0 && metric(&first, "disk_hits") == 0, "{first}");
    let second = run(SQL);
    assert!(
        metric(&second, "disk_hits") > 0 && metric(&second, "disk_hits") == metric(&second, "cache_misses"),
        "{second}"
    );
    // Another divisor is another program.
    let other = run(&SQL.replace("v % 3", "v % 5"));
    assert!(metric(&other, "disk_hits") < metric(&other, "cache_misses"), "{other}");
    let info = |command: &str| weld(&format!("cache {command} --cache-dir {}", place.display()), "").ok();
    assert!(info("info").contains(" MiB of at most 256 MiB") && !info("info").contains(": 0 entries"));
    assert!(info("clear").contains("entries deleted"));
    assert!(info("info").contains(": 0 entries, 0.0 MiB"));
    assert_eq!(metric(&run(SQL), "disk_hits"), 0);
}

#[test]
fn it_can_be_switched_off() {
    let place = place("off");
    let run = |arguments: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weld"));
        command.env("XDG_CACHE_HOME", &place).args(["sql", "-c", SQL]).args(arguments.split_whitespace());
        let output = command.stdin(Stdio::null()).output().expect("weld starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for _ in 0..2 {
        let text = run("--no-cache");
        assert!(metric(&text, "cache_misses") > 0 && metric(&text, "disk_hits") == 0, "{text}");
    }
    assert!(!place.exists());
    run("");
    assert!(place.join("weld").is_dir());
    assert!(metric(&run(""), "disk_hits") > 0);
    assert_eq!(metric(&run("--no-cache"), "disk_hits"), 0);
    let text = weld("sql --no-cache --cache-dir x -c", "select 1").error(2);
    assert!(text.contains("--no-cache"), "{text}");
}

/// Two processes that compile the same at the same time, and one that deletes what they leave.
#[test]
fn processes_do_not_disturb_each_other() {
    let place = place("many");
    let start = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weld"));
        command.args(arguments).arg("--cache-dir").arg(&place);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("weld starts")
    };
    let sql = SQL.replace("explain analyze", "") + " order by 1";
    let alone = start(&["sql", "--format", "csv", "-c", &sql]).wait_with_output().expect("weld ends").stdout;
    assert_eq!(alone.iter().filter(|byte| **byte == b'\n').count(), 8);
    for _ in 0..3 {
        let runs: Vec<_> = (0..3).map(|_| start(&["sql", "--format", "csv", "-c", &sql])).collect();
        let clear = start(&["cache", "clear"]);
        for run in runs {
            assert_eq!(run.wait_with_output().expect("weld ends").stdout, alone);
        }
        assert!(clear.wait_with_output().expect("weld ends").status.success());
    }
}

#[cfg(unix)]
#[test]
fn a_folder_that_others_may_write_is_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let place = place("open");
    std::fs::create_dir(&place).expect("a folder");
    std::fs::set_permissions(&place, PermissionsExt::from_mode(0o777)).expect("it is ours");
    let text = weld(&format!("sql --cache-dir {} -c", place.display()), SQL).ok();
    assert_eq!(metric(&text, "disk_hits"), 0);
    assert_eq!(std::fs::read_dir(&place).expect("a folder").count(), 0);
    let text = weld(&format!("cache info --cache-dir {}", place.display()), "").error(1);
    assert!(text.contains("is not used: others may write into it"), "{text}");
}
