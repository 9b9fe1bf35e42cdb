//! `first_value` and `last_value`: a state that is the row which comes first, whole: its key, and what calls take of
//! it.
//!
//! ```weld
//! # first_value(v ORDER BY k), first_value(w ORDER BY k)
//! for(input, dictmerger[i64,{{bool,i64,f64,f64}},{least_by}], |b, i, r| merge(b, {r.$0, {{true, r.$1, r.$2, r.$3}}}))
//! ```
//! Calls of one order share the state. Keys are made such that the least, or else the greatest, is the row's in the
//! order that was asked: integers are complemented where they descend, floats are integers in IEEE 754's total order,
//! and NULLs have a flag before them. What is a key of the group itself is in no state.

use std::sync::Arc;

use arrow::compute::SortOptions;
use datafusion::functions_aggregate::first_last::{FirstValue, LastValue};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use weld_core::ir::{Expr, ExprKind, build as ir};
use weld_core::op::{BinaryOp, Intrinsic, MergeOp, StructOp};
use weld_core::ty::{ScalarKind, Type};

use super::states::{all_ones, total_key};
use super::{Block, Result, Sql, Unsupported};

/// A call of one of the two.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FirstLast {
    is_last: bool,
    ignores_nulls: bool,
    order: Vec<PhysicalSortExpr>,
    /// The call's filter, which those that merge its states do not apply again.
    filter: Option<Arc<dyn PhysicalExpr>>,
    /// For its argument and each expression of its order the key of the group that it is.
    group_keys: Vec<Option<usize>>,
}

/// Where a value of the row that was chosen is.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// A key of the group.
    Group(usize),
    /// A part of the key, which holds a value like this.
    Key(KeyPart),
    /// A field of the state, with its validity if the flag says so.
    Field(usize, bool),
}

/// A part of the key that rows are chosen by.
#[derive(Clone, Debug)]
pub(super) struct KeyPart {
    index: usize,
    is_float: bool,
    /// Its value is complemented.
    is_reversed: bool,
    /// With a flag before it that holds for values, or else for NULLs.
    flag: Option<bool>,
}

/// A state that calls share, and what is in it.
pub(super) struct Chosen {
    of: FirstLast,
    /// The argument, if rows count only where it is there.
    arg: Option<Arc<dyn PhysicalExpr>>,
    slot: usize,
    order: Vec<Place>,
    values: Vec<(Arc<dyn PhysicalExpr>, Place)>,
}

/// A row's state, as far as it is made of its order.
pub(super) struct Start {
    pub(super) op: MergeOp,
    pub(super) value: Expr,
    pub(super) order: Vec<Place>,
}

impl FirstLast {
    /// With the arguments, those of the order behind its own.
    pub(super) fn of(call: &AggregateFunctionExpr) -> Option<(FirstLast, Vec<Arc<dyn PhysicalExpr>>)> {
        let function = call.fun().inner();
        let is_last = function.is::<LastValue>();
        if call.is_distinct() || (!is_last && !function.is::<FirstValue>()) {
            return None;
        }
        let (ignores_nulls, order) = (call.ignore_nulls(), call.order_bys().to_vec());
        let args = call.expressions().into_iter().chain(order.iter().map(|key| Arc::clone(&key.expr))).collect();
        Some((FirstLast { is_last, ignores_nulls, order, filter: None, group_keys: Vec::new() }, args))
    }

    /// Whether it has an order of its own.
    pub(super) fn is_ordered(&self) -> bool {
        !self.order.is_empty()
    }

    /// Notes what it shares states by: its filter, and which of its arguments are keys of the group. Of floats a group
    /// has both zeros.
    pub(super) fn note(
        &mut self,
        filter: Option<&Arc<dyn PhysicalExpr>>,
        args: &[Arc<dyn PhysicalExpr>],
        group: impl Fn(&Arc<dyn PhysicalExpr>) -> Option<usize>,
    ) {
        self.filter = filter.cloned();
        self.group_keys = args.iter().map(group).collect();
    }

    /// Whether two calls choose the same row; their arguments are `arg` and `other_arg`.
    fn chooses_as(&self, arg: &Arc<dyn PhysicalExpr>, other: &Chosen) -> bool {
        let of = &other.of;
        let args_count_alike = match (&other.arg, self.ignores_nulls) {
            (Some(other), true) => other == arg,
            (None, false) => true,
            _ => false,
        };
        args_count_alike && (self.is_last, &self.order, &self.filter) == (of.is_last, &of.order, &of.filter)
    }

