//! Makes a query that differs smaller, as long as it still differs: parts of it are left out one at a time.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Query, Select, SetExpr, Statement, Value,
    VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

/// The query with its `index`th edit made; nothing when there are not so many.
pub(crate) fn smaller(sql: &str, index: usize) -> Option<String> {
    let mut statements = Parser::parse_sql(&GenericDialect {}, sql).ok()?;
    let [statement]: &mut [Statement] = statements.as_mut_slice() else { return None };
    let mut editor = Editor { left: index, done: false };
    let _: ControlFlow<()> = statement.visit(&mut editor);
    editor.done.then(|| statement.to_string())
}

/// Makes one of the edits that a walk over the query comes by.
struct Editor {
    left: usize,
    done: bool,
}

impl Editor {
    /// Whether this edit is the one to make.
    fn turn(&mut self) -> bool {
        if self.done {
            return false;
        }
        self.done = self.left == 0;
        self.left = self.left.saturating_sub(1);
        self.done
    }

    fn go_on(&self) -> ControlFlow<()> {
        if self.done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn remove_one<T>(&mut self, items: &mut Vec<T>, keep: usize) {
        for index in 0..items.len() {
            if items.len() > keep && self.turn() {
                items.remove(index);
                return;
            }
        }
    }
}

impl VisitorMut for Editor {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if query.limit_clause.is_some() && self.turn() {
            query.limit_clause = None;
        }
        // Which rows a limit takes must stay decided.
        if query.order_by.is_some() && query.limit_clause.is_none() && self.turn() {
            query.order_by = None;
        }
        if let SetExpr::SetOperation { left, right, .. } = query.body.as_ref() {
            let (left, right) = (left.clone(), right.clone());
            if self.turn() {
                query.body = left;
            } else if self.turn() {
                query.body = right;
            }
        }
        self.go_on()
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if select.selection.is_some() && self.turn() {
            select.selection = None;
        }
        if select.having.is_some() && self.turn() {
            select.having = None;
        }
        if select.distinct.is_some() && self.turn() {
            select.distinct = None;
        }
        self.remove_one(&mut select.projection, 1);
        if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
            self.remove_one(keys, 0);
        }
        for from in &mut select.from {
            self.remove_one(&mut from.joins, 0);
        }
        self.go_on()
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        for part in parts(expr) {
            if self.turn() {
                *expr = part;
                return ControlFlow::Break(());
            }
        }
        if !matches!(expr, Expr::Value(_) | Expr::Identifier(_) | Expr::CompoundIdentifier(_)) && self.turn() {
            *expr = Expr::Value(Value::Null.into());
        }
        self.go_on()
    }
}

/// What an expression is made of, each of which may stand in its place.
fn parts(expr: &Expr) -> Vec<Expr> {
    let boxed = |parts: &[&Expr]| parts.iter().map(|&part| part.clone()).collect();
    match expr {
        Expr::BinaryOp { left, right, .. } => boxed(&[left, right]),
        Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => boxed(&[left, right]),
        Expr::Nested(inner)
        | Expr::UnaryOp { expr: inner, .. }
        | Expr::IsNull(inner)
        | Expr::IsNotNull(inner)
        | Expr::IsTrue(inner)
        | Expr::IsNotTrue(inner)
        | Expr::IsFalse(inner)
        | Expr::IsNotFalse(inner)
        | Expr::Cast { expr: inner, .. }
        | Expr::Between { expr: inner, .. }
        | Expr::InList { expr: inner, .. }
        | Expr::Like { expr: inner, .. } => boxed(&[inner]),
        Expr::Case { operand: None, conditions, else_result, .. } => {
            let branches = conditions.iter().flat_map(|branch| [&branch.result, &branch.condition]);
            branches.chain(else_result.iter().map(AsRef::as_ref)).cloned().collect()
        }
        Expr::Function(call) => match &call.args {
            FunctionArguments::List(list) => list.args.iter().filter_map(argument).collect(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

fn argument(argument: &FunctionArg) -> Option<Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    }
}

#[test]
fn every_edit_is_a_smaller_query() {
    let sql =
        "SELECT a + 1 AS x, count(*) FROM t JOIN u ON t.k = u.k WHERE NOT (b IS NULL) GROUP BY a ORDER BY 1 LIMIT 2";
    let all: Vec<String> = (0..).map_while(|index| smaller(sql, index)).collect();
    assert!(all.len() > 10, "{all:#?}");
    assert!(all.contains(&sql.replace(" WHERE NOT (b IS NULL)", "")), "{all:#?}");
    assert!(all.contains(&sql.replace("a + 1 AS x, ", "")), "{all:#?}");
    assert!(all.contains(&sql.replace("a + 1", "a")), "{all:#?}");
    assert!(all.contains(&sql.replace(" JOIN u ON t.k = u.k", "")), "{all:#?}");
    assert!(all.iter().all(|edited| edited != sql), "{all:#?}");
}
