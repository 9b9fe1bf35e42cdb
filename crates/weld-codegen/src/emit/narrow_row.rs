//! Checked 128-bit arithmetic with products, in 64 bits where the values at hand allow it, as nearly all decimals do:
//!
//! ```text
//! checked_mul(a, checked_sub(100, b))    # over i128
//! =>
//! if a and b fit 64 bits: x = 100 - b in 64 bits, else slow if it overflows;  y = a * x likewise;  y, widened
//! slow: the same in 128 bits, which traps where that overflows
//! ```
//!
//! So a whole expression takes one test of its leaves, and a product one multiplication and one jump that is not taken.

use inkwell::IntPredicate;
use inkwell::values::IntValue;
use weld_core::diag::Span;
use weld_core::ir::{Expr, ExprKind, deep};
use weld_core::op::Intrinsic;
use weld_runtime::Status;

use super::{Emitter, Res};
use crate::analysis::loop_plan::FastPath;
use crate::analysis::narrow::{is_checked_op, is_short, is_tried_narrow};

/// An operator tree over numbered leaves.
enum Tree {
    Leaf(usize),
    Op { op: Intrinsic, span: Span, args: Box<[Tree; 2]> },
}

/// A leaf that was evaluated.
struct Leaf<'c> {
    wide: IntValue<'c>,
    /// It is known to fit 64 bits.
    fits: bool,
}

impl<'c> Emitter<'c, '_> {
    /// Emits an `i128` expression of checked operators with a product among them; `None` if it is something else.
    pub(super) fn emit_wide(&mut self, expr: &Expr) -> Res<Option<IntValue<'c>>> {
        if !is_tried_narrow(expr) || self.facts.disabled.contains(&FastPath::NarrowRows) {
            return Ok(None);
        }
        let mut leaves = Vec::new();
        let tree = self.wide_tree(expr, &mut leaves)?;
        let (slow, fast, done) = (self.new_block("wide"), self.new_block("short"), self.new_block("product"));
        let i64 = self.unit.i64_type();
        let mut short = Vec::with_capacity(leaves.len());
        let mut misfit = None;
        for leaf in &leaves {
            let low = self.b.build_int_truncate(leaf.wide, i64, "")?;
            short.push(low);
            if !leaf.fits {
                let high = self.b.build_right_shift(leaf.wide, leaf.wide.get_type().const_int(64, false), false, "")?;
                let high = self.b.build_int_truncate(high, i64, "")?;
                // The upper half of what fits is all ones if the lower one is negative, else zero.
                let sign = self.b.build_right_shift(low, self.i64(63), false, "")?;
                let bits = self.add(high, sign)?;
                misfit = Some(match misfit {
                    Some(all) => self.or(all, bits)?,
                    None => bits,
                });
            }
        }
        match misfit {
            Some(misfit) => self.branch_if_rare(self.cmp(IntPredicate::NE, misfit, self.i64(0))?, slow, fast)?,
            None => self.branch(fast)?,
        }

        self.at(fast);
        let value = self.wide_ops(&tree, &short, &mut |e, _, overflow| {
            let next = e.new_block("fits");
            e.branch_if_rare(overflow, slow, next)?;
            e.at(next);
            Ok(())
        })?;
        let value = self.b.build_int_s_extend(value, self.unit.ll.i128_type(), "")?;
        let fast_end = self.current_block()?;
        self.branch(done)?;

        self.at(slow);
        let wide: Vec<IntValue<'c>> = leaves.iter().map(|leaf| leaf.wide).collect();
        let wide =
            self.wide_ops(&tree, &wide, &mut |e, span, overflow| e.trap_if(overflow, Status::Overflow, span, &[]))?;
        let slow_end = self.current_block()?;
        self.branch(done)?;

        self.at(done);
        let phi = self.b.build_phi(self.unit.ll.i128_type(), "")?;
        phi.add_incoming(&[(&value, fast_end), (&wide, slow_end)]);
        Ok(Some(phi.as_basic_value().into_int_value()))
    }

    fn wide_tree(&mut self, expr: &Expr, leaves: &mut Vec<Leaf<'c>>) -> Res<Tree> {
        if let ExprKind::Intrinsic(op, args) = &expr.kind
            && is_checked_op(*op)
            && let [a, b] = &args[..]
        {
            let args = deep(|| Res::Ok([self.wide_tree(a, leaves)?, self.wide_tree(b, leaves)?]))?;
            return Ok(Tree::Op { op: *op, span: expr.span, args: Box::new(args) });
        }
        leaves.push(Leaf { wide: self.emit_int(expr)?, fits: is_short(expr) });
        Ok(Tree::Leaf(leaves.len() - 1))
    }

    /// The tree over these leaves, in their width; `check` gets the overflow of each operator.
    fn wide_ops(
        &mut self,
        tree: &Tree,
        leaves: &[IntValue<'c>],
        check: &mut dyn FnMut(&mut Self, Span, IntValue<'c>) -> Res<()>,
    ) -> Res<IntValue<'c>> {
        let (op, span, args) = match tree {
            Tree::Leaf(leaf) => return Ok(leaves[*leaf]),
            Tree::Op { op, span, args } => (op, *span, args),
        };
        let [a, b] = &**args;
        let (a, b) = deep(|| Res::Ok((self.wide_ops(a, leaves, check)?, self.wide_ops(b, leaves, check)?)))?;
        let name = match op {
            Intrinsic::CheckedAdd => "llvm.sadd.with.overflow",
            Intrinsic::CheckedSub => "llvm.ssub.with.overflow",
            _ => "llvm.smul.with.overflow",
        };
        let pair = self.intrinsic(name, &[a.get_type().into()], &[a.into(), b.into()])?.into_struct_value();
        let value = self.b.build_extract_value(pair, 0, "")?.into_int_value();
        let overflow = self.b.build_extract_value(pair, 1, "")?.into_int_value();
        check(self, span, overflow)?;
        Ok(value)
    }
}
