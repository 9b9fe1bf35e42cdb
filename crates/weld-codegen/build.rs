//! Says which build this is: code that was kept on disk by another one is not used.
//!
//! The number covers the sources that shape code (this crate's, the language's and the runtime's), the versions of
//! libraries, the compiler, and the settings of the build.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Beside this crate; absent where the crate was taken from a registry, where versions say the same.
const SOURCES: [&str; 5] = ["src", "build.rs", "../weld-core/src", "../weld-runtime/src", "../../Cargo.lock"];

const SETTINGS: [&str; 6] =
    ["CARGO_PKG_VERSION", "TARGET", "PROFILE", "OPT_LEVEL", "CARGO_ENCODED_RUSTFLAGS", "CARGO_CFG_PANIC"];

fn main() {
    let mut hasher = DefaultHasher::new();
    for source in SOURCES.iter().map(Path::new).filter(|source| source.exists()) {
        println!("cargo::rerun-if-changed={}", source.display());
        let mut files = Vec::new();
        collect(source, &mut files);
        files.sort();
        for file in files {
            (&file, fs::read(&file).ok()).hash(&mut hasher);
        }
    }
    SETTINGS.map(env::var_os).hash(&mut hasher);
    let compiler = env::var_os("RUSTC").and_then(|rustc| Command::new(rustc).arg("-vV").output().ok());
    compiler.map(|output| output.stdout).hash(&mut hasher);
    println!("cargo::rustc-env=WELD_BUILD_ID={:016x}", hasher.finish());
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    match fs::read_dir(path) {
        Ok(entries) => entries.flatten().for_each(|entry| collect(&entry.path(), files)),
        Err(_) => files.push(path.to_owned()),
    }
}
