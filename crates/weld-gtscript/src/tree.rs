//! A stencil with all names resolved: functions inlined, externals constants, `if` turned into masks.
//!
//! An `if` becomes what the language says that it means: a mask field is assigned, then every statement of the branches
//! is masked. Masks are temporaries like those that the text assigns.

use std::rc::Rc;
use std::sync::Arc;

use weld_core::diag::Span;
use weld_frontend::Function;
use weld_pysyntax::CompareOp;

use crate::dtype::Dtype;

/// Index into [`Stencil::fields`].
pub type FieldId = usize;

/// Offsets along I, J, K.
pub type Offset = [i32; 3];

#[derive(Debug)]
pub struct Stencil {
    pub name: String,
    /// Where its name is.
    pub entry: Span,
    pub params: Vec<Param>,
    /// Those of the parameters first, then temporaries.
    pub fields: Vec<Field>,
    /// In order of execution.
    pub blocks: Vec<Block>,
}

#[derive(Clone, Debug)]
pub struct Param {
    pub name: String,
    pub span: Span,
    pub kind: ParamKind,
}

#[derive(Clone, Debug)]
pub enum ParamKind {
    Field(FieldId),
    Scalar { dtype: Dtype, default: Option<Const> },
}

#[derive(Clone, Debug)]
pub struct Field {
    pub name: String,
    /// Its parameter or first assignment.
    pub span: Span,
    pub external: bool,
    /// Declared, or what inference found.
    pub dtype: Option<Dtype>,
    /// Which of I, J, K it has. A temporary has I and J only if its values may vary along them.
    pub axes: [bool; 3],
    /// It is the mask of an `if`.
    pub mask: bool,
}

/// An interval of a computation with its statements.
#[derive(Debug)]
pub struct Block {
    pub policy: Policy,
    /// Blocks of one computation have one number.
    pub computation: usize,
    pub interval: Interval,
    pub body: Vec<Stmt>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    Forward,
    Backward,
    Parallel,
}

impl Policy {
    pub fn name(self) -> &'static str {
        match self {
            Policy::Forward => "FORWARD",
            Policy::Backward => "BACKWARD",
            Policy::Parallel => "PARALLEL",
        }
    }
}

/// `interval(start, end)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interval {
    pub start: Bound,
    pub end: Bound,
    pub span: Span,
}

impl Interval {
    /// Whether it has all levels, however many there are.
    pub fn is_whole(&self) -> bool {
        self.start == Bound { from_end: false, offset: 0 } && self.end == Bound { from_end: true, offset: 0 }
    }
}

/// A level: so many from the first (`from_end: false`) or from behind the last.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Bound {
    pub from_end: bool,
    pub offset: i64,
}

/// How far the statement's domain goes beyond the compute domain: I from, to; J from, to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Extent(pub [i32; 4]);

#[derive(Clone, Debug)]
pub struct Stmt {
    pub span: Span,
    /// Masks under which it is done; `false`: where the mask is not set.
    pub guards: Vec<(FieldId, bool)>,
    pub extent: Extent,
    pub kind: StmtKind,
}

#[derive(Clone, Debug)]
pub enum StmtKind {
    Assign {
        target: FieldId,
        /// Where the target's name is.
        place: Span,
        value: Ref,
    },
    While {
        cond: Ref,
        body: Vec<Stmt>,
    },
}

pub type Ref = Rc<Node>;

#[derive(Debug)]
pub struct Node {
    pub span: Span,
    pub kind: NodeKind,
}

#[derive(Clone, Debug)]
pub enum NodeKind {
    Const(Const),
    /// A parameter, by its index.
    Scalar(usize),
    Access {
        field: FieldId,
        offset: Offset,
    },
    Neg(Ref),
    Not(Ref),
    Binary(Op, Ref, Ref),
    Compare(CompareOp, Ref, Ref),
    And(Vec<Ref>),
    Or(Vec<Ref>),
    /// Condition, value if it holds, value else.
    Select(Ref, Ref, Ref),
    Call(Builtin, Vec<Ref>),
    Cast(Dtype, Ref),
    /// A function of the session.
    Session(Arc<Function>, Vec<Ref>),
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Const {
    Bool(bool),
    Int(i128),
    Float(f64),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Mod,
    Pow,
}

impl Op {
    pub fn text(self) -> &'static str {
        match self {
            Op::Add => "+",
            Op::Sub => "-",
            Op::Mul => "*",
            Op::Div => "/",
            Op::FloorDiv => "//",
            Op::Mod => "%",
            Op::Pow => "**",
        }
    }
}

/// Functions of numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Builtin {
    Abs,
    Min,
    Max,
    Sqrt,
    Exp,
    Log,
    Log10,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Floor,
    Ceil,
    Trunc,
    Erf,
    IsNan,
    IsInf,
    IsFinite,
}

impl Builtin {
    pub fn parse(name: &str) -> Option<Builtin> {
        Some(match name {
            "abs" => Builtin::Abs,
            "min" => Builtin::Min,
            "max" => Builtin::Max,
            "sqrt" => Builtin::Sqrt,
            "exp" => Builtin::Exp,
            "log" => Builtin::Log,
            "log10" => Builtin::Log10,
            "sin" => Builtin::Sin,
            "cos" => Builtin::Cos,
            "tan" => Builtin::Tan,
            "asin" => Builtin::Asin,
            "acos" => Builtin::Acos,
            "atan" => Builtin::Atan,
            "sinh" => Builtin::Sinh,
            "cosh" => Builtin::Cosh,
            "tanh" => Builtin::Tanh,
            "floor" => Builtin::Floor,
            "ceil" => Builtin::Ceil,
            "trunc" => Builtin::Trunc,
            "erf" => Builtin::Erf,
            "isnan" => Builtin::IsNan,
            "isinf" => Builtin::IsInf,
            "isfinite" => Builtin::IsFinite,
            _ => return None,
        })
    }
}

