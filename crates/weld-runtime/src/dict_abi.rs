//! What compiled code calls to build dictionaries; reading them needs no call.
//!
//! Every function notes a failure in the run and says so by null or `false`; compiled code then traps.

use crate::abi::StringView;
use crate::dict::{Dict, DictError, KeyKind, RowLayout};
use crate::dict_combine::{MergeValues, RowFunctions};
use crate::dict_finish::{EqualKeys, HashKeys, KeyFunctions};
use crate::dict_group::{GroupBuilder, GroupLayout};
use crate::memory::OutOfMemory;
use crate::run::{Region, Run};
use crate::status::Status;
use crate::threads;

#[cold]
fn fail(run: &mut Run, error: DictError) {
    let status = match error {
        DictError::OutOfMemory => Status::OutOfMemory,
        DictError::TooManyRows => Status::TooLarge,
    };
    run.fail(status, error.to_string());
}

/// A new dictmerger, or null.
///
/// # Safety
/// `run` is valid and owns `region`.
pub unsafe extern "C" fn dict_new(run: *mut Run, region: *mut Region, value_offset: u32, row_bytes: u32) -> *mut Dict {
    // SAFETY: by the caller's promise.
    let run = unsafe { &mut *run };
    let memory = run.context().memory().clone();
    let expected = std::mem::take(&mut run.expected_rows);
    match Dict::with_room(RowLayout { value_offset, row_bytes }, &memory, expected) {
        // SAFETY: by the caller's promise.
        Ok(dict) => unsafe { run.place(region, dict) },
        Err(error) => {
            fail(run, error.into());
            std::ptr::null_mut()
        }
    }
}

/// The dictionary itself, or an empty one of this layout in the place of null, which is what a missed lookup finds in
/// the place of a dictionary. Null after a failure. `columns` is that of a grouped table, 0 for others.
///
/// # Safety
/// `run` is valid and owns `region`; `dict` is null or valid.
pub unsafe extern "C" fn dict_or_empty(
    run: *mut Run,
    region: *mut Region,
    dict: *const Dict,
    value_offset: u32,
    row_bytes: u32,
    columns: u64,
) -> *const Dict {
    if !dict.is_null() {
        return dict;
    }
    // SAFETY: by the caller's promise.
    let empty = unsafe { dict_new(run, region, value_offset, row_bytes) };
    if empty.is_null() || columns == 0 {
        return empty;
    }
    let none = vec![std::ptr::null(); columns as usize];
    // SAFETY: the table is new; no column has an element.
    let grouped = unsafe { dict_group(run, empty, 0, columns, none.as_ptr()) };
    if grouped { empty } else { std::ptr::null() }
}

/// A row for a new key, to be filled, or null.
///
/// # Safety
/// `run` and `dict` are valid; the key is not in the dictionary.
pub unsafe extern "C" fn dict_insert(run: *mut Run, dict: *mut Dict, hash: u32) -> *mut u8 {
    // SAFETY: by the caller's promise.
    unsafe { &mut *dict }.insert(hash).unwrap_or_else(|error| {
        // SAFETY: by the caller's promise.
        fail(unsafe { &mut *run }, error);
        std::ptr::null_mut()
    })
}

/// Merges all rows of another dictmerger, which is gone then.
///
/// # Safety
/// `run` is valid and owns both, which are of one layout; the functions are right for their rows.
pub unsafe extern "C" fn dict_combine(
    run: *mut Run,
    dict: *mut Dict,
    other: *mut Dict,
    equal: *const u8,
    merge: *const u8,
) -> bool {
    // SAFETY: by the caller's promise the addresses are those of functions of these types.
    let functions = unsafe {
        RowFunctions {
            equal: std::mem::transmute::<*const u8, EqualKeys>(equal),
            merge: std::mem::transmute::<*const u8, MergeValues>(merge),
        }
    };
    // SAFETY: by the caller's promise.
    unsafe {
        // Rows may get other numbers.
        (*dict).forget_codes();
        let other = (*run).take(other);
        // Threads start when they are asked for.
        let threads = (*run).threads().filter(|_| other.is_worth_sharing()).cloned();
        let combined = threads::with(threads, |count, work_on| (*dict).combine(other, functions, count, work_on));
        combined.map_err(|error| fail(&mut *run, error)).is_ok()
    }
}

