//! The setting that the phases run over: the parameters, the keys and values, an open store.

use std::path::Path;

use anyhow::Result;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Deserialize;
use tempfile::TempDir;

use super::data::{BATCH, Data, KeyForm};
use crate::keys::key;
use crate::measure::child::Written;
use crate::store::{How, KvStore, SyncMode};
use crate::workload::{Skew, Workload};

/// How keys are loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loading {
    /// One operation, one transaction.
    #[default]
    Single,
    /// As many operations as a batch has in one transaction or batch.
    Batch,
}

/// Which keys operations are about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Picks {
    /// Keys are loaded in random order; each is picked as often as any other.
    #[default]
    Uniform,
    /// Keys are loaded in random order; the r-th of them is picked in proportion to `r^-0.99`.
    Zipf,
    /// Keys are 0, 1, 2 and so on, and are loaded, picked and deleted in this order.
    Ascending,
}

/// The unit that is timed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Timing {
    /// Each call, with the making of its key and the reading of the clock in it: for percentiles.
    #[default]
    Each,
    /// Blocks of calls whose keys and values were made before: for rates of short calls.
    Bulk,
}

/// The parameters.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phases {
    pub system: String,
    /// Phases, joined by `+`.
    pub phases: String,
    #[serde(default)]
    pub load: Loading,
    /// Pairs of a batch, if keys are loaded so.
    #[serde(default = "batch")]
    pub batch: u64,
    /// Keys of all threads together.
    pub keys: u64,
    #[serde(default)]
    pub form: KeyForm,
    /// Of the forms that have no length of their own.
    #[serde(default = "word")]
    pub key_bytes: usize,
    #[serde(default = "word")]
    pub value_bytes: usize,
    #[serde(default)]
    pub picks: Picks,
    #[serde(default = "crate::measure::kind::one")]
    pub threads: u64,
    #[serde(default)]
    pub mode: SyncMode,
    #[serde(default)]
    pub timing: Timing,
    /// Operations of get, update and run, of all threads together; as many as keys if 0.
    #[serde(default)]
    pub ops: u64,
    /// Scans, of all threads together; as many as `ops` if 0.
    #[serde(default)]
    pub scans: u64,
    /// Overwrites between the open and the kill.
    #[serde(default)]
    pub dirty: u64,
    /// Bytes of a page, where they can be chosen; the store's default if 0.
    #[serde(default)]
    pub page_bytes: u32,
}

fn word() -> usize {
    8
}

fn batch() -> u64 {
    BATCH
}

/// The store of a measurement, and where it is.
pub struct Bench<'a> {
    pub work: &'a Phases,
    pub data: Data,
    pub dir: TempDir,
    pub seed: u64,
    pub store: Box<dyn KvStore>,
    /// The bytes that the process had written before the store was made.
    pub begun: Written,
}

/// Which item an operation is about.
pub enum Picker {
    Uniform { salt: u64, keys: u64 },
    Listed(Vec<u32>),
    Ascending { step: u64, keys: u64 },
}

impl Picker {
    /// The item of the i-th operation.
    pub fn item(&self, i: u64) -> u64 {
        match self {
            Self::Uniform { salt, keys } => key(i ^ salt) % keys,
            Self::Listed(items) => items[i as usize].into(),
            Self::Ascending { step, keys } => i * step % keys,
        }
    }
}

impl Phases {
    pub fn how(&self, dir: &Path) -> How {
        let page_bytes = self.page_bytes;
        How { dir: dir.into(), mode: self.mode, page_bytes, ..How::default() }
    }

    /// Whether a phase is asked for.
    pub fn has(&self, phase: &str) -> bool {
        self.phases.split('+').any(|own| own == phase)
    }

    pub fn data(&self) -> Data {
        let ascends = self.picks == Picks::Ascending;
        Data::new(self.form, (self.key_bytes, self.value_bytes), ascends)
    }

    pub fn ops(&self) -> u64 {
        if self.ops == 0 { self.keys } else { self.ops }
    }

    pub fn scans(&self) -> u64 {
        if self.scans == 0 { self.ops() } else { self.scans }
    }

    /// The operations of one thread of `all`.
    pub fn share(&self, thread: u64, all: u64) -> impl Iterator<Item = u64> + use<> {
        (thread..all).step_by(self.threads as usize)
    }

    /// The items of so many operations that look at `pairs` pairs each.
    pub fn picker(&self, seed: u64, ops: u64, pairs: u64) -> Result<Picker> {
        let keys = self.keys;
        Ok(match self.picks {
            Picks::Uniform => Picker::Uniform { salt: (seed << 40) ^ (1 << 63), keys },
            Picks::Ascending => Picker::Ascending { step: pairs, keys },
            Picks::Zipf => {
                let picks = Skew::Zipf(0.99);
                let workload = Workload { items: keys, picks, reads: 100, puts_only: true, seed };
                Picker::Listed(workload.stream(ops)?.iter().map(|op| op.item()).collect())
            }
        })
    }

    /// The items in the order in which they are loaded, if that is not the order of their numbers.
    pub fn load_order(&self) -> Option<Vec<u32>> {
        // Scattered keys are in random order already.
        let is_mixed = self.form == KeyForm::User && self.picks != Picks::Ascending;
        is_mixed.then(|| self.shuffled(1))
    }

    /// All items in another order than they were loaded in; ascending if they are picked so.
    pub fn delete_order(&self, seed: u64) -> Vec<u32> {
        match self.picks {
            Picks::Ascending => (0..self.keys as u32).collect(),
            _ => self.shuffled(seed),
        }
    }

    fn shuffled(&self, seed: u64) -> Vec<u32> {
        let mut items: Vec<u32> = (0..self.keys as u32).collect();
        items.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
        items
    }
}
