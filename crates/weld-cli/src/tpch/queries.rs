//! The 22 queries, as in `queries/tpch`, and lists of their numbers.

/// Inclusive.
pub(super) type Range = std::ops::RangeInclusive<usize>;

pub(super) const COUNT: usize = 22;

/// The text of query `number`, which is 1 to 22.
pub(super) fn text(number: usize) -> &'static str {
    TEXTS[number - 1]
}

macro_rules! texts {
    ($($number:literal)*) => {
        [$(include_str!(concat!("../../../../queries/tpch/q", $number, ".sql"))),*]
    };
}

const TEXTS: [&str; COUNT] = texts!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22);

/// Reads `6` or `1-5`, for clap.
pub(super) fn parse_range(text: &str) -> Result<Range, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.trim().trim_start_matches(['q', 'Q']).parse::<usize>().ok();
    match (number(first), number(last)) {
        (Some(first), Some(last)) if 1 <= first && first <= last && last <= COUNT => Ok(first..=last),
        _ => Err(format!("expected numbers from 1 to {COUNT}")),
    }
}

/// The numbers that `ranges` name, in their order; all of them when there is none.
pub(super) fn numbers(ranges: &[Range]) -> Vec<usize> {
    match ranges {
        [] => (1..=COUNT).collect(),
        ranges => ranges.iter().cloned().flatten().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_name_queries() {
        assert_eq!(parse_range("6"), Ok(6..=6));
        assert_eq!(parse_range("1-3"), Ok(1..=3));
        for wrong in ["0", "23", "3-1", "x", ""] {
            assert!(parse_range(wrong).is_err(), "{wrong}");
        }
        assert_eq!(numbers(&[12..=12, 1..=2]), [12, 1, 2]);
        assert_eq!(numbers(&[]).len(), COUNT);
    }

    #[test]
    fn every_text_is_its_query() {
        for number in 1..=COUNT {
            assert!(text(number).starts_with(&format!("-- TPC-H Q{number}:")), "q{number}");
        }
    }
}
