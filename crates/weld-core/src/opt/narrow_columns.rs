//! The columns that a loop over a chunk's rows reads, for [`super::narrow_integers`]: where they are, how large they
//! get.
//!
//! In `for(sel, B, |b, i, j| let r = lookup(c, i64(j)); E)` over the chunk `c` the columns are `r.$0`, `r.$1.$0` ..;
//! in `for(c, B, |b, i, r| E)` likewise.

use std::collections::HashSet;
use std::convert::Infallible;

use crate::ir::{Binding, Expr, ExprKind, Func, Iter, Names, Sym, build};
use crate::op::{Bound, Evaluate, Intrinsic, MergeOp, ReduceOp};
use crate::ty::{ScalarKind, Type};

/// The columns that a loop reads, and which variables stand for a row.
pub(super) struct Columns {
    /// What the loop iterates over: the chunk, or selected positions in it.
    pub(super) data: Expr,
    chunk: (Sym, Type),
    /// The element of the loop.
    element: (Sym, Type),
    /// The loop's rows are positions to look up in the chunk.
    selected: bool,
    /// The variables that hold a row.
    rows: HashSet<Sym>,
    /// Fields of the row (of fields ..) that need bounds, with the variable of the bound.
    pub(super) used: Vec<(Vec<u32>, Type, Sym)>,
}

impl Columns {
    /// The columns of a loop over the chunk or over positions in it.
    pub(super) fn of_loop(iter: &Iter, func: &Func, chunk: &(Sym, Type)) -> Option<Columns> {
        let Iter::Vector(data) = iter else { return None };
        let element = func.params[2].clone();
        let selected = !matches!(data.kind, ExprKind::Var(over) if over == chunk.0);
        if selected && !element.1.as_scalar().is_some_and(ScalarKind::is_integer) {
            return None;
        }
        let mut rows = HashSet::new();
        if !selected {
            rows.insert(element.0);
        }
        let mut columns =
            Columns { data: data.clone(), chunk: chunk.clone(), element, selected, rows, used: Vec::new() };
        columns.find_rows(&func.body);
        Some(columns)
    }

    /// Adds the variables that are bound to the row at the loop's position.
    fn find_rows(&mut self, body: &Expr) {
        let mut rows = Vec::new();
        body.walk(&mut |e| {
            if let ExprKind::Let { bindings, .. } = &e.kind {
                rows.extend(bindings.iter().filter(|b| self.is_fetch(&b.value)).map(|b| b.sym));
            }
        });
        self.rows.extend(rows);
    }

    /// `lookup(chunk, i64(position))`
    fn is_fetch(&self, e: &Expr) -> bool {
        let ExprKind::Lookup { data, key, .. } = &e.kind else { return false };
        let position = match &key.kind {
            ExprKind::Cast(of) => of,
            _ => key,
        };
        let is_chunk = matches!(data.kind, ExprKind::Var(sym) if sym == self.chunk.0);
        self.selected && is_chunk && matches!(position.kind, ExprKind::Var(sym) if sym == self.element.0)
    }

    /// The path of a column of the row.
    pub(super) fn path(&self, e: &Expr) -> Option<Vec<u32>> {
        match &e.kind {
            ExprKind::Var(sym) if self.rows.contains(sym) => Some(Vec::new()),
            ExprKind::Field(of, index) => {
                let mut path = self.path(of)?;
                path.push(*index);
                Some(path)
            }
            _ if self.is_fetch(e) => Some(Vec::new()),
            _ => None,
        }
    }

    /// The bound of a column, a variable.
    pub(super) fn bound(&mut self, path: Vec<u32>, ty: &Type, names: &mut Names) -> Bound<Expr> {
        let sym = match self.used.iter().find(|(known, ..)| *known == path) {
            Some((.., sym)) => *sym,
            None => {
                let sym = names.fresh("bound");
                self.used.push((path, ty.clone(), sym));
                sym
            }
        };
        Bound::Leaf(build::var(sym, Type::F64))
    }

    /// Bindings for the bounds of all columns in use: one loop takes all magnitudes.
    pub(super) fn bind_bounds(&self, names: &mut Names) -> Vec<Binding> {
        if self.used.is_empty() {
            return Vec::new();
        }
        let single = self.used.len() == 1;
        let value = match single {
            true => self.used[0].1.clone(),
            false => Type::structure(self.used.iter().map(|(_, ty, _)| ty.clone())),
        };
        let merger = build::merger(value.clone(), MergeOp::All(ReduceOp::BitOr));
        let loop_ = build::for_(names, build::over(self.data.clone()), merger, |names, b, _, x| {
            let (fetch, row) = if self.selected {
                let row = names.fresh("r");
                let position = build::cast(x, ScalarKind::I64);
                let mut fetch = build::lookup(build::var(self.chunk.0, self.chunk.1.clone()), position);
                if let ExprKind::Lookup { checked, .. } = &mut fetch.kind {
                    *checked = false;
                }
                let variable = build::var(row, fetch.ty.clone());
                (vec![Binding { sym: row, value: fetch }], variable)
            } else {
                (Vec::new(), x)
            };
            let magnitude = |(path, ..): &(Vec<u32>, Type, Sym)| {
                let column = path.iter().fold(row.clone(), |of, k| build::field(of, *k as usize));
                build::intrinsic(Intrinsic::Magnitude, [column])
            };
            let values: Vec<Expr> = self.used.iter().map(magnitude).collect();
            let value = if single { values.into_iter().next() } else { None };
            let value = value.unwrap_or_else(|| build::strct(self.used.iter().map(magnitude)));
            build::let_in(fetch, build::merge(b, value))
        });
        let all = names.fresh("m");
        let mut bindings = vec![Binding { sym: all, value: build::result(loop_) }];
        for (k, (.., sym)) in self.used.iter().enumerate() {
            let all = build::var(all, value.clone());
            let magnitude = if single { all } else { build::field(all, k) };
            bindings.push(Binding { sym: *sym, value: bound_of(magnitude) });
        }
        bindings
    }
}

/// The bound of a magnitude as a float: at least 1, and not below any value.
pub(super) fn bound_of(magnitude: Expr) -> Expr {
    build::add(build::cast(magnitude, ScalarKind::F64), build::f64(1.0))
}

/// A bound as a float: at least 1, so that a product is not below its parts. What is rounded is far above the limit.
pub(super) fn in_floats(bound: &Bound<Expr>) -> Expr {
    match bound.evaluate(&mut Floats) {
        Ok(expr) => expr,
        Err(never) => match never {},
    }
}

struct Floats;

impl Evaluate<Expr> for Floats {
    type Value = Expr;
    type Error = Infallible;

    fn leaf(&mut self, leaf: &Expr) -> Result<Expr, Infallible> {
        Ok(leaf.clone())
    }

    fn constant(&mut self, value: u64) -> Result<Expr, Infallible> {
        Ok(build::f64((value as f64).max(1.0)))
    }

    fn sum(&mut self, a: Expr, b: Expr) -> Result<Expr, Infallible> {
        Ok(build::add(a, b))
    }

    fn product(&mut self, a: Expr, b: Expr) -> Result<Expr, Infallible> {
        Ok(build::mul(a, b))
    }

    fn larger(&mut self, a: Expr, b: Expr) -> Result<Expr, Infallible> {
        Ok(build::max(a, b))
    }
}
