//! Code on disk: results are the same with every tier, with the folder cold, warm and damaged, and no statement names
//! it.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::config;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use weld_datafusion::{WeldOptions, WeldSessionExt};

const QUERIES: [&str; 3] = [
    "SELECT a % 7, sum(a * b), count(*), max(c) FROM t WHERE a % 3 <> 1 GROUP BY a % 7 ORDER BY 1",
    "SELECT count(*), sum(t.a + u.b) FROM t JOIN t AS u ON t.a = u.b WHERE u.c LIKE '%1%'",
    "SELECT a, c || '!' FROM t WHERE a * b > 990000 ORDER BY 1",
];

/// A session over the folder, as a process that begins has it.
async fn session(folder: Option<&Path>, tiers: &str) -> SessionContext {
    let mut config = config(2);
    let path = folder.map(|path| path.to_str().expect("a text").to_owned()).unwrap_or_default();
    config.options_mut().extensions.insert(WeldOptions::default());
    for (name, value) in [("cache_dir", path.as_str()), ("compile_min_rows", "0"), ("tiers", tiers)] {
        config.options_mut().set(&format!("weld.{name}"), value).expect("a setting");
    }
    let state = SessionStateBuilder::new().with_config(config).with_default_features().with_weld().build();
    let session = SessionContext::new_with_state(state);
    let table =
        "CREATE TABLE t AS SELECT v AS a, v % 1000 AS b, CAST(v AS VARCHAR) AS c FROM generate_series(1, 5000) AS g(v)";
    session.sql(table).await.expect("valid SQL").collect().await.expect("it runs");
    session
}

async fn text(session: &SessionContext, sql: &str) -> String {
    let batches = session.sql(sql).await.expect("valid SQL").collect().await.expect("it runs");
    pretty_format_batches(&batches).expect("it prints").to_string()
}

async fn answers(session: &SessionContext) -> Vec<String> {
    let mut answers = Vec::new();
    for sql in QUERIES {
        answers.push(text(session, sql).await);
    }
    answers
}

/// The sum of a metric over the pipelines of the queries.
async fn metric(session: &SessionContext, name: &str) -> usize {
    let mut sum = 0;
    for sql in QUERIES {
        let text = text(session, &format!("EXPLAIN ANALYZE {sql}")).await;
        let values = text.split(&format!("{name}=")).skip(1).map(str::to_owned).collect::<Vec<_>>();
        let number =
            |rest: &String| rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse::<usize>().ok());
        sum += values.iter().filter_map(number).sum::<usize>();
    }
    sum
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("it is there").map(|entry| entry.expect("it is there").path());
    let mut files: Vec<PathBuf> = entries.collect();
    files.sort();
    files
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_do_not_depend_on_the_folder() {
    let expected = answers(&session(None, "auto").await).await;
    for tiers in ["auto", "optimised", "alternate"] {
        let place = tempfile::tempdir().expect("a folder");
        let folder = place.path().join("code");
        assert_eq!(answers(&session(Some(&folder), tiers).await).await, expected, "{tiers}, cold");
        let warm = session(Some(&folder), tiers).await;
        let hits = metric(&warm, "disk_hits").await;
        assert!(hits > 0, "{tiers}");
        assert_eq!(answers(&warm).await, expected, "{tiers}, warm");
        for (number, file) in files(&folder).iter().enumerate() {
            let mut bytes = fs::read(file).expect("it is ours");
            match number % 4 {
                0 => bytes.truncate(bytes.len() * number / 50),
                1 => bytes.clear(),
                2 => {
                    let at = bytes.len() * (number % 10) / 10;
                    bytes[at] ^= 0x10;
                }
                _ => drop(fs::remove_file(file)),
            }
            if number % 4 != 3 {
                fs::write(file, bytes).expect("it is ours");
            }
        }
        let damaged = session(Some(&folder), tiers).await;
        assert_eq!(metric(&damaged, "disk_hits").await, 0, "{tiers}");
        assert_eq!(answers(&damaged).await, expected, "{tiers}, damaged");
        let repaired = session(Some(&folder), tiers).await;
        // More, if optimised code was made meanwhile, which is in two modules.
        assert!(metric(&repaired, "disk_hits").await >= hits, "{tiers}");
    }
}

/// Where there is code on disk, no operators begin in its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn code_on_disk_has_no_trial() {
    let place = tempfile::tempdir().expect("a folder");
    text(&session(Some(place.path()), "auto").await, QUERIES[0]).await;
    for (folder, is_there) in [(Some(place.path()), true), (None, false)] {
        let session = session(folder, "auto").await;
        for setting in ["SET weld.compile_min_rows = 100", "SET weld.plan_min_rows = 0"] {
            session.sql(setting).await.expect("a setting");
        }
        let analyzed = text(&session, &format!("EXPLAIN ANALYZE {}", QUERIES[0])).await;
        let began = analyzed.contains("first_rows=") || analyzed.contains("few_rows=5.00 K");
        assert_eq!(began, !is_there, "{analyzed}");
    }
}

/// Other constants of the same shape find the code, here as in memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_of_one_shape_share_what_is_on_disk() {
    let place = tempfile::tempdir().expect("a folder");
    let sql = |constant: usize| format!("SELECT sum(a) FROM t WHERE b > {constant}");
    let first = session(Some(place.path()), "auto").await;
    let expected = text(&first, &sql(700)).await;
    text(&first, &sql(500)).await;
    let count = files(place.path()).len();
    let second = session(Some(place.path()), "auto").await;
    assert_eq!(text(&second, &sql(700)).await, expected);
    assert_eq!(files(place.path()).len(), count);
    let analyzed = text(&second, &format!("EXPLAIN ANALYZE {}", sql(300))).await;
    assert!(analyzed.contains("cache_hits=1"), "{analyzed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_statement_names_a_folder() {
    let place = tempfile::tempdir().expect("a folder");
    let path = place.path().join("code");
    for folder in [None, Some(path.as_path())] {
        let session = session(folder, "auto").await;
        for sql in ["SET weld.cache_dir = '/tmp/other'", "SET weld.cache_dir_size = 1", "RESET weld.cache_dir"] {
            let error = match session.sql(sql).await {
                Ok(frame) => frame.collect().await.map(drop),
                Err(error) => Err(error),
            };
            assert!(error.is_err(), "{sql}");
        }
        answers(&session).await;
    }
    assert!(path.is_dir());
}
