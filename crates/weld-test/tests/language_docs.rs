//! Runs the examples of `docs/languages/<language>.md`: blocks marked with the language's name, which are cases as
//! those in `tests/<language>/`.

use std::path::Path;

use weld_test::language_driver::run_text;

#[global_allocator]
static ALLOCATOR: weld_runtime::Poison = weld_runtime::Poison;

#[test]
fn examples() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/languages");
    let mut failures = Vec::new();
    for language in weld_languages::all() {
        let name = language.names()[0];
        let Ok(page) = std::fs::read_to_string(folder.join(format!("{name}.md"))) else { continue };
        let fence = format!("```{name}\n");
        for block in page.split(fence.as_str()).skip(1) {
            let end = block.find("```").expect("the block has an end");
            let line = 1 + page[..block.as_ptr() as usize - page.as_ptr() as usize].matches('\n').count();
            failures.extend(run_text(&format!("{name}.md, block at {line}"), &block[..end], *language).failures);
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
