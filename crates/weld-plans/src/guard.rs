//! A defect of a rewrite costs the rewrite, not the query.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, internal_err};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

/// A rule whose errors and panics leave the plan as it was. With debug assertions they are errors, so that tests see
/// them.
#[derive(Debug)]
pub(crate) struct Guarded<R>(pub(crate) R);

impl<R: PhysicalOptimizerRule> PhysicalOptimizerRule for Guarded<R> {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let rewritten = catch_unwind(AssertUnwindSafe(|| self.0.optimize(Arc::clone(&plan), config)));
        match rewritten.unwrap_or_else(|_| internal_err!("the rule {} panicked", self.0.name())) {
            Err(error) if !cfg!(debug_assertions) => {
                log::error!("{} leaves a plan as it was: {error}", self.0.name());
                Ok(plan)
            }
            Ok(rewritten) if Arc::ptr_eq(&rewritten, &plan) => Ok(plan),
            rewritten => rewritten,
        }
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}
