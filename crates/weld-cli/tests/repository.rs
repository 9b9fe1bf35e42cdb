//! What must stay true of the repository as a whole: which crate may know which, and where unsafe code may be.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the crate is in the workspace")
}

/// The workspace's crates and what each depends on outside its tests.
fn dependencies() -> Vec<(String, BTreeSet<String>)> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let name = |package: &Value| package["name"].as_str().expect("a package has a name").to_owned();
    let of_package = |package: &Value| {
        let all = package["dependencies"].as_array().expect("a package lists its dependencies").iter();
        let normal = all.filter(|dependency| dependency["kind"] == Value::Null);
        (name(package), normal.map(name).collect())
    };
    metadata["packages"].as_array().expect("there are packages").iter().map(of_package).collect()
}

#[test]
fn dependencies_point_one_way() {
    // What each crate may know of the others. A crate that is not here has to be added with its place.
    let allowed = |name: &str| -> &[&str] {
        match name {
            "weld-core" | "weld-runtime" | "weld-parquet" | "weld-table" => &[],
            "weld-plans" => &["weld-table"],
            "weld-window" => &["weld-plans"],
            "weld-sort" => &["weld-plans"],
            "weld-codegen" => &["weld-core", "weld-runtime"],
            "weld-arrow" => &["weld-core", "weld-runtime", "weld-codegen"],
            "weld-frontend" => &["weld-core"],
            "weld-tensor" | "weld-pysyntax" => &["weld-core", "weld-frontend"],
            "weld-ttl" | "weld-ocannl" => &["weld-core", "weld-frontend", "weld-tensor"],
            "weld-gtscript" => &["weld-core", "weld-frontend", "weld-tensor", "weld-pysyntax"],
            "weld-numba" => &["weld-core", "weld-frontend", "weld-pysyntax"],
            "weld-languages" => {
                &["weld-core", "weld-frontend", "weld-ttl", "weld-gtscript", "weld-ocannl", "weld-numba"]
            }
            "weld-datafusion" => &[
                "weld-core",
                "weld-runtime",
                "weld-codegen",
                "weld-arrow",
                "weld-parquet",
                "weld-plans",
                "weld-sort",
                "weld-table",
                "weld-window",
                "weld-frontend",
                "weld-languages",
            ],
            "weld" => &["weld-core", "weld-runtime", "weld-codegen", "weld-arrow", "weld-frontend", "weld-languages"],
            "weld-test" => &["weld-core", "weld-runtime", "weld-codegen", "weld-frontend", "weld-languages"],
            "weld-cli" => {
                &["weld-core", "weld-runtime", "weld-codegen", "weld-datafusion", "weld-frontend", "weld-languages"]
            }
            "weld-sqllogictest" => &["weld-datafusion"],
            other => panic!("which crates may {other} depend on?"),
        }
    };
    let crates = dependencies();
    assert!(crates.len() >= 7);
    let ours = |name: &str| crates.iter().any(|(known, _)| known == name);
    for (name, dependencies) in &crates {
        for dependency in dependencies.iter().filter(|dependency| ours(dependency)) {
            assert!(allowed(name).contains(&dependency.as_str()), "{name} must not depend on {dependency}");
        }
    }
}

#[test]
fn lower_levels_do_not_know_the_machinery_above() {
    let is_arrow = |name: &str| name == "arrow" || name.starts_with("arrow-");
    let is_llvm = |name: &str| name == "inkwell" || name.starts_with("llvm-sys");
    for (name, dependencies) in dependencies() {
        for dependency in &dependencies {
            let forbidden = match name.as_str() {
                "weld-core" | "weld-runtime" | "weld-frontend" | "weld-tensor" | "weld-pysyntax" | "weld-ttl"
                | "weld-gtscript" | "weld-ocannl" | "weld-numba" | "weld-languages" => {
                    is_llvm(dependency) || is_arrow(dependency) || dependency.starts_with("datafusion")
                }
                "weld-codegen" => is_arrow(dependency) || dependency.starts_with("datafusion"),
                "weld-parquet" => is_llvm(dependency) || dependency.starts_with("datafusion"),
                "weld-plans" | "weld-sort" | "weld-table" | "weld-window" => is_llvm(dependency),
                "weld-datafusion" | "weld-cli" => is_llvm(dependency),
                "weld" | "weld-arrow" => is_llvm(dependency) || dependency.starts_with("datafusion"),
                _ => false,
            };
            assert!(!forbidden, "{name} must not depend on {dependency}");
        }
    }
}

#[test]
fn unsafe_code_is_forbidden_where_it_has_no_business() {
    let languages = [
        "plans",
        "sort",
        "table",
        "window",
        "frontend",
        "tensor",
        "pysyntax",
        "ttl",
        "gtscript",
        "ocannl",
        "numba",
        "languages",
    ];
    let languages = languages.iter().map(|name| format!("weld-{name}/src/lib.rs"));
    let others = ["weld-core/src/lib.rs", "weld/src/lib.rs"].map(String::from);
    for file in languages.chain(others) {
        let path = root().join("crates").join(&file);
        // Crates of languages may be left out of a build.
        let Ok(text) = fs::read_to_string(path) else { continue };
        assert!(text.contains("#![forbid(unsafe_code)]"), "{file} must forbid unsafe code");
    }
    // The command sets its allocator up.
    let folder = root().join("crates/weld-cli/src");
    let main = fs::read_to_string(folder.join("main.rs")).expect("the command");
    assert!(main.contains("#![deny(unsafe_code)]"), "weld-cli must deny unsafe code");
    let allows = |file: &PathBuf| fs::read_to_string(file).is_ok_and(|text| text.contains("allow(unsafe_code"));
    let files = fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let unsafe_files: Vec<PathBuf> = files.filter(allows).collect();
    assert_eq!(unsafe_files, [folder.join("allocator.rs")]);
}

#[test]
fn every_query_is_there() {
    for number in 1..=22 {
        assert!(root().join(format!("queries/tpch/q{number}.sql")).is_file(), "q{number}.sql is missing");
    }
}

#[test]
fn documents_name_files_that_exist() {
    let root = root();
    let pages = fs::read_dir(root.join("docs")).expect("docs").map(|entry| entry.expect("an entry of docs").path());
    let pages = pages.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let top = ["README.md", "ARCHITECTURE.md", "benches/tpch/README.md"].map(|name| root.join(name));
    let (mut checked, mut missing) = (0, Vec::new());
    for page in pages.chain(top) {
        let text = fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        for name in text.split('`').skip(1).step_by(2) {
            let is_path = name.split_once('/').is_some_and(|(first, _)| {
                (first.starts_with("weld-") && root.join("crates").join(first).exists())
                    || ["crates", "docs", "benches", "queries", "tests", "scripts", "fuzz"].contains(&first)
            });
            if !is_path || name.contains(|c: char| c.is_whitespace() || "{}*<>:".contains(c)) {
                continue;
            }
            checked += 1;
            // Examples name files that a reader would add.
            let is_example = name.split('/').any(|part| part.contains("NAME"));
            if !is_example && !root.join(name).exists() && !root.join("crates").join(name).exists() {
                missing.push(format!("{}: {name}", page.display()));
            }
        }
    }
    assert!(checked > 100, "only {checked} paths were found");
    assert!(missing.is_empty(), "documents name what is not there:\n{}", missing.join("\n"));
}
