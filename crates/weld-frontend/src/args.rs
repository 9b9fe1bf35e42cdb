//! What is known of a function's arguments when it is compiled.

use weld_core::diag::{Diagnostic, Span};

use crate::DataType;

/// The arguments of a call.
#[derive(Clone, Copy, Debug)]
pub enum Args<'a> {
    /// None are given: the parameters are those that the text declares.
    Declared,
    /// These, in the order of the call.
    Given(&'a [Arg]),
}

/// One argument.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Arg {
    /// The parameter, field or tensor that it is for; `None`: the one at its position.
    pub name: Option<String>,
    /// Its type as the language writes it, where the caller wrote one.
    pub written: Option<String>,
    /// What is known of its value.
    pub known: Known,
}

/// What a caller's value or declaration says.
#[derive(Clone, Default, PartialEq, Debug)]
pub enum Known {
    /// A scalar of some type, a string, an object: only the text says which type is meant.
    #[default]
    Nothing,
    /// A type of SQL.
    Type(DataType),
    /// Rectangular data with these sizes, from a value that is given.
    Sizes(Sizes),
}

/// The sizes of a value that is given: of a nested list as `output`, of a tensor by kind of axis. A number has none.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Of the batch axes, outermost first.
    pub batch: Vec<u64>,
    /// Of the output axes, outermost first.
    pub output: Vec<u64>,
    /// Of the input axes, outermost first.
    pub input: Vec<u64>,
    /// Labels in the order batch, output, input; empty if there are none.
    pub labels: Vec<Option<String>>,
    /// Whether the value was written as a tensor, with its kinds of axes.
    pub tensor: bool,
    /// The array index of the first point of the domain, where the value is a field that says so.
    pub origin: Option<Vec<u64>>,
}

impl Sizes {
    /// Of all axes, in the order of the data: batch, output, input.
    pub fn all(&self) -> Vec<u64> {
        [&self.batch[..], &self.output, &self.input].concat()
    }
}

impl<'a> Args<'a> {
    /// The arguments; none where the text's declarations hold.
    pub fn given(&self) -> Option<&'a [Arg]> {
        match self {
            Args::Declared => None,
            Args::Given(args) => Some(args),
        }
    }

    /// The parameter of each argument, as indices into `params`, in the order of the arguments: all of them in their
    /// order for [`Args::Declared`]. A name that is no parameter, one given twice, more arguments than parameters are
    /// type errors at `entry`. Parameters that no argument is for are the caller's to accept or to refuse
    /// ([`missing`]).
    ///
    /// With `sql`, names may differ in case, and names none of which is a parameter's stand for positions.
    pub fn bind(&self, params: &[&str], entry: Span, sql: bool) -> Result<Vec<usize>, Vec<Diagnostic>> {
        let Args::Given(args) = *self else { return Ok((0..params.len()).collect()) };
        let find = |name: &str| {
            let same = |param: &&str| sql && param.eq_ignore_ascii_case(name);
            params.iter().position(|param| *param == name).or_else(|| params.iter().position(same))
        };
        let is_known = |arg: &Arg| arg.name.as_deref().is_some_and(|name| find(name).is_some());
        let by_position = sql && !args.iter().any(is_known);
        let mut errors = Vec::new();
        let mut bound = Vec::with_capacity(args.len());
        if args.len() > params.len() && (by_position || args.iter().any(|arg| arg.name.is_none())) {
            return Err(vec![count(params, args.len(), entry)]);
        }
        for (position, arg) in args.iter().enumerate() {
            let index = match &arg.name {
                Some(name) if !by_position => match find(name) {
                    Some(index) => index,
                    None => {
                        errors.push(
                            Diagnostic::ty(entry, format!("no parameter is called `{name}`")).with_hint(known(params)),
                        );
                        continue;
                    }
                },
                _ => position,
            };
            match bound.contains(&index) {
                true => errors.push(Diagnostic::ty(entry, format!("`{}` is given twice", params[index]))),
                false => bound.push(index),
            }
        }
        if errors.is_empty() { Ok(bound) } else { Err(errors) }
    }
}

/// The error of parameters that no argument is for: `bound` is what [`Args::bind`] gave.
pub fn missing(params: &[&str], bound: &[usize], entry: Span) -> Option<Diagnostic> {
    let absent: Vec<&str> =
        params.iter().enumerate().filter(|(i, _)| !bound.contains(i)).map(|(_, name)| *name).collect();
    match absent[..] {
        [] => None,
        _ => {
            let verb = if absent.len() == 1 { "is" } else { "are" };
            let hint = format!("`{}` {verb} missing", absent.join("`, `"));
            Some(count(params, bound.len(), entry).with_hint(hint))
        }
    }
}

fn count(params: &[&str], given: usize, entry: Span) -> Diagnostic {
    let plural = if params.len() == 1 { "" } else { "s" };
    Diagnostic::ty(entry, format!("expected {} argument{plural}, found {given}", params.len())).with_hint(known(params))
}

fn known(params: &[&str]) -> String {
    match params {
        [] => "there are no parameters".into(),
        _ => format!("the parameters are `{}`", params.join("`, `")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> Vec<Arg> {
        names.iter().map(|name| Arg { name: Some(name.to_string()), ..Arg::default() }).collect()
    }

    fn bind(args: &[Arg], sql: bool) -> Result<Vec<usize>, String> {
        let bound = Args::Given(args).bind(&["a", "B"], Span::NONE, sql);
        bound.map_err(|errors| errors[0].message.clone())
    }

    #[test]
    fn names_and_positions() {
        let positions = [Arg::default(), Arg::default(), Arg::default()];
        assert_eq!(bind(&positions[..2], false), Ok(vec![0, 1]));
        assert_eq!(bind(&positions, false), Err("expected 2 arguments, found 3".into()));
        assert_eq!(bind(&named(&["B", "a"]), false), Ok(vec![1, 0]));
        assert_eq!(bind(&named(&["b"]), false), Err("no parameter is called `b`".into()));
        assert_eq!(bind(&named(&["a", "a"]), false), Err("`a` is given twice".into()));
        assert_eq!(Args::Declared.bind(&["a", "B"], Span::NONE, false), Ok(vec![0, 1]));
    }

    #[test]
    fn sql_names() {
        assert_eq!(bind(&named(&["b", "a"]), true), Ok(vec![1, 0]));
        assert_eq!(bind(&named(&["x", "y"]), true), Ok(vec![0, 1]));
        assert_eq!(bind(&named(&["a", "y"]), true), Err("no parameter is called `y`".into()));
        assert_eq!(bind(&named(&["x", "y", "z"]), true), Err("expected 2 arguments, found 3".into()));
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = missing(&["a", "B"], &[0], Span::NONE).unwrap();
        assert_eq!(
            (error.message.as_str(), error.hint.as_deref()),
            ("expected 2 arguments, found 1", Some("`B` is missing"))
        );
        let all = missing(&["a", "B"], &[], Span::NONE).and_then(|error| error.hint);
        assert_eq!(all.as_deref(), Some("`a`, `B` are missing"));
        assert!(missing(&["a"], &[0], Span::NONE).is_none());
    }
}
