//! The tools for programs in Weld's own language: run, eval, explain.

mod common;

use common::{folder_with, tpch_data, weld, weld_with_input};
use serde_json::{Value, json};

const SQUARES: &[u8] =
    b"|v: vec[i64], k: i64|\n# sums squares\nresult(for(v, merger[i64,+], |b,i,x| if(x > k, merge(b, x * x), b)))\n";

/// The answers of `weld eval` to requests, on both engines, which must agree.
#[track_caller]
fn eval(options: &str, requests: &[Value]) -> Vec<Value> {
    let input: String = requests.iter().map(|request| format!("{request}\n")).collect();
    let answers = |engine: &str| -> Vec<Value> {
        let output = weld_with_input(&format!("eval --engine {engine} {options}"), "", &input).ok();
        output.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let (interpreted, compiled) = (answers("interp"), answers("jit"));
    for (left, right) in interpreted.iter().zip(&compiled) {
        // What memory runs out for, and so where, is each engine's own.
        let comparable = |answer: &Value| (answer["value"].clone(), answer["error"]["kind"].clone());
        assert_eq!(comparable(left), comparable(right));
    }
    assert_eq!(interpreted.len(), compiled.len());
    compiled
}

#[test]
fn run_prints_the_result_as_json() {
    let folder = folder_with(&[("p.weld", SQUARES)]);
    let path = folder.path().join("p.weld");
    for engine in ["jit", "interp"] {
        let arguments = format!("run --engine {engine} --arg [1,2,3] --arg 1");
        assert_eq!(weld(&arguments, path.to_str().unwrap()).ok(), "13\n");
    }
    let failed = weld("run --arg [1,2,3]", path.to_str().unwrap());
    let says = |part: &str| failed.stderr.contains(part);
    assert!(says("expected 2 arguments, found 1") && says("`k` is missing"), "{}", failed.stderr);
    assert_eq!(failed.code, Some(1));
    assert_eq!(weld("run --arg k=1 --arg v=[1,2,3]", path.to_str().unwrap()).ok(), "13\n");
    let error = weld("run --arg [1,2.5] --arg 1", path.to_str().unwrap()).error(2);
    assert!(error.starts_with("argument `v`: "), "{error}");
}

#[test]
fn arguments_and_programs_come_from_files() {
    let folder = folder_with(&[("v.json", b"[1, 2,\n3]\n")]);
    let arg = format!("run - --arg @{} --arg 1", folder.path().join("v.json").display());
    assert_eq!(weld_with_input(&arg, "", std::str::from_utf8(SQUARES).unwrap()).ok(), "13\n");
    let output = weld_with_input("run - --arg", "@no.json", "|x: i64| x");
    assert_eq!(output.error(1), "cannot read no.json: No such file or directory (os error 2)");
}

#[test]
fn run_shows_where_a_program_is_wrong() {
    let folder = folder_with(&[("p.weld", b"|v: vec[i64]|\nlet x = v + 1L;\n  y")]);
    let output = weld("run", folder.path().join("p.weld").to_str().unwrap());
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.contains("p.weld:2:9") && output.stderr.contains("p.weld:3:3"), "{}", output.stderr);
}

