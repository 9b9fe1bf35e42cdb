//! Fields of structs, and what arrow-rs reads beside them: the rows are those of arrow-rs, whatever was selected and
//! dropped.

mod common;

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int32Array, Int64Array, ListArray, RecordBatch, StringViewArray,
    StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Fields};
use bytes::Bytes;
use common::{Rng, codec, flatten, metadata};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;
use weld_parquet::{FileRanges, Form, ReadOptions, RowGroupScan, ScanColumn, Selection};

const ROWS: usize = 5000;

fn nulls(rng: &mut Rng, density: u64) -> Option<NullBuffer> {
    (density > 0).then(|| (0..ROWS).map(|_| rng.below(density) > 0).collect::<Vec<bool>>().into())
}

/// `k Int64, s {a Int64, b Utf8View, t {x Int64, required Int32}}, l [Int64]`.
fn table(seed: u64, density: u64) -> RecordBatch {
    let rng = &mut Rng(seed);
    let numbers = |rng: &mut Rng, nulls| -> ArrayRef {
        Arc::new(Int64Array::new((0..ROWS).map(|_| rng.below(300) as i64).collect::<Vec<i64>>().into(), nulls))
    };
    let field = |name: &str, array: &ArrayRef| Field::new(name, array.data_type().clone(), true);
    let absent = nulls(rng, density);
    let x = numbers(rng, absent);
    let required: ArrayRef = Arc::new(Int32Array::from_iter_values(0..ROWS as i32));
    let fields = vec![field("x", &x), field("required", &required).with_nullable(false)];
    let t: ArrayRef = Arc::new(StructArray::new(Fields::from(fields), vec![x, required], nulls(rng, density)));
    let absent = nulls(rng, density);
    let a = numbers(rng, absent);
    let text = |rng: &mut Rng| (rng.below(9) > 0).then(|| format!("a text of number {}", rng.below(40)));
    let b: ArrayRef = Arc::new((0..ROWS).map(|_| text(rng)).collect::<StringViewArray>());
    let fields = vec![field("a", &a), field("b", &b), field("t", &t)];
    let s: ArrayRef = Arc::new(StructArray::new(Fields::from(fields), vec![a, b, t], nulls(rng, density)));
    let lengths: Vec<usize> = (0..ROWS).map(|_| rng.below(4) as usize).collect();
    let items = Int64Array::from_iter_values(0..lengths.iter().sum::<usize>() as i64);
    let item = Arc::new(Field::new("item", DataType::Int64, true));
    let l: ArrayRef =
        Arc::new(ListArray::new(item, OffsetBuffer::from_lengths(lengths), Arc::new(items), nulls(rng, density)));
    let k = numbers(rng, None);
    RecordBatch::try_from_iter([("k", k), ("s", s), ("l", l)]).unwrap()
}

fn write(batch: &RecordBatch, seed: u64) -> Bytes {
    let v2 = seed.is_multiple_of(2);
    let properties = WriterProperties::builder()
        .set_compression(codec((seed % 7) as u8))
        .set_writer_version(if v2 { WriterVersion::PARQUET_2_0 } else { WriterVersion::PARQUET_1_0 })
        .set_write_batch_size(64)
        .set_data_page_row_count_limit([90, 700, 10_000][seed as usize % 3])
        .set_dictionary_enabled(!seed.is_multiple_of(5))
        .build();
    let mut file = vec![];
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    file.into()
}

fn path(parts: &[&str]) -> ColumnPath {
    ColumnPath::new(parts.iter().map(|part| part.to_string()).collect())
}

const PATHS: [&[&str]; 8] =
    [&["s", "a"], &["l"], &["s", "t", "x"], &["k"], &["s", "b"], &["s", "t", "required"], &["s", "t"], &["s"]];

