//! Are two results the same? Stock DataFusion's answer is what Weld's must be.
//!
//! Names, types, nullability and everything that is not a float: bit for bit. Floats: up to reassociation of `+` and
//! `*`. Row order: what is found must be in the order that stock DataFusion's plan declares, unless stock's own rows
//! are not (of a ROLLUP over sorted rows); rows that the declared order does not tell apart may stand in any order.
//! Errors: of one class. `docs/semantics.md` has the promise that this checks.
//!
//! The one comparison of the project: of `weld.verify`, the `weld` command, the tests and the fuzzer.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::compute::concat;
use arrow::datatypes::{DataType, FieldRef, Float32Type, Float64Type, SchemaRef};
use arrow::error::ArrowError;
use arrow::row::{RowConverter, Rows, SortField};
use arrow::util::display::array_value_to_string;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};

/// Rows that agree in their exact columns are paired by their floats one with another up to so many; larger sets are
/// compared in order.
const PAIRED_MAX: usize = 1000;

/// A query's whole result.
#[derive(Clone, Debug)]
pub struct Answer {
    pub schema: SchemaRef,
    pub batches: Vec<RecordBatch>,
    /// What the plan declares of the order of its rows.
    pub ordering: Option<LexOrdering>,
}

impl Answer {
    pub fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The columns, each in one piece. No batch: what a NOT NULL column holds is for whoever reads it to see.
    fn columns(&self) -> Result<Vec<ArrayRef>> {
        let column = |index: usize, field: &FieldRef| -> Result<ArrayRef> {
            let parts: Vec<&dyn Array> = self.batches.iter().map(|batch| batch.column(index).as_ref()).collect();
            Ok(if parts.is_empty() { arrow::array::new_empty_array(field.data_type()) } else { concat(&parts)? })
        };
        self.schema.fields().iter().enumerate().map(|(index, field)| column(index, field)).collect()
    }
}

/// What the first difference is; nothing when `found` is what `expected` is.
pub fn difference(expected: &Answer, found: &Answer) -> Result<Option<String>> {
    if let Some(difference) = schema_difference(&expected.schema, &found.schema) {
        return Ok(Some(difference));
    }
    let first = |answer: &Answer| answer.batches.iter().find_map(|batch| type_difference(&answer.schema, batch));
    if let Some(difference) = first(found).filter(|_| first(expected).is_none()) {
        return Ok(Some(difference));
    }
    let (expected_rows, found_rows) = (expected.rows(), found.rows());
    if expected_rows != found_rows {
        return Ok(Some(format!("{expected_rows} rows expected, {found_rows} found")));
    }
    // The order that stock DataFusion declares must be kept where stock keeps it: the other plan may forget to declare
    // it.
    if let Some(ordering) = &expected.ordering
        && first_out_of_order(&expected.batches, ordering)?.is_none()
        && let Some(row) = first_out_of_order(&found.batches, ordering)?
    {
        return Ok(Some(format!("row {row} of the found result is out of the declared order")));
    }
    Ok(rows_difference(&expected.columns()?, &found.columns()?)?)
}

/// A partition of `found` that is not in the order that the plan declares of each, where all of `expected` are.
pub(crate) fn order_difference(
    expected: &[Vec<RecordBatch>],
    found: &[Vec<RecordBatch>],
    ordering: Option<&LexOrdering>,
) -> Result<Option<String>> {
    let Some(ordering) = ordering else { return Ok(None) };
    for batches in expected {
        if first_out_of_order(batches, ordering)?.is_some() {
            return Ok(None);
        }
    }
    for (index, batches) in found.iter().enumerate() {
        if let Some(row) = first_out_of_order(batches, ordering)? {
            return Ok(Some(format!("row {row} of partition {index} is out of the declared order")));
        }
    }
    Ok(None)
}

