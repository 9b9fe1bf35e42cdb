//! Code as steps.

use super::*;

impl<'a> Elaborator<'a> {
    pub(super) fn code(&mut self, items: &'a [Item]) -> Done<()> {
        for (index, item) in items.iter().enumerate() {
            match item {
                Item::Assign(assign) => self.assign(assign)?,
                Item::Command { tensor, command, span } => self.command(tensor, *command, *span)?,
                Item::Tensor { name, value } => self.local_tensor(name, *value)?,
                Item::Plain { name, value } => self.local(name, *value)?,
                Item::Code { name, params, code } => {
                    if &*name.text == "_" {
                        // For its shapes only: the steps are checked, and taken away again by what runs them.
                        self.constraints(code)?;
                    } else if !params.is_empty() || mentions(&items[index + 1..], &name.text) {
                        self.bind(name.text.clone(), Bound::Code(params, code, self.scope()));
                    } else {
                        deep(|| self.code(code))?;
                    }
                }
                Item::Run { name, args } => deep(|| self.run(name, args))?,
            }
        }
        Ok(())
    }

    /// Runs the code that a name is bound to, or that of an earlier definition.
    fn run(&mut self, name: &Name, args: &[ExprId]) -> Done<()> {
        let (params, code, scope) = match self.lookup(&name.text) {
            Some(Bound::Code(params, code, scope)) => (params, code, scope),
            Some(Bound::Tensor(_)) => {
                let message = format!("expected an assignment to `{}`, found only its name", name.text);
                return Err(Diagnostic::ty(name.span, message).with_hint("`name.forward` computes a tensor"));
            }
            Some(Bound::Fun(..)) => {
                return Err(Diagnostic::ty(name.span, format!("`{}` is a function, no code", name.text)));
            }
            None => {
                let index = self.definition(&name.text).ok_or_else(|| self.unknown(&name.text, name.span))?;
                let definition = &self.module.definitions[index];
                let Body::Code(code) = &definition.body else {
                    return Err(Diagnostic::ty(name.span, format!("`{}` is a `%op` tensor, no code", name.text)));
                };
                (&definition.params[..], &code[..], Scope { env: Arc::default(), definition: index, in_op: false })
            }
        };
        count_args(name, params.len(), args.len())?;
        let args = args.iter().map(|arg| self.expr(*arg)).collect::<Done<Vec<_>>>()?;
        let callee = Callee { name, params, scope, config: None };
        self.inside(callee, args, |this| this.code(code))
    }

    /// `let%cd _ = code in`: its assignments are checked but not run.
    pub(super) fn constraints(&mut self, code: &'a [Item]) -> Done<()> {
        let before = self.graph.steps.len();
        deep(|| self.code(code))?;
        for step in &mut self.graph.steps[before..] {
            match step {
                // What is never read and never answered.
                Step::Assign(assignment) => assignment.constraint = true,
                other => *other = Step::Nothing,
            }
        }
        Ok(())
    }

    /// `let%op name = value in`
    pub(super) fn local_tensor(&mut self, name: &Name, value: ExprId) -> Done<()> {
        let params = &self.module.definitions[self.current].params;
        let before = std::mem::replace(&mut self.in_op, true);
        self.declare_strings(value, params)?;
        if let Some(function) = self.function(value) {
            self.bind(name.text.clone(), Bound::Fun(function, self.scope()));
            self.in_op = before;
            return Ok(());
        }
        let id = self.expr(value)?;
        self.in_op = before;
        for node in self.graph.reachable([id]) {
            if matches!(self.graph.node(node).op, Op::Argument(_)) {
                self.used_by_op.insert(node);
            }
        }
        let node = &mut self.graph.nodes[id.0 as usize];
        if node.name.is_none() && &*name.text != "_" {
            node.name = Some(name.text.clone());
        }
        self.bind(name.text.clone(), Bound::Tensor(id));
        Ok(())
    }

    pub(super) fn command(&mut self, tensor: &Name, command: Command, span: Span) -> Done<()> {
        let id = self.tensor(tensor)?;
        let what = match command {
            Command::Forward => "forward",
            Command::Backprop => "backprop",
            Command::ZeroGrads => "zero_grads",
        };
        if command != Command::Forward && !self.graph.node(id).differentiable {
            let message =
                format!("`{}.{what}`: `{}` is non-differentiable, it has no gradient", tensor.text, tensor.text);
            return Err(Diagnostic::ty(span, message));
        }
        let step = match command {
            Command::Forward => Step::Forward(id),
            Command::Backprop => {
                for node in self.graph.reachable([id]) {
                    if matches!(self.graph.node(node).op, Op::Argument(_)) {
                        self.used_by_op.insert(node);
                    }
                }
                Step::Backprop(id)
            }
            Command::ZeroGrads => Step::ZeroGrads(id),
        };
        self.step(step, span)
    }

    /// A step more.
    fn step(&mut self, step: Step, span: Span) -> Done<()> {
        if self.graph.steps.len() >= self.nodes_max {
            return Err(Diagnostic::ty(span, format!("the code has more than {} steps", self.nodes_max)));
        }
        self.graph.steps.push(step);
        Ok(())
    }

    /// The tensor of a name in code.
    pub(super) fn tensor(&mut self, name: &Name) -> Done<NodeId> {
        match self.lookup(&name.text) {
            Some(Bound::Tensor(id)) => Ok(id),
            Some(other) => Err(no_tensor(&name.text, &other, name.span)),
            None => Err(self.unknown(&name.text, name.span)),
        }
    }

