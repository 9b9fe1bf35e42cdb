//! Values where control flow joins: builders are joined in memory, all else in phis.

use std::rc::Rc;

use inkwell::basic_block::BasicBlock;
use weld_core::ty::Type;

use super::{Builders, Handle, Res, Val};
use crate::layout;

impl<'c> Builders<'c, '_> {
    /// Joins two ends of control flow: positioned at `done`, the value is whichever was computed.
    pub(crate) fn join(
        &mut self,
        ty: &Type,
        (a, a_end): (Val<'c>, BasicBlock<'c>),
        (b, b_end): (Val<'c>, BasicBlock<'c>),
        done: BasicBlock<'c>,
    ) -> Res<Val<'c>> {
        let like = self.join_builders(ty, &a, a_end, &b, b_end)?;
        let mut ends = Vec::with_capacity(2);
        for (value, end) in [(a, a_end), (b, b_end)] {
            self.at(end);
            let mut registers = Vec::new();
            self.flatten(&value, ty, &mut registers)?;
            ends.push((registers, self.current_block()?));
            self.branch(done)?;
        }
        self.at(done);
        let mut joined = Vec::with_capacity(ends[0].0.len());
        for (&a, &b) in ends[0].0.iter().zip(&ends[1].0) {
            let phi = self.b.build_phi(a.get_type(), "")?;
            phi.add_incoming(&[(&a, ends[0].1), (&b, ends[1].1)]);
            joined.push(phi.as_basic_value());
        }
        self.unflatten(ty, &mut joined.into_iter(), &like)
    }

    /// The builders of a joined value: the common one, or a new one that takes over the state of either.
    fn join_builders(
        &mut self,
        ty: &Type,
        a: &Val<'c>,
        a_end: BasicBlock<'c>,
        b: &Val<'c>,
        b_end: BasicBlock<'c>,
    ) -> Res<Val<'c>> {
        match (ty, a, b) {
            (Type::Struct(fields), Val::Struct(xs), Val::Struct(ys)) => {
                let mut values = Vec::with_capacity(fields.len());
                for ((field, x), y) in fields.iter().zip(xs.iter()).zip(ys.iter()) {
                    values.push(self.join_builders(field, x, a_end, y, b_end)?);
                }
                Ok(Val::structure(values))
            }
            (Type::Builder(builder), Val::Builder(x), Val::Builder(y)) => {
                if Rc::ptr_eq(x, y) {
                    return Ok(a.clone());
                }
                let state = self.alloca(layout::row(ty).size, "joined")?;
                self.at(a_end);
                self.copy_state(builder, x.state, state)?;
                self.at(b_end);
                self.copy_state(builder, y.state, state)?;
                Ok(Val::Builder(Rc::new(Handle {
                    copies_bytes: x.copies_bytes || y.copies_bytes,
                    copies_rows: x.copies_rows || y.copies_rows,
                    ..Handle::new(builder.clone(), state, self.inner_region(x.region, y.region))
                })))
            }
            _ => Ok(Val::Absent),
        }
    }
}
