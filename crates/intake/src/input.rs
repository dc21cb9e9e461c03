//! Files that may be compressed: gzip, bzip2, Zstandard and xz, recognised by their first bytes.

use std::io::{self, BufReader, Chain, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bzip2::read::MultiBzDecoder;
use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::StreamingDecoder;

/// Counts the bytes that are read through it, for a progress bar.
#[derive(Debug)]
pub struct Counted<R> {
    inner: R,
    bytes: Arc<AtomicU64>,
}

impl<R> Counted<R> {
    /// Creates a reader, and returns it with the counter that it will add to.
    pub fn new(inner: R) -> (Self, Arc<AtomicU64>) {
        let bytes = Arc::new(AtomicU64::new(0));
        (Self::adding(inner, Arc::clone(&bytes)), bytes)
    }

    /// Creates a reader that adds to a counter.
    pub fn adding(inner: R, bytes: Arc<AtomicU64>) -> Self {
        Self { inner, bytes }
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(into)?;
        self.bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// Returns the bytes of a file, decompressed if they are compressed.
///
/// Compressed files may have several members or frames, as `cat a.gz b.gz` and `pzstd` write them.
pub fn decompressed<R: Read + Send + 'static>(
    mut file: R,
) -> io::Result<Box<dyn Read + Send + 'static>> {
    let mut magic = Vec::with_capacity(4);
    // Pipes may give fewer bytes than asked for.
    file.by_ref().take(4).read_to_end(&mut magic)?;
    let whole: Head<R> = Cursor::new(magic.clone()).chain(file);
    Ok(match *magic.as_slice() {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(whole)),
        [b'B', b'Z', b'h', b'1'..=b'9'] => Box::new(MultiBzDecoder::new(whole)),
        [0xfd, b'7', b'z', b'X'] => {
            // Its decoder reads a few bytes at a time.
            Box::new(XzReader::new_mem_limit(BufReader::new(whole), true, XZ_KB))
        }
        [0x28, 0xb5, 0x2f, 0xfd] => Box::new(Zstandard::Between(BufReader::new(whole))),
        _ => Box::new(whole),
    })
}

/// The memory that an xz file may claim, in KiB: `xz -9` claims 65 MB.
const XZ_KB: u32 = 100 << 10;

type Head<R> = Chain<Cursor<Vec<u8>>, R>;

/// The frames of a Zstandard file one after the other (RFC 8878, section 3).
///
/// ruzstd bounds the window, and so the memory, at 100 MB.
enum Zstandard<R: Read> {
    Between(BufReader<R>),
    Within(Box<StreamingDecoder<BufReader<R>, ruzstd::decoding::FrameDecoder>>),
    Done,
}

impl<R: Read> Read for Zstandard<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match std::mem::replace(self, Self::Done) {
                Self::Done => return Ok(0),
                Self::Between(mut file) => {
                    use std::io::BufRead;
                    if !file.fill_buf()?.is_empty() {
                        let frame = StreamingDecoder::new(file).map_err(io::Error::other)?;
                        *self = Self::Within(Box::new(frame));
                    }
                }
                Self::Within(mut frame) => {
                    let count = frame.read(into)?;
                    if count > 0 || into.is_empty() {
                        *self = Self::Within(frame);
                        return Ok(count);
                    }
                    *self = Self::Between(frame.into_inner());
                }
            }
        }
    }
}
