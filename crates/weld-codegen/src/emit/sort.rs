//! `sort`: a stable bottom-up merge sort of row numbers, with the comparator inlined.
//!
//! ```text
//! for width = 1, 2, 4, ..:  for each pair of neighbouring runs of that width:
//!     while both have rows: take the right one if compare(left, right) > 0, else the left one
//! ```
//!
//! Several threads sort runs of their own and merge neighbouring ones, in the same order of comparisons; see
//! `weld_runtime::sort`.
//!
//! Both runs are bounded whatever the comparator says, so one that is no order gives some permutation. A comparator
//! that traps ends the run as anything else does.

use inkwell::IntPredicate;
use inkwell::values::{BasicValueEnum, IntValue, PhiValue, PointerValue};
use weld_core::diag::Span;
use weld_core::ir::{Expr, ExprKind, Func, Literal};
use weld_core::ty::Type;
use weld_runtime::Status;
use weld_runtime::sort::{Order, Sort};

use super::{Columns, Demand, Emitter, Parallel, Res, Val, VecVal, internal};
use crate::analysis::{calls_c, speculatable};
use crate::block::Flow;
use crate::block::address;
use crate::layout;
use crate::values::Ranges;
use crate::values::capture::{Loads, Stores};
use crate::values::vector::element_of;

/// Rows that are worth waking a thread.
const GRAIN: u64 = 1024;

/// How many places ahead in its run a row is fetched that will be compared.
const AHEAD: i64 = 8;

/// Two arrays of row numbers.
type Arrays<'c> = (PointerValue<'c>, PointerValue<'c>);

/// The rows that passes go over, and the widths of the runs that they merge.
struct Passes<'c> {
    rows: (IntValue<'c>, IntValue<'c>),
    /// The first one, and what they stay below.
    widths: (IntValue<'c>, IntValue<'c>),
    piece: Option<Piece<'c>>,
}

/// A part of a merge, see [`weld_runtime::sort::Order`].
#[derive(Clone, Copy)]
struct Piece<'c> {
    left: IntValue<'c>,
    right: IntValue<'c>,
    stop: IntValue<'c>,
    order: PointerValue<'c>,
}

