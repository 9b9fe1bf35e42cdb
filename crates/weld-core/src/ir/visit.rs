//! Walking and rewriting trees: children, folds, free variables, substitution, copies with fresh names.
//!
//! Children come in evaluation order as far as there is one: a `let`'s bindings before its body, a loop's iterator and
//! builder before its function. Recursions grow the stack as needed, so depth is no concern.

use std::collections::{HashMap, HashSet};

use super::{Expr, ExprKind, Func, Iter, Names, Sym};

/// Lists the direct children, once for shared and once for mutable references.
macro_rules! each_child {
    ($expr:expr, $f:expr, $each_iter:ident $(, $mutable:tt)?) => {
        match & $($mutable)? $expr.kind {
            ExprKind::Literal(_) | ExprKind::Bytes(_) | ExprKind::Var(_) => {}
            ExprKind::Let { bindings, body } => {
                for binding in bindings {
                    $f(& $($mutable)? binding.value);
                }
                $f(body);
            }
            ExprKind::Unary(_, a)
            | ExprKind::Cast(a)
            | ExprKind::Field(a, _)
            | ExprKind::Len(a)
            | ExprKind::ToVec(a)
            | ExprKind::Result(a)
            | ExprKind::Serialize(a)
            | ExprKind::Deserialize(a)
            | ExprKind::Broadcast(a) => $f(a),
            ExprKind::Binary(_, a, b)
            | ExprKind::Lookup { data: a, key: b, .. }
            | ExprKind::OptLookup { data: a, key: b }
            | ExprKind::KeyExists { data: a, key: b }
            | ExprKind::Merge { builder: a, value: b } => {
                $f(a);
                $f(b);
            }
            ExprKind::If { cond: a, on_true: b, on_false: c }
            | ExprKind::Select { cond: a, on_true: b, on_false: c }
            | ExprKind::Slice { data: a, start: b, size: c }
            | ExprKind::Update { data: a, index: b, value: c } => {
                $f(a);
                $f(b);
                $f(c);
            }
            ExprKind::Struct(parts)
            | ExprKind::Vector(parts)
            | ExprKind::CUdf { args: parts, .. }
            | ExprKind::Intrinsic(_, parts) => {
                for part in parts {
                    $f(part);
                }
            }
            ExprKind::Assert { cond, values, .. } => {
                $f(cond);
                for value in values {
                    $f(value);
                }
            }
            ExprKind::Sort { data: a, compare: func } | ExprKind::Iterate { init: a, step: func } => {
                $f(a);
                $f(& $($mutable)? func.body);
            }
            ExprKind::NewBuilder { arg } => {
                if let Some(arg) = arg {
                    $f(arg);
                }
            }
            ExprKind::For { iter, builder, func } => {
                iter.$each_iter(&mut *$f);
                $f(builder);
                $f(& $($mutable)? func.body);
            }
        }
    };
}

macro_rules! each_iter_child {
    ($iter:expr, $f:expr, $each_iter:ident) => {
        match $iter {
            Iter::Vector(a) | Iter::Simd(a) | Iter::Fringe(a) => $f(a),
            Iter::Chunks { data, size } => {
                $f(data);
                $f(size);
            }
            Iter::Range { start, end, stride } => {
                $f(start);
                $f(end);
                $f(stride);
            }
            Iter::Strided { data, start, end, stride } => {
                $f(data);
                $f(start);
                $f(end);
                $f(stride);
            }
            Iter::Nd { data, start, end, stride, shape, strides } => {
                $f(data);
                $f(start);
                $f(end);
                $f(stride);
                $f(shape);
                $f(strides);
            }
            Iter::Zip(parts) => {
                for part in parts {
                    part.$each_iter(&mut *$f);
                }
            }
        }
    };
}

impl Iter {
    /// Calls `f` with every expression directly in the iterator, nested zips included.
    pub fn each_child<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        each_iter_child!(self, f, each_child)
    }

    /// The same, to change in place.
    pub fn each_child_mut<'a>(&'a mut self, f: &mut dyn FnMut(&'a mut Expr)) {
        each_iter_child!(self, f, each_child_mut)
    }
}

