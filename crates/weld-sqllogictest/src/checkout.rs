//! A folder that looks to the test files like a checkout of DataFusion: links into the crates that have them, and into
//! `data/` for what no crate has.

use std::io::{Error, Result, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

/// The scale of the TPC-H tables of `tpch.slt`. Its expectations are for 0.1; both engines get the same here.
const TPCH_SCALE: f64 = 0.005;

pub(crate) struct Checkout {
    folder: TempDir,
}

impl Checkout {
    pub(crate) fn new() -> Result<Checkout> {
        let folder = tempfile::tempdir()?;
        let root = folder.path();
        let [tests, arrow_files] = packages(["datafusion-sqllogictest", "datafusion-datasource-arrow"])?;
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
        for name in ["testing", "parquet-testing"] {
            symlink(data.join(name), root.join(name))?;
        }
        let crates = root.join("datafusion");
        std::fs::create_dir_all(crates.join("sqllogictest"))?;
        std::fs::create_dir(crates.join("datasource-arrow"))?;
        symlink(data.join("datafusion/core"), crates.join("core"))?;
        symlink(arrow_files.join("tests"), crates.join("datasource-arrow/tests"))?;
        symlink(tests.join("data"), crates.join("sqllogictest/data"))?;
        test_files(&tests.join("test_files"), &crates.join("sqllogictest/test_files"))?;
        Ok(Checkout { folder })
    }

    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn working_folder(&self) -> PathBuf {
        self.root().join("datafusion/sqllogictest")
    }

    pub(crate) fn arrow_test_data(&self) -> PathBuf {
        self.root().join("testing/data")
    }
}

/// Links to the files, beside the folders that tests write to and read generated files from.
fn test_files(source: &Path, target: &Path) -> Result<()> {
    std::fs::create_dir_all(target.join("scratch"))?;
    for entry in std::fs::read_dir(source)? {
        let (name, path) = entry.map(|entry| (entry.file_name(), entry.path()))?;
        if name != "tpch" && name != "scratch" {
            symlink(path, target.join(name))?;
        }
    }
    std::fs::create_dir_all(target.join("tpch/data"))?;
    for entry in std::fs::read_dir(source.join("tpch"))? {
        let (name, path) = entry.map(|entry| (entry.file_name(), entry.path()))?;
        symlink(path, target.join("tpch").join(name))?;
    }
    tpch(&target.join("tpch/data"))
}

/// The folders of packages that this one is built with.
fn packages<const N: usize>(names: [&str; N]) -> Result<[PathBuf; N]> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()?;
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|error| {
        Error::other(format!("cargo metadata: {error} {}", String::from_utf8_lossy(&output.stderr)))
    })?;
    let all = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut folders = std::array::from_fn(|_| PathBuf::new());
    for (folder, name) in folders.iter_mut().zip(names) {
        let package = all.iter().find(|package| package["name"] == name);
        let manifest = package.and_then(|package| package["manifest_path"].as_str());
        let found = manifest.and_then(|path| Path::new(path).parent());
        *folder = found.ok_or_else(|| Error::other(format!("the package {name} is missing")))?.to_owned();
    }
    Ok(folders)
}

fn tpch(folder: &Path) -> Result<()> {
    use tpchgen::generators as rows;
    table(folder, "region", rows::RegionGenerator::new(TPCH_SCALE, 1, 1).iter())?;
    table(folder, "nation", rows::NationGenerator::new(TPCH_SCALE, 1, 1).iter())?;
    table(folder, "supplier", rows::SupplierGenerator::new(TPCH_SCALE, 1, 1).iter())?;
    table(folder, "customer", rows::CustomerGenerator::new(TPCH_SCALE, 1, 1).iter())?;
    table(folder, "part", rows::PartGenerator::new(TPCH_SCALE, 1, 1).iter())?;
    table(folder, "partsupp", rows::PartSuppGenerator::new(TPCH_SCALE, 1, 1).iter())?;
    table(folder, "orders", rows::OrderGenerator::new(TPCH_SCALE, 1, 1).iter())?;
    table(folder, "lineitem", rows::LineItemGenerator::new(TPCH_SCALE, 1, 1).iter())
}

fn table(folder: &Path, name: &str, rows: impl Iterator<Item = impl std::fmt::Display>) -> Result<()> {
    let mut file = std::io::BufWriter::new(std::fs::File::create(folder.join(format!("{name}.tbl")))?);
    for row in rows {
        writeln!(file, "{row}")?;
    }
    file.flush()
}