/// Makes a grouped table, see [`Dict::group`].
///
/// # Safety
/// `run` and `dict` are valid; there are `columns` columns, which live as long as the run.
pub unsafe extern "C" fn dict_group(
    run: *mut Run,
    dict: *mut Dict,
    values: u64,
    columns: u64,
    pointers: *const *const u8,
) -> bool {
    // SAFETY: by the caller's promise.
    unsafe {
        let columns = std::slice::from_raw_parts(pointers, columns as usize);
        (*dict).group(values, columns).map_err(|error| fail(&mut *run, error)).is_ok()
    }
}

/// The end of building: from now on the dictionary is not changed. It stays where it is, but compiled code may not know
/// that, and so reads nothing of it before.
///
/// # Safety
/// `dict` is valid.
pub unsafe extern "C" fn dict_finish(dict: *mut Dict) -> *const Dict {
    // SAFETY: by the caller's promise.
    unsafe { &mut *dict }.forget_codes();
    dict
}

/// See [`Dict::rows_of_codes`]; null for none.
///
/// # Safety
/// `dict` is valid; there are `columns` dictionaries.
pub unsafe extern "C" fn dict_rows_of_codes(
    dict: *mut Dict,
    dictionaries: *const u64,
    columns: u64,
    combinations: u64,
    rows: u64,
) -> *mut u32 {
    // SAFETY: by the caller's promise.
    let (dict, dictionaries) = unsafe { (&mut *dict, std::slice::from_raw_parts(dictionaries, columns as usize)) };
    dict.rows_of_codes(dictionaries, combinations, rows).unwrap_or(std::ptr::null_mut())
}

/// Memory that lives as long as the dictionary, or null.
///
/// # Safety
/// `run` and `dict` are valid; `align` is a power of two up to 16.
pub unsafe extern "C" fn dict_alloc(run: *mut Run, dict: *mut Dict, bytes: u64, align: u64) -> *mut u8 {
    // SAFETY: by the caller's promise.
    let memory = unsafe { (*dict).arena().alloc(bytes as usize, align as usize) };
    // SAFETY: by the caller's promise.
    unsafe { or_null(run, memory) }
}

/// Makes the byte vector at `at`, which is empty or came here before, that of the view `low`, `high`. False after a
/// failure.
///
/// # Safety
/// `run` and `dict` are valid, `at` is in a row of the dictionary, and the view's bytes are alive.
pub unsafe extern "C" fn dict_keep(run: *mut Run, dict: *mut Dict, at: *mut StringView, low: u64, high: u64) -> bool {
    let view = StringView::of_words(low, high);
    // SAFETY: by the caller's promise; what came here before was copied into the table's arena by `replace`.
    let kept = unsafe { (*dict).arena().replace((*at).address(), view.as_slice()) };
    match kept {
        // SAFETY: by the caller's promise.
        Ok(bytes) => unsafe { at.write(view.moved_to(bytes)) },
        // SAFETY: by the caller's promise.
        Err(error) => fail(unsafe { &mut *run }, error.into()),
    }
    kept.is_ok()
}

/// Row 0 of a finished dictionary, or null.
///
/// # Safety
/// `run` and `dict` are valid.
pub unsafe extern "C" fn dict_rows(run: *mut Run, dict: *const Dict) -> *const u8 {
    // SAFETY: by the caller's promise.
    unsafe { or_null(run, (*dict).rows().map(<*const u8>::cast_mut)) }
}

