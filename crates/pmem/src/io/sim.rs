//! Files in memory that lose power, tear, and fail on demand.
//!
//! The simulated disk remembers, for each file, what is durable and which writes came since. A
//! [power cut](SimIo::power_cut) splits these writes into sectors of 512 bytes; each is kept,
//! dropped, torn at 8 bytes, or filled with garbage, in any order; the length is old or new; names
//! that were made, changed or removed since the last sync of their directory are so or are not.
//! [Faults](Fault) strike at a numbered call. Everything follows from seeds, so under one thread a
//! failure replays exactly.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::sparse::Sparse;
use super::{Access, Io, IoFile};

const SECTOR: usize = 512;

/// A failure that strikes one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Any call: an I/O error, without effect.
    Io,
    /// A write, a change of length or a new file: no space, after a part of the write is done.
    NoSpace,
    /// A sync: an I/O error; half of what was to be synced is dropped, and the file then passes for
    /// clean, so that another sync succeeds and saves nothing.
    LostSync,
}

#[derive(Debug, Clone)]
enum Pending {
    Write(u64, Vec<u8>),
    Len(u64),
}

#[derive(Debug, Clone)]
enum Name {
    Make(PathBuf, usize),
    Rename(PathBuf, PathBuf, usize),
    Remove(PathBuf),
}

#[derive(Debug, Default)]
struct Inode {
    live: Sparse,
    durable: Sparse,
    pending: Vec<Pending>,
    sharers: usize,
    owned: bool,
}

#[derive(Debug, Default)]
struct Disk {
    inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    pending_names: Vec<Name>,
    rng: Rng,
    calls: u64,
    fault: Option<(u64, Fault)>,
    cut_at: Option<(u64, Option<u64>)>,
    cut: Option<Box<Disk>>,
}

/// A simulated disk. Clones are the same disk.
#[derive(Debug, Clone, Default)]
pub struct SimIo(Arc<Mutex<Disk>>);

#[derive(Debug)]
struct SimFile {
    disk: SimIo,
    inode: usize,
    lock: Mutex<Option<bool>>,
}

/// splitmix64: enough randomness to cut power by.
#[derive(Debug, Clone, Default)]
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }
}

/// How much of the unsynced writes of one file a power cut leaves.
#[derive(Clone, Copy)]
enum Luck {
    All,
    Nothing,
    Mixed,
}

impl Disk {
    /// Counts a call and says whether `kind` of fault strikes it.
    fn call(&mut self, kinds: &[Fault]) -> io::Result<Option<Fault>> {
        let call = self.calls;
        if let Some((_, seed)) = self.cut_at.filter(|(at, _)| *at == call) {
            self.cut =
                Some(Box::new(seed.map_or_else(|| self.kill(), |seed| self.power_cut(seed))));
        }
        self.calls += 1;
        match self.fault {
            Some((at, Fault::Io)) if at == call => Err(io::Error::other("simulated I/O error")),
            Some((at, fault)) if at == call && kinds.contains(&fault) => Ok(Some(fault)),
            _ => Ok(None),
        }
    }
}

impl Inode {
    fn write(&mut self, bytes: &[u8], offset: u64) {
        self.live.write(bytes, offset);
        self.pending.push(Pending::Write(offset, bytes.to_vec()));
    }

    fn sync(&mut self) {
        for pending in self.pending.drain(..) {
            match pending {
                Pending::Write(offset, bytes) => self.durable.write(&bytes, offset),
                Pending::Len(len) => self.durable.set_len(len),
            }
        }
    }

    /// What is read from now on is what the disk has, and what is still to be written.
    fn forget(&mut self) {
        let mut live = self.durable.clone();
        for pending in &self.pending {
            match pending {
                Pending::Write(offset, bytes) => live.write(bytes, *offset),
                Pending::Len(len) => live.set_len(*len),
            }
        }
        self.live = live;
    }

    /// Makes each unsynced sector durable, or not, or worse; then nothing is pending.
    fn cut(&mut self, rng: &mut Rng, luck: Luck, garbage: bool) {
        let mut pending = std::mem::take(&mut self.pending);
        if matches!(luck, Luck::Mixed) && rng.below(4) == 0 {
            for i in (1..pending.len()).rev() {
                pending.swap(i, rng.below(i as u64 + 1) as usize);
            }
        }
        for one in &pending {
            match (one, luck) {
                (_, Luck::Nothing) => {}
                (Pending::Len(len), Luck::All) => self.durable.set_len(*len),
                (Pending::Len(len), Luck::Mixed) => {
                    if rng.below(2) == 0 {
                        self.durable.set_len(*len);
                    }
                }
                (Pending::Write(offset, bytes), Luck::All) => self.durable.write(bytes, *offset),
                (Pending::Write(offset, bytes), Luck::Mixed) => {
                    self.cut_write(rng, *offset, bytes, garbage);
                }
            }
        }
    }

