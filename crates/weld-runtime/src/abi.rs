//! The ABI: layouts shared with compiled code, and the one table of functions that it may call.
//!
//! A row of the table is the name that compiled code uses and the Rust function; the LLVM declaration follows from the
//! function's type, so the two cannot disagree:
//!
//! ```text
//! weld_resize => vector::resize, (_, _, _, _), Effects::Any;
//! ```

use std::sync::LazyLock;

use crate::{dict_abi, hash, intern, math, nditer, parallel, probed_entries, sort, strings, text_positions, vector};

/// A byte vector in row form: short ones lie inside, longer ones keep a prefix and point to the bytes.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StringView {
    pub len: u32,
    /// All bytes if `len <= 12`, zero padded; else four bytes of prefix and the address.
    pub bytes: [u8; 12],
}

const _: () = assert!(size_of::<StringView>() == 16 && align_of::<StringView>() == 8);

impl StringView {
    /// Longest byte vector that lies inside its view.
    pub const INLINE_MAX: usize = 12;

    /// A view of bytes, which must stay where they are when there are more than twelve. `None` above `u32::MAX`.
    pub fn new(bytes: &[u8]) -> Option<StringView> {
        let mut view = StringView { len: u32::try_from(bytes.len()).ok()?, bytes: [0; 12] };
        if bytes.len() <= Self::INLINE_MAX {
            view.bytes[..bytes.len()].copy_from_slice(bytes);
        } else {
            view.bytes[..4].copy_from_slice(&bytes[..4]);
            view.bytes[4..].copy_from_slice(&(bytes.as_ptr() as u64).to_le_bytes());
        }
        Some(view)
    }

    /// The view of which these are the words in registers.
    pub(crate) fn of_words(low: u64, high: u64) -> StringView {
        let mut view = StringView { len: low as u32, bytes: [0; 12] };
        view.bytes[..4].copy_from_slice(&low.to_le_bytes()[4..]);
        view.bytes[4..].copy_from_slice(&high.to_le_bytes());
        view
    }

    /// The view of the same bytes at `address`, unless they lie inside.
    pub(crate) fn moved_to(mut self, address: *const u8) -> StringView {
        if self.len as usize > Self::INLINE_MAX {
            self.bytes[4..].copy_from_slice(&(address as u64).to_le_bytes());
        }
        self
    }

    /// Where the bytes are; null if they lie inside.
    pub(crate) fn address(&self) -> *mut u8 {
        let address = u64::from_le_bytes(std::array::from_fn(|i| self.bytes[4 + i]));
        if self.len as usize <= Self::INLINE_MAX { std::ptr::null_mut() } else { address as *mut u8 }
    }

    /// # Safety
    /// The bytes that a long view points to are alive.
    pub unsafe fn as_slice(&self) -> &[u8] {
        let len = self.len as usize;
        if len <= Self::INLINE_MAX {
            return &self.bytes[..len];
        }
        // SAFETY: by the caller's promise.
        unsafe { std::slice::from_raw_parts(self.address(), len) }
    }
}

/// One column of a chunk, as `process` gets it; which fields count follows from the column's layout.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ColumnAbi {
    /// Values, offsets, views or codes, already advanced to the first row.
    pub values: *const u8,
    /// Validity bitmap, or null.
    pub validity: *const u8,
    /// In bits.
    pub validity_offset: u64,
    /// In bits, for bit-packed bool values.
    pub bit_offset: u64,
    /// String bytes of Utf8 and LargeUtf8.
    pub data: *const u8,
    /// Data buffers of Utf8View.
    pub buffers: *const *const u8,
    /// Values of a dictionary-encoded column.
    pub dictionary: *const ColumnAbi,
    /// How many values the dictionary has; zero if that is not said.
    pub entries: u64,
    /// The dictionary's number in its stream: another for each that differs. Zero if it has none.
    pub dictionary_number: u64,
}

const _: () = assert!(size_of::<ColumnAbi>() == 72 && align_of::<ColumnAbi>() == 8);

impl ColumnAbi {
    pub const EMPTY: ColumnAbi = ColumnAbi {
        values: std::ptr::null(),
        validity: std::ptr::null(),
        validity_offset: 0,
        bit_offset: 0,
        data: std::ptr::null(),
        buffers: std::ptr::null(),
        dictionary: std::ptr::null(),
        entries: 0,
        dictionary_number: 0,
    };
}

/// The types of parameters and results; an `i128` travels as two words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AbiKind {
    Void,
    Bool,
    I8,
    I16,
    I32,
    I64,
    F32,
    F64,
    Ptr,
}

/// What a function does to memory, for LLVM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effects {
    /// Reads and writes anything.
    Any,
    /// The same, and is called rarely.
    Cold,
    /// Reads memory, changes none, always returns.
    Reads,
    /// Depends on its arguments only, always returns.
    None,
}

