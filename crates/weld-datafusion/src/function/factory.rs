//! `CREATE FUNCTION`: from the statement to a registered function.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result, ScalarValue, not_impl_err, plan_datafusion_err, plan_err};
use datafusion::execution::context::{FunctionFactory, RegisterFunction, SessionState};
use datafusion::logical_expr::{AggregateUDF, CreateFunction, Expr, ScalarUDF, Volatility};
use weld_core::diag::{self, Diagnostic};
use weld_frontend::{Arg, Args, DataType, Known, Language, Library, Options, Param, Request, Shape};

use super::aggregate::{Kernels, WeldAggregate};
use super::invoke::Codes;
use super::{Declared, WeldFunction, call, documentation, types};
use crate::code_cache::{CodeCache, Settings};
use crate::config::WeldOptions;

/// Makes functions of the languages here; the rest is left to the factory that was there before.
#[derive(Debug)]
pub(crate) struct WeldFunctionFactory {
    others: Option<Arc<dyn FunctionFactory>>,
    /// Where code of pipelines is kept that call the functions.
    cache: Weak<CodeCache>,
}

impl WeldFunctionFactory {
    pub(crate) fn new(others: Option<Arc<dyn FunctionFactory>>, cache: &Arc<CodeCache>) -> WeldFunctionFactory {
        WeldFunctionFactory { others, cache: Arc::downgrade(cache) }
    }
}

#[async_trait]
impl FunctionFactory for WeldFunctionFactory {
    async fn create(&self, state: &SessionState, statement: CreateFunction) -> Result<RegisterFunction> {
        let named = statement.params.language.as_ref().map(|language| language.value.clone());
        let language = named.as_deref().and_then(weld_languages::by_name);
        match (language, &self.others, named) {
            (Some(language), _, _) => create(state, &statement, language, &self.cache),
            (None, Some(others), _) => others.create(state, statement).await,
            (None, None, named) => {
                let names: Vec<&str> = weld_languages::all().iter().map(|language| language.names()[0]).collect();
                let found =
                    named.map_or("LANGUAGE is missing".to_owned(), |name| format!("no language is called {name}"));
                plan_err!("{}: {found}; there are {}", statement.name, names.join(", "))
            }
        }
    }
}