impl Expr {
    /// Calls `f` with every direct child.
    pub fn each_child<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        each_child!(self, f, each_child)
    }

    /// Calls `f` with every direct child, to change in place.
    pub fn each_child_mut<'a>(&'a mut self, f: &mut dyn FnMut(&'a mut Expr)) {
        each_child!(self, f, each_child_mut, mut)
    }

    /// The direct children, as [`Expr::each_child`] has them.
    pub fn children(&self) -> Vec<&Expr> {
        let mut out = Vec::new();
        self.each_child(&mut |child| out.push(child));
        out
    }

    /// The same, to be changed.
    pub fn children_mut(&mut self) -> Vec<&mut Expr> {
        let mut out = Vec::new();
        self.each_child_mut(&mut |child| out.push(child));
        out
    }

    /// Visits the whole tree, parents before children.
    pub fn walk<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        deep(|| {
            f(self);
            self.each_child(&mut |child| child.walk(f));
        })
    }

    /// Changes the whole tree in place, children before parents. `f` may replace the node that it is given.
    pub fn rewrite(&mut self, f: &mut dyn FnMut(&mut Expr)) {
        deep(|| {
            self.each_child_mut(&mut |child| child.rewrite(f));
            f(self);
        })
    }

    /// Changes the whole tree in place, parents before children: `f` sees a node first and its new children after.
    pub fn rewrite_down(&mut self, f: &mut dyn FnMut(&mut Expr)) {
        deep(|| {
            f(self);
            self.each_child_mut(&mut |child| child.rewrite_down(f));
        })
    }

    /// [`rewrite`](Expr::rewrite) as a map from expression to expression.
    pub fn map(mut self, f: &mut dyn FnMut(Expr) -> Expr) -> Expr {
        self.rewrite(&mut |e| *e = f(e.take()));
        self
    }

    /// Moves the expression out, leaving a literal behind.
    pub fn take(&mut self) -> Expr {
        std::mem::replace(self, super::build::bool(false))
    }

    /// The variables that the expression uses and does not bind.
    pub fn free_vars(&self) -> HashSet<Sym> {
        let mut used = HashSet::new();
        let mut bound = HashSet::new();
        self.walk(&mut |e| {
            if let ExprKind::Var(sym) = e.kind {
                used.insert(sym);
            }
            e.each_bound(&mut |sym| {
                bound.insert(sym);
            });
        });
        // A symbol is bound once in a program, so one that is bound inside is never also free.
        used.retain(|sym| !bound.contains(sym));
        used
    }

    /// How often a variable occurs.
    pub fn count_uses(&self, sym: Sym) -> usize {
        let mut count = 0;
        self.walk(&mut |e| count += matches!(e.kind, ExprKind::Var(s) if s == sym) as usize);
        count
    }

    /// Whether the variable occurs in it.
    pub fn uses(&self, sym: Sym) -> bool {
        self.count_uses(sym) > 0
    }

    /// Calls `f` with the symbols that this very node binds.
    pub fn each_bound(&self, f: &mut dyn FnMut(Sym)) {
        match &self.kind {
            ExprKind::Let { bindings, .. } => bindings.iter().for_each(|b| f(b.sym)),
            ExprKind::Sort { compare: func, .. }
            | ExprKind::Iterate { step: func, .. }
            | ExprKind::For { func, .. } => func.params.iter().for_each(|(sym, _)| f(*sym)),
            _ => {}
        }
    }

    /// Replaces a variable by an expression, everywhere. Every place but one gets a copy with fresh names, so that
    /// symbols stay bound once; nothing can be captured for the same reason.
    pub fn substitute(&mut self, sym: Sym, value: Expr, names: &mut Names) {
        self.substitute_all(&mut HashMap::from([(sym, value)]), names);
    }

    /// [`substitute`](Expr::substitute) of several variables at once; the values are not substituted into.
    pub fn substitute_all(&mut self, values: &mut HashMap<Sym, Expr>, names: &mut Names) {
        let mut given: HashSet<Sym> = HashSet::new();
        self.rewrite(&mut |e| {
            if let ExprKind::Var(sym) = e.kind
                && let Some(value) = values.get(&sym)
            {
                let mut copy = value.clone();
                if !given.insert(sym) {
                    copy.freshen(names);
                }
                if !e.annotations.is_empty() && copy.annotations.is_empty() {
                    copy.annotations = std::mem::take(&mut e.annotations);
                }
                *e = copy;
            }
        });
    }

    /// A copy in which every symbol that is bound inside is a new one.
    pub fn fresh_copy(&self, names: &mut Names) -> Expr {
        let mut copy = self.clone();
        copy.freshen(names);
        copy
    }

    /// Gives every symbol that is bound inside a new number.
    pub fn freshen(&mut self, names: &mut Names) {
        let mut renamed: HashMap<Sym, Sym> = HashMap::new();
        self.rewrite_down(&mut |e| {
            let mut rename = |sym: &mut Sym| {
                let new = names.fresh_like(*sym);
                renamed.insert(*sym, new);
                *sym = new;
            };
            match &mut e.kind {
                ExprKind::Let { bindings, .. } => bindings.iter_mut().for_each(|b| rename(&mut b.sym)),
                ExprKind::Sort { compare: func, .. }
                | ExprKind::Iterate { step: func, .. }
                | ExprKind::For { func, .. } => func.params.iter_mut().for_each(|(sym, _)| rename(sym)),
                ExprKind::Var(sym) => {
                    if let Some(new) = renamed.get(sym) {
                        *sym = *new;
                    }
                }
                _ => {}
            }
        });
    }

    /// The height of the tree.
    pub fn depth(&self) -> usize {
        deep(|| {
            let mut depth = 0;
            self.each_child(&mut |child| depth = depth.max(child.depth()));
            depth + 1
        })
    }

    /// The number of nodes.
    pub fn size(&self) -> usize {
        let mut size = 0;
        self.walk(&mut |_| size += 1);
        size
    }
}

impl Func {
    /// The body with the parameters replaced by arguments.
    pub fn apply(&self, args: Vec<Expr>, names: &mut Names) -> Expr {
        let mut body = self.body.fresh_copy(names);
        let mut values = self.params.iter().map(|(sym, _)| *sym).zip(args).collect();
        body.substitute_all(&mut values, names);
        body
    }
}

/// Runs a step of a recursion over a tree with enough stack for it.
pub fn deep<R>(f: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(64 * 1024, 2 * 1024 * 1024, f)
}
