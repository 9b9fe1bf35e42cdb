//! Which parts of a large program become functions of their own.
//!
//! ```weld
//! let b = for(v, appender[f64], ..); let t = result(b);  let u = result(for(t, appender[f64], ..));  t, u are read below
//! ^ one function, which gives t                          ^ another one, or the same if both are small
//! ```
//! Register allocation looks at every value that lives across a loop, for each loop of the function: two hundred loops
//! in one function take as long as two thousand in functions of their own. A part is a run of bindings with a loop
//! among them, which no builder enters or leaves; of runs inside one another the outer one, as long as it is not too
//! large itself.
//!
//! Bindings are known by their addresses: the answer is for these very trees, as long as they are not changed.

use std::collections::HashMap;

use weld_core::ir::{Binding, Expr, ExprKind, Sym, deep, typing};
use weld_core::ty::Type;

/// A part has no more nodes than this, so that it does not take long itself.
const PART_MAX: usize = 300;

/// The answer for the trees of a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    /// By their first bindings.
    parts: HashMap<usize, Part>,
    /// The nodes in no part.
    pub(crate) uncut: usize,
}

/// Bindings that one function evaluates.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// How many there are.
    pub(crate) count: usize,
    /// Those whose values are used after them.
    pub(crate) gives: Vec<(Sym, Type)>,
    nodes: usize,
}

impl Parts {
    pub(crate) fn of<'e>(trees: impl Iterator<Item = &'e Expr>) -> Parts {
        let mut finder = Finder::default();
        let nodes: usize = trees.map(|tree| finder.visit(tree).nodes).sum();
        let cut: usize = finder.found.iter().map(|(_, part)| part.nodes).sum();
        Parts { parts: finder.found.into_iter().collect(), uncut: nodes - cut }
    }

    /// No parts, of a program with so many nodes.
    pub(crate) fn none(nodes: usize) -> Parts {
        Parts { parts: HashMap::new(), uncut: nodes }
    }

    /// The part that begins with this binding.
    pub(crate) fn beginning(&self, first: &Binding) -> Option<&Part> {
        self.parts.get(&address(first))
    }
}

fn address(binding: &Binding) -> usize {
    std::ptr::from_ref(binding) as usize
}

#[derive(Default)]
struct Finder {
    found: Vec<(usize, Part)>,
    /// The blocks around, the innermost last.
    blocks: Vec<Block>,
    /// Where names are bound: inside of how many blocks, and as which binding of the last of these.
    homes: HashMap<Sym, (usize, Option<usize>)>,
}

/// A block that is looked at.
#[derive(Default)]
struct Block {
    /// The number of the binding that is looked at; that of the body follows those of the bindings.
    current: usize,
    bindings: Vec<Bound>,
}

/// What is known of a binding.
#[derive(Default)]
struct Bound {
    /// It reads or fills a builder that is bound outside of the block.
    takes_builder: bool,
    /// The last binding that uses it.
    last: usize,
    seen: Seen,
    /// How many parts had been found before it.
    found: usize,
}

#[derive(Clone, Copy, Default)]
struct Seen {
    nodes: usize,
    has_loop: bool,
}

impl Seen {
    fn add(&mut self, other: Seen) {
        self.nodes += other.nodes;
        self.has_loop |= other.has_loop;
    }
}

impl Finder {
    fn visit(&mut self, e: &Expr) -> Seen {
        deep(|| {
            let has_loop = matches!(e.kind, ExprKind::For { .. } | ExprKind::Iterate { .. } | ExprKind::Sort { .. });
            let mut seen = Seen { nodes: 1, has_loop };
            match &e.kind {
                ExprKind::Var(sym) => self.note_use(*sym, &e.ty),
                ExprKind::Let { bindings, body } => seen.add(self.block(bindings, body)),
                _ => {
                    let depth = self.blocks.len();
                    e.each_bound(&mut |sym| {
                        self.homes.insert(sym, (depth, None));
                    });
                    e.each_child(&mut |child| seen.add(self.visit(child)));
                }
            }
            seen
        })
    }

    fn note_use(&mut self, sym: Sym, ty: &Type) {
        let Some(&(depth, at)) = self.homes.get(&sym) else { return };
        if let (Some(at), Some(block)) = (at, depth.checked_sub(1)) {
            self.blocks[block].bindings[at].last = self.blocks[block].current;
        }
        if typing::holds_builder(ty) {
            for block in &mut self.blocks[depth..] {
                if let Some(bound) = block.bindings.get_mut(block.current) {
                    bound.takes_builder = true;
                }
            }
        }
    }

