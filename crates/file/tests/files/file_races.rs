//! Moments of a checkpoint at which others go on: a disk that stops at a write until it is told to go on.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use everleaf_file::FileOptions;
use everleaf_file::io::{Access, Io, IoFile, SimIo};

use crate::toy::{Toy, options, path};

/// A call of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    /// The write behind the superblocks that has this number.
    Write(u64),
    /// The next read behind them.
    Read,
    /// The next sync.
    Sync,
}

/// Tells that a call begins, and waits until it may.
struct Stop {
    at: Call,
    begins: Sender<()>,
    goes: Receiver<()>,
}

/// A disk of which a call can be held up.
#[derive(Clone)]
struct Halting {
    sim: SimIo,
    stop: Arc<Mutex<Option<Stop>>>,
    /// Writes behind the superblocks.
    writes: Arc<AtomicU64>,
}

struct HaltingFile {
    file: Box<dyn IoFile>,
    disk: Halting,
}

impl Halting {
    fn new(sim: SimIo) -> Self {
        Self { sim, stop: Arc::default(), writes: Arc::default() }
    }

    /// Holds up a call: says when it begins, and takes word that it may go on.
    fn hold(&self, at: Call) -> (Receiver<()>, Sender<()>) {
        let ((begins, begun), (go, goes)) = (channel(), channel());
        *self.stop.lock().expect("no panic") = Some(Stop { at, begins, goes });
        (begun, go)
    }

    /// Holds up the write behind so many others.
    fn hold_write(&self, after: u64) -> (Receiver<()>, Sender<()>) {
        self.hold(Call::Write(after + self.writes.load(Ordering::Relaxed)))
    }

    fn stop_at(&self, call: Call) {
        let stop = self.stop.lock().expect("no panic").take_if(|stop| stop.at == call);
        if let Some(stop) = stop {
            stop.begins.send(()).expect("somebody listens");
            // Or that nobody is there any more.
            let _ = stop.goes.recv();
        }
    }
}

impl fmt::Debug for Halting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Halting").finish_non_exhaustive()
    }
}

impl fmt::Debug for HaltingFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HaltingFile").finish_non_exhaustive()
    }
}

impl Io for Halting {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn IoFile>> {
        Ok(Box::new(HaltingFile { file: self.sim.open(path, access)?, disk: self.clone() }))
    }

    forward!(sim: exists rename rename_new remove sync_dir entropy);
}

impl IoFile for HaltingFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        if offset >= SUPERBLOCKS {
            self.disk.stop_at(Call::Read);
        }
        self.file.read_at(buf, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if offset >= SUPERBLOCKS {
            let no = self.disk.writes.fetch_add(1, Ordering::Relaxed);
            self.disk.stop_at(Call::Write(no));
        }
        self.file.write_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.stop_at(Call::Sync);
        self.file.sync_data()
    }

    forward!(file: set_len allocate len drop_cached lock unlock);
}

/// Pages of a value that fills the first extent, which the journal never takes, and another one.
const PAGES: u32 = 600;
const PAGE_BYTES: usize = 4096;
const FIRST: u32 = 512;
const SUPERBLOCKS: u64 = 8192;

fn pool(io: &Halting) -> Toy {
    let options = FileOptions {
        slots: 252,
        max_pages: 4096,
        journal_bytes: 64 << 20,
        evicts_small: false,
        ..options()
    };
    Toy::open_with(io, &path(), &options).expect("no fault")
}

/// Steps whose records fill more than one extent.
const STEPS: u64 = 20_000;

/// Fills more than one extent of the journal.
fn fill_journal(toy: &Toy) {
    for n in 1..=STEPS {
        let changes = [0, 1, 2, 3, 4, 5].map(|no| (no, 7, n));
        toy.set(&changes).expect("no fault");
        if n % 1_000 == 0 {
            toy.file.tick().expect("no fault");
        }
    }
}

