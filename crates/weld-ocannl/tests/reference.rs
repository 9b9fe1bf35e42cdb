//! Einsums against brute-force loops, gradients of random expressions against central differences.

mod common;

use std::collections::BTreeMap;

use common::{call, close, compile, numbers, run, tensor};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

/// Some numbers that are not all alike.
fn cells(count: usize, seed: u64) -> Vec<f64> {
    (0..count as u64).map(|i| ((i * 7919 + seed * 104_729 + 13) % 17) as f64 / 4.0 - 2.0).collect()
}

/// An index of an axis for given labels.
#[derive(Clone, Debug)]
enum Axis {
    Label(usize),
    Fixed(usize),
    /// `a*x + y`
    Affine(usize, usize, usize),
}

const LETTERS: [&str; 4] = ["i", "j", "k", "l"];

impl Axis {
    fn text(&self) -> String {
        match self {
            Axis::Label(label) => LETTERS[*label].into(),
            Axis::Fixed(index) => format!("{index} "),
            Axis::Affine(a, x, y) => format!("{a}*{}+{}", LETTERS[*x], LETTERS[*y]),
        }
    }

    fn at(&self, point: &[usize]) -> usize {
        match self {
            Axis::Label(label) => point[*label],
            Axis::Fixed(index) => *index,
            Axis::Affine(a, x, y) => a * point[*x] + point[*y],
        }
    }

    fn size(&self, sizes: &[usize]) -> usize {
        match self {
            Axis::Label(label) => sizes[*label],
            Axis::Fixed(index) => index + 2,
            Axis::Affine(a, x, y) => a * (sizes[*x] - 1) + sizes[*y],
        }
    }

    fn labels(&self) -> Vec<usize> {
        match self {
            Axis::Label(label) => vec![*label],
            Axis::Fixed(_) => vec![],
            Axis::Affine(_, x, y) => vec![*x, *y],
        }
    }
}

fn axis(affine: bool) -> BoxedStrategy<Axis> {
    let label = (0usize..4).prop_map(Axis::Label);
    match affine {
        true => prop_oneof![
            6 => label,
            1 => (0usize..2).prop_map(Axis::Fixed),
            1 => (1usize..3, 0usize..4, 0usize..4).prop_map(|(a, x, y)| Axis::Affine(a, x, y))
        ]
        .boxed(),
        false => prop_oneof![6 => label, 1 => (0usize..2).prop_map(Axis::Fixed)].boxed(),
    }
}

/// Rows batch, output, input.
type Rows = [Vec<Axis>; 3];

fn rows(affine: bool) -> impl Strategy<Value = Rows> {
    let row = |most: usize| proptest::collection::vec(axis(affine), 0..=most);
    (row(1), row(2), row(1)).prop_map(|(batch, output, input)| [batch, output, input])
}

fn text(rows: &Rows) -> String {
    let row = |row: &Vec<Axis>| row.iter().map(Axis::text).collect::<Vec<_>>().join(" ");
    format!("{} | {} -> {}", row(&rows[0]), row(&rows[2]), row(&rows[1]))
}

fn sizes_of(rows: &Rows, sizes: &[usize]) -> [Vec<usize>; 3] {
    [0, 1, 2].map(|kind| rows[kind].iter().map(|axis| axis.size(sizes)).collect())
}

fn place(rows: &Rows, sizes: &[usize], point: &[usize]) -> usize {
    rows.iter().flatten().fold(0, |place, axis| place * axis.size(sizes) + axis.at(point))
}

