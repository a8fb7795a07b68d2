//! Checkpoints in the midst of an epoch that the program ends.
//!
//! Such an epoch goes on for as long as the program likes, a crash takes it back, and no checkpoint ends it. Its pages
//! are written like all others, so that they can leave memory. But no root names an image that is *ahead*: that has
//! changes of an epoch which is not durable. Until it is, the table names the image before it, and the journal is kept
//! from where that one needs it.
//!
//! ```text
//! a page changed in epochs 7, 8 and 9     run 1, in 8      run 2, in 9       run 3, in 9
//! its new image                           A, ahead         B, ahead          C, ahead in place of B
//! named by the root                       the one before   A                 A
//! the journal begins                      where it did     at run 1          at run 1
//! ```
//!
//! So a page that each epoch changes keeps no more of the journal than what came after the run before the last. A fetch
//! of a page that has left memory gets its newest image, be it ahead or not.
//!
//! **Large values.** The page table knows those that epochs have adopted up to where its root's journal begins, and no
//! others: the journal says the rest again. So nothing moves that the journal says where it is. Runs that a durable
//! epoch has freed it may forget at once, for the journal says that again, too. Values that an open has found in the
//! journal count as adopted of late: they do not move until that part of the journal is gone.
//!
//! A crash makes nothing of what is here: all of it is memory, and the places of images that are ahead are free to a
//! reader of the file.

use everleaf_pmem::error::Result;
use everleaf_pmem::page::PageNo;
use everleaf_pmem::sync::lock_plain as lock;

use crate::inner::Inner;
use crate::journal::JournalMark;
use crate::memory::leaves::KeptLeaves;
use crate::store::ahead::Kept;
use crate::store::image::Placed;
use crate::store::table::LEAF_PAGES;

impl Inner {
    /// Where the newest image of a page is.
    ///
    /// # Errors
    /// Those of [`lookup`](Self::lookup).
    pub(crate) fn newest(&self, no: PageNo) -> Result<Placed> {
        // The table hears of an image before it is ahead no more.
        match self.ahead.image(no) {
            Some(placed) => Ok(placed),
            None => self.lookup(no),
        }
    }

    /// A run begins.
    pub(crate) fn begin_ahead(&self) -> Result<()> {
        if !self.ahead.is_manual {
            return Ok(());
        }
        let begun = {
            let commit = lock(&self.commit);
            let superblock = lock(&self.superblock);
            let (next, epoch) = (superblock.journal, superblock.durable_epoch);
            JournalMark { next, written: commit.chain.begun, epoch }
        };
        self.ahead.begin_run(begun)?;
        self.name_ended()
    }

    /// All pages have been written that had changed before `mark`.
    pub(crate) fn note_written(&self, mark: Option<JournalMark>) -> Result<()> {
        match mark.filter(|_| self.ahead.is_manual) {
            Some(mark) => self.ahead.note_written(mark),
            None => Ok(()),
        }
    }

    /// An image was written of a page that was changed last in `epoch`. Keeps it if it is ahead; says whether it is.
    pub(crate) fn keep_ahead(&self, no: PageNo, placed: Placed, epoch: u64) -> Result<bool> {
        if !self.ahead.is_manual {
            return Ok(false);
        }
        let Kept { is_ahead, before } =
            self.ahead.keep(no, placed, epoch, self.epochs.durable())?;
        let mut places = self.places_mut();
        if is_ahead && placed.has_image() {
            places.extents.hold(placed.extent());
        }
        if let Some(before) = before.filter(|before| before.has_image()) {
            places.extents.let_go(before.extent());
        }
        Ok(is_ahead)
    }

    /// Tells the table of images whose epoch is durable by now.
    fn name_ended(&self) -> Result<()> {
        for some in self.ahead.ended(self.epochs.durable())?.chunks(LEAF_PAGES) {
            let _kept = KeptLeaves::of(self);
            for &(no, placed) in some {
                self.lookup(no)?;
                self.places_mut().set(no, placed)?;
                self.ahead.remove(no);
                if placed.has_image() {
                    self.places_mut().extents.let_go(placed.extent());
                }
            }
        }
        Ok(())
    }

    /// Before the table is written: tells it of what is durable by now, and says where the journal of its root begins,
    /// whose run began at `mark`.
    pub(crate) fn name_for_root(&self, mark: Option<JournalMark>) -> Result<Option<JournalMark>> {
        if !self.ahead.is_manual {
            return Ok(mark);
        }
        self.name_ended()?;
        let Some(mark) = mark else {
            debug_assert!(self.ahead.is_empty(), "a closed pool has no epoch that runs");
            self.name_values(u64::MAX);
            return Ok(None);
        };
        let needs = self.ahead.needs(mark);
        self.name_values(needs.epoch);
        self.ahead.set_stuck(if needs.written == mark.written { 0 } else { self.epochs.now() });
        Ok(Some(needs))
    }

    /// Tells the table of large values that epochs up to this one have adopted.
    fn name_values(&self, upto: u64) {
        let mut pending = lock(&self.pending_values);
        let mut places = self.places_mut();
        pending.retain(|no, value| {
            let is_named = value.adopted.is_some_and(|epoch| epoch <= upto);
            if is_named {
                // Its leaf is in memory since the value was written, and its extent is held.
                places.adopt(*no, value.placed);
                places.extents.let_go(value.placed.extent());
            }
            !is_named
        });
        // Those that the open has found in the journal stay until no root needs that part of it.
        if upto >= self.ahead.recovered {
            places.age();
        }
    }
}
