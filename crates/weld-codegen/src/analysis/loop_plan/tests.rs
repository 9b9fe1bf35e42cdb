//! When each plan is made, and when it is not.

use std::collections::BTreeSet;

use weld_core::ir::{Expr, ExprKind, Func, Iter, Program};
use weld_core::parse_program;
use weld_core::ty::{ScalarKind, Type};

use super::{FastPath, Inputs, LoopPlan, Params};
use crate::chunk::{ColumnLayout, Layout};
use crate::machine::Machine;

/// A loop and what is known of its inputs.
struct Case {
    text: String,
    machine: Machine,
    /// How the columns of the program's first parameter are stored, if that is a chunk.
    chunk: Option<Vec<ColumnLayout>>,
    copies_bytes: bool,
    disabled: BTreeSet<FastPath>,
}

/// The loop of a program over vectors in memory.
fn plan(text: &str) -> Case {
    Case {
        text: text.to_owned(),
        machine: Machine::new(true, true),
        chunk: None,
        copies_bytes: false,
        disabled: BTreeSet::new(),
    }
}

/// The same where the first parameter is a chunk: a word a column, see [`stored`].
fn over_chunk(columns: &str, text: &str) -> Case {
    let chunk = columns.split_whitespace().map(stored).collect();
    Case { chunk: Some(chunk), copies_bytes: true, ..plan(text) }
}

/// `i64`, or another kind; `views` of strings; `codes` of strings; with a `?` where there are nulls.
fn stored(word: &str) -> ColumnLayout {
    let layout = match word.trim_end_matches('?') {
        "i32" => Layout::Fixed(ScalarKind::I32),
        "i64" => Layout::Fixed(ScalarKind::I64),
        "i128" => Layout::Fixed(ScalarKind::I128),
        "views" => Layout::Utf8View,
        "codes" => Layout::Dictionary { codes: ScalarKind::I32, values: Box::new(Layout::Utf8View) },
        other => panic!("no column is called {other}"),
    };
    ColumnLayout { layout, validity: word.ends_with('?') }
}

/// The first loop of a program, from the outside in.
fn first_loop(program: &Program) -> (&Iter, &Func) {
    fn find(e: &Expr) -> Option<(&Iter, &Func)> {
        match &e.kind {
            ExprKind::For { iter, func, .. } => Some((iter, func)),
            _ => e.children().into_iter().find_map(find),
        }
    }
    find(&program.body).expect("a loop")
}

/// Selected rows are in their chunk.
fn no_check(e: &mut Expr) {
    if let ExprKind::Lookup { key, checked, .. } = &mut e.kind
        && matches!(&key.kind, ExprKind::Cast(of) if of.ty == Type::I32)
    {
        *checked = false;
    }
}

impl Case {
    #[track_caller]
    fn is(&self, expected: &str) {
        let mut program = parse_program(&self.text).unwrap_or_else(|errors| panic!("{}\n{errors:?}", self.text));
        program.body.rewrite(&mut no_check);
        let (iter, func) = first_loop(&program);
        let params = Params::of(func).expect("an update function");
        let first = program.params[0].sym;
        let is_over = matches!(iter, Iter::Vector(data) if matches!(data.kind, ExprKind::Var(sym) if sym == first));
        let inputs = Inputs {
            machine: &self.machine,
            chunk: self.chunk.as_deref().filter(|_| is_over),
            chunk_of: &|sym| self.chunk.clone().filter(|_| sym == first),
            copies_bytes: self.copies_bytes,
            is_buffered: false,
            disabled: &self.disabled,
        };
        let found = LoopPlan::of(func, &params, &inputs).to_string();
        assert_eq!(found, expected, "{}", self.text);
    }
}

const PLAIN: &str = "plain: strips of 16384";
const UP_TO_ONE: &str = "plain: strips of 16384, room for up to 1 an iteration made by strip";
const WITHOUT_BRANCH: &str =
    "plain: strips of 16384, room for up to 1 an iteration made by strip, 1 append without a branch";

mod selections {
    use super::*;

    /// A loop that keeps indices of `v`, with this body.
    fn selecting(body: &str) -> Case {
        plan(&format!("|v: vec[i64], w: vec[i64]| result(for(v, appender[i32], |b, i, x| {body}))"))
    }

    #[test]
    fn of_cheap_conditions() {
        let one = "selection: 1 condition by strips of 4096, indices compressed 16 at a time";
        selecting("if(x > 3L, merge(b, i32(i)), b)").is(one);
        selecting("if(x > 3L && x < i, merge(b, i32(i)), b)").is(one);
        selecting("if(x > 3L, if(x < 9L, merge(b, i32(i)), b), b)")
            .is("selection: 2 conditions by strips of 4096, indices compressed 16 at a time");
    }

