//! Loads, stores and what LLVM is told of them; calls; memory of the run.

use inkwell::IntPredicate;
use inkwell::intrinsics::Intrinsic;
use inkwell::types::{BasicType, BasicTypeEnum};
use inkwell::values::{
    BasicMetadataValueEnum, BasicValue, BasicValueEnum, FunctionValue, InstructionValue, IntValue, MetadataValue,
    PointerValue,
};
use weld_core::diag::Span;
use weld_runtime::Run;

use super::{Code, PRESERVE_MOST, Res, internal};

impl<'c> Code<'c, '_> {
    /// `ptr + bytes`, inside the same object.
    pub(crate) fn offset(&self, ptr: PointerValue<'c>, bytes: u64) -> Res<PointerValue<'c>> {
        if bytes == 0 {
            return Ok(ptr);
        }
        self.offset_by(ptr, self.i64(bytes as i64))
    }

    /// `ptr + bytes`, inside the same object.
    pub(crate) fn offset_by(&self, ptr: PointerValue<'c>, bytes: IntValue<'c>) -> Res<PointerValue<'c>> {
        // SAFETY: `inbounds` holds by this function's contract; inkwell marks all GEPs unsafe.
        Ok(unsafe { self.b.build_in_bounds_gep(self.unit.ll.i8_type(), ptr, &[bytes], "")? })
    }

    /// The address of element `index` of an array of `ty`.
    pub(crate) fn element_ptr(
        &self,
        ty: BasicTypeEnum<'c>,
        ptr: PointerValue<'c>,
        index: IntValue<'c>,
    ) -> Res<PointerValue<'c>> {
        // SAFETY: as above.
        Ok(unsafe { self.b.build_in_bounds_gep(ty, ptr, &[index], "")? })
    }

    pub(crate) fn load(&self, ty: impl BasicType<'c>, ptr: PointerValue<'c>) -> Res<BasicValueEnum<'c>> {
        Ok(self.b.build_load(ty, ptr, "")?)
    }

    pub(crate) fn load_i64(&self, ptr: PointerValue<'c>) -> Res<IntValue<'c>> {
        Ok(self.load(self.unit.i64_type(), ptr)?.into_int_value())
    }

    pub(crate) fn load_ptr(&self, ptr: PointerValue<'c>) -> Res<PointerValue<'c>> {
        Ok(self.load(self.unit.ptr_type(), ptr)?.into_pointer_value())
    }

    pub(crate) fn store(&self, ptr: PointerValue<'c>, value: impl BasicValue<'c>) -> Res<InstructionValue<'c>> {
        Ok(self.b.build_store(ptr, value)?)
    }

    pub(crate) fn set_align(&self, load: BasicValueEnum<'c>, bytes: u32) -> Res<()> {
        match load.as_instruction_value() {
            Some(load) => load.set_alignment(bytes).map_err(|error| internal(&error.to_string())),
            None => Ok(()),
        }
    }

    /// Says that a load reads memory that does not change while the code runs.
    pub(crate) fn mark_input_load(&self, value: BasicValueEnum<'c>) -> Res<()> {
        let Some(load) = value.as_instruction_value() else { return Ok(()) };
        let scopes = &self.unit.scopes;
        set_metadata(load, scopes.input, scopes.kinds.alias_scope)?;
        set_metadata(load, self.unit.ll.metadata_node(&[]), scopes.kinds.invariant_load)
    }

    /// Says what is known of the memory that a load reads: inputs do not change, and columns that are being filled are
    /// not read.
    pub(crate) fn mark_load(&self, value: BasicValueEnum<'c>, input: bool) -> Res<()> {
        if input {
            return self.mark_input_load(value);
        }
        match (self.unread, value.as_instruction_value()) {
            (Some(unread), Some(load)) => set_metadata(load, unread, self.unit.scopes.kinds.noalias),
            _ => Ok(()),
        }
    }

    /// Says that a store writes no input, and no column but the one that is being filled, if one is.
    pub(crate) fn mark_own_store(&self, store: InstructionValue<'c>) -> Res<()> {
        let scopes = &self.unit.scopes;
        match self.filling.get() {
            Some(column) => {
                set_metadata(store, column.own, scopes.kinds.alias_scope)?;
                set_metadata(store, column.others, scopes.kinds.noalias)
            }
            None => set_metadata(store, scopes.input, scopes.kinds.noalias),
        }
    }

    // ---- calls ----

    /// Calls a runtime function; `None` if it returns nothing.
    pub(crate) fn call(&self, name: &str, args: &[BasicMetadataValueEnum<'c>]) -> Res<Option<BasicValueEnum<'c>>> {
        let function = self.unit.runtime_function(name)?;
        Ok(self.b.build_call(function, args, "")?.try_as_basic_value().basic())
    }

    /// Calls a runtime function that returns something.
    pub(crate) fn call_value(&self, name: &str, args: &[BasicMetadataValueEnum<'c>]) -> Res<BasicValueEnum<'c>> {
        self.call(name, args)?.ok_or_else(|| internal(&format!("{name} returns nothing")))
    }

    /// As [`Code::call_value`], for what a loop seldom calls.
    pub(crate) fn call_seldom(&self, name: &str, args: &[BasicMetadataValueEnum<'c>]) -> Res<BasicValueEnum<'c>> {
        let call = self.b.build_call(self.unit.register_keeping(name)?, args, "")?;
        call.set_call_convention(PRESERVE_MOST);
        call.try_as_basic_value().basic().ok_or_else(|| internal(&format!("{name} returns nothing")))
    }

    /// Calls an LLVM intrinsic, overloaded on `types`.
    pub(crate) fn intrinsic(
        &self,
        name: &str,
        types: &[BasicTypeEnum<'c>],
        args: &[BasicMetadataValueEnum<'c>],
    ) -> Res<BasicValueEnum<'c>> {
        let intrinsic = Intrinsic::find(name).ok_or_else(|| internal(&format!("no intrinsic {name}")))?;
        let function = intrinsic
            .get_declaration(&self.unit.module, types)
            .ok_or_else(|| internal(&format!("intrinsic {name} has no such form")))?;
        let call = self.b.build_call(function, args, "")?;
        call.try_as_basic_value().basic().ok_or_else(|| internal(&format!("{name} returns nothing")))
    }

    // ---- memory of the run ----

    /// A new block of the run; traps when memory is short.
    pub(crate) fn allocate(&self, region: PointerValue<'c>, bytes: IntValue<'c>, span: Span) -> Res<PointerValue<'c>> {
        let args = [self.run.into(), region.into(), bytes.into()];
        let block = self.call_value("weld_allocate", &args)?.into_pointer_value();
        let failed = self.b.build_is_null(block, "")?;
        self.trap_noted_if(failed, span)?;
        Ok(block)
    }

    // ---- the state of the run ----

    /// Traps if the host wants the run to stop.
    pub(crate) fn poll_cancel(&self, span: Span) -> Res<()> {
        let mut flags = self.load_flag(Run::CANCEL_OFFSET)?;
        if self.unit.is_shared {
            flags = self.or(flags, self.load_flag(Run::STOP_OFFSET)?)?;
        }
        let cancelled = self.cmp(IntPredicate::NE, flags, flags.get_type().const_zero())?;
        self.trap_if(cancelled, weld_runtime::Status::Cancelled, span, &[])
    }

    /// The flag that the run points to there.
    fn load_flag(&self, offset: usize) -> Res<IntValue<'c>> {
        let flag = self.load_ptr(self.offset(self.run, offset as u64)?)?;
        let value = self.load(self.unit.ll.i8_type(), flag)?;
        if let Some(load) = value.as_instruction_value() {
            let monotonic = inkwell::AtomicOrdering::Monotonic;
            load.set_atomic_ordering(monotonic).map_err(|e| internal(&e.to_string()))?;
        }
        Ok(value.into_int_value())
    }

    /// Asks for a cache line.
    pub(crate) fn prefetch(&self, address: PointerValue<'c>) -> Res<()> {
        let intrinsic = Intrinsic::find("llvm.prefetch").ok_or_else(|| internal("no prefetch"))?;
        let function = intrinsic
            .get_declaration(&self.unit.module, &[self.unit.ptr_type().into()])
            .ok_or_else(|| internal("prefetch has no such form"))?;
        // For reading, to keep, of data.
        let args = [address.into(), self.i32(0).into(), self.i32(3).into(), self.i32(1).into()];
        self.b.build_call(function, &args, "")?;
        Ok(())
    }

    /// Calls a runtime function with the run and the address of these words; gives that address and the status.
    pub(crate) fn call_with_words(
        &self,
        name: &str,
        words: &[BasicValueEnum<'c>],
    ) -> Res<(PointerValue<'c>, IntValue<'c>)> {
        let at = self.alloca(8 * words.len() as u64, "task")?;
        for (i, word) in words.iter().enumerate() {
            self.store(self.offset(at, 8 * i as u64)?, *word)?;
        }
        Ok((at, self.call_value(name, &[self.run.into(), at.into()])?.into_int_value()))
    }
}

fn set_metadata<'c>(instruction: InstructionValue<'c>, metadata: MetadataValue<'c>, kind: u32) -> Res<()> {
    instruction.set_metadata(metadata, kind).map_err(|error| internal(&error.to_string()))
}

/// The address of a function, for the runtime.
pub(crate) fn address(function: FunctionValue<'_>) -> BasicValueEnum<'_> {
    function.as_global_value().as_pointer_value().into()
}
