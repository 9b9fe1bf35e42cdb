//! What variables, lists and objects hold at the place that is compiled.
//!
//! Each is a cell. A branch or the body of a loop is compiled in a scope: what it changed is taken out when the scope
//! ends, and the cells hold what they held before, so that the other branch starts from there.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use crate::stream::Stream;
use crate::value::Value;

pub(crate) type CellId = usize;
pub(crate) type FrameId = usize;

/// Why lists and objects that were elements may not be changed.
pub(crate) const TAKEN: &str = "it was taken out of a list, which would have to change, too";
/// Why those that became elements may not be.
pub(crate) const STORED: &str = "it is an element of a list, which would have to change, too";
/// Why those may not be that are one of two which others hold, too.
pub(crate) const DEPENDS: &str = "which list or object it is depends on the run";
/// Why those of the caller may not be.
pub(crate) const ARGUMENT: &str = "it is an argument";

#[derive(Debug)]
struct Cell<'a> {
    value: Value<'a>,
    /// What messages call it.
    name: Arc<str>,
    /// The frame whose variable it is.
    owner: Option<FrameId>,
    /// Why the list or object whose cell it is may not be changed, and since which freeze.
    frozen: Option<(&'static str, usize)>,
}

#[derive(Debug, Default)]
pub(crate) struct Store<'a> {
    cells: Vec<Cell<'a>>,
    /// The variables of each frame.
    names: Vec<HashMap<Arc<str>, CellId>>,
    scopes: Vec<Scope<'a>>,
    /// The streams by the cells of their states.
    streams: HashMap<CellId, Rc<Stream<'a>>>,
    /// The new lists and objects that may be an old one.
    aliases: HashMap<CellId, Vec<CellId>>,
    originals: HashMap<CellId, Vec<CellId>>,
    freezes: usize,
}

#[derive(Debug)]
struct Scope<'a> {
    /// Cells from this one on are the scope's own.
    mark: CellId,
    /// What was held before.
    cells: BTreeMap<CellId, Value<'a>>,
    names: Vec<(FrameId, Arc<str>, Option<CellId>)>,
}

/// What a scope changed: the cells from before it with what they hold at its end.
pub(crate) type Changes<'a> = BTreeMap<CellId, Value<'a>>;

impl<'a> Store<'a> {
    pub(crate) fn cell(&mut self, name: &str, owner: Option<FrameId>, value: Value<'a>) -> CellId {
        self.cells.push(Cell { value, name: name.into(), owner, frozen: None });
        self.cells.len() - 1
    }

