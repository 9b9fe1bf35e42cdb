//! Expressions of one column of texts, evaluated once for each entry of a row group's dictionary.
//!
//! ```text
//! dictionary  curl   firefox   NULL        codes        2 0 0 NULL 1
//! s LIKE 'f%' false  true      NULL        s LIKE 'f%'  .. read by code
//! ```
//! NULL is one more entry. Where the dictionary became too large, which shows by texts without codes, or has too many
//! entries for the rows that are read of it, the expression is evaluated for each row.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, Int32Array, RecordBatch, make_array, new_null_array};
use arrow::compute::{cast_with_options, concat, take};
use arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::metrics::Count;

use super::CAST;
use super::columns::UsedColumn;

/// Entries are evaluated where each has so many rows.
pub(crate) const ROWS_PER_ENTRY: usize = 4;

/// So many dictionaries are kept as views.
const VIEWS_MAX: usize = 32;

/// An expression of one column of texts.
#[derive(Clone, Debug)]
pub(super) struct OfText {
    /// Over the column alone.
    expr: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
    place: usize,
}

impl OfText {
    /// An expression over used columns that reads `used`, which is at `place` among them.
    pub(super) fn new(expr: Arc<dyn PhysicalExpr>, place: usize, used: &UsedColumn) -> Result<OfText> {
        let alone = |part: Arc<dyn PhysicalExpr>| match part.downcast_ref::<Column>() {
            Some(column) => Ok(Transformed::yes(Arc::new(Column::new(column.name(), 0)) as _)),
            None => Ok(Transformed::no(part)),
        };
        let field = Field::new(used.path.string(), used.table_type.clone(), true);
        Ok(OfText { expr: expr.transform(alone).data()?, schema: Arc::new(Schema::new(vec![field])), place })
    }

    /// The place of the column among those that are used.
    pub(super) fn place(&self) -> usize {
        self.place
    }

    fn evaluate(&self, texts: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
        let texts = in_type(texts, self.schema.field(0).data_type())?;
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), vec![texts])?;
        in_type(&self.expr.evaluate(&batch)?.into_array(batch.num_rows())?, data_type)
    }
}

/// The values in a type.
pub(super) fn in_type(values: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    match values.data_type() == data_type {
        true => Ok(Arc::clone(values)),
        false => Ok(cast_with_options(values, data_type, &CAST)?),
    }
}

/// What was evaluated of the dictionaries of a row group.
pub(super) struct Evaluated {
    /// How many rows are read of the row group.
    pub(super) rows: usize,
    known: Vec<Known>,
    rows_by_entry: Count,
    /// Entries of dictionaries, and the same as views.
    views: Vec<(ArrayRef, ArrayRef)>,
}

/// An expression's values for the entries of a dictionary, and for NULL behind them.
struct Known {
    expr: Arc<dyn PhysicalExpr>,
    dictionary: ArrayRef,
    values: ArrayRef,
}

impl Evaluated {
    /// `rows_by_entry` counts the values that were read by code.
    pub(super) fn new(rows_by_entry: Option<Count>) -> Evaluated {
        Evaluated { rows: 0, known: Vec::new(), rows_by_entry: rows_by_entry.unwrap_or_default(), views: Vec::new() }
    }

    /// The row group ends.
    pub(super) fn forget(&mut self) {
        self.known.clear();
        self.views.clear();
    }

