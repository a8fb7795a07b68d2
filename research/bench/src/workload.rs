//! Workloads: which items operations pick, and what they do with them (BD+Tree §4.1, Table 2).
//!
//! Items are numbered from 0 and [`key`] scatters them over the key space, so the hot items of a
//! Zipfian workload lie in different leaves. A stream is made before any clock starts, and is the
//! same for the same seed, for any number of threads and for every tree.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, bail, ensure};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::keys::key;

/// α where a distribution is named without one: YCSB's, and the paper's for *latest*.
const ALPHA: f64 = 0.99;

/// The number of items that an [`Operation`] can name.
const MAX_ITEMS: u64 = 1 << 31;

/// How operations pick items.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Skew {
    /// Each item as often as any other.
    Uniform,
    /// Item r - 1 with a probability in proportion to `r^-α`.
    Zipf(f64),
    /// As Zipfian, by recency: the item that was written last is picked most often. YCSB's
    /// *latest*, for a key space that does not grow: its counter of inserts becomes a list in the
    /// order of last writes.
    Latest(f64),
}

impl FromStr for Skew {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (name, alpha) = match text.split_once(':') {
            None => (text, None),
            Some((name, alpha)) => (name, Some(alpha.parse().context("α is a number")?)),
        };
        ensure!(alpha.is_none_or(|a: f64| a.is_finite() && a >= 0.0), "α is 0 or more");
        Ok(match (name, alpha) {
            ("uniform", None) => Self::Uniform,
            ("zipf", alpha) => Self::Zipf(alpha.unwrap_or(ALPHA)),
            ("latest", alpha) => Self::Latest(alpha.unwrap_or(ALPHA)),
            _ => bail!("no distribution is called {text:?}: uniform, zipf:ALPHA, latest:ALPHA"),
        })
    }
}

impl fmt::Display for Skew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Zipf(alpha) => write!(f, "zipf:{alpha}"),
            Self::Latest(alpha) => write!(f, "latest:{alpha}"),
        }
    }
}

/// The kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpKind {
    /// A lookup.
    Get,
    /// An insert, or an update if the key is there.
    Put,
    /// A removal, if the key is there.
    Remove,
}

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    item: u32,
    /// Its kind.
    pub kind: OpKind,
}

impl Operation {
    /// The item that it is about.
    pub fn item(self) -> u32 {
        self.item
    }

    /// The key that it is about.
    pub fn key(self) -> u64 {
        key(self.item.into())
    }
}

/// The parameters that a stream of operations is drawn with.
#[derive(Debug, Clone, Copy)]
pub struct Workload {
    /// The size of the key space.
    pub items: u64,
    /// How operations pick items.
    pub picks: Skew,
    /// How many operations of a hundred are reads.
    pub reads: u32,
    /// Whether all writes are puts; else every second one is a removal.
    pub puts_only: bool,
    /// Where the stream starts.
    pub seed: u64,
}

impl Workload {
    /// The keys that are there before the first operation: of each item with probability 1/2
    /// (BD+Tree §4.1.1), in random order.
    pub fn prefill(&self) -> impl Iterator<Item = u64> {
        let salt = key(self.seed);
        (0..self.items).filter(move |item| key(item ^ salt) & 1 == 0).map(key)
    }

    /// So many operations. O(1) each; O(log(items + operations)) for *latest*.
    ///
    /// # Errors
    /// No items or too many, more than 100 % of reads.
    pub fn stream(&self, operations: u64) -> anyhow::Result<Vec<Operation>> {
        ensure!((1..=MAX_ITEMS).contains(&self.items), "1 to {MAX_ITEMS} keys");
        ensure!(self.reads <= 100, "{} % of reads", self.reads);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let mut source = PickSource::new(self.picks, self.items as u32, operations)?;
        Ok((0..operations)
            .map(|_| {
                let kind = match rng.random_range(0..100) < self.reads {
                    true => OpKind::Get,
                    false if self.puts_only || rng.random() => OpKind::Put,
                    false => OpKind::Remove,
                };
                Operation { item: source.pick(&mut rng, kind != OpKind::Get), kind }
            })
            .collect())
    }
}

