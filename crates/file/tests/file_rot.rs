//! Stray sectors and rotten bits: what comes back is the end of an epoch, or an error that names the
//! place; never wrong data. Acknowledged epochs may be missing only if the damage cannot be told from
//! a commit that was cut off, which this test works out for itself.
//!
//! `EVERLEAF_ROT` says how many damaged disks (default 6,000; a quarter as many for each of two sizes of
//! whole pages), `EVERLEAF_SEED` replays one run.

use everleaf_testing::number;
use std::ops::{AddAssign, Range};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use everleaf_file::io::sim::DiskPlace;
use everleaf_file::io::{SimIo, Weather};
use everleaf_pmem::{Error, Result};

mod toy;
use toy::{Model, PAGES, Rng, Toy, WHOLE, WORDS, journal_path, path, slots_of};

#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    disks: u64,
    survived: u64,
    /// Errors at the open, and when a page was touched.
    refused: u64,
    met: u64,
    /// The tail was damaged, and nothing proves it.
    lost: u64,
    /// Of two damaged places one was a block and one the only proof that it had been durable.
    beyond: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.disks += other.disks;
        self.survived += other.survived;
        self.refused += other.refused;
        self.met += other.met;
        self.lost += other.lost;
        self.beyond += other.beyond;
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |b| u32::from_le_bytes(b.try_into().expect("four bytes")))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |b| u64::from_le_bytes(b.try_into().expect("eight bytes")))
}

/// A block as docs/FORMAT.md has it.
struct Block {
    path: PathBuf,
    /// Head and payload.
    bytes: Range<u64>,
    head: Vec<u8>,
    generation: u64,
    epoch: u64,
}

/// The blocks of both journals of a disk that nothing has damaged.
fn blocks(io: &SimIo) -> Vec<Block> {
    let mut all = Vec::new();
    for path in (0..2).map(journal_path) {
        let bytes = io.peek(&path).unwrap_or_default();
        let generation = u64_at(&bytes, 32);
        let mut at = 4096;
        while u32_at(&bytes, at) == 0x4b4c_4245 && u64_at(&bytes, at + 8) == generation {
            let end = at + 40 + u64_at(&bytes, at + 24) as usize;
            let head = bytes[at..at + 40].to_vec();
            let epoch = u64_at(&head, 16);
            let place = at as u64..end as u64;
            all.push(Block { path: path.clone(), bytes: place, head, generation, epoch });
            at = end.next_multiple_of(4096);
        }
    }
    all
}

/// Whether the superblock or a journal header of a disk says that a block was durable.
fn proved(io: &SimIo, block: &Block) -> bool {
    let (mut floor, mut epoch) = (0, 0);
    let data = io.peek(&path()).unwrap_or_default();
    let good =
        |copy: &&[u8]| copy.len() == 4096 && u32_at(copy, 4092) == crc32c::crc32c(&copy[..4092]);
    let newest = data.chunks(4096).take(2).filter(good).max_by_key(|copy| u64_at(copy, 64));
    if let Some(copy) = newest
        && u32_at(copy, 44) == 0
    {
        epoch = u64_at(copy, 120);
        floor = if u64_at(copy, 80) == block.generation { u64_at(copy, 88) } else { 0 };
    }
    for bytes in (0..2).filter_map(|i| io.peek(&journal_path(i))) {
        let good = bytes.len() >= 4096 && u32_at(&bytes, 48) == crc32c::crc32c(&bytes[..48]);
        if good && u64_at(&bytes, 32) == block.generation + 1 {
            floor = floor.max(u64::from(u32_at(&bytes, 12)) * 4096);
        }
    }
    floor > block.bytes.start || epoch >= block.epoch
}

/// Bytes that something has damaged.
struct Hit {
    path: PathBuf,
    bytes: Range<u64>,
}

impl Hit {
    fn new(place: DiskPlace, len: u64) -> Self {
        Self { path: place.path, bytes: place.offset..place.offset + len }
    }
    /// Whether it is in a home, which has a checksum of its own. Of the superblock, the journals and the
    /// double-write area the medium reads a part at an open only, and goes on without: the next damage
    /// may find nothing left that speaks against it.
    fn is_home(&self) -> bool {
        self.path == path() && self.bytes.start >= PAGES_OFFSET
    }

    /// Whether it is in the double-write area.
    fn is_double(&self) -> bool {
        self.path == path() && (8192..PAGES_OFFSET).contains(&self.bytes.start)
    }

    fn overlaps(&self, block: &Block) -> bool {
        self.path == block.path
            && self.bytes.start < block.bytes.end
            && block.bytes.start < self.bytes.end
    }
}

/// What the damage was done to.
struct Before {
    blocks: Vec<Block>,
    acknowledged: u64,
    running: u64,
}

impl Before {
    /// Whether nobody can tell that the blocks behind `epoch` were durable: the first of them is
    /// damaged, no head of a later one is left, and nothing else says how many there were.
    fn may_lose(&self, hits: &[Hit], found: &SimIo, epoch: u64) -> bool {
        let Some(first) = self.blocks.iter().filter(|b| b.epoch > epoch).min_by_key(|b| b.epoch)
        else {
            return false;
        };
        let is_left = |later: &Block| {
            let bytes = found.peek(&later.path).unwrap_or_default();
            let start = later.bytes.start as usize;
            bytes.get(start..start + 40) == Some(&later.head[..])
        };
        hits.iter().any(|hit| hit.overlaps(first))
            && !self.blocks.iter().any(|b| b.epoch > first.epoch && is_left(b))
            && !proved(found, first)
    }
}

