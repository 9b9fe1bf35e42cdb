//! `CREATE FUNCTION`: from the statement to a registered function.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result, ScalarValue, not_impl_err, plan_datafusion_err, plan_err};
use datafusion::execution::context::{FunctionFactory, RegisterFunction, SessionState};
use datafusion::logical_expr::{CreateFunction, Expr, ScalarUDF, Volatility};
use weld_core::diag;
use weld_frontend::{Arg, Args, DataType, Function, Known, Language, Library, Options, Request};

use super::invoke::Codes;
use super::{WeldFunction, call, types};
use crate::code::CodeCache;

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
            (Some(language), _, _) => {
                let function = create(state, &statement, language, &self.cache)?;
                Ok(RegisterFunction::Scalar(Arc::new(ScalarUDF::new_from_impl(function))))
            }
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
) -> Result<WeldFunction> {
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
    let function = language
        .compile(&request)
        .map_err(|errors| DataFusionError::Plan(diag::render(&errors, &text, name).trim_end().to_owned()))?;
    check(name, &function, &args, &returns)?;
    let volatility = statement.params.behavior.unwrap_or(Volatility::Immutable);
    let params = declared.iter().map(|declared| declared.data_type.clone()).collect();
    let pool = Arc::clone(&state.runtime_env().memory_pool);
    let codes = Codes::new(Arc::clone(&function.source), Weak::clone(cache), pool);
    let function = WeldFunction::new(name.clone(), params, result.clone(), volatility, Arc::new(function), codes);
    // What the pipelines cannot pass or return is refused here, not in queries.
    call::check(&function).map_err(|unsupported| plan_datafusion_err!("{name}: {unsupported}"))?;
    Ok(function)
}

/// A language may leave it to the edge to compare its types with those declared.
fn check(name: &str, function: &Function, args: &[Arg], returns: &DataType) -> Result<()> {
    if function.params.len() != args.len() {
        return plan_err!("{name} is declared with {} arguments, its text has {}", args.len(), function.params.len());
    }
    for (param, arg) in function.params.iter().zip(args) {
        if let Known::Type(declared) = &arg.known {
            param
                .shape
                .fits(declared)
                .map_err(|message| plan_datafusion_err!("{name}: `{}`: {message}", param.name))?;
        }
    }
    function.output().fits(returns).map_err(|message| plan_datafusion_err!("{name}: the result: {message}"))
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
