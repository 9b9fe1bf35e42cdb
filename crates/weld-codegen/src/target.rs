//! From an LLVM module to an object file in memory: passes and instruction selection for one machine.

use std::ffi::{CStr, c_int};
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Mutex, OnceLock, PoisonError};

use inkwell::OptimizationLevel;
use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::llvm_sys::core::LLVMGetVersion;
use inkwell::llvm_sys::support::LLVMParseCommandLineOptions;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{CodeModel, FileType, InitializationConfig, RelocMode, Target, TargetMachine};

use crate::error::CompileError;
use crate::float_min_max;
use crate::machine::Machine;
use crate::options::{Cpu, OptLevel, Options};

/// The passes of O2. Our own optimizer has inlined, fused and hoisted before: what is left for LLVM is to bring values
/// into registers, to clean up and to vectorise. `default<O2>` takes two to seven times as long and leaves more
/// instructions to select, for code that is no faster. Loops are emitted with induction variables as `indvars` makes
/// them. The first `instcombine` makes sums under a condition such that they are vectorised: with `instsimplify` in its
/// place TPC-H Q6 takes four times as long.
const FAST_CODE: &str = "cgscc(inline),function(sroa,early-cse<memssa>,simplifycfg,instcombine<no-verify-fixpoint>,\
    loop-mssa(loop-rotate,licm),early-cse,loop-vectorize,instcombine<no-verify-fixpoint>,simplifycfg)";

/// Settings of LLVM that only its command line has. Loop strength reduction takes a sixth of the time of generating
/// code; what it leaves runs no faster, for the addresses of columns are a base and a scaled index.
const SETTINGS: [&CStr; 2] = [c"weld", c"-disable-lsr"];

/// Name and features of a processor, as LLVM writes them.
struct Processor {
    name: String,
    features: String,
}

fn host() -> &'static Processor {
    static HOST: OnceLock<Processor> = OnceLock::new();
    HOST.get_or_init(|| Processor {
        name: TargetMachine::get_host_cpu_name().to_string(),
        features: TargetMachine::get_host_cpu_features().to_string(),
    })
}

/// Makes LLVM's code generator for this machine known, and how this crate wants it.
pub(crate) fn initialize() {
    static READY: OnceLock<()> = OnceLock::new();
    READY.get_or_init(|| {
        let settings = SETTINGS.map(CStr::as_ptr);
        // SAFETY: the strings are static, and the array holds as many as the count says. LLVM knows the settings: the
        // crate is built for one version of it.
        unsafe { LLVMParseCommandLineOptions(settings.len() as c_int, settings.as_ptr(), std::ptr::null()) };
        let config = InitializationConfig::default();
        #[cfg(target_arch = "x86_64")]
        Target::initialize_x86(&config);
        #[cfg(target_arch = "aarch64")]
        Target::initialize_aarch64(&config);
    });
}

/// Code generators that are in use by nobody. Making one, with the tables of the processor's instructions and types,
/// takes as long as generating code for a small loop.
#[derive(Default)]
pub(crate) struct Generators {
    idle: Mutex<Vec<(Kind, Idle)>>,
}

/// What a code generator is made for.
type Kind = (Cpu, OptLevel);

struct Idle(TargetMachine);

// SAFETY: a code generator belongs to no thread: LLVM asks only that one thread at a time uses it, and an idle one is
// used by none.
unsafe impl Send for Idle {}

/// A code generator that goes back to the idle ones when it is dropped.
pub(crate) struct Generator<'a> {
    kind: Kind,
    machine: Option<TargetMachine>,
    home: &'a Generators,
}

impl Generators {
    /// The most that are kept: one for each level and a few threads.
    const IDLE_MAX: usize = 8;

    /// A code generator for what the options ask for.
    pub(crate) fn take(&self, options: &Options) -> Result<Generator<'_>, CompileError> {
        let kind = (options.cpu, options.level);
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let known = idle.iter().position(|(of, _)| *of == kind).map(|at| idle.swap_remove(at).1.0);
        drop(idle);
        let machine = match known {
            Some(machine) => machine,
            None => machine(kind)?,
        };
        Ok(Generator { kind, machine: Some(machine), home: self })
    }
}

impl Deref for Generator<'_> {
    type Target = TargetMachine;

    fn deref(&self) -> &TargetMachine {
        self.machine.as_ref().expect("taken when it is dropped")
    }
}

impl Drop for Generator<'_> {
    fn drop(&mut self) {
        let mut idle = self.home.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(machine) = self.machine.take().filter(|_| idle.len() < Generators::IDLE_MAX) {
            idle.push((self.kind, Idle(machine)));
        }
    }
}

