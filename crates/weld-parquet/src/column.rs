//! Reading one column chunk: any rows, in ascending order, as Arrow arrays.
//!
//! ```text
//! let mut column = ColumnReader::open(chunk, rows, target, &ranges, None, &options)?;
//! column.filter(&mut |values| lt(values, &day), &mut selection)?;   // once per dictionary entry
//! column.rewind();
//! let array = column.read(&selection, 0..selection.len())?;         // survivors only
//! ```
//!
//! Pages without wanted rows are never decompressed. Pages that will be read one after the other
//! are decompressed two at a time, where the codec gains from it.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, DictionaryArray, downcast_integer, new_null_array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::page_index::offset_index::PageLocation;

use crate::batch::Batch;
use crate::decompress::Decompressor;
use crate::dictionary::Dictionary;
use crate::error::{Error, Result, unsupported};
use crate::hybrid_rle::{BLOCK, Decoded, Hybrid};
use crate::levels::{Levels, Validity};
use crate::pages::{DictionaryPage, FileRanges, Pages};
use crate::pool::BufferPool;
use crate::selection::{Selection, Span, split_stretch};
use crate::sieve::Verdicts;
use crate::target::Target;
use crate::values::Values;

/// A predicate over the values of one column: true, false or null for each. It is called with the
/// values of a dictionary, with a batch of plain values, or with a single null.
pub type Predicate<'a> = dyn FnMut(&ArrayRef) -> Result<BooleanArray, ArrowError> + 'a;

/// What a decoded column looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// Values.
    #[default]
    Flat,
    /// A dictionary array (`Int32` codes) where the whole chunk is coded, values otherwise.
    Encoded,
}

/// What columns share while they are read.
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// Where memory comes from and returns to.
    pub pool: Arc<BufferPool>,
    /// A page that claims to be larger is refused.
    pub page_bytes_max: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { pool: BufferPool::new(64 << 20), page_bytes_max: 1 << 30 }
    }
}

/// A cursor over one column chunk.
#[derive(Debug)]
pub struct ColumnReader {
    target: Target,
    rows: usize,
    encoded: bool,
    /// The dictionary type that was asked for, and the chunk's entries in its type.
    given: Option<(DataType, Option<ArrayRef>)>,
    pages: Pages,
    dictionary: Option<Dictionary>,
    decompressor: Decompressor,
    options: ReadOptions,
    cursor: Option<Cursor>,
    /// Keep decompressed pages: they are going to be read again.
    keep: bool,
}

/// A place in an open page.
#[derive(Debug)]
struct Cursor {
    page: usize,
    next: usize,
    end: usize,
    levels: Option<Levels>,
    values: Values,
}

impl ColumnReader {
    /// Opens a column chunk of a row group of `rows` rows, decoding to `target`. The whole chunk is
    /// in `ranges`, or the offset index says where those pages are that were fetched.
    pub fn open(
        chunk: &ColumnChunkMetaData,
        rows: usize,
        target: Target,
        form: Form,
        ranges: &FileRanges,
        locations: Option<&[PageLocation]>,
        options: &ReadOptions,
    ) -> Result<Self> {
        if rows >= u32::MAX as usize {
            return unsupported(format!("a row group of {rows} rows"));
        }
        let pages = Pages::find(chunk, rows, ranges, locations)?;
        pages.data.iter().try_for_each(|page| page.check_supported(&target))?;
        let encoded = form == Form::Encoded
            && pages.dictionary.is_some()
            && pages.data.iter().all(|p| p.encoding().is_none() || p.is_dictionary_coded());
        let decompressor = Decompressor::new(chunk.compression(), &options.pool, options.page_bytes_max)?;
        Ok(Self {
            target,
            rows,
            encoded,
            given: None,
            pages,
            dictionary: None,
            decompressor,
            options: options.clone(),
            cursor: None,
            keep: false,
        })
    }

    /// Whether arrays will be dictionary arrays.
    pub fn is_encoded(&self) -> bool {
        self.encoded
    }

