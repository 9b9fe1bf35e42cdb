//! Definitions of texts in the languages that functions are written in.

use weld_core::diag::{Diagnostic, Span};
use weld_core::ty::ScalarKind;
use weld_frontend::{Arg, Args, DataType, Function, Known, Library, Options, Request, Sizes};

use crate::Errors;

/// A definition of a text with what is known of its arguments.
///
/// Arguments that are told about are the program's parameters, in the order in which they are told; without any, the
/// parameters are those that the text declares.
#[derive(Clone, Debug)]
pub struct Definition<'a> {
    language: &'a str,
    text: &'a str,
    entry: Option<&'a str>,
    args: Vec<Arg>,
    library: Option<&'a Library>,
    options: Options,
}

impl<'a> Definition<'a> {
    /// The last definition of a text. The languages are `weld`, `ttl`, `gtscript`, `ocannl` and `python`.
    pub fn new(language: &'a str, text: &'a str) -> Definition<'a> {
        Definition { language, text, entry: None, args: Vec::new(), library: None, options: Options::default() }
    }

    /// The definition of this name instead.
    pub fn entry(mut self, name: &'a str) -> Definition<'a> {
        self.entry = Some(name);
        self
    }

    /// The argument of a parameter, of which nothing is known but what the text says.
    pub fn argument(self, name: &str) -> Definition<'a> {
        self.with(name, Known::Nothing)
    }

    /// The argument of a parameter: a number, or a list, matrix or field of these sizes.
    pub fn list(self, name: &str, sizes: impl Into<Vec<u64>>) -> Definition<'a> {
        self.with(name, Known::Sizes(Sizes { output: sizes.into(), ..Sizes::default() }))
    }

    /// The argument of a parameter: a tensor of these batch, output and input axes.
    pub fn tensor(
        self,
        name: &str,
        batch: impl Into<Vec<u64>>,
        output: impl Into<Vec<u64>>,
        input: impl Into<Vec<u64>>,
    ) -> Definition<'a> {
        let (batch, output, input) = (batch.into(), output.into(), input.into());
        self.with(name, Known::Sizes(Sizes { batch, output, input, tensor: true, ..Sizes::default() }))
    }

    /// The argument of a parameter: a field of these sizes, the first point of the domain at `origin`.
    pub fn field(self, name: &str, sizes: impl Into<Vec<u64>>, origin: impl Into<Vec<u64>>) -> Definition<'a> {
        self.with(name, Known::Sizes(Sizes { output: sizes.into(), origin: Some(origin.into()), ..Sizes::default() }))
    }

    /// The argument of a parameter: a value of SQL's type, whose sizes may be open.
    pub fn column(self, name: &str, ty: DataType) -> Definition<'a> {
        self.with(name, Known::Type(ty))
    }

    fn with(mut self, name: &str, known: Known) -> Definition<'a> {
        self.args.push(Arg { name: Some(name.to_owned()), written: None, known });
        self
    }

    /// The compute domain of a stencil; without one it is the largest that fits the accesses.
    pub fn domain(mut self, sizes: [u64; 3]) -> Definition<'a> {
        self.options.domain = Some(sizes);
        self
    }

    /// With the gradient of a parameter: the program gives a struct of the value and the gradients, in the order in
    /// which they are asked for.
    pub fn gradient(mut self, name: &str) -> Definition<'a> {
        self.options.wrt.push(name.to_owned());
        self
    }

    /// What tensors hold that nothing says the element type of; `f32` otherwise.
    pub fn element(mut self, kind: ScalarKind) -> Definition<'a> {
        self.options.element = kind;
        self
    }

    /// Functions that the text may call beside its own.
    pub fn library(mut self, library: &'a Library) -> Definition<'a> {
        self.library = Some(library);
        self
    }

    /// Parses and checks the text.
    pub fn check(&self) -> Result<Function, Errors> {
        let wrong = |diagnostics| Errors { diagnostics, source: self.text.into() };
        let Some(language) = weld_languages::by_name(self.language) else {
            let known: Vec<&str> = weld_languages::all().iter().map(|language| language.names()[0]).collect();
            let message = format!("unknown language `{}`: the languages are {}", self.language, known.join(", "));
            return Err(wrong(vec![Diagnostic::parse(Span::NONE, message)]));
        };
        let none = Library::default();
        let args = if self.args.is_empty() { Args::Declared } else { Args::Given(&self.args) };
        let library = self.library.unwrap_or(&none);
        let request = Request { entry: self.entry, args, ..Request::new(self.text, library, &self.options) };
        language.compile(&request).map_err(wrong)
    }
}
