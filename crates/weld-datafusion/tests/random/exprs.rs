//! Random expressions of each kind: what is common to all of them, and conditions.

use super::queries::{Column, KINDS, Queries};
use super::tables::Kind;

/// With letters that have another case outside of ASCII, escapes, and wildcards everywhere.
const PATTERNS: [&str; 28] = [
    "a%",
    "%a",
    "%b%",
    "a_c",
    "%",
    "%%",
    "",
    "_",
    "weld",
    "WELD%",
    "%W_LD%",
    "a%c",
    "%ö%",
    "gr__e%",
    "100\\%%",
    "%\\_%",
    "%\\\\",
    "%twelve_%",
    "%string%longer%too",
    "%longer%string%",
    "%k",
    "%s%",
    "_tring",
    "stra%e%",
    "%i%n%",
    "%\n%",
    "__",
    "%, with%",
];

const REGEXES: [&str; 14] = [
    "^a", "b+$", "[a-m].", "ö", "^$", ".", "weld|abc", "(?i)WELD", "\\d+", "^[^ ]*$", "\\s", "^.{3}$", "a(b)?c?$",
    "\\bt",
];

impl Queries<'_> {
    pub(crate) fn expr(&mut self, columns: &[Column], kind: Kind, depth: usize) -> String {
        let here = columns.iter().any(|column| column.kind == kind);
        if depth == 0 || kind == Kind::Nested {
            return if self.rng.one_in(4) { self.literal(kind) } else { self.column(columns, kind) };
        }
        if kind != Kind::Bool && self.rng.one_in(if here { 3 } else { 6 }) {
            return self.column(columns, kind);
        }
        if self.rng.one_in(8) {
            return self.case(columns, kind, depth - 1);
        }
        if self.rng.one_in(12) {
            return self.chosen(columns, kind, depth - 1);
        }
        if Self::has_functions(kind) && self.rng.one_in(if kind == Kind::List { 2 } else { 10 }) {
            return self.function_call(columns, kind, depth - 1);
        }
        match kind {
            Kind::Bool => self.boolean(columns, depth - 1),
            Kind::Int => self.integer(columns, depth - 1),
            Kind::Float => self.float(columns, depth - 1),
            Kind::Decimal => self.decimal(columns, depth - 1),
            Kind::Date => self.date(columns, depth - 1),
            Kind::Timestamp => self.timestamp(columns, depth - 1),
            Kind::Time => self.time(columns, depth - 1),
            Kind::Duration => self.duration(columns, depth - 1),
            Kind::Interval => self.interval(columns, depth - 1),
            Kind::Text => self.text(columns, depth - 1),
            Kind::Binary => self.binary(columns, depth - 1),
            Kind::List | Kind::Nested => self.column(columns, kind),
        }
    }

    /// One of two or three values.
    fn chosen(&mut self, columns: &[Column], kind: Kind, depth: usize) -> String {
        let (a, b) = (self.expr(columns, kind, depth), self.expr(columns, kind, depth));
        // DataFusion finds no common type for the others.
        let more = !matches!(kind, Kind::Bool | Kind::Float | Kind::Decimal | Kind::List);
        match self.rng.below(if more { 8 } else { 4 }) {
            0 | 1 => format!("coalesce({a}, {b})"),
            2 => format!("nullif({a}, {b})"),
            3 => format!("coalesce({a}, {b}, {})", self.expr(columns, kind, 0)),
            4 => format!("nvl({a}, {b})"),
            5 => format!("nvl2({}, {a}, {b})", self.expr(columns, kind, 0)),
            _ => format!("{}({a}, {b})", self.rng.pick(&["greatest", "least"])),
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
        match self.rng.below(18) {
            0..=2 => {
                let (a, b) = (self.expr(columns, Kind::Bool, depth), self.expr(columns, Kind::Bool, depth));
                format!("({a} {} {b})", self.rng.pick(&["AND", "AND", "AND", "OR", "OR", "OR", "="]))
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
            10 => self.among(columns, kind, depth),
            11 => {
                let (low, high) = match self.rng.one_in(3) {
                    true => (self.expr(columns, kind, 0), self.expr(columns, kind, 0)),
                    false => (self.literal(kind), self.literal(kind)),
                };
                format!("({} {not}BETWEEN {low} AND {high})", self.expr(columns, kind, depth))
            }
            12 | 13 => self.like(columns, depth),
            14 => {
                let call = self.rng.pick(&["starts_with", "ends_with", "contains"]);
                let (text, part) = (self.expr(columns, Kind::Text, depth), self.expr(columns, Kind::Text, depth));
                format!("{call}({text}, {part})")
            }
            15 => {
                let (pattern, text) = (self.rng.pick(&REGEXES), self.expr(columns, Kind::Text, depth));
                match self.rng.below(3) {
                    0 => format!("regexp_like({text}, '{pattern}'{})", self.rng.pick(&["", ", 'i'", ", 's'"])),
                    _ => format!("({text} {} '{pattern}')", self.rng.pick(&["~", "~*", "!~", "!~*"])),
                }
            }
            16 => {
                let call = self.rng.pick(&["isnan", "iszero"]);
                format!("{call}({})", self.expr(columns, Kind::Float, depth))
            }
            _ => {
                let what = self.rng.pick(&["TRUE", "FALSE", "UNKNOWN"]);
                format!("({} IS {not}{what})", self.expr(columns, Kind::Bool, depth))
            }
        }
    }

    /// IN, with constants and without.
    fn among(&mut self, columns: &[Column], kind: Kind, depth: usize) -> String {
        let not = self.rng.pick(&["", "NOT "]);
        let members: Vec<String> = (0..1 + self.rng.below(6))
            .map(|_| if self.rng.one_in(6) { self.expr(columns, kind, 0) } else { self.literal(kind) })
            .collect();
        format!("({} {not}IN ({}))", self.expr(columns, kind, depth), members.join(", "))
    }

    fn like(&mut self, columns: &[Column], depth: usize) -> String {
        let not = self.rng.pick(&["", "", "NOT "]);
        let like = self.rng.pick(&["LIKE", "LIKE", "LIKE", "ILIKE", "ILIKE", "SIMILAR TO"]);
        let text = self.expr(columns, Kind::Text, depth);
        if like == "SIMILAR TO" {
            let pattern = self.rng.pick(&["a%", "(a|w)%", "_b_", "%e+%", "[a-c]*", "weld"]);
            return format!("({text} {not}{like} '{pattern}')");
        }
        if self.rng.one_in(12) {
            return format!("({text} {not}{like} {})", self.expr(columns, Kind::Text, 0));
        }
        format!("({text} {not}{like} '{}')", self.rng.pick(&PATTERNS))
    }

    /// Several plain conditions on columns, some of them on one.
    pub(crate) fn conjuncts(&mut self, columns: &[Column]) -> String {
        let kinds: Vec<Kind> = (0..1 + self.rng.below(2)).map(|_| self.rng.pick(&KINDS)).collect();
        let mut all = Vec::new();
        for _ in 0..2 + self.rng.below(3) {
            let kind = self.rng.pick(&kinds);
            let column = self.column(columns, kind);
            all.push(match self.rng.below(6) {
                0 => format!("{column} IS {}NULL", self.rng.pick(&["", "NOT ", "NOT "])),
                1 => self.among(columns, kind, 0),
                2 => format!("{column} BETWEEN {} AND {}", self.literal(kind), self.literal(kind)),
                _ if kind == Kind::Text && self.rng.one_in(2) => self.like(columns, 0),
                3 => {
                    let other = self.rng.pick(&KINDS);
                    let other = self.column(columns, other);
                    format!("({} OR {other} IS NULL)", self.compare_with_literal(&column, kind))
                }
                _ => self.compare_with_literal(&column, kind),
            });
        }
        let join = if self.rng.one_in(4) { " OR " } else { " AND " };
        all.join(join)
    }
}
