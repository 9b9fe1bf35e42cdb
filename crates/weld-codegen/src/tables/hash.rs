//! Keys of dictionaries: their hash, inlined for the type of the key, and copies that a table keeps.
//!
//! The hash is that of `weld_runtime::hash`: a key is a sequence of 64-bit words, small scalars packed together, folded
//! two at a time. `{i32,i32}` is one word and two multiplications.
//!
//! Keys are hashed and compared bit by bit, which is right for canonical ones: -0.0 is 0.0, and there is one NaN.

use inkwell::module::Linkage;
use inkwell::types::BasicMetadataTypeEnum;
use inkwell::values::{FunctionValue, IntValue, PointerValue};
use weld_core::diag::Span;
use weld_core::ty::{ScalarKind, Type};
use weld_runtime::hash::{K0, K1, SEED, SPREAD};

use super::{BytesVal, Demand, Res, Tables, Val, VecVal, internal};
use crate::block::{Code, Flow, Unit};
use crate::layout;

/// Where memory that a key or a value needs for itself comes from: a runtime function and its object.
#[derive(Clone, Copy)]
pub(crate) struct KeyMemory<'c> {
    pub(crate) function: &'static str,
    pub(crate) object: PointerValue<'c>,
    /// Whether the bytes of strings are to be copied.
    pub(crate) copies_bytes: bool,
}

/// A key's hash that may have been computed before.
#[derive(Clone, Copy)]
pub(crate) struct KnownHash<'c> {
    /// Whether it was.
    pub(crate) done: IntValue<'c>,
    /// Where it lies then.
    pub(crate) at: PointerValue<'c>,
}

/// Words in the making: what is packed so far, and how many bits of it are used.
#[derive(Default)]
struct Words<'c> {
    words: Vec<IntValue<'c>>,
    open: Option<(IntValue<'c>, u32)>,
}

