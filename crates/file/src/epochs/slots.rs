//! Where running steps leave their changes: in the slots of the epoch clock.

use std::sync::atomic::Ordering;

use everleaf_pmem::door::put;
use everleaf_pmem::epoch::SlotGuard;
use everleaf_pmem::error::Result;
use everleaf_pmem::fallible;
use everleaf_pmem::medium::{Change, FEW_CHANGES, NOTED_PAGES};
use everleaf_pmem::page::{Geometry, Page, PageNo, SEQ_WORD, SUM_WORD};
use everleaf_pmem::rules::Stepping;

use crate::epochs::counts::SlotCounts;
use crate::journal::{RECORD_HEAD, TAG_OWN};
use crate::limits::bounds::{TELL_BYTES, TELL_PAGES, Turn};

/// Mark of a frame: the epoch of the first change since the last checkpoint copy, 0 = clean.
pub(crate) const DIRTY_MARK: usize = 1;
/// Mark of a frame: the epoch of the last change.
pub(crate) const LAST_MARK: usize = 2;
/// Mark of a frame: not 0 while a checkpoint has a copy of the page of which the table does not know.
pub(crate) const COPIED_MARK: usize = 3;

/// A page that became dirty, or a run of pages whose large value a step has freed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Changed {
    pub first: PageNo,
    /// How many there are in the run; 0 for a page.
    pages: u32,
    pub epoch: u64,
}

impl Changed {
    pub fn run(first: PageNo, pages: u32, epoch: u64) -> Self {
        Self { first, pages, epoch }
    }
    /// The length of the run; none for a page.
    pub fn pages(self) -> Option<u32> {
        Some(self.pages).filter(|pages| *pages > 0)
    }
}

/// The changes that one slot keeps.
#[derive(Debug, Default)]
pub(crate) struct SlotChanges {
    /// Records of the epochs with an even and with an odd number.
    pub bufs: [Vec<u8>; 2],
    /// Pages and runs that have changed here since somebody took the list.
    pub dirty: Vec<Changed>,
    /// How much of `bufs` [`WriteBounds`](crate::limits::bounds::WriteBounds) know of.
    told: [usize; 2],
    /// How long `bufs` may become before the next step [tells](Self::tell) of them. It is 0 until the first
    /// step of the epoch has told that there is one; changed pages make it less.
    pub tell_at: [usize; 2],
    /// How much of `dirty` the bounds know of.
    pub told_dirty: usize,
    /// Bytes that ends of epochs have taken from here.
    pub taken: u64,
    pub turn: Turn,
    pub counts: SlotCounts,
}

impl SlotChanges {
    /// Bytes that were ever noted here.
    pub fn total(&self) -> u64 {
        self.taken + (self.bufs[0].len() + self.bufs[1].len()) as u64
    }

    /// How much has come to a buffer since this was last asked; 0 for the first step of an epoch. It may get so
    /// many bytes more before the next time.
    pub fn tell(&mut self, i: usize, tell_bytes: usize) -> usize {
        let (told, len) = (self.told[i], self.bufs[i].len());
        debug_assert!(told <= len, "more is known of than there is");
        (self.told[i], self.tell_at[i]) = (len, len + tell_bytes);
        len - told
    }

    /// Moves the records of `epoch` to `spare`, which is empty, and leaves its memory here. Of so many bytes at most a buffer
    /// is kept.
    pub fn take(&mut self, epoch: u64, spare: &mut Vec<u8>, most: usize) {
        debug_assert!(spare.is_empty(), "records that were taken before");
        let i = (epoch & 1) as usize;
        debug_assert!(self.told[i] <= self.bufs[i].len());
        let buf = &mut self.bufs[i];
        self.taken += buf.len() as u64;
        (self.told[i], self.tell_at[i]) = (0, 0);
        if buf.is_empty() {
            // Nobody writes here, it seems.
            shrink(buf, 0, most);
            shrink(spare, 0, most);
        } else {
            std::mem::swap(buf, spare);
        }
        debug_assert!(self.bufs[i].is_empty(), "each record is taken once");
    }

    /// Moves the records of `epoch`, which goes on, behind what is in `block`. Says how many bytes of
    /// them had been told. A buffer of more bytes than `kept` is given back.
    ///
    /// # Errors
    /// NoMemory: the records are still here.
    pub fn spill(
        &mut self,
        epoch: u64,
        block: &mut Vec<u8>,
        (tell_bytes, kept): (usize, usize),
    ) -> Result<usize> {
        let i = (epoch & 1) as usize;
        let buf = &mut self.bufs[i];
        debug_assert!(self.told[i] <= buf.len());
        fallible::append(block, buf, "the block of an epoch")?;
        let used = buf.len();
        self.taken += used as u64;
        buf.clear();
        shrink(buf, used, kept);
        // Of the epoch it has told already.
        self.tell_at[i] = self.tell_at[i].min(tell_bytes);
        Ok(std::mem::take(&mut self.told[i]))
    }
}

/// Memory that an empty buffer keeps, however little of it was used.
const KEPT_BYTES: usize = 32 << 10;

/// Gives back the memory of a buffer whose bytes are not needed any more, if it is more than twice
/// what was used of it, or more than may be kept.
pub(crate) fn shrink(buf: &mut Vec<u8>, used: usize, most: usize) {
    if buf.capacity() > most.min(2 * used + KEPT_BYTES) {
        *buf = Vec::new();
    }
}

/// Bytes of one small change in a slot's buffer.
const SMALL_BYTES: usize = RECORD_HEAD + 64;
/// Pages that a step changes beside those of its [`FEW_CHANGES`].
const FEW_PAGES: usize = 16;