impl Extent {
    pub const ZERO: Extent = Extent([0; 4]);

    pub fn hull(self, other: Extent) -> Extent {
        let [a, b] = [self.0, other.0];
        Extent([a[0].min(b[0]), a[1].max(b[1]), a[2].min(b[2]), a[3].max(b[3])])
    }

    /// Where a read at an offset reaches, with the compute domain itself.
    pub fn shifted(self, offset: Offset) -> Extent {
        let [i, j, _] = offset;
        let [a, b, c, d] = self.0;
        let moved = [a.saturating_add(i), b.saturating_add(i), c.saturating_add(j), d.saturating_add(j)];
        Extent(moved).hull(Extent::ZERO)
    }
}

impl Node {
    /// Calls `f` with the parts.
    pub fn each_child<'a>(&'a self, f: &mut dyn FnMut(&'a Ref)) {
        match &self.kind {
            NodeKind::Const(_) | NodeKind::Scalar(_) | NodeKind::Access { .. } => {}
            NodeKind::Neg(a) | NodeKind::Not(a) | NodeKind::Cast(_, a) => f(a),
            NodeKind::Binary(_, a, b) | NodeKind::Compare(_, a, b) => {
                f(a);
                f(b);
            }
            NodeKind::Select(a, b, c) => {
                f(a);
                f(b);
                f(c);
            }
            NodeKind::And(all) | NodeKind::Or(all) | NodeKind::Call(_, all) | NodeKind::Session(_, all) => {
                all.iter().for_each(f)
            }
        }
    }
}

/// One read of a field.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    pub field: FieldId,
    pub offset: Offset,
    pub span: Span,
}

impl Access {
    pub fn is_horizontal(&self) -> bool {
        self.offset[0] != 0 || self.offset[1] != 0
    }
}

/// The reads of an expression, each shared part once.
pub fn accesses(node: &Ref) -> Vec<Access> {
    let (mut found, mut seen, mut open) = (Vec::new(), std::collections::HashSet::new(), vec![node]);
    while let Some(node) = open.pop() {
        if !seen.insert(Rc::as_ptr(node)) {
            continue;
        }
        if let NodeKind::Access { field, offset } = node.kind {
            found.push(Access { field, offset, span: node.span });
        }
        let from = open.len();
        node.each_child(&mut |child| open.push(child));
        open[from..].reverse();
    }
    found
}

impl Stmt {
    /// The reads of the statement itself: guards, value, condition, old value where it is masked; not of a `while`'s
    /// body.
    pub fn reads(&self) -> Vec<Access> {
        let guards = self.guards.iter().map(|(mask, _)| Access { field: *mask, offset: [0; 3], span: self.span });
        let mut reads: Vec<Access> = guards.collect();
        match &self.kind {
            StmtKind::Assign { value, .. } => reads.extend(accesses(value)),
            StmtKind::While { cond, .. } => reads.extend(accesses(cond)),
        }
        reads
    }

    /// The statement and those inside of it.
    pub fn each<'a>(&'a self, f: &mut dyn FnMut(&'a Stmt)) {
        f(self);
        if let StmtKind::While { body, .. } = &self.kind {
            body.iter().for_each(|stmt| stmt.each(f));
        }
    }

    /// The fields that it writes, each once, in order.
    pub fn targets(&self) -> Vec<FieldId> {
        let mut targets = Vec::new();
        self.each(&mut |stmt| {
            if let StmtKind::Assign { target, .. } = stmt.kind
                && !targets.contains(&target)
            {
                targets.push(target);
            }
        });
        targets
    }
}

impl Stencil {
    pub fn field(&self, id: FieldId) -> &Field {
        &self.fields[id]
    }

    /// An element's type, once it is inferred.
    pub fn dtype(&self, id: FieldId) -> Dtype {
        self.fields[id].dtype.unwrap_or(Dtype::Float64)
    }

    /// `a[1, 0, 0]`: one offset for each axis; the name alone without offsets.
    pub fn written_access(&self, field: FieldId, offset: Offset) -> String {
        let field = self.field(field);
        if offset == [0; 3] {
            return field.name.clone();
        }
        let has = if field.external { field.axes } else { [true; 3] };
        let offsets: Vec<String> = (0..3).filter(|axis| has[*axis]).map(|axis| offset[axis].to_string()).collect();
        format!("{}[{}]", field.name, offsets.join(", "))
    }

    /// All statements in order of execution, with their blocks.
    pub fn each_stmt<'a>(&'a self, f: &mut dyn FnMut(&'a Block, &'a Stmt)) {
        for block in &self.blocks {
            block.body.iter().for_each(|stmt| stmt.each(&mut |stmt| f(block, stmt)));
        }
    }
}

/// `IJK`, as it is written.
pub fn axes_name(axes: [bool; 3]) -> String {
    "IJK".chars().zip(axes).filter(|(_, has)| *has).map(|(axis, _)| axis).collect()
}
