//! Files as tables: `orders.parquet` is the table `orders`; a folder of Parquet files is one table, of which subfolders
//! `key=value` are a column.
//!
//! `Table::parse("o=data/orders.parquet")` names one, `in_folder("data")` finds those of a folder.

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::error::ArrowError;
use datafusion::common::TableReference;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableUrl};
use datafusion::datasource::source_as_provider;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::{CsvReadOptions, JsonReadOptions, ParquetReadOptions, SessionContext};
use futures::FutureExt;

use crate::failure::{Doing, Failure, Result};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FileType {
    Parquet,
    Csv,
    Json,
}

impl FileType {
    fn of(path: &Path) -> Option<FileType> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "parquet" => Some(FileType::Parquet),
            "csv" => Some(FileType::Csv),
            "json" | "jsonl" | "ndjson" => Some(FileType::Json),
            _ => None,
        }
    }
}

impl Table {
    /// Reads `NAME=PATH`, for clap.
    pub(crate) fn parse(text: &str) -> std::result::Result<Table, String> {
        match text.split_once('=') {
            Some((name, path)) if !name.is_empty() && !path.is_empty() => {
                Ok(Table { name: name.to_owned(), path: path.into() })
            }
            _ => Err("expected NAME=PATH".to_owned()),
        }
    }

    /// Makes the table known to the session. Reads its schema, so a bad file is found here.
    pub(crate) async fn register(&self, session: &SessionContext) -> Result<()> {
        let Table { name, path } = self;
        let shown = path.display();
        let file_type = self.file_type()?;
        let text = path.to_str().ok_or_else(|| Failure::new(format!("{shown}: the path is not UTF-8")))?;
        // DataFusion takes a folder only with a slash at its end.
        let text = if path.is_dir() { format!("{}/", text.trim_end_matches('/')) } else { text.to_owned() };
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let extension = format!(".{extension}");
        let table = TableReference::bare(name.as_str());
        let register = async {
            match file_type {
                FileType::Parquet => {
                    let keys = partition_columns(session, &text).await?;
                    let options = ParquetReadOptions::default().table_partition_cols(keys);
                    session.register_parquet(table, &text, options).await
                }
                FileType::Csv => {
                    session.register_csv(table, &text, CsvReadOptions::new().file_extension(&extension)).await
                }
                FileType::Json => {
                    session.register_json(table, &text, JsonReadOptions::default().file_extension(&extension)).await
                }
            }
        };
        // A damaged length in a Parquet file's footer makes the `parquet` crate panic.
        match AssertUnwindSafe(register).catch_unwind().await {
            Ok(result) => result.doing(format_args!("cannot read {shown} as table {name}")),
            Err(_) => Err(Failure::new(format!("cannot read {shown} as table {name}: the file is damaged"))),
        }
    }

    /// Makes a registered table known by its name in lower case too, unless another table has that: SQL reads `T` as
    /// `t`, and only `"T"` as it stands.
    pub(crate) async fn register_lower_case(&self, session: &SessionContext) -> Result<()> {
        let lower = TableReference::bare(self.name.to_lowercase());
        if !session.table_exist(lower.clone())? {
            let provider = session.table_provider(TableReference::bare(self.name.as_str())).await?;
            session.register_table(lower, provider)?;
        }
        Ok(())
    }

    fn file_type(&self) -> Result<FileType> {
        let shown = self.path.display();
        let metadata = self.path.metadata().map_err(|error| Failure::new(format!("cannot read {shown}: {error}")))?;
        if metadata.is_dir() {
            return Ok(FileType::Parquet);
        }
        if metadata.len() == 0 {
            return Err(Failure::new(format!("cannot read {shown}: the file is empty")));
        }
        FileType::of(&self.path)
            .ok_or_else(|| Failure::new(format!("{shown}: expected a .parquet, .csv or .json file, or a folder")))
    }
}

/// The columns that the names of a folder's subfolders are, as CREATE EXTERNAL TABLE has them.
async fn partition_columns(
    session: &SessionContext,
    folder: &str,
) -> datafusion::error::Result<Vec<(String, DataType)>> {
    let options = ListingOptions::new(Arc::new(ParquetFormat::default())).with_file_extension(".parquet");
    let names = options.infer_partitions(&session.state(), &ListingTableUrl::parse(folder)?).await?;
    let text = || DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8));
    Ok(names.into_iter().map(|name| (name, text())).collect())
}

/// Whether a folder, or a subfolder `key=value`, has Parquet files.
fn holds_parquet(folder: &Path) -> Result<bool> {
    for path in list(folder)? {
        let is_key = path.is_dir() && path.file_name().is_some_and(|name| name.to_string_lossy().contains('='));
        if FileType::of(&path) == Some(FileType::Parquet) || is_key && holds_parquet(&path)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The data files of a folder, each a table; and its folders that hold Parquet files, each one table.
pub(crate) fn in_folder(folder: &Path) -> Result<Vec<Table>> {
    let mut tables = Vec::new();
    for path in list(folder)? {
        let is_table = if path.is_dir() { holds_parquet(&path)? } else { FileType::of(&path).is_some() };
        if let Some(name) = path.file_stem().and_then(|name| name.to_str()).filter(|_| is_table) {
            tables.push(Table { name: name.to_owned(), path });
        }
    }
    if tables.is_empty() {
        return Err(Failure::new(format!("{}: no .parquet, .csv or .json file in this folder", folder.display())));
    }
    Ok(tables)
}

/// The files and folders that a plan reads.
pub(crate) fn files(plan: &LogicalPlan) -> Result<Vec<String>> {
    let mut files = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
            && let Some(table) = provider.downcast_ref::<ListingTable>()
        {
            let paths = table.table_paths().iter().map(|url| url.as_str().trim_start_matches("file://").to_owned());
            files.extend(paths);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    files.sort();
    files.dedup();
    Ok(files)
}

/// Whether the error is about what a file holds, or about getting at it.
pub(crate) fn is_bad_data(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::ArrowError(error, _) => matches!(
            **error,
            ArrowError::ParquetError(_)
                | ArrowError::CsvError(_)
                | ArrowError::JsonError(_)
                | ArrowError::ParseError(_)
                | ArrowError::IoError(..)
        ),
        error => matches!(
            error,
            DataFusionError::ParquetError(_) | DataFusionError::ObjectStore(_) | DataFusionError::IoError(_)
        ),
    }
}

/// What is in a folder, by name.
pub(crate) fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error| Failure::new(format!("cannot read {}: {error}", folder.display()));
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>().map_err(failed)?;
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_a_name_and_a_path() {
        let table = Table::parse("t=a=b.csv").unwrap();
        assert_eq!((table.name.as_str(), table.path.to_str()), ("t", Some("a=b.csv")));
        assert!(Table::parse("t").is_err());
        assert!(Table::parse("=x").is_err());
    }

    #[test]
    fn file_types_go_by_the_extension() {
        assert_eq!(FileType::of(Path::new("a.Parquet")), Some(FileType::Parquet));
        assert_eq!(FileType::of(Path::new("a.txt")), None);
    }
}