fn value(rows: &Rows, sizes: &[usize], seed: u64) -> (Json, Vec<f64>) {
    let [batch, output, input] = sizes_of(rows, sizes);
    let count = batch.iter().chain(&output).chain(&input).product();
    let cells = cells(count, seed);
    (tensor(&batch, &output, &input, &cells), cells)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// `c =OP a * b ~logic:".."` and without the colon, with every label on the left as a plain axis somewhere.
    #[test]
    fn einsums(
        a in rows(true), b in rows(true), c in rows(true), sizes in proptest::array::uniform4(1usize..4),
        accum in 0usize..5, init in any::<bool>(),
    ) {
        let plain: Vec<usize> = a.iter().chain(&b).flatten().filter_map(|axis| match axis { Axis::Label(l) => Some(*l), _ => None }).collect();
        let all: Vec<usize> = a.iter().chain(&b).chain(&c).flatten().flat_map(Axis::labels).collect();
        prop_assume!(all.iter().all(|label| plain.contains(label)));
        let (a_json, a_cells) = value(&a, &sizes, 1);
        let (b_json, b_cells) = value(&b, &sizes, 2);
        let (c_json, c_cells) = value(&c, &sizes, 3);
        let sign = ["+", "-", "*", "@^", "@-"][accum];
        let text = format!("let%cd f a b c = c ={}{sign} a * b ~logic:\"{}; {} => {}\"", if init { ":" } else { "" }, text(&a), text(&b), text(&c));
        let args = json!({"a": a_json, "b": b_json, "c": c_json});
        let found = match run(&text, &args, &[]) {
            Ok((found, _)) => numbers(&found["c"]),
            Err(error) => return Err(TestCaseError::fail(format!("{text}: {error}"))),
        };
        let neutral = [0.0, 0.0, 1.0, f64::NEG_INFINITY, f64::INFINITY][accum];
        let mut wanted = if init { vec![neutral; c_cells.len()] } else { c_cells };
        let used: Vec<usize> = (0..4).filter(|label| all.contains(label)).collect();
        let mut point = [0usize; 4];
        'points: loop {
            let term = a_cells[place(&a, &sizes, &point)] * b_cells[place(&b, &sizes, &point)];
            let cell = &mut wanted[place(&c, &sizes, &point)];
            *cell = match accum {
                0 => *cell + term,
                1 => *cell - term,
                2 => *cell * term,
                3 => cell.max(term),
                _ => cell.min(term),
            };
            for label in &used {
                point[*label] += 1;
                if point[*label] < sizes[*label] {
                    continue 'points;
                }
                point[*label] = 0;
            }
            break;
        }
        prop_assert!(close(&found, &wanted, 1e-9), "{text}\n{args}\n{found:?}\n{wanted:?}");
    }
}

/// A random expression over `x` (an output axis of 3), `m` (a matrix 3 -> 3) and `s` (a number).
fn expression() -> impl Strategy<Value = String> {
    let leaf = proptest::sample::select(vec!["x", "s", "\"w\"", "(x +. 0)", "[1; -2; 0.5]", "1.5"]);
    let leaf = leaf.prop_map(|text| text.replace("+. 0", "+ 0"));
    leaf.prop_recursive(4, 24, 2, |inner| {
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            3 => (two.clone(), proptest::sample::select(vec!["+", "-", "*.", "-?/"])).prop_map(|((a, b), op)| format!("({a} {op} {b})")),
            1 => two.prop_map(|(a, b)| format!("({a} /. (2.5 + ({b} *. {b})))")),
            2 => (inner.clone(), proptest::sample::select(vec!["tanh", "sin", "cos", "neg", "!/"])).prop_map(|(a, f)| format!("({f} {a})")),
            1 => inner.clone().prop_map(|a| format!("(exp (sin {a}))")),
            1 => inner.clone().prop_map(|a| format!("(log (1.5 + sin {a}))")),
            1 => inner.clone().prop_map(|a| format!("(sqrt (2.0 + cos {a}))")),
            1 => inner.clone().prop_map(|a| format!("(recip (2.0 + tanh {a}))")),
            1 => (inner.clone(), 1u32..4).prop_map(|(a, e)| format!("({a} **. {e})")),
            1 => inner.clone().prop_map(|a| format!("(m * (x + {a}))")),
            1 => inner.clone().prop_map(|a| format!("((x + {a}) ++ \"i=>\")")),
            1 => inner.clone().prop_map(|a| format!("(m +* \"j->i; j => i\" (x *. {a}))")),
            1 => inner.clone().prop_map(|a| format!("(m +* \"i->i; i => i\" (x *. {a}))")),
            1 => inner.clone().prop_map(|a| format!("((x + {a}) +* \"o+k; k => o\" [1; 2])")).prop_map(|a| format!("({a} ++ \"i=>\")")),
            1 => inner.clone().prop_map(largest),
            1 => (inner.clone(), inner).prop_map(|(a, b)| format!("(let y = {a} in y *. ({b} + y))")),
        ]
    })
}

