//! The promises of the page store: nothing that is needed is written over, space comes back, a file is as
//! short as what is alive in it, and large values are there with the step that adopts them or not at all.
//!
//! `EVERLEAF_SCALE` says how many random runs (default 4), `EVERLEAF_SEED` replays one.

use everleaf_file::io::{Access, Io, SimIo};
use everleaf_file::{FileOptions, PageUse};
use everleaf_pmem::{Error, PageNo};
use everleaf_testing::{count, seed};

mod raw;
mod toy;
mod watch;
use raw::{Live, Raw};
use toy::{Model, Rng, Toy, check, options, path};
use watch::{Watch, length};

const MIB: u64 = 1 << 20;
/// The runs of page numbers that values get, and the pages of each.
const RUNS: usize = 16;
const RUN_PAGES: u32 = 64;

/// A large value: what its bytes are made of, and how many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Value {
    id: u64,
    len: usize,
}

impl Value {
    fn bytes(self) -> Vec<u8> {
        Rng(self.id).bytes(self.len)
    }
}

type Values = [Option<Value>; RUNS];

fn first(run: usize) -> PageNo {
    64 + run as u32 * RUN_PAGES
}

struct Run {
    seed: u64,
    rng: Rng,
    watch: Watch,
    model: Model,
    /// Values as they are now, and at the ends of epochs.
    now: Values,
    ends: Vec<(u64, Values)>,
    /// Values that were written and not adopted.
    pending: Values,
    /// Values that a step has freed, in that epoch: they can be read until they are released.
    freed: [Option<(Value, u64)>; RUNS],
    /// Whether one was released: for how long it can be read is nobody's business.
    had: [bool; RUNS],
    slots: u32,
    cuts: u64,
}

impl Run {
    fn new(seed: u64) -> Run {
        Run {
            seed,
            rng: Rng(seed),
            watch: Watch::new(SimIo::new(seed)),
            model: Model::new(),
            now: Values::default(),
            ends: vec![(0, Values::default())],
            pending: Values::default(),
            freed: Default::default(),
            had: [false; RUNS],
            slots: [28, 60, 252][seed as usize % 3],
            cuts: 0,
        }
    }

    fn what(&self) -> String {
        format!("EVERLEAF_SEED={} cut {}", self.seed, self.cuts)
    }

    fn page_bytes(&self) -> usize {
        64 + 16 * self.slots as usize
    }

    fn pages(&self, value: Value) -> u32 {
        value.len.div_ceil(self.page_bytes()) as u32
    }

    fn open(&mut self) -> Toy {
        (self.pending, self.freed, self.had) = Default::default();
        let reserve_from = if self.seed % 8 == 5 { 0 } else { options().reserve_from };
        let few = FileOptions { pending_bytes: 64 << 10, reserve_from, ..options() };
        let options = FileOptions { slots: self.slots, max_pages: 2048, ..few };
        let what = self.what();
        Toy::open_with(&self.watch, &path(), &options).unwrap_or_else(|e| panic!("{what}: {e}"))
    }

    /// A run in which there is a value, or is none.
    fn pick(&mut self, has: impl Fn(&Run, usize) -> bool) -> Option<usize> {
        let from = self.rng.below(RUNS as u64) as usize;
        (from..from + RUNS).map(|run| run % RUNS).find(|run| has(self, *run))
    }

    fn write(&mut self, toy: &Toy) -> Option<usize> {
        let is_free = |r: &Run, run: usize| {
            r.now[run].is_none() && r.pending[run].is_none() && r.freed[run].is_none()
        };
        let run = self.pick(is_free)?;
        let most = (self.page_bytes() * RUN_PAGES as usize) as u64;
        let len = 1 + self.rng.below([most, 3 * self.page_bytes() as u64][run % 2]) as usize;
        let value = Value { id: self.rng.next(), len };
        // In one call or several, each of whole pages but for the last.
        let bytes = value.bytes();
        let step = self.page_bytes() * (1 + self.rng.below(RUN_PAGES.into()) as usize);
        for (i, part) in bytes.chunks(step).enumerate() {
            let written = toy.file.extent_write(first(run), (i * step) as u64, part);
            written.unwrap_or_else(|e| panic!("{}: {e}", self.what()));
        }
        self.pending[run] = Some(value);
        Some(run)
    }

