//! The time to open a pool by its size, after a close and after a kill, and what is resident then.
//!
//! Pages hold pairs of 400 bytes, loaded in the order of their keys. A pool that is to be larger than that has
//! large values of zeros beside them, whose blocks stay holes in the file: the pool knows nothing of that. Each
//! piece of a value has a head and is as long as a page, so only long pages leave whole blocks of zeros.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use everleaf::{Db, Options};
use serde::{Deserialize, Serialize};

use super::child;
use super::kind::{Context, Figures, Measure};
use super::store::data::{Data, KeyForm, batches};
use super::store::disk;
use crate::keys::key;
use crate::store::{Disk, Meter};

/// Bytes of a pair that is in a leaf.
const PAIR: u64 = 400;

/// Bytes of a large value.
const VALUE: u64 = 1 << 20;

/// The parameters.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sizes {
    system: String,
    /// Bytes of pairs in pages.
    pages_mib: u64,
    /// Bytes of large values.
    values_mib: u64,
    /// Bytes of a page, and of a piece of a large value; the store's default if 0.
    #[serde(default)]
    page_bytes: u32,
    /// Overwrites before the kill.
    dirty: u64,
}

impl Sizes {
    fn pairs(&self) -> u64 {
        (self.pages_mib << 20) / PAIR
    }

    fn data(&self) -> Data {
        Data::new(KeyForm::Plain, (16, PAIR as usize - 16), true)
    }

    fn make(&self, path: &Path) -> Result<Figures> {
        let meter = Meter::new(Disk::Holes);
        let begun = Instant::now();
        let mut options = Options::new();
        if self.page_bytes > 0 {
            options = options.page_bytes(self.page_bytes);
        }
        let db = options.open_on(meter.io(), path)?;
        let (tree, data) = (db.tree("t")?, self.data());
        let mut pairs = Vec::new();
        for items in batches(self.pairs()) {
            data.fill(items, &mut pairs);
            let mut batch = db.batch();
            for (key, value) in &pairs {
                batch.put(&tree, key, value)?;
            }
            batch.commit()?;
        }
        let large = Arc::new(vec![0; VALUE as usize]);
        for i in 0..(self.values_mib << 20) / VALUE {
            tree.put(format!("large {i}"), &large[..])?;
        }
        drop(tree);
        db.close()?;
        Ok(vec![("make_ms".into(), begun.elapsed().as_secs_f64() * 1e3)])
    }

    /// Opens the pool and reads a pair.
    fn open(&self, path: &Path, phase: &str) -> Result<(Db, Figures)> {
        let (before, mut bytes) = (child::anon_bytes(), Vec::new());
        self.data().key(self.pairs() / 2, &mut bytes);
        let begun = Instant::now();
        let db = Db::open(path)?;
        let opened = begun.elapsed();
        let tree = db.open_tree("t")?.context("no tree")?;
        ensure!(tree.contains(&bytes)?, "a key is gone");
        let took = begun.elapsed();
        let resident = (child::anon_bytes().saturating_sub(before)) as f64 / (1 << 20) as f64;
        let figures = vec![
            (format!("{phase}_ms"), opened.as_secs_f64() * 1e3),
            (format!("{phase}_first_get_ms"), took.as_secs_f64() * 1e3),
            (format!("{phase}_resident_mib"), resident),
        ];
        Ok((db, figures))
    }

    fn overwrite(&self, path: &Path) -> Result<Figures> {
        let (db, data) = (Db::open(path)?, self.data());
        let tree = db.open_tree("t")?.context("no tree")?;
        let (mut bytes, mut value) = (Vec::new(), Vec::new());
        for i in 0..self.dirty {
            let id = key(i) % self.pairs();
            data.key(id, &mut bytes);
            data.value(id, 1, &mut value);
            tree.put(&bytes, &value)?;
        }
        db.sync()?;
        let replay = db.stats()?.journal_bytes as f64 / (1 << 20) as f64;
        let figures = vec![("replay_mib".into(), replay)];
        child::wait_for_the_end(&figures)?;
        Ok(figures)
    }
}

impl Measure for Sizes {
    fn check(&self) -> Result<()> {
        ensure!(self.system == "everleaf", "only everleaf is measured by size");
        ensure!(self.pages_mib > 0, "a pair is needed");
        Ok(())
    }

    fn run(&self, context: &Context, _round: u32) -> Result<Figures> {
        let dir = tempfile::tempdir_in(&context.scratch)?;
        let path = dir.path().join("p.ever");
        let mut figures = Figures::new();
        for phase in ["make", "open_clean", "overwrite", "open_killed"] {
            let (found, _) = child::run("sizes", self, phase, (dir.path(), context.seed, None))?;
            figures.extend(found);
            if phase == "make" {
                let size = path.metadata()?.len() as f64 / (1 << 20) as f64;
                figures.push(("size_mib".into(), size));
                figures.push(("size_blocks_mib".into(), disk::mib(dir.path())?));
            }
        }
        Ok(figures)
    }

    fn part(&self, phase: &str, context: &Context) -> Result<Figures> {
        let path = context.scratch.join("p.ever");
        match phase {
            "make" => self.make(&path),
            "overwrite" => self.overwrite(&path),
            _ => {
                let (db, figures) = self.open(&path, phase)?;
                db.close()?;
                Ok(figures)
            }
        }
    }
}
