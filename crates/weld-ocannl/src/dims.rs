//! Sizes of axes, with their labels: those that must be equal are one, by union-find.

use std::sync::Arc;

use weld_core::diag::Span;

/// An axis' size.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Dim(u32);

/// What is known of a size: a number, or which of the run time's sizes it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Extent {
    Known(u64),
    Open(usize),
}

#[derive(Clone, Debug)]
struct Info {
    parent: u32,
    extent: Extent,
    label: Option<Arc<str>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Dims {
    infos: Vec<Info>,
    /// Sizes that the run has to compare.
    pub(crate) checks: Vec<(Extent, Extent, Span)>,
}

/// Two axes that do not go together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Clash {
    Sizes(String, String),
    Labels(Arc<str>, Arc<str>),
    /// Rows of so many axes, where the first may not have more than the second.
    Counts(usize, usize),
}

impl Dims {
    pub(crate) fn fresh(&mut self, extent: Extent, label: Option<Arc<str>>) -> Dim {
        self.infos.push(Info { parent: self.infos.len() as u32, extent, label });
        Dim(self.infos.len() as u32 - 1)
    }

    fn root(&self, dim: Dim) -> usize {
        let mut at = dim.0;
        while self.infos[at as usize].parent != at {
            at = self.infos[at as usize].parent;
        }
        at as usize
    }

    pub(crate) fn extent(&self, dim: Dim) -> Extent {
        self.infos[self.root(dim)].extent
    }

    pub(crate) fn label(&self, dim: Dim) -> Option<Arc<str>> {
        self.infos[self.root(dim)].label.clone()
    }

    pub(crate) fn is_one(&self, dim: Dim) -> bool {
        self.extent(dim) == Extent::Known(1)
    }

    /// As messages show it.
    pub(crate) fn text(&self, dim: Dim) -> String {
        match self.extent(dim) {
            Extent::Known(size) => size.to_string(),
            Extent::Open(_) => "?".into(),
        }
    }

    /// Makes two sizes one. Open ones are compared by the run.
    pub(crate) fn unify(&mut self, a: Dim, b: Dim, span: Span) -> Result<(), Clash> {
        let (a_root, b_root) = (self.root(a), self.root(b));
        if a_root == b_root {
            return Ok(());
        }
        self.labels_agree(a, b)?;
        let extent = match (self.extent(a), self.extent(b)) {
            (Extent::Known(x), Extent::Known(y)) if x != y => return Err(self.sizes(a, b)),
            (x, y) if x == y => x,
            (known @ Extent::Known(_), open) | (open, known) => {
                self.checks.push((open, known, span));
                known
            }
        };
        let label = self.infos[a_root].label.take().or_else(|| self.infos[b_root].label.take());
        self.infos[b_root].parent = a_root as u32;
        self.infos[a_root].extent = extent;
        self.infos[a_root].label = label;
        Ok(())
    }

    fn sizes(&self, a: Dim, b: Dim) -> Clash {
        Clash::Sizes(self.text(a), self.text(b))
    }

    fn labels_agree(&self, a: Dim, b: Dim) -> Result<(), Clash> {
        match (self.label(a), self.label(b)) {
            (Some(x), Some(y)) if x != y => Err(Clash::Labels(x, y)),
            _ => Ok(()),
        }
    }

    /// The size of both where 1 stretches.
    pub(crate) fn join(&mut self, a: Dim, b: Dim, span: Span) -> Result<Dim, Clash> {
        self.labels_agree(a, b)?;
        match (self.is_one(a), self.is_one(b)) {
            (true, false) => Ok(b),
            (false, true) => Ok(a),
            _ => self.unify(a, b, span).map(|()| a),
        }
    }

    /// The row of both: trailing axes go together, missing leading ones are added.
    pub(crate) fn join_rows(&mut self, a: &[Dim], b: &[Dim], span: Span) -> Result<Vec<Dim>, Clash> {
        let (long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
        let extra = long.len() - short.len();
        let mut row = long.to_vec();
        for (i, small) in short.iter().enumerate() {
            // Keeps the order of the operands for the message.
            let (x, y) = if a.len() >= b.len() { (long[extra + i], *small) } else { (*small, long[extra + i]) };
            row[extra + i] = self.join(x, y, span)?;
        }
        Ok(row)
    }

    /// The first row can be stretched to the second.
    pub(crate) fn fit_rows(&mut self, small: &[Dim], large: &[Dim], span: Span) -> Result<(), Clash> {
        let Some(extra) = large.len().checked_sub(small.len()) else {
            return Err(Clash::Counts(small.len(), large.len()));
        };
        small.iter().zip(&large[extra..]).try_for_each(|(small, large)| self.fit(*small, *large, span))
    }

    /// `small` is `large`, or 1, which stretches.
    pub(crate) fn fit(&mut self, small: Dim, large: Dim, span: Span) -> Result<(), Clash> {
        self.labels_agree(small, large)?;
        if self.is_one(small) && !self.is_one(large) { Ok(()) } else { self.unify(small, large, span) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_spread_and_clash() {
        let mut dims = Dims::default();
        let [a, b, c] = [None, Some("q"), Some("p")].map(|l| dims.fresh(Extent::Known(1), l.map(Into::into)));
        assert_eq!(dims.join(a, b, Span::NONE), Ok(a));
        assert_eq!(dims.label(a).as_deref(), Some("q"));
        assert_eq!(dims.join(a, c, Span::NONE), Err(Clash::Labels("q".into(), "p".into())));
    }

    #[test]
    fn one_stretches() {
        let mut dims = Dims::default();
        let [one, three, four, open] =
            [Extent::Known(1), Extent::Known(3), Extent::Known(4), Extent::Open(0)].map(|e| dims.fresh(e, None));
        assert_eq!(dims.join(one, three, Span::NONE), Ok(three));
        assert_eq!(dims.join(three, four, Span::NONE), Err(Clash::Sizes("3".into(), "4".into())));
        assert!(dims.fit(three, one, Span::NONE).is_err());
        assert!(dims.unify(open, four, Span::NONE).is_ok());
        assert_eq!((dims.extent(open), dims.checks.len()), (Extent::Known(4), 1));
    }
}