/// A root that is being written names a value which goes meanwhile: the journal, whose blocks come behind that root,
/// may not be written into the value's extent, or the pool could not be opened after a crash.
#[test]
fn what_a_root_will_name_is_in_use_while_it_is_written() {
    let pool_with_value = || {
        let io = Halting::new(SimIo::new(7));
        let toy = pool(&io);
        toy.file.extent_write(FIRST, 0, &[1; PAGES as usize * PAGE_BYTES]).expect("no fault");
        toy.adopt(FIRST, PAGES).expect("no fault");
        toy.file.tick().expect("no fault");
        (io, toy)
    };
    let writes = {
        let (io, toy) = pool_with_value();
        let before = io.writes.load(Ordering::Relaxed);
        toy.checkpoint().expect("no fault");
        io.writes.load(Ordering::Relaxed) - before
    };
    let (io, toy) = pool_with_value();
    // The root itself is written last.
    let (begun, go) = io.hold_write(writes - 1);
    thread::scope(|scope| {
        let go = go;
        let checkpoint = scope.spawn(|| toy.checkpoint());
        begun.recv().expect("it writes its root");
        // Nobody needs the value any more, as far as the table knows.
        toy.forget(FIRST, PAGES).expect("no fault");
        toy.file.tick().expect("no fault");
        toy.file.extent_release(FIRST, PAGES);
        toy.file.extent_write(FIRST, 0, &[2; 10]).expect("its numbers are free");
        fill_journal(&toy);
        go.send(()).expect("it waits");
        checkpoint.join().expect("no panic").expect("no fault");
    });
    toy.set(&[(1, 1, 77)]).expect("no fault");
    toy.file.tick().expect("no fault");
    let after = Halting::new(io.sim.kill());
    let again = pool(&after);
    assert_eq!((again.get(1, 1).expect("sound"), again.get(5, 7).expect("sound")), (77, STEPS));
}

/// A value that is released while values that went before it are taken from the table: its space is free after the next
/// checkpoint, as that of the others.
#[test]
fn what_is_released_while_others_are_cleared_is_free_soon() {
    let other = 3 * 1024;
    let used_after = |meets: bool| {
        let sim = SimIo::new(7);
        let first = pool(&Halting::new(sim.clone()));
        for at in [FIRST, other] {
            first.file.extent_write(at, 0, &[1; PAGES as usize * PAGE_BYTES]).expect("no fault");
            first.adopt(at, PAGES).expect("no fault");
        }
        first.close().expect("no fault");
        let io = Halting::new(sim);
        let toy = pool(&io);
        toy.forget(FIRST, PAGES).expect("no fault");
        toy.file.tick().expect("no fault");
        let forget_other = || {
            toy.forget(other, PAGES).expect("no fault");
            toy.file.tick().expect("no fault");
            toy.file.extent_release(other, PAGES);
        };
        toy.file.extent_release(FIRST, PAGES);
        if meets {
            // The leaf of the table is not in memory.
            let (begun, go) = io.hold(Call::Read);
            thread::scope(|scope| {
                let go = go;
                let checkpoint = scope.spawn(|| toy.checkpoint());
                begun.recv().expect("it reads a leaf");
                forget_other();
                go.send(()).expect("it waits");
                checkpoint.join().expect("no panic").expect("no fault");
            });
        } else {
            toy.checkpoint().expect("no fault");
            forget_other();
        }
        (0..3).for_each(|_| {
            toy.set(&[(1, 1, 1)]).expect("no fault");
            toy.checkpoint().expect("no fault");
        });
        let stats = toy.file.stats();
        stats.data_bytes - stats.free_bytes
    };
    assert_eq!(used_after(true), used_after(false));
}

/// While an epoch that has ended is being synced, the next one cannot be spilled: no more of it stays in memory than may.
#[test]
fn who_writes_waits_for_a_sync_before_what_is_held_fills_memory() {
    let io = Halting::new(SimIo::new(7));
    let manual = FileOptions { manual_epochs: true, background: true, ..options() };
    let options = FileOptions { spill_bytes: 1 << 10, pending_bytes: 16 << 10, ..manual };
    let toy = Toy::open_with(&io, &path(), &options).expect("no fault");
    // Some of the epoch before was spilled, too.
    for i in 1..=400 {
        toy.set(&[(2, 0, i)]).expect("no fault");
    }
    let (begun, go) = io.hold(Call::Sync);
    toy.file.end_epoch().expect("no fault");
    let held = thread::scope(|scope| {
        let go = go;
        begun.recv().expect("a task syncs it");
        let before = toy.file.stats().pending_bytes;
        let writer = scope.spawn(|| {
            for i in 1..=STEPS {
                toy.set(&[(1, 0, i)]).expect("no fault");
            }
        });
        let held = || toy.file.stats().pending_bytes - before;
        while held() < 8 << 10 {
            thread::yield_now();
        }
        // In far less it would have done all.
        thread::sleep(Duration::from_millis(300));
        let held = held();
        go.send(()).expect("it waits");
        writer.join().expect("no panic");
        held
    });
    // The bytes that may wait, and those that the slot has not told.
    assert!(held <= 18 << 10, "{held} bytes are held");
    let epoch = toy.file.end_epoch().expect("no fault");
    toy.file.wait_durable(epoch).expect("no fault");
    let again = pool(&Halting::new(io.sim.power_cut(3)));
    assert_eq!((again.get(1, 0).expect("sound"), again.get(2, 0).expect("sound")), (STEPS, 400));
}
