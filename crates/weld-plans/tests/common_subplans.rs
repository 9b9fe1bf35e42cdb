//! Equal subplans executed once: the same rows as when each is executed.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::{DataType, Field, FieldRef};
use common::{Both, plan_of, readers, shown, sorted_rows};
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool, MemoryReservation, UnboundedMemoryPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{PartitionEvaluator, Signature, Volatility, WindowUDF, WindowUDFImpl};
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, collect};
use datafusion::prelude::SessionConfig;
use futures::StreamExt;
use weld_plans::{PlanOptions, without_common_subplans};

fn both(partitions: usize) -> Both {
    let config = SessionConfig::new().with_target_partitions(partitions).with_batch_size(64);
    Both::new(config, |_| PlanOptions {
        distinct_aggregates: false,
        distinct_sets: false,
        outer_joins: false,
        join_order: false,
        semi_joins: false,
        common_subplans: Some(2000),
        similar_subplans: false,
        key_filters: true,
        careful_pushdown: true,
        doubtful_orders: true,
    })
}

/// 6,000 rows of 300 keys with nulls and duplicates, and no rows.
async fn tables(both: &Both) {
    let rows = "SELECT CASE WHEN v % 11 = 0 THEN NULL ELSE v % 300 END AS k, v % 4 AS g, v, v % 7 = 0 AS odd,
                concat('row ', v % 50) AS s FROM generate_series(1, 6000) AS x(v)";
    both.table("r", rows).await;
    both.table("few", "SELECT v AS k, v AS w FROM generate_series(1, 20) AS x(v)").await;
    both.table("named", "SELECT v AS w, concat('row ', v) AS s FROM generate_series(1, 20) AS x(v)").await;
    both.table("none", "SELECT v AS k, v AS g, v FROM generate_series(1, 9) AS x(v) WHERE v > 10").await;
}

const GROUPS: &str = "WITH c AS (SELECT k, g, sum(v) AS n FROM r GROUP BY k, g)";

