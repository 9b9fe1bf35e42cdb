//! Objects: construction, attributes, methods.

use std::rc::Rc;
use std::sync::Arc;

use weld_core::diag::Span;

use super::call::Keywords;
use super::pattern::Binds;
use super::{Res, Tracer, error};
use crate::module::{Class, Overloads};
use crate::store::{CellId, FrameId};
use crate::types::{ObjectTy, Ty, TyArg};
use crate::value::{Callable, Value};

impl<'a> Tracer<'a> {
    fn class_of(&self, ty: &ObjectTy) -> Rc<Class<'a>> {
        self.module.classes[ty.class].clone()
    }

    fn methods(&self, of: &Value<'a>, name: &str) -> Option<Overloads<'a>> {
        match of {
            Value::Object(_, ty) => self.module.classes[ty.class].methods.get(name).cloned(),
            _ => None,
        }
    }

    pub(super) fn has_method(&self, of: &Value<'a>, name: &str) -> bool {
        matches!(of, Value::Object(_, ty) if self.module.classes[ty.class].methods.contains_key(name))
    }

    /// `C(..)`.
    pub(super) fn construct(
        &mut self,
        index: usize,
        params: &[TyArg],
        args: Vec<Value<'a>>,
        keywords: Keywords<'a>,
        span: Span,
    ) -> Res<Value<'a>> {
        let class = self.module.classes[index].clone();
        let init = class.methods.get("__init__").cloned();
        let params = match params.is_empty() && !class.params.is_empty() {
            false => params.to_vec(),
            true if init.is_none() => self.infer_params(&class, &args, span)?,
            true => {
                return error(span, format!("`{}` has parameters: write `{}[..](..)`", class.name, class.name));
            }
        };
        let ty = self.object_type(index, params, span)?;
        let fields: Vec<Value<'a>> = vec![Value::Unbound; ty.fields.len()];
        let cell = self.store.cell(&class.name, None, Value::Fields(fields.into()));
        let object = Value::Object(cell, ty.clone());
        match init {
            Some(init) => {
                self.invoke_method(&object, &init, args, keywords, span)?;
                self.check_fields(cell, &ty, span)?;
            }
            None => self.fill_fields(cell, &ty, args, keywords, span)?,
        }
        if class.fields.iter().all(|field| field.is_immutable) {
            self.store.freeze(cell, IMMUTABLE);
        }
        Ok(object)
    }

    /// The parameters of a class out of what its fields are given.
    fn infer_params(&mut self, class: &Rc<Class<'a>>, args: &[Value<'a>], span: Span) -> Res<Vec<TyArg>> {
        let mut binds = Binds::default();
        for (field, arg) in class.fields.iter().zip(args) {
            if let Some(ty) = self.try_type(arg) {
                self.match_type(&field.ty, &ty, &mut binds, span)?;
            }
        }
        let mut params = Vec::new();
        for (name, _) in &class.params {
            match binds.get(name) {
                Some(bound) => params.push(bound.clone()),
                None => {
                    let message = format!(
                        "the parameter `{name}` of `{}` is not known: write `{}[..](..)`",
                        class.name, class.name
                    );
                    return error(span, message);
                }
            }
        }
        Ok(params)
    }

    /// Without `__init__` the arguments are the fields in order.
    fn fill_fields(
        &mut self,
        cell: CellId,
        ty: &Rc<ObjectTy>,
        args: Vec<Value<'a>>,
        keywords: Keywords<'a>,
        span: Span,
    ) -> Res<()> {
        if args.len() + keywords.len() != ty.fields.len() {
            let message = format!(
                "`{}` has {} fields, found {} arguments",
                ty.name,
                ty.fields.len(),
                args.len() + keywords.len()
            );
            return error(span, message);
        }
        let mut fields = Vec::new();
        for (index, (name, of)) in ty.fields.iter().enumerate() {
            let named = || keywords.iter().find(|(keyword, _)| keyword == name).map(|(_, value)| value.clone());
            let Some(arg) = args.get(index).cloned().or_else(named) else {
                return error(span, format!("the field `{name}` of `{}` is missing", ty.name));
            };
            fields.push(self.field_value(&arg, of, name, &ty.name, span)?);
        }
        self.store.set(cell, Value::Fields(fields.into()));
        Ok(())
    }

    fn field_value(&mut self, value: &Value<'a>, ty: &Ty, name: &str, class: &str, span: Span) -> Res<Value<'a>> {
        let value = match (value, ty) {
            (Value::Stream(_), Ty::List(_)) => self.list_from(value, span)?,
            _ => value.clone(),
        };
        let found = self.described(&value);
        match self.coerce(&value, ty, span) {
            Ok(value) => Ok(value.variable()),
            Err(super::Stop::Error(_)) => {
                error(span, format!("the field `{name}` of `{class}` is {ty}, found {found}"))
            }
            Err(stop) => Err(stop),
        }
    }

    fn check_fields(&mut self, cell: CellId, ty: &ObjectTy, span: Span) -> Res<()> {
        let Value::Fields(fields) = self.store.get(cell).clone() else { return Ok(()) };
        let missing =
            fields.iter().zip(&ty.fields).find(|(field, _)| matches!(field, Value::Unbound | Value::Maybe(..)));
        match missing {
            Some((_, (name, _))) => error(span, format!("`__init__` of `{}` does not set the field `{name}`", ty.name)),
            None => Ok(()),
        }
    }

    // Attributes.

    pub(super) fn attribute(&mut self, of: &Value<'a>, name: &Arc<str>, span: Span) -> Res<Value<'a>> {
        match of {
            Value::Object(cell, ty) => {
                if let Some(index) = ty.fields.iter().position(|(field, _)| field == name) {
                    let Value::Fields(fields) = self.store.get(*cell).clone() else {
                        return error(span, "internal error: an object without fields");
                    };
                    return match &fields[index] {
                        Value::Unbound | Value::Maybe(..) => {
                            error(span, format!("the field `{name}` is read before it is assigned"))
                        }
                        value => Ok(value.clone()),
                    };
                }
                let class = self.class_of(ty);
                match class.methods.get(name).map(|methods| methods[0].is_property) {
                    Some(true) => return self.call_method(of, name, Vec::new(), span),
                    Some(false) => return Ok(Value::Callable(Callable::Method(Rc::new(of.clone()), name.clone()))),
                    None => {}
                }
                if let Some(constant) = class.constants.get(name) {
                    return self.within(0, |tracer| tracer.expr(constant));
                }
                let param = class.params.iter().position(|(param, _)| param == name);
                match param.map(|index| &ty.args[index]) {
                    Some(TyArg::Int(value)) => Ok(Value::int(*value)),
                    Some(TyArg::Ty(ty)) => Ok(Value::Type(ty.clone())),
                    None => error(span, format!("AttributeError: `{}` has no attribute `{name}`", ty.name)),
                }
            }
            Value::List(_) | Value::Stream(_) => {
                Ok(Value::Callable(Callable::Method(Rc::new(of.clone()), name.clone())))
            }
            Value::Callable(Callable::Class(class, _)) => {
                let class = self.module.classes[*class].clone();
                match class.constants.get(name) {
                    Some(constant) => self.within(0, |tracer| tracer.expr(constant)),
                    None => error(span, format!("AttributeError: the class `{}` has no constant `{name}`", class.name)),
                }
            }
            other if self.try_type(other) == Some(Ty::Str) => {
                Ok(Value::Callable(Callable::Method(Rc::new(of.clone()), name.clone())))
            }
            other => {
                let message = format!("AttributeError: {} has no attribute `{name}`", self.described(other));
                error(span, message)
            }
        }
    }

    pub(super) fn set_attribute(&mut self, of: &Value<'a>, name: &str, value: Value<'a>, span: Span) -> Res<()> {
        let Value::Object(cell, ty) = of else {
            let message = format!("AttributeError: attributes of {} cannot be set", self.described(of));
            return error(span, message);
        };
        let Some(index) = ty.fields.iter().position(|(field, _)| &**field == name) else {
            return error(span, format!("AttributeError: `{}` has no field `{name}`", ty.name));
        };
        let Value::Fields(fields) = self.store.get(*cell).clone() else { return Ok(()) };
        let is_new = matches!(fields[index], Value::Unbound);
        if self.class_of(ty).fields[index].is_immutable && !is_new {
            return error(span, format!("the field `{name}` of `{}` is immutable", ty.name));
        }
        self.check_change(*cell, span)?;
        let value = self.field_value(&value, &ty.fields[index].1, name, &ty.name, span)?;
        let mut fields = fields.to_vec();
        fields[index] = value;
        self.store.set(*cell, Value::Fields(fields.into()));
        Ok(())
    }

    // Methods.

    pub(super) fn call_method(
        &mut self,
        of: &Value<'a>,
        name: &str,
        args: Vec<Value<'a>>,
        span: Span,
    ) -> Res<Value<'a>> {
        self.call_method_with(of, name, args, Vec::new(), span)
    }

    pub(super) fn call_method_with(
        &mut self,
        of: &Value<'a>,
        name: &str,
        args: Vec<Value<'a>>,
        keywords: Keywords<'a>,
        span: Span,
    ) -> Res<Value<'a>> {
        match of {
            Value::List(cell) => self.list_method(*cell, name, args, keywords, span),
            _ if self.try_type(of) == Some(Ty::Str) => match keywords.first() {
                Some((keyword, _)) => {
                    error(span, format!("TypeError: `{name}` of a string takes no argument `{keyword}`"))
                }
                None => self.text_method(of, name, &args, span),
            },
            Value::Stream(_) if name == "__next__" && args.is_empty() => self.next(of, span),
            Value::Stream(_) if name == "__iter__" && args.is_empty() => Ok(of.clone()),
            _ => match self.methods(of, name) {
                Some(overloads) => self.invoke_method(of, &overloads, args, keywords, span),
                None => {
                    let message = format!("AttributeError: {} has no method `{name}`", self.described(of));
                    error(span, message)
                }
            },
        }
    }

    fn invoke_method(
        &mut self,
        of: &Value<'a>,
        overloads: &Overloads<'a>,
        args: Vec<Value<'a>>,
        keywords: Keywords<'a>,
        span: Span,
    ) -> Res<Value<'a>> {
        let args: Vec<Value<'a>> = std::iter::once(of.clone()).chain(args).collect();
        let Value::Object(_, ty) = of else { return error(span, "internal error: no object") };
        let class = self.class_of(ty);
        if class.params.is_empty() {
            return self.invoke(overloads, 0, args, keywords, span);
        }
        // The parameters of the class are names in its methods and their signatures.
        let mut binds = Binds::default();
        for ((name, _), arg) in class.params.iter().zip(&ty.args) {
            binds.set(name, arg.clone());
        }
        let frame = self.class_frame(&class, ty);
        self.invoke_with(overloads, frame, (args, keywords), &binds, span)
    }

    fn class_frame(&mut self, class: &Rc<Class<'a>>, ty: &Rc<ObjectTy>) -> FrameId {
        let frame = self.within(0, |tracer| tracer.inner_frame());
        for ((name, _), arg) in class.params.iter().zip(&ty.args) {
            self.declare_parameter(frame, name, arg);
        }
        frame
    }

    /// A parameter of a class or a variable of a signature as a name.
    pub(super) fn declare_parameter(&mut self, frame: FrameId, name: &str, arg: &TyArg) {
        let value = match arg {
            TyArg::Int(value) => Value::int(*value),
            TyArg::Ty(ty) => Value::Type(ty.clone()),
        };
        self.declare(frame, name, value);
    }

    /// The methods of lists.
    fn list_method(
        &mut self,
        cell: CellId,
        name: &str,
        args: Vec<Value<'a>>,
        keywords: Keywords<'a>,
        span: Span,
    ) -> Res<Value<'a>> {
        const NAMES: [&str; 11] =
            ["append", "extend", "insert", "pop", "remove", "clear", "reverse", "sort", "copy", "count", "index"];
        if let Some((keyword, _)) = keywords.first()
            && name != "sort"
        {
            return error(span, format!("TypeError: `{name}` of a list takes no argument `{keyword}`"));
        }
        let value = match self.list_reader(cell, name, &args, span)? {
            None => self.list_changer(cell, name, &args, keywords, span)?,
            value => value,
        };
        match value {
            Some(value) => Ok(value),
            None if NAMES.contains(&name) => {
                error(span, format!("TypeError: `{name}` of a list does not take {} arguments", args.len()))
            }
            None => error(span, format!("unsupported: the method `{name}` of lists")),
        }
    }

    /// `xs.pop()`.
    pub(super) fn pop(&mut self, cell: CellId, span: Span) -> Res<Value<'a>> {
        use weld_core::ir::build;
        self.check_change(cell, span)?;
        let (elements, length, ty) = self.buffer(cell, span)?;
        if ty == crate::types::Ty::Unknown {
            return self.no_element("IndexError", "pop from empty list", Vec::new(), span);
        }
        let length = self.bind("length", length);
        let holds = build::gt(length.clone(), build::i64(0));
        let holds = self.require(holds, "IndexError", "pop from empty list", Vec::new(), span);
        let last = build::sub(length.clone(), build::i64(1));
        let element = build::lookup(elements.clone(), last.clone()).at(span);
        let element = self.under(holds, element, "last");
        let left = self.bind("length", build::max(last, build::i64(0)));
        let rest = match self.store.get(cell) {
            Value::Buffer(..) => Value::Buffer(elements, left, ty.clone()),
            _ => Value::Elements(self.bind("list", build::slice(elements, build::i64(0), left)), ty.clone()),
        };
        self.store.set(cell, rest);
        Ok(self.value_of(element, &ty))
    }
}

const IMMUTABLE: &str = "it is immutable";
