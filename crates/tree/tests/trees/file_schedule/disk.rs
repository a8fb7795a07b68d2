//! A simulated disk whose calls are points of a schedule, which loses power now and then, and which
//! may be used wrongly in one way.

use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use everleaf_crash_check::schedule::before_write;
use everleaf_crash_check::trace::{invoke_mark, respond_mark};
use everleaf_file::io::{Access, Io, IoFile, SimIo};
use everleaf_pmem::sim::Event;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// How the medium's calls go wrong on their way to the disk, or how its caller does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    Nothing,
    /// Blocks of the journal are never synced.
    BlockNotSynced,
    /// A block is synced before it is written.
    SyncBeforeBlock,
    /// The block that links large values is synced before they are written.
    SyncBeforeValues,
    /// A checkpoint names its root before the block is durable whose changes it has written images of.
    CheckpointBeforeSync,
    /// Images are not synced before the superblock names the root that leads to them.
    ImagesNotSynced,
    /// One copy of the superblock is written before the other one is durable.
    SuperNotSynced,
    /// A caller takes an epoch that has ended for one that is durable.
    HastySync,
}

/// Power cuts of one run, besides the one at its end.
const MOST_CUTS: usize = 4;
/// One call in so many is preceded by a power cut; one acknowledgement in so many followed.
const CALLS_A_CUT: u32 = 7;
const ANSWERS_A_CUT: u32 = 3;

thread_local!(static IN_CHECKPOINT: Cell<bool> = const { Cell::new(false) });

/// Runs a checkpoint, so that calls of it can be told from others.
pub fn checkpoint<R>(run: impl FnOnce() -> R) -> R {
    IN_CHECKPOINT.set(true);
    let answer = run();
    IN_CHECKPOINT.set(false);
    answer
}

/// The disk that a power cut left, and how many marks there were before it.
pub struct Cut {
    pub io: SimIo,
    pub at: usize,
    /// The call before which it came, or after all.
    pub call: u64,
}

#[derive(Debug)]
struct State {
    rng: Xoshiro256PlusPlus,
    events: Vec<Event>,
    cuts: Vec<(SimIo, usize, u64)>,
    armed: bool,
}

/// A disk, with the marks of the operations of a run.
#[derive(Debug)]
pub struct Run {
    io: SimIo,
    wrong: Wrong,
    state: Mutex<State>,
}

impl Run {
    /// A run on this disk; nothing is cut until it is armed.
    pub fn new(io: SimIo, wrong: Wrong, seed: u64) -> Arc<Self> {
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0xD15C);
        let state = State { rng, events: Vec::new(), cuts: Vec::new(), armed: false };
        Arc::new(Self { io, wrong, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics with this lock")
    }

    /// The way in which this run goes wrong.
    pub fn wrong(&self) -> Wrong {
        self.wrong
    }

    /// From now on the power may be cut.
    pub fn arm(&self) {
        self.state().armed = true;
    }

    /// Runs an operation between its marks.
    pub fn op<R>(&self, id: u64, run: impl FnOnce() -> R) -> R {
        self.mark(invoke_mark(id));
        let answer = run();
        self.mark(respond_mark(id));
        answer
    }

    /// As [`op`](Self::op), for what acknowledges something: the power may be cut right after.
    pub fn acknowledged<R>(&self, id: u64, run: impl FnOnce() -> R) -> R {
        let answer = self.op(id, run);
        self.maybe_cut(ANSWERS_A_CUT);
        answer
    }

    fn mark(&self, mark: u64) {
        self.state().events.push(Event::Mark { thread: 0, mark });
    }

    fn maybe_cut(&self, one_in: u32) {
        let mut state = self.state();
        if state.armed && state.cuts.len() < MOST_CUTS && state.rng.random_ratio(1, one_in) {
            self.cut(&mut state);
        }
    }

    fn cut(&self, state: &mut State) {
        let (seed, at) = (state.rng.random(), state.events.len());
        let call = self.io.calls();
        state.cuts.push((self.io.power_cut(seed), at, call));
    }

    /// Ends the run with a last power cut: the marks and all cuts.
    pub fn finish(&self) -> (Vec<Event>, Vec<Cut>) {
        let mut state = self.state();
        self.cut(&mut state);
        let cuts = std::mem::take(&mut state.cuts);
        let cuts = cuts.into_iter().map(|(io, at, call)| Cut { io, at, call }).collect();
        (std::mem::take(&mut state.events), cuts)
    }

    fn call(&self) {
        before_write();
        self.maybe_cut(CALLS_A_CUT);
    }
}

/// The disk of a run.
#[derive(Debug, Clone)]
pub struct Disk(pub Arc<Run>);

impl Io for Disk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn IoFile>> {
        self.0.call();
        Ok(Box::new(DiskFile {
            file: self.0.io.open(path, access)?,
            run: Arc::clone(&self.0),
            state: Mutex::default(),
        }))
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.0.io.exists(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.call();
        self.0.io.rename(from, to)
    }
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.call();
        self.0.io.rename_new(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.call();
        self.0.io.remove(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.0.call();
        self.0.io.sync_dir(path)
    }
    fn entropy(&self) -> io::Result<[u8; 16]> {
        self.0.io.entropy()
    }
}

/// The part of the file that a write is of, by the bytes that it begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Super,
    Block,
    /// An image of a large value.
    Value,
    /// Another image, or zeros.
    Other,
}

impl Part {
    fn of(bytes: &[u8]) -> Self {
        match bytes.get(..4) {
            Some(b"EVER") => Part::Super,
            Some(b"EBLK") => Part::Block,
            Some(b"EVLI") if bytes.get(20) == Some(&2) => Part::Value,
            _ => Part::Other,
        }
    }
}

/// The memory of a wrong file.
#[derive(Debug, Default)]
struct Memory {
    /// The parts written since the last sync.
    parts: Vec<Part>,
    late: Vec<(u64, Vec<u8>)>,
}

#[derive(Debug)]
struct DiskFile {
    file: Box<dyn IoFile>,
    run: Arc<Run>,
    state: Mutex<Memory>,
}

impl DiskFile {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.state.lock().expect("nothing panics with this lock")
    }

