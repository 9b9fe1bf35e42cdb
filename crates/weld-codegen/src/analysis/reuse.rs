//! Which vectors an `update` may change in place: those that nobody reads afterwards.
//!
//! ```weld
//! let w = iterate({v, 0L}, |s| let a = lookup(s.$0, s.$1); let u = update(s.$0, s.$1, a * 2L); {{u, s.$1 + 1L}, s.$1 + 1L < n});
//! ```
//! Each step changes the vector that it got: `v` is copied before the first one, unless it was made here and is not
//! read again.
//!
//! A vector is *owned* by a name (or a field of one) if no other refers to its memory: it is the result of a builder,
//! an `update`, a vector literal, or was moved from an owned name at the last use of that. A use that keeps it, such as
//! a second name or a place in a struct, is a move if it is the last use; else neither name owns it from there on.
//! Reading elements or the length is no such use. Evaluation is in the order of the text: what follows a use is what
//! may be evaluated after it. In the body of a loop everything from outside is used later, in the next iteration. A
//! vector in the state of an `iterate` is owned in its step if each step gives it an owned one; what the first one gets
//! is moved or copied.
//!
//! Nodes are known by their addresses: the answer is for this very tree, as long as it is not changed. Vectors of
//! vectors are left alone, for their elements may be shared, and so are strings.

use std::collections::{HashMap, HashSet};

use weld_core::ir::{Expr, ExprKind, Func, Iter, Program, Sym, deep};
use weld_core::ty::Type;

use super::{any, places};

/// The answer for a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reuse {
    updates: HashSet<usize>,
    /// For the initial value of an `iterate` the vectors of its state that steps own (`None`: the state is one), and
    /// whether they are copied before the first step.
    states: HashMap<usize, Vec<(Option<u32>, bool)>>,
}

impl Reuse {
    pub(crate) fn of(program: &Program) -> Reuse {
        if !any(&program.body, &mut |e| matches!(e.kind, ExprKind::Update { .. })) {
            return Reuse::default();
        }
        let budget = 1_000_000 + 20 * program.body.size();
        let streams = program.params.iter().any(|param| param.stream);
        let mut analysis = Analysis {
            owned: HashMap::new(),
            depths: HashMap::new(),
            found: Reuse::default(),
            budget,
            streams,
            loops: 0,
        };
        let nothing = Later { outer: None, last: Uses::new(), now: 0, loops: 0 };
        analysis.value(&program.body, &nothing);
        // What was not looked at to its end says nothing.
        if analysis.budget == 0 { Reuse::default() } else { analysis.found }
    }

    /// Whether this `update` may change the vector that it gets.
    pub(crate) fn in_place(&self, update: &Expr) -> bool {
        self.updates.contains(&address(update))
    }

    /// The vectors that the steps of the `iterate` with this initial value own.
    pub(crate) fn state(&self, init: &Expr) -> &[(Option<u32>, bool)] {
        self.states.get(&address(init)).map_or(&[], Vec::as_slice)
    }
}

fn address(e: &Expr) -> usize {
    std::ptr::from_ref(e) as usize
}

/// Whether a value is a vector that is owned; of a struct, which fields are.
#[derive(Clone, PartialEq, Debug)]
enum Owned {
    No,
    Yes,
    Fields(Vec<Owned>),
}

impl Owned {
    fn field(&self, index: u32) -> Owned {
        match self {
            Owned::Fields(fields) => fields.get(index as usize).cloned().unwrap_or(Owned::No),
            _ => Owned::No,
        }
    }

    /// Owned whichever of the two it is.
    fn meet(self, other: Owned) -> Owned {
        match (self, other) {
            (Owned::Yes, Owned::Yes) => Owned::Yes,
            (Owned::Fields(a), Owned::Fields(b)) if a.len() == b.len() => {
                Owned::Fields(a.into_iter().zip(b).map(|(a, b)| a.meet(b)).collect())
            }
            _ => Owned::No,
        }
    }
}

/// All of a name's value.
const WHOLE: u32 = u32::MAX;
/// Some part of it.
const ANY: u32 = u32::MAX - 1;

/// The last of a node's parts in which each path is used. A path is a name with one of its fields, [`WHOLE`] or
/// [`ANY`].
type Uses = HashMap<(Sym, u32), usize>;