    #[test]
    fn of_floats_by_their_order() {
        plan("|v: vec[f64]| result(for(v, appender[i32], |b, i, x| if(order_key(x) > 3L, merge(b, i32(i)), b)))")
            .is("selection: 1 condition by strips of 4096, indices compressed 16 at a time");
    }

    #[test]
    fn without_an_instruction_that_compresses() {
        let mut case = selecting("if(x > 3L, merge(b, i32(i)), b)");
        case.machine.can_compress = false;
        case.is("selection: 1 condition by strips of 4096, indices stored without a branch");
    }

    #[test]
    fn not_of_what_may_fail() {
        selecting("if(10L / x > 3L, merge(b, i32(i)), b)").is(WITHOUT_BRANCH);
        selecting("if(lookup(w, x) > 3L, merge(b, i32(i)), b)").is(WITHOUT_BRANCH);
    }

    #[test]
    fn not_of_what_costs_more_than_a_branch() {
        let sum = vec!["x"; 45].join(" + ");
        selecting(&format!("if({sum} > 3L, merge(b, i32(i)), b)")).is(WITHOUT_BRANCH);
    }

    #[test]
    fn not_of_other_values_than_the_index() {
        selecting("if(x > 3L, merge(b, i32(x)), b)").is(WITHOUT_BRANCH);
        selecting("if(x > 3L, merge(b, i32(i + 1L)), b)").is(WITHOUT_BRANCH);
    }

    #[test]
    fn not_where_all_are_kept_or_none() {
        selecting("merge(b, i32(i))").is("plain: strips of 16384, room for 1 an iteration made before the loop");
        selecting("if(x > 3L, merge(b, i32(i)), merge(b, 0))")
            .is("plain: strips of 16384, room for 1 an iteration made before the loop");
    }

    #[test]
    fn not_into_other_builders() {
        plan("|v: vec[i64]| result(for(v, appender[i64], |b, i, x| if(x > 3L, merge(b, i), b)))").is(WITHOUT_BRANCH);
        plan(
            "|v: vec[i64]| let both = for(v, {appender[i32], merger[i64,+]}, |b, i, x|
               if(x > 3L, {merge(b.$0, i32(i)), b.$1}, b)); {result(both.$0), result(both.$1)}",
        )
        .is(UP_TO_ONE);
    }
}

mod magnitudes {
    use super::*;

    const TWO: &str = "|v: vec[{i128,i64,i128}]| result(for(v, merger[{i128,i128},|], |b, i, x|
        merge(b, {magnitude(x.$2), magnitude(x.$0)})))";

    #[test]
    fn of_integer_columns_of_a_chunk() {
        over_chunk("i128 i64 i64", TWO).is("magnitudes: $2 as i64, $0 as i128");
        let one = "|v: vec[i128]| result(for(v, merger[i128,|], |b, i, x| merge(b, magnitude(x))))";
        over_chunk("i32", one).is("magnitudes: $0 as i32");
    }

    #[test]
    fn not_of_vectors_in_memory_nor_of_codes() {
        plan(TWO).is(PLAIN);
        over_chunk("codes i64 i128", TWO).is(PLAIN);
    }

    #[test]
    fn not_of_nullable_columns() {
        let text = "|v: vec[{{i128,bool},i64}]| result(for(v, merger[i128,|], |b, i, x| merge(b, magnitude(x.$0.$0))))";
        over_chunk("i128? i64", text).is(PLAIN);
    }

    #[test]
    fn not_of_what_is_computed_or_summed() {
        over_chunk(
            "i128 i128",
            "|v: vec[{i128,i128}]| result(for(v, merger[i128,|], |b, i, x| merge(b, magnitude(x.$0 + x.$1))))",
        )
        .is(PLAIN);
        over_chunk(
            "i128 i128",
            "|v: vec[{i128,i128}]| result(for(v, merger[i128,+], |b, i, x| merge(b, magnitude(x.$0))))",
        )
        .is(PLAIN);
    }
}

mod grouped {
    use super::*;

    const AHEAD: &str = "keys hashed 128 ahead in tables of 512 KB and more";

    /// A loop over `v` that merges this entry.
    fn merging(values: &str, entry: &str) -> Case {
        plan(&format!(
            "|v: vec[{{i64,i64,f64}}], w: vec[i64]|
               tovec(result(for(v, dictmerger[i64,{values},+], |b, i, x| merge(b, {entry}))))"
        ))
    }

