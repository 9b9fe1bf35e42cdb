//! Stock DataFusion beside DataFusion with the rules of this crate, over the same tables.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use datafusion::common::config::ConfigOptions;
use datafusion::datasource::MemTable;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use weld_plans::PlanOptions;
use weld_table::WeldTable;

pub(crate) struct Both {
    pub(crate) stock: SessionContext,
    pub(crate) ours: SessionContext,
}

impl Both {
    pub(crate) fn new(config: SessionConfig, options: fn(&ConfigOptions) -> PlanOptions) -> Both {
        let stock = SessionContext::new_with_config(config.clone());
        let state = SessionStateBuilder::new()
            .with_default_features()
            .with_config(config)
            .with_optimizer_rule(Arc::new(weld_plans::CommonNames::new(options)))
            .with_physical_optimizer_rules(weld_plans::rules(PhysicalOptimizer::new().rules, options, &Arc::default()))
            .build();
        Both { stock, ours: SessionContext::new_with_state(state) }
    }

    pub(crate) async fn table(&self, name: &str, rows: &str) {
        let frame = self.stock.sql(rows).await.expect("valid SQL");
        let schema = Arc::new(frame.schema().as_arrow().clone());
        let batches = frame.collect().await.expect("it runs");
        for context in [&self.stock, &self.ours] {
            let table = MemTable::try_new(Arc::clone(&schema), vec![batches.clone()]).expect("one schema");
            context.register_table(name, Arc::new(table)).expect("a new name");
        }
    }

    /// A table that knows how many distinct values its columns have.
    pub(crate) async fn counted_table(&self, name: &str, rows: &str) {
        let frame = self.stock.sql(rows).await.expect("valid SQL");
        let schema = Arc::new(frame.schema().as_arrow().clone());
        let batches = frame.collect().await.expect("it runs");
        for context in [&self.stock, &self.ours] {
            let table = WeldTable::try_new(Arc::clone(&schema), batches.clone()).expect("one schema");
            context.register_table(name, Arc::new(table)).expect("a new name");
        }
    }

    /// The same rows from both; gives our plan.
    pub(crate) async fn check(&self, sql: &str) -> String {
        let rows = |context: &SessionContext| {
            let context = context.clone();
            async move {
                let batches = context.sql(sql).await.expect("valid SQL").collect().await;
                sorted_rows(&batches.unwrap_or_else(|error| panic!("{sql}\n{error}")))
            }
        };
        assert_eq!(rows(&self.ours).await, rows(&self.stock).await, "{sql}");
        shown(&plan_of(&self.ours, sql).await)
    }
}

pub(crate) async fn plan_of(context: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    context.sql(sql).await.expect("valid SQL").create_physical_plan().await.expect("it plans")
}

/// How many places of a plan read a subplan that is executed once.
pub(crate) fn readers(text: &str) -> usize {
    text.matches("CommonSubplanScanExec").count()
}

pub(crate) fn shown(plan: &Arc<dyn ExecutionPlan>) -> String {
    displayable(plan.as_ref()).indent(false).to_string()
}

pub(crate) fn sorted_rows(batches: &[RecordBatch]) -> Vec<String> {
    let text = pretty_format_batches(batches).expect("printable").to_string();
    let mut lines: Vec<String> = text.lines().filter(|line| line.starts_with('|')).map(str::to_owned).collect();
    lines.sort();
    lines
}
