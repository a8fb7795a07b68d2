//! Cleaning: what is alive in an extent of which little is alive moves elsewhere, so that the extent
//! becomes free.
//!
//! Each image says what it is of. It is alive if the table names it in this place. Its bytes are copied
//! as they are, and the table is told, unless it names another one by then. So cleaning needs no page in
//! memory and no latch, and large values move as pages do: their numbers stay. The extents are free when
//! the next root is durable.

use std::sync::atomic::Ordering;
use std::time::Instant;

use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::fallible;
use everleaf_pmem::page::PageNo;
use everleaf_pmem::sync::lock_plain as lock;

use crate::inner::{Chain, Inner, Stream};
use crate::limits::room::is_full;
use crate::memory::leaves::KeptLeaves;
use crate::observe;
use crate::store::extents::{Extents, JOURNAL_AHEAD};
use crate::store::format::{EXTENT_BYTES, SECTOR};
use crate::store::image::{FIRST_IMAGE, ImageHead, ImageKind, Placed};

/// Extents of which more is alive are left alone.
const SPARSE_BYTES: u32 = EXTENT_BYTES as u32 / 2;
/// The same where the disk is full.
const SPARSE_SCANT: u32 = EXTENT_BYTES as u32 / 16 * 15;
/// Bytes that a checkpoint moves at least, if there is so much to do.
const LEAST_BYTES: u64 = 8 << 20;

/// A free end of the file that is shorter stays while the pool is open.
const SPARE_BYTES: u64 = 32 << 20;

/// The working state of a checkpoint.
pub(crate) struct CheckpointWork {
    begun: Instant,
    pub stream: Stream,
    /// Says when its images were written.
    pub stamp: u64,
    /// Images of the last batch, which the table does not name yet, and the epoch of each page's last change.
    pub batch: Vec<(PageNo, Placed, u64)>,
    /// Pages of which it has written images, and bytes of all images that it has written, so far.
    pub pages: u64,
    pub bytes: u64,
    /// Bytes of large values that were written since the run before.
    pub bulk: u64,
}

/// How much a checkpoint cleans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sweep {
    /// Nothing.
    None,
    /// Sparse extents, while there are too many of them, about as much as was written since the last
    /// checkpoint.
    Some,
    /// Extents that are not wholly alive, while too few are [ready](crate::limits::ready) on a full disk.
    Scant,
    /// Extents that make a closed file much longer than it must be, or than so many extents, while no more bytes than
    /// these have to move.
    Closed { within: u64, budget: u64 },
    /// Extents that make the file longer than it must be, or than so many extents.
    Short { within: u64 },
}

/// How many extents a file may have for images of so many bytes that are alive, if it may have `spare`
/// beyond a share of that.
fn allowed(live: u64, spare: u32) -> u64 {
    let least = live.div_ceil(EXTENT_BYTES);
    least + least / 2 + u64::from(spare)
}

/// The extent in which a chain goes on when it has filled its own, if no block is in it yet.
fn reserved(chain: &Chain) -> Option<u32> {
    let next = chain.next.next_extent;
    (chain.is_there() && !chain.extents.contains(&next)).then_some(next)
}

/// Where the bytes end that somebody needs. Of an extent that this open has not written to, all of it may be. An open
/// expects what the journal has reserved [not far behind](JOURNAL_AHEAD) the end.
fn needed(extents: &Extents, reserved: Option<u32>) -> u64 {
    let near = u64::from(reserved.unwrap_or(0).saturating_sub(JOURNAL_AHEAD)) * EXTENT_BYTES;
    near.max(match extents.bytes_end(reserved).checked_sub(1) {
        None => FIRST_IMAGE,
        Some(last) => match extents.filled(last) {
            0 => (u64::from(last) + 1) * EXTENT_BYTES,
            filled => u64::from(last) * EXTENT_BYTES + u64::from(filled),
        },
    })
}

