//! Recursive queries: nothing of a step stays for the next.

use datafusion::prelude::ParquetReadOptions;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use crate::common::{Engines, config};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_does_not_prune_by_the_filter_of_the_step_before() {
    for partitions in [1, 2] {
        let engines = Engines::new(config(partitions));
        engines.table_from("edges", "SELECT v AS a, (v * 7) % 50 AS b FROM generate_series(0, 49) AS g(v)", 8).await;
        let queries = [
            "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT e.b FROM r JOIN edges e ON r.n = e.a WHERE r.n <> 0) SELECT * FROM r LIMIT 12",
            "WITH RECURSIVE r AS (SELECT 1 AS n, 0 AS d UNION ALL SELECT e.b, d + 1 FROM r JOIN edges e ON r.n = e.a WHERE d < 10) SELECT n, d FROM r",
            "WITH RECURSIVE r AS (SELECT 3 AS n, 0 AS d UNION ALL SELECT e.b + 0, d + 1 FROM edges e JOIN r ON e.a = r.n WHERE d < 9 AND e.b >= 0) SELECT d, count(*), max(n) FROM r GROUP BY d",
            "WITH RECURSIVE r AS (SELECT 1 AS n UNION SELECT e.b FROM r JOIN edges e ON r.n = e.a) SELECT count(*), sum(n) FROM r",
        ];
        for sql in queries {
            engines.check(sql, 0).await;
        }
    }
}

/// Steps of few rows are left to DataFusion, unless everything is to be compiled; joins with tables are not.
#[tokio::test]
async fn steps_start_no_pipelines_for_few_rows() {
    let step = "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 50) SELECT n FROM r";
    let join =
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT e.b FROM r JOIN edges e ON r.n = e.a) SELECT n FROM r";
    for (min_rows, in_step, in_join) in [("0", 2, true), ("1000", 0, true)] {
        let engines = Engines::new(config(1));
        engines.table_from("edges", "SELECT v AS a, v + 1 AS b FROM generate_series(0, 49) AS g(v)", 8).await;
        engines.weld.sql(&format!("SET weld.compile_min_rows = {min_rows}")).await.expect("a setting");
        let run = engines.check(step, 0).await;
        assert_eq!((run.rows.len(), run.summary.operators_compiled), (50, in_step), "{:?}", run.summary.declined);
        let declined = engines.check(join, 0).await.summary.declined;
        assert_eq!(!declined.iter().any(|declined| declined.operator == "HashJoinExec"), in_join, "{declined:?}");
    }
}

/// Files are pruned by the filters of joins too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_over_files() {
    let engines = Engines::new(config(1));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("edges.parquet");
    let path = path.to_str().expect("a temporary folder has a plain name");
    let sql = "SELECT v AS a, (v * 7) % 50 AS b FROM generate_series(0, 49) AS g(v)";
    let file = std::fs::File::create(path).expect("a temporary folder is writable");
    let batches = engines.stock.sql(sql).await.expect("valid SQL").collect().await.expect("it runs");
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(5)).build();
    let mut writer = ArrowWriter::try_new(file, batches[0].schema(), Some(properties)).expect("a plain schema");
    batches.iter().for_each(|batch| writer.write(batch).expect("a temporary folder is writable"));
    writer.close().expect("a temporary folder is writable");
    for context in [&engines.stock, &engines.weld] {
        context.register_parquet("edges", path, ParquetReadOptions::default()).await.expect("the file just written");
    }
    let sql = "WITH RECURSIVE r AS (SELECT 1 AS n, 0 AS d UNION ALL
               SELECT e.b, d + 1 FROM r JOIN edges e ON r.n = e.a WHERE d < 10) SELECT n, d FROM r";
    let run = engines.check(sql, 0).await;
    assert_eq!(run.rows.len(), 11);
    // Nor by the first rows of the step before.
    let sql = "WITH RECURSIVE r AS (SELECT 1 AS n, 0 AS d UNION ALL
               (SELECT e.b, d + 1 FROM r JOIN edges e ON r.n = e.a WHERE d < 10 ORDER BY e.a, d LIMIT 1)) SELECT n, d FROM r";
    let run = engines.check(sql, 0).await;
    assert_eq!(run.rows.len(), 11);
}
