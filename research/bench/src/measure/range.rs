//! Range queries over a share of all keys (FAST+FAIR Fig. 4).

use std::hint::black_box;
use std::ops::Bound;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde::Deserialize;

use super::kind::{Context, Figures, Measure};
use crate::clock::Times;
use crate::keys::{key, seeded};
use crate::medium::MediumName;
use crate::system::{Readers, SystemSpec, fill};

/// The parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ranges {
    system: String,
    medium: MediumName,
    slots: u32,
    /// Keys that are inserted, uniformly spread.
    keys: u64,
    /// The share of the keys that a query returns.
    ratio: f64,
    /// Queries, each from another key.
    queries: u64,
}

impl Ranges {
    fn make<'a>(&'a self, context: &'a Context) -> SystemSpec<'a> {
        SystemSpec {
            name: &self.system,
            medium: self.medium,
            slots: self.slots,
            keys: self.keys,
            readers: Readers::default(),
            epoch: Some(Duration::from_millis(50)),
            epoch_ops: None,
            scratch: &context.scratch,
            dax: context.dax.as_deref(),
        }
    }

    /// The number of entries that a query returns.
    fn selected(&self) -> usize {
        ((self.keys as f64 * self.ratio).round() as usize).max(1)
    }
}

impl Measure for Ranges {
    fn check(&self) -> Result<()> {
        ensure!(self.keys > 0 && self.queries > 0, "no keys, or no queries");
        ensure!(self.ratio > 0.0 && self.ratio <= 1.0, "a ratio is more than 0 and at most 1");
        self.make(&Context::default()).check()
    }

    fn run(&self, context: &Context, _round: u32) -> Result<Figures> {
        let subject = self.make(context).make()?;
        let index = subject.index();
        let mut keys: Vec<u64> = (0..self.keys).map(|i| seeded(context.seed, i)).collect();
        fill(index, keys.iter().copied())?;
        keys.sort_unstable();
        let selected = self.selected();
        let starts = (keys.len() - selected + 1) as u64;
        let mut times = Times::default();
        let start = Instant::now();
        times.of(0..self.queries, |query| {
            let from = (key(query ^ context.seed.rotate_left(32)) % starts) as usize;
            let (from, to) = (keys[from], keys[from + selected - 1]);
            let found =
                black_box(index.range(Bound::Included(from), Bound::Included(to), usize::MAX)?);
            let ends = found.first().zip(found.last());
            ensure!(
                found.len() == selected && ends == Some((&(from, !from), &(to, !to))),
                "a range of {selected} entries has {}",
                found.len()
            );
            Ok(())
        })?;
        let entries = self.queries * selected as u64;
        let took = start.elapsed();
        let mut figures = times.figures("range");
        figures.push(("entry_mean_ns".into(), took.as_nanos() as f64 / entries as f64));
        figures.push(("range_entries_count".into(), selected as f64));
        figures.push(("range_mops".into(), entries as f64 / took.as_secs_f64() / 1e6));
        Ok(figures)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{of, run};

    #[test]
    fn a_query_returns_its_share_of_the_keys() {
        for system in ["FastFair", "CircTree", "BdTree", "BTreeMap"] {
            for (ratio, selected) in [(0.0001, 1.0), (0.01, 20.0), (1.0, 2000.0)] {
                let text = format!(
                    "system = \"{system}\"\nmedium = \"dram\"\nslots = 64\nkeys = 2000\n\
                     ratio = {ratio}\nqueries = 5"
                );
                let figures = run("range", &text);
                assert_eq!(of(&figures, "range_entries_count"), selected);
                let (query, entry) = (of(&figures, "range_mean_ns"), of(&figures, "entry_mean_ns"));
                assert!(query > 0.0 && entry > 0.0);
            }
        }
    }
}
