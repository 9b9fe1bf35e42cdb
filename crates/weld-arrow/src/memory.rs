//! The memory of vectors as Arrow's buffers, shared where it is aligned as Arrow wants it.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow::alloc::Allocation;
use arrow::array::{ArrayDataBuilder, ArrayRef, make_array};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::DataType;
use weld_codegen::{ColumnView, Value};
use weld_runtime::StringView;

use crate::Result;

/// A vector that is a smaller part of what it keeps alive is copied: who keeps a query's few rows must not keep its
/// tables.
const KEPT_MAX: usize = 8;

/// The vector as the owner of Arrow buffers.
#[derive(Debug)]
pub(crate) struct Owned {
    pub(crate) value: Value,
    /// Whether buffers have copies.
    is_copied: bool,
}

impl Owned {
    pub(crate) fn new(value: Value) -> Arc<Owned> {
        let bytes = |view: &ColumnView<'_>| view.rows() * width(view).unwrap_or(size_of::<StringView>());
        let bytes: usize = value.columns().iter().map(bytes).sum();
        let is_copied = value.kept_bytes() / KEPT_MAX > bytes;
        Arc::new(Owned { value, is_copied })
    }
}

// Vectors are immutable: a panic elsewhere cannot leave one half changed.
impl std::panic::RefUnwindSafe for Owned {}
impl std::panic::UnwindSafe for Owned {}

/// Bytes of a scalar or a view; `None` for other columns.
fn width(view: &ColumnView<'_>) -> Option<usize> {
    let bytes_each = || view.ty().is_bytes().then_some(size_of::<StringView>());
    view.ty().as_scalar().map(|kind| kind.bytes()).or_else(bytes_each)
}

/// The bytes of a column of scalars or views; `None` if it is of something else.
pub(crate) fn bytes_of<'a>(view: &ColumnView<'a>) -> Option<&'a [u8]> {
    let width = width(view)?;
    if view.rows() == 0 {
        return Some(&[]);
    }
    // SAFETY: the column holds `rows` values of that width, which the vector's owner keeps alive and constant.
    Some(unsafe { std::slice::from_raw_parts(view.data(), view.rows() * width) })
}

/// These rows of a column of scalars or views as a buffer that shares the vector's memory, or has a copy if that is not
/// aligned or a small part of what the vector keeps; `None` if the column has none, or not these rows.
///
/// # Safety
///
/// The column is one of `owner`.
pub(crate) unsafe fn shared(owner: &Arc<Owned>, view: &ColumnView<'_>, rows: Range<usize>) -> Option<Buffer> {
    let width = width(view)?;
    let bytes = bytes_of(view)?.get(rows.start * width..rows.end * width)?;
    // Arrow wants `i128` aligned to sixteen bytes, Weld's is aligned to eight.
    if bytes.is_empty() || owner.is_copied || !bytes.as_ptr().addr().is_multiple_of(width.min(align_of::<i128>())) {
        return Some(Buffer::from_slice_ref(bytes));
    }
    let owner: Arc<dyn Allocation> = owner.clone();
    // SAFETY: the memory is the vector's, which `owner` keeps alive and constant.
    Some(unsafe { Buffer::from_custom_allocation(NonNull::from(bytes).cast(), bytes.len(), owner) })
}

/// The array of a type whose rows are scalars, of which the buffer has as many as there are rows.
pub(crate) fn fixed_array(
    data_type: &DataType,
    rows: usize,
    values: Buffer,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let data = ArrayDataBuilder::new(data_type.clone()).len(rows).add_buffer(values).nulls(nulls);
    Ok(make_array(data.build()?))
}
