//! Threads that write, read and sync a Db on a simulated disk, each with keys of its own and all with
//! shared ones, until the power is cut or the process killed at some call, or another thread closes the
//! pool. Afterwards all that was acknowledged is there, and nothing of an epoch without all of those
//! before it; the recovered value of each shared key is one that its history allows, and so is all that
//! readers saw.
//!
//! `EVERLEAF_SCALE` says how many cuts (default 100), `EVERLEAF_SEED` where the random numbers
//! start; threads make each run different all the same.

use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use everleaf::{Db, Durability, Error, Options, Result, Tree};
use everleaf_file::io::SimIo;
use everleaf_testing::{count, seed_or};

mod cut;
use cut::act::Life;
use cut::disk::Disk;
use cut::{Rng, inspect};

const WRITERS: u64 = 4;
const READERS: u64 = 2;
const OWN_KEYS: u64 = 60;
const SHARED_KEYS: u64 = 8;
/// Operations of a writer after which it waits for the end.
const MOST: usize = 40_000;

/// Which write a value is of: life of the process, thread, operation.
type Tag = u64;

fn tag(life: u64, thread: u64, i: usize) -> Tag {
    life << 40 | thread << 32 | i as u64
}

/// The tag, and bytes that follow from it: all classes of records, and extents.
fn value_of(tag: Tag) -> Vec<u8> {
    let mut rng = Rng(tag);
    let filler = if rng.one_in(40) { rng.below(3000) } else { rng.below(200) };
    let mut value = tag.to_le_bytes().to_vec();
    value.extend(rng.bytes::<Vec<u8>>(filler as usize));
    value
}

/// The tag of a value, which must be whole.
fn tag_of(value: &[u8]) -> Tag {
    let tag = u64::from_le_bytes(value[..8].try_into().expect("eight bytes"));
    assert!(value == value_of(tag), "{tag:#x}: not what was written");
    tag
}

fn own_key(thread: u64, n: u64) -> Vec<u8> {
    let filler = n % 9 * 7;
    format!("{n:03}{:1$}/{thread}", "", filler as usize).into_bytes()
}

fn shared_key(n: u64) -> Vec<u8> {
    format!("shared/{n}").into_bytes()
}

#[derive(Debug, Clone)]
enum What {
    /// Own keys of either tree and whether they are set, in one batch or in one operation.
    Own(Vec<(usize, u64, bool)>),
    /// A shared key, and whether it is set.
    Shared(u64, bool),
}

impl What {
    fn removes_one(&self) -> bool {
        match self {
            What::Own(changes) => matches!(changes[..], [(.., false)]),
            What::Shared(_, set) => !set,
        }
    }
}

/// An operation that has returned and changed something.
#[derive(Debug)]
struct Did {
    what: What,
    /// The epochs in which it began and returned.
    epochs: (u64, u64),
    /// When it began and returned, in the order of all threads.
    time: (u64, u64),
    /// The tag that the shared key had before.
    old: Option<Tag>,
}

#[derive(Debug)]
struct Read {
    key: u64,
    found: Option<Tag>,
    time: (u64, u64),
    /// A sync returned after it, before the cut.
    synced: bool,
}

/// The state that threads share while they run.
struct Stage<'a> {
    db: &'a Db,
    trees: [Tree; 2],
    sim: &'a SimIo,
    /// The call at which the power is cut; never, if the pool will be closed.
    cut_call: Option<u64>,
    life: u64,
    time: AtomicU64,
    /// An epoch that was called durable before the cut.
    durable: AtomicU64,
    stop: AtomicBool,
}

impl Stage<'_> {
    fn tick(&self) -> u64 {
        self.time.fetch_add(1, Ordering::SeqCst)
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether all that has returned did so before the cut.
    fn is_before_cut(&self) -> bool {
        self.cut_call.is_none_or(|call| self.sim.calls() <= call)
    }
}

fn random_what(rng: &mut Rng) -> What {
    let own = |rng: &mut Rng| (rng.below(2) as usize, rng.below(OWN_KEYS), rng.below(10) < 7);
    match rng.below(10) {
        0 => What::Own((0..2 + rng.below(5)).map(|_| own(rng)).collect()),
        1..5 => What::Shared(rng.below(SHARED_KEYS), rng.below(10) < 8),
        _ => What::Own(vec![own(rng)]),
    }
}