    /// Gives arrays of a dictionary type, for a chunk that is read encoded and whose codes the type has.
    pub fn with_dictionary_type(self, data_type: &DataType) -> Result<Self> {
        let entries = self.pages.dictionary.as_ref().map_or(0, |page| page.values);
        if !self.encoded || !has_codes(data_type, entries) {
            return unsupported(format!("{data_type} of a chunk that is not all codes of that type"));
        }
        Ok(Self { given: Some((data_type.clone(), None)), ..self })
    }

    /// The type of the arrays that [`Self::read`] returns.
    pub fn data_type(&self) -> DataType {
        if let Some((data_type, _)) = &self.given {
            return data_type.clone();
        }
        let values = self.target.data_type().clone();
        match self.encoded {
            true => DataType::Dictionary(Box::new(DataType::Int32), Box::new(values)),
            false => values,
        }
    }

    /// Keeps decompressed pages, for a column that is read again after [`Self::rewind`].
    pub fn keep_pages(&mut self) {
        self.keep = true;
    }

    /// Whether the pages of these rows were fetched.
    pub(crate) fn has_pages_of(&self, selection: &Selection) -> bool {
        self.pages.data.iter().all(|page| page.is_fetched() || selection.within(page.rows.clone()).len() == 0)
    }

    /// Goes back to the first row.
    pub fn rewind(&mut self) {
        self.cursor = None;
    }

    /// The chunk's dictionary, if it has one; decoded once.
    pub fn dictionary(&mut self) -> Result<Option<&ArrayRef>> {
        self.load_dictionary()?;
        Ok(self.dictionary.as_ref().map(Dictionary::values))
    }

