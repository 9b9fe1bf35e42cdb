//! Runs every filetest and every example program. `WELD_BLESS=1` accepts golden text as it is now;
//! `WELD_FILTER=builders` runs the files whose paths hold that text.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use weld_test::driver::{Report, files, run_file};

#[global_allocator]
static ALLOCATOR: weld_runtime::Poison = weld_runtime::Poison;

#[test]
fn every_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace");
    let bless = std::env::var_os("WELD_BLESS").is_some();
    let filter = std::env::var("WELD_FILTER").unwrap_or_default();
    let mut paths = Vec::new();
    for folder in ["tests/weld", "queries/weld"] {
        let found = files(&root.join(folder));
        assert!(!found.is_empty(), "no files in {folder}");
        paths.extend(found.into_iter().filter(|file| file.to_string_lossy().contains(&filter)));
    }
    let next = AtomicUsize::new(0);
    let reports: Mutex<Vec<Report>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let report = run_file(path, bless);
                    reports.lock().expect("no panics").push(report);
                }
            });
        }
    });
    let mut all = Report::default();
    for report in reports.into_inner().expect("no panics") {
        all.cases += report.cases;
        all.failures.extend(report.failures);
        all.failures.extend(report.unsupported.into_iter().map(|what| format!("{what} is not compiled")));
    }
    all.failures.sort();
    println!("{} cases", all.cases);
    assert!(
        all.failures.is_empty(),
        "{} of {} cases fail:\n{}",
        all.failures.len(),
        all.cases,
        all.failures.join("\n")
    );
}
