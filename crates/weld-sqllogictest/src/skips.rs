//! Which records are not compared, and why: `skips.txt`.

use std::path::Path;

/// One line: the end of a file's path, what is in the record's SQL (`*`: anything), and the reason, with bars between
/// them.
struct Skip {
    file: &'static str,
    sql: &'static str,
}

pub(crate) struct Skips(Vec<Skip>);

impl Skips {
    pub(crate) fn new() -> Skips {
        let lines = include_str!("../skips.txt").lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        Skips(lines.map(parse).collect())
    }

    pub(crate) fn has(&self, file: &Path, sql: &str) -> bool {
        self.0
            .iter()
            .any(|skip| (skip.file == "*" || file.ends_with(skip.file)) && (skip.sql == "*" || sql.contains(skip.sql)))
    }
}

fn parse(line: &'static str) -> Skip {
    let mut parts = line.split(" | ").map(str::trim);
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(file), Some(sql), Some(reason), None) if !reason.is_empty() => Skip { file, sql },
        _ => panic!("skips.txt: {line}: FILE | SQL | REASON expected"),
    }
}
