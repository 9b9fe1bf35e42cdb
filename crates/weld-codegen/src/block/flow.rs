//! Control flow that any layer fills: loops of generated code, and conditions.
//!
//! The bodies get the layer that they were asked of, so a loop that is begun by expressions can hold expressions, and
//! one that is begun by values cannot.

use inkwell::IntPredicate;
use inkwell::values::{InstructionValue, IntValue};
use weld_core::diag::Span;

use super::{Code, Res, internal};

/// What fills a function, of any layer.
pub(crate) trait Flow<'c, 'u>: Sized
where
    'c: 'u,
{
    fn code(&self) -> &Code<'c, 'u>;

    fn into_code(self) -> Code<'c, 'u>;

    /// Ends the function: success.
    fn finish(self) -> Res<()> {
        self.into_code().finish()
    }

    /// Ends the function, which returns that number.
    fn finish_with(self, result: IntValue<'c>) -> Res<()> {
        self.into_code().finish_with(result)
    }

    /// `0..count` in strips: `body` gets the start and the size of each. Cancellation is polled in between.
    fn strips(
        &mut self,
        count: IntValue<'c>,
        strip: i64,
        span: Span,
        body: impl FnOnce(&mut Self, IntValue<'c>, IntValue<'c>) -> Res<()>,
    ) -> Res<()> {
        let (head, again, done) =
            (self.code().new_block("strip"), self.code().new_block("again"), self.code().new_block("done"));
        let from = self.code().current_block()?;
        let some = self.code().cmp(IntPredicate::NE, count, self.code().i64(0))?;
        self.code().branch_if(some, head, done)?;
        self.code().at(head);
        let phi = self.code().b.build_phi(self.code().unit.i64_type(), "start")?;
        let start = phi.as_basic_value().into_int_value();
        let left = self.code().sub(count, start)?;
        let size = self.code().umin(left, self.code().i64(strip))?;
        body(self, start, size)?;
        let end = self.code().add_nw(start, size)?;
        let more = self.code().cmp(IntPredicate::ULT, end, count)?;
        self.code().branch_if(more, again, done)?;
        self.code().at(again);
        self.code().poll_cancel(span)?;
        phi.add_incoming(&[(&self.code().i64(0), from), (&end, self.code().current_block()?)]);
        self.code().branch(head)?;
        self.code().at(done);
        Ok(())
    }

    /// A plain loop `for i in 0..count` of generated self.code().
    fn count_loop(&mut self, count: IntValue<'c>, body: impl FnOnce(&mut Self, IntValue<'c>) -> Res<()>) -> Res<()> {
        self.emit_count_loop(count, body)?;
        Ok(())
    }

    /// [`Flow::count_loop`] over what is scattered in memory: vectorising it would take LLVM long and gain nothing.
    fn gather_loop(&mut self, count: IntValue<'c>, body: impl FnOnce(&mut Self, IntValue<'c>) -> Res<()>) -> Res<()> {
        let back = self.emit_count_loop(count, body)?;
        self.mark_scalar(back)
    }

    /// Keeps LLVM from vectorising the loop with this branch back.
    fn mark_scalar(&mut self, back: InstructionValue<'c>) -> Res<()> {
        let kind = self.code().unit.ll.get_kind_id("llvm.loop");
        back.set_metadata(self.code().unit.scalar_loop(), kind).map_err(|error| internal(&error.to_string()))
    }

    /// The loop; its branch back.
    fn emit_count_loop(
        &mut self,
        count: IntValue<'c>,
        body: impl FnOnce(&mut Self, IntValue<'c>) -> Res<()>,
    ) -> Res<InstructionValue<'c>> {
        let (looping, done) = (self.code().new_block("count"), self.code().new_block("counted"));
        let from = self.code().current_block()?;
        let some = self.code().cmp(IntPredicate::NE, count, self.code().i64(0))?;
        self.code().branch_if(some, looping, done)?;
        self.code().at(looping);
        let i = self.code().b.build_phi(self.code().unit.i64_type(), "i")?;
        let index = i.as_basic_value().into_int_value();
        body(self, index)?;
        let next = self.code().add_nw(index, self.code().i64(1))?;
        i.add_incoming(&[(&self.code().i64(0), from), (&next, self.code().current_block()?)]);
        let more = self.code().cmp(IntPredicate::ULT, next, count)?;
        let back = self.code().branch_if(more, looping, done)?;
        self.code().at(done);
        Ok(back)
    }
    /// `cond && then()`, which is evaluated only if `cond`.
    fn and_then(&mut self, cond: IntValue<'c>, then: impl FnOnce(&mut Self) -> Res<IntValue<'c>>) -> Res<IntValue<'c>> {
        let (yes, done) = (self.code().new_block("and"), self.code().new_block(""));
        let from = self.code().current_block()?;
        self.code().branch_if(cond, yes, done)?;
        self.code().at(yes);
        let value = then(self)?;
        let end = self.code().current_block()?;
        self.code().branch(done)?;
        self.code().at(done);
        let phi = self.code().b.build_phi(self.code().unit.ll.bool_type(), "")?;
        phi.add_incoming(&[(&self.code().bool(false), from), (&value, end)]);
        Ok(phi.as_basic_value().into_int_value())
    }
}
