//! How many pairs each tree has, for [`Medium::counted`](everleaf_pmem::Medium::counted).
//!
//! A step that adds a pair to a tree, or takes one away, counts that in its slot of the epoch clock: no word is
//! shared. The block of an epoch carries the sums of its steps, and a root those of all epochs up to one that it
//! names. So the counts after a crash are those of the root, and of the blocks of later epochs.
//!
//! ```text
//! record of a block   tag 253, page and seq 0, then for each tree: anchor u32, difference i64
//! list of a root      for each tree that has pairs: anchor u32, pairs u64
//! ```

use std::collections::HashMap;

use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::fallible;
use everleaf_pmem::page::PageNo;

use crate::journal::{RECORD_HEAD, TAG_COUNTS};
use crate::store::format::{u32_at, u64_at};

/// Bytes of one tree in a record or in a root.
pub(crate) const ENTRY_BYTES: usize = 12;
/// Trees of one record.
const RECORD_TREES: usize = u16::MAX as usize / ENTRY_BYTES;

const COUNTS: &str = "the counts of pairs";

type Difference = (PageNo, i64);

/// A slot with more trees gives up those of which it has nothing to tell.
const MANY_TREES: usize = 64;
/// Bytes of a place in a table of counts: an eighth of them is empty, and a byte says what each is.
const PLACE_BYTES: u64 = 20;
const _: () = assert!(PLACE_BYTES as usize > (size_of::<(PageNo, u64)>() + 1) * 8 / 7);

/// The counts that the steps of one slot have made.
#[derive(Debug, Default)]
pub(crate) struct SlotCounts {
    /// In the order of trees.
    trees: Vec<TreeCount>,
    /// The one that was counted last.
    last: usize,
    /// Whether something was counted in the epoch with an even number, and in that with an odd one.
    changed: [bool; 2],
}

#[derive(Debug)]
struct TreeCount {
    tree: PageNo,
    /// In the epoch with an even number, and in that with an odd one, that nobody has taken yet.
    epochs: [i64; 2],
}

impl SlotCounts {
    /// Sees to it that the next [`add`](Self::add) needs no memory.
    #[inline(always)]
    pub fn make_room(&mut self) -> Result<()> {
        if self.trees.len() == self.trees.capacity() { self.make_room_for(1) } else { Ok(()) }
    }

    /// The same of a step with several changes.
    #[cold]
    #[inline(never)]
    pub fn make_room_for(&mut self, trees: usize) -> Result<()> {
        fallible::more(&mut self.trees, trees, COUNTS)
    }

    /// Counts pairs that a step of `epoch` has added to a tree, or taken away.
    #[inline(always)]
    pub fn add(&mut self, tree: PageNo, epoch: u64, by: i64) {
        let i = (epoch & 1) as usize;
        self.changed[i] = true;
        match self.trees.get_mut(self.last) {
            Some(count) if count.tree == tree => count.epochs[i] += by,
            _ => self.add_elsewhere(tree, i, by),
        }
    }

    #[cold]
    #[inline(never)]
    fn add_elsewhere(&mut self, tree: PageNo, i: usize, by: i64) {
        self.last =
            self.trees.binary_search_by_key(&tree, |count| count.tree).unwrap_or_else(|at| {
                debug_assert!(self.trees.len() < self.trees.capacity(), "a step has made room");
                self.trees.insert(at, TreeCount { tree, epochs: [0; 2] });
                at
            });
        self.trees[self.last].epochs[i] += by;
    }

    /// The pairs that were counted of a tree and that nobody has taken.
    fn of(&self, tree: PageNo) -> i64 {
        let found = self.trees.binary_search_by_key(&tree, |count| count.tree);
        found.map_or(0, |at| self.trees[at].epochs.iter().sum())
    }