    /// Whether a write is made only after the next sync.
    fn is_late(&self, part: Part) -> bool {
        match self.run.wrong {
            Wrong::SyncBeforeBlock => part == Part::Block,
            Wrong::SyncBeforeValues => part == Part::Value,
            _ => false,
        }
    }

    /// Whether a sync is forgotten of what was written.
    fn forgets(&self, parts: &[Part]) -> bool {
        let is_of = |part| parts.contains(&part);
        let in_checkpoint = IN_CHECKPOINT.get();
        match self.run.wrong {
            Wrong::BlockNotSynced => is_of(Part::Block),
            Wrong::CheckpointBeforeSync => {
                let supers = parts.iter().filter(|part| **part == Part::Super).count();
                is_of(Part::Block) && supers < 2 && in_checkpoint
            }
            Wrong::ImagesNotSynced => is_of(Part::Other) && !is_of(Part::Block) && in_checkpoint,
            Wrong::SuperNotSynced => is_of(Part::Super),
            _ => false,
        }
    }
}

impl IoFile for DiskFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.run.call();
        let mut n = self.file.read_at(buf, offset)?;
        for (at, bytes) in &self.memory().late {
            // Late writes are there for readers.
            let from = at.saturating_sub(offset).min(buf.len() as u64) as usize;
            let bytes = bytes.get(offset.saturating_sub(*at) as usize..).unwrap_or_default();
            let some = bytes.len().min(buf.len() - from);
            buf[from..from + some].copy_from_slice(&bytes[..some]);
            n = if some > 0 { n.max(from + some) } else { n };
        }
        Ok(n)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.run.call();
        let part = Part::of(bytes);
        self.memory().parts.push(part);
        if self.is_late(part) {
            self.memory().late.push((offset, bytes.to_vec()));
            return Ok(());
        }
        self.file.write_at(bytes, offset)
    }
    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.run.call();
        self.file.set_len(bytes)
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn sync_data(&self) -> io::Result<()> {
        self.run.call();
        let parts = std::mem::take(&mut self.memory().parts);
        if !self.forgets(&parts) {
            self.file.sync_data()?;
        } else if self.run.wrong == Wrong::CheckpointBeforeSync {
            // Only the last copy of the superblock is waited for.
            self.memory().parts.extend(parts);
        }
        let late = std::mem::take(&mut self.memory().late);
        late.into_iter().try_for_each(|(offset, bytes)| self.file.write_at(&bytes, offset))
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
}
