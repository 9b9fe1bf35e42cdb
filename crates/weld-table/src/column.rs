//! A column on its way into a table: how its blocks are stored is known at its end, and one for all of them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::common::Result;
use datafusion::common::stats::Precision;

use crate::integers;
use crate::sketch::Sketch;
use crate::texts::{self, Interner};
use crate::zones::{Zones, ZonesBuilder};

/// How the blocks of a column are stored.
#[derive(Clone, Debug)]
pub(crate) enum Encoding {
    /// In the declared type.
    Plain,
    /// As integers of this type.
    Integers(DataType),
    /// As codes of texts.
    Codes {
        stored: DataType,
        /// The texts, `Utf8View`.
        values: ArrayRef,
    },
    /// Texts as `Utf8View`.
    Views {
        /// Whether more texts are distinct than there are codes.
        too_many: bool,
    },
}

/// A column of a table but for its blocks.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) declared: DataType,
    pub(crate) encoding: Encoding,
    pub(crate) zones: Zones,
    sketch: Sketch,
    /// What the values would take in the declared type.
    pub(crate) declared_bytes: usize,
    /// What the blocks and the dictionary take.
    pub(crate) stored_bytes: usize,
}

impl Column {
    /// The type of the blocks.
    pub(crate) fn stored_type(&self) -> &DataType {
        match &self.encoding {
            Encoding::Plain => &self.declared,
            Encoding::Integers(stored) | Encoding::Codes { stored, .. } => stored,
            Encoding::Views { .. } => &DataType::Utf8View,
        }
    }

    /// Stored values in the declared type; those that are in it already are left as they are.
    pub(crate) fn decode(&self, stored: &ArrayRef) -> Result<ArrayRef> {
        match &self.encoding {
            _ if *stored.data_type() == self.declared => Ok(Arc::clone(stored)),
            Encoding::Plain => Ok(Arc::clone(stored)),
            Encoding::Integers(_) => integers::convert(stored, &self.declared),
            Encoding::Codes { values, .. } => as_text(&texts::unpacked(stored, values)?, &self.declared),
            Encoding::Views { .. } => as_text(stored, &self.declared),
        }
    }

    /// How many values are distinct, null not among them.
    pub(crate) fn distinct(&self, rows: usize) -> Precision<usize> {
        match &self.encoding {
            Encoding::Codes { values, .. } => Precision::Exact(values.len()),
            _ if has_sketch(&self.declared) => {
                Precision::Inexact(self.sketch.count().min(rows - self.zones.null_count().min(rows)))
            }
            _ => Precision::Absent,
        }
    }
}

/// A column of which blocks are still to come.
#[derive(Debug)]
pub(crate) struct ColumnBuilder {
    declared: DataType,
    form: Form,
    /// In the form, but for integers that are narrower and codes that have their dictionary already.
    blocks: Vec<ArrayRef>,
    zones: ZonesBuilder,
    sketch: Sketch,
    declared_bytes: usize,
    stored_bytes: usize,
}

/// How blocks are stored as far as is known.
#[derive(Debug)]
enum Form {
    Plain,
    /// With the least and the greatest.
    Integers(Option<(i128, i128)>),
    Codes(Interner),
    Views {
        too_many: bool,
    },
}

impl ColumnBuilder {
    pub(crate) fn new(declared: &DataType, zone_rows: usize) -> ColumnBuilder {
        let form = match declared {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Form::Codes(Interner::default()),
            other if integers::width(other).is_some() => Form::Integers(None),
            _ => Form::Plain,
        };
        ColumnBuilder {
            declared: declared.clone(),
            form,
            blocks: Vec::new(),
            zones: ZonesBuilder::new(declared, zone_rows),
            sketch: Sketch::default(),
            declared_bytes: 0,
            stored_bytes: 0,
        }
    }

