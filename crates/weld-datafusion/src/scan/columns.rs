//! The columns of a source's output: read from its files, the same in all rows of a file, or computed.
//!
//! ```text
//! projection=[k, p, CAST(p AS Int64) AS q]      k is read as it is stored, p comes from the name of the file's folder,
//!                                               q is computed by DataFusion from p in the table's type
//! projection=[get_field(addr, 'zip') AS zip]    the field is a column of the files, read without the rest of addr
//! ```
//! What is computed of one column of texts is computed once for each entry of its dictionary: see
//! [`entries`](super::entries).

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::parquet::schema::types::ColumnPath;
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use weld_arrow::null_array;
use weld_plans::cannot_fail;

use super::adapt::Adapter;
use super::entries::{Evaluated, OfText, in_type};
use super::paths::{path_of, with_columns};
use crate::lower::Unsupported;
use crate::lower::foreign::may_fail;
use crate::validate_arrays::unexpected_nulls;

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
    /// Whether one is computed, here or right above, that may fail: then no row may be left out that DataFusion would
    /// compute.
    pub(super) can_fail: bool,
}

/// A column of the table, or a field of one: where it is, in the files too, and its type.
#[derive(Clone, Debug)]
pub(super) struct UsedColumn {
    pub(super) path: ColumnPath,
    /// It over the table.
    pub(super) expr: Arc<dyn PhysicalExpr>,
    pub(super) table_type: DataType,
    pub(super) nullable: bool,
    /// It is read as codes, where the file has it so.
    pub(super) coded: bool,
}

#[derive(Clone, Debug)]
enum Output {
    /// A used column; as codes, which are those of a file, or one for each row.
    Column { place: usize, as_code: bool },
    /// The texts of a used column, in another type of text: those of a dictionary that is compared with plain texts.
    Texts { place: usize, as_code: bool },
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

/// The type in which it arrives as codes. Dictionaries are codes already; the entries of text are views, which are
/// compared by their first bytes.
pub(crate) fn coded(table_type: &DataType) -> DataType {
    let entries = match table_type {
        DataType::Dictionary(_, entries) if entries.is_string() => entries,
        DataType::Dictionary(..) => return table_type.clone(),
        values => values,
    };
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(narrow(entries)))
}

/// Whether it is a dictionary of text.
pub(crate) fn is_dictionary_of_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Dictionary(_, entries) if entries.is_string())
}

impl Columns {
    /// The columns of a projection of the table, or why the scan does not give them.
    pub(super) fn of(projection: &ProjectionExprs, table: &TableSchema) -> Result<Columns, Unsupported> {
        let no = |why: &str| Err(Unsupported::new("DataSourceExec", why));
        let table = table.table_schema();
        let mut used = UsedColumns::of(projection, table);
        let (mut outputs, mut required, mut fields, mut can_fail) = (Vec::new(), Vec::new(), Vec::new(), false);
        for projected in projection.iter() {
            let Ok(expr) = used.moved(&projected.expr) else { return no("computes columns") };
            let (output, data_type) = if let Some(column) = expr.downcast_ref::<Column>() {
                let place = column.index();
                (Output::Column { place, as_code: false }, narrow(&used.columns[place].table_type))
            } else if let Some((place, data_type)) = texts_of(&expr, &used.columns) {
                (Output::Texts { place, as_code: false }, narrow(data_type))
            } else if depends_on_more(&projected.expr) {
                return no("computes columns of more than columns");
            } else {
                let over = schema_of(&used.columns);
                let fails = !cannot_fail(&expr, Some(&over)) && may_fail(&over, &expr);
                can_fail |= fails;
                let Ok(data_type) = projected.expr.data_type(table) else { return no("computes columns") };
                (computed(expr, fails, &mut used.columns)?, narrow(&data_type))
            };
            let Ok(declared) = projected.expr.return_field(table) else { return no("computes columns") };
            required.push(!declared.is_nullable());
            fields.push(Field::new(&projected.alias, data_type, true));
            outputs.push(output);
        }
        let (used, schema) = (used.columns, Arc::new(Schema::new(fields)));
        Ok(Columns { used, outputs, required, schema, declared: false, can_fail })
    }

    /// The paths of outputs that are read from the files as they are, but for the type of texts; `None` if one is not.
    pub(super) fn paths(&self, outputs: &[usize]) -> Option<Vec<&ColumnPath>> {
        let path = |output: &usize| match self.outputs.get(*output)? {
            Output::Column { place, .. } | Output::Texts { place, .. } => Some(&self.used.get(*place)?.path),
            Output::Computed(_) | Output::OfText(_) => None,
        };
        outputs.iter().map(path).collect()
    }

