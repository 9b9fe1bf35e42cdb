//! What builders do at run time, each kind in its own file. What they mean is in `weld_core`.
//!
//! A builder's state lies in memory (see [`Handle`]); the functions here start it, merge into it, and turn it into the
//! result. `combine` merges the state of another partition or thread.

mod appender;
mod dict_merger;
mod group_builder;
mod join;
mod merger;
mod numberer;
mod serialize;
mod struct_op;
mod vec_merger;

use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use inkwell::types::BasicTypeEnum;
use inkwell::values::PointerValue;
use weld_core::diag::Span;
use weld_core::ty::{BuilderType, Type};

use crate::block::{Code, Flow};
use crate::layout;
use crate::tables::Tables;
use crate::values::{Ranges, Values};

pub(crate) use crate::values::{BytesVal, Columns, Demand, DictVal, Handle, Res, Val, VecVal, internal};

/// So many elements of an appender have room from the beginning, if its hint says so.
const SMALL_HINT_MAX: i64 = 1024;

/// Fills one function with values, tables and builders.
pub(crate) struct Builders<'c, 'u> {
    tables: Tables<'c, 'u>,
    /// Whether a loop around asked for sums of floats in order.
    pub(crate) strict: bool,
}

impl<'c, 'u> Deref for Builders<'c, 'u> {
    type Target = Tables<'c, 'u>;

    fn deref(&self) -> &Tables<'c, 'u> {
        &self.tables
    }
}

impl DerefMut for Builders<'_, '_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.tables
    }
}

impl<'c, 'u> Flow<'c, 'u> for Builders<'c, 'u> {
    fn code(&self) -> &Code<'c, 'u> {
        self.tables.code()
    }

    fn into_code(self) -> Code<'c, 'u> {
        self.tables.into_code()
    }
}

impl<'c, 'u> Ranges<'c, 'u> for Builders<'c, 'u> {
    fn values(&self) -> &Values<'c, 'u> {
        self.tables.values()
    }

    fn outlined(&self, what: &str, params: &[BasicTypeEnum<'c>]) -> Res<Self> {
        Ok(Builders { tables: self.tables.outlined(what, params)?, strict: self.strict })
    }
}

impl<'c, 'u> Builders<'c, 'u> {
    pub(crate) fn over(tables: Tables<'c, 'u>) -> Self {
        Builders { tables, strict: false }
    }
}

/// Builders whose states are on the stack for a while.
pub(crate) struct OnStack<'c> {
    copies: Vec<Rc<Handle<'c>>>,
    /// Where the states were.
    states: Vec<PointerValue<'c>>,
}

