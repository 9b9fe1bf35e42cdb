//! Matrices: literals, fills, slices, elementwise arithmetic, products, sizes.

use weld_core::diag::Span;
use weld_core::ir::{Expr, ExprKind as IrKind, Literal, build};
use weld_core::op::{Intrinsic, ReduceOp};
use weld_core::ty::{ScalarKind, Type as IrType};
use weld_tensor::{Fold, Size, View, contract, map};

use super::Lower;
use super::expr::arithmetic;
use super::value::{Matrix, Value, scalar_kind};
use crate::tree::BinaryOp;
use crate::typed::{self, Conversion, ExprKind, Index};
use crate::types::{Dim, Elem};

/// Matrices up to so many elements are filled by naming each.
const NAMED_MAX: u64 = 8;

impl<'a> Lower<'a> {
    pub(super) fn matrix_expr(&mut self, e: &'a typed::Expr) -> Matrix {
        let (elem, dims) = e.ty.as_matrix().map_or((Elem::Int, &[][..]), |(elem, dims)| (elem, &dims[..]));
        let span = e.span;
        let known = || dims.iter().map(|dim| Size::known(dim.known().unwrap_or(0) as u64)).collect::<Vec<Size>>();
        let (data, sizes) = match &e.kind {
            ExprKind::List(items) => {
                let items: Vec<Expr> = items.iter().map(|item| self.scalar(item)).collect();
                (build::vector(IrType::Scalar(scalar_kind(elem)), items).at(span), known())
            }
            ExprKind::Zero => {
                let zero = build::zero(&IrType::Scalar(scalar_kind(elem)));
                (self.filled(elem, &known(), zero, span), known())
            }
            ExprKind::Convert { how, value, what } => return self.converted(*how, value, what, (elem, dims), span),
            ExprKind::Slice { data, indices } => return self.slice(data, indices, span),
            ExprKind::Binary(BinaryOp::MatMul, a, b) => return self.product(a, b, span),
            ExprKind::Binary(op, a, b) => return self.elementwise(*op, a, b, span),
            _ => (build::vector(IrType::Scalar(scalar_kind(elem)), []), known()),
        };
        let data = self.bind("m", data);
        Matrix { elem, data, sizes }
    }

    fn matrix(&mut self, e: &'a typed::Expr) -> Matrix {
        match self.expr(e) {
            Value::Matrix(matrix) => matrix,
            Value::Scalar(data) => Matrix { elem: Elem::Int, data, sizes: Vec::new() },
        }
    }

    fn filled(&mut self, elem: Elem, sizes: &[Size], value: Expr, span: Span) -> Expr {
        let ty = IrType::Scalar(scalar_kind(elem));
        let count = Size::product(sizes);
        if let Some(count) = count.as_known()
            && count <= NAMED_MAX
        {
            return build::vector(ty, (0..count).map(|_| value.clone())).at(span);
        }
        let all = build::range(build::i64(0), count.expr(), build::i64(1));
        let appender = build::appender_sized(ty, count.expr());
        build::result(build::for_(self.flow.names(), all, appender, |_, b, _, _| build::merge(b, value))).at(span)
    }

    // Conversions.

    fn converted(
        &mut self,
        how: Conversion,
        value: &'a typed::Expr,
        what: &str,
        (elem, dims): (Elem, &[Dim]),
        span: Span,
    ) -> Matrix {
        let count = crate::types::elements(dims).unwrap_or(0);
        match how {
            Conversion::Sizes => {
                let mut matrix = self.matrix(value);
                for (at, (dim, size)) in dims.iter().zip(&mut matrix.sizes).enumerate() {
                    if let Dim::Known(wanted) = dim {
                        let message = format!("{what}: expected size {wanted} in dimension {at}, found {{0}}");
                        self.same_size(size, &Size::known(*wanted as u64), &message, span);
                        *size = Size::known(*wanted as u64);
                    }
                }
                matrix
            }
            Conversion::Shape => {
                let mut matrix = self.matrix(value);
                let message = format!("{what}: expected {count} elements for {}, found {{0}}", shape(dims));
                self.same_size(&matrix.count(), &Size::known(count as u64), &message, span);
                matrix.sizes = dims.iter().map(|dim| Size::known(dim.known().unwrap_or(0) as u64)).collect();
                matrix
            }
            Conversion::Fill => {
                let value = self.scalar(value);
                let sizes: Vec<Size> = dims.iter().map(|dim| Size::known(dim.known().unwrap_or(0) as u64)).collect();
                let data = self.filled(elem, &sizes, value, span);
                Matrix { elem, data: self.bind("m", data), sizes }
            }
            Conversion::Count => self.counted(value, what, dims, count, span),
        }
    }

