//! Prints a program as Weld text that parses back to the same program.
//!
//! ```text
//! |v: vec[i64]|
//!   let total = result(for(v, merger[i64,+], |b, i, x| merge(b, x)));
//!   {total, len(v)}
//! ```
//!
//! Names are made valid identifiers and unique in the program. A lookup whose check was proved away prints with the
//! annotation `unchecked`, for a reader to see; the parser ignores it, so text is always checked.

use std::collections::{HashMap, HashSet};
use std::fmt::{self, Write};

use super::{Binding, Expr, ExprKind, Func, Iter, Literal, Program, Sym, deep};
use crate::op::UnaryOp;
use crate::pretty::Pretty;
use crate::syntax::precedence::{self as level, infix_level};
use crate::syntax::words::is_reserved;
use crate::ty::Type;

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printer = Printer { out: Pretty::default(), names: unique_names(self) };
        printer.program(self);
        f.write_str(&printer.out.render())
    }
}

fn level_of(e: &Expr) -> u8 {
    if annotated(e) { level::UNARY } else { level_of_kind(&e.kind) }
}

fn level_of_kind(kind: &ExprKind) -> u8 {
    match kind {
        ExprKind::Let { .. } => level::LOOSE,
        ExprKind::Binary(op, ..) => infix_level(*op).unwrap_or(level::POSTFIX),
        ExprKind::Vector(elements) if elements.is_empty() => level::ASCRIPTION,
        ExprKind::Unary(UnaryOp::Neg | UnaryOp::Not, _) | ExprKind::Literal(_) => level::UNARY,
        _ => level::POSTFIX,
    }
}

fn annotated(e: &Expr) -> bool {
    !e.annotations.is_empty() || matches!(e.kind, ExprKind::Lookup { checked: false, .. })
}

struct Printer {
    out: Pretty,
    names: HashMap<Sym, String>,
}

impl Printer {
    fn program(&mut self, program: &Program) {
        let has_params = !program.params.is_empty();
        if has_params {
            let params: Vec<String> = program
                .params
                .iter()
                .map(|param| match (&param.ty, param.stream) {
                    (Type::Vec(element), true) => {
                        format!("{}: stream[{element}]", self.name(param.sym))
                    }
                    (ty, _) => format!("{}: {ty}", self.name(param.sym)),
                })
                .collect();
            self.out.text(format!("|{}|", params.join(", ")));
            self.out.indent();
            self.out.hard();
        }
        match &program.body.kind {
            ExprKind::Let { bindings, body } if !annotated(&program.body) => self.block(bindings, body, Pretty::hard),
            _ => self.expr(&program.body, level::LOOSE),
        }
        if has_params {
            self.out.dedent();
        }
    }

    fn name(&self, sym: Sym) -> String {
        self.names.get(&sym).cloned().unwrap_or_else(|| format!("unbound_{}", sym.0))
    }

    /// The expression, in parentheses if it binds looser than `least`.
    fn expr(&mut self, e: &Expr, least: u8) {
        deep(|| {
            if level_of(e) >= least {
                return self.with_annotations(e);
            }
            self.out.open();
            self.out.text("(");
            self.out.indent();
            self.out.soft();
            self.with_annotations(e);
            self.out.dedent();
            self.out.soft();
            self.out.text(")");
            self.out.close();
        })
    }

    fn with_annotations(&mut self, e: &Expr) {
        if !annotated(e) {
            return self.plain(e);
        }
        let mut entries: Vec<String> = e.annotations.entries().map(annotation).collect();
        if matches!(e.kind, ExprKind::Lookup { checked: false, .. }) {
            entries.push("unchecked:true".into());
        }
        self.out.text(format!("@({}) ", entries.join(", ")));
        let parenthesise = level_of_kind(&e.kind) < level::UNARY;
        if parenthesise {
            self.out.text("(");
        }
        self.plain(e);
        if parenthesise {
            self.out.text(")");
        }
    }

