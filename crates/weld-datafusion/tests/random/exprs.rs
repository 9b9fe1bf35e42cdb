//! Random expressions of each kind.

use super::queries::{Column, KINDS, Queries};
use super::tables::Kind;

impl Queries<'_> {
    pub(crate) fn expr(&mut self, columns: &[Column], kind: Kind, depth: usize) -> String {
        if depth == 0 {
            return if self.rng.one_in(4) { self.literal(kind) } else { self.column(columns, kind) };
        }
        if kind != Kind::Bool && self.rng.one_in(3) {
            return self.column(columns, kind);
        }
        if self.rng.one_in(8) {
            return self.case(columns, kind, depth - 1);
        }
        if self.rng.one_in(12) {
            let (a, b) = (self.expr(columns, kind, depth - 1), self.expr(columns, kind, depth - 1));
            // DataFusion finds no common type for the others.
            let more = !matches!(kind, Kind::Bool | Kind::Float | Kind::Decimal | Kind::List);
            let two = ["coalesce", "nullif", "nvl", "greatest", "least"];
            let two = if more { &two[..] } else { &two[..2] };
            return format!("{}({a}, {b})", self.rng.pick(two));
        }
        match kind {
            Kind::Bool => self.boolean(columns, depth - 1),
            Kind::Int => self.integer(columns, depth - 1),
            Kind::Float => self.float(columns, depth - 1),
            Kind::Decimal => self.decimal(columns, depth - 1),
            Kind::Date if self.rng.one_in(3) => {
                let (date, op) = (self.expr(columns, Kind::Date, depth - 1), self.rng.pick(&["+", "-"]));
                format!("({date} {op} INTERVAL '{}')", self.rng.pick(&["3 days", "1 month", "1 year"]))
            }
            Kind::Timestamp if self.rng.one_in(3) => {
                if self.rng.one_in(2) {
                    let period = self.rng.pick(&["week", "month", "quarter", "year"]);
                    return format!("date_trunc('{period}', {})", self.expr(columns, Kind::Timestamp, depth - 1));
                }
                format!("CAST({} AS TIMESTAMP)", self.expr(columns, Kind::Date, depth - 1))
            }
            Kind::Text if self.rng.one_in(3) => {
                let text = self.expr(columns, Kind::Text, depth - 1);
                match self.rng.below(18) {
                    8 => {
                        let call = self.rng.pick(&["trim", "ltrim", "rtrim", "lower", "initcap"]);
                        format!("{call}({text})")
                    }
                    9 => format!("btrim({text}, 'a!')"),
                    10 => {
                        let call = self.rng.pick(&["lpad", "rpad"]);
                        format!("{call}({text}, {}, 'xy')", self.rng.below(15))
                    }
                    11 => format!("replace({text}, '{}', 'zz')", self.rng.pick(&["a", "b", "e", "el"])),
                    12 => format!("split_part({text}, ' ', {})", 1 + self.rng.below(3)),
                    13 => format!("repeat({text}, {})", self.rng.below(3)),
                    14 => format!("regexp_replace({text}, '{}', '<&>', 'g')", self.rng.pick(&["a+", "[b-e]", "^w"])),
                    15 => {
                        let other = self.expr(columns, Kind::Text, depth - 1);
                        format!("concat_ws('-', {text}, {other})")
                    }
                    16 => format!("right({text}, {})", self.rng.below(6) as i64 - 2),
                    17 => {
                        let pattern = self.rng.pick(&["%Y-%m-%d", "%d.%m", "%j"]);
                        format!("to_char({}, '{pattern}')", self.expr(columns, Kind::Date, depth - 1))
                    }
                    0 => format!("upper({text})"),
                    1 => format!("substr({text}, {}, {})", self.rng.below(6), self.rng.below(20)),
                    5 => format!("left({text}, {})", self.rng.below(15)),
                    6 => format!("reverse({text})"),
                    7 => format!("substr({text}, {})", self.rng.below(6)),
                    2 => format!("concat({text}, {})", self.expr(columns, Kind::Text, depth - 1)),
                    3 => format!("({text} || '!')"),
                    _ if self.rng.one_in(2) => {
                        format!("CAST({} AS VARCHAR)", self.expr(columns, Kind::Date, depth - 1))
                    }
                    _ => format!("CAST({} AS VARCHAR)", self.expr(columns, Kind::Int, depth - 1)),
                }
            }
            _ => self.column(columns, kind),
        }
    }

    fn case(&mut self, columns: &[Column], kind: Kind, depth: usize) -> String {
        let mut text = "CASE".to_owned();
        let base = self.rng.one_in(3).then(|| self.rng.pick(&[Kind::Int, Kind::Text, Kind::Decimal, Kind::Float]));
        if let Some(base) = base {
            text += &format!(" {}", self.expr(columns, base, depth));
        }
        for _ in 0..1 + self.rng.below(2) {
            let when = match base {
                Some(base) => self.literal(base),
                None => self.expr(columns, Kind::Bool, depth),
            };
            text += &format!(" WHEN {when} THEN {}", self.expr(columns, kind, depth));
        }
        if !self.rng.one_in(3) {
            text += &format!(" ELSE {}", self.expr(columns, kind, depth));
        }
        text + " END"
    }

    fn boolean(&mut self, columns: &[Column], depth: usize) -> String {
        let kind = self.rng.pick(&KINDS);
        let not = self.rng.pick(&["", "", "NOT "]);
        if columns.iter().any(|column| column.kind == Kind::List) && self.rng.one_in(10) {
            let list = self.expr(columns, Kind::List, depth);
            if self.rng.one_in(2) {
                return format!("({list} IS {not}NULL)");
            }
            let op = self.rng.pick(&["=", "<>", "IS DISTINCT FROM"]);
            return format!("({list} {op} {})", self.expr(columns, Kind::List, depth));
        }
        match self.rng.below(16) {
            0..=2 => {
                let (a, b) = (self.expr(columns, Kind::Bool, depth), self.expr(columns, Kind::Bool, depth));
                format!("({a} {} {b})", self.rng.pick(&["AND", "OR"]))
            }
            3 => format!("NOT ({})", self.expr(columns, Kind::Bool, depth)),
            4..=6 => {
                let op = self.rng.pick(&["=", "<>", "<", "<=", ">", ">="]);
                format!("({} {op} {})", self.expr(columns, kind, depth), self.expr(columns, kind, depth))
            }
            7 => {
                let expr = self.expr(columns, kind, depth);
                self.compare_with_literal(&expr, kind)
            }
            8 => format!("({} IS {not}NULL)", self.expr(columns, kind, depth)),
            9 => {
                let (a, b) = (self.expr(columns, kind, depth), self.expr(columns, kind, depth));
                format!("({a} IS {not}DISTINCT FROM {b})")
            }
            10 => {
                let members: Vec<String> = (0..1 + self.rng.below(5)).map(|_| self.literal(kind)).collect();
                format!("({} {not}IN ({}))", self.expr(columns, kind, depth), members.join(", "))
            }
            11 => {
                let (low, high) = (self.literal(kind), self.literal(kind));
                format!("({} {not}BETWEEN {low} AND {high})", self.expr(columns, kind, depth))
            }
            12 => {
                let pattern = self.rng.pick(&[
                    "a%",
                    "%a",
                    "%b%",
                    "a_c",
                    "%",
                    "",
                    "_",
                    "weld",
                    "a%c",
                    "%ö%",
                    "gr__e%",
                    "100\\%%",
                    "%\\_%",
                    "%twelve_%",
                ]);
                let like = self.rng.pick(&["LIKE", "LIKE", "LIKE", "ILIKE"]);
                format!("({} {not}{like} '{pattern}')", self.expr(columns, Kind::Text, depth))
            }
            13 => {
                let call = self.rng.pick(&["starts_with", "ends_with", "contains"]);
                let (text, part) = (self.expr(columns, Kind::Text, depth), self.expr(columns, Kind::Text, depth));
                format!("{call}({text}, {part})")
            }
            14 => {
                let pattern = self.rng.pick(&["^a", "b+$", "[a-m].", "ö"]);
                format!("({} ~ '{pattern}')", self.expr(columns, Kind::Text, depth))
            }
            _ => {
                let what = self.rng.pick(&["TRUE", "FALSE", "UNKNOWN"]);
                format!("({} IS {not}{what})", self.expr(columns, Kind::Bool, depth))
            }
        }
    }

    fn integer(&mut self, columns: &[Column], depth: usize) -> String {
        match self.rng.below(12) {
            0..=4 => {
                let op = self.rng.pick(&["+", "-", "*", "+", "-", "*", "&", "|"]);
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
                let from = self.rng.pick(&[Kind::Int, Kind::Int, Kind::Bool, Kind::Decimal, Kind::Float, Kind::Text]);
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
            10 => {
                let part =
                    self.rng.pick(&["year", "month", "day", "quarter", "dow", "doy", "hour", "minute", "second"]);
                let kind = self.rng.pick(&[Kind::Date, Kind::Date, Kind::Timestamp]);
                format!("CAST(date_part('{part}', {}) AS INT)", self.expr(columns, kind, depth))
            }
            _ if self.rng.one_in(3) => {
                let (text, part) = (self.expr(columns, Kind::Text, depth), self.expr(columns, Kind::Text, depth));
                match self.rng.below(4) {
                    0 => format!("strpos({text}, {part})"),
                    1 => format!("regexp_count({text}, '[ab]')"),
                    2 => format!("levenshtein({text}, {part})"),
                    _ => format!("bit_length({text})"),
                }
            }
            _ => {
                let call = self.rng.pick(&["character_length", "octet_length", "ascii"]);
                format!("{call}({})", self.expr(columns, Kind::Text, depth))
            }
        }
    }

    fn float(&mut self, columns: &[Column], depth: usize) -> String {
        match self.rng.below(8) {
            0..=2 => {
                let op = self.rng.pick(&["+", "-", "*", "/", "%"]);
                format!("({} {op} {})", self.expr(columns, Kind::Float, depth), self.expr(columns, Kind::Float, depth))
            }
            6 => {
                let call = self.rng.pick(&["abs", "floor", "ceil", "trunc", "round", "signum", "cbrt"]);
                format!("{call}({})", self.expr(columns, Kind::Float, depth))
            }
            7 if self.rng.one_in(2) => {
                let call = self.rng.pick(&["sqrt", "exp", "ln", "log10", "sin", "atan", "power"]);
                let of = self.expr(columns, Kind::Float, depth);
                if call == "power" { format!("power({of}, 2)") } else { format!("{call}({of})") }
            }
            7 => format!("round({}, {})", self.expr(columns, Kind::Float, depth), self.rng.below(4)),
            3 => format!("(- {})", self.expr(columns, Kind::Float, depth)),
            _ => {
                let from = self.rng.pick(&[Kind::Int, Kind::Decimal, Kind::Float]);
                format!("CAST({} AS {})", self.expr(columns, from, depth), self.rng.pick(&["DOUBLE", "DOUBLE", "REAL"]))
            }
        }
    }

    fn decimal(&mut self, columns: &[Column], depth: usize) -> String {
        match self.rng.below(9) {
            7 => format!("abs({})", self.expr(columns, Kind::Decimal, depth)),
            // Constants have another precision once DataFusion has rounded them than their declared type says.
            8 if columns.iter().any(|column| column.kind == Kind::Decimal) => {
                format!("round({}, {})", self.column(columns, Kind::Decimal), self.rng.below(3))
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
            _ => {
                let from = self.rng.pick(&[Kind::Int, Kind::Decimal, Kind::Decimal, Kind::Float]);
                let to = self.rng.pick(&[
                    "DECIMAL(5, 2)",
                    "DECIMAL(15, 2)",
                    "DECIMAL(20, 4)",
                    "DECIMAL(38, 0)",
                    "DECIMAL(10, 0)",
                ]);
                format!("CAST({} AS {to})", self.expr(columns, from, depth))
            }
        }
    }
}
