//! The steps of a code, in order.

use std::collections::HashSet;

use weld_core::diag::Diagnostic;
use weld_core::ir::Expr;

use crate::emit::{Emitter, neutral};
use crate::graph::{Assignment, NodeId, Op, Step};

impl Emitter<'_> {
    /// Runs the steps of a code; gives what was assigned, in order, and whether it was the gradient.
    pub(crate) fn run(&mut self) -> Result<Vec<(String, NodeId, bool)>, Diagnostic> {
        let graph = self.graph;
        let wanted = self.gradients_seen();
        let mut assigned: Vec<(String, NodeId, bool)> = Vec::new();
        for (index, step) in graph.steps.iter().enumerate() {
            match step {
                Step::Nothing => {}
                Step::Forward(id) => {
                    for node in graph.reachable([*id]) {
                        if matches!(graph.node(node).op, Op::Apply(_) | Op::Foreign { .. }) {
                            self.values.remove(&node);
                        }
                    }
                    self.value(*id)?;
                }
                Step::Backprop(id) => self.backprop(*id, &wanted)?,
                Step::ZeroGrads(id) => {
                    for node in graph.reachable([*id]) {
                        self.grads.remove(&node);
                    }
                }
                Step::Assign(assignment) if assignment.constraint => {}
                Step::Assign(assignment) => {
                    let Some(projection) = self.inferred.steps[index].clone() else { continue };
                    let id = assignment.target;
                    let old = match assignment.init && assignment.accum != crate::tree::Accum::Set {
                        true => None,
                        false => Some(self.now(id, assignment.grad)),
                    };
                    if old.is_none() {
                        self.fill(assignment)?;
                    }
                    let sizes = self.sizes(id)?;
                    let apply = &assignment.apply;
                    let value = self.apply(apply, &projection, sizes, assignment.accum, old, assignment.op_span)?;
                    let value = self.bind(&assignment.target_name, value);
                    let held = if assignment.grad { &mut self.grads } else { &mut self.values };
                    held.insert(id, value);
                    if !assigned.iter().any(|(_, known, grad)| (*known, *grad) == (id, assignment.grad)) {
                        assigned.push((self.answered(assignment), id, assignment.grad));
                    }
                }
            }
        }
        Ok(assigned)
    }

    /// What the answer calls an assigned tensor: a code's parameter stands for one that has a name.
    fn answered(&self, assignment: &Assignment) -> String {
        match &self.graph.node(assignment.target).name {
            Some(name) if assignment.grad => format!("{name}.grad"),
            Some(name) => name.to_string(),
            None => assignment.target_name.to_string(),
        }
    }

    /// With a colon the left side is filled before the operation reads it. Operands that are tensors of their own are
    /// computed before that.
    fn fill(&mut self, assignment: &Assignment) -> Result<(), Diagnostic> {
        let target = (assignment.target, assignment.grad);
        let graph = self.graph;
        let is_target = |arg: &NodeId| match graph.node(*arg).op {
            Op::Grad(of) => target == (of, true),
            _ => target == (*arg, false),
        };
        let args = &assignment.apply.args;
        if !args.iter().any(is_target) {
            return Ok(());
        }
        for arg in args.iter().filter(|arg| !is_target(arg)) {
            self.value(*arg)?;
        }
        let fill = self.number(neutral(assignment.accum));
        let held = if assignment.grad { &mut self.grads } else { &mut self.values };
        held.insert(assignment.target, fill);
        Ok(())
    }

    /// The tensors whose gradients the code reads or assigns.
    fn gradients_seen(&self) -> HashSet<NodeId> {
        let read = self.graph.nodes.iter().filter_map(|node| match node.op {
            Op::Grad(of) => Some(of),
            _ => None,
        });
        let assigned = self.graph.steps.iter().filter_map(|step| match step {
            Step::Assign(assignment) if assignment.grad => Some(assignment.target),
            _ => None,
        });
        read.chain(assigned).collect()
    }

    /// What a tensor or its gradient holds now; zero where it was never assigned or computed.
    pub(crate) fn now(&mut self, id: NodeId, grad: bool) -> Expr {
        let held = match (grad, &self.graph.node(id).op) {
            (false, Op::Apply(_) | Op::Foreign { .. }) => self.value(id).ok(),
            (false, _) => self.values.get(&id).cloned(),
            (true, _) => self.grads.get(&id).cloned(),
        };
        held.unwrap_or_else(|| self.number(0.0))
    }
}
