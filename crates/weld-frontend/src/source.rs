//! The texts behind a program, and where in them its errors are.
//!
//! A program that calls functions of other texts has nodes of several texts. Their places are told apart by an offset:
//! the places of the program's own text come first, those of each text that was inlined follow.

use std::collections::HashMap;
use std::sync::Arc;

use weld_core::RuntimeError;
use weld_core::diag::{Diagnostic, Span, line_column, shortened};
use weld_core::ir::{Binding, Expr, ExprKind, Names, Param, Sym, build};

use crate::Function;

/// A text with the texts of the functions that were inlined into its program.
#[derive(Clone, Debug)]
pub struct Source {
    /// What the text is called in errors: a function's name, a file's.
    pub name: String,
    /// The text itself.
    pub text: Arc<str>,
    /// The places of the text's definitions with their names, none inside another, in order.
    definitions: Vec<(Span, String)>,
    /// With the place at which each begins.
    inlined: Vec<(u32, Arc<Source>)>,
}

impl Source {
    /// A text without definitions, into which nothing was inlined yet.
    pub fn new(name: impl Into<String>, text: &str) -> Source {
        Source { name: name.into(), text: text.into(), definitions: Vec::new(), inlined: Vec::new() }
    }

    /// With the definitions that run-time errors are said to be in: each with its place, in the order of the text.
    pub fn with_definitions(mut self, definitions: Vec<(Span, String)>) -> Source {
        self.definitions = definitions;
        self
    }

    /// A run-time error of the program as a diagnostic with its place in a text, and that text: see
    /// [`Source::located`].
    pub fn diagnostic(&self, error: RuntimeError) -> (&Source, Diagnostic) {
        self.located(Diagnostic::from(error))
    }

    /// A run-time error with its place in the text that it is in, and that text. The message begins with the definition
    /// and the line, as far as the text has them: `net, line 6: integer overflow`.
    pub fn located(&self, mut error: Diagnostic) -> (&Source, Diagnostic) {
        let (source, span) = self.locate(error.span);
        let at = source.definitions.partition_point(|(place, _)| place.start <= span.start);
        let definition = at.checked_sub(1).map(|at| &source.definitions[at]);
        error.span = span;
        if let Some((_, name)) = definition.filter(|(place, _)| span.start < place.end) {
            let (line, _) = line_column(&source.text, span.start);
            error.message = shortened(format!("{name}, line {line}: {}", error.message));
        }
        (source, error)
    }

    /// The text that a place of the program is in, and the place there.
    pub fn locate(&self, span: Span) -> (&Source, Span) {
        let part = self.inlined.iter().rev().find(|(base, _)| *base <= span.start);
        match part {
            Some((base, source)) => {
                source.locate(Span { start: span.start - base, end: span.end.saturating_sub(*base) })
            }
            None => (self, span),
        }
    }

    /// The texts that were inlined into it, and into these.
    pub fn inlined(&self) -> Vec<&Arc<Source>> {
        self.inlined.iter().flat_map(|(_, source)| std::iter::once(source).chain(source.inlined())).collect()
    }

    /// How many places the text and those inlined into it take.
    fn places(&self) -> u32 {
        let own = u32::try_from(self.text.len()).unwrap_or(u32::MAX).saturating_add(1);
        self.inlined.last().map_or(own, |(base, last)| base.saturating_add(last.places()))
    }
}

/// Collects the texts of a program that is being made.
#[derive(Clone, Debug)]
pub struct Sources {
    source: Source,
}

/// Of a program without a text of its own.
impl Default for Sources {
    fn default() -> Sources {
        Sources::new(Source::new("", ""))
    }
}

impl Sources {
    /// Of a program of that text.
    pub fn new(source: Source) -> Sources {
        Sources { source }
    }

    /// The program's own text with those that were inlined.
    pub fn finish(self) -> Arc<Source> {
        Arc::new(self.source)
    }

