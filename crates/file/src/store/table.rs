//! The page table: where the image of each page is. In memory, as far as it is needed: a leaf is read when it is asked
//! for, and [leaves](Places::let_go) if nobody has asked of late.
//!
//! ```text
//! leaf i   512 entries of 16 bytes, of the pages from 512 × i on: place u64, bytes u32, crc u32
//! root     0 leaves u32   4 extents u32   8 epoch u64   16 trees u32   20 zero u32
//!          24 an entry for each leaf, then u32 live bytes of each extent, then 12 bytes for each tree
//! ```
//!
//! Page numbers never change, so latches, memory and journal do not know of places. A checkpoint
//! writes the leaves that have changed, and the root, to new places, as it does with pages.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::fallible;
use everleaf_pmem::page::PageNo;

use crate::epochs::counts::{self, DurableCounts};
use crate::store::extents::Extents;
use crate::store::format::{EXTENT_BYTES, u32_at, u64_at};
use crate::store::image::Placed;

/// Pages of which one leaf knows.
pub(crate) const LEAF_PAGES: usize = 512;
/// Bytes of a leaf.
pub(crate) const LEAF_BYTES: usize = LEAF_PAGES * Placed::BYTES;
/// Leaves of which a checkpoint has copies at the same time, about: it writes the others before its end.
pub(crate) const LEAVES_COPIED: usize = 64;
/// Bytes of a root before its lists.
const ROOT_HEAD: usize = 24;

const TABLE: &str = "the page table";

/// Bytes of a file that a leaf with an image takes at least: so many leaves a file may have,
const LEAF_IMAGE_LEAST: u64 = 64;
/// and so many more, whose pages went to large values that nobody linked. It is 64 GiB of them, if pages have 512
/// bytes, and 512 GiB if they have 4,096.
const LEAVES_WITHOUT_IMAGE: u64 = 1 << 18;
/// Bytes of a file that a tree with pairs takes at least: in the root, in the catalog, its anchor and its node.
const TREE_LEAST: u64 = 24;
/// A journal adds no more leaves than one for each so many bytes of the file: a full one has 512 images.
const MADE_LEAST: u64 = 2048;
/// And so many more, where groups have begun.
const MADE_MORE: u64 = 1024;

pub(crate) type LeafEntries = Box<[Placed; LEAF_PAGES]>;

#[derive(Debug, Default)]
pub(crate) struct TableLeaf {
    /// Where it is on the disk.
    placed: Placed,
    entries: Option<LeafEntries>,
    /// Those of its pages whose large value was adopted since the last [`age`](Places::age). It is there as soon
    /// as a large value is written to one of them, because a step that adopts it cannot fail any more.
    fresh: Option<Box<PageBits>>,
    /// It differs from what is on the disk.
    dirty: bool,
    /// Somebody has asked for it since the hand was there last.
    used: AtomicBool,
    /// Its bytes are on their way to the disk, or there, and not synced yet.
    is_new: bool,
    /// It is not in memory, and none of its pages had an image when it was.
    was_free: bool,
    /// How many of its pages have a large value that waits for its adoption.
    awaiting: u16,
}

/// Pages of a leaf, a bit each.
type PageBits = [u64; LEAF_PAGES / 64];

impl TableLeaf {
    /// Whether none of its pages has an image, as far as anybody knows.
    fn has_only_free(&self) -> bool {
        match &self.entries {
            Some(entries) => entries.iter().all(|entry| !entry.has_image()),
            None => self.was_free,
        }
    }

    /// Which of its pages have values that were adopted of late.
    fn fresh(&mut self) -> Result<&mut PageBits> {
        if self.fresh.is_none() {
            self.fresh = Some(array(fallible::filled(0, LEAF_PAGES / 64, TABLE)?));
        }
        Ok(self.fresh.as_mut().expect("it was just made"))
    }

    /// Whether it can leave memory: it is on the disk as it is, and nobody relies on it.
    fn can_go(&self) -> bool {
        let is_fresh = self.fresh.as_ref().is_some_and(|bits| bits.iter().any(|word| *word != 0));
        let is_written = !self.dirty && !self.is_new && self.placed.has_image();
        is_written && self.awaiting == 0 && !is_fresh
    }
}

/// How many pairs trees had after an epoch.
#[derive(Debug, Default)]
pub(crate) struct RootCounts {
    pub epoch: u64,
    pub pairs: DurableCounts,
}

/// The place of a page, as far as it is known without looking at the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KnownPlace {
    Is(Placed),
    /// This leaf must be read first.
    Ask(u32, Placed),
}

