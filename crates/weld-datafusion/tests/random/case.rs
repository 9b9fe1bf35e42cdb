//! One query over some tables under some settings, on both engines: what differs, if anything does.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::TreeNode;
use datafusion::datasource::MemTable;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr, PhysicalSortRequirement};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::buffer::BufferExec;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, InputOrderMode, collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use weld_datafusion::compare::{self, Answer, ErrorClass, error_class};
use weld_datafusion::{Summary, WeldOptions, WeldSessionExt, WeldTable, summary};

use super::files::Writing;
use super::functions;
use super::settings::Settings;
use super::tables::{Table, one_row_batches};

/// A query that takes longer does not end. Seconds in which the process is stopped do not count.
const PATIENCE_SECONDS: usize = 300;

/// How DataFusion tells of a panic in a task of its own.
const TASK_PANICKED: &str = "panicked with message";

const BATCH_SIZE: &str = "datafusion.execution.batch_size";

/// Everything that a query's answer depends on.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) tables: Vec<Table>,
    pub(crate) storage: Storage,
    pub(crate) settings: Settings,
    pub(crate) sql: String,
    /// How often it runs in one session: code, pools of buffers and estimates stay.
    pub(crate) runs: usize,
}

/// Where the tables are.
#[derive(Clone, Debug)]
pub(crate) enum Storage {
    /// Record batches.
    Memory,
    /// Encoded, with zones of so many rows; stock has record batches.
    Encoded(usize),
    Parquet(Writing),
}

/// What became of a query on both engines.
#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    Same(Summary),
    /// Both fail.
    Errors,
    Differs(String),
}

/// The two sessions, over the same tables.
pub(crate) struct Engines {
    stock: SessionContext,
    weld: SessionContext,
}

struct Failure {
    class: ErrorClass,
    message: String,
}

impl Case {
    /// In sessions of its own.
    pub(crate) async fn verdict(&self) -> Verdict {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let engines = Engines::new(&self.tables, &self.storage, folder.path()).await;
        engines.verdict(self).await
    }

    /// For people: the query, its settings and its tables.
    pub(crate) fn describe(&self) -> String {
        let used = self.tables.iter().filter(|table| self.sql.contains(&format!(" {} AS ", table.name)));
        let shown: Vec<String> = used.map(Table::describe).collect();
        let place = match &self.storage {
            Storage::Memory => "in memory".to_owned(),
            Storage::Encoded(zone_rows) => format!("encoded, zones of {zone_rows}"),
            Storage::Parquet(writing) => format!("in Parquet, {writing:?}"),
        };
        let runs = if self.runs > 1 { format!(", {} runs", self.runs) } else { String::new() };
        format!("{}\n{place}{runs}; {}\n{}", self.sql, self.settings, shown.join("\n"))
    }
}

/// Whether each query is printed before it runs.
pub(crate) fn is_shown() -> bool {
    std::env::var_os("WELD_SQL_SHOW").is_some()
}

fn session(weld: bool) -> SessionContext {
    // Everything is compiled, over however few rows.
    let mut options = WeldOptions::default();
    options.compile_min_rows = 0;
    let config = SessionConfig::new().with_option_extension(options);
    let builder = SessionStateBuilder::new().with_config(config).with_default_features();
    SessionContext::new_with_state(if weld { builder.with_weld() } else { builder }.build())
}

/// The rows with dictionaries of the entries that they use: DataFusion casts all entries, of which others may fail.
fn with_used_entries(rows: RecordBatch) -> RecordBatch {
    let used = |column: &ArrayRef| match column.data_type() {
        DataType::Dictionary(_, entries) => cast(&cast(column, entries)?, column.data_type()),
        _ => Ok(Arc::clone(column)),
    };
    let columns = rows.columns().iter().map(|column| used(column).unwrap_or_else(|_| Arc::clone(column)));
    RecordBatch::try_new(rows.schema(), columns.collect()).expect("the same types")
}

/// Parts of errors that are DataFusion's alone.
const STOCK_FAILS: [&str; 4] = [
    "Uncomparable values: ",
    "run_ends array",
    "Can not create index of type",
    "Expects PARTITION BY expression to be ordered",
];

