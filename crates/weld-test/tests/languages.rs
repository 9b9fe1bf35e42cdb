//! Runs every file in `tests/<language>/`. `WELD_FILTER=ttl/loops` runs the files whose paths hold that text.

use std::path::Path;

use weld_test::driver::Report;
use weld_test::language_driver::{files, run_file};

#[global_allocator]
static ALLOCATOR: weld_runtime::Poison = weld_runtime::Poison;

#[test]
fn every_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace");
    let filter = std::env::var("WELD_FILTER").unwrap_or_default();
    let mut all = Report::default();
    // Weld's own files say more, and have a driver of their own.
    for language in weld_languages::all().iter().filter(|language| language.names()[0] != "weld") {
        let folder = root.join("tests").join(language.names()[0]);
        for path in files(&folder, *language) {
            if path.to_string_lossy().contains(&filter) {
                let report = run_file(&path, *language);
                all.cases += report.cases;
                all.failures.extend(report.failures);
            }
        }
    }
    println!("{} calls", all.cases);
    let failed = all.failures.len();
    assert!(failed == 0, "{failed} of {} calls fail:\n{}", all.cases, all.failures.join("\n"));
}