/// Which image every page has, and which bytes of the file are alive for that.
#[derive(Debug, Default)]
pub(crate) struct Places {
    leaves: Vec<TableLeaf>,
    /// How many of them are in memory, and where the hand is that goes over them.
    in_memory: u64,
    hand: usize,
    /// How many rely on leaves that they have looked up.
    pub keepers: u32,
    /// A leaf is in another place than the durable root says.
    is_ahead: bool,
    /// How many of them the root had at the open, and how many have been made.
    root_leaves: u32,
    made: u32,
    /// Bytes of the list of trees in a root, as far as it is known.
    pub list_bytes: usize,
    pub extents: Extents,
}

/// The number of the leaf for a page.
pub(crate) fn leaf_of(no: PageNo) -> u32 {
    no / LEAF_PAGES as u32
}

impl Places {
    /// Those of a root's payload, and the counts in it. The file has `len` bytes.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is no root of such a file; `at` is its byte in the file. [`Error::NoMemory`].
    pub(crate) fn of_root(root: &[u8], at: u64, len: u64) -> Result<(Self, RootCounts)> {
        let damaged = |what: &str| Error::corrupt(at, format!("root of the page table: {what}"));
        if root.len() < ROOT_HEAD {
            return Err(damaged("too short"));
        }
        let count = |at: usize| u32_at(root, at) as usize;
        let (n, extents, trees) = (count(0), count(4), count(16));
        let lists = [(n, Placed::BYTES), (extents, 4), (trees, counts::ENTRY_BYTES)];
        let wanted = lists
            .iter()
            .try_fold(ROOT_HEAD, |sum: usize, (n, bytes)| sum.checked_add(n.checked_mul(*bytes)?));
        if wanted != Some(root.len()) || u32_at(root, 20) != 0 {
            return Err(damaged("of another length than it says"));
        }
        // Before there is memory for so many.
        if n as u64 > len / LEAF_IMAGE_LEAST + LEAVES_WITHOUT_IMAGE {
            return Err(damaged("more leaves than such a file can have"));
        }
        if trees as u64 > len / TREE_LEAST {
            return Err(damaged("more trees than such a file can have"));
        }
        let (entries, rest) = root[ROOT_HEAD..].split_at(n * Placed::BYTES);
        let (live, list) = rest.split_at(extents * 4);
        let mut leaves = fallible::list(n, TABLE)?;
        for entry in entries.chunks_exact(Placed::BYTES) {
            let placed = Placed::decode(entry);
            if !placed.is_possible() || placed.crc != 0 && !placed.has_image() {
                return Err(damaged("an impossible place"));
            }
            leaves.push(TableLeaf { placed, ..TableLeaf::default() });
        }
        // The last ones may have become free with what this root has moved.
        let in_use =
            live.chunks_exact(4).rposition(|b| u32_at(b, 0) != 0).map_or(0, |last| last + 1);
        if in_use as u64 > len.div_ceil(EXTENT_BYTES) {
            return Err(Error::corrupt(len, "the file ends here, within extents that are in use"));
        }
        let live = live[..4 * in_use].chunks_exact(4).map(|b| u32_at(b, 0));
        if live.clone().any(|bytes| u64::from(bytes) > EXTENT_BYTES) {
            return Err(damaged("more alive in an extent than fits"));
        }
        let counts =
            RootCounts { epoch: u64_at(root, 8), pairs: DurableCounts::of_root(list, at)? };
        let mut extents = Extents::of_root(live)?;
        if !leaves.iter().all(|leaf| leaf.placed.end() <= len && extents.claim(leaf.placed)) {
            return Err(damaged("a leaf where it says that nothing is alive"));
        }
        let root_leaves = n as u32;
        Ok((
            Self { leaves, root_leaves, list_bytes: list.len(), extents, ..Self::default() },
            counts,
        ))
    }

    /// Leaves up to the last one that is on the disk: those that a root has.
    fn leaves_in_root(&self) -> usize {
        let last = self.leaves.iter().rposition(|leaf| leaf.placed.has_image());
        last.map_or(0, |last| last + 1)
    }

    /// Bytes of the root's payload with so many extents.
    pub(crate) fn root_bytes(&self, extents: usize) -> usize {
        ROOT_HEAD + self.leaves_in_root() * Placed::BYTES + 4 * extents + self.list_bytes
    }

    /// Writes the root's payload to `out`, for which there is room. `list` is that of the pairs that trees
    /// have after `epoch`.
    pub(crate) fn encode_root(&self, live: &[u32], (epoch, list): (u64, &[u8]), out: &mut Vec<u8>) {
        let leaves = &self.leaves[..self.leaves_in_root()];
        out.extend_from_slice(&(leaves.len() as u32).to_le_bytes());
        out.extend_from_slice(&(live.len() as u32).to_le_bytes());
        out.extend_from_slice(&epoch.to_le_bytes());
        out.extend_from_slice(&((list.len() / counts::ENTRY_BYTES) as u64).to_le_bytes());
        leaves.iter().for_each(|leaf| out.extend_from_slice(&leaf.placed.encode()));
        live.iter().for_each(|bytes| out.extend_from_slice(&bytes.to_le_bytes()));
        out.extend_from_slice(list);
    }