impl<'c> Tables<'c, '_> {
    /// The 32 bits that tables use of a canonical key's hash.
    pub(crate) fn hash_key(&mut self, ty: &Type, key: &Val<'c>) -> Res<IntValue<'c>> {
        let hash = self.hash_value(ty, key)?;
        let high = self.b.build_right_shift(hash, self.i64(32), false, "")?;
        let mixed = self.mul(self.b.build_xor(hash, high, "")?, self.i64(SPREAD as i64))?;
        let upper = self.b.build_right_shift(mixed, self.i64(32), false, "")?;
        let hash = self.b.build_int_truncate(upper, self.unit.ll.i32_type(), "")?;
        self.or(hash, self.i32(1))
    }

    /// The same, read from where it may be known.
    pub(crate) fn hash_unless_known(
        &mut self,
        ty: &Type,
        key: &Val<'c>,
        known: Option<KnownHash<'c>>,
    ) -> Res<IntValue<'c>> {
        let Some(KnownHash { done, at }) = known else { return self.hash_key(ty, key) };
        let i32 = self.unit.ll.i32_type();
        let (read, compute, hashed) = (self.new_block("read"), self.new_block("hash"), self.new_block("hashed"));
        self.branch_if(done, read, compute)?;
        self.at(read);
        let a = self.load(i32, at)?.into_int_value();
        self.branch(hashed)?;
        self.at(compute);
        let b = self.hash_key(ty, key)?;
        let b_end = self.current_block()?;
        self.branch(hashed)?;
        self.at(hashed);
        let phi = self.b.build_phi(i32, "")?;
        phi.add_incoming(&[(&a, read), (&b, b_end)]);
        Ok(phi.as_basic_value().into_int_value())
    }

    /// 64 bits for a canonical value.
    fn hash_value(&mut self, ty: &Type, value: &Val<'c>) -> Res<IntValue<'c>> {
        let mut words = Words::default();
        self.collect_words(ty, value, &mut words)?;
        words.words.extend(words.open.take().map(|(word, _)| word));
        let (pairs, last) = words.words.as_chunks::<2>();
        let mut acc = self.i64(SEED as i64);
        for [a, b] in pairs {
            acc = self.fold(self.xor(*a, K0)?, self.b.build_xor(*b, acc, "")?)?;
        }
        match last {
            [word] => self.fold(self.xor(*word, K0)?, self.xor(acc, K1)?),
            _ => Ok(acc),
        }
    }

    fn collect_words(&mut self, ty: &Type, value: &Val<'c>, words: &mut Words<'c>) -> Res<()> {
        match (ty, value) {
            (Type::Scalar(ScalarKind::I128), value) => {
                let value = value.clone().into_int()?;
                let i128 = value.get_type();
                let low = self.b.build_int_truncate(value, self.unit.i64_type(), "")?;
                let high = self.b.build_right_shift(value, i128.const_int(64, false), false, "")?;
                words.words.push(low);
                words.words.push(self.b.build_int_truncate(high, self.unit.i64_type(), "")?);
                Ok(())
            }
            (Type::Scalar(kind), value) => {
                let bits = self.to_i64(self.scalar_bits(*kind, value.scalar()?)?)?;
                self.pack(words, bits, kind.bits())
            }
            (Type::Struct(fields), value) => {
                fields.iter().enumerate().try_for_each(|(i, field)| self.collect_words(field, &value.field(i)?, words))
            }
            (_, Val::Bytes(bytes)) => {
                let (low, high) = self.bytes_view(bytes)?;
                let high = self.hash_of_bytes(low, high)?;
                words.words.extend([low, high]);
                Ok(())
            }
            (Type::Vec(element), Val::Vec(vec)) => {
                let hash = self.hash_elements(vec, element)?;
                words.words.extend([vec.len, hash]);
                Ok(())
            }
            _ => Err(internal(&format!("a key of type {ty}"))),
        }
    }

    /// Appends `bits` bits to the word that is being packed, or starts a new one.
    fn pack(&self, words: &mut Words<'c>, value: IntValue<'c>, bits: u32) -> Res<()> {
        words.open = match words.open.take() {
            Some((word, used)) if used + bits <= 64 => {
                let shifted = self.b.build_left_shift(value, self.i64(used.into()), "")?;
                Some((self.or(word, shifted)?, used + bits))
            }
            open => {
                words.words.extend(open.map(|(word, _)| word));
                Some((value, bits))
            }
        };
        Ok(())
    }

    /// The second word of a string view, or a hash of the bytes where it is an address.
    fn hash_of_bytes(&mut self, low: IntValue<'c>, high: IntValue<'c>) -> Res<IntValue<'c>> {
        let len = self.bytes_len(&BytesVal::View { low, high })?;
        let is_long = self.is_long(len)?;
        let (long, done) = (self.new_block("long"), self.new_block("hashed"));
        let from = self.current_block()?;
        self.branch_if(is_long, long, done)?;
        self.at(long);
        let ptr = self.b.build_int_to_ptr(high, self.unit.ptr_type(), "")?;
        let hash = self.call_seldom("weld_hash_bytes", &[ptr.into(), len.into()])?;
        self.branch(done)?;
        self.at(done);
        let phi = self.b.build_phi(self.unit.i64_type(), "")?;
        phi.add_incoming(&[(&high, from), (&hash, long)]);
        Ok(phi.as_basic_value().into_int_value())
    }

    fn hash_elements(&mut self, vec: &VecVal<'c>, element: &Type) -> Res<IntValue<'c>> {
        let acc = self.alloca(8, "hash")?;
        self.store(acc, self.i64(SEED as i64))?;
        self.count_loop(vec.len, |e, i| {
            let value = e.load_element(vec, element, i, &Demand::All)?;
            let value = e.canonical_key(element, &value)?;
            let hash = e.hash_value(element, &value)?;
            let so_far = e.load_i64(acc)?;
            let next = e.fold(e.xor(hash, K0)?, e.xor(so_far, K1)?)?;
            e.store(acc, next)?;
            Ok(())
        })?;
        self.load_i64(acc)
    }

    fn xor(&self, a: IntValue<'c>, constant: u64) -> Res<IntValue<'c>> {
        Ok(self.b.build_xor(a, self.i64(constant as i64), "")?)
    }

    /// The halves of the 128-bit product, combined.
    fn fold(&self, a: IntValue<'c>, b: IntValue<'c>) -> Res<IntValue<'c>> {
        let (i64, i128) = (self.unit.i64_type(), self.unit.ll.i128_type());
        let wide = |value| self.b.build_int_z_extend(value, i128, "");
        let product = self.mul(wide(a)?, wide(b)?)?;
        let high = self.b.build_right_shift(product, i128.const_int(64, false), false, "")?;
        let (low, high) = (self.b.build_int_truncate(product, i64, "")?, self.b.build_int_truncate(high, i64, "")?);
        Ok(self.b.build_xor(low, high, "")?)
    }

    // ---- keys that outlive where they came from ----

    /// A key whose scalars are canonical, with the elements of its vectors canonical too, and with the bytes of its
    /// strings in memory of their own if need be.
    pub(crate) fn own_key(&mut self, ty: &Type, key: &Val<'c>, memory: &KeyMemory<'c>, span: Span) -> Res<Val<'c>> {
        self.own_parts(ty, key, memory, true, span)
    }

    /// A value with the bytes of its strings in memory of their own if need be.
    pub(crate) fn own_value(&mut self, ty: &Type, value: &Val<'c>, memory: &KeyMemory<'c>, span: Span) -> Res<Val<'c>> {
        self.own_parts(ty, value, memory, false, span)
    }

    fn own_parts(&mut self, ty: &Type, value: &Val<'c>, memory: &KeyMemory<'c>, key: bool, span: Span) -> Res<Val<'c>> {
        match (ty, value) {
            (Type::Struct(fields), value) => {
                let mut values = Vec::with_capacity(fields.len());
                for (i, field) in fields.iter().enumerate() {
                    values.push(self.own_parts(field, &value.field(i)?, memory, key, span)?);
                }
                Ok(Val::structure(values))
            }
            (_, Val::Bytes(bytes)) if memory.copies_bytes => {
                let (low, high) = self.bytes_view(bytes)?;
                let len = self.bytes_len(&BytesVal::View { low, high })?;
                let is_long = self.is_long(len)?;
                let (long, done) = (self.new_block("long"), self.new_block("owned"));
                let from = self.current_block()?;
                self.branch_if(is_long, long, done)?;
                self.at(long);
                let copy = self.key_memory(memory, len, 1, span)?;
                let bytes = self.b.build_int_to_ptr(high, self.unit.ptr_type(), "")?;
                self.b.build_memcpy(copy, 1, bytes, 1, len)?;
                let address = self.b.build_ptr_to_int(copy, self.unit.i64_type(), "")?;
                let end = self.current_block()?;
                self.branch(done)?;
                self.at(done);
                let phi = self.b.build_phi(self.unit.i64_type(), "")?;
                phi.add_incoming(&[(&high, from), (&address, end)]);
                Ok(Val::Bytes(BytesVal::View { low, high: phi.as_basic_value().into_int_value() }))
            }
            (Type::Vec(element), Val::Vec(vec))
                if (key && has_floats(element)) || (memory.copies_bytes && layout::has_bytes(element)) =>
            {
                let mut columns = Vec::new();
                for ty in layout::columns(element) {
                    let row = layout::row(&ty);
                    let bytes = self.mul(vec.len, self.i64(row.size as i64))?;
                    columns.push(self.key_memory(memory, bytes, row.align, span)?);
                }
                self.count_loop(vec.len, |e, i| {
                    let value = e.load_element(vec, element, i, &Demand::All)?;
                    let value = e.canonical_key(element, &value)?;
                    let value = e.own_parts(element, &value, memory, key, span)?;
                    e.store_element(element, &mut columns.iter().copied(), i, &value)
                })?;
                let columns = super::Columns::Dense(columns.into());
                Ok(Val::Vec(VecVal { len: vec.len, columns, input: false }))
            }
            _ => Ok(value.clone()),
        }
    }

    fn key_memory(&self, memory: &KeyMemory<'c>, bytes: IntValue<'c>, align: u64, span: Span) -> Res<PointerValue<'c>> {
        let args = [self.run.into(), memory.object.into(), bytes.into(), self.i64(align as i64).into()];
        let block = self.call_seldom(memory.function, &args)?.into_pointer_value();
        self.trap_noted_if(self.b.build_is_null(block, "")?, span)?;
        Ok(block)
    }
}

