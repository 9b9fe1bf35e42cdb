//! Appenders: columns that grow.
//!
//! State: length, capacity (both in elements), then a pointer for each column. Loops make room before they run
//! ([`Builders::reserve`]), so that a merge is a store and an addition; a conditional merge stores always and adds the
//! condition, without a branch. Columns grow together by doubling, in the runtime.

use inkwell::IntPredicate;
use inkwell::values::{IntValue, PointerValue};
use weld_core::diag::Span;
use weld_core::ty::Type;

use super::{Builders, Columns, Handle, Res, Val, VecVal};
use crate::layout;
use crate::tables::hash::KeyMemory;

impl<'c> Builders<'c, '_> {
    pub(crate) fn start_appender(&mut self, handle: &Handle<'c>, element: &Type) -> Res<()> {
        self.store(handle.state, self.i64(0))?;
        self.store(self.offset(handle.state, 8)?, self.i64(0))?;
        for i in 0..layout::columns(element).len() {
            self.store(self.column_slot(handle.state, i)?, self.null())?;
        }
        Ok(())
    }

    pub(crate) fn merge_appender(
        &mut self,
        handle: &Handle<'c>,
        element: &Type,
        value: &Val<'c>,
        span: Span,
    ) -> Res<()> {
        if let (Type::Scalar(kind), Val::Scalar(lanes)) = (element, value)
            && lanes.is_vector_value()
        {
            return self.append_lanes(handle, *kind, *lanes, span);
        }
        let value = match handle.copies_bytes && layout::has_bytes(element) {
            true => {
                let memory = KeyMemory { function: "weld_piece", object: handle.region, copies_bytes: true };
                self.own_value(element, value, &memory, span)?
            }
            false => value.clone(),
        };
        if !handle.reserved.get() {
            self.reserve(handle, element, self.i64(1), span)?;
        }
        let len = self.load_i64(handle.state)?;
        self.append_at(handle, element, len, &value)?;
        self.store(handle.state, self.add_nw(len, self.i64(1))?)?;
        Ok(())
    }

    /// Appends if `cond`, without a branch. There must be room for one more element in any case.
    pub(crate) fn append_if(
        &mut self,
        handle: &Handle<'c>,
        element: &Type,
        cond: IntValue<'c>,
        value: &Val<'c>,
    ) -> Res<()> {
        let len = self.load_i64(handle.state)?;
        self.append_at(handle, element, len, value)?;
        let one = self.b.build_int_z_extend(cond, self.unit.i64_type(), "")?;
        self.store(handle.state, self.add_nw(len, one)?)?;
        Ok(())
    }

    fn append_at(&self, handle: &Handle<'c>, element: &Type, index: IntValue<'c>, value: &Val<'c>) -> Res<()> {
        let columns = self.appender_columns(handle.state, element)?;
        let filled = handle.filled.borrow().clone();
        let mut columns = columns.into_iter().enumerate().map(|(i, column)| {
            self.filling.set(filled.get(i).copied());
            column
        });
        self.store_element(element, &mut columns, index, value)?;
        self.filling.set(None);
        Ok(())
    }

    /// A `simd` value appends its lanes in order.
    fn append_lanes(
        &mut self,
        handle: &Handle<'c>,
        kind: weld_core::ty::ScalarKind,
        lanes: inkwell::values::BasicValueEnum<'c>,
        span: Span,
    ) -> Res<()> {
        let element = Type::Scalar(kind);
        let count = self.i64(self.unit.lanes(kind) as i64);
        self.reserve(handle, &element, count, span)?;
        let len = self.load_i64(handle.state)?;
        let column = self.load_ptr(self.column_slot(handle.state, 0)?)?;
        self.store_simd(kind, self.column_ptr(&element, column, len)?, lanes)?;
        self.store(handle.state, self.add_nw(len, count)?)?;
        Ok(())
    }

    fn column_slot(&self, state: PointerValue<'c>, column: usize) -> Res<PointerValue<'c>> {
        self.offset(state, 16 + 8 * column as u64)
    }

    pub(super) fn appender_columns(&self, state: PointerValue<'c>, element: &Type) -> Res<Vec<PointerValue<'c>>> {
        (0..layout::columns(element).len()).map(|i| self.load_ptr(self.column_slot(state, i)?)).collect()
    }

    /// Makes room for `extra` more elements.
    pub(crate) fn reserve(&mut self, handle: &Handle<'c>, element: &Type, extra: IntValue<'c>, span: Span) -> Res<()> {
        let len = self.load_i64(handle.state)?;
        let capacity = self.load_i64(self.offset(handle.state, 8)?)?;
        let needed = self.intrinsic("llvm.uadd.sat", &[self.unit.i64_type().into()], &[len.into(), extra.into()])?;
        let needed = needed.into_int_value();
        let full = self.cmp(IntPredicate::UGT, needed, capacity)?;
        let (grow, done) = (self.new_block("grow"), self.new_block("room"));
        self.branch_if_rare(full, grow, done)?;
        self.at(grow);
        self.grow(handle, element, capacity, needed, span)?;
        self.branch(done)?;
        self.at(done);
        Ok(())
    }

    /// Grows all columns. Their addresses go through memory of their own, so that the state need not be in memory.
    fn grow(
        &mut self,
        handle: &Handle<'c>,
        element: &Type,
        capacity: IntValue<'c>,
        needed: IntValue<'c>,
        span: Span,
    ) -> Res<()> {
        let (columns, sizes) = self.column_sizes(element);
        let count = self.unit.ll.i32_type().const_int(columns as u64, false);
        let slots = self.alloca(16 + 8 * columns as u64, "columns")?;
        for (i, column) in self.appender_columns(handle.state, element)?.into_iter().enumerate() {
            self.store(self.offset(slots, 8 * i as u64)?, column)?;
        }
        let args = [
            self.run.into(),
            handle.region.into(),
            slots.into(),
            sizes.into(),
            count.into(),
            capacity.into(),
            needed.into(),
        ];
        let grown = self.call_seldom("weld_grow", &args)?.into_int_value();
        let failed = self.cmp(IntPredicate::EQ, grown, self.i64(0))?;
        self.trap_noted_if(failed, span)?;
        for i in 0..layout::columns(element).len() {
            let column = self.load_ptr(self.offset(slots, 8 * i as u64)?)?;
            self.store(self.column_slot(handle.state, i)?, column)?;
        }
        self.store(self.offset(handle.state, 8)?, grown)?;
        Ok(())
    }

    /// How many columns an element has, and their sizes in constant memory.
    pub(crate) fn column_sizes(&self, element: &Type) -> (usize, PointerValue<'c>) {
        let columns = layout::columns(element);
        let sizes: Vec<u8> =
            columns.iter().flat_map(|column| (layout::row(column).size as u32).to_le_bytes()).collect();
        (columns.len(), self.unit.constant_bytes(&sizes))
    }

    pub(crate) fn result_appender(&mut self, handle: &Handle<'c>, element: &Type) -> Res<Val<'c>> {
        let len = self.load_i64(handle.state)?;
        let columns = self.appender_columns(handle.state, element)?;
        if Type::vec(element.clone()).is_bytes() {
            return Ok(Val::Bytes(super::BytesVal::Slice { ptr: columns[0], len }));
        }
        Ok(Val::Vec(VecVal { len, columns: Columns::Dense(columns.into()), input: false }))
    }

    pub(crate) fn combine_appender(
        &mut self,
        handle: &Handle<'c>,
        element: &Type,
        other: PointerValue<'c>,
        span: Span,
    ) -> Res<()> {
        let extra = self.load_i64(other)?;
        self.reserve(handle, element, extra, span)?;
        let len = self.load_i64(handle.state)?;
        let mine = self.appender_columns(handle.state, element)?;
        let theirs = self.appender_columns(other, element)?;
        for ((ty, to), from) in layout::columns(element).iter().zip(mine).zip(theirs) {
            let bytes = self.mul(extra, self.i64(layout::row(ty).size as i64))?;
            let to = self.column_ptr(ty, to, len)?;
            self.b.build_memcpy(to, 1, from, 1, bytes)?;
            self.call("weld_free", &[self.run.into(), from.into()])?;
        }
        self.store(handle.state, self.add_nw(len, extra)?)?;
        Ok(())
    }
}
