//! Errors: of which rows they are raised, of which class they are and what they say.

use crate::common::{Engines, config};
use crate::plain;

async fn table(batch_rows: usize, partitions: usize) -> Engines {
    let engines = Engines::new(config(partitions));
    let rows = "
        SELECT v AS k, v % 4 AS z, CASE WHEN v % 5 = 0 THEN NULL ELSE v % 4 END AS n, v % 3 AS g,
               CAST(v AS DECIMAL(10, 2)) * 1000 AS d, arrow_cast(v * 100, 'UInt64') AS u, v % 2 = 0 AS b
        FROM generate_series(0, 60) AS g(v)";
    engines.table_from("t", rows, batch_rows).await;
    engines
}

/// Both fail, with the same words.
async fn same_error(engines: &Engines, sql: &str) {
    let (stock, weld) = (engines.stock_rows(sql).await, engines.run(sql).await.map(|run| run.rows));
    let (Err(stock), Err(weld)) = (&stock, &weld) else { panic!("{sql}\nstock {stock:?}\nweld  {weld:?}") };
    assert_eq!(plain(weld), plain(stock), "{sql}");
}

/// Both give the same rows, or both fail with the same words. Where two partitions hold rows that fail, the value that
/// the error names is that of the partition that came first, in either engine, so values are not compared.
async fn same_outcome(engines: &Engines, sql: &str) {
    let Err(stock) = engines.stock_rows(sql).await else {
        engines.check(sql, 1).await;
        return;
    };
    let weld = engines.run(sql).await.map(|run| run.rows).expect_err(sql);
    let words = |error: &str| plain(error).replace(|c: char| c.is_ascii_digit(), "");
    assert_eq!(words(&weld), words(&stock), "{sql}");
}

/// DataFusion leaves out columns that nobody reads before it plans; those that a plan has are evaluated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_that_nobody_reads() {
    for (batch_rows, partitions) in [(100, 1), (7, 2)] {
        let engines = table(batch_rows, partitions).await;
        for context in [&engines.stock, &engines.weld] {
            context
                .sql("SET datafusion.optimizer.max_passes = 0")
                .await
                .expect("a setting")
                .collect()
                .await
                .expect("set");
        }
        for sql in [
            "SELECT sum(s.k) FROM (SELECT k, 10 / z AS q FROM t) AS s",
            "SELECT s.g, count(*) FROM (SELECT g, CAST(k * 4 AS TINYINT) AS q FROM t) AS s GROUP BY s.g",
            "SELECT s.k, r.g FROM (SELECT k, d / z AS q FROM t) AS s JOIN t AS r ON s.k = r.k",
            "SELECT s.k, r.g FROM t AS r JOIN (SELECT k, 10 % n AS q, g FROM t) AS s ON s.k = r.k WHERE s.g > 0",
        ] {
            assert!(engines.stock_rows(sql).await.is_err(), "{sql}");
            same_outcome(&engines, sql).await;
            let whole = sql.replace("/ z", "/ (z + 1)").replace("k * 4", "k").replace("% n", "% (n + 1)");
            engines.check(&whole, 2).await;
        }
    }
}

