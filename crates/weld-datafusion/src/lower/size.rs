//! Expressions that are too large to compile. Lowering, the optimizer and LLVM go through a program by recursion, some
//! of them several times, so what a query may nest is bounded before any of them sees it.

use std::sync::Arc;

use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::CaseExpr;

use super::{Result, Unsupported};

/// Deeper expressions stay with DataFusion: `a + b + c ..` and the branches of a CASE count one level each. A build
/// without optimisation takes less than 4 MiB of stack for them, DataFusion's parser included.
const DEPTH_MAX: usize = 125;

/// Operators with more nodes in their expressions stay with DataFusion: compiling takes longer than linear time.
const NODES_MAX: usize = 5000;

/// Whether an operator with these expressions may be compiled. Walks without recursion.
pub(crate) fn check<'a>(exprs: impl IntoIterator<Item = &'a Arc<dyn PhysicalExpr>>) -> Result<()> {
    let mut open: Vec<(&Arc<dyn PhysicalExpr>, usize)> = exprs.into_iter().map(|expr| (expr, 1)).collect();
    let mut nodes = 0;
    while let Some((expr, depth)) = open.pop() {
        nodes += 1;
        let children = expr.children();
        // The branches of a CASE are nested in each other.
        let levels = if expr.is::<CaseExpr>() { 1 + children.len() / 2 } else { 1 };
        if depth + levels > DEPTH_MAX {
            return Err(Unsupported::new("expression", format!("is nested more than {DEPTH_MAX} levels deep")));
        }
        if nodes + open.len() > NODES_MAX {
            return Err(Unsupported::new("expression", format!("has more than {NODES_MAX} parts")));
        }
        open.extend(children.into_iter().map(|child| (child, depth + levels)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{binary, lit};

    /// So deep that a walk by recursion would end the process.
    #[test]
    fn depth_and_size_are_bounded() {
        let schema = arrow::datatypes::Schema::empty();
        let one = lit(1_i64);
        let mut sum = Arc::clone(&one);
        for _ in 2..DEPTH_MAX {
            sum = binary(sum, Operator::Plus, Arc::clone(&one), &schema).expect("numbers");
        }
        assert!(check([&sum]).is_ok());
        assert!(check((0..100).map(|_| &sum)).is_err());
        let mut deep = sum;
        for _ in 0..100_000 {
            deep = Arc::new(datafusion::physical_expr::expressions::BinaryExpr::new(
                deep,
                Operator::Plus,
                Arc::clone(&one),
            ));
        }
        let error = check([&deep]).expect_err("deep");
        assert_eq!(error.to_string(), "expression: is nested more than 125 levels deep");
        // Dropping it would be a recursion too.
        std::mem::forget(deep);
    }
}
