//! The Weld language: syntax, types, IR, optimizer and interpreter.
