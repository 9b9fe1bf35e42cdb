//! Random SQL over random tables: well typed, apart from what only a run can tell (overflow, division by zero). Where a
//! query leaves a choice (LIMIT, window functions), it orders by everything or chooses among equal rows.

use weld_test::generate::rng::Rng;

use super::tables::{Kind, Table};

/// A column that a clause may refer to.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

pub(crate) struct Queries<'a> {
    pub(crate) rng: &'a mut Rng,
    pub(crate) tables: &'a [Table],
    aliases: usize,
}

/// The common ones more often.
pub(crate) const KINDS: [Kind; 18] = [
    Kind::Bool,
    Kind::Bool,
    Kind::Int,
    Kind::Int,
    Kind::Int,
    Kind::Float,
    Kind::Float,
    Kind::Decimal,
    Kind::Decimal,
    Kind::Date,
    Kind::Timestamp,
    Kind::Timestamp,
    Kind::Text,
    Kind::Text,
    Kind::Text,
    Kind::Time,
    Kind::Binary,
    Kind::Interval,
];

const JOINS: [&str; 12] = [
    "JOIN",
    "JOIN",
    "JOIN",
    "JOIN",
    "LEFT JOIN",
    "RIGHT JOIN",
    "FULL JOIN",
    "LEFT SEMI JOIN",
    "LEFT ANTI JOIN",
    "RIGHT SEMI JOIN",
    "RIGHT ANTI JOIN",
    "LEFT JOIN",
];

fn null(kind: Kind) -> String {
    let name = match kind {
        Kind::Bool => "BOOLEAN",
        Kind::Int => "BIGINT",
        Kind::Float => "DOUBLE",
        Kind::Decimal => "DECIMAL(15, 2)",
        Kind::Date => "DATE",
        Kind::Timestamp => "TIMESTAMP",
        Kind::Time => "TIME",
        Kind::Interval => "INTERVAL",
        Kind::Text => "VARCHAR",
        Kind::Binary => "BYTEA",
        Kind::List => "BIGINT[]",
        Kind::Duration | Kind::Nested => "BIGINT",
    };
    format!("CAST(NULL AS {name})")
}

fn qualified(alias: &str, columns: &[Column]) -> Vec<Column> {
    columns.iter().map(|c| Column { name: format!("{alias}.{}", c.name), kind: c.kind }).collect()
}

