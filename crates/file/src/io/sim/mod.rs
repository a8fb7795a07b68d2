//! Files in memory that lose power, tear, and fail on demand.
//!
//! The simulated disk remembers, for each file, what is durable and which writes came since. A
//! [power cut](SimIo::power_cut) splits these writes into sectors of 512 bytes and decides about each
//! on its own. Files are independent, so writes are reordered across files as well; within a file they
//! are also applied in another order, in a part of the cuts. [Faults](Fault) strike at a numbered
//! call, or at random in a storm. Everything follows from seeds, so under one thread a failure replays
//! exactly.
//!
//! | what happens | when | what a pool on it promises |
//! |---|---|---|
//! | a sector is kept, dropped, cut off at a word of 8 bytes, written in any of its words, or filled with garbage | power cut, unsynced writes | survived |
//! | writes of a file, or of several, happen in another order | the same | survived |
//! | a file that grew has its old or its new length, or the new one without the bytes; the new part holds zeros, garbage, or what other blocks hold | the same | survived |
//! | a file that shrank has its old or its new length, or the old one with holes beyond the new one; what it grows by again holds zeros or the bytes of before | the same | survived |
//! | a name that was made, changed or removed is so or is not | power cut before [`sync_dir`](Io::sync_dir) | survived |
//! | nothing is lost, and nothing is synced | [`kill`](SimIo::kill), [`cut_at`](SimIo::cut_at) without a seed: the process is killed | survived |
//! | a sector is written over another one, of any file, and its own place keeps what it had | power cut, if [`Weather::misdirects`] | detected, or survived |
//! | a read or write is short or interrupted | [`Weather::short`] | not noticed |
//! | [`Fault::Io`], [`Fault::PartialIo`] | [`fail_at`](SimIo::fail_at), or a storm | an error. If the call was to write or sync, no more is written; a reopen finds all that was acknowledged. An open that failed can be repeated |
//! | [`Fault::NoSpace`], [`Fault::Full`] | the same | an error of that call, unless it writes a superblock; what was accepted is written when there is room. While the disk is full, an open may fail again |
//! | [`Fault::LostSync`] | the same | the same; what memory holds is not taken for what the disk holds |
//! | [`Fault::BadSector`] | the same, or [`break_sector`](SimIo::break_sector) | an error each time that the sector is needed, until it is written over |
//! | a write succeeds, is synced, and has not reached the disk, or is written over other bytes of its file: [`Lie`] | [`lie_at`](SimIo::lie_at) | nothing so far |
//! | bits flip | [`rot`](SimIo::rot), [`poke`](SimIo::poke) | detected, or survived |
//!
//! *Survived*: an open finds the end of an epoch, and every acknowledged one. *Detected*: as survived,
//! or an error that names file and offset, at the open or when a page is touched. The exception: damage
//! to the last blocks of a journal that cannot be told from the torn write of a commit that nobody was
//! told of.

use std::io::{self, ErrorKind};
use std::path::Path;

use everleaf_pmem::locks::{Mutex, MutexGuard};

use super::{Access, Io, IoFile};

mod cut;
mod disk;
mod fault;
mod file;
mod sparse;
#[cfg(test)]
mod tests;

pub use fault::{DiskPlace, Fault, Lie, Lied, Stray, Weather};

use disk::{Disk, NameChange, Rng, SECTOR, SharedDisk};
use fault::{IoCall, no_space};
use file::SimFile;

/// A simulated disk. Clones are the same disk.
#[derive(Debug, Clone, Default)]
pub struct SimIo(SharedDisk);

impl SimIo {
    /// An empty disk.
    pub fn new(seed: u64) -> Self {
        Self::of(Disk { rng: Rng(seed), ..Disk::default() })
    }

    fn of(disk: Disk) -> Self {
        Self(SharedDisk::new(disk))
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock()
    }

    /// The number of calls so far. A call that was short or interrupted and went on is one.
    pub fn calls(&self) -> u64 {
        self.disk().calls
    }

    /// The number of calls that faults have struck so far.
    pub fn faults(&self) -> u64 {
        self.disk().struck
    }

    /// Bytes of memory that all files take here: as they are, as they are durable, and what is in between.
    pub fn memory_bytes(&self) -> u64 {
        self.disk().inodes.iter().map(disk::Inode::memory_bytes).sum()
    }

    /// Lets the call with this number fail, and no longer the one that was to fail before.
    pub fn fail_at(&self, call: u64, fault: Fault) {
        self.disk().fault = Some((call, fault));
    }

    /// Lets the disk do something else instead of the first write that succeeds from the call with this
    /// number on, and say nothing of it. Asked for several times, it does so to as many writes. The
    /// seed picks the wrong place. See [`lied`](Self::lied).
    pub fn lie_at(&self, call: u64, lie: Lie, seed: u64) {
        let mut disk = self.disk();
        let free = (call..).find(|at| !disk.lies.contains_key(at));
        disk.lies.insert(free.unwrap_or(call), (lie, seed));
    }

