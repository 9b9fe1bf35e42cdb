//! The columns of a source's output: read from its files, the same in all rows of a file, or computed.
//!
//! ```text
//! projection=[k, p, CAST(p AS Int64) AS q]      k is read as it is stored, p comes from the name of the file's folder,
//!                                               q is computed by DataFusion from p in the table's type
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::cast_with_options;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use weld_parquet::{Form, ScanColumn};

use super::CAST;
use super::prune::is_text;
use crate::lower::Unsupported;

/// What a scan gives, and what it reads for that.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    /// Columns of the table; each once.
    pub(super) used: Vec<UsedColumn>,
    outputs: Vec<Output>,
    schema: SchemaRef,
}

/// A column of the table: its name, in the files too, and its type.
#[derive(Clone, Debug)]
pub(super) struct UsedColumn {
    pub(super) name: String,
    table_type: DataType,
    /// It comes as codes where a file has it so.
    coded: bool,
}

#[derive(Clone, Debug)]
enum Output {
    /// A used column.
    Column(usize),
    /// Of the used columns, in the table's types.
    Computed(Arc<dyn PhysicalExpr>),
}

/// The type in which a column of the table type arrives.
pub(crate) fn narrow(table_type: &DataType) -> DataType {
    match table_type {
        DataType::Decimal128(precision, scale) if *precision <= 18 => DataType::Decimal64(*precision, *scale),
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        other => other.clone(),
    }
}

/// The type in which it arrives as codes.
pub(crate) fn coded(table_type: &DataType) -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(narrow(table_type)))
}

impl Columns {
    /// The columns of a projection of the table, or why the scan does not give them.
    pub(super) fn of(projection: &ProjectionExprs, table: &TableSchema) -> Result<Columns, Unsupported> {
        let no = |why: &str| Err(Unsupported::new("DataSourceExec", why));
        let table = table.table_schema();
        let (mut used, mut outputs, mut fields) = (Vec::new(), Vec::new(), Vec::new());
        let mut places = HashMap::new();
        for projected in projection.iter() {
            for column in collect_columns(&projected.expr) {
                let field = table.field(column.index());
                if field.data_type().is_nested() {
                    return no("has nested columns");
                }
                places.entry(column.index()).or_insert_with(|| {
                    let (name, table_type) = (field.name().clone(), field.data_type().clone());
                    used.push(UsedColumn { name, table_type, coded: false });
                    used.len() - 1
                });
            }
            let (output, data_type) = match projected.expr.downcast_ref::<Column>() {
                Some(column) => {
                    let place = places[&column.index()];
                    (Output::Column(place), narrow(&used[place].table_type))
                }
                None if depends_on_more(&projected.expr) => return no("computes columns of more than columns"),
                None => {
                    let Ok(data_type) = projected.expr.data_type(table) else { return no("computes columns") };
                    let Ok(expr) = moved(&projected.expr, &places) else { return no("computes columns") };
                    (Output::Computed(expr), data_type)
                }
            };
            fields.push(Field::new(&projected.alias, data_type, true));
            outputs.push(output);
        }
        Ok(Columns { used, outputs, schema: Arc::new(Schema::new(fields)) })
    }

    /// The names of outputs that are read from the files as they are; `None` if one is not.
    pub(super) fn names(&self, outputs: &[usize]) -> Option<Vec<&str>> {
        let name = |output: &usize| match self.outputs.get(*output)? {
            Output::Column(place) => Some(self.used.get(*place)?.name.as_str()),
            Output::Computed(_) => None,
        };
        outputs.iter().map(name).collect()
    }

    /// The same, with these outputs as codes where a file has them so.
    pub(super) fn with_codes(mut self, outputs: &[usize]) -> Columns {
        for output in outputs {
            if let Some(Output::Column(place)) = self.outputs.get(*output) {
                self.used[*place].coded = true;
            }
        }
        self
    }

    /// The schema of what the scan gives: narrower than the source's.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Whether some are computed, which can fail: then no row may be left out that DataFusion would compute.
    pub(super) fn computes(&self) -> bool {
        self.outputs.iter().any(|output| matches!(output, Output::Computed(_)))
    }

