//! The one door for writes.
//!
//! A tree never writes memory; it asks a [`Medium`]. The same tree code therefore runs on plain
//! memory, on simulated persistent memory, and on an ordinary file with a journal.
//!
//! One *step* of an operation is: latch every page that the step changes, [`Medium::enter`], store
//! (and [`Medium::note`] each change, for media with a journal), drop the `Op`, unlatch. On media
//! with epochs a step lands in one epoch, whole; because the latches are taken first, no page is
//! changed in epoch e after it was changed in e + 1.

use std::sync::atomic::AtomicU64;

use crate::error::Result;
use crate::page::{Geometry, Page, PageNo, Word};

/// The change that one step made to one page, for media with a journal. The medium does not look inside: the
/// layer that made the change redoes it from `tag` and `bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change<'a> {
    /// Which kind of change; never 0.
    pub tag: u8,
    /// Its operands, at most 65,535 bytes.
    pub bytes: &'a [u8],
}

/// Changes of a whole page that a step may note without saying so.
pub const NOTED_PAGES: usize = 4;
/// Changes of at most 64 bytes that a step may note without saying so, beside those.
pub const FEW_CHANGES: usize = 32;
/// Trees whose pairs a step may [count](Medium::count) that says that it has as many changes. Another step counts one tree's.
pub const COUNTED_TREES: usize = 16;

/// Redoes one change on a page: the same layout function that ran live. Given by the caller of
/// [`Medium::fetch`].
pub type Redo<'a> = dyn FnMut(Page<'_>, Change<'_>) -> Result<()> + 'a;

