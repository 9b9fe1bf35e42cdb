//! Functions of the session in `information_schema`, and so in SHOW FUNCTIONS.
//!
//! DataFusion lists the types that a signature names. Arguments of the functions here are converted by rules of their
//! own, and a signature that says so names none: such a function has no parameters in `information_schema.parameters`,
//! no result in `information_schema.routines`, and is left out by SHOW FUNCTIONS, which joins both. Where a statement
//! reads these tables, the rows of the functions are put beside DataFusion's.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::types::NativeType;
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{
    AggregateUDF, Documentation, Expr, LogicalPlan, LogicalPlanBuilder, ScalarUDF, TableScan, Volatility, col, lit,
};
use weld_frontend::Param;

use super::aggregate::WeldAggregate;
use super::{Declared, WeldFunction};

/// The plan with the session's functions in the tables of functions that it reads.
pub(crate) fn with_functions(plan: LogicalPlan, session: &SessionState) -> Result<LogicalPlan> {
    let listed = listed(session);
    if listed.is_empty() {
        return Ok(plan);
    }
    let filled = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::TableScan(scan) if scan.table_name.schema() == Some("information_schema") => {
            let rows: Vec<Vec<Expr>> = match scan.table_name.table() {
                "parameters" => listed.iter().flat_map(|listed| listed.parameters(session)).collect(),
                "routines" => listed.iter().map(|listed| listed.routine(session)).collect(),
                _ => Vec::new(),
            };
            match rows.is_empty() {
                true => Ok(Transformed::no(LogicalPlan::TableScan(scan))),
                false => Ok(Transformed::yes(with_rows(scan, rows, &listed)?)),
            }
        }
        node => Ok(Transformed::no(node)),
    })?;
    Ok(filled.data)
}

/// A table of functions with `rows` in the place of what DataFusion has of these functions.
fn with_rows(scan: TableScan, rows: Vec<Vec<Expr>>, listed: &[Listed<'_>]) -> Result<LogicalPlan> {
    let (name, schema) = (scan.table_name.clone(), Arc::clone(&scan.projected_schema));
    let names = listed.iter().map(|listed| lit(listed.name)).collect();
    // Of a function here DataFusion has no type, which `parameters` leaves out.
    let others = col("data_type").is_not_null().or(col("specific_name").in_list(names, true));
    let ours = LogicalPlanBuilder::values_with_schema(rows, &schema)?.build()?;
    LogicalPlanBuilder::from(LogicalPlan::TableScan(scan)).filter(others)?.union(ours)?.alias(name)?.build()
}

/// A function as the session knows it.
struct Listed<'a> {
    name: &'a str,
    kind: &'static str,
    declared: &'a Declared,
    params: &'a [Param],
}

/// In the order of the names.
fn listed(session: &SessionState) -> Vec<Listed<'_>> {
    let scalars = session.scalar_functions().iter().filter_map(|(name, function)| scalar(name, function));
    let aggregates = session.aggregate_functions().iter().filter_map(|(name, function)| aggregate(name, function));
    let mut listed: Vec<_> = scalars.chain(aggregates).collect();
    listed.sort_by_key(|listed| listed.name);
    listed
}

fn scalar<'a>(name: &'a str, function: &'a ScalarUDF) -> Option<Listed<'a>> {
    let WeldFunction { declared, function, .. } = function.inner().downcast_ref()?;
    Some(Listed { name, kind: "SCALAR", declared, params: &function.params })
}

fn aggregate<'a>(name: &'a str, function: &'a AggregateUDF) -> Option<Listed<'a>> {
    let function: &WeldAggregate = function.inner().downcast_ref()?;
    Some(Listed { name, kind: "AGGREGATE", declared: function.declared(), params: &function.aggregate.params })
}

impl Listed<'_> {
    /// Its rows of `information_schema.parameters`: the arguments and the result.
    fn parameters(&self, session: &SessionState) -> Vec<Vec<Expr>> {
        let types = self.declared.params.iter().zip(self.params);
        let args = types.zip(1_u64..).map(|((of, param), place)| (place, "IN", Some(param.name.as_str()), of));
        let all = args.chain([(1, "OUT", None, &self.declared.result)]);
        let row = |(place, mode, param, of): (u64, &'static str, Option<&str>, &DataType)| {
            let mut row = self.place(session);
            row.extend([lit(place), lit(mode), text(param), lit(shown(of)), text(None), lit(false), lit(0_u8)]);
            row
        };
        all.map(row).collect()
    }

    /// Its row of `information_schema.routines`.
    fn routine(&self, session: &SessionState) -> Vec<Expr> {
        let Documentation { description, syntax_example, .. } = &*self.declared.documentation;
        let deterministic = self.declared.signature.volatility == Volatility::Immutable;
        let mut row = [self.place(session), self.place(session)].concat();
        row.extend([lit("FUNCTION"), lit(deterministic), lit(shown(&self.declared.result))]);
        row.extend([lit(self.kind), lit(description.as_str()), lit(syntax_example.as_str())]);
        row
    }

    /// Catalog, schema and name.
    fn place(&self, session: &SessionState) -> Vec<Expr> {
        let catalog = &session.config_options().catalog;
        vec![lit(catalog.default_catalog.as_str()), lit(catalog.default_schema.as_str()), lit(self.name)]
    }
}

/// The type as DataFusion lists it.
fn shown(of: &DataType) -> String {
    NativeType::from(of.clone()).to_string()
}

fn text(value: Option<&str>) -> Expr {
    lit(ScalarValue::Utf8(value.map(str::to_owned)))
}
