//! Every bit of two small pools flipped, one at a time: a pool that was closed, and one as a crash
//! leaves it. Each flip must be in one of the classes of [`Class`]; see there. Then files cut at every
//! length, and several flips at once.
//!
//! | | |
//! |---|---|
//! | `EVERLEAF_SCALE` | of how many bits one is flipped (61, and each in CI), and how many pools have several flips (200) |
//! | `EVERLEAF_SEED` | where the random numbers start (1) |

use everleaf_testing::{seed_or, step};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::{Mutex, Once};
use std::thread;

use everleaf::{Db, Error, Options, Pair, Result};
use everleaf_file::io::SimIo;
use everleaf_fuzz::format::{self, BLOCK};
use everleaf_fuzz::mutate::Random;
use everleaf_fuzz::parts::{POOL, Parts};
use everleaf_fuzz::script::{self, Model};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

thread_local! {
    /// Whether a panic of this thread is an answer.
    static IS_ANSWER: Cell<bool> = const { Cell::new(false) };
}

/// Whether something does not panic. Nothing is printed: a backtrace takes more memory than any pool here.
fn holds(check: impl FnOnce()) -> bool {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let hook = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_ANSWER.get() {
                hook(info);
            }
        }));
    });
    IS_ANSWER.set(true);
    let held = panic::catch_unwind(AssertUnwindSafe(check)).is_ok();
    IS_ANSWER.set(false);
    held
}

/// The outcome of a damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// The open names file, offset and cause.
    Refused,
    /// Opens; what cannot be read says so with file, offset and cause, all else is as it was, and
    /// `check` finds it.
    Found,
    /// Opens, and all can be read; `check` finds it.
    FoundByCheckAlone,
    /// As if nothing had happened: nothing refers to these bytes, or a copy of them counts.
    Harmless,
    /// The last block of a journal that was not closed is gone: nothing tells it from one that a power
    /// cut tore, so its epoch is gone, as a whole. Or a cut took the last blocks.
    TornTail,
}

/// A pool and what must be in it.
struct Subject {
    name: &'static str,
    parts: Parts,
    disk: SimIo,
    truth: Model,
    /// The blocks behind the last checkpoint: each one's place, and what the pool holds without it and
    /// those behind it.
    tail: Vec<Behind>,
}

/// A block and what the pool holds without it.
type Behind = (Range<usize>, Model);

/// How a pool is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    Closed,
    /// By a crash, some epochs after a checkpoint. Both copies of the superblock say that it is open.
    Crashed,
    /// By a crash, without a checkpoint since the open. The older copy of the superblock says that the
    /// pool is closed.
    CrashedEarly,
}

/// All of them.
const SUBJECTS: [Left; 3] = [Left::Closed, Left::Crashed, Left::CrashedEarly];

fn options() -> Options {
    script::options(512).journal_bytes(64 << 10).max_bytes(1 << 20)
}

fn marker(block: usize) -> String {
    format!("only in block {block}")
}

/// Operations on a pool and on the model of it.
struct Writer {
    db: Db,
    truth: Model,
}

impl Writer {
    fn put(&mut self, name: &str, key: &[u8], value: &[u8]) {
        self.db.tree(name).and_then(|tree| tree.insert(key, value)).expect("sound");
        self.truth.entry(name.into()).or_default().insert(key.into(), value.into());
    }

    /// An epoch with a key of its own; says what the pool held before.
    fn block(&mut self, no: usize, more: impl FnOnce(&mut Self)) -> Model {
        let before = self.truth.clone();
        self.put("a", marker(no).as_bytes(), &[no as u8; 20]);
        more(self);
        self.db.sync().expect("sound");
        before
    }
}

