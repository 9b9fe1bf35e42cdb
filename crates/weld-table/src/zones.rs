//! Zones: the least and the greatest value and the number of nulls of every few thousand rows of a column.
//!
//! (Moerkotte: *Small Materialized Aggregates*, 1998.) What is not known, because a zone has a NaN or its texts are
//! long, is null, as it is where a zone has no value. Zeros of floats are widened to both signs: in Arrow's order one
//! is less than the other, in SQL's they are equal.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray, UInt64Array, new_null_array};
use arrow::compute::{
    cast, concat, max_boolean, max_string, max_string_view, min_boolean, min_string, min_string_view,
};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float32Type, Float64Type};
use datafusion::common::{Result, ScalarValue};

use crate::integers;

/// Longer texts are no bounds: what they would take is more than pruning by them gains.
const TEXT_BYTES_MAX: usize = 64;

/// The zones of a column, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Zones {
    /// The least and the greatest value of each zone in the declared type, if values of the type have an order here.
    pub(crate) bounds: Option<(ArrayRef, ArrayRef)>,
    pub(crate) nulls: UInt64Array,
    /// Whether a zone has values whose bounds are not known.
    has_unknown: bool,
}

/// Zones on their way into [`Zones`].
#[derive(Debug)]
pub(crate) struct ZonesBuilder {
    data_type: DataType,
    zone_rows: usize,
    bounds: Option<(Vec<ArrayRef>, Vec<ArrayRef>)>,
    nulls: Vec<u64>,
    has_unknown: bool,
}

impl ZonesBuilder {
    pub(crate) fn new(data_type: &DataType, zone_rows: usize) -> ZonesBuilder {
        let bounds = has_order(data_type).then(Default::default);
        ZonesBuilder { data_type: data_type.clone(), zone_rows, bounds, nulls: Vec::new(), has_unknown: false }
    }

    /// The first `count` zones of those that are there.
    pub(crate) fn of(zones: &Zones, count: usize, data_type: &DataType, zone_rows: usize) -> ZonesBuilder {
        let first = |array: &ArrayRef| vec![array.slice(0, count)];
        ZonesBuilder {
            data_type: data_type.clone(),
            zone_rows,
            bounds: zones.bounds.as_ref().map(|(min, max)| (first(min), first(max))),
            nulls: zones.nulls.values()[..count].to_vec(),
            has_unknown: zones.has_unknown,
        }
    }

    /// Adds the zones of a block.
    pub(crate) fn push(&mut self, block: &ArrayRef) -> Result<()> {
        let zones = || (0..block.len()).step_by(self.zone_rows);
        let zone = |start: usize| block.slice(start, self.zone_rows.min(block.len() - start));
        self.nulls.extend(zones().map(|start| zone(start).logical_null_count() as u64));
        let Some((all_min, all_max)) = &mut self.bounds else { return Ok(()) };
        let (min, max) = extremes(zones().map(zone), &self.data_type)?;
        let has_unknown = |start: usize| {
            let is_unknown = min.is_null(start / self.zone_rows) || max.is_null(start / self.zone_rows);
            is_unknown && zone(start).null_count() < zone(start).len()
        };
        self.has_unknown |= zones().any(has_unknown);
        all_min.push(min);
        all_max.push(max);
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<Zones> {
        let all = |arrays: Vec<ArrayRef>| -> Result<ArrayRef> {
            match arrays.is_empty() {
                true => Ok(new_null_array(&self.data_type, 0)),
                false => Ok(concat(&arrays.iter().map(AsRef::as_ref).collect::<Vec<_>>())?),
            }
        };
        let bounds = self.bounds.map(|(min, max)| Ok::<_, datafusion::error::DataFusionError>((all(min)?, all(max)?)));
        Ok(Zones { bounds: bounds.transpose()?, nulls: self.nulls.into(), has_unknown: self.has_unknown })
    }
}

impl Zones {
    /// The least and the greatest value of the column, if all zones have theirs.
    pub(crate) fn whole(&self, data_type: &DataType) -> Option<(ScalarValue, ScalarValue)> {
        let (min, max) = self.bounds.as_ref().filter(|_| !self.has_unknown)?;
        let of = |array: &ArrayRef| extremes([Arc::clone(array)].into_iter(), data_type).ok();
        let (min, max) = (of(min)?.0, of(max)?.1);
        let scalar = |array: &ArrayRef| ScalarValue::try_from_array(array, 0).ok().filter(|value| !value.is_null());
        Some((scalar(&min)?, scalar(&max)?))
    }

