//! Code for pipelines: their own and that of everything below, compiled at the same time.

use std::sync::Arc;
use std::time::Duration;

use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricBuilder;
use futures::future::{BoxFuture, FutureExt, join_all, join3};
use tokio::runtime::Handle;
use tokio::sync::OnceCell;
use weld_arrow::{expected_layout, whole_layout};
use weld_codegen::{ColumnLayout, Timing};

use crate::code_cache::Code;
use crate::exec::{Compilation, Inner, Pipeline, WeldExec};
use crate::gate::{self, Gate};
use crate::lower::lists::list;
use crate::lower::pipeline::{LoweredPipeline, Output};
use crate::scan::EncodedSource;

/// The code of this pipeline, provided that its build sides have theirs: a join is compiled whole or not at all.
///
/// Everything below is compiled at the same time, pipelines whose rows come here through DataFusion's operators
/// included: none of this pipeline's rows arrive before those have their code.
pub(super) fn code(inner: Arc<Inner>, context: Arc<TaskContext>) -> BoxFuture<'static, Result<Arc<Code>, String>> {
    async move {
        let builds = inner.builds().map(|build| code(Arc::clone(&build.inner), Arc::clone(&context)));
        let mut sources = Vec::new();
        pipelines_below(inner.source(), &mut sources);
        sources.retain(|source| source.gate() == Gate::Compile);
        let sources = sources.into_iter().map(|source| code(source, Arc::clone(&context)));
        let own = own_code(Arc::clone(&inner), Arc::clone(&context));
        let (own, builds, _) = join3(own, join_all(builds), join_all(sources)).await;
        builds.into_iter().collect::<Result<Vec<_>, _>>()?;
        own
    }
    .boxed()
}

/// The code of this pipeline alone.
async fn own_code(inner: Arc<Inner>, context: Arc<TaskContext>) -> Result<Arc<Code>, String> {
    // Unless another partition sets the same meanwhile.
    if inner.codes.code.get().is_none()
        && inner.reads_no_codes()
        && let Some(code) = known(&inner)
        && inner.codes.code.set(Ok(code)).is_ok()
    {
        count_hit(&inner);
    }
    let make = |inner: Arc<Inner>| async move {
        inner.choose_codes(&context).await;
        compiled(&inner).await
    };
    made_once(inner, |inner| &inner.codes.code, make).await
}

/// The code in a cell, made by the first who asks, in a task: whoever asks may poll once and then wait for something
/// else, which may wait for the same code. Nor may they wait for the cell itself, whose permit goes to the next in its
/// queue, polled or not.
async fn made_once<Making>(
    inner: Arc<Inner>,
    cell: fn(&Inner) -> &OnceCell<Result<Arc<Code>, String>>,
    make: impl FnOnce(Arc<Inner>) -> Making + Send + 'static,
) -> Result<Arc<Code>, String>
where
    Making: Future<Output = Result<Arc<Code>, String>> + Send + 'static,
{
    if let Some(code) = cell(&inner).get() {
        return code.clone();
    }
    let making = async move { cell(&inner).get_or_init(|| make(Arc::clone(&inner))).await.clone() };
    ended(SpawnedTask::spawn(making)).await
}

async fn ended(task: SpawnedTask<Result<Arc<Code>, String>>) -> Result<Arc<Code>, String> {
    task.join().await.unwrap_or_else(|error| Err(format!("the compiler's task failed: {error}")))
}

/// The same, compiled unless another query has done so meanwhile.
async fn compiled(inner: &Arc<Inner>) -> Result<Arc<Code>, String> {
    let found = || known(inner).inspect(|_| count_hit(inner));
    if let Some(code) = found() {
        return Ok(code);
    }
    let Pipeline { lowered, compilation, .. } = &*inner.pipeline;
    // Pipelines of the same program, here or in other queries, wait for the one that compiles.
    let turn = compilation.cache.turn(lowered, &compilation.settings);
    let _turn = turn.lock().await;
    if let Some(code) = found() {
        return Ok(code);
    }
    // More at a time than there are processors would only wait for each other.
    let _slot = compilation.cache.slot().await;
    let inner = Arc::clone(inner);
    ended(SpawnedTask::spawn_blocking(move || compile(&inner, &inner.pipeline.lowered))).await
}

