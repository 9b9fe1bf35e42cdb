//! Calls of scalar functions, found by what a function is, never by its name: a user's function may have any.
//!
//! Those of numbers are in `math`, of text in `text`, of dates and times in `date`.

use datafusion::functions::core::greatest::GreatestFunc;
use datafusion::functions::core::least::LeastFunc;
use datafusion::functions::core::nullif::NullIfFunc;
use datafusion::functions::datetime::date_bin::DateBinFunc;
use datafusion::functions::datetime::date_part::DatePartFunc;
use datafusion::functions::datetime::date_trunc::DateTruncFunc;
use datafusion::physical_expr::ScalarFunctionExpr;
use weld_core::op::BinaryOp;

use super::expr::Scope;
use super::logic::{lower_extreme, lower_nullif};
use super::math::lower_math;
use super::text::lower_text;
use super::types::value_type;
use super::{Block, Result, Sql, Unsupported, date};
use crate::function::call::{Called, lower_function};

/// A call of one of DataFusion's functions, or of one in a language of ours.
pub(crate) fn lower_call(block: &mut Block<'_>, scope: &Scope<'_>, call: &ScalarFunctionExpr) -> Result<Sql> {
    let function = call.fun().inner();
    if let Some(called) = Called::of(call) {
        value_type(called.result())?;
        return lower_function(block, scope, called);
    }
    if function.is::<NullIfFunc>() {
        return lower_nullif(block, scope, call);
    }
    if function.is::<GreatestFunc>() {
        return lower_extreme(block, scope, call, BinaryOp::Gt);
    }
    if function.is::<LeastFunc>() {
        return lower_extreme(block, scope, call, BinaryOp::Lt);
    }
    if function.is::<DatePartFunc>() {
        return date::lower_part(block, scope, call);
    }
    if function.is::<DateTruncFunc>() {
        return date::lower_trunc(block, scope, call);
    }
    if function.is::<DateBinFunc>() {
        return date::lower_bin(block, scope, call);
    }
    if let Some(sql) = date::lower_to_timestamp(block, scope, call)? {
        return Ok(sql);
    }
    if let Some(sql) = lower_math(block, scope, call)? {
        return Ok(sql);
    }
    if let Some(sql) = lower_text(block, scope, call)? {
        return Ok(sql);
    }
    Err(Unsupported::new(call.name(), "no lowering for this function"))
}
