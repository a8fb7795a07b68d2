//! Stray sectors and rotten bits: what comes back is the end of an epoch, or an error that names the
//! place; never wrong data. Damage of bytes that nobody needs any more, and of one of the two superblocks,
//! does no harm at all. Acknowledged epochs may be missing only if the damage cannot be told from a
//! commit that was cut off, which this test works out for itself.
//!
//! `EVERLEAF_SCALE` says how many damaged disks (default 2,000; a quarter as many for each of two sizes of
//! whole pages), `EVERLEAF_SEED` replays one run.

use everleaf_testing::{count, seed};
use std::ops::{AddAssign, Range};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use everleaf_file::io::sim::DiskPlace;
use everleaf_file::io::{SimIo, Weather};
use everleaf_pmem::{Error, Result};

mod raw;
mod toy;
use raw::{Block, Raw, SUPER};
use toy::{Model, PAGES, Rng, State, Toy, WHOLE, WORDS, path, slots_of};

#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    disks: u64,
    survived: u64,
    /// Of those, where only what nobody needs was damaged, and where a superblock was.
    harmless: u64,
    supers: u64,
    /// Errors at the open, and when a page was touched.
    refused: u64,
    met: u64,
    /// The tail was damaged, and nothing proves it.
    lost: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.disks += other.disks;
        self.survived += other.survived;
        self.harmless += other.harmless;
        self.supers += other.supers;
        self.refused += other.refused;
        self.met += other.met;
        self.lost += other.lost;
    }
}

/// Bytes that something has damaged.
#[derive(Debug)]
struct Hit(Range<u64>);

impl Hit {
    fn new(place: DiskPlace, len: u64) -> Self {
        assert_eq!(place.path, path(), "the pool is one file");
        Self(place.offset..place.offset + len)
    }

    fn overlaps(&self, bytes: &Range<u64>) -> bool {
        self.0.start < bytes.end && bytes.start < self.0.end
    }

    fn is_super(&self) -> bool {
        self.0.start < 2 * SUPER
    }
}

/// The pool before it was damaged.
struct Before {
    blocks: Vec<Block>,
    /// Where what either superblock needs begins and ends: images, and blocks of the journal.
    needed: Vec<Range<u64>>,
    acknowledged: u64,
    running: u64,
}

impl Before {
    fn of(raw: &Raw, acknowledged: u64, running: u64) -> Before {
        let (mut blocks, mut needed) = (Vec::<Block>::new(), Vec::new());
        for superblock in raw.supers().into_iter().flatten() {
            for block in raw.blocks(superblock) {
                if blocks.iter().all(|known| known.number != block.number) {
                    needed.push(block.bytes.clone());
                    blocks.push(block);
                }
            }
            needed.extend(raw.images(superblock).into_iter().map(|(_, placed)| placed.range()));
        }
        Before { blocks, needed, acknowledged, running }
    }

    /// Whether what was damaged is needed by nobody: bytes that are dead, or one superblock of two.
    fn is_harmless(&self, hits: &[Hit], damaged: &Raw) -> bool {
        let hits_needed = |hit: &Hit| self.needed.iter().any(|bytes| hit.overlaps(bytes));
        damaged.supers().iter().any(Option::is_some) && !hits.iter().any(hits_needed)
    }

    /// Whether nobody can tell that the blocks behind `epoch` were durable: the first of them is
    /// damaged, no head of a later one is left, and no superblock says how many there were.
    fn may_lose(&self, hits: &[Hit], damaged: &Raw, epoch: u64) -> bool {
        let Some(first) = self.blocks.iter().filter(|b| b.epoch > epoch).min_by_key(|b| b.number)
        else {
            return false;
        };
        let is_left = |later: &Block| {
            let start = later.bytes.start as usize;
            damaged.0.get(start..start + 60) == Some(&later.head[..60])
        };
        hits.iter().any(|hit| hit.overlaps(&first.bytes))
            && !self.blocks.iter().any(|b| b.epoch > first.epoch && is_left(b))
            && !damaged.supers().into_iter().flatten().any(|copy| copy.floor > first.number)
    }
}

struct Run {
    seed: u64,
    rng: Rng,
    io: SimIo,
    model: Model,
    tally: Tally,
}

impl Run {
    fn what(&self) -> String {
        format!("EVERLEAF_SEED={} disk {}", self.seed, self.tally.disks)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.rng.below(n) == 0
    }