impl<'c> Builders<'c, '_> {
    /// A new builder. `arg` is its argument, already evaluated; `own` if nobody else has that value, so that it may be
    /// changed in place.
    pub(crate) fn new_builder(
        &mut self,
        ty: &BuilderType,
        arg: Option<&Val<'c>>,
        own: bool,
        span: Span,
    ) -> Res<Val<'c>> {
        let state = self.alloca(layout::row(&Type::Builder(ty.clone())).size, "builder")?;
        let region = match ty.parts() {
            Some((table, rows)) => self.region_for_all(&[&table.result_type(), &rows.result_type()]),
            None => self.region_for(&ty.result_type()),
        };
        let hint = match (ty, arg) {
            (BuilderType::Appender(_), Some(hint)) => Some(hint.clone().into_int()?),
            _ => None,
        };
        let handle = Handle { hint, ..Handle::new(ty.clone(), state, region) };
        self.start(&handle, arg, own, span)?;
        // A small vector, such as one a row, is made in one piece. What is hinted of a large one may be far too much.
        if let (BuilderType::Appender(element), Some(hint)) = (ty, hint)
            && hint.get_sign_extended_constant().is_some_and(|hint| (1..=SMALL_HINT_MAX).contains(&hint))
        {
            self.reserve(&handle, element, hint, span)?;
        }
        Ok(Val::Builder(Rc::new(handle)))
    }

    /// Makes the state of an empty builder, or one that starts from its argument.
    pub(crate) fn start(&mut self, handle: &Handle<'c>, arg: Option<&Val<'c>>, own: bool, span: Span) -> Res<()> {
        match &handle.ty {
            BuilderType::Appender(element) => self.start_appender(handle, element),
            BuilderType::Merger { value, op } => self.start_merger(handle, value, op, arg),
            BuilderType::VecMerger { value, .. } => self.start_vec_merger(handle, value, arg, own, span),
            BuilderType::DictMerger { key, value, op } => self.start_dict_merger(handle, key, value, op, span),
            BuilderType::Numberer { .. } => self.start_numberer(handle, span),
            BuilderType::GroupBuilder { key, value } => self.start_group_builder(handle, key, value, span),
        }
    }

    /// Makes the state of a builder that will be combined into the one whose state is at `origin`: it holds nothing.
    pub(crate) fn start_part(&mut self, handle: &Handle<'c>, origin: PointerValue<'c>, span: Span) -> Res<()> {
        match &handle.ty {
            BuilderType::Merger { value, op } => {
                let neutral = self.neutral_of(value, op)?;
                self.store_row(value, handle.state, &neutral)
            }
            BuilderType::VecMerger { value, op } => {
                let len = self.load_i64(origin)?;
                let neutral = self.neutral_of(value, op)?;
                self.start_vec_merger_filled(handle, value, len, &neutral, span)
            }
            _ => self.start(handle, None, false, span),
        }
    }

    /// Merges a value, whose type is the builder's merge type.
    pub(crate) fn merge(&mut self, handle: &Handle<'c>, value: &Val<'c>, span: Span) -> Res<()> {
        match &handle.ty {
            BuilderType::Appender(element) => self.merge_appender(handle, element, value, span),
            BuilderType::Merger { value: ty, op } => self.merge_merger(handle, ty, op, value, span),
            BuilderType::VecMerger { value: ty, op } => self.merge_vec_merger(handle, ty, op, value, span),
            BuilderType::DictMerger { key, value: ty, op } => self.merge_dict_merger(handle, key, ty, op, value, span),
            BuilderType::Numberer { .. } => self.merge_numberer(handle, value, span),
            BuilderType::GroupBuilder { key, value: ty } => self.merge_group_builder(handle, key, ty, value, span),
        }
    }

    /// The result of a builder, or the struct of the results of a struct of builders.
    pub(crate) fn result(&mut self, builder: &Val<'c>, span: Span) -> Res<Val<'c>> {
        if let Val::Struct(builders) = builder {
            let results = builders.iter().map(|builder| self.result(builder, span)).collect::<Res<_>>()?;
            return Ok(Val::Struct(results));
        }
        let handle = builder.builder()?.clone();
        match &handle.ty {
            BuilderType::Appender(element) => self.result_appender(&handle, element),
            BuilderType::Merger { value, .. } => self.load_row(value, handle.state, false),
            BuilderType::VecMerger { value, .. } => self.result_vec_merger(&handle, value),
            BuilderType::DictMerger { key, value, op } => self.result_dict_merger(&handle, key, value, op, span),
            BuilderType::Numberer { .. } => self.result_numberer(&handle, span),
            BuilderType::GroupBuilder { key, value } => self.result_group_builder(&handle, key, value, span),
        }
    }

    /// Merges everything in another builder of the same type, whose state is at `other` and used no more.
    pub(crate) fn combine(&mut self, handle: &Handle<'c>, other: PointerValue<'c>, span: Span) -> Res<()> {
        match &handle.ty {
            BuilderType::Appender(element) => self.combine_appender(handle, element, other, span),
            BuilderType::Merger { value, op } => {
                let value_of_other = self.load_row(value, other, false)?;
                self.merge_merger(handle, value, op, &value_of_other, span)
            }
            BuilderType::VecMerger { value, op } => self.combine_vec_merger(handle, value, op, other, span),
            BuilderType::DictMerger { key, value, op } => self.combine_dict_merger(handle, key, value, op, other, span),
            BuilderType::Numberer { .. } => self.combine_numberer(handle, other, span),
            BuilderType::GroupBuilder { key, value } => self.combine_group_builder(handle, key, value, other, span),
        }
    }

    /// Copies the states of builders to the stack, so that LLVM keeps them in registers; [`Builders::off_stack`] copies
    /// them back. With it comes the builder, or struct of builders, of this type.
    pub(crate) fn onto_stack(&mut self, ty: &Type, handles: Vec<Handle<'c>>) -> Res<(OnStack<'c>, Val<'c>)> {
        let mut copies = Vec::with_capacity(handles.len());
        let mut states = Vec::with_capacity(handles.len());
        for handle in handles {
            let state = self.alloca(layout::row(&Type::Builder(handle.ty.clone())).size, "state")?;
            self.copy_state(&handle.ty, handle.state, state)?;
            states.push(handle.state);
            copies.push(Rc::new(Handle { state, ..handle }));
        }
        let builders = Val::builders(ty, &mut copies.iter().cloned())?;
        Ok((OnStack { copies, states }, builders))
    }

    pub(crate) fn off_stack(&mut self, OnStack { copies, states }: OnStack<'c>) -> Res<()> {
        for (copy, state) in copies.iter().zip(states) {
            self.copy_state(&copy.ty, copy.state, state)?;
        }
        Ok(())
    }

    /// Copies a builder's state, field by field so that LLVM keeps it in registers.
    pub(crate) fn copy_state(&self, ty: &BuilderType, from: PointerValue<'c>, to: PointerValue<'c>) -> Res<()> {
        match ty {
            BuilderType::Merger { value, .. } => {
                let value_now = self.load_row(value, from, false)?;
                self.store_row(value, to, &value_now)
            }
            BuilderType::Appender(element) => self.copy_words(from, to, 2, layout::columns(element).len()),
            BuilderType::VecMerger { value, .. } => self.copy_words(from, to, 1, layout::columns(value).len()),
            BuilderType::Numberer { row, .. } => {
                self.copy_words(from, to, 0, 1)?;
                self.copy_words(self.offset(from, 8)?, self.offset(to, 8)?, 2, 1 + layout::columns(row).len())
            }
            BuilderType::DictMerger { .. } | BuilderType::GroupBuilder { .. } => self.copy_words(from, to, 0, 1),
        }
    }

    fn copy_words(&self, from: PointerValue<'c>, to: PointerValue<'c>, ints: usize, pointers: usize) -> Res<()> {
        for i in 0..ints + pointers {
            let source = self.offset(from, 8 * i as u64)?;
            let word = if i < ints { self.load(self.unit.i64_type(), source)? } else { self.load_ptr(source)?.into() };
            self.store(self.offset(to, 8 * i as u64)?, word)?;
        }
        Ok(())
    }
}