    /// A matrix of the integers of a range.
    fn counted(&mut self, range: &'a typed::Expr, what: &str, dims: &[Dim], count: i64, span: Span) -> Matrix {
        let (start, end) = match &range.kind {
            ExprKind::Range(start, end) => (self.index(start), self.index(end)),
            _ => (build::i64(0), build::i64(0)),
        };
        if literal(&start).is_none() || literal(&end).is_none() {
            let found = build::max(build::sub(end.clone(), start.clone()), build::i64(0));
            let found = self.bind("count", found);
            let message = format!("{what}: expected {count} elements for {}, found {{0}}", shape(dims));
            self.same_size(&Size::open(found), &Size::known(count as u64), &message, span);
        }
        let all = build::range(start, end, build::i64(1));
        let appender = build::appender_sized(IrType::I32, build::i64(count));
        let merge = |b, x| build::merge(b, build::cast(x, ScalarKind::I32));
        let data = build::result(build::for_(self.flow.names(), all, appender, |_, b, _, x| merge(b, x))).at(span);
        let sizes = dims.iter().map(|dim| Size::known(dim.known().unwrap_or(0) as u64)).collect();
        Matrix { elem: Elem::Int, data: self.bind("m", data), sizes }
    }

    /// An error unless two sizes are equal; `{0}` is the first, `{1}` the second.
    fn same_size(&mut self, found: &Size, wanted: &Size, message: &str, span: Span) {
        if found.same(wanted) {
            return;
        }
        let (found, wanted) = (found.expr(), wanted.expr());
        self.check(build::eq(found.clone(), wanted.clone()), message, vec![found, wanted], span);
    }

    // Elements and slices.

    pub(super) fn element(&mut self, data: &'a typed::Expr, indices: &'a [typed::Expr], span: Span) -> Expr {
        let name = self.name_of(data);
        let matrix = self.matrix(data);
        let indices: Vec<Expr> = indices.iter().map(|index| self.index(index)).collect();
        let at = self.position(&matrix, &indices, &name, span);
        let value = build::lookup(matrix.data, at).at(span);
        self.bind("x", value)
    }

    /// Where an element lies in the data. Of one dimension what reads or writes it checks the index.
    pub(super) fn position(&mut self, matrix: &Matrix, indices: &[Expr], name: &str, span: Span) -> Expr {
        if let [only] = indices {
            return only.clone();
        }
        let mut at: Option<Expr> = None;
        for (d, (index, size)) in indices.iter().zip(&matrix.sizes).enumerate() {
            self.index_inside(index, size, name, d, span);
            at = Some(match at {
                None => index.clone(),
                Some(at) => build::add(build::mul(at, size.expr()), index.clone()),
            });
        }
        let at = at.unwrap_or_else(|| build::i64(0));
        self.bind("at", at)
    }

    fn index_inside(&mut self, index: &Expr, size: &Size, name: &str, d: usize, span: Span) {
        if self.stays_inside(index, size) {
            return;
        }
        let inside = build::and(build::ge(index.clone(), build::i64(0)), build::lt(index.clone(), size.expr()));
        let message = format!("index {{0}} is out of bounds: the size of `{name}` in dimension {d} is {{1}}");
        self.check(inside, &message, vec![index.clone(), size.expr()], span);
    }

