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

use super::excerpt::Excerpt;
use super::{Diagnostic, Span};

/// Lines of source that one report may cost: the renderer looks at every line before an error.
const LINES_MAX: usize = 20_000_000;

/// Renders errors without colours, one after the other, each line with its end.
pub fn render(errors: &[Diagnostic], source: &str, file_name: &str) -> String {
    let shown = errors.len().min(1 + LINES_MAX / (1 + source.matches('\n').count()));
    let mut text: String = errors[..shown].iter().map(|error| render_one(error, source, file_name)).collect();
    if shown < errors.len() {
        text.push_str(&format!("{} more are not shown\n", errors.len() - shown));
    }
    text
}

fn render_one(error: &Diagnostic, source: &str, file_name: &str) -> String {
    let config = Config::default().with_color(false).with_index_type(IndexType::Byte).with_char_set(CharSet::Unicode);
    let place = |span: Span| {
        let start = boundary(source, span.start as usize);
        start..boundary(source, span.end as usize).max(start)
    };
    let spans = error.labels.iter().map(|(span, _)| *span).chain([error.span]);
    let excerpt = Excerpt::new(source, spans.flat_map(|span| [place(span).start, place(span).end]));
    let shown = |span: Span| {
        let place = place(span);
        (file_name, excerpt.place(place.start)..excerpt.place(place.end))
    };
    let main = shown(error.span);
    let mut report = Report::build(ReportKind::Error, main.clone())
        .with_config(config)
        .with_message(format!("{}: {}", error.kind, error.message));
    // Labels inside the main place say enough about it.
    let inside = |span: &Span| error.span.start <= span.start && span.end <= error.span.end;
    if !error.labels.iter().any(|(span, _)| inside(span)) {
        report = report.with_label(Label::new(main).with_message("here"));
    }
    for (span, message) in &error.labels {
        report = report.with_label(Label::new(shown(*span)).with_message(message));
    }
    if let Some(hint) = &error.hint {
        report = report.with_help(hint);
    }
    let mut out = Vec::new();
    // Writing into memory does not fail.
    let _ = report.finish().write((file_name, Source::from(&*excerpt.text)), &mut out);
    let (line, column) = line_column(source, error.span.start);
    let rendered = String::from_utf8_lossy(&out);
    let lines = rendered.lines().map(|text| match text.find(HEADER) {
        // The renderer has counted in the excerpt.
        Some(at) if text[..at].trim().is_empty() => {
            format!("{}{HEADER} {file_name}:{line}:{column} ]\n", &text[..at])
        }
        _ => text.trim_end().to_owned() + "\n",
    });
    lines.collect()
}

/// What the renderer puts before the place of an error.
const HEADER: &str = "╭─[";

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

    #[test]
    fn long_lines_are_not_shown_whole() {
        let source = format!("let a = [{}];\n{}y + 1", "1,".repeat(100_000), " ".repeat(100_000));
        let at = source.find('y').unwrap();
        let error = Diagnostic::ty(Span::new(at, at + 1), "unknown name `y`").with_label(Span::new(4, 5), "a");
        let text = render(&[error], &source, "p.weld");
        assert!(text.len() < 2_000, "{text}");
        assert!(text.contains("p.weld:2:100001 ]") && text.contains("y + 1") && text.contains("let a = [1,"), "{text}");
    }

    #[test]
    fn many_errors_in_many_lines_are_not_all_shown() {
        let source = "\n".repeat(1_000_000);
        let errors: Vec<_> = (0..100).map(|i| Diagnostic::ty(Span::new(i, i), "wrong")).collect();
        let text = render(&errors, &source, "p.weld");
        assert!(text.ends_with("80 more are not shown\n"), "{text}");
    }
}
