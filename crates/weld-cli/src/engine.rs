//! The two engines as DataFusion sessions: stock, and the same with Weld's rule.
//!
//! Everything that the command needs to know of `weld-datafusion` goes through this file.

use std::sync::Arc;

use clap::ValueEnum;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{SessionConfig, SessionContext};
use weld_datafusion::WeldSessionExt;

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Engine {
    Datafusion,
    Weld,
}

impl Engine {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Engine::Datafusion => "DataFusion",
            Engine::Weld => "Weld",
        }
    }
}

/// A session of its own. Both engines get the same configuration: DataFusion's defaults, but for the partitions.
pub(crate) fn session(engine: Engine, partitions: usize) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(partitions).with_information_schema(true);
    let builder = SessionStateBuilder::new().with_config(config).with_default_features();
    let builder = match engine {
        Engine::Datafusion => builder,
        Engine::Weld => builder.with_weld(),
    };
    SessionContext::new_with_state(builder.build())
}

/// What Weld did with a plan that has run.
#[derive(Clone, Default, Debug)]
pub(crate) struct Coverage {
    /// Operators that Weld could have taken: all of the plan's but scans and exchanges.
    pub(crate) total: usize,
    pub(crate) compiled: usize,
    pub(crate) declined: Vec<Declined>,
    pub(crate) compile_ms: f64,
}

/// An operator left to DataFusion, and why.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Declined {
    pub(crate) operator: String,
    pub(crate) reason: String,
}

pub(crate) fn coverage(plan: &Arc<dyn ExecutionPlan>) -> Coverage {
    let summary = weld_datafusion::summary(plan);
    let declined =
        |declined: weld_datafusion::Declined| Declined { operator: declined.operator, reason: declined.reason };
    Coverage {
        total: summary.operators_total,
        compiled: summary.operators_compiled,
        declined: summary.declined.into_iter().map(declined).collect(),
        compile_ms: summary.compile_time.as_secs_f64() * 1e3,
    }
}

/// A tokio runtime with as many workers as there are partitions, so that `--partitions 1` uses one core.
pub(crate) fn runtime(partitions: usize) -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(partitions).enable_all().build()
}

/// As many as the machine has cores.
pub(crate) fn default_partitions() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
