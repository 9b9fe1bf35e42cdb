//! Signatures: `(it:Iterable[a], a:Integral) => (a -> b) -> it -> [b]`.

use std::sync::Arc;

use weld_core::diag::Span;

/// What `@jit('..')`, `@signature` and `@overload` say of a function.
#[derive(Clone, Debug)]
pub(crate) struct Signature {
    /// Where it is written.
    pub(crate) span: Span,
    pub(crate) constraints: Vec<(Arc<str>, SigTy)>,
    pub(crate) params: Vec<SigTy>,
    pub(crate) result: SigTy,
}

/// A type as it is written.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum SigTy {
    /// A lower-case name.
    Var(Arc<str>),
    /// `Float`, `Tuple[Int, 3]`, `Stream a`.
    Named(Arc<str>, Vec<SigTy>),
    List(Box<SigTy>),
    Tuple(Vec<SigTy>),
    /// `(a -> b)`.
    Function(Vec<SigTy>, Box<SigTy>),
    /// An argument of a type that is a number.
    Int(i64),
}

impl Signature {
    /// Reads a signature; else what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Signature, String> {
        let mut parser = Parser::new(text)?;
        let constraints = if text.contains("=>") { parser.constraints()? } else { Vec::new() };
        let mut params = parser.arrows()?;
        parser.end()?;
        let result = params.pop().ok_or("a signature has a result")?;
        Ok(Signature { span: Span::NONE, constraints, params, result })
    }
}

impl Signature {
    /// All types that are written in it.
    pub(crate) fn types_mut(&mut self) -> impl Iterator<Item = &mut SigTy> {
        let bounds = self.constraints.iter_mut().map(|(_, bound)| bound);
        self.params.iter_mut().chain([&mut self.result]).chain(bounds)
    }
}

impl SigTy {
    /// Lets names that are parameters of a class stand for what these are.
    pub(crate) fn name_variables(&mut self, is_variable: &dyn Fn(&str) -> bool) {
        match self {
            SigTy::Var(_) | SigTy::Int(_) => {}
            SigTy::Named(name, args) if args.is_empty() && is_variable(name) => *self = SigTy::Var(name.clone()),
            SigTy::Named(_, parts) | SigTy::Tuple(parts) => {
                parts.iter_mut().for_each(|part| part.name_variables(is_variable));
            }
            SigTy::List(element) => element.name_variables(is_variable),
            SigTy::Function(params, result) => {
                params.iter_mut().for_each(|param| param.name_variables(is_variable));
                result.name_variables(is_variable);
            }
        }
    }

    /// The variables in it.
    pub(crate) fn variables(&self, names: &mut Vec<Arc<str>>) {
        match self {
            SigTy::Var(name) => names.push(name.clone()),
            SigTy::Int(_) => {}
            SigTy::List(element) => element.variables(names),
            SigTy::Named(_, parts) | SigTy::Tuple(parts) => parts.iter().for_each(|part| part.variables(names)),
            SigTy::Function(params, result) => {
                params.iter().for_each(|param| param.variables(names));
                result.variables(names);
            }
        }
    }

    /// The names of types in it.
    pub(crate) fn names(&self, names: &mut Vec<Arc<str>>) {
        match self {
            SigTy::Var(_) | SigTy::Int(_) => {}
            SigTy::Named(name, args) => {
                names.push(name.clone());
                args.iter().for_each(|arg| arg.names(names));
            }
            SigTy::List(element) => element.names(names),
            SigTy::Tuple(parts) => parts.iter().for_each(|part| part.names(names)),
            SigTy::Function(params, result) => {
                params.iter().for_each(|param| param.names(names));
                result.names(names);
            }
        }
    }
}

/// Reads a type; else what is wrong with it.
pub(crate) fn parse_type(text: &str) -> Result<SigTy, String> {
    let mut parser = Parser::new(text)?;
    let ty = parser.ty()?;
    parser.end()?;
    Ok(ty)
}

/// `Array[Type dtype, Int ndim]`: the name, and the parameters with whether each is a number.
pub(crate) fn parse_class(text: &str) -> Result<(Arc<str>, Vec<(Arc<str>, bool)>), String> {
    let mut parser = Parser::new(text)?;
    let name = parser.name()?;
    let mut params = Vec::new();
    if parser.eat("[") {
        loop {
            let kind = parser.name()?;
            let is_int = match &*kind {
                "Type" => false,
                "Int" => true,
                other => return Err(format!("expected `Type` or `Int`, found `{other}`")),
            };
            params.push((parser.name()?, is_int));
            if !parser.eat(",") {
                break;
            }
        }
        parser.expect("]")?;
    }
    parser.end()?;
    Ok((name, params))
}

struct Parser<'a> {
    tokens: Vec<&'a str>,
    at: usize,
    depth: usize,
}

