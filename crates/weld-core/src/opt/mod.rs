//! The optimizer: Weld in, better Weld out.
//!
//! A pass is a function that rewrites a program in place; [`PASSES`] is the one list of them, in order, each with the
//! reason for its place. [`optimize`] runs the list: it skips by name, takes times, verifies and dumps.
//!
//! What every pass keeps:
//! - types, and the invariants that [`crate::ir`] lists;
//! - the result. An error stays an error; which one is raised, when several would be, may change, and [`Optimized`]
//!   asks the program as it was written. What may fail is never evaluated where it was not evaluated before, and never
//!   dropped where it was;
//! - floats to the bit, except that a loop without `strict` may reassociate the `+` and `*` of its builders.

mod append_rows;
mod defer_checks;
mod drop_fields;
mod eliminate_common;
mod empty_branches;
mod facts;
mod find_rows;
mod fuse_horizontally;
mod fuse_loops;
mod hoist_dictionaries;
mod hoist_invariants;
mod inline_lets;
mod jam_loops;
mod lift_constants;
mod merge_locally;
mod narrow_columns;
mod narrow_integers;
mod narrow_loop;
mod nest_views;
mod optimized;
mod order_floats;
#[cfg(test)]
mod pipelines;
mod predicate;
mod prove_bounds;
mod simplify;
mod size_appenders;
mod split_stages;
mod split_structs;
#[cfg(test)]
mod testing;
mod trace_lengths;
mod unroll_loops;

pub use facts::{can_fail, is_text_call};
pub use lift_constants::{Constant, lift_constants, of_query};
pub use optimized::Optimized;
use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};
pub use trace_lengths::known_lengths;

use crate::ir::{Expr, ExprKind, Program, build, verify};

/// One entry of [`PASSES`]. A pass that stands there several times has one name.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// What settings call it.
    pub name: &'static str,
    /// Changes a program that verifies into one that does.
    pub run: fn(&mut Program, &Config),
    /// Why it stands where it stands.
    pub why: &'static str,
}

const fn pass(name: &'static str, run: fn(&mut Program, &Config), why: &'static str) -> Pass {
    Pass { name, run, why }
}

/// The passes in the order in which they run.
pub const PASSES: &[Pass] = &[
    pass("inline-lets", inline_lets::run, "puts a loop that is used once where its consumer can see it"),
    pass("trace-lengths", trace_lengths::run, "a length must not be what keeps a vector from having one reader"),
    pass("drop-fields", drop_fields::run, "while each result is made and read on its own: fused loops share a builder"),
    pass(
        "fuse-horizontally",
        fuse_horizontally::run,
        "a vector that several loops read gets one reader, so it can be fused",
    ),
    pass("inline-lets", inline_lets::run, "puts what now has one reader where that is"),
    pass("fuse-loops", fuse_loops::run, "early: fused loops show the scalar code that all others work on"),
    pass("inline-lets", inline_lets::run, "joins the blocks that fusion nested"),
    pass("split-structs", split_structs::run, "rows that a producer built and a consumer took apart become scalars"),
    pass("simplify", simplify::run, "constants that were fields of structs are visible now"),
    pass("inline-lets", inline_lets::run, "drops the fields that nobody reads"),
    pass("fuse-loops", fuse_loops::run, "vectors that were fields of rows are visible now"),
    pass("inline-lets", inline_lets::run, "joins the blocks that fusion nested"),
    pass("split-structs", split_structs::run, "after the second fusion as after the first"),
    pass("simplify", simplify::run, "as above; also joins nested filters into one, which stage splitting looks for"),
    pass("nest-views", nest_views::run, "the lists of views are literals by now; what follows sees plain loops"),
    pass("merge-locally", merge_locally::run, "the rows of views go to one place each"),
    pass("inline-lets", inline_lets::run, "gives the places their one name"),
    pass("append-rows", append_rows::run, "what goes to one place each is appended"),
    pass("fuse-loops", fuse_loops::run, "what reads the rows of views sees a loop that appends them"),
    pass("inline-lets", inline_lets::run, "joins the blocks that fusion nested"),
    pass("unroll-loops", unroll_loops::run, "short vectors were inlined; their loops' bodies are final"),
    pass("jam-loops", jam_loops::run, "no loop is fused any more with those that it takes apart"),
    pass("simplify", simplify::run, "indexes of unrolled loops are constants"),
    pass(
        "hoist-dictionaries",
        hoist_dictionaries::run,
        "looked-up values stand where they are used, conditions are joined",
    ),
    pass("prove-bounds", prove_bounds::run, "a lookup that cannot fail may be moved by all that follow"),
    pass("order-floats", order_floats::run, "before the comparisons that it makes meet those of the program"),
    pass("eliminate-common", eliminate_common::run, "after fusion, which brings the parts of producers together"),
    pass("hoist-invariants", hoist_invariants::run, "loops are what they will be but for stages"),
    pass("inline-lets", inline_lets::run, "names that turned out to be used once go back"),
    pass("split-stages", split_stages::run, "needs whole fused loops; makes the loops that narrowing guards"),
    pass("find-rows", find_rows::run, "stages are there, and nothing else has been made of their loops yet"),
    pass("inline-lets", inline_lets::run, "drops what a stage does not need"),
    pass("narrow-integers", narrow_integers::run, "guards each stage by the columns that it reads"),
    pass("inline-lets", inline_lets::run, "narrowed arithmetic cannot fail: dead parts of it go"),
    pass("defer-checks", defer_checks::run, "checks that narrowing has left, of loops that are final"),
    pass("inline-lets", inline_lets::run, "drops what the conditions of checks do not read"),
    pass("predicate", predicate::run, "after narrowing, which makes of checked arithmetic what may be speculated"),
    pass("size-appenders", size_appenders::run, "no loop is fused any more, which would drop the hints"),
    pass("simplify", simplify::run, "selects of constants, bounds of literals"),
    pass("inline-lets", inline_lets::run, "leaves the program in normal form"),
];

