//! How long after a crash a program has its first answer, and how long until it is as fast as before.
//!
//! A process fills a tree or a store, makes that durable, overwrites some pairs one by one, which nobody syncs,
//! and is killed. Then this process opens it, gets one pair, and goes on with random gets and updates in turns.
//! Trees that repair nodes lazily are open at once and pay with the operations that follow; those that rebuild
//! their inner nodes pay before the first answer.
//!
//! A file whose pages stay in the system's cache stands for persistent memory; those of stores' files stay there, too.

mod pairs;
mod speed;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use self::pairs::{Pairs, Sizes};
use self::speed::speed;
use super::child;
use super::kind::{Context, Figures, Measure, one};
use crate::keys::seeded;
use crate::store;

/// Operations of a portion, whose time is taken together.
const PORTION: u64 = 1000;

/// The parameters.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resume {
    /// A tree on persistent memory, or a store.
    system: String,
    /// Slots of a tree's node.
    #[serde(skip_serializing_if = "Option::is_none")]
    slots: Option<u32>,
    /// Pairs.
    keys: u64,
    /// Overwrites before the kill. The items that they are about are read only when all is done.
    dirty: u64,
    /// Operations after the open.
    ops: u64,
    /// Threads that open it.
    #[serde(default = "one")]
    threads: u64,
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl Resume {
    fn open(&self, dir: &Context) -> Result<Pairs> {
        let sizes = Sizes {
            slots: self.slots.unwrap_or_default(),
            keys: self.keys,
            threads: self.threads as usize,
            dax: dir.dax.as_deref(),
        };
        Pairs::open(&self.system, &dir.scratch, &sizes)
    }

    /// Fills, makes durable, overwrites. Returns what is open, and how long the overwrites took.
    fn fill(&self, context: &Context) -> Result<(Pairs, Figures)> {
        let pairs = self.open(context)?;
        pairs.fill(0..self.keys)?;
        let start = Instant::now();
        (0..self.dirty).try_for_each(|item| pairs.put(item, 1))?;
        let took = ms(start.elapsed());
        Ok((pairs, vec![("dirty_ms".into(), took)]))
    }

    /// Random gets and updates in turns; when each portion of them ended, from `start` on.
    fn go_on(&self, pairs: &Pairs, seed: u64, start: Instant) -> Result<Vec<Duration>> {
        let mut ends = Vec::with_capacity((self.ops / PORTION) as usize);
        for portion in 0..self.ops / PORTION {
            for op in portion * PORTION..(portion + 1) * PORTION {
                let item = self.dirty + seeded(seed, op) % (self.keys - self.dirty);
                if op.is_multiple_of(2) {
                    ensure!(pairs.version(item)?.is_some(), "a durable pair is gone");
                } else {
                    pairs.put(item, 2)?;
                }
            }
            ends.push(start.elapsed());
        }
        Ok(ends)
    }

    /// The share of the overwrites that are lost: the last ones.
    fn lost(&self, pairs: &Pairs) -> Result<f64> {
        let mut kept = 0;
        for item in 0..self.dirty {
            let version = pairs.version(item)?.context("a durable pair is gone")?;
            ensure!(version <= 1, "a value that nobody wrote");
            if version == 1 {
                ensure!(kept == item, "an overwrite is there, and one before it is lost");
                kept += 1;
            }
        }
        Ok((self.dirty - kept) as f64 / self.dirty as f64)
    }

    /// Opens what another process has left, and measures.
    fn resume(&self, context: &Context, dirty_ms: f64) -> Result<Figures> {
        let start = Instant::now();
        let pairs = self.open(context)?;
        ensure!(pairs.version(self.keys - 1)?.is_some(), "a durable pair is gone");
        let first = start.elapsed();
        let ends = self.go_on(&pairs, context.seed, start)?;
        let speed = speed(first, &ends).context("no operations")?;
        let lost = self.lost(&pairs)?;
        pairs.close()?;
        let kops = |portion: Duration| PORTION as f64 / ms(portion);
        Ok(vec![
            ("first_ms".into(), ms(first)),
            ("full_ms".into(), ms(speed.full)),
            ("begin_kops".into(), kops(speed.first)),
            ("steady_kops".into(), kops(speed.steady)),
            ("lost_share".into(), lost),
            ("lost_ms".into(), lost * dirty_ms),
        ])
    }
}

impl Measure for Resume {
    fn check(&self) -> Result<()> {
        pairs::check(&self.system, self.keys, self.slots, self.threads)?;
        ensure!(self.threads > 0, "no threads");
        let has_others = self.dirty > 0 && self.dirty < self.keys;
        ensure!(has_others, "{} overwrites of {} pairs: some, not all", self.dirty, self.keys);
        ensure!(self.ops >= 2 * PORTION, "{} operations: at least {}", self.ops, 2 * PORTION);
        Ok(())
    }