const DEPTH_MAX: usize = 100;

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Result<Parser<'a>, String> {
        let mut tokens = Vec::new();
        let mut rest = text.trim_start();
        while let Some(first) = rest.chars().next() {
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let length = match first {
                _ if rest.starts_with("->") || rest.starts_with("=>") => 2,
                _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
                '(' | ')' | '[' | ']' | ',' | ':' => 1,
                '*' => return Err("pointers are not supported: a function sees no memory".into()),
                other => return Err(format!("unexpected `{other}`")),
            };
            tokens.push(&rest[..length]);
            rest = rest[length..].trim_start();
        }
        Ok(Parser { tokens, at: 0, depth: 0 })
    }

    fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.at).copied()
    }

    fn eat(&mut self, token: &str) -> bool {
        let is_there = self.peek() == Some(token);
        self.at += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.eat(token) { Ok(()) } else { Err(self.unexpected(&format!("`{token}`"))) }
    }

    fn unexpected(&self, wanted: &str) -> String {
        match self.peek() {
            Some(found) => format!("expected {wanted}, found `{found}`"),
            None => format!("expected {wanted}, found the end of the signature"),
        }
    }

    fn end(&self) -> Result<(), String> {
        if self.at == self.tokens.len() { Ok(()) } else { Err(self.unexpected("the end of the signature")) }
    }

    fn name(&mut self) -> Result<Arc<str>, String> {
        match self.peek().filter(|token| token.starts_with(|c: char| c.is_alphabetic() || c == '_')) {
            Some(name) => {
                self.at += 1;
                Ok(name.into())
            }
            None => Err(self.unexpected("a name")),
        }
    }

    fn constraints(&mut self) -> Result<Vec<(Arc<str>, SigTy)>, String> {
        self.expect("(")?;
        let mut constraints = Vec::new();
        loop {
            let var = self.name()?;
            self.expect(":")?;
            constraints.push((var, self.ty()?));
            if !self.eat(",") {
                break;
            }
        }
        self.expect(")")?;
        self.expect("=>")?;
        Ok(constraints)
    }

    /// `type {"->" type}`.
    fn arrows(&mut self) -> Result<Vec<SigTy>, String> {
        let mut types = vec![self.ty()?];
        while self.eat("->") {
            types.push(self.ty()?);
        }
        Ok(types)
    }

    fn ty(&mut self) -> Result<SigTy, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("the type is nested more than {DEPTH_MAX} deep"));
        }
        let ty = self.ty_here();
        self.depth -= 1;
        ty
    }

    fn ty_here(&mut self) -> Result<SigTy, String> {
        if self.eat("[") {
            let element = self.ty()?;
            self.expect("]")?;
            return Ok(SigTy::List(Box::new(element)));
        }
        if self.eat("(") {
            return self.bracketed();
        }
        let name = self.name()?;
        if name.starts_with(|c: char| c.is_lowercase() || c == '_') {
            return Ok(SigTy::Var(name));
        }
        let mut args = Vec::new();
        if self.eat("[") {
            args.push(self.argument()?);
            while self.eat(",") {
                args.push(self.argument()?);
            }
            self.expect("]")?;
        } else {
            // `Stream a`, `Array a 2`.
            while self.peek().is_some_and(|next| !matches!(next, "->" | "=>" | ")" | "]" | "," | ":")) {
                args.push(self.argument()?);
            }
        }
        Ok(SigTy::Named(name, args))
    }

    /// After `(`: a tuple, a function, or a type alone.
    fn bracketed(&mut self) -> Result<SigTy, String> {
        let mut first = self.arrows()?;
        if first.len() > 1 {
            self.expect(")")?;
            let result = first.pop().map(Box::new).ok_or("a function has a result")?;
            return Ok(SigTy::Function(first, result));
        }
        let mut is_tuple = false;
        while self.eat(",") {
            is_tuple = true;
            if self.peek() == Some(")") {
                break;
            }
            first.push(self.ty()?);
        }
        self.expect(")")?;
        Ok(if is_tuple { SigTy::Tuple(first) } else { first.remove(0) })
    }

    fn argument(&mut self) -> Result<SigTy, String> {
        match self.peek().filter(|token| token.starts_with(|c: char| c.is_ascii_digit())) {
            Some(number) => {
                self.at += 1;
                number.parse().map(SigTy::Int).map_err(|_| format!("`{number}` is no number"))
            }
            None => self.ty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures() {
        let signature = Signature::parse("(it:Iterable[a], a:Integral) => (a -> b) -> it -> [b]").unwrap();
        assert_eq!((signature.constraints.len(), signature.params.len()), (2, 2));
        assert!(matches!(&signature.params[0], SigTy::Function(params, _) if params.len() == 1));
        assert_eq!(signature.result, SigTy::List(Box::new(SigTy::Var("b".into()))));
        let stream = Signature::parse("Stream[Vector a] -> Stream (a, b)").unwrap();
        assert!(matches!(&stream.result, SigTy::Named(name, args) if &**name == "Stream" && args.len() == 1));
        assert_eq!(Signature::parse("Int ->").unwrap_err(), "expected a name, found the end of the signature");
        assert!(Signature::parse("Char *").unwrap_err().contains("pointers"));
        assert!(Signature::parse(&"(".repeat(100_000)).unwrap_err().contains("nested"));
    }

    #[test]
    fn classes() {
        let (name, params) = parse_class("Array[Type dtype, Int ndim]").unwrap();
        assert_eq!((&*name, params.len(), params[1].1), ("Array", 2, true));
        assert!(parse_class("Array[Float dtype]").is_err());
    }
}
