//! Hash joins of every type against stock: by plans made by hand, which leave nothing to the choice of sides, and by
//! SQL.

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning, collect};
use datafusion::prelude::SessionContext;
use weld_datafusion::pipelines;

use crate::common::{Engines, config, session, sorted_rows};

pub(crate) const TYPES: [JoinType; 10] = [
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

/// `k` and `s` may be null, `v` numbers the rows.
fn schema(nullable: bool) -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, nullable),
        Field::new("s", DataType::Utf8, nullable),
        Field::new("v", DataType::Int64, false),
    ]))
}

/// Rows of such keys, in batches of three.
fn batches(keys: &[Option<i64>], nullable: bool) -> Vec<RecordBatch> {
    let text = |key: &Option<i64>| match key {
        Some(key) if key % 3 == 0 => Some(format!("a text that is long: {key}")),
        Some(key) => Some(key.to_string()),
        None => None,
    };
    let chunks = keys.chunks(3).enumerate();
    let batch = |(index, keys): (usize, &[Option<i64>])| {
        let first = 3 * index as i64;
        RecordBatch::try_new(
            schema(nullable),
            vec![
                Arc::new(Int64Array::from(keys.to_vec())),
                Arc::new(StringArray::from_iter(keys.iter().map(text))),
                Arc::new(Int64Array::from_iter_values(first..first + keys.len() as i64)),
            ],
        )
        .expect("columns of the schema")
    };
    chunks.map(batch).collect()
}

/// Both sides' keys; `None` is a null.
struct Sides {
    name: &'static str,
    left: Vec<Option<i64>>,
    right: Vec<Option<i64>>,
    nullable: bool,
}

fn sides() -> Vec<Sides> {
    let some = |keys: &[i64]| keys.iter().copied().map(Some).collect::<Vec<_>>();
    let many = |rows: i64, keys: i64| (0..rows).map(|row| Some(row * 7 % keys)).collect::<Vec<_>>();
    let with_nulls = |mut keys: Vec<Option<i64>>| {
        keys.iter_mut().step_by(4).for_each(|key| *key = None);
        keys
    };
    let of = |name, left, right, nullable| Sides { name, left, right, nullable };
    vec![
        of("unique keys", some(&[4, 1, 3, 9, 6, 7]), some(&[3, 3, 5, 1, 9, 12, 2]), false),
        of("keys far apart", some(&[4, 1_000_000_007, -3, 9]), some(&[1_000_000_007, 9, 9, 5]), false),
        of("duplicates", many(40, 13), many(50, 17), false),
        of("duplicates and nulls", with_nulls(many(40, 13)), with_nulls(many(50, 17)), true),
        of("no build rows", Vec::new(), with_nulls(many(20, 5)), true),
        of("no probe rows", with_nulls(many(20, 5)), Vec::new(), true),
        of("no rows", Vec::new(), Vec::new(), true),
        of("null keys alone", vec![None; 5], with_nulls(many(20, 5)), true),
        of("null keys to probe", many(20, 5), vec![None; 4], true),
        of("nothing in common", many(20, 5), some(&[50, 51, 52]), true),
    ]
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    join_type: JoinType,
    mode: PartitionMode,
    filtered: bool,
    nulls_match: bool,
    text_key: bool,
    null_aware: bool,
    partitions: usize,
    batch_rows: usize,
}

fn column(index: usize) -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new(["k", "s", "v"][index], index))
}

/// `(left.v + right.v) % 3 < 2`, more or less: some pairs of each key pass.
fn filter() -> JoinFilter {
    let binary = |left, op, right| Arc::new(BinaryExpr::new(left, op, right)) as Arc<dyn PhysicalExpr>;
    let number = datafusion::physical_expr::expressions::lit;
    let schema = Schema::new(vec![Field::new("l", DataType::Int64, false), Field::new("r", DataType::Int64, false)]);
    let (l, r) = (Arc::new(Column::new("l", 0)) as _, Arc::new(Column::new("r", 1)) as _);
    let sum = binary(l, Operator::Plus, r);
    let expr = binary(binary(sum, Operator::Modulo, number(3_i64)), Operator::Lt, number(2_i64));
    let columns = [JoinSide::Left, JoinSide::Right].map(|side| ColumnIndex { index: 2, side }).to_vec();
    JoinFilter::new(expr, columns, Arc::new(schema))
}

/// Both sides in memory.
fn sources(sides: &Sides, partitions: usize) -> [Arc<dyn ExecutionPlan>; 2] {
    [&sides.left, &sides.right].map(|keys| -> Arc<dyn ExecutionPlan> {
        let mut parts = vec![Vec::new(); partitions];
        for (index, batch) in batches(keys, sides.nullable).into_iter().enumerate() {
            parts[index % partitions].push(batch);
        }
        MemorySourceConfig::try_new_exec(&parts, schema(sides.nullable), None).expect("a source")
    })
}

