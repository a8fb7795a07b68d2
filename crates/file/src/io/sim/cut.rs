//! Power cuts: how much they leave of the writes that no sync has covered.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::disk::{Disk, Inode, Rng, SECTOR, UnsyncedChange};
use super::fault::{DiskPlace, Stray};
use super::sparse::Sparse;

/// How much of the unsynced writes of one file a power cut leaves.
#[derive(Clone, Copy)]
pub(super) enum Luck {
    All,
    Nothing,
    Mixed,
}

/// The contents of blocks before a file grew into them.
pub(super) struct Stale<'a> {
    /// A file, and where its chunks start.
    source: Option<(&'a Sparse, Vec<u64>)>,
    first: u64,
}

/// Bytes that may be found where a write was dropped or cut off.
#[derive(Clone, Copy, Default)]
pub(super) struct Junk<'a> {
    /// Random bytes in sectors that were being written.
    pub garbage: bool,
    /// The contents of blocks before the file grew into them: 4 KiB of this file at a time, from this
    /// number on; or random bytes.
    pub stale: Option<&'a Stale<'a>>,
}

impl Inode {
    /// Makes each unsynced sector durable, or not, or worse; then nothing is pending.
    pub(super) fn cut(&mut self, rng: &mut Rng, luck: Luck, junk: Junk<'_>) {
        let (mut pending, mut grown) = (std::mem::take(&mut self.pending), self.durable.len());
        if matches!(luck, Luck::Mixed) && rng.below(4) == 0 {
            for i in (1..pending.len()).rev() {
                pending.swap(i, rng.below(i as u64 + 1) as usize);
            }
        }
        for one in &pending {
            if let UnsyncedChange::Len(len) = one {
                // The blocks behind it are free, and the file may get others when it grows again.
                grown = grown.min(*len);
            }
            match (one, luck) {
                (_, Luck::Nothing) => {}
                (UnsyncedChange::Len(len), Luck::All) => self.durable.set_len(*len),
                (UnsyncedChange::Len(len), Luck::Mixed) => {
                    if rng.below(2) == 0 {
                        self.durable.set_len(*len);
                    } else if *len < self.durable.len() && rng.below(2) == 0 {
                        self.durable.punch(*len, || rng.below(2) == 0);
                    }
                }
                (UnsyncedChange::Write(offset, bytes), Luck::All) => {
                    self.durable.write(bytes, *offset)
                }
                (UnsyncedChange::Astray(offset, bytes, to), _) => {
                    let mixed = matches!(luck, Luck::Mixed);
                    if !mixed || rng.below(2) == 0 {
                        self.durable.grow(offset + bytes.len() as u64);
                    }
                    match to {
                        Some(to) if mixed => self.cut_write(rng, *to, bytes, grown, junk),
                        Some(to) => self.durable.write(bytes, *to),
                        None => {}
                    }
                }
                (UnsyncedChange::Write(offset, bytes), Luck::Mixed) => {
                    self.cut_write(rng, *offset, bytes, grown, junk);
                }
            }
        }
        // The length may be there without the bytes.
        let (has, had) = (self.durable.len(), self.live.len());
        if matches!(luck, Luck::Mixed) && has < had && rng.below(4) == 0 {
            self.durable.set_len(had);
        }
    }

    fn cut_write(
        &mut self,
        rng: &mut Rng,
        mut offset: u64,
        mut bytes: &[u8],
        grown: u64,
        junk: Junk<'_>,
    ) {
        let keep = 1 + rng.below(7);
        while !bytes.is_empty() {
            let n = bytes.len().min((SECTOR - offset % SECTOR) as usize);
            let sector = &bytes[..n];
            match rng.below(8) {
                0 if junk.garbage => {
                    let mut filled = vec![0; n];
                    rng.fill(&mut filled);
                    self.durable.write(&filled, offset);
                }
                1 => self.tear(rng, offset, sector),
                luck if luck <= keep => self.durable.write(sector, offset),
                _ if offset >= grown => {
                    if let Some(stale) = junk.stale {
                        let filled = leftover(rng, stale, offset, n);
                        self.durable.write(&filled, offset);
                    }
                }
                _ => {}
            }
            bytes = &bytes[n..];
            offset += n as u64;
        }
    }

