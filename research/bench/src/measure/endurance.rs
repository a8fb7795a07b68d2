//! Which lines reach memory through a cache, how often, and whether a flush or an eviction sent them.
//!
//! One thread runs a workload of the BD+Tree paper, with epochs of a number of operations, on a medium behind
//! a [model of a cache](crate::wear), so that all is exact. The first keys are not counted; the cache is as
//! they leave it.

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use super::kind::{Context, Figures, Measure, one};
use super::stream::counts::{prefill, run};
use super::stream::source::{Stream, StreamSizes, apply, workload};
use crate::medium::MediumName;
use crate::system::{Readers, SystemSpec};
use crate::wear::cache::{CacheShape, FlushBy};
use crate::workload::OpKind;

const LINE: f64 = 64.0;
const MIB: u64 = 1 << 20;

/// The parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endurance {
    system: String,
    slots: u32,
    /// A name of Table 2 or Table 1.
    workload: String,
    /// The divisor of the cache, key spaces, operations and epochs.
    #[serde(default = "one")]
    shrink: u64,
    /// Operations.
    ops: u64,
    /// Reads of a hundred operations; traces have their own.
    reads: Option<u32>,
    /// Whether all writes are puts; else half of them are removals.
    #[serde(default)]
    puts_only: bool,
    /// Length of an epoch in operations. Trees without epochs do not heed it.
    epoch_ops: u64,
    /// Size of the cache in MiB.
    cache_mib: u64,
    /// Lines of a set of the cache.
    ways: u64,
    /// The instruction that flushes.
    #[serde(default)]
    flush: FlushBy,
}

impl Endurance {
    fn sizes(&self, seed: u64) -> StreamSizes {
        let Self { shrink, reads, puts_only, .. } = *self;
        StreamSizes { shrink, operations: (self.ops / shrink).max(1), reads, puts_only, seed }
    }

    fn cache(&self) -> Result<CacheShape> {
        let bytes = self.cache_mib.checked_mul(MIB);
        let bytes = bytes.with_context(|| format!("no cache has {} MiB", self.cache_mib))?;
        CacheShape::new(bytes / self.shrink, self.ways, self.flush)
    }

    fn make<'a>(&'a self, context: &'a Context, keys: u64) -> Result<SystemSpec<'a>> {
        Ok(SystemSpec {
            name: &self.system,
            medium: MediumName::Cached(self.cache()?),
            slots: self.slots,
            keys,
            readers: Readers::default(),
            epoch: None,
            epoch_ops: None,
            scratch: &context.scratch,
            dax: None,
        })
    }
}

impl Measure for Endurance {
    fn check(&self) -> Result<()> {
        ensure!(self.shrink > 0, "nothing is divided by 0");
        ensure!(self.ops > 0 && self.epoch_ops > 0, "no operations, in all or in an epoch");
        let keys = workload(&self.workload, self.sizes(0))?.items;
        self.make(&Context::default(), keys)?.check()
    }

    fn run(&self, context: &Context, _round: u32) -> Result<Figures> {
        let sizes = self.sizes(context.seed);
        let stream = Stream::drawn(&workload(&self.workload, sizes)?, sizes.operations)?;
        let subject = self.make(context, stream.items)?.make()?;
        let traffic = || subject.traffic().context("the medium has no cache");
        prefill(&*subject, &stream)?;
        traffic()?.restart();
        let epoch = (self.epoch_ops / self.shrink).max(1);
        run(&*subject, &stream, epoch, |step| apply(subject.index(), step))?;
        subject.sync()?;

        let traffic = traffic()?;
        let (wear, writes) = (traffic.wear(), traffic.wear().writes());
        let steps = stream.steps.iter();
        let ops = steps.filter(|step| step.kind != OpKind::Get).count().max(1) as f64;
        let per_op = |count: u64| count as f64 / ops;
        let mib = |lines: u64| lines as f64 * LINE / MIB as f64;
        let mut figures: Figures = vec![
            ("written_lines".into(), per_op(writes.all())),
            ("flushed_lines".into(), per_op(writes.flushed)),
            ("evicted_lines".into(), per_op(writes.evicted)),
            ("useless_lines".into(), per_op(wear.useless())),
            ("left_lines".into(), per_op(traffic.dirty())),
            ("traffic_mib".into(), mib(writes.all()) * 1e6 / stream.steps.len() as f64),
            // As large as if nothing were shrunk, so that it can stand beside `cache_mib`.
            ("most_dirty_mib".into(), mib(traffic.most_dirty()) * self.shrink as f64),
        ];
        // Where nothing was written no line is the hottest.
        if let Some(spread) = wear.spread() {
            let mean = writes.all() as f64 / spread.lines as f64;
            figures.extend([
                ("distinct_count".into(), spread.lines as f64),
                ("hottest_line_count".into(), spread.hottest as f64),
                ("hottest_over_mean_count".into(), spread.hottest as f64 / mean),
                ("hottest_hundredth_share".into(), spread.hundredth),
            ]);
        }
        Ok(figures)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cell, of, run};
    use super::*;