impl Inner {
    /// Begins a checkpoint; `bulk` bytes of large values were written since the run before.
    pub(crate) fn begin_run(&self, bulk: u64) -> CheckpointWork {
        let stamp = self.stamp.fetch_add(1, Ordering::Relaxed) + 1;
        let (stream, batch) = (Stream::default(), Vec::new());
        CheckpointWork { begun: Instant::now(), stream, stamp, batch, pages: 0, bytes: 0, bulk }
    }

    /// Ends it, however it went.
    pub(crate) fn end_run(&self, mut run: CheckpointWork, went: Result<()>) -> Result<()> {
        run.stream.end(&mut self.places_mut());
        match &went {
            Ok(()) => {
                let CheckpointWork { pages, bytes, begun, .. } = run;
                let ended = observe::Checkpoint { pages, bytes, took: begun.elapsed() };
                observe::checkpoint_ended(&self.uuid, &ended);
            }
            Err(error) => observe::checkpoint_failed(&self.uuid, error),
        }
        went
    }

    /// Moves what is alive out of sparse extents, and, for a short file, out of those at its end.
    pub(crate) fn clean(&self, run: &mut CheckpointWork, sweep: Sweep) -> Result<()> {
        let (begun, before) = (Instant::now(), run.bytes);
        let extents = match sweep {
            Sweep::None => 0,
            Sweep::Some => {
                let budget = (run.bytes + run.bulk).max(LEAST_BYTES);
                self.clean_sparse(run, budget, SPARSE_BYTES, 0)?
            }
            Sweep::Scant => self.clean_sparse(run, u64::MAX, SPARSE_SCANT, 2 * self.missing())?,
            Sweep::Closed { .. } | Sweep::Short { .. } => self.draw_together(run, sweep)?,
        };
        if extents > 0 {
            let (bytes, took) = (run.bytes - before, begun.elapsed());
            observe::cleaned(&self.uuid, &observe::Cleaning { extents, bytes, took });
        }
        Ok(())
    }

    /// Moves what is alive out of extents of which less than `below` is, while there are too many or fewer than
    /// `least` are done, and `budget` bytes have not moved. Says out of how many.
    fn clean_sparse(
        &self,
        run: &mut CheckpointWork,
        budget: u64,
        below: u32,
        least: u64,
    ) -> Result<u64> {
        let (mut wanted, sparse) = {
            let extents = &self.places().extents;
            let allowed = allowed(extents.counts().0, self.spare_extents);
            let wanted = u64::from(extents.images()).saturating_sub(allowed).max(least);
            (wanted, extents.sparse(below, 0..0)?)
        };
        let (mut moved, mut extents) = (0, 0);
        for (no, live) in sparse {
            if wanted == 0 || moved >= budget || u64::from(live) > self.cleaning_room() {
                break;
            }
            self.empty(run, no)?;
            moved += u64::from(live);
            extents += 1;
            wanted -= 1;
        }
        Ok(extents)
    }

    /// Cuts a free end off the file: all of it if `wholly`, or what is worth the trouble.
    pub(crate) fn cut_file(&self, wholly: bool) -> Result<()> {
        let reserved = reserved(&lock(&self.commit).chain);
        let _writing = self.begin_write()?;
        let failed = |e| self.poison(Error::io("cutting the file", e));
        let changed = self.changed();
        let mut places = self.places_mut();
        let len = self.data.len().map_err(failed)?;
        let end = places.extents.end();
        let in_use = places.extents.in_use();
        // Where the journal goes on has its blocks, too, unless the file is to be short.
        let is_cut = wholly || !self.reserve.is_due(in_use);
        let keep = needed(&places.extents, reserved.filter(|_| is_cut));
        let ready = match wholly {
            true => self.reserve.closed(in_use),
            false => self.owed(&places, changed, true),
        };
        let (keep, end) = match places.extents.end_with_ready(end, ready) {
            with_ready if with_ready > end => (u64::from(with_ready) * EXTENT_BYTES, with_ready),
            _ => (keep, end),
        };
        let cut = len.saturating_sub(keep);
        if cut == 0 || !wholly && (cut < SPARE_BYTES || cut < len / 8) {
            return Ok(());
        }
        // Nobody takes an extent meanwhile.
        self.data.set_len(keep).map_err(|e| match is_full(&e) {
            true => Error::io("cutting the file", e),
            false => failed(e),
        })?;
        places.extents.cut(end, keep);
        self.length.store(keep, Ordering::Relaxed);
        Ok(())
    }

