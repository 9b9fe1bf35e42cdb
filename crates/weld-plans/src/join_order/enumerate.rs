//! The cheapest order of a graph's joins.
//!
//! Dynamic programming over connected sets of relations, each pair of a set and its complement once (Moerkotte,
//! Neumann: *Analysis of Two Existing and One New Dynamic Programming Algorithm*, 2006); where that are too many pairs,
//! the two relations whose join gives fewest rows are joined first, again and again (Fegaras: *A New Heuristic for
//! Optimizing Large Queries*, 1998). Orders are compared by the rows that joins give, build and probe.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::physical_expr::PhysicalExpr;

use super::graph::{Attached, Graph, Keeps, Kind, Member, Relation, Set, Tree};
use crate::estimate::{ColumnEstimate, Estimate, domain};
use crate::key_filters;
use crate::selectivity::{column_of, selectivity};

/// More pairs of sets are not looked at.
const PAIRS_MAX: usize = 10_000;

/// What building a row of a hash table costs, next to a row that a join gives.
const BUILD_COST: f64 = 1.0;

/// What probing with a row costs.
const PROBE_COST: f64 = 0.1;

/// What a row takes in a hash table besides its columns: hash, link and room that stays free.
const ENTRY_BYTES: f64 = 16.0;

/// Sides that were written change where the other table is so many times smaller.
pub(super) const SIDES_GAIN_MIN: f64 = 1.25;

/// A join is built rather than a table only if it is expected to be so many times smaller: how many rows of a foreign
/// key meet a filtered table is a guess, mostly too low, while those of a table are known.
const JOIN_BUILD_RATIO: f64 = 4.0;

/// A semi, anti or left join builds the side that it keeps only if that has so many times fewer rows: matches must be
/// marked then and rows come last.
const KEPT_BUILD_RATIO: f64 = 8.0;

/// The same where that side is itself a join, of which estimates are rougher.
const KEPT_JOIN_BUILD_RATIO: f64 = 64.0;

/// At least this share of rows survives an anti join: estimates of what a join keeps are too rough for less.
const ANTI_SHARE_MIN: f64 = 0.2;

/// A joined set of relations.
#[derive(Clone, Debug)]
pub(super) struct Joined {
    pub(super) tree: Arc<Tree>,
    relations: Set,
    /// Those whose columns are there.
    kept: Set,
    pub(super) rows: f64,
    row_bytes: f64,
    pub(super) cost: f64,
}

impl Joined {
    pub(super) fn bytes(&self) -> f64 {
        self.rows * self.row_bytes
    }

    /// Of a hash table of its rows.
    fn table_bytes(&self) -> f64 {
        self.rows * (self.row_bytes + ENTRY_BYTES)
    }
}

/// A graph with what is known of its relations.
pub(super) struct Costs<'a> {
    graph: &'a Graph,
    estimates: Vec<Arc<Estimate>>,
    /// For each relation the rows of its largest table, before anything was filtered.
    table_rows: Vec<f64>,
    /// For each attached relation the rows that the keys of the other side spare where that is built: its own, or those
    /// that are grouped for it, which a filter by the keys reaches.
    spared_rows: Vec<f64>,
    /// For each class the relations of its members.
    classes: Vec<Set>,
    /// For each class the relations that compare its values: those of its members, and those that are attached by it.
    compared: Vec<Set>,
    /// For each class how many values it is over.
    domains: Vec<f64>,
    /// For each filter the relations that it reads.
    reads: Vec<Set>,
    /// For each filter the share of rows that pass.
    shares: Vec<f64>,
    /// For each relation those that it can be joined with.
    neighbours: Vec<Set>,
}

