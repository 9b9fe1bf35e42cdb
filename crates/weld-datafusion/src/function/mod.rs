//! Functions that users write in one of the languages and call from SQL.
//!
//! ```sql
//! CREATE FUNCTION sigmoid(x DOUBLE) RETURNS DOUBLE LANGUAGE weld AS '|x: f64| 1.0 / (1.0 + exp(-x))';
//! SELECT count(*) FROM events WHERE sigmoid(score) >= 0.5;
//! ```
//!
//! [`factory`] compiles the text and registers a [`WeldFunction`]. In a compiled pipeline its program becomes part of
//! the row's expressions ([`call`]); anywhere else, and with `weld.enabled = false`, [`invoke`] runs the same lowering
//! as a projection of the arguments. A NULL argument gives NULL, without evaluating the function.

pub(crate) mod aggregate;
pub(crate) mod call;
pub(crate) mod factory;
mod invoke;
pub(crate) mod listing;
pub(crate) mod literals;
mod nested;
pub(crate) mod types;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, DocSection, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use weld_frontend::{Function, Param};

use crate::stoppable::may_run_long;

/// What CREATE FUNCTION says of a function.
#[derive(Clone, Debug)]
pub(crate) struct Declared {
    /// As it was written.
    name: String,
    /// The name in lower case, which is how calls are looked up, and as written: either drops the function.
    aliases: Vec<String>,
    params: Vec<DataType>,
    result: DataType,
    signature: Signature,
    documentation: Arc<Documentation>,
}

impl Declared {
    fn new(
        name: String,
        params: Vec<DataType>,
        result: DataType,
        volatility: Volatility,
        documentation: Documentation,
    ) -> Declared {
        let signature = match params.is_empty() {
            true => Signature::nullary(volatility),
            false => Signature::user_defined(volatility),
        };
        let aliases = vec![name.to_lowercase(), name.clone()];
        Declared { name, aliases, params, result, signature, documentation: Arc::new(documentation) }
    }

    /// The types that arguments of these types are converted to.
    fn coerced(&self, found: &[DataType]) -> Result<Vec<DataType>> {
        let Declared { name, params, .. } = self;
        if found.len() != params.len() {
            return plan_err!("{name} takes {} arguments, not {}", params.len(), found.len());
        }
        for (position, (found, declared)) in found.iter().zip(params).enumerate() {
            if !types::coerces(found, declared) {
                return plan_err!("{name}: argument {} is {declared}, not {found}", position + 1);
            }
        }
        Ok(found.iter().zip(params).map(|(found, declared)| types::passed(found, declared)).collect())
    }
}

/// What SHOW FUNCTIONS says of a function in a language.
fn documentation(name: &str, language: &str, params: &[Param]) -> Documentation {
    let section = DocSection { include: false, label: "Functions of the session", description: None };
    let names: Vec<&str> = params.iter().map(|param| param.name.as_str()).collect();
    let call = format!("{name}({})", names.join(", "));
    Documentation::builder(section, format!("LANGUAGE {language}"), call).build()
}

/// A function of a session.
#[derive(Clone, Debug)]
pub(crate) struct WeldFunction {
    declared: Declared,
    pub(crate) function: Arc<Function>,
    may_run_long: bool,
    code: Arc<invoke::Codes>,
}

impl WeldFunction {
    fn new(declared: Declared, function: Arc<Function>, code: invoke::Codes) -> WeldFunction {
        let may_run_long = may_run_long(&function.program.body);
        WeldFunction { declared, function, may_run_long, code: Arc::new(code) }
    }

    /// The function's name, as it was written.
    pub(crate) fn name(&self) -> &str {
        &self.declared.name
    }

    /// The SQL types of the parameters.
    pub(crate) fn params(&self) -> &[DataType] {
        &self.declared.params
    }

    /// Whether a call may take much longer than passing its arguments.
    pub(crate) fn may_run_long(&self) -> bool {
        self.may_run_long
    }

    /// The SQL type of the result.
    pub(crate) fn result(&self) -> &DataType {
        &self.declared.result
    }
}

impl PartialEq for WeldFunction {
    fn eq(&self, other: &WeldFunction) -> bool {
        self.name() == other.name() && Arc::ptr_eq(&self.function, &other.function)
    }
}

impl Eq for WeldFunction {}

impl Hash for WeldFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
        Arc::as_ptr(&self.function).hash(state);
    }
}

impl ScalarUDFImpl for WeldFunction {
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

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.result().clone(), nullable)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn coerce_types(&self, found: &[DataType]) -> Result<Vec<DataType>> {
        self.declared.coerced(found)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        invoke::invoke(self, args)
    }
}
