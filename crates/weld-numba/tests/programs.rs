//! What programs look like once they are optimised: what fuses, which lists are left.

use weld_core::opt::{Config, optimize};
use weld_frontend::{Arg, Args, Language, Library, Options, Request};
use weld_numba::Python;

fn optimized(text: &str, types: &[&str]) -> String {
    let (library, options) = (Library::default(), Options::default());
    let args: Vec<Arg> = types.iter().map(|ty| Arg { written: Some((*ty).into()), ..Arg::default() }).collect();
    let mut request = Request::new(text, &library, &options);
    request.args = Args::Given(&args);
    let mut program = Python.compile(&request).unwrap().program;
    optimize(&mut program, &Config::default());
    program.to_string()
}

#[test]
fn a_fused_generator_leaves_no_list() {
    let text = "
def squares(xs):
    for x in xs:
        yield x * x

def even(xs):
    for x in xs:
        if x % 2 == 0:
            yield x

def f(xs):
    return sum(even(squares(xs)))
";
    let program = optimized(text, &["[Int]"]);
    assert!(!program.contains("appender"), "{program}");
    assert_eq!(program.matches("for(").count() + program.matches("iterate(").count(), 1, "{program}");
}

#[test]
fn an_appended_list_fuses_with_what_maps_it() {
    let text = "
def f(n):
    L = []
    for i in range(n):
        L.append(i * 0.5)
    M = map(lambda x: x + 1, L)
    return sum(M)
";
    let program = optimized(text, &["Int"]);
    assert!(!program.contains("appender"), "{program}");
}

#[test]
fn a_comprehension_is_one_loop() {
    let text = "
def f(xs):
    ys = [x * 2.0 for x in xs]
    zs = [y + 1.0 for y in ys if y > 0.0]
    return zs
";
    let program = optimized(text, &["[Float]"]);
    assert_eq!((program.matches("for(").count(), program.matches("appender").count()), (1, 1), "{program}");
}