fn machine((cpu, level): Kind) -> Result<TargetMachine, CompileError> {
    initialize();
    let triple = TargetMachine::get_default_triple();
    let target = Target::from_triple(&triple)?;
    let level = match level {
        OptLevel::O0 => OptimizationLevel::None,
        OptLevel::O1 => OptimizationLevel::Less,
        OptLevel::O2 => OptimizationLevel::Default,
    };
    let (cpu, features) = match cpu {
        Cpu::Host => (host().name.as_str(), host().features.as_str()),
        Cpu::Portable => ("", ""),
    };
    target
        .create_target_machine(&triple, cpu, features, level, RelocMode::PIC, CodeModel::Default)
        .ok_or_else(|| CompileError::Llvm("no code generator for this machine".into()))
}

/// Writes for what machine code is made, and by what.
pub(crate) fn describe(cpu: Cpu, out: &mut impl Hasher) {
    let mut version = [0; 3];
    let [major, minor, patch] = &mut version;
    // SAFETY: the call writes three numbers.
    unsafe { LLVMGetVersion(major, minor, patch) };
    (version, FAST_CODE, TargetMachine::get_default_triple().as_str().to_bytes()).hash(out);
    match cpu {
        Cpu::Host => (&host().name, &host().features).hash(out),
        Cpu::Portable => ("", "").hash(out),
    }
}

/// The machine that code is made for.
pub(crate) fn machine_of(cpu: Cpu) -> Machine {
    let has = |feature: &str| cpu == Cpu::Host && host().features.split(',').any(|known| known == feature);
    Machine::new(has("+avx512f"), has("+fma") && has("+avx2"))
}

/// Runs the passes of the level.
pub(crate) fn optimize(module: &Module<'_>, machine: &TargetMachine, options: &Options) -> Result<(), CompileError> {
    module.set_triple(&machine.get_triple());
    module.set_data_layout(&machine.get_target_data().get_data_layout());
    if cfg!(debug_assertions) {
        module.verify().map_err(|error| CompileError::Llvm(format!("invalid IR: {error}")))?;
    }
    let mut passes = match options.level {
        OptLevel::O0 => String::new(),
        OptLevel::O1 => "function(sroa,early-cse,instcombine<no-verify-fixpoint>,simplifycfg)".to_string(),
        OptLevel::O2 if !options.vectorize => FAST_CODE.replace("loop-vectorize,", ""),
        OptLevel::O2 => FAST_CODE.to_string(),
    };
    if options.sanitize {
        sanitize(module);
        let separator = if passes.is_empty() { "" } else { "," };
        passes.push_str(separator);
        passes.push_str("asan");
    }
    if !passes.is_empty() {
        module.run_passes(&passes, machine, PassBuilderOptions::create())?;
    }
    drop_constructors(module);
    float_min_max::guard(module)
}

/// Asks for AddressSanitizer's checks: its pass looks at functions that carry this attribute only.
fn sanitize(module: &Module<'_>) {
    let kind = Attribute::get_named_enum_kind_id("sanitize_address");
    let attribute = module.get_context().create_enum_attribute(kind, 0);
    for function in module.get_functions().filter(|function| function.count_basic_blocks() > 0) {
        function.add_attribute(AttributeLoc::Function, attribute);
    }
}

/// The pass asks for the sanitizer's runtime to be started, which the process did; nobody here runs constructors.
fn drop_constructors(module: &Module<'_>) {
    for list in ["llvm.global_ctors", "llvm.global_dtors"] {
        if let Some(list) = module.get_global(list) {
            // SAFETY: nothing refers to these lists, and the handle is not used again.
            unsafe { list.delete() };
        }
    }
}

/// Machine code of an optimised module.
pub(crate) fn object(module: &Module<'_>, machine: &TargetMachine) -> Result<MemoryBuffer<'static>, CompileError> {
    Ok(machine.write_to_memory_buffer(module, FileType::Object)?)
}

pub(crate) fn assembly(module: &Module<'_>, machine: &TargetMachine) -> Result<String, CompileError> {
    let buffer = machine.write_to_memory_buffer(module, FileType::Assembly)?;
    Ok(String::from_utf8_lossy(buffer.as_slice()).trim_end_matches('\0').to_string())
}

#[cfg(test)]
mod tests {
    use inkwell::AddressSpace;
    use inkwell::context::Context;

    use super::*;

    #[test]
    fn sanitized_code_checks_its_loads() {
        let context = Context::create();
        let module = context.create_module("first");
        let (i64, ptr) = (context.i64_type(), context.ptr_type(AddressSpace::default()));
        let function = module.add_function("first", i64.fn_type(&[ptr.into()], false), None);
        let b = context.create_builder();
        b.position_at_end(context.append_basic_block(function, "entry"));
        let address = function.get_first_param().expect("a parameter").into_pointer_value();
        let value = b.build_load(i64, address, "x").expect("a load");
        b.build_return(Some(&value)).expect("an end");
        let options = Options { sanitize: true, ..Options::default() };
        let machine = machine((options.cpu, options.level)).expect("there is a code generator");
        optimize(&module, &machine, &options).expect("the passes run");
        assert!(module.print_to_string().to_string().contains("__asan_report_load8"));
    }
}
