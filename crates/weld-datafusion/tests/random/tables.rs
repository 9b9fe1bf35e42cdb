//! Random tables: every column type, in one piece or in many batches, some of them sorted.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::{SortOptions, concat_batches, sort_to_indices, take_record_batch};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, IntervalUnit, Schema, TimeUnit};
use arrow::util::pretty::pretty_format_batches;
use datafusion::logical_expr::{SortExpr, col};
use parquet::arrow::ArrowSchemaConverter;
use weld_test::generate::rng::Rng;

use super::values::{Style, column};

/// What an expression over a column may do with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Bool,
    Int,
    Float,
    Decimal,
    Date,
    Timestamp,
    Time,
    Duration,
    Interval,
    Text,
    Binary,
    /// Of `BIGINT`.
    List,
    /// Structs, maps, lists of others: they are moved, and asked for their fields.
    Nested,
}

#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) name: String,
    /// What expressions may refer to: columns, and fields of structs.
    pub(crate) columns: Vec<(String, Kind)>,
    pub(crate) batches: Vec<RecordBatch>,
    /// How the rows are ordered by the first column, if they are.
    pub(crate) order: Option<SortOptions>,
}

pub(crate) fn kind(data_type: &DataType) -> Kind {
    match data_type {
        DataType::Boolean => Kind::Bool,
        data_type if data_type.is_floating() => Kind::Float,
        data_type if data_type.is_decimal() => Kind::Decimal,
        DataType::Date32 | DataType::Date64 => Kind::Date,
        DataType::Timestamp(..) => Kind::Timestamp,
        DataType::Time32(_) | DataType::Time64(_) => Kind::Time,
        DataType::Duration(_) => Kind::Duration,
        DataType::Interval(_) => Kind::Interval,
        data_type if data_type.is_integer() => Kind::Int,
        DataType::List(item) if item.data_type() == &DataType::Int64 => Kind::List,
        DataType::Dictionary(_, value) => kind(value),
        DataType::RunEndEncoded(_, value) => kind(value.data_type()),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Kind::Text,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => Kind::Binary,
        _ => Kind::Nested,
    }
}

fn dictionary(key: DataType, value: DataType) -> DataType {
    DataType::Dictionary(Box::new(key), Box::new(value))
}

/// Those of which most columns are.
fn common_types() -> Vec<DataType> {
    vec![
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Float32,
        DataType::Float64,
        DataType::Float64,
        DataType::Decimal128(5, 2),
        DataType::Decimal128(15, 2),
        DataType::Decimal128(18, 4),
        DataType::Decimal128(19, 0),
        DataType::Decimal128(38, 10),
        DataType::Decimal32(7, 2),
        DataType::Decimal64(16, 3),
        DataType::Decimal256(45, 3),
        DataType::Boolean,
        DataType::Boolean,
        DataType::Date32,
        DataType::Date32,
        DataType::Date64,
        DataType::Timestamp(TimeUnit::Second, None),
        DataType::Timestamp(TimeUnit::Millisecond, None),
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamp(TimeUnit::Nanosecond, None),
        DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        DataType::Utf8,
        DataType::Utf8View,
        DataType::Utf8View,
        DataType::LargeUtf8,
        dictionary(DataType::Int32, DataType::Utf8),
        dictionary(DataType::UInt16, DataType::Utf8),
        DataType::new_list(DataType::Int64, true),
        DataType::new_list(DataType::Int64, true),
    ]
}

