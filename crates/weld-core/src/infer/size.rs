//! How large a program is when its macros are expanded, found without expanding any.
//!
//! ```weld
//! macro f(x) = x + x;
//! f(f(f(1)))
//! ```
//!
//! The size of a macro's expansion is that of its own text and, for each parameter, how often that occurs times the
//! size of the argument. So each text is looked at once. Macros that expand themselves are somebody else's concern, and
//! count nothing here: the size is never more than what expanding would give.

use std::collections::HashMap;
use std::rc::Rc;

use crate::diag::Span;
use crate::ir::deep;
use crate::syntax::tree::{Expr, ExprKind, Macro, Name};

/// How far down the place of an error is looked for.
const LEVELS_MAX: usize = 32;

/// Where a program becomes larger than `limit`, if it does.
pub(super) fn too_large(body: &Expr, macros: &HashMap<&str, &Macro>, limit: u64) -> Option<Span> {
    let mut sizes = Sizes { macros, known: HashMap::new() };
    let mut is_large = |e: &Expr| {
        let mut size = Size::default();
        sizes.add(e, 1, &mut size);
        size.fixed > limit
    };
    let mut place = body;
    if !is_large(place) {
        return None;
    }
    for _ in 0..LEVELS_MAX {
        let mut inner = None;
        place.each_child(&mut |child| {
            if inner.is_none() && is_large(child) {
                inner = Some(child);
            }
        });
        match inner {
            Some(child) => place = child,
            None => break,
        }
    }
    Some(place.span)
}

/// The size of what is inside of a macro.
#[derive(Default)]
struct Size<'e> {
    fixed: u64,
    /// The parameters in scope, with how often each occurs.
    uses: HashMap<&'e str, u64>,
    /// Parameters that variables hide, with how many do.
    hidden: HashMap<&'e str, usize>,
}

impl<'e> Size<'e> {
    /// Counts a name if it is a parameter.
    fn use_param(&mut self, name: &str, times: u64) -> bool {
        if self.hidden.get(name).is_some_and(|by| *by > 0) {
            return false;
        }
        match self.uses.get_mut(name) {
            Some(uses) => {
                *uses = uses.saturating_add(times);
                true
            }
            None => false,
        }
    }

    fn hide(&mut self, name: &'e Name) {
        if self.uses.contains_key(&*name.text) {
            *self.hidden.entry(&name.text).or_default() += 1;
        }
    }

    fn show(&mut self, name: &Name) {
        if let Some(by) = self.hidden.get_mut(&*name.text) {
            *by -= 1;
        }
    }
}

struct Sizes<'m> {
    macros: &'m HashMap<&'m str, &'m Macro>,
    /// Of macros: their own size and the uses of their parameters in order; nothing while that is being found out.
    known: HashMap<&'m str, (u64, Rc<[u64]>)>,
}

impl<'m> Sizes<'m> {
    fn of_macro(&mut self, definition: &'m Macro) -> (u64, Rc<[u64]>) {
        let name = &*definition.name.text;
        if let Some(known) = self.known.get(name) {
            return known.clone();
        }
        self.known.insert(name, (0, Rc::new([])));
        let mut size = Size::default();
        size.uses.extend(definition.params.iter().map(|param| (&*param.text, 0)));
        self.add(&definition.body, 1, &mut size);
        let uses = definition.params.iter().map(|param| size.uses[&*param.text]).collect();
        let known = (size.fixed, uses);
        self.known.insert(name, known.clone());
        known
    }

    /// Adds an expression that is expanded so many times.
    fn add<'e>(&mut self, e: &'e Expr, times: u64, size: &mut Size<'e>) {
        deep(|| match &e.kind {
            _ if times == 0 => {}
            ExprKind::Name(name) => {
                if !size.use_param(name, times) {
                    size.fixed = size.fixed.saturating_add(times);
                }
            }
            ExprKind::Call { name, args } => {
                if size.use_param(&name.text, times) {
                    args.iter().for_each(|arg| self.add(arg, times, size));
                } else if let Some(definition) = self.macros.get(&*name.text).copied() {
                    let (fixed, uses) = self.of_macro(definition);
                    size.fixed = size.fixed.saturating_add(times.saturating_mul(fixed));
                    for (arg, uses) in args.iter().zip(uses.iter()) {
                        self.add(arg, times.saturating_mul(*uses), size);
                    }
                } else {
                    size.fixed = size.fixed.saturating_add(times);
                    args.iter().for_each(|arg| self.add(arg, times, size));
                }
            }
            ExprKind::Block { lets, body } => {
                for binding in lets {
                    self.add(&binding.value, times, size);
                    size.hide(&binding.name);
                }
                self.add(body, times, size);
                lets.iter().for_each(|binding| size.show(&binding.name));
            }
            ExprKind::Lambda { params, body } => {
                params.iter().for_each(|param| size.hide(&param.name));
                self.add(body, times, size);
                params.iter().for_each(|param| size.show(&param.name));
            }
            kind => {
                if !matches!(kind, ExprKind::Ascribe(..) | ExprKind::Annotated(..)) {
                    size.fixed = size.fixed.saturating_add(times);
                }
                e.each_child(&mut |child| self.add(child, times, size));
            }
        })
    }
}
