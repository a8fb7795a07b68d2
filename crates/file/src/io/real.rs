//! Files of this machine.
//!
//! Files are made with mode 0600 and opened with `O_CLOEXEC`, `O_NOFOLLOW` and `O_NONBLOCK` (so
//! that a pipe put in the place of a pool does not hang the open), and must be regular, which is
//! asked of the descriptor and not of the path.
//!
//! The lock is `flock`, by way of std: rustix offers only the classic record locks, which any
//! `close` of the file in this process would release. `flock` belongs to the open file description,
//! like the open-file-description locks of `fcntl`. A process that is forked, also on the way to
//! another program, shares it; so the lock is given back by a call and not by closing the file.

use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, IoSliceMut, Read};
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use everleaf_pmem::life::Life;
use rustix::fs::{
    Advice, CWD, FallocateFlags, FileType, Mode, OFlags, RenameFlags, fadvise, fallocate, fstat,
    open, renameat_with,
};
use rustix::io::{Errno, preadv};

use super::whole::{self, Raw};
use super::{Access, Io, IoFile};

/// No folio of the system's cache is larger.
const FOLIO_BYTES: u64 = 4 << 20;

/// The real thing.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealIo;

#[derive(Debug)]
struct RealFile {
    file: File,
    is_locked: AtomicBool,
    life: Life,
}

fn irregular(what: &str) -> io::Error {
    io::Error::new(ErrorKind::Unsupported, format!("{what}, not a regular file"))
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

/// Where the folios start that hold some of these bytes, and how many bytes they have: no number if
/// they go to the end of the file. Of a range the system drops only the folios that lie wholly
/// inside. A folio lies at a multiple of its size.
fn whole_folios(range: Range<u64>) -> Option<(u64, Option<NonZeroU64>)> {
    // No file is longer.
    let most = i64::MAX as u64;
    if range.is_empty() || range.start >= most {
        return None;
    }
    let start = range.start / FOLIO_BYTES * FOLIO_BYTES;
    let end = range.end.checked_next_multiple_of(FOLIO_BYTES).filter(|end| *end < most);
    Some((start, end.and_then(|end| NonZeroU64::new(end - start))))
}

impl Io for RealIo {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn IoFile>> {
        let flags = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let flags = flags
            | match access {
                Access::Read => OFlags::RDONLY,
                Access::Write => OFlags::RDWR,
                Access::New => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
            };
        let opened = whole::uninterrupted(|| Ok(open(path, flags, Mode::RUSR | Mode::WUSR)?));
        let fd = opened.map_err(|e| match Errno::from_io_error(&e) {
            Some(Errno::LOOP) => irregular("a symbolic link"),
            Some(Errno::ISDIR) => irregular("a directory"),
            Some(Errno::NXIO) => irregular("a pipe or socket"),
            _ => e,
        })?;
        let kind = FileType::from_raw_mode(fstat(&fd)?.st_mode);
        match kind {
            FileType::RegularFile => {
                let is_locked = AtomicBool::new(false);
                Ok(Box::new(RealFile { file: File::from(fd), is_locked, life: Life::default() }))
            }
            FileType::Directory => Err(irregular("a directory")),
            FileType::Fifo | FileType::Socket => Err(irregular("a pipe or socket")),
            _ => Err(irregular("a device")),
        }
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        match fs::symlink_metadata(path) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // Not every file system knows the flag, nor second names.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
            done => return Ok(done?),
        }
        match fs::hard_link(from, to) {
            Ok(()) => fs::remove_file(from),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Err(e),
            Err(_) if self.exists(to)? => Err(ErrorKind::AlreadyExists.into()),
            Err(_) => fs::rename(from, to),
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(directory_of(path))?.sync_all()
    }

    fn entropy(&self) -> io::Result<[u8; 16]> {
        let mut bytes = [0; 16];
        let read = File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut bytes));
        if read.is_err() {
            // A jail without devices: the keys of std's hash maps are random too.
            for (i, half) in bytes.chunks_exact_mut(8).enumerate() {
                half.copy_from_slice(&RandomState::new().hash_one(i).to_le_bytes());
            }
        }
        Ok(bytes)
    }
}

