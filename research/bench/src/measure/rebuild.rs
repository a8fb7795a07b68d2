//! How long trees take to open whose inner nodes are built anew from their leaves: `BdTree`, the rivals that the
//! paper opens beside it (BD+Tree §4.3), and PACTree.
//!
//! Persistent memory is emulated in a file whose pages stay in the system's cache, so the time
//! includes the faults that map them, as on DAX, but no disk.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use everleaf_file::{Dax, DaxOptions};
use everleaf_pmem::{BufferedOptions, Geometry};
use everleaf_rivals::named::{self, How};
use everleaf_tree::hybrid::{Progress, Rebuild, Rebuilt};
use everleaf_tree::{BdTree, Index, open_bd_dax};
use serde::Deserialize;

use super::kind::{Context, Figures, Measure, one};
use crate::keys::key;
use crate::system::BUFFERED;

/// The parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reopen {
    /// `BdTree`, `LbTree`, `Montage` or `PacTree`; all but the first open by one thread, after a clean end.
    system: String,
    /// Slots of a leaf of `BdTree`.
    slots: u32,
    /// Pairs.
    keys: u64,
    /// Threads that rebuild.
    #[serde(default = "one")]
    threads: u64,
    /// Puts whose epoch a crash cuts off before the open; 0: a clean end.
    #[serde(default)]
    lost: u64,
}

/// An opened tree and the milliseconds it took: to read all leaves, and all in all.
struct Reopening {
    tree: BdTree<Dax>,
    rebuilt: Rebuilt,
    read: f64,
    all: f64,
}

fn open(path: &Path, options: &DaxOptions, threads: u64) -> Result<Reopening> {
    // So long that no epoch ends but by hand.
    let epochs =
        BufferedOptions { interval: Duration::from_secs(10), ..BufferedOptions::default() };
    let start = Instant::now();
    let read_us = AtomicU64::new(0);
    let progress = |at: Progress| {
        if 2 * at.done <= at.total {
            read_us.fetch_max(start.elapsed().as_micros() as u64, Ordering::Relaxed);
        }
    };
    let how = Rebuild { threads: threads as usize, progress: &progress };
    let (tree, rebuilt) = open_bd_dax(path, options, &epochs, &how)?;
    let all = start.elapsed().as_secs_f64() * 1e3;
    Ok(Reopening { tree, rebuilt, read: read_us.load(Ordering::Relaxed) as f64 / 1e3, all })
}

impl Reopen {
    fn rival(&self, path: &Path, options: &DaxOptions) -> Result<Figures> {
        let how = How::default();
        let tree = named::open_dax(&self.system, path, options, &how)?;
        for k in (0..self.keys).map(key) {
            tree.as_index().insert(k, !k)?;
        }
        // Its medium ends its epochs.
        drop(tree);
        let start = Instant::now();
        let tree = named::open_dax(&self.system, path, options, &how)?;
        let all = start.elapsed().as_secs_f64() * 1e3;
        let last = key(self.keys - 1);
        ensure!(tree.as_index().get(last)? == Some(!last), "a pair is not there");
        Ok(vec![("open_ms".into(), all), ("open_mops".into(), self.keys as f64 / all / 1e3)])
    }

    fn shape(&self) -> Option<(u32, u64)> {
        match &self.system[..] {
            "LbTree" | "Montage" | "PacTree" => named::shape(&self.system, self.slots, self.keys),
            _ => Some((self.slots, self.keys * 3 / u64::from(self.slots) + 1024)),
        }
    }
}

impl Measure for Reopen {
    fn check(&self) -> Result<()> {
        ensure!(self.keys > 0 && self.threads > 0, "no keys, or no threads");
        let has_room = Geometry::new(self.slots).is_some() && self.slots <= 64;
        ensure!(has_room, "{} slots: a power of two, 4 to 64", self.slots);
        match &self.system[..] {
            BUFFERED => Ok(()),
            "LbTree" | "Montage" | "PacTree" => {
                ensure!(self.threads == 1 && self.lost == 0, "{} opens by one thread", self.system);
                Ok(())
            }
            other => bail!("no way to open {other:?} anew"),
        }
    }

    fn run(&self, context: &Context, _round: u32) -> Result<Figures> {
        let dir = tempfile::tempdir_in(context.dax.as_ref().unwrap_or(&context.scratch))?;
        let path = dir.path().join("pool");
        let (slots, pages) = self.shape().context("a shape")?;
        let options = DaxOptions {
            slots,
            pages: pages as u32,
            create: true,
            emulate: context.dax.is_none(),
            ..Default::default()
        };
        if self.system != BUFFERED {
            return self.rival(&path, &options);
        }
        let tree = open(&path, &options, 1)?.tree;
        for k in (0..self.keys).map(key) {
            tree.insert(k, !k)?;
        }
        tree.sync()?;
        for k in (0..self.lost).map(|i| key(i % self.keys)) {
            tree.insert(k, k)?;
        }
        if self.lost > 0 {
            tree.medium().abandon();
        }
        drop(tree);
        let Reopening { tree, rebuilt, read, all } = open(&path, &options, self.threads)?;
        ensure!(tree.get(key(0))? == Some(!key(0)), "a lost put is there");
        Ok(vec![
            ("open_ms".into(), all),
            ("open_read_ms".into(), read),
            ("open_mops".into(), self.keys as f64 / all / 1e3),
            ("leaves_count".into(), rebuilt.leaves as f64),
            ("rolled_back_count".into(), rebuilt.rolled_back as f64),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{of, run};
    use super::*;

    #[test]
    fn a_crash_rolls_back_leaves_and_a_clean_end_none() {
        let dir = tempfile::tempdir().expect("a folder");
        let context = Context { seed: 1, scratch: dir.path().into(), dax: None };
        for lost in [0, 500] {
            let system = BUFFERED.into();
            let reopen = Reopen { system, slots: 32, keys: 5000, threads: 2, lost };
            let figures = reopen.run(&context, 1).expect("room");
            let of = |name| of(&figures, name);
            assert!(of("leaves_count") > 5000.0 / 28.0 && of("open_ms") >= of("open_read_ms"));
            assert_eq!(of("rolled_back_count") > 0.0, lost > 0);
        }
    }

    #[test]
    fn rivals_open_with_what_they_had() {
        for system in ["LbTree", "Montage", "PacTree"] {
            let text = format!("system = '{system}'\nslots = 32\nkeys = 5000");
            assert!(of(&run("rebuild", &text), "open_ms") > 0.0);
        }
    }
}