/// What differs where only the columns, the number of rows and the keys that order them are the query's: below a LIMIT,
/// any row of a tie may stand for the others.
pub(crate) fn keys_difference(
    expected: &Answer,
    found: &Answer,
    ordering: Option<&LexOrdering>,
) -> Result<Option<String>> {
    if let Some(difference) = schema_difference(&expected.schema, &found.schema) {
        return Ok(Some(difference));
    }
    if expected.rows() != found.rows() {
        return Ok(Some(format!("{} rows expected, {} found", expected.rows(), found.rows())));
    }
    let Some(ordering) = ordering else { return Ok(None) };
    let (Some((left, _)), Some((right, _))) = (keys(&expected.batches, ordering)?, keys(&found.batches, ordering)?)
    else {
        return Ok(None);
    };
    for row in 0..expected.rows() {
        let mut columns = left.iter().zip(&right);
        let same = columns.try_fold(true, |same, (a, b)| -> Result<bool> {
            let (a, b) = (a.slice(row, 1), b.slice(row, 1));
            Ok(same && rows_difference(&[a], &[b])?.is_none())
        })?;
        if !same {
            let (a, b) = (show_row(&left, row)?, show_row(&right, row)?);
            return Ok(Some(format!("row {row} has the key ({b}) where ({a}) is expected")));
        }
    }
    Ok(None)
}

pub(crate) fn schema_difference(expected: &SchemaRef, found: &SchemaRef) -> Option<String> {
    let describe = |schema: &SchemaRef| {
        let column = |field: &FieldRef| {
            let null = if field.is_nullable() { " null" } else { "" };
            format!("{} {}{null}", field.name(), field.data_type())
        };
        schema.fields().iter().map(column).collect::<Vec<_>>().join(", ")
    };
    let (expected, found) = (describe(expected), describe(found));
    (expected != found).then(|| format!("columns ({expected}) expected, ({found}) found"))
}

/// A batch that is not of its plan's types.
fn type_difference(schema: &SchemaRef, batch: &RecordBatch) -> Option<String> {
    if schema.fields().len() != batch.num_columns() {
        return Some(format!("{} columns declared, {} found", schema.fields().len(), batch.num_columns()));
    }
    let mut columns = schema.fields().iter().zip(batch.columns());
    let (field, column) = columns.find(|(field, column)| field.data_type() != column.data_type())?;
    Some(format!("column {} is declared {}, found {}", field.name(), field.data_type(), column.data_type()))
}

fn first_out_of_order(batches: &[RecordBatch], ordering: &LexOrdering) -> Result<Option<usize>> {
    let Some((columns, fields)) = keys(batches, ordering)? else { return Ok(None) };
    if !RowConverter::supports_fields(&fields) {
        return Ok(None);
    }
    let keys = RowConverter::new(fields)?.convert_columns(&columns)?;
    Ok((1..keys.num_rows()).find(|&row| keys.row(row - 1) > keys.row(row)))
}

/// What orders the rows, and how; nothing if there are no batches.
fn keys(batches: &[RecordBatch], ordering: &LexOrdering) -> Result<Option<(Vec<ArrayRef>, Vec<SortField>)>> {
    if batches.is_empty() {
        return Ok(None);
    }
    let mut fields = Vec::new();
    let mut columns = Vec::new();
    for PhysicalSortExpr { expr, options } in ordering.iter() {
        let evaluate = |batch: &RecordBatch| expr.evaluate(batch)?.into_array(batch.num_rows());
        let parts = batches.iter().map(evaluate).collect::<Result<Vec<_>>>()?;
        let column = concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<_>>())?;
        fields.push(SortField::new_with_options(column.data_type().clone(), *options));
        columns.push(column);
    }
    Ok(Some((columns, fields)))
}

/// Compares as sets with repetitions: sorts both by the exact columns, then by the floats, and walks them together.
fn rows_difference(expected: &[ArrayRef], found: &[ArrayRef]) -> Result<Option<String>, ArrowError> {
    let (left, right) = (Side::new(expected)?, Side::new(found)?);
    for (position, (&i, &j)) in left.order.iter().zip(&right.order).enumerate() {
        if left.has_exact_of(i, &right, j) && (left.has_floats_of(i, &right, j) || paired(&left, &right, position)) {
            continue;
        }
        let (a, b) = (show_row(expected, i)?, show_row(found, j)?);
        return Ok(Some(format!("({a}) expected, ({b}) found")));
    }
    Ok(None)
}

/// Whether the rows that agree with the one at `position` in their exact columns are the same ones on both sides:
/// floats that differ in their last digit may have put them in another order.
fn paired(left: &Side, right: &Side, position: usize) -> bool {
    let (i, j) = (left.order[position], right.order[position]);
    let group = |side: &Side, of: usize| -> Vec<usize> {
        side.order.iter().copied().filter(|&row| side.has_exact_of(row, side, of)).take(PAIRED_MAX + 1).collect()
    };
    let (rows, mut others) = (group(left, i), group(right, j));
    if rows.len() != others.len() || rows.len() > PAIRED_MAX {
        return false;
    }
    rows.iter().all(|&row| {
        let other = others.iter().position(|&other| left.has_floats_of(row, right, other));
        other.map(|other| others.swap_remove(other)).is_some()
    })
}