#[test]
fn eval_calls_c_functions_of_libraries() {
    // No function of the C library has the convention; Rust's linker makes one.
    let folder = folder_with(&[("five.c", b"void add_five(long *x, long *r) { *r = *x + 5; }")]);
    let (source, library) = (folder.path().join("five.c"), folder.path().join("libfive.so"));
    let compiler = std::process::Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).status();
    assert!(compiler.is_ok_and(|status| status.success()), "the linker of Rust is a C compiler");
    let library = library.to_str().unwrap();
    let option = format!("--cudf add_five(i64)->i64={library}");
    let answers = eval(
        &option,
        &[
            json!({"id": 1, "program": "map([1L, 2L], |x| cudf[add_five,i64](x))"}),
            json!({"id": 2, "program": "cudf[add_six,i64](1L)"}),
            json!({"id": 3, "program": "cudf[add_five,i64](1.0)"}),
        ],
    );
    assert_eq!(answers[0]["value"], json!([6, 7]));
    assert_eq!((&answers[1]["error"]["kind"], &answers[2]["error"]["kind"]), (&json!("type"), &json!("type")));
    std::fs::write(folder.path().join("p.weld"), "|x: i64| cudf[add_five,i64](x)").unwrap();
    let program = folder.path().join("p.weld");
    let explained = weld(&format!("explain --show optimized,llvm {option}"), program.to_str().unwrap()).ok();
    assert!(explained.contains("cudf[add_five,i64](x)"), "{explained}");
    for (wrong, why) in [
        ("add_five".to_owned(), "expected NAME(T, ..)->R=LIBRARY"),
        ("add_five(i64)->i64=no-such.so".to_owned(), "cannot load no-such.so"),
        (format!("add_six(i64)->i64={library}"), "has no function `add_six`"),
        (format!("add_five(i65)->i64={library}"), "`i65` is no type of a C function"),
        (format!("add_five(dict[i64,i64])->i64={library}"), "dict[i64,i64] as an argument or result of a C function"),
    ] {
        let error = weld(&format!("eval --cudf {wrong}"), "").error(2);
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn eval_answers_in_order_whatever_the_lines_are() {
    let long = |value: Value| json!([{"type": "i64", "value": value}]);
    let answers = eval(
        "",
        &[
            json!({"id": "a", "program": "|x: i64| x + 1L", "args": long(json!(41))}),
            json!({"id": 2, "program": "1 +"}),
            json!({"id": [3], "program": "|x: i64| x / 0L", "args": long(json!(1))}),
            json!({"id": 4, "program": "|x: i64| x", "args": long(json!("1"))}),
            json!({"id": 5, "program": "|x: i64| x", "args": []}),
            json!({"id": 6, "program": "|x: i32| x", "args": long(json!(1))}),
            json!({"program": 7}),
            json!({"id": 9, "program": "|x: i64| x", "args": [1]}),
            json!({"id": 10, "program": "|x: i64| x", "args": [{"type": 5, "value": 1}]}),
            json!({"id": 8, "program": "{0.0 / 0.0, [1.5f], true, 9223372036854775807L}"}),
        ],
    );
    assert_eq!(answers[0], json!({"id": "a", "type": "i64", "value": 42}));
    let error = |index: usize| {
        let error = &answers[index]["error"];
        assert!(!error["message"].as_str().unwrap().is_empty());
        (error["kind"].as_str().unwrap(), error["line"].as_u64().unwrap(), error["column"].as_u64().unwrap())
    };
    assert_eq!((&answers[1]["id"], error(1)), (&json!(2), ("parse", 1, 4)));
    assert_eq!((&answers[2]["id"], error(2)), (&json!([3]), ("runtime", 1, 10)));
    assert_eq!(error(3).0, "type");
    assert_eq!(error(4).0, "type");
    assert_eq!(error(5).0, "type");
    assert_eq!((&answers[6]["id"], error(6).0), (&Value::Null, "parse"));
    assert_eq!(answers[7]["error"]["message"], r#"argument 1: it must be {"type": .., "value": ..}"#);
    assert_eq!(answers[8]["error"]["message"], "argument 1: `type` must be a string");
    assert_eq!(answers[9]["value"], json!(["NaN", [1.5], true, 9_223_372_036_854_775_807_i64]));
    assert_eq!(answers[9]["type"], "{f64,vec[f32],bool,i64}");
}

#[test]
fn eval_says_what_is_wrong_with_an_argument() {
    let program = "|x: i64| x";
    let wrong = [
        (json!([5]), r#"argument 1: it must be {"type": .., "value": ..}"#),
        (json!([{"type": "i64"}]), r#"argument 1: it must be {"type": .., "value": ..}"#),
        (json!([{"type": 5, "value": 5}]), "argument 1: `type` must be a string"),
        (json!([{"type": "f64", "value": 5}]), "`x`: the parameter's type is i64, the argument's f64"),
        (json!([{"type": "i64", "value": 1.5}]), "argument `x`: `1.5` is no value of type i64"),
        (json!([]), "expected 1 argument, found 0"),
        (json!({"y": {"value": 1}}), "no parameter is called `y`"),
    ];
    let requests: Vec<Value> = wrong.iter().map(|(args, _)| json!({"program": program, "args": args})).collect();
    for (answer, (args, message)) in eval("", &requests).iter().zip(&wrong) {
        let mut error = answer["error"].clone();
        error.as_object_mut().unwrap().remove("hint");
        assert_eq!(error, json!({"kind": "type", "message": message, "line": 1, "column": 1}), "{args}");
    }
}

#[test]
fn lines_that_are_not_json_are_answered_too() {
    let output = weld_with_input("eval", "", "{\n\n\"x\"\n{\"id\": 1, \"program\": \"1\"}\n\u{0}\n").ok();
    let answers: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), 4);
    assert_eq!(answers[0]["error"]["kind"], "parse");
    assert_eq!(answers[1]["error"]["kind"], "parse");
    assert_eq!(answers[2], json!({"id": 1, "type": "i32", "value": 1}));
    assert_eq!(answers[3]["error"]["kind"], "parse");
}

#[test]
fn runs_are_bounded_in_time_and_memory() {
    let answers = eval(
        "--time-limit 1 --memory-limit 1000000",
        &[
            json!({"id": 1, "program": "iterate(1L, |x| {x + 1L, x != 0L})"}),
            json!({"id": 2, "program": "len(result(for(rangeiter(0L, 1000000L, 1L), appender[i64], |b,i,x| merge(b, x))))"}),
            json!({"id": 3, "program": "1L"}),
            json!({"id": 4, "program": "result(for(rangeiter(0L, 9223372036854775807L, 1L), appender[i64], |b,i,x| merge(b, x)))"}),
            json!({"id": 5, "program": "result(for(rangeiter(0L, 1000000L, 1L), groupbuilder[i64,i64], |b,i,x| merge(b, {x, x})))"}),
        ],
    );
    for answer in &answers[3..] {
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("OutOfMemory: the run's memory limit is reached"), "{message}");
        assert!(!message.contains("18446744073709551615"), "{message}");
    }
    assert_eq!(answers[0]["error"]["message"], "Cancelled: the time limit of 1 s is reached");
    // Without the optimizer's help the vector is made; with it the length may be known.
    assert!(answers[1]["error"].is_object() || answers[1]["value"] == 1_000_000, "{}", answers[1]);
    assert_eq!(answers[2]["value"], 1);
}

#[test]
fn explain_shows_every_level_of_a_program() {
    let folder = folder_with(&[("p.weld", SQUARES)]);
    let path = folder.path().join("p.weld");
    let text = weld("explain --show weld,optimized,loops,llvm,assembly", path.to_str().unwrap()).ok();
    let loops = "== loops\nrun:\n  merger[i64,+]  plain: strips of 16384\n";
    for title in ["== weld\n|v: vec[i64], k: i64|\n", "== optimized\n", loops, "== llvm\n; ModuleID", "== assembly\n"] {
        assert!(text.contains(title), "{title} is missing: {text}");
    }
    let unchanged = weld("explain --no-optimize --show optimized", path.to_str().unwrap()).ok();
    assert!(unchanged.contains("if(x > k, merge(b, x * x), b)"), "{unchanged}");
    let without = |name: &str| weld(&format!("explain --show loops --disable-pass {name}"), path.to_str().unwrap());
    assert!(without("few-groups").ok().contains(loops));
    let error = without("nonsense").error(2);
    assert!(error.contains("fuse-loops") && error.contains("few-groups"), "{error}");
    let error = weld("explain --after nonsense", path.to_str().unwrap()).error(2);
    assert!(error.contains("'nonsense'") && error.contains("fuse-loops"), "{error}");
}

#[test]
fn explain_shows_every_level_of_a_query() {
    let data = tpch_data();
    let query = "select sum(l_extendedprice) from lineitem where l_quantity < 10";
    let explain = |options: &str| weld(&format!("explain {} {options} -c", data.display()), query).ok();
    let text = explain("--show plan,weld,optimized,loops,llvm,assembly");
    let loops = "== loops, pipeline 1 of ";
    for title in ["== plan\n", "WeldExec", "== weld, pipeline 1 of ", loops, "== llvm, pipeline 1 of "] {
        assert!(text.contains(title), "{title} is missing: {text}");
    }
    let filter = "select l_orderkey from lineitem where l_quantity < 10 and l_tax > 0.05";
    let loops = |options: &str| weld(&format!("explain {} --show loops {options} -c", data.display()), filter).ok();
    assert!(loops("").contains("selection:"), "{}", loops(""));
    assert!(!loops("--disable-pass selections").contains("selection:"));
    assert!(explain("--after fuse-loops").starts_with("== after fuse-loops, pipeline 1 of "));
    assert!(weld("explain", "").error(2).contains("-c"));
    assert!(weld("explain -c", "select * from nowhere").error(1).contains("nowhere"));
}

#[test]
fn fmt_lays_programs_out_and_keeps_comments() {
    let folder = folder_with(&[("p.weld", SQUARES)]);
    let path = folder.path().join("p.weld");
    let path = path.to_str().unwrap();
    assert_eq!(weld("fmt --check", path).error(1), format!("{path} is not formatted"));
    // The other files are formatted all the same.
    assert!(weld("fmt no-such-file.weld", path).error(1).starts_with("cannot read no-such-file.weld"));
    assert_eq!(weld("fmt --check", path).ok(), "");
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains("\n  # sums squares\n  result(for(v, merger[i64,+], |b, i, x| if("), "{text}");
    assert_eq!(weld_with_input("fmt", "", "1+  2").ok(), "1 + 2\n");
}
