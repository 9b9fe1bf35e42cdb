//! Tables: dictionaries as they are read, and as they are filled. Nothing here knows what is merged into one, or of
//! what expression a key is the value.
//!
//! | file | has |
//! |---|---|
//! | `dict` | `lookup`, `optlookup`, `keyexists`, `tovec` and the layout of tables |
//! | `probe` | finding a key's row or group |
//! | `rows` | the same in steps: its hash, its row, what that has |
//! | `prefetch` | asking for the memory that a probe will need |
//! | `hash` | canonical keys, their hashes, and keys that a table keeps |
//! | `codes` | groups by dictionary codes |
//! | `entries` | probes by dictionary codes |

pub(crate) mod codes;
pub(crate) mod dict;
mod entries;
pub(crate) mod hash;
mod prefetch;
mod probe;
mod rows;

use std::ops::{Deref, DerefMut};

use inkwell::types::BasicTypeEnum;

use crate::block::{Code, Flow};
use crate::values::{Ranges, Values};

pub(crate) use crate::values::{BytesVal, Columns, Demand, DictVal, Res, Val, VecVal, internal};

/// Fills one function with values and tables.
pub(crate) struct Tables<'c, 'u> {
    values: Values<'c, 'u>,
}

impl<'c, 'u> Deref for Tables<'c, 'u> {
    type Target = Values<'c, 'u>;

    fn deref(&self) -> &Values<'c, 'u> {
        &self.values
    }
}

impl DerefMut for Tables<'_, '_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.values
    }
}

impl<'c, 'u> Flow<'c, 'u> for Tables<'c, 'u> {
    fn code(&self) -> &Code<'c, 'u> {
        self.values.code()
    }

    fn into_code(self) -> Code<'c, 'u> {
        self.values.into_code()
    }
}

impl<'c, 'u> Ranges<'c, 'u> for Tables<'c, 'u> {
    fn values(&self) -> &Values<'c, 'u> {
        self.values.values()
    }

    fn outlined(&self, what: &str, params: &[BasicTypeEnum<'c>]) -> Res<Self> {
        Ok(Tables { values: self.values.outlined(what, params)? })
    }
}

impl<'c, 'u> Tables<'c, 'u> {
    pub(crate) fn over(code: Code<'c, 'u>) -> Self {
        Tables { values: Values::over(code) }
    }
}
