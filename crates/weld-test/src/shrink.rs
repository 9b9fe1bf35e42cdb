//! Makes a failing program small: as long as it still fails, parts of it are replaced by simpler ones.

use std::time::{Duration, Instant};

use weld_core::interp::Value;
use weld_core::ir::{Expr, ExprKind, build, typing, verify};

use crate::generate::Generated;

/// Trying is stopped then, wherever it is.
const TIME_MAX: Duration = Duration::from_secs(60);

/// The smallest failing program that was found. `fails` must hold of `made`.
pub fn shrink(made: &Generated, fails: &mut dyn FnMut(&Generated) -> bool) -> Generated {
    let mut best = made.clone();
    let end = Instant::now() + TIME_MAX;
    loop {
        let smaller = candidates(&best)
            .into_iter()
            .find(|candidate| Instant::now() < end && verify(&candidate.program).is_ok() && fails(candidate));
        match smaller {
            Some(smaller) => best = smaller,
            None => return best,
        }
    }
}

/// Programs with one part replaced, the largest savings first.
fn candidates(made: &Generated) -> Vec<Generated> {
    let mut all = Vec::new();
    for at in 0..made.program.body.size() {
        let mut body = made.program.body.clone();
        let mut replacements = Vec::new();
        nth(&mut body, at, &mut |expr| replacements = simpler(expr));
        for replacement in replacements {
            let mut candidate = made.clone();
            nth(&mut candidate.program.body, at, &mut |expr| *expr = replacement.clone());
            normalise(&mut candidate.program.body);
            all.push(candidate);
        }
    }
    for (i, arg) in made.args.iter().enumerate() {
        for smaller in smaller_values(arg) {
            let mut candidate = made.clone();
            candidate.args[i] = smaller;
            all.push(candidate);
        }
    }
    all.sort_by_key(|candidate| candidate.program.body.size());
    all
}

/// Calls `f` on the node that a walk meets as number `at`.
fn nth(expr: &mut Expr, at: usize, f: &mut dyn FnMut(&mut Expr)) {
    fn go(expr: &mut Expr, left: &mut usize, f: &mut dyn FnMut(&mut Expr)) -> bool {
        if *left == 0 {
            f(expr);
            return true;
        }
        *left -= 1;
        expr.children_mut().into_iter().any(|child| go(child, left, f))
    }
    let mut left = at;
    go(expr, &mut left, f);
}

fn simpler(expr: &Expr) -> Vec<Expr> {
    let mut found = Vec::new();
    let trivial = matches!(expr.kind, ExprKind::Literal(_) | ExprKind::Bytes(_) | ExprKind::Var(_));
    if typing::is_storable(&expr.ty) && !trivial {
        found.push(build::zero(&expr.ty));
    }
    // A descendant of the same type, not too deep inside.
    for child in expr.children() {
        if child.ty == expr.ty {
            found.push(child.clone());
        }
        found.extend(child.children().into_iter().filter(|inner| inner.ty == expr.ty).cloned());
    }
    match &expr.kind {
        ExprKind::Let { bindings, body } if bindings.len() > 1 => {
            for i in 0..bindings.len() {
                let mut fewer = bindings.clone();
                fewer.remove(i);
                found.push(build::let_in(fewer, (**body).clone()));
            }
        }
        ExprKind::Vector(items) => found.extend((0..items.len()).map(|i| {
            let mut fewer = items.clone();
            fewer.remove(i);
            Expr { kind: ExprKind::Vector(fewer), ..expr.clone() }
        })),
        _ => {}
    }
    found
}

/// Blocks inside the bodies of blocks are joined, as the IR wants.
fn normalise(expr: &mut Expr) {
    expr.rewrite(&mut |e| {
        if let ExprKind::Let { bindings, body } = &mut e.kind
            && matches!(body.kind, ExprKind::Let { .. })
        {
            *e = build::let_in(std::mem::take(bindings), body.take());
        }
    });
}

fn smaller_values(value: &Value) -> Vec<Value> {
    match value {
        Value::Vec(items) if !items.is_empty() => {
            let half = items.len() / 2;
            let mut found = vec![Value::vec(items[..half].to_vec()), Value::vec(items[half..].to_vec())];
            if items.len() <= 8 {
                for i in 0..items.len() {
                    found.push(Value::vec(items.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, v)| v.clone())));
                }
            }
            found.retain(|smaller| smaller != value);
            found
        }
        _ => Vec::new(),
    }
}