/// One result, ready to be walked in an order that only its values decide.
struct Side {
    /// The columns that must agree bit for bit, encoded so that bytes compare as values do.
    exact: Option<Rows>,
    floats: Vec<ArrayRef>,
    order: Vec<usize>,
}

impl Side {
    fn new(columns: &[ArrayRef]) -> Result<Side, ArrowError> {
        let (floats, exact): (Vec<_>, Vec<_>) =
            columns.iter().cloned().partition(|column| is_float(column.data_type()));
        let sorted_by: Vec<ArrayRef> = floats.iter().map(with_one_nan).collect();
        let (exact_keys, float_keys) = (encode(&exact)?, encode(&sorted_by)?);
        let mut order: Vec<usize> = (0..columns.first().map_or(0, |column| column.len())).collect();
        let row = |rows: &'_ Option<Rows>, index: usize| rows.as_ref().map(|rows| rows.row(index).owned());
        order.sort_by_cached_key(|&index| (row(&exact_keys, index), row(&float_keys, index)));
        Ok(Side { exact: exact_keys, floats, order })
    }

    fn has_exact_of(&self, row: usize, other: &Side, other_row: usize) -> bool {
        match (&self.exact, &other.exact) {
            (Some(a), Some(b)) => a.row(row) == b.row(other_row),
            _ => true,
        }
    }

    fn has_floats_of(&self, row: usize, other: &Side, other_row: usize) -> bool {
        let mut pairs = self.floats.iter().zip(&other.floats);
        pairs.all(|(a, b)| same_float(a.as_ref(), row, b.as_ref(), other_row))
    }
}

fn encode(columns: &[ArrayRef]) -> Result<Option<Rows>, ArrowError> {
    if columns.is_empty() {
        return Ok(None);
    }
    let columns = columns.iter().map(comparable).collect::<Result<Vec<_>, _>>()?;
    let fields = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
    RowConverter::new(fields)?.convert_columns(&columns).map(Some)
}

/// The column; as text if its type has no order.
fn comparable(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    if RowConverter::supports_fields(&[SortField::new(column.data_type().clone())]) {
        return Ok(Arc::clone(column));
    }
    let text = (0..column.len()).map(|row| array_value_to_string(column, row));
    Ok(Arc::new(StringArray::from(text.collect::<Result<Vec<String>, _>>()?)))
}

/// The floats, every NaN the same: those that arithmetic makes differ in their signs, and would lie at either end of an
/// order.
fn with_one_nan(floats: &ArrayRef) -> ArrayRef {
    match floats.data_type() {
        DataType::Float32 => {
            let one = |value: f32| if value.is_nan() { f32::NAN } else { value };
            Arc::new(floats.as_primitive::<Float32Type>().unary::<_, Float32Type>(one))
        }
        DataType::Float64 => {
            let one = |value: f64| if value.is_nan() { f64::NAN } else { value };
            Arc::new(floats.as_primitive::<Float64Type>().unary::<_, Float64Type>(one))
        }
        _ => Arc::clone(floats),
    }
}

fn is_float(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float32 | DataType::Float64)
}

/// What may be left where the terms of a sum cancel out that are about one.
const CANCELLED: f64 = 1e-12;

/// Equal up to what another order of a sum's terms may change: some thousand units in the last place, since the sums
/// of a query run over millions of terms.
fn same_float(a: &dyn Array, i: usize, b: &dyn Array, j: usize) -> bool {
    if a.is_null(i) || b.is_null(j) {
        return a.is_null(i) == b.is_null(j);
    }
    let (a, b, tolerance) = match a.data_type() {
        DataType::Float32 => {
            let (a, b) = (a.as_primitive::<Float32Type>().value(i), b.as_primitive::<Float32Type>().value(j));
            (f64::from(a), f64::from(b), 1e-4)
        }
        _ => (a.as_primitive::<Float64Type>().value(i), b.as_primitive::<Float64Type>().value(j), 1e-10),
    };
    // Signed zeros and infinities are equal only to themselves; any NaN is NaN.
    if a == b {
        return a != 0.0 || a.is_sign_negative() == b.is_sign_negative();
    }
    if !a.is_finite() || !b.is_finite() {
        return a.is_nan() && b.is_nan();
    }
    (a - b).abs() <= (tolerance * a.abs().max(b.abs())).max(CANCELLED)
}

