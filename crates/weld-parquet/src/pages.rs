//! The pages of a column chunk: where they are, which rows they hold, and their content.
//!
//! A flat column's page has one value or null a row, so the headers alone say which rows are where,
//! with or without an offset index. Nothing is decompressed to find out.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::page_index::offset_index::PageLocation;

use crate::decompress::Decompressor;
use crate::error::{Error, Result, corrupt, unsupported};
use crate::levels::Levels;
use crate::target::Target;
use crate::thrift::{PageHeader, PageKind};
use crate::values::{Values, length_prefixed};

/// The parts of a file that the caller has fetched, by their place in the file.
///
/// ```
/// use weld_parquet::FileRanges;
/// let ranges = FileRanges::new([(100, bytes::Bytes::from_static(b"abcdef"))]);
/// assert_eq!(&ranges.get(102..104).unwrap()[..], b"cd");
/// assert!(ranges.get(104..107).is_none());
/// ```
#[derive(Clone, Default)]
pub struct FileRanges(Vec<(u64, Bytes)>);

impl fmt::Debug for FileRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(at, bytes)| *at..*at + bytes.len() as u64)).finish()
    }
}

impl FileRanges {
    /// Ranges that do not overlap, each with its offset in the file.
    pub fn new(ranges: impl IntoIterator<Item = (u64, Bytes)>) -> Self {
        let mut ranges: Vec<_> = ranges.into_iter().collect();
        ranges.sort_by_key(|(at, _)| *at);
        Self(ranges)
    }

    /// A whole file in memory.
    pub fn whole(file: Bytes) -> Self {
        Self(vec![(0, file)])
    }

    /// A part of the file, if one of the ranges covers it.
    pub fn get(&self, range: Range<u64>) -> Option<Bytes> {
        let index = self.0.partition_point(|(at, _)| *at <= range.start).checked_sub(1)?;
        let (at, bytes) = &self.0[index];
        let start = usize::try_from(range.start - at).ok()?;
        let stop = usize::try_from(range.end.checked_sub(*at)?).ok()?;
        (start <= stop && stop <= bytes.len()).then(|| bytes.slice(start..stop))
    }

    /// Everything fetched in one piece from `start` on.
    pub(crate) fn from(&self, start: u64) -> Option<Bytes> {
        let index = self.0.partition_point(|(at, _)| *at <= start).checked_sub(1)?;
        let (at, bytes) = &self.0[index];
        let skip = usize::try_from(start - at).ok()?;
        (skip <= bytes.len()).then(|| bytes.slice(skip..))
    }

    /// Where the last range ends.
    pub(crate) fn end(&self) -> u64 {
        self.0.last().map_or(0, |(at, bytes)| at + bytes.len() as u64)
    }
}

/// The bytes of a file that a column chunk occupies, checked: metadata may say anything.
pub fn chunk_range(chunk: &ColumnChunkMetaData) -> Result<Range<u64>> {
    let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
    match (u64::try_from(start), u64::try_from(chunk.compressed_size())) {
        (Ok(start), Ok(len)) if start.checked_add(len).is_some() => Ok(start..start + len),
        _ => corrupt("a column chunk lies outside of any file"),
    }
}

/// The pages of one column chunk.
#[derive(Debug)]
pub(crate) struct Pages {
    pub(crate) dictionary: Option<DictionaryPage>,
    pub(crate) data: Vec<Page>,
}

#[derive(Debug)]
pub(crate) struct DictionaryPage {
    pub(crate) values: usize,
    pub(crate) stored: Bytes,
    pub(crate) len: usize,
}

/// A data page; one that was not fetched has no header, and no body.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) rows: Range<usize>,
    stored: Option<(PageHeader, Bytes)>,
    content: Option<Bytes>,
}

