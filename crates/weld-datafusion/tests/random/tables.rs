//! Random tables: every column type, nulls or none (with garbage or zeros under them), few distinct values or extreme
//! ones, whole or sliced arrays.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, Decimal32Array, Decimal64Array, Decimal128Array,
    Decimal256Array, DictionaryArray, Float32Array, Float64Array, LargeStringArray, ListArray, PrimitiveArray,
    RecordBatch, StringArray, StringViewArray, UInt16Array, make_array,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    ArrowNativeType, DataType, Date32Type, Date64Type, Field, FieldRef, Int8Type, Int16Type, Int32Type, Int64Type,
    Schema, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type, i256,
};
use arrow::util::pretty::pretty_format_batches;
use weld_test::generate::rng::Rng;

/// What an expression over a column may do with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Bool,
    Int,
    Float,
    Decimal,
    Date,
    Timestamp,
    Text,
    /// Of `BIGINT`.
    List,
}

#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) columns: Vec<(String, Kind)>,
    pub(crate) batches: Vec<RecordBatch>,
}

pub(crate) fn kind(data_type: &DataType) -> Kind {
    match data_type {
        DataType::Boolean => Kind::Bool,
        DataType::Float32 | DataType::Float64 => Kind::Float,
        data_type if data_type.is_decimal() => Kind::Decimal,
        DataType::Date32 | DataType::Date64 => Kind::Date,
        DataType::Timestamp(..) => Kind::Timestamp,
        data_type if data_type.is_integer() => Kind::Int,
        DataType::List(_) => Kind::List,
        _ => Kind::Text,
    }
}

