//! The language as the rest of the project sees it: a text in, a function out.

use weld_core::diag::{Diagnostic, Span, shortened};
use weld_frontend::{Aggregate, Function, Language, Request, Source};

use crate::module::{self, Module};
use crate::trace::{self, Entry, Maker};

/// Python, the Numba core language.
#[derive(Clone, Copy, Debug)]
pub struct Python;

impl Language for Python {
    fn names(&self) -> &'static [&'static str] {
        &["python", "numba"]
    }

    fn extension(&self) -> &'static str {
        "py"
    }

    fn lists_are_arrays(&self) -> bool {
        false
    }

    fn compile(&self, request: &Request<'_>) -> Result<Function, Vec<Diagnostic>> {
        request.options.without_gradients("python")?;
        request.options.without_domain("python")?;
        let limits = request.options.limits;
        let tree = weld_pysyntax::parse(request.text, &limits)?;
        let module = module::collect(&tree)?;
        let entry = entry(&module, request)?;
        let source = source(&tree, &entry, request);
        trace::function(&module, &entry, request, source, (request.library, limits))
    }

    fn aggregate(&self, request: &Request<'_>) -> Result<Option<Aggregate>, Vec<Diagnostic>> {
        let limits = request.options.limits;
        let tree = weld_pysyntax::parse(request.text, &limits)?;
        let module = module::collect(&tree)?;
        let entry = entry(&module, request)?;
        let source = source(&tree, &entry, request);
        let Entry::Aggregate(index, class) = entry else { return Ok(None) };
        let context = (request.library, limits);
        Maker { module: &module, class: (index, class), request, source, context }.aggregate().map(Some)
    }
}

/// The text with the places of its definitions.
fn source(tree: &weld_pysyntax::Module, entry: &Entry<'_>, request: &Request<'_>) -> Source {
    let spans = tree.body.iter().filter_map(|stmt| match &stmt.kind {
        weld_pysyntax::StmtKind::Function(function) => Some((stmt.span, function.name.name.to_string())),
        weld_pysyntax::StmtKind::Class(class) => Some((stmt.span, class.name.name.to_string())),
        _ => None,
    });
    let definitions: Vec<(Span, String)> = spans.collect();
    Source::new(request.entry.unwrap_or(entry.name()), request.text).with_definitions(definitions)
}

/// The definition that is called: by name, else the last one.
fn entry<'a>(module: &Module<'a>, request: &Request<'_>) -> Result<Entry<'a>, Vec<Diagnostic>> {
    let none = |message: String| vec![Diagnostic::ty(Span::new(0, 0), message)];
    let Some(last) = module.entries.last() else { return Err(none("the text has no function".into())) };
    let find = |wanted: &str| {
        let same = module.entries.iter().rfind(|name| &***name == wanted);
        let is_alike = |name: &&std::sync::Arc<str>| name.eq_ignore_ascii_case(wanted);
        same.or_else(|| module.entries.iter().rfind(is_alike).filter(|_| request.options.sql))
    };
    let name = match request.entry {
        None => last,
        Some(wanted) => match find(wanted) {
            Some(name) => name,
            None if request.options.sql => last,
            None => {
                let known: Vec<&str> = module.entries.iter().map(|name| &**name).collect();
                let error = Diagnostic::ty(Span::new(0, 0), format!("the function `{wanted}` is not defined"));
                return Err(vec![error.with_hint(shortened(format!("the text has `{}`", known.join("`, `"))))]);
            }
        },
    };
    if let Some(overloads) = module.functions.get(name) {
        return Ok(Entry::Function(overloads.clone()));
    }
    let index = module.class(name).unwrap_or(0);
    let class = module.classes[index].clone();
    match class.aggregate {
        Some(_) => Ok(Entry::Aggregate(index, class)),
        None => {
            let error =
                Diagnostic::ty(class.span, format!("`{name}` is a class: a function or an aggregate is called"));
            Err(vec![error.with_hint("`@aggregate` makes a class one")])
        }
    }
}
