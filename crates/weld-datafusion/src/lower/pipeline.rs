//! A pipeline: a streamed input, steps, a sink; and the one Weld program that it becomes.
//!
//! The columns that the sink needs are known first, top down; then the steps are lowered bottom up, each for itself.

use std::sync::{Arc, OnceLock};

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use weld_core::ir::{Expr, Program, build as ir};
use weld_core::ty::Type;
use weld_frontend::Source;

use super::accumulated::Accumulated;
use super::aggregate::Aggregate;
use super::join::preserve::AtEnd;
use super::join::{BuildColumns, Join, Table};
use super::operator::{evaluated, filter, projection, read_by, through_projection, with_texts};
use super::types::has_few_codes;
use super::{Arg, Lowering, Result, Rows, Slot, Unsupported, lists, size};

/// What happens to every row on its way from the source to the sink.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Filter {
        predicate: Arc<dyn PhysicalExpr>,
        projection: Option<Vec<usize>>,
        input: SchemaRef,
    },
    Project {
        exprs: Vec<Arc<dyn PhysicalExpr>>,
        input: SchemaRef,
    },
    Probe {
        join: Join,
        table: Table,
    },
    /// Groups, at the end of the stream; what follows sees one row a group.
    Aggregate(Aggregate),
}

/// Where the rows end up.
#[derive(Clone, Debug)]
pub(crate) enum Sink {
    Rows,
    Aggregate(Aggregate),
    /// The states of a partial aggregate, a group for every row.
    Ungrouped(Aggregate),
    /// Rows of a join that also gives some of its build side's for themselves, when all others have been given.
    Join {
        join: Join,
        table: Table,
    },
    /// The table of a join, with these of the build side's columns.
    Build {
        join: Join,
        columns: BuildColumns,
        bounds: bool,
    },
}

/// A lowered pipeline.
#[derive(Clone, Debug)]
pub(crate) struct LoweredPipeline {
    pub(crate) program: Program,
    fingerprint: OnceLock<u128>,
    /// The source's schema, NOT NULL where no null may come.
    pub(crate) schema: SchemaRef,
    /// The source's columns that the stream consists of.
    pub(crate) inputs: Vec<usize>,
    /// What to pass for the parameters after the stream.
    pub(crate) args: Vec<Arg>,
    pub(crate) output: Output,
    /// For each output column the source's column that it is, where rows are numbers in place of its values.
    pub(crate) moved: Vec<Option<usize>>,
    /// For each table among the arguments whether rows come out only if its build side has some.
    pub(crate) needs_build_rows: Vec<bool>,
    /// What follows the rows of all partitions, for a join whose rows end with a row number.
    pub(crate) at_end: Option<AtEnd>,
    /// Whether rows are left out or multiplied on the way, so that several batches may make one.
    pub(crate) gathers: bool,
    /// The texts of the functions that the program calls.
    pub(crate) source: Arc<Source>,
    /// For a partial aggregate with groups: the program over the same stream that makes a group of every row.
    ungrouped: Option<Ungrouped>,
    /// The source's columns that are better read as codes than as values.
    pub(crate) by_code: ByCode,
    /// Whether it has groups to keep until its input ends. DataFusion's operators would spill them.
    pub(crate) keeps_groups: bool,
    /// The source's columns by which groups can be made apart: runs over rows that differ in them give together what
    /// one run over all rows does. Empty if there are none.
    pub(crate) apart: Vec<usize>,
}

/// Columns of a source by whose codes something is found once for each of their values.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByCode {
    /// The keys of groups, as they are: what is found is the group of all of them.
    pub(crate) groups: Vec<usize>,
    /// Texts that are each looked for alone: whole keys of joins' tables, and keys of groups that are interned.
    pub(crate) alone: Vec<usize>,
    /// The latter of them.
    pub(crate) interned: Vec<usize>,
}

