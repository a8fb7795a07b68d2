//! How many nodes a tree of so many keys has, by the order in which they came.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use everleaf_pmem::{Dram, Geometry};
use everleaf_tree::blink::Blink;
use everleaf_tree::slots::Words;
use everleaf_tree::slots::{Circular, Layout, Linear, Probe, Scan, Sentinel};
use everleaf_tree::{INDEX_ANCHOR, Index};
use serde::Deserialize;

use super::kind::{Context, Figures, Measure};
use crate::keys::seeded;

/// In which order keys come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum VisitOrder {
    /// Spread over all of u64.
    Uniform,
    /// 0, 1, 2 …
    Ascending,
    /// 2^63, 2^63 + 1 …: a tree of words begins with two leaves that meet there, so these go to the end of the
    /// rightmost one.
    Appended,
    /// Down to 0.
    Descending,
    /// Twice as many each time, each new one in the middle between two old ones: each split leaves
    /// two halves that then fill up again.
    Halving,
}

/// The parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeVisits {
    /// `FastFair` or `CircTree`.
    system: String,
    slots: u32,
    keys: u64,
    order: VisitOrder,
}

impl NodeVisits {
    fn keys(&self, seed: u64) -> Box<dyn Iterator<Item = u64>> {
        let n = self.keys;
        match self.order {
            VisitOrder::Uniform => Box::new((0..n).map(move |i| seeded(seed, i))),
            VisitOrder::Ascending => Box::new(0..n),
            VisitOrder::Appended => Box::new(1 << 63..(1 << 63) + n),
            VisitOrder::Descending => Box::new((0..n).rev()),
            VisitOrder::Halving => Box::new(halving(u64::from(self.slots) * 2, n)),
        }
    }

    fn measure<L: Layout, P: Probe>(&self, seed: u64) -> Result<Figures> {
        type Tree<L, P> = Blink<Dram, (L, P, Words)>;
        let geometry = Geometry::new(self.slots).context("slots")?;
        let pages = self.keys * 3 / u64::from(self.slots) + 1024;
        let pool = Tree::<L, P>::format_pool(Dram::new(geometry, pages as u32)?)?;
        let tree = Tree::<L, P>::create(Arc::new(pool), INDEX_ANCHOR)?;
        for k in self.keys(seed) {
            ensure!(tree.insert(k, !k)?.is_none(), "a key came twice");
        }
        let report = tree.check()?;
        ensure!(report.entries == self.keys && report.damages.is_empty(), "the tree is not whole");
        let inner = report.nodes_by_level[1..].iter().sum::<u64>();
        Ok(vec![
            ("leaves_count".into(), report.nodes_by_level[0] as f64),
            ("inner_nodes_count".into(), inner as f64),
            ("inner_nodes_bytes".into(), (inner * u64::from(self.slots) * 16) as f64),
            ("levels_count".into(), report.nodes_by_level.len() as f64),
            ("fill_share".into(), report.fill),
        ])
    }
}

/// `first` keys at equal distances, then those in the middle between them, and so on until there are
/// `n` of them: a power of two times `first`.
fn halving(first: u64, n: u64) -> impl Iterator<Item = u64> {
    let step = u64::MAX / first + 1;
    let rounds = (n / first).ilog2();
    let starts = (0..first).map(move |i| i * step);
    starts.chain((0..rounds).flat_map(move |round| {
        let (count, step) = (first << round, step >> round);
        (0..count).map(move |i| i * step + step / 2)
    }))
}

impl Measure for NodeVisits {
    fn check(&self) -> Result<()> {
        ensure!(["FastFair", "CircTree"].contains(&&self.system[..]), "FastFair or CircTree");
        ensure!(Geometry::new(self.slots).is_some(), "slots: a power of two, 4 to 1024");
        let first = u64::from(self.slots) * 2;
        let fits = self.keys.is_multiple_of(first) && (self.keys / first).is_power_of_two();
        ensure!(
            self.order != VisitOrder::Halving || fits,
            "halving needs a power of two times {first} keys"
        );
        ensure!(self.keys > 0, "no keys");
        Ok(())
    }

    fn run(&self, context: &Context, _round: u32) -> Result<Figures> {
        match &self.system[..] {
            "FastFair" => self.measure::<Linear, Scan>(context.seed),
            _ => self.measure::<Circular, Sentinel>(context.seed),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn halving_gives_each_key_once_at_equal_distances() {
        let keys: Vec<u64> = halving(8, 64).collect();
        let sorted: BTreeSet<u64> = keys.iter().copied().collect();
        assert_eq!((keys.len(), sorted.len()), (64, 64));
        assert!(sorted.into_iter().eq((0..64).map(|i| i << 58)));
        assert_eq!(keys[8], 1 << 60, "the first new one is in the middle");
    }

    #[test]
    fn full_nodes_make_as_few_inner_nodes_as_there_can_be() {
        let context = Context { seed: 1, scratch: "".into(), dax: None };
        let nodes = NodeVisits {
            system: "CircTree".into(),
            slots: 8,
            keys: 4096,
            order: VisitOrder::Halving,
        };
        nodes.check().expect("a cell");
        let figures = nodes.run(&context, 1).expect("memory");
        let of = |name: &str| figures.iter().find(|(own, _)| own == name).map(|(_, v)| *v);
        // 4096 / 8 leaves, then 64, 8 and 1.
        assert_eq!(of("leaves_count"), Some(512.0));
        assert_eq!(of("inner_nodes_count"), Some(73.0));
        assert_eq!((of("levels_count"), of("fill_share")), (Some(4.0), Some(1.0)));
    }

    #[test]
    fn keys_in_a_row_leave_full_nodes() {
        let fill = |order| {
            let nodes = NodeVisits { system: "CircTree".into(), slots: 16, keys: 4096, order };
            nodes.run(&Context { seed: 1, scratch: "".into(), dax: None }, 1).expect("memory")[4].1
        };
        assert!(fill(VisitOrder::Appended) > 0.95 && fill(VisitOrder::Ascending) > 0.95);
        assert!(fill(VisitOrder::Descending) > 0.9 && fill(VisitOrder::Uniform) < 0.8);
    }
}
