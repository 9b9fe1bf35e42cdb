//! Properties of expressions that rewrites rely on: whether one can fail in a row, whether it is volatile.

use std::sync::Arc;

use arrow::datatypes::{
    DECIMAL32_MAX_PRECISION, DECIMAL64_MAX_PRECISION, DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType,
    Schema,
};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, DynamicFilterPhysicalExpr, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr,
    Literal, NegativeExpr, NotExpr, TryCastExpr,
};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_plan::ExecutionPlan;

/// Whether the expression gives a value for every row: it may be evaluated for rows for which it was not before, and
/// rows may be dropped before it sees them. Of casts and arithmetic that is known only with the schema of the rows.
pub fn cannot_fail(expr: &Arc<dyn PhysicalExpr>, schema: Option<&Schema>) -> bool {
    cannot_fail_where(expr, schema, &[])
}

/// What is not zero in the rows of a branch.
#[derive(Clone, Copy)]
struct Divisor<'a> {
    expr: &'a Arc<dyn PhysicalExpr>,
    /// Nor is it -1, by which the least integer cannot be divided.
    is_positive: bool,
}

/// The same of rows for which none of `divisors` is zero.
fn cannot_fail_where(expr: &Arc<dyn PhysicalExpr>, schema: Option<&Schema>, divisors: &[Divisor<'_>]) -> bool {
    let mut safe = true;
    let visited = expr.apply(|node| {
        if let Some(case) = node.downcast_ref::<CaseExpr>() {
            safe &= case_cannot_fail(case, schema, divisors);
            return Ok(if safe { TreeNodeRecursion::Jump } else { TreeNodeRecursion::Stop });
        }
        safe &= node_cannot_fail(node, schema, divisors);
        Ok(if safe { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    visited.is_ok() && safe
}

/// A branch sees the rows of which its condition holds.
fn case_cannot_fail(case: &CaseExpr, schema: Option<&Schema>, divisors: &[Divisor<'_>]) -> bool {
    let safe = |expr: &Arc<dyn PhysicalExpr>| cannot_fail_where(expr, schema, divisors);
    let branch = |(when, then): &(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)| {
        let mut divisors = divisors.to_vec();
        if case.expr().is_none() {
            divisors.extend(split_conjunction(when).into_iter().filter_map(not_zero));
        }
        safe(when) && cannot_fail_where(then, schema, &divisors)
    };
    case.expr().is_none_or(safe) && case.when_then_expr().iter().all(branch) && case.else_expr().is_none_or(safe)
}

/// What is not zero where the condition holds: `x` of `x > 0`, `x < 0` and `x <> 0`.
fn not_zero(condition: &Arc<dyn PhysicalExpr>) -> Option<Divisor<'_>> {
    let binary = condition.downcast_ref::<BinaryExpr>()?;
    let is_strict = matches!(binary.op(), Operator::Gt | Operator::Lt | Operator::NotEq);
    let is_positive = *binary.op() == Operator::Gt;
    (is_strict && literal(binary.right()).is_some_and(is_zero)).then(|| Divisor { expr: binary.left(), is_positive })
}

/// The same of an expression whose arguments do not fail.
fn node_cannot_fail(node: &Arc<dyn PhysicalExpr>, schema: Option<&Schema>, divisors: &[Divisor<'_>]) -> bool {
    let type_of = |expr: &Arc<dyn PhysicalExpr>| schema.and_then(|schema| expr.data_type(schema).ok());
    if let Some(binary) = node.downcast_ref::<BinaryExpr>() {
        let op = *binary.op();
        // The least integer has no negation, but every integer has a remainder.
        let has_quotient = |by: &Divisor<'_>| {
            by.is_positive || op == Operator::Modulo || type_of(node).is_some_and(|of| !of.is_signed_integer())
        };
        let divides = divisors.iter().any(|by| by.expr == binary.right() && has_quotient(by))
            || literal(binary.right()).is_some_and(|by| !by.is_null() && !is_zero(by) && by.to_string() != "-1");
        return matches!(op, Operator::And | Operator::Or)
            || is_comparison(op)
            || type_of(node).is_some_and(|of| never_fails(op, &of, divides));
    }
    if let Some(cast) = node.downcast_ref::<CastExpr>() {
        return match literal(cast.expr()) {
            Some(value) => value.cast_to(cast.cast_type()).is_ok(),
            None => type_of(cast.expr()).is_some_and(|from| is_lossless(&from, cast.cast_type())),
        };
    }
    if let Some(negative) = node.downcast_ref::<NegativeExpr>() {
        return type_of(negative.arg()).is_some_and(|of| of.is_signed_integer() || of.is_floating());
    }
    node.is::<Column>()
        || node.is::<Literal>()
        || node.is::<NotExpr>()
        || node.is::<IsNullExpr>()
        || node.is::<IsNotNullExpr>()
        || node.is::<InListExpr>()
        || node.is::<LikeExpr>()
        || node.is::<TryCastExpr>()
        || node.is::<DynamicFilterPhysicalExpr>()
}

fn literal(expr: &Arc<dyn PhysicalExpr>) -> Option<&ScalarValue> {
    expr.downcast_ref::<Literal>().map(Literal::value)
}

fn is_zero(value: &ScalarValue) -> bool {
    ScalarValue::new_zero(&value.data_type()).is_ok_and(|zero| zero == *value)
}

fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// Arithmetic with results of this type. Integers wrap around; decimals are checked, but have room for every result
/// unless their precision is all that there is; a divisor may be zero, unless it is known that it `divides`.
fn never_fails(op: Operator, result: &DataType, divides: bool) -> bool {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256};
    let has_room = match result {
        Decimal32(precision, _) => *precision < DECIMAL32_MAX_PRECISION,
        Decimal64(precision, _) => *precision < DECIMAL64_MAX_PRECISION,
        Decimal128(precision, _) => *precision < DECIMAL128_MAX_PRECISION,
        Decimal256(precision, _) => *precision < DECIMAL256_MAX_PRECISION,
        _ => false,
    };
    match op {
        Operator::Plus | Operator::Minus | Operator::Multiply => {
            result.is_integer() || result.is_floating() || has_room
        }
        Operator::Divide => result.is_floating() || (divides && (result.is_integer() || has_room)),
        // Decimals are brought to one scale first, for which there may be no room.
        Operator::Modulo => result.is_floating() || (divides && result.is_integer()),
        _ => false,
    }
}

/// Whether every value has its place in the other type: no cast fails.
fn is_lossless(from: &DataType, to: &DataType) -> bool {
    use DataType::{Boolean, LargeUtf8, Utf8, Utf8View};
    if from == to {
        return true;
    }
    if let (Some((digits, scale)), Some((precision, to_scale))) = (decimal_digits(from), decimal_parts(to)) {
        return to_scale >= scale && precision - to_scale >= digits - scale;
    }
    match (from, to) {
        (Boolean, to) => to.is_numeric() && decimal_parts(to).is_none(),
        (Utf8, LargeUtf8 | Utf8View) => true,
        (from, to) if to.is_floating() => from.is_integer() || from.is_floating(),
        (from, to) if from.is_integer() && to.is_integer() => {
            let (narrow, wide) = (from.primitive_width(), to.primitive_width());
            let widens = narrow < wide;
            widens && (to.is_signed_integer() || from.is_unsigned_integer())
        }
        _ => false,
    }
}

/// Digits, and how many of them are behind the point, that values of the type have at most.
fn decimal_digits(of: &DataType) -> Option<(i16, i16)> {
    use DataType::{Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
    Some(match of {
        Int8 | UInt8 => (3, 0),
        Int16 | UInt16 => (5, 0),
        Int32 | UInt32 => (10, 0),
        Int64 => (19, 0),
        UInt64 => (20, 0),
        _ => return decimal_parts(of),
    })
}

fn decimal_parts(of: &DataType) -> Option<(i16, i16)> {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256};
    match of {
        Decimal32(precision, scale)
        | Decimal64(precision, scale)
        | Decimal128(precision, scale)
        | Decimal256(precision, scale) => Some((i16::from(*precision), i16::from(*scale))),
        _ => None,
    }
}

/// Whether all expressions of a node satisfy `is_so`.
pub(crate) fn all_exprs(plan: &dyn ExecutionPlan, is_so: impl Fn(&Arc<dyn PhysicalExpr>) -> bool) -> bool {
    let mut all = true;
    let visited = plan.apply_expressions(&mut |expr| {
        all &= is_so(expr);
        Ok(if all { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    visited.is_ok() && all
}

/// Whether it gives another value each time that it is evaluated.
pub(crate) fn is_volatile(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let mut volatile = false;
    let visited = expr.apply(|node| {
        volatile |= node.is_volatile_node();
        Ok(if volatile { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    visited.is_err() || volatile
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Field;
    use datafusion::common::ScalarValue;
    use datafusion::physical_expr::expressions::{binary, cast, col, lit};

    use super::*;

    #[test]
    fn casts_that_widen_do_not_fail() {
        use DataType::{
            Boolean, Date32, Decimal64, Decimal128, Float32, Float64, Int8, Int32, Int64, UInt32, UInt64, Utf8,
        };
        for (from, to, is_safe) in [
            (Int32, Int64, true),
            (Int64, Int32, false),
            (UInt32, Int64, true),
            (UInt32, Int32, false),
            (Int8, UInt64, false),
            (Int64, Float64, true),
            (Float64, Int64, false),
            (Float64, Float32, true),
            (Boolean, Int8, true),
            (Int64, Decimal128(19, 0), true),
            (Int64, Decimal128(20, 2), false),
            (UInt64, Decimal128(20, 0), true),
            (Decimal64(15, 2), Decimal128(30, 15), true),
            (Decimal128(17, 2), Decimal128(30, 16), false),
            (Decimal128(17, 2), Decimal128(38, 1), false),
            (Decimal128(17, 2), Decimal128(17, 2), true),
            (Int32, Date32, false),
            (Utf8, Int64, false),
            (Int64, Utf8, false),
        ] {
            let schema = Schema::new(vec![Field::new("a", from.clone(), true)]);
            let column = col("a", &schema).expect("a column");
            let expr: Arc<dyn PhysicalExpr> = Arc::new(CastExpr::new(column, to.clone(), None));
            assert_eq!(cannot_fail(&expr, Some(&schema)), is_safe, "{from} to {to}");
            assert!(!cannot_fail(&expr, None));
        }
    }

    #[test]
    fn constants_are_cast_to_see() {
        let schema = Schema::empty();
        let of = |value: &str, to| cast(lit(value), &schema, to).expect("a cast");
        assert!(cannot_fail(&of("0.00", DataType::Decimal128(7, 2)), None));
        assert!(!cannot_fail(&of("x", DataType::Int64), None));
        assert!(cannot_fail(&cast(lit(ScalarValue::Null), &schema, DataType::Int64).expect("a cast"), None));
    }

    #[test]
    fn decimals_and_divisors_may_fail() {
        let fields = [
            ("i", DataType::Int64),
            ("f", DataType::Float64),
            ("d", DataType::Decimal128(10, 2)),
            ("long", DataType::Decimal128(38, 2)),
        ];
        let schema = Schema::new(fields.map(|(name, of)| Field::new(name, of, true)).to_vec());
        for (name, op, is_safe) in [
            ("i", Operator::Plus, true),
            ("i", Operator::Multiply, true),
            ("i", Operator::Divide, false),
            ("i", Operator::Modulo, false),
            ("f", Operator::Divide, true),
            ("d", Operator::Plus, true),
            ("d", Operator::Multiply, true),
            ("d", Operator::Divide, false),
            ("d", Operator::Lt, true),
            ("long", Operator::Plus, false),
        ] {
            let column = || col(name, &schema).expect("a column");
            let expr = binary(column(), op, column(), &schema).expect("an expression");
            assert_eq!(cannot_fail(&expr, Some(&schema)), is_safe, "{name} {op}");
        }
    }

    #[test]
    fn divisors_may_be_known() {
        let fields = [("i", DataType::Int64), ("j", DataType::Int64), ("d", DataType::Decimal128(10, 2))];
        let schema = Schema::new(fields.map(|(name, of)| Field::new(name, of, true)).to_vec());
        let column = |name: &str| col(name, &schema).expect("a column");
        let of = |left, op, right| binary(left, op, right, &schema).expect("an expression");
        let decimal = lit(ScalarValue::Decimal128(Some(200), 10, 2));
        for (expr, is_safe) in [
            (of(column("i"), Operator::Divide, lit(2_i64)), true),
            (of(column("i"), Operator::Modulo, lit(2_i64)), true),
            (of(column("i"), Operator::Divide, lit(0_i64)), false),
            (of(column("i"), Operator::Divide, lit(-1_i64)), false),
            (of(column("i"), Operator::Divide, lit(ScalarValue::Int64(None))), false),
            (of(column("d"), Operator::Divide, Arc::clone(&decimal)), true),
            (of(column("d"), Operator::Modulo, decimal), false),
        ] {
            assert_eq!(cannot_fail(&expr, Some(&schema)), is_safe, "{expr}");
        }
        let branch = |condition, then| {
            let case = CaseExpr::try_new(None, vec![(condition, then)], None).expect("an expression");
            Arc::new(case) as Arc<dyn PhysicalExpr>
        };
        let guarded = |condition| branch(condition, of(column("i"), Operator::Divide, column("j")));
        let zero = || lit(0_i64);
        let positive = of(column("j"), Operator::Gt, zero());
        for (condition, is_safe) in [
            (Arc::clone(&positive), true),
            (of(of(column("i"), Operator::Eq, zero()), Operator::And, positive), true),
            // The least integer by -1.
            (of(column("j"), Operator::NotEq, zero()), false),
            (of(column("j"), Operator::Lt, zero()), false),
            (of(column("j"), Operator::GtEq, zero()), false),
            (of(column("i"), Operator::Gt, zero()), false),
            (of(column("j"), Operator::Gt, lit(-1_i64)), false),
        ] {
            let expr = guarded(condition);
            assert_eq!(cannot_fail(&expr, Some(&schema)), is_safe, "{expr}");
        }
        assert!(!cannot_fail(&of(column("i"), Operator::Divide, column("j")), Some(&schema)));
        let j_not_zero = || of(column("j"), Operator::NotEq, zero());
        let modulo = branch(j_not_zero(), of(column("i"), Operator::Modulo, column("j")));
        assert!(cannot_fail(&modulo, Some(&schema)));
        let d_not_zero = of(column("d"), Operator::NotEq, lit(ScalarValue::Decimal128(Some(0), 10, 2)));
        let decimals = branch(d_not_zero, of(column("d"), Operator::Divide, column("d")));
        assert!(cannot_fail(&decimals, Some(&schema)));
    }
}