    pub(crate) fn get(&self, cell: CellId) -> &Value<'a> {
        &self.cells[cell].value
    }

    pub(crate) fn set(&mut self, cell: CellId, value: Value<'a>) {
        let old = std::mem::replace(&mut self.cells[cell].value, value);
        if let Some(scope) = self.scopes.last_mut()
            && cell < scope.mark
        {
            scope.cells.entry(cell).or_insert(old);
        }
    }

    pub(crate) fn name(&self, cell: CellId) -> &Arc<str> {
        &self.cells[cell].name
    }

    pub(crate) fn owner(&self, cell: CellId) -> Option<FrameId> {
        self.cells[cell].owner
    }

    pub(crate) fn frozen(&self, cell: CellId) -> Option<&'static str> {
        self.cells[cell].frozen.map(|(why, _)| why)
    }

    /// The same on a path that has not seen some of the freezes.
    pub(crate) fn frozen_but(&self, cell: CellId, unseen: &[Range<usize>]) -> Option<&'static str> {
        let is_seen = |(_, at): &(&str, usize)| !unseen.iter().any(|unseen| unseen.contains(at));
        self.cells[cell].frozen.filter(is_seen).map(|(why, _)| why)
    }

    /// From here on it may not be changed.
    pub(crate) fn freeze(&mut self, cell: CellId, why: &'static str) {
        let since = self.cells[cell].frozen.map_or(self.freezes, |(_, since)| since);
        self.cells[cell].frozen = Some((why, since));
        self.freezes += 1;
    }

    /// How many freezes there were.
    pub(crate) fn freezes(&self) -> usize {
        self.freezes
    }

    /// Of a new list or object: it may be one of these, which others hold.
    pub(crate) fn alias(&mut self, new: CellId, of: &[CellId]) {
        of.iter().for_each(|old| self.aliases.entry(*old).or_default().push(new));
        self.originals.insert(new, of.to_vec());
    }

    /// The lists or objects that may be this one, or one of those.
    pub(crate) fn aliases(&self, cell: CellId) -> Vec<CellId> {
        reached(&self.aliases, cell)
    }

    /// The lists or objects that this one may be, or one of those.
    pub(crate) fn originals(&self, cell: CellId) -> Vec<CellId> {
        reached(&self.originals, cell)
    }

    /// Whether a variable for which `is_read` holds has a value that is, or holds, a list or object for which
    /// `is_wanted` does. What is held by way of the cell `except` does not count.
    pub(crate) fn is_held(
        &self,
        side: &Changes<'a>,
        except: Option<CellId>,
        is_read: &dyn Fn(FrameId, &str) -> bool,
        is_wanted: &dyn Fn(CellId) -> bool,
    ) -> bool {
        let view = View { store: self, side, except, is_wanted };
        let holds = |(frame, names): (FrameId, &HashMap<Arc<str>, CellId>)| {
            names.iter().any(|(name, cell)| is_read(frame, name) && view.cell_holds(*cell))
        };
        self.names.iter().enumerate().any(holds)
    }

    /// Whether a value is, or holds, a list or object for which `is_wanted` holds.
    pub(crate) fn holds(&self, value: &Value<'a>, is_wanted: &dyn Fn(CellId) -> bool) -> bool {
        View { store: self, side: &BTreeMap::new(), except: None, is_wanted }.holds(value)
    }

    /// Whether a list may be an element of another.
    pub(crate) fn is_element(&self, cell: CellId) -> bool {
        matches!(self.frozen(cell), Some(TAKEN | STORED))
    }

    /// How many cells there are: those that follow have higher numbers.
    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    pub(crate) fn add_stream(&mut self, stream: Rc<Stream<'a>>) {
        self.streams.insert(stream.state, stream);
    }

    pub(crate) fn stream(&self, state: CellId) -> Option<&Rc<Stream<'a>>> {
        self.streams.get(&state)
    }

    // Variables.

    pub(crate) fn frame(&mut self) -> FrameId {
        self.names.push(HashMap::new());
        self.names.len() - 1
    }

    pub(crate) fn variable(&self, frame: FrameId, name: &str) -> Option<CellId> {
        self.names[frame].get(name).copied()
    }

    /// Makes the name stand for a cell, or for none.
    pub(crate) fn bind(&mut self, frame: FrameId, name: &Arc<str>, cell: Option<CellId>) {
        let old = match cell {
            Some(cell) => self.names[frame].insert(name.clone(), cell),
            None => self.names[frame].remove(name),
        };
        if let Some(scope) = self.scopes.last_mut() {
            scope.names.push((frame, name.clone(), old));
        }
    }

    /// The cells of the variables of a frame.
    pub(crate) fn variables(&self, frame: FrameId) -> Vec<CellId> {
        self.names[frame].values().copied().collect()
    }

    // Scopes.

    pub(crate) fn enter(&mut self) {
        self.scopes.push(Scope { mark: self.cells.len(), cells: BTreeMap::new(), names: Vec::new() });
    }

    /// Ends the scope; what it changed.
    pub(crate) fn leave(&mut self) -> Changes<'a> {
        let Some(scope) = self.scopes.pop() else { return BTreeMap::new() };
        for (frame, name, old) in scope.names.into_iter().rev() {
            match old {
                Some(cell) => self.names[frame].insert(name, cell),
                None => self.names[frame].remove(&name),
            };
        }
        let restore = |(cell, old): (CellId, Value<'a>)| (cell, std::mem::replace(&mut self.cells[cell].value, old));
        scope.cells.into_iter().map(restore).collect()
    }

    pub(crate) fn apply(&mut self, changes: &Changes<'a>) {
        for (cell, value) in changes {
            self.set(*cell, value.clone());
        }
    }

    pub(crate) fn depth(&self) -> usize {
        self.scopes.len()
    }

    /// Drops the innermost scopes until so many are left.
    pub(crate) fn discard(&mut self, depth: usize) {
        while self.scopes.len() > depth {
            self.leave();
        }
    }
}

/// What a cell leads to, step by step.
fn reached(edges: &HashMap<CellId, Vec<CellId>>, from: CellId) -> Vec<CellId> {
    let mut found = vec![from];
    let mut at = 0;
    while at < found.len() {
        for next in edges.get(&found[at]).into_iter().flatten() {
            if !found.contains(next) {
                found.push(*next);
            }
        }
        at += 1;
    }
    found.split_off(1)
}

/// What cells hold on a side of a branch.
struct View<'v, 'a> {
    store: &'v Store<'a>,
    side: &'v Changes<'a>,
    except: Option<CellId>,
    is_wanted: &'v dyn Fn(CellId) -> bool,
}

impl<'a> View<'_, 'a> {
    fn cell_holds(&self, cell: CellId) -> bool {
        self.except != Some(cell) && self.holds(self.side.get(&cell).unwrap_or_else(|| self.store.get(cell)))
    }

    fn holds(&self, value: &Value<'a>) -> bool {
        match value {
            Value::List(cell) => (self.is_wanted)(*cell),
            Value::Object(cell, _) => (self.is_wanted)(*cell) || self.cell_holds(*cell),
            Value::Tuple(parts) | Value::Fields(parts) => parts.iter().any(|part| self.holds(part)),
            Value::Maybe(_, inner) => self.holds(inner),
            Value::Callable(crate::value::Callable::Method(of, _)) => self.holds(of),
            Value::Stream(stream) => {
                stream.parts().iter().any(|part| self.holds(part)) || self.holds(self.store.get(stream.state))
            }
            _ => false,
        }
    }
}
