//! The TPC-H tables as Parquet files, laid out as tpchgen-cli does by default, and the 22 queries.
//!
//! One file a table, Snappy, all columns dictionary-encoded where it pays (the writer's default), row groups of about
//! 7 MiB: the generator makes a table in parts, and each part becomes a row group.

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::arrow::record_batch::RecordBatchReader;
use indicatif::ProgressBar;
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;
use tpchgen::generators as rows;

use super::generated::{Generated, texts};
use super::{files, row_groups};

pub(crate) const SUITE: Generated =
    Generated { title: "TPC-H", name: "tpch", tables: &TABLES, queries: &QUERIES, steps, write };

const TABLES: [&str; 8] = ["region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem"];

const QUERIES: [&str; 22] = texts!("tpch" 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22);

/// Row groups hold about this many bytes, encoded.
const ROW_GROUP_BYTES: i64 = 7 << 20;

fn steps(scale_factor: f64) -> u64 {
    TABLES.iter().map(|table| part_count(table, scale_factor) as u64).sum()
}

fn write(folder: &Path, scale_factor: f64, progress: &ProgressBar) -> parquet::errors::Result<()> {
    for table in TABLES {
        progress.set_message(table);
        let parts = part_count(table, scale_factor);
        let schema = with_field_ids(&part(table, scale_factor, 1, parts).schema());
        let make = |number: usize| part(table, scale_factor, number as i32 + 1, parts);
        row_groups::write(&files::file(folder, table), &schema, parts as usize, make, progress)?;
    }
    Ok(())
}

/// Columns are numbered from 1.
fn with_field_ids(schema: &Schema) -> SchemaRef {
    let with_id = |(index, field): (usize, &Arc<Field>)| {
        let id = (PARQUET_FIELD_ID_META_KEY.to_owned(), (index + 1).to_string());
        field.as_ref().clone().with_metadata([id].into())
    };
    Arc::new(Schema::new(schema.fields().iter().enumerate().map(with_id).collect::<Vec<_>>()))
}

type Part = Box<dyn RecordBatchReader + Send>;

/// Part `number` of `count` of a table, whose name is in [`TABLES`].
fn part(table: &str, scale: f64, number: i32, count: i32) -> Part {
    use tpchgen_arrow as arrow;
    match table {
        "region" => Box::new(arrow::RegionArrow::new(rows::RegionGenerator::new(scale, number, count))),
        "nation" => Box::new(arrow::NationArrow::new(rows::NationGenerator::new(scale, number, count))),
        "supplier" => Box::new(arrow::SupplierArrow::new(rows::SupplierGenerator::new(scale, number, count))),
        "customer" => Box::new(arrow::CustomerArrow::new(rows::CustomerGenerator::new(scale, number, count))),
        "part" => Box::new(arrow::PartArrow::new(rows::PartGenerator::new(scale, number, count))),
        "partsupp" => Box::new(arrow::PartSuppArrow::new(rows::PartSuppGenerator::new(scale, number, count))),
        "orders" => Box::new(arrow::OrderArrow::new(rows::OrderGenerator::new(scale, number, count))),
        _ => Box::new(arrow::LineItemArrow::new(rows::LineItemGenerator::new(scale, number, count))),
    }
}

/// How many row groups a table gets: its rows times the encoded size of a row, in units of [`ROW_GROUP_BYTES`]. The
/// sizes are tpchgen-cli's, so that the files are the ones that others measure with.
fn part_count(table: &str, scale: f64) -> i32 {
    let (rows, row_bytes) = match table {
        // These two have one part whatever the scale.
        "region" | "nation" => return 1,
        "supplier" => (rows::SupplierGenerator::calculate_row_count(scale, 1, 1), 164),
        "customer" => (rows::CustomerGenerator::calculate_row_count(scale, 1, 1), 168),
        "part" => (rows::PartGenerator::calculate_row_count(scale, 1, 1), 70),
        "partsupp" => (rows::PartSuppGenerator::calculate_row_count(scale, 1, 1), 564),
        "orders" => (rows::OrderGenerator::calculate_row_count(scale, 1, 1), 75),
        _ => (4 * rows::OrderGenerator::calculate_row_count(scale, 1, 1), 64),
    };
    // Parquet readers number row groups with 16 bits.
    (rows * row_bytes / ROW_GROUP_BYTES + 1).min(32_767) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_groups_are_those_of_tpchgen_cli() {
        let counts = TABLES.map(|table| part_count(table, 1.0));
        assert_eq!(counts, [1, 1, 1, 4, 2, 16, 16, 53]);
    }
}
