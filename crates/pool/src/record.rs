//! Names of records, and reading them without a latch.

use std::cmp::Ordering;
use std::sync::atomic;

use everleaf_pmem::{LINE_BYTES, Medium, Page, PageNo, Result, Retries, Seen, Version, fallible};

use crate::change::damaged;
use crate::kind::{KIND_WORD, RECORD, kind_of};
use crate::layout;
use crate::pool::{Pool, life_of};

/// The name of a record: its page, and the place in the page in units of 16 bytes. 48 bits, never
/// all zero for a record that exists, because page 0 is a map page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordRef(u64);

const _: () = assert!(PageNo::BITS + u16::BITS == RecordRef::BITS, "page and unit make a name");

impl RecordRef {
    const BITS: u32 = 48;

    pub(crate) fn new(page: PageNo, unit: u16) -> Self {
        debug_assert!(page != 0, "page 0 is a map page, so no record is named 0");
        Self(u64::from(page) << 16 | u64::from(unit))
    }
    /// The name in the low 48 bits of a word. Any bits are a name; only reading shows whether there is
    /// such a record.
    #[inline(always)]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits & ((1 << Self::BITS) - 1))
    }
    /// The name as a number below 2^48.
    #[inline(always)]
    pub const fn bits(self) -> u64 {
        self.0
    }
    /// The record's page.
    #[inline(always)]
    pub const fn page(self) -> PageNo {
        (self.0 >> 16) as PageNo
    }
    /// The record's place: its first unit of 16 bytes in the body.
    #[inline(always)]
    pub const fn unit(self) -> u16 {
        self.0 as u16
    }
}

/// A record as a reader sees it: words loaded one by one while writers go on.
///
/// A reader that took no latch may see another record's bytes, or a mixture, if the record was freed
/// meanwhile. Even then nothing here panics or leaves the page. Before the caller believes what it
/// read, errors included, it validates the leaf that held the name, and [`RecordView::is_current`].
#[derive(Clone, Copy)]
pub struct RecordView<'p> {
    page: Page<'p>,
    first: usize,
    words: usize,
    /// None if the page is latched by the step that reads.
    seen: Option<(Version, u64)>,
}

impl<'p> RecordView<'p> {
    #[inline(always)]
    pub(crate) fn view(page: Page<'p>, r: RecordRef, seen: Option<(Version, u64)>) -> Self {
        let unit = usize::from(r.unit());
        Self { page, first: 2 * unit, words: 2 * page.slots().saturating_sub(unit), seen }
    }
    /// The page that the record is in.
    pub fn page(&self) -> Page<'p> {
        self.page
    }
    /// Bytes from the record's start to the end of its page: no read goes further.
    pub fn capacity(&self) -> usize {
        8 * self.words
    }
    pub(crate) fn offset_in_page(&self) -> usize {
        LINE_BYTES + 8 * self.first
    }
    /// Word `i` of the record, its 8 bytes as a little-endian number; 0 behind the page.
    #[inline(always)]
    pub fn word(&self, i: usize) -> u64 {
        if i < self.words { self.page.body_word(self.first + i).load() } else { 0 }
    }
    /// 8 bytes from byte `at` on, as a little-endian number; 0 behind the page.
    #[inline(always)]
    pub fn word_at(&self, at: usize) -> u64 {
        self.page.load_le(self.offset_in_page().saturating_add(at))
    }

    /// Appends `len` bytes from byte `from` on, fewer if the page ends before. O(len / 8).
    ///
    /// # Errors
    /// [`Error::NoMemory`](everleaf_pmem::Error::NoMemory).
    pub fn copy(&self, from: usize, len: usize, out: &mut Vec<u8>) -> Result<()> {
        let len = len.min(self.capacity().saturating_sub(from));
        fallible::more(out, len, "a copy of a record")?;
        // There is room: nothing is allocated here.
        self.append(from, len, out);
        Ok(())
    }

    /// `len` bytes from byte `from` on, as [`copy`](Self::copy).
    ///
    /// # Errors
    /// As [`copy`](Self::copy).
    #[inline]
    pub(crate) fn bytes(&self, from: usize, len: usize, what: &'static str) -> Result<Vec<u8>> {
        let len = len.min(self.capacity().saturating_sub(from));
        let mut out = fallible::list(len, what)?;
        self.append(from, len, &mut out);
        Ok(out)
    }

    /// Fills `buf` from byte `from` on.
    ///
    /// # Errors
    /// [`Error::Corrupt`](everleaf_pmem::Error::Corrupt) if the page ends before.
    pub(crate) fn copy_out(&self, from: usize, buf: &mut [u8]) -> Result<()> {
        let at = self.offset_in_page().saturating_add(from);
        match self.page.copy_out(at, buf) {
            true => Ok(()),
            false => Err(damaged(self.page, self.offset_in_page(), "a record beyond its page")),
        }
    }

    /// There is room, and the record's page has the bytes.
    fn append(&self, from: usize, len: usize, out: &mut Vec<u8>) {
        let done = self.page.append_to(self.offset_in_page().saturating_add(from), len, out);
        debug_assert!(done || len == 0, "{len} bytes from {from} on");
    }

    /// Compares the `len` bytes from byte `from` on with `other`, as byte strings. O(min of both /
    /// 8), eight bytes at a time.
    pub fn compare(&self, from: usize, other: &[u8], len: usize) -> Ordering {
        let len = len.min(self.capacity().saturating_sub(from));
        self.page.cmp_bytes(self.offset_in_page().saturating_add(from), len, other)
    }

    /// The record's name.
    pub(crate) fn name(&self) -> Option<RecordRef> {
        let unit = u16::try_from(self.first / 2).ok()?;
        (self.page.no() != 0).then(|| RecordRef::new(self.page.no(), unit))
    }

    /// Whether a record is in this place, and none that was freed.
    pub(crate) fn is_in_use(&self) -> bool {
        let unit = u16::try_from(self.first / 2).ok();
        let bit = unit.and_then(|unit| layout::shape_of(self.page)?.bit(unit));
        bit.is_some_and(|bit| layout::has(&layout::used(self.page), bit))
    }

    /// Whether nobody has changed the page since it was looked at first.
    pub(crate) fn is_unchanged(&self) -> bool {
        self.seen.is_some_and(|(version, _)| self.page.latch().validate(version))
    }

    /// Whether the page stayed in memory while this view was read. If it was evicted in between, the
    /// answer is no, and the caller reads again. This may wait for a writer of the page.
    pub fn is_current(&self) -> bool {
        let Some((version, life)) = self.seen else { return true };
        if self.page.latch().validate(version) {
            return true;
        }
        let ready = matches!(self.page.latch().read_version(), Seen::Ready(_));
        ready && life_of(self.page).load(atomic::Ordering::Acquire) == life
    }
}

