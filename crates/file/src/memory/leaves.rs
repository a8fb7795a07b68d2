//! How leaves of the page table leave memory: by the second chance of a clock of their own.
//!
//! A leaf that is on the disk as it is can be read again, so no more of them stay than a part of memory takes: 16 bytes for
//! each page of the file would be more than all of memory one day. A leaf is worth more than the pages that take as
//! much: it says of 512 pages where they are. A checkpoint relies on leaves that it has looked up for a batch, so none
//! leaves until the batch has ended. Then it writes those that it has changed, if they are many.

use std::sync::atomic::Ordering::Relaxed;

use crate::inner::Inner;
use crate::memory::budget::Part;
use crate::store::table::LEAF_BYTES;

/// Leaves take this part of memory at most.
const TABLE_PART: u64 = 4;
/// Leaves that the hand looks at in one go, and that go, at most.
const GO: (usize, u64) = (4096, 64);

/// While this lives, leaves that its owner has looked up stay.
pub(crate) struct KeptLeaves<'m>(&'m Inner);

impl<'m> KeptLeaves<'m> {
    pub fn of(inner: &'m Inner) -> Self {
        inner.places_mut().keepers += 1;
        Self(inner)
    }
}

impl Drop for KeptLeaves<'_> {
    fn drop(&mut self) {
        self.0.places_mut().keepers -= 1;
    }
}

impl Inner {
    fn most_leaves(&self) -> u64 {
        let most = self.residents.part(Part::Table, TABLE_PART);
        most.map_or(u64::MAX, |most| most / LEAF_BYTES as u64)
    }

    pub(crate) fn are_leaves_many(&self) -> bool {
        self.places().leaves_in_memory() > self.most_leaves()
    }

    /// Counts the bytes of the page table, and of what is ahead of it.
    pub(super) fn measure_table(&self) {
        let leaves = self.places().leaves_in_memory();
        let bytes = leaves * LEAF_BYTES as u64 + self.ahead.bytes();
        self.residents.table.store(bytes, Relaxed);
    }

    /// Lets leaves go that nobody needs, if they are many and nobody keeps them. Never waits.
    pub(super) fn evict_leaves(&self) {
        self.let_leaves_go(0, GO);
    }

    /// The same, if there are so many keepers and no more: the caller may be one of them.
    pub(crate) fn let_leaves_go(&self, keepers: u32, go: (usize, u64)) {
        if self.are_leaves_many() {
            let mut places = self.places_mut();
            if places.keepers == keepers {
                places.let_go(self.most_leaves(), go);
            }
            drop(places);
            self.measure_table();
        }
    }
}