/// Later than every part: in the next iteration.
const ALWAYS: usize = usize::MAX;

/// What may still be evaluated after the part that is looked at: of this node, and of those around it.
struct Later<'a> {
    outer: Option<&'a Later<'a>>,
    last: Uses,
    now: usize,
    /// How many loops are around the node.
    loops: usize,
}

impl Later<'_> {
    /// Whether a path of a name that was bound inside of `depth` loops is used.
    fn uses(&self, sym: Sym, field: u32, depth: usize) -> bool {
        // The next iteration of a loop has names of its own.
        let is_outside = depth <= self.loops;
        let later =
            |key| self.last.get(&(sym, key)).is_some_and(|last| *last > self.now && (*last < ALWAYS || is_outside));
        let here = if field == WHOLE { later(ANY) } else { later(field) || later(WHOLE) };
        here || self.outer.is_some_and(|outer| outer.uses(sym, field, depth))
    }
}

struct Analysis {
    owned: HashMap<Sym, Owned>,
    /// How many loops are around the binding of a name.
    depths: HashMap<Sym, usize>,
    found: Reuse,
    /// How many nodes may still be looked at.
    budget: usize,
    streams: bool,
    /// How many loops are around.
    loops: usize,
}

impl Analysis {
    fn spend(&mut self) -> bool {
        self.budget = self.budget.saturating_sub(1);
        self.budget > 0
    }

    /// Notes the paths that the expression uses, in part number `part`.
    fn note(&mut self, e: &Expr, part: usize, last: &mut Uses) {
        if !self.spend() {
            return;
        }
        let mut path = |sym: Sym, field: u32| {
            for key in [field, ANY] {
                last.insert((sym, key), part);
            }
        };
        match &e.kind {
            // A length stays what it is.
            ExprKind::Len(of) if path_of(of).is_some() => {}
            _ => match path_of(e) {
                Some((sym, field)) if holds_vector(&e.ty) => path(sym, field),
                Some(_) => {}
                None => deep(|| e.each_child(&mut |child| self.note(child, part, last))),
            },
        }
    }

    /// Looks at an expression whose value is kept; whether that is owned.
    fn value(&mut self, e: &Expr, later: &Later<'_>) -> Owned {
        if self.spend() { deep(|| self.value_here(e, later)) } else { Owned::No }
    }

    fn value_here(&mut self, e: &Expr, later: &Later<'_>) -> Owned {
        match &e.kind {
            ExprKind::Var(sym) => self.taken(*sym, WHOLE, &e.ty, later),
            ExprKind::Field(of, index) => match of.kind {
                ExprKind::Var(sym) => self.taken(sym, *index, &e.ty, later),
                _ => self.value(of, later).field(*index),
            },
            ExprKind::Let { bindings, body } => {
                let values: Vec<&Expr> = bindings.iter().map(|binding| &binding.value).chain([&**body]).collect();
                let mut inner = self.later(&values, later);
                for (at, binding) in bindings.iter().enumerate() {
                    inner.now = at;
                    self.bind(binding.sym, &binding.value, &inner);
                }
                inner.now = bindings.len();
                self.value(body, &inner)
            }
            ExprKind::If { cond, on_true, on_false } => {
                let mut inner = self.later(&[cond], later);
                self.note(on_true, 1, &mut inner.last);
                self.note(on_false, 1, &mut inner.last);
                self.value(cond, &inner);
                inner.now = 1;
                let before = self.owned.clone();
                let a = self.value(on_true, &inner);
                let after = std::mem::replace(&mut self.owned, before);
                let b = self.value(on_false, &inner);
                self.owned.retain(|sym, _| after.contains_key(sym));
                for (sym, owned) in after {
                    self.owned.entry(sym).and_modify(|other| *other = owned.meet(other.clone()));
                }
                a.meet(b)
            }
            ExprKind::Struct(fields) => Owned::Fields(self.fields(fields, later)),
            ExprKind::Update { data, index, value } => self.update(e, data, [&**index, &**value], later),
            ExprKind::Len(data) | ExprKind::Lookup { data, .. } if path_of(data).is_some() => {
                // The element is read after the index is known.
                let mut inner = self.later(&[], later);
                self.note(data, 1, &mut inner.last);
                if let ExprKind::Lookup { key, .. } = &e.kind {
                    self.value(key, &inner);
                }
                Owned::No
            }
            ExprKind::Result(builder) => {
                self.value(builder, later);
                fresh(&e.ty)
            }
            ExprKind::Vector(items) => {
                self.parts(&items.iter().collect::<Vec<_>>(), later);
                fresh(&e.ty)
            }
            ExprKind::For { iter, builder, func } => self.for_loop(iter, builder, func, later),
            ExprKind::Iterate { init, step } => self.iterate(init, step, later),
            ExprKind::Sort { data, compare } => {
                let mut inner = self.later(&[data], later);
                self.note(&compare.body, ALWAYS, &mut inner.last);
                self.value(data, &inner);
                self.looped(|a| a.value(&compare.body, &inner));
                Owned::No
            }
            _ => {
                self.parts(&e.children(), later);
                Owned::No
            }
        }
    }

