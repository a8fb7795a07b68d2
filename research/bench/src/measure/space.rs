//! How large the files of a store become while its pairs are updated for long, over the bytes of the pairs
//! that are alive.

use std::time::Instant;

use anyhow::Result;
use serde::Deserialize;

use super::kind::{Context, Figures, Measure};
use super::store::data::{Data, KeyForm, batches};
use super::store::disk;
use crate::keys::seeded;
use crate::store::{self, How};

/// Seconds between two looks at the files.
const LOOK: f64 = 0.1;

/// The parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Space {
    system: String,
    keys: u64,
    value_bytes: usize,
    /// How long pairs are updated, after a load that is not looked at.
    seconds: f64,
    /// Updates at most: no store gets older than another by being faster.
    ops: u64,
}

impl Measure for Space {
    fn check(&self) -> Result<()> {
        store::check_pairs(&self.system, self.keys, self.value_bytes)
    }

    fn lacks(&self, _context: &Context) -> Option<String> {
        store::lacks(&self.system)
    }

    fn run(&self, context: &Context, _round: u32) -> Result<Figures> {
        let dir = tempfile::tempdir_in(&context.scratch)?;
        let how = How { dir: dir.path().into(), ..How::default() };
        let store = store::open(&self.system, &how)?;
        let data = Data::new(KeyForm::Plain, (16, self.value_bytes), false);
        let mut pairs = Vec::new();
        for items in batches(self.keys) {
            data.fill(items, &mut pairs);
            store.put_all(&pairs)?;
        }
        store.settle()?;
        let live = (self.keys * data.pair_bytes() as u64) as f64 / (1 << 20) as f64;
        let loaded = disk::mib(dir.path())?;
        let (mut most, mut sum, mut looks, mut done) = (loaded, 0.0, 0.0, 0);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let (begun, mut looked) = (Instant::now(), Instant::now());
        while begun.elapsed().as_secs_f64() < self.seconds && done < self.ops {
            let id = data.id(seeded(context.seed, done) % self.keys);
            data.key(id, &mut key);
            data.value(id, 1 + done, &mut value);
            store.put(&key, &value)?;
            done += 1;
            if looked.elapsed().as_secs_f64() > LOOK {
                looked = Instant::now();
                let now = disk::mib(dir.path())?;
                most = most.max(now);
                sum += now;
                looks += 1.0;
            }
        }
        let took = begun.elapsed().as_secs_f64();
        let last = disk::mib(dir.path())?;
        store.close()?;
        let closed = disk::mib(dir.path())?;
        let share = |name: &str, mib: f64| (format!("size_{name}_share"), mib / live);
        Ok(vec![
            share("loaded", loaded),
            share("worst", most.max(last)),
            share("mean", if looks > 0.0 { sum / looks } else { last }),
            share("last", last),
            share("closed", closed),
            ("update_kops".into(), done as f64 / took / 1e3),
        ])
    }
}
