//! Decoding against arrow-rs: same file in memory, same columns, same Arrow types out, one thread, one
//! allocator that keeps its memory.
//!
//! ```text
//! cargo bench -p weld-parquet --bench scan -- [--file lineitem.parquet] [--repeats 15]
//! ```
//!
//! Without `--file`, lineitem at scale factor 1 is generated once into the target folder, the way
//! `tpchgen-cli` writes it by default (Snappy, row groups of about 114,000 rows). Both sides alternate
//! within a repeat; the table shows medians and their ratio.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Array, ArrayRef, Date32Array, Decimal64Array, RecordBatch};
use arrow::compute::kernels::{boolean, cmp};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::Compression;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::WriterProperties;
use weld_parquet::{FileRanges, Form, ReadOptions, RowGroupBatches, RowGroupScan, ScanColumn};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BATCH_ROWS: usize = 8192;

/// Name, columns, and the predicate columns among them.
const SETS: [(&str, &[&str]); 8] = [
    ("Q6", &["l_quantity", "l_extendedprice", "l_discount", "l_shipdate"]),
    ("Q1", &["l_quantity", "l_extendedprice", "l_discount", "l_tax", "l_returnflag", "l_linestatus", "l_shipdate"]),
    ("Q3", &["l_orderkey", "l_extendedprice", "l_discount", "l_shipdate"]),
    ("price", &["l_extendedprice"]),
    ("keys", &["l_orderkey", "l_partkey", "l_suppkey", "l_linenumber"]),
    ("dates", &["l_shipdate", "l_commitdate", "l_receiptdate"]),
    ("modes", &["l_shipmode", "l_shipinstruct"]),
    ("comment", &["l_comment"]),
];

const ORDERS: [(&str, &[&str]); 3] = [
    ("orders", &["o_orderkey", "o_custkey", "o_totalprice", "o_orderdate", "o_shippriority"]),
    ("orders text", &["o_orderstatus", "o_orderpriority", "o_clerk"]),
    ("o_comment", &["o_comment"]),
];

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let option = |name: &str| args.iter().position(|a| a == name).and_then(|i| args.get(i + 1));
    let repeats = option("--repeats").map_or(9, |n| n.parse().expect("--repeats takes a number"));
    let only = option("--only");
    let lineitem = match option("--file") {
        Some(path) => File::load(PathBuf::from(path)),
        None => File::load(generated("lineitem")),
    };
    let orders = option("--file").is_none().then(|| File::load(generated("orders")));
    println!("{:12} {:>10} {:>10} {:>7}   (median ms of {repeats})", "columns", "arrow-rs", "weld", "ratio");
    let sets = SETS.iter().map(|set| (&lineitem, set));
    let sets = sets.chain(orders.iter().flat_map(|file| ORDERS.iter().map(move |set| (file, set))));
    for (file, (name, columns)) in sets {
        if only.is_some_and(|only| only != name) {
            continue;
        }
        let pool = ReadOptions::default();
        let sides: [(&str, &dyn Fn() -> usize); 2] = [
            ("flat", &|| file.ours(columns, Form::Flat, &pool)),
            ("encoded", &|| file.ours(columns, Form::Encoded, &pool)),
        ];
        for (form, ours) in sides {
            report(&format!("{name} {form}"), repeats, &|| file.arrow_rs(columns), ours);
        }
    }
    if only.is_none_or(|only| only == "Q6 filtered") {
        let pool = ReadOptions::default();
        report("Q6 filtered", repeats, &|| lineitem.q6_arrow_rs(), &|| lineitem.q6_ours(&pool));
    }
}

fn report(name: &str, repeats: usize, theirs: &dyn Fn() -> usize, ours: &dyn Fn() -> usize) {
    assert_eq!(theirs(), ours(), "{name}: as many rows");
    let (mut a, mut b) = (vec![], vec![]);
    let only_ours = std::env::args().any(|arg| arg == "--ours");
    for _ in 0..repeats {
        a.push(if only_ours { Duration::ZERO } else { time(theirs) });
        b.push(time(ours));
    }
    let (a, b) = (median(a), median(b));
    println!("{name:12} {:10.1} {:10.1} {:7.2}", a * 1e3, b * 1e3, a / b);
}

fn time(f: &dyn Fn() -> usize) -> Duration {
    let start = Instant::now();
    std::hint::black_box(f());
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64()
}

struct File {
    bytes: Bytes,
    metadata: Arc<ParquetMetaData>,
    /// The narrowest types, given to arrow-rs as a hint.
    schema: SchemaRef,
}

