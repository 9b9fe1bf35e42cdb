//! The sort keys of rows as they come, and the [`Prefix`] of each: what tells rows apart before all of them are there.

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalSortExpr;

use crate::column::{Column, Values};
use crate::prefix::Prefix;

/// How rows are ordered.
pub(crate) struct Keys {
    pub(crate) order: Vec<PhysicalSortExpr>,
    /// How values are read; without values.
    pub(crate) columns: Vec<Column>,
    types: Vec<DataType>,
    /// Made when values are seen first.
    pub(crate) prefix: Option<Prefix>,
}

impl Keys {
    /// The keys by which rows are ordered, or why there is no order of them.
    pub(crate) fn new(schema: &Schema, order: &[PhysicalSortExpr]) -> Result<Keys, String> {
        let types: Result<Vec<_>, _> = order.iter().map(|key| key.expr.data_type(schema)).collect();
        let types = types.map_err(|error| error.to_string())?;
        let column = |(data_type, key): (&DataType, &PhysicalSortExpr)| Column::new(data_type, key.options);
        let columns = types.iter().zip(order).map(column).collect::<Result<_, _>>()?;
        Ok(Keys { order: order.to_vec(), columns, types, prefix: None })
    }

    /// The values of these rows, or of all.
    pub(crate) fn values(&self, batch: &RecordBatch, rows: Option<&[u32]>) -> Result<Vec<Values>> {
        let rows = rows.map(|rows| UInt32Array::from(rows.to_vec()));
        let of = |(column, key): (&Column, &PhysicalSortExpr)| {
            let array = key.expr.evaluate(batch)?.into_array(batch.num_rows())?;
            match &rows {
                Some(rows) => column.values(&take(&array, rows, None)?),
                None => column.values(&array),
            }
        };
        self.columns.iter().zip(&self.order).map(of).collect()
    }

    /// The prefixes of the first rows of these values.
    pub(crate) fn prefixes(&mut self, values: &[Values], rows: usize) -> Vec<u128> {
        let prefix = self.prefix.get_or_insert_with(|| {
            let keys = values.iter().zip(&self.types).zip(&self.columns);
            Prefix::of(keys.map(|((values, data_type), column)| (values, data_type, column.options)))
        });
        let mut prefixes = vec![0; rows];
        prefix.keys(values, &mut prefixes);
        prefixes
    }
}