    fn later<'a>(&mut self, parts: &[&Expr], outer: &'a Later<'a>) -> Later<'a> {
        let mut last = Uses::new();
        for (at, part) in parts.iter().enumerate() {
            self.note(part, at, &mut last);
        }
        Later { outer: Some(outer), last, now: 0, loops: self.loops }
    }

    /// Parts that are evaluated one after the other.
    fn parts(&mut self, parts: &[&Expr], later: &Later<'_>) -> Vec<Owned> {
        if let [only] = parts {
            return vec![self.value(only, later)];
        }
        let mut inner = self.later(parts, later);
        let mut owned = Vec::with_capacity(parts.len());
        for (at, part) in parts.iter().enumerate() {
            inner.now = at;
            owned.push(self.value(part, &inner));
        }
        owned
    }

    /// The fields of a struct. Names are taken last: what the other fields read of a vector does not keep it, and none
    /// of them changes a vector that is still to be taken.
    fn fields(&mut self, fields: &[Expr], later: &Later<'_>) -> Vec<Owned> {
        let (names, others): (Vec<usize>, Vec<usize>) =
            (0..fields.len()).partition(|at| path_of(&fields[*at]).is_some());
        let order = [others, names].concat();
        let found = self.parts(&order.iter().map(|at| &fields[*at]).collect::<Vec<_>>(), later);
        let mut owned = vec![Owned::No; fields.len()];
        order.into_iter().zip(found).for_each(|(at, found)| owned[at] = found);
        owned
    }

