//! Joins on floats: 0.0 matches -0.0, a NaN those of the same bits.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float32Array, Float64Array, Int64Array, RecordBatch, make_array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Float64Type, Schema, SchemaRef};
use datafusion::common::NullEquality;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning};

use crate::common::{Engines, config, session};
use crate::join_types::{TYPES, check_plan, gathered};

/// Both zeros, NaNs of three kinds, infinities, the least number that there is and others, each a few times.
fn floats(rows: usize) -> Vec<f64> {
    let payload = f64::from_bits(f64::NAN.to_bits() | 1 << 40);
    let some = [0.0, -0.0, f64::NAN, -f64::NAN, payload, f64::INFINITY, f64::NEG_INFINITY, 1e-310, 1.5, -2.5, 7.25];
    (0..rows).map(|row| some[row * 5 % some.len()]).collect()
}

fn schema(data_type: &DataType, nullable: bool) -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("f", data_type.clone(), nullable),
        Field::new("k", DataType::Int64, nullable),
        Field::new("v", DataType::Int64, false),
    ]))
}

/// Rows in batches of four, which are slices; under the nulls are floats that would match.
fn batches(data_type: &DataType, rows: usize, nullable: bool) -> Vec<RecordBatch> {
    let floats: ArrayRef = Arc::new(Float64Array::from(floats(rows)));
    let floats: ArrayRef = match data_type {
        // By bits, as a cast would lose what NaNs carry.
        DataType::Float32 => {
            let values = floats.as_primitive::<Float64Type>().values().iter();
            Arc::new(Float32Array::from_iter_values(values.map(|value| *value as f32)))
        }
        _ => floats,
    };
    let nulls = nullable.then(|| NullBuffer::from_iter((0..rows).map(|row| row % 6 != 4)));
    let floats = make_array(floats.to_data().into_builder().nulls(nulls).build().expect("as long as before"));
    let keys = Int64Array::from_iter_values((0..rows).map(|row| row as i64 % 2));
    let numbers = Int64Array::from_iter_values(0..rows as i64);
    let columns: Vec<ArrayRef> = vec![floats, Arc::new(keys), Arc::new(numbers)];
    let whole = RecordBatch::try_new(schema(data_type, nullable), columns).expect("columns of the schema");
    (0..rows).step_by(4).map(|start| whole.slice(start, 4.min(rows - start))).collect()
}