fn rare_types() -> Vec<DataType> {
    let (seconds, nanos) = (TimeUnit::Second, TimeUnit::Nanosecond);
    let field = |name: &str, data_type, nullable| Field::new(name, data_type, nullable);
    let pair = Fields::from(vec![field("n", DataType::Int32, true), field("t", DataType::Utf8, false)]);
    let entries = Fields::from(vec![field("keys", DataType::Utf8, false), field("values", DataType::Int64, true)]);
    let entries = Arc::new(field("entries", DataType::Struct(entries), false));
    let runs = |value| {
        DataType::RunEndEncoded(
            Arc::new(field("run_ends", DataType::Int32, false)),
            Arc::new(field("values", value, true)),
        )
    };
    vec![
        DataType::Float16,
        DataType::Decimal128(38, 0),
        DataType::Decimal128(38, 37),
        DataType::Decimal128(12, -2),
        DataType::Decimal256(76, 20),
        DataType::Time32(seconds),
        DataType::Time32(TimeUnit::Millisecond),
        DataType::Time64(TimeUnit::Microsecond),
        DataType::Time64(nanos),
        DataType::Duration(seconds),
        DataType::Duration(nanos),
        DataType::Interval(IntervalUnit::YearMonth),
        DataType::Interval(IntervalUnit::DayTime),
        DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::Timestamp(seconds, Some("America/New_York".into())),
        DataType::Timestamp(TimeUnit::Millisecond, Some("+05:30".into())),
        DataType::Timestamp(nanos, Some("UTC".into())),
        DataType::Timestamp(nanos, Some("Europe/Berlin".into())),
        DataType::Binary,
        DataType::LargeBinary,
        DataType::BinaryView,
        DataType::FixedSizeBinary(3),
        dictionary(DataType::Int8, DataType::Int64),
        dictionary(DataType::Int16, DataType::Float64),
        dictionary(DataType::UInt32, DataType::Decimal128(15, 2)),
        dictionary(DataType::Int64, DataType::Date32),
        dictionary(DataType::UInt64, DataType::LargeUtf8),
        dictionary(DataType::Int32, DataType::Utf8View),
        dictionary(DataType::UInt8, DataType::Binary),
        runs(DataType::Int64),
        runs(DataType::Utf8),
        DataType::Struct(pair.clone()),
        DataType::Struct(pair.clone()),
        DataType::Map(entries, false),
        DataType::new_list(DataType::Utf8, true),
        DataType::new_list(DataType::Struct(pair), true),
        DataType::new_large_list(DataType::Int64, false),
        DataType::new_fixed_size_list(DataType::Float64, 2, true),
    ]
}

/// Whether Parquet files have columns of the type.
fn is_storable(field: &Field) -> bool {
    // The writer has none for what the schema allows.
    let is_written = match field.data_type() {
        DataType::RunEndEncoded(..) | DataType::Duration(_) | DataType::Interval(IntervalUnit::MonthDayNano) => false,
        DataType::Dictionary(_, value) => **value != DataType::Utf8View,
        _ => true,
    };
    is_written && ArrowSchemaConverter::new().convert(&Schema::new(vec![field.clone()])).is_ok()
}

/// What may be asked of a column by its name: itself, and its fields.
fn referable(field: &FieldRef) -> Vec<(String, Kind)> {
    let mut all = vec![(field.name().clone(), kind(field.data_type()))];
    if let DataType::Struct(fields) = field.data_type() {
        all.extend(fields.iter().map(|of| (format!("{}.{}", field.name(), of.name()), kind(of.data_type()))));
    }
    all
}

impl Table {
    /// Names of columns differ between tables, so that expressions need no qualifiers. `stored` tables are for files.
    pub(crate) fn new(rng: &mut Rng, name: &str, stored: bool) -> Table {
        let (common, rare) = (common_types(), rare_types());
        let mut fields: Vec<Field> = Vec::new();
        let mut styles = Vec::new();
        for index in 0..3 + rng.below(6) {
            // The first is a number that joins well.
            let field = loop {
                let types = match index {
                    0 => &common[..9],
                    _ if rng.one_in(4) => &rare,
                    _ => &common,
                };
                let data_type = rng.pick(types);
                let field = Field::new(format!("{name}{index}"), data_type, !rng.one_in(3));
                if !stored || is_storable(&field) {
                    break field;
                }
            };
            fields.push(field);
            styles.push(if index > 0 && rng.one_in(3) { Style::Extreme } else { Style::Few });
        }
        let schema = Arc::new(Schema::new(fields));
        let large = rng.one_in(10);
        let rows = if large { LARGE + rng.below(9000) } else { rng.pick(&[0, 1, 5, 20, 60, 120]) };
        let batch_rows = if large { rng.pick(&[700, 5000]) } else { rng.pick(&[1, 4, 7, 50, 1000]) };
        // Many nullable columns have no nulls at all.
        let full: Vec<bool> = schema.fields().iter().map(|_| rng.one_in(3)).collect();
        let mut batches = Vec::new();
        let mut left = rows;
        while left > 0 || batches.is_empty() {
            let rows = if rng.one_in(10) { 0 } else { left.min(batch_rows) };
            // Others often have none in a batch.
            let columns = schema.fields().iter().zip(&styles).zip(&full).map(|((field, style), full)| {
                let nulls = field.is_nullable() && !full && !rng.one_in(4);
                column(rng, field.data_type(), *style, rows, nulls)
            });
            let columns = columns.collect();
            batches.push(RecordBatch::try_new(Arc::clone(&schema), columns).expect("columns as the schema has them"));
            left -= rows;
        }
        let columns = schema.fields().iter().flat_map(referable).collect();
        let order = rng.one_in(6).then(|| SortOptions::new(rng.one_in(2), rng.one_in(2)));
        Table { name: name.to_owned(), columns, batches, order }.sorted(batch_rows)
    }

