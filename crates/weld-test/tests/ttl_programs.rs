//! Random well-typed programs in the Toy Tensor Language: every engine gives what the interpreter gives for the program
//! as written, value or error. `WELD_SEEDS=1000` tries more, `WELD_SEED=17` one.

use std::fmt::Write;

use weld_core::interp::{Limits, Value};
use weld_core::ir::Literal;
use weld_frontend::{Args, Language, Library, Options, Request};
use weld_test::compare::Rule;
use weld_test::engine::{Engine, Failure};
use weld_test::seeds;
use weld_ttl::Ttl;

#[global_allocator]
static ALLOCATOR: weld_runtime::Poison = weld_runtime::Poison;

#[test]
fn engines_agree() {
    seeds::check_each(30, check);
}

/// Whether the program of a seed gives a value, or what is wrong.
fn check(seed: u64) -> Result<bool, String> {
    let (text, args) = Generator::new(seed).program();
    let (library, options) = (Library::default(), Options::default());
    let mut request = Request::new(&text, &library, &options);
    request.args = Args::Declared;
    let function = match Ttl.compile(&request) {
        Ok(function) => function,
        // An index that is a constant after all.
        Err(errors) if errors.iter().all(|error| error.message.contains("out of bounds")) => return Ok(false),
        Err(errors) => {
            let rendered = weld_core::diag::render(&errors, &text, "program.ttl");
            return Err(format!("is not accepted\n{rendered}"));
        }
    };
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

#[derive(Clone, PartialEq)]
enum Ty {
    Int,
    Float,
    /// Whether of ints, the sizes as values have them, and which of them the type leaves open.
    Matrix(bool, Vec<usize>, Vec<bool>),
}

impl Ty {
    fn text(&self) -> String {
        match self {
            Ty::Int => "int".into(),
            Ty::Float => "float".into(),
            Ty::Matrix(is_int, sizes, open) => {
                let dim = |(size, open): (&usize, &bool)| if *open { "?".into() } else { size.to_string() };
                let dims: Vec<String> = sizes.iter().zip(open).map(dim).collect();
                format!("matrix<{}>[{}]", if *is_int { "int" } else { "float" }, dims.join(","))
            }
        }
    }

    fn element(is_int: bool) -> Ty {
        if is_int { Ty::Int } else { Ty::Float }
    }
}

#[derive(Clone)]
struct Variable {
    name: String,
    ty: Ty,
    /// A loop's variable while the loop runs, with what it stays below.
    below: Option<usize>,
}

struct Generator {
    state: u64,
    text: String,
    functions: Vec<(String, Vec<Ty>, Ty)>,
    scope: Vec<Variable>,
    names: usize,
    loops: usize,
}

impl Generator {
    fn new(seed: u64) -> Generator {
        let state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d;
        Generator { state, text: String::new(), functions: Vec::new(), scope: Vec::new(), names: 0, loops: 0 }
    }

    fn below(&mut self, n: usize) -> usize {
        self.state = self.state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.state >> 33) as usize % n
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn fresh(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    fn ty(&mut self) -> Ty {
        match self.below(6) {
            0 | 1 => Ty::Int,
            2 => Ty::Float,
            _ => {
                let rank = 1 + self.below(3) * self.below(2);
                let sizes = (0..rank).map(|_| if self.chance(4) { 0 } else { 1 + self.below(4) }).collect();
                let open = (0..rank).map(|_| self.chance(30)).collect();
                Ty::Matrix(self.chance(50), sizes, open)
            }
        }
    }

    fn program(mut self) -> (String, Vec<Value>) {
        for _ in 0..self.below(3) {
            self.function();
        }
        let params = self.function();
        let args = params.iter().map(|ty| self.value(ty)).collect();
        (self.text, args)
    }

    fn value(&mut self, ty: &Ty) -> Value {
        match ty {
            Ty::Int => Value::i32(self.below(12) as i32 - 3),
            Ty::Float => Value::Scalar(Literal::F32(self.below(20) as f32 / 4.0 - 2.0)),
            Ty::Matrix(is_int, sizes, open) => {
                let count: usize = sizes.iter().product();
                let element = Ty::element(*is_int);
                let data = Value::vec((0..count).map(|_| self.value(&element)).collect::<Vec<_>>());
                let carried = sizes.iter().zip(open).filter(|(_, open)| **open && sizes.len() > 1);
                let carried: Vec<Value> = carried.map(|(size, _)| Value::i64(*size as i64)).collect();
                if carried.is_empty() { data } else { Value::structure([data].into_iter().chain(carried)) }
            }
        }
    }

    fn function(&mut self) -> Vec<Ty> {
        let name = self.fresh("f");
        let params: Vec<Ty> = (0..self.below(4)).map(|_| self.ty()).collect();
        let result = self.ty();
        self.scope.clear();
        let mut header = Vec::new();
        for ty in &params {
            let name = self.fresh("p");
            header.push(format!("{} {name}", ty.text()));
            self.scope.push(Variable { name, ty: ty.clone(), below: None });
        }
        let mut body = String::new();
        for _ in 0..1 + self.below(6) {
            self.statement(&mut body, 3);
        }
        let value = self.expr(&result, 3);
        let _ = writeln!(
            self.text,
            "function {} {name}({}) {{\n{body}  return {value};\n}}",
            result.text(),
            header.join(", ")
        );
        self.functions.push((name, params.clone(), result));
        params
    }

    fn statement(&mut self, out: &mut String, depth: usize) {
        match self.below(if depth > 0 { 11 } else { 6 }) {
            9 | 10 => self.over_vector(out),
            0 | 1 => self.declare(out),
            2 | 3 => {
                let targets: Vec<Variable> = self.scope.iter().filter(|v| v.below.is_none()).cloned().collect();
                if targets.is_empty() {
                    return self.declare(out);
                }
                let target = targets[self.below(targets.len())].clone();
                let value = self.expr(&target.ty, 2);
                let _ = writeln!(out, "  {} = {value};", target.name);
            }
            4 | 5 => self.set_element(out),
            6 => {
                let cond = self.expr(&Ty::Int, 2);
                let _ = writeln!(out, "  if ({cond}) {{");
                self.block(out, depth - 1);
                if self.chance(50) {
                    let _ = writeln!(out, "  }} else {{");
                    self.block(out, depth - 1);
                }
                let _ = writeln!(out, "  }}");
            }
            _ => self.for_loop(out, depth),
        }
    }

    fn block(&mut self, out: &mut String, depth: usize) {
        let scope = self.scope.len();
        for _ in 0..1 + self.below(3) {
            self.statement(out, depth);
        }
        self.scope.truncate(scope);
    }

    fn declare(&mut self, out: &mut String) {
        let ty = self.ty();
        let name = self.fresh("v");
        let init = match &ty {
            Ty::Matrix(is_int, sizes, open) if !open.contains(&true) => match self.below(4) {
                0 => None,
                1 => Some(self.expr(&Ty::element(*is_int), 2)),
                2 if *is_int => {
                    let start = self.below(5);
                    Some(format!("{start}...{}", start + sizes.iter().product::<usize>()))
                }
                _ => Some(self.expr(&ty, 2)),
            },
            Ty::Int | Ty::Float if self.chance(20) => None,
            _ => Some(self.expr(&ty, 3)),
        };
        let init = init.map_or_else(String::new, |init| format!(" = {init}"));
        let _ = writeln!(out, "  var {} {name}{init};", ty.text());
        self.scope.push(Variable { name, ty, below: None });
    }

    fn set_element(&mut self, out: &mut String) {
        let matrices: Vec<Variable> =
            self.scope.iter().filter(|v| matches!(&v.ty, Ty::Matrix(_, s, _) if !s.contains(&0))).cloned().collect();
        if matrices.is_empty() {
            return self.declare(out);
        }
        let target = matrices[self.below(matrices.len())].clone();
        let Ty::Matrix(is_int, sizes, _) = &target.ty else { return };
        let indices: Vec<String> = sizes.iter().map(|size| self.index(*size)).collect();
        let value = self.expr(&Ty::element(*is_int), 2);
        let _ = writeln!(out, "  {}[{}] = {value};", target.name, indices.join(", "));
    }

    fn for_loop(&mut self, out: &mut String, depth: usize) {
        let (name, end, step) = (self.fresh("i"), self.below(5), 1 + self.below(3) * self.below(2));
        let start = self.below(3).min(end);
        // Sizes of values stand in for what is known of them.
        let end_text = match self.scope.iter().find(|v| matches!(&v.ty, Ty::Matrix(_, s, _) if s[0] == end)) {
            Some(v) if self.state.is_multiple_of(2) => format!("{} $ 0", v.name),
            _ => end.to_string(),
        };
        let _ = writeln!(out, "  var int {name};\n  for ({name} in {start}...{end_text} by {step}) {{");
        self.scope.push(Variable { name, ty: Ty::Int, below: Some(end) });
        let at = self.scope.len() - 1;
        self.loops += 1;
        self.block(out, depth - 1);
        self.loops -= 1;
        self.scope[at].below = None;
        let _ = writeln!(out, "  }}");
    }

    /// A loop over a vector that adds up, fills another, or both.
    fn over_vector(&mut self, out: &mut String) {
        let fits = |v: &&Variable| matches!(&v.ty, Ty::Matrix(_, s, _) if s.len() == 1);
        let vectors: Vec<Variable> = self.scope.iter().filter(fits).cloned().collect();
        let sums: Vec<Variable> = self.scope.iter().filter(|v| v.ty == Ty::Float).cloned().collect();
        let (Some(_), Some(sum)) = (vectors.first(), sums.first()) else { return self.declare(out) };
        let (vector, sum) = (vectors[self.below(vectors.len())].name.clone(), sum.name.clone());
        let name = self.fresh("i");
        let Some(Variable { ty: Ty::Matrix(is_int, sizes, open), .. }) = vectors.iter().find(|v| v.name == vector)
        else {
            return;
        };
        let (is_int, size) = (*is_int, sizes[0]);
        let end = if open[0] || self.chance(50) { format!("{vector} $ 0") } else { size.to_string() };
        let _ = writeln!(out, "  var int {name};\n  for ({name} in 0...{end} by 1) {{");
        self.scope.push(Variable { name: name.clone(), ty: Ty::Int, below: Some(size) });
        let scope = self.scope.len();
        if self.chance(30) {
            self.declare(out);
        }
        let (adds, fills) = (self.chance(70), self.chance(60));
        if adds {
            let term = if is_int || self.chance(30) { self.expr(&Ty::Float, 2) } else { format!("{vector}{{{name}}}") };
            let op = ["+", "-", "*"][self.below(3)];
            let _ = writeln!(out, "  {sum} = {sum} {op} {term};");
        }
        if fills || !adds {
            let value = self.expr(&Ty::element(is_int), 2);
            let _ = writeln!(out, "  {vector}[{name}] = {value};");
        }
        let _ = writeln!(out, "  }}");
        self.scope.truncate(scope);
        self.scope[scope - 1].below = None;
    }

    /// An int that is mostly an index below `size`.
    fn index(&mut self, size: usize) -> String {
        let loops: Vec<String> =
            self.scope.iter().filter(|v| v.below.is_some_and(|below| below <= size)).map(|v| v.name.clone()).collect();
        match self.below(20) {
            0 => self.expr(&Ty::Int, 1),
            1..14 if !loops.is_empty() => loops[self.below(loops.len())].clone(),
            _ => self.below(size.max(1)).to_string(),
        }
    }

    fn expr(&mut self, ty: &Ty, depth: usize) -> String {
        if depth == 0 || self.chance(20) {
            return self.leaf(ty);
        }
        if self.chance(15)
            && let Some(call) = self.call(ty, depth)
        {
            return call;
        }
        match ty {
            Ty::Int => self.int(depth),
            Ty::Float => match self.below(4) {
                0 => format!("-({})", self.expr(ty, depth - 1)),
                1 => self.element(false, depth).unwrap_or_else(|| self.leaf(ty)),
                _ => self.arithmetic(ty, depth),
            },
            Ty::Matrix(is_int, sizes, open) => self.matrix(*is_int, sizes, open, depth),
        }
    }

    fn int(&mut self, depth: usize) -> String {
        let ty = Ty::Int;
        match self.below(8) {
            0 => format!("-({})", self.expr(&ty, depth - 1)),
            1 => format!("!({})", self.expr(&ty, depth - 1)),
            2 => {
                let of = if self.chance(50) { Ty::Int } else { Ty::Float };
                let op = ["<", ">", "<=", ">=", "==", "!="][self.below(6)];
                format!("(({}) {op} ({}))", self.expr(&of, depth - 1), self.expr(&of, depth - 1))
            }
            3 => {
                let op = ["&", "|"][self.below(2)];
                format!("(({}) {op} ({}))", self.expr(&ty, depth - 1), self.expr(&ty, depth - 1))
            }
            4 => self.element(true, depth).unwrap_or_else(|| self.leaf(&ty)),
            5 => {
                let matrices: Vec<Variable> =
                    self.scope.iter().filter(|v| matches!(v.ty, Ty::Matrix(..))).cloned().collect();
                match matrices.first() {
                    Some(Variable { name, ty: Ty::Matrix(_, sizes, _), .. }) => {
                        format!("{name} $ {}", self.below(sizes.len()))
                    }
                    _ => self.leaf(&ty),
                }
            }
            _ => self.arithmetic(&ty, depth),
        }
    }

    fn arithmetic(&mut self, ty: &Ty, depth: usize) -> String {
        let op = ["+", "-", "*", "+", "-", "*", "/"][self.below(7)];
        format!("(({}) {op} ({}))", self.expr(ty, depth - 1), self.expr(ty, depth - 1))
    }

    fn element(&mut self, is_int: bool, _depth: usize) -> Option<String> {
        let fits = |v: &&Variable| matches!(&v.ty, Ty::Matrix(i, s, _) if *i == is_int && !s.contains(&0));
        let matrices: Vec<Variable> = self.scope.iter().filter(fits).cloned().collect();
        if matrices.is_empty() {
            return None;
        }
        let chosen = matrices[self.below(matrices.len())].clone();
        let Ty::Matrix(_, sizes, _) = &chosen.ty else { return None };
        let indices: Vec<String> = sizes.iter().map(|size| self.index(*size)).collect();
        Some(format!("{}{{{}}}", chosen.name, indices.join(", ")))
    }

    fn matrix(&mut self, is_int: bool, sizes: &[usize], open: &[bool], depth: usize) -> String {
        let ty = Ty::Matrix(is_int, sizes.to_vec(), open.to_vec());
        match self.below(6) {
            0 => {
                let scalar = self.expr(&Ty::element(is_int), depth - 1);
                let matrix = self.expr(&ty, depth - 1);
                let op = ["+", "-", "*"][self.below(3)];
                if self.chance(50) {
                    format!("(({scalar}) {op} ({matrix}))")
                } else {
                    format!("(({matrix}) {op} ({scalar}))")
                }
            }
            1 if sizes.len() == 2 => {
                let k = 1 + self.below(3);
                let a = Ty::Matrix(is_int, vec![sizes[0], k], vec![open[0], self.chance(50)]);
                let b = Ty::Matrix(is_int, vec![k, sizes[1]], vec![self.chance(50), open[1]]);
                format!("(({}) # ({}))", self.expr(&a, depth - 1), self.expr(&b, depth - 1))
            }
            2 => {
                // A part of a larger matrix.
                let wider: Vec<usize> = sizes.iter().map(|size| size + self.below(2)).collect();
                let ty = Ty::Matrix(is_int, wider.clone(), vec![false; wider.len()]);
                let matrix = self.expr(&ty, depth - 1);
                let indices: Vec<String> = sizes
                    .iter()
                    .zip(&wider)
                    .map(|(size, wide)| {
                        let start = self.below(wide - size + 1);
                        format!("{start}...{}", start + size)
                    })
                    .collect();
                format!("({matrix}){{{}}}", indices.join(", "))
            }
            _ => self.arithmetic(&ty, depth),
        }
    }

    fn call(&mut self, ty: &Ty, depth: usize) -> Option<String> {
        let fits: Vec<_> = self.functions.iter().filter(|(_, _, result)| result == ty).cloned().collect();
        if fits.is_empty() || self.loops > 1 {
            return None;
        }
        let (name, params, _) = fits[self.below(fits.len())].clone();
        let args: Vec<String> = params.iter().map(|ty| self.expr(ty, depth.min(2) - 1)).collect();
        Some(format!("{name}({})", args.join(", ")))
    }

    fn leaf(&mut self, ty: &Ty) -> String {
        let variables: Vec<String> = self.scope.iter().filter(|v| v.ty == *ty).map(|v| v.name.clone()).collect();
        if !variables.is_empty() && self.chance(75) {
            return variables[self.below(variables.len())].clone();
        }
        match ty {
            Ty::Int => match self.below(30) {
                0 => "2147483647".into(),
                _ => self.below(10).to_string(),
            },
            Ty::Float => format!("{}.{}", self.below(4), [0, 5, 25][self.below(3)]),
            Ty::Matrix(is_int, sizes, _) => self.literal(*is_int, sizes),
        }
    }

    /// A matrix as an expression: lists have one dimension, so others are a function's result.
    fn literal(&mut self, is_int: bool, sizes: &[usize]) -> String {
        let count: usize = sizes.iter().product();
        let element = Ty::element(is_int);
        if sizes.len() == 1 && count > 0 {
            let items: Vec<String> = (0..count).map(|_| self.leaf(&element)).collect();
            return format!("[{}]", items.join(", "));
        }
        let ty = Ty::Matrix(is_int, sizes.to_vec(), vec![false; sizes.len()]);
        let name = self.fresh("c");
        let value = if is_int { self.below(5).to_string() } else { format!("{}.5", self.below(5)) };
        let _ = writeln!(self.text, "function {0} {name}() {{ var {0} m = {value}; return m; }}", ty.text());
        format!("{name}()")
    }
}
