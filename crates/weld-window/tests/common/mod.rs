//! Stock DataFusion beside DataFusion with `WindowExec` in the place of its window operators.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::util::pretty::pretty_format_batches;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::MemTable;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext, col};
use futures::{StreamExt, stream};
use weld_window::WindowExec;

#[derive(Debug)]
struct Rule;

impl PhysicalOptimizerRule for Rule {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            Ok(match WindowExec::of(&plan) {
                Some(Ok(exec)) => Transformed::yes(Arc::new(exec) as _),
                _ => Transformed::no(plan),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "windows"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct Needy {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    needs: usize,
}

impl PartitionStream for Needy {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let reservation = MemoryConsumer::new("needy rows").register(context.memory_pool());
        let needs = self.needs;
        let rows = stream::iter(self.batches.clone()).map(move |batch| {
            reservation.try_grow(needs)?;
            Ok(batch)
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows))
    }
}

pub(crate) struct Both {
    stock: SessionContext,
    ours: SessionContext,
}

impl Both {
    pub(crate) fn new(batch_rows: usize, partitions: usize, memory: Option<usize>) -> Both {
        let context = |ours: bool| {
            let mut runtime = RuntimeEnvBuilder::new();
            if let Some(bytes) = memory.filter(|_| ours) {
                runtime = runtime.with_memory_limit(bytes, 1.0);
            }
            let mut state = SessionStateBuilder::new()
                .with_default_features()
                .with_config(SessionConfig::new().with_batch_size(batch_rows).with_target_partitions(partitions))
                .with_runtime_env(Arc::new(runtime.build().expect("a runtime")));
            if ours {
                state = state.with_physical_optimizer_rule(Arc::new(Rule));
            }
            SessionContext::new_with_state(state.build())
        };
        Both { stock: context(false), ours: context(true) }
    }

    pub(crate) async fn table(&self, name: &str, rows: &str) {
        self.sorted_table(name, rows, &[]).await;
    }

    /// A table whose rows are known to be in the order of `columns`.
    pub(crate) async fn sorted_table(&self, name: &str, rows: &str, columns: &[&str]) {
        let frame = self.stock.sql(rows).await.expect("valid SQL");
        let schema = Arc::new(frame.schema().as_arrow().clone());
        let batches = frame.collect().await.expect("it runs");
        for context in [&self.stock, &self.ours] {
            let table = MemTable::try_new(Arc::clone(&schema), vec![batches.clone()]).expect("one schema");
            let order: Vec<_> = columns.iter().map(|name| col(*name).sort(true, false)).collect();
            let table = if order.is_empty() { table } else { table.with_sort_order(vec![order]) };
            context.register_table(name, Arc::new(table)).expect("a new name");
        }
    }

    /// The same rows, or an error, from both; gives our plan.
    pub(crate) async fn check(&self, sql: &str) -> String {
        let stock = rows(&self.stock, sql).await;
        let ours = rows(&self.ours, sql).await;
        match (ours, stock) {
            (Ok(ours), Ok(stock)) => assert_eq!(ours, stock, "{sql}"),
            (Err(ours), Err(stock)) => assert_eq!(ours, stock, "{sql}"),
            (ours, stock) => panic!("{sql}\nours: {ours:?}\nstock: {stock:?}"),
        }
        match self.ours.sql(sql).await.expect("it planned").create_physical_plan().await {
            Ok(plan) => displayable(plan.as_ref()).indent(false).to_string(),
            Err(error) => error.to_string(),
        }
    }

    /// What our operator gives.
    pub(crate) async fn batches(&self, sql: &str) -> Vec<RecordBatch> {
        self.ours.sql(sql).await.expect("valid SQL").collect().await.expect("it runs")
    }

    /// A table in the order of a column whose rows come with `needs` bytes more of the memory for each batch, as those
    /// of a sort that merges its runs.
    pub(crate) async fn needy_table(&self, name: &str, rows: &str, order: &str, needs: usize) {
        let frame = self.stock.sql(rows).await.expect("valid SQL");
        let schema = Arc::new(frame.schema().as_arrow().clone());
        let batches = frame.collect().await.expect("it runs");
        for context in [&self.stock, &self.ours] {
            let rows = Arc::new(Needy { schema: Arc::clone(&schema), batches: batches.clone(), needs });
            let table = StreamingTable::try_new(Arc::clone(&schema), vec![rows]).expect("one schema");
            let table = table.with_sort_order(vec![col(order).sort(true, false)]);
            context.register_table(name, Arc::new(table)).expect("a new name");
        }
    }

    /// How often DataFusion's operators took over.
    pub(crate) async fn handovers(&self, sql: &str) -> usize {
        let plan = self.ours.sql(sql).await.expect("valid SQL").create_physical_plan().await.expect("it plans");
        collect(Arc::clone(&plan), self.ours.task_ctx()).await.expect("it runs");
        counted(&plan)
    }
}

fn counted(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let own = plan.metrics().and_then(|metrics| metrics.sum_by_name("handovers")).map_or(0, |value| value.as_usize());
    own + plan.children().into_iter().map(counted).sum::<usize>()
}

async fn rows(context: &SessionContext, sql: &str) -> Result<Vec<String>, String> {
    let batches: Vec<RecordBatch> = match context.sql(sql).await {
        Ok(frame) => frame.collect().await.map_err(|error| error.strip_backtrace())?,
        Err(error) => return Err(error.strip_backtrace()),
    };
    let text = pretty_format_batches(&batches).expect("printable").to_string();
    let mut lines: Vec<String> = text.lines().filter(|line| line.starts_with('|')).map(str::to_owned).collect();
    lines.sort();
    Ok(lines)
}
