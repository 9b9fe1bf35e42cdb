//! The cache of compiled code stays within its bound, whatever comes, and belongs to nobody once its sessions are gone.

mod common;

use std::sync::Arc;

use common::{config, session};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use weld_datafusion::{CacheStatistics, CodeCache, WeldSessionExt};

fn sharing(cache: &Arc<CodeCache>) -> SessionContext {
    let builder = SessionStateBuilder::new().with_config(config(1)).with_default_features();
    SessionContext::new_with_state(builder.with_weld_sharing(Arc::clone(cache)).build())
}

async fn run(session: &SessionContext, sql: &str) -> usize {
    let batches = session.sql(sql).await.expect("valid SQL").collect().await.expect("it runs");
    batches.iter().map(|batch| batch.num_rows()).sum()
}

/// A query of a program of its own for each number: divisors are no parameters.
fn query(number: usize) -> String {
    format!("SELECT v + 1 FROM t WHERE v % {number} = 1")
}

async fn small_session(cache: &Arc<CodeCache>) -> SessionContext {
    let session = sharing(cache);
    for sql in ["SET weld.opt_level = 0", "CREATE TABLE t AS SELECT v FROM generate_series(1, 100) AS g(v)"] {
        run(&session, sql).await;
    }
    session
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_not_used_for_longest_makes_room() {
    // What one program takes.
    let alone = Arc::new(CodeCache::default());
    let session = small_session(&alone).await;
    run(&session, &query(2)).await;
    let CacheStatistics { programs, bytes, .. } = alone.statistics();
    assert_eq!(programs, 1);
    let bytes_max = 4 * bytes + bytes / 2;
    let cache = Arc::new(CodeCache::new(bytes_max));
    let session = small_session(&cache).await;
    for number in 2..8 {
        run(&session, &query(number)).await;
        // The first is used again and again.
        run(&session, &query(2)).await;
    }
    let statistics = cache.statistics();
    assert!(statistics.bytes <= bytes_max && statistics.programs == 4, "{statistics:?}");
    assert_eq!((statistics.misses, statistics.evicted), (6, 2), "{statistics:?}");
    for (number, is_kept) in [(2, true), (7, true), (6, true), (5, true), (3, false)] {
        let before = cache.statistics().misses;
        run(&session, &query(number)).await;
        assert_eq!(cache.statistics().misses == before, is_kept, "{number}");
    }
}

/// Code that is larger than the cache runs all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_without_room() {
    let cache = Arc::new(CodeCache::new(0));
    let session = small_session(&cache).await;
    for _ in 0..3 {
        assert_eq!(run(&session, &query(3)).await, 34);
    }
    let statistics = cache.statistics();
    assert_eq!((statistics.programs, statistics.bytes, statistics.misses), (0, 0, 3), "{statistics:?}");
}

/// `WELD_PROGRAMS` of them; by default as many as take a few seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_programs_stay_within_the_bound() {
    let programs = std::env::var("WELD_PROGRAMS").ok().and_then(|number| number.parse().ok()).unwrap_or(300);
    let bytes_max = 1 << 20;
    let cache = Arc::new(CodeCache::new(bytes_max));
    let session = small_session(&cache).await;
    for number in 0..programs {
        run(&session, &query(number + 2)).await;
        assert!(cache.statistics().bytes <= bytes_max, "{:?}", cache.statistics());
    }
    let statistics = cache.statistics();
    assert_eq!(statistics.misses, programs as u64);
    assert_eq!(statistics.evicted, (programs - statistics.programs) as u64);
    assert!(statistics.programs > 10, "{statistics:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_come_and_go() {
    let cache = Arc::new(CodeCache::default());
    for number in 0..1000 {
        let session = sharing(&cache);
        if number % 100 == 0 {
            run(&session, "SELECT v + 1 FROM generate_series(1, 100) AS g(v) WHERE v > 5").await;
        }
    }
    let statistics = cache.statistics();
    assert!(statistics.misses > 0 && statistics.hits == 9 * statistics.misses, "{statistics:?}");
    assert_eq!(Arc::strong_count(&cache), 1);
    // One that has a cache of its own.
    let other = session(config(1), true);
    run(&other, "SELECT v + 1 FROM generate_series(1, 100) AS g(v) WHERE v > 5").await;
    assert_eq!(cache.statistics(), statistics);
}
