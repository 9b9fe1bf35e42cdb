//! The loops of an operation, by its logic.

use super::*;

impl Inference<'_> {
    /// The shape of the result, which is `target` where there is one, and the loops.
    pub(super) fn project(
        &mut self,
        apply: &Apply,
        args: &[Shape],
        target: Option<&Shape>,
        span: Span,
    ) -> Wrong<(Shape, Projection)> {
        let natural = match (&apply.logic, args) {
            (Logic::Einsum(spec), _) => return self.einsum(spec, apply, args, target, span),
            (Logic::Compose, [a, b]) => self.composed(apply, a, b, span)?,
            (Logic::Transpose, [a]) => {
                let [batch, output, input] = a.rows.clone();
                Shape { rows: [batch, input, output] }
            }
            (_, [a]) => a.clone(),
            (_, [a, b]) => self.pointwise(apply, a, b, span)?,
            _ => Shape::default(),
        };
        let result = match target {
            None => natural,
            Some(target) => {
                self.fits(&natural, target, span)?;
                target.clone()
            }
        };
        let dims = &self.inferred.dims;
        let mut space = result.axes();
        let out: Vec<_> = (0..space.len()).map(weld_tensor::Index::axis).collect();
        let [batch, output, input] = &result.rows;
        let (at_output, at_input) = (batch.len(), batch.len() + output.len());
        let own = |shape: &Shape| {
            let rows = [(BATCH, batch, 0), (OUTPUT, output, at_output), (INPUT, input, at_input)];
            rows.into_iter().flat_map(|(kind, row, at)| aligned(&shape.rows[kind], row, at, dims)).collect::<Vec<_>>()
        };
        let args = match (&apply.logic, args) {
            (Logic::Compose, [a, b]) => {
                let (inner, at_inner) = (&a.rows[INPUT], space.len());
                space.extend(inner);
                let left = [(BATCH, batch, 0), (OUTPUT, output, at_output), (INPUT, inner, at_inner)];
                let right = [(BATCH, batch, 0), (OUTPUT, inner, at_inner), (INPUT, input, at_input)];
                let indices = |shape: &Shape, rows: [(usize, &Vec<Dim>, usize); 3]| {
                    rows.into_iter().flat_map(|(kind, row, at)| aligned(&shape.rows[kind], row, at, dims)).collect()
                };
                vec![indices(a, left), indices(b, right)]
            }
            (Logic::Transpose, [a]) => {
                let rows = [(BATCH, batch, 0), (OUTPUT, input, at_input), (INPUT, output, at_output)];
                vec![rows.into_iter().flat_map(|(kind, row, at)| aligned(&a.rows[kind], row, at, dims)).collect()]
            }
            _ => args.iter().map(own).collect(),
        };
        Ok((result, Projection { space, out, args }))
    }

    pub(super) fn einsum(
        &mut self,
        spec: &crate::spec::Spec,
        apply: &Apply,
        args: &[Shape],
        target: Option<&Shape>,
        span: Span,
    ) -> Wrong<(Shape, Projection)> {
        let sides: &[&str] = if args.len() == 1 { &["only"] } else { &["left", "right"] };
        let mut called: Vec<String> =
            apply.args.iter().zip(sides).map(|(arg, side)| self.graph.called(*arg, side)).collect();
        called.push("what is assigned to".into());
        einsum::project(spec, args, target, &called, &mut self.inferred.dims, span)
            .map_err(|message| Diagnostic::ty(span, format!("einsum: {message}")))
    }

    pub(super) fn both(&self, apply: &Apply) -> [String; 2] {
        [self.graph.called(apply.args[0], "left"), self.graph.called(apply.args[1], "right")]
    }

    pub(super) fn pointwise(&mut self, apply: &Apply, a: &Shape, b: &Shape, span: Span) -> Wrong<Shape> {
        let mut shape = Shape::default();
        for kind in [BATCH, OUTPUT, INPUT] {
            shape.rows[kind] = self.inferred.dims.join_rows(&a.rows[kind], &b.rows[kind], span).map_err(|clash| {
                let [left, right] = self.both(apply);
                let (x, y) = (a.text(&self.inferred.dims), b.text(&self.inferred.dims));
                let sign = &apply.sign;
                let kind = KINDS[kind];
                Diagnostic::ty(
                    span,
                    format!("`{sign}`: {left} is `{x}`, {right} is `{y}`: their {kind} axes {}", differ(&clash)),
                )
            })?;
        }
        Ok(shape)
    }

    pub(super) fn composed(&mut self, apply: &Apply, a: &Shape, b: &Shape, span: Span) -> Wrong<Shape> {
        let batch = self.inferred.dims.join_rows(&a.rows[BATCH], &b.rows[BATCH], span);
        let batch = batch.map_err(|clash| {
            let [left, right] = self.both(apply);
            Diagnostic::ty(span, format!("`{}`: the batch axes of {left} and {right} {}", apply.sign, differ(&clash)))
        })?;
        // Axes of 1 go together with none: a number times a number.
        let extra = b.rows[OUTPUT].len().saturating_sub(a.rows[INPUT].len());
        let ones = b.rows[OUTPUT][..extra].iter().take_while(|dim| self.inferred.dims.is_one(**dim)).count();
        self.inferred.dims.fit_rows(&b.rows[OUTPUT][ones..], &a.rows[INPUT], span).map_err(|clash| {
            let [left, right] = self.both(apply);
            let row = |row: &[Dim]| match row_text(row, &self.inferred.dims) {
                text if text.is_empty() => "none".to_owned(),
                text => format!("`{text}`"),
            };
            let (inputs, outputs) = (row(&a.rows[INPUT]), row(&b.rows[OUTPUT]));
            let why = match &clash {
                Clash::Sizes(found, wanted) => format!(": expected {wanted}, found {found}"),
                Clash::Labels(..) => format!(": they {}", differ(&clash)),
                Clash::Counts(found, wanted) => format!(": expected {wanted} axes, found {found}"),
            };
            let message = format!(
                "`{}`: the input axes of {left} are {inputs}, the output axes of {right} are {outputs}{why}",
                apply.sign
            );
            let error = Diagnostic::ty(span, message);
            if a.rows[INPUT].is_empty() { error.with_hint("the pointwise product is `*.`") } else { error }
        })?;
        Ok(Shape { rows: [batch, a.rows[OUTPUT].clone(), b.rows[INPUT].clone()] })
    }

    pub(super) fn fits(&mut self, natural: &Shape, target: &Shape, span: Span) -> Wrong<()> {
        for kind in [BATCH, OUTPUT, INPUT] {
            self.inferred.dims.fit_rows(&natural.rows[kind], &target.rows[kind], span).map_err(|clash| {
                let (x, y) = (natural.text(&self.inferred.dims), target.text(&self.inferred.dims));
                let why = differ(&clash);
                Diagnostic::ty(
                    span,
                    format!("{UNFIT}`{y}`, what is assigned to it is `{x}`: their {} axes {why}", KINDS[kind]),
                )
            })?;
        }
        Ok(())
    }
}

/// Begins the message of what does not fit its target; the assignment puts its name and place in.
const UNFIT: &str = "the target is ";

pub(super) trait AtAssignment {
    fn at(self, assignment: &Assignment) -> Diagnostic;
}

impl AtAssignment for Diagnostic {
    fn at(mut self, assignment: &Assignment) -> Diagnostic {
        if let Some(rest) = self.message.strip_prefix(UNFIT) {
            self.message = format!("`{}`: `{}` is {rest}", assignment.sign, assignment.target_name);
            self.span = assignment.target_span;
        }
        self
    }
}
