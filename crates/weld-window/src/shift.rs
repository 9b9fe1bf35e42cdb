//! `lag` and `lead`: the value so many rows before or after a row, in its window partition.
//!
//! Which row has the value is found for all partitions of a chunk, and the results are taken from the argument's array.

use arrow::array::{Array, ArrayRef, UInt64Array};
use arrow::compute::{interleave, take};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_window::lead_lag::{WindowShift, WindowShiftKind};
use datafusion::physical_expr::window::StandardWindowFunctionExpr;
use datafusion::physical_plan::windows::WindowUDFExpr;

use crate::chunk::{Chunk, Unit};
use crate::function::{Flags, Function, first_argument, literal, without_unused_entries};
use crate::value::NotNull;

/// The value of another row.
pub(crate) struct Shift {
    call: WindowUDFExpr,
    /// How many rows before its own the value of a row is; less than nothing is after it.
    offset: i64,
    /// What a row has for which there is no other one, of the results' type.
    default: ScalarValue,
    ignores_nulls: bool,
}

impl Shift {
    /// The error says why `call` cannot be evaluated here.
    pub(crate) fn of(call: &WindowUDFExpr, function: &WindowShift) -> Result<Shift, String> {
        let Some(Flags { ignores_nulls, is_reversed }) = Flags::of(call) else {
            return Err("unknown flags".to_owned());
        };
        let back = match function.kind() {
            WindowShiftKind::Lag => !is_reversed,
            WindowShiftKind::Lead => is_reversed,
        };
        let Some(rows) = rows(call) else { return Err("a distance that is no literal of an integer".to_owned()) };
        let offset = if back { rows } else { rows.wrapping_neg() };
        // DataFusion's operator for bounded memory asks its evaluator row by row, which gives other values for these
        // than the one for whole window partitions.
        if ignores_nulls && offset <= 0 {
            return Err("lead with IGNORE NULLS".to_owned());
        }
        let result = call.field().map_err(|error| error.strip_backtrace())?;
        let default = match call.args().get(2) {
            None => ScalarValue::Null,
            Some(default) => literal(default).ok_or("a default that is no literal")?.clone(),
        };
        let default = default.cast_to(result.data_type()).map_err(|error| error.strip_backtrace())?;
        if !default.is_null() && matches!(result.data_type(), DataType::RunEndEncoded(..)) {
            return Err("a default among runs".to_owned());
        }
        Ok(Shift { call: call.clone(), offset, default, ignores_nulls })
    }

    /// The row that has each row's value.
    fn rows(&self, chunk: &Chunk, values: &dyn Array) -> Vec<Option<usize>> {
        let mut sources = Vec::with_capacity(chunk.rows());
        let distance = usize::try_from(self.offset.unsigned_abs()).unwrap_or(usize::MAX);
        let not_null = values.nulls().filter(|nulls| self.ignores_nulls && nulls.null_count() > 0);
        let not_null = not_null.map(NotNull::of);
        for rows in &chunk.partitions {
            if let Some(not_null) = &not_null {
                sources.extend(rows.clone().map(|row| not_null.preceding(distance, rows.start..row)));
                continue;
            }
            let distance = distance.min(rows.len());
            let without = std::iter::repeat_n(None, distance);
            if self.offset > 0 {
                sources.extend(without.chain((rows.start..rows.end - distance).map(Some)));
            } else {
                sources.extend((rows.start + distance..rows.end).map(Some).chain(without));
            }
        }
        sources
    }
}

/// The distance of `call`, 1 if it names none. `None` if it is no literal of an integer; NULL is 0, as in DataFusion.
fn rows(call: &WindowUDFExpr) -> Option<i64> {
    let Some(distance) = call.args().get(1) else { return Some(1) };
    let distance = literal(distance)?;
    if distance.is_null() {
        return Some(0);
    }
    match distance.cast_to(&DataType::Int64) {
        Ok(ScalarValue::Int64(Some(rows))) if distance.data_type().is_integer() => Some(rows),
        _ => None,
    }
}

impl Function for Shift {
    fn unit(&self) -> Unit {
        Unit::Partition
    }

    fn needs_peers(&self) -> bool {
        false
    }

    fn evaluate(&mut self, chunk: &Chunk) -> Result<ArrayRef> {
        let values = first_argument(&self.call, chunk)?;
        if self.offset == 0 {
            return Ok(values);
        }
        let rows = self.rows(chunk, &values);
        if self.default.is_null() {
            let rows: UInt64Array = rows.into_iter().map(|row| row.map(|row| row as u64)).collect();
            return without_unused_entries(take(&values, &rows, None)?);
        }
        let default = self.default.to_array()?;
        let places: Vec<(usize, usize)> = rows.into_iter().map(|row| row.map_or((1, 0), |row| (0, row))).collect();
        without_unused_entries(interleave(&[values.as_ref(), default.as_ref()], &places)?)
    }
}