    /// A step that changes words, adopts one value and frees another.
    fn step(&mut self, toy: &Toy, adopts: Option<usize>, frees: Option<usize>) {
        let changes = self.model.transfer(&mut self.rng);
        let adopted = adopts.and_then(|run| Some((run, self.pending[run].take()?)));
        let freed = frees.and_then(|run| Some((run, self.now[run].take()?)));
        let pages = |of: Option<(usize, Value)>| of.map_or(0, |(_, value)| self.pages(value));
        let (more, fewer) = (pages(adopted), pages(freed));
        let epoch = toy.step(&changes, more as usize, |file, op| {
            if let Some((run, _)) = adopted {
                file.extent_adopt(op, first(run), more);
            }
            if let Some((run, _)) = freed {
                file.extent_forget(op, first(run), fewer);
            }
        });
        let epoch = epoch.unwrap_or_else(|e| panic!("{}: {e}", self.what()));
        self.model.set(epoch, &changes);
        if let Some((run, value)) = adopted {
            self.now[run] = Some(value);
        }
        if let Some((run, value)) = freed {
            self.freed[run] = Some((value, epoch));
        }
        match self.ends.last_mut() {
            Some((last, values)) if *last == epoch => *values = self.now,
            _ => self.ends.push((epoch, self.now)),
        }
    }

    /// Reads all values, and a part of each; of what is not there a read is refused.
    fn read(&mut self, toy: &Toy) {
        let what = self.what();
        for run in 0..RUNS {
            let Some(value) = self.now[run].or(self.freed[run].map(|(value, _)| value)) else {
                let found = toy.file.extent_read(first(run), 0, &mut [0]);
                assert!(found.is_err() || self.had[run], "{what}: run {run} is empty");
                continue;
            };
            let bytes = value.bytes();
            let mut found = vec![0; value.len];
            let read = toy.file.extent_read(first(run), 0, &mut found);
            read.unwrap_or_else(|e| panic!("{what}: run {run}: {e}"));
            assert!(found == bytes, "{what}: run {run} has other bytes");
            let at = self.rng.below(value.len as u64) as usize;
            let n = 1 + self.rng.below((value.len - at) as u64) as usize;
            let read = toy.file.extent_read(first(run), at as u64, &mut found[..n]);
            read.unwrap_or_else(|e| panic!("{what}: run {run}, {n} bytes at {at}: {e}"));
            assert!(found[..n] == bytes[at..at + n], "{what}: run {run}, {n} bytes at {at}");
        }
    }

    /// A checkpoint; then exactly what the root names is counted as alive.
    fn checkpoint(&self, toy: &Toy) {
        let what = self.what();
        toy.checkpoint().unwrap_or_else(|e| panic!("{what}: {e}"));
        let raw = Raw::of(&self.watch.sim);
        let images = raw.images(raw.newest());
        let named = images.iter().filter(|(live, _)| *live != Live::Root);
        let sum: u64 = named.map(|(_, placed)| u64::from(placed.bytes).next_multiple_of(16)).sum();
        let stats = toy.file.stats();
        assert_eq!(stats.live_bytes, sum, "{what}: {stats:?}");
    }

    /// Nobody reads a freed value any more.
    fn release(&mut self, toy: &Toy) {
        let durable = toy.file.durable_epoch();
        let freed = self.pick(|r, run| r.freed[run].is_some_and(|(_, epoch)| epoch <= durable));
        if let Some(run) = freed
            && let Some((value, _)) = self.freed[run].take()
        {
            toy.file.extent_release(first(run), self.pages(value));
            self.had[run] = true;
        }
    }

    /// One thing that happens to a pool.
    fn act(&mut self, toy: &Toy) {
        if self.rng.one_in(3) {
            self.release(toy);
        }
        match self.rng.below(100) {
            0..45 => self.step(toy, None, None),
            45..60 => {
                let run = self.write(toy);
                if !self.rng.one_in(5) {
                    self.step(toy, run, None);
                }
            }
            60..70 => {
                let freed = self.pick(|r, run| r.now[run].is_some());
                self.step(toy, None, freed);
            }
            70..78 => {
                let freed = self.pick(|r, run| r.now[run].is_some());
                let adopted = self.pick(|r, run| r.pending[run].is_some());
                self.step(toy, adopted, freed);
            }
            78..81 => {
                if let Some(run) = self.pick(|r, run| r.pending[run].is_some())
                    && let Some(value) = self.pending[run].take()
                {
                    toy.file.extent_discard(first(run), self.pages(value));
                }
            }
            81..91 => toy.file.tick().unwrap_or_else(|e| panic!("{}: {e}", self.what())),
            91..95 => self.checkpoint(toy),
            _ => self.read(toy),
        }
    }

