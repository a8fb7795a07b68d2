//! Extents: the file in pieces of 1 MiB, and which of them are free.
//!
//! The file does not store which extents are free. An extent is in use while
//!
//! - an image in it is live: the page table names it now, or did so at the last durable root;
//! - it belongs to the chain of the journal that recovery would read;
//! - somebody holds it: a stream that fills it, the root that is in it, a backup.
//!
//! So nothing leaks: an open counts again, from what the root says is live and what the journal
//! names. And nothing that a crash could need is written over.

use std::ops::Range;

use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::fallible;

use crate::store::format::EXTENT_BYTES;
use crate::store::image::Placed;

/// Names this memory in errors.
const LIST: &str = "the list of extents";

/// No file is longer, whatever it says.
const MOST: usize = 1 << 30;
/// An extent that the journal has reserved lies no more than so many behind the end of the file, which is 16 GiB: so a
/// file that is damaged cannot make an open ask for memory for extents that never were, nor become as long as them.
pub(crate) const JOURNAL_AHEAD: u32 = 1 << 14;
/// The journal takes no free extent so many behind what else is in use, if another one is free: so the end of a
/// file that was long once can be cut off.
const JOURNAL_NEAR: usize = JOURNAL_AHEAD as usize / 2;

#[derive(Debug, Clone, Copy, Default)]
struct Extent {
    /// Bytes of images that the page table names now.
    live: u32,
    /// Of these, those of images that the list of leaves and the leaves in memory name: never more.
    claimed: u32,
    /// Bytes of images that it named at the last durable root, and of those that the journal behind
    /// that names and that are elsewhere now.
    root_live: u32,
    /// How many others need it.
    holds: u32,
    /// It is in the chain of the journal.
    journal: bool,
    /// Bytes from its start that this open has written.
    filled: u32,
    /// The disk has blocks for all of it: no write to it can meet a full disk.
    blocks: bool,
}

impl Extent {
    fn is_free(&self) -> bool {
        self.live == 0 && self.root_live == 0 && self.holds == 0 && !self.journal
    }
    fn has_images(&self) -> bool {
        self.live > 0 || self.root_live > 0
    }
    /// It is in use for anything but the journal.
    fn has_others(&self) -> bool {
        self.has_images() || self.holds > 0 && !self.journal
    }
    fn is_ready(&self) -> bool {
        self.blocks && self.is_free()
    }
}

/// Totals of all extents: kept with each change, so that figures need no walk.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Totals {
    /// Bytes that are live now.
    live: u64,
    journal: u32,
    free: u32,
    /// Those of the free ones that have blocks.
    ready: u32,
    /// Extents with images that are alive, or were at the last root.
    images: u32,
    /// Of these, those with images that are alive.
    alive: u32,
}

impl Totals {
    fn add(&mut self, extent: &Extent) {
        self.live += u64::from(extent.live);
        self.journal += u32::from(extent.journal);
        self.free += u32::from(extent.is_free());
        self.ready += u32::from(extent.is_ready());
        self.images += u32::from(extent.has_images());
        self.alive += u32::from(extent.live > 0);
    }

    fn sub(&mut self, extent: &Extent) {
        self.live -= u64::from(extent.live);
        self.journal -= u32::from(extent.journal);
        self.free -= u32::from(extent.is_free());
        self.ready -= u32::from(extent.is_ready());
        self.images -= u32::from(extent.has_images());
        self.alive -= u32::from(extent.live > 0);
    }

    fn of(all: &[Extent]) -> Self {
        let mut totals = Self::default();
        all.iter().for_each(|extent| totals.add(extent));
        totals
    }
}

/// The extents of a file.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    all: Vec<Extent>,
    totals: Totals,
    /// No extent before this one is free.
    hint: usize,
}