    #[test]
    fn of_three_values() {
        merging("{f64,f64,f64}", "{x.$0, {x.$2, x.$2 * x.$2, 1.0}}")
            .is(&format!("grouped: strips of 1024 rows, {AHEAD}, values row by row"));
    }

    #[test]
    fn not_of_two() {
        merging("{f64,f64}", "{x.$0, {x.$2, 1.0}}").is(&format!("plain: strips of 128, {AHEAD}"));
        merging("f64", "{x.$0, x.$2}").is(&format!("plain: strips of 128, {AHEAD}"));
    }

    #[test]
    fn with_keys_that_are_not_known_early() {
        // A division may fail; the index of an iteration is not that of a later one.
        let plain = "grouped: strips of 1024 rows, keys hashed, values row by row";
        merging("{f64,f64,f64}", "{x.$0 / x.$1, {x.$2, x.$2, 1.0}}").is(plain);
        merging("{f64,f64,f64}", "{x.$0 + i, {x.$2, x.$2, 1.0}}").is(plain);
    }

    #[test]
    fn not_under_a_condition() {
        plan(
            "|v: vec[{i64,i64,i64}]| tovec(result(for(v, dictmerger[i64,{i64,i64,i64},+], |b, i, x|
               if(x.$1 > 0L, merge(b, {x.$0, {x.$1, x.$2, 1L}}), b))))",
        )
        .is(PLAIN);
    }

    #[test]
    fn not_with_another_builder() {
        plan(
            "|v: vec[{i64,f64}]| let both = for(v, {dictmerger[i64,{f64,f64,f64},+], merger[i64,+]}, |b, i, x|
               {merge(b.$0, {x.$0, {x.$1, x.$1, x.$1}}), merge(b.$1, 1L)}); {tovec(result(both.$0)), result(both.$1)}",
        )
        .is(&format!("plain: strips of 128, {AHEAD}"));
    }

    #[test]
    fn not_of_values_that_allocate_or_look_up() {
        plan(
            "|v: vec[{i64,i64}], d: dict[i64,i64]| tovec(result(for(v, dictmerger[i64,{i64,i64,i64},+], |b, i, x|
               merge(b, {x.$0, {lookup(d, x.$1), x.$1, 1L}}))))",
        )
        .is(&format!(
            "plain: strips of 128, {AHEAD}, lookup fetched 24 ahead from 32768 entries on, 4194304 of a dense table"
        ));
        merging("{i64,i64,i64}", "{x.$0, {result(for(w, merger[i64,+], |m, j, y| merge(m, y))), x.$1, 1L}}")
            .is("plain: strips of 64");
    }

    #[test]
    fn not_if_the_key_costs_much_twice() {
        plan(
            "|v: vec[{i64,f64}]| tovec(result(for(v, dictmerger[i64,{f64,f64,f64},+], |b, i, x|
               let k = x.$0 * 3L + x.$0 * 5L + x.$0 * 7L; merge(b, {k, {f64(k), x.$1, x.$1}}))))",
        )
        .is(&format!("plain: strips of 128, {AHEAD}"));
    }
}

mod buffered_merges {
    use super::*;

    const BUFFERED: &str = "plain: strips of 64, merged by 128 of the rows of loops inside";
    const OUTER: &str = "plain: strips of 64";

    fn joined(builder: &str, entry: &str) -> Case {
        plan(&format!(
            "|v: vec[{{i64,f64}}], w: vec[i64]| tovec(result(for(v, {builder}, |b, i, x|
               if(x.$0 > 3L, for(w, b, |c, j, y| merge(c, {entry})), b))))"
        ))
    }

    #[test]
    fn of_loops_inside() {
        joined("dictmerger[i64,i64,+]", "{y, x.$0}").is(BUFFERED);
        joined("dictmerger[{i64,f64},{f64,i64},{+,min}]", "{{y, x.$1}, {x.$1, y}}").is(BUFFERED);
    }

    #[test]
    fn not_of_what_points_elsewhere() {
        joined("dictmerger[vec[i8],i64,+]", "{\"a\", y}").is(OUTER);
    }

    #[test]
    fn not_if_the_merges_are_the_loops_own() {
        plan(
            "|v: vec[{i64,f64}], w: vec[i64]| tovec(result(for(v, dictmerger[i64,i64,+], |b, i, x|
               merge(b, {len(tovec(result(for(w, dictmerger[i64,i64,+], |c, j, y| merge(c, {y, 1L}))))), 1L}))))",
        )
        .is(OUTER);
    }
}

