//! The generated benchmarks beside TPC's, small but whole: H2O.ai's questions and ClickBench's.

mod common;

use common::{folder_with, weld};
use serde_json::Value;

/// Runs all queries over ten thousand rows, all compiled, and gives the JSON object of each.
fn run(suite: &str, storage: &str) -> Vec<Value> {
    let parent = folder_with(&[]);
    let settings = "--set weld.compile_min_rows=0 --set weld.plan_min_rows=0";
    let arguments = format!("{suite} run -s 0.001 -i 1 -p 2 --format json --storage {storage} {settings} --data");
    let output = weld(&arguments, parent.path().join("data").to_str().unwrap());
    let objects: Vec<Value> = output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for object in &objects {
        assert_eq!(object["verified"], true, "{object}");
    }
    output.ok();
    objects
}

fn rows(objects: &[Value], query: usize) -> u64 {
    objects[query - 1]["rows"].as_u64().unwrap()
}

#[test]
fn h2o() {
    let objects = run("h2o", "parquet");
    assert_eq!(objects.len(), 15);
    // Groups of a hundred rows, pairs of a hundred keys (nearly all of them), groups of one row.
    assert_eq!((rows(&objects, 1), rows(&objects, 3), rows(&objects, 10)), (100, 100, 10_000));
    assert_eq!((rows(&objects, 8), rows(&objects, 11)), (200, 1));
}

#[test]
fn clickbench() {
    let objects = run("clickbench", "memory");
    assert_eq!(objects.len(), 43);
    assert_eq!((rows(&objects, 1), rows(&objects, 13), rows(&objects, 37)), (1, 10, 10));
    // The user that is asked for is there.
    assert!(rows(&objects, 20) > 0);
}

#[test]
fn scale_factors_have_an_end() {
    let parent = folder_with(&[]);
    let error = weld("h2o run -s 101 --data", parent.path().join("data").to_str().unwrap());
    assert!(error.stderr.contains("scale factors are at most 100"), "{}", error.stderr);
    assert_eq!(error.code, Some(1));
}