    /// Writes some of the words of a sector: the first ones, or any.
    fn tear(&mut self, rng: &mut Rng, mut offset: u64, sector: &[u8]) {
        let first = (offset.next_multiple_of(8) - offset) as usize;
        if rng.below(2) == 0 {
            let words = sector.len().saturating_sub(first) / 8;
            let end = (first + 8 * rng.below(words as u64 + 1) as usize).min(sector.len());
            self.durable.write(&sector[..end], offset);
            return;
        }
        assert!(sector.len() as u64 <= SECTOR, "{} bytes of a sector", sector.len());
        let (head, words) = sector.split_at(first.min(sector.len()));
        let mut kept = rng.next();
        for word in std::iter::once(head).chain(words.chunks(8)) {
            if kept & 1 != 0 && !word.is_empty() {
                self.durable.write(word, offset);
            }
            kept = kept.rotate_right(1);
            offset += word.len() as u64;
        }
    }
}

/// Bytes that were in the blocks of a file before it grew into them.
fn leftover(rng: &mut Rng, stale: &Stale<'_>, offset: u64, n: usize) -> Vec<u8> {
    let mut filled = vec![0; n];
    let chunk = stale.source.as_ref().and_then(|(source, starts)| {
        let no = stale.first.wrapping_add(offset / Sparse::CHUNK);
        let no = no.checked_rem(starts.len() as u64)?;
        Some((source, starts[no as usize]))
    });
    match chunk {
        Some((source, start)) => {
            source.read(&mut filled, start + offset % Sparse::CHUNK);
        }
        None => rng.fill(&mut filled),
    }
    filled
}

/// An unsynced sector on its way to a wrong place.
struct Lost {
    inode: usize,
    offset: u64,
    bytes: Vec<u8>,
}

impl Disk {
    pub(super) fn power_cut(&self, seed: u64) -> Disk {
        let mut rng = Rng(seed);
        let all = [Luck::All, Luck::Nothing, Luck::Mixed, Luck::Mixed, Luck::Mixed];
        let whole = all[rng.below(5) as usize];
        let garbage = rng.below(2) == 0;
        let mut after = Disk {
            rng: Rng(rng.next()),
            weather: self.weather,
            full: self.full,
            lied: self.lied.clone(),
            ..Disk::default()
        };
        let lost = if self.weather.misdirects { self.lose_a_sector(&mut rng) } else { None };
        for (no, inode) in self.inodes.iter().enumerate() {
            let luck =
                if matches!(whole, Luck::Mixed) { all[rng.below(5) as usize] } else { whole };
            let stale = self.stale(&mut rng, luck);
            let stale = stale.as_ref();
            let mut copy = inode.copy();
            if let Some(lost) = lost.as_ref().filter(|lost| lost.inode == no) {
                copy.pending = without(&copy.pending, lost);
            }
            copy.cut(&mut rng, luck, Junk { garbage, stale });
            copy.live = copy.durable.clone();
            after.inodes.push(copy);
        }
        after.durable_names = self.durable_names.clone();
        for name in &self.pending_names {
            let keep = match whole {
                Luck::All => true,
                Luck::Nothing => false,
                Luck::Mixed => rng.below(2) == 0,
            };
            if keep {
                name.apply(&mut after.durable_names);
            }
        }
        after.names = after.durable_names.clone();
        if let Some(lost) = lost {
            after.stray = self.strand(&mut rng, &mut after.inodes, &after.durable_names, &lost);
        }
        after
    }

