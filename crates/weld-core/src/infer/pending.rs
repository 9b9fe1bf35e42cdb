//! Facts about types that wait until more is known.
//!
//! `x.$0` of an `x` of unknown type says little, so it waits; when `x` turns out to be `{i64,f64}` the result is `i64`.
//! Whoever needs a type that is unknown has the list gone through; at the end what is left gets its default.

use super::Infer;
use super::types::{Con, Shape, Ty, Types};
use crate::diag::{Diagnostic, Span};
use crate::ir::Literal;
use crate::op::Intrinsic;
use crate::ty::{ScalarKind, Type};

pub(super) enum Pending {
    /// `result` is field `index` of `value`.
    Field { value: Ty, index: u32, result: Ty, span: Span },
    /// `result` is the element of `data` (a vector or dictionary) at `key`, which may be a literal.
    Lookup { data: Ty, key: Ty, literal: Option<Literal>, result: Ty, span: Span },
    /// `result` is `bool`, or `simd[bool]` if `operand` is a SIMD value.
    Compare { operand: Ty, result: Ty },
    /// `value` can be merged into `builder`.
    Merge { builder: Ty, value: Ty, span: Span, hint: Option<String> },
    /// `result` is what `builder` builds.
    Result { builder: Ty, result: Ty, span: Span },
    /// `result` is what the intrinsic gives for arguments of these types.
    Intrinsic { intrinsic: Intrinsic, args: Vec<Ty>, result: Ty, span: Span },
}

