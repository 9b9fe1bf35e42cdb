//! How the columns of one file become the table's.
//!
//! ```text
//! file: k Int32, t Timestamp(s), s Binary        table: k Int64, t Timestamp(ns), s Utf8, p Int32, absent Date32
//! k, t     read as they are stored, cast by DataFusion's own expression
//! s        read as text
//! p        the value in the folder's name;  absent: null
//! ```
//!
//! DataFusion decides what becomes of a type, and what cannot: its adapter writes the cast, its `CastExpr` evaluates
//! it. What it would refuse in a row, it must see here, too: a file whose columns can fail has no row left out.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, Int32Array, RecordBatch, RecordBatchOptions, make_array, new_null_array,
};
use arrow::compute::cast_with_options;
use arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Result, ScalarValue};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::parquet::file::metadata::ParquetMetaData;
use datafusion::parquet::schema::types::{ColumnDescPtr, ColumnPath};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr_adapter::{PhysicalExprAdapter, replace_columns_with_literals};
use weld_parquet::{Form, ScanColumn};
use weld_plans::cannot_fail;

use super::CAST;
use super::columns::{UsedColumn, coded, is_dictionary_of_text, narrow};
use super::prune::is_text;

/// For each used column where it comes from.
pub(super) struct Adapter {
    columns: Vec<Origin>,
    /// Where they are in a batch that was read.
    places: Vec<usize>,
    /// Whether DataFusion's scan could fail on a row of the file.
    pub(super) can_fail: bool,
}

enum Origin {
    /// Read in the type in which it is given, or in that of codes for it.
    Stored,
    /// Bytes that are given as text: DataFusion's reader does not look whether they are UTF-8 either.
    Bytes,
    /// Made of the file's column, alone in a batch of this schema.
    Cast(Arc<dyn PhysicalExpr>, SchemaRef),
    /// The same in all rows.
    Constant(ScalarValue),
}

/// An open file, as far as it matters here.
pub(super) struct FileColumns<'a> {
    pub(super) metadata: &'a ParquetMetaData,
    /// As the file says, and with the types that DataFusion's scan asks of its reader.
    pub(super) own: &'a Schema,
    pub(super) typed: &'a Schema,
    /// The table's, without the folders' columns.
    pub(super) table: &'a Schema,
    pub(super) constants: &'a HashMap<String, ScalarValue>,
}

impl Adapter {
    /// `adapter` is DataFusion's, from the table's schema without the folders' columns to `file.typed`.
    pub(super) fn new(
        used: &[UsedColumn],
        file: &FileColumns<'_>,
        adapter: &dyn PhysicalExprAdapter,
    ) -> Result<Adapter> {
        let columns = used.iter().map(|used| Origin::of(used, file, adapter)).collect::<Result<Vec<_>>>()?;
        let can_fail = used.iter().zip(&columns).any(|(used, origin)| match origin {
            Origin::Constant(_) => false,
            Origin::Cast(cast, file) => !cannot_fail(cast, Some(file)),
            Origin::Stored | Origin::Bytes => !used.nullable && may_have_nulls(file.metadata, &used.path),
        });
        let place = |next: &mut usize, origin: &Origin| {
            let place = *next;
            *next += usize::from(!matches!(origin, Origin::Constant(_)));
            Some(place)
        };
        let places = columns.iter().scan(0, place).collect();
        Ok(Adapter { columns, places, can_fail })
    }

    /// What is read of the file.
    pub(super) fn reads(&self, used: &[UsedColumn]) -> Arc<[ScanColumn]> {
        let form = |used: &UsedColumn| if used.coded { Form::Encoded } else { Form::Flat };
        let at = |used: &UsedColumn| ScanColumn::at(used.path.clone(), form(used));
        let reads = |(used, origin): (&UsedColumn, &Origin)| match origin {
            Origin::Stored => Some(at(used).with_type(narrow(&used.table_type))),
            Origin::Bytes => Some(at(used).with_type(DataType::BinaryView)),
            // Of a field the whole column, since it is its type that differs.
            Origin::Cast(_, file) => {
                Some(ScanColumn::new(used.root(), Form::Flat).with_type(file.field(0).data_type().clone()))
            }
            Origin::Constant(_) => None,
        };
        used.iter().zip(&self.columns).filter_map(reads).collect()
    }

