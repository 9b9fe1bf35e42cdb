//! A call whose arguments are JSON: what `weld eval`, `weld run` and the tests of languages do.
//!
//! The values say what they can before the text is looked at ([`Arg`]); the function's shapes say how to read them.

use serde_json::Value as Json;
use weld_core::diag::{Diagnostic, ErrorKind, Span, shortened};
use weld_core::interp::Value;
use weld_core::ty::Type;

use crate::{Arg, Function, Language, Param, Shape, json};

/// The arguments of one call.
#[derive(Clone, Default, Debug)]
pub struct Given {
    /// What is known of each before the text is looked at, in the order of the call.
    pub args: Vec<Arg>,
    values: Vec<Json>,
    /// What is wrong with them; said when the text has been parsed.
    wrong: Option<String>,
    /// What makes a value no array: ragged lists, sizes that are not those of the data. Only languages of arrays mind.
    no_array: Option<String>,
}

impl Given {
    /// Adds an argument, by name or by position, with its type where it is written.
    pub fn push(&mut self, name: Option<String>, written: Option<String>, value: Json) {
        let known = json::known(&value).unwrap_or_else(|message| {
            let which = name.clone().map_or(format!("argument {}", self.args.len() + 1), |name| format!("`{name}`"));
            self.no_array.get_or_insert(format!("{which}: {message}"));
            crate::Known::Nothing
        });
        self.args.push(Arg { name, written, known });
        self.values.push(value);
    }

    /// Adds an error that belongs to the arguments.
    pub fn refuse(&mut self, message: String) {
        self.wrong.get_or_insert(message);
    }

    /// What to say where the text does not compile with these arguments. Type errors may follow from an argument that
    /// nothing is known of, because it is wrong.
    pub fn explained(&self, errors: Vec<Diagnostic>, language: &dyn Language) -> Vec<Diagnostic> {
        match self.wrong.as_ref().or(self.no_array.as_ref().filter(|_| language.lists_are_arrays())) {
            Some(message) if errors.iter().all(|error| error.kind == ErrorKind::Type) => {
                vec![Diagnostic::ty(Span::new(0, 0), message.clone())]
            }
            _ => errors,
        }
    }

    /// The values for the function's parameters, or what is wrong with one: a type error at the function's entry.
    /// `None` where one is NULL, as the result is then.
    pub fn read(&self, function: &Function) -> Result<Option<Vec<Value>>, Diagnostic> {
        let wrong = |message: String| Diagnostic::ty(function.entry, message);
        if let Some(message) = &self.wrong {
            return Err(wrong(message.clone()));
        }
        if function.params.len() != self.values.len() {
            return Err(wrong(format!("expected {} arguments, found {}", function.params.len(), self.values.len())));
        }
        let values = function.params.iter().zip(&self.values).map(|(param, value)| match value {
            Json::Null => Ok(None),
            _ => json::read(value, &param.shape).map(Some).map_err(|message| wrong(refused(param, value, &message))),
        });
        values.collect::<Result<Vec<_>, _>>().map(|values| values.into_iter().collect())
    }
}

/// What is wrong with an argument, by the type that the language has for it.
fn refused(param: &Param, value: &Json, message: &str) -> String {
    let Param { name, shape, written } = param;
    match (written.as_str(), shape) {
        ("", _) => format!("argument `{name}`: {message}"),
        (_, Shape::Plain(Type::Scalar(_))) => {
            format!("argument `{name}`: expected {written}, found `{}`", shortened(value.to_string()))
        }
        _ => format!("argument `{name}`: expected {written}: {message}"),
    }
}