/// Parts of errors of DataFusion's operators that depend on the plan: arrow-rs does not look at the bytes of
/// dictionaries that are read as texts (`binary_as_string`), partial aggregates give percentiles the values of their
/// order as well, and sort-merge joins do not compare dictionaries, where there is anything to compare.
const OTHER_PLAN_FAILS: [&str; 3] =
    ["is not UTF-8", "one argument to merge_batch", "Unsupported data type in sort merge join comparator"];

impl Engines {
    pub(crate) async fn new(tables: &[Table], storage: &Storage, folder: &Path) -> Engines {
        let engines = Engines { stock: session(false), weld: session(true) };
        functions::register(&engines.weld, &engines.stock).await;
        for table in tables {
            let schema = table.batches[0].schema();
            let memory = |order| -> Arc<dyn TableProvider> {
                let mem = MemTable::try_new(schema.clone(), table.partitions()).expect("one schema");
                Arc::new(mem.with_sort_order(order))
            };
            let register = |context: &SessionContext, provider| {
                context.register_table(&table.name, provider).expect("a new name");
            };
            match storage {
                Storage::Memory => {
                    [&engines.stock, &engines.weld].map(|context| register(context, memory(table.sort_order())))
                }
                Storage::Encoded(zone_rows) => {
                    let encoded = WeldTable::with_zone_rows(schema.clone(), table.batches.clone(), *zone_rows);
                    register(&engines.weld, Arc::new(encoded.expect("one schema")));
                    // Which declare no order.
                    register(&engines.stock, memory(Vec::new()));
                    [(), ()]
                }
                Storage::Parquet(writing) => {
                    let path = folder.join(&table.name);
                    writing.write(table, &path);
                    writing.register(&engines.stock, table, &path).await;
                    writing.register(&engines.weld, table, &path).await;
                    [(), ()]
                }
            };
        }
        engines
    }

    /// What became of the last run, or of the first that differs.
    pub(crate) async fn verdict(&self, case: &Case) -> Verdict {
        let mut verdict = self.verdict_of_run(case).await;
        for _ in 1..case.runs {
            if matches!(verdict, Verdict::Differs(_)) {
                break;
            }
            verdict = self.verdict_of_run(case).await;
        }
        verdict
    }