/// The column at a path of what arrow-rs reads.
fn at(batch: &RecordBatch, path: &[&str]) -> ArrayRef {
    let field = |column: ArrayRef, name: &&str| {
        let values = column.as_struct().column_by_name(name).unwrap();
        // What arrow-rs has in a required field of a null struct is anything.
        let nulls = NullBuffer::union(column.nulls(), values.nulls());
        arrow::array::make_array(values.to_data().into_builder().nulls(nulls).build().unwrap())
    };
    path[1..].iter().fold(Arc::clone(batch.column_by_name(path[0]).unwrap()), field)
}

fn kept(values: &ArrayRef) -> Result<BooleanArray, arrow::error::ArrowError> {
    let values = values.as_primitive::<arrow::datatypes::Int64Type>();
    Ok(values.iter().map(|value| value.map(|value| value % 3 > 0)).collect())
}

#[test]
fn fields_of_structs_are_read_as_arrow_rs_reads_them() {
    for seed in 0..42 {
        let rng = &mut Rng(seed);
        let file = write(&table(seed, [0, 2, 40][seed as usize / 7 % 3]), seed);
        let theirs =
            ParquetRecordBatchReaderBuilder::try_new(file.clone()).unwrap().with_batch_size(ROWS).build().unwrap();
        let theirs = theirs.map(|batch| batch.unwrap()).next().unwrap();
        let form = if seed % 2 == 0 { Form::Flat } else { Form::Encoded };
        let columns = PATHS.iter().map(|parts| ScanColumn::at(path(parts), form)).collect();
        let mut scan = RowGroupScan::new(metadata(&file).unwrap(), 0, columns, &ReadOptions::default()).unwrap();
        let whole = FileRanges::whole(file);
        let every = [1, 1, 2, 30][rng.below(4) as usize];
        let mut rows: Vec<u32> = (0..ROWS as u32).filter(|_| rng.below(every) == 0).collect();
        scan.select(Selection::Rows(rows.clone())).unwrap();
        let passes = |parts: &[&str], rows: &[u32]| -> Vec<u32> {
            let verdict = kept(&at(&theirs, parts)).unwrap();
            rows.iter().copied().filter(|&row| verdict.is_valid(row as usize) && verdict.value(row as usize)).collect()
        };
        if seed % 3 > 0 {
            scan.filter(&path(&["s", "a"]), &whole, &mut kept).unwrap();
            rows = passes(&["s", "a"], &rows);
        }
        let needed = scan.column_ranges().unwrap();
        let ranges = FileRanges::new(needed.into_iter().filter_map(|range| Some((range.start, whole.get(range)?))));
        let mut batches = scan.batches(&ranges, 300).unwrap();
        assert_eq!(batches.declined().map(|(name, _)| name).collect::<Vec<_>>(), ["l", "s.t", "s"]);
        let mut done = 0;
        for number in 0.. {
            // What was read is read; what is left is judged by another column, now and then.
            if seed % 4 > 0 && (number == 1 || number == 4) {
                let parts: &[&str] = if number == 1 { &["s", "t", "x"] } else { &["k"] };
                batches.filter_rest(&path(parts), &mut kept).unwrap();
                let left = passes(parts, &rows[done..]);
                rows.truncate(done);
                rows.extend(left);
                assert_eq!(batches.rows_left(), rows.len() - done);
            }
            let Some(batch) = batches.next() else { break };
            let batch = flatten(&batch.unwrap()).unwrap();
            let here =
                Int64Array::from_iter_values(rows[done..done + batch.num_rows()].iter().map(|row| i64::from(*row)));
            for (column, parts) in batch.columns().iter().zip(PATHS) {
                column.to_data().validate_full().unwrap();
                let expected = arrow::compute::take(&at(&theirs, parts), &here, None).unwrap();
                assert_eq!(column.as_ref(), expected.as_ref(), "seed {seed}, {parts:?}, batch {number}");
            }
            done += batch.num_rows();
        }
        assert_eq!(done, rows.len(), "seed {seed}");
    }
}
