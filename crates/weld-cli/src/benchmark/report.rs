//! What a benchmark prints: lines of a table as the queries finish, or one JSON object a query.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weld_datafusion::{Declined, Summary};

use super::suite::{Query, Suite};
use super::{Engines, Format, Options, Storage};
use crate::engine::Engine;
use crate::failure::{Failure, Result, one_line};
use crate::output;

/// Everything that is known of one query after its runs.
pub(super) struct Measured {
    name: String,
    number: Option<usize>,
    pub(super) rows: Option<usize>,
    /// Unknown when only one engine ran.
    pub(super) verified: Option<bool>,
    pub(super) error: Option<String>,
    pub(super) datafusion: Side,
    pub(super) weld: Side,
    /// What became of the plan's operators in the last run.
    pub(super) summary: Option<Summary>,
}

/// One engine's times.
#[derive(Default)]
pub(super) struct Side {
    pub(super) first_ms: Option<f64>,
    pub(super) ms: Vec<f64>,
}

impl Measured {
    pub(super) fn new(query: &Query) -> Measured {
        let (datafusion, weld) = (Side::default(), Side::default());
        let Query { name, number, .. } = query.clone();
        Measured { name, number, rows: None, verified: None, error: None, datafusion, weld, summary: None }
    }

    pub(super) fn side(&mut self, engine: Engine) -> &mut Side {
        match engine {
            Engine::Datafusion => &mut self.datafusion,
            Engine::Weld => &mut self.weld,
        }
    }

    /// How many times faster Weld was, by the medians.
    fn ratio(&self) -> Option<f64> {
        Some(self.datafusion.median()? / self.weld.median()?)
    }
}

impl Side {
    fn median(&self) -> Option<f64> {
        let mut sorted = self.ms.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        match sorted.len() {
            0 => None,
            odd if odd % 2 == 1 => Some(sorted[middle]),
            _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
        }
    }
}

/// Prints as results come in, and remembers what the last lines need.
pub(super) struct Report {
    format: Format,
    engines: Engines,
    storage: Storage,
    scale_factor: Option<f64>,
    partitions: usize,
    cold: bool,
    /// Of the first column of the table.
    name_width: usize,
    done: Vec<Measured>,
}

impl Report {
    pub(super) fn new(suite: &Suite, options: &Options) -> Result<Report> {
        let Options { format, engine: engines, storage, iterations, cold, .. } = *options;
        let partitions = options.partitions();
        let longest = suite.queries.iter().map(|query| query.name.chars().count()).max();
        let name_width = longest.unwrap_or(0).max("geomean".len());
        if format == Format::Table {
            let plural = |count: usize| if count == 1 { "" } else { "s" };
            output::line(&format!(
                "{}, {storage}, {partitions} partition{}. Median of {iterations} run{}{}; \
                 milliseconds.",
                suite.title,
                plural(partitions),
                plural(usize::from(iterations)),
                if cold { ", each the first of its process" } else { " after a first one" },
            ))?;
            output::line(&format!("{:>name_width$}{HEADER}", "query"))?;
        }
        let scale_factor = suite.scale_factor;
        Ok(Report { format, engines, storage, scale_factor, partitions, cold, name_width, done: Vec::new() })
    }

    pub(super) fn add(&mut self, measured: Measured) -> Result<()> {
        match self.format {
            Format::Table => output::line(&table_line(&measured, self.name_width))?,
            Format::Json => output::line(&self.json(&measured).to_string())?,
        }
        self.done.push(measured);
        Ok(())
    }

    /// The last lines. Fails when an answer differed or a query could not run.
    pub(super) fn finish(self) -> Result<()> {
        let failed = self.done.iter().filter(|measured| measured.error.is_some()).count();
        if self.format == Format::Table {
            self.summary()?;
        }
        if failed > 0 { Err(Failure::Reported) } else { Ok(()) }
    }

