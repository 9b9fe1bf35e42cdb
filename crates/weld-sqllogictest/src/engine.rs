//! One side of the comparison: a session of a test file, with the rule or without, and what its last record came to.
//!
//! EXPLAIN is planned with the rule, and then answered without it: a plan's text is DataFusion's.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use datafusion::common::{Result, internal_err};
use datafusion::error::DataFusionError;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, collect};
use datafusion::prelude::SessionContext;
use datafusion_sqllogictest::{
    DFColumnType, DFOutput, DFSqlLogicTestError, TestContext, convert_batches, convert_schema_to_types, is_spark_path,
};
use sqllogictest::{AsyncDB, DBOutput};
use weld_datafusion::compare::{Answer, error_class};
use weld_datafusion::{WeldOptions, WeldRule, pipelines, summary};

use crate::record::{Compiled, Outcome};
use crate::settings::Setting;

/// A record that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(300);

/// Functions that take names from each other are registered so often.
const ROUNDS_MAX: usize = 10;

/// What the last record came to, and how much of it was compiled.
pub(crate) type Last = Arc<Mutex<Option<(Outcome, Compiled)>>>;

pub(crate) struct Engine {
    context: SessionContext,
    file: PathBuf,
    weld: bool,
    last: Last,
}

impl Engine {
    pub(crate) fn new(test: &TestContext, file: PathBuf, weld: bool, last: Last) -> Engine {
        Engine { context: test.session_ctx().clone(), file, weld, last }
    }

    async fn outcome(&self, sql: &str) -> Result<(Arc<dyn ExecutionPlan>, Answer, bool)> {
        let words: Vec<String> = words(sql).map(str::to_lowercase).collect();
        let explains = words.first().is_some_and(|word| word == "explain");
        let analyzes = explains && words.get(1).is_some_and(|word| word == "analyze");
        let (plan, answer) = answer(&self.context, sql).await?;
        if self.weld && explains && !analyzes {
            let (_, answer) = self::answer(&without_rule(&self.context), sql).await?;
            return Ok((plan, answer, false));
        }
        Ok((plan, answer, analyzes))
    }
}

/// The first words of a statement, after its comments.
fn words(sql: &str) -> impl Iterator<Item = &str> {
    sql.lines().filter(|line| !line.trim_start().starts_with("--")).flat_map(str::split_whitespace)
}

/// The rule with its settings put into a session, or nothing but the settings that both get.
pub(crate) fn prepare(test: &TestContext, setting: Setting, rule: Option<&Arc<WeldRule>>, opt_level: u8) -> Result<()> {
    let state = test.session_ctx().state_ref();
    let mut prepared = state.read().clone();
    let options = prepared.config_mut().options_mut();
    options.set("datafusion.execution.batch_size", &setting.batch_rows.to_string())?;
    options.set("datafusion.execution.target_partitions", &setting.partitions.to_string())?;
    if let Some(rule) = rule {
        options.extensions.insert(WeldOptions::default());
        options.set("weld.opt_level", &opt_level.to_string())?;
        options.set("weld.compile_min_rows", "0")?;
        let before = prepared.clone();
        let builder = SessionStateBuilder::new_from_existing(prepared);
        prepared = builder.with_physical_optimizer_rule(Arc::clone(rule) as _).build();
        register_again(&before, &mut prepared)?;
    }
    *state.write() = prepared;
    Ok(())
}

/// Puts functions under the names that they had. A session that is built from another registers them in any order, and
/// a function that was left to its alias takes its name back from the one that had replaced it.
fn register_again(before: &SessionState, after: &mut SessionState) -> Result<()> {
    for _ in 0..ROUNDS_MAX {
        let scalars = others(before.scalar_functions(), after.scalar_functions());
        let aggregates = others(before.aggregate_functions(), after.aggregate_functions());
        let windows = others(before.window_functions(), after.window_functions());
        if scalars.is_empty() && aggregates.is_empty() && windows.is_empty() {
            return Ok(());
        }
        scalars.into_iter().try_for_each(|function| after.register_udf(function).map(drop))?;
        aggregates.into_iter().try_for_each(|function| after.register_udaf(function).map(drop))?;
        windows.into_iter().try_for_each(|function| after.register_udwf(function).map(drop))?;
    }
    internal_err!("functions take each other's names")
}

