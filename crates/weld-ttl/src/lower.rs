//! From the checked tree to Weld: variables hold values, statements are bindings, calls are inlined.
//!
//! `s = s + d{i};` in a loop becomes a binding in the step of an `iterate` that carries `s`. What a program may do
//! wrong at run time is an error of the IR (index, overflow, division) or an assertion before the place that needs it.

mod cost;
mod expr;
mod fold;
mod interval;
mod matrix;
mod scope;
mod stmt;
mod value;

pub(crate) use cost::too_large;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use weld_core::diag::Span;
use weld_core::ir::{Expr, ExprKind, Names, Sym, build};
use weld_core::ty::ScalarKind;
use weld_frontend::{Flow, Sources};

use crate::typed::{Function, Module, Var};
use crate::types::Type;
pub(crate) use value::{Value, scalar_kind};

/// Makes the body of a function's program.
pub(crate) struct Lower<'a> {
    module: &'a Module,
    flow: Flow,
    /// What the variables of the function that is inlined hold. In the order of their declaration, so that programs
    /// come out the same each time.
    vars: BTreeMap<Var, Value>,
    function: &'a Function,
    sources: Sources,
    /// Variables of the program that are an `i64` as an `int`: counters and sizes.
    wide: HashMap<Sym, Expr>,
    /// The least and the largest value of variables of the program that are such an `i64`.
    intervals: HashMap<Sym, (i64, i64)>,
    /// The counters of the loops around, from where they count and what they stay below.
    counters: Vec<[Expr; 3]>,
    /// Variables of the function whose values after their loops nobody reads.
    of_loops: BTreeSet<Var>,
    /// What accesses in the loop that is made give: the element that the loop is at. By the address of the access.
    elements: HashMap<usize, Expr>,
}

impl<'a> Lower<'a> {
    pub(crate) fn new(module: &'a Module, function: &'a Function, names: Names, sources: Sources) -> Lower<'a> {
        Lower {
            module,
            flow: Flow::new(names),
            vars: BTreeMap::new(),
            function,
            sources,
            wide: HashMap::new(),
            elements: HashMap::new(),
            intervals: HashMap::new(),
            counters: Vec::new(),
            of_loops: BTreeSet::new(),
        }
    }

    pub(crate) fn names(&mut self) -> &mut Names {
        self.flow.names()
    }

    /// The value of a variable that lies as its type says: it is the data, or the struct of that and its sizes.
    pub(crate) fn value_of(&mut self, variable: Expr, ty: &Type) -> Value {
        let fields = match variable.ty.fields() {
            Some(fields) => (0..fields.len()).map(|index| build::field(variable.clone(), index)).collect(),
            None => vec![variable],
        };
        self.unpacked(ty, &mut fields.into_iter())
    }

    /// The body for these arguments, its names and its texts.
    pub(crate) fn body(mut self, args: Vec<Value>) -> (Expr, Names, Sources) {
        let function = self.function;
        let value = match self.inlined(function, args) {
            Some(value) => {
                let mut parts = value::packed(&value, &function.result);
                if parts.len() == 1 { parts.remove(0) } else { build::strct(parts) }
            }
            None => build::bool(false),
        };
        let body = self.flow.finish(value);
        (body, self.flow.into_names(), self.sources)
    }

    /// The statements of a function here, with its parameters bound to the arguments; what it returns.
    fn inlined(&mut self, function: &'a Function, args: Vec<Value>) -> Option<Value> {
        let params = (0..function.params).map(|index| Var(index as u32));
        let vars = std::mem::replace(&mut self.vars, params.zip(args).collect());
        let caller = std::mem::replace(&mut self.function, function);
        let of_loops = std::mem::replace(&mut self.of_loops, scope::of_loops(function));
        self.stmts(&function.body);
        let value = function.value.as_ref().map(|value| self.expr(value));
        self.vars = vars;
        self.function = caller;
        self.of_loops = of_loops;
        value
    }

    fn bind(&mut self, name: &str, value: Expr) -> Expr {
        self.flow.bind(name, value)
    }

    /// Binds an `i64` as the `int` that it is.
    fn bind_int(&mut self, name: &str, value: Expr) -> Expr {
        let int = self.flow.keep(name, build::cast(value.clone(), ScalarKind::I32));
        if let ExprKind::Var(sym) = int.kind {
            self.wide.insert(sym, value);
        }
        int
    }

    /// An error here unless the condition holds. `{0}` and `{1}` in the message are the values.
    fn check(&mut self, cond: Expr, message: &str, values: Vec<Expr>, span: Span) {
        let assertion = build::require(cond, message, values).at(span);
        self.flow.keep("checked", assertion);
    }
}