    /// The least and the greatest integer of the first `count` zones.
    pub(crate) fn integers(&self, count: usize) -> Option<(i128, i128)> {
        let (min, max) = self.bounds.as_ref()?;
        Some((integers::bounds(&min.slice(0, count))?.0, integers::bounds(&max.slice(0, count))?.1))
    }

    pub(crate) fn null_count(&self) -> usize {
        self.nulls.values().iter().sum::<u64>() as usize
    }
}

fn has_order(data_type: &DataType) -> bool {
    let is_other = matches!(
        data_type,
        DataType::Boolean
            | DataType::Float32
            | DataType::Float64
            | DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
    );
    is_other || integers::width(data_type).is_some()
}

/// The least and the greatest value of each zone.
fn extremes(zones: impl Iterator<Item = ArrayRef>, data_type: &DataType) -> Result<(ArrayRef, ArrayRef)> {
    match data_type {
        DataType::Boolean => {
            let of = |zone: ArrayRef| (min_boolean(zone.as_boolean()), max_boolean(zone.as_boolean()));
            let (min, max): (Vec<_>, Vec<_>) = zones.map(of).unzip();
            Ok((Arc::new(BooleanArray::from(min)), Arc::new(BooleanArray::from(max))))
        }
        DataType::Float32 => Ok(floats::<Float32Type>(zones, 0.0, f32::total_cmp)),
        DataType::Float64 => Ok(floats::<Float64Type>(zones, 0.0, f64::total_cmp)),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => texts(zones, data_type),
        _ => {
            let (min, max) = zones.map(|zone| integers::bounds(&zone).unzip()).unzip();
            Ok((integers::array_of(min, data_type)?, integers::array_of(max, data_type)?))
        }
    }
}

fn floats<T: ArrowPrimitiveType>(
    zones: impl Iterator<Item = ArrayRef>,
    zero: T::Native,
    order: impl Fn(&T::Native, &T::Native) -> std::cmp::Ordering,
) -> (ArrayRef, ArrayRef)
where
    T::Native: std::ops::Neg<Output = T::Native>,
{
    let of = |zone: ArrayRef| {
        let values = zone.as_primitive::<T>();
        // A NaN alone differs from itself.
        let has_nan = values.iter().flatten().any(|value| value.partial_cmp(&value).is_none());
        let known = || values.iter().flatten().filter(|_| !has_nan);
        let min = known().min_by(&order).map(|min| if min == zero { -zero } else { min });
        let max = known().max_by(&order).map(|max| if max == zero { zero } else { max });
        (min, max)
    };
    let (min, max): (Vec<_>, Vec<_>) = zones.map(of).unzip();
    (Arc::new(PrimitiveArray::<T>::from_iter(min)), Arc::new(PrimitiveArray::<T>::from_iter(max)))
}

fn texts(zones: impl Iterator<Item = ArrayRef>, data_type: &DataType) -> Result<(ArrayRef, ArrayRef)> {
    let short = |text: Option<&str>| text.filter(|text| text.len() <= TEXT_BYTES_MAX).map(str::to_owned);
    let of = |zone: ArrayRef| match data_type {
        DataType::Utf8 => (short(min_string(zone.as_string::<i32>())), short(max_string(zone.as_string::<i32>()))),
        DataType::LargeUtf8 => (short(min_string(zone.as_string::<i64>())), short(max_string(zone.as_string::<i64>()))),
        _ => (short(min_string_view(zone.as_string_view())), short(max_string_view(zone.as_string_view()))),
    };
    let (min, max): (Vec<_>, Vec<_>) = zones.map(of).unzip();
    let array = |texts: Vec<Option<String>>| -> Result<ArrayRef> {
        Ok(cast(&arrow::array::StringViewArray::from_iter(texts), data_type)?)
    };
    Ok((array(min)?, array(max)?))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Date32Array, Float64Array, Int64Array, StringArray};

