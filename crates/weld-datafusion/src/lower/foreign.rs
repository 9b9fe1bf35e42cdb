//! Expressions without a lowering, taken out of those that have one.
//!
//! ```text
//! length(reverse(s)) * 2 > a        length_of_reverse@3 * 2 > a        and `length(reverse(s))` for DataFusion to evaluate
//! ```
//! What is taken out is evaluated for every row of the operator's input. So nothing is taken out of places that are
//! evaluated for some rows only (the branches of CASE, the right sides of AND and OR): there the whole goes to
//! DataFusion, which decides for itself.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{FieldRef, Fields, Schema};
use datafusion::common::ScalarValue;
use datafusion::functions::{regex, string, unicode};
use datafusion::logical_expr::{Operator, ScalarUDF};
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, Column, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{DynamicFilterTracking, PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use weld_core::ir::{Expr, build as ir};

use super::expr::{Scope, can_fail, lower};
use super::lists::{list, lower_given};
use super::types::{field_type, value_type};
use super::{Block, Env, Result, Sql, Unsupported, size};

/// The expressions that were taken out: columns that follow those of the input.
pub(crate) struct Foreign {
    columns: usize,
    schema: Schema,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
}

impl Foreign {
    pub(crate) fn new(input: &Schema) -> Foreign {
        Foreign { columns: input.fields().len(), schema: Schema::new(input.fields().clone()), exprs: Vec::new() }
    }

    /// Whether errors come in the same order as before. What was taken out is evaluated first, so an error of it would
    /// come before those of the `others`, in which its columns stand for it.
    pub(crate) fn keeps_errors<'a>(&self, others: impl IntoIterator<Item = &'a Arc<dyn PhysicalExpr>>) -> bool {
        let may_fail = |expr: &Arc<dyn PhysicalExpr>| may_fail(&self.schema, expr);
        !self.exprs.iter().any(may_fail) || !others.into_iter().any(may_fail)
    }

    /// The input's columns, and those that were taken out.
    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// What DataFusion has to evaluate.
    pub(crate) fn exprs(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.exprs
    }

    /// `expr` as an expression that lowers, over the input and what was taken out.
    pub(crate) fn take(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        size::check([expr])?;
        self.take_part(expr)
    }

    fn take_part(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        if lowers(&self.schema, expr).is_ok() {
            return Ok(Arc::clone(expr));
        }
        let known = self.exprs.len();
        if let Some(expr) = self.take_children(expr)
            && lowers(&self.schema, &expr).is_ok()
        {
            return Ok(expr);
        }
        if self.exprs.len() > known {
            self.exprs.truncate(known);
            self.schema = Schema::new(Fields::from(&self.schema.fields()[..self.columns + known]));
        }
        self.add(expr)
    }

    /// The same with what does not lower taken out of its operands.
    fn take_children(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>> {
        let eager = evaluated_always(expr.as_ref());
        let mut children = Vec::new();
        for (index, child) in expr.children().into_iter().enumerate() {
            children.push(if index < eager { self.take_part(child).ok()? } else { Arc::clone(child) });
        }
        if children.is_empty() { None } else { Arc::clone(expr).with_new_children(children).ok() }
    }

    fn add(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let unsupported = |why: &str| Unsupported::new(expr, why);
        if expr.is::<Column>() || DynamicFilterTracking::classify(expr).contains_dynamic_filter() {
            return Err(unsupported("no lowering for this expression"));
        }
        let field = expr.return_field(&self.schema).map_err(|error| Unsupported::new(expr, error))?;
        // Lists are passed to functions; other types without a value have no reader here.
        if list(field.data_type()).is_none() {
            value_type(field.data_type())?;
        }
        if !field.is_nullable() && has_subquery(expr) {
            return Err(unsupported("null if its subquery has no row, which its type does not say"));
        }
        let known = self.exprs.iter().position(|known| known == expr && !is_volatile(expr));
        let index = known.unwrap_or(self.exprs.len());
        let name = expr.to_string();
        if known.is_none() {
            self.exprs.push(Arc::clone(expr));
            let field: FieldRef = Arc::new(field.as_ref().clone().with_name(&name));
            self.schema = Schema::new(self.schema.fields().iter().cloned().chain([field]).collect::<Fields>());
        }
        Ok(Arc::new(Column::new(&name, self.columns + index)))
    }
}

/// Whether an expression reads a scalar subquery, which is null if it has no row, whatever its type says.
pub(crate) fn has_subquery(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.is::<ScalarSubqueryExpr>() || expr.children().into_iter().any(has_subquery)
}

/// How many of an expression's operands are evaluated for every row.
fn evaluated_always(expr: &dyn PhysicalExpr) -> usize {
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        return if matches!(binary.op(), Operator::And | Operator::Or) { 1 } else { 2 };
    }
    if expr.is::<CaseExpr>() {
        return 1;
    }
    match expr.downcast_ref::<ScalarFunctionExpr>() {
        Some(call) if call.fun().short_circuits() => 0,
        _ => usize::MAX,
    }
}

/// Whether an expression over columns of this schema has a lowering.
pub(crate) fn lowers(schema: &Schema, expr: &Arc<dyn PhysicalExpr>) -> Result<()> {
    lowered(schema, expr).map(|_| ())
}

