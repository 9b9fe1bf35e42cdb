//! The numbers of long texts by where they lie: states have the same views for each group that has the text, and to look
//! at the bytes again costs a miss of the cache for each.

use arrow::array::GenericByteViewArray;
use arrow::datatypes::ByteViewType;

use super::codes::{Codes, INLINE_BYTES};

/// Two texts that are not in their views, and that do not overlap, begin so many bytes apart at least.
const LONG_BYTES_MIN: usize = INLINE_BYTES as usize + 1;

/// Bits of a place for where the text begins among [`LONG_BYTES_MIN`] bytes, and for its length.
const BEGIN_BITS: u32 = 4;
const LEN_BITS: u32 = 28;

/// Texts must be found so many times, on average.
const USES_MIN: usize = 2;

/// Places of the texts in the buffers of an array, one for each [`LONG_BYTES_MIN`] bytes: where the text begins, its length,
/// and its number plus one; 0 is free.
#[derive(Debug)]
pub(super) struct Places {
    held: Vec<u64>,
    /// The first place of each buffer.
    starts: Vec<usize>,
}

impl Places {
    /// `None` where most views are different.
    pub(super) fn of<T: ByteViewType>(values: &GenericByteViewArray<T>) -> Option<Places> {
        let buffers = values.data_buffers().iter().map(|buffer| buffer.len());
        let bytes = buffers.clone().sum::<usize>();
        let long = values.views().iter().map(|view| *view as u32).filter(|len| *len > INLINE_BYTES);
        if bytes == 0 || long.map(|len| len as usize).sum::<usize>() < USES_MIN * bytes {
            return None;
        }
        let mut places = 0;
        let start = |buffer: usize| {
            let start = places;
            places += buffer.div_ceil(LONG_BYTES_MIN);
            start
        };
        let starts = buffers.map(start).collect();
        Some(Places { held: vec![0; places], starts })
    }

    /// The place of a view's text, and what it has in it but for the number. `None` if there is none for the text.
    fn place(&self, view: u128) -> Option<(usize, u64)> {
        let (len, buffer, offset) = (view as u32, (view >> 64) as u32 as usize, (view >> 96) as u32 as usize);
        let is_known = len > INLINE_BYTES && len >> LEN_BITS == 0;
        let begin = u64::from(len) << BEGIN_BITS | (offset % LONG_BYTES_MIN) as u64;
        is_known.then(|| (self.starts[buffer] + offset / LONG_BYTES_MIN, begin << u32::BITS))
    }

    /// Appends the numbers of an array's values, which has the same buffers.
    pub(super) fn numbers<T: ByteViewType>(
        &mut self,
        values: &GenericByteViewArray<T>,
        codes: &mut Codes,
        to: &mut Vec<u64>,
    ) {
        let (first, mut rows) = (to.len(), Vec::new());
        for (row, view) in values.views().iter().enumerate() {
            let held = self.place(*view).map_or(0, |(place, begin)| self.held[place] ^ begin);
            // Of another text, or of none, more than the number is left.
            let is_known = held != 0 && held >> u32::BITS == 0;
            to.push(if is_known { held - 1 } else { 0 });
            if !is_known {
                rows.push(row);
            }
        }
        let mut others = Vec::with_capacity(rows.len());
        codes.of_texts(rows.iter().map(|row| (values.views()[*row], values.value(*row).as_ref())), &mut others);
        for (row, code) in rows.into_iter().zip(others) {
            to[first + row] = code;
            if let Some((place, begin)) = self.place(values.views()[row]) {
                self.held[place] = begin | (code + 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, BinaryViewArray, make_view};
    use arrow::buffer::Buffer;

    use super::*;

    /// Texts that lie apart, one behind the other, and over each other; some in their views.
    #[test]
    fn numbers_are_those_of_the_texts() {
        let bytes: Vec<u8> = (0..4000_u32).map(|i| (i * i % 23) as u8).collect();
        let buffers = [Buffer::from(&bytes[..2500]), Buffer::from(&bytes[2500..])];
        let view = |buffer: usize, offset: usize, len: usize| {
            make_view(&buffers[buffer][offset..][..len], buffer as u32, offset as u32)
        };
        let apart = (0..300).map(|i| view(i % 2, i * 7 % 90 * 14, 13));
        let over = (0..300).map(|i| view(i % 2, i % 40, 10 + i % 9));
        let views: Vec<u128> = apart.chain(over).collect();
        let values =
            BinaryViewArray::try_new(views.repeat(3).into(), Vec::from(buffers.clone()), None).expect("valid views");
        let mut places = Places::of(&values).expect("views come again");
        let (mut codes, mut expected) = (Codes::new(), Vec::new());
        codes.of_texts(
            values.iter().enumerate().map(|(row, text)| (values.views()[row], text.expect("no null"))),
            &mut expected,
        );
        let (mut codes, mut found) = (Codes::new(), Vec::new());
        for start in (0..values.len()).step_by(100) {
            places.numbers(&values.slice(start, 100), &mut codes, &mut found);
        }
        assert_eq!(found, expected);
        assert!(Places::of(&values.slice(0, 10)).is_none());
        let inline: BinaryViewArray = [b"a"; 9].into_iter().map(Some).collect();
        assert!(Places::of(&inline).is_none());
    }
}
