//! Comparisons of structs and vectors; keys in canonical form and their equality.
//!
//! Structs compare field by field, vectors lexicographically; the first unequal part decides, and where that is a NaN,
//! nothing but `!=` holds.

use inkwell::IntPredicate;
use inkwell::values::{IntValue, PointerValue};
use weld_core::diag::Span;
use weld_core::op::BinaryOp;
use weld_core::ty::{ScalarKind, Type};
use weld_runtime::StringView;

use super::val::ArrowView;
use super::{BytesVal, Demand, Res, Val, Values, VecVal, internal};
use crate::block::Flow;

/// The order of two values where a NaN decides; else it is -1, 0 or 1.
const UNORDERED: i32 = 2;

impl<'c> Values<'c, '_> {
    /// A comparison of two values of a type that is no scalar.
    pub(crate) fn compare(
        &mut self,
        op: BinaryOp,
        ty: &Type,
        a: &Val<'c>,
        b: &Val<'c>,
        _span: Span,
    ) -> Res<IntValue<'c>> {
        if matches!(op, BinaryOp::Eq | BinaryOp::Ne) {
            let equal = self.equal(ty, a, b)?;
            return if op == BinaryOp::Eq { Ok(equal) } else { Ok(self.b.build_not(equal, "")?) };
        }
        let order = self.order(ty, a, b)?;
        let (predicate, bound) = match op {
            BinaryOp::Lt => (IntPredicate::SLT, 0),
            BinaryOp::Le => (IntPredicate::SLE, 0),
            BinaryOp::Gt => (IntPredicate::EQ, 1),
            // 0 or 1.
            _ => (IntPredicate::ULE, 1),
        };
        self.cmp(predicate, order, self.i32(bound))
    }

    /// `==`.
    fn equal(&mut self, ty: &Type, a: &Val<'c>, b: &Val<'c>) -> Res<IntValue<'c>> {
        match (ty, a, b) {
            (Type::Scalar(kind), a, b) => {
                Ok(self.compare_scalars(BinaryOp::Eq, *kind, a.scalar()?, b.scalar()?)?.into_int_value())
            }
            (Type::Struct(fields), a, b) => {
                let mut all = self.bool(true);
                for (i, field) in fields.iter().enumerate() {
                    let equal = self.equal(field, &a.field(i)?, &b.field(i)?)?;
                    all = self.and(all, equal)?;
                }
                Ok(all)
            }
            (_, Val::Bytes(a), Val::Bytes(b)) => self.bytes_equal(a, b),
            (Type::Vec(element), Val::Vec(x), Val::Vec(y)) => {
                self.all_elements(x, y, element, |e, a, b| e.equal(element, &a, &b))
            }
            _ => Err(internal("a comparison of values that have none")),
        }
    }

    /// Whether two canonical keys are one. Strings that are the same word by word, as short ones are, take one branch.
    pub(crate) fn keys_equal(&mut self, ty: &Type, a: &Val<'c>, b: &Val<'c>) -> Res<IntValue<'c>> {
        let mut differing = Vec::new();
        if self.differing_words(ty, a, b, &mut differing)? != Some(true) {
            return self.key_parts_equal(ty, a, b);
        }
        let differs = differing.into_iter().try_fold(self.i64(0), |all, bits| self.or(all, bits))?;
        let same = self.cmp(IntPredicate::EQ, differs, self.i64(0))?;
        let (slow, done) = (self.new_block("parts"), self.new_block("same"));
        let from = self.current_block()?;
        self.branch_if(same, done, slow)?;
        self.at(slow);
        let equal = self.key_parts_equal(ty, a, b)?;
        let end = self.current_block()?;
        self.branch(done)?;
        self.at(done);
        let phi = self.b.build_phi(self.unit.ll.bool_type(), "")?;
        phi.add_incoming(&[(&self.bool(true), from), (&equal, end)]);
        Ok(phi.as_basic_value().into_int_value())
    }

    /// Appends words that are all zero only if the keys are equal. Whether there are strings in the keys; `None` if
    /// there are parts that have no such words.
    fn differing_words(&self, ty: &Type, a: &Val<'c>, b: &Val<'c>, out: &mut Vec<IntValue<'c>>) -> Res<Option<bool>> {
        Ok(match (ty, a, b) {
            (Type::Scalar(kind), a, b) if kind.bits() <= 64 => {
                let (a, b) = (self.scalar_bits(*kind, a.scalar()?)?, self.scalar_bits(*kind, b.scalar()?)?);
                out.push(self.to_i64(self.b.build_xor(a, b, "")?)?);
                Some(false)
            }
            (Type::Struct(fields), a, b) => {
                let mut strings = false;
                for (i, field) in fields.iter().enumerate() {
                    match self.differing_words(field, &a.field(i)?, &b.field(i)?, out)? {
                        Some(found) => strings |= found,
                        None => return Ok(None),
                    }
                }
                Some(strings)
            }
            (
                _,
                Val::Bytes(BytesVal::View { low, high } | BytesVal::Entry { low, high, .. }),
                Val::Bytes(BytesVal::View { low: l, high: h }),
            ) => {
                out.push(self.b.build_xor(*low, *l, "")?);
                out.push(self.b.build_xor(*high, *h, "")?);
                Some(true)
            }
            _ => None,
        })
    }

    fn key_parts_equal(&mut self, ty: &Type, a: &Val<'c>, b: &Val<'c>) -> Res<IntValue<'c>> {
        match (ty, a, b) {
            (Type::Scalar(kind), a, b) => {
                let (a, b) = (self.scalar_bits(*kind, a.scalar()?)?, self.scalar_bits(*kind, b.scalar()?)?);
                self.cmp(IntPredicate::EQ, a, b)
            }
            (Type::Struct(fields), a, b) => {
                let mut all = self.bool(true);
                for (i, field) in fields.iter().enumerate() {
                    let equal = self.key_parts_equal(field, &a.field(i)?, &b.field(i)?)?;
                    all = self.and(all, equal)?;
                }
                Ok(all)
            }
            (_, Val::Bytes(a), Val::Bytes(b)) => self.bytes_equal(a, b),
            (Type::Vec(element), Val::Vec(x), Val::Vec(y)) => self.all_elements(x, y, element, |e, a, b| {
                let (a, b) = (e.canonical_key(element, &a)?, e.canonical_key(element, &b)?);
                e.keys_equal(element, &a, &b)
            }),
            _ => Err(internal(&format!("a key of type {ty}"))),
        }
    }

    fn bytes_equal(&mut self, a: &BytesVal<'c>, b: &BytesVal<'c>) -> Res<IntValue<'c>> {
        if let (BytesVal::Arrow(view), other) | (other, BytesVal::Arrow(view)) = (a, b) {
            return self.equals_arrow_view(view, other);
        }
        for (text, short) in [(a, b), (b, a)] {
            match (text, short) {
                (BytesVal::Slice { ptr, len: text_len }, BytesVal::Short { len, low, high }) => {
                    let same_len = self.cmp(IntPredicate::EQ, *text_len, self.i64(i64::from(*len)))?;
                    return self.and_then(same_len, |e| e.equals_short(*ptr, *len, *low, *high));
                }
                (BytesVal::Slice { .. }, _) => {
                    if let Some(bytes) = constant_view(short) {
                        return self.equals_constant(text, &bytes);
                    }
                }
                // What is in a short view is all in its words.
                (_, BytesVal::Short { .. }) => return self.same_words(text, short),
                _ if constant_view(short).is_some() => return self.same_words(text, short),
                _ => {}
            }
        }
        if let (BytesVal::Slice { .. }, _) | (_, BytesVal::Slice { .. }) = (a, b) {
            let ((a, a_len), (b, b_len)) = (self.bytes_slice(a)?, self.bytes_slice(b)?);
            let same_len = self.cmp(IntPredicate::EQ, a_len, b_len)?;
            return self.and_then(same_len, |e| e.equal_memory(a, b, a_len));
        }
        let ((a_low, a_high), (b_low, b_high)) = (self.bytes_view(a)?, self.bytes_view(b)?);
        // Length and first bytes, then the rest of a short string, or the same address.
        let start = self.cmp(IntPredicate::EQ, a_low, b_low)?;
        let rest = self.cmp(IntPredicate::EQ, a_high, b_high)?;
        let same = self.and(start, rest)?;
        let len = self.bytes_len(a)?;
        let long = self.is_long(len)?;
        let undecided = self.and(self.and(start, long)?, self.b.build_not(rest, "")?)?;
        let (slow, done) = (self.new_block("bytes"), self.new_block("compared"));
        let from = self.current_block()?;
        self.branch_if(undecided, slow, done)?;
        self.at(slow);
        let ptr = |word| self.b.build_int_to_ptr(word, self.unit.ptr_type(), "");
        let args = [ptr(a_high)?.into(), ptr(b_high)?.into(), len.into()];
        let equal = self.call_seldom("weld_bytes_equal", &args)?.into_int_value();
        self.branch(done)?;
        self.at(done);
        let phi = self.b.build_phi(self.unit.ll.bool_type(), "")?;
        phi.add_incoming(&[(&same, from), (&equal, slow)]);
        Ok(phi.as_basic_value().into_int_value())
    }

    /// Length and first bytes are compared before the buffer of a long view is looked for.
    fn equals_arrow_view(&mut self, view: &ArrowView<'c>, other: &BytesVal<'c>) -> Res<IntValue<'c>> {
        if matches!(other, BytesVal::Short { .. }) || constant_view(other).is_some() {
            // A long view differs from a short one in its length.
            return self.same_words(&BytesVal::View { low: view.low, high: view.high }, other);
        }
        let start = match other {
            BytesVal::Slice { len, .. } => {
                let view_len = self.bytes_len(&BytesVal::Arrow(*view))?;
                self.cmp(IntPredicate::EQ, view_len, *len)?
            }
            BytesVal::Arrow(ArrowView { low, .. }) => self.cmp(IntPredicate::EQ, view.low, *low)?,
            other => self.cmp(IntPredicate::EQ, view.low, self.bytes_view(other)?.0)?,
        };
        self.and_then(start, |e| {
            let view = e.with_address(view)?;
            e.bytes_equal(&view, other)
        })
    }

    /// Whether two views are the same word by word.
    fn same_words(&self, a: &BytesVal<'c>, b: &BytesVal<'c>) -> Res<IntValue<'c>> {
        let ((a_low, a_high), (b_low, b_high)) = (self.bytes_view(a)?, self.bytes_view(b)?);
        let start = self.cmp(IntPredicate::EQ, a_low, b_low)?;
        self.and(start, self.cmp(IntPredicate::EQ, a_high, b_high)?)
    }

    pub(crate) fn equal_memory(
        &self,
        a: PointerValue<'c>,
        b: PointerValue<'c>,
        len: IntValue<'c>,
    ) -> Res<IntValue<'c>> {
        Ok(self.call_value("weld_bytes_equal", &[a.into(), b.into(), len.into()])?.into_int_value())
    }

    /// Whether two vectors are of one length and `equal` holds for each pair of elements.
    fn all_elements(
        &mut self,
        a: &VecVal<'c>,
        b: &VecVal<'c>,
        element: &Type,
        equal: impl FnOnce(&mut Self, Val<'c>, Val<'c>) -> Res<IntValue<'c>>,
    ) -> Res<IntValue<'c>> {
        let same_len = self.cmp(IntPredicate::EQ, a.len, b.len)?;
        self.and_then(same_len, |e| {
            let differ = e.first_where(a.len, |e, i| {
                let x = e.load_element(a, element, i, &Demand::All)?;
                let y = e.load_element(b, element, i, &Demand::All)?;
                let equal = equal(e, x, y)?;
                Ok((e.i32(0), e.b.build_not(equal, "")?))
            })?;
            Ok(e.b.build_not(differ.1, "")?)
        })
    }

    /// -1, 0, 1, or [`UNORDERED`].
    fn order(&mut self, ty: &Type, a: &Val<'c>, b: &Val<'c>) -> Res<IntValue<'c>> {
        match (ty, a, b) {
            (Type::Scalar(kind), a, b) => self.order_scalars(*kind, a, b),
            (Type::Struct(fields), a, b) => {
                let mut order = self.i32(0);
                for (i, field) in fields.iter().enumerate() {
                    let next = self.order(field, &a.field(i)?, &b.field(i)?)?;
                    let undecided = self.cmp(IntPredicate::EQ, order, self.i32(0))?;
                    order = self.choose_int(undecided, next, order)?;
                }
                Ok(order)
            }
            (_, Val::Bytes(a), Val::Bytes(b)) => self.order_bytes(a, b, ty.element() == Some(&Type::I8)),
            (Type::Vec(element), Val::Vec(x), Val::Vec(y)) => {
                let shorter = self.umin(x.len, y.len)?;
                let (order, decided) = self.first_where(shorter, |e, i| {
                    let a = e.load_element(x, element, i, &Demand::All)?;
                    let b = e.load_element(y, element, i, &Demand::All)?;
                    let order = e.order(element, &a, &b)?;
                    Ok((order, e.cmp(IntPredicate::NE, order, e.i32(0))?))
                })?;
                let by_len = self.three_way(x.len, y.len, IntPredicate::UGT, IntPredicate::ULT)?;
                self.choose_int(decided, order, by_len)
            }
            _ => Err(internal("an order of values that have none")),
        }
    }

    /// Views that are the same, or whose first four bytes differ, need no call.
    fn order_bytes(&self, a: &BytesVal<'c>, b: &BytesVal<'c>, signed: bool) -> Res<IntValue<'c>> {
        let call = || -> Res<IntValue<'c>> {
            let ((a, a_len), (b, b_len)) = (self.bytes_slice(a)?, self.bytes_slice(b)?);
            let name = if signed { "weld_bytes_compare_signed" } else { "weld_bytes_compare" };
            let args = [a.into(), a_len.into(), b.into(), b_len.into()];
            Ok(self.call_value(name, &args)?.into_int_value())
        };
        if let (BytesVal::Slice { .. }, _) | (_, BytesVal::Slice { .. }) = (a, b) {
            return call();
        }
        let ((a_low, _), (b_low, _)) = (self.bytes_view(a)?, self.bytes_view(b)?);
        let same = self.same_words(a, b)?;
        let i32 = self.unit.ll.i32_type();
        let prefix = |low: IntValue<'c>| -> Res<IntValue<'c>> {
            let high_half = self.b.build_right_shift(low, self.i64(32), false, "")?;
            let bytes = self.b.build_int_truncate(high_half, i32, "")?;
            let ordered = self.intrinsic("llvm.bswap", &[i32.into()], &[bytes.into()])?.into_int_value();
            // Flipping the signs makes the order of signed bytes that of unsigned ones.
            let signs = i32.const_int(0x8080_8080, false);
            if signed { Ok(self.b.build_xor(ordered, signs, "")?) } else { Ok(ordered) }
        };
        let (x, y) = (prefix(a_low)?, prefix(b_low)?);
        let mut decided = self.cmp(IntPredicate::NE, x, y)?;
        if signed {
            // The zeros after a shorter string are more than negative bytes.
            let shorter = self.umin(self.bytes_len(a)?, self.bytes_len(b)?)?;
            decided = self.and(decided, self.cmp(IntPredicate::UGE, shorter, self.i64(4))?)?;
        }
        let by_prefix = self.three_way(x, y, IntPredicate::UGT, IntPredicate::ULT)?;
        let (slow, done) = (self.new_block("bytes"), self.new_block("ordered"));
        let from = self.current_block()?;
        self.branch_if(self.or(decided, same)?, done, slow)?;
        self.at(slow);
        let by_call = call()?;
        let slow = self.current_block()?;
        self.branch(done)?;
        self.at(done);
        let order = self.b.build_phi(i32, "")?;
        order.add_incoming(&[(&by_prefix, from), (&by_call, slow)]);
        Ok(order.as_basic_value().into_int_value())
    }

    fn order_scalars(&self, kind: ScalarKind, a: &Val<'c>, b: &Val<'c>) -> Res<IntValue<'c>> {
        let (a, b) = (a.scalar()?, b.scalar()?);
        let holds = |op| -> Res<IntValue<'c>> {
            let holds = self.compare_scalars(op, kind, a, b)?.into_int_value();
            Ok(self.b.build_int_z_extend(holds, self.unit.ll.i32_type(), "")?)
        };
        let order = self.sub(holds(BinaryOp::Gt)?, holds(BinaryOp::Lt)?)?;
        if !kind.is_float() {
            return Ok(order);
        }
        let (a, b) = (a.into_float_value(), b.into_float_value());
        let unordered = self.b.build_float_compare(inkwell::FloatPredicate::UNO, a, b, "")?;
        self.choose_int(unordered, self.i32(UNORDERED), order)
    }

    fn three_way(
        &self,
        a: IntValue<'c>,
        b: IntValue<'c>,
        greater: IntPredicate,
        less: IntPredicate,
    ) -> Res<IntValue<'c>> {
        let i32 = self.unit.ll.i32_type();
        let greater = self.b.build_int_z_extend(self.cmp(greater, a, b)?, i32, "")?;
        let less = self.b.build_int_z_extend(self.cmp(less, a, b)?, i32, "")?;
        self.sub(greater, less)
    }

    /// Looks at indices from zero on until `body` gives true; what it gave then, and whether it did.
    fn first_where(
        &mut self,
        count: IntValue<'c>,
        body: impl FnOnce(&mut Self, IntValue<'c>) -> Res<(IntValue<'c>, IntValue<'c>)>,
    ) -> Res<(IntValue<'c>, IntValue<'c>)> {
        let (head, inside) = (self.new_block("each"), self.new_block("look"));
        let (next, done) = (self.new_block("next"), self.new_block("looked"));
        let from = self.current_block()?;
        self.branch(head)?;
        self.at(head);
        let i = self.b.build_phi(self.unit.i64_type(), "i")?;
        let index = i.as_basic_value().into_int_value();
        let more = self.cmp(IntPredicate::ULT, index, count)?;
        self.branch_if(more, inside, done)?;
        self.at(inside);
        let (value, found) = body(self, index)?;
        let end = self.current_block()?;
        self.branch_if(found, done, next)?;
        self.at(next);
        let following = self.add_nw(index, self.i64(1))?;
        i.add_incoming(&[(&self.i64(0), from), (&following, next)]);
        self.branch(head)?;
        self.at(done);
        let value_phi = self.b.build_phi(self.unit.ll.i32_type(), "")?;
        value_phi.add_incoming(&[(&self.i32(0), head), (&value, end)]);
        let found_phi = self.b.build_phi(self.unit.ll.bool_type(), "")?;
        found_phi.add_incoming(&[(&self.bool(false), head), (&self.bool(true), end)]);
        Ok((value_phi.as_basic_value().into_int_value(), found_phi.as_basic_value().into_int_value()))
    }

    /// The key with its scalars in canonical form. Elements of vectors are made so when they are read or stored.
    pub(crate) fn canonical_key(&self, ty: &Type, key: &Val<'c>) -> Res<Val<'c>> {
        Ok(match (ty, key) {
            (Type::Scalar(kind), key) if kind.is_float() => {
                let value = key.scalar()?.into_float_value();
                // Adding zero makes zero of minus zero.
                let folded = self.b.build_float_add(value, value.get_type().const_zero(), "")?;
                let nan = self.b.build_float_compare(inkwell::FloatPredicate::UNO, value, value, "")?;
                Val::Scalar(self.choose(nan, value.get_type().const_float(f64::NAN), folded)?)
            }
            (Type::Struct(fields), key) => {
                let mut values = Vec::with_capacity(fields.len());
                for (i, field) in fields.iter().enumerate() {
                    values.push(self.canonical_key(field, &key.field(i)?)?);
                }
                Val::structure(values)
            }
            _ => key.clone(),
        })
    }
}

/// The bytes of a short constant view.
fn constant_view(bytes: &BytesVal<'_>) -> Option<Vec<u8>> {
    let BytesVal::View { low, high } = bytes else { return None };
    let (low, high) = (low.get_zero_extended_constant()?, high.get_zero_extended_constant()?);
    let len = low as u32 as usize;
    let bytes = low.to_le_bytes().into_iter().skip(4).chain(high.to_le_bytes());
    (len <= StringView::INLINE_MAX).then(|| bytes.take(len).collect())
}
