//! The contents of the simulated disk: files, names, what of them is durable, and what came since; and what strikes a call.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use everleaf_pmem::locks::{Mutex, MutexGuard};

use super::fault::{DiskPlace, Fault, IoCall, Lie, Lied, Stray, Weather, eio};
use super::sparse::Sparse;

pub(super) const SECTOR: u64 = 512;

/// splitmix64: enough randomness to cut power by.
#[derive(Debug, Clone, Default)]
pub(super) struct Rng(pub u64);

impl Rng {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }
    pub(super) fn fill(&mut self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.next().to_le_bytes()[..part.len()]);
        }
    }
}

/// A change of a file's bytes or length that no sync has covered.
#[derive(Debug, Clone)]
pub(super) enum UnsyncedChange {
    Write(u64, Vec<u8>),
    /// Whole sectors that belong to the first place, and go to the second one, or nowhere.
    Astray(u64, Vec<u8>, Option<u64>),
    Len(u64),
}

/// A change of names that no sync of their directory has covered.
#[derive(Debug, Clone)]
pub(super) enum NameChange {
    Make(PathBuf, usize),
    Rename(PathBuf, PathBuf, usize),
    Remove(PathBuf),
}

impl NameChange {
    pub(super) fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            NameChange::Make(path, no) => {
                names.insert(path.clone(), *no);
            }
            NameChange::Rename(from, to, no) => {
                names.remove(from);
                names.insert(to.clone(), *no);
            }
            NameChange::Remove(path) => {
                names.remove(path);
            }
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Inode {
    /// The bytes that a read sees.
    pub live: Sparse,
    pub durable: Sparse,
    pub pending: Vec<UnsyncedChange>,
    /// Numbers of the sectors that cannot be read until they are written over.
    pub bad: BTreeSet<u64>,
    pub sharers: usize,
    pub owned: bool,
}

impl Inode {
    /// The same file for another process or after another power-on: nobody has it locked.
    pub(super) fn copy(&self) -> Inode {
        Inode {
            live: self.live.clone(),
            durable: self.durable.clone(),
            pending: self.pending.clone(),
            bad: self.bad.clone(),
            ..Inode::default()
        }
    }

    /// Bytes of memory, where chunks of both states count twice.
    pub(super) fn memory_bytes(&self) -> u64 {
        let pending = self.pending.iter().map(|change| match change {
            UnsyncedChange::Write(_, bytes) => bytes.len() as u64,
            _ => 0,
        });
        let chunks = self.live.chunk_count() + self.durable.chunk_count();
        chunks as u64 * Sparse::CHUNK + pending.sum::<u64>()
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        self.live.write(bytes, offset);
        self.pending.push(UnsyncedChange::Write(offset, bytes.to_vec()));
        if !self.bad.is_empty() {
            let whole = offset.div_ceil(SECTOR)..(offset + bytes.len() as u64) / SECTOR;
            self.bad.retain(|sector| !whole.contains(sector));
        }
    }

    /// Writes durably, also in place of what still has to be written there.
    pub(super) fn poke(&mut self, bytes: &[u8], offset: u64) {
        self.live.write(bytes, offset);
        self.durable.write(bytes, offset);
        let end = offset + bytes.len() as u64;
        for pending in &mut self.pending {
            let (UnsyncedChange::Write(start, old) | UnsyncedChange::Astray(start, old, _)) =
                pending
            else {
                continue;
            };
            let (from, to) = (offset.max(*start), end.min(*start + old.len() as u64));
            if from < to {
                let part = &bytes[(from - offset) as usize..(to - offset) as usize];
                old[(from - *start) as usize..(to - *start) as usize].copy_from_slice(part);
            }
        }
    }

    pub(super) fn set_len(&mut self, bytes: u64) {
        self.live.set_len(bytes);
        self.pending.push(UnsyncedChange::Len(bytes));
        self.bad.retain(|sector| *sector < bytes.div_ceil(SECTOR));
    }

    pub(super) fn sync(&mut self) {
        for pending in self.pending.drain(..) {
            match pending {
                // Mostly it is what a read sees, too, and then both are one memory.
                UnsyncedChange::Write(offset, bytes) => {
                    self.durable.write_as_in(&self.live, &bytes, offset);
                }
                UnsyncedChange::Astray(offset, bytes, to) => {
                    self.durable.grow(offset + bytes.len() as u64);
                    if let Some(to) = to {
                        self.durable.write(&bytes, to);
                    }
                }
                UnsyncedChange::Len(len) => self.durable.set_len(len),
            }
        }
    }