    /// Decompresses and decodes the dictionaries of several columns, of one row group or several: some at a time, which
    /// is where Snappy's waiting can be hidden.
    pub fn load_dictionaries<'a>(columns: impl IntoIterator<Item = &'a mut ColumnReader>) -> Result<()> {
        let mut together = vec![];
        for column in columns {
            match &column.pages.dictionary {
                Some(page) if page.len > 0 && column.dictionary.is_none() && column.decompressor.pairs() => {
                    together.push(column);
                }
                _ => column.load_dictionary()?,
            }
        }
        // The largest first: what is left to decode alone at the end is little then.
        together.sort_by_key(|c| std::cmp::Reverse(c.pages.dictionary.as_ref().map_or(0, |d| d.len)));
        let pages: Vec<DictionaryPage> = together.iter_mut().filter_map(|c| c.pages.dictionary.take()).collect();
        let stored = together.iter().zip(&pages).map(|(c, page)| (&c.decompressor, page.stored.clone(), page.len));
        let contents = Decompressor::together(stored)?;
        for ((column, page), content) in together.into_iter().zip(&pages).zip(contents) {
            column.set_dictionary(content, page.values)?;
        }
        Ok(())
    }

    fn load_dictionary(&mut self) -> Result<()> {
        if let Some(page) = self.pages.dictionary.take() {
            let body = self.decompressor.page(page.stored, page.len)?;
            self.set_dictionary(body, page.values)?;
        }
        Ok(())
    }

    fn set_dictionary(&mut self, body: bytes::Bytes, values: usize) -> Result<()> {
        let ReadOptions { pool, page_bytes_max } = &self.options;
        self.dictionary = Some(Dictionary::decode(body, values, &self.target, pool, *page_bytes_max)?);
        Ok(())
    }

    /// Decodes the selected rows number `positions` of `selection`; calls ascend.
    pub fn read(&mut self, selection: &Selection, positions: Range<usize>) -> Result<ArrayRef> {
        if positions.start > positions.end || positions.end > selection.len() {
            return Err(Error::Usage("positions past the end of a selection".into()));
        }
        let array = self.read_span(selection.nth(positions))?;
        match &mut self.given {
            Some((data_type, entries)) => in_type(&array, data_type, entries),
            None => Ok(array),
        }
    }

    fn read_span(&mut self, span: Span<'_>) -> Result<ArrayRef> {
        let rows = span.len();
        let mut batch = if self.encoded {
            self.load_dictionary()?;
            Batch::codes(rows, &self.options.pool)
        } else {
            // Only text needs the dictionary first: its buffers come before those of plain pages.
            let max = self.options.page_bytes_max;
            if self.pages.dictionary.is_some() && self.any_coded() {
                self.load_dictionary()?;
            }
            Batch::values(rows, &self.target, self.dictionary.as_ref(), &self.options.pool, max)
        };
        let mut rest = span;
        while let Some(first) = rest.first() {
            let (now, later) = rest.split_before(self.seek(first, true)?);
            let Some(cursor) = &mut self.cursor else {
                break;
            };
            cursor.fill(now, &self.target, self.dictionary.as_ref(), &mut batch)?;
            rest = later;
        }
        // An encoded chunk in which nothing was asked for may have no dictionary yet.
        batch.finish(self.target.data_type(), self.dictionary.as_ref())
    }

    fn any_coded(&self) -> bool {
        self.pages.data.iter().any(|p| p.is_dictionary_coded())
    }

    /// Opens the page that holds `row`, unless it is open; returns the row behind that page.
    fn seek(&mut self, row: usize, pairs: bool) -> Result<usize> {
        if row >= self.rows {
            return Err(Error::Usage(format!("row {row} of {}", self.rows)));
        }
        if let Some(cursor) = &self.cursor {
            if row < cursor.next {
                return Err(Error::Usage("rows must be read in ascending order".into()));
            }
            if row < cursor.end {
                return Ok(cursor.end);
            }
            if !self.keep {
                self.pages.data[cursor.page].release();
            }
        }
        let index = self.pages.data.partition_point(|p| p.rows.end <= row);
        self.decompress(index, pairs)?;
        let page = &self.pages.data[index];
        let (levels, values) = page.open(&self.target)?;
        if page.is_dictionary_coded() {
            self.load_dictionary()?;
        }
        let Range { start: next, end } = self.pages.data[index].rows;
        self.cursor = Some(Cursor { page: index, next, end, levels, values });
        Ok(end)
    }

    /// Decompresses page `index`, and the one behind it with it if that pays.
    fn decompress(&mut self, index: usize, pairs: bool) -> Result<()> {
        let (page, next) = match &mut self.pages.data[index..] {
            [page, next, ..] if pairs && self.decompressor.pairs() => (page, next),
            [page, ..] => return page.decompress(&mut self.decompressor),
            [] => return Ok(()),
        };
        if page.is_decompressed() || next.is_decompressed() {
            return page.decompress(&mut self.decompressor);
        }
        match (page.compressed()?, next.compressed()) {
            // Errors of the next page are reported when it is its turn.
            (Some(a), Ok(Some(b))) if b.1 > 0 && a.1 > 0 => {
                match self.decompressor.pair([a, b]) {
                    Ok([a, b]) => {
                        page.set_content(a);
                        next.set_content(b);
                    }
                    Err(_) => page.decompress(&mut self.decompressor)?,
                }
                Ok(())
            }
            _ => page.decompress(&mut self.decompressor),
        }
    }

    /// Keeps those rows of `selection` whose values satisfy `predicate`.
    ///
    /// A dictionary's entries are judged once; if all fail, no data page is even decompressed.
    pub fn filter(&mut self, predicate: &mut Predicate<'_>, selection: &mut Selection) -> Result<()> {
        selection.check(self.rows)?;
        self.filter_checked(predicate, selection)
    }

    /// The same for a selection that was checked, or made by the last filter.
    pub(crate) fn filter_checked(&mut self, predicate: &mut Predicate<'_>, selection: &mut Selection) -> Result<()> {
        let verdicts = self.verdicts(predicate, selection.len())?;
        if let Some(verdicts) = &verdicts
            && self.pages.data.iter().all(|p| p.is_dictionary_coded())
        {
            if verdicts.all(true) {
                return Ok(());
            }
            if verdicts.all(false) {
                *selection = Selection::Rows(vec![]);
                return Ok(());
            }
        }
        let mut kept = Vec::with_capacity(selection.len());
        for index in 0..self.pages.data.len() {
            let page = &self.pages.data[index];
            let span = selection.within(page.rows.clone());
            let Some(first) = span.first() else { continue };
            let coded = page.is_dictionary_coded();
            match (&verdicts, coded) {
                (Some(verdicts), true) => {
                    self.seek(first, matches!(selection, Selection::All(_)))?;
                    if let Some(cursor) = &mut self.cursor {
                        cursor.judge(span, verdicts, &self.target, &mut kept)?;
                    }
                }
                _ => self.judge_values(span, predicate, &mut kept)?,
            }
        }
        *selection = if kept.len() == self.rows { Selection::All(self.rows) } else { Selection::Rows(kept) };
        Ok(())
    }

    /// The same for rows that have not been read; they are read next. Their pages stay decompressed until then.
    pub(crate) fn filter_ahead(&mut self, predicate: &mut Predicate<'_>, selection: &mut Selection) -> Result<()> {
        let keep = std::mem::replace(&mut self.keep, true);
        let filtered = self.filter_checked(predicate, selection);
        self.keep = keep;
        self.rewind();
        filtered
    }

    /// What `predicate` says about each dictionary entry and about null, unless that is more work than to judge the
    /// rows.
    fn verdicts(&mut self, predicate: &mut Predicate<'_>, rows: usize) -> Result<Option<Verdicts>> {
        if !self.any_coded() {
            return Ok(None);
        }
        self.load_dictionary()?;
        let Some(dictionary) = self.dictionary.as_ref().filter(|dictionary| dictionary.len() <= rows) else {
            return Ok(None);
        };
        let mut entries = judged(predicate, dictionary.values())?;
        entries.truncate(dictionary.len());
        let null = match self.target.is_nullable() {
            true => judged(predicate, &new_null_array(self.target.data_type(), 1))?.first().copied(),
            false => None,
        };
        Ok(Some(Verdicts::new(entries, null)))
    }

    /// Judges rows of plain pages by their values.
    fn judge_values(&mut self, span: Span<'_>, predicate: &mut Predicate<'_>, kept: &mut Vec<u32>) -> Result<()> {
        let encoded = std::mem::replace(&mut self.encoded, false);
        let mut rest = span;
        let done = loop {
            let Some(first) = rest.first() else {
                break Ok(());
            };
            let (now, later) = rest.split_before(first + JUDGED_ROWS);
            let verdict = self.read_span(now.clone()).and_then(|values| verdict(predicate, &values));
            match (verdict, &now) {
                (Ok(verdict), Span::Range(range)) => keep_rows(&verdict, range.start as u32, kept),
                (Ok(verdict), Span::Rows(rows)) => kept.extend(verdict.set_indices().map(|i| rows[i])),
                (Err(error), _) => break Err(error),
            }
            rest = later;
        };
        self.encoded = encoded;
        done
    }
}