    fn lacks(&self, _context: &Context) -> Option<String> {
        if pairs::is_tree(&self.system) { None } else { store::lacks(&self.system) }
    }

    fn run(&self, context: &Context, _round: u32) -> Result<Figures> {
        let on_memory = context.dax.as_ref().filter(|_| pairs::is_tree(&self.system));
        let dir = tempfile::tempdir_in(on_memory.unwrap_or(&context.scratch))?;
        let place = (dir.path(), context.seed, None);
        let (figures, _) = child::run("resume", self, "fill", place)?;
        let dirty = figures.iter().find(|(name, _)| name == "dirty_ms");
        let (_, dirty_ms) = dirty.context("the process has not said how long it wrote")?;
        self.resume(&Context { scratch: dir.path().into(), ..context.clone() }, *dirty_ms)
    }

    fn part(&self, _phase: &str, context: &Context) -> Result<Figures> {
        let (pairs, figures) = self.fill(context)?;
        // The tree or store stays open until the kill.
        child::wait_for_the_end(&figures)?;
        pairs.close()?;
        Ok(figures)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cell, of};
    use super::*;

    fn work(system: &str, more: &str) -> String {
        format!("system = '{system}'\nkeys = 3_000\ndirty = 500\nops = 6_000\n{more}")
    }

    /// Fills, ends well, and goes on.
    fn figures(text: &str) -> Figures {
        let work: Resume = toml::from_str(text).expect("parameters");
        work.check().expect("it makes sense");
        let scratch = tempfile::tempdir().expect("a folder");
        let context = Context { seed: 1, scratch: scratch.path().into(), dax: None };
        let (pairs, said) = work.fill(&context).expect("room");
        pairs.close().expect("no fault");
        let figures = work.resume(&context, of(&said, "dirty_ms")).expect("all is there");
        for (metric, value) in &figures {
            crate::metric::unit(metric).expect("a unit");
            assert!(value.is_finite(), "{metric} is {value}");
        }
        figures
    }

    #[test]
    fn each_system_goes_on_with_what_was_durable() {
        let trees = pairs::TREES.map(|name| work(name, "slots = 32\nthreads = 1"));
        let stores = ["everleaf", "lmdb-writemap", "fjall", "redb", "rocksdb"];
        let stores = stores.into_iter().filter(|name| store::lacks(name).is_none());
        let bd_of_two = work("BdTree", "slots = 32\nthreads = 2");
        let stores = stores.map(|name| work(name, ""));
        for text in trees.into_iter().chain(stores).chain([bd_of_two]) {
            let figures = figures(&text);
            assert!(of(&figures, "full_ms") >= of(&figures, "first_ms"), "{text}");
            assert!(of(&figures, "first_ms") > 0.0 && of(&figures, "steady_kops") > 0.0, "{text}");
            assert_eq!(of(&figures, "lost_share"), 0.0, "it ended well: {text}");
        }
    }

    #[test]
    fn overwrites_that_are_not_there_are_lost_and_must_be_the_last_ones() {
        let text = work("everleaf", "");
        let work: Resume = toml::from_str(&text).expect("parameters");
        let scratch = tempfile::tempdir().expect("a folder");
        let context = Context { seed: 1, scratch: scratch.path().into(), dax: None };
        let pairs = work.open(&context).expect("room");
        pairs.fill(0..work.keys).expect("room");
        assert_eq!(work.lost(&pairs).expect("in order"), 1.0);
        (0..400).try_for_each(|item| pairs.put(item, 1)).expect("room");
        assert_eq!(work.lost(&pairs).expect("in order"), 0.2);
        pairs.put(499, 1).expect("room");
        assert!(work.lost(&pairs).is_err(), "a later one is there");
    }

    #[test]
    fn what_cannot_be_opened_so_is_refused() {
        let is_good = |text: &str| crate::measure::check("resume", &cell(text)).is_ok();
        let tree = work("BdTree", "slots = 32\nthreads = 2");
        assert!(is_good(&tree) && is_good(&work("everleaf", "")));
        assert!(!is_good(&work("BdTree", "")), "no slots");
        assert!(!is_good(&work("everleaf", "slots = 32")));
        assert!(!is_good(&work("LbTree", "slots = 32\nthreads = 2")));
        assert!(!is_good(&work("btreemap", "")) && !is_good(&work("Wort", "slots = 32")));
        for (from, to) in [
            ("dirty = 500", "dirty = 0"),
            ("dirty = 500", "dirty = 3_000"),
            ("ops = 6_000", "ops = 1_999"),
            ("threads = 2", "threads = 0"),
            ("slots = 32", "slots = 128"),
        ] {
            assert!(!is_good(&tree.replace(from, to)), "{to}");
        }
    }
}