    /// The same, with these outputs as codes.
    pub(super) fn with_codes(mut self, outputs: &[usize]) -> Columns {
        for output in outputs {
            let output = self.outputs.get_mut(*output);
            if let Some(Output::Column { place, as_code } | Output::Texts { place, as_code }) = output {
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
                let schema = Arc::new(schema_of(&self.used));
                let column = |(at, used)| file.column(at, used, batch);
                let columns = self.used.iter().enumerate().map(column).collect::<Result<_>>()?;
                Some(RecordBatch::try_new_with_options(schema, columns, &options)?)
            }
            false => None,
        };
        let output = |(output, field): (&Output, &Arc<Field>)| match (output, &table) {
            (Output::Column { place, .. }, _) if self.declared => file.column(*place, &self.used[*place], batch),
            (Output::Column { place, as_code: true }, _) => {
                let used = &self.used[*place];
                let column = file.narrow_column(*place, used, batch, true)?;
                match is_dictionary_of_text(&used.table_type) {
                    true => evaluated.as_views(&column),
                    false => Ok(column),
                }
            }
            (Output::Column { place, as_code }, _) => file.narrow_column(*place, &self.used[*place], batch, *as_code),
            (Output::Texts { place, .. }, _) if self.declared => {
                in_type(&file.column(*place, &self.used[*place], batch)?, field.data_type())
            }
            (Output::Texts { place, as_code }, _) => {
                let column = file.narrow_column(*place, &self.used[*place], batch, *as_code)?;
                if *as_code { evaluated.as_views(&column) } else { in_type(&column, field.data_type()) }
            }
            (Output::Computed(expr), Some(table)) => {
                in_type(&expr.evaluate(table)?.into_array(rows)?, field.data_type())
            }
            (Output::Computed(_), None) => Ok(null_array(field.data_type(), rows)),
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

/// The used column whose texts are cast to another type of text, and that type.
fn texts_of<'e>(expr: &'e Arc<dyn PhysicalExpr>, used: &[UsedColumn]) -> Option<(usize, &'e DataType)> {
    let cast = expr.downcast_ref::<CastExpr>()?;
    let place = cast.expr().downcast_ref::<Column>()?.index();
    let from = &used.get(place)?.table_type;
    let is_text = from.is_string() || is_dictionary_of_text(from);
    (is_text && cast.cast_type().is_string()).then_some((place, cast.cast_type()))
}

/// What is computed of used columns. One of texts is read as codes, unless it `fails` for some: a dictionary may have
/// texts that no row has which comes out.
fn computed(expr: Arc<dyn PhysicalExpr>, fails: bool, used: &mut [UsedColumn]) -> Result<Output, Unsupported> {
    let places = collect_columns(&expr);
    let mut places = places.iter().map(Column::index);
    match (places.next(), places.next()) {
        (Some(place), None) if !fails && used[place].table_type.is_string() => {
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

/// The used columns in the table's types. Files may have nulls where the table says that there are none: that is
/// checked.
fn schema_of(used: &[UsedColumn]) -> Schema {
    let field = |used: &UsedColumn| Field::new(used.path.string(), used.table_type.clone(), true);
    Schema::new(used.iter().map(field).collect::<Vec<_>>())
}

/// Columns of a table as they are found to be used.
struct UsedColumns<'a> {
    table: &'a Schema,
    columns: Vec<UsedColumn>,
    /// Columns of the table that something reads whole: fields are computed of them.
    whole: HashSet<usize>,
}

impl<'a> UsedColumns<'a> {
    fn of(projection: &ProjectionExprs, table: &'a Schema) -> UsedColumns<'a> {
        let mut whole = HashSet::new();
        for projected in projection.iter() {
            let walked = projected.expr.apply(|part| {
                if let Some(column) = part.downcast_ref::<Column>() {
                    whole.insert(column.index());
                }
                let is_path = path_of(part, table).is_some();
                Ok(if is_path { TreeNodeRecursion::Jump } else { TreeNodeRecursion::Continue })
            });
            debug_assert!(walked.is_ok());
        }
        UsedColumns { table, columns: Vec::new(), whole }
    }

    /// An expression over the used columns.
    fn moved(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let table = self.table;
        with_columns(Arc::clone(expr), table, |expr, path| {
            let is_computed = |column: &Column| self.whole.contains(&column.index());
            if !expr.is::<Column>() && collect_columns(expr).iter().any(is_computed) {
                return None;
            }
            let place = match self.columns.iter().position(|used| used.path == path) {
                Some(place) => place,
                None => {
                    self.columns.push(UsedColumn::new(expr, path.clone(), table).ok()?);
                    self.columns.len() - 1
                }
            };
            Some(Column::new(&path.string(), place))
        })
    }
}

impl UsedColumn {
    fn new(expr: &Arc<dyn PhysicalExpr>, path: ColumnPath, table: &Schema) -> Result<UsedColumn> {
        let field = expr.return_field(table)?;
        let (table_type, nullable) = (field.data_type().clone(), field.is_nullable());
        Ok(UsedColumn { path, expr: Arc::clone(expr), table_type, nullable, coded: false })
    }

    /// The column of the table that it is, or is a field of.
    pub(super) fn root(&self) -> &str {
        self.path.parts().first().map_or("", String::as_str)
    }
}
