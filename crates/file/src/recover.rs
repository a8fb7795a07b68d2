//! What an open does after an unclean end: torn homes, torn journal tails, and the index of changes
//! to apply. A read-only open does the same in memory and changes nothing.

use everleaf_pmem::epoch::NO_EPOCH;
use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::page::{Geometry, PageNo};

use crate::double::{self, TornHomes};
use crate::format::{Super, first_link, page_offset};
use crate::inner::JournalState;
use crate::io::IoFile;
use crate::journal::{self, BlockKey, HEADER_BYTES, JournalHeader, JournalScan, NAMES, read_error};
use crate::replay::{Replay, ScannedJournal};

/// The journal after an open.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    pub active: usize,
    pub files: [JournalState; 2],
    pub link: u32,
    pub last_epoch: u64,
    /// The epoch of the last block; 0 = there is none, for epochs without changes end without one.
    pub last_block: u64,
    pub replay: Option<Replay>,
}

impl Recovered {
    /// Whether blocks can be appended to what was read.
    pub(crate) fn is_consistent(&self) -> bool {
        let file = &self.files[self.active];
        self.last_block <= self.last_epoch && file.busy && file.end >= HEADER_BYTES
    }
}

/// Restores torn homes from the double-write area; a read-only open gets their images instead.
pub(crate) fn homes(
    data: &dyn IoFile,
    superblock: &Super,
    journal: &Recovered,
    g: Geometry,
    read_only: bool,
) -> Result<TornHomes> {
    let failed = |e| Error::io("restoring torn pages", e);
    let (torn, ahead) = double::find(data, superblock, journal.last_epoch, g)?;
    if let Some(double::Ahead(epoch)) = ahead {
        let (i, last) = (journal.active, journal.last_epoch);
        let what = format!("pages of epoch {epoch} are home, yet epoch {last} is the last");
        return Err(damaged(i, journal.files[i].end, what));
    }
    if read_only || torn.is_empty() {
        // What an earlier process wrote home and did not live to sync is synced before this one
        // writes anything: see `start`.
        return Ok(torn);
    }
    for (&no, image) in &torn {
        data.write_at(image, page_offset(no, g)).map_err(failed)?;
    }
    debug_assert!(torn.keys().all(|&no| u64::from(no) < superblock.pages_end));
    data.sync_data().map_err(failed)?;
    Ok(TornHomes::new())
}

/// Something of a journal file is missing or wrong.
fn damaged(i: usize, offset: u64, what: impl Into<String>) -> Error {
    Error::Corrupt { file: NAMES[i], offset, what: what.into() }
}

/// Whether a journal file holds something of the generation that the superblock names: a header, or
/// blocks behind one that is damaged.
///
/// # Errors
/// I/O errors, and [`Error::Foreign`] for another version.
pub(crate) fn written(file: &dyn IoFile, i: usize, superblock: &Super) -> Result<bool> {
    let generation = superblock.journal_generation;
    file.drop_cached(0..u64::MAX).map_err(|e| read_error(NAMES[i], e))?;
    let len = file.len().map_err(|e| read_error(NAMES[i], e))?;
    let header = JournalHeader::read(file, NAMES[i])?;
    // A file that ends within its header was never synced, and no superblock names it.
    let is_whole = len >= HEADER_BYTES;
    if is_whole && header.is_some_and(|h| h.uuid == superblock.uuid && h.generation == generation) {
        return Ok(true);
    }
    // The header may be damaged, or the other file's, which a disk wrote here: blocks behind it say so.
    let key = BlockKey::new(&superblock.uuid, generation);
    Ok(journal::look_ahead(file, NAMES[i], len, 0, key, 0)?.is_some())
}

/// Which file replay starts with, and whether the other one continues it.
fn order(
    journals: &[&dyn IoFile; 2],
    superblock: &Super,
) -> Result<(usize, Option<usize>, [Option<JournalHeader>; 2])> {
    let first_generation = superblock.journal_generation;
    let mut headers = [None; 2];
    for i in 0..2 {
        headers[i] = JournalHeader::read(journals[i], NAMES[i])?;
        if headers[i].is_some_and(|h| h.uuid != superblock.uuid) {
            return Err(damaged(i, 0, "the journal belongs to another pool"));
        }
    }
    if (0..2).all(|i| headers[i].is_some_and(|h| h.generation == first_generation)) {
        // One of them is a copy of the other's, which the disk had there before the file grew; or
        // it is left over from a checkpoint that was cut off, and counted for nothing. A journal
        // begins in the first file, and goes on in the second only when it has blocks.
        let key = BlockKey::new(&superblock.uuid, first_generation);
        let begun = |i: usize| journal::begun(journals[i], NAMES[i], key);
        let i = match (begun(0)?, begun(1)?) {
            (_, false) => 1,
            (false, true) => 0,
            (true, true) => return Err(damaged(1, 0, "its header is that of the other one")),
        };
        headers[i] = None;
    }
    let generation = |i: usize| headers[i].map(|h| h.generation);
    let Some(first) = (0..2).find(|&i| generation(i) == Some(first_generation)) else {
        let i = usize::from(headers[0].is_some() && headers[1].is_none());
        return Err(damaged(i, 0, format!("generation {first_generation} is missing")));
    };
    let other = 1 - first;
    let second = match generation(other) {
        Some(g) if g == first_generation + 1 => Some(other),
        Some(g) if g > first_generation => {
            return Err(damaged(other, 0, format!("generation {g} comes too early")));
        }
        Some(_) => None,
        None => {
            // A torn header is no loss, for blocks come after it; blocks behind it are.
            let len = journals[other].len().map_err(|e| read_error(NAMES[other], e))?;
            let key = BlockKey::new(&superblock.uuid, first_generation + 1);
            let at = journal::look_ahead(journals[other], NAMES[other], len, 0, key, 0)?;
            if let Some(at) = at {
                let what = format!("the header is damaged, yet a good block at byte {at}");
                return Err(damaged(other, 0, what));
            }
            None
        }
    };
    Ok((first, second, headers))
}