mod key_codes {
    use super::*;

    /// Two strings as a key over a chunk of these columns, and these values.
    fn keyed(columns: &str, values: &str, entry: &str) -> Case {
        over_chunk(
            columns,
            &format!(
                "|v: vec[{{vec[u8],vec[u8],f64}}]|
                   tovec(result(for(v, dictmerger[{{vec[u8],vec[u8]}},{values},+], |b, i, x| merge(b, {entry}))))"
            ),
        )
    }

    const ENTRY: &str = "{{x.$0, x.$1}, x.$2}";
    const BY_CODES: &str = "grouped: strips of 1024 rows, keys by codes of $0 $1, values row by row";
    const BY_HASH: &str = "plain: strips of 128, keys hashed 128 ahead in tables of 512 KB and more";

    #[test]
    fn of_columns_that_are_all_encoded() {
        keyed("codes codes i64", "f64", ENTRY).is(BY_CODES);
        keyed("codes codes i64", "f64", "{{x.$1, x.$0}, x.$2}").is(BY_CODES);
        keyed("codes views i64", "f64", ENTRY).is(BY_HASH);
    }

    #[test]
    fn of_selected_rows() {
        over_chunk(
            "codes i64",
            "|c: vec[{vec[u8],f64}], sel: vec[i32]| tovec(result(for(sel, dictmerger[vec[u8],f64,+], |b, i, j|
               let r = lookup(c, i64(j)); merge(b, {r.$0, r.$1}))))",
        )
        .is("grouped: strips of 1024 selected rows, keys by codes of $0, values row by row");
    }

    #[test]
    fn not_in_a_table_that_ends_with_the_chunk() {
        let mut case = keyed("codes codes i64", "f64", ENTRY);
        case.copies_bytes = false;
        case.is(BY_HASH);
    }

    #[test]
    fn not_of_keys_with_something_else() {
        let text = "|v: vec[{vec[u8],f64}], p: vec[u8]|
            tovec(result(for(v, dictmerger[{vec[u8],vec[u8]},f64,+], |b, i, x| merge(b, {{x.$0, p}, x.$1}))))";
        over_chunk("codes i64", text).is(BY_HASH);
    }

    #[test]
    fn not_of_more_than_four_columns() {
        let text = |columns: usize| {
            let (types, key) = (vec!["vec[u8]"; columns].join(","), (0..columns).map(|i| format!("x.${i}")));
            let key = key.collect::<Vec<_>>().join(", ");
            format!(
                "|v: vec[{{{types},f64}}]| tovec(result(for(v, dictmerger[{{{types}}},f64,+], |b, i, x|
                   merge(b, {{{{{key}}}, x.${columns}}}))))"
            )
        };
        over_chunk("codes codes codes codes i64", &text(4))
            .is("grouped: strips of 1024 rows, keys by codes of $0 $1 $2 $3, values row by row");
        over_chunk("codes codes codes codes codes i64", &text(5)).is(BY_HASH);
    }
}

mod few_groups {
    use super::*;

    /// A loop over a chunk that merges these values.
    fn summing(columns: &str, types: &str, op: &str, values: &str) -> Case {
        over_chunk(
            columns,
            &format!(
                "|v: vec[{{i64,i128,i128,i32}}], p: i128|
                   tovec(result(for(v, dictmerger[i64,{types},{op}], |b, i, x| merge(b, {{x.$0, {values}}}))))"
            ),
        )
    }

    const GROUPED: &str = "grouped: strips of 1024 rows, keys hashed 128 ahead in tables of 512 KB and more, values";

    #[test]
    fn of_integers_and_decimals() {
        summing("i64 i128 i128 i32", "{i128,i128,i64}", "+", "{x.$1, checked_mul(x.$1, checked_sub(100LL, x.$2)), 1L}")
            .is(&format!("{GROUPED} of up to 8 groups in registers, 2 of 3 tried in 64 bits, 2 of 3 kept between"));
        // Stored in 64 bits, a column is read again; so are integers.
        summing("i64 i64 i64 i32", "{i128,i64,i32}", "{+,+,max}", "{x.$1, x.$0, x.$3}")
            .is(&format!("{GROUPED} of up to 8 groups in registers, 1 of 3 tried in 64 bits"));
    }