impl Raw for &File {
    fn pread(&mut self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_at(buf, offset)
    }

    fn pwrite(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.write_at(bytes, offset)
    }
}

/// [`IoFile::read_at`] of a file that the system has.
pub(super) fn read_at(mut file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    whole::read_whole(&mut file, buf, offset)
}

/// [`IoFile::read_parts_at`] of one.
pub(super) fn read_parts_at(
    file: &File,
    mut parts: &mut [IoSliceMut<'_>],
    offset: u64,
) -> io::Result<usize> {
    let mut done = 0;
    while !parts.is_empty() {
        let at = offset + done as u64;
        match whole::uninterrupted(|| Ok(preadv(file, parts, at)?))? {
            0 => break,
            n => {
                done += n;
                IoSliceMut::advance_slices(&mut parts, n);
            }
        }
    }
    Ok(done)
}

/// [`IoFile::write_at`] of one.
pub(super) fn write_at(mut file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    whole::write_whole(&mut file, bytes, offset)
}

/// [`IoFile::allocate`] of one.
pub(super) fn allocate(file: &File, range: Range<u64>) -> io::Result<()> {
    let (from, bytes) = (range.start, range.end - range.start);
    whole::uninterrupted(|| Ok(fallocate(file, FallocateFlags::empty(), from, bytes)?))
}

impl IoFile for RealFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        read_at(&self.file, buf, offset)
    }

    fn read_parts_at(&self, parts: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        read_parts_at(&self.file, parts, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        write_at(&self.file, bytes, offset)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn allocate(&self, range: Range<u64>) -> io::Result<()> {
        allocate(&self.file, range)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn drop_cached(&self, range: Range<u64>) -> io::Result<()> {
        let Some((start, len)) = whole_folios(range) else { return Ok(()) };
        Ok(fadvise(&self.file, start, len, Advice::DontNeed)?)
    }

    fn lock(&self, shared: bool) -> io::Result<bool> {
        let locked = if shared { self.file.try_lock_shared() } else { self.file.try_lock() };
        match locked {
            Ok(()) => {
                self.is_locked.store(true, Ordering::SeqCst);
                Ok(true)
            }
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }

    fn unlock(&self) -> io::Result<()> {
        if self.is_locked.swap(false, Ordering::SeqCst) { self.file.unlock() } else { Ok(()) }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

impl Drop for RealFile {
    fn drop(&mut self) {
        // In a forked process the lock is the parent's.
        if self.life.check().is_ok() {
            let _ = self.unlock();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_one_after_the_other_to_the_end_of_the_file() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("f");
        let bytes: Vec<u8> = (0..100).collect();
        fs::write(&path, &bytes).expect("written");
        let file = RealIo.open(&path, Access::Read).expect("opened");
        let (mut a, mut b, mut c) = ([0; 3], [0; 50], [0; 60]);
        let mut read = |c: &mut [u8], offset| {
            let mut parts = [&mut a[..], &mut [], &mut b, c].map(IoSliceMut::new);
            file.read_parts_at(&mut parts, offset).expect("read")
        };
        assert_eq!(read(&mut c[..20], 10), 73);
        assert_eq!(read(&mut c, 10), 90, "the file ends in the last part");
        assert_eq!(read(&mut [], 100), 0);
        assert_eq!((&a[..], &b[..], &c[..37]), (&bytes[10..13], &bytes[13..63], &bytes[63..]));
    }

    #[test]
    fn a_range_is_rounded_to_whole_folios() {
        let (folio, max) = (FOLIO_BYTES, u64::MAX);
        let of = |range| whole_folios(range).map(|(start, len)| (start, len.map_or(0, u64::from)));
        assert_eq!(of(0..8192), Some((0, folio)));
        assert_eq!(of(folio - 1..folio + 1), Some((0, 2 * folio)));
        assert_eq!(of(3 * folio..4 * folio), Some((3 * folio, folio)));
        assert_eq!(of(0..max), Some((0, 0)), "to the end of the file");
        assert_eq!(of(folio + 5..max - 1), Some((folio, 0)));
        assert_eq!((of(7..7), of(max - 9..max)), (None, None));
    }
}
