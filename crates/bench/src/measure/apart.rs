//! What snapshots and transactions cost: a ledger, a queue, reads beside a snapshot, small transactions.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use everleaf::{Db, Tree};
use serde::Deserialize;

use super::kind::{Context, Figures, Measure, one};
use crate::clock::Times;
use crate::keys::seeded;

/// What every account has at the beginning.
const WEALTH: i64 = 1_000_000;
/// The audit waits so long after each look, in milliseconds.
const AUDIT_MS: u64 = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Task {
    /// Transfers between accounts, while somebody adds all of them up.
    Ledger,
    /// The first pair is taken, again and again.
    Queue,
    /// Reads of a tree and of a snapshot of it.
    Snapshot,
    /// As many reads as updates, some in each transaction.
    Mixed,
}

/// The parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Apart {
    system: String,
    task: Task,
    keys: u64,
    /// Operations of each thread: transfers, claims, reads, transactions.
    ops: u64,
    #[serde(default = "one")]
    threads: u64,
    /// Reads and updates of a transaction.
    #[serde(default = "one")]
    per_transaction: u64,
}

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

fn amount(value: Option<Vec<u8>>) -> everleaf::Result<i64> {
    let bytes = value.and_then(|bytes| bytes.try_into().ok());
    bytes.map(i64::from_le_bytes).ok_or(everleaf::Error::NoTree)
}

struct Run<'r> {
    work: &'r Apart,
    db: &'r Db,
    tree: &'r Tree,
    seed: u64,
    /// Times that a transaction was run.
    attempts: AtomicU64,
}

impl Run<'_> {
    fn load(&self) -> Result<()> {
        for n in 0..self.work.keys {
            self.tree.put(key(n), WEALTH.to_le_bytes())?;
        }
        Ok(self.db.checkpoint()?)
    }

    /// Runs something on all threads; says what each operation took, and how many thousand there were a second.
    fn all(&self, op: impl Fn(u64) -> Result<()> + Sync) -> Result<(Times, f64)> {
        let begun = Instant::now();
        let times = std::thread::scope(|scope| {
            let run = |thread| {
                let op = &op;
                scope.spawn(move || {
                    let mut times = Times::default();
                    let items = (0..self.work.ops).map(|i| i * self.work.threads + thread);
                    times.of(items, op).map(|()| times)
                })
            };
            let threads: Vec<_> = (0..self.work.threads).map(run).collect();
            threads.into_iter().try_fold(Times::default(), |mut all, thread| {
                all.merge(&thread.join().expect("no panic")?);
                Ok::<_, anyhow::Error>(all)
            })
        })?;
        let done = (self.work.ops * self.work.threads) as f64;
        Ok((times, done / begun.elapsed().as_secs_f64() / 1e3))
    }

    fn transfer(&self, i: u64) -> Result<()> {
        let x = seeded(self.seed, i);
        let (from, to) = (x % self.work.keys, (x >> 32) % self.work.keys);
        self.db.transact(|tx| {
            self.attempts.fetch_add(1, Ordering::Relaxed);
            let left = amount(tx.get(self.tree, key(from))?)? - 1;
            tx.put(self.tree, key(from), left.to_le_bytes())?;
            let more = amount(tx.get(self.tree, key(to))?)? + 1;
            tx.put(self.tree, key(to), more.to_le_bytes())
        })?;
        Ok(())
    }

    /// Adds all accounts up until it is told to stop; says how often, and how often the sum was wrong.
    fn audit(&self, is_over: &AtomicBool) -> Result<(u64, u64)> {
        let (mut audits, mut bad) = (0, 0);
        while !is_over.load(Ordering::Relaxed) {
            let then = self.db.snapshot()?.of(self.tree)?;
            let sum =
                then.iter().map(|pair| amount(Some(pair?.1))).sum::<everleaf::Result<i64>>()?;
            audits += 1;
            bad += u64::from(sum != WEALTH * self.work.keys as i64);
            drop(then);
            std::thread::sleep(std::time::Duration::from_millis(AUDIT_MS));
        }
        Ok((audits, bad))
    }

    fn ledger(&self) -> Result<Figures> {
        let is_over = AtomicBool::new(false);
        let ((times, rate), (audits, bad)) = std::thread::scope(|scope| {
            let audit = scope.spawn(|| self.audit(&is_over));
            let all = self.all(|i| self.transfer(i));
            is_over.store(true, Ordering::Relaxed);
            let audit = audit.join().expect("no panic")?;
            Ok::<_, anyhow::Error>((all?, audit))
        })?;
        ensure!(bad == 0, "{bad} of {audits} audits found another sum");
        self.figures(&times, rate, "transfer")
    }

    fn figures(&self, times: &Times, rate: f64, what: &str) -> Result<Figures> {
        let done = (self.work.ops * self.work.threads) as f64;
        let again = self.attempts.load(Ordering::Relaxed) as f64 - done;
        let mut figures = times.figures(what);
        figures.push(("kops".into(), rate));
        figures.push(("again_share".into(), again.max(0.0) / done));
        Ok(figures)
    }

    fn queue(&self) -> Result<Figures> {
        ensure!(self.work.keys >= self.work.ops * self.work.threads, "not as many pairs as claims");
        let (times, rate) = self.all(|_| {
            let claimed = self.tree.pop_first()?;
            ensure!(claimed.is_some(), "a claim found nothing");
            Ok(())
        })?;
        let left = self.tree.iter().count() as u64;
        ensure!(left + self.work.ops * self.work.threads == self.work.keys, "{left} are left");
        self.figures(&times, rate, "claim")
    }

    fn mixed(&self) -> Result<Figures> {
        let (times, rate) = self.all(|i| {
            let first = i * self.work.per_transaction;
            self.db.transact(|tx| {
                self.attempts.fetch_add(1, Ordering::Relaxed);
                for n in first..first + self.work.per_transaction {
                    let x = seeded(self.seed, n);
                    let key = key(x % self.work.keys);
                    match x >> 63 {
                        0 => drop(tx.get(self.tree, key)?),
                        _ => tx.put(self.tree, key, n.to_le_bytes())?,
                    }
                }
                Ok::<_, everleaf::Error>(())
            })?;
            Ok(())
        })?;
        self.figures(&times, rate, "transaction")
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

impl Measure for Apart {
    fn check(&self) -> Result<()> {
        ensure!(self.system == "everleaf", "only everleaf is measured");
        ensure!(self.keys > 0 && self.ops > 0 && self.threads > 0, "nothing to do");
        Ok(())
    }

    fn run(&self, context: &Context, _round: u32) -> Result<Figures> {
        let dir = tempfile::tempdir_in(&context.scratch)?;
        let db = Db::open(dir.path().join("p.ever"))?;
        let tree = db.tree("t")?;
        let attempts = AtomicU64::new(0);
        let run = Run { work: self, db: &db, tree: &tree, seed: context.seed, attempts };
        run.load()?;
        let figures = match self.task {
            Task::Ledger => run.ledger(),
            Task::Queue => run.queue(),
            Task::Snapshot => run.snapshot(),
            Task::Mixed => run.mixed(),
        }?;
        drop(tree);
        db.close()?;
        Ok(figures)
    }
}
