//! `weld bench`: files and queries that are nobody's benchmark, measured like one.

mod common;

use common::{folder_with, tpch_data, weld};
use serde_json::Value;
use tempfile::TempDir;

const COUNT: &[u8] = b"select count(*) as c from orders;\n";
const GROUPS: &[u8] = b"-- A comment.\nselect o_orderstatus, sum(o_totalprice) from orders group by o_orderstatus\n";

fn bench(options: &str, queries: &TempDir) -> common::Output {
    let queries = queries.path().display();
    weld(&format!("bench {options} --queries {queries}"), tpch_data().to_str().unwrap())
}

fn objects(output: &str) -> Vec<Value> {
    output.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn queries_of_a_folder_over_files_of_another() {
    let queries = folder_with(&[("q10.sql", COUNT), ("q2.sql", GROUPS), ("notes.txt", b"no query")]);
    for storage in ["parquet", "memory", "weld"] {
        let options = format!("--format json --storage {storage} -p 2 --set weld.plan_min_rows=0 -i 2");
        let objects = objects(&bench(&options, &queries).ok());
        let names: Vec<_> = objects.iter().map(|object| object["query"].as_str().unwrap()).collect();
        assert_eq!(names, ["q2", "q10"]);
        for object in &objects {
            assert_eq!((&object["verified"], &object["scale_factor"]), (&true.into(), &Value::Null), "{object}");
            assert_eq!((&object["storage"], &object["partitions"]), (&storage.into(), &2.into()), "{object}");
            assert_eq!(object["weld_ms"].as_array().unwrap().len(), 2, "{object}");
            assert!(object["first_ms"]["datafusion"].as_f64().unwrap() > 0.0, "{object}");
        }
        assert_eq!((&objects[0]["rows"], &objects[1]["rows"]), (&3.into(), &1.into()));
    }
}

#[test]
fn the_table_has_the_names_of_the_files() {
    let queries = folder_with(&[("orders_by_status.sql", GROUPS), ("a.sql", COUNT), ("left, out.sql", COUNT)]);
    let text = bench("-i 1 -q orders_by_status,a.sql", &queries).ok();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains(" over ") && lines[0].contains(", parquet, "), "{text}");
    assert!(lines[1].starts_with("           query  datafusion "), "{text}");
    assert!(lines[2].starts_with("orders_by_status ") && lines[2].ends_with("  yes"), "{text}");
    assert!(lines[3].starts_with("               a "), "{text}");
    assert!(text.contains("2 of 2 verified"), "{text}");
}

#[test]
fn first_runs_in_processes_of_their_own() {
    let queries = folder_with(&[("some name, with a comma.sql", COUNT)]);
    let objects = objects(&bench("-i 1 --cold --format json", &queries).ok());
    assert_eq!((&objects[0]["cold"], &objects[0]["rows"]), (&true.into(), &1.into()));
    assert_eq!(objects[0]["query"], "some name, with a comma");
}

/// Each partition of such a plan is in order, all of them together are not.
#[test]
fn answers_of_ordered_partitions() {
    let text = b"select o_custkey, row_number() over (partition by o_custkey order by o_orderkey) as n from orders";
    let queries = folder_with(&[("window.sql", text)]);
    let objects = objects(&bench("-i 1 -p 2 --format json", &queries).ok());
    assert_eq!(objects[0]["verified"], true, "{}", objects[0]);
}

#[test]
fn names_are_as_they_are_written() {
    let region = std::fs::read(tpch_data().join("region.parquet")).unwrap();
    let data = folder_with(&[("My Region.parquet", &region), ("Upper.parquet", &region)]);
    std::fs::create_dir(data.path().join("parts")).unwrap();
    for part in ["a", "b"] {
        std::fs::write(data.path().join(format!("parts/{part}.parquet")), &region).unwrap();
    }
    let text = b"select (select count(*) from \"My Region\") a, (select count(*) from upper) b, count(*) c from parts";
    let queries = folder_with(&[("q.sql", text)]);
    for storage in ["parquet", "memory", "weld"] {
        let options = format!("bench -i 1 --format json --storage {storage} --queries {}", queries.path().display());
        let objects = objects(&weld(&options, data.path().to_str().unwrap()).ok());
        assert_eq!(objects[0]["verified"], true, "{}", objects[0]);
    }
}

#[test]
fn a_query_that_fails_does_not_stop_the_others() {
    let files: [(&str, &[u8]); 7] = [
        ("absent.sql", b"select * from nowhere"),
        ("create.sql", b"create table t as select 1"),
        ("empty.sql", b"  -- nothing here\n"),
        ("good.sql", COUNT),
        ("two.sql", b"select 1; select 2"),
        ("typo.sql", b"selekt 1"),
        ("zero.sql", b"select 1 / (o_orderkey - o_orderkey) from orders"),
    ];
    let queries = folder_with(&files);
    for (mode, prefix) in [("", "DataFusion: "), ("--cold", "DataFusion: ")] {
        let output = bench(&format!("-i 1 --format json {mode}"), &queries);
        assert_eq!(output.code, Some(1));
        let objects = objects(&output.stdout);
        let error = |index: usize| objects[index]["error"].as_str().unwrap_or_default();
        assert_eq!(objects.len(), files.len());
        for (index, part) in [(0, "nowhere"), (1, "not supported"), (5, "selekt"), (6, "zero")] {
            assert!(error(index).starts_with(prefix) && error(index).contains(part), "{}", error(index));
        }
        assert!(error(2).ends_with("/empty.sql: no statement in this file"), "{}", error(2));
        assert!(error(4).ends_with("/two.sql: 2 statements in this file, where one is expected"), "{}", error(4));
        assert!(error(3).is_empty() && objects[3]["weld_ms"].as_array().unwrap().len() == 1, "{}", objects[3]);
    }
    let text = bench("-i 1", &queries).stdout;
    assert!(text.contains("1 of 7 verified") && text.contains("\ntypo: DataFusion: "), "{text}");
}

#[test]
fn folders_that_cannot_be_measured() {
    let queries = folder_with(&[("q1.sql", COUNT)]);
    let error = bench("-q q2", &queries).error(2);
    assert_eq!(error, "there is no query 'q2' in the folder");
    let none = folder_with(&[("notes.txt", b"hello")]);
    let error = bench("", &none).error(1);
    assert!(error.ends_with(": no .sql file in this folder"), "{error}");
    let options = format!("bench --queries {}", queries.path().display());
    let error = weld(&options, none.path().to_str().unwrap()).error(1);
    assert!(error.ends_with(": no .parquet, .csv or .json file in this folder"), "{error}");
    let error = weld("bench --queries /no/such/folder", tpch_data().to_str().unwrap()).error(1);
    assert_eq!(error, "cannot read /no/such/folder: No such file or directory (os error 2)");
    assert!(weld("bench", tpch_data().to_str().unwrap()).error(2).contains("--queries"));
}
