//! LLVM's start ahead of its first work: its tables of the machine are made, and the pages of its code generator read, when a
//! process compiles for the first time, which takes longer than most pipelines do.

use std::sync::Once;

use weld_core::parse_program;

use crate::compiled::compile;
use crate::options::{OptLevel, Options};

/// What pipelines are made of: a loop, a table, a vector.
const PROGRAM: &str = "|rows: vec[{i64,i64,f64}]|
    tovec(result(for(rows, dictmerger[i64,{i64,f64},{+,+}], |b, i, row| merge(b, {row.$0, {row.$1, row.$2}}))))";

/// Compiles a small program with little effort, once in a process.
pub fn warm_up() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if let Ok(program) = parse_program(PROGRAM) {
            // Should it fail, so will the query's own program, with a reason.
            let _ = compile(&program, &Options { level: OptLevel::O0, ..Options::default() });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_compiles() {
        let program = parse_program(PROGRAM).expect("it parses");
        compile(&program, &Options::default()).expect("it compiles");
        warm_up();
        warm_up();
    }
}
