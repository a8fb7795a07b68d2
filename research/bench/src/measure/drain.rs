//! How many nodes a tree has while its pairs go, by the order in which they go.

use std::borrow::Borrow;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use everleaf_pmem::{Counted, Dram, Geometry};
use everleaf_tree::blink::{Blink, Condition};
use everleaf_tree::slots::{Circular, Layout, Linear, Probe, Scan, Sentinel};
use everleaf_tree::slots::{Keys, OwnedOf, Strings, Words};
use everleaf_tree::{INDEX_ANCHOR, TreeReport};
use serde::Deserialize;

use super::kind::{Context, Figures, Measure};
use crate::keys::{lookup, seeded};

/// In which order pairs come and go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RemovalOrder {
    /// Ascending keys; so many of them are live, and the least goes when a new one comes.
    Queue,
    /// The same with uniform keys: each goes when its time is over.
    Expiring,
    /// Ascending keys; then eight sweeps over all, each of which removes an eighth at random.
    Sweeps,
    /// Uniform keys; then all from the least up.
    Ascending,
    /// Uniform keys; then all in another order.
    Random,
}

/// The parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drain {
    /// `CircTree`, `FastFair` or `StringTree`.
    system: String,
    slots: u32,
    /// Pairs that are live at most.
    keys: u64,
    /// Pairs that come in all, of a queue and of those that expire.
    ops: u64,
    order: RemovalOrder,
}

/// Keys that come, and keys that go.
type Writes = Box<dyn Iterator<Item = (u64, bool)>>;

impl Drain {
    fn writes(&self, seed: u64) -> Writes {
        let (n, ops) = (self.keys, self.ops);
        let passing = move |key: fn(u64, u64) -> u64| -> Writes {
            let gone = move |i: u64| i.checked_sub(n).map(|i| (key(seed, i), false));
            Box::new(
                (0..ops).flat_map(move |i| std::iter::once((key(seed, i), true)).chain(gone(i))),
            )
        };
        let uniform = move || (0..n).map(move |i| (seeded(seed, i), true));
        match self.order {
            RemovalOrder::Queue => passing(|_, i| i),
            RemovalOrder::Expiring => passing(seeded),
            RemovalOrder::Sweeps => {
                let sweep = move |turn| (0..n).filter(move |i| seeded(seed, *i) >> 61 == turn);
                let gone = (0..8).flat_map(sweep).map(|i| (i, false));
                Box::new((0..n).map(|i| (i, true)).chain(gone))
            }
            RemovalOrder::Ascending => {
                let mut keys: Vec<u64> = (0..n).map(|i| seeded(seed, i)).collect();
                keys.sort_unstable();
                Box::new(uniform().chain(keys.into_iter().map(|k| (k, false))))
            }
            RemovalOrder::Random => {
                let mut order: Vec<u64> = (0..n).collect();
                order.sort_by_key(|i| lookup(*i, u64::MAX));
                let gone = order.into_iter().map(move |i| (seeded(seed, i), false));
                Box::new(uniform().chain(gone))
            }
        }
    }

    /// At most 2 and one for each two fifths of a node are allowed: the share of that which a level has.
    fn share(&self, report: &TreeReport) -> f64 {
        let mut below = report.entries as f64;
        let mut worst = 0.0_f64;
        for nodes in &report.nodes_by_level {
            worst = worst.max(*nodes as f64 / (2.0 + below / (0.4 * f64::from(self.slots))));
            below = *nodes as f64;
        }
        worst
    }

    fn measure<L: Layout, P: Probe, K: Keys>(
        &self,
        seed: u64,
        key: fn(u64) -> OwnedOf<K>,
        value: &K::Input,
    ) -> Result<Figures> {
        type Memory = Counted<Dram>;
        let geometry = Geometry::new(self.slots).context("slots")?;
        let pages = self.keys * 8 / u64::from(self.slots) + 4096;
        let memory = Counted::new(Dram::new(geometry, pages as u32)?);
        let pool = Arc::new(Blink::<Memory, (L, P, K)>::format_pool(memory)?);
        let tree = Blink::<Memory, (L, P, K)>::create(Arc::clone(&pool), INDEX_ANCHOR)?;
        let every = (self.keys / 16).max(1);
        let (mut live, mut worst, mut most, mut lines, mut gone) = (0, 0.0_f64, 0, 0, 0_u64);
        for (i, (k, comes)) in (1..).zip(self.writes(seed)) {
            if comes {
                tree.put(key(k).borrow(), value, Condition::Absent)?;
                live += 1;
            } else {
                let before = pool.medium().counts();
                ensure!(tree.remove(key(k).borrow())?.epoch.is_some(), "a key is not there");
                lines += (pool.medium().counts() - before).flushes;
                (live, gone) = (live - 1, gone + 1);
            }
            if i % every == 0 {
                let report = tree.check()?;
                ensure!(report.entries == live && report.damages.is_empty(), "it is not whole");
                worst = worst.max(self.share(&report));
                most = most.max(report.nodes_by_level[0]);
            }
        }
        let end = tree.check()?.nodes_by_level;
        Ok(vec![
            ("most_leaves_count".into(), most as f64),
            ("end_leaves_count".into(), end[0] as f64),
            ("end_inner_nodes_count".into(), end[1..].iter().sum::<u64>() as f64),
            ("of_bound_share".into(), worst),
            ("remove_flushed_lines".into(), lines as f64 / gone.max(1) as f64),
        ])
    }
}

impl Measure for Drain {
    fn check(&self) -> Result<()> {
        let systems = ["CircTree", "FastFair", "StringTree"];
        ensure!(systems.contains(&&self.system[..]), "one of {systems:?}");
        ensure!(Geometry::new(self.slots).is_some_and(|_| self.slots >= 16), "slots: 16 to 1024");
        ensure!(self.keys > 0 && self.ops >= self.keys, "no keys, or less ops than keys");
        Ok(())
    }

    fn run(&self, context: &Context, _round: u32) -> Result<Figures> {
        let word = |k: u64| k;
        let string = |k: u64| format!("{k:020}").into_bytes();
        match &self.system[..] {
            "FastFair" => self.measure::<Linear, Scan, Words>(context.seed, word, &7),
            "CircTree" => self.measure::<Circular, Sentinel, Words>(context.seed, word, &7),
            _ => self.measure::<Circular, Sentinel, Strings>(context.seed, string, b"7"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{of, run};

    #[test]
    fn all_that_goes_gives_its_leaves_back() {
        for order in ["queue", "expiring", "sweeps", "ascending", "random"] {
            for system in ["CircTree", "FastFair", "StringTree"] {
                let cell = format!(
                    "system = {system:?}\nslots = 16\nkeys = 500\nops = 5000\norder = {order:?}"
                );
                let figures = run("drain", &cell);
                assert!(of(&figures, "of_bound_share") <= 1.0, "{cell}: {figures:?}");
                let passes = ["queue", "expiring"].contains(&order);
                let end = of(&figures, "end_leaves_count");
                assert!(passes || end <= 2.0, "{cell}: {figures:?}");
                assert!(end < of(&figures, "most_leaves_count") || passes, "{figures:?}");
            }
        }
    }
}