/// Queries over [`GROUPS`], and how many subplans each has and how many readers these have.
const QUERIES: [(&str, usize, usize); 18] = [
    ("SELECT a.k, a.n, b.n FROM c a JOIN c b ON a.k = b.k AND a.g < b.g", 1, 2),
    ("SELECT a.k, a.n, b.n FROM c a LEFT JOIN c b ON a.k = b.k AND a.n = b.n", 1, 2),
    ("SELECT a.k, a.n FROM c a FULL JOIN c b ON a.n = b.n", 1, 2),
    ("SELECT k, n FROM c UNION ALL SELECT k, n FROM c UNION ALL SELECT g, n FROM c", 1, 3),
    ("SELECT k FROM c WHERE n > (SELECT avg(n) FROM c)", 1, 2),
    ("SELECT k, n FROM c WHERE n > (SELECT 1.1 * avg(n) FROM c d WHERE d.g = c.g)", 1, 2),
    ("SELECT k FROM c WHERE n NOT IN (SELECT n + 1 FROM c)", 1, 2),
    ("SELECT k FROM c WHERE EXISTS (SELECT 1 FROM c d WHERE d.n = c.n + 4)", 1, 2),
    ("SELECT a.k, a.n FROM (SELECT * FROM c ORDER BY n LIMIT 10) a, (SELECT * FROM c ORDER BY n LIMIT 10) b", 1, 2),
    ("SELECT a.n, b.n FROM c a CROSS JOIN (SELECT max(n) AS n FROM c) b", 1, 2),
    (
        "SELECT a.x, b.x FROM (SELECT k, rank() OVER (PARTITION BY g ORDER BY n, k) AS x FROM c) a
         JOIN (SELECT k, rank() OVER (PARTITION BY g ORDER BY n, k) AS x FROM c) b ON a.k = b.k",
        1,
        2,
    ),
    // Inside of what is read twice, it is read once.
    (
        ", d AS (SELECT a.k, sum(a.n + b.n) AS n FROM c a JOIN c b ON a.k = b.k GROUP BY a.k)
         SELECT x.k, y.n FROM d x JOIN d y ON x.k = y.k WHERE x.n < 1000000",
        2,
        4,
    ),
    (", d AS (SELECT k, max(n) AS n FROM c GROUP BY k) SELECT x.n, y.n FROM d x JOIN d y ON x.k = y.k + 1", 1, 2),
    ("SELECT count(*) FROM c a JOIN few ON a.k = few.k JOIN c b ON b.k = few.w", 0, 0),
    // Read by few keys each, it is better computed for these.
    ("SELECT a.n FROM c a JOIN few x ON a.k = x.k UNION ALL SELECT a.n FROM c a JOIN few x ON a.k = x.k + 1", 0, 0),
    (
        ", d AS (SELECT s, k, count(*) AS n FROM r GROUP BY s, k) SELECT d.n FROM d JOIN named x ON d.s = x.s WHERE x.w < 3
         UNION ALL SELECT d.n FROM d JOIN named x ON d.s = x.s WHERE x.w > 18",
        0,
        0,
    ),
    // Another reader needs them all.
    ("SELECT a.n FROM c a JOIN few x ON a.k = x.k UNION ALL SELECT n FROM c", 1, 2),
    ("SELECT 1 FROM c a WHERE a.k = 5 UNION ALL SELECT 1 FROM c a WHERE a.k = 6", 0, 0),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn table_expressions_are_computed_once() {
    for partitions in [1, 3] {
        let both = both(partitions);
        tables(&both).await;
        for (sql, subplans, expected) in QUERIES {
            let text = both.check(&format!("{GROUPS} {sql}")).await;
            assert_eq!(readers(&text), expected, "{sql}\n{text}");
            assert_eq!(text.matches(" times").count(), subplans, "{sql}\n{text}");
        }
    }
}

/// A window function that gives other values each time.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Fresh(Signature);

#[derive(Debug)]
struct FreshValues;

impl PartitionEvaluator for FreshValues {
    fn evaluate_all(&mut self, _: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let first = NEXT.fetch_add(rows, Ordering::Relaxed) as i64;
        Ok(Arc::new(Int64Array::from_iter_values((first..).take(rows))))
    }
}

impl WindowUDFImpl for Fresh {
    fn name(&self) -> &str {
        "fresh"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn partition_evaluator(&self, _: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(FreshValues))
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        Ok(Field::new(args.name(), DataType::Int64, true).into())
    }
}

/// Each place has values of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn volatile_window_functions_are_not_shared() {
    let both = both(1);
    tables(&both).await;
    for context in [&both.stock, &both.ours] {
        context.register_udwf(WindowUDF::from(Fresh(Signature::any(1, Volatility::Volatile))));
    }
    both.check(
        "WITH c AS (SELECT v, fresh(v) OVER (PARTITION BY g ORDER BY v) AS x FROM r)
         SELECT count(*) FROM c a JOIN c b ON a.v = b.v WHERE a.x = b.x",
    )
    .await;
}