    fn looped<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        self.loops += 1;
        let result = f(self);
        self.loops -= 1;
        result
    }

    fn bind(&mut self, sym: Sym, value: &Expr, later: &Later<'_>) {
        let owned = self.value(value, later);
        // What stands before a loop over a stream is kept from chunk to chunk.
        let is_kept = self.streams && self.loops == 0;
        if owned != Owned::No && !is_kept {
            self.depths.insert(sym, self.loops);
            self.owned.insert(sym, owned);
        }
    }

    fn owned(&self, sym: Sym, field: u32) -> Owned {
        match (self.owned.get(&sym), field) {
            (None, _) => Owned::No,
            (Some(owned), WHOLE) => owned.clone(),
            (Some(owned), field) => owned.field(field),
        }
    }

    fn is_used(&self, sym: Sym, field: u32, later: &Later<'_>) -> bool {
        later.uses(sym, field, self.depths.get(&sym).copied().unwrap_or(0))
    }

    fn disown(&mut self, sym: Sym, field: u32) {
        match self.owned.get_mut(&sym) {
            Some(Owned::Fields(fields)) if (field as usize) < fields.len() => fields[field as usize] = Owned::No,
            Some(_) => drop(self.owned.remove(&sym)),
            None => {}
        }
    }

    /// A path as a value that is kept: moved if this is its last use, else it has two names from here on.
    fn taken(&mut self, sym: Sym, field: u32, ty: &Type, later: &Later<'_>) -> Owned {
        if !holds_vector(ty) {
            return Owned::No;
        }
        let owned = if self.is_used(sym, field, later) { Owned::No } else { self.owned(sym, field) };
        self.disown(sym, field);
        owned
    }

    fn update(&mut self, e: &Expr, data: &Expr, [index, value]: [&Expr; 2], later: &Later<'_>) -> Owned {
        let is_own = match path_of(data) {
            Some((sym, field)) => {
                // The vector is changed after index and value are known.
                let mut inner = self.later(&[index, value], later);
                self.note(data, 2, &mut inner.last);
                self.value(index, &inner);
                inner.now = 1;
                self.value(value, &inner);
                let is_own = self.owned(sym, field) == Owned::Yes && !self.is_used(sym, field, later);
                if is_own {
                    self.disown(sym, field);
                }
                is_own
            }
            None => self.parts(&[data, index, value], later)[0] == Owned::Yes,
        };
        if is_own && fresh(&e.ty) == Owned::Yes {
            self.found.updates.insert(address(e));
        }
        fresh(&e.ty)
    }

    // Loops.

    fn for_loop(&mut self, iter: &Iter, builder: &Expr, func: &Func, later: &Later<'_>) -> Owned {
        let mut inner = self.later(&[], later);
        // The data is read as long as the loop runs.
        iter.each_child(&mut |child| self.note(child, ALWAYS, &mut inner.last));
        self.note(builder, 1, &mut inner.last);
        self.note(&func.body, ALWAYS, &mut inner.last);
        iter.each_child(&mut |child| self.read(child, &inner));
        inner.now = 1;
        self.value(builder, &inner);
        inner.now = 2;
        self.looped(|a| a.value(&func.body, &inner));
        Owned::No
    }

    /// A vector that is only read: a path, or a part of one.
    fn read(&mut self, e: &Expr, later: &Later<'_>) {
        match &e.kind {
            _ if path_of(e).is_some() => {}
            ExprKind::Slice { data, start, size } if path_of(data).is_some() => {
                self.parts(&[&**start, &**size], later);
            }
            _ => {
                self.value(e, later);
            }
        }
    }

    fn iterate(&mut self, init: &Expr, step: &Func, later: &Later<'_>) -> Owned {
        let Some((state, ty)) = step.params.first() else { return Owned::No };
        let mut inner = self.later(&[init], later);
        self.note(&step.body, ALWAYS, &mut inner.last);
        let start = self.value(init, &inner);
        inner.now = 1;
        let placed: Vec<Option<u32>> = places(step).iter().map(|place| place.field).collect();
        let mut fields = candidates(ty, &step.body);
        let owned = loop {
            let before = (self.owned.clone(), self.found.clone());
            self.owned.insert(*state, owned_fields(ty, &fields));
            self.depths.insert(*state, self.loops + 1);
            let next = self.looped(|a| a.step(&step.body, &placed, &inner));
            let is_owned = |field: &Option<u32>| match field {
                _ if placed.contains(field) => true,
                None => next == Owned::Yes,
                Some(field) => next.field(*field) == Owned::Yes,
            };
            let kept: Vec<Option<u32>> = fields.iter().copied().filter(is_owned).collect();
            if kept.len() == fields.len() || self.budget == 0 {
                break owned_fields(ty, &fields);
            }
            (self.owned, self.found) = before;
            fields = kept;
        };
        self.owned.remove(state);
        let is_copied = |field: Option<u32>| match field {
            None => start != Owned::Yes,
            Some(field) => start.field(field) != Owned::Yes,
        };
        let states = fields.into_iter().map(|field| (field, is_copied(field))).collect();
        self.found.states.insert(address(init), states);
        owned
    }

    /// The next state that a step gives, in the order in which it is compiled: where it changes `placed` vectors of the
    /// state in place, these come last.
    fn step(&mut self, body: &Expr, placed: &[Option<u32>], later: &Later<'_>) -> Owned {
        let (bindings, result) = match &body.kind {
            ExprKind::Let { bindings, body } if !placed.is_empty() => (&bindings[..], &**body),
            _ => (&[][..], body),
        };
        let parts = match &result.kind {
            ExprKind::Struct(parts) if !placed.is_empty() && parts.len() == 2 => parts,
            _ => return self.value(body, later).field(0),
        };
        let next = match (&parts[0].kind, placed) {
            (_, [None]) => vec![(None, &parts[0])],
            (ExprKind::Struct(fields), _) => {
                fields.iter().enumerate().map(|(at, field)| (Some(at as u32), field)).collect()
            }
            _ => return self.value(body, later).field(0),
        };
        let is_place = |field: &Option<u32>| placed.contains(field);
        let mut order: Vec<&Expr> = bindings.iter().map(|binding| &binding.value).chain([&parts[1]]).collect();
        order.extend(next.iter().filter(|(field, _)| !is_place(field)).map(|(_, e)| *e));
        let first_place = order.len();
        order.extend(next.iter().filter(|(field, _)| is_place(field)).map(|(_, e)| *e));
        let mut inner = self.later(&order, later);
        for (at, binding) in bindings.iter().enumerate() {
            inner.now = at;
            self.bind(binding.sym, &binding.value, &inner);
        }
        inner.now = bindings.len();
        self.value(&parts[1], &inner);
        let mut owned = Vec::new();
        for (field, e) in &next {
            if is_place(field) {
                owned.push(Owned::Yes);
            } else {
                inner.now += 1;
                owned.push(self.value(e, &inner));
            }
        }
        for (at, e) in order[first_place..].iter().enumerate() {
            inner.now = first_place + at;
            // Of the vectors that are changed nothing here may take any.
            let mut change = self.later(&[], &inner);
            order[first_place..].iter().for_each(|e| self.note(e, ALWAYS, &mut change.last));
            self.change(e, &change);
        }
        if next[0].0.is_none() { Owned::Yes } else { Owned::Fields(owned) }
    }

    /// What a change in place evaluates.
    fn change(&mut self, e: &Expr, later: &Later<'_>) {
        if !self.spend() {
            return;
        }
        deep(|| match &e.kind {
            ExprKind::Update { data, index, value } => {
                self.parts(&[&**index, &**value], later);
                self.change(data, later);
            }
            ExprKind::Let { bindings, body } => {
                for binding in bindings {
                    self.value(&binding.value, later);
                }
                self.change(body, later);
            }
            ExprKind::If { cond, on_true, on_false } => {
                self.value(cond, later);
                self.change(on_true, later);
                self.change(on_false, later);
            }
            _ => {}
        })
    }
}

