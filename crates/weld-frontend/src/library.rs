//! The functions that a text may call beside its own: those of the session.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Function;

/// Functions by name. A function is bound when the text that calls it is compiled, so that there is no recursion across
/// texts.
#[derive(Clone, Default, Debug)]
pub struct Library {
    functions: BTreeMap<String, Arc<Function>>,
}

impl Library {
    /// The function that is called so: exactly, or else in lower case, as SQL knows it.
    pub fn get(&self, name: &str) -> Option<&Arc<Function>> {
        self.functions.get(name).or_else(|| self.functions.get(&name.to_lowercase()))
    }

    /// Adds a function or replaces it; gives the one that was called so.
    pub fn insert(&mut self, name: impl Into<String>, function: Arc<Function>) -> Option<Arc<Function>> {
        self.functions.insert(name.into(), function)
    }

    /// Takes the function of exactly that name out. Texts that call it have it still.
    pub fn remove(&mut self, name: &str) -> Option<Arc<Function>> {
        self.functions.remove(name)
    }

    /// The names, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.functions.keys().map(String::as_str)
    }
}