    /// How many leaves there are.
    pub(crate) fn leaves(&self) -> u64 {
        self.leaves.len() as u64
    }

    /// Leaves that are in memory.
    pub(crate) fn leaves_in_memory(&self) -> u64 {
        self.in_memory
    }

    /// Behind the last page that may have an image.
    pub(crate) fn pages_end(&self) -> u64 {
        (self.leaves.len() * LEAF_PAGES) as u64
    }

    /// As [`pages_end`](Self::pages_end), without leaves that are not there.
    pub(crate) fn last_page_end(&self) -> u64 {
        let is_there = |leaf: &TableLeaf| leaf.placed.has_image() || leaf.entries.is_some();
        let last = self.leaves.iter().rposition(is_there);
        last.map_or(0, |last| (last * LEAF_PAGES) as u64 + 1)
    }

    /// The place of a page, as far as it is known.
    pub(crate) fn get(&self, no: PageNo) -> KnownPlace {
        match self.leaves.get(leaf_of(no) as usize) {
            None => KnownPlace::Is(Placed::default()),
            Some(TableLeaf { entries: Some(entries), used, .. }) => {
                if !used.load(Relaxed) {
                    used.store(true, Relaxed);
                }
                KnownPlace::Is(entries[no as usize % LEAF_PAGES])
            }
            Some(leaf) if !leaf.placed.has_image() => KnownPlace::Is(Placed::default()),
            Some(leaf) => KnownPlace::Ask(leaf_of(no), leaf.placed),
        }
    }

    /// Puts a leaf in memory that was read from where it is; one that is there stays.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it names an image where, by the root, none is alive, or more than are.
    pub(crate) fn learn(&mut self, leaf: u32, entries: LeafEntries) -> Result<()> {
        let leaf = &mut self.leaves[leaf as usize];
        if leaf.entries.is_some() {
            return Ok(());
        }
        let extents = &mut self.extents;
        if let Some(wrong) = entries.iter().position(|entry| !extents.claim(*entry)) {
            entries[..wrong].iter().for_each(|entry| extents.unclaim(*entry));
            let place = entries[wrong].place;
            let what = format!("leaf of the page table: no image is alive at byte {place}");
            return Err(Error::corrupt(leaf.placed.place, what));
        }
        leaf.entries = Some(entries);
        (leaf.was_free, *leaf.used.get_mut()) = (false, true);
        self.in_memory += 1;
        Ok(())
    }

    /// Lets leaves go that nobody has asked for since the hand was there last, until `most` of them are in memory, at most
    /// so `many`. Looks at `looks` of them at most.
    pub(crate) fn let_go(&mut self, most: u64, (looks, many): (usize, u64)) {
        let most = most.max(self.in_memory.saturating_sub(many));
        for _ in 0..looks.min(2 * self.leaves.len()) {
            if self.in_memory <= most {
                break;
            }
            self.hand = if self.hand < self.leaves.len() { self.hand } else { 0 };
            let leaf = &mut self.leaves[self.hand];
            self.hand += 1;
            let is_idle = leaf.entries.is_some() && !std::mem::take(leaf.used.get_mut());
            if !is_idle || !leaf.can_go() {
                continue;
            }
            leaf.was_free = leaf.has_only_free();
            let entries = leaf.entries.take();
            leaf.fresh = None;
            entries.iter().flat_map(|all| all.iter()).for_each(|one| self.extents.unclaim(*one));
            self.in_memory -= 1;
        }
    }

    /// Behind the last page that a journal can name, if the file has `len` bytes. Pages get the lowest number
    /// that is free, so each leaf before it was once full, of images that are still there or that the root
    /// knows; but for groups that have begun, and for values that nobody linked.
    pub(crate) fn possible_end(&self, len: u64) -> u64 {
        (u64::from(self.root_leaves) + len / LEAF_IMAGE_LEAST + LEAVES_WITHOUT_IMAGE)
            * LEAF_PAGES as u64
    }

    /// Refuses the page of a large value that a journal names, if a file of `len` bytes
    /// [cannot have](Self::possible_end) a page of that number.
    ///
    /// # Errors
    /// [`Error::Corrupt`], for the record at byte `at`.
    pub(crate) fn expect_page(&self, no: PageNo, len: u64, at: u64) -> Result<()> {
        if u64::from(no) < self.possible_end(len)
            && u64::from(self.made) <= len / MADE_LEAST + MADE_MORE
        {
            return Ok(());
        }
        Err(Error::corrupt(
            at,
            format!("a large value in page {no}, which such a file cannot have"),
        ))
    }