    /// A call of a function: its program with the arguments in place of its parameters, each evaluated once, its errors
    /// keeping their places. The arguments' types are those of the function's parameters.
    pub fn call(&mut self, function: &Function, args: Vec<Expr>, names: &mut Names) -> Expr {
        let base = self.add(&function.source);
        inline(function, args, base, names)
    }

    /// Where the places of the text begin in the program; a text that is there already keeps its place.
    fn add(&mut self, source: &Arc<Source>) -> u32 {
        if let Some((base, _)) = self.source.inlined.iter().find(|(_, known)| Arc::ptr_eq(known, source)) {
            return *base;
        }
        let base = self.source.places();
        self.source.inlined.push((base, source.clone()));
        base
    }
}

/// The function's body over these arguments, places moved by `base`.
fn inline(function: &Function, args: Vec<Expr>, base: u32, names: &mut Names) -> Expr {
    let program = &function.program;
    // Symbols of another program: all that are bound there get numbers of this one.
    let mut renamed: HashMap<Sym, Sym> = HashMap::new();
    let mut fresh = |sym: Sym| *renamed.entry(sym).or_insert_with(|| names.fresh(program.names.name(sym)));
    let bind = |(param, value): (&Param, Expr)| Binding { sym: fresh(param.sym), value };
    let bindings = program.params.iter().zip(args).map(bind).collect();
    let mut body = program.body.clone();
    body.rewrite_down(&mut |e| {
        if e.span != Span::NONE {
            e.span = Span { start: e.span.start.saturating_add(base), end: e.span.end.saturating_add(base) };
        }
        match &mut e.kind {
            ExprKind::Var(sym) => *sym = fresh(*sym),
            ExprKind::Let { bindings, .. } => bindings.iter_mut().for_each(|binding| binding.sym = fresh(binding.sym)),
            ExprKind::Sort { compare: func, .. }
            | ExprKind::Iterate { step: func, .. }
            | ExprKind::For { func, .. } => func.params.iter_mut().for_each(|(sym, _)| *sym = fresh(*sym)),
            _ => {}
        }
    });
    build::let_in(bindings, body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shape;
    use weld_core::interp::Value;
    use weld_core::ty::Type;

    fn function(text: &str) -> Function {
        let program = weld_core::parse_program(text).unwrap();
        let params = vec![("x", Shape::I64)];
        Function::of_program(params, Shape::I64, program, Arc::new(Source::new("f", text))).unwrap()
    }

    #[test]
    fn calls_are_inlined_with_their_places() {
        let inner = function("|x: i64| let y = x + 1L; 10L / y");
        let mut names = Names::default();
        let definitions = vec![(Span::new(0, 3), "g".to_owned())];
        let mut sources = Sources::new(Source::new("g", "f f").with_definitions(definitions));
        let x = build::param(&mut names, "x", Type::I64);
        let once = sources.call(&inner, vec![x.clone()], &mut names);
        let twice = sources.call(&inner, vec![once], &mut names);
        let params = vec![("x".into(), Shape::I64, x)];
        let outer = Function::new(params, Shape::I64, twice, names, sources.finish()).unwrap();
        let run = |x| weld_core::interp::run(&outer.program, &[Value::i64(x)], &Default::default());
        assert_eq!(run(1).unwrap(), Value::i64(1));
        let (source, span) = (&outer.source, run(-1).unwrap_err().span);
        let (found, place) = source.locate(span);
        assert_eq!((found.name.as_str(), &found.text[place.start as usize..place.end as usize]), ("f", "10L / y"));
        assert_eq!(source.locate(Span::new(2, 3)).0.name, "g");
        assert!(matches!(source.inlined()[..], [text] if Arc::ptr_eq(text, &inner.source)));
        let error = RuntimeError::new(weld_core::RuntimeErrorKind::Overflow, Span::new(2, 3), "integer overflow");
        let (found, diagnostic) = source.diagnostic(error);
        assert_eq!((found.name.as_str(), diagnostic.message.as_str()), ("g", "g, line 1: Overflow: integer overflow"));
    }
}
