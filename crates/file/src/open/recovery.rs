//! The state that an open finds: the root of the page table, and after an unclean end the journal behind it.
//!
//! No page is read. The journal says which extents have been taken since the root, which large values
//! have come and gone, and which pages have changed; those are brought up to date when they are touched
//! first. Which extents are free follows from all that. A read-only open does the same in memory.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use everleaf_pmem::epoch::{Epochs, NO_EPOCH};
use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::fallible;
use everleaf_pmem::page::PageNo;

use crate::epochs::barrier::READ_ONLY;
use crate::inner::{Chain, Inner};
use crate::io::IoFile;
use crate::journal::{self, BlockKey, JournalScan, Position, TAG_ADOPT, TAG_COUNTS, TAG_FORGET};
use crate::memory::cache::read_image;
use crate::open::replay::Replay;
use crate::store::extents::JOURNAL_AHEAD;
use crate::store::format::EXTENT_BYTES;
use crate::store::image::{
    FIRST_IMAGE, IMAGE_ALIGN, IMAGE_HEAD, ImageKey, ImageKind, ImageName, Placed,
};
use crate::store::superblock::Super;
use crate::store::table::{Places, RootCounts};
use crate::values::segments::{Missing, Redone, expect_apart};

/// Reads the root that the superblock names; none is that of an empty pool.
///
/// # Errors
/// I/O errors; [`Error::Corrupt`]; [`Error::NoMemory`].
pub(crate) fn root(
    data: &dyn IoFile,
    key: ImageKey,
    superblock: &Super,
) -> Result<(Places, RootCounts)> {
    let root = superblock.root;
    if !root.has_image() {
        return match root == Placed::default() {
            true => Ok(Default::default()),
            false => Err(Error::corrupt(80, "a root without a place")),
        };
    }
    let len = data.len().map_err(|e| Error::io("reading the root of the page table", e))?;
    let is_possible = root.place.is_multiple_of(IMAGE_ALIGN as u64)
        && root.bytes as usize >= IMAGE_HEAD
        && root.place >= FIRST_IMAGE
        && root.place < len
        && root.end() <= len;
    if !is_possible {
        return Err(Error::corrupt(80, "the file ends before the root of the page table"));
    }
    let name = ImageName { kind: ImageKind::Root, number: 0 };
    // Longer ones are as long as what the file has of them.
    let most = (root.bytes as usize).max(EXTENT_BYTES as usize);
    let raw = read_image(data, key, root, name, most)?;
    let (mut places, counts) = Places::of_root(&raw, root.place, len)?;
    root.extents().try_for_each(|no| places.extents.hold_found(no))?;
    Ok((places, counts))
}

impl Inner {
    /// Reads the journal of a pool that was not closed. `counts` are those of the root.
    ///
    /// # Errors
    /// I/O errors, and [`Error::Corrupt`] if what was durable is not all there.
    pub(crate) fn recover(&mut self, counts: RootCounts) -> Result<()> {
        self.residents.counts.store(counts.pairs.bytes(), Relaxed);
        *self.counts.get_mut().unwrap_or_else(|e| e.into_inner()) = counts.pairs;
        let superblock = self.superblock.get_mut().unwrap_or_else(|e| e.into_inner()).clone();
        let Position { number, link, .. } = superblock.journal;
        if superblock.clean {
            let next = Position { number, link, ..Position::default() };
            self.commit.get_mut().unwrap_or_else(|e| e.into_inner()).chain.next = next;
            *self.begins.get_mut().unwrap_or_else(|e| e.into_inner()) = next;
            self.fresh = superblock.durable_epoch == 0;
            return Ok(());
        }
        let scan = self.scan_journal(&superblock)?;
        // Epochs without changes have no block, and the root's counts may be of one of those.
        let last_epoch = scan.last_epoch.max(superblock.durable_epoch).max(counts.epoch);
        if last_epoch >= NO_EPOCH {
            return Err(Error::corrupt(scan.end.place, format!("{last_epoch:#x} is no epoch")));
        }
        if !scan.pieces.is_empty() && *self.barrier.get_mut() & READ_ONLY == 0 {
            // A killed process may have written what it did not live to sync.
            self.data.sync_data().map_err(|e| Error::io("syncing the journal", e))?;
        }
        self.fresh = superblock.durable_epoch == 0 && scan.pieces.is_empty();
        self.epochs = Epochs::new(last_epoch)?;
        self.ahead.recovered = last_epoch;
        self.claim(&scan)?;
        self.redo_all_values(&scan)?;
        self.redo_counts(&scan, counts.epoch)?;
        let blocks = |bytes: usize| (bytes as u64).next_multiple_of(journal::BLOCK_ALIGN);
        let written = scan.pieces.iter().map(|piece| blocks(piece.len + journal::BLOCK_HEAD)).sum();
        let extents = fallible::copy(&scan.extents, "the journal's extents")?;
        *self.begins.get_mut().unwrap_or_else(|e| e.into_inner()) = scan.end;
        let chain = Chain { next: scan.end, extents, written, ..Chain::default() };
        self.commit.get_mut().unwrap_or_else(|e| e.into_inner()).chain = chain;
        self.bounds.set_journal(written, &self.barrier);
        let len = *self.length.get_mut();
        let (pages_end, possible_end) = {
            let places = self.places();
            (places.pages_end(), places.possible_end(len))
        };
        let replay = Replay::new(scan, pages_end, possible_end, self.region.limit())?;
        if replay.left() > 0 {
            let list = fallible::list(replay.left(), "the list of recovered pages")?;
            *self.recovered.get_mut().unwrap_or_else(|e| e.into_inner()) = list;
            *self.replaying.get_mut() = true;
            *self.replay.get_mut().unwrap_or_else(|e| e.into_inner()) = Some(Arc::new(replay));
        }
        Ok(())
    }

