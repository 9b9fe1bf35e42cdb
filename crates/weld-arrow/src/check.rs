//! What compiled code takes for granted of arrays: offsets, views and codes stay inside what they point into. And what
//! Arrow promises of them beside that: text is UTF-8, views have their text's prefix.
//!
//! Arrow's safe constructors give no other arrays. Those that another library hands over through Arrow's C interface
//! are taken as they are.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, ByteView, GenericByteArray, GenericByteViewArray, OffsetSizeTrait,
    RecordBatch,
};
use arrow::buffer::Buffer;
use arrow::datatypes::{self as types, ArrowNativeType, ByteArrayType, ByteViewType, DataType};
use arrow::error::ArrowError;
use weld_runtime::StringView;

/// Shorter texts are in their views.
const INLINE_MAX: u32 = StringView::INLINE_MAX as u32;

/// What is checked of arrays.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Depth {
    /// Arrays are trusted.
    Nothing,
    /// That no read leaves the buffers.
    Ranges,
    /// That, and what is in them.
    Text,
}

/// Fails at the first column of which an array is broken, as far as `depth` looks.
pub fn check_batch(batch: &RecordBatch, depth: Depth) -> Result<(), ArrowError> {
    if depth == Depth::Nothing {
        return Ok(());
    }
    for (column, field) in batch.columns().iter().zip(batch.schema_ref().fields()) {
        check_array(column, depth)
            .map_err(|what| ArrowError::InvalidArgumentError(format!("column '{}' is broken: {what}", field.name())))?;
    }
    Ok(())
}

/// What is wrong with an array, if anything is.
fn check_array(array: &ArrayRef, depth: Depth) -> Result<(), String> {
    // The lengths of their buffers are checked where an array is made of them.
    if array.data_type().is_primitive() || checked_before(array, depth) {
        return Ok(());
    }
    match array.data_type() {
        DataType::Utf8 => check_strings(array.as_string::<i32>(), depth),
        DataType::LargeUtf8 => check_strings(array.as_string::<i64>(), depth),
        DataType::Utf8View => check_views(array.as_string_view(), depth),
        DataType::Binary => check_strings(array.as_binary::<i32>(), depth.min(Depth::Ranges)),
        DataType::LargeBinary => check_strings(array.as_binary::<i64>(), depth.min(Depth::Ranges)),
        DataType::BinaryView => check_views(array.as_binary_view(), depth.min(Depth::Ranges)),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            check_array(dictionary.values(), depth)?;
            check_codes(dictionary.keys(), dictionary.values().len())
        }
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => check_list(array.as_ref()),
        _ => return Ok(()),
    }?;
    CHECKED.lock().unwrap_or_else(PoisonError::into_inner).note(array, depth);
    Ok(())
}

fn checked_before(array: &ArrayRef, depth: Depth) -> bool {
    CHECKED.lock().unwrap_or_else(PoisonError::into_inner).has(array, depth)
}

/// Arrays that were found to be right, by address: those of tables in memory come with each query, dictionaries with
/// each batch. As long as there is a `Weak` to an array, no other array can have its address.
#[derive(Default)]
struct Checked {
    arrays: HashMap<usize, (Weak<dyn Array>, Depth)>,
    /// At this count, what has been dropped since is forgotten.
    review_at: usize,
}

static CHECKED: LazyLock<Mutex<Checked>> = LazyLock::new(Mutex::default);

impl Checked {
    /// At least so many are kept.
    const COUNT_MIN: usize = 1 << 10;

    fn has(&self, array: &ArrayRef, depth: Depth) -> bool {
        self.arrays.get(&Arc::as_ptr(array).addr()).is_some_and(|(_, known)| *known >= depth)
    }

    fn note(&mut self, array: &ArrayRef, depth: Depth) {
        // An array that only this batch has will not come again.
        if Arc::strong_count(array) == 1 {
            return;
        }
        if self.arrays.len() >= self.review_at {
            self.arrays.retain(|_, (array, _)| array.strong_count() > 0);
            self.review_at = Self::COUNT_MIN.max(2 * self.arrays.len());
        }
        self.arrays.insert(Arc::as_ptr(array).addr(), (Arc::downgrade(array), depth));
    }
}

fn check_strings<T: ByteArrayType>(array: &GenericByteArray<T>, depth: Depth) -> Result<(), String> {
    let (offsets, bytes) = (array.value_offsets(), array.values().as_slice());
    let (first, last) = check_offsets(offsets, bytes.len(), "bytes")?;
    if depth != Depth::Text || bytes[first..last].is_ascii() {
        return Ok(());
    }
    let row = |at: usize| &bytes[offsets[at].as_usize()..offsets[at + 1].as_usize()];
    match (0..array.len()).find(|at| array.is_valid(*at) && std::str::from_utf8(row(*at)).is_err()) {
        Some(at) => Err(format!("row {at} is not UTF-8")),
        None => Ok(()),
    }
}