/// The functions of `before` under whose names there are others now.
fn others<F>(before: &HashMap<String, Arc<F>>, after: &HashMap<String, Arc<F>>) -> Vec<Arc<F>> {
    let is_other =
        |(name, function): &(&String, &Arc<F>)| after.get(*name).is_none_or(|now| !Arc::ptr_eq(function, now));
    before.iter().filter(is_other).map(|(_, function)| Arc::clone(function)).collect()
}

/// The same session as it is now, without the rule.
fn without_rule(context: &SessionContext) -> SessionContext {
    let state = context.state();
    let rules = state.physical_optimizers().iter().filter(|rule| rule.name() != "weld").cloned().collect();
    let builder = SessionStateBuilder::new_from_existing(state).with_physical_optimizer_rules(rules);
    SessionContext::new_with_state(builder.build())
}

async fn answer(context: &SessionContext, sql: &str) -> Result<(Arc<dyn ExecutionPlan>, Answer)> {
    let frame = context.sql(sql).await?;
    let task = Arc::new(frame.task_ctx());
    let plan = frame.create_physical_plan().await?;
    let batches = collect(Arc::clone(&plan), task).await?;
    // Of several partitions, each is in order and not all together.
    let ordering = plan.output_ordering().filter(|_| plan.output_partitioning().partition_count() == 1).cloned();
    let answer = Answer { schema: plan.schema(), batches, ordering };
    Ok((plan, answer))
}

fn compiled(plan: &Arc<dyn ExecutionPlan>) -> Compiled {
    let fallbacks = pipelines(plan).iter().filter(|exec| exec.compile_error().is_some()).count();
    Compiled { operators: summary(plan).operators_compiled, fallbacks }
}

#[async_trait]
impl AsyncDB for Engine {
    type Error = DFSqlLogicTestError;
    type ColumnType = DFColumnType;

    /// In a task of its own: a panic is an outcome.
    async fn run(&mut self, sql: &str) -> Result<DFOutput, DFSqlLogicTestError> {
        let engine = Engine { context: self.context.clone(), file: self.file.clone(), last: Arc::default(), ..*self };
        let text = sql.to_owned();
        let mut task = tokio::spawn(async move { engine.outcome(&text).await });
        let ended = tokio::time::timeout(PATIENCE, &mut task).await;
        task.abort();
        let mut ran = Compiled::default();
        let (outcome, output) = match ended {
            Err(_) => broke("does not end"),
            Ok(Err(panic)) => broke(&format!("panics: {panic}")),
            Ok(Ok(Err(error))) => {
                let (class, message) = (error_class(&error), error.strip_backtrace());
                (Outcome::Failed { class, message }, Err(error.into()))
            }
            Ok(Ok(Ok((plan, answer, analyzes)))) => {
                ran = compiled(&plan);
                let output = output(&answer, is_spark_path(&self.file));
                (if analyzes { Outcome::Ran } else { Outcome::Rows(answer) }, output)
            }
        };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((outcome, ran));
        output
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "DataFusion"
    }
}

fn broke(how: &str) -> (Outcome, Result<DFOutput, DFSqlLogicTestError>) {
    let error = DataFusionError::Execution(how.to_owned());
    (Outcome::Broke(how.to_owned()), Err(error.into()))
}

/// As the suite's own engine writes rows.
fn output(answer: &Answer, spark: bool) -> Result<DFOutput, DFSqlLogicTestError> {
    let types = convert_schema_to_types(answer.schema.fields());
    let rows = convert_batches(&answer.schema, answer.batches.clone(), spark)?;
    Ok(if rows.is_empty() && types.is_empty() {
        DBOutput::StatementComplete(0)
    } else {
        DBOutput::Rows { types, rows }
    })
}