    /// Goes on behind `blocks` of `column`, which have `zones` zones; `dropped` is the block behind them, if there is
    /// one.
    pub(crate) fn reopen(
        column: &Column,
        blocks: Vec<ArrayRef>,
        dropped: Option<&ArrayRef>,
        (zones, zone_rows): (usize, usize),
    ) -> Result<ColumnBuilder> {
        let form = match &column.encoding {
            Encoding::Plain => Form::Plain,
            Encoding::Integers(_) => Form::Integers(column.zones.integers(zones)),
            Encoding::Codes { values, .. } => Form::Codes(Interner::of(values)),
            Encoding::Views { too_many } => Form::Views { too_many: *too_many },
        };
        let dropped = dropped.map_or(0, |block| declared_bytes(block, &column.declared));
        let mut builder = ColumnBuilder {
            declared: column.declared.clone(),
            form,
            blocks,
            zones: ZonesBuilder::of(&column.zones, zones, &column.declared, zone_rows),
            sketch: column.sketch.clone(),
            declared_bytes: column.declared_bytes.saturating_sub(dropped),
            stored_bytes: 0,
        };
        if matches!(builder.form, Form::Views { too_many: false }) {
            builder.try_codes();
        }
        builder.stored_bytes = builder.count_bytes();
        Ok(builder)
    }

    /// What the blocks take so far.
    pub(crate) fn stored_bytes(&self) -> usize {
        self.stored_bytes
    }

    /// Adds a block in the declared type.
    pub(crate) fn push(&mut self, block: &ArrayRef) -> Result<()> {
        self.zones.push(block)?;
        self.declared_bytes += declared_bytes(block, &self.declared);
        sketch(&mut self.sketch, block);
        let stored = match &mut self.form {
            Form::Plain => Arc::clone(block),
            Form::Integers(bounds) => {
                *bounds = hull([*bounds, integers::bounds(block)].into_iter());
                integers::convert(block, &integers::narrowest(&self.declared, *bounds))?
            }
            Form::Codes(interner) => {
                let texts = cast(block, &DataType::Utf8View)?;
                match interner.codes(texts.as_string_view()) {
                    Some(codes) => codes,
                    None => {
                        self.unpack(true)?;
                        texts::compact(texts.as_string_view())
                    }
                }
            }
            Form::Views { .. } => texts::compact(cast(block, &DataType::Utf8View)?.as_string_view()),
        };
        self.stored_bytes += self.own_bytes(&stored);
        self.blocks.push(stored);
        Ok(())
    }

    /// The column and its blocks.
    pub(crate) fn finish(mut self, rows: usize) -> Result<(Column, Vec<ArrayRef>)> {
        if matches!(&self.form, Form::Codes(interner) if !interner.pays(rows)) {
            self.unpack(false)?;
        }
        let (encoding, blocks): (Encoding, Result<Vec<ArrayRef>>) = match &self.form {
            Form::Plain => (Encoding::Plain, Ok(std::mem::take(&mut self.blocks))),
            Form::Integers(bounds) => {
                let stored = integers::narrowest(&self.declared, *bounds);
                let blocks = self.blocks.iter().map(|block| integers::convert(block, &stored)).collect();
                (Encoding::Integers(stored), blocks)
            }
            Form::Codes(interner) => {
                let (values, codes) = (interner.values(), interner.code_type());
                let blocks = self.blocks.iter().map(|block| texts::with_dictionary(block, &values, &codes)).collect();
                let stored = DataType::Dictionary(Box::new(codes), Box::new(DataType::Utf8View));
                (Encoding::Codes { stored, values }, blocks)
            }
            Form::Views { too_many } => (Encoding::Views { too_many: *too_many }, Ok(std::mem::take(&mut self.blocks))),
        };
        let blocks = blocks?;
        let own_bytes = blocks.iter().map(|block| self.own_bytes(block)).sum::<usize>();
        let dictionary =
            if let Encoding::Codes { values, .. } = &encoding { values.get_array_memory_size() } else { 0 };
        let column = Column {
            declared: self.declared,
            encoding,
            zones: self.zones.finish()?,
            sketch: self.sketch,
            declared_bytes: self.declared_bytes,
            stored_bytes: dictionary + own_bytes,
        };
        Ok((column, blocks))
    }