/// A name, or a field of one.
fn path_of(e: &Expr) -> Option<(Sym, u32)> {
    match &e.kind {
        ExprKind::Var(sym) => Some((*sym, WHOLE)),
        ExprKind::Field(of, index) => match of.kind {
            ExprKind::Var(sym) => Some((sym, *index)),
            _ => None,
        },
        _ => None,
    }
}

/// A new vector of this type.
fn fresh(ty: &Type) -> Owned {
    let is_flat = |element: &Type| !holds_vector(element);
    if !ty.is_bytes() && ty.element().is_some_and(is_flat) { Owned::Yes } else { Owned::No }
}

/// Whether a value of the type refers to memory.
fn holds_vector(ty: &Type) -> bool {
    match ty {
        Type::Scalar(_) | Type::Simd(_) | Type::Builder(_) => false,
        Type::Vec(_) | Type::Dict(..) => true,
        Type::Struct(fields) => fields.iter().any(holds_vector),
    }
}

/// The vectors of a state that its steps may change.
fn candidates(state: &Type, body: &Expr) -> Vec<Option<u32>> {
    let is_updated = |ty: &Type| {
        fresh(ty) == Owned::Yes && any(body, &mut |e| e.ty == *ty && matches!(e.kind, ExprKind::Update { .. }))
    };
    match state {
        Type::Struct(fields) => {
            let updated = fields.iter().enumerate().filter(|(_, field)| is_updated(field));
            updated.map(|(at, _)| Some(at as u32)).collect()
        }
        ty => Vec::from_iter(is_updated(ty).then_some(None)),
    }
}

fn owned_fields(state: &Type, fields: &[Option<u32>]) -> Owned {
    match state {
        Type::Struct(types) => {
            let of = |at: usize| if fields.contains(&Some(at as u32)) { Owned::Yes } else { Owned::No };
            Owned::Fields((0..types.len()).map(of).collect())
        }
        _ if fields.contains(&None) => Owned::Yes,
        _ => Owned::No,
    }
}
