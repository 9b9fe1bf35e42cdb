//! The layers of the crate: a file uses what is below its own layer and beside it, never what is above.
//!
//! ```text
//! program   the entry points of a program, compiling, running
//! emit      Emitter    expressions, and loops, whose bodies are expressions
//! builder   Builders   builders
//! tables    Tables     dictionaries
//! values    Values     values in registers and memory
//! block     Code       blocks of LLVM IR, memory, traps: knows no value
//! analysis             facts about a program: knows no LLVM
//! ```
//!
//! What fills a function is a struct a layer, which has the one below and dereferences to it. So a method calls what
//! lies below by its name, and the compiler refuses what lies above: there is nothing to call it on. That holds as long
//! as the structs are stacked in this order and the methods of each are in the folder of its layer, which is looked at
//! here, as are paths.

use std::fs;
use std::path::{Path, PathBuf};

/// From the bottom up: the name of a layer and its modules in `src`. Modules that are in no layer are seen by all.
const LAYERS: [(&str, &[&str]); 7] = [
    ("analysis", &["analysis"]),
    ("block", &["block"]),
    ("values", &["values"]),
    ("tables", &["tables"]),
    ("builder", &["builder"]),
    ("emit", &["emit"]),
    ("program", &["program", "compiled", "tier", "lib"]),
];

/// From the bottom up: what fills a function, and the layer that its methods are in.
const STACK: [(&str, &str); 5] =
    [("Code", "block"), ("Values", "values"), ("Tables", "tables"), ("Builders", "builder"), ("Emitter", "emit")];

/// Modules that all may use and that use no layer.
const BESIDE: [&str; 6] = ["chunk", "error", "layout", "machine", "timing", "value"];

/// Words that a layer does not have: of other crates, and of layers below that it does not need.
const UNSEEN: [(&str, &[&str]); 5] = [
    ("analysis", &["inkwell", "crate::block"]),
    ("block", &["weld_core::ir", "crate::analysis"]),
    // Literals and what is known of arguments are no expressions.
    ("values", &["Expr", "Func", "Sym"]),
    ("tables", &["Expr", "Func", "Sym"]),
    ("builder", &["Expr", "Func", "Sym"]),
];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The files of a module, with their code.
fn files(module: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![source().join(module)];
    let single = source().join(format!("{module}.rs"));
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if single.exists() {
        found.push((single.display().to_string(), code(&read(&single))));
    }
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.expect("an entry of the folder").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push((path.display().to_string(), code(&read(&path))));
            }
        }
    }
    assert!(!found.is_empty(), "the module {module} has no files");
    found
}

/// A text without its comments.
fn code(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether a text has this word or path, not as a part of another.
fn names(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + word.len()..]);
        !before.ends_with(is_word) && !after.starts_with(is_word)
    })
}

/// The modules of this crate that a text names by their paths.
fn used(code: &str) -> Vec<String> {
    let parts = code.split("crate::").skip(1);
    let name = |part: &str| part.chars().take_while(|c| is_word(*c)).collect::<String>();
    parts.map(name).filter(|name| !name.is_empty()).collect()
}

/// What the `impl` blocks of a text are for: `Values` of `impl<'c> Values<'c, '_>` and of
/// `impl Deref for Values<'_, '_>`.
fn implemented(code: &str) -> Vec<&str> {
    let heads = code.lines().filter(|line| line.starts_with("impl"));
    let name = |head: &'_ str| -> Option<(usize, usize)> {
        let at = match head.find(" for ") {
            Some(at) => at + " for ".len(),
            None if head.starts_with("impl<") => head.find("> ")? + 2,
            None => "impl ".len(),
        };
        let len = head[at..].chars().take_while(|c| is_word(*c)).map(char::len_utf8).sum::<usize>();
        Some((at, at + len))
    };
    heads.filter_map(|head| name(head).map(|(from, to)| &head[from..to])).collect()
}