/// What a filter or a CASE leaves out is not evaluated, and what it lets through is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_are_left_out() {
    for (batch_rows, partitions) in [(100, 1), (7, 2), (1, 1)] {
        let engines = table(batch_rows, partitions).await;
        for sql in [
            "SELECT sum(10 / z) FILTER (WHERE z <> 0) FROM t",
            "SELECT sum(10 / z) FILTER (WHERE z < 3) FROM t",
            "SELECT avg(d % n) FILTER (WHERE n <> 0), max(7 / n) FILTER (WHERE n > 1), sum(8 / n) FILTER (WHERE n < 0) FROM t",
            "SELECT count(10 / z) FILTER (WHERE z <> 0), min(12 / z) FILTER (WHERE z > 2) FROM t WHERE k > 3",
            "SELECT count(10 / z) FILTER (WHERE z <> 0), min(12 / z) FILTER (WHERE z < 2) FROM t WHERE k > 3",
            "SELECT sum(arrow_cast(k * 4, 'Int8') + 1) FILTER (WHERE k < 30), sum(d / z) FILTER (WHERE z > 0) FROM t",
            "SELECT sum(arrow_cast(k * 4, 'Int8') + 1) FILTER (WHERE k < 40) FROM t",
            "SELECT k, CASE WHEN z = 0 THEN -1 WHEN 10 / z > 4 THEN 10 / z ELSE k / z END FROM t WHERE k > 2",
            "SELECT k, CASE WHEN z = 1 THEN -1 WHEN 10 / z > 4 THEN 10 / z ELSE k / z END FROM t WHERE k > 2",
            "SELECT k, CASE WHEN z > 0 THEN 10 / z WHEN n = 0 THEN 5 END FROM t WHERE k > 2",
            "SELECT k, CASE WHEN z > 0 THEN 10 / z WHEN n = 0 THEN 5 / z END FROM t WHERE k > 2",
            "SELECT k, CASE WHEN n > 0 THEN 10 / n ELSE k / (z + 1) END FROM t WHERE k > 2",
            "SELECT CASE z WHEN 0 THEN 0 WHEN 3 THEN 30 / z END, count(*) FROM t GROUP BY 1",
            "SELECT CASE z WHEN 0 THEN 30 / z WHEN 3 THEN 1 END, count(*) FROM t GROUP BY 1",
            "SELECT sum(CASE WHEN z <> 0 THEN 10 / z ELSE 0 END) FILTER (WHERE k > 4) FROM t",
            "SELECT sum(CASE WHEN z <> 0 THEN 10 / z ELSE 0 END), g FROM t GROUP BY g",
            "SELECT coalesce(n, 10 / z), k FROM t WHERE k % 20 <> 0",
            "SELECT coalesce(n, 10 / z), k FROM t",
            "SELECT coalesce(n, CASE WHEN z > 0 THEN n END, 10 / (z + 1)), k FROM t",
            "SELECT g, sum(coalesce(n, 10 / z)) FROM t WHERE k % 20 <> 0 GROUP BY g",
            "SELECT 10 / z, k FROM t WHERE z <> 0",
            "SELECT k FROM t WHERE 10 / n IS NULL",
            "SELECT k, 10 / n IS NOT NULL FROM t WHERE k > 2",
            "SELECT count(10 / n) FROM t",
            "SELECT g, count(10 / n) FROM t GROUP BY g",
            "SELECT count(10 / n) FROM t WHERE n > 0",
            "SELECT 10 / n, k FROM t WHERE n > 0 OR n IS NULL",
            "SELECT x, count(*) FROM (SELECT 10 / z AS x FROM t WHERE z > 0) GROUP BY x",
            "SELECT x, count(*) FROM (SELECT 10 / z AS x FROM t WHERE z >= 0) GROUP BY x",
        ] {
            same_outcome(&engines, sql).await;
        }
    }
}

/// Whether DataFusion asks the right side of AND of rows that the left one drops depends on the batch: Weld may have
/// the answer where stock fails, never the reverse.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_one_side_of_and_drops() {
    for (batch_rows, partitions) in [(100, 1), (7, 2), (1, 1)] {
        let engines = table(batch_rows, partitions).await;
        for sql in [
            "SELECT a.k, b.k FROM t a JOIN t b ON a.k = b.k AND 10 / a.z > b.g WHERE a.z <> 0",
            "SELECT k FROM t WHERE z <> 0 AND 10 / z > 3",
            "SELECT k FROM t WHERE z = 0 OR 10 / z > 3",
            "SELECT k, z <> 0 AND 10 / z > 3 FROM t",
        ] {
            if engines.stock_rows(sql).await.is_ok() || batch_rows == 1 {
                engines.check(sql, 1).await;
            } else if let Err(error) = engines.run(sql).await {
                assert!(error.contains("ivide by zero"), "{sql}\n{error}");
            }
        }
    }
}