impl<'a> Costs<'a> {
    pub(super) fn new(graph: &'a Graph, estimates: Vec<Arc<Estimate>>) -> Costs<'a> {
        let whole = Estimate {
            rows: estimates.iter().map(|estimate| estimate.rows).product(),
            columns: estimates.iter().flat_map(|estimate| estimate.columns.iter().copied()).collect(),
        };
        let known = |expr: &Arc<dyn PhysicalExpr>| column_of(expr).map(|column| &whole.columns[column]);
        let domain_of = |class: &Vec<Member>| {
            let known = |member: &Member| Some((known(&member.expr)?, estimates[member.relation].rows));
            let columns: Vec<(&ColumnEstimate, f64)> = class.iter().filter_map(known).collect();
            match columns.is_empty() {
                // Nothing is known of computed values.
                true => class.iter().map(|member| estimates[member.relation].rows).fold(1.0, f64::max),
                false => domain(columns.iter().copied()),
            }
        };
        let domains = graph.classes.iter().map(domain_of).collect();
        let shares = graph.filters.iter().map(|filter| selectivity(&filter.predicate, &whole)).collect();
        let set = |class: &Vec<Member>| class.iter().map(|member| 1 << member.relation).fold(0, |a, b: Set| a | b);
        let classes: Vec<Set> = graph.classes.iter().map(set).collect();
        let compares = |attached: &Attached, class: usize| attached.keys.iter().any(|(key, _)| *key == class);
        let attached = |class: usize| {
            let relations = graph.relations.iter().enumerate();
            let by = relations.filter(move |(_, of)| of.attached.as_ref().is_some_and(|of| compares(of, class)));
            by.fold(0, |set: Set, (relation, _)| set | 1 << relation)
        };
        let compared: Vec<Set> = classes.iter().enumerate().map(|(class, set)| set | attached(class)).collect();
        let reads = graph.filters.iter().map(|filter| graph.relations_of(&filter.predicate)).collect();
        let of_largest = |estimate: &Arc<Estimate>| {
            estimate.columns.iter().map(|column| column.table_rows).fold(estimate.rows, f64::max)
        };
        let table_rows: Vec<f64> = estimates.iter().map(of_largest).collect();
        let spared = |index: usize| match groups_by_key(&graph.relations[index]) {
            true => table_rows[index].max(estimates[index].rows),
            false => estimates[index].rows,
        };
        let spared_rows = (0..graph.relations.len()).map(spared).collect();
        let neighbours = (0..graph.relations.len()).map(|relation| neighbours(&compared, relation)).collect();
        Costs { graph, estimates, table_rows, spared_rows, classes, compared, domains, reads, shares, neighbours }
    }

    pub(super) fn relation(&self, relation: usize) -> Joined {
        let estimate = &self.estimates[relation];
        Joined {
            tree: Arc::new(Tree::Relation(relation)),
            relations: 1 << relation,
            kept: 1 << relation,
            rows: estimate.rows,
            row_bytes: estimate.row_bytes(),
            cost: 0.0,
        }
    }

    /// The cost of the joins as a tree has them; `None` if they are none of this graph's.
    pub(super) fn of_tree(&self, tree: &Tree) -> Option<Joined> {
        match tree {
            Tree::Relation(relation) => Some(self.relation(*relation)),
            Tree::Join(build, probe, keeps) => self.join(&self.of_tree(build)?, &self.of_tree(probe)?, *keeps),
        }
    }

    /// The joins as a tree has them with the cheaper side built; `None` if they are none of this graph's.
    pub(super) fn with_sides(&self, tree: &Tree) -> Option<Joined> {
        let (build, probe) = match tree {
            Tree::Relation(relation) => return Some(self.relation(*relation)),
            Tree::Join(build, probe, _) => (self.with_sides(build)?, self.with_sides(probe)?),
        };
        if self.attached(&build).is_some() || self.attached(&probe).is_some() {
            return self.join_either(&build, &probe);
        }
        match self.build_bytes(&probe) * SIDES_GAIN_MIN < self.build_bytes(&build) {
            true => self.join_both(&probe, &build),
            false => self.join_both(&build, &probe),
        }
    }

    /// The cheaper of both ways to join two sets.
    fn join_either(&self, a: &Joined, b: &Joined) -> Option<Joined> {
        let (smaller, larger) = if self.build_bytes(a) <= self.build_bytes(b) { (a, b) } else { (b, a) };
        let (attached, kept) = match (self.attached(smaller), self.attached(larger)) {
            (None, None) => return self.join_both(smaller, larger),
            (Some(_), Some(_)) => return None,
            (Some(_), None) => (smaller, larger),
            (None, Some(_)) => (larger, smaller),
        };
        match self.is_kept_built(kept, attached) {
            true => self.join(kept, attached, Keeps::Both),
            false => self.join(attached, kept, Keeps::Both),
        }
    }

    /// Whether the side that a semi, anti or left join keeps is built.
    fn is_kept_built(&self, kept: &Joined, other: &Joined) -> bool {
        let ratio = match *kept.tree {
            Tree::Relation(_) => KEPT_BUILD_RATIO,
            Tree::Join(..) => KEPT_JOIN_BUILD_RATIO,
        };
        let spared_rows = match *other.tree {
            Tree::Relation(relation) => self.spared_rows[relation],
            Tree::Join(..) => other.rows,
        };
        kept.rows * ratio < spared_rows
    }

    /// The inner join, or a semi join that does where it costs less.
    fn join_both(&self, build: &Joined, probe: &Joined) -> Option<Joined> {
        let mut best = self.join(build, probe, Keeps::Both)?;
        let semi_joins = [(build, probe, Keeps::Probe), (probe, build, Keeps::Build)];
        for (dropped, kept, keeps) in semi_joins.into_iter().filter(|(dropped, kept, _)| self.is_dropped(dropped, kept))
        {
            let semi = match keeps == Keeps::Build && !self.is_kept_built(kept, dropped) {
                true => self.join(dropped, kept, Keeps::Probe)?,
                false => self.join(build, probe, keeps)?,
            };
            // How often rows of a skewed side match is a guess, mostly too low.
            if semi.cost < best.cost || (semi.cost == best.cost && !self.is_unique(&dropped.tree, kept.relations)) {
                best = semi;
            }
        }
        Some(best)
    }

    /// Whether a row of `others` matches one row of a join's side at most, as far as is known.
    fn is_unique(&self, tree: &Tree, others: Set) -> bool {
        let (build, probe) = match tree {
            Tree::Relation(relation) => return self.is_unique_relation(*relation, others),
            Tree::Join(build, _, Keeps::Build) => return self.is_unique(build, others),
            Tree::Join(_, probe, Keeps::Probe) => return self.is_unique(probe, others),
            Tree::Join(build, probe, Keeps::Both) => (build, probe),
        };
        let one_side =
            |side: &Tree, other: &Tree| self.is_unique(side, others) && self.is_unique(other, side.relations());
        one_side(build, probe) || one_side(probe, build)
    }

    fn is_unique_relation(&self, relation: usize, others: Set) -> bool {
        let of = &self.graph.relations[relation];
        let is_unique = |key: &Arc<dyn PhysicalExpr>| {
            let column = column_of(key).map(|column| &self.estimates[relation].columns[column - of.first]);
            column.is_some_and(ColumnEstimate::is_key)
        };
        match &of.attached {
            Some(attached) => attached.kind != Kind::Left || attached.keys.iter().any(|(_, key)| is_unique(key)),
            None => {
                let compared = self.graph.classes.iter().zip(&self.classes).filter(|(_, set)| *set & others != 0);
                let mut own = compared.flat_map(|(class, _)| class).filter(|member| member.relation == relation);
                own.any(|member| is_unique(&member.expr))
            }
        }
    }

    /// Whether nothing but a match is asked of a side of an inner join: rows are read as a set, and what is above reads
    /// none of its columns, or those of the other side that equal them.
    fn is_dropped(&self, dropped: &Joined, kept: &Joined) -> bool {
        let both = dropped.relations | kept.relations;
        let is_among = |set: Set, relation: usize| set & (1 << relation) != 0;
        let reads_other = |column: &usize| {
            !is_among(dropped.relations, self.graph.relation_of(*column))
                || self.graph.same_column(*column, kept.kept).is_some()
        };
        let compares_other = |(class, compared): (&Set, &Set)| {
            class & dropped.kept == 0 || compared & !both == 0 || class & kept.kept != 0
        };
        let filters = self.graph.filters.iter().zip(&self.reads).map(|(filter, reads)| (filter.needs, *reads));
        let attached = self.graph.relations.iter().enumerate().filter_map(|(relation, of)| {
            let reads = of.attached.as_ref()?.filter.as_ref()?.1;
            Some((1 << relation, reads))
        });
        self.graph.is_set
            && self.graph.output.iter().all(reads_other)
            && self.classes.iter().zip(&self.compared).all(compares_other)
            && filters.chain(attached).all(|(needs, reads)| needs & !both == 0 || reads & dropped.relations == 0)
    }

    /// What a hash table of the rows may take. Semi joins drop more rows than is expected rather than fewer.
    fn build_bytes(&self, joined: &Joined) -> f64 {
        let is_attached = |relation: usize| self.graph.relations[relation].attached.is_some();
        match *joined.tree {
            Tree::Join(..) if !members(joined.relations).any(is_attached) => JOIN_BUILD_RATIO * joined.table_bytes(),
            _ => joined.table_bytes(),
        }
    }

    fn attached(&self, joined: &Joined) -> Option<&'a Attached> {
        match *joined.tree {
            Tree::Relation(relation) => self.graph.relations[relation].attached.as_ref(),
            Tree::Join(..) => None,
        }
    }