/// A runtime function as compiled code sees it.
#[derive(Clone, Debug)]
pub struct Function {
    pub name: &'static str,
    pub address: usize,
    pub params: Vec<AbiKind>,
    pub result: AbiKind,
    pub effects: Effects,
}

/// All functions that compiled code may call.
pub fn functions() -> &'static [Function] {
    &FUNCTIONS
}

/// The function of that name.
pub fn function(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident => $path:path, ($($arg:tt),*), $effects:expr;)*) => {
        static FUNCTIONS: LazyLock<Vec<Function>> = LazyLock::new(|| vec![$({
            let (params, result, address) = ($path as unsafe extern "C" fn($($arg),*) -> _).describe();
            Function { name: stringify!($name), address, params, result, effects: $effects }
        }),*]);
    };
}

functions! {
    /// `(run, index) -> region`
    weld_region => vector::region, (_, _), Effects::Any;
    /// `(run, region)`
    weld_region_clear => vector::region_clear, (_, _), Effects::Any;
    /// `(run, region, bytes) -> block or null`
    weld_allocate => vector::allocate, (_, _, _), Effects::Any;
    /// `(run, region, bytes, alignment) -> memory or null`
    weld_piece => vector::piece, (_, _, _, _), Effects::Any;
    /// `(run, region, block or null, bytes) -> block or null`
    weld_resize => vector::resize, (_, _, _, _), Effects::Any;
    /// `(run, block or null)`
    weld_free => vector::free, (_, _), Effects::Any;
    /// `(run, region, columns, sizes, count, capacity, needed) -> new capacity, or 0`
    weld_grow => vector::grow, (_, _, _, _, _, _, _), Effects::Cold;
    /// `(run, loop) -> status`
    weld_parallel_for => parallel::parallel_for, (_, _), Effects::Any;
    /// `(run, sort) -> status`
    weld_sort => sort::sort, (_, _), Effects::Any;
    weld_erf_f64 => math::erf_f64, (_), Effects::None;
    weld_erf_f32 => math::erf_f32, (_), Effects::None;
    /// `(dims, rank, len, start, end, step, shape, strides) -> positions, or -1`
    weld_nd_start => nditer::start, (_, _, _, _, _, _, _, _), Effects::Any;
    /// `(dims, rank, i) -> position`
    weld_nd_position => nditer::position, (_, _, _), Effects::Reads;
    /// `(run, region, value offset, row bytes) -> dictmerger or null`
    weld_dict_new => dict_abi::dict_new, (_, _, _, _), Effects::Any;
    /// `(run, region, dict or null, value offset, row bytes, columns) -> dict or null`
    weld_dict_or_empty => dict_abi::dict_or_empty, (_, _, _, _, _, _), Effects::Any;
    /// `(run, dictmerger, hash) -> row or null`
    weld_dict_insert => dict_abi::dict_insert, (_, _, _), Effects::Any;
    /// `(run, dictmerger, other, equality function, merge function) -> done`
    weld_dict_combine => dict_abi::dict_combine, (_, _, _, _, _), Effects::Any;
    /// `(run, dictmerger, values, columns, pointers) -> done`
    weld_dict_group => dict_abi::dict_group, (_, _, _, _, _), Effects::Any;
    /// `(dictmerger) -> dict`
    weld_dict_finish => dict_abi::dict_finish, (_), Effects::Any;
    /// `(dictmerger, dictionaries, columns, combinations, rows) -> rows by code or null`
    weld_dict_rows_of_codes => dict_abi::dict_rows_of_codes, (_, _, _, _, _), Effects::Any;
    /// `(run, dictmerger, bytes, alignment) -> memory or null`
    weld_dict_alloc => dict_abi::dict_alloc, (_, _, _, _), Effects::Any;
    /// `(run, dictmerger, view, low, high) -> done`
    weld_dict_keep => dict_abi::dict_keep, (_, _, _, _, _), Effects::Cold;
    /// `(run, dict) -> row 0 or null`
    weld_dict_rows => dict_abi::dict_rows, (_, _), Effects::Any;
    /// `(run, region, integer, key bytes, key alignment, columns, column bytes) -> groupbuilder or null`
    weld_group_new => dict_abi::group_new, (_, _, _, _, _, _, _), Effects::Any;
    /// `(run, groupbuilder) -> done`
    weld_group_grow => dict_abi::group_grow, (_, _), Effects::Any;
    /// `(run, groupbuilder, bytes, alignment) -> memory or null`
    weld_group_alloc => dict_abi::group_alloc, (_, _, _, _), Effects::Any;
    /// `(groupbuilder, other)`
    weld_group_combine => dict_abi::group_combine, (_, _), Effects::Any;
    /// `(run, region, groupbuilder, hash function, equality function) -> dict or null`
    weld_group_finish => dict_abi::group_finish, (_, _, _, _, _), Effects::Any;
    /// `(bytes, length of at least 8) -> hash`
    /// `(run, table, column, dictionary, places) -> a word for each place, or null`
    weld_probed_entries => probed_entries::probed_entries, (_, _, _, _, _), Effects::Any;
    weld_hash_bytes => hash::hash_bytes, (_, _), Effects::Reads;
    /// `(a, b, length) -> equal`
    weld_bytes_equal => strings::bytes_equal, (_, _, _), Effects::Reads;
    /// `(a, length, b, length) -> negative, zero or positive`
    weld_bytes_compare => strings::bytes_compare, (_, _, _, _), Effects::Reads;
    weld_bytes_compare_signed => strings::bytes_compare_signed, (_, _, _, _), Effects::Reads;
    /// `(run, bytes, length) -> pattern`
    weld_pattern_like => strings::pattern_like, (_, _, _), Effects::Any;
    weld_pattern_contains => strings::pattern_contains, (_, _, _), Effects::Any;
    /// `(pattern, text, length) -> whether it matches`
    weld_pattern_matches => strings::pattern_matches, (_, _, _), Effects::Reads;
    /// `(text, length, pattern, length) -> whether it matches`
    weld_like => strings::like, (_, _, _, _), Effects::Reads;
    weld_contains => strings::contains, (_, _, _, _), Effects::Reads;
    weld_pattern_ilike => strings::pattern_ilike, (_, _, _), Effects::Any;
    weld_ilike => strings::ilike, (_, _, _, _), Effects::Reads;
    /// `(text, length, part, length, from) -> place, or -1`
    weld_find => text_positions::find, (_, _, _, _, _), Effects::Reads;
    /// `(text, length, separator, length, number) -> place, or -1`
    weld_field_start => text_positions::field_start, (_, _, _, _, _), Effects::Reads;
    /// `(text, length, characters, length) -> place`
    weld_trim_start => text_positions::trim_start, (_, _, _, _), Effects::Reads;
    weld_trim_end => text_positions::trim_end, (_, _, _, _), Effects::Reads;
    /// `(run, bytes, length) -> view that equal bytes share, or null`
    weld_intern => intern::intern, (_, _, _), Effects::Any;
    weld_is_utf8 => strings::is_utf8, (_, _), Effects::Reads;
    weld_char_length => strings::char_length, (_, _), Effects::Reads;
    weld_char_offset => strings::char_offset, (_, _, _), Effects::Reads;
}

