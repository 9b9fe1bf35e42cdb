//! Programs over a stream, run chunk by chunk: what a chunk's memory held is gone when the next one comes.

use std::sync::Arc;

use weld_codegen::{Chunk, Column, CompileError, Compiled, OptLevel, Options, Stream, Tiers, Value as Native, compile};
use weld_core::interp::Value;
use weld_core::ir::{ExprKind, Iter, Program};
use weld_core::ty::Type;
use weld_core::{RuntimeError, opt};
use weld_runtime::Context;

/// Rows of the chunks, again and again.
const ROWS: [usize; 5] = [0, 1, 5, 2, 16];

/// A way of running a program over a stream.
#[derive(Clone, Copy, Debug)]
pub struct ByChunks {
    pub optimised: bool,
    pub level: OptLevel,
    pub tiers: Tiers,
    /// By two runs that share the chunks and are combined then.
    pub combined: bool,
}

impl ByChunks {
    /// Runs a program; `None` if there is no such way of running it.
    pub fn run(self, program: &Program, args: &[Value]) -> Option<Result<Value, RuntimeError>> {
        let at = program.params.iter().position(|param| param.stream)?;
        let Value::Vec(rows) = &args[at] else { return None };
        if self.combined && uses_index(program) {
            return None;
        }
        let program = match self.optimised {
            true => opt::Optimized::new(program.clone(), &opt::Config::default()),
            false => opt::Optimized::none(program.clone()),
        };
        let program = program.program();
        let options = Options {
            level: self.level,
            tiers: self.tiers,
            // Half of the runs are of programs cut into functions.
            uncut_nodes: if self.combined { 0 } else { usize::MAX },
            sanitize: cfg!(weld_asan),
            cudfs: crate::host::functions(),
            ..Options::default()
        };
        let compiled = match compile(program, &options) {
            Err(CompileError::Unsupported { .. }) => return None,
            compiled => compiled.unwrap_or_else(|error| panic!("{error}")),
        };
        // Rows of two runs that were taken have numbers of two dictionaries.
        if self.combined && compiled.streams_rows() && program.body.ty.element().is_none() {
            return None;
        }
        let others = args.iter().zip(&program.params).filter(|(_, param)| !param.stream);
        let others: Result<Vec<Native>, RuntimeError> =
            others.map(|(arg, param)| Native::from_interp(&param.ty, arg)).collect();
        let others = others.ok()?;
        let half = if self.combined { rows.len() / 2 } else { rows.len() };
        let ty = &program.params[at].ty;
        let body = &program.body.ty;
        Some(run(&compiled, &others, [&rows[..half], &rows[half..]], (ty, body), self.combined))
    }
}

fn run(
    compiled: &Arc<Compiled>,
    args: &[Native],
    halves: [&[Value]; 2],
    (ty, body): (&Type, &Type),
    combined: bool,
) -> Result<Value, RuntimeError> {
    let start = || compiled.stream(Arc::new(Context::unlimited()), args.to_vec());
    let mut stream = start()?;
    if let Some(rows) = process(&mut stream, halves[0], ty)? {
        let mut all = rows;
        all.extend(process(&mut stream, halves[1], ty)?.unwrap_or_default());
        if body.element().is_some() {
            return Ok(Value::vec(all));
        }
        // The rows of a numberer are the last field.
        let Value::Struct(fields) = stream.finish()?.to_interp()? else { panic!("rows of no numberer") };
        let others = fields.iter().take(fields.len() - 1).cloned();
        return Ok(Value::structure(others.chain([Value::vec(all)])));
    }
    if combined {
        let mut other = start()?;
        process(&mut other, halves[1], ty)?;
        stream.combine(other)?;
    }
    stream.finish()?.to_interp()
}

/// Gives rows to a stream, chunk by chunk. What it appends, if that comes chunk by chunk too.
fn process(stream: &mut Stream, rows: &[Value], ty: &Type) -> Result<Option<Vec<Value>>, RuntimeError> {
    let mut appended = None;
    let mut rest = rows;
    for size in ROWS.iter().cycle() {
        let (chunk, after) = rest.split_at(rest.len().min(*size));
        let native = Native::from_interp(ty, &Value::vec(chunk.to_vec()))?;
        let columns: Vec<Column<'_>> = native.columns().iter().filter_map(Column::of).collect();
        stream.process(&Chunk::new(chunk.len(), columns))?;
        if let Some(rows) = stream.rows()
            && let Value::Vec(rows) = rows.value().to_interp()?
        {
            appended.get_or_insert_with(Vec::new).extend(rows.iter().cloned());
        }
        if after.is_empty() {
            break;
        }
        rest = after;
    }
    Ok(appended)
}

/// Whether the loop over the stream asks for the number of a row, which is that in its own run.
fn uses_index(program: &Program) -> bool {
    let mut uses = false;
    program.body.walk(&mut |e| {
        if let ExprKind::For { iter, func, .. } = &e.kind
            && let Iter::Vector(data) = &**iter
            && matches!(data.kind, ExprKind::Var(sym) if program.params.iter().any(|p| p.stream && p.sym == sym))
        {
            uses |= func.body.count_uses(func.params[1].0) > 0;
        }
    });
    uses
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate;

    #[test]
    fn most_generated_streams_are_run() {
        let made: Vec<_> = (0..60).map(|seed| generate::program(seed, 12)).collect();
        let streams = made.iter().filter(|made| made.program.params.iter().any(|param| param.stream));
        let way = ByChunks { optimised: false, level: OptLevel::O0, tiers: Tiers::Single, combined: false };
        let (run, all) = streams.fold((0, 0), |(run, all), made| {
            (run + usize::from(way.run(&made.program, &made.args).is_some()), all + 1)
        });
        assert!(all >= 5 && run * 4 >= all * 3, "{run} of {all}");
    }
}