/// Two trees of several levels, records of all kinds, a key and a value in extents, merges, a
/// checkpoint; then some epochs.
fn subject(left: Left) -> Subject {
    let disk = SimIo::new(1);
    let db = script::open(&disk, &options()).expect("a new pool");
    let mut w = Writer { db, truth: Model::new() };
    script::fill(&w.db, &mut w.truth, 0, 1, 40).expect("sound");
    for i in 0..36_u8 {
        w.put("ab", format!("a common prefix, then {i:02}").as_bytes(), &[i; 3]);
    }
    script::thin_out(&w.db, &mut w.truth, 1).expect("sound");
    w.put("ab", b"", b"");
    if left != Left::Crashed {
        w.put("ab", b"kept key", &[0xaa; 700]);
        w.put("ab", &[b'k'; 300], b"small value of a long key");
    }
    if left == Left::CrashedEarly {
        w.db.close().expect("sound");
        w.db = script::open(&disk, &options()).expect("it was closed");
    } else {
        w.db.sync().and_then(|()| w.db.checkpoint()).expect("sound");
    }
    let mut befores = vec![w.block(0, |_| ())];
    befores.push(w.block(1, |w| {
        script::thin_out(&w.db, &mut w.truth, 0).expect("sound");
        w.put("made late", b"key", b"value");
        w.put("a", marker(1).as_bytes(), &[1; 20]);
        w.put("a", marker(0).as_bytes(), &[0; 20]);
    }));
    if left == Left::Closed {
        w.db.close().expect("sound");
        return made(left, disk, w.truth, Vec::new());
    }
    befores.push(w.block(2, |_| ()));
    let crashed = disk.power_cut(0);
    made(left, crashed, w.truth, befores)
}

fn made(left: Left, disk: SimIo, truth: Model, befores: Vec<Model>) -> Subject {
    let name = match left {
        Left::Closed => "closed",
        Left::Crashed => "crashed",
        Left::CrashedEarly => "crashed early",
    };
    let parts = Parts::take(&disk);
    let blocks = parts.blocks.iter().map(|b| b.place..b.place + format::block_end(&b.bytes));
    let tail: Vec<Behind> = blocks.zip(befores.iter().cloned()).collect();
    assert_eq!((tail.len(), parts.blocks.len()), (befores.len(), befores.len()));
    println!(
        "{name}: {} bytes of {}: {} images, {} blocks",
        parts.bytes(),
        parts.file.len(),
        parts.images().len(),
        parts.blocks.len(),
    );
    Subject { name, parts, disk, truth, tail }
}

fn is_blank(page: &[u8]) -> bool {
    page.iter().all(|byte| *byte == 0)
}

/// Where every byte in use is: of what nothing refers to, one byte of each sector is enough.
fn used(subject: &Subject) -> Vec<Range<usize>> {
    let parts = &subject.parts;
    let mut used = parts.used();
    let is_used = |at: &usize| used.iter().any(|range| range.contains(at));
    let others: Vec<_> =
        (0..parts.file.len()).step_by(BLOCK).map(|at| at + 77).filter(|at| !is_used(at)).collect();
    used.extend(others.into_iter().map(|at| at..at + 1).filter(|r| r.end <= parts.file.len()));
    used
}

/// A damage: what is done to the file.
#[derive(Debug, Clone, Copy)]
enum Damage {
    Flip(usize, u8),
    Cut(usize),
}

fn damaged(subject: &Subject, damages: &[Damage]) -> SimIo {
    // Nothing is unsynced, so this only copies the disk.
    let disk = subject.disk.power_cut(0);
    for damage in damages {
        match *damage {
            Damage::Flip(at, bit) => {
                let old = subject.parts.file[at];
                disk.poke(Path::new(POOL), at as u64, &[old ^ 1 << bit]);
            }
            Damage::Cut(len) => disk.truncate(Path::new(POOL), len as u64),
        }
    }
    disk
}

/// The 64 bytes around a byte.
fn line(parts: &Parts, at: usize) -> &[u8] {
    let line = &parts.file[at & !63..];
    &line[..line.len().min(64)]
}

/// An error that names damage: where, and what.
fn names_damage(error: &Error) -> bool {
    match error {
        Error::Corrupt { file, what, .. } => ["data", "pool"].contains(file) && !what.is_empty(),
        Error::Foreign { what, .. } => !what.is_empty(),
        _ => false,
    }
}