fn lowered(schema: &Schema, expr: &Arc<dyn PhysicalExpr>) -> Result<Expr> {
    size::check([expr])?;
    let mut env = Env::default();
    // Tables may have thousands of columns, and queries an expression for each of them.
    let mut columns = vec![None; schema.fields().len()];
    for column in collect_columns(expr) {
        if let Some(field) = schema.fields().get(column.index()) {
            let stored = ir::param(&mut env.names, "column", field_type(field));
            columns[column.index()] = Some(Sql::load(stored, field.is_nullable()));
        }
    }
    let scope = Scope { schema, columns: &columns };
    Block::new(&mut env).nested(|block| {
        // A column of lists is read by functions and moved, but has no value for others.
        let sql = if expr.is::<Column>() { lower(block, &scope, expr) } else { lower_given(block, &scope, expr) };
        Ok(sql?.stored())
    })
}

/// Whether evaluating an expression over columns of this schema may raise an error, as far as is known here.
pub(crate) fn may_fail(schema: &Schema, expr: &Arc<dyn PhysicalExpr>) -> bool {
    let call = expr.downcast_ref::<ScalarFunctionExpr>();
    let is_safe = |call: &ScalarFunctionExpr| {
        never_fails(call.fun()) || (fails_for_constants(call.fun()) && takes_constants(expr))
    };
    // A lowering may not see that it cannot fail.
    if call.is_some_and(is_safe) {
        return expr.children().into_iter().any(|child| may_fail(schema, child));
    }
    if let Ok(lowered) = lowered(schema, expr) {
        return can_fail(&lowered);
    }
    let fails = if call.is_some() {
        true
    } else if let Some(like) = expr.downcast_ref::<LikeExpr>() {
        !like.pattern().is::<Literal>()
    } else if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        match *binary.op() {
            Operator::And | Operator::Or => false,
            op if is_regex(op) => !takes_constants(expr),
            // Comparisons.
            op => !op.supports_propagation(),
        }
    } else {
        !(expr.is::<CaseExpr>() || expr.is::<IsNullExpr>() || expr.is::<IsNotNullExpr>() || expr.is::<NotExpr>())
    };
    fails || expr.children().into_iter().any(|child| may_fail(schema, child))
}

/// Functions that give a value or null for all arguments.
fn never_fails(function: &ScalarUDF) -> bool {
    let known: [fn() -> Arc<ScalarUDF>; 14] = [
        string::upper,
        string::lower,
        string::btrim,
        string::ltrim,
        string::rtrim,
        string::replace,
        string::concat,
        string::concat_ws,
        string::ascii,
        string::to_hex,
        unicode::reverse,
        unicode::initcap,
        unicode::strpos,
        unicode::translate,
    ];
    known.into_iter().any(|known| *function == *known())
}

/// Functions that fail for some patterns, places and flags, whatever the text, which comes first.
fn fails_for_constants(function: &ScalarUDF) -> bool {
    let known: [fn() -> Arc<ScalarUDF>; 10] = [
        regex::regexp_like,
        regex::regexp_replace,
        regex::regexp_count,
        string::split_part,
        string::starts_with,
        string::ends_with,
        string::contains,
        string::octet_length,
        string::bit_length,
        unicode::character_length,
    ];
    known.into_iter().any(|known| *function == *known())
}

/// Whether all operands but the first are constants, for which an empty text gives a value.
fn takes_constants(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let operands = expr.children();
    let Some((_, constants)) = operands.split_first() else { return false };
    if !constants.iter().all(|constant| constant.is::<Literal>()) {
        return false;
    }
    let one_row = RecordBatchOptions::new().with_row_count(Some(1));
    let Ok(row) = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &one_row) else { return false };
    let texts = [ScalarValue::Utf8View(Some(String::new())), ScalarValue::Utf8(Some(String::new()))];
    texts.into_iter().any(|empty| {
        let first: Arc<dyn PhysicalExpr> = Arc::new(Literal::new(empty));
        let operands = std::iter::once(first).chain(constants.iter().map(|constant| Arc::clone(constant))).collect();
        Arc::clone(expr).with_new_children(operands).and_then(|expr| expr.evaluate(&row)).is_ok()
    })
}

fn is_regex(op: Operator) -> bool {
    matches!(op, Operator::RegexMatch | Operator::RegexIMatch | Operator::RegexNotMatch | Operator::RegexNotIMatch)
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field};
    use datafusion::config::ConfigOptions;
    use datafusion::physical_expr::expressions::{binary, col, lit};

    use super::*;

    #[test]
    fn patterns_and_places_are_tried() {
        let schema = Schema::new(["s", "t"].map(|name| Field::new(name, DataType::Utf8View, true)).to_vec());
        let column = |name: &str| col(name, &schema).expect("a column");
        let call = |function: Arc<ScalarUDF>, args: Vec<Arc<dyn PhysicalExpr>>| {
            let config = Arc::new(ConfigOptions::new());
            let call = ScalarFunctionExpr::try_new(function, args, &schema, config).expect("a call");
            Arc::new(call) as Arc<dyn PhysicalExpr>
        };
        let text = |text: &str| lit(ScalarValue::Utf8View(Some(text.to_owned())));
        let matches = |pattern| binary(column("s"), Operator::RegexMatch, pattern, &schema).expect("texts");
        for (expr, fails) in [
            (matches(text("a|b")), false),
            (matches(text("(")), true),
            (matches(column("t")), true),
            (call(regex::regexp_like(), vec![column("s"), text("a|b")]), false),
            (call(regex::regexp_like(), vec![column("s"), text("(")]), true),
            (call(regex::regexp_like(), vec![column("s"), column("t")]), true),
            (call(regex::regexp_replace(), vec![column("s"), text("a"), text("b")]), false),
            (call(string::split_part(), vec![column("s"), text("/"), lit(2_i64)]), false),
            (call(string::split_part(), vec![column("s"), text("/"), lit(0_i64)]), true),
        ] {
            assert_eq!(may_fail(&schema, &expr), fails, "{expr}");
        }
    }
}