    /// A dictionary of text with 32-bit codes of views, which batches share as they share their entries.
    pub(super) fn as_views(&mut self, column: &ArrayRef) -> Result<ArrayRef> {
        let Some(dictionary) = column.as_any_dictionary_opt() else { return Ok(Arc::clone(column)) };
        let entries = dictionary.values();
        if entries.data_type() == &DataType::Utf8View && dictionary.keys().data_type() == &DataType::Int32 {
            return Ok(Arc::clone(column));
        }
        let views = match self.views.iter().find(|(known, _)| Arc::ptr_eq(known, entries)) {
            Some((_, views)) => Arc::clone(views),
            None => {
                let views = in_type(entries, &DataType::Utf8View)?;
                // Where every batch has a dictionary of its own, none comes again.
                if self.views.len() == VIEWS_MAX {
                    self.views.clear();
                }
                self.views.push((Arc::clone(entries), Arc::clone(&views)));
                views
            }
        };
        let codes = in_type(&make_array(dictionary.keys().to_data()), &DataType::Int32)?;
        Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(codes.as_primitive().clone(), views)?))
    }

    /// The values of an expression for these texts, which may be codes, in a type.
    pub(super) fn of(&mut self, of: &OfText, texts: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
        let Some(coded) = texts.as_dictionary_opt::<Int32Type>() else { return of.evaluate(texts, data_type) };
        let entries = coded.values();
        if entries.len().saturating_mul(ROWS_PER_ENTRY) > self.rows {
            return of.evaluate(texts, data_type);
        }
        self.rows_by_entry.add(texts.len());
        let is_known = |known: &Known| Arc::ptr_eq(&known.expr, &of.expr) && is_same(&known.dictionary, entries);
        let at = match self.known.iter().position(is_known) {
            Some(at) => at,
            None => {
                let null = new_null_array(entries.data_type(), 1);
                let values = of.evaluate(&concat(&[entries, &null])?, data_type)?;
                let (expr, dictionary) = (Arc::clone(&of.expr), Arc::clone(entries));
                self.known.push(Known { expr, dictionary, values });
                self.known.len() - 1
            }
        };
        by_code(&self.known[at].values, coded.keys())
    }
}

/// Whether these are the same array: of a row group there is one, but its bytes may be taken for texts anew.
fn is_same(one: &ArrayRef, other: &ArrayRef) -> bool {
    match (one.as_string_view_opt(), other.as_string_view_opt()) {
        (Some(one), Some(other)) => one.views().ptr_eq(other.views()),
        _ => Arc::ptr_eq(one, other),
    }
}

/// The last of the values is that of NULL.
fn by_code(values: &ArrayRef, codes: &Int32Array) -> Result<ArrayRef> {
    let null = values.len() - 1;
    if codes.null_count() == 0 || values.is_null(null) {
        return Ok(take(values, codes, None)?);
    }
    let null = i32::try_from(null).unwrap_or(i32::MAX);
    let codes: Int32Array = codes.iter().map(|code| code.unwrap_or(null)).collect::<Vec<i32>>().into();
    Ok(take(values, &codes, None)?)
}

#[cfg(test)]
mod tests {
    use arrow::array::{BooleanArray, DictionaryArray, StringViewArray};
    use datafusion::common::ScalarValue;
    use datafusion::physical_expr::expressions::{IsNullExpr, LikeExpr, col, lit};

    use super::*;

    fn of(expr: impl Fn(Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr>) -> OfText {
        let used = UsedColumn {
            path: "s".into(),
            expr: Arc::new(Column::new("s", 3)),
            table_type: DataType::Utf8View,
            nullable: true,
            coded: true,
        };
        let schema = Schema::new(vec![Field::new("s", DataType::Utf8View, true)]);
        OfText::new(expr(col("s", &schema).expect("a column")), 0, &used).expect("an expression")
    }

    #[test]
    fn entries_are_evaluated_once_and_null_is_one_of_them() {
        let like = of(|s| {
            let pattern = lit(ScalarValue::Utf8View(Some("f%x".to_owned())));
            Arc::new(LikeExpr::new(false, false, s, pattern))
        });
        let is_null = of(|s| Arc::new(IsNullExpr::new(s)));
        let entries: ArrayRef = Arc::new(StringViewArray::from(vec!["firefox", "curl"]));
        let codes = Int32Array::from(vec![Some(1), None, Some(0), Some(0)]);
        let coded: ArrayRef = Arc::new(DictionaryArray::try_new(codes, entries).expect("codes of two entries"));
        let flat = cast_with_options(&coded, &DataType::Utf8View, &CAST).expect("texts");
        for (rows, by_entry) in [(8, 8), (7, 0)] {
            let count = Count::new();
            let mut evaluated = Evaluated::new(Some(count.clone()));
            evaluated.rows = rows;
            let mut values = |of: &OfText, texts: &ArrayRef| {
                let values = evaluated.of(of, texts, &DataType::Boolean).expect("it cannot fail");
                values.as_boolean().clone()
            };
            for texts in [&coded, &flat] {
                let matches = BooleanArray::from(vec![Some(false), None, Some(true), Some(true)]);
                assert_eq!(values(&like, texts), matches);
                assert_eq!(values(&is_null, texts), BooleanArray::from(vec![false, true, false, false]));
            }
            assert_eq!(evaluated.known.len() * 4, by_entry);
            assert_eq!(count.value(), by_entry);
        }
    }
}
