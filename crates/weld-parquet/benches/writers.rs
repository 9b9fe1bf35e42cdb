//! Decoding against arrow-rs on files of several writers, column by column: all rows, and the rows that a predicate on
//! another column leaves, scattered and clustered.
//!
//! ```text
//! python3 benches/writers.py FOLDER
//! cargo bench -p weld-parquet --bench writers -- --folder FOLDER [--file duckdb] [--column date_sk] [--mode all]
//!                                                [--repeats 5] [--list] [--instructions]
//! ```
//!
//! The table shows nanoseconds of processor time a row of the file, the least of the repeats, in which the sides
//! alternate; processor time and minima, because the machine may be doing other things. With `--instructions` it shows
//! instructions a row instead, counted by Valgrind, each case in a process of its own; Valgrind knows no AVX-512, so
//! both sides run what they have for AVX2. With a predicate arrow-rs decodes both columns flat, which is all that
//! DataFusion has it do by default; with its rows filtered too it is the second column. `--list` shows the cases whose
//! ratio is below one only.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, Int32Array, RecordBatch};
use arrow::compute::kernels::cmp;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::ParquetMetaData;
use weld_parquet::{FileRanges, Form, ReadOptions, RowGroupBatches, RowGroupScan, ScanColumn};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BATCH_ROWS: usize = 8192;

/// Name, the column of the predicate, and up to which value it passes.
const MODES: [(&str, Option<(&str, i32)>); 7] = [
    ("all", None),
    ("random 1 %", Some(("quantity", 1))),
    ("random 10 %", Some(("quantity", 10))),
    ("random 50 %", Some(("quantity", 52))),
    ("clustered 1 %", Some(("day_sk", 2_450_834))),
    ("clustered 10 %", Some(("day_sk", 2_450_998))),
    ("clustered 50 %", Some(("day_sk", 2_451_727))),
];

const SIDES: [&str; 3] = ["arrow", "arrow filtered", "weld"];

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let option = |name: &str| args.iter().position(|a| a == name).and_then(|i| args.get(i + 1)).map(String::as_str);
    if let Some(at) = args.iter().position(|a| a == "--run") {
        return run(&args[at + 1..]);
    }
    let Some(folder) = option("--folder") else {
        return println!("--folder FOLDER, with files of benches/writers.py");
    };
    let repeats = option("--repeats").map_or(5, |n| n.parse().expect("--repeats takes a number"));
    let counted = args.iter().any(|a| a == "--instructions");
    let worse_only = args.iter().any(|a| a == "--list");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "parquet"));
    files.retain(|path| option("--file").is_none_or(|part| path.to_string_lossy().contains(part)));
    files.sort();
    println!(
        "{:20} {:12} {:15} {:>8} {:>9} {:>8} {:>6} {:>6}",
        "file", "column", "rows", "arrow-rs", "+ filter", "weld", "ratio", "with"
    );
    for path in files {
        let file = File::load(&path);
        let rows = file.metadata.file_metadata().num_rows() as f64;
        let count =
            |column: &str, mode: &str, side: &str, repeats| instructions(&path, column, mode, side, repeats) / rows;
        let start = if counted { count("", "", "arrow", 0) } else { 0.0 };
        for field in file.schema.fields() {
            let column = field.name();
            if option("--column").is_some_and(|only| only != column) {
                continue;
            }
            for (mode, _) in MODES.iter().filter(|(mode, _)| option("--mode").is_none_or(|part| mode.contains(part))) {
                let [arrow, filtered, weld] = match counted {
                    true => SIDES.map(|side| count(column, mode, side, 1) - start),
                    false => times(&file, column, mode, repeats).map(|time| time as f64 / rows),
                };
                if worse_only && arrow >= weld {
                    continue;
                }
                println!(
                    "{:20} {column:12} {mode:15} {arrow:8.2} {filtered:9.2} {weld:8.2} {:6.2} {:6.2}",
                    path.file_stem().unwrap_or_default().to_string_lossy(),
                    arrow / weld,
                    filtered / weld,
                );
            }
        }
    }
}

/// The least processor time of each side, in nanoseconds.
fn times(file: &File, column: &str, mode: &str, repeats: usize) -> [u64; 3] {
    let options = ReadOptions::default();
    let mut least = [u64::MAX; 3];
    for _ in 0..repeats + 1 {
        for (side, least) in SIDES.iter().zip(&mut least) {
            let before = processor_time();
            std::hint::black_box(file.read(column, mode, side, &options));
            *least = (*least).min(processor_time() - before);
        }
    }
    least
}

/// User instructions of a case, in a process of its own.
fn instructions(path: &Path, column: &str, mode: &str, side: &str, repeats: usize) -> f64 {
    let program = std::env::current_exe().expect("this program");
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]).arg(program);
    valgrind.arg("--run").arg(path).args([column, mode, side, &repeats.to_string()]);
    let output = valgrind.output().expect("valgrind is installed");
    let counted = String::from_utf8_lossy(&output.stderr);
    let counts = counted.lines().find_map(|line| line.split_once("refs:")).map(|(_, count)| count.replace(',', ""));
    match counts.and_then(|count| count.trim().parse().ok()) {
        Some(count) => count,
        None => panic!("{} {column} {mode} {side}: {counted}", path.display()),
    }
}