fn create(
    state: &SessionState,
    statement: &CreateFunction,
    language: &'static dyn Language,
    cache: &Weak<CodeCache>,
) -> Result<RegisterFunction> {
    let name = &statement.name;
    if !statement.or_replace && is_known(state, name) {
        return plan_err!("a function {name} exists; CREATE OR REPLACE FUNCTION replaces it");
    }
    let text = text(statement)?;
    let declared = statement.args.as_deref().unwrap_or_default();
    if declared.iter().any(|arg| arg.default_expr.is_some()) {
        return not_impl_err!("{name}: default values of arguments");
    }
    let Some(result) = &statement.return_type else { return plan_err!("{name}: RETURNS is missing") };
    let temporal = language.names()[0] == "weld";
    let shown = |ty: &_| types::shown(ty, temporal).map_err(|message| plan_datafusion_err!("{name}: {message}"));
    let arg = |ty: DataType, name: Option<String>| Arg { name, known: Known::Type(ty), ..Arg::default() };
    let args = declared.iter().map(|declared| {
        let name = declared.name.as_ref().map(|name| name.value.clone()).filter(|name| !name.is_empty());
        Ok(arg(shown(&declared.data_type)?, name))
    });
    let args = args.collect::<Result<Vec<Arg>>>()?;
    let returns = shown(result)?;
    let library = library(state);
    let options = Options { sql: true, ..Options::default() };
    let request = Request {
        entry: Some(name),
        args: Args::Given(&args),
        returns: Some(&returns),
        ..Request::new(&text, &library, &options)
    };
    let wrong =
        |errors: Vec<Diagnostic>| DataFusionError::Plan(diag::render(&errors, &text, name).trim_end().to_owned());
    let volatility = statement.params.behavior.unwrap_or(Volatility::Immutable);
    let declare = |params: &[Param]| {
        let types = declared.iter().map(|declared| declared.data_type.clone()).collect();
        let documentation = documentation(name, language.names()[0], params);
        Declared::new(name.clone(), types, result.clone(), volatility, documentation)
    };
    let pool = Arc::clone(&state.runtime_env().memory_pool);
    if let Some(aggregate) = language.aggregate(&request).map_err(wrong)? {
        if is_scalar(state, name) {
            return plan_err!("{name} is called for each row; DROP FUNCTION drops it before an aggregate has its name");
        }
        check(name, &aggregate.params, &aggregate.finish.result, (&args, &returns))?;
        let (declared, aggregate) = (declare(&aggregate.params), Arc::new(aggregate));
        let code = (Weak::clone(cache), Settings::of(&WeldOptions::of(state.config_options())));
        let kernels = Kernels::new(name.clone(), Arc::clone(&aggregate), result.clone(), code, pool);
        kernels.check().map_err(|unsupported| plan_datafusion_err!("{name}: {unsupported}"))?;
        let function = WeldAggregate::new(declared, aggregate, kernels);
        return Ok(RegisterFunction::Aggregate(Arc::new(AggregateUDF::new_from_impl(function))));
    }
    let function = language.compile(&request).map_err(wrong)?;
    check(name, &function.params, &function.output(), (&args, &returns))?;
    let codes = Codes::new(Arc::clone(&function.source), Weak::clone(cache), pool);
    let function = WeldFunction::new(declare(&function.params), Arc::new(function), codes);
    // What the pipelines cannot pass or return is refused here, not in queries.
    call::check(&function).map_err(|unsupported| plan_datafusion_err!("{name}: {unsupported}"))?;
    Ok(RegisterFunction::Scalar(Arc::new(ScalarUDF::new_from_impl(function))))
}

/// A language may leave it to the edge to compare its types with those declared.
fn check(name: &str, params: &[Param], result: &Shape, (args, returns): (&[Arg], &DataType)) -> Result<()> {
    if params.len() != args.len() {
        return plan_err!("{name} is declared with {} arguments, its text has {}", args.len(), params.len());
    }
    for (param, arg) in params.iter().zip(args) {
        if let Known::Type(declared) = &arg.known {
            param
                .shape
                .fits(declared)
                .map_err(|message| plan_datafusion_err!("{name}: `{}`: {message}", param.name))?;
        }
    }
    result.fits(returns).map_err(|message| plan_datafusion_err!("{name}: the result: {message}"))
}

/// What stands after AS.
fn text(statement: &CreateFunction) -> Result<String> {
    match &statement.params.function_body {
        Some(Expr::Literal(ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)), _)) => Ok(text.clone()),
        Some(_) => plan_err!("{}: the text of a function is a string: AS '..' or AS $$ .. $$", statement.name),
        None => plan_err!("{}: AS with the text of the function is missing", statement.name),
    }
}

/// Whether calls of the name would reach another function.
fn is_known(state: &SessionState, name: &str) -> bool {
    let lower = name.to_lowercase();
    let is_known = |name: &str| {
        state.scalar_functions().contains_key(name)
            || state.aggregate_functions().contains_key(name)
            || state.window_functions().contains_key(name)
    };
    is_known(name) || is_known(&lower)
}

/// Whether calls of the name reach a function of rows, whatever aggregate has it too.
fn is_scalar(state: &SessionState, name: &str) -> bool {
    let functions = state.scalar_functions();
    functions.contains_key(name) || functions.contains_key(&name.to_lowercase())
}

/// The functions of the session that texts may call.
fn library(state: &SessionState) -> Library {
    let mut library = Library::default();
    for (name, function) in state.scalar_functions() {
        if let Some(function) = function.inner().downcast_ref::<WeldFunction>() {
            library.insert(name.clone(), Arc::clone(&function.function));
        }
    }
    library
}