    /// The settings are changed in the sessions as they are: some differ from those of the query before.
    async fn verdict_of_run(&self, case: &Case) -> Verdict {
        case.settings.apply(&self.stock, false);
        case.settings.apply(&self.weld, true);
        if is_shown() {
            println!("{}; {}", case.settings, case.sql);
        }
        let stock = run(&self.stock, &case.sql).await;
        if is_shown() {
            println!("stock has ended");
        }
        let weld = run(&self.weld, &case.sql).await;
        if let (Err(error), true) = (&stock, is_shown()) {
            println!("stock: {}", error.message);
        }
        match (stock, weld) {
            (Ok((mut stock, _)), Ok((mut weld, summary))) => {
                if matches!(case.storage, Storage::Encoded(_)) {
                    // DataFusion answers with what only these tables know exactly, the least and the largest values.
                    for answer in [&mut stock, &mut weld] {
                        answer.schema = all_nullable(&answer.schema);
                    }
                }
                let left_out = case.settings.leaves_out_passes();
                let failed = summary.declined.iter().find(|declined| declined.reason.contains("does not compile"));
                match (compare::difference(&stock, &weld), failed) {
                    (Ok(Some(_)), _) if self.stock_is_wrong(&case.sql).await => Verdict::Errors,
                    (Ok(Some(_)), _) if self.stock_gives(case, &weld).await => Verdict::Errors,
                    (Ok(Some(_)), _) if self.stock_pushes_elsewhere(case, &weld).await => Verdict::Errors,
                    (Ok(Some(difference)), _) => Verdict::Differs(difference),
                    (Err(error), _) => Verdict::Differs(format!("cannot be compared: {error}")),
                    (_, Some(failed)) if !left_out => Verdict::Differs(failed.reason.clone()),
                    _ => Verdict::Same(summary),
                }
            }
            (Err(stock), Err(weld)) if stock.class == weld.class => Verdict::Errors,
            // An assertion of DataFusion's, or a kernel that overflows in debug builds: there is nothing to compare
            // with.
            (Err(stock), _) if stock.message.starts_with("panic: ") || stock.message.contains(TASK_PANICKED) => {
                Verdict::Errors
            }
            // Which of two errors comes first may depend on where batches begin.
            (Err(_), Err(weld)) if weld.class != ErrorClass::Internal => Verdict::Errors,
            (Err(stock), Err(weld)) => {
                Verdict::Differs(format!("both fail, stock: {}\nweld: {}", stock.message, weld.message))
            }
            // A function of DataFusion's that gives another type than it declares: `round` of a decimal without a
            // scale.
            (Ok(_), Err(weld)) if is_of_other_type(&weld.message) => Verdict::Errors,
            (Ok(_), Err(weld)) if weld.message.contains("weld.verify") && self.stock_is_wrong(&case.sql).await => {
                Verdict::Errors
            }
            // Rows that are read ahead may fail before a filter of the join drops them, or be dropped before they fail.
            (Ok(_), Err(weld))
                if weld.message.contains("weld.verify: stock DataFusion fails")
                    && self.stock_has(&case.sql, |node| node.is::<BufferExec>()).await =>
            {
                Verdict::Errors
            }
            (Ok(_), Err(weld))
                if weld.class != ErrorClass::Internal && self.fails_for_all_rows(case, weld.class).await =>
            {
                Verdict::Errors
            }
            (Ok(_), Err(weld)) if self.fails_over_encoded(case, weld.class).await => Verdict::Errors,
            (Ok(_), Err(weld)) if OTHER_PLAN_FAILS.iter().any(|text| weld.message.contains(text)) => Verdict::Errors,
            (Ok(_), Err(weld)) => Verdict::Differs(format!("stock gives rows, weld: {}", weld.message)),
            (Err(stock), Ok(_))
                // DataFusion does not order lists and maps without an entry, nor take windows of run-end-encoded
                // columns of one row; it counts the rows of a window in the type of a dictionary's codes, and loses the
                // order of its partitions over casts.
                if is_of_other_type(&stock.message)
                    || STOCK_FAILS.iter().any(|text| stock.message.contains(text)) =>
            {
                Verdict::Errors
            }
            (Err(stock), Ok((answer, _)))
                if answer.batches.iter().all(|batch| batch.num_rows() == 0)
                    && self.fails_for_no_rows(case, stock.class).await =>
            {
                Verdict::Errors
            }
            // What reads ahead meets errors in rows that nobody asks for.
            (Err(_), Ok(_)) if self.stock_has(&case.sql, |node| node.is::<BufferExec>()).await => Verdict::Errors,
            // Whether the operand that fails is evaluated may depend on where batches begin.
            (Err(stock), Ok(_)) => match self.row_by_row(case).await {
                Ok(_) => Verdict::Errors,
                Err(_) if self.fails_as_written(case, stock.class).await => Verdict::Errors,
                Err(_) => Verdict::Differs(format!("weld gives rows, stock: {}", stock.message)),
            },
        }
    }

    /// Whether the query meets a defect of DataFusion's that the extension does not have.
    async fn stock_is_wrong(&self, sql: &str) -> bool {
        self.stock_drops_rows(sql).await
            || self.stock_repeats_groups(sql).await
            || self.stock_sorts_nested(sql).await
            || self.stock_skips_any_rows(sql).await
            || self.stock_orders_windows_by_less(sql).await
            || self.stock_turns_distinct_round(sql).await
    }

    /// Whether DataFusion gives this answer, too, where it pushes no conditions: it goes by the names of columns, of
    /// which two may be the same.
    async fn stock_pushes_elsewhere(&self, case: &Case, answer: &Answer) -> bool {
        let state = self.stock.state();
        let rules =
            state.physical_optimizers().iter().filter(|rule| rule.name() != "FilterPushdown").cloned().collect();
        let state = SessionStateBuilder::new_from_existing(state).with_physical_optimizer_rules(rules).build();
        let other = run(&SessionContext::new_with_state(state), &case.sql).await;
        other.is_ok_and(|(other, _)| matches!(compare::difference(&other, answer), Ok(None)))
    }

    /// Whether DataFusion takes a key of a window for a constant that is one of the input of an outer join alone, which
    /// adds nulls.
    async fn stock_orders_windows_by_less(&self, sql: &str) -> bool {
        self.stock_has(sql, |node| {
            let is_window = node.is::<WindowAggExec>() || node.is::<BoundedWindowAggExec>();
            let keys = node.required_input_ordering().into_iter().flatten().map(|keys| keys.into_single());
            let known = node.children().first().map(|input| input.equivalence_properties());
            let is_constant =
                |key: PhysicalSortRequirement| known.is_some_and(|known| known.is_expr_constant(&key.expr).is_some());
            is_window
                && keys.flatten().any(is_constant)
                && node.exists(|node| Ok(adds_nulls(node))).expect("nothing fails")
        })
        .await
    }