fn data_types() -> Vec<DataType> {
    let dictionary = |key: DataType, value: DataType| DataType::Dictionary(Box::new(key), Box::new(value));
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

impl Table {
    /// Names of columns differ between tables, so that expressions need no qualifiers.
    pub(crate) fn new(rng: &mut Rng, name: &str) -> Table {
        let types = data_types();
        let mut fields = Vec::new();
        let mut styles = Vec::new();
        for index in 0..3 + rng.below(6) {
            // The first is a number that joins well.
            let data_type = if index == 0 { types[rng.below(9)].clone() } else { rng.pick(&types) };
            fields.push(Field::new(format!("{name}{index}"), data_type, !rng.one_in(3)));
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
        let columns = schema.fields().iter().map(|field| (field.name().clone(), kind(field.data_type()))).collect();
        Table { name: name.to_owned(), columns, batches }
    }

    pub(crate) fn is_large(&self) -> bool {
        self.rows() >= LARGE
    }

    /// The same rows, one a batch.
    pub(crate) fn one_row_batches(&self) -> Vec<RecordBatch> {
        let rows = |batch: &RecordBatch| (0..batch.num_rows()).map(|row| batch.slice(row, 1)).collect::<Vec<_>>();
        self.batches.iter().flat_map(rows).collect()
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
                let joined = |row: usize| arrow::compute::concat_batches(&batch.schema(), &all_but(row));
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
        let rows = match self.rows() {
            rows if rows > 100 => format!("{rows} rows"),
            _ => pretty_format_batches(&self.batches).expect("printable values").to_string(),
        };
        format!("{} ({})\n{rows}", self.name, columns.join(", "))
    }

    pub(crate) fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

/// From so many rows on a table is large: more than a chunk of compiled code.
const LARGE: usize = 1500;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Style {
    /// Keys: few distinct values.
    Few,
    /// Anything that the type holds.
    Extreme,
}

const TEXTS: [&str; 12] = [
    "",
    "a",
    "ab",
    "abc",
    "weld",
    "Weld",
    "twelve bytes",
    "thirteen byte",
    "a string that is longer than twelve bytes",
    "a string that is longer than twelve too",
    "größe ∞",
    "100%_\\",
];

fn column(rng: &mut Rng, data_type: &DataType, style: Style, rows: usize, nulls: bool) -> ArrayRef {
    // A slice has an offset and, by luck, bitmaps that begin within a byte.
    let (before, after) = if rng.one_in(3) { (rng.below(20), rng.below(3)) } else { (0, 0) };
    let total = before + rows + after;
    let null_odds = 2 + rng.below(6);
    let here: Vec<bool> = (0..total).map(|_| !(nulls && rng.one_in(null_odds))).collect();
    // Dictionaries have nulls among their entries as well.
    let garbage = nulls && !matches!(data_type, DataType::Dictionary(..)) && !rng.one_in(4);
    let whole = if garbage {
        let present = values(rng, data_type, style, &vec![true; total]);
        let under_nulls = present.to_data().into_builder().nulls(Some(NullBuffer::from(here)));
        make_array(under_nulls.build().expect("as many bits as rows"))
    } else {
        values(rng, data_type, style, &here)
    };
    whole.slice(before, rows)
}

fn values(rng: &mut Rng, data_type: &DataType, style: Style, here: &[bool]) -> ArrayRef {
    let (i64_min, i64_max) = (i128::from(i64::MIN), i128::from(i64::MAX));
    match data_type {
        DataType::Int8 => integers::<Int8Type>(rng, style, here, i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => integers::<Int16Type>(rng, style, here, i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => integers::<Int32Type>(rng, style, here, i32::MIN.into(), i32::MAX.into()),
        DataType::Int64 => integers::<Int64Type>(rng, style, here, i64_min, i64_max),
        DataType::UInt8 => integers::<UInt8Type>(rng, style, here, 0, u8::MAX.into()),
        DataType::UInt16 => integers::<UInt16Type>(rng, style, here, 0, u16::MAX.into()),
        DataType::UInt32 => integers::<UInt32Type>(rng, style, here, 0, u32::MAX.into()),
        DataType::UInt64 => integers::<UInt64Type>(rng, style, here, 0, u64::MAX.into()),
        DataType::Float32 => {
            Arc::new(here.iter().map(|here| here.then(|| float(rng, style) as f32)).collect::<Float32Array>())
        }
        DataType::Float64 => {
            Arc::new(here.iter().map(|here| here.then(|| float(rng, style))).collect::<Float64Array>())
        }
        DataType::Decimal32(p, s) => {
            let values = decimals(rng, style, here, *p).into_iter().map(|v| v.map(|v| v as i32));
            Arc::new(values.collect::<Decimal32Array>().with_precision_and_scale(*p, *s).expect("a valid type"))
        }
        DataType::Decimal64(p, s) => {
            let values = decimals(rng, style, here, *p).into_iter().map(|v| v.map(|v| v as i64));
            Arc::new(values.collect::<Decimal64Array>().with_precision_and_scale(*p, *s).expect("a valid type"))
        }
        DataType::Decimal128(p, s) => {
            let values = decimals(rng, style, here, *p).into_iter();
            Arc::new(values.collect::<Decimal128Array>().with_precision_and_scale(*p, *s).expect("a valid type"))
        }
        DataType::Decimal256(p, s) => {
            let values = decimals(rng, style, here, 38).into_iter().map(|v| v.map(i256::from_i128));
            Arc::new(values.collect::<Decimal256Array>().with_precision_and_scale(*p, *s).expect("a valid type"))
        }
        DataType::Boolean => Arc::new(here.iter().map(|here| here.then(|| rng.one_in(2))).collect::<BooleanArray>()),
        DataType::Date32 => integers::<Date32Type>(rng, style, here, -30_000, 60_000),
        DataType::Date64 => {
            let days = |rng: &mut Rng| (integer(rng, style, -30_000, 60_000) * 86_400_000) as i64;
            let values = here.iter().map(|here| here.then(|| days(rng)));
            Arc::new(values.collect::<PrimitiveArray<Date64Type>>())
        }
        DataType::Timestamp(unit, zone) => {
            let mut of = |per_second: i128| -> Vec<Option<i64>> {
                let time = |rng: &mut Rng| {
                    let seconds = integer(rng, style, -2_000_000_000, 4_000_000_000);
                    (seconds * per_second + if rng.one_in(2) { 0 } else { per_second / 4 }) as i64
                };
                here.iter().map(|here| here.then(|| time(rng))).collect()
            };
            let zone = zone.clone();
            match unit {
                TimeUnit::Second => Arc::new(PrimitiveArray::<TimestampSecondType>::from(of(1))),
                TimeUnit::Millisecond => Arc::new(PrimitiveArray::<TimestampMillisecondType>::from(of(1_000))),
                TimeUnit::Microsecond => {
                    Arc::new(PrimitiveArray::<TimestampMicrosecondType>::from(of(1_000_000)).with_timezone_opt(zone))
                }
                TimeUnit::Nanosecond => Arc::new(PrimitiveArray::<TimestampNanosecondType>::from(of(1_000_000_000))),
            }
        }
        DataType::Utf8 => Arc::new(texts(rng, style, here).into_iter().collect::<StringArray>()),
        DataType::LargeUtf8 => Arc::new(texts(rng, style, here).into_iter().collect::<LargeStringArray>()),
        DataType::Utf8View => Arc::new(texts(rng, style, here).into_iter().collect::<StringViewArray>()),
        DataType::Dictionary(key, _) => {
            // Entries that nobody refers to, twice the same, or null.
            let entries =
                Arc::new(StringArray::from(vec![Some("a"), Some("weld"), None, Some("abc"), Some("a"), Some("")]));
            let null_entry = here.iter().any(|here| !here);
            let mut code = || loop {
                let code = rng.below(entries.len());
                if code != 2 || null_entry {
                    return code;
                }
            };
            let codes: Vec<Option<usize>> = here.iter().map(|here| here.then(&mut code)).collect();
            if **key == DataType::UInt16 {
                let keys: UInt16Array = codes.iter().map(|code| code.map(|code| code as u16)).collect();
                Arc::new(DictionaryArray::new(keys, entries))
            } else {
                let keys: PrimitiveArray<Int32Type> = codes.iter().map(|code| code.map(|code| code as i32)).collect();
                Arc::new(DictionaryArray::new(keys, entries))
            }
        }
        DataType::List(_) => {
            let list = |rng: &mut Rng| -> Vec<Option<i64>> {
                let item = |rng: &mut Rng| (!rng.one_in(6)).then(|| integer(rng, style, i64_min, i64_max) as i64);
                (0..rng.below(4)).map(|_| item(rng)).collect()
            };
            let lists = here.iter().map(|here| here.then(|| list(rng)));
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists))
        }
        other => panic!("{other} is not among the types"),
    }
}

fn integers<T: ArrowPrimitiveType>(rng: &mut Rng, style: Style, here: &[bool], min: i128, max: i128) -> ArrayRef {
    let value = |rng: &mut Rng| T::Native::from_i64_or_u64(integer(rng, style, min, max));
    Arc::new(here.iter().map(|here| here.then(|| value(rng))).collect::<PrimitiveArray<T>>())
}

trait FromWide {
    fn from_i64_or_u64(value: i128) -> Self;
}

impl<N: ArrowNativeType> FromWide for N {
    fn from_i64_or_u64(value: i128) -> N {
        // `usize_as` keeps the low bits.
        N::usize_as(value as usize)
    }
}

fn integer(rng: &mut Rng, style: Style, min: i128, max: i128) -> i128 {
    if style == Style::Few || rng.one_in(2) {
        return (rng.below(7) as i128 - 2).max(min);
    }
    match rng.below(5) {
        0 => min,
        1 => max,
        2 => min + 1,
        3 => max - 1,
        _ => min / 3 + (max / 3 - min / 3) / 1000 * rng.below(1000) as i128,
    }
}

/// Quarters, so that sums do not depend on their order.
fn float(rng: &mut Rng, style: Style) -> f64 {
    if style == Style::Extreme && rng.one_in(3) {
        return rng.pick(&[f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0]);
    }
    let range = if style == Style::Few { 5 } else { 4000 };
    (rng.below(range) as f64 - (range / 3) as f64) / 4.0
}

fn decimals(rng: &mut Rng, style: Style, here: &[bool], precision: u8) -> Vec<Option<i128>> {
    let max = 10i128.pow(u32::from(precision)) - 1;
    let value = |rng: &mut Rng| {
        if style == Style::Few { integer(rng, style, -max, max) * 50 } else { integer(rng, style, -max, max) }
    };
    here.iter().map(|here| here.then(|| value(rng).clamp(-max, max))).collect()
}

fn texts(rng: &mut Rng, style: Style, here: &[bool]) -> Vec<Option<&'static str>> {
    let among = if style == Style::Few { 5 } else { TEXTS.len() };
    here.iter().map(|here| here.then(|| TEXTS[rng.below(among)])).collect()
}