/// The first and the last of offsets into so many values.
fn check_offsets<O: OffsetSizeTrait>(offsets: &[O], values: usize, what: &str) -> Result<(usize, usize), String> {
    let within = |at: O| at.to_isize().and_then(|at| usize::try_from(at).ok()).filter(|at| *at <= values);
    let (Some(first), Some(last)) = (within(offsets[0]), within(offsets[offsets.len() - 1])) else {
        return Err(format!("its offsets leave its {values} {what}"));
    };
    // Without an early end this takes many offsets at a time.
    let backwards = |pair: &[O]| pair[0] > pair[1];
    if offsets.windows(2).fold(false, |found, pair| found | backwards(pair)) {
        let at = offsets.windows(2).position(backwards).unwrap_or(0);
        return Err(format!("the offsets of row {at} run backwards"));
    }
    Ok((first, last))
}

/// Lists, and those inside of them.
fn check_list(array: &dyn Array) -> Result<(), String> {
    let values = match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            check_offsets(list.value_offsets(), list.values().len(), "values")?;
            list.values()
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            check_offsets(list.value_offsets(), list.values().len(), "values")?;
            list.values()
        }
        DataType::FixedSizeList(_, size) => {
            let (values, size) = (array.as_fixed_size_list().values(), usize::try_from(*size).unwrap_or(0));
            if array.len().checked_mul(size).is_none_or(|wanted| wanted > values.len()) {
                return Err(format!("{} lists of {size} values have {}", array.len(), values.len()));
            }
            values
        }
        _ => return Ok(()),
    };
    check_list(values.as_ref())
}

fn check_views<T: ByteViewType + ?Sized>(array: &GenericByteViewArray<T>, depth: Depth) -> Result<(), String> {
    if depth != Depth::Text && stay_inside(array.views(), array.data_buffers()) {
        return Ok(());
    }
    for (at, view) in array.views().iter().enumerate().filter(|(at, _)| array.is_valid(*at)) {
        let broken = |what: &str| Err(format!("the view of row {at} {what}"));
        let stored = view.to_le_bytes();
        let len = *view as u32;
        let bytes = if len <= INLINE_MAX {
            let (text, rest) = stored[4..].split_at(len as usize);
            if depth == Depth::Text && rest.iter().any(|byte| *byte != 0) {
                return broken("has bytes behind its text");
            }
            text
        } else {
            let view = ByteView::from(*view);
            let start = view.offset as usize;
            let buffer = array.data_buffers().get(view.buffer_index as usize);
            let Some(bytes) = buffer.and_then(|buffer| buffer.get(start..start.checked_add(len as usize)?)) else {
                return broken("leaves its buffers");
            };
            if depth == Depth::Text && bytes[..4] != stored[4..8] {
                return broken("has another prefix than its text");
            }
            bytes
        };
        if depth == Depth::Text && !bytes.is_ascii() && std::str::from_utf8(bytes).is_err() {
            return Err(format!("row {at} is not UTF-8"));
        }
    }
    Ok(())
}

/// Whether no view leaves its buffer, those of absent rows either. Without an early end this takes many views at a
/// time.
fn stay_inside(views: &[u128], buffers: &[Buffer]) -> bool {
    let lens: Vec<u64> = buffers.iter().map(|buffer| buffer.len() as u64).collect();
    let leaves = |view: ByteView| {
        let within = lens.get(view.buffer_index as usize).copied().unwrap_or(0);
        (view.length > INLINE_MAX) & (u64::from(view.offset) + u64::from(view.length) > within)
    };
    !views.iter().fold(false, |found, view| found | leaves(ByteView::from(*view)))
}

fn check_codes(codes: &dyn Array, entries: usize) -> Result<(), String> {
    match codes.data_type() {
        DataType::Int8 => within::<types::Int8Type>(codes, entries),
        DataType::Int16 => within::<types::Int16Type>(codes, entries),
        DataType::Int32 => within::<types::Int32Type>(codes, entries),
        DataType::Int64 => within::<types::Int64Type>(codes, entries),
        DataType::UInt8 => within::<types::UInt8Type>(codes, entries),
        DataType::UInt16 => within::<types::UInt16Type>(codes, entries),
        DataType::UInt32 => within::<types::UInt32Type>(codes, entries),
        DataType::UInt64 => within::<types::UInt64Type>(codes, entries),
        other => Err(format!("its codes are {other}")),
    }
}

