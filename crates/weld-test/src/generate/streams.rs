//! Random programs over a stream: a loop over its rows into one builder or several, and their results.

use weld_core::ir::{Binding, Expr, Iter, build};
use weld_core::ty::{BuilderType, Type};

use super::rng::Rng;
use super::{Generator, types};

/// The type of a stream's rows: scalars and strings.
pub(super) fn row(rng: &mut Rng) -> Type {
    let field = |rng: &mut Rng| match rng.below(3) {
        0 => Type::vec(Type::U8),
        _ => Type::Scalar(types::scalar(rng)),
    };
    if rng.one_in(4) {
        return field(rng);
    }
    Type::structure((0..1 + rng.below(4)).map(|_| field(rng)).collect::<Vec<_>>())
}

impl Generator {
    /// What builders make of a stream.
    pub(super) fn over_stream(&mut self, stream: Expr) -> Expr {
        let count = 1 + self.rng.below(3);
        let builders: Vec<Expr> = (0..count).map(|_| self.stream_builder()).collect();
        let rows = Iter::Vector(stream);
        if let [builder] = &builders[..] {
            let filled = self.loop_over(rows, builder.clone(), 4);
            return build::result(filled);
        }
        let filled = self.loop_over(rows, build::strct(builders), 4);
        let sym = self.names.fresh("bs");
        let variable = build::var(sym, filled.ty.clone());
        let results: Vec<Expr> = (0..count).map(|i| build::result(build::field(variable.clone(), i))).collect();
        build::let_in(vec![Binding { sym, value: filled }], build::strct(results))
    }

    /// A builder whose result does not depend on when its initial value is merged, as sums of floats do.
    fn stream_builder(&mut self) -> Expr {
        let value = loop {
            let value = types::mergeable(&mut self.rng);
            if !types::has_float(&value) {
                break value;
            }
        };
        let ty = match self.rng.below(8) {
            0..=2 => Type::vec(types::value(&mut self.rng, 2)),
            3 | 4 => {
                let group = types::value(&mut self.rng, 2);
                Type::dict(types::key(&mut self.rng), Type::vec(group))
            }
            5 | 6 => Type::dict(types::key(&mut self.rng), value),
            _ => value,
        };
        match types::builder_of(&mut self.rng, &ty) {
            // Its values may be floats.
            Some(BuilderType::VecMerger { value, .. }) => build::appender((*value).clone()),
            Some(builder) => self.new_builder(&builder, 1),
            None => build::appender(Type::I64),
        }
    }
}
