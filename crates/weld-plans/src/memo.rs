//! Answers about nodes of a plan, remembered while a rewrite lasts.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;

/// What was found of the nodes of plans, as long as this lives: that of one rewrite, say. Nodes do not change, and
/// those asked for are kept, so that no other comes to the address of one.
pub struct Memo<T>(RefCell<HashMap<usize, (Arc<dyn ExecutionPlan>, T)>>);

impl<T: Clone> Memo<T> {
    /// What `find` finds of `plan`, which may ask for others meanwhile.
    pub fn of(&self, plan: &Arc<dyn ExecutionPlan>, find: impl FnOnce() -> T) -> T {
        let address = Arc::as_ptr(plan).cast::<()>() as usize;
        if let Some((_, known)) = self.0.borrow().get(&address) {
            return known.clone();
        }
        let found = find();
        self.0.borrow_mut().insert(address, (Arc::clone(plan), found.clone()));
        found
    }
}

impl<T> Default for Memo<T> {
    fn default() -> Memo<T> {
        Memo(RefCell::default())
    }
}

impl<T> fmt::Debug for Memo<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memo").finish_non_exhaustive()
    }
}
