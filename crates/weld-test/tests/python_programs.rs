//! Random programs in Python: every engine gives what the interpreter gives for the program as written, value or error.
//! `WELD_SEEDS=1000` tries more, `WELD_SEED=17` one.

use std::fmt::Write;

use weld_core::interp::{Limits, Value};
use weld_core::ir::Literal;
use weld_frontend::{Arg, Args, Language, Library, Options, Request};
use weld_numba::Python;
use weld_test::compare::Rule;
use weld_test::engine::{Engine, Failure};
use weld_test::seeds;

#[global_allocator]
static ALLOCATOR: weld_runtime::Poison = weld_runtime::Poison;

#[test]
fn engines_agree() {
    seeds::check_each(30, check);
}

/// Lists are changed where they lie: a copy for each of these changes would take hundreds of times the memory that
/// there is.
#[test]
fn lists_are_changed_in_place() {
    let appended = "
def f(n):
    xs = [0, 1]
    for i in range(2, 10 * n):
        xs.append((xs[i - 1] + xs[i - 2]) % 1009)
    return len(xs)
";
    let popped = "
def f(n):
    xs = [0]
    count = 0
    while count < 10 * n:
        x = xs.pop()
        xs.append(x)
        xs.append(x + 1)
        count += 1
    return len(xs) - 1
";
    let swapped = "
def f(n):
    xs = [i * 7919 % 1009 for i in range(n)]
    for i in range(n):
        for j in range(n - 1 - i):
            if xs[j] > xs[j + 1]:
                xs[j], xs[j + 1] = xs[j + 1], xs[j]
    return 10 * len(xs)
";
    let (library, options) = (Library::default(), Options::default());
    let written = [Arg { written: Some("Int".into()), ..Arg::default() }];
    let limits = Limits { memory: 1 << 20, ..Limits::default() };
    for text in [appended, popped, swapped] {
        let mut request = Request::new(text, &library, &options);
        request.args = Args::Given(&written);
        let function = Python.compile(&request).expect("it is accepted");
        for engine in Engine::ALL.into_iter().filter(|engine| engine.optimised && engine.jit.is_some()) {
            let found = engine.run(&function.program, &[Value::i64(2_000)], &limits);
            assert!(matches!(&found, Ok(Value::Scalar(Literal::I64(20_000)))), "{engine} gives {found:?}{text}");
        }
    }
}

/// Whether the program of a seed gives a value, or what is wrong.
fn check(seed: u64) -> Result<bool, String> {
    let mut generator = Generator { state: seed, text: String::new(), lists: 1, depth: 0 };
    let text = generator.program();
    let ints: Vec<i64> = (0..generator.below(6)).map(|_| generator.below(20) as i64 - 5).collect();
    let (library, options) = (Library::default(), Options::default());
    let written = ["Int", "Int", "[Int]"].map(|ty| Arg { written: Some(ty.into()), ..Arg::default() });
    let mut request = Request::new(&text, &library, &options);
    request.args = Args::Given(&written);
    let function = Python
        .compile(&request)
        .map_err(|errors| format!("is not accepted\n{}", weld_core::diag::render(&errors, &text, "program.py")))?;
    let list = Value::vec(ints.into_iter().map(|value| Value::Scalar(Literal::I64(value))));
    let args = [Value::i64(generator.below(9) as i64 - 2), Value::i64(generator.below(9) as i64 - 2), list];
    let limits = Limits { memory: 1 << 28, steps: 2_000_000, ..Limits::default() };
    let run = |engine: Engine| engine.run(&function.program, &args, &limits);
    let expected = run(Engine::INTERP);
    for engine in Engine::ALL {
        let found = run(engine);
        let same = match (&expected, &found) {
            (Ok(a), Ok(b)) => Rule::USUAL.equal(a, b),
            (Err(Failure::Runtime(a)), Err(Failure::Runtime(b))) => a == b,
            _ => false,
        };
        if !same {
            return Err(format!("{engine} gives {found:?}, expected {expected:?} for {args:?}\n{text}"));
        }
    }
    Ok(expected.is_ok())
}

/// Makes programs over the numbers `a` and `b` and lists `l0`, `l1`, .., of which the first is an argument.
struct Generator {
    state: u64,
    text: String,
    lists: usize,
    depth: usize,
}

