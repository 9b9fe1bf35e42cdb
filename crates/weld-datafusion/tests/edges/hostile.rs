//! Queries that might do harm: of unusual size, on threads of usual stacks, and functions that reach for the process.

use std::future::Future;

use crate::common::{Engines, config};

/// Runs where every thread has a stack of so many bytes. DataFusion's parser, without optimisation, takes more of it
/// for a level than what is done to the expression here.
fn on_stacks(bytes: usize, test: impl Future<Output = ()> + Send + 'static) {
    let run = move || {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).thread_stack_size(bytes);
        runtime.enable_all().build().expect("a runtime").block_on(test);
    };
    let thread = std::thread::Builder::new().stack_size(bytes).spawn(run).expect("a thread");
    thread.join().expect("no panic");
}

fn repeated(count: usize, between: &str, part: impl Fn(usize) -> String) -> String {
    (0..count).map(part).collect::<Vec<_>>().join(between)
}

async fn engines() -> Engines {
    let engines = Engines::new(config(1));
    let rows = "SELECT v AS k, CASE WHEN v % 3 = 0 THEN NULL ELSE v END AS n, CAST(v AS DECIMAL(10, 2)) AS d FROM generate_series(1, 5) AS g(v)";
    engines.table_from("t", rows, 3).await;
    engines.weld.sql("SET weld.opt_level = 0").await.expect("a setting");
    engines
}

/// Sums, conditions and cases of so many parts.
fn queries(count: usize) -> [String; 4] {
    [
        format!("SELECT {} FROM t", repeated(count, " + ", |_| "n".to_owned())),
        format!("SELECT k FROM t WHERE {}", repeated(count, " AND ", |i| format!("(k <> {} OR n > {i})", i + 9))),
        format!("SELECT k FROM t WHERE {}", repeated(count, " OR ", |i| format!("(k = {} AND d > {i})", i + 2))),
        format!("SELECT CASE {} END FROM t", repeated(count, " ", |i| format!("WHEN k * 3 = {i} THEN n + {i}"))),
    ]
}

#[test]
fn deep_expressions_compile() {
    on_stacks(4 << 20, async {
        let engines = engines().await;
        for sql in queries(120) {
            engines.check(&sql, 1).await;
        }
    });
}

#[test]
fn deeper_expressions_are_left() {
    on_stacks(8 << 20, async {
        let engines = engines().await;
        for sql in queries(200) {
            let run = engines.check(&sql, 0).await;
            let left: Vec<&str> = run.summary.declined.iter().map(|declined| declined.reason.as_str()).collect();
            assert!(left.iter().any(|reason| reason.contains("levels deep")), "{left:?}\n{sql}");
        }
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wide_projections() {
    let engines = engines().await;
    let sql = format!("SELECT {} FROM t", repeated(100, ", ", |i| format!("k * {i} + n AS c{i}")));
    engines.check(&sql, 1).await;
}

/// A function is a program of a checked language: it calls nothing of the process that it runs in.
#[tokio::test]
async fn functions_do_not_call_c() {
    let engines = engines().await;
    for body in ["|x: i64| cudf[abs,i64](x)", "|x: i64| cudf[system,i64](x)"] {
        let sql = format!("CREATE FUNCTION f(x BIGINT) RETURNS BIGINT LANGUAGE weld AS '{body}'");
        let made = match engines.weld.sql(&sql).await {
            Ok(frame) => frame.collect().await.map(|_| ()),
            Err(error) => Err(error),
        };
        let error = match made {
            Ok(()) => engines.run("SELECT f(k) FROM t").await.map(|run| run.rows).expect_err(body),
            Err(error) => error.to_string(),
        };
        println!("{error}");
        assert!(!error.contains("Internal"), "{error}");
    }
}
