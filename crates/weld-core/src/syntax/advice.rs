//! Hints for those who write Weld as they would another language: `a ** b`, `v[0]`, `if (c) a else b`, `Vec<i64>`.
//!
//! Each function sees what stands where the parser or the checker gave up, and says what to write instead, if that is
//! plain.

/// After a whole expression, where a sign or the end should follow.
pub(super) fn after_operand(found: &str) -> Option<&'static str> {
    Some(match found {
        "=" => "equality is `==`; a value is named with `let name = value; ..`",
        "[" => "an element of a vector is `lookup(v, i)`",
        "and" => "write `&&`",
        "or" => "write `||`",
        "?" | "else" | "then" => "a choice is written `if(condition, a, b)`",
        _ => return None,
    })
}

/// Where an expression should begin; `rest` is the text from there, `before` the text up to there.
pub(super) fn for_operand(before: &str, rest: &str) -> Option<&'static str> {
    Some(match rest.as_bytes().first()? {
        b'*' if before.ends_with('*') => "a power is `pow(a, b)`, of floats",
        b'>' | b'<' if before.ends_with(&rest[..1]) => "there are no shifts: multiply or divide",
        b'=' if before.ends_with('=') => "equality is `==`",
        b'/' if before.ends_with('/') || rest.starts_with("//") || rest.starts_with("/*") => "comments begin with `#`",
        _ => return None,
    })
}

/// For a character that begins nothing.
pub(super) fn for_character(found: char) -> Option<&'static str> {
    match found {
        '\'' | '“' | '”' | '‘' | '’' => Some("strings are written `\"..\"`"),
        '~' => Some("all bits flipped are `x ^ -1`"),
        _ => None,
    }
}

/// For a name that is no type.
pub(crate) fn for_type(name: &str) -> Option<&'static str> {
    Some(match name {
        "int" | "integer" | "Int" => "integers are `i8` to `i128`, `u8` to `u64`",
        "long" | "Long" | "size_t" | "usize" | "isize" => "64-bit integers are `i64` and `u64`",
        "float" | "Float" | "double" | "Double" | "real" => "floats are `f32` and `f64`",
        "str" | "string" | "String" | "text" => "a string is a `vec[i8]`",
        "char" | "byte" => "a byte is an `i8` or `u8`",
        "boolean" | "Bool" => "write `bool`",
        "list" | "List" | "array" | "Array" | "Vec" | "vector" => "vectors are `vec[T]`",
        "map" | "Map" | "HashMap" | "Dict" => "dictionaries are `dict[K,V]`",
        "tuple" | "struct" => "structs are `{T, U}`",
        _ => return None,
    })
}

/// For a name that is no function.
pub(crate) fn for_function(name: &str) -> Option<&'static str> {
    Some(match name {
        "not" => "write `!`",
        "and" => "write `&&`",
        "or" => "write `||`",
        "abs" => "write `if(x < 0, -x, x)`",
        "floor" | "ceil" | "round" => "a cast truncates: `i64(x)`",
        "length" | "size" | "count" => "the length of a vector is `len(v)`",
        "reduce" | "fold" => "merge into a `merger[T,op]` in a `for`",
        "get" | "at" | "index" => "an element is `lookup(data, key)`",
        "push" | "append" | "add" => "merge into a builder: `merge(b, x)`",
        "print" | "println" => "there are no effects: what is to be seen is part of the result",
        _ => return None,
    })
}

/// How a builder's type, or one with parts in brackets, is written.
pub(super) fn form_of_type(word: &str) -> Option<&'static str> {
    Some(match word {
        "vec" => "it is written `vec[T]`",
        "dict" => "it is written `dict[K,V]`",
        "simd" => "it is written `simd[S]`",
        "appender" => "it is written `appender[T]`",
        "merger" => "it is written `merger[T,op]`",
        "vecmerger" => "it is written `vecmerger[T,op]`",
        "dictmerger" => "it is written `dictmerger[K,V,op]`",
        "numberer" => "it is written `numberer[K,V,op,R]`",
        "groupbuilder" | "groupmerger" => "it is written `groupbuilder[K,V]`",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_seen_in_pairs() {
        assert!(for_operand("a *", "* 2.0").is_some());
        assert!(for_operand("a + ", "* 2.0").is_none());
        assert!(for_operand("a >", "> 1").is_some());
        assert!(for_operand("a <", "> 1").is_none());
        assert!(for_operand("", "// comment").is_some());
        assert!(for_operand("a", "").is_none());
    }
}
