//! Page headers, read from Thrift's compact protocol.
//!
//! The `parquet` crate keeps its own header type private and hands out pages that it has already
//! decompressed into fresh memory. Reading the header here is what makes it possible to skip a page
//! for the price of its header, to decompress into pooled memory, and to decompress two at once.

use parquet::basic::Encoding;

use crate::error::{Error, Result, corrupt};

/// What precedes every page.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PageHeader {
    pub(crate) compressed_len: usize,
    pub(crate) uncompressed_len: usize,
    pub(crate) kind: PageKind,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PageKind {
    Dictionary {
        values: usize,
        encoding: Encoding,
    },
    V1 {
        values: usize,
        encoding: Encoding,
        levels: Encoding,
    },
    V2 {
        values: usize,
        rows: usize,
        nulls: usize,
        encoding: Encoding,
        definition_len: usize,
        repetition_len: usize,
        compressed: bool,
    },
    /// An index page, or a kind from the future: passed over.
    Other,
}

impl PageHeader {
    /// Reads a header from the front of `data`; also says how long it is.
    pub(crate) fn read(data: &[u8]) -> Result<(Self, usize)> {
        let mut input = Compact { data, at: 0 };
        let mut kind = None;
        let (mut compressed, mut uncompressed) = (None, None);
        let (mut v1, mut v2, mut dictionary) = (None, None, None);
        input.fields(|input, id, ty| {
            match id {
                1 => kind = Some(input.i32(ty)?),
                2 => uncompressed = Some(input.len(ty)?),
                3 => compressed = Some(input.len(ty)?),
                5 => v1 = Some(input.numbers(ty)?),
                7 => dictionary = Some(input.numbers(ty)?),
                8 => v2 = Some(input.numbers(ty)?),
                _ => input.skip(ty, 0)?,
            }
            Ok(())
        })?;
        let kind = match kind {
            Some(0) => v1.as_ref().map_or_else(|| missing("data"), Fields::v1)?,
            Some(2) => dictionary.as_ref().map_or_else(|| missing("dictionary"), Fields::dictionary)?,
            Some(3) => v2.as_ref().map_or_else(|| missing("v2 data"), Fields::v2)?,
            Some(_) => PageKind::Other,
            None => return missing("page type in the"),
        };
        let (Some(compressed_len), Some(uncompressed_len)) = (compressed, uncompressed) else {
            return missing("page size in the");
        };
        Ok((Self { compressed_len, uncompressed_len, kind }, input.at))
    }
}

fn missing<T>(what: &str) -> Result<T> {
    corrupt(format!("no {what} page header"))
}

/// The numeric fields 1 to 7 of one of the nested headers; booleans are 0 and 1.
#[derive(Default)]
struct Fields([Option<i32>; 8]);

impl Fields {
    fn len(&self, id: usize) -> Result<usize> {
        match self.0[id].map(usize::try_from) {
            Some(Ok(value)) => Ok(value),
            _ => corrupt("a page header lacks a count, or it is negative"),
        }
    }

    fn encoding(&self, id: usize) -> Result<Encoding> {
        Ok(match self.0[id] {
            Some(0) => Encoding::PLAIN,
            Some(2) => Encoding::PLAIN_DICTIONARY,
            Some(3) => Encoding::RLE,
            #[expect(deprecated, reason = "old files carry it; it must be told apart to be declined")]
            Some(4) => Encoding::BIT_PACKED,
            Some(5) => Encoding::DELTA_BINARY_PACKED,
            Some(6) => Encoding::DELTA_LENGTH_BYTE_ARRAY,
            Some(7) => Encoding::DELTA_BYTE_ARRAY,
            Some(8) => Encoding::RLE_DICTIONARY,
            Some(9) => Encoding::BYTE_STREAM_SPLIT,
            Some(other) => return Err(Error::Unsupported(format!("encoding {other}"))),
            None => return missing("encoding in the"),
        })
    }

    fn dictionary(&self) -> Result<PageKind> {
        Ok(PageKind::Dictionary { values: self.len(1)?, encoding: self.encoding(2)? })
    }

    fn v1(&self) -> Result<PageKind> {
        let (values, encoding, levels) = (self.len(1)?, self.encoding(2)?, self.encoding(3)?);
        Ok(PageKind::V1 { values, encoding, levels })
    }

    fn v2(&self) -> Result<PageKind> {
        Ok(PageKind::V2 {
            values: self.len(1)?,
            nulls: self.len(2)?,
            rows: self.len(3)?,
            encoding: self.encoding(4)?,
            definition_len: self.len(5)?,
            repetition_len: self.len(6)?,
            compressed: self.0[7] != Some(0),
        })
    }
}

struct Compact<'a> {
    data: &'a [u8],
    at: usize,
}

/// Deeper nesting than any page header has.
const DEPTH_MAX: usize = 16;

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const STRUCT: u8 = 12;

