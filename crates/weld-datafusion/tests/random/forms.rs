//! Random queries of rarer forms: DISTINCT ON, NATURAL and USING, LATERAL, ALL and ANY, QUALIFY, chains of WITH, set
//! operations in set operations, windows by name, aggregates in an order.

use super::queries::{Column, KINDS, Queries};
use super::tables::{Kind, Table};

impl Queries<'_> {
    pub(crate) fn rare_form(&mut self) -> String {
        match self.rng.below(13) {
            0 => self.distinct_on(),
            1 => self.joined_by_names(),
            2 => self.lateral(),
            3 => self.quantified(),
            4 => self.qualified_rows(),
            5 => self.nested_sets(),
            6 => self.mixed_grouping(),
            7 => self.many_aggregates(),
            8 => self.null_aware(),
            9 => self.windows_by_name(),
            10 => self.chain(),
            11 => self.first_by_expression(),
            _ => self.ordered_aggregates(),
        }
    }

    fn list(columns: &[Column], name: &str) -> String {
        let list: Vec<String> =
            columns.iter().enumerate().map(|(i, column)| format!("{} AS {name}{i}", column.name)).collect();
        list.join(", ")
    }

    fn some(&mut self, columns: &[Column], most: usize) -> Vec<Column> {
        (0..1 + self.rng.below(most)).map(|_| self.rng.pick(columns)).collect()
    }

    fn distinct_on(&mut self) -> String {
        let (from, columns) = self.from(1);
        let filter = self.filter(&columns);
        let shown = self.some(&columns, 4);
        let keys = 1 + self.rng.below(shown.len());
        let names: Vec<&str> = shown.iter().map(|column| column.name.as_str()).collect();
        // The columns after the keys decide the row.
        let directions = ["", " DESC", " NULLS FIRST", " DESC NULLS LAST"];
        let order: Vec<String> = names.iter().map(|name| format!("{name}{}", self.rng.pick(&directions))).collect();
        let limit = if self.rng.one_in(3) { format!(" LIMIT {}", self.rng.below(9)) } else { String::new() };
        format!(
            "SELECT DISTINCT ON ({}) {} FROM {from}{filter} ORDER BY {}{limit}",
            names[..keys].join(", "),
            Queries::list(&shown, "d"),
            order.join(", ")
        )
    }

    /// Joins by columns of one name.
    fn joined_by_names(&mut self) -> String {
        let kinds: Vec<Kind> = (0..1 + self.rng.below(2))
            .map(|_| self.rng.pick(&[Kind::Int, Kind::Int, Kind::Text, Kind::Date]))
            .collect();
        let mut side = |name: &str| {
            let (from, columns) = self.source(0);
            let keys: Vec<String> =
                kinds.iter().enumerate().map(|(i, kind)| format!("{} AS k{i}", self.column(&columns, *kind))).collect();
            let (kind, alias) = (self.rng.pick(&KINDS), self.alias());
            let filter = if self.rng.one_in(3) { self.filter(&columns) } else { String::new() };
            format!(
                "(SELECT {}, {} AS {name} FROM {from}{filter}) AS {alias}",
                keys.join(", "),
                self.expr(&columns, kind, 1)
            )
        };
        let (left, right) = (side("v"), side("w"));
        let join = self.rng.pick(&["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
        let using: Vec<String> = (0..kinds.len()).map(|i| format!("k{i}")).collect();
        // Keys have few values.
        let rows =
            if self.tables.iter().any(Table::is_large) { "count(*) AS n, min(v) AS m, max(k0) AS x" } else { "*" };
        match self.rng.one_in(2) {
            true => format!("SELECT {rows} FROM {left} NATURAL {join} {right}"),
            false => format!("SELECT {rows} FROM {left} {join} {right} USING ({})", using.join(", ")),
        }
    }

    fn lateral(&mut self) -> String {
        let (from, columns) = self.source(0);
        let (inner_from, inner) = self.source(0);
        let kind = self.rng.pick(&[Kind::Int, Kind::Text, Kind::Date]);
        let (key, inner_key) = (self.column(&columns, kind), self.column(&inner, kind));
        let (alias, shown) = (self.alias(), self.some(&columns, 3));
        let (call, _) = self.plain_call(&inner);
        let residual =
            if self.rng.one_in(3) { format!(" AND {}", self.expr(&inner, Kind::Bool, 1)) } else { String::new() };
        let subquery = format!("(SELECT {call} AS r FROM {inner_from} WHERE {inner_key} = {key}{residual}) AS {alias}");
        let list = Queries::list(&shown, "s");
        match self.rng.below(3) {
            0 => format!("SELECT {list}, {alias}.r FROM {from}, LATERAL {subquery}"),
            1 => format!("SELECT {list}, {alias}.r FROM {from} LEFT JOIN LATERAL {subquery} ON TRUE"),
            _ => format!("SELECT {list}, {alias}.r FROM {from} CROSS JOIN LATERAL {subquery}"),
        }
    }

    fn quantified(&mut self) -> String {
        let (from, columns) = self.from(1);
        let (inner_from, inner) = self.source(0);
        let kind = self.rng.pick(&[Kind::Int, Kind::Text, Kind::Decimal, Kind::Float]);
        let (outer, of) = (self.expr(&columns, kind, 1), self.column(&inner, kind));
        let (op, quantifier) = (self.rng.pick(&["=", "<>", "<", ">="]), self.rng.pick(&["ANY", "ALL"]));
        let filter = self.filter(&inner);
        let shown = self.some(&columns, 3);
        let list = Queries::list(&shown, "s");
        format!("SELECT {list} FROM {from} WHERE {outer} {op} {quantifier} (SELECT {of} FROM {inner_from}{filter})")
    }

    fn qualified_rows(&mut self) -> String {
        let (from, columns) = self.from(0);
        let filter = self.filter(&columns);
        let (shown, partition) = (self.some(&columns, 3), self.rng.pick(&columns).name);
        let order = columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ");
        let rank = match self.rng.below(3) {
            0 => format!(
                "rank() OVER (PARTITION BY {partition} ORDER BY {}) <= {}",
                shown[0].name,
                1 + self.rng.below(3)
            ),
            1 => format!("count(*) OVER (PARTITION BY {partition}) > {}", self.rng.below(4)),
            _ => format!("row_number() OVER (PARTITION BY {partition} ORDER BY {order}) <= {}", 1 + self.rng.below(3)),
        };
        format!("SELECT {} FROM {from}{filter} QUALIFY {rank}", Queries::list(&shown, "s"))
    }

    fn nested_sets(&mut self) -> String {
        let kinds: Vec<Kind> = (0..1 + self.rng.below(3)).map(|_| self.rng.pick(&KINDS)).collect();
        let branches: Vec<String> = (0..3)
            .map(|_| {
                let (from, columns) = self.from(0);
                let exprs: Vec<String> = kinds
                    .iter()
                    .enumerate()
                    .map(|(i, kind)| format!("{} AS u{i}", self.expr(&columns, *kind, 1)))
                    .collect();
                format!("SELECT {} FROM {from}{}", exprs.join(", "), self.filter(&columns))
            })
            .collect();
        let ops = [
            "UNION ALL",
            "UNION ALL",
            "UNION",
            "INTERSECT",
            "EXCEPT",
            "INTERSECT ALL",
            "EXCEPT ALL",
            "UNION ALL BY NAME",
        ];
        let (one, other) = (self.rng.pick(&ops), self.rng.pick(&ops));
        let all = match self.rng.one_in(2) {
            true => format!("({} {one} {}) {other} {}", branches[0], branches[1], branches[2]),
            false => format!("{} {one} ({} {other} {})", branches[0], branches[1], branches[2]),
        };
        let alias = self.alias();
        match self.rng.below(3) {
            0 => all,
            1 => {
                let rows = format!("SELECT * FROM ({all}) AS {alias}");
                self.with_order(&rows, kinds.len(), 12)
            }
            _ => {
                let columns: Vec<Column> = kinds
                    .iter()
                    .enumerate()
                    .map(|(i, kind)| Column { name: format!("{alias}.u{i}"), kind: *kind })
                    .collect();
                let from = format!("({all}) AS {alias}");
                let filter = self.filter(&columns);
                self.aggregate(&from, &columns, &filter).0
            }
        }
    }

    /// Plain keys beside grouping sets, several aggregates, conditions on groups.
    fn mixed_grouping(&mut self) -> String {
        let table = &self.tables[self.rng.below(self.tables.len())];
        let alias = self.alias();
        let columns: Vec<Column> =
            table.columns.iter().map(|(name, kind)| Column { name: format!("{alias}.{name}"), kind: *kind }).collect();
        let from = format!("{} AS {alias}", table.name);
        let filter = self.filter(&columns);
        let mut keys: Vec<String> = self.some(&columns, 4).into_iter().map(|column| column.name).collect();
        keys.sort();
        keys.dedup();
        let plain = self.rng.below(keys.len());
        let (before, sets) = keys.split_at(plain);
        let sets = match self.rng.below(3) {
            0 => format!("ROLLUP ({})", sets.join(", ")),
            1 => format!("CUBE ({})", sets.join(", ")),
            _ => format!("GROUPING SETS (({}), ())", sets.join(", ")),
        };
        let group = before.iter().cloned().chain([sets]).collect::<Vec<_>>().join(", ");
        let shown: Vec<String> = keys.iter().enumerate().map(|(i, key)| format!("{key} AS g{i}")).collect();
        let calls: Vec<String> =
            (0..1 + self.rng.below(3)).map(|i| format!("{} AS c{i}", self.call(&columns).0)).collect();
        let having = match self.rng.below(4) {
            0 => format!(" HAVING grouping({}) = 0", keys[keys.len() - 1]),
            1 => " HAVING count(*) > 1".to_owned(),
            _ => String::new(),
        };
        format!("SELECT {}, {} FROM {from}{filter} GROUP BY {group}{having}", shown.join(", "), calls.join(", "))
    }

    /// Aggregates of few columns, many of them over the same, with DISTINCT and FILTER.
    fn many_aggregates(&mut self) -> String {
        let (from, columns) = self.from(1);
        let filter = self.filter(&columns);
        let keys: Vec<Column> = if self.rng.one_in(3) { Vec::new() } else { self.some(&columns, 2) };
        let (number, any) = (self.rng.pick(&[Kind::Int, Kind::Decimal]), self.rng.pick(&KINDS));
        let (number, any) = (self.expr(&columns, number, 1), self.column(&columns, any));
        let condition = self.expr(&columns, Kind::Bool, 1);
        let calls = [
            format!("sum({number})"),
            format!("avg({number})"),
            format!("min({number})"),
            format!("max({any})"),
            format!("count({any})"),
            format!("count(DISTINCT {any})"),
            format!("count(DISTINCT {number})"),
            format!("sum(DISTINCT {number})"),
            "count(*)".to_owned(),
        ];
        let mut list: Vec<String> = keys.iter().enumerate().map(|(i, key)| format!("{} AS g{i}", key.name)).collect();
        for index in 0..2 + self.rng.below(5) {
            let call = self.rng.pick(&calls);
            let filtered = if self.rng.one_in(3) { format!(" FILTER (WHERE {condition})") } else { String::new() };
            list.push(format!("{call}{filtered} AS c{index}"));
        }
        let keys: Vec<&str> = keys.iter().map(|key| key.name.as_str()).collect();
        let group = if keys.is_empty() { String::new() } else { format!(" GROUP BY {}", keys.join(", ")) };
        format!("SELECT {} FROM {from}{filter}{group}", list.join(", "))
    }

    /// NOT IN with nulls on both sides, correlated or not, as a condition, among others, or as a column.
    fn null_aware(&mut self) -> String {
        let (from, columns) = self.from(0);
        let (inner_from, inner) = self.source(0);
        let kind = self.rng.pick(&[Kind::Int, Kind::Int, Kind::Text, Kind::Date, Kind::Decimal]);
        let (outer, of) = (self.expr(&columns, kind, 1), self.expr(&inner, kind, 1));
        let mut conditions = Vec::new();
        if self.rng.one_in(3) {
            let kind = self.rng.pick(&[Kind::Int, Kind::Text]);
            conditions.push(format!("{} = {}", self.column(&inner, kind), self.column(&columns, kind)));
        }
        if self.rng.one_in(3) {
            conditions.push(self.expr(&inner, Kind::Bool, 1));
        }
        let filter = if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) };
        let not = self.rng.pick(&["NOT ", "NOT ", ""]);
        let among = format!("{outer} {not}IN (SELECT {of} FROM {inner_from}{filter})");
        let shown = Queries::list(&self.some(&columns, 3), "s");
        match self.rng.below(4) {
            0 => format!("SELECT {shown} FROM {from} WHERE {among} OR {}", self.expr(&columns, Kind::Bool, 1)),
            1 => format!("SELECT {shown} FROM {from} WHERE NOT ({among})"),
            2 => format!("SELECT {shown} FROM {from} WHERE {among} AND {}", self.conjuncts(&columns)),
            _ => format!("SELECT {shown} FROM {from} WHERE {among}"),
        }
    }

    fn windows_by_name(&mut self) -> String {
        let (from, columns) = self.from(0);
        let filter = self.filter(&columns);
        let partition = self.rng.pick(&columns).name;
        let order = columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ");
        let (number, time) =
            (self.rng.pick(&[Kind::Int, Kind::Decimal]), self.rng.pick(&[Kind::Date, Kind::Timestamp]));
        let (argument, time, any) =
            (self.column(&columns, number), self.column(&columns, time), self.rng.pick(&columns).name);
        let condition = self.expr(&columns, Kind::Bool, 1);
        let span = self.rng.pick(&["1 day", "3 days", "1 month", "2 hours"]);
        let by_time = format!("PARTITION BY {partition} ORDER BY {time} RANGE BETWEEN INTERVAL '{span}' PRECEDING AND");
        // Of a window that is named in parentheses DataFusion takes neither the partitions nor the order.
        let whole = format!("PARTITION BY {partition} ORDER BY {order}");
        let calls = [
            format!("sum({argument}) FILTER (WHERE {condition}) OVER w"),
            format!("count(*) FILTER (WHERE {condition}) OVER (PARTITION BY {partition})"),
            format!("lag({any}) IGNORE NULLS OVER w"),
            format!("first_value({any}) IGNORE NULLS OVER w"),
            format!("last_value({any}) IGNORE NULLS OVER ({whole} ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)"),
            format!("nth_value({any}, 2) OVER w"),
            format!("nth_value({any}, 2) OVER ({whole} ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)"),
            format!("lag({any}, 2, {any}) OVER w"),
            format!("lead({any}, 1) OVER w"),
            format!("sum({argument}) OVER ({by_time} CURRENT ROW)"),
            format!("count({any}) OVER ({by_time} INTERVAL '{span}' FOLLOWING)"),
            "row_number() OVER w".to_owned(),
            format!("min({any}) OVER w"),
            format!("max({any}) OVER ({whole} ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)"),
        ];
        let list: Vec<String> =
            (0..1 + self.rng.below(3)).map(|index| format!("{} AS w{index}", self.rng.pick(&calls))).collect();
        format!("SELECT {partition} AS p, {} FROM {from}{filter} WINDOW w AS ({whole})", list.join(", "))
    }

    /// Table expressions that read those before.
    fn chain(&mut self) -> String {
        let (first, columns) = self.select(1);
        let (one, two) = (self.alias(), self.alias());
        let of = |alias: &str, columns: &[Column]| -> Vec<Column> {
            columns.iter().map(|c| Column { name: format!("{alias}.{}", c.name), kind: c.kind }).collect()
        };
        let (inner, outer) = (self.alias(), self.alias());
        let from = format!("{one} AS {inner}");
        let scope = of(&inner, &columns);
        let filter = self.filter(&scope);
        let (second, made) = match self.rng.one_in(2) {
            true => self.aggregate(&from, &scope, &filter),
            false => self.project(&from, &scope, &filter),
        };
        let scope = of(&outer, &made);
        let filter = self.filter(&scope);
        let with = format!("WITH {one} AS ({first}), {two} AS ({second})");
        let names: Vec<&str> = scope.iter().map(|column| column.name.as_str()).collect();
        match self.rng.below(3) {
            0 => format!("{with} SELECT {} FROM {two} AS {outer}{filter}", names.join(", ")),
            1 => {
                let all = format!("SELECT {} FROM {two} AS {outer}{filter}", names.join(", "));
                format!("{with} {}", self.with_order(&all, names.len(), 10))
            }
            _ => {
                let key = &names[self.rng.below(names.len())];
                format!("{with} SELECT {key} AS k, (SELECT count(*) FROM {one}) AS n FROM {two} AS {outer}{filter}")
            }
        }
    }

    /// The first rows by what is not shown.
    fn first_by_expression(&mut self) -> String {
        let (from, columns) = self.from(1);
        let filter = self.filter(&columns);
        let shown = self.some(&columns, 4);
        let kinds: Vec<Kind> = (0..1 + self.rng.below(2)).map(|_| self.rng.pick(&KINDS)).collect();
        let directions = ["", " DESC", " NULLS FIRST", " DESC NULLS LAST"];
        let mut order: Vec<String> = kinds
            .iter()
            .map(|kind| format!("{}{}", self.expr(&columns, *kind, 1), self.rng.pick(&directions)))
            .collect();
        order.extend(shown.iter().map(|column| format!("{}{}", column.name, self.rng.pick(&directions))));
        let offset = if self.rng.one_in(3) { " OFFSET 3" } else { "" };
        let limit = self.rng.pick(&[0, 1, 2, 10, 100]);
        let list = Queries::list(&shown, "s");
        format!("SELECT {list} FROM {from}{filter} ORDER BY {} LIMIT {limit}{offset}", order.join(", "))
    }

    fn ordered_aggregates(&mut self) -> String {
        let (from, columns) = self.from(1);
        let filter = self.filter(&columns);
        let key = self.rng.pick(&columns).name;
        let any = self.rng.pick(&[Kind::Int, Kind::Text, Kind::Date, Kind::Decimal, Kind::Timestamp]);
        let (any, text, small) = (self.column(&columns, any), self.column(&columns, Kind::Text), self.small(&columns));
        let direction = self.rng.pick(&["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]);
        let calls = [
            format!("array_agg({any} ORDER BY {any}{direction})"),
            format!("array_agg(DISTINCT {any} ORDER BY {any}{direction})"),
            format!("string_agg(DISTINCT {text}, '|' ORDER BY {text}{direction})"),
            format!("nth_value({any}, 2 ORDER BY {any}{direction})"),
            format!("first_value({any} ORDER BY {any}{direction})"),
            format!("last_value({any} ORDER BY {any}{direction})"),
            format!("median({small})"),
            format!("percentile_cont(0.25) WITHIN GROUP (ORDER BY {small})"),
            format!("round(corr({small}, {small} + 1), 4)"),
            format!("round(regr_slope({small}, {small}), 4)"),
            format!("count(DISTINCT {any}) FILTER (WHERE {any} IS NOT NULL)"),
            format!("max({any})"),
        ];
        let list: Vec<String> =
            (0..1 + self.rng.below(3)).map(|index| format!("{} AS c{index}", self.rng.pick(&calls))).collect();
        if self.rng.one_in(4) {
            return format!("SELECT {} FROM {from}{filter}", list.join(", "));
        }
        format!("SELECT {key} AS k, {} FROM {from}{filter} GROUP BY {key}", list.join(", "))
    }
}