fn apply(
    stage: &Stage<'_>,
    thread: u64,
    what: &What,
    value: &[u8],
    sync: bool,
) -> Result<Option<Tag>> {
    let durability = if sync { Durability::Sync } else { Durability::Buffered };
    let done = match what {
        What::Shared(n, set) => {
            let (tree, key) = (stage.trees[1].with(durability), shared_key(*n));
            match set {
                true => tree.insert(key, value),
                false => tree.remove(key),
            }
        }
        What::Own(changes) => match changes[..] {
            [(tree, n, true)] => {
                stage.trees[tree].with(durability).insert(own_key(thread, n), value)
            }
            [(tree, n, false)] => stage.trees[tree].with(durability).remove(own_key(thread, n)),
            _ => {
                let mut batch = stage.db.with(durability).batch();
                for (tree, n, set) in changes {
                    let (tree, key) = (&stage.trees[*tree], own_key(thread, *n));
                    match set {
                        true => batch.put(tree, key, value).expect("within limits"),
                        false => batch.delete(tree, key).expect("within limits"),
                    }
                }
                batch.commit().map(|()| None)
            }
        },
    };
    Ok(done?.map(|old| tag_of(&old)))
}

/// Writes until the end. Returns what was done, and how many operations were acknowledged.
fn write(stage: &Stage<'_>, thread: u64, mut rng: Rng) -> (Vec<Did>, usize) {
    let (mut done, mut acknowledged) = (Vec::new(), 0);
    while !stage.is_over() && done.len() < MOST {
        let what = random_what(&mut rng);
        let value = value_of(tag(stage.life, thread, done.len()));
        // Not if the pool will be closed: then such an operation may be done and fail all the same.
        let sync = rng.one_in(300) && stage.cut_call.is_some();
        let (start, before) = (stage.tick(), stage.db.epoch());
        let old = match apply(stage, thread, &what, &value, sync) {
            Ok(old) => old,
            // The disk outlives the cut.
            Err(error) => {
                assert!(is_closed(stage, &error), "{error}");
                break;
            }
        };
        let (after, end) = (stage.db.epoch(), stage.tick());
        if old.is_none() && what.removes_one() {
            // Nothing was there, so it is in no epoch.
            continue;
        }
        let old = old.filter(|_| matches!(what, What::Shared(..)));
        done.push(Did { what, epochs: (before, after), time: (start, end), old });
        if (sync || rng.one_in(500) && stage.db.sync().is_ok()) && stage.is_before_cut() {
            acknowledged = done.len();
        }
    }
    (done, acknowledged)
}

/// Whether that is what the pool answers that another thread has closed.
fn is_closed(stage: &Stage<'_>, error: &Error) -> bool {
    stage.cut_call.is_none() && matches!(error, Error::Closed)
}

fn read(stage: &Stage<'_>, mut rng: Rng) -> Vec<Read> {
    let (mut reads, mut unsynced) = (Vec::new(), 0);
    while !stage.is_over() {
        let durable = stage.db.durable_epoch();
        if stage.is_before_cut() {
            stage.durable.fetch_max(durable, Ordering::Relaxed);
        }
        if rng.one_in(100) {
            let pairs: Vec<_> = match stage.trees[1].iter().collect() {
                Ok(pairs) => pairs,
                Err(error) if is_closed(stage, &error) => break,
                Err(error) => panic!("it reads: {error}"),
            };
            assert!(pairs.is_sorted_by(|a, b| a.0 < b.0), "unordered");
            for (_, value) in &pairs {
                tag_of(value);
            }
        }
        let (key, start) = (rng.below(SHARED_KEYS), stage.tick());
        let found = match stage.trees[1].get(shared_key(key)) {
            Ok(found) => found,
            Err(error) if is_closed(stage, &error) => break,
            Err(error) => panic!("it reads: {error}"),
        };
        let found = found.map(|value| tag_of(&value));
        reads.push(Read { key, found, time: (start, stage.tick()), synced: false });
        if rng.one_in(400) && stage.db.sync().is_ok() && stage.is_before_cut() {
            reads[unsynced..].iter_mut().for_each(|read| read.synced = true);
            unsynced = reads.len();
        }
    }
    reads
}