/// A stream in turns: operation i goes to thread `i % threads`.
pub fn deal(stream: &[Operation], threads: usize) -> Vec<Vec<Operation>> {
    (0..threads).map(|t| stream.iter().skip(t).step_by(threads).copied().collect()).collect()
}

/// Draws items.
enum PickSource {
    Uniform(u32),
    Zipf(Zipf<f64>),
    Latest(Zipf<f64>, Recency),
}

impl PickSource {
    fn new(picks: Skew, items: u32, operations: u64) -> anyhow::Result<Self> {
        let zipf = |alpha| Zipf::new(f64::from(items), alpha).context("α");
        Ok(match picks {
            Skew::Uniform => Self::Uniform(items),
            Skew::Zipf(alpha) => Self::Zipf(zipf(alpha)?),
            Skew::Latest(alpha) => {
                Self::Latest(zipf(alpha)?, Recency::new(items, operations as usize))
            }
        })
    }

    /// The item of the next operation.
    fn pick(&mut self, rng: &mut Xoshiro256PlusPlus, writes: bool) -> u32 {
        match self {
            Self::Uniform(items) => rng.random_range(0..*items),
            Self::Zipf(zipf) => zipf.sample(rng) as u32 - 1,
            Self::Latest(zipf, recency) => recency.pick(zipf.sample(rng) as u32, writes),
        }
    }
}

/// All items in the order of their last writes: a log of writes in which each item's last entry
/// counts, and a Fenwick tree over the log that finds the r-th entry that counts.
struct Recency {
    log: Vec<u32>,
    /// Node i (from 1) holds how many of the entries `i - lowest_bit(i)..i` count.
    counts: Vec<u32>,
    items: u32,
}

impl Recency {
    /// All items once, with room for so many writes.
    fn new(items: u32, writes: usize) -> Self {
        let capacity = items as usize + writes;
        let mut counts = vec![0; capacity + 1];
        for i in 1..=capacity {
            counts[i] += u32::from(i <= items as usize);
            let parent = i + (i & i.wrapping_neg());
            if parent <= capacity {
                counts[parent] += counts[i];
            }
        }
        let mut log = Vec::with_capacity(capacity);
        log.extend(0..items);
        Self { log, counts, items }
    }

    fn add(&mut self, entry: usize, by: i32) {
        let mut i = entry + 1;
        while i < self.counts.len() {
            self.counts[i] = self.counts[i].wrapping_add_signed(by);
            i += i & i.wrapping_neg();
        }
    }

