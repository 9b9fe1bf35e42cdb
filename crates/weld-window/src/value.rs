//! `first_value`, `last_value`, `nth_value`: one of the values of each row's frame.
//!
//! A frame is a range of rows, so which of them has the value is found without a look at the frame's rows: the second
//! of 5..9 is row 6. With IGNORE NULLS the ranges are of rows that are not null, counted from the chunk's first one:
//!
//! ```text
//! values     a  -  -  b  -  c  -
//! before     0  1  1  1  2  2  3  3      rows before this one that are not null
//! not_null   0  3  5
//! last_value over 1..5: before is 1..2, the last of it 1, not_null[1] is row 3: b
//! ```
//! What is found are rows, and the results are taken from the argument's array.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, UInt64Array};
use arrow::buffer::NullBuffer;
use arrow::compute::take;
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::functions_window::nth_value::{NthValue, NthValueKind};
use datafusion::physical_plan::windows::WindowUDFExpr;
use datafusion::scalar::ScalarValue;

use crate::chunk::{Chunk, Unit};
use crate::frame::Frame;
use crate::function::{Flags, Function, first_argument, literal, without_unused_entries};

/// The value at a place of each row's frame.
pub(crate) struct ValueOfFrame {
    call: WindowUDFExpr,
    frame: Frame,
    place: Place,
    ignores_nulls: bool,
}

impl ValueOfFrame {
    /// `None` if it cannot be told which value `call` asks for.
    pub(crate) fn of(call: &WindowUDFExpr, frame: Frame) -> Option<ValueOfFrame> {
        let kind = call.fun().inner().downcast_ref::<NthValue>()?.kind();
        let Flags { ignores_nulls, is_reversed } = Flags::of(call)?;
        let place = match kind {
            NthValueKind::First => Place(1),
            NthValueKind::Last => Place(-1),
            NthValueKind::Nth => Place::of_literal(call)?.reversed_if(is_reversed)?,
        };
        Some(ValueOfFrame { call: call.clone(), frame, place, ignores_nulls })
    }
}

/// The first of a range's rows is 1, the last -1; none is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place(i64);

impl Place {
    /// That of `nth_value`, which must be a literal.
    fn of_literal(call: &WindowUDFExpr) -> Option<Place> {
        let literal = literal(call.args().get(1)?)?;
        if literal.is_null() {
            return Some(Place(0));
        }
        match literal.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(Some(place))) if literal.data_type().is_integer() => Some(Place(place)),
            _ => None,
        }
    }

    fn reversed_if(self, is_reversed: bool) -> Option<Place> {
        let reversed = self.0.checked_neg()?;
        Some(Place(if is_reversed { reversed } else { self.0 }))
    }

    fn in_range(self, range: Range<usize>) -> Option<usize> {
        let distance = usize::try_from(self.0.unsigned_abs()).ok()?;
        match self.0 {
            0 => None,
            1.. => range.start.checked_add(distance - 1).filter(|row| *row < range.end),
            _ => range.end.checked_sub(distance).filter(|row| *row >= range.start),
        }
    }
}

impl Function for ValueOfFrame {
    fn unit(&self) -> Unit {
        Unit::Partition
    }

    fn needs_peers(&self) -> bool {
        true
    }

    fn evaluate(&mut self, chunk: &Chunk) -> Result<ArrayRef> {
        let values = first_argument(&self.call, chunk)?;
        let frames = self.frame.of_rows(chunk)?.into_iter();
        let row_of = |row: Option<usize>| row.map(|row| row as u64);
        let rows: UInt64Array = match values.nulls().filter(|nulls| self.ignores_nulls && nulls.null_count() > 0) {
            None => frames.map(|frame| row_of(self.place.in_range(frame))).collect(),
            Some(nulls) => {
                let rows = NotNull::of(nulls);
                frames.map(|frame| row_of(rows.at(self.place, &frame))).collect()
            }
        };
        without_unused_entries(take(&values, &rows, None)?)
    }
}

/// The rows of a chunk that are not null.
pub(crate) struct NotNull {
    rows: Vec<usize>,
    /// How many of them are before each row, and before the chunk's end.
    before: Vec<usize>,
}

impl NotNull {
    pub(crate) fn of(nulls: &NullBuffer) -> NotNull {
        let mut rows = Vec::with_capacity(nulls.len() - nulls.null_count());
        let mut before = Vec::with_capacity(nulls.len() + 1);
        for (row, is_valid) in nulls.iter().enumerate() {
            before.push(rows.len());
            if is_valid {
                rows.push(row);
            }
        }
        before.push(rows.len());
        NotNull { rows, before }
    }

    /// The row that is so many such rows before the end of `rows`.
    pub(crate) fn preceding(&self, distance: usize, rows: Range<usize>) -> Option<usize> {
        let index = self.before[rows.end].checked_sub(distance)?;
        (index >= self.before[rows.start]).then(|| self.rows[index])
    }

    /// The row at a place among those of a frame.
    fn at(&self, place: Place, frame: &Range<usize>) -> Option<usize> {
        let index = place.in_range(self.before[frame.start]..self.before[frame.end])?;
        Some(self.rows[index])
    }
}