/// The operations of one thread, as far as they are known after the cut: the first ones are there, the
/// last ones are not, and of those between it is open.
#[derive(Debug, Clone, Copy)]
struct Kept {
    surely: usize,
    at_most: usize,
}

type Own = BTreeMap<(usize, Vec<u8>), Tag>;

fn do_own(own: &mut Own, life: u64, thread: u64, i: usize, did: &Did) {
    let What::Own(changes) = &did.what else { return };
    for (tree, n, set) in changes {
        let place = (*tree, own_key(thread, *n));
        match set {
            true => drop(own.insert(place, tag(life, thread, i))),
            false => drop(own.remove(&place)),
        }
    }
}

/// The pool over the lives of its processes.
struct Lives {
    rng: Rng,
    life: u64,
    own: Vec<Own>,
    shared: BTreeMap<u64, Tag>,
    closes: u64,
    kept: u64,
    lost: u64,
    reads: u64,
}

impl Lives {
    fn live(&mut self, sim: SimIo) -> SimIo {
        self.life += 1;
        let options = Options::new()
            .page_bytes(512)
            .max_bytes(8 << 20)
            .journal_bytes(256 << 10)
            .interval(Duration::from_millis(1));
        let options = cut::with_memory(options, self.life);
        let disk = Disk::new(sim);
        let Life { db, .. } = Life::open(&disk, &options).expect("it opens");
        let calls = self.rng.pick(&[40, 400, 1500]) - self.rng.below(40);
        let cut_call = (!self.rng.one_in(5)).then_some(disk.sim.calls() + calls);
        let seed = self.rng.next();
        if let Some(call) = cut_call {
            disk.sim.cut_at(call, (!seed.is_multiple_of(4)).then_some(seed));
        }
        let trees = ["own", "shared"].map(|name| db.tree(name).expect("room"));
        let stage = Stage {
            db: &db,
            trees,
            sim: &disk.sim,
            cut_call,
            life: self.life,
            time: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        };
        let seeds: Vec<Rng> = (0..WRITERS + READERS).map(|_| Rng(self.rng.next())).collect();
        let (mut done, reads, cut) = std::thread::scope(|scope| {
            let stage = &stage;
            // Also if this panics: readers go on until they are stopped.
            let stopper =
                scopeguard::guard(stage, |stage| stage.stop.store(true, Ordering::Relaxed));
            let (writers, readers) = seeds.split_at(WRITERS as usize);
            let writers = (0..).zip(writers);
            let writers: Vec<_> =
                writers.map(|(t, rng)| scope.spawn(move || write(stage, t, rng.clone()))).collect();
            let readers: Vec<_> =
                readers.iter().map(|rng| scope.spawn(move || read(stage, rng.clone()))).collect();
            let cut = match cut_call {
                Some(_) => wait_for_cut(stage, || writers.iter().all(|w| w.is_finished())),
                None => {
                    std::thread::sleep(Duration::from_micros(seed % 20_000));
                    stage.db.clone().close().expect("it closes");
                    disk.sim.kill()
                }
            };
            drop(stopper);
            let done: Vec<_> = writers.into_iter().map(|w| w.join().expect("it ends")).collect();
            let reads: Vec<_> =
                readers.into_iter().flat_map(|r| r.join().expect("it ends")).collect();
            (done, reads, cut)
        });
        disk.die();
        let durable = stage.durable.into_inner();
        for (done, acknowledged) in &mut done {
            let before = done.partition_point(|did| did.epochs.1 <= durable);
            *acknowledged = before.max(*acknowledged);
        }
        drop(db);
        if cut_call.is_none() {
            self.closes += 1;
            // All that has returned is durable.
            done.iter_mut().for_each(|(done, acknowledged)| *acknowledged = done.len());
        }
        self.judge(cut, &options, &done, &reads)
    }