    fn slice(&mut self, data: &'a typed::Expr, indices: &'a [Index], span: Span) -> Matrix {
        let name = self.name_of(data);
        let matrix = self.matrix(data);
        // The first index and the size of the part in each dimension.
        let mut parts: Vec<(Expr, Size)> = Vec::new();
        for (d, (index, size)) in indices.iter().zip(&matrix.sizes).enumerate() {
            let part = match index {
                Index::One(at) => {
                    let at = self.index(at);
                    self.index_inside(&at, size, &name, d, span);
                    (at, Size::known(1))
                }
                Index::Range(start, end) => {
                    let (start, end) = (self.index(start), self.index(end));
                    self.range_inside((&start, &end), size, &name, d, span)
                }
            };
            parts.push(part);
        }
        let whole = matrix.whole();
        let mut offset: Option<Expr> = None;
        for ((start, _), stride) in parts.iter().zip(&whole.strides) {
            if literal(start) != Some(0) {
                let step = if stride.is_one() { start.clone() } else { build::mul(start.clone(), stride.expr()) };
                offset = Some(match offset {
                    Some(offset) => build::add(offset, step),
                    None => step,
                });
            }
        }
        let offset = offset.map(|offset| self.bind("offset", offset));
        let sizes: Vec<Size> = parts.into_iter().map(|(_, size)| size).collect();
        let is_row = indices[..indices.len() - 1].iter().all(|index| matches!(index, Index::One(_)));
        let data = match is_row {
            true => {
                let offset = offset.unwrap_or_else(|| build::i64(0));
                build::slice(matrix.data, offset, Size::product(&sizes).expr()).at(span)
            }
            false => {
                let view = View { offset, ..whole };
                map(self.flow.names(), scalar_kind(matrix.elem), &sizes, vec![view], &mut |_, e| e[0].clone()).at(span)
            }
        };
        Matrix { elem: matrix.elem, data: self.bind("part", data), sizes }
    }

    /// Checks `start...end`; the start and the size of the part.
    fn range_inside(
        &mut self,
        (start, end): (&Expr, &Expr),
        size: &Size,
        name: &str,
        d: usize,
        span: Span,
    ) -> (Expr, Size) {
        let known = literal(start).zip(literal(end)).filter(|(start, end)| 0 <= *start && start <= end);
        let inside = known.is_some_and(|(_, end)| size.as_known().is_some_and(|size| end as u64 <= size));
        if !inside {
            let from = build::and(build::ge(start.clone(), build::i64(0)), build::le(start.clone(), end.clone()));
            let inside = build::and(from, build::le(end.clone(), size.expr()));
            let size = size.as_known().map_or(String::new(), |size| format!(": the size is {size}"));
            let message = format!("the slice {{0}}...{{1}} is out of bounds of `{name}` in dimension {d}{size}");
            self.check(inside, &message, vec![start.clone(), end.clone()], span);
        }
        let count = match known {
            Some((start, end)) => Size::known((end - start) as u64),
            None if literal(start) == Some(0) => Size::open(end.clone()),
            None => Size::open(self.bind("count", build::sub(end.clone(), start.clone()))),
        };
        (start.clone(), count)
    }

    // Arithmetic.

    fn elementwise(&mut self, op: BinaryOp, a: &'a typed::Expr, b: &'a typed::Expr, span: Span) -> Matrix {
        let (a, b) = (self.expr(a), self.expr(b));
        match (a, b) {
            (Value::Matrix(a), Value::Matrix(b)) => {
                let sizes = self.one_shape(op, &a, &b, span);
                let views = [&a, &b].map(|m| View::whole(m.data.clone(), &sizes));
                self.mapped(a.elem, sizes, views.into(), span, |e| arithmetic(op, e[0].clone(), e[1].clone(), span))
            }
            (Value::Matrix(a), Value::Scalar(b)) => {
                let (b, views) = (self.bind("x", b), vec![a.whole()]);
                self.mapped(a.elem, a.sizes, views, span, |e| arithmetic(op, e[0].clone(), b.clone(), span))
            }
            (Value::Scalar(a), Value::Matrix(b)) => {
                let (a, views) = (self.bind("x", a), vec![b.whole()]);
                self.mapped(b.elem, b.sizes, views, span, |e| arithmetic(op, a.clone(), e[0].clone(), span))
            }
            (Value::Scalar(data), _) => Matrix { elem: Elem::Int, data, sizes: Vec::new() },
        }
    }

    fn mapped(
        &mut self,
        elem: Elem,
        sizes: Vec<Size>,
        views: Vec<View>,
        span: Span,
        f: impl Fn(&[Expr]) -> Expr,
    ) -> Matrix {
        let data = map(self.flow.names(), scalar_kind(elem), &sizes, views, &mut |_, e| f(e)).at(span);
        Matrix { elem, data: self.bind("m", data), sizes }
    }

    /// The sizes of both; those that are known where one is.
    fn one_shape(&mut self, op: BinaryOp, a: &Matrix, b: &Matrix, span: Span) -> Vec<Size> {
        let mut sizes = Vec::new();
        for (d, (x, y)) in a.sizes.iter().zip(&b.sizes).enumerate() {
            let sign = op.sign();
            let message =
                format!("`{sign}` needs two matrices of one shape: their sizes in dimension {d} are {{0}} and {{1}}");
            self.same_size(x, y, &message, span);
            sizes.push(if x.as_known().is_some() { x.clone() } else { y.clone() });
        }
        sizes
    }

