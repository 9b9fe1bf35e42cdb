//! Texts of build sides that rows are grouped by are interned: the groups are those of the texts.

use crate::common::{Engines, config};

/// A table `d` of names, some of which are equal, empty, NULL, or too long for a view, and a table `f` that refers to
/// it.
async fn engines(partitions: usize) -> Engines {
    let engines = Engines::new(config(partitions));
    let names = "SELECT v AS k,
            arrow_cast(CASE WHEN v % 13 = 0 THEN NULL WHEN v % 11 = 0 THEN ''
                 WHEN v % 2 = 0 THEN concat('name ', CAST(v % 7 AS VARCHAR))
                 ELSE concat('a name that lies outside of its view: ', CAST(v % 5 AS VARCHAR)) END, 'Utf8') AS a,
            arrow_cast(concat('region ', CAST(v % 3 AS VARCHAR)), 'Utf8View') AS b,
            arrow_cast(concat('wide ', CAST(v % 4 AS VARCHAR)), 'LargeUtf8') AS w,
            arrow_cast(concat('code ', CAST(v % 6 AS VARCHAR)), 'Dictionary(Int32, Utf8)') AS c,
            arrow_cast(CAST(v % 3 AS VARCHAR), 'Binary') AS bytes, CAST(v AS VARCHAR) AS id
        FROM generate_series(1, 60) AS g(v)";
    engines.table_from("d", names, 7).await;
    let facts = "SELECT CASE WHEN v % 17 = 0 THEN NULL ELSE v * 7 % 75 END AS k, v % 9 AS n,
            CAST(v * 7 % 75 AS VARCHAR) AS id, arrow_cast(concat('day ', CAST(v % 4 AS VARCHAR)), 'Utf8') AS day
        FROM generate_series(1, 2000) AS g(v)";
    engines.table_from("f", facts, 100).await;
    engines.table_from("none", "SELECT 1 AS k, 'x' AS a WHERE FALSE", 10).await;
    engines
}

