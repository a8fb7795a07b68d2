//! Memory for pages and frames: anonymous, as large as the pool may become and touched on demand;
//! or, for the pages, a file's own.

use std::ffi::{c_int, c_long, c_void};
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

use crate::error::{Error, Grouped, Result};
use crate::page::{Geometry, Page, PageNo, Pages};

/// Miri knows no more than the first of them, and no advice.
const PRIVATE: MapFlags =
    if cfg!(miri) { MapFlags::PRIVATE } else { MapFlags::PRIVATE.union(MapFlags::NORESERVE) };

/// How a file is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// Shared, and the file system keeps its own metadata durable at each fault (`MAP_SYNC`): what
    /// is flushed to the device can be found again. Only on DAX.
    Durable,
    /// Shared: what is stored outlives the process, not the system.
    Shared,
    /// Stores stay in this process; the file may be open for reading only.
    Private,
}

/// Bytes of a huge page, and of a [`RegionPart`]'s stretch that can be one.
pub const HUGE_BYTES: usize = 2 << 20;

/// Bytes of a page of the system, which memory is given back in.
pub const SYSTEM_PAGE_BYTES: usize = 4096;

const _: () = assert!(HUGE_BYTES.is_power_of_two() && HUGE_BYTES.is_multiple_of(4096));

/// One of a region's two mappings. Its stretches of [`HUGE_BYTES`] are numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegionPart {
    /// The words of the pages.
    Pages,
    /// The frames: latches, marks and search aids.
    Frames,
}

/// Memory for `limit` pages and their frames. Anonymous memory is reserved at once, backed when
/// touched, and all zero; a file's pages are what is in the file.
#[derive(Debug)]
pub struct Region {
    /// Dropped before what it leads to.
    all: Pages,
    /// Apart: each open pool has a region, and seldom asks for these.
    maps: Box<Mappings>,
}

#[derive(Debug)]
struct Mappings {
    pages: Mapping,
    frames: Mapping,
}

