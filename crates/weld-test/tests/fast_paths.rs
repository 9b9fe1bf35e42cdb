//! Random programs give the same with each way of running loops left out.

use std::sync::Arc;

use weld_codegen::{FastPath, OptLevel, Options, Value, compile};
use weld_core::interp::json::to_json;
use weld_core::ir::Program;
use weld_core::opt;
use weld_runtime::Context;
use weld_test::generate;

/// What a program gives as text, or the kind of its error; none if it is not compiled.
fn run(program: &Program, args: &[Value], left_out: Option<FastPath>) -> Option<String> {
    let disabled = left_out.into_iter().collect();
    let options = Options { level: OptLevel::O0, disabled, cudfs: weld_test::host::functions(), ..Options::default() };
    let compiled = compile(program, &options).ok()?;
    let result = compiled.run(&Arc::new(Context::unlimited()), args).and_then(|value| value.to_interp());
    Some(match result {
        Ok(value) => to_json(&value).to_string(),
        Err(error) => format!("{:?}", error.kind),
    })
}

#[test]
fn nothing_changes_without_a_fast_path() {
    let mut compared = 0;
    for seed in 0..150 {
        let made = generate::program(seed, 24);
        if made.program.params.iter().any(|param| param.stream) {
            continue;
        }
        let mut program = made.program.clone();
        opt::optimize(&mut program, &opt::Config::default());
        let args = made.args.iter().zip(&program.params).map(|(arg, param)| Value::from_interp(&param.ty, arg));
        let Ok(args) = args.collect::<Result<Vec<_>, _>>() else { continue };
        let Some(expected) = run(&program, &args, None) else { continue };
        for path in FastPath::ALL {
            let found = run(&program, &args, Some(path));
            assert_eq!(found.as_ref(), Some(&expected), "seed {seed} without {path}\n{program}");
        }
        compared += 1;
    }
    assert!(compared > 80, "{compared}");
}