    /// Reads of these bytes see, from now on, what the disk has and what is still to be written.
    /// If the whole file is forgotten, its length is, too.
    pub(super) fn forget(&mut self, range: Range<u64>) {
        let fresh = self.fresh(&range);
        if range.start == 0 && range.end >= self.live.len().max(fresh.len()) {
            self.live = fresh;
        } else {
            self.live.replace(range, &fresh);
        }
    }

    /// The bytes of this range that the disk has, and those that are still to be written there; with the length of
    /// the file.
    fn fresh(&self, range: &Range<u64>) -> Sparse {
        let mut fresh = self.durable.part(range);
        for pending in &self.pending {
            match pending {
                UnsyncedChange::Write(offset, bytes) | UnsyncedChange::Astray(offset, bytes, _) => {
                    fresh.write_part(bytes, *offset, range);
                }
                UnsyncedChange::Len(len) => fresh.set_len(*len),
            }
        }
        fresh
    }

    /// Whether a read of these bytes meets a bad sector.
    pub(super) fn unreadable(&self, offset: u64, len: usize) -> bool {
        let end = (offset + len as u64).min(self.live.len());
        offset < end && self.bad.range(offset / SECTOR..end.div_ceil(SECTOR)).next().is_some()
    }
}

#[derive(Debug, Default)]
pub(super) struct Disk {
    pub inodes: Vec<Inode>,
    pub names: BTreeMap<PathBuf, usize>,
    pub durable_names: BTreeMap<PathBuf, usize>,
    pub pending_names: Vec<NameChange>,
    pub rng: Rng,
    pub weather: Weather,
    pub full: bool,
    pub calls: u64,
    pub fault: Option<(u64, Fault)>,
    pub struck: u64,
    pub cut_at: Option<(u64, Option<u64>)>,
    pub cut: Option<Box<Disk>>,
    pub stray: Option<Stray>,
    /// The lie in place of the first write from a call on, and the seed for it.
    pub lies: BTreeMap<u64, (Lie, u64)>,
    pub lied: Vec<Lied>,
}

/// A disk that handles and open files share.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedDisk(Arc<Mutex<Disk>>);

impl SharedDisk {
    pub(super) fn new(disk: Disk) -> Self {
        Self(Arc::new(Mutex::new(disk)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk {
    /// The disk for the next process: what was written is there, and still has to be synced.
    pub(super) fn kill(&self) -> Disk {
        Disk {
            inodes: self.inodes.iter().map(Inode::copy).collect(),
            names: self.names.clone(),
            durable_names: self.durable_names.clone(),
            pending_names: self.pending_names.clone(),
            rng: self.rng.clone(),
            weather: self.weather,
            full: self.full,
            lied: self.lied.clone(),
            ..Disk::default()
        }
    }

    pub(super) fn make(&mut self, path: &Path) -> usize {
        if let Some(&no) = self.names.get(path) {
            return no;
        }
        let no = self.inodes.len();
        self.inodes.push(Inode::default());
        self.names.insert(path.to_owned(), no);
        self.pending_names.push(NameChange::Make(path.to_owned(), no));
        no
    }

    /// Flips so many bits of what is durable, each in some file that has bytes, at a place that was
    /// written at some time.
    pub(super) fn rot(&mut self, seed: u64, bits: usize) -> Vec<DiskPlace> {
        let mut rng = Rng(seed);
        let written = |no: &usize| self.inodes[*no].durable.chunk_count() > 0;
        let files: Vec<(PathBuf, usize)> = self
            .durable_names
            .iter()
            .filter(|(_, no)| written(no))
            .map(|(path, no)| (path.clone(), *no))
            .collect();
        let mut places = Vec::new();
        for _ in 0..if files.is_empty() { 0 } else { bits } {
            let (path, no) = &files[rng.below(files.len() as u64) as usize];
            let inode = &mut self.inodes[*no];
            let Some((start, len)) = inode.durable.chunk(rng.next()) else { continue };
            let offset = start + rng.below(len);
            let mask = 1 << rng.below(8);
            for bytes in [&mut inode.durable, &mut inode.live] {
                let mut byte = [0];
                if bytes.read(&mut byte, offset) == 1 {
                    bytes.write(&[byte[0] ^ mask], offset);
                }
            }
            places.push(DiskPlace { path: path.clone(), offset });
        }
        places
    }
}

/// Faults that strike a call.
impl Disk {
    /// Counts a call, cuts the power before it if that is due, and says what strikes it.
    /// [`Fault::Io`] needs no more said.
    pub(super) fn call(&mut self, call: IoCall) -> io::Result<Option<Fault>> {
        let no = self.calls;
        if let Some((_, seed)) = self.cut_at.take_if(|(at, _)| *at <= no) {
            self.cut =
                Some(Box::new(seed.map_or_else(|| self.kill(), |seed| self.power_cut(seed))));
        }
        self.calls += 1;
        let asked = self.fault.filter(|(at, fault)| *at == no && fault.fits(call));
        let fault = asked.map(|(_, fault)| fault).or_else(|| self.storm(call));
        self.struck += u64::from(fault.is_some());
        match fault {
            Some(Fault::Io) => Err(eio()),
            Some(Fault::Full) => {
                // The call meets it if it needs room.
                self.full = true;
                Ok(None)
            }
            other => Ok(other),
        }
    }

    fn storm(&mut self, call: IoCall) -> Option<Fault> {
        let Weather { storm, faults, .. } = self.weather;
        if storm == 0 || self.rng.below(storm.into()) != 0 {
            return None;
        }
        let fitting = || faults.iter().filter(|fault| fault.fits(call));
        let n = self.rng.below(fitting().count() as u64);
        fitting().nth(n as usize).copied()
    }

    /// Makes one of the sectors that a read asks for a bad one, if it asks for any.
    pub(super) fn spoil(&mut self, inode: usize, offset: u64, len: usize) {
        let end = (offset + len as u64).min(self.inodes[inode].live.len());
        if offset < end {
            let (first, last) = (offset / SECTOR, (end - 1) / SECTOR);
            let sector = first + self.rng.below(last - first + 1);
            self.inodes[inode].bad.insert(sector);
        }
    }
}

/// Writes that the disk reports as done and does wrong.
impl Disk {
    /// The lie that is due at a write, and its seed.
    pub(super) fn due_lie(&mut self) -> Option<(Lie, u64)> {
        // The call itself is counted.
        let due = self.lies.first_entry().filter(|first| *first.key() < self.calls)?;
        Some(due.remove())
    }

    /// Makes a lie of a write that is pending in pieces, from the piece `first` on.
    pub(super) fn lie(&mut self, (lie, seed): (Lie, u64), inode: usize, first: usize) {
        let mut rng = Rng(seed);
        let path = self.names.iter().find(|(_, no)| **no == inode).map(|(path, _)| path.clone());
        let file = &mut self.inodes[inode];
        let Some((start, end)) = span(&file.pending[first..]) else { return };
        file.pending.truncate(first);
        let start = start / SECTOR * SECTOR;
        let mut bytes = vec![0; (end.next_multiple_of(SECTOR) - start) as usize];
        let len = file.live.read(&mut bytes, start);
        bytes.truncate(len);
        let room = file.live.len() - len as u64;
        let to = match lie {
            Lie::Lost => None,
            Lie::Misdirected => (0..TRIES).find_map(|_| {
                let unit = if rng.below(2) == 0 { SECTOR } else { 4096 };
                let (chunk, len) = file.live.chunk(rng.next())?;
                let to = (chunk + rng.below(len)).min(room) / unit * unit;
                (to != start).then_some(to)
            }),
        };
        let from = DiskPlace { path: path.unwrap_or_else(PathBuf::new), offset: start };
        self.lied.push(Lied { from, bytes: len as u64, to });
        file.pending.push(UnsyncedChange::Astray(start, bytes, to));
    }
}

/// How often a wrong place is looked for. A file may have none.
const TRIES: u32 = 64;

/// From where to where the writes go.
fn span(pieces: &[UnsyncedChange]) -> Option<(u64, u64)> {
    let mut span: Option<(u64, u64)> = None;
    for piece in pieces {
        let UnsyncedChange::Write(offset, bytes) = piece else { continue };
        let end = offset + bytes.len() as u64;
        span = Some(span.map_or((*offset, end), |(a, b)| (a.min(*offset), b.max(end))));
    }
    span
}
