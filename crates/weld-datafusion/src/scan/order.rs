//! Row groups in the order in which the first rows of a sort are found soon.
//!
//! ```text
//! ORDER BY ts DESC LIMIT 10      files that were written day by day: the last row group has all ten, and then a
//!                                dynamic filter rules the others out
//! ```
//! DataFusion's scan reads files, and the row groups of each, by their least values where a sort above wants few rows. By
//! which is private to it, but it puts any files in order: here each row group stands for a file.

use std::sync::Arc;

use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Result, ScalarValue, Statistics};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::FileSource;
use datafusion::parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use datafusion::parquet::file::metadata::ParquetMetaData;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;

use arrow::datatypes::Schema;

/// Puts row groups in order.
#[derive(Clone)]
pub(super) struct Order {
    source: Arc<dyn FileSource>,
    /// The columns by whose values it may be.
    columns: Vec<String>,
}

impl Order {
    /// `None` if no sort wants an order. A sort tells the scan what it does not need any more by a filter of the columns that
    /// it sorts by.
    pub(super) fn of(source: &Arc<dyn FileSource>, filter: Option<&Arc<dyn PhysicalExpr>>) -> Option<Order> {
        let columns: Vec<String> = collect_columns(filter?).iter().map(|column| column.name().to_owned()).collect();
        let order = Order { source: Arc::clone(source), columns };
        let files = |[a, b]: [i64; 2]| {
            let least = |value: i64| order.file(value as usize, |_| Some(ScalarValue::Int64(Some(value))));
            order.places(vec![least(a), least(b)])
        };
        (files([0, 1]) != [0, 1] || files([1, 0]) != [1, 0]).then_some(order)
    }

    /// The row groups in order.
    pub(super) fn put(&self, groups: &[usize], metadata: &ParquetMetaData, schema: &Schema) -> Result<Vec<usize>> {
        let descriptor = metadata.file_metadata().schema_descr();
        let mut least = Vec::new();
        for column in self.columns.iter().filter(|column| schema.index_of(column).is_ok()) {
            let converter = StatisticsConverter::try_new(column, schema, descriptor)?;
            least.push((column, converter.row_group_mins(groups.iter().map(|group| metadata.row_group(*group)))?));
        }
        let file = |place: usize| {
            let of_column = |name: &str| {
                let (_, values) = least.iter().find(|(column, _)| *column == name)?;
                ScalarValue::try_from_array(values, place).ok().filter(|value| !value.is_null())
            };
            self.file(place, of_column)
        };
        let places = self.places((0..groups.len()).map(file).collect());
        Ok(places.into_iter().map(|place| groups[place]).collect())
    }

    /// A file whose size is `place`, with these least values of columns.
    fn file(&self, place: usize, least: impl Fn(&str) -> Option<ScalarValue>) -> PartitionedFile {
        let table = self.source.table_schema().table_schema();
        let of_column = |name: &String| {
            let min_value = least(name).filter(|_| self.columns.contains(name));
            let min_value = min_value.map_or(Precision::Absent, Precision::Exact);
            ColumnStatistics { min_value, ..ColumnStatistics::new_unknown() }
        };
        let column_statistics = table.fields().iter().map(|field| of_column(field.name())).collect();
        let statistics =
            Statistics { num_rows: Precision::Absent, total_byte_size: Precision::Absent, column_statistics };
        PartitionedFile::new("", place as u64).with_statistics(Arc::new(statistics))
    }

    fn places(&self, files: Vec<PartitionedFile>) -> Vec<usize> {
        let ordered = self.source.reorder_files(files);
        ordered.into_iter().map(|file| file.object_meta.size as usize).collect()
    }
}
