//! Functions of every language, which both sessions have, and random calls of them.

use datafusion::prelude::SessionContext;

use super::queries::{Column, Queries};
use super::tables::Kind;

const FUNCTIONS: [&str; 13] = [
    "CREATE FUNCTION f_mixed(x BIGINT, y BIGINT) RETURNS BIGINT LANGUAGE weld AS '|x: i64, y: i64| x * 31L - y'",
    "CREATE FUNCTION f_tier(q INT) RETURNS INT LANGUAGE ttl AS $$
function int f_tier(int q) {
  var int t = q;
  if (q > 3) { t = 100 / (q - 4); } else { t = q * q; }
  return t;
} $$",
    "CREATE FUNCTION f_total(v BIGINT[]) RETURNS BIGINT LANGUAGE weld AS
        '|v: vec[i64]| result(for(v, merger[i64,+], |m, i, x| merge(m, x)))'",
    "CREATE FUNCTION f_steps(v INT[]) RETURNS INT LANGUAGE ttl AS $$
function int f_steps(matrix<int>[?] v) {
  var int i;
  var int s = v $ 0;
  for (i in 1...v $ 0 by 2) { s = s + v{i} - v{i - 1}; }
  return s;
} $$",
    "CREATE FUNCTION f_soft(x DOUBLE, y DOUBLE) RETURNS DOUBLE LANGUAGE weld AS
        '|x: f64, y: f64| 1.0 / (1.0 + x * x) - y'",
    "CREATE FUNCTION f_three(x FLOAT, y FLOAT) RETURNS FLOAT[3] LANGUAGE weld AS '|x: f32, y: f32| [x, y, 0.5f]'",
    "CREATE FUNCTION f_relu(v FLOAT[3]) RETURNS FLOAT[3] LANGUAGE ocannl AS 'let%op f_relu v = relu (v - 1.0)'",
    "CREATE FUNCTION f_dot(a FLOAT[3], b FLOAT[3]) RETURNS FLOAT LANGUAGE ttl AS $$
function float f_dot(matrix<float>[3] a, matrix<float>[3] b) {
  var matrix<float>[3] p = a * b;
  return p{0} + p{1} - p{2};
} $$",
    "CREATE FUNCTION f_upto(n BIGINT) RETURNS BIGINT[] LANGUAGE weld AS
        '|n: i64| result(for(rangeiter(0L, if(n < 0L, 0L, n % 5L), 1L), appender[i64], |b, i, x| merge(b, x - n)))'",
    "CREATE FUNCTION f_twice(v BIGINT[]) RETURNS BIGINT[] LANGUAGE weld AS '|v: vec[i64]| map(v, |x| x + x)'",
    "CREATE FUNCTION f_clipped(v BIGINT[]) RETURNS BIGINT[] LANGUAGE gtscript AS $$
@stencil
def f_clipped(a: Field[K, int64], b: Field[K, int64]):
    with computation(PARALLEL), interval(...):
        b = a
        if a > 10:
            b = a - 10
$$",
    "CREATE FUNCTION f_raised(s VARCHAR) RETURNS VARCHAR LANGUAGE weld AS
        '|s: vec[u8]| map(s, |c| if(c >= u8(97) && c <= u8(122), c - u8(32), c))'",
    "CREATE FUNCTION f_between(x DOUBLE, y DOUBLE) RETURNS BOOLEAN LANGUAGE weld AS
        '|x: f64, y: f64| x < y && y < x * 2.0 + 10.0'",
];

/// Makes the functions in a session with Weld and hands them to another.
pub(crate) async fn register(weld: &SessionContext, stock: &SessionContext) {
    for sql in FUNCTIONS {
        weld.sql(sql).await.unwrap_or_else(|error| panic!("{sql}\n{error}"));
    }
    for (name, function) in weld.state().scalar_functions() {
        if name.starts_with("f_") {
            stock.register_udf(function.as_ref().clone());
        }
    }
}

impl Queries<'_> {
    /// Whether there are functions that give such values.
    pub(crate) fn has_functions(kind: Kind) -> bool {
        matches!(kind, Kind::Bool | Kind::Int | Kind::Float | Kind::Text | Kind::List)
    }

    pub(crate) fn function_call(&mut self, columns: &[Column], kind: Kind, depth: usize) -> String {
        match kind {
            Kind::Bool => format!(
                "f_between({}, {})",
                self.expr(columns, Kind::Float, depth),
                self.expr(columns, Kind::Float, depth)
            ),
            Kind::Text => format!("f_raised({})", self.expr(columns, Kind::Text, depth)),
            Kind::Float => match self.rng.below(3) {
                0 => format!("f_dot({}, {})", self.three(columns, depth), self.three(columns, depth)),
                _ => format!(
                    "f_soft({}, {})",
                    self.expr(columns, Kind::Float, depth),
                    self.expr(columns, Kind::Float, depth)
                ),
            },
            Kind::List => match self.rng.below(4) {
                0 => format!("f_twice({})", self.expr(columns, Kind::List, depth)),
                1 => format!("f_clipped({})", self.expr(columns, Kind::List, depth)),
                _ => format!("f_upto({} % 100)", self.expr(columns, Kind::Int, depth)),
            },
            _ => match self.rng.below(5) {
                0 => format!("f_tier({} % 30)", self.expr(columns, Kind::Int, depth)),
                1 => format!("f_total({})", self.expr(columns, Kind::List, depth)),
                2 => format!("f_steps({})", self.expr(columns, Kind::List, depth)),
                _ => format!(
                    "f_mixed({}, {})",
                    self.expr(columns, Kind::Int, depth),
                    self.expr(columns, Kind::Int, depth)
                ),
            },
        }
    }

    /// A list of three floats.
    fn three(&mut self, columns: &[Column], depth: usize) -> String {
        let list = format!("f_three({}, {})", self.expr(columns, Kind::Float, depth), self.expr(columns, Kind::Int, 0));
        if self.rng.one_in(2) { format!("f_relu({list})") } else { list }
    }
}