impl<'a> Queries<'a> {
    pub(crate) fn new(rng: &'a mut Rng, tables: &'a [Table]) -> Queries<'a> {
        Queries { rng, tables, aliases: 0 }
    }

    pub(crate) fn query(&mut self) -> String {
        match self.rng.below(27) {
            18..=25 => self.rare_form(),
            15 => self.ordered_by_all(1, 40),
            16 => self.whole_partitions(),
            17 => self.unnested(),
            12 => self.correlated(),
            13 => self.recursive(),
            14 => self.windows(),
            0 | 1 => self.set_operation(),
            2 => self.ordered_by_all(2, 12),
            3 => self.window(),
            4 => self.grouping_sets(),
            5 => {
                let (select, columns) = self.select(1);
                let (alias, from) = (self.alias(), self.alias());
                let qualified = qualified(&alias, &columns);
                let outer = self.filter(&qualified);
                let all: Vec<&str> = qualified.iter().map(|column| column.name.as_str()).collect();
                if self.rng.one_in(2) {
                    return self.read_twice(&select, &columns);
                }
                format!("WITH {from} AS ({select}) SELECT {} FROM {from} AS {alias}{outer}", all.join(", "))
            }
            _ => self.select(2).0,
        }
    }

    /// Subqueries that refer to the row around them, in the list of a SELECT or among the conditions of a filter.
    fn correlated(&mut self) -> String {
        let (from, columns) = self.source(0);
        let mut shown = Vec::new();
        for _ in 0..1 + self.rng.below(2) {
            let kind = self.rng.pick(&KINDS);
            shown.push(self.expr(&columns, kind, 1));
        }
        if self.rng.one_in(2) {
            let (inner_from, inner) = self.source(0);
            let kind = self.rng.pick(&[Kind::Int, Kind::Text, Kind::Date]);
            let (key, inner_key) = (self.column(&columns, kind), self.column(&inner, kind));
            let (call, _) = self.plain_call(&inner);
            let residual =
                if self.rng.one_in(3) { format!(" AND {}", self.expr(&inner, Kind::Bool, 1)) } else { String::new() };
            shown.push(format!("(SELECT {call} FROM {inner_from} WHERE {inner_key} = {key}{residual})"));
        }
        let mut conditions = Vec::new();
        for _ in 0..1 + self.rng.below(2) {
            conditions.push(self.subquery_condition(&columns));
        }
        if self.rng.one_in(2) {
            conditions.push(self.expr(&columns, Kind::Bool, 1));
        }
        let list: Vec<String> = shown.iter().enumerate().map(|(i, shown)| format!("{shown} AS r{i}")).collect();
        let join = self.rng.pick(&[" AND ", " OR "]);
        format!("SELECT {} FROM {from} WHERE {}", list.join(", "), conditions.join(join))
    }

    fn subquery_condition(&mut self, columns: &[Column]) -> String {
        let (from, inner) = self.source(0);
        let kind = self.rng.pick(&[Kind::Int, Kind::Int, Kind::Text, Kind::Date]);
        let (key, inner_key) = (self.column(columns, kind), self.column(&inner, kind));
        let compared = self.rng.pick(&[Kind::Int, Kind::Decimal]);
        let (outer, argument) = (self.column(columns, compared), self.column(&inner, compared));
        let not = self.rng.pick(&["", "NOT "]);
        match self.rng.below(4) {
            0 => format!("{not}EXISTS (SELECT 1 FROM {from} WHERE {inner_key} = {key})"),
            1 => {
                let op = self.rng.pick(&["<", "<>", ">="]);
                format!("{not}EXISTS (SELECT 1 FROM {from} WHERE {inner_key} = {key} AND {argument} {op} {outer})")
            }
            2 => format!("{key} {not}IN (SELECT {inner_key} FROM {from})"),
            _ => {
                let (op, call) = (self.rng.pick(&["<", "=", ">"]), self.rng.pick(&["min", "max", "avg", "sum"]));
                format!("{outer} {op} (SELECT {call}({argument}) FROM {from} WHERE {inner_key} = {key})")
            }
        }
    }

    /// Steps from one number to others, through a table's rows.
    fn recursive(&mut self) -> String {
        let (steps, end) = (self.alias(), 1 + self.rng.below(6));
        let (from, columns) = self.source(0);
        let key = self.column(&columns, Kind::Int);
        let step = match self.rng.below(3) {
            0 => format!("SELECT n + 1 FROM {steps} WHERE n < {end}"),
            1 => format!("SELECT DISTINCT n + 1 FROM {steps} JOIN {from} ON n = {key} WHERE n < {end}"),
            _ => format!("SELECT n + 1 FROM {steps} WHERE n < {end} AND n IN (SELECT {key} FROM {from})"),
        };
        let with = format!("WITH RECURSIVE {steps} AS (SELECT CAST(0 AS BIGINT) AS n UNION ALL {step})");
        if self.rng.one_in(2) {
            return format!("{with} SELECT count(*) AS c, sum(n) AS s, max(n) AS m FROM {steps}");
        }
        let (from, columns) = self.source(0);
        let key = self.column(&columns, Kind::Int);
        let join = self.rng.pick(&["JOIN", "LEFT JOIN", "RIGHT JOIN"]);
        format!("{with} SELECT n, {key} AS k FROM {steps} {join} {from} ON n = {key}")
    }

    /// Several window functions over one order or over several, frames by values and by peers.
    fn windows(&mut self) -> String {
        let (from, columns) = self.from(0);
        let filter = self.filter(&columns);
        let partition = self.rng.pick(&columns).name;
        let order = columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ");
        let mut list = vec![format!("{partition} AS p")];
        for index in 0..1 + self.rng.below(3) {
            let kind = self.rng.pick(&[Kind::Int, Kind::Decimal]);
            let (argument, key) = (self.column(&columns, kind), self.column(&columns, Kind::Int));
            let of = if self.rng.one_in(3) { String::new() } else { format!("PARTITION BY {partition} ") };
            let call = self.rng.pick(&["sum", "count", "min", "max", "avg"]);
            let frame = self.rng.pick(&[
                "RANGE BETWEEN 2 PRECEDING AND CURRENT ROW",
                "RANGE BETWEEN 1 PRECEDING AND 3 FOLLOWING",
                "RANGE BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING",
                "GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW",
                "GROUPS BETWEEN CURRENT ROW AND 1 FOLLOWING",
                "ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
            ]);
            let direction = self.rng.pick(&["", " DESC", " NULLS FIRST"]);
            let by = if frame.starts_with("ROWS") { order.clone() } else { format!("{key}{direction}") };
            // Two that tell equal rows apart may do so in different orders.
            let is_first =
                index == 0 || !list.iter().any(|other| other.contains("row_number") || other.contains("ROWS"));
            list.push(match self.rng.below(3) {
                0 if is_first => format!("row_number() OVER ({of}ORDER BY {order}) AS w{index}"),
                2 if is_first || !frame.starts_with("ROWS") => {
                    format!("{call}({argument}) OVER ({of}ORDER BY {by} {frame}) AS w{index}")
                }
                _ => format!("{call}({argument}) OVER ({of}ORDER BY {key}{direction}) AS w{index}"),
            });
        }
        format!("SELECT {} FROM {from}{filter}", list.join(", "))
    }

    /// Aggregates of all types over whole window partitions, whose rows need no order.
    fn whole_partitions(&mut self) -> String {
        let (from, columns) = self.from(1);
        let filter = self.filter(&columns);
        let partition = self.rng.pick(&columns).name;
        let mut list = vec![format!("{partition} AS p")];
        for index in 0..1 + self.rng.below(3) {
            let any = self.rng.pick(&KINDS);
            let (call, _) = match self.rng.below(3) {
                // Windows take whichever NaN is greatest, whatever the order of rows.
                0 => (format!("{}({})", self.rng.pick(&["min", "max"]), self.expr(&columns, any, 1)), any),
                1 => (format!("count({})", self.expr(&columns, any, 1)), Kind::Int),
                _ => {
                    let numeric = self.rng.pick(&[Kind::Int, Kind::Float, Kind::Decimal]);
                    let name = self.rng.pick(&["sum", "avg", "min", "max"]);
                    (format!("{name}({})", self.expr(&columns, numeric, 1)), numeric)
                }
            };
            let call = format!("{call} OVER (PARTITION BY {partition})");
            if !list.iter().any(|other| other.starts_with(&call)) {
                list.push(format!("{call} AS w{index}"));
            }
        }
        format!("SELECT {} FROM {from}{filter}", list.join(", "))
    }

    /// A row for each item of a list.
    fn unnested(&mut self) -> String {
        let (from, columns) = self.from(0);
        let filter = self.filter(&columns);
        let (list, kind) = (self.expr(&columns, Kind::List, 1), self.rng.pick(&KINDS));
        let (items, beside) = (self.alias(), self.column(&columns, kind));
        let rows = format!("SELECT {beside} AS k, unnest({list}) AS u FROM {from}{filter}");
        match self.rng.below(3) {
            0 => rows,
            1 => format!("SELECT u, count(*) AS n, min(k) AS m FROM ({rows}) AS {items} GROUP BY u"),
            _ => {
                let (other, columns) = self.source(0);
                let key = self.column(&columns, Kind::Int);
                format!("SELECT u, {key} AS o FROM ({rows}) AS {items} JOIN {other} ON u = {key}")
            }
        }
    }

    fn read_twice(&mut self, select: &str, columns: &[Column]) -> String {
        let (from, one, other) = (self.alias(), self.alias(), self.alias());
        let all = |alias: &str| {
            let names: Vec<String> = qualified(alias, columns).into_iter().map(|column| column.name).collect();
            names.join(", ")
        };
        let with = format!("WITH {from} AS ({select})");
        // Keys have few values, see `from`: joins of joins have millions of rows, too.
        let is_large = select.contains(" JOIN ") || self.tables.iter().any(Table::is_large);
        if is_large || self.rng.one_in(2) {
            return format!(
                "{with} SELECT {} FROM {from} AS {one} UNION ALL SELECT {} FROM {from} AS {other}",
                all(&one),
                all(&other)
            );
        }
        let (join, key) = (self.rng.pick(&JOINS[..7]), &self.rng.pick(columns).name);
        let shown = format!("{}, {}", all(&one), all(&other));
        let shown: Vec<String> = shown.split(", ").enumerate().map(|(i, name)| format!("{name} AS c{i}")).collect();
        format!(
            "{with} SELECT {} FROM {from} AS {one} {join} {from} AS {other} ON {one}.{key} = {other}.{key}",
            shown.join(", ")
        )
    }

    /// All columns decide the order, so that ties do not show.
    fn ordered_by_all(&mut self, depth: usize, limit: usize) -> String {
        let (select, columns) = self.select(depth);
        self.with_order(&select, columns.len(), limit)
    }

    pub(crate) fn with_order(&mut self, select: &str, columns: usize, limit: usize) -> String {
        let directions = ["", " DESC", " NULLS FIRST", " DESC NULLS LAST"];
        let order: Vec<String> = (1..=columns).map(|index| format!("{index}{}", self.rng.pick(&directions))).collect();
        let offset = if self.rng.one_in(3) { " OFFSET 2" } else { "" };
        if self.rng.one_in(4) {
            return format!("{select} ORDER BY {}{offset}", order.join(", "));
        }
        format!("{select} ORDER BY {} LIMIT {}{offset}", order.join(", "), self.rng.below(limit))
    }

    /// A window over rows in an order that ties only equal rows.
    fn window(&mut self) -> String {
        let (from, columns) = self.from(1);
        let filter = self.filter(&columns);
        let shown: Vec<Column> = (0..1 + self.rng.below(3)).map(|_| self.rng.pick(&columns)).collect();
        let names: Vec<&str> = shown.iter().map(|column| column.name.as_str()).collect();
        let order = columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ");
        let numeric = self.rng.pick(&[Kind::Int, Kind::Decimal]);
        let argument = self.expr(&columns, numeric, 1);
        let call = self.window_call(&argument, names[0], names[names.len() - 1], &order);
        let (alias, name) = (self.alias(), self.alias());
        let list: Vec<String> = names.iter().enumerate().map(|(i, shown)| format!("{shown} AS w{i}")).collect();
        let inner = format!("SELECT {}, {call} AS {name} FROM {from}{filter}", list.join(", "));
        if self.rng.one_in(2) {
            return inner;
        }
        format!("SELECT * FROM ({inner}) AS {alias} WHERE {alias}.{name} > {}", self.rng.below(5))
    }

    /// `order` ties only equal rows; the peers by `peers` may differ.
    fn window_call(&mut self, argument: &str, partition: &str, peers: &str, order: &str) -> String {
        let partition = self.rng.pick(&["".to_owned(), format!("PARTITION BY {partition}")]);
        let of_peers =
            ["rank()", "dense_rank()", "percent_rank()", "cume_dist()", "count(*)", "sum(A)", "max(A)", "avg(A)"];
        let of_rows = ["row_number()", "lag(A)", "lead(A, 2)", "ntile(3)", "first_value(A)", "last_value(A)", "sum(A)"];
        let framed = ["sum(A)", "count(A)", "min(A)", "max(A)", "avg(A)", "first_value(A)", "last_value(A)"];
        let frames = [
            "UNBOUNDED PRECEDING AND CURRENT ROW",
            "UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
            "2 PRECEDING AND CURRENT ROW",
            "1 PRECEDING AND 1 FOLLOWING",
            "3 PRECEDING AND 1 PRECEDING",
            "CURRENT ROW AND UNBOUNDED FOLLOWING",
        ];
        let (call, over) = match self.rng.below(4) {
            0 => (self.rng.pick(&of_peers), format!("{partition} ORDER BY {peers}")),
            1 => (self.rng.pick(&of_rows), format!("{partition} ORDER BY {order}")),
            2 => (self.rng.pick(&["sum(A)", "count(*)", "max(A)", "avg(A)"]), partition),
            _ => {
                let frame = self.rng.pick(&frames);
                (self.rng.pick(&framed), format!("{partition} ORDER BY {order} ROWS BETWEEN {frame}"))
            }
        };
        format!("{} OVER ({over})", call.replace('A', &format!("({argument})")))
    }

    fn grouping_sets(&mut self) -> String {
        // Of a constant key DataFusion's operators give the group of null twice: they take it for sorted.
        let is_computed = |column: &Column| [".x", ".l", ".v"].iter().any(|of| column.name.contains(of));
        let (mut from, mut columns) = self.from(1);
        while columns.iter().all(is_computed) {
            (from, columns) = self.from(0);
        }
        let filter = self.filter(&columns);
        let plain: Vec<Column> = columns.iter().filter(|column| !is_computed(column)).cloned().collect();
        let keys: Vec<String> = (0..1 + self.rng.below(3)).map(|_| self.rng.pick(&plain).name).collect();
        let mut keys: Vec<String> = keys;
        keys.sort();
        keys.dedup();
        let list = keys.join(", ");
        let sets = match self.rng.below(3) {
            0 => format!("ROLLUP ({list})"),
            1 => format!("CUBE ({list})"),
            _ => format!("GROUPING SETS (({list}), ({}), ())", keys[0]),
        };
        let (call, _) = self.call(&columns);
        let shown: Vec<String> = keys.iter().enumerate().map(|(i, key)| format!("{key} AS g{i}")).collect();
        format!(
            "SELECT {}, grouping({}) AS g, {call} AS c FROM {from}{filter} GROUP BY {sets}",
            shown.join(", "),
            keys[0]
        )
    }

    fn set_operation(&mut self) -> String {
        let kinds: Vec<Kind> = (0..1 + self.rng.below(3)).map(|_| self.rng.pick(&KINDS)).collect();
        let mut side = |kinds: &[Kind]| {
            let (from, columns) = self.from(1);
            let exprs: Vec<String> = kinds
                .iter()
                .enumerate()
                .map(|(i, kind)| format!("{} AS u{i}", self.expr(&columns, *kind, 2)))
                .collect();
            let filter = self.filter(&columns);
            format!("SELECT {} FROM {from}{filter}", exprs.join(", "))
        };
        let (left, right) = (side(&kinds), side(&kinds));
        format!(
            "{left} {} {right}",
            self.rng.pick(&["UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"])
        )
    }

    /// A SELECT and its columns.
    pub(crate) fn select(&mut self, depth: usize) -> (String, Vec<Column>) {
        let (from, columns) = self.from(depth);
        let filter = self.filter(&columns);
        if self.rng.one_in(2) {
            self.aggregate(&from, &columns, &filter)
        } else {
            self.project(&from, &columns, &filter)
        }
    }

    pub(crate) fn project(&mut self, from: &str, columns: &[Column], filter: &str) -> (String, Vec<Column>) {
        let mut exprs = Vec::new();
        let mut made = Vec::new();
        let has_lists = columns.iter().any(|column| column.kind == Kind::List);
        for _ in 0..1 + self.rng.below(4) {
            let kind = if has_lists && self.rng.one_in(3) { Kind::List } else { self.rng.pick(&KINDS) };
            let name = self.alias();
            exprs.push(format!("{} AS {name}", self.expr(columns, kind, 3)));
            made.push(Column { name, kind });
        }
        let distinct = if self.rng.one_in(8) { "DISTINCT " } else { "" };
        (format!("SELECT {distinct}{} FROM {from}{filter}", exprs.join(", ")), made)
    }

    pub(crate) fn aggregate(&mut self, from: &str, columns: &[Column], filter: &str) -> (String, Vec<Column>) {
        let (mut exprs, mut keys, mut made) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.rng.below(4) {
            let kind = self.rng.pick(&KINDS);
            let depth = self.rng.below(2);
            let key = if self.rng.one_in(3) { self.expr(columns, kind, depth) } else { self.column(columns, kind) };
            let name = self.alias();
            exprs.push(format!("{key} AS {name}"));
            keys.push(key);
            made.push(Column { name, kind });
        }
        let mut having = String::new();
        for _ in 0..1 + self.rng.below(4) {
            let (call, kind) = self.call(columns);
            let name = self.alias();
            if having.is_empty() && self.rng.one_in(6) {
                having = format!(" HAVING {}", self.compare_with_literal(&call, kind));
            }
            exprs.push(format!("{call} AS {name}"));
            made.push(Column { name, kind });
        }
        let group = if keys.is_empty() { String::new() } else { format!(" GROUP BY {}", keys.join(", ")) };
        (format!("SELECT {} FROM {from}{filter}{group}{having}", exprs.join(", ")), made)
    }

    pub(crate) fn call(&mut self, columns: &[Column]) -> (String, Kind) {
        if self.rng.one_in(3) {
            return self.rare_call(columns);
        }
        self.plain_call(columns)
    }

    /// Aggregates of statistics, bits, and of rows in an order. What depends on the order of rows is over all of equal
    /// ones.
    fn rare_call(&mut self, columns: &[Column]) -> (String, Kind) {
        let depth = self.rng.below(2);
        let int = self.expr(columns, Kind::Int, depth);
        let bool = self.expr(columns, Kind::Bool, depth);
        let text = self.column(columns, Kind::Text);
        let any = self.rng.pick(&[Kind::Int, Kind::Decimal, Kind::Date, Kind::Text]);
        let ordered = self.column(columns, any);
        let (call, kind) = match self.rng.below(20) {
            0 => (format!("bool_and({bool})"), Kind::Bool),
            1 => (format!("bool_or({bool})"), Kind::Bool),
            2 | 3 => {
                let name = self.rng.pick(&["bit_and", "bit_or", "bit_xor"]);
                (format!("{name}({int})"), Kind::Int)
            }
            4 | 5 => {
                let name = self.rng.pick(&["stddev", "stddev_pop", "var_pop", "var_samp"]);
                let small = self.small(columns);
                (format!("(round(CAST({name}({small}) AS DOUBLE), 4) + 0e0)"), Kind::Float)
            }
            6 => {
                let name = self.rng.pick(&["covar_pop", "covar_samp"]);
                let (one, other) = (self.small(columns), self.small(columns));
                (format!("(round({name}({one}, {other}), 4) + 0e0)"), Kind::Float)
            }
            7 => (format!("median({})", self.column(columns, Kind::Int)), Kind::Int),
            14 => {
                let kind = self.rng.pick(&[Kind::Int, Kind::Decimal]);
                (format!("median({})", self.expr(columns, kind, depth)), kind)
            }
            15 => {
                let (one, other) = (self.small(columns), self.small(columns));
                let name = self.rng.pick(&["regr_count", "regr_sxx", "regr_avgx", "regr_slope"]);
                (format!("(round(CAST({name}({one}, {other}) AS DOUBLE), 4) + 0e0)"), Kind::Float)
            }
            16 => (format!("cardinality(array_agg({}))", self.expr(columns, any, depth)), Kind::Int),
            // Of equal values, so that their order does not show.
            17 => {
                let (constant, kind) = (self.rng.pick(&["'x'", "7", "DATE '2000-02-29'"]), Kind::Text);
                (format!("CAST({}({constant}) AS VARCHAR)", self.rng.pick(&["first_value", "last_value"])), kind)
            }
            18 => {
                let share = self.rng.pick(&["0", "0.25", "0.5", "1"]);
                let value = self.small(columns);
                (format!("percentile_cont(CAST({value} AS DOUBLE), {share})"), Kind::Float)
            }
            19 => (format!("string_agg(DISTINCT {text}, ',' ORDER BY {text})"), Kind::Text),
            8 => (format!("string_agg({text}, ',' ORDER BY {text})"), Kind::Text),
            9 => {
                let direction = self.rng.pick(&["", " DESC", " NULLS FIRST"]);
                let name = self.rng.pick(&["first_value", "last_value"]);
                (format!("{name}({ordered} ORDER BY {ordered}{direction})"), any)
            }
            10 | 11 => (format!("approx_distinct({text})"), Kind::Int),
            12 => (format!("count(DISTINCT {text})"), Kind::Int),
            _ => (format!("count({int}, {text})"), Kind::Int),
        };
        (call, kind)
    }

    /// A number of few digits, whose squares sum up exactly.
    pub(crate) fn small(&mut self, columns: &[Column]) -> String {
        format!("({} % 100)", self.column(columns, Kind::Int))
    }

    pub(crate) fn plain_call(&mut self, columns: &[Column]) -> (String, Kind) {
        let numeric = self.rng.pick(&[Kind::Int, Kind::Float, Kind::Decimal]);
        let any = self.rng.pick(&KINDS);
        let depth = self.rng.below(3);
        let (call, kind) = match self.rng.below(9) {
            0 => ("count(*)".to_owned(), Kind::Int),
            1 => (format!("count({})", self.expr(columns, any, depth)), Kind::Int),
            2 => (format!("count(DISTINCT {})", self.expr(columns, any, depth)), Kind::Int),
            3 | 4 => (format!("sum({})", self.expr(columns, numeric, depth)), numeric),
            5 => {
                let kind = if numeric == Kind::Int { Kind::Float } else { numeric };
                (format!("avg({})", self.expr(columns, numeric, depth)), kind)
            }
            6 | 7 => {
                let name = self.rng.pick(&["min", "max"]);
                // Grouped, the least of floats depends on where NaNs stand.
                let any = if any == Kind::Float { Kind::Int } else { any };
                (format!("{name}({})", self.expr(columns, any, depth)), any)
            }
            _ => (format!("sum(DISTINCT {})", self.expr(columns, Kind::Int, depth)), Kind::Int),
        };
        if self.rng.one_in(8) {
            return (format!("{call} FILTER (WHERE {})", self.expr(columns, Kind::Bool, 1)), kind);
        }
        (call, kind)
    }

    /// What follows FROM: a table, a join of two or three, a subquery.
    pub(crate) fn from(&mut self, depth: usize) -> (String, Vec<Column>) {
        let (mut from, mut columns) = self.source(depth);
        // Keys have few values: joins of large tables have millions of rows.
        let single = depth == 0 || self.tables.iter().any(Table::is_large);
        let joins = if single { 0 } else { self.rng.pick(&[0, 0, 1, 1, 2]) };
        for _ in 0..joins {
            let (right, right_columns) = self.source(0);
            let mut on = Vec::new();
            for _ in 0..1 + self.rng.below(2) {
                let kind = self.rng.pick(&[Kind::Int, Kind::Int, Kind::Text, Kind::Date, Kind::Decimal, Kind::Float]);
                let right = self.column(&right_columns, kind);
                // Of several tables, as soon as there are some.
                let depth = usize::from(self.rng.one_in(4));
                let left = if depth > 0 { self.expr(&columns, kind, depth) } else { self.column(&columns, kind) };
                let equals = self.rng.pick(&["=", "=", "=", "=", "IS NOT DISTINCT FROM"]);
                // In parentheses: IS NOT DISTINCT FROM binds less than AND.
                on.push(format!("({left} {equals} {right})"));
            }
            let all: Vec<Column> = columns.iter().chain(&right_columns).cloned().collect();
            if self.rng.one_in(12) {
                let kind = self.rng.pick(&[Kind::Int, Kind::Date, Kind::Text]);
                let op = self.rng.pick(&["<", ">=", "<>"]);
                on = vec![format!("{} {op} {}", self.column(&columns, kind), self.column(&right_columns, kind))];
            }
            if self.rng.one_in(4) {
                on.push(self.expr(&all, Kind::Bool, 1));
            }
            let join = self.rng.pick(&JOINS);
            from = format!("{from} {join} {right} ON {}", on.join(" AND "));
            columns = match join {
                "LEFT SEMI JOIN" | "LEFT ANTI JOIN" => columns,
                "RIGHT SEMI JOIN" | "RIGHT ANTI JOIN" => right_columns,
                _ => all,
            };
        }
        (from, columns)
    }

    pub(crate) fn source(&mut self, depth: usize) -> (String, Vec<Column>) {
        let alias = self.alias();
        if depth > 0 && self.rng.one_in(4) {
            let (select, columns) = self.select(depth - 1);
            let select = if self.rng.one_in(3) { self.with_order(&select, columns.len(), 6) } else { select };
            return (format!("({select}) AS {alias}"), qualified(&alias, &columns));
        }
        if self.rng.one_in(8) {
            return self.limited(&alias);
        }
        if self.rng.one_in(20) {
            return self.listed(&alias);
        }
        let table = &self.tables[self.rng.below(self.tables.len())];
        let columns = table.columns.iter().map(|(name, kind)| Column { name: format!("{alias}.{name}"), kind: *kind });
        (format!("{} AS {alias}", table.name), columns.collect())
    }

    /// Rows that no table holds: VALUES, a series.
    fn listed(&mut self, alias: &str) -> (String, Vec<Column>) {
        let column = |name: &str, kind| Column { name: format!("{alias}.{name}"), kind };
        match self.rng.below(2) {
            0 => {
                let row = |s: &mut Self| format!("({}, {})", s.literal(Kind::Int), s.literal(Kind::Text));
                let rows: Vec<String> = (0..1 + self.rng.below(4)).map(|_| row(self)).collect();
                let from = format!("(VALUES {}) AS {alias}(v0, v1)", rows.join(", "));
                (from, vec![column("v0", Kind::Int), column("v1", Kind::Text)])
            }
            _ => {
                let from = format!("generate_series(0, {}) AS {alias}(v0)", self.rng.below(20));
                (from, vec![column("v0", Kind::Int)])
            }
        }
    }

    /// A subquery with a LIMIT over rows that are all the same, so that it does not matter which it takes.
    fn limited(&mut self, alias: &str) -> (String, Vec<Column>) {
        let table = &self.tables[self.rng.below(self.tables.len())];
        let inner = self.alias();
        let names = table.columns.iter().map(|(name, kind)| Column { name: format!("{inner}.{name}"), kind: *kind });
        let columns: Vec<Column> = names.collect();
        let from = table.name.clone();
        let kinds: Vec<Kind> = (0..1 + self.rng.below(2)).map(|_| self.rng.pick(&[Kind::Int, Kind::Text])).collect();
        let list: Vec<String> =
            kinds.iter().enumerate().map(|(i, kind)| format!("{} AS l{i}", self.literal(*kind))).collect();
        let filter = self.filter(&columns);
        let limit = self.rng.below(5);
        let select = format!("SELECT {} FROM {from} AS {inner}{filter} LIMIT {limit}", list.join(", "));
        let columns = kinds.iter().enumerate().map(|(i, kind)| Column { name: format!("{alias}.l{i}"), kind: *kind });
        (format!("({select}) AS {alias}"), columns.collect())
    }

    pub(crate) fn filter(&mut self, columns: &[Column]) -> String {
        if self.rng.one_in(4) {
            return String::new();
        }
        if self.rng.one_in(4) {
            return format!(" WHERE {}", self.conjuncts(columns));
        }
        if self.rng.one_in(8) {
            let (from, inner) = self.from(0);
            let kind = self.rng.pick(&[Kind::Int, Kind::Text, Kind::Date, Kind::Decimal]);
            let (outer, inner) = (self.column(columns, kind), self.column(&inner, kind));
            let not = self.rng.pick(&["", "NOT "]);
            return match self.rng.below(4) {
                0 => format!(" WHERE {outer} {not}IN (SELECT {inner} FROM {from})"),
                1 => format!(" WHERE {not}EXISTS (SELECT 1 FROM {from} WHERE {inner} = {outer})"),
                2 => format!(" WHERE {outer} = (SELECT {inner} FROM {from} ORDER BY 1 LIMIT {})", self.rng.below(2)),
                _ => format!(" WHERE {outer} >= (SELECT min({inner}) FROM {from})"),
            };
        }
        format!(" WHERE {}", self.expr(columns, Kind::Bool, 3))
    }

    pub(crate) fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("x{}", self.aliases)
    }

    /// A column of a kind; a literal if there is none.
    pub(crate) fn column(&mut self, columns: &[Column], kind: Kind) -> String {
        let of_kind: Vec<&Column> = columns.iter().filter(|column| column.kind == kind).collect();
        if of_kind.is_empty() { self.literal(kind) } else { of_kind[self.rng.below(of_kind.len())].name.clone() }
    }

    pub(crate) fn literal(&mut self, kind: Kind) -> String {
        let rng = &mut *self.rng;
        if rng.one_in(25) {
            return null(kind);
        }
        let pick = |rng: &mut Rng, items: &[&str]| rng.pick(items).to_owned();
        match kind {
            Kind::Bool => pick(rng, &["TRUE", "FALSE"]),
            Kind::Int if rng.one_in(10) => pick(
                rng,
                &[
                    "127",
                    "-128",
                    "255",
                    "65535",
                    "2147483647",
                    "-2147483648",
                    "9223372036854775807",
                    "18446744073709551615",
                ],
            ),
            Kind::Int => format!("{}", rng.below(8) as i64 - 2),
            Kind::Float if rng.one_in(6) => {
                let special = rng.pick(&["NaN", "Infinity", "-Infinity", "-0.0", "0.0"]);
                format!("CAST('{special}' AS {})", rng.pick(&["DOUBLE", "REAL"]))
            }
            Kind::Float => format!("CAST({} AS DOUBLE)", (rng.below(12) as f64 - 4.0) / 4.0),
            Kind::Decimal => {
                let value = rng.pick(&["0", "0.5", "1", "-1.5", "2.25", "100", "0.01", "-99.99"]);
                let of = rng.pick(&["DECIMAL(5, 2)", "DECIMAL(15, 2)", "DECIMAL(12, 4)", "DECIMAL(38, 10)"]);
                format!("CAST({value} AS {of})")
            }
            Kind::Time => pick(rng, &["TIME '00:00:00'", "TIME '00:00:02.25'", "TIME '23:59:59'", "TIME '12:30:00'"]),
            Kind::Duration => {
                let unit = rng.pick(&["Second", "Millisecond", "Nanosecond"]);
                format!("arrow_cast({}, 'Duration({unit})')", rng.below(8) as i64 - 2)
            }
            Kind::Interval => {
                let span = rng.pick(&["0 days", "1 month", "30 days", "1 day 2 hours", "-2 seconds", "1 year 3 days"]);
                format!("INTERVAL '{span}'")
            }
            Kind::Binary => pick(rng, &["X''", "X'61'", "X'6162'", "X'ff00'", "X'7468697274656e2062797465'"]),
            Kind::Nested => pick(rng, &["named_struct('n', 1, 't', 'a')", "struct(1, 'a')"]),
            // Functions that make lists are in none of DataFusion's default features.
            Kind::List => "CAST(NULL AS BIGINT[])".to_owned(),
            Kind::Date => {
                format!("DATE '{}'", rng.pick(&["1970-01-01", "1969-12-31", "1970-01-03", "2000-02-29", "1900-01-01"]))
            }
            Kind::Timestamp => {
                format!(
                    "TIMESTAMP '{}'",
                    rng.pick(&[
                        "1970-01-01T00:00:00",
                        "1970-01-01T00:00:02.25",
                        "1969-12-31T23:59:58",
                        "2020-06-01T12:00:00"
                    ])
                )
            }
            Kind::Text => {
                let text = rng.pick(&[
                    "",
                    "a",
                    "ab",
                    "abc",
                    "weld",
                    "twelve bytes",
                    "a string that is longer than twelve bytes",
                    "größe ∞",
                ]);
                format!("'{text}'")
            }
        }
    }

    pub(crate) fn compare_with_literal(&mut self, expr: &str, kind: Kind) -> String {
        let op = self.rng.pick(&["=", "<>", "<", "<=", ">", ">="]);
        format!("{expr} {op} {}", self.literal(kind))
    }
}