    /// Goes on with a disk after a power cut or a kill.
    fn recover(&mut self, cut: SimIo, acknowledged: u64, running: u64) -> Toy {
        self.cuts += 1;
        self.watch = Watch::new(cut);
        let toy = self.open();
        let epoch = check(&toy, &self.model, acknowledged, running, &self.what());
        self.model.cut(epoch);
        self.ends.retain(|(e, _)| *e <= epoch);
        self.now = self.ends.last().expect("epoch 0 is always there").1;
        self.read(&toy);
        toy
    }

    /// One pool's life, of so many cuts. Says how many writes were looked at, and the longest file.
    fn go(seed: u64, cuts: u64) -> (u64, u64) {
        everleaf_testing::at_seed(seed);
        let mut run = Run::new(seed);
        let mut toy = run.open();
        let (mut writes, mut longest) = (0, 0);
        while run.cuts < cuts {
            let reach = [60, 600][run.rng.below(2) as usize];
            let (call, cut) = (run.rng.below(reach), run.rng.next());
            let cut = (!run.rng.one_in(4)).then_some(cut);
            run.watch.sim.cut_at(run.watch.sim.calls() + call, cut);
            loop {
                let (acknowledged, mut running) = (toy.file.durable_epoch(), toy.file.clock());
                if run.rng.one_in(80) {
                    toy.close().unwrap_or_else(|e| panic!("{}: {e}", run.what()));
                    if let Some(cut) = run.watch.sim.take_cut() {
                        writes += run.watch.seen().0;
                        toy = run.recover(cut, acknowledged, running);
                        break;
                    }
                    toy = run.open();
                } else {
                    run.act(&toy);
                    running = toy.file.clock();
                }
                longest = longest.max(length(&run.watch.sim));
                if let Some(cut) = run.watch.sim.take_cut() {
                    toy.abandon();
                    writes += run.watch.seen().0;
                    toy = run.recover(cut, acknowledged, running);
                    break;
                }
            }
        }
        (writes, longest)
    }
}

#[test]
fn no_write_is_over_what_is_needed_and_values_are_whole_after_any_cut() {
    if let Some(seed) = seed() {
        println!("{:?}", Run::go(seed, 12));
        return;
    }
    let runs = count(4, 60);
    let (mut writes, mut longest) = (0, 0);
    for seed in 1..=runs {
        let (some, length) = Run::go(seed, 12);
        (writes, longest) = (writes + some, longest.max(length));
    }
    println!("{writes} writes, the longest file had {longest} bytes");
    assert!(writes > 50 * runs && longest > 3 * MIB, "{writes} writes, {longest} bytes");
}

const PAGE: usize = 4096;

/// The word that says that a page of the toy is free.
const FREE: u64 = 0x6672_6565;

/// The bytes that the toy's pages need on disk: those whose word 7 says so need nothing.
fn gap(page: &[u8]) -> PageUse {
    match page.get(120..128) {
        Some(word) if word == FREE.to_le_bytes() => PageUse::Unused,
        _ => PageUse::But(0..0),
    }
}

fn large() -> FileOptions {
    FileOptions { slots: 252, max_pages: 1 << 14, journal_bytes: MIB, gap, ..options() }
}

fn open_large(io: &SimIo) -> Toy {
    Toy::open_with(io, &path(), &large()).expect("sound")
}

/// Sets word 0 of so many pages, a step for each, and makes that durable.
fn fill(toy: &Toy, pages: impl IntoIterator<Item = PageNo>, value: u64) {
    for no in pages {
        toy.set(&[(no, 0, value)]).expect("set");
    }
    toy.file.sync().expect("sync");
}

#[test]
fn a_file_with_constant_live_data_stays_short() {
    let (io, mut rng) = (SimIo::new(1), Rng(1));
    let toy = open_large(&io);
    fill(&toy, 0..500, 1);
    for round in 0..200 {
        fill(&toy, (0..60).map(|_| rng.below(500) as PageNo), round);
        toy.checkpoint().expect("checkpoint");
        let stats = toy.file.stats();
        assert!(stats.live_bytes < 500 * 4200 + 32 * 1024, "round {round}: {stats:?}");
        // The room that may be sparse, the room that a checkpoint adds, and the journal up to its bound.
        let most = stats.live_bytes * 16 / 10 + 8 * MIB + MIB + 2 * MIB + 2 * MIB;
        assert!(stats.data_bytes <= most, "round {round}: {stats:?}");
    }
    let live = toy.file.stats().live_bytes;
    toy.close().expect("close");
    assert!(length(&io) <= live + live / 8 + 3 * MIB, "{live} alive, {} in the file", length(&io));
}

