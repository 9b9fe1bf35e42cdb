//! Expressions to LLVM IR.
//!
//! A [`Unit`] is one LLVM module; an [`Emitter`] fills one function of it, at a current position, and keeps what each
//! symbol is bound to. Emission of an expression gives a [`Val`]: SSA values, or the handle of a builder whose state
//! lies in memory (LLVM promotes it to registers where it can).
//!
//! Every function returns a status: 0, or one plus the number of the [`Site`] that trapped.
//!
//! | file | emits |
//! |---|---|
//! | `expr` | the dispatch over all kinds of expressions |
//! | `scalar`, `math`, `intrinsic` | operators, casts, functions |
//! | `wide` | checked 128-bit arithmetic |
//! | `control`, `iterate` | `if`, `select`; `iterate` |
//! | `loops`, `iter` | `for` and what it iterates over |
//! | `select`, `bound`, `group` | loops of a shape that runs better otherwise |
//! | `codes`, `few`, `short` | groups by dictionary codes; grouping into few groups; decimals of a strip in 64 bits |
//! | `parallel`, `apart` | loops that several threads share: with builders, without |
//! | `capture`, `work` | what the functions of such loops take along; whether it pays |
//! | `vector` | `lookup`, `slice`, vector literals, `update` |
//! | `bytes`, `strings` | byte vectors as strings |
//! | `compare`, `hash`, `dict`, `sort` | what dictionaries and sorting need |
//! | `prefetch` | fetching ahead for lookups in loops |
//! | `serialize` | values as bytes and back |
//! | `memory`, `stream` | loads and stores of row, column and flat forms; columns of a chunk |
//! | `cudf` | calls of C functions |
//! | `trap` | errors |

mod analysis;
mod apart;
mod bound;
pub(crate) mod bytes;
mod capture;
mod codes;
pub(crate) mod compare;
mod control;
mod cudf;
pub(crate) mod dict;
mod expr;
mod few;
mod group;
pub(crate) mod hash;
mod intrinsic;
mod iter;
mod iterate;
mod loops;
mod math;
pub(crate) mod memory;
mod parallel;
pub(crate) mod prefetch;
mod prehash;
mod reuse;
mod scalar;
mod select;
mod serialize;
mod short;
pub(crate) mod sort;
pub(crate) mod stream;
pub(crate) mod strings;
mod trap;
mod val;
mod vector;
mod wide;
mod work;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::basic_block::BasicBlock;
use inkwell::builder::Builder;
use inkwell::context::Context;
use inkwell::intrinsics::Intrinsic;
use inkwell::llvm_sys::core::{LLVMMDNodeInContext2, LLVMMetadataAsValue, LLVMValueAsMetadata};
use inkwell::llvm_sys::debuginfo::{LLVMMetadataReplaceAllUsesWith, LLVMTemporaryMDNode};
use inkwell::module::{Linkage, Module};
use inkwell::types::{BasicMetadataTypeEnum, BasicType, BasicTypeEnum, IntType, PointerType};
use inkwell::values::{
    AsValueRef, BasicMetadataValueEnum, BasicValue, BasicValueEnum, FunctionValue, InstructionValue, IntValue,
    MetadataValue, PhiValue, PointerValue,
};
use inkwell::{AddressSpace, IntPredicate};
use weld_core::diag::Span;
use weld_core::ir::{Expr, Sym};
use weld_core::ty::{ScalarKind, Type};
use weld_runtime::Run;
use weld_runtime::abi::{self, AbiKind, Effects};

use crate::error::CompileError;
use crate::foreign::Cudf;

pub(crate) use analysis::{Demand, demands};
pub(crate) use parallel::Parallel;
pub(crate) use reuse::Reuse;
pub(crate) use trap::Site;
pub(crate) use val::{BytesVal, Columns, DictVal, Handle, Val, VecVal, register_count};

pub(crate) type Res<T> = Result<T, CompileError>;

/// LLVM's number of the calling convention whose callee keeps (nearly) all registers of its caller.
const PRESERVE_MOST: u32 = 14;