    /// Codes become texts again.
    fn unpack(&mut self, too_many: bool) -> Result<()> {
        if let Form::Codes(interner) = &self.form {
            let values = interner.values();
            for block in &mut self.blocks {
                *block = texts::compact(texts::unpacked(block, &values)?.as_string_view());
            }
            self.form = Form::Views { too_many };
            self.stored_bytes = self.count_bytes();
        }
        Ok(())
    }

    /// Texts become codes, if there are enough codes for them.
    fn try_codes(&mut self) {
        let mut interner = Interner::default();
        let codes = self.blocks.iter().map(|block| interner.codes(block.as_string_view()));
        match codes.collect::<Option<Vec<ArrayRef>>>() {
            Some(codes) => (self.blocks, self.form) = (codes, Form::Codes(interner)),
            None => self.form = Form::Views { too_many: true },
        }
    }

    fn count_bytes(&self) -> usize {
        self.blocks.iter().map(|block| self.own_bytes(block)).sum()
    }

    /// What a block takes, but for the dictionary that it shares.
    fn own_bytes(&self, block: &ArrayRef) -> usize {
        match self.form {
            Form::Codes(_) => texts::keys(block).get_array_memory_size(),
            _ => block.get_array_memory_size(),
        }
    }
}

fn hull(bounds: impl Iterator<Item = Option<(i128, i128)>>) -> Option<(i128, i128)> {
    bounds.flatten().reduce(|(a, b), (c, d)| (a.min(c), b.max(d)))
}

/// What stored values would take in the declared type, about.
fn declared_bytes(block: &ArrayRef, declared: &DataType) -> usize {
    match declared {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => text_bytes(block) + 16 * block.len(),
        other => match other.primitive_width() {
            Some(width) => width * block.len(),
            None => block.to_data().get_slice_memory_size().unwrap_or_else(|_| block.get_array_memory_size()),
        },
    }
}

fn text_bytes(block: &ArrayRef) -> usize {
    match block.data_type() {
        DataType::Utf8 => block
            .as_string::<i32>()
            .value_offsets()
            .last()
            .map_or(0, |end| (end - block.as_string::<i32>().value_offsets()[0]) as usize),
        DataType::LargeUtf8 => block
            .as_string::<i64>()
            .value_offsets()
            .last()
            .map_or(0, |end| (end - block.as_string::<i64>().value_offsets()[0]) as usize),
        DataType::Utf8View => block.as_string_view().lengths().map(|length| length as usize).sum(),
        DataType::Dictionary(..) => {
            let dictionary = block.as_any_dictionary();
            let lengths: Vec<u32> = dictionary.values().as_string_view().lengths().collect();
            let keys = dictionary.normalized_keys();
            keys.into_iter().map(|key| lengths.get(key).map_or(0, |length| *length as usize)).sum()
        }
        _ => 0,
    }
}

fn as_text(views: &ArrayRef, declared: &DataType) -> Result<ArrayRef> {
    if views.data_type() == declared { Ok(Arc::clone(views)) } else { Ok(cast(views, declared)?) }
}

fn has_sketch(declared: &DataType) -> bool {
    let is_text = matches!(declared, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    is_text || matches!(declared, DataType::Float32 | DataType::Float64) || integers::width(declared).is_some()
}

fn sketch(sketch: &mut Sketch, block: &ArrayRef) {
    match block.data_type() {
        DataType::Utf8 => block.as_string::<i32>().iter().flatten().for_each(|text| sketch.add_text(text)),
        DataType::LargeUtf8 => block.as_string::<i64>().iter().flatten().for_each(|text| sketch.add_text(text)),
        DataType::Utf8View => block.as_string_view().iter().flatten().for_each(|text| sketch.add_text(text)),
        DataType::Float32 => {
            block.as_primitive::<Float32Type>().iter().flatten().for_each(|value| sketch.add(value.to_bits().into()))
        }
        DataType::Float64 => {
            block.as_primitive::<Float64Type>().iter().flatten().for_each(|value| sketch.add(value.to_bits()))
        }
        _ => integers::each(block, |value| sketch.add(value)),
    }
}