    /// The writes so far, also of the time before a cut, that were lies.
    pub fn lied(&self) -> Vec<Lied> {
        self.disk().lied.clone()
    }

    /// Sets what the disk does of its own accord from now on.
    pub fn set_weather(&self, weather: Weather) {
        self.disk().weather = weather;
    }

    /// Makes the sector at that byte of a file unreadable until it is written over.
    pub fn break_sector(&self, path: &Path, offset: u64) {
        let mut disk = self.disk();
        if let Some(&no) = disk.names.get(path) {
            disk.inodes[no].bad.insert(offset / SECTOR);
        }
    }

    /// Makes bad sectors readable, with what they held, and gives a full disk room.
    pub fn heal(&self) {
        let mut disk = self.disk();
        disk.full = false;
        disk.inodes.iter_mut().for_each(|inode| inode.bad.clear());
    }

    /// Flips bits of durable bytes, at random places that were written at some time; says where. Bytes
    /// that still have to be synced are written over them then.
    pub fn rot(&self, seed: u64, bits: usize) -> Vec<DiskPlace> {
        self.disk().rot(seed, bits)
    }

    /// The disk as the next power-on finds it, after a power cut right now. This disk goes on.
    pub fn power_cut(&self, seed: u64) -> SimIo {
        Self::of(self.disk().power_cut(seed))
    }

    /// The disk as the next process finds it, after a kill of this one right now: what was written is
    /// there, and still has to be synced. This disk goes on.
    pub fn kill(&self) -> SimIo {
        Self::of(self.disk().kill())
    }

    /// Cuts the power just before the call with this number, or before the next one if another thread
    /// has made that call by now; only kills the process if there is no seed. See
    /// [`take_cut`](Self::take_cut).
    pub fn cut_at(&self, call: u64, seed: Option<u64>) {
        self.disk().cut_at = Some((call, seed));
    }

    /// The disk after the power cut that [`cut_at`](Self::cut_at) asked for, if it has happened.
    pub fn take_cut(&self) -> Option<SimIo> {
        self.disk().cut.take().map(|disk| Self::of(*disk))
    }

    /// The sector that the power cut before this power-on wrote to a wrong place, if it did.
    pub fn stray(&self) -> Option<Stray> {
        self.disk().stray.clone()
    }

    /// Reads a file past all calls and faults; `None` if there is none.
    pub fn peek(&self, path: &Path) -> Option<Vec<u8>> {
        let disk = self.disk();
        Some(disk.inodes[*disk.names.get(path)?].live.to_vec())
    }

    /// Changes a file past all calls and faults, durably: rot, or a test's own file.
    pub fn poke(&self, path: &Path, offset: u64, bytes: &[u8]) {
        let mut disk = self.disk();
        let no = disk.make(path);
        disk.inodes[no].poke(bytes, offset);
        disk.durable_names.insert(path.to_owned(), no);
    }

    /// Cuts a file to a length, durably.
    pub fn truncate(&self, path: &Path, bytes: u64) {
        let mut disk = self.disk();
        let no = disk.make(path);
        disk.inodes[no].live.set_len(bytes);
        disk.inodes[no].durable.set_len(bytes);
    }
}

fn not_found() -> io::Error {
    ErrorKind::NotFound.into()
}

impl Io for SimIo {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn IoFile>> {
        let mut disk = self.disk();
        let known = disk.names.get(path).copied();
        let makes = access == Access::New;
        let fault = disk.call(if makes { IoCall::Room } else { IoCall::Other })?;
        let inode = match known {
            Some(_) if makes => return Err(ErrorKind::AlreadyExists.into()),
            Some(no) => no,
            None if !makes => return Err(not_found()),
            None if fault.is_some() || disk.full => return Err(no_space()),
            None => disk.make(path),
        };
        Ok(Box::new(SimFile { disk: self.0.clone(), inode, lock: Mutex::new(None) }))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let mut disk = self.disk();
        disk.call(IoCall::Other)?;
        Ok(disk.names.contains_key(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        disk.call(IoCall::Other)?;
        let no = *disk.names.get(from).ok_or_else(not_found)?;
        let change = NameChange::Rename(from.to_owned(), to.to_owned(), no);
        change.apply(&mut disk.names);
        disk.pending_names.push(change);
        Ok(())
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        if self.disk().names.contains_key(to) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        self.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        disk.call(IoCall::Other)?;
        disk.names.remove(path).ok_or_else(not_found)?;
        disk.pending_names.push(NameChange::Remove(path.to_owned()));
        Ok(())
    }

    fn sync_dir(&self, _path: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        if disk.call(IoCall::Sync)?.is_some() {
            disk.pending_names.clear();
            return Err(io::Error::other("simulated failure of a directory sync"));
        }
        disk.durable_names = disk.names.clone();
        disk.pending_names.clear();
        Ok(())
    }

    fn entropy(&self) -> io::Result<[u8; 16]> {
        let mut disk = self.disk();
        let mut bytes = [0; 16];
        disk.rng.fill(&mut bytes);
        Ok(bytes)
    }
}