/// A type that may cross the boundary.
trait AbiType {
    const KIND: AbiKind;
}

macro_rules! abi_types {
    ($($ty:ty: $kind:ident),*) => { $(impl AbiType for $ty { const KIND: AbiKind = AbiKind::$kind; })* };
}

abi_types!((): Void, bool: Bool, i8: I8, u8: I8, i16: I16, u16: I16, i32: I32, u32: I32, i64: I64, u64: I64, f32: F32, f64: F64);

impl<T> AbiType for *const T {
    const KIND: AbiKind = AbiKind::Ptr;
}

impl<T> AbiType for *mut T {
    const KIND: AbiKind = AbiKind::Ptr;
}

/// Parameter kinds, result kind and address of a function, taken from its type.
trait Describe<Args> {
    fn describe(self) -> (Vec<AbiKind>, AbiKind, usize);
}

macro_rules! describe_functions {
    ($($($arg:ident)*;)*) => { $(
        impl<R: AbiType, $($arg: AbiType),*> Describe<($($arg,)*)> for unsafe extern "C" fn($($arg),*) -> R {
            fn describe(self) -> (Vec<AbiKind>, AbiKind, usize) {
                (vec![$($arg::KIND),*], R::KIND, self as usize)
            }
        }
    )* };
}

describe_functions! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
    A B C D E F G H I;
    A B C D E F G H I J;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_come_from_the_rust_types() {
        let resize = function("weld_resize").unwrap();
        assert_eq!(resize.params, [AbiKind::Ptr, AbiKind::Ptr, AbiKind::Ptr, AbiKind::I64]);
        assert_eq!(resize.result, AbiKind::Ptr);
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = functions().iter().map(|f| f.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), functions().len());
    }

    #[test]
    fn views_hold_short_bytes_and_point_to_long_ones() {
        for text in ["", "a", "twelve bytes", "thirteen byte"] {
            let view = StringView::new(text.as_bytes()).unwrap();
            // SAFETY: the text is alive.
            assert_eq!(unsafe { view.as_slice() }, text.as_bytes());
        }
    }
}