    /// Moves what was counted in an epoch that has ended to `taken`.
    ///
    /// # Errors
    /// [`Error::NoMemory`]: it is still here.
    fn take(&mut self, epoch: u64, taken: &mut Vec<Difference>) -> Result<()> {
        let i = (epoch & 1) as usize;
        if !self.changed[i] {
            return Ok(());
        }
        let changed = self.trees.iter().filter(|count| count.epochs[i] != 0);
        fallible::more(taken, changed.count(), COUNTS)?;
        for count in &mut self.trees {
            match std::mem::take(&mut count.epochs[i]) {
                0 => {}
                by => taken.push((count.tree, by)),
            }
        }
        self.changed[i] = false;
        if self.trees.len() > MANY_TREES {
            self.trees.retain(|count| count.epochs != [0; 2]);
            self.last = 0;
        }
        Ok(())
    }
}

/// The counts as the journal has them, and what it does not have yet.
#[derive(Debug, Default)]
pub(crate) struct DurableCounts {
    /// Of trees that have pairs, after the last epoch that is durable.
    pairs: HashMap<PageNo, u64>,
    /// Of the epoch that was closed; in no block yet.
    taken: Vec<Difference>,
    /// Of that epoch, and in its block.
    noted: Vec<Difference>,
}

impl DurableCounts {
    /// Takes what a slot has counted in an epoch that has ended.
    ///
    /// # Errors
    /// [`Error::NoMemory`]: then it is to be called again.
    pub fn take(&mut self, epoch: u64, slot: &mut SlotCounts) -> Result<()> {
        slot.take(epoch, &mut self.taken)
    }

    /// How many pairs a tree has. `slots` has each slot tell what it keeps, and nothing is taken meanwhile.
    ///
    /// # Errors
    /// Those of `slots`.
    pub fn of<E>(
        &self,
        tree: PageNo,
        slots: impl FnOnce(&mut dyn FnMut(&SlotCounts)) -> Result<(), E>,
    ) -> Result<u64, E> {
        let unpublished = self.taken.iter().chain(&self.noted);
        let mut by: i64 = unpublished.filter(|(no, _)| *no == tree).map(|(_, by)| by).sum();
        slots(&mut |slot| by += slot.of(tree))?;
        // A file may say what it likes.
        Ok(self.pairs.get(&tree).copied().unwrap_or(0).saturating_add_signed(by))
    }

    /// About how many bytes of memory they take.
    pub fn bytes(&self) -> u64 {
        self.pairs.capacity() as u64 * PLACE_BYTES
    }