    /// Makes sure that a leaf that is not on the disk is in memory, so that [`set`](Self::set) needs
    /// none.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn make_room(&mut self, no: PageNo) -> Result<()> {
        let i = leaf_of(no) as usize;
        if let more @ 1.. = (i + 1).saturating_sub(self.leaves.len()) {
            fallible::more(&mut self.leaves, more, TABLE)?;
            self.leaves.resize_with(i + 1, TableLeaf::default);
        }
        let leaf = &mut self.leaves[i];
        if leaf.entries.is_none() && !leaf.placed.has_image() {
            leaf.entries = Some(blank_leaf()?);
            self.in_memory += 1;
            self.made += 1;
        }
        Ok(())
    }

    /// Says where the image of a page is now, and where it was. The leaf is in memory.
    ///
    /// # Errors
    /// [`Error::NoMemory`]: nothing has changed.
    pub(crate) fn set(&mut self, no: PageNo, new: Placed) -> Result<Placed> {
        debug_assert!(new.is_possible(), "{new:?}");
        self.make_room(no)?;
        let leaf = &mut self.leaves[leaf_of(no) as usize];
        let entries = leaf.entries.as_mut().expect("the caller has looked it up");
        let entry = &mut entries[no as usize % LEAF_PAGES];
        self.extents.exchange(*entry, new)?;
        let old = std::mem::replace(entry, new);
        leaf.dirty |= old != new;
        Ok(old)
    }

    /// As [`make_room`](Self::make_room), so that [`adopt`](Self::adopt) needs no memory: the leaf, which is in memory if
    /// it is on the disk, stays until the value was adopted, or is [not awaited](Self::await_no_more) any more.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn make_room_to_adopt(&mut self, no: PageNo) -> Result<()> {
        self.make_room(no)?;
        let leaf = &mut self.leaves[leaf_of(no) as usize];
        debug_assert!(leaf.entries.is_some(), "the leaf of page {no} is not looked up");
        leaf.fresh()?;
        leaf.awaiting += 1;
        Ok(())
    }

    /// The large value of a page, whose leaf is in memory, counts as adopted of late.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn note_fresh(&mut self, no: PageNo) -> Result<()> {
        let i = no as usize % LEAF_PAGES;
        self.leaves[leaf_of(no) as usize].fresh()?[i / 64] |= 1 << (i % 64);
        Ok(())
    }

    /// As [`set`](Self::set), for a page of a large value that a step adopts, which cannot fail any more: there
    /// [is room](Self::make_room_to_adopt) since the value was written, and its extent is held.
    pub(crate) fn adopt(&mut self, no: PageNo, new: Placed) -> Placed {
        let old = self.set(no, new).expect("there is room");
        let fresh = self.leaves[leaf_of(no) as usize].fresh.as_mut().expect("there is room");
        let i = no as usize % LEAF_PAGES;
        fresh[i / 64] |= 1 << (i % 64);
        self.await_no_more(no);
        old
    }

    /// The value of a page, for which there [was room](Self::make_room_to_adopt), was adopted or given up.
    pub(crate) fn await_no_more(&mut self, no: PageNo) {
        let leaf = &mut self.leaves[leaf_of(no) as usize];
        debug_assert!(leaf.awaiting > 0, "nobody waits for the value of page {no}");
        leaf.awaiting = leaf.awaiting.saturating_sub(1);
    }

    /// Whether a page has a large value that was adopted of late.
    fn is_fresh(&self, no: PageNo) -> bool {
        let i = no as usize % LEAF_PAGES;
        let fresh = self.leaves.get(leaf_of(no) as usize).and_then(|leaf| leaf.fresh.as_ref());
        fresh.is_some_and(|bits| bits[i / 64] >> (i % 64) & 1 != 0)
    }

    /// Large values that are there now count as old.
    pub(crate) fn age(&mut self) {
        self.leaves.iter_mut().filter_map(|leaf| leaf.fresh.as_mut()).for_each(|bits| bits.fill(0));
    }

    /// An image has been copied elsewhere: the table names the copy, unless it names another image by now.
    /// A value that was adopted of late stays where it is: the journal that the next root needs says that
    /// it is there. The journal behind the last root may say so of any other value, so what it was copied
    /// from is in use until the next root is durable.
    ///
    /// # Errors
    /// [`Error::NoMemory`]: nothing has changed.
    pub(crate) fn move_image(&mut self, no: PageNo, from: Placed, to: Placed) -> Result<()> {
        if self.get(no) == KnownPlace::Is(from) && !self.is_fresh(no) {
            self.set(no, to)?;
            self.extents.keep_until_switch(from);
        }
        Ok(())
    }

    /// Whether all leaves are where the durable root says, as they are.
    pub(crate) fn is_as_rooted(&self) -> bool {
        !self.is_ahead && self.leaves.iter().all(|leaf| !leaf.dirty)
    }

    /// All leaves that were written are durable; so is a root that says where they are, if `rooted`.
    pub(crate) fn note_synced(&mut self, rooted: bool) {
        self.leaves.iter_mut().for_each(|leaf| leaf.is_new = false);
        self.is_ahead &= !rooted;
    }

    /// Bytes of leaves on the disk that [are forgotten](Self::forget_free) when the pool is closed.
    pub(crate) fn free_leaf_bytes(&self) -> u64 {
        let free = self.leaves.iter().filter(|leaf| leaf.has_only_free());
        free.map(|leaf| u64::from(leaf.placed.room())).sum()
    }

    /// The pool is closed, and no journal has records of pages: forgets how often those that are free were changed,
    /// where that makes the table shorter. A leaf in memory without an image of a page is not on the disk any more.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn forget_free(&mut self) -> Result<()> {
        for leaf in &mut self.leaves {
            if leaf.has_only_free() {
                leaf.entries.iter_mut().for_each(|entries| entries.fill(Placed::default()));
                self.extents.exchange(leaf.placed, Placed::default())?;
                (leaf.placed, leaf.dirty, leaf.was_free) = (Placed::default(), false, false);
            }
        }
        Ok(())
    }

    /// The leaves that differ from those on the disk, their bytes back to back, and the live bytes of
    /// each extent, for the root: all at this moment. They count as written from now on, and what the root will name is in
    /// use until the next one.
    ///
    /// # Errors
    /// [`Error::NoMemory`]: nothing has changed.
    pub(crate) fn take_dirty(&mut self) -> Result<(Vec<u32>, Vec<u8>, Vec<u32>)> {
        let live = self.extents.live()?;
        let (list, raw) = self.take_some_dirty(0, usize::MAX)?;
        self.extents.expect_root(&live);
        Ok((list, raw, live))
    }

    /// The leaves from `first` on that differ from those on the disk, each with its number.
    pub(crate) fn dirty(&self, first: u32) -> impl Iterator<Item = (u32, &TableLeaf)> {
        let all = (0..).zip(&self.leaves).skip(first as usize);
        all.filter(|(_, leaf)| leaf.dirty)
    }

    /// As [`take_dirty`](Self::take_dirty), of `most` leaves, from `first` on.
    ///
    /// # Errors
    /// [`Error::NoMemory`]: nothing has changed.
    pub(crate) fn take_some_dirty(
        &mut self,
        first: u32,
        most: usize,
    ) -> Result<(Vec<u32>, Vec<u8>)> {
        let dirty = || self.dirty(first).take(most);
        let n = dirty().count();
        let (mut list, mut raw) =
            (fallible::list(n, TABLE)?, fallible::list(n * LEAF_BYTES, TABLE)?);
        for (i, leaf) in dirty() {
            list.push(i);
            let entries = leaf.entries.as_ref().expect("a leaf that differs is in memory");
            entries.iter().for_each(|entry| raw.extend_from_slice(&entry.encode()));
        }
        for leaf in &list {
            let leaf = &mut self.leaves[*leaf as usize];
            (leaf.dirty, leaf.is_new) = (false, true);
        }
        Ok((list, raw))
    }

    /// A leaf has a new image. Says where the old one was.
    ///
    /// # Errors
    /// [`Error::NoMemory`]: nothing has changed.
    pub(crate) fn place_leaf(&mut self, leaf: u32, placed: Placed) -> Result<Placed> {
        let old = self.leaves[leaf as usize].placed;
        self.extents.exchange(old, placed)?;
        self.leaves[leaf as usize].placed = placed;
        self.is_ahead = true;
        Ok(old)
    }

    /// The image of a leaf is not what the table says: it must be written again.
    pub(crate) fn soil_leaf(&mut self, leaf: u32) {
        self.leaves[leaf as usize].dirty = true;
    }

    /// Whether anything is known of the pages of a leaf.
    pub(crate) fn has_leaf(&self, leaf: u32) -> bool {
        let is_there = |leaf: &TableLeaf| leaf.placed.has_image() || leaf.entries.is_some();
        self.leaves.get(leaf as usize).is_some_and(is_there)
    }

    /// Where a leaf is on the disk.
    pub(crate) fn leaf(&self, leaf: u32) -> Option<Placed> {
        self.leaves.get(leaf as usize).map(|leaf| leaf.placed)
    }
}