    /// `build` joined with `probe`; `None` if nothing joins them.
    pub(super) fn join(&self, build: &Joined, probe: &Joined, keeps: Keeps) -> Option<Joined> {
        let (left, right) = (build.relations, probe.relations);
        let (rows, row_bytes) = match (self.attached(build), self.attached(probe)) {
            (Some(_), Some(_)) => return None,
            (Some(attached), None) => self.with_attached(probe, right, attached, build)?,
            (None, Some(attached)) => self.with_attached(build, left, attached, probe)?,
            (None, None) => (build.rows * probe.rows / self.divisor(left, right)?, build.row_bytes + probe.row_bytes),
        };
        let rows = rows * self.filtered(left, right);
        let (rows, row_bytes) = match keeps {
            Keeps::Both => (rows, row_bytes),
            Keeps::Build => (rows.min(build.rows), build.row_bytes),
            Keeps::Probe => (rows.min(probe.rows), probe.row_bytes),
        };
        let rows = rows.max(1.0);
        let cost = build.cost + probe.cost + rows + build.rows * BUILD_COST + probe.rows * PROBE_COST;
        let tree = Arc::new(Tree::Join(Arc::clone(&build.tree), Arc::clone(&probe.tree), keeps));
        let kept = tree.kept();
        Some(Joined { tree, relations: left | right, kept, rows, row_bytes, cost })
    }

