//! Decimal arithmetic by Hive's rules, as Arrow's kernels do it.

use datafusion::logical_expr::Operator;
use weld_core::ir::{Expr, ExprKind, Literal, build as ir};
use weld_core::op::Intrinsic;

use super::types::power_of_ten;
use super::{Result, Unsupported};

/// Operands are brought to a common scale; everything is checked in 128 bits, the declared precision is not.
pub(crate) fn decimal_arithmetic(op: &Operator, left: Expr, s1: i8, right: Expr, s2: i8) -> Result<Expr> {
    let scaled = |value: Expr, by: i8| -> Result<Expr> {
        let by = u32::try_from(by).map_err(|_| Unsupported::new("decimal scale", "a negative power of ten"))?;
        if by == 0 {
            return Ok(value);
        }
        let power = power_of_ten(by)?;
        if let ExprKind::Literal(Literal::I128(v)) = value.kind
            && let Some(product) = v.checked_mul(power)
        {
            return Ok(ir::i128(product));
        }
        Ok(ir::intrinsic(Intrinsic::CheckedMul, [value, ir::i128(power)]))
    };
    let common = s1.max(s2);
    Ok(match op {
        Operator::Plus => {
            ir::intrinsic(Intrinsic::CheckedAdd, [scaled(left, common - s1)?, scaled(right, common - s2)?])
        }
        Operator::Minus => {
            ir::intrinsic(Intrinsic::CheckedSub, [scaled(left, common - s1)?, scaled(right, common - s2)?])
        }
        Operator::Multiply => ir::intrinsic(Intrinsic::CheckedMul, [left, right]),
        Operator::Divide => {
            let by = s1.saturating_add(4).min(38) - s1 + s2;
            let (left, right) =
                if by >= 0 { (scaled(left, by)?, right) } else { (left, scaled(right, by.saturating_neg())?) };
            ir::div(left, right)
        }
        Operator::Modulo => ir::rem(scaled(left, common - s1)?, scaled(right, common - s2)?),
        other => return Err(Unsupported::new(other, "no lowering for this operator over decimals")),
    })
}
