//! The scan below operators of DataFusion: the same rows in the types that the source declares.
//!
//! It pays there too: columns are decoded faster, and rows that filters leave out, those that joins make at run time
//! among them, are dropped before other columns are decoded.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::{ReplaceChildrenOptions, replace_children_if_necessary};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use tokio::runtime::Handle;

use super::{DeclinedColumns, ParquetScan, Request, Sharing};
use crate::exec::WeldExec;
use crate::rule::source_projections::may_fail_in_a_row;

/// Reads its one child, a `DataSourceExec`, in the child's place.
#[derive(Debug)]
pub(crate) struct ScanExec {
    source: Arc<dyn ExecutionPlan>,
    keeps_rows: bool,
    sharing: Sharing,
    declined: Arc<DeclinedColumns>,
}

impl ScanExec {
    fn new(source: Arc<dyn ExecutionPlan>, keeps_rows: bool) -> ScanExec {
        ScanExec { source, keeps_rows, sharing: Sharing::default(), declined: Arc::default() }
    }

    pub(crate) fn source(&self) -> &Arc<dyn ExecutionPlan> {
        &self.source
    }
}

/// The plan with this scan in the place of the sources that it covers, but for those of pipelines, which read them
/// themselves.
pub(crate) fn with_scans(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    with_scans_below(plan, &|| false)
}

/// `keeps_rows`: whether what is right above may fail in a row, to be asked where there is a scan.
fn with_scans_below(plan: Arc<dyn ExecutionPlan>, keeps_rows: &dyn Fn() -> bool) -> Result<Arc<dyn ExecutionPlan>> {
    if plan.is::<ScanExec>() {
        return Ok(plan);
    }
    if ParquetScan::of(plan.as_ref()).is_ok() {
        return Ok(Arc::new(ScanExec::new(plan, keeps_rows())));
    }
    let keeps_rows = || match (plan.downcast_ref::<ProjectionExec>(), plan.downcast_ref::<WeldExec>()) {
        (Some(projection), _) => keeps_rows() || may_fail_in_a_row(projection),
        (_, Some(exec)) => exec.inner.pipeline.keeps_rows,
        _ => false,
    };
    let is_read = |child: &Arc<dyn ExecutionPlan>| plan.is::<WeldExec>() && ParquetScan::of(child.as_ref()).is_ok();
    let with_scans = |child: &Arc<dyn ExecutionPlan>| match is_read(child) {
        true => Ok(Arc::clone(child)),
        false => with_scans_below(Arc::clone(child), &keeps_rows),
    };
    let children = plan.children().into_iter().map(with_scans).collect::<Result<Vec<_>>>()?;
    match children.is_empty() {
        true => Ok(plan),
        false => replace_children_if_necessary(plan, children),
    }
}

impl DisplayAs for ScanExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (format, self.declined.to_string()) {
            (DisplayFormatType::TreeRender, _) => Ok(()),
            (_, none) if none.is_empty() => f.write_str("WeldScanExec"),
            (_, columns) => write!(f, "WeldScanExec: {columns}"),
        }
    }
}

impl ExecutionPlan for ScanExec {
    fn name(&self) -> &str {
        "WeldScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.source.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.source]
    }

    weld_plans::rows_in_order!();

    weld_plans::no_expressions!();

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            // Something else may have taken the source's place.
            (Some(source), true) => match ParquetScan::of(source.as_ref()) {
                Ok(_) => Ok(Arc::new(ScanExec::new(source, self.keeps_rows))),
                Err(_) => Ok(source),
            },
            _ => internal_err!("{} has one child", self.name()),
        }
    }

    weld_plans::new_children!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        match ParquetScan::of(self.source.as_ref()) {
            // Reading is a task.
            Ok(scan) if Handle::try_current().is_ok() => {
                let request = Request { coded: &[], declined: &self.declined, keeps_rows: self.keeps_rows };
                scan.in_declared_types(self.source.schema()).stream(partition, &context, &self.sharing, request)
            }
            _ => self.source.execute(partition, context),
        }
    }

    fn fetch(&self) -> Option<usize> {
        self.source.fetch()
    }
}
