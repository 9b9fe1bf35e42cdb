//! What a function has made, as an array: scalars, strings, lists, structs.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StructArray, make_array};
use arrow::buffer::{Buffer, MutableBuffer, NullBuffer};
use arrow::datatypes::{DataType, Field, Schema};
use weld_codegen::{ColumnView, Value};

use crate::lists::{lists_of, lists_of_fixed};
use crate::memory::{bytes_of, fixed_array};
use crate::output::{RowsReader, Slot, packed};
use crate::types::{List, list};
use crate::{Result, defect};

/// The rows of a function's program: a column for each leaf, and one that tells which rows are there if any may not be.
#[derive(Debug)]
pub struct Results<'a> {
    /// The vector of rows.
    pub value: &'a Value,
    /// The types of the result's parts that are no structs, in order: the fields of a row.
    pub leaves: &'a [DataType],
    /// Whether a field follows that says whether the row is there.
    pub nullable: bool,
    /// What long strings may point into.
    pub strings: Vec<Buffer>,
}

impl Results<'_> {
    /// The results as an array of the type, of which `leaves` are the parts.
    ///
    /// Fails if there are not so many rows, or if a column has another Weld type than its leaf.
    pub fn array(&self, ty: &DataType, rows: usize) -> Result<ArrayRef> {
        let views = self.value.columns();
        if views.len() < self.leaves.len() || views.iter().any(|view| view.rows() != rows) {
            return Err(defect("a function gives another number of rows than it takes"));
        }
        let nulls = match views.get(self.leaves.len()).filter(|_| self.nullable) {
            Some(view) => match view.as_slice::<bool>() {
                Some(valid) => Some(NullBuffer::new(packed(&valid[..rows]))),
                None => return Err(defect("a validity column is no bool")),
            },
            None => None,
        };
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        let mut next = 0;
        let whole = self.part(ty, &views, rows, nulls.as_ref(), &mut next)?;
        let Some(nulls) = nulls else { return Ok(whole) };
        let data = whole.to_data().into_builder().nulls(Some(nulls));
        Ok(make_array(data.build()?))
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
            None => Err(defect("a function gives no rows")),
        }
    }
}

/// The lists of a column, their values copied together.
fn lists(view: &ColumnView<'_>, ty: &DataType, list: &List, nulls: Option<&NullBuffer>) -> Result<ArrayRef> {
    let Some((values, lengths)) = gather(view, list, nulls) else {
        return Err(defect(format_args!("a column of {} is no list", view.ty())));
    };
    let leaf = fixed_array(&list.items, lengths.iter().sum(), values, None)?;
    let unit = list.unit.max(1) as usize;
    let lengths = lengths.iter().map(|length| length / unit);
    match ty {
        DataType::List(item) => lists_of::<i32>(item, lengths, leaf, None),
        DataType::LargeList(item) => lists_of::<i64>(item, lengths, leaf, None),
        _ => lists_of_fixed(ty, leaf),
    }
}

/// The scalars of all rows and how many each has; rows of lists of a fixed size that are not there have zeros.
fn gather(view: &ColumnView<'_>, list: &List, nulls: Option<&NullBuffer>) -> Option<(Buffer, Vec<usize>)> {
    let width = list.kind.bytes();
    let filled = list.size.map_or(0, |size| (size * list.unit) as usize * width);
    let mut values = MutableBuffer::new(0);
    let mut lengths = Vec::with_capacity(view.rows());
    for (row, columns) in view.as_vectors()?.enumerate() {
        let before = values.len();
        match nulls.is_some_and(|nulls| nulls.is_null(row)) {
            true => values.extend_zeros(filled),
            false => {
                let column = columns.first().filter(|column| column.ty().as_scalar() == Some(list.kind))?;
                values.extend_from_slice(bytes_of(column)?);
            }
        }
        lengths.push((values.len() - before) / width);
    }
    Some((values.into(), lengths))
}