fn has_floats(ty: &Type) -> bool {
    match ty {
        Type::Scalar(kind) => kind.is_float(),
        Type::Struct(fields) => fields.iter().any(has_floats),
        Type::Vec(element) => has_floats(element),
        _ => false,
    }
}

// ---- functions that the runtime calls ----

/// A function without a run. Nothing in it may trap; `build` ends it with the number that it returns.
pub(crate) fn helper<'c, 'u>(
    unit: &'u Unit<'c>,
    name: &str,
    params: &[BasicMetadataTypeEnum<'c>],
    build: impl FnOnce(Tables<'c, 'u>, FunctionValue<'c>) -> Res<()>,
) -> Res<FunctionValue<'c>> {
    if let Some(function) = unit.module.get_function(name) {
        return Ok(function);
    }
    let signature = unit.ll.i32_type().fn_type(params, false);
    let function = unit.module.add_function(name, signature, Some(Linkage::Internal));
    unit.attribute(function, inkwell::attributes::AttributeLoc::Function, "nounwind", 0);
    build(Tables::over(Code::without_run(unit, function, "result")?), function)?;
    Ok(function)
}

pub(crate) fn pointer_param<'c>(function: FunctionValue<'c>, index: u32) -> Res<PointerValue<'c>> {
    let param = function.get_nth_param(index).ok_or_else(|| internal("a helper without its parameters"))?;
    Ok(param.into_pointer_value())
}