    /// The expression without its annotations and parentheses.
    fn plain(&mut self, e: &Expr) {
        match &e.kind {
            ExprKind::Literal(literal) => self.out.text(literal.to_string()),
            ExprKind::Bytes(bytes) => {
                let prefix = if e.ty == Type::vec(Type::U8) { "b" } else { "" };
                self.out.text(format!("{prefix}{}", quoted(bytes)));
            }
            ExprKind::Var(sym) => self.out.text(self.name(*sym)),
            ExprKind::Let { bindings, body } => {
                self.out.open();
                self.block(bindings, body, Pretty::line);
                self.out.close();
            }
            ExprKind::Unary(op @ (UnaryOp::Neg | UnaryOp::Not), value) => {
                self.out.text(op.name());
                // `-5` is a literal, so the negation of a literal needs parentheses.
                let literal = matches!(value.kind, ExprKind::Literal(_));
                self.expr(value, if literal { level::POSTFIX } else { level::UNARY });
            }
            ExprKind::Unary(op, value) => self.call(op.name(), [value]),
            ExprKind::Binary(op, left, right) => match infix_level(*op) {
                None => self.call(op.name(), [left, right]),
                Some(own) => {
                    self.out.open();
                    self.expr(left, if op.is_comparison() { own + 1 } else { own });
                    self.out.text(format!(" {}", op.name()));
                    self.out.line();
                    self.expr(right, own + 1);
                    self.out.close();
                }
            },
            ExprKind::Cast(value) => self.call(&e.ty.to_string(), [value]),
            ExprKind::If { cond, on_true, on_false } => self.call("if", [cond, on_true, on_false]),
            ExprKind::Select { cond, on_true, on_false } => self.call("select", [cond, on_true, on_false]),
            ExprKind::Struct(fields) => self.bracketed("{", fields, "}"),
            ExprKind::Field(value, index) => {
                self.expr(value, level::POSTFIX);
                self.out.text(format!(".${index}"));
            }
            ExprKind::Vector(elements) => {
                self.bracketed("[", elements, "]");
                if elements.is_empty() {
                    self.out.text(format!(": {}", e.ty));
                }
            }
            ExprKind::Len(data) => self.call("len", [data]),
            ExprKind::Lookup { data, key, .. } => self.call("lookup", [data, key]),
            ExprKind::OptLookup { data, key } => self.call("optlookup", [data, key]),
            ExprKind::KeyExists { data, key } => self.call("keyexists", [data, key]),
            ExprKind::Slice { data, start, size } => self.call("slice", [data, start, size]),
            ExprKind::Sort { data, compare } => self.with_function("sort", &[Part::Expr(data)], compare),
            ExprKind::ToVec(data) => self.call("tovec", [data]),
            ExprKind::Update { data, index, value } => self.call("update", [data, index, value]),
            ExprKind::Iterate { init, step } => self.with_function("iterate", &[Part::Expr(init)], step),
            ExprKind::NewBuilder { arg: None } => self.out.text(e.ty.to_string()),
            ExprKind::NewBuilder { arg: Some(arg) } => self.call(&e.ty.to_string(), [arg]),
            ExprKind::Merge { builder, value } => self.call("merge", [builder, value]),
            ExprKind::For { iter, builder, func } => {
                self.with_function("for", &[Part::Iter(iter), Part::Expr(builder)], func);
            }
            ExprKind::Result(builder) => self.call("result", [builder]),
            ExprKind::Serialize(value) => self.call("serialize", [value]),
            ExprKind::Deserialize(data) => self.call(&format!("deserialize[{}]", e.ty), [data]),
            ExprKind::CUdf { name, args } => self.call(&format!("cudf[{name},{}]", e.ty), args),
            ExprKind::Intrinsic(intrinsic, args) => self.call(intrinsic.name(), args),
            ExprKind::Assert { cond, message: None, .. } => self.call("assert", [cond]),
            ExprKind::Assert { cond, message: Some(message), values, raised } => {
                self.out.text(if *raised { "require(" } else { "assert(" });
                self.expr(cond, level::LOOSE);
                self.out.text(format!(", {}", quoted(message.as_bytes())));
                for value in values {
                    self.out.text(", ");
                    self.expr(value, level::LOOSE);
                }
                self.out.text(")");
            }
            ExprKind::Broadcast(value) => self.call("broadcast", [value]),
        }
    }

    fn block(&mut self, bindings: &[Binding], body: &Expr, separate: fn(&mut Pretty)) {
        for Binding { sym, value } in bindings {
            self.out.open();
            self.out.text(format!("let {} = ", self.name(*sym)));
            self.expr(value, level::LOOSE + 1);
            self.out.text(";");
            self.out.close();
            separate(&mut self.out);
        }
        self.expr(body, level::LOOSE);
    }