/// Whether a dictionary of the type may have so many entries.
fn has_codes(data_type: &DataType, entries: usize) -> bool {
    let DataType::Dictionary(codes, _) = data_type else { return false };
    match **codes {
        DataType::Int8 => entries <= 1 << 7,
        DataType::UInt8 => entries <= 1 << 8,
        DataType::Int16 => entries <= 1 << 15,
        DataType::UInt16 => entries <= 1 << 16,
        DataType::Int32 | DataType::UInt32 | DataType::Int64 | DataType::UInt64 => entries <= i32::MAX as usize,
        _ => false,
    }
}

/// A dictionary array in another dictionary type. `entries` are its values in that type, which are made once: batches
/// of a chunk share them.
fn in_type(array: &ArrayRef, data_type: &DataType, entries: &mut Option<ArrayRef>) -> Result<ArrayRef> {
    let (Some(dictionary), DataType::Dictionary(codes, entry_type)) = (array.as_any_dictionary_opt(), data_type) else {
        return Err(Error::Usage(format!("an array of {} as {data_type}", array.data_type())));
    };
    let entries = match entries {
        Some(entries) => &*entries,
        None => entries.insert(cast(dictionary.values(), entry_type)?),
    };
    let keys = cast(dictionary.keys(), codes)?;
    macro_rules! of_codes {
        ($codes:ty) => {{
            let keys = keys.as_primitive::<$codes>().clone();
            // SAFETY: they are the codes of `array`, all of which the type has, and there is an entry for each.
            Ok(Arc::new(unsafe { DictionaryArray::<$codes>::new_unchecked(keys, Arc::clone(entries)) }))
        }};
    }
    downcast_integer! {
        codes.as_ref() => (of_codes),
        other => Err(Error::Usage(format!("a dictionary with codes of {other}")))
    }
}