/// What the optimizer is asked to do, and what it is told about the data.
pub struct Config<'a> {
    /// Names of passes to leave out.
    pub disabled: BTreeSet<String>,
    /// Stop after the last entry of this name.
    pub stop_after: Option<String>,
    /// Verify after every pass. A pass that breaks the program is undone and reported (and fails a debug build).
    pub verify: bool,
    /// Called with the name of each pass that ran and the program after it.
    pub dump: Option<&'a dyn Fn(&str, &Program)>,
    /// How many rows of a stream go through the stages at a time.
    pub chunk_rows: u32,
}

impl Default for Config<'_> {
    fn default() -> Self {
        Config {
            disabled: BTreeSet::new(),
            stop_after: None,
            verify: cfg!(debug_assertions),
            dump: None,
            chunk_rows: 1024,
        }
    }
}

impl fmt::Debug for Config<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("disabled", &self.disabled)
            .field("stop_after", &self.stop_after)
            .field("verify", &self.verify)
            .field("chunk_rows", &self.chunk_rows)
            .finish_non_exhaustive()
    }
}

/// What [`optimize`] did.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Each pass that ran, in order, with its time.
    pub passes: Vec<(&'static str, Duration)>,
    /// Passes that broke an invariant and were undone: always a defect of the pass.
    pub broken: Vec<(&'static str, String)>,
}

impl Report {
    /// The time of all passes.
    pub fn total(&self) -> Duration {
        self.passes.iter().map(|(_, time)| *time).sum()
    }
}

impl fmt::Display for Report {
    /// A line a pass name, with the time of all its runs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sums: Vec<(&str, Duration, usize)> = Vec::new();
        for (name, time) in &self.passes {
            match sums.iter_mut().find(|(known, ..)| known == name) {
                Some((_, sum, runs)) => {
                    *sum += *time;
                    *runs += 1;
                }
                None => sums.push((name, *time, 1)),
            }
        }
        for (name, time, runs) in sums {
            writeln!(f, "{name:<16} {:>9.1} us  {runs}x", time.as_secs_f64() * 1e6)?;
        }
        write!(f, "{:<16} {:>9.1} us", "total", self.total().as_secs_f64() * 1e6)
    }
}

/// The names of all passes, each once.
pub fn pass_names() -> BTreeSet<&'static str> {
    PASSES.iter().map(|pass| pass.name).collect()
}

/// Runs [`PASSES`] over the program.
pub fn optimize(program: &mut Program, config: &Config) -> Report {
    let mut report = Report::default();
    let end = match &config.stop_after {
        Some(name) => PASSES.iter().rposition(|pass| pass.name == name).map_or(PASSES.len(), |i| i + 1),
        None => PASSES.len(),
    };
    for pass in &PASSES[..end] {
        if !config.disabled.contains(pass.name) {
            run_pass(pass, program, config, &mut report);
        }
    }
    report
}

/// Normal form for all passes: a block whose body a pass made a block is joined with it.
fn join_blocks(body: &mut Expr) {
    body.rewrite(&mut |e| {
        if let ExprKind::Let { bindings, body } = &mut e.kind
            && matches!(body.kind, ExprKind::Let { .. })
        {
            *e = build::let_in(std::mem::take(bindings), body.take());
        }
    });
}

fn run_pass(pass: &Pass, program: &mut Program, config: &Config, report: &mut Report) {
    let before = config.verify.then(|| program.clone());
    let start = Instant::now();
    (pass.run)(program, config);
    join_blocks(&mut program.body);
    report.passes.push((pass.name, start.elapsed()));
    if let Some(before) = before
        && let Err(errors) = verify(program)
    {
        debug_assert!(false, "{} broke the program: {errors:?}\n{before}\n=>\n{program}", pass.name);
        report.broken.push((pass.name, format!("{errors:?}")));
        *program = before;
    }
    if let Some(dump) = config.dump {
        dump(pass.name, program);
    }
}
