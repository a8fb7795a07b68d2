//! Persistent memory: pages that are the mapped bytes of a file, and are updated in place.
//!
//! ```text
//! step ── store ──> mapped page ── flush, fence ──> durable
//! ```
//!
//! [`Mapped`] is the medium alone. It knows neither a path nor what the file says of itself: the
//! crate `everleaf-file` makes a pool of it (`Dax`), with a superblock, a lock and a clean mark.

mod eadr;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::dram::outside;
use crate::error::{Error, Result};
use crate::flush::{Flush, Flusher};
use crate::life::Life;
use crate::medium::{Change, Medium, Redo};
use crate::page::{Geometry, LINE_BYTES, Page, PageNo, Word};
use crate::region::Region;

/// Bits of [`Mapped::refusal`].
const READ_ONLY: u32 = 1;
const CLOSED: u32 = 2;
const POISONED: u32 = 4;

const _: () = assert!(READ_ONLY & CLOSED == 0 && (READ_ONLY | CLOSED) & POISONED == 0);

/// Picks the instruction that writes lines back: `wanted`, or the best that the processor has, or
/// fences alone if the platform reports that its caches survive a power failure (eADR).
///
/// # Errors
/// [`Error::Unsupported`] if the processor lacks the instruction.
pub fn flusher(wanted: Option<Flush>) -> Result<Flusher> {
    let reported = || eadr::reported(Path::new(eadr::DEVICES));
    Flusher::pick(wanted, wanted.is_none() && reported())
}

/// A running step. If it ends in a panic, what it was changing may be half done in memory: the
/// medium refuses further steps from then on.
pub struct Running<'m>(&'m Mapped);

impl Drop for Running<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.refusal.fetch_or(POISONED, Ordering::SeqCst);
        }
    }
}

/// A mapped file as a medium; see [the module](self).
#[derive(Debug)]
pub struct Mapped {
    region: Region,
    flusher: Flusher,
    /// Why steps are refused; 0 while they are not.
    refusal: AtomicU32,
    life: Life,
}

impl Mapped {
    /// A medium on the pages of a mapped file. It refuses steps until
    /// [`allow_steps`](Self::allow_steps).
    pub fn new(region: Region, flusher: Flusher) -> Self {
        Self { region, flusher, refusal: AtomicU32::new(READ_ONLY), life: Life::default() }
    }

    /// Steps may begin from now on. A file that is opened for reading only never gets here.
    pub fn allow_steps(&self) {
        self.refusal.store(0, Ordering::SeqCst);
    }

    /// Refuses steps from now on. Says whether they were allowed until then: the medium was neither
    /// read-only nor closed, and no step had panicked.
    pub fn refuse_steps(&self) -> bool {
        self.refusal.fetch_or(CLOSED, Ordering::SeqCst) == 0
    }

    /// The medium is of no use from now on: each call answers [`Error::Closed`].
    pub fn end(&self) {
        self.life.end();
    }

    /// How lines are written back.
    pub fn flush_instruction(&self) -> Flush {
        self.flusher.how()
    }

    /// Whether page 0 has no bit set, or is not there.
    pub fn is_blank(&self) -> bool {
        let words = self.geometry().page_words();
        self.region.page(0).is_none_or(|page| (0..words).all(|i| page.word(i).load() == 0))
    }

