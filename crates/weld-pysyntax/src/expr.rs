//! Expressions of ruff's tree to ours.

use ruff_python_ast::{self as ast, Expr as RuffExpr, Number};
use ruff_text_size::Ranged;

use crate::statement::ident;
use crate::{BinaryOp, Clause, CompareOp, Convert, Expr, ExprKind, Keyword, Param, ParamKind, Params, UnaryOp, span};

impl Convert {
    pub(crate) fn expr(&mut self, expr: &RuffExpr) -> Expr {
        let kind = self.deeper(expr, |convert| convert.kind(expr)).unwrap_or(ExprKind::None);
        Expr { span: span(expr.range()), kind }
    }

    fn boxed(&mut self, expr: &RuffExpr) -> Box<Expr> {
        Box::new(self.expr(expr))
    }

    fn option(&mut self, expr: Option<&RuffExpr>) -> Option<Box<Expr>> {
        expr.map(|expr| self.boxed(expr))
    }

    fn all(&mut self, exprs: &[RuffExpr]) -> Vec<Expr> {
        exprs.iter().map(|expr| self.expr(expr)).collect()
    }

    fn kind(&mut self, expr: &RuffExpr) -> ExprKind {
        match expr {
            RuffExpr::NumberLiteral(literal) => number(&literal.value),
            RuffExpr::StringLiteral(literal) => ExprKind::Str(literal.value.to_str().into()),
            RuffExpr::BooleanLiteral(literal) => ExprKind::Bool(literal.value),
            RuffExpr::NoneLiteral(_) => ExprKind::None,
            RuffExpr::EllipsisLiteral(_) => ExprKind::Ellipsis,
            RuffExpr::Name(name) => ExprKind::Name(name.id.as_str().into()),
            RuffExpr::Attribute(e) => ExprKind::Attribute(self.boxed(&e.value), ident(&e.attr)),
            RuffExpr::Call(e) => {
                let callee = self.boxed(&e.func);
                let (args, keywords) = self.arguments(&e.arguments);
                ExprKind::Call { callee, args, keywords }
            }
            RuffExpr::Subscript(e) => ExprKind::Index(self.boxed(&e.value), self.boxed(&e.slice)),
            RuffExpr::Slice(e) => ExprKind::Slice {
                lower: self.option(e.lower.as_deref()),
                upper: self.option(e.upper.as_deref()),
                step: self.option(e.step.as_deref()),
            },
            RuffExpr::Tuple(e) => ExprKind::Tuple(self.all(&e.elts)),
            RuffExpr::List(e) => ExprKind::List(self.all(&e.elts)),
            RuffExpr::Set(e) => ExprKind::Set(self.all(&e.elts)),
            RuffExpr::Dict(e) => {
                let item = |item: &ast::DictItem| {
                    let key = item.key.as_ref().map(|key| self.expr(key));
                    (key, self.expr(&item.value))
                };
                ExprKind::Dict(e.items.iter().map(item).collect())
            }
            RuffExpr::UnaryOp(e) => ExprKind::Unary(unary_op(e.op), self.boxed(&e.operand)),
            RuffExpr::BinOp(e) => ExprKind::Binary(Convert::binary_op(e.op), self.boxed(&e.left), self.boxed(&e.right)),
            RuffExpr::BoolOp(e) => match e.op {
                ast::BoolOp::And => ExprKind::And(self.all(&e.values)),
                ast::BoolOp::Or => ExprKind::Or(self.all(&e.values)),
            },
            RuffExpr::Compare(e) => {
                let first = self.boxed(&e.left);
                let pairs = e.ops.iter().zip(&e.comparators);
                let rest = pairs.map(|(op, right)| (compare_op(*op), self.expr(right))).collect();
                ExprKind::Compare { first, rest }
            }
            RuffExpr::If(e) => ExprKind::If {
                test: self.boxed(&e.test),
                on_true: self.boxed(&e.body),
                on_false: self.boxed(&e.orelse),
            },
            RuffExpr::Lambda(e) => ExprKind::Lambda {
                params: e.parameters.as_ref().map(|params| self.params(params)).unwrap_or_default(),
                body: self.boxed(&e.body),
            },
            RuffExpr::ListComp(e) => {
                ExprKind::ListComp { element: self.boxed(&e.elt), clauses: self.clauses(&e.generators) }
            }
            RuffExpr::Generator(e) => {
                ExprKind::Generator { element: self.boxed(&e.elt), clauses: self.clauses(&e.generators) }
            }
            RuffExpr::Yield(e) => ExprKind::Yield(self.option(e.value.as_deref())),
            RuffExpr::YieldFrom(e) => ExprKind::YieldFrom(self.boxed(&e.value)),
            RuffExpr::Starred(e) => ExprKind::Starred(self.boxed(&e.value)),
            RuffExpr::Named(_) => ExprKind::Unsupported("`:=`"),
            RuffExpr::Await(_) => ExprKind::Unsupported("await"),
            RuffExpr::SetComp(_) => ExprKind::Unsupported("a set comprehension"),
            RuffExpr::DictComp(_) => ExprKind::Unsupported("a dictionary comprehension"),
            RuffExpr::FString(e) => self.f_string(e),
            RuffExpr::TString(_) => ExprKind::Unsupported("a t-string"),
            RuffExpr::BytesLiteral(_) => ExprKind::Unsupported("a bytes literal"),
            RuffExpr::IpyEscapeCommand(_) => ExprKind::Unsupported("an IPython command"),
        }
    }