/// `weld_runtime::HashKeys` for a type of keys.
pub(crate) fn hash_function<'c>(from: &Tables<'c, '_>, key: &Type) -> Res<FunctionValue<'c>> {
    let (ptr, i64) = (from.unit.ptr_type(), from.unit.i64_type());
    helper(from.unit, &format!("weld.hash.{key}"), &[ptr.into(), i64.into(), ptr.into()], |mut e, function| {
        let (keys, hashes) = (pointer_param(function, 0)?, pointer_param(function, 2)?);
        let count = function.get_nth_param(1).ok_or_else(|| internal("a helper without a count"))?;
        e.count_loop(count.into_int_value(), |e, i| {
            let at = e.column_ptr(key, keys, i)?;
            let value = e.load_row(key, at, false)?;
            let hash = e.hash_key(key, &value)?;
            let to = e.element_ptr(e.unit.ll.i32_type().into(), hashes, i)?;
            e.store(to, hash)?;
            Ok(())
        })?;
        let zero = e.i32(0);
        e.finish_with(zero)
    })
}

/// `weld_runtime::EqualKeys` for a type of keys.
pub(crate) fn equal_function<'c>(from: &Tables<'c, '_>, key: &Type) -> Res<FunctionValue<'c>> {
    let ptr = from.unit.ptr_type();
    helper(from.unit, &format!("weld.equal.{key}"), &[ptr.into(), ptr.into()], |mut e, function| {
        let a = e.load_row(key, pointer_param(function, 0)?, false)?;
        let b = e.load_row(key, pointer_param(function, 1)?, false)?;
        let equal = e.keys_equal(key, &a, &b)?;
        let equal = e.b.build_int_z_extend(equal, e.unit.ll.i32_type(), "")?;
        e.finish_with(equal)
    })
}