fn blank_leaf() -> Result<LeafEntries> {
    Ok(array(fallible::filled(Placed::default(), LEAF_PAGES, TABLE)?))
}

/// A list of exactly so many, where it is.
fn array<T, const N: usize>(list: Vec<T>) -> Box<[T; N]> {
    match list.into_boxed_slice().try_into() {
        Ok(array) => array,
        Err(_) => unreachable!("of another length"),
    }
}

/// Whether at most half of the pages of which a leaf with these raw bytes knows have images.
pub(crate) fn is_sparse(raw: &[u8]) -> bool {
    let entries = raw.chunks_exact(Placed::BYTES).map(Placed::decode);
    entries.filter(|entry| entry.has_image()).count() <= LEAF_PAGES / 2
}

/// The entries in the raw bytes of a leaf's image.
///
/// # Errors
/// [`Error::Corrupt`], with its byte `at` in the file.
pub(crate) fn decode_leaf(raw: &[u8], at: u64) -> Result<LeafEntries> {
    let damaged = |what: &str| Error::corrupt(at, format!("leaf of the page table: {what}"));
    if raw.len() != LEAF_BYTES {
        return Err(damaged("of another length"));
    }
    let mut entries = fallible::list(LEAF_PAGES, TABLE)?;
    entries.extend(raw.chunks_exact(Placed::BYTES).map(Placed::decode));
    if !entries.iter().all(|entry: &Placed| entry.is_possible()) {
        return Err(damaged("an impossible place"));
    }
    debug_assert!(u64_at(raw, 0) == entries[0].place);
    Ok(array(entries))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(extent: u64, i: u64) -> Placed {
        Placed { place: extent * EXTENT_BYTES + 112 * i + 8192, bytes: 100, crc: i as u32 }
    }

    const ALL: (usize, u64) = (usize::MAX, u64::MAX);

    #[test]
    fn the_table_survives_its_root_and_counts_what_is_alive() {
        let mut places = Places::default();
        assert_eq!(places.get(7), KnownPlace::Is(Placed::default()));
        assert_eq!(places.set(7, at(0, 1)).expect("memory"), Placed::default());
        assert_eq!(places.set(1030, at(0, 2)).expect("memory"), Placed::default());
        assert_eq!(places.set(7, at(2, 3)).expect("memory"), at(0, 1));
        assert_eq!(places.set(8, Placed::blank(5)).expect("memory"), Placed::default());
        let (dirty, leaves, live) = places.take_dirty().expect("memory");
        assert_eq!((dirty, live), (vec![0, 2], vec![112, 0, 112]));
        let leaf = &leaves[..LEAF_BYTES];
        assert!(places.take_dirty().expect("memory").0.is_empty());
        places.soil_leaf(2);
        assert_eq!(places.take_dirty().expect("memory").0, [2]);
        assert_eq!(places.place_leaf(0, at(2, 9)).expect("memory"), Placed::default());
        places.place_leaf(2, at(3, 9)).expect("memory");
        let live = places.extents.live().expect("memory");
        assert_eq!(live, [112, 0, 224, 112]);
        let mut root = Vec::new();
        let mut counts = DurableCounts::default();
        counts.redo(&[&[9, 0, 0, 0][..], &5_i64.to_le_bytes()].concat(), 0).expect("more");
        let list = counts.to_root().expect("memory");
        places.list_bytes = list.len();
        places.encode_root(&live, (77, &list), &mut root);
        assert_eq!(root.len(), places.root_bytes(4));

        let (mut again, counts) = Places::of_root(&root, 0, 64 << 20).expect("a root");
        let of = |tree| counts.pairs.of(tree, |_| Ok::<_, Error>(())).expect("no fault");
        assert_eq!((counts.epoch, of(9), of(8)), (77, 5, 0));
        assert_eq!(again.extents.live().expect("memory"), live);
        assert_eq!(again.get(7), KnownPlace::Ask(0, at(2, 9)));
        assert_eq!(again.get(600), KnownPlace::Is(Placed::default()));
        again.learn(0, decode_leaf(leaf, 0).expect("a leaf")).expect("as the root has it");
        assert_eq!(again.get(7), KnownPlace::Is(at(2, 3)));
        assert_eq!(again.get(8), KnownPlace::Is(Placed::blank(5)));
        assert!(again.take_dirty().expect("memory").0.is_empty());
    }

    #[test]
    fn a_close_forgets_leaves_whose_pages_are_all_free() {
        let mut places = Places::default();
        let pages = [(7, at(0, 1)), (600, Placed::blank(3)), (1030, Placed::blank(5))];
        for (no, placed) in pages {
            places.set(no, placed).expect("memory");
        }
        places.set(8, Placed::blank(9)).expect("memory");
        let root_bytes = places.root_bytes(0);
        for leaf in 0..3 {
            places.place_leaf(leaf, at(1, leaf.into())).expect("memory");
        }
        assert_eq!(places.root_bytes(0), root_bytes + 3 * Placed::BYTES);
        assert_eq!(places.take_dirty().expect("memory").0, [0, 1, 2]);
        assert!(!places.is_as_rooted(), "no root says where the leaves are");
        places.note_synced(false);
        assert!(!places.is_as_rooted(), "nor does the sync");
        places.note_synced(true);
        assert_eq!((places.is_as_rooted(), places.free_leaf_bytes()), (true, 224));
        places.forget_free().expect("memory");
        assert_eq!((places.is_as_rooted(), places.free_leaf_bytes()), (true, 0));
        assert_eq!(places.take_dirty().expect("memory").0, [] as [u32; 0]);
        // The root has the first leaf alone, and counts nothing else.
        assert_eq!(places.root_bytes(0), root_bytes + Placed::BYTES);
        assert_eq!(places.extents.live().expect("memory"), [112, 112]);
        let known = |no| places.get(no);
        assert_eq!(
            (known(7), known(8)),
            (KnownPlace::Is(at(0, 1)), KnownPlace::Is(Placed::blank(9)))
        );
        assert_eq!(
            (known(600), known(1030)),
            (KnownPlace::Is(Placed::default()), KnownPlace::Is(Placed::default()))
        );
        places.soil_leaf(0);
        assert!(!places.is_as_rooted(), "it is not what the disk has");
    }

    #[test]
    fn leaves_leave_memory_that_are_on_the_disk_and_that_nobody_relies_on() {
        let mut places = Places::default();
        let pages = [7, 600, 1030, 1540, 2050].map(|no| (no, at(no.into(), 1)));
        for (no, placed) in pages {
            places.set(no, placed).expect("memory");
        }
        let (dirty, raw) = places.take_some_dirty(1, 2).expect("memory");
        assert_eq!((dirty, raw.len()), (vec![1, 2], 2 * LEAF_BYTES));
        let (_, more, _) = places.take_dirty().expect("memory");
        places.let_go(0, ALL);
        assert_eq!(places.leaves_in_memory(), 5, "none has an image");
        for leaf in 0..5 {
            places.place_leaf(leaf, at(9, leaf.into())).expect("memory");
        }
        places.let_go(0, ALL);
        assert_eq!(places.leaves_in_memory(), 5, "none is synced");
        places.note_synced(false);
        places.set(600, at(600, 2)).expect("memory");
        places.make_room_to_adopt(1031).expect("memory");
        places.make_room_to_adopt(1541).expect("memory");
        places.adopt(1541, at(1540, 2));
        let live = places.extents.live().expect("memory");
        places.let_go(0, (usize::MAX, 1));
        assert_eq!(places.leaves_in_memory(), 4);
        places.let_go(0, ALL);
        assert_eq!(places.leaves_in_memory(), 3, "what differs, awaits a value, has a new one");
        let (known, asked) = (KnownPlace::Is(at(600, 2)), KnownPlace::Ask(0, at(9, 0)));
        assert_eq!((places.get(600), places.get(7)), (known, asked));
        assert_eq!(places.extents.live().expect("memory"), live);
        let leaf = |raw: &[u8], i: usize| {
            decode_leaf(&raw[i * LEAF_BYTES..][..LEAF_BYTES], 0).expect("a leaf")
        };
        places.learn(0, leaf(&more, 0)).expect("as it was");
        assert_eq!((places.get(7), places.leaves_in_memory()), (KnownPlace::Is(at(7, 1)), 4));
        places.await_no_more(1031);
        places.take_dirty().expect("memory");
        places.note_synced(true);
        (0..2).for_each(|_| places.let_go(0, ALL));
        assert_eq!(places.leaves_in_memory(), 1, "a value was adopted of late");
        places.age();
        (0..2).for_each(|_| places.let_go(0, ALL));
        assert_eq!(places.leaves_in_memory(), 0);
        places.learn(2, leaf(&raw, 1)).expect("as it was");
        assert_eq!(places.get(1030), KnownPlace::Is(at(1030, 1)));
        assert_eq!(places.extents.live().expect("memory"), live);
        // An image that the root does not count is refused still.
        let mut wrong = leaf(&more, 2);
        wrong[9] = at(2050, 9);
        assert!(places.learn(4, wrong).is_err());
    }

    #[test]
    fn a_close_forgets_leaves_of_free_pages_that_have_left_memory() {
        let mut places = Places::default();
        places.set(7, at(0, 1)).expect("memory");
        places.set(600, Placed::blank(3)).expect("memory");
        places.take_dirty().expect("memory");
        for leaf in 0..2 {
            places.place_leaf(leaf, at(1, leaf.into())).expect("memory");
        }
        places.note_synced(true);
        (0..2).for_each(|_| places.let_go(0, ALL));
        assert_eq!((places.leaves_in_memory(), places.free_leaf_bytes()), (0, 112));
        places.forget_free().expect("memory");
        assert_eq!(
            (places.free_leaf_bytes(), places.get(600)),
            (0, KnownPlace::Is(Placed::default()))
        );
        assert_eq!(places.get(7), KnownPlace::Ask(0, at(1, 0)));
    }

    #[test]
    fn each_page_has_an_entry_of_its_own() {
        let (mut places, pages) = (Places::default(), [0, 1, 511, 512, 513, 1023, 1024]);
        for (i, no) in (1..).zip(pages) {
            assert_eq!(places.set(no, at(i, i)).expect("memory"), Placed::default(), "page {no}");
        }
        for (i, no) in (1..).zip(pages) {
            assert_eq!(places.get(no), KnownPlace::Is(at(i, i)), "page {no}");
        }
        assert_eq!(places.take_dirty().expect("memory").0, [0, 1, 2]);
        assert_eq!((places.leaves_in_memory(), places.pages_end()), (3, 1536));
        places.place_leaf(0, at(9, 1)).expect("memory");
        assert_eq!(places.place_leaf(0, at(10, 1)).expect("memory"), at(9, 1));
        let live = places.extents.live().expect("memory");
        assert_eq!((live[9], live[10]), (0, 112), "a leaf is in one place");
    }

    #[test]
    fn a_copy_takes_the_place_of_the_image_that_was_copied() {
        let mut places = Places::default();
        let move_and_get = |places: &mut Places, from, to| {
            places.move_image(7, from, to).expect("memory");
            places.get(7)
        };
        places.make_room_to_adopt(7).expect("memory");
        places.adopt(7, at(0, 1));
        let stays = move_and_get(&mut places, at(0, 1), at(2, 1));
        assert_eq!(stays, KnownPlace::Is(at(0, 1)), "the next root's journal may name it");
        places.age();
        let stays = move_and_get(&mut places, at(0, 2), at(2, 1));
        assert_eq!(stays, KnownPlace::Is(at(0, 1)), "another image was copied");
        assert_eq!(move_and_get(&mut places, at(0, 1), at(2, 1)), KnownPlace::Is(at(2, 1)));
        let live = places.extents.live().expect("memory");
        assert_eq!(live, [0, 0, 112]);
        let taken = places.extents.take().expect("memory");
        assert_eq!(taken, 1, "the last root's journal may name the first place");
        places.extents.let_go(taken);
        places.extents.switch(&live);
        assert_eq!(places.extents.take().expect("memory"), 0);
    }

    #[test]
    fn a_leaf_that_is_not_in_memory_takes_little_of_it() {
        // A table of a pool of 1 TiB has half a million.
        assert!(size_of::<TableLeaf>() <= 40);
    }

    #[test]
    fn hostile_roots_and_leaves_are_refused() {
        let mut places = Places::default();
        places.set(7, at(0, 1)).expect("memory");
        places.place_leaf(0, at(1, 1)).expect("memory");
        let mut root = Vec::new();
        let live = places.extents.live().expect("memory");
        places.encode_root(&live, (0, &[1; counts::ENTRY_BYTES]), &mut root);
        (0..root.len())
            .for_each(|n| assert!(Places::of_root(&root[..n], 0, 64 << 20).is_err(), "{n}"));
        for (at, byte) in
            [(0, 255), (4, 9), (16, 2), (20, 1), (24, 1), (32, 3), (24 + 6, 255), (42, 0xff)]
        {
            let mut bad = root.clone();
            bad[at] = byte;
            assert!(Places::of_root(&bad, 0, 64 << 20).is_err(), "byte {at}");
        }
        assert!(Places::of_root(&root, 0, 64 << 20).is_ok());
        assert!(Places::of_root(&root, 0, EXTENT_BYTES).is_err(), "a leaf behind the file");
        let mut bad = root.clone();
        bad[24 + 2] += 0x80;
        assert!(Places::of_root(&bad, 0, 64 << 20).is_err(), "a leaf where nothing is alive");
        let mut leaf = vec![0; LEAF_BYTES];
        assert!(decode_leaf(&leaf, 0).is_ok());
        leaf[3] = 1;
        assert!(decode_leaf(&leaf, 0).is_err());
        assert!(decode_leaf(&leaf[1..], 0).is_err());
    }
}