    /// Adds up what was taken, tree by tree; says how many bytes of records it will be.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn sum_up(&mut self) -> Result<usize> {
        self.taken.sort_unstable_by_key(|(tree, _)| *tree);
        self.taken.dedup_by(|next, sum| {
            let is_same = next.0 == sum.0;
            if is_same {
                sum.1 += next.1;
            }
            is_same
        });
        let n = self.taken.len();
        fallible::more(&mut self.noted, n, COUNTS)?;
        fallible::more_keys(&mut self.pairs, n, COUNTS)?;
        Ok(n * ENTRY_BYTES + n.div_ceil(RECORD_TREES) * RECORD_HEAD)
    }

    /// Moves what was summed up to the end of `block`, which has room for it.
    pub fn note(&mut self, block: &mut Vec<u8>) {
        for trees in self.taken.chunks(RECORD_TREES) {
            let mut head = [0; RECORD_HEAD];
            head[0] = TAG_COUNTS;
            head[1..3].copy_from_slice(&((trees.len() * ENTRY_BYTES) as u16).to_le_bytes());
            block.extend_from_slice(&head);
            for (tree, by) in trees {
                block.extend_from_slice(&tree.to_le_bytes());
                block.extend_from_slice(&by.to_le_bytes());
            }
        }
        self.noted.append(&mut self.taken);
    }

    /// The epoch is durable. Needs no memory.
    pub fn publish(&mut self) {
        for (tree, by) in self.noted.drain(..) {
            let pairs = self.pairs.entry(tree).or_default();
            *pairs = pairs.saturating_add_signed(by);
            if *pairs == 0 {
                self.pairs.remove(&tree);
            }
        }
    }

    /// Does again what a record of the journal says.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it cannot be so; `at` is the byte of the file where it stands.
    /// [`Error::NoMemory`].
    pub fn redo(&mut self, record: &[u8], at: u64) -> Result<()> {
        let (entries, rest) = record.as_chunks::<ENTRY_BYTES>();
        if !rest.is_empty() {
            return Err(Error::corrupt(at, "half a count of pairs"));
        }
        fallible::more_keys(&mut self.pairs, entries.len(), COUNTS)?;
        for entry in entries {
            let (tree, by) = (u32_at(entry, 0), u64_at(entry, 4) as i64);
            let pairs = self.pairs.entry(tree).or_default();
            let Some(sum) = pairs.checked_add_signed(by) else {
                let what = format!("{by} more pairs in the tree of page {tree}, which has {pairs}");
                return Err(Error::corrupt(at, what));
            };
            *pairs = sum;
            if sum == 0 {
                self.pairs.remove(&tree);
            }
        }
        Ok(())
    }

    /// Those of a root's list; the root is at byte `at` of the file.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is no list by rising numbers, or has a tree without pairs; [`Error::NoMemory`].
    pub fn of_root(list: &[u8], at: u64) -> Result<Self> {
        let mut counts = Self::default();
        let (entries, _) = list.as_chunks::<ENTRY_BYTES>();
        let trees = entries.iter().map(|entry| (u32_at(entry, 0), u64_at(entry, 4)));
        let rises = trees.clone().is_sorted_by(|one, next| one.0 < next.0);
        if !rises || trees.clone().any(|(_, pairs)| pairs == 0) {
            return Err(Error::corrupt(at, "root of the page table: no list of trees with pairs"));
        }
        fallible::more_keys(&mut counts.pairs, entries.len(), COUNTS)?;
        counts.pairs.extend(trees);
        Ok(counts)
    }

    /// The list for a root.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn to_root(&self) -> Result<Vec<u8>> {
        let mut list: Vec<[u8; ENTRY_BYTES]> = fallible::list(self.pairs.len(), COUNTS)?;
        list.extend(self.pairs.iter().map(|(tree, pairs)| {
            let mut entry = [0; ENTRY_BYTES];
            entry[..4].copy_from_slice(&tree.to_le_bytes());
            entry[4..].copy_from_slice(&pairs.to_le_bytes());
            entry
        }));
        // One content has one form.
        list.sort_unstable_by_key(|entry| u32_at(entry, 0));
        Ok(list.into_flattened())
    }

    /// How many pairs each tree has, for trees that have some.
    pub fn into_pairs(self) -> HashMap<PageNo, u64> {
        self.pairs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::record_bytes;

    fn count(slot: &mut SlotCounts, tree: PageNo, epoch: u64, by: i64) {
        slot.make_room().expect("memory");
        slot.add(tree, epoch, by);
    }

    fn end(counts: &mut DurableCounts, epoch: u64, slots: &mut [SlotCounts]) -> Vec<u8> {
        slots.iter_mut().for_each(|slot| counts.take(epoch, slot).expect("memory"));
        let (bytes, mut block) = (counts.sum_up().expect("memory"), Vec::new());
        counts.note(&mut block);
        assert_eq!(block.len(), bytes);
        block
    }

    fn pairs(counts: &DurableCounts) -> Vec<(PageNo, u64)> {
        let mut pairs: Vec<_> = counts.pairs.iter().map(|(tree, pairs)| (*tree, *pairs)).collect();
        pairs.sort_unstable();
        pairs
    }

    #[test]
    fn an_epoch_has_the_sums_of_all_slots_and_only_its_own() {
        let (mut counts, mut slots) =
            (DurableCounts::default(), [(); 2].map(|()| SlotCounts::default()));
        count(&mut slots[0], 9, 4, 1);
        count(&mut slots[0], 3, 4, 1);
        count(&mut slots[0], 9, 5, 1);
        count(&mut slots[1], 9, 4, 5);
        count(&mut slots[1], 7, 4, 1);
        count(&mut slots[1], 7, 4, -1);
        let of = |counts: &DurableCounts, slots: &[SlotCounts], tree| {
            let all = |see: &mut dyn FnMut(&SlotCounts)| {
                slots.iter().for_each(see);
                Ok::<_, Error>(())
            };
            counts.of(tree, all).expect("no fault")
        };
        assert_eq!(of(&counts, &slots, 9), 7);
        let block = end(&mut counts, 4, &mut slots);
        assert_eq!(block.len(), RECORD_HEAD + 2 * ENTRY_BYTES, "of 7 there is nothing to say");
        assert_eq!(pairs(&counts), [], "the epoch is not durable");
        assert_eq!((of(&counts, &slots, 3), of(&counts, &slots, 9)), (1, 7), "nor lost");
        // Counts that are in a block are not put into another one.
        assert!(end(&mut counts, 4, &mut slots).is_empty());
        counts.publish();
        assert_eq!(pairs(&counts), [(3, 1), (9, 6)]);
        end(&mut counts, 5, &mut slots);
        counts.publish();
        count(&mut slots[0], 3, 6, -1);
        end(&mut counts, 6, &mut slots);
        counts.publish();
        assert_eq!(pairs(&counts), [(9, 7)]);
        assert_eq!((of(&counts, &slots, 3), of(&counts, &slots, 9)), (0, 7));
    }

    #[test]
    fn a_root_and_later_blocks_say_what_there_was() {
        let (mut counts, mut slots) = (DurableCounts::default(), [SlotCounts::default()]);
        (0..10_000).for_each(|tree| count(&mut slots[0], tree, 1, i64::from(tree) + 1));
        end(&mut counts, 1, &mut slots);
        counts.publish();
        let root = counts.to_root().expect("memory");
        (0..10_000).for_each(|tree| count(&mut slots[0], tree, 2, -1));
        let block = end(&mut counts, 2, &mut slots);
        counts.publish();
        let mut again = DurableCounts::of_root(&root, 0).expect("memory");
        let mut at = 0;
        while at < block.len() {
            let bytes = record_bytes(&block[at..]);
            assert_eq!(block[at], TAG_COUNTS);
            again.redo(&block[at + RECORD_HEAD..at + bytes], 0).expect("as it was written");
            at += bytes;
        }
        assert_eq!(pairs(&again), pairs(&counts));
        assert_eq!(pairs(&again)[0], (1, 1), "the tree of page 0 has none any more");
    }

    #[test]
    fn a_slot_forgets_trees_that_it_has_nothing_to_tell_of() {
        let (mut counts, mut slots) = (DurableCounts::default(), [SlotCounts::default()]);
        (0..10_000).for_each(|tree| count(&mut slots[0], tree, 1, 1));
        count(&mut slots[0], 77, 2, 5);
        end(&mut counts, 1, &mut slots);
        assert_eq!(slots[0].trees.len(), 1, "what the running epoch has counted");
        counts.publish();
        count(&mut slots[0], 3, 2, -1);
        end(&mut counts, 2, &mut slots);
        assert_eq!(slots[0].trees.len(), 2, "a few stay");
        counts.publish();
        let wrong = |(tree, n): &(PageNo, u64)| *n != if *tree == 77 { 6 } else { 1 };
        assert_eq!(pairs(&counts).iter().find(|pairs| wrong(pairs)), None);
        assert_eq!(pairs(&counts).len(), 9_999);
    }

    #[test]
    fn a_record_that_cannot_be_is_refused() {
        let mut counts = DurableCounts::default();
        for record in [&[0; 5][..], &[[1; 4].as_slice(), &(-1_i64).to_le_bytes()].concat()] {
            assert!(matches!(counts.redo(record, 7), Err(Error::Corrupt { .. })));
        }
    }
}
