//! Lines that gets, inserts and range queries load, and what slow reads would make of them
//! ([`read_model`]; FAST+FAIR Figs. 4 and 6a).

use std::ops::Bound;

use anyhow::{Result, bail, ensure};
use everleaf_tree::Index;
use serde::Deserialize;

use super::kind::{Context, Figures, Measure};
use super::read_model::{self, ReadTally};
use crate::keys::{key, lookup, seeded};
use crate::medium::MediumName;
use crate::system::{Readers, SystemSpec, fill};

/// The parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineReads {
    system: String,
    slots: u32,
    /// Keys that are there before the first phase, uniformly spread.
    keys: u64,
    /// Phases, joined by `+`: get, insert, range.
    phases: String,
    /// Operations of each phase.
    ops: u64,
    /// The share of the keys that a range query returns.
    ratio: Option<f64>,
    /// The latency of a line of persistent memory, in nanoseconds.
    read_ns: u64,
}

impl LineReads {
    fn make<'a>(&'a self, context: &'a Context) -> SystemSpec<'a> {
        SystemSpec {
            name: &self.system,
            medium: MediumName::Dram,
            slots: self.slots,
            keys: self.keys + self.ops,
            readers: Readers::default(),
            // No thread comes in between.
            epoch: None,
            epoch_ops: None,
            scratch: &context.scratch,
            dax: None,
        }
    }

    fn gets(&self, index: &dyn Index, seed: u64, tally: &mut ReadTally) -> Result<()> {
        for i in 0..self.ops {
            let key = seeded(seed, lookup(i, self.keys) % self.keys);
            let found = tally.of(|| Ok(index.get(key)?))?;
            ensure!(found == Some(!key), "a key is not there");
        }
        Ok(())
    }

    fn inserts(&self, index: &dyn Index, seed: u64, tally: &mut ReadTally) -> Result<()> {
        for key in (self.keys..self.keys + self.ops).map(|i| seeded(seed, i)) {
            let old = tally.of(|| Ok(index.insert(key, !key)?))?;
            ensure!(old.is_none(), "a key came twice");
        }
        Ok(())
    }

    fn ranges(&self, index: &dyn Index, keys: &[u64], tally: &mut ReadTally) -> Result<()> {
        let share = self.ratio.unwrap_or_default() * keys.len() as f64;
        let selected = (share.round() as usize).clamp(1, keys.len());
        for query in 0..self.ops {
            let from = key(query) as usize % (keys.len() - selected + 1);
            let ends = [keys[from], keys[from + selected - 1]].map(Bound::Included);
            let found = tally.of(|| Ok(index.range(ends[0], ends[1], usize::MAX)?))?;
            ensure!(found.len() == selected, "a range of {selected} entries has {}", found.len());
        }
        Ok(())
    }
}

impl Measure for LineReads {
    fn check(&self) -> Result<()> {
        ensure!(self.keys > 0 && self.ops > 0, "no keys, or no operations");
        ensure!(self.read_ns > 0, "reads of 0 ns: a latency is more than that");
        let mut phases: Vec<&str> = self.phases.split('+').collect();
        for phase in &phases {
            ensure!(["get", "insert", "range"].contains(phase), "no phase is called {phase:?}");
        }
        ensure!(
            phases.contains(&"range") == self.ratio.is_some(),
            "a ratio is that of a range, which has one"
        );
        ensure!(
            self.ratio.is_none_or(|ratio| ratio > 0.0 && ratio <= 1.0),
            "a ratio is more than 0 and at most 1"
        );
        ensure!(phases.last() == Some(&"insert") || !phases.contains(&"insert"), "insert is last");
        let all = phases.len();
        phases.sort_unstable();
        phases.dedup();
        ensure!(phases.len() == all, "a phase comes twice");
        self.make(&Context::default()).check_spanned()
    }

    fn lacks(&self, _context: &Context) -> Option<String> {
        read_model::lacks()
    }

