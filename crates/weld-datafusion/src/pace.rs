//! Whether compiled code is faster than the operators that it replaces, by what both took for a row.
//!
//! That code is faster is expected and not known: a row of many columns that only moves, or a call of a function on
//! texts, takes as long in both. Where the operators began a pipeline ([`crate::deferred_gate`]), it is measured what a
//! row took them, and later what a row takes code. Code that was slower does not run again, unless there is better.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What fewer rows took says nothing.
const ROWS_MIN: usize = 1 << 14;

/// Optimised code runs so often before it is judged: the first of its runs shares the processors with its making.
const OPTIMISED_RUNS: u32 = 2;

/// As much longer may code take as operators: either is measured beside other work.
const SLACK: f64 = 1.1;

/// What is known of a pipeline's code.
#[derive(Debug, Default)]
pub(crate) struct Pace(Mutex<Known>);

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    cheap: Fastest,
    optimised: Fastest,
}

/// Nanoseconds of a row in the fastest of so many runs.
#[derive(Clone, Copy, Debug, Default)]
struct Fastest {
    runs: u32,
    nanoseconds: f64,
}

impl Fastest {
    fn note(&mut self, nanoseconds: f64) {
        self.nanoseconds = if self.runs == 0 { nanoseconds } else { self.nanoseconds.min(nanoseconds) };
        self.runs = self.runs.saturating_add(1);
    }
}

/// The quality of code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Quality {
    Cheap,
    Optimised,
}

impl Pace {
    /// Notes that code of one quality took `spent` for so many rows of a partition.
    pub(crate) fn note(&self, quality: Quality, rows: usize, spent: Duration) {
        let Some(nanoseconds) = of_row(rows, spent) else { return };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match quality {
            Quality::Cheap => known.cheap.note(nanoseconds),
            Quality::Optimised => known.optimised.note(nanoseconds),
        }
    }

    /// Whether code of this quality was slower than the operators, which took so many nanoseconds for a row.
    pub(crate) fn is_slower(&self, quality: Quality, operators: f64) -> bool {
        let known = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (code, runs_min) = match quality {
            Quality::Cheap => (known.cheap, 1),
            Quality::Optimised => (known.optimised, OPTIMISED_RUNS),
        };
        code.runs >= runs_min && code.nanoseconds > operators * SLACK
    }
}

/// Nanoseconds of a row; nothing of few rows.
pub(crate) fn of_row(rows: usize, spent: Duration) -> Option<f64> {
    (rows >= ROWS_MIN).then(|| spent.as_nanos() as f64 / rows as f64)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, RecordBatch};
    use datafusion::execution::session_state::SessionStateBuilder;
    use datafusion::physical_plan::collect;
    use datafusion::prelude::SessionContext;

    use super::*;
    use crate::{Summary, WeldSessionExt, pipelines, summary};

    const ROWS: usize = 100_000;

    fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn the_fastest_run_of_code_counts() {
        let (pace, operators) = (Pace::default(), of_row(ROWS / 2, micros(400)).unwrap());
        assert!(!pace.is_slower(Quality::Cheap, operators));
        pace.note(Quality::Cheap, ROWS, micros(900));
        assert!(pace.is_slower(Quality::Cheap, operators));
        pace.note(Quality::Cheap, ROWS, micros(850));
        pace.note(Quality::Cheap, ROWS, micros(5_000));
        assert!(!pace.is_slower(Quality::Cheap, operators));
    }

    #[test]
    fn better_code_is_judged_after_its_second_run() {
        let (pace, operators) = (Pace::default(), of_row(ROWS, micros(400)).unwrap());
        pace.note(Quality::Cheap, ROWS, micros(900));
        assert!(!pace.is_slower(Quality::Optimised, operators));
        pace.note(Quality::Optimised, ROWS, micros(600));
        assert!(!pace.is_slower(Quality::Optimised, operators));
        pace.note(Quality::Optimised, ROWS, micros(500));
        assert!(pace.is_slower(Quality::Optimised, operators));
    }

    #[test]
    fn few_rows_say_nothing() {
        let pace = Pace::default();
        pace.note(Quality::Cheap, ROWS_MIN - 1, micros(5_000));
        assert!(!pace.is_slower(Quality::Cheap, 4.0) && of_row(ROWS_MIN - 1, micros(5_000)).is_none());
    }

    #[tokio::test]
    async fn operators_run_where_code_was_slower() {
        let state = SessionStateBuilder::new().with_default_features().with_weld().build();
        let context = SessionContext::new_with_state(state);
        let values = Int64Array::from_iter_values(0..100);
        let batch = RecordBatch::try_from_iter([("a", Arc::new(values) as _)]).unwrap();
        context.register_batch("t", batch).unwrap();
        context.sql("set weld.plan_min_rows = 0").await.unwrap();
        // With so many rows as are worth compiling for; then it is noted what a row takes operators.
        let run = async |rows_min: usize, operators: f64| -> Summary {
            context.sql(&format!("set weld.compile_min_rows = {rows_min}")).await.unwrap();
            let sql = context.sql("select a * 2 from t where a % 3 = 1").await.unwrap();
            let plan = sql.create_physical_plan().await.unwrap();
            let batches = collect(Arc::clone(&plan), context.task_ctx()).await.unwrap();
            assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 33);
            for exec in pipelines(&plan) {
                let compilation = &exec.inner.pipeline.compilation;
                let lowered = &exec.inner.pipeline.lowered;
                compilation.cache.note_operators(lowered, &compilation.settings, operators);
                if let Some(Ok(code)) = exec.inner.codes.code.get() {
                    code.pace.note(code.quality(), ROWS, micros(400));
                }
            }
            summary(&plan)
        };
        assert_eq!(run(usize::MAX, 2.0).await.operators_compiled, 0);
        assert!(run(0, 2.0).await.operators_compiled > 0);
        let slower = run(1, 5.0).await;
        assert_eq!(slower.operators_compiled, 0);
        assert!(slower.declined.iter().any(|declined| declined.reason == crate::gate::SLOWER_REASON), "{slower:?}");
        // It counts what operators took last.
        assert!(run(1, 5.0).await.operators_compiled > 0);
    }
}
