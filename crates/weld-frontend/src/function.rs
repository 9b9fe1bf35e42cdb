//! A compiled function: a program with what its parameters and its result are.

use std::sync::Arc;

use weld_core::diag::{Diagnostic, Span, shortened};
use weld_core::ir::{self, Expr, ExprKind, Names, Program};

use crate::{Shape, Source};

/// A function of a language. Its program takes the parameters in order.
#[derive(Clone, Debug)]
pub struct Function {
    /// What the program's parameters are, in their order.
    pub params: Vec<Param>,
    /// How the result lies in Weld.
    pub result: Shape,
    /// The gradients that were asked for, by name. If there are any, the program's result is the struct of the value
    /// and these.
    pub gradients: Vec<(String, Shape)>,
    /// The result's type as the language writes it.
    pub result_type: String,
    /// The program, which verifies. Its parameters have the types of `params`.
    pub program: Program,
    /// The texts that the places in the program are of.
    pub source: Arc<Source>,
    /// Where the definition's name is: the place of errors of its arguments.
    pub entry: Span,
}

/// A parameter of a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Param {
    /// As the text has it.
    pub name: String,
    /// How its values lie in Weld.
    pub shape: Shape,
    /// Its type as the language writes it; empty where that says no more than the shape.
    pub written: String,
}

impl Function {
    /// A function of parameters, each with its name, its shape and the variable that stands for it in `body`. Give the
    /// rest with [`typed`](Function::typed), [`at`](Function::at), [`with_gradients`](Function::with_gradients). What
    /// does not verify is a defect of the language's crate: an error, and no panic.
    pub fn new(
        params: Vec<(String, Shape, Expr)>,
        result: Shape,
        body: Expr,
        names: Names,
        source: Arc<Source>,
    ) -> Result<Function, Vec<Diagnostic>> {
        let mut program = Program { params: Vec::with_capacity(params.len()), body, names };
        let mut named = Vec::with_capacity(params.len());
        for (name, shape, variable) in params {
            let ExprKind::Var(sym) = variable.kind else {
                return Err(vec![defect(variable.span, format!("the parameter `{name}` is no variable"))]);
            };
            program.params.push(ir::Param { sym, ty: shape.ty(), stream: false, known: None });
            named.push((name, shape));
        }
        Function::of_program(named, result, program, source)
    }

    /// [`Function::new`] of a program that exists.
    pub fn of_program(
        params: Vec<(impl Into<String>, Shape)>,
        result: Shape,
        program: Program,
        source: Arc<Source>,
    ) -> Result<Function, Vec<Diagnostic>> {
        let place = Span::new(0, 0);
        let params: Vec<Param> = params
            .into_iter()
            .map(|(name, shape)| Param { name: name.into(), shape, written: String::new() })
            .collect();
        let types = params.iter().map(|param| param.shape.ty());
        if program.params.len() != params.len()
            || !program.params.iter().map(|param| &param.ty).eq(types.collect::<Vec<_>>().iter())
        {
            return Err(vec![defect(place, "the parameters are not those of the program".into())]);
        }
        ir::verify(&program)
            .map_err(|errors| errors.into_iter().map(|error| defect(error.span, error.message)).collect::<Vec<_>>())?;
        let result_type = result.described();
        let function = Function { params, result, gradients: Vec::new(), result_type, program, source, entry: place };
        // With gradients the type is another, which `with_gradients` checks.
        Ok(function)
    }

    /// With the result's type as the language writes it.
    pub fn typed(mut self, result_type: impl Into<String>) -> Function {
        self.result_type = shortened(result_type.into());
        self
    }

    /// With the parameters' types as the language writes them, in the order of the parameters.
    pub fn taking(mut self, types: impl IntoIterator<Item = String>) -> Function {
        for (param, written) in self.params.iter_mut().zip(types) {
            param.written = shortened(written);
        }
        self
    }

    /// With the place of the definition's name.
    pub fn at(mut self, entry: Span) -> Function {
        self.entry = entry;
        self
    }

    /// With gradients, whose values follow the result's in the program's struct.
    pub fn with_gradients(mut self, gradients: Vec<(String, Shape)>) -> Function {
        self.gradients = gradients;
        self
    }

    /// The shape of what the program gives: the result, or the record of `value` and the gradients.
    pub fn output(&self) -> Shape {
        if self.gradients.is_empty() {
            return self.result.clone();
        }
        let value = ("value".to_owned(), self.result.clone());
        Shape::Record(std::iter::once(value).chain(self.gradients.iter().cloned()).collect())
    }
}

/// The error of a program that the language's crate should not have made.
pub(crate) fn defect(span: Span, message: String) -> Diagnostic {
    Diagnostic::ty(span, format!("internal error: {message}"))
}
