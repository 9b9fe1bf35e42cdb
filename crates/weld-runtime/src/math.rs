//! Math functions that neither the processor nor the C library gives the same way everywhere.

/// The error function.
pub(crate) unsafe extern "C" fn erf_f64(x: f64) -> f64 {
    libm::erf(x)
}

/// The error function.
pub(crate) unsafe extern "C" fn erf_f32(x: f32) -> f32 {
    libm::erff(x)
}