    #[test]
    fn of_what_is_bound_once() {
        over_chunk(
            "i64 i128 i128 i32",
            "|v: vec[{i64,i128,i128,i32}]| tovec(result(for(v, dictmerger[i64,{i128,i128,i64},+], |b, i, x|
               let p = checked_mul(x.$1, x.$2); merge(b, {x.$0, {p, checked_mul(p, 3LL), 1L}}))))",
        )
        .is(&format!("{GROUPED} of up to 8 groups in registers, 2 of 3 tried in 64 bits, 2 of 3 kept between"));
    }

    #[test]
    fn not_of_floats() {
        summing("i64 i128 i128 i32", "{f64,i64,i64}", "+", "{f64(x.$1), x.$0, 1L}")
            .is(&format!("{GROUPED} row by row"));
    }

    #[test]
    fn not_of_what_may_fail() {
        summing("i64 i128 i128 i32", "{i64,i64,i64}", "+", "{x.$0, 10L / x.$0, 1L}")
            .is(&format!("{GROUPED} row by row"));
    }

    #[test]
    fn not_of_quotients_and_extremes_of_decimals() {
        let row_by_row = format!("{GROUPED} row by row");
        summing("i64 i128 i128 i32", "{i128,i128,i64}", "+", "{x.$1 / x.$2, x.$1, 1L}").is(&row_by_row);
        summing("i64 i128 i128 i32", "{i128,i128,i64}", "{max,+,+}", "{x.$1, x.$1, 1L}").is(&row_by_row);
    }

    #[test]
    fn not_of_decimals_in_memory() {
        let text = "|v: vec[{i64,i128}]| tovec(result(for(v, dictmerger[i64,{i128,i64,i64},+], |b, i, x|
            merge(b, {x.$0, {x.$1, x.$0, 1L}}))))";
        plan(text).is(&format!("{GROUPED} row by row"));
        plan(&text.replace("i128", "i32")).is(&format!("{GROUPED} of up to 8 groups in registers"));
    }

    #[test]
    fn not_of_more_than_twelve_fields() {
        let of = |fields: usize| {
            let (types, values) = (vec!["i64"; fields].join(","), vec!["x.$0"; fields].join(", "));
            summing("i64 i128 i128 i32", &format!("{{{types}}}"), "+", &format!("{{{values}}}"))
        };
        of(12).is(&format!("{GROUPED} of up to 8 groups in registers"));
        of(13).is(&format!("{GROUPED} row by row"));
    }

    #[test]
    fn not_of_what_asks_for_the_selection() {
        let selected = |value: &str| {
            over_chunk(
                "i64 i64",
                &format!(
                    "|c: vec[{{i64,i64}}], sel: vec[i32]| tovec(result(for(sel, dictmerger[i64,{{i64,i64,i64}},+], |b, i, j|
                       let r = lookup(c, i64(j)); merge(b, {{r.$0, {{r.$1, {value}, 1L}}}}))))"
                ),
            )
        };
        let grouped =
            "grouped: strips of 1024 selected rows, keys hashed 128 ahead in tables of 512 KB and more, values";
        selected("r.$0").is(&format!("{grouped} of up to 8 groups in registers"));
        selected("i").is(&format!("{grouped} row by row"));
    }
}

mod plain {
    use super::*;

    const FETCHED: &str = "fetched 24 ahead from 32768 entries on, 4194304 of a dense table";

