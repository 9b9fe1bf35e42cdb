//! What variables, lists and objects hold at the place that is compiled.
//!
//! Each is a cell. A branch or the body of a loop is compiled in a scope: what it changed is taken out when the scope ends, and the
//! cells hold what they held before, so that the other branch starts from there.

use std::collections::{BTreeMap, HashMap};
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

#[derive(Debug)]
struct Cell<'a> {
    value: Value<'a>,
    /// What messages call it.
    name: Arc<str>,
    /// The frame whose variable it is.
    owner: Option<FrameId>,
    /// Why what it holds may not be changed.
    frozen: Option<&'static str>,
}

#[derive(Debug, Default)]
pub(crate) struct Store<'a> {
    cells: Vec<Cell<'a>>,
    /// The variables of each frame.
    names: Vec<HashMap<Arc<str>, CellId>>,
    scopes: Vec<Scope<'a>>,
    /// The streams by the cells of their states.
    streams: HashMap<CellId, Rc<Stream<'a>>>,
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
        self.cells[cell].frozen
    }

    /// From here on it may not be changed.
    pub(crate) fn freeze(&mut self, cell: CellId, why: &'static str) {
        self.cells[cell].frozen = Some(why);
    }

    /// Whether a variable holds a list that may be an element of another.
    pub(crate) fn holds_frozen_list(&self) -> bool {
        let is_element = |cell: &CellId| matches!(self.cells[*cell].frozen, Some(TAKEN | STORED));
        self.cells.iter().any(|cell| match &cell.value {
            Value::List(list) => cell.owner.is_some() && is_element(list),
            _ => false,
        })
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

    /// Whether a cell from before `mark`, other than those of `except`, holds the list or object.
    pub(crate) fn is_shared(&self, cell: CellId, mark: CellId, except: &Changes<'a>) -> bool {
        let holds = |(id, other): (usize, &Cell<'a>)| !except.contains_key(&id) && mentions(&other.value, cell);
        self.cells[..mark.min(self.cells.len())].iter().enumerate().any(holds)
    }
}

/// Whether a value is the list or object, or holds it.
pub(crate) fn mentions(value: &Value<'_>, cell: CellId) -> bool {
    match value {
        Value::List(other) | Value::Object(other, _) => *other == cell,
        Value::Tuple(parts) | Value::Fields(parts) => parts.iter().any(|part| mentions(part, cell)),
        Value::Maybe(_, inner) => mentions(inner, cell),
        Value::Stream(stream) => stream.mentions(cell),
        Value::Callable(crate::value::Callable::Method(of, _)) => mentions(of, cell),
        _ => false,
    }
}
