//! Chunks of a stream: columns as the host has them, with the layouts that compiled code reads in place.

use std::marker::PhantomData;
use std::sync::Arc;

use weld_core::ty::{ScalarKind, Type};
use weld_runtime::{ColumnAbi, StringView};

use crate::value::{ColumnView, Native};

/// How a column's values are stored.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Layout {
    /// One value of the kind after the other; widened to the Weld type on load.
    Fixed(ScalarKind),
    /// One bit a value, least significant first.
    Bits,
    /// 32-bit offsets into bytes.
    Utf8,
    /// 64-bit offsets into bytes.
    LargeUtf8,
    /// Arrow's views: length and bytes, or length, prefix, buffer index and offset.
    Utf8View,
    /// Lists of scalars: offsets of 32 or 64 bits, in units of `unit` values (more than one where the elements are
    /// lists of a fixed size), into values that are no `bool`s.
    List { offsets: ScalarKind, unit: u64, items: ScalarKind },
    /// Lists of `size` scalars each, one after the other.
    FixedList { size: u64, items: ScalarKind },
    /// Codes (8 to 64 bits, of either sign) that index values of another layout. Codes must be in range.
    Dictionary { codes: ScalarKind, values: Box<Layout> },
}

/// A column's layout and whether it has a validity bitmap.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ColumnLayout {
    pub layout: Layout,
    pub validity: bool,
}

impl ColumnLayout {
    pub fn fixed(kind: ScalarKind) -> ColumnLayout {
        ColumnLayout { layout: Layout::Fixed(kind), validity: false }
    }
}

/// A column of a chunk.
#[derive(Clone, Debug)]
pub struct Column<'a> {
    pub(crate) layout: ColumnLayout,
    pub(crate) abi: ColumnAbi,
    /// Keeps alive what `abi.dictionary` points to.
    _values: Option<Arc<Column<'a>>>,
    data: PhantomData<&'a [u8]>,
}

// SAFETY: a column borrows plain memory that is only read.
unsafe impl Send for Column<'_> {}
// SAFETY: as above.
unsafe impl Sync for Column<'_> {}

impl<'a> Column<'a> {
    /// A column of any layout. `abi.dictionary` is ignored: see [`Column::dictionary`].
    ///
    /// # Safety
    /// The fields that the layout uses (see `docs/abi.md`) point to memory that is valid for the chunk's rows, and
    /// constant, for `'a`.
    pub unsafe fn from_raw(layout: Layout, abi: ColumnAbi) -> Column<'a> {
        let layout = ColumnLayout { layout, validity: !abi.validity.is_null() };
        Column { layout, abi: ColumnAbi { dictionary: std::ptr::null(), ..abi }, _values: None, data: PhantomData }
    }

    /// A dictionary-encoded column: codes with validity as in `abi`, and the values that they index.
    ///
    /// # Safety
    /// As for [`Column::from_raw`]; every code of a valid row is within the values, which have no nulls (fold nulls of
    /// the values into the codes' validity).
    pub unsafe fn dictionary(codes: ScalarKind, abi: ColumnAbi, values: Column<'a>) -> Column<'a> {
        let layout = Layout::Dictionary { codes, values: Box::new(values.layout.layout.clone()) };
        let layout = ColumnLayout { layout, validity: !abi.validity.is_null() };
        let values = Arc::new(values);
        let abi = ColumnAbi { dictionary: &values.abi, ..abi };
        Column { layout, abi, _values: Some(values), data: PhantomData }
    }

    /// Fixed-width values without nulls.
    pub fn values<T: Native>(values: &'a [T]) -> Column<'a> {
        let abi = ColumnAbi { values: values.as_ptr().cast(), ..ColumnAbi::EMPTY };
        Column { layout: ColumnLayout::fixed(T::KIND), abi, _values: None, data: PhantomData }
    }

    /// Fixed-width values, and a bitmap of which of them are there.
    ///
    /// # Panics
    /// If the bitmap is shorter than the values.
    pub fn nullable<T: Native>(values: &'a [T], validity: &'a [u8]) -> Column<'a> {
        assert!(validity.len() * 8 >= values.len(), "the bitmap covers the values");
        let mut column = Column::values(values);
        column.abi.validity = validity.as_ptr();
        column.layout.validity = true;
        column
    }

    /// A column of a vector; `None` if it is neither of scalars nor of strings.
    pub fn of(view: &ColumnView<'a>) -> Option<Column<'a>> {
        let layout = match view.ty() {
            Type::Scalar(kind) => Layout::Fixed(*kind),
            ty if ty.is_bytes() => Layout::Utf8View,
            _ => return None,
        };
        let abi = ColumnAbi { values: view.data(), ..ColumnAbi::EMPTY };
        Some(Column { layout: ColumnLayout { layout, validity: false }, abi, _values: None, data: PhantomData })
    }

    /// Strings as views, whose long ones point straight to their bytes: what Weld itself makes, and the layout
    /// `Fixed` of strings.
    ///
    /// # Safety
    /// The bytes that the views point to are alive for `'a`.
    pub unsafe fn views(values: &'a [StringView]) -> Column<'a> {
        let abi = ColumnAbi { values: values.as_ptr().cast(), ..ColumnAbi::EMPTY };
        // A view without buffers is told from Arrow's by the null `buffers`; both decode by the layout `Utf8View`.
        let layout = ColumnLayout { layout: Layout::Utf8View, validity: false };
        Column { layout, abi, _values: None, data: PhantomData }
    }

    pub fn layout(&self) -> &ColumnLayout {
        &self.layout
    }
}

/// Consecutive rows of a stream: a column for each field of its element struct (one if the element is no struct).
#[derive(Clone, Debug)]
pub struct Chunk<'a> {
    pub rows: usize,
    pub columns: Vec<Column<'a>>,
}

impl<'a> Chunk<'a> {
    /// Each column has a value for each of the `rows`.
    pub fn new(rows: usize, columns: Vec<Column<'a>>) -> Chunk<'a> {
        Chunk { rows, columns }
    }

    /// Those of the columns, in order: code is compiled for each combination.
    pub fn layouts(&self) -> Vec<ColumnLayout> {
        self.columns.iter().map(|column| column.layout.clone()).collect()
    }
}
