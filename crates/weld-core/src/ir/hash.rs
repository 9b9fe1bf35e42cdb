//! A number for a program: programs have the same if they differ in the names and numbers of their symbols alone.
//!
//! Places count where there are any, for errors name them, and so do annotations. With 128 bits that nobody can steer,
//! different programs have different numbers.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::discriminant;

use super::{Expr, ExprKind, Func, Iter, Program, Sym, deep};
use crate::diag::Span;

/// Hashes to 128 bits, the same in every process of one build.
#[derive(Clone, Debug)]
pub struct WideHasher([DefaultHasher; 2]);

impl Default for WideHasher {
    fn default() -> WideHasher {
        let (low, mut high) = (DefaultHasher::new(), DefaultHasher::new());
        high.write_u64(0x9e37_79b9_7f4a_7c15);
        WideHasher([low, high])
    }
}

impl WideHasher {
    /// The number of a value.
    pub fn hash_one(value: impl Hash) -> u128 {
        let mut hasher = WideHasher::default();
        value.hash(&mut hasher);
        hasher.finish_wide()
    }

    /// The number of all that was written so far.
    pub fn finish_wide(&self) -> u128 {
        let [low, high] = self.0.each_ref().map(|half| u128::from(half.finish()));
        high << 64 | low
    }
}

impl Hasher for WideHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.iter_mut().for_each(|half| half.write(bytes));
    }

    /// The lower half.
    fn finish(&self) -> u64 {
        self.0[0].finish()
    }
}

impl Program {
    /// The program's number.
    pub fn fingerprint(&self) -> u128 {
        let mut hasher = WideHasher::default();
        self.describe(&mut hasher);
        hasher.finish_wide()
    }

    /// Writes all that makes the program what it is: what two different programs write differs, and neither is the
    /// beginning of the other.
    pub fn describe(&self, hasher: &mut impl Hasher) {
        let mut walk = Walk { hasher, bound: HashMap::new() };
        walk.put(self.params.len());
        for param in &self.params {
            walk.put((&param.ty, param.stream, param.known));
            walk.bind(param.sym);
        }
        walk.expr(&self.body);
    }
}

struct Walk<'a, H> {
    hasher: &'a mut H,
    /// Symbols by the order of their bindings.
    bound: HashMap<Sym, usize>,
}

impl<H: Hasher> Walk<'_, H> {
    fn bind(&mut self, sym: Sym) {
        let number = self.bound.len();
        self.bound.insert(sym, number);
    }

    fn put(&mut self, value: impl Hash) {
        value.hash(self.hasher);
    }

    fn expr(&mut self, e: &Expr) {
        self.put(discriminant(&e.kind));
        // Those of variables and fields follow from what they are variables and fields of.
        if !matches!(e.kind, ExprKind::Var(_) | ExprKind::Field(..)) {
            self.put(&e.ty);
        }
        self.put(e.span != Span::NONE);
        if e.span != Span::NONE {
            self.put(e.span);
        }
        for entry in e.annotations.entries() {
            self.put(true);
            self.put(entry);
        }
        self.put(false);
        self.head(&e.kind);
        e.each_child(&mut |child| {
            self.put(true);
            deep(|| self.expr(child));
        });
        self.put(false);
    }

    /// What a node is besides its kind and its children.
    fn head(&mut self, kind: &ExprKind) {
        match kind {
            ExprKind::Literal(literal) => self.put(literal),
            ExprKind::Bytes(bytes) => self.put(bytes),
            ExprKind::Var(sym) => {
                let number = self.bound.get(sym).copied();
                self.put((number, number.is_none().then_some(sym)));
            }
            ExprKind::Let { bindings, .. } => bindings.iter().for_each(|binding| self.bind(binding.sym)),
            ExprKind::Unary(op, _) => self.put(op),
            ExprKind::Binary(op, ..) => self.put(op),
            ExprKind::Field(_, index) => self.put(index),
            ExprKind::Lookup { checked, .. } => self.put(checked),
            ExprKind::CUdf { name, .. } => self.put(name),
            ExprKind::Intrinsic(intrinsic, _) => self.put(intrinsic),
            ExprKind::Assert { message, raised, .. } => self.put((message, raised)),
            ExprKind::Sort { compare: func, .. } | ExprKind::Iterate { step: func, .. } => self.func(func),
            ExprKind::For { iter, func, .. } => {
                self.iter(iter);
                self.func(func);
            }
            ExprKind::Cast(_)
            | ExprKind::If { .. }
            | ExprKind::Select { .. }
            | ExprKind::Struct(_)
            | ExprKind::Vector(_)
            | ExprKind::Len(_)
            | ExprKind::OptLookup { .. }
            | ExprKind::KeyExists { .. }
            | ExprKind::Slice { .. }
            | ExprKind::ToVec(_)
            | ExprKind::Update { .. }
            | ExprKind::NewBuilder { .. }
            | ExprKind::Merge { .. }
            | ExprKind::Result(_)
            | ExprKind::Serialize(_)
            | ExprKind::Deserialize(_)
            | ExprKind::Broadcast(_) => {}
        }
    }

    fn func(&mut self, func: &Func) {
        self.put(func.params.len());
        for (sym, ty) in &func.params {
            self.put(ty);
            self.bind(*sym);
        }
    }

    fn iter(&mut self, iter: &Iter) {
        self.put(discriminant(iter));
        if let Iter::Zip(parts) = iter {
            self.put(parts.len());
            parts.iter().for_each(|part| self.iter(part));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::parse_program;

    fn fingerprint(text: &str) -> u128 {
        let mut program = parse_program(text).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
        // Places differ with the lengths of names.
        program.body.rewrite(&mut |e| e.span = crate::diag::Span::NONE);
        program.fingerprint()
    }

    #[test]
    fn names_do_not_count_and_all_else_does() {
        let text = "|v: vec[i64], n: i64| let m = n + 1L; result(for(v, merger[i64,+], |b, i, x| merge(b, x * m - i)))";
        let renamed =
            "|w: vec[i64], k: i64| let p = k + 1L; result(for(w, merger[i64,+], |c, j, y| merge(c, y * p - j)))";
        assert_eq!(fingerprint(text), fingerprint(renamed));
        for (from, to) in [
            ("1L", "2L"),
            ("n + ", "n - "),
            ("x * m", "x * n"),
            ("x * m", "m * x"),
            ("merger[i64,+]", "merger[i64,*]"),
            ("- i)", "- x)"),
            ("result(for", "@(strict:true) result(for"),
            ("for(v", "for(iter(v, 0L, n, 1L)"),
        ] {
            let other = text.replacen(from, to, 1);
            assert_ne!(text, other, "{from}");
            assert_ne!(fingerprint(text), fingerprint(&other), "{other}");
        }
        assert_ne!(fingerprint("|x: i64| x"), fingerprint("|x: i32| x"));
        assert_ne!(fingerprint("|x: i64| i8(x)"), fingerprint("|x: i64| i16(x)"));
        assert_ne!(fingerprint("|x: i64, y: i64| x"), fingerprint("|x: i64, y: i64| y"));
        assert_ne!(fingerprint("|x: f64| x + 0.0"), fingerprint("|x: f64| x + -0.0"));
    }
}