    pub(super) fn assign(&mut self, assign: &'a Assign) -> Done<()> {
        let sign = format!("={}{}", if assign.init { ":" } else { "" }, assign.accum.text());
        // The operands are looked up before the target is declared.
        let (apply, op_span) = self.right_side(assign)?;
        let step = self.graph.steps.len();
        let (target, grad, target_span, target_name) = match &assign.target {
            Target::Name(name) => (self.tensor(name)?, false, name.span, name.text.clone()),
            Target::Grad(name) => {
                let id = self.tensor(name)?;
                self.has_gradient(id, name)?;
                (id, true, name.span, format!("{}.grad", name.text).into())
            }
            Target::Declare(declare) => {
                let id = self.declare(declare, step)?;
                (id, false, declare.name.span, declare.name.text.clone())
            }
        };
        let assignment = Assignment {
            target,
            grad,
            accum: assign.accum,
            init: assign.init,
            apply,
            target_span,
            span: assign.span,
            op_span,
            sign,
            target_name,
            constraint: false,
        };
        self.step(Step::Assign(assignment), assign.span)
    }

    pub(super) fn declare(&mut self, declare: &Declare, step: usize) -> Done<NodeId> {
        let Name { text, span } = &declare.name;
        if self.module.definitions[self.current].params.iter().any(|param| param.name.text == *text) {
            return Err(Diagnostic::ty(*span, format!("`{text}` is declared, but it is a parameter already")));
        }
        match self.declared.get(text) {
            // The same string: the code that it stands in runs again.
            Some(known) if known.span == *span => return Ok(known.id),
            None if self.lookup(text).is_none() => {}
            _ => {
                return Err(Diagnostic::ty(*span, format!("`{text}` is declared twice"))
                    .with_hint(format!("write it without quotes to assign to it again: `{text} =: ..`")));
            }
        }
        let id = self.add(Op::Declared { axes: declare.axes.clone(), step }, *span, Some(text.clone()))?;
        self.declared.insert(text.clone(), Declared { span: *span, definition: self.current, id });
        Ok(id)
    }

    /// The operation of an assignment: the outermost one where it is built in, else the tensor itself.
    pub(super) fn right_side(&mut self, assign: &'a Assign) -> Done<(Apply, Span)> {
        let logic = assign.logic.as_ref().map_or(Logic::Pointwise, |(logic, _)| logic.clone());
        let mut expr = self.module.expr(assign.value);
        // A logic of two operands is that of the operation in parentheses: `(a * b) ~logic:"@"`.
        let is_of_two =
            matches!(&logic, Logic::Compose) || matches!(&logic, Logic::Einsum(spec) if spec.args.len() == 2);
        while let (true, Kind::Paren(inner)) = (is_of_two, &expr.kind) {
            expr = self.module.expr(*inner);
        }
        let (fun, sign, operands): (Fun, Arc<str>, Vec<ExprId>) = match &expr.kind {
            Kind::Binary(operator, a, b) if operator.built_in().is_some() => {
                let binary = operator.built_in().unwrap_or(Binary::Mul);
                (Fun::Binary(binary), operator.text().into(), vec![*a, *b])
            }
            Kind::Unary(unary, a) => {
                (Fun::Unary(*unary), if *unary == Unary::Relu { "!/" } else { "-" }.into(), vec![*a])
            }
            Kind::Call { name, args, config: None } if self.is_free(&name.text) => {
                match (unary_named(&name.text), binary_named(&name.text)) {
                    (Some(unary), _) => {
                        count_args(name, 1, args.len())?;
                        (Fun::Unary(unary), name.text.clone(), args.clone())
                    }
                    (_, Some(binary)) => {
                        count_args(name, 2, args.len())?;
                        (Fun::Binary(binary), name.text.clone(), args.clone())
                    }
                    _ => (Fun::Unary(Unary::Identity), "=".into(), vec![assign.value]),
                }
            }
            _ => (Fun::Unary(Unary::Identity), "=".into(), vec![assign.value]),
        };
        let op_span = if fun == Fun::Unary(Unary::Identity) { expr.span } else { expr.op };
        if let Some((given, span)) = &assign.logic {
            check_logic(given, &fun, &sign, operands.len(), *span)?;
        }
        let args = operands.into_iter().map(|arg| self.expr(arg)).collect::<Done<Vec<_>>>()?;
        Ok((Apply { fun, logic, args, max: false, sign }, op_span))
    }

    /// Whether the name is none of the text's own.
    pub(super) fn is_free(&self, name: &str) -> bool {
        self.lookup(name).is_none() && self.definition(name).is_none()
    }
}

/// Whether one of the items runs the code that is called so.
pub(super) fn mentions(items: &[Item], name: &str) -> bool {
    items.iter().any(|item| match item {
        Item::Run { name: run, .. } => &*run.text == name,
        Item::Code { code, .. } => mentions(code, name),
        _ => false,
    })
}

/// Whether a logic goes with an operation.
pub(super) fn check_logic(logic: &Logic, fun: &Fun, sign: &str, operands: usize, span: Span) -> Done<()> {
    let wrong = |message: String| Err(Diagnostic::ty(span, message));
    match logic {
        Logic::Compose if operands == 1 => wrong("`~logic:\"@\"` needs two operands, found one".into()),
        Logic::Compose if matches!(fun, Fun::Binary(Binary::Div | Binary::Pow)) => {
            wrong(format!("`~logic:\"@\"` with `{sign}`: a product of tensors multiplies or adds"))
        }
        Logic::Transpose if operands == 2 => wrong("`~logic:\"T\"` needs one operand, found two".into()),
        Logic::Einsum(spec) if spec.args.len() != operands => wrong(format!(
            "the einsum specification has {} operand{}, the assignment {operands}",
            spec.args.len(),
            if spec.args.len() == 1 { "" } else { "s" }
        )),
        _ => Ok(()),
    }
}
