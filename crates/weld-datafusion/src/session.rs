//! One line switches Weld on: `SessionStateBuilder::new().with_default_features().with_weld()`.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{DdlStatement, LogicalPlan, LogicalPlanBuilder, Statement};
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};
use weld_codegen::CodeFolder;
use weld_plans::{CommonNames, DistinctAggregates};

use crate::code_cache::CodeCache;
use crate::config::{WeldOptions, plan_options};
use crate::function::factory::WeldFunctionFactory;
use crate::function::listing::with_functions;
use crate::function::literals::ListsOfConstants;
use crate::planner::SecondAttempt;
use crate::rule::WeldRule;

/// Adds Weld to a session under construction.
pub trait WeldSessionExt: Sized {
    /// Registers the rules and the settings `weld.*`. Settings that the session's configuration has already are kept,
    /// so call this after `with_config`. `CREATE FUNCTION` makes functions of Weld's languages, which may be called
    /// with lists of constants; a function factory that the session has already keeps its own languages, so call this
    /// after `with_function_factory`, too. LLVM is started by the first pipeline that is compiled.
    fn with_weld(self) -> Self {
        self.with_weld_sharing(Arc::default())
    }

    /// The same, where compiled code is kept in this cache, which sessions may share.
    fn with_weld_sharing(self, cache: Arc<CodeCache>) -> Self;
}

impl WeldSessionExt for SessionStateBuilder {
    fn with_weld_sharing(mut self, cache: Arc<CodeCache>) -> Self {
        let config = self.config().get_or_insert_with(SessionConfig::new);
        if config.options().extensions.get::<WeldOptions>().is_none() {
            config.options_mut().extensions.insert(WeldOptions::default());
        }
        let folder = config.options_mut().extensions.get_mut::<WeldOptions>().and_then(folder);
        let ranges = Arc::default();
        let optimizer = self.physical_optimizers().get_or_insert_with(PhysicalOptimizer::new);
        optimizer.rules = weld_plans::rules(std::mem::take(&mut optimizer.rules), plan_options, &ranges);
        self.expr_planners().get_or_insert_default().push(Arc::new(ListsOfConstants));
        let functions = WeldFunctionFactory::new(self.function_factory().take(), &cache);
        let planner = SecondAttempt(self.query_planner().take());
        self.with_function_factory(Some(Arc::new(functions)))
            .with_query_planner(Arc::new(planner))
            .with_optimizer_rule(Arc::new(DistinctAggregates::new(plan_options)))
            .with_optimizer_rule(Arc::new(CommonNames::new(plan_options)))
            .with_physical_optimizer_rule(Arc::new(WeldRule::sharing(cache, folder, ranges)))
    }
}

/// Executes a statement as [`SessionContext::execute_logical_plan`] does, but that CREATE TABLE makes a table that
/// keeps its columns encoded if `weld.encode_tables` is on, that RESET knows the settings `weld.*`, and that SHOW
/// FUNCTIONS and `information_schema` have the functions of the session.
pub async fn execute_statement(context: &SessionContext, plan: LogicalPlan) -> Result<DataFrame> {
    let encodes =
        |context: &SessionContext| WeldOptions::of(context.state_ref().read().config().options()).encode_tables;
    match plan {
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(command)) if encodes(context) => {
            weld_table::create_table(context, command).await
        }
        LogicalPlan::Statement(Statement::ResetVariable(reset)) => {
            let ours = context
                .state_ref()
                .write()
                .config_mut()
                .options_mut()
                .extensions
                .get_mut::<WeldOptions>()
                .and_then(|options| options.reset(&reset.variable));
            match ours {
                Some(result) => {
                    result?;
                    Ok(DataFrame::new(context.state(), LogicalPlanBuilder::empty(false).build()?))
                }
                None => context.execute_logical_plan(LogicalPlan::Statement(Statement::ResetVariable(reset))).await,
            }
        }
        // Who reads the view reads the tables then.
        plan @ LogicalPlan::Ddl(DdlStatement::CreateView(_)) => context.execute_logical_plan(plan).await,
        plan => {
            let plan = with_functions(plan, &context.state_ref().read())?;
            context.execute_logical_plan(plan).await
        }
    }
}

/// The folder for code on disk, which stays what it is from here on.
fn folder(options: &mut WeldOptions) -> Option<Arc<CodeFolder>> {
    options.cache_dir.fix();
    options.cache_dir_size.fix();
    let path = options.cache_dir.value();
    (!path.is_empty()).then(|| Arc::new(CodeFolder::new(path, *options.cache_dir_size.value())))
}
