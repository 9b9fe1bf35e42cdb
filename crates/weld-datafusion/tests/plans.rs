//! What EXPLAIN shows: fused operators, why others were left, the Weld program, metrics. Bless with `UPDATE_EXPECT=1`.

mod common;

use common::{Engines, config};
use datafusion::physical_plan::displayable;
use expect_test::{Expect, expect};

async fn engines(partitions: usize) -> Engines {
    let engines = Engines::new(config(partitions));
    let orders = "SELECT v AS o_key, CAST(v AS DECIMAL(10, 2)) AS o_price FROM generate_series(1, 20) AS g(v)";
    let items = "SELECT v AS i_key, v % 20 AS i_order, concat('tag ', CAST(v % 3 AS VARCHAR)) AS i_tag
                 FROM generate_series(1, 200) AS g(v)";
    engines.table_from("orders", orders, 10).await;
    engines.table_from("items", items, 50).await;
    engines
}

async fn check(engines: &Engines, sql: &str, expect: Expect) {
    let frame = engines.weld.sql(sql).await.expect("valid SQL");
    let plan = frame.create_physical_plan().await.expect("a plan");
    expect.assert_eq(&displayable(plan.as_ref()).indent(false).to_string());
}

#[tokio::test]
async fn a_pipeline_lists_what_it_fused() {
    let engines = engines(1).await;
    let sql = "SELECT i_tag, sum(i_key * 2) FROM items WHERE i_order > 3 GROUP BY i_tag";
    check(&engines, sql, expect![[r#"
        WeldExec: groups of FilterExec -> AggregateExec; FilterExec: i_order@1 > 3, projection=[i_key@0, i_tag@2]; AggregateExec: mode=Single, gby=[i_tag@1 as i_tag], aggr=[sum(items.i_key * Int64(2))]
          DataSourceExec: partitions=1, partition_sizes=[4]
    "#]]).await;
}

#[tokio::test]
async fn a_join_is_two_pipelines() {
    let engines = engines(2).await;
    let sql = "SELECT i_tag, o_price FROM orders JOIN items ON o_key = i_order WHERE o_price > 5";
    check(&engines, sql, expect![[r#"
        WeldExec: rows of HashJoinExec -> ProjectionExec; HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(o_key@0, i_order@0)], projection=[o_price@1, i_tag@3]; ProjectionExec: expr=[i_tag@1 as i_tag, o_price@0 as o_price]
          DataSourceExec: partitions=2, partition_sizes=[2, 2]
          WeldExec: table of FilterExec; FilterExec: o_price@1 > 5.00
            DataSourceExec: partitions=2, partition_sizes=[1, 1]
    "#]]).await;
}

/// Groups of groups, and a condition on groups, are read where they are; partitions are exchanged as before.
#[tokio::test]
async fn groups_go_on_in_their_pipeline() {
    let engines = engines(2).await;
    let sql = "SELECT i_tag, count(DISTINCT i_order * 2) AS n FROM items GROUP BY i_tag HAVING n > 3";
    check(&engines, sql, expect![[r#"
        WeldExec: groups of AggregateExec -> FilterExec -> ProjectionExec; AggregateExec: mode=FinalPartitioned, gby=[i_tag@0 as i_tag], aggr=[count(alias1)]; FilterExec: count(alias1)@1 > 3; ProjectionExec: expr=[i_tag@0 as i_tag, count(alias1)@1 as n]
          RepartitionExec: partitioning=Hash([i_tag@0], 2), input_partitions=2
            WeldExec: groups of AggregateExec -> AggregateExec; AggregateExec: mode=FinalPartitioned, gby=[i_tag@0 as i_tag, alias1@1 as alias1], aggr=[]; AggregateExec: mode=Partial, gby=[i_tag@0 as i_tag], aggr=[count(alias1)]
              RepartitionExec: partitioning=Hash([i_tag@0, alias1@1], 2), input_partitions=2
                WeldExec: groups of AggregateExec; AggregateExec: mode=Partial, gby=[i_tag@1 as i_tag, i_order@0 * 2 as alias1], aggr=[]
                  DataSourceExec: partitions=2, partition_sizes=[2, 2]
    "#]]).await;
}

#[tokio::test]
async fn a_semi_join_is_a_filter() {
    let engines = engines(1).await;
    let sql = "SELECT i_key FROM items WHERE i_order IN (SELECT o_key FROM orders WHERE o_price > 5)";
    check(&engines, sql, expect![[r#"
        WeldExec: rows of HashJoinExec; HashJoinExec: mode=CollectLeft, join_type=RightSemi, on=[(o_key@0, i_order@1)], projection=[i_key@0]
          DataSourceExec: partitions=1, partition_sizes=[4]
          WeldExec: table of FilterExec; FilterExec: o_price@1 > 5.00, projection=[o_key@0]
            DataSourceExec: partitions=1, partition_sizes=[2]
    "#]]).await;
}

#[tokio::test]
async fn what_is_left_says_why() {
    let engines = engines(1).await;
    let sql = "SELECT upper(i_tag), o_key FROM items LEFT JOIN orders ON o_key = i_order ORDER BY i_key";
    check(&engines, sql, expect![[r#"
        WeldDeclined: left to DataFusion: ProjectionExec (only moves columns: nothing to compile); ProjectionExec (upper: no lowering for this function)
          ProjectionExec: expr=[upper(items.i_tag)@0 as upper(items.i_tag), o_key@1 as o_key]
            KeySortExec: SortExec: expr=[i_key@2 ASC NULLS LAST], preserve_partitioning=[false]
              ProjectionExec: expr=[upper(i_tag@0) as upper(items.i_tag), o_key@1 as o_key, i_key@2 as i_key]
                WeldExec: rows of HashJoinExec; HashJoinExec: mode=CollectLeft, join_type=Right, on=[(o_key@0, i_order@1)], projection=[i_tag@3, o_key@0, i_key@1]
                  DataSourceExec: partitions=1, partition_sizes=[4]
                  WeldExec: table of input
                    DataSourceExec: partitions=1, partition_sizes=[2]
    "#]]).await;
}

/// Its pipeline ends with it; what is above and below is compiled all the same.
#[tokio::test]
async fn a_join_that_preserves_its_build_side_ends_a_pipeline() {
    let engines = engines(1).await;
    let sql = "SELECT o_price, count(i_key) FROM orders LEFT JOIN items ON o_key = i_order GROUP BY o_price";
    let plan = engines.weld.sql(sql).await.expect("valid SQL").create_physical_plan().await.expect("a plan");
    let text = displayable(plan.as_ref()).indent(false).to_string();
    assert!(text.starts_with("WeldExec: groups of "), "{text}");
    assert!(
        text.contains("WeldExec: rows of HashJoinExec; HashJoinExec: mode=CollectLeft, join_type=Left, "),
        "{text}"
    );
}

#[tokio::test]
async fn verbose_shows_the_program() {
    let engines = engines(1).await;
    let sql = "EXPLAIN VERBOSE SELECT i_key + 1 FROM items WHERE i_order > 3";
    let batches = engines.weld.sql(sql).await.expect("valid SQL").collect().await.expect("it runs");
    let text = arrow::util::pretty::pretty_format_batches(&batches).expect("printable").to_string();
    assert!(text.contains("|input: stream[{i64,i64}], k: i64|"), "{text}");
    assert!(text.contains("# with 3L"), "{text}");
    for line in ["loops:", "process:", "  appender[{i64}]  plain: strips of "] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[tokio::test]
async fn analyze_shows_metrics() {
    let engines = engines(1).await;
    let sql = "EXPLAIN ANALYZE SELECT sum(i_key) FROM items WHERE i_order > 3";
    let batches = engines.weld.sql(sql).await.expect("valid SQL").collect().await.expect("it runs");
    let text = arrow::util::pretty::pretty_format_batches(&batches).expect("printable").to_string();
    for metric in ["output_rows=1", "elapsed_compute=", "compile_time=", "input_rows=200", "input_batches=4"] {
        assert!(text.contains(metric), "{metric}\n{text}");
    }
}
