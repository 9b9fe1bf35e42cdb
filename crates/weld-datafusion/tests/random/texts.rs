//! Random expressions that are texts or bytes.

use super::queries::{Column, Queries};
use super::tables::Kind;

impl Queries<'_> {
    pub(crate) fn text(&mut self, columns: &[Column], depth: usize) -> String {
        let text = self.expr(columns, Kind::Text, depth);
        let small = |of: &mut Self| of.rng.below(20) as i64 - 5;
        match self.rng.below(26) {
            0..=2 => self.trimmed(columns, &text),
            3 | 4 => {
                let start = small(self);
                match self.rng.below(4) {
                    0 => format!("substr({text}, {start})"),
                    1 => format!("substring({text} FROM {start} FOR {})", self.rng.below(8)),
                    _ => format!("substr({text}, {start}, {})", self.rng.below(20)),
                }
            }
            5 | 6 => format!("{}({text}, {})", self.rng.pick(&["left", "right"]), small(self)),
            7 | 8 => {
                let separator = self.rng.pick(&[" ", " ", "e", "l", "th", ",", "a", "-", ""]);
                format!("split_part({text}, '{separator}', {})", self.rng.pick(&[1, 1, 2, 2, 3, 7, -1, -2]))
            }
            9 => format!("{}({text})", self.rng.pick(&["upper", "lower", "initcap", "reverse"])),
            10 => {
                let (call, fill) = (self.rng.pick(&["lpad", "rpad"]), self.rng.pick(&[", 'xy'", ", ''", ""]));
                format!("{call}({text}, {}{fill})", self.rng.below(15))
            }
            11 => format!("replace({text}, '{}', 'zz')", self.rng.pick(&["a", "b", "e", "el", ""])),
            12 => match self.rng.below(4) {
                0 => format!("translate({text}, 'abe', 'xy')"),
                1 => format!("overlay({text} PLACING 'XX' FROM {} FOR 2)", 1 + self.rng.below(4)),
                2 => format!("substr_index({text}, ' ', {})", self.rng.pick(&[1, 2, -1])),
                _ => format!("to_hex({})", self.expr(columns, Kind::Int, depth)),
            },
            13 => format!("repeat({text}, {})", self.rng.below(3)),
            14 => {
                let (pattern, flags) =
                    (self.rng.pick(&["a+", "[b-e]", "^w", "(.)l"]), self.rng.pick(&[", 'g'", ", 'i'", ""]));
                format!("regexp_replace({text}, '{pattern}', '<\\1>'{flags})")
            }
            15 => {
                let other = self.expr(columns, Kind::Text, depth);
                let call = self.rng.pick(&["concat_ws('-', ", "concat("]);
                format!("{call}{text}, {other})")
            }
            16 => {
                let other = self.expr(columns, Kind::Text, 0);
                let other = self.rng.pick(&["'!'".to_owned(), other]);
                format!("({text} || {other})")
            }
            17 => {
                let pattern = self.rng.pick(&["%Y-%m-%d", "%d.%m", "%j"]);
                let kind = self.rng.pick(&[Kind::Date, Kind::Timestamp]);
                format!("to_char({}, '{pattern}')", self.expr(columns, kind, depth))
            }
            18 => {
                let to = self.rng.pick(&["Utf8", "LargeUtf8", "Utf8View", "Dictionary(Int32, Utf8)"]);
                format!("arrow_cast({text}, '{to}')")
            }
            _ => {
                let from = self.rng.pick(&[
                    Kind::Int,
                    Kind::Int,
                    Kind::Date,
                    Kind::Bool,
                    Kind::Decimal,
                    Kind::Timestamp,
                    Kind::Time,
                    Kind::Text,
                ]);
                format!("CAST({} AS VARCHAR)", self.expr(columns, from, depth))
            }
        }
    }

    fn trimmed(&mut self, columns: &[Column], text: &str) -> String {
        let call = self.rng.pick(&["trim", "btrim", "ltrim", "rtrim"]);
        match self.rng.below(4) {
            0 => format!("{call}({text})"),
            1 => format!("{call}({text}, {})", self.column(columns, Kind::Text)),
            2 => {
                let side = self.rng.pick(&["BOTH", "LEADING", "TRAILING"]);
                format!("trim({side} '{}' FROM {text})", self.rng.pick(&["a", "ab", "tw", " "]))
            }
            _ => format!("{call}({text}, '{}')", self.rng.pick(&["a!", "", "the ", "ößü", "é∞ ", "a", "\t\n "])),
        }
    }

    pub(crate) fn binary(&mut self, columns: &[Column], depth: usize) -> String {
        match self.rng.below(4) {
            0 => format!("CAST({} AS BYTEA)", self.expr(columns, Kind::Text, depth)),
            1 => {
                let to = self.rng.pick(&["Binary", "LargeBinary", "BinaryView"]);
                format!("arrow_cast({}, '{to}')", self.expr(columns, Kind::Binary, depth))
            }
            _ => self.column(columns, Kind::Binary),
        }
    }
}
