//! Large values that come, go and are moved by cleaning, with power cuts, kills and faults at any call:
//! each value that a durable step names can be read, and what was freed is free. In two runs of three
//! epochs are spilled, and in two of five nothing but the program ends them.
//!
//! `EVERLEAF_SCALE` says how many cuts (default 2,000), `EVERLEAF_SEED` replays one run.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use everleaf_file::io::{Fault, SimIo, Weather};
use everleaf_file::{Compression, FileOptions};
use everleaf_pmem::{Change, Error, Medium, PageNo, Result};
use everleaf_testing::{count, seed};

mod toy;
use toy::{Rng, SET, Toy, options, path};

/// The page whose words name the values.
const NAMES: PageNo = 0;
/// Values that a pool can name.
const VALUES: usize = 8;
/// Runs of pages for values, and where the first one is.
const RUNS: u32 = 48;
const RUN_PAGES: u32 = 6;
const FIRST: PageNo = 8;
const PAGE_BYTES: usize = 128;
const _: () = assert!(PAGE_BYTES == 64 + 16 * 4, "pages of 4 slots");

/// A value: its run, its bytes' seed and their number. In a word, 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Value {
    run: u32,
    seed: u16,
    bytes: u32,
}

impl Value {
    fn word(self) -> u64 {
        1 << 63 | u64::from(self.run) << 48 | u64::from(self.seed) << 32 | u64::from(self.bytes)
    }
    fn of(word: u64) -> Option<Self> {
        let run = (word >> 48) as u32 & 0x7fff;
        (word != 0).then_some(Self { run, seed: (word >> 32) as u16, bytes: word as u32 })
    }
    fn first(self) -> PageNo {
        FIRST + self.run * RUN_PAGES
    }
    fn pages(self) -> u32 {
        self.bytes.div_ceil(PAGE_BYTES as u32)
    }
    fn content(self) -> Vec<u8> {
        let mut rng = Rng(u64::from(self.seed) + 1);
        let mask = if self.seed.is_multiple_of(2) { 0xff } else { 1 };
        (0..self.bytes).map(|_| rng.next() as u8 & mask).collect()
    }
}

/// Whether the program alone ends the epochs of a run.
fn is_manual(seed: u64) -> bool {
    seed % 5 < 2
}

fn value_options(seed: u64) -> FileOptions {
    let compression = if seed.is_multiple_of(3) { Compression::Lz4 } else { Compression::None };
    let (spare_extents, max_pages) = ((seed % 2 * 8) as u32, 512);
    let spill_bytes = [options().spill_bytes, 1, 150][(seed / 6 % 3) as usize];
    // Room on the disk is taken ahead from the first extent on, in some.
    let reserve_from = if seed % 8 == 5 { 0 } else { options().reserve_from };
    let manual_epochs = is_manual(seed);
    let few = FileOptions { pending_bytes: 64 << 10, reserve_from, manual_epochs, ..options() };
    FileOptions { max_pages, spare_extents, compression, spill_bytes, ..few }
}

type Names = [u64; VALUES];