    fn f_string(&mut self, e: &ast::ExprFString) -> ExprKind {
        let mut parts = Vec::new();
        for part in e.value.iter() {
            let elements = match part {
                ast::FStringPart::Literal(literal) => {
                    parts.push(Expr { span: span(literal.range()), kind: ExprKind::Str((&*literal.value).into()) });
                    continue;
                }
                ast::FStringPart::FString(of) => &of.elements,
            };
            for element in elements {
                parts.push(match element {
                    ast::InterpolatedStringElement::Literal(literal) => {
                        Expr { span: span(literal.range()), kind: ExprKind::Str((&*literal.value).into()) }
                    }
                    ast::InterpolatedStringElement::Interpolation(of) => {
                        let is_plain =
                            of.format_spec.is_none() && of.debug_text.is_none() && of.conversion.to_char().is_none();
                        match is_plain {
                            true => self.expr(&of.expression),
                            false => {
                                let kind = ExprKind::Unsupported("a format in an f-string");
                                Expr { span: span(of.range()), kind }
                            }
                        }
                    }
                });
            }
        }
        ExprKind::FString(parts)
    }

    pub(crate) fn arguments(&mut self, arguments: &ast::Arguments) -> (Vec<Expr>, Vec<Keyword>) {
        let args = self.all(&arguments.args);
        let keyword = |keyword: &ast::Keyword| Keyword {
            name: keyword.arg.as_ref().map(ident),
            value: self.expr(&keyword.value),
        };
        (args, arguments.keywords.iter().map(keyword).collect())
    }

    fn clauses(&mut self, clauses: &[ast::Comprehension]) -> Vec<Clause> {
        let clause = |clause: &ast::Comprehension| Clause {
            target: self.expr(&clause.target),
            iter: match clause.is_async {
                true => Expr { span: span(clause.iter.range()), kind: ExprKind::Unsupported("an async comprehension") },
                false => self.expr(&clause.iter),
            },
            conditions: self.all(&clause.ifs),
        };
        clauses.iter().map(clause).collect()
    }

    pub(crate) fn params(&mut self, params: &ast::Parameters) -> Params {
        let kinds = [
            (&params.posonlyargs, ParamKind::PositionOnly),
            (&params.args, ParamKind::Normal),
            (&params.kwonlyargs, ParamKind::KeywordOnly),
        ];
        let mut all = Vec::new();
        for (list, kind) in kinds {
            for param in list.iter() {
                all.push(Param {
                    name: ident(&param.parameter.name),
                    annotation: param.parameter.annotation.as_ref().map(|annotation| self.expr(annotation)),
                    default: param.default.as_ref().map(|default| self.expr(default)),
                    kind,
                });
            }
        }
        Params {
            params: all,
            rest: params.vararg.as_ref().map(|param| ident(&param.name)),
            keywords: params.kwarg.as_ref().map(|param| ident(&param.name)),
        }
    }

    pub(crate) fn binary_op(op: ast::Operator) -> BinaryOp {
        match op {
            ast::Operator::Add => BinaryOp::Add,
            ast::Operator::Sub => BinaryOp::Sub,
            ast::Operator::Mult => BinaryOp::Mul,
            ast::Operator::MatMult => BinaryOp::MatMul,
            ast::Operator::Div => BinaryOp::Div,
            ast::Operator::FloorDiv => BinaryOp::FloorDiv,
            ast::Operator::Mod => BinaryOp::Mod,
            ast::Operator::Pow => BinaryOp::Pow,
            ast::Operator::LShift => BinaryOp::ShiftLeft,
            ast::Operator::RShift => BinaryOp::ShiftRight,
            ast::Operator::BitAnd => BinaryOp::BitAnd,
            ast::Operator::BitOr => BinaryOp::BitOr,
            ast::Operator::BitXor => BinaryOp::BitXor,
        }
    }
}

fn number(number: &Number) -> ExprKind {
    match number {
        Number::Int(int) => match int.as_u64() {
            Some(small) => ExprKind::Int(small),
            None => ExprKind::BigInt(int.to_string().into()),
        },
        Number::Float(float) => ExprKind::Float(*float),
        Number::Complex { .. } => ExprKind::Unsupported("a complex number"),
    }
}

fn unary_op(op: ast::UnaryOp) -> UnaryOp {
    match op {
        ast::UnaryOp::Not => UnaryOp::Not,
        ast::UnaryOp::USub => UnaryOp::Neg,
        ast::UnaryOp::UAdd => UnaryOp::Pos,
        ast::UnaryOp::Invert => UnaryOp::Invert,
    }
}

fn compare_op(op: ast::CmpOp) -> CompareOp {
    match op {
        ast::CmpOp::Eq => CompareOp::Eq,
        ast::CmpOp::NotEq => CompareOp::Ne,
        ast::CmpOp::Lt => CompareOp::Lt,
        ast::CmpOp::LtE => CompareOp::Le,
        ast::CmpOp::Gt => CompareOp::Gt,
        ast::CmpOp::GtE => CompareOp::Ge,
        ast::CmpOp::Is => CompareOp::Is,
        ast::CmpOp::IsNot => CompareOp::IsNot,
        ast::CmpOp::In => CompareOp::In,
        ast::CmpOp::NotIn => CompareOp::NotIn,
    }
}