    /// Opens the pool again and holds it against what the threads did. Returns the disk.
    fn judge(
        &mut self,
        cut: SimIo,
        options: &Options,
        done: &[(Vec<Did>, usize)],
        reads: &[Read],
    ) -> SimIo {
        let disk = Disk::new(cut);
        let options = options.clone().background(false);
        let db = Life::open(&disk, &options).expect("it opens").db;
        let epoch = db.durable_epoch();
        inspect(&db, "after the cut");
        let (own, shared) = content(&db);
        let mut kept = Vec::new();
        for (t, (done, acknowledged)) in done.iter().enumerate() {
            let found = self.judge_own(t, done, epoch, &own[t]);
            assert!(found.at_most >= *acknowledged, "thread {t}: {acknowledged} lost, {found:?}");
            self.kept += found.at_most as u64;
            self.lost += (done.len() - found.at_most) as u64;
            kept.push(Kept { surely: found.surely.max(*acknowledged), ..found });
        }
        let history = History { life: self.life, done, kept: &kept, base: &self.shared };
        for n in 0..SHARED_KEYS {
            history.judge(n, shared.get(&n).copied(), reads);
        }
        self.reads += reads.len() as u64;
        (self.own, self.shared) = (own, shared);
        match self.rng.below(2) {
            0 => db.close().expect("it closes"),
            _ => disk.die(),
        }
        disk.sim.clone()
    }

    /// How many operations of a thread are there, by its own keys: those up to the epoch.
    fn judge_own(&self, t: usize, done: &[Did], epoch: u64, found: &Own) -> Kept {
        assert!(done.is_sorted_by_key(|did| did.epochs), "epochs go back");
        let surely = done.partition_point(|did| did.epochs.1 <= epoch);
        let at_most = done.partition_point(|did| did.epochs.0 <= epoch);
        let mut wanted = self.own.get(t).cloned().unwrap_or_default();
        let mut fits = Vec::new();
        for (i, did) in done[..at_most].iter().enumerate() {
            if i >= surely && wanted == *found {
                fits.push(i);
            }
            do_own(&mut wanted, self.life, t as u64, i, did);
        }
        if wanted == *found {
            fits.push(at_most);
        }
        let (Some(surely), Some(at_most)) = (fits.first(), fits.last()) else {
            panic!("thread {t}: neither {surely} nor {at_most} operations, epoch {epoch}");
        };
        Kept { surely: *surely, at_most: *at_most }
    }
}

