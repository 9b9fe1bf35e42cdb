//! A share of the suite's files: those that take a minute or two. `make sqllogictest` runs all.

use std::process::Command;

#[test]
fn every_record_gives_what_it_gives_without_weld() {
    let output = Command::new(env!("CARGO_BIN_EXE_weld-sqllogictest"))
        .args(["--every", "12", "--at", "8192x4", "--at", "3x1"])
        .output()
        .expect("it starts");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{stdout}{stderr}");
    assert!(output.status.success(), "{stdout}{stderr}");
    assert!(stdout.ends_with("0 differences\n"), "{stdout}");
    let compiled =
        stdout.lines().find_map(|line| line.split_once(" records, ")?.1.split_once(" with a compiled operator"));
    let compiled: usize = compiled.expect("it sums up").0.parse().expect("a number");
    assert!(compiled > 100, "{stdout}");
}
