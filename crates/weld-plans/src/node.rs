//! Methods of `ExecutionPlan` that are the same for many nodes, for use inside of `impl ExecutionPlan for ..`.

/// Of a node with one input, the field `$input`: its child, and the node over another one. `$again` makes that of the
/// node (`$node`, a reference) and the new input (`$other`).
#[macro_export]
macro_rules! one_input {
    ($input:ident, |$node:ident, $other:ident| $again:expr) => {
        fn children(&self) -> Vec<&std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            vec![&self.$input]
        }

        fn replace_children(
            self: std::sync::Arc<Self>,
            children: Vec<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>>,
            _: datafusion::physical_plan::execution_plan::ReplaceChildrenOptions,
        ) -> datafusion::common::Result<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            let ($node, inputs) = (self.as_ref(), <[_; 1]>::try_from(children));
            let Ok([$other]) = inputs else {
                return datafusion::common::internal_err!("{} has one input", $node.name());
            };
            Ok(std::sync::Arc::new($again))
        }

        $crate::new_children!();
    };
}

/// DataFusion's older name for replacing children.
#[macro_export]
macro_rules! new_children {
    () => {
        fn with_new_children(
            self: std::sync::Arc<Self>,
            children: Vec<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>>,
        ) -> datafusion::common::Result<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
            self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
        }
    };
}

/// Of a node that evaluates no expression.
#[macro_export]
macro_rules! no_expressions {
    () => {
        fn apply_expressions(
            &self,
            _: &mut dyn FnMut(
                &std::sync::Arc<dyn datafusion::physical_expr::PhysicalExpr>,
            ) -> datafusion::common::Result<datafusion::common::tree_node::TreeNodeRecursion>,
        ) -> datafusion::common::Result<datafusion::common::tree_node::TreeNodeRecursion> {
            Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
        }
    };
}

/// Of a node that hands on rows of each partition in the order in which they come, and gains nothing from more partitions.
#[macro_export]
macro_rules! rows_in_order {
    () => {
        fn maintains_input_order(&self) -> Vec<bool> {
            vec![true]
        }

        fn benefits_from_input_partitioning(&self) -> Vec<bool> {
            vec![false]
        }
    };
}

/// Of a node that hands on the rows of its one input.
#[macro_export]
macro_rules! statistics_of_input {
    () => {
        fn statistics_from_inputs(
            &self,
            inputs: &[std::sync::Arc<datafusion::common::Statistics>],
            _: &datafusion::physical_plan::statistics::StatisticsArgs,
        ) -> datafusion::common::Result<std::sync::Arc<datafusion::common::Statistics>> {
            match inputs {
                [input] => Ok(std::sync::Arc::clone(input)),
                _ => datafusion::common::internal_err!("{} has one child", self.name()),
            }
        }
    };
}
