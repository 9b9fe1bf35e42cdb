//! Keeps LLVM from a wrong choice of instructions for `min` and `max` of floats.
//!
//! LLVM 22's code generator for x86 with AVX-512 gives NaN for `maximumnum(NaN, sitofp i)`: where it knows that one
//! operand is no NaN, it orders the operands of `vmaxsd` as `maximum` wants them, which passes NaN on, and leaves out
//! what would put that right. So it must not know. When all passes have run,
//!
//! ```text
//! %r = call double @llvm.maximumnum.f64(double %x, double %y)
//! =>
//! %a = call double @llvm.arithmetic.fence.f64(double %x)
//! %b = call double @llvm.arithmetic.fence.f64(double %y)
//! %r = call double @llvm.maximumnum.f64(double %a, double %b)
//! ```
//!
//! A fence is no instruction. Constants stay: with them the order is right.

use inkwell::intrinsics::Intrinsic;
use inkwell::module::Module;
use inkwell::values::{AnyValueEnum, BasicValue, BasicValueEnum, InstructionValue};

use crate::block::{Res, internal};

pub(crate) fn guard(module: &Module<'_>) -> Res<()> {
    let is_extreme = |name: &str| name.starts_with("llvm.minimumnum.") || name.starts_with("llvm.maximumnum.");
    let functions = module.get_functions().filter(|function| function.get_name().to_str().is_ok_and(is_extreme));
    for function in functions.collect::<Vec<_>>() {
        let mut calls = Vec::new();
        let mut next = function.as_global_value().as_pointer_value().get_first_use();
        while let Some(used) = next {
            if let AnyValueEnum::FloatValue(_) | AnyValueEnum::VectorValue(_) = used.get_user() {
                calls.extend(instruction_of(used.get_user()));
            }
            next = used.get_next_use();
        }
        for call in calls {
            fence_operands(module, call)?;
        }
    }
    Ok(())
}

fn instruction_of(value: AnyValueEnum<'_>) -> Option<InstructionValue<'_>> {
    match value {
        AnyValueEnum::FloatValue(value) => value.as_instruction(),
        AnyValueEnum::VectorValue(value) => value.as_instruction(),
        _ => None,
    }
}

fn fence_operands(module: &Module<'_>, call: InstructionValue<'_>) -> Res<()> {
    let fence = Intrinsic::find("llvm.arithmetic.fence").ok_or_else(|| internal("no arithmetic fence"))?;
    let builder = module.get_context().create_builder();
    builder.position_before(&call);
    for index in 0..2 {
        let operand = call.get_operand(index).and_then(|operand| operand.value());
        let Some(operand) = operand else { return Err(internal("an extreme without an operand")) };
        let constant = match operand {
            BasicValueEnum::FloatValue(value) => value.is_const(),
            BasicValueEnum::VectorValue(value) => value.is_const(),
            _ => return Err(internal("an extreme of something else than floats")),
        };
        if constant {
            continue;
        }
        let function = fence
            .get_declaration(module, &[operand.get_type()])
            .ok_or_else(|| internal("an arithmetic fence of no type"))?;
        let fenced = builder.build_call(function, &[operand.into()], "")?.try_as_basic_value();
        call.set_operand(index, fenced.basic().ok_or_else(|| internal("a fence without a result"))?);
    }
    Ok(())
}
