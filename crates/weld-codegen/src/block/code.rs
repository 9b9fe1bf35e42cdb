//! One function in the making: its blocks, constants, addresses and counts.

use std::cell::Cell;

use inkwell::IntPredicate;
use inkwell::attributes::AttributeLoc;
use inkwell::basic_block::BasicBlock;
use inkwell::builder::Builder;
use inkwell::module::Linkage;
use inkwell::types::{BasicMetadataTypeEnum, BasicTypeEnum};
use inkwell::values::{
    BasicValue, BasicValueEnum, FunctionValue, InstructionValue, IntValue, MetadataValue, PhiValue, PointerValue,
};

use super::{ColumnScope, Res, Unit, internal};

/// Fills one function, at a current position.
pub(crate) struct Code<'c, 'u> {
    pub(crate) unit: &'u Unit<'c>,
    pub(crate) b: Builder<'c>,
    pub(crate) function: FunctionValue<'c>,
    /// The run that the code works for.
    pub(crate) run: PointerValue<'c>,
    /// Region 0 of the run.
    pub(crate) region: PointerValue<'c>,
    /// What no load at the current position reads: columns that the loop around fills.
    pub(crate) unread: Option<MetadataValue<'c>>,
    /// The column that stores go to.
    pub(crate) filling: Cell<Option<ColumnScope<'c>>>,
    /// Holds allocas; ends with a branch to the body.
    entry: BasicBlock<'c>,
    /// Returns the status that its phi collects.
    pub(super) exit: BasicBlock<'c>,
    pub(super) status: PhiValue<'c>,
}

impl<'c, 'u> Code<'c, 'u> {
    /// A new function `name(run, ..) -> i32` with the given further parameters, positioned at its body.
    pub(crate) fn new(unit: &'u Unit<'c>, name: &str, params: &[BasicTypeEnum<'c>], linkage: Linkage) -> Res<Self> {
        let mut types: Vec<BasicMetadataTypeEnum<'c>> = vec![unit.ptr_type().into()];
        types.extend(params.iter().map(|&ty| BasicMetadataTypeEnum::from(ty)));
        let signature = unit.ll.i32_type().fn_type(&types, false);
        let function = unit.module.add_function(name, signature, Some(linkage));
        unit.attribute(function, AttributeLoc::Function, "nounwind", 0);
        // Strips of values take more stack than a guard page is large: every page of it is touched in order.
        let probe = unit.ll.create_string_attribute("probe-stack", "inline-asm");
        function.add_attribute(AttributeLoc::Function, probe);
        let run = function.get_first_param().ok_or_else(|| internal("a function without a run"))?.into_pointer_value();
        let mut code = Code::without_run(unit, function, "status")?;
        code.run = run;
        let region_function = unit.runtime_function("weld_region")?;
        let zero = unit.i64_type().const_zero();
        let region = code.in_entry(|b| Ok(b.build_call(region_function, &[run.into(), zero.into()], "region")?))?;
        code.region = region.try_as_basic_value().unwrap_basic().into_pointer_value();
        Ok(code)
    }

    /// The body of a function that returns an `i32`, which is called `result`, and has no run: nothing in it may trap.
    pub(crate) fn without_run(unit: &'u Unit<'c>, function: FunctionValue<'c>, result: &str) -> Res<Self> {
        let entry = unit.ll.append_basic_block(function, "entry");
        let body = unit.ll.append_basic_block(function, "body");
        let exit = unit.ll.append_basic_block(function, "exit");
        let b = unit.ll.create_builder();
        b.position_at_end(exit);
        let status = b.build_phi(unit.ll.i32_type(), result)?;
        b.build_return(Some(&status.as_basic_value()))?;
        b.position_at_end(entry);
        b.build_unconditional_branch(body)?;
        b.position_at_end(body);
        let null = unit.ptr_type().const_null();
        Ok(Code {
            unit,
            b,
            function,
            run: null,
            region: null,
            unread: None,
            filling: Cell::new(None),
            entry,
            exit,
            status,
        })
    }

    /// Ends the function: success.
    pub(crate) fn finish(self) -> Res<()> {
        let zero = self.unit.ll.i32_type().const_zero();
        self.finish_with(zero)
    }

    /// Ends the function, which returns that number.
    pub(crate) fn finish_with(self, result: IntValue<'c>) -> Res<()> {
        let from = self.current_block()?;
        self.status.add_incoming(&[(&result, from)]);
        self.branch(self.exit)
    }

    // ---- positions ----

    pub(crate) fn current_block(&self) -> Res<BasicBlock<'c>> {
        self.b.get_insert_block().ok_or_else(|| internal("no current block"))
    }