fn within<T: ArrowPrimitiveType<Native: Into<i128>>>(codes: &dyn Array, entries: usize) -> Result<(), String> {
    let codes = codes.as_primitive::<T>();
    let range = 0..entries as i128;
    let is_out = |code: T::Native| !range.contains(&code.into());
    if !codes.values().iter().fold(false, |found, code| found | is_out(*code)) {
        return Ok(());
    }
    match (0..codes.len()).find(|at| codes.is_valid(*at) && is_out(codes.value(*at))) {
        Some(at) => Err(format!("row {at} has the code {:?} of {entries}", codes.value(at))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{DictionaryArray, Int8Array, StringArray, StringViewArray};
    use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
    use arrow::datatypes::Int8Type;

    fn check(array: &dyn Array) -> Result<(), String> {
        check_array(&array.slice(0, array.len()), Depth::Text)
    }

    #[test]
    fn sound_arrays_pass() {
        let long = "a string of more than twelve bytes, ü";
        let texts = vec![Some("a"), None, Some(long), Some("twelve bytes"), Some("")];
        let (strings, views) = (StringArray::from(texts.clone()), StringViewArray::from(texts));
        let codes: DictionaryArray<Int8Type> = [Some("x"), None, Some("y")].into_iter().collect();
        for array in
            [&strings as &dyn Array, &strings.slice(1, 2), &views, &views.slice(2, 3), &codes, &codes.slice(1, 1)]
        {
            assert_eq!(check(array), Ok(()));
        }
        assert_eq!(check(&StringArray::new_null(0)), Ok(()));
        // SAFETY: what lies under a null is read by nobody.
        let garbage = unsafe {
            StringViewArray::new_unchecked(ScalarBuffer::from(vec![u128::MAX]), vec![], Some(NullBuffer::new_null(1)))
        };
        assert_eq!(check(&garbage), Ok(()));
        assert_eq!(check_array(&(Arc::new(garbage) as ArrayRef), Depth::Ranges), Ok(()));
    }

    #[test]
    fn broken_arrays_do_not() {
        let bytes = || Buffer::from_slice_ref("a string of more than twelve bytes");
        // SAFETY: only `check` looks at these arrays, which trusts nothing but the buffers' lengths.
        let (offsets, backwards, split, codes, views) = unsafe {
            let strings = |offsets: Vec<i32>, bytes| {
                let offsets = OffsetBuffer::new_unchecked(ScalarBuffer::from(offsets));
                StringArray::new_unchecked(offsets, bytes, None)
            };
            let view = ByteView { length: 20, prefix: u32::from_le_bytes(*b"a st"), buffer_index: 0, offset: 30 };
            let views = |view: ByteView| {
                StringViewArray::new_unchecked(ScalarBuffer::from(vec![view.as_u128()]), vec![bytes()], None)
            };
            (
                strings(vec![0, 3, 99], bytes()),
                strings(vec![0, 9, 4, 12], bytes()),
                strings(vec![0, 1, 2], Buffer::from_slice_ref("ü")),
                DictionaryArray::<Int8Type>::new_unchecked(
                    Int8Array::from(vec![Some(0), None, Some(-1)]),
                    Arc::new(StringArray::from(vec!["x"])),
                ),
                [
                    views(view),
                    views(ByteView { buffer_index: 1, offset: 0, ..view }),
                    views(ByteView { offset: 2, ..view }),
                ],
            )
        };
        let broken = [&offsets as &dyn Array, &backwards, &split, &codes, &views[0], &views[1], &views[2]];
        for (array, what) in broken.into_iter().zip([
            "its offsets leave its 34 bytes",
            "the offsets of row 1 run backwards",
            "row 0 is not UTF-8",
            "row 2 has the code -1 of 1",
            "the view of row 0 leaves its buffers",
            "the view of row 0 leaves its buffers",
            "the view of row 0 has another prefix than its text",
        ]) {
            assert_eq!(check(array), Err(what.to_owned()));
            let of_text = what.contains("UTF-8") || what.contains("prefix");
            assert_eq!(check_array(&array.slice(0, array.len()), Depth::Ranges).is_ok(), of_text, "{what}");
        }
    }

    #[test]
    fn arrays_that_stay_are_checked_once() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
        check_array(&texts, Depth::Ranges).expect("they are sound");
        assert!(!checked_before(&texts, Depth::Ranges), "nobody else has them");
        let table = Arc::clone(&texts);
        check_array(&texts, Depth::Ranges).expect("they are sound");
        assert!(checked_before(&table, Depth::Ranges) && !checked_before(&table, Depth::Text));
        check_array(&texts, Depth::Text).expect("they are sound");
        assert!(checked_before(&table, Depth::Text) && checked_before(&table, Depth::Ranges));
        assert!(!checked_before(&table.slice(0, 2), Depth::Ranges), "another array");
    }

    #[test]
    fn what_was_dropped_is_forgotten() {
        let mut checked = Checked::default();
        for _ in 0..3 * Checked::COUNT_MIN {
            let array: ArrayRef = Arc::new(StringArray::new_null(1));
            let _other = Arc::clone(&array);
            checked.note(&array, Depth::Ranges);
        }
        assert!(checked.arrays.len() <= Checked::COUNT_MIN);
    }
}
