//! The rule that gives equal expressions one name where DataFusion gives each place its own.
//!
//! DataFusion computes an expression that an operator has twice in a projection below it, in a column `__common_expr_7`
//! with a number that no other has. Two uses of a table expression differ in these numbers, so no two of their
//! operators would be equal ([`CommonSubplans`](crate::CommonSubplans)). Here the number counts expressions, and equal
//! ones have one.

use std::collections::HashMap;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result, plan_err};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::PlanOptions;

/// What DataFusion's names begin with.
const PREFIX: &str = "__common_expr_";

/// Names columns that DataFusion has made up by what they are of.
#[derive(Debug)]
pub struct CommonNames {
    options: fn(&ConfigOptions) -> PlanOptions,
}

impl CommonNames {
    /// `options` finds the settings of a session.
    pub fn new(options: fn(&ConfigOptions) -> PlanOptions) -> CommonNames {
        CommonNames { options }
    }
}

impl OptimizerRule for CommonNames {
    fn name(&self) -> &str {
        "common_names"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        // The whole plan at once: a name is used above the operator that has made it.
        None
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if (self.options)(&config.options()).common_subplans.is_none() || !repeats_names(&plan)? {
            return Ok(Transformed::no(plan));
        }
        match renamed(plan.clone()) {
            Ok(renamed) => Ok(renamed),
            // Two columns of one name in one place, for one.
            Err(error) => {
                log::debug!("names of common expressions are left as they were: {error}");
                Ok(Transformed::no(plan))
            }
        }
    }
}

/// Whether there are two names that DataFusion has made up.
fn repeats_names(plan: &LogicalPlan) -> Result<bool> {
    let mut made_up = 0;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            made_up += usize::from(made_up_name(expr).is_some());
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if made_up > 1 { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(made_up > 1)
}

fn made_up_name(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Alias(alias) if alias.relation.is_none() && alias.name.starts_with(PREFIX) => Some(&alias.name),
        _ => None,
    }
}

fn renamed(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut names = Names::default();
    plan.transform_up_with_subqueries(|node| {
        // Operators hand columns on that they do not look at.
        let hands_on = node.schema().fields().iter().any(|field| field.name().starts_with(PREFIX));
        let renamed = node.map_expressions(|expr| names.rename(expr))?;
        if renamed.transformed || hands_on { renamed.map_data(LogicalPlan::recompute_schema) } else { Ok(renamed) }
    })
}

/// The names so far.
#[derive(Default)]
struct Names {
    instead: HashMap<String, String>,
    of: HashMap<Expr, String>,
}

impl Names {
    /// An expression of an operator over the new names of its inputs, under a new name if it had one of DataFusion's.
    fn rename(&mut self, expr: Expr) -> Result<Transformed<Expr>> {
        let renamed = expr.transform_up(|expr| {
            if let Expr::OuterReferenceColumn(_, column) = &expr
                && column.name.starts_with(PREFIX)
            {
                return plan_err!("{column} is of a query around this one");
            }
            let Expr::Column(Column { relation: None, name, .. }) = &expr else { return Ok(Transformed::no(expr)) };
            match self.instead.get(name) {
                Some(instead) if instead != name => {
                    Ok(Transformed::yes(Expr::Column(Column::new_unqualified(instead.clone()))))
                }
                _ => Ok(Transformed::no(expr)),
            }
        })?;
        let Some(name) = made_up_name(&renamed.data).map(str::to_owned) else { return Ok(renamed) };
        renamed.transform_data(|expr| {
            let Expr::Alias(mut alias) = expr else { return Ok(Transformed::no(expr)) };
            let next = format!("{PREFIX}{}", self.of.len() + 1);
            let instead = self.of.entry(alias.expr.as_ref().clone()).or_insert(next).clone();
            self.instead.insert(name, instead.clone());
            let is_new = alias.name != instead;
            alias.name = instead;
            Ok(Transformed::new(Expr::Alias(alias), is_new, TreeNodeRecursion::Continue))
        })
    }
}
