//! The work that only Everleaf does: claims from a queue, reads beside a snapshot, and views of one moment.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use everleaf::{Db, Tree};

use super::moments;
use super::work::{Apart, Task, WEALTH, key};
use crate::clock::Times;
use crate::keys::seeded;
use crate::measure::kind::Figures;

struct Run<'r> {
    work: &'r Apart,
    db: &'r Db,
    tree: &'r Tree,
    seed: u64,
}

/// Makes a pool, and does it.
pub fn run(work: &Apart, dir: &Path, seed: u64) -> Result<Figures> {
    let db = Db::open(dir.join("p.ever"))?;
    let tree = db.tree("t")?;
    let run = Run { work, db: &db, tree: &tree, seed };
    match work.task {
        Task::Queue | Task::Snapshot => run.load()?,
        _ => work.change(&tree, work.keys)?,
    }
    let figures = match work.task {
        Task::Queue => run.queue(),
        Task::Cursors => moments::cursors(work, &db, &tree),
        Task::Iterators => moments::iterators(work, &db, &tree),
        Task::Waits => moments::waits(work, &db, &tree, seed),
        _ => run.snapshot(),
    }?;
    drop(tree);
    db.close()?;
    Ok(figures)
}

impl Run<'_> {
    fn load(&self) -> Result<()> {
        for n in 0..self.work.keys {
            self.tree.put(key(n), WEALTH.to_le_bytes())?;
        }
        Ok(self.db.checkpoint()?)
    }

    fn all(&self, op: impl Fn(u64) -> Result<()> + Sync) -> Result<(Times, f64)> {
        self.work.on_threads(|| Ok(()), |(), i| op(i))
    }

    fn queue(&self) -> Result<Figures> {
        let claims = self.work.all_ops();
        ensure!(self.work.keys >= claims, "not as many pairs as claims");
        let (times, rate) = self.all(|_| {
            let claimed = self.tree.pop_first()?;
            ensure!(claimed.is_some(), "a claim found nothing");
            Ok(())
        })?;
        let left = self.tree.iter().count() as u64;
        ensure!(left + claims == self.work.keys, "{left} are left");
        let mut figures = times.figures("claim");
        figures.push(("kops".into(), rate));
        Ok(figures)
    }

    /// A read each of the tree without a snapshot, of the tree with one, and of that.
    fn snapshot(&self) -> Result<Figures> {
        let at = |i| key(seeded(self.seed, i) % self.work.keys);
        let get = |i| {
            self.tree.get_with(at(i), |value| value[0])?.context("a key is missing")?;
            Ok(())
        };
        let (_, before) = self.all(get)?;
        let then = self.db.snapshot()?.of(self.tree)?;
        // Something has changed since, so that there is something to look at.
        for n in 0..self.work.keys / 100 {
            self.tree.put(key(n * 97 % self.work.keys), 0_i64.to_le_bytes())?;
        }
        let (_, beside) = self.all(get)?;
        let (_, then_rate) = self.all(|i| {
            then.get_with(at(i), |value| value[0])?.context("a key is missing")?;
            Ok(())
        })?;
        let begun = Instant::now();
        let pairs = then.iter().try_fold(0_u64, |n, pair| pair.map(|_| n + 1))?;
        ensure!(pairs == self.work.keys, "{pairs} pairs in the snapshot");
        let scan = pairs as f64 / begun.elapsed().as_secs_f64() / 1e3;
        drop(then);
        let (_, after) = self.all(get)?;
        Ok(vec![
            ("alone_kops".into(), (before + after) / 2.0),
            ("beside_kops".into(), beside),
            ("then_kops".into(), then_rate),
            ("then_scan_kops".into(), scan),
        ])
    }
}