impl Pages {
    /// Finds the pages of a chunk of `rows` rows, all of them in `ranges`, or else those at
    /// `locations` that are.
    pub(crate) fn find(
        chunk: &ColumnChunkMetaData,
        rows: usize,
        ranges: &FileRanges,
        locations: Option<&[PageLocation]>,
    ) -> Result<Self> {
        let range = chunk_range(chunk)?;
        let mut pages = Self { dictionary: None, data: vec![] };
        match (ranges.get(range.clone()), locations) {
            (Some(bytes), _) => pages.walk(&bytes, rows)?,
            (None, Some(locations)) => pages.look_up(range.start, rows, ranges, locations)?,
            (None, None) => return Err(Error::Usage("a column chunk was not fetched".into())),
        }
        Ok(pages)
    }

    fn walk(&mut self, bytes: &Bytes, rows: usize) -> Result<()> {
        let (mut at, mut row) = (0, 0);
        while row < rows {
            if at == bytes.len() {
                return corrupt(format!("a column chunk has {row} rows, its row group {rows}"));
            }
            let (header, body, len) = page_at(bytes, at)?;
            at += len;
            row = self.add(header, body, row)?;
        }
        if row > rows { corrupt(format!("pages of {row} rows in a row group of {rows}")) } else { Ok(()) }
    }

    fn look_up(&mut self, start: u64, rows: usize, ranges: &FileRanges, locations: &[PageLocation]) -> Result<()> {
        let bad = || Error::Corrupt("an offset index contradicts itself".into());
        let first = locations.first().map_or(start, |l| l.offset.max(0) as u64);
        if let Some(bytes) = ranges.get(start..first).filter(|bytes| !bytes.is_empty()) {
            let (header, body, _) = page_at(&bytes, 0)?;
            self.add(header, body, 0)?;
        }
        let mut row = 0;
        for (i, location) in locations.iter().enumerate() {
            let next = locations.get(i + 1).map_or(rows as i64, |l| l.first_row_index);
            let stop = usize::try_from(next).map_err(|_| bad())?;
            if location.first_row_index != row as i64 || stop < row || stop > rows {
                return Err(bad());
            }
            let from = u64::try_from(location.offset).map_err(|_| bad())?;
            let to = from + u64::try_from(location.compressed_page_size).map_err(|_| bad())?;
            match ranges.get(from..to) {
                Some(bytes) => {
                    let (header, body, _) = page_at(&bytes, 0)?;
                    if self.add(header, body, row)? != stop {
                        return Err(bad());
                    }
                }
                None => self.data.push(Page { rows: row..stop, stored: None, content: None }),
            }
            row = stop;
        }
        if row == rows { Ok(()) } else { Err(bad()) }
    }

    /// Adds a page that starts at `row`; returns the row behind it.
    fn add(&mut self, header: PageHeader, body: Bytes, row: usize) -> Result<usize> {
        let rows = match header.kind {
            PageKind::Dictionary { values, encoding } => {
                if self.dictionary.is_some() || !self.data.is_empty() {
                    return corrupt("a dictionary page that is not the first page");
                }
                if !matches!(encoding, Encoding::PLAIN | Encoding::PLAIN_DICTIONARY) {
                    return unsupported(format!("a dictionary page in {encoding}"));
                }
                self.dictionary = Some(DictionaryPage { values, stored: body, len: header.uncompressed_len });
                return Ok(row);
            }
            PageKind::V1 { values, .. } => values,
            PageKind::V2 { values, rows, .. } if values == rows => rows,
            PageKind::V2 { .. } => return corrupt("a flat column with more values than rows"),
            PageKind::Other => return Ok(row),
        };
        let stop = row + rows;
        self.data.push(Page { rows: row..stop, stored: Some((header, body)), content: None });
        Ok(stop)
    }
}

/// The page at `at`: its header, its body, and the length of both.
fn page_at(bytes: &Bytes, at: usize) -> Result<(PageHeader, Bytes, usize)> {
    let (header, header_len) = PageHeader::read(&bytes[at..])?;
    let start = at + header_len;
    let stop = start + header.compressed_len;
    if stop > bytes.len() {
        return corrupt("a page reaches past its column chunk");
    }
    let body = bytes.slice(start..stop);
    Ok((header, body, stop - at))
}

