//! `weld repl`, with its entries on standard input.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{folder_with, weld_with_input};

/// What is printed for entries after the greeting, and what is printed on standard error.
fn answers(entries: &str) -> (Vec<String>, String) {
    let output = weld_with_input("repl", "", entries);
    assert_eq!(output.code, Some(0));
    (output.stdout.lines().skip(1).map(str::to_owned).collect(), output.stderr)
}

/// The same where nothing goes wrong.
#[track_caller]
fn values(entries: &str) -> Vec<String> {
    let (values, errors) = answers(entries);
    assert_eq!(errors, "");
    values
}

#[test]
fn definitions_are_kept() {
    assert_eq!(values("let x = 5L;\nx * 2L\nlet x = x + 1L; let y = x;\ny\n"), ["10", "6"]);
    assert_eq!(values("type pair = {i64,f64};\nmacro swap(p) = {p.$1, p.$0};\nswap({1L, 2.0}: pair)"), ["[2.0,1]"]);
    assert_eq!(values("# nothing\n\nlet v = [1L,\n2L];\n:type v\n:explain len(v)\n"), ["vec[i64]", "2L"]);
}

#[test]
fn definitions_are_replaced() {
    assert_eq!(values("macro f(x) = x;\nf(1)\nmacro f(x) = x + 1;\nf(1)\n"), ["1", "2"]);
    assert_eq!(values("type t = i64;\ntype t = f64;\n[]: vec[t]\n:type [1.0]: vec[t]\n"), ["[]", "vec[f64]"]);
}

#[test]
fn what_is_not_needed_does_not_run() {
    let (values, errors) = answers("let z = 1 / 0;\n1 + 1\nz\n");
    assert_eq!(values, ["2"]);
    assert!(errors.contains("division by zero") && errors.contains("let z = 1 / 0;"), "{errors}");
}

#[test]
fn errors_are_shown_in_what_was_typed() {
    for (entries, place) in [
        ("let a = 1;\nlet y = a + z;\n", "repl:1:13"),
        ("let a = 1; let y = a + z;\n", "repl:1:24"),
        ("type t = i64;\nmacro f(x) = 1 +;\n", "repl:1:17"),
        ("let a = 1;\na +\n  b\n", "repl:2:3"),
        ("let b = appender[i64];\n", "repl:1:9"),
        ("let a = 1; let b = 2; a; b\n", "repl:1:24"),
    ] {
        let (values, errors) = answers(entries);
        assert!(errors.contains(place) && values.is_empty(), "{entries}{errors}{values:?}");
    }
    assert!(answers(":nonsense\n").1.contains("no command :nonsense"));
    assert!(answers(":load\n").1.contains(":load needs a file"));
    assert!(answers("|x: i64| x\n").1.contains("takes 1 argument,"));
}

#[test]
fn files_are_loaded() {
    let folder = folder_with(&[
        ("good.weld", b"# doubles\nmacro twice(x) = x + x;\nlet four = twice(2L);\nfour + 1L\n"),
        ("bad.weld", b"macro one() = 1;\n\nlet y = one() + z;\n"),
    ]);
    let path = |name: &str| folder.path().join(name).display().to_string();
    assert_eq!(values(&format!(":load {}\nfour\ntwice(1)\n", path("good.weld"))), ["4", "2"]);
    let (_, errors) = answers(&format!(":load {}\n", path("bad.weld")));
    assert!(errors.contains("bad.weld:3:17"), "{errors}");
    assert!(answers(":load /no/such/file\n").1.contains("cannot read /no/such/file"));
}

#[test]
fn ctrl_c_stops_what_runs() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_weld"))
        .args(["repl", "--engine", "interp"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("weld starts");
    let mut input = child.stdin.take().expect("stdin is piped");
    input.write_all(b"1 + 1\niterate(0L, |x| {x + 1L, true})\n2 + 2\n").expect("it reads");
    drop(input);
    let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
    assert!(lines.by_ref().any(|line| line.is_ok_and(|line| line == "2")));
    let (stopped, is_stopped) = std::sync::mpsc::channel::<()>();
    let id = child.id().to_string();
    // The run may not have begun: again until it has ended.
    let signals = std::thread::spawn(move || {
        while is_stopped
            .recv_timeout(Duration::from_secs(2))
            .is_err_and(|e| e == std::sync::mpsc::RecvTimeoutError::Timeout)
        {
            let _ = Command::new("kill").args(["-INT", &id]).status();
        }
    });
    assert!(lines.by_ref().any(|line| line.is_ok_and(|line| line == "4")));
    drop(stopped);
    signals.join().expect("it does not panic");
    let output = child.wait_with_output().expect("weld ends");
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stderr).contains("the run was stopped"));
}