    /// Whether DataFusion gives distinct values in the opposite order: it turns the call round, since the rows are so,
    /// and not the values.
    async fn stock_turns_distinct_round(&self, sql: &str) -> bool {
        let is_turned = |call: &Arc<AggregateFunctionExpr>| call.is_distinct() && call.is_reversed();
        self.stock_has(sql, |node| {
            node.downcast_ref::<AggregateExec>().is_some_and(|aggregate| aggregate.aggr_expr().iter().any(is_turned))
        })
        .await
    }

    /// Whether DataFusion gives this answer, too, where each table is one batch: which it gives depends on where
    /// batches begin, as that of its top-k does, whose filter takes -0.0 for 0.0 though its order does not.
    async fn stock_gives(&self, case: &Case, answer: &Answer) -> bool {
        let other = self.in_other_batches(case, &[(BATCH_SIZE, "8192")], whole).await;
        other.is_ok_and(|(other, _)| matches!(compare::difference(&other, answer), Ok(None)))
    }

    /// Whether DataFusion has left out the order of rows of which an `OFFSET` skips the first, or put that of a window
    /// in its place: it does so below a union or a window.
    async fn stock_skips_any_rows(&self, sql: &str) -> bool {
        let skips_any = |node: &Arc<dyn ExecutionPlan>| {
            let limit = node.downcast_ref::<GlobalLimitExec>().filter(|limit| limit.skip() > 0);
            let again = |sort: &SortExec| sort.input().output_ordering().is_some();
            limit.is_some_and(|limit| {
                let input = limit.input();
                input.output_ordering().is_none() || input.downcast_ref::<SortExec>().is_some_and(again)
            })
        };
        self.stock_has(sql, |node| {
            let drops_order = node.is::<UnionExec>() || node.is::<WindowAggExec>() || node.is::<BoundedWindowAggExec>();
            drops_order && node.exists(|node| Ok(skips_any(node))).expect("nothing fails")
        })
        .await
    }

    /// Whether DataFusion takes the first rows, or the first value, by lists, structs or maps: which depends on where
    /// batches begin, since it compares nulls and NaN within them otherwise than it sorts them.
    async fn stock_sorts_nested(&self, sql: &str) -> bool {
        self.stock_has(sql, |node| {
            let sort = node.downcast_ref::<SortExec>().filter(|sort| sort.fetch().is_some());
            let aggregate = node.downcast_ref::<AggregateExec>();
            let is_nested =
                |key: &PhysicalSortExpr, schema: &Schema| key.expr.data_type(schema).is_ok_and(|key| key.is_nested());
            let mut calls = aggregate.into_iter().flat_map(|aggregate| {
                let keys = aggregate.aggr_expr().iter().flat_map(|call| call.order_bys());
                keys.map(|key| is_nested(key, &aggregate.input_schema()))
            });
            calls.any(|is_nested| is_nested)
                || sort.is_some_and(|sort| sort.expr().iter().any(|key| is_nested(key, &node.schema())))
        })
        .await
    }

    /// Whether DataFusion takes the first rows of several partitions by fewer keys than it merges them by, those that
    /// are not constant in each partition of a union: its partitions share one bound, behind which the first of all may
    /// be.
    async fn stock_drops_rows(&self, sql: &str) -> bool {
        self.stock_has(sql, |node| {
            let Some(merge) = node.downcast_ref::<SortPreservingMergeExec>() else { return false };
            let sort = merge.input().downcast_ref::<SortExec>();
            sort.is_some_and(|sort| sort.fetch().is_some() && sort.expr() != merge.expr())
        })
        .await
    }

    /// Whether DataFusion takes rows for sorted by what is constant in the input of an outer join that it adds nulls
    /// to, or by a key that is null in some of its grouping sets, and gives a group for each run of equal keys.
    async fn stock_repeats_groups(&self, sql: &str) -> bool {
        let is_sorted = |node: &Arc<dyn ExecutionPlan>| {
            let aggregate = node.downcast_ref::<AggregateExec>();
            aggregate.is_some_and(|aggregate| *aggregate.input_order_mode() != InputOrderMode::Linear)
        };
        let has_sets = |node: &Arc<dyn ExecutionPlan>| {
            let aggregate = node.downcast_ref::<AggregateExec>();
            aggregate.is_some_and(|aggregate| aggregate.group_expr().groups().len() > 1)
        };
        self.stock_has(sql, is_sorted).await
            && (self.stock_has(sql, adds_nulls).await || self.stock_has(sql, has_sets).await)
    }

