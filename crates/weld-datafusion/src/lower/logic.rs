//! Logic: AND, OR and NOT by Kleene's rules, CASE, NULLIF, GREATEST, LEAST, IN.
//!
//! What SQL evaluates for some rows only, and can fail, stays behind the condition.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::physical_expr::expressions::{BinaryExpr, CaseExpr, InListExpr, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use weld_core::ir::{Expr, build as ir};
use weld_core::op::BinaryOp;
use weld_core::ty::Type;

use super::cast::lower_cast;
use super::expr::{Scope, both_valid, can_fail, compare, data_type, identical, lower, lower_literal, predicate};
use super::foreign::has_subquery;
use super::types::value_type;
use super::{Block, Result, Sql, Unsupported};

/// More members than this stay with DataFusion, which hashes them.
const IN_LIST_MAX: usize = 64;

pub(crate) fn invert(block: &mut Block<'_>, arg: Sql) -> Sql {
    match arg.valid {
        None => Sql::required(ir::not(arg.value)),
        Some(valid) => {
            let valid = block.share("valid", valid);
            Sql { value: ir::and(valid.clone(), ir::not(arg.value)), valid: Some(valid) }
        }
    }
}

/// AND and OR by Kleene's rules. The right side is evaluated only where the left does not decide, if it can fail.
pub(crate) fn lower_logic(block: &mut Block<'_>, scope: &Scope<'_>, expr: &BinaryExpr, is_and: bool) -> Result<Sql> {
    let left = lower(block, scope, expr.left())?;
    if left.value.ty != Type::BOOL {
        return Err(Unsupported::new(expr, "a logical operator over numbers"));
    }
    let mut inner = Block::new(block.env);
    let right = lower(&mut inner, scope, expr.right())?;
    let combine = if is_and { ir::and } else { ir::or };
    if left.valid.is_none() && right.valid.is_none() {
        return Ok(Sql::required(combine(left.value, inner.close(right.value))));
    }
    // `decided` by the left: false for AND, true for OR.
    let (stored, nullable) = (right.valid.is_some(), right.valid.is_some());
    let right = inner.close(if stored { ir::strct([right.value.clone(), right.valid()]) } else { right.value });
    let left = block.share_sql("p", left);
    let decided = |side: &Sql| {
        if is_and { ir::and(side.valid(), ir::not(side.value.clone())) } else { side.value.clone() }
    };
    let right = if can_fail(&right) {
        let skipped = if nullable { ir::strct([ir::bool(!is_and), ir::bool(true)]) } else { ir::bool(!is_and) };
        ir::if_(decided(&left), skipped, right)
    } else {
        right
    };
    let right = block.share("q", right);
    let right = Sql::load(right, nullable);
    let known = ir::and(left.valid(), right.valid());
    let valid = ir::or(known, ir::or(decided(&left), decided(&right)));
    Ok(Sql { value: combine(left.value, right.value), valid: Some(valid) })
}

pub(crate) fn lower_case(block: &mut Block<'_>, scope: &Scope<'_>, case: &CaseExpr) -> Result<Sql> {
    let result_type = data_type(scope, case)?;
    let ty = value_type(&result_type)?;
    let base = match case.expr() {
        Some(expr) => {
            let base = lower(block, scope, expr)?;
            Some((block.share_sql("base", base), data_type(scope, expr.as_ref())?))
        }
        None => None,
    };
    // Every branch is `{value, valid}`: one shape for all. Functions may give another type than the query was planned
    // for: `round` of a decimal one of another scale. DataFusion tries to cast what stands behind ELSE.
    let branch = |block: &mut Block<'_>, expr: &Arc<dyn PhysicalExpr>, is_else: bool| {
        block.nested(|inner| {
            let mut sql = lower(inner, scope, expr)?;
            let branch_type = data_type(scope, expr.as_ref())?;
            if is_else && branch_type != DataType::Null {
                sql = lower_cast(inner, sql, &branch_type, &result_type, true)?;
            }
            // A number of another scale or unit has the same Weld type.
            let has_scale = branch_type.is_decimal() || branch_type.is_temporal();
            if sql.value.ty != ty || !is_else && has_scale && branch_type != result_type {
                return Err(Unsupported::new(expr, "a branch of another type"));
            }
            // As it is stored: who groups by it or compares it looks at what is under a null, too.
            let valid = sql.valid();
            Ok(Sql { value: sql.value, valid: Some(valid) }.stored())
        })
    };
    let mut value = match case.else_expr() {
        Some(expr) => branch(block, expr, true)?,
        None => ir::strct([ir::zero(&ty), ir::bool(false)]),
    };
    for (when, then) in case.when_then_expr().iter().rev() {
        let then = branch(block, then, false)?;
        let otherwise = value;
        value = block.nested(|inner| {
            let cond = match &base {
                None => lower(inner, scope, when)?.value,
                Some((base, base_type)) => {
                    let when_type = data_type(scope, when.as_ref())?;
                    let when = lower(inner, scope, when)?;
                    let when = inner.share_sql("when", when);
                    let valid = both_valid(base, &when);
                    let equal = identical(base_type, &when_type, base.value.clone(), when.value)?;
                    predicate(valid, equal).value
                }
            };
            Ok(ir::if_(cond, then, otherwise))
        })?;
    }
    // A subquery without a row is null, whatever its type says.
    let nullable = case.nullable(scope.schema).map_err(|error| Unsupported::new(case, error))?;
    let nullable = nullable || case.children().into_iter().any(has_subquery);
    let value = block.share("case", value);
    let valid = ir::field(value.clone(), 1);
    let value = ir::field(value, 0);
    let value = if ty == Type::BOOL && nullable { ir::and(valid.clone(), value) } else { value };
    Ok(Sql { value, valid: nullable.then_some(valid) })
}

