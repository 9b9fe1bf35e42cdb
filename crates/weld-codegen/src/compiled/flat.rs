//! Values in flat form on their way into compiled code and out of it.

use std::any::Any;
use std::sync::Arc;

use weld_core::ty::Type;
use weld_runtime::Run;

use super::kernel::Kernel;
use crate::layout;
use crate::value::Value;

/// Words in memory aligned as rows with 128-bit values may be.
pub(super) struct FlatWords {
    storage: Vec<u128>,
    len: usize,
}

impl FlatWords {
    pub(super) fn new(len: usize) -> FlatWords {
        FlatWords { storage: vec![0; len.div_ceil(2)], len }
    }

    pub(super) fn from_words(words: impl Iterator<Item = u64>) -> FlatWords {
        let words: Vec<u64> = words.collect();
        let mut flat = FlatWords::new(words.len());
        // SAFETY: the storage has room for `len` words.
        unsafe { std::ptr::copy_nonoverlapping(words.as_ptr(), flat.as_mut_ptr(), words.len()) };
        flat
    }

    pub(super) fn as_ptr(&self) -> *const u64 {
        self.storage.as_ptr().cast()
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut u64 {
        self.storage.as_mut_ptr().cast()
    }

    pub(super) fn into_words(self) -> Vec<u64> {
        // SAFETY: the storage has room for `len` words, all initialised.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.len).to_vec() }
    }
}

/// The result of a run, kept alive by the run's memory, the code's constants, and the arguments.
pub(super) fn finished(
    ty: &Type,
    out: FlatWords,
    run: Box<Run>,
    kernel: &Arc<Kernel>,
    more: Option<Vec<Arc<Kernel>>>,
    args: &[Value],
) -> Value {
    let mut owners: Vec<Arc<dyn Any + Send + Sync>> = Vec::new();
    if layout::has_pointers(ty) {
        owners.push(Arc::new(run));
        owners.push(kernel.clone());
        owners.extend(more.into_iter().flatten().map(|kernel| kernel as Arc<dyn Any + Send + Sync>));
        owners.extend(args.iter().flat_map(|arg| arg.owners().iter().cloned()));
    }
    // SAFETY: compiled code has stored a value of the type, which refers to nothing beyond the owners.
    unsafe { Value::from_flat(ty.clone(), out.into_words(), owners) }
}
