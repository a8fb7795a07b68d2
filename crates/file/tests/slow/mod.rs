//! A disk that takes its time: files of another file system, on a device that serves one request
//! after the other. A write is taken into memory at once; a sync costs the bytes that were written
//! to its file since the last one, and a millisecond. The disk below is never synced.

#![allow(dead_code, reason = "not every test uses everything")]

#[macro_use]
#[path = "../forward/mod.rs"]
mod forward;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use everleaf_file::io::{Access, Io, IoFile};

/// Bytes a second.
pub const RATE: u64 = 200 << 20;
/// The time that each sync takes beside its bytes.
pub const SYNC: Duration = Duration::from_millis(1);

#[derive(Debug)]
struct Device {
    /// When the last request that was taken will have been served.
    until: Mutex<Instant>,
    /// Whether it serves nobody until it is told to.
    is_held: Mutex<bool>,
    released: Condvar,
    is_slow: std::sync::atomic::AtomicBool,
    syncs: AtomicU64,
    longest_us: AtomicU64,
    /// Bytes since the last sync, by file: whoever opens it shares them.
    dirty: Mutex<BTreeMap<PathBuf, Arc<AtomicU64>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Clone)]
pub struct Slow {
    io: Arc<dyn Io>,
    device: Arc<Device>,
}

#[derive(Debug)]
struct SlowFile {
    file: Box<dyn IoFile>,
    dirty: Arc<AtomicU64>,
    device: Arc<Device>,
}

impl Slow {
    pub fn new(io: Arc<dyn Io>) -> Slow {
        let device = Device {
            until: Mutex::new(Instant::now()),
            is_held: Mutex::default(),
            released: Condvar::new(),
            is_slow: true.into(),
            syncs: 0.into(),
            longest_us: 0.into(),
            dirty: Mutex::default(),
        };
        Slow { io, device: device.into() }
    }
    /// Whether it takes its time.
    pub fn set_slow(&self, is_slow: bool) {
        self.device.is_slow.store(is_slow, Ordering::SeqCst);
    }
    /// Serves nobody for so long.
    pub fn stand_still(&self, time: Duration) {
        let mut until = lock(&self.device.until);
        *until = (*until).max(Instant::now()) + time;
    }
    /// Serves nobody until [`release`](Self::release): for tests that count what happens meanwhile.
    pub fn hold(&self) {
        *lock(&self.device.is_held) = true;
    }
    pub fn release(&self) {
        *lock(&self.device.is_held) = false;
        self.device.released.notify_all();
    }
    pub fn syncs(&self) -> u64 {
        self.device.syncs.load(Ordering::SeqCst)
    }
    /// The longest that a sync took, from its call, since this was last asked.
    pub fn longest_sync(&self) -> Duration {
        Duration::from_micros(self.device.longest_us.swap(0, Ordering::SeqCst))
    }
}

impl Io for Slow {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn IoFile>> {
        let file = self.io.open(path, access)?;
        let dirty = lock(&self.device.dirty).entry(path.to_owned()).or_default().clone();
        Ok(Box::new(SlowFile { file, dirty, device: self.device.clone() }))
    }
    fn sync_dir(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    forward!(io: exists rename rename_new remove entropy);
}

impl IoFile for SlowFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.dirty.fetch_add(bytes.len() as u64, Ordering::SeqCst);
        self.file.write_at(bytes, offset)
    }
    fn sync_data(&self) -> io::Result<()> {
        let (begun, device) = (Instant::now(), &self.device);
        device.syncs.fetch_add(1, Ordering::SeqCst);
        let bytes = self.dirty.swap(0, Ordering::SeqCst);
        if device.is_slow.load(Ordering::SeqCst) {
            let takes = SYNC + Duration::from_secs_f64(bytes as f64 / RATE as f64);
            let mut until = lock(&device.until);
            let end = (*until).max(begun) + takes;
            *until = end;
            drop(until);
            let held = device.released.wait_while(lock(&device.is_held), |is_held| *is_held);
            drop(held.unwrap_or_else(PoisonError::into_inner));
            std::thread::sleep(end.saturating_duration_since(Instant::now()));
        }
        let took = begun.elapsed().as_micros() as u64;
        device.longest_us.fetch_max(took, Ordering::SeqCst);
        Ok(())
    }

    forward!(file: read_at set_len allocate len drop_cached lock unlock);
}
