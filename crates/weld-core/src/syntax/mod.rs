//! Weld text and its tree.

pub(crate) mod words;
