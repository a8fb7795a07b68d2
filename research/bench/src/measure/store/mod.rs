//! Phases over one [store], one after the other.
//!
//! | phase | what is done |
//! |---|---|
//! | `load` | distinct keys into an empty store, one by one or in batches |
//! | `get`, `update` | single keys that are there |
//! | `scan`, `scan10`, `range` | 100 or 10 pairs from a key on, by a cursor that lends; 100 by an iterator |
//! | `back` | 100 pairs from a key on, descending, by that cursor |
//! | `seek`, `turn` | by a cursor that stays open: to a key, and round again; of the Db only |
//! | `walk` | all pairs in order by the cursor |
//! | `run` | YCSB's A |
//! | `delete` | all keys |
//! | `queue` | a pair is put at the end and the first is taken, among as many as were loaded |
//! | `size`, `journal` | bytes on disk; bytes of journal for each pair of the load |
//! | `written` | bytes written for each byte of the load, until the store has settled |
//! | `open` | the time to open after a close and after a kill |
//!
//! Rates are operations over the time within calls, per thread, summed; percentiles are of calls, so of
//! whole batches where there are batches. Before reads that follow writes the store
//! [settles](store::KvStore::settle): what it does then is not in their time.

pub mod data;
pub mod disk;
mod open;
mod part;
mod phases;
mod setting;
mod steps;

use anyhow::{Result, bail, ensure};

use crate::measure::child::Written;
use crate::measure::kind::{Context, Figures, Measure};
use crate::store::{self, SyncMode};
use data::{DIGITS, KeyForm};
use setting::{Bench, Picks, Timing};

pub use open::Child;
pub use setting::Phases;

impl Phases {
    /// Whether the store takes such pairs.
    fn check_pairs(&self) -> Result<()> {
        let words = (self.key_bytes, self.value_bytes) == (8, 8) && self.form == KeyForm::Plain;
        ensure!(words || !store::has_words_only(&self.system), "{} has words only", self.system);
        let least = if self.form == KeyForm::Prefix { DIGITS } else { 8 };
        let has_digits = self.key_bytes == least || self.key_bytes >= DIGITS;
        ensure!(has_digits, "keys have 16 bytes or more, plain ones also 8");
        let key_bytes = self.form.key_bytes().unwrap_or(self.key_bytes);
        let longest = store::longest_key(&self.system);
        ensure!(key_bytes <= longest, "keys of {} have {longest} bytes at most", self.system);
        ensure!(self.value_bytes >= 8, "values have 8 bytes or more");
        ensure!(self.keys <= 1 << 31, "more keys than have numbers");
        let is_urls = self.form == KeyForm::Url && self.picks == Picks::Ascending;
        ensure!(!is_urls, "addresses do not ascend as their numbers do");
        Ok(())
    }

    /// Whether a phase that is not the first can be among these.
    fn check_phase(&self, phase: &str, phases: &[&str]) -> Result<()> {
        let is_second = phases[1] == phase;
        match phase {
            "get" | "seek" | "turn" | "update" | "walk" | "run" | "delete" => {}
            "back" => ensure!(store::goes_back(&self.system), "{} goes forward", self.system),
            "journal" => ensure!(is_second, "journal follows load"),
            "queue" => {
                let is_alone = phases.len() == 2 && self.threads == 1;
                ensure!(is_alone, "queue follows load and is the last, on one thread");
                ensure!(self.picks == Picks::Ascending, "keys of a queue ascend");
            }
            "size" | "open" | "written" if store::is_volatile(&self.system) => {
                bail!("{} is not on disk", self.system)
            }
            "size" | "open" => {}
            "written" => ensure!(is_second, "written follows load"),
            phase if phases::is_scan(phase) => {}
            other => bail!("no phase is called {other:?}"),
        }
        Ok(())
    }
}

impl Measure for Phases {
    fn check(&self) -> Result<()> {
        ensure!(self.keys > 0 && self.threads > 0 && self.batch > 0, "no keys, threads or pairs");
        let phases: Vec<&str> = self.phases.split('+').collect();
        ensure!(phases[0] == "load", "the first phase is load");
        if disk::is(&self.system) {
            ensure!(phases.len() == 1 && self.threads == 1, "a bare disk: load by one thread");
            ensure!(self.mode == SyncMode::SyncEach, "a bare disk is synced by each operation");
            return Ok(());
        }
        store::check(&self.system, self.mode)?;
        self.check_pairs()?;
        ensure!(self.timing == Timing::Each || !self.has("run"), "run times each call");
        phases[1..].iter().try_for_each(|phase| self.check_phase(phase, &phases))?;
        let last = phases.iter().position(|phase| *phase == "delete");
        ensure!(last.is_none_or(|at| at + 1 == phases.len()), "nothing can follow delete");
        Ok(())
    }

    fn lacks(&self, _context: &Context) -> Option<String> {
        store::lacks(&self.system)
    }

    fn run(&self, context: &Context, _round: u32) -> Result<Figures> {
        let dir = tempfile::tempdir_in(&context.scratch)?;
        if disk::is(&self.system) {
            return disk::write(&self.system, dir.path(), self.keys);
        }
        let begun = Written::now();
        let store = store::open(&self.system, &self.how(dir.path()))?;
        let seed = context.seed;
        let mut bench = Bench { work: self, data: self.data(), dir, seed, store, begun };
        let (mut figures, mut is_settled) = (Figures::new(), false);
        for phase in self.phases.split('+') {
            let reads = ["get", "seek", "turn", "walk"].contains(&phase) || phases::is_scan(phase);
            if reads && !is_settled {
                bench.store.settle()?;
            }
            is_settled = reads;
            let found = match phase {
                "load" => bench.load()?,
                "get" => bench.get()?,
                "update" => bench.update()?,
                "seek" => bench.seek()?,
                "turn" => bench.turn()?,
                "walk" => bench.walk()?,
                "run" => bench.mixed()?,
                "delete" => bench.delete()?,
                "queue" => bench.queue()?,
                "written" => bench.written()?,
                "size" => bench.size()?,
                "journal" => bench.journal()?,
                "open" => {
                    let found;
                    (bench, found) = bench.open()?;
                    found
                }
                scan => bench.scan(scan)?,
            };
            figures.extend(found);
        }
        let Bench { store, dir, .. } = bench;
        let start = std::time::Instant::now();
        store.close()?;
        if self.has("size") && !self.has("open") {
            figures.push(("close_ms".into(), start.elapsed().as_secs_f64() * 1e3));
            figures.push(("size_closed_mib".into(), disk::mib(dir.path())?));
        }
        Ok(figures)
    }
}

#[cfg(test)]
mod tests;
