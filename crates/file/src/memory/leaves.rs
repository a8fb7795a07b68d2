//! How leaves of the page table leave memory: by the second chance of a clock of their own.
//!
//! A leaf that is on the disk as it is can be read again, so no more of them stay than a part of memory takes: 16 bytes for
//! each page of the file would be more than all of memory one day. A leaf is worth more than the pages that take as
//! much: it says of 512 pages where they are. A checkpoint relies on leaves that it has looked up, so while it runs only
//! itself lets leaves go, between two of its batches. There it writes those that it has changed, if they are many.

use std::sync::atomic::Ordering::Relaxed;

use everleaf_pmem::error::Result;
use everleaf_pmem::fallible;

use crate::checkpoint::cleaner::Run;
use crate::inner::Inner;
use crate::store::table::{LEAF_BYTES, Places};

/// Leaves take this part of memory at most.
const TABLE_PART: u64 = 4;
/// Leaves that the hand looks at in one go, at most.
const LOOKS: usize = 4096;
/// Leaves of which a checkpoint has copies at the same time, about: it writes the others before its end.
pub(super) const COPIED: usize = 64;

impl Inner {
    fn most_leaves(&self) -> u64 {
        self.residents.most.map_or(u64::MAX, |most| most / TABLE_PART / LEAF_BYTES as u64)
    }

    fn are_leaves_many(&self) -> bool {
        self.places().leaves_in_memory() > self.most_leaves()
    }

    /// Counts the bytes of the page table.
    pub(super) fn measure_table(&self) {
        let leaves = self.places().leaves_in_memory();
        self.residents.table.store(leaves * LEAF_BYTES as u64, Relaxed);
    }

    /// Lets leaves go that nobody needs, if they are many and no checkpoint runs. Never waits.
    pub(super) fn evict_leaves(&self) {
        if !self.are_leaves_many() {
            return;
        }
        if let Ok(_alone) = self.checkpointing.try_lock() {
            self.let_leaves_go(LOOKS);
        }
    }

    /// The same, by who keeps checkpoints out.
    fn let_leaves_go(&self, looks: usize) {
        self.places_mut().let_go(self.most_leaves(), looks);
        self.measure_table();
    }

    /// Lets leaves go between two batches of a checkpoint, and writes those that it has changed, if they are many.
    ///
    /// # Errors
    /// Those of writing; what was not written stays.
    pub(crate) fn spill_leaves(&self, run: &mut Run) -> Result<()> {
        if self.are_leaves_many() {
            self.let_leaves_go(usize::MAX);
        }
        if self.are_leaves_many() {
            self.write_dirty_leaves(run)?;
            self.let_leaves_go(usize::MAX);
        }
        Ok(())
    }

    /// Writes those leaves that differ from what is on the disk, but for the last few.
    ///
    /// # Errors
    /// Those of writing; what was not written stays.
    pub(crate) fn write_dirty_leaves(&self, run: &mut Run) -> Result<()> {
        let mut first = 0;
        loop {
            let (leaves, raw) = self.places_mut().take_some_dirty(first, COPIED)?;
            let soil = |places: &mut Places| leaves.iter().for_each(|&leaf| places.soil_leaf(leaf));
            let Some(last) = leaves.last().filter(|_| leaves.len() == COPIED) else {
                soil(&mut self.places_mut());
                return Ok(());
            };
            first = last + 1;
            let written = self.write_some_leaves(run, &leaves, &raw);
            written.inspect_err(|_| soil(&mut self.places_mut()))?;
        }
    }

    fn write_some_leaves(&self, run: &mut Run, leaves: &[u32], raw: &[u8]) -> Result<()> {
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
}