/// The code of this pipeline, if it was compiled before, for the layouts that are expected: nothing is left to do on
/// another thread, which would have to wait for a processor.
fn known(inner: &Inner) -> Option<Arc<Code>> {
    let Pipeline { lowered, compilation: Compilation { cache, settings, plan, .. }, .. } = &*inner.pipeline;
    let is_ready = |code: &Code| match layouts(inner, lowered) {
        _ if !gives_rows(lowered, code) => false,
        Some(layouts) => code.compiled.is_prepared(&layouts),
        None => true,
    };
    cache.find(lowered, settings, *plan, is_ready)
}

fn count_hit(inner: &Inner) {
    MetricBuilder::new(&inner.metrics).counter("cache_hits", 0).add(1);
}

/// Whether code gives rows as they come, where accumulators need them. Code that was not fused does not.
fn gives_rows(lowered: &LoweredPipeline, code: &Code) -> bool {
    !matches!(lowered.output, Output::Groups { accumulated: Some(_), .. }) || code.compiled.streams_rows()
}

/// The first pipelines on every path down the plan.
fn pipelines_below(plan: &Arc<dyn ExecutionPlan>, found: &mut Vec<Arc<Inner>>) {
    match plan.downcast_ref::<WeldExec>() {
        Some(exec) => found.push(Arc::clone(&exec.inner)),
        None => plan.children().into_iter().for_each(|child| pipelines_below(child, found)),
    }
}

/// The code of a partial aggregate that makes a group of every row.
pub(super) async fn ungrouped(inner: Arc<Inner>) -> Result<Arc<Code>, String> {
    let make = |inner: Arc<Inner>| {
        ended(SpawnedTask::spawn_blocking(move || match inner.pipeline.lowered.ungrouped() {
            Some(lowered) => compile(&inner, lowered),
            None => Err("it has no groups".to_owned()),
        }))
    };
    made_once(inner, |inner| &inner.codes.ungrouped, make).await
}

fn compile(inner: &Inner, lowered: &LoweredPipeline) -> Result<Arc<Code>, String> {
    let (code, new) = inner.pipeline.compilation.code(lowered)?;
    if !gives_rows(lowered, &code) {
        return Err("its accumulators would get no rows before all have come".to_owned());
    }
    prepare(inner, lowered, code, new)
}

/// Compiles for the layouts that the input is expected to have, and notes the time that it took.
fn prepare(inner: &Inner, lowered: &LoweredPipeline, code: Arc<Code>, new: bool) -> Result<Arc<Code>, String> {
    let before = code.compile_time();
    // Failures show here, before anything runs; other layouts (with nulls, dictionaries) are compiled as they come.
    match layouts(inner, lowered) {
        Some(layouts) => code.compiled.prepare(&layouts),
        None => code.compiled.prepare_ends(),
    }
    .map_err(|error| error.to_string())?;
    let spent = code.compile_time().saturating_sub(if new { Duration::ZERO } else { before });
    MetricBuilder::new(&inner.metrics).subset_time("compile_time", 0).add_duration(spent);
    MetricBuilder::new(&inner.metrics).counter(if new { "cache_misses" } else { "cache_hits" }, 0).add(1);
    if new {
        note_phases(inner, lowered, &code);
    }
    inner.pipeline.compilation.cache.trim();
    Ok(code)
}