    /// Adds what epochs behind `counted` have counted.
    fn redo_counts(&mut self, scan: &JournalScan, counted: u64) -> Result<()> {
        let counts = self.counts.get_mut().unwrap_or_else(|e| e.into_inner());
        scan.walk(|record| match record.tag {
            TAG_COUNTS if record.epoch > counted => {
                counts.redo(record.bytes, scan.place_of(record.at))
            }
            _ => Ok(()),
        })
    }

    fn scan_journal(&self, superblock: &Super) -> Result<JournalScan> {
        let bytes = self.data.len().map_err(|e| Error::io("reading the length of the file", e))?;
        let far = bytes / EXTENT_BYTES + u64::from(JOURNAL_AHEAD);
        if superblock.journal.place / EXTENT_BYTES > far {
            let what = format!("no journal goes on at byte {}", superblock.journal.place);
            return Err(Error::corrupt(96, what));
        }
        let (key, floor) = (BlockKey::new(&superblock.uuid), superblock.journal_floor);
        let generation = superblock.open_generation as u32;
        let mut is_good = |list: &[u8], first: PageNo| self.are_images(list, first);
        let (from, after) = (&superblock.journal, superblock.durable_epoch);
        journal::scan(&*self.data, key, from, floor, after, generation, &mut is_good)
    }

    /// Whether the images of large values in a list are there: those of the last epoch may not be.
    fn are_images(&self, list: &[u8], first: PageNo) -> Result<bool> {
        for (number, entry) in (first..).zip(list.chunks_exact(Placed::BYTES)) {
            let placed = Placed::decode(entry);
            if !placed.has_image() || !placed.is_possible() {
                return Ok(false);
            }
            // A sync may have failed, of which memory knows more than the disk.
            let range = placed.place..placed.end();
            self.data.drop_cached(range).map_err(|e| Error::io("reading a large value", e))?;
            match self.read_image(placed, ImageName { kind: ImageKind::Value, number }) {
                Ok(_) => {}
                Err(Error::Corrupt { .. }) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Keeps the journal's extents from being used for anything else.
    fn claim(&self, scan: &JournalScan) -> Result<()> {
        let bytes = self.data.len().map_err(|e| Error::io("reading the length of the file", e))?;
        let next = Some(scan.end.next_extent).filter(|no| *no != 0);
        let mut places = self.places_mut();
        for no in scan.extents.iter().copied().chain(next) {
            if u64::from(no) > bytes / EXTENT_BYTES + u64::from(JOURNAL_AHEAD) {
                let what =
                    format!("the journal goes on in extent {no}, far behind the end of the file");
                return Err(Error::corrupt(scan.end.spot(), what));
            }
            if !places.extents.claim_journal(no)? {
                let at = u64::from(no) * EXTENT_BYTES;
                return Err(Error::corrupt(at, "images where the journal should be"));
            }
        }
        Ok(())
    }

    /// Tells the table of the large values that steps have adopted and forgotten: in each epoch first the
    /// ones and then the others, for the slots of an epoch are in no order.
    fn redo_all_values(&self, scan: &JournalScan) -> Result<()> {
        let (mut adopted, mut freed, mut epoch) = (Vec::new(), Vec::new(), 0);
        let mut missing = Missing::default();
        let end_epoch = |adopted: &mut Vec<Redone>, freed: &mut Vec<Redone>, missing: &mut _| {
            expect_apart(adopted)?;
            expect_apart(freed)?;
            adopted.clear();
            freed.drain(..).try_for_each(|run| self.redo_forget(run, missing))
        };
        scan.walk(|record| {
            if record.epoch != epoch {
                epoch = record.epoch;
                end_epoch(&mut adopted, &mut freed, &mut missing)?;
            }
            let run = (record.page, record.seq, scan.place_of(record.at));
            match record.tag {
                TAG_ADOPT => {
                    fallible::push(&mut adopted, run, "the list of large values")?;
                    self.redo_adopt(run, record.bytes, &mut missing)
                }
                TAG_FORGET => fallible::push(&mut freed, run, "the list of freed values"),
                _ => Ok(()),
            }
        })?;
        end_epoch(&mut adopted, &mut freed, &mut missing)?;
        self.places().extents.expect_room()?;
        match missing.into_first() {
            None => Ok(()),
            Some((no, at)) => {
                let what = format!("the large value's page {no} cannot be where this record says");
                Err(Error::corrupt(at, what))
            }
        }
    }
}
