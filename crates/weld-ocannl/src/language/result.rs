//! What a function gives: tensors with their kinds of axes, or of the declared types.

use super::*;

impl Compiler<'_, '_> {
    /// The arguments whose gradients are asked for, with the names of the answer.
    pub(super) fn wanted_gradients(&self) -> Wrong<Vec<(String, NodeId)>> {
        let options = self.request.options;
        let mut wanted: Vec<String> = options.wrt.clone();
        if let (Some(DataType::Struct(fields)), Some(_), true) =
            (self.request.returns, self.elaborated.root, wanted.is_empty())
        {
            match fields.split_first() {
                Some(((first, _), rest)) if first.eq_ignore_ascii_case("value") => {
                    wanted = rest.iter().map(|(name, _)| name.clone()).collect();
                }
                _ => return one("a `%op` returns a tensor, or a struct of `value` and gradients".into(), self.entry()),
            }
        }
        if self.elaborated.root.is_none() && !wanted.is_empty() {
            return one(
                format!("`{}` is a `%cd` code: gradients are those of a `%op` tensor", self.definition.name.text),
                self.entry(),
            );
        }
        let mut seen = HashSet::new();
        wanted.retain(|name| seen.insert(name.clone()));
        wanted.into_iter().map(|name| self.wanted_gradient(name)).collect()
    }

    pub(super) fn wanted_gradient(&self, name: String) -> Wrong<(String, NodeId)> {
        let arguments = &self.elaborated.arguments;
        let exact = arguments.iter().find(|id| self.name_of(**id) == name);
        let same =
            || arguments.iter().find(|id| self.request.options.sql && self.name_of(**id).eq_ignore_ascii_case(&name));
        if let Some(id) = exact.or_else(same) {
            return Ok((name, *id));
        }
        let names: Vec<&str> = arguments.iter().map(|id| self.name_of(*id)).collect();
        let message = format!("no gradient of `{name}`: it is no parameter of `{}`", self.definition.name.text);
        let hint = match names[..] {
            [] => "there are no parameters: numbers and literals have no gradient".into(),
            _ => format!("there are gradients of `{}`", names.join("`, `")),
        };
        Err(vec![Diagnostic::ty(self.entry(), message).with_hint(hint)])
    }