/// Waits until a writer has left a record page. One that is something else is not waited for: a
/// damaged name may lead a thread to a node that it holds itself.
#[cold]
fn wait_for_writer(page: Page<'_>, version: Version) -> Result<()> {
    let kind = kind_of(page.head(KIND_WORD).load());
    if kind != RECORD && page.latch().validate(version) {
        return Err(damaged(page, 8 * KIND_WORD, "should be a record page"));
    }
    page.latch().read_version();
    Ok(())
}

/// Lines of a record that are asked for ahead; the processor sees from them how it goes on.
const LINES_AHEAD: usize = 4;

impl<M: Medium> Pool<M> {
    /// Asks the processor to fetch a record that will be read soon: the frame of its page and its first
    /// lines. The name need not be that of a record.
    #[inline]
    pub fn prefetch_record(&self, r: RecordRef) {
        if let Ok(page) = self.page(r.page()) {
            page.prefetch(0);
            let first = LINE_BYTES + 16 * usize::from(r.unit());
            (0..LINES_AHEAD).for_each(|line| page.prefetch_at(first + line * LINE_BYTES));
        }
    }

    /// Views a record. This takes no latch once the page is in memory, but it waits for a writer that
    /// holds the page, so a caller that has latched record pages itself uses
    /// [`Step::view`](crate::Step::view) instead. O(1).
    ///
    /// # Errors
    /// [`Error::Corrupt`](everleaf_pmem::Error::Corrupt) if the page lies outside the pool, or a writer
    /// holds it and it is no record page; errors of the first fetch. A stale name may cause each.
    #[inline]
    pub fn record(&self, r: RecordRef) -> Result<RecordView<'_>> {
        let page = self.page(r.page())?;
        let mut turns = Retries::default();
        loop {
            match page.latch().read_version_racing() {
                Seen::Ready(version) if version.is_racing() => wait_for_writer(page, version)?,
                Seen::Ready(version) => {
                    let life = life_of(page).load(atomic::Ordering::Acquire);
                    return Ok(RecordView::view(page, r, Some((version, life))));
                }
                Seen::Absent => drop(self.latch(r.page())?),
            }
            turns.go_on("reading a record")?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everleaf_pmem::{Dram, Geometry};

    #[test]
    fn copies_and_comparisons_at_every_offset_are_those_of_slices() {
        last_bytes_of(Geometry::new(4).expect("valid"), 1);
        last_bytes_of(Geometry::whole(512).expect("valid"), 25);
    }

    /// Reads the last 48 bytes of a page.
    fn last_bytes_of(geometry: Geometry, unit: u16) {
        let m = Dram::new(geometry, 2).expect("memory");
        let page = m.page(1).expect("there");
        let bytes: Vec<u8> = (0..16 * geometry.slots()).map(|i| (i % 5) as u8 * 60).collect();
        for (j, chunk) in bytes.as_chunks::<8>().0.iter().enumerate() {
            m.store(page.body_word(j), u64::from_le_bytes(*chunk));
        }
        let record = RecordView::view(page, RecordRef::new(1, unit), None);
        let bytes = &bytes[16 * usize::from(unit)..];
        assert_eq!(bytes.len(), 48);
        for from in 0..=bytes.len() {
            for len in 0..=bytes.len() - from {
                let mut out = Vec::new();
                record.copy(from, len, &mut out).expect("memory");
                assert_eq!(out, bytes[from..from + len]);
                for other in [&bytes[..len], &bytes[from..], &bytes[from..from + len / 2], &[255]] {
                    let expected = bytes[from..from + len].cmp(other);
                    assert_eq!(record.compare(from, other, len), expected);
                }
            }
        }
        assert_eq!(record.word(1000), 0);
        assert_eq!(RecordView::view(page, RecordRef::new(1, 99), None).capacity(), 0);
    }
}
