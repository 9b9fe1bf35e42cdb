//! Appenders: columns that grow.
//!
//! State: length, capacity (both in elements), then a pointer for each column. Loops make room before they run
//! ([`Emitter::reserve`]), so that a merge is a store and an addition; a conditional merge stores always and adds the
//! condition, without a branch. Columns grow together by doubling, in a function of their own that is off the hot path.

use inkwell::IntPredicate;
use inkwell::attributes::AttributeLoc;
use inkwell::module::Linkage;
use inkwell::types::{BasicMetadataTypeEnum, BasicTypeEnum};
use inkwell::values::{BasicMetadataValueEnum, BasicValue, FunctionValue, IntValue, PointerValue};
use weld_core::diag::Span;
use weld_core::ty::Type;

use crate::emit::{Columns, Emitter, Handle, Res, Unit, Val, VecVal};
use crate::layout;

/// More elements than any memory holds, and few enough that sizes in bytes do not overflow.
const CAPACITY_MAX: i64 = 1 << 48;

impl<'c> Emitter<'c, '_> {
    pub(super) fn start_appender(&mut self, handle: &Handle<'c>, element: &Type) -> Res<()> {
        self.store(handle.state, self.i64(0))?;
        self.store(self.offset(handle.state, 8)?, self.i64(0))?;
        for i in 0..layout::columns(element).len() {
            self.store(self.column_slot(handle.state, i)?, self.null())?;
        }
        Ok(())
    }

    pub(super) fn merge_appender(
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
        let value = if handle.copies_bytes { self.own_bytes(element, value, span)? } else { value.clone() };
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
        self.store_element(element, &mut columns.into_iter(), index, value)
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

    fn appender_columns(&self, state: PointerValue<'c>, element: &Type) -> Res<Vec<PointerValue<'c>>> {
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

    fn grow(
        &mut self,
        handle: &Handle<'c>,
        element: &Type,
        capacity: IntValue<'c>,
        needed: IntValue<'c>,
        span: Span,
    ) -> Res<()> {
        let sizes: Vec<u64> = layout::columns(element).iter().map(|column| layout::row(column).size).collect();
        let function = grow_function(self.unit, &sizes)?;
        let mut args: Vec<BasicMetadataValueEnum<'c>> =
            vec![self.run.into(), handle.region.into(), capacity.into(), needed.into()];
        args.extend(self.appender_columns(handle.state, element)?.into_iter().map(BasicMetadataValueEnum::from));
        let grown = self.b.build_call(function, &args, "")?.try_as_basic_value().unwrap_basic().into_struct_value();
        // Columns that did grow have moved even if a later one was refused: keep them before the trap.
        for i in 0..sizes.len() {
            let column = self.b.build_extract_value(grown, 1 + i as u32, "")?;
            self.store(self.column_slot(handle.state, i)?, column)?;
        }
        let capacity = self.b.build_extract_value(grown, 0, "")?.into_int_value();
        let failed = self.cmp(IntPredicate::EQ, capacity, self.i64(0))?;
        self.trap_noted_if(failed, span)?;
        self.store(self.offset(handle.state, 8)?, capacity)?;
        Ok(())
    }

    pub(super) fn result_appender(&mut self, handle: &Handle<'c>, element: &Type) -> Res<Val<'c>> {
        let len = self.load_i64(handle.state)?;
        let columns = self.appender_columns(handle.state, element)?;
        if Type::vec(element.clone()).is_bytes() {
            return Ok(Val::Bytes(crate::emit::BytesVal::Slice { ptr: columns[0], len }));
        }
        Ok(Val::Vec(VecVal { len, columns: Columns::Dense(columns.into()), input: false }))
    }

    pub(super) fn combine_appender(
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
        }
        self.store(handle.state, self.add_nw(len, extra)?)?;
        Ok(())
    }

    /// The value with the bytes of its long strings copied to memory of the run.
    pub(crate) fn own_bytes(&mut self, ty: &Type, value: &Val<'c>, span: Span) -> Res<Val<'c>> {
        if !layout::has_pointers(ty) {
            return Ok(value.clone());
        }
        match (ty, value) {
            (Type::Struct(fields), value) => {
                let mut parts = Vec::with_capacity(fields.len());
                for (i, field) in fields.iter().enumerate() {
                    parts.push(self.own_bytes(field, &value.field(i)?, span)?);
                }
                Ok(Val::structure(parts))
            }
            (_, Val::Bytes(bytes)) => {
                let (ptr, len) = self.bytes_slice(bytes)?;
                let copy = self.allocate(self.region, len, span)?;
                self.b.build_memcpy(copy, 1, ptr, 1, len)?;
                Ok(Val::Bytes(crate::emit::BytesVal::Slice { ptr: copy, len }))
            }
            _ => Ok(value.clone()),
        }
    }
}

/// `{capacity, columns..} weld.grow.SIZES(run, region, capacity, needed, columns..)`: at least doubles the columns.
/// Capacity 0 says that memory was refused, which the run has noted.
fn grow_function<'c>(unit: &Unit<'c>, sizes: &[u64]) -> Res<FunctionValue<'c>> {
    let name = sizes.iter().fold("weld.grow".to_string(), |name, size| format!("{name}.{size}"));
    if let Some(function) = unit.module.get_function(&name) {
        return Ok(function);
    }
    let (i64, ptr) = (unit.i64_type(), unit.ptr_type());
    let mut results: Vec<BasicTypeEnum<'c>> = vec![i64.into()];
    results.extend(sizes.iter().map(|_| BasicTypeEnum::from(ptr)));
    let mut params: Vec<BasicMetadataTypeEnum<'c>> = vec![ptr.into(), ptr.into(), i64.into(), i64.into()];
    params.extend(sizes.iter().map(|_| BasicMetadataTypeEnum::from(ptr)));
    let signature = unit.ll.struct_type(&results, false).fn_type(&params, false);
    let function = unit.module.add_function(&name, signature, Some(Linkage::Internal));
    for attribute in ["noinline", "cold", "nounwind"] {
        unit.attribute(function, AttributeLoc::Function, attribute, 0);
    }
    let params = function.get_params();
    let (run, region) = (params[0], params[1]);
    let (capacity, needed) = (params[2].into_int_value(), params[3].into_int_value());
    let b = unit.ll.create_builder();
    b.position_at_end(unit.ll.append_basic_block(function, "entry"));

    let doubled = b.build_left_shift(capacity, i64.const_int(1, false), "")?;
    let more = b.build_int_compare(IntPredicate::UGT, doubled, needed, "")?;
    let wanted = b.build_select(more, doubled, needed, "")?.into_int_value();
    // A count beyond all memory becomes a size that no allocator grants.
    let limit = i64.const_int(CAPACITY_MAX as u64, false);
    let absurd = b.build_int_compare(IntPredicate::UGT, wanted, limit, "")?;
    let resize = unit.runtime_function("weld_resize")?;
    let mut columns: Vec<inkwell::values::BasicValueEnum<'c>> = params[4..].to_vec();
    for (i, &size) in sizes.iter().enumerate() {
        let bytes = b.build_int_mul(wanted, i64.const_int(size, false), "")?;
        let bytes = b.build_select(absurd, i64.const_all_ones(), bytes, "")?;
        let args = [run.into(), region.into(), columns[i].into(), bytes.into()];
        let block = b.build_call(resize, &args, "")?.try_as_basic_value().unwrap_basic().into_pointer_value();
        let failed = b.build_is_null(block, "")?;
        let (refused, go_on) =
            (unit.ll.append_basic_block(function, "refused"), unit.ll.append_basic_block(function, ""));
        b.build_conditional_branch(failed, refused, go_on)?;
        b.position_at_end(refused);
        let mut values: Vec<inkwell::values::BasicValueEnum<'c>> = vec![i64.const_zero().as_basic_value_enum()];
        values.extend(columns.iter().copied());
        b.build_aggregate_return(&values)?;
        b.position_at_end(go_on);
        columns[i] = block.into();
    }
    let mut values: Vec<inkwell::values::BasicValueEnum<'c>> = vec![wanted.into()];
    values.extend(columns);
    b.build_aggregate_return(&values)?;
    Ok(function)
}
