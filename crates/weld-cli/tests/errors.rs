//! Bad input gives one line that names the thing, and exit code 1 or 2.

mod common;

use common::{folder_with, tpch_data, weld, weld_with_input};

#[test]
fn wrong_options() {
    assert_eq!(weld("tpch run --sale-factor 1", "").error(2), {
        "unexpected argument '--sale-factor' found tip: a similar argument exists: '--scale-factor'"
    });
    assert_eq!(
        weld("tpch run --storage tape", "").error(2),
        "invalid value 'tape' for '--storage <STORAGE>' [possible values: parquet, memory, weld]"
    );
    assert!(weld("tpch run --queries 1,23", "").error(2).contains("'23'"));
    assert!(weld("tpch run --scale-factor -1", "").error(2).contains("-1"));
    assert!(weld("tpch run --scale-factor nan", "").error(2).contains("nan"));
    assert!(weld("tpch run --partitions 0", "").error(2).contains("'0'"));
    assert!(weld("tpch run --iterations 0", "").error(2).contains("'0'"));
    assert!(weld("sql --table nonsense", "").error(2).contains("expected NAME=PATH"));
    assert!(weld("frobnicate", "").error(2).contains("frobnicate"));
}

#[test]
fn help_is_not_an_error() {
    assert!(weld("tpch run --help", "").ok().contains("--scale-factor"));
    assert!(weld("--version", "").ok().starts_with("weld "));
}

#[test]
fn missing_files_and_tables() {
    let error = weld("sql -c", "select * from nowhere").error(1);
    assert!(error.contains("nowhere"), "{error}");
    let error = weld("sql --table t=/no/such/file.parquet -c", "select 1").error(1);
    assert_eq!(error, "cannot read /no/such/file.parquet: No such file or directory (os error 2)");
    let error = weld("sql -c select /no/such/folder", "").error(1);
    assert_eq!(error, "cannot read /no/such/folder: No such file or directory (os error 2)");
    let error = weld("sql -f /no/such/file.sql", "").error(1);
    assert_eq!(error, "cannot read /no/such/file.sql: No such file or directory (os error 2)");
}

#[test]
fn bad_sql() {
    for (statement, part) in [
        ("selekt 1", "selekt"),
        ("select nothing", "nothing"),
        ("select 1 +", "EOF"),
        ("select cast('x' as int)", "x"),
        ("select 1/0", "zero"),
        ("set datafusion.no_such_setting = 1", "no_such_setting"),
    ] {
        let error = weld("sql -c", statement).error(1);
        assert!(error.to_lowercase().contains(&part.to_lowercase()), "{statement}: {error}");
    }
}

#[test]
fn bad_input() {
    assert_eq!(weld("", "").error(2), "a subcommand is missing; --help lists them");
    assert_eq!(weld("tpch", "").error(2), "a subcommand is missing; --help lists them");
    let folder = folder_with(&[("late.csv", format!("a\n{}x\n", "1\n".repeat(3000)).as_bytes())]);
    let error = weld(&format!("sql {} -c", folder.path().display()), "select sum(a) from late").error(1);
    assert!(error.contains("/late.csv caused by") && error.contains("line 3001"), "{error}");
}

/// Planning recurses, in a debug build by 25 kB a term.
#[test]
fn long_expressions() {
    let text = format!("select 1 as x where {}", vec!["1 = 2"; 1000].join(" or "));
    assert_eq!(weld("sql --format csv -c", &text).ok(), "x\n");
}

#[test]
fn unreadable_data() {
    let whole = std::fs::read(tpch_data().join("region.parquet")).unwrap();
    let mut length = whole.clone();
    let at = length.len() - 8;
    length[at..at + 4].copy_from_slice(&i32::MAX.to_le_bytes());
    let folder = folder_with(&[
        ("empty.parquet", b""),
        ("text.parquet", b"this is no Parquet file, whatever its name may be"),
        ("cut.parquet", &whole[..whole.len() / 2]),
        ("notes.txt", b"hello"),
        ("length.parquet", &length),
    ]);
    for name in ["empty.parquet", "text.parquet", "cut.parquet", "notes.txt", "length.parquet"] {
        let path = folder.path().join(name);
        let error = weld(&format!("sql --table t={} -c", path.display()), "select * from t").error(1);
        assert!(error.contains(path.to_str().unwrap()), "{error}");
    }
    // Those of a folder do not keep its other tables from being read.
    std::fs::write(folder.path().join("region.parquet"), &whole).unwrap();
    let in_folder = |sql: &str| weld(&format!("sql --format csv {} -c", folder.path().display()), sql);
    let output = in_folder("select count(*) as n from region");
    assert_eq!((output.stdout.as_str(), output.code), ("n\n5\n", Some(0)));
    assert_eq!(output.stderr.matches("warning: cannot read").count(), 4, "{}", output.stderr);
    assert!(in_folder("select * from cut").stderr.contains("'datafusion.public.cut' not found"));
}

#[test]
fn data_that_goes_bad_in_the_middle() {
    let mut bytes = std::fs::read(tpch_data().join("orders.parquet")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle - 5_000..middle + 5_000].fill(0xff);
    let folder = folder_with(&[("orders.parquet", &bytes)]);
    for engine in ["weld", "datafusion"] {
        let arguments = format!("sql --format csv --engine {engine} {} -c", folder.path().display());
        let error = weld(&arguments, "select sum(o_totalprice), max(o_comment), min(o_clerk) from orders").error(1);
        assert!(error.starts_with("cannot read /") && error.contains("/orders.parquet caused by"), "{error}");
    }
}

#[test]
fn foreign_folders_are_left_alone() {
    let folder = folder_with(&[("notes.txt", b"hello")]);
    let error = weld("tpch run -s 0.01 --data", folder.path().to_str().unwrap()).error(1);
    assert!(error.ends_with("holds files, but no region.parquet"), "{error}");
}

#[test]
fn output_that_nobody_reads_is_no_error() {
    // The reader is gone before the first row: `weld ... | true`.
    use std::process::{Command, Stdio};
    let mut child = Command::new(env!("CARGO_BIN_EXE_weld"))
        .args(["sql", "--format", "csv", "-c", "select * from generate_series(1, 300000)"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn the_first_bad_statement_ends_a_script() {
    let output = weld_with_input("sql --format csv", "", "select 1 as a; select nothing; select 2 as b;");
    assert_eq!(output.code, Some(1));
    assert_eq!(output.stdout, "a\n1\n");
}