const _: () = {
    assert!(DIRTY_MARK >= 1 && DIRTY_MARK < LAST_MARK, "marks of the medium");
    assert!(LAST_MARK < COPIED_MARK && COPIED_MARK <= 4, "marks of the medium");
    assert!(FEW_PAGES >= NOTED_PAGES, "a page for each of the long changes");
};

/// Room in a slot for what one step may note.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Need {
    pub bytes: usize,
    pub pages: usize,
}

impl Need {
    /// That of a step that said nothing: see [`Medium::enter`](everleaf_pmem::Medium::enter).
    pub fn of_few(g: Geometry) -> Self {
        let large = NOTED_PAGES * (RECORD_HEAD + g.page_bytes());
        Need { bytes: large, pages: FEW_PAGES }.with(FEW_CHANGES)
    }
    /// That of a step with so many more small changes, each to a page of its own.
    pub fn with(self, changes: usize) -> Self {
        let bytes = self.bytes.saturating_add(changes.saturating_mul(SMALL_BYTES));
        Need { bytes, pages: self.pages.saturating_add(changes) }
    }
}

/// A running step on a [`File`](crate::File). It lands whole in one epoch. Keep it short: the end
/// of its epoch waits for it.
#[derive(Debug)]
pub struct FileOp<'m> {
    pub(crate) slot: SlotGuard<'m, SlotChanges>,
    pub(crate) epoch: u64,
    pub(crate) _step: Stepping,
}

impl FileOp<'_> {
    /// Sees to it that noting never has to ask for memory. A step may fail here for the last time.
    #[inline]
    pub(crate) fn make_room(&mut self, need: Need) -> Result<()> {
        let SlotChanges { bufs, dirty, counts, .. } = &mut *self.slot;
        let buf = &mut bufs[(self.epoch & 1) as usize];
        if buf.capacity() - buf.len() < need.bytes {
            fallible::more(buf, need.bytes, "the records of a step")?;
        }
        if dirty.capacity() - dirty.len() < need.pages {
            fallible::more(dirty, need.pages, "the list of changed pages")?;
        }
        counts.make_room()
    }

    #[inline]
    pub(crate) fn note(&mut self, page: Page<'_>, change: Change<'_>) {
        self.begin(page, change.tag, change.bytes.len()).extend_from_slice(change.bytes);
    }

    #[inline]
    pub(crate) fn note_parts(&mut self, page: Page<'_>, tag: u8, parts: &[&[u8]]) {
        let n = parts.iter().map(|part| part.len()).sum::<usize>();
        let buf = self.begin(page, tag, n);
        parts.iter().for_each(|part| buf.extend_from_slice(part));
    }

    /// Begins the record of what becomes of a run of pages that hold a large value, with `n` bytes of
    /// operands, which the caller adds: the medium's own record.
    pub(crate) fn begin_run(
        &mut self,
        tag: u8,
        first: PageNo,
        pages: u32,
        n: usize,
    ) -> &mut Vec<u8> {
        assert!(n <= usize::from(u16::MAX), "a list of {n} bytes");
        let mut head = [0; RECORD_HEAD];
        head[0] = tag;
        head[1..3].copy_from_slice(&(n as u16).to_le_bytes());
        head[3..7].copy_from_slice(&first.to_le_bytes());
        head[7..11].copy_from_slice(&pages.to_le_bytes());
        let buf = &mut self.slot.bufs[(self.epoch & 1) as usize];
        debug_assert!(buf.capacity() - buf.len() >= RECORD_HEAD + n, "more than the step said");
        buf.extend_from_slice(&head);
        buf
    }

    /// Begins the record of a change with `n` bytes of operands, which the caller adds.
    #[inline(always)]
    fn begin(&mut self, page: Page<'_>, tag: u8, n: usize) -> &mut Vec<u8> {
        assert!(n <= usize::from(u16::MAX), "a change of {n} bytes");
        assert!(tag != 0 && tag < TAG_OWN, "the tag {tag} is not the caller's");
        debug_assert!(page.latch().is_held_here(), "a change of a page that is not latched");
        debug_assert!(self.epoch != 0 && page.head(SUM_WORD).peek() == 0, "a page on disk");
        debug_assert!(
            page.mark(LAST_MARK).load(Ordering::Relaxed) <= self.epoch,
            "page {} was changed in a later epoch",
            page.no()
        );
        debug_assert!(page.mark(DIRTY_MARK).load(Ordering::Relaxed) <= self.epoch);
        let seq = page.head(SEQ_WORD);
        let next = seq.load().wrapping_add(1);
        put(seq, next);
        if page.mark(DIRTY_MARK).load(Ordering::Relaxed) == 0 {
            page.mark(DIRTY_MARK).store(self.epoch, Ordering::Relaxed);
            let dirty = &mut self.slot.dirty;
            debug_assert!(dirty.len() < dirty.capacity(), "more pages than the step said");
            dirty.push(Changed { first: page.no(), pages: 0, epoch: self.epoch });
            let tell_at = &mut self.slot.tell_at[(self.epoch & 1) as usize];
            *tell_at = tell_at.saturating_sub(TELL_BYTES / TELL_PAGES);
        }
        page.mark(LAST_MARK).store(self.epoch, Ordering::Relaxed);
        let mut head = [0; RECORD_HEAD];
        head[0] = tag;
        head[1..3].copy_from_slice(&(n as u16).to_le_bytes());
        head[3..7].copy_from_slice(&page.no().to_le_bytes());
        head[7..11].copy_from_slice(&(next as u32).to_le_bytes());
        let buf = &mut self.slot.bufs[(self.epoch & 1) as usize];
        debug_assert!(buf.capacity() - buf.len() >= RECORD_HEAD + n, "more than the step said");
        buf.reserve(RECORD_HEAD + n);
        buf.extend_from_slice(&head);
        buf
    }
}
