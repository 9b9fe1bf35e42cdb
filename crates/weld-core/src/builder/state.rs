//! A builder under construction, as the interpreter holds it.
//!
//! Builders are linear, so a [`Handle`] may be shared freely: no program can tell that merging happens in place.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::reduce::{combine, identity_value};
use crate::interp::Value;
use crate::interp::compare::Key;
use crate::interp::memory::{Charge, OutOfMemory};
use crate::interp::value::{Dictionary, Vector};
use crate::ir::Literal;
use crate::op::MergeOp;
use crate::runtime_error::RuntimeErrorKind;
use crate::ty::BuilderType;

/// Why a merge failed, with the kind's detail words.
pub(crate) type Failure = (RuntimeErrorKind, [i64; 2]);

const BROKEN: Failure = (RuntimeErrorKind::Internal, [0, 0]);

/// What a dictionary entry takes beside its key and value.
const ENTRY_BYTES: usize = 16;

impl From<OutOfMemory> for Failure {
    fn from(_: OutOfMemory) -> Failure {
        (RuntimeErrorKind::OutOfMemory, [0, 0])
    }
}

/// A reference to a builder.
#[derive(Clone, Debug)]
pub struct Handle(Arc<Mutex<State>>);

impl Handle {
    pub(crate) fn new(state: State) -> Handle {
        Handle(Arc::new(Mutex::new(state)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(crate) enum State {
    Appender {
        items: Vec<Value>,
        charge: Charge,
    },
    Merger {
        op: MergeOp,
        value: Value,
    },
    DictMerger {
        op: MergeOp,
        unit: Value,
        entries: BTreeMap<Key, Value>,
        charge: Charge,
    },
    Numberer {
        /// The dictmerger that it holds.
        entries: Box<State>,
        /// The key and the row of each merge.
        rows: Vec<(Key, Value)>,
        charge: Charge,
    },
    GroupBuilder {
        groups: BTreeMap<Key, (Vec<Value>, Charge)>,
        charge: Charge,
    },
    VecMerger {
        op: MergeOp,
        items: Vec<Value>,
        charge: Charge,
    },
    /// `result` was called.
    Done,
}

impl State {
    /// A new builder; `arg` is an appender's size hint (ignored), a merger's initial value, a vecmerger's vector.
    pub(crate) fn new(ty: &BuilderType, arg: Option<Value>, mut charge: Charge) -> Result<State, Failure> {
        Ok(match ty {
            BuilderType::Appender(_) => State::Appender { items: Vec::new(), charge },
            BuilderType::Merger { value, op } => {
                let initial = match arg {
                    Some(value) => value,
                    None => identity_value(op, value).ok_or(BROKEN)?,
                };
                State::Merger { op: op.clone(), value: initial }
            }
            BuilderType::DictMerger { op, value, .. } => {
                let unit = identity_value(op, value).ok_or(BROKEN)?;
                State::DictMerger { op: op.clone(), unit, entries: BTreeMap::new(), charge }
            }
            BuilderType::Numberer { .. } => {
                let (dict, _) = ty.parts().ok_or(BROKEN)?;
                let entries = Box::new(State::new(&dict, None, charge.sibling())?);
                State::Numberer { entries, rows: Vec::new(), charge }
            }
            BuilderType::GroupBuilder { .. } => State::GroupBuilder { groups: BTreeMap::new(), charge },
            BuilderType::VecMerger { op, .. } => {
                let Some(Value::Vec(initial)) = arg else { return Err(BROKEN) };
                charge.grow(initial.iter().map(Value::footprint).sum())?;
                State::VecMerger { op: op.clone(), items: initial.to_vec(), charge }
            }
        })
    }

    pub(crate) fn merge(&mut self, merged: Value) -> Result<(), Failure> {
        match self {
            State::Appender { items, charge } => {
                charge.grow(merged.footprint())?;
                items.push(merged);
            }
            State::Merger { op, value } => *value = combine(op, value, &merged).ok_or(BROKEN)?,
            State::DictMerger { op, unit, entries, charge } => {
                let (key, merged) = pair(&merged)?;
                match entries.get_mut(&key) {
                    Some(value) => *value = combine(op, value, merged).ok_or(BROKEN)?,
                    None => {
                        charge.grow(ENTRY_BYTES + key.value().footprint() + merged.footprint())?;
                        // The identity combined with a value is that value, but for -0.0 + 0.0 = 0.0, and a NaN that
                        // `min` passes by: an entry starts from the identity as a merger does.
                        let entry = combine(op, unit, merged).ok_or(BROKEN)?;
                        entries.insert(key, entry);
                    }
                }
            }
            State::Numberer { entries, rows, charge } => {
                let Value::Struct(parts) = &merged else { return Err(BROKEN) };
                let [key, value, row] = &**parts else { return Err(BROKEN) };
                charge.grow(ENTRY_BYTES + row.footprint())?;
                entries.merge(Value::structure([key.clone(), value.clone()]))?;
                rows.push((Key::new(key), row.clone()));
            }
            State::GroupBuilder { groups, charge } => {
                let (key, merged) = pair(&merged)?;
                if !groups.contains_key(&key) {
                    charge.grow(ENTRY_BYTES + key.value().footprint())?;
                }
                let (items, charge) = groups.entry(key).or_insert_with(|| (Vec::new(), charge.sibling()));
                charge.grow(merged.footprint())?;
                items.push(merged.clone());
            }
            State::VecMerger { op, items, .. } => {
                let Value::Struct(parts) = &merged else { return Err(BROKEN) };
                let [Value::Scalar(Literal::I64(index)), value] = &**parts else { return Err(BROKEN) };
                let len = items.len() as i64;
                let slot = usize::try_from(*index).ok().and_then(|index| items.get_mut(index));
                let slot = slot.ok_or((RuntimeErrorKind::IndexOutOfBounds, [*index, len]))?;
                *slot = combine(op, slot, value).ok_or(BROKEN)?;
            }
            State::Done => return Err(BROKEN),
        }
        Ok(())
    }

    /// The result; the builder is used up.
    pub(crate) fn finish(&mut self) -> Result<Value, Failure> {
        Ok(match std::mem::replace(self, State::Done) {
            State::Appender { items, charge } | State::VecMerger { items, charge, .. } => {
                Value::Vec(Vector::charged(items, charge))
            }
            State::Merger { value, .. } => value,
            State::DictMerger { entries, charge, .. } => Value::Dict(Dictionary::charged(entries, charge)),
            State::Numberer { mut entries, rows, charge } => {
                let State::DictMerger { entries: known, .. } = &*entries else { return Err(BROKEN) };
                let numbers: BTreeMap<Key, i64> = known.keys().cloned().zip(0..).collect();
                let row = |(key, row): (Key, Value)| {
                    let number = numbers.get(&key).ok_or(BROKEN)?;
                    Ok(Value::structure([Value::i64(*number), row]))
                };
                let rows = rows.into_iter().map(row).collect::<Result<Vec<_>, Failure>>()?;
                Value::structure([entries.finish()?, Value::Vec(Vector::charged(rows, charge))])
            }
            State::GroupBuilder { groups, charge } => {
                let entries = groups
                    .into_iter()
                    .map(|(key, (items, charge))| (key, Value::Vec(Vector::charged(items, charge))))
                    .collect();
                Value::Dict(Dictionary::charged(entries, charge))
            }
            State::Done => return Err(BROKEN),
        })
    }
}

/// The key and value of a merged pair.
fn pair(merged: &Value) -> Result<(Key, &Value), Failure> {
    match merged {
        Value::Struct(parts) => match &**parts {
            [key, value] => Ok((Key::new(key), value)),
            _ => Err(BROKEN),
        },
        _ => Err(BROKEN),
    }
}
