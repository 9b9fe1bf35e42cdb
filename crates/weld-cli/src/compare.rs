//! Are two results the same? Stock DataFusion's answer is what Weld's must be.
//!
//! Names, types, nullability and everything that is not a float: bit for bit. Floats: up to reassociation of `+` and
//! `*`. Row order: each result must be in the order that its plan declares; rows that the declared order does not tell
//! apart may stand in any order. `docs/semantics.md` has the promise that this checks.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::row::{RowConverter, Rows, SortField};
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::error::Result;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};

/// A query's whole result.
pub(crate) struct Answer {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
    /// What the plan declares of the order of its rows.
    pub(crate) ordering: Option<LexOrdering>,
}

impl Answer {
    pub(crate) fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

/// What the first difference is; nothing when `found` is what `expected` is.
pub(crate) fn difference(expected: &Answer, found: &Answer) -> Result<Option<String>> {
    if let Some(difference) = schema_difference(&expected.schema, &found.schema) {
        return Ok(Some(difference));
    }
    let (expected_rows, found_rows) = (expected.rows(), found.rows());
    if expected_rows != found_rows {
        return Ok(Some(format!("{expected_rows} rows expected, {found_rows} found")));
    }
    let left = concat_batches(&expected.schema, &expected.batches)?;
    let right = concat_batches(&found.schema, &found.batches)?;
    // Both must keep the order that stock DataFusion declares: the other plan may forget to declare it.
    if let Some(ordering) = &expected.ordering {
        for (side, batch) in [("expected", &left), ("found", &right)] {
            if let Some(row) = first_out_of_order(batch, ordering)? {
                return Ok(Some(format!("row {row} of the {side} result is out of the declared order")));
            }
        }
    }
    rows_difference(&left, &right)
}

fn schema_difference(expected: &SchemaRef, found: &SchemaRef) -> Option<String> {
    let describe = |schema: &SchemaRef| {
        let column = |field: &datafusion::arrow::datatypes::FieldRef| {
            let null = if field.is_nullable() { " null" } else { "" };
            format!("{} {}{null}", field.name(), field.data_type())
        };
        schema.fields().iter().map(column).collect::<Vec<_>>().join(", ")
    };
    let (expected, found) = (describe(expected), describe(found));
    (expected != found).then(|| format!("columns ({expected}) expected, ({found}) found"))
}

fn first_out_of_order(batch: &RecordBatch, ordering: &LexOrdering) -> Result<Option<usize>> {
    let mut fields = Vec::new();
    let mut columns = Vec::new();
    for PhysicalSortExpr { expr, options } in ordering.iter() {
        let column = expr.evaluate(batch)?.into_array(batch.num_rows())?;
        fields.push(SortField::new_with_options(column.data_type().clone(), *options));
        columns.push(column);
    }
    let keys = RowConverter::new(fields)?.convert_columns(&columns)?;
    Ok((1..batch.num_rows()).find(|&row| keys.row(row - 1) > keys.row(row)))
}

/// Compares as sets with repetitions: sorts both by the exact columns, then by the floats, and walks them together.
fn rows_difference(expected: &RecordBatch, found: &RecordBatch) -> Result<Option<String>> {
    let (expected_rows, found_rows) = (Side::new(expected)?, Side::new(found)?);
    for (&left, &right) in expected_rows.order.iter().zip(&found_rows.order) {
        let exact = match (&expected_rows.exact, &found_rows.exact) {
            (Some(a), Some(b)) => a.row(left) == b.row(right),
            _ => true,
        };
        let floats = || {
            let mut pairs = expected_rows.floats.iter().zip(&found_rows.floats);
            pairs.all(|(a, b)| same_float(a.as_ref(), left, b.as_ref(), right))
        };
        if !exact || !floats() {
            let (a, b) = (show_row(expected, left)?, show_row(found, right)?);
            return Ok(Some(format!("({a}) expected, ({b}) found")));
        }
    }
    Ok(None)
}

/// One result, ready to be walked in an order that only its values decide.
struct Side<'a> {
    /// The columns that must agree bit for bit, encoded so that bytes compare as values do.
    exact: Option<Rows>,
    floats: Vec<&'a ArrayRef>,
    order: Vec<usize>,
}

impl<'a> Side<'a> {
    fn new(batch: &'a RecordBatch) -> std::result::Result<Side<'a>, ArrowError> {
        let (floats, exact): (Vec<_>, Vec<_>) = batch.columns().iter().partition(|column| is_float(column.data_type()));
        let encode = |columns: &[&ArrayRef]| {
            if columns.is_empty() {
                return Ok(None);
            }
            let columns: Vec<ArrayRef> = columns.iter().map(|&column| column.clone()).collect();
            let fields = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
            RowConverter::new(fields)?.convert_columns(&columns).map(Some)
        };
        let (exact, float_keys) = (encode(&exact)?, encode(&floats)?);
        let mut order: Vec<usize> = (0..batch.num_rows()).collect();
        let row = |rows: &'_ Option<Rows>, index: usize| rows.as_ref().map(|rows| rows.row(index).owned());
        order.sort_by_cached_key(|&index| (row(&exact, index), row(&float_keys, index)));
        Ok(Side { exact, floats, order })
    }
}

fn is_float(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float32 | DataType::Float64)
}

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
    (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * a.abs().max(b.abs()) && a.is_finite() && b.is_finite()
}

fn show_row(batch: &RecordBatch, row: usize) -> std::result::Result<String, ArrowError> {
    let show = |column: &ArrayRef| {
        if column.is_null(row) { Ok("null".to_owned()) } else { array_value_to_string(column, row) }
    };
    Ok(batch.columns().iter().map(show).collect::<std::result::Result<Vec<_>, _>>()?.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Float64Array, Int64Array};
    use datafusion::arrow::compute::SortOptions;
    use datafusion::arrow::datatypes::{Field, Schema};
    use datafusion::physical_expr::expressions::Column;
    use std::sync::Arc;

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

    #[test]
    fn a_declared_order_is_kept() {
        let expected = ordered_by_a(answer(&[1, 2], &[0.0, 0.0]));
        let found = difference(&expected, &answer(&[2, 1], &[0.0, 0.0])).unwrap().unwrap();
        assert_eq!(found, "row 1 of the found result is out of the declared order");
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
}