/// Pairs that only look alike are computed apart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_differs_is_not_shared() {
    let pairs = [
        ("SELECT g, sum(v) AS x FROM r GROUP BY g", "SELECT g, sum(DISTINCT v) AS x FROM r GROUP BY g"),
        ("SELECT g, sum(v) AS x FROM r GROUP BY g", "SELECT g, sum(v) FILTER (WHERE odd) AS x FROM r GROUP BY g"),
        ("SELECT g, sum(k) AS x FROM r GROUP BY g", "SELECT k AS g, sum(g) AS x FROM r GROUP BY k"),
        (
            "SELECT g, max(v) AS x FROM r WHERE v < 5000 GROUP BY g",
            "SELECT g, max(v) AS x FROM r WHERE v <= 5000 GROUP BY g",
        ),
        (
            "SELECT g, first_value(v ORDER BY v) AS x FROM r GROUP BY g",
            "SELECT g, first_value(v ORDER BY v DESC) AS x FROM r GROUP BY g",
        ),
        (
            "SELECT g, first_value(k ORDER BY v) AS x FROM r GROUP BY g",
            "SELECT g, first_value(k ORDER BY v) IGNORE NULLS AS x FROM r GROUP BY g",
        ),
        (
            "SELECT g, array_agg(k ORDER BY v) AS x FROM r GROUP BY g",
            "SELECT g, array_agg(DISTINCT k ORDER BY k) AS x FROM r GROUP BY g",
        ),
        ("SELECT g, sum(v) AS x FROM r GROUP BY GROUPING SETS ((g), ())", "SELECT g, sum(v) AS x FROM r GROUP BY g"),
        (
            "SELECT a.g, sum(b.v) AS x FROM r a JOIN r b ON a.v = b.v GROUP BY a.g",
            "SELECT a.g, sum(b.v) AS x FROM r a LEFT JOIN r b ON a.v = b.v GROUP BY a.g",
        ),
        (
            "SELECT g, x FROM (SELECT g, sum(v) OVER (PARTITION BY k ORDER BY v) AS x FROM r) WHERE x % 7 = 0",
            "SELECT g, x FROM (SELECT g, sum(v) OVER (PARTITION BY k ORDER BY v DESC) AS x FROM r) WHERE x % 7 = 0",
        ),
        (
            "SELECT g, x FROM (SELECT g, lag(v, 1) OVER (PARTITION BY k ORDER BY v) AS x FROM r) WHERE x % 7 = 0",
            "SELECT g, x FROM (SELECT g, lag(v, 2) OVER (PARTITION BY k ORDER BY v) AS x FROM r) WHERE x % 7 = 0",
        ),
        (
            "SELECT g, x FROM (SELECT g, sum(v) OVER (PARTITION BY k ORDER BY v ROWS 3 PRECEDING) AS x FROM r) WHERE x % 7 = 0",
            "SELECT g, x FROM (SELECT g, sum(v) OVER (PARTITION BY k ORDER BY v ROWS 4 PRECEDING) AS x FROM r) WHERE x % 7 = 0",
        ),
        ("SELECT g, count(*) AS x FROM r GROUP BY g", "SELECT g, count(*) AS x FROM none GROUP BY g"),
    ];
    for partitions in [1, 3] {
        let both = both(partitions);
        tables(&both).await;
        for (a, b) in pairs {
            let text = both.check(&format!("{a} UNION ALL {b}")).await;
            // Windows have the same sorted input.
            assert!(readers(&text) == 0 || text.contains("OVER") || text.contains("wdw"), "{a}\n{b}\n{text}");
            let text = both.check(&format!("{a} UNION ALL {a}")).await;
            assert_eq!(readers(&text), 2, "{a}\n{text}");
        }
        let sql =
            "WITH c AS (SELECT g, sum(v * random()) AS x FROM r GROUP BY g) SELECT a.g FROM c a JOIN c b ON a.x = b.x";
        assert_eq!(readers(&shown(&plan_of(&both.ours, sql).await)), 0);
        let sql = "WITH RECURSIVE c AS (SELECT 1 AS n UNION ALL SELECT a.n + 1 FROM c a, (SELECT sum(v) AS s FROM r GROUP BY g) b,
                   (SELECT sum(v) AS s FROM r GROUP BY g) d WHERE a.n < 3 AND b.s = d.s) SELECT n, count(*) FROM c GROUP BY n";
        assert_eq!(readers(&both.check(sql).await), 0);
        assert_eq!(readers(&both.check("SELECT * FROM r UNION ALL SELECT * FROM r").await), 0);
        let big = "SELECT a.v AS v, b.v AS w FROM r a JOIN r b ON a.k = b.k";
        assert_eq!(readers(&both.check(&format!("SELECT sum(v), sum(w) FROM ({big} UNION ALL {big})")).await), 0);
    }
}