fn show_row(columns: &[ArrayRef], row: usize) -> Result<String, ArrowError> {
    let show = |column: &ArrayRef| {
        if column.is_null(row) { Ok("null".to_owned()) } else { array_value_to_string(column, row) }
    };
    Ok(columns.iter().map(show).collect::<Result<Vec<_>, _>>()?.join(", "))
}

/// What kind of error a query ended in: where stock DataFusion fails, Weld fails in the same class.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ErrorClass {
    DivisionByZero,
    Overflow,
    Cast,
    /// Out of memory, or of space on a disk.
    Resources,
    /// The query cannot be planned.
    Planning,
    /// A file, or the way to it.
    Source,
    /// Our defect, or DataFusion's.
    Internal,
    /// Other errors of expressions and operators.
    Execution,
}

/// The class of an error, whatever it is wrapped in.
pub fn error_class(error: &DataFusionError) -> ErrorClass {
    match error {
        DataFusionError::ArrowError(error, _) => arrow_class(error),
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => error_class(inner),
        DataFusionError::Shared(inner) => error_class(inner),
        DataFusionError::Collection(all) => all.first().map_or(ErrorClass::Execution, error_class),
        DataFusionError::External(inner) => foreign_class(inner.as_ref()),
        DataFusionError::ResourcesExhausted(_) => ErrorClass::Resources,
        DataFusionError::Internal(_) => ErrorClass::Internal,
        DataFusionError::SQL(..)
        | DataFusionError::Plan(_)
        | DataFusionError::SchemaError(..)
        | DataFusionError::Configuration(_)
        | DataFusionError::NotImplemented(_) => ErrorClass::Planning,
        DataFusionError::ParquetError(_) | DataFusionError::ObjectStore(_) | DataFusionError::IoError(_) => {
            ErrorClass::Source
        }
        _ => ErrorClass::Execution,
    }
}

fn arrow_class(error: &ArrowError) -> ErrorClass {
    match error {
        ArrowError::DivideByZero => ErrorClass::DivisionByZero,
        ArrowError::ArithmeticOverflow(_) => ErrorClass::Overflow,
        ArrowError::CastError(_) | ArrowError::ParseError(_) => ErrorClass::Cast,
        ArrowError::MemoryError(_) => ErrorClass::Resources,
        ArrowError::ExternalError(inner) => foreign_class(inner.as_ref()),
        ArrowError::ParquetError(_) | ArrowError::IoError(..) | ArrowError::IpcError(_) => ErrorClass::Source,
        _ => ErrorClass::Execution,
    }
}