impl Region {
    /// Reserves address space for `limit` pages.
    ///
    /// # Errors
    /// [`Error::Io`] if the system has no such address space.
    pub fn new(geometry: Geometry, limit: PageNo) -> Result<Self> {
        let (pages, frames) = part_bytes(geometry, limit)?;
        Ok(Self::of(Mapping::new(pages)?, Mapping::new(frames)?, geometry, limit))
    }
    /// As [`new`](Self::new), for pages that are touched here and there and few at a time: the
    /// system backs them by its smallest pages, until [`huge`](Self::huge) or
    /// [`make_huge`](Self::make_huge) says otherwise.
    ///
    /// # Errors
    /// [`Error::Io`] if the system has no such address space.
    pub fn sparse(geometry: Geometry, limit: PageNo) -> Result<Self> {
        let small = |bytes| {
            let mapping = Mapping::reserve(bytes)?;
            mapping.advise(0..mapping.bytes, Advice::LinuxNoHugepage);
            Ok::<_, Error>(mapping)
        };
        let (pages, frames) = part_bytes(geometry, limit)?;
        Ok(Self::of(small(pages)?, small(frames)?, geometry, limit))
    }
    /// Maps a file whose page 0 is `lead` bytes (a multiple of 4096) from its start, and reserves
    /// frames. `None` if it cannot be mapped as [`Share::Durable`].
    ///
    /// The file must have all of the pages: touching what lies behind its end raises SIGBUS.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `lead` is no multiple of 4096. [`Error::Io`] if it cannot be mapped at all;
    /// [`Error::NoMemory`] if it and its lead are longer than an address space.
    pub fn of_file(
        geometry: Geometry,
        limit: PageNo,
        lead: usize,
        fd: BorrowedFd<'_>,
        share: Share,
    ) -> Result<Option<Self>> {
        let (pages, frames) = part_bytes(geometry, limit)?;
        let Some(pages) = Mapping::of_file(lead, pages, fd, share)? else {
            return Ok(None);
        };
        let frames = Mapping::new(frames)?;
        Ok(Some(Self::of(pages, frames, geometry, limit)))
    }
    /// Two mappings of [`part_bytes`] or more.
    fn of(pages: Mapping, frames: Mapping, geometry: Geometry, limit: PageNo) -> Self {
        let [words, of_frames] = [&pages, &frames].map(|mapping| mapping.base.cast_const().cast());
        // SAFETY: both mappings are as long as that, are aligned to pages of the system, stay where they are, and live
        // as long as the region.
        let all = unsafe { Pages::new(words, of_frames, limit, geometry) };
        Self { all, maps: Box::new(Mappings { pages, frames }) }
    }
    /// The words of the file before page 0; none of anonymous memory.
    pub(crate) fn lead(&self) -> &[AtomicU64] {
        self.maps.pages.lead()
    }
    /// The words of all pages, in the order of their numbers.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        let n = self.limit() as usize * self.geometry().page_words();
        // SAFETY: the mapping has limit pages, is aligned, lives as long as &self, and is reached
        // through atomics only.
        unsafe { std::slice::from_raw_parts(self.maps.pages.base.cast::<AtomicU64>(), n) }
    }
    /// The shape of the pages.
    #[inline(always)]
    pub fn geometry(&self) -> Geometry {
        self.all.geometry()
    }
    /// The number of pages that fit.
    #[inline(always)]
    pub fn limit(&self) -> PageNo {
        self.all.limit()
    }
    /// Has the system back a stretch now. Its contents stay. Best effort: what fails here is tried
    /// again by the first touch.
    pub fn populate(&self, part: RegionPart, stretch: usize) {
        self.mapping(part).populate(stretch);
    }
    /// The stretch of a part in which page `no` begins.
    pub fn stretch_of(&self, part: RegionPart, no: PageNo) -> usize {
        no as usize * self.stride(part) / HUGE_BYTES
    }
    /// Bytes from one page to the next in a part.
    pub fn stride(&self, part: RegionPart) -> usize {
        match part {
            RegionPart::Pages => self.geometry().page_bytes(),
            RegionPart::Frames => self.geometry().frame_bytes(),
        }
    }
    fn mapping(&self, part: RegionPart) -> &Mapping {
        match part {
            RegionPart::Pages => &self.maps.pages,
            RegionPart::Frames => &self.maps.frames,
        }
    }
    /// From now on the system backs a stretch by a huge page, if it has not backed any of it yet.
    /// Best effort.
    pub fn huge(&self, part: RegionPart, stretch: usize) {
        let mapping = self.mapping(part);
        if let Some(range) = mapping.stretch(stretch) {
            mapping.advise_huge(range);
        }
    }
    /// Puts what backs a stretch into one huge page, with zeros where nothing did. Contents stay,
    /// for whoever uses them meanwhile, too. Best effort: Linux before 6.1 cannot.
    pub fn make_huge(&self, part: RegionPart, stretch: usize) {
        self.mapping(part).make_huge(stretch);
    }
    /// Gives the memory of some runs of pages back to the system, by one call where it has one: their words are zero.
    /// Their frames stay. The caller holds their latches, and nobody else finds the pages ready; or nobody has touched
    /// them yet.
    ///
    /// # Panics
    /// If they do not end in the region. In debug builds, if they are a file's.
    pub fn give_back(&self, runs: impl Iterator<Item = Range<PageNo>>) {
        debug_assert!(self.maps.pages.lead == 0, "the memory is a file's");
        let bytes = self.geometry().page_bytes();
        self.maps.pages.forget(runs.map(|run| {
            assert!(run.end <= self.limit(), "pages of the region");
            run.start as usize * bytes..run.end as usize * bytes
        }));
    }
    /// The pages whose frames are in a piece of [`SYSTEM_PAGE_BYTES`] of them, the pieces numbered from 0. Only for
    /// frames of which a piece has a whole number, as it has of those of whole pages.
    pub fn pages_of_frames(&self, piece: usize) -> Range<PageNo> {
        let each = SYSTEM_PAGE_BYTES / self.geometry().frame_bytes();
        let at = |piece: usize| piece.saturating_mul(each).min(self.limit() as usize) as PageNo;
        at(piece)..at(piece.saturating_add(1))
    }
    /// Latches all pages of a [piece of frames](Self::pages_of_frames), if all are absent, nobody holds one, and each `may`
    /// lose its frame. A thread that wants one of them waits for [`give_frames_back`](Self::give_frames_back).
    pub fn take_frames(&self, piece: usize, may: impl Fn(Page<'_>) -> bool) -> bool {
        let pages = self.pages_of_frames(piece);
        let page = |no| self.page(no).expect("a page of the region");
        let refuses = |no: &PageNo| !page(*no).latch().take_absent();
        let taken = pages.start..pages.clone().find(refuses).unwrap_or(pages.end);
        let is_taken = taken.end == pages.end && taken.clone().all(|no| may(page(no)));
        if !is_taken {
            taken.for_each(|no| page(no).latch().put_back());
        }
        is_taken
    }
    /// Gives the frames of some pieces that [were taken](Self::take_frames) back to the system. Their pages are as if
    /// nobody had ever touched them, but for their versions, which none of them has again.
    ///
    /// # Panics
    /// If they do not end in the region.
    pub fn give_frames_back(&self, pieces: impl Iterator<Item = usize>) {
        let range = |piece: usize| piece * SYSTEM_PAGE_BYTES..(piece + 1) * SYSTEM_PAGE_BYTES;
        self.maps.frames.forget(pieces.map(range));
    }
    /// The page of that number.
    #[inline(always)]
    pub fn page(&self, no: PageNo) -> Option<Page<'_>> {
        self.all.get(no)
    }
    /// The memory of the first page, by another number: that of the page whose copy is there.
    ///
    /// # Panics
    /// If there is no page.
    pub(crate) fn first_page_as(&self, no: PageNo) -> Page<'_> {
        self.all.first_as(no)
    }
}

