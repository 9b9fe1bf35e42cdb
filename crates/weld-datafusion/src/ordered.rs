//! `array_agg` and `string_agg` with ORDER BY beside compiled groups.
//!
//! DataFusion has an accumulator for each group, which keeps a `ScalarValue` of each value and each key of the order.
//! Here the rows of all groups are kept in columns. When groups are handed out, rows are put in order of their groups
//! by counting, and those of a group in order of their normalised keys. States are DataFusion's: the values of each
//! group and their keys, so that either engine may make or merge them.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayAccessor, ArrayRef, AsArray, BooleanArray, GenericStringBuilder, LargeStringArray, ListArray,
    StructArray, UInt32Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{self, SortOptions, concat, take};
use arrow::datatypes::{DataType, FieldRef, Fields};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, exec_err, internal_err};
use datafusion::functions_aggregate::{array_agg::ArrayAgg, string_agg::StringAgg};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Literal;

use crate::distinct::{Included, all};

/// A call of an aggregate function that puts values in order.
#[derive(Clone, Debug)]
pub(crate) struct Ordered {
    /// What stands between texts. Without it, the values of a group are a list.
    delimiter: Option<Arc<str>>,
    ignores_nulls: bool,
    /// Of the lists of values in states.
    item: FieldRef,
    /// Of the lists of keys in states, and the structs in them.
    keys_item: FieldRef,
    keys: Fields,
    options: Vec<SortOptions>,
}

impl Ordered {
    /// `None` if DataFusion's accumulators are to compute it.
    pub(crate) fn of(call: &AggregateFunctionExpr) -> Option<Ordered> {
        let function = call.fun().inner();
        let args = call.expressions();
        let delimiter = match args.as_slice() {
            [_] if function.is::<ArrayAgg>() => None,
            [_, delimiter] if function.is::<StringAgg>() => {
                let delimiter = delimiter.downcast_ref::<Literal>()?.value();
                Some(if delimiter.is_null() { "" } else { delimiter.try_as_str()?? }.into())
            }
            _ => return None,
        };
        // With DISTINCT, or without an order, there is one.
        let states = call.state_fields().ok()?;
        let [values, keys] = states.as_slice() else { return None };
        let (DataType::List(item), DataType::List(keys_item)) = (values.data_type(), keys.data_type()) else {
            return None;
        };
        let DataType::Struct(keys) = keys_item.data_type() else { return None };
        let is_plain = |ty: &DataType| !ty.is_nested() && !matches!(ty, DataType::Dictionary(..));
        let is_known = !matches!(item.data_type(), DataType::Dictionary(..) | DataType::RunEndEncoded(..))
            && keys.iter().all(|key| is_plain(key.data_type()));
        (is_known && !call.is_reversed()).then(|| Ordered {
            delimiter,
            ignores_nulls: call.ignore_nulls(),
            item: Arc::clone(item),
            keys: keys.clone(),
            keys_item: Arc::clone(keys_item),
            options: call.order_bys().iter().map(|order| order.options).collect(),
        })
    }

    pub(crate) fn accumulator(&self) -> Box<dyn GroupsAccumulator> {
        Box::new(self.empty())
    }

    fn empty(&self) -> Accumulator {
        let columns = vec![Vec::new(); 1 + self.keys.len()];
        Accumulator { call: self.clone(), columns, groups: Vec::new(), groups_total: 0, bytes: 0 }
    }
}

/// The rows of all groups, as they came.
struct Accumulator {
    call: Ordered,
    /// Batches of the values, and of each key.
    columns: Vec<Vec<ArrayRef>>,
    /// The group of each row.
    groups: Vec<u32>,
    groups_total: usize,
    /// In the batches.
    bytes: usize,
}

/// The rows in order.
struct InOrder {
    values: ArrayRef,
    keys: Vec<ArrayRef>,
    rows: UInt32Array,
    /// Where the rows of each group begin.
    offsets: OffsetBuffer<i32>,
}

