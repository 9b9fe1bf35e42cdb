//! Lays text out within a line width: a flat list of pieces, groups that stay on one line if they fit.
//!
//! ```text
//! open, "f(", soft, "a,", line, "b", soft, ")", close   =>   f(a, b)   or, too wide, one piece a line
//! ```
//!
//! The list is flat, so depth of nesting costs no stack; the layout is one pass (after Oppen's pretty printer).

const WIDTH: usize = 100;
const INDENT: usize = 2;

/// Text under construction.
#[derive(Default)]
pub(crate) struct Pretty {
    pieces: Vec<Piece>,
}

enum Piece {
    Text(String),
    /// A blank, or a new line when its group is broken.
    Line,
    /// Nothing, or a new line when its group is broken.
    Soft,
    /// Always a new line; breaks the groups around it.
    Hard,
    Open,
    Close,
    Indent,
    Dedent,
}

impl Pretty {
    pub(crate) fn text(&mut self, text: impl Into<String>) {
        self.pieces.push(Piece::Text(text.into()));
    }

    pub(crate) fn line(&mut self) {
        self.pieces.push(Piece::Line);
    }

    pub(crate) fn soft(&mut self) {
        self.pieces.push(Piece::Soft);
    }

    pub(crate) fn hard(&mut self) {
        self.pieces.push(Piece::Hard);
    }

    /// Opens a group: up to its close it stays on one line if it fits.
    pub(crate) fn open(&mut self) {
        self.pieces.push(Piece::Open);
    }

    pub(crate) fn close(&mut self) {
        self.pieces.push(Piece::Close);
    }

    /// New lines from here to the matching dedent are indented by one more step.
    pub(crate) fn indent(&mut self) {
        self.pieces.push(Piece::Indent);
    }

    pub(crate) fn dedent(&mut self) {
        self.pieces.push(Piece::Dedent);
    }

    pub(crate) fn render(&self) -> String {
        let widths = self.group_widths();
        let mut out = String::new();
        let (mut column, mut indent) = (0, 0);
        let mut broken = vec![true];
        for (piece, &width) in self.pieces.iter().zip(&widths) {
            let new_line = match piece {
                Piece::Text(text) => {
                    if column == 0 && !text.is_empty() {
                        out.extend(std::iter::repeat_n(' ', indent));
                        column = indent;
                    }
                    out.push_str(text);
                    column += text.chars().count();
                    false
                }
                Piece::Line if broken.last() == Some(&false) => {
                    out.push(' ');
                    column += 1;
                    false
                }
                Piece::Soft if broken.last() == Some(&false) => false,
                Piece::Line | Piece::Soft | Piece::Hard => true,
                Piece::Open => {
                    let start = if column == 0 { indent } else { column };
                    let fits = broken.last() == Some(&false) || start.saturating_add(width) <= WIDTH;
                    broken.push(!fits);
                    false
                }
                Piece::Close => {
                    broken.pop();
                    false
                }
                Piece::Indent => {
                    indent += INDENT;
                    false
                }
                Piece::Dedent => {
                    indent -= INDENT;
                    false
                }
            };
            if new_line {
                out.push('\n');
                column = 0;
            }
        }
        out
    }

    /// For each `Open`, the width of its group on one line; huge if it has a hard line.
    fn group_widths(&self) -> Vec<usize> {
        const HUGE: usize = usize::MAX / 2;
        let mut widths = vec![0; self.pieces.len()];
        let mut total: usize = 0;
        // For each open group: its piece, the total before it, whether it has a hard line.
        let mut open: Vec<(usize, usize, bool)> = Vec::new();
        for (i, piece) in self.pieces.iter().enumerate() {
            match piece {
                Piece::Text(text) => total += text.chars().count(),
                Piece::Line => total += 1,
                Piece::Hard => open.iter_mut().last().into_iter().for_each(|group| group.2 = true),
                Piece::Open => open.push((i, total, false)),
                Piece::Close => {
                    if let Some((at, start, hard)) = open.pop() {
                        widths[at] = if hard { HUGE } else { total - start };
                        open.iter_mut().last().into_iter().for_each(|outer| outer.2 |= hard);
                    }
                }
                Piece::Soft | Piece::Indent | Piece::Dedent => {}
            }
        }
        widths
    }
}
