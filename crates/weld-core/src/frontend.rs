//! The whole front end: text in, checked program out.
//!
//! ```
//! let program = weld_core::parse_program("|v: vec[i64]| sum(map(v, |x| x * x))").unwrap();
//! assert_eq!(program.body.ty, weld_core::ty::Type::I64);
//! let errors = weld_core::parse_program("|x: i64| x + y").unwrap_err();
//! assert_eq!(errors[0].message, "unknown name `y`");
//! ```

use std::collections::BTreeMap;

use crate::diag::Diagnostic;
use crate::infer;
use crate::ir::Program;
use crate::syntax;
use crate::ty::Type;

/// What the host tells the front end.
#[derive(Clone, Default, Debug)]
pub struct Frontend {
    /// The C functions that programs may call with `cudf`, by name.
    pub cudfs: BTreeMap<String, Signature>,
}

/// The types of a C function that the host registered.
#[derive(Clone, PartialEq, Debug)]
pub struct Signature {
    /// The types of its arguments.
    pub params: Vec<Type>,
    /// The type of what it gives.
    pub result: Type,
}

impl Frontend {
    /// Parses, expands macros, infers types and checks a program. Gives all parse errors or else all type errors, in
    /// the order of the text, or else all breaches of linearity, causes first.
    pub fn parse_program(&self, source: &str) -> Result<Program, Vec<Diagnostic>> {
        let (module, errors) = syntax::parse(source);
        if errors.is_empty() { infer::infer(&module, self) } else { Err(errors) }
    }
}

/// [`Frontend::parse_program`] without anything from a host.
pub fn parse_program(source: &str) -> Result<Program, Vec<Diagnostic>> {
    Frontend::default().parse_program(source)
}

/// A type as one writes it: `vec[{i32,f64}]`. No `?`, no aliases.
pub fn parse_type(source: &str) -> Result<Type, Vec<Diagnostic>> {
    let (ty, errors) = syntax::parse_type(source);
    if errors.is_empty() { infer::closed_type(&ty) } else { Err(errors) }
}