    /// A loop over a selection of a chunk of two columns that appends this of each row `r`.
    fn moving(value: &str) -> Case {
        over_chunk(
            "i64 i64",
            &format!(
                "|c: vec[{{i64,i64}}], sel: vec[i32]| result(for(sel, appender[{{i64,i64}}], |b, i, j|
                   let r = @(unchecked:true) lookup(c, i64(j)); merge(b, {value})))"
            ),
        )
    }

    #[test]
    fn rows_that_only_move_are_not_vectorised() {
        let strips = "plain: strips of 16384, room for 1 an iteration made before the loop";
        moving("r").is(&format!("{strips}, not vectorised"));
        moving("{r.$1, r.$0}").is(&format!("{strips}, not vectorised"));
        moving("{r.$1, r.$0 + 1L}").is(strips);
    }

    /// A loop that sums this over a vector, with two tables.
    fn summing(value: &str) -> Case {
        plan(&format!(
            "|v: vec[{{i64,i64}}], d: dict[i64,i64], e: dict[i64,i64]|
               result(for(v, merger[i64,+], |b, i, x| merge(b, {value})))"
        ))
    }

    #[test]
    fn lookups_of_early_keys_are_fetched() {
        summing("lookup(d, x.$0)").is(&format!("{PLAIN}, lookup {FETCHED}"));
        summing("lookup(d, x.$0) + lookup(e, x.$1 * 2L)").is(&format!("{PLAIN}, 2 lookups {FETCHED}"));
        summing("let m = optlookup(d, x.$0); if(m.$0, m.$1, 0L)").is(&format!("{PLAIN}, lookup {FETCHED}"));
    }

    #[test]
    fn lookups_of_keys_that_may_be_null_are_fetched() {
        let nullable = |body: &str| {
            plan(&format!(
                "|v: vec[{{i64,{{i64,bool}}}}], d: dict[i64,i64], e: dict[i64,i64]|
                   result(for(v, merger[i64,+], |b, i, x| {body}))"
            ))
        };
        let lookup = &format!("{PLAIN}, lookup {FETCHED}");
        nullable("if(x.$1.$1, let m = optlookup(d, x.$1.$0); if(m.$0, merge(b, m.$1), b), b)").is(lookup);
        // Most rows may not match the first.
        nullable("let m = optlookup(d, x.$0); if(m.$0, merge(b, m.$1 + lookup(e, x.$1.$0)), b)").is(lookup);
    }

    #[test]
    fn other_lookups_are_not() {
        // Three keep the processor busy.
        summing("lookup(d, x.$0) + lookup(e, x.$1) + lookup(d, x.$1)").is(PLAIN);
        // Not in every iteration.
        summing("if(x.$1 > 0L, lookup(d, x.$0), 0L)").is(PLAIN);
        // A key that may fail, one of the index, one of a lookup, one that is always the same.
        summing("lookup(d, x.$0 / x.$1)").is(PLAIN);
        summing("lookup(d, x.$0 + i)").is(PLAIN);
        summing("lookup(d, lookup(e, x.$0))").is(&format!("{PLAIN}, lookup {FETCHED}"));
        summing("lookup(d, 3L)").is(PLAIN);
    }

    #[test]
    fn keys_of_merges_without_condition_are_hashed_ahead() {
        let merging = |body: &str| {
            plan(&format!("|v: vec[{{i64,i64}}]| tovec(result(for(v, dictmerger[i64,i64,+], |b, i, x| {body})))"))
        };
        let ahead = "plain: strips of 128, keys hashed 128 ahead in tables of 512 KB and more";
        merging("merge(b, {x.$0, x.$1})").is(ahead);
        merging("let k = x.$0 + 1L; merge(b, {k, x.$1})").is(ahead);
        merging("if(x.$1 > 0L, merge(b, {x.$0, x.$1}), b)").is(PLAIN);
        merging("merge(b, {x.$0 / x.$1, 1L})").is(PLAIN);
        merging("merge(b, {i, x.$1})").is(PLAIN);
        merging("merge(b, {7L, x.$1})").is(PLAIN);
    }

    #[test]
    fn room_is_made_for_appenders() {
        let appending =
            |body: &str| plan(&format!("|v: vec[i64], w: vec[i64]| result(for(v, appender[i64], |b, i, x| {body}))"));
        appending("merge(merge(b, x), i)").is(&format!("{PLAIN}, room for 2 an iteration made before the loop"));
        appending("if(x > 0L, merge(merge(b, x), i), merge(b, x))")
            .is(&format!("{PLAIN}, room for up to 2 an iteration made by strip"));
        // An inner loop appends in numbers that are not known.
        appending("for(w, b, |b2, j, y| merge(b2, y))").is("plain: strips of 64");
    }

    #[test]
    fn indices_of_a_vecmerger_are_checked_once() {
        let merging = |body: &str| {
            plan(&format!("|v: vec[i64], w: vec[i64]| result(for(v, vecmerger[i64,+](w), |b, i, x| {body}))"))
        };
        merging("merge(b, {i, x})").is(&format!("{PLAIN}, indices checked before the loop"));
        merging("merge(b, {x, 1L})").is(PLAIN);
        merging("if(x > 0L, merge(b, {i, x}), b)").is(PLAIN);
        merging("merge(b, {i, 10L / x})").is(PLAIN);
    }

    #[test]
    fn loops_with_loops_inside_look_at_the_flag_more_often() {
        plan("|v: vec[vec[i64]]| result(for(v, merger[i64,+], |b, i, x| for(x, b, |b2, j, y| merge(b2, y))))")
            .is("plain: strips of 64");
    }
}

mod appends {
    use super::*;

    /// A loop that appends elements of `v`, with this body.
    fn appending(ty: &str, body: &str) -> Case {
        plan(&format!("|v: vec[i64], w: vec[i64]| result(for(v, appender[{ty}], |b, i, x| {body}))"))
    }

