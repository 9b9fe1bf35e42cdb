//! What compiled Weld code calls and shares memory with.