impl Compact<'_> {
    fn byte(&mut self) -> Result<u8> {
        let Some(&byte) = self.data.get(self.at) else {
            return corrupt("a page header is cut off");
        };
        self.at += 1;
        Ok(byte)
    }

    fn varint(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= ((byte & 0x7f) as u64) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        corrupt("a page header's number is too long")
    }

    fn i32(&mut self, ty: u8) -> Result<i32> {
        match ty {
            TRUE => Ok(1),
            FALSE => Ok(0),
            4..=6 => {
                let raw = self.varint()?;
                let value = (raw >> 1) as i64 ^ -((raw & 1) as i64);
                i32::try_from(value).or_else(|_| corrupt("a page header's number is too large"))
            }
            _ => corrupt("a page header's number has another type"),
        }
    }

    fn len(&mut self, ty: u8) -> Result<usize> {
        let value = self.i32(ty)?;
        usize::try_from(value).or_else(|_| corrupt("a page's size is negative"))
    }

    /// Calls `field` with the id and type of every field of a struct.
    fn fields(&mut self, mut field: impl FnMut(&mut Self, i32, u8) -> Result<()>) -> Result<()> {
        let mut id = 0;
        loop {
            let head = self.byte()?;
            let ty = head & 0x0f;
            if ty == 0 {
                return Ok(());
            }
            id = match head >> 4 {
                0 => self.i32(4)?,
                delta => id + delta as i32,
            };
            if !(0..=i16::MAX as i32).contains(&id) {
                return corrupt("a page header's field id is out of range");
            }
            field(self, id, ty)?;
        }
    }

    fn numbers(&mut self, ty: u8) -> Result<Fields> {
        if ty != STRUCT {
            return corrupt("a nested page header is not a struct");
        }
        let mut numbers = Fields::default();
        self.fields(|input, id, ty| {
            match (numbers.0.get_mut(id as usize), ty) {
                (Some(slot), TRUE | FALSE | 4..=6) => *slot = Some(input.i32(ty)?),
                _ => input.skip(ty, 1)?,
            }
            Ok(())
        })?;
        Ok(numbers)
    }

    fn skip(&mut self, ty: u8, depth: usize) -> Result<()> {
        if depth > DEPTH_MAX {
            return corrupt("a page header is nested too deeply");
        }
        match ty {
            TRUE | FALSE => Ok(()),
            3 => self.byte().map(drop),
            4..=6 => self.varint().map(drop),
            7 => self.advance(8),
            8 => {
                let len = self.varint()?;
                self.advance(len)
            }
            9 | 10 => {
                let head = self.byte()?;
                let count = match head >> 4 {
                    15 => self.varint()?,
                    small => small as u64,
                };
                // In a list a boolean takes a byte of its own.
                let element = if matches!(head & 0x0f, TRUE | FALSE) { 3 } else { head & 0x0f };
                (0..count).try_for_each(|_| self.skip(element, depth + 1))
            }
            STRUCT => self.fields(|input, _, ty| input.skip(ty, depth + 1)),
            _ => corrupt(format!("a page header field of type {ty}")),
        }
    }

    fn advance(&mut self, len: u64) -> Result<()> {
        if len > (self.data.len() - self.at) as u64 {
            return corrupt("a page header is cut off");
        }
        self.at += len as usize;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// type 0, sizes 100 and 60, an unknown binary field 14, data header {10, RLE_DICTIONARY, RLE, RLE}.
    const SAMPLE: [u8; 23] =
        [0x15, 0, 0x15, 0xc8, 1, 0x15, 120, 0x2c, 0x15, 20, 0x15, 16, 0x15, 6, 0x15, 6, 0, 0x98, 3, 1, 2, 3, 0];

    #[test]
    fn reads_and_ignores_what_it_does_not_know() {
        let (header, len) = PageHeader::read(&SAMPLE).unwrap();
        assert_eq!(len, SAMPLE.len());
        let kind = PageKind::V1 { values: 10, encoding: Encoding::RLE_DICTIONARY, levels: Encoding::RLE };
        assert_eq!(header, PageHeader { compressed_len: 60, uncompressed_len: 100, kind });
    }

    #[test]
    fn damage_is_an_error_or_another_header() {
        for len in 0..SAMPLE.len() {
            assert!(PageHeader::read(&SAMPLE[..len]).is_err());
        }
        for at in 0..SAMPLE.len() {
            for value in 0..=255 {
                let mut data = SAMPLE;
                data[at] = value;
                let _ = PageHeader::read(&data);
            }
        }
        // A list of structs of lists ... and a list of 2^60 booleans.
        assert!(PageHeader::read(&[0x1c; 100]).is_err());
        assert!(PageHeader::read(&[0x19, 0xf1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f]).is_err());
    }
}
