//! Files of this machine whose writes are counted, that a slow disk may be in front of, and in which
//! blocks of zeros may stay holes.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use everleaf::io::{Access, Io, IoFile, RealIo};

/// The time that a sync takes on a slow disk beside its bytes.
const SYNC: Duration = Duration::from_millis(1);

/// Bytes that are looked at together to find holes.
const BLOCK: usize = 4096;

/// Which disk there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Disk {
    /// This machine's.
    #[default]
    Real,
    /// One that takes so many bytes a second and serves one sync after the other. Writes are taken into
    /// memory at once; a sync waits for what was written since the last one, and a millisecond. The
    /// disk below is not synced.
    Slow(u64),
    /// This machine's, but blocks of zeros are not written where zeros are already: a large file takes
    /// little of the disk.
    Holes,
}

/// Counts of what was written.
#[derive(Debug, Default)]
pub struct Meter {
    disk: Disk,
    written: AtomicU64,
    dirty: AtomicU64,
    longest_us: AtomicU64,
    most: AtomicU64,
    syncs: AtomicU64,
    /// When the disk will have served the last sync.
    until: Mutex<Option<Instant>>,
    /// Held while the file's length is looked at and changed, where writes leave holes.
    length: Mutex<()>,
}

impl Meter {
    /// A meter in front of a disk.
    pub fn new(disk: Disk) -> Arc<Self> {
        Arc::new(Self { disk, ..Self::default() })
    }

    /// Bytes that were written.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// The longest that a sync took since this was last asked.
    pub fn longest_sync(&self) -> Duration {
        Duration::from_micros(self.longest_us.swap(0, Ordering::Relaxed))
    }

    /// The most bytes that a sync had to wait for, since this was last asked.
    pub fn most_in_a_sync(&self) -> u64 {
        self.most.swap(0, Ordering::Relaxed)
    }

    /// How many syncs there were.
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// The file system.
    pub fn io(self: &Arc<Self>) -> Arc<dyn Io> {
        Arc::new(Metered(Arc::clone(self)))
    }

    /// Waits as long as the disk takes for so many bytes.
    fn serve(&self, begun: Instant, bytes: u64, rate: u64) {
        let takes = SYNC + Duration::from_secs_f64(bytes as f64 / rate as f64);
        let end = {
            let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
            let end = until.map_or(begun, |until| until.max(begun)) + takes;
            *until = Some(end);
            end
        };
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
    }
}

#[derive(Debug)]
struct Metered(Arc<Meter>);

#[derive(Debug)]
struct MeteredFile {
    file: Box<dyn IoFile>,
    meter: Arc<Meter>,
}

impl Io for Metered {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn IoFile>> {
        let file = RealIo.open(path, access)?;
        Ok(Box::new(MeteredFile { file, meter: Arc::clone(&self.0) }))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        RealIo.exists(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealIo.rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealIo.rename_new(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealIo.remove(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        RealIo.sync_dir(path)
    }

    fn entropy(&self) -> io::Result<[u8; 16]> {
        RealIo.entropy()
    }
}

impl MeteredFile {
    /// Writes what is not zero, and zeros where something else is.
    fn write_between_holes(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        // Another writer may make the file longer meanwhile, which is not to be taken back.
        let _alone = self.meter.length.lock().unwrap_or_else(PoisonError::into_inner);
        let len = self.file.len()?;
        let mut there = [0; BLOCK];
        let (mut at, mut begun) = (0, None);
        while at < bytes.len() {
            let place = offset + at as u64;
            let size = (BLOCK - place as usize % BLOCK).min(bytes.len() - at);
            let mut is_hole = bytes[at..at + size].iter().all(|byte| *byte == 0);
            // Behind the end there is nothing but zeros, once the file is longer.
            if is_hole && place < len {
                let read = self.file.read_at(&mut there[..size], place)?;
                is_hole = there[..read].iter().all(|byte| *byte == 0);
            }
            if is_hole {
                self.write_from(begun.take(), &bytes[..at], offset)?;
            } else {
                begun = begun.or(Some(at));
            }
            at += size;
        }
        self.write_from(begun, bytes, offset)?;
        let end = offset + bytes.len() as u64;
        if self.file.len()? < end { self.file.set_len(end) } else { Ok(()) }
    }

    fn write_from(&self, begun: Option<usize>, bytes: &[u8], offset: u64) -> io::Result<()> {
        begun.map_or(Ok(()), |from| self.file.write_at(&bytes[from..], offset + from as u64))
    }
}

impl IoFile for MeteredFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.meter.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.meter.dirty.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        match self.meter.disk {
            Disk::Holes => self.write_between_holes(bytes, offset),
            Disk::Real | Disk::Slow(_) => self.file.write_at(bytes, offset),
        }
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let _alone = self.meter.length.lock().unwrap_or_else(PoisonError::into_inner);
        self.file.set_len(bytes)
    }

    fn allocate(&self, range: Range<u64>) -> io::Result<()> {
        match self.meter.disk {
            Disk::Holes => Err(io::ErrorKind::Unsupported.into()),
            Disk::Real | Disk::Slow(_) => self.file.allocate(range),
        }
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn sync_data(&self) -> io::Result<()> {
        let begun = Instant::now();
        let bytes = self.meter.dirty.swap(0, Ordering::Relaxed);
        self.meter.most.fetch_max(bytes, Ordering::Relaxed);
        self.meter.syncs.fetch_add(1, Ordering::Relaxed);
        match self.meter.disk {
            Disk::Slow(rate) => self.meter.serve(begun, bytes, rate),
            Disk::Real | Disk::Holes => self.file.sync_data()?,
        }
        self.meter.longest_us.fetch_max(begun.elapsed().as_micros() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn drop_cached(&self, range: Range<u64>) -> io::Result<()> {
        self.file.drop_cached(range)
    }

    fn lock(&self, shared: bool) -> io::Result<bool> {
        self.file.lock(shared)
    }

    fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.file.descriptor()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn zeros_stay_holes_and_everything_reads_as_it_was_written() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("file");
        let meter = Meter::new(Disk::Holes);
        let file = meter.io().open(&path, Access::New).expect("room");
        let mut bytes = vec![0; 1 << 20];
        bytes[500_000] = 7;
        file.write_at(&bytes, 100).expect("room");
        let mut read = vec![1; bytes.len()];
        assert_eq!(file.read_at(&mut read, 100).expect("no fault"), bytes.len());
        assert_eq!(read, bytes);
        assert!(path.metadata().expect("there").blocks() * 512 < 100_000);
        bytes[500_000] = 0;
        file.write_at(&bytes, 100).expect("room");
        file.read_at(&mut read, 100).expect("no fault");
        assert_eq!(read, bytes, "zeros are written over what is not");
        assert_eq!(meter.written(), 2 << 20);
    }

    #[test]
    fn a_slow_disk_takes_its_time_for_each_byte() {
        let dir = tempfile::tempdir().expect("a folder");
        let meter = Meter::new(Disk::Slow(1 << 20));
        let file = meter.io().open(&dir.path().join("file"), Access::New).expect("room");
        file.write_at(&[1; 20 << 10], 0).expect("room");
        let begun = Instant::now();
        file.sync_data().expect("no fault");
        assert!(begun.elapsed() >= Duration::from_millis(20));
        assert!(meter.longest_sync() >= Duration::from_millis(20));
    }
}