    fn block(&mut self, bindings: &[Binding], body: &Expr) -> Seen {
        let mut seen = Seen::default();
        self.blocks.push(Block::default());
        let place = self.blocks.len() - 1;
        for (at, binding) in bindings.iter().enumerate() {
            let found = self.found.len();
            self.blocks[place].current = at;
            self.blocks[place].bindings.push(Bound { last: at, found, ..Bound::default() });
            let inside = self.visit(&binding.value);
            seen.add(inside);
            self.blocks[place].bindings[at].seen = inside;
            self.homes.insert(binding.sym, (place + 1, Some(at)));
        }
        self.blocks[place].current = bindings.len();
        let behind = self.found.len();
        seen.add(self.visit(body));
        let block = self.blocks.pop().unwrap_or_default();
        self.cut(bindings, &block.bindings, behind);
        seen
    }

    /// Notes the parts of a block, in the place of those inside of them; `behind` are those of its body.
    fn cut(&mut self, bindings: &[Binding], bounds: &[Bound], behind: usize) {
        let mut parts = Vec::new();
        let mut at = 0;
        while at < bindings.len() {
            let Some(end) = end_of_run(&bindings[at..], &bounds[at..], at) else {
                at += 1;
                continue;
            };
            let gives = (at..end).filter(|index| bounds[*index].last >= end);
            let gives = gives.map(|index| (bindings[index].sym, bindings[index].value.ty.clone())).collect();
            let inside = bounds[at].found..bounds.get(end).map_or(behind, |next| next.found);
            let nodes = bounds[at..end].iter().map(|bound| bound.seen.nodes).sum();
            parts.push((inside, (address(&bindings[at]), Part { count: end - at, gives, nodes })));
            at = end;
        }
        for (inside, part) in parts.into_iter().rev() {
            self.found.splice(inside, [part]);
        }
    }
}

/// The end of the longest run of bindings that is a part; they are numbered from `first` on.
fn end_of_run(bindings: &[Binding], bounds: &[Bound], first: usize) -> Option<usize> {
    let (mut seen, mut end) = (Seen::default(), None);
    // Up to where a value is used that no function gives.
    let mut open = first;
    for (at, (binding, bound)) in bindings.iter().zip(bounds).enumerate() {
        seen.add(bound.seen);
        if bound.takes_builder || seen.nodes > PART_MAX {
            break;
        }
        if !is_passed(&binding.value.ty) {
            open = open.max(bound.last);
        }
        if seen.has_loop && open <= first + at {
            end = Some(first + at + 1);
        }
    }
    end
}

/// Whether a function can give values of this type to another.
fn is_passed(ty: &Type) -> bool {
    match ty {
        Type::Builder(_) | Type::Simd(_) => false,
        Type::Struct(fields) => fields.iter().all(is_passed),
        Type::Scalar(_) | Type::Vec(_) | Type::Dict(..) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of bindings in the parts of a program, with the names that they give.
    fn parts(source: &str) -> Vec<(usize, String)> {
        let program = weld_core::parse_program(source).expect("it parses");
        let parts = Parts::of(std::iter::once(&program.body));
        let mut found = Vec::new();
        program.body.walk(&mut |e| {
            let ExprKind::Let { bindings, .. } = &e.kind else { return };
            for part in bindings.iter().filter_map(|binding| parts.beginning(binding)) {
                let names: Vec<&str> = part.gives.iter().map(|(sym, _)| program.names.name(*sym)).collect();
                found.push((part.count, names.join(" ")));
            }
        });
        found
    }

    fn part(count: usize, names: &str) -> (usize, String) {
        (count, names.into())
    }

    #[test]
    fn bindings_with_a_loop_are_one_part() {
        let found = parts("|v: vec[i64]| let a = sum(v); let b = a + 1L; let c = map(v, |x| x + b); {a, c}");
        assert_eq!(found, [part(3, "a c")]);
        assert!(parts("|x: i64| let a = x * x; let b = a * a; b * b").is_empty());
    }

    #[test]
    fn of_those_inside_one_another_the_outer_one_is() {
        let inner = "map(v, |x| let s = sum(v); s + x)";
        assert_eq!(parts(&format!("|v: vec[i64]| let a = {inner}; len(a)")), [part(1, "a")]);
        let sums = "+ x * x * x * x * x".repeat(PART_MAX / 15);
        let large = format!("map(v, |x| let s = sum(v) {sums}; let t = sum(v); let u = sum(v) {sums}; s + t + u)");
        let found = parts(&format!("|v: vec[i64]| let a = {large}; len(a)"));
        assert_eq!(found, [part(2, "s t"), part(1, "u")]);
    }

    #[test]
    fn no_builder_enters_or_leaves() {
        let open = "|v: vec[i64]| let b = for(v, appender[i64], |b, i, x| let c = for(v, b, |d, j, y| merge(d, y)); c); \
                    let n = len(v); let r = result(b); len(r) + n";
        assert_eq!(parts(open), [part(3, "n r")]);
        let left =
            "|v: vec[i64]| let b = for(v, appender[i64], |b, i, x| merge(b, x)); let s = sum(v); len(result(b)) + s";
        assert_eq!(parts(left), [part(1, "s")]);
    }
}
