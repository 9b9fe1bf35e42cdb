//! How the value of an argument lies, as far as the caller says.

use super::*;

/// How an argument's value lies.
pub(super) struct Incoming {
    /// Of declared types.
    pub(super) kind: Option<ScalarKind>,
    pub(super) sizes: Vec<Option<u64>>,
    /// How many batch, output and input axes, where the value says so.
    pub(super) kinds: Option<[usize; 3]>,
    /// `None`: a number.
    pub(super) axes: Option<Axes>,
    pub(super) labels: Vec<Option<String>>,
}

impl Incoming {
    pub(super) fn sizes_text(&self) -> String {
        let size = |size: &Option<u64>| size.map_or("?".into(), |size| size.to_string());
        format!("[{}]", self.sizes.iter().map(size).collect::<Vec<String>>().join(", "))
    }

    /// As an annotation; output axes where the kinds are not known.
    pub(super) fn text(&self) -> String {
        let [batch, output, _] = self.kinds.unwrap_or([0, self.sizes.len(), 0]);
        let (batch, rest) = self.sizes.split_at(batch);
        let (output, input) = rest.split_at(output);
        Annotation { batch: batch.to_vec(), output: output.to_vec(), input: input.to_vec() }.text()
    }

    pub(super) fn with(&self, annotation: &Annotation) -> Incoming {
        let kinds = [annotation.batch.len(), annotation.output.len(), annotation.input.len()];
        Incoming { kind: self.kind, sizes: self.sizes.clone(), kinds: Some(kinds), axes: None, labels: Vec::new() }
    }
}

pub(super) fn known_array(known: &Known) -> Result<Incoming, String> {
    match known {
        Known::Nothing => Ok(number()),
        Known::Sizes(sizes) if sizes.tensor => {
            let kinds = [sizes.batch.len(), sizes.output.len(), sizes.input.len()];
            let axes = Axes::Tensor { batch: kinds[0], output: kinds[1], labels: sizes.labels.clone() };
            let all = sizes.all().into_iter().map(Some).collect();
            Ok(Incoming { kind: None, sizes: all, kinds: Some(kinds), axes: Some(axes), labels: sizes.labels.clone() })
        }
        Known::Sizes(sizes) if sizes.all().is_empty() => Ok(number()),
        Known::Sizes(sizes) => {
            let all = sizes.all().into_iter().map(Some).collect();
            Ok(Incoming { kind: None, sizes: all, kinds: None, axes: Some(Axes::Plain), labels: Vec::new() })
        }
        Known::Type(ty) => {
            let (kind, sizes) =
                ty.as_array().ok_or_else(|| format!("a tensor is a number or a list of numbers, found {ty}"))?;
            if kind == ScalarKind::Bool {
                return Err(format!("a tensor holds numbers, found {ty}"));
            }
            let axes = (!sizes.is_empty()).then_some(Axes::Plain);
            Ok(Incoming { kind: Some(kind), sizes, kinds: None, axes, labels: Vec::new() })
        }
    }
}

/// A number as JSON has it: a tensor of output dimension 1, of which one need not say more.
pub(super) fn number() -> Incoming {
    let axes = Axes::Tensor { batch: 0, output: 1, labels: Vec::new() };
    Incoming { kind: None, sizes: Vec::new(), kinds: None, axes: Some(axes), labels: Vec::new() }
}

/// A parameter that only its annotation describes.
pub(super) fn tensor(annotation: &Annotation) -> Incoming {
    let kinds = [annotation.batch.len(), annotation.output.len(), annotation.input.len()];
    let axes = Axes::Tensor { batch: kinds[0], output: kinds[1], labels: Vec::new() };
    Incoming { kind: None, sizes: annotation.all(), kinds: Some(kinds), axes: Some(axes), labels: Vec::new() }
}

/// Whether a tensor can have both shapes.
pub(super) fn agree(a: &Annotation, b: &Annotation) -> bool {
    let row = |a: &[Option<u64>], b: &[Option<u64>]| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_none() || b.is_none() || a == b)
    };
    row(&a.batch, &b.batch) && row(&a.output, &b.output) && row(&a.input, &b.input)
}

/// The sizes that one of the two says.
pub(super) fn narrowed(mut own: Annotation, other: &Annotation) -> Annotation {
    let rows = [(&mut own.batch, &other.batch), (&mut own.output, &other.output), (&mut own.input, &other.input)];
    for (row, other) in rows {
        row.iter_mut().zip(other).for_each(|(size, other)| *size = size.or(*other));
    }
    own
}

impl Annotation {
    /// All sizes in the order of the data.
    pub(super) fn all(&self) -> Vec<Option<u64>> {
        [&self.batch[..], &self.output, &self.input].concat()
    }
}
