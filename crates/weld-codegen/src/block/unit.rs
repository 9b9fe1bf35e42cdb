//! One LLVM module in the making: types, declarations, constants, marks.

use std::cell::{Cell, RefCell};

use inkwell::AddressSpace;
use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::context::Context;
use inkwell::llvm_sys::core::{LLVMMDNodeInContext2, LLVMMetadataAsValue, LLVMValueAsMetadata};
use inkwell::llvm_sys::debuginfo::{LLVMMetadataReplaceAllUsesWith, LLVMTemporaryMDNode};
use inkwell::module::{Linkage, Module};
use inkwell::types::{BasicMetadataTypeEnum, BasicType, BasicTypeEnum, IntType, PointerType};
use inkwell::values::{AsValueRef, BasicMetadataValueEnum, BasicValue, FunctionValue, MetadataValue, PointerValue};
use weld_core::ty::ScalarKind;
use weld_runtime::abi::{self, AbiKind, Effects};

use super::{PRESERVE_MOST, Res, Site};
use crate::error::CompileError;
use crate::machine::Machine;

/// One LLVM module in the making.
pub(crate) struct Unit<'c> {
    pub(crate) ll: &'c Context,
    pub(crate) module: Module<'c>,
    /// Places that can trap; a status is one plus an index.
    pub(crate) sites: RefCell<Vec<Site>>,
    /// What the code is made for.
    pub(crate) machine: Machine,
    /// For each loop the function that it is in, and how it runs, where somebody wants to know.
    pub(crate) loops: Option<RefCell<Vec<(String, String)>>>,
    /// Whether other threads work for the same run, which may ask it to stop.
    pub(crate) is_shared: bool,
    pub(super) scopes: Scopes<'c>,
    counter: Cell<u32>,
}

/// Alias scopes: memory that nobody writes while the code runs (inputs), and the domain of all scopes.
pub(super) struct Scopes<'c> {
    domain: MetadataValue<'c>,
    pub(super) input: MetadataValue<'c>,
    input_scope: MetadataValue<'c>,
    pub(super) kinds: Kinds,
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
    pub(super) own: MetadataValue<'c>,
    pub(super) others: MetadataValue<'c>,
}

pub(super) struct Kinds {
    pub(super) alias_scope: u32,
    pub(super) noalias: u32,
    pub(super) prof: u32,
    pub(super) invariant_load: u32,
}

impl<'c> Unit<'c> {
    pub(crate) fn new(ll: &'c Context, name: &str, machine: Machine) -> Unit<'c> {
        let domain = ll.metadata_node(&[ll.metadata_string("weld").into()]);
        let scope = ll.metadata_node(&[ll.metadata_string("weld.input").into(), domain.into()]);
        Unit {
            ll,
            module: ll.create_module(name),
            sites: RefCell::new(Vec::new()),
            machine,
            loops: None,
            is_shared: false,
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

    /// A function that calls a runtime function and keeps the caller's registers: what a loop holds stays in them,
    /// where the call would have it stored on every iteration.
    pub(super) fn register_keeping(&self, name: &str) -> Res<FunctionValue<'c>> {
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
