//! A window expression of DataFusion's as a function of chunks, or why there is none.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, new_empty_array};
use arrow::compute::{can_cast_types, cast};
use arrow::datatypes::{DataType, Schema};
use arrow_select::dictionary::garbage_collect_any_dictionary;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::functions_window::cume_dist::CumeDist;
use datafusion::functions_window::lead_lag::WindowShift;
use datafusion::functions_window::nth_value::NthValue;
use datafusion::functions_window::ntile::Ntile;
use datafusion::functions_window::rank::Rank;
use datafusion::functions_window::row_number::RowNumber;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::window::{
    PlainAggregateWindowExpr, SlidingAggregateWindowExpr, StandardWindowExpr, StandardWindowFunctionExpr, WindowExpr,
};
use datafusion::physical_plan::windows::WindowUDFExpr;

use crate::aggregate;
use crate::chunk::{Chunk, Unit};
use crate::distribution::{Distribution, Tiles};
use crate::frame::Frame;
use crate::rank::{Numbering, Numbers};
use crate::shift::Shift;
use crate::value::ValueOfFrame;

/// A window function in use: one array a chunk, chunks in order.
pub(crate) trait Function: Send {
    /// What its chunks must have whole.
    fn unit(&self) -> Unit;

    /// Whether it reads the peer groups of its chunks.
    fn needs_peers(&self) -> bool;

    /// Its results for the rows of a chunk.
    fn evaluate(&mut self, chunk: &Chunk) -> Result<ArrayRef>;
}

/// The array of a chunk's results, which may be none.
pub(crate) fn array_of(results: Vec<ScalarValue>, data_type: &DataType) -> Result<ArrayRef> {
    if results.is_empty() {
        return Ok(new_empty_array(data_type));
    }
    match data_type {
        // DataFusion makes an entry of each result, equal ones too. Results of a chunk, which are those of many window
        // partitions, may be more than the keys can count.
        DataType::Dictionary(_, entry) if can_cast_types(entry, data_type) => {
            let entries = results.into_iter().map(|result| match result {
                ScalarValue::Dictionary(_, entry) => *entry,
                entry => entry,
            });
            Ok(cast(&ScalarValue::iter_to_array(entries)?, data_type)?)
        }
        _ => ScalarValue::iter_to_array(results),
    }
}

/// What DataFusion does not give access to. They are the last fields of what it prints.
pub(crate) struct Flags {
    pub(crate) ignores_nulls: bool,
    /// Whether the rows come in the opposite of the order that the call is written for.
    pub(crate) is_reversed: bool,
}

impl Flags {
    /// `None` if DataFusion prints something else.
    pub(crate) fn of(call: &WindowUDFExpr) -> Option<Flags> {
        let printed = format!("{call:?}");
        let (printed, ignores_nulls) = flag(&printed, " }", "ignore_nulls")?;
        let (_, is_reversed) = flag(printed, ", ", "is_reversed")?;
        Some(Flags { ignores_nulls, is_reversed })
    }
}

/// The value of the flag that `printed` has before `end`, and what is printed before it.
fn flag<'a>(printed: &'a str, end: &str, name: &str) -> Option<(&'a str, bool)> {
    let (before, value) = printed.strip_suffix(end)?.rsplit_once(&format!("{name}: "))?;
    Some((before, value.parse().ok()?))
}

pub(crate) fn literal(arg: &Arc<dyn PhysicalExpr>) -> Option<&ScalarValue> {
    Some(arg.downcast_ref::<Literal>()?.value())
}

/// The first argument of `call` for the rows of a chunk.
pub(crate) fn first_argument(call: &WindowUDFExpr, chunk: &Chunk) -> Result<ArrayRef> {
    let Some(argument) = call.expressions().into_iter().next() else {
        return internal_err!("{} has an argument", call.name());
    };
    argument.evaluate(&chunk.batch)?.into_array(chunk.rows())
}

