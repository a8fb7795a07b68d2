//! The work of stores with transactions: transfers of a ledger, and small transactions of reads and updates.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::work::{Apart, Task, WEALTH, key};
use crate::clock::Times;
use crate::keys::seeded;
use crate::measure::kind::Figures;
use crate::store::{self, Access, How, Transaction, Transactional};

/// The audit waits so long after each look.
const AUDIT: Duration = Duration::from_millis(20);
/// Pairs of a transaction of the load.
const LOADED: u64 = 1000;

struct Run<'r> {
    work: &'r Apart,
    store: &'r dyn Transactional,
    seed: u64,
    /// Times that a transaction was run.
    attempts: AtomicU64,
}

/// Makes a store, and does it.
pub fn run(work: &Apart, dir: &Path, seed: u64) -> Result<Figures> {
    let how = How { dir: dir.to_owned(), ..How::default() };
    let store = store::open_transactional(&work.system, &how)?;
    let run = Run { work, store: &*store, seed, attempts: AtomicU64::new(0) };
    run.load()?;
    let figures = match work.task {
        Task::Mixed => run.mixed(),
        _ => run.ledger(),
    }?;
    store.settle()?;
    Ok(figures)
}

fn amount(bytes: &[u8]) -> Option<i64> {
    bytes.try_into().ok().map(i64::from_le_bytes)
}

/// Adds something to an account.
fn add(tx: &mut dyn Transaction, key: &[u8], more: i64) -> Result<()> {
    let mut found = None;
    tx.get(key, &mut |value| found = amount(value))?;
    let sum = found.context("an account is missing")? + more;
    tx.put(key, &sum.to_le_bytes())
}

impl Run<'_> {
    fn load(&self) -> Result<()> {
        let mut session = self.store.session()?;
        for from in (0..self.work.keys).step_by(LOADED as usize) {
            let mut body = |tx: &mut dyn Transaction| {
                let mut keys = from..self.work.keys.min(from + LOADED);
                keys.try_for_each(|n| tx.put(&key(n), &WEALTH.to_le_bytes()))
            };
            session.transact(Access::Write, &mut body)?;
        }
        self.store.settle()
    }

    /// Runs a transaction for each number, on all threads.
    fn all(
        &self,
        access: impl Fn(u64) -> Access + Sync,
        body: impl Fn(&mut dyn Transaction, u64) -> Result<()> + Sync,
    ) -> Result<(Times, f64)> {
        self.work.on_threads(
            || self.store.session(),
            |session, i| {
                let mut counted = |tx: &mut dyn Transaction| {
                    self.attempts.fetch_add(1, Ordering::Relaxed);
                    body(tx, i)
                };
                session.transact(access(i), &mut counted)
            },
        )
    }

    fn transfer(&self, tx: &mut dyn Transaction, i: u64) -> Result<()> {
        let x = seeded(self.seed, i);
        add(tx, &key(x % self.work.keys), -1)?;
        add(tx, &key((x >> 32) % self.work.keys), 1)
    }

    fn is_balanced(&self) -> Result<bool> {
        let mut sum = Some(0);
        let mut each = |_: &[u8], value: &[u8]| {
            sum = sum.zip(amount(value)).map(|(sum, amount)| sum + amount);
        };
        self.store.scan_snapshot(&mut each)?;
        Ok(sum == Some(WEALTH * self.work.keys as i64))
    }

    /// Adds all accounts up until it is told to stop; says how often, and how often the sum was wrong.
    fn audit(&self, is_over: &AtomicBool) -> Result<(u64, u64)> {
        let (mut audits, mut bad) = (0, 0);
        while !is_over.load(Ordering::Relaxed) {
            audits += 1;
            bad += u64::from(!self.is_balanced()?);
            std::thread::sleep(AUDIT);
        }
        Ok((audits, bad))
    }

    fn ledger(&self) -> Result<Figures> {
        let is_over = AtomicBool::new(false);
        let ((times, rate), (audits, bad)) = std::thread::scope(|scope| {
            let audit = scope.spawn(|| self.audit(&is_over));
            let all = self.all(|_| Access::Write, |tx, i| self.transfer(tx, i));
            is_over.store(true, Ordering::Relaxed);
            let audit = audit.join().expect("no panic")?;
            Ok::<_, anyhow::Error>((all?, audit))
        })?;
        ensure!(bad == 0, "{bad} of {audits} audits found another sum");
        ensure!(self.is_balanced()?, "the sum is another in the end");
        Ok(self.figures(&times, rate, "transfer"))
    }

    /// The operations of a transaction: random numbers, whose highest bit says whether it is an update.
    fn operations(&self, i: u64) -> impl Iterator<Item = (u64, u64)> {
        let (first, seed) = (i * self.work.per_transaction, self.seed);
        (first..first + self.work.per_transaction).map(move |n| (n, seeded(seed, n)))
    }

    fn mixed(&self) -> Result<Figures> {
        let access = |i| match self.operations(i).any(|(_, x)| x >> 63 == 1) {
            true => Access::Write,
            false => Access::Read,
        };
        let (times, rate) = self.all(access, |tx, i| {
            for (n, x) in self.operations(i) {
                let key = key(x % self.work.keys);
                match x >> 63 {
                    0 => ensure!(tx.get(&key, &mut |_| ())?, "a key is missing"),
                    _ => tx.put(&key, &n.to_le_bytes())?,
                }
            }
            Ok(())
        })?;
        Ok(self.figures(&times, rate, "transaction"))
    }

    fn figures(&self, times: &Times, rate: f64, what: &str) -> Figures {
        let done = self.work.all_ops() as f64;
        let again = self.attempts.load(Ordering::Relaxed) as f64 - done;
        let mut figures = times.figures(what);
        figures.push(("kops".into(), rate));
        figures.push(("again_share".into(), again / done));
        figures
    }
}
