//! Equal subplans have one number: an operator's is found by its name and the numbers of its inputs, and then compared.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;

use super::same::{is_repeatable, is_same, is_similar};

/// What a plan has more than once, by its number.
pub(super) trait Repeats {
    fn repeated(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<usize>;
}

/// The subplans of a plan, by what they compute.
pub(super) struct Classes {
    /// Whether two operators over inputs of the same classes are of one class.
    is_same: fn(&Arc<dyn ExecutionPlan>, &Arc<dyn ExecutionPlan>) -> bool,
    all: Vec<Class>,
    by_inputs: HashMap<(String, Vec<usize>), Vec<usize>>,
    by_address: HashMap<usize, usize>,
}

/// Subplans that give the same rows in the same partitions.
struct Class {
    plan: Arc<dyn ExecutionPlan>,
    /// How often the plan has it.
    count: usize,
    /// Whether it may be executed once for all.
    is_shareable: bool,
}

impl Classes {
    /// Of subplans that are equal.
    pub(super) fn of(plan: &Arc<dyn ExecutionPlan>) -> Classes {
        let mut classes = Classes::by(is_same);
        classes.add(plan);
        classes
    }

    /// Of subplans that are equal but for what filters compare with.
    pub(super) fn similar(plan: &Arc<dyn ExecutionPlan>) -> Classes {
        let mut classes = Classes::by(is_similar);
        classes.add(plan);
        classes
    }

    fn by(is_same: fn(&Arc<dyn ExecutionPlan>, &Arc<dyn ExecutionPlan>) -> bool) -> Classes {
        Classes { is_same, all: Vec::new(), by_inputs: HashMap::new(), by_address: HashMap::new() }
    }

    fn add(&mut self, plan: &Arc<dyn ExecutionPlan>) -> usize {
        // Each round of a recursion has other rows.
        let inputs: Vec<usize> = match plan.is::<RecursiveQueryExec>() {
            true => Vec::new(),
            false => plan.children().into_iter().map(|child| self.add(child)).collect(),
        };
        let is_shareable = !plan.is::<RecursiveQueryExec>()
            && inputs.iter().all(|&input| self.all[input].is_shareable)
            && is_repeatable(plan);
        let found = match is_shareable {
            true => self.by_inputs.entry((plan.name().to_owned(), inputs)).or_default(),
            false => &mut Vec::new(),
        };
        let class = match found.iter().find(|&&class| (self.is_same)(&self.all[class].plan, plan)) {
            Some(&class) => class,
            None => {
                let class = self.all.len();
                self.all.push(Class { plan: Arc::clone(plan), count: 0, is_shareable });
                found.push(class);
                class
            }
        };
        self.all[class].count += 1;
        self.by_address.insert(address(plan), class);
        class
    }

    /// The number of a part of the plan.
    pub(super) fn number(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
        self.by_address.get(&address(plan)).copied()
    }

    /// Whether a part of the plan may be executed once for all who read it.
    pub(super) fn is_shareable(&self, plan: &Arc<dyn ExecutionPlan>) -> bool {
        self.number(plan).is_some_and(|number| self.all[number].is_shareable)
    }

    /// Whether all of them give the same rows in the same columns.
    pub(super) fn are_equal(plans: &[Arc<dyn ExecutionPlan>]) -> bool {
        Classes::by(is_same).are_one(plans)
    }

    /// The same but for what filters compare with.
    pub(super) fn are_similar(plans: &[Arc<dyn ExecutionPlan>]) -> bool {
        Classes::by(is_similar).are_one(plans)
    }

    fn are_one(mut self, plans: &[Arc<dyn ExecutionPlan>]) -> bool {
        let numbers: Vec<usize> = plans.iter().map(|plan| self.add(plan)).collect();
        numbers.windows(2).all(|pair| pair[0] == pair[1])
    }

    pub(super) fn has_repeated(&self) -> bool {
        self.all.iter().any(|class| class.is_shareable && class.count > 1)
    }
}

impl Repeats for Classes {
    fn repeated(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
        self.number(plan).filter(|&number| self.all[number].is_shareable && self.all[number].count > 1)
    }
}

pub(super) fn address(plan: &Arc<dyn ExecutionPlan>) -> usize {
    Arc::as_ptr(plan).cast::<()>() as usize
}