impl Accumulator {
    fn add(&mut self, columns: &[&ArrayRef], groups: impl Iterator<Item = usize>, groups_total: usize) -> Result<()> {
        self.groups_total = self.groups_total.max(groups_total);
        self.groups.extend(groups.map(|group| group as u32));
        if i32::try_from(self.groups.len().max(groups_total)).is_err() {
            return exec_err!("more values in groups than a list array holds");
        }
        for (column, batches) in columns.iter().zip(&mut self.columns).filter(|(column, _)| !column.is_empty()) {
            self.bytes += column.get_array_memory_size();
            batches.push(Arc::clone(column));
        }
        Ok(())
    }

    /// None are left.
    fn take(&mut self) -> Result<InOrder> {
        let Accumulator { columns, groups, groups_total, call, .. } = std::mem::replace(self, self.call.empty());
        let types = std::iter::once(call.item.data_type()).chain(call.keys.iter().map(|key| key.data_type()));
        let whole = |(batches, ty): (Vec<ArrayRef>, &DataType)| match batches.as_slice() {
            [] => Ok(arrow::array::new_empty_array(ty)),
            [batch] => Ok(Arc::clone(batch)),
            batches => Ok(concat(&batches.iter().map(AsRef::as_ref).collect::<Vec<_>>())?),
        };
        let mut columns = columns.into_iter().zip(types).map(whole).collect::<Result<Vec<_>>>()?;
        let values = columns.remove(0);
        let mut counts = vec![0_usize; groups_total];
        groups.iter().for_each(|group| counts[*group as usize] += 1);
        let offsets = OffsetBuffer::<i32>::from_lengths(counts);
        let mut next: Vec<i32> = offsets[..groups_total].to_vec();
        let mut rows = vec![0_u32; groups.len()];
        for (row, group) in (0..).zip(groups) {
            let place = &mut next[group as usize];
            rows[*place as usize] = row;
            *place += 1;
        }
        call.sort(&columns, &mut rows, &offsets)?;
        Ok(InOrder { values, keys: columns, rows: rows.into(), offsets })
    }
}

impl Ordered {
    /// Puts the rows of each group in order. Those with the same keys stay in the order in which they came.
    fn sort(&self, keys: &[ArrayRef], rows: &mut [u32], offsets: &[i32]) -> Result<()> {
        if offsets.windows(2).all(|ends| ends[1] - ends[0] < 2) {
            return Ok(());
        }
        let fields = self.keys.iter().zip(&self.options);
        let fields = fields.map(|(key, options)| SortField::new_with_options(key.data_type().clone(), *options));
        let keys = RowConverter::new(fields.collect())?.convert_columns(keys)?;
        for ends in offsets.windows(2) {
            let of_group = &mut rows[ends[0] as usize..ends[1] as usize];
            if !of_group.is_sorted_by(|a, b| keys.row(*a as usize) <= keys.row(*b as usize)) {
                of_group.sort_unstable_by(|a, b| keys.row(*a as usize).cmp(&keys.row(*b as usize)).then(a.cmp(b)));
            }
        }
        Ok(())
    }
}

impl InOrder {
    fn lists(&self, item: &FieldRef) -> Result<ArrayRef> {
        let has_some = self.offsets.windows(2).map(|ends| ends[0] < ends[1]).collect();
        let values = take(&self.values, &self.rows, None)?;
        let nulls = Some(NullBuffer::new(has_some)).filter(|valid| valid.null_count() > 0);
        Ok(Arc::new(ListArray::try_new(Arc::clone(item), self.offsets.clone(), values, nulls)?))
    }

    fn lists_of_keys(&self, item: &FieldRef, fields: &Fields) -> Result<ArrayRef> {
        let keys = self.keys.iter().map(|key| Ok(take(key, &self.rows, None)?)).collect::<Result<Vec<_>>>()?;
        let keys = StructArray::try_new(fields.clone(), keys, None)?;
        Ok(Arc::new(ListArray::try_new(Arc::clone(item), self.offsets.clone(), Arc::new(keys), None)?))
    }

