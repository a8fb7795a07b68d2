//! The cost of a backup, and the speed that is left to writers beside it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use everleaf::{Db, Tree};
use serde::Deserialize;

use super::kind::{Context, Figures, Measure};
use super::store::data::{Data, KeyForm, batches};
use crate::keys::seeded;

/// The parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backups {
    system: String,
    keys: u64,
    value_bytes: usize,
    /// Threads that update random pairs.
    threads: u64,
    /// How long writers are alone, before and after.
    seconds: f64,
}

struct Pool<'a> {
    work: &'a Backups,
    data: Data,
    db: Db,
    tree: Tree,
    done: AtomicU64,
}

impl Pool<'_> {
    fn load(&self) -> Result<()> {
        let mut pairs = Vec::new();
        for items in batches(self.work.keys) {
            self.data.fill(items, &mut pairs);
            let mut batch = self.db.batch();
            for (key, value) in &pairs {
                batch.put(&self.tree, key, value)?;
            }
            batch.commit()?;
        }
        Ok(self.db.checkpoint()?)
    }

    fn write(&self, seed: u64, is_over: &AtomicBool) -> Result<()> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for i in 0.. {
            let id = self.data.id(seeded(seed, i) % self.work.keys);
            self.data.key(id, &mut key);
            self.data.value(id, 1 + i, &mut value);
            self.tree.put(&key, &value)?;
            self.done.fetch_add(1, Ordering::Relaxed);
            if is_over.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(())
    }

    /// Thousands of updates a second while something is done, and how long that took.
    fn rate(&self, work: impl FnOnce() -> Result<()>) -> Result<(f64, f64)> {
        let (begun, before) = (Instant::now(), self.done.load(Ordering::Relaxed));
        work()?;
        let took = begun.elapsed().as_secs_f64();
        let done = self.done.load(Ordering::Relaxed) - before;
        Ok((done as f64 / took / 1e3, took))
    }

    fn wait(&self) -> Result<()> {
        std::thread::sleep(Duration::from_secs_f64(self.work.seconds));
        Ok(())
    }

    /// Copies; returns the bytes of the copy, which is opened and then removed.
    fn copy(&self, path: &Path) -> Result<f64> {
        self.db.backup(path)?;
        Ok(path.metadata()?.len() as f64 / (1 << 20) as f64)
    }

    fn is_whole(&self, path: &Path) -> Result<()> {
        let copy = Db::open(path)?;
        let tree = copy.open_tree("t")?.context("the copy has no tree")?;
        let mut key = Vec::new();
        for item in (0..self.work.keys).step_by(997) {
            self.data.key(self.data.id(item), &mut key);
            ensure!(tree.contains(&key)?, "a key is not in the copy");
        }
        drop(tree);
        copy.close()?;
        Ok(std::fs::remove_file(path)?)
    }

    fn measure(&self, dir: &Path, seed: u64) -> Result<Figures> {
        self.load()?;
        let path = dir.join("copy.ever");
        let (mut size, mut beside_size) = (0.0, 0.0);
        let (_, alone_took) = self.rate(|| {
            size = self.copy(&path)?;
            Ok(())
        })?;
        self.is_whole(&path)?;
        let is_over = AtomicBool::new(false);
        let (before, (beside, took), after) = std::thread::scope(|scope| -> Result<_> {
            let is_over = &is_over;
            let write = |thread| scope.spawn(move || self.write((seed << 8) + thread, is_over));
            let threads: Vec<_> = (0..self.work.threads).map(write).collect();
            let rates = (|| {
                let (before, _) = self.rate(|| self.wait())?;
                let during = self.rate(|| {
                    beside_size = self.copy(&path)?;
                    Ok(())
                })?;
                let (after, _) = self.rate(|| self.wait())?;
                Ok((before, during, after))
            })();
            is_over.store(true, Ordering::Relaxed);
            threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))?;
            rates
        })?;
        self.is_whole(&path)?;
        let alone = (before + after) / 2.0;
        Ok(vec![
            ("backup_alone_mib_s".into(), size / alone_took),
            ("backup_mib_s".into(), beside_size / took),
            ("backup_ms".into(), took * 1e3),
            ("size_copy_mib".into(), beside_size),
            ("before_kops".into(), before),
            ("beside_kops".into(), beside),
            ("after_kops".into(), after),
            ("alone_kops".into(), alone),
        ])
    }
}

impl Measure for Backups {
    fn check(&self) -> Result<()> {
        ensure!(self.system == "everleaf", "only everleaf is copied");
        ensure!(self.keys > 0 && self.value_bytes >= 8, "no keys, or values of less than 8 bytes");
        Ok(())
    }

    fn run(&self, context: &Context, _round: u32) -> Result<Figures> {
        let dir = tempfile::tempdir_in(&context.scratch)?;
        let db = Db::open(dir.path().join("p.ever"))?;
        let tree = db.tree("t")?;
        let data = Data::new(KeyForm::Plain, (16, self.value_bytes), false);
        let pool = Pool { work: self, data, db, tree, done: AtomicU64::new(0) };
        let figures = pool.measure(dir.path(), context.seed)?;
        let Pool { db, tree, .. } = pool;
        drop(tree);
        db.close()?;
        Ok(figures)
    }
}
