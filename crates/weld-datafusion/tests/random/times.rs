//! Random expressions that are dates, times, or what lies between two of them.

use super::queries::{Column, Queries};
use super::tables::Kind;

const SPANS: [&str; 10] = [
    "3 days",
    "1 month",
    "1 year",
    "-5 months",
    "36 hours",
    "15 minutes",
    "1 month 2 days",
    "-1 day 3 hours",
    "0.25 seconds",
    "20 years 1 second",
];

const PERIODS: [&str; 11] =
    ["microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "month", "quarter", "year"];

impl Queries<'_> {
    /// An interval, mostly a constant.
    fn span(&mut self, columns: &[Column], depth: usize) -> String {
        if self.rng.one_in(4) {
            return self.expr(columns, Kind::Interval, depth.min(1));
        }
        format!("INTERVAL '{}'", self.rng.pick(&SPANS))
    }

    pub(crate) fn date(&mut self, columns: &[Column], depth: usize) -> String {
        match self.rng.below(8) {
            0..=2 => {
                let (date, op) = (self.expr(columns, Kind::Date, depth), self.rng.pick(&["+", "-"]));
                format!("({date} {op} {})", self.span(columns, depth))
            }
            3 => format!("CAST({} AS DATE)", self.expr(columns, Kind::Timestamp, depth)),
            4 => format!("TRY_CAST({} AS DATE)", self.expr(columns, Kind::Text, depth)),
            5 => {
                let of = |of: &mut Self, by: usize| {
                    format!("CAST(abs({} % {by}) + 1 AS INT)", of.column(columns, Kind::Int))
                };
                format!("make_date(2000 + {}, {}, {})", of(self, 30), of(self, 12), of(self, 28))
            }
            6 => format!("CAST({} % 1000 AS INT)::DATE", self.expr(columns, Kind::Int, depth)),
            _ => self.column(columns, Kind::Date),
        }
    }

    pub(crate) fn timestamp(&mut self, columns: &[Column], depth: usize) -> String {
        let kind = self.rng.pick(&[Kind::Timestamp, Kind::Timestamp, Kind::Timestamp, Kind::Date]);
        let time = self.expr(columns, kind, depth);
        match self.rng.below(14) {
            0..=2 => format!("date_trunc('{}', {time})", self.rng.pick(&PERIODS)),
            3 | 4 => {
                let stride =
                    self.rng.pick(&["15 minutes", "1 hour", "9 days", "1 second", "2 months", "1 year", "0.5 seconds"]);
                let origin = self.rng.pick(&["", "", "", ", TIMESTAMP '2001-02-03T04:05:06'"]);
                format!("date_bin(INTERVAL '{stride}', {time}{origin})")
            }
            5 | 6 => format!("({time} {} {})", self.rng.pick(&["+", "-"]), self.span(columns, depth)),
            7 => {
                let call = self.rng.pick(&[
                    "to_timestamp",
                    "to_timestamp_seconds",
                    "to_timestamp_millis",
                    "to_timestamp_micros",
                    "to_timestamp_nanos",
                    "from_unixtime",
                ]);
                let kind = self.rng.pick(&[Kind::Int, Kind::Int, Kind::Timestamp, Kind::Float]);
                let kind = if call == "from_unixtime" { Kind::Int } else { kind };
                format!("{call}({})", self.expr(columns, kind, depth))
            }
            8 => {
                let to = self.rng.pick(&[
                    "Timestamp(Second, None)",
                    "Timestamp(Millisecond, None)",
                    "Timestamp(Microsecond, None)",
                    "Timestamp(Nanosecond, None)",
                    "Timestamp(Nanosecond, Some(\"America/New_York\"))",
                    "Timestamp(Second, Some(\"+05:30\"))",
                    "Timestamp(Microsecond, Some(\"UTC\"))",
                ]);
                format!("arrow_cast({time}, '{to}')")
            }
            9 => {
                let zone = self.rng.pick(&["UTC", "Europe/Brussels", "America/New_York", "+05:30"]);
                format!("({} AT TIME ZONE '{zone}')", self.expr(columns, Kind::Timestamp, depth))
            }
            10 => format!("to_local_time({})", self.expr(columns, Kind::Timestamp, depth)),
            11 => format!("TRY_CAST({} AS TIMESTAMP)", self.expr(columns, Kind::Text, depth)),
            12 => format!("CAST({time} AS TIMESTAMP WITH TIME ZONE)"),
            _ => format!("CAST({} AS TIMESTAMP)", self.expr(columns, Kind::Date, depth)),
        }
    }

    pub(crate) fn time(&mut self, columns: &[Column], depth: usize) -> String {
        match self.rng.below(4) {
            0 => format!("CAST({} AS TIME)", self.expr(columns, Kind::Timestamp, depth)),
            1 => format!("({} + INTERVAL '{}')", self.expr(columns, Kind::Time, depth), self.rng.pick(&SPANS)),
            2 => format!("date_trunc('{}', {})", self.rng.pick(&PERIODS[..5]), self.expr(columns, Kind::Time, depth)),
            _ => self.column(columns, Kind::Time),
        }
    }

    pub(crate) fn duration(&mut self, columns: &[Column], depth: usize) -> String {
        match self.rng.below(3) {
            0 | 1 => {
                let (a, b) = (self.expr(columns, Kind::Timestamp, depth), self.expr(columns, Kind::Timestamp, depth));
                format!("({a} - {b})")
            }
            _ => self.column(columns, Kind::Duration),
        }
    }

    pub(crate) fn interval(&mut self, columns: &[Column], depth: usize) -> String {
        match self.rng.below(3) {
            0 => {
                let (a, b) = (self.expr(columns, Kind::Interval, depth), self.expr(columns, Kind::Interval, depth));
                format!("({a} {} {b})", self.rng.pick(&["+", "-"]))
            }
            1 => format!("CAST('{}' AS INTERVAL)", self.rng.pick(&SPANS)),
            _ => self.column(columns, Kind::Interval),
        }
    }
}
