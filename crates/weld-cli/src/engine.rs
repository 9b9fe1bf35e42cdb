//! The two engines as DataFusion sessions: stock, and the same with Weld's rule.

use clap::ValueEnum;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use weld_datafusion::{WeldOptions, WeldSessionExt};

use crate::failure::Result;

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
pub(crate) fn session(engine: Engine, partitions: usize) -> Result<SessionContext> {
    session_with(engine, partitions, &[])
}

/// The same; with Weld, these settings are made before the session is built.
pub(crate) fn session_with(engine: Engine, partitions: usize, settings: &[(String, String)]) -> Result<SessionContext> {
    let mut config = SessionConfig::new().with_target_partitions(partitions).with_information_schema(true);
    let builder = SessionStateBuilder::new();
    let state = match engine {
        Engine::Datafusion => builder.with_config(config).with_default_features(),
        Engine::Weld => {
            config.options_mut().extensions.insert(WeldOptions::default());
            for (name, value) in settings {
                config.options_mut().set(name, value)?;
            }
            builder.with_config(config).with_default_features().with_weld()
        }
    };
    Ok(SessionContext::new_with_state(state.build()))
}

/// Each worker's stack: expressions are evaluated by recursion.
const STACK_BYTES: usize = 64 << 20;

/// A tokio runtime that, when it is dropped, does not wait for work in the background: code for runs that do not come.
pub(crate) struct Runtime(Option<tokio::runtime::Runtime>);

impl Runtime {
    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.0.as_ref().expect("it is there until it is dropped").block_on(future)
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(tokio::runtime::Runtime::shutdown_background);
    }
}

/// A runtime with as many workers as there are partitions, so that `--partitions 1` uses one core.
pub(crate) fn runtime(partitions: usize) -> std::io::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(partitions).thread_stack_size(STACK_BYTES).enable_all().build()?;
    Ok(Runtime(Some(runtime)))
}

/// As many as the machine has cores.
pub(crate) fn default_partitions() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
