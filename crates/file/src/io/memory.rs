//! Files in memory: for pools that are to leave nothing behind.
//!
//! Each file is one of the system's own in memory (`memfd_create`), so that reads, writes, holes and lengths are those
//! of real files, and its pages are the system's and not of this program's heap. Names and locks are kept here. Nothing
//! is durable, and a sync does nothing: with the last handle to the [`MemoryIo`] and to its files everything is gone.
//! Other programs see nothing of them, and do not inherit them. In a forked process the files are those of the parent.
//!
//! No file becomes longer than a bound. A call that would make it so fails as on a full disk, before it writes anything:
//! a pool can live with that. Other programs take memory, too, so the system may refuse some before: that is a full
//! disk as well. A system that hands out more than it has does not refuse; it ends a process.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, IoSliceMut};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use everleaf_pmem::life::Life;
use everleaf_pmem::locks::{Mutex, MutexGuard};
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;

use super::real::{self, RealIo};
use super::{Access, Io, IoFile};

/// File systems of this process's memory; clones are the same one. It has no directories: any path is a name.
#[derive(Debug, Clone)]
pub struct MemoryIo {
    most_bytes: u64,
    names: Arc<Mutex<BTreeMap<PathBuf, Arc<Content>>>>,
}

/// The file that a name stands for.
#[derive(Debug)]
struct Content {
    file: File,
    locks: Mutex<Locks>,
}

/// How handles have locked a file.
#[derive(Debug, Default)]
struct Locks {
    is_alone: bool,
    together: usize,
}

/// How one handle has locked its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    Nothing,
    Together,
    Alone,
}

#[derive(Debug)]
struct MemoryFile {
    content: Arc<Content>,
    writable: bool,
    most_bytes: u64,
    held: Mutex<Held>,
    life: Life,
}

/// A file without a name. Nobody runs it as a program, which some systems want to hear, and old ones do not know.
fn new_file() -> io::Result<OwnedFd> {
    let (name, flags) = ("everleaf", MemfdFlags::CLOEXEC);
    match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => Ok(memfd_create(name, flags)?),
        made => Ok(made?),
    }
}

/// Where the system refuses memory for a file, the disk is full.
fn as_a_disk<T>(done: io::Result<T>) -> io::Result<T> {
    done.map_err(|e| match e.kind() {
        ErrorKind::OutOfMemory => io::Error::new(ErrorKind::StorageFull, e),
        _ => e,
    })
}

/// Nothing here is ever half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryIo {
    /// One without files, none of which becomes longer than `most_bytes`.
    pub fn new(most_bytes: u64) -> Self {
        Self { most_bytes, names: Arc::default() }
    }

    fn names(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Arc<Content>>> {
        lock(&self.names)
    }
}

impl Io for MemoryIo {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn IoFile>> {
        let mut names = self.names();
        let content = match (names.get(path), access) {
            (Some(_), Access::New) => return Err(ErrorKind::AlreadyExists.into()),
            (Some(content), _) => Arc::clone(content),
            (None, Access::Read | Access::Write) => return Err(ErrorKind::NotFound.into()),
            (None, Access::New) => {
                let file = File::from(new_file()?);
                let content = Arc::new(Content { file, locks: Mutex::default() });
                names.insert(path.to_owned(), Arc::clone(&content));
                content
            }
        };
        let (writable, most_bytes) = (access != Access::Read, self.most_bytes);
        let (held, life) = (Mutex::new(Held::Nothing), Life::default());
        Ok(Box::new(MemoryFile { content, writable, most_bytes, held, life }))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.names().contains_key(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut names = self.names();
        let content = names.remove(from).ok_or(ErrorKind::NotFound)?;
        names.insert(to.to_owned(), content);
        Ok(())
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut names = self.names();
        if names.contains_key(to) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let content = names.remove(from).ok_or(ErrorKind::NotFound)?;
        names.insert(to.to_owned(), content);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.names().remove(path).map(drop).ok_or(ErrorKind::NotFound.into())
    }

    fn sync_dir(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn entropy(&self) -> io::Result<[u8; 16]> {
        RealIo.entropy()
    }
}

impl MemoryFile {
    /// Refuses what would make the file too long, or what a reader may not do.
    fn may_reach(&self, end: Option<u64>) -> io::Result<()> {
        if !self.writable {
            return Err(ErrorKind::PermissionDenied.into());
        }
        match end {
            Some(end) if end <= self.most_bytes => Ok(()),
            _ => {
                let what = format!("a file in memory may have {} bytes at most", self.most_bytes);
                Err(io::Error::new(ErrorKind::StorageFull, what))
            }
        }
    }
}

impl IoFile for MemoryFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        real::read_at(&self.content.file, buf, offset)
    }

    fn read_parts_at(&self, parts: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        real::read_parts_at(&self.content.file, parts, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.may_reach(offset.checked_add(bytes.len() as u64))?;
        as_a_disk(real::write_at(&self.content.file, bytes, offset))
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.may_reach(Some(bytes))?;
        as_a_disk(self.content.file.set_len(bytes))
    }

    fn allocate(&self, range: Range<u64>) -> io::Result<()> {
        self.may_reach(Some(range.end))?;
        as_a_disk(real::allocate(&self.content.file, range))
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.content.file.metadata()?.len())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn drop_cached(&self, _range: Range<u64>) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, shared: bool) -> io::Result<bool> {
        let (mut held, mut locks) = (lock(&self.held), lock(&self.content.locks));
        locks.give_back(*held);
        let is_free = !locks.is_alone && (shared || locks.together == 0);
        if is_free {
            *held = if shared { Held::Together } else { Held::Alone };
        }
        locks.take(*held);
        Ok(is_free)
    }