/// Bytes of the two parts of a region, pages and frames.
///
/// # Errors
/// [`Error::NoMemory`] if no address space is as long.
fn part_bytes(geometry: Geometry, limit: PageNo) -> Result<(usize, usize)> {
    let bytes = |each: usize| usize::try_from(limit).ok().and_then(|n| n.checked_mul(each));
    let both = bytes(geometry.page_bytes()).zip(bytes(geometry.frame_bytes()));
    both.ok_or_else(too_long)
}

/// The error of a request that is longer than any address space.
fn too_long() -> Error {
    Error::NoMemory { what: "pages", bytes: usize::MAX }
}

/// A word that is 0 in a process that is forked from now on, whatever it is in this one. `None` if the
/// system has no such memory. The mapping is never given back.
pub(crate) fn wiped_by_fork() -> Option<&'static AtomicU64> {
    if cfg!(miri) {
        return None;
    }
    let page = Mapping::reserve(1).ok()?;
    // SAFETY: the range is the mapping just made, private and anonymous; that a fork clears it is what
    // it is for, and its only word is an atomic.
    unsafe { madvise(page.base.cast(), page.bytes, Advice::LinuxWipeOnFork) }.ok()?;
    let page = ManuallyDrop::new(page);
    // SAFETY: the mapping is aligned, zero, longer than a word, and is never unmapped.
    Some(unsafe { &*page.base.cast::<AtomicU64>() })
}

/// A mapping of `lead` + `bytes` bytes; `base` points behind the lead.
#[derive(Debug)]
struct Mapping {
    base: *mut u8,
    bytes: usize,
    lead: usize,
}

// SAFETY: the mapping is plain memory or a file's, reached only through atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

// The system library's, which std links: the calls of rustix know no MADV_COLLAPSE.
unsafe extern "C" {
    #[link_name = "madvise"]
    fn advise(start: *mut c_void, bytes: usize, advice: c_int) -> c_int;
}
const MADV_COLLAPSE: c_int = 25;
const MADV_DONTNEED: c_int = 4;

// The same, of which neither rustix nor the system's library has a call for memory of one's own.
unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
}
/// `process_madvise`: one number on all processors.
const PROCESS_MADVISE: c_long = 440;
/// `PIDFD_SELF`: in a process that was forked it is that one, as a descriptor would not be.
const THIS_PROCESS: c_long = -10_000;

/// Ranges that are given back by one call, at most.
const AT_ONCE: usize = 64;

/// A `struct iovec`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Part {
    start: *mut c_void,
    bytes: usize,
}

/// Whether the system gives back just this: one of longer pages gives back more.
fn is_given_back_whole(range: &Range<usize>) -> bool {
    let unit = if cfg!(miri) { SYSTEM_PAGE_BYTES } else { rustix::param::page_size() };
    [range.start, range.end].iter().all(|at| at.is_multiple_of(unit))
}

impl Mapping {
    fn new(bytes: usize) -> Result<Self> {
        let mapping = Self::reserve(bytes)?;
        mapping.advise_huge(0..mapping.bytes);
        Ok(mapping)
    }

