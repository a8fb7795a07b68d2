//! What the phases run over: the parameters, the keys and values, an open store.

use std::path::Path;

use serde::Deserialize;
use tempfile::TempDir;

use super::data::Data;
use crate::store::{How, KvStore, SyncMode};

/// How keys are loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loading {
    /// One operation, one transaction.
    #[default]
    Single,
    /// 1,000 operations in one transaction or batch.
    Batch,
}

/// Operations of a batch.
pub const BATCH: u64 = 1000;

/// Pairs of a scan.
pub const SCAN: usize = 100;

/// The parameters.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phases {
    pub system: String,
    /// Phases, joined by `+`.
    pub phases: String,
    #[serde(default)]
    pub load: Loading,
    /// Keys of all threads together.
    pub keys: u64,
    #[serde(default = "word")]
    pub key_bytes: usize,
    #[serde(default = "word")]
    pub value_bytes: usize,
    #[serde(default = "crate::measure::kind::one")]
    pub threads: u64,
    #[serde(default)]
    pub mode: SyncMode,
    /// Operations of get, scan and run, of all threads together; as many as keys if 0.
    #[serde(default)]
    pub ops: u64,
    /// Overwrites between the open and the kill.
    #[serde(default)]
    pub dirty: u64,
}

fn word() -> usize {
    8
}

/// The store of a measurement, and where it is.
pub struct Bench<'a> {
    pub work: &'a Phases,
    pub data: Data,
    pub dir: TempDir,
    pub seed: u64,
    pub store: Box<dyn KvStore>,
}

impl Phases {
    pub fn how(&self, dir: &Path) -> How {
        How { dir: dir.into(), mode: self.mode }
    }

    /// Whether a phase is asked for.
    pub fn has(&self, phase: &str) -> bool {
        self.phases.split('+').any(|own| own == phase)
    }

    pub fn data(&self) -> Data {
        Data::new(self.key_bytes, self.value_bytes)
    }

    pub fn ops(&self) -> u64 {
        if self.ops == 0 { self.keys } else { self.ops }
    }

    /// The operations of one thread of `all`.
    pub fn share(&self, thread: u64, all: u64) -> impl Iterator<Item = u64> + use<> {
        (thread..all).step_by(self.threads as usize)
    }
}