    fn set(&mut self, toy: &Toy) -> Result<()> {
        let changes = self.model.transfer(&mut self.rng);
        let epoch = toy.set(&changes)?;
        self.model.set(epoch, &changes);
        Ok(())
    }

    /// Uses the pool, and maybe closes it, until the process is killed.
    fn use_until_killed(&mut self, toy: Toy) -> (SimIo, Before) {
        self.io.cut_at(self.io.calls() + 1 + self.rng.below(60), None);
        let (ticks, checkpoints) = (2 + self.rng.below(12), self.rng.below(3));
        let mut toy = Some(toy);
        loop {
            let file = &toy.as_ref().expect("not closed").file;
            let (mut acknowledged, mut running) = (file.durable_epoch(), file.clock());
            if self.one_in(150) {
                toy.take().expect("not closed").close().expect("no fault");
            } else {
                let toy = toy.as_ref().expect("not closed");
                match self.rng.below(100) {
                    n if n < checkpoints => toy.checkpoint().expect("no fault"),
                    n if n <= ticks + checkpoints => toy.file.tick().expect("no fault"),
                    _ => self.set(toy).expect("no fault"),
                }
                running = toy.file.clock();
            }
            let killed = self.io.take_cut().or_else(|| {
                // All is durable, and the process has ended.
                acknowledged = if toy.is_none() { running } else { acknowledged };
                toy.is_none().then(|| self.io.clone())
            });
            if let Some(killed) = killed {
                toy.into_iter().for_each(Toy::abandon);
                let before = Before::of(&Raw::of(&killed), acknowledged, running);
                return (killed, before);
            }
        }
    }

    /// Damages the disk: by a stray sector in a power cut, by rot, or both: one place or two. Says what the disk is then.
    fn damage(&mut self, killed: SimIo, before: &mut Before) -> (Vec<Hit>, Raw) {
        let (misdirects, rots) =
            [(true, false), (false, true), (true, true)][self.rng.below(3) as usize];
        killed.set_weather(Weather { misdirects, ..Weather::default() });
        let cut = misdirects || self.one_in(2);
        self.io = if cut { killed.power_cut(self.rng.next()) } else { killed };
        // A cut may take back the newer one of two superblocks that were as good as written.
        let raw = Raw::of(&self.io);
        before.needed.extend(Before::of(&raw, before.acknowledged, before.running).needed);
        if misdirects {
            // And what that one needs may have been hit by the same cut.
            let supers = raw.supers().into_iter().flatten();
            before.needed.extend(supers.flat_map(|superblock| raw.behind_chain(superblock)));
        }
        let mut hits: Vec<_> = self.io.stray().map(|s| Hit::new(s.to, 512)).into_iter().collect();
        let damaged = if rots {
            // Two places at most: more could take all that proves what there was.
            let bits = if misdirects || self.one_in(2) { 1 } else { 2 };
            let places = self.io.rot(self.rng.next(), bits);
            hits.extend(places.into_iter().map(|place| Hit::new(place, 1)));
            Raw::of(&self.io)
        } else {
            raw
        };
        (hits, damaged)
    }

    /// An error that damage may cause: it says where, and that is where something damaged begins.
    fn damaged(&self, error: &Error, before: &Before, hits: &[Hit]) {
        let (what, hits_super) = (self.what(), hits.iter().any(Hit::is_super));
        // A power cut may have torn one, and the damage be in the other.
        let has_super = || Raw::of(&self.io).supers().iter().any(Option::is_some);
        let has_magic = || {
            let raw = Raw::of(&self.io);
            [0, 4096].iter().any(|at| raw.0[*at..].starts_with(b"EVERLEAF"))
        };
        match error {
            Error::Corrupt { offset: 0, .. } if hits_super && !has_super() => {}
            Error::Foreign { .. } if hits_super && !has_magic() => {}
            Error::Corrupt { offset, .. } => {
                let is_there = |hit: &Hit| {
                    before.needed.iter().any(|bytes| bytes.start == *offset && hit.overlaps(bytes))
                };
                assert!(hits.iter().any(is_there), "{what}: {error}, hit {hits:?}");
            }
            other => panic!("{what}: {other}, hit {hits:?}"),
        }
    }

