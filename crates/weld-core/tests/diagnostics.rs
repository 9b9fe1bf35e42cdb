//! What errors look like to the person who made them.

use expect_test::{Expect, expect};
use weld_core::{diag, parse_program};

fn check(source: &str, wanted: Expect) {
    let errors = parse_program(source).expect_err("the program is wrong");
    wanted.assert_eq(&diag::render(&errors, source, "test.weld"));
}

#[test]
fn several_parse_errors_at_once() {
    check(
        "let a = 1 +;\nlet b = [1, 2 3];\nlet c: = 5;\na + b",
        expect![[r#"
            Error: parse: expected an expression, found `;`
               ╭─[ test.weld:1:12 ]
               │
             1 │ let a = 1 +;
               │            ┬
               │            ╰── here
            ───╯
            Error: parse: expected `,` or `]`, found `3`
               ╭─[ test.weld:2:15 ]
               │
             2 │ let b = [1, 2 3];
               │               ┬
               │               ╰── here
            ───╯
            Error: parse: expected a type, found `=`
               ╭─[ test.weld:3:8 ]
               │
             3 │ let c: = 5;
               │        ┬
               │        ╰── here
            ───╯
        "#]],
    );
}

/// What the first error of each program suggests, and the text that it points at.
#[test]
fn hints_for_habits_from_other_languages() {
    let cases = [
        ("|v: vec[i64]| v[0]", "[", "an element of a vector is `lookup(v, i)`"),
        ("|v: Vec<i64>| v", "<", "the parts of a type stand in brackets: `vec[i64]`"),
        ("|x: int| x", "int", "integers are `i8` to `i128`, `u8` to `u64`"),
        ("|x: f64| x ** 2.0", "*", "a power is `pow(a, b)`, of floats"),
        ("|x: i64| x << 2L", "<", "there are no shifts: multiply or divide"),
        ("|x: i64| if (x > 0L) 1 else 2", "if (x > 0L)", "it is written `if(condition, on_true, on_false)`"),
        ("|x: bool| {x and true}", "and", "write `&&`"),
        ("|x: bool| not(x)", "not", "write `!`"),
        ("|x: i64| x = 5L", "=", "equality is `==`; a value is named with `let name = value; ..`"),
        ("1 // one", "/", "comments begin with `#`"),
        ("'a'", "'", "strings are written `\"..\"`"),
        ("dictmerger[i64,+]", "+", "it is written `dictmerger[K,V,op]`"),
        ("|v: vec[i64]| sort(v)", "sort(v)", "it is written `sort(vector, compare)`"),
        ("|v: vec[i64]| sort(v, |a, b| a < b)", "a < b", "`compare(a, b)` gives -1, 0 or 1"),
        ("map(zip([1], [2]), |a, b| a)", "|a, b| a", "it gets one struct: write `|p|` and use `p.$0`, `p.$1`, .."),
        ("iterate(0, |x| x + 1)", "x + 1", "the step gives the next state and whether to go on: `{next, more}`"),
        ("lookup([1], 0)", "0", "write `0L`"),
        ("[1, 2.5]", "2.5", "write `1.0`"),
        ("if(true, 1, 2.5)", "2.5", "write `1.0`"),
        ("|x: i64| broadcast(x) + x", "broadcast(x) + x", "make it a SIMD value: `broadcast(..)`"),
    ];
    for (source, place, hint) in cases {
        let errors = parse_program(source).expect_err("the program is wrong");
        let span = errors[0].span;
        assert_eq!(errors[0].hint.as_deref(), Some(hint), "{source}");
        assert_eq!(&source[span.start as usize..span.end as usize], place, "{source}");
        assert_eq!(errors.len(), 1, "{source}");
    }
}

#[test]
fn a_name_without_letters_in_common_suggests_nothing() {
    let errors = parse_program("|v: vec[i64]| lookup(v, i)").expect_err("the program is wrong");
    assert_eq!(errors[0].hint, None);
}

#[test]
fn a_definition_without_its_end() {
    check(
        "macro sq(x) = x * x\n|v: vec[i64]| map(v, |x| sq(x))",
        expect![[r#"
            Error: parse: expected `;` after the definition, found the end of the program
               ╭─[ test.weld:2:32 ]
               │
             2 │ |v: vec[i64]| map(v, |x| sq(x))
               │                                │
               │                                ╰─ here
               │
               ├─[ test.weld:2:32 ]
               │
             1 │ macro sq(x) = x * x
               │ ──┬──
               │   ╰──── the definition begins here
            ───╯
        "#]],
    );
}

#[test]
fn an_open_bracket() {
    check(
        "|v: vec[i64]|\n  map(v, |x| x + 1L",
        expect![[r#"
            Error: parse: expected `,` or `)`, found the end of the program
               ╭─[ test.weld:2:20 ]
               │
             2 │   map(v, |x| x + 1L
               │      ┬             │
               │      ╰─────────────── opened here
               │                    │
               │                    ╰─ here
            ───╯
        "#]],
    );
}

#[test]
fn comparisons_do_not_chain() {
    check(
        "|a: i64, b: i64, c: i64| a < b < c",
        expect![[r#"
            Error: parse: comparisons do not chain
               ╭─[ test.weld:1:32 ]
               │
             1 │ |a: i64, b: i64, c: i64| a < b < c
               │                                ┬
               │                                ╰── here
               │
               │ Help: write `a < b && b < c`, or put one comparison in parentheses
            ───╯
        "#]],
    );
}

#[test]
fn a_literal_out_of_range() {
    check(
        "[300c, 3000000000, 1L]",
        expect![[r#"
            Error: parse: the literal 300c does not fit i8
               ╭─[ test.weld:1:2 ]
               │
             1 │ [300c, 3000000000, 1L]
               │  ──┬─
               │    ╰─── here
            ───╯
            Error: parse: the literal 3000000000 does not fit i32
               ╭─[ test.weld:1:8 ]
               │
             1 │ [300c, 3000000000, 1L]
               │        ─────┬────
               │             ╰────── here
               │
               │ Help: for an i64 write the suffix L
            ───╯
        "#]],
    );
}

#[test]
fn several_type_errors_at_once() {
    check(
        "|x: i64, y: f64|\n  let a = x + 1;\n  let b = x * y;\n  let c = lenght([a]);\n  {a, b, c, zz}",
        expect![[r#"
            Error: type: `+` needs two operands of one type, not i64 and i32
               ╭─[ test.weld:2:11 ]
               │
             2 │   let a = x + 1;
               │           ┬   ┬
               │           ╰────── i64
               │               │
               │               ╰── i32
               │
               │ Help: write `1L`
            ───╯
            Error: type: `*` needs two operands of one type, not i64 and f64
               ╭─[ test.weld:3:11 ]
               │
             3 │   let b = x * y;
               │           ┬   ┬
               │           ╰────── i64
               │               │
               │               ╰── f64
               │
               │ Help: convert it: `f64(..)`
            ───╯
            Error: type: unknown function `lenght`
               ╭─[ test.weld:4:11 ]
               │
             4 │   let c = lenght([a]);
               │           ───┬──
               │              ╰──── here
            ───╯
            Error: type: unknown name `zz`
               ╭─[ test.weld:5:13 ]
               │
             5 │   {a, b, c, zz}
               │             ─┬
               │              ╰── here
            ───╯
        "#]],
    );
}

#[test]
fn a_wrong_merge() {
    check(
        "|v: vec[i32]|\n  result(for(v, appender[i64], |b, i, x| merge(b, x)))",
        expect![[r#"
            Error: type: what is merged into appender[i64] must be i64, not i32
               ╭─[ test.weld:2:51 ]
               │
             2 │   result(for(v, appender[i64], |b, i, x| merge(b, x)))
               │                                                   ┬
               │                                                   ╰── here
               │
               │ Help: convert it: `i64(..)`
            ───╯
        "#]],
    );
}

#[test]
fn an_unknown_type_that_is_needed() {
    check(
        "let v = [];\nlen(v)",
        expect![[r#"
            Error: type: the element type of this empty vector cannot be inferred
               ╭─[ test.weld:1:9 ]
               │
             1 │ let v = [];
               │         ─┬
               │          ╰── here
               │
               │ Help: write it down: `[]: vec[i64]`
            ───╯
        "#]],
    );
}

#[test]
fn a_builder_that_is_used_twice() {
    check(
        "|v: vec[i64]|\n  let b = appender[i64];\n  let c = for(v, b, |b, i, x| merge(b, x));\n  {result(c), result(b)}",
        expect![[r#"
            Error: type: the builder `b` is used more than once
               ╭─[ test.weld:4:22 ]
               │
             4 │   {result(c), result(b)}
               │                      ┬
               │                      ╰── here
               │
               ├─[ test.weld:4:22 ]
               │
             3 │   let c = for(v, b, |b, i, x| merge(b, x));
               │                  ┬
               │                  ╰── first used here
               │
               │ Help: a builder must be used exactly once on every path: use the one that the first use returns
            ───╯
        "#]],
    );
}

#[test]
fn a_builder_that_one_branch_forgets() {
    check(
        "|v: vec[i64]|\n  result(for(v, appender[i64], |b, i, x| if(x > 0L, merge(b, x), appender[i64])))",
        expect![[r#"
            Error: type: the builder `b` is used on one path only
               ╭─[ test.weld:2:59 ]
               │
             2 │   result(for(v, appender[i64], |b, i, x| if(x > 0L, merge(b, x), appender[i64])))
               │                                          ─────────────────┬─┬──────────────────
               │                                                           ╰────────────────────── here
               │                                                             │
               │                                                             ╰──────────────────── not used on the other path through this
               │
               │ Help: a path that merges nothing returns the builder itself: `if(cond, merge(b, x), b)`
            ───╯
        "#]],
    );
}

#[test]
fn a_builder_of_another_loop() {
    check(
        "|v: vec[i64]|\n  let out = appender[i64];\n  result(for(v, appender[i64], |b, i, x| for(v, b, |c, j, y| merge(out, y))))",
        expect![[r#"
            Error: type: the builder `out` is used inside a function that may run many times
               ╭─[ test.weld:3:68 ]
               │
             3 │   result(for(v, appender[i64], |b, i, x| for(v, b, |c, j, y| merge(out, y))))
               │                                                                    ─┬─
               │                                                                     ╰─── here
               │
               │ Help: merge into the builder that is the function's parameter
            ───╯
            Error: type: the builder `c` is never used
               ╭─[ test.weld:3:62 ]
               │
             3 │   result(for(v, appender[i64], |b, i, x| for(v, b, |c, j, y| merge(out, y))))
               │                                                              ──────┬──────
               │                                                                    ╰──────── here
               │
               │ Help: a builder must be used exactly once on every path
            ───╯
        "#]],
    );
}

#[test]
fn an_error_inside_a_macro() {
    check(
        "macro double(x) = x * 2;\n|v: vec[f64]| map(v, |x| double(x))",
        expect![[r#"
            Error: type: `*` needs two operands of one type, not f64 and i32
               ╭─[ test.weld:1:19 ]
               │
             2 │ |v: vec[f64]| map(v, |x| double(x))
               │                                 ┬
               │                                 ╰── f64
               │
               ├─[ test.weld:1:19 ]
               │
             1 │ macro double(x) = x * 2;
               │                       ┬
               │                       ╰── i32
               │
               │ Help: write `2.0`
            ───╯
        "#]],
    );
}

#[test]
fn an_error_inside_a_built_in_macro() {
    check(
        "|v: vec[bool]| sum(v)",
        expect![[r#"
            Error: type: the binop `+` does not work on bool
               ╭─[ test.weld:1:16 ]
               │
             1 │ |v: vec[bool]| sum(v)
               │                ───┬──
               │                   ╰──── here
            ───╯
        "#]],
    );
}

#[test]
fn a_macro_that_calls_itself() {
    check(
        "macro f(x) = f(x + 1);\nf(1)",
        expect![[r#"
            Error: type: the macro `f` expands too deeply: more than 100 levels
               ╭─[ test.weld:1:14 ]
               │
             1 │ macro f(x) = f(x + 1);
               │              ────┬───
               │                  ╰───── here
               │
               │ Help: a macro cannot call itself: there is no recursion
            ───╯
        "#]],
    );
}

#[test]
fn a_function_as_a_value() {
    check(
        "let f = |x: i64| x;\nf(5L)",
        expect![[r#"
            Error: type: a function is not a value
               ╭─[ test.weld:1:9 ]
               │
             1 │ let f = |x: i64| x;
               │         ─────┬────
               │              ╰────── here
               │
               │ Help: pass it straight to a form or macro that takes a function, or make it a macro
            ───╯
            Error: type: `f` is a variable and cannot be called
               ╭─[ test.weld:2:1 ]
               │
             2 │ f(5L)
               │ ──┬──
               │   ╰──── here
            ───╯
        "#]],
    );
}

#[test]
fn a_c_function_that_nobody_registered() {
    check(
        "|x: i64| cudf[add_five,i64](x)",
        expect![[r#"
            Error: type: no C function `add_five` is registered
               ╭─[ test.weld:1:15 ]
               │
             1 │ |x: i64| cudf[add_five,i64](x)
               │               ────┬───
               │                   ╰───── here
               │
               │ Help: the host program registers the functions that a program may call, with their types
            ───╯
        "#]],
    );
}

#[test]
fn a_string_that_goes_on() {
    check(
        "len(\"abc)\n + 1L",
        expect![[r#"
            Error: parse: this string has no closing quote (a line break in a string is written `\n`)
               ╭─[ test.weld:1:5 ]
               │
             1 │ len("abc)
               │     ──┬──
               │       ╰──── here
            ───╯
        "#]],
    );
}

#[test]
fn places_after_other_scripts() {
    check(
        "# ünïcödé\nlen(\"ü\") + ö",
        expect![[r#"
            Error: parse: unexpected character 'ö'
               ╭─[ test.weld:2:12 ]
               │
             2 │ len("ü") + ö
               │            ┬
               │            ╰── here
            ───╯
        "#]],
    );
}

#[test]
fn messages_do_not_repeat_long_names() {
    for source in
        ["1".repeat(100_000), "é".repeat(100_000), "x".repeat(100_000), format!("{{{}}} + 1", "1,".repeat(900))]
    {
        let errors = weld_core::parse_program(&source).unwrap_err();
        assert!(errors[0].message.len() < 1_100, "{}", errors[0].message.len());
    }
}
