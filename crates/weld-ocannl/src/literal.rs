//! Literals of several elements: which axes they have, and that all parts are alike.
//!
//! `[ (1, 2, 3); (4, 5, 6) ]` has an output axis of 2 and an input axis of 3.

use weld_core::diag::{Diagnostic, Span};

use crate::tree::{AxisKind, Nested};

/// The brackets of a level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bracket {
    /// `(a, b)`: an input axis.
    Tuple,
    /// `[a; b]`: an output axis.
    List,
    /// `[|a; b|]`: a batch axis.
    Array,
}

/// A number (no levels) or a literal, with its place.
#[derive(Debug)]
pub(crate) struct Element {
    pub(crate) value: Nested,
    pub(crate) span: Span,
}

impl Element {
    pub(crate) fn number(value: f64, span: Span) -> Element {
        Element { value: Nested { levels: Vec::new(), numbers: vec![value] }, span }
    }
}

/// A level around elements, which must be alike.
pub(crate) fn nest(bracket: Bracket, span: Span, elements: Vec<Element>) -> Result<Element, Diagnostic> {
    let kind = match bracket {
        Bracket::Tuple => AxisKind::Input,
        Bracket::List => AxisKind::Output,
        Bracket::Array => AxisKind::Batch,
    };
    let count = elements.len();
    let mut elements = elements.into_iter();
    let Some(Element { value: Nested { levels, mut numbers }, span: first }) = elements.next() else {
        return Err(Diagnostic::parse(span, "a literal has at least one element, found an empty one"));
    };
    for element in elements {
        if element.value.levels != levels {
            let error = Diagnostic::ty(element.span, difference(&levels, &element.value.levels));
            return Err(error.with_label(first, "the first element"));
        }
        numbers.extend_from_slice(&element.value.numbers);
    }
    let levels = std::iter::once((kind, count)).chain(levels).collect();
    Ok(Element { value: Nested { levels, numbers }, span })
}

fn difference(first: &[(AxisKind, usize)], other: &[(AxisKind, usize)]) -> String {
    let kinds = |levels: &[(AxisKind, usize)]| levels.iter().map(|(kind, _)| *kind).collect::<Vec<_>>();
    let named = |levels: &[(AxisKind, usize)]| match levels.first() {
        None => "a number".to_owned(),
        Some((AxisKind::Batch, size)) => format!("a batch axis of {size}"),
        Some((AxisKind::Output, size)) => format!("an output axis of {size}"),
        Some((AxisKind::Input, size)) => format!("an input axis of {size}"),
    };
    if kinds(first) == kinds(other) {
        let sizes = first.iter().zip(other).find(|(a, b)| a != b);
        let (wanted, found) = sizes.map_or((0, 0), |(a, b)| (a.1, b.1));
        return format!("the literal is ragged: expected {wanted} elements as in the first part, found {found}");
    }
    match first.len() == other.len() {
        true => format!("the literal mixes kinds of axes: expected {}, found {}", named(first), named(other)),
        false => format!("the literal is ragged: expected {}, found {}", named(first), named(other)),
    }
}

impl Nested {
    /// The numbers in the order of the data, batch axes, output axes, input axes, with the sizes of each kind.
    pub(crate) fn in_order(&self) -> ([Vec<u64>; 3], Vec<f64>) {
        let order = [AxisKind::Batch, AxisKind::Output, AxisKind::Input];
        let of_kind = |kind: AxisKind| (0..self.levels.len()).filter(move |i| self.levels[*i].0 == kind);
        let sizes = order.map(|kind| of_kind(kind).map(|i| self.levels[i].1 as u64).collect());
        let axes: Vec<usize> = order.into_iter().flat_map(of_kind).collect();
        if axes.is_sorted() {
            return (sizes, self.numbers.clone());
        }
        let mut strides = vec![1; self.levels.len()];
        for i in (1..self.levels.len()).rev() {
            strides[i - 1] = strides[i] * self.levels[i].1;
        }
        let mut places = vec![0usize];
        for axis in axes {
            let (count, stride) = (self.levels[axis].1, strides[axis]);
            places = places.iter().flat_map(|place| (0..count).map(move |k| place + k * stride)).collect();
        }
        (sizes, places.into_iter().map(|place| self.numbers[place]).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_axes_come_before_input_axes() {
        let row = |a: f64, b: f64| {
            let elements = vec![Element::number(a, Span::NONE), Element::number(b, Span::NONE)];
            nest(Bracket::List, Span::NONE, elements).unwrap()
        };
        let columns = nest(Bracket::Tuple, Span::NONE, vec![row(1.0, 2.0), row(3.0, 4.0), row(5.0, 6.0)]).unwrap();
        let (sizes, numbers) = columns.value.in_order();
        assert_eq!(sizes, [vec![], vec![2], vec![3]]);
        assert_eq!(numbers, [1.0, 3.0, 5.0, 2.0, 4.0, 6.0]);
    }
}
