//! What functions need of memory: that which is dropped leaves neither code nor memory behind, and lists are not kept
//! beside the scan. A process of its own: memory is counted.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::config;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use futures::StreamExt;
use tokio::sync::Mutex;
use weld_datafusion::{CacheStatistics, CodeCache, WeldSessionExt};

/// Tests are run one after the other.
static ALONE: Mutex<()> = Mutex::const_new(());

/// Bytes that Rust code has, and the most that it had; LLVM's are not among them.
static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

struct Counted;

#[global_allocator]
static ALLOCATOR: Counted = Counted;

// SAFETY: all is the system's allocator's.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(held, Ordering::Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.dealloc(at, layout) }
    }
}

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
///
/// What is freed stays with the thread that freed it, up to 200 kB, and counts as allocated (glibc's `tcache`): one
/// thread compiles, or a second that comes late looks like a leak.
#[test]
fn dropped_functions_leave_nothing() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(1).build().expect("a runtime");
    runtime.block_on(create_call_drop_many());
}

async fn create_call_drop_many() {
    let _alone = ALONE.lock().await;
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
    let pieces = mappings();
    let CacheStatistics { programs, misses, .. } = cache.statistics();
    assert!(misses as usize > functions, "{misses} programs were compiled");
    assert_eq!(programs, 1, "programs of functions that are gone");
    let bytes = allocated();
    for number in functions..2 * functions {
        create_call_drop(&session, number).await;
    }
    let left = allocated().saturating_sub(bytes) / functions;
    assert!(left < BYTES_MAX, "{left} bytes are left of each function");
    assert!(mappings() < pieces + 10, "{pieces} mappings, then {}", mappings());
    assert_eq!(run(&session, "SELECT k FROM t WHERE kept(k) > 2").await, 3);
}

/// The most memory that the query holds while its batches are taken one after the other, and the largest of these.
async fn most(session: &SessionContext, sql: &str) -> (usize, usize) {
    let mut stream = session.sql(sql).await.expect("valid SQL").execute_stream().await.expect("it starts");
    let before = HELD.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let mut largest = 0;
    while let Some(batch) = stream.next().await {
        largest = largest.max(batch.expect("it runs").get_array_memory_size());
    }
    (MOST.load(Ordering::Relaxed).saturating_sub(before), largest)
}

#[tokio::test]
async fn functions_over_lists_of_files_need_no_more_than_the_scan() {
    let _alone = ALONE.lock().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("lists.parquet");
    let path = path.to_str().expect("a path in UTF-8");
    let session = common::session(config(1), true);
    for sql in [
        "CREATE FUNCTION row_of(k BIGINT) RETURNS FLOAT[] LANGUAGE weld AS
            '|k: i64| result(for(rangeiter(0L, 64L, 1L), appender[f32], |b, i, x| merge(b, f32(k * 31L + x * 7L))))'",
        "CREATE FUNCTION total(v FLOAT[]) RETURNS FLOAT LANGUAGE weld AS
            '|v: vec[f32]| result(for(v, merger[f32,+], |b, i, x| merge(b, x)))'",
        "CREATE FUNCTION twice(v FLOAT[]) RETURNS FLOAT[] LANGUAGE weld AS '|v: vec[f32]| map(v, |x| x * 2.0f)'",
        "CREATE FUNCTION other(v FLOAT[]) RETURNS FLOAT[] LANGUAGE ttl AS
            'function matrix<float>[?] other(matrix<float>[?] v) { return v * v - v; }'",
        &format!("COPY (SELECT row_of(value) AS v FROM generate_series(1, 100000)) TO '{path}' STORED AS PARQUET"),
    ] {
        run(&session, sql).await;
    }
    session.register_parquet("l", path, ParquetReadOptions::default()).await.expect("the file just written");
    let scan = "SELECT v FROM l";
    most(&session, scan).await;
    let (scanned, _) = most(&session, scan).await;
    for sql in [
        "SELECT max(total(v)) FROM l",
        "SELECT twice(v) FROM l",
        "SELECT total(other(twice(v))) FROM l WHERE total(v) > 9",
    ] {
        most(&session, sql).await;
        let (needed, result) = most(&session, sql).await;
        println!("{sql}: {needed} bytes and batches of {result}, the scan {scanned}");
        assert!(needed <= scanned * 6 / 5 + result, "{sql}: {needed} bytes, the scan {scanned}, a batch {result}");
    }
}
