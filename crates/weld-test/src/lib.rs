//! Filetest driver, generators, engines side by side.
