//! The part of the page table that a checkpoint writes: leaves that it has changed, most of them as it goes on.

use std::sync::atomic::Ordering;

use everleaf_pmem::error::Result;
use everleaf_pmem::fallible;

use crate::checkpoint::cleaner::CheckpointWork;
use crate::inner::Inner;
use crate::memory::leaves::KeptLeaves;
use crate::store::image::{ImageKind, ImageName, Placed, by_entries};
use crate::store::table::{LEAF_BYTES, LEAVES_COPIED, is_sparse};

impl Inner {
    /// Lets leaves go behind a batch of a checkpoint, which `kept` them, and writes those that it has changed, if they are
    /// many.
    ///
    /// # Errors
    /// Those of writing; what was not written stays.
    pub(super) fn spill_leaves(
        &self,
        run: &mut CheckpointWork,
        _kept: KeptLeaves<'_>,
    ) -> Result<()> {
        const ALL: (usize, u64) = (usize::MAX, u64::MAX);
        self.let_leaves_go(1, ALL);
        if self.are_leaves_many() && self.write_dirty_leaves(run)? {
            // A leaf that is read again is the one that was written.
            self.sync_data("syncing leaves of the page table")?;
            self.places_mut().note_synced(false);
            self.let_leaves_go(1, ALL);
        }
        Ok(())
    }

    /// Writes those leaves that differ from what is on the disk, but for the last few. Says whether there were any.
    ///
    /// # Errors
    /// Those of writing; what was not written stays.
    pub(super) fn write_dirty_leaves(&self, run: &mut CheckpointWork) -> Result<bool> {
        let mut first = 0;
        while self.places().dirty(first).nth(LEAVES_COPIED - 1).is_some() {
            let (leaves, raw) = self.places_mut().take_some_dirty(first, LEAVES_COPIED)?;
            first = leaves.last().map_or(first, |last| last + 1);
            self.write_some_leaves(run, &leaves, &raw).inspect_err(|_| {
                let mut places = self.places_mut();
                leaves.iter().for_each(|&leaf| places.soil_leaf(leaf));
            })?;
        }
        if first > 0 {
            // Images that come later in the run are newer, also to a reader that has no root to say so.
            run.stamp = self.stamp.fetch_add(1, Ordering::Relaxed) + 1;
        }
        Ok(first > 0)
    }

    fn write_some_leaves(
        &self,
        run: &mut CheckpointWork,
        leaves: &[u32],
        raw: &[u8],
    ) -> Result<()> {
        let mut placed = Vec::new();
        fallible::more(&mut placed, leaves.len(), "leaves of the page table")?;
        for (&leaf, raw) in leaves.iter().zip(raw.chunks_exact(LEAF_BYTES)) {
            placed.push(self.push_leaf(run, leaf, raw)?);
        }
        run.stream.flush(self)?;
        let mut places = self.places_mut();
        for (&leaf, placed) in leaves.iter().zip(placed) {
            places.place_leaf(leaf, placed)?;
        }
        run.stream.settle(&mut places);
        Ok(())
    }

    /// Writes leaves of the table, whose bytes are `raw`, and counts them in `live`, the bytes of each extent
    /// that are alive.
    pub(super) fn write_leaves(
        &self,
        run: &mut CheckpointWork,
        leaves: &[u32],
        raw: Vec<u8>,
        live: &mut Vec<u32>,
    ) -> Result<()> {
        for (&leaf, raw) in leaves.iter().zip(raw.chunks_exact(LEAF_BYTES)) {
            let placed = self.push_leaf(run, leaf, raw)?;
            let old = self.places_mut().place_leaf(leaf, placed)?;
            if old.has_image() {
                live[old.extent() as usize] -= old.room();
            }
            let at = placed.extent() as usize;
            if let more @ 1.. = (at + 1).saturating_sub(live.len()) {
                fallible::more(live, more, "the list of extents")?;
                live.resize(at + 1, 0);
            }
            live[at] += placed.room();
        }
        Ok(())
    }

    /// Writes a leaf of the table, whose bytes are `raw`, into the stream.
    fn push_leaf(&self, run: &mut CheckpointWork, leaf: u32, raw: &[u8]) -> Result<Placed> {
        // The last one is sparse in each pool that is new, and stays plain for those that look at its bytes.
        let is_last = u64::from(leaf) + 1 >= self.places().leaves();
        let name = (ImageName { kind: ImageKind::Table, number: leaf }, run.stamp);
        // Of most pages it has only how often they were changed, if anything, since they are free.
        let placed = match !is_last && is_sparse(raw) {
            true => run.stream.push_as(self, Some(by_entries), name, (raw, 0..0))?,
            false => run.stream.push(self, name, raw, 0..0)?,
        };
        run.bytes += u64::from(placed.room());
        Ok(placed)
    }
}
