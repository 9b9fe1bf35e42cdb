//! The layers of the crate: a file uses what is below its own layer and beside it, never what is above.
//!
//! ```text
//! program   the entry points of a program, compiling, running
//! emit      expressions, builders, loops
//! analysis  facts about a program: knows no LLVM
//! block     blocks of LLVM IR, memory, traps: knows no expression, value or builder
//! ```

use std::fs;
use std::path::{Path, PathBuf};

/// From the bottom up: the name of a layer and its modules in `src`. Modules that are in no layer (layouts, options, errors)
/// are seen by all and see none of them.
const LAYERS: [(&str, &[&str]); 4] = [
    ("analysis", &["analysis"]),
    ("block", &["block"]),
    ("emit", &["emit", "builder"]),
    ("program", &["program", "compiled", "tier", "lib"]),
];

/// What a layer does not see of other crates.
const UNSEEN: [(&str, &str); 3] = [("analysis", "inkwell"), ("analysis", "crate::block"), ("block", "weld_core::ir")];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The files of a module, with their text.
fn files(module: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![source().join(module)];
    let single = source().join(format!("{module}.rs"));
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if single.exists() {
        found.push((single.display().to_string(), read(&single)));
    }
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.expect("an entry of the folder").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push((path.display().to_string(), read(&path)));
            }
        }
    }
    assert!(!found.is_empty(), "the module {module} has no files");
    found
}

/// The modules of this crate that a text names by their paths.
fn used(text: &str) -> Vec<String> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let parts = code.split("crate::").skip(1);
    let name = |part: &str| part.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    parts.map(name).filter(|name| !name.is_empty()).collect()
}

#[test]
fn layers_use_what_is_below() {
    for (at, (layer, modules)) in LAYERS.iter().enumerate() {
        let above: Vec<&str> = LAYERS[at + 1..].iter().flat_map(|(_, modules)| modules.iter().copied()).collect();
        for (path, text) in modules.iter().flat_map(|module| files(module)) {
            for used in used(&text) {
                assert!(!above.contains(&used.as_str()), "{path}, of the layer {layer}, uses crate::{used}");
            }
            for (_, unseen) in UNSEEN.iter().filter(|(of, _)| of == layer) {
                assert!(!text.contains(unseen), "{path}, of the layer {layer}, uses {unseen}");
            }
        }
    }
}

#[test]
fn paths_are_found() {
    let text = "use crate::emit::{Val, Res};\n// crate::block is below\nfn f() { crate::tier::g() }";
    assert_eq!(used(text), ["emit", "tier"]);
}
