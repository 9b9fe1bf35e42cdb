//! Random well-typed programs with arguments, the same for the same seed.
//!
//! They terminate soon, rarely raise errors, and have one result on every engine: the results of float loops are in
//! order (`strict`), dictionaries are turned into vectors by sorting, comparators are total, bytes of floats (whose
//! NaNs have payloads) are not serialised, and functions of the C library other than `sqrt` are not called.

mod exprs;
mod loops;
pub mod rng;
mod sorts;
mod steps;
mod streams;
mod tables;
mod types;
mod values;

use weld_core::interp::Value;
use weld_core::ir::{Expr, Names, Param, Program, build};
use weld_core::ty::Type;

use rng::Rng;

/// A program with arguments.
#[derive(Clone, Debug)]
pub struct Generated {
    pub program: Program,
    pub args: Vec<Value>,
}

/// The program of a seed; about `size` operations.
pub fn program(seed: u64, size: usize) -> Generated {
    let mut rng = Rng::new(seed);
    let mut names = Names::default();
    let mut scope = Vec::new();
    let mut params = Vec::new();
    let mut args = Vec::new();
    let stream = rng.one_in(6).then(|| {
        let (sym, ty) = (names.fresh("rows"), Type::vec(streams::row(&mut rng)));
        args.push(values::value(&mut rng, &ty, 60));
        params.push(Param { sym, ty: ty.clone(), stream: true, known: None });
        build::var(sym, ty)
    });
    for i in 0..rng.below(4) {
        let ty = if rng.one_in(2) { Type::vec(types::value(&mut rng, 1)) } else { types::value(&mut rng, 2) };
        let sym = names.fresh(["v", "x", "s", "d"][i % 4]);
        let len = match rng.below(60) {
            // Enough that tables grow often and loops run in several strips.
            0 if matches!(&ty, Type::Vec(element) if types::is_mergeable(element)) => 20_000,
            0..=4 => 3000,
            _ => 8,
        };
        args.push(values::value(&mut rng, &ty, len));
        scope.push(build::var(sym, ty.clone()));
        params.push(Param { sym, ty, stream: false, known: None });
    }
    let ty = types::value(&mut rng, 2);
    let mut generator = Generator { rng, names, scope, fuel: size as i64 };
    let body = match stream {
        Some(stream) => generator.over_stream(stream),
        None => generator.expr(&ty, 6),
    };
    let Generator { names, .. } = generator;
    Generated { program: Program { params, body, names }, args }
}

struct Generator {
    rng: Rng,
    names: Names,
    /// Variables that may be used, none of them builders.
    scope: Vec<Expr>,
    /// Operations still to be made.
    fuel: i64,
}

impl Generator {
    /// Binds a variable for what `body` makes. Normal form: blocks are joined.
    fn bind(&mut self, name: &str, value: Expr, body: impl FnOnce(&mut Generator, Expr) -> Expr) -> Expr {
        let sym = self.names.fresh(name);
        let variable = build::var(sym, value.ty.clone());
        self.scope.push(variable.clone());
        let body = body(self, variable);
        self.scope.pop();
        build::let_in(vec![weld_core::ir::Binding { sym, value }], body)
    }

    fn parameter(&mut self, name: &str, ty: &Type) -> (weld_core::ir::Sym, Expr) {
        let sym = self.names.fresh(name);
        (sym, build::var(sym, ty.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_verify_and_repeat() {
        for seed in 0..500 {
            let made = program(seed, 40);
            let verified = weld_core::ir::verify(&made.program);
            assert!(verified.is_ok(), "seed {seed}: {:?}\n{}", verified.unwrap_err(), made.program);
            assert!(made.program.same_as(&program(seed, 40).program));
        }
    }
}
