//! Statements of ruff's tree to ours.

use ruff_python_ast::{self as ast, Stmt as RuffStmt};
use ruff_text_size::Ranged;

use crate::{Alias, Branch, Class, Convert, Function, Handler, Ident, Stmt, StmtKind, WithItem, span};

impl Convert {
    pub(crate) fn body(&mut self, body: &[RuffStmt]) -> Vec<Stmt> {
        let convert = |stmt: &RuffStmt| {
            let kind = self.deeper(stmt, |convert| convert.statement(stmt)).unwrap_or(StmtKind::Pass);
            Stmt { span: span(stmt.range()), kind }
        };
        body.iter().map(convert).collect()
    }

    fn statement(&mut self, stmt: &RuffStmt) -> StmtKind {
        match stmt {
            RuffStmt::FunctionDef(def) if def.is_async => StmtKind::Unsupported("async def"),
            RuffStmt::FunctionDef(def) => StmtKind::Function(self.function(def)),
            RuffStmt::ClassDef(class) => StmtKind::Class(self.class(class)),
            RuffStmt::Return(stmt) => StmtKind::Return(stmt.value.as_ref().map(|value| self.expr(value))),
            RuffStmt::Assign(stmt) => StmtKind::Assign {
                targets: stmt.targets.iter().map(|target| self.expr(target)).collect(),
                value: self.expr(&stmt.value),
            },
            RuffStmt::AugAssign(stmt) => StmtKind::Augment {
                target: self.expr(&stmt.target),
                op: Convert::binary_op(stmt.op),
                value: self.expr(&stmt.value),
            },
            RuffStmt::AnnAssign(stmt) => StmtKind::Annotate {
                target: self.expr(&stmt.target),
                annotation: self.expr(&stmt.annotation),
                value: stmt.value.as_ref().map(|value| self.expr(value)),
            },
            RuffStmt::For(stmt) if stmt.is_async => StmtKind::Unsupported("async for"),
            RuffStmt::For(stmt) => StmtKind::For {
                target: self.expr(&stmt.target),
                iter: self.expr(&stmt.iter),
                body: self.body(&stmt.body),
                orelse: self.body(&stmt.orelse),
            },
            RuffStmt::While(stmt) => StmtKind::While {
                test: self.expr(&stmt.test),
                body: self.body(&stmt.body),
                orelse: self.body(&stmt.orelse),
            },
            RuffStmt::If(stmt) => self.if_statement(stmt),
            RuffStmt::With(stmt) if stmt.is_async => StmtKind::Unsupported("async with"),
            RuffStmt::With(stmt) => StmtKind::With {
                items: stmt.items.iter().map(|item| self.with_item(item)).collect(),
                body: self.body(&stmt.body),
            },
            RuffStmt::Raise(stmt) => StmtKind::Raise {
                exception: stmt.exc.as_ref().map(|value| self.expr(value)),
                cause: stmt.cause.as_ref().map(|value| self.expr(value)),
            },
            RuffStmt::Try(stmt) if stmt.is_star => StmtKind::Unsupported("except*"),
            RuffStmt::Try(stmt) => StmtKind::Try {
                body: self.body(&stmt.body),
                handlers: stmt.handlers.iter().map(|handler| self.handler(handler)).collect(),
                orelse: self.body(&stmt.orelse),
                finally: self.body(&stmt.finalbody),
            },
            RuffStmt::Assert(stmt) => StmtKind::Assert {
                test: self.expr(&stmt.test),
                message: stmt.msg.as_ref().map(|message| self.expr(message)),
            },
            RuffStmt::Import(stmt) => StmtKind::Import(aliases(&stmt.names)),
            RuffStmt::ImportFrom(stmt) => StmtKind::ImportFrom {
                module: stmt.module.as_ref().map(ident),
                level: stmt.level,
                names: aliases(&stmt.names),
            },
            RuffStmt::Expr(stmt) => StmtKind::Expr(self.expr(&stmt.value)),
            RuffStmt::Pass(_) => StmtKind::Pass,
            RuffStmt::Break(_) => StmtKind::Break,
            RuffStmt::Continue(_) => StmtKind::Continue,
            RuffStmt::Delete(_) => StmtKind::Unsupported("del"),
            RuffStmt::Global(_) => StmtKind::Unsupported("global"),
            RuffStmt::Nonlocal(_) => StmtKind::Unsupported("nonlocal"),
            RuffStmt::Match(_) => StmtKind::Unsupported("match"),
            RuffStmt::TypeAlias(_) => StmtKind::Unsupported("type"),
            RuffStmt::IpyEscapeCommand(_) => StmtKind::Unsupported("an IPython command"),
        }
    }

    fn function(&mut self, def: &ast::StmtFunctionDef) -> Function {
        Function {
            decorators: def.decorator_list.iter().map(|decorator| self.expr(&decorator.expression)).collect(),
            name: ident(&def.name),
            params: self.params(&def.parameters),
            returns: def.returns.as_ref().map(|returns| self.expr(returns)),
            body: self.body(&def.body),
        }
    }

    fn class(&mut self, class: &ast::StmtClassDef) -> Class {
        let (bases, keywords) = match &class.arguments {
            Some(arguments) => self.arguments(arguments),
            None => (Vec::new(), Vec::new()),
        };
        Class {
            decorators: class.decorator_list.iter().map(|decorator| self.expr(&decorator.expression)).collect(),
            name: ident(&class.name),
            bases,
            keywords,
            body: self.body(&class.body),
        }
    }

    fn if_statement(&mut self, stmt: &ast::StmtIf) -> StmtKind {
        let mut branches = vec![Branch { test: self.expr(&stmt.test), body: self.body(&stmt.body) }];
        let mut orelse = Vec::new();
        for clause in &stmt.elif_else_clauses {
            match &clause.test {
                Some(test) => branches.push(Branch { test: self.expr(test), body: self.body(&clause.body) }),
                None => orelse = self.body(&clause.body),
            }
        }
        StmtKind::If { branches, orelse }
    }

    fn with_item(&mut self, item: &ast::WithItem) -> WithItem {
        WithItem {
            value: self.expr(&item.context_expr),
            target: item.optional_vars.as_ref().map(|target| self.expr(target)),
        }
    }

    fn handler(&mut self, handler: &ast::ExceptHandler) -> Handler {
        let ast::ExceptHandler::ExceptHandler(handler) = handler;
        Handler {
            span: span(handler.range),
            exception: handler.type_.as_ref().map(|exception| self.expr(exception)),
            name: handler.name.as_ref().map(ident),
            body: self.body(&handler.body),
        }
    }
}

pub(crate) fn ident(name: &ast::Identifier) -> Ident {
    Ident { name: name.id.as_str().into(), span: span(name.range) }
}

fn aliases(names: &[ast::Alias]) -> Vec<Alias> {
    let alias = |name: &ast::Alias| Alias { name: ident(&name.name), alias: name.asname.as_ref().map(ident) };
    names.iter().map(alias).collect()
}
