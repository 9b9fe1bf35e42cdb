//! Damaged and lying files: an error or what arrow-rs reads, never a panic, never memory without bound.
//!
//! The mutation fuzzer is bounded here; `WELD_FUZZ_SECONDS=600 cargo test --release -p weld-parquet
//! --test hostile mutations` runs it longer. Every find became one of the tests below.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use bytes::Bytes;
use common::{Rng, Shape, arrow_rs_columns, metadata, ours, ours_columns};
use weld_parquet::{BufferPool, FileRanges, Form, ReadOptions, RowGroupScan, ScanColumn, Selection, chunk_range};

/// Counts what is allocated, to see that damage does not buy memory.
struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
    static LAST_PANIC: Cell<Option<String>> = const { Cell::new(None) };
}

fn count(bytes: isize) {
    // A thread that is ending has no counters any more.
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// More than a damaged file of this size may ever take: the largest page that it is allowed to
/// claim, decompressed and decoded, a few times over.
const MEMORY_MAX: isize = 64 << 20;

fn options() -> ReadOptions {
    ReadOptions { pool: BufferPool::new(1 << 20), page_bytes_max: 4 << 20 }
}

fn quiet<T>(f: impl FnOnce() -> T) -> Result<T, ()> {
    catch_unwind(AssertUnwindSafe(f)).map_err(drop)
}

/// How one damaged file went.
#[derive(Default, Debug)]
struct Tally {
    agreed: usize,
    both_failed: usize,
    only_ours_failed: usize,
    only_theirs_failed: usize,
}

impl Tally {
    /// Where one side is stricter, for a look by eye.
    fn note(&self, who: &str, what: &str) {
        if std::env::var_os("WELD_FUZZ_VERBOSE").is_some() {
            println!("{who}: {what}");
        }
    }
}

/// Reads a damaged file both ways. The footer is intact here: metadata is the `parquet` crate's.
fn check(file: &Bytes, column: &str, selection: &Selection, what: &str, tally: &mut Tally) {
    LIVE.set(0);
    PEAK.set(0);
    let mut results = vec![];
    for form in [Form::Flat, Form::Encoded] {
        let read = quiet(|| ours_columns(file, 0, Some(column), form, Some(selection), 1000, &options()));
        results.push(read.unwrap_or_else(|()| panic!("panic at {:?} reading {what}", LAST_PANIC.take())));
    }
    let peak = PEAK.get();
    assert!(peak < MEMORY_MAX, "{peak} bytes for {what}");
    // arrow-rs may panic on damage: that counts as its failure.
    let theirs = quiet(|| arrow_rs_columns(file, 0, Some(column))).ok().and_then(Result::ok);
    for read in results {
        match (read, &theirs) {
            (Ok(read), Some(theirs)) => {
                common::assert_same(&read, &common::select(theirs, selection), what);
                tally.agreed += 1;
            }
            (Ok(_), None) => {
                // With rows left out, damage may be where nobody looks.
                tally.only_theirs_failed += 1;
                let all = matches!(selection, Selection::All(_));
                tally.note(if all { "arrow-rs, of all rows" } else { "arrow-rs" }, what);
            }
            (Err(error), Some(_)) => {
                tally.only_ours_failed += 1;
                tally.note(&error.to_string(), what);
            }
            (Err(_), None) => tally.both_failed += 1,
        }
    }
}

fn shape(rng: &mut Rng) -> Shape {
    Shape {
        seed: rng.next(),
        rows: 1 + rng.below(400) as usize,
        nulls: rng.below(9) as u8,
        values: rng.below(4) as u8,
        codec: rng.below(7) as u8,
        v2: rng.below(2) == 0,
        page_rows: 1 + rng.below(200) as usize,
        dictionary_bytes: if rng.below(2) == 0 { 1 << 20 } else { 300 },
    }
}

/// Damages the pages of one column, which is named.
fn damage(file: &Bytes, rng: &mut Rng) -> (Bytes, String, String) {
    let mut bytes = file.to_vec();
    let metadata = metadata(file).unwrap();
    let chunks = metadata.row_group(0).columns();
    // Flat columns only: lists are arrow-rs's own affair.
    let chunk = &chunks[rng.below(chunks.len() as u64 - 1) as usize];
    let range = chunk_range(chunk).unwrap();
    let (begin, end) = (range.start, range.end as usize);
    // Half of the time the first page's header and the start of its content.
    let span = (range.end - begin).min(if rng.below(2) == 0 { 60 } else { u64::MAX });
    let mut what = String::new();
    for _ in 0..1 + rng.below(4) {
        let at = (begin + rng.below(span)) as usize;
        let old = bytes[at];
        match rng.below(5) {
            0 => bytes[at] ^= 1 << rng.below(8),
            1 => bytes[at] = rng.next() as u8,
            2 => bytes[at] = [0, 0xff, 0x7f, 0x80, 1][rng.below(5) as usize],
            3 => {
                let from = (begin + rng.below(span)) as usize;
                let len = (rng.below(40) as usize).min(end - at).min(end - from);
                bytes.copy_within(from..from + len, at);
            }
            _ => {
                let len = (rng.below(30) as usize).min(end - at);
                bytes[at..at + len].fill(if rng.below(2) == 0 { 0 } else { 0xff });
            }
        }
        what += &format!(" byte {at}: {old:#x} -> {:#x};", bytes[at]);
    }
    (Bytes::from(bytes), chunk.column_path().string(), what)
}

#[test]
fn mutations() {
    let budget = std::env::var("WELD_FUZZ_SECONDS").ok().and_then(|s| s.parse().ok());
    let (budget, seed) = match budget {
        Some(seconds) => (Duration::from_secs(seconds), std::process::id() as u64),
        None => (Duration::from_secs(5), 1),
    };
    std::panic::set_hook(Box::new(|info| {
        // arrow-rs's own panics are its way to fail; ours are failures, with their place.
        match info.location() {
            Some(place) if place.file().contains("weld-parquet") => eprintln!("{info}"),
            place => LAST_PANIC.set(place.map(ToString::to_string)),
        }
    }));
    let start = Instant::now();
    let mut rng = Rng(seed);
    let mut tally = Tally::default();
    while start.elapsed() < budget {
        let shape = shape(&mut rng);
        let file = shape.write();
        for _ in 0..300 {
            let (damaged, column, what) = damage(&file, &mut rng);
            let selection = match rng.below(2) {
                0 => Selection::All(shape.rows),
                _ => Selection::Rows((0..shape.rows as u32).filter(|_| rng.below(5) == 0).collect()),
            };
            check(
                &damaged,
                &column,
                &selection,
                &format!("{column} {shape:?}{what} {} rows chosen", selection.len()),
                &mut tally,
            );
        }
    }
    let _ = std::panic::take_hook();
    println!("{tally:?}");
    assert!(tally.agreed + tally.both_failed > 0);
}

#[test]
fn truncated_files_are_errors() {
    let shape = Shape {
        seed: 1,
        rows: 300,
        nulls: 2,
        values: 2,
        codec: 1,
        v2: false,
        page_rows: 100,
        dictionary_bytes: 1 << 20,
    };
    let file = shape.write();
    let metadata = metadata(&file).unwrap();
    let names: Vec<String> = (0..20).map(|i| format!("c{i}")).collect();
    for name in &names {
        let columns = || vec![ScanColumn::new(name, Form::Flat)];
        let scan = RowGroupScan::new(metadata.clone(), 0, columns(), &options()).unwrap();
        let range = scan.column_ranges().unwrap().into_iter().reduce(|a, b| a.start..b.end).unwrap();
        for stop in range.clone().step_by(7) {
            let ranges = FileRanges::whole(file.slice(..stop as usize));
            let scan = RowGroupScan::new(metadata.clone(), 0, columns(), &options()).unwrap();
            let read = scan.batches(&ranges, 1000).and_then(|batches| batches.collect::<Result<Vec<_>, _>>());
            assert!(read.is_err(), "{name} cut at {stop} of {range:?}");
        }
    }
}

/// A page header that claims far more than its bytes can hold.
#[test]
fn claimed_sizes_do_not_buy_memory() {
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use parquet::arrow::ArrowWriter;
    use parquet::file::properties::WriterProperties;
    let zeros: ArrayRef = std::sync::Arc::new(Int64Array::from(vec![0; 1_000_000]));
    let batch = RecordBatch::try_from_iter([("z", zeros)]).unwrap();
    for codec in 1..7 {
        let properties = WriterProperties::builder()
            .set_compression(common::codec(codec))
            .set_dictionary_enabled(false)
            .set_data_page_size_limit(1 << 30)
            .set_data_page_row_count_limit(1 << 30)
            .set_write_batch_size(1 << 30)
            .set_max_row_group_row_count(None)
            .build();
        let mut file = vec![];
        let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let file = Bytes::from(file);
        // Eight megabytes of zeros in a page, four allowed.
        let read = ours(&file, 0, Form::Flat, None, 8192, &options());
        assert!(read.is_err_and(|e| e.to_string().contains("limit")), "codec {codec}");
        let roomy = ReadOptions { page_bytes_max: 1 << 30, ..options() };
        assert_eq!(ours(&file, 0, Form::Flat, None, 1 << 20, &roomy).unwrap().num_rows(), 1_000_000);
    }
}
