//! Shapes as they are written: `batch | input -> output`, sizes with blanks between them, `?` and `_` for any size.

use crate::shape::written;
use crate::tree::Annotation;

/// What is wrong, and at which byte of the text.
#[derive(Debug)]
pub(crate) struct BadShape {
    pub(crate) at: usize,
    pub(crate) message: String,
}

pub(crate) fn parse(text: &str) -> Result<Annotation, BadShape> {
    let mut shape = Annotation::default();
    let mut row = Vec::new();
    // Which separators were seen: `|`, `->`.
    let (mut bar, mut arrow) = (false, false);
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let wrong = |message: &str| BadShape { at, message: message.to_owned() };
        let length = match c {
            c if c.is_ascii_whitespace() => 1,
            '?' | '_' => {
                row.push(None);
                1
            }
            '0'..='9' => {
                let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
                let size = rest[..digits].parse().ok().filter(|size| *size <= i64::MAX as u64);
                row.push(Some(size.ok_or_else(|| wrong(&format!("the size `{}` is too large", &rest[..digits])))?));
                digits
            }
            '|' if bar || arrow => return Err(wrong("`|` stands once, before `->`")),
            '|' => {
                bar = true;
                shape.batch = std::mem::take(&mut row);
                1
            }
            '-' if rest.starts_with("->") && arrow => return Err(wrong("`->` stands once")),
            '-' if rest.starts_with("->") => {
                arrow = true;
                shape.input = std::mem::take(&mut row);
                2
            }
            c => return Err(wrong(&format!("expected a size, `?`, `_`, `|` or `->`, found {c:?}"))),
        };
        at += length;
    }
    shape.output = row;
    Ok(shape)
}

impl Annotation {
    /// As it is written.
    pub(crate) fn text(&self) -> String {
        let size = |size: &Option<u64>| size.map_or("?".into(), |size| size.to_string());
        let row = |row: &Vec<Option<u64>>| row.iter().map(size).collect::<Vec<String>>().join(" ");
        written(&[&self.batch, &self.output, &self.input].map(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows() {
        let shape = parse("4 | 3 ? -> 2").unwrap();
        assert_eq!((shape.batch, shape.input, shape.output), (vec![Some(4)], vec![Some(3), None], vec![Some(2)]));
        assert_eq!(parse("").unwrap(), Annotation::default());
        assert_eq!(parse("2 -> 3 | 4").unwrap_err().at, 7);
        assert!(parse("99999999999999999999").unwrap_err().message.contains("too large"));
        assert!(parse("a").unwrap_err().message.contains("'a'"));
    }
}