/// The largest sums with `m`. One inside of another meets sums of the same terms in another order: where two are the
/// largest, each has the whole gradient, which is no derivative.
fn largest(inner: String) -> String {
    if inner.contains("@^+") { inner } else { format!("(m @^+ \"j->i; j => i\" (x + {inner}))") }
}

/// A number from -1 to 1 for each other one (Steele, Lea, Flood: *Fast Splittable Pseudorandom Number Generators*,
/// 2014).
fn spread(number: u64) -> f64 {
    let mut bits = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (bits ^ bits >> 31) as i64 as f64 / 2f64.powi(63)
}

fn sum(json: &Json) -> f64 {
    numbers(json).iter().sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn gradients(body in expression(), seed in 0u64..1000) {
        let text = format!("let%op f x m s = {body} + 0 *. (x + \"w\")");
        let mut values: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        // Sums of few of them are neither equal nor 0, where the largest and `relu` have no derivative: so they are as
        // good as random, since sums of evenly spaced numbers meet.
        let cells = |count: u64, salt: u64| -> Vec<f64> { (0..count).map(|i| spread(seed << 16 | salt << 8 | i)).collect() };
        values.insert("x", cells(3, 1));
        values.insert("m", cells(9, 2));
        values.insert("s", cells(1, 3));
        values.insert("w", cells(3, 4));
        let args = |values: &BTreeMap<&str, Vec<f64>>| json!({
            "x": tensor(&[], &[3], &[], &values["x"]), "m": tensor(&[], &[3], &[3], &values["m"]),
            "s": tensor(&[], &[1], &[], &values["s"]), "w": tensor(&[], &[3], &[], &values["w"]),
        });
        let wrt = ["x", "m", "s", "w"];
        let given = args(&values);
        let function = match compile(&text, &given, &wrt) {
            Ok(function) => function,
            Err(error) => return Err(TestCaseError::fail(format!("{text}: {error}"))),
        };
        let plain = compile(&text, &given, &[]).expect("compiles without gradients");
        let (value, gradients) = call(&function, &given);
        prop_assert!(sum(&value).is_finite());
        for name in wrt {
            let found = numbers(&gradients[name]);
            for (cell, found) in found.iter().enumerate() {
                let moved = |by: f64| {
                    let mut other = values.clone();
                    other.get_mut(name).expect("a tensor")[cell] += by;
                    sum(&call(&plain, &args(&other)).0)
                };
                let step = 1e-6;
                let (up, down, middle) = (moved(step), moved(-step), moved(0.0));
                let slopes = [(up - middle) / step, (middle - down) / step];
                // At a kink the two sides differ: there is no derivative to compare with.
                if (slopes[0] - slopes[1]).abs() > 1e-2 * (1.0 + slopes[0].abs()) {
                    continue;
                }
                let wanted = (up - down) / (2.0 * step);
                let scale = 1.0 + wanted.abs().max(found.abs()).max(middle.abs());
                prop_assert!((wanted - found).abs() < 1e-4 * scale, "{text}\n{name}[{cell}]: {found} for {wanted}");
            }
        }
    }
}
