//! Tensors that strings in `%op` declare.

use super::*;

impl<'a> Elaborator<'a> {
    /// Declares the tensors of all strings in an expression: their scope is the whole definition. Those in a function
    /// with `~config` are of each of its calls. `params` are those around the expression.
    pub(super) fn declare_strings(&mut self, body: ExprId, params: &[Param]) -> Done<()> {
        let mut open = vec![body];
        let mut strings = Vec::new();
        while let Some(id) = open.pop() {
            match &self.module.expr(id).kind {
                Kind::Declare { declare, init } => strings.push((id, declare, *init)),
                Kind::Paren(a) | Kind::Unary(_, a) => open.push(*a),
                Kind::Binary(_, a, b) | Kind::Let { value: a, body: b, .. } => open.extend([*a, *b]),
                Kind::Fun(function) if function.config.is_none() => open.push(function.body),
                Kind::Fun(_) => {}
                Kind::Einsum { args, .. } | Kind::Call { args, .. } => open.extend(args),
                Kind::Number { .. } | Kind::Literal(_) | Kind::Name(_) | Kind::Grad(_) => {}
            }
        }
        strings.sort_by_key(|(id, ..)| self.module.expr(*id).span.start);
        for (_, declare, init) in strings {
            self.declare_string(declare, init, params)?;
        }
        Ok(())
    }

    pub(super) fn declare_string(&mut self, declare: &Declare, init: Option<ExprId>, params: &[Param]) -> Done<()> {
        let Name { text, span } = &declare.name;
        if params.iter().any(|param| param.name.text == *text) {
            let owner = &self.module.definitions[self.current].name.text;
            return Err(Diagnostic::ty(*span, format!("`{text}` is declared, but it is a parameter of `{owner}`")));
        }
        if self.declared.contains_key(text) {
            return Err(Diagnostic::ty(*span, format!("`{text}` is declared twice: on a left side, and here")));
        }
        let number = |id: ExprId| match &self.module.expr(id).kind {
            Kind::Number { value, label } => Some((*value, *label)),
            _ => None,
        };
        let init = init.and_then(number);
        // What `~config` says is a part of the name, so that each call has its own tensor.
        let known: Arc<str> = match self.labels.is_empty() {
            true => text.clone(),
            false => format!("{text}_{}", self.labels.join("_")).into(),
        };
        let id = match self.inline.get(&known) {
            Some(id) => *id,
            None => {
                let argument = Argument { shape: declare.axes.clone(), inline: true, init: None };
                let id = self.add(Op::Argument(argument), *span, Some(known.clone()))?;
                self.inline.insert(known, id);
                self.arguments.push(id);
                id
            }
        };
        if let Op::Argument(argument) = &mut self.graph.nodes[id.0 as usize].op {
            if let (Some(a), Some(b)) = (argument.init, init)
                && a != b
            {
                return Err(Diagnostic::ty(*span, format!("`{text}` has two initial values: {} and {}", a.0, b.0)));
            }
            argument.init = argument.init.or(init);
            argument.shape = argument.shape.take().or_else(|| declare.axes.clone());
        }
        if !matches!(self.lookup(text), Some(Bound::Tensor(bound)) if bound == id) {
            self.bind(text.clone(), Bound::Tensor(id));
        }
        Ok(())
    }
}