/// Reads the journal of a pool that was not closed.
///
/// # Errors
/// I/O errors, and [`Error::Corrupt`] if what was durable is not all there.
pub(crate) fn journal(
    journals: &[&dyn IoFile; 2],
    superblock: &Super,
    limit: PageNo,
    read_only: bool,
) -> Result<Recovered> {
    let (first, second, headers) = order(journals, superblock)?;
    let mut recovered = Recovered { active: first, ..Recovered::default() };
    let mut parts = Vec::new();
    let mut link = (superblock.first_link != 0).then_some(superblock.first_link as u32);
    // A journal goes on in the other file only when it has blocks, and says how many were durable.
    let floor = second.and_then(|i| headers[i]).map_or(0, |header| header.floor);
    // The whole header was durable before the superblock named the generation.
    let floor = floor.max(superblock.journal_floor).max(HEADER_BYTES);
    for i in [Some(first), second].into_iter().flatten() {
        let Some(header) = headers[i] else { continue };
        let key = BlockKey::new(&superblock.uuid, header.generation);
        let after = recovered.last_epoch.max(header.first_epoch.saturating_sub(1));
        let scan = journal::scan(journals[i], NAMES[i], key, after, link)?;
        let there = scan.end.min(scan.file_len);
        if i == first && there < floor {
            return Err(damaged(i, there, format!("{floor} bytes of it were durable")));
        }
        if i != first && scan.blocks.is_empty() {
            // Its header may be one whose sync failed, so it is as good as none; but its number is
            // taken.
            recovered.files[i].generation = header.generation;
            // A block whose sync failed must not pass for a later one's when the file is used again.
            let len =
                if read_only { scan.file_len } else { cut_tail(journals[i], NAMES[i], &scan)? };
            recovered.files[i].len = len;
            continue;
        }
        if i != first && recovered.last_block == 0 {
            let what = "no good block here, yet there are some in the other file";
            return Err(damaged(first, HEADER_BYTES, what));
        }
        // What came before the header's epoch was durable, or empty, when the header was written.
        recovered.last_epoch = after;
        if let Some(last) = scan.blocks.last() {
            (recovered.last_epoch, recovered.last_block) = (last.epoch, last.epoch);
            link = Some(last.crc);
        }
        let mut len = scan.file_len;
        if !read_only {
            len = cut_tail(journals[i], NAMES[i], &scan)?;
        }
        let generation = header.generation;
        let first_link =
            scan.blocks.first().map_or(superblock.first_link, |block| first_link(block.link));
        recovered.files[i] =
            JournalState { generation, end: scan.end, len, first_link, busy: true };
        recovered.active = i;
        parts.push(ScannedJournal { name: NAMES[i], scan });
    }
    let Recovered { active, last_epoch, .. } = recovered;
    if last_epoch < superblock.last_block {
        let what = format!("epoch {} was durable, {last_epoch} is the last", superblock.last_block);
        return Err(damaged(active, recovered.files[active].end, what));
    }
    recovered.link = link.unwrap_or(0);
    recovered.last_epoch = recovered.last_epoch.max(superblock.durable_epoch);
    if recovered.last_epoch >= NO_EPOCH {
        let what = format!("{:#x} is no durable epoch", recovered.last_epoch);
        return Err(damaged(recovered.active, 0, what));
    }
    let replay = Replay::new(parts, superblock.pages_end, limit)?;
    recovered.replay = (replay.left() > 0).then_some(replay);
    Ok(recovered)
}

/// Removes what lies behind the last good block, before anything is appended.
fn cut_tail(file: &dyn IoFile, name: &'static str, scan: &JournalScan) -> Result<u64> {
    let failed = |e| Error::io(format!("cutting the tail of {name}"), e);
    file.set_len(scan.end).map_err(failed)?;
    file.sync_data().map_err(failed)?;
    Ok(scan.end)
}