/// Byte of the data file where the double-write area ends.
const PAGES_OFFSET: u64 = 8192 + 2 * (2 << 20);

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
                let blocks = blocks(&killed);
                return (killed, Before { blocks, acknowledged, running });
            }
        }
    }

    /// Damages the disk: by a stray sector in a power cut, by rot, or both: one place or two.
    fn damage(&mut self, killed: SimIo) -> Vec<Hit> {
        let (misdirects, rots) =
            [(true, false), (false, true), (true, true)][self.rng.below(3) as usize];
        killed.set_weather(Weather { misdirects, ..Weather::default() });
        let cut = misdirects || self.one_in(2);
        self.io = if cut { killed.power_cut(self.rng.next()) } else { killed };
        let mut hits: Vec<_> = self.io.stray().map(|s| Hit::new(s.to, 512)).into_iter().collect();
        if rots {
            // Two places at most: more could take all that proves what there was.
            let bits = if misdirects || self.one_in(2) { 1 } else { 2 };
            let places = self.io.rot(self.rng.next(), bits);
            hits.extend(places.into_iter().map(|place| Hit::new(place, 1)));
        }
        hits
    }

    /// An error that damage may cause: it says what and where.
    fn damaged(&self, error: &Error) {
        match error {
            Error::Corrupt { file: "data" | "journal 0" | "journal 1", .. } => {}
            Error::Foreign { .. } => {}
            // So damaged that it cannot be told from a file of somebody else's.
            Error::InTheWay { path, .. } if (0..2).any(|i| *path == toy::journal_path(i)) => {}
            other => panic!("{}: {other}", self.what()),
        }
    }

    /// Opens the damaged disk. A pool that is sound after all goes on.
    fn judge(&mut self, before: &Before, hits: &[Hit]) -> Option<Toy> {
        self.tally.disks += 1;
        // A copy from before the open, which may cut a journal.
        let disk = self.io.kill();
        let toy = match Toy::open_of(&self.io, slots_of(self.seed)) {
            Ok(toy) => toy,
            Err(error) => {
                self.damaged(&error);
                self.tally.refused += 1;
                return None;
            }
        };
        let (epoch, what) = (toy.file.durable_epoch(), self.what());
        assert!(epoch <= before.running, "{what}: epoch {epoch} of {}", before.running);
        let read = |no| (0..WORDS).map(|j| toy.get(no, j as u16)).collect::<Result<Vec<_>>>();
        let found: Vec<_> = (0..PAGES as u32).map(read).collect();
        let is_end_of = |epoch| {
            let state = self.model.at(epoch).1;
            found.iter().zip(&state).all(|(words, page)| words.as_ref().map_or(true, |w| w == page))
        };
        // A superblock that rot took can come back: a power cut tears the next one, which writes over
        // the rotten sector and no other. It names an epoch that held nothing when it was written and
        // has begun again since; what is there is the end of the one before, all that was acknowledged.
        let is_super = |hit: &Hit| hit.path == path() && hit.bytes.start < 8192;
        let is_older =
            !is_end_of(epoch) && is_end_of(before.acknowledged) && hits.iter().any(is_super);
        let epoch = if is_older { before.acknowledged.min(epoch) } else { epoch };
        let state = self.model.at(epoch).1;
        let is_block = |hit: &Hit| before.blocks.iter().any(|block| hit.overlaps(block));
        // Homes may hold what the block did, and nobody knows any more that it was there.
        let is_beyond = hits.iter().any(Hit::is_double) && hits.iter().any(is_block);
        let mut whole = true;
        for (no, (words, page)) in found.into_iter().zip(&state).enumerate() {
            match words {
                Ok(words) if is_beyond && &words[..] != page => {
                    self.tally.beyond += 1;
                    return None;
                }
                Ok(words) => assert_eq!(&words[..], page, "{what}: page {no}, epoch {epoch}"),
                Err(error) => {
                    self.damaged(&error);
                    whole = false;
                }
            }
        }
        let (needed, _) = self.model.at(before.acknowledged);
        if epoch < needed {
            assert!(
                before.may_lose(hits, &disk, epoch),
                "{what}: epoch {needed} was acknowledged, {epoch} recovered, and nobody said so",
            );
            self.tally.lost += 1;
        } else if whole {
            self.tally.survived += 1;
        }
        self.tally.met += u64::from(!whole);
        self.model.cut(epoch);
        (whole && hits.iter().all(Hit::is_home)).then_some(toy)
    }

    fn go(seed: u64, disks: u64) -> Tally {
        let (io, model) = (SimIo::new(seed), Model::new());
        let mut run = Run { seed, rng: Rng(seed), io, model, tally: Tally::default() };
        let mut toy = None;
        while run.tally.disks < disks {
            let sound = toy.take().unwrap_or_else(|| {
                run.io = SimIo::new(run.rng.next());
                run.model = Model::new();
                Toy::open_of(&run.io, slots_of(seed)).expect("a new pool")
            });
            let (killed, before) = run.use_until_killed(sound);
            let hits = run.damage(killed);
            toy = run.judge(&before, &hits);
        }
        run.tally
    }
}

#[test]
fn damage_is_told_or_does_no_harm() {
    if let Some(seed) = number("EVERLEAF_SEED") {
        println!("{:?}", Run::go(seed, DISKS));
        return;
    }
    runs(0, number("EVERLEAF_ROT").unwrap_or(6_000));
}

#[test]
fn damage_is_told_or_does_no_harm_on_whole_pages() {
    if number("EVERLEAF_SEED").is_some() {
        return;
    }
    let wanted = number("EVERLEAF_ROT").unwrap_or(6_000);
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
        let Tally { survived, refused, met, lost, .. } = total;
        assert!([survived, refused, met].iter().all(|n| *n >= 50) && lost > 0, "{total:?}");
    }
}