    /// In a part of the cuts, what dropped sectors of a file that grew are found to hold.
    fn stale(&self, rng: &mut Rng, luck: Luck) -> Option<Stale<'_>> {
        if !matches!(luck, Luck::Mixed) || rng.below(4) != 0 {
            return None;
        }
        let source = &self.inodes[rng.below(self.inodes.len() as u64) as usize].durable;
        let is_file = rng.below(4) != 0;
        let source = is_file.then(|| (source, source.chunk_starts().collect()));
        Some(Stale { source, first: rng.next() })
    }

    /// Picks one of the sectors that are being written.
    fn lose_a_sector(&self, rng: &mut Rng) -> Option<Lost> {
        let sectors =
            |offset: u64, len: usize| (offset + len as u64).div_ceil(SECTOR) - offset / SECTOR;
        let writes = || {
            self.inodes.iter().enumerate().flat_map(|(inode, file)| {
                file.pending.iter().filter_map(move |pending| match pending {
                    UnsyncedChange::Write(offset, bytes) if !bytes.is_empty() => {
                        Some((inode, *offset, bytes))
                    }
                    _ => None,
                })
            })
        };
        let total: u64 = writes().map(|(_, offset, bytes)| sectors(offset, bytes.len())).sum();
        let mut nth = rng.below(total);
        for (inode, offset, bytes) in writes() {
            let here = sectors(offset, bytes.len());
            if nth < here {
                let start = ((offset / SECTOR + nth) * SECTOR).max(offset);
                let end = ((start / SECTOR + 1) * SECTOR).min(offset + bytes.len() as u64);
                let part = &bytes[(start - offset) as usize..(end - offset) as usize];
                return Some(Lost { inode, offset: start, bytes: part.to_vec() });
            }
            nth -= here;
        }
        None
    }

    /// Writes the lost sector, as the disk would have, over another one that was written at some
    /// time.
    fn strand(
        &self,
        rng: &mut Rng,
        after: &mut [Inode],
        names: &BTreeMap<PathBuf, usize>,
        lost: &Lost,
    ) -> Option<Stray> {
        let named = |no: usize| names.iter().find(|(_, n)| **n == no).map(|(path, _)| path.clone());
        let source = self.names.iter().find(|(_, n)| **n == lost.inode)?.0.clone();
        let start = lost.offset / SECTOR * SECTOR;
        let mut sector = vec![0; SECTOR as usize];
        after[lost.inode].durable.read(&mut sector, start);
        let at = (lost.offset - start) as usize;
        sector[at..at + lost.bytes.len()].copy_from_slice(&lost.bytes);
        let files: Vec<usize> = (0..after.len())
            .filter(|&no| after[no].durable.chunk_count() > 0 && named(no).is_some())
            .collect();
        let target = *files.get(rng.below(files.len() as u64) as usize)?;
        let (chunk, len) = after[target].durable.chunk(rng.next())?;
        let offset = chunk + rng.below(len.div_ceil(SECTOR)) * SECTOR;
        if (target, offset) == (lost.inode, start) {
            return None;
        }
        sector.truncate((after[target].durable.len() - offset).min(SECTOR) as usize);
        let file = &mut after[target];
        file.durable.write(&sector, offset);
        file.live.write(&sector, offset);
        Some(Stray {
            from: DiskPlace { path: source, offset: start },
            to: DiskPlace { path: named(target)?, offset },
        })
    }
}

/// The pending changes, but for the first write of the lost sector: its place keeps what it had.
fn without(pending: &[UnsyncedChange], lost: &Lost) -> Vec<UnsyncedChange> {
    let end = lost.offset + lost.bytes.len() as u64;
    let mut kept = Vec::with_capacity(pending.len() + 1);
    let mut found = false;
    for one in pending {
        match one {
            UnsyncedChange::Write(offset, bytes)
                if !found
                    && *offset <= lost.offset
                    && end <= offset + bytes.len() as u64
                    && bytes[(lost.offset - offset) as usize..(end - offset) as usize]
                        == lost.bytes =>
            {
                found = true;
                let (before, after) = (lost.offset - offset, end - offset);
                kept.push(UnsyncedChange::Write(*offset, bytes[..before as usize].to_vec()));
                kept.push(UnsyncedChange::Write(end, bytes[after as usize..].to_vec()));
            }
            other => kept.push(other.clone()),
        }
    }
    kept
}
