//! A disk under a Db that counts calls by kind, fails the one that a test asks for, and is dead once
//! its process has ended.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};

use everleaf_file::io::{Access, Fault, Io, IoFile, SimIo};

/// The kind of a call, as far as faults tell calls apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Read,
    Write,
    Sync,
    Name,
}

impl Call {
    /// Whether the fault can strike such a call.
    pub fn takes(self, fault: Fault) -> bool {
        match fault {
            Fault::Io => true,
            Fault::PartialIo => matches!(self, Call::Read | Call::Write),
            Fault::BadSector => self == Call::Read,
            Fault::NoSpace | Fault::Full => self == Call::Write,
            Fault::LostSync => self == Call::Sync,
        }
    }
}

/// Failures that strike one call and no later one.
pub const FAULTS: [Fault; 3] = [Fault::Io, Fault::NoSpace, Fault::LostSync];

#[derive(Debug, Default)]
struct State {
    dead: bool,
    /// The fault for the call after so many others that it could strike.
    fault: Option<(u64, Fault)>,
    struck: Option<Call>,
    /// Every call so far, if they are recorded.
    calls: Option<Vec<Call>>,
    changes: u64,
    bytes_read: u64,
    /// Where to stop a thread: after so many calls of a kind.
    pause: Option<(Call, u64, Sender<()>, Receiver<()>)>,
}

/// A simulated disk as one process sees it. Clones are the same process.
#[derive(Debug, Clone)]
pub struct Disk {
    pub sim: SimIo,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct DiskFile {
    disk: Disk,
    file: Box<dyn IoFile>,
}

impl Disk {
    /// The disk `sim` as the next process sees it.
    pub fn new(sim: SimIo) -> Self {
        Self { sim, state: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics with this lock")
    }

    /// The process has ended: no call reaches the disk any more.
    pub fn die(&self) {
        self.state().dead = true;
    }

    /// Lets one call fail: of those that the fault can strike, the one after `others`.
    pub fn fail_after(&self, others: u64, fault: Fault) {
        let mut state = self.state();
        (state.fault, state.struck) = (Some((others, fault)), None);
    }

    /// Forgets the fault that was asked for; says which call it struck.
    pub fn take_struck(&self) -> Option<Call> {
        let mut state = self.state();
        state.fault = None;
        state.struck.take()
    }

    /// Whether a fault was asked for, and nobody has taken note of it: it has yet to strike, or has struck.
    pub fn is_failing(&self) -> bool {
        let state = self.state();
        state.fault.is_some() || state.struck.is_some()
    }

    /// Stops a thread in a read, after `others`: the receiver hears of it, and it goes on when the
    /// sender says so or is dropped.
    pub fn pause_after(&self, others: u64) -> (Receiver<()>, Sender<()>) {
        self.pause_at(Call::Read, others)
    }

    /// As [`pause_after`](Self::pause_after), in a call of that kind.
    pub fn pause_at(&self, kind: Call, others: u64) -> (Receiver<()>, Sender<()>) {
        let (stops, stopped) = channel();
        let (go_on, goes_on) = channel();
        self.state().pause = Some((kind, others, stops, goes_on));
        (stopped, go_on)
    }

    /// Stops no thread that has not stopped yet.
    pub fn pause_no_more(&self) {
        self.state().pause = None;
    }

    /// Calls that changed something, or would have.
    pub fn changes(&self) -> u64 {
        self.state().changes
    }

    /// Bytes that were asked for so far.
    pub fn bytes_read(&self) -> u64 {
        self.state().bytes_read
    }

    pub fn record(&self) {
        self.state().calls = Some(Vec::new());
    }

    /// How many calls have been recorded.
    pub fn recorded(&self) -> usize {
        self.state().calls.as_ref().map_or(0, Vec::len)
    }

    pub fn take_record(&self) -> Vec<Call> {
        self.state().calls.take().unwrap_or_default()
    }

    fn pause(&self, call: Call) {
        let pause = {
            let mut state = self.state();
            match &mut state.pause {
                Some((kind, 0, ..)) if *kind == call => state.pause.take(),
                Some((kind, others, ..)) if *kind == call => {
                    *others -= 1;
                    None
                }
                _ => None,
            }
        };
        if let Some((.., stops, goes_on)) = pause {
            // Nobody may be waiting any more, on either side.
            let _ = stops.send(());
            let _ = goes_on.recv();
        }
    }

    fn call(&self, kind: Call) -> io::Result<()> {
        self.pause(kind);
        let state = &mut *self.state();
        if state.dead {
            return Err(io::Error::other("the process has ended"));
        }
        if let Some(calls) = &mut state.calls {
            calls.push(kind);
        }
        state.changes += u64::from(kind != Call::Read);
        let Some((others, fault)) = state.fault.filter(|(_, fault)| kind.takes(*fault)) else {
            return Ok(());
        };
        state.fault = others.checked_sub(1).map(|others| (others, fault));
        if state.fault.is_none() {
            state.struck = Some(kind);
            self.sim.fail_at(self.sim.calls(), fault);
        }
        Ok(())
    }
}

impl Io for Disk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn IoFile>> {
        let makes = access == Access::New && self.sim.peek(path).is_none();
        self.call(if makes { Call::Write } else { Call::Read })?;
        let file = self.sim.open(path, access)?;
        Ok(Box::new(DiskFile { disk: self.clone(), file }))
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.call(Call::Read)?;
        self.sim.exists(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(Call::Name)?;
        self.sim.rename(from, to)
    }
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(Call::Name)?;
        self.sim.rename_new(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call(Call::Name)?;
        self.sim.remove(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.call(Call::Sync)?;
        self.sim.sync_dir(path)
    }
    fn entropy(&self) -> io::Result<[u8; 16]> {
        self.sim.entropy()
    }
}

impl IoFile for DiskFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.call(Call::Read)?;
        self.disk.state().bytes_read += buf.len() as u64;
        self.file.read_at(buf, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.disk.call(Call::Write)?;
        self.file.write_at(bytes, offset)
    }
    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.disk.call(Call::Write)?;
        self.file.set_len(bytes)
    }
    fn len(&self) -> io::Result<u64> {
        self.disk.call(Call::Read)?;
        self.file.len()
    }
    fn sync_data(&self) -> io::Result<()> {
        self.disk.call(Call::Sync)?;
        self.file.sync_data()
    }
    fn drop_cached(&self, range: Range<u64>) -> io::Result<()> {
        self.disk.call(Call::Read)?;
        self.file.drop_cached(range)
    }

    fn lock(&self, shared: bool) -> io::Result<bool> {
        self.disk.call(Call::Read)?;
        self.file.lock(shared)
    }

    fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }
}
