//! From the tree to the graph: names are resolved, definitions applied, operators become operations with a logic.

mod code;
mod strings;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use weld_core::diag::{Diagnostic, Span};
use weld_core::ir::deep;
use weld_frontend::Library;

use crate::graph::{Apply, Argument, Assignment, Fun, Graph, NodeId, Op, Step};
use crate::tree::*;

type Done<T> = Result<T, Diagnostic>;

/// What the entry comes to.
#[derive(Debug)]
pub(crate) struct Elaborated {
    pub(crate) graph: Graph,
    /// A `%op`'s value; `None` for `%cd` and for wildcards.
    pub(crate) root: Option<NodeId>,
    /// The entry's parameters, then the tensors that strings in `%op` declare, in the order of the text.
    pub(crate) arguments: Vec<NodeId>,
    pub(crate) wildcard: bool,
}

/// Elaborates definition `entry`. `gradients`: names for which the caller gives the gradient.
pub(crate) fn elaborate(
    module: &Module,
    entry: usize,
    gradients: &HashSet<&str>,
    library: &Library,
    nodes_max: usize,
) -> Result<Elaborated, Vec<Diagnostic>> {
    let elaborator = Elaborator {
        module,
        graph: Graph::default(),
        env: HashMap::new(),
        inline: HashMap::new(),
        values: HashMap::new(),
        arguments: Vec::new(),
        declared: HashSet::new(),
        current: entry,
        calls: Vec::new(),
        in_op: false,
        used_by_op: HashSet::new(),
        gradients,
        library,
        nodes_max,
        labels: Vec::new(),
    };
    elaborator.entry(entry).map_err(|error| vec![error])
}

/// What a name stands for.
#[derive(Clone, Debug)]
enum Bound<'a> {
    Tensor(NodeId),
    /// A code of this definition.
    Code(&'a [Item]),
}

struct Elaborator<'a> {
    module: &'a Module,
    graph: Graph,
    env: HashMap<Arc<str>, Vec<Bound<'a>>>,
    /// Tensors that strings in `%op` declare, by the name that the caller binds.
    inline: HashMap<Arc<str>, NodeId>,
    /// Definitions without parameters that were used.
    values: HashMap<usize, NodeId>,
    arguments: Vec<NodeId>,
    /// Names declared on left sides.
    declared: HashSet<Arc<str>>,
    /// The definition that is elaborated, and those that called it.
    current: usize,
    calls: Vec<usize>,
    /// Inside of `%op`, where strings declare.
    in_op: bool,
    /// Arguments that tensors of `%op` depend on.
    used_by_op: HashSet<NodeId>,
    gradients: &'a HashSet<&'a str>,
    /// The functions of the session.
    library: &'a Library,
    nodes_max: usize,
    /// What `~config` of the calls around says.
    labels: Vec<String>,
}

impl<'a> Elaborator<'a> {
    fn entry(mut self, entry: usize) -> Done<Elaborated> {
        let definition = &self.module.definitions[entry];
        for param in &definition.params {
            let argument = Argument { shape: param.shape.clone(), inline: false, init: None };
            let name = param.name.text.clone();
            let id = self.add(Op::Argument(argument), param.name.span, Some(name.clone()))?;
            self.arguments.push(id);
            self.bind(name, Bound::Tensor(id));
        }
        let wildcard = &*definition.name.text == "_";
        let mut root = None;
        match &definition.body {
            Body::Tensor(body) => {
                self.in_op = true;
                self.declare_strings(*body, definition)?;
                root = Some(self.expr(*body)?);
            }
            Body::Code(items) => self.code(items)?,
        }
        self.wildcards(entry)?;
        let Elaborator { graph, arguments, .. } = self;
        Ok(Elaborated { graph, root, arguments, wildcard })
    }

    /// Wildcards of the text constrain the shapes of what was elaborated.
    fn wildcards(&mut self, entry: usize) -> Done<()> {
        for (index, definition) in self.module.definitions.iter().enumerate() {
            if &*definition.name.text != "_" || index == entry || !definition.params.is_empty() {
                continue;
            }
            let Body::Tensor(body) = &definition.body else { continue };
            // Only names of the module are in scope there.
            let outer = std::mem::take(&mut self.env);
            let before = (std::mem::replace(&mut self.current, index), std::mem::replace(&mut self.in_op, true));
            self.declare_strings(*body, definition)?;
            self.expr(*body)?;
            (self.current, self.in_op) = before;
            self.env = outer;
        }
        Ok(())
    }

