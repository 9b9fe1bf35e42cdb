//! Einsum specifications: `"ij; jk => ik"`, `"...|i->o; b, 2*o<+k -> c"`.

use std::sync::Arc;

/// What each operand's axes are called, and those of the result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Spec {
    pub(crate) args: Vec<Rows>,
    pub(crate) result: Rows,
}

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Rows {
    pub(crate) batch: Row,
    pub(crate) output: Row,
    pub(crate) input: Row,
}

/// Axes, with a row variable between those of `before` and `after`; without one all are in `before`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Row {
    pub(crate) before: Vec<Axis>,
    pub(crate) variable: Option<Arc<str>>,
    pub(crate) after: Vec<Axis>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Axis {
    Label(Arc<str>),
    /// `_`
    Any,
    Fixed(u64),
    /// `a*x + b*y`
    Affine {
        scales: [u64; 2],
        labels: [Arc<str>; 2],
    },
}

impl Row {
    pub(crate) fn axes(&self) -> impl Iterator<Item = &Axis> {
        self.before.iter().chain(&self.after)
    }

    pub(crate) fn len(&self) -> usize {
        self.before.len() + self.after.len()
    }
}

impl Rows {
    pub(crate) fn rows(&self) -> [(&'static str, &Row); 3] {
        [("batch", &self.batch), ("output", &self.output), ("input", &self.input)]
    }
}

/// What is wrong, and at which byte of the text.
#[derive(Debug)]
pub(crate) struct BadSpec {
    pub(crate) at: usize,
    pub(crate) message: String,
}

/// Reads a specification. It has a `=>`.
pub(crate) fn parse(text: &str) -> Result<Spec, BadSpec> {
    let words = text.contains(',');
    let tokens = tokens(text, words)?;
    let mut parser = Parser { tokens, at: 0, end: text.len() };
    let mut args = vec![parser.rows()?];
    while parser.take(";") {
        args.push(parser.rows()?);
    }
    parser.expect("=>")?;
    let result = parser.rows()?;
    match parser.tokens.get(parser.at) {
        None => Ok(Spec { args, result }),
        Some((at, token)) => Err(BadSpec { at: *at, message: format!("unexpected {}", token.shown()) }),
    }
}

#[derive(Clone, PartialEq, Debug)]
enum Token {
    Label(Arc<str>),
    Any,
    Int(u64),
    Variable(Arc<str>),
    /// `...`
    Dots,
    Sign(&'static str),
}

impl Token {
    fn shown(&self) -> String {
        match self {
            Token::Label(label) => format!("`{label}`"),
            Token::Any => "`_`".into(),
            Token::Int(number) => format!("`{number}`"),
            Token::Variable(name) => format!("`..{name}..`"),
            Token::Dots => "`...`".into(),
            Token::Sign(sign) => format!("`{sign}`"),
        }
    }
}

const SIGNS: [&str; 9] = ["=>", "->", "<+", "=+", "+", "*", "|", ";", ","];

fn tokens(text: &str, words: bool) -> Result<Vec<(usize, Token)>, BadSpec> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let word = || rest.bytes().take_while(|c| c.is_ascii_alphanumeric() || *c == b'_').count();
        let (length, token) = match first {
            ' ' | '\t' | '\n' | '\r' => {
                at += 1;
                continue;
            }
            '.' if rest.starts_with("...") => (3, Token::Dots),
            '.' => variable(rest).ok_or_else(|| BadSpec {
                at,
                message: "a row variable is `...` or a name between dots, such as `..v..`".into(),
            })?,
            '0'..='9' => {
                let run = rest.bytes().take_while(u8::is_ascii_digit).count();
                // Without commas every digit is an axis, but those of a stride are one number.
                let is_stride = rest[run..].trim_start().starts_with('*');
                let digits = if words || is_stride { run } else { 1 };
                let number = rest[..digits].parse().ok().filter(|number| *number <= u64::from(u32::MAX));
                let number =
                    number.ok_or_else(|| BadSpec { at, message: format!("`{}` is too large", &rest[..digits]) })?;
                (digits, Token::Int(number))
            }
            'a'..='z' | 'A'..='Z' | '_' if words => match &rest[..word()] {
                "_" => (1, Token::Any),
                label => (label.len(), Token::Label(label.into())),
            },
            '_' => (1, Token::Any),
            'a'..='z' | 'A'..='Z' => (1, Token::Label(rest[..1].into())),
            _ => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                Some(sign) => (sign.len(), Token::Sign(sign)),
                None => return Err(BadSpec { at, message: format!("unexpected character {first:?}") }),
            },
        };
        tokens.push((at, token));
        at += length;
    }
    Ok(tokens)
}