impl<'c> Emitter<'c, '_> {
    /// A stably sorted copy of a vector.
    pub(crate) fn emit_sort(&mut self, data: &Val<'c>, ty: &Type, compare: &Func, span: Span) -> Res<Val<'c>> {
        let element = element_of(ty)?;
        let vec = self.as_vec(data)?;
        let len = vec.len;
        let too_many = self.cmp(IntPredicate::UGT, len, self.i64(u32::MAX.into()))?;
        self.trap_if(too_many, Status::TooLarge, span, &[len])?;
        let bytes = self.mul(len, self.i64(4))?;
        let a = self.allocate(self.region, bytes, span)?;
        let b = self.allocate(self.region, bytes, span)?;
        let parallel = self.parallel.take();
        let sorted = match self.sort_shared(parallel, &vec, element, (a, b), compare, span)? {
            Some(sorted) => sorted,
            None => self.sort_alone(&vec, element, (a, b), compare, span)?,
        };
        self.parallel = parallel;

        let region = self.region_for(ty);
        let result = self.allocate_vec(element, len, region, span)?;
        let Columns::Dense(columns) = &result.columns else { return Err(internal("a new vector in a chunk")) };
        let gather = |e: &mut Emitter<'c, '_>, vec: &VecVal<'c>, columns: &[PointerValue<'c>], rows, (first, count)| {
            e.gather_loop(count, |e, i| {
                let i = e.add_nw(first, i)?;
                let from = e.row_number(rows, i)?;
                let value = e.load_element(vec, element, from, &Demand::All)?;
                e.store_element(element, &mut columns.iter().copied(), i, &value)
            })
        };
        match &vec.columns {
            Columns::Stream { .. } => gather(self, &vec, columns, sorted, (self.i64(0), len))?,
            Columns::Dense(_) => self.in_ranges(
                len,
                |map| {
                    let columns = columns.iter().map(|column| map.pointer(*column)).collect::<Res<Vec<_>>>()?;
                    Ok((vec.map_registers(map)?, columns, map.pointer(sorted)?))
                },
                |e, (vec, columns, rows), first, count| gather(e, &vec, &columns, rows, (first, count)),
            )?,
        }
        for block in [a, b] {
            self.call("weld_free", &[self.run.into(), block.into()])?;
        }
        self.vec_value(ty, result)
    }

    /// Sorts on this thread. The rows are in one of the two arrays.
    fn sort_alone(
        &mut self,
        vec: &VecVal<'c>,
        element: &Type,
        arrays: Arrays<'c>,
        compare: &Func,
        span: Span,
    ) -> Res<PointerValue<'c>> {
        self.gather_loop(vec.len, |e, i| {
            let number = e.b.build_int_truncate(i, e.unit.ll.i32_type(), "")?;
            e.store(e.row_number_ptr(arrays.0, i)?, number)?;
            Ok(())
        })?;
        let passes = Passes { rows: (self.i64(0), vec.len), widths: (self.i64(1), vec.len), piece: None };
        self.merge_runs(vec, element, arrays, &passes, compare, span)
    }

    /// Sorts on several threads, with the passes in a function that [`weld_runtime::sort`] calls; none if the sort is
    /// to stay on this one.
    fn sort_shared(
        &mut self,
        parallel: Option<Parallel>,
        vec: &VecVal<'c>,
        element: &Type,
        (a, b): Arrays<'c>,
        compare: &Func,
        span: Span,
    ) -> Res<Option<PointerValue<'c>>> {
        let Some(parallel) = parallel else { return Ok(None) };
        let grain = parallel.grain.unwrap_or(GRAIN);
        let few = vec.len.get_zero_extended_constant().is_some_and(|len| len / 2 < grain);
        if few || calls_c(compare) || matches!(vec.columns, Columns::Stream { .. }) {
            return Ok(None);
        }
        let Some(captured) = self.captured(&compare.body, &compare.params) else { return Ok(None) };
        let ptr = self.unit.ptr_type().into();
        let mut e = self.outlined("passes", &[ptr, ptr, ptr])?;
        let mut loads = Loads::new(&e, e.pointer_param(2)?);
        let rows = vec.map_registers(&mut loads)?;
        let vars: Res<Vec<_>> =
            captured.iter().map(|(sym, value)| Ok((*sym, value.map_registers(&mut loads)?))).collect();
        e.vars.extend(vars?);
        let order = e.pointer_param(3)?;
        let word = |index: u64| e.load_i64(e.offset(order, 8 * index)?);
        let arrays = (e.load_ptr(order)?, e.load_ptr(e.offset(order, 8)?)?);
        let passes = Passes {
            rows: (word(2)?, word(3)?),
            widths: (word(4)?, word(5)?),
            piece: Some(Piece { left: word(6)?, right: word(7)?, stop: word(8)?, order }),
        };
        e.merge_runs(&rows, element, arrays, &passes, compare, span)?;
        let function = e.function;
        e.finish()?;

        let mut stores = Stores::default();
        vec.map_registers(&mut stores)?;
        for (_, value) in &captured {
            value.map_registers(&mut stores)?;
        }
        let fields: [BasicValueEnum<'c>; Sort::WORDS] = [
            address(function),
            stores.store(self)?.into(),
            self.region.into(),
            a.into(),
            b.into(),
            vec.len.into(),
            self.i64(grain as i64).into(),
        ];
        let (task, status) = self.call_with_words("weld_sort", &fields)?;
        self.pass_on(status)?;
        Ok(Some(self.load_ptr(self.offset(task, Sort::NUMBERS_OFFSET as u64)?)?))
    }

    /// Doubles the width of sorted runs. The rows are in one of the two arrays.
    fn merge_runs(
        &mut self,
        vec: &VecVal<'c>,
        element: &Type,
        (a, b): Arrays<'c>,
        passes: &Passes<'c>,
        compare: &Func,
        span: Span,
    ) -> Res<PointerValue<'c>> {
        let Passes { rows: (first, last), widths: (least, until), piece } = *passes;
        let (i64, ptr) = (self.unit.i64_type(), self.unit.ptr_type());
        let (pass, pair) = (self.new_block("pass"), self.new_block("pair"));
        let (merge, next_pass, done) = (self.new_block("merge"), self.new_block("passed"), self.new_block("sorted"));
        let entry = self.current_block()?;
        self.branch(pass)?;

        self.at(pass);
        let width = self.b.build_phi(i64, "width")?;
        let (from, to) = (self.b.build_phi(ptr, "from")?, self.b.build_phi(ptr, "to")?);
        let (source, target) = (pointer(from), pointer(to));
        let more = self.cmp(IntPredicate::ULT, int(width), until)?;
        self.branch_if(more, pair, done)?;

        self.at(pair);
        let start = self.b.build_phi(i64, "start")?;
        let left = self.cmp(IntPredicate::ULT, int(start), last)?;
        self.branch_if(left, merge, next_pass)?;

        self.at(merge);
        self.poll_cancel(span)?;
        let middle = self.umin(self.add_nw(int(start), int(width))?, last)?;
        let end = self.umin(self.add_nw(middle, int(width))?, last)?;
        self.merge_pair(vec, element, (source, target), (int(start), middle, end), piece, compare)?;
        start.add_incoming(&[(&first, pass), (&end, self.current_block()?)]);
        self.branch(pair)?;

        self.at(next_pass);
        let doubled = self.add_nw(int(width), int(width))?;
        width.add_incoming(&[(&least, entry), (&doubled, next_pass)]);
        from.add_incoming(&[(&a, entry), (&target, next_pass)]);
        to.add_incoming(&[(&b, entry), (&source, next_pass)]);
        self.branch(pass)?;
        self.at(done);
        Ok(source)
    }

    /// Merges the runs `start .. middle` and `middle .. end`, or a piece of them.
    fn merge_pair(
        &mut self,
        vec: &VecVal<'c>,
        element: &Type,
        (source, target): (PointerValue<'c>, PointerValue<'c>),
        (start, middle, end): (IntValue<'c>, IntValue<'c>, IntValue<'c>),
        piece: Option<Piece<'c>>,
        compare: &Func,
    ) -> Res<()> {
        let i64 = self.unit.i64_type();
        let (first_left, first_right, first_out) = match &piece {
            Some(piece) => {
                let left = self.add_nw(start, piece.left)?;
                (left, self.add_nw(middle, piece.right)?, self.add_nw(left, piece.right)?)
            }
            None => (start, middle, start),
        };
        let (head, take, rest) = (self.new_block("runs"), self.new_block("take"), self.new_block("rest"));
        let entry = self.current_block()?;
        self.branch(head)?;
        self.at(head);
        let (left, right) = (self.b.build_phi(i64, "left")?, self.b.build_phi(i64, "right")?);
        let out = self.b.build_phi(i64, "out")?;
        let left_more = self.cmp(IntPredicate::ULT, int(left), middle)?;
        let right_more = self.cmp(IntPredicate::ULT, int(right), end)?;
        let mut more = self.and(left_more, right_more)?;
        if let Some(piece) = &piece {
            more = self.and(more, self.cmp(IntPredicate::ULT, int(out), piece.stop)?)?;
        }
        self.branch_if(more, take, rest)?;

        self.at(take);
        if let Some((ty, column)) = self.compared_column(vec, element, compare)? {
            for (position, end) in [(int(left), middle), (int(right), end)] {
                let last = self.sub(end, self.i64(1))?;
                let later = self.umin(self.add_nw(position, self.i64(AHEAD))?, last)?;
                let row = self.row_number(source, later)?;
                self.prefetch(self.column_ptr(&ty, column, row)?)?;
            }
        }
        let (left_row, right_row) = (self.row_number(source, int(left))?, self.row_number(source, int(right))?);
        let greater = self.compare_rows(vec, element, left_row, right_row, compare)?;
        let chosen = self.choose_int(greater, right_row, left_row)?;
        let chosen = self.b.build_int_truncate(chosen, self.unit.ll.i32_type(), "")?;
        self.store(self.row_number_ptr(target, int(out))?, chosen)?;
        let from_right = self.to_i64(greater)?;
        let from_left = self.sub(self.i64(1), from_right)?;
        let take_end = self.current_block()?;
        left.add_incoming(&[(&first_left, entry), (&self.add_nw(int(left), from_left)?, take_end)]);
        right.add_incoming(&[(&first_right, entry), (&self.add_nw(int(right), from_right)?, take_end)]);
        out.add_incoming(&[(&first_out, entry), (&self.add_nw(int(out), self.i64(1))?, take_end)]);
        self.branch(head)?;

        // One run is used up: what is left of the other follows.
        self.at(rest);
        let mut at = int(out);
        for (position, from, end, done) in
            [(int(left), start, middle, Order::LEFT_OFFSET), (int(right), middle, end, Order::RIGHT_OFFSET)]
        {
            let mut count = self.sub(end, position)?;
            if let Some(piece) = &piece {
                count = self.umin(count, self.sub(piece.stop, at)?)?;
                let merged = self.sub(self.add_nw(position, count)?, from)?;
                self.store(self.offset(piece.order, done as u64)?, merged)?;
            }
            let bytes = self.mul(count, self.i64(4))?;
            self.b.build_memcpy(
                self.row_number_ptr(target, at)?,
                4,
                self.row_number_ptr(source, position)?,
                4,
                bytes,
            )?;
            at = self.add_nw(at, count)?;
        }
        Ok(())
    }

    /// The first column that the comparator reads.
    fn compared_column(
        &self,
        vec: &VecVal<'c>,
        element: &Type,
        compare: &Func,
    ) -> Res<Option<(Type, PointerValue<'c>)>> {
        let [(a, _), _] = &compare.params[..] else { return Ok(None) };
        let Columns::Dense(columns) = &vec.columns else { return Ok(None) };
        let demand = self.facts.demands.get(a).cloned().unwrap_or_default();
        let first = first_demanded(element, &demand);
        Ok(layout::columns(element).into_iter().zip(columns.iter().copied()).nth(first))
    }

    /// Whether `compare(left, right) > 0`.
    fn compare_rows(
        &mut self,
        vec: &VecVal<'c>,
        element: &Type,
        left: IntValue<'c>,
        right: IntValue<'c>,
        compare: &Func,
    ) -> Res<IntValue<'c>> {
        let [(a, _), (b, _)] = &compare.params[..] else {
            return Err(internal("a comparator of other than two parameters"));
        };
        self.loop_depth += 1;
        let order = self.with_scratch(Vec::new(), &compare.body, |e| {
            for (sym, row) in [(a, left), (b, right)] {
                let demand = e.facts.demands.get(sym).cloned().unwrap_or_default();
                let value = e.load_element(vec, element, row, &demand)?;
                e.vars.insert(*sym, value);
            }
            match &compare.body.kind {
                // `compare(x, y)`: whether it is less or equal does not matter.
                ExprKind::If { cond, on_true, on_false } if is_positive(on_true) && is_never_positive(on_false) => {
                    e.emit_int(cond)
                }
                _ => {
                    let order = e.emit_int(&compare.body)?;
                    e.cmp(IntPredicate::SGT, order, e.i32(0))
                }
            }
        })?;
        self.loop_depth -= 1;
        Ok(order)
    }

    fn row_number_ptr(&self, rows: PointerValue<'c>, index: IntValue<'c>) -> Res<PointerValue<'c>> {
        self.element_ptr(self.unit.ll.i32_type().into(), rows, index)
    }

    fn row_number(&self, rows: PointerValue<'c>, index: IntValue<'c>) -> Res<IntValue<'c>> {
        let number = self.load(self.unit.ll.i32_type(), self.row_number_ptr(rows, index)?)?;
        self.to_i64(number.into_int_value())
    }
}

