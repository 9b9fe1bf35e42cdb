//! The predicates of the columns of a file, as they are now, and when rows are judged by them.
//!
//! ```text
//! row group opened: all of its rows are judged         first batch      the rows that are left, if the filter has tightened
//! ```
//! The filter of a sort's first rows is empty before the first batch and drops nearly all rows behind it, so large row
//! groups are judged again after one batch, two, four and so on, as long as that drops half of what is left.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::parquet::schema::types::ColumnPath;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::physical_expr::snapshot_generation;
use weld_parquet::RowGroupBatches;

use super::file::OpenFile;
use super::predicate::{ColumnPredicate, put_in_order};
use super::reader::{Scan, corrupt};

#[derive(Default)]
pub(super) struct Filters {
    pub(super) columns: Vec<ColumnPredicate>,
    /// Which state of the file's predicate they were made of.
    generation: Option<u64>,
    /// How much of the columns that were asked for nulls is null in the file: its row groups are counted once.
    null_shares: HashMap<ColumnPath, f64>,
    /// How many batches of a row group were given.
    given: usize,
    /// How many are given before its rows are judged again.
    again: usize,
}

impl Filters {
    /// Takes the file's predicate as it is now; returns whether it has changed.
    pub(super) fn update(&mut self, predicate: &Arc<dyn PhysicalExpr>, file: &OpenFile, scan: &Scan) -> Result<bool> {
        let generation = snapshot_generation(predicate);
        let has_changed = self.generation.replace(generation) != Some(generation);
        if has_changed {
            let (table, used) = (scan.table.table_schema(), scan.columns.used());
            let shares = &mut self.null_shares;
            let null_share = |path: &ColumnPath| match shares.get(path) {
                Some(share) => *share,
                None => *shares.entry(path.clone()).or_insert(file.null_share(path)),
            };
            self.columns = ColumnPredicate::of(predicate, table, used, null_share)?;
        }
        Ok(has_changed)
    }

    /// Another file has its own values of the columns that are the same in all of its rows.
    pub(super) fn next_file(&mut self) {
        self.generation = None;
        self.null_shares.clear();
    }

    /// A row group ends.
    pub(super) fn next_group(&mut self) {
        (self.given, self.again) = (0, 0);
    }

    /// Drops rows of a row group that is being read, before its next batch.
    pub(super) fn judge_again(
        &mut self,
        group: &mut RowGroupBatches,
        predicate: &Arc<dyn PhysicalExpr>,
        file: &OpenFile,
        scan: &Scan,
    ) -> Result<()> {
        let is_due = self.given >= self.again;
        self.given += 1;
        if !is_due || !self.update(predicate, file, scan)? {
            return Ok(());
        }
        let before = group.rows_left();
        for column in self.columns.iter_mut().filter(|column| column.pays() && file.has(&column.path)) {
            let rows = group.rows_left();
            match group.filter_rest(&column.path, &mut |values| column.judge(values)) {
                Ok(()) | Err(weld_parquet::Error::Unsupported(_)) => column.note(rows, group.rows_left()),
                Err(error) => return Err(corrupt(error)),
            }
        }
        put_in_order(&mut self.columns);
        let gains = group.rows_left() <= before / 2;
        self.again = if gains { 2 * self.given - 1 } else { usize::MAX };
        Ok(())
    }
}
