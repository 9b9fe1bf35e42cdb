//! A share of the suite's files that takes a minute. `make sqllogictest` runs all.

use std::process::Command;

/// Parts of their paths: files that are quick and were seen to agree, no sample of the suite. Files over TPC-H's tables
/// take many minutes at three rows a batch.
const FILES: [&str; 13] = [
    "/case.slt",
    "distinct_on",
    "/limit.slt",
    "/predicates",
    "nullif",
    "/select.slt",
    "/decimal.slt",
    "coalesce",
    "/union.slt",
    "null_aware",
    "/subquery_sort",
    "array_agg.slt",
    "grouping",
];

#[test]
fn every_record_gives_what_it_gives_without_weld() {
    let output = Command::new(env!("CARGO_BIN_EXE_weld-sqllogictest"))
        .args(FILES.iter().flat_map(|file| ["--file", file]))
        .args(["--at", "8192x4", "--at", "3x1"])
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