    /// Reads each page: its words are those of the state, or an error says where it is damaged.
    /// Says whether there was no error.
    fn compare(&self, toy: &Toy, state: &State, before: &Before, hits: &[Hit]) -> bool {
        let read = |no| (0..WORDS).map(|j| toy.get(no, j as u16)).collect::<Result<Vec<_>>>();
        let mut whole = true;
        for (no, page) in (0..PAGES as u32).zip(state) {
            match read(no) {
                Ok(words) => assert_eq!(&words[..], page, "{}: page {no}", self.what()),
                Err(error) => {
                    self.damaged(&error, before, hits);
                    whole = false;
                }
            }
        }
        whole
    }

    /// Opens the damaged disk. A pool that is sound after all goes on.
    fn judge(&mut self, before: &Before, hits: &[Hit], damaged: &Raw) -> Option<Toy> {
        self.tally.disks += 1;
        let what = self.what();
        let is_harmless = before.is_harmless(hits, damaged);
        let toy = match Toy::open_of(&self.io, slots_of(self.seed)) {
            Ok(toy) => toy,
            Err(error) => {
                assert!(!is_harmless, "{what}: {error}, yet nobody needs {hits:?}");
                self.damaged(&error, before, hits);
                self.tally.refused += 1;
                return None;
            }
        };
        let epoch = toy.file.durable_epoch();
        assert!(epoch <= before.running, "{what}: epoch {epoch} of {}", before.running);
        let whole = self.compare(&toy, &self.model.at(epoch).1, before, hits);
        let (needed, _) = self.model.at(before.acknowledged);
        let is_lost = epoch < needed;
        if is_lost {
            assert!(
                before.may_lose(hits, damaged, epoch),
                "{what}: epoch {needed} was acknowledged, {epoch} recovered, and nobody said so",
            );
        }
        assert!(!is_harmless || whole && !is_lost, "{what}: nobody needs {hits:?}");
        let tally = &mut self.tally;
        tally.lost += u64::from(is_lost);
        tally.met += u64::from(!whole);
        tally.survived += u64::from(whole && !is_lost);
        tally.harmless += u64::from(is_harmless);
        tally.supers += u64::from(is_harmless && hits.iter().any(Hit::is_super));
        self.model.cut(epoch);
        // A pool that has only one superblock or lacks blocks may not stand the next damage.
        (is_harmless && !hits.iter().any(Hit::is_super)).then_some(toy)
    }

    fn go(seed: u64, disks: u64) -> Tally {
        everleaf_testing::at_seed(seed);
        let (io, model) = (SimIo::new(seed), Model::new());
        let mut run = Run { seed, rng: Rng(seed), io, model, tally: Tally::default() };
        let mut toy = None;
        while run.tally.disks < disks {
            let sound = toy.take().unwrap_or_else(|| {
                run.io = SimIo::new(run.rng.next());
                run.model = Model::new();
                Toy::open_of(&run.io, slots_of(seed)).expect("a new pool")
            });
            let (killed, mut before) = run.use_until_killed(sound);
            let (hits, damaged) = run.damage(killed, &mut before);
            toy = run.judge(&before, &hits, &damaged);
        }
        run.tally
    }
}

#[test]
fn damage_is_told_or_does_no_harm() {
    if let Some(seed) = seed() {
        println!("{:?}", Run::go(seed, DISKS));
        return;
    }
    runs(0, count(2_000, 200_000));
}

#[test]
fn damage_is_told_or_does_no_harm_on_whole_pages() {
    if seed().is_some() {
        return;
    }
    let wanted = count(2_000, 200_000);
    WHOLE.into_iter().for_each(|before| runs(before, wanted / 4));
}

const DISKS: u64 = 32;

/// Runs of the seeds behind `before`, until so many disks were damaged.
fn runs(before: u64, wanted: u64) {
    let start = Instant::now();
    let (seeds, total) = (AtomicU64::new(before + 1), Mutex::new(Tally::default()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while total.lock().expect("no run has failed").disks < wanted {
                    let tally = Run::go(seeds.fetch_add(1, Ordering::Relaxed), DISKS);
                    *total.lock().expect("no run has failed") += tally;
                }
            });
        }
    });
    let total = *total.lock().expect("no run has failed");
    let rate = total.disks as f64 / start.elapsed().as_secs_f64();
    println!("{} damaged disks, {rate:.0} a second: {total:?}", total.disks);
    if wanted >= 6_000 {
        let Tally { survived, harmless, supers, refused, met, lost, .. } = total;
        let counts = [survived, harmless, supers, refused, met];
        assert!(counts.iter().all(|n| *n >= 50) && lost > 0, "{total:?}");
    }
}