    #[test]
    fn of_cheap_values_under_any_condition() {
        appending("i64", "if(lookup(w, x) > 3L, merge(b, x * 2L), b)").is(WITHOUT_BRANCH);
        appending("{i64,i64}", "if(x > 3L, if(x < i, merge(b, {x, i}), b), b)").is(WITHOUT_BRANCH);
        appending("i64", "let c = if(x > 3L, merge(b, x), b); if(x > i, merge(c, i), c)")
            .is("plain: strips of 16384, room for up to 2 an iteration made by strip, 2 appends without a branch");
    }

    #[test]
    fn not_of_values_that_may_fail_or_cost_more() {
        appending("i64", "if(x > 3L, merge(b, 10L / x), b)").is(UP_TO_ONE);
        let sum = vec!["x"; 20].join(" + ");
        appending("i64", &format!("if(x > 3L, merge(b, {sum}), b)")).is(UP_TO_ONE);
    }

    #[test]
    fn not_of_many_columns() {
        appending("{i64,i64,i64,i64,i64}", "if(x > 3L, merge(b, {x, x, x, x, x}), b)").is(UP_TO_ONE);
    }

    #[test]
    fn not_with_something_else_in_the_other_branch() {
        appending("i64", "if(x > 3L, merge(merge(b, x), i), merge(b, i))")
            .is("plain: strips of 16384, room for up to 2 an iteration made by strip");
    }

    #[test]
    fn not_where_strings_are_copied() {
        let mut case = appending("i64", "if(x > 3L, merge(b, x), b)");
        case.copies_bytes = true;
        case.is(UP_TO_ONE);
    }

    #[test]
    fn not_into_builders_of_the_iteration() {
        let inner = "len(result(let c = appender[i64]; if(x > 3L, merge(c, x), c)))";
        appending("i64", &format!("merge(b, {inner})"))
            .is("plain: strips of 16384, room for up to 2 an iteration made by strip");
    }
}

mod sharing {
    use super::super::{Shareable, Sharing};
    use super::*;

    const KNOWN: Shareable = Shareable { is_range: false, count: None, grain: None, strict: false };

    /// How threads share the builders of a program's first loop.
    fn shared(known: Shareable, text: &str) -> Option<String> {
        let program = parse_program(text).unwrap_or_else(|errors| panic!("{text}\n{errors:?}"));
        let (_, func) = first_loop(&program);
        Sharing::of(func, known).map(|sharing| sharing.to_string())
    }

    fn is(text: &str, expected: &str) {
        assert_eq!(shared(KNOWN, text).as_deref(), Some(expected), "{text}");
    }

    #[test]
    fn by_what_is_merged() {
        is("|v: vec[i64]| result(for(v, merger[i64,+], |b, i, x| merge(b, x)))", "shared: apart");
        is(
            "|v: vec[i64]| result(for(v, appender[i64], |b, i, x| merge(merge(b, x), i)))",
            "shared: in order, 2 an iteration",
        );
        is("|v: vec[i64]| result(for(v, appender[i64], |b, i, x| if(x > 0L, merge(b, x), b)))", "shared: apart");
        is("|v: vec[i64]| result(for(v, vecmerger[i64,+](v), |b, i, x| merge(b, {i, x})))", "shared: in place");
        is("|v: vec[i64]| result(for(v, vecmerger[i64,+](v), |b, i, x| merge(b, {x, 1L})))", "shared: apart");
        is(
            "|v: vec[i64]| let both = for(v, {appender[i64], merger[i64,+]}, |b, i, x| {merge(b.$0, x), merge(b.$1, x)});
               {result(both.$0), result(both.$1)}",
            "shared: in order, 1 an iteration, apart",
        );
    }

    #[test]
    fn a_range_has_its_elements_as_indices() {
        let text =
            "|v: vec[i64]| result(for(rangeiter(0L, len(v), 1L), vecmerger[i64,+](v), |b, i, x| merge(b, {x, 1L})))";
        assert_eq!(shared(Shareable { is_range: true, ..KNOWN }, text).as_deref(), Some("shared: in place"));
    }

    #[test]
    fn not_where_floats_are_summed_in_order() {
        let text =
            |ty: &str, op: &str| format!("|v: vec[{ty}]| result(for(v, merger[{ty},{op}], |b, i, x| merge(b, x)))");
        let strict = Shareable { strict: true, ..KNOWN };
        assert_eq!(shared(strict, &text("f64", "+")), None);
        assert!(shared(strict, &text("f64", "max")).is_some());
        assert!(shared(strict, &text("i64", "+")).is_some());
    }

