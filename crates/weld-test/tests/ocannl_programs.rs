//! Random well-typed OCANNL programs, tensors with their gradients and codes of assignments: every engine gives what
//! the interpreter gives for the program as written. `WELD_SEEDS=1000` tries more, `WELD_SEED=17` one.

use weld_core::interp::{Limits, Value};
use weld_core::ty::ScalarKind;
use weld_frontend::{Arg, Args, Known, Library, Options, Request, Sizes};
use weld_test::compare::Rule;
use weld_test::engine::Engine;
use weld_test::seeds;

#[global_allocator]
static ALLOCATOR: weld_runtime::Poison = weld_runtime::Poison;

#[test]
fn engines_agree() {
    seeds::check_each(20, |seed| check(seed).map(|()| true));
}

/// The arguments of every program: name, output sizes, input sizes.
const ARGS: [(&str, &[u64], &[u64]); 4] = [("x", &[3], &[]), ("m", &[3], &[3]), ("s", &[1], &[]), ("w", &[3], &[])];

fn check(seed: u64) -> Result<(), String> {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d);
    let is_code = random.below(2) == 0;
    let text = if is_code { code(&mut random) } else { format!("let%op f x m s w = {}", random.tensor(4)) };
    let wrt = if is_code { vec![] } else { vec!["x".to_owned(), "m".to_owned(), "s".to_owned()] };
    let options = Options { wrt, element: ScalarKind::F64, ..Options::default() };
    let args: Vec<Arg> = ARGS.iter().map(|(name, output, input)| argument(name, output, input)).collect();
    let library = Library::default();
    let request = Request { args: Args::Given(&args), ..Request::new(&text, &library, &options) };
    let language = weld_languages::by_name("ocannl").ok_or("there is no OCANNL")?;
    let function = language.compile(&request).map_err(|errors| format!("{text}\n{errors:?}"))?;
    let values: Vec<Value> = ARGS
        .iter()
        .map(|(_, output, input)| {
            let count = output.iter().chain(*input).product::<u64>();
            Value::vec((0..count).map(|_| Value::f64(random.below(1_000) as f64 / 500.0 - 1.0)))
        })
        .collect();
    let limits = Limits { memory: 1 << 28, steps: 2_000_000, ..Limits::default() };
    let expected = Engine::INTERP.run(&function.program, &values, &limits);
    let expected = expected.map_err(|failure| format!("{text}\n{failure:?}"))?;
    for engine in Engine::ALL {
        let found = engine.run(&function.program, &values, &limits);
        let same =
            found.as_ref().is_ok_and(|found| Rule { tolerance: Some(1e-6), ..Rule::USUAL }.equal(&expected, found));
        if !same {
            return Err(format!("{engine} gives {found:?}, expected {expected:?} for {values:?}\n{text}"));
        }
    }
    Ok(())
}

fn argument(name: &str, output: &[u64], input: &[u64]) -> Arg {
    let sizes = Sizes { output: output.to_vec(), input: input.to_vec(), tensor: true, ..Sizes::default() };
    Arg { name: Some(name.into()), known: Known::Sizes(sizes), ..Arg::default() }
}

/// A code over the arguments with tensors of its own.
fn code(random: &mut Random) -> String {
    let mut items = vec![format!("\"c\" =: x + {}", random.tensor(2))];
    for _ in 0..1 + random.below(5) {
        let accum = random.one(&["=+", "=-", "=*", "=:+", "=:-", "=:*", "=:@^", "=@-", "=?/", "=:", "=:?/"]);
        let rhs = match random.below(8) {
            0 => "m * x ~logic:\"i->j; i => j\"".into(),
            1 => "m * c ~logic:\"i->i; i => i\"".into(),
            2 => "x * s ~logic:\"i; 0 => i\"".into(),
            3 => "m * x ~logic:\"@\"".into(),
            4 => "x ~logic:\"i => i\"".into(),
            5 => format!("{} -?/ x", random.tensor(1)),
            6 => format!("tanh {}", random.tensor(2)),
            _ => format!("x *. {}", random.tensor(2)),
        };
        // `=:` alone has one value for a cell.
        let reduces = rhs.starts_with("m * x");
        items.push(format!("c {} {rhs}", if reduces && accum == "=:" { "=:+" } else { accum }));
    }
    items.push(
        random
            .one(&[
                "\"d\" =:+ c ~logic:\"i => ii\"",
                "\"d\" =:* c ~logic:\"i => 2i\"",
                "\"d\" =:+ c * x ~logic:\"o; k => 2*o+k\"",
            ])
            .into(),
    );
    format!("let%cd f x m s w = {}", items.join("; "))
}

struct Random(u64);

impl Random {
    fn below(&mut self, count: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % count
    }

    fn one<'t>(&mut self, all: &[&'t str]) -> &'t str {
        all[self.below(all.len() as u64) as usize]
    }

    /// A tensor of output size 3, 1 or of no axes.
    fn tensor(&mut self, depth: u32) -> String {
        if depth == 0 {
            return self.one(&["x", "s", "w", "[1; -2; 0.5]", "1.5", "(-0.5)"]).into();
        }
        let a = self.tensor(depth - 1);
        match self.below(14) {
            0..=2 => format!("({a} {} {})", self.one(&["+", "-", "*.", "-?/"]), self.tensor(depth - 1)),
            3 => format!("({a} /. (2.5 + ({a} *. {a})))"),
            4 => format!("({} {a})", self.one(&["tanh", "sin", "cos", "neg", "!/"])),
            5 => format!("(exp (sin {a}))"),
            6 => format!("(sqrt (2.0 + cos {a}))"),
            7 => format!("((tanh {a}) **. {})", 1 + self.below(3)),
            8 => format!("(m * (x + {a}))"),
            9 => format!("((x + {a}) ++ \"i=>\")"),
            10 => format!("(m +* \"j->i; j => i\" (x *. {a}))"),
            11 => format!("(m @^+ \"j->i; j => i\" (x + {a}))"),
            12 => format!("(((x + {a}) +* \"o+k; k => o\" [1; 2]) ++ \"i=>\")"),
            _ => format!("(let y = tanh {a} in y *. ({} + y))", self.tensor(depth - 1)),
        }
    }
}
