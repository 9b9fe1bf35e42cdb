//! Byte vectors: from string views to pointer and length, and back.
//!
//! The bytes of a short view lie inside the view, so reading them through a pointer needs a copy on the stack, which
//! lasts until the same place in the code is reached again. [`Values::bytes_slice`] is for reading at once;
//! [`Values::bytes_durable`] for keeping.

use inkwell::IntPredicate;
use inkwell::attributes::AttributeLoc;
use inkwell::module::Linkage;
use inkwell::values::{BasicValueEnum, FunctionValue, IntValue, PointerValue};
use weld_core::diag::Span;
use weld_runtime::{Status, StringView};

use super::val::ArrowView;
use super::{BytesVal, Res, Unit, Values};

impl<'c> Values<'c, '_> {
    /// Constant bytes. Short ones are their view, so that comparing them compares words.
    pub(crate) fn constant_bytes_value(&self, bytes: &[u8]) -> BytesVal<'c> {
        if bytes.len() > StringView::INLINE_MAX {
            let ptr = self.unit.constant_bytes(bytes);
            return BytesVal::Slice { ptr, len: self.i64(bytes.len() as i64) };
        }
        let view = StringView::new(bytes).unwrap_or_default();
        let low = u64::from(view.len) | (0..4).fold(0, |word, i| word | u64::from(view.bytes[i]) << (32 + 8 * i));
        let high = (0..8).fold(0, |word, i| word | u64::from(view.bytes[4 + i]) << (8 * i));
        BytesVal::View { low: self.i64(low as i64), high: self.i64(high as i64) }
    }

    pub(crate) fn bytes_len(&self, bytes: &BytesVal<'c>) -> Res<IntValue<'c>> {
        match bytes {
            BytesVal::Slice { len, .. } => Ok(*len),
            BytesVal::View { low, .. } | BytesVal::Arrow(ArrowView { low, .. }) | BytesVal::Entry { low, .. } => {
                let len = self.b.build_int_truncate(*low, self.unit.ll.i32_type(), "")?;
                self.to_i64(len)
            }
            BytesVal::Short { len, .. } => Ok(self.i64(i64::from(*len))),
        }
    }

    /// Pointer and length, to be read before this place in the code is reached again.
    pub(crate) fn bytes_slice(&self, bytes: &BytesVal<'c>) -> Res<(PointerValue<'c>, IntValue<'c>)> {
        match bytes {
            BytesVal::Slice { ptr, len } => Ok((*ptr, *len)),
            BytesVal::View { low, high } | BytesVal::Entry { low, high, .. } | BytesVal::Short { low, high, .. } => {
                let slot = self.alloca(16, "view")?;
                self.store(slot, *low)?;
                self.store(self.offset(slot, 8)?, *high)?;
                let inside = self.offset(slot, 4)?;
                if let BytesVal::Short { len, .. } = bytes {
                    return Ok((inside, self.i64(i64::from(*len))));
                }
                let outside = self.b.build_int_to_ptr(*high, self.unit.ptr_type(), "")?;
                let len = self.bytes_len(bytes)?;
                let short = self.cmp(IntPredicate::ULE, len, self.i64(StringView::INLINE_MAX as i64))?;
                let ptr = self.choose(short, inside, outside)?.into_pointer_value();
                Ok((ptr, len))
            }
            BytesVal::Arrow(view) => self.bytes_slice(&self.with_address(view)?),
        }
    }

    /// Pointer and length, valid as long as the run: short bytes are copied to its memory.
    pub(crate) fn bytes_durable(&self, bytes: &BytesVal<'c>) -> Res<(PointerValue<'c>, IntValue<'c>)> {
        match bytes {
            BytesVal::Slice { ptr, len } => Ok((*ptr, *len)),
            _ => {
                let (ptr, len) = self.bytes_slice(bytes)?;
                let copy = self.allocate(self.region, len, Span::NONE)?;
                self.b.build_memcpy(copy, 1, ptr, 1, len)?;
                Ok((copy, len))
            }
        }
    }

    /// The two words of the view. Traps when there are more bytes than a view can have.
    pub(crate) fn bytes_view(&self, bytes: &BytesVal<'c>) -> Res<(IntValue<'c>, IntValue<'c>)> {
        match bytes {
            BytesVal::View { low, high } | BytesVal::Entry { low, high, .. } | BytesVal::Short { low, high, .. } => {
                Ok((*low, *high))
            }
            BytesVal::Arrow(view) => self.bytes_view(&self.with_address(view)?),
            BytesVal::Slice { ptr, len } => {
                let too_long = self.cmp(IntPredicate::UGT, *len, self.i64(u32::MAX as i64))?;
                self.trap_if(too_long, Status::TooLarge, Span::NONE, &[])?;
                self.make_view(*ptr, *len)
            }
        }
    }

    /// The view of bytes of which there are at most `u32::MAX`.
    pub(crate) fn make_view(&self, ptr: PointerValue<'c>, len: IntValue<'c>) -> Res<(IntValue<'c>, IntValue<'c>)> {
        let function = make_view_function(self.unit)?;
        let pair = self.b.build_call(function, &[ptr.into(), len.into()], "")?;
        let pair = pair.try_as_basic_value().unwrap_basic().into_struct_value();
        let low = self.b.build_extract_value(pair, 0, "")?.into_int_value();
        let high = self.b.build_extract_value(pair, 1, "")?.into_int_value();
        Ok((low, high))
    }

    /// Whether a string of that length has its bytes elsewhere.
    pub(crate) fn is_long(&self, len: IntValue<'c>) -> Res<IntValue<'c>> {
        self.cmp(IntPredicate::UGT, len, self.i64(StringView::INLINE_MAX as i64))
    }
}

/// `{i64, i64} weld.make_view(ptr, len)`, one a module. Never reads outside of the bytes: short ones are put together
/// from two overlapping loads.
// More than 80 lines: one function of LLVM IR, block after block, whose values go from one to the next.
fn make_view_function<'c>(unit: &Unit<'c>) -> Res<FunctionValue<'c>> {
    const NAME: &str = "weld.make_view";
    if let Some(function) = unit.module.get_function(NAME) {
        return Ok(function);
    }
    let i64 = unit.i64_type();
    let i32 = unit.ll.i32_type();
    let i8 = unit.ll.i8_type();
    let pair = unit.ll.struct_type(&[i64.into(), i64.into()], false);
    let signature = pair.fn_type(&[unit.ptr_type().into(), i64.into()], false);
    let function = unit.module.add_function(NAME, signature, Some(Linkage::Internal));
    unit.attribute(function, AttributeLoc::Function, "nounwind", 0);
    let params = function.get_params();
    let (ptr, len) = (params[0].into_pointer_value(), params[1].into_int_value());

    let b = unit.ll.create_builder();
    let block = |name| unit.ll.append_basic_block(function, name);
    let (entry, short, long) = (block("entry"), block("short"), block("long"));
    let (upto8, middle, tiny, some, done) =
        (block("upto8"), block("middle"), block("tiny"), block("some"), block("done"));
    let n = |value: u64| i64.const_int(value, false);
    let less = |a: IntValue<'c>, value: u64| b.build_int_compare(IntPredicate::ULT, a, n(value), "");
    // SAFETY: the offsets lie within the `len` bytes at `ptr`, as each use argues.
    let at = |offset: IntValue<'c>| unsafe { b.build_in_bounds_gep(i8, ptr, &[offset], "") };
    let load = |ty: inkwell::types::IntType<'c>, ptr: PointerValue<'c>| -> Res<IntValue<'c>> {
        use inkwell::values::BasicValue;
        let value: BasicValueEnum<'c> = b.build_load(ty, ptr, "")?;
        if let Some(load) = value.as_instruction_value() {
            load.set_alignment(1).map_err(|e| super::internal(&e.to_string()))?;
        }
        Ok(b.build_int_z_extend(value.into_int_value(), i64, "")?)
    };

    b.position_at_end(entry);
    let is_short = b.build_int_compare(IntPredicate::ULE, len, n(12), "")?;
    b.build_conditional_branch(is_short, short, long)?;

    b.position_at_end(long);
    let prefix = b.build_left_shift(load(i32, ptr)?, n(32), "")?;
    let long_low = b.build_or(prefix, len, "")?;
    let long_high = b.build_ptr_to_int(ptr, i64, "")?;
    b.build_unconditional_branch(done)?;

    // The bytes as a little-endian number of 96 bits: `first` has the low 64, `rest` the high 32.
    b.position_at_end(short);
    b.build_conditional_branch(less(len, 8)?, upto8, middle)?;

    // 8 to 12 bytes: the first eight, and the last eight shifted down to what lies above.
    b.position_at_end(middle);
    let middle_first = load(i64, ptr)?;
    let last = load(i64, at(b.build_int_sub(len, n(8), "")?)?)?;
    let beyond = b.build_int_sub(len, n(8), "")?;
    // Shifting by 64 is undefined, so eight bytes alone shift in two steps.
    let half = b.build_int_mul(b.build_int_sub(n(8), beyond, "")?, n(4), "")?;
    let middle_rest = b.build_right_shift(b.build_right_shift(last, half, false, "")?, half, false, "")?;
    b.build_unconditional_branch(done)?;

    b.position_at_end(upto8);
    b.build_conditional_branch(less(len, 4)?, tiny, some)?;

    // 4 to 7 bytes: the first four, and the last four shifted up to their place.
    b.position_at_end(some);
    let head = load(i32, ptr)?;
    let tail_at = b.build_int_sub(len, n(4), "")?;
    let tail = b.build_left_shift(load(i32, at(tail_at)?)?, b.build_int_mul(tail_at, n(8), "")?, "")?;
    let some_first = b.build_or(head, tail, "")?;
    b.build_unconditional_branch(done)?;

    // 0 to 3 bytes: first, middle and last; an empty one reads nothing.
    b.position_at_end(tiny);
    let (one, empty_done) = (block("one"), done);
    let is_empty = b.build_int_compare(IntPredicate::EQ, len, n(0), "")?;
    b.build_conditional_branch(is_empty, empty_done, one)?;
    b.position_at_end(one);
    let bits = |offset: IntValue<'c>| -> Res<IntValue<'c>> {
        Ok(b.build_left_shift(load(i8, at(offset)?)?, b.build_int_mul(offset, n(8), "")?, "")?)
    };
    let mid = bits(b.build_right_shift(len, n(1), false, "")?)?;
    let end = bits(b.build_int_sub(len, n(1), "")?)?;
    let one_first = b.build_or(b.build_or(bits(n(0))?, mid, "")?, end, "")?;
    b.build_unconditional_branch(done)?;

    b.position_at_end(done);
    let first = b.build_phi(i64, "first")?;
    let rest = b.build_phi(i64, "rest")?;
    let is_long = b.build_phi(unit.ll.bool_type(), "long")?;
    let zero = n(0);
    let (yes, no) = (unit.ll.bool_type().const_int(1, false), unit.ll.bool_type().const_zero());
    first.add_incoming(&[
        (&long_low, long),
        (&middle_first, middle),
        (&some_first, some),
        (&zero, tiny),
        (&one_first, one),
    ]);
    rest.add_incoming(&[(&long_high, long), (&middle_rest, middle), (&zero, some), (&zero, tiny), (&zero, one)]);
    is_long.add_incoming(&[(&yes, long), (&no, middle), (&no, some), (&no, tiny), (&no, one)]);
    let (first, rest) = (first.as_basic_value().into_int_value(), rest.as_basic_value().into_int_value());
    let is_long = is_long.as_basic_value().into_int_value();
    let short_low = b.build_or(b.build_left_shift(first, n(32), "")?, len, "")?;
    let short_high =
        b.build_or(b.build_right_shift(first, n(32), false, "")?, b.build_left_shift(rest, n(32), "")?, "")?;
    let low = b.build_select(is_long, first, short_low, "")?;
    let high = b.build_select(is_long, rest, short_high, "")?;
    b.build_aggregate_return(&[low, high])?;
    Ok(function)
}