    async fn stock_has(&self, sql: &str, what: impl Fn(&Arc<dyn ExecutionPlan>) -> bool) -> bool {
        let Ok(frame) = self.stock.sql(sql).await else { return false };
        let Ok(plan) = frame.create_physical_plan().await else { return false };
        plan.exists(|node| Ok(what(node))).expect("nothing fails")
    }

    /// Whether stock fails as Weld does where every row is processed: none is dropped by a join's dynamic filter or
    /// with a row group before its turn; or no limit is reached within a table, since each is one batch.
    async fn fails_for_all_rows(&self, case: &Case, class: ErrorClass) -> bool {
        let keep = [
            ("datafusion.optimizer.enable_dynamic_filter_pushdown", "false"),
            ("datafusion.execution.parquet.pruning", "false"),
            ("datafusion.execution.parquet.enable_page_index", "false"),
            ("datafusion.execution.parquet.bloom_filter_on_read", "false"),
            (BATCH_SIZE, "8192"),
        ];
        let state = self.stock.state_ref();
        let saved = state.read().config().clone();
        set(&self.stock, &keep);
        let answer = run(&self.stock, &case.sql).await;
        *state.write().config_mut() = saved;
        let fails = |answer: Result<_, Failure>| answer.is_err_and(|error| error.class == class);
        fails(answer) || fails(self.in_other_batches(case, &keep, whole).await)
    }

    /// Whether stock fails as Weld does over the tables that Weld had: by their statistics it puts the sides of joins
    /// otherwise than by those of record batches, and an empty build side keeps a probe side from failing.
    async fn fails_over_encoded(&self, case: &Case, class: ErrorClass) -> bool {
        let Storage::Encoded(_) = case.storage else { return false };
        let context = session(false);
        functions::register(&session(true), &context).await;
        case.settings.apply(&context, false);
        for table in &case.tables {
            let encoded = self.weld.table_provider(&table.name).await.expect("a registered table");
            context.register_table(&table.name, encoded).expect("a new name");
        }
        run(&context, &case.sql).await.is_err_and(|error| error.class == class)
    }

    /// Whether stock fails so over empty tables: it evaluates constants for batches without rows, as joins give them.
    async fn fails_for_no_rows(&self, case: &Case, class: ErrorClass) -> bool {
        let empty = |schema: &SchemaRef, _: &[RecordBatch]| vec![RecordBatch::new_empty(Arc::clone(schema))];
        self.in_other_batches(case, &[], empty).await.is_err_and(|error| error.class == class)
    }

    /// Whether Weld fails as stock does where plans are not rewritten, no zone is left out and no scan drops rows:
    /// joins in another order, filters by their keys, zones, and one condition before another is asked spare rows and
    /// inputs that no row of the result is made of.
    async fn fails_as_written(&self, case: &Case, class: ErrorClass) -> bool {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let written = match case.storage {
            Storage::Encoded(_) => &Engines::new(&case.tables, &Storage::Memory, folder.path()).await,
            _ => self,
        };
        case.settings.apply(&written.weld, true);
        set(&written.weld, &[("weld.plans", "false"), ("weld.scan", "false")]);
        run(&written.weld, &case.sql).await.is_err_and(|error| error.class == class)
    }

    /// Stock DataFusion over batches of one row.
    async fn row_by_row(&self, case: &Case) -> Result<(Answer, Summary), Failure> {
        let rows = |_: &SchemaRef, batches: &[RecordBatch]| {
            one_row_batches(batches).into_iter().map(with_used_entries).collect()
        };
        self.in_other_batches(case, &[(BATCH_SIZE, "1")], rows).await
    }

