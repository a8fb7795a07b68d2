//! How long a strict tree takes to open, lazily and by the eager walk (FAST+FAIR §5.2, *instant
//! recovery*; Circ-Tree §6.5 and Table 1).
//!
//! *Lazy* is the open, the first get included: every node is recovered when it is touched, so the
//! gets that follow pay for it; how much is shown beside. *Eager* walks over all nodes and enters what
//! parents lack. *Leaks* compares the whole pool with what the tree names and gives back the rest.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};
use everleaf_file::{Dax, DaxOptions};
use everleaf_pmem::{Flush, Geometry};
use everleaf_tree::blink::Blink;
use everleaf_tree::slots::Words;
use everleaf_tree::slots::{Circular, Layout, Linear, Probe, Scan, Segment, Sentinel};
use everleaf_tree::{INDEX_ANCHOR, Index, open_dax, reclaim};
use serde::Deserialize;

use super::kind::{Context, Figures, Measure};
use crate::clock::Times;
use crate::keys::{key, lookup};

/// The most gets after an open.
const SAMPLE: u64 = 100_000;

/// The parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recover {
    /// `FastFair`, `CircTreeSegment` or `CircTree`.
    system: String,
    slots: u32,
    keys: u64,
}

type DaxTree<L, P> = Blink<Dax, (L, P, Words)>;

fn open<L: Layout, P: Probe>(path: &Path, options: &DaxOptions) -> Result<DaxTree<L, P>> {
    Ok(DaxTree::open(open_dax::<L, P>(path, options)?.into(), INDEX_ANCHOR)?)
}

/// Milliseconds that it took, and what it made.
fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(f64, T)> {
    let start = Instant::now();
    let made = work()?;
    Ok((start.elapsed().as_secs_f64() * 1e3, made))
}

impl Recover {
    /// Gets of a sample of the keys.
    fn gets(&self, tree: &impl Index, phase: &str) -> Result<Figures> {
        let sample = SAMPLE.min(self.keys);
        let mut times = Times::default();
        times.of((0..sample).map(|i| lookup(i * (self.keys / sample), self.keys)), |k| {
            ensure!(black_box(tree.get(k)?) == Some(!k), "a key is not there");
            Ok(())
        })?;
        Ok(times.figures(phase))
    }

    fn measure<L: Layout, P: Probe>(&self, context: &Context) -> Result<Figures> {
        let dir = tempfile::tempdir_in(context.dax.as_ref().unwrap_or(&context.scratch))?;
        let path = dir.path().join("pool");
        let options = DaxOptions {
            slots: self.slots,
            pages: (self.keys * 2 / u64::from(self.slots) + 1024) as u32,
            create: true,
            emulate: context.dax.is_none(),
            ..Default::default()
        };
        // Emulated memory needs no write-back to be there for the next open.
        let flush = options.emulate.then_some(Flush::FenceOnly);
        let tree = open::<L, P>(&path, &DaxOptions { flush, ..options.clone() })?;
        for k in (0..self.keys).map(key) {
            Index::insert(&tree, k, !k)?;
        }
        drop(tree);
        let (lazy, tree) = timed(|| {
            let tree = open::<L, P>(&path, &options)?;
            ensure!(Index::get(&tree, key(0))?.is_some(), "a key is not there");
            Ok(tree)
        })?;
        let mut figures = vec![("lazy_ms".into(), lazy)];
        figures.extend(self.gets(&tree, "cold_get")?);
        drop(tree);
        let tree = open::<L, P>(&path, &options)?;
        let (eager, walked) = timed(|| Ok(tree.recover_all(|_| {})?))?;
        figures.push(("eager_ms".into(), eager));
        figures.push(("nodes_count".into(), walked.nodes_by_level.iter().sum::<u64>() as f64));
        figures.extend(self.gets(&tree, "warm_get")?);
        let (leaks, ()) = timed(|| {
            let found = reclaim(tree.pool(), &[tree.check()?])?;
            ensure!(found.is_empty(), "a sound pool leaks");
            Ok(())
        })?;
        figures.push(("leaks_ms".into(), leaks));
        Ok(figures)
    }
}

impl Measure for Recover {
    fn check(&self) -> Result<()> {
        let names = ["FastFair", "CircTreeSegment", "CircTree"];
        ensure!(names.contains(&&self.system[..]), "one of {}", names.join(", "));
        ensure!(Geometry::new(self.slots).is_some(), "slots: a power of two, 4 to 1024");
        ensure!(self.keys > 0, "no keys");
        Ok(())
    }

    fn run(&self, context: &Context, _round: u32) -> Result<Figures> {
        match &self.system[..] {
            "FastFair" => self.measure::<Linear, Scan>(context),
            "CircTreeSegment" => self.measure::<Circular, Segment>(context),
            _ => self.measure::<Circular, Sentinel>(context),
        }
    }
}
