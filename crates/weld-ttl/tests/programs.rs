//! What programs look like once they are optimised: what fuses, and which checks are left.

use weld_core::opt::{Config, optimize};
use weld_frontend::{Language, Library, Options, Request};
use weld_ttl::Ttl;

fn optimized(text: &str) -> String {
    let (library, options) = (Library::default(), Options::default());
    let mut program = Ttl.compile(&Request::new(text, &library, &options)).unwrap().program;
    optimize(&mut program, &Config::default());
    program.to_string()
}

#[test]
fn a_distance_is_one_loop() {
    let text = "function float distance(matrix<float>[30] a, matrix<float>[30] b) {
        var matrix<float>[30] d = (a - b) * (a - b);
        var int i; var float s;
        for (i in 0...30 by 1) s = s + d{i};
        return s; }";
    let program = optimized(text);
    assert_eq!(program.matches("for(").count(), 1, "{program}");
    assert!(program.contains("merger[f32,+]") && !program.contains("appender"), "{program}");
}

#[test]
fn calls_fuse() {
    let text = "function matrix<float>[?] f(matrix<float>[?] v) { return 2.0 * v; }
        function matrix<float>[?] g(matrix<float>[?] v) { return f(v) + 1.0; }
        function float h(matrix<float>[?] v) {
            var matrix<float>[?] w = g(v) * f(v); var int i; var float s;
            for (i in 0...w $ 0 by 1) s = s + w{i};
            return s; }";
    let program = optimized(text);
    assert_eq!(program.matches("for(").count(), 1, "{program}");
}

#[test]
fn no_checks_are_left_on_known_sizes() {
    let text = "function matrix<float>[16,16] blur(matrix<float>[16,16] m) {
        var matrix<float>[16,16] o = m; var int i; var int j;
        for (i in 1...15 by 1) for (j in 1...15 by 1)
            o[i, j] = (m{i - 1, j} + m{i + 1, j} + m{i, j - 1} + m{i, j + 1}) / 4.0;
        return o; }";
    let program = optimized(text);
    assert!(!program.contains("require") && !program.contains("checked_"), "{program}");
    let outside = optimized(&text.replace("1...15 by 1) o", "1...16 by 1) o").replace("(j in 1...15", "(j in 1...16"));
    assert!(outside.contains("require"), "{outside}");
    let layer = "function matrix<float>[32] layer(matrix<float>[32,128] w, matrix<float>[128] x) {
        var matrix<float>[32] y; var int o; var int k;
        for (o in 0...32 by 1) {
            var float s;
            for (k in 0...128 by 1) s = s + w{o, k} * x{k};
            y[o] = s; }
        return y; }";
    let program = optimized(layer);
    assert!(!program.contains("require") && !program.contains("iterate") && !program.contains("lookup"), "{program}");
}