    fn cut_write(&mut self, rng: &mut Rng, mut offset: u64, mut bytes: &[u8], garbage: bool) {
        let keep = 1 + rng.below(7);
        while !bytes.is_empty() {
            let n = bytes.len().min(SECTOR - (offset % SECTOR as u64) as usize);
            let sector = &bytes[..n];
            match rng.below(8) {
                0 if garbage => {
                    let filled: Vec<u8> = (0..n).map(|_| rng.next() as u8).collect();
                    self.durable.write(&filled, offset);
                }
                1 => {
                    let torn = rng.below(n as u64) as usize & !7;
                    self.durable.write(&sector[..torn], offset);
                }
                luck if luck <= keep => self.durable.write(sector, offset),
                _ => {}
            }
            bytes = &bytes[n..];
            offset += n as u64;
        }
    }
}

impl SimIo {
    /// An empty disk.
    pub fn new(seed: u64) -> Self {
        let disk = Disk { rng: Rng(seed), ..Disk::default() };
        Self(Arc::new(Mutex::new(disk)))
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of calls so far.
    pub fn calls(&self) -> u64 {
        self.disk().calls
    }

    /// Lets the call with this number fail.
    pub fn fail_at(&self, call: u64, fault: Fault) {
        self.disk().fault = Some((call, fault));
    }

    /// The disk as the next power-on finds it, after a power cut right now. This disk goes on.
    pub fn power_cut(&self, seed: u64) -> SimIo {
        SimIo(Arc::new(Mutex::new(self.disk().power_cut(seed))))
    }

    /// Cuts the power just before the call with this number, or only kills the process if there is
    /// no seed; see [`take_cut`](Self::take_cut).
    pub fn cut_at(&self, call: u64, seed: Option<u64>) {
        self.disk().cut_at = Some((call, seed));
    }

    /// The disk after the power cut that [`cut_at`](Self::cut_at) asked for, if it has happened.
    pub fn take_cut(&self) -> Option<SimIo> {
        self.disk().cut.take().map(|disk| SimIo(Arc::new(Mutex::new(*disk))))
    }

    /// Reads a file past all calls and faults; `None` if there is none.
    pub fn peek(&self, path: &Path) -> Option<Vec<u8>> {
        let disk = self.disk();
        let live = &disk.inodes[*disk.names.get(path)?].live;
        let mut bytes = vec![0; live.len() as usize];
        live.read(&mut bytes, 0);
        Some(bytes)
    }

    /// Changes a file past all calls and faults, durably: rot, or a test's own file.
    pub fn poke(&self, path: &Path, offset: u64, bytes: &[u8]) {
        let mut disk = self.disk();
        let no = disk.make(path);
        disk.inodes[no].live.write(bytes, offset);
        disk.inodes[no].durable.write(bytes, offset);
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

impl Disk {
    /// The disk for the next process: what was written is there, and still has to be synced.
    fn kill(&self) -> Disk {
        let copy = |inode: &Inode| Inode {
            live: inode.live.clone(),
            durable: inode.durable.clone(),
            pending: inode.pending.clone(),
            ..Inode::default()
        };
        Disk {
            inodes: self.inodes.iter().map(copy).collect(),
            names: self.names.clone(),
            durable_names: self.durable_names.clone(),
            pending_names: self.pending_names.clone(),
            rng: self.rng.clone(),
            ..Disk::default()
        }
    }

    fn power_cut(&self, seed: u64) -> Disk {
        let mut rng = Rng(seed);
        let all = [Luck::All, Luck::Nothing, Luck::Mixed, Luck::Mixed, Luck::Mixed];
        let whole = all[rng.below(5) as usize];
        let garbage = rng.below(2) == 0;
        let mut after = Disk { rng: Rng(rng.next()), ..Disk::default() };
        for inode in &self.inodes {
            let luck =
                if matches!(whole, Luck::Mixed) { all[rng.below(5) as usize] } else { whole };
            let mut copy = Inode {
                durable: inode.durable.clone(),
                pending: inode.pending.clone(),
                ..Inode::default()
            };
            copy.cut(&mut rng, luck, garbage);
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
                apply(&mut after.durable_names, name);
            }
        }
        after.names = after.durable_names.clone();
        after
    }

    fn make(&mut self, path: &Path) -> usize {
        if let Some(&no) = self.names.get(path) {
            return no;
        }
        let no = self.inodes.len();
        self.inodes.push(Inode::default());
        self.names.insert(path.to_owned(), no);
        self.pending_names.push(Name::Make(path.to_owned(), no));
        no
    }
}

fn apply(names: &mut BTreeMap<PathBuf, usize>, change: &Name) {
    match change {
        Name::Make(path, no) => {
            names.insert(path.clone(), *no);
        }
        Name::Rename(from, to, no) => {
            names.remove(from);
            names.insert(to.clone(), *no);
        }
        Name::Remove(path) => {
            names.remove(path);
        }
    }
}

fn not_found() -> io::Error {
    ErrorKind::NotFound.into()
}

impl Io for SimIo {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn IoFile>> {
        let mut disk = self.disk();
        let fault = disk.call(&[Fault::NoSpace])?;
        let inode = match (disk.names.get(path), access, fault) {
            (Some(&no), ..) => no,
            (None, Access::Create, Some(_)) => return Err(ErrorKind::StorageFull.into()),
            (None, Access::Create, None) => disk.make(path),
            _ => return Err(not_found()),
        };
        Ok(Box::new(SimFile { disk: self.clone(), inode, lock: Mutex::new(None) }))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let mut disk = self.disk();
        disk.call(&[])?;
        Ok(disk.names.contains_key(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        disk.call(&[])?;
        let no = *disk.names.get(from).ok_or_else(not_found)?;
        let change = Name::Rename(from.to_owned(), to.to_owned(), no);
        apply(&mut disk.names, &change);
        disk.pending_names.push(change);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        disk.call(&[])?;
        disk.names.remove(path).ok_or_else(not_found)?;
        disk.pending_names.push(Name::Remove(path.to_owned()));
        Ok(())
    }

    fn sync_dir(&self, _path: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        if disk.call(&[Fault::LostSync])?.is_some() {
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
        bytes[..8].copy_from_slice(&disk.rng.next().to_le_bytes());
        bytes[8..].copy_from_slice(&disk.rng.next().to_le_bytes());
        Ok(bytes)
    }
}

impl IoFile for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut disk = self.disk.disk();
        disk.call(&[])?;
        Ok(disk.inodes[self.inode].live.read(buf, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut disk = self.disk.disk();
        if disk.call(&[Fault::NoSpace])?.is_some() {
            let part = disk.rng.below(bytes.len() as u64) as usize;
            disk.inodes[self.inode].write(&bytes[..part], offset);
            return Err(ErrorKind::StorageFull.into());
        }
        disk.inodes[self.inode].write(bytes, offset);
        Ok(())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let mut disk = self.disk.disk();
        if disk.call(&[Fault::NoSpace])?.is_some() {
            return Err(ErrorKind::StorageFull.into());
        }
        let inode = &mut disk.inodes[self.inode];
        inode.live.set_len(bytes);
        inode.pending.push(Pending::Len(bytes));
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        let mut disk = self.disk.disk();
        disk.call(&[])?;
        Ok(disk.inodes[self.inode].live.len())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut disk = self.disk.disk();
        if disk.call(&[Fault::LostSync])?.is_some() {
            let mut rng = Rng(disk.rng.next());
            disk.inodes[self.inode].cut(&mut rng, Luck::Mixed, false);
            return Err(io::Error::other("simulated failure of a sync"));
        }
        disk.inodes[self.inode].sync();
        Ok(())
    }

    fn drop_cache(&self, _offset: u64, _bytes: u64) -> io::Result<()> {
        let mut disk = self.disk.disk();
        disk.call(&[])?;
        disk.inodes[self.inode].forget();
        Ok(())
    }

    fn lock(&self, shared: bool) -> io::Result<bool> {
        let mut disk = self.disk.disk();
        disk.call(&[])?;
        let inode = &mut disk.inodes[self.inode];
        if inode.owned || (!shared && inode.sharers > 0) {
            return Ok(false);
        }
        if shared {
            inode.sharers += 1;
        } else {
            inode.owned = true;
        }
        *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = Some(shared);
        Ok(true)
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let held = *self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let mut disk = self.disk.disk();
        let inode = &mut disk.inodes[self.inode];
        match held {
            Some(true) => inode.sharers -= 1,
            Some(false) => inode.owned = false,
            None => {}
        }
    }
}
