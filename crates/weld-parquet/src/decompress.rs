//! From a page's stored bytes to its content, in pooled memory, never more than it declares.

use std::io::Read;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Compression;
use parquet::compression::{Codec, CodecOptionsBuilder, create_codec};

use crate::error::{Error, Result, corrupt, unsupported};
use crate::pool::{Block, BufferPool};
use crate::snappy;

/// How one column chunk's pages are decompressed.
pub(crate) struct Decompressor {
    codec: Kind,
    pool: Arc<BufferPool>,
    page_max: usize,
}

impl std::fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decompressor")
    }
}

enum Kind {
    None,
    Snappy,
    Gzip(libdeflater::Decompressor),
    Brotli,
    /// Bounded by themselves: they write into a buffer of the declared size.
    Codec(Box<dyn Codec>),
    /// Hadoop's framing of LZ4, or bare blocks from old writers.
    Lz4 {
        hadoop: Box<dyn Codec>,
        bare: Box<dyn Codec>,
    },
}

/// A block that is being filled by Snappy: the content, then slack.
#[derive(Debug)]
struct SnappyPage {
    input: Bytes,
    block: Block,
}

impl SnappyPage {
    fn job(&mut self) -> snappy::Job<'_> {
        snappy::Job { input: &self.input, out: self.block.as_mut() }
    }

    fn done(mut self) -> Bytes {
        let len = self.block.as_ref().len() - snappy::SLACK;
        self.block.truncate(len);
        self.block.into_bytes()
    }
}

impl Decompressor {
    pub(crate) fn new(codec: Compression, pool: &Arc<BufferPool>, page_max: usize) -> Result<Self> {
        let codec = match codec {
            Compression::UNCOMPRESSED => Kind::None,
            Compression::SNAPPY => Kind::Snappy,
            Compression::GZIP(_) => Kind::Gzip(libdeflater::Decompressor::new()),
            Compression::BROTLI(_) => Kind::Brotli,
            Compression::LZ4 => {
                let strict = CodecOptionsBuilder::default().set_backward_compatible_lz4(false);
                Kind::Lz4 {
                    hadoop: boxed(Compression::LZ4, strict)?,
                    bare: boxed(Compression::LZ4_RAW, CodecOptionsBuilder::default())?,
                }
            }
            Compression::ZSTD(_) | Compression::LZ4_RAW => Kind::Codec(boxed(codec, CodecOptionsBuilder::default())?),
            other => return unsupported(format!("compression {other}")),
        };
        Ok(Self { codec, pool: Arc::clone(pool), page_max })
    }

    /// Whether two pages are worth decompressing at once.
    pub(crate) fn pairs(&self) -> bool {
        matches!(self.codec, Kind::Snappy)
    }

    /// The content of a page that declares `len` bytes.
    pub(crate) fn page(&mut self, input: Bytes, len: usize) -> Result<Bytes> {
        self.check(input.len(), len)?;
        // Nothing but absent values: some writers store no stream at all then.
        if len == 0 {
            return Ok(Bytes::new());
        }
        let mut out = vec![];
        match &mut self.codec {
            Kind::None if input.len() == len => return Ok(input),
            Kind::None => return corrupt("an uncompressed page has two different sizes"),
            Kind::Snappy => {
                let mut page = self.snappy(input, len);
                snappy::decompress(page.job())?;
                return Ok(page.done());
            }
            Kind::Gzip(decompressor) => {
                let mut page = self.pool.take(len);
                if decompressor.gzip_decompress(&input, page.as_mut()) == Ok(len) {
                    return Ok(page.into_bytes());
                }
                // Of several members, or corrupt.
                let decoder = flate2::read::MultiGzDecoder::new(&input[..]);
                inflate(decoder, len, &mut out)?;
            }
            Kind::Brotli => inflate(brotli::Decompressor::new(&input[..], 4096), len, &mut out)?,
            Kind::Codec(codec) => drop(codec.decompress(&input, &mut out, Some(len))?),
            Kind::Lz4 { hadoop, bare } => {
                // A frame may inflate past any bound, and nothing current writes it.
                if input.starts_with(&[0x04, 0x22, 0x4d, 0x18]) {
                    return unsupported("LZ4 frames");
                }
                if hadoop.decompress(&input, &mut out, Some(len)).is_err() {
                    out.clear();
                    bare.decompress(&input, &mut out, Some(len))?;
                }
            }
        }
        if out.len() != len {
            return corrupt(format!("a page of {len} bytes decompresses to {}", out.len()));
        }
        Ok(Bytes::from(out))
    }

    /// Two pages at once; the codec must say [`Self::pairs`], for both.
    pub(crate) fn pair(&mut self, pages: [(Bytes, usize); 2]) -> Result<[Bytes; 2]> {
        if !self.pairs() || pages.iter().any(|(_, len)| *len == 0) {
            let [(a, a_len), (b, b_len)] = pages;
            return Ok([self.page(a, a_len)?, self.page(b, b_len)?]);
        }
        for (input, len) in &pages {
            self.check(input.len(), *len)?;
        }
        let [mut a, mut b] = pages.map(|(input, len)| self.snappy(input, len));
        snappy::decompress_together([a.job(), b.job()])?;
        Ok([a.done(), b.done()])
    }

    /// Pages of several chunks at once, none of them empty; every codec must say [`Self::pairs`].
    pub(crate) fn together<'a>(
        pages: impl IntoIterator<Item = (&'a Decompressor, Bytes, usize)>,
    ) -> Result<Vec<Bytes>> {
        let mut started = vec![];
        for (decompressor, input, len) in pages {
            decompressor.check(input.len(), len)?;
            started.push(decompressor.snappy(input, len));
        }
        snappy::decompress_together(started.iter_mut().map(SnappyPage::job))?;
        Ok(started.into_iter().map(SnappyPage::done).collect())
    }

    fn snappy(&self, input: Bytes, len: usize) -> SnappyPage {
        SnappyPage { input, block: self.pool.take(len + snappy::SLACK) }
    }

    /// Refuses sizes that cannot be true before any memory is taken for them.
    fn check(&self, input: usize, len: usize) -> Result<()> {
        if len > self.page_max {
            return Err(Error::Corrupt(format!(
                "a page of {len} bytes is larger than the limit of {} bytes",
                self.page_max
            )));
        }
        // The densest element of each format: 64 bytes from 3, 255 from 1, 258 from 2 bits.
        let ratio = match self.codec {
            Kind::Snappy => 22,
            Kind::Lz4 { .. } => 256,
            Kind::Gzip(_) => 1040,
            _ => return Ok(()),
        };
        if len / ratio > input {
            return corrupt(format!("{input} bytes cannot hold a page of {len}"));
        }
        Ok(())
    }
}

fn boxed(codec: Compression, options: CodecOptionsBuilder) -> Result<Box<dyn Codec>> {
    match create_codec(codec, &options.build())? {
        Some(codec) => Ok(codec),
        None => unsupported(format!("compression {codec}")),
    }
}

/// Reads at most one byte more than declared: enough to know that it is wrong.
fn inflate(from: impl Read, len: usize, out: &mut Vec<u8>) -> Result<()> {
    match from.take(len as u64 + 1).read_to_end(out) {
        Ok(_) => Ok(()),
        Err(error) => corrupt(format!("a compressed page: {error}")),
    }
}
