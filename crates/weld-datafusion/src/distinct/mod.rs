//! Aggregates of distinct values beside compiled groups: `count(DISTINCT x)`, `sum(DISTINCT x)` and `avg(DISTINCT x)`.
//!
//! DataFusion has a set for each group, or one hash table of groups and integers. Here values are integers that sets
//! hold as bits where they lie close together ([`sets`]), and texts are integers after each different one has got a
//! number ([`codes`]). States are DataFusion's: a list of values for each group, so that either engine may make or
//! merge them.

mod bits;
mod codes;
mod each;
mod places;
mod sets;
mod table;
mod values;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListArray, PrimitiveArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Decimal128Type, Field, Float64Type, Int64Type, Schema, UInt64Type,
};
use datafusion::common::{Result, exec_err, internal_err};
use datafusion::functions_aggregate::{average::Avg, count::Count, sum::Sum};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

use places::Places;
use sets::Sets;
pub(crate) use values::Included;
use values::{Kind, Values};

/// So many values of lists are merged at a time.
const VALUES_TOGETHER: usize = 8192;

/// A call of an aggregate function of distinct values that this module computes.
#[derive(Clone, Debug)]
pub(crate) struct Distinct {
    function: Function,
    kind: Kind,
    /// The type of values in states, and of the result.
    value_type: DataType,
    result_type: DataType,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Function {
    Count,
    Sum,
    Avg,
}

/// The type in which these aggregates are given values of a type: texts as views, also those of dictionaries.
pub(crate) fn given_type(declared: &DataType) -> DataType {
    let values = match declared {
        DataType::Dictionary(_, entries) => entries,
        plain => plain,
    };
    values::as_views(values).unwrap_or_else(|| declared.clone())
}

impl Distinct {
    /// `None` if DataFusion's accumulators are to compute it. `input` is what the aggregate's values are computed of.
    pub(crate) fn of(call: &AggregateFunctionExpr, input: &Schema) -> Option<Distinct> {
        let function = call.fun().inner();
        let function = match () {
            () if function.is::<Count>() => Function::Count,
            () if function.is::<Sum>() => Function::Sum,
            () if function.is::<Avg>() => Function::Avg,
            () => return None,
        };
        let args = call.expressions();
        let states = call.state_fields().ok()?;
        let ([arg], [state]) = (args.as_slice(), states.as_slice()) else { return None };
        let DataType::List(item) = state.data_type() else { return None };
        let result_type = call.field().data_type().clone();
        let adds = |ty: &DataType| {
            let float = *ty == DataType::Float64;
            float || matches!(ty, DataType::Int64 | DataType::UInt64 | DataType::Decimal128(..))
        };
        let is_known = match function {
            Function::Count => true,
            Function::Sum => adds(item.data_type()) && result_type == *item.data_type(),
            Function::Avg => *item.data_type() == DataType::Float64 && result_type == DataType::Float64,
        };
        let arg_type = match arg.data_type(input).ok()? {
            DataType::Dictionary(_, entries) => *entries,
            plain => plain,
        };
        let is_same = std::mem::discriminant(&arg_type) == std::mem::discriminant(item.data_type());
        let is_plain = call.is_distinct() && call.order_bys().is_empty() && is_same;
        let kind = Kind::of(item.data_type())?;
        (is_known && is_plain).then(|| Distinct { function, kind, value_type: item.data_type().clone(), result_type })
    }

    /// Whether its values are numbers of at most a word.
    pub(crate) fn is_of_words(&self) -> bool {
        matches!(self.kind, Kind::Word { .. })
    }

    /// A `partial` aggregate's gives states, in which values may be repeated.
    pub(crate) fn accumulator(&self, partial: bool) -> Box<dyn GroupsAccumulator> {
        let (sets, values) = (Sets::new(partial), Values::new(self.kind));
        Box::new(Accumulator { call: self.clone(), partial, values, sets, groups: Vec::new(), codes: Vec::new() })
    }
}

/// The sets of all groups.
struct Accumulator {
    call: Distinct,
    partial: bool,
    values: Values,
    sets: Sets,
    /// The next pairs to add to the sets.
    groups: Vec<u32>,
    codes: Vec<u64>,
}

impl Accumulator {
    /// Adds the pairs to the sets.
    fn add(&mut self, groups_total: usize) -> Result<()> {
        if u32::try_from(groups_total).is_err() || self.values.are_too_many() {
            return exec_err!("more distinct values or groups than there are numbers for");
        }
        self.sets.add(&self.groups, &self.codes, groups_total);
        self.groups.clear();
        self.codes.clear();
        Ok(())
    }