/// Reads all in one open of a damaged pool: fails unless all of `truth` can be read. Panics if anything
/// else than the truth can be read.
fn read_all(db: &Db, truth: &Model, what: &str) -> Result<()> {
    let mut failed = None;
    let mut note = |error: Error| {
        assert!(names_damage(&error), "{what}: {error:?}");
        failed.get_or_insert(error);
    };
    match db.tree_names() {
        Ok(names) => assert!(names.iter().eq(truth.keys()), "{what}: the trees {names:?}"),
        Err(error) => note(error),
    }
    for (name, entries) in truth {
        let tree = match db.open_tree(name) {
            Ok(tree) => tree.unwrap_or_else(|| panic!("{what}: there is no tree {name}")),
            Err(error) => {
                note(error);
                continue;
            }
        };
        let pair = |(key, value): (&Vec<u8>, &Vec<u8>)| (key[..].into(), value[..].into());
        if let Err(error) = compare(tree.iter(), entries.iter().map(pair), what) {
            note(error);
        }
        if let Err(error) = compare(tree.iter().rev(), entries.iter().rev().map(pair), what) {
            note(error);
        }
        for (key, value) in entries.iter().step_by(3) {
            match tree.get(key) {
                Ok(found) => {
                    assert_eq!(found.as_deref(), Some(&value[..]), "{what}: {key:x?} in {name}")
                }
                Err(error) => note(error),
            }
        }
        match tree.get(b"never there") {
            Ok(found) => assert_eq!(found, None, "{what}: in {name}"),
            Err(error) => note(error),
        }
    }
    failed.map_or(Ok(()), Err)
}

fn compare(
    found: impl Iterator<Item = Result<Pair>>,
    mut expected: impl Iterator<Item = Pair>,
    what: &str,
) -> Result<()> {
    for pair in found {
        assert_eq!(Some(pair?), expected.next(), "{what}");
    }
    assert_eq!(None, expected.next(), "{what}: the iteration ends early");
    Ok(())
}

fn class_of_open(
    subject: &Subject,
    disk: &SimIo,
    (read_only, is_one_of_several): (bool, bool),
    what: &str,
) -> Class {
    let options = options().create(false).read_only(read_only);
    let db = match script::open(disk, &options) {
        Ok(db) => db,
        Err(error) => {
            assert!(names_damage(&error), "{what}: {error:?}");
            return Class::Refused;
        }
    };
    let (mut truths, mut class) = (vec![&subject.truth], Class::Harmless);
    for (no, (_, before)) in subject.tail.iter().enumerate().rev() {
        // The newest block of which something is there, or cannot be read.
        let tree = db.open_tree("a");
        let of_block = tree.and_then(|tree| tree.map_or(Ok(None), |tree| tree.get(marker(no))));
        match of_block {
            Ok(None) => (truths, class) = (vec![before], Class::TornTail),
            // Where one damage hides whether another one took the block away.
            Err(_) if is_one_of_several => truths.push(before),
            _ => break,
        }
    }
    let fits = |truth: &&Model| truths.len() == 1 || holds(|| drop(read_all(&db, truth, what)));
    let truth = truths.iter().copied().find(fits).unwrap_or(truths[0]);
    let read = read_all(&db, truth, what);
    let found = db.check().unwrap_or_else(|error| panic!("{what}: check says {error}"));
    match (read, found.is_empty()) {
        (Ok(()), true) => class,
        (Ok(()), false) => Class::FoundByCheckAlone,
        (Err(_), false) => Class::Found,
        (Err(error), true) => panic!("{what}: check does not find what a read does: {error}"),
    }
}

/// Tries a damage: both kinds of open must see the same.
fn try_damage(subject: &Subject, damages: &[Damage]) -> Class {
    let what = format!("{}, {damages:?}", subject.name);
    let disk = damaged(subject, damages);
    let reader = class_of_open(subject, &disk, (true, damages.len() > 1), &what);
    let writer = class_of_open(subject, &disk, (false, damages.len() > 1), &what);
    // Of several damages a writer may meet another one first.
    assert!(
        reader == writer || damages.len() > 1,
        "{what}: {reader:?} if read-only, {writer:?} else"
    );
    writer
}

