//! What is on the simulated disk: files, names, what of them is durable, and what came since.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::fault::{Fault, Lie, Weather};
use super::place::{DiskPlace, Lied, Stray};
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
    /// What a read sees.
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
                UnsyncedChange::Write(offset, bytes) => self.durable.write(&bytes, offset),
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

    /// What is read of these bytes from now on is what the disk has, and what is still to be written.
    /// Who forgets the whole file forgets its length too.
    pub(super) fn forget(&mut self, range: Range<u64>) {
        let fresh = self.fresh(&range);
        if range.start == 0 && range.end >= self.live.len().max(fresh.len()) {
            self.live = fresh;
        } else {
            self.live.replace(range, &fresh);
        }
    }

    /// What the disk has of these bytes, and what is still to be written there; with the length of
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
    /// What is to be done instead of the first write from a call on, and the seed for it.
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
