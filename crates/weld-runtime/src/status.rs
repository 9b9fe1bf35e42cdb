//! The ways in which a run of compiled code can fail.
//!
//! They are those of `weld_core::RuntimeErrorKind`, with the same numbers; this crate does not depend on `weld-core`,
//! so they stand here again.

use std::fmt;

/// Why a run stopped. Zero is success.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Status {
    Ok = 0,
    IndexOutOfBounds = 1,
    KeyNotFound = 2,
    DivisionByZero = 3,
    Overflow = 4,
    LengthMismatch = 5,
    BadSlice = 6,
    BadIterator = 7,
    AssertionFailed = 8,
    OutOfMemory = 9,
    Cancelled = 10,
    BadSerialization = 11,
    TooLarge = 12,
    Udf = 13,
    /// A defect of this project, never of the user's program.
    Internal = 14,
    /// An error in the words of the program.
    Raised = 15,
}

impl Status {
    pub const ALL: [Status; 16] = [
        Status::Ok,
        Status::IndexOutOfBounds,
        Status::KeyNotFound,
        Status::DivisionByZero,
        Status::Overflow,
        Status::LengthMismatch,
        Status::BadSlice,
        Status::BadIterator,
        Status::AssertionFailed,
        Status::OutOfMemory,
        Status::Cancelled,
        Status::BadSerialization,
        Status::TooLarge,
        Status::Udf,
        Status::Internal,
        Status::Raised,
    ];

    pub fn code(self) -> u32 {
        self as u32
    }
}

/// A failure that a runtime function has noted in its [`Run`](crate::Run): compiled code adds the place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    pub status: Status,
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_dense() {
        for (code, status) in Status::ALL.iter().enumerate() {
            assert_eq!(status.code(), code as u32);
        }
    }
}