    use super::*;

    fn zones_of(array: ArrayRef, zone_rows: usize) -> Zones {
        let mut builder = ZonesBuilder::new(array.data_type(), zone_rows);
        builder.push(&array).expect("a block");
        builder.finish().expect("zones")
    }

    #[test]
    fn every_zone_has_its_bounds() {
        let array: ArrayRef = Arc::new(Int64Array::from(vec![Some(5), Some(-1), None, None, Some(7)]));
        let zones = zones_of(Arc::clone(&array), 2);
        let (min, max) = zones.bounds.as_ref().expect("integers have an order");
        let (least, greatest): (ArrayRef, ArrayRef) = (
            Arc::new(Int64Array::from(vec![Some(-1), None, Some(7)])),
            Arc::new(Int64Array::from(vec![Some(5), None, Some(7)])),
        );
        assert_eq!((min, max), (&least, &greatest));
        assert_eq!((zones.nulls.values().to_vec(), zones.null_count()), (vec![0, 2, 0], 2));
        assert_eq!(zones.whole(array.data_type()), Some((ScalarValue::from(-1i64), ScalarValue::from(7i64))));
    }

    #[test]
    fn zones_follow_each_other_and_begin_again() {
        let block: ArrayRef = Arc::new(Date32Array::from(vec![3, 1, 2]));
        let mut builder = ZonesBuilder::new(block.data_type(), 2);
        builder.push(&block.slice(0, 2)).expect("a block");
        builder.push(&block.slice(2, 1)).expect("a block");
        let all = builder.finish().expect("zones");
        let mut again = ZonesBuilder::of(&all, 1, block.data_type(), 2);
        again.push(&block.slice(2, 1)).expect("a block");
        let again = again.finish().expect("zones");
        assert_eq!(format!("{:?}", again.bounds), format!("{:?}", all.bounds));
        assert_eq!(all.whole(block.data_type()).expect("bounds").1, ScalarValue::Date32(Some(3)));
    }

    #[test]
    fn nans_have_no_bounds_and_zeros_have_both_signs() {
        let array: ArrayRef = Arc::new(Float64Array::from(vec![0.0, 1.0, f64::NAN, 2.0, -1.0, -0.0]));
        let zones = zones_of(Arc::clone(&array), 2);
        let (min, max) = zones.bounds.as_ref().expect("floats have an order");
        let bits = |array: &ArrayRef| {
            let values = array.as_primitive::<Float64Type>();
            values.iter().map(|value| value.map(f64::to_bits)).collect::<Vec<_>>()
        };
        assert_eq!(bits(min), [Some((-0.0f64).to_bits()), None, Some((-1.0f64).to_bits())]);
        assert_eq!(bits(max), [Some(1.0f64.to_bits()), None, Some(0.0f64.to_bits())]);
        assert_eq!(zones.whole(array.data_type()), None);
    }

    #[test]
    fn long_texts_are_no_bounds() {
        let long = "x".repeat(TEXT_BYTES_MAX + 1);
        let array: ArrayRef = Arc::new(StringArray::from(vec![Some("b"), Some("a"), Some(&long), None]));
        let zones = zones_of(Arc::clone(&array), 2);
        let (min, _) = zones.bounds.as_ref().expect("texts have an order");
        let least: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
        assert_eq!((min, zones.whole(array.data_type())), (&least, None));
        let nothing: ArrayRef = Arc::new(StringArray::from(Vec::<Option<&str>>::new()));
        assert_eq!(zones_of(nothing, 2).whole(&DataType::Utf8), None);
    }
}
