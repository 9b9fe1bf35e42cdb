//! Diagnostics as text: the source line, a caret under the place, a hint.
//!
//! ```
//! use weld_core::diag;
//! let source = "|x: i64| x + y";
//! let errors = weld_core::parse_program(source).unwrap_err();
//! let text = diag::render(&errors, source, "example.weld");
//! assert!(text.contains("example.weld:1:14"));
//! ```

use ariadne::{CharSet, Config, IndexType, Label, Report, ReportKind, Source};

use super::{Diagnostic, Span};

/// Renders errors without colours, one after the other, each line with its end.
pub fn render(errors: &[Diagnostic], source: &str, file_name: &str) -> String {
    let config = Config::default().with_color(false).with_index_type(IndexType::Byte).with_char_set(CharSet::Unicode);
    let mut out = Vec::new();
    for error in errors {
        let place = |span: Span| {
            let start = boundary(source, span.start as usize);
            let end = boundary(source, span.end as usize).max(start);
            (file_name, start..end)
        };
        let main = place(error.span);
        let mut report = Report::build(ReportKind::Error, main.clone())
            .with_config(config)
            .with_message(format!("{}: {}", error.kind, error.message));
        // Labels inside the main place say enough about it.
        let inside = |span: &Span| error.span.start <= span.start && span.end <= error.span.end;
        if !error.labels.iter().any(|(span, _)| inside(span)) {
            report = report.with_label(Label::new(main).with_message("here"));
        }
        for (span, message) in &error.labels {
            report = report.with_label(Label::new(place(*span)).with_message(message));
        }
        if let Some(hint) = &error.hint {
            report = report.with_help(hint);
        }
        // Writing into memory does not fail.
        let _ = report.finish().write((file_name, Source::from(source)), &mut out);
    }
    String::from_utf8_lossy(&out).lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// The line and column of a byte of the source, both from 1; columns count characters.
pub fn line_column(source: &str, offset: u32) -> (usize, usize) {
    let offset = boundary(source, offset as usize);
    let before = &source[..offset];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (1 + before.matches('\n').count(), 1 + before[line_start..].chars().count())
}

/// The nearest place at or before an offset where a character starts.
fn boundary(source: &str, offset: usize) -> usize {
    let mut offset = offset.min(source.len());
    while !source.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns() {
        let source = "aü\nbc";
        assert_eq!(line_column(source, 0), (1, 1));
        assert_eq!(line_column(source, 3), (1, 3));
        assert_eq!(line_column(source, 4), (2, 1));
        assert_eq!(line_column(source, 99), (2, 3));
    }
}