/// Drops a dictionary's entries that no row refers to: casts convert all entries, and fail on those that are in no row.
pub(crate) fn without_unused_entries(results: ArrayRef) -> Result<ArrayRef> {
    Ok(match results.as_any_dictionary_opt() {
        Some(dictionary) => garbage_collect_any_dictionary(dictionary)?,
        None => results,
    })
}

/// What it takes to evaluate `window` over rows of this schema; the error says why it cannot be evaluated here.
pub(crate) fn function(window: &Arc<dyn WindowExpr>, input: &Schema) -> Result<Box<dyn Function>, String> {
    let expr = window.as_any();
    let aggregate = if let Some(window) = expr.downcast_ref::<PlainAggregateWindowExpr>() {
        window.get_aggregate_expr()
    } else if let Some(window) = expr.downcast_ref::<SlidingAggregateWindowExpr>() {
        window.get_aggregate_expr()
    } else if let Some(standard) = expr.downcast_ref::<StandardWindowExpr>() {
        return self::standard(standard, window, input);
    } else {
        return Err(format!("{}: an unknown kind of window expression", window.name()));
    };
    of_aggregate(aggregate, window, input)
}

fn of_aggregate(
    aggregate: &AggregateFunctionExpr,
    window: &Arc<dyn WindowExpr>,
    input: &Schema,
) -> Result<Box<dyn Function>, String> {
    // DataFusion does not give access to the filter. It is the last field of what it prints.
    if !format!("{window:?}").ends_with("filter: None }") {
        return Err(format!("{}: FILTER", window.name()));
    }
    if !aggregate.order_bys().is_empty() {
        return Err(format!("{}: ORDER BY inside an aggregate", window.name()));
    }
    Ok(aggregate::function(aggregate.clone(), Arc::clone(window), frame(window, input)?, input))
}

fn standard(
    expr: &StandardWindowExpr,
    window: &Arc<dyn WindowExpr>,
    input: &Schema,
) -> Result<Box<dyn Function>, String> {
    let Some(call) = expr.get_standard_func_expr().as_any().downcast_ref::<WindowUDFExpr>() else {
        return Err(format!("{}: no window function of DataFusion's", window.name()));
    };
    let function = call.fun().inner();
    // Those that are one type have a name each.
    Ok(if function.is::<RowNumber>() {
        Box::new(Numbers::new(Numbering::Rows))
    } else if function.is::<Rank>() && function.name() == "rank" {
        Box::new(Numbers::new(Numbering::Rank))
    } else if function.is::<Rank>() && function.name() == "dense_rank" {
        Box::new(Numbers::new(Numbering::DenseRank))
    } else if function.is::<Rank>() && function.name() == "percent_rank" {
        Box::new(Distribution::PercentRank)
    } else if function.is::<CumeDist>() {
        Box::new(Distribution::CumeDist)
    } else if function.is::<Ntile>() {
        let tiles = Tiles::of(call).ok_or_else(|| format!("{}: no literal of an integer above 0", window.name()))?;
        Box::new(tiles)
    } else if let Some(shift) = function.downcast_ref::<WindowShift>() {
        Box::new(Shift::of(call, shift).map_err(|reason| format!("{}: {reason}", window.name()))?)
    } else if function.is::<NthValue>() {
        let value = ValueOfFrame::of(call, frame(window, input)?);
        Box::new(value.ok_or_else(|| format!("{}: a place that is no literal", window.name()))?)
    } else {
        return Err(format!("{}: a function of the user's", window.name()));
    })
}

fn frame(window: &Arc<dyn WindowExpr>, input: &Schema) -> Result<Frame, String> {
    let order = window.order_by();
    let frame = Frame::of(window.get_window_frame(), order, input)
        .ok_or_else(|| format!("{}: distances between such values", window.name()))?;
    // DataFusion finds peers value by value: of maps it compares the first keys, of structs no null with a value.
    let is_nested = |expr: &Arc<dyn PhysicalExpr>| expr.data_type(input).map_or(true, |of| of.is_nested());
    if frame.has_peers() && order.iter().any(|key| is_nested(&key.expr)) {
        return Err(format!("{}: peers by nested values", window.name()));
    }
    Ok(frame)
}
