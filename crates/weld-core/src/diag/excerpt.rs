//! The part of a source that an error is about: its lines, long ones only around the error's places.
//!
//! Programs made by programs have lines of megabytes, which nobody wants to see below an error. The other lines become
//! empty, so that their numbers stay.

use std::collections::BTreeMap;
use std::ops::Range;

/// Lines of more bytes are shortened.
const LINE_BYTES_MAX: usize = 200;

/// What is shown of a long line before and after a place.
const AROUND_BYTES: usize = 60;

pub(super) struct Excerpt {
    pub(super) text: String,
    /// Where the places of the source are in the text.
    places: BTreeMap<usize, usize>,
}

impl Excerpt {
    /// Of the lines with these places, which are where characters of the source start, or its end.
    pub(super) fn new(source: &str, places: impl IntoIterator<Item = usize>) -> Excerpt {
        let mut excerpt =
            Excerpt { text: String::new(), places: places.into_iter().map(|place| (place, usize::MAX)).collect() };
        let end = excerpt.places.keys().next_back().copied().unwrap_or(0);
        let mut start = 0;
        for line in source.split_inclusive('\n') {
            if start > end {
                break;
            }
            let next = start + line.len();
            excerpt.line(source, start..next - usize::from(line.ends_with('\n')));
            start = next;
        }
        // Behind the last line.
        excerpt.reached(source.len());
        excerpt
    }

    /// Where a place of the source is in the text.
    pub(super) fn place(&self, place: usize) -> usize {
        self.places.get(&place).map_or(self.text.len(), |at| (*at).min(self.text.len()))
    }

    fn reached(&mut self, place: usize) {
        if let Some(at @ &mut usize::MAX) = self.places.get_mut(&place) {
            *at = self.text.len();
        }
    }

    fn line(&mut self, source: &str, line: Range<usize>) {
        let mut pieces: Vec<Range<usize>> = Vec::new();
        for (&place, _) in self.places.range(line.start..=line.end) {
            let around = match line.len() > LINE_BYTES_MAX {
                true => {
                    let start = source.floor_char_boundary(place.saturating_sub(AROUND_BYTES)).max(line.start);
                    start..source.ceil_char_boundary(place + AROUND_BYTES).min(line.end)
                }
                false => line.clone(),
            };
            match pieces.last_mut() {
                Some(last) if around.start <= last.end => last.end = around.end,
                _ => pieces.push(around),
            }
        }
        let mut shown = line.start;
        for piece in pieces {
            if piece.start > shown {
                self.text.push('…');
            }
            for (at, char) in source[piece.clone()].char_indices() {
                self.reached(piece.start + at);
                // What a terminal or the renderer would take for a command or the end of a line.
                let is_plain = char == '\t' || !(char.is_control() || matches!(char, '\u{2028}' | '\u{2029}'));
                self.text.push(if is_plain { char } else { ' ' });
            }
            self.reached(piece.end);
            shown = piece.end;
        }
        if shown > line.start && shown < line.end {
            self.text.push('…');
        }
        self.text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_lines_are_whole_and_others_empty() {
        let excerpt = Excerpt::new("one\ntwo\nthree\nfour", [4, 7, 11]);
        assert_eq!(excerpt.text, "\ntwo\nthree\n");
        assert_eq!([4, 7, 11].map(|place| excerpt.place(place)), [1, 4, 8]);
    }

    #[test]
    fn long_lines_are_shown_around_the_places() {
        let source = format!("{}<{}>{}", "ä".repeat(1_000), "b".repeat(100_000), "c".repeat(1_000));
        let places = [source.find('<').unwrap(), source.find('>').unwrap()];
        let excerpt = Excerpt::new(&source, places);
        assert!(excerpt.text.len() < 400, "{}", excerpt.text);
        assert_eq!(places.map(|place| &excerpt.text[excerpt.place(place)..][..1]), ["<", ">"]);
        assert!(excerpt.text.starts_with('…') && excerpt.text.ends_with("…\n") && excerpt.text.contains("b…b"));
    }

    #[test]
    fn the_end_is_a_place() {
        for source in ["", "a", "a\n", "\n\n"] {
            let excerpt = Excerpt::new(source, [source.len()]);
            assert!(excerpt.text.is_char_boundary(excerpt.place(source.len())), "{source:?}");
        }
    }

    #[test]
    fn control_characters_are_blanks() {
        assert_eq!(Excerpt::new("a\x1b[31m\u{2028}b\r\n", [0]).text, "a [31m b \n");
    }
}
