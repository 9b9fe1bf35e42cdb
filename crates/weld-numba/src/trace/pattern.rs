//! Signatures against arguments: which type each variable stands for, and how far the arguments are from the
//! parameters.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use weld_core::diag::Span;

use super::{Res, Tracer, error};
use crate::module::{Class, Trait};
use crate::signature::{SigTy, Signature};
use crate::types::{ObjectTy, Ty, TyArg};
use crate::value::Value;

/// What the variables of a signature stand for.
#[derive(Clone, Default)]
pub(super) struct Binds {
    types: HashMap<Arc<str>, TyArg>,
}

impl Binds {
    pub(super) fn set(&mut self, name: &Arc<str>, arg: TyArg) {
        self.types.insert(name.clone(), arg);
    }

    pub(super) fn get(&self, name: &str) -> Option<&TyArg> {
        self.types.get(name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &TyArg)> {
        self.types.iter()
    }
}

impl<'a> Tracer<'a> {
    /// The type that is written; a variable that stands for none is an error.
    pub(super) fn resolve(&mut self, written: &SigTy, binds: &mut Binds, span: Span) -> Res<Ty> {
        match self.try_resolve(written, binds, span)? {
            Some(ty) => Ok(ty),
            None => error(span, format!("the type `{}` is not known", shown(written))),
        }
    }

    /// The same; none where a variable stands for nothing yet, or what is written is no type of a value of the run.
    pub(super) fn try_resolve(&mut self, written: &SigTy, binds: &Binds, span: Span) -> Res<Option<Ty>> {
        self.spend(span)?;
        Ok(match written {
            SigTy::Var(name) => match binds.get(name) {
                Some(TyArg::Ty(ty)) => Some(ty.clone()),
                _ => match &**name {
                    "int" => Some(Ty::INT),
                    "float" => Some(Ty::FLOAT),
                    "bool" => Some(Ty::BOOL),
                    "str" => Some(Ty::Str),
                    _ => None,
                },
            },
            SigTy::List(element) => self.try_resolve(element, binds, span)?.map(Ty::list),
            SigTy::Tuple(parts) => {
                let parts = parts.iter().map(|part| self.try_resolve(part, binds, span));
                parts.collect::<Res<Option<Vec<_>>>>()?.map(|parts| Ty::Tuple(parts.into()))
            }
            SigTy::Function(..) | SigTy::Int(_) => None,
            SigTy::Named(name, args) => return super::deep(|| self.resolve_named(name, args, binds, span)),
        })
    }

    fn resolve_named(&mut self, name: &Arc<str>, args: &[SigTy], binds: &Binds, span: Span) -> Res<Option<Ty>> {
        match (&**name, args) {
            ("Tuple", [element, count]) if self.int_arg(count, binds).is_some() => {
                let count = self.int_arg(count, binds).unwrap_or(0);
                if !(0..=1000).contains(&count) {
                    return error(span, format!("a tuple of {count} values"));
                }
                let element = self.try_resolve(element, binds, span)?;
                return Ok(element.map(|element| Ty::Tuple(vec![element; count as usize].into())));
            }
            ("Tuple", _) => {
                let parts = args.iter().map(|part| self.try_resolve(part, binds, span));
                return Ok(parts.collect::<Res<Option<Vec<_>>>>()?.map(|parts| Ty::Tuple(parts.into())));
            }
            ("List", [element]) => return Ok(self.try_resolve(element, binds, span)?.map(Ty::list)),
            ("Stream" | "Vector" | "Iterable", _) => return Ok(None),
            _ => {}
        }
        if let Some(alias) = self.module.aliases.get(name)
            && args.is_empty()
        {
            return self.try_resolve(alias, &Binds::default(), span);
        }
        if let Some(index) = self.module.class(name) {
            let class = self.module.classes[index].clone();
            if args.len() != class.params.len() {
                let message = format!("`{name}` takes {} parameters, found {}", class.params.len(), args.len());
                return error(span, message);
            }
            let mut resolved = Vec::new();
            for arg in args {
                let arg = match self.int_arg(arg, binds) {
                    Some(value) => TyArg::Int(value),
                    None => match self.try_resolve(arg, binds, span)? {
                        Some(ty) => TyArg::Ty(ty),
                        None => return Ok(None),
                    },
                };
                resolved.push(arg);
            }
            return self.object_type(index, resolved, span).map(|ty| Some(Ty::Object(ty)));
        }
        match Ty::named(name) {
            Some(_) if !args.is_empty() => error(span, format!("`{name}` takes no parameters")),
            Some(ty) => Ok(Some(ty)),
            None if is_builtin_trait(name) || self.module.trait_(name).is_some() => Ok(None),
            None => error(span, format!("the type `{name}` is not defined")),
        }
    }