/// In the process of a case: decodes that often.
fn run(args: &[String]) {
    let [path, column, mode, side, repeats] = args else { panic!("--run FILE COLUMN MODE SIDE REPEATS") };
    let file = File::load(Path::new(path));
    let options = ReadOptions::default();
    for _ in 0..repeats.parse().expect("a number") {
        std::hint::black_box(file.read(column, mode, side, &options));
    }
}

/// Nanoseconds that this thread has run.
fn processor_time() -> u64 {
    #[repr(C)]
    struct Time {
        seconds: i64,
        nanoseconds: i64,
    }
    unsafe extern "C" {
        fn clock_gettime(clock: i32, time: *mut Time) -> i32;
    }
    const CLOCK_THREAD_CPUTIME_ID: i32 = 3;
    let mut time = Time { seconds: 0, nanoseconds: 0 };
    // SAFETY: the C library's function, which fills the structure; on 64-bit Linux both fields are 64 bits.
    let failed = unsafe { clock_gettime(CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(failed, 0, "this thread's clock can be read");
    time.seconds as u64 * 1_000_000_000 + time.nanoseconds as u64
}

struct File {
    bytes: Bytes,
    metadata: Arc<ParquetMetaData>,
    /// As arrow-rs reads the file, and the narrowest types, given to it as a hint.
    own: SchemaRef,
    schema: SchemaRef,
}

impl File {
    fn load(path: &Path) -> Self {
        let bytes = Bytes::from(std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())));
        let loaded = ArrowReaderMetadata::load(&bytes, ArrowReaderOptions::new()).expect("a Parquet file");
        let descriptor = loaded.metadata().file_metadata().schema_descr();
        let fields = loaded.schema().fields().iter().enumerate().map(|(i, field)| {
            let target = weld_parquet::Target::narrowest(&descriptor.column(i), field.data_type());
            field.as_ref().clone().with_data_type(target.expect("flat columns").data_type().clone())
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Self { metadata: Arc::clone(loaded.metadata()), own: Arc::clone(loaded.schema()), bytes, schema }
    }

    fn read(&self, column: &str, mode: &str, side: &str, options: &ReadOptions) -> usize {
        let predicate = MODES.iter().find(|(name, _)| *name == mode).and_then(|(_, predicate)| *predicate);
        match side {
            "weld" => self.ours(column, predicate, options),
            side => self.arrow_rs(column, predicate, side == "arrow filtered"),
        }
    }

    fn arrow_rs(&self, column: &str, predicate: Option<(&str, i32)>, filtered: bool) -> usize {
        let options = ArrowReaderOptions::new().with_schema(Arc::clone(&self.schema));
        let metadata = ArrowReaderMetadata::try_new(Arc::clone(&self.metadata), options).expect("valid hints");
        let columns = [column].into_iter().chain(predicate.map(|(name, _)| name));
        let mask = ProjectionMask::columns(metadata.parquet_schema(), columns);
        ParquetRecordBatchReaderBuilder::new_with_metadata(self.bytes.clone(), metadata)
            .with_projection(mask)
            .with_batch_size(BATCH_ROWS)
            .build()
            .expect("a reader")
            .map(|batch| {
                let batch: RecordBatch = batch.expect("a batch");
                match predicate {
                    Some((name, last)) if filtered => {
                        let mask = up_to(batch.column_by_name(name).expect("projected"), last).expect("a predicate");
                        let projected = batch.column_by_name(column).expect("projected");
                        arrow::compute::filter(projected, &mask).expect("a filter").len()
                    }
                    _ => batch.num_rows(),
                }
            })
            .sum()
    }

    /// Two row groups at a time, so that their dictionaries are decompressed together.
    fn ours(&self, column: &str, predicate: Option<(&str, i32)>, options: &ReadOptions) -> usize {
        let ranges = FileRanges::whole(self.bytes.clone());
        let groups: Vec<usize> = (0..self.metadata.num_row_groups()).collect();
        let columns: Arc<[ScanColumn]> = [ScanColumn::new(column, Form::Flat)].into();
        let mut rows = 0;
        for pair in groups.chunks(2) {
            let open = pair.iter().map(|&group| {
                let (metadata, schema) = (Arc::clone(&self.metadata), Arc::clone(&self.own));
                let mut scan =
                    RowGroupScan::with_schema(metadata, schema, group, Arc::clone(&columns), options).expect("a scan");
                if let Some((name, last)) = predicate {
                    scan.filter(&name.into(), &ranges, &mut |values| up_to(values, last)).expect("a filter");
                }
                scan.prepare(&ranges, BATCH_ROWS).expect("batches")
            });
            let mut open: Vec<RowGroupBatches> = open.collect();
            RowGroupBatches::load_dictionaries(&mut open).expect("dictionaries");
            rows += open.into_iter().flatten().map(|batch| batch.expect("a batch").num_rows()).sum::<usize>();
        }
        rows
    }
}

fn up_to(values: &ArrayRef, last: i32) -> Result<BooleanArray, ArrowError> {
    cmp::lt_eq(values, &Int32Array::new_scalar(last))
}
