//! What a benchmark is made of: its tables and the texts of its queries, which are in `queries/`.

use std::path::Path;

use indicatif::ProgressBar;
use parquet::errors::Result as ParquetResult;

use crate::failure::{Failure, Result};

/// A benchmark: `weld tpch`, `weld tpcds`.
#[derive(Debug)]
pub(crate) struct Suite {
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

/// Inclusive.
pub(super) type Range = std::ops::RangeInclusive<usize>;

/// The texts of `queries/SUITE/qN.sql`.
macro_rules! texts {
    ($suite:literal $($number:literal)*) => {
        [$(include_str!(concat!("../../../../queries/", $suite, "/q", $number, ".sql"))),*]
    };
}
pub(super) use texts;

/// Reads `6` or `1-5`, for clap.
pub(super) fn parse_range(text: &str) -> std::result::Result<Range, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.trim().trim_start_matches(['q', 'Q']).parse::<usize>().ok();
    match (number(first), number(last)) {
        (Some(first), Some(last)) if 1 <= first && first <= last => Ok(first..=last),
        _ => Err("expected numbers such as 6 or 1-5".to_owned()),
    }
}

impl Suite {
    /// The numbers that `ranges` name, in their order; all of them when there is none.
    pub(super) fn numbers(&self, ranges: &[Range]) -> Result<Vec<usize>> {
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
    pub(super) fn text(&self, number: usize) -> &'static str {
        self.queries[number - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::super::{tpcds, tpch};
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
        for suite in [&tpch::SUITE, &tpcds::SUITE] {
            for number in 1..=suite.queries.len() {
                let title = format!("-- {} Q{number}", suite.title);
                let rest = suite.text(number).strip_prefix(&title);
                assert!(rest.is_some_and(|rest| rest.starts_with([':', ','])), "{title}");
            }
        }
    }
}