    pub(super) fn int_arg(&self, written: &SigTy, binds: &Binds) -> Option<i64> {
        match written {
            SigTy::Int(value) => Some(*value),
            SigTy::Var(name) => match binds.get(name) {
                Some(TyArg::Int(value)) => Some(*value),
                _ => None,
            },
            _ => None,
        }
    }

    /// A class with its parameters: the types of its fields.
    pub(super) fn object_type(&mut self, index: usize, args: Vec<TyArg>, span: Span) -> Res<Rc<ObjectTy>> {
        let class: Rc<Class<'a>> = self.module.classes[index].clone();
        if args.len() != class.params.len() {
            let message = format!("`{}` takes {} parameters, found {}", class.name, class.params.len(), args.len());
            return error(span, message);
        }
        let mut binds = Binds::default();
        for ((name, is_int), arg) in class.params.iter().zip(&args) {
            if *is_int != matches!(arg, TyArg::Int(_)) {
                let wanted = if *is_int { "a number" } else { "a type" };
                return error(span, format!("the parameter `{name}` of `{}` is {wanted}", class.name));
            }
            binds.set(name, arg.clone());
        }
        self.spent.calls += 1;
        if self.spent.calls > self.limits.instances {
            return error(span, "the program has too many types and calls");
        }
        let mut fields = Vec::new();
        for field in &class.fields {
            if mentions(&field.ty, &class.name) {
                return error(field.span, format!("`{}` holds itself", class.name));
            }
            let ty = self.resolve(&field.ty, &mut binds, field.span)?;
            fields.push((field.name.clone(), ty));
        }
        Ok(Rc::new(ObjectTy { class: index, name: class.name.clone(), args, fields }))
    }

    // Matching.