/// One LLVM module in the making.
pub(crate) struct Unit<'c> {
    pub(crate) ll: &'c Context,
    pub(crate) module: Module<'c>,
    /// Which parts of each symbol's value the program reads.
    pub(crate) demands: HashMap<Sym, Demand>,
    /// Which vectors are changed in place.
    pub(crate) reuse: Reuse,
    /// Places that can trap; a status is one plus an index.
    pub(crate) sites: RefCell<Vec<Site>>,
    /// C functions that the host registered.
    pub(crate) cudfs: Vec<Cudf>,
    /// Whether the processor compresses vectors by a mask.
    pub(crate) can_compress: bool,
    /// How loops become parallel, if they do.
    pub(crate) parallel: Option<Parallel>,
    scopes: Scopes<'c>,
    counter: Cell<u32>,
}

/// Alias scopes: memory that nobody writes while the code runs (inputs), and the domain of all scopes.
struct Scopes<'c> {
    domain: MetadataValue<'c>,
    input: MetadataValue<'c>,
    input_scope: MetadataValue<'c>,
    kinds: Kinds,
}

/// Columns that a loop fills.
pub(crate) struct Filled<'c> {
    pub(crate) columns: Vec<ColumnScope<'c>>,
    /// What no load in the loop reads.
    pub(crate) all: MetadataValue<'c>,
}

/// What a store into a column of its own writes, and what it does not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnScope<'c> {
    own: MetadataValue<'c>,
    others: MetadataValue<'c>,
}

struct Kinds {
    alias_scope: u32,
    noalias: u32,
    prof: u32,
    invariant_load: u32,
}