    /// The share of rows that pass the filters which can be asked once both sets are joined, and not before.
    fn filtered(&self, left: Set, right: Set) -> f64 {
        let both = left | right;
        let filters = self.graph.filters.iter().zip(&self.shares);
        let new = filters
            .filter(|(filter, _)| filter.needs & !both == 0 && filter.needs & !left != 0 && filter.needs & !right != 0);
        new.map(|(_, share)| share).product()
    }

    /// Of how many pairs of rows one matches; `None` if no column is compared.
    fn divisor(&self, left: Set, right: Set) -> Option<f64> {
        let spanning = || {
            let classes = self.classes.iter().zip(&self.domains);
            classes.filter(|(class, _)| *class & left != 0 && *class & right != 0)
        };
        let (count, all) = spanning().fold((0, 1.0), |(count, all), (_, domain)| (count + 1, all * domain));
        if count < 2 {
            return (count == 1).then_some(all);
        }
        // Several columns of one pair of tables together have no more values than the smaller table has rows.
        let mut divisor = all;
        for a in members(left) {
            for b in members(right) {
                let shared = spanning().filter(|(class, _)| *class & (1 << a) != 0 && *class & (1 << b) != 0);
                let (count, product) = shared.fold((0, 1.0), |(n, p), (_, domain)| (n + 1, p * domain));
                if count > 1 {
                    let rows_max = self.table_rows[a].min(self.table_rows[b]);
                    divisor = divisor.min(all / product * product.min(rows_max));
                }
            }
        }
        Some(divisor)
    }