    /// The conditions on which a row counts, beside the call's filter: of its arguments, or of its state.
    pub(super) fn conditions(&self, args: &[Sql], merges: bool) -> Vec<Expr> {
        let mut conditions = Vec::new();
        if let (Some(is_set), true) = (args.last(), merges) {
            conditions.extend(is_set.valid.clone());
            conditions.push(is_set.value.clone());
        }
        if self.ignores_nulls {
            conditions.extend(args.first().and_then(|value| value.valid.clone()));
        }
        conditions
    }

    /// The options of its order's keys for the row that comes first in it.
    fn options(&self) -> impl Iterator<Item = SortOptions> + Clone + '_ {
        self.order.iter().map(|key| if self.is_last { !key.options } else { key.options })
    }

    /// What a row merges that counts where `counts` holds, without its values. `whole` if there are no groups: of rows
    /// with the same keys, DataFusion's accumulator of groups takes the first one, the other one the last of a batch.
    pub(super) fn start(&self, block: &mut Block<'_>, args: &[Sql], counts: Expr, whole: bool) -> Result<Start> {
        let is_text = |sql: &&Sql| sql.value.ty.is_bytes();
        let keys = args[1..].iter().zip(self.options()).zip(&self.group_keys[1..]);
        let mut texts = keys.clone().filter(|((sql, _), group)| is_text(sql) && group.is_none());
        // Texts have no complement.
        let (is_greatest, takes_last) = match texts.next() {
            Some(((_, options), _)) => (options.descending, whole && self.is_last && options.descending),
            None => (whole && self.is_last, whole && self.is_last),
        };
        if texts.any(|((_, options), _)| options.descending != is_greatest) {
            return Err(Unsupported::new("an aggregate's order", "of texts in both directions"));
        }
        let (mut parts, mut order) = (Vec::new(), Vec::new());
        for ((sql, options), group) in keys {
            order.push(match group {
                Some(group) => Place::Group(*group),
                None => {
                    let sql = block.share_sql("key", sql.clone());
                    let place = KeyPart::of(&sql, options, is_greatest, parts.len());
                    parts.push(place.key(block, &sql)?);
                    Place::Key(place)
                }
            });
        }
        let op = match (parts.is_empty(), is_greatest) {
            (true, _) if self.is_last && self.order.is_empty() => StructOp::Last,
            (true, _) => StructOp::First,
            (false, false) => StructOp::LeastBy,
            (false, true) if takes_last => StructOp::LastBy,
            (false, true) => StructOp::GreatestBy,
        };
        let key = (!parts.is_empty()).then(|| ir::strct(parts));
        let value = ir::strct(std::iter::once(counts).chain(key));
        Ok(Start { op: MergeOp::Struct(op), value, order })
    }
}

impl KeyPart {
    fn of(sql: &Sql, options: SortOptions, is_greatest: bool, index: usize) -> KeyPart {
        KeyPart {
            index,
            is_float: sql.value.ty.as_scalar().is_some_and(ScalarKind::is_float),
            is_reversed: options.descending != is_greatest && !sql.value.ty.is_bytes(),
            flag: sql.valid.as_ref().map(|_| options.nulls_first != is_greatest),
        }
    }

    /// The part of the key of a row with this value.
    fn key(&self, block: &mut Block<'_>, sql: &Sql) -> Result<Expr> {
        let mut key = if self.is_float { total_key(block, sql.value.clone()) } else { sql.value.clone() };
        if self.is_reversed {
            key = complement(key)?;
        } else if key.ty.as_scalar().is_none() && !key.ty.is_bytes() {
            return Err(Unsupported::new("an aggregate's order", format!("by {}", key.ty)));
        }
        let (Some(holds_for_values), Some(valid)) = (self.flag, &sql.valid) else { return Ok(key) };
        let zero = ir::zero(&key.ty);
        let flag = if holds_for_values { valid.clone() } else { ir::not(valid.clone()) };
        Ok(ir::strct([flag, ir::select(valid.clone(), key, zero)]))
    }