impl<'c> Unit<'c> {
    pub(crate) fn new(ll: &'c Context, name: &str, can_compress: bool) -> Unit<'c> {
        let domain = ll.metadata_node(&[ll.metadata_string("weld").into()]);
        let scope = ll.metadata_node(&[ll.metadata_string("weld.input").into(), domain.into()]);
        Unit {
            ll,
            module: ll.create_module(name),
            demands: HashMap::new(),
            reuse: Reuse::default(),
            sites: RefCell::new(Vec::new()),
            cudfs: Vec::new(),
            can_compress,
            parallel: None,
            scopes: Scopes {
                domain,
                input: ll.metadata_node(&[scope.into()]),
                input_scope: scope,
                kinds: Kinds {
                    alias_scope: ll.get_kind_id("alias.scope"),
                    noalias: ll.get_kind_id("noalias"),
                    prof: ll.get_kind_id("prof"),
                    invariant_load: ll.get_kind_id("invariant.load"),
                },
            },
            counter: Cell::new(0),
        }
    }

    /// Scopes for the columns that a loop fills, which nobody reads meanwhile.
    pub(crate) fn filled_columns(&self, count: usize) -> Filled<'c> {
        let name = self.fresh_name("weld.filled");
        let scopes: Vec<MetadataValue<'c>> = (0..count)
            .map(|i| {
                let name = self.ll.metadata_string(&format!("{name}.{i}"));
                self.ll.metadata_node(&[name.into(), self.scopes.domain.into()])
            })
            .collect();
        let list = |scopes: &mut dyn Iterator<Item = MetadataValue<'c>>| {
            self.ll.metadata_node(&scopes.map(BasicMetadataValueEnum::from).collect::<Vec<_>>())
        };
        let columns = (0..count).map(|i| {
            let others = scopes.iter().enumerate().filter(|(other, _)| *other != i).map(|(_, scope)| *scope);
            ColumnScope {
                own: list(&mut std::iter::once(scopes[i])),
                others: list(&mut others.chain([self.scopes.input_scope])),
            }
        });
        Filled { columns: columns.collect(), all: list(&mut scopes.iter().copied()) }
    }

    /// What a loop is marked with that LLVM is not to vectorise.
    pub(crate) fn scalar_loop(&self) -> MetadataValue<'c> {
        let context = self.ll.raw();
        let no = self.ll.bool_type().const_zero();
        let option = self.ll.metadata_node(&[self.ll.metadata_string("llvm.loop.vectorize.enable").into(), no.into()]);
        // SAFETY: all of it belongs to this context. A loop's mark begins with itself: a temporary stands there until
        // the mark is made, and is freed by being replaced.
        unsafe {
            let own = LLVMTemporaryMDNode(context, std::ptr::null_mut(), 0);
            let mut parts = [own, LLVMValueAsMetadata(option.as_value_ref())];
            let mark = LLVMMDNodeInContext2(context, parts.as_mut_ptr(), parts.len());
            LLVMMetadataReplaceAllUsesWith(own, mark);
            MetadataValue::new(LLVMMetadataAsValue(context, mark))
        }
    }

    /// A name that no other function of the module has.
    pub(crate) fn fresh_name(&self, prefix: &str) -> String {
        self.counter.set(self.counter.get() + 1);
        format!("{prefix}.{}", self.counter.get())
    }

    pub(crate) fn ptr_type(&self) -> PointerType<'c> {
        self.ll.ptr_type(AddressSpace::default())
    }

    pub(crate) fn i64_type(&self) -> IntType<'c> {
        self.ll.i64_type()
    }

    /// The type of a scalar in a register: `bool` is one bit.
    pub(crate) fn scalar_type(&self, kind: ScalarKind) -> BasicTypeEnum<'c> {
        match kind {
            ScalarKind::Bool => self.ll.bool_type().into(),
            ScalarKind::F32 => self.ll.f32_type().into(),
            ScalarKind::F64 => self.ll.f64_type().into(),
            ScalarKind::I128 => self.ll.i128_type().into(),
            ScalarKind::I8 | ScalarKind::U8 => self.ll.i8_type().into(),
            ScalarKind::I16 | ScalarKind::U16 => self.ll.i16_type().into(),
            ScalarKind::I32 | ScalarKind::U32 => self.ll.i32_type().into(),
            ScalarKind::I64 | ScalarKind::U64 => self.ll.i64_type().into(),
        }
    }

    /// How many lanes a `simd` has: the same number for every kind, so that casts keep the lanes, and the same as in
    /// the interpreter. LLVM cuts wide vectors into registers.
    pub(crate) fn lanes(&self, _kind: ScalarKind) -> u32 {
        weld_core::interp::LANES as u32
    }

    /// The declaration of a runtime function.
    pub(crate) fn runtime_function(&self, name: &str) -> Res<FunctionValue<'c>> {
        if let Some(function) = self.module.get_function(name) {
            return Ok(function);
        }
        let row =
            abi::function(name).ok_or_else(|| CompileError::Llvm(format!("no runtime function is called {name}")))?;
        let ty = |kind: AbiKind| -> BasicTypeEnum<'c> {
            match kind {
                AbiKind::Void | AbiKind::Bool => self.ll.bool_type().into(),
                AbiKind::I8 => self.ll.i8_type().into(),
                AbiKind::I16 => self.ll.i16_type().into(),
                AbiKind::I32 => self.ll.i32_type().into(),
                AbiKind::I64 => self.ll.i64_type().into(),
                AbiKind::F32 => self.ll.f32_type().into(),
                AbiKind::F64 => self.ll.f64_type().into(),
                AbiKind::Ptr => self.ptr_type().into(),
            }
        };
        let params: Vec<BasicMetadataTypeEnum<'c>> = row.params.iter().map(|&kind| ty(kind).into()).collect();
        let signature = match row.result {
            AbiKind::Void => self.ll.void_type().fn_type(&params, false),
            kind => ty(kind).fn_type(&params, false),
        };
        let function = self.module.add_function(name, signature, Some(Linkage::External));
        self.attribute(function, AttributeLoc::Function, "nounwind", 0);
        if row.effects == Effects::Cold {
            self.attribute(function, AttributeLoc::Function, "cold", 0);
        }
        // Rust and C agree on how a bool travels: zero-extended.
        for (index, &kind) in row.params.iter().enumerate() {
            if kind == AbiKind::Bool {
                self.attribute(function, AttributeLoc::Param(index as u32), "zeroext", 0);
            }
        }
        if row.result == AbiKind::Bool {
            self.attribute(function, AttributeLoc::Return, "zeroext", 0);
        }
        // The encoding of LLVM's `memory` attribute: two bits a location, four locations; 1 is read.
        match row.effects {
            Effects::Any | Effects::Cold => {}
            Effects::Reads => {
                self.attribute(function, AttributeLoc::Function, "memory", 0b01_01_01_01);
                self.attribute(function, AttributeLoc::Function, "willreturn", 0);
            }
            Effects::None => {
                self.attribute(function, AttributeLoc::Function, "memory", 0);
                self.attribute(function, AttributeLoc::Function, "willreturn", 0);
            }
        }
        Ok(function)
    }

    /// A function that calls a runtime function and keeps the caller's registers: what a loop holds stays in them, where
    /// the call would have it stored on every iteration.
    fn register_keeping(&self, name: &str) -> Res<FunctionValue<'c>> {
        let own_name = format!("keeping.{name}");
        if let Some(function) = self.module.get_function(&own_name) {
            return Ok(function);
        }
        let callee = self.runtime_function(name)?;
        let function = self.module.add_function(&own_name, callee.get_type(), Some(Linkage::Internal));
        function.set_call_conventions(PRESERVE_MOST);
        for attribute in ["nounwind", "noinline"] {
            self.attribute(function, AttributeLoc::Function, attribute, 0);
        }
        let b = self.ll.create_builder();
        b.position_at_end(self.ll.append_basic_block(function, "entry"));
        let args: Vec<BasicMetadataValueEnum<'c>> = function.get_param_iter().map(Into::into).collect();
        let result = b.build_call(callee, &args, "")?.try_as_basic_value().basic();
        b.build_return(result.as_ref().map(|value| value as &dyn BasicValue<'c>))?;
        Ok(function)
    }

    pub(crate) fn attribute(&self, function: FunctionValue<'c>, at: AttributeLoc, name: &str, value: u64) {
        let kind = Attribute::get_named_enum_kind_id(name);
        function.add_attribute(at, self.ll.create_enum_attribute(kind, value));
    }

    /// A constant array of bytes; the address of its first, a multiple of eight.
    pub(crate) fn constant_bytes(&self, bytes: &[u8]) -> PointerValue<'c> {
        let array = self.ll.const_string(bytes, false);
        let global = self.module.add_global(array.get_type(), None, &self.fresh_name("bytes"));
        global.set_linkage(Linkage::Private);
        global.set_constant(true);
        global.set_alignment(8);
        global.set_initializer(&array);
        global.as_pointer_value()
    }
}