/// How many columns stand before the first one of which something is read.
fn first_demanded(ty: &Type, demand: &Demand) -> usize {
    match (ty, demand) {
        (_, Demand::None) => layout::columns(ty).len(),
        (Type::Struct(fields), _) => {
            let mut before = 0;
            for (i, field) in fields.iter().enumerate() {
                let skipped = first_demanded(field, &demand.field(i));
                before += skipped;
                if skipped < layout::columns(field).len() {
                    break;
                }
            }
            before
        }
        _ => 0,
    }
}

fn is_positive(e: &Expr) -> bool {
    matches!(e.kind, ExprKind::Literal(Literal::I32(n)) if n > 0)
}

/// Whether the expression is a number that is not positive, or a choice of such that raises no error.
fn is_never_positive(e: &Expr) -> bool {
    let is_path = |mut e: &Expr| {
        while let ExprKind::Field(of, _) = &e.kind {
            e = of;
        }
        matches!(e.kind, ExprKind::Var(_))
    };
    match &e.kind {
        ExprKind::Literal(Literal::I32(n)) => *n <= 0,
        ExprKind::If { cond, on_true, on_false } => {
            let harmless = |e: &Expr| speculatable(e, u32::MAX).is_some() || is_path(e);
            matches!(&cond.kind, ExprKind::Binary(op, a, b) if op.is_comparison() && harmless(a) && harmless(b))
                && is_never_positive(on_true)
                && is_never_positive(on_false)
        }
        _ => false,
    }
}

fn int<'c>(phi: PhiValue<'c>) -> IntValue<'c> {
    phi.as_basic_value().into_int_value()
}

fn pointer<'c>(phi: PhiValue<'c>) -> PointerValue<'c> {
    phi.as_basic_value().into_pointer_value()
}