    /// Rows, and bytes a row, of `kept` after a semi, anti or left join with `other`; `None` if what it compares is not
    /// there yet.
    fn with_attached(&self, kept: &Joined, relations: Set, attached: &Attached, other: &Joined) -> Option<(f64, f64)> {
        let is_there = |class: usize| self.classes[class] & kept.kept != 0;
        let reads = attached.filter.as_ref().map_or(0, |(_, reads)| *reads);
        if !attached.keys.iter().all(|(class, _)| is_there(*class)) || reads & !relations != 0 {
            return None;
        }
        let values: f64 = attached.keys.iter().map(|(class, _)| self.domains[*class]).product();
        let distinct = match &attached.keys[..] {
            [(_, key)] => match (column_of(key), &*other.tree) {
                (Some(column), Tree::Relation(relation)) => {
                    let index = column - self.graph.relations[*relation].first;
                    self.estimates[*relation].columns[index].distinct_among(other.rows)
                }
                _ => other.rows,
            },
            _ => other.rows,
        };
        let matching = (distinct / values.min(kept.rows.max(distinct))).min(1.0);
        let matching = if attached.filter.is_some() { matching * 0.5 } else { matching };
        Some(match attached.kind {
            Kind::Semi => (kept.rows * matching, kept.row_bytes),
            Kind::Anti => (kept.rows * (1.0 - matching).max(ANTI_SHARE_MIN), kept.row_bytes),
            // A row that matches has as many matches as a key has rows.
            Kind::Left => {
                let matches = matching * other.rows / distinct.max(1.0);
                (kept.rows * (matches + 1.0 - matching), kept.row_bytes + other.row_bytes)
            }
        })
    }

    /// The cheapest order that was found; `None` if the graph is not connected.
    pub(super) fn best(&self) -> Option<Joined> {
        self.by_dynamic_programming().or_else(|| self.greedily())
    }

    fn by_dynamic_programming(&self) -> Option<Joined> {
        let count = self.graph.relations.len();
        let best = (0..count).map(|relation| (1 << relation, self.relation(relation))).collect();
        let mut search = Search { costs: self, best, pairs: 0 };
        for first in (0..count).rev() {
            let set: Set = 1 << first;
            search.join_complements(set)?;
            search.grow(set, below(first) | set)?;
        }
        search.best.remove(&below(count))
    }

    fn around(&self, set: Set) -> Set {
        members(set).map(|relation| self.neighbours[relation]).fold(0, |a, b| a | b) & !set
    }

    /// The pair whose join gives fewest rows first, then the next.
    fn greedily(&self) -> Option<Joined> {
        let mut parts: Vec<Joined> = (0..self.graph.relations.len()).map(|r| self.relation(r)).collect();
        while parts.len() > 1 {
            let mut least: Option<(usize, usize, Joined)> = None;
            for a in 0..parts.len() {
                for b in a + 1..parts.len() {
                    let (left, right) = (parts[a].relations, parts[b].relations);
                    if self.around(left) & right == 0 {
                        continue;
                    }
                    if let Some(joined) = self.join_either(&parts[a], &parts[b])
                        && least.as_ref().is_none_or(|(_, _, known)| joined.rows < known.rows)
                    {
                        least = Some((a, b, joined));
                    }
                }
            }
            let (a, b, joined) = least?;
            parts.swap_remove(b);
            parts[a] = joined;
        }
        parts.pop()
    }
}

