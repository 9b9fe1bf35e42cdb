//! How tightly forms bind: one table for the parser, the printer of programs and the formatter.
//!
//! An operand that binds looser than its place asks for stands in parentheses.

use crate::op::BinaryOp;

/// `let` and lambdas.
pub(crate) const LOOSE: u8 = 0;
/// `value: T`
pub(crate) const ASCRIPTION: u8 = 10;
/// `-x`, `!x`, annotations, and numbers, which may begin with a minus sign.
pub(crate) const UNARY: u8 = 11;
/// Calls, fields, names, brackets.
pub(crate) const POSTFIX: u8 = 12;

/// The level of an infix operator, or `None` for those that are written as calls.
pub(crate) fn infix_level(op: BinaryOp) -> Option<u8> {
    Some(match op {
        BinaryOp::Or => 1,
        BinaryOp::And => 2,
        BinaryOp::BitOr => 3,
        BinaryOp::BitXor => 4,
        BinaryOp::BitAnd => 5,
        BinaryOp::Eq | BinaryOp::Ne => 6,
        BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => 7,
        BinaryOp::Add | BinaryOp::Sub => 8,
        BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem => 9,
        BinaryOp::Min | BinaryOp::Max | BinaryOp::Pow => return None,
    })
}

/// The infix operator that is written so, and its level.
pub(crate) fn infix(sign: &str) -> Option<(BinaryOp, u8)> {
    let op = BinaryOp::ALL.into_iter().find(|op| op.name() == sign)?;
    Some((op, infix_level(op)?))
}
