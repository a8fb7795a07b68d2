//! Extents: the bytes of large pairs, in runs of pages without headers, written and read directly.
//!
//! The bytes are written before the step that makes them part of the pool begins, into pages that
//! nobody owns; a crash in between loses nothing. The medium sees to it that they are on disk
//! before the epoch of that step is.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use everleaf_pmem::{Error, Medium, PAIRS_AHEAD, Page, PageNo, Result, SharedPair, fallible};

use crate::change::damaged;
use crate::hooks::{ExtentIo, KeptExtents};
use crate::map::{PageRun, Role, group_pages};
use crate::pair::{self, Lens, MAX_KEY_BYTES, MAX_VALUE_BYTES};
use crate::pool::Pool;
use crate::record::{RecordRef, RecordView};

/// Bytes read at a time, so that memory grows only with bytes that are there.
const READ_BYTES: usize = 1 << 20;
/// The name of this memory in errors.
const RUNS: &str = "a list of extents";

/// Whether some page is in two of the runs, none of which goes beyond the pool. O(n log n).
///
/// # Errors
/// NoMemory.
fn overlap(runs: &[PageRun]) -> Result<bool> {
    if runs.len() < 2 {
        return Ok(false);
    }
    let mut sorted = fallible::copy(runs, RUNS)?;
    sorted.sort_unstable_by_key(|run| run.first);
    Ok(sorted.windows(2).any(|two| two[0].first + two[0].pages > two[1].first))
}

/// A record's account of the extents of a large pair.
pub(crate) struct Extents<'p> {
    /// Where the record is.
    page: Page<'p>,
    offset: usize,
    pub lens: Lens,
    crc: u32,
    /// The extents, or the one that lists them.
    named: Vec<PageRun>,
    /// For keeping in memory what is read: the record's name, and a ticket that was drawn before the record was
    /// as it is here.
    ticket: Option<(RecordRef, u64)>,
}

impl Extents<'_> {
    /// Whether these are the same.
    pub fn are(&self, other: &Self) -> bool {
        (self.lens, self.crc, &self.named) == (other.lens, other.crc, &other.named)
    }
    fn damaged(&self, what: String) -> Error {
        damaged(self.page, self.offset, what)
    }
}

/// A large pair whose extents are written and that waits for its step. If it is dropped without a
/// step, or if writing it fails, the extents are discarded and the pages are given back.
pub struct Large<'p, M: Medium> {
    pool: &'p Pool<M>,
    runs: Vec<PageRun>,
    /// How many of the runs hold key and value; one behind them is their list.
    data: usize,
    record: Vec<u8>,
    /// The part of the pair that stays in memory: how many bytes of a key, and the value behind them.
    copy: Cell<Option<SharedPair>>,
    taken: AtomicBool,
}

impl<M: Medium> Large<'_, M> {
    /// Writes `part` behind byte `at` of what the extents hold, where a page begins.
    pub(crate) fn write_part(&self, at: u64, part: &[u8]) -> Result<()> {
        self.pool.write_part(self.pool.extent_io()?, &self.runs[..self.data], at, part)
    }
    /// All is written, and this is its checksum.
    pub(crate) fn seal(&mut self, crc: u32) {
        pair::seal(&mut self.record, crc);
    }
    /// The bytes of the record that leads to the extents, for
    /// [`Step::write_record`](crate::Step::write_record).
    pub fn record_bytes(&self) -> &[u8] {
        &self.record
    }
    pub(crate) fn runs(&self) -> &[PageRun] {
        &self.runs
    }
    /// The pair's record is at `r`, and nothing names it yet: what is in memory of the pair goes by this name.
    pub fn keep_in_memory(&self, r: RecordRef) {
        if let (Some(kept), Some(copy)) = (self.pool.kept(), self.copy.take()) {
            (kept.keep)(&self.pool.medium, r.bits(), None, copy);
        }
    }
    /// A step has made the extents part of the pool.
    pub(crate) fn take(&self) {
        let before = self.taken.swap(true, Ordering::Relaxed);
        debug_assert!(!before, "one step makes a large pair part of the pool");
    }
}