/// Where there are groups DataFusion evaluates the arguments of all rows, and fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_of_rows_that_groups_leave_out() {
    for partitions in [1, 2] {
        let engines = table(7, partitions).await;
        same_error(&engines, "SELECT g, sum(10 / z) FILTER (WHERE z <> 0) FROM t GROUP BY g").await;
        same_error(&engines, "SELECT g, avg(d / n) FILTER (WHERE n <> 0) FROM t GROUP BY g").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn casts_fail_as_arrows_do() {
    let engines = table(100, 1).await;
    for sql in [
        "SELECT arrow_cast(k * 10, 'Int8') FROM t WHERE k >= 0",
        "SELECT arrow_cast(k - 3, 'UInt32') FROM t WHERE k >= 0",
        "SELECT arrow_cast(u, 'Int8'), arrow_cast(u * 9000000000000000, 'Int64') FROM t WHERE k = 60",
        "SELECT arrow_cast(u, 'UInt8') FROM t WHERE k > 40 AND k < 50",
        "SELECT CAST(k AS DECIMAL(3, 2)) FROM t WHERE k >= 0",
        "SELECT CAST(d AS DECIMAL(4, 1)) FROM t WHERE k >= 0",
        "SELECT CAST(d AS DECIMAL(6, 4)) FROM t WHERE k > 5",
        "SELECT CAST(-d AS DECIMAL(6, 4)) FROM t WHERE k > 5",
        "SELECT CAST(k * 1000000000000 AS DECIMAL(38, 30)) FROM t WHERE k > 5",
        "SELECT CAST(CAST(d AS DECIMAL(38, 2)) * 100000000 AS DECIMAL(38, 33)) FROM t WHERE k > 5",
        "SELECT sum(arrow_cast(k * 10, 'Int8')) FROM t WHERE k >= 0",
        "SELECT g, sum(arrow_cast(k * 10, 'Int8')) FROM t GROUP BY g",
        "SELECT 10 / z FROM t WHERE k >= 0",
    ] {
        same_error(&engines, sql).await;
    }
}

/// DataFusion negates arrays without a check, but not a value that is the same for all rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn negated_constants_overflow() {
    let engines = table(100, 1).await;
    for sql in [
        "SELECT k, -arrow_cast(-128, 'Int8') FROM t",
        "SELECT k FROM t WHERE k > -arrow_cast(-32768, 'Int16')",
        "SELECT g, sum(k + -arrow_cast(-128, 'Int8')) FROM t GROUP BY g",
        "SELECT k, -(SELECT min(arrow_cast(k - 128, 'Int8')) FROM t) FROM t",
    ] {
        same_error(&engines, sql).await;
    }
    engines.check("SELECT k, -arrow_cast(k - 128, 'Int8') FROM t WHERE k > -arrow_cast(5, 'Int8')", 1).await;
}

/// Parts of dates that have no date, and sums of decimals that have no 128 bits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn extremes_of_dates_and_averages() {
    let engines = Engines::new(config(1));
    let days = [
        i32::MIN,
        -96_465_293,
        -96_465_292,
        -96_465_291,
        -719_529,
        -719_528,
        -1,
        0,
        11_016,
        95_026_235,
        95_026_236,
        95_026_237,
        i32::MAX,
    ];
    let rows = days.map(|day| format!("({day})")).join(", ");
    let sql = format!(
        "SELECT arrow_cast(k, 'Date32') AS t, k FROM (SELECT arrow_cast(x, 'Int32') AS k FROM (VALUES {rows}, (NULL)) AS v(x))"
    );
    engines.table_from("d", &sql, 5).await;
    for sql in [
        "SELECT k, date_part('year', t), date_part('month', t), date_part('day', t) FROM d WHERE k > 3 OR k < 4",
        "SELECT date_part('year', t), count(*) FROM d GROUP BY 1",
        "SELECT k FROM d WHERE date_part('year', t) > 0 OR date_part('year', t) IS NULL",
        "SELECT k, t - DATE '1970-01-01' FROM d WHERE k < 2000000000",
    ] {
        engines.check(sql, 1).await;
    }
    for digits in [20, 25, 26, 38] {
        let nines = "9".repeat(digits);
        let rows = format!(
            "SELECT CAST('{nines}' AS DECIMAL({digits}, 2)) AS d, v % 2 AS g FROM generate_series(1, 40) AS g(v)"
        );
        let rows = rows.replace(&format!("'{nines}'"), &format!("'{}'", &nines[2..]));
        let name = format!("avg{digits}");
        engines.table_from(&name, &rows, 7).await;
        for sql in ["SELECT avg(d) FROM t", "SELECT g, avg(d), count(*) FROM t WHERE g < 5 GROUP BY g"] {
            let sql = sql.replace("FROM t", &format!("FROM {name}"));
            let (stock, weld) = (engines.stock_rows(&sql).await, engines.run(&sql).await.map(|run| run.rows));
            match (&stock, &weld) {
                (Err(stock), Err(weld)) => assert_eq!(plain(weld), plain(stock), "{sql}"),
                _ => assert_eq!(weld, stock, "{sql}"),
            }
        }
    }
}