    /// The value of a row with this key.
    fn value(&self, key: &Expr) -> Result<Sql> {
        let part = ir::field(key.clone(), self.index);
        let (valid, part) = match self.flag {
            None => (None, part),
            Some(holds_for_values) => {
                let flag = ir::field(part.clone(), 0);
                (Some(if holds_for_values { flag } else { ir::not(flag) }), ir::field(part, 1))
            }
        };
        let part = if self.is_reversed { complement(part)? } else { part };
        let value = if self.is_float { ir::intrinsic(Intrinsic::FromOrderKey, [part]) } else { part };
        Ok(Sql { value, valid })
    }
}

/// The value with all bits changed, which turns the order around.
fn complement(value: Expr) -> Result<Expr> {
    let kind = value.ty.as_scalar();
    let kind = kind.ok_or_else(|| Unsupported::new("an aggregate's order", format!("by {}", value.ty)))?;
    Ok(ir::binary(BinaryOp::BitXor, value, all_ones(kind)))
}

impl Chosen {
    /// The state of a call, if it is here.
    pub(super) fn find<'c>(
        all: &'c mut [Chosen],
        of: &FirstLast,
        arg: &Arc<dyn PhysicalExpr>,
    ) -> Option<&'c mut Chosen> {
        all.iter_mut().find(|known| of.chooses_as(arg, known))
    }

    pub(super) fn new(of: &FirstLast, arg: &Arc<dyn PhysicalExpr>, slot: usize, order: Vec<Place>) -> Chosen {
        let arg = of.ignores_nulls.then(|| Arc::clone(arg));
        Chosen { of: of.clone(), arg, slot, order, values: Vec::new() }
    }

    pub(super) fn slot(&self) -> usize {
        self.slot
    }

    /// The places of a call's argument and its order. The argument is put into the state that rows merge, `merged`, if
    /// it is not there.
    pub(super) fn places(
        &mut self,
        of: &FirstLast,
        (args, value): (&[Arc<dyn PhysicalExpr>], &Sql),
        merged: &mut Expr,
    ) -> Result<Vec<Place>> {
        let ExprKind::Struct(fields) = &merged.kind else {
            return Err(Unsupported::new("an aggregate", "its state is no struct"));
        };
        let arg = &args[0];
        let with = |value: Expr| ir::strct(fields.iter().cloned().chain([value]));
        let group = of.group_keys.first().copied().flatten().map(Place::Group);
        let in_order = args[1..].iter().zip(&self.order).find(|(key, _)| *key == arg).map(|(_, place)| place.clone());
        let known = self.values.iter().find(|(known, _)| known == arg).map(|(_, place)| place.clone());
        let place = match group.or(in_order).or(known) {
            Some(place) => {
                if fields.len() == 1 {
                    // Nothing of the row is kept, but a state has two fields.
                    *merged = with(ir::bool(true));
                }
                place
            }
            None if !is_held(&value.value.ty) => {
                return Err(Unsupported::new(arg, format!("{} in a state", value.value.ty)));
            }
            None => {
                let place = Place::Field(fields.len(), value.valid.is_some());
                *merged = with(value.clone().stored());
                self.values.push((Arc::clone(arg), place.clone()));
                place
            }
        };
        Ok(std::iter::once(place).chain(self.order.iter().cloned()).collect())
    }
}

/// What a state can hold.
fn is_held(ty: &Type) -> bool {
    match ty {
        Type::Scalar(_) => true,
        Type::Struct(fields) => !fields.is_empty() && fields.iter().all(is_held),
        other => other.is_bytes(),
    }
}

impl Place {
    /// The value, null where no row was chosen, if there may be none.
    pub(super) fn value(&self, chosen: &Expr, keys: &[Sql], may_be_none: bool) -> Result<Sql> {
        let sql = match self {
            Place::Group(key) => {
                keys.get(*key).cloned().ok_or_else(|| Unsupported::new("an aggregate", "of a key that is not there"))?
            }
            Place::Key(part) => part.value(&ir::field(chosen.clone(), 1))?,
            Place::Field(index, nullable) => Sql::load(ir::field(chosen.clone(), *index), *nullable),
        };
        let is_field = matches!(self, Place::Field(_, true));
        if !may_be_none || is_field {
            return Ok(sql);
        }
        let there = ir::field(chosen.clone(), 0);
        let valid = sql.valid.map_or(there.clone(), |valid| ir::and(there, valid));
        Ok(Sql { value: sql.value, valid: Some(valid) })
    }
}
