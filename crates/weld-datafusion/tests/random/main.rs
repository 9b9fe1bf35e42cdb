//! Random queries over random tables give with Weld what they give without it: values, types, order, classes of errors.
//!
//! One seed makes tables, a storage, and some queries, each under settings of its own. What differs is made smaller
//! before it is printed. `WELD_SQL_SEEDS=1000..2000 cargo test -p weld-datafusion --test random -- --nocapture` tries
//! others; `WELD_SQL_MINUTES=60` goes on for so long, from the first of the seeds; `WELD_SQL_SHOW=1` prints each query
//! before it runs, for what ends the process, and DataFusion's error.

mod case;
mod exprs;
mod files;
mod forms;
mod functions;
mod numbers;
mod queries;
mod settings;
mod shrink;
mod tables;
mod texts;
mod times;
mod values;

use std::ops::Range;
use std::time::{Duration, Instant};

use case::{Case, Engines, Storage, Verdict};
use files::Writing;
use queries::Queries;
use settings::Settings;
use tables::Table;
use weld_test::generate::rng::Rng;

/// The weld command's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SEEDS: Range<u64> = 0..60;
const QUERIES_PER_SEED: usize = 6;

/// So many smaller cases are tried for what differs, for so long.
const TRIES_MAX: usize = 300;
const SHRINKING_MAX: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Tally {
    queries: usize,
    errors: usize,
    operators: usize,
    compiled: usize,
    differences: Vec<String>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_queries_agree() {
    let given = std::env::var("WELD_SQL_SEEDS").ok();
    let mut seeds = given.as_deref().map_or(SEEDS, |text| {
        let (from, to) = text.split_once("..").expect("WELD_SQL_SEEDS is FROM..TO");
        from.parse().expect("a number")..to.parse().expect("a number")
    });
    let minutes =
        std::env::var("WELD_SQL_MINUTES").ok().map(|text| text.parse().expect("WELD_SQL_MINUTES is a number"));
    let end = minutes.map(|minutes: u64| Instant::now() + Duration::from_secs(60 * minutes));
    if end.is_some() {
        seeds.end = u64::MAX;
    }
    let mut tally = Tally::default();
    for seed in seeds {
        if end.is_some_and(|end| Instant::now() > end) {
            println!("the next seed is {seed}");
            break;
        }
        let before = tally.differences.len();
        try_seed(seed, &mut tally).await;
        for difference in &tally.differences[before..] {
            println!("== {difference}\n");
        }
    }
    let Tally { queries, errors, operators, compiled, differences } = tally;
    println!("{queries} queries, {errors} errors in both, {compiled} of {operators} operators compiled");
    assert!(differences.is_empty(), "{} of {queries} queries differ:\n{}", differences.len(), differences.join("\n\n"));
    assert!(compiled * 6 > operators, "too few operators are compiled: {compiled} of {operators}");
}

async fn try_seed(seed: u64, tally: &mut Tally) {
    if case::is_shown() {
        println!("seed {seed}");
    }
    let mut rng = Rng::new(seed);
    let storage = match rng.below(4) {
        0 => Storage::Memory,
        1 => Storage::Encoded(rng.pick(&[1, 3, 10, 1000])),
        _ => Storage::Parquet(Writing::new(&mut rng)),
    };
    let writing = match &storage {
        Storage::Parquet(writing) => Some(writing),
        _ => None,
    };
    let names = &["a", "b", "c"][..1 + rng.below(3)];
    let mut tables: Vec<Table> = names.iter().map(|name| Table::new(&mut rng, name, writing.is_some())).collect();
    for table in &mut tables {
        table.columns.extend(writing.and_then(|writing| writing.folder_column(&table.name)));
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engines = Engines::new(&tables, &storage, folder.path()).await;
    for _ in 0..QUERIES_PER_SEED {
        let settings = Settings::new(&mut rng, tables.iter().any(Table::is_large));
        let sql = Queries::new(&mut rng, &tables).query();
        let runs = 1 + rng.below(5) / 3;
        let case = Case { tables: tables.clone(), storage: storage.clone(), settings, sql, runs };
        tally.queries += 1;
        match engines.verdict(&case).await {
            Verdict::Same(summary) => {
                tally.operators += summary.operators_total;
                tally.compiled += summary.operators_compiled;
            }
            Verdict::Errors => tally.errors += 1,
            Verdict::Differs(how) => {
                let plan = engines.plan(&case.sql).await;
                tally.differences.push(format!(
                    "seed {seed}: {}\nas it was found: {how}\n{}\n{plan}",
                    smallest(&case, &how).await,
                    case.sql
                ));
            }
        }
    }
}

/// The case, made as small as it still differs, and how it does then.
async fn smallest(found: &Case, how: &str) -> String {
    let Verdict::Differs(mut how) = found.verdict().await else {
        return format!("{how}\nonly after the queries before\n{}", found.describe());
    };
    let mut case = found.clone();
    let (start, mut tries) = (Instant::now(), 0);
    let mut skip = 0;
    // One smaller case after the other, beginning anew where one is accepted.
    loop {
        let goes_on = tries < TRIES_MAX && start.elapsed() < SHRINKING_MAX;
        let next = candidates(&case).nth(skip).filter(|_| goes_on);
        let Some(smaller) = next else { break };
        tries += 1;
        match smaller.verdict().await {
            Verdict::Differs(still) if who_fails(&still) == who_fails(&how) => {
                (case, how, skip) = (smaller, still, skip.saturating_sub(1));
            }
            _ => skip += 1,
        }
    }
    format!("{how}\n{}", case.describe())
}

/// What a smaller case must have in common with the larger one.
fn who_fails(how: &str) -> Option<&'static str> {
    ["stock gives rows, weld: ", "weld gives rows, stock: ", "both fail"].into_iter().find(|kind| how.starts_with(kind))
}

/// Cases with less in them, those that take most away first.
fn candidates(case: &Case) -> Box<dyn Iterator<Item = Case> + Send + '_> {
    let is_elsewhere = !matches!(case.storage, Storage::Memory);
    let memory = is_elsewhere.then(|| Case { storage: Storage::Memory, ..case.clone() });
    let once = (case.runs > 1).then(|| Case { runs: 1, ..case.clone() });
    let settings = case.settings.fewer().into_iter().map(|settings| Case { settings, ..case.clone() });
    // In which order a window sees ties must stay decided.
    let edits = if case.sql.contains(" OVER (") { 0 } else { usize::MAX };
    let queries = (0..edits).map_while(move |index| shrink::smaller(&case.sql, index));
    let queries = queries.map(move |sql| Case { sql, ..case.clone() });
    let tables = case.tables.iter().enumerate().flat_map(move |(index, table)| {
        table.smaller().into_iter().map(move |smaller| {
            let mut tables = case.tables.clone();
            tables[index] = smaller;
            Case { tables, ..case.clone() }
        })
    });
    Box::new(memory.into_iter().chain(once).chain(tables).chain(queries).chain(settings))
}