async fn explained(engines: &Engines, sql: &str) -> String {
    let plan = engines.weld.sql(sql).await.expect("valid SQL").create_physical_plan().await.expect("a plan");
    datafusion::physical_plan::displayable(plan.as_ref()).indent(true).to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_by_interned_texts() {
    for partitions in [1, 3] {
        let engines = engines(partitions).await;
        for sql in [
            "SELECT a, count(*), sum(n) FROM f JOIN d ON f.k = d.k GROUP BY a",
            "SELECT a, b, w, c, count(*), sum(n) FROM f JOIN d ON f.k = d.k GROUP BY a, b, w, c",
            "SELECT a, day, bytes, min(b), max(a) FROM f JOIN d ON f.k = d.k GROUP BY a, day, bytes",
            "SELECT b, a FROM f JOIN d ON f.k = d.k GROUP BY a, b",
            "SELECT a, avg(n) FROM f LEFT JOIN d ON f.k = d.k GROUP BY a",
            "SELECT a, b, count(n) FROM f LEFT JOIN d ON f.k = d.k AND d.a > 'name' GROUP BY a, b",
            "SELECT a, b, count(n) FROM f FULL JOIN d ON f.k = d.k GROUP BY a, b",
            "SELECT a, count(*) FROM f JOIN d ON f.k = d.k AND f.n < length(d.a) GROUP BY a HAVING sum(n) > 10",
            "SELECT x.a, y.a, count(*) FROM f JOIN d x ON f.k = x.k JOIN d y ON f.n = y.k GROUP BY x.a, y.a",
            "SELECT a, b, grouping(a), count(*) FROM f JOIN d ON f.k = d.k GROUP BY ROLLUP (a, b)",
            "SELECT a, b, n, count(*) FROM f JOIN d ON f.k = d.k GROUP BY GROUPING SETS ((a, n), (b), ())",
            "SELECT a, count(*) FROM (SELECT a, b, n FROM f JOIN d ON f.k = d.k GROUP BY a, b, n) GROUP BY a",
            "SELECT upper(a), count(*) FROM (SELECT a, n FROM f JOIN d ON f.k = d.k GROUP BY a, n) GROUP BY upper(a)",
            "SELECT a, array_agg(b ORDER BY b) FROM f JOIN d ON f.k = d.k GROUP BY a",
            "SELECT a, count(DISTINCT b), max(w) FROM f JOIN d ON f.k = d.k GROUP BY a",
            "SELECT DISTINCT a FROM f JOIN d ON f.k = d.k WHERE n > 3",
            "SELECT d.id, d.a, count(*) FROM f JOIN d ON f.id = d.id GROUP BY d.id, d.a",
            "SELECT coalesce(a, b), a, count(*) FROM f JOIN d ON f.k = d.k GROUP BY a, coalesce(a, b)",
            "SELECT none.a, count(*) FROM f JOIN none ON f.k = none.k GROUP BY none.a",
            "SELECT none.a, count(*) FROM f LEFT JOIN none ON f.k = none.k GROUP BY none.a",
        ] {
            engines.check(sql, 2).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_interned() {
    let engines = engines(2).await;
    let plan = explained(&engines, "SELECT a, n, count(b) FROM f JOIN d ON f.k = d.k GROUP BY a, n").await;
    assert!(plan.contains("interns=[a]"), "{plan}");
    assert!(plan.contains("intern(") && plan.contains("interned("), "{plan}");
    // What a group is made of is not the text itself, the groups are as few as the rows they are made of, or no text is
    // read.
    for sql in [
        "SELECT upper(a), count(*) FROM f JOIN d ON f.k = d.k GROUP BY upper(a)",
        "SELECT n, count(a) FROM f JOIN d ON f.k = d.k GROUP BY n",
        "SELECT x.a, count(*) FROM d x JOIN d y ON x.k = y.k GROUP BY x.a",
        "SELECT a, n FROM f JOIN d ON f.k = d.k",
    ] {
        let plan = explained(&engines, sql).await;
        assert!(!plan.contains("interns="), "{sql}\n{plan}");
    }
    engines.weld.sql("SET weld.intern = false").await.expect("a setting").collect().await.expect("it is set");
    let plan = explained(&engines, "SELECT a, n, count(b) FROM f JOIN d ON f.k = d.k GROUP BY a, n").await;
    assert!(!plan.contains("intern"), "{plan}");
}

/// Finding one of many texts is a miss of the cache or several, so more rows must be grouped by it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_texts_are_interned_for_more_rows() {
    let engines = engines(2).await;
    let names = "SELECT v AS k, concat('name ', CAST(v AS VARCHAR)) AS a, concat('kind ', CAST(v % 10 AS VARCHAR)) AS b
        FROM generate_series(1, 40000) AS g(v)";
    engines.table_from("many", names, 8192).await;
    for (facts, rows, interned) in [("few", 120_000, "interns=[b]"), ("more", 440_000, "interns=[a, b]")] {
        let of = format!("SELECT v % 40000 AS k FROM generate_series(1, {rows}) AS g(v)");
        engines.table_from(facts, &of, 8192).await;
        let plan =
            explained(&engines, &format!("SELECT a, b, count(*) FROM {facts} NATURAL JOIN many GROUP BY a, b")).await;
        assert!(plan.contains(interned), "{plan}");
    }
    // Of a table of which nothing is known but its rows, each may have another text.
    let unknown = "SELECT a, count(*) FROM few NATURAL JOIN (SELECT k, min(b) AS a FROM many GROUP BY k) GROUP BY a";
    let plan = explained(&engines, unknown).await;
    assert!(plan.contains("HashJoinExec -> AggregateExec") && !plan.contains("interns="), "{plan}");
    engines.check("SELECT a, b, count(*) FROM few NATURAL JOIN many GROUP BY a, b", 2).await;
}

/// A table whose texts do not fit the query's memory is refused them, as it is refused its rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interned_texts_are_asked_of_the_pool() {
    let names =
        "SELECT v AS k, repeat(concat('name ', CAST(v AS VARCHAR)), 40) AS a FROM generate_series(1, 20000) AS g(v)";
    let facts = "SELECT v % 20000 AS k FROM generate_series(1, 50000) AS g(v)";
    let sql = "SELECT a, count(*) FROM f JOIN d ON f.k = d.k GROUP BY a ORDER BY a LIMIT 3";
    let mut refused = 0;
    for bytes in [1 << 20, 4 << 20, 12 << 20, 24 << 20, 200 << 20] {
        let engines = Engines::limited(config(2), bytes);
        engines.table_from("d", names, 1000).await;
        engines.table_from("f", facts, 1000).await;
        match (engines.run(sql).await, engines.stock_rows(sql).await) {
            (Ok(run), Ok(rows)) => assert_eq!(run.rows, rows),
            (Err(error), _) => {
                assert!(error.contains("Resources exhausted"), "{bytes}: {error}");
                refused += 1;
            }
            (Ok(_), Err(_)) => {}
        }
    }
    assert!((1..5).contains(&refused), "{refused}");
}
