//! An open file of the simulated disk.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::PoisonError;

use everleaf_pmem::locks::Mutex;

use crate::io::IoFile;
use crate::io::whole::{Raw, read_whole, write_whole};

use super::cut::{Junk, Luck};
use super::disk::{Disk, Rng, SharedDisk};
use super::fault::{Fault, IoCall, eio, no_space};
use super::sparse::Sparse;

/// How often in a row a call may be interrupted.
const INTERRUPTS: u32 = 3;

#[derive(Debug)]
pub(super) struct SimFile {
    pub disk: SharedDisk,
    pub inode: usize,
    pub lock: Mutex<Option<bool>>,
}

/// The attempts that make up one call.
struct Attempts<'a> {
    disk: &'a mut Disk,
    inode: usize,
    /// After so many bytes the call fails so.
    stop: Option<(usize, fn() -> io::Error)>,
    done: usize,
    interrupts: u32,
}

impl<'a> Attempts<'a> {
    fn new(disk: &'a mut Disk, inode: usize) -> Self {
        Self { disk, inode, stop: None, done: 0, interrupts: 0 }
    }

    /// Lets the call fail somewhere in its `len` bytes.
    fn stop_within(&mut self, len: usize, error: fn() -> io::Error) {
        self.stop = Some((self.disk.rng.below(len as u64) as usize, error));
    }

    /// How much of `len` bytes this attempt does.
    fn attempt(&mut self, len: usize) -> io::Result<usize> {
        let mut most = len;
        if let Some((at, error)) = self.stop {
            if self.done >= at {
                return Err(error());
            }
            most = most.min(at - self.done);
        }
        let short = u64::from(self.disk.weather.short);
        if short != 0 && self.disk.rng.below(short) == 0 {
            if self.interrupts < INTERRUPTS && self.disk.rng.below(2) == 0 {
                self.interrupts += 1;
                return Err(ErrorKind::Interrupted.into());
            }
            most = 1 + self.disk.rng.below(most as u64) as usize;
        }
        assert!(most <= len, "{most} of {len} bytes");
        self.interrupts = 0;
        self.done += most;
        Ok(most)
    }
}

impl Raw for Attempts<'_> {
    fn pread(&mut self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let n = self.attempt(buf.len())?;
        let file = &self.disk.inodes[self.inode];
        if file.unreadable(offset, n) {
            return Err(eio());
        }
        Ok(file.live.read(&mut buf[..n], offset))
    }

    fn pwrite(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let n = self.attempt(bytes.len())?;
        self.disk.inodes[self.inode].write(&bytes[..n], offset);
        Ok(n)
    }
}

impl IoFile for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let disk = &mut *self.disk.lock();
        let fault = disk.call(IoCall::Read)?;
        if fault == Some(Fault::BadSector) {
            disk.spoil(self.inode, offset, buf.len());
        }
        let mut attempts = Attempts::new(disk, self.inode);
        if fault == Some(Fault::PartialIo) {
            attempts.stop_within(buf.len(), eio);
        }
        read_whole(&mut attempts, buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let disk = &mut *self.disk.lock();
        let fault = disk.call(IoCall::Write)?;
        let room = if disk.full {
            disk.inodes[self.inode].live.written(offset, bytes.len())
        } else {
            bytes.len()
        };
        let pieces = disk.inodes[self.inode].pending.len();
        let mut attempts = Attempts::new(disk, self.inode);
        match fault {
            Some(Fault::NoSpace) => attempts.stop_within(bytes.len(), no_space),
            Some(_) => attempts.stop_within(bytes.len(), eio),
            None if room < bytes.len() => attempts.stop = Some((room, no_space)),
            None => {}
        }
        write_whole(&mut attempts, bytes, offset)?;
        if let Some(lie) = disk.due_lie() {
            disk.lie(lie, self.inode, pieces);
        }
        Ok(())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let mut disk = self.disk.lock();
        if disk.call(IoCall::Room)?.is_some() {
            return Err(no_space());
        }
        disk.inodes[self.inode].set_len(bytes);
        Ok(())
    }

    fn allocate(&self, range: Range<u64>) -> io::Result<()> {
        let disk = &mut *self.disk.lock();
        let failed = disk.call(IoCall::Room)?.is_some();
        let inode = &mut disk.inodes[self.inode];
        for at in range.clone().step_by(Sparse::CHUNK as usize) {
            let bytes = (range.end - at).min(Sparse::CHUNK) as usize;
            if inode.live.written(at, bytes) == bytes {
                continue;
            }
            if failed || disk.full {
                return Err(no_space());
            }
            let len = inode.live.len().max(at + bytes as u64);
            let mut zeros = vec![0; bytes];
            // Bytes behind the end of the file read as zeros; those that were written before it stay.
            inode.live.read(&mut zeros, at);
            inode.write(&zeros, at);
            debug_assert!(inode.live.len() == len);
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        let mut disk = self.disk.lock();
        disk.call(IoCall::Other)?;
        Ok(disk.inodes[self.inode].live.len())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut disk = self.disk.lock();
        if disk.call(IoCall::Sync)?.is_some() {
            let mut rng = Rng(disk.rng.next());
            disk.inodes[self.inode].cut(&mut rng, Luck::Mixed, Junk::default());
            return Err(io::Error::other("simulated failure of a sync"));
        }
        disk.inodes[self.inode].sync();
        Ok(())
    }

    fn drop_cached(&self, range: Range<u64>) -> io::Result<()> {
        let mut disk = self.disk.lock();
        disk.call(IoCall::Other)?;
        disk.inodes[self.inode].forget(range);
        Ok(())
    }

    fn lock(&self, shared: bool) -> io::Result<bool> {
        let mut disk = self.disk.lock();
        disk.call(IoCall::Other)?;
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

    fn unlock(&self) -> io::Result<()> {
        let held = self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut disk = self.disk.lock();
        let inode = &mut disk.inodes[self.inode];
        assert!(!inode.owned || inode.sharers == 0, "a lock of one and of many");
        match held {
            Some(true) => inode.sharers -= 1,
            Some(false) => inode.owned = false,
            None => {}
        }
        Ok(())
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let _ = self.unlock();
    }
}
