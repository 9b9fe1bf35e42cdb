//! String search: `starts_with`, `ends_with`, `contains`, `like`.
//!
//! Constant patterns are taken apart when the program is compiled: `x LIKE 'PROMO%'` becomes a comparison of five
//! bytes. Searches are prepared once a call of the compiled function and go to the runtime.

use inkwell::IntPredicate;
use inkwell::values::{IntValue, PointerValue};
use weld_core::diag::Span;
use weld_core::op::Intrinsic;
use weld_runtime::strings::Pattern;

use super::{BytesVal, Res, Values};
use crate::block::Flow;

/// Up to so many constant bytes are compared inline.
const INLINE_MAX: usize = 32;

impl<'c> Values<'c, '_> {
    /// A search of `pattern` in `text`, of which the bytes may be known.
    pub(crate) fn string_search(
        &mut self,
        op: Intrinsic,
        text: &BytesVal<'c>,
        pattern: &BytesVal<'c>,
        known: Option<&[u8]>,
        _span: Span,
    ) -> Res<IntValue<'c>> {
        match (known, op) {
            (Some(bytes), Intrinsic::StartsWith) => self.starts_with(text, bytes),
            (Some(bytes), Intrinsic::EndsWith) => self.ends_with(text, bytes),
            (Some(bytes), Intrinsic::Ilike) => self.search(text, "weld_pattern_ilike", bytes),
            (Some(bytes), Intrinsic::Contains) => self.search(text, "weld_pattern_contains", bytes),
            (Some(bytes), _) => match Pattern::like(bytes) {
                Pattern::Equals(bytes) => self.equals_constant(text, &bytes),
                Pattern::StartsWith(bytes) => self.starts_with(text, &bytes),
                Pattern::EndsWith(bytes) => self.ends_with(text, &bytes),
                _ => self.search(text, "weld_pattern_like", bytes),
            },
            (None, op) => self.dynamic_search(op, text, pattern),
        }
    }

    fn dynamic_search(&mut self, op: Intrinsic, text: &BytesVal<'c>, pattern: &BytesVal<'c>) -> Res<IntValue<'c>> {
        let ((text, len), (pattern, pattern_len)) = (self.bytes_slice(text)?, self.bytes_slice(pattern)?);
        if !matches!(op, Intrinsic::StartsWith | Intrinsic::EndsWith) {
            let name = match op {
                Intrinsic::Contains => "weld_contains",
                Intrinsic::Ilike => "weld_ilike",
                _ => "weld_like",
            };
            let args = [text.into(), len.into(), pattern.into(), pattern_len.into()];
            return Ok(self.call_value(name, &args)?.into_int_value());
        }
        let fits = self.cmp(IntPredicate::UGE, len, pattern_len)?;
        self.and_then(fits, |e| {
            let start = if op == Intrinsic::EndsWith { e.sub(len, pattern_len)? } else { e.i64(0) };
            e.equal_memory(e.offset_by(text, start)?, pattern, pattern_len)
        })
    }

    fn starts_with(&mut self, text: &BytesVal<'c>, prefix: &[u8]) -> Res<IntValue<'c>> {
        let len = self.bytes_len(text)?;
        let fits = self.cmp(IntPredicate::UGE, len, self.i64(prefix.len() as i64))?;
        let (BytesVal::View { low, .. } | BytesVal::Entry { low, .. }) = text else {
            return self.and_then(fits, |e| {
                let (ptr, _) = e.bytes_slice(text)?;
                e.equal_to_constant(ptr, prefix)
            });
        };
        // A view has the first four bytes.
        let first = &prefix[..prefix.len().min(4)];
        let (mut wanted, mut mask) = (0u64, 0u64);
        for (i, byte) in first.iter().enumerate() {
            wanted |= u64::from(*byte) << (32 + 8 * i);
            mask |= 0xff << (32 + 8 * i);
        }
        let seen = self.and(*low, self.i64(mask as i64))?;
        let same = self.cmp(IntPredicate::EQ, seen, self.i64(wanted as i64))?;
        let begins = self.and(fits, same)?;
        if prefix.len() <= 4 {
            return Ok(begins);
        }
        self.and_then(begins, |e| {
            let (ptr, _) = e.bytes_slice(text)?;
            e.equal_to_constant(e.offset(ptr, 4)?, &prefix[4..])
        })
    }

    fn ends_with(&mut self, text: &BytesVal<'c>, suffix: &[u8]) -> Res<IntValue<'c>> {
        let n = self.i64(suffix.len() as i64);
        let len = self.bytes_len(text)?;
        let fits = self.cmp(IntPredicate::UGE, len, n)?;
        self.and_then(fits, |e| {
            let (ptr, len) = e.bytes_slice(text)?;
            e.equal_to_constant(e.offset_by(ptr, e.sub(len, n)?)?, suffix)
        })
    }

    /// Whether a byte vector is a constant one.
    pub(crate) fn equals_constant(&mut self, text: &BytesVal<'c>, bytes: &[u8]) -> Res<IntValue<'c>> {
        let len = self.bytes_len(text)?;
        let same_len = self.cmp(IntPredicate::EQ, len, self.i64(bytes.len() as i64))?;
        self.and_then(same_len, |e| {
            let (ptr, _) = e.bytes_slice(text)?;
            e.equal_to_constant(ptr, bytes)
        })
    }

    /// Whether the memory at `ptr`, at least as long, begins with these bytes.
    fn equal_to_constant(&self, ptr: PointerValue<'c>, bytes: &[u8]) -> Res<IntValue<'c>> {
        if bytes.len() > INLINE_MAX {
            let constant = self.unit.constant_bytes(bytes);
            return self.equal_memory(ptr, constant, self.i64(bytes.len() as i64));
        }
        let mut all = self.bool(true);
        for (at, size) in pieces(bytes.len()) {
            let part = self.load_piece(ptr, at, size)?;
            let wanted = bytes[at..at + size].iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
            let same = self.cmp(IntPredicate::EQ, part, part.get_type().const_int(wanted, false))?;
            all = self.and(all, same)?;
        }
        Ok(all)
    }

    /// Whether so many bytes at `ptr` are those of the short view with these words.
    pub(crate) fn equals_short(
        &self,
        ptr: PointerValue<'c>,
        len: u32,
        low: IntValue<'c>,
        high: IntValue<'c>,
    ) -> Res<IntValue<'c>> {
        let mut all = self.bool(true);
        for (at, size) in pieces(len as usize) {
            let part = self.load_piece(ptr, at, size)?;
            // The first four bytes are the upper half of the first word.
            let wanted = match at {
                0 if size == 8 => {
                    let first = self.b.build_right_shift(low, self.i64(32), false, "")?;
                    self.or(first, self.b.build_left_shift(high, self.i64(32), "")?)?
                }
                0..4 => self.b.build_right_shift(low, self.i64(32 + 8 * at as i64), false, "")?,
                _ => self.b.build_right_shift(high, self.i64(8 * (at as i64 - 4)), false, "")?,
            };
            let wanted = self.b.build_int_truncate_or_bit_cast(wanted, part.get_type(), "")?;
            all = self.and(all, self.cmp(IntPredicate::EQ, part, wanted)?)?;
        }
        Ok(all)
    }

    /// The words of the view of so many bytes at `ptr`, which fit it.
    pub(crate) fn short_view(&self, ptr: PointerValue<'c>, len: u32) -> Res<BytesVal<'c>> {
        let (mut low, mut high) = (self.i64(i64::from(len)), self.i64(0));
        for (at, size) in pieces(len as usize) {
            let part = self.to_i64(self.load_piece(ptr, at, size)?)?;
            match at {
                0 if size == 8 => {
                    low = self.or(low, self.b.build_left_shift(part, self.i64(32), "")?)?;
                    high = self.b.build_right_shift(part, self.i64(32), false, "")?;
                }
                0..4 => low = self.or(low, self.b.build_left_shift(part, self.i64(32 + 8 * at as i64), "")?)?,
                _ => high = self.or(high, self.b.build_left_shift(part, self.i64(8 * (at as i64 - 4)), "")?)?,
            }
        }
        Ok(BytesVal::Short { len, low, high })
    }

    fn load_piece(&self, ptr: PointerValue<'c>, at: usize, size: usize) -> Res<IntValue<'c>> {
        let ty = match size {
            8 => self.unit.ll.i64_type(),
            4 => self.unit.ll.i32_type(),
            2 => self.unit.ll.i16_type(),
            _ => self.unit.ll.i8_type(),
        };
        let part = self.load(ty, self.offset(ptr, at as u64)?)?;
        if let Some(load) = inkwell::values::BasicValue::as_instruction_value(&part) {
            load.set_alignment(1).map_err(|e| super::internal(&e.to_string()))?;
        }
        Ok(part.into_int_value())
    }

    /// A search prepared by `prepare` when the function begins.
    fn search(&mut self, text: &BytesVal<'c>, prepare: &str, pattern: &[u8]) -> Res<IntValue<'c>> {
        let constant = self.unit.constant_bytes(pattern);
        let function = self.unit.runtime_function(prepare)?;
        let args = [self.run.into(), constant.into(), self.i64(pattern.len() as i64).into()];
        let prepared =
            self.in_entry(|b| Ok(b.build_call(function, &args, "pattern")?.try_as_basic_value().unwrap_basic()))?;
        let (ptr, len) = self.bytes_slice(text)?;
        Ok(self.call_value("weld_pattern_matches", &[prepared.into(), ptr.into(), len.into()])?.into_int_value())
    }
}

/// So many bytes in pieces that one load reads each: where they begin, and their sizes.
fn pieces(len: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let size = [8, 4, 2, 1].into_iter().find(|size| at + size <= len)?;
        at += size;
        Some((at - size, size))
    })
}
