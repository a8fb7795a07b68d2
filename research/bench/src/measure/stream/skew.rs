//! How accesses spread over the keys of a workload (BD+Tree, Fig. 4 and Tables 1 and 2).

use std::collections::HashMap;

use anyhow::{Result, ensure};
use serde::Deserialize;

use super::source::{Stream, StreamSizes, workload};
use crate::measure::kind::{Context, Figures, Measure, one};

/// Bytes of a pair, of which a working set is made.
const PAIR_BYTES: u64 = 16;

/// The parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeySkew {
    /// A name of Table 2 or Table 1.
    workload: String,
    /// The divisor of key spaces and operations.
    #[serde(default = "one")]
    shrink: u64,
    /// Operations.
    ops: u64,
    /// Reads of a hundred operations; traces have their own.
    reads: Option<u32>,
    /// How much of the key space is looked at, the keys that are accessed most.
    percent: u64,
}

impl KeySkew {
    fn sizes(&self, seed: u64) -> StreamSizes {
        let operations = (self.ops / self.shrink).max(1);
        StreamSizes { shrink: self.shrink, operations, reads: self.reads, puts_only: false, seed }
    }
}

impl Measure for KeySkew {
    fn check(&self) -> Result<()> {
        ensure!(self.shrink > 0 && self.ops > 0, "nothing to do");
        ensure!((1..=100).contains(&self.percent), "{} percent of the keys", self.percent);
        workload(&self.workload, self.sizes(0)).map(|_| ())
    }

    fn run(&self, context: &Context, _round: u32) -> Result<Figures> {
        let sizes = self.sizes(context.seed);
        let workload = workload(&self.workload, sizes)?;
        let stream = Stream::drawn(&workload, sizes.operations)?;
        let mut accesses: HashMap<u64, u64> = HashMap::new();
        stream.steps.iter().for_each(|step| *accesses.entry(step.key).or_default() += 1);
        let mut counts: Vec<u64> = accesses.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let hot = (stream.items * self.percent / 100) as usize;
        let among: u64 = counts.iter().take(hot).sum();
        let bytes = counts.len() as u64 * PAIR_BYTES;
        Ok(vec![
            ("accesses_share".into(), among as f64 / stream.steps.len() as f64),
            ("working_set_mib".into(), bytes as f64 / f64::from(1 << 20)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::{of, run};

    fn share(workload: &str, percent: u64) -> f64 {
        let text = format!(
            "workload = '{workload}'\nreads = 20\nshrink = 100\nops = 100_000_000\npercent = {percent}"
        );
        of(&run("skew", &text), "accesses_share")
    }

    #[test]
    fn accesses_are_as_skewed_as_the_law_says() {
        // The sum of r^-1.01 to a tenth of 100,000 items over that to all of them is 0.819.
        assert!((share("Z1", 10) - 0.819).abs() < 0.01);
        assert!(share("Z2", 10) > share("Z1", 10));
        assert_eq!(share("Z1", 100), 1.0);
        // Each of 100,000 keys is hit 10 times on average: by Poisson's law the 40 % that are hit most get 0.524.
        let uniform = share("U2", 40);
        assert!((uniform - 0.524).abs() < 0.005, "the hottest of a uniform draw: {uniform}");
    }
}