impl ByCode {
    fn of(steps: &[Step], sink: &Sink) -> ByCode {
        let joins = steps.iter().enumerate().filter_map(|(number, step)| match step {
            Step::Probe { join, .. } => Some((&steps[..number], join.text_probed()?)),
            _ => None,
        });
        let (probed, keys) = match sink {
            Sink::Join { join, .. } => (join.text_probed(), Vec::new()),
            Sink::Aggregate(aggregate) => (None, aggregate.interned_columns()),
            _ => (None, Vec::new()),
        };
        let interned: Vec<usize> = keys.into_iter().filter_map(|key| source_column(steps, key)).collect();
        let probed = joins.chain(probed.map(|column| (steps, column)));
        let mut alone: Vec<usize> = probed.filter_map(|(steps, column)| source_column(steps, column)).collect();
        alone.extend_from_slice(&interned);
        alone.sort_unstable();
        alone.dedup();
        ByCode { groups: grouped_columns(steps, sink), alone, interned }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.alone.is_empty()
    }
}

/// The source's column that a column is after these steps, if it only passes through them.
pub(crate) fn source_column(steps: &[Step], column: usize) -> Option<usize> {
    steps.iter().rev().try_fold(column, |column, step| match step {
        Step::Aggregate(_) => None,
        step => step.keys_below(&[column]).first().copied(),
    })
}

/// A pipeline that is lowered when somebody asks for it, which most runs do not.
#[derive(Clone, Debug)]
struct Ungrouped {
    steps: Vec<Step>,
    sink: Sink,
    columns: usize,
    lowered: OnceLock<Option<Box<LoweredPipeline>>>,
}

#[derive(Clone, Debug)]
pub(crate) enum Output {
    /// Rows after every chunk; where the output columns are in them.
    Rows(Vec<Slot>),
    /// Rows at the end. Those of a partial aggregate may come in parts, with groups repeated.
    Groups {
        slots: Vec<Slot>,
        partial: bool,
        /// What accumulators of DataFusion's are given while the rows come.
        accumulated: Option<Arc<Accumulated>>,
    },
    Table(Table),
}

impl LoweredPipeline {
    /// The number that the program is known by.
    pub(crate) fn fingerprint(&self) -> u128 {
        *self.fingerprint.get_or_init(|| self.program.fingerprint())
    }

    /// Whether it is a partial aggregate that may make a group of every row.
    pub(crate) fn may_be_ungrouped(&self) -> bool {
        self.ungrouped.is_some()
    }

    /// Refuses dictionaries with few codes that would be made anew for every batch of rows; `output` is the schema of
    /// what comes out.
    pub(crate) fn check_codes(&self, output: &Schema) -> Result<()> {
        let Output::Rows(_) = &self.output else { return Ok(()) };
        let is_moved = |column: usize| self.moved.get(column).is_some_and(Option::is_some);
        let mut made = output.fields().iter().enumerate().filter(|(column, _)| !is_moved(*column));
        match made.find(|(_, field)| has_few_codes(field.data_type())) {
            Some((_, field)) => {
                Err(Unsupported::new(field.data_type(), "codes of 8 bits are too few for values of many batches"))
            }
            None => Ok(()),
        }
    }

    /// The program that makes a group of every row.
    pub(crate) fn ungrouped(&self) -> Option<&LoweredPipeline> {
        let Ungrouped { steps, sink, columns, lowered } = self.ungrouped.as_ref()?;
        lowered.get_or_init(|| lower_to(&self.schema, steps, sink, *columns).ok().map(Box::new)).as_deref()
    }
}

impl Step {
    /// The input columns behind the needed outputs.
    pub(crate) fn needed(&self, outputs: &[bool]) -> Vec<bool> {
        match self {
            Step::Filter { predicate, projection, input } => {
                let columns = input.fields().len();
                let read = read_by(columns, [predicate]);
                let kept = through_projection(columns, projection.as_deref(), outputs);
                read.iter().zip(kept).map(|(read, kept)| *read || kept).collect()
            }
            Step::Project { exprs, input } => {
                let evaluated = exprs.iter().zip(evaluated(exprs, input, outputs));
                read_by(input.fields().len(), evaluated.filter(|(_, evaluated)| *evaluated).map(|(expr, _)| expr))
            }
            Step::Probe { join, .. } => join.needed(outputs).0,
            Step::Aggregate(aggregate) => aggregate.needed(),
        }
    }