    #[test]
    fn not_of_few_iterations() {
        let text = "|v: vec[i64]| result(for(v, merger[i64,+], |b, i, x| merge(b, x)))";
        let counted = |count, grain| shared(Shareable { count: Some(count), grain, ..KNOWN }, text);
        assert_eq!((counted(100, None), counted(100, Some(51))), (None, None));
        assert!(counted(100, Some(50)).is_some() && counted(1 << 20, None).is_some());
        let nested = "|v: vec[vec[i64]]| result(for(v, merger[i64,+], |b, i, x| for(x, b, |b2, j, y| merge(b2, y))))";
        assert!(shared(Shareable { count: Some(2), ..KNOWN }, nested).is_some());
    }
}

#[test]
fn what_is_disabled_is_left_out() {
    let without = |path: FastPath, mut case: Case, plan: &str| {
        case.disabled.insert(path);
        case.is(plan);
    };
    let selection = || plan("|v: vec[i64]| result(for(v, appender[i32], |b, i, x| if(x > 3L, merge(b, i32(i)), b)))");
    without(FastPath::Selections, selection(), WITHOUT_BRANCH);
    let grouped = || {
        over_chunk(
            "codes i64",
            "|v: vec[{vec[u8],i64}]| tovec(result(for(v, dictmerger[vec[u8],{i64,i64,i64},+], |b, i, x|
               merge(b, {x.$0, {x.$1, x.$1, 1L}}))))",
        )
    };
    let (ahead, few) = ("keys hashed 128 ahead in tables of 512 KB and more", "values of up to 8 groups in registers");
    without(FastPath::GroupedLoops, grouped(), &format!("plain: strips of 128, {ahead}"));
    without(FastPath::FewGroups, grouped(), "grouped: strips of 1024 rows, keys by codes of $0, values row by row");
    without(FastPath::KeyCodes, grouped(), &format!("grouped: strips of 1024 rows, {ahead}, {few}"));
    let magnitudes =
        || over_chunk("i128", "|v: vec[i128]| result(for(v, merger[i128,|], |b, i, x| merge(b, magnitude(x))))");
    without(FastPath::Magnitudes, magnitudes(), PLAIN);
    let counted = || plan("|v: vec[i64]| tovec(result(for(v, dictmerger[i64,i64,+], |b, i, x| merge(b, {x, 1L}))))");
    without(FastPath::HashAhead, counted(), PLAIN);
    let looked_up =
        || plan("|v: vec[i64], d: dict[i64,i64]| result(for(v, merger[i64,+], |b, i, x| merge(b, lookup(d, x))))");
    without(FastPath::Prefetches, looked_up(), PLAIN);
    let placed = || plan("|v: vec[i64]| result(for(v, vecmerger[i64,+](v), |b, i, x| merge(b, {i, x})))");
    without(FastPath::CheckedIndices, placed(), PLAIN);
}

#[test]
fn fast_paths_are_found_by_name() {
    for path in FastPath::ALL {
        assert_eq!(FastPath::named(path.name()), Some(path));
    }
    assert_eq!(FastPath::named("nonsense"), None);
}

mod prefilters {
    use super::*;

    const WHOLE: &str = "prefilter: all rows of 15 vectors after one of which 15 in 16 pass, else";

    /// A loop that keeps rows, with this body.
    fn keeping(body: &str) -> Case {
        plan(&format!("|v: vec[i32], c: vec[i64], d: dict[i64,i64]| result(for(v, appender[i32], |b, i, x| {body}))"))
    }

    #[test]
    fn of_keys_that_a_table_may_contain() {
        let plain = format!("{WHOLE} {WITHOUT_BRANCH}");
        keeping("if(may_contain(d, lookup(c, i64(x))), merge(b, x), b)").is(&plain);
        keeping("let r = lookup(c, i64(x)); if(may_contain(d, r + 1L), merge(b, x), b)").is(&plain);
        keeping("if(may_contain(d, i), merge(b, i32(i)), b)").is(&plain);
    }

    #[test]
    fn not_of_what_must_not_pass() {
        keeping("if(may_contain(d, i64(x)) && x > 3, merge(b, x), b)").is(WITHOUT_BRANCH);
        keeping("if(may_contain(d, i64(x)), b, merge(b, x))").is(UP_TO_ONE);
    }

    #[test]
    fn not_of_other_values() {
        keeping("if(may_contain(d, i64(x)), merge(b, x + 1), b)").is(WITHOUT_BRANCH);
    }

    #[test]
    fn unless_left_out() {
        let mut case = keeping("if(may_contain(d, i64(x)), merge(b, x), b)");
        case.disabled.insert(FastPath::Prefilters);
        case.is(WITHOUT_BRANCH);
    }
}
