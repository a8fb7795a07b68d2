//! A disk that looks at each write: none may touch a sector that the pool as it is durable would need.
//!
//! After each sync nothing waits to be written, so the bytes of the disk are what a power cut leaves. A
//! parser reads what is needed of them and shares no code with the pool's own.

#![allow(dead_code, reason = "not every test uses everything")]

#[macro_use]
#[path = "../forward/mod.rs"]
mod forward;

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use everleaf_file::io::{Access, Io, IoFile, SimIo};

use super::raw::{Raw, SUPER};
use super::toy::path;

/// The bytes of one write begin at such a sector and share it with nothing.
const SECTOR: u64 = 4096;

#[derive(Debug, Default)]
struct Guard {
    /// Bytes that the durable pool needs, from whole sectors to whole sectors; in order.
    needed: Vec<(Range<u64>, String)>,
    is_stale: bool,
    writes: u64,
    cuts: u64,
    /// The most that was needed.
    peak: u64,
}

#[derive(Debug, Clone)]
pub struct Watch {
    pub sim: SimIo,
    guard: Arc<Mutex<Guard>>,
}

#[derive(Debug)]
struct WatchedFile {
    file: Box<dyn IoFile>,
    watch: Watch,
}

/// The bytes that either copy of the superblock needs.
fn needed(sim: &SimIo) -> Vec<(Range<u64>, String)> {
    let raw = Raw::of(sim);
    let mut all = Vec::new();
    for copy in raw.supers().into_iter().flatten() {
        let by = |what: String| format!("{what}, named by superblock {}", copy.counter);
        let images = raw.images(copy).into_iter();
        all.extend(images.map(|(live, placed)| (placed.range(), by(format!("{live:?}")))));
        let values = raw.values(copy).into_iter();
        all.extend(values.map(|(page, placed)| (placed.range(), by(format!("value {page}")))));
        let blocks = raw.blocks(copy).into_iter();
        all.extend(blocks.map(|block| (block.bytes, by(format!("block {}", block.number)))));
    }
    for (range, _) in &mut all {
        *range = range.start / SECTOR * SECTOR..range.end.next_multiple_of(SECTOR);
    }
    all
}

impl Watch {
    pub fn new(sim: SimIo) -> Watch {
        Watch { sim, guard: Arc::default() }
    }

    /// How many writes were looked at, and the most bytes that were needed at a time.
    pub fn seen(&self) -> (u64, u64) {
        let guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        (guard.writes, guard.peak)
    }

    fn look(&self, bytes: Range<u64>, what: &str) {
        let mut guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut guard.is_stale) {
            guard.needed = needed(&self.sim);
            let sum = guard.needed.iter().map(|(range, _)| range.end - range.start).sum();
            guard.peak = guard.peak.max(sum);
        }
        guard.writes += 1;
        let hit = guard.needed.iter().find(|(n, _)| n.start < bytes.end && bytes.start < n.end);
        assert!(hit.is_none(), "{what} of {bytes:?} over {hit:?}, after superblocks {:?}", {
            Raw::of(&self.sim)
                .supers()
                .map(|copy| copy.map(|copy| (copy.counter, copy.clean, copy.root)))
        });
    }
}

impl Io for Watch {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn IoFile>> {
        let file = self.sim.open(path, access)?;
        self.guard.lock().unwrap_or_else(PoisonError::into_inner).is_stale = true;
        Ok(Box::new(WatchedFile { file, watch: self.clone() }))
    }

    forward!(sim: exists rename rename_new remove sync_dir entropy);
}

impl IoFile for WatchedFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if offset >= 2 * SUPER {
            self.watch.look(offset..offset + bytes.len() as u64, "a write");
        }
        self.file.write_at(bytes, offset)
    }
    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.watch.look(bytes..u64::MAX, "a cut");
        self.file.set_len(bytes)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()?;
        self.watch.guard.lock().unwrap_or_else(PoisonError::into_inner).is_stale = true;
        Ok(())
    }

    forward!(file: read_at allocate len drop_cached lock unlock);
}

/// The file's length.
pub fn length(sim: &SimIo) -> u64 {
    sim.peek(&path()).map_or(0, |bytes| bytes.len() as u64)
}
