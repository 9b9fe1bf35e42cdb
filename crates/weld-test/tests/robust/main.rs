//! Texts that nobody means: deep, long, endless, exploding, damaged. Each is accepted or refused with a place,
//! promptly.

mod gtscript;
mod python;
mod ttl;

use std::time::{Duration, Instant};

use weld_core::diag::Diagnostic;
use weld_core::ir::verify;
use weld_frontend::{Arg, Args, Function, Language, Library, Options, Request};

/// What becomes of a text, which is checked; `args` are those of its last definition, if they are needed.
fn compile(language: &dyn Language, text: &str, args: Option<&[Arg]>) -> Result<Function, Vec<Diagnostic>> {
    let (library, options) = (Library::default(), Options::default());
    let mut request = Request::new(text, &library, &options);
    if let Some(args) = args {
        request.args = Args::Given(args);
    }
    let start = Instant::now();
    let compiled = language.compile(&request);
    // Far above what any machine needs, far below what a user would call a hang.
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    match &compiled {
        Ok(function) => assert!(verify(&function.program).is_ok(), "{text}"),
        Err(errors) => {
            assert!(!errors.is_empty(), "{text}");
            for error in errors {
                assert!(!error.message.contains("internal error"), "{error}\n{text}");
                let span = error.span;
                assert!(span.start <= span.end && span.end as usize <= text.len(), "{error:?}\n{text}");
            }
        }
    }
    compiled
}

/// Numbers that look random, the same in every run.
struct Random(u64);

impl Random {
    /// One of the first `n`.
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n.max(1)
    }
}