/// Plain values judged at a time.
const JUDGED_ROWS: usize = 8192;

/// Appends the rows from `first` on whose bits are set, 64 at once where all are.
fn keep_rows(verdict: &BooleanBuffer, first: u32, kept: &mut Vec<u32>) {
    kept.reserve(verdict.len());
    let chunks = verdict.bit_chunks();
    let mut row = first;
    for word in chunks.iter_padded() {
        let mut left = word;
        if left == u64::MAX {
            kept.extend(row..row + 64);
            left = 0;
        }
        while left != 0 {
            kept.push(row + left.trailing_zeros());
            left &= left - 1;
        }
        row += 64;
    }
}

/// Where the predicate is true.
fn verdict(predicate: &mut Predicate<'_>, values: &ArrayRef) -> Result<BooleanBuffer> {
    let verdict = predicate(values)?;
    if verdict.len() != values.len() {
        return Err(Error::Usage("a predicate returned another number of rows".into()));
    }
    Ok(match verdict.nulls() {
        Some(nulls) => verdict.values() & nulls.inner(),
        None => verdict.values().clone(),
    })
}

/// One byte a value: 1 where the predicate is true.
fn judged(predicate: &mut Predicate<'_>, values: &ArrayRef) -> Result<Vec<u8>> {
    let mut judged = vec![0; values.len()];
    verdict(predicate, values)?.set_indices().for_each(|index| judged[index] = 1);
    Ok(judged)
}

impl Cursor {
    /// Appends the rows of `span`, which lies in this page.
    fn fill(
        &mut self,
        span: Span<'_>,
        target: &Target,
        dictionary: Option<&Dictionary>,
        batch: &mut Batch,
    ) -> Result<()> {
        let mut rows = match span {
            Span::Range(range) => return self.fill_range(range, target, dictionary, batch),
            Span::Rows(rows) => rows,
        };
        while !rows.is_empty() {
            let (part, rest) = split_stretch(rows);
            match part {
                Span::Range(range) => self.fill_range(range, target, dictionary, batch)?,
                Span::Rows(rows) => self.fill_rows(rows, target, dictionary, batch)?,
            }
            rows = rest;
        }
        Ok(())
    }

    fn fill_range(
        &mut self,
        range: Range<usize>,
        target: &Target,
        dictionary: Option<&Dictionary>,
        batch: &mut Batch,
    ) -> Result<()> {
        let at = batch.validity.len();
        self.skip_to(range.start, target)?;
        let present = read_levels(&mut self.levels, range.len(), &mut batch.validity)?;
        self.values.read(present, target, dictionary, &batch.validity, &mut batch.data, at)?;
        self.next = range.end;
        batch.spread(target, at, present);
        Ok(())
    }

    fn fill_rows(
        &mut self,
        rows: &[u32],
        target: &Target,
        dictionary: Option<&Dictionary>,
        batch: &mut Batch,
    ) -> Result<()> {
        let at = batch.validity.len();
        let (offsets, behind) = self.value_offsets(rows, &mut batch.validity)?;
        self.values.pick(&offsets, target, dictionary, &batch.validity, &mut batch.data, at)?;
        self.values.skip(behind, target)?;
        batch.spread(target, at, offsets.len());
        Ok(())
    }

    /// The offsets of the values of `rows`, where present; also how many values lie between the last of those and the
    /// last row, for the cursor to pass.
    fn value_offsets(&mut self, rows: &[u32], validity: &mut Validity) -> Result<(Vec<u32>, usize)> {
        let Some(&last) = rows.last() else { return Ok((vec![], 0)) };
        let mut offsets: Vec<u32> = rows.iter().map(|row| row - self.next as u32).collect();
        self.next = last as usize + 1;
        let Some(levels) = &mut self.levels else {
            validity.append_present(rows.len());
            return Ok((offsets, 0));
        };
        let passed = levels.pick(&mut offsets, validity)?;
        let behind = passed - offsets.last().map_or(0, |&offset| offset as usize + 1);
        Ok((offsets, behind))
    }