    fn add(&mut self, op: Op, span: Span, name: Option<Arc<str>>) -> Done<NodeId> {
        if self.graph.nodes.len() >= self.nodes_max {
            let message =
                format!("the program has more than {} tensors once its definitions are applied", self.nodes_max);
            return Err(Diagnostic::ty(span, message));
        }
        Ok(self.graph.add(op, span, name))
    }

    fn bind(&mut self, name: Arc<str>, bound: Bound<'a>) {
        self.env.entry(name).or_default().push(bound);
    }

    fn unbind(&mut self, name: &str) {
        self.env.get_mut(name).and_then(Vec::pop);
    }

    fn lookup(&self, name: &str) -> Option<&Bound<'a>> {
        self.env.get(name).and_then(|bounds| bounds.last())
    }

    // Gradients.

    fn has_gradient(&self, id: NodeId, name: &Name) -> Done<()> {
        let text = &name.text;
        let node = self.graph.node(id);
        let message = match &node.op {
            Op::Declared { .. } => format!("`{text}.grad`: `{text}` is declared in `%cd`, so it is non-differentiable"),
            _ if !node.differentiable => format!("`{text}.grad`: `{text}` is non-differentiable, it has no gradient"),
            Op::Argument(argument) if !argument.inline && !self.used_by_op.contains(&id) => {
                if self.gradients.contains(&**text) {
                    return Ok(());
                }
                format!("`{text}.grad`: `{text}` has no gradient here: no `let%op` tensor depends on it")
            }
            _ => return Ok(()),
        };
        Err(Diagnostic::ty(name.span, message))
    }

    // Expressions.

    /// The definition that is called so, among those before the one that is elaborated.
    fn definition(&self, name: &str) -> Option<usize> {
        self.module.definitions[..self.current].iter().rposition(|definition| &*definition.name.text == name)
    }

    fn unknown(&self, name: &str, span: Span) -> Diagnostic {
        const SLOTS: [&str; 10] = ["t", "t1", "t2", "g", "g1", "g2", "v", "v1", "v2", "lhs"];
        let definitions = &self.module.definitions;
        if &*definitions[self.current].name.text == name {
            return Diagnostic::ty(span, format!("`{name}` is recursive: a definition cannot use itself"));
        }
        if definitions[self.current..].iter().any(|definition| &*definition.name.text == name) {
            return Diagnostic::ty(span, format!("`{name}` is used before its definition"));
        }
        if SLOTS.contains(&name) {
            let message = format!("unknown name `{name}`: slots of `~projections` are not supported");
            return Diagnostic::ty(span, message).with_hint("projections are values of the host language");
        }
        let error = Diagnostic::ty(span, format!("unknown name `{name}`"));
        error.with_hint(match self.in_op {
            true => format!("declare a parameter with quotes: `\"{name}\"`"),
            false => format!("declare a tensor with quotes on a left side: `\"{name}\" =: ..`"),
        })
    }

    fn expr(&mut self, id: ExprId) -> Done<NodeId> {
        deep(|| self.expr_inner(id))
    }

    fn expr_inner(&mut self, id: ExprId) -> Done<NodeId> {
        let expr = self.module.expr(id);
        let span = expr.span;
        match &expr.kind {
            Kind::Number { value, label } => self.add(Op::Number { value: *value, label: *label }, span, None),
            Kind::Literal(nested) => {
                let nested = Nested { levels: nested.levels.clone(), numbers: nested.numbers.clone() };
                self.add(Op::Literal(nested), span, None)
            }
            Kind::Name(name) => self.name(name, span),
            Kind::Grad(name) => {
                if self.in_op {
                    let message = format!("`{}.grad` is read in `%cd` code, not in `%op`", name.text);
                    return Err(Diagnostic::ty(name.span, message));
                }
                let of = self.tensor(name)?;
                self.has_gradient(of, name)?;
                self.add(Op::Grad(of), span, Some(format!("{}.grad", name.text).into()))
            }
            Kind::Declare { declare, .. } => match self.in_op {
                true => self.name(&declare.name.text, declare.name.span),
                false => {
                    let message = format!(
                        "`\"{}\"` is declared on the right side: `%cd` declares on the left side only",
                        declare.name.text
                    );
                    Err(Diagnostic::ty(span, message))
                }
            },
            Kind::Paren(inner) => self.expr(*inner),
            Kind::Unary(unary, a) => {
                let arg = self.expr(*a)?;
                let sign = if *unary == Unary::Relu { "!/" } else { "-" };
                self.apply(Fun::Unary(*unary), Logic::Pointwise, vec![arg], sign, expr.op)
            }
            Kind::Binary(operator, a, b) => self.binary(*operator, *a, *b, expr.op),
            Kind::Einsum { spec, args, max, .. } => {
                let args = args.iter().map(|arg| self.expr(*arg)).collect::<Done<Vec<_>>>()?;
                let (fun, sign) = match (args.len(), max) {
                    (1, _) => (Fun::Unary(Unary::Identity), "++"),
                    (_, true) => (Fun::Binary(Binary::Add), "@^+"),
                    _ => (Fun::Binary(Binary::Mul), "+*"),
                };
                let apply = Apply { fun, logic: Logic::Einsum(spec.clone()), args, max: *max, sign: sign.into() };
                self.add(Op::Apply(apply), expr.op, None)
            }
            Kind::Call { name, args, config } => self.call(name, args, config.as_deref()),
            Kind::Let { name, value, body } => {
                let value = self.expr(*value)?;
                self.bind(name.text.clone(), Bound::Tensor(value));
                let body = self.expr(*body);
                self.unbind(&name.text);
                body
            }
        }
    }

    fn apply(&mut self, fun: Fun, logic: Logic, args: Vec<NodeId>, sign: &str, span: Span) -> Done<NodeId> {
        self.add(Op::Apply(Apply { fun, logic, args, max: false, sign: sign.into() }), span, None)
    }

    fn binary(&mut self, operator: Operator, a: ExprId, b: ExprId, span: Span) -> Done<NodeId> {
        let (fun, logic) = match operator {
            Operator::Star => (Fun::Binary(Binary::Mul), Logic::Compose),
            Operator::MulDot => (Fun::Binary(Binary::Mul), Logic::Pointwise),
            Operator::DivDot => (Fun::Binary(Binary::Div), Logic::Pointwise),
            Operator::Add => (Fun::Binary(Binary::Add), Logic::Pointwise),
            Operator::Sub => (Fun::Binary(Binary::Sub), Logic::Pointwise),
            Operator::Gate => (Fun::Binary(Binary::Gate), Logic::Pointwise),
            Operator::Slash | Operator::Power => {
                let text = operator.text();
                let message = format!("`{text}` is the operation of a `%cd` assignment only, found in an expression");
                return Err(Diagnostic::parse(span, message).with_hint(format!("for tensors it is `{text}.`")));
            }
            Operator::PowDot => {
                let base = self.expr(a)?;
                let exponent = self.expr(b)?;
                let Op::Number { value, .. } = self.graph.node(exponent).op else {
                    let found = self.graph.called(exponent, "right");
                    return Err(Diagnostic::ty(span, format!("`**.` needs a constant exponent, found {found}")));
                };
                return self.apply(Fun::Power(value), Logic::Pointwise, vec![base], "**.", span);
            }
        };
        let args = vec![self.expr(a)?, self.expr(b)?];
        self.apply(fun, logic, args, operator.text(), span)
    }

    fn name(&mut self, name: &Arc<str>, span: Span) -> Done<NodeId> {
        match self.lookup(name) {
            Some(Bound::Tensor(id)) => return Ok(*id),
            Some(Bound::Code(_)) => return Err(Diagnostic::ty(span, format!("`{name}` is a code, no tensor"))),
            None => {}
        }
        match self.definition(name) {
            Some(index) => {
                let definition = &self.module.definitions[index];
                count_args(&Name { text: name.clone(), span }, definition.params.len(), 0)?;
                if let Some(id) = self.values.get(&index) {
                    return Ok(*id);
                }
                let id = self.instance(index, Vec::new(), None, span)?;
                self.values.insert(index, id);
                Ok(id)
            }
            None => {
                // A function without its operands.
                let name = Name { text: name.clone(), span };
                let wanted = unary_named(&name.text).map(|_| 1).or(binary_named(&name.text).map(|_| 2));
                count_args(&name, wanted.unwrap_or(0), 0)?;
                Err(self.unknown(&name.text, span))
            }
        }
    }

    fn call(&mut self, name: &Name, args: &[ExprId], config: Option<&[String]>) -> Done<NodeId> {
        if let Some(Bound::Tensor(_)) = self.lookup(&name.text) {
            return Err(Diagnostic::ty(
                name.span,
                format!("`{}` is a tensor, no function: an operator is missing", name.text),
            ));
        }
        if let Some(index) = self.definition(&name.text) {
            let definition = &self.module.definitions[index];
            count_args(name, definition.params.len(), args.len())?;
            if config.is_some() && definition.config.is_none() {
                return Err(Diagnostic::ty(name.span, format!("`{}` has no parameter `~config`", name.text)));
            }
            let args = args.iter().map(|arg| self.expr(*arg)).collect::<Done<Vec<_>>>()?;
            return self.instance(index, args, config, name.span);
        }
        if let Some(unary) = unary_named(&name.text) {
            count_args(name, 1, args.len())?;
            let arg = self.expr(args[0])?;
            return self.apply(Fun::Unary(unary), Logic::Pointwise, vec![arg], &name.text, name.span);
        }
        if let Some(binary) = binary_named(&name.text) {
            count_args(name, 2, args.len())?;
            let args = vec![self.expr(args[0])?, self.expr(args[1])?];
            return self.apply(Fun::Binary(binary), Logic::Pointwise, args, &name.text, name.span);
        }
        if let Some(function) = self.library.get(&name.text) {
            let wanted = function.params.len();
            count_args(name, wanted, args.len())?;
            let args = args.iter().map(|arg| self.expr(*arg)).collect::<Done<Vec<_>>>()?;
            let op = Op::Foreign { function: function.clone(), args };
            return self.add(op, name.span, None);
        }
        let mut error = self.unknown(&name.text, name.span);
        if error.message.starts_with("unknown name") {
            error.message = format!("unknown function `{}`", name.text);
            error.hint =
                Some("the functions are `relu exp log sqrt tanh sin cos neg recip` and earlier definitions".into());
        }
        Err(error)
    }

    /// The value of an earlier definition with these arguments.
    fn instance(&mut self, index: usize, args: Vec<NodeId>, config: Option<&[String]>, span: Span) -> Done<NodeId> {
        let definition = &self.module.definitions[index];
        let Body::Tensor(body) = definition.body else {
            return Err(Diagnostic::ty(span, format!("`{}` is a `%cd` code, no tensor", definition.name.text)));
        };
        let outer = std::mem::take(&mut self.env);
        let before = (self.current, self.in_op, self.labels.len());
        (self.current, self.in_op) = (index, true);
        self.calls.push(before.0);
        self.labels.extend(config.unwrap_or_default().iter().cloned());
        for (param, arg) in definition.params.iter().zip(args) {
            if let Some(shape) = &param.shape {
                self.graph.annotated.push((arg, shape.clone(), param.name.clone()));
            }
            self.bind(param.name.text.clone(), Bound::Tensor(arg));
        }
        self.declare_strings(body, definition)?;
        let value = self.expr(body)?;
        self.calls.pop();
        self.labels.truncate(before.2);
        (self.current, self.in_op) = (before.0, before.1);
        self.env = outer;
        Ok(value)
    }
}

fn count_args(name: &Name, wanted: usize, found: usize) -> Done<()> {
    if wanted == found {
        return Ok(());
    }
    let plural = if wanted == 1 { "" } else { "s" };
    Err(Diagnostic::ty(name.span, format!("`{}` takes {wanted} argument{plural}, found {found}", name.text)))
}