impl Extents {
    /// Those of a root, which says how many bytes of each are live.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn of_root(live: impl ExactSizeIterator<Item = u32>) -> Result<Self> {
        let mut all = fallible::list(live.len(), LIST)?;
        all.extend(live.map(|live| Extent { live, root_live: live, ..Extent::default() }));
        Ok(Self { totals: Totals::of(&all), all, hint: 0 })
    }

    /// Changes an extent that is there.
    fn change(&mut self, no: usize, change: impl FnOnce(&mut Extent)) {
        let extent = &mut self.all[no];
        self.totals.sub(extent);
        change(extent);
        self.totals.add(extent);
    }

    fn grow(&mut self, len: usize) -> Result<()> {
        if len > MOST {
            return Err(Error::corrupt(0, format!("extent {len} of a file")));
        }
        if let more @ 1.. = len.saturating_sub(self.all.len()) {
            fallible::more(&mut self.all, more, LIST)?;
            self.all.resize(len, Extent::default());
            self.totals.free += more as u32;
        }
        Ok(())
    }

    /// Sees to it that so many more can be taken without memory.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn make_room(&mut self, n: usize) -> Result<()> {
        fallible::more(&mut self.all, n, LIST)
    }

    /// The first free extent, for images; held once.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn take(&mut self) -> Result<u32> {
        while self.all.get(self.hint).is_some_and(|extent| !extent.is_free()) {
            self.hint += 1;
        }
        let no = self.hint;
        self.grow(no + 1)?;
        // Bytes that were written there before are nobody's.
        self.change(no, |extent| (extent.holds, extent.filled) = (extent.holds + 1, 0));
        Ok(no as u32)
    }

    /// The first free extent, which may be the one behind all.
    pub(crate) fn first_free(&self) -> u32 {
        let free = self.all.iter().skip(self.hint).position(Extent::is_free);
        free.map_or(self.all.len(), |n| self.hint + n) as u32
    }

    /// So many extents in a row behind all others, each held once.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn take_run(&mut self, n: usize) -> Result<u32> {
        let first = self.end() as usize;
        self.grow(first + n)?;
        (first..first + n).for_each(|no| self.change(no, |extent| extent.holds += 1));
        Ok(first as u32)
    }

    /// A free extent for the journal: the last one [not far](JOURNAL_NEAR) behind all else, so that the first ones are
    /// for images, and the end of the file can be cut off. Never the first extent, which the superblocks are in.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn take_journal(&mut self) -> Result<u32> {
        let end = self.end() as usize;
        let near = end.min(self.others_end() as usize + JOURNAL_NEAR);
        let is_free = |no: &usize| self.all[*no].is_free();
        let free = (1..near).rev().find(is_free).or_else(|| (near..end).find(is_free));
        let no = free.unwrap_or(end.max(1));
        self.grow(no + 1)?;
        self.change(no, |extent| extent.journal = true);
        Ok(no as u32)
    }

    /// As [`take`](Self::take), of those that have blocks.
    pub(crate) fn take_ready(&mut self) -> Option<u32> {
        let no = self.all.iter().position(Extent::is_ready)?;
        self.change(no, |extent| (extent.holds, extent.filled) = (extent.holds + 1, 0));
        Some(no as u32)
    }

    /// As [`take_journal`](Self::take_journal), of those that have blocks.
    pub(crate) fn take_ready_for_journal(&mut self) -> Option<u32> {
        let no = self.all.iter().skip(1).rposition(Extent::is_ready)? + 1;
        self.change(no, |extent| extent.journal = true);
        Some(no as u32)
    }

    /// The first extent from `from` on that is to have blocks, as far as this open knows: it is free or the
    /// journal's. The next one behind all if there is none. Held once.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn take_without_blocks(&mut self, from: u32) -> Result<u32> {
        let is_one = |e: &Extent| !e.blocks && (e.is_free() || e.journal);
        let mut known = self.all.iter().enumerate().skip(from as usize);
        let no = known.find(|(_, e)| is_one(e)).map_or(self.all.len(), |(no, _)| no);
        self.grow(no + 1)?;
        self.change(no, |extent| extent.holds += 1);
        Ok(no as u32)
    }

    /// The disk has blocks for all of an extent.
    pub(crate) fn note_blocks(&mut self, no: u32) {
        self.change(no as usize, |extent| extent.blocks = true);
    }
    pub(crate) fn has_blocks(&self, no: u32) -> bool {
        self.all[no as usize].blocks
    }

    /// Free extents that have blocks.
    pub(crate) fn ready(&self) -> u64 {
        self.totals.ready.into()
    }
    /// How many extents this open knows of.
    pub(crate) fn len(&self) -> u64 {
        self.all.len() as u64
    }
    /// Extents that are not free.
    pub(crate) fn in_use(&self) -> u64 {
        self.all.len() as u64 - u64::from(self.totals.free)
    }

    /// Where the file ends that has so many free extents with blocks, if it ends at `end` or behind that.
    pub(crate) fn end_with_ready(&self, end: u32, ready: u64) -> u32 {
        let (before, behind) = self.all.split_at(self.all.len().min(end as usize));
        let mut left = ready.saturating_sub(before.iter().filter(|e| e.is_ready()).count() as u64);
        let kept = behind.iter().take_while(|extent| {
            let is_one = left > 0 && extent.is_ready();
            left -= u64::from(is_one);
            is_one
        });
        end + kept.count() as u32
    }

    /// The first free extent before `end`, for the journal of a file that is to be short.
    pub(crate) fn take_first_for_journal(&mut self, end: u32) -> Option<u32> {
        let no = (1..end.min(self.end())).find(|no| self.all[*no as usize].is_free())?;
        self.change(no as usize, |extent| extent.journal = true);
        Some(no)
    }

    /// The first free extent from `images` on, those before it being for images, for a journal that would go on in
    /// extent `now`: if that is among those, has blocks already, or is farther.
    pub(crate) fn take_behind_images(
        &mut self,
        images: u32,
        now: u32,
        has_blocks: bool,
    ) -> Option<u32> {
        let (images, len) = (images.max(1), self.all.len() as u32);
        let free = (images..len).find(|no| self.all[*no as usize].is_free());
        let no = free.unwrap_or(len.max(images));
        if now >= images && no > now && !has_blocks {
            return None;
        }
        // For want of memory it stays where it is.
        self.grow(no as usize + 1).ok()?;
        // Bytes that were written there before are cut off.
        self.change(no as usize, |extent| (extent.journal, extent.filled) = (true, 0));
        Some(no)
    }

    /// An extent is in the journal's chain, as an open finds. False if it cannot be: images are there.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn claim_journal(&mut self, no: u32) -> Result<bool> {
        self.grow(no as usize + 1)?;
        self.change(no as usize, |extent| extent.journal = true);
        let extent = &self.all[no as usize];
        Ok(no > 0 && extent.root_live == 0 && extent.holds == 0)
    }

    pub(crate) fn is_journal(&self, no: u32) -> bool {
        self.all.get(no as usize).is_some_and(|extent| extent.journal)
    }

    /// Recovery does not need an extent of the journal any more.
    pub(crate) fn release_journal(&mut self, no: u32) {
        debug_assert!(self.all[no as usize].journal, "extent {no} is not the journal's");
        self.change(no as usize, |extent| extent.journal = false);
        self.hint = self.hint.min(no as usize);
    }

    /// Keeps an extent from being used again.
    pub(crate) fn hold(&mut self, no: u32) {
        self.change(no as usize, |extent| extent.holds += 1);
    }

    /// As [`hold`](Self::hold), for those in which a root lies that an open has found.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn hold_found(&mut self, no: u32) -> Result<()> {
        self.grow(no as usize + 1)?;
        self.hold(no);
        Ok(())
    }

    pub(crate) fn let_go(&mut self, no: u32) {
        debug_assert!(self.all[no as usize].holds > 0, "extent {no} is held by nobody");
        self.change(no as usize, |extent| extent.holds -= 1);
        self.hint = self.hint.min(no as usize);
    }

    /// The page table, which named `old`, names `new` now, or will.
    ///
    /// # Errors
    /// [`Error::NoMemory`], never for an extent that was taken; [`Error::Corrupt`] if so much cannot be in one
    /// extent. Nothing has changed then.
    pub(crate) fn exchange(&mut self, old: Placed, new: Placed) -> Result<()> {
        if old == new {
            return Ok(());
        }
        if new.has_image() {
            let no = new.extent() as usize;
            self.grow(no + 1)?;
            if self.all[no].live.checked_add(new.room()).is_none() {
                return Err(Error::corrupt(new.place, "more images than an extent can hold"));
            }
        }
        self.sub(old);
        if new.has_image() {
            self.change(new.extent() as usize, |e| {
                e.live += new.room();
                e.claimed += new.room();
            });
        }
        Ok(())
    }

    /// The page table does not name an image any more, which it [claimed](Self::claim) or was told of.
    fn sub(&mut self, placed: Placed) {
        if placed.has_image() {
            let no = placed.extent() as usize;
            debug_assert!(self.all[no].claimed >= placed.room(), "{placed:?} was never named");
            self.change(no, |e| {
                e.live -= placed.room();
                e.claimed -= placed.room();
            });
            self.hint = self.hint.min(no);
        }
    }

    /// The list of leaves of a root, or a leaf that was read, names an image. False if that is not one of those
    /// that the root has counted as live: then nobody may believe it.
    #[must_use]
    pub(crate) fn claim(&mut self, placed: Placed) -> bool {
        if !placed.has_image() {
            return true;
        }
        let Some(extent) = self.all.get_mut(placed.extent() as usize) else { return false };
        let claimed = extent.claimed.checked_add(placed.room());
        let claimed = claimed.filter(|claimed| *claimed <= extent.live);
        extent.claimed = claimed.unwrap_or(extent.claimed);
        claimed.is_some()
    }

    /// Takes back what was [claimed](Self::claim).
    pub(crate) fn unclaim(&mut self, placed: Placed) {
        if placed.has_image() {
            self.all[placed.extent() as usize].claimed -= placed.room();
        }
    }

    /// Refuses if more is live in an extent than fits.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub(crate) fn expect_room(&self) -> Result<()> {
        match self.all.iter().position(|extent| u64::from(extent.live) > EXTENT_BYTES) {
            None => Ok(()),
            Some(no) => {
                let at = no as u64 * EXTENT_BYTES;
                Err(Error::corrupt(at, "the journal has more images here than fit"))
            }
        }
    }

    /// An image has moved, yet the journal behind the durable root may say that it is there: its extent
    /// is in use until the next root is durable.
    pub(crate) fn keep_until_switch(&mut self, placed: Placed) {
        let no = placed.extent() as usize;
        self.change(no, |e| e.root_live = e.root_live.max(placed.room()));
    }

    /// The live bytes of each extent, for a root.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn live(&self) -> Result<Vec<u32>> {
        let n = self.all.iter().rposition(|extent| extent.live > 0).map_or(0, |last| last + 1);
        let mut live = fallible::list(n, LIST)?;
        live.extend(self.all[..n].iter().map(|extent| extent.live));
        Ok(live)
    }

    /// A root that says so is about to be written: from the moment on at which it is durable a crash finds it. So
    /// what it names is in use until the next [switch](Self::switch), also if the table names it no more, and if the root fails.
    pub(crate) fn expect_root(&mut self, live: &[u32]) {
        // Each of them is in use now, so what all come to is the same.
        for (extent, live) in self.all.iter_mut().zip(live) {
            extent.root_live = extent.root_live.max(*live);
        }
    }

    /// A root that says so is durable, and the one before it is forgotten.
    pub(crate) fn switch(&mut self, live: &[u32]) {
        for (no, extent) in self.all.iter_mut().enumerate() {
            extent.root_live = live.get(no).copied().unwrap_or(0);
        }
        self.totals = Totals::of(&self.all);
        self.hint = 0;
    }

    /// The first extent behind all that are in use.
    pub(crate) fn end(&self) -> u32 {
        self.all.iter().rposition(|extent| !extent.is_free()).map_or(0, |last| last as u32 + 1)
    }

    /// The first extent behind all that are in use for anything but the journal.
    pub(crate) fn others_end(&self) -> u32 {
        let last = self.all.iter().rposition(|extent| extent.has_others());
        last.map_or(0, |last| last as u32 + 1)
    }

    /// The first extent behind all whose bytes somebody needs: those in use, but for an extent that the
    /// journal has reserved and not begun.
    pub(crate) fn bytes_end(&self, reserved: Option<u32>) -> u32 {
        let is_needed = |(no, extent): (usize, &Extent)| {
            let is_reserved = Some(no as u32) == reserved && extent.filled == 0;
            let is_begun = extent.live > 0 || extent.root_live > 0 || extent.holds > 0;
            !extent.is_free() && (is_begun || !is_reserved)
        };
        let last = self.all.iter().enumerate().rposition(is_needed);
        last.map_or(0, |last| last as u32 + 1)
    }

    /// Forgets what this open knows of extents behind the end of the file, which has `keep` bytes now.
    pub(crate) fn cut(&mut self, end: u32, keep: u64) {
        debug_assert!(self.end() <= end, "an extent in use is cut off");
        let whole = (keep / EXTENT_BYTES) as usize;
        (whole..self.all.len()).for_each(|no| self.change(no, |extent| extent.blocks = false));
        let behind = self.all.get(end as usize..).unwrap_or(&[]);
        behind.iter().for_each(|extent| self.totals.sub(extent));
        self.all.truncate(end as usize);
        self.hint = self.hint.min(self.all.len());
    }

    /// Bytes from the start of an extent that have blocks on the disk.
    pub(crate) fn filled(&self, no: u32) -> u32 {
        self.all[no as usize].filled
    }
    pub(crate) fn fill(&mut self, no: u32, to: u32) {
        let filled = &mut self.all[no as usize].filled;
        debug_assert!(u64::from(to) <= EXTENT_BYTES);
        *filled = (*filled).max(to);
    }

    /// Extents with images of which less than that share is live, fewest first: `(number, live)`.
    /// Those that somebody holds, or the journal has, are left out, but for those that `root` alone holds.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn sparse(&self, below: u32, root: Range<u32>) -> Result<Vec<(u32, u32)>> {
        let is_sparse = |(no, e): &(usize, &Extent)| {
            let is_free = e.holds == u32::from(root.contains(&(*no as u32))) && !e.journal;
            e.live > 0 && e.live < below && is_free
        };
        let all = || self.all.iter().enumerate().filter(is_sparse);
        let mut sparse = fallible::list(all().count(), LIST)?;
        sparse.extend(all().map(|(no, e)| (no as u32, e.live)));
        sparse.sort_unstable_by_key(|(no, live): &(u32, u32)| (*live, *no));
        Ok(sparse)
    }

    /// Extents from `first` on in which images are alive now, in order.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn with_images(&self, first: u64) -> Result<Vec<u32>> {
        let first = usize::try_from(first).unwrap_or(usize::MAX).min(self.all.len());
        let mut list = fallible::list(self.all.len() - first, LIST)?;
        let alive = (first..self.all.len()).filter(|no| self.all[*no].live > 0);
        list.extend(alive.map(|no| no as u32));
        Ok(list)
    }

    /// Extents in use for anything but the journal: there may be images in them that are alive, or were
    /// at the last root, or that somebody reads still. In order.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn with_others(&self) -> Result<Vec<u32>> {
        let is_one = Extent::has_others;
        let mut list = fallible::list(self.all.iter().filter(|e| is_one(e)).count(), LIST)?;
        list.extend((0..self.all.len()).filter(|no| is_one(&self.all[*no])).map(|no| no as u32));
        Ok(list)
    }

    /// Extents with images that are alive, or were at the last root.
    pub(crate) fn images(&self) -> u32 {
        self.totals.images
    }
    /// Extents with images that are alive.
    pub(crate) fn alive(&self) -> u64 {
        self.totals.alive.into()
    }
    pub(crate) fn is_alive(&self, no: u32) -> bool {
        self.all[no as usize].live > 0
    }

    /// Figures: `(live bytes, extents in the journal)`.
    pub(crate) fn counts(&self) -> (u64, u64) {
        debug_assert!(self.totals == Totals::of(&self.all), "what was counted is there");
        (self.totals.live, self.totals.journal.into())
    }

    /// Free extents that begin in the first `bytes` of the file. O(extents behind that): those that nobody
    /// has written to yet.
    pub(crate) fn free_within(&self, bytes: u64) -> u64 {
        let n = usize::try_from(bytes.div_ceil(EXTENT_BYTES)).unwrap_or(usize::MAX);
        let behind = self.all.get(n..).unwrap_or(&[]).iter().filter(|e| e.is_free());
        u64::from(self.totals.free) - behind.count() as u64
    }
}

#[cfg(test)]
mod tests;
