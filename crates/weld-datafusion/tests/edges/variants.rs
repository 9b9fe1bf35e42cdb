//! Which columns of a batch have nulls, and which are coded, changes from batch to batch; the code does not.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int32Type;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::ParquetReadOptions;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use weld_datafusion::pipelines;

use crate::common::{Engines, config, sorted_rows};

const COLUMNS: usize = 8;
const BATCHES: usize = 120;

/// Batch `at` has nulls in the columns whose bits `at` has.
fn batch(at: usize) -> RecordBatch {
    let column = |c: usize| -> ArrayRef {
        let value = |row: usize| {
            let null = at >> c & 1 == 1 && row % 3 == c % 3;
            (!null).then_some((at * 31 + row * 7 + c) as i64 % 50)
        };
        Arc::new((0..20).map(value).collect::<Int64Array>())
    };
    RecordBatch::try_from_iter_with_nullable((0..COLUMNS).map(|c| (format!("c{c}"), column(c), true))).expect("columns")
}

/// The same rows as stock, and how many variants were compiled for a pipeline at most.
async fn variants(engines: &Engines, sql: &str) -> usize {
    let frame = engines.weld.sql(sql).await.expect("valid SQL");
    let plan = frame.create_physical_plan().await.expect("it plans");
    let batches = collect(Arc::clone(&plan), engines.weld.task_ctx()).await.expect("it runs");
    assert_eq!(sorted_rows(&batches), engines.stock_rows(sql).await.expect("it runs"), "{sql}");
    let pipelines = pipelines(&plan);
    assert!(!pipelines.is_empty(), "{sql}");
    let fallbacks = |exec: &weld_datafusion::WeldExec| exec.metrics().and_then(|m| m.sum_by_name("fallbacks"));
    assert!(pipelines.iter().all(|exec| fallbacks(exec).is_none_or(|count| count.as_usize() == 0)), "{sql}");
    pipelines.iter().map(|exec| exec.compiled().expect("it compiles").variants()).max().unwrap_or(0)
}

fn write(path: &Path, batches: &[RecordBatch]) {
    let file = File::create(path).expect("a temporary folder is writable");
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(20)).build();
    let mut writer = ArrowWriter::try_new(file, batches[0].schema(), Some(properties)).expect("plain columns");
    batches.iter().for_each(|batch| writer.write(batch).expect("a temporary folder is writable"));
    writer.close().expect("a temporary folder is writable");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nulls_come_and_go() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let batches: Vec<RecordBatch> = (0..BATCHES).map(|at| batch(at * 37 % 256)).collect();
    write(&folder.path().join("f.parquet"), &batches);
    let path = folder.path().join("f.parquet");
    let path = path.to_str().expect("a temporary folder has a plain name");
    for partitions in [1, 2] {
        for table in ["m", "f"] {
            let engines = Engines::new(config(partitions));
            engines.table("m", batches.clone());
            for context in [&engines.stock, &engines.weld] {
                context
                    .register_parquet("f", path, ParquetReadOptions::default())
                    .await
                    .expect("the file just written");
            }
            for sql in [
                "SELECT c0 + c1, c2, c3, c4 + c5, c6, c7 FROM t WHERE c0 > 3 OR c7 < 40",
                "SELECT c1, count(*), sum(c0), sum(c2), min(c3), max(c4), count(c5), sum(c6 + c7) FROM t GROUP BY c1",
                "SELECT count(*), sum(c0 + c1 + c2 + c3 + c4 + c5 + c6 + c7), count(c0) FROM t WHERE c6 > 2",
                "SELECT count(*), sum(a.c2), sum(b.c3), sum(b.c7) FROM t a JOIN t b ON a.c0 = b.c1 AND a.c4 = b.c5",
            ] {
                let sql = sql.replace("FROM t", &format!("FROM {table}")).replace("JOIN t", &format!("JOIN {table}"));
                let compiled = variants(&engines, &sql).await;
                assert!((1..=3).contains(&compiled), "{sql}\n{compiled} variants, {partitions} partitions");
            }
        }
    }
}