/// A new groupbuilder, or null. `integer` is the size of integer keys, negative if they are signed; 0 for other keys.
///
/// # Safety
/// `run` is valid and owns `region`; there are `columns` sizes.
pub unsafe extern "C" fn group_new(
    run: *mut Run,
    region: *mut Region,
    integer: i32,
    key_bytes: u32,
    key_align: u32,
    columns: u64,
    column_bytes: *const u32,
) -> *mut GroupBuilder {
    let key = match integer {
        0 => KeyKind::Other,
        size => KeyKind::Integer { bytes: size.unsigned_abs() as u8, signed: size < 0 },
    };
    let column_bytes = match columns {
        0 => Box::default(),
        // SAFETY: by the caller's promise.
        count => unsafe { std::slice::from_raw_parts(column_bytes, count as usize) }.into(),
    };
    // SAFETY: by the caller's promise.
    unsafe {
        let memory = (*run).context().memory().clone();
        (*run).place(region, GroupBuilder::new(GroupLayout { key, key_bytes, key_align, column_bytes }, &memory))
    }
}

/// Makes room for another row.
///
/// # Safety
/// `run` and `builder` are valid.
pub unsafe extern "C" fn group_grow(run: *mut Run, builder: *mut GroupBuilder) -> bool {
    // SAFETY: by the caller's promise.
    unsafe { (*builder).grow().map_err(|error| fail(&mut *run, error.into())).is_ok() }
}

/// Memory that lives as long as the builder and its dictionary, or null.
///
/// # Safety
/// `run` and `builder` are valid; `align` is a power of two up to 16.
pub unsafe extern "C" fn group_alloc(run: *mut Run, builder: *mut GroupBuilder, bytes: u64, align: u64) -> *mut u8 {
    // SAFETY: by the caller's promise.
    let memory = unsafe { (*builder).arena().alloc(bytes as usize, align as usize) };
    // SAFETY: by the caller's promise.
    unsafe { or_null(run, memory) }
}

/// Appends the rows of another builder, which is empty afterwards.
///
/// # Safety
/// The builders are valid, different, and of one layout.
pub unsafe extern "C" fn group_combine(builder: *mut GroupBuilder, other: *mut GroupBuilder) {
    // SAFETY: by the caller's promise.
    let (builder, other) = unsafe { (&mut *builder, &mut *other) };
    let empty = other.emptied();
    builder.combine(std::mem::replace(other, empty));
}

/// The dictionary of all rows, or null. The builder is gone.
///
/// # Safety
/// `run` is valid and owns `region` and `builder`, which is not used again; the functions are right for its keys.
pub unsafe extern "C" fn group_finish(
    run: *mut Run,
    region: *mut Region,
    builder: *mut GroupBuilder,
    hash: *const u8,
    equal: *const u8,
) -> *const Dict {
    // SAFETY: by the caller's promise the addresses are those of functions of these types.
    let functions = unsafe {
        KeyFunctions {
            hash: std::mem::transmute::<*const u8, HashKeys>(hash),
            equal: std::mem::transmute::<*const u8, EqualKeys>(equal),
        }
    };
    // SAFETY: by the caller's promise.
    unsafe {
        let builder = (*run).take(builder);
        let threads = (*run).threads().filter(|_| builder.is_worth_sharing()).cloned();
        match threads::with(threads, |count, work_on| builder.finish(functions, count, work_on)) {
            Ok(dict) => (*run).place(region, dict),
            Err(error) => {
                fail(&mut *run, error);
                std::ptr::null()
            }
        }
    }
}

/// # Safety
/// `run` is valid.
pub(crate) unsafe fn or_null(run: *mut Run, memory: Result<*mut u8, OutOfMemory>) -> *mut u8 {
    memory.unwrap_or_else(|error| {
        // SAFETY: by the caller's promise.
        fail(unsafe { &mut *run }, error.into());
        std::ptr::null_mut()
    })
}