/// A level of scratch memory: an enclosing loop body whose temporaries are freed after each iteration.
pub(crate) struct Scratch<'c> {
    region: PointerValue<'c>,
    /// Values of these types may leave the iteration, so their memory must not be scratch.
    escaping: Vec<Type>,
    used: bool,
}

/// Fills one function.
pub(crate) struct Emitter<'c, 'u> {
    pub(crate) unit: &'u Unit<'c>,
    pub(crate) b: Builder<'c>,
    pub(crate) function: FunctionValue<'c>,
    /// The run that the code works for.
    pub(crate) run: PointerValue<'c>,
    /// Region 0 of the run.
    pub(crate) region: PointerValue<'c>,
    pub(crate) vars: HashMap<Sym, Val<'c>>,
    pub(crate) scratch: Vec<Scratch<'c>>,
    /// How many levels of scratch memory the caller of the function uses.
    scratch_base: usize,
    /// How the loops here become parallel; not inside of loops.
    pub(crate) parallel: Option<Parallel>,
    /// Whether a loop around asked for sums of floats in order.
    pub(crate) strict: bool,
    /// Where the indices of the next loop start, if not at zero.
    index_base: Option<IntValue<'c>>,
    /// What no load at the current position reads: columns that the loop around fills.
    unread: Option<MetadataValue<'c>>,
    /// The column that stores go to.
    pub(crate) filling: Cell<Option<ColumnScope<'c>>>,
    /// The merge whose keys the innermost loop has hashed ahead.
    hashed: Option<prehash::Hashed<'c>>,
    /// How many loops enclose the current position.
    pub(crate) loop_depth: u32,
    /// Holds allocas; ends with a branch to the body.
    entry: BasicBlock<'c>,
    /// Returns the status that its phi collects.
    exit: BasicBlock<'c>,
    status: PhiValue<'c>,
}