struct Run {
    seed: u64,
    rng: Rng,
    io: SimIo,
    now: Names,
    /// The values named at the end of each epoch.
    ends: BTreeMap<u64, Names>,
    /// The value that was in a run, and the epoch that must be durable before the run is used again.
    freed: [Option<(Value, u64)>; RUNS as usize],
    storm: u32,
    cuts: u64,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut rng = Rng(seed);
        let storm = [0, 0, 20, 100][rng.below(4) as usize];
        let ends = BTreeMap::from([(0, [0; VALUES])]);
        let (io, now, freed) = (SimIo::new(seed), [0; VALUES], [None; RUNS as usize]);
        Self { seed, rng, io, now, ends, freed, storm, cuts: 0 }
    }

    fn what(&self) -> String {
        format!("EVERLEAF_SEED={} cut {}", self.seed, self.cuts)
    }

    /// Puts a value in the place of another one, or removes it.
    fn set(&mut self, toy: &Toy) -> Result<()> {
        let durable = toy.file.durable_epoch();
        let named = |run: u32, now: &Names| {
            now.iter().filter_map(|word| Value::of(*word)).any(|value| value.run == run)
        };
        for run in 0..RUNS {
            if let Some((value, epoch)) = self.freed[run as usize]
                && epoch <= durable
            {
                toy.file.extent_release(value.first(), value.pages());
                self.freed[run as usize] = None;
            }
        }
        let free = |run: &u32| self.freed[*run as usize].is_none() && !named(*run, &self.now);
        let free: Vec<u32> = (0..RUNS).filter(free).collect();
        let name = self.rng.below(VALUES as u64) as usize;
        let old = Value::of(self.now[name]);
        let mut new = None;
        if !free.is_empty() && self.rng.below(3) != 0 {
            let run = free[self.rng.below(free.len() as u64) as usize];
            let bytes = 1 + self.rng.below(u64::from(RUN_PAGES) * PAGE_BYTES as u64) as u32;
            let value = Value { run, seed: self.rng.next() as u16, bytes };
            let written = toy.file.extent_write(value.first(), 0, &value.content());
            if written.is_err() || self.rng.below(10) == 0 {
                toy.file.extent_discard(value.first(), value.pages());
                return written;
            }
            new = Some(value);
        }
        let _ = toy.file.throttle(true);
        let (page, held) = toy.latch(NAMES)?;
        let mut op = toy.file.enter_for(64)?;
        if let Some(value) = new {
            toy.file.extent_adopt(&mut op, value.first(), value.pages());
        }
        if let Some(value) = old {
            toy.file.extent_forget(&mut op, value.first(), value.pages());
            self.freed[value.run as usize] = Some((value, toy.file.epoch(&op)));
        }
        let word = new.map_or(0, Value::word);
        let mut bytes = [0; 10];
        bytes[..2].copy_from_slice(&(name as u16).to_le_bytes());
        bytes[2..].copy_from_slice(&word.to_le_bytes());
        toy.file.store(page.body_word(name), word);
        toy.file.note(&mut op, page, Change { tag: SET, bytes: &bytes });
        self.now[name] = word;
        self.ends.insert(toy.file.epoch(&op), self.now);
        drop((op, held));
        Ok(())
    }

    /// Reads what the pool names, and checks each value, also parts of it.
    fn check(&mut self, toy: &Toy, wanted: &Names) -> Result<()> {
        let what = self.what();
        for (i, word) in wanted.iter().enumerate() {
            assert_eq!(toy.get(NAMES, i as u16)?, *word, "{what}: name {i}");
            let Some(value) = Value::of(*word) else { continue };
            let content = value.content();
            let from = self.rng.below(u64::from(value.bytes)) as usize;
            for from in [0, from] {
                let mut found = vec![0; content.len() - from];
                toy.file.extent_read(value.first(), from as u64, &mut found)?;
                assert!(found == content[from..], "{what}: {value:?} from {from}");
            }
        }
        Ok(())
    }

    fn calm(&self) {
        self.io.set_weather(Weather::default());
        self.io.heal();
    }

    /// Uses the pool until the power is cut, or writes have stopped.
    fn use_until_end(&mut self, toy: Toy) -> (u64, u64) {
        let seed = (self.rng.below(4) != 0).then(|| self.rng.next());
        self.io.cut_at(self.io.calls() + self.rng.below(80), seed);
        let storm = self.storm;
        self.io.set_weather(Weather { storm, faults: &Fault::ALL, ..Weather::default() });
        loop {
            let acknowledged = toy.file.durable_epoch();
            let result = match self.rng.below(20) {
                0 => toy.checkpoint(),
                1 if self.rng.below(8) == 0 => {
                    toy.drain().and_then(|()| toy.file.compact(&mut |_| ()))
                }
                2 | 3 if is_manual(self.seed) => toy.file.end_epoch().map(drop),
                2..5 => toy.file.tick(),
                5 => {
                    let now = self.now;
                    self.check(&toy, &now)
                }
                _ => self.set(&toy),
            };
            if let Some(cut) = self.io.take_cut() {
                let running = toy.file.clock();
                toy.abandon();
                self.io = cut;
                self.cuts += 1;
                return (acknowledged, running);
            }
            if let Err(error) = result {
                assert!(storm > 0, "{}: {error} without a fault", self.what());
                if toy.file.poisoned().is_some() {
                    let bounds = (toy.file.durable_epoch(), toy.file.clock());
                    self.calm();
                    toy.abandon();
                    self.io = self.io.power_cut(self.rng.next());
                    self.cuts += 1;
                    return bounds;
                }
            }
        }
    }

    fn recover(&mut self, (acknowledged, running): (u64, u64)) -> Toy {
        self.calm();
        self.io.cut_at(u64::MAX, None);
        let what = self.what();
        let toy = Toy::open_with(&self.io, &path(), &value_options(self.seed));
        let toy = toy.unwrap_or_else(|e| panic!("{what}: {e}"));
        let epoch = toy.file.durable_epoch();
        let last = |epoch: u64| self.ends.range(..=epoch).next_back().expect("epoch 0");
        let needed = *last(acknowledged).0;
        assert!((needed..=running).contains(&epoch), "{what}: {epoch} of {needed}..={running}");
        let wanted = *last(epoch).1;
        self.check(&toy, &wanted).unwrap_or_else(|e| panic!("{what}: {e}"));
        self.ends.retain(|e, _| *e <= epoch);
        self.now = wanted;
        // Their readers are gone, and anything not named is free.
        self.freed = [None; RUNS as usize];
        // The size of a compressed table is not known here.
        if !self.seed.is_multiple_of(3) && self.rng.below(4) == 0 {
            self.expect_no_leak(&toy);
        }
        toy
    }

    /// After a checkpoint nothing is alive but the pages, the table, and what is named.
    fn expect_no_leak(&self, toy: &Toy) {
        let what = self.what();
        toy.checkpoint().unwrap_or_else(|e| panic!("{what}: {e}"));
        toy.tick_and_checkpoint();
        let image = |bytes: usize| (48 + bytes).next_multiple_of(16) as u64;
        let named = self.now.iter().filter_map(|word| Value::of(*word));
        let pieces = named.flat_map(|value| {
            let pages = value.bytes as usize / PAGE_BYTES;
            let rest = value.bytes as usize % PAGE_BYTES;
            std::iter::repeat_n(PAGE_BYTES, pages).chain((rest > 0).then_some(rest))
        });
        let values: u64 = pieces.map(image).sum();
        let pages = toy::PAGES as u64 * image(PAGE_BYTES) + image(512 * 16);
        let live = toy.file.stats().live_bytes;
        assert_eq!(live, pages + values, "{what}: {:?}", self.now);
    }

    fn go(seed: u64, cuts: u64) -> u64 {
        everleaf_testing::at_seed(seed);
        let mut run = Run::new(seed);
        let mut toy = run.recover((0, 1));
        while run.cuts < cuts {
            let bounds = run.use_until_end(toy);
            toy = run.recover(bounds);
        }
        run.cuts
    }
}

