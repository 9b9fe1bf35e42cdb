//! Queries whose functions never end are dropped: their loops end, whoever runs them, and their threads and memory are
//! free.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use datafusion::prelude::SessionContext;
use tokio::runtime::{Builder, Runtime};

use crate::common::{config, session};

const ENDLESS: &str = "CREATE FUNCTION endless(x BIGINT) RETURNS BIGINT LANGUAGE weld AS
    '|x: i64| iterate({x, [x]}, |s| {{s.$0 + 1L, s.$1}, true}).$0'";

const GROWING: &str = "CREATE FUNCTION growing(x BIGINT) RETURNS BIGINT LANGUAGE weld AS
    '|x: i64| len(result(iterate({x, appender[i64]}, |s| {{s.$0 + 1L, merge(s.$1, s.$0)}, true}).$1))'";

/// The text has an end, which nobody lives to see.
const NESTED: &str = "CREATE FUNCTION nested(x INT) RETURNS INT LANGUAGE ttl AS $$
function int nested(int x) {
  var int i; var int j; var int s;
  for (i in 0...2147483647 by 1) for (j in 0...2147483647 by 1) { s = s + 1; if (s > 1000) s = x; }
  return s;
} $$";

async fn set_up(context: &SessionContext) {
    let table = "CREATE TABLE t AS SELECT v AS k, concat('a', CAST(v % 3 AS VARCHAR)) AS s FROM generate_series(1, 100) AS g(v)";
    for sql in [table, ENDLESS, GROWING, NESTED] {
        context.sql(sql).await.expect("valid SQL").collect().await.expect("it runs");
    }
}

/// Runs the query for a while on a runtime that waits for its threads when it is dropped; gives how long its loops went
/// on after the query was dropped.
fn is_dropped(runtime: Runtime, weld: bool, sql: &'static str) -> Duration {
    let (done, is_done) = mpsc::channel();
    std::thread::spawn(move || {
        let context = session(config(2), true);
        let dropped = runtime.block_on(async {
            set_up(&context).await;
            let set = format!("SET weld.enabled = {weld}");
            context.sql(&set).await.expect("a setting").collect().await.expect("a setting");
            let frame = context.sql(sql).await.expect("valid SQL");
            let run = tokio::time::timeout(Duration::from_millis(300), frame.collect()).await;
            assert!(run.is_err(), "{sql}\n{run:?}");
            Instant::now()
        });
        drop(runtime);
        let took = dropped.elapsed();
        assert_eq!(context.runtime_env().memory_pool.reserved(), 0, "{sql}");
        done.send(took).expect("somebody waits");
    });
    is_done.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| panic!("{sql}, weld.enabled = {weld}"))
}

/// Within a second; where others keep the processors busy, in one of a few attempts.
fn is_dropped_soon(runtime: impl Fn() -> Runtime, weld: bool, sql: &'static str) {
    let soon = (0..5).any(|_| is_dropped(runtime(), weld, sql) < Duration::from_secs(1));
    assert!(soon, "{sql}, weld.enabled = {weld}: its loops go on for more than a second");
}

fn are_dropped(queries: &[&'static str]) {
    let one = || Builder::new_current_thread().enable_all().build().expect("a runtime");
    let two = || Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    for sql in queries {
        for weld in [true, false] {
            is_dropped_soon(one, weld, sql);
            is_dropped_soon(two, weld, sql);
        }
    }
}

#[test]
fn in_filters_and_projections() {
    are_dropped(&[
        "SELECT endless(k) FROM t",
        "SELECT count(*) FROM t WHERE endless(k) > 0",
        "SELECT growing(k) FROM t",
        "SELECT nested(CAST(k AS INT)) FROM t",
    ]);
}

#[test]
fn in_aggregates_and_case() {
    are_dropped(&[
        "SELECT s, sum(endless(k)) FROM t GROUP BY s",
        "SELECT endless(k) % 2, count(*) FROM t GROUP BY 1",
        "SELECT CASE WHEN k > 50 THEN endless(k) ELSE 0 END FROM t",
        "SELECT s, sum(k) FROM t GROUP BY s HAVING endless(sum(k)) > 0",
    ]);
}

#[test]
fn on_both_sides_of_joins() {
    are_dropped(&[
        "SELECT a.k FROM t AS a JOIN (SELECT endless(k) AS k FROM t) AS b ON a.k = b.k",
        "SELECT a.k FROM (SELECT endless(k) AS k FROM t) AS a JOIN t AS b ON a.k = b.k",
        "SELECT a.k FROM t AS a JOIN t AS b ON a.k = b.k WHERE endless(a.k + b.k) > 0",
    ]);
}

#[test]
fn in_sorts_and_windows() {
    are_dropped(&[
        "SELECT k FROM t ORDER BY endless(k)",
        "SELECT k FROM t ORDER BY endless(k) LIMIT 3",
        "SELECT sum(k) OVER (ORDER BY endless(k)) FROM t",
        "SELECT sum(endless(k)) OVER (PARTITION BY s) FROM t",
    ]);
}