    /// The input columns that rows are grouped by, if they are grouped by these outputs after the step.
    pub(crate) fn keys_below(&self, keys: &[usize]) -> Vec<usize> {
        let below = |key: &usize| match self {
            Step::Filter { projection: Some(kept), .. } => kept.get(*key).copied(),
            Step::Filter { projection: None, .. } => Some(*key),
            Step::Project { exprs, .. } => Some(exprs.get(*key)?.downcast_ref::<Column>()?.index()),
            Step::Probe { join, .. } => join.probe_column(*key),
            Step::Aggregate(_) => None,
        };
        match self {
            Step::Aggregate(aggregate) => aggregate.key_columns(),
            _ => keys.iter().filter_map(below).collect(),
        }
    }

    fn lower(&self, lowering: &mut Lowering, input: &Rows, needed: &[bool]) -> Result<Rows> {
        match self {
            Step::Filter { predicate, projection, input: schema } => {
                filter(lowering, input, schema, predicate, projection.as_deref(), needed)
            }
            Step::Project { exprs, input: schema } => projection(lowering, input, schema, exprs, needed),
            Step::Probe { join, table, .. } => join.lower_probe(lowering, input, table, needed),
            Step::Aggregate(aggregate) => aggregate.lower(lowering, input),
        }
    }

    /// Whether the step lowers at all, for an input of this schema.
    pub(crate) fn check(&self, input: &Schema, needed: &[bool]) -> Result<()> {
        match self {
            Step::Filter { predicate, .. } => size::check([predicate])?,
            Step::Project { exprs, .. } => size::check(exprs)?,
            Step::Probe { join, .. } => size::check(join.exprs())?,
            Step::Aggregate(aggregate) => size::check(aggregate.exprs())?,
        }
        let mut lowering = Lowering::default();
        let rows = source(&mut lowering, input, &self.needed(needed), &[])?.0;
        self.lower(&mut lowering, &rows, needed).map(|_| ())
    }
}

impl Sink {
    /// The columns that the sink reads of its input, which has `columns` of them.
    pub(crate) fn needed(&self, columns: usize) -> Vec<bool> {
        match self {
            Sink::Rows => vec![true; columns],
            Sink::Aggregate(aggregate) | Sink::Ungrouped(aggregate) => read_by(columns, aggregate.exprs()),
            Sink::Join { join, .. } => join.needed_for_all().0,
            Sink::Build { join, columns, .. } => join.needed_by_build(&columns.needed),
        }
    }

    /// The columns of its input that rows are grouped by as they are.
    pub(crate) fn keys(&self) -> Vec<usize> {
        match self {
            Sink::Aggregate(aggregate) => aggregate.key_columns(),
            _ => Vec::new(),
        }
    }

    /// Whether the sink lowers at all, for an input of this schema.
    pub(crate) fn check(&self, input: &SchemaRef) -> Result<()> {
        match self {
            Sink::Rows => {}
            Sink::Aggregate(aggregate) | Sink::Ungrouped(aggregate) => size::check(aggregate.exprs())?,
            Sink::Join { join, .. } | Sink::Build { join, .. } => size::check(join.exprs())?,
        }
        let columns = input.fields().len();
        let output = lower_body(input, &[], self, columns)?.output;
        match self.ungrouped(&output) {
            Some(ungrouped) => lower_body(input, &[], &ungrouped, columns).map(|_| ()),
            None => Ok(()),
        }
    }

    /// The sink with a group for every row, if what it gives may have that.
    fn ungrouped(&self, output: &Output) -> Option<Sink> {
        match (self, output) {
            (Sink::Aggregate(aggregate), Output::Groups { partial: true, .. }) if aggregate.may_be_ungrouped() => {
                Some(Sink::Ungrouped(aggregate.of_texts()))
            }
            _ => None,
        }
    }
}

/// Lowers a pipeline; `columns` is how many the last step gives. Steps are in the order of execution.
pub(crate) fn lower(input: &SchemaRef, steps: Vec<Step>, sink: &Sink, columns: usize) -> Result<LoweredPipeline> {
    let mut lowered = lower_to(input, &steps, sink, columns)?;
    lowered.by_code = ByCode::of(&steps, sink);
    if matches!(lowered.output, Output::Groups { partial: false, .. }) && groups_are_apart(&steps, sink) {
        lowered.apart = lowered.by_code.groups.clone();
    }
    let ungrouped = sink.ungrouped(&lowered.output);
    lowered.ungrouped = ungrouped.map(|sink| Ungrouped { steps, sink, columns, lowered: OnceLock::new() });
    Ok(lowered)
}