/// Dynamic programming; `None` from its methods if there are too many pairs.
struct Search<'a> {
    costs: &'a Costs<'a>,
    best: HashMap<Set, Joined>,
    pairs: usize,
}

impl Search<'_> {
    /// Visits every connected set that contains `set` and nothing else of `excluded`.
    fn grow(&mut self, set: Set, excluded: Set) -> Option<()> {
        let neighbours = self.costs.around(set) & !excluded;
        for subset in subsets(neighbours) {
            self.join_complements(set | subset)?;
        }
        for subset in subsets(neighbours) {
            self.grow(set | subset, excluded | neighbours)?;
        }
        Some(())
    }

    /// Joins `set` with every connected set beside it whose pair was not joined yet.
    fn join_complements(&mut self, set: Set) -> Option<()> {
        let excluded = below(set.trailing_zeros() as usize) | set;
        let neighbours = self.costs.around(set) & !excluded;
        for relation in members(neighbours).rev() {
            let other: Set = 1 << relation;
            self.consider(set, other)?;
            self.grow_complement(set, other, excluded | (below(relation + 1) & neighbours))?;
        }
        Some(())
    }

    fn grow_complement(&mut self, set: Set, other: Set, excluded: Set) -> Option<()> {
        let neighbours = self.costs.around(other) & !excluded & !set;
        for subset in subsets(neighbours) {
            self.consider(set, other | subset)?;
        }
        for subset in subsets(neighbours) {
            self.grow_complement(set, other | subset, excluded | neighbours)?;
        }
        Some(())
    }

    fn consider(&mut self, a: Set, b: Set) -> Option<()> {
        self.pairs += 1;
        if self.pairs > PAIRS_MAX {
            return None;
        }
        let (Some(left), Some(right)) = (self.best.get(&a), self.best.get(&b)) else { return Some(()) };
        let known = self.best.get(&(a | b)).map_or(f64::INFINITY, |known| known.cost);
        // A join costs more than what it joins.
        if left.cost + right.cost < known
            && let Some(joined) = self.costs.join_either(left, right)
            && joined.cost < known
        {
            self.best.insert(a | b, joined);
        }
        Some(())
    }
}

/// The relations that are compared with one.
fn neighbours(compared: &[Set], relation: usize) -> Set {
    let of_one = compared.iter().filter(|set| *set & (1 << relation) != 0);
    of_one.fold(0, |all, set| all | set) & !(1 << relation)
}

/// Whether a relation is attached by a key that rows below it are grouped by.
fn groups_by_key(relation: &Relation) -> bool {
    let Some(attached) = &relation.attached else { return false };
    let mut columns = attached.keys.iter().filter_map(|(_, key)| key_filters::column_of(key));
    columns.any(|column| key_filters::reaches_groups(&relation.plan, column - relation.first))
}

/// Relations before a number.
fn below(relation: usize) -> Set {
    1u64.checked_shl(relation as u32).map_or(Set::MAX, |bit| bit - 1)
}

fn members(set: Set) -> impl DoubleEndedIterator<Item = usize> {
    let end = Set::BITS - set.leading_zeros();
    (0..end as usize).filter(move |relation| set & (1 << relation) != 0)
}

/// Every subset but the empty one, subsets of a set before it.
fn subsets(set: Set) -> impl Iterator<Item = Set> {
    let mut last: Set = 0;
    std::iter::from_fn(move || {
        last = last.wrapping_sub(set) & set;
        (last != 0).then_some(last)
    })
}
