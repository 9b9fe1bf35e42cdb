//! Traps: places where a run stops with an error.
//!
//! A trap branches to a cold block that notes up to two words of detail in the run and returns the number of its site;
//! the host finds kind, message and span by it. The hot path pays for a test and a branch that is never taken.

use std::sync::Arc;

use inkwell::IntPredicate;
use inkwell::values::{BasicValueEnum, IntValue};
use weld_core::diag::Span;
use weld_core::ty::ScalarKind;
use weld_runtime::{Run, Status};

use super::{Code, Res};

/// A place that can trap.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Site {
    /// `None` if a runtime function has noted in the run what went wrong.
    pub(crate) status: Option<Status>,
    pub(crate) span: Span,
    pub(crate) message: Option<Arc<str>>,
    /// The kinds of the details that the message shows.
    pub(crate) shown: Vec<ScalarKind>,
}

impl Site {
    fn new(status: Option<Status>, span: Span) -> Site {
        Site { status, span, message: None, shown: Vec::new() }
    }
}

impl<'c> Code<'c, '_> {
    /// Traps if `failed`. The details are 64-bit words.
    pub(crate) fn trap_if(
        &self,
        failed: IntValue<'c>,
        status: Status,
        span: Span,
        details: &[IntValue<'c>],
    ) -> Res<()> {
        self.trap_at(failed, Site::new(Some(status), span), details)
    }

    /// Traps if `failed`: a runtime function has noted why.
    pub(crate) fn trap_noted_if(&self, failed: IntValue<'c>, span: Span) -> Res<()> {
        self.trap_at(failed, Site::new(None, span), &[])
    }

    /// The status of a failure here that a runtime function has noted.
    pub(crate) fn noted_site(&self, span: Span) -> i64 {
        self.status_of(Site::new(None, span))
    }

    fn status_of(&self, site: Site) -> i64 {
        let mut sites = self.unit.sites.borrow_mut();
        sites.push(site);
        sites.len() as i64
    }

    /// Returns the status of a call unless it is success.
    pub(crate) fn pass_on(&self, status: IntValue<'c>) -> Res<()> {
        let failed = self.cmp(IntPredicate::NE, status, status.get_type().const_zero())?;
        let (cold, go_on) = (self.new_block("failed"), self.new_block(""));
        self.branch_if_rare(failed, cold, go_on)?;
        self.at(cold);
        self.status.add_incoming(&[(&status, cold)]);
        self.branch(self.exit)?;
        self.at(go_on);
        Ok(())
    }

    /// A scalar as words of detail: two for one of 128 bits.
    pub(crate) fn detail_words(&self, kind: ScalarKind, value: BasicValueEnum<'c>) -> Res<Vec<IntValue<'c>>> {
        let word = self.unit.ll.i64_type();
        let bits = match kind {
            ScalarKind::F32 => self.b.build_bit_cast(value, self.unit.ll.i32_type(), "")?.into_int_value(),
            ScalarKind::F64 => return Ok(vec![self.b.build_bit_cast(value, word, "")?.into_int_value()]),
            _ => value.into_int_value(),
        };
        if kind == ScalarKind::I128 {
            let high = self.b.build_right_shift(bits, bits.get_type().const_int(64, false), false, "")?;
            let halves = [bits, high].map(|half| self.b.build_int_truncate(half, word, ""));
            return Ok(halves.into_iter().collect::<Result<_, _>>()?);
        }
        Ok(vec![match kind.is_signed() {
            true => self.b.build_int_s_extend_or_bit_cast(bits, word, "")?,
            false => self.b.build_int_z_extend_or_bit_cast(bits, word, "")?,
        }])
    }

    /// Traps if `failed`, at a site with all that the error says.
    pub(crate) fn trap_at(&self, failed: IntValue<'c>, site: Site, details: &[IntValue<'c>]) -> Res<()> {
        if failed.get_zero_extended_constant() == Some(0) {
            return Ok(());
        }
        let cold = self.new_block("trap");
        let go_on = self.new_block("");
        self.branch_if_rare(failed, cold, go_on)?;
        self.at(cold);
        for (i, &detail) in details.iter().enumerate() {
            self.store(self.offset(self.run, (Run::DETAIL_OFFSET + 8 * i) as u64)?, detail)?;
        }
        let status = self.i32(self.status_of(site) as i32);
        self.status.add_incoming(&[(&status, cold)]);
        self.branch(self.exit)?;
        self.at(go_on);
        Ok(())
    }
}