#[test]
fn a_pool_of_free_pages_is_small_and_their_changes_go_on() {
    let io = SimIo::new(1);
    let toy = open_large(&io);
    fill(&toy, 0..4000, 5);
    toy.checkpoint().expect("checkpoint");
    assert!(length(&io) > 16 * MIB);
    for no in 10..4000 {
        toy.set(&[(no, 7, FREE)]).expect("set");
    }
    toy.close().expect("close");
    assert!(length(&io) <= 3 * MIB, "{} bytes for ten pages", length(&io));
    let toy = open_large(&io);
    assert_eq!((toy.get(9, 0).expect("get"), toy.get(10, 0).expect("get")), (5, 0));
    // A page that comes back is numbered on, in its image as in the journal.
    fill(&toy, [10, 11], 6);
    toy.checkpoint().expect("checkpoint");
    fill(&toy, [11, 12], 7);
    toy.abandon();
    let toy = open_large(&io);
    assert_eq!([9, 10, 11, 12, 13].map(|no| toy.get(no, 0).expect("get")), [5, 6, 7, 7, 0]);
}

#[test]
fn a_free_page_that_stays_in_memory_is_numbered_on() {
    let io = SimIo::new(1);
    let toy = open_large(&io);
    fill(&toy, [10], 5);
    toy.set(&[(10, 7, FREE)]).expect("set");
    toy.checkpoint().expect("checkpoint");
    toy.set(&[(10, 7, 1)]).expect("set");
    fill(&toy, [10], 6);
    toy.abandon();
    assert_eq!(open_large(&io).get(10, 0).expect("the root knows its number"), 6);
}

/// A step of another thread frees a value in the epoch in which it was adopted: the one is recorded
/// before the other in the block, or behind it.
#[test]
fn a_value_that_came_and_went_in_one_epoch_is_gone() {
    let io = SimIo::new(1);
    let toy = open_large(&io);
    fill(&toy, [1], 5);
    for no in [2048, 2049] {
        toy.file.extent_write(no, 0, &[7; 99]).expect("write");
    }
    toy.adopt(2048, 1).expect("adopt");
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            toy.forget(2048, 1).expect("forget");
            toy.adopt(2049, 1).expect("adopt");
        });
        other.join().expect("no panic");
    });
    toy.forget(2049, 1).expect("forget");
    fill(&toy, [1], 6);
    toy.abandon();
    let toy = open_large(&io);
    for no in [2048, 2049] {
        assert!(toy.file.extent_read(no, 0, &mut [0]).is_err(), "value {no}");
    }
}

#[test]
fn the_place_of_a_value_that_went_in_its_own_epoch_may_be_written_over() {
    let io = SimIo::new(1);
    let toy = open_large(&io);
    fill(&toy, [1], 5);
    toy.file.extent_write(2048, 0, &vec![7; 3 << 20]).expect("write");
    toy.adopt(2048, 768).expect("adopt");
    toy.forget(2048, 768).expect("forget");
    fill(&toy, [1], 6);
    toy.file.extent_release(2048, 768);
    toy.file.extent_write(2048, 0, &vec![8; 3 << 20]).expect("write");
    toy.abandon();
    assert_eq!(open_large(&io).get(1, 0).expect("get"), 6, "its epoch was durable");
}

#[test]
fn a_value_that_the_file_has_lost_is_missed_at_the_open() {
    let io = SimIo::new(1);
    let toy = open_large(&io);
    fill(&toy, [1], 5);
    toy.file.extent_write(2048, 0, &vec![7; 2 << 20]).expect("write");
    toy.adopt(2048, 512).expect("adopt");
    // The value's epoch is not the last one, so it was durable.
    fill(&toy, [1], 6);
    fill(&toy, [1], 7);
    toy.abandon();
    let file = io.open(&path(), Access::Write).expect("there");
    file.set_len(file.len().expect("length") - MIB).expect("shorter");
    drop(file);
    let found = Toy::open_with(&io, &path(), &large());
    assert!(matches!(found, Err(Error::Corrupt { .. })), "opened");
}

