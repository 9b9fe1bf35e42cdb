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
        declared: HashMap::new(),
        calls: 0,
        current: entry,
        in_op: false,
        used_by_op: HashSet::new(),
        gradients,
        library,
        nodes_max,
        labels: Vec::new(),
    };
    elaborator.entry(entry).map_err(|error| vec![error])
}

/// A tensor that is declared on a left side: its scope is the whole definition.
#[derive(Clone, Copy)]
struct Declared {
    span: Span,
    definition: usize,
    id: NodeId,
}

/// What a name stands for.
#[derive(Clone, Debug)]
enum Bound<'a> {
    Tensor(NodeId),
    Fun(&'a Lambda, Scope<'a>),
    /// A code of this definition, with its parameters.
    Code(&'a [Param], &'a [Item], Scope<'a>),
}

/// The names at some place, the innermost last.
type Env<'a> = HashMap<Arc<str>, Vec<Bound<'a>>>;

/// Where a function or a code stands, and so what its names mean.
#[derive(Clone, Debug)]
struct Scope<'a> {
    env: Arc<Env<'a>>,
    definition: usize,
    in_op: bool,
}

/// A call of a definition, a function or a code.
struct Callee<'a, 'c> {
    /// The name that is called, with its place.
    name: &'c Name,
    params: &'a [Param],
    scope: Scope<'a>,
    config: Option<&'c [String]>,
}