    fn summary(&self) -> Result<()> {
        let geomean = |value: fn(&Measured) -> Option<f64>| {
            let logs: Option<Vec<f64>> = self.done.iter().map(|measured| Some(value(measured)?.ln())).collect();
            logs.map(|logs| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
        };
        let datafusion = geomean(|measured| measured.datafusion.median());
        let weld = geomean(|measured| measured.weld.median());
        let ratio = geomean(Measured::ratio);
        let means = format!("{:>11} {:>9} {:>7}", number(datafusion), number(weld), times(ratio));
        output::line(&format!("{:>width$} {means}", "geomean", width = self.name_width))?;
        if self.engines == Engines::Both && !self.cold {
            let verified = self.done.iter().filter(|measured| measured.verified == Some(true)).count();
            output::line(&format!("{verified} of {} verified: the same answers in every run.", self.done.len()))?;
        }
        for measured in &self.done {
            if let Some(error) = &measured.error {
                output::line(&format!("{}: {}", measured.name, one_line(error)))?;
            }
        }
        self.declined()
    }

    /// The operators left to DataFusion, by reason.
    fn declined(&self) -> Result<()> {
        let mut queries: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
        for measured in &self.done {
            for Declined { operator, reason } in measured.summary.iter().flat_map(|summary| &summary.declined) {
                let names = queries.entry((operator, reason)).or_default();
                if names.last() != Some(&&*measured.name) {
                    names.push(&measured.name);
                }
            }
        }
        if !queries.is_empty() {
            output::line("Left to DataFusion:")?;
        }
        for ((operator, reason), names) in queries {
            output::line(&format!("  {operator}: {} ({})", one_line(reason), names.join(" ")))?;
        }
        Ok(())
    }

    fn json(&self, measured: &Measured) -> Value {
        let summary = measured.summary.clone().unwrap_or_default();
        let declined: Vec<Value> = (summary.declined.iter())
            .map(|Declined { operator, reason }| json!({"operator": operator, "reason": reason}))
            .collect();
        let mut object = json!({
            "query": measured.number.map_or_else(|| json!(measured.name), |number| json!(number)),
            "storage": self.storage.to_string(),
            "scale_factor": self.scale_factor,
            "partitions": self.partitions,
            "cold": self.cold,
            "rows": measured.rows,
            "verified": measured.verified,
            "datafusion_ms": rounded(&measured.datafusion.ms),
            "weld_ms": rounded(&measured.weld.ms),
            "first_ms": {
                "datafusion": measured.datafusion.first_ms.map(microseconds),
                "weld": measured.weld.first_ms.map(microseconds),
            },
            "compile_ms": microseconds(compile_ms(&summary)),
            "operators_total": summary.operators_total,
            "operators_compiled": summary.operators_compiled,
            "operators_native": summary.operators_native,
            "declined": declined,
        });
        if let Some(error) = &measured.error {
            object["error"] = json!(one_line(error));
        }
        object
    }
}

const HEADER: &str = "  datafusion      weld   ratio  compiled  compile  first run      rows  same";

fn table_line(measured: &Measured, name_width: usize) -> String {
    let Measured { name, rows, verified, datafusion, weld, summary, .. } = measured;
    let compiled =
        summary.as_ref().map(|summary| format!("{}/{}", summary.operators_compiled, summary.operators_total));
    let same = match (verified, &measured.error) {
        (_, Some(_)) => "NO",
        (Some(true), None) => "yes",
        (None, None) if measured.ratio().is_some() => "open",
        _ => "",
    };
    format!(
        "{name:>name_width$} {:>11} {:>9} {:>7} {:>9} {:>8} {:>10} {:>9}  {same}",
        number(datafusion.median()),
        number(weld.median()),
        times(measured.ratio()),
        compiled.unwrap_or_default(),
        number(summary.as_ref().map(compile_ms)),
        number(weld.first_ms.or(datafusion.first_ms)),
        rows.map(|rows| rows.to_string()).unwrap_or_default(),
    )
}

fn compile_ms(summary: &Summary) -> f64 {
    summary.compile_time.as_secs_f64() * 1e3
}

fn number(ms: Option<f64>) -> String {
    ms.map(|ms| format!("{ms:.1}")).unwrap_or_default()
}

fn times(ratio: Option<f64>) -> String {
    ratio.map(|ratio| format!("{ratio:.2}x")).unwrap_or_default()
}

/// Milliseconds to three decimals.
fn microseconds(ms: f64) -> f64 {
    (ms * 1e3).round() / 1e3
}

fn rounded(ms: &[f64]) -> Vec<f64> {
    ms.iter().copied().map(microseconds).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_ratios() {
        let side = |ms: &[f64]| Side { first_ms: None, ms: ms.to_vec() };
        assert_eq!(side(&[]).median(), None);
        assert_eq!(side(&[3.0, 1.0, 2.0]).median(), Some(2.0));
        assert_eq!(side(&[4.0, 1.0, 2.0, 3.0]).median(), Some(2.5));
        let mut measured =
            Measured::new(&Query { name: "q1".to_owned(), number: Some(1), text: Ok("select 1".into()) });
        measured.datafusion = side(&[8.0]);
        assert_eq!(measured.ratio(), None);
        measured.weld = side(&[2.0]);
        assert_eq!(measured.ratio(), Some(4.0));
        assert!(table_line(&measured, 7).contains("4.00x"));
    }
}