const JOINED: &str = "WITH c AS (SELECT k, g, sum(v) AS n, max(s) AS s FROM r GROUP BY k, g)
                      SELECT a.k, a.n, a.s, b.n, b.s FROM c a JOIN c b ON a.k = b.k AND a.g < b.g";

/// Both sides read at the same time: neither is far behind.
const SIDE_BY_SIDE: &str = "WITH c AS (SELECT t.k, v, w AS n FROM r t JOIN few ON g = w WHERE v % 3 = 0)
                            SELECT k, v + n FROM c UNION ALL SELECT k, v - n FROM c";

async fn rows(plan: &Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Vec<String> {
    sorted_rows(&collect(Arc::clone(plan), context).await.unwrap_or_else(|error| panic!("{}\n{error}", shown(plan))))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_that_run_again_and_at_once() {
    for (partitions, sql) in [(1, JOINED), (1, SIDE_BY_SIDE), (3, JOINED), (3, SIDE_BY_SIDE)] {
        let both = both(partitions);
        tables(&both).await;
        let expected = rows(&plan_of(&both.stock, sql).await, both.stock.task_ctx()).await;
        let plan = plan_of(&both.ours, sql).await;
        assert_eq!(readers(&shown(&plan)), 2, "{}", shown(&plan));
        // Exchanges of DataFusion's run once.
        if partitions == 1 {
            let context = both.ours.task_ctx();
            assert_eq!(rows(&plan, Arc::clone(&context)).await, expected);
            assert_eq!(rows(&plan, context).await, expected);
            let at_once = (0..2).map(|_| {
                let (plan, context) = (Arc::clone(&plan), both.ours.task_ctx());
                tokio::spawn(async move { rows(&plan, context).await })
            });
            for rows in futures::future::join_all(at_once).await {
                assert_eq!(rows.expect("it does not panic"), expected);
            }
        }
        for _ in 0..2 {
            let again = reset_plan_states(Arc::clone(&plan)).expect("a plan");
            assert_eq!(readers(&shown(&again)), 2);
            assert_eq!(rows(&again, both.ours.task_ctx()).await, expected);
            assert!(kept_rows(&again) > 0, "{}", shown(&again));
        }
        let apart = without_common_subplans(Arc::clone(&plan)).expect("a plan");
        assert_eq!((readers(&shown(&apart)), shown(&apart).contains("CommonSubplan")), (0, false));
        assert_eq!(rows(&apart, both.ours.task_ctx()).await, expected);
    }
}

fn sum_of(plan: &Arc<dyn ExecutionPlan>, node: &str, name: &str) -> usize {
    let own = plan.metrics().filter(|_| plan.name() == node);
    let own = own.map_or(0, |metrics| {
        metrics.iter().filter(|metric| metric.value().name() == name).map(|metric| metric.value().as_usize()).sum()
    });
    own + plan.children().into_iter().map(|child| sum_of(child, node, name)).sum::<usize>()
}

fn kept_rows(plan: &Arc<dyn ExecutionPlan>) -> usize {
    sum_of(plan, "CommonSubplanScanExec", "kept_rows")
}

/// One partition after the other: no partition and no reader waits for another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_in_turn_and_alone() {
    let both = both(3);
    tables(&both).await;
    for sql in [JOINED, SIDE_BY_SIDE] {
        let expected = rows(&plan_of(&both.stock, sql).await, both.stock.task_ctx()).await;
        for order in [[0, 1, 2], [2, 0, 1]] {
            let plan = plan_of(&both.ours, sql).await;
            let partitions = plan.output_partitioning().partition_count();
            let (mut batches, context) = (Vec::new(), both.ours.task_ctx());
            for partition in (0..partitions).map(|partition| if partitions == 3 { order[partition] } else { partition })
            {
                let mut stream = plan.execute(partition, Arc::clone(&context)).expect("it starts");
                while let Some(batch) = stream.next().await {
                    batches.push(batch.expect("it runs"));
                }
            }
            assert_eq!(sorted_rows(&batches), expected, "{}", shown(&plan));
        }
        let plan = plan_of(&both.ours, sql).await;
        let mut stream = plan.execute(1, both.ours.task_ctx()).expect("it starts");
        while let Some(batch) = stream.next().await {
            batch.expect("it runs");
        }
    }
}

/// Each partition with a context of its own, as whoever sends partitions to other machines executes them: one
/// execution, of which each subplan is executed once. Exchanges of DataFusion's panic when they are executed again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_with_contexts_of_their_own() {
    let both = both(3);
    tables(&both).await;
    let groups =
        "WITH c AS (SELECT k, sum(v) AS n FROM r GROUP BY k) SELECT a.k, a.n, b.n FROM c a JOIN c b ON a.k = b.k";
    for sql in [groups, JOINED, SIDE_BY_SIDE] {
        let expected = rows(&plan_of(&both.stock, sql).await, both.stock.task_ctx()).await;
        let plan = plan_of(&both.ours, sql).await;
        assert_eq!(readers(&shown(&plan)), 2, "{}", shown(&plan));
        let partitions = 0..plan.output_partitioning().partition_count();
        let streams = partitions.map(|partition| {
            let (plan, context) = (Arc::clone(&plan), both.ours.task_ctx());
            tokio::spawn(async move {
                let stream = plan.execute(partition, context).expect("it starts");
                stream.map(|batch| batch.expect("it runs")).collect::<Vec<_>>().await
            })
        });
        let batches = futures::future::join_all(streams).await;
        let batches: Vec<_> = batches.into_iter().flat_map(|batches| batches.expect("it does not panic")).collect();
        assert_eq!(sorted_rows(&batches), expected, "{}", shown(&plan));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_limits_and_dropped_streams_end() {
    for partitions in [1, 3] {
        let both = both(partitions);
        tables(&both).await;
        let failing = "WITH c AS (SELECT k, g, sum(10 / (v - 4000)) AS n FROM r GROUP BY k, g)";
        for sql in ["SELECT n FROM c UNION ALL SELECT n + 1 FROM c", "SELECT a.n, b.n FROM c a JOIN c b ON a.k = b.g"] {
            let plan = plan_of(&both.ours, &format!("{failing} {sql}")).await;
            assert_eq!(readers(&shown(&plan)), 2, "{}", shown(&plan));
            let error = collect(plan, both.ours.task_ctx()).await.expect_err("a division by zero").to_string();
            assert!(error.to_lowercase().contains("divide by zero"), "{error}");
        }
        for polls in [0, 1, 2] {
            let plan = plan_of(&both.ours, SIDE_BY_SIDE).await;
            let mut stream = plan.execute(0, both.ours.task_ctx()).expect("it starts");
            for _ in 0..polls {
                drop(stream.next().await);
            }
        }
        let limited = format!("{SIDE_BY_SIDE} LIMIT 3");
        let found = both.ours.sql(&limited).await.expect("valid SQL").collect().await.expect("it runs");
        assert_eq!(found.iter().map(|batch| batch.num_rows()).sum::<usize>(), 3);
    }
}

/// Streams of two readers of one partition, polled in all orders.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_do_not_wait_for_each_other() {
    let both = both(1);
    tables(&both).await;
    let expected = rows(&plan_of(&both.stock, SIDE_BY_SIDE).await, both.stock.task_ctx()).await;
    for pattern in [[0, 0, 0, 1], [0, 1, 0, 1], [1, 1, 0, 1], [1, 1, 1, 1]] {
        let plan = plan_of(&both.ours, SIDE_BY_SIDE).await;
        // A union that nobody has coalesced: a partition for each of its inputs.
        let mut union = Arc::clone(&plan);
        while !union.name().contains("Union") {
            union = Arc::clone(union.children()[0]);
        }
        let context = both.ours.task_ctx();
        // It holds what is kept.
        let _whole = plan.execute(0, Arc::clone(&context)).expect("it starts");
        let mut streams: Vec<_> =
            (0..2).map(|input| union.execute(input, Arc::clone(&context)).expect("it starts")).collect();
        let (mut batches, mut ended, mut step) = (Vec::new(), [false; 2], 0);
        while ended != [true; 2] {
            let reader = if ended[pattern[step % 4]] { 1 - pattern[step % 4] } else { pattern[step % 4] };
            step += 1;
            match streams[reader].next().await {
                Some(batch) => batches.push(batch.expect("it runs")),
                None => ended[reader] = true,
            }
        }
        assert_eq!(sorted_rows(&batches), expected);
        assert!(kept_rows(&plan) > 0);
    }
}

fn runtime(pool: &Arc<dyn MemoryPool>, has_disk: bool) -> Arc<RuntimeEnv> {
    let mode = if has_disk { DiskManagerMode::OsTmpDirectory } else { DiskManagerMode::Disabled };
    let disk = DiskManagerBuilder::default().with_mode(mode);
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(pool)).with_disk_manager_builder(disk);
    runtime.build_arc().expect("a runtime")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_that_is_refused_and_given_back() {
    for partitions in [1, 3] {
        let both = both(partitions);
        tables(&both).await;
        for sql in [JOINED, SIDE_BY_SIDE] {
            let expected = rows(&plan_of(&both.stock, sql).await, both.stock.task_ctx()).await;
            let pools: [Arc<dyn MemoryPool>; 2] =
                [Arc::new(UnboundedMemoryPool::default()), Arc::new(GreedyMemoryPool::new(4 << 20))];
            for pool in pools {
                let context = Arc::new(TaskContext::default().with_runtime(runtime(&pool, true)));
                let plan = plan_of(&both.ours, sql).await;
                assert_eq!(rows(&plan, context).await, expected);
                drop(plan);
                assert_eq!(pool.reserved(), 0);
            }
        }
    }
}

/// The readers of [`SIDE_BY_SIDE`], one of them far ahead of the other, over a pool that grants next to nothing.
async fn one_far_ahead(
    both: &Both,
    has_disk: bool,
    both_begin: bool,
) -> (Result<Vec<String>, String>, Arc<dyn ExecutionPlan>) {
    let plan = plan_of(&both.ours, SIDE_BY_SIDE).await;
    let mut union = Arc::clone(&plan);
    while !union.name().contains("Union") {
        union = Arc::clone(union.children()[0]);
    }
    let stingy = Arc::new(Stingy::default());
    let pool: Arc<dyn MemoryPool> = Arc::<Stingy>::clone(&stingy);
    let context = Arc::new(
        TaskContext::default()
            .with_runtime(runtime(&pool, has_disk))
            .with_session_config(SessionConfig::new().with_batch_size(64)),
    );
    let whole = plan.execute(0, Arc::clone(&context)).expect("it starts");
    let mut streams: Vec<_> =
        (0..2).map(|input| union.execute(input, Arc::clone(&context)).expect("it starts")).collect();
    let mut batches = Vec::new();
    if both_begin {
        batches.push(streams[1].next().await.expect("a batch").expect("it runs"));
    }
    for _ in 0..2 * usize::from(both_begin) {
        batches.push(streams[0].next().await.expect("a batch").expect("it runs"));
    }
    stingy.refuses.store(true, Ordering::Relaxed);
    for stream in &mut streams {
        while let Some(batch) = stream.next().await {
            match batch {
                Ok(batch) => batches.push(batch),
                Err(error) => return (Err(error.to_string()), plan),
            }
        }
    }
    drop((streams, whole));
    assert_eq!(stingy.kept.load(Ordering::Relaxed), 0);
    (Ok(sorted_rows(&batches)), plan)
}

/// Refuses memory to what is kept of subplans, once it is told so.
#[derive(Debug, Default)]
struct Stingy {
    pool: UnboundedMemoryPool,
    kept: AtomicUsize,
    refuses: AtomicBool,
}

fn is_kept(reservation: &MemoryReservation) -> bool {
    reservation.consumer().name().starts_with("CommonSubplan")
}

impl std::fmt::Display for Stingy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stingy")
    }
}