    fn run(&self, context: &Context, _round: u32) -> Result<Figures> {
        let (subject, span) = self.make(context).make_spanned()?;
        let (index, seed) = (subject.index(), context.seed);
        let mut keys: Vec<u64> = (0..self.keys).map(|i| seeded(seed, i)).collect();
        fill(index, keys.iter().copied())?;
        subject.tick()?;
        keys.sort_unstable();
        let mut figures = Figures::new();
        for phase in self.phases.split('+') {
            let mut tally = ReadTally::new(&span);
            match phase {
                "get" => self.gets(index, seed, &mut tally)?,
                "insert" => self.inserts(index, seed, &mut tally)?,
                "range" => self.ranges(index, &keys, &mut tally)?,
                other => bail!("no phase is called {other:?}"),
            }
            figures.extend(tally.figures(phase, self.read_ns));
        }
        Ok(figures)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::cell;

    fn text(system: &str, keys: u64, phases: &str) -> String {
        let ratio = if phases.contains("range") { "ratio = 0.5\n" } else { "" };
        format!(
            "system = \"{system}\"\nslots = 32\nkeys = {keys}\nphases = \"{phases}\"\nops = 40\n\
             read_ns = 300\n{ratio}"
        )
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let check = |text: &str| super::super::check("reads", &cell(text));
        check(&text("FastFair", 1, "get+range+insert")).expect("a cell of this kind");
        let ratio_without_range = format!("{}ratio = 0.5", text("FastFair", 1, "get"));
        for wrong in [
            text("FastFair", 0, "get"),
            text("FastFair", 1, "get+get"),
            text("FastFair", 1, "insert+get"),
            text("FastFair", 1, "search"),
            text("FastFair", 1, "get").replace("300", "0"),
            text("FastFair", 1, "range").replace("0.5", "1.5"),
            ratio_without_range,
            text("BTreeMap", 1, "get"),
            text("VolatileStd", 1, "get"),
            text("FpTreeAsPublished", 1, "get"),
        ] {
            assert!(check(&wrong).is_err(), "{wrong}");
        }
    }

    #[cfg(feature = "lines-read")]
    mod recorded {
        use super::super::super::tests::{of, run};
        use super::*;

        const SYSTEMS: [&str; 12] = [
            "FastFair", "CircTree", "BdTree", "FpTree", "FpTree56", "LbTree", "NbTree", "NvTree",
            "WbTree", "Wort", "SkipList", "UTree",
        ];

        #[test]
        fn a_time_is_lines_times_latency_and_a_second_round_has_the_same() {
            for system in SYSTEMS {
                let text = text(system, 500, "get+range+insert");
                let figures = run("reads", &text);
                assert_eq!(figures, run("reads", &text), "{system}");
                for phase in ["get", "range", "insert"] {
                    let figure = |metric: &str| of(&figures, &format!("{phase}_{metric}"));
                    let (lines, runs) = (figure("pm_lines"), figure("pm_runs_count"));
                    // It appends a pair without a look at the leaf.
                    let least = if (system, phase) == ("NbTree", "insert") { 0.0 } else { 1.0 };
                    assert!(runs <= lines && runs >= least, "{system}, {phase}: {runs} of {lines}");
                    assert_eq!(figure("modelled_ns"), 300.0 * lines);
                    assert_eq!(figure("modelled_runs_ns"), 300.0 * runs);
                }
                // 250 pairs of 16 bytes are 62.5 lines, if no other word is loaded.
                assert!(of(&figures, "range_pm_lines") >= 62.0, "{system}");
            }
        }

        #[test]
        fn inner_nodes_in_dram_are_no_persistent_memory() {
            for system in ["FpTree", "LbTree", "NbTree", "BdTree"] {
                let get = |keys| run("reads", &text(system, keys, "get"));
                let (few, many) = (get(100), get(20_000));
                assert!(of(&many, "get_dram_lines") > of(&few, "get_dram_lines"), "{system}");
                // A leaf is as long in both, and nothing above it counts.
                let grown = of(&many, "get_pm_lines") - of(&few, "get_pm_lines");
                assert!(grown.abs() < 3.0, "{system}: {grown}");
            }
            let grown = ["Wort", "WbTree", "FastFair"].map(|system| {
                let lines = |keys| of(&run("reads", &text(system, keys, "get")), "get_pm_lines");
                lines(20_000) - lines(100)
            });
            assert!(grown.iter().all(|lines| *lines > 1.0), "{grown:?}");
        }
    }
}