    fn skip_to(&mut self, row: usize, target: &Target) -> Result<()> {
        let rows = row - self.next;
        let values = match &mut self.levels {
            Some(levels) => levels.skip(rows)?,
            None => rows,
        };
        self.next = row;
        self.values.skip(values, target)
    }

    /// Appends to `kept` the rows of `span` whose codes pass; the values are codes.
    fn judge(&mut self, span: Span<'_>, verdicts: &Verdicts, target: &Target, kept: &mut Vec<u32>) -> Result<()> {
        let mut rows = match span {
            Span::Range(range) => return self.judge_range(range, verdicts, target, kept),
            Span::Rows(rows) => rows,
        };
        while !rows.is_empty() {
            let (part, rest) = split_stretch(rows);
            match part {
                Span::Range(range) => self.judge_range(range, verdicts, target, kept)?,
                Span::Rows(rows) => self.judge_rows(rows, verdicts, target, kept)?,
            }
            rows = rest;
        }
        Ok(())
    }

    fn judge_range(
        &mut self,
        range: Range<usize>,
        verdicts: &Verdicts,
        target: &Target,
        kept: &mut Vec<u32>,
    ) -> Result<()> {
        self.skip_to(range.start, target)?;
        self.next = range.end;
        let codes = codes(&mut self.values)?;
        let mut scratch = [0; BLOCK];
        let mut validity = Validity::default();
        if self.levels.is_none() {
            return judge_present(codes, range.start as u32..range.end as u32, verdicts, &mut scratch, kept);
        }
        for start in range.clone().step_by(BLOCK) {
            let rows = start as u32..range.end.min(start + BLOCK) as u32;
            validity.clear();
            let present = read_levels(&mut self.levels, rows.len(), &mut validity)?;
            if validity.has_nulls() {
                let slots = &mut scratch[..rows.len()];
                codes.read(&mut slots[..present])?;
                verdicts.sift_nullable(rows, &validity, slots, present, kept)?;
            } else {
                judge_present(codes, rows, verdicts, &mut scratch, kept)?;
            }
        }
        Ok(())
    }

    fn judge_rows(&mut self, rows: &[u32], verdicts: &Verdicts, target: &Target, kept: &mut Vec<u32>) -> Result<()> {
        let mut scratch = [0; BLOCK];
        let mut validity = Validity::default();
        for rows in rows.chunks(BLOCK) {
            validity.clear();
            let (offsets, behind) = self.value_offsets(rows, &mut validity)?;
            let slots = &mut scratch[..rows.len()];
            codes(&mut self.values)?.pick(&offsets, &mut slots[..offsets.len()])?;
            self.values.skip(behind, target)?;
            verdicts.sift_nullable(rows.iter().copied(), &validity, slots, offsets.len(), kept)?;
        }
        Ok(())
    }
}

fn codes(values: &mut Values) -> Result<&mut Hybrid> {
    match values {
        Values::Codes(codes) => Ok(codes),
        _ => Err(Error::Usage("judged a page without codes".into())),
    }
}

/// Judges `rows`, all of which have a value: long runs at once.
fn judge_present(
    codes: &mut Hybrid,
    rows: Range<u32>,
    verdicts: &Verdicts,
    scratch: &mut [u32; BLOCK],
    kept: &mut Vec<u32>,
) -> Result<()> {
    let mut row = rows.start;
    while row < rows.end {
        row = match codes.next_block((rows.end - row) as usize, scratch)? {
            Decoded::Run { value, count } => {
                let stop = row + count as u32;
                verdicts.sift_run(row..stop, value, kept)?;
                stop
            }
            Decoded::Codes(count) => {
                let stop = row + count as u32;
                verdicts.sift(row..stop, &scratch[..count], kept)?;
                stop
            }
        };
    }
    Ok(())
}

fn read_levels(levels: &mut Option<Levels>, rows: usize, validity: &mut Validity) -> Result<usize> {
    match levels {
        Some(levels) => levels.read(rows, validity),
        None => {
            validity.append_present(rows);
            Ok(rows)
        }
    }
}