/// `..name..`
fn variable(rest: &str) -> Option<(usize, Token)> {
    let name = rest.strip_prefix("..")?;
    let length = name.bytes().take_while(|c| c.is_ascii_alphanumeric() || *c == b'_').count();
    (length > 0 && name[length..].starts_with("..")).then(|| (length + 4, Token::Variable(name[..length].into())))
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    at: usize,
    end: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(_, token)| token)
    }

    fn place(&self) -> usize {
        self.tokens.get(self.at).map_or(self.end, |(at, _)| *at)
    }

    fn take(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Sign(found)) if *found == sign);
        self.at += usize::from(found);
        found
    }

    fn wrong(&self, wanted: &str) -> BadSpec {
        let found = self.peek().map_or("the end".into(), Token::shown);
        BadSpec { at: self.place(), message: format!("expected {wanted}, found {found}") }
    }

    fn expect(&mut self, sign: &str) -> Result<(), BadSpec> {
        if self.take(sign) { Ok(()) } else { Err(self.wrong(&format!("`{sign}`"))) }
    }

    /// `[ row "|" ] [ row "->" ] row`
    fn rows(&mut self) -> Result<Rows, BadSpec> {
        let mut rows = Rows::default();
        let mut row = self.row()?;
        if self.take("|") {
            rows.batch = row;
            row = self.row()?;
        }
        if self.take("->") {
            rows.input = row;
            row = self.row()?;
        }
        rows.output = row;
        // `...` is a variable of its own for each kind of row.
        for (kind, row) in [("batch", &mut rows.batch), ("output", &mut rows.output), ("input", &mut rows.input)] {
            if row.variable.as_deref() == Some("...") {
                row.variable = Some(format!("...{kind}").into());
            }
        }
        Ok(rows)
    }

    fn row(&mut self) -> Result<Row, BadSpec> {
        let mut row = Row::default();
        loop {
            let variable = match self.peek() {
                Some(Token::Dots) => Some("...".into()),
                Some(Token::Variable(name)) => Some(name.clone()),
                Some(Token::Label(_) | Token::Any | Token::Int(_)) => None,
                Some(Token::Sign(",")) if row.variable.is_some() || !row.before.is_empty() => {
                    self.at += 1;
                    continue;
                }
                _ => return Ok(row),
            };
            match variable {
                Some(_) if row.variable.is_some() => {
                    return Err(BadSpec { at: self.place(), message: "a row has one row variable at most".into() });
                }
                Some(name) => {
                    row.variable = Some(name);
                    self.at += 1;
                }
                None => {
                    let axis = self.axis()?;
                    if row.variable.is_some() { row.after.push(axis) } else { row.before.push(axis) }
                }
            }
        }
    }

    fn axis(&mut self) -> Result<Axis, BadSpec> {
        if let Some(Token::Any) = self.peek() {
            self.at += 1;
            return Ok(Axis::Any);
        }
        if let Some(Token::Int(number)) = self.peek() {
            let number = *number;
            if !matches!(self.tokens.get(self.at + 1), Some((_, Token::Sign("*")))) {
                self.at += 1;
                return Ok(Axis::Fixed(number));
            }
        }
        let (first_scale, first) = self.scaled()?;
        let affine = self.take("<+") || self.take("=+") || self.take("+");
        match affine {
            true => {
                let (second_scale, second) = self.scaled()?;
                Ok(Axis::Affine { scales: [first_scale, second_scale], labels: [first, second] })
            }
            false if first_scale == 1 => Ok(Axis::Label(first)),
            false => Err(self.wrong("`+`, `<+` or `=+` and another label")),
        }
    }

    /// `[INT "*"] LABEL`
    fn scaled(&mut self) -> Result<(u64, Arc<str>), BadSpec> {
        let mut scale = 1;
        if let Some(Token::Int(number)) = self.peek() {
            scale = *number;
            self.at += 1;
            self.expect("*")?;
        }
        match self.peek() {
            Some(Token::Label(label)) => {
                let label = label.clone();
                self.at += 1;
                if scale == 0 {
                    return Err(BadSpec { at: self.place(), message: "a stride of 0 reads one place only".into() });
                }
                Ok((scale, label))
            }
            _ => Err(self.wrong("a label")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(row: &Row) -> Vec<String> {
        row.axes().map(|axis| format!("{axis:?}")).collect()
    }

    #[test]
    fn letters_and_words() {
        let spec = parse("ij; jk => ik").unwrap();
        assert_eq!((spec.args.len(), spec.args[1].output.len()), (2, 2));
        let spec = parse("j01; 10 => j").unwrap();
        assert_eq!(labels(&spec.args[0].output), [r#"Label("j")"#, "Fixed(0)", "Fixed(1)"]);
        assert_eq!(labels(&spec.args[1].output), ["Fixed(1)", "Fixed(0)"]);
        assert_eq!(labels(&parse("10, j => j").unwrap().args[0].output)[0], "Fixed(10)");
        let spec = parse("b | in -> out, _ ; in => b | out").unwrap();
        assert_eq!(labels(&spec.args[0].input), [r#"Label("in")"#]);
        assert_eq!(spec.args[0].output.axes().count(), 2);
        assert_eq!(spec.result.batch.len(), 1);
    }

    #[test]
    fn row_variables_and_affine_axes() {
        let spec = parse("...|i...->o; ..v.. 0 => ...|o..v..").unwrap();
        assert_eq!(spec.args[0].batch.variable.as_deref(), Some("...batch"));
        assert_eq!(spec.args[0].input.variable.as_deref(), Some("...input"));
        assert_eq!((spec.args[1].output.variable.as_deref(), spec.args[1].output.after.len()), (Some("v"), 1));
        let spec = parse("2*o<+3*k; k => o").unwrap();
        let wanted = Axis::Affine { scales: [2, 3], labels: ["o".into(), "k".into()] };
        assert_eq!(spec.args[0].output.before, [wanted]);
    }

    #[test]
    fn wrong_specifications() {
        let error = |text: &str| parse(text).unwrap_err().message;
        assert!(error("ij").contains("expected `=>`, found the end"));
        assert!(error("i => j => k").contains("unexpected `=>`"));
        assert!(error("... i ... => i").contains("one row variable"));
        assert!(error(".i => i").contains("row variable"));
        assert!(error("2*i => i").contains("expected `+`"));
        assert!(error("i? => i").contains("'?'"));
    }
}