    /// The item that `rank - 1` others have been written after; `writes`: now it is the newest.
    fn pick(&mut self, rank: u32, writes: bool) -> u32 {
        let mut older = self.items - rank;
        let mut entry = 0;
        let mut step = self.counts.len().next_power_of_two() / 2;
        while step > 0 {
            if let Some(count) = self.counts.get(entry + step).filter(|count| **count <= older) {
                older -= count;
                entry += step;
            }
            step /= 2;
        }
        let item = self.log[entry];
        if writes {
            self.add(entry, -1);
            self.add(self.log.len(), 1);
            self.log.push(item);
        }
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u64 = 7;

    fn workload(items: u64, picks: Skew) -> Workload {
        Workload { items, picks, reads: 20, puts_only: false, seed: SEED }
    }

    /// The share of picks that theory gives to the first `k` of `n` ranks.
    fn share(k: u32, n: u32, alpha: f64) -> f64 {
        let sum = |n: u32| (1..=n).map(|r| f64::from(r).powf(-alpha)).sum::<f64>();
        sum(k) / sum(n)
    }

    fn expect_shares(ranks: &[u64], alpha: f64) {
        let all: u64 = ranks.iter().sum();
        for k in [1, 10, 100, ranks.len() / 2] {
            let found = ranks[..k].iter().sum::<u64>() as f64 / all as f64;
            let theory = share(k as u32, ranks.len() as u32, alpha);
            assert!((found - theory).abs() < 0.005, "top {k}, α {alpha}: {found} for {theory}");
        }
    }

    #[test]
    fn zipfian_items_come_as_often_as_theory_says() {
        for alpha in [0.0, 0.99, 1.0, 1.01, 1.05, 1.7366] {
            let mut ranks = vec![0; 10_000];
            for op in workload(10_000, Skew::Zipf(alpha)).stream(300_000).expect("valid") {
                ranks[op.item as usize] += 1;
            }
            expect_shares(&ranks, alpha);
        }
    }

    #[test]
    fn latest_is_zipfian_over_a_list_that_writes_move_to_the_front_of() {
        let mut list: Vec<u32> = (0..500).rev().collect();
        let mut ranks = vec![0; 500];
        for op in workload(500, Skew::Latest(0.99)).stream(200_000).expect("valid") {
            let at = list.iter().position(|item| *item == op.item).expect("every item is listed");
            ranks[at] += 1;
            if op.kind != OpKind::Get {
                list[..=at].rotate_right(1);
            }
        }
        expect_shares(&ranks, 0.99);
    }

    #[test]
    fn uniform_items_come_equally_often() {
        let mut counts = vec![0u32; 100];
        for op in workload(100, Skew::Uniform).stream(1_000_000).expect("valid") {
            counts[op.item as usize] += 1;
        }
        // 10,000 each; the standard deviation is 99.5.
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 500), "{counts:?}");
    }

    #[test]
    fn reads_puts_and_removals_come_in_their_shares() {
        let of = |kind, stream: &[Operation]| stream.iter().filter(|op| op.kind == kind).count();
        let near = |found: usize, expected: usize| found.abs_diff(expected) < 1000;
        let mixed = workload(1000, Skew::Uniform).stream(100_000).expect("valid");
        assert!(near(of(OpKind::Get, &mixed), 20_000));
        assert!(near(of(OpKind::Put, &mixed), 40_000) && near(of(OpKind::Remove, &mixed), 40_000));
        let puts = Workload { puts_only: true, reads: 80, ..workload(1000, Skew::Uniform) };
        let puts = puts.stream(100_000).expect("valid");
        assert!(near(of(OpKind::Get, &puts), 80_000) && of(OpKind::Remove, &puts) == 0);
    }

    #[test]
    fn a_seed_decides_everything_and_threads_share_one_stream() {
        for picks in ["uniform", "zipf:1.05", "latest"] {
            let picks: Skew = picks.parse().expect("a distribution");
            let one = workload(1000, picks);
            let stream = one.stream(1000).expect("valid");
            assert_eq!(stream, one.stream(1000).expect("valid"));
            assert_ne!(stream, Workload { seed: SEED + 1, ..one }.stream(1000).expect("valid"));
            let dealt = deal(&stream, 3);
            assert!((0..1000).all(|i| dealt[i % 3][i / 3] == stream[i]));
        }
    }

    #[test]
    fn half_of_the_keys_are_there_at_first_hot_or_cold() {
        let one = workload(100_000, Skew::Uniform);
        let keys: Vec<u64> = one.prefill().collect();
        assert!(keys.len().abs_diff(50_000) < 1000);
        let of_the_first = keys.iter().filter(|k| (0..1000).any(|i| key(i) == **k)).count();
        assert!(of_the_first.abs_diff(500) < 100, "{of_the_first}");
    }

    #[test]
    fn names_of_distributions_are_read_as_they_are_written() {
        for picks in [Skew::Uniform, Skew::Zipf(1.05), Skew::Latest(0.99)] {
            assert_eq!(picks.to_string().parse::<Skew>().expect("its own name"), picks);
        }
        assert_eq!("zipf".parse::<Skew>().expect("with YCSB's α"), Skew::Zipf(0.99));
        for wrong in ["", "zipf:", "zipf:-1", "zipf:inf", "uniform:1", "pareto"] {
            assert!(wrong.parse::<Skew>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_cannot_be_drawn_is_refused() {
        assert!(workload(0, Skew::Uniform).stream(1).is_err());
        assert!(workload(MAX_ITEMS + 1, Skew::Uniform).stream(1).is_err());
        assert!(Workload { reads: 101, ..workload(1, Skew::Uniform) }.stream(1).is_err());
    }
}