/// Codes in some row groups and values in others, of four columns in all combinations.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codes_come_and_go() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // A text of many values has no dictionary: its row group falls back to values.
    let texts = |at: usize, c: usize| -> ArrayRef {
        let text = |row: usize| match at >> c & 1 {
            0 => format!("text {}", row % 3),
            _ => format!("text {}{}", row % 3, " ".repeat(200 + row)),
        };
        Arc::new(StringArray::from_iter_values((0..400).map(text)))
    };
    let batches: Vec<RecordBatch> = (0..16)
        .map(|at| {
            let values: ArrayRef = Arc::new((0..400).map(|row| (at * row) as i64 % 9).collect::<Int64Array>());
            let columns = (0..4).map(|c| (format!("s{c}"), texts(at, c), true)).chain([("v".to_owned(), values, true)]);
            RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length")
        })
        .collect();
    let path = folder.path().join("f.parquet");
    let file = File::create(&path).expect("a temporary folder is writable");
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(400))
        .set_write_batch_size(50)
        .set_dictionary_page_size_limit(4000)
        .build();
    let mut writer = ArrowWriter::try_new(file, batches[0].schema(), Some(properties)).expect("plain columns");
    batches.iter().for_each(|batch| writer.write(batch).expect("a temporary folder is writable"));
    writer.close().expect("a temporary folder is writable");
    // The first file decides that the columns are read as codes.
    write(&folder.path().join("a.parquet"), &batches[..1]);
    let engines = Engines::new(config(1));
    let path = folder.path().to_str().expect("a temporary folder has a plain name");
    for context in [&engines.stock, &engines.weld] {
        context.register_parquet("f", path, ParquetReadOptions::default()).await.expect("the files just written");
    }
    let sql = "SELECT s0, s1, s2, s3, count(*), sum(v) FROM f GROUP BY s0, s1, s2, s3";
    let compiled = variants(&engines, sql).await;
    assert!((1..=3).contains(&compiled), "{compiled} variants");
}

/// Dictionaries without entries, with null entries, repeated ones and such that no row has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dictionaries_of_every_kind() {
    let dictionary = |codes: Vec<Option<i32>>, values: Vec<Option<&str>>| -> ArrayRef {
        let values: ArrayRef = Arc::new(StringArray::from(values));
        Arc::new(DictionaryArray::<Int32Type>::try_new(Int32Array::from(codes), values).expect("codes of entries"))
    };
    let long = "a string of more than twelve bytes";
    let kinds = [
        dictionary(vec![Some(0), Some(1), Some(0), Some(1)], vec![Some("a"), Some(long)]),
        dictionary(vec![None, None, None, None], vec![]),
        dictionary(vec![Some(0), Some(1), Some(2), None], vec![Some("a"), None, Some("a")]),
        dictionary(vec![Some(3), Some(3), None, Some(0)], vec![Some("b"), Some("unused"), None, Some("a")]),
        dictionary(vec![Some(1), Some(1), Some(1), Some(1)], vec![Some("x"), None]),
    ];
    let mut batches = Vec::new();
    for a in &kinds {
        for b in &kinds {
            let k: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
            let columns = [("a", Arc::clone(a), true), ("b", b.slice(0, 4), true), ("k", k, false)];
            let whole = RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length");
            batches.extend([whole.slice(1, 3), whole.slice(0, 2), whole]);
        }
    }
    let engines = Engines::new(config(1));
    engines.table("t", batches);
    for sql in [
        "SELECT sum(k), count(*) FROM t WHERE k > 1",
        "SELECT k + 1 FROM t WHERE CAST(a AS VARCHAR) = 'a'",
        "SELECT k + 1, a = 'a', b IS NULL FROM t WHERE k > 1",
    ] {
        engines.check(sql, 0).await;
    }
}