/// The source's columns that a pipeline groups by as they are.
fn grouped_columns(steps: &[Step], sink: &Sink) -> Vec<usize> {
    let mut keys = sink.keys();
    for step in steps.iter().rev() {
        keys = match step {
            Step::Probe { .. } => Vec::new(),
            step => step.keys_below(&keys),
        };
    }
    keys
}

/// Whether rows that differ in a key of the first groups share nothing up to the end of the pipeline, or only states
/// that are merged after it; and whether every row of the source is in a group.
fn groups_are_apart(steps: &[Step], sink: &Sink) -> bool {
    let above = match sink {
        Sink::Aggregate(aggregate) => Some(aggregate),
        _ => None,
    };
    let first = steps.iter().position(|step| !matches!(step, Step::Project { .. }));
    match first.map(|first| (&steps[first], &steps[first + 1..])) {
        None => above.is_some_and(Aggregate::is_whole),
        Some((Step::Aggregate(aggregate), rest)) => {
            aggregate.is_whole()
                && !rest.iter().any(|step| matches!(step, Step::Aggregate(_)))
                && above.is_none_or(|above| above.partial)
        }
        Some(_) => false,
    }
}

/// A pipeline's program but for what [`Lowering::finish`] does, and what there is to know of it.
struct Body {
    lowering: Lowering,
    body: Expr,
    inputs: Vec<usize>,
    output: Output,
    moved: Vec<Option<usize>>,
    at_end: Option<AtEnd>,
}

fn lower_body(input: &SchemaRef, steps: &[Step], sink: &Sink, columns: usize) -> Result<Body> {
    let mut needed = vec![sink.needed(columns)];
    for step in steps.iter().rev() {
        let below = step.needed(needed.last().expect("the sink's"));
        needed.push(below);
    }
    let mut moved = match sink {
        Sink::Rows => lists::moved(steps, columns),
        Sink::Aggregate(aggregate) | Sink::Ungrouped(aggregate) if aggregate.accumulates() => {
            lists::moved(steps, columns)
        }
        _ => Vec::new(),
    };
    let given = match sink {
        Sink::Aggregate(aggregate) | Sink::Ungrouped(aggregate) => aggregate.moved(&moved)?,
        _ => moved.clone(),
    };
    let mut lowering = Lowering::default();
    let (mut rows, inputs) = source(&mut lowering, input, &needed.pop().expect("the source's"), &given)?;
    for step in steps {
        rows = step.lower(&mut lowering, &rows, &needed.pop().expect("one a step"))?;
    }
    // Groups of groups come at the end, all at once.
    let grouped = steps.iter().any(|step| matches!(step, Step::Aggregate(_)));
    let mut at_end = None;
    let (body, output) = match sink {
        Sink::Rows => {
            rows = with_texts(&mut lowering, rows)?;
            all_columns(&rows)?;
            let (body, slots) = lists::given(&mut lowering, &rows)?;
            let output = match grouped {
                true => Output::Groups { slots, partial: false, accumulated: None },
                false => Output::Rows(slots),
            };
            (body, output)
        }
        Sink::Aggregate(aggregate) => {
            let partial = aggregate.partial && !aggregate.group.is_empty() && !grouped;
            let (data, rows, accumulated) = match aggregate.accumulates() {
                true if grouped => return Err(Unsupported::new("AggregateExec", "accumulators of groups of groups")),
                true => {
                    let (rows, numbered, accumulated) = aggregate.lower_accumulating(&mut lowering, &rows, &moved)?;
                    let rows = with_texts(&mut lowering, rows)?;
                    (ir::strct([rows.data.clone(), numbered]), rows, Some(Arc::new(accumulated)))
                }
                false => {
                    let rows = aggregate.lower(&mut lowering, &rows)?;
                    let rows = with_texts(&mut lowering, rows)?;
                    (rows.data.clone(), rows, None)
                }
            };
            moved.clear();
            (data, Output::Groups { slots: slots(&rows)?, partial, accumulated })
        }
        Sink::Ungrouped(aggregate) => {
            let rows = aggregate.lower_ungrouped(&mut lowering, &rows)?;
            let rows = with_texts(&mut lowering, rows)?;
            moved = aggregate.moved_of_states(&moved)?;
            let output = Output::Rows(slots(&rows)?);
            (rows.data, output)
        }
        Sink::Join { join, table } => {
            let rows = with_texts(&mut lowering, rows)?;
            lists::none_of(&rows, &join.given_of_probe(), "HashJoinExec")?;
            let rows = join.lower_preserving(&mut lowering, &rows, table)?;
            at_end = Some(join.at_end(table));
            let mut slots: Vec<Slot> = rows.columns.iter().flatten().copied().collect();
            slots.pop();
            (rows.data, Output::Rows(slots))
        }
        Sink::Build { join, columns, bounds } => {
            lists::none_of(&rows, &columns.needed, "build side")?;
            let (body, table) = join.lower_build(&mut lowering, &rows, columns, *bounds)?;
            (body, Output::Table(table))
        }
    };
    Ok(Body { lowering, body, inputs, output, moved, at_end })
}

