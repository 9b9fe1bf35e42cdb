//! Machine code in this process: ORC LLJIT, one resource tracker a kernel, so that code is freed when it is dropped.
//!
//! Code sees the functions of the ABI table and a fixed list of C library functions that LLVM itself calls, nothing
//! else of the process.

use std::collections::hash_map::RandomState;
use std::ffi::{CStr, CString, c_char, c_void};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use inkwell::llvm_sys::error::{LLVMDisposeErrorMessage, LLVMErrorRef, LLVMGetErrorMessage};
use inkwell::llvm_sys::orc2::lljit::*;
use inkwell::llvm_sys::orc2::*;
use inkwell::memory_buffer::MemoryBuffer;
use weld_runtime::abi;

use crate::error::CompileError;
use crate::target::Generators;

/// The linker of this process, shared by all kernels that are alive; holds nothing of its own but the symbols.
pub(crate) struct Jit {
    lljit: LLVMOrcLLJITRef,
    session: LLVMOrcExecutionSessionRef,
    dylib: LLVMOrcJITDylibRef,
    kernels: AtomicU64,
    /// A number that neither programs nor other processes know.
    number: u64,
    /// Code generators, which make what is linked.
    pub(crate) generators: Generators,
}

// SAFETY: LLJIT may be used from several threads.
unsafe impl Send for Jit {}
// SAFETY: as above.
unsafe impl Sync for Jit {}

/// Loaded machine code; freed when dropped.
pub(crate) struct Code {
    jit: Arc<Jit>,
    tracker: LLVMOrcResourceTrackerRef,
    addresses: Vec<usize>,
}

// SAFETY: a tracker is used when dropped only, which LLJIT allows from any thread.
unsafe impl Send for Code {}
// SAFETY: the addresses are plain numbers.
unsafe impl Sync for Code {}

impl Jit {
    /// The linker, made anew if nobody has it.
    pub(crate) fn shared() -> Result<Arc<Jit>, CompileError> {
        static SHARED: Mutex<Weak<Jit>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(jit) = shared.upgrade() {
            return Ok(jit);
        }
        let jit = Arc::new(Jit::new()?);
        *shared = Arc::downgrade(&jit);
        Ok(jit)
    }

    fn new() -> Result<Jit, CompileError> {
        crate::target::initialize();
        // SAFETY: the calls follow the C API's ownership: the builder goes into the LLJIT, symbols into the dylib.
        unsafe {
            let mut lljit = std::ptr::null_mut();
            check(LLVMOrcCreateLLJIT(&mut lljit, LLVMOrcCreateLLJITBuilder()))?;
            let session = LLVMOrcLLJITGetExecutionSession(lljit);
            LLVMOrcExecutionSessionSetErrorReporter(session, ignore_error, std::ptr::null_mut());
            // A bare dylib is linked to nothing, the process's symbols in particular.
            let dylib = LLVMOrcExecutionSessionCreateBareJITDylib(session, c"weld".as_ptr());
            let mut symbols: Vec<LLVMOrcCSymbolMapPair> = symbols()
                .into_iter()
                .map(|(name, address)| LLVMOrcCSymbolMapPair {
                    Name: LLVMOrcLLJITMangleAndIntern(lljit, name.as_ptr()),
                    Sym: LLVMJITEvaluatedSymbol {
                        Address: address as u64,
                        Flags: LLVMJITSymbolFlags {
                            GenericFlags: LLVMJITSymbolGenericFlags::LLVMJITSymbolGenericFlagsExported as u8
                                | LLVMJITSymbolGenericFlags::LLVMJITSymbolGenericFlagsCallable as u8,
                            TargetFlags: 0,
                        },
                    },
                })
                .collect();
            let unit = LLVMOrcAbsoluteSymbols(symbols.as_mut_ptr(), symbols.len());
            check(LLVMOrcJITDylibDefine(dylib, unit))?;
            let number = RandomState::new().hash_one("weld");
            Ok(Jit { lljit, session, dylib, kernels: AtomicU64::new(0), number, generators: Generators::default() })
        }
    }

    /// A prefix for the names of a kernel's functions, which must be unique while it is loaded. All are of one length,
    /// and nothing else in an object is the same.
    pub(crate) fn fresh_prefix(&self) -> String {
        format!("weld_{:016x}_{:012x}_", self.number, self.kernels.fetch_add(1, Ordering::Relaxed))
    }

    /// Links an object and finds the functions of those names in it.
    pub(crate) fn load(self: &Arc<Jit>, object: MemoryBuffer<'static>, names: &[String]) -> Result<Code, CompileError> {
        // SAFETY: the tracker is owned by `code` from the start; the object's ownership goes to LLJIT.
        unsafe {
            let tracker = LLVMOrcJITDylibCreateResourceTracker(self.dylib);
            let mut code = Code { jit: self.clone(), tracker, addresses: Vec::new() };
            let buffer = object.as_mut_ptr();
            std::mem::forget(object);
            check(LLVMOrcLLJITAddObjectFileWithRT(self.lljit, tracker, buffer))?;
            code.addresses = self.lookup(names)?;
            Ok(code)
        }
    }

