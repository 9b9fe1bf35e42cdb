//! The states of groups, for operators of DataFusion: of many groups, and of one.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, GenericListArray, OffsetSizeTrait, UInt32Array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::take;
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, exec_err, internal_datafusion_err};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

use super::columns::Column;
use super::kernels::{Kernels, Ranges};
use crate::function::{Declared, nested};

/// The states of groups.
#[derive(Debug)]
pub(super) struct Groups {
    declared: Declared,
    kernels: Arc<Kernels>,
    columns: Vec<Column>,
    /// Which groups have rows. The others' states are those without rows.
    have_rows: Vec<bool>,
    /// The place of each group among those of a batch; [`NONE`] between batches.
    places: Vec<u32>,
}

const NONE: u32 = u32::MAX;

/// The rows of a batch, by their groups.
struct Grouped {
    groups: Vec<usize>,
    ranges: Ranges,
    /// The rows in the order of their groups; none where they are in it and none is left out.
    order: Option<UInt32Array>,
}

impl Groups {
    pub(super) fn new(declared: Declared, kernels: Arc<Kernels>) -> Groups {
        let columns = kernels.state_types().map(Column::new).collect();
        Groups { declared, kernels, columns, have_rows: Vec::new(), places: Vec::new() }
    }

    /// Makes so many groups.
    fn grow(&mut self, total: usize) -> Result<()> {
        let Some(more) = total.checked_sub(self.have_rows.len()).filter(|more| *more > 0) else { return Ok(()) };
        for (column, first) in self.columns.iter_mut().zip(self.kernels.init()?) {
            column.extend(&first, more)?;
        }
        self.have_rows.resize(total, false);
        self.places.resize(total, NONE);
        Ok(())
    }

    /// The rows that are selected, by their groups.
    fn grouped(&mut self, of_rows: &[usize], selected: Option<&BooleanBuffer>) -> Grouped {
        let is_selected = |row: usize| selected.is_none_or(|selected| selected.value(row));
        let (mut groups, mut counts) = (Vec::new(), Vec::new());
        let (mut in_order, mut last) = (true, 0);
        for (row, group) in of_rows.iter().enumerate() {
            if !is_selected(row) {
                in_order = false;
                continue;
            }
            let place = &mut self.places[*group];
            if *place == NONE {
                *place = groups.len() as u32;
                groups.push(*group);
                counts.push(0i64);
            }
            counts[*place as usize] += 1;
            in_order &= *place >= last;
            last = *place;
        }
        let mut next = 0;
        let mut starts = Vec::with_capacity(counts.len());
        for count in &counts {
            starts.push(next);
            next += count;
        }
        let order = (!in_order).then(|| {
            let mut free = starts.clone();
            let mut order = vec![0u32; next as usize];
            for (row, group) in of_rows.iter().enumerate().filter(|(row, _)| is_selected(*row)) {
                let at = &mut free[self.places[*group] as usize];
                order[*at as usize] = row as u32;
                *at += 1;
            }
            UInt32Array::from(order)
        });
        groups.iter().for_each(|group| self.places[*group] = NONE);
        Grouped { groups, ranges: Ranges { starts, counts }, order }
    }

    fn states(&self, groups: &[usize]) -> Result<Vec<ArrayRef>> {
        self.columns.iter().map(|column| column.get(groups, None)).collect()
    }

    fn set(&mut self, groups: &[usize], states: &[ArrayRef]) -> Result<()> {
        groups.iter().for_each(|group| self.have_rows[*group] = true);
        self.columns.iter_mut().zip(states).try_for_each(|(column, states)| column.set(groups, states))
    }

    /// The intermediate states of the first groups; null of those without rows.
    fn given(&self, groups: usize) -> Result<Vec<ArrayRef>> {
        let nulls = NullBuffer::from(&self.have_rows[..groups]);
        let nulls = Some(nulls).filter(|nulls| nulls.null_count() > 0);
        let groups: Vec<usize> = (0..groups).collect();
        self.columns.iter().map(|column| column.get(&groups, nulls.clone())).collect()
    }

    /// The results of the first groups; null of those without rows.
    fn results(&self, groups: usize) -> Result<ArrayRef> {
        let with_rows: Vec<usize> = (0..groups).filter(|group| self.have_rows[*group]).collect();
        if with_rows.is_empty() {
            return Ok(arrow::array::new_null_array(&self.declared.result, groups));
        }
        let results = self.kernels.finish(self.states(&with_rows)?)?;
        if with_rows.len() == groups {
            return Ok(results);
        }
        let mut places = 0u32..;
        let place = |has_rows: &bool| if *has_rows { places.next() } else { None };
        let places: UInt32Array = self.have_rows[..groups].iter().map(place).collect();
        Ok(take(&results, &places, None)?)
    }

    /// How many groups are handed out.
    fn emitted(&self, emit_to: EmitTo) -> usize {
        match emit_to {
            EmitTo::All => self.have_rows.len(),
            EmitTo::First(groups) => groups,
        }
    }

    fn drop_first(&mut self, groups: usize) {
        self.columns.iter_mut().for_each(|column| column.drop_first(groups));
        self.have_rows = self.have_rows.split_off(groups);
        self.places = vec![NONE; self.have_rows.len()];
    }

