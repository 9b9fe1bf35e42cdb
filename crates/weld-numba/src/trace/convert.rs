//! Values as expressions of a type, and back.

use weld_core::diag::Span;
use weld_core::ir::{Expr, Names, build};
use weld_core::op::ReduceOp;
use weld_core::ty::{BuilderType, Type};

use super::{Res, Tracer, error};
use crate::store::{ARGUMENT, CellId, TAKEN};
use crate::types::Ty;
use crate::value::{Const, Value};

impl<'a> Tracer<'a> {
    /// The value that an expression of the type stands for.
    pub(super) fn value_of(&mut self, e: Expr, ty: &Ty) -> Value<'a> {
        match ty {
            Ty::Scalar(_) | Ty::Str => Value::Data(e, ty.clone()),
            Ty::None | Ty::Unknown => Value::None,
            Ty::List(element) => {
                let cell = self.store.cell("list", None, Value::Elements(e, (**element).clone()));
                self.store.freeze(cell, TAKEN);
                Value::List(cell)
            }
            Ty::Tuple(parts) => {
                let e = self.bind("tuple", e);
                let parts = parts.iter().enumerate();
                Value::tuple(
                    parts.map(|(index, part)| self.value_of(build::field(e.clone(), index), part)).collect::<Vec<_>>(),
                )
            }
            Ty::Object(object) => {
                let e = self.bind("object", e);
                let fields = object.fields.iter().enumerate();
                let fields: Vec<Value<'a>> =
                    fields.map(|(index, (_, ty))| self.value_of(build::field(e.clone(), index), ty)).collect();
                let cell = self.store.cell("object", None, Value::Fields(fields.into()));
                self.store.freeze(cell, TAKEN);
                Value::Object(cell, object.clone())
            }
        }
    }

    /// An element of a list: those of an argument are the caller's, too.
    pub(super) fn element_of(&mut self, list: CellId, e: Expr, ty: &Ty) -> Value<'a> {
        let value = self.value_of(e, ty);
        if self.store.frozen(list) == Some(ARGUMENT) {
            self.freeze_argument(&value);
        }
        value
    }

    /// The expression of a value, in its own type.
    pub(super) fn pack(&mut self, value: &Value<'a>, span: Span) -> Res<Expr> {
        Ok(match value {
            Value::Const(value) => value.expr(),
            Value::Data(e, _) => e.clone(),
            Value::None => build::bool(false),
            Value::Tuple(parts) => {
                let parts = parts.iter().map(|part| self.pack(part, span)).collect::<Res<Vec<_>>>()?;
                build::strct(parts)
            }
            Value::List(cell) => self.elements(*cell, span)?.0,
            Value::Object(cell, ty) => match self.store.get(*cell).clone() {
                Value::Fields(fields) => {
                    let pairs = fields.iter().zip(&ty.fields);
                    let packed =
                        pairs.map(|(field, (_, ty))| self.coerced(field, ty, span)).collect::<Res<Vec<_>>>()?;
                    build::strct(packed)
                }
                _ => return error(span, "internal error: an object without fields"),
            },
            other => return error(span, format!("{} is no value of the run", self.described(other))),
        })
    }

    /// The expression of a value as one of the type.
    pub(super) fn coerced(&mut self, value: &Value<'a>, ty: &Ty, span: Span) -> Res<Expr> {
        if self.try_type(value).as_ref() == Some(ty) {
            return self.pack(value, span);
        }
        let value = self.coerce(value, ty, span)?;
        self.pack(&value, span)
    }

    /// A value as one of the type: by a rule of the program, or one that is built in.
    pub(super) fn coerce(&mut self, value: &Value<'a>, ty: &Ty, span: Span) -> Res<Value<'a>> {
        let found = self.type_of(value, span)?;
        if found == *ty {
            return Ok(value.clone());
        }
        if let Some(value) = self.convert_by_rule(value, &found, ty, span)? {
            return Ok(value);
        }
        match (value, ty) {
            (Value::Const(Const::Int(known)), Ty::Scalar(kind)) if kind.is_integer() => match fits(*known, *kind) {
                true => Ok(Value::Data(build::number(*kind, i128::from(*known)), ty.clone())),
                false => error(span, format!("{known} does not fit {ty}")),
            },
            (Value::Tuple(parts), Ty::Tuple(types)) if parts.len() == types.len() => {
                let pairs = parts.iter().zip(types.iter());
                let parts = pairs.map(|(part, ty)| self.coerce(part, ty, span)).collect::<Res<Vec<_>>>()?;
                Ok(Value::tuple(parts))
            }
            (Value::List(cell), Ty::List(element)) => {
                let (elements, of) = self.elements(*cell, span)?;
                if !of.holds_unknown() {
                    return error(span, format!("expected {ty}, found {found}"));
                }
                let elements = self.convert_elements(elements, &of, element, span)?;
                Ok(Value::List(self.store.cell("list", None, Value::Elements(elements, (**element).clone()))))
            }
            _ => match (found.number(), ty.number(), value.data()) {
                // Floats do not become integers.
                (Some(from), Some(to), Some(e)) if to.is_float() || from.is_integer() => {
                    if to.is_integer() && found.unify(ty).as_ref() != Some(ty) {
                        return error(span, format!("expected {ty}, found {found}"));
                    }
                    Ok(Value::scalar(self.bind("x", build::cast(e, to))))
                }
                _ => error(span, format!("expected {ty}, found {found}")),
            },
        }
    }

    /// The elements of a list as those of a list of another type.
    pub(super) fn convert_elements(&mut self, elements: Expr, from: &Ty, to: &Ty, span: Span) -> Res<Expr> {
        if from == to {
            return Ok(elements);
        }
        if *from == Ty::Unknown || from.holds_unknown() && self.is_empty_literal(&elements) {
            return Ok(build::vector(to.weld(), []));
        }
        let names = self.flow.names();
        let (b, i, x) = (names.fresh("b"), names.fresh("i"), names.fresh("x"));
        let appender = BuilderType::Appender(to.weld().into());
        let builder = build::appender(to.weld());
        self.flow.open();
        let element = build::var(x, from.weld());
        let value = match (from, to) {
            (Ty::List(from), Ty::List(to)) => self.convert_elements(element, from, to, span)?,
            _ => {
                let value = self.value_of(element, from);
                self.coerced(&value, to, span)?
            }
        };
        let merged = build::merge(build::var(b, Type::Builder(appender.clone())), value);
        let body = Box::new(self.flow.close(merged));
        let params = vec![(b, Type::Builder(appender)), (i, Type::I64), (x, from.weld())];
        let func = weld_core::ir::Func { params, body };
        let looped = build::for_func(build::over(elements), builder, func).at(span);
        Ok(self.bind("list", build::result(looped)))
    }

    fn is_empty_literal(&self, elements: &Expr) -> bool {
        matches!(&elements.kind, weld_core::ir::ExprKind::Vector(parts) if parts.is_empty())
    }

    /// A builder of the type with these elements in it.
    pub(super) fn builder_of(&mut self, elements: Expr, ty: Type) -> Expr {
        let Type::Builder(builder) = ty else { return elements };
        let empty = build::builder(builder);
        if self.is_empty_literal(&elements) {
            return empty;
        }
        let looped = copied(self.flow.names(), elements, empty);
        self.flow.keep("built", looped)
    }

    /// The merger of a sum.
    pub(super) fn adder(start: Expr) -> Expr {
        let op = weld_core::op::MergeOp::All(ReduceOp::Add);
        build::builder_with(BuilderType::Merger { value: start.ty.clone().into(), op }, start)
    }
}

fn fits(value: i64, kind: weld_core::ty::ScalarKind) -> bool {
    build::literal(kind, value.into()).bits() == i128::from(value)
}

/// The appender with the elements of a vector behind what is in it.
pub(super) fn copied(names: &mut Names, elements: Expr, appender: Expr) -> Expr {
    build::for_(names, build::over(elements), appender, |_, b, _, x| build::merge(b, x))
}