/// NULLIF: the first value, unless the second is the same.
pub(crate) fn lower_nullif(block: &mut Block<'_>, scope: &Scope<'_>, call: &ScalarFunctionExpr) -> Result<Sql> {
    let [left, right] = call.args() else { return Err(Unsupported::new(call.name(), "not two arguments")) };
    let (left_type, right_type) = (data_type(scope, left.as_ref())?, data_type(scope, right.as_ref())?);
    let (left, right) = (lower(block, scope, left)?, lower(block, scope, right)?);
    let (left, right) = (block.share_sql("x", left), block.share_sql("y", right));
    let same = identical(&left_type, &right_type, left.value.clone(), right.value.clone())?;
    let same = both_valid(&left, &right).map_or(same.clone(), |valid| ir::and(valid, same));
    let valid = block.share("valid", ir::and(left.valid(), ir::not(same)));
    let value = if left.value.ty == Type::BOOL { ir::and(valid.clone(), left.value) } else { left.value };
    Ok(Sql { value, valid: Some(valid) })
}

/// GREATEST and LEAST: the value for which `wins` holds beside all others that are there, null if none is. All
/// arguments are evaluated.
pub(crate) fn lower_extreme(
    block: &mut Block<'_>,
    scope: &Scope<'_>,
    call: &ScalarFunctionExpr,
    wins: BinaryOp,
) -> Result<Sql> {
    let mut extreme: Option<(Sql, DataType)> = None;
    for arg in call.args() {
        let arg_type = data_type(scope, arg.as_ref())?;
        if arg_type.is_floating() {
            return Err(Unsupported::new(call.name(), "of floats: which zero is greater depends on the batch's nulls"));
        }
        let next = lower(block, scope, arg)?;
        let next = block.share_sql("arg", next);
        extreme = Some(match extreme {
            None => (next, arg_type),
            Some((now, now_type)) => {
                let wins = compare(wins, &arg_type, &now_type, next.value.clone(), now.value.clone())?;
                let taken = ir::and(next.valid(), ir::or(ir::not(now.valid()), wins));
                let taken = block.share("taken", taken);
                let value = block.share("extreme", ir::select(taken, next.value, now.value));
                let valid = now.valid.zip(next.valid).map(|(now, next)| block.share("valid", ir::or(now, next)));
                (Sql { value, valid }, now_type)
            }
        });
    }
    extreme.map(|(sql, _)| sql).ok_or_else(|| Unsupported::new(call.name(), "no arguments"))
}

pub(crate) fn lower_in_list(block: &mut Block<'_>, scope: &Scope<'_>, list: &InListExpr) -> Result<Sql> {
    if list.list().len() > IN_LIST_MAX {
        return Err(Unsupported::new("IN", format!("more than {IN_LIST_MAX} members")));
    }
    let arg_type = data_type(scope, list.expr().as_ref())?;
    let arg = lower(block, scope, list.expr())?;
    let arg = block.share_sql("x", arg);
    let mut found: Option<Expr> = None;
    let mut has_null = false;
    for member in list.list() {
        let member_type = data_type(scope, member.as_ref())?;
        let Some(literal) = member.downcast_ref::<Literal>() else {
            return Err(Unsupported::new("IN", "members that are not literals"));
        };
        if literal.value().is_null() {
            has_null = true;
            continue;
        }
        let member = lower_literal(literal.value())?;
        let equal = identical(&arg_type, &member_type, arg.value.clone(), member.value)?;
        found = Some(match found {
            Some(found) => ir::or(found, equal),
            None => equal,
        });
    }
    let found = predicate(arg.valid.clone(), found.unwrap_or_else(|| ir::bool(false)));
    let found = if has_null {
        // No match among the others means "unknown".
        let value = block.share("found", found.value);
        Sql { value: value.clone(), valid: Some(value) }
    } else {
        found
    };
    Ok(if list.negated() { invert(block, found) } else { found })
}
