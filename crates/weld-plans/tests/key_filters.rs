//! Filters by the keys of build sides: the same rows as without, and fewer on the way.

mod common;

use std::sync::Arc;

use common::{Both, plan_of, shown, sorted_rows};
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryPool, MemoryReservation, UnboundedMemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::col;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;
use weld_plans::{KeyFilterExec, PlanOptions};

const ON: PlanOptions = PlanOptions {
    distinct_aggregates: false,
    distinct_sets: false,
    outer_joins: false,
    join_order: false,
    semi_joins: false,
    common_subplans: None,
    similar_subplans: false,
    key_filters: true,
    careful_pushdown: true,
    doubtful_orders: true,
};

fn both(partitions: usize) -> Both {
    Both::new(SessionConfig::new().with_target_partitions(partitions).with_batch_size(64), |_| ON)
}

/// 3,000 rows of 300 keys in `r` with nulls and duplicates, 9 keys in `l`, 100 in `b`, none in `none`.
async fn tables(both: &Both) {
    let key = |modulo| format!("CASE WHEN v % 11 = 0 THEN NULL ELSE v % {modulo} END");
    let r = key(300);
    let rows = [
        ("r", format!("SELECT {r} AS k, {r} * 1000003 AS far, v % 4 AS g, v FROM generate_series(1, 3000) AS x(v)")),
        ("l", "SELECT CASE WHEN v = 5 THEN NULL ELSE v * 3 END AS k, CASE WHEN v = 5 THEN NULL ELSE v * 3000009 END AS far,
               v % 4 AS g, v FROM generate_series(1, 9) AS x(v) UNION ALL SELECT 3, 3000009, 1, 10".to_owned()),
        ("b", "SELECT v AS k, v * 1000003 AS far, v % 4 AS g, v FROM generate_series(1, 100) AS x(v)".to_owned()),
        ("none", "SELECT v AS k, v AS far, v AS g, v FROM generate_series(1, 9) AS x(v) WHERE v > 10".to_owned()),
    ];
    for (name, sql) in rows {
        both.table(name, &sql).await;
    }
}

/// The sum of a metric over the key filters of a plan.
fn metric(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
    let own = plan.metrics().filter(|_| plan.is::<KeyFilterExec>()).map_or(0, |metrics| match name {
        "output_rows" => metrics.output_rows().unwrap_or(0),
        _ => metrics.sum_by_name(name).map_or(0, |value| value.as_usize()),
    });
    own + plan.children().into_iter().map(|child| metric(child, name)).sum::<usize>()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aggregate_sees_the_groups_that_are_joined() {
    for partitions in [1, 3] {
        let both = both(partitions);
        tables(&both).await;
        let sql = "SELECT sum(r.v) FROM l JOIN r ON l.k = r.k WHERE l.v < 4
                   AND r.v < (SELECT 2 * avg(v) FROM r AS i WHERE i.k = l.k)";
        let text = both.check(sql).await;
        let aggregate = text.find("AggregateExec: mode=Partial, gby=[k@0").or(text.find("gby=[k@0")).expect(&text);
        assert!(text[aggregate..].contains("KeyFilterExec: k@0 IN #"), "{text}");
        let plan = plan_of(&both.ours, sql).await;
        collect(Arc::clone(&plan), both.ours.task_ctx()).await.expect("it runs");
        // Three of 300 keys: 30 rows, a few of them null.
        assert_eq!(metric(&plan, "input_rows"), 3000, "{}", shown(&plan));
        assert!((1..=30).contains(&metric(&plan, "output_rows")), "{}", shown(&plan));
        assert!(shown(&plan).contains("(bitmap of 3 keys)"), "{}", shown(&plan));
    }
}

const TYPES: [JoinType; 10] = [
    JoinType::Inner,
    JoinType::Left,
    JoinType::Right,
    JoinType::Full,
    JoinType::LeftSemi,
    JoinType::RightSemi,
    JoinType::LeftAnti,
    JoinType::RightAnti,
    JoinType::LeftMark,
    JoinType::RightMark,
];

fn drops_unmatched_probe_rows(join_type: JoinType) -> bool {
    use JoinType::*;
    matches!(join_type, Inner | Left | LeftSemi | RightSemi | LeftAnti | LeftMark)
}

/// Probe sides whose first column is the key, and whether a filter gets to where it pays.
const PROBES: [(&str, bool); 24] = [
    ("SELECT k, count(*), sum(v), avg(v) FROM r GROUP BY k", true),
    ("SELECT far, count(*), min(v) FROM r GROUP BY far", true),
    ("SELECT DISTINCT k, g FROM r WHERE v % 3 > 0", true),
    ("SELECT k, g, sum(v) FROM r GROUP BY GROUPING SETS ((k, g), (k))", true),
    // Above the partial aggregate, where the key is a key of all groups.
    ("SELECT k, g, sum(v) FROM r GROUP BY ROLLUP (k, g)", true),
    ("SELECT k + 1, sum(v) FROM r GROUP BY k", false),
    ("SELECT max(k), sum(v) FROM r", false),
    ("SELECT k, v, sum(v) OVER (PARTITION BY k ORDER BY v), rank() OVER (PARTITION BY g, k ORDER BY v) FROM r", true),
    ("SELECT k, v, sum(v) OVER (PARTITION BY g ORDER BY v) FROM r", false),
    (
        "SELECT k, sum(v) FROM r GROUP BY k UNION ALL SELECT k, v FROM b UNION ALL SELECT k, min(v) FROM r GROUP BY k",
        true,
    ),
    ("SELECT k, v FROM (SELECT k, sum(v) AS v FROM r GROUP BY k ORDER BY v LIMIT 50)", false),
    ("SELECT k, v FROM (SELECT k, v FROM r LIMIT 2000)", false),
    ("SELECT r.k, a.c FROM r JOIN (SELECT k, count(*) AS c FROM r GROUP BY k) a ON r.k = a.k", true),
    ("SELECT a.k, r.v FROM r JOIN (SELECT k, count(*) AS c FROM r GROUP BY k) a ON r.k = a.k", true),
    ("SELECT b.k, a.c FROM b LEFT JOIN (SELECT k, count(*) AS c FROM r GROUP BY k) a ON b.k = a.k", true),
    ("SELECT a.k, b.v FROM b LEFT JOIN (SELECT k, count(*) AS c FROM r GROUP BY k) a ON b.k = a.k", false),
    (
        "SELECT b.k, b.v FROM b WHERE k NOT IN (SELECT k FROM r WHERE k IS NOT NULL GROUP BY k HAVING count(*) > 3)",
        true,
    ),
    ("SELECT b.k, b.v FROM b WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = b.k AND r.v > 50)", true),
    ("SELECT a.k, b.v FROM b FULL JOIN (SELECT k, count(*) AS c FROM r GROUP BY k) a ON b.k = a.k", false),
    ("SELECT k, sum(random()) > 0 FROM r GROUP BY k", false),
    ("SELECT k, unnest(make_array(v, g, NULL)) FROM r WHERE v % 7 > 0", true),
    // Lists of several depths are columns before the key's, in the lists' input.
    (
        "SELECT k, a, b, c, v FROM (SELECT unnest(unnest(make_array(make_array(v, g), NULL))) AS a, k,
         unnest(make_array(make_array(g), make_array())) AS b, unnest(make_array(g, v)) AS c, v FROM r)",
        true,
    ),
    ("SELECT unnest(make_array(k, v)), v FROM r", false),
    ("SELECT k, v FROM (SELECT k, unnest(struct(v, g)), v FROM r)", false),
];

/// A join by the first columns, as DataFusion would plan it.
fn join(
    left: &Arc<dyn ExecutionPlan>,
    right: &Arc<dyn ExecutionPlan>,
    keys: usize,
    join_type: JoinType,
    mode: PartitionMode,
    nulls: NullEquality,
) -> Arc<dyn ExecutionPlan> {
    let column = |plan: &Arc<dyn ExecutionPlan>, index: usize| -> Arc<dyn PhysicalExpr> {
        col(plan.schema().field(index).name(), &plan.schema()).expect("a column")
    };
    let exchange = |plan: &Arc<dyn ExecutionPlan>| -> Arc<dyn ExecutionPlan> {
        let partitioning = Partitioning::Hash((0..keys).map(|index| column(plan, index)).collect(), 3);
        Arc::new(RepartitionExec::try_new(Arc::clone(plan), partitioning).expect("an exchange"))
    };
    let (left, right) = match mode {
        PartitionMode::Partitioned => (exchange(left), exchange(right)),
        _ => (Arc::new(CoalescePartitionsExec::new(Arc::clone(left))) as _, Arc::clone(right)),
    };
    let on = (0..keys).map(|index| (column(&left, index), column(&right, index))).collect();
    Arc::new(HashJoinExec::try_new(left, right, on, None, &join_type, None, mode, nulls, false).expect("a join"))
}

fn with_filters(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let rule = weld_plans::rules(Vec::new(), |_| ON, &Arc::default()).pop().expect("the rule");
    rule.optimize(plan, SessionConfig::new().options()).expect("a plan")
}

async fn rows(plan: &Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Vec<String> {
    sorted_rows(&collect(Arc::clone(plan), context).await.unwrap_or_else(|error| panic!("{}\n{error}", shown(plan))))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_join_and_probe_side() {
    use NullEquality::{NullEqualsNothing, NullEqualsNull};
    let both = both(3);
    tables(&both).await;
    for (sql, reaches) in PROBES {
        let right = plan_of(&both.stock, sql).await;
        let right_text = shown(&right);
        let key = if right.schema().field(0).name() == "far" { "far" } else { "k" };
        for (build, mode, nulls) in [
            ("l", PartitionMode::CollectLeft, NullEqualsNothing),
            ("l", PartitionMode::Partitioned, NullEqualsNothing),
            ("l", PartitionMode::Partitioned, NullEqualsNull),
            ("none", PartitionMode::CollectLeft, NullEqualsNothing),
        ] {
            let left = plan_of(&both.stock, &format!("SELECT {key}, v AS w FROM {build} WHERE v <> 2")).await;
            for join_type in TYPES {
                let plan = fresh(join(&left, &right, 1, join_type, mode, nulls));
                let filtered = with_filters(fresh(Arc::clone(&plan)));
                let is_filtered = shown(&filtered).contains("KeyFilterExec");
                let place = format!("{sql}\n{join_type} {mode:?} {nulls:?}\n{}", shown(&filtered));
                let expected = reaches && drops_unmatched_probe_rows(join_type);
                // A join on the probe side may have a filter of its own.
                let has_joins = right_text.contains("JoinExec");
                assert!(is_filtered == expected || (has_joins && is_filtered), "{place}");
                if !sql.contains("LIMIT 2000") {
                    let expected = rows(&plan, both.stock.task_ctx()).await;
                    assert_eq!(rows(&filtered, both.stock.task_ctx()).await, expected, "{place}");
                }
            }
        }
    }
}

/// The plan as if it had not been executed.
fn fresh(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    reset_plan_states(plan).expect("a plan")
}

/// A filter for each column of the key, where the aggregate has both and where it has one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn composite_keys() {
    let both = both(3);
    tables(&both).await;
    let left = plan_of(&both.stock, "SELECT k, far, v FROM l WHERE v < 3").await;
    for (sql, filters) in [
        ("SELECT k, far, sum(v) FROM r GROUP BY k, far", 2),
        ("SELECT k, min(far) AS far, sum(v) FROM r GROUP BY k", 1),
    ] {
        let right = plan_of(&both.stock, sql).await;
        for join_type in TYPES {
            let plan =
                || join(&left, &right, 2, join_type, PartitionMode::Partitioned, NullEquality::NullEqualsNothing);
            let filtered = with_filters(fresh(plan()));
            let found = if drops_unmatched_probe_rows(join_type) { filters } else { 0 };
            assert_eq!(
                shown(&filtered).matches("KeyFilterExec").count(),
                usize::from(found > 0),
                "{}",
                shown(&filtered)
            );
            assert_eq!(shown(&filtered).matches(" IN #").count(), found, "{}", shown(&filtered));
            let expected = rows(&fresh(plan()), both.stock.task_ctx()).await;
            assert_eq!(rows(&filtered, both.stock.task_ctx()).await, expected, "{}", shown(&filtered));
        }
    }
}

const AGGREGATE: &str = "SELECT k, count(*) AS n, sum(v) AS s FROM r GROUP BY k";

async fn filtered_join(context: &SessionContext, build: &str, mode: PartitionMode) -> Arc<dyn ExecutionPlan> {
    let (left, right) = (plan_of(context, build).await, plan_of(context, AGGREGATE).await);
    let plan = join(&left, &right, 1, JoinType::Inner, mode, NullEquality::NullEqualsNothing);
    let filtered = with_filters(plan);
    assert!(shown(&filtered).contains("KeyFilterExec"), "{}", shown(&filtered));
    filtered
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_that_runs_twice() {
    let both = both(1);
    tables(&both).await;
    let plan = filtered_join(&both.stock, "SELECT k, v FROM l", PartitionMode::CollectLeft).await;
    let first = rows(&plan, both.stock.task_ctx()).await;
    assert_eq!(rows(&plan, both.stock.task_ctx()).await, first);
    let again = fresh(Arc::clone(&plan));
    assert_eq!(rows(&again, both.stock.task_ctx()).await, first);
    // It is not known whether all of the plan starts again, so nothing is dropped.
    assert_eq!((metric(&again, "input_rows"), metric(&again, "output_rows")), (3000, 3000));
}

/// One partition after the other, though no exchange gathers the build side: nobody waits for who comes later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_in_turn() {
    let both = both(3);
    tables(&both).await;
    let left = "SELECT k, min(v) AS m FROM l GROUP BY k";
    let (left, right) = (plan_of(&both.stock, left).await, plan_of(&both.stock, AGGREGATE).await);
    assert_eq!((left.output_partitioning().partition_count(), right.output_partitioning().partition_count()), (3, 3));
    let on = vec![(col("k", &left.schema()).expect("a column"), col("k", &right.schema()).expect("a column"))];
    let mode = PartitionMode::Partitioned;
    let nulls = NullEquality::NullEqualsNothing;
    let plan = HashJoinExec::try_new(left, right, on, None, &JoinType::Inner, None, mode, nulls, false);
    let plan = with_filters(Arc::new(plan.expect("a join")));
    assert!(shown(&plan).contains("KeyFilterExec"), "{}", shown(&plan));
    let mut batches = Vec::new();
    for partition in 0..3 {
        let mut stream = plan.execute(partition, both.stock.task_ctx()).expect("it starts");
        while let Some(batch) = stream.next().await {
            batches.push(batch.expect("it runs"));
        }
    }
    let expected = both
        .stock
        .sql("SELECT count(*) FROM (SELECT k FROM l GROUP BY k) x JOIN (SELECT k FROM r GROUP BY k) y ON x.k = y.k");
    let expected = sorted_rows(&expected.await.expect("valid SQL").collect().await.expect("it runs"));
    let found: usize = batches.iter().map(|batch| batch.num_rows()).sum();
    assert!(expected.iter().any(|line| line.contains(&format!(" {found} "))), "{found}: {expected:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_limits_and_dropped_streams_end() {
    for partitions in [1, 3] {
        let both = both(partitions);
        tables(&both).await;
        for mode in [PartitionMode::CollectLeft, PartitionMode::Partitioned] {
            let plan = filtered_join(&both.stock, "SELECT k, 10 / (v - 4) AS q FROM l", mode).await;
            let error = collect(plan, both.stock.task_ctx()).await.expect_err("a division by zero").to_string();
            assert!(error.to_lowercase().contains("divide by zero"), "{error}");
            // Dropped before the first row, and after it.
            for polls in [0, 1] {
                let plan = filtered_join(&both.stock, "SELECT k, v FROM l", mode).await;
                let mut stream = plan.execute(0, both.stock.task_ctx()).expect("it starts");
                for _ in 0..polls {
                    drop(stream.next().await);
                }
            }
        }
        let sql = "SELECT l.v, s FROM l JOIN (SELECT k, sum(v) AS s FROM r GROUP BY k) a ON l.k = a.k LIMIT 1";
        assert_eq!(both.ours.sql(sql).await.expect("valid SQL").collect().await.expect("it runs").len(), 1);
    }
}

/// Refuses memory to the sets.
#[derive(Debug, Default)]
struct NoSets(UnboundedMemoryPool);

impl std::fmt::Display for NoSets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NoSets")
    }
}

impl MemoryPool for NoSets {
    fn name(&self) -> &str {
        "NoSets"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.0.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.0.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        match reservation.consumer().name().starts_with("JoinKeys") {
            true => datafusion::common::resources_err!("no sets"),
            false => self.0.try_grow(reservation, additional),
        }
    }

    fn reserved(&self) -> usize {
        self.0.reserved()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_that_is_refused_and_given_back() {
    let both = both(3);
    tables(&both).await;
    let expected = rows(
        &filtered_join(&both.stock, "SELECT k, v FROM l", PartitionMode::Partitioned).await,
        both.stock.task_ctx(),
    )
    .await;
    for refuses in [true, false] {
        let pool: Arc<dyn MemoryPool> =
            if refuses { Arc::new(NoSets::default()) } else { Arc::new(UnboundedMemoryPool::default()) };
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&pool)).build_arc().expect("a runtime");
        let context = Arc::new(TaskContext::default().with_runtime(runtime));
        let plan = filtered_join(&both.stock, "SELECT k, v FROM l", PartitionMode::Partitioned).await;
        assert_eq!(rows(&plan, context).await, expected);
        assert_eq!(metric(&plan, "output_rows") == 3000, refuses, "{}", shown(&plan));
        assert_eq!(pool.reserved() > 0, !refuses, "{}", shown(&plan));
        drop(plan);
        assert_eq!(pool.reserved(), 0);
    }
}

/// Sets that would not drop half of the rows are not made, and those that turn out not to are paused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_drops_few_rows_is_left_out() {
    let both = both(1);
    tables(&both).await;
    let text = both.check("SELECT count(*), sum(s) FROM (SELECT DISTINCT k FROM r) x JOIN (SELECT k, sum(v) AS s FROM r GROUP BY k) a ON x.k = a.k").await;
    assert!(!text.contains("KeyFilterExec"), "{text}");
    // Expected to have few keys, since nothing is known of what a function gives; in fact it has nearly all.
    let rows = "SELECT v % 300 AS k, v FROM generate_series(1, 100000) AS x(v)";
    both.table("many", rows).await;
    both.table("keys", "SELECT v AS k, v FROM generate_series(0, 299) AS x(v)").await;
    let sql = "SELECT count(*) FROM keys JOIN (SELECT * FROM many ORDER BY v) m ON keys.k = m.k WHERE abs(keys.v) % 7 < 6 AND abs(keys.v) % 5 >= 0";
    both.check(sql).await;
    let (left, right) = (
        plan_of(&both.stock, "SELECT k, v FROM keys WHERE abs(v) % 7 < 6 AND abs(v) % 5 >= 0").await,
        plan_of(&both.stock, "SELECT k, v FROM many ORDER BY v").await,
    );
    let plan = join(&left, &right, 1, JoinType::Inner, PartitionMode::CollectLeft, NullEquality::NullEqualsNothing);
    let plan = with_filters(plan);
    assert!(shown(&plan).contains("KeyFilterExec"), "{}", shown(&plan));
    collect(Arc::clone(&plan), both.stock.task_ctx()).await.expect("it runs");
    assert!(metric(&plan, "paused") == 1 || shown(&plan).contains("not used"), "{}", shown(&plan));
}