/// The layouts that a pipeline's input is expected to have, as far as its types and statistics tell.
pub(crate) fn layouts(inner: &Inner, lowered: &LoweredPipeline) -> Option<Vec<ColumnLayout>> {
    let schema = inner.source().schema();
    let encoded = EncodedSource::of(inner.source().as_ref()).filter(|_| inner.pipeline.scan);
    let as_codes = inner.read_as_codes();
    let expected = |index: &usize| {
        let declared = schema.field(*index).data_type();
        let layout = match &encoded {
            Some(source) => expected_layout(&source.stored_type(*index, declared, as_codes.contains(index))),
            None => expected_layout(declared),
        };
        let validity = lowered.schema.field(*index).is_nullable() && inner.nulls().get(*index) == Some(&true);
        layout.map(|layout| ColumnLayout { validity, ..layout })
    };
    let mut layouts: Vec<ColumnLayout> = lowered.inputs.iter().map(expected).collect::<Option<_>>()?;
    let lists = lowered.inputs.iter().filter(|index| list(schema.field(**index).data_type()).is_some());
    layouts.extend(lists.map(|_| whole_layout()));
    Some(layouts)
}

/// Where the time of compiling went, for EXPLAIN ANALYZE, and how it compares with what was expected.
fn note_phases(inner: &Inner, lowered: &LoweredPipeline, code: &Code) {
    let timings = code.compiled.timings();
    let stored = timings.iter().filter(|timing| timing.is_stored).count();
    MetricBuilder::new(&inner.metrics).counter("disk_hits", 0).add(stored);
    let time = |name: &'static str, phase: fn(&Timing) -> Duration| {
        let spent: Duration = timings.iter().map(phase).sum();
        MetricBuilder::new(&inner.metrics).subset_time(name, 0).add_duration(spent);
    };
    time("emit_time", |timing| timing.emit);
    time("llvm_passes_time", |timing| timing.passes);
    time("select_time", |timing| timing.select);
    time("link_time", |timing| timing.link);
    let made = timings.iter().filter(|timing| !timing.is_stored);
    let instructions = made.map(|timing| timing.emitted.instructions).sum();
    MetricBuilder::new(&inner.metrics).counter("llvm_instructions", 0).add(instructions);
    if stored == 0 {
        let took: Duration = timings.iter().map(Timing::total).sum();
        inner.pipeline.compilation.cache.rate.learn(&lowered.program, took);
    }
}

/// Compiles a pipeline without tables while operators begin in its place, on a thread of its own: they leave tokio's
/// threads no turn for a task.
pub(super) fn compile_during_trial(inner: &Arc<Inner>) {
    let inner = Arc::clone(inner);
    let runtime = Handle::current();
    // Nobody else sets it before the operators' time is over.
    let work = move || drop(inner.codes.code.set(runtime.block_on(compiled(&inner))));
    drop(tokio::task::spawn_blocking(work));
}

/// Compiles a pipeline and those whose tables it reads for the runs to come, once. Until their optimised code is there,
/// runs stay on the operators: cheap code would be no faster, and a run that found a program which is being compiled
/// would wait for a thread of low priority.
pub(super) fn compile_beside(inner: &Arc<Inner>) {
    let Pipeline { lowered, compilation, .. } = &*inner.pipeline;
    if !compilation.cache.claim(lowered, &compilation.settings) {
        return;
    }
    let inner = Arc::clone(inner);
    let work = move || {
        for member in gate::group(&inner) {
            if let Err(reason) = compile_optimised(member) {
                log::warn!("a pipeline does not compile: {reason}");
                return;
            }
        }
    };
    drop(tokio::task::spawn_blocking(move || weld_codegen::in_background(work)));
}

fn compile_optimised(inner: &Inner) -> Result<(), String> {
    let Pipeline { lowered, compilation: Compilation { cache, settings, plan, folder, .. }, .. } = &*inner.pipeline;
    if cache.has(lowered, settings) {
        return Ok(());
    }
    let code = cache.unkept(lowered, settings, *plan, folder.as_ref())?;
    code.compiled.prepare_optimised(layouts(inner, lowered).as_deref()).map_err(|error| error.to_string())?;
    cache.keep(lowered, settings, code);
    cache.trim();
    Ok(())
}