/// Bytes that can be stored to in words of 8 bytes, flushed and fenced.
pub trait Medium: Send + Sync + 'static {
    /// A running step. Dropping it ends the step.
    type Op<'m>
    where
        Self: 'm;

    /// The shape of the pages.
    fn geometry(&self) -> Geometry;

    /// The number of pages that the medium can hold.
    fn limit(&self) -> PageNo;

    /// The page of that number; the handle has been checked once and needs no checks after.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) if there is no such page.
    fn page(&self, no: PageNo) -> Result<Page<'_>>;

    /// The same, for a caller that has another way if there is no such page, and needs no error.
    #[inline(always)]
    fn page_if_any(&self, no: PageNo) -> Option<Page<'_>> {
        self.page(no).ok()
    }

    /// Where the bytes of a page are in the file that errors name, in bytes; 0 if they are not there.
    fn page_place(&self, no: PageNo) -> u64 {
        self.page(no).map_or(0, |page| page.file_offset())
    }

    /// Brings the bytes of a page into memory and redoes, by `redo`, the changes that a journal
    /// holds for it. The caller holds the page's latch. Nothing to do on media that are memory.
    ///
    /// # Errors
    /// I/O errors, and [`Error::Corrupt`](crate::Error::Corrupt) for a page that fails its checksum
    /// or a journal that misses a change. The page then stays absent.
    fn fetch(&self, page: Page<'_>, redo: &mut Redo<'_>) -> Result<()>;

    /// As [`fetch`](Self::fetch), for a page that nobody owns and that is about to get new bytes:
    /// what lies at its place may be no page, if no change of it is known.
    ///
    /// # Errors
    /// As [`fetch`](Self::fetch).
    fn fetch_unowned(&self, page: Page<'_>, redo: &mut Redo<'_>) -> Result<()> {
        self.fetch(page, redo)
    }

    /// Puts the bytes that a [`fetch`](Self::fetch) would bring of page `no` to a page beside the medium, which the
    /// caller has latched; the page itself stays absent. The copy is right, and so is an error, if the latch of
    /// the page is as it was before, and the page absent. False if only a fetch knows the bytes, as on media that
    /// are memory, or if a journal holds changes for the page.
    ///
    /// # Errors
    /// As [`fetch`](Self::fetch).
    fn read_aside(&self, _no: PageNo, _aside: Page<'_>) -> Result<bool> {
        Ok(false)
    }

    /// How many want the frames of absent pages to stay, and so the [versions](crate::Latch::read_absent) in them. None
    /// if they stay in any case, as on media that are memory.
    fn frames_kept(&self) -> Option<&AtomicU64> {
        None
    }

    /// Stores 8 bytes, failure-atomically, Release. The caller holds the page's latch.
    fn store(&self, word: Word<'_>, value: u64);

    /// Copies the `n` slots of 16 bytes from physical slot `from` on (modulo the node) by one slot
    /// to the right or the left, in any order. Only for media whose stores need no order.
    #[inline]
    fn move_slots(&self, page: Page<'_>, from: usize, n: usize, right: bool) {
        for i in 0..n {
            let at = if right { from + n - 1 - i } else { from + i };
            let to = if right { at + 1 } else { at + page.slots() - 1 };
            for word in 0..2 {
                self.store(page.body(2 * to + word), page.body(2 * at + word).load());
            }
        }
    }

    /// Stores `bytes` at byte `at` of a page, in any order; not into the two words of the medium. The
    /// caller holds the page's latch. Only for media whose stores need no order.
    ///
    /// # Panics
    /// If they do not fit there: that is the caller's bug.
    #[inline]
    fn copy_in(&self, page: Page<'_>, at: usize, bytes: &[u8]) {
        assert!(page.takes(at, bytes.len()), "{} bytes at {at} of a page", bytes.len());
        let mut done = 0;
        while done < bytes.len() {
            let (word, first) = (page.word((at + done) / 8), (at + done) % 8);
            let some = &bytes[done..bytes.len().min(done + 8 - first)];
            let mut value = if some.len() < 8 { word.load().to_le_bytes() } else { [0; 8] };
            value[first..first + some.len()].copy_from_slice(some);
            self.store(word, u64::from_le_bytes(value));
            done += some.len();
        }
    }

    /// Copies `n` words of a page from word `from` on (the header's count) to word `to`; the two may
    /// overlap, and the order is any. Not into the two words of the medium. The caller holds the page's
    /// latch. Only for media whose stores need no order.
    ///
    /// # Panics
    /// If they are not all in the page: that is the caller's bug.
    #[inline]
    fn move_words(&self, page: Page<'_>, from: usize, to: usize, n: usize) {
        assert!(page.moves(from, to, n), "{n} words from {from} to {to} of a page");
        for i in 0..n {
            let i = if to > from { n - 1 - i } else { i };
            self.store(page.word(to + i), page.word(from + i).load());
        }
    }

    /// Starts to write a line of a page back (line 0 is the header).
    fn flush(&self, page: Page<'_>, line: usize);

    /// Orders and completes the flushes of this thread.
    fn fence(&self);

    /// Whether the handle is of use: it was neither closed, nor made by a process of which this is a
    /// fork. Cheap, for it is asked at each call of a layer above; media that nobody else can see are
    /// always of use.
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed), [`Error::Forked`](crate::Error::Forked).
    #[inline(always)]
    fn alive(&self) -> Result<()> {
        Ok(())
    }

    /// Lets a writer wait a little, before it latches anything, while the medium is behind with its
    /// own work, or until an epoch that has had all its operations is durable. Never waits for longer. It says
    /// whether the writer, which has changed nothing yet, may go on; one that `adds` nothing, because it
    /// deletes, may go on where others may not. Within a batch everybody may: the batch has asked before
    /// its first change.
    ///
    /// # Errors
    /// Those of a medium that has no room for more: [`Error::Io`](crate::Error::Io),
    /// [`Error::EpochTooLarge`](crate::Error::EpochTooLarge); those of the end of an epoch.
    #[inline(always)]
    fn throttle(&self, _adds: bool) -> Result<()> {
        Ok(())
    }

    /// A page that a journal says more of than it has: whoever fetches it brings it up to date.
    fn pending(&self) -> Option<PageNo> {
        None
    }

    /// A step begins; all pages that it will change are latched. It may note [`NOTED_PAGES`] changes
    /// of a page's length and [`FEW_CHANGES`] small ones: there is memory for those, so that nothing
    /// after this can fail.
    ///
    /// # Errors
    /// [`Error::Poisoned`](crate::Error::Poisoned) after a failed write, or
    /// [`Error::ReadOnly`](crate::Error::ReadOnly): nothing may be changed then.
    /// [`Error::NoMemory`](crate::Error::NoMemory).
    fn enter(&self) -> Result<Self::Op<'_>>;

    /// As [`enter`](Self::enter), for a step with `changes` more small changes.
    ///
    /// # Errors
    /// As [`enter`](Self::enter).
    fn enter_for(&self, _changes: usize) -> Result<Self::Op<'_>> {
        self.enter()
    }

    /// Tells a journal what the step did to a page. Called once per change, under the page's latch.
    fn note(&self, op: &mut Self::Op<'_>, page: Page<'_>, change: Change<'_>);

    /// As [`note`](Self::note), for operands that lie in several places: they are noted one behind the
    /// other.
    #[inline(always)]
    fn note_parts(&self, op: &mut Self::Op<'_>, page: Page<'_>, tag: u8, parts: &[&[u8]]) {
        self.note(op, page, Change { tag, bytes: &parts.concat() });
    }

    /// Says that the step adds so many pairs to the tree of an anchor, or takes them away: of one tree, or of up to
    /// [`COUNTED_TREES`] if it [has said](Self::enter_for) that it has as many changes. The medium keeps the sum as durable
    /// as the step.
    #[inline(always)]
    fn count(&self, _op: &mut Self::Op<'_>, _tree: PageNo, _by: i64) {}

    /// How many pairs the tree of an anchor has, by what steps have [counted](Self::count); `None` on media
    /// that do not know. Exact while nobody changes the tree. O(threads that write, at most 64).
    ///
    /// # Errors
    /// [`Error::Poisoned`](crate::Error::Poisoned) if a step has panicked.
    fn counted(&self, _tree: PageNo) -> Result<Option<u64>> {
        Ok(None)
    }

    /// The epoch that a running step lands in; 0 on media without epochs.
    fn epoch(&self, op: &Self::Op<'_>) -> u64;

    /// Whether the order of stores within a step can show after a crash, or is to be counted.
    const ORDERED: bool = true;

    /// Whether changes go to a journal, so that stores need no order of their own.
    const JOURNALED: bool;
}

/// For those who write media: how a medium changes the words of its pages.
///
/// Every other layer stores through [`Medium::store`], which counts, records
/// and orders what is stored. Only the implementation of a medium calls these functions.
pub mod door {
    use crate::page::{Page, Word};
    use crate::rules::{is_in_step, is_redoing};

    /// Stores 8 bytes with Release. The caller holds the page's latch, or nobody else can see the page.
    #[inline(always)]
    pub fn put(word: Word<'_>, value: u64) {
        word.put(value);
    }

    /// Copies the `n` slots of 16 bytes from physical slot `from` on (modulo the body) by one slot to
    /// the right or to the left, in any order. The caller holds the page's latch; `from` and `n` are
    /// less than the number of slots.
    #[inline(always)]
    pub fn move_slots(page: Page<'_>, from: usize, n: usize, right: bool) {
        page.move_slots(from, n, right);
    }

    /// Stores bytes at byte `at` of a page, in any order. The caller holds the page's latch.
    ///
    /// # Panics
    /// If they are not all in the page, or would reach into the two words of the medium.
    #[inline(always)]
    pub fn copy_in(page: Page<'_>, at: usize, bytes: &[u8]) {
        page.copy_in(at, bytes);
    }

    /// Copies `n` words of a page from word `from` to word `to`, in any order; the two may overlap. The
    /// caller holds the page's latch.
    ///
    /// # Panics
    /// As [`copy_in`], and if what is copied is not all in the page.
    #[inline(always)]
    pub fn move_words(page: Page<'_>, from: usize, to: usize, n: usize) {
        page.move_words(from, to, n);
    }

    /// Whether this thread may store to a word of a medium that must be entered: it holds the page's
    /// latch, and it is inside a step or redoes changes of one. For assertions; without debug assertions
    /// the answer is yes.
    #[inline(always)]
    pub fn may_store(word: Word<'_>) -> bool {
        word.is_latched_here() && (is_in_step() || is_redoing())
    }
}

/// The methods that a medium around a medium passes on unchanged: all but `store`, `flush` and `fence`.
/// `move_slots`, `copy_in`, `move_words` and `ORDERED` keep their defaults, so that each store passes the
/// wrapper.
///
/// ```
/// use everleaf_pmem::{Dram, Geometry, Medium, Page, Word};
/// struct Loud(Dram);
/// impl Medium for Loud {
///     everleaf_pmem::pass_on!(0: Dram);
///     fn store(&self, word: Word<'_>, value: u64) {
///         println!("page {} word {} := {value}", word.page(), word.index());
///         self.0.store(word, value);
///     }
///     fn flush(&self, page: Page<'_>, line: usize) {
///         self.0.flush(page, line);
///     }
///     fn fence(&self) {
///         self.0.fence();
///     }
/// }
/// let m = Loud(Dram::new(Geometry::new(4).unwrap(), 1)?);
/// m.store(m.page(0)?.body(0), 42);
/// # Ok::<(), everleaf_pmem::Error>(())
/// ```
#[macro_export]
macro_rules! pass_on {
    ($field:tt: $inner:ty) => {
        type Op<'m>
            = <$inner as $crate::Medium>::Op<'m>
        where
            Self: 'm;
        const JOURNALED: bool = <$inner as $crate::Medium>::JOURNALED;
        fn geometry(&self) -> $crate::Geometry {
            self.$field.geometry()
        }
        fn limit(&self) -> $crate::PageNo {
            self.$field.limit()
        }
        #[inline(always)]
        fn page(&self, no: $crate::PageNo) -> $crate::Result<$crate::Page<'_>> {
            self.$field.page(no)
        }
        fn fetch(&self, page: $crate::Page<'_>, redo: &mut $crate::Redo<'_>) -> $crate::Result<()> {
            self.$field.fetch(page, redo)
        }
        fn fetch_unowned(
            &self,
            page: $crate::Page<'_>,
            redo: &mut $crate::Redo<'_>,
        ) -> $crate::Result<()> {
            self.$field.fetch_unowned(page, redo)
        }
        fn read_aside(&self, no: $crate::PageNo, aside: $crate::Page<'_>) -> $crate::Result<bool> {
            self.$field.read_aside(no, aside)
        }
        fn frames_kept(&self) -> Option<&std::sync::atomic::AtomicU64> {
            self.$field.frames_kept()
        }
        #[inline(always)]
        fn alive(&self) -> $crate::Result<()> {
            self.$field.alive()
        }
        fn throttle(&self, adds: bool) -> $crate::Result<()> {
            self.$field.throttle(adds)
        }
        fn pending(&self) -> Option<$crate::PageNo> {
            self.$field.pending()
        }
        fn enter(&self) -> $crate::Result<Self::Op<'_>> {
            self.$field.enter()
        }
        fn enter_for(&self, changes: usize) -> $crate::Result<Self::Op<'_>> {
            self.$field.enter_for(changes)
        }
        fn note(&self, op: &mut Self::Op<'_>, page: $crate::Page<'_>, change: $crate::Change<'_>) {
            self.$field.note(op, page, change);
        }
        #[inline(always)]
        fn note_parts(
            &self,
            op: &mut Self::Op<'_>,
            page: $crate::Page<'_>,
            tag: u8,
            parts: &[&[u8]],
        ) {
            self.$field.note_parts(op, page, tag, parts);
        }
        #[inline(always)]
        fn count(&self, op: &mut Self::Op<'_>, tree: $crate::PageNo, by: i64) {
            self.$field.count(op, tree, by);
        }
        fn counted(&self, tree: $crate::PageNo) -> $crate::Result<Option<u64>> {
            self.$field.counted(tree)
        }
        fn epoch(&self, op: &Self::Op<'_>) -> u64 {
            self.$field.epoch(op)
        }
    };
}