pub(crate) fn gathered(plan: Arc<dyn ExecutionPlan>, partitions: usize) -> Arc<dyn ExecutionPlan> {
    if partitions > 1 { Arc::new(CoalescePartitionsExec::new(plan)) } else { plan }
}

/// The join as DataFusion plans it: both sides exchanged by their keys, or the build side gathered.
fn hash_join(sides: &Sides, shape: Shape) -> Arc<dyn ExecutionPlan> {
    let keys: Vec<_> = if shape.text_key { vec![column(0), column(1)] } else { vec![column(0)] };
    let exchange = |plan: Arc<dyn ExecutionPlan>| -> Arc<dyn ExecutionPlan> {
        let partitioning = Partitioning::Hash(keys.clone(), shape.partitions);
        Arc::new(RepartitionExec::try_new(plan, partitioning).expect("an exchange"))
    };
    let [left, right] = sources(sides, shape.partitions);
    let (left, right) = match shape.mode {
        PartitionMode::Partitioned => (exchange(left), exchange(right)),
        _ => (gathered(left, shape.partitions), right),
    };
    let nulls = if shape.nulls_match { NullEquality::NullEqualsNull } else { NullEquality::NullEqualsNothing };
    let on = keys.iter().map(|key| (Arc::clone(key), Arc::clone(key))).collect();
    let filter = shape.filtered.then(filter);
    let join =
        HashJoinExec::try_new(left, right, on, filter, &shape.join_type, None, shape.mode, nulls, shape.null_aware);
    Arc::new(join.expect("a join"))
}

/// The same rows from stock and from Weld, which compiles the join.
async fn check(weld: &SessionContext, sides: &Sides, shape: Shape) {
    let place = format!("{}: {shape:?}", sides.name);
    check_plan(weld, || hash_join(sides, shape), shape.partitions, shape.batch_rows, &place).await;
}

pub(crate) async fn check_plan(
    weld: &SessionContext,
    join: impl Fn() -> Arc<dyn ExecutionPlan>,
    partitions: usize,
    batch_rows: usize,
    place: &str,
) {
    let context = session(config(partitions).with_batch_size(batch_rows), false).task_ctx();
    let expected = collect(join(), Arc::clone(&context)).await.expect("stock runs");
    let state = weld.state();
    let rule = state.physical_optimizers().last().expect("Weld's rule is the last");
    let plan = rule.optimize(join(), weld.copied_config().options()).expect("a plan");
    let compiled = pipelines(&plan);
    assert!(compiled.iter().any(|pipeline| !pipeline.fused().is_empty()), "{place} is not compiled");
    let rows = collect(Arc::clone(&plan), context).await.unwrap_or_else(|error| panic!("{place}: {error}"));
    assert_eq!(sorted_rows(&rows), sorted_rows(&expected), "{place}");
    assert!(rows.iter().all(|batch| batch.num_rows() <= batch_rows && batch.schema() == plan.schema()), "{place}");
}

/// Every row of one side is compared with every row of the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nested_loop_joins() {
    let weld = session(config(4), true);
    for sides in sides() {
        for (partitions, batch_rows) in [(1, 8192), (4, 8192), (4, 1)] {
            let inputs = || {
                let [left, right] = sources(&sides, partitions);
                (gathered(left, partitions), right)
            };
            for join_type in TYPES {
                for filtered in [true, false] {
                    let join = || -> Arc<dyn ExecutionPlan> {
                        let (left, right) = inputs();
                        let filter = filtered.then(filter);
                        Arc::new(NestedLoopJoinExec::try_new(left, right, filter, &join_type, None).expect("a join"))
                    };
                    let place = format!("{}: {join_type}, filtered: {filtered}, {partitions} partitions", sides.name);
                    check_plan(&weld, join, partitions, batch_rows, &place).await;
                }
            }
            let cross = || -> Arc<dyn ExecutionPlan> {
                let (left, right) = inputs();
                Arc::new(CrossJoinExec::new(left, right))
            };
            check_plan(&weld, cross, partitions, batch_rows, sides.name).await;
        }
    }
}

