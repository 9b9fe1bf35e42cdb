//! Random expressions that are numbers.

use super::queries::{Column, Queries};
use super::tables::Kind;

impl Queries<'_> {
    pub(crate) fn integer(&mut self, columns: &[Column], depth: usize) -> String {
        match self.rng.below(15) {
            0..=4 => {
                let op = self.rng.pick(&["+", "-", "*", "+", "-", "*", "&", "|", "^"]);
                format!("({} {op} {})", self.expr(columns, Kind::Int, depth), self.expr(columns, Kind::Int, depth))
            }
            5 => {
                let op = self.rng.pick(&["/", "%"]);
                format!(
                    "({} {op} {})",
                    self.expr(columns, Kind::Int, depth),
                    self.rng.pick(&["3", "-2", "7", "-1", "1"])
                )
            }
            6 => {
                let op = self.rng.pick(&["/", "%"]);
                format!("({} {op} {})", self.expr(columns, Kind::Int, depth), self.column(columns, Kind::Int))
            }
            7 => format!("(- {})", self.expr(columns, Kind::Int, depth)),
            8 | 9 => {
                let from = self.rng.pick(&[
                    Kind::Int,
                    Kind::Int,
                    Kind::Bool,
                    Kind::Decimal,
                    Kind::Float,
                    Kind::Text,
                    Kind::Date,
                    Kind::Timestamp,
                ]);
                let to = self.rng.pick(&[
                    "TINYINT",
                    "SMALLINT",
                    "INT",
                    "BIGINT",
                    "BIGINT",
                    "BIGINT UNSIGNED",
                    "INT UNSIGNED",
                ]);
                let cast = self.rng.pick(&["CAST", "CAST", "TRY_CAST"]);
                format!("{cast}({} AS {to})", self.expr(columns, from, depth))
            }
            10 => self.part_of_time(columns, depth),
            11 => {
                let (op, by) = (self.rng.pick(&["<<", ">>"]), self.rng.pick(&["0", "1", "3", "31", "63", "64", "70"]));
                format!("({} {op} {by})", self.expr(columns, Kind::Int, depth))
            }
            12 => match self.rng.below(7) {
                0 => {
                    let (a, b) = (self.expr(columns, Kind::Date, depth), self.expr(columns, Kind::Date, depth));
                    format!("({a} - {b})")
                }
                1 => format!("to_unixtime({})", self.expr(columns, Kind::Timestamp, depth)),
                2 => format!("factorial(abs({} % 15))", self.expr(columns, Kind::Int, depth)),
                3 => {
                    let call = self.rng.pick(&["gcd", "lcm"]);
                    format!(
                        "{call}({} % 1000, {} % 1000)",
                        self.column(columns, Kind::Int),
                        self.column(columns, Kind::Int)
                    )
                }
                4 => format!("abs({})", self.expr(columns, Kind::Int, depth)),
                5 => format!("signum({})", self.expr(columns, Kind::Int, depth)),
                _ => format!("round({})", self.expr(columns, Kind::Int, depth)),
            },
            _ => self.place_in_text(columns, depth),
        }
    }

    fn place_in_text(&mut self, columns: &[Column], depth: usize) -> String {
        let (text, part) = (self.expr(columns, Kind::Text, depth), self.expr(columns, Kind::Text, depth));
        match self.rng.below(14) {
            0 | 1 => format!("strpos({text}, {part})"),
            2 => format!("regexp_count({text}, '[ab]')"),
            3 => format!("levenshtein({text}, {part})"),
            4 => format!("bit_length({text})"),
            5 => format!("position('{}' IN {text})", self.rng.pick(&["", "a", "el", "ö", " "])),
            6 => format!("find_in_set({text}, 'a,weld,abc')"),
            7 => format!("regexp_instr({text}, '[b-e]')"),
            _ => format!("{}({text})", self.rng.pick(&["character_length", "octet_length", "ascii"])),
        }
    }

    fn part_of_time(&mut self, columns: &[Column], depth: usize) -> String {
        let part = self.rng.pick(&[
            "year",
            "month",
            "day",
            "quarter",
            "dow",
            "doy",
            "hour",
            "minute",
            "second",
            "isodow",
            "isoyear",
            "week",
            "millisecond",
            "microsecond",
        ]);
        let kind = self.rng.pick(&[Kind::Date, Kind::Date, Kind::Timestamp, Kind::Timestamp, Kind::Time]);
        let of = self.expr(columns, kind, depth);
        match self.rng.one_in(3) {
            true => format!("CAST(extract({part} FROM {of}) AS INT)"),
            false => format!("CAST(date_part('{part}', {of}) AS INT)"),
        }
    }

    pub(crate) fn float(&mut self, columns: &[Column], depth: usize) -> String {
        let of = self.expr(columns, Kind::Float, depth);
        match self.rng.below(12) {
            0..=2 => {
                let op = self.rng.pick(&["+", "-", "*", "/", "%"]);
                format!("({of} {op} {})", self.expr(columns, Kind::Float, depth))
            }
            3 => format!("(- {of})"),
            4 | 5 => {
                let call = self.rng.pick(&["abs", "floor", "ceil", "trunc", "round", "signum", "cbrt"]);
                format!("{call}({of})")
            }
            6 => {
                let call = self.rng.pick(&[
                    "sqrt", "exp", "ln", "log10", "log2", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "tanh",
                    "degrees", "radians",
                ]);
                format!("{call}({of})")
            }
            7 => match self.rng.below(4) {
                0 => format!("power({of}, 2)"),
                1 => format!("nanvl({of}, {})", self.expr(columns, Kind::Float, depth)),
                2 => format!("atan2({of}, {})", self.expr(columns, Kind::Float, depth)),
                _ => {
                    let kind = self.rng.pick(&[Kind::Date, Kind::Timestamp]);
                    format!("date_part('epoch', {})", self.expr(columns, kind, depth))
                }
            },
            8 => {
                let call = self.rng.pick(&["round", "round", "trunc"]);
                format!("{call}({of}, {})", self.rng.below(6) as i64 - 2)
            }
            _ => {
                let from = self.rng.pick(&[Kind::Int, Kind::Decimal, Kind::Float, Kind::Text]);
                let cast = if from == Kind::Text { "TRY_CAST" } else { "CAST" };
                format!(
                    "{cast}({} AS {})",
                    self.expr(columns, from, depth),
                    self.rng.pick(&["DOUBLE", "DOUBLE", "REAL"])
                )
            }
        }
    }

    pub(crate) fn decimal(&mut self, columns: &[Column], depth: usize) -> String {
        match self.rng.below(11) {
            7 => format!(
                "{}({})",
                self.rng.pick(&["abs", "abs", "floor", "ceil"]),
                self.expr(columns, Kind::Decimal, depth)
            ),
            // Constants have another precision once DataFusion has rounded them than their declared type says.
            8 if columns.iter().any(|column| column.kind == Kind::Decimal) => {
                format!("round({}, {})", self.column(columns, Kind::Decimal), self.rng.below(5) as i64 - 1)
            }
            0..=3 => {
                let op = self.rng.pick(&["+", "-", "*", "+", "-", "*", "/", "%"]);
                format!(
                    "({} {op} {})",
                    self.expr(columns, Kind::Decimal, depth),
                    self.expr(columns, Kind::Decimal, depth)
                )
            }
            4 => format!("(- {})", self.expr(columns, Kind::Decimal, depth)),
            5 => {
                let op = self.rng.pick(&["+", "-", "*", "/", "%"]);
                format!("({} {op} {})", self.expr(columns, Kind::Decimal, depth), self.expr(columns, Kind::Int, depth))
            }
            _ => {
                let from = self.rng.pick(&[Kind::Int, Kind::Decimal, Kind::Decimal, Kind::Float, Kind::Text]);
                let to = self.rng.pick(&[
                    "DECIMAL(5, 2)",
                    "DECIMAL(15, 2)",
                    "DECIMAL(20, 4)",
                    "DECIMAL(38, 0)",
                    "DECIMAL(10, 0)",
                    "DECIMAL(38, 10)",
                    "DECIMAL(38, 30)",
                    "DECIMAL(50, 5)",
                ]);
                let cast = if from == Kind::Text { "TRY_CAST" } else { self.rng.pick(&["CAST", "CAST", "TRY_CAST"]) };
                format!("{cast}({} AS {to})", self.expr(columns, from, depth))
            }
        }
    }
}