    /// Stores bytes in front of page 0, durably, from byte `at` of the file on.
    ///
    /// # Panics
    /// If `at` or the length is no multiple of [`LINE_BYTES`], or the bytes reach page 0.
    pub fn write_lead(&self, at: usize, bytes: &[u8]) {
        assert!(at.is_multiple_of(LINE_BYTES) && bytes.len().is_multiple_of(LINE_BYTES));
        let words = &self.region.lead()[at / 8..][..bytes.len() / 8];
        for (word, bytes) in words.iter().zip(bytes.as_chunks().0) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Release);
        }
        words.iter().step_by(LINE_BYTES / 8).for_each(|line| self.flusher.line(line));
        self.flusher.fence();
    }

    /// Stores bytes in the pages, counted from the start of page 0 and without regard to headers.
    /// They are durable when this returns. Between them, two calls at a time must not touch the same
    /// 8 bytes.
    ///
    /// # Errors
    /// [`Error::Closed`]; [`Error::ReadOnly`]; [`Error::Poisoned`].
    ///
    /// # Panics
    /// If the bytes reach behind the last page.
    pub fn write_bytes(&self, start: usize, bytes: &[u8]) -> Result<()> {
        self.life.check()?;
        let words = self.region.words();
        assert!(start + bytes.len() <= 8 * words.len(), "bytes behind the last page");
        if self.refusal.load(Ordering::SeqCst) != 0 {
            return Err(self.refused());
        }
        by_words(start, bytes.len(), |word, part, run| {
            let mut value = [0; 8];
            if part.len() < 8 {
                value = words[word].load(Ordering::Acquire).to_ne_bytes();
            }
            value[part].copy_from_slice(&bytes[run]);
            words[word].store(u64::from_ne_bytes(value), Ordering::Release);
        });
        for line in start / LINE_BYTES..(start + bytes.len()).div_ceil(LINE_BYTES) {
            self.flusher.line(&words[line * LINE_BYTES / 8]);
        }
        self.flusher.fence();
        Ok(())
    }

    /// Reads bytes of the pages, counted from the start of page 0.
    ///
    /// # Errors
    /// [`Error::Closed`].
    ///
    /// # Panics
    /// If the bytes reach behind the last page.
    pub fn read_bytes(&self, start: usize, buf: &mut [u8]) -> Result<()> {
        self.life.check()?;
        let words = self.region.words();
        assert!(start + buf.len() <= 8 * words.len(), "bytes behind the last page");
        by_words(start, buf.len(), |word, part, run| {
            let value = words[word].load(Ordering::Acquire).to_ne_bytes();
            buf[run].copy_from_slice(&value[part]);
        });
        Ok(())
    }

    #[cold]
    fn refused(&self) -> Error {
        let refusal = self.refusal.load(Ordering::SeqCst);
        if refusal & READ_ONLY != 0 {
            return Error::ReadOnly;
        }
        if refusal & POISONED != 0 {
            let what = "a step on persistent memory panicked";
            return Error::Poisoned { cause: Arc::new(Error::Interrupted { what }) };
        }
        Error::Closed
    }
}

/// Calls `f` for each word that the bytes `start..start + len` touch, with those bytes' places in
/// the word and in the run.
fn by_words(start: usize, len: usize, mut f: impl FnMut(usize, Range<usize>, Range<usize>)) {
    let mut done = 0;
    while done < len {
        let (word, skip) = ((start + done) / 8, (start + done) % 8);
        let n = (8 - skip).min(len - done);
        f(word, skip..skip + n, done..done + n);
        done += n;
    }
    debug_assert!(done == len);
}

impl Medium for Mapped {
    type Op<'m> = Running<'m>;
    const JOURNALED: bool = false;

    fn geometry(&self) -> Geometry {
        self.region.geometry()
    }
    fn limit(&self) -> PageNo {
        self.region.limit()
    }
    #[inline(always)]
    fn page(&self, no: PageNo) -> Result<Page<'_>> {
        let region = &self.region;
        region.page(no).ok_or_else(|| outside(no, region.limit(), region.geometry(), "data"))
    }
    fn fetch(&self, _: Page<'_>, _: &mut Redo<'_>) -> Result<()> {
        Ok(())
    }
    #[inline(always)]
    fn store(&self, word: Word<'_>, value: u64) {
        word.put(value);
    }
    #[inline(always)]
    fn flush(&self, page: Page<'_>, line: usize) {
        debug_assert!(line <= page.slots() / 4, "line {line} is outside the page");
        self.flusher.line(page.line(line));
    }
    #[inline(always)]
    fn fence(&self) {
        self.flusher.fence();
    }
    #[inline(always)]
    fn alive(&self) -> Result<()> {
        self.life.check()
    }
    #[inline(always)]
    fn enter(&self) -> Result<Running<'_>> {
        self.life.check()?;
        let refusal = self.refusal.load(Ordering::Relaxed);
        if refusal == 0 { Ok(Running(self)) } else { Err(self.refused()) }
    }
    #[inline(always)]
    fn note(&self, _: &mut Running<'_>, _: Page<'_>, _: Change<'_>) {}
    fn epoch(&self, _: &Running<'_>) -> u64 {
        0
    }
}
