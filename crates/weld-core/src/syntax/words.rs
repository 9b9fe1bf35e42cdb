//! The words that are no names of variables: keywords, literals, types and builders.

use crate::ty::ScalarKind;

/// Words with a meaning of their own wherever they stand, so that no variable can have them as its name. Names of
/// functions (`len`, `merge`, `map`) are not reserved: a function's name is followed by `(`, a variable's is not.
pub(crate) fn is_reserved(word: &str) -> bool {
    matches!(word, "let" | "macro" | "type" | "true" | "false" | "if" | "for") || is_type_word(word)
}

/// The words that begin a type.
pub(crate) fn is_type_word(word: &str) -> bool {
    matches!(word, "vec" | "dict" | "simd" | "stream") || is_builder_word(word) || scalar(word).is_some()
}

pub(crate) fn is_builder_word(word: &str) -> bool {
    matches!(word, "appender" | "merger" | "dictmerger" | "numberer" | "groupbuilder" | "groupmerger" | "vecmerger")
}

pub(crate) fn scalar(word: &str) -> Option<ScalarKind> {
    ScalarKind::ALL.into_iter().find(|kind| kind.name() == word)
}