impl Toy {
    /// The next checkpoint forgets what one was asked to forget while it ran.
    fn tick_and_checkpoint(&self) {
        self.file.tick().and_then(|()| self.checkpoint()).expect("no fault");
    }
}

#[test]
fn values_survive_what_is_cut_and_leave_nothing_behind() {
    if let Some(seed) = seed() {
        println!("{} cuts", Run::go(seed, 24));
        return;
    }
    let wanted = count(2_000, 60_000);
    let (seeds, total) = (AtomicU64::new(1), Mutex::new(0));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while *total.lock().expect("no run has failed") < wanted {
                    let cuts = Run::go(seeds.fetch_add(1, Ordering::Relaxed), 24);
                    *total.lock().expect("no run has failed") += cuts;
                }
            });
        }
    });
    println!("{} cuts", total.lock().expect("no run has failed"));
}

#[test]
fn a_value_that_was_never_written_is_damage_and_no_panic() {
    let io = SimIo::new(1);
    let toy = Toy::open_with(&io, &path(), &value_options(1)).expect("new");
    let found = toy.file.extent_read(40, 0, &mut [0; 300]);
    assert!(matches!(found, Err(Error::Corrupt { .. })), "{found:?}");
    let outside = toy.file.extent_write(511, 0, &[1; 300]);
    assert!(matches!(outside, Err(Error::Invalid { .. })), "{outside:?}");
    let within = toy.file.extent_write(40, 5, &[1]);
    assert!(matches!(within, Err(Error::Invalid { .. })), "{within:?}");
}
