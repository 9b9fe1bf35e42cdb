//! Bit for bit what arrow-rs reads: every type, encoding, codec, page version, null density, batch
//! size and selection.

mod common;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, DictionaryArray, RecordBatch, StringArray};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Int8Type};
use bytes::Bytes;
use common::{Rng, Shape, arrow_rs, assert_same, metadata, ours, select};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use proptest::prelude::*;
use weld_parquet::{FileRanges, Form, ReadOptions, RowGroupScan, ScanColumn, Selection};

fn shapes() -> impl Strategy<Value = Shape> {
    let page_rows = prop_oneof![1..100usize, 100..3000usize];
    let dictionary_bytes = prop_oneof![Just(1 << 20), 10..2000usize];
    (any::<u64>(), 0..3000usize, 0..9u8, 0..4u8, 0..7u8, any::<bool>(), page_rows, dictionary_bytes).prop_map(
        |(seed, rows, nulls, values, codec, v2, page_rows, dictionary_bytes)| Shape {
            seed,
            rows,
            nulls,
            values,
            codec,
            v2,
            page_rows,
            dictionary_bytes,
        },
    )
}

/// Nothing, everything, scattered rows of some density, runs, or all but a few.
fn selection(kind: u8, rows: usize, rng: &mut Rng) -> Selection {
    let density = [2, 10, 100, 1000][rng.below(4) as usize];
    let mut on = false;
    let kept = (0..rows as u32).filter(|_| match kind {
        0 => true,
        1 => rng.below(density) == 0,
        2 => {
            if rng.below(density) == 0 {
                on = !on;
            }
            on
        }
        _ => rng.below(20) > 0,
    });
    match kind {
        0 => Selection::All(rows),
        _ => Selection::Rows(kept.collect()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn reads_what_arrow_rs_reads(shape in shapes(), kind in 0..4u8, batch_rows in 1..4000usize) {
        let file = shape.write();
        if shape.rows == 0 {
            return Ok(());
        }
        let theirs = arrow_rs(&file, 0).unwrap();
        let options = ReadOptions::default();
        let chosen = selection(kind, shape.rows, &mut Rng(shape.seed ^ 5));
        for form in [Form::Flat, Form::Encoded] {
            let read = ours(&file, 0, form, Some(&chosen), batch_rows, &options).unwrap();
            assert_same(&read, &select(&theirs, &chosen), &format!("{form:?}"));
        }
    }

    /// A predicate keeps the rows that the same predicate keeps of arrow-rs's array.
    #[test]
    fn filters_what_arrow_rs_filters(shape in shapes(), kind in 0..4u8, pick in 0..7u64, nulls_pass: bool) {
        let file = shape.write();
        if shape.rows == 0 {
            return Ok(());
        }
        let theirs = arrow_rs(&file, 0).unwrap();
        let chosen = selection(kind, shape.rows, &mut Rng(shape.seed ^ 6));
        let whole = FileRanges::whole(file.clone());
        // Any pure function of the value does; some rows pass whatever the type.
        let mut verdict = |values: &arrow::array::ArrayRef| {
            let hash = |i: usize| {
                let one = format!("{:?}", values.slice(i, 1));
                one.bytes().fold(pick, |h, b| h.wrapping_mul(31).wrapping_add(b as u64)) % 7 > pick % 3
            };
            Ok((0..values.len())
                .map(|i| if values.is_null(i) { nulls_pass.then_some(true) } else { Some(hash(i)) })
                .collect::<BooleanArray>())
        };
        for index in (0..theirs.num_columns() - 1).step_by(12) {
            let name = format!("c{}", (index as u64 + shape.seed) % (theirs.num_columns() as u64 - 1));
            let columns = vec![ScanColumn::new(&name, Form::Encoded)];
            let mut scan = RowGroupScan::new(metadata(&file).unwrap(), 0, columns, &ReadOptions::default()).unwrap();
            scan.select(chosen.clone()).unwrap();
            scan.filter(&name.as_str().into(), &whole, &mut verdict).unwrap();
            let column = theirs.column_by_name(&name).unwrap();
            let mask = verdict(column).unwrap();
            let kept: Vec<u32> = match &chosen {
                Selection::All(rows) => (0..*rows as u32).collect(),
                Selection::Rows(rows) => rows.clone(),
            };
            let kept: Vec<u32> = kept.into_iter().filter(|&r| mask.is_valid(r as usize) && mask.value(r as usize)).collect();
            let expected = select(&theirs.project(&[theirs.schema().index_of(&name).unwrap()]).unwrap(), &Selection::Rows(kept.clone()));
            prop_assert_eq!(scan.selection().len(), kept.len());
            // Reading the filtered column again uses the pages that the filter opened.
            let mut at = 0;
            for batch in scan.batches(&whole, 500).unwrap() {
                let batch = common::flatten(&batch.unwrap()).unwrap();
                let part = expected.slice(at, batch.num_rows());
                assert_same(&batch, &part, &name);
                at += batch.num_rows();
            }
            prop_assert_eq!(at, kept.len());
        }
    }
}

/// Rows beside the borders of pages, of the blocks that are decoded at a time and of long stretches, in columns longer
/// than any block, with nulls in every kind of run.
#[test]
fn borders_of_pages_and_blocks() {
    for (nulls, page_rows, v2) in
        [(6, 1000, false), (7, 700, true), (8, 2000, false), (1, 60_000, true), (2, 60_000, false)]
    {
        let shape =
            Shape { seed: 11, rows: 36_000, nulls, values: 2, codec: 0, v2, page_rows, dictionary_bytes: 1 << 20 };
        let file = shape.write();
        let theirs = arrow_rs(&file, 0).unwrap();
        let page = page_rows.next_multiple_of(64) as u32;
        let rows = 0..shape.rows as u32;
        let selections: [Vec<u32>; 6] = [
            rows.clone().filter(|row| (row + 1) % page < 3).collect(),
            rows.clone().filter(|row| (row + 1) % 1024 < 2 || (row + 1) % (1 << 14) < 3).collect(),
            // Stretches of 40 to 360 rows, and rows between.
            rows.clone().filter(|row| row % 500 < row / 100 || row % 500 == 450).collect(),
            rows.clone().filter(|row| row % 2 == 0).collect(),
            rows.clone().filter(|row| row % 7919 == 3).collect(),
            rows.clone().skip(1).collect(),
        ];
        for (index, rows) in selections.into_iter().enumerate() {
            let chosen = Selection::Rows(rows);
            let expected = select(&theirs, &chosen);
            for (form, batch_rows) in [(Form::Flat, 8192), (Form::Encoded, 50_000)] {
                let read = ours(&file, 0, form, Some(&chosen), batch_rows, &ReadOptions::default()).unwrap();
                assert_same(&read, &expected, &format!("nulls {nulls}, selection {index}, {form:?}"));
            }
        }
    }
}

#[test]
fn coded_columns_stay_coded_and_are_judged_once() {
    let shape = Shape {
        seed: 3,
        rows: 2000,
        nulls: 1,
        values: 0,
        codec: 1,
        v2: false,
        page_rows: 300,
        dictionary_bytes: 1 << 20,
    };
    let file = shape.write();
    let columns = vec![ScanColumn::new("c8", Form::Encoded)];
    let mut scan = RowGroupScan::new(metadata(&file).unwrap(), 0, columns, &ReadOptions::default()).unwrap();
    let mut calls = vec![];
    let whole = FileRanges::whole(file);
    scan.filter(&"c8".into(), &whole, &mut |values| {
        calls.push(values.len());
        Ok((0..values.len()).map(|i| Some(i == 1)).collect())
    })
    .unwrap();
    assert_eq!(calls, [5, 1], "the dictionary, then null");
    let batch = scan.batches(&whole, 10_000).unwrap().next().unwrap().unwrap();
    let column = batch.column(0).as_any_dictionary();
    assert_eq!(column.values().len(), 5);
    assert_eq!(column.null_count(), 0);
    assert!(column.normalized_keys().iter().all(|&k| k == 1));
}

/// A file of one column, which is `dictionary` encoded.
fn file_of(batches: &[RecordBatch], dictionary: bool) -> Bytes {
    let properties = WriterProperties::builder().set_dictionary_enabled(dictionary).build();
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, batches[0].schema(), Some(properties)).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.close().unwrap();
    Bytes::from(file)
}

/// Arrow dictionaries are the codes of the file, and the batches of a row group share their entries.
#[test]
fn arrow_dictionaries_are_codes() {
    use DataType::*;
    let texts = (0..3000).map(|row| (row % 7 != 2).then(|| format!("text {}", row % 90)));
    let texts: ArrayRef = Arc::new(texts.collect::<StringArray>());
    let codes = [Int8, UInt8, Int16, UInt16, Int32, UInt32, Int64, UInt64];
    let entries = [Utf8, LargeUtf8, Binary, LargeBinary];
    for data_type in codes.iter().flat_map(|codes| entries.iter().map(move |entries| (codes, entries))) {
        let data_type = Dictionary(Box::new(data_type.0.clone()), Box::new(data_type.1.clone()));
        let column = cast(&texts, &data_type).unwrap();
        let batch = RecordBatch::try_from_iter([("d", column)]).unwrap();
        let file = file_of(std::slice::from_ref(&batch), true);
        let columns = vec![ScanColumn::new("d", Form::Flat)];
        let scan = RowGroupScan::new(metadata(&file).unwrap(), 0, columns, &ReadOptions::default()).unwrap();
        let mut batches = scan.batches(&FileRanges::whole(file), 1000).unwrap();
        assert_eq!(batches.declined().count(), 0, "{data_type}");
        let read: Vec<RecordBatch> = batches.by_ref().collect::<Result<_, _>>().unwrap();
        let values = |batch: &RecordBatch| Arc::clone(batch.column(0).as_any_dictionary().values());
        assert!(read.windows(2).all(|pair| Arc::ptr_eq(&values(&pair[0]), &values(&pair[1]))));
        assert_eq!(read[0].column(0).data_type(), &data_type);
        assert_same(&concat_batches(&read[0].schema(), &read).unwrap(), &batch, &data_type.to_string());
    }
}

/// Two batches of one row group have more values together than there are codes: arrow-rs reads no such file.
#[test]
fn dictionaries_of_more_values_than_codes_are_refused() {
    let column = |first: usize| -> ArrayRef {
        let texts: Vec<String> = (0..300).map(|row| format!("text {}", first + row % 100)).collect();
        Arc::new(texts.iter().map(|text| Some(text.as_str())).collect::<DictionaryArray<Int8Type>>())
    };
    let batches = [0, 100].map(|first| RecordBatch::try_from_iter([("d", column(first))]).unwrap());
    let file = file_of(&batches, true);
    let columns = vec![ScanColumn::new("d", Form::Flat)];
    let scan = RowGroupScan::new(metadata(&file).unwrap(), 0, columns, &ReadOptions::default()).unwrap();
    let mut read = scan.batches(&FileRanges::whole(file), 300).unwrap();
    assert_eq!(read.declined().count(), 1);
    let error = read.next().unwrap().unwrap_err().to_string();
    assert!(error.contains("dictionary too large for index type"), "{error}");
}

/// What becomes an Arrow dictionary is filtered, whether it is stored as codes or not: then arrow-rs reads it, of the
/// rows that are left.
#[test]
fn arrow_dictionaries_are_filtered() {
    let texts: Vec<String> = (0..3000).map(|row| format!("text {}", row % 11)).collect();
    let texts = texts.iter().enumerate().map(|(row, text)| (row % 7 != 2).then_some(text.as_str()));
    let column: ArrayRef = Arc::new(texts.collect::<DictionaryArray<Int8Type>>());
    let batch = RecordBatch::try_from_iter([("d", column)]).unwrap();
    for dictionary in [true, false] {
        let file = file_of(std::slice::from_ref(&batch), dictionary);
        let mut columns = vec![ScanColumn::new("d", Form::Flat)];
        for _ in 0..2 {
            let scan = RowGroupScan::new(metadata(&file).unwrap(), 0, columns.clone(), &ReadOptions::default());
            let (mut scan, whole) = (scan.unwrap(), FileRanges::whole(file.clone()));
            scan.filter(&"d".into(), &whole, &mut |values| {
                let texts = values.as_string_view().iter();
                Ok(texts.map(|text| text.map(|text| text.ends_with('3'))).collect())
            })
            .unwrap();
            let kept = Selection::Rows((0..3000).filter(|row| row % 11 == 3 && row % 7 != 2).collect());
            assert_eq!(scan.selection().len(), kept.len());
            let read = scan.batches(&whole, 10_000).unwrap().next().unwrap().unwrap();
            assert_same(&read, &select(&batch, &kept), "the rows that are left");
            columns = vec![ScanColumn::new("d", Form::Flat).with_type(batch.schema().field(0).data_type().clone())];
        }
    }
}
