//! Accounts and transfers: money moves, and its sum stays what it is.
//!
//! ```sh
//! cargo run --release -p everleaf --example ledger [POOL]
//! ```
//!
//! | tree        | key                        | value                                             |
//! |-------------|----------------------------|---------------------------------------------------|
//! | `accounts`  | name                       | balance in cents (8 bytes)                        |
//! | `transfers` | number (8 bytes, big-endian) | amount (8 bytes), payer, a zero byte, payee     |
//!
//! A transfer changes both balances and appends to `transfers`, in one batch. That protects it from
//! crashes: all of it survives, or nothing does.
//!
//! It does not protect it from other threads. Everleaf has no isolation between threads yet: between
//! reading a balance and writing it another thread may change it, and a reader may see the payer's new
//! balance beside the payee's old one. So the ledger has a lock of its own. Whoever transfers holds it,
//! and so does whoever reads more than one balance.

use std::error::Error;
use std::path::Path;
use std::sync::Mutex;
use std::thread;

use everleaf::{Db, Tree};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

struct Ledger {
    db: Db,
    accounts: Tree,
    transfers: Tree,
    /// The number of the next transfer. It is the lock.
    next: Mutex<u64>,
}

impl Ledger {
    fn open(path: &Path) -> Result<Ledger> {
        let db = Db::open(path)?;
        let (accounts, transfers) = (db.tree("accounts")?, db.tree("transfers")?);
        let last =
            transfers.last()?.map(|(key, _)| key.as_slice().try_into().map(u64::from_be_bytes));
        let next = Mutex::new(last.transpose()?.unwrap_or(0) + 1);
        Ok(Ledger { db, accounts, transfers, next })
    }

    /// A single balance. One read is whole by itself and needs no lock.
    fn balance(&self, account: &str) -> Result<Option<i64>> {
        let stored = self.accounts.get(account)?;
        Ok(stored.map(|bytes| bytes.as_slice().try_into().map(i64::from_le_bytes)).transpose()?)
    }

    /// Moves money; false if the payer has not enough of it. The transfer is on disk when this
    /// returns `true`.
    fn transfer(&self, payer: &str, payee: &str, cents: u64) -> Result<bool> {
        let cents = i64::try_from(cents)?;
        if payer == payee {
            return Err("payer and payee are the same account".into());
        }
        let mut next = self.next.lock().expect("no thread panicked");
        let from = self.balance(payer)?.ok_or("no such payer")?;
        let to = self.balance(payee)?.ok_or("no such payee")?;
        if from < cents {
            return Ok(false);
        }
        let to = to.checked_add(cents).ok_or("the payee has too much money")?;
        let record = [&cents.to_le_bytes(), payer.as_bytes(), &[0], payee.as_bytes()].concat();
        let mut batch = self.db.batch();
        batch.insert(&self.accounts, payer, (from - cents).to_le_bytes())?;
        batch.insert(&self.accounts, payee, to.to_le_bytes())?;
        batch.insert(&self.transfers, next.to_be_bytes(), record)?;
        batch.commit()?;
        *next += 1;
        // The lock need not be held while the disk works. The next thread may build on this transfer
        // before it is on disk: its own is in the same epoch or a later one, and a crash never keeps a
        // later epoch without an earlier one. Threads that wait here share one sync.
        drop(next);
        self.db.sync()?;
        Ok(true)
    }

    /// The sum of all balances at one moment.
    fn sum(&self) -> Result<i64> {
        let _lock = self.next.lock().expect("no thread panicked");
        let mut sum = 0;
        for pair in &self.accounts {
            sum += i64::from_le_bytes(pair?.1.as_slice().try_into()?);
        }
        Ok(sum)
    }
}

/// Names of accounts with what each has at the start.
const ACCOUNTS: [(&str, i64); 4] = [("ada", 5_000), ("ben", 500), ("cleo", 0), ("dan", 100_000)];

/// The program: four threads transfer at random while one audits; then the books are read again.
pub fn run(path: &Path) -> Result<()> {
    let ledger = Ledger::open(path)?;
    if ledger.accounts.first()?.is_none() {
        let mut batch = ledger.db.batch();
        for (name, cents) in ACCOUNTS {
            batch.insert(&ledger.accounts, name, cents.to_le_bytes())?;
        }
        batch.commit()?;
    }
    let sum = ACCOUNTS.iter().map(|(_, cents)| cents).sum::<i64>();
    assert_eq!(ledger.sum()?, sum);
    assert!(ledger.transfer("ada", "ada", 1).is_err() && ledger.transfer("ada", "eve", 1).is_err());
    assert!(!ledger.transfer("ada", "ben", sum as u64 + 1)?);

    thread::scope(|scope| {
        let transfers = || -> Result<()> {
            for _ in 0..25 {
                let (payer, other) = (rand::random_range(0..4), rand::random_range(1..4));
                let (payer, payee) = (ACCOUNTS[payer].0, ACCOUNTS[(payer + other) % 4].0);
                ledger.transfer(payer, payee, rand::random_range(0..2_000))?;
            }
            Ok(())
        };
        let writers = [(); 4].map(|()| scope.spawn(transfers));
        while writers.iter().any(|writer| !writer.is_finished()) {
            assert_eq!(ledger.sum()?, sum);
            thread::yield_now();
        }
        writers.into_iter().try_for_each(|writer| writer.join().expect("no writer panicked"))
    })?;
    drop(ledger);

    // What the transfers say, from the start on, is what the accounts have.
    let ledger = Ledger::open(path)?;
    let mut balances = std::collections::BTreeMap::from(ACCOUNTS);
    for pair in &ledger.transfers {
        let (_, record) = pair?;
        let (cents, names) = record.split_first_chunk().ok_or("a transfer is too short")?;
        let (payer, payee) = str::from_utf8(names)?.split_once('\0').ok_or("no two names")?;
        *balances.get_mut(payer).ok_or("an unknown payer")? -= i64::from_le_bytes(*cents);
        *balances.get_mut(payee).ok_or("an unknown payee")? += i64::from_le_bytes(*cents);
    }
    for (name, cents) in balances {
        assert_eq!(ledger.balance(name)?, Some(cents), "{name}");
    }
    assert_eq!(ledger.sum()?, sum);
    println!("{} transfers; the sum is {sum} cents as before", ledger.transfers.iter().count());
    Ok(ledger.db.close()?)
}

/// Runs in the pool that is named, or in one that is removed at the end.
fn main() -> Result<()> {
    match std::env::args_os().nth(1) {
        Some(path) => run(path.as_ref()),
        None => run(&tempfile::tempdir()?.path().join("ledger.ever")),
    }
}