    /// The sum of the distances of arguments from the parameters; none if they do not fit.
    pub(super) fn match_signature(
        &mut self,
        signature: &Signature,
        args: &[Value<'a>],
        binds: &mut Binds,
        span: Span,
    ) -> Res<Option<u32>> {
        let mut sum = 0;
        // Literals take the types of the others.
        for is_literal in [false, true] {
            for (written, value) in signature.params.iter().zip(args) {
                if matches!(value, Value::Const(_)) != is_literal {
                    continue;
                }
                match self.match_value(written, value, binds, span)? {
                    Some(distance) => sum += distance,
                    None => return Ok(None),
                }
            }
        }
        for (var, bound) in &signature.constraints {
            let arg = signature.params.iter().zip(args).find(|(written, _)| **written == SigTy::Var(var.clone()));
            let fits = match (binds.get(var).cloned(), arg) {
                (Some(TyArg::Ty(ty)), _) => self.match_bound(bound, &ty, binds, span)?,
                (_, Some((_, value))) => self.match_value(bound, value, binds, span)?.is_some(),
                _ => true,
            };
            if !fits {
                return Ok(None);
            }
        }
        Ok(Some(sum))
    }

    fn match_bound(&mut self, bound: &SigTy, ty: &Ty, binds: &mut Binds, span: Span) -> Res<bool> {
        let SigTy::Named(name, args) = bound else { return Ok(false) };
        if !self.type_has_trait(ty, name) {
            return Ok(false);
        }
        match (args.first(), ty) {
            (Some(element), Ty::List(of)) => Ok(self.match_type(element, of, binds, span)? == Some(0)),
            _ => Ok(true),
        }
    }

    fn match_value(&mut self, written: &SigTy, value: &Value<'a>, binds: &mut Binds, span: Span) -> Res<Option<u32>> {
        match (written, value) {
            (SigTy::Function(..), Value::Callable(_)) => Ok(Some(0)),
            (SigTy::Function(..), _) => Ok(None),
            (SigTy::Named(name, args), _) if matches!(&**name, "Stream" | "Iterable") => {
                self.match_iterable(args.first(), value, binds, span)
            }
            (SigTy::Named(name, _), _) if &**name == "Vector" => Ok(None),
            // `Tuple[T, n]` and `List[T]` are types.
            (SigTy::Named(name, args), _)
                if self.module.trait_(name).is_some()
                    || (is_builtin_trait(name) && (args.is_empty() || !matches!(&**name, "Tuple" | "List"))) =>
            {
                let name = name.clone();
                Ok(self.has_trait(value, &name).then_some(1))
            }
            (SigTy::List(element), Value::Stream(stream)) => {
                let range = matches!(stream.source, crate::stream::Source::Range { .. });
                let fits = !range || self.match_type(element, &Ty::INT, binds, span)? == Some(0);
                Ok(fits.then_some(1))
            }
            (SigTy::Var(_), Value::Stream(_) | Value::Callable(_) | Value::Type(_)) => Ok(Some(0)),
            (SigTy::Tuple(types), Value::Tuple(parts)) if types.len() == parts.len() => {
                let mut sum = 0;
                for (ty, part) in types.iter().zip(parts.iter()) {
                    match self.match_value(ty, part, binds, span)? {
                        Some(distance) => sum += distance,
                        None => return Ok(None),
                    }
                }
                Ok(Some(sum))
            }
            _ => {
                let Some(ty) = self.try_type(value) else { return Ok(None) };
                let distance = self.match_type(written, &ty, binds, span)?;
                match (distance, value) {
                    (None, Value::Const(_)) => self.match_literal(written, value, binds, span),
                    _ => Ok(distance),
                }
            }
        }
    }

    /// A literal where another type of number stands.
    fn match_literal(&mut self, written: &SigTy, value: &Value<'a>, binds: &mut Binds, span: Span) -> Res<Option<u32>> {
        use crate::value::Const;
        let Some(ty) = self.try_resolve(written, binds, span)? else { return Ok(None) };
        Ok(match (value, ty.number()) {
            (Value::Const(Const::Float(_)), Some(kind)) if kind.is_float() => Some(2),
            (Value::Const(Const::Int(_)), Some(_)) => Some(3),
            _ => None,
        })
    }

    fn match_iterable(
        &mut self,
        element: Option<&SigTy>,
        value: &Value<'a>,
        binds: &mut Binds,
        span: Span,
    ) -> Res<Option<u32>> {
        // Vectors are given by nobody.
        if matches!(element, Some(SigTy::Named(name, _)) if &**name == "Vector") {
            return Ok(None);
        }
        let of = match value {
            Value::List(_) => match self.try_type(value) {
                Some(Ty::List(of)) => Some((*of).clone()),
                _ => None,
            },
            Value::Stream(stream) => matches!(stream.source, crate::stream::Source::Range { .. }).then_some(Ty::INT),
            Value::Tuple(_) => None,
            other => {
                let fits = self.has_trait(other, "Iterable");
                return Ok(fits.then_some(1));
            }
        };
        match (element, of) {
            (Some(element), Some(of)) => Ok((self.match_type(element, &of, binds, span)? == Some(0)).then_some(1)),
            _ => Ok(Some(1)),
        }
    }

    /// How far a type is from the one that is written.
    pub(super) fn match_type(&mut self, written: &SigTy, ty: &Ty, binds: &mut Binds, span: Span) -> Res<Option<u32>> {
        match (written, ty) {
            (SigTy::Var(name), _) => match binds.get(name).cloned() {
                Some(TyArg::Ty(bound)) if bound == *ty => Ok(Some(0)),
                Some(TyArg::Ty(bound)) if ty.holds_unknown() => Ok(ty.distance(&bound)),
                Some(TyArg::Ty(bound)) if bound.holds_unknown() && bound.distance(ty) == Some(0) => {
                    binds.set(name, TyArg::Ty(ty.clone()));
                    Ok(Some(0))
                }
                Some(_) => Ok(None),
                None => {
                    binds.set(name, TyArg::Ty(ty.clone()));
                    Ok(Some(0))
                }
            },
            (SigTy::List(element), Ty::List(of)) => match self.match_type(element, of, binds, span)? {
                // A list is of just the type that is written.
                Some(0) => Ok(Some(0)),
                _ => Ok(None),
            },
            (SigTy::Tuple(types), Ty::Tuple(parts)) if types.len() == parts.len() => {
                self.match_types(types, parts, binds, span)
            }
            (SigTy::Named(name, args), Ty::Tuple(parts)) if &**name == "Tuple" && args.len() == 2 => {
                match (&args[1], parts.len()) {
                    (SigTy::Int(_) | SigTy::Var(_), _) => self.match_counted(&args[0], &args[1], parts, binds, span),
                    (_, 2) => self.match_types(args, parts, binds, span),
                    _ => Ok(None),
                }
            }
            (SigTy::Named(name, args), Ty::Object(object)) if *name == object.name => {
                for (arg, found) in args.iter().zip(&object.args) {
                    let fits = match found {
                        TyArg::Ty(found) => self.match_type(arg, found, binds, span)? == Some(0),
                        TyArg::Int(found) => self.match_int(arg, *found, binds),
                    };
                    if !fits {
                        return Ok(None);
                    }
                }
                Ok(Some(0))
            }
            _ => match self.try_resolve(written, binds, span)? {
                Some(wanted) => self.distance(ty, &wanted, span),
                None => match written {
                    SigTy::Named(name, _) => {
                        let name = name.clone();
                        Ok(self.type_has_trait(ty, &name).then_some(1))
                    }
                    _ => Ok(None),
                },
            },
        }
    }

    fn match_types(&mut self, types: &[SigTy], parts: &[Ty], binds: &mut Binds, span: Span) -> Res<Option<u32>> {
        let mut sum = 0;
        for (written, ty) in types.iter().zip(parts) {
            match self.match_type(written, ty, binds, span)? {
                Some(distance) => sum += distance,
                None => return Ok(None),
            }
        }
        Ok(Some(sum))
    }

    /// `Tuple[T, n]`.
    fn match_counted(
        &mut self,
        element: &SigTy,
        count: &SigTy,
        parts: &[Ty],
        binds: &mut Binds,
        span: Span,
    ) -> Res<Option<u32>> {
        if !self.match_int(count, parts.len() as i64, binds) {
            return Ok(None);
        }
        self.match_types(&vec![element.clone(); parts.len()], parts, binds, span)
    }

    fn match_int(&self, written: &SigTy, found: i64, binds: &mut Binds) -> bool {
        match (self.int_arg(written, binds), written) {
            (Some(known), _) => known == found,
            (None, SigTy::Var(name)) if binds.get(name).is_none() => {
                binds.set(name, TyArg::Int(found));
                true
            }
            _ => false,
        }
    }

    // Traits.

    pub(super) fn has_trait(&self, value: &Value<'a>, name: &str) -> bool {
        match (value, name) {
            (Value::Stream(_), "Iterable" | "Stream") | (Value::Callable(_), "Callable") => true,
            _ => match self.try_type(value) {
                Some(ty) => self.type_has_trait(&ty, name),
                None => false,
            },
        }
    }

    fn type_has_trait(&self, ty: &Ty, name: &str) -> bool {
        let number = ty.number();
        match name {
            "Number" => number.is_some(),
            "Integral" => number.is_some_and(|kind| kind.is_integer()),
            "Floating" => number.is_some_and(|kind| kind.is_float()),
            "Ordered" => number.is_some() || matches!(ty, Ty::Str | Ty::Scalar(_)) || self.class_has(ty, "__lt__"),
            "Iterable" => {
                matches!(ty, Ty::List(_) | Ty::Str | Ty::Tuple(_))
                    || self.class_has(ty, "__iter__")
                    || self.class_extends(ty, name)
            }
            "List" => ty.is_list(),
            "Tuple" => matches!(ty, Ty::Tuple(_)),
            "Vector" | "Stream" | "Callable" => false,
            _ => self.class_extends(ty, name),
        }
    }

    fn class_has(&self, ty: &Ty, method: &str) -> bool {
        matches!(ty, Ty::Object(object) if self.module.classes[object.class].methods.contains_key(method))
    }

    fn class_extends(&self, ty: &Ty, name: &str) -> bool {
        let extends = |of: &Rc<Trait<'a>>| of.extends(name);
        matches!(ty, Ty::Object(object) if self.module.classes[object.class].traits.iter().any(extends))
    }
}

pub(crate) fn is_builtin_trait(name: &str) -> bool {
    matches!(
        name,
        "Number"
            | "Integral"
            | "Floating"
            | "Ordered"
            | "Iterable"
            | "List"
            | "Tuple"
            | "Vector"
            | "Stream"
            | "Callable"
    )
}

fn mentions(written: &SigTy, name: &str) -> bool {
    let mut names = Vec::new();
    written.names(&mut names);
    names.iter().any(|other| &**other == name)
}

/// For messages.
pub(super) fn shown(written: &SigTy) -> String {
    let all = |parts: &[SigTy], between: &str| parts.iter().map(shown).collect::<Vec<_>>().join(between);
    match written {
        SigTy::Var(name) => name.to_string(),
        SigTy::Named(name, args) if args.is_empty() => name.to_string(),
        SigTy::Named(name, args) => format!("{name}[{}]", all(args, ", ")),
        SigTy::List(element) => format!("[{}]", shown(element)),
        SigTy::Tuple(parts) => format!("({})", all(parts, ", ")),
        SigTy::Function(params, result) => format!("({} -> {})", all(params, " -> "), shown(result)),
        SigTy::Int(value) => value.to_string(),
    }
}
