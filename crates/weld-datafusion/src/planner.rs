//! A query whose rewritten plan is refused is planned again without rewrites.
//!
//! DataFusion's own rules follow those of this project, and meet plans that they would not have made: one forgets on
//! the way that a column is constant, so that the check at the end misses an order that another had found to be there.
//! Such a query has an answer in stock DataFusion, so it has one here.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::common::display::PlanType;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::explain::ExplainExec;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};

use crate::config::WeldOptions;

/// The session's own planner; `None` is DataFusion's.
#[derive(Debug)]
pub(crate) struct SecondAttempt(pub(crate) Option<Arc<dyn QueryPlanner + Send + Sync>>);

impl SecondAttempt {
    async fn plan(&self, query: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        match &self.0 {
            Some(planner) => planner.create_physical_plan(query, session).await,
            None => DefaultPhysicalPlanner::default().create_physical_plan(query, session).await,
        }
    }
}

#[async_trait]
impl QueryPlanner for SecondAttempt {
    async fn create_physical_plan(&self, query: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let first = self.plan(query, session).await;
        if !is_refused(&first) {
            return first;
        }
        let Some(plain) = session.as_any().downcast_ref::<SessionState>().and_then(without_rewrites) else {
            return first;
        };
        let second = self.plan(query, &plain).await;
        if is_refused(&second) {
            return first;
        }
        if let Err(error) = first {
            log::warn!("planned again without rewrites: {error}");
        }
        second
    }
}

fn is_refused(planned: &Result<Arc<dyn ExecutionPlan>>) -> bool {
    let is_error = |explain: &ExplainExec| {
        explain.stringified_plans().iter().any(|plan| matches!(plan.plan_type, PlanType::PhysicalPlanError))
    };
    planned.as_ref().map_or(true, |plan| plan.downcast_ref::<ExplainExec>().is_some_and(is_error))
}

/// The same session with `weld.plans` off, if it is on.
fn without_rewrites(session: &SessionState) -> Option<SessionState> {
    let mut session = session.clone();
    let options = session.config_mut().options_mut().extensions.get_mut::<WeldOptions>()?;
    (options.enabled && std::mem::replace(&mut options.plans, false)).then_some(session)
}
