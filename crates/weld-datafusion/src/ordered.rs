//! `array_agg` and `string_agg` with ORDER BY, and with DISTINCT as well, beside compiled groups.
//!
//! DataFusion has an accumulator for each group, which keeps a `ScalarValue` of each value and each key of the order, or
//! a hash table of the distinct values, which are their own keys. Here the rows of all groups are kept in columns. When
//! groups are handed out, rows are put in order of their groups by counting, and those of a group in order of their
//! normalised keys; equal ones are neighbours then. States are DataFusion's: the values of each group and their keys, so
//! that either engine may make or merge them.

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
    /// Without them values are put in order by themselves, each once.
    keys: Option<Keys>,
    options: Vec<SortOptions>,
}

/// The keys of an order in states.
#[derive(Clone, Debug)]
struct Keys {
    /// Of the lists of them.
    item: FieldRef,
    /// Of the structs in these.
    fields: Fields,
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
        let is_plain =
            |ty: &DataType| !ty.is_nested() && !matches!(ty, DataType::Dictionary(..) | DataType::RunEndEncoded(..));
        let list_of = |field: &FieldRef| match field.data_type() {
            DataType::List(item) => Some(Arc::clone(item)),
            _ => None,
        };
        let states = call.state_fields().ok()?;
        let (item, keys) = match states.as_slice() {
            [values] if call.is_distinct() => {
                let [order] = call.order_bys() else { return None };
                let item = list_of(values).filter(|item| is_plain(item.data_type()) && order.expr.eq(&args[0]))?;
                (item, None)
            }
            [values, keys] => {
                let (values, item) = (list_of(values)?, list_of(keys)?);
                let DataType::Struct(fields) = item.data_type() else { return None };
                let is_known = !matches!(values.data_type(), DataType::Dictionary(..) | DataType::RunEndEncoded(..))
                    && fields.iter().all(|key| is_plain(key.data_type()));
                let fields = fields.clone();
                (is_known.then_some(values)?, Some(Keys { item, fields }))
            }
            // Without an order.
            _ => return None,
        };
        (!call.is_reversed()).then(|| Ordered {
            delimiter,
            ignores_nulls: call.ignore_nulls(),
            item,
            keys,
            options: call.order_bys().iter().map(|order| order.options).collect(),
        })
    }

    /// Whether values come once each.
    pub(crate) fn is_distinct(&self) -> bool {
        self.keys.is_none()
    }

    pub(crate) fn accumulator(&self) -> Box<dyn GroupsAccumulator> {
        Box::new(self.empty())
    }

    /// The fields of the keys that come beside the values.
    fn keys(&self) -> &[FieldRef] {
        self.keys.as_ref().map_or(&[], |keys| &keys.fields)
    }

    fn empty(&self) -> Accumulator {
        let columns = vec![Vec::new(); 1 + self.keys().len()];
        Accumulator {
            call: self.clone(),
            columns,
            groups: Vec::new(),
            groups_total: 0,
            bytes: 0,
            rows_max: ROWS_WITH_DUPLICATES,
        }
    }
}

/// From so many rows on, equal ones of a group are left out before groups are handed out: DataFusion's hash tables have
/// them once.
const ROWS_WITH_DUPLICATES: usize = 1 << 16;

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
    /// With more rows, those that come again are left out, if values come once each.
    rows_max: usize,
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
        if self.call.is_distinct() && self.groups.len() > self.rows_max {
            self.leave_duplicates_out()?;
        }
        Ok(())
    }

    fn leave_duplicates_out(&mut self) -> Result<()> {
        let groups_total = self.groups_total;
        let in_order = self.take()?;
        let lengths = in_order.offsets.windows(2).map(|ends| (ends[1] - ends[0]) as usize);
        let groups = (0..).zip(lengths).flat_map(|(group, rows)| std::iter::repeat_n(group, rows));
        // As many rows again as were left come before all are put in order once more.
        self.rows_max = ROWS_WITH_DUPLICATES.max(2 * in_order.rows.len());
        let once = take(&in_order.values, &in_order.rows, None)?;
        // Views would keep the texts that were left out.
        let once: ArrayRef = match once.data_type() {
            DataType::Utf8View => Arc::new(once.as_string_view().gc()),
            DataType::BinaryView => Arc::new(once.as_binary_view().gc()),
            _ => once,
        };
        self.add(&[&once], groups, groups_total)
    }

    /// None are left.
    fn take(&mut self) -> Result<InOrder> {
        let Accumulator { columns, groups, groups_total, call, .. } = std::mem::replace(self, self.call.empty());
        let types = std::iter::once(call.item.data_type()).chain(call.keys().iter().map(|key| key.data_type()));
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
        let keys = if call.is_distinct() { std::slice::from_ref(&values) } else { &columns };
        let (rows, offsets) = call.sorted(keys, rows, offsets)?;
        Ok(InOrder { values, keys: columns, rows: rows.into(), offsets })
    }
}