    pub(super) fn tensor(&self, root: NodeId, wrt: &[(String, NodeId)], emitter: &mut Emitter<'_>) -> Wrong<Output> {
        let wrong = |error: Diagnostic| vec![error];
        let value = emitter.value(root).map_err(wrong)?;
        if !wrt.is_empty() {
            let wanted = wrt.iter().map(|(_, id)| *id).collect();
            emitter.backprop(root, &wanted).map_err(wrong)?;
        }
        let fields = match self.request.returns {
            Some(DataType::Struct(fields)) => Some(fields),
            _ => None,
        };
        let declared = |name: &str| match fields {
            Some(fields) => fields.iter().find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, ty)| ty),
            None if name == "value" => self.request.returns,
            None => None,
        };
        let (shape, result) = self.output("value", root, value, declared("value"), emitter)?;
        let mut parts = vec![result];
        let mut gradients = Vec::new();
        for (name, id) in wrt {
            let gradient = emitter.grads.get(id).cloned().unwrap_or_else(|| emitter.number(0.0));
            let (shape, gradient) = self.output(name, *id, gradient, declared(name), emitter)?;
            gradients.push((name.clone(), shape));
            parts.push(gradient);
        }
        let ty = emitter.inferred.shape(root).map(|shape| shape.text(&emitter.inferred.dims)).unwrap_or_default();
        let value = if wrt.is_empty() { parts.remove(0) } else { build::strct(parts) };
        Ok(Output { value, result: shape, ty, gradients })
    }

    pub(super) fn code(&self, emitter: &mut Emitter<'_>) -> Wrong<Output> {
        let assigned = emitter.run().map_err(|error| vec![error])?;
        let fields = match self.request.returns {
            Some(DataType::Struct(fields)) => Some(fields),
            _ => None,
        };
        if let (Some(ty), None) = (self.request.returns, fields) {
            let [(_, id, grad)] = &assigned[..] else {
                return one(
                    format!(
                        "`{}` assigns {} tensors: it returns a struct of them",
                        self.definition.name.text,
                        assigned.len()
                    ),
                    self.entry(),
                );
            };
            let value = emitter.now(*id, *grad);
            let (result, value) = self.output("value", *id, value, Some(ty), emitter)?;
            return Ok(Output { value, ty: result.described(), result, gradients: Vec::new() });
        }
        let mut parts = Vec::new();
        let mut shapes = Vec::new();
        let mut types = Vec::new();
        for (name, id, grad) in assigned {
            let declared = match fields {
                Some(fields) => match fields.iter().find(|(field, _)| field.eq_ignore_ascii_case(&name)) {
                    Some((_, ty)) => Some(ty),
                    None => continue,
                },
                None => None,
            };
            let value = emitter.now(id, grad);
            let (shape, value) = self.output(&name, id, value, declared, emitter)?;
            let text = emitter.inferred.shape(id).map(|shape| shape.text(&emitter.inferred.dims)).unwrap_or_default();
            types.push(format!("{name}: {text}"));
            shapes.push((name, shape));
            parts.push(value);
        }
        if let Some(fields) = fields {
            let place = |name: &str| fields.iter().position(|(field, _)| field.eq_ignore_ascii_case(name));
            if let Some((field, _)) =
                fields.iter().find(|(field, _)| !shapes.iter().any(|(name, _)| name.eq_ignore_ascii_case(field)))
            {
                return one(format!("`{}` assigns no tensor `{field}`", self.definition.name.text), self.entry());
            }
            let mut order: Vec<usize> = (0..shapes.len()).collect();
            order.sort_by_key(|i| place(&shapes[*i].0));
            parts = order.iter().map(|i| parts[*i].clone()).collect();
            shapes = order.iter().map(|i| shapes[*i].clone()).collect();
        }
        let ty = format!("{{{}}}", types.join(", "));
        Ok(Output { value: build::strct(parts), result: Shape::Record(shapes), ty, gradients: Vec::new() })
    }

    /// A tensor as a result: of the declared type, or with its kinds of axes.
    pub(super) fn output(
        &self,
        name: &str,
        id: NodeId,
        value: Expr,
        declared: Option<&DataType>,
        emitter: &mut Emitter<'_>,
    ) -> Wrong<(Shape, Expr)> {
        let sizes = emitter.sizes(id).map_err(|error| vec![error])?;
        let Some(shape) = emitter.inferred.shape(id) else { return one("a shape is not known".into(), self.entry()) };
        let dims = &emitter.inferred.dims;
        let axes = shape.axes();
        let known: Vec<Option<u64>> = sizes.iter().map(Size::as_known).collect();
        let labels = axes.iter().map(|dim| dims.label(*dim).map(|label| label.to_string())).collect();
        let text = shape.text(dims);
        let Some(declared) = declared else {
            let tensor = Axes::Tensor { batch: shape.rows[0].len(), output: shape.rows[1].len(), labels };
            let shape = Shape::Array(Array { element: self.element, sizes: known.clone(), axes: tensor });
            let cells = emitter.cells(value, &sizes);
            return Ok((shape, with_sizes(cells, &sizes, &known)));
        };
        let found = || format!("`{name}` is `{text}`, which is no {declared}");
        let Some((kind, wanted)) = declared.as_array() else { return one(found(), self.entry()) };
        if !kind.is_float() {
            return one(found(), self.entry());
        }
        let Some(axes) = matching(&known, &wanted) else { return one(found(), self.entry()) };
        if wanted.is_empty() {
            let value = match value.ty.element() {
                Some(_) => build::lookup(value, build::i64(0)),
                None => value,
            };
            return Ok((Shape::scalar(kind), build::cast(value, kind)));
        }
        let sizes_of: Vec<Size> =
            axes.iter().map(|axis| axis.map_or(Size::known(1), |axis| sizes[axis].clone())).collect();
        let cells = emitter.cells(value, &sizes);
        let cells = emitter.convert(cells, &sizes, kind);
        let known: Vec<Option<u64>> = sizes_of.iter().map(Size::as_known).collect();
        Ok((Shape::array(kind, known.clone()), with_sizes(cells, &sizes_of, &known)))
    }
}

/// What a function gives.
pub(super) struct Output {
    pub(super) value: Expr,
    pub(super) result: Shape,
    pub(super) ty: String,
    pub(super) gradients: Vec<(String, Shape)>,
}

/// Flat data with the sizes that the type leaves open.
pub(super) fn with_sizes(cells: Expr, sizes: &[Size], known: &[Option<u64>]) -> Expr {
    if known.len() < 2 || !known.contains(&None) {
        return cells;
    }
    let open = sizes.iter().zip(known).filter(|(_, known)| known.is_none()).map(|(size, _)| size.expr());
    build::strct(std::iter::once(cells).chain(open))
}

/// The axis of each declared size: axes of 1 may be left out or put in. `None`: they do not go together.
pub(super) fn matching(found: &[Option<u64>], wanted: &[Option<u64>]) -> Option<Vec<Option<usize>>> {
    let agree = |a: &Option<u64>, b: &Option<u64>| a.is_none() || b.is_none() || a == b;
    if found.len() == wanted.len() && found.iter().zip(wanted).all(|(a, b)| agree(a, b)) {
        return Some((0..found.len()).map(Some).collect());
    }
    let mut axes = (0..found.len()).filter(|axis| found[*axis] != Some(1));
    let mut places = Vec::new();
    for size in wanted {
        if *size == Some(1) {
            places.push(None);
            continue;
        }
        let axis = axes.next()?;
        if !agree(&found[axis], size) {
            return None;
        }
        places.push(Some(axis));
    }
    axes.next().is_none().then_some(places)
}
