//! `weld bench DATA --queries DIR`: anybody's files and queries as a suite.
//!
//! Tables are what `weld sql DATA` registers. Each `.sql` file of the other folder is a query: one statement, named by
//! its file. A file that cannot be run is an error of its query, not of the run.

use std::path::{Path, PathBuf};

use clap::Args;

use super::Options;
use super::suite::{Query, Suite};
use crate::failure::{Failure, Result};
use crate::program;
use crate::sql;
use crate::tables;

#[derive(Args)]
pub(crate) struct FolderArgs {
    /// Folder whose .parquet, .csv and .json files are the tables, named after them
    #[arg(value_name = "DATA")]
    data: PathBuf,
    /// Folder of the queries: .sql files with a statement each
    #[arg(long, value_name = "DIR")]
    queries: PathBuf,
    /// Names of queries, such as daily,q1 for daily.sql and q1.sql [default: all]
    #[arg(short = 'q', long = "only", value_name = "LIST")]
    only: Vec<String>,
    #[command(flatten)]
    pub(super) options: Options,
}

impl FolderArgs {
    pub(super) fn suite(&self) -> Result<Suite> {
        let command =
            ["bench".into(), self.data.as_os_str().to_owned(), "--queries".into(), self.queries.as_os_str().to_owned()];
        let queries = picked(in_folder(&self.queries)?, &self.only)?;
        Ok(Suite {
            title: format!("{} over {}", self.queries.display(), self.data.display()),
            tables: tables::in_folder(&self.data)?,
            queries,
            scale_factor: None,
            command: command.into(),
        })
    }
}

/// The queries of a folder, `q2` before `q10`.
fn in_folder(folder: &Path) -> Result<Vec<Query>> {
    let mut queries = Vec::new();
    for path in tables::list(folder)? {
        let is_sql = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("sql")) && !path.is_dir();
        if let Some(name) = path.file_stem().filter(|_| is_sql) {
            let shown = path.display();
            let name = name.to_str().ok_or_else(|| Failure::new(format!("{shown}: the name is not UTF-8")))?;
            let text = statement(&path).map_err(|failure| failure.message().to_owned());
            queries.push(Query { name: name.to_owned(), number: None, text: text.map(Into::into) });
        }
    }
    if queries.is_empty() {
        return Err(Failure::new(format!("{}: no .sql file in this folder", folder.display())));
    }
    queries.sort_by(|a, b| natural(&a.name).cmp(&natural(&b.name)).then_with(|| a.name.cmp(&b.name)));
    Ok(queries)
}

/// The file's text, if it is one statement. What does not parse is left to the engines, which say where.
fn statement(path: &Path) -> Result<String> {
    let text = program::read(path)?;
    let shown = path.display();
    match sql::parse(&text).map_or(1, |statements| statements.len()) {
        0 => Err(Failure::new(format!("{shown}: no statement in this file"))),
        1 => Ok(text),
        count => Err(Failure::new(format!("{shown}: {count} statements in this file, where one is expected"))),
    }
}

/// The queries that a list names, in its order; all when it names none. A name may have commas in it.
fn picked(queries: Vec<Query>, only: &[String]) -> Result<Vec<Query>> {
    if only.is_empty() {
        return Ok(queries);
    }
    let find = |name: &str| queries.iter().find(|query| query.name == name).cloned();
    let mut picked = Vec::new();
    for list in only {
        if let Some(query) = find(list) {
            picked.push(query);
            continue;
        }
        for name in list.split(',').map(str::trim) {
            let found = find(name).or_else(|| find(name.strip_suffix(".sql")?));
            picked.push(found.ok_or_else(|| Failure::Usage(format!("there is no query '{name}' in the folder")))?);
        }
    }
    Ok(picked)
}

/// A key by which names sort as people count: runs of digits are numbers.
fn natural(name: &str) -> Vec<(usize, &[u8])> {
    name.as_bytes().chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit()).map(natural_part).collect()
}

fn natural_part(run: &[u8]) -> (usize, &[u8]) {
    if !run[0].is_ascii_digit() {
        return (0, run);
    }
    let zeros = run.iter().take_while(|&&digit| digit == b'0').count();
    // A longer number is a larger one.
    (1 + run.len() - zeros, &run[zeros..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_as_people_count() {
        let mut names = ["q10", "q2", "q02b", "a", "q1", "10", "9"];
        names.sort_by(|a, b| natural(a).cmp(&natural(b)));
        assert_eq!(names, ["a", "q1", "q2", "q02b", "q10", "9", "10"]);
    }

    #[test]
    fn lists_name_queries() {
        let query = |name: &str| Query { name: name.to_owned(), number: None, text: Ok("select 1".into()) };
        let names = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
            let picked = picked(vec![query("a"), query("b"), query("a,b")], &only);
            picked.map(|queries| queries.into_iter().map(|query| query.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]).unwrap(), ["a", "b", "a,b"]);
        assert_eq!(names(&["b, a.sql"]).unwrap(), ["b", "a"]);
        assert_eq!(names(&["a,b", "a"]).unwrap(), ["a,b", "a"]);
        assert!(matches!(names(&["a,c"]), Err(Failure::Usage(_))));
    }
}