async fn check_all(join_types: &[JoinType], filtered: bool) {
    let weld = session(config(4), true);
    for &join_type in join_types {
        for sides in sides() {
            for mode in [PartitionMode::CollectLeft, PartitionMode::Partitioned] {
                for (nulls_match, text_key) in [(false, false), (true, false), (false, true), (true, true)] {
                    for (partitions, batch_rows) in [(1, 8192), (4, 8192), (4, 1)] {
                        let shape = Shape {
                            join_type,
                            mode,
                            filtered,
                            nulls_match,
                            text_key,
                            null_aware: false,
                            partitions,
                            batch_rows,
                        };
                        check(&weld, &sides, shape).await;
                    }
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pairs_and_rows_of_the_probe_side() {
    check_all(&[JoinType::Inner, JoinType::Right, JoinType::RightSemi], false).await;
    check_all(&[JoinType::RightAnti, JoinType::RightMark], false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_the_build_side() {
    check_all(&[JoinType::Left, JoinType::Full, JoinType::LeftSemi], false).await;
    check_all(&[JoinType::LeftAnti, JoinType::LeftMark], false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn join_filters() {
    check_all(&TYPES, true).await;
}

/// `NOT IN`: a null on the probe side leaves nothing, a null on the build side comes out if there is nothing to compare
/// it with.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn null_aware_anti_joins() {
    let weld = session(config(4), true);
    for sides in sides() {
        for (partitions, batch_rows) in [(1, 8192), (4, 8192), (4, 1)] {
            let shape = Shape {
                join_type: JoinType::LeftAnti,
                mode: PartitionMode::CollectLeft,
                filtered: false,
                nulls_match: false,
                text_key: false,
                null_aware: true,
                partitions,
                batch_rows,
            };
            check(&weld, &sides, shape).await;
        }
    }
}

const QUERIES: [&str; 16] = [
    "SELECT l.k, l.v, r.v FROM l LEFT JOIN r ON l.k = r.k",
    "SELECT l.k, count(r.v), sum(r.v) FROM l LEFT JOIN r ON l.k = r.k GROUP BY l.k",
    "SELECT l.k, count(r.v) FROM l LEFT JOIN r ON l.k = r.k AND l.v < r.v GROUP BY l.k",
    "SELECT count(*) FROM l LEFT JOIN r ON l.k = r.k",
    "SELECT count(*), count(l.v), count(r.v) FROM l FULL JOIN r ON l.k = r.k",
    "SELECT coalesce(l.k, r.k) AS k, sum(l.v), sum(r.v) FROM l FULL JOIN r ON l.k = r.k GROUP BY coalesce(l.k, r.k)",
    "SELECT l.k, count(*) FROM l LEFT JOIN r ON l.k = r.k LEFT JOIN b ON l.k = b.k AND b.v % 2 = 0 GROUP BY l.k",
    "SELECT g, count(*) FROM l WHERE EXISTS (SELECT * FROM r WHERE r.k = l.k) GROUP BY g",
    "SELECT g, count(*) FROM l WHERE NOT EXISTS (SELECT * FROM r WHERE r.k = l.k AND r.v > l.v) GROUP BY g",
    "SELECT l.v FROM l WHERE EXISTS (SELECT * FROM r WHERE r.k = l.k) OR l.v % 5 = 0",
    "SELECT l.v FROM l WHERE l.k NOT IN (SELECT k FROM r WHERE k IS NOT NULL AND v > 3)",
    "SELECT l.v FROM l WHERE l.k NOT IN (SELECT k FROM r)",
    "SELECT l.v FROM l WHERE l.k IN (SELECT k FROM b GROUP BY k HAVING sum(v) > 20)",
    "SELECT x.k, x.v, b.v FROM (SELECT l.k, l.v FROM l LEFT JOIN r ON l.k = r.k WHERE r.k IS NULL) x JOIN b ON x.k = b.k",
    "SELECT l.v FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.k = l.k) AND NOT EXISTS (SELECT 1 FROM b WHERE b.k = l.k)",
    "SELECT k FROM l EXCEPT SELECT k FROM r WHERE v > 10 INTERSECT SELECT k FROM b",
];

/// What stands above and below joins, with sides and modes as DataFusion chooses them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries() {
    for partitions in [1, 3] {
        for threshold in [0, 1_000_000] {
            let config = config(partitions)
                .set_u64("datafusion.optimizer.hash_join_single_partition_threshold", threshold)
                .set_u64("datafusion.optimizer.hash_join_single_partition_threshold_rows", threshold);
            let engines = Engines::new(config);
            let rows = |rows, keys| {
                format!(
                    "SELECT CASE WHEN v % 11 = 0 THEN NULL ELSE v % {keys} END AS k, v, v % 4 AS g,
                     concat('text number ', v % 7) AS s FROM generate_series(1, {rows}) AS x(v)"
                )
            };
            engines.table_from("l", &rows(60, 29), 7).await;
            engines.table_from("r", &rows(90, 47), 11).await;
            engines.table_from("b", &rows(400, 83), 50).await;
            for sql in QUERIES {
                let run = engines.check(sql, 1).await;
                let left = run.summary.declined.iter().filter(|declined| declined.operator == "HashJoinExec");
                assert_eq!(left.count(), 0, "{sql}: {:?}", run.summary.declined);
            }
        }
    }
}