    fn call<'a, E: AsRef<Expr> + 'a>(&mut self, name: &str, args: impl IntoIterator<Item = &'a E>) {
        self.bracketed(&format!("{name}("), args, ")");
    }

    fn bracketed<'a, E: AsRef<Expr> + 'a>(&mut self, open: &str, parts: impl IntoIterator<Item = &'a E>, close: &str) {
        let parts: Vec<Part<'_>> = parts.into_iter().map(|part| Part::Expr(part.as_ref())).collect();
        self.parts(open, &parts, close);
    }

    fn with_function(&mut self, name: &str, before: &[Part<'_>], func: &Func) {
        let parts: Vec<Part<'_>> = before.iter().copied().chain([Part::Func(func)]).collect();
        self.parts(&format!("{name}("), &parts, ")");
    }

    /// Parts with commas between brackets, on one line or one a line; a single expression hugs its brackets.
    fn parts(&mut self, open: &str, parts: &[Part<'_>], close: &str) {
        self.out.open();
        self.out.text(open);
        if let [Part::Expr(only)] = parts {
            self.expr(only, level::LOOSE);
            self.out.text(close);
            return self.out.close();
        }
        self.out.indent();
        for (i, part) in parts.iter().enumerate() {
            if i == 0 {
                self.out.soft();
            } else {
                self.out.text(",");
                self.out.line();
            }
            match part {
                Part::Expr(e) => self.expr(e, level::LOOSE),
                Part::Iter(iter) => self.iter(iter),
                Part::Func(func) => self.func(func),
            }
        }
        self.out.dedent();
        self.out.soft();
        self.out.text(close);
        self.out.close();
    }

    fn iter(&mut self, iter: &Iter) {
        match iter {
            Iter::Vector(data) => self.expr(data, level::LOOSE),
            Iter::Strided { data, start, end, stride } => self.call("iter", [data, start, end, stride]),
            Iter::Range { start, end, stride } => self.call("rangeiter", [start, end, stride]),
            Iter::Simd(data) => self.call("simditer", [data]),
            Iter::Fringe(data) => self.call("fringeiter", [data]),
            Iter::Nd { data, start, end, stride, shape, strides } => {
                self.call("nditer", [data, start, end, stride, shape, strides]);
            }
            Iter::Chunks { data, size } => self.call("chunkiter", [data, size]),
            Iter::Zip(iters) => {
                let parts: Vec<Part<'_>> = iters.iter().map(Part::Iter).collect();
                self.parts("zip(", &parts, ")");
            }
        }
    }

    /// A function without its parameters' types, which its place gives.
    fn func(&mut self, func: &Func) {
        let params: Vec<String> = func.params.iter().map(|(sym, _)| self.name(*sym)).collect();
        self.out.open();
        self.out.text(format!("|{}|", params.join(", ")));
        self.out.indent();
        self.out.line();
        self.expr(&func.body, level::LOOSE);
        self.out.dedent();
        self.out.close();
    }
}

/// What may stand between a form's commas.
#[derive(Clone, Copy)]
enum Part<'a> {
    Expr(&'a Expr),
    Iter(&'a Iter),
    Func(&'a Func),
}

impl AsRef<Expr> for Expr {
    fn as_ref(&self) -> &Expr {
        self
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Literal::Bool(v) => write!(f, "{v}"),
            Literal::I8(v) => write!(f, "{v}c"),
            Literal::I16(v) => write!(f, "{v}si"),
            Literal::I32(v) => write!(f, "{v}"),
            Literal::I64(v) => write!(f, "{v}L"),
            Literal::I128(v) => write!(f, "{v}LL"),
            Literal::U8(v) => write!(f, "{v}u8"),
            Literal::U16(v) => write!(f, "{v}u16"),
            Literal::U32(v) => write!(f, "{v}u32"),
            Literal::U64(v) => write!(f, "{v}u64"),
            Literal::F32(v) if v.is_finite() => write!(f, "{v:?}f"),
            Literal::F64(v) if v.is_finite() => write!(f, "{v:?}"),
            Literal::F32(v) if v.is_infinite() => write!(f, "f32[{v}]"),
            Literal::F64(v) if v.is_infinite() => write!(f, "f64[{v}]"),
            Literal::F32(v) => write!(f, "f32[0x{:x}]", v.to_bits()),
            Literal::F64(v) => write!(f, "f64[0x{:x}]", v.to_bits()),
        }
    }
}

/// `name:value`; a value that is no plain word or number is quoted.
pub(crate) fn annotation((name, value): (&str, &str)) -> String {
    let all = |text: &str, ok: fn(char) -> bool| !text.is_empty() && text.chars().all(ok);
    let is_float = |text: &str| {
        let parts = text.split_once('.');
        parts.is_some_and(|(whole, rest)| [whole, rest].iter().all(|part| all(part, |c| c.is_ascii_digit())))
    };
    let plain = all(value, |c| c.is_ascii_alphanumeric() || c == '_') || is_float(value);
    if plain { format!("{name}:{value}") } else { format!("{name}:{}", quoted(value.as_bytes())) }
}

/// A string literal of these bytes; what is not valid or visible UTF-8 is escaped.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    let mut out = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                '\r' => out.push_str("\\r"),
                '\0' => out.push_str("\\0"),
                '\\' => out.push_str("\\\\"),
                '"' => out.push_str("\\\""),
                c if c.is_control() => {
                    for byte in c.to_string().bytes() {
                        let _ = write!(out, "\\x{byte:02x}");
                    }
                }
                c => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out.push('"');
    out
}

/// A valid identifier for every symbol that the program binds, different from all others.
fn unique_names(program: &Program) -> HashMap<Sym, String> {
    let mut syms: Vec<Sym> = program.params.iter().map(|param| param.sym).collect();
    program.body.walk(&mut |e| e.each_bound(&mut |sym| syms.push(sym)));
    let mut taken: HashSet<String> = HashSet::new();
    let mut next: HashMap<String, usize> = HashMap::new();
    let mut names = HashMap::new();
    for sym in syms {
        let base = identifier(program.names.name(sym));
        let mut name = base.clone();
        if is_reserved(&name) || taken.contains(&name) {
            let counter = next.entry(base.clone()).or_insert(1);
            while is_reserved(&name) || taken.contains(&name) {
                *counter += 1;
                name = format!("{base}_{counter}");
            }
        }
        taken.insert(name.clone());
        names.insert(sym, name);
    }
    names
}

/// The name with everything that is not allowed in an identifier replaced.
fn identifier(name: &str) -> String {
    let mut out: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if out.starts_with(|c: char| c.is_ascii_digit()) || out.is_empty() {
        out.insert(0, '_');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::{Names, Param, build};
    use super::*;
    use crate::op::{MergeOp, ReduceOp};

    #[test]
    fn prints_a_pipeline() {
        let mut names = Names::default();
        let names_mut = &mut names;
        let row = Type::structure([Type::I64, Type::vec(Type::U8)]);
        let input = build::param(names_mut, "sum(l.price)", Type::vec(row.clone()));
        let ExprKind::Var(sym) = input.kind else { unreachable!("a parameter is a variable") };
        let kept = build::for_(names_mut, build::over(input), build::appender(row), |_, b, _, row| {
            let wanted = build::and(
                build::gt(build::field(row.clone(), 0), build::i64(-5)),
                build::eq(build::field(row.clone(), 1), build::bytes(*b"AIR \"x\"")),
            );
            build::if_(wanted, build::merge(b.clone(), row), b)
        });
        let op = MergeOp::All(ReduceOp::Add);
        let body = build::let_(names_mut, "kept", build::result(kept), |names, kept| {
            let total = build::for_(names, build::over(kept), build::merger(Type::I64, op), |_, b, _, row| {
                build::merge(b, build::field(row, 0))
            });
            build::result(total)
        });
        let params = vec![Param {
            sym,
            ty: Type::vec(Type::structure([Type::I64, Type::vec(Type::U8)])),
            stream: true,
            known: None,
        }];
        let program = Program { params, body, names };
        super::super::verify(&program).expect("the program is well formed");
        expect_test::expect![[r#"
            |sum_l_price_: stream[{i64,vec[u8]}]|
              let kept = result(for(
                sum_l_price_,
                appender[{i64,vec[u8]}],
                |b, i, x| if(x.$0 > -5L && x.$1 == b"AIR \"x\"", merge(b, x), b)
              ));
              result(for(kept, merger[i64,+], |b_2, i_2, x_2| merge(b_2, x_2.$0)))"#]]
        .assert_eq(&program.to_string());
    }
}