    /// What the scan gives of a batch that was read from a file: columns of another type are cast, those that are not in
    /// the file are the same in every row of it, or null.
    pub(super) fn adapt(&self, batch: &RecordBatch, constants: &HashMap<String, ScalarValue>) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let column = |used: &UsedColumn, wanted: &DataType| -> Result<ArrayRef> {
            Ok(match (constants.get(&used.name), batch.column_by_name(&used.name)) {
                (Some(value), _) => cast_with_options(&value.to_array_of_size(rows)?, wanted, &CAST)?,
                (None, None) => new_null_array(wanted, rows),
                (None, Some(column)) if column.data_type() == wanted => Arc::clone(column),
                (None, Some(column)) => cast_with_options(column, wanted, &CAST)?,
            })
        };
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let table = match self.computes() {
            true => {
                let fields = self.used.iter().map(|used| Field::new(&used.name, used.table_type.clone(), true));
                let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
                let columns = self.used.iter().map(|used| column(used, &used.table_type)).collect::<Result<_>>()?;
                Some(RecordBatch::try_new_with_options(schema, columns, &options)?)
            }
            false => None,
        };
        let output = |(output, field): (&Output, &Arc<Field>)| match (output, &table) {
            (Output::Column(place), _) => {
                let used = &self.used[*place];
                match codes_of(batch, used).filter(|codes| is_coded(codes, field.data_type())) {
                    Some(codes) => Ok(Arc::clone(codes)),
                    None => column(used, field.data_type()),
                }
            }
            (Output::Computed(expr), Some(table)) => expr.evaluate(table)?.into_array(rows),
            (Output::Computed(_), None) => Ok(new_null_array(field.data_type(), rows)),
        };
        let columns = self.outputs.iter().zip(self.schema.fields()).map(output).collect::<Result<Vec<_>>>()?;
        let schema = match self.used.iter().any(|used| codes_of(batch, used).is_some()) {
            true => {
                let fields = self.schema.fields().iter().zip(&columns);
                let fields = fields.map(|(field, column)| Field::new(field.name(), column.data_type().clone(), true));
                Arc::new(Schema::new(fields.collect::<Vec<_>>()))
            }
            false => Arc::clone(&self.schema),
        };
        Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
    }
}

/// A column that is wanted as codes, if it is not a constant of the file.
fn codes_of<'a>(batch: &'a RecordBatch, used: &UsedColumn) -> Option<&'a ArrayRef> {
    batch.column_by_name(&used.name).filter(|_| used.coded)
}

/// Whether a column is codes of values of that type.
fn is_coded(column: &ArrayRef, values: &DataType) -> bool {
    matches!(column.data_type(), DataType::Dictionary(_, of) if **of == *values)
}

/// Whether the value depends on more than columns: on the file, on chance, on where the row is.
fn depends_on_more(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let more = |expr: &Arc<dyn PhysicalExpr>| {
        let of_nothing = expr.downcast_ref::<ScalarFunctionExpr>().is_some_and(|function| function.args().is_empty());
        Ok(of_nothing || expr.is_volatile_node())
    };
    expr.exists(more).unwrap_or(true)
}

/// The expression over the used columns.
fn moved(expr: &Arc<dyn PhysicalExpr>, places: &HashMap<usize, usize>) -> Result<Arc<dyn PhysicalExpr>> {
    let place = |expr: Arc<dyn PhysicalExpr>| match expr.downcast_ref::<Column>() {
        Some(column) => Ok(Transformed::yes(Arc::new(Column::new(column.name(), places[&column.index()])) as _)),
        None => Ok(Transformed::no(expr)),
    };
    Arc::clone(expr).transform(place).data()
}

impl UsedColumn {
    /// The column of a file, if it has it: in the table's type, or in its own where that has to be converted.
    pub(super) fn of(&self, file: &Schema) -> Option<ScanColumn> {
        let own = file.field_with_name(&self.name).ok()?.data_type();
        let column = ScanColumn::new(&self.name, if self.coded { Form::Encoded } else { Form::Flat });
        let same = own == &self.table_type || (is_text(own) && is_text(&self.table_type));
        // The unit of old timestamps is for the reader to choose.
        let times = own.is_temporal() && self.table_type.is_temporal();
        Some(if same || times { column.with_type(narrow(&self.table_type)) } else { column })
    }
}