    pub(crate) fn new_block(&self, name: &str) -> BasicBlock<'c> {
        self.unit.ll.append_basic_block(self.function, name)
    }

    pub(crate) fn at(&self, block: BasicBlock<'c>) {
        self.b.position_at_end(block);
    }

    pub(crate) fn branch(&self, to: BasicBlock<'c>) -> Res<()> {
        self.b.build_unconditional_branch(to)?;
        Ok(())
    }

    pub(crate) fn branch_if(
        &self,
        cond: IntValue<'c>,
        yes: BasicBlock<'c>,
        no: BasicBlock<'c>,
    ) -> Res<InstructionValue<'c>> {
        Ok(self.b.build_conditional_branch(cond, yes, no)?)
    }

    /// A branch whose `yes` side is rare.
    pub(crate) fn branch_if_rare(&self, cond: IntValue<'c>, yes: BasicBlock<'c>, no: BasicBlock<'c>) -> Res<()> {
        let branch = self.branch_if(cond, yes, no)?;
        let weight = |w: u64| self.unit.ll.i32_type().const_int(w, false);
        let weights = self.unit.ll.metadata_node(&[
            self.unit.ll.metadata_string("branch_weights").into(),
            weight(1).into(),
            weight(1 << 20).into(),
        ]);
        branch.set_metadata(weights, self.unit.scopes.kinds.prof).map_err(|e| internal(&e.to_string()))
    }

    /// Builds instructions in the entry block, before its branch: allocas, and what is computed once a call.
    pub(crate) fn in_entry<T>(&self, build: impl FnOnce(&Builder<'c>) -> Res<T>) -> Res<T> {
        let b = self.unit.ll.create_builder();
        match self.entry.get_terminator() {
            Some(terminator) => b.position_before(&terminator),
            None => b.position_at_end(self.entry),
        }
        build(&b)
    }

    /// Memory for the time of the call, `bytes` long and aligned to 16, allocated once however often this is reached.
    pub(crate) fn alloca(&self, bytes: u64, name: &str) -> Res<PointerValue<'c>> {
        self.in_entry(|b| {
            let slot = b.build_alloca(self.unit.ll.i8_type().array_type(bytes.max(1) as u32), name)?;
            if let Some(instruction) = slot.as_instruction_value() {
                instruction.set_alignment(16).map_err(|e| internal(&e.to_string()))?;
            }
            Ok(slot)
        })
    }

    // ---- constants ----

    pub(crate) fn i64(&self, value: i64) -> IntValue<'c> {
        self.unit.i64_type().const_int(value as u64, true)
    }

    pub(crate) fn i32(&self, value: i32) -> IntValue<'c> {
        self.unit.ll.i32_type().const_int(value as u32 as u64, false)
    }

    pub(crate) fn bool(&self, value: bool) -> IntValue<'c> {
        self.unit.ll.bool_type().const_int(value as u64, false)
    }

    pub(crate) fn null(&self) -> PointerValue<'c> {
        self.unit.ptr_type().const_null()
    }

    // ---- arithmetic of addresses and counts ----

    pub(crate) fn add(&self, a: IntValue<'c>, b: IntValue<'c>) -> Res<IntValue<'c>> {
        Ok(self.b.build_int_add(a, b, "")?)
    }

    /// An addition that is known not to overflow, of either signedness.
    pub(crate) fn add_nw(&self, a: IntValue<'c>, b: IntValue<'c>) -> Res<IntValue<'c>> {
        Ok(self.b.build_int_nuw_add(a, b, "")?)
    }

    pub(crate) fn sub(&self, a: IntValue<'c>, b: IntValue<'c>) -> Res<IntValue<'c>> {
        Ok(self.b.build_int_sub(a, b, "")?)
    }

    pub(crate) fn mul(&self, a: IntValue<'c>, b: IntValue<'c>) -> Res<IntValue<'c>> {
        Ok(self.b.build_int_mul(a, b, "")?)
    }

    pub(crate) fn cmp(&self, op: IntPredicate, a: IntValue<'c>, b: IntValue<'c>) -> Res<IntValue<'c>> {
        Ok(self.b.build_int_compare(op, a, b, "")?)
    }

    pub(crate) fn and(&self, a: IntValue<'c>, b: IntValue<'c>) -> Res<IntValue<'c>> {
        Ok(self.b.build_and(a, b, "")?)
    }

    pub(crate) fn or(&self, a: IntValue<'c>, b: IntValue<'c>) -> Res<IntValue<'c>> {
        Ok(self.b.build_or(a, b, "")?)
    }

    /// `cond ? a : b` on any register value.
    pub(crate) fn choose<V: BasicValue<'c>>(&self, cond: IntValue<'c>, a: V, b: V) -> Res<BasicValueEnum<'c>> {
        Ok(self.b.build_select(cond, a, b, "")?)
    }

    pub(crate) fn choose_int(&self, cond: IntValue<'c>, a: IntValue<'c>, b: IntValue<'c>) -> Res<IntValue<'c>> {
        Ok(self.choose(cond, a, b)?.into_int_value())
    }

    /// The smaller of two unsigned numbers.
    pub(crate) fn umin(&self, a: IntValue<'c>, b: IntValue<'c>) -> Res<IntValue<'c>> {
        let less = self.cmp(IntPredicate::ULT, a, b)?;
        self.choose_int(less, a, b)
    }

    /// Zero-extends or truncates to 64 bits.
    pub(crate) fn to_i64(&self, value: IntValue<'c>) -> Res<IntValue<'c>> {
        Ok(self.b.build_int_cast_sign_flag(value, self.unit.i64_type(), false, "")?)
    }

    // ---- parameters ----

    pub(crate) fn pointer_param(&self, index: u32) -> Res<PointerValue<'c>> {
        Ok(self.function.get_nth_param(index).ok_or_else(|| internal("no such parameter"))?.into_pointer_value())
    }

    pub(crate) fn int_param(&self, index: u32) -> Res<IntValue<'c>> {
        Ok(self.function.get_nth_param(index).ok_or_else(|| internal("no such parameter"))?.into_int_value())
    }
}
