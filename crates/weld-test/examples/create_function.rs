//! How long languages take to compile a text to a typed program, which is what CREATE FUNCTION does, over all programs
//! in `tests/<language>`: `cargo run -p weld-test --example create_function`.

use std::path::Path;
use std::time::{Duration, Instant};

use weld_test::language_case;
use weld_test::language_driver::{compile, files};

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    println!("| language | calls | median ms | largest ms | |");
    println!("| --- | --: | --: | --: | --- |");
    for language in weld_languages::all() {
        let name = language.names()[0];
        let mut times: Vec<(Duration, String)> = Vec::new();
        for path in files(&root.join("tests").join(name), *language) {
            let text = std::fs::read_to_string(&path).expect("the file was found");
            for case in language_case::parse(&text).into_iter().flatten() {
                for call in &case.calls {
                    let start = Instant::now();
                    if compile(&case, call, *language).is_ok_and(|(_, compiled)| compiled.is_ok()) {
                        times.push((start.elapsed(), format!("{}:{}", path.display(), call.line)));
                    }
                }
            }
        }
        times.sort();
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        if let (Some((median, _)), Some((largest, place))) = (times.get(times.len() / 2), times.last()) {
            let place = place.rsplit("tests/").next().unwrap_or_default();
            println!("| {name} | {} | {:.2} | {:.2} | {place} |", times.len(), ms(*median), ms(*largest));
        }
    }
}