    /// Lists of any length are passed to parameters of a fixed size as they are.
    fn check_sizes(&self, args: &[ArrayRef]) -> Result<()> {
        args.iter()
            .zip(&self.declared.params)
            .try_for_each(|(arg, declared)| check_size(arg, declared, &self.declared.name))
    }
}

fn check_size(arg: &ArrayRef, declared: &DataType, name: &str) -> Result<()> {
    if let (Some(rows), DataType::Struct(fields)) = (arg.as_struct_opt(), declared) {
        let mut columns = rows.columns().iter().zip(fields);
        return columns.try_for_each(|(column, field)| check_size(column, field.data_type(), name));
    }
    let DataType::FixedSizeList(_, size) = declared else { return Ok(()) };
    let is_wrong = |found: &i64| *found != i64::from(*size);
    let wrong = match arg.data_type() {
        DataType::List(_) => lengths(arg.as_list::<i32>()).find(is_wrong),
        DataType::LargeList(_) => lengths(arg.as_list::<i64>()).find(is_wrong),
        _ => None,
    };
    match wrong {
        Some(found) => exec_err!("{name}: an argument has {found} elements, not {size}"),
        None => Ok(()),
    }
}

fn lengths<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> impl Iterator<Item = i64> {
    lists.offsets().lengths().map(|length| length as i64)
}

/// The rows whose arguments are there and for which the filter holds; none where all do.
fn selected(args: &[ArrayRef], filter: Option<&BooleanArray>) -> Option<BooleanBuffer> {
    let mut nulls: Option<NullBuffer> = None;
    for arg in args {
        nulls = NullBuffer::union(nulls.as_ref(), arg.logical_nulls().filter(|nulls| nulls.null_count() > 0).as_ref());
    }
    let there = nulls.map(|nulls| nulls.into_inner());
    let passes = filter.map(|filter| match filter.nulls() {
        Some(nulls) => filter.values() & nulls.inner(),
        None => filter.values().clone(),
    });
    match (there, passes) {
        (Some(there), Some(passes)) => Some(&there & &passes),
        (there, passes) => there.or(passes),
    }
}

fn in_order(arrays: &[ArrayRef], order: Option<&UInt32Array>) -> Result<Vec<ArrayRef>> {
    let Some(order) = order else { return Ok(arrays.to_vec()) };
    Ok(arrays.iter().map(|array| take(array, order, None)).collect::<std::result::Result<_, _>>()?)
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        of_rows: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.grow(total)?;
        // What rows are ordered by may follow.
        let values = &values[..self.declared.params.len().min(values.len())];
        let grouped = self.grouped(of_rows, selected(values, filter).as_ref());
        if grouped.groups.is_empty() {
            return Ok(());
        }
        let mut args = in_order(values, grouped.order.as_ref())?;
        for (arg, declared) in args.iter_mut().zip(&self.declared.params) {
            *arg = nested::converted(arg, declared)?;
        }
        self.check_sizes(&args)?;
        let states = self.kernels.fold(self.states(&grouped.groups)?, grouped.ranges, &args)?;
        self.set(&grouped.groups, &states)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], of_rows: &[usize], total: usize) -> Result<()> {
        self.grow(total)?;
        let grouped = self.grouped(of_rows, selected(states, None).as_ref());
        if grouped.groups.is_empty() {
            return Ok(());
        }
        let others = in_order(states, grouped.order.as_ref())?;
        let fresh = grouped.groups.iter().map(|group| !self.have_rows[*group]).collect();
        let merged = self.kernels.merge(self.states(&grouped.groups)?, grouped.ranges, fresh, &others)?;
        self.set(&grouped.groups, &merged)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let groups = self.emitted(emit_to);
        let results = self.results(groups)?;
        self.drop_first(groups);
        Ok(results)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let groups = self.emitted(emit_to);
        let states = self.given(groups)?;
        self.drop_first(groups);
        Ok(states)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows = values.first().map_or(0, |values| values.len());
        let mut alone = Groups::new(self.declared.clone(), Arc::clone(&self.kernels));
        let groups: Vec<usize> = (0..rows).collect();
        alone.update_batch(values, &groups, filter, rows)?;
        alone.given(rows)
    }

    fn size(&self) -> usize {
        let columns: usize = self.columns.iter().map(Column::size).sum();
        columns + self.have_rows.capacity() + self.places.capacity() * size_of::<u32>()
    }
}

/// The state of all rows.
#[derive(Debug)]
pub(super) struct OneGroup(pub(super) Groups);

impl Accumulator for OneGroup {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = values.first().map_or(0, |values| values.len());
        self.0.update_batch(values, &vec![0; rows], None, 1)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.grow(1)?;
        ScalarValue::try_from_array(&self.0.results(1)?, 0)
    }

    fn size(&self) -> usize {
        size_of::<OneGroup>() + GroupsAccumulator::size(&self.0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.grow(1)?;
        self.0.given(1)?.iter().map(|state| ScalarValue::try_from_array(state, 0)).collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let rows = states.first().ok_or_else(|| internal_datafusion_err!("a state without columns"))?.len();
        self.0.merge_batch(states, &vec![0; rows], 1)
    }
}