impl<M: Medium> Drop for Large<'_, M> {
    #[inline]
    fn drop(&mut self) {
        if !*self.taken.get_mut() {
            self.give_up();
        }
    }
}

impl<M: Medium> Large<'_, M> {
    /// Apart, so that a put without a large value does not carry it along.
    #[cold]
    #[inline(never)]
    fn give_up(&mut self) {
        for run in &self.runs {
            if let Some(io) = self.pool.hooks.extents {
                (io.discard)(&self.pool.medium, run.first, run.pages);
            }
            // Only now: who reserves these pages next writes there at once.
            self.pool.space.give_back(*run);
        }
    }
}

/// Refuses a key or a value beyond the limits.
fn check_lens(key: &[u8], bytes: u64) -> Result<()> {
    let (key_bytes, bytes_max) = (key.len() as u64, MAX_KEY_BYTES as u64);
    if key_bytes > bytes_max {
        return Err(Error::KeyTooLong { bytes: key_bytes, bytes_max });
    }
    let bytes_max = MAX_VALUE_BYTES;
    if bytes > bytes_max { Err(Error::ValueTooLong { bytes, bytes_max }) } else { Ok(()) }
}

impl<M: Medium> Pool<M> {
    fn extent_io(&self) -> Result<ExtentIo<M>> {
        self.hooks.extents.ok_or_else(|| Error::Unsupported {
            what: "this medium has no place for large keys and values".into(),
        })
    }