impl Infer<'_> {
    /// Learns what can be learnt from a fact now; keeps it for later if that is not all.
    pub(super) fn learn(&mut self, fact: Pending) {
        if let Some(fact) = self.try_learn(fact) {
            self.pending.push(fact);
        }
    }

    /// The shape of a type, after going through what is pending if it is unknown.
    pub(super) fn shape(&mut self, ty: Ty) -> Shape {
        if self.types.is_unknown(ty) {
            self.go_through();
        }
        self.types.shape(ty)
    }

    /// Tries all facts until none of them says anything new.
    fn go_through(&mut self) {
        loop {
            let facts = std::mem::take(&mut self.pending);
            let before = facts.len();
            for fact in facts {
                self.learn(fact);
            }
            if self.pending.len() == before {
                return;
            }
        }
    }

    /// At the end: what is left takes its default, which may decide the rest.
    pub(super) fn settle(&mut self) {
        self.go_through();
        for text in std::mem::take(&mut self.texts) {
            if self.types.is_unknown(text) {
                self.types.unify(text, Types::I8);
            }
        }
        self.go_through();
        while !self.pending.is_empty() {
            let default = self.pending.iter().position(|fact| {
                matches!(fact, Pending::Merge { builder, .. }
                if matches!(self.types.shape(*builder), Shape::Con(..)))
            });
            let default = default.or_else(|| self.pending.iter().position(|f| matches!(f, Pending::Compare { .. })));
            let Some(at) = default else { return };
            match self.pending.remove(at) {
                Pending::Merge { builder, value, span, hint } => self.merge_exact(builder, value, span, hint),
                Pending::Compare { result, .. } => {
                    self.types.unify(result, Types::BOOL);
                }
                _ => {}
            }
            self.go_through();
        }
    }

    /// Gives the fact back if it must wait.
    fn try_learn(&mut self, fact: Pending) -> Option<Pending> {
        match fact {
            Pending::Field { value, index, result, span } => match self.types.shape(value) {
                Shape::Unknown => return Some(fact),
                Shape::Con(Con::Struct, fields) => match fields.get(index as usize) {
                    Some(field) => self.equate(result, *field, span),
                    None => {
                        let message = format!("no field ${index} in {}", self.types.show(value));
                        self.complain(span, message);
                        self.equate(result, Types::ERROR, span);
                    }
                },
                Shape::Con(..) => {
                    let message = format!("`.${index}` of {}, which is no struct", self.types.show(value));
                    self.complain(span, message);
                    self.equate(result, Types::ERROR, span);
                }
                Shape::Error => self.equate(result, Types::ERROR, span),
            },
            Pending::Lookup { data, key, literal, result, span } => {
                let (wanted, element, what) = match self.types.shape(data) {
                    Shape::Unknown => return Some(fact),
                    Shape::Con(Con::Vec, parts) => (Types::I64, parts[0], "the index of a vector"),
                    Shape::Con(Con::Dict, parts) => (parts[0], parts[1], "the key of this dictionary"),
                    Shape::Con(..) => {
                        let message = format!("`lookup` needs a vector or a dictionary, not {}", self.types.show(data));
                        self.complain(span, message);
                        (Types::ERROR, Types::ERROR, "")
                    }
                    Shape::Error => (Types::ERROR, Types::ERROR, ""),
                };
                if !self.types.unify(key, wanted) {
                    let message = format!("{what} must be {}, not {}", self.types.show(wanted), self.types.show(key));
                    let mut problem = Diagnostic::ty(span, message);
                    problem.hint = self.conversion(literal, key, wanted);
                    self.report(problem);
                }
                self.equate(result, element, span);
            }
            Pending::Compare { operand, result } => {
                let ty = match self.types.shape(operand) {
                    Shape::Unknown => return Some(fact),
                    Shape::Con(Con::Simd, _) => self.types.import(&Type::Simd(ScalarKind::Bool)),
                    _ => Types::BOOL,
                };
                self.equate(result, ty, Span::NONE);
            }
            Pending::Merge { builder, value, span, hint } => {
                let shape = self.types.shape(builder);
                match (&shape, self.types.shape(value)) {
                    (Shape::Unknown, _) => return Some(Pending::Merge { builder, value, span, hint }),
                    (Shape::Con(Con::Appender | Con::Merger(_), _), Shape::Unknown) => {
                        return Some(Pending::Merge { builder, value, span, hint });
                    }
                    // The lanes of a SIMD value are merged one by one.
                    (Shape::Con(Con::Appender | Con::Merger(_), parts), Shape::Con(Con::Simd, lanes)) => {
                        self.merge_part(builder, parts[0], value, lanes[0], span, hint);
                    }
                    _ => self.merge_exact(builder, value, span, hint),
                }
            }
            Pending::Result { builder, result, span } => {
                let ty = match self.types.shape(builder) {
                    Shape::Unknown => return Some(fact),
                    Shape::Con(Con::Appender | Con::VecMerger(_), parts) => self.con(span, Con::Vec, &parts),
                    Shape::Con(Con::Merger(_), parts) => parts[0],
                    Shape::Con(Con::DictMerger(_), parts) => self.con(span, Con::Dict, &parts),
                    Shape::Con(Con::Numberer(_), parts) => {
                        let dict = self.con(span, Con::Dict, &parts[..2]);
                        let row = self.con(span, Con::Struct, &[Types::I64, parts[2]]);
                        let rows = self.con(span, Con::Vec, &[row]);
                        self.con(span, Con::Struct, &[dict, rows])
                    }
                    Shape::Con(Con::GroupBuilder, parts) => {
                        let group = self.con(span, Con::Vec, &parts[1..]);
                        self.con(span, Con::Dict, &[parts[0], group])
                    }
                    Shape::Con(..) => {
                        let message = format!("`result` needs a builder, not {}", self.types.show(builder));
                        self.complain(span, message);
                        Types::ERROR
                    }
                    Shape::Error => Types::ERROR,
                };
                self.equate(result, ty, span);
            }
            Pending::Intrinsic { intrinsic, ref args, result, span } => {
                if args.iter().any(|arg| self.types.is_error(*arg)) {
                    self.equate(result, Types::ERROR, span);
                    return None;
                }
                let Some(known) = args.iter().map(|arg| self.types.export(*arg)).collect::<Option<Vec<Type>>>() else {
                    return Some(fact);
                };
                let ty = match intrinsic.result_type(&known) {
                    Some(ty) => self.types.import(&ty),
                    None => {
                        let known: Vec<String> = known.iter().map(Type::to_string).collect();
                        let message = format!("`{}` does not take ({})", intrinsic.name(), known.join(", "));
                        self.complain(span, message);
                        Types::ERROR
                    }
                };
                self.equate(result, ty, span);
            }
        }
        None
    }

    fn equate(&mut self, a: Ty, b: Ty, span: Span) {
        if !self.types.unify(a, b) {
            let message = format!("expected {}, found {}", self.types.show(a), self.types.show(b));
            self.complain(span, message);
        }
    }

    /// Demands that the value has the very type that the builder takes.
    fn merge_exact(&mut self, builder: Ty, value: Ty, span: Span, hint: Option<String>) {
        let wanted = match self.types.shape(builder) {
            Shape::Con(Con::Appender | Con::Merger(_), parts) => parts[0],
            Shape::Con(Con::DictMerger(_) | Con::Numberer(_) | Con::GroupBuilder, parts) => {
                self.con(span, Con::Struct, &parts)
            }
            Shape::Con(Con::VecMerger(_), parts) => self.con(span, Con::Struct, &[Types::I64, parts[0]]),
            Shape::Con(..) => {
                let message = format!("`merge` needs a builder, not {}", self.types.show(builder));
                return self.complain(span, message);
            }
            Shape::Unknown | Shape::Error => return,
        };
        self.merge_part(builder, wanted, value, value, span, hint);
    }

    /// Demands that `part` of a value is what the builder wants.
    fn merge_part(&mut self, builder: Ty, wanted: Ty, value: Ty, part: Ty, span: Span, hint: Option<String>) {
        if !self.types.unify(wanted, part) {
            let (into, wanted_text, value_text) =
                (self.types.show(builder), self.types.show(wanted), self.types.show(value));
            let message = format!("what is merged into {into} must be {wanted_text}, not {value_text}");
            let mut problem = Diagnostic::ty(span, message);
            problem.hint = hint;
            self.report(problem);
        }
    }
}
