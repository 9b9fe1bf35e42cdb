//! Functions that are dropped leave neither code nor memory behind. A process of its own: memory is counted.

mod common;

use std::sync::Arc;

use common::config;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use weld_datafusion::{CacheStatistics, CodeCache, WeldSessionExt};

/// What a function may leave: parts of tables that grow by doubling. Its code takes 20 kB.
const BYTES_MAX: usize = 500;

async fn run(session: &SessionContext, sql: &str) -> usize {
    let batches = session.sql(sql).await.expect("valid SQL").collect().await.expect("it runs");
    batches.iter().map(|batch| batch.num_rows()).sum()
}

/// Creates a function of each language, calls it in a pipeline, outside of any and with constants, and drops it.
async fn create_call_drop(session: &SessionContext, number: usize) {
    let texts = [
        format!("LANGUAGE weld AS '|x: i32| x * 2 + {number}'"),
        format!("LANGUAGE ttl AS $$ function int f(int x) {{ return x * 2 + {number}; }} $$"),
    ];
    run(session, &format!("CREATE FUNCTION f{number}(x INT) RETURNS INT {}", texts[number % 2])).await;
    assert_eq!(run(session, &format!("SELECT k FROM t WHERE f{number}(k) > 4 + {number}")).await, 2);
    run(session, &format!("SELECT k FROM t ORDER BY f{number}(k)")).await;
    run(session, &format!("SELECT f{number}(3)")).await;
    if number.is_multiple_of(3) {
        let text = format!("LANGUAGE weld AS '|x: i32| x * 2 - {number}'");
        run(session, &format!("CREATE OR REPLACE FUNCTION f{number}(x INT) RETURNS INT {text}")).await;
        run(session, &format!("SELECT k FROM t WHERE f{number}(k) > 4 - {number}")).await;
    }
    run(session, &format!("DROP FUNCTION f{number}")).await;
}

/// Bytes that Rust and LLVM have from the C library's allocator.
fn allocated() -> usize {
    // SAFETY: the call only reads what the allocator knows of itself.
    let info = unsafe { libc::mallinfo2() };
    info.uordblks + info.hblkhd
}

/// How many pieces of the address space the process has mapped: those of code are among them.
fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").expect("Linux says what is mapped").lines().count()
}

/// `WELD_FUNCTIONS` of them; by default as many as take a few seconds.
#[tokio::test]
async fn dropped_functions_leave_nothing() {
    let functions = std::env::var("WELD_FUNCTIONS").ok().and_then(|number| number.parse().ok()).unwrap_or(100);
    let cache = Arc::new(CodeCache::default());
    let builder = SessionStateBuilder::new().with_config(config(1)).with_default_features();
    let session = SessionContext::new_with_state(builder.with_weld_sharing(Arc::clone(&cache)).build());
    run(&session, "SET weld.opt_level = 0").await;
    run(&session, "CREATE TABLE t AS SELECT * FROM (VALUES (1), (2), (3), (4)) AS v(k)").await;
    // One that stays, so that there is a linker all the time.
    run(&session, "CREATE FUNCTION kept(x INT) RETURNS INT LANGUAGE weld AS '|x: i32| x + 1'").await;
    run(&session, "SELECT k FROM t WHERE kept(k) > 2").await;
    for number in 0..functions {
        create_call_drop(&session, number).await;
    }
    let (bytes, pieces) = (allocated(), mappings());
    let CacheStatistics { programs, misses, .. } = cache.statistics();
    assert!(misses as usize > functions, "{misses} programs were compiled");
    assert_eq!(programs, 1, "programs of functions that are gone");
    for number in functions..2 * functions {
        create_call_drop(&session, number).await;
    }
    let left = allocated().saturating_sub(bytes) / functions;
    assert!(left < BYTES_MAX, "{left} bytes are left of each function");
    assert!(mappings() < pieces + 10, "{pieces} mappings, then {}", mappings());
    assert_eq!(run(&session, "SELECT k FROM t WHERE kept(k) > 2").await, 3);
}