struct Elaborator<'a> {
    module: &'a Module,
    graph: Graph,
    env: Env<'a>,
    /// Tensors that strings in `%op` declare, by the name that the caller binds.
    inline: HashMap<Arc<str>, NodeId>,
    /// Definitions without parameters that were used.
    values: HashMap<usize, NodeId>,
    arguments: Vec<NodeId>,
    declared: HashMap<Arc<str>, Declared>,
    /// Calls so far.
    calls: usize,
    /// The definition that is elaborated.
    current: usize,
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
                self.declare_strings(*body, &definition.params)?;
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
            // Only names of the module are in scope there.
            let outer = std::mem::take(&mut self.env);
            let before = (std::mem::replace(&mut self.current, index), self.in_op);
            match &definition.body {
                Body::Tensor(body) => {
                    self.in_op = true;
                    self.declare_strings(*body, &[])?;
                    self.expr(*body)?;
                }
                Body::Code(items) => {
                    self.in_op = false;
                    self.constraints(items)?;
                }
            }
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
        let is_computed = matches!(op, Op::Apply(_) | Op::Foreign { .. });
        let id = self.graph.add(op, span, name);
        // `%cd` makes tensors without gradients.
        if is_computed && !self.in_op {
            self.graph.nodes[id.0 as usize].differentiable = false;
        }
        Ok(id)
    }

    fn bind(&mut self, name: Arc<str>, bound: Bound<'a>) {
        if &*name != "_" {
            self.env.entry(name).or_default().push(bound);
        }
    }

    fn unbind(&mut self, name: &str) {
        self.env.get_mut(name).and_then(Vec::pop);
    }

    fn lookup(&self, name: &str) -> Option<Bound<'a>> {
        let declared = || self.declared.get(name).filter(|known| known.definition == self.current);
        let bound = self.env.get(name).and_then(|bounds| bounds.last()).cloned();
        bound.or_else(|| declared().map(|known| Bound::Tensor(known.id)))
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
            Kind::Let { name, value, body, tensor } => {
                match tensor {
                    true => self.local_tensor(name, *value)?,
                    false => self.local(name, *value)?,
                }
                let body = self.expr(*body);
                self.unbind(&name.text);
                body
            }
            Kind::Fun(_) => {
                let error = Diagnostic::ty(expr.op, "a function is found, expected a tensor");
                Err(error.with_hint("a function has a name, `let f x = .. in ..`, and is called with all arguments"))
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
                let Some(value) = self.graph.node(exponent).constant else {
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
            Some(Bound::Tensor(id)) => return Ok(id),
            Some(other) => return Err(no_tensor(name, &other, span)),
            None => {}
        }
        match self.definition(name) {
            Some(index) => {
                let definition = &self.module.definitions[index];
                count_args(&Name { text: name.clone(), span }, definition.params.len(), 0)?;
                if let Some(id) = self.values.get(&index) {
                    return Ok(*id);
                }
                let id = self.instance(index, Vec::new(), None, &Name { text: name.clone(), span })?;
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
        match self.lookup(&name.text) {
            Some(Bound::Fun(function, scope)) => {
                count_args(name, function.params.len(), args.len())?;
                check_config(name, config, function.config)?;
                let args = args.iter().map(|arg| self.expr(*arg)).collect::<Done<Vec<_>>>()?;
                let callee = Callee { name, params: &function.params, scope, config };
                return self.inside(callee, args, |this| {
                    if function.config.is_some() {
                        this.declare_strings(function.body, &function.params)?;
                    }
                    this.expr(function.body)
                });
            }
            Some(Bound::Tensor(_)) => {
                let message = format!("`{}` is a tensor, no function: an operator is missing", name.text);
                return Err(Diagnostic::ty(name.span, message));
            }
            Some(other) => return Err(no_tensor(&name.text, &other, name.span)),
            None => {}
        }
        if let Some(index) = self.definition(&name.text) {
            let definition = &self.module.definitions[index];
            count_args(name, definition.params.len(), args.len())?;
            check_config(name, config, definition.config)?;
            let args = args.iter().map(|arg| self.expr(*arg)).collect::<Done<Vec<_>>>()?;
            return self.instance(index, args, config, name);
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
    fn instance(&mut self, index: usize, args: Vec<NodeId>, config: Option<&[String]>, name: &Name) -> Done<NodeId> {
        let definition = &self.module.definitions[index];
        let Body::Tensor(body) = definition.body else {
            return Err(Diagnostic::ty(name.span, format!("`{}` is a `%cd` code, no tensor", definition.name.text)));
        };
        let scope = Scope { env: Arc::default(), definition: index, in_op: true };
        let callee = Callee { name, params: &definition.params, scope, config };
        self.inside(callee, args, |this| {
            this.declare_strings(body, &definition.params)?;
            this.expr(body)
        })
    }

    /// What a call comes to: `body` is elaborated with the names that the callee sees.
    fn inside<T>(
        &mut self,
        callee: Callee<'a, '_>,
        args: Vec<NodeId>,
        body: impl FnOnce(&mut Self) -> Done<T>,
    ) -> Done<T> {
        self.calls += 1;
        if self.calls > self.nodes_max {
            let message = format!("more than {} definitions are applied", self.nodes_max);
            return Err(Diagnostic::ty(callee.name.span, message));
        }
        let Scope { env, definition, in_op } = callee.scope;
        let outer = std::mem::replace(&mut self.env, Env::clone(&env));
        let before = (self.current, self.in_op, self.labels.len());
        (self.current, self.in_op) = (definition, in_op);
        self.labels.extend(callee.config.unwrap_or_default().iter().cloned());
        for (param, arg) in callee.params.iter().zip(args) {
            if let Some(shape) = &param.shape {
                self.graph.annotated.push((arg, shape.clone(), param.name.clone()));
            }
            self.bind(param.name.text.clone(), Bound::Tensor(arg));
        }
        let result = body(self)?;
        self.labels.truncate(before.2);
        (self.current, self.in_op) = (before.0, before.1);
        self.env = outer;
        Ok(result)
    }

    /// `let name = value in`, of a tensor or a function.
    fn local(&mut self, name: &Name, value: ExprId) -> Done<()> {
        let bound = match self.function(value) {
            Some(function) => Bound::Fun(function, self.scope()),
            None => Bound::Tensor(self.expr(value)?),
        };
        self.bind(name.text.clone(), bound);
        Ok(())
    }

    /// The function that an expression is, in parentheses or not.
    fn function(&self, mut id: ExprId) -> Option<&'a Lambda> {
        loop {
            match &self.module.expr(id).kind {
                Kind::Paren(inner) => id = *inner,
                Kind::Fun(function) => return Some(function),
                _ => return None,
            }
        }
    }

    /// The names that are known here.
    fn scope(&self) -> Scope<'a> {
        Scope { env: Arc::new(self.env.clone()), definition: self.current, in_op: self.in_op }
    }
}

/// What a name stands for where a tensor is wanted.
fn no_tensor(name: &str, bound: &Bound<'_>, span: Span) -> Diagnostic {
    let what = if matches!(bound, Bound::Fun(..)) { "function" } else { "code" };
    Diagnostic::ty(span, format!("`{name}` is a {what}, no tensor"))
}

fn check_config(name: &Name, given: Option<&[String]>, wanted: Option<Span>) -> Done<()> {
    match given.is_some() && wanted.is_none() {
        true => Err(Diagnostic::ty(name.span, format!("`{}` has no parameter `~config`", name.text))),
        false => Ok(()),
    }
}

fn count_args(name: &Name, wanted: usize, found: usize) -> Done<()> {
    if wanted == found {
        return Ok(());
    }
    let plural = if wanted == 1 { "" } else { "s" };
    Err(Diagnostic::ty(name.span, format!("`{}` takes {wanted} argument{plural}, found {found}", name.text)))
}
