//! Texts for generated tables: words of made-up syllables, frequent ones more often, in Latin and in Cyrillic letters.

use super::random::Sequence;

#[derive(Clone, Copy)]
pub(super) enum Letters {
    Latin,
    Cyrillic,
}

/// How many words there are.
const COUNT: f64 = 30_000.0;
const WORDS: Sequence = Sequence::new("words");
const SYLLABLES: Sequence = Sequence::new("syllables");

const LATIN: [&str; 32] = [
    "ka", "lo", "mi", "ra", "te", "shi", "no", "ve", "do", "sa", "pe", "ru", "ban", "gor", "lin", "tex", "mar", "sol",
    "in", "ter", "on", "ver", "st", "al", "e", "i", "o", "ny", "ku", "za", "fo", "ti",
];

const CYRILLIC: [&str; 32] = [
    "ка", "ло", "ми", "ра", "те", "ши", "но", "ве", "до", "са", "пе", "ру", "бан", "гор", "лин", "ский", "мар", "сол",
    "ин", "тер", "он", "вер", "ст", "ал", "е", "и", "о", "ный", "ку", "за", "фо", "ть",
];

impl Letters {
    /// Appends a word of a text: `seed` says which text, `place` which of its words.
    pub(super) fn push_word(self, text: &mut String, seed: u64, place: u64) {
        // Zipf's law with exponent 3/4, without logarithms: there are hundreds of millions of words to draw.
        let unit = WORDS.unit(seed.wrapping_add(place));
        let word = (unit * unit * (unit * unit) * COUNT) as u64;
        let mut bits = SYLLABLES.bits(word);
        let syllables = match self {
            Letters::Latin => &LATIN,
            Letters::Cyrillic => &CYRILLIC,
        };
        for _ in 0..2 + bits % 3 {
            bits >>= 5;
            text.push_str(syllables[bits as usize % syllables.len()]);
        }
    }

    /// Appends so many words with something between them.
    pub(super) fn push_words(self, text: &mut String, seed: u64, count: u64, between: &str) {
        for place in 0..count {
            if place > 0 {
                text.push_str(between);
            }
            self.push_word(text, seed, place);
        }
    }
}
