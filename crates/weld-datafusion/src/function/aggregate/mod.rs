//! Aggregate functions that users write: `LANGUAGE python` with an `@aggregate` class.
//!
//! ```sql
//! CREATE FUNCTION geo(x DOUBLE) RETURNS DOUBLE LANGUAGE python AS $$
//! @aggregate
//! class geo(object):
//!     layout = Struct([('logs', 'Float'), ('n', 'Int')])
//!     .. $$;
//! SELECT k, geo(v) FROM t GROUP BY k;
//! ```
//! A row with a NULL argument is left out, and a group without rows is NULL. Where each field of the state is merged by
//! a builder's operator ([`weld_frontend::Merged`]), the function is compiled into its pipeline as `sum` is
//! (`lower/states.rs`). Any other, and each outside of pipelines, keeps the states of groups in [`groups`], which a
//! program takes rows into ([`kernels`]). An intermediate state is a column for each number of the state, and one of
//! bytes for each other part.

mod columns;
mod groups;
mod kernels;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, not_impl_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Documentation, GroupsAccumulator, Signature};
use weld_core::ir::{Expr, build as ir};
use weld_frontend::{Aggregate, Merged};

use self::groups::{Groups, OneGroup};
pub(super) use self::kernels::Kernels;
use super::Declared;
use super::nested::returned;
use crate::lower::expr::guarded;
use crate::lower::lists::is_nested;
use crate::lower::{Block, Sql, Unsupported};

/// An aggregate function of a session.
#[derive(Clone, Debug)]
pub(crate) struct WeldAggregate {
    declared: Declared,
    pub(crate) aggregate: Arc<Aggregate>,
    kernels: Arc<Kernels>,
}

impl WeldAggregate {
    pub(super) fn new(declared: Declared, aggregate: Arc<Aggregate>, kernels: Kernels) -> WeldAggregate {
        WeldAggregate { declared, aggregate, kernels: Arc::new(kernels) }
    }

    /// The function's name, as it was written.
    pub(crate) fn name(&self) -> &str {
        &self.declared.name
    }

    pub(super) fn declared(&self) -> &Declared {
        &self.declared
    }

    /// How builders of pipelines have it, if they can. Lists and structs are passed and made outside of them.
    pub(crate) fn merged(&self) -> Option<&Merged> {
        let mut types = self.declared.params.iter().chain([&self.declared.result]);
        self.aggregate.merged.as_ref().filter(|_| !types.any(is_nested))
    }

    /// The SQL type of the result.
    pub(crate) fn result(&self) -> &DataType {
        &self.declared.result
    }

    /// In a pipeline, the result of a state that builders have merged, where it is there.
    pub(crate) fn result_of(
        &self,
        block: &mut Block<'_>,
        state: impl IntoIterator<Item = Expr>,
        valid: Option<Expr>,
    ) -> Result<Sql, Unsupported> {
        let refused = |why: &str| Unsupported::new(self.name(), why);
        let finish = self.merged().map(|merged| &merged.finish).ok_or_else(|| refused("no builder has it"))?;
        let state = ir::strct(state);
        let value = block.nested(|inner| {
            let env = &mut *inner.env;
            let value = env.sources.call(finish, vec![state], &mut env.names);
            let value = inner.share("result", value);
            let made = returned(inner, value, &finish.result, self.result(), self.name(), &mut Vec::new())?.pop();
            made.ok_or_else(|| refused("it has no result"))
        })?;
        Ok(block.share_sql("made", guarded(valid, value)))
    }

    /// What a call may not ask for: states are put together in any order, and nobody knows which rows were in them.
    fn check(&self, args: &AccumulatorArgs<'_>) -> Result<()> {
        let name = self.name();
        if args.is_distinct {
            return not_impl_err!("{name}: DISTINCT beside other aggregates");
        }
        if !args.order_bys.is_empty() && self.aggregate.merged.is_none() {
            return not_impl_err!("{name}: ORDER BY in a call: its states are put together in any order");
        }
        Ok(())
    }

    fn groups(&self) -> Groups {
        Groups::new(self.declared.clone(), Arc::clone(&self.kernels))
    }
}

impl PartialEq for WeldAggregate {
    fn eq(&self, other: &WeldAggregate) -> bool {
        self.name() == other.name() && Arc::ptr_eq(&self.aggregate, &other.aggregate)
    }
}

impl Eq for WeldAggregate {}

impl Hash for WeldAggregate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
        Arc::as_ptr(&self.aggregate).hash(state);
    }
}

impl AggregateUDFImpl for WeldAggregate {
    fn name(&self) -> &str {
        self.name()
    }

    fn aliases(&self) -> &[String] {
        &self.declared.aliases
    }

    fn signature(&self) -> &Signature {
        &self.declared.signature
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.declared.documentation)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.declared.result.clone())
    }

    fn coerce_types(&self, found: &[DataType]) -> Result<Vec<DataType>> {
        self.declared.coerced(found)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        match &self.aggregate.merged {
            Some(_) => AggregateOrderSensitivity::Insensitive,
            None => AggregateOrderSensitivity::HardRequirement,
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |(index, ty): (usize, DataType)| Field::new(format!("{}[{index}]", args.name), ty, true);
        Ok(self.kernels.state_types().enumerate().map(|part| Arc::new(field(part))).collect())
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.check(&args)?;
        Ok(Box::new(OneGroup(self.groups())))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.check(&args).is_ok()
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        self.check(&args)?;
        Ok(Box::new(self.groups()))
    }
}