impl MemoryPool for Stingy {
    fn name(&self) -> &str {
        "Stingy"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.pool.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        if is_kept(reservation) {
            self.kept.fetch_sub(shrink, Ordering::Relaxed);
        }
        self.pool.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> datafusion::common::Result<()> {
        if is_kept(reservation) {
            if self.refuses.load(Ordering::Relaxed) {
                return datafusion::common::resources_err!("no rows are kept");
            }
            self.kept.fetch_add(additional, Ordering::Relaxed);
        }
        self.pool.try_grow(reservation, additional)
    }

    fn reserved(&self) -> usize {
        self.pool.reserved()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_that_are_behind_when_memory_is_refused() {
    let both = both(1);
    tables(&both).await;
    let expected = rows(&plan_of(&both.stock, SIDE_BY_SIDE).await, both.stock.task_ctx()).await;
    let metric = |plan: &Arc<dyn ExecutionPlan>, name: &str| sum_of(plan, "CommonSubplansExec", name);
    for has_disk in [true, false] {
        // Who has not begun computes the rows anew.
        let (found, plan) = one_far_ahead(&both, has_disk, false).await;
        assert_eq!(found.as_ref(), Ok(&expected));
        assert_eq!((metric(&plan, "readers_on_their_own"), metric(&plan, "spill_count")), (1, 0), "{}", shown(&plan));
    }
    // For who has, rows go to disk.
    let (found, plan) = one_far_ahead(&both, true, true).await;
    assert_eq!(found.as_ref(), Ok(&expected));
    assert_eq!(metric(&plan, "readers_on_their_own"), 0, "{}", shown(&plan));
    let spilled = (metric(&plan, "spill_count"), metric(&plan, "spilled_rows"));
    assert!(spilled.0 > 1 && spilled.1 > 0, "{spilled:?}\n{}", shown(&plan));
    let (found, _) = one_far_ahead(&both, false, true).await;
    assert!(found.as_ref().is_err_and(|error| error.contains("DiskManager is disabled")), "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_read_once() {
    let folder = std::env::temp_dir().join(format!("weld-plans-common-subplans-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("r.parquet").display().to_string();
    for partitions in [1, 3] {
        let both = both(partitions);
        tables(&both).await;
        let copy = format!("COPY (SELECT * FROM r) TO '{file}'");
        both.stock.sql(&copy).await.expect("valid SQL").collect().await.expect("it is written");
        for context in [&both.stock, &both.ours] {
            let sql = format!("CREATE EXTERNAL TABLE p STORED AS PARQUET LOCATION '{file}'");
            context.sql(&sql).await.expect("valid SQL").collect().await.expect("a table");
        }
        for sql in [JOINED, SIDE_BY_SIDE] {
            let sql = sql.replace("FROM r", "FROM p");
            assert_eq!(readers(&both.check(&sql).await), 2, "{sql}");
        }
        let pruned = "SELECT g, sum(v) AS x FROM p WHERE v < 500 GROUP BY g";
        let other = pruned.replace("500", "501");
        assert_eq!(readers(&both.check(&format!("{pruned} UNION ALL {other}")).await), 0);
        assert_eq!(readers(&both.check(&format!("{pruned} UNION ALL {pruned}")).await), 2);
    }
    std::fs::remove_dir_all(&folder).expect("it was there");
}