impl Page {
    pub(crate) fn is_fetched(&self) -> bool {
        self.stored.is_some()
    }

    /// The encoding of the values, unless the page was not fetched.
    pub(crate) fn encoding(&self) -> Option<Encoding> {
        match &self.stored.as_ref()?.0.kind {
            PageKind::V1 { encoding, .. } | PageKind::V2 { encoding, .. } => Some(*encoding),
            _ => None,
        }
    }

    /// Whether this crate decodes the page, so that the whole column can be declined beforehand.
    pub(crate) fn check_supported(&self, target: &Target) -> Result<()> {
        if let Some((PageHeader { kind: PageKind::V1 { levels, .. }, .. }, _)) = &self.stored
            && target.is_nullable()
            && *levels != Encoding::RLE
        {
            return unsupported(format!("definition levels in {levels}"));
        }
        self.encoding().map_or(Ok(()), |encoding| Values::check_supported(encoding, target))
    }

    pub(crate) fn is_dictionary_coded(&self) -> bool {
        matches!(self.encoding(), Some(Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY))
    }

    pub(crate) fn is_decompressed(&self) -> bool {
        self.content.is_some()
    }

    /// Forgets the decompressed content; it can be made again.
    pub(crate) fn release(&mut self) {
        self.content = None;
    }

    /// What has to be decompressed, and to how many bytes; `None` if it is stored as it is.
    pub(crate) fn compressed(&self) -> Result<Option<(Bytes, usize)>> {
        let Some((header, body)) = &self.stored else {
            return Err(Error::Usage("rows of a page that was not fetched".into()));
        };
        let levels = match header.kind {
            PageKind::V2 { compressed: false, .. } => return Ok(None),
            PageKind::V2 { definition_len, repetition_len, .. } => definition_len + repetition_len,
            _ => 0,
        };
        if levels > body.len() || levels > header.uncompressed_len {
            return corrupt("a page's levels are longer than the page");
        }
        Ok(Some((body.slice(levels..), header.uncompressed_len - levels)))
    }

    pub(crate) fn set_content(&mut self, content: Bytes) {
        self.content = Some(content);
    }

    pub(crate) fn decompress(&mut self, decompressor: &mut Decompressor) -> Result<()> {
        if self.content.is_none()
            && let Some((stored, len)) = self.compressed()?
        {
            self.content = Some(decompressor.page(stored, len)?);
        }
        Ok(())
    }

    /// Cursors over the levels and values of a decompressed page.
    pub(crate) fn open(&self, target: &Target) -> Result<(Option<Levels>, Values)> {
        let Some((header, body)) = &self.stored else {
            return Err(Error::Usage("rows of a page that was not fetched".into()));
        };
        match header.kind {
            PageKind::V1 { encoding, .. } => {
                let content = self.content.clone().unwrap_or_default();
                if !target.is_nullable() {
                    return Ok((None, Values::new(encoding, target, content)?));
                }
                let Some((levels, values)) = length_prefixed(&content) else {
                    return corrupt("definition levels reach past their page");
                };
                Ok((Some(Levels::new(levels, target.max_level)), Values::new(encoding, target, values)?))
            }
            PageKind::V2 { encoding, definition_len, repetition_len, compressed, .. } => {
                let start = definition_len + repetition_len;
                if start > body.len() {
                    return corrupt("a page's levels are longer than the page");
                }
                let levels = match target.is_nullable() {
                    true => Some(Levels::new(body.slice(repetition_len..start), target.max_level)),
                    false => None,
                };
                let values = if compressed { self.content.clone().unwrap_or_default() } else { body.slice(start..) };
                Ok((levels, Values::new(encoding, target, values)?))
            }
            PageKind::Dictionary { .. } | PageKind::Other => corrupt("not a data page"),
        }
    }
}
