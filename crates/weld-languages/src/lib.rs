//! The languages that functions can be written in, a cargo feature each.
//!
//! ```
//! use weld_languages::{by_name, by_file};
//! assert_eq!(by_name("WELD").unwrap().names(), ["weld"]);
//! assert_eq!(by_file("a/b.weld".as_ref()).unwrap().names()[0], "weld");
//! assert!(by_name("cobol").is_none());
//! ```
#![forbid(unsafe_code)]

mod weld;

use std::path::Path;

pub use weld::Weld;
use weld_frontend::Language;

static WELD: Weld = Weld::NEW;

/// All of them. A language is a line here and a feature in `Cargo.toml`.
static LANGUAGES: &[&dyn Language] = &[
    &WELD,
    #[cfg(feature = "ttl")]
    &weld_ttl::Ttl,
    #[cfg(feature = "gtscript")]
    &weld_gtscript::GtScript,
    #[cfg(feature = "ocannl")]
    &weld_ocannl::Ocannl,
    #[cfg(feature = "python")]
    &weld_numba::Python,
];

/// All of them, in a fixed order.
pub fn all() -> &'static [&'static dyn Language] {
    LANGUAGES
}

/// The language that is called so, in whatever case.
pub fn by_name(name: &str) -> Option<&'static dyn Language> {
    let is_called = |language: &&&dyn Language| language.names().iter().any(|known| known.eq_ignore_ascii_case(name));
    LANGUAGES.iter().find(is_called).copied()
}

/// The language of a file, by the end of its name.
pub fn by_file(path: &Path) -> Option<&'static dyn Language> {
    let name = path.file_name()?.to_str()?;
    let ends = |language: &&&dyn Language| {
        name.strip_suffix(language.extension()).is_some_and(|stem| stem.len() > 1 && stem.ends_with('.'))
    };
    LANGUAGES.iter().filter(ends).max_by_key(|language| language.extension().len()).copied()
}
