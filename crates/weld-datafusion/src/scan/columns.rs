//! The columns of a source's output: read from its files, the same in all rows of a file, or computed.
//!
//! ```text
//! projection=[k, p, CAST(p AS Int64) AS q]      k is read as it is stored, p comes from the name of the file's folder,
//!                                               q is computed by DataFusion from p in the table's type
//! ```
//! What is computed of one column of texts is computed once for each entry of its dictionary: see [`entries`](super::entries).

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, internal_err};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use weld_plans::cannot_fail;

use super::adapt::Adapter;
use super::entries::{Evaluated, OfText, in_type, is_texts};
use crate::check::unexpected_nulls;
use crate::lower::Unsupported;
use crate::lower::foreign::may_fail;

/// What a scan gives, and what it reads for that.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    /// Columns of the table; each once.
    pub(super) used: Vec<UsedColumn>,
    outputs: Vec<Output>,
    /// For each output whether the table excludes nulls.
    required: Vec<bool>,
    schema: SchemaRef,
    /// Whether columns come in the table's types.
    declared: bool,
    /// Whether one is computed, here or right above, that may fail: then no row may be left out that DataFusion would compute.
    pub(super) can_fail: bool,
}

/// A column of the table: its name, in the files too, and its type.
#[derive(Clone, Debug)]
pub(super) struct UsedColumn {
    pub(super) name: String,
    pub(super) table_type: DataType,
    pub(super) nullable: bool,
    pub(super) table_index: usize,
    /// It is read as codes, where the file has it so.
    pub(super) coded: bool,
}

