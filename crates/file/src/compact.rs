//! Compaction: checkpoints that move all that makes the file longer than it must be, the journal too.
//!
//! The journal is at the end of a file that was long once, since it takes the last extent that is free. While
//! nobody writes, a root can say that the chain goes on elsewhere. Where somebody does, the chain leaves its
//! extents early, for others that are nearer to the start.

use everleaf_pmem::epoch::EpochPin;
use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::sync::lock_plain as lock;

use crate::checkpoint::{JournalMark, Pace};
use crate::cleaner::Sweep;
use crate::format::EXTENT_BYTES;
use crate::image::Placed;
use crate::inner::{Chain, Inner};
use crate::journal::Position;

/// How often a compaction goes over the file, at most.
const RUNS: usize = 4;

/// While this lives, the journal goes on nearer to the start of the file when it can.
struct DrawnIn<'a>(&'a Inner);

impl<'a> DrawnIn<'a> {
    fn new(inner: &'a Inner) -> Self {
        lock(&inner.commit).chain.draws_in = true;
        Self(inner)
    }
}

impl Drop for DrawnIn<'_> {
    fn drop(&mut self) {
        lock(&self.0.commit).chain.draws_in = false;
    }
}

impl Inner {
    /// Makes the file as short as what is alive allows. Writers go on meanwhile, and what they write is in
    /// the way. `progress` hears of the file's length now and then.
    pub(crate) fn compact(&self, progress: &mut dyn FnMut(u64)) -> Result<()> {
        EpochPin::refuse_inside()?;
        let length = || self.data.len().map_err(|e| Error::io("reading the length of the file", e));
        let mut before = length()?;
        // What one run empties is free for the next one.
        for _ in 0..RUNS {
            progress(before);
            self.leave_values_extent()?;
            let drawn_in = DrawnIn::new(self);
            self.run_checkpoint(Pace::Full, Sweep::All { budget: u64::MAX })?;
            drop(drawn_in);
            let now = length()?;
            if now >= before && !self.is_long() {
                break;
            }
            before = now;
        }
        progress(length()?);
        Ok(())
    }

    /// As [`name_root`](Self::name_root), for a file that is to be short: the journal goes on nearer to the
    /// start of the file if that can be, and no block has been written since `journal`. Says where it does.
    pub(crate) fn name_short_root(
        &self,
        root: Placed,
        journal: Option<JournalMark>,
    ) -> Result<Option<JournalMark>> {
        let mut commit = lock(&self.commit);
        let Some(mark) = journal.and_then(|mark| self.draw_in(&commit.chain, mark)) else {
            drop(commit);
            return self.name_root(root, journal).map(|()| journal);
        };
        // No block is written before the superblock says where it is.
        let chain = &mut commit.chain;
        let written = self.write_root_name(root, Some(mark), (mark.next, self.epochs.durable()));
        let mut places = self.places_mut();
        if written.is_err() {
            places.extents.release_journal(mark.next.next_extent);
        } else {
            let former = chain.next.next_extent;
            // Those with blocks are free when the root is the pool's.
            if !chain.extents.contains(&former) {
                places.extents.release_journal(former);
            }
            chain.next = mark.next;
        }
        written.map(|()| Some(mark))
    }

    /// Where the chain could go on nearer to the start of the file than it does, if `mark` is its end. Takes
    /// an extent for that.
    fn draw_in(&self, chain: &Chain, mark: JournalMark) -> Option<JournalMark> {
        if chain.spilled.is_some() || chain.next != mark.next {
            return None;
        }
        let now = (mark.next.spot() / EXTENT_BYTES) as u32;
        let first = self.places_mut().extents.take_first_for_journal(now)?;
        let next = Position::begin(first, mark.next.number, mark.next.link);
        Some(JournalMark { next, ..mark })
    }
}