impl File {
    fn load(path: PathBuf) -> Self {
        let bytes = Bytes::from(std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())));
        let loaded = ArrowReaderMetadata::load(&bytes, ArrowReaderOptions::new()).expect("a Parquet file");
        let descriptor = loaded.metadata().file_metadata().schema_descr();
        let fields = loaded.schema().fields().iter().enumerate().map(|(i, field)| {
            let target = weld_parquet::Target::narrowest(&descriptor.column(i), field.data_type());
            field.as_ref().clone().with_data_type(target.expect("flat columns").data_type().clone())
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Self { metadata: Arc::clone(loaded.metadata()), bytes, schema }
    }

    fn reader(&self, columns: &[&str]) -> impl Iterator<Item = RecordBatch> {
        let options = ArrowReaderOptions::new().with_schema(Arc::clone(&self.schema));
        let metadata = ArrowReaderMetadata::try_new(Arc::clone(&self.metadata), options).expect("valid hints");
        let mask = ProjectionMask::columns(metadata.parquet_schema(), columns.iter().copied());
        ParquetRecordBatchReaderBuilder::new_with_metadata(self.bytes.clone(), metadata)
            .with_projection(mask)
            .with_batch_size(BATCH_ROWS)
            .build()
            .expect("a reader")
            .map(|batch| batch.expect("a batch"))
    }

    fn arrow_rs(&self, columns: &[&str]) -> usize {
        self.reader(columns).map(|batch| batch.num_rows()).sum()
    }

    /// Two row groups at a time, so that their dictionaries are decompressed together.
    fn ours(&self, columns: &[&str], form: Form, options: &ReadOptions) -> usize {
        let ranges = FileRanges::whole(self.bytes.clone());
        let groups: Vec<usize> = (0..self.metadata.num_row_groups()).collect();
        let mut rows = 0;
        for pair in groups.chunks(2) {
            let mut open: Vec<RowGroupBatches> = pair
                .iter()
                .map(|&group| {
                    let columns = columns.iter().map(|name| ScanColumn::new(*name, form)).collect();
                    let scan = RowGroupScan::new(Arc::clone(&self.metadata), group, columns, options).expect("a scan");
                    scan.prepare(&ranges, BATCH_ROWS).expect("batches")
                })
                .collect();
            RowGroupBatches::load_dictionaries(&mut open).expect("dictionaries");
            rows += open.into_iter().flatten().map(|batch| batch.expect("a batch").num_rows()).sum::<usize>();
        }
        rows
    }

    fn q6_arrow_rs(&self) -> usize {
        let columns = SETS[0].1;
        self.reader(columns)
            .map(|batch| {
                let column = |name: &str| batch.column_by_name(name).expect("a projected column");
                let mask = Q6
                    .iter()
                    .map(|(name, test)| test(column(name)).expect("a predicate"))
                    .reduce(|a, b| boolean::and(&a, &b).expect("same length"))
                    .expect("predicates");
                arrow::compute::filter_record_batch(&batch, &mask).expect("a filter").num_rows()
            })
            .sum()
    }

    fn q6_ours(&self, options: &ReadOptions) -> usize {
        let ranges = FileRanges::whole(self.bytes.clone());
        let groups: Vec<usize> = (0..self.metadata.num_row_groups()).collect();
        let mut rows = 0;
        for pair in groups.chunks(2) {
            let mut open: Vec<RowGroupBatches> = pair
                .iter()
                .map(|&group| {
                    let columns = ["l_extendedprice", "l_discount"];
                    let columns = columns.iter().map(|name| ScanColumn::new(*name, Form::Flat)).collect();
                    let mut scan =
                        RowGroupScan::new(Arc::clone(&self.metadata), group, columns, options).expect("a scan");
                    for (name, test) in &Q6 {
                        scan.filter(&(*name).into(), &ranges, &mut |values| test(values)).expect("a filter");
                    }
                    scan.prepare(&ranges, BATCH_ROWS).expect("batches")
                })
                .collect();
            RowGroupBatches::load_dictionaries(&mut open).expect("dictionaries");
            rows += open.into_iter().flatten().map(|batch| batch.expect("a batch").num_rows()).sum::<usize>();
        }
        rows
    }
}

type Test = fn(&ArrayRef) -> Result<arrow::array::BooleanArray, arrow::error::ArrowError>;

/// The predicates of Q6: shipped in 1994, discount 0.05 to 0.07, quantity below 24.
const Q6: [(&str, Test); 3] = [
    ("l_shipdate", |dates| {
        let from = cmp::gt_eq(dates, &Date32Array::new_scalar(8766))?;
        boolean::and(&from, &cmp::lt(dates, &Date32Array::new_scalar(9131))?)
    }),
    ("l_discount", |values| {
        let from = cmp::gt_eq(values, &decimal(5, values.data_type()))?;
        boolean::and(&from, &cmp::lt_eq(values, &decimal(7, values.data_type()))?)
    }),
    ("l_quantity", |values| cmp::lt(values, &decimal(2400, values.data_type()))),
];

fn decimal(value: i64, data_type: &DataType) -> arrow::array::Scalar<ArrayRef> {
    let array = Decimal64Array::from(vec![value]).with_data_type(data_type.clone());
    arrow::array::Scalar::new(Arc::new(array))
}

/// A TPC-H table at scale factor 1, generated once.
fn generated(table: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(format!("{table}-sf1.parquet"));
    if path.exists() {
        return path;
    }
    println!("generating {}", path.display());
    let batches: Box<dyn Iterator<Item = RecordBatch>> = match table {
        "orders" => Box::new(
            tpchgen_arrow::OrderArrow::new(tpchgen::generators::OrderGenerator::new(1.0, 1, 1))
                .map(|batch| batch.expect("generated")),
        ),
        _ => Box::new(
            tpchgen_arrow::LineItemArrow::new(tpchgen::generators::LineItemGenerator::new(1.0, 1, 1))
                .map(|batch| batch.expect("generated")),
        ),
    };
    let mut batches = batches.peekable();
    let schema = batches.peek().expect("rows").schema();
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(114_000))
        .build();
    std::fs::create_dir_all(&folder).expect("a target folder");
    let partial = path.with_extension("partial");
    let file = std::fs::File::create(&partial).expect("a file in the target folder");
    let mut writer = ArrowWriter::try_new(file, schema, Some(properties)).expect("a writer");
    for batch in batches {
        writer.write(&batch).expect("a written batch");
    }
    writer.close().expect("a written file");
    std::fs::rename(&partial, &path).expect("renamed");
    path
}