    fn unlock(&self) -> io::Result<()> {
        let mut held = lock(&self.held);
        lock(&self.content.locks).give_back(*held);
        *held = Held::Nothing;
        Ok(())
    }
}

impl Locks {
    fn take(&mut self, held: Held) {
        match held {
            Held::Nothing => {}
            Held::Together => self.together += 1,
            Held::Alone => self.is_alone = true,
        }
    }

    fn give_back(&mut self, held: Held) {
        match held {
            Held::Nothing => {}
            Held::Together => self.together -= 1,
            Held::Alone => self.is_alone = false,
        }
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        // In a forked process the lock is the parent's, and somebody may hold the mutexes for ever.
        if self.life.check().is_ok() {
            let _ = self.unlock();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind<T>(answer: io::Result<T>) -> ErrorKind {
        answer.map(drop).expect_err("it is refused").kind()
    }

    #[test]
    fn a_file_has_what_was_written_and_holes_under_each_name_in_turn() {
        let io = MemoryIo::new(1 << 30);
        let (a, b) = (Path::new("a"), Path::new("/b/c"));
        assert_eq!(kind(io.open(a, Access::Write)), ErrorKind::NotFound);
        let file = io.open(a, Access::New).expect("new");
        assert_eq!(kind(io.open(a, Access::New)), ErrorKind::AlreadyExists);
        file.write_at(b"end", 1 << 20).expect("room");
        file.write_at(b"begin", 0).expect("room");
        let mut bytes = [1; 8];
        assert_eq!(file.read_at(&mut bytes, 0).expect("read"), 8);
        assert_eq!(&bytes, b"begin\0\0\0");
        assert_eq!(file.read_at(&mut bytes, (1 << 20) - 1).expect("read"), 4);
        assert_eq!(&bytes[..4], b"\0end");
        file.set_len(2).expect("shorter");
        file.allocate(0..4096).expect("room");
        assert_eq!(
            (file.len().expect("open"), file.read_at(&mut bytes, 4).expect("read")),
            (4096, 8)
        );
        assert_eq!(bytes, [0; 8], "cut off, and allocated again");
        io.rename(a, b).expect("there");
        assert!(!io.exists(a).expect("told") && io.exists(b).expect("told"));
        io.open(a, Access::New).expect("the name is free");
        assert_eq!(kind(io.rename_new(b, a)), ErrorKind::AlreadyExists);
        let reader = io.clone().open(b, Access::Read).expect("clones are one system");
        assert_eq!(kind(reader.write_at(b"x", 0)), ErrorKind::PermissionDenied);
        io.remove(b).expect("there");
        assert_eq!(reader.read_at(&mut bytes[..2], 0).expect("who has it reads on"), 2);
        assert_eq!(&bytes[..2], b"be");
        assert_eq!(kind(io.remove(b)), ErrorKind::NotFound);
    }

    #[test]
    fn a_file_that_would_be_too_long_meets_a_full_disk_and_stays() {
        let io = MemoryIo::new(1000);
        let file = io.open(Path::new("f"), Access::New).expect("new");
        file.write_at(&[7; 1000], 0).expect("just room");
        let refused = [
            file.write_at(&[1; 2], 999),
            file.write_at(&[1], u64::MAX),
            file.set_len(1001),
            file.allocate(900..1001),
        ];
        refused.into_iter().for_each(|answer| assert_eq!(kind(answer), ErrorKind::StorageFull));
        let mut bytes = [0; 2000];
        assert_eq!(file.read_at(&mut bytes, 0).expect("read"), 1000);
        assert_eq!(bytes[..1000], [7; 1000]);
    }

    #[test]
    fn memory_that_the_system_refuses_is_a_full_disk() {
        let refused = |errno: Errno| as_a_disk::<()>(Err(errno.into()));
        assert_eq!(kind(refused(Errno::NOMEM)), ErrorKind::StorageFull);
        assert_eq!(kind(refused(Errno::NOSPC)), ErrorKind::StorageFull);
        assert_eq!(kind(refused(Errno::IO)), io::Error::from(Errno::IO).kind());
    }

    #[test]
    fn one_locks_alone_or_many_together() {
        let io = MemoryIo::new(10);
        let of = |access| io.open(Path::new("f"), access).expect("opened");
        let (a, b, c) = (of(Access::New), of(Access::Read), of(Access::Write));
        let lock = |file: &dyn IoFile, shared| file.lock(shared).expect("told");
        assert!(lock(&*a, false) && !lock(&*b, true) && !lock(&*c, false));
        assert!(lock(&*a, true), "who has it may change it");
        assert!(lock(&*b, true) && !lock(&*c, false) && !lock(&*a, false));
        a.unlock().expect("given back");
        drop(b);
        assert!(lock(&*a, true), "again");
        drop(a);
        assert!(lock(&*c, false));
    }
}
