//! Compaction: checkpoints that move all that makes the file longer than it must be, the journal too.
//!
//! ```text
//! the first one   the emptiest extents, the root   -> the first that are free, maybe behind the end
//! the second one  what is behind the end           -> the extents that the first one has emptied
//! ```
//!
//! A root goes to where nothing is that anybody needs. So a file in which no extent is free becomes longer while it
//! is made shorter, by what has to move and the root; and it is not touched if nothing would be gained.
//!
//! The journal is at the end of a file that was long once, since it takes the last extent that is free. While
//! nobody writes, a root can say that the chain goes on elsewhere: behind the images, where an extent without blocks
//! takes no bytes of the file. Where somebody does, the chain leaves its extents early, for others that are nearer to
//! the start.

use everleaf_pmem::epoch::EpochPin;
use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::sync::lock_plain as lock;

use crate::checkpoint::Pace;
use crate::checkpoint::cleaner::{CheckpointWork, Sweep};
use crate::inner::{Chain, Inner};
use crate::journal::{JournalMark, Position};
use crate::store::format::EXTENT_BYTES;
use crate::store::image::{FIRST_IMAGE, ImageKey, Placed};
use crate::store::table::Places;

/// How often a compaction goes over the file, at most.
const RUNS: usize = 6;
/// A file that is longer than what is alive by so many bytes, and an eighth, is not worth a compaction.
const SLACK_BYTES: u64 = 16 << 10;
/// Extents that a closed file may have beside those for what is alive, if that is more than one takes.
const CLOSED_EXTENTS: u64 = 2;

/// Bytes of the file that are alive, but for the journal.
fn alive_bytes(places: &Places) -> u64 {
    let root = places.root_bytes(places.extents.len() as usize);
    FIRST_IMAGE + places.extents.counts().0 + ImageKey::room(root, &(0..0)) as u64
}

/// How many extents hold what is alive, but for the journal, in a file that is short.
fn shortest(places: &Places) -> u64 {
    let least = alive_bytes(places).div_ceil(EXTENT_BYTES);
    least + least / 8
}