    /// Address space; a large one begins where a huge page can.
    fn reserve(bytes: usize) -> Result<Self> {
        const SMALL: usize = 4096;
        let large = Self::is_large(bytes);
        let unit = if large { HUGE_BYTES } else { SMALL };
        let bytes = bytes.max(1).checked_next_multiple_of(unit).ok_or_else(too_long)?;
        let spare = if large { HUGE_BYTES } else { 0 };
        let all = bytes.checked_add(spare).ok_or_else(too_long)?;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh private anonymous mapping aliases nothing.
        let start =
            unsafe { mmap_anonymous(ptr::null_mut(), all, prot, PRIVATE) }.map_err(|e| {
                Error::io(format!("reserving {} bytes of memory", Grouped(bytes as u64)), e.into())
            })?;
        let before = if large { start.align_offset(HUGE_BYTES) } else { 0 };
        // SAFETY: before <= spare, so all three pieces lie in the mapping just made, and nobody
        // uses the outer two.
        let base = unsafe {
            let base = start.cast::<u8>().add(before);
            for (from, n) in [(start, before), (base.add(bytes).cast(), spare - before)] {
                if n > 0 {
                    let _ = munmap(from, n);
                }
            }
            base
        };
        debug_assert!(base.addr().is_multiple_of(if large { HUGE_BYTES } else { 64 }));
        Ok(Self { base, bytes, lead: 0 })
    }

    /// Whether huge pages are worth it. Small regions are for tests that open a pool thousands of
    /// times a second.
    fn is_large(bytes: usize) -> bool {
        bytes >= 2 * HUGE_BYTES && !cfg!(miri)
    }

    fn advise_huge(&self, range: Range<usize>) {
        self.advise(range, Advice::LinuxHugepage);
    }

    /// Says how a range is to be backed, if it matters in a mapping as large as this.
    fn advise(&self, range: Range<usize>, advice: Advice) {
        debug_assert!(matches!(advice, Advice::LinuxHugepage | Advice::LinuxNoHugepage));
        if Self::is_large(self.bytes) && range.end <= self.bytes {
            // SAFETY: the range lies in the mapping, whose contents stay. Failure only costs speed.
            let _ = unsafe { madvise(self.base.add(range.start).cast(), range.len(), advice) };
        }
    }

    /// The bytes of a stretch, if the mapping has all of them.
    fn stretch(&self, no: usize) -> Option<Range<usize>> {
        let from = no.checked_mul(HUGE_BYTES)?;
        let end = from.checked_add(HUGE_BYTES)?;
        (end <= self.bytes).then_some(from..end)
    }

    fn make_huge(&self, stretch: usize) {
        let Some(range) = self.stretch(stretch).filter(|_| Self::is_large(self.bytes)) else {
            return;
        };
        self.advise_huge(range.clone());
        // SAFETY: the range lies in the mapping; its contents stay. Failure only costs speed.
        let _ = unsafe { advise(self.base.add(range.start).cast(), range.len(), MADV_COLLAPSE) };
    }

    fn of_file(
        lead: usize,
        bytes: usize,
        fd: BorrowedFd<'_>,
        share: Share,
    ) -> Result<Option<Self>> {
        if !lead.is_multiple_of(4096) {
            return Err(Error::Invalid {
                what: format!("a lead of {lead} bytes: no multiple of 4096"),
            });
        }
        let all = lead.checked_add(bytes).ok_or_else(too_long)?;
        let flags = match share {
            Share::Durable => MapFlags::SHARED_VALIDATE | MapFlags::SYNC,
            Share::Shared => MapFlags::SHARED,
            Share::Private => PRIVATE,
        };
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the system chooses a free range. Other processes may store to the file: all words
        // are atomics.
        let start = match unsafe { mmap(ptr::null_mut(), all, prot, flags, fd, 0) } {
            Ok(start) => start,
            // The latter comes from systems that know no MAP_SHARED_VALIDATE.
            Err(Errno::OPNOTSUPP | Errno::INVAL) if share == Share::Durable => return Ok(None),
            Err(e) => {
                return Err(Error::io(
                    format!("mapping {} bytes of the file", Grouped(all as u64)),
                    e.into(),
                ));
            }
        };
        // SAFETY: the mapping is longer than its lead.
        let base = unsafe { start.cast::<u8>().add(lead) };
        Ok(Some(Self { base, bytes, lead }))
    }

    fn lead(&self) -> &[AtomicU64] {
        let n = self.lead / 8;
        // SAFETY: the lead's bytes before base are mapped, page-aligned, live as long as &self, and
        // are reached through atomics only.
        unsafe { std::slice::from_raw_parts(self.base.sub(self.lead).cast(), n) }
    }