fn foreign_class(error: &(dyn std::error::Error + Send + Sync + 'static)) -> ErrorClass {
    if let Some(error) = error.downcast_ref::<DataFusionError>() {
        return error_class(error);
    }
    if error.is::<weld_arrow::Defect>() {
        return ErrorClass::Internal;
    }
    error.downcast_ref::<ArrowError>().map_or(ErrorClass::Execution, arrow_class)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, Int64Array};
    use arrow::compute::SortOptions;
    use arrow::datatypes::{Field, Schema};
    use datafusion::physical_expr::expressions::Column;

    fn answer(ints: &[i64], floats: &[f64]) -> Answer {
        let schema =
            Schema::new(vec![Field::new("a", DataType::Int64, false), Field::new("b", DataType::Float64, false)]);
        let columns: Vec<ArrayRef> =
            vec![Arc::new(Int64Array::from(ints.to_vec())), Arc::new(Float64Array::from(floats.to_vec()))];
        let schema = Arc::new(schema);
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
        Answer { schema, batches: vec![batch], ordering: None }
    }

    fn ordered_by_a(mut answer: Answer) -> Answer {
        let key = PhysicalSortExpr::new(Arc::new(Column::new("a", 0)), SortOptions::default());
        answer.ordering = LexOrdering::new([key]);
        answer
    }

    #[test]
    fn rows_may_stand_in_any_order_when_none_is_declared() {
        let found = difference(&answer(&[1, 2, 2], &[0.5, 1.5, 2.5]), &answer(&[2, 2, 1], &[2.5, 1.5, 0.5]));
        assert_eq!(found.unwrap(), None);
    }

    /// More rows than are paired one with another.
    #[test]
    fn signs_of_nans_do_not_matter() {
        let rows = 2 * PAIRED_MAX;
        let floats = |nan: f64| (0..rows).map(|row| if row % 2 == 0 { nan } else { row as f64 }).collect::<Vec<_>>();
        let ints = vec![1; rows];
        let found = difference(&answer(&ints, &floats(f64::NAN)), &answer(&ints, &floats(-f64::NAN)));
        assert_eq!(found.unwrap(), None);
    }

    #[test]
    fn a_declared_order_is_kept() {
        let expected = ordered_by_a(answer(&[1, 2], &[0.0, 0.0]));
        let found = difference(&expected, &answer(&[2, 1], &[0.0, 0.0])).unwrap().unwrap();
        assert_eq!(found, "row 1 of the found result is out of the declared order");
        // Nobody keeps an order that stock declares and does not keep.
        let unkept = ordered_by_a(answer(&[2, 1], &[0.0, 0.0]));
        assert_eq!(difference(&unkept, &answer(&[1, 2], &[0.0, 0.0])).unwrap(), None);
        // Rows that the order does not tell apart may change places.
        let expected = ordered_by_a(answer(&[1, 1], &[3.0, 4.0]));
        assert_eq!(difference(&expected, &answer(&[1, 1], &[4.0, 3.0])).unwrap(), None);
    }

    #[test]
    fn integers_agree_exactly_and_floats_up_to_reassociation() {
        let sum = 0.1 + 0.2 + 0.3;
        let other = 0.3 + 0.2 + 0.1;
        assert_ne!(sum, other);
        assert_eq!(difference(&answer(&[1], &[sum]), &answer(&[1], &[other])).unwrap(), None);
        let found = difference(&answer(&[1], &[1.0]), &answer(&[1], &[1.000_001])).unwrap().unwrap();
        assert_eq!(found, "(1, 1.0) expected, (1, 1.000001) found");
        assert!(difference(&answer(&[1], &[0.0]), &answer(&[2], &[0.0])).unwrap().is_some());
    }

    #[test]
    fn special_floats_equal_only_themselves() {
        let same = |a: f64, b: f64| difference(&answer(&[0], &[a]), &answer(&[0], &[b])).unwrap().is_none();
        assert!(same(f64::NAN, f64::NAN) && same(f64::INFINITY, f64::INFINITY));
        assert!(!same(f64::NAN, 1.0) && !same(f64::INFINITY, f64::MAX) && !same(0.0, -0.0));
    }

    #[test]
    fn counts_names_and_nullability_matter() {
        let found = difference(&answer(&[1], &[0.0]), &answer(&[1, 1], &[0.0, 0.0])).unwrap().unwrap();
        assert_eq!(found, "1 rows expected, 2 found");
        let mut other = answer(&[1], &[0.0]);
        other.schema = Arc::new(Schema::new(vec![
            Field::new("a", DataType::Int64, true),
            Field::new("b", DataType::Float64, false),
        ]));
        let found = difference(&answer(&[1], &[0.0]), &other).unwrap().unwrap();
        assert_eq!(found, "columns (a Int64, b Float64) expected, (a Int64 null, b Float64) found");
    }

    #[test]
    fn floats_that_sort_otherwise_are_paired() {
        let off = 1.0 + 1e-15;
        let pairs = |pairs: &[(f64, f64)]| {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
            let columns: Vec<(&str, ArrayRef)> =
                vec![("a", Arc::new(Float64Array::from(a))), ("b", Arc::new(Float64Array::from(b)))];
            let batch = RecordBatch::try_from_iter(columns).unwrap();
            Answer { schema: batch.schema(), batches: vec![batch], ordering: None }
        };
        let expected = pairs(&[(1.0, 7.0), (off, 5.0)]);
        assert_eq!(difference(&expected, &pairs(&[(off, 7.0), (1.0, 5.0)])).unwrap(), None);
        assert!(difference(&expected, &pairs(&[(off, 7.0), (1.0, 7.0)])).unwrap().is_some());
    }

    #[test]
    fn errors_have_a_class_whatever_they_are_wrapped_in() {
        let zero = || DataFusionError::from(ArrowError::DivideByZero);
        assert_eq!(error_class(&zero()), ErrorClass::DivisionByZero);
        assert_eq!(
            error_class(&DataFusionError::Shared(Arc::new(zero().context("in a join")))),
            ErrorClass::DivisionByZero
        );
        assert_eq!(error_class(&DataFusionError::External(Box::new(zero()))), ErrorClass::DivisionByZero);
        assert_eq!(error_class(&DataFusionError::Internal(String::new())), ErrorClass::Internal);
    }
}
