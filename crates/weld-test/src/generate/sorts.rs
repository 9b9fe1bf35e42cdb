//! Random sorts, by comparators that order totally: results do not depend on which elements are compared.

use weld_core::ir::{Binding, Expr, Literal, Names, build};
use weld_core::op::{BinaryOp, Intrinsic};
use weld_core::opt::can_fail;
use weld_core::ty::Type;

use super::{Generator, types};

impl Generator {
    /// Sorted by some key that is totally ordered.
    pub(super) fn sort(&mut self, data: Expr, element: &Type) -> Expr {
        match element {
            _ if types::has_dict(element) => data,
            _ if self.rng.one_in(3) => self.sort_by_expr(data, element),
            Type::Struct(fields) => {
                let keys: Vec<usize> = (0..fields.len())
                    .filter(|i| !types::has_float(&fields[*i]) && !types::has_dict(&fields[*i]))
                    .collect();
                match keys.is_empty() {
                    true => data,
                    false => {
                        let key = self.rng.pick(&keys);
                        self.sort_by(data, |e| build::field(e, key))
                    }
                }
            }
            Type::Scalar(kind) if kind.is_float() => self.sort_by(data, order_key),
            Type::Vec(inner) if types::has_float(inner) => self.sort_by(data, build::len),
            ty if types::has_float(ty) => data,
            _ => self.sort_by(data, |e| e),
        }
    }

    /// Sorted by an expression of the element and of what else is in scope, which cannot fail: how often and in which
    /// order elements are compared is up to the engine.
    fn sort_by_expr(&mut self, data: Expr, element: &Type) -> Expr {
        let key_ty = self.rng.pick(&[Type::I64, Type::I32, Type::BOOL, Type::I128, Type::vec(Type::U8)]);
        let (sym, e) = self.parameter("e", element);
        let bound = self.scope.len();
        self.scope.push(e.clone());
        if let Type::Struct(fields) = element {
            self.scope.extend((0..fields.len()).map(|i| build::field(e.clone(), i)));
        }
        let key = self.expr(&key_ty, 2);
        self.scope.truncate(bound);
        if can_fail(&key) {
            return data;
        }
        let key_of =
            |names: &mut Names, value: Expr| build::let_in(vec![Binding { sym, value }], key.clone()).fresh_copy(names);
        build::sort(&mut self.names, data, |names, a, b| {
            let sym = [names.fresh("p"), names.fresh("q")];
            let bindings = [a, b].map(|element| key_of(names, element)).into_iter().zip(sym);
            let bindings = bindings.map(|(value, sym)| Binding { sym, value }).collect();
            let [p, q] = sym.map(|sym| build::var(sym, key_ty.clone()));
            build::let_in(bindings, order(p, q))
        })
    }

    pub(super) fn sort_by(&mut self, data: Expr, key: impl Fn(Expr) -> Expr) -> Expr {
        build::sort(&mut self.names, data, |_, a, b| order(key(a), key(b)))
    }
}

/// What a comparator says of two keys.
fn order(a: Expr, b: Expr) -> Expr {
    let less = build::if_(build::lt(a.clone(), b.clone()), build::i32(-1), build::i32(0));
    build::if_(build::gt(a, b), build::i32(1), less)
}

/// The order of floats that are no NaN; the sign of a NaN, which orders it, is the processor's choice.
pub(super) fn order_key(float: Expr) -> Expr {
    let infinity = match float.ty {
        Type::F32 => Literal::F32(f32::INFINITY),
        _ => Literal::F64(f64::INFINITY),
    };
    build::intrinsic(Intrinsic::OrderKey, [build::binary(BinaryOp::Min, float, build::lit(infinity))])
}