    /// Used column `at` of a batch that was read from the file, in the table's type.
    pub(super) fn column(&self, at: usize, used: &UsedColumn, batch: &RecordBatch) -> Result<ArrayRef> {
        let rows = batch.num_rows();
        match &self.columns[at] {
            Origin::Stored => as_type(self.read(at, batch), &used.table_type),
            Origin::Bytes => as_type(&as_text(self.read(at, batch)), &used.table_type),
            Origin::Cast(expr, file) => {
                let column = as_type(self.read(at, batch), file.field(0).data_type())?;
                // It may have nulls where the file says it has none: the table's schema is checked, not the file's.
                let field = file.field(0).clone().with_nullable(true);
                let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![column])?;
                expr.evaluate(&batch)?.into_array(rows)
            }
            Origin::Constant(value) => as_type(&value.to_array_of_size(rows)?, &used.table_type),
        }
    }

    fn read<'a>(&self, at: usize, batch: &'a RecordBatch) -> &'a ArrayRef {
        batch.column(self.places[at])
    }

    /// The same as it was read, maybe as codes; made of the file's column or of none, in the table's type.
    pub(super) fn as_read(&self, at: usize, used: &UsedColumn, batch: &RecordBatch) -> Result<ArrayRef> {
        Ok(match &self.columns[at] {
            Origin::Stored => Arc::clone(self.read(at, batch)),
            Origin::Bytes => as_text(self.read(at, batch)),
            Origin::Cast(..) | Origin::Constant(_) => self.column(at, used, batch)?,
        })
    }

    /// The same in the type in which the scan gives it: narrower, or as codes.
    pub(super) fn narrow_column(
        &self,
        at: usize,
        used: &UsedColumn,
        batch: &RecordBatch,
        as_code: bool,
    ) -> Result<ArrayRef> {
        let wanted = narrow(&used.table_type);
        let column = self.as_read(at, used, batch)?;
        let is_coded = *column.data_type() == coded(&used.table_type) || is_dictionary_of_text(column.data_type());
        if as_code && is_coded {
            return Ok(column);
        }
        if as_code && let Origin::Constant(value) = &self.columns[at] {
            return one_entry(value, &wanted, batch.num_rows());
        }
        // A value of more digits than its type declares stays as wide as it is.
        let column = match cast_with_options(&column, &wanted, &CAST) {
            Err(_) if column.data_type() == &used.table_type => column,
            narrow => narrow?,
        };
        if as_code { by_itself(&column) } else { Ok(column) }
    }
}

impl Origin {
    fn of(used: &UsedColumn, file: &FileColumns<'_>, adapter: &dyn PhysicalExprAdapter) -> Result<Origin> {
        let root = used.root();
        if file.constants.contains_key(root) {
            return constant(replace_columns_with_literals(Arc::clone(&used.expr), file.constants)?);
        }
        if let Ok(field) = file.typed.field_with_name(root) {
            if used.path.parts().len() > 1 {
                if file.table.field_with_name(root).is_ok_and(|own| own.data_type() == field.data_type()) {
                    return Ok(Origin::Stored);
                }
            } else if field.data_type() == &used.table_type || (is_text(field.data_type()) && is_text(&used.table_type))
            {
                let bytes = is_text(&used.table_type) && file.is_binary(root);
                return Ok(if bytes { Origin::Bytes } else { Origin::Stored });
            }
        }
        let expr = adapter.rewrite(Arc::clone(&used.expr))?;
        match collect_columns(&expr).iter().next() {
            None => constant(expr),
            Some(column) => {
                let alone = Arc::new(Schema::new(vec![file.typed.field(column.index()).clone()]));
                Ok(Origin::Cast(reassign_expr_columns(expr, &alone)?, alone))
            }
        }
    }
}

/// The value of an expression of no column.
fn constant(expr: Arc<dyn PhysicalExpr>) -> Result<Origin> {
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)?;
    let value = expr.evaluate(&row)?.into_array(1)?;
    Ok(Origin::Constant(ScalarValue::try_from_array(&value, 0)?))
}

impl FileColumns<'_> {
    fn is_binary(&self, name: &str) -> bool {
        let own = self.own.field_with_name(name).map(Field::data_type);
        matches!(own, Ok(DataType::Binary | DataType::LargeBinary | DataType::BinaryView))
    }
}

