//! Arrays of text that refer to one buffer.
//!
//! A view names a buffer of its array, and arrays that are put together have the buffers of all of them. Parts of one
//! array refer to all of its buffers, so results of window partitions, one part each, would have as many buffers as
//! there are partitions times buffers, and whoever puts batches of them together more still.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, GenericByteViewArray, GenericListArray, OffsetSizeTrait};
use arrow::datatypes::{BinaryViewType, ByteViewType, DataType, StringViewType};

/// The same values; text, and that of lists, in a buffer of their own where it was in several.
pub(crate) fn compacted(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8View => views::<StringViewType>(array),
        DataType::BinaryView => views::<BinaryViewType>(array),
        DataType::List(_) => list::<i32>(array),
        DataType::LargeList(_) => list::<i64>(array),
        _ => Arc::clone(array),
    }
}

fn views<T: ByteViewType>(array: &ArrayRef) -> ArrayRef {
    let views: &GenericByteViewArray<T> = array.as_byte_view();
    if views.data_buffers().len() > 1 { Arc::new(views.gc()) } else { Arc::clone(array) }
}

fn list<O: OffsetSizeTrait>(array: &ArrayRef) -> ArrayRef {
    let list: &GenericListArray<O> = array.as_list();
    let (DataType::List(field) | DataType::LargeList(field)) = list.data_type() else { return Arc::clone(array) };
    let values = compacted(list.values());
    if Arc::ptr_eq(&values, list.values()) {
        return Arc::clone(array);
    }
    Arc::new(GenericListArray::<O>::new(Arc::clone(field), list.offsets().clone(), values, list.nulls().cloned()))
}