    /// Checks that no other program has cut off what somebody needs of the file. If one has, nothing more
    /// is written: bytes behind the end would make the file as long as it was, with zeros in between. Nobody
    /// [cuts the file](Self::cut_file) meanwhile.
    ///
    /// # Errors
    /// [`Error::Corrupt`], which poisons; [`Error::Io`], which does not.
    pub(crate) fn expect_length(&self) -> Result<()> {
        let reserved = reserved(&lock(&self.commit).chain);
        let needed = needed(&self.places().extents, reserved);
        // Before the look at the file, which others make longer meanwhile.
        let known = self.length.load(Ordering::Relaxed);
        let len = self.data.len();
        let len = len.map_err(|e| Error::io("reading the length of the file", e))?;
        if len >= known.min(needed) {
            if len < known {
                // The part that is gone was free. It may be somebody's again before it is written to.
                self.length.fetch_min(len, Ordering::Relaxed);
            }
            return Ok(());
        }
        let error = Error::corrupt(len, "the file ends here: another program has cut it off");
        self.poison(error.clone());
        Err(error)
    }

    /// Moves what is alive out of one extent.
    pub(crate) fn empty(&self, run: &mut CheckpointWork, no: u32) -> Result<()> {
        let start = u64::from(no) * EXTENT_BYTES;
        let mut bytes = fallible::filled(0_u8, EXTENT_BYTES as usize, "an extent")?;
        let n = self.data.read_at(&mut bytes, start);
        let n = n.map_err(|e| Error::io("reading an extent", e))?;
        let bytes = &bytes[..n];
        let kept = KeptLeaves::of(self);
        let mut moved: Vec<(u32, Placed, Placed)> = Vec::new();
        let mut at = if no == 0 { FIRST_IMAGE as usize } else { 0 };
        while at < bytes.len() {
            let Some(head) = self.image_key.read(&bytes[at..], start + at as u64) else {
                at = (at + 1).next_multiple_of(SECTOR as usize);
                continue;
            };
            if self.is_alive(&head)? {
                let image = &bytes[at..at + head.placed.bytes as usize];
                fallible::more(&mut moved, 1, "what is alive in an extent")?;
                if let ImageKind::Table = head.name.kind {
                    // It is written anew by this checkpoint.
                    self.places_mut().soil_leaf(head.name.number);
                } else {
                    let placed = run.stream.push_copy(self, image)?;
                    moved.push((head.name.number, head.placed, placed));
                    run.bytes += u64::from(placed.room());
                }
            }
            at += head.placed.room() as usize;
        }
        run.stream.flush(self)?;
        let mut places = self.places_mut();
        for (no, from, to) in moved {
            places.move_image(no, from, to)?;
        }
        run.stream.settle(&mut places);
        drop(places);
        self.spill_leaves(run, kept)
    }

    /// Whether the table names this very image. Its part of the table is in memory then.
    fn is_alive(&self, head: &ImageHead) -> Result<bool> {
        let number = head.name.number;
        Ok(match head.name.kind {
            ImageKind::Root => false,
            ImageKind::Table => {
                let is = self.places().leaf(number) == Some(head.placed);
                if is {
                    self.lookup(number.saturating_mul(crate::store::table::LEAF_PAGES as u32))?;
                }
                is
            }
            ImageKind::Page | ImageKind::Value => self.lookup(number)? == head.placed,
        })
    }
}
