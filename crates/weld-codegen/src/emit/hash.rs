//! Hashes of keys.