    /// Gives what backs some ranges back to the system, so that they read as zero.
    fn forget(&self, ranges: impl Iterator<Item = Range<usize>>) {
        let (mut some, mut n) = ([const { 0..0 }; AT_ONCE], 0);
        for range in ranges {
            assert!(range.end <= self.bytes, "memory of somebody else");
            if n == AT_ONCE {
                self.forget_some(&some);
                n = 0;
            }
            some[n] = range;
            n += 1;
        }
        self.forget_some(&some[..n]);
    }

    /// Gives a few of them back.
    fn forget_some(&self, ranges: &[Range<usize>]) {
        if ranges.len() < 2 || !self.forget_at_once(ranges) {
            ranges.iter().cloned().for_each(|range| self.forget_one(range));
        }
    }

    /// Gives some ranges back by one call, if the system has it, which Linux has from 6.14 on: a call, and the flush of
    /// the processor's table of addresses that it ends with, take longer than to give a page back.
    fn forget_at_once(&self, ranges: &[Range<usize>]) -> bool {
        static LACKS: AtomicBool = AtomicBool::new(false);
        if cfg!(miri) || LACKS.load(Ordering::Relaxed) || !ranges.iter().all(is_given_back_whole) {
            return false;
        }
        let mut parts = [Part { start: ptr::null_mut(), bytes: 0 }; AT_ONCE];
        for (part, range) in parts.iter_mut().zip(ranges) {
            *part = Part { start: self.base.wrapping_add(range.start).cast(), bytes: range.len() };
        }
        let n = ranges.len().min(AT_ONCE);
        // SAFETY: as in `forget_one` for each of the first n parts, which the caller has compared with the mapping; the call
        // reads the parts, and changes nothing else of this process.
        let done = unsafe {
            syscall(PROCESS_MADVISE, THIS_PROCESS, parts.as_ptr(), n, MADV_DONTNEED, 0_usize)
        };
        let all: usize = ranges.iter().map(Range::len).sum();
        if done < 0 {
            // Nobody else has a reason to fail: who does without has lost nothing but time.
            LACKS.store(true, Ordering::Relaxed);
        }
        usize::try_from(done).is_ok_and(|done| done == all)
    }

    fn forget_one(&self, range: Range<usize>) {
        let given_back = if cfg!(miri) || !is_given_back_whole(&range) {
            Err(Errno::NOSYS)
        } else {
            // SAFETY: the range lies in the mapping, which is private and anonymous and reached through
            // atomics only: they read as zero from now on.
            unsafe {
                madvise(self.base.add(range.start).cast(), range.len(), Advice::LinuxDontNeed)
            }
        };
        if given_back.is_err() {
            // The caller relies on the zeros. The latch of a frame is its first word: it comes last.
            for offset in range.step_by(8).rev() {
                // SAFETY: the range lies in the mapping, and page offsets are multiples of 8.
                let word = unsafe { &*self.base.add(offset).cast::<AtomicU64>() };
                word.store(0, Ordering::Release);
            }
        }
    }

