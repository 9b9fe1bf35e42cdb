//! The TPC-DS tables as Parquet files, and the 99 queries.
//!
//! One file a table, Snappy, the writer's defaults but for the row groups, which are DuckDB's: most columns may be
//! null, and a table has few row groups.

use std::collections::VecDeque;
use std::fs::File;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;

use datafusion::arrow::record_batch::RecordBatchReader;
use indicatif::ProgressBar;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use tpcdsgen::config::{Session, SessionBuilder};
use tpcdsgen_arrow as rows;

use super::files;
use super::generated::{Generated, texts};

pub(crate) const SUITE: Generated = Generated {
    title: "TPC-DS",
    name: "tpcds",
    tables: &TABLES,
    queries: &QUERIES,
    steps: |_| TABLES.len() as u64,
    write,
};

/// Those that take longest to make come first: the others fill the time of the second thread.
const TABLES: [&str; 24] = [
    "store_sales",
    "catalog_sales",
    "web_sales",
    "inventory",
    "store_returns",
    "catalog_returns",
    "web_returns",
    "customer_demographics",
    "customer",
    "customer_address",
    "date_dim",
    "time_dim",
    "item",
    "catalog_page",
    "household_demographics",
    "promotion",
    "web_page",
    "web_site",
    "store",
    "call_center",
    "income_band",
    "reason",
    "ship_mode",
    "warehouse",
];

#[rustfmt::skip]
const QUERIES: [&str; 99] = texts!("tpcds"
    1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44
    45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85
    86 87 88 89 90 91 92 93 94 95 96 97 98 99);

/// DuckDB's.
const ROW_GROUP_ROWS: usize = 122_880;

fn write(folder: &Path, scale_factor: f64, progress: &ProgressBar) -> Result<()> {
    let session = SessionBuilder::new().with_scale_factor(scale_factor).build();
    let session = session.map_err(|error| ParquetError::External(Box::new(error)))?;
    let waiting = Mutex::new(VecDeque::from(TABLES));
    // Every thread takes the next table until one has failed or none is left.
    let work = || loop {
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let Some(table) = next else { return Ok(()) };
        progress.set_message(table);
        if let Err(error) = write_table(&files::file(folder, table), table, session.clone()) {
            waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
            return Err(error);
        }
        progress.inc(1);
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().try_for_each(|thread| {
            thread.join().map_err(|_| ParquetError::General("the generator of TPC-DS failed".to_owned()))?
        })
    })
}

fn write_table(path: &Path, table: &str, session: Session) -> Result<()> {
    let batches = batches(table, session);
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .build();
    let mut writer = ArrowWriter::try_new(File::create_new(path)?, batches.schema(), Some(properties))?;
    for batch in batches {
        writer.write(&batch?)?;
    }
    writer.into_inner()?.sync_all()?;
    Ok(())
}

/// The rows of a table, whose name is in [`TABLES`].
fn batches(table: &str, session: Session) -> Box<dyn RecordBatchReader> {
    match table {
        "store_sales" => Box::new(rows::StoreSalesArrow::new(session)),
        "catalog_sales" => Box::new(rows::CatalogSalesArrow::new(session)),
        "web_sales" => Box::new(rows::WebSalesArrow::new(session)),
        "inventory" => Box::new(rows::InventoryArrow::new(session)),
        "store_returns" => Box::new(rows::StoreReturnsArrow::new(session)),
        "catalog_returns" => Box::new(rows::CatalogReturnsArrow::new(session)),
        "web_returns" => Box::new(rows::WebReturnsArrow::new(session)),
        "customer_demographics" => Box::new(rows::CustomerDemographicsArrow::new(session)),
        "customer" => Box::new(rows::CustomerArrow::new(session)),
        "customer_address" => Box::new(rows::CustomerAddressArrow::new(session)),
        "date_dim" => Box::new(rows::DateDimArrow::new(session)),
        "time_dim" => Box::new(rows::TimeDimArrow::new(session)),
        "item" => Box::new(rows::ItemArrow::new(session)),
        "catalog_page" => Box::new(rows::CatalogPageArrow::new(session)),
        "household_demographics" => Box::new(rows::HouseholdDemographicsArrow::new(session)),
        "promotion" => Box::new(rows::PromotionArrow::new(session)),
        "web_page" => Box::new(rows::WebPageArrow::new(session)),
        "web_site" => Box::new(rows::WebSiteArrow::new(session)),
        "store" => Box::new(rows::StoreArrow::new(session)),
        "call_center" => Box::new(rows::CallCenterArrow::new(session)),
        "income_band" => Box::new(rows::IncomeBandArrow::new(session)),
        "reason" => Box::new(rows::ReasonArrow::new(session)),
        "ship_mode" => Box::new(rows::ShipModeArrow::new(session)),
        _ => Box::new(rows::WarehouseArrow::new(session)),
    }
}