    /// The rows in their declared order.
    fn sorted(mut self, batch_rows: usize) -> Table {
        let Some(options) = self.order else { return self };
        let whole = concat_batches(&self.batches[0].schema(), &self.batches).expect("one schema");
        let order = sort_to_indices(whole.column(0), Some(options), None).expect("integers");
        let whole = take_record_batch(&whole, &order).expect("rows of the table");
        let rows = whole.num_rows();
        self.batches =
            (0..rows.max(1)).step_by(batch_rows).map(|at| whole.slice(at, batch_rows.min(rows - at))).collect();
        self
    }

    /// The order as DataFusion is told it.
    pub(crate) fn sort_order(&self) -> Vec<Vec<SortExpr>> {
        let first = self.batches[0].schema().field(0).name().clone();
        let order = |options: SortOptions| vec![col(first).sort(!options.descending, options.nulls_first)];
        self.order.map(order).into_iter().collect()
    }

    pub(crate) fn is_large(&self) -> bool {
        self.rows() >= LARGE
    }

    /// Tables with fewer rows or fewer batches, the smallest first: for what still fails with less.
    pub(crate) fn smaller(&self) -> Vec<Table> {
        let with = |batches: Vec<RecordBatch>| Table { batches, ..self.clone() };
        let mut smaller = Vec::new();
        if self.batches.len() > 1 {
            let (left, right) = self.batches.split_at(self.batches.len() / 2);
            smaller.extend([with(left.to_vec()), with(right.to_vec())]);
        } else if let [batch] = self.batches.as_slice() {
            let rows = batch.num_rows();
            if rows > 0 {
                let half = rows / 2;
                smaller.extend([with(vec![batch.slice(0, half)]), with(vec![batch.slice(half, rows - half)])]);
                let all_but = |row: usize| vec![batch.slice(0, row), batch.slice(row + 1, rows - row - 1)];
                let joined = |row: usize| concat_batches(&batch.schema(), &all_but(row));
                let few = if rows <= 12 { rows } else { 0 };
                smaller.extend((0..few).filter_map(|row| Some(with(vec![joined(row).ok()?]))));
            }
        }
        smaller.retain(|table| table.rows() < self.rows() || table.batches.len() < self.batches.len());
        smaller
    }

    /// Its batches in two partitions.
    pub(crate) fn partitions(&self) -> Vec<Vec<RecordBatch>> {
        let mut partitions = vec![Vec::new(), Vec::new()];
        for (index, batch) in self.batches.iter().enumerate() {
            partitions[index % 2].push(batch.clone());
        }
        partitions
    }

    /// Its types and its rows.
    pub(crate) fn describe(&self) -> String {
        let describe = |field: &FieldRef| {
            format!("{} {}{}", field.name(), field.data_type(), if field.is_nullable() { "" } else { " NOT NULL" })
        };
        let columns: Vec<String> = self.batches[0].schema().fields().iter().map(describe).collect();
        let order = self.order.map_or(String::new(), |options| format!(" ordered by the first column, {options}"));
        let rows = match self.rows() {
            rows if rows > 100 => format!("{rows} rows"),
            _ => pretty_format_batches(&self.batches).expect("printable values").to_string(),
        };
        format!("{} ({}){order}\n{rows}", self.name, columns.join(", "))
    }

    pub(crate) fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

/// The same rows, one a batch.
pub(crate) fn one_row_batches(batches: &[RecordBatch]) -> Vec<RecordBatch> {
    let rows = |batch: &RecordBatch| (0..batch.num_rows()).map(|row| batch.slice(row, 1)).collect::<Vec<_>>();
    batches.iter().flat_map(rows).collect()
}

/// From so many rows on a table is large: more than a chunk of compiled code.
const LARGE: usize = 1500;