    fn populate(&self, stretch: usize) {
        if let Some(range) = self.stretch(stretch).filter(|_| !cfg!(miri)) {
            // SAFETY: the range lies in the mapping; populating keeps what is there.
            let _ = unsafe {
                madvise(self.base.add(range.start).cast(), range.len(), Advice::LinuxPopulateWrite)
            };
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: start and length are those of the mmap; nobody holds a Page any more, since
        // pages borrow the region.
        let _ = unsafe { munmap(self.base.sub(self.lead).cast(), self.lead + self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::door::put;

    #[test]
    fn what_no_address_space_has_is_an_error_and_no_shorter_mapping() {
        let is_refused = |result: Result<Mapping>| matches!(result, Err(Error::NoMemory { .. }));
        for bytes in
            [usize::MAX, usize::MAX - 1, usize::MAX - HUGE_BYTES, usize::MAX - 2 * HUGE_BYTES + 2]
        {
            assert!(is_refused(Mapping::reserve(bytes)), "{bytes}");
        }
        let all = Mapping::reserve(usize::MAX / 2);
        assert!(matches!(all, Err(Error::Io { .. })), "no system has as much: {all:?}");
    }

    #[test]
    fn a_lead_that_wraps_or_is_no_page_of_the_system_is_refused() {
        let g = Geometry::new(4).expect("a power of two");
        let file = tempfile::tempfile().expect("a file");
        file.set_len(1 << 16).expect("room");
        let of = |lead| Region::of_file(g, 64, lead, file.as_fd(), Share::Shared);
        for lead in [usize::MAX - 4095, usize::MAX - (2 << 12) + 1] {
            assert!(matches!(of(lead), Err(Error::NoMemory { .. })), "{lead}");
        }
        for lead in [1, 64, 4095, 4097, usize::MAX] {
            assert!(matches!(of(lead), Err(Error::Invalid { .. })), "{lead}");
        }
        assert!(of(4096).is_ok_and(|region| region.is_some()));
    }

    #[test]
    fn frames_go_once_all_their_pages_are_absent_and_nobody_wants_one() {
        use crate::latch::Seen;
        let g = Geometry::whole(4096).expect("a power of two");
        let region = Region::sparse(g, 100).expect("address space");
        assert_eq!((region.pages_of_frames(0), region.pages_of_frames(1)), (0..64, 64..100));
        assert_eq!(region.pages_of_frames(2), 100..100);
        let page = |no| region.page(no).expect("there");
        let mut held = page(5).latch().lock();
        held.set_ready();
        drop(held);
        page(5).mark(1).store(7, Ordering::Relaxed);
        page(70).mark(1).store(7, Ordering::Relaxed);
        let Seen::Ready(before) = page(5).latch().read_version() else { panic!("made ready") };
        let are_free = || (0..100).all(|no| no == 5 || page(no).latch().try_lock().is_some());
        assert!(!region.take_frames(0, |_| true) && are_free(), "page 5 is there");
        assert!(page(5).latch().cool() && page(5).latch().try_lock_cold().is_some());
        let held = page(63).latch().lock();
        assert!(!region.take_frames(0, |_| true), "somebody has page 63");
        drop(held);
        assert!(!region.take_frames(0, |page| page.no() != 9) && are_free());
        assert_eq!(page(5).mark(1).load(Ordering::Relaxed), 7);
        assert!(region.take_frames(0, |_| true) && region.take_frames(1, |_| true));
        assert!((0..100).all(|no| page(no).latch().try_lock().is_none()), "all are taken");
        region.give_frames_back(std::iter::once(0));
        assert!((0..64).all(|no| page(no).latch().try_lock().is_some()));
        assert_eq!([5, 70].map(|no| page(no).mark(1).load(Ordering::Relaxed)), [0, 7]);
        region.give_frames_back(std::iter::once(1));
        let mut held = page(5).latch().lock();
        held.set_ready();
        assert!(held.before().stamp() > before.stamp(), "as it was taken, changed, and left");
    }

    #[test]
    fn pages_that_are_given_back_are_zero_and_their_neighbours_stay() {
        let g = Geometry::whole(4096).expect("a power of two");
        let region = Region::sparse(g, 4 * AT_ONCE as PageNo).expect("address space");
        let word = |no| region.page(no).expect("there").word(g.page_words() - 1);
        let fill = || (0..region.limit()).for_each(|no| put(word(no), u64::from(no) + 1));
        // None, one, as many as one call takes, more than that; each second page, and runs of two with a gap.
        for (n, run) in [(0, 1), (1, 1), (AT_ONCE, 1), (AT_ONCE + 1, 1), (2 * AT_ONCE, 1), (40, 2)]
        {
            fill();
            let runs = (0..n as PageNo).map(|i| i * (run + 1)..i * (run + 1) + run);
            region.give_back(runs.clone());
            for no in 0..region.limit() {
                let is_gone = runs.clone().any(|run| run.contains(&no));
                let left = if is_gone { 0 } else { u64::from(no) + 1 };
                assert_eq!(word(no).load(), left, "page {no}, {n} runs of {run}");
            }
        }
    }

    #[test]
    fn a_stretch_that_is_not_there_is_left_alone() {
        let g = Geometry::whole(4096).expect("a power of two");
        let region = Region::new(g, 4096).expect("memory");
        let n = region.maps.pages.bytes / HUGE_BYTES;
        for (no, is_there) in [(0, true), (n - 1, true), (n, false)] {
            assert_eq!(region.maps.pages.stretch(no).is_some(), is_there, "{no} of {n}");
        }
        // The products of these wrap to numbers that the mapping has.
        let unit = usize::MAX / HUGE_BYTES + 1;
        for no in [unit, unit - 1, unit + 1, usize::MAX] {
            assert_eq!(region.maps.pages.stretch(no), None);
            for part in [RegionPart::Pages, RegionPart::Frames] {
                region.populate(part, no);
                region.huge(part, no);
                region.make_huge(part, no);
            }
        }
    }
}