fn source(data_type: &DataType, rows: usize, nullable: bool, partitions: usize) -> Arc<dyn ExecutionPlan> {
    let mut parts = vec![Vec::new(); partitions];
    for (index, batch) in batches(data_type, rows, nullable).into_iter().enumerate() {
        parts[index % partitions].push(batch);
    }
    MemorySourceConfig::try_new_exec(&parts, schema(data_type, nullable), None).expect("a source")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_every_join_type() {
    let weld = session(config(3), true);
    let column = |name: &str, index| Arc::new(Column::new(name, index)) as Arc<dyn PhysicalExpr>;
    for data_type in [DataType::Float64, DataType::Float32] {
        for (left_rows, right_rows, nullable) in [(13, 24, false), (24, 30, true), (0, 12, true), (12, 0, true)] {
            for (nulls, two_keys) in [
                (NullEquality::NullEqualsNothing, false),
                (NullEquality::NullEqualsNull, false),
                (NullEquality::NullEqualsNothing, true),
                (NullEquality::NullEqualsNull, true),
            ] {
                let keys = match two_keys {
                    true => vec![column("k", 1), column("f", 0)],
                    false => vec![column("f", 0)],
                };
                for (mode, partitions) in [(PartitionMode::CollectLeft, 1), (PartitionMode::Partitioned, 3)] {
                    for join_type in TYPES {
                        let join = || -> Arc<dyn ExecutionPlan> {
                            let exchange = |plan: Arc<dyn ExecutionPlan>| -> Arc<dyn ExecutionPlan> {
                                let partitioning = Partitioning::Hash(keys.clone(), partitions);
                                Arc::new(RepartitionExec::try_new(plan, partitioning).expect("an exchange"))
                            };
                            let left = source(&data_type, left_rows, nullable, partitions);
                            let right = source(&data_type, right_rows, nullable, partitions);
                            let (left, right) = match mode {
                                PartitionMode::Partitioned => (exchange(left), exchange(right)),
                                _ => (gathered(left, partitions), right),
                            };
                            let on = keys.iter().map(|key| (Arc::clone(key), Arc::clone(key))).collect();
                            let join =
                                HashJoinExec::try_new(left, right, on, None, &join_type, None, mode, nulls, false);
                            Arc::new(join.expect("a join"))
                        };
                        let place = format!(
                            "{data_type} {join_type} {mode:?} of {left_rows} and {right_rows} rows, {nulls:?}, two keys: {two_keys}"
                        );
                        check_plan(&weld, join, partitions, 5, &place).await;
                    }
                }
            }
        }
    }
}

/// Of files too, whose scan is told nothing of such keys, and with the key among the columns that come out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries() {
    let rows = |rows: i64, step: i64| {
        format!(
            "SELECT v, v % 3 AS k, CASE v * {step} % 11 WHEN 0 THEN 0.0 WHEN 1 THEN arrow_cast('-0.0', 'Float64')
                    WHEN 2 THEN arrow_cast('NaN', 'Float64') WHEN 3 THEN NULL ELSE v * {step} % 11 / 4.0 END AS f
             FROM generate_series(1, {rows}) AS g(v)"
        )
    };
    for partitions in [1, 3] {
        for (pushdown, in_files) in [(false, false), (false, true), (true, true)] {
            // DataFusion's own filters by the keys of joins compare bits: with them its scan drops -0.0 where 0.0 is
            // the key.
            let config = config(partitions)
                .set_bool("datafusion.execution.parquet.pushdown_filters", pushdown)
                .set_bool("datafusion.optimizer.enable_join_dynamic_filter_pushdown", !pushdown);
            let (engines, folder) = (Engines::new(config), tempfile::tempdir().expect("a folder"));
            for (name, sql) in [("l", rows(300, 7)), ("r", rows(40, 3))] {
                match in_files {
                    true => engines.parquet_from(name, &sql, folder.path()).await,
                    false => engines.table_from(name, &sql, 16).await,
                }
            }
            for sql in [
                "SELECT l.v, r.v, l.f, r.f FROM l JOIN r ON l.f = r.f",
                "SELECT l.f, count(*), sum(r.v) FROM l JOIN r ON l.f = r.f WHERE r.k = 1 GROUP BY l.f",
                "SELECT r.f, count(*), sum(l.v) FROM l JOIN r ON l.f = r.f AND l.k = r.k WHERE l.v < 200 GROUP BY r.f",
                "SELECT l.v, l.f, r.v, r.f FROM l FULL JOIN r ON l.f = r.f AND l.k < r.k",
                "SELECT l.v, r.f FROM l LEFT JOIN r ON l.f = r.f",
                "SELECT v, f FROM l WHERE f IN (SELECT f FROM r WHERE k = 2)",
                "SELECT v, f FROM l WHERE f NOT IN (SELECT f FROM r WHERE k = 2)",
                "SELECT v FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.f = l.f AND r.v > 20)",
                "SELECT l.v, r.v FROM l JOIN r ON l.f IS NOT DISTINCT FROM r.f",
                "SELECT l.v, x.n, x.f FROM l JOIN (SELECT f, count(*) AS n FROM r GROUP BY f) x ON l.f = x.f",
                "SELECT f FROM l INTERSECT SELECT f FROM r",
            ] {
                let run = engines.check(sql, 1).await;
                let left = run.summary.declined.iter().filter(|declined| declined.operator == "HashJoinExec");
                assert_eq!(left.count(), 0, "{sql}: {:?}", run.summary.declined);
            }
        }
    }
}
