//! What a function has made, as an array: scalars, strings, lists, structs.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayDataBuilder, ArrayRef, FixedSizeListArray, GenericListArray, OffsetSizeTrait, StructArray, make_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::{ArrowNativeType, DataType, Field, FieldRef, Schema};
use datafusion::common::{DataFusionError, Result, internal_err};
use weld_codegen::{ColumnView, Native, Value};
use weld_core::ty::ScalarKind;

use crate::arrow::output::RowsReader;
use crate::lower::Slot;
use crate::lower::lists::{List, list};

/// The rows of a function's program: a column for each leaf, and one that tells which rows are there if any may not be.
pub(super) struct Rows<'a> {
    pub(super) value: &'a Value,
    pub(super) leaves: &'a [DataType],
    pub(super) nullable: bool,
    pub(super) strings: Vec<Buffer>,
}

impl Rows<'_> {
    /// The results as an array of the type.
    pub(super) fn array(&self, ty: &DataType, rows: usize) -> Result<ArrayRef> {
        let views = self.value.columns();
        if views.len() < self.leaves.len() || views.iter().any(|view| view.rows() != rows) {
            return internal_err!("a function gives another number of rows than it takes");
        }
        let nulls = match views.get(self.leaves.len()).filter(|_| self.nullable) {
            Some(view) => match view.as_slice::<bool>() {
                Some(valid) => Some(NullBuffer::new(BooleanBuffer::collect_bool(rows, |row| valid[row]))),
                None => return internal_err!("a validity column is no bool"),
            },
            None => None,
        };
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        let mut next = 0;
        let whole = self.part(ty, &views, rows, nulls.as_ref(), &mut next)?;
        let Some(nulls) = nulls else { return Ok(whole) };
        let data = whole.to_data().into_builder().nulls(Some(nulls));
        Ok(make_array(data.build().map_err(DataFusionError::from)?))
    }

    /// The array of a type from the next leaves.
    fn part(
        &self,
        ty: &DataType,
        views: &[ColumnView<'_>],
        rows: usize,
        nulls: Option<&NullBuffer>,
        next: &mut usize,
    ) -> Result<ArrayRef> {
        if let DataType::Struct(fields) = ty {
            let parts = fields.iter().map(|field| self.part(field.data_type(), views, rows, nulls, next));
            let parts = parts.collect::<Result<Vec<_>>>()?;
            return Ok(Arc::new(StructArray::try_new(fields.clone(), parts, None)?));
        }
        let leaf = *next;
        *next += 1;
        if let Some(list) = list(ty) {
            return lists(&views[leaf], ty, &list, nulls);
        }
        let schema = Arc::new(Schema::new(vec![Field::new("leaf", ty.clone(), false)]));
        let slots = [Slot { field: leaf, nullable: false }];
        let mut reader = RowsReader::new(self.value.clone(), schema, &slots, self.strings.clone())?;
        match reader.next_batch(rows)? {
            Some(batch) => Ok(Arc::clone(batch.column(0))),
            None => internal_err!("a function gives no rows"),
        }
    }
}

/// The lists of a column, their values copied together.
fn lists(view: &ColumnView<'_>, ty: &DataType, list: &List, nulls: Option<&NullBuffer>) -> Result<ArrayRef> {
    let filled = list.size.map(|size| (size * list.unit) as usize);
    let gathered = match list.kind {
        ScalarKind::I16 => gather::<i16>(view, filled, nulls),
        ScalarKind::I32 => gather::<i32>(view, filled, nulls),
        ScalarKind::I64 => gather::<i64>(view, filled, nulls),
        ScalarKind::U16 => gather::<u16>(view, filled, nulls),
        ScalarKind::U32 => gather::<u32>(view, filled, nulls),
        ScalarKind::U64 => gather::<u64>(view, filled, nulls),
        ScalarKind::I128 => gather::<i128>(view, filled, nulls),
        ScalarKind::F32 => gather::<f32>(view, filled, nulls),
        ScalarKind::F64 => gather::<f64>(view, filled, nulls),
        ScalarKind::Bool | ScalarKind::I8 | ScalarKind::U8 => None,
    };
    let Some((values, lengths)) = gathered else { return internal_err!("a column of {} is no list", view.ty()) };
    let total = lengths.iter().sum();
    let data = ArrayDataBuilder::new(list.items.clone()).len(total).add_buffer(values);
    let leaf = make_array(data.build().map_err(DataFusionError::from)?);
    let unit = list.unit.max(1) as usize;
    let lengths = || lengths.iter().map(|length| length / unit);
    match ty {
        DataType::List(item) => offsets::<i32>(item, lengths(), leaf),
        DataType::LargeList(item) => offsets::<i64>(item, lengths(), leaf),
        _ => fixed(ty, leaf),
    }
}

fn offsets<O: OffsetSizeTrait>(
    item: &FieldRef,
    lengths: impl Iterator<Item = usize>,
    leaf: ArrayRef,
) -> Result<ArrayRef> {
    let values = fixed(item.data_type(), leaf)?;
    let offsets = OffsetBuffer::<O>::from_lengths(lengths);
    Ok(Arc::new(GenericListArray::<O>::try_new(Arc::clone(item), offsets, values, None)?))
}

/// The scalars as lists of fixed sizes, if the type is one.
fn fixed(ty: &DataType, leaf: ArrayRef) -> Result<ArrayRef> {
    let DataType::FixedSizeList(item, size) = ty else { return Ok(leaf) };
    let values = fixed(item.data_type(), leaf)?;
    Ok(Arc::new(FixedSizeListArray::try_new(Arc::clone(item), *size, values, None)?))
}

/// The values of all rows and how many each has; rows that are not there have as many zeros as `filled` says.
fn gather<T: Native + ArrowNativeType>(
    view: &ColumnView<'_>,
    filled: Option<usize>,
    nulls: Option<&NullBuffer>,
) -> Option<(Buffer, Vec<usize>)> {
    let mut values: Vec<T> = Vec::new();
    let mut lengths = Vec::with_capacity(view.rows());
    for (row, columns) in view.as_vectors()?.enumerate() {
        let before = values.len();
        match nulls.is_some_and(|nulls| nulls.is_null(row)) {
            true => values.resize(before + filled.unwrap_or(0), T::default()),
            false => values.extend_from_slice(columns.first()?.as_slice::<T>()?),
        }
        lengths.push(values.len() - before);
    }
    Some((Buffer::from_vec(values), lengths))
}