impl Generator {
    fn below(&mut self, limit: u64) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % limit
    }

    fn program(&mut self) -> String {
        self.text =
            "def twice(xs):\n    for x in xs:\n        yield x\n        if x > 3:\n            yield x - 3\n\n".into();
        self.text += "def f(a, b, l0):\n";
        self.block(1, 6, false);
        let lists: Vec<String> = (0..self.lists).map(|list| format!("l{list}")).collect();
        let _ = writeln!(self.text, "    return a, b, {}", lists.join(", "));
        self.text.clone()
    }

    fn line(&mut self, indent: usize, line: &str) {
        let _ = writeln!(self.text, "{}{line}", "    ".repeat(indent));
    }

    fn block(&mut self, indent: usize, statements: u64, in_loop: bool) {
        for _ in 0..1 + self.below(statements) {
            self.statement(indent, in_loop);
        }
    }

    fn statement(&mut self, indent: usize, in_loop: bool) {
        let target = ["a", "b"][self.below(2) as usize];
        let nested = self.depth < 3;
        self.depth += 1;
        match self.below(10) {
            0 if nested => {
                let cond = self.cond();
                self.line(indent, &format!("if {cond}:"));
                self.block(indent + 1, 2, in_loop);
                if self.below(2) == 0 {
                    self.line(indent, "else:");
                    self.block(indent + 1, 2, in_loop);
                }
            }
            1 if nested => {
                let data = self.data();
                self.line(indent, &format!("for x{} in {data}:", self.depth));
                self.block(indent + 1, 2, true);
            }
            2 if nested => {
                self.line(indent, "try:");
                self.block(indent + 1, 2, in_loop);
                let class = ["ZeroDivisionError", "IndexError", "OverflowError"][self.below(3) as usize];
                self.line(indent, &format!("except {class}:"));
                self.block(indent + 1, 2, in_loop);
            }
            3 if in_loop => {
                let cond = self.cond();
                let jump = ["break", "continue"][self.below(2) as usize];
                self.line(indent, &format!("if {cond}: {jump}"));
            }
            4 if indent == 1 => {
                let data = self.data();
                let (name, e) = (self.lists, self.int());
                self.line(indent, &format!("l{name} = [x + {e} for x in {data}]"));
                self.lists += 1;
            }
            5 if self.lists > 1 => {
                let list = 1 + self.below(self.lists as u64 - 1);
                let (e, at) = (self.int(), self.int());
                let change = ["append", "set"][self.below(2) as usize];
                match change {
                    "append" => self.line(indent, &format!("if len(l{list}) < 50: l{list}.append({e})")),
                    _ => self.line(indent, &format!("l{list}[{at}] = {e}")),
                }
            }
            6 => {
                let data = self.data();
                self.line(indent, &format!("{target} = sum({data}) % 100"));
            }
            _ => {
                let e = self.int();
                self.line(indent, &format!("{target} = {e}"));
            }
        }
        self.depth -= 1;
    }

    fn data(&mut self) -> String {
        let list = self.below(self.lists as u64);
        match self.below(4) {
            0 => format!("range({})", self.below(5)),
            1 => format!("twice(l{list})"),
            2 => format!("map(lambda y: y * 2, l{list})"),
            _ => format!("list(l{list})"),
        }
    }

    fn int(&mut self) -> String {
        let list = self.below(self.lists as u64);
        match self.below(9) {
            0 => "a".into(),
            1 => "b".into(),
            2 => format!("(a {} {})", ["+", "-", "*"][self.below(3) as usize], self.below(5)),
            3 => format!("(b // {})", self.below(4)),
            4 => format!("(a % (b - {}))", self.below(4)),
            5 => format!("l{list}[{}]", self.below(4) as i64 - 2),
            6 => format!("len(l{list})"),
            7 => format!("(a if {} else b)", self.cond()),
            _ => format!("{}", self.below(10)),
        }
    }

    fn cond(&mut self) -> String {
        let sign = ["<", "==", ">="][self.below(3) as usize];
        match self.below(4) {
            0 => format!("a {sign} b"),
            1 => format!("b {sign} {}", self.below(5)),
            2 => format!("a {sign} 2 and b < 7"),
            _ => format!("not a {sign} {} or b == 1", self.below(3)),
        }
    }
}