/// Writes, adopts and frees a value until it is gone, over and over.
#[test]
fn the_space_of_values_that_were_freed_comes_back() {
    let io = SimIo::new(1);
    let toy = open_large(&io);
    toy.checkpoint().expect("checkpoint");
    let (before, bytes) = (toy.file.stats().live_bytes, Rng(3).bytes::<Vec<u8>>(3 << 20));
    let pages = (bytes.len() / PAGE) as u32;
    for round in 0..30 {
        toy.file.extent_write(2048, 0, &bytes).expect("write");
        if round % 3 == 2 {
            toy.file.extent_discard(2048, pages);
        } else {
            toy.adopt(2048, pages).expect("adopt");
            toy.file.sync().expect("sync");
            let mut found = vec![0; bytes.len() - 1];
            toy.file.extent_read(2048, 1, &mut found).expect("read");
            assert!(found == bytes[1..], "round {round}");
            toy.forget(2048, pages).expect("forget");
            toy.file.sync().expect("sync");
            toy.file.extent_release(2048, pages);
        }
        toy.checkpoint().expect("checkpoint");
        let stats = toy.file.stats();
        assert!(stats.data_bytes <= 24 * MIB, "round {round}: {stats:?}");
        // The leaves of the table that know of it stay.
        assert!(stats.live_bytes <= before + 3 * 8256, "round {round}: {stats:?}");
    }
    toy.close().expect("close");
    assert!(length(&io) <= 3 * MIB, "{} bytes", length(&io));
}

#[test]
fn values_move_out_of_extents_that_are_nearly_empty() {
    let io = SimIo::new(1);
    let toy = open_large(&io);
    let bytes = Rng(3).bytes::<Vec<u8>>(256 << 10);
    let pages = (bytes.len() / PAGE) as u32;
    let first = |i: u32| 2048 + i * pages;
    for i in 0..64 {
        toy.file.extent_write(first(i), 0, &bytes).expect("write");
        toy.adopt(first(i), pages).expect("adopt");
    }
    toy.checkpoint().expect("checkpoint");
    for i in (0..64).filter(|i| i % 8 != 0) {
        toy.forget(first(i), pages).expect("forget");
        toy.file.sync().expect("sync");
        toy.file.extent_release(first(i), pages);
    }
    toy.close().expect("close");
    assert!(length(&io) <= 6 * MIB, "{} bytes for 2 MiB", length(&io));
    let (toy, mut found) = (open_large(&io), vec![0; bytes.len()]);
    for i in (0..64).filter(|i| i % 8 == 0) {
        toy.file.extent_read(first(i), 0, &mut found).expect("read");
        assert!(found == bytes, "value {i}");
    }
}

#[test]
fn a_value_that_nobody_adopted_leaves_nothing_behind() {
    let alive = |with: bool, discards: bool| {
        let io = SimIo::new(1);
        let toy = open_large(&io);
        if with {
            toy.file.extent_write(2048, 0, &vec![7; 2 << 20]).expect("write");
        }
        if discards {
            toy.file.extent_discard(2048, 512);
        }
        fill(&toy, 0..10, 1);
        toy.abandon();
        let toy = open_large(&io);
        toy.checkpoint().expect("checkpoint");
        assert!(toy.file.extent_read(2048, 0, &mut [0]).is_err(), "nobody adopted it");
        let live = toy.file.stats().live_bytes;
        toy.close().expect("close");
        assert!(length(&io) <= 3 * MIB, "{} bytes", length(&io));
        live
    };
    let twin = alive(false, false);
    assert_eq!([alive(true, false), alive(true, true)], [twin; 2]);
}

/// A value of several extents is there with its step at each call at which the power is cut, or not at all.
#[test]
fn a_long_value_is_whole_or_absent_after_a_cut_at_any_call() {
    let bytes = Rng(9).bytes::<Vec<u8>>((5 << 20) + 77);
    let pages = bytes.len().div_ceil(PAGE) as u32;
    let (mut seen, mut call) = ([0, 0], 0);
    loop {
        let io = SimIo::new(1);
        let toy = open_large(&io);
        fill(&toy, 0..3, 1);
        io.cut_at(io.calls() + call, (call % 3 != 0).then_some(call));
        toy.file.extent_write(2048, 0, &bytes).expect("write");
        let adopted = toy.step(&[(1, 1, 9)], pages as usize, |file, op| {
            file.extent_adopt(op, 2048, pages);
        });
        adopted.expect("step");
        toy.file.sync().expect("sync");
        toy.checkpoint().expect("checkpoint");
        toy.close().expect("close");
        let cut = io.take_cut();
        let toy = open_large(cut.as_ref().unwrap_or(&io));
        let is_there = toy.get(1, 1).expect("get") == 9;
        seen[usize::from(is_there)] += 1;
        let (mut found, at) = (vec![0; 3 << 20], (1 << 20) + 13);
        let read = toy.file.extent_read(2048, at, &mut found);
        assert_eq!(read.is_ok(), is_there, "call {call}: {read:?}");
        assert!(!is_there || found == bytes[at as usize..][..3 << 20], "call {call}");
        if cut.is_none() {
            break;
        }
        call += 1;
    }
    assert!(seen.iter().all(|n| *n > 5), "{seen:?}");
}