    /// `a # b`.
    fn product(&mut self, a: &'a typed::Expr, b: &'a typed::Expr, span: Span) -> Matrix {
        let (a, b) = (self.matrix(a), self.matrix(b));
        let ([n, k], [rows, m]) = (&a.sizes[..], &b.sizes[..]) else { return a };
        let message = "`#` needs as many columns on its left as rows on its right, found {0} and {1}";
        self.same_size(k, rows, message, span);
        let k = if k.as_known().is_some() { k.clone() } else { rows.clone() };
        let (zero, one) = (|| Size::known(0), || Size::known(1));
        let left = View { strides: vec![k.clone(), zero(), one()], ..a.whole() };
        let right = View { strides: vec![zero(), one(), m.clone()], ..b.whole() };
        let kind = scalar_kind(a.elem);
        let is_int = a.elem == Elem::Int;
        // Sums of floats may be reassociated; integers overflow where the sum in order does.
        let mut start = |_: &mut weld_core::ir::Names, _: &[Expr]| build::i32(0);
        let mut step = |_: &mut weld_core::ir::Names, sum: Expr, term: Expr| {
            build::intrinsic(Intrinsic::CheckedAdd, [sum, term]).at(span)
        };
        let fold = match is_int {
            true => Fold::Steps { start: &mut start, step: &mut step },
            false => Fold::Merge { op: ReduceOp::Add, start: build::lit(Literal::F32(0.0)) },
        };
        let sizes = vec![n.clone(), m.clone()];
        let names = self.flow.names();
        let term =
            &mut |_: &mut weld_core::ir::Names, e: &[Expr]| arithmetic(BinaryOp::Mul, e[0].clone(), e[1].clone(), span);
        let data = contract(names, kind, &sizes, &[k], vec![left, right], fold, term, &mut |_, sum, _| sum).at(span);
        Matrix { elem: a.elem, data: self.bind("m", data), sizes }
    }

    /// `m $ d`.
    pub(super) fn size(&mut self, data: &'a typed::Expr, dim: &'a typed::Expr, span: Span) -> Expr {
        let name = self.name_of(data);
        let matrix = self.matrix(data);
        let dim = self.index(dim);
        let size = |size: &Size| build::cast(size.expr(), ScalarKind::I32);
        let constant = literal(&dim).and_then(|dim| matrix.sizes.get(usize::try_from(dim).ok()?));
        let value = match constant {
            Some(known) => match known.as_known() {
                Some(known) => build::i32(known as i32),
                None => return self.bind_int("size", known.expr()),
            },
            None => {
                let rank = build::i64(matrix.sizes.len() as i64);
                let inside = build::and(build::ge(dim.clone(), build::i64(0)), build::lt(dim.clone(), rank.clone()));
                let message = format!("`$`: dimension {{0}} is out of bounds: the rank of `{name}` is {{1}}");
                self.check(inside, &message, vec![dim.clone(), rank], span);
                let mut sizes = matrix.sizes.iter().enumerate().rev();
                let last = sizes.next().map_or_else(|| build::i32(0), |(_, last)| size(last));
                sizes.fold(last, |other, (d, this)| {
                    build::select(build::eq(dim.clone(), build::i64(d as i64)), size(this), other)
                })
            }
        };
        self.bind("size", value.at(span))
    }

    /// How messages call a matrix.
    fn name_of(&self, e: &typed::Expr) -> String {
        match &e.kind {
            ExprKind::Var(var) => self.function.vars[var.0 as usize].name.clone(),
            ExprKind::Call { function, .. } => format!("{}(..)", self.module.functions[*function].name),
            ExprKind::SessionCall { function, .. } => format!("{}(..)", function.source.name),
            _ => "(..)".to_owned(),
        }
    }
}

fn literal(e: &Expr) -> Option<i64> {
    match e.kind {
        IrKind::Literal(Literal::I64(value)) => Some(value),
        _ => None,
    }
}

/// The sizes of a type.
fn shape(dims: &[Dim]) -> String {
    let dims: Vec<String> = dims.iter().map(Dim::to_string).collect();
    format!("[{}]", dims.join(","))
}
