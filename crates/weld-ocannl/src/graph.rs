//! Programs as a graph of tensors and steps: names resolved, definitions applied, no shapes yet.

use std::sync::Arc;

use weld_core::diag::Span;
use weld_frontend::Function;

use crate::tree::{Accum, Annotation, Binary, Logic, Name, Nested, Unary};

/// A tensor. Operands have smaller numbers than what uses them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct NodeId(pub(crate) u32);

#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
    /// What a `%cd` code does, in order.
    pub(crate) steps: Vec<Step>,
    /// Shapes that tensors must have: those of parameters of definitions that are applied to them.
    pub(crate) annotated: Vec<(NodeId, Annotation, Name)>,
}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) op: Op,
    /// The operator, or the whole of what has none.
    pub(crate) span: Span,
    /// What messages call it.
    pub(crate) name: Option<Arc<str>>,
    /// The number that it is, where the text says it.
    pub(crate) constant: Option<f64>,
    /// Has a gradient: it is a parameter or depends on one.
    pub(crate) differentiable: bool,
}

#[derive(Debug)]
pub(crate) enum Op {
    /// Bound by the caller.
    Argument(Argument),
    /// Declared on the left side of an assignment, with its axes where they are given.
    Declared {
        axes: Option<Annotation>,
        step: usize,
    },
    Number {
        value: f64,
        label: Option<char>,
    },
    Literal(Nested),
    Grad(NodeId),
    Apply(Apply),
    /// A function of the session, of whatever language.
    Foreign {
        function: Arc<Function>,
        args: Vec<NodeId>,
    },
}

impl Op {
    /// The tensors that it is computed from.
    pub(crate) fn args(&self) -> &[NodeId] {
        match self {
            Op::Apply(apply) => &apply.args,
            Op::Foreign { args, .. } => args,
            _ => &[],
        }
    }
}

#[derive(Debug)]
pub(crate) struct Argument {
    pub(crate) shape: Option<Annotation>,
    /// Declared by a string in `%op`, with its initial value.
    pub(crate) inline: bool,
    pub(crate) init: Option<(f64, Option<char>)>,
}

/// An operation over tensors.
#[derive(Clone, Debug)]
pub(crate) struct Apply {
    pub(crate) fun: Fun,
    pub(crate) logic: Logic,
    pub(crate) args: Vec<NodeId>,
    /// Reduced axes by the largest, not the sum.
    pub(crate) max: bool,
    /// What messages call the operation.
    pub(crate) sign: Arc<str>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Fun {
    Unary(Unary),
    Binary(Binary),
    /// To a constant power.
    Power(f64),
}

#[derive(Debug)]
pub(crate) enum Step {
    Assign(Assignment),
    Forward(NodeId),
    Backprop(NodeId),
    ZeroGrads(NodeId),
    /// In code that only constrains shapes.
    Nothing,
}

#[derive(Debug)]
pub(crate) struct Assignment {
    pub(crate) target: NodeId,
    /// Assigns to the target's gradient.
    pub(crate) grad: bool,
    pub(crate) accum: Accum,
    pub(crate) init: bool,
    pub(crate) apply: Apply,
    /// The target's place, the assignment operator's, and that of what combines the operands.
    pub(crate) target_span: Span,
    pub(crate) span: Span,
    pub(crate) op_span: Span,
    /// `=:+`
    pub(crate) sign: String,
    pub(crate) target_name: Arc<str>,
    /// Only constrains shapes.
    pub(crate) constraint: bool,
}

impl Graph {
    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    pub(crate) fn add(&mut self, op: Op, span: Span, name: Option<Arc<str>>) -> NodeId {
        let is_argument = matches!(op, Op::Argument(_));
        let differentiable = is_argument || op.args().iter().any(|arg| self.node(*arg).differentiable);
        let constant = match &op {
            Op::Number { value, .. } => Some(*value),
            Op::Apply(apply) => self.folded(apply),
            _ => None,
        };
        self.nodes.push(Node { op, span, name, constant, differentiable });
        NodeId(self.nodes.len() as u32 - 1)
    }

    /// The number that an operation point by point over numbers gives.
    fn folded(&self, apply: &Apply) -> Option<f64> {
        if !matches!(apply.logic, Logic::Pointwise) {
            return None;
        }
        let operand = |which: usize| self.node(*apply.args.get(which)?).constant;
        let a = operand(0)?;
        match apply.fun {
            Fun::Power(exponent) => Some(a.powf(exponent)),
            Fun::Unary(Unary::Identity) => Some(a),
            Fun::Unary(Unary::Neg) => Some(-a),
            Fun::Unary(Unary::Recip) => Some(1.0 / a),
            Fun::Unary(Unary::Sqrt) => Some(a.sqrt()),
            Fun::Binary(Binary::Add) => Some(a + operand(1)?),
            Fun::Binary(Binary::Sub) => Some(a - operand(1)?),
            Fun::Binary(Binary::Mul) => Some(a * operand(1)?),
            Fun::Binary(Binary::Div) => Some(a / operand(1)?),
            Fun::Unary(_) | Fun::Binary(_) => None,
        }
    }

    /// What a message calls a tensor, with `side` for one that has no name.
    pub(crate) fn called(&self, id: NodeId, side: &str) -> String {
        match (&self.node(id).name, &self.node(id).op) {
            (Some(name), _) => format!("`{name}`"),
            (_, Op::Number { value, .. }) => format!("the number `{value}`"),
            (_, Op::Literal(_)) => format!("the literal on the {side}"),
            _ => format!("the {side} operand"),
        }
    }

    /// The tensors that these depend on and themselves, in order.
    pub(crate) fn reachable(&self, roots: impl IntoIterator<Item = NodeId>) -> Vec<NodeId> {
        let mut seen = vec![false; self.nodes.len()];
        let mut open: Vec<NodeId> = roots.into_iter().collect();
        while let Some(id) = open.pop() {
            if !std::mem::replace(&mut seen[id.0 as usize], true) {
                open.extend(self.node(id).op.args());
            }
        }
        (0..self.nodes.len()).filter(|i| seen[*i]).map(|i| NodeId(i as u32)).collect()
    }
}
