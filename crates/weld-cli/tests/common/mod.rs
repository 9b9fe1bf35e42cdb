//! Runs the `weld` binary and looks at what it printed.
#![allow(dead_code, reason = "every test file uses its own part of this")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) struct Output {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: Option<i32>,
}

/// Runs `weld` with arguments, split at blanks, and one last argument as it is unless it is empty.
pub(crate) fn weld(arguments: &str, last: &str) -> Output {
    weld_with_input(arguments, last, "")
}

pub(crate) fn weld_with_input(arguments: &str, last: &str, input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weld"));
    command.args(arguments.split_whitespace()).args((!last.is_empty()).then_some(last));
    // Not the code of whoever runs the tests.
    command.env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("weld starts");
    {
        use std::io::Write;
        let mut stdin = child.stdin.take().expect("stdin is piped");
        // A command that fails early does not read its input.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().expect("weld ends");
    let text = |bytes| String::from_utf8(bytes).expect("weld prints UTF-8");
    let mut stderr = text(output.stderr);
    if output.status.code().is_none() {
        stderr += &output.status.to_string();
    }
    Output { stdout: text(output.stdout), stderr, code: output.status.code() }
}

impl Output {
    /// What it printed, given that it succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "stderr: {}\nstdout: {}", self.stderr, self.stdout);
        self.stdout
    }

    /// Its one line of error, given that it failed with this code and printed nothing else.
    #[track_caller]
    pub(crate) fn error(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "stderr: {}\nstdout: {}", self.stderr, self.stdout);
        assert_eq!(self.stdout, "");
        let line = self.stderr.strip_suffix('\n').expect("the error ends its line");
        assert!(!line.contains('\n'), "more than one line: {line}");
        assert!(!line.contains("panicked"), "{line}");
        line.strip_prefix("error: ").expect("errors say that they are").to_owned()
    }
}

/// TPC-H data of scale factor 0.01, made once for all tests.
pub(crate) fn tpch_data() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tpch-sf0.01");
    if !folder.exists() {
        weld("tpch run -s 0.01 -q 6 -i 1 --engine datafusion --data", folder.to_str().expect("a UTF-8 path")).ok();
    }
    folder
}

/// A folder of this test's own, with these files.
pub(crate) fn folder_with(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder can be made");
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).expect("a file can be written");
    }
    folder
}