impl Ordered {
    /// The rows of each group in order. Those with the same keys stay in the order in which they came; if values come
    /// once each, the first of them is left.
    fn sorted(
        &self,
        keys: &[ArrayRef],
        mut rows: Vec<u32>,
        offsets: OffsetBuffer<i32>,
    ) -> Result<(Vec<u32>, OffsetBuffer<i32>)> {
        if offsets.windows(2).all(|ends| ends[1] - ends[0] < 2) {
            return Ok((rows, offsets));
        }
        let fields = keys.iter().zip(&self.options);
        let fields = fields.map(|(key, options)| SortField::new_with_options(key.data_type().clone(), *options));
        let keys = RowConverter::new(fields.collect())?.convert_columns(keys)?;
        let key = |row: &u32| keys.row(*row as usize);
        for ends in offsets.windows(2) {
            let of_group = &mut rows[ends[0] as usize..ends[1] as usize];
            if !of_group.is_sorted_by(|a, b| key(a) <= key(b)) {
                of_group.sort_unstable_by(|a, b| key(a).cmp(&key(b)).then(a.cmp(b)));
            }
        }
        if !self.is_distinct() {
            return Ok((rows, offsets));
        }
        let (mut once, mut lengths) = (Vec::with_capacity(rows.len()), Vec::with_capacity(offsets.len()));
        for ends in offsets.windows(2) {
            let before = once.len();
            for row in &rows[ends[0] as usize..ends[1] as usize] {
                if once[before..].last().is_none_or(|last| key(last) != key(row)) {
                    once.push(*row);
                }
            }
            lengths.push(once.len() - before);
        }
        Ok((once, OffsetBuffer::from_lengths(lengths)))
    }
}

impl InOrder {
    fn lists(&self, item: &FieldRef) -> Result<ArrayRef> {
        let has_some = self.offsets.windows(2).map(|ends| ends[0] < ends[1]).collect();
        let values = take(&self.values, &self.rows, None)?;
        let nulls = Some(NullBuffer::new(has_some)).filter(|valid| valid.null_count() > 0);
        Ok(Arc::new(ListArray::try_new(Arc::clone(item), self.offsets.clone(), values, nulls)?))
    }

    fn lists_of_keys(&self, Keys { item, fields }: &Keys) -> Result<ArrayRef> {
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
        let keys = &values[values.len() - self.call.keys().len()..];
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
        let lists: Vec<&ListArray> = values.iter().map(|lists| lists.as_list::<i32>()).collect();
        let (mut places, mut groups) = (vec![Vec::new(); lists.len()], Vec::new());
        for (row, group) in group_indices.iter().enumerate().filter(|(row, _)| lists[0].is_valid(*row)) {
            for (lists, places) in lists.iter().zip(&mut places) {
                let offsets = lists.value_offsets();
                places.extend(offsets[row] as u32..offsets[row + 1] as u32);
            }
            groups.resize(places[0].len(), *group);
            if places.iter().any(|places| places.len() != groups.len()) {
                return internal_err!("a state has other keys than values");
            }
        }
        let mut places = places.into_iter().map(UInt32Array::from);
        let mut columns = Vec::new();
        for (lists, places) in lists.iter().zip(&mut places) {
            let structs = lists.values().as_struct_opt().filter(|_| !columns.is_empty());
            let parts = structs.map_or(std::slice::from_ref(lists.values()), StructArray::columns);
            for part in parts {
                columns.push(take(part, &places, None)?);
            }
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
        let values = in_order.lists(&self.call.item)?;
        let keys = self.call.keys.as_ref().map(|keys| in_order.lists_of_keys(keys)).transpose()?;
        Ok([values].into_iter().chain(keys).collect())
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

#[cfg(test)]
mod tests {
    use arrow::array::StringViewArray;
    use arrow::datatypes::Field;

    use super::*;

    /// Nor do the texts that were left out stay in memory.
    #[test]
    fn values_that_come_again_are_left_out_while_rows_come() {
        let item = Arc::new(Field::new_list_field(DataType::Utf8View, true));
        let options = vec![SortOptions::default()];
        let call = Ordered { delimiter: Some(",".into()), ignores_nulls: false, item, keys: None, options };
        let mut groups = call.empty();
        let text = |row: usize| format!("a text that is longer than a view, number {}", row % 5);
        for _ in 0..40 {
            let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..8192).map(text)));
            groups.update_batch(&[texts], &[0, 1].repeat(4096), None, 2).expect("texts");
        }
        assert!(groups.groups.len() <= ROWS_WITH_DUPLICATES, "{} rows", groups.groups.len());
        // All 40 batches would take 58 million bytes.
        assert!(groups.size() < 20 << 20, "{} bytes", groups.size());
        let joined = groups.evaluate(EmitTo::All).expect("texts");
        let joined: Vec<&str> = joined.as_string::<i64>().iter().flatten().collect();
        let all = (0..5).map(text).collect::<Vec<_>>().join(",");
        assert_eq!(joined, [&all, &all]);
    }
}