/// The same for a file that is closed, which is to be short without much work.
fn short_enough(places: &Places) -> u64 {
    match shortest(places) {
        1 => 1,
        extents => extents + CLOSED_EXTENTS,
    }
}

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
    /// Makes the file as short as what is alive allows, and never longer than it was but for what others write
    /// meanwhile. `progress` hears of the file's length now and then.
    pub(crate) fn compact(&self, progress: &mut dyn FnMut(u64)) -> Result<()> {
        EpochPin::refuse_inside()?;
        let length = || self.data.len().map_err(|e| Error::io("reading the length of the file", e));
        let first = length()?;
        progress(first);
        self.ready_for_checkpoint()?;
        if !self.is_short(first) || !self.nothing_to_do() {
            self.shorten(first, &length, progress)?;
        }
        let next = lock(&self.commit).chain.next.number;
        lock(&self.reserve.state).compacted = Some((next, first / EXTENT_BYTES));
        Ok(())
    }

    /// Runs checkpoints while they make the file shorter, which had `first` bytes.
    fn shorten(
        &self,
        first: u64,
        length: &dyn Fn() -> Result<u64>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let mut before = first;
        for run in 0..RUNS {
            self.leave_values_extent()?;
            // Without the last one, which was not full, if that is what it takes.
            let within =
                if before > first { first / EXTENT_BYTES } else { first.div_ceil(EXTENT_BYTES) };
            let drawn_in = DrawnIn::new(self);
            self.run_checkpoint(Pace::Full, Sweep::Short { within: within.max(1) })?;
            drop(drawn_in);
            let now = length()?;
            progress(now);
            let is_done = self.is_short(now) || run > 0 && now >= before && !self.is_long();
            if now <= first && is_done {
                break;
            }
            before = now;
        }
        Ok(())
    }

    /// Whether a file of so many bytes is hardly longer than what is alive.
    fn is_short(&self, bytes: u64) -> bool {
        let alive = alive_bytes(&self.places());
        bytes <= alive + alive / 8 + SLACK_BYTES
    }

    /// Whether anything but the journal is farther from the start of the file than it should be.
    fn is_long(&self) -> bool {
        let places = self.places();
        u64::from(places.extents.others_end()) > shortest(&places)
    }

    /// Whether a [sweep](Sweep::Closed) would make a file that is closed, and had `within` extents before, much shorter.
    pub(crate) fn is_long_for_closed(&self, within: u64) -> bool {
        let places = self.places();
        u64::from(places.extents.others_end()) > short_enough(&places).min(within)
    }

    /// Whether a pool can be closed with the root that it has: nothing has changed since, and hardly anything of what
    /// that names would be forgotten.
    pub(crate) fn keeps_root(&self) -> bool {
        if !self.nothing_to_do() {
            return false;
        }
        let places = self.places();
        places.is_as_rooted() && places.free_leaf_bytes() <= alive_bytes(&places) / 8
    }

    /// Whether one extent holds all that is alive.
    pub(crate) fn is_small(&self) -> bool {
        shortest(&self.places()) == 1
    }

    /// Moves what is alive out of sparse extents until so few are left that the file can be short, and then from behind
    /// its end to where room is. Says out of how many.
    pub(crate) fn draw_together(&self, run: &mut CheckpointWork, sweep: Sweep) -> Result<u64> {
        let root = lock(&self.root).extents();
        let (end, budget, sparse) = {
            let places = self.places();
            let (end, budget) = match sweep {
                Sweep::Short { within } => (shortest(&places).min(within), u64::MAX),
                Sweep::Closed { within, budget } => (short_enough(&places).min(within), budget),
                Sweep::None | Sweep::Some | Sweep::Scant => return Ok(0),
            };
            (end, budget, places.extents.sparse(EXTENT_BYTES as u32, root)?)
        };
        let (mut moved, mut emptied, mut written_anew) = (0, 0, 0);
        for (no, live) in sparse {
            let alive = {
                let extents = &self.places().extents;
                // The root will have an extent, if nothing else does.
                let has_stream = run.stream.extent.is_some_and(|no| extents.is_alive(no));
                (extents.alive() + u64::from(!has_stream)).saturating_sub(written_anew)
            };
            if alive <= end || moved >= budget || u64::from(live) > self.cleaning_room() {
                break;
            }
            if !run.stream.fills(no) {
                self.empty(run, no)?;
                // Leaves of the table are alive there until this checkpoint has written them.
                written_anew += u64::from(self.places().extents.is_alive(no));
                moved += u64::from(live);
                emptied += 1;
            }
        }
        let mut far = self.places().extents.with_images(end)?;
        far.retain(|no| !run.stream.fills(*no));
        for no in far.into_iter().rev() {
            let is_nearer = self.places().extents.first_free() < no;
            if !is_nearer || moved >= budget || EXTENT_BYTES > self.cleaning_room() {
                break;
            }
            self.empty(run, no)?;
            moved += EXTENT_BYTES;
            emptied += 1;
        }
        Ok(emptied)
    }

    /// As [`name_root`](Self::name_root), for a file that is to be short: the journal goes on behind the images if no
    /// block has been written since `journal`. Says where it does.
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
        drop(places);
        if written.is_ok() {
            self.ahead.move_mark(mark);
        }
        written.map(|()| Some(mark))
    }

    /// Where the chain could go on behind the images, if `mark` is its end, and does not yet. Takes an extent for
    /// that.
    fn draw_in(&self, chain: &Chain, mark: JournalMark) -> Option<JournalMark> {
        if chain.spilled.is_some() || chain.next != mark.next {
            return None;
        }
        let now = (mark.next.spot() / EXTENT_BYTES) as u32;
        let has_blocks = !mark.next.place.is_multiple_of(EXTENT_BYTES);
        let mut places = self.places_mut();
        let images = u32::try_from(shortest(&places)).ok()?;
        let first = places.extents.take_behind_images(images, now, has_blocks)?;
        let next = Position::begin(first, mark.next.number, mark.next.link);
        Some(JournalMark { next, ..mark })
    }
}