    /// Writes a large pair into new extents. One [`Large`] serves all attempts at its step. O(bytes).
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], [`Error::ValueTooLong`]; [`Error::RecordTooLong`] if the medium has no
    /// extents; [`Error::Full`]; I/O errors.
    pub fn write_large(&self, key: &[u8], value: &[u8]) -> Result<Large<'_, M>> {
        let mut large = self.reserve_large(key, value.len() as u64)?;
        let (io, parts) = (self.extent_io()?, [self.far_key(key), value]);
        self.write_parts(io, &large.runs[..large.data], parts)?;
        large.seal(parts.iter().fold(0, |crc, part| crc32c::crc32c_append(crc, part)));
        if let Some(copy) = io.kept.and_then(|kept| (kept.copy)(&self.medium, parts)) {
            large.copy = Cell::new(Some(copy));
        }
        Ok(large)
    }

    /// The bytes of the key of a large pair that are in the extents.
    pub(crate) fn far_key<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        if pair::keeps_key(self.geometry(), key.len()) { &[] } else { key }
    }

    /// Reserves extents for a large pair whose value has so many bytes, and makes the record that leads to
    /// them. Their content and its checksum are still missing.
    ///
    /// # Errors
    /// As [`write_large`](Self::write_large).
    pub(crate) fn reserve_large(&self, key: &[u8], value_bytes: u64) -> Result<Large<'_, M>> {
        let io = self.hooks.extents.ok_or_else(|| Error::RecordTooLong {
            bytes: (8 + key.len() as u64).saturating_add(value_bytes),
            bytes_max: crate::max_record(self.geometry()) as u64,
        })?;
        check_lens(key, value_bytes)?;
        let bytes = self.far_key(key).len() as u64 + value_bytes;
        let (runs, record, taken) = (Vec::new(), Vec::new(), AtomicBool::new(false));
        let mut large = Large { pool: self, runs, data: 0, record, copy: Cell::new(None), taken };
        self.reserve_runs(bytes, &mut large.runs)?;
        large.data = large.runs.len();
        let record = |runs: &[PageRun], list| {
            pair::large_record(self.geometry(), key, value_bytes, runs, list)
        };
        match record(&large.runs, None) {
            Some(record) => large.record = record?,
            None => {
                let list = self.write_list(io, &mut large.runs)?;
                large.record =
                    record(&large.runs[..large.data], Some(list)).ok_or_else(|| {
                        Error::Unsupported { what: "a page is too small for large values".into() }
                    })??;
            }
        }
        Ok(large)
    }

    /// Writes key and value, one behind the other, into the extents. Each page is written at once, so the
    /// page in which the key ends and the value begins is put together first. O(bytes).
    fn write_parts(
        &self,
        io: ExtentIo<M>,
        runs: &[PageRun],
        [key, value]: [&[u8]; 2],
    ) -> Result<()> {
        let page = self.geometry().page_bytes();
        let keys = key.len() / page * page;
        let (key, key_end) = key.split_at(keys);
        let (mixed, value) = match key_end {
            [] => (Vec::new(), value),
            _ => {
                let (begin, rest) = value.split_at(value.len().min(page - key_end.len()));
                let mut mixed = fallible::list(page, "a page of a large pair")?;
                mixed.extend_from_slice(key_end);
                mixed.extend_from_slice(begin);
                (mixed, rest)
            }
        };
        let nothing = key.is_empty() && mixed.is_empty() && value.is_empty();
        // An extent has at least one byte, so that each page that a step adopts was written.
        let value = if nothing { &[0] } else { value };
        let mut at = 0;
        for part in [key, &mixed, value] {
            self.write_part(io, runs, at, part)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Writes `part` behind byte `at` of the extents, where a page begins.
    fn write_part(&self, io: ExtentIo<M>, runs: &[PageRun], at: u64, part: &[u8]) -> Result<()> {
        let page = self.geometry().page_bytes() as u64;
        let mut done = 0;
        self.each_piece(runs, at, part.len(), |first, offset, len| {
            debug_assert!(offset.is_multiple_of(page), "a page is written at once");
            let piece = &part[done..done + len];
            self.with_room(|| (io.write)(&self.medium, first, offset, piece))?;
            done += len;
            Ok(())
        })?;
        debug_assert_eq!(done, part.len(), "the extents hold the whole pair");
        Ok(())
    }

    /// Writes the list of `runs` into an extent, and adds that to them.
    fn write_list(&self, io: ExtentIo<M>, runs: &mut Vec<PageRun>) -> Result<PageRun> {
        let mut bytes = fallible::list(8 * runs.len(), RUNS)?;
        bytes.extend(pair::list_bytes(runs));
        fallible::more(runs, 1, RUNS)?;
        let pages = bytes.len().div_ceil(self.geometry().page_bytes()) as u32;
        let list = PageRun { first: self.space.reserve(Role::Extents, pages)?, pages };
        runs.push(list);
        self.with_room(|| (io.write)(&self.medium, list.first, 0, &bytes))?;
        Ok(list)
    }

    /// Reserves pages for `bytes`, in runs as long as possible.
    fn reserve_runs(&self, bytes: u64, runs: &mut Vec<PageRun>) -> Result<()> {
        self.settle();
        let mut left = bytes.div_ceil(self.geometry().page_bytes() as u64).max(1);
        let mut longest = group_pages(self.geometry()) - 1;
        while left > 0 {
            fallible::more(runs, 1, RUNS)?;
            let pages = left.min(u64::from(longest)) as u32;
            match self.space.reserve(Role::Extents, pages) {
                Ok(first) => {
                    runs.push(PageRun { first, pages });
                    left -= u64::from(pages);
                }
                Err(Error::Full { .. }) if pages > 1 => longest = pages / 2,
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Calls `each` with the first page of an extent, the offset in it and a length, for each piece
    /// of the `len` bytes that start at byte `at` of the extents.
    fn each_piece(
        &self,
        runs: &[PageRun],
        mut at: u64,
        mut len: usize,
        mut each: impl FnMut(PageNo, u64, usize) -> Result<()>,
    ) -> Result<()> {
        for run in runs {
            let bytes = u64::from(run.pages) * self.geometry().page_bytes() as u64;
            if at >= bytes {
                at -= bytes;
                continue;
            }
            if len == 0 {
                break;
            }
            let piece = (bytes - at).min(len as u64) as usize;
            each(run.first, at, piece)?;
            len -= piece;
            at = 0;
        }
        Ok(())
    }

    /// Reads out of the page what a record says of its extents.
    ///
    /// # Errors
    /// NoMemory.
    pub(crate) fn extents_of(&self, record: &RecordView<'_>, lens: Lens) -> Result<Extents<'_>> {
        let page = self.page(record.page().no())?;
        let n = if lens.listed { 1 } else { lens.extents };
        let mut named = fallible::list(n, RUNS)?;
        named.extend((0..n).map(|i| record.run(i)));
        let (offset, crc) = (record.offset_in_page(), record.crc());
        Ok(Extents { page, offset, lens, crc, named, ticket: None })
    }

    /// As [`extents_of`](Self::extents_of), for a caller that reads all of them: then they are kept in memory.
    ///
    /// # Errors
    /// NoMemory.
    pub(crate) fn extents_to_keep(
        &self,
        record: &RecordView<'_>,
        lens: Lens,
    ) -> Result<Extents<'_>> {
        let kept = self.kept();
        let name = kept.and(record.name());
        let ticket = kept.zip(name).map(|(kept, r)| (r, (kept.ticket)(&self.medium, r.bits())));
        let extents = self.extents_of(record, lens)?;
        // A thread that frees the record changes the page, and has the name forgotten after this ticket. If the place is
        // free already, nobody has its name forgotten before another record is there.
        let is_sure = || record.is_in_use() && record.is_unchanged();
        Ok(Extents { ticket: ticket.filter(|_| is_sure()), ..extents })
    }

    /// All extents that a record owns, the list of them, too. No two share a page.
    pub(crate) fn owned_runs(&self, record: &RecordView<'_>, lens: &Lens) -> Result<Vec<PageRun>> {
        let extents = self.extents_of(record, *lens)?;
        let mut runs = self.runs_of(&extents)?;
        if lens.listed {
            fallible::push(&mut runs, extents.named[0], RUNS)?;
            if overlap(&runs)? {
                return Err(extents.damaged("a list of extents that is one of them".into()));
            }
        }
        Ok(runs)
    }

    /// The runs that an extent lists, as they are there.
    fn read_list(&self, extents: &Extents<'_>) -> Result<Vec<PageRun>> {
        let (list, n) = (extents.named[0], extents.lens.extents);
        crate::map::locate(&self.medium, list.first, list.pages)?;
        if list.pages as usize != (8 * n).div_ceil(self.geometry().page_bytes()) {
            return Err(extents.damaged(format!("{} pages for a list of {n} extents", list.pages)));
        }
        let io = self.extent_io()?;
        let mut bytes = Vec::new();
        while bytes.len() < 8 * n {
            let start = bytes.len();
            let end = (start + READ_BYTES).min(8 * n);
            fallible::more(&mut bytes, end - start, RUNS)?;
            bytes.resize(end, 0);
            (io.read)(&self.medium, list.first, start as u64, &mut bytes[start..])?;
        }
        let mut runs = fallible::list(n, RUNS)?;
        let words = bytes.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b));
        runs.extend(words.map(|w| PageRun { first: w as u32, pages: (w >> 32) as u32 }));
        Ok(runs)
    }

    /// The extents of a record, checked: inside the pool, and just long enough. O(extents).
    fn runs_of(&self, extents: &Extents<'_>) -> Result<Vec<PageRun>> {
        let runs = match extents.lens.listed {
            false => fallible::copy(&extents.named, RUNS)?,
            true => self.read_list(extents)?,
        };
        let mut pages = 0;
        for run in &runs {
            crate::map::locate(&self.medium, run.first, run.pages)?;
            pages += u64::from(run.pages);
        }
        let bytes = extents.lens.extent_bytes();
        let needed = bytes.div_ceil(self.geometry().page_bytes() as u64).max(1);
        if pages != needed {
            return Err(extents.damaged(format!("{pages} pages of extents for {bytes} bytes")));
        }
        if overlap(&runs)? {
            // A few pages again and again would make a value larger than the pool.
            return Err(extents.damaged("extents that overlap".into()));
        }
        Ok(runs)
    }

    /// Fills `buf` from byte `at` of a record's extents.
    pub(crate) fn read_extents(
        &self,
        record: &RecordView<'_>,
        lens: &Lens,
        at: u64,
        buf: &mut [u8],
    ) -> Result<()> {
        let io = self.extent_io()?;
        let runs = self.runs_of(&self.extents_of(record, *lens)?)?;
        self.read_runs(io, &runs, at, buf)
    }

    fn read_runs(&self, io: ExtentIo<M>, runs: &[PageRun], at: u64, buf: &mut [u8]) -> Result<()> {
        let mut done = 0;
        self.each_piece(runs, at, buf.len(), |first, offset, len| {
            (io.read)(&self.medium, first, offset, &mut buf[done..done + len])?;
            done += len;
            Ok(())
        })?;
        debug_assert_eq!(done, buf.len(), "nobody reads behind the extents");
        Ok(())
    }

    /// Fills `buf` with bytes of the value of a large pair, from byte `from` of it on. Says how many there
    /// were. Reads no page in which none of them is.
    pub(crate) fn read_large_part(
        &self,
        extents: &Extents<'_>,
        from: u64,
        buf: &mut [u8],
    ) -> Result<usize> {
        let n = extents.lens.part(from, buf.len());
        if n > 0 {
            let (io, runs) = (self.extent_io()?, self.runs_of(extents)?);
            let key = extents.lens.extent_bytes() - extents.lens.value_bytes;
            self.read_runs(io, &runs, key + from, &mut buf[..n])?;
        }
        Ok(n)
    }

    /// How large pairs are kept in memory, if they are.
    #[inline]
    fn kept(&self) -> Option<&KeptExtents<M>> {
        self.hooks.extents.as_ref()?.kept.as_ref()
    }

    /// The part in memory of the pair that a record leads to: a key that is not in the record, and the value.
    /// A caller that has the name from a leaf validates the leaf after this. O(1).
    #[inline]
    pub fn lend(&self, r: RecordRef) -> Option<SharedPair> {
        (self.kept()?.lend)(&self.medium, r.bits())
    }

    /// Asks the processor for what will be [lent](Self::lend) of some records, by their bits: next, or later.
    #[inline]
    pub fn prefetch_values(&self, records: &[u64; PAIRS_AHEAD], are_next: bool) {
        if let Some(kept) = self.kept() {
            (kept.prefetch)(&self.medium, records, are_next);
        }
    }

    /// Has the pair in memory forgotten: it is not the pair of this name any more. The record's page is latched.
    pub(crate) fn forget_in_memory(&self, r: RecordRef) {
        if let Some(kept) = self.kept() {
            (kept.forget)(&self.medium, r.bits());
        }
    }

    /// Appends the value of a large pair, checked against the checksum. Then it is kept in memory.
    pub(crate) fn read_large(&self, extents: &Extents<'_>, out: &mut Vec<u8>) -> Result<()> {
        self.read_pair(extents, &mut Vec::new(), out)
    }

    /// Appends a key that is in extents, and the value behind it.
    ///
    /// # Errors
    /// Those of [`read_large`](Self::read_large); the lists hold anything then.
    pub(crate) fn read_pair(
        &self,
        extents: &Extents<'_>,
        head: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let (io, lens, expected) = (self.extent_io()?, &extents.lens, extents.crc);
        let (runs, whole) = (self.runs_of(extents)?, out.len());
        let key = lens.extent_bytes() - lens.value_bytes;
        *head = fallible::filled(0, key as usize, "a large pair's key")?;
        self.read_runs(io, &runs, 0, head)?;
        let mut crc = crc32c::crc32c(head);
        let mut at = key;
        while at < lens.extent_bytes() {
            let start = out.len();
            let piece = (lens.extent_bytes() - at).min(READ_BYTES as u64);
            fallible::more(out, piece as usize, "a large value")?;
            out.resize(start + piece as usize, 0);
            self.read_runs(io, &runs, at, &mut out[start..])?;
            crc = crc32c::crc32c_append(crc, &out[start..]);
            at += piece;
        }
        if crc != expected {
            let what = format!("the extents' checksum is {crc:#010x}, not {expected:#010x}");
            return Err(extents.damaged(what));
        }
        if let (Some(kept), Some((r, ticket))) = (io.kept, extents.ticket)
            && let Some(copy) = (kept.copy)(&self.medium, [head, &out[whole..]])
        {
            (kept.keep)(&self.medium, r.bits(), Some(ticket), copy);
        }
        Ok(())
    }
}
