//! The 22 TPC-H queries, with Weld and without, small but whole: over Parquet and in memory, on one and two partitions.

mod common;

use common::{tpch_data, weld};
use serde_json::Value;

/// Runs all queries and gives the JSON object of each.
fn run(storage: &str, partitions: usize) -> Vec<Value> {
    let shape = format!("--storage {storage} --partitions {partitions}");
    let arguments = format!("tpch run -s 0.01 -i 1 --format json {shape} --set weld.compile_min_rows=0 --data");
    let output = weld(&arguments, tpch_data().to_str().unwrap());
    let objects: Vec<Value> = output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for object in &objects {
        assert_eq!(object["verified"], true, "{object}");
    }
    output.ok();
    objects
}

fn check(storage: &str, partitions: usize) {
    let objects = run(storage, partitions);
    let numbers: Vec<_> = objects.iter().map(|object| object["query"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=22).collect::<Vec<_>>());
    for object in &objects {
        assert_eq!(object["storage"], storage);
        assert_eq!(object["partitions"], partitions);
        assert_eq!(object["scale_factor"], 0.01);
        for engine in ["datafusion", "weld"] {
            assert_eq!(object[format!("{engine}_ms")].as_array().unwrap().len(), 1);
            assert!(object["first_ms"][engine].as_f64().unwrap() > 0.0);
        }
    }
    for query in [1, 3, 6, 12] {
        let object = &objects[query - 1];
        let left: Vec<_> =
            object["declined"].as_array().unwrap().iter().map(|declined| &declined["operator"]).collect();
        for operator in ["FilterExec", "HashJoinExec"] {
            assert!(!left.iter().any(|left| *left == operator), "q{query}: {operator} is not compiled: {object}");
        }
        // Filters, joins and the aggregate (of each partition, at least) run as compiled code.
        let compiled = object["operators_compiled"].as_u64().unwrap();
        assert!(compiled >= if query == 3 { 6 } else { 2 }, "q{query}: {object}");
        assert!(object["compile_ms"].as_f64().unwrap() > 0.0, "q{query}: {object}");
    }
    // A result that holds on any machine: Q1 has four groups, Q6 one row.
    assert_eq!((&objects[0]["rows"], &objects[5]["rows"]), (&4.into(), &1.into()));
}

#[test]
fn parquet_on_one_partition() {
    check("parquet", 1);
}

#[test]
fn parquet_on_two_partitions() {
    check("parquet", 2);
}

#[test]
fn encoded_on_two_partitions() {
    check("weld", 2);
}

#[test]
fn memory_on_one_partition() {
    check("memory", 1);
}

#[test]
fn memory_on_two_partitions() {
    check("memory", 2);
}

#[test]
fn the_table_names_the_geometric_mean_and_the_verdict() {
    let text = weld("tpch run -s 0.01 -i 1 -q 6,1 --data", tpch_data().to_str().unwrap()).ok();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("TPC-H, scale factor 0.01, parquet, "), "{text}");
    assert!(lines[2].trim_start().starts_with("q6 ") && lines[2].ends_with("  yes"), "{text}");
    assert!(lines[3].trim_start().starts_with("q1 "), "{text}");
    assert!(text.contains("geomean"), "{text}");
    assert!(text.contains("2 of 2 verified"), "{text}");
}

#[test]
fn one_engine_alone_verifies_nothing() {
    let text =
        weld("tpch run -s 0.01 -i 2 -q 6 --engine datafusion --format json --data", tpch_data().to_str().unwrap());
    let object: Value = serde_json::from_str(&text.ok()).unwrap();
    assert_eq!(object["verified"], Value::Null);
    assert_eq!(object["datafusion_ms"].as_array().unwrap().len(), 2);
    assert_eq!(object["weld_ms"].as_array().unwrap().len(), 0);
}
