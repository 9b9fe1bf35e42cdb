//! What sanitized code calls: AddressSanitizer's runtime, in a process that is built with it.
//!
//! ```text
//! RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address --cfg weld_asan" cargo test -p weld-test --target ..
//! ```
//!
//! Stable Rust does not say whether a crate is built with a sanitizer, hence the `--cfg` of our own.

use crate::error::CompileError;
use crate::options::Options;

/// Refuses to link sanitized code where nothing would report what it finds.
pub(crate) fn check(options: &Options) -> Result<(), CompileError> {
    match options.sanitize && !cfg!(weld_asan) {
        true => {
            Err(CompileError::unsupported("sanitized code in a process without AddressSanitizer", Default::default()))
        }
        false => Ok(()),
    }
}

#[cfg(not(weld_asan))]
pub(crate) fn functions() -> Vec<(&'static str, usize)> {
    Vec::new()
}

#[cfg(weld_asan)]
pub(crate) fn functions() -> Vec<(&'static str, usize)> {
    macro_rules! library {
        ($($name:ident)*) => {{
            unsafe extern "C" {
                static __asan_option_detect_stack_use_after_return: i32;
                $(fn $name();)*
            }
            let option = "__asan_option_detect_stack_use_after_return";
            let option = (option, &raw const __asan_option_detect_stack_use_after_return as usize);
            vec![option, $((stringify!($name), $name as *const () as usize)),*]
        }};
    }
    library! {
        __asan_init __asan_version_mismatch_check_v8 __asan_handle_no_return
        __asan_register_globals __asan_unregister_globals __asan_register_elf_globals __asan_unregister_elf_globals
        __asan_report_load1 __asan_report_load2 __asan_report_load4 __asan_report_load8 __asan_report_load16
        __asan_report_load_n
        __asan_report_store1 __asan_report_store2 __asan_report_store4 __asan_report_store8 __asan_report_store16
        __asan_report_store_n
        __asan_load1 __asan_load2 __asan_load4 __asan_load8 __asan_load16 __asan_loadN
        __asan_store1 __asan_store2 __asan_store4 __asan_store8 __asan_store16 __asan_storeN
        __asan_memcpy __asan_memmove __asan_memset
        __asan_stack_malloc_0 __asan_stack_malloc_1 __asan_stack_malloc_2 __asan_stack_malloc_3 __asan_stack_malloc_4
        __asan_stack_malloc_5 __asan_stack_malloc_6 __asan_stack_malloc_7 __asan_stack_malloc_8 __asan_stack_malloc_9
        __asan_stack_malloc_10
        __asan_stack_free_0 __asan_stack_free_1 __asan_stack_free_2 __asan_stack_free_3 __asan_stack_free_4
        __asan_stack_free_5 __asan_stack_free_6 __asan_stack_free_7 __asan_stack_free_8 __asan_stack_free_9
        __asan_stack_free_10
        __asan_set_shadow_00 __asan_set_shadow_01 __asan_set_shadow_02 __asan_set_shadow_03 __asan_set_shadow_04
        __asan_set_shadow_05 __asan_set_shadow_06 __asan_set_shadow_07
        __asan_set_shadow_f1 __asan_set_shadow_f2 __asan_set_shadow_f3 __asan_set_shadow_f5 __asan_set_shadow_f8
        __asan_poison_stack_memory __asan_unpoison_stack_memory __asan_alloca_poison __asan_allocas_unpoison
    }
}
