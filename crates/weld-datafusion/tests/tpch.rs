//! The 22 queries of TPC-H against stock DataFusion, over memory and Parquet, with one and two partitions.

mod common;

use common::{Engines, tpch_in_memory, tpch_in_parquet, tpch_query};
use weld_datafusion::Summary;

const SCALE: f64 = 0.01;

async fn check_all(engines: &Engines) {
    for number in 1..=22 {
        for statement in tpch_query(number).split(';').filter(|statement| !statement.trim().is_empty()) {
            let run = engines.check(statement, 1).await;
            check_pinned(number, &run.summary);
        }
    }
}

/// These must not fall back to DataFusion: everything between the scan and the last aggregate is compiled.
fn check_pinned(number: usize, summary: &Summary) {
    let left = |operator: &str| {
        let reasons = summary.declined.iter().filter(|declined| declined.operator == operator);
        reasons.map(|declined| declined.reason.as_str()).collect::<Vec<_>>()
    };
    if [1, 3, 6, 12].contains(&number) {
        assert!(left("FilterExec").is_empty(), "Q{number}: {:?}", summary.declined);
        assert!(left("HashJoinExec").is_empty(), "Q{number}: {:?}", summary.declined);
        assert!(left("AggregateExec").is_empty(), "Q{number}: {:?}", summary.declined);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_one_partition() {
    check_all(&tpch_in_memory(1, SCALE)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_two_partitions() {
    check_all(&tpch_in_memory(2, SCALE)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parquet_one_partition() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    check_all(&tpch_in_parquet(1, SCALE, folder.path()).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parquet_two_partitions() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    check_all(&tpch_in_parquet(2, SCALE, folder.path()).await).await;
}