/// Tries damages on all cores and counts the classes.
fn count<D: AsRef<[Damage]> + Sync>(
    subject: &Subject,
    damages: &[D],
    judge: impl Fn(&D, Class) + Sync,
) -> BTreeMap<Class, usize> {
    let counts = Mutex::new(BTreeMap::new());
    let threads = thread::available_parallelism().map_or(2, usize::from);
    ALLOCATOR.reset_peak_usage();
    let before = ALLOCATOR.current_usage();
    thread::scope(|scope| {
        for first in 0..threads {
            let (counts, judge) = (&counts, &judge);
            scope.spawn(move || {
                for damage in damages.iter().skip(first).step_by(threads) {
                    let class = try_damage(subject, damage.as_ref());
                    judge(damage, class);
                    *counts.lock().expect("no panic").entry(class).or_default() += 1;
                }
            });
        }
    });
    let held = ALLOCATOR.peak_usage().saturating_sub(before) / threads;
    // The file is in memory here, too, and is mostly holes.
    let bound = (9 << 20) + 64 * subject.parts.bytes() + 6 * subject.parts.file.len();
    assert!(held <= bound, "{held} bytes for each pool of {}", subject.parts.bytes());
    counts.into_inner().expect("no panic")
}

/// Whether a flip destroys the one block that then passes for one that a power cut tore: the last.
fn is_last_block(subject: &Subject, at: usize) -> bool {
    subject.tail.last().is_some_and(|(block, _)| block.contains(&at))
}

/// Whether a file that ends there has lost blocks behind the last checkpoint and nothing else: those
/// of epochs that were durable, but nothing that is left says so.
fn cuts_blocks(subject: &Subject, at: usize) -> bool {
    subject.tail.last().is_some_and(|(last, _)| at < last.end)
        && subject.parts.images().iter().all(|image| image.end <= at)
}

#[test]
fn every_flipped_bit_is_found_or_harmless() {
    let every = step(61) as usize;
    for subject in SUBJECTS.map(subject) {
        let mut random = Random(seed_or(1));
        let mut damages = Vec::new();
        for range in used(&subject) {
            for at in range {
                // One bit of each byte is enough in lines of zeros.
                let blank = is_blank(line(&subject.parts, at));
                let bits = if blank { at as u8 % 8..at as u8 % 8 + 1 } else { 0..8 };
                damages.extend(bits.map(|bit| [Damage::Flip(at, bit)]));
            }
        }
        let (all, first) = (damages.len(), random.below(every));
        let damages: Vec<_> = damages.into_iter().skip(first).step_by(every).collect();
        let counts = count(&subject, &damages, |damage, class| {
            let [Damage::Flip(at, _)] = *damage else { return };
            // The inherent cases are torn tails, and no others.
            assert_eq!(class == Class::TornTail, is_last_block(&subject, at), "{damage:?}");
        });
        println!("{}: {} of {all} bits flipped: {counts:?}", subject.name, damages.len());
        assert_eq!(counts.values().sum::<usize>(), damages.len());
    }
}

#[test]
fn every_cut_is_found_or_harmless() {
    let every = step(97) as usize;
    for subject in SUBJECTS.map(subject) {
        let mut damages = Vec::new();
        for range in used(&subject) {
            damages.extend(range.step_by(every).map(|at| [Damage::Cut(at)]));
        }
        let counts = count(&subject, &damages, |damage, class| {
            let [Damage::Cut(at)] = *damage else { return };
            let tail = cuts_blocks(&subject, at);
            assert_eq!(class == Class::TornTail, tail, "{damage:?}");
        });
        println!("{}: cut at {} lengths: {counts:?}", subject.name, damages.len());
    }
}

#[test]
fn several_flips_are_found_or_harmless() {
    let mut random = Random(seed_or(1));
    for subject in SUBJECTS.map(subject) {
        let used: Vec<_> = used(&subject).into_iter().filter(|range| !range.is_empty()).collect();
        let damages: Vec<Vec<Damage>> = (0..everleaf_testing::count(200, 5_000))
            .map(|_| {
                let flips = 2 + random.below(30);
                let flip = |random: &mut Random| {
                    let range = &used[random.below(used.len())];
                    let at = range.start + random.below(range.len());
                    Damage::Flip(at, random.below(8) as u8)
                };
                (0..flips).map(|_| flip(&mut random)).collect()
            })
            .collect();
        let counts = count(&subject, &damages, |_, _| ());
        println!("{}: {} times several flips: {counts:?}", subject.name, damages.len());
    }
}