/// The fields of a struct, if the text declares it.
fn fields<'a>(code: &'a str, name: &str) -> Option<&'a str> {
    let at = code.find(&format!("struct {name}<"))?;
    let body = &code[at..];
    let (from, to) = (body.find("{\n")?, body.find("\n}")?);
    Some(&body[from..to])
}

#[test]
fn layers_use_what_is_below() {
    for (at, (layer, modules)) in LAYERS.iter().enumerate() {
        let above: Vec<&str> = LAYERS[at + 1..].iter().flat_map(|(_, modules)| modules.iter().copied()).collect();
        for (path, code) in modules.iter().flat_map(|module| files(module)) {
            for used in used(&code) {
                assert!(!above.contains(&used.as_str()), "{path}, of the layer {layer}, uses crate::{used}");
            }
            for unseen in UNSEEN.iter().filter(|(of, _)| of == layer).flat_map(|(_, unseen)| unseen.iter()) {
                assert!(!names(&code, unseen), "{path}, of the layer {layer}, uses {unseen}");
            }
        }
    }
}

#[test]
fn what_is_beside_the_layers_uses_none() {
    for (path, code) in BESIDE.iter().flat_map(|module| files(module)) {
        for used in used(&code) {
            let is_layer = LAYERS.iter().any(|(_, modules)| modules.contains(&used.as_str()));
            assert!(!is_layer, "{path} uses crate::{used}");
        }
    }
}

#[test]
fn each_layer_has_the_one_below() {
    for (at, (name, layer)) in STACK.iter().enumerate() {
        let own: Vec<(String, String)> = files(layer);
        let fields =
            own.iter().find_map(|(_, code)| fields(code, name)).unwrap_or_else(|| panic!("{layer} has no {name}"));
        for (other, _) in &STACK[at + 1..] {
            assert!(!names(fields, other), "{name} has {other}, which lies above");
        }
        if at > 0 {
            assert!(names(fields, STACK[at - 1].0), "{name} is not made of {}", STACK[at - 1].0);
            let derefs = own.iter().any(|(_, code)| code.contains(&format!("type Target = {}<", STACK[at - 1].0)));
            assert!(derefs, "{name} does not dereference to {}", STACK[at - 1].0);
        }
    }
}

#[test]
fn methods_are_in_the_folder_of_their_layer() {
    let modules: Vec<(&str, &str)> =
        LAYERS.iter().flat_map(|(layer, modules)| modules.iter().map(move |module| (*layer, *module))).collect();
    for (layer, module) in modules {
        for (path, code) in files(module) {
            for name in implemented(&code) {
                let of = STACK.iter().find(|(of, _)| *of == name).map(|(_, layer)| *layer);
                assert!(of.is_none_or(|of| of == layer), "{path}, of the layer {layer}, has methods of {name}");
            }
        }
    }
}

#[test]
fn paths_are_found() {
    let text = "use crate::emit::{Val, Res};\n// crate::block is below\nfn f() { crate::tier::g() }";
    assert_eq!(used(&code(text)), ["emit", "tier"]);
    assert!(names("fn f(e: &Expr)", "Expr") && !names("fn f(e: &ExprKind)", "Expr"));
}

#[test]
fn implementations_are_found() {
    let text = "impl<'c> Values<'c, '_> {\nimpl<'c, 'u> Deref for Tables<'c, 'u> {\nimpl Plain {\nimpl<'e, 'c: 'e> Two<'e, 'c> {";
    assert_eq!(implemented(text), ["Values", "Tables", "Plain", "Two"]);
}

#[test]
fn fields_are_found() {
    let text = "pub(crate) struct Tables<'c, 'u> {\n    values: Values<'c, 'u>,\n}\n\nstruct Emitter {\n}";
    assert_eq!(fields(text, "Tables").map(str::trim), Some("{\n    values: Values<'c, 'u>,"));
}