/// Whether a file's footer leaves it open that a column has nulls.
pub(crate) fn may_have_nulls(footer: &ParquetMetaData, path: &ColumnPath) -> bool {
    let descriptor = footer.file_metadata().schema_descr();
    let is_flat = |column: &ColumnDescPtr| column.path() == path && column.max_rep_level() == 0;
    let Some(leaf) = descriptor.columns().iter().position(is_flat) else { return true };
    descriptor.column(leaf).max_def_level() > 0
        && footer.row_groups().iter().any(|group| {
            let statistics = group.column(leaf).statistics();
            statistics.and_then(|statistics| statistics.null_count_opt()) != Some(0)
        })
}

/// Columns of which the table's statistics say that all rows of a file have one value: DataFusion's scan does not read
/// them, and so does not fail on them.
pub(super) fn constants_of(file: &PartitionedFile, table: &Schema) -> HashMap<String, ScalarValue> {
    let Some(statistics) = &file.statistics else { return HashMap::new() };
    let rows = match statistics.num_rows {
        Precision::Exact(rows) => Some(rows),
        _ => None,
    };
    let constant = |(field, column): (&Arc<Field>, &ColumnStatistics)| {
        Some((field.name().clone(), constant_of(column, rows, field.data_type())?))
    };
    table.fields().iter().zip(&statistics.column_statistics).filter_map(constant).collect()
}

fn constant_of(column: &ColumnStatistics, rows: Option<usize>, data_type: &DataType) -> Option<ScalarValue> {
    let Precision::Exact(nulls) = column.null_count else { return None };
    match (&column.min_value, &column.max_value) {
        (Precision::Exact(min), Precision::Exact(max)) if min == max && !min.is_null() && nulls == 0 => {
            match min.data_type() == *data_type {
                true => Some(min.clone()),
                false => min.cast_to(data_type).ok(),
            }
        }
        _ if rows == Some(nulls) => ScalarValue::try_new_null(data_type).ok(),
        _ => None,
    }
}

fn as_type(column: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    if column.data_type() == data_type {
        return Ok(Arc::clone(column));
    }
    Ok(cast_with_options(column, data_type, &CAST)?)
}

/// Bytes, or codes of bytes, as text.
fn as_text(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        // SAFETY: as DataFusion's reader gives it. Compiled code takes text as bytes wherever it looks at it.
        DataType::BinaryView => Arc::new(unsafe { column.as_binary_view().clone().to_string_view_unchecked() }),
        DataType::Dictionary(..) => {
            let dictionary = column.as_any_dictionary();
            dictionary.with_values(as_text(dictionary.values()))
        }
        _ => Arc::clone(column),
    }
}

/// Values as codes, each of its own row: code that reads codes reads these, too.
fn by_itself(values: &ArrayRef) -> Result<ArrayRef> {
    let rows = i32::try_from(values.len()).unwrap_or(i32::MAX);
    let codes = Int32Array::new((0..rows).collect(), values.nulls().cloned());
    // What is under a null is not looked at: codes are null, entries never are.
    let builder = values.to_data().into_builder().nulls(None);
    let entries = make_array(builder.build()?);
    Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(codes, entries)?))
}

fn one_entry(value: &ScalarValue, data_type: &DataType, rows: usize) -> Result<ArrayRef> {
    if value.is_null() {
        let nulls = new_null_array(&DataType::Int32, rows);
        let zero = make_array(new_null_array(data_type, 1).to_data().into_builder().nulls(None).build()?);
        return Ok(Arc::new(DictionaryArray::try_new(nulls.as_primitive::<Int32Type>().clone(), zero)?));
    }
    let entry = as_type(&value.to_array_of_size(1)?, data_type)?;
    Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(Int32Array::from(vec![0; rows]), entry)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::StringViewArray;

    #[test]
    fn values_become_codes() {
        let values: ArrayRef = Arc::new(StringViewArray::from(vec![Some("a"), None, Some("a longer one than twelve")]));
        let codes = by_itself(&values).expect("a dictionary");
        assert_eq!(codes.data_type(), &coded(&DataType::Utf8));
        assert_eq!(codes.as_any_dictionary().values().null_count(), 0);
        assert_eq!(&cast_with_options(&codes, &DataType::Utf8View, &CAST).expect("values"), &values);
        let null = one_entry(&ScalarValue::Utf8(None), &DataType::Utf8View, 3).expect("a dictionary");
        assert_eq!((null.len(), null.null_count(), null.as_any_dictionary().values().len()), (3, 3, 1));
        let one = one_entry(&ScalarValue::from("x"), &DataType::Utf8View, 2).expect("a dictionary");
        assert_eq!((one.len(), one.null_count()), (2, 0));
    }
}
