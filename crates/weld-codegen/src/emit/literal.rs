//! Vector literals.

use weld_core::diag::Span;
use weld_core::ir::{Expr, ExprKind};
use weld_core::ty::Type;

use super::{Emitter, Res, Val};
use crate::values::vector::{dense, element_of};

/// Vectors of at least as many literals are copied from constants: a store each would take LLVM too long.
const CONSTANT_MIN: usize = 16;

/// The columns of elements that are literals or structs of them, little-endian.
fn constant_columns(elements: &[Expr]) -> Option<Vec<Vec<u8>>> {
    let mut columns = Vec::new();
    elements.iter().all(|element| constant_element(element, &mut columns, &mut 0)).then_some(columns)
}

/// Appends an element's scalars to the columns from `at` on.
fn constant_element(element: &Expr, columns: &mut Vec<Vec<u8>>, at: &mut usize) -> bool {
    match &element.kind {
        ExprKind::Literal(literal) => {
            columns.resize(columns.len().max(*at + 1), Vec::new());
            columns[*at].extend_from_slice(&literal.bits().to_le_bytes()[..literal.kind().bytes()]);
            *at += 1;
            true
        }
        ExprKind::Struct(fields) => fields.iter().all(|field| constant_element(field, columns, at)),
        _ => false,
    }
}

impl<'c> Emitter<'c, '_> {
    pub(super) fn emit_vector(&mut self, ty: &Type, elements: &[Expr], span: Span) -> Res<Val<'c>> {
        let element = element_of(ty)?;
        if ty.is_bytes()
            && let Some(columns) = constant_columns(elements)
        {
            // Nobody changes bytes in place, so they need no memory of the run.
            let bytes = columns.into_iter().next().unwrap_or_default();
            return Ok(Val::Bytes(self.constant_bytes_value(&bytes)));
        }
        if elements.len() >= CONSTANT_MIN
            && let Some(columns) = constant_columns(elements)
        {
            return self.emit_constant(ty, elements.len(), &columns, span);
        }
        let mut values = Vec::with_capacity(elements.len());
        for element in elements {
            values.push(self.emit(element)?);
        }
        let region = self.region_for(ty);
        let len = self.i64(elements.len() as i64);
        let vec = self.allocate_vec(element, len, region, span)?;
        let columns = dense(&vec)?.to_vec();
        for (i, value) in values.iter().enumerate() {
            self.store_element(element, &mut columns.iter().copied(), self.i64(i as i64), value)?;
        }
        self.vec_value(ty, vec)
    }

    /// A vector copied from constant columns.
    fn emit_constant(&mut self, ty: &Type, len: usize, columns: &[Vec<u8>], span: Span) -> Res<Val<'c>> {
        let region = self.region_for(ty);
        let len = self.i64(len as i64);
        let vec = self.allocate_vec(element_of(ty)?, len, region, span)?;
        for (to, bytes) in dense(&vec)?.iter().zip(columns) {
            let from = self.unit.constant_bytes(bytes);
            self.b.build_memcpy(*to, 1, from, 1, self.i64(bytes.len() as i64))?;
        }
        self.vec_value(ty, vec)
    }
}