fn lower_to(input: &SchemaRef, steps: &[Step], sink: &Sink, columns: usize) -> Result<LoweredPipeline> {
    let Body { lowering, body, inputs, output, moved, at_end } = lower_body(input, steps, sink, columns)?;
    let (program, args, source) = lowering.finish(body);
    let probe = |step: &Step| match step {
        Step::Probe { join, .. } => Some(join.needs_build_rows()),
        _ => None,
    };
    let mut needs_build_rows: Vec<bool> = steps.iter().filter_map(probe).collect();
    if let Sink::Join { join, .. } = sink {
        needs_build_rows.push(join.needs_build_rows());
    }
    let keeps_groups = steps.iter().any(|step| matches!(step, Step::Aggregate(step) if !step.group.is_empty()))
        || matches!((sink, &output), (Sink::Aggregate(sink), Output::Groups { partial: false, .. }) if !sink.group.is_empty());
    let gathers = at_end.is_some() || steps.iter().any(|step| !matches!(step, Step::Project { .. }));
    Ok(LoweredPipeline {
        program,
        fingerprint: OnceLock::new(),
        schema: Arc::clone(input),
        inputs,
        args,
        output,
        moved,
        source,
        needs_build_rows,
        at_end,
        gathers,
        ungrouped: None,
        by_code: ByCode::default(),
        keeps_groups,
        apart: Vec::new(),
    })
}

/// The stream parameter: a struct of the needed columns. Some of them only pass through (`moved`).
pub(super) fn source(
    lowering: &mut Lowering,
    schema: &Schema,
    needed: &[bool],
    moved: &[Option<usize>],
) -> Result<(Rows, Vec<usize>)> {
    let streamed = |index: &usize| lists::streamed_type(schema.field(*index).data_type());
    let is_input = |index: &usize| needed[*index] && streamed(index).is_some();
    let mut inputs: Vec<usize> = (0..schema.fields().len()).filter(is_input).collect();
    if inputs.is_empty() {
        // Only the number of rows matters; a stream still needs a column to carry it.
        let cheapest = (0..schema.fields().len()).find(|index| !lists::is_nested(schema.field(*index).data_type()));
        inputs.extend(cheapest);
    }
    if inputs.is_empty() {
        return Err(Unsupported::new("input", "it has no columns"));
    }
    let mut columns = vec![None; schema.fields().len()];
    let mut types = Vec::new();
    for (field, &index) in inputs.iter().enumerate() {
        let nullable = schema.field(index).is_nullable();
        let ty = streamed(&index).ok_or_else(|| Unsupported::new("input", "a column that is not streamed"))?;
        types.push(if nullable { Type::structure([ty, Type::BOOL]) } else { ty });
        columns[index] = Some(Slot { field, nullable });
    }
    types.extend(lists::whole_types(inputs.iter().map(|index| schema.field(*index).data_type())));
    let data = lowering.stream(Type::vec(Type::structure(types)));
    let given: Vec<bool> = (0..schema.fields().len()).map(|index| moved.contains(&Some(index))).collect();
    let rows = lists::numbered(lowering, schema, Rows { data, columns }, needed, &given);
    Ok((rows, inputs))
}

fn slots(rows: &Rows) -> Result<Vec<Slot>> {
    all_columns(rows)?;
    Ok(rows.columns.iter().flatten().copied().collect())
}

fn all_columns(rows: &Rows) -> Result<()> {
    match rows.columns.is_empty() || rows.columns.contains(&None) {
        true => Err(Unsupported::new("output", "it has no columns")),
        false => Ok(()),
    }
}