    fn text(system: &str, workload: &str, cache_mib: u64) -> String {
        format!(
            "system = '{system}'\nslots = 32\nworkload = '{workload}'\nreads = 20\nshrink = 500\n\
             ops = 10_000_000\nepoch_ops = 1_000_000\ncache_mib = {cache_mib}\nways = 16"
        )
    }

    fn figures(system: &str, workload: &str, cache_mib: u64) -> Figures {
        run("endurance", &text(system, workload, cache_mib))
    }

    #[test]
    fn what_a_flush_asks_for_is_written_or_was_before() {
        for system in ["BdTree", "LbTree", "FastFair"] {
            let counted = run(
                "stream",
                &format!(
                    "what = 'lines'\nsystem = '{system}'\nmedium = 'counted'\nslots = 32\nreads = 20\n\
                     workload = 'Z1'\nshrink = 500\nops = 10_000_000\nepoch_ops = 1_000_000"
                ),
            );
            for cache_mib in [10, 10_000] {
                let found = figures(system, "Z1", cache_mib);
                let asked = of(&found, "flushed_lines") + of(&found, "useless_lines");
                assert!((asked - of(&counted, "write_lines")).abs() < 1e-9, "{system}: {asked}");
                let sum = of(&found, "flushed_lines") + of(&found, "evicted_lines");
                assert!((of(&found, "written_lines") - sum).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn dirty_lines_are_evicted_where_an_epoch_is_larger_than_the_cache() {
        let large = figures("BdTree", "U2", 10_000);
        assert_eq!(of(&large, "evicted_lines"), 0.0);
        let dirty = of(&large, "most_dirty_mib");
        let small = (dirty / 4.0) as u64;
        assert!(small > 0, "{dirty} MiB of an epoch are dirty");
        let found = figures("BdTree", "U2", small);
        assert!(of(&found, "evicted_lines") > 0.1 && of(&found, "useless_lines") > 0.1);
        assert!(of(&found, "written_lines") >= of(&large, "written_lines"));
        assert!(of(&found, "most_dirty_mib") <= small as f64);
        let twice = figures("BdTree", "U2", 2 * dirty as u64);
        assert!(of(&twice, "evicted_lines") < of(&found, "evicted_lines") / 10.0);
    }

    #[test]
    fn only_lines_that_nobody_flushes_are_evicted_from_a_tree_without_epochs() {
        for system in ["LbTree", "FpTree", "WbTree"] {
            let found = figures(system, "U2", 10);
            let unflushed = of(&found, "evicted_lines") + of(&found, "left_lines");
            assert_eq!(unflushed, 0.0, "{system} flushes all that it stores");
        }
        // The count in the header, which recovery does not need.
        let evicted = |cache_mib| of(&figures("FastFair", "U2", cache_mib), "evicted_lines");
        assert!(evicted(10) > 0.1);
        assert_eq!(evicted(10_000), 0.0);
    }

    #[test]
    fn a_skewed_workload_heats_few_lines() {
        let share = |workload| of(&figures("LbTree", workload, 10), "hottest_hundredth_share");
        let (even, skewed) = (share("U2"), share("Z2"));
        assert!(even > 0.01 && skewed > 2.0 * even && skewed < 1.0, "{even}, {skewed}");
    }

    #[test]
    fn what_cannot_be_counted_is_refused() {
        let check = |text: &str| crate::measure::check("endurance", &cell(text));
        check(&text("BdTree", "U1", 10)).expect("a cell");
        for (system, cache_mib) in [("VolatileStd", 10), ("BTreeMap", 10), ("BdTree", 0)] {
            assert!(check(&text(system, "U1", cache_mib)).is_err(), "{system}, {cache_mib}");
        }
        let valid = text("BdTree", "U1", 10);
        for (from, to) in [
            ("shrink = 500", "shrink = 0"),
            ("epoch_ops = 1_000_000", "epoch_ops = 0"),
            ("ways = 16", "ways = 0"),
            ("ways = 16", "ways = 16\nflush = 'none'"),
            ("cache_mib = 10", "cache_mib = 9_223_372_036_854_775_807"),
            ("'U1'", "'U9'"),
        ] {
            assert!(check(&valid.replace(from, to)).is_err(), "{to}");
        }
    }
}
