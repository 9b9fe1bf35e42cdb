//! Aggregates as functions of groups: their programs, and which of them builders have.

use weld_core::interp::{Value, run};
use weld_core::ir::Literal;
use weld_core::ty::ScalarKind;
use weld_frontend::{Aggregate, Arg, Args, DataType, Known, Language, Library, Options, Request};
use weld_numba::Python;

/// An aggregate of one number whose state is `s` of the type, from `init` on.
fn text(ty: &str, init: &str, step: &str, merge: &str) -> String {
    format!(
        "@aggregate
class A(object):
    layout = Struct([('s', '{ty}')])
    def __init__(self):
        self.s = {init}
    def step(self, x):
        {step}
    def merge(self, other):
        {merge}
    def result(self):
        return self.s
"
    )
}

fn aggregate(text: &str, kind: ScalarKind) -> Result<Option<Aggregate>, String> {
    let (library, options) = (Library::default(), Options { sql: true, ..Options::default() });
    let args = [Arg { known: Known::Type(DataType::Scalar(kind)), ..Arg::default() }];
    let mut request = Request::new(text, &library, &options);
    request.args = Args::Given(&args);
    Python.aggregate(&request).map_err(|errors| errors[0].message.clone())
}

fn made(text: &str, kind: ScalarKind) -> Aggregate {
    aggregate(text, kind).unwrap_or_else(|error| panic!("{text}\n{error}")).expect("an aggregate")
}

fn called(function: &weld_frontend::Function, args: &[Value]) -> Value {
    run(&function.program, args, &Default::default()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn builders_have_what_is_merged_by_an_operator() {
    let int = |init: &str, step: &str, merge: &str| text("Int", init, step, merge);
    let float = |init: &str, step: &str, merge: &str| text("Float", init, step, merge);
    for (text, kind, merged) in [
        (float("0.0", "self.s += x * 2", "self.s += other.s"), ScalarKind::F64, Some(ScalarKind::F64)),
        (float("0.0", "self.s -= x", "self.s = other.s + self.s"), ScalarKind::F64, Some(ScalarKind::F64)),
        (float("1.0", "self.s *= x", "self.s *= other.s"), ScalarKind::F64, Some(ScalarKind::F64)),
        (int("0", "self.s += x", "self.s += other.s"), ScalarKind::I64, Some(ScalarKind::I128)),
        (int("0", "self.s += 1", "self.s += other.s"), ScalarKind::I64, Some(ScalarKind::I64)),
        (
            int("0", "self.s = self.s + 1 if x > 2 else self.s", "self.s += other.s"),
            ScalarKind::I64,
            Some(ScalarKind::I64),
        ),
        (
            int("0", "if x > 3:\n            self.s += x\n            self.s += 7", "self.s += other.s"),
            ScalarKind::I64,
            Some(ScalarKind::I128),
        ),
        (
            int("0", "if x < 0:\n            raise ValueError('no')\n        self.s += x", "self.s += other.s"),
            ScalarKind::I64,
            Some(ScalarKind::I128),
        ),
        (
            int("-9223372036854775808", "self.s = max(self.s, x)", "self.s = max(self.s, other.s)"),
            ScalarKind::I64,
            Some(ScalarKind::I64),
        ),
        (
            int("9223372036854775807", "if x < self.s:\n            self.s = x", "self.s = min(other.s, self.s)"),
            ScalarKind::I64,
            Some(ScalarKind::I64),
        ),
        // Another start, another operator, another state.
        (float("1.0", "self.s += x", "self.s += other.s"), ScalarKind::F64, None),
        (float("0.0", "self.s += x", "self.s = max(self.s, other.s)"), ScalarKind::F64, None),
        (float("0.0", "self.s += x", "self.s += other.s * 2"), ScalarKind::F64, None),
        (float("0.0", "self.s += x * self.s", "self.s += other.s"), ScalarKind::F64, None),
        (float("0.0", "self.s = self.s * 0.5 + x", "self.s += other.s"), ScalarKind::F64, None),
        (float("0.0", "if self.s > 1:\n            self.s += x", "self.s += other.s"), ScalarKind::F64, None),
        (float("-1e308", "self.s = max(self.s, x)", "self.s = max(self.s, other.s)"), ScalarKind::F64, None),
        (int("1", "self.s *= x", "self.s *= other.s"), ScalarKind::I64, None),
        (int("0", "self.s = max(self.s, x)", "self.s = max(self.s, other.s)"), ScalarKind::I64, None),
    ] {
        let aggregate = made(&text, kind);
        let found = aggregate.merged.as_ref().map(|merged| merged.fields[0].0);
        assert_eq!(found, merged, "{text}\n{}", aggregate.step.program);
    }
}

#[test]
fn rows_one_by_one_at_once_and_in_parts_are_the_same() {
    let text = text("Int", "0", "self.s += x * 3 if x > 2 else 1", "self.s += other.s");
    let aggregate = made(&text, ScalarKind::I64);
    let state = |rows: &[i64]| {
        rows.iter().fold(called(&aggregate.init, &[]), |state, row| called(&aggregate.step, &[state, Value::i64(*row)]))
    };
    let all = state(&[1, 5, 2, 7]);
    assert_eq!(called(&aggregate.finish, std::slice::from_ref(&all)), Value::i64(38));
    let rows = Value::vec([1, 5, 2, 7].map(Value::i64));
    assert_eq!(called(&aggregate.fold, &[called(&aggregate.init, &[]), rows]), all);
    assert_eq!(called(&aggregate.merge, &[state(&[1, 5]), state(&[2, 7])]), all);
    let merged = aggregate.merged.expect("a sum");
    let given = |row: i64| match called(&merged.row, &[Value::i64(row)]) {
        Value::Struct(fields) => fields[0].clone(),
        other => other,
    };
    assert_eq!([given(5), given(2)], [15, 1].map(|value| Value::Scalar(Literal::I128(value))));
    let total = Value::structure([Value::Scalar(Literal::I128(1 << 64))]);
    let error = run(&merged.finish.program, &[total], &Default::default()).expect_err("it does not fit");
    assert_eq!(error.message.to_string(), "Overflow: integer overflow");
}

#[test]
fn states_of_lists_may_be_changed() {
    let text = text("[Int]", "[]", "self.s.append(x)", "self.s.extend(other.s)");
    let text = text.replace("return self.s", "return len(self.s)");
    let aggregate = made(&text, ScalarKind::I64);
    assert!(aggregate.merged.is_none());
    let state = |row: i64| called(&aggregate.step, &[called(&aggregate.init, &[]), Value::i64(row)]);
    let both = called(&aggregate.merge, &[state(1), state(2)]);
    assert_eq!(called(&aggregate.finish, &[both]), Value::i64(2));
}

#[test]
fn what_is_no_aggregate_is_a_function_of_its_arguments() {
    assert!(aggregate("def f(x):\n    return x\n", ScalarKind::I64).expect("a function").is_none());
    let changed = text("Int", "0", "self.s += x", "other.s += 1");
    assert!(aggregate(&changed, ScalarKind::I64).expect_err("an argument").contains("argument"));
}