    /// Stock DataFusion over the tables' rows in memory.
    async fn in_other_batches(
        &self,
        case: &Case,
        settings: &[(&str, &str)],
        divided: impl Fn(&SchemaRef, &[RecordBatch]) -> Vec<RecordBatch>,
    ) -> Result<(Answer, Summary), Failure> {
        let context = session(false);
        functions::register(&session(true), &context).await;
        case.settings.apply(&context, false);
        set(&context, settings);
        for table in &case.tables {
            // Files may have other rows than the table that they were made of.
            let frame = self.stock.table(&table.name).await.expect("a registered table");
            let schema = Arc::new(frame.schema().as_arrow().clone());
            let batches = frame.collect().await.unwrap_or_default();
            let mem = MemTable::try_new(Arc::clone(&schema), vec![divided(&schema, &batches)]);
            context.register_table(&table.name, Arc::new(mem.expect("one schema"))).expect("a new name");
        }
        run(&context, &case.sql).await
    }

    pub(crate) async fn plan(&self, sql: &str) -> String {
        let Ok(frame) = self.weld.sql(sql).await else { return String::new() };
        let Ok(plan) = frame.create_physical_plan().await else { return String::new() };
        displayable(plan.as_ref()).indent(false).to_string()
    }
}

/// Whether a join adds nulls to what is constant in one of its inputs.
fn adds_nulls(node: &Arc<dyn ExecutionPlan>) -> bool {
    let types = [
        node.downcast_ref::<NestedLoopJoinExec>().map(|join| *join.join_type()),
        node.downcast_ref::<HashJoinExec>().map(|join| *join.join_type()),
        node.downcast_ref::<SortMergeJoinExec>().map(|join| join.join_type()),
    ];
    let is_constant = |side: &&Arc<dyn ExecutionPlan>| !side.equivalence_properties().constants().is_empty();
    types.into_iter().flatten().any(|kind| kind.is_outer()) && node.children().iter().any(is_constant)
}

fn whole(schema: &SchemaRef, batches: &[RecordBatch]) -> Vec<RecordBatch> {
    vec![concat_batches(schema, batches).expect("one schema")]
}

fn set(context: &SessionContext, settings: &[(&str, &str)]) {
    let state = context.state_ref();
    for (name, value) in settings {
        state.write().config_mut().options_mut().set(name, value).expect("known");
    }
}

fn all_nullable(schema: &SchemaRef) -> SchemaRef {
    let nullable = |field: &FieldRef| field.as_ref().clone().with_nullable(true);
    Arc::new(Schema::new(schema.fields().iter().map(nullable).collect::<Vec<_>>()))
}

/// Whether an operator of DataFusion's met a column of another type than its plan declares.
fn is_of_other_type(message: &str) -> bool {
    ["Invalid comparison operation", "column types must match"].iter().any(|text| message.contains(text))
}

/// In a task of its own: a panic becomes an error.
async fn run(context: &SessionContext, sql: &str) -> Result<(Answer, Summary), Failure> {
    let (context, query) = (context.clone(), sql.to_owned());
    let mut task = tokio::spawn(async move {
        let frame = context.sql(&query).await?;
        let is_ordered = is_ordered(frame.logical_plan());
        let plan = frame.create_physical_plan().await?;
        let batches = collect(Arc::clone(&plan), context.task_ctx()).await?;
        let answer = Answer { schema: plan.schema(), batches, ordering: order(&plan).filter(|_| is_ordered) };
        Ok::<_, datafusion::error::DataFusionError>((answer, summary(&plan)))
    });
    let broke = |message: String| Failure { class: ErrorClass::Internal, message };
    for _ in 0..PATIENCE_SECONDS {
        match tokio::time::timeout(Duration::from_secs(1), &mut task).await {
            Ok(Ok(Ok(ran))) => return Ok(ran),
            Ok(Ok(Err(error))) => {
                return Err(Failure { class: error_class(&error), message: error.strip_backtrace() });
            }
            Ok(Err(error)) => return Err(broke(format!("panic: {error}"))),
            Err(_) => {}
        }
    }
    // What never waits cannot be stopped, and keeps a thread of the runtime.
    println!("it does not end: {sql}");
    std::process::exit(1);
}

/// Whether the query has an order, and not only one of its plans.
fn is_ordered(query: &LogicalPlan) -> bool {
    match query {
        LogicalPlan::Sort(_) => true,
        LogicalPlan::Projection(projection) => is_ordered(&projection.input),
        LogicalPlan::Limit(limit) => is_ordered(&limit.input),
        _ => false,
    }
}

/// What the plan declares of its rows: of several partitions, only that each is in order.
fn order(plan: &Arc<dyn ExecutionPlan>) -> Option<LexOrdering> {
    plan.output_ordering().filter(|_| plan.output_partitioning().partition_count() == 1).cloned()
}
