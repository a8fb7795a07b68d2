//! Power cuts at any call, also during recovery: what comes back is the end of an epoch, and no
//! acknowledged epoch is missing.
//!
//! `EVERLEAF_POWER_CUTS` says how many cuts (default 3,000), `EVERLEAF_SEED` replays one run.

use std::time::Instant;

use everleaf_pmem::io::SimIo;

mod toy;
use toy::{Model, Rng, Toy, check};

struct Run {
    rng: Rng,
    io: SimIo,
    model: Model,
    cuts: u64,
    seed: u64,
}

impl Run {
    /// How the process ends: mostly by a power cut, sometimes it is only killed, so that what it
    /// wrote can be read but is not durable.
    fn end(&mut self) -> Option<u64> {
        let seed = self.rng.next();
        (self.rng.below(4) != 0).then_some(seed)
    }

    /// Uses the pool until the power is cut, at a random call. Returns the cut disk with the
    /// acknowledged and the running epoch.
    fn use_until_cut(&mut self, toy: &Toy) -> (SimIo, u64, u64) {
        let (calls, seed) = (1 + self.rng.below(60), self.end());
        let ticks = 2 + self.rng.below(12);
        self.io.cut_at(self.io.calls() + calls, seed);
        loop {
            let acknowledged = toy.file.durable_epoch();
            match self.rng.below(100) {
                0 => toy.checkpoint().expect("no fault"),
                n if n <= ticks => toy.file.tick().expect("no fault"),
                n if n <= 2 * ticks && toy.file.checkpoint_due() => {
                    toy.checkpoint().expect("no fault");
                }
                _ => {
                    let changes = self.model.transfer(&mut self.rng);
                    let epoch = toy.set(&changes).expect("no fault");
                    self.model.set(epoch, &changes);
                }
            }
            if let Some(cut) = self.io.take_cut() {
                return (cut, acknowledged, toy.file.clock());
            }
        }
    }

    /// Closes the pool, which a cut may interrupt, and opens it again.
    fn close(&mut self, toy: Toy) -> Toy {
        let (calls, seed) = (self.rng.below(30), self.end());
        self.io.cut_at(self.io.calls() + calls, seed);
        let (durable, running) = (toy.file.durable_epoch(), toy.file.clock());
        toy.close().expect("no fault");
        match self.io.take_cut() {
            None => self.recover(running, running),
            Some(cut) => {
                self.io = cut;
                self.cuts += 1;
                self.recover(durable, running)
            }
        }
    }

    /// Opens the pool; the power may be cut while it does, again and again.
    fn recover(&mut self, acknowledged: u64, running: u64) -> Toy {
        loop {
            let reach = if self.rng.below(3) == 0 { 80 } else { 10_000 };
            let (calls, seed) = (self.rng.below(reach), self.end());
            self.io.cut_at(self.io.calls() + calls, seed);
            let what = format!("EVERLEAF_SEED={} cut {}", self.seed, self.cuts);
            let toy = Toy::open(&self.io).unwrap_or_else(|e| panic!("{what}: {e}"));
            let epoch = check(&toy, &self.model, acknowledged, running, &what);
            if self.rng.below(3) == 0 {
                toy.checkpoint().unwrap_or_else(|e| panic!("{what}: {e}"));
            }
            match self.io.take_cut() {
                None => {
                    self.model.cut(epoch);
                    return toy;
                }
                Some(cut) => {
                    toy.abandon();
                    self.io = cut;
                    self.cuts += 1;
                }
            }
        }
    }

    fn go(seed: u64, generations: u64) -> u64 {
        let io = SimIo::new(seed);
        let mut run = Run { rng: Rng(seed), io, model: Model::new(), cuts: 0, seed };
        let mut toy = run.recover(0, 1);
        for _ in 0..generations {
            if run.rng.below(8) == 0 {
                toy = run.close(toy);
            }
            let (cut, acknowledged, running) = run.use_until_cut(&toy);
            toy.abandon();
            run.io = cut;
            run.cuts += 1;
            toy = run.recover(acknowledged, running);
        }
        run.cuts
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn a_power_cut_leaves_the_end_of_an_epoch() {
    if let Some(seed) = number("EVERLEAF_SEED") {
        Run::go(seed, 16);
        return;
    }
    let wanted = number("EVERLEAF_POWER_CUTS").unwrap_or(3_000);
    let start = Instant::now();
    let (mut cuts, mut seed) = (0, 1);
    while cuts < wanted {
        cuts += Run::go(seed, 16);
        seed += 1;
    }
    println!("{cuts} cuts, {:.0} a second", cuts as f64 / start.elapsed().as_secs_f64());
}