    fn lookup(&self, names: &[String]) -> Result<Vec<usize>, CompileError> {
        /// What the callback fills in. The interned names are borrowed.
        struct Found {
            names: Vec<LLVMOrcSymbolStringPoolEntryRef>,
            result: OnceLock<Result<Vec<usize>, CompileError>>,
        }

        extern "C" fn done(error: LLVMErrorRef, result: LLVMOrcCSymbolMapPairs, count: usize, context: *mut c_void) {
            // SAFETY: `context` is the `Found` of the lookup that is waiting; `result` has `count` pairs.
            unsafe {
                let found = &*context.cast::<Found>();
                let answer = check(error).and_then(|()| {
                    let pairs = if count == 0 { &[] } else { std::slice::from_raw_parts(result, count) };
                    found
                        .names
                        .iter()
                        .map(|&name| {
                            let pair = pairs.iter().find(|pair| pair.Name == name);
                            pair.map(|pair| pair.Sym.Address as usize)
                                .ok_or_else(|| CompileError::Llvm("a function is missing after linking".into()))
                        })
                        .collect()
                });
                // Called once.
                let _ = found.result.set(answer);
            }
        }

        let names: Vec<CString> = names.iter().filter_map(|name| CString::new(name.as_str()).ok()).collect();
        // SAFETY: names are interned once for the list (whose entries the lookup releases) and once for `found`.
        unsafe {
            let intern = |name: &CString| LLVMOrcLLJITMangleAndIntern(self.lljit, name.as_ptr());
            let found = Found { names: names.iter().map(intern).collect(), result: OnceLock::new() };
            let mut wanted: Vec<LLVMOrcCLookupSetElement> = names
                .iter()
                .map(|name| LLVMOrcCLookupSetElement {
                    Name: intern(name),
                    LookupFlags: LLVMOrcSymbolLookupFlags::LLVMOrcSymbolLookupFlagsRequiredSymbol,
                })
                .collect();
            let mut order = LLVMOrcCJITDylibSearchOrderElement {
                JD: self.dylib,
                JDLookupFlags: LLVMOrcJITDylibLookupFlags::LLVMOrcJITDylibLookupFlagsMatchExportedSymbolsOnly,
            };
            // Without further threads the lookup links at once and calls back before it returns.
            LLVMOrcExecutionSessionLookup(
                self.session,
                LLVMOrcLookupKind::LLVMOrcLookupKindStatic,
                &mut order,
                1,
                wanted.as_mut_ptr(),
                wanted.len(),
                done,
                (&raw const found).cast_mut().cast(),
            );
            // Another thread's lookup may be what completes this one: wait for it.
            let answer = found.result.wait().clone();
            found.names.iter().for_each(|&name| LLVMOrcReleaseSymbolStringPoolEntry(name));
            answer
        }
    }
}

impl Drop for Jit {
    fn drop(&mut self) {
        // SAFETY: every `Code` holds the `Jit`, so none is left.
        let _ = check(unsafe { LLVMOrcDisposeLLJIT(self.lljit) });
    }
}

impl Code {
    /// The address of the function whose name was given at that place.
    pub(crate) fn address(&self, index: usize) -> usize {
        self.addresses[index]
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: the tracker is this code's; nobody runs the code while it is dropped, for runs hold it.
        unsafe {
            let _ = check(LLVMOrcResourceTrackerRemove(self.tracker));
            LLVMOrcReleaseResourceTracker(self.tracker);
            LLVMOrcSymbolStringPoolClearDeadEntries(LLVMOrcExecutionSessionGetSymbolStringPool(self.jit.session));
        }
    }
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Code").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

/// Turns an LLVM error into ours.
fn check(error: LLVMErrorRef) -> Result<(), CompileError> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: the error is live and consumed here; the message is copied before it is freed.
    unsafe {
        let message = LLVMGetErrorMessage(error);
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        LLVMDisposeErrorMessage(message);
        Err(CompileError::Llvm(text))
    }
}

/// Errors come back from the calls as well; LLVM would print them.
extern "C" fn ignore_error(_context: *mut c_void, error: LLVMErrorRef) {
    let _ = check(error);
}

fn symbols() -> Vec<(CString, usize)> {
    let runtime = abi::functions().iter().map(|function| (function.name, function.address));
    runtime
        .chain(libc_functions())
        .chain(crate::sanitizer::functions())
        .filter_map(|(name, address)| Some((CString::new(name).ok()?, address)))
        .collect()
}

/// What LLVM calls on its own account: memory functions, math functions, 128-bit arithmetic.
fn libc_functions() -> Vec<(&'static str, usize)> {
    macro_rules! library {
        ($($name:ident)*) => {{
            unsafe extern "C" {
                $(fn $name(_: *const c_char);)*
            }
            vec![$((stringify!($name), $name as *const () as usize)),*]
        }};
    }
    library! {
        memcpy memmove memset memcmp bcmp
        exp expf exp2 exp2f exp10 exp10f ldexp ldexpf log logf log2 log2f log10 log10f pow powf
        sin sinf cos cosf sincos sincosf tan tanf
        asin asinf acos acosf atan atanf sinh sinhf cosh coshf tanh tanhf
        fmod fmodf fmin fminf fmax fmaxf floor floorf ceil ceilf trunc truncf rint rintf round roundf cbrt cbrtf
        __divti3 __modti3 __udivti3 __umodti3
        __floattidf __floattisf __floatuntidf __floatuntisf
        __fixdfti __fixsfti __fixunsdfti __fixunssfti
    }
}
