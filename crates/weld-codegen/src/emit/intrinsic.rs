//! Intrinsics: which function of the layers below is one, and what it is given.

use inkwell::IntPredicate;
use inkwell::values::IntValue;
use weld_core::diag::Span;
use weld_core::ir::{Expr, ExprKind};
use weld_core::op::Intrinsic;
use weld_core::ty::Type;
use weld_runtime::StringView;

use super::{Demand, Emitter, Res, Val, internal};
use crate::values::{BytesVal, DictVal};

impl<'c> Emitter<'c, '_> {
    /// Emits what is demanded of a call; the rest of its value may be absent.
    pub(super) fn emit_intrinsic(
        &mut self,
        intrinsic: Intrinsic,
        args: &[Expr],
        demand: &Demand,
        span: Span,
    ) -> Res<Val<'c>> {
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            values.push(self.emit(arg)?);
        }
        let kind = args.first().and_then(|arg| arg.ty.as_scalar());
        let value = match (intrinsic, &values[..], kind) {
            (Intrinsic::CheckedAdd | Intrinsic::CheckedSub | Intrinsic::CheckedMul, [a, b], Some(kind)) => {
                self.checked(intrinsic, kind, a.scalar()?, b.scalar()?, span)?
            }
            (Intrinsic::RoundDiv, [a, b], Some(kind)) => {
                self.round_div(kind, a.clone().into_int()?, b.clone().into_int()?, span)?.into()
            }
            (Intrinsic::Magnitude, [a], Some(kind)) => self.magnitude(a.clone().into_int()?, kind.bits())?.into(),
            (Intrinsic::OrderKey, [a], Some(kind)) => self.order_key(kind, a.scalar()?)?.into(),
            (Intrinsic::FromOrderKey, [key], Some(kind)) => self.float_of_order_key(kind, key.clone().into_int()?)?,
            (_, [Val::Dict(table), values @ ..], _) => {
                return self.emit_of_table(intrinsic, (*table, &args[0].ty), values, demand);
            }
            (
                Intrinsic::StartsWith | Intrinsic::EndsWith | Intrinsic::Contains | Intrinsic::Like | Intrinsic::Ilike,
                [text, pattern],
                _,
            ) => {
                let known = match &args[1].kind {
                    ExprKind::Bytes(bytes) => Some(&bytes[..]),
                    _ => None,
                };
                self.string_search(intrinsic, text.bytes()?, pattern.bytes()?, known, span)?.into()
            }
            (Intrinsic::Find | Intrinsic::FieldStart, [text, part, n], _) => {
                let ((text, len), (part, part_len)) =
                    (self.bytes_slice(text.bytes()?)?, self.bytes_slice(part.bytes()?)?);
                let name = if intrinsic == Intrinsic::Find { "weld_find" } else { "weld_field_start" };
                let n = n.clone().into_int()?;
                self.call_value(name, &[text.into(), len.into(), part.into(), part_len.into(), n.into()])?
            }
            (Intrinsic::TrimStart | Intrinsic::TrimEnd, [text, part], _) => {
                let ((text, len), (part, part_len)) =
                    (self.bytes_slice(text.bytes()?)?, self.bytes_slice(part.bytes()?)?);
                let name = if intrinsic == Intrinsic::TrimStart { "weld_trim_start" } else { "weld_trim_end" };
                self.call_value(name, &[text.into(), len.into(), part.into(), part_len.into()])?
            }
            (Intrinsic::IsUtf8, [text], _) => {
                let (text, len) = self.bytes_slice(text.bytes()?)?;
                self.call_value("weld_is_utf8", &[text.into(), len.into()])?
            }
            (Intrinsic::CharLength, [text], _) => {
                let (text, len) = self.bytes_slice(text.bytes()?)?;
                self.call_value("weld_char_length", &[text.into(), len.into()])?
            }
            (Intrinsic::CharOffset, [text, n], _) => {
                let (text, len) = self.bytes_slice(text.bytes()?)?;
                self.call_value("weld_char_offset", &[text.into(), len.into(), n.clone().into_int()?.into()])?
            }
            (Intrinsic::Year | Intrinsic::Month | Intrinsic::Day, [days], _) => {
                self.civil(intrinsic, days.clone().into_int()?)?.into()
            }
            (Intrinsic::NdCount, [len, lists @ ..], _) => {
                let lists: Vec<_> = lists.iter().map(|list| self.as_vec(list)).collect::<Res<_>>()?;
                self.nd_dims(len.clone().into_int()?, &lists, span)?.1.into()
            }
            (Intrinsic::Intern, [text], _) => return self.intern(text.bytes()?, span),
            (Intrinsic::Interned, [interned], _) => return self.interned(interned.field(0)?.into_int()?),
            _ => return Err(internal("an intrinsic with other arguments than its own")),
        };
        Ok(Val::Scalar(value))
    }

    /// What is asked of a table.
    fn emit_of_table(
        &mut self,
        intrinsic: Intrinsic,
        (table, dict): (DictVal<'c>, &Type),
        values: &[Val<'c>],
        demand: &Demand,
    ) -> Res<Val<'c>> {
        let value = match (intrinsic, values) {
            (Intrinsic::MayContain, [key]) => self.dict_may_contain(table, dict, key)?,
            (Intrinsic::FirstRow, [group]) => self.dict_first_row(table, dict, group)?,
            (Intrinsic::HashKey, [key]) => self.dict_hash_key(table, dict, key)?,
            (Intrinsic::MayContainHashed, [hash]) => self.dict_may_contain_hashed(table, hash.clone().into_int()?)?,
            (Intrinsic::FindRow, [hash, key]) => self.dict_find_row(table, dict, hash.clone().into_int()?, key)?,
            (Intrinsic::RowValue, [row]) => {
                return self.dict_row_value(table, dict, row.clone().into_int()?, demand);
            }
            _ => return Err(internal("an intrinsic that asks nothing of a table")),
        };
        Ok(Val::int(value))
    }

    /// The address that stands for bytes.
    fn intern(&mut self, text: &BytesVal<'c>, span: Span) -> Res<Val<'c>> {
        let address = self.once_an_entry(text, |e| {
            let (bytes, len) = e.bytes_slice(text)?;
            let view = e.call_value("weld_intern", &[e.run.into(), bytes.into(), len.into()])?.into_pointer_value();
            e.trap_noted_if(e.b.build_is_null(view, "")?, span)?;
            Ok(e.b.build_ptr_to_int(view, e.unit.i64_type(), "")?)
        })?;
        Ok(Val::structure(vec![Val::int(address)]))
    }

    /// The bytes that an address stands for; none for zero.
    fn interned(&mut self, address: IntValue<'c>) -> Res<Val<'c>> {
        let view = self.b.build_int_to_ptr(address, self.unit.ptr_type(), "")?;
        let is_zero = self.cmp(IntPredicate::EQ, address, self.i64(0))?;
        let none = self.unit.constant_bytes(&[0; size_of::<StringView>()]);
        let view = self.choose(is_zero, none, view)?.into_pointer_value();
        let (low, high) = (self.load_i64(view)?, self.load_i64(self.offset(view, 8)?)?);
        Ok(Val::Bytes(BytesVal::View { low, high }))
    }
}
