//! The tree: Python's statements and expressions as far as a language that compiles to Weld may have a use for them.
//!
//! Every node has the span of its text. What no such language has (`global`, `await`, f-strings, ..) is a node
//! `Unsupported` with its name, so that who walks the tree refuses it by name.

use std::sync::Arc;

use weld_core::diag::Span;

/// A name with its place.
#[derive(Clone, PartialEq, Debug)]
pub struct Ident {
    pub name: Arc<str>,
    pub span: Span,
}

/// The statements of a text.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Module {
    pub body: Vec<Stmt>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Stmt {
    pub span: Span,
    pub kind: StmtKind,
}

#[derive(Clone, PartialEq, Debug)]
pub enum StmtKind {
    Function(Function),
    Class(Class),
    Return(Option<Expr>),
    /// `a = b = value`: several targets.
    Assign {
        targets: Vec<Expr>,
        value: Expr,
    },
    /// `target op= value`.
    Augment {
        target: Expr,
        op: BinaryOp,
        value: Expr,
    },
    /// `target: annotation = value`.
    Annotate {
        target: Expr,
        annotation: Expr,
        value: Option<Expr>,
    },
    For {
        target: Expr,
        iter: Expr,
        body: Vec<Stmt>,
        orelse: Vec<Stmt>,
    },
    While {
        test: Expr,
        body: Vec<Stmt>,
        orelse: Vec<Stmt>,
    },
    /// `if` and each `elif`, in order.
    If {
        branches: Vec<Branch>,
        orelse: Vec<Stmt>,
    },
    With {
        items: Vec<WithItem>,
        body: Vec<Stmt>,
    },
    Raise {
        exception: Option<Expr>,
        cause: Option<Expr>,
    },
    Try {
        body: Vec<Stmt>,
        handlers: Vec<Handler>,
        orelse: Vec<Stmt>,
        finally: Vec<Stmt>,
    },
    Assert {
        test: Expr,
        message: Option<Expr>,
    },
    Import(Vec<Alias>),
    /// `from module import names`; each dot before the module is a level.
    ImportFrom {
        module: Option<Ident>,
        level: u32,
        names: Vec<Alias>,
    },
    Expr(Expr),
    Pass,
    Break,
    Continue,
    /// By its keyword: `global`, `del`, `match`, ..
    Unsupported(&'static str),
}

/// `if test: body` or `elif test: body`.
#[derive(Clone, PartialEq, Debug)]
pub struct Branch {
    pub test: Expr,
    pub body: Vec<Stmt>,
}

/// `value as target` of a `with`.
#[derive(Clone, PartialEq, Debug)]
pub struct WithItem {
    pub value: Expr,
    pub target: Option<Expr>,
}

/// `except exception as name: body`.
#[derive(Clone, PartialEq, Debug)]
pub struct Handler {
    pub span: Span,
    pub exception: Option<Expr>,
    pub name: Option<Ident>,
    pub body: Vec<Stmt>,
}

/// `name as alias` of an import; the name may have dots.
#[derive(Clone, PartialEq, Debug)]
pub struct Alias {
    pub name: Ident,
    pub alias: Option<Ident>,
}

/// A `def`.
#[derive(Clone, PartialEq, Debug)]
pub struct Function {
    pub decorators: Vec<Expr>,
    pub name: Ident,
    pub params: Params,
    pub returns: Option<Expr>,
    pub body: Vec<Stmt>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Class {
    pub decorators: Vec<Expr>,
    pub name: Ident,
    pub bases: Vec<Expr>,
    pub keywords: Vec<Keyword>,
    pub body: Vec<Stmt>,
}

/// The parameters of a `def` or a `lambda`, in the order of the text.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Params {
    pub params: Vec<Param>,
    /// `*args`.
    pub rest: Option<Ident>,
    /// `**kwargs`.
    pub keywords: Option<Ident>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Param {
    pub name: Ident,
    pub annotation: Option<Expr>,
    pub default: Option<Expr>,
    pub kind: ParamKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParamKind {
    /// Before `/`.
    PositionOnly,
    Normal,
    /// After `*`.
    KeywordOnly,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Expr {
    pub span: Span,
    pub kind: ExprKind,
}

#[derive(Clone, PartialEq, Debug)]
pub enum ExprKind {
    /// An integer below `2^64`.
    Int(u64),
    /// A larger one, as written.
    BigInt(Arc<str>),
    Float(f64),
    Str(Arc<str>),
    Bool(bool),
    None,
    Ellipsis,
    Name(Arc<str>),
    Attribute(Box<Expr>, Ident),
    Call {
        callee: Box<Expr>,
        args: Vec<Expr>,
        keywords: Vec<Keyword>,
    },
    /// `value[index]`; `a[i, j]` has a tuple for its index.
    Index(Box<Expr>, Box<Expr>),
    /// `lower:upper:step`, inside of an index.
    Slice {
        lower: Option<Box<Expr>>,
        upper: Option<Box<Expr>>,
        step: Option<Box<Expr>>,
    },
    Tuple(Vec<Expr>),
    List(Vec<Expr>),
    Set(Vec<Expr>),
    /// `f"a{b}"`: literals and what stands between braces.
    FString(Vec<Expr>),
    /// Keys and values; `**other` has no key.
    Dict(Vec<(Option<Expr>, Expr)>),
    Unary(UnaryOp, Box<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `a and b and c`.
    And(Vec<Expr>),
    Or(Vec<Expr>),
    /// `first op second op third`: one operator more than there are in a pair.
    Compare {
        first: Box<Expr>,
        rest: Vec<(CompareOp, Expr)>,
    },
    /// `on_true if test else on_false`.
    If {
        test: Box<Expr>,
        on_true: Box<Expr>,
        on_false: Box<Expr>,
    },
    Lambda {
        params: Params,
        body: Box<Expr>,
    },
    /// `[element for ..]`.
    ListComp {
        element: Box<Expr>,
        clauses: Vec<Clause>,
    },
    /// `(element for ..)`.
    Generator {
        element: Box<Expr>,
        clauses: Vec<Clause>,
    },
    Yield(Option<Box<Expr>>),
    YieldFrom(Box<Expr>),
    /// `*value`.
    Starred(Box<Expr>),
    /// By its name: `await`, f-string, `:=`, ..
    Unsupported(&'static str),
}

/// `for target in iter if condition ..` of a comprehension.
#[derive(Clone, PartialEq, Debug)]
pub struct Clause {
    pub target: Expr,
    pub iter: Expr,
    pub conditions: Vec<Expr>,
}

/// `name=value`; `**value` has no name.
#[derive(Clone, PartialEq, Debug)]
pub struct Keyword {
    pub name: Option<Ident>,
    pub value: Expr,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnaryOp {
    Not,
    Neg,
    Pos,
    Invert,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    MatMul,
    Div,
    FloorDiv,
    Mod,
    Pow,
    ShiftLeft,
    ShiftRight,
    BitAnd,
    BitOr,
    BitXor,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompareOp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Is,
    IsNot,
    In,
    NotIn,
}

impl UnaryOp {
    pub fn text(self) -> &'static str {
        match self {
            UnaryOp::Not => "not",
            UnaryOp::Neg => "-",
            UnaryOp::Pos => "+",
            UnaryOp::Invert => "~",
        }
    }
}

impl BinaryOp {
    pub fn text(self) -> &'static str {
        match self {
            BinaryOp::Add => "+",
            BinaryOp::Sub => "-",
            BinaryOp::Mul => "*",
            BinaryOp::MatMul => "@",
            BinaryOp::Div => "/",
            BinaryOp::FloorDiv => "//",
            BinaryOp::Mod => "%",
            BinaryOp::Pow => "**",
            BinaryOp::ShiftLeft => "<<",
            BinaryOp::ShiftRight => ">>",
            BinaryOp::BitAnd => "&",
            BinaryOp::BitOr => "|",
            BinaryOp::BitXor => "^",
        }
    }
}

impl CompareOp {
    pub fn text(self) -> &'static str {
        match self {
            CompareOp::Eq => "==",
            CompareOp::Ne => "!=",
            CompareOp::Lt => "<",
            CompareOp::Le => "<=",
            CompareOp::Gt => ">",
            CompareOp::Ge => ">=",
            CompareOp::Is => "is",
            CompareOp::IsNot => "is not",
            CompareOp::In => "in",
            CompareOp::NotIn => "not in",
        }
    }
}

impl Expr {
    /// The name, if the expression is one.
    pub fn as_name(&self) -> Option<&str> {
        match &self.kind {
            ExprKind::Name(name) => Some(name),
            _ => None,
        }
    }

    /// `a.b.c` as its names.
    pub fn as_path(&self) -> Option<Vec<&str>> {
        match &self.kind {
            ExprKind::Name(name) => Some(vec![name]),
            ExprKind::Attribute(of, name) => {
                let mut path = of.as_path()?;
                path.push(&name.name);
                Some(path)
            }
            _ => None,
        }
    }

    /// What kind of expression it is, for messages.
    pub fn described(&self) -> &'static str {
        match &self.kind {
            ExprKind::Int(_) | ExprKind::BigInt(_) => "an integer",
            ExprKind::Float(_) => "a float",
            ExprKind::Str(_) => "a string",
            ExprKind::Bool(_) => "a boolean",
            ExprKind::None => "None",
            ExprKind::Ellipsis => "`...`",
            ExprKind::Name(_) => "a name",
            ExprKind::Attribute(..) => "an attribute",
            ExprKind::Call { .. } => "a call",
            ExprKind::Index(..) => "a subscript",
            ExprKind::Slice { .. } => "a slice",
            ExprKind::Tuple(_) => "a tuple",
            ExprKind::List(_) => "a list",
            ExprKind::Set(_) => "a set",
            ExprKind::FString(_) => "an f-string",
            ExprKind::Dict(_) => "a dictionary",
            ExprKind::Unary(..) | ExprKind::Binary(..) => "an operation",
            ExprKind::And(_) | ExprKind::Or(_) => "a condition",
            ExprKind::Compare { .. } => "a comparison",
            ExprKind::If { .. } => "a conditional expression",
            ExprKind::Lambda { .. } => "a lambda",
            ExprKind::ListComp { .. } => "a list comprehension",
            ExprKind::Generator { .. } => "a generator expression",
            ExprKind::Yield(_) | ExprKind::YieldFrom(_) => "a yield",
            ExprKind::Starred(_) => "a starred expression",
            ExprKind::Unsupported(what) => what,
        }
    }
}

impl StmtKind {
    /// What kind of statement it is, for messages.
    pub fn described(&self) -> &'static str {
        match self {
            StmtKind::Function(_) => "def",
            StmtKind::Class(_) => "class",
            StmtKind::Return(_) => "return",
            StmtKind::Assign { .. } => "an assignment",
            StmtKind::Augment { .. } => "an augmented assignment",
            StmtKind::Annotate { .. } => "an annotation",
            StmtKind::For { .. } => "for",
            StmtKind::While { .. } => "while",
            StmtKind::If { .. } => "if",
            StmtKind::With { .. } => "with",
            StmtKind::Raise { .. } => "raise",
            StmtKind::Try { .. } => "try",
            StmtKind::Assert { .. } => "assert",
            StmtKind::Import(_) | StmtKind::ImportFrom { .. } => "import",
            StmtKind::Expr(_) => "an expression",
            StmtKind::Pass => "pass",
            StmtKind::Break => "break",
            StmtKind::Continue => "continue",
            StmtKind::Unsupported(what) => what,
        }
    }
}
