//! Texts as codes of a dictionary that all blocks of a column share, as long as few of them are distinct.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, StringViewArray, UInt16Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, UInt8Type, UInt16Type};
use datafusion::common::{Result, internal_err};
use foldhash::fast::RandomState;

use crate::integers;

/// Codes have two bytes at most.
const TEXTS_MAX: usize = 1 << 16;

/// Texts that come fewer times than this on average are kept as they are: a view has 16 bytes, a code two and a share
/// of the view in the dictionary.
const ROWS_PER_TEXT: usize = 4;

/// Distinct texts, numbered in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    codes: HashMap<Arc<str>, u16, RandomState>,
    texts: Vec<Arc<str>>,
    /// The dictionary that these texts were taken from, if no others have come since.
    values: Option<ArrayRef>,
}

impl Interner {
    /// With the texts of a dictionary, which are distinct.
    pub(crate) fn of(values: &ArrayRef) -> Interner {
        let mut interner = Interner::default();
        for text in values.as_string_view().iter().flatten() {
            interner.code(text);
        }
        interner.values = Some(Arc::clone(values));
        interner
    }

    fn code(&mut self, text: &str) -> Option<u16> {
        if let Some(code) = self.codes.get(text) {
            return Some(*code);
        }
        let code = u16::try_from(self.texts.len()).ok()?;
        let text: Arc<str> = text.into();
        self.texts.push(Arc::clone(&text));
        self.codes.insert(text, code);
        self.values = None;
        Some(code)
    }

    /// The codes of texts; `None` if more texts are distinct than there are codes.
    pub(crate) fn codes(&mut self, texts: &StringViewArray) -> Option<ArrayRef> {
        let codes = texts.iter().map(|text| text.map_or(Some(0), |text| self.code(text)));
        let codes = codes.collect::<Option<Vec<u16>>>()?;
        Some(Arc::new(UInt16Array::new(codes.into(), texts.nulls().cloned())))
    }

    /// Whether codes pay for so many rows.
    pub(crate) fn pays(&self, rows: usize) -> bool {
        !self.texts.is_empty() && self.texts.len().saturating_mul(ROWS_PER_TEXT) <= rows
    }

    /// The narrowest type that has a code for each text.
    pub(crate) fn code_type(&self) -> DataType {
        if self.texts.len() <= 1 << 8 { DataType::UInt8 } else { DataType::UInt16 }
    }

    /// The dictionary.
    pub(crate) fn values(&self) -> ArrayRef {
        self.values.clone().unwrap_or_else(|| Arc::new(StringViewArray::from_iter_values(&self.texts)))
    }
}

const _: () = assert!(TEXTS_MAX == u16::MAX as usize + 1, "a code for each text");

/// A block of codes, or of an older state of the dictionary, with the dictionary `values` and codes of the type.
pub(crate) fn with_dictionary(block: &ArrayRef, values: &ArrayRef, code_type: &DataType) -> Result<ArrayRef> {
    if let Some(known) = block.as_any_dictionary_opt() {
        let has_type = matches!(block.data_type(), DataType::Dictionary(codes, _) if **codes == *code_type);
        return match has_type {
            true if Arc::ptr_eq(known.values(), values) => Ok(Arc::clone(block)),
            true => Ok(known.with_values(Arc::clone(values))),
            false => with_dictionary(&keys(block), values, code_type),
        };
    }
    let codes = integers::convert(block, code_type)?;
    let values = Arc::clone(values);
    Ok(match code_type {
        DataType::UInt8 => Arc::new(DictionaryArray::try_new(codes.as_primitive::<UInt8Type>().clone(), values)?),
        DataType::UInt16 => Arc::new(DictionaryArray::try_new(codes.as_primitive::<UInt16Type>().clone(), values)?),
        other => return internal_err!("codes of the type {other}"),
    })
}

/// The codes of a block.
pub(crate) fn keys(block: &ArrayRef) -> ArrayRef {
    match block.as_any_dictionary_opt() {
        // A copy of pointers.
        Some(dictionary) => dictionary.keys().slice(0, block.len()),
        None => Arc::clone(block),
    }
}

/// The texts of a block of codes.
pub(crate) fn unpacked(block: &ArrayRef, values: &ArrayRef) -> Result<ArrayRef> {
    Ok(take(values, &keys(block), None)?)
}

/// Views whose texts are in memory of their own.
pub(crate) fn compact(views: &StringViewArray) -> ArrayRef {
    Arc::new(views.gc())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_numbered_as_texts_come() {
        let texts = StringViewArray::from(vec![Some("b"), None, Some("a"), Some("b"), Some("")]);
        let mut interner = Interner::default();
        let codes = interner.codes(&texts).expect("few texts");
        let expected: ArrayRef = Arc::new(UInt16Array::from(vec![Some(0), None, Some(1), Some(0), Some(2)]));
        assert_eq!(&codes, &expected);
        assert_eq!((interner.code_type(), interner.pays(11), interner.pays(12)), (DataType::UInt8, false, true));
        let values = interner.values();
        let block = with_dictionary(&codes, &values, &DataType::UInt8).expect("codes of three texts");
        assert_eq!(unpacked(&block, &values).expect("texts").as_string_view(), &texts);
        // A dictionary that has grown is one for the blocks before, too.
        let mut again = Interner::of(&values);
        assert!(Arc::ptr_eq(&again.values(), &values));
        again.code("c").expect("few texts");
        let more = again.values();
        let grown = with_dictionary(&block, &more, &DataType::UInt16).expect("the same codes");
        assert_eq!(unpacked(&grown, &more).expect("texts").as_string_view(), &texts);
        assert!(Arc::ptr_eq(grown.as_any_dictionary().values(), &more));
    }

    #[test]
    fn there_are_no_more_texts_than_codes() {
        let texts: Vec<String> = (0..=TEXTS_MAX).map(|number| number.to_string()).collect();
        let mut interner = Interner::default();
        let codes = interner.codes(&StringViewArray::from_iter_values(&texts[..TEXTS_MAX])).expect("a code each");
        assert_eq!(interner.code_type(), DataType::UInt16);
        let values = interner.values();
        let unpacked = unpacked(&codes, &values).expect("texts");
        assert_eq!(unpacked.as_string_view().value(TEXTS_MAX - 1), texts[TEXTS_MAX - 1]);
        assert!(interner.codes(&StringViewArray::from_iter_values(&texts)).is_none());
        assert_eq!(interner.codes(&StringViewArray::from_iter_values(&texts[..7])).map(|codes| codes.len()), Some(7));
    }
}