impl<'c, 'u> Emitter<'c, 'u> {
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
        Emitter::for_function(unit, function, run)
    }

    /// An emitter for the body of a function that returns an `i32` status.
    pub(crate) fn for_function(unit: &'u Unit<'c>, function: FunctionValue<'c>, run: PointerValue<'c>) -> Res<Self> {
        let entry = unit.ll.append_basic_block(function, "entry");
        let body = unit.ll.append_basic_block(function, "body");
        let exit = unit.ll.append_basic_block(function, "exit");
        let b = unit.ll.create_builder();
        b.position_at_end(exit);
        let status = b.build_phi(unit.ll.i32_type(), "status")?;
        b.build_return(Some(&status.as_basic_value()))?;
        b.position_at_end(entry);
        let region_function = unit.runtime_function("weld_region")?;
        let zero = unit.i64_type().const_zero();
        let region = b.build_call(region_function, &[run.into(), zero.into()], "region")?;
        b.build_unconditional_branch(body)?;
        b.position_at_end(body);
        let region = region.try_as_basic_value().unwrap_basic().into_pointer_value();
        Ok(Emitter {
            unit,
            b,
            function,
            run,
            region,
            vars: HashMap::new(),
            scratch: Vec::new(),
            scratch_base: 0,
            parallel: None,
            strict: false,
            index_base: None,
            unread: None,
            filling: Cell::new(None),
            hashed: None,
            loop_depth: 0,
            entry,
            exit,
            status,
        })
    }

    /// Ends the function: success.
    pub(crate) fn finish(self) -> Res<()> {
        let from = self.current_block()?;
        self.status.add_incoming(&[(&self.unit.ll.i32_type().const_zero(), from)]);
        self.b.build_unconditional_branch(self.exit)?;
        Ok(())
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

    // ---- memory ----

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

    /// As [`Emitter::call_value`], for what a loop seldom calls.
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

    /// The region for a new object whose value has this type: the innermost scratch memory that neither it nor a value
    /// inside of its memory can leave.
    pub(crate) fn region_for(&mut self, ty: &Type) -> PointerValue<'c> {
        let mut kept = vec![ty];
        if let Type::Dict(key, value) = ty {
            // The values of groups lie in the table's columns, and copies of keys that are vectors in its arena.
            kept.extend(value.element().map(|_| &**value));
            vectors(key, &mut kept);
        }
        self.innermost_region(|outer| kept.iter().any(|ty| contains(outer, ty)))
    }

    /// The region of the innermost scratch memory that no value leaves of the types of which `leaves` says so.
    fn innermost_region(&mut self, leaves: impl Fn(&Type) -> bool) -> PointerValue<'c> {
        match self.scratch.iter_mut().rev().find(|level| !level.escaping.iter().any(&leaves)) {
            Some(level) => {
                level.used = true;
                level.region
            }
            None => self.region,
        }
    }

    /// Whether values of this type may leave all iterations around.
    pub(crate) fn leaves_all(&self, ty: &Type) -> bool {
        self.scratch.iter().all(|level| level.escaping.iter().any(|outer| contains(outer, ty)))
    }

    /// Of two regions of builders that are one from here on, the one that ends first: neither leaves it.
    pub(crate) fn inner_region(&self, a: PointerValue<'c>, b: PointerValue<'c>) -> PointerValue<'c> {
        let levels = self.scratch.iter().rev().map(|level| level.region);
        levels.into_iter().find(|region| *region == a || *region == b).unwrap_or(a)
    }

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
        if self.unit.parallel.is_some() {
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

    // ---- parameters ----

    pub(crate) fn pointer_param(&self, index: u32) -> Res<PointerValue<'c>> {
        Ok(self.function.get_nth_param(index).ok_or_else(|| internal("no such parameter"))?.into_pointer_value())
    }

    pub(crate) fn int_param(&self, index: u32) -> Res<IntValue<'c>> {
        Ok(self.function.get_nth_param(index).ok_or_else(|| internal("no such parameter"))?.into_int_value())
    }

    // ---- expressions of known shape ----

    pub(crate) fn emit_int(&mut self, expr: &Expr) -> Res<IntValue<'c>> {
        self.emit(expr)?.into_int()
    }
}

fn set_metadata<'c>(instruction: InstructionValue<'c>, metadata: MetadataValue<'c>, kind: u32) -> Res<()> {
    instruction.set_metadata(metadata, kind).map_err(|error| internal(&error.to_string()))
}

/// Whether a value of type `outer` can hold a value of type `inner`, or a part of one.
fn contains(outer: &Type, inner: &Type) -> bool {
    if outer == inner {
        return true;
    }
    match outer {
        Type::Scalar(_) | Type::Simd(_) => false,
        Type::Struct(fields) => fields.iter().any(|field| contains(field, inner)),
        Type::Vec(element) => contains(element, inner),
        Type::Dict(key, value) => contains(key, inner) || contains(value, inner),
        Type::Builder(builder) => contains(&builder.merge_type(), inner) || contains(&builder.result_type(), inner),
    }
}

/// The vectors in a type of keys.
fn vectors<'t>(ty: &'t Type, out: &mut Vec<&'t Type>) {
    match ty {
        Type::Struct(fields) => fields.iter().for_each(|field| vectors(field, out)),
        Type::Vec(element) => {
            out.push(ty);
            vectors(element, out);
        }
        _ => {}
    }
}

/// An error in this crate itself.
pub(crate) fn internal(message: &str) -> CompileError {
    CompileError::Llvm(format!("internal: {message}"))
}
