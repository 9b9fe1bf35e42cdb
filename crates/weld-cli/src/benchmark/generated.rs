//! Benchmarks whose tables a generator makes and whose queries have numbers; their texts are in `queries/`.

use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::ProgressBar;
use parquet::errors::Result as ParquetResult;

use super::suite::{Query, Suite};
use super::{Options, files};
use crate::failure::{Failure, Result};
use crate::tables::Table;

/// A benchmark: `weld tpch`, `weld tpcds`, `weld h2o`, `weld clickbench`.
#[derive(Debug)]
pub(crate) struct Generated {
    /// As people write it.
    pub(super) title: &'static str,
    /// As the command line and folders have it.
    pub(super) name: &'static str,
    pub(super) tables: &'static [&'static str],
    /// The first is query 1.
    pub(super) queries: &'static [&'static str],
    /// How far the progress bar goes while the files of a scale factor are written.
    pub(super) steps: fn(f64) -> u64,
    /// Writes a file a table into a folder.
    pub(super) write: fn(&Path, f64, &ProgressBar) -> ParquetResult<()>,
}

#[derive(Args)]
pub(crate) struct RunArgs {
    /// Size of the data: 1 is about 1 GB of raw text (tpch, tpcds) or ten million rows (h2o, clickbench)
    #[arg(long, short = 's', default_value_t = 1.0, value_parser = scale_factor, value_name = "N")]
    scale_factor: f64,
    /// Folder of the Parquet files, made when absent [default: data/NAME-sf{N}]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Numbers of the queries, such as 1,6 or 1-5,12 [default: all]
    #[arg(long, short = 'q', value_delimiter = ',', value_parser = parse_range, value_name = "LIST")]
    queries: Vec<Range>,
    #[command(flatten)]
    pub(super) options: Options,
}

fn scale_factor(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number <= 100_000.0 => Ok(number),
        _ => Err("expected a number above 0, at most 100000".to_owned()),
    }
}

/// Inclusive.
type Range = std::ops::RangeInclusive<usize>;

/// The texts of `queries/SUITE/qN.sql`.
macro_rules! texts {
    ($suite:literal $($number:literal)*) => {
        [$(include_str!(concat!("../../../../queries/", $suite, "/q", $number, ".sql"))),*]
    };
}
pub(super) use texts;

/// Reads `6` or `1-5`, for clap.
fn parse_range(text: &str) -> std::result::Result<Range, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.trim().trim_start_matches(['q', 'Q']).parse::<usize>().ok();
    match (number(first), number(last)) {
        (Some(first), Some(last)) if 1 <= first && first <= last => Ok(first..=last),
        _ => Err("expected numbers such as 6 or 1-5".to_owned()),
    }
}

impl Generated {
    /// Makes the tables when they are absent.
    pub(super) fn suite(&self, args: &RunArgs) -> Result<Suite> {
        let numbers = self.numbers(&args.queries)?;
        let scale_factor = args.scale_factor;
        let folder = args.data.clone().unwrap_or_else(|| format!("data/{}-sf{scale_factor}", self.name).into());
        files::ensure(self, &folder, scale_factor)?;
        let table = |name: &&str| Table { name: (*name).to_owned(), path: files::file(&folder, name) };
        let query =
            |number| Query { name: format!("q{number}"), number: Some(number), text: Ok(self.text(number).into()) };
        let tables = self.tables.iter().map(table).collect();
        let scale = scale_factor.to_string();
        let command =
            [self.name.into(), "run".into(), "--scale-factor".into(), scale.into(), "--data".into(), folder.into()];
        Ok(Suite {
            title: format!("{}, scale factor {scale_factor}", self.title),
            tables,
            queries: numbers.into_iter().map(query).collect(),
            scale_factor: Some(scale_factor),
            command: command.into(),
        })
    }

    /// The numbers that `ranges` name, in their order; all of them when there is none.
    fn numbers(&self, ranges: &[Range]) -> Result<Vec<usize>> {
        let count = self.queries.len();
        if let Some(range) = ranges.iter().find(|range| *range.end() > count) {
            return Err(Failure::Usage(format!("there is no query '{}': {} has {count}", range.end(), self.title)));
        }
        Ok(match ranges {
            [] => (1..=count).collect(),
            ranges => ranges.iter().cloned().flatten().collect(),
        })
    }

    /// The text of a query.
    fn text(&self, number: usize) -> &'static str {
        self.queries[number - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::super::{clickbench, h2o, tpcds, tpch};
    use super::*;

    #[test]
    fn ranges_name_queries() {
        assert_eq!(parse_range("6"), Ok(6..=6));
        assert_eq!(parse_range("1-3"), Ok(1..=3));
        for wrong in ["0", "3-1", "x", ""] {
            assert!(parse_range(wrong).is_err(), "{wrong}");
        }
        assert_eq!(tpch::SUITE.numbers(&[12..=12, 1..=2]).expect("they are there"), [12, 1, 2]);
        assert_eq!(tpch::SUITE.numbers(&[]).expect("they are there").len(), 22);
        assert!(matches!(tpch::SUITE.numbers(&[1..=23]), Err(Failure::Usage(_))));
    }

    #[test]
    fn every_text_is_its_query() {
        for suite in [&tpch::SUITE, &tpcds::SUITE, &h2o::SUITE, &clickbench::SUITE] {
            for number in 1..=suite.queries.len() {
                let title = format!("-- {} Q{number}", suite.title);
                let rest = suite.text(number).strip_prefix(&title);
                assert!(rest.is_some_and(|rest| rest.starts_with([':', ','])), "{title}");
            }
        }
    }
}