/// Waits for the cut, or makes one when all writers are through. Ends the process if neither comes:
/// threads that stand still cannot be joined.
fn wait_for_cut(stage: &Stage<'_>, is_through: impl Fn() -> bool) -> SimIo {
    let start = Instant::now();
    loop {
        if start.elapsed() > Duration::from_secs(120) {
            let what = format!("life {}: no cut, and writers stand still\n", stage.life);
            // Past the test harness, which would show it when the test ends.
            std::io::stderr().write_all(what.as_bytes()).expect("it takes it");
            std::process::abort();
        }
        if let Some(cut) = stage.sim.take_cut() {
            return cut;
        }
        if is_through() {
            stage.db.sync().expect("the disk works");
            return stage.sim.take_cut().unwrap_or_else(|| stage.sim.power_cut(stage.life));
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// The content of the pool: each thread's own keys, and the shared ones.
fn content(db: &Db) -> (Vec<Own>, BTreeMap<u64, Tag>) {
    let (mut own, mut shared) = (vec![Own::new(); WRITERS as usize], BTreeMap::new());
    for (tree, name) in ["own", "shared"].into_iter().enumerate() {
        let Some(found) = db.open_tree(name).expect("it reads") else { continue };
        for pair in &found {
            let (key, value) = pair.expect("it reads");
            let (text, tag) = (String::from_utf8(key.to_vec()).expect("a key"), tag_of(&value));
            match text.strip_prefix("shared/") {
                Some(n) => drop(shared.insert(n.parse().expect("a number"), tag)),
                None => {
                    let thread: usize = text[text.len() - 1..].parse().expect("a number");
                    own[thread].insert((tree, key.into()), tag);
                }
            }
        }
    }
    (own, shared)
}

/// The history of shared keys. Each write returned what it replaced, so all writes of a key from
/// one removal to the next are a chain.
struct History<'a> {
    life: u64,
    done: &'a [(Vec<Did>, usize)],
    kept: &'a [Kept],
    base: &'a BTreeMap<u64, Tag>,
}

#[derive(Clone, Copy)]
struct Step<'a> {
    did: &'a Did,
    /// The tag that it wrote; `None` if it removed.
    tag: Option<Tag>,
    is_surely_there: bool,
    may_be_there: bool,
}

impl<'a> History<'a> {
    fn steps(&self, key: u64) -> Vec<Step<'a>> {
        let mut steps = Vec::new();
        for (t, ((done, _), kept)) in self.done.iter().zip(self.kept).enumerate() {
            for (i, did) in done.iter().enumerate() {
                let What::Shared(n, set) = did.what else { continue };
                if n == key {
                    steps.push(Step {
                        did,
                        tag: set.then(|| tag(self.life, t as u64, i)),
                        is_surely_there: i < kept.surely,
                        may_be_there: i < kept.at_most,
                    });
                }
            }
        }
        steps
    }

    fn judge(&self, key: u64, found: Option<Tag>, reads: &[Read]) {
        let steps = self.steps(key);
        let base = self.base.get(&key).copied();
        let writes: HashMap<Tag, Step<'_>> =
            steps.iter().filter_map(|step| Some((step.tag?, *step))).collect();
        let mut replaced: HashMap<Tag, Step<'_>> = HashMap::new();
        for step in &steps {
            let Some(old) = step.did.old else { continue };
            assert!(replaced.insert(old, *step).is_none(), "key {key}: {old:#x} replaced twice");
            match writes.get(&old) {
                Some(write) => {
                    assert!(write.did.time.0 < step.did.time.1, "key {key}: replaced too early");
                    let (epoch, before) = (step.did.epochs.1, write.did.epochs.0);
                    assert!(epoch >= before, "key {key}: {before} replaced in {epoch}");
                }
                None => assert_eq!(Some(old), base, "key {key}: replaced, and never written"),
            }
        }
        // Whether the tag is there, or what replaced it.
        let is_followed = |tag: Tag| {
            let mut at = tag;
            loop {
                if Some(at) == found {
                    return true;
                }
                match replaced.get(&at).filter(|step| step.may_be_there) {
                    None => return false,
                    Some(Step { tag: Some(next), .. }) => at = *next,
                    Some(Step { tag: None, .. }) => return true,
                }
            }
        };
        let surely = steps.iter().filter(|step| step.is_surely_there).filter_map(|step| step.tag);
        for tag in surely.chain(base) {
            assert!(is_followed(tag), "key {key}: {tag:#x} is lost, {found:x?} is there");
        }
        if let Some(tag) = found {
            let written = writes.get(&tag).map_or(base == found, |step| step.may_be_there);
            assert!(written, "key {key}: {tag:#x} is of a later epoch, or never written");
            let gone = replaced.get(&tag).is_some_and(|step| step.is_surely_there);
            assert!(!gone, "key {key}: what replaced {tag:#x} is lost");
        }
        for read in reads.iter().filter(|read| read.key == key) {
            let Some(tag) = read.found else { continue };
            let early = writes.get(&tag).is_some_and(|step| step.did.time.0 > read.time.1);
            let late = replaced.get(&tag).is_some_and(|step| step.did.time.1 < read.time.0);
            assert!(!early && !late, "key {key}: {tag:#x} was not there when it was read");
            assert!(writes.contains_key(&tag) || base == read.found, "key {key}: never written");
            assert!(
                !read.synced || is_followed(tag),
                "key {key}: {tag:#x} was synced, and is lost"
            );
        }
    }
}

#[test]
fn threads_lose_the_same_epochs_and_nothing_that_was_synced() {
    let rounds = count(100, 500);
    let seed = seed_or(1);
    println!("EVERLEAF_SEED={seed}");
    let (rng, own, shared) = (Rng(seed), Vec::new(), BTreeMap::new());
    let mut lives = Lives { rng, life: 0, own, shared, closes: 0, kept: 0, lost: 0, reads: 0 };
    let mut sim = SimIo::new(seed);
    for _ in 0..rounds {
        sim = lives.live(sim);
    }
    let Lives { closes, kept, lost, reads, .. } = lives;
    println!("{rounds} lives, {closes} closed, {kept} operations kept, {lost} lost, {reads} reads");
    assert!(kept > 0 && reads > 0 && (closes > 0 || rounds < 100));
}
