//! Files that pyarrow, DuckDB and Polars wrote (`fixtures/make.py`), read as arrow-rs reads them.

mod common;

use std::path::Path;

use bytes::Bytes;
use common::{arrow_rs, assert_same, metadata, ours, select};
use weld_parquet::{Form, ReadOptions, Selection};

#[test]
fn files_of_other_writers() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut files = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "parquet") {
            continue;
        }
        files += 1;
        let file = Bytes::from(std::fs::read(&path).unwrap());
        let groups = metadata(&file).unwrap().num_row_groups();
        for group in 0..groups {
            let theirs = arrow_rs(&file, group).unwrap();
            let rows = theirs.num_rows();
            let some = (0..rows as u32).filter(|row| row % 7 == 3 || row % 50 > 44).collect();
            for selection in [Selection::All(rows), Selection::Rows(some)] {
                for form in [Form::Flat, Form::Encoded] {
                    for batch_rows in [17, 4096] {
                        let what = format!("{} group {group} {form:?}", path.display());
                        let read = ours(&file, group, form, Some(&selection), batch_rows, &ReadOptions::default());
                        assert_same(&read.unwrap(), &select(&theirs, &selection), &what);
                    }
                }
            }
        }
    }
    assert_eq!(files, 12);
}

/// What is left to arrow-rs in these files, and why, so that it is noticed when it changes.
#[test]
fn declined_columns() {
    use weld_parquet::{FileRanges, RowGroupScan, ScanColumn};
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut declined = vec![];
    for name in
        ["pyarrow_v1_snappy", "pyarrow_encodings", "duckdb_v2_zstd", "polars_zstd", "spark", "spark_with_schema"]
    {
        let file = Bytes::from(std::fs::read(folder.join(name).with_extension("parquet")).unwrap());
        let metadata = metadata(&file).unwrap();
        let fields = metadata.file_metadata().schema_descr().columns().to_vec();
        let columns = fields.iter().map(|c| ScanColumn::new(c.name(), Form::Encoded)).collect();
        let scan = RowGroupScan::new(metadata, 0, columns, &ReadOptions::default()).unwrap();
        let batches = scan.batches(&FileRanges::whole(file), 100).unwrap();
        declined.extend(batches.declined().map(|(column, why)| format!("{name}.{column}: {why}")));
    }
    assert_eq!(declined, Vec::<String>::new());
}