    /// The sets and what stands for their values. None are left.
    fn take(&mut self) -> (Sets, Values) {
        let values = std::mem::replace(&mut self.values, Values::new(self.call.kind));
        (std::mem::replace(&mut self.sets, Sets::new(self.partial)), values)
    }
}

/// How many values each group has.
fn counts(sets: &Sets) -> impl Iterator<Item = i64> {
    sets.counts().into_iter().map(|count| count as i64)
}

/// What the values of each group add up to, null where there are none.
fn sums<T: ArrowPrimitiveType>(
    sets: &Sets,
    value: impl Fn(u64) -> T::Native,
    add: impl Fn(T::Native, T::Native) -> T::Native,
) -> PrimitiveArray<T> {
    let counts = sets.counts();
    let mut sums = vec![T::Native::default(); counts.len()];
    sets.for_each(|group, code| sums[group] = add(sums[group], value(code)));
    sums.into_iter().zip(counts).map(|(sum, count)| (count > 0).then_some(sum)).collect()
}

impl GroupsAccumulator for Accumulator {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        groups_total: usize,
    ) -> Result<()> {
        let values = values::plain(&values[0])?;
        let included = Included::of(values.nulls(), filter);
        match &included {
            Included::All => self.groups.extend(group_indices.iter().map(|group| *group as u32)),
            Included::Some(bits) => self.groups.extend(bits.set_indices().map(|row| group_indices[row] as u32)),
        }
        self.values.add_codes(&values, &included, None, &mut self.codes)?;
        self.add(groups_total)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], group_indices: &[usize], groups_total: usize) -> Result<()> {
        let lists = values[0].as_list::<i32>();
        let items = lists.values();
        let (first, last) = (lists.value_offsets()[0] as usize, lists.value_offsets()[lists.len()] as usize);
        let mut places = self.values.places(&items.slice(first, last - first));
        let mut waiting = 0..0;
        for (row, group) in group_indices.iter().enumerate().filter(|(row, _)| lists.is_valid(*row)) {
            let (mut start, end) = (lists.value_offsets()[row] as usize, lists.value_offsets()[row + 1] as usize);
            while start < end {
                if start != waiting.end || waiting.len() >= VALUES_TOGETHER {
                    self.merge(items, waiting, places.as_mut(), groups_total)?;
                    waiting = start..start;
                }
                let until = end.min(waiting.start + VALUES_TOGETHER);
                self.groups.extend((start..until).filter(|item| items.is_valid(*item)).map(|_| *group as u32));
                (start, waiting.end) = (until, until);
            }
        }
        self.merge(items, waiting, places.as_mut(), groups_total)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        all(emit_to)?;
        let (sets, values) = self.take();
        let (sets, bits) = (&sets, values.bits());
        let floats = |sets: &Sets| sums::<Float64Type>(sets, |code| f64::from_bits(bits(code)), |a, b| a + b);
        Ok(match (self.call.function, &self.call.result_type) {
            (Function::Count, _) => Arc::new(counts(sets).collect::<Int64Array>()),
            (Function::Sum, DataType::Int64) => {
                Arc::new(sums::<Int64Type>(sets, |code| bits(code) as i64, i64::wrapping_add))
            }
            (Function::Sum, DataType::UInt64) => Arc::new(sums::<UInt64Type>(sets, bits, u64::wrapping_add)),
            (Function::Sum, decimal @ DataType::Decimal128(..)) => {
                let sums = sums::<Decimal128Type>(sets, |code| values.wide(code) as i128, i128::wrapping_add);
                Arc::new(sums.with_data_type(decimal.clone()))
            }
            (Function::Sum, _) => Arc::new(floats(sets)),
            (Function::Avg, _) => {
                let mean = |(sum, count): (Option<f64>, i64)| sum.map(|sum| sum / count as f64);
                Arc::new(floats(sets).iter().zip(counts(sets)).map(mean).collect::<PrimitiveArray<Float64Type>>())
            }
        })
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        all(emit_to)?;
        let (sets, values) = self.take();
        let (offsets, codes) = lists(&sets)?;
        let values = values.into_array(codes, &self.call.value_type)?;
        Ok(vec![Arc::new(ListArray::try_new(item(&self.call.value_type), offsets, values, None)?)])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = values::plain(&values[0])?;
        let (lengths, values): (Vec<usize>, ArrayRef) = match Included::of(values.nulls(), filter) {
            Included::All => (vec![1; values.len()], values),
            Included::Some(bits) => {
                let lengths = bits.iter().map(usize::from).collect();
                (lengths, compute::filter(&values, &BooleanArray::new(bits, None))?)
            }
        };
        let values = values::retyped(&values, &self.call.value_type)?;
        let offsets = OffsetBuffer::from_lengths(lengths);
        Ok(vec![Arc::new(ListArray::try_new(item(&self.call.value_type), offsets, values, None)?)])
    }

    fn size(&self) -> usize {
        let waiting = self.groups.capacity() * size_of::<u32>() + self.codes.capacity() * size_of::<u64>();
        size_of::<Accumulator>() + self.sets.bytes() + self.values.bytes() + waiting
    }
}

impl Accumulator {
    /// Adds items of lists, of which those that are not null have their groups.
    fn merge(
        &mut self,
        items: &ArrayRef,
        range: std::ops::Range<usize>,
        places: Option<&mut Places>,
        groups_total: usize,
    ) -> Result<()> {
        let items = items.slice(range.start, range.len());
        self.values.add_codes(&items, &Included::of(items.nulls(), None), places, &mut self.codes)?;
        self.add(groups_total)
    }
}

/// The values of each group, one group after the other, and where each group's begin.
fn lists(sets: &Sets) -> Result<(OffsetBuffer<i32>, Vec<u64>)> {
    let counts = sets.counts();
    let total: usize = counts.iter().sum();
    if i32::try_from(total).is_err() {
        return exec_err!("more distinct values than a list array holds");
    }
    let offsets = OffsetBuffer::<i32>::from_lengths(counts);
    let mut next: Vec<usize> = offsets.iter().map(|offset| *offset as usize).collect();
    let mut codes = vec![0; total];
    sets.for_each(|group, code| {
        codes[next[group]] = code;
        next[group] += 1;
    });
    Ok((offsets, codes))
}

fn item(value_type: &DataType) -> Arc<Field> {
    Arc::new(Field::new_list_field(value_type.clone(), true))
}

/// Groups are handed out together: these accumulators are only used where they are.
pub(crate) fn all(emit_to: EmitTo) -> Result<()> {
    match emit_to {
        EmitTo::All => Ok(()),
        EmitTo::First(_) => internal_err!("this accumulator hands out all groups"),
    }
}