#[derive(Clone, Debug)]
enum Output {
    /// A used column; as codes, which are those of a file, or one for each row.
    Column { place: usize, as_code: bool },
    /// Of the used columns, in the table's types.
    Computed(Arc<dyn PhysicalExpr>),
    /// Of one used column of texts.
    OfText(OfText),
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
        let (mut used, mut outputs, mut required, mut fields) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut places, mut can_fail) = (HashMap::new(), false);
        for projected in projection.iter() {
            for column in collect_columns(&projected.expr) {
                let field = table.field(column.index());
                if field.data_type().is_nested() {
                    return no("has nested columns");
                }
                places.entry(column.index()).or_insert_with(|| {
                    let (name, table_type) = (field.name().clone(), field.data_type().clone());
                    let (nullable, table_index) = (field.is_nullable(), column.index());
                    used.push(UsedColumn { name, table_type, nullable, table_index, coded: false });
                    used.len() - 1
                });
            }
            let (output, data_type) = match projected.expr.downcast_ref::<Column>() {
                Some(column) => {
                    let place = places[&column.index()];
                    (Output::Column { place, as_code: false }, narrow(&used[place].table_type))
                }
                None if depends_on_more(&projected.expr) => return no("computes columns of more than columns"),
                None => {
                    let fails = !cannot_fail(&projected.expr, Some(table)) && may_fail(table, &projected.expr);
                    can_fail |= fails;
                    let Ok(data_type) = projected.expr.data_type(table) else { return no("computes columns") };
                    let Ok(expr) = moved(&projected.expr, &places) else { return no("computes columns") };
                    (computed(expr, fails, &mut used)?, narrow(&data_type))
                }
            };
            let Ok(declared) = projected.expr.return_field(table) else { return no("computes columns") };
            required.push(!declared.is_nullable());
            fields.push(Field::new(&projected.alias, data_type, true));
            outputs.push(output);
        }
        Ok(Columns { used, outputs, required, schema: Arc::new(Schema::new(fields)), declared: false, can_fail })
    }

    /// The names of outputs that are read from the files as they are; `None` if one is not.
    pub(super) fn names(&self, outputs: &[usize]) -> Option<Vec<&str>> {
        let name = |output: &usize| match self.outputs.get(*output)? {
            Output::Column { place, .. } => Some(self.used.get(*place)?.name.as_str()),
            Output::Computed(_) | Output::OfText(_) => None,
        };
        outputs.iter().map(name).collect()
    }

    /// The same, with these outputs as codes.
    pub(super) fn with_codes(mut self, outputs: &[usize]) -> Columns {
        for output in outputs {
            if let Some(Output::Column { place, as_code }) = self.outputs.get_mut(*output) {
                self.used[*place].coded = true;
                *as_code = true;
            }
        }
        self
    }

    /// The same, as if one could fail.
    pub(super) fn keeping_rows(self, keeps_rows: bool) -> Columns {
        Columns { can_fail: self.can_fail || keeps_rows, ..self }
    }

    /// The same in the types of the table; `schema` is the source's.
    pub(super) fn in_declared_types(self, schema: SchemaRef) -> Columns {
        Columns { schema, declared: true, ..self }
    }

    /// The columns that are read of the table.
    pub(super) fn used(&self) -> &[UsedColumn] {
        &self.used
    }

    /// The schema of what the scan gives: narrower than the source's, unless it was asked for that.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Whether something is computed by the entries of dictionaries.
    pub(super) fn reads_entries(&self) -> bool {
        self.outputs.iter().any(|output| matches!(output, Output::OfText(_)))
    }

    fn computes(&self) -> bool {
        self.outputs.iter().any(|output| matches!(output, Output::Computed(_)))
    }

    /// What the scan gives of a batch that was read from a file.
    pub(super) fn adapt(&self, batch: &RecordBatch, file: &Adapter, evaluated: &mut Evaluated) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let table = match self.computes() {
            true => {
                let fields = self.used.iter().map(|used| Field::new(&used.name, used.table_type.clone(), true));
                let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
                let column = |(at, used)| file.column(at, used, batch);
                let columns = self.used.iter().enumerate().map(column).collect::<Result<_>>()?;
                Some(RecordBatch::try_new_with_options(schema, columns, &options)?)
            }
            false => None,
        };
        let output = |(output, field): (&Output, &Arc<Field>)| match (output, &table) {
            (Output::Column { place, .. }, _) if self.declared => file.column(*place, &self.used[*place], batch),
            (Output::Column { place, as_code }, _) => file.narrow_column(*place, &self.used[*place], batch, *as_code),
            (Output::Computed(expr), Some(table)) => {
                in_type(&expr.evaluate(table)?.into_array(rows)?, field.data_type())
            }
            (Output::Computed(_), None) => Ok(new_null_array(field.data_type(), rows)),
            (Output::OfText(of), _) => {
                let texts = file.as_read(of.place(), &self.used[of.place()], batch)?;
                evaluated.of(of, &texts, field.data_type())
            }
        };
        let columns = self.outputs.iter().zip(self.schema.fields()).map(output).collect::<Result<Vec<_>>>()?;
        for ((column, field), required) in columns.iter().zip(self.schema.fields()).zip(&self.required) {
            if *required && column.null_count() > 0 {
                return Err(unexpected_nulls(field.name()));
            }
        }
        let fields = self.schema.fields().iter().zip(&columns);
        let schema = match fields.clone().all(|(field, column)| field.data_type() == column.data_type()) {
            true => Arc::clone(&self.schema),
            false => {
                let fields = fields.map(|(field, column)| Field::new(field.name(), column.data_type().clone(), true));
                Arc::new(Schema::new(fields.collect::<Vec<_>>()))
            }
        };
        Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
    }
}

/// What is computed of used columns. One of texts is read as codes, unless it `fails` for some: a dictionary may have texts that no
/// row has which comes out.
fn computed(expr: Arc<dyn PhysicalExpr>, fails: bool, used: &mut [UsedColumn]) -> Result<Output, Unsupported> {
    let places = collect_columns(&expr);
    let mut places = places.iter().map(Column::index);
    match (places.next(), places.next()) {
        (Some(place), None) if !fails && is_texts(&used[place].table_type) => {
            let of = OfText::new(expr, place, &used[place]);
            used[place].coded = true;
            of.map(Output::OfText).map_err(|error| Unsupported::new("DataSourceExec", error))
        }
        _ => Ok(Output::Computed(expr)),
    }
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
    /// The column in a batch that was read from a file.
    pub(super) fn of<'a>(&self, batch: &'a RecordBatch) -> Result<&'a ArrayRef> {
        match batch.column_by_name(&self.name) {
            Some(column) => Ok(column),
            None => internal_err!("the column {} was not read", self.name),
        }
    }
}
