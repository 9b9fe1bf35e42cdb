//! Random reads of tables: values that come out of them, keys and groups that outlive them.

use weld_core::ir::{Expr, build};
use weld_core::op::{MergeOp, ReduceOp};
use weld_core::ty::Type;

use super::{Generator, types};

impl Generator {
    /// A value or a key of a table.
    pub(super) fn out_of_table(&mut self, ty: &Type, depth: usize) -> Expr {
        if types::is_key(ty) && self.rng.one_in(3) {
            return self.as_key(ty, depth);
        }
        if !types::is_dict_value(ty) {
            return self.expr(ty, depth);
        }
        let key_ty = types::key(&mut self.rng);
        let dict = self.expr(&Type::dict(key_ty.clone(), ty.clone()), depth);
        let key = self.expr(&key_ty, depth);
        if self.rng.one_in(2) {
            return build::field(build::opt_lookup(dict, key), 1);
        }
        let otherwise = self.leaf(ty);
        self.bind("table", dict, |g, dict| {
            g.bind("key", key, |_, key| {
                build::if_(build::key_exists(dict.clone(), key.clone()), build::lookup(dict, key), otherwise)
            })
        })
    }

    /// A value that has been the only key of a table.
    fn as_key(&mut self, ty: &Type, depth: usize) -> Expr {
        let entry = build::strct([self.expr(ty, depth), build::i64(1)]);
        let builder = build::dict_merger(ty.clone(), Type::I64, MergeOp::All(ReduceOp::Add));
        let entries = build::to_vec(build::result(build::merge(builder, entry)));
        build::field(build::lookup(entries, build::i64(0)), 0)
    }

    /// The entries of a table in order, if a table has such.
    pub(super) fn entries(&mut self, element: &Type, depth: usize) -> Option<Expr> {
        let Type::Struct(fields) = element else { return None };
        let [key, value] = &fields[..] else { return None };
        if types::has_float(key) || !types::is_key(key) || !types::is_dict_value(value) {
            return None;
        }
        let dict = self.expr(&Type::dict(key.clone(), value.clone()), depth);
        Some(self.sort_by(build::to_vec(dict), |e| build::field(e, 0)))
    }

    /// Whether a table has a key.
    pub(super) fn is_in_table(&mut self, depth: usize) -> Expr {
        let (key, value) = (types::key(&mut self.rng), types::dict_value(&mut self.rng));
        let dict = self.expr(&Type::dict(key.clone(), value), depth);
        let key = self.expr(&key, depth);
        build::key_exists(dict, key)
    }
}