    /// The texts of each group that are not null; null where there are none.
    fn joined<'a>(&self, texts: impl ArrayAccessor<Item = &'a str>, delimiter: &str) -> LargeStringArray {
        let mut joined = GenericStringBuilder::new();
        let mut text = String::new();
        for ends in self.offsets.windows(2) {
            text.clear();
            let mut is_first = true;
            let rows = &self.rows.values()[ends[0] as usize..ends[1] as usize];
            for row in rows.iter().map(|row| *row as usize).filter(|row| texts.is_valid(*row)) {
                if !std::mem::take(&mut is_first) {
                    text.push_str(delimiter);
                }
                text.push_str(texts.value(row));
            }
            joined.append_option((!is_first).then_some(&text));
        }
        joined.finish()
    }
}

impl GroupsAccumulator for Accumulator {
    /// The first of `values` are the values, the last are the keys; a delimiter is between them.
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        groups_total: usize,
    ) -> Result<()> {
        let keys = &values[values.len() - self.call.keys.len()..];
        let columns: Vec<&ArrayRef> = std::iter::once(&values[0]).chain(keys).collect();
        let valid = self.call.ignores_nulls.then(|| values[0].logical_nulls()).flatten();
        let Included::Some(included) = Included::of(valid.as_ref(), filter) else {
            return self.add(&columns, group_indices.iter().copied(), groups_total);
        };
        let groups = included.set_indices().map(|row| group_indices[row]);
        let filter = BooleanArray::new(included.clone(), None);
        let columns = columns.into_iter().map(|column| Ok(compute::filter(column, &filter)?));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        self.add(&columns.iter().collect::<Vec<_>>(), groups, groups_total)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], group_indices: &[usize], groups_total: usize) -> Result<()> {
        let (lists, keys) = (values[0].as_list::<i32>(), values[1].as_list::<i32>());
        let (mut of_values, mut of_keys, mut groups) = (Vec::new(), Vec::new(), Vec::new());
        for (row, group) in group_indices.iter().enumerate().filter(|(row, _)| lists.is_valid(*row)) {
            let range = |lists: &ListArray| {
                let offsets = lists.value_offsets();
                offsets[row] as u32..offsets[row + 1] as u32
            };
            if range(lists).len() != range(keys).len() {
                return internal_err!("a state has other keys than values");
            }
            of_values.extend(range(lists));
            of_keys.extend(range(keys));
            groups.resize(of_values.len(), *group);
        }
        let (of_values, of_keys) = (UInt32Array::from(of_values), UInt32Array::from(of_keys));
        let mut columns = vec![take(lists.values(), &of_values, None)?];
        for key in keys.values().as_struct().columns() {
            columns.push(take(key, &of_keys, None)?);
        }
        self.add(&columns.iter().collect::<Vec<_>>(), groups.into_iter(), groups_total)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        all(emit_to)?;
        let in_order = self.take()?;
        let Some(delimiter) = self.call.delimiter.as_deref() else { return in_order.lists(&self.call.item) };
        let texts = &in_order.values;
        Ok(Arc::new(match texts.data_type() {
            DataType::Utf8 => in_order.joined(texts.as_string::<i32>(), delimiter),
            DataType::LargeUtf8 => in_order.joined(texts.as_string::<i64>(), delimiter),
            _ => in_order.joined(texts.as_string_view(), delimiter),
        }))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        all(emit_to)?;
        let in_order = self.take()?;
        let keys = in_order.lists_of_keys(&self.call.keys_item, &self.call.keys)?;
        Ok(vec![in_order.lists(&self.call.item)?, keys])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows = values[0].len();
        let mut groups = self.call.empty();
        groups.update_batch(values, &(0..rows).collect::<Vec<_>>(), filter, rows)?;
        groups.state(EmitTo::All)
    }

    /// With what putting them in order takes: the columns once more, normalised keys, the rows and their groups.
    fn size(&self) -> usize {
        size_of::<Accumulator>() + 3 * self.bytes + (self.groups.capacity() + self.groups.len()) * size_of::<u32>()
    }
}
