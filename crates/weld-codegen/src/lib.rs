//! Weld IR to machine code through LLVM.
